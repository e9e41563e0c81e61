// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faulty: errors, delays and refusals in front of any backend, by a seeded plan.
//!
//! ```text
//!            refused ─▶ Full
//! submit ──┤ fails ──▶ not done at all; told with its errno
//!            done ───▶ backend ──▶ told late, or told as failed although it was done
//! ```
//!
//! For tests of the code in front: a job that fails may or may not have been done, and both kinds
//! of failure are here. Each fault counts its jobs and draws for itself, so that the same plan and
//! the same jobs give the same faults. A fault that refuses every job leaves nothing through for
//! ever; so does a real device that hangs.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use paternoster_base::chance::Chance;
use paternoster_core::{DeviceFacts, Nanos};

use super::{Backend, Extent, FileFacts, Finished, Full, Holes, Job, NewFile, Shares, Work};

/// The jobs to which a fault applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Which {
    /// All jobs.
    #[default]
    All,
    /// Reads.
    Reads,
    /// Writes and zeroing.
    Writes,
    /// Flushes.
    Flushes,
}

impl Which {
    const fn has(self, work: Work) -> bool {
        match self {
            Which::All => true,
            Which::Reads => matches!(work, Work::Read),
            Which::Writes => matches!(work, Work::Write { .. } | Work::Zero { .. }),
            Which::Flushes => matches!(work, Work::Flush),
        }
    }
}

/// How often a fault happens, among the jobs to which it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Often {
    /// Every nth job.
    Every(u64),
    /// One job in this many, at random.
    OneIn(u64),
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The job is not done and fails with this errno.
    Fails(i32),
    /// The job is done, yet reported with this errno.
    FailsAfterwards(i32),
    /// The job's end is reported this much later.
    Late(Nanos),
    /// The job is not taken.
    Refused,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The jobs to which it applies.
    pub which: Which,
    /// How often it happens.
    pub often: Often,
    /// What it does.
    pub effect: Effect,
}

/// A fault, and the jobs that it has looked at.
#[derive(Debug)]
struct Watch {
    fault: Fault,
    seen: u64,
    chance: Chance,
}

impl Watch {
    /// What happens to a job, if anything does.
    fn look(&mut self, work: Work) -> Option<Effect> {
        if !self.fault.which.has(work) {
            return None;
        }
        self.seen += 1;
        let struck = match self.fault.often {
            Often::Every(count) => self.seen.is_multiple_of(count.max(1)),
            Often::OneIn(count) => self.chance.once_in(count.max(1)),
        };
        struck.then_some(self.fault.effect)
    }
}

/// The verdict on a job.
#[derive(Debug, Clone, Copy, Default)]
struct Verdict {
    fails: i32,
    fails_afterwards: i32,
    late: Nanos,
    until: Nanos,
}

/// A backend with faults.
pub struct Faulty {
    inner: Box<dyn Backend>,
    refusing: Vec<Watch>,
    others: Vec<Watch>,
    /// The verdict on the job in each slot.
    verdicts: Vec<Verdict>,
    /// Told when their time has come.
    held: Vec<(Nanos, Finished)>,
    told: Vec<Finished>,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner.describe()).finish_non_exhaustive()
    }
}

impl Faulty {
    /// `inner` with these faults; `seed` decides what they leave to chance.
    #[must_use]
    pub fn new(inner: Box<dyn Backend>, faults: &[Fault], seed: u64) -> Faulty {
        let watches = faults.iter().zip(0..).map(|(&fault, place)| Watch {
            fault,
            seen: 0,
            chance: Chance::new(seed, place),
        });
        let (refusing, others) =
            watches.partition(|watch: &Watch| watch.fault.effect == Effect::Refused);
        let depth = inner.facts().depth as usize;
        let verdicts = vec![Verdict::default(); depth];
        let (held, told) = (Vec::with_capacity(depth), Vec::with_capacity(depth));
        Faulty { inner, refusing, others, verdicts, held, told }
    }
}

/// What the faults do to a job that is taken.
fn judge(watches: &mut [Watch], now: Nanos, work: Work) -> Verdict {
    let mut verdict = Verdict::default();
    for effect in watches.iter_mut().filter_map(|watch| watch.look(work)) {
        match effect {
            Effect::Fails(errno) if verdict.fails == 0 => verdict.fails = errno,
            Effect::FailsAfterwards(errno) => verdict.fails_afterwards = errno,
            Effect::Late(time) => verdict.late += time,
            Effect::Fails(_) | Effect::Refused => {}
        }
    }
    verdict.until = now + verdict.late;
    verdict
}

// SAFETY: what it takes it tells when `inner` has, or has not given away at all.
unsafe impl Backend for Faulty {
    fn describe(&self) -> String {
        format!("{}, with faults", self.inner.describe())
    }

    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn file(&self, file: u16) -> FileFacts {
        self.inner.file(file)
    }

    unsafe fn submit(&mut self, now: Nanos, job: Job<'_>) -> Result<(), Full> {
        let refused = self.refusing.iter_mut().filter_map(|watch| watch.look(job.work)).count();
        if refused > 0 || job.slot as usize >= self.verdicts.len() {
            return Err(Full);
        }
        let verdict = judge(&mut self.others, now, job.work);
        if verdict.fails != 0 {
            let finished = Finished { slot: job.slot, error: verdict.fails };
            self.held.push((verdict.until, finished));
            return Ok(());
        }
        let slot = job.slot as usize;
        // SAFETY: the caller's promise; a job's end is reported only after the backend has reported
        // it.
        unsafe { self.inner.submit(now, job) }?;
        self.verdicts[slot] = verdict;
        Ok(())
    }

    fn kick(&mut self) {
        self.inner.kick();
    }

    fn reap(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.inner.reap(now, &mut self.told);
        for Finished { slot, error } in self.told.drain(..) {
            let verdict = self.verdicts[slot as usize];
            let error = if error == 0 { verdict.fails_afterwards } else { error };
            self.held.push((verdict.until, Finished { slot, error }));
        }
        self.held.retain(|&(until, told)| {
            if until <= now {
                finished.push(told);
            }
            until > now
        });
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wakeup()
    }

    fn does_at_once(&self) -> bool {
        self.inner.does_at_once()
    }

    fn deadline(&self) -> Option<Nanos> {
        let held = self.held.iter().map(|&(until, _)| until);
        held.chain(self.inner.deadline()).min()
    }

    unsafe fn register(&mut self, arena: NonNull<[u8]>) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.register(arena) };
    }

    fn shares_errors(&self, file: u16) -> Shares {
        self.inner.shares_errors(file)
    }

    fn lost(&self) -> Option<i32> {
        self.inner.lost()
    }

    fn to_hand_over(&self) -> Vec<super::Giving> {
        self.inner.to_hand_over()
    }

    fn extents(
        &mut self,
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        self.inner.extents(file, offset, length, each)
    }

    fn can_add(&self, files: &[NewFile]) -> bool {
        self.inner.can_add(files)
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        self.inner.add(file)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        self.inner.remove(file)
    }

    fn holes(&self, file: u16) -> Option<Holes> {
        self.inner.holes(file)
    }
}

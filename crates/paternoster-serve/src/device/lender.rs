// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lender: a backend, and the memory that it has been lent.
//!
//! ```text
//! part ──Loan──▶ lent[slot] ─Piece─▶ backend        no other code can reach the block now
//! part ◀──Loan── lent[slot] ◀─────── finished
//! ```
//!
//! A kernel, or a thread, writes to the memory of a job until it has ended. So a job's block goes
//! from its owner to the lender, which keeps it until the backend has reported the job; meanwhile
//! no code can access it:
//!
//! ```
//! # use paternoster_core::Nanos;
//! # use paternoster_serve::device::{Job, arena::Arena, lender::{Lender, Loan}};
//! # fn lends(arena: &mut Arena, lender: &mut Lender, job: Job<'static>) {
//! let mut block = arena.take(4096).unwrap();
//! block.bytes_mut().fill(0);
//! let mut loans = vec![Loan { whose: 0, length: 4096, block }];
//! let taken = lender.submit(Nanos::ZERO, job, &mut loans);
//! // After its end:
//! while lender.ended(&mut loans).is_some() {}
//! loans.iter().for_each(|loan| println!("{:?}", loan.block.bytes()));
//! # }
//! ```
//!
//! Its previous owner cannot read it:
//!
//! ```compile_fail,E0382
//! # use paternoster_core::Nanos;
//! # use paternoster_serve::device::{Job, arena::Arena, lender::{Lender, Loan}};
//! # fn lends(arena: &mut Arena, lender: &mut Lender, job: Job<'static>) {
//! let block = arena.take(4096).unwrap();
//! let mut loans = vec![Loan { whose: 0, length: 4096, block }];
//! let taken = lender.submit(Nanos::ZERO, job, &mut loans);
//! block.bytes();
//! # }
//! ```
//!
//! Nor can it be kept by a reference to its bytes:
//!
//! ```compile_fail,E0505
//! # use paternoster_core::Nanos;
//! # use paternoster_serve::device::{Job, arena::Arena, lender::{Lender, Loan}};
//! # fn lends(arena: &mut Arena, lender: &mut Lender, job: Job<'static>) {
//! let block = arena.take(4096).unwrap();
//! let bytes = block.bytes();
//! let mut loans = vec![Loan { whose: 0, length: 4096, block }];
//! let taken = lender.submit(Nanos::ZERO, job, &mut loans);
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! # Invariants
//! I1  What is in `lent` is of a job that the backend took and has not reported.
//! I2  The backend goes before the memory that it knows of.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use paternoster_core::Nanos;

use super::arena::{Arena, Block, Region};
use super::surveyor::Surveyor;
use super::witnesses::Witnesses;
use super::{Backend, Extent, Finished, Full, Job, NewFile, Piece};

/// A block on its way to a backend, or back.
#[derive(Debug)]
pub struct Loan {
    /// Which part gets it back: a number of the caller's.
    pub whose: u32,
    /// How many of its bytes, from the first on, the job moves.
    pub length: u32,
    /// The block.
    pub block: Block,
}

/// Swaps two lists with their memory, so that no loan is moved and nothing allocated.
/// (`std::mem::swap` of them is a call, at four times the price.)
fn exchange(one: &mut Vec<Loan>, other: &mut Vec<Loan>) {
    let kept = std::mem::take(other);
    *other = std::mem::replace(one, kept);
}

/// A backend that has the memory of its jobs while it does them.
pub struct Lender {
    /// First, so that it has gone before the region (I2).
    backend: Box<dyn Backend>,
    /// Loans by slot (I1).
    lent: Vec<Vec<Loan>>,
    finished: Vec<Finished>,
    /// Number of these that were reported.
    told: usize,
    witnesses: Witnesses,
    /// Kept to be used again.
    pieces: Vec<Piece>,
    surveyor: Option<Surveyor>,
    /// The survey that has ended, and what it has found.
    surveyed: Vec<Finished>,
    runs: Vec<(u32, Vec<Extent>)>,
    _registered: Arc<Region>,
}

impl std::fmt::Debug for Lender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("backend", &self.backend.describe()).finish_non_exhaustive()
    }
}

impl Lender {
    /// Tells the backend that blocks will come from this arena.
    #[must_use]
    pub fn new(mut backend: Box<dyn Backend>, arena: &Arena) -> Lender {
        let region = arena.region();
        // SAFETY: the region stays for as long as the lender has it, and it outlives the backend
        // there, whatever becomes of the arena.
        unsafe { backend.register(region.whole()) };
        let depth = backend.facts().depth as usize;
        Lender {
            backend,
            lent: (0..depth).map(|_| Vec::new()).collect(),
            finished: Vec::with_capacity(depth),
            told: 0,
            witnesses: Witnesses::new(depth),
            pieces: Vec::new(),
            surveyor: Surveyor::new().ok(),
            surveyed: Vec::new(),
            runs: Vec::new(),
            _registered: region,
        }
    }

    /// The backend, for queries.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Adds a file, as [`Backend::add`] does.
    pub(crate) fn add(&mut self, file: NewFile) -> Option<u16> {
        self.backend.add(file)
    }

    /// Removes a file, as [`Backend::remove`] does.
    pub(crate) fn remove(&mut self, file: u16) -> Option<NewFile> {
        self.backend.remove(file)
    }

    /// Gives it a job whose pieces are these loans, and the loans with it. They come back by
    /// [`Lender::ended`].
    ///
    /// # Errors
    /// [`Full`]; the job was not taken, and the loans are still there.
    pub fn submit(
        &mut self,
        now: Nanos,
        job: Job<'static>,
        loans: &mut Vec<Loan>,
    ) -> Result<(), Full> {
        let lent = self.lent.get_mut(job.slot as usize).filter(|lent| lent.is_empty());
        let lent = lent.ok_or(Full)?;
        self.pieces.clear();
        for loan in loans.iter_mut() {
            self.pieces.push(loan.block.piece(loan.length as usize));
        }
        // SAFETY: the pieces are of the blocks in `loans`, and a block is the only way to its
        // bytes. If the job is taken they go to `lent`, which nothing reads, and leave it when the
        // backend has reported the job. Should the lender be dropped before, they are never given
        // back, and then their memory is never unmapped.
        unsafe { self.backend.submit(now, Job { pieces: &self.pieces, ..job }) }?;
        exchange(lent, loans);
        if !self.backend.does_at_once() {
            let shared = || self.backend.shares_errors(job.file);
            self.witnesses.begin(job.slot, job.work, job.file, shared);
        }
        Ok(())
    }

    /// Hands over what was submitted.
    pub fn kick(&mut self) {
        self.backend.kick();
    }

    /// Asks the backend what has ended by now; returns whether there is anything not reported yet.
    pub fn reap(&mut self, now: Nanos) -> bool {
        let before = self.finished.len();
        self.backend.reap(now, &mut self.finished);
        self.witnesses.hear(&mut self.finished, before);
        self.told < self.finished.len()
    }

    /// The next job that has ended; its loans are added to `back`.
    pub fn ended(&mut self, back: &mut Vec<Loan>) -> Option<Finished> {
        let Some(&ended) = self.finished.get(self.told) else {
            self.finished.clear();
            self.told = 0;
            return None;
        };
        self.told += 1;
        if let Some(lent) = self.lent.get_mut(ended.slot as usize) {
            if back.is_empty() {
                exchange(back, lent);
            } else {
                back.append(lent);
            }
        }
        Some(ended)
    }

    /// Asks where a file has holes: of a range, the first runs, at most `most`. There is one survey
    /// at a time, which ends with [`Lender::surveyed`].
    pub fn survey(&mut self, file: u16, (offset, length): (u64, u64), most: usize) {
        let found = match (self.backend.holes(file), &mut self.surveyor) {
            (Some(holes), Some(surveyor)) => {
                let question = move || first(most, |each| holes.tell(offset, length, each));
                match surveyor.ask(0, Box::new(question)) {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
            _ => first(most, |each| self.backend.extents(file, offset, length, each)),
        };
        let errno = |error: &std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        let error = found.as_ref().err().map_or(0, errno);
        self.surveyed.push(Finished { slot: 0, error });
        self.runs.push((0, found.unwrap_or_default()));
    }

    /// What the survey has found, with its errno, once it has ended.
    pub fn surveyed(&mut self) -> Option<(i32, Vec<Extent>)> {
        if let Some(surveyor) = &mut self.surveyor {
            surveyor.reap(&mut self.surveyed, &mut self.runs);
        }
        Some((self.surveyed.pop()?.error, self.runs.pop()?.1))
    }

    /// Whether a survey has ended that was not reported yet; no event signals it.
    #[must_use]
    pub const fn has_surveyed(&self) -> bool {
        !self.surveyed.is_empty()
    }

    /// Readable when a survey has ended; `None` if the system has none to give.
    #[must_use]
    pub fn survey_wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.surveyor.as_ref().map(Surveyor::wakeup)
    }
}

/// The first reported runs, at most `most`.
fn first(
    most: usize,
    tell: impl FnOnce(&mut dyn FnMut(Extent) -> bool) -> std::io::Result<()>,
) -> std::io::Result<Vec<Extent>> {
    let mut runs = Vec::new();
    tell(&mut |run| {
        runs.push(run);
        runs.len() < most
    })?;
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use paternoster_core::DeviceFacts;

    use super::*;
    use crate::device::arena::PAGE;
    use crate::device::{FileFacts, Work};

    /// A file of two pages, whose jobs are done when `reap` is called: by addresses alone, as a
    /// kernel does them.
    struct Late {
        file: Vec<u8>,
        held: Vec<(u32, Work, Vec<Piece>)>,
    }

    // SAFETY: a job is done as it is reported.
    unsafe impl Backend for Late {
        fn describe(&self) -> String {
            "late".to_owned()
        }

        fn facts(&self) -> DeviceFacts {
            DeviceFacts { depth: 2, ..DeviceFacts::default() }
        }

        fn file(&self, _: u16) -> FileFacts {
            unreachable!("nobody asks")
        }

        unsafe fn submit(&mut self, _: Nanos, job: Job<'_>) -> Result<(), Full> {
            self.held.push((job.slot, job.work, job.pieces.to_vec()));
            Ok(())
        }

        fn kick(&mut self) {}

        fn reap(&mut self, _: Nanos, finished: &mut Vec<Finished>) {
            for (slot, work, pieces) in self.held.drain(..) {
                let mut at = 0;
                for Piece { at: memory, length } in pieces {
                    let (file, memory) = (self.file[at..].as_mut_ptr(), memory.as_ptr());
                    // SAFETY: the promise of `submit`; the pieces fit into the file.
                    unsafe {
                        match work {
                            Work::Read => memory.copy_from_nonoverlapping(file, length),
                            _ => file.copy_from_nonoverlapping(memory, length),
                        }
                    }
                    at += length;
                }
                finished.push(Finished { slot, error: 0 });
            }
        }

        fn wakeup(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn extents(
            &mut self,
            _: u16,
            _: u64,
            _: u64,
            _: &mut dyn FnMut(Extent) -> bool,
        ) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn late(arena: &Arena) -> Lender {
        Lender::new(Box::new(Late { file: vec![0; 2 * PAGE], held: Vec::new() }), arena)
    }

    fn job(slot: u32, work: Work) -> Job<'static> {
        Job { slot, work, file: 0, offset: 0, length: 0, pieces: &[], sector: 0 }
    }

    /// Two loans: a page, and half of another.
    fn loans(arena: &mut Arena, byte: u8) -> Vec<Loan> {
        let lengths = [4096, 2048];
        let lend = |(whose, length)| {
            let mut block = arena.take(PAGE).expect("there is room");
            block.bytes_mut().fill(byte);
            Loan { whose, length, block }
        };
        (0..).zip(lengths).map(lend).collect()
    }

    /// Do bytes go to the backend and come back, what lies beyond a loan's length untouched, and is
    /// a slot that is in use refused with its loans still there?
    #[test]
    fn what_is_lent_comes_back() {
        let mut arena = Arena::new(1).unwrap();
        let mut lender = late(&arena);
        let mut out = loans(&mut arena, 7);
        let write = job(0, Work::Write { fua: false });
        lender.submit(Nanos::ZERO, write, &mut out).unwrap();
        let mut other = loans(&mut arena, 9);
        assert_eq!(lender.submit(Nanos::ZERO, job(0, Work::Read), &mut other), Err(Full));
        assert_eq!((out.len(), other.len()), (0, 2));
        lender.submit(Nanos::ZERO, job(1, Work::Read), &mut other).unwrap();
        assert!(lender.reap(Nanos::ZERO));
        let mut back = Vec::new();
        while lender.ended(&mut back).is_some() {}
        // Two of the write, two of the read after it: 4096 and 2048 bytes of 7, then its own 9.
        assert_eq!(back.iter().map(|loan| loan.whose).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert!(back[2].block.bytes().iter().all(|&byte| byte == 7));
        let (read, kept) = back[3].block.bytes().split_at(2048);
        assert!(read.iter().all(|&byte| byte == 7) && kept.iter().all(|&byte| byte == 9));
        back.into_iter().for_each(|loan| arena.give_back(loan.block));
        assert_eq!(arena.used(), 0);
    }

    /// May arena and lender be dropped in either order while a job is under way, and blocks that
    /// are out still be read?
    #[test]
    fn memory_outlives_those_who_know_it() {
        for arena_first in [true, false] {
            let mut arena = Arena::new(1).unwrap();
            let mut lender = late(&arena);
            let mut out = loans(&mut arena, 7);
            lender.submit(Nanos::ZERO, job(0, Work::Read), &mut out).unwrap();
            let kept = arena.take(PAGE).unwrap();
            if arena_first {
                drop(arena);
                assert!(lender.reap(Nanos::ZERO));
                drop(lender);
            } else {
                drop(lender);
                drop(arena);
            }
            assert_eq!(kept.bytes(), [0; PAGE]);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Medium: a file behind a page cache, in memory, which can fail where a kernel's can.
//!
//! ```text
//! job ─▶ held ─▶ (any order, when chance says so) ─▶ cache ─▶ disk
//!                                                      └ write-back fails: the block is clean
//!                                                        and lost; each description is told
//!                                                        once, by its next sync
//! ```
//!
//! What is remembered of durability is production's own [`Durability`]. A cut leaves what is on the
//! disk, and of the blocks that are dirty those that chance picks.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paternoster::{DeviceFacts, Nanos};
use paternoster_sim::chance::Chance;

use super::book::zeroes;
use super::plan::Plan;
use crate::device::durability::Durability;
use crate::device::{Backend, Extent, FileFacts, Finished, Full, Job, Piece, Work};

const EIO: i32 = 5;

/// How often something fails, once in so many; 0: never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) write_backs: u64,
}

/// Something that failed, or was told as failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) beat: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// A sync or a durable write: others may be told of it.
    pub(super) durable: bool,
}

/// A range that a discard was of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forgotten {
    pub(super) beat: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_durable: bool,
}

struct Held {
    slot: u32,
    work: Work,
    start: usize,
    end: usize,
    pieces: Vec<Piece>,
    failures: u32,
}

pub(super) struct State {
    cache: Vec<u8>,
    disk: Vec<u8>,
    dirty: Vec<bool>,
    block: usize,
    depth: u32,
    /// Write-backs that failed, and of how many the description that is written to and the one for
    /// flushes were told.
    errors: u64,
    seen: [u64; 2],
    /// Flushes have a description of their own.
    alone: bool,
    /// First byte of the volume.
    base: usize,
    /// Whether zeroes may become holes.
    holes: bool,
    /// What was forgotten, and whether a flush has ended well since.
    pub(super) forgotten: Vec<Forgotten>,
    durability: Durability,
    faults: Faults,
    chance: Chance,
    held: Vec<Held>,
    /// One in so many reaps ends nothing.
    pub(super) lazy: u64,
    pub(super) beat: u64,
    pub(super) ended: u64,
    pub(super) log: Vec<Failure>,
}

/// The medium, in the desk's hands and in the judge's.
#[derive(Clone)]
pub(super) struct Medium(Arc<Mutex<State>>);

impl Medium {
    pub(super) fn new(plan: &Plan, chance: Chance) -> Medium {
        let Plan { block, depth, alone, around, holes, lazy, faults, .. } = *plan;
        let bytes = plan.size + 2 * around;
        Medium(Arc::new(Mutex::new(State {
            cache: vec![0; bytes],
            disk: vec![0; bytes],
            dirty: vec![false; bytes / block],
            block,
            depth,
            errors: 0,
            seen: [0; 2],
            alone,
            base: around,
            holes,
            forgotten: Vec::new(),
            durability: Durability::default(),
            faults,
            chance,
            held: Vec::new(),
            lazy,
            beat: 0,
            ended: 0,
            log: Vec::new(),
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fails(&mut self, one_in: u64) -> bool {
        self.chance.once_in(one_in)
    }

    fn note(&mut self, start: usize, end: usize, durable: bool) -> i32 {
        let base = self.base;
        let (start, end) = (start.saturating_sub(base) as u64, end.saturating_sub(base) as u64);
        self.log.push(Failure { beat: self.beat, start, end, durable });
        EIO
    }

    /// Writes a block back, if it is dirty.
    fn write_back(&mut self, number: usize) {
        if !std::mem::take(&mut self.dirty[number]) {
            return;
        }
        if self.fails(self.faults.write_backs) {
            self.errors += 1;
            return;
        }
        let range = number * self.block..(number + 1) * self.block;
        self.disk[range.clone()].copy_from_slice(&self.cache[range]);
    }

    /// The kernel writes some of it back by itself.
    pub(super) fn write_some_back(&mut self) {
        for number in 0..self.dirty.len() {
            if self.dirty[number] && self.chance.once_in(2) {
                self.write_back(number);
            }
        }
    }

    /// What a description's sync is told.
    fn sync(&mut self, description: usize, start: usize, end: usize) -> i32 {
        for number in start / self.block..end / self.block {
            self.write_back(number);
        }
        if self.seen[description] == self.errors {
            return 0;
        }
        self.seen[description] = self.errors;
        EIO
    }

    /// Puts bytes into the cache, all of them or, if it fails, some.
    fn change(&mut self, start: usize, bytes: &[u8]) -> i32 {
        let fails = self.fails(self.faults.writes);
        let blocks = bytes.len() / self.block;
        let most = if fails { self.chance.below(blocks as u64 + 1) } else { blocks as u64 };
        let length = usize::try_from(most).unwrap() * self.block;
        self.cache[start..start + length].copy_from_slice(&bytes[..length]);
        let first = start / self.block;
        self.dirty[first..first + length / self.block].fill(true);
        if fails { self.note(start, start + bytes.len(), false) } else { 0 }
    }

    /// What becomes of a durable write, as in `device::plain`.
    fn durable(&mut self, held: &Held, error: i32) -> i32 {
        if error != 0 {
            self.durability.doubt(error, self.alone);
            return self.note(held.start, held.end, true);
        }
        match self.durability.is_durable(held.failures) {
            Ok(()) => 0,
            Err(_) => self.note(held.start, held.end, true),
        }
    }

    fn perform(&mut self, held: &Held) -> i32 {
        let (start, end) = (held.start, held.end);
        match held.work {
            Work::Read if self.fails(self.faults.reads) => self.note(start, end, false),
            Work::Read => {
                let mut at = start;
                for piece in &held.pieces {
                    let from = self.cache[at..at + piece.length].as_ptr();
                    let to = piece.at.as_ptr();
                    // SAFETY: the promise of who has submitted it; it was not reported yet.
                    unsafe { to.copy_from_nonoverlapping(from, piece.length) };
                    at += piece.length;
                }
                0
            }
            Work::Write { fua } => {
                let mut bytes = Vec::with_capacity(end - start);
                for piece in &held.pieces {
                    // SAFETY: the same promise.
                    bytes.extend_from_slice(unsafe {
                        std::slice::from_raw_parts(piece.at.as_ptr(), piece.length)
                    });
                }
                let mut error = self.change(start, &bytes);
                if !fua {
                    self.durability.note_write();
                    return error;
                }
                if error == 0 {
                    error = self.sync(0, start, end);
                }
                self.durable(held, error)
            }
            Work::Zero { fua, .. } => {
                let mut error = self.change(start, zeroes(end - start));
                if !fua {
                    self.durability.note_write();
                    return error;
                }
                if error == 0 {
                    error = self.sync(0, 0, self.cache.len());
                }
                self.durable(held, error)
            }
            Work::Discard => {
                let (beat, base) = (self.beat, self.base);
                let (start, end) = ((start - base) as u64, (end - base) as u64);
                self.forgotten.push(Forgotten { beat, start, end, is_durable: false });
                let (start, end) = (held.start, held.end);
                // It is a hint.
                let error = match self.chance.once_in(2) {
                    true => self.change(start, zeroes(end - start)),
                    false => 0,
                };
                self.durability.note_write();
                error
            }
            Work::Prefetch => 0,
            Work::Flush => self.flush(),
        }
    }

    fn flush(&mut self) -> i32 {
        let all = self.cache.len();
        let told = match self.durability.owed() {
            Err(errno) => Err(errno),
            Ok(None) => Ok(()),
            Ok(Some(covers)) => match self.sync(usize::from(self.alone), 0, all) {
                0 => self.durability.covered(covers),
                errno => {
                    self.durability.failed(errno);
                    Err(errno)
                }
            },
        };
        if told.is_ok() {
            self.forgotten.iter_mut().for_each(|range| range.is_durable = true);
        }
        told.err().map_or(0, |_| self.note(0, all, true))
    }

    /// What a power cut leaves.
    pub(super) fn cut(&mut self) -> Vec<u8> {
        let mut left = self.disk.clone();
        let keeps = self.chance.below(3);
        for number in 0..self.dirty.len() {
            if self.dirty[number] && (keeps == 2 || (keeps == 1 && self.chance.once_in(2))) {
                let range = number * self.block..(number + 1) * self.block;
                left[range.clone()].copy_from_slice(&self.cache[range]);
            }
        }
        left
    }
}

// SAFETY: a job is done as it is reported.
unsafe impl Backend for Medium {
    fn describe(&self) -> String {
        "in memory, judged".to_owned()
    }

    fn facts(&self) -> DeviceFacts {
        let depth = self.state().depth;
        DeviceFacts { depth, write_cache: true, fua: true, ..DeviceFacts::default() }
    }

    fn file(&self, _: u16) -> FileFacts {
        let state = self.state();
        FileFacts {
            size: state.cache.len() as u64,
            block: u32::try_from(state.block).unwrap(),
            preferred: 4096,
            readonly: false,
            discards: true,
            zeroes_fast: true,
            rotational: false,
        }
    }

    unsafe fn submit(&mut self, _: Nanos, job: Job<'_>) -> Result<(), Full> {
        let mut state = self.state();
        if state.held.len() >= state.depth as usize {
            return Err(Full);
        }
        let start = usize::try_from(job.offset).unwrap();
        let end = start + usize::try_from(job.length).unwrap();
        assert!(end <= state.cache.len(), "a job beyond the end: {job:?}");
        assert!(start % state.block == 0 && end % state.block == 0, "within a block: {job:?}");
        if let Work::Zero { may_unmap, .. } = job.work {
            assert_eq!(may_unmap, state.holes, "zeroes and holes: {job:?}");
        }
        let failures = state.durability.failures();
        let pieces = job.pieces.to_vec();
        state.held.push(Held { slot: job.slot, work: job.work, start, end, pieces, failures });
        Ok(())
    }

    fn kick(&mut self) {}

    fn reap(&mut self, _: Nanos, finished: &mut Vec<Finished>) {
        let mut state = self.state();
        while !state.held.is_empty() {
            let lazy = state.lazy;
            if state.chance.once_in(lazy) {
                return;
            }
            let count = state.held.len() as u64;
            let which = usize::try_from(state.chance.below(count)).unwrap();
            let held = state.held.swap_remove(which);
            let error = state.perform(&held);
            state.ended += 1;
            finished.push(Finished { slot: held.slot, error });
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn lost(&self) -> Option<i32> {
        self.state().durability.is_not_lost().err()
    }

    fn extents(
        &mut self,
        _: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        let state = self.state();
        let end = usize::try_from(offset + length).unwrap();
        let mut at = usize::try_from(offset).unwrap();
        while at < end {
            let until = ((at / state.block + 1) * state.block).min(end);
            let hole = state.cache[at..until] == *zeroes(until - at);
            if !each(Extent { length: (until - at) as u64, hole }) {
                break;
            }
            at = until;
        }
        Ok(())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Medium: files behind a page cache, in memory, which can fail where a kernel's can.
//!
//! ```text
//! bytes   │ file 0: volume 0, volume 1 │ file 1: volume 2 │     one behind the other
//! job ─▶ held ─▶ (any order, when chance says so) ─▶ cache ─▶ disk
//!                                                      └ write-back fails: the block is clean
//!                                                        and lost; each description is told
//!                                                        once, by its next sync
//! ```
//!
//! What is remembered of durability is production's own [`Durability`]. A cut leaves what is on the
//! disk, and of the blocks that are dirty those that chance picks.
//!
//! Law D3: a job is within its volume's file, and of each of its blocks a client has asked for that
//! sort of work. So nothing can be read, written or forgotten on behalf of a neighbour unseen.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_sim::chance::Chance;

use super::book::zeroes;
use super::plan::{CACHE, Plan, READ, TRIM, WRITE, ZEROES};
use crate::device::durability::Durability;
use crate::device::{Backend, Extent, FileFacts, Finished, Full, Job, Piece, Work};
use crate::locked::locked;

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
    /// Bytes of the file that each volume is in.
    files: Vec<Range<usize>>,
    /// By block: of which kinds requests were sent, a bit each.
    asked: Vec<u16>,
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
        let Plan { block, depth, alone, bytes, holes, lazy, faults, .. } = *plan;
        let end = |file| plan.files.get(file + 1).copied().unwrap_or(bytes);
        let file = |file: usize| plan.files[file]..end(file);
        Medium(Arc::new(Mutex::new(State {
            cache: vec![0; bytes],
            disk: vec![0; bytes],
            dirty: vec![false; bytes / block],
            block,
            depth,
            errors: 0,
            seen: [0; 2],
            alone,
            files: plan.volumes.iter().map(|volume| file(volume.file)).collect(),
            asked: vec![0; bytes / block],
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
        locked(&self.0)
    }
}

impl State {
    /// A client sends a request for these bytes.
    pub(super) fn note_ask(&mut self, kind: u16, start: u64, length: u64) {
        let first = usize::try_from(start).unwrap() / self.block;
        let end = usize::try_from(start + length).unwrap().div_ceil(self.block);
        self.asked[first..end].iter_mut().for_each(|asked| *asked |= 1 << kind);
    }

    /// D3.
    fn was_asked_for(&self, work: Work, start: usize, end: usize) -> bool {
        let kinds: &[u16] = match work {
            // What stands around a change is read, too.
            Work::Read => &[READ, WRITE, ZEROES],
            Work::Write { .. } => &[WRITE, ZEROES],
            Work::Zero { .. } => &[ZEROES],
            Work::Discard => &[TRIM],
            Work::Prefetch => &[CACHE],
            Work::Flush => return true,
        };
        let may = kinds.iter().fold(0, |may, kind| may | 1 << kind);
        self.asked[start / self.block..end / self.block].iter().all(|asked| asked & may != 0)
    }

    fn fails(&mut self, one_in: u64) -> bool {
        self.chance.once_in(one_in)
    }

    fn note(&mut self, start: usize, end: usize, durable: bool) -> i32 {
        let (start, end) = (start as u64, end as u64);
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
                let (beat, first, last) = (self.beat, start as u64, end as u64);
                let forgotten = Forgotten { beat, start: first, end: last, is_durable: false };
                self.forgotten.push(forgotten);
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

    /// The server's process is killed: of what the kernel was given some is done, unheard.
    pub(super) fn kill(&mut self) {
        for held in std::mem::take(&mut self.held) {
            if held.work != Work::Read && self.chance.once_in(2) {
                let _unheard = self.perform(&held);
            }
        }
        self.begin_again();
    }

    /// The power fails; what is left of it all.
    pub(super) fn lose_power(&mut self) -> Vec<u8> {
        let left = self.cut();
        self.held.clear();
        self.cache.clone_from(&left);
        self.disk.clone_from(&left);
        self.dirty.fill(false);
        self.begin_again();
        left
    }

    /// Another server opens the files, and knows nothing of the one before.
    fn begin_again(&mut self) {
        self.durability = Durability::default();
        self.seen = [self.errors; 2];
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

    fn file(&self, file: u16) -> FileFacts {
        let state = self.state();
        FileFacts {
            size: state.files[usize::from(file)].len() as u64,
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
        let file = state.files[usize::from(job.file)].clone();
        let start = file.start + usize::try_from(job.offset).unwrap();
        let end = start + usize::try_from(job.length).unwrap();
        assert!(end <= file.end, "D3: beyond the file's end: {job:?}");
        assert!(state.was_asked_for(job.work, start, end), "D3: nobody asked for it: {job:?}");
        let in_blocks = [start, end].iter().all(|at| at.is_multiple_of(state.block));
        assert!(in_blocks, "within a block: {job:?}");
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
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        let state = self.state();
        let file = state.files[usize::from(file)].clone();
        let mut at = file.start + usize::try_from(offset).unwrap();
        let end = at + usize::try_from(length).unwrap();
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Medium: files with a page cache, all in memory. Any call can fail that can fail in a kernel.
//!
//! ```text
//! bytes   │ file 0: volume 0, volume 1 │ file 1: volume 2 │     one after the other
//! call ─▶ cache ─▶ disk          errno, a short move, a torn write, a hang: at any call
//!           └ write-back fails: the block is clean and lost; each description gets one error, by
//!             its next sync
//! past the page cache: what was written is in the device. If that cannot write it down, the call
//! that wants it down gets the error, no other, and the block is still there to be tried again
//! ```
//!
//! As in a kernel: the page cache's losses are counted by file, and the first call with each
//! description gets the error; a write with O_DIRECT is no page of the cache, and gets the error of
//! its own flush alone. What `fallocate` zeroes is in the page cache in either case: the ends of a
//! range may lie within a block of the file system.
//!
//! It stands in for the kernel under the server's own backends: `calls` makes it a file, `engine` a
//! ring or threads; the backends track durability. A power cut leaves what is on the disk, and
//! random sectors of the dirty blocks: a block may be torn.
//!
//! With a disk that lies (`Flaw`) no promise can be kept: the judge has to notice that something is
//! wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use paternoster_sim::chance::Chance;

use super::calls::Opened;
use super::plan::{CACHE, Plan, READ, TRIM, WRITE, ZEROES, pick};
use crate::device::Work;
use crate::locked::locked;

/// The unit of atomic writes, in bytes.
const SECTOR: usize = 512;
/// The errno of a call that is repeated, and is no failure.
pub(super) const EINTR: i32 = 4;

/// Each kind of call fails once in this many times; 0: never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) write_backs: u64,
    pub(super) syncs: u64,
    pub(super) clears: u64,
    pub(super) seeks: u64,
    /// Less is moved than requested.
    pub(super) shorts: u64,
    /// A call hangs until nothing else makes progress.
    pub(super) hangs: u64,
    /// A ring accepts not all of its entries, or none.
    pub(super) refusals: u64,
}

impl Faults {
    /// The same set without one of them.
    pub(super) fn fewer(self) -> impl Iterator<Item = Faults> {
        let each: [fn(&mut Faults) -> &mut u64; 9] = [
            |it| &mut it.reads,
            |it| &mut it.writes,
            |it| &mut it.write_backs,
            |it| &mut it.syncs,
            |it| &mut it.clears,
            |it| &mut it.seeks,
            |it| &mut it.shorts,
            |it| &mut it.hangs,
            |it| &mut it.refusals,
        ];
        each.into_iter().filter_map(move |of| {
            let mut fewer = self;
            (std::mem::take(of(&mut fewer)) != 0).then_some(fewer)
        })
    }
}

/// How a disk breaks its promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Now and then a write goes to the next block.
    Misdirects,
    /// A sync reports success but has done nothing.
    SyncsNothing,
    /// A write-back fails without an error.
    FailsQuietly,
    /// A write reports that everything was written, but only a part was.
    MovesLess,
}

/// The operations that the file system lacks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lacks {
    pub(super) punch: bool,
    pub(super) zero_range: bool,
    pub(super) dsync: bool,
}

/// A call that failed, or was reported as failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) beat: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// A sync or a durable write: others may get its error.
    pub(super) durable: bool,
    pub(super) errno: i32,
}

/// A range that was discarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forgotten {
    pub(super) beat: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_durable: bool,
}

/// A job that a backend has.
#[derive(Debug, Clone)]
pub(super) struct Doing {
    pub(super) work: Work,
    /// The bytes of the whole job. If one of its calls fails, all of it is reported as failed,
    /// including merged requests whose data an earlier, short call has moved.
    pub(super) range: Range<usize>,
    /// The errno of its last call, if that failed and was not retried.
    pub(super) failed: Option<i32>,
    /// How many ranges had been forgotten when it began.
    pub(super) forgotten: usize,
}

impl Doing {
    const fn is_durable(&self) -> bool {
        matches!(self.work, Work::Write { fua: true } | Work::Zero { fua: true, .. } | Work::Flush)
    }
}

/// The end of a file that was taken out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Closing {
    /// Nothing else had the file open when it was taken out.
    pub(super) was_alone: bool,
    /// When it was closed, once it is.
    pub(super) end: Option<u64>,
    /// Whether its last sync failed.
    pub(super) has_failed: bool,
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    Killed,
    PowerLost,
    HandedOver,
}

pub(super) struct State {
    pub(super) cache: Vec<u8>,
    disk: Vec<u8>,
    dirty: Vec<bool>,
    /// For each block, whether its dirty sectors have bypassed the page cache.
    past_cache: Vec<bool>,
    pub(super) block: usize,
    /// Bytes of each file, and how many write-backs of it failed.
    inodes: Vec<(Range<usize>, u64)>,
    /// All open files.
    pub(super) opened: Vec<Weak<Opened>>,
    /// For each block: the kinds of requests that were sent, a bit each.
    asked: Vec<u16>,
    /// Whether zeroes may become holes.
    pub(super) holes: bool,
    pub(super) lacks: Lacks,
    /// Reads and writes are in whole blocks.
    pub(super) direct: bool,
    /// What was forgotten, and whether a flush has ended well since.
    pub(super) forgotten: Vec<Forgotten>,
    pub(super) faults: Faults,
    pub(super) flaw: Option<Flaw>,
    pub(super) chance: Chance,
    /// What each slot of each server is doing.
    pub(super) doing: BTreeMap<(usize, u32), Doing>,
    /// The job whose call is made.
    pub(super) at: Option<(usize, u32)>,
    /// How each server so far has ended.
    pub(super) servers: Vec<Option<Gone>>,
    /// Files that were taken out, and are still open or were lately, by inode.
    pub(super) closing: BTreeMap<usize, Closing>,
    /// Hanging calls may end.
    pub(super) lets_go: bool,
    /// One in this many checks for a completion finds none.
    pub(super) lazy: u64,
    pub(super) beat: u64,
    pub(super) ended: u64,
    pub(super) log: Vec<Failure>,
}

/// The medium, shared by the servers and the judge.
#[derive(Clone)]
pub(super) struct Medium(Arc<Mutex<State>>);

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Medium")
    }
}

impl Medium {
    pub(super) fn new(plan: &Plan, chance: Chance) -> Medium {
        let Plan { block, bytes, holes, lazy, faults, lacks, direct, flaw, .. } = *plan;
        let ends = plan.files.iter().skip(1).chain([&bytes]);
        let ranges = plan.files.iter().zip(ends).map(|(&start, &end)| start..end);
        Medium(Arc::new(Mutex::new(State {
            cache: vec![0; bytes],
            disk: vec![0; bytes],
            dirty: vec![false; bytes / block],
            past_cache: vec![false; bytes / block],
            block,
            inodes: ranges.map(|range| (range, 0)).collect(),
            opened: Vec::new(),
            asked: vec![0; bytes / block],
            holes,
            lacks,
            direct,
            forgotten: Vec::new(),
            faults,
            flaw,
            chance,
            doing: BTreeMap::new(),
            at: None,
            servers: Vec::new(),
            closing: BTreeMap::new(),
            lets_go: false,
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
    /// Another server opens the files, without knowledge of the one before; returns its number.
    pub(super) fn begin_again(&mut self) -> usize {
        self.servers.push(None);
        self.servers.len() - 1
    }

    /// A client sends a request for these bytes.
    pub(super) fn note_ask(&mut self, kind: u16, start: u64, length: u64) {
        let first = usize::try_from(start).unwrap() / self.block;
        let end = usize::try_from(start + length).unwrap().div_ceil(self.block);
        self.asked[first..end].iter_mut().for_each(|asked| *asked |= 1 << kind);
    }

    /// D3.
    pub(super) fn was_asked_for(&self, work: Work, start: usize, end: usize) -> bool {
        let kinds: &[u16] = match work {
            // The blocks at the edges of a change are read too.
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

    /// The bytes of a file.
    pub(super) fn range(&self, inode: usize) -> Range<usize> {
        self.inodes[inode].0.clone()
    }

    /// Write-backs of a file that failed.
    pub(super) fn errors(&self, inode: usize) -> u64 {
        self.inodes[inode].1
    }

    /// The errno of a call that fails now, if it does.
    pub(super) fn draw(&mut self, one_in: u64, errnos: &[i32]) -> Option<i32> {
        self.chance.once_in(one_in).then(|| pick(&mut self.chance, errnos))
    }

    /// A call has failed with this errno, as far as is known for good.
    pub(super) fn note(&mut self, errno: i32, range: Range<usize>, is_sync: bool) -> i32 {
        if self.at.is_none() {
            // Only a file's last sync is no job's.
            let closing = self.inodes.iter().position(|(bytes, _)| *bytes == range);
            let closing = closing.and_then(|inode| self.closing.get_mut(&inode));
            closing.into_iter().for_each(|it| it.has_failed |= is_sync);
        }
        let doing = self.at.and_then(|slot| self.doing.get_mut(&slot));
        let durable = is_sync || doing.as_ref().is_some_and(|doing| doing.is_durable());
        let mut range = range;
        if let Some(doing) = doing {
            doing.failed = Some(errno);
            range = range.start.min(doing.range.start)..range.end.max(doing.range.end);
        }
        let (start, end) = (range.start as u64, range.end as u64);
        self.log.push(Failure { beat: self.beat, start, end, durable, errno });
        errno
    }

    /// A call of the job that had failed before has succeeded.
    pub(super) fn is_well(&mut self) {
        if let Some(doing) = self.at.and_then(|slot| self.doing.get_mut(&slot)) {
            doing.failed = None;
        }
    }

    /// Writes a block back, if it is dirty; whether it is still to be written.
    fn write_back(&mut self, number: usize, fails: bool) -> bool {
        if !self.dirty[number] || (fails && self.past_cache[number]) {
            return self.dirty[number];
        }
        self.dirty[number] = false;
        let range = number * self.block..(number + 1) * self.block;
        if fails {
            let of = self.inodes.iter_mut().find(|(bytes, _)| bytes.contains(&range.start));
            of.expect("every block is of a file").1 += 1;
            return false;
        }
        let quietly = self.flaw == Some(Flaw::FailsQuietly) && self.chance.once_in(4);
        if !quietly {
            self.disk[range.clone()].copy_from_slice(&self.cache[range]);
        }
        false
    }

    fn write_back_by_chance(&mut self, number: usize) -> bool {
        let fails = self.dirty[number] && self.chance.once_in(self.faults.write_backs);
        self.write_back(number, fails)
    }

    /// The cached pages of a range are written back before a write passes the cache.
    pub(super) fn make_way(&mut self, range: Range<usize>) {
        for number in range.start / self.block..range.end.div_ceil(self.block) {
            if !self.past_cache[number] {
                self.write_back_by_chance(number);
            }
        }
    }

    /// The kernel writes back some blocks by itself.
    pub(super) fn write_some_back(&mut self) {
        for number in 0..self.dirty.len() {
            if self.dirty[number] && self.chance.once_in(2) {
                self.write_back_by_chance(number);
            }
        }
    }

    /// Writes back all of a range, as far as that succeeds; whether the device has failed to.
    pub(super) fn sync(&mut self, range: Range<usize>) -> bool {
        if self.flaw == Some(Flaw::SyncsNothing) {
            return false;
        }
        let blocks = range.start / self.block..range.end.div_ceil(self.block);
        blocks.fold(false, |fails, number| self.write_back_by_chance(number) | fails)
    }

    /// A sync of a range fails: some blocks are written back; some may be lost, if the kernel
    /// reports that.
    pub(super) fn fail_to_sync(&mut self, range: Range<usize>) {
        let may_lose = self.faults.write_backs != 0 && self.chance.once_in(2);
        for number in range.start / self.block..range.end.div_ceil(self.block) {
            let _is_left = match self.chance.below(3) {
                0 => self.write_back(number, false),
                1 if may_lose => self.write_back(number, true),
                _ => false,
            };
        }
    }

    /// Puts bytes into the cache, or past it into the device.
    pub(super) fn change(&mut self, start: usize, bytes: &[u8], past_cache: bool) {
        let end = start + bytes.len();
        self.cache[start..end].copy_from_slice(bytes);
        let blocks = start / self.block..end.div_ceil(self.block);
        self.dirty[blocks.clone()].fill(true);
        self.past_cache[blocks].fill(past_cache);
    }

    /// How much of a change of `length` bytes is done when it fails: some sectors.
    pub(super) fn torn(&mut self, length: usize) -> usize {
        let sectors = self.chance.below((length / SECTOR) as u64 + 1);
        usize::try_from(sectors).unwrap() * SECTOR
    }

    /// Files that were taken out have been closed; bytes of those whose last sync failed while no
    /// other volume had them.
    pub(super) fn closed(&mut self) -> Vec<Range<u64>> {
        let (beat, mut failed) = (self.beat, Vec::new());
        for (&inode, closing) in &mut self.closing {
            if closing.end.is_none() && closing.has_failed && closing.was_alone {
                let Range { start, end } = self.inodes[inode].0;
                failed.push(start as u64..end as u64);
            }
            closing.end.get_or_insert(beat);
        }
        failed
    }

    /// The writes that a flush from `begin` until now does not cover: it cannot know the result of
    /// the last sync of a file that was open at the same time.
    pub(super) fn beside_closing(&self, begin: u64) -> Vec<Range<u64>> {
        if self.faults.write_backs == 0 {
            return Vec::new();
        }
        let beside = self.closing.iter().filter(|(_, it)| it.end.is_none_or(|end| end >= begin));
        let ranges = beside.map(|(&inode, _)| self.inodes[inode].0.clone());
        ranges.map(|it| it.start as u64..it.end as u64).collect()
    }

    /// A server goes in this way.
    pub(super) fn goes(&mut self, server: usize, how: Gone) {
        self.servers[server] = Some(how);
    }

    /// The power fails; returns what is left.
    pub(super) fn lose_power(&mut self) -> Vec<u8> {
        let left = self.cut();
        self.cache.clone_from(&left);
        self.disk.clone_from(&left);
        self.dirty.fill(false);
        self.servers.iter_mut().for_each(|it| *it = it.or(Some(Gone::PowerLost)));
        left
    }

    /// The content that a power cut leaves.
    pub(super) fn cut(&mut self) -> Vec<u8> {
        let mut left = self.disk.clone();
        let keeps = self.chance.below(4);
        for number in 0..self.dirty.len() {
            if !self.dirty[number] || keeps == 0 || (keeps < 3 && self.chance.once_in(2)) {
                continue;
            }
            let block = number * self.block..(number + 1) * self.block;
            for at in block.step_by(SECTOR) {
                if keeps != 2 || self.chance.once_in(2) {
                    left[at..at + SECTOR].copy_from_slice(&self.cache[at..at + SECTOR]);
                }
            }
        }
        left
    }
}

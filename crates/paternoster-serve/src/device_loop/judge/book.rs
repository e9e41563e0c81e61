// SPDX-License-Identifier: MIT OR Apache-2.0
//! Book: which bytes are admissible, after what clients have sent and received.
//!
//! ```text
//! beats      1     2     3     4     5     6
//! A          |--W1 (0)---|
//! B                            |--W2-- …            not answered: W1 or W2
//! C                                  |--R--|        may read either, byte by byte
//! ```
//!
//! A write may be visible from when it was sent. It is gone once it is hidden by another,
//! acknowledged write that began after it had ended. To hide it from a read, the other must have
//! ended before the read began; after a power cut, the other must be promised as well: by its own
//! FUA, or by an acknowledged flush that was sent after its end. A write that failed, or was never
//! answered, may be there or not; a trim may read as zeroes or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

/// Bytes of a medium at most.
const MOST: usize = 512 << 10;
/// How many places of the noise a write's first byte may be taken from.
const START: u64 = 1 << 16;
static ZEROES: [u8; MOST] = [0; MOST];

/// The content that a write leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    Data,
    Zeroes,
    /// Zeroes, perhaps.
    Hint,
    /// The content that a power cut left.
    Left,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    leaves: Leaves,
    begin: u64,
    end: Option<u64>,
    good: bool,
    promised: bool,
}

/// All writes: where, when, and what they left.
pub(super) struct Book {
    writes: Vec<Write>,
    /// By first byte: the writes that may be visible from there to the next run's first byte.
    runs: BTreeMap<u64, Vec<u32>>,
    size: u64,
    left: Vec<u8>,
}

/// The bytes that write `id` leaves from `at` on: a piece of one array of noise, so that many bytes
/// are compared at a time.
pub(super) fn bytes(id: u32, at: u64, length: usize) -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    let noise = NOISE.get_or_init(|| {
        let mixed = (0..START + MOST as u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed
            .map(|mixed| ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8)
            .collect()
    });
    let start = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    let from = usize::try_from(start + at).unwrap();
    &noise[from..from + length]
}

/// This many zeroes.
pub(super) fn zeroes(length: usize) -> &'static [u8] {
    &ZEROES[..length]
}

impl Book {
    /// Zeroes, promised.
    pub(super) fn new(size: u64) -> Book {
        let first =
            Write { leaves: Leaves::Zeroes, begin: 0, end: Some(0), good: true, promised: true };
        Book { writes: vec![first], runs: BTreeMap::from([(0, vec![0])]), size, left: Vec::new() }
    }

    fn split(&mut self, at: u64) {
        if at < self.size && !self.runs.contains_key(&at) {
            let (_, there) = self.runs.range(..at).next_back().expect("a run begins at 0");
            let there = there.clone();
            self.runs.insert(at, there);
        }
    }

    /// Something is about to be written; its number.
    pub(super) fn begin(&mut self, leaves: Leaves, at: u64, length: u64, beat: u64) -> u32 {
        let id = u32::try_from(self.writes.len()).unwrap();
        self.writes.push(Write { leaves, begin: beat, end: None, good: false, promised: false });
        self.split(at);
        self.split(at + length);
        for (_, ids) in self.runs.range_mut(at..at + length) {
            ids.push(id);
        }
        id
    }

    /// A write was reported as done, or as failed.
    pub(super) fn end(&mut self, id: u32, beat: u64, good: bool, fua: bool) {
        let write = &mut self.writes[id as usize];
        write.end = Some(beat);
        write.good = good;
        write.promised = good && fua;
    }

    /// A flush that was sent at `begin` was acknowledged. `oldest` is when the oldest unanswered
    /// read was sent: writes that this read may still see are kept.
    pub(super) fn flushed(&mut self, begin: u64, oldest: u64, but: &[Range<u64>]) {
        let but = self.of(but);
        for (id, write) in (0..).zip(&mut self.writes) {
            let covers = write.good && write.end.is_some_and(|end| end <= begin);
            write.promised |= covers && !but.contains(&id);
        }
        let writes = &self.writes;
        for ids in self.runs.values_mut() {
            let latest = Latest::of(writes, ids, oldest, true);
            ids.retain(|&id| !latest.is_over(writes, id));
        }
    }

    /// What was written there, has ended, and was not promised is lost, and is never promised.
    pub(super) fn lost(&mut self, range: Range<u64>) {
        for id in self.of(&[range]) {
            let write = &mut self.writes[id as usize];
            write.good &= write.promised || write.end.is_none();
        }
    }

    /// All writes within these ranges; none extends beyond them.
    fn of(&self, ranges: &[Range<u64>]) -> BTreeSet<u32> {
        let each = ranges.iter().flat_map(|range| self.runs.range(range.clone()));
        each.flat_map(|(_, ids)| ids.iter().copied()).filter(|id| *id != 0).collect()
    }

    /// The server goes on from what a power cut has left; nothing else is possible any more.
    pub(super) fn go_on_from(&mut self, left: Vec<u8>, beat: u64) {
        let id = u32::try_from(self.writes.len()).unwrap();
        let (leaves, end) = (Leaves::Left, Some(beat));
        self.writes.push(Write { leaves, begin: beat, end, good: true, promised: true });
        self.runs = BTreeMap::from([(0, vec![id])]);
        self.left = left;
    }

    /// Compares `found`, the bytes from `at` on, with all that writes can have left there for a
    /// read that was sent at `begin` (`None`: after a power cut). Returns the first wrong byte.
    pub(super) fn wrong(&self, at: u64, found: &[u8], begin: Option<u64>) -> Option<String> {
        let (end, mut from) = (at + found.len() as u64, at);
        while from < end {
            let (_, ids) = self.runs.range(..=from).next_back().expect("a run begins at 0");
            let next = self.runs.range(from + 1..).next().map_or(self.size, |(&next, _)| next);
            let until = next.min(end);
            let writes = &self.writes;
            let (moment, promised) = (begin.unwrap_or(u64::MAX), begin.is_none());
            let latest = Latest::of(writes, ids, moment, promised);
            let there = ids.iter().copied().filter(|&id| !latest.is_over(writes, id));
            let there: Vec<u32> = there.collect();
            let run =
                &found[usize::try_from(from - at).unwrap()..usize::try_from(until - at).unwrap()];
            let may_be: Vec<&[u8]> =
                there.iter().map(|&id| self.leaves(id, from, run.len())).collect();
            if may_be.contains(&run) {
                from = until;
                continue;
            }
            // Perhaps the bytes come from several writes.
            for (place, (which, &found)) in (from..until).zip(run.iter().enumerate()) {
                if !may_be.iter().any(|bytes| bytes[which] == found) {
                    let there: Vec<_> =
                        there.iter().map(|&id| (id, self.writes[id as usize])).collect();
                    return Some(format!("byte {place} is {found:#04x}; there may be {there:?}"));
                }
            }
            from = until;
        }
        None
    }

    fn leaves(&self, id: u32, at: u64, length: usize) -> &[u8] {
        match self.writes[id as usize].leaves {
            Leaves::Data => bytes(id, at, length),
            Leaves::Zeroes | Leaves::Hint => zeroes(length),
            Leaves::Left => &self.left[usize::try_from(at).unwrap()..][..length],
        }
    }
}

/// Among some writes, the two that began last of those that can hide an earlier one, by beginning
/// and number: if any of them hides a write, one of these two does.
struct Latest([Option<(u64, u32)>; 2]);

impl Latest {
    /// For a read that was sent at `moment`; or for a power cut then, for which only `promised`
    /// writes hide others.
    fn of(writes: &[Write], ids: &[u32], moment: u64, promised: bool) -> Latest {
        let mut latest = [None; 2];
        for &id in ids {
            let by = &writes[id as usize];
            let hides = by.good
                && by.leaves != Leaves::Hint
                && (by.promised || !promised)
                && by.end.is_some_and(|end| end <= moment);
            let this = hides.then_some((by.begin, id));
            if this > latest[0] {
                latest = [this, latest[0]];
            } else if this > latest[1] {
                latest[1] = this;
            }
        }
        Latest(latest)
    }

    /// Whether another write hides this one.
    fn is_over(&self, writes: &[Write], id: u32) -> bool {
        let mut latest = self.0.into_iter().flatten();
        let end = writes[id as usize].end;
        latest.any(|(begin, by)| by != id && end.is_some_and(|end| end <= begin))
    }
}

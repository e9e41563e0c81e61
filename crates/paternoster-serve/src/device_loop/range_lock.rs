// SPDX-License-Identifier: MIT OR Apache-2.0
//! Range locks: which changes of the same bytes may be under way together, and which comes next.
//!
//! A write that begins or ends within a block reads the block first, puts its bytes in and writes
//! it back: it locks its range *exclusively*. Writes, zeroes and discards of whole blocks lock
//! theirs *shared*: among them the medium decides, as on a disk. A lock waits for every earlier
//! lock that is not yet released and overlaps it, if either of the two is exclusive; for no other.
//!
//! ```text
//! bytes       0        4096      8192      12288
//! segments    |    A    |   A, B  |    B    |          A shared, B shared: both are held
//! C exclusive           |  4096..8192 |                lacks one segment, and waits in it
//! D shared    |    0..8192        |                    waits behind C in one, holds the other
//! ```
//!
//! The line is cut into segments where a lock begins or ends, so that each lock is whole segments.
//! Each segment has a queue: its holders, then the waiting locks, by number. A lock is granted when
//! it lacks no segment. A release costs the lock's own segments and the locks it lets go, however
//! many wait; a cut copies a queue, and all cuts together cost no more than one queue for each
//! block from the start.
//!
//! Invariants: I1 segments are disjoint, none is empty, and each has a holder; I2 a lock is in each
//! segment of its range, as holder or waiting, and `lacks` counts those in which it waits; I3 the
//! first waiting lock of a segment conflicts with its holders.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The mode of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// A lock that is held or waited for.
#[derive(Debug)]
struct Lock {
    range: Range<u64>,
    mode: Mode,
    /// Locks are numbered in the order of their requests.
    number: u64,
    /// Segments in which it waits.
    lacks: u32,
}

/// Bytes that belong to the same locks.
#[derive(Debug)]
struct Segment {
    end: u64,
    /// Shared holders, or one exclusive holder.
    shared: u32,
    exclusive: bool,
    /// Waiting locks by number.
    waiting: BTreeMap<u64, (u32, Mode)>,
}

/// The locks of a line of bytes, each named by a small number that its owner chooses.
#[derive(Debug, Default)]
pub(super) struct RangeLocks {
    /// Segments by first byte.
    segments: BTreeMap<u64, Segment>,
    /// Locks by number.
    locks: Vec<Option<Lock>>,
    /// Granted after a wait and not reported yet: name and number.
    granted: VecDeque<(u32, u64)>,
    asked: u64,
    /// Segments and locks that were looked at.
    steps: u64,
}

impl RangeLocks {
    /// Requests a lock of a range that is not empty; returns whether it is granted at once.
    pub(super) fn lock(&mut self, name: u32, range: Range<u64>, mode: Mode) -> bool {
        self.asked += 1;
        let number = self.asked;
        self.cut(range.start);
        self.cut(range.end);
        let (mut at, mut lacks) = (range.start, 0);
        while at < range.end {
            self.steps += 1;
            let next = self.segments.range_mut(at..range.end).next();
            match next {
                Some((&first, segment)) if first == at => {
                    // There is a holder (I1).
                    let joins = mode == Mode::Shared && segment.waiting.is_empty();
                    if joins && !segment.exclusive {
                        segment.shared += 1;
                    } else {
                        segment.waiting.insert(number, (name, mode));
                        lacks += 1;
                    }
                    at = segment.end;
                }
                gap => {
                    let end = gap.map_or(range.end, |(&first, _)| first);
                    let exclusive = mode == Mode::Exclusive;
                    let shared = u32::from(!exclusive);
                    let made = Segment { end, shared, exclusive, waiting: BTreeMap::new() };
                    self.segments.insert(at, made);
                    at = end;
                }
            }
        }
        let place = name as usize;
        if self.locks.len() <= place {
            self.locks.resize_with(place + 1, || None);
        }
        debug_assert!(self.locks[place].is_none(), "a lock is asked for twice");
        self.locks[place] = Some(Lock { range, mode, number, lacks });
        lacks == 0
    }

    /// Releases a lock or withdraws its request; does nothing if there is none of this name.
    pub(super) fn unlock(&mut self, name: u32) {
        let Some(lock) = self.locks.get_mut(name as usize).and_then(Option::take) else { return };
        #[cfg(test)]
        if super::planted::has(super::planted::Bug::LooksAtAll) {
            self.steps += self.locks.iter().flatten().count() as u64;
        }
        let before = self.granted.len();
        let mut at = lock.range.start;
        while at < lock.range.end {
            self.steps += 1;
            let Some(segment) = self.segments.get_mut(&at) else {
                debug_assert!(false, "a lock is in each segment of its range");
                return;
            };
            if segment.waiting.remove(&lock.number).is_none() {
                match lock.mode {
                    Mode::Shared => segment.shared -= 1,
                    Mode::Exclusive => segment.exclusive = false,
                }
            }
            let first = at;
            at = segment.end;
            self.grant(first);
        }
        // In the order of their requests, whichever segment they lacked.
        self.granted.make_contiguous()[before..].sort_unstable_by_key(|&(_, number)| number);
    }

    /// The next lock that was granted after a wait, and is still wanted.
    pub(super) fn next_granted(&mut self) -> Option<u32> {
        while let Some((name, number)) = self.granted.pop_front() {
            let lock = self.locks.get(name as usize).and_then(Option::as_ref);
            if lock.is_some_and(|lock| lock.number == number) {
                return Some(name);
            }
        }
        None
    }

    /// Grants waiting locks that no longer conflict with this segment's holders.
    fn grant(&mut self, first: u64) {
        let Some(segment) = self.segments.get_mut(&first) else { return };
        let mut steps = 0;
        while let Some(next) = segment.waiting.first_entry() {
            let (name, mode) = *next.get();
            match mode {
                _ if segment.exclusive => break,
                Mode::Exclusive if segment.shared != 0 => break,
                Mode::Exclusive => segment.exclusive = true,
                Mode::Shared => segment.shared += 1,
            }
            let (number, _) = next.remove_entry();
            steps += 1;
            let lock = self.locks[name as usize].as_mut().expect("a lock that waits is there");
            lock.lacks -= 1;
            if lock.lacks == 0 {
                self.granted.push_back((name, number));
            }
        }
        if !segment.exclusive && segment.shared == 0 {
            self.segments.remove(&first);
        }
        self.steps += steps;
    }

    /// Splits the segment that contains `at` in two.
    fn cut(&mut self, at: u64) {
        let before = self.segments.range_mut(..at).next_back();
        let Some((_, segment)) = before.filter(|(_, segment)| segment.end > at) else { return };
        let Segment { end, shared, exclusive, ref waiting } = *segment;
        let behind = Segment { end, shared, exclusive, waiting: waiting.clone() };
        segment.end = at;
        let steps = behind.waiting.len() as u64;
        for (name, _) in behind.waiting.values() {
            let lock = self.locks[*name as usize].as_mut().expect("a lock that waits is there");
            lock.lacks += 1;
        }
        self.segments.insert(at, behind);
        self.steps += steps;
    }

    /// Segments and locks that were looked at.
    #[cfg(test)]
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the holders of each contended segment came before all that wait there: none is
    /// overtaken.
    #[cfg(test)]
    pub(super) fn is_in_turn(&self) -> Result<(), String> {
        for (&first, segment) in &self.segments {
            let Some((&waits, _)) = segment.waiting.first_key_value() else { continue };
            let mut locks = self.locks.iter().flatten();
            let overtakes = |lock: &&Lock| {
                lock.number > waits
                    && lock.range.contains(&first)
                    && !segment.waiting.contains_key(&lock.number)
            };
            if let Some(lock) = locks.find(overtakes) {
                return Err(format!("{lock:?} is held, and {waits} waits from {first} on"));
            }
        }
        Ok(())
    }

    /// Whether there is no lock.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.locks.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// This many may wait at a time in a release build.
    const MANY: u32 = 8192;

    /// Does the example of the essay hold?
    #[test]
    fn shared_and_exclusive() {
        let mut locks = RangeLocks::default();
        assert!(locks.lock(0, 0..8192, Mode::Shared));
        assert!(locks.lock(1, 4096..12288, Mode::Shared));
        assert!(!locks.lock(2, 4096..8192, Mode::Exclusive));
        assert!(!locks.lock(3, 0..8192, Mode::Shared));
        locks.unlock(0);
        assert_eq!(locks.next_granted(), None);
        locks.unlock(1);
        assert_eq!((locks.next_granted(), locks.next_granted()), (Some(2), None));
        locks.unlock(2);
        assert_eq!((locks.next_granted(), locks.next_granted()), (Some(3), None));
        locks.unlock(3);
        assert!(locks.is_empty());
    }

    /// Steps of one end, and of one that is withdrawn, while `many` exclusive locks of one block
    /// each wait, over `blocks` blocks.
    fn steps(many: u32, blocks: u64) -> (u64, u64) {
        let mut locks = RangeLocks::default();
        for name in 0..many {
            let at = u64::from(name) % blocks * 4096;
            locks.lock(name, at..at + 4096, Mode::Exclusive);
        }
        locks.steps = 0;
        locks.unlock(0);
        let one = locks.steps;
        locks.unlock(many - 1);
        (one, locks.steps - one)
    }

    /// Is the work of a release bounded, whatever waits? One segment, and one lock that is granted;
    /// withdrawing a waiting lock grants nothing.
    #[test]
    fn an_end_looks_at_its_own_blocks_alone() {
        for blocks in [1, 90, 700] {
            assert_eq!(steps(MANY, blocks), (2, 1), "{MANY} locks over {blocks} blocks");
            assert_eq!(steps(2 * 700, blocks), (2, 1), "1400 locks over {blocks} blocks");
        }
    }

    /// And the work of a request? A lock of 256 blocks, in each of which 32 wait: a segment for
    /// each block. One of a block where 8192 wait: one.
    #[test]
    fn asking_looks_at_its_own_blocks_alone() {
        let mut locks = RangeLocks::default();
        for name in 0..MANY {
            let at = u64::from(name) % 256 * 4096;
            locks.lock(name, at..at + 4096, Mode::Exclusive);
        }
        locks.steps = 0;
        assert!(!locks.lock(MANY, 0..1 << 20, Mode::Shared));
        assert_eq!(locks.steps, 256);
        assert!(!locks.lock(MANY + 1, 0..4096, Mode::Exclusive));
        assert_eq!(locks.steps, 256 + 1);
    }

    /// A lock by its definition: it waits for every earlier one that it conflicts with.
    #[derive(Debug, Clone)]
    struct Plain(u32, Range<u64>, Mode, bool);

    fn may_go(plain: &[Plain], place: usize) -> bool {
        let Plain(_, range, mode, _) = &plain[place];
        plain[..place].iter().all(|Plain(_, other, theirs, _)| {
            let apart = other.end <= range.start || range.end <= other.start;
            apart || (*mode == Mode::Shared && *theirs == Mode::Shared)
        })
    }

    /// The operation, the first byte and the length of a range, whether it is exclusive, and which
    /// lock is released.
    fn step() -> impl Strategy<Value = (u8, u64, u64, bool, usize)> {
        (0..3u8, 0..12u64, 1..6u64, any::<bool>(), 0..64usize)
    }

    proptest! {
        /// Are the same locks granted at the same time, in the same order, as by the definition?
        #[test]
        fn as_the_definition_has_it(
            steps in prop::collection::vec(step(), 1..200)
        ) {
            let mut locks = RangeLocks::default();
            let mut plain: Vec<Plain> = Vec::new();
            let mut free: Vec<u32> = (0..200).rev().collect();
            for (what, at, length, exclusive, which) in steps {
                if what > 0 || plain.is_empty() {
                    let name = free.pop().unwrap();
                    let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
                    plain.push(Plain(name, at..at + length, mode, false));
                    let goes = may_go(&plain, plain.len() - 1);
                    plain.last_mut().unwrap().3 = goes;
                    prop_assert_eq!(locks.lock(name, at..at + length, mode), goes);
                } else {
                    // A lock that is held or waits.
                    let gone = plain.remove(which % plain.len());
                    locks.unlock(gone.0);
                    free.push(gone.0);
                }
                for place in 0..plain.len() {
                    if !plain[place].3 && may_go(&plain, place) {
                        plain[place].3 = true;
                        prop_assert_eq!(locks.next_granted(), Some(plain[place].0));
                    }
                }
                prop_assert_eq!(locks.next_granted(), None);
            }
            for Plain(name, ..) in plain {
                locks.unlock(name);
            }
            prop_assert!(locks.is_empty());
        }
    }
}

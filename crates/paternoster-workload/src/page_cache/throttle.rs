// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throttle: which writers may make a page dirty while as many as may be are.
//!
//! A writer that finds the limit reached waits. When a write back has ended and there is room
//! again, all that wait go on together, each with an equal *allowance* of the room, a page at
//! least; what an allowance promises counts as dirty until its owner has used it, or its call has
//! ended. So the first to be woken cannot take what the others were woken for, and none that comes
//! later can:
//!
//! ```text
//! limit 100, three wait, a bio of 32 pages ends    allowances 10, 10, 10    2 pages left
//! without them: the first writes 16, then 16 more; the others find 100, and wait again
//! ```
//!
//! # Invariants
//! I1  What is promised is the sum of the allowances; at most a page for each that waits is
//!     promised beyond the limit.
//! I2  While one waits, either as much is dirty or promised as may be, or others have been let in
//!     at this instant: none waits for a write back that never begins.
//!
//! Differs from Linux since 3.2, which gives each task a rate of its own and has it pause for what
//! it has made dirty: equal parts, too, but from the middle between both limits on, and smoothly.
//!
//! Source: Linux' documentation of `/proc/sys/vm`.

use std::collections::VecDeque;

/// The writers that wait, and what those that were let in may make dirty.
#[derive(Debug)]
pub(super) struct Throttle {
    /// Who waits, by number of the process.
    waiting: Vec<u32>,
    /// For each process: pages that it may make dirty, whatever the limit says.
    allowances: Vec<u64>,
    /// Their sum.
    promised: u64,
}

impl Throttle {
    pub(super) fn new(processes: usize) -> Throttle {
        Throttle { waiting: Vec::new(), allowances: vec![0; processes], promised: 0 }
    }

    /// Whether process `number` may make a page dirty now; if not it waits, and is among those
    /// that [`Throttle::let_in`] wakes. `room` is how many more pages may be dirty.
    pub(super) fn may_dirty(&mut self, number: u32, room: u64) -> bool {
        let allowance = &mut self.allowances[number as usize];
        if *allowance > 0 {
            *allowance -= 1;
            self.promised -= 1;
            return true;
        }
        if self.waiting.is_empty() && room > self.promised {
            return true;
        }
        self.waiting.push(number);
        false
    }

    /// There may be more room: all that wait go on, with equal parts of it, unless there is none.
    pub(super) fn let_in(&mut self, room: u64, woken: &mut VecDeque<u32>) {
        let room = room.saturating_sub(self.promised);
        if room == 0 || self.waiting.is_empty() {
            return;
        }
        let part = (room / self.waiting.len() as u64).max(1);
        for number in self.waiting.drain(..) {
            self.allowances[number as usize] = part;
            self.promised += part;
            woken.push_back(number);
        }
    }

    /// A call of process `number` has ended: what it was allowed and did not need is room again.
    pub(super) fn call_ended(&mut self, number: u32, room: u64, woken: &mut VecDeque<u32>) {
        let rest = std::mem::take(&mut self.allowances[number as usize]);
        self.promised -= rest;
        if rest > 0 {
            self.let_in(room, woken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that each of these writers has made dirty after `ends` bios of `bio` pages, with a
    /// limit of 1,000; each writes calls of its number of pages, one behind the other.
    fn written(calls: &[u64], bio: u64, ends: u32) -> Vec<u64> {
        let mut throttle = Throttle::new(calls.len());
        let (mut woken, mut unwritten) = (VecDeque::new(), 1000_u64);
        let mut written = vec![0; calls.len()];
        let mut left = calls.to_vec();
        woken.extend((0..).zip(calls).map(|(number, _)| number));
        for _ in 0..ends {
            while let Some(number) = woken.pop_front() {
                let index = number as usize;
                while throttle.may_dirty(number, 1000_u64.saturating_sub(unwritten)) {
                    written[index] += 1;
                    unwritten += 1;
                    left[index] -= 1;
                    if left[index] == 0 {
                        left[index] = calls[index];
                        let room = 1000_u64.saturating_sub(unwritten);
                        throttle.call_ended(number, room, &mut woken);
                    }
                }
            }
            let promised: u64 = throttle.allowances.iter().sum();
            assert_eq!((promised, throttle.promised), (0, 0), "all have used theirs");
            assert!(unwritten >= 1000, "{unwritten}: there is room, and all wait");
            assert!(unwritten < 1000 + calls.len() as u64);
            unwritten -= bio;
            throttle.let_in(1000_u64.saturating_sub(unwritten), &mut woken);
        }
        written
    }

    #[test]
    fn equal_writers_get_equal_parts_of_the_room() {
        // Before: the first of them got all of it, for each end of a bio wakes it first.
        for (writers, call, bio) in [(2, 16, 16), (10, 16, 128), (7, 3, 1), (64, 256, 32)] {
            let written = written(&vec![call; writers], bio, 2000);
            let (least, most) = (*written.iter().min().unwrap(), *written.iter().max().unwrap());
            let all: u64 = written.iter().sum();
            assert!(least * 100 >= most * 95, "{writers} by {call} of {bio}: {written:?}");
            assert!(all + bio + writers as u64 >= bio * 1999, "{all} of {}", bio * 1999);
        }
    }

    #[test]
    fn one_that_comes_later_takes_nothing_that_was_promised() {
        let (mut throttle, mut woken) = (Throttle::new(3), VecDeque::new());
        assert!(!throttle.may_dirty(0, 0) && !throttle.may_dirty(1, 0));
        throttle.let_in(9, &mut woken);
        assert_eq!(woken, [0, 1]);
        // 9 / 2 = 4 each; one page of nine is left over.
        assert!(throttle.may_dirty(2, 9));
        assert!(!throttle.may_dirty(2, 8));
        for _ in 0..4 {
            assert!(throttle.may_dirty(1, 1) && throttle.may_dirty(0, 1));
        }
        assert!(!throttle.may_dirty(0, 0));
    }

    #[test]
    fn what_is_not_needed_lets_others_in() {
        let (mut throttle, mut woken) = (Throttle::new(2), VecDeque::new());
        assert!(!throttle.may_dirty(0, 0));
        throttle.let_in(8, &mut woken);
        assert!(!throttle.may_dirty(1, 8), "all of it is promised");
        woken.clear();
        throttle.call_ended(0, 8, &mut woken);
        assert_eq!((woken.pop_front(), throttle.allowances[1]), (Some(1), 8));
    }
}

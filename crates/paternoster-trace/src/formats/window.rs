// SPDX-License-Identifier: MIT OR Apache-2.0
//! Window: accesses that come slightly out of order, in order of arrival.
//!
//! Some traces are written as I/Os end (biosnoop), or by several processors (SPC, MSR). A window of
//! accesses is sorted together with the one after it, and its first half passed on, so that an
//! access late by less than a window finds its place. Accesses of one time keep their order.
//!
//! ```text
//! window        1 4 7 2 3 │ 5 9 6 8 …
//! sorted        1 2 3 4 5 │ 6 7 8 9
//!               passed on │ kept
//! ```
//!
//! Invariants: I1 at most twice [`WINDOW`] accesses are held; I2 accesses already in order are not
//! sorted; I3 only that much is put in order: a later access comes out late.

use super::access::{Access, Accesses};
use super::names::Names;
use crate::source::Problems;

/// Accesses that are sorted together, twice over.
pub const WINDOW: usize = 1 << 13;

/// Accesses in order.
#[derive(Debug)]
pub(super) struct Window<A> {
    input: A,
    /// The window being passed on and the one after it, in order, from `next` on.
    waiting: Vec<Access>,
    next: usize,
    /// How many of `waiting` may be passed on before the next window must be read.
    ready: usize,
    ended: bool,
}

impl<A: Accesses> Window<A> {
    pub(super) const fn new(input: A) -> Window<A> {
        Window { input, waiting: Vec::new(), next: 0, ready: 0, ended: false }
    }

    /// Reads windows after the waiting ones, and sorts if anything is out of order.
    #[cold]
    fn read_windows(&mut self, names: &mut Names, problems: &mut Problems) {
        self.waiting.drain(..self.next);
        self.next = 0;
        let mut last = self.waiting.last().map_or(0, |access| access.arrival);
        let mut sorted = true;
        while self.waiting.len() < 2 * WINDOW && !self.ended {
            let Some(access) = self.input.next(names, problems) else {
                self.ended = true;
                break;
            };
            sorted &= access.arrival >= last;
            last = access.arrival;
            self.waiting.push(access);
        }
        if !sorted {
            self.waiting.sort_by_key(|access| access.arrival);
        }
        self.ready = if self.ended { self.waiting.len() } else { WINDOW };
    }
}

impl<A: Accesses> Accesses for Window<A> {
    #[inline]
    fn next(&mut self, names: &mut Names, problems: &mut Problems) -> Option<Access> {
        if self.next >= self.ready {
            if self.ended {
                return None;
            }
            self.read_windows(names, problems);
        }
        let access = self.waiting.get(self.next).copied()?;
        self.next += 1;
        Some(access)
    }

    fn file(&self) -> &str {
        self.input.file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::{Categories, DeviceNumber};

    /// Accesses at these times, with their places as sectors.
    struct Times(Vec<u64>, usize);

    impl Accesses for Times {
        fn next(&mut self, _: &mut Names, _: &mut Problems) -> Option<Access> {
            let arrival = *self.0.get(self.1)?;
            self.1 += 1;
            let device = DeviceNumber::default();
            Some(Access::new(arrival, Categories::READ, self.1 as u64, 512, device))
        }

        fn file(&self) -> &str {
            "times"
        }
    }

    fn ordered(times: Vec<u64>) -> Vec<(u64, u64)> {
        let mut window = Window::new(Times(times, 0));
        let (mut names, mut problems) = (Names::default(), Problems::default());
        let next = || window.next(&mut names, &mut problems);
        std::iter::from_fn(next).map(|access| (access.arrival, access.sector)).collect()
    }

    /// Are accesses put in order, with those of one time as they came?
    #[test]
    fn accesses_are_put_in_order() {
        let expected = [(1, 2), (3, 3), (3, 5), (5, 1), (9, 4)];
        assert_eq!(ordered(vec![5, 1, 3, 9, 3]), expected);
        assert!(ordered(vec![]).is_empty());
    }

    /// Does an access late by a window find its place, and a later one not?
    #[test]
    fn late_ones_find_their_place_within_a_window() {
        let many: u64 = 5 * WINDOW as u64;
        for (behind, found) in [(WINDOW as u64, true), (3 * WINDOW as u64, false)] {
            // 0 1 2 … with the one at time 7 moved back by `behind` places.
            let mut times: Vec<u64> = (0..many).filter(|time| *time != 7).collect();
            times.insert(usize::try_from(7 + behind).unwrap(), 7);
            let times: Vec<u64> = ordered(times).iter().map(|(time, _)| *time).collect();
            assert_eq!(times.len() as u64, many);
            assert_eq!(times.is_sorted(), found, "{behind}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spread: accesses of a trace whose clock has whole seconds, evenly within their second.
//!
//! ```text
//! stamps   7 7 7 7 8 8          four in second 7, two in second 8
//! times    7.00 7.25 7.50 7.75 8.00 8.50
//! ```
//!
//! Unchanged they would all come at once. Where more than [`SECOND_MAX`] come in one second the
//! held ones get the first half of the rest of it, and so on: the order is kept.
//!
//! Invariants: I1 at most [`SECOND_MAX`] accesses are held; I2 an access keeps its second.

use super::access::{Access, Accesses};
use super::fields::SECOND;
use super::names::Names;
use crate::source::Problems;

/// Accesses of one second that are spread together.
pub const SECOND_MAX: usize = 1 << 16;

/// Accesses spread within their seconds.
#[derive(Debug)]
pub(super) struct Spread<A> {
    input: A,
    /// The accesses of one second, from `next` on.
    held: Vec<Access>,
    next: usize,
    /// The first of the following second.
    ahead: Option<Access>,
    /// Where in the second the held ones end; 0 if all of it is theirs.
    used: u64,
}

impl<A: Accesses> Spread<A> {
    pub(super) const fn new(input: A) -> Spread<A> {
        Spread { input, held: Vec::new(), next: 0, ahead: None, used: 0 }
    }

    /// Reads the accesses of the next second, and gives them times.
    #[cold]
    fn read_second(&mut self, names: &mut Names, problems: &mut Problems) {
        let before = self.held.last().map(|access| access.arrival / SECOND);
        self.held.clear();
        self.next = 0;
        let Some(first) = self.ahead.take().or_else(|| self.input.next(names, problems)) else {
            return;
        };
        let second = first.arrival / SECOND;
        if before != Some(second) {
            self.used = 0;
        }
        self.held.push(first);
        while self.held.len() < SECOND_MAX {
            self.ahead = self.input.next(names, problems);
            match self.ahead.take_if(|access| access.arrival / SECOND == second) {
                Some(access) => self.held.push(access),
                None => break,
            }
        }
        let left = SECOND - self.used;
        let room = if self.held.len() < SECOND_MAX { left } else { left / 2 };
        let count = self.held.len() as u64;
        for (place, access) in (0..).zip(&mut self.held) {
            // At most 65536 times a second's nanoseconds: 2^46.
            let arrival = second * SECOND + self.used + place * room / count;
            access.arrival = arrival;
        }
        self.used += room.min(left - 1);
    }
}

impl<A: Accesses> Accesses for Spread<A> {
    #[inline]
    fn next(&mut self, names: &mut Names, problems: &mut Problems) -> Option<Access> {
        if self.next >= self.held.len() {
            self.read_second(names, problems);
        }
        let access = self.held.get(self.next).copied()?;
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

    struct Seconds<I>(I);

    impl<I: Iterator<Item = u64>> Accesses for Seconds<I> {
        fn next(&mut self, _: &mut Names, _: &mut Problems) -> Option<Access> {
            let arrival = self.0.next()? * SECOND;
            Some(Access::new(arrival, Categories::READ, 0, 512, DeviceNumber::default()))
        }

        fn file(&self) -> &str {
            "seconds"
        }
    }

    fn spread(seconds: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut spread = Spread::new(Seconds(seconds));
        let (mut names, mut problems) = (Names::default(), Problems::default());
        let next = || spread.next(&mut names, &mut problems);
        std::iter::from_fn(next).map(|access| access.arrival).collect()
    }

    /// Are the accesses of a second spread evenly, and is a single one unchanged?
    #[test]
    fn a_second_is_shared_evenly() {
        let ms: Vec<u64> =
            spread([7, 7, 7, 7, 8, 8, 9].into_iter()).iter().map(|ns| ns / 1_000_000).collect();
        // A quarter of a second each, then a half.
        assert_eq!(ms, [7000, 7250, 7500, 7750, 8000, 8500, 9000]);
        assert!(spread(std::iter::empty()).is_empty());
    }

    /// Do more than can be held stay in order, within their second?
    #[test]
    fn a_crowded_second_stays_in_order() {
        let count = 3 * SECOND_MAX + 5;
        let times = spread(std::iter::repeat_n(3, count).chain([4]));
        assert_eq!(times.len(), count + 1);
        assert!(times.is_sorted());
        assert_eq!((times[0], times[count]), (3 * SECOND, 4 * SECOND));
        assert!(times[count - 1] < 4 * SECOND);
    }
}

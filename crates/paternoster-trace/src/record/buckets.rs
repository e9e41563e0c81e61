// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buckets: a bounded row of equal spans of time from 0 on, each with what happened in it.
//!
//! ```text
//! room for 4:   |a|b|c|d|  e comes after the last    →   |ab |cd |e  |      twice as wide
//! ```
//!
//! Widths are 1 us times a power of two, so that rows of different runs can be brought to one.
//!
//! Invariants: I1 there are at most as many buckets as given; I2 the contents of buckets only
//! change by joining, so that sums over all of them stay.

use paternoster_core::Nanos;

/// The width of a bucket as long as a run is short.
const WIDTH_MIN: Nanos = Nanos(1_000);

/// A value of which two neighbours can be merged into one.
pub trait Join: Default {
    /// Takes over what the later neighbour holds.
    fn join(&mut self, later: Self);
}

/// A row of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets<T> {
    width: Nanos,
    max: u64,
    row: Vec<T>,
}

impl<T: Join> Buckets<T> {
    /// A row of at most `max` buckets.
    #[must_use]
    pub const fn new(max: u64) -> Buckets<T> {
        Buckets { width: WIDTH_MIN, max, row: Vec::new() }
    }

    /// The width of each.
    #[must_use]
    pub const fn width(&self) -> Nanos {
        self.width
    }

    /// The buckets from time 0 on, up to the last that holds something.
    #[must_use]
    pub fn row(&self) -> &[T] {
        &self.row
    }

    /// Makes buckets wider until there is room for this time.
    pub fn reach(&mut self, at: Nanos) {
        while at.0 / self.width.0 >= self.max {
            self.halve();
        }
    }

    /// The bucket of this time.
    pub fn at(&mut self, at: Nanos) -> &mut T {
        self.reach(at);
        // Below `max`: there is room for it.
        let place = usize::try_from(at.0 / self.width.0).unwrap_or(usize::MAX);
        if place >= self.row.len() {
            self.row.resize_with(place + 1, T::default);
        }
        &mut self.row[place]
    }

    /// The same in buckets of twice the width.
    pub fn halve(&mut self) {
        let mut wide: Vec<T> = Vec::with_capacity(self.row.len().div_ceil(2));
        for (nth, bucket) in self.row.drain(..).enumerate() {
            match wide.last_mut() {
                Some(last) if nth % 2 == 1 => last.join(bucket),
                _ => wide.push(bucket),
            }
        }
        self.row = wide;
        self.width = self.width + self.width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Join for u64 {
        fn join(&mut self, later: u64) {
            *self += later;
        }
    }

    /// Do neighbours become one when time leaves the last bucket? Room for four: 1 to 5 in the
    /// first five microseconds become 1 + 2, 3 + 4 and 5 in buckets of two.
    #[test]
    fn neighbours_are_joined() {
        let mut buckets = Buckets::new(4);
        for nth in 0..5 {
            *buckets.at(Nanos(nth * 1_000 + 999)) += nth + 1;
        }
        assert_eq!((buckets.width(), buckets.row()), (Nanos(2_000), &[3, 7, 5][..]));
    }

    /// Does the end of time find a bucket?
    #[test]
    fn the_end_of_time() {
        let mut buckets = Buckets::new(4);
        *buckets.at(Nanos(0)) += 1;
        *buckets.at(Nanos::MAX) += 1;
        assert_eq!(buckets.row().iter().sum::<u64>(), 2);
        assert!(buckets.row().len() <= 4);
    }
}

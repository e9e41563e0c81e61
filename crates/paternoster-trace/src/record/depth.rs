// SPDX-License-Identifier: MIT OR Apache-2.0
//! Depth: how many commands the device had at a time, as mean and maximum over buckets of time.
//!
//! `D` adds a command, `C` and `R` take one away; a `C` whose `D` is not known does not. Each
//! bucket keeps the area under the curve, so that its mean is one over time and not over events,
//! and the highest point.
//!
//! ```text
//! depth 2 |     ┌───┐           buckets of 4 us from here:  area  6 us   mean 1.5   max 2
//!       1 | ┌───┘   └───┐                                   area  4 us   mean 1     max 2
//!       0 +─┴───┬───┬───┬─▶
//!           0   2   4   6 us
//! ```
//!
//! When time leaves the last of [`BUCKETS_MAX`] buckets, each pair becomes one of twice the width:
//! areas add, the higher maximum stays.
//!
//! # Invariants
//! I1  The areas of all buckets add up to the area under the whole curve.
//! I2  There are at most `BUCKETS_MAX` buckets, 32 KiB; a run of more than 1 ms uses at least half
//!     of them.
//!
//! Differs from iowatcher, which takes the mean of the depths found after each `D`: a device that
//! is idle most of the time looks busy there. [`DepthRecord::at_issues`] has that one, too. Source:
//! TRACE-31.

use paternoster_core::Nanos;

use super::buckets::{Buckets, Join};
use super::step::{Step, StepKind};

/// The most buckets that are kept.
pub const BUCKETS_MAX: u64 = 1024;

/// What happened within one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bucket {
    /// Sum of depth times time, in commands times nanoseconds.
    pub area: u128,
    /// The most commands at any instant.
    pub max: u32,
}

impl Join for Bucket {
    fn join(&mut self, later: Bucket) {
        self.area += later.area;
        self.max = self.max.max(later.max);
    }
}

/// The depth of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepthRecord {
    buckets: Buckets<Bucket>,
    depth: u32,
    at: Nanos,
    /// The depths found after each issue, added, and how many there were.
    at_issues: (u128, u64),
}

impl Default for DepthRecord {
    fn default() -> DepthRecord {
        DepthRecord {
            buckets: Buckets::new(BUCKETS_MAX),
            depth: 0,
            at: Nanos::ZERO,
            at_issues: (0, 0),
        }
    }
}

impl DepthRecord {
    /// The width of each bucket.
    #[must_use]
    pub const fn width(&self) -> Nanos {
        self.buckets.width()
    }

    /// The buckets from time 0 on; the last one ends early, at [`DepthRecord::end`].
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        self.buckets.row()
    }

    /// The time of the last event that was counted.
    #[must_use]
    pub const fn end(&self) -> Nanos {
        self.at
    }

    /// The area under the whole curve, in commands times nanoseconds.
    #[must_use]
    pub fn area(&self) -> u128 {
        self.buckets().iter().map(|bucket| bucket.area).sum()
    }

    /// The most commands at any instant.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.buckets().iter().map(|bucket| bucket.max).max().unwrap_or(0)
    }

    /// The depths that each issue made, added, and how many issues there were: iowatcher's mean is
    /// the first divided by the second.
    #[must_use]
    pub const fn at_issues(&self) -> (u128, u64) {
        self.at_issues
    }

    /// Reads one step.
    pub fn step(&mut self, step: &Step) {
        match step.kind {
            StepKind::Issue => {
                self.change(step.at, 1);
                self.at_issues.0 += u128::from(self.depth);
                self.at_issues.1 += 1;
            }
            StepKind::Complete | StepKind::Requeue => self.change(step.at, -1),
            StepKind::Queue | StepKind::Stray | StepKind::Part | StepKind::Done => {}
        }
    }

    /// The same in buckets of twice the width.
    pub fn halve(&mut self) {
        self.buckets.halve();
    }

    fn change(&mut self, at: Nanos, change: i32) {
        self.buckets.reach(at);
        self.pass(at);
        self.depth = self.depth.saturating_add_signed(change);
        let depth = self.depth;
        let bucket = self.buckets.at(at);
        bucket.max = bucket.max.max(depth);
    }

    /// Goes on to `at` with the depth unchanged.
    fn pass(&mut self, at: Nanos) {
        let (width, depth) = (self.width().0, self.depth);
        while self.at < at {
            let bucket_end = Nanos((self.at.0 / width + 1).saturating_mul(width));
            let until = bucket_end.min(at);
            let area = u128::from((until - self.at).0) * u128::from(depth);
            let bucket = self.buckets.at(self.at);
            bucket.area += area;
            bucket.max = bucket.max.max(depth);
            self.at = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(steps: &[(u64, i32)]) -> DepthRecord {
        let mut record = DepthRecord::default();
        for &(at, change) in steps {
            record.change(Nanos(at), change);
        }
        record
    }

    /// Are areas and maxima right in a drawing like that above? D at 0, D at 400, C at 800 and at
    /// 1200 ns, buckets of 1000 ns. Area 400 + 2 * 400 + 200 = 1400 in the first, 200 in the
    /// second.
    #[test]
    fn areas_by_hand() {
        let record = steps(&[(0, 1), (400, 1), (800, -1), (1200, -1)]);
        let expected = [Bucket { area: 1400, max: 2 }, Bucket { area: 200, max: 1 }];
        assert_eq!(record.buckets(), expected);
        assert_eq!((record.end(), record.area(), record.max()), (Nanos(1200), 1600, 2));
    }

    /// Do buckets double when time leaves the last one, and nothing is lost? One command from 500
    /// to 1,024,500 ns: 1024 buckets of 1000 ns end at 1,024,000, so they become 2000 ns wide; the
    /// first has 1500 of it, the last one, from 1,024,000 on, 500.
    #[test]
    fn buckets_double() {
        let record = steps(&[(500, 1), (1_024_500, -1)]);
        assert_eq!(record.width(), Nanos(2_000));
        assert_eq!(record.buckets().len(), 513);
        assert_eq!(record.buckets()[0], Bucket { area: 1_500, max: 1 });
        assert_eq!(record.buckets()[512], Bucket { area: 500, max: 1 });
        assert_eq!(record.area(), 1_024_000);
    }

    /// Does a very long silence end? 2^62 ns are 146 years; 1000 * 2^43 * 1024 is the first end of
    /// the buckets after it.
    #[test]
    fn long_silence() {
        let record = steps(&[(0, 1), (1 << 62, -1)]);
        assert!(record.buckets().len() <= 1024);
        assert_eq!(record.width(), Nanos(1_000 << 43));
        assert_eq!(record.area(), 1 << 62);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Depth: how many I/Os were in flight at each issue, and how many went or came in one call.
//!
//! Queue depth separates a job that can fill a device from one that cannot, so reports show its
//! distribution: the share of issues at which 1, 2-3, 4-7 ... 64 or more I/Os were in flight. They
//! also show the sizes of the batches in which I/Os were submitted and reaped (0, 1-4, 5-8, 9-16,
//! 17-32, 33-64, more). A batch is named by its upper edge, a depth by its lower one.
//!
//! Syncs are counted among the depths but not in the total for the shares: that is how fio prints
//! `1=106.2%` for 901 writes with 56 syncs (957 / 901).
//!
//! Source: FIO-104, samples `mix.*`.

use super::distribution::per_cent;

/// Names of the depths, by their lower edge.
pub const LEVELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
/// Names of the batch sizes, by their upper edge.
pub const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// fio shows any share above nothing as at least this many per cent.
const SHARE_MIN: f64 = 0.1;

/// Counts of issues by the number of I/Os then in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DepthDistribution {
    pub(crate) counts: [u64; 7],
    pub(crate) issued: u64,
}

impl DepthDistribution {
    /// Counts an issue that brought the I/Os in flight to `depth`.
    #[inline]
    pub fn record(&mut self, depth: u32) {
        let level = (depth | 1).ilog2().min(6);
        self.counts[level as usize] += 1;
        self.issued += 1;
    }

    /// Counts a sync: it is in flight alone, and not part of the total.
    #[inline]
    pub fn record_sync(&mut self) {
        self.counts[0] += 1;
    }

    /// Takes in the counts of another.
    pub fn merge(&mut self, other: &DepthDistribution) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, foreign)| *own += foreign);
        self.issued += other.issued;
    }

    /// The levels, as (name, per cent of the issues).
    pub fn shares(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        LEVELS.iter().zip(self.counts).map(|(name, count)| (*name, share(count, self.issued)))
    }
}

/// Counts of calls by the number of I/Os that they submitted or reaped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchDistribution {
    pub(crate) counts: [u64; 7],
}

impl BatchDistribution {
    /// Counts a call with `batch` I/Os.
    #[inline]
    pub fn record(&mut self, batch: u32) {
        let size = match batch {
            0 => 0,
            1..=4 => 1,
            5..=8 => 2,
            9..=16 => 3,
            17..=32 => 4,
            33..=64 => 5,
            _ => 6,
        };
        self.counts[size] += 1;
    }

    /// Takes in the counts of another.
    pub fn merge(&mut self, other: &BatchDistribution) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, foreign)| *own += foreign);
    }

    /// The sizes, as (name, per cent of the calls).
    pub fn shares(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let calls = self.counts.iter().sum();
        BATCHES.iter().zip(self.counts).map(move |(name, count)| (*name, share(count, calls)))
    }
}

/// A share that does not vanish in rounding.
fn share(part: u64, whole: u64) -> f64 {
    let exact = per_cent(part, whole);
    if part > 0 && exact < SHARE_MIN { SHARE_MIN } else { exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does each depth fall in its level? One issue on either side of every edge.
    #[test]
    fn depths_fall_in_levels() {
        let mut depths = DepthDistribution::default();
        for depth in [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 1000] {
            depths.record(depth);
        }
        assert_eq!(depths.counts, [1, 2, 2, 2, 2, 2, 2]);
    }

    /// Does each batch fall in its size?
    #[test]
    fn batches_fall_in_sizes() {
        let mut batches = BatchDistribution::default();
        for batch in [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65] {
            batches.record(batch);
        }
        assert_eq!(batches.counts, [1, 2, 2, 2, 2, 2, 1]);
    }

    /// Are the figures of `mix.json` met? 957 of 901 are 106.215316 %; 2 of 2688 are raised to 0.1.
    #[test]
    fn shares_as_fio_prints_them() {
        let with_syncs = DepthDistribution { counts: [957, 0, 0, 0, 0, 0, 0], issued: 901 };
        assert_eq!(format!("{:.6}", with_syncs.shares().next().unwrap().1), "106.215316");
        let rare = DepthDistribution { counts: [1794, 892, 2, 0, 0, 0, 0], issued: 2688 };
        let shares: Vec<_> = rare.shares().map(|(_, share)| format!("{share:.6}")).collect();
        assert_eq!(shares[..4], ["66.741071", "33.184524", "0.100000", "0.000000"]);
    }
}

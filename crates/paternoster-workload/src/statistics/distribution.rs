// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distribution: completion latencies in the coarse steps 2, 4, 10, 20, 50 ... of reports.
//!
//! Three scales of the same steps: nanoseconds below a microsecond, microseconds below a
//! millisecond, then milliseconds. A step is named by its upper edge, which it does not contain:
//! a latency of exactly 100 us counts as `250`, one of 99.999 us as `100`.
//!
//! Source: FIO-105. The sample `mix.json` shows that edges do not belong to steps, and that total
//! latency does not count: the bins of clat, summed below each edge, give the printed shares
//! (bufread: 120 of 901 below 1000 ns, 655 in 1..2 us, 111 in 2..4 us), and the group rdwr has one
//! latency below 1 us although its least total latency is 39 us.

use paternoster_core::Nanos;

/// Upper edges of the steps below the last of each scale.
const EDGES: [u64; 9] = [2, 4, 10, 20, 50, 100, 250, 500, 750];
/// Further edges of the milliseconds, which have no larger unit above them.
const EDGES_MS: [u64; 2] = [1000, 2000];

/// Names of the steps of nanoseconds and microseconds, as reports print them.
pub const STEPS: [&str; 10] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
/// Names of the steps of milliseconds.
pub const STEPS_MS: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

/// Counts of latencies by step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencyDistribution {
    pub(crate) nanoseconds: [u64; 10],
    pub(crate) microseconds: [u64; 10],
    pub(crate) milliseconds: [u64; 12],
}

impl LatencyDistribution {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        match latency.0 {
            ns @ 0..1_000 => self.nanoseconds[step_of(ns)] += 1,
            ns @ 1_000..1_000_000 => self.microseconds[step_of(ns / 1_000)] += 1,
            ns => {
                let ms = ns / 1_000_000;
                let beyond = EDGES_MS.iter().filter(|edge| ms >= **edge).count();
                self.milliseconds[step_of(ms) + beyond] += 1;
            }
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &LatencyDistribution) {
        let scales = [
            (&mut self.nanoseconds[..], &other.nanoseconds[..]),
            (&mut self.microseconds[..], &other.microseconds[..]),
            (&mut self.milliseconds[..], &other.milliseconds[..]),
        ];
        for (own, foreign) in scales {
            own.iter_mut().zip(foreign).for_each(|(own, foreign)| *own += foreign);
        }
    }

    /// The steps below 1 us, as (name, per cent of `total`).
    pub fn nanoseconds(&self, total: u64) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        shares(&STEPS, &self.nanoseconds, total)
    }

    /// The steps from 1 us to 1 ms, as (name, per cent of `total`).
    pub fn microseconds(&self, total: u64) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        shares(&STEPS, &self.microseconds, total)
    }

    /// The steps from 1 ms, as (name, per cent of `total`).
    pub fn milliseconds(&self, total: u64) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        shares(&STEPS_MS, &self.milliseconds, total)
    }
}

/// The step, 0 to 9, of a latency that is below 1000 in its unit (9 for any above).
#[inline]
fn step_of(value: u64) -> usize {
    EDGES.iter().filter(|edge| value >= **edge).count()
}

fn shares<'a>(
    names: &'a [&'static str],
    counts: &'a [u64],
    total: u64,
) -> impl Iterator<Item = (&'static str, f64)> + 'a {
    names.iter().zip(counts).map(move |(name, count)| (*name, per_cent(*count, total)))
}

/// `part` in per cent of `whole`; 0 of nothing.
pub(crate) fn per_cent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a latency that lies exactly on an edge count in the bin above it, at every scale?
    #[test]
    fn edges_count_above() {
        let mut distribution = LatencyDistribution::default();
        for ns in [1, 2, 999, 1_000, 99_999, 100_000, 999_999] {
            distribution.record(Nanos(ns));
        }
        for ms in [1, 999, 1_000, 1_999, 2_000, 60_000] {
            distribution.record(Nanos::from_millis(ms));
        }
        // 1 | 2..3 | 750..999
        assert_eq!(distribution.nanoseconds, [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        // 1 us | 99.999 us below 100 | 100 us below 250 | 999.999 us
        assert_eq!(distribution.microseconds, [1, 0, 0, 0, 0, 1, 1, 0, 0, 1]);
        // 1 ms | 999 ms below 1000 | 1000 and 1999 below 2000 | two beyond
        assert_eq!(distribution.milliseconds, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2]);
    }

    /// Are shares relative to the given total, and zero for an empty one? 1 of 4 = 25 %.
    #[test]
    fn shares_are_per_cent() {
        let mut distribution = LatencyDistribution::default();
        distribution.record(Nanos::from_millis(3_000));
        assert_eq!(distribution.milliseconds(4).last(), Some((">=2000", 25.0)));
        assert_eq!(distribution.milliseconds(0).last(), Some((">=2000", 0.0)));
        let copy = distribution;
        distribution.merge(&copy);
        assert_eq!(distribution.milliseconds(4).last(), Some((">=2000", 50.0)));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency: how long requests take, against a target, in eight numbers.
//!
//! A scheduler that steers by latency needs a percentile, not a mean, and needs it cheaply: no
//! sample is stored. Each is counted in one of eight buckets, a quarter of the target wide; the
//! last takes everything longer:
//!
//! ```text
//! target 2 ms     0 ── 0.5 ── 1 ── 1.5 ── 2 ── 2.5 ── 3 ── 3.5 ──▶ ms
//! bucket            0     1     2      3     4      5     6     7
//!                   └────── good ──────┘     └─────── bad ───────┘
//! ```
//!
//! A bucket excludes its lower bound: 0.5 ms is in bucket 0, a nanosecond more in 1.
//!
//! A percentile of few samples says little, and one of old samples less. It is returned once there
//! are 500 samples, or a second after it was first requested with some present; then counting
//! begins anew. Of 500 samples the 99th percentile is the bucket of the 495th in order.
//!
//! # Invariants
//! I1  A percentile is of at least one sample, and each sample is used for one percentile only.
//!
//! Source: KY-6, KY-7.

use crate::time::Nanos;

/// Buckets of a histogram.
pub const BUCKETS: usize = 8;

/// Buckets within the target: those below this number hold the latencies that meet it.
pub const GOOD_BUCKETS: u32 = 4;

/// This many samples are used at once ...
const SAMPLES_ENOUGH: u64 = 500;
/// ... and fewer after this time.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// Latencies by quarters of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: [u32; BUCKETS],
    /// When few samples are enough; set by the first request that finds some.
    patience_ends: Option<Nanos>,
}

impl Histogram {
    /// Counts one latency against a target. Changing the target leaves earlier counts as they are.
    #[inline]
    pub fn record(&mut self, latency: Nanos, target: Nanos) {
        let width = (target.0 / u64::from(GOOD_BUCKETS)).max(1);
        let bucket = latency.0.saturating_sub(1) / width;
        let place = usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1);
        self.counts[place] = self.counts[place].saturating_add(1);
    }

    /// Samples since the last percentile was taken.
    #[inline]
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// The bucket within which `percent` of the samples are (at most 100), if there are enough;
    /// then they are cleared.
    #[inline]
    pub fn take_percentile(&mut self, now: Nanos, percent: u32) -> Option<u32> {
        let samples = self.samples();
        if samples == 0 {
            return None;
        }
        let patience_ends = *self.patience_ends.get_or_insert(now + PATIENCE);
        if samples < SAMPLES_ENOUGH && now < patience_ends {
            return None;
        }
        // 8 * 2^32 samples times 100 fit 64 bits.
        let needed = (samples * u64::from(percent)).div_ceil(100);
        let bucket = self.bucket_of(needed);
        *self = Histogram::default();
        Some(bucket)
    }

    /// The bucket of the `nth` sample in order, counted from 1.
    fn bucket_of(&self, nth: u64) -> u32 {
        let mut sum = 0;
        for (&count, bucket) in self.counts.iter().zip(0..) {
            sum += u64::from(count);
            if sum >= nth {
                return bucket;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Nanos = Nanos::from_millis(2);

    /// The bucket of one sample, returned after a second of patience.
    fn bucket(latency: u64, target: Nanos) -> u32 {
        let mut histogram = Histogram::default();
        histogram.record(Nanos(latency), target);
        assert_eq!(histogram.take_percentile(Nanos::ZERO, 99), None);
        histogram.take_percentile(PATIENCE, 99).expect("a second has passed")
    }

    /// KY-7: which bucket is a latency in? Quarters of 2 ms are 500,000 ns: (500,000 - 1) / 500,000
    /// = 0, 500,000 / 500,000 = 1, 1,999,999 / 500,000 = 3, 2,000,000 / 500,000 = 4, 3,599,999 /
    /// 500,000 = 7, as is everything longer.
    #[test]
    fn ky_7_buckets_are_quarters_of_the_target() {
        for (latency, expected) in [
            (0, 0),
            (1, 0),
            (500_000, 0),
            (500_001, 1),
            (1_000_000, 1),
            (2_000_000, 3),
            (2_000_001, 4),
            (3_500_000, 6),
            (3_600_000, 7),
            (u64::MAX, 7),
        ] {
            assert_eq!(bucket(latency, TARGET), expected, "{latency} ns");
        }
    }

    /// Is a quarter of a tiny target a nanosecond? For targets 0 to 7: latency 1 is in bucket 0, 8
    /// in (8 - 1) / 1 = 7. For 8 it is 2 ns: (8 - 1) / 2 = 3.
    #[test]
    fn a_bucket_is_never_empty() {
        for target in [0, 3, 7] {
            assert_eq!([1, 8].map(|latency| bucket(latency, Nanos(target))), [0, 7]);
        }
        assert_eq!(bucket(8, Nanos(8)), 3);
    }

    /// KY-6: when is a percentile returned? Of 499 samples not before a second has passed since it
    /// was first requested, of 500 at once.
    #[test]
    fn ky_6_enough_samples_or_a_second() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.take_percentile(Nanos::ZERO, 99), None, "patience needs a sample");
        for _ in 0..499 {
            histogram.record(TARGET, TARGET);
        }
        let first = Nanos::from_millis(5000);
        assert_eq!(histogram.take_percentile(first, 99), None);
        let late = first + PATIENCE;
        assert_eq!(histogram.take_percentile(late - Nanos(1), 99), None);
        let mut waited = histogram;
        assert_eq!(waited.take_percentile(late, 99), Some(3));
        histogram.record(TARGET, TARGET);
        assert_eq!(histogram.take_percentile(late - Nanos(1), 99), Some(3));
        assert_eq!(histogram, Histogram::default(), "what was told is forgotten");
        histogram.record(TARGET, TARGET);
        assert_eq!(histogram.take_percentile(late, 99), None, "and so is the patience");
    }

    /// Which sample is the 99th percentile? ceil(500 * 99 / 100) = 495: with 5 bad ones of 500 it
    /// is good, with 6 not. ceil(501 * 0.99) = ceil(495.99) = 496: still good with 5 bad ones of
    /// 501. The 90th: 450 of 500.
    #[test]
    fn percentiles_round_up() {
        for (good, bad, percent, expected) in [
            (495, 5, 99, 0),
            (494, 6, 99, 7),
            (496, 5, 99, 0),
            (495, 6, 99, 7),
            (450, 50, 90, 0),
            (449, 51, 90, 7),
            (500, 0, 100, 0),
            (0, 500, 1, 7),
        ] {
            let mut histogram = Histogram::default();
            for _ in 0..good {
                histogram.record(Nanos(1), TARGET);
            }
            for _ in 0..bad {
                histogram.record(Nanos::from_secs(1), TARGET);
            }
            let told = histogram.take_percentile(Nanos::ZERO, percent);
            assert_eq!(told, Some(expected), "{good} good, {bad} bad, {percent} %");
        }
    }
}

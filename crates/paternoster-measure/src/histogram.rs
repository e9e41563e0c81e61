// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histogram: latencies in bins of constant relative width, from which percentiles are read.
//!
//! # Problem
//! Percentiles need all values in order; a run has a hundred million of them. Bins of constant
//! width are too coarse at one end of the scale or too many at the other.
//!
//! # Idea
//! fio's bins: each power of two is cut in 64 equal parts (`bins.rs`), so a bin is never wider than
//! 1/64 of its value. It is reported by its middle, which is off by at most 1/128:
//!
//! ```text
//! 40570 ns is in bin 655, 40448..40959, which is reported as 40448 + 256 = 40704 ns
//! ```
//!
//! Values below 128 have bins of their own.
//!
//! # Invariants
//! I1  The bins' counts sum to `total`.
//! I2  A value's bin contains the value: `floor(bin) <= value < floor(bin) + width(bin)`.
//!
//! Differs: fio ends at 2^34 ns (17 s) and counts longer ones in the last bin; a starved process
//! in a simulation may wait longer, so the bins go on to 2^40 ns (18 minutes).
//!
//! Source: FIO-102.

use core::fmt;

use paternoster_core::Nanos;

use crate::bins;

/// log2 of the bins in each power of two.
const GROUP_BITS: u32 = 6;
/// Values have at most this many bits; longer ones count in the last bin.
const VALUE_BITS: u32 = 40;
/// All bins: the first two groups are the values below 128, then one group for each further bit.
const BINS: usize = ((VALUE_BITS - GROUP_BITS + 1) as usize) << GROUP_BITS;

/// Counts of latencies by bin. Allocates in `new` only.
#[derive(Clone)]
pub struct Histogram {
    bins: Box<[u64]>,
    total: u64,
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Histogram {
        Histogram { bins: vec![0; BINS].into_boxed_slice(), total: 0 }
    }

    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.record_many(latency, 1);
    }

    /// Counts `count` equal latencies.
    #[inline]
    pub fn record_many(&mut self, latency: Nanos, count: u64) {
        let index = bin_of(latency.0).min(BINS - 1);
        self.bins[index] += count;
        self.total += count;
    }

    /// Takes in the counts of another.
    pub fn merge(&mut self, other: &Histogram) {
        for (own, foreign) in self.bins.iter_mut().zip(&other.bins) {
            *own += foreign;
        }
        self.total += other.total;
    }

    /// Subtracts the counts of `earlier`, which was this histogram at an earlier time.
    pub fn since(&mut self, earlier: &Histogram) {
        for (own, before) in self.bins.iter_mut().zip(&earlier.bins) {
            *own -= before;
        }
        self.total -= earlier.total;
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.bins.fill(0);
        self.total = 0;
    }

    /// How many latencies were counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The latency in ns which `p` per cent of all do not exceed, as the middle of its bin; 0 when
    /// the histogram is empty.
    #[must_use]
    pub fn percentile(&self, p: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let mut reached = 0;
        for (index, count) in self.bins.iter().enumerate() {
            reached += count;
            // At least one latency must be reached, or the 0th percentile would be an empty bin.
            if reached > 0 && reaches(reached, p, self.total) {
                return middle_of(index);
            }
        }
        self.bins().last().map_or(0, |(value, _)| value)
    }

    /// The bins that hold something, as (reported value in ns, count), in order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (middle_of(index), *count))
    }

    /// Verifies I1.
    ///
    /// # Errors
    /// Names the invariant which does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.bins.iter().sum::<u64>() == self.total { Ok(()) } else { Err("I1: sum of bins") }
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// Prints the filled bins only, not 2000 zeros.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.bins()).finish()
    }
}

/// Whether `reached` of `total` are at least `p` per cent.
///
/// Decided without rounding, because few percentiles are exact in binary: 99.95 is a trifle more,
/// so of 2000 latencies it takes all, not 1999. fio computes in 80 bits and finds the same
/// (`fair.json`, test11); 64 bits would round the trifle away.
#[must_use]
pub fn reaches(reached: u64, p: f64, total: u64) -> bool {
    let (have, total) = (reached as f64 * 100.0, total as f64);
    let product = p * total;
    // The product is `product + error` exactly.
    let error = p.mul_add(total, -product);
    have > product || (have == product && error <= 0.0)
}

/// The bin of a value; may lie beyond the last.
#[inline]
#[must_use]
pub fn bin_of(value: u64) -> usize {
    bins::bin_of(value, GROUP_BITS)
}

/// The value that represents a bin: its middle, cut to a whole number.
fn middle_of(index: usize) -> u64 {
    let (floor, shift) = bins::floor_of(index, GROUP_BITS);
    // Half a bin is less than 1 where bins hold one value.
    floor + (1 << shift >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Are the bins those of the drawing and of fio's JSON? 40570 reports as 40704; the 801 ns in
    /// `mix.json` are in its bin "804": bit 9 leads, shift 3, 800..=807, middle 804.
    #[test]
    fn worked_example() {
        assert_eq!(bin_of(40570), 655);
        assert_eq!(middle_of(655), 40704);
        assert_eq!(middle_of(bin_of(801)), 804);
        for value in [0, 1, 63, 64, 127] {
            assert_eq!(middle_of(bin_of(value)), value);
        }
        assert_eq!(middle_of(bin_of(128)), 129);
    }

    /// Does a latency beyond all bins count in the last one, and not crash?
    #[test]
    fn overlong_latencies_clip() {
        let mut histogram = Histogram::new();
        histogram.record(Nanos((1 << VALUE_BITS) - 1));
        histogram.record(Nanos::MAX);
        assert_eq!(histogram.bins().count(), 1);
        assert_eq!(histogram.check(), Ok(()));
    }

    /// Is a percentile the first bin that reaches the share? Of 1..=100 the 50th is 50, and 99.9
    /// needs the hundredth.
    #[test]
    fn percentile_is_the_first_to_reach() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|value| histogram.record(Nanos(value)));
        for (p, value) in [(0.0, 1), (1.0, 1), (50.0, 50), (99.0, 99), (99.9, 100), (100.0, 100)] {
            assert_eq!(histogram.percentile(p), value, "{p}");
        }
        histogram.clear();
        assert_eq!(histogram.percentile(50.0), 0);
    }

    /// Is a percentile that is not exact in binary decided as fio decides it? 99.95 is stored as
    /// 99.9500000000000028..., of 2000 that is above 1999; 95 is exact: 1900.
    #[test]
    fn inexact_percentiles() {
        assert!(!reaches(1999, 99.95, 2000));
        assert!(reaches(2000, 99.95, 2000));
        assert!(reaches(1900, 95.0, 2000));
        assert!(!reaches(1899, 95.0, 2000));
    }

    proptest! {
        /// Does a percentile differ from that of a sorted list by less than a bin's width (1/64)?
        #[test]
        fn equals_sorted_list(
            mut values in prop::collection::vec(0_u64..20_000_000_000, 1..300),
            p in 0.0_f64..100.0,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(Nanos(*value)));
            values.sort_unstable();
            let rank = (1..=values.len()).find(|n| *n as f64 >= p / 100.0 * values.len() as f64);
            let exact = values[rank.unwrap_or(values.len()) - 1];
            prop_assert!(histogram.percentile(p).abs_diff(exact) <= exact / 64);
            prop_assert_eq!(histogram.check(), Ok(()));
        }

        /// I2: does a value lie in its bin, over the whole scale?
        #[test]
        fn value_lies_in_its_bin(bits in 0_u32..VALUE_BITS, noise in any::<u64>()) {
            let value = (1 << bits) | (noise & ((1 << bits) - 1));
            let width = 1_u64 << bits.saturating_sub(GROUP_BITS);
            prop_assert!(bin_of(value) < BINS);
            prop_assert!(middle_of(bin_of(value)).abs_diff(value) <= width / 2);
        }

        /// Does a merge equal one histogram of both?
        #[test]
        fn merge_equals_both(
            left in prop::collection::vec(0_u64..1_000_000, 0..50),
            right in prop::collection::vec(0_u64..1_000_000, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|value| histogram.record(Nanos(*value)));
                histogram
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let both = of(&[left, right].concat());
            prop_assert!(merged.bins().eq(both.bins()));
            prop_assert_eq!(merged.total(), both.total());
        }
    }
}

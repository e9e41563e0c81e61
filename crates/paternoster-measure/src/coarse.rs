// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coarse histogram: how many latencies there were of each size, in few cells of about equal ratio.
//!
//! Each power of two is cut into [`PARTS`] cells of equal width, so that a cell's end is at most
//! 1/16 above its beginning:
//!
//! ```text
//! 1024 ns … 2048 ns in 16 cells of 64 ns:    1500 ns is in the cell from 1472 to 1536
//! ```
//!
//! Values below 1024 ns have one cell, as have those above 2^41 ns, 37 minutes. Number, sum, least
//! and most are exact.
//!
//! Invariants: I1 the cells add up to the number; I2 there are at most [`CELLS`] cells, 4 KiB, of
//! which only those between the least and the most are kept.

use paternoster_core::Nanos;

use crate::bins;

/// Cells in a power of two.
pub const PARTS: usize = 1 << PARTS_BITS;
const PARTS_BITS: u32 = 4;
/// Below this power of two there is one cell.
const SHIFT_MIN: u32 = 10;
/// From this power of two on there is one cell, too.
const SHIFT_MAX: u32 = 41;
/// Bins of 1/16 below 2^10: one cell here, the first.
const SMALL: usize = ((SHIFT_MIN - PARTS_BITS + 1) as usize) << PARTS_BITS;
/// The most cells.
pub const CELLS: usize = ((SHIFT_MAX - SHIFT_MIN) as usize) * PARTS + 2;

/// Latencies by size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoarseHistogram {
    count: u64,
    sum: u128,
    least: Nanos,
    most: Nanos,
    /// Which cell the first of `cells` is.
    first: usize,
    cells: Vec<u64>,
}

/// Latencies of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The cell's index, from 0 to [`CELLS`].
    pub place: usize,
    /// Least latency of the cell.
    pub from: Nanos,
    /// Up to here, this not included, except in the last one.
    pub to: Nanos,
    /// Number of latencies.
    pub count: u64,
}

impl CoarseHistogram {
    /// Counts one.
    pub fn add(&mut self, latency: Nanos) {
        self.least = if self.count == 0 { latency } else { self.least.min(latency) };
        self.most = self.most.max(latency);
        self.count += 1;
        self.sum += u128::from(latency.0);
        *self.cell(place(latency)) += 1;
    }

    /// Number of latencies counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all latencies, in nanoseconds.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The shortest.
    #[must_use]
    pub const fn least(&self) -> Nanos {
        self.least
    }

    /// The longest.
    #[must_use]
    pub const fn most(&self) -> Nanos {
        self.most
    }

    /// Their mean, rounded down; 0 if there were none.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos(u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX))
    }

    /// The latency that this many of a thousand did not exceed: at most 1/16 too much, and never
    /// more than the longest.
    #[must_use]
    pub fn permille(&self, permille: u64) -> Nanos {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1_000).max(1);
        let mut below = 0;
        for cell in self.cells() {
            below += u128::from(cell.count);
            if below >= rank {
                let last = if cell.to == Nanos::MAX { cell.to } else { Nanos(cell.to.0 - 1) };
                return last.min(self.most);
            }
        }
        self.most
    }

    /// Every cell between the least and the most, by size.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        self.cells.iter().zip(self.first..).map(|(count, place)| Cell {
            place,
            from: begin(place),
            to: begin(place + 1),
            count: *count,
        })
    }

    fn cell(&mut self, place: usize) -> &mut u64 {
        if self.cells.is_empty() {
            self.first = place;
        } else if place < self.first {
            self.cells.splice(0..0, core::iter::repeat_n(0, self.first - place));
            self.first = place;
        }
        let nth = place - self.first;
        if nth >= self.cells.len() {
            self.cells.resize(nth + 1, 0);
        }
        &mut self.cells[nth]
    }

    /// Takes in what another one counted.
    pub fn join(&mut self, later: CoarseHistogram) {
        if later.count == 0 {
            return;
        }
        self.least = if self.count == 0 { later.least } else { self.least.min(later.least) };
        self.most = self.most.max(later.most);
        self.count += later.count;
        self.sum += later.sum;
        for (count, place) in later.cells.into_iter().zip(later.first..) {
            if count > 0 {
                *self.cell(place) += count;
            }
        }
    }
}

/// The cell that a latency belongs to.
fn place(latency: Nanos) -> usize {
    let bin = bins::bin_of(latency.0, PARTS_BITS);
    (bin + 1).saturating_sub(SMALL).min(CELLS - 1)
}

/// Least latency of a cell.
fn begin(place: usize) -> Nanos {
    match place {
        0 => Nanos::ZERO,
        CELLS.. => Nanos::MAX,
        _ => Nanos(bins::floor_of(place + SMALL - 1, PARTS_BITS).0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Is 1500 ns in the cell drawn above, 7 above the first of its power: (1500 - 1024) / 64?
    #[test]
    fn a_cell_by_hand() {
        assert_eq!(place(Nanos(1_500)), 1 + 7);
        assert_eq!((begin(8), begin(9)), (Nanos(1_472), Nanos(1_536)));
        assert_eq!([place(Nanos(0)), place(Nanos(1_023)), place(Nanos(1_024))], [0, 0, 1]);
        assert_eq!([place(Nanos(1 << 41)), place(Nanos::MAX)], [CELLS - 1; 2]);
        assert_eq!(begin(CELLS - 1), Nanos(1 << 41));
    }

    /// Are percentiles what people expect? Of 1 to 100 ms, 99 of 100 take at most 99 ms, and half
    /// of them 50; cells there are 2^26 / 16 = 4.2 ms and 2^25 / 16 = 2.1 ms wide.
    #[test]
    fn percentiles_by_hand() {
        let mut histogram = CoarseHistogram::default();
        (1..=100).for_each(|ms| histogram.add(Nanos::from_millis(ms)));
        let [half, most] = [500, 990].map(|permille| histogram.permille(permille).0 / 100_000);
        assert!((500..522).contains(&half), "{half}");
        assert!((990..=1_000).contains(&most), "{most}");
        assert_eq!(histogram.mean(), Nanos::from_micros(50_500));
        assert_eq!(CoarseHistogram::default().permille(990), Nanos::ZERO);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Do two histograms that are joined equal one that saw everything, and is no percentile
        /// below that of the sorted list, nor more than 1/16 or 1023 ns above it?
        #[test]
        fn equals_naive(
            all in prop::collection::vec(
                prop_oneof![0..5_000u64, 0..1u64 << 42, Just(u64::MAX)], 1..200),
            cut in 0..200usize, permille in 1..=1_000usize,
        ) {
            let of = |part: &[u64]| {
                let mut histogram = CoarseHistogram::default();
                part.iter().for_each(|&latency| histogram.add(Nanos(latency)));
                histogram
            };
            let cut = cut.min(all.len());
            let mut joined = of(&all[..cut]);
            joined.join(of(&all[cut..]));
            let whole = of(&all);
            prop_assert_eq!(&joined, &whole);
            prop_assert_eq!(whole.sum(), all.iter().copied().map(u128::from).sum::<u128>());
            prop_assert_eq!(whole.cells().map(|cell| cell.count).sum::<u64>(), all.len() as u64);
            let mut sorted = all;
            sorted.sort_unstable();
            let rank = (sorted.len() * permille).div_ceil(1_000);
            let exact = sorted[rank - 1];
            let told = whole.permille(permille as u64).0;
            let room = if exact >= 1 << 41 { u64::MAX } else { (exact / 16).max(1_023) };
            prop_assert!(told >= exact && told - exact <= room, "{} {}", told, exact);
        }
    }
}

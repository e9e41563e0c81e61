// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moments: count, extremes, mean and deviation of a stream of whole numbers, without keeping them.
//!
//! The textbook formula (sum of squares less square of the sum) subtracts two huge, nearly equal
//! figures; with nanoseconds it loses every digit after some million values. Welford's recurrence
//! keeps the mean and the sum of squared distances from it, and corrects both by each value:
//!
//! ```text
//! value   2      4      9
//! mean    2      3      5           mean += (value - mean) / count
//! squares 0      2      26          squares += (value - mean before) * (value - mean after)
//! stdev   0      1.41   3.61        sqrt(squares / (count - 1))
//! ```
//!
//! Two streams join in one of two ways, and fio uses both: [`Moments::merge`] as if all values had
//! come in one stream (latencies), [`Moments::add`] as if the streams ran side by side and were
//! read together (bandwidths of clones: twice 100 is 200, not "100 on the average").
//!
//! Sources: B. P. Welford 1962; Chan, Golub, LeVeque 1979 for the merge; FIO-100.

/// Count, minimum, maximum, mean and sample deviation of the recorded values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: u64,
    min: u64,
    max: u64,
    mean: f64,
    squares: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { count: 0, min: u64::MAX, max: 0, mean: 0.0, squares: 0.0 }
    }
}

impl Moments {
    /// Moments known from elsewhere, as read back from a report.
    #[must_use]
    pub fn from_parts(count: u64, min: u64, max: u64, mean: f64, stdev: f64) -> Moments {
        let degrees = count.saturating_sub(1) as f64;
        Moments { count, min, max, mean, squares: stdev * stdev * degrees }
    }

    /// Takes one value into account.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let distance = value as f64 - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value as f64 - self.mean);
    }

    /// Takes in another stream, as if its values had been recorded here.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        let (own, foreign) = (self.count as f64, other.count as f64);
        let (both, distance) = (own + foreign, other.mean - self.mean);
        self.mean += distance * foreign / both;
        self.squares += other.squares + distance * distance * own * foreign / both;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Merges another stream into this one: extremes, means, squares and counts add up.
    ///
    /// fio 3.33 reports the bandwidth samples of a merged group so. The sample `mix.json` shows it:
    /// two clones of five samples each with mean 2403.2 print as 10 samples with mean 4806.4, and
    /// the squares 108.8 + 108.8 over 10 - 1 give the printed deviation 4.917090.
    pub fn add(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        self.min = self.min().saturating_add(other.min);
        self.max = self.max.saturating_add(other.max);
        self.mean += other.mean;
        self.squares += other.squares;
        self.count += other.count;
    }

    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value; 0 when there is none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The greatest value; 0 when there is none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The arithmetic mean; 0 when there is no value.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The sample standard deviation (over n - 1); 0 below two values.
    #[must_use]
    pub fn stdev(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.record(*value));
        moments
    }

    /// Are mean and deviation those of the drawing? Distances -3 -1 4: 9 + 1 + 16 = 26, /2 = 13.
    #[test]
    fn worked_example() {
        let moments = of(&[2, 4, 9]);
        assert_eq!((moments.count(), moments.min(), moments.max()), (3, 2, 9));
        assert!((moments.mean() - 5.0).abs() < 1e-12);
        assert!((moments.stdev() - 13.0_f64.sqrt()).abs() < 1e-12);
    }

    /// Is the empty stream all zeros, and one value without deviation?
    #[test]
    fn empty_and_single() {
        let empty = Moments::default();
        assert_eq!((empty.min(), empty.max(), empty.mean(), empty.stdev()), (0, 0, 0.0, 0.0));
        assert_eq!(of(&[7]).stdev(), 0.0);
    }

    /// Do clones side by side print as fio printed them? `rdwr_bw.1.log` has the first clone's
    /// values; the second had the same figures (see `Moments::add`).
    #[test]
    fn clones_add_up() {
        let clone = of(&[2412, 2400, 2400, 2404, 2400]);
        let mut group = Moments::default();
        group.add(&clone);
        group.add(&clone);
        assert_eq!((group.count(), group.min(), group.max()), (10, 4800, 4824));
        assert_eq!(format!("{:.6} {:.6}", group.mean(), group.stdev()), "4806.400000 4.917090");
    }

    proptest! {
        /// Does a merge of two parts equal one pass over the whole?
        #[test]
        fn merge_equals_one_pass(
            values in prop::collection::vec(0_u64..10_000_000_000, 1..200),
            cut in 0_usize..200,
        ) {
            let (left, right) = values.split_at(cut.min(values.len()));
            let (mut merged, whole) = (of(left), of(&values));
            merged.merge(&of(right));
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
            prop_assert!((merged.mean() - whole.mean()).abs() <= 1e-9 * (1.0 + whole.mean()));
            prop_assert!((merged.stdev() - whole.stdev()).abs() <= 1e-6 * (1.0 + whole.stdev()));
        }
    }
}

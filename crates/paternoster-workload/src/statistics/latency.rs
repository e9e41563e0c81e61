// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency: the moments of a stream of time spans, in nanoseconds.
//!
//! Each `slat`, `clat`, `lat` and `sync` line of a report comes from one of these. The figures are
//! kept in nanoseconds; a report picks the unit that it prints.
//!
//! Source: FIO-100.

use paternoster_core::Nanos;

use super::moments::Moments;

/// Minimum, maximum, mean, sample deviation and number of time spans.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latency(Moments);

impl Latency {
    /// A latency known from elsewhere, as read back from a report; all spans in nanoseconds.
    #[must_use]
    pub fn from_parts(n: u64, min: Nanos, max: Nanos, mean: f64, stdev: f64) -> Latency {
        Latency(Moments::from_parts(n, min.0, max.0, mean, stdev))
    }

    /// Takes one span into account.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.0.record(span.0);
    }

    /// Takes in the spans of another, as if they had been recorded here.
    pub fn merge(&mut self, other: &Latency) {
        self.0.merge(&other.0);
    }

    /// How many spans were recorded.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.0.count()
    }

    /// The shortest span; zero when there is none.
    #[must_use]
    pub fn min(&self) -> Nanos {
        Nanos(self.0.min())
    }

    /// The longest span; zero when there is none.
    #[must_use]
    pub fn max(&self) -> Nanos {
        Nanos(self.0.max())
    }

    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The sample standard deviation in nanoseconds.
    #[must_use]
    pub fn stdev(&self) -> f64 {
        self.0.stdev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a latency keep nanoseconds? 1 us and 3 us: mean 2000 ns, stdev sqrt(2 * 1000^2 / 1).
    #[test]
    fn keeps_nanoseconds() {
        let mut latency = Latency::default();
        latency.record(Nanos::from_micros(1));
        latency.record(Nanos::from_micros(3));
        assert_eq!((latency.n(), latency.min(), latency.max()), (2, Nanos(1000), Nanos(3000)));
        assert!((latency.mean() - 2000.0).abs() < 1e-9);
        assert!((latency.stdev() - 2_000_000_f64.sqrt()).abs() < 1e-9);
    }
}

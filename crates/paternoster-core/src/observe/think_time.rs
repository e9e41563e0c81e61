// SPDX-License-Identifier: MIT OR Apache-2.0
//! Think time: how long a process thinks between the end of a request and the next one.
//!
//! Waiting for the next request of a process pays only if it comes soon. Each gap is capped at
//! `longest` (so that one coffee break is not remembered for ever), and enters a running mean whose
//! weights fall by 7/8:
//!
//! ```text
//! sample    1st   2nd   3rd   4th            samples = (7 * samples + 256) / 8
//! samples    32    60    84   105 … 256      trusted from the third on (more than 80)
//! ```
//!
//! Time is counted in the ticks that elevators see: a kernel with a tick of 1 ms sees no think time
//! of 0.4 ms, only many zeros and some ones.
//!
//! # Invariants
//! I1  The mean is at most the longest accepted gap, plus rounding: four ticks with the first
//!     sample (128 / 32), one with many.
//!
//! Source: CFQ-28; BFQ-86, BFQ-87.

use crate::time::Nanos;

/// The weight of one sample, and what `samples` tends to.
const ONE: u64 = 256;
/// This much of the old value is kept: 7/8.
const KEPT: u64 = 7;
const OF: u64 = 8;
/// A mean with more weight than this is trusted.
const BELIEVED: u64 = 80;

/// The running mean of the gaps between the end of a request and the next arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThinkTime {
    last_end: Nanos,
    samples: u64,
    /// In ticks, times [`ONE`].
    total: u64,
}

impl ThinkTime {
    /// Without samples, for a process that begins at `now`.
    #[inline]
    #[must_use]
    pub const fn new(now: Nanos) -> ThinkTime {
        ThinkTime { last_end: now, samples: 0, total: 0 }
    }

    /// A request has ended: the next gap begins.
    #[inline]
    pub const fn ended(&mut self, now: Nanos) {
        self.last_end = now;
    }

    /// A request arrives. The gap before it counts as at most `longest`.
    #[inline]
    pub fn sample(&mut self, now: Nanos, longest: Nanos, tick: Nanos) {
        self.sample_gap((now - self.last_end).min(longest), tick);
    }

    /// Adds a gap that has been capped already.
    #[inline]
    pub fn sample_gap(&mut self, gap: Nanos, tick: Nanos) {
        let gap = gap.0;
        // A division costs more than all the rest; an exact clock needs none.
        let gap = if tick.0 <= 1 { gap } else { gap / tick.0 };
        self.samples = (KEPT * self.samples + ONE) / OF;
        self.total = (KEPT * self.total).saturating_add(ONE.saturating_mul(gap)) / OF;
    }

    /// The mean in ticks; needs samples.
    const fn quotient(&self) -> u64 {
        (self.total + ONE / 2) / self.samples
    }

    /// Mean and weight of samples, as a kernel shows them.
    #[inline]
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub const fn parts(&self) -> (u64, u64) {
        (if self.samples == 0 { 0 } else { self.quotient() }, self.samples)
    }

    /// Continues from the values that a kernel shows.
    #[inline]
    #[cfg(any(test, feature = "testing"))]
    pub const fn set_parts(&mut self, mean: u64, samples: u64) {
        self.samples = samples;
        self.total = (mean * samples).saturating_sub(ONE / 2);
    }

    /// The mean, if there are enough samples to trust it.
    #[inline]
    #[must_use]
    pub fn mean(&self, tick: Nanos) -> Option<Nanos> {
        (self.samples > BELIEVED).then(|| Nanos(self.quotient().saturating_mul(tick.0)))
    }

    /// Whether it is known to be longer than `limit`: not worth waiting for.
    #[inline]
    #[must_use]
    pub fn is_longer_than(&self, limit: Nanos, tick: Nanos) -> bool {
        // mean > limit, without the division: total + half >= (limit + 1) * samples, in ticks.
        let limit = if tick.0 <= 1 { limit.0 } else { limit.0 / tick.0 };
        self.samples > BELIEVED
            && self.total + ONE / 2 >= limit.saturating_add(1).saturating_mul(self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// Is it trusted from the third sample on? 32, 60, 84 > 80.
    #[test]
    fn three_samples_are_believed() {
        let mut think = ThinkTime::new(Nanos::ZERO);
        for (count, believed) in [(1, false), (2, false), (3, true)] {
            think.sample(Nanos::from_millis(10 * count), Nanos::from_millis(16), MS);
            assert_eq!(think.mean(MS).is_some(), believed, "after {count}");
            think.ended(Nanos::from_millis(10 * count));
        }
        // 10 ms each: total 320, 600, 845; (845 + 128) / 84 = 11.
        assert_eq!(think.mean(MS), Some(Nanos::from_millis(11)));
        assert!(think.is_longer_than(Nanos::from_millis(8), MS));
    }

    /// Does a long break count only as the longest gap? Eight breaks of a second count 16 ms each:
    /// samples 165, total 2687, (2687 + 128) / 165 = 17.
    #[test]
    fn a_break_is_cut_off() {
        let mut think = ThinkTime::new(Nanos::ZERO);
        for second in 1..=8 {
            think.sample(Nanos::from_secs(second), Nanos::from_millis(16), MS);
            think.ended(Nanos::from_secs(second));
        }
        assert_eq!(think.mean(MS), Some(Nanos::from_millis(17)));
    }

    /// Does a coarse tick see short gaps as none? 0.9 ms at 1 ms ticks is 0; the rounding term (128
    /// / samples) is less than 2 from the third sample on.
    #[test]
    fn a_tick_hides_short_gaps() {
        let mut think = ThinkTime::new(Nanos::ZERO);
        for _ in 0..20 {
            think.sample(Nanos::from_micros(900), Nanos::from_millis(16), MS);
        }
        assert_eq!(think.mean(MS), Some(Nanos::ZERO));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Depth: how many are present, over time.
//!
//! ```text
//! 2 |    ┌───┐          mean (2 s·1 + 1 s·2 + 1 s·0) / 4 s = 1, most 2, 3 of 4 s not empty
//! 1 | ┌──┘   │
//! 0 |─┘      └───
//! ```

use paternoster_core::Nanos;

/// A number that changes, weighted by how long it lasted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    now: u64,
    most: u64,
    since: Nanos,
    /// Nanoseconds times how many.
    area: u128,
    /// How long there was at least one, and how often the first arrived.
    busy: Nanos,
    periods: u64,
}

impl Depth {
    /// How many there are.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The most there ever were.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// How long there was at least one.
    #[must_use]
    pub const fn busy(&self) -> Nanos {
        self.busy
    }

    /// How many spans of time there were with at least one.
    #[must_use]
    pub const fn periods(&self) -> u64 {
        self.periods
    }

    /// The mean over a span of time.
    #[must_use]
    pub fn mean(&self, span: Nanos) -> f64 {
        if span == Nanos::ZERO { 0.0 } else { self.area as f64 / span.0 as f64 }
    }

    /// The mean while there was at least one.
    #[must_use]
    pub fn mean_busy(&self) -> f64 {
        self.mean(self.busy)
    }

    /// Advances the time.
    #[inline]
    pub(super) fn pass(&mut self, at: Nanos) {
        let passed = at.0.saturating_sub(self.since.0);
        self.since = self.since.max(at);
        self.area += u128::from(passed) * u128::from(self.now);
        if self.now > 0 {
            self.busy = Nanos(self.busy.0 + passed);
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, at: Nanos) {
        self.pass(at);
        self.periods += u64::from(self.now == 0);
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    #[inline]
    pub(super) fn leave(&mut self, at: Nanos) {
        self.pass(at);
        self.now = self.now.saturating_sub(1);
    }
}

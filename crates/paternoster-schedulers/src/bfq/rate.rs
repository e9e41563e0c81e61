// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate: what the device can do at best, and the budgets and times that follow from it.
//!
//! The largest budget should be what the device serves within the budget timeout, so that a
//! sequential reader uses up its budget in about that time. So the rate is observed over intervals
//! of about a second in which most requests were sequential, or which were faster than the current
//! estimate. The more sequential and the longer an interval, the more it counts:
//!
//! ```text
//! 22000 so far; 1000 requests, 990 of them sequential, 1,000,000 sectors in 1 s
//! rate 65536 (1 sector/us = 2^16), weight 9 * 990 / 1000 = 8, divisor 2
//! 22000 / 2 + 65536 / 2 = 43768
//! ```
//!
//! # Invariants
//! I1  The estimate is at least 1.
//! I2  The largest budget changes only with an accepted observation, or by hand.
//!
//! Source: BFQ-75 to BFQ-81.

use crate::bfq::probe_points::{ProbePoint, probe};
use paternoster_core::time::{Nanos, scale};

/// A rate of one sector per microsecond.
pub(super) const ONE: u64 = 1 << 16;
/// Requests and time that an interval must have.
const MIN_SAMPLES: u32 = 32;
const MIN_INTERVAL: Nanos = Nanos::from_millis(300);
/// The length an interval should have.
const REFERENCE: Nanos = Nanos::from_secs(1);
/// A pause that ends an interval.
const PAUSE: Nanos = Nanos::from_millis(100);
/// A longer gap between completions may end an interval; in a shorter one the device counts as
/// busy.
const GAP: Nanos = Nanos::from_millis(2);
/// A completion ends an interval if the largest request since divided by the gap is below this
/// rate. Linux means a million sectors per second, but compares with 977 (BFQ-76): with the
/// intended value no interval on a disk would last.
const SLOW: u64 = ONE >> 10;
/// The largest of this many requests.
const LARGEST_OF: u32 = 32;

/// What a request looks like to the estimator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispatched {
    pub(super) now: Nanos,
    pub(super) sectors: u64,
    /// It continues where the device has been.
    pub(super) is_near: bool,
    /// Requests in the device before it.
    pub(super) in_driver: u32,
}

/// The observation in progress, and the current estimate.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeakRate {
    /// The rate in 2^-16 sectors per microsecond.
    rate: u64,
    top: u64,
    samples: u32,
    sequential: u32,
    sectors: u64,
    largest: u64,
    first: Nanos,
    last: Nanos,
    /// From the first dispatch to the last one looked at.
    span: Nanos,
    last_completion: Nanos,
}

impl PeakRate {
    /// Two thirds of what a device of its kind does (BFQ-80).
    pub(super) const fn new(rotational: bool, top: u64) -> PeakRate {
        PeakRate {
            rate: reference(rotational) * 2 / 3,
            top: top.saturating_mul(ONE),
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            span: Nanos::ZERO,
            last_completion: Nanos::ZERO,
        }
    }

    /// The rate in 2^-16 sectors per microsecond.
    pub(super) const fn rate(&self) -> u64 {
        self.rate
    }

    /// When a request last ended.
    pub(super) const fn last_completion(&self) -> Nanos {
        self.last_completion
    }

    /// A request goes to the device. Returns whether the estimate is new.
    pub(super) fn dispatched(&mut self, request: Dispatched) -> bool {
        let now = request.now;
        let mut is_new = false;
        if self.samples == 0 {
            probe(None, ProbePoint::NothingObserved);
            self.begin(Some(request));
        } else if now - self.last > PAUSE && request.in_driver == 0 {
            is_new = self.close(Some(request));
        } else {
            let busy = request.in_driver > 0 || now - self.last_completion < GAP;
            self.samples += 1;
            self.sequential += u32::from(busy && request.is_near);
            self.sectors += request.sectors;
            let afresh = self.samples.is_multiple_of(LARGEST_OF);
            self.largest = if afresh { request.sectors } else { self.largest.max(request.sectors) };
            self.span = now - self.first;
            if self.span >= REFERENCE {
                is_new = self.close(Some(request));
            }
        }
        self.last = now;
        is_new
    }

    /// A request has ended. Returns whether the estimate is new.
    pub(super) fn completed(&mut self, now: Nanos) -> bool {
        let gap = now - self.last_completion;
        let slow = gap > GAP && (self.largest << 16) / gap.as_micros().max(1) < SLOW;
        let is_new = slow && self.close(None);
        self.last_completion = now;
        is_new
    }

    /// An interval begins with a request, or with the next one.
    fn begin(&mut self, with: Option<Dispatched>) {
        self.samples = 0;
        if let Some(request) = with {
            self.first = request.now;
            self.samples = 1;
            self.sequential = 0;
            self.sectors = request.sectors;
            self.largest = request.sectors;
        }
        let PeakRate { samples, sequential, sectors, .. } = *self;
        probe(None, ProbePoint::Observed { samples, sequential, sectors });
    }

    /// An interval ends. Returns whether it changed the estimate.
    fn close(&mut self, with: Option<Dispatched>) -> bool {
        let span = self.span.max(self.last_completion - self.first);
        let enough = self.samples >= MIN_SAMPLES && self.span >= MIN_INTERVAL;
        let is_new = enough && self.observe(span);
        self.begin(with);
        is_new
    }

    /// BFQ-77, BFQ-78.
    fn observe(&mut self, span: Nanos) -> bool {
        let rate = (self.sectors << 16) / span.as_micros().max(1);
        let (samples, sequential) = (u64::from(self.samples), u64::from(self.sequential));
        let mostly = sequential >= (3 * samples) >> 2;
        if (!mostly && rate <= self.rate) || rate > self.top {
            return false;
        }
        let nines = 9 * sequential / samples;
        let weight = scale(nines, span.0, REFERENCE.0).min(8);
        let divisor = 10 - weight;
        self.rate = (self.rate * (divisor - 1) / divisor + rate / divisor).max(1);
        true
    }
}

/// What a device of its kind does: 109 and 258 MB/s.
pub(super) const fn reference(rotational: bool) -> u64 {
    if rotational { 14_000 } else { 33_000 }
}

/// What is served at `rate` in `timeout`: the largest budget, in sectors (BFQ-79).
pub(super) fn budget_at(rate: u64, timeout: Nanos) -> u64 {
    let budget = scale(rate, timeout.as_millis().saturating_mul(1000), ONE);
    budget.clamp(1, i32::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval of this many requests, sequential ones and sectors, closed after `span`.
    fn observed(rate: u64, counts: (u32, u32, u64), span: Nanos) -> (bool, u64) {
        let (samples, sequential, sectors) = counts;
        let blank = PeakRate::new(false, 20);
        let mut peak = PeakRate { rate, samples, sequential, sectors, span, ..blank };
        (peak.close(None), peak.rate())
    }

    /// Do intervals give the rates that were computed independently, from BFQ-77 and BFQ-78?
    #[test]
    fn bfq_golden_peak_rate() {
        let second = Nanos::from_secs(1);
        assert_eq!(observed(22_000, (1000, 990, 1_000_000), second), (true, 43_768));
        assert_eq!(observed(22_000, (1000, 100, 1_000_000), second), (true, 26_353));
        assert_eq!(observed(22_000, (1000, 100, 100_000), second), (false, 22_000));
        let short = Nanos::from_millis(400);
        assert_eq!(observed(22_000, (40, 39, 200_000), short), (true, 23_538));
        assert_eq!(observed(22_000, (100_000, 99_990, 21_000_000), second), (false, 22_000));
    }

    /// Does an interval need 32 requests and 300 ms?
    #[test]
    fn bfq_77_an_interval_is_long_enough() {
        let span = Nanos::from_millis(300);
        assert!(observed(1000, (32, 32, 100_000), span).0);
        assert!(!observed(1000, (31, 31, 100_000), span).0);
        assert!(!observed(1000, (32, 32, 100_000), Nanos(span.0 - 1)).0);
    }

    /// Are these the largest budgets at the first estimates and at the reference rates?
    /// 9333 * 125,000 / 65536 = 17801; 22000: 41961; 14000: 26702; 33000: 62942; at 124 ms 17658
    /// and 41625.
    #[test]
    fn bfq_80_budgets_of_rates() {
        let at = |rate, ms| budget_at(rate, Nanos::from_millis(ms));
        assert_eq!((reference(true) * 2 / 3, reference(false) * 2 / 3), (9333, 22_000));
        assert_eq!((at(9333, 125), at(22_000, 125)), (17_801, 41_961));
        assert_eq!((at(14_000, 125), at(33_000, 125)), (26_702, 62_942));
        assert_eq!((at(9333, 124), at(22_000, 124)), (17_658, 41_625));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throttle: how many requests of each domain may be in flight, given the latencies that result.
//!
//! Reads, writes and discards each have a target. Two latencies of each are measured against it:
//! the *I/O latency*, from issue, tells whether the device is congested; the *total latency*, from
//! allocation, tells which domain suffers from waiting here. When the timer rings:
//!
//! 1. The device is **congested** if the 90th percentile of some domain's I/O latency misses its
//!    target.
//! 2. Then each domain's depth is scaled by the 99th percentile of its total latency, in quarters
//!    of its target (`observe/latency.rs`): `depth * (bucket + 1) / 4`.
//!
//! ```text
//! p99 within       1/4   1/2   3/4    1    5/4   6/4   7/4   more    of the target
//! bucket            0     1     2     3     4     5     6     7
//! depth           * 1/4   1/2   3/4    1    5/4   6/4   7/4    2
//!                  └── if congested ──┘    └──── always ────┘
//! ```
//!
//! So a domain that is better off than its target gives way under congestion; one that is worse off
//! always gets more. Reads at 1 ms of their 2 ms while writes miss 10 ms: 256 * 2 / 4 = 128.
//!
//! A domain without a percentile at a congested moment is judged by its last one, if that came
//! since the last congestion; otherwise it keeps its depth.
//!
//! # Invariants
//! I1  A depth is at least 1 and at most the domain's tokens. The depth of the rest, which has no
//!     target, never changes.
//!
//! Source: KY-1 to KY-4, KY-6. The rules leave open whether both kinds of latency of a domain share
//! one second of patience; here each has its own.

use alloc::format;

use super::domain::{DOMAINS, Depths, KINDS};
use paternoster_core::QueueView;
use paternoster_core::elevator::Fault;
use paternoster_core::event::Note;
use paternoster_core::observe::latency::{GOOD_BUCKETS, Histogram};
use paternoster_core::time::Nanos;

/// The domains with a target: all but the last.
const MEASURED: usize = DOMAINS - 1;

/// Latency targets of reads, writes and discards.
const TARGETS: [Nanos; MEASURED] =
    [Nanos::from_millis(2), Nanos::from_millis(10), Nanos::from_secs(5)];

/// The latencies of one domain.
#[derive(Debug, Clone, Copy)]
struct Gauge {
    target: Nanos,
    /// Latencies from allocation to end.
    total: Histogram,
    /// Latencies from issue to end.
    io: Histogram,
    /// The last bucket of the 99th percentile of `total`, since the last congestion.
    remembered: Option<u32>,
}

impl Gauge {
    fn new(target: Nanos) -> Gauge {
        let (total, io) = (Histogram::default(), Histogram::default());
        Gauge { target, total, io, remembered: None }
    }

    /// The bucket by which the domain is judged, given the one of its 99th percentile.
    fn judged_by(&mut self, told: Option<u32>, congested: bool) -> Option<u32> {
        if congested {
            let before = self.remembered.take();
            return told.or(before);
        }
        self.remembered = told.or(self.remembered);
        told
    }
}

/// The depths, and what changes them.
#[derive(Debug)]
pub(super) struct Throttle {
    gauges: [Gauge; MEASURED],
    depths: Depths,
}

impl Throttle {
    /// Starts with every domain at its full number of tokens, and with the usual targets.
    pub(super) fn new() -> Throttle {
        Throttle { gauges: TARGETS.map(Gauge::new), depths: all_tokens() }
    }

    /// Forgets everything but the targets.
    pub(super) fn reset(&mut self) {
        self.gauges = self.gauges.map(|gauge| Gauge::new(gauge.target));
        self.depths = all_tokens();
    }

    /// How many requests of each domain may be in flight.
    pub(super) const fn depths(&self) -> &Depths {
        &self.depths
    }

    /// The target of a domain that has one.
    pub(super) const fn target(&self, domain: usize) -> Nanos {
        self.gauges[domain].target
    }

    pub(super) const fn set_target(&mut self, domain: usize, target: Nanos) {
        self.gauges[domain].target = target;
    }

    /// Counts the latencies of a request that has ended. Returns whether its domain is measured.
    pub(super) fn record(&mut self, domain: usize, total: Nanos, io: Nanos) -> bool {
        let Some(gauge) = self.gauges.get_mut(domain) else { return false };
        gauge.total.record(total, gauge.target);
        gauge.io.record(io, gauge.target);
        true
    }

    /// Checks the latencies and sets the depths.
    pub(super) fn judge(&mut self, view: &mut QueueView) {
        let congested = self.is_congested(view);
        for (domain, gauge) in self.gauges.iter_mut().enumerate() {
            let told = gauge.total.take_percentile(view.now(), 99);
            note_latency(view, domain, 99, told);
            let Some(bucket) = gauge.judged_by(told, congested) else { continue };
            if congested || bucket >= GOOD_BUCKETS {
                let depth = scaled(self.depths[domain], bucket, KINDS[domain].tokens);
                if depth != self.depths[domain] {
                    self.depths[domain] = depth;
                    view.note(Note::DepthChanged { op: KINDS[domain].op, depth });
                }
            }
        }
    }

    /// Whether the device misses a target. All domains are asked, because asking resets them.
    fn is_congested(&mut self, view: &mut QueueView) -> bool {
        let mut congested = false;
        for (domain, gauge) in self.gauges.iter_mut().enumerate() {
            let told = gauge.io.take_percentile(view.now(), 90);
            note_latency(view, domain, 90, told);
            congested |= told.is_some_and(|bucket| bucket >= GOOD_BUCKETS);
        }
        congested
    }

    /// Verifies I1.
    pub(super) fn check(&self) -> Result<(), Fault> {
        for (domain, (depth, kind)) in self.depths.iter().zip(&KINDS).enumerate() {
            let least = if domain < MEASURED { 1 } else { kind.tokens };
            if !(least..=kind.tokens).contains(depth) {
                return Err(format!("I1: {depth} tokens for each {}", kind.name));
            }
        }
        Ok(())
    }
}

/// Every token of every domain.
fn all_tokens() -> Depths {
    core::array::from_fn(|domain| KINDS[domain].tokens)
}

/// KY-1 to KY-3: a depth scaled by the quarters of the target that a latency takes.
fn scaled(depth: u32, bucket: u32, most: u32) -> u32 {
    (depth * (bucket + 1) / GOOD_BUCKETS).clamp(1, most)
}

fn note_latency(view: &mut QueueView, domain: usize, percent: u32, told: Option<u32>) {
    if let Some(bucket) = told {
        view.note(Note::LatencyTold { op: KINDS[domain].op, percent, quarters: bucket + 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What does each bucket make of a depth? From 64: (bucket + 1) * 16. Never 0, never above 256.
    #[test]
    fn depths_scale_by_quarters() {
        let of_64: std::vec::Vec<u32> = (0..8).map(|bucket| scaled(64, bucket, 256)).collect();
        assert_eq!(of_64, [16, 32, 48, 64, 80, 96, 112, 128]);
        assert_eq!((scaled(1, 0, 256), scaled(3, 0, 256)), (1, 1));
        assert_eq!((scaled(256, 7, 256), scaled(200, 5, 256)), (256, 256));
    }

    /// Is a percentile remembered only until it is used, or until congestion brings a newer one?
    #[test]
    fn what_was_told_is_remembered_until_congestion() {
        let mut gauge = Gauge::new(Nanos::from_millis(2));
        assert_eq!(gauge.judged_by(Some(1), false), Some(1));
        assert_eq!(gauge.judged_by(None, false), None, "no news, no judgement");
        assert_eq!(gauge.judged_by(None, true), Some(1), "the one before");
        assert_eq!(gauge.judged_by(None, true), None, "and only once");
        gauge.judged_by(Some(2), false);
        assert_eq!(gauge.judged_by(Some(5), true), Some(5));
        assert_eq!(gauge.judged_by(None, true), None);
    }
}

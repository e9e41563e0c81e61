// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency: how long requests were in the device, and bios on their whole way, over time.
//!
//! ```text
//! Q ─────── D ───────── C
//!           └── D2C ────┘     of each request
//! └──────── Q2C ────────┘     of each bio, with the time that it waited
//! ```
//!
//! A latency is recorded when it ends. Each bucket of time has a histogram for each of D2C and Q2C,
//! of reads and of writes, so that means are exact and percentiles are available for any span.
//!
//! A flush, without sectors, is left out: it is neither read nor write.
//!
//! D2C counts once for each request, as in iowatcher. Differs from btt, which counts that of a
//! request once for each bio in it; Q2C is of bios in both.
//!
//! # Invariants
//! I1  The histograms of all buckets add up to that of the whole run.
//! I2  There are at most [`LATENCY_BUCKETS_MAX`] buckets with four histograms of at most 4 KiB: a
//!     little more than 4 MiB if every bucket had every latency from a microsecond to half an hour.
//!     Measured: 100 KiB for 2000 requests of 20 processes, 560 KiB for a million.
//!
//! Source: TRACE-32.

use paternoster_core::Nanos;
use paternoster_measure::CoarseHistogram;

use super::buckets::{Buckets, Join};
use super::step::{Step, StepKind};

/// The most buckets of time.
pub const LATENCY_BUCKETS_MAX: u64 = 256;

/// The interval that a latency covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// D2C: a request, from issue to completion.
    Device,
    /// Q2C: a bio, from submission to completion.
    Whole,
}

impl Way {
    /// Both intervals.
    pub const ALL: [Way; 2] = [Way::Device, Way::Whole];

    /// As btt writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Device => "D2C",
            Way::Whole => "Q2C",
        }
    }
}

/// The latencies that ended within one span: by way, reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies([[CoarseHistogram; 2]; 2]);

impl Latencies {
    /// The histogram of one interval and direction.
    #[must_use]
    pub const fn of(&self, way: Way, write: bool) -> &CoarseHistogram {
        &self.0[way as usize][write as usize]
    }
}

impl Join for Latencies {
    fn join(&mut self, later: Latencies) {
        for (ways, more) in self.0.iter_mut().zip(later.0) {
            for (histogram, more) in ways.iter_mut().zip(more) {
                histogram.join(more);
            }
        }
    }
}

/// The latencies of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyRecord {
    buckets: Buckets<Latencies>,
    end: Nanos,
}

impl Default for LatencyRecord {
    fn default() -> LatencyRecord {
        LatencyRecord { buckets: Buckets::new(LATENCY_BUCKETS_MAX), end: Nanos::ZERO }
    }
}

impl LatencyRecord {
    /// The buckets from time 0 on.
    #[must_use]
    pub fn buckets(&self) -> &[Latencies] {
        self.buckets.row()
    }

    /// The width of each bucket.
    #[must_use]
    pub const fn width(&self) -> Nanos {
        self.buckets.width()
    }

    /// When the last one ended.
    #[must_use]
    pub const fn end(&self) -> Nanos {
        self.end
    }

    /// All latencies of one interval and direction.
    #[must_use]
    pub fn total(&self, way: Way, write: bool) -> CoarseHistogram {
        let mut total = CoarseHistogram::default();
        for bucket in self.buckets() {
            total.join(bucket.of(way, write).clone());
        }
        total
    }

    /// Reads one step.
    pub fn step(&mut self, step: &Step) {
        let way = match step.kind {
            StepKind::Complete => Way::Device,
            StepKind::Done => Way::Whole,
            _ => return,
        };
        let Some(latency) = step.latency.filter(|_| step.sectors > 0) else { return };
        let latencies = self.buckets.at(step.at);
        latencies.0[way as usize][usize::from(step.write)].add(latency);
        self.end = step.at;
    }

    /// The same in buckets of twice the width.
    pub fn halve(&mut self) {
        self.buckets.halve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: u64, kind: StepKind, sectors: u32, latency: u64) -> Step {
        let latency = Some(Nanos(latency));
        Step { at: Nanos(at), kind, client: 0, write: false, sector: 0, sectors, latency }
    }

    /// Is each way by itself, and a flush left out?
    #[test]
    fn ways_by_hand() {
        let mut record = LatencyRecord::default();
        record.step(&step(5_000, StepKind::Complete, 8, 2_000));
        record.step(&step(5_000, StepKind::Done, 8, 4_000));
        record.step(&step(5_000, StepKind::Done, 8, 3_000));
        record.step(&step(6_000, StepKind::Complete, 0, 9_000));
        let [device, whole] = Way::ALL.map(|way| record.total(way, false));
        assert_eq!((device.count(), device.mean()), (1, Nanos(2_000)));
        assert_eq!((whole.count(), whole.mean(), whole.most()), (2, Nanos(3_500), Nanos(4_000)));
        assert_eq!((record.end(), record.buckets().len()), (Nanos(5_000), 6));
        assert_eq!(record.total(Way::Device, true).count(), 0);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow: bytes and requests over time, read and written, from which throughput and IOPS are drawn.
//!
//! A request is counted when it completes (`C`). In a trace without completions it is counted when
//! it goes to the device (`D`), and without those when a bio is submitted (`Q`). Which of them a
//! trace has is known only at its end, so all three are kept:
//!
//! ```text
//! bucket    0           1           2
//! Q         3 × 4 KiB   .           .
//! D         1 × 8 KiB   1 × 4 KiB   .
//! C         .           1 × 8 KiB   1 × 4 KiB    there is a C: this row is used
//! ```
//!
//! What has no sectors, a flush, is not counted. A discard is a write of its length.
//!
//! # Invariants
//! I1  The buckets of each row add up to all that happened.
//! I2  There are at most [`BUCKETS_MAX`] buckets of 96 bytes, 96 KiB.
//!
//! Source: TRACE-30.

use paternoster_core::Nanos;

use super::buckets::{Buckets, Join};
use super::depth::BUCKETS_MAX;
use super::step::{Step, StepKind};

const SECTOR: u64 = 512;

/// An amount of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Requests, or bios.
    pub count: u64,
}

impl Amount {
    fn add(&mut self, more: Amount) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.count += more.count;
    }
}

/// The action at which a request counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// `C`.
    Complete,
    /// `D`.
    Issue,
    /// `Q`.
    Queue,
}

impl Stage {
    /// From the best source to the worst.
    const ALL: [Stage; 3] = [Stage::Complete, Stage::Issue, Stage::Queue];

    /// The letter.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Stage::Complete => 'C',
            Stage::Issue => 'D',
            Stage::Queue => 'Q',
        }
    }
}

/// What happened in a bucket: by stage, reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow([[Amount; 2]; 3]);

impl Join for Flow {
    fn join(&mut self, later: Flow) {
        for (stage, more) in self.0.iter_mut().zip(later.0) {
            for (amount, more) in stage.iter_mut().zip(more) {
                amount.add(more);
            }
        }
    }
}

/// The flow of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRecord {
    buckets: Buckets<Flow>,
    total: Flow,
    /// When each stage had its last one.
    ends: [Nanos; 3],
}

impl Default for FlowRecord {
    fn default() -> FlowRecord {
        let (total, ends) = (Flow::default(), [Nanos::ZERO; 3]);
        FlowRecord { buckets: Buckets::new(BUCKETS_MAX), total, ends }
    }
}

impl FlowRecord {
    /// Where things are counted: the first of `C`, `D` and `Q` that there is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        let there = |stage: &Stage| self.total.0[*stage as usize].iter().any(|all| all.count > 0);
        Stage::ALL.into_iter().find(there).unwrap_or(Stage::Complete)
    }

    /// Bytes read in all, and bytes written.
    #[must_use]
    pub fn total(&self) -> [Amount; 2] {
        self.total.0[self.stage() as usize]
    }

    /// What was read and written in each bucket.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = [Amount; 2]> + '_ {
        let stage = self.stage() as usize;
        self.buckets.row().iter().map(move |flow| flow.0[stage])
    }

    /// The width of each bucket.
    #[must_use]
    pub const fn width(&self) -> Nanos {
        self.buckets.width()
    }

    /// The time of the last one that was counted.
    #[must_use]
    pub fn end(&self) -> Nanos {
        self.ends[self.stage() as usize]
    }

    /// Reads one step.
    pub fn step(&mut self, step: &Step) {
        let stage = match step.kind {
            StepKind::Complete | StepKind::Stray | StepKind::Part => Stage::Complete,
            StepKind::Issue => Stage::Issue,
            StepKind::Queue => Stage::Queue,
            StepKind::Requeue | StepKind::Done => return,
        };
        if step.sectors == 0 {
            return;
        }
        let mut flow = Flow::default();
        flow.0[stage as usize][usize::from(step.write)] =
            Amount { bytes: u64::from(step.sectors) * SECTOR, count: 1 };
        self.buckets.at(step.at).join(flow);
        self.total.join(flow);
        self.ends[stage as usize] = step.at;
    }

    /// The same in buckets of twice the width.
    pub fn halve(&mut self) {
        self.buckets.halve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: u64, kind: StepKind, write: bool, sectors: u32) -> Step {
        Step { at: Nanos(at), kind, client: 0, write, sector: 0, sectors, latency: None }
    }

    /// Is C used if there is one, otherwise D, otherwise Q? The drawing above, with 4 KiB in 8
    /// sectors.
    #[test]
    fn the_best_stage_is_told() {
        let mut record = FlowRecord::default();
        for _ in 0..3 {
            record.step(&step(10, StepKind::Queue, false, 8));
        }
        assert_eq!((record.stage(), record.total()[0].bytes), (Stage::Queue, 3 * 4_096));
        record.step(&step(20, StepKind::Issue, false, 16));
        record.step(&step(1_020, StepKind::Issue, true, 8));
        let amounts = |bytes, count| Amount { bytes, count };
        let none = Amount::default();
        assert_eq!(record.stage(), Stage::Issue);
        let row: Vec<_> = record.buckets().collect();
        assert_eq!(row, [[amounts(8_192, 1), none], [none, amounts(4_096, 1)]]);
        record.step(&step(1_030, StepKind::Complete, false, 16));
        record.step(&step(2_040, StepKind::Stray, true, 8));
        assert_eq!((record.stage(), record.end()), (Stage::Complete, Nanos(2_040)));
        assert_eq!(record.total(), [amounts(8_192, 1), amounts(4_096, 1)]);
        assert_eq!(record.buckets().next(), Some([none, none]));
    }

    /// Is a flush, which has no sectors, not counted?
    #[test]
    fn flushes_are_not_counted() {
        let mut record = FlowRecord::default();
        record.step(&step(10, StepKind::Complete, true, 0));
        assert_eq!((record.total(), record.end()), ([Amount::default(); 2], Nanos::ZERO));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a run that are compared: rates of processes, turns, and why these ended.
//!
//! Both sides are counted over the same part of a run, in the same way: sectors when a process
//! requests them, turns when they end.

use std::collections::BTreeMap;
use std::time::Duration;

/// In the order of the kernel's numbers.
pub(crate) const REASONS: [&str; 5] =
    ["too idle", "budget timeout", "budget exhausted", "no more requests", "preempted"];

/// Counts of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// Sectors by process, in the order of their pids.
    pub(crate) sectors: BTreeMap<u32, u64>,
    pub(crate) turns: u64,
    pub(crate) turns_last: Duration,
    pub(crate) ended: [u64; 5],
}

impl Figures {
    /// A turn of this length has ended.
    pub(crate) fn turn_ends(&mut self, lasted: Duration, reason: usize) {
        self.turns += 1;
        self.turns_last += lasted;
        self.ended[reason] += 1;
    }

    /// KiB per second of all.
    pub(crate) fn rate(&self, span: Duration) -> f64 {
        float(self.sectors.values().sum()) / 2.0 / span.as_secs_f64()
    }

    /// The percentage of each process, by pid.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let all = float(self.sectors.values().sum());
        self.sectors.values().map(|&sectors| 100.0 * float(sectors) / all).collect()
    }

    /// Mean length of a turn in milliseconds.
    pub(crate) fn turn_ms(&self) -> f64 {
        self.turns_last.as_secs_f64() * 1000.0 / float(self.turns.max(1))
    }

    /// Per cent of the turns that ended for each reason.
    pub(crate) fn mix(&self) -> [f64; 5] {
        self.ended.map(|count| 100.0 * float(count) / float(self.turns.max(1)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

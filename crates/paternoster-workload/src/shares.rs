// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares: how much of the device each process got, and how even that was.
//!
//! Fairness is judged by device time: while k commands are in service each is charged 1/k of the
//! time that passes. Processes that run between the same two stonewalls compete; the share of each
//! is its part of their device time.
//!
//! ```text
//! device time 1.2 s and 3.8 s     shares 24 % and 76 %     Jain's index 0.787
//! ```
//!
//! A request that several clients' bios were merged into is charged whole to the first of them.
//!
//! Source: device time is that of `paternoster-core`'s `device.rs`; the index that of
//! [`paternoster_measure::jain`].

use paternoster_measure::jain;

use crate::run::RunResult;

/// The jobs between two stonewalls of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionShares {
    /// Number of the section, from 0.
    pub section: usize,
    /// Places of its processes in the result.
    pub processes: Vec<usize>,
    /// Share of each in the device time of all of them, 0 to 1, in the same order.
    pub shares: Vec<f64>,
    /// Jain's index of their device time; none where they had none.
    pub jain: Option<f64>,
    /// Part of the section's time that the device had nothing to do, 0 to 1.
    pub idle: f64,
}

/// The shares of every section.
#[must_use]
pub fn shares(result: &RunResult) -> Vec<SectionShares> {
    (0..result.sections.len())
        .map(|section| {
            let members = result.processes.iter().enumerate();
            let processes: Vec<usize> = members
                .filter(|(_, process)| process.section == section)
                .map(|(place, _)| place)
                .collect();
            let served = processes.iter().map(|&place| as_f64(result.processes[place].served.0));
            let served: Vec<f64> = served.collect();
            let sum: f64 = served.iter().sum();
            let share = |served: &f64| if sum > 0.0 { served / sum } else { 0.0 };
            SectionShares {
                section,
                shares: served.iter().map(share).collect(),
                jain: jain(served.iter().copied()),
                idle: idle(result, section),
                processes,
            }
        })
        .collect()
}

fn idle(result: &RunResult, section: usize) -> f64 {
    let Some(section) = result.sections.get(section) else { return 0.0 };
    let time = (section.ended - section.began).0;
    if time == 0 { 0.0 } else { 1.0 - as_f64(section.busy.0) / as_f64(time) }
}

/// Exact up to 104 days in nanoseconds; beyond that the last digits go.
#[expect(clippy::cast_precision_loss, reason = "a report's figure")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares: who got how much of the device, and how even that was.
//!
//! Fairness is judged by device time: while k commands are in service each is charged 1/k of the
//! time that passes. A group's figures are made of the rates `device time / measured time` of its
//! processes:
//!
//! ```text
//! rates 0.24 and 0.75     shares 24 % and 76 %
//! Jain index (0.24 + 0.75)^2 / (2 (0.24^2 + 0.75^2)) = 0.790      1 is even, 1/n is all to one
//! ```
//!
//! Source: plan of the house, "Device time"; R. Jain et al. 1984 for the index.

use crate::run::{ProcessResult, RunResult};

/// One reporting group of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupShares {
    /// Its number in the report.
    pub group: u32,
    /// Places of its processes in the result.
    pub processes: Vec<usize>,
    /// Share of each in the device time of all of them, 0 to 1, in the same order.
    pub shares: Vec<f64>,
    /// Jain's index of their device time.
    pub jain: f64,
    /// Part of the time that the device had nothing to do, 0 to 1, in the section of the group.
    pub idle: f64,
}

/// The shares of every group; `groups` tells the group of each job.
#[must_use]
pub fn shares(result: &RunResult, groups: &[u32]) -> Vec<GroupShares> {
    let group_of = |process: &ProcessResult| groups.get(process.job).copied().unwrap_or(0);
    let count = groups.iter().max().map_or(0, |&last| last + 1);
    (0..count)
        .map(|group| {
            let members = result.processes.iter().enumerate();
            let processes: Vec<usize> = members
                .filter(|(_, process)| group_of(process) == group)
                .map(|(place, _)| place)
                .collect();
            let rates: Vec<f64> =
                processes.iter().map(|&place| rate(&result.processes[place])).collect();
            let sum: f64 = rates.iter().sum();
            let share = |rate: &f64| if sum > 0.0 { rate / sum } else { 0.0 };
            let section = processes.first().map(|&place| result.processes[place].section);
            GroupShares {
                group,
                shares: rates.iter().map(share).collect(),
                jain: jain(&rates),
                idle: section.map_or(0.0, |section| idle(result, section)),
                processes,
            }
        })
        .collect()
}

/// Device time per time, for one process.
fn rate(process: &ProcessResult) -> f64 {
    let time = process.statistics.runtime().0;
    if time == 0 { 0.0 } else { as_f64(process.served.0) / as_f64(time) }
}

/// Jain's index of fairness; 1 when there is nothing to divide.
#[must_use]
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let count = rates.iter().map(|_| 1.0).sum::<f64>();
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the index say 1 for even shares, 1/n for all to one, and the essay's example in
    /// between? (0.24 + 0.75)^2 = 0.9801; 2 (0.0576 + 0.5625) = 1.2402; 0.9801 / 1.2402 = 0.790.
    #[test]
    fn jain_is_one_when_even() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[0.24, 0.75]) - 0.790).abs() < 5e-4);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares: how much of the device each process got, and how even that was.
//!
//! Fairness is judged by device time: while k commands are in service each is charged 1/k of the
//! time that passes. Processes that run between the same two stonewalls compete; the share of each
//! is its part of their device time.
//!
//! ```text
//! device time 1.2 s and 3.8 s     shares 24 % and 76 %
//! Jain index (1.2 + 3.8)^2 / (2 (1.2^2 + 3.8^2)) = 0.787      1 is even, 1/n is all to one
//! ```
//!
//! A request that several clients' bios were merged into is charged whole to the first of them.
//!
//! Source: device time is that of `paternoster-core`'s `device.rs`; R. Jain et al. 1984 for the
//! index.

use crate::run::RunResult;

/// The jobs between two stonewalls of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionShares {
    /// Its number, from 0.
    pub section: usize,
    /// Places of its processes in the result.
    pub processes: Vec<usize>,
    /// Share of each in the device time of all of them, 0 to 1, in the same order.
    pub shares: Vec<f64>,
    /// Jain's index of their device time.
    pub jain: f64,
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
                jain: jain(&served),
                idle: idle(result, section),
                processes,
            }
        })
        .collect()
}

/// Jain's index of fairness; 1 when there is nothing to divide.
#[must_use]
pub fn jain(amounts: &[f64]) -> f64 {
    let sum: f64 = amounts.iter().sum();
    let squares: f64 = amounts.iter().map(|amount| amount * amount).sum();
    let count = amounts.iter().map(|_| 1.0).sum::<f64>();
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

    /// Is the index 1 for even shares, 1/n for all to one, and the module's example in between?
    /// (1.2 + 3.8)^2 = 25; 2 (1.44 + 14.44) = 31.76; 25 / 31.76 = 0.787.
    #[test]
    fn jain_is_one_when_even() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[1.2, 3.8]) - 0.787).abs() < 5e-4);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }
}

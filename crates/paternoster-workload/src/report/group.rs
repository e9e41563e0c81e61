// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group: what the jobs of one reporting group did together, by direction.
//!
//! The aggregate bandwidth is the bytes of all over the *longest* runtime, so jobs that ran one
//! after another in a group are not added up as if they had run at once:
//!
//! ```text
//! A 14272 KiB in 5001 ms, B 7256 KiB in 5003 ms     21528 KiB in 5003 ms = 4406.4 bytes per ms
//! ```
//!
//! Source: FIO-106.

use std::borrow::Borrow;

use crate::statistics::bytes_per_second;

use super::JobReport;
use super::side::Side;

/// Sum and extremes of one direction over the jobs of a group that used it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupStatus {
    pub(super) bytes: u64,
    pub(super) bandwidth_min: u64,
    pub(super) bandwidth_max: u64,
    pub(super) runtime_ms_min: u64,
    pub(super) runtime_ms_max: u64,
}

impl GroupStatus {
    /// Of the jobs in `group` with this side, or nothing if none of them has I/O on it.
    pub(super) fn of<J: Borrow<JobReport>>(
        jobs: &[J],
        group: u32,
        side: Side,
    ) -> Option<GroupStatus> {
        let members = jobs.iter().map(Borrow::borrow).filter(|job| job.group == group);
        let telling = members.filter(|job| Side::of(job).contains(&side));
        let used = telling.map(|job| side.statistics(&job.statistics)).filter(|d| d.ios() > 0);
        used.map(|d| GroupStatus {
            bytes: d.bytes(),
            bandwidth_min: d.bytes_per_second(),
            bandwidth_max: d.bytes_per_second(),
            runtime_ms_min: d.runtime_ms(),
            runtime_ms_max: d.runtime_ms(),
        })
        .reduce(|one, other| GroupStatus {
            bytes: one.bytes.saturating_add(other.bytes),
            bandwidth_min: one.bandwidth_min.min(other.bandwidth_min),
            bandwidth_max: one.bandwidth_max.max(other.bandwidth_max),
            runtime_ms_min: one.runtime_ms_min.min(other.runtime_ms_min),
            runtime_ms_max: one.runtime_ms_max.max(other.runtime_ms_max),
        })
    }

    /// Bytes per second of all together.
    pub(super) fn bandwidth(&self) -> u64 {
        bytes_per_second(self.bytes, self.runtime_ms_max)
    }

    /// A mean bandwidth in KiB/s, cut to a whole number, in per cent of the group's; at most 100.
    ///
    /// The cut is fio's: `fair.json` has 66.667507 for a mean of 3201.44 in a group with
    /// 4916674 B/s = 4801.44 KiB/s, and that is 3201 / 4801.44.
    pub(super) fn share_of(&self, mean_kib: f64) -> f64 {
        let whole = self.bandwidth() as f64 / 1024.0;
        if whole > 0.0 { (100.0 * mean_kib.trunc() / whole).min(100.0) } else { 100.0 }
    }
}

/// The groups that occur, in order.
pub(super) fn groups<J: Borrow<JobReport>>(jobs: &[J]) -> Vec<u32> {
    let mut groups: Vec<u32> = jobs.iter().map(|job| job.borrow().group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

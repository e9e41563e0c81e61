// SPDX-License-Identifier: MIT OR Apache-2.0
//! Side: what a report separates: reads, writes and trims, or all of them as one.
//!
//! `unified_rw_reporting=mixed` reports the three directions as one, `both` does so after them.
//! Latencies then are one stream, the bandwidths of the samples are concatenated, bytes and I/Os
//! add up.
//!
//! Source: FIO-115; outputs of fio 3.33. Differs: with `both` fio prints no bandwidth for
//! `mixed` in the normal form; here it is the sum, as in its JSON and its `Run status`.

use std::borrow::Cow;

use crate::direction::Direction;
use crate::fio::job::Unified;
use crate::statistics::{DirectionStatistics, JobStatistics};

use super::JobReport;

/// One of the things that a report has figures of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Read,
    Write,
    Trim,
    Mixed,
}

impl Side {
    /// All of them, in the order in which groups report them.
    pub(super) const ALL: [Side; 4] = [Side::Read, Side::Write, Side::Trim, Side::Mixed];

    /// The sides of a job's report, in order.
    pub(super) fn of(job: &JobReport) -> &'static [Side] {
        match job.unified {
            Unified::None => &[Side::Read, Side::Write, Side::Trim],
            Unified::Mixed => &[Side::Mixed],
            Unified::Both => &Side::ALL,
        }
    }

    /// The lower-case name that reports use.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Side::Read => "read",
            Side::Write => "write",
            Side::Trim => "trim",
            Side::Mixed => "mixed",
        }
    }

    /// The figures of this side.
    pub(super) fn statistics(self, job: &JobStatistics) -> Cow<'_, DirectionStatistics> {
        let direction = match self {
            Side::Read => Direction::Read,
            Side::Write => Direction::Write,
            Side::Trim => Direction::Trim,
            Side::Mixed => return Cow::Owned(job.mixed()),
        };
        Cow::Borrowed(job.direction(direction))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports: one run's figures, in the forms that readers of fio reports know.
//!
//! A [`RunReport`] is plain data: who ran, with which options, and each job's
//! [`JobStatistics`]. Six functions turn it into text, and none of them reads a clock:
//!
//! ```text
//!                  +-> normal()      fio 3.33, for people
//!                  +-> json()        fio 3.33, for programs
//!   RunReport  ----+-> json_plus()   the same with all bins of latencies
//!                  +-> terse()       fio 3.33, one line per job, for scripts
//!                  +-> normal1()     fio 1.x, to compare with reports of 2010
//!                  +-> csv()         one line per job and direction, for spreadsheets
//! ```
//!
//! A report lists all clones of all jobs. The functions themselves merge those which asked for
//! `group_reporting` (see [`merge_groups`]; merging twice does no harm), because the lines that
//! open a normal report describe the jobs before the merge.
//!
//! Source: FIO-110 to FIO-123; samples of fio 3.33.

pub mod csv;
mod group;
pub mod json;
mod latency_text;
pub mod normal;
pub mod normal1;
pub mod number;
mod side;
pub mod terse;

use std::borrow::Cow;

use crate::fio::job::Unified;
use crate::fio::latency_target::LatencyGoal;
use crate::statistics::JobStatistics;

pub use csv::csv;
pub use json::{json, json_plus};
pub use normal::normal;
pub use normal1::normal1;
pub use terse::{TerseVersion, terse};

/// The fio whose forms these are.
const FIO_VERSION: &str = "fio-3.33";
/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// When the run took place: virtual time begins at the epoch, and equal runs print equal reports.
const TIME: &str = "Thu Jan  1 00:00:00 1970";

/// One run: all that a report is made of.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// The simulated device, for columns that name it.
    pub device: String,
    /// The I/O scheduler.
    pub scheduler: String,
    /// The seed of the run.
    pub seed: u64,
    /// The options of all `[global]` sections in order; a key may occur twice.
    pub global_options: Vec<(String, String)>,
    /// All clones of all jobs in order of creation.
    pub jobs: Vec<JobReport>,
    /// The disks under the jobs.
    pub disks: Vec<DiskReport>,
    /// What fio has no place for; printed in JSON under `paternoster`. `Null` is omitted.
    pub extra: serde_json::Value,
}

/// One clone of a job, or several merged into one.
#[derive(Debug, Clone)]
pub struct JobReport {
    /// The job's name.
    pub name: String,
    /// The `description` option.
    pub description: Option<String>,
    /// The reporting group, from 0.
    pub group: u32,
    /// Whether the job's figures merge with those of its neighbours in the group.
    pub group_reporting: bool,
    /// How many clones these figures represent.
    pub clones: u32,
    /// The errno which ended the job, or 0.
    pub error: u32,
    /// The process number.
    pub pid: u32,
    /// The options of the job's own section, as given. Those without a value are not printed.
    pub options: Vec<(String, String)>,
    /// The `rw` option: `randread`.
    pub rw_text: String,
    /// Least and greatest block of each direction.
    pub block_size: [(u64, u64); 3],
    /// The `ioengine` option.
    pub engine: String,
    /// The `iodepth` option.
    pub iodepth: u32,
    /// The percentiles to print, in per cent; none when empty.
    pub percentiles: Vec<f64>,
    /// Seconds from the start of the run to the report.
    pub elapsed_s: u64,
    /// Whether a line that describes the job is due: true for the first clone of a section.
    pub first_of_section: bool,
    /// The clones of the section; above 1 a line `...` follows the description.
    pub section_clones: u32,
    /// Whether directions are separated.
    pub unified: Unified,
    /// The latency for which a depth was searched.
    pub latency_goal: LatencyGoal,
    /// The depth that was found, if one was searched.
    pub searched_depth: Option<u32>,
    /// The figures.
    pub statistics: JobStatistics,
}

/// What one disk did during the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskReport {
    /// The disk's name.
    pub name: String,
    /// Requests completed: reads, writes.
    pub ios: [u64; 2],
    /// Requests merged into others: reads, writes.
    pub merges: [u64; 2],
    /// Time that requests spent in the queue and the device, in ms: reads, writes.
    pub ticks_ms: [u64; 2],
    /// The same for all requests together.
    pub in_queue_ms: u64,
    /// Share of the run in which the disk had something to do.
    pub util_percent: f64,
}

/// Merges neighbours of one group with `group_reporting`.
///
/// The first clone lends its name, description, options, pid and depth; the first error that
/// occurred is kept.
#[must_use]
pub fn merge_groups(jobs: Vec<JobReport>) -> Vec<JobReport> {
    let mut merged: Vec<JobReport> = Vec::with_capacity(jobs.len());
    for job in jobs {
        match merged.last_mut() {
            Some(last) if belongs_to(&job, last) => absorb(last, &job),
            _ => merged.push(job),
        }
    }
    merged
}

/// The same as [`merge_groups`] for borrowed jobs: copies only those which gather others.
fn merged(jobs: &[JobReport]) -> Vec<Cow<'_, JobReport>> {
    let mut merged: Vec<Cow<'_, JobReport>> = Vec::with_capacity(jobs.len());
    for job in jobs {
        match merged.last_mut() {
            Some(last) if belongs_to(job, last) => absorb(last.to_mut(), job),
            _ => merged.push(Cow::Borrowed(job)),
        }
    }
    merged
}

fn belongs_to(job: &JobReport, last: &JobReport) -> bool {
    job.group_reporting && last.group_reporting && job.group == last.group
}

fn absorb(into: &mut JobReport, job: &JobReport) {
    into.clones += job.clones;
    into.elapsed_s = into.elapsed_s.max(job.elapsed_s);
    if into.error == 0 {
        into.error = job.error;
    }
    into.statistics.merge(&job.statistics);
}

/// The number of processes in words.
fn starting(report: &RunReport) -> String {
    match report.jobs.iter().map(|job| u64::from(job.clones)).sum::<u64>() {
        1 => "Starting 1 process".to_owned(),
        processes => format!("Starting {processes} processes"),
    }
}

#[cfg(test)]
mod tests;

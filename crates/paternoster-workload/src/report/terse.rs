// SPDX-License-Identifier: MIT OR Apache-2.0
//! Terse: one line per job with its figures between semicolons, as `fio --minimal` prints it.
//!
//! Scripts take fields by their number, so version 3 has exactly 130 of them with one disk:
//!
//! ```text
//!   1-5    version, fio's version, job, group, error
//!   6-46   reads:  KiB, KiB/s, IOPS, ms;  slat, clat: min max mean stdev (us);  20 percentiles;
//!                  lat: the same four;  bandwidth: min max percent-of-group mean stdev
//!  47-87   writes
//!  88-92   user %, system %, context switches, major and minor faults
//!  93-99   depths      100-109 latencies in us      110-121 latencies in ms
//! 122-130  each disk: name, ios, merges, ticks (reads, writes), in queue, use
//!  then    the description, if there is one
//! ```
//!
//! Version 2 has trims, but neither fio's version nor disks, and the description on a line of its
//! own; 4 is 3 with trims; 5 is 4 with the number of bandwidth samples and the IOPS of the samples.
//!
//! Differs: the version names this program after fio's; a simulation has no system time and no
//! minor faults.
//!
//! Source: FIO-121; manual; outputs of fio 3.33 in all four versions.

use std::borrow::Cow;
use std::fmt::Write;

use crate::statistics::{DirectionStatistics, JobStatistics, Latency};

use super::group::GroupStatus;
use super::side::Side;
use super::{DiskReport, FIO_VERSION, JobReport, RunReport, VERSION, merged};

/// Percentiles of a line; those that the job does not have are `0%=0`.
const PERCENTILES: usize = 20;

/// The option `--terse-version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TerseVersion {
    /// Version 2, of fio 1.
    Two = 2,
    /// Version 3, which scripts know.
    #[default]
    Three = 3,
    /// Version 4: with trims.
    Four = 4,
    /// Version 5: with all about samples.
    Five = 5,
}

impl TerseVersion {
    /// The version of this number, from 2 to 5.
    #[must_use]
    pub fn of(number: u8) -> Option<TerseVersion> {
        use TerseVersion::{Five, Four, Three, Two};
        [Two, Three, Four, Five].into_iter().find(|version| *version as u8 == number)
    }
}

/// The report as lines of fields.
#[must_use]
pub fn terse(report: &RunReport, version: TerseVersion) -> String {
    let jobs = merged(&report.jobs);
    let mut out = String::new();
    for job in &jobs {
        line(&mut out, job, &jobs, &report.disks, version);
    }
    out
}

fn line(
    out: &mut String,
    job: &JobReport,
    jobs: &[Cow<'_, JobReport>],
    disks: &[DiskReport],
    version: TerseVersion,
) {
    let _ = write!(out, "{}", version as u8);
    if version > TerseVersion::Two {
        let _ = write!(out, ";{FIO_VERSION} (paternoster {VERSION})");
    }
    let _ = write!(out, ";{};{};{}", job.name, job.group, job.error);
    for side in Side::of(job).iter().copied() {
        if side == Side::Trim && version == TerseVersion::Three {
            continue;
        }
        let statistics = side.statistics(&job.statistics);
        let status = GroupStatus::of(jobs, job.group, side);
        direction(out, &statistics, status, &job.percentiles, version);
    }
    machine(out, &job.statistics);
    if version > TerseVersion::Two {
        disks.iter().for_each(|one| disk(out, one));
    }
    if let Some(description) = &job.description {
        let apart = if version == TerseVersion::Two { "\n" } else { "" };
        let _ = write!(out, "{apart};{description}");
    }
    out.push('\n');
}

fn direction(
    out: &mut String,
    statistics: &DirectionStatistics,
    status: Option<GroupStatus>,
    percentiles: &[f64],
    version: TerseVersion,
) {
    let kib = statistics.bytes() / 1024;
    let rate = statistics.bytes_per_second() / 1024;
    let iops = super::normal::whole_iops(statistics);
    let _ = write!(out, ";{kib};{rate};{iops};{}", statistics.runtime_ms());
    latency(out, statistics.submission());
    latency(out, statistics.completion());
    let histogram = statistics.completion_histogram();
    for place in 0..PERCENTILES {
        let _ = match percentiles.get(place) {
            Some(p) => write!(out, ";{p:.6}%={}", histogram.percentile(*p) / 1000),
            None => write!(out, ";0%=0"),
        };
    }
    latency(out, statistics.total());
    let kib = statistics.samples().bandwidth();
    let share = status.filter(|_| kib.count() > 0).map_or(0.0, |s| s.share_of(kib.mean()));
    let (min, max, mean, stdev) = (kib.min(), kib.max(), kib.mean(), kib.stdev());
    let _ = write!(out, ";{min};{max};{share:.6}%;{mean:.6};{stdev:.6}");
    if version == TerseVersion::Five {
        let iops = statistics.samples().iops();
        let (min, max, mean, stdev) = (iops.min(), iops.max(), iops.mean(), iops.stdev());
        let samples = iops.count();
        let _ = write!(out, ";{};{min};{max};{mean:.6};{stdev:.6};{samples}", kib.count());
    }
}

/// Least, greatest, mean and deviation in microseconds, the first two cut to whole ones.
fn latency(out: &mut String, latency: &Latency) {
    let (min, max) = (latency.min().as_micros(), latency.max().as_micros());
    let (mean, stdev) = (latency.mean() / 1000.0, latency.stdev() / 1000.0);
    let _ = write!(out, ";{min};{max};{mean:.6};{stdev:.6}");
}

/// What the directions have in common: CPU, depths, distribution.
fn machine(out: &mut String, statistics: &JobStatistics) {
    let user = statistics.user_per_cent();
    let _ = write!(out, ";{user:.6}%;0.000000%;{};0;0", statistics.context_switches());
    for (_, share) in statistics.depths().shares() {
        let _ = write!(out, ";{share:.1}%");
    }
    let (steps, ios) = (statistics.distribution(), statistics.ios());
    let nanoseconds: f64 = steps.nanoseconds(ios).map(|(_, share)| share).sum();
    for (place, (_, share)) in steps.microseconds(ios).enumerate() {
        // There are no nanoseconds here: they count among the first step.
        let below = if place == 0 { nanoseconds } else { 0.0 };
        let _ = write!(out, ";{:.2}%", share + below);
    }
    for (_, share) in steps.milliseconds(ios) {
        let _ = write!(out, ";{share:.2}%");
    }
}

fn disk(out: &mut String, disk: &DiskReport) {
    let DiskReport { name, ios, merges, ticks_ms, in_queue_ms, util_percent } = disk;
    let _ = write!(
        out,
        ";{name};{};{};{};{};{};{};{in_queue_ms};{util_percent:.2}%",
        ios[0], ios[1], merges[0], merges[1], ticks_ms[0], ticks_ms[1],
    );
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Normal, old form: reports as fio printed them around 2010, for comparison with reports of that
//! time.
//!
//! ```text
//! test00: (g=0): rw=randread, bs=8K-8K/8K-8K, ioengine=sync, iodepth=1
//! test00: (groupid=0, jobs=1): err= 0: pid=1
//!   read : io=7256KiB, bw=1485KiB/s, iops=181, runt=5003msec
//!     clat (usec): min=.., max=.., avg=.., stdev=..
//! Run status group 0 (all jobs):
//!    READ: io=21528KiB, aggrb=4406KiB/s, minb=1485KiB/s, maxb=2922KiB/s, mint=5001msec, maxt=..
//! ```
//!
//! The bandwidths are *bytes per millisecond*, rounded down, though labelled KiB/s; `io` really is
//! in KiB. Thus 21528 KiB in 5003 ms print as 21528 * 1024 / 5003 = 4406, not as 4303. Comparing
//! old figures with new ones needs the same mistake on both sides.
//!
//! Latencies are in us, or in ms when all of their figures exceed 1000 us; there are no ns and no
//! percentiles. Times are measured in ns here, so shares below 1 us count as `2`.
//!
//! Source: FIO-120; the report in seed 000.

use std::borrow::Cow;
use std::fmt::Write;

use crate::direction::Direction;
use crate::statistics::{DirectionStatistics, Latency, LatencyDistribution, Moments};

use super::group::{GroupStatus, groups};
use super::latency_text::{Unit, distribution_lines, latency_line};
use super::normal::{cpu_line, depth_lines, disk_block, whole_iops};
use super::side::Side;
use super::{JobReport, RunReport, VERSION, merged, starting};

/// The report in the form of fio 1.x.
#[must_use]
pub fn normal1(report: &RunReport) -> String {
    let mut out = String::new();
    for job in report.jobs.iter().filter(|job| job.first_of_section) {
        description_line(&mut out, job);
    }
    let _ = writeln!(out, "paternoster-{VERSION}, in the form of fio 1.x");
    let _ = writeln!(out, "{}\n", starting(report));
    let jobs = merged(&report.jobs);
    for job in &jobs {
        job_block(&mut out, job, &jobs);
    }
    for group in groups(&jobs) {
        group_block(&mut out, group, &jobs);
    }
    disk_block(&mut out, &report.disks);
    out
}

/// A section's request; trims are not shown.
fn description_line(out: &mut String, job: &JobReport) {
    let [reads, writes, _] = job.block_size.map(|(least, greatest)| {
        let (least, greatest) = (binary_size(least), binary_size(greatest));
        format!("{least}-{greatest}")
    });
    let JobReport { name, group, rw_text, engine, iodepth, .. } = job;
    let _ = writeln!(
        out,
        "{name}: (g={group}): rw={rw_text}, bs={reads}/{writes}, ioengine={engine}, \
         iodepth={iodepth}",
    );
    if job.section_clones > 1 {
        out.push_str("...\n");
    }
}

/// A size in the largest unit of which it is a whole number: 8192 is `8K`, 1000 is `1000`.
fn binary_size(bytes: u64) -> String {
    let units = [(1_u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let fitting = units.iter().find(|(size, _)| bytes > 0 && bytes.is_multiple_of(*size));
    fitting.map_or(bytes.to_string(), |(size, name)| format!("{}{name}", bytes / size))
}

fn job_block(out: &mut String, job: &JobReport, jobs: &[Cow<'_, JobReport>]) {
    let JobReport { name, group, clones, error, pid, .. } = job;
    let _ = writeln!(out, "{name}: (groupid={group}, jobs={clones}): err={error:2}: pid={pid}");
    if let Some(description) = &job.description {
        let _ = writeln!(out, "  Description  : [{description}]");
    }
    for side in Side::of(job) {
        if let Some(status) = GroupStatus::of(jobs, *group, *side) {
            direction_block(out, *side, &side.statistics(&job.statistics), &status);
        }
    }
    cpu_line(out, &job.statistics);
    depth_lines(out, &job.statistics);
    let [reads, writes, _] =
        Direction::ALL.map(|direction| job.statistics.direction(direction).ios());
    let _ = writeln!(out, "     issued r/w: total={reads}/{writes}, short=0/0");
    let steps = without_nanoseconds(job.statistics.distribution());
    let head = |unit: &str| format!("     lat ({unit})");
    distribution_lines(out, head, &steps, job.statistics.ios());
}

fn direction_block(
    out: &mut String,
    side: Side,
    statistics: &DirectionStatistics,
    status: &GroupStatus,
) {
    if statistics.ios() == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "  {:<5}: io={}KiB, bw={}KiB/s, iops={}, runt={}msec",
        side.name(),
        statistics.bytes() / 1024,
        statistics.bytes_per_second() / 1000,
        whole_iops(statistics),
        statistics.runtime_ms(),
    );
    old_latency_line(out, "    slat", statistics.submission());
    old_latency_line(out, "    clat", statistics.completion());
    bandwidth_line(out, statistics.samples().bandwidth(), status);
}

/// In ms if all figures exceed 1000 us, otherwise in us.
fn old_latency_line(out: &mut String, label: &str, latency: &Latency) {
    let edge_ns = 1_000_000.0;
    let large =
        latency.min().0 > 1_000_000 && latency.mean() > edge_ns && latency.stdev() > edge_ns;
    let unit =
        if large { Unit { name: "msec", ns: 1_000_000 } } else { Unit { name: "usec", ns: 1_000 } };
    latency_line(out, label, latency, unit);
}

fn bandwidth_line(out: &mut String, kib: &Moments, status: &GroupStatus) {
    if kib.count() == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "    bw (KiB/s) : min={:5}, max={:5}, per={:.2}%, avg={:5.2}, stdev={:5.2}",
        kib.min(),
        kib.max(),
        status.share_of(kib.mean()),
        kib.mean(),
        kib.stdev(),
    );
}

/// The distribution as a clock of microseconds would have seen it.
fn without_nanoseconds(distribution: &LatencyDistribution) -> LatencyDistribution {
    let mut steps = *distribution;
    steps.microseconds[0] += steps.nanoseconds.iter().sum::<u64>();
    steps.nanoseconds = [0; 10];
    steps
}

fn group_block(out: &mut String, group: u32, jobs: &[Cow<'_, JobReport>]) {
    let _ = writeln!(out, "\nRun status group {group} (all jobs):");
    for side in Side::ALL {
        if let Some(status) = GroupStatus::of(jobs, group, side) {
            out.push_str(&status_line(side, &status));
        }
    }
}

/// Bytes per ms are bytes per second / 1000; rounding down twice equals rounding down once.
fn status_line(side: Side, status: &GroupStatus) -> String {
    format!(
        "{:>7}: io={}KiB, aggrb={}KiB/s, minb={}KiB/s, maxb={}KiB/s, mint={}msec, maxt={}msec\n",
        side.name().to_uppercase(),
        status.bytes / 1024,
        status.bandwidth() / 1000,
        status.bandwidth_min / 1000,
        status.bandwidth_max / 1000,
        status.runtime_ms_min,
        status.runtime_ms_max,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do sizes read as in seed 000? Whole units only, otherwise bytes.
    #[test]
    fn sizes_of_that_age() {
        let texts = [(8192, "8K"), (65536, "64K"), (1 << 20, "1M"), (512, "512"), (0, "0")];
        for (bytes, text) in texts {
            assert_eq!(binary_size(bytes), text);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Normal: the report that fio 3.33 prints for people, line for line.
//!
//! ```text
//! test00: (g=0): rw=randread, bs=(R) 8192B-8192B, ... ioengine=sync, iodepth=1    each section
//! paternoster-0.1.0, in the form of fio-3.33
//! Starting 8 processes
//! test00: (groupid=0, jobs=1): err= 0: pid=1: Thu Jan  1 00:00:00 1970            each job
//!   read: IOPS=400, BW=3201KiB/s (3278kB/s)(15.6MiB/5001msec)                     each direction
//!     clat (usec): min=40, max=4448, avg=68.04, stdev=166.26
//!   ...
//! Run status group 0 (all jobs):                                                  each group
//!    READ: bw=4801KiB/s (4917kB/s), 1600KiB/s-3201KiB/s (...), io=23.4MiB (24.6MB), run=...
//! Disk stats (read/write):
//!   vda: ios=26124/85, merge=18/55, ticks=13553/69, in_queue=13631, util=5.85%
//! ```
//!
//! Differs: the version line names this program, the date is the epoch (no clock is read), and
//! files are not laid out. `majf` and `minf` are 0: there is no memory to fault in. A player has a
//! line `frames` before `cpu`.
//!
//! Source: FIO-110, FIO-111; `fair.normal.txt`, `mix.normal.txt`.

use std::borrow::Cow;
use std::fmt::Write;

use paternoster_core::Nanos;

use crate::direction::Direction;
use crate::fio::job::Unified;
use crate::fio::latency_target::LatencyGoal;
use crate::statistics::{DirectionStatistics, JobStatistics, Moments};

use super::group::{GroupStatus, groups};
use super::latency_text::{distribution_lines, fitted_latency_line, percentile_lines, share_list};
use super::number::{Base, abbreviate, bytes_iec, bytes_si};
use super::side::Side;
use super::{DiskReport, FIO_VERSION, JobReport, RunReport, TIME, VERSION, merged, starting};

/// Bandwidth samples are printed in MiB/s when their mean is above this many KiB/s (1 GiB/s).
const MIB_ABOVE_KIB: f64 = 1024.0 * 1024.0;

/// The report in the form of fio 3.33.
#[must_use]
pub fn normal(report: &RunReport) -> String {
    let mut out = String::new();
    for job in report.jobs.iter().filter(|job| job.first_of_section) {
        description_line(&mut out, job);
    }
    let _ = writeln!(out, "paternoster-{VERSION}, in the form of {FIO_VERSION}");
    let _ = writeln!(out, "{}", starting(report));
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

/// A section's request: `test00: (g=0): rw=randread, bs=(R) 8192B-8192B, ...`.
fn description_line(out: &mut String, job: &JobReport) {
    let [reads, writes, trims] = job.block_size.map(|(least, greatest)| {
        let (least, greatest) = (bytes_iec(least), bytes_iec(greatest));
        format!("{least}-{greatest}")
    });
    let JobReport { name, group, rw_text, engine, iodepth, .. } = job;
    let _ = writeln!(
        out,
        "{name}: (g={group}): rw={rw_text}, bs=(R) {reads}, (W) {writes}, (T) {trims}, \
         ioengine={engine}, iodepth={iodepth}",
    );
    if job.section_clones > 1 {
        out.push_str("...\n");
    }
}

/// All lines of one job.
fn job_block(out: &mut String, job: &JobReport, jobs: &[Cow<'_, JobReport>]) {
    let JobReport { name, group, clones, error, pid, .. } = job;
    let _ =
        writeln!(out, "{name}: (groupid={group}, jobs={clones}): err={error:2}: pid={pid}: {TIME}");
    if let Some(description) = &job.description {
        let _ = writeln!(out, "  Description  : [{description}]");
    }
    for side in Side::of(job) {
        if let Some(status) = GroupStatus::of(jobs, *group, *side) {
            let statistics = side.statistics(&job.statistics);
            direction_block(out, *side, &statistics, &status, &job.percentiles);
        }
    }
    let statistics = &job.statistics;
    let head = |unit: &str| format!("  lat ({unit})   ");
    distribution_lines(out, head, statistics.distribution(), statistics.ios());
    sync_block(out, statistics, &job.percentiles);
    frames_line(out, statistics);
    cpu_line(out, statistics);
    depth_block(out, job);
}

/// Rates, latencies and samples of one direction; nothing when it saw no I/O.
fn direction_block(
    out: &mut String,
    side: Side,
    statistics: &DirectionStatistics,
    status: &GroupStatus,
    percentiles: &[f64],
) {
    if statistics.ios() == 0 {
        return;
    }
    rate_line(out, side, statistics);
    fitted_latency_line(out, "    slat", statistics.submission());
    fitted_latency_line(out, "    clat", statistics.completion());
    fitted_latency_line(out, "     lat", statistics.total());
    percentile_lines(out, "clat", statistics.completion_histogram(), percentiles);
    bandwidth_line(out, statistics.samples().bandwidth(), status);
    iops_line(out, statistics.samples().iops());
}

fn rate_line(out: &mut String, side: Side, statistics: &DirectionStatistics) {
    let bandwidth = statistics.bytes_per_second();
    let _ = writeln!(
        out,
        "  {}: IOPS={}, BW={}/s ({}/s)({}/{}msec){}",
        side.name(),
        abbreviate(whole_iops(statistics), 4, Base::Si),
        bytes_iec(bandwidth),
        bytes_si(bandwidth),
        bytes_iec(statistics.bytes()),
        statistics.runtime_ms(),
        // Simulated devices have no zones, but fio on Linux always says so.
        if side == Side::Write { "; 0 zone resets" } else { "" },
    );
}

/// I/Os per second, rounded down as fio does: 399.92 prints as 399.
pub(super) fn whole_iops(statistics: &DirectionStatistics) -> u64 {
    // The same quotient as of bytes, for a "byte" that is one I/O.
    crate::statistics::bytes_per_second(statistics.ios(), statistics.runtime_ms())
}

fn bandwidth_line(out: &mut String, kib: &Moments, status: &GroupStatus) {
    if kib.count() == 0 {
        return;
    }
    let (unit, divisor) = if kib.mean() > MIB_ABOVE_KIB { ("MiB", 1024) } else { ("KiB", 1) };
    let _ = writeln!(
        out,
        "   bw ({unit:>5}/s): min={:5}, max={:5}, per={:.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
        kib.min() / divisor,
        kib.max() / divisor,
        status.share_of(kib.mean()),
        kib.mean() / divisor as f64,
        kib.stdev() / divisor as f64,
        kib.count(),
    );
}

fn iops_line(out: &mut String, iops: &Moments) {
    if iops.count() == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
        iops.min(),
        iops.max(),
        iops.mean(),
        iops.stdev(),
        iops.count(),
    );
}

/// The syncs, which no direction owns.
fn sync_block(out: &mut String, statistics: &JobStatistics, percentiles: &[f64]) {
    if statistics.sync().n() == 0 {
        return;
    }
    out.push_str("  fsync/fdatasync/sync_file_range:\n");
    fitted_latency_line(out, "    sync", statistics.sync());
    percentile_lines(out, "sync", statistics.sync_histogram(), percentiles);
}

/// A player's frames, which fio does not know: in milliseconds, from when they were due.
fn frames_line(out: &mut String, statistics: &JobStatistics) {
    let Some(frames) = statistics.frames() else { return };
    let millis = |time: Nanos| time.0 as f64 / 1e6;
    let _ = writeln!(
        out,
        "  frames       : total={}, late={} ({:.2}%), unread={}, worst={:.3}msec late, \
         longest={:.3}msec",
        frames.count(),
        frames.late(),
        frames.late_per_cent(),
        frames.unread(),
        millis(frames.worst()),
        millis(frames.longest()),
    );
}

/// Submitting counts as user mode, copying pages as the kernel's.
pub(super) fn cpu_line(out: &mut String, statistics: &JobStatistics) {
    let (user, system) = (statistics.user_per_cent(), statistics.system_per_cent());
    let switches = statistics.context_switches();
    let _ = writeln!(
        out,
        "  cpu          : usr={user:.2}%, sys={system:.2}%, ctx={switches}, majf=0, minf=0"
    );
}

fn depth_block(out: &mut String, job: &JobReport) {
    let statistics = &job.statistics;
    depth_lines(out, statistics);
    let [reads, writes, trims] = match job.unified {
        // fio counts all as reads.
        Unified::Mixed => [statistics.ios(), 0, 0],
        _ => Direction::ALL.map(|direction| statistics.direction(direction).ios()),
    };
    let syncs = statistics.sync().n();
    let _ = writeln!(
        out,
        "     issued rwts: total={reads},{writes},{trims},{syncs} short=0,0,0,0 dropped=0,0,0,0"
    );
    // The target in nanoseconds, the window in microseconds: fio's units.
    let LatencyGoal { target, window, percentile, .. } = job.latency_goal;
    let (target, window) = (target.0, window.as_micros());
    let depth = job.searched_depth.unwrap_or(job.iodepth);
    let _ = writeln!(
        out,
        "     latency   : target={target}, window={window}, percentile={percentile:.2}%, \
         depth={depth}"
    );
}

/// The three lines of depths and batches.
pub(super) fn depth_lines(out: &mut String, statistics: &JobStatistics) {
    let _ = writeln!(out, "  IO depths    : {}", share_list(statistics.depths().shares()));
    let _ = writeln!(out, "     submit    : {}", share_list(statistics.submits().shares()));
    let _ = writeln!(out, "     complete  : {}", share_list(statistics.reaps().shares()));
}

fn group_block(out: &mut String, group: u32, jobs: &[Cow<'_, JobReport>]) {
    let _ = writeln!(out, "\nRun status group {group} (all jobs):");
    for side in Side::ALL {
        if let Some(status) = GroupStatus::of(jobs, group, side) {
            out.push_str(&status_line(side, &status));
        }
    }
}

fn status_line(side: Side, status: &GroupStatus) -> String {
    let (all, least, most) = (status.bandwidth(), status.bandwidth_min, status.bandwidth_max);
    format!(
        "{:>7}: bw={}/s ({}/s), {}/s-{}/s ({}/s-{}/s), io={} ({}), run={}-{}msec\n",
        side.name().to_uppercase(),
        bytes_iec(all),
        bytes_si(all),
        bytes_iec(least),
        bytes_iec(most),
        bytes_si(least),
        bytes_si(most),
        bytes_iec(status.bytes),
        bytes_si(status.bytes),
        status.runtime_ms_min,
        status.runtime_ms_max,
    )
}

/// What the disks did; nothing when there are none.
pub(super) fn disk_block(out: &mut String, disks: &[DiskReport]) {
    if disks.is_empty() {
        return;
    }
    out.push_str("\nDisk stats (read/write):\n");
    for DiskReport { name, ios, merges, ticks_ms, in_queue_ms, util_percent } in disks {
        let _ = writeln!(
            out,
            "  {name}: ios={}/{}, merge={}/{}, ticks={}/{}, in_queue={in_queue_ms}, \
             util={util_percent:.2}%",
            ios[0], ios[1], merges[0], merges[1], ticks_ms[0], ticks_ms[1],
        );
    }
}

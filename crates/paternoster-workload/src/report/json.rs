// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON: the report that fio 3.33 prints for programs, key for key.
//!
//! Programs read `.jobs[0].read.iops` and the like, some with a parser and some with `grep`, so
//! keys, their order, `"key" : value` with a blank on either side, two blanks of indent and six
//! decimals of each float are all kept. Option lists are printed in the order in which they were
//! given and may hold a key twice, as fio's do; a map type would lose that.
//!
//! Figures that fio has no key for are under `paternoster`, after all others.
//!
//! `json+` adds to every latency with percentiles the counts of its bins, by their middle.
//!
//! Differs: `fio version` names this program after fio's version, and the time is the epoch (no
//! clock is read). `total_ios` counts completed I/Os.
//!
//! Source: FIO-122; `fair.json`, `mix.json`.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::fio::job::Unified;
use crate::statistics::{Histogram, JobStatistics, Latency};

use super::group::GroupStatus;
use super::side::Side;
use super::{DiskReport, FIO_VERSION, JobReport, RunReport, TIME, VERSION, merged};

/// The report as fio's JSON.
#[must_use]
pub fn json(report: &RunReport) -> String {
    text(report, false)
}

/// The same with the bins of every latency that has percentiles: fio's `json+`.
#[must_use]
pub fn json_plus(report: &RunReport) -> String {
    text(report, true)
}

fn text(report: &RunReport, with_bins: bool) -> String {
    let jobs = merged(&report.jobs);
    let tree = Root {
        version: format!("{FIO_VERSION} (paternoster {VERSION})"),
        timestamp: 0,
        timestamp_ms: 0,
        time: TIME,
        global_options: options(&report.global_options),
        jobs: jobs.iter().map(|job| job_tree(job, &jobs, with_bins)).collect(),
        disk_util: report.disks.iter().map(disk_tree).collect(),
        paternoster: Some(&report.extra).filter(|extra| !extra.is_null()),
    };
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, FioFormatter::new());
    // Neither can fail: a vector takes all bytes, keys are strings, and serde_json writes UTF-8.
    let _ = tree.serialize(&mut serializer);
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

/// An object whose keys keep their order and may repeat.
#[derive(Debug)]
struct Object<K, V>(Vec<(K, V)>);

impl<K: AsRef<str>, V: Serialize> Serialize for Object<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key.as_ref(), value)?;
        }
        map.end()
    }
}

type Options<'a> = Object<&'a str, &'a str>;
type Shares = Object<&'static str, f64>;

#[derive(Serialize)]
struct Root<'a> {
    #[serde(rename = "fio version")]
    version: String,
    timestamp: u64,
    timestamp_ms: u64,
    time: &'static str,
    #[serde(rename = "global options")]
    global_options: Options<'a>,
    jobs: Vec<Job<'a>>,
    disk_util: Vec<Disk<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paternoster: Option<&'a serde_json::Value>,
}

#[derive(Serialize)]
struct Job<'a> {
    jobname: &'a str,
    groupid: u32,
    error: u32,
    eta: u64,
    elapsed: u64,
    #[serde(rename = "job options")]
    options: Options<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<DirectionTree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<DirectionTree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trim: Option<DirectionTree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<SyncTree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mixed: Option<DirectionTree>,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    ctx: u64,
    majf: u64,
    minf: u64,
    iodepth_level: Shares,
    iodepth_submit: Shares,
    iodepth_complete: Shares,
    latency_ns: Shares,
    latency_us: Shares,
    latency_ms: Shares,
    latency_depth: u32,
    latency_target: u64,
    latency_percentile: f64,
    latency_window: u64,
}

#[derive(Serialize)]
struct DirectionTree {
    io_bytes: u64,
    io_kbytes: u64,
    bw_bytes: u64,
    bw: u64,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: LatencyTree,
    clat_ns: LatencyTree,
    lat_ns: LatencyTree,
    bw_min: u64,
    bw_max: u64,
    bw_agg: f64,
    bw_mean: f64,
    bw_dev: f64,
    bw_samples: u64,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: u64,
}

#[derive(Serialize)]
struct SyncTree {
    total_ios: u64,
    lat_ns: LatencyTree,
}

#[derive(Serialize)]
struct LatencyTree {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<Object<String, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bins: Option<Object<String, u64>>,
}

#[derive(Serialize)]
struct Disk<'a> {
    name: &'a str,
    read_ios: u64,
    write_ios: u64,
    read_merges: u64,
    write_merges: u64,
    read_ticks: u64,
    write_ticks: u64,
    in_queue: u64,
    util: f64,
}

/// Options with a value; the samples do not list bare ones (`time_based`, `group_reporting`).
fn options(given: &[(String, String)]) -> Options<'_> {
    let with_value = given.iter().filter(|(_, value)| !value.is_empty());
    Object(with_value.map(|(key, value)| (key.as_str(), value.as_str())).collect())
}

fn job_tree<'a>(job: &'a JobReport, jobs: &[Cow<'_, JobReport>], with_bins: bool) -> Job<'a> {
    let statistics: &JobStatistics = &job.statistics;
    let side = |side: Side| {
        let told = Side::of(job).contains(&side);
        told.then(|| direction_tree(job, side, jobs, with_bins))
    };
    // As one, directions and syncs are not separated.
    let sync = (job.unified != Unified::Mixed).then(|| SyncTree {
        total_ios: statistics.sync().n(),
        lat_ns: with_percentiles(
            statistics.sync(),
            statistics.sync_histogram(),
            &job.percentiles,
            with_bins,
        ),
    });
    let (steps, ios) = (statistics.distribution(), statistics.ios());
    Job {
        jobname: &job.name,
        groupid: job.group,
        error: job.error,
        eta: 0,
        elapsed: job.elapsed_s,
        options: options(&job.options),
        read: side(Side::Read),
        write: side(Side::Write),
        trim: side(Side::Trim),
        sync,
        mixed: side(Side::Mixed),
        job_runtime: statistics.runtime().as_millis(),
        usr_cpu: statistics.user_per_cent(),
        sys_cpu: statistics.system_per_cent(),
        ctx: statistics.context_switches(),
        majf: 0,
        minf: 0,
        iodepth_level: Object(statistics.depths().shares().collect()),
        iodepth_submit: Object(statistics.submits().shares().collect()),
        iodepth_complete: Object(statistics.reaps().shares().collect()),
        latency_ns: Object(steps.nanoseconds(ios).collect()),
        latency_us: Object(steps.microseconds(ios).collect()),
        latency_ms: Object(steps.milliseconds(ios).collect()),
        latency_depth: job.searched_depth.unwrap_or(job.iodepth),
        latency_target: job.latency_goal.target.0,
        latency_percentile: job.latency_goal.percentile,
        latency_window: job.latency_goal.window.as_micros(),
    }
}

fn direction_tree(
    job: &JobReport,
    side: Side,
    jobs: &[Cow<'_, JobReport>],
    with_bins: bool,
) -> DirectionTree {
    let statistics = side.statistics(&job.statistics);
    let (bandwidth, iops) = (statistics.samples().bandwidth(), statistics.samples().iops());
    let status = GroupStatus::of(jobs, job.group, side).filter(|_| bandwidth.count() > 0);
    DirectionTree {
        io_bytes: statistics.bytes(),
        io_kbytes: statistics.bytes() / 1024,
        bw_bytes: statistics.bytes_per_second(),
        bw: statistics.bytes_per_second() / 1024,
        iops: statistics.ios_per_second(),
        runtime: statistics.runtime_ms(),
        total_ios: statistics.ios(),
        short_ios: 0,
        drop_ios: 0,
        slat_ns: without_percentiles(statistics.submission()),
        clat_ns: with_percentiles(
            statistics.completion(),
            statistics.completion_histogram(),
            &job.percentiles,
            with_bins,
        ),
        lat_ns: without_percentiles(statistics.total()),
        bw_min: bandwidth.min(),
        bw_max: bandwidth.max(),
        bw_agg: status.map_or(0.0, |status| status.share_of(bandwidth.mean())),
        bw_mean: bandwidth.mean(),
        bw_dev: bandwidth.stdev(),
        bw_samples: bandwidth.count(),
        iops_min: iops.min(),
        iops_max: iops.max(),
        iops_mean: iops.mean(),
        iops_stddev: iops.stdev(),
        iops_samples: iops.count(),
    }
}

fn without_percentiles(latency: &Latency) -> LatencyTree {
    LatencyTree {
        min: latency.min().0,
        max: latency.max().0,
        mean: latency.mean(),
        stddev: latency.stdev(),
        n: latency.n(),
        percentile: None,
        bins: None,
    }
}

fn with_percentiles(
    latency: &Latency,
    histogram: &Histogram,
    percentiles: &[f64],
    with_bins: bool,
) -> LatencyTree {
    let wanted = latency.n() > 0 && !percentiles.is_empty();
    let entries = || percentiles.iter().map(|p| (format!("{p:.6}"), histogram.percentile(*p)));
    let bins = || histogram.bins().map(|(ns, count)| (ns.to_string(), count));
    LatencyTree {
        percentile: wanted.then(|| Object(entries().collect())),
        bins: (wanted && with_bins).then(|| Object(bins().collect())),
        ..without_percentiles(latency)
    }
}

fn disk_tree(disk: &DiskReport) -> Disk<'_> {
    Disk {
        name: &disk.name,
        read_ios: disk.ios[0],
        write_ios: disk.ios[1],
        read_merges: disk.merges[0],
        write_merges: disk.merges[1],
        read_ticks: disk.ticks_ms[0],
        write_ticks: disk.ticks_ms[1],
        in_queue: disk.in_queue_ms,
        util: disk.util_percent,
    }
}

/// serde_json's pretty form with fio's blanks before colons and fio's six decimals.
struct FioFormatter(PrettyFormatter<'static>);

impl FioFormatter {
    fn new() -> FioFormatter {
        FioFormatter(PrettyFormatter::with_indent(b"  "))
    }
}

impl Formatter for FioFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value:.6}")
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

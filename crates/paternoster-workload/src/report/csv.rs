// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: one line per job and direction, for spreadsheets and plots.
//!
//! Unlike fio's own terse form the columns have names with their units, and no line depends on its
//! length. Jobs with `group_reporting` are one line with `clones` above 1; a direction without I/O
//! has no line. Latencies are total (slat + clat) unless the name says otherwise, percentiles are
//! the middle of their bin (within 1/128 of the value). Fields with commas, quotes or line ends are
//! quoted according to RFC 4180.

pub use paternoster_base::csv::field;

use crate::statistics::DirectionStatistics;

use super::side::Side;
use super::{JobReport, RunReport, merged};

/// The columns in order.
const COLUMNS: &str = "scheduler,device,seed,group,job,clones,direction,ios,bytes,runtime_ms,\
    bw_kib_per_s,iops,bw_min_kib_per_s,bw_max_kib_per_s,bw_stdev_kib_per_s,\
    slat_mean_us,clat_mean_us,lat_min_us,lat_mean_us,lat_stdev_us,\
    lat_p50_us,lat_p95_us,lat_p99_us,lat_p999_us,lat_max_us";

/// The report as comma-separated values, after a line with the columns' names if `header`.
#[must_use]
pub fn csv(report: &RunReport, header: bool) -> String {
    let mut out = String::new();
    if header {
        out.push_str(COLUMNS);
        out.push('\n');
    }
    for job in merged(&report.jobs) {
        for side in Side::of(&job) {
            let statistics = side.statistics(&job.statistics);
            if statistics.ios() > 0 {
                out.push_str(&line(report, &job, *side, &statistics).join(","));
                out.push('\n');
            }
        }
    }
    out
}

/// The fields of one line, in the order of [`COLUMNS`].
fn line(
    report: &RunReport,
    job: &JobReport,
    side: Side,
    statistics: &DirectionStatistics,
) -> Vec<String> {
    let (total, samples) = (statistics.total(), statistics.samples().bandwidth());
    let percentile = |p| us(statistics.total_histogram().percentile(p) as f64);
    vec![
        field(&report.scheduler),
        field(&report.device),
        report.seed.to_string(),
        job.group.to_string(),
        field(&job.name),
        job.clones.to_string(),
        side.name().to_owned(),
        statistics.ios().to_string(),
        statistics.bytes().to_string(),
        statistics.runtime_ms().to_string(),
        format!("{:.3}", statistics.bytes_per_second() as f64 / 1024.0),
        format!("{:.3}", statistics.ios_per_second()),
        samples.min().to_string(),
        samples.max().to_string(),
        format!("{:.3}", samples.stdev()),
        us(statistics.submission().mean()),
        us(statistics.completion().mean()),
        us(total.min().0 as f64),
        us(total.mean()),
        us(total.stdev()),
        percentile(50.0),
        percentile(95.0),
        percentile(99.0),
        percentile(99.9),
        us(total.max().0 as f64),
    ]
}

/// Nanoseconds as microseconds with all their digits.
fn us(ns: f64) -> String {
    format!("{:.3}", ns / 1000.0)
}

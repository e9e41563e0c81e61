// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results: the outcomes of runs as tables, a row for each thing measured.
//!
//! ```text
//! runs         device scheduler seed │ digest, virtual time, the device's own counts
//! clients                 "          │ job clone direction │ rates, latencies, share, entitled
//! sections                "          │ section │ Jain's index, idle, the worst-off client
//! histograms              "          │ job clone direction value_ns │ count
//! series                  "          │ time_ns job clone direction │ requests, bytes
//! ```
//!
//! The program prints each figure in its table or in its JSON; a percentile is the middle of its
//! bin, and at most the largest value.

use paternoster::Ran;
use paternoster_workload::Direction;
use paternoster_workload::outcome::Outcome;
use paternoster_workload::report::{self, JobReport};

use crate::series::Series;
use crate::table::{Cell, Kind, Table};

type Row = Vec<Cell>;
type Head = &'static [(&'static str, Kind)];
/// Reads one kind of rows.
type Rows = fn(&Outcome, &Series) -> Vec<Row>;

/// All results of a call.
pub(crate) struct Found {
    pub(crate) tables: Vec<(&'static str, Table)>,
    /// fio's JSON of each run.
    pub(crate) documents: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) failed: Option<String>,
}

/// The columns that identify a run, in front of each row.
const RUN: Head = &[("device", Kind::Word), ("scheduler", Kind::Word), ("seed", Kind::Unsigned)];

/// Every table: its name, its columns after those of `RUN`, its rows.
const TABLES: [(&str, Head, Rows); 5] = [
    ("runs", RUNS, |outcome, _| vec![run(outcome)]),
    ("clients", CLIENTS, |outcome, _| clients(outcome)),
    ("sections", SECTIONS, |outcome, _| sections(outcome)),
    ("histograms", HISTOGRAMS, |outcome, _| histograms(outcome)),
    ("series", SERIES, |_, series| over_time(series)),
];

const RUNS: Head = &[
    ("digest", Kind::Word),
    ("virtual_time_ns", Kind::Integer),
    ("reads", Kind::Integer),
    ("writes", Kind::Integer),
    ("read_merges", Kind::Integer),
    ("write_merges", Kind::Integer),
    ("refused", Kind::Integer),
    ("busy", Kind::Float),
];

const CLIENTS: Head = &[
    ("section", Kind::Integer),
    ("group", Kind::Integer),
    ("job", Kind::Word),
    ("clone", Kind::Integer),
    ("pid", Kind::Integer),
    ("direction", Kind::Word),
    ("error", Kind::Integer),
    ("ios", Kind::Integer),
    ("bytes", Kind::Integer),
    ("runtime_ms", Kind::Integer),
    ("bytes_per_second", Kind::Integer),
    ("iops", Kind::Float),
    ("min_ns", Kind::Integer),
    ("mean_ns", Kind::Float),
    ("stdev_ns", Kind::Float),
    ("p50_ns", Kind::Integer),
    ("p90_ns", Kind::Integer),
    ("p99_ns", Kind::Integer),
    ("p999_ns", Kind::Integer),
    ("max_ns", Kind::Integer),
    ("sync_p99_ns", Kind::Integer),
    ("device_time_share", Kind::Float),
    ("got", Kind::Float),
    ("entitled", Kind::Float),
];

const SECTIONS: Head = &[
    ("section", Kind::Integer),
    ("jain_device_time", Kind::Float),
    ("device_idle", Kind::Float),
    ("worst_off", Kind::Word),
    ("got_of_entitled", Kind::Float),
];

const HISTOGRAMS: Head = &[
    ("job", Kind::Word),
    ("clone", Kind::Integer),
    ("direction", Kind::Word),
    ("value_ns", Kind::Integer),
    ("count", Kind::Integer),
];

const SERIES: Head = &[
    ("time_ns", Kind::Integer),
    ("job", Kind::Word),
    ("clone", Kind::Integer),
    ("direction", Kind::Word),
    ("requests", Kind::Integer),
    ("bytes", Kind::Integer),
    ("device_time_ns", Kind::Integer),
];

/// The tables of all runs of all seeds.
pub(crate) fn found(all: &[Ran<Series>]) -> Found {
    let runs = || all.iter().flat_map(|ran| &ran.runs);
    let table = |(name, head, rows): (&'static str, Head, Rows)| {
        let rows = runs().flat_map(|(outcome, series)| {
            let report = &outcome.report;
            let run: Row = vec![
                report.device.as_str().into(),
                report.scheduler.as_str().into(),
                Cell::Unsigned(report.seed),
            ];
            let of_run = rows(outcome, series).into_iter();
            of_run.map(move |row| run.iter().cloned().chain(row).collect())
        });
        let rows: Vec<Row> = rows.collect();
        let made = Table::new(&[RUN, head].concat(), &rows);
        (name, made.expect("each column is made with its own type and all rows"))
    };
    let document = |(outcome, _): &(Outcome, Series)| report::json(&outcome.report);
    let mut notes: Vec<String> = Vec::new();
    for note in all.iter().flat_map(|ran| &ran.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    Found {
        tables: TABLES.into_iter().map(table).collect(),
        documents: runs().map(document).collect(),
        notes,
        failed: all.iter().find_map(|ran| ran.failed.clone()),
    }
}

fn run(outcome: &Outcome) -> Row {
    let extra = &outcome.report.extra;
    let number = |name: &str| Cell::from(extra[name].as_u64());
    let digest = outcome.event_hash.map(|hash| format!("{hash:016x}"));
    let disk = outcome.report.disks.first();
    let count = |of: fn(&report::DiskReport) -> u64| Cell::from(disk.map(of));
    vec![
        digest.as_deref().into(),
        number("virtual_time_ns"),
        count(|disk| disk.ios[0]),
        count(|disk| disk.ios[1]),
        count(|disk| disk.merges[0]),
        count(|disk| disk.merges[1]),
        number("refused_by_device"),
        disk.map(|disk| disk.util_percent / 100.0).into(),
    ]
}

/// The places of jobs with their clone, and the directions in which they did I/O; one without I/O
/// has a row of reads.
fn each(outcome: &Outcome) -> impl Iterator<Item = (usize, &JobReport, u64, Direction)> {
    let jobs = outcome.report.jobs.iter().enumerate();
    jobs.flat_map(|(place, job)| {
        let clones = outcome.report.jobs[..place].iter().rev();
        let clone = if job.first_of_section {
            0
        } else {
            1 + clones.take_while(|before| !before.first_of_section).count() as u64
        };
        let ios = |direction: &Direction| job.statistics.direction(*direction).ios();
        let mut went: Vec<Direction> = Direction::ALL.into_iter().filter(|d| ios(d) > 0).collect();
        if went.is_empty() {
            went.push(Direction::Read);
        }
        went.into_iter().map(move |direction| (place, job, clone, direction))
    })
}

fn clients(outcome: &Outcome) -> Vec<Row> {
    let section = |place: usize| {
        let of = |section: &&_| is_in(section, place);
        outcome.shares.iter().find(of)
    };
    let row = |(place, job, clone, direction): (usize, &JobReport, u64, Direction)| {
        let statistics = job.statistics.direction(direction);
        let latency = statistics.total();
        let max = latency.max().0;
        let percentile = |p: f64| statistics.total_histogram().percentile(p).min(max);
        let sync = (job.statistics.sync().n() > 0).then(|| {
            job.statistics.sync_histogram().percentile(99.0).min(job.statistics.sync().max().0)
        });
        let section = section(place);
        let share = section.and_then(|section| {
            let nth = section.processes.iter().position(|&process| process == place)?;
            section.shares.get(nth).copied()
        });
        let part = outcome.parts[place];
        vec![
            section.map(|section| section.section as u64).into(),
            job.group.into(),
            job.name.as_str().into(),
            clone.into(),
            job.pid.into(),
            direction.name().into(),
            job.error.into(),
            statistics.ios().into(),
            statistics.bytes().into(),
            statistics.runtime_ms().into(),
            statistics.bytes_per_second().into(),
            statistics.ios_per_second().into(),
            latency.min().0.into(),
            latency.mean().into(),
            latency.stdev().into(),
            percentile(50.0).into(),
            percentile(90.0).into(),
            percentile(99.0).into(),
            percentile(99.9).into(),
            max.into(),
            sync.into(),
            share.into(),
            part.map(|part| part.got).into(),
            part.map(|part| part.entitled).into(),
        ]
    };
    each(outcome).map(row).collect()
}

fn is_in(section: &paternoster_workload::shares::SectionShares, place: usize) -> bool {
    section.processes.contains(&place)
}

fn sections(outcome: &Outcome) -> Vec<Row> {
    let row = |section| {
        let section: &paternoster_workload::shares::SectionShares = section;
        let worst = outcome.worst_off(section);
        vec![
            Cell::from(section.section as u64),
            section.jain.into(),
            section.idle.into(),
            worst.map(|(place, _)| outcome.report.jobs[place].name.as_str()).into(),
            worst.map(|(_, part)| part.ratio()).into(),
        ]
    };
    outcome.shares.iter().map(row).collect()
}

fn histograms(outcome: &Outcome) -> Vec<Row> {
    let rows = |(_, job, clone, direction): (usize, &JobReport, u64, Direction)| {
        let bins = job.statistics.direction(direction).total_histogram().bins();
        let row = |(value, count): (u64, u64)| {
            vec![
                job.name.as_str().into(),
                clone.into(),
                direction.name().into(),
                value.into(),
                count.into(),
            ]
        };
        bins.map(row).collect::<Vec<Row>>()
    };
    each(outcome).flat_map(rows).collect()
}

fn over_time(series: &Series) -> Vec<Row> {
    let rows = series.rows().map(|(time, job, clone, direction, amount)| {
        vec![
            time.into(),
            job.into(),
            clone.into(),
            direction.into(),
            amount.requests.into(),
            amount.bytes.into(),
            amount.served.into(),
        ]
    });
    rows.collect()
}

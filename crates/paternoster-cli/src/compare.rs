// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compare: schedulers and devices side by side, job by job.
//!
//! Two tables: one row for each job, direction and scheduler; then one for each group and
//! scheduler, with its total, Jain's index of device time and the part of the time that the
//! device was idle. Bandwidths are in kB/s (1000 bytes), as in the tables of the seeds.

use comfy_table::{CellAlignment, Table};
use paternoster_workload::Direction;
use paternoster_workload::outcome::Outcome;
use paternoster_workload::report::JobReport;
use paternoster_workload::shares::GroupShares;

use crate::schedulers::plain_table;

/// Both tables as text.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let several_devices =
        outcomes.windows(2).any(|pair| pair[0].report.device != pair[1].report.device);
    let label = |outcome: &Outcome| {
        let report = &outcome.report;
        if several_devices {
            format!("{} on {}", report.scheduler, report.device)
        } else {
            report.scheduler.clone()
        }
    };
    let mut text = String::new();
    if let (false, Some(first)) = (several_devices, outcomes.first()) {
        text.push_str(&format!("device {}\n\n", first.report.device));
    }
    text.push_str(&trimmed(&jobs_table(outcomes, &label)));
    text.push('\n');
    text.push_str(&trimmed(&groups_table(outcomes, &label)));
    text
}

/// Without the blanks that fill the last column.
fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn jobs_table(outcomes: &[Outcome], label: &impl Fn(&Outcome) -> String) -> Table {
    let mut table = plain_table();
    table.set_header([
        "group",
        "job",
        "",
        "scheduler",
        "bw kB/s",
        "IOPS",
        "mean us",
        "p99 us",
        "max us",
        "device time %",
    ]);
    align_right(&mut table, 4);
    let Some(first) = outcomes.first() else { return table };
    for (place, job) in first.report.jobs.iter().enumerate() {
        for direction in Direction::ALL {
            let counted = |outcome: &Outcome| {
                outcome.report.jobs[place].statistics.direction(direction).ios() > 0
            };
            if !outcomes.iter().any(counted) {
                continue;
            }
            for (nth, outcome) in outcomes.iter().enumerate() {
                let head = if nth == 0 {
                    [
                        job.group.to_string(),
                        job_name(&first.report.jobs, place),
                        direction.name().to_owned(),
                    ]
                } else {
                    [const { String::new() }; 3]
                };
                let figures = figures(outcome, place, direction);
                table.add_row(head.into_iter().chain([label(outcome)]).chain(figures));
            }
        }
    }
    table
}

/// The job's name; with a number if several clones share it.
fn job_name(jobs: &[JobReport], place: usize) -> String {
    let job = &jobs[place];
    let same = |other: &&JobReport| other.name == job.name && other.group == job.group;
    if jobs.iter().filter(same).count() == 1 {
        return job.name.clone();
    }
    format!("{}.{}", job.name, jobs[..place].iter().filter(same).count())
}

fn figures(outcome: &Outcome, place: usize, direction: Direction) -> [String; 6] {
    let statistics = outcome.report.jobs[place].statistics.direction(direction);
    let latency = statistics.total();
    let micros = |nanos: f64| format!("{:.1}", nanos / 1000.0);
    #[expect(clippy::cast_precision_loss, reason = "a printed figure")]
    let [p99, max] =
        [statistics.total_histogram().percentile(99.0), latency.max().0].map(|ns| ns as f64);
    let share = outcome.shares.iter().find_map(|group| share_of(group, place)).unwrap_or(0.0);
    [
        (statistics.bytes_per_second() / 1000).to_string(),
        format!("{:.1}", statistics.ios_per_second()),
        micros(latency.mean()),
        micros(p99),
        micros(max),
        format!("{:.1}", share * 100.0),
    ]
}

fn share_of(group: &GroupShares, place: usize) -> Option<f64> {
    let nth = group.processes.iter().position(|&process| process == place)?;
    group.shares.get(nth).copied()
}

fn groups_table(outcomes: &[Outcome], label: &impl Fn(&Outcome) -> String) -> Table {
    let mut table = plain_table();
    table.set_header([
        "group",
        "scheduler",
        "total bw kB/s",
        "total IOPS",
        "Jain of device time",
        "device idle %",
    ]);
    align_right(&mut table, 2);
    let Some(first) = outcomes.first() else { return table };
    for place in 0..first.shares.len() {
        for (nth, outcome) in outcomes.iter().enumerate() {
            let group = &outcome.shares[place];
            let jobs =
                group.processes.iter().map(|&process| &outcome.report.jobs[process].statistics);
            let (mut bytes, mut ios) = (0, 0.0);
            for statistics in jobs {
                for direction in Direction::ALL {
                    bytes += statistics.direction(direction).bytes_per_second();
                    ios += statistics.direction(direction).ios_per_second();
                }
            }
            let number = if nth == 0 { group.group.to_string() } else { String::new() };
            table.add_row([
                number,
                label(outcome),
                (bytes / 1000).to_string(),
                format!("{ios:.1}"),
                format!("{:.3}", group.jain),
                format!("{:.1}", group.idle * 100.0),
            ]);
        }
    }
    table
}

/// Figures line up by their last digit.
fn align_right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

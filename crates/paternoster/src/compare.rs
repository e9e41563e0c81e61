// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compare: schedulers and devices side by side, job by job.
//!
//! Two tables: one row for each job, direction and scheduler; then one for each section between
//! two stonewalls and scheduler, with its total, which job got least of what it is entitled to (or,
//! where that is not known, Jain's index of device time) and the part of the time that the device
//! was idle. What a job got and what it is entitled to are parts of what the device does when it is
//! full of such requests. Between them, if there are players, one row for each and
//! scheduler. Bandwidths are in kB/s (1000 bytes), as in the tables of the seeds.

use comfy_table::{ContentArrangement, Table};
use paternoster_core::Nanos;
use paternoster_workload::Direction;
use paternoster_workload::entitlement::Part;
use paternoster_workload::outcome::Outcome;
use paternoster_workload::report::JobReport;
use paternoster_workload::shares::SectionShares;

use crate::table::{align_right, plain_table, trimmed};

/// The tables as text.
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
    if let Some(players) = players_table(outcomes, &label) {
        text.push_str(&trimmed(&players));
        text.push('\n');
    }
    text.push_str(&trimmed(&sections_table(outcomes, &label)));
    text
}

/// Every row on one line, however wide: names of schedulers with attributes are not torn.
fn wide_table() -> Table {
    let mut table = plain_table();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn jobs_table(outcomes: &[Outcome], label: &impl Fn(&Outcome) -> String) -> Table {
    let mut table = wide_table();
    let heads = ["group", "job", "", "scheduler", "bw kB/s", "IOPS", "mean us", "p99 us", "max us"];
    let mut heads = [&heads[..], &["device time %"]].concat();
    let is_entitled = is_entitled(outcomes);
    if is_entitled {
        heads.extend(["got %", "entitled %"]);
    }
    table.set_header(heads);
    align_right(&mut table, 4);
    let Some(first) = outcomes.first() else { return table };
    for (place, job) in first.report.jobs.iter().enumerate() {
        let went = |direction: &Direction| {
            let ios = |outcome: &Outcome| {
                outcome.report.jobs[place].statistics.direction(*direction).ios()
            };
            outcomes.iter().any(|outcome| ios(outcome) > 0)
        };
        let mut directions: Vec<Direction> = Direction::ALL.into_iter().filter(went).collect();
        if directions.is_empty() {
            // It did nothing; that is worth a row.
            directions.push(Direction::Read);
        }
        for (row, direction) in directions.into_iter().enumerate() {
            for (nth, outcome) in outcomes.iter().enumerate() {
                let name = job_name(&first.report.jobs, place);
                let head = [job.group.to_string(), name, direction.name().to_owned()];
                let head = if nth == 0 { head } else { [const { String::new() }; 3] };
                let figures = figures(outcome, place, direction);
                // Device time is the whole job's, whatever its directions.
                let mut whole = vec![share(outcome, place)];
                if is_entitled {
                    let percent = |part: f64| format!("{:.1}", 100.0 * part);
                    let none = || ["-".to_owned(), "-".to_owned()];
                    let told = |part: Part| [part.got, part.entitled].map(percent);
                    whole.extend(outcome.parts[place].map_or_else(none, told));
                }
                if row > 0 {
                    whole.fill(String::new());
                }
                let row = head.into_iter().chain([label(outcome)]).chain(figures);
                table.add_row(row.chain(whole));
            }
        }
    }
    table
}

/// Whether it is known of anything what it is entitled to.
fn is_entitled(outcomes: &[Outcome]) -> bool {
    outcomes.iter().flat_map(|outcome| &outcome.parts).any(Option::is_some)
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

fn figures(outcome: &Outcome, place: usize, direction: Direction) -> [String; 5] {
    let statistics = outcome.report.jobs[place].statistics.direction(direction);
    let latency = statistics.total();
    let micros = |nanos: f64| format!("{:.1}", nanos / 1000.0);
    // A percentile is the middle of its bin, which may lie above the largest value in it.
    let max = latency.max().0;
    let p99 = statistics.total_histogram().percentile(99.0).min(max);
    #[expect(clippy::cast_precision_loss, reason = "printed figures")]
    let [p99, max] = [p99, max].map(|nanos| nanos as f64);
    [
        (statistics.bytes_per_second() / 1000).to_string(),
        format!("{:.1}", statistics.ios_per_second()),
        micros(latency.mean()),
        micros(p99),
        micros(max),
    ]
}

/// The job's part of the device time of those it competed with, in per cent.
fn share(outcome: &Outcome, place: usize) -> String {
    let share_in = |section: &SectionShares| {
        let nth = section.processes.iter().position(|&process| process == place)?;
        section.shares.get(nth).copied()
    };
    let share = outcome.shares.iter().find_map(share_in).unwrap_or(0.0);
    format!("{:.1}", share * 100.0)
}

/// The frames of every player; `None` if there is none.
fn players_table(outcomes: &[Outcome], label: &impl Fn(&Outcome) -> String) -> Option<Table> {
    let jobs = &outcomes.first()?.report.jobs;
    let players = jobs.iter().enumerate().filter(|(_, job)| job.statistics.frames().is_some());
    let mut table = wide_table();
    table.set_header([
        "group",
        "player",
        "scheduler",
        "frames",
        "late",
        "late %",
        "unread",
        "worst ms late",
        "longest ms",
    ]);
    align_right(&mut table, 3);
    #[expect(clippy::cast_precision_loss, reason = "printed figures")]
    let millis = |time: Nanos| format!("{:.3}", time.0 as f64 / 1e6);
    for (place, job) in players {
        for (nth, outcome) in outcomes.iter().enumerate() {
            let Some(frames) = outcome.report.jobs[place].statistics.frames() else { continue };
            let head = [job.group.to_string(), job_name(jobs, place)];
            let head = if nth == 0 { head } else { [const { String::new() }; 2] };
            table.add_row(head.into_iter().chain([
                label(outcome),
                frames.count().to_string(),
                frames.late().to_string(),
                format!("{:.2}", frames.late_per_cent()),
                frames.unread().to_string(),
                millis(frames.worst()),
                millis(frames.longest()),
            ]));
        }
    }
    (!table.is_empty()).then_some(table)
}

fn sections_table(outcomes: &[Outcome], label: &impl Fn(&Outcome) -> String) -> Table {
    let mut table = wide_table();
    table.set_header([
        "section",
        "scheduler",
        "total bw kB/s",
        "total IOPS",
        if is_entitled(outcomes) { "worst off" } else { "Jain of device time" },
        "device idle %",
    ]);
    align_right(&mut table, 2);
    let Some(first) = outcomes.first() else { return table };
    for place in 0..first.shares.len() {
        for (nth, outcome) in outcomes.iter().enumerate() {
            let section = &outcome.shares[place];
            let [bandwidth, iops] = totals(outcome, section);
            let number = if nth == 0 { section.section.to_string() } else { String::new() };
            table.add_row([
                number,
                label(outcome),
                format!("{:.0}", bandwidth / 1000.0),
                format!("{iops:.1}"),
                fairness(outcomes, outcome, section),
                format!("{:.1}", section.idle * 100.0),
            ]);
        }
    }
    table
}

/// The job of a section that got least of what it is entitled to; the index where nothing is known
/// of any section, and of a section by itself nothing.
fn fairness(outcomes: &[Outcome], outcome: &Outcome, section: &SectionShares) -> String {
    if !is_entitled(outcomes) {
        return format!("{:.3}", section.jain);
    }
    outcome.worst_off(section).map_or_else(
        || "-".to_owned(),
        |(place, part)| {
            let name = job_name(&outcome.report.jobs, place);
            format!("{name}: {:.0} % of its due", (100.0 * part.ratio()).min(100.0))
        },
    )
}

/// Bytes and I/Os of all jobs of a section per second of the longest of them, as fio's `Run status`
/// counts them.
fn totals(outcome: &Outcome, section: &SectionShares) -> [f64; 2] {
    let jobs = section.processes.iter().map(|&place| &outcome.report.jobs[place].statistics);
    let (mut bytes, mut ios, mut longest_ms) = (0, 0, 0);
    for statistics in jobs {
        for statistics in Direction::ALL.map(|direction| statistics.direction(direction)) {
            bytes += statistics.bytes();
            ios += statistics.ios();
            longest_ms = longest_ms.max(statistics.runtime_ms());
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "printed figures")]
    let per_second = |count: u64| {
        if longest_ms == 0 { 0.0 } else { count as f64 * 1000.0 / longest_ms as f64 }
    };
    [per_second(bytes), per_second(ios)]
}

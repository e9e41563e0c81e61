// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compare: schedulers and devices side by side, job by job.
//!
//! ```text
//!                          noop    bfq          a column for each run
//! pg-read read  IOPS        129  27.4k          a block for each job and direction, its syncs,
//!               p99     64.7 ms 3.9 ms          and its part of the device
//! all           worst off   …                   then what all jobs of a section had together
//! ```
//!
//! Clones of a job are one block: their I/Os summed, their latencies together, and the rates of the
//! clones that had least and most. JSON and CSV have each clone. What a job got and its entitlement
//! are fractions of what the device does when it is full of such requests; where that is not known
//! there is Jain's index of device time.

use paternoster_frame::page::{Watched, due, most};
use paternoster_frame::results::{Results, alike, document, field, identical};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::wrapped;
use paternoster_frame::units::{NONE, bandwidth, percent, rate, span, time};
use paternoster_workload::Direction;
use paternoster_workload::outcome::Outcome;
use paternoster_workload::report::JobReport;
use paternoster_workload::shares::SectionShares;
use paternoster_workload::statistics::{DirectionStatistics, Histogram, JobStatistics, Latency};
use serde_json::{Map, Value, json};

/// Percentiles of tables and documents.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)];

/// A run and the digest of the commands that its device got.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) commands: u64,
    /// Notes that should be read with the figures.
    pub(crate) notes: Vec<String>,
}

/// The results of the runs, side by side. `what` ran; `watched` has recordings if waits are to be
/// explained.
pub(crate) fn results(what: &str, runs: &[Told], watched: &[Watched]) -> Results {
    let several = runs.windows(2).any(|two| device(&two[0]) != device(&two[1]));
    let labels: Vec<String> = runs
        .iter()
        .map(|run| match several {
            true => format!("{} on {}", scheduler(run), device(run)),
            false => scheduler(run).to_owned(),
        })
        .collect();
    let title = match runs.first() {
        Some(first) if !several => format!("device {}", device(first)),
        _ => what.to_owned(),
    };
    let keys: Vec<_> = runs.iter().map(|run| (device(run), run.commands)).collect();
    let names: Vec<&str> = labels.iter().map(String::as_str).collect();
    let notes = runs.iter().flat_map(|run| run.notes.iter().map(|note| wrapped(note)));
    let notes = notes.map(|note| note.trim_end().to_owned());
    let mut sheets = vec![("Jobs".to_owned(), jobs_sheet(runs, &labels))];
    sheets.extend(players_sheet(runs, &labels).map(|sheet| ("Players".to_owned(), sheet)));
    Results {
        title,
        headline: headline(runs, &labels),
        sheets,
        notes: identical(&alike(&keys), &names).into_iter().chain(notes).collect(),
        csv: csv(runs),
        subject: Some(what.to_owned()),
        explained: Vec::new(),
        document: document("run", json!({ "what": what, "runs": runs_json(runs, watched) })),
    }
}

/// The outcome, in sentences.
fn headline(runs: &[Told], labels: &[String]) -> Vec<String> {
    let Some(nth) = runs.iter().map(|run| run.outcome.shares.len().wrapping_sub(1)).min() else {
        return Vec::new();
    };
    let of = |figure: &dyn Fn(&Outcome, &SectionShares) -> f64| -> Vec<(String, f64)> {
        let figure = |run: &Told| {
            run.outcome.shares.get(nth).map_or(f64::NAN, |section| figure(&run.outcome, section))
        };
        labels.iter().cloned().zip(runs.iter().map(figure)).collect()
    };
    let worst = |outcome: &Outcome, section: &SectionShares| {
        outcome.worst_off(section).map_or(f64::NAN, |(_, part)| part.ratio())
    };
    let section = if nth > 0 { " (last section)" } else { "" };
    let what = |words: &str| format!("{words}{section}");
    let sentences = [
        most(
            &what("The client that is worst off has most of what it is entitled to"),
            &of(&worst),
            due,
        ),
        most(&what("Most I/Os a second"), &of(&|run, own| totals(run, own)[1]), rate),
        most(&what("Most bytes a second"), &of(&|run, own| totals(run, own)[0]), bandwidth),
    ];
    sentences.into_iter().flatten().collect()
}

fn device(run: &Told) -> &str {
    &run.outcome.report.device
}

fn scheduler(run: &Told) -> &str {
    &run.outcome.report.scheduler
}

/// Clones of one job, and sections of its name in one group, by index.
fn blocks(jobs: &[JobReport], of: &[usize]) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for &place in of {
        let same = |block: &&mut Vec<usize>| {
            let (one, other) = (&jobs[block[0]], &jobs[place]);
            one.name == other.name && one.group == other.group
        };
        match blocks.iter_mut().find(same) {
            Some(block) => block.push(place),
            None => blocks.push(vec![place]),
        }
    }
    blocks
}

/// The figures of a block in one run.
fn together(run: &Told, block: &[usize]) -> JobStatistics {
    let jobs = &run.outcome.report.jobs;
    let mut all = jobs[block[0]].statistics.clone();
    block[1..].iter().for_each(|&place| all.merge(&jobs[place].statistics));
    all
}

/// The rows of the first sheet, as they are made.
struct Rows<'a> {
    sheet: Sheet,
    runs: &'a [Told],
    /// The start of the next row.
    head: String,
}

impl Rows<'_> {
    fn add(&mut self, figure: &str, cell: impl Fn(&Told) -> String) {
        let head = std::mem::take(&mut self.head);
        let cells = self.runs.iter().map(cell);
        self.sheet.row([head, figure.to_owned()].into_iter().chain(cells).collect());
    }

    fn latencies(&mut self, of: impl Fn(&Told) -> (Latency, Histogram)) {
        let told = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), time);
        self.add("mean", |run| {
            let (latency, _) = of(run);
            told((latency.n() > 0).then(|| latency.mean()))
        });
        for (name, p) in PERCENTILES.into_iter().chain([("max", 100.0)]) {
            self.add(name, |run| {
                let (latency, histogram) = of(run);
                told(percentile(&latency, &histogram, p))
            });
        }
    }
}

fn jobs_sheet(runs: &[Told], labels: &[String]) -> Sheet {
    let heads = [String::new(), String::new()].into_iter().chain(labels.iter().cloned());
    let mut rows = Rows { sheet: Sheet::new(2, heads).in_blocks(), runs, head: String::new() };
    let Some(first) = runs.first() else { return rows.sheet };
    let jobs = &first.outcome.report.jobs;
    let sections = &first.outcome.shares;
    for (nth, section) in sections.iter().enumerate() {
        for block in blocks(jobs, &section.processes) {
            block_rows(&mut rows, &jobs[block[0]].name, &block, nth);
        }
        rows.head = match sections.len() {
            1 => "all".to_owned(),
            _ => format!("all of section {}", section.section),
        };
        let totals = |run: &Told| totals(&run.outcome, &run.outcome.shares[nth]);
        rows.add("IOPS", |run| rate(totals(run)[1]));
        rows.add("bandwidth", |run| bandwidth(totals(run)[0]));
        if is_entitled(runs) {
            let worst = |run: &Told| worst_off(&run.outcome, &run.outcome.shares[nth]);
            let none = || NONE.to_owned();
            rows.add("worst off", |run| worst(run).map_or_else(none, |(name, _)| name));
            rows.add("its got/entitled", |run| worst(run).map_or_else(none, |(_, part)| due(part)));
        } else {
            let jain = |run: &Told| {
                let index = run.outcome.shares[nth].jain;
                index.map_or_else(|| NONE.to_owned(), |index| format!("{index:.3}"))
            };
            rows.add("Jain of device time", jain);
        }
        rows.add("device idle", |run| percent(run.outcome.shares[nth].idle));
    }
    rows.sheet
}

/// The rows of a job, by direction; of its syncs; of its part of the device.
fn block_rows(rows: &mut Rows<'_>, name: &str, block: &[usize], section: usize) {
    let runs = rows.runs;
    let all: Vec<JobStatistics> = runs.iter().map(|run| together(run, block)).collect();
    let of = |run: &Told| {
        let place = runs.iter().position(|one| std::ptr::eq(one, run)).unwrap_or(0);
        &all[place]
    };
    let went = |way: &Direction| all.iter().any(|all| all.direction(*way).ios() > 0);
    let mut ways: Vec<Direction> = Direction::ALL.into_iter().filter(went).collect();
    if ways.is_empty() {
        // It did nothing; that is worth a row.
        ways.push(Direction::Read);
    }
    let count = block.len();
    let named = match count {
        1 => name.to_owned(),
        _ => format!("{name} x{count}"),
    };
    for way in ways {
        rows.head = format!("{named} {}", way.name());
        let ios = |run: &Told, place: usize| {
            run.outcome.report.jobs[place].statistics.direction(way).ios_per_second()
        };
        rows.add("IOPS", |run| rate(block.iter().map(|&place| ios(run, place)).sum()));
        if count > 1 {
            let each = |run: &Told| block.iter().map(|&place| ios(run, place)).collect::<Vec<_>>();
            let least = |run: &Told| each(run).into_iter().min_by(f64::total_cmp);
            let most = |run: &Told| each(run).into_iter().max_by(f64::total_cmp);
            rows.add("IOPS, least of a clone", |run| rate(least(run).unwrap_or(f64::NAN)));
            rows.add("IOPS, most of a clone", |run| rate(most(run).unwrap_or(f64::NAN)));
        }
        rows.add("bandwidth", |run| {
            let own = |&place: &usize| {
                let job = &run.outcome.report.jobs[place];
                as_f64(job.statistics.direction(way).bytes_per_second())
            };
            bandwidth(block.iter().map(own).sum())
        });
        rows.latencies(|run| {
            let statistics = of(run).direction(way);
            (*statistics.total(), statistics.total_histogram().clone())
        });
    }
    if all.iter().any(|all| all.sync().n() > 0) {
        rows.head = format!("{named} sync");
        rows.add("count", |run| of(run).sync().n().to_string());
        rows.latencies(|run| (*of(run).sync(), of(run).sync_histogram().clone()));
    }
    rows.head = named;
    rows.add("device time", |run| {
        let section = &run.outcome.shares[section];
        let own = section.processes.iter().zip(&section.shares);
        percent(own.filter(|(place, _)| block.contains(place)).map(|(_, share)| share).sum())
    });
    if is_entitled(runs) {
        let sum = |run: &Told, part: fn(&paternoster_workload::entitlement::Part) -> f64| {
            let parts = block.iter().map(|&place| run.outcome.parts[place].as_ref().map(part));
            parts.sum::<Option<f64>>().unwrap_or(f64::NAN)
        };
        rows.add("got", |run| percent(sum(run, |part| part.got)));
        rows.add("entitled", |run| percent(sum(run, |part| part.entitled)));
    }
}

/// A percentile is the middle of its bin, which may lie above the largest value in it.
fn percentile(latency: &Latency, histogram: &Histogram, p: f64) -> Option<f64> {
    (latency.n() > 0).then(|| as_f64(histogram.percentile(p).min(latency.max().0)))
}

/// Whether any entitlement is known.
fn is_entitled(runs: &[Told]) -> bool {
    runs.iter().flat_map(|run| &run.outcome.parts).any(Option::is_some)
}

/// Which clone a process is, among the jobs of its name and group; none if it is the only one.
fn clone(jobs: &[JobReport], place: usize) -> Option<usize> {
    let job = &jobs[place];
    let same = |other: &&JobReport| other.name == job.name && other.group == job.group;
    let several = jobs.iter().filter(same).count() > 1;
    several.then(|| jobs[..place].iter().filter(same).count())
}

/// The job's name; with a number if several clones share it.
fn job_name(jobs: &[JobReport], place: usize) -> String {
    let name = &jobs[place].name;
    clone(jobs, place).map_or_else(|| name.clone(), |nth| format!("{name}.{nth}"))
}

/// The job of a section that got the smallest part of its entitlement, and that part.
fn worst_off(outcome: &Outcome, section: &SectionShares) -> Option<(String, f64)> {
    let (place, part) = outcome.worst_off(section)?;
    Some((job_name(&outcome.report.jobs, place), part.ratio()))
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
    let per_second = |count: u64| {
        if longest_ms == 0 { 0.0 } else { as_f64(count) * 1000.0 / as_f64(longest_ms) }
    };
    [per_second(bytes), per_second(ios)]
}

/// The frames of every player; `None` if there is no player.
fn players_sheet(runs: &[Told], labels: &[String]) -> Option<Sheet> {
    let jobs = &runs.first()?.outcome.report.jobs;
    let heads = [String::new(), String::new()].into_iter().chain(labels.iter().cloned());
    let mut rows = Rows { sheet: Sheet::new(2, heads).in_blocks(), runs, head: String::new() };
    for (place, _) in jobs.iter().enumerate().filter(|(_, job)| job.statistics.frames().is_some()) {
        let frames = |run: &Told| run.outcome.report.jobs[place].statistics.frames().copied();
        let told =
            |run: &Told, cell: &dyn Fn(&paternoster_workload::statistics::Frames) -> String| {
                frames(run).map_or_else(|| NONE.to_owned(), |frames| cell(&frames))
            };
        rows.head = job_name(jobs, place);
        rows.add("frames", |run| told(run, &|frames| frames.count().to_string()));
        rows.add("late", |run| told(run, &|frames| frames.late().to_string()));
        let part = |run: &Told| told(run, &|frames| percent(frames.late_per_cent() / 100.0));
        rows.add("late, part", part);
        rows.add("unread", |run| told(run, &|frames| frames.unread().to_string()));
        rows.add("latest by", |run| told(run, &|frames| span(frames.worst())));
        rows.add("longest", |run| told(run, &|frames| span(frames.longest())));
    }
    (!rows.sheet.is_empty()).then_some(rows.sheet)
}

/// The names of the figures of a direction, in the order of [`figures`].
const FIGURES: [&str; 8] =
    ["ios", "bytes", "runtime_ns", "iops", "bytes_per_second", "mean_ns", "p50_ns", "p99_ns"];
const LAST: [&str; 2] = ["p99.9_ns", "max_ns"];

/// The figures of a direction in JSON and CSV.
fn figures(statistics: &DirectionStatistics) -> Vec<(&'static str, Value)> {
    let (latency, histogram) = (statistics.total(), statistics.total_histogram());
    let rates = [
        json!(statistics.ios()),
        json!(statistics.bytes()),
        json!(statistics.runtime_ms() * 1_000_000),
        json!(statistics.ios_per_second()),
        json!(statistics.bytes_per_second()),
    ];
    FIGURES.into_iter().zip(rates).chain(latencies(latency, histogram)).collect()
}

/// Cells of their latencies.
fn latencies(latency: &Latency, histogram: &Histogram) -> Vec<(&'static str, Value)> {
    let at = |p| json!(percentile(latency, histogram, p));
    let mean = json!((latency.n() > 0).then(|| latency.mean()));
    let values = [mean, at(50.0), at(99.0), at(99.9), at(100.0)];
    FIGURES[5..].iter().chain(&LAST).copied().zip(values).collect()
}

fn object(pairs: Vec<(&'static str, Value)>) -> Value {
    let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

/// The syncs of a job.
fn syncs(statistics: &JobStatistics) -> Vec<(&'static str, Value)> {
    let own = [("count", json!(statistics.sync().n()))];
    own.into_iter().chain(latencies(statistics.sync(), statistics.sync_histogram())).collect()
}

fn share(outcome: &Outcome, place: usize) -> Option<f64> {
    outcome.shares.iter().find_map(|section| {
        let nth = section.processes.iter().position(|&process| process == place)?;
        section.shares.get(nth).copied()
    })
}

fn runs_json(runs: &[Told], watched: &[Watched]) -> Vec<Value> {
    runs.iter()
        .enumerate()
        .map(|(nth, run)| {
            let outcome = &run.outcome;
            let jobs = &outcome.report.jobs;
            let job = |(place, job): (usize, &JobReport)| {
                let mut told = json!({
                    "job": job.name,
                    "clone": clone(jobs, place),
                    "group": job.group,
                    "error": job.error,
                    "device_time_share": share(outcome, place),
                    "got": outcome.parts[place].map(|part| part.got),
                    "entitled": outcome.parts[place].map(|part| part.entitled),
                });
                for way in Direction::ALL {
                    let statistics = job.statistics.direction(way);
                    let did = statistics.ios() > 0;
                    told[way.name()] = if did { object(figures(statistics)) } else { Value::Null };
                }
                let did = job.statistics.sync().n() > 0;
                told["sync"] = if did { object(syncs(&job.statistics)) } else { Value::Null };
                told
            };
            let section = |section: &SectionShares| {
                let [bytes, ios] = totals(outcome, section);
                let worst = outcome.worst_off(section).map(|(place, part)| {
                    json!({ "job": jobs[place].name, "clone": clone(jobs, place),
                        "share": part.ratio() })
                });
                json!({
                    "section": section.section,
                    "iops": ios,
                    "bytes_per_second": bytes,
                    "worst_off": worst,
                    "jain_device_time": section.jain,
                    "device_idle": section.idle,
                })
            };
            let mut told = json!({
                "device": outcome.report.device,
                "scheduler": outcome.report.scheduler,
                "seed": outcome.report.seed,
                "commands": format!("{:016x}", run.commands),
                "notes": run.notes,
                "waits": watched.get(nth).map(Watched::document),
                "jobs": jobs.iter().enumerate().map(job).collect::<Vec<_>>(),
                "sections": outcome.shares.iter().map(section).collect::<Vec<_>>(),
            });
            if let Some(figures) = outcome.report.extra.get("device_figures") {
                told["device_figures"] = figures.clone();
            }
            told
        })
        .collect()
}

/// A line for each run, clone and direction; syncs are a direction without bytes.
fn csv(runs: &[Told]) -> String {
    let mut text = format!(
        "device,scheduler,seed,group,job,clone,direction,{},device_time_share,got,entitled\n",
        FIGURES.into_iter().chain(LAST).collect::<Vec<_>>().join(",")
    );
    let shown = |value: &Value| match value {
        Value::Null => String::new(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.6}", number.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    };
    for run in runs {
        let outcome = &run.outcome;
        let report = &outcome.report;
        for (place, job) in report.jobs.iter().enumerate() {
            let mut line = |direction: &str, figures: Vec<(&str, Value)>| {
                let clone = clone(&report.jobs, place).map(|nth| nth.to_string());
                let part = outcome.parts[place];
                let mut fields = vec![field(&report.device), field(&report.scheduler)];
                fields.extend([report.seed.to_string(), job.group.to_string(), field(&job.name)]);
                fields.extend([clone.unwrap_or_default(), direction.to_owned()]);
                fields.extend(FIGURES.iter().chain(&LAST).map(|&name| {
                    let is = |(own, _): &&(&str, Value)| {
                        *own == name || (*own == "count" && name == "ios")
                    };
                    figures.iter().find(is).map_or_else(String::new, |(_, value)| shown(value))
                }));
                let parts =
                    [share(outcome, place), part.map(|it| it.got), part.map(|it| it.entitled)];
                fields.extend(parts.map(|part| shown(&json!(part))));
                text += &(fields.join(",") + "\n");
            };
            for way in Direction::ALL {
                let statistics = job.statistics.direction(way);
                if statistics.ios() > 0 {
                    line(way.name(), figures(statistics));
                }
            }
            if job.statistics.sync().n() > 0 {
                line("sync", syncs(&job.statistics));
            }
        }
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

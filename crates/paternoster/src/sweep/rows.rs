// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows: runs what one row requests, and returns its figures.
//!
//! ```text
//! row ─▶ asked ─▶ words of `run` or `replay` ─▶ Call ─▶ figures of all clients together, digest
//!                      └─ wrong, or a job failed ─────▶ `error`
//! ```
//!
//! # Invariants
//! I1  A row depends on nothing but itself and the file that it names: equal rows give equal
//!     results, except for `cost_ns`.
//! I2  A row that fails is a row with an error, even after a panic; only a stop ends the others.

use std::time::Instant;

use paternoster_core::NoObserver;
use paternoster_frame::Failure;
use paternoster_frame::cells::Row;
use paternoster_frame::guard::guarded;
use paternoster_workload::Direction;
use paternoster_workload::fio::job::Job;
use paternoster_workload::outcome::Outcome;
use paternoster_workload::statistics::Histogram;
use serde_json::{Value, json};

use super::plan;
use crate::Call;

/// Runs a row; its result, or that it was stopped.
pub(super) fn run(call: &Call, row: &Row) -> Result<Row, Failure> {
    let began = Instant::now();
    let (asked, wrong) = plan::asked(row);
    let done = match wrong {
        Some(wrong) => Ok(Err(Failure::Request(wrong))),
        None => guarded(|| figures(call, asked)),
    };
    let told = match done {
        Ok(Ok(figures)) => Ok(figures),
        Ok(Err(Failure::Request(message))) => Err(format!("RequestError: {message}")),
        Ok(Err(Failure::Job(message))) => Err(format!("JobError: {message}")),
        Ok(Err(stopped)) => return Err(stopped),
        Err(panic) => Err(format!("Error: {panic}")),
    };
    Ok(result(row, told, began))
}

/// The row's result: these figures, or this error.
pub(super) fn result(row: &Row, told: Result<Row, String>, began: Instant) -> Row {
    let mut found = Row::new();
    found.insert("row".to_owned(), json!(plan::name(row)));
    found.extend(plan::asked(row).0);
    match told {
        Ok(figures) => found.extend(figures),
        Err(error) => drop(found.insert("error".to_owned(), json!(error))),
    }
    found.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    let cost = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    found.insert("cost_ns".to_owned(), json!(cost));
    found
}

fn figures(call: &Call, asked: Row) -> Result<Row, Failure> {
    let asked = plan::with_defaults(asked);
    let of = |name: &str| asked.get(name).and_then(Value::as_str);
    let refused = |why: String| Err(Failure::Request(why));
    let own = match (of("trace"), of("job")) {
        (Some(trace), None) => (trace, false),
        (None, Some(job)) => (job, true),
        (None, None) => return refused("the row has neither a job nor a trace".to_owned()),
        (Some(_), Some(_)) => return refused("the row has a job and a trace".to_owned()),
    };
    let (other, has) = if own.1 { ("window", "job") } else { ("runtime", "trace") };
    if let Some(value) = of(other) {
        return refused(format!("{other} {value}: the row has a {has}, which takes none"));
    }
    check_hash(own, of("sha256"))?;
    match own {
        (job, true) => of_job(call, job, &asked),
        (trace, false) => of_trace(call, trace, &asked),
    }
}

/// Whether a job is the text of a job file, not a path.
fn is_text(job: &str) -> bool {
    job.contains('\n') || job.trim_start().starts_with('[')
}

fn check_hash((name, job): (&str, bool), planned: Option<&str>) -> Result<(), Failure> {
    let Some(planned) = planned else { return Ok(()) };
    let text = job && is_text(name);
    let read = || std::fs::read(name).map_err(|e| Failure::Request(format!("{name}: {e}")));
    let content = if text { name.as_bytes().to_vec() } else { read()? };
    let found = plan::hash(&content);
    if found == planned {
        return Ok(());
    }
    let name = if text { "the job" } else { name };
    Err(Failure::Request(format!("{name} has sha256 {found}, not as planned")))
}

/// The words that both commands have.
fn words(command: &str, file: &str, asked: &Row) -> Vec<String> {
    // A name cannot be taken for an option.
    let file = if file.starts_with('-') { format!("./{file}") } else { file.to_owned() };
    let mut words = vec![command.to_owned(), file, "-q".to_owned()];
    for name in ["device", "scheduler", "seed", "runtime", "window"] {
        match asked.get(name) {
            Some(Value::String(text)) => words.push(format!("--{name}={text}")),
            Some(number) => words.push(format!("--{name}={number}")),
            None => {}
        }
    }
    let set = asked.get("set").and_then(Value::as_str).unwrap_or("");
    words.extend(set.split_whitespace().map(|attribute| format!("--set={attribute}")));
    words
}

/// The outcome of a job's run; `jobs` gets its jobs first.
pub(super) fn outcome(
    call: &Call,
    job: &str,
    asked: &Row,
    mut jobs: impl FnMut(&[Job]),
) -> Result<Outcome, Failure> {
    let (call, file) = if is_text(job) {
        let file = "job.fio".to_owned();
        (call.clone().with_files([(file.clone(), job.to_owned())].into()), file)
    } else {
        (call.clone(), job.to_owned())
    };
    let mut words = words("run", &file, asked);
    words.push("--no-entitlement".to_owned());
    let ran = call.run(words, |told| {
        jobs(told);
        NoObserver
    })?;
    if let Some(message) = ran.failed {
        return Err(Failure::Job(message));
    }
    let first = ran.runs.into_iter().next().map(|(outcome, _)| outcome);
    first.ok_or_else(|| Failure::Request("a row is one device and one scheduler".to_owned()))
}

/// The figures of one run, of all its clients together.
fn of_job(call: &Call, job: &str, asked: &Row) -> Result<Row, Failure> {
    let outcome = outcome(call, job, asked, |_| ())?;
    let (mut ios, mut bytes, mut max, mut sum_ns) = (0, 0, 0, 0.0);
    let (mut iops, mut rate, mut all) = (0.0, 0, Histogram::new());
    for job in &outcome.report.jobs {
        for direction in Direction::ALL {
            let statistics = job.statistics.direction(direction);
            if statistics.ios() == 0 {
                continue;
            }
            let latency = statistics.total();
            ios += statistics.ios();
            bytes += statistics.bytes();
            iops += statistics.ios_per_second();
            rate += statistics.bytes_per_second();
            max = latency.max().0.max(max);
            sum_ns += latency.mean() * statistics.ios() as f64;
            all.merge(statistics.total_histogram());
        }
    }
    let done = |value: Value| if ios > 0 { value } else { Value::Null };
    let jain = outcome.shares.iter().filter_map(|section| section.jain);
    let idle = match outcome.shares.as_slice() {
        [section] => Some(section.idle),
        _ => None,
    };
    Ok(row([
        ("ios", json!(ios)),
        ("bytes", json!(bytes)),
        ("iops", json!(iops)),
        ("bytes_per_second", json!(rate as f64)),
        ("mean_ns", done(json!(sum_ns / ios as f64))),
        ("p50_ns", done(json!(all.percentile(50.0).min(max)))),
        ("p99_ns", done(json!(all.percentile(99.0).min(max)))),
        ("max_ns", done(json!(max))),
        ("jain", json!(jain.reduce(f64::min))),
        ("device_idle", json!(idle)),
        ("virtual_time_ns", outcome.report.extra["virtual_time_ns"].clone()),
        ("digest", json!(outcome.event_hash.map(|hash| format!("{hash:016x}")))),
    ]))
}

/// The figures of one replay of a trace, with a digest of all its output.
fn of_trace(call: &Call, trace: &str, asked: &Row) -> Result<Row, Failure> {
    let document = call.replay(words("replay", trace, asked))?;
    let told = &document["replays"][0];
    let mut found: Row = row([
        ("virtual_time_ns", told["all"]["length_ns"].clone()),
        ("digest", json!(plan::hash(told.to_string().as_bytes())[..16])),
    ]);
    let names = ["ios", "bytes", "iops", "bytes_per_second", "mean_ns", "p50_ns", "p99_ns"];
    for name in names.into_iter().chain(["max_ns"]) {
        found.insert(name.to_owned(), told["all"][name].clone());
    }
    Ok(found)
}

fn row<const N: usize>(cells: [(&str, Value); N]) -> Row {
    cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost: how long a row will take, before it is run.
//!
//! ```text
//! pilot: the job on the device under noop for 5 ms of virtual time ─▶ requests a virtual second
//!        × virtual seconds of the row, at most what the job makes ─▶ requests
//!        × ns of each under this scheduler + what any row costs
//! ```
//!
//! One pilot serves all rows of one job, device and set of attributes, whatever the scheduler and
//! seed. The prediction does not read a clock, so that every part of a plan finds the same; the
//! cost of a request is a constant that was measured once ([`EACH`]), and docs/sweeps.md says how
//! far predictions were off. A row that cannot be predicted, because it fails or panics, costs as
//! much as an average one.

use std::collections::HashMap;

use paternoster_core::Nanos;
use paternoster_frame::Failure;
use paternoster_frame::cells::Row;
use paternoster_frame::guard::guarded;
use paternoster_frame::setting::time;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::value::Amount;
use paternoster_workload::outcome::Outcome;
use serde_json::{Value, json};

use super::plan;
use super::rows;
use crate::Call;

/// Virtual time of a pilot.
const PILOT: Nanos = Nanos::from_millis(5);
/// Nanoseconds for a row without requests, in a release build on two cores of 2026.
const ROW: f64 = 3.0e6;
/// Nanoseconds per request, by scheduler; others as the last.
const EACH: [(&str, f64); 6] = [
    ("none", 880.0),
    ("noop", 880.0),
    ("mq-deadline", 970.0),
    ("kyber", 970.0),
    ("paternoster", 1150.0),
    ("bfq", 1230.0),
];

/// What is known of a job file on a device.
#[derive(Clone)]
struct Pilot {
    /// For each process requests per virtual nanosecond, and how many it makes in all.
    processes: Vec<(f64, f64)>,
    /// Whether all ended within the pilot.
    ended: bool,
}

/// What each row will take, in nanoseconds.
pub(super) fn predict(call: &Call, rows: &[Row]) -> Result<Vec<f64>, Failure> {
    let mut pilots: HashMap<String, Option<Pilot>> = HashMap::new();
    let mut costs = Vec::with_capacity(rows.len());
    for row in rows {
        let (asked, wrong) = plan::asked(row);
        let asked = plan::with_defaults(asked);
        if wrong.is_some() {
            costs.push(Some(ROW));
            continue;
        }
        let named = ["job", "device", "set"].map(|name| asked.get(name).unwrap_or(&Value::Null));
        let key = json!(named).to_string();
        let pilot = match pilots.get(&key) {
            Some(pilot) => pilot.clone(),
            None => {
                let pilot = pilot(call, &asked)?;
                pilots.insert(key, pilot.clone());
                pilot
            }
        };
        costs.push(pilot.and_then(|pilot| cost(&pilot, &asked)));
    }
    let known = || costs.iter().flatten();
    let average = known().sum::<f64>() / known().count().max(1) as f64;
    Ok(costs.into_iter().map(|cost| cost.unwrap_or(average.max(1.0))).collect())
}

/// The pilot of a row; `None` for a trace, and for a job that fails.
fn pilot(call: &Call, asked: &Row) -> Result<Option<Pilot>, Failure> {
    let Some(job) = asked.get("job").and_then(Value::as_str) else { return Ok(None) };
    let mut row = asked.clone();
    row.insert("scheduler".to_owned(), json!("noop"));
    row.insert("seed".to_owned(), json!(0));
    row.insert("runtime".to_owned(), json!(format!("{}us", PILOT.0 / 1000)));
    let mut wholes = Vec::new();
    let jobs = |jobs: &[Job]| wholes = jobs.iter().flat_map(whole).collect();
    match guarded(|| rows::outcome(call, job, &row, jobs)) {
        Ok(Ok(outcome)) => Ok(Some(told(&outcome, &wholes))),
        Ok(Err(stopped @ Failure::Status(_))) => Err(stopped),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// How many requests each process of a job makes: unlimited if it runs for a given time.
fn whole(job: &Job) -> impl Iterator<Item = f64> + use<> {
    let bytes = match job.region.io_size.or(job.region.size) {
        Some(Amount::Bytes(bytes)) if !job.time.time_based => bytes as f64,
        _ => f64::INFINITY,
    };
    let (least, most) = job.blocks.block_size[0];
    let requests =
        bytes * job.region.loops.max(1) as f64 / ((least + most) as f64 / 2.0).max(512.0);
    (0..job.clones.numjobs).map(move |_| requests)
}

fn told(outcome: &Outcome, wholes: &[f64]) -> Pilot {
    let took = outcome.report.extra["virtual_time_ns"].as_u64().unwrap_or(0).max(1);
    let whole = |place| wholes.get(place).copied().unwrap_or(f64::INFINITY);
    let ios = outcome.report.jobs.iter().map(|job| job.statistics.ios() as f64).enumerate();
    let ended = took < PILOT.0;
    let each = |(place, ios)| (ios / took as f64, if ended { ios } else { whole(place) });
    Pilot { processes: ios.map(each).collect(), ended }
}

fn cost(pilot: &Pilot, asked: &Row) -> Option<f64> {
    let scheduler = asked.get("scheduler")?.as_str()?;
    let runtime = asked.get("runtime").and_then(Value::as_str);
    let ns = runtime.and_then(|text| time("runtime", text, Nanos::from_secs(1)).ok());
    let ns = match (pilot.ended, ns) {
        (true, _) => PILOT.0 as f64,
        (false, Some(ns)) => ns.0 as f64,
        (false, None) => f64::INFINITY,
    };
    let requests = pilot.processes.iter().map(|(rate, whole)| (rate * ns).min(*whole)).sum::<f64>();
    if !requests.is_finite() {
        return None;
    }
    let name = scheduler.split(':').next().unwrap_or(scheduler);
    let known = EACH.iter().find(|(known, _)| *known == name).or(EACH.last())?;
    Some(ROW + requests * known.1)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost: how long a row will take, before it is done.
//!
//! ```text
//! pilot: the job on the device under noop for 5 ms of virtual time ─▶ requests a virtual second
//!        × virtual seconds of the row ─▶ requests × ns of each under this scheduler + what any row costs
//! ```
//!
//! One pilot serves all rows of one job, device and set of attributes, whatever the scheduler and
//! seed. The prediction has no clock in it, so that every part of a plan finds the same; what a
//! request costs is a constant that was measured once ([`EACH`]), and how far predictions were from
//! the truth stands in docs/sweeps.md. A row that cannot be predicted costs as an average one.

use std::collections::HashMap;

use paternoster_core::Nanos;
use paternoster_workload::outcome::Outcome;
use serde_json::{Value, json};

use super::plan::{self, Row};
use super::rows;
use crate::setting::time;
use crate::{Call, Failure};

/// Virtual time of a pilot.
const PILOT: Nanos = Nanos::from_millis(5);
/// Nanoseconds of a row without a request, in a release build of two cores of 2026.
const ROW: f64 = 1.6e6;
/// Nanoseconds of a request, by scheduler; of others as of the last.
const EACH: [(&str, f64); 6] = [
    ("none", 900.0),
    ("noop", 900.0),
    ("mq-deadline", 1050.0),
    ("kyber", 1000.0),
    ("paternoster", 1500.0),
    ("bfq", 1500.0),
];

/// What is known of a job on a device.
#[derive(Clone, Copy)]
struct Pilot {
    /// Requests of a virtual nanosecond, and of all if it ended by itself.
    rate: f64,
    whole: Option<f64>,
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
            Some(pilot) => *pilot,
            None => {
                let pilot = pilot(call, &asked)?;
                pilots.insert(key, pilot);
                pilot
            }
        };
        costs.push(pilot.and_then(|pilot| cost(pilot, &asked)));
    }
    let known = || costs.iter().flatten();
    let average = known().sum::<f64>() / known().count().max(1) as f64;
    Ok(costs.into_iter().map(|cost| cost.unwrap_or(average.max(1.0))).collect())
}

/// The pilot of a row; `None` if there is none: a trace, or a job that fails.
fn pilot(call: &Call, asked: &Row) -> Result<Option<Pilot>, Failure> {
    let Some(job) = asked.get("job").and_then(Value::as_str) else { return Ok(None) };
    let mut row = asked.clone();
    row.insert("scheduler".to_owned(), json!("noop"));
    row.insert("seed".to_owned(), json!(0));
    row.insert("runtime".to_owned(), json!(format!("{}us", PILOT.0 / 1000)));
    match rows::outcome(call, job, &row) {
        Ok(outcome) => Ok(Some(told(&outcome))),
        Err(stopped @ Failure::Status(_)) => Err(stopped),
        Err(_) => Ok(None),
    }
}

fn told(outcome: &Outcome) -> Pilot {
    let jobs = outcome.report.jobs.iter();
    let ios: u64 = jobs.map(|job| job.statistics.ios()).sum();
    let took = outcome.report.extra["virtual_time_ns"].as_u64().unwrap_or(0).max(1);
    let whole = (took < PILOT.0).then_some(ios as f64);
    Pilot { rate: ios as f64 / took as f64, whole }
}

fn cost(pilot: Pilot, asked: &Row) -> Option<f64> {
    let scheduler = asked.get("scheduler")?.as_str()?;
    let runtime = asked.get("runtime").and_then(Value::as_str);
    let ns = runtime.and_then(|text| time("runtime", text, Nanos::from_secs(1)).ok());
    let requests = match (pilot.whole, ns) {
        (Some(whole), _) => whole,
        (None, Some(ns)) => pilot.rate * ns.0 as f64,
        (None, None) => return None,
    };
    let name = scheduler.split(':').next().unwrap_or(scheduler);
    let known = EACH.iter().find(|(known, _)| *known == name).or(EACH.last())?;
    Some(ROW + requests * known.1)
}

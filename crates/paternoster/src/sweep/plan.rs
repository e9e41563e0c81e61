// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan: the columns of plans and results, the contents of a row, its name, and parts of equal
//! cost.
//!
//! A row is a map of values, as JSON has them: it comes from a CSV or Parquet file, or from Python.
//! An empty cell is absent.

use std::collections::BTreeMap;

use paternoster_frame::Failure;
use paternoster_frame::cells::Kind::{self, Integer, Real, Text, Unsigned};
use paternoster_frame::cells::Row;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What a row of a plan may have: a job (a job file's text, or its path) or a trace (a path), each
/// with its hash if it is to be checked, what it runs on, and its cost, in any unit: parts of a
/// plan are made equal by it.
pub(super) const PLAN: [(&str, Kind); 10] = [
    ("job", Text),
    ("trace", Text),
    ("sha256", Text),
    ("device", Text),
    ("scheduler", Text),
    ("set", Text),
    ("seed", Unsigned),
    ("runtime", Text),
    ("window", Text),
    ("cost", Real),
];

/// What a row of results has after its name (`row`) and the plan's own columns.
pub(super) const FIGURES: [(&str, Kind); 15] = [
    ("ios", Integer),
    ("bytes", Integer),
    ("iops", Real),
    ("bytes_per_second", Real),
    ("mean_ns", Real),
    ("p50_ns", Integer),
    ("p99_ns", Integer),
    ("max_ns", Integer),
    ("jain", Real),
    ("device_idle", Real),
    ("virtual_time_ns", Integer),
    ("digest", Text),
    ("error", Text),
    ("version", Text),
    ("cost_ns", Integer),
];

/// The columns of results.
pub(super) fn columns() -> impl Iterator<Item = (&'static str, Kind)> {
    [("row", Text)].into_iter().chain(PLAN).chain(FIGURES)
}

pub(super) fn is_empty(cell: &Value) -> bool {
    cell.is_null() || cell.as_str() == Some("")
}

/// What a row requests, in the types of the plan, without defaults; and what is wrong.
pub(super) fn asked(row: &Row) -> (Row, Option<String>) {
    let (mut asked, mut wrong) = (Row::new(), None);
    for (name, kind) in PLAN {
        let Some(cell) = row.get(name).filter(|cell| !is_empty(cell)) else { continue };
        match kind.of(cell) {
            Some(value) => drop(asked.insert(name.to_owned(), value)),
            None => {
                wrong = Some(format!("{name} of a plan's row is no {}: {cell}", kind.name()));
            }
        }
    }
    (asked, wrong)
}

/// A row's request with the defaults filled in.
pub(super) fn with_defaults(mut asked: Row) -> Row {
    for (name, value) in
        [("device", json!("ssd-870evo")), ("scheduler", json!("mq-deadline")), ("seed", json!(0))]
    {
        asked.entry(name).or_insert(value);
    }
    asked
}

/// A digest of what a row requests: 16 hexadecimal digits. Its cost is not part of it.
pub(super) fn name(row: &Row) -> String {
    let (mut asked, wrong) = asked(row);
    asked.remove("cost");
    let mut named = match wrong {
        None => with_defaults(asked),
        Some(wrong) => {
            asked.insert("wrong".to_owned(), json!(wrong));
            asked
        }
    };
    let sorted: BTreeMap<String, Value> = core::mem::take(&mut named).into_iter().collect();
    hash(json!(sorted).to_string().as_bytes())[..16].to_owned()
}

/// SHA-256, in hexadecimal digits.
pub(super) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The indices of one of several parts, counted from 1, of about equal cost: rows go, most
/// expensive first, to the part with the least cost so far.
pub(super) fn part_of(rows: &[Row], part: usize, parts: usize) -> Result<Vec<usize>, Failure> {
    if part == 0 || part > parts {
        let message = format!("--part {part}/{parts}: the first part is 1, the last {parts}");
        return Err(Failure::Request(message));
    }
    let cost = |row: &Row| {
        let told = row.get("cost").filter(|cell| !is_empty(cell));
        told.and_then(|cell| Real.of(cell)?.as_f64()).filter(|cost| *cost >= 0.0).unwrap_or(1.0)
    };
    let costs: Vec<f64> = rows.iter().map(cost).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| costs[*b].total_cmp(&costs[*a]));
    // The least sum, then the least number: sums are never negative, so their bits are in order.
    let mut sums: std::collections::BTreeSet<(u64, usize)> = (1..=parts).map(|p| (0, p)).collect();
    let mut mine = Vec::new();
    for place in order {
        let Some((sum, least)) = sums.pop_first() else { break };
        sums.insert(((f64::from_bits(sum) + costs[place]).to_bits(), least));
        if least == part {
            mine.push(place);
        }
    }
    mine.sort_unstable();
    Ok(mine)
}

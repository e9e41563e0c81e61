// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for programs: one JSON document, or CSV with a row for each figure of latencies.
//!
//! JSON: times in nanoseconds, sizes in bytes, shares from 0 to 1. CSV: one line for each device,
//! process (empty: all) and phase, with the same units, and a head line.

use paternoster_core::Nanos;
use paternoster_frame::results::field;
use paternoster_trace::analysis::{Depth, DeviceFigures, Findings, Phase, ProcessFigures};
use paternoster_trace::record::CoarseHistogram;
use serde_json::{Value, json};

/// The percentiles in the output, in permille, with their names.
const PERCENTILES: [(u64, &str); 5] =
    [(500, "p50"), (900, "p90"), (950, "p95"), (990, "p99"), (999, "p99.9")];

/// The report as a JSON document.
pub(super) fn json(
    trace: &str,
    found: &Findings,
    name: &dyn Fn(&DeviceFigures) -> String,
    problems: u64,
) -> Value {
    let devices: Vec<Value> =
        found.devices.iter().map(|device| of_device(&name(device), device)).collect();
    json!({
        "trace": trace,
        "events": found.events,
        "messages": found.messages,
        "problems": problems,
        "begins_ns": found.begins.0,
        "ends_ns": found.ends.0,
        "devices": devices,
    })
}

fn of_device(name: &str, device: &DeviceFigures) -> Value {
    let counts = &device.counts;
    let mut phases = serde_json::Map::new();
    for phase in Phase::ALL {
        let histogram = &device.phases[phase as usize];
        if histogram.count() > 0 {
            phases.insert(phase.names().0.to_owned(), latency(histogram));
        }
    }
    let directions = ["read", "write"].into_iter().enumerate().map(|(place, direction)| {
        let value = json!({
            "queued": counts.queued[place],
            "queued_bytes": counts.queued_bytes[place],
            "merged": counts.merged[place],
            "issued": counts.issued[place],
            "issued_bytes": counts.issued_bytes[place],
            "completed": counts.completed[place],
            "completed_bytes": counts.completed_bytes[place],
            "Q2C": latency(&device.whole[place]),
            "D2C": latency(&device.device[place]),
        });
        (direction.to_owned(), value)
    });
    let mut value = json!({
        "device": name,
        "major": device.number.major(),
        "minor": device.number.minor(),
        "requeued": counts.requeued,
        "failed": counts.failed,
        "flushes": counts.flushes,
        "flush_D2C": latency(&device.flush),
        "discards": counts.discards,
        "lost": device.lost,
        "unplugs": counts.unplugs[0],
        "timer_unplugs": counts.unplugs[1],
        "unplugged": counts.unplugged,
        "phases": phases,
        "seeks": {
            "count": device.seeks.count,
            "sequential": device.seeks.sequential,
            "near": device.seeks.near,
            "mean_sectors": mean(device.seeks.distance, device.seeks.count),
            "median_sectors": device.seeks.distances.permille(500).0,
        },
        "waiting": depth(&device.waiting, device.span),
        "in_device": depth(&device.in_device, device.span),
        "fairness": device.fairness,
        "processes": device.processes.iter().map(of_process).collect::<Vec<_>>(),
    });
    if let Value::Object(object) = &mut value {
        object.extend(directions);
    }
    value
}

fn of_process(process: &ProcessFigures) -> Value {
    json!({
        "pid": process.pid,
        "name": process.name,
        "queued": process.queued,
        "queued_bytes": process.asked_bytes,
        "completed": process.done,
        "read_bytes": process.read_bytes,
        "write_bytes": process.write_bytes,
        "Q2C": latency(&process.whole),
        "Q2D": latency(&process.waited),
        "sleeps": process.sleeps,
        "device_time_ns": process.device_time.0,
        "share": process.share,
    })
}

fn depth(depth: &Depth, span: Nanos) -> Value {
    json!({
        "mean": depth.mean(span),
        "mean_busy": depth.mean_busy(),
        "max": depth.most(),
        "busy_ns": depth.busy().0,
        "periods": depth.periods(),
    })
}

fn latency(histogram: &CoarseHistogram) -> Value {
    let mut value = json!({
        "count": histogram.count(),
        "min_ns": histogram.least().0,
        "mean_ns": mean(histogram.sum(), histogram.count()),
        "max_ns": histogram.most().0,
    });
    if let Value::Object(object) = &mut value {
        for (permille, name) in PERCENTILES {
            object.insert(format!("{name}_ns"), json!(histogram.permille(permille).0));
        }
    }
    value
}

fn mean(sum: u128, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

/// One row of the report as a table: device and process, phase, and the figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) trace: String,
    pub(super) device: String,
    pub(super) pid: Option<u32>,
    pub(super) process: String,
    pub(super) phase: &'static str,
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) mean: f64,
    pub(super) percentiles: [u64; 5],
    pub(super) max: u64,
}

/// Every phase of every device, then of every process on it.
pub(super) fn rows(
    trace: &str,
    found: &Findings,
    name: &dyn Fn(&DeviceFigures) -> String,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for device in &found.devices {
        let called = name(device);
        let row = |of: Option<&ProcessFigures>, phase, histogram: &CoarseHistogram| Row {
            trace: trace.to_owned(),
            device: called.clone(),
            pid: of.map(|process| process.pid),
            process: of.map(|process| process.name.clone()).unwrap_or_default(),
            phase,
            count: histogram.count(),
            min: histogram.least().0,
            mean: mean(histogram.sum(), histogram.count()),
            percentiles: PERCENTILES.map(|(permille, _)| histogram.permille(permille).0),
            max: histogram.most().0,
        };
        for phase in Phase::ALL {
            rows.push(row(None, phase.names().0, &device.phases[phase as usize]));
        }
        for process in &device.processes {
            rows.push(row(Some(process), "Q2D", &process.waited));
            rows.push(row(Some(process), "Q2C", &process.whole));
        }
    }
    rows.retain(|row| row.count > 0);
    rows
}

/// The rows as CSV with a head line.
pub(super) fn csv(rows: &[Row]) -> String {
    let names = PERCENTILES.map(|(_, name)| format!("{name}_ns")).join(",");
    let mut text = format!("trace,device,pid,process,phase,count,min_ns,mean_ns,{names},max_ns\n");
    for row in rows {
        let pid = row.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let percentiles = row.percentiles.map(|time| time.to_string()).join(",");
        text.push_str(&format!(
            "{},{},{pid},{},{},{},{},{:.1},{percentiles},{}\n",
            field(&row.trace),
            field(&row.device),
            field(&row.process),
            row.phase,
            row.count,
            row.min,
            row.mean,
            row.max
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are names quoted that would break a line?
    #[test]
    fn names_do_not_tear_lines() {
        assert_eq!(field("8,0"), "\"8,0\"");
        assert_eq!(field("a\"b"), "\"a\"\"b\"");
        assert_eq!(field("plain"), "plain");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the device and the scheduler of each log were set.
//!
//! Source: the names of the logs, `results.json` next to them (classes, levels), the README there
//! (devices, weights), and what a log itself shows of the run before it.

use std::collections::BTreeMap;

use paternoster_core::testing::Probe;
use paternoster_core::{Class, Elevator, Priority};
use paternoster_schedulers::Cfq;
use paternoster_schedulers::conformance::cfq::CfqProbe;

use super::calls::{Said, Step};
use super::message::Message;

/// What a log does not say about itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Setup {
    pub(super) rotational: bool,
    slice_idle_ms: u64,
    group_idle_ms: u64,
    low_latency: bool,
    quantum: u64,
    /// The most requests that the device took in the run before it, where there was one.
    settled: Option<u32>,
    /// How many queues that run left busy on average.
    average_busy: u32,
    priorities: BTreeMap<u32, Priority>,
    weights: BTreeMap<u32, u32>,
}

impl Setup {
    pub(super) fn of(log: &str, steps: &[Step], results: &serde_json::Value) -> Setup {
        let has = |part: &str| log.contains(part);
        let flash = ["A.log", "E.log.nonrot", "D.log.w4.cfq.rot0", "D2.log"];
        let rotational = !flash.iter().any(|part| has(part)) || has("rot1");
        let no_idle = has("si0") || (!rotational && (has("D.log") || has("D2.log")));
        let settled = match log {
            _ if has("cfq-si8-hwtag0") => Some(2),
            "E.log.nonrot.si8.hwtag1" | "E.log.nonrot.si8.gi0.hwtag1" => Some(33),
            _ => None,
        };
        let mut setup = Setup {
            rotational,
            slice_idle_ms: if no_idle { 0 } else { 8 },
            group_idle_ms: if has("gi0") { 0 } else { 8 },
            low_latency: !has("ll0"),
            quantum: if has("quantum2") { 2 } else { 8 },
            settled,
            average_busy: first_average(steps),
            ..Setup::default()
        };
        setup.read_results(log, results);
        if has("idleclass") {
            // Not among the results; the log gives the class (`cl=2`) of its only reader.
            setup.priorities.insert(142, Priority { class: Class::Idle, level: 7 });
        }
        setup
    }

    fn read_results(&mut self, log: &str, results: &serde_json::Value) {
        let run = log;
        for row in results["results"].as_array().into_iter().flatten() {
            if row["run"] != run || row["traced"] != true {
                continue;
            }
            let number = |field: &str| row[field].as_i64().unwrap_or(0);
            let Ok(pid) = u32::try_from(number("pid")) else { continue };
            let class = match number("cls") {
                1 => Class::Realtime,
                3 => Class::Idle,
                _ => Class::BestEffort,
            };
            let level = u8::try_from(number("prio")).unwrap_or(4);
            self.priorities.insert(pid, Priority { class, level });
            let name = row["n"].as_str().unwrap_or_default();
            if let Some(weight) = weight(log, name) {
                self.weights.insert(pid, weight);
            }
        }
    }

    /// Whether the log continues another run.
    pub(super) const fn goes_on(&self) -> bool {
        self.settled.is_some()
    }

    pub(super) fn priority(&self, pid: u32) -> Priority {
        self.priorities.get(&pid).copied().unwrap_or_default()
    }

    /// The weight of its process's group, if it is in one.
    pub(super) fn weight(&self, pid: u32) -> Option<u32> {
        self.weights.get(&pid).copied()
    }

    pub(super) fn apply(&self, probe: &mut Probe<Cfq>) {
        probe.set("slice_idle", self.slice_idle_ms);
        probe.set("group_idle", self.group_idle_ms);
        probe.set("low_latency", self.low_latency.into());
        probe.set("quantum", self.quantum);
        probe.set_average_busy(self.average_busy);
        if let Some(depth) = self.settled {
            probe.settle(depth);
        }
    }
}

/// The average of busy queues that a log begins with: its first workload shows it, before it
/// updates the average for the first time. From there on each is ours, and judged.
fn first_average(steps: &[Step]) -> u32 {
    let told = |said: &Said| match said.message {
        Message::Workload { average, .. } => u32::try_from(average).ok(),
        _ => None,
    };
    steps.iter().flat_map(|step| &step.said).find_map(told).unwrap_or(0)
}

/// Processes of the runs with groups are named after them.
fn weight(log: &str, name: &str) -> Option<u32> {
    match name {
        "w1000" => Some(1000),
        "w500" => Some(500),
        _ if log.starts_with("G.") && name.starts_with('a') => Some(1000),
        _ if log.starts_with("G.") && name.starts_with('b') => Some(500),
        _ => None,
    }
}

/// The attributes of the recordings under deadline, by their names.
pub(super) fn set_deadline(log: &str, probe: &mut Probe<dyn Elevator>) {
    if log.contains("fb1-ws1") {
        probe.set("fifo_batch", 1);
        probe.set("writes_starved", 1);
    }
    if log.contains("re100") {
        probe.set("read_expire", 100);
    }
}

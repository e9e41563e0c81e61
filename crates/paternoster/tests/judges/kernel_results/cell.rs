// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cell of the kernel's tables: a device, a scheduler and a few processes, run and compared.

use std::path::Path;

use paternoster_core::{Nanos, NoObserver};
use paternoster_sim::Simulated;
use paternoster_workload::Queue;
use paternoster_workload::fio::jobfile::{JobFile, Source, parse};
use paternoster_workload::outcome::{Outcome, Subject};
use paternoster_workload::report;
use paternoster_workload::run::{NoWatcher, RunError, Settings};
use serde_json::Value;

use super::disk::Disk;
use crate::common::skipped;

const FOLDER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/kernel-traces/cfq-decisions");

/// How far ours may be from theirs, in hundredths.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Allowance {
    /// 10.
    Tenth,
    /// 10, plus one turn of this many milliseconds (by process; the last counts for all others): a
    /// run that is cut out of a sequence of turns has one more or less.
    Turns(&'static [u32]),
    /// More, for a reason.
    Apart(f64, &'static str),
}

/// One cell of the kernel's tables.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    /// The run's name in `results.json`.
    pub(crate) run: String,
    pub(crate) disk: Disk,
    /// `cfq slice_idle=0`: a scheduler with attributes.
    pub(crate) scheduler: &'static str,
    pub(crate) jobs: String,
    /// Length of our run in seconds.
    pub(crate) seconds: u32,
    pub(crate) allowance: Allowance,
}

/// What a process got.
#[derive(Debug, Clone)]
struct Share {
    name: String,
    kibps: f64,
    seconds: f64,
}

impl Cell {
    fn job_file(&self) -> JobFile {
        let global = "direct=1\nioengine=sync\nfilename=/dev/disk\nsize=6g\nnorandommap";
        let runtime = format!("time_based\nruntime={}", self.seconds);
        let text = format!("[global]\n{global}\n{runtime}\n{}", self.jobs);
        let source = Source { name: "cell", text: &text };
        parse(&[source], &[], &[], &|_| None, &|_, _| Err(String::new()))
            .unwrap_or_else(|problems| panic!("{}: {problems:?}", self.run))
    }

    /// Our result, by process.
    fn simulate(&self) -> Vec<(String, f64)> {
        let jobs = self.job_file();
        let mut words = self.scheduler.split(' ');
        let elevator = words.next().and_then(paternoster_schedulers::by_name).expect("a scheduler");
        let attributes: Vec<(&str, &str)> =
            words.filter_map(|word| word.split_once('=')).chain([("ncq", "probe")]).collect();
        let prepare = |queue: &mut Queue| {
            for (name, value) in &attributes {
                queue.set_attribute(Nanos::ZERO, name, value).expect("an attribute");
            }
            Ok::<(), RunError>(())
        };
        // The emulation's time is in the answers of the device.
        let settings = Settings { submit_cost: Nanos(1), ..Settings::default() };
        let model = self.disk.description().faulty_model(&self.disk.emulation(), 1);
        let mut device = Simulated::new(model);
        let (jobs_run, watcher) = (&jobs.jobs, &mut NoWatcher);
        let done = paternoster_workload::run(
            jobs_run,
            &settings,
            &mut device,
            elevator,
            NoObserver,
            prepare,
            watcher,
        );
        let (result, ..) = done.unwrap_or_else(|error| panic!("{}: {error}", self.run));
        let (device, scheduler) = ("recorded", self.scheduler);
        let subject = Subject { jobs: &jobs, device, scheduler, settings: &settings };
        rates(&report::json(&Outcome::new(&subject, &result, None).report))
    }

    /// How far apart a process may be.
    fn bound(&self, place: usize, share: &Share, all_kibps: f64) -> f64 {
        match self.allowance {
            Allowance::Tenth => 10.0,
            Allowance::Apart(bound, _) => bound,
            Allowance::Turns(turns_ms) => {
                let turn_ms = turns_ms.get(place).or(turns_ms.last()).copied().unwrap_or(0);
                // In its turn it has the whole device, with the rate of all together.
                let turn_kib = f64::from(turn_ms) / 1000.0 * all_kibps;
                10.0 + 100.0 * turn_kib / (share.kibps * share.seconds)
            }
        }
    }
}

/// KiB/s by job, of a report.
fn rates(json: &str) -> Vec<(String, f64)> {
    let report: Value = serde_json::from_str(json).expect("JSON");
    let rate = |job: &Value| {
        let ways = ["read", "write"].map(|way| job[way]["bw_bytes"].as_f64().expect("a number"));
        (job["jobname"].as_str().expect("a name").to_owned(), (ways[0] + ways[1]) / 1024.0)
    };
    report["jobs"].as_array().expect("jobs").iter().map(rate).collect()
}

/// What each process of a run on the real kernel got.
fn recorded(results: &Value, run: &str) -> Vec<Share> {
    let rows = results["results"].as_array().expect("results").iter();
    let rows = rows.filter(|row| row["run"] == run && row["traced"] == false);
    let share = |row: &Value| Share {
        name: row["n"].as_str().expect("a name").to_owned(),
        kibps: row["kibps"].as_f64().expect("a rate"),
        seconds: row["dur"].as_f64().expect("a time"),
    };
    rows.map(share).collect()
}

fn results() -> Option<Value> {
    let path = Path::new(FOLDER).join("results.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("JSON")),
        Err(_) => {
            skipped(&format!("no results of a real kernel at {}", path.display()));
            None
        }
    }
}

/// Runs cells, prints ours next to theirs, and asserts that none is further apart than allowed.
pub(crate) fn compare(cells: &[Cell]) {
    let Some(results) = results() else { return };
    let mut wrong = Vec::new();
    for cell in cells {
        let theirs = recorded(&results, &cell.run);
        assert!(!theirs.is_empty(), "{}: not in results.json", cell.run);
        let all_kibps = theirs.iter().map(|share| share.kibps).sum();
        let ours = cell.simulate();
        for (place, share) in theirs.iter().enumerate() {
            let Share { name, kibps, .. } = share;
            let found = ours.iter().find(|our| our.0 == *name);
            let found = found.unwrap_or_else(|| panic!("{}: no job {name}", cell.run)).1;
            let apart = 100.0 * (found / kibps - 1.0);
            let bound = cell.bound(place, share, all_kibps);
            let why = if let Allowance::Apart(_, why) = cell.allowance { why } else { "" };
            let run = &cell.run;
            println!(
                "{run:32} {name:8} {found:9.0} {kibps:9.0} {apart:+6.1} of {bound:4.1} % {why}"
            );
            if apart.abs() > bound {
                wrong.push(format!("{run} {name}: {found:.0}, not {kibps:.0}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

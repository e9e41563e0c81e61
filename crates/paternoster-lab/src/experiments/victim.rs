// SPDX-License-Identifier: MIT OR Apache-2.0
//! victim: a client owed half of the device, against 1, 4, 16, 256 sessions that want all of it.
//!
//! Two cgroups of equal weight: a victim with 32 requests in flight, and aggressors with 32 for
//! each of their sessions, or 256 sessions with one each. A scheduler that counts requests or
//! sessions gives the victim less the more of them there are:
//!
//! ```text
//! sessions    1      4      16     256
//! by request  50 %   20 %   5.9 %  11.1 %    32 of 64, of 160, of 544, of 288
//! by group    50 %   50 %   50 %   50 %
//! ```
//!
//! On a device that takes a thousand commands at a time every client gets all it asks for, and a
//! victim with 32 requests has less than half without anyone taking it. There the error is judged:
//! compared with what the victim would have had if none of its requests had waited in the elevator.

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Quantity, Results, Run, Workload, of, parts,
};

const JOBS: FioJobs =
    FioJobs::new("jobs/scoreboard/w7.fio", include_str!("../../jobs/scoreboard/w7.fio"));
const SESSIONS: [(u32, &[&str]); 4] = [
    (1, &["client", "aggressors-1"]),
    (4, &["client", "aggressors-4"]),
    (16, &["client", "aggressors-16"]),
    (256, &["client", "aggressors-256"]),
];
const SCHEDULERS: [&str; 4] = ["none", "cfq:group_isolation=1", "bfq", "paternoster"];

/// Device, ramp, time in which it is measured; whether 32 requests can fill half of it.
struct Place {
    device: &'static str,
    times: [&'static str; 2],
    is_filled: bool,
}

const PLACES: [Place; 4] = [
    Place { device: "flash-card-2010", times: ["5s", "20s"], is_filled: true },
    Place { device: "hdd-7200", times: ["10s", "40s"], is_filled: true },
    Place { device: "ssd-px256m5s", times: ["1s", "2s"], is_filled: true },
    Place { device: "nvme-pm9a3", times: ["300ms", "300ms"], is_filled: false },
];

/// Least share in percent; 50 is ideal.
const SHARE_LEAST: f64 = 49.5;
/// The same relative to what is owed, where that is not half: 1 - 49.5 / 50.
const ERROR_MOST: f64 = 1.0;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "victim",
        summary: "one that is owed half of the device, beside 1, 4, 16, 256 sessions",
        source: "our own (W7 of the scoreboard)",
        notes: &[
            "4 KiB, random, direct; nr_requests=256; files far from each other. The victim's share \
             is of device time. Measured after the ramp: 20 s on the card, 40 on the disk, 2 and \
             0.3 on what is faster.",
            "Judged is paternoster: at least 49.5 %. On NVMe 32 requests are not half of what the \
             aggressors have in the device; there the max-min error is judged, at most 1 %.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn name(place: &Place, sessions: u32, scheduler: &str) -> String {
    let scheduler = scheduler.split(':').next().unwrap_or(scheduler);
    format!("{}, {sessions}: {scheduler}", place.device)
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for place in &PLACES {
        let [ramp, time] = place.times;
        for (sessions, sections) in SESSIONS {
            let jobs = FioJobs { sections, ..JOBS };
            let jobs = jobs.option("ramp_time", ramp).option("runtime", time).option("size", "1g");
            for scheduler in SCHEDULERS {
                let workload = Workload::Fio(jobs.clone());
                let device = Device::Named(place.device);
                let run = Run::new(name(place, sessions, scheduler), workload, device, scheduler);
                runs.push(run.set(&["nr_requests=256"]).placement("far"));
            }
        }
    }
    runs
}

fn share(run: &str) -> Quantity {
    of(run, "group victim share %")
}

fn figures() -> Vec<Figure> {
    let of_place = |place: &Place| {
        let mut figures = Vec::new();
        for (sessions, _) in SESSIONS {
            for scheduler in SCHEDULERS {
                let judged = scheduler == "paternoster";
                figures.extend(row(place, &name(place, sessions, scheduler), judged));
            }
        }
        figures
    };
    parts(PLACES.iter().map(of_place).collect())
}

fn row(place: &Place, run: &str, judged: bool) -> Vec<Figure> {
    let share = Figure::new(run, "%", share(run));
    let error = Figure::new(format!("{run}, error"), "%", of(run, "max-min error %"));
    match (judged, place.is_filled) {
        (true, true) => vec![share.judged(Judge::AtLeast(SHARE_LEAST))],
        (true, false) => vec![share, error.judged(Judge::Between(0.0, ERROR_MOST))],
        (false, true) => vec![share],
        (false, false) => vec![share, error],
    }
}

fn conclude(results: &Results) -> Vec<String> {
    let filled = PLACES.iter().filter(|place| place.is_filled);
    let least = |scheduler: &str| {
        let runs = filled.clone().flat_map(|place| {
            SESSIONS.map(|(sessions, _)| share(&name(place, sessions, scheduler)))
        });
        results.value(&Quantity::Least(runs.collect()))
    };
    let told = SCHEDULERS.into_iter().filter_map(|scheduler| {
        Some(format!("{} {:.1} %", scheduler.split(':').next()?, least(scheduler)?))
    });
    vec![format!(
        "Where it can ask for half, the victim has at least: {}.",
        told.collect::<Vec<_>>().join(", ")
    )]
}

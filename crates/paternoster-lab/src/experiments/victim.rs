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
//! A device that takes a thousand commands at a time takes all requests at once, and a victim with
//! 32 of them has half only if the others are kept waiting.

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

/// Device, ramp, time in which it is measured.
struct Place {
    device: &'static str,
    times: [&'static str; 2],
}

const PLACES: [Place; 4] = [
    Place { device: "flash-card-2010", times: ["5s", "20s"] },
    Place { device: "hdd-7200", times: ["10s", "40s"] },
    Place { device: "ssd-px256m5s", times: ["1s", "2s"] },
    Place { device: "nvme-pm9a3", times: ["300ms", "300ms"] },
];

/// Least share in percent; 50 is ideal.
const SHARE_LEAST: f64 = 49.5;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "victim",
        summary: "one that is owed half of the device, beside 1, 4, 16, 256 sessions",
        source: "our own (W7 of the scoreboard)",
        notes: &[
            "4 KiB, random, direct; nr_requests=256; files far from each other. The victim's share \
             is of requests, which are all alike. Measured after the ramp: 20 s on the card, 40 on \
             the disk, 2 and 0.3 on what is faster.",
            "Judged is paternoster: at least 49.5 %.",
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
    of(run, "group victim share of bytes %")
}

fn figures() -> Vec<Figure> {
    let of_place = |place: &Place| {
        let mut figures = Vec::new();
        for (sessions, _) in SESSIONS {
            for scheduler in SCHEDULERS {
                let run = name(place, sessions, scheduler);
                let figure = Figure::new(&*run, "%", share(&run));
                figures.push(match scheduler {
                    "paternoster" => figure.judged(Judge::AtLeast(SHARE_LEAST)),
                    _ => figure,
                });
            }
        }
        figures
    };
    parts(PLACES.iter().map(of_place).collect())
}

fn conclude(results: &Results) -> Vec<String> {
    let least = |scheduler: &str| {
        let runs = PLACES.iter().flat_map(|place| {
            SESSIONS.map(|(sessions, _)| share(&name(place, sessions, scheduler)))
        });
        results.value(&Quantity::Least(runs.collect()))
    };
    let told = SCHEDULERS.into_iter().filter_map(|scheduler| {
        Some(format!("{} {:.1} %", scheduler.split(':').next()?, least(scheduler)?))
    });
    vec![format!("The victim has at least: {}.", told.collect::<Vec<_>>().join(", "))]
}

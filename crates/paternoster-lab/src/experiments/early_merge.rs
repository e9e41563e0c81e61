// SPDX-License-Identifier: MIT OR Apache-2.0
//! early-merge-low-latency: seed 004, patch 2. Which queue is raised although none should be?
//!
//! A queue's state is saved when it is merged, and resumed when its process leaves again. A queue
//! merged with its very first request had not been observed; the saved state is the one it would
//! have been given: raised. Before the patch there was no check whether raising is wanted:
//! ```text
//! low_latency=0   first request ─ merge ─ saved "raised" ─ ... ─ split ─ weighs 30 times as much
//! ```
//!
//! Here two processes look things up in one small file. Their first requests lie close to each
//! other and their queues merge; the shared one is seeky, so they part.

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Results, Run, Workload, of, parts,
};

const JOBS: FioJobs =
    FioJobs::new("jobs/early-merge.fio", include_str!("../../jobs/early-merge.fio"));

const WITHOUT: &str = "without the check";
const WITH: &str = "with it";
const SCHEDULERS: [(&str, &str); 2] =
    [(WITHOUT, "bfq-4.19:low_latency=0,early_merge_check=0"), (WITH, "bfq-4.19:low_latency=0")];

const SOURCE: &str = "patch 2: \"early-merged queues to be then weight-raised, on queue splits, \
                      even if low_latency is off\"";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "early-merge-low-latency",
        summary: "two queues merge with their first requests and part again, low_latency=0",
        source: "Angelo Ruocco, Paolo Valente, Linux 4.16, 20 December 2017, patch 2",
        notes: &[
            "Two processes read large files in 64 KiB; a second later two others begin to read 4 \
             KiB at random in one file of 4 MiB; all direct; hdd-mhx2300bt, hz=250, 8 s. All have \
             the same weight. A queue merges with its first request only if others are busy, too.",
            "The series has no number for this patch: judged is whether anybody is raised.",
        ],
        runs: SCHEDULERS.map(run).to_vec(),
        figures: parts(SCHEDULERS.map(|(word, _)| figures(word)).to_vec()),
        conclude,
    }
}

fn run((word, scheduler): (&str, &str)) -> Run {
    let disk = Device::Named("hdd-mhx2300bt");
    Run::new(word, Workload::Fio(JOBS), disk, scheduler).set(&["hz=250"]).placement("far")
}

fn figures(word: &str) -> Vec<Figure> {
    let figure = |label: &str, unit, what: &str| {
        Figure::new(format!("{word}: {label}"), unit, of(word, what))
    };
    let raised = if word == WITH { Judge::Between(0.0, 0.0) } else { Judge::AtLeast(1.0) };
    let raises = figure("queues raised", "", "index raises").judged(raised);
    let raises = if word == WITH { raises.published(0.0, SOURCE) } else { raises };
    vec![
        figure("merges", "", "merges").judged(Judge::AtLeast(1.0)),
        figure("partings", "", "partings").judged(Judge::AtLeast(1.0)),
        raises,
        figure("device time of the lookups", "%", "index device time %"),
        figure("lookups", "kB/s", "index kB/s"),
        figure("readers of large files", "kB/s", "scan kB/s"),
    ]
}

fn conclude(results: &Results) -> Vec<String> {
    let [before, after] = SCHEDULERS.map(|(word, _)| {
        let number = |what: &str| results.number(word, what);
        Some((number("index device time %")?, number("scan kB/s")?))
    });
    let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
    vec![format!(
        "Without the check those who merged early have {:.0} % of the device, with it {:.0} %; \
         those who read large files beside them {:.1} MB/s and {:.1}.",
        before.0,
        after.0,
        before.1 / 1000.0,
        after.1 / 1000.0
    )]
}

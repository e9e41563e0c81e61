// SPDX-License-Identifier: MIT OR Apache-2.0
//! merge-cost: seed 004, patch 3. What does it cost to keep queues where others can find them?
//!
//! A queue that may be merged is in a tree by the sector of its next request, so each dispatched
//! request moves it within the tree. A queue that is too late for merging is in no tree, and no
//! partner is looked up for it. The patch calls that "a little boost of the throughput sustainable
//! by BFQ: 3-4%, depending on the CPU".
//!
//! How many instructions that is cannot be counted from inside. Here the moves are counted; the
//! bench `benches/instructions` counts instructions under callgrind, with the same load.

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Results, Run, Workload, of, ratio,
};

const JOBS: FioJobs =
    FioJobs::new("jobs/backlogged-readers.fio", include_str!("../../jobs/backlogged-readers.fio"));

const WITHOUT: &str = "without the window";
const WITH: &str = "with it";
const SCHEDULERS: [(&str, &str); 2] =
    [(WITHOUT, "bfq-4.19:low_latency=0,merge_window=0"), (WITH, "bfq-4.19:low_latency=0")];

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "merge-cost",
        summary: "how often queues are put by position, by request, without and with the window",
        source: "Paolo Valente, Angelo Ruocco, Linux 4.16, 20 December 2017, patch 3",
        notes: &[
            "4 random readers of 4 KiB with 128 requests each, on lab-flash, which takes 32; \
             low_latency=0: no queue is ever empty, so all are too late after 100 ms of 2 s.",
            "The patch has \"3-4%\" of the throughput that a whole kernel sustains, \"depending on \
             the CPU\". That is not measured here: wall time is never judged. Instructions a \
             request, through the library alone, are counted by benches/instructions: rows \
             bfq-4.19:backlogged and bfq-4.19:backlogged:merge_window=0.",
            "bfq (Linux 6.18) does not look for cooperators on flash that queues, with any window.",
        ],
        runs: SCHEDULERS.map(run).to_vec(),
        figures: figures(),
        conclude,
    }
}

fn run((word, scheduler): (&str, &str)) -> Run {
    let run = Run::new(word, Workload::Fio(JOBS), Device::Named("lab-flash"), scheduler);
    run.set(&["hz=250", "nr_requests=768"])
}

fn figures() -> Vec<Figure> {
    let moves = |word| ratio(of(word, "position_changes"), of(word, "section 0 I/Os"));
    let label = |word| format!("{word}: moves for each request");
    vec![
        Figure::new(format!("{WITHOUT}: requests"), "", of(WITHOUT, "section 0 I/Os")),
        Figure::new(label(WITHOUT), "", moves(WITHOUT)),
        Figure::new(label(WITH), "", moves(WITH)),
        Figure::new(
            "moves with the window by those without",
            "",
            ratio(moves(WITH), moves(WITHOUT)),
        )
        .judged(Judge::Below(1.0)),
    ]
}

fn conclude(results: &Results) -> Vec<String> {
    let moves = |word: &str| {
        Some(results.number(word, "position_changes")? / results.number(word, "section 0 I/Os")?)
    };
    let [Some(without), Some(with)] = [WITHOUT, WITH].map(moves) else { return Vec::new() };
    vec![format!(
        "The window saves {:.0} % of the moves: {without:.2} for each request without it, \
         {with:.2} with it.",
        100.0 * (1.0 - with / without)
    )]
}

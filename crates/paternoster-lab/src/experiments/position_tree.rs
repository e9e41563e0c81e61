// SPDX-License-Identifier: MIT OR Apache-2.0
//! position-tree: seed 004, patch 1. Is a queue found where it is, or where it was?
//!
//! Queues are kept by the sector of their next request, so that others that read near there find
//! them. When that request goes to the device another one is next; before the patch the queue
//! stayed at its old position until something else moved it:
//!
//! ```text
//! first    R0 R1 R2 R3     R0 goes to the device, next is R1: found near R1, or still near R0
//! second      R1'R2'R3'    its other half of R1 arrives
//! ```
//!
//! It matters where the next request is far from the last one: two processes that each read their
//! half of records which lie far apart. Merged, they read each record in one go.

use paternoster_sim::catalog;

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

const JOBS: FioJobs =
    FioJobs::new("jobs/record-halves.fio", include_str!("../../jobs/record-halves.fio"));

/// Records of each process.
const RECORDS: [u32; 2] = [30, 400];
const SCHEDULERS: [(&str, &str); 2] = [
    ("without the update", "bfq-4.19:low_latency=0,position_update=0"),
    (WITH, "bfq-4.19:low_latency=0"),
];
const WITH: &str = "with it";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "position-tree",
        summary: "two processes that read halves of records: found at the next request, or not",
        source: "Paolo Valente, Angelo Ruocco, Linux 4.16, 20 December 2017, patch 1",
        notes: &[
            "Each reads 64 KiB of each record of 128 KiB, records are 16 MiB apart, four at a \
             time; the second process starts with the record that the first is at, 24 ms later. \
             hz=250, low_latency=0.",
            "hdd-mhx2300bt with NCQ switched off and nr_requests=128: with NCQ the disk has all \
             requests at once, and none is next. A queue whose last request goes is empty, and out \
             of the tree in either case.",
            "The series has no number for this patch (\"the tree was not updated on the removal of \
             the head-of-line I/O request\"): judged is whether the two are merged. That they part \
             later is because the shared queue, too, jumps at every other request.",
        ],
        runs: runs(),
        figures: parts(RECORDS.map(figures).to_vec()),
        conclude,
    }
}

/// The disk of the seed, one command at a time.
fn disk() -> Device {
    let line = |line: &str| match line.split_once(" = ") {
        Some(("name", _)) => "name = \"hdd-mhx2300bt-no-ncq\"".to_owned(),
        Some(("depth", _)) => "depth = { value = 1, source = \"NCQ switched off\" }".to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = catalog::HDD_MHX2300BT.lines().map(line).collect();
    Device::File { name: "hdd-mhx2300bt-no-ncq".to_owned(), text: lines.join("\n") + "\n" }
}

fn name(word: &str, records: u32) -> String {
    format!("{records} records, {word}")
}

fn runs() -> Vec<Run> {
    let run = |records: u32, (word, scheduler): (&str, &str)| {
        let workload = Workload::Fio(JOBS.option("number_ios", records));
        let run = Run::new(name(word, records), workload, disk(), scheduler);
        run.set(&["hz=250", "nr_requests=128"])
    };
    let both = |records| SCHEDULERS.map(|scheduler| run(records, scheduler));
    RECORDS.into_iter().flat_map(both).collect()
}

fn rate(word: &str, records: u32) -> Quantity {
    of(name(word, records), "section 0 MB/s")
}

fn figures(records: u32) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (word, _) in SCHEDULERS {
        let run = name(word, records);
        let merges = Figure::new(format!("{run}: merges"), "", of(&run, "merges"));
        figures.push(match word {
            WITH => merges.judged(Judge::AtLeast(1.0)),
            _ => merges.judged(Judge::Between(0.0, 0.0)),
        });
        figures.push(Figure::new(format!("{run}: partings"), "", of(&run, "partings")));
        figures.push(Figure::new(run, "MB/s", rate(word, records)));
    }
    let [without, with] = SCHEDULERS.map(|(word, _)| rate(word, records));
    let label = format!("{records} records: with by without");
    figures.push(Figure::new(label, "", ratio(with, without)));
    figures
}

fn conclude(results: &Results) -> Vec<String> {
    let gain = |records: u32| {
        let [without, with] = SCHEDULERS.map(|(word, _)| results.value(&rate(word, records)));
        Some(100.0 * (with? / without? - 1.0))
    };
    let [Some(short), Some(long)] = RECORDS.map(gain) else { return Vec::new() };
    let [few, many] = RECORDS;
    vec![format!(
        "That the second is found where the first one's next request is brings {short:+.0} % with \
         {few} records, {long:+.0} % with {many}."
    )]
}

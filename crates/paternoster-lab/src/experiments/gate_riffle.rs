// SPDX-License-Identifier: MIT OR Apache-2.0
//! gate-riffle: few writes at a time waste the disk, many ruin reads.
//!
//! A shuffle service flushes memory to its disk while jobs read from it. How many flushes may write
//! at a time is a number in its configuration; the thread wants one that adjusts itself.

use crate::reproduce::doors::{Client, Door, Doors};
use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Results, Run, Workload, of, ratio,
};

const LIMITS: [usize; 6] = [1, 2, 4, 8, 16, 32];

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "gate-riffle",
        summary: "flushes of 64 KiB beside reads: a limit of 1 to 32, and the gate",
        source: "zuston/riffle pull request 263 and issue 266 (12 and 13 May 2025)",
        notes: &[
            "Published are two sentences and pictures: too few writes at a time do not use the \
             disk, too many make reads slow. Disk, sizes and load are not known. Here 32 flushes \
             of 64 KiB under way, four clients that read 64 KiB each 20 ms, at random places of \
             raid0-4-hdd, which was chosen because there both sentences are true (fitted). On our \
             flash the first is not: one write at a time moves what 32 do.",
            "Judged are the two sentences (with 1 at a time fewer than 90 % of what 32 do; with 32 \
             reads take more than twice as long as with 1), and the gate, told nothing, all of one \
             weight: 97 to 103 % of the bytes that 32 at a time move, and reads at most half as \
             long in the 99th percentile. The latter two were asked before the first run.",
            "The gate's bytes are outside, and known to be: the readers, owed half, have what they \
             ask for, and the flushes the rest. No limit has both either: what moves more than \
             the gate has the longer tail, and the other way round.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn runs() -> Vec<Run> {
    let reads = (0..4).map(|_| Client::reads(0, 1).len(64 << 10).every(20_000_000));
    let flushes = std::iter::once(Client::reads(1, 32).len(64 << 10).writes());
    let clients: Vec<Client> = reads.chain(flushes).collect();
    let limits = LIMITS.map(|most| (most.to_string(), Door::Limit { class: 1, most }));
    let gate = ("gate".to_owned(), Door::Gate { weights: vec![100, 100], cap: 0 });
    let run = |(name, door)| {
        let doors = Doors {
            experiment: "gate-riffle",
            door,
            classes: &["reads", "flushes"],
            clients: clients.clone(),
            episode: None,
            times: [120_000, 60_000],
        };
        Run::new(name, Workload::Doors(doors), Device::Named("raid0-4-hdd"), "none")
    };
    limits.into_iter().chain([gate]).map(run).collect()
}

fn figures() -> Vec<Figure> {
    let [tail, all] = ["reads p99 us", "all MB/s"];
    let mut figures = Vec::new();
    for run in LIMITS.map(|most| most.to_string()).iter().map(String::as_str).chain(["gate"]) {
        let who = if run == "gate" { "gate".to_owned() } else { format!("{run} at a time") };
        figures.push(Figure::new(format!("{who}, all"), "MB/s", of(run, all)));
        figures.push(Figure::new(format!("{who}, reads' p99"), "us", of(run, tail)));
    }
    let beside = |what: &str, run: &str, other: &str| ratio(of(run, what), of(other, what));
    figures.extend([
        Figure::new("1 by 32, all", "", beside(all, "1", "32"))
            .judged(Judge::Below(0.9))
            .fitted(true),
        Figure::new("32 by 1, reads' p99", "", beside(tail, "32", "1"))
            .judged(Judge::AtLeast(2.0))
            .fitted(true),
        Figure::new("gate by 32, all", "", beside(all, "gate", "32"))
            .judged(Judge::Between(0.97, 1.03)),
        Figure::new("gate by 32, reads' p99", "", beside(tail, "gate", "32"))
            .judged(Judge::Between(0.0, 0.5)),
    ]);
    figures
}

fn conclude(results: &Results) -> Vec<String> {
    let told = |run: &str| {
        let (all, tail) = (results.number(run, "all MB/s")?, results.number(run, "reads p99 us")?);
        Some(format!("{run}: {all:.0} MB/s and {:.1} ms", tail / 1e3))
    };
    let rows: Option<Vec<String>> = ["1", "32", "gate"].into_iter().map(told).collect();
    rows.map(|rows| vec![format!("{}.", rows.join("; "))]).unwrap_or_default()
}

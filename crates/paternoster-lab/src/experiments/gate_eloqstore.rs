// SPDX-License-Identifier: MIT OR Apache-2.0
//! gate-eloqstore: reads together with background writes, on a disk that is a rate limit.
//!
//! The thread measures a cloud's disk: not a device but a budget of some 275,000 I/Os of 4 KiB a
//! second, above which requests are held. They are held in a line in which reads wait behind
//! writes. The project's own limiter reduced the 99.9th percentile of reads from 19.8 to 18.7 ms;
//! the goal was less than 10.

use crate::reproduce::doors::{Client, Door, Doors};
use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Results, Run, Workload, of, parts, ratio,
};

/// In us: the 99.9th percentile of reads together with writes.
const PUBLISHED: f64 = 19_800.0;
const LOADS: [&str; 2] = ["steady", "bursts"];

/// 90 us a read below the limit.
const VOLUME: &str = r#"name = "volume"
model = "linear"
summary = "a cloud's disk below its limit: 90 us, 256 at a time"
valid = "reads of 4 KiB, writes of 128 KiB; the limit is an episode"

[facts]
capacity = { value = "894 GiB", source = "thread: 'Azure v2 direct disk, 894G'" }
depth = { value = 1024, source = "assumed" }
rotational = { value = false, source = "thread" }
max_sectors_kb = { value = 1280, source = "assumed" }
max_segments = { value = 128, source = "assumed" }
write_cache = { value = false, source = "assumed" }

[linear]
servers = { value = 256, source = "assumed: the limit is what is waited for" }
base = { value = "90 us", source = "thread: p50 of reads" }
rate = { value = "0 ns/B", source = "assumed" }

[host]
submit_cost = { value = "0 us", source = "assumed" }
"#;
/// 275,300 times 4 KiB in MiB: 1,075.
const LIMIT: &str = "throttle rate=1075MiB";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "gate-eloqstore",
        summary: "reads beside background writes on a provisioned disk, with the gate",
        source: "eloqdata/eloqstore pull request 461 (23 July 2026)",
        notes: &[
            "Of the load only its kind is published. Here, steady: 40 readers of 4 KiB, one at a \
             time each, which alone are at the limit; and 169 writes of 128 KiB under way, for the \
             published tail: 19.8 ms of the limit are 22.3 MB, less the 40 reads. In bursts: 40 \
             readers that read each 250 us whatever has ended (655 MB/s), and 173 writes at about \
             the same time, once a second. They take 20.1 ms of the limit, and what is behind \
             grows less by 42 % of the time that passes: 20 ms in the worst thousandth.",
            "The limit counts bytes; in the thread a written 4 KiB costs as much as two that are \
             read. The project's limiter is not modelled; of it is published that it makes the \
             tail 18.7 of 19.8 ms, which is 0.94 of what it was.",
            "Judged behind the gate (reads 400, writes 100; it is told nothing of the limit): the \
             tail at most 10 of 19.8 of what it is without, and not less than that alone; all \
             together 97 to 103 % of what they do without.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for load in LOADS {
        let reader = |_| match load {
            "steady" => Client::reads(0, 1),
            _ => Client::reads(0, 1).every(250_000),
        };
        let reads: Vec<Client> = (0..40).map(reader).collect();
        let writes = match load {
            "steady" => Client::reads(1, 169),
            _ => Client::reads(1, 173).every(1_000_000_000),
        };
        let mut both = reads.clone();
        both.push(writes.len(128 << 10).writes());
        let gate = Door::Gate { weights: vec![400, 100], cap: 0 };
        for (name, door, clients) in
            [("alone", Door::Open, reads), ("open", Door::Open, both.clone()), ("gate", gate, both)]
        {
            let doors = Doors {
                experiment: "gate-eloqstore",
                door,
                classes: &["reads", "writes"],
                clients,
                episode: Some(LIMIT),
                times: [10_000, 5_000],
            };
            let device = Device::File { name: "volume".to_owned(), text: VOLUME.to_owned() };
            let name = format!("{load}: {name}");
            runs.push(Run::new(name, Workload::Doors(doors), device, "none"));
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let tail = |load: &str, run: &str| of(format!("{load}: {run}"), "reads p99.9 us");
    let beside_writes = |load| {
        let figure = Figure::new(format!("{load}: beside writes, p99.9"), "us", tail(load, "open"));
        // The thread has one such figure.
        let figure = match load {
            "steady" => figure.published(PUBLISHED, "pull request 461"),
            _ => figure.judged(Judge::Between(0.85 * PUBLISHED, 1.15 * PUBLISHED)),
        };
        figure.fitted(true)
    };
    let all = |load: &str, run: &str| of(format!("{load}: {run}"), "all MB/s");
    let of_load = |load| {
        let beside = ratio(tail(load, "gate"), tail(load, "open"));
        vec![
            Figure::new(format!("{load}: alone, p99.9"), "us", tail(load, "alone")),
            beside_writes(load),
            Figure::new(format!("{load}: gate, p99.9"), "us", tail(load, "gate")),
            Figure::new(format!("{load}: gate by without"), "", beside)
                .judged(Judge::Between(0.0, 10.0 / 19.8)),
            Figure::new(
                format!("{load}: gate by alone"),
                "",
                ratio(tail(load, "gate"), tail(load, "alone")),
            )
            .judged(Judge::AtLeast(1.0)),
            Figure::new(
                format!("{load}: all together, by without"),
                "",
                ratio(all(load, "gate"), all(load, "open")),
            )
            .judged(Judge::Between(0.97, 1.03)),
        ]
    };
    parts(LOADS.map(of_load).to_vec())
}

fn conclude(results: &Results) -> Vec<String> {
    let told = |load: &str| {
        let tail = |run: &str| results.number(&format!("{load}: {run}"), "reads p99.9 us");
        let (open, gate) = (tail("open")?, tail("gate")?);
        Some(format!("{load}: the tail of reads is {:.1} of {:.1} ms.", gate / 1e3, open / 1e3))
    };
    LOADS.into_iter().filter_map(told).collect()
}

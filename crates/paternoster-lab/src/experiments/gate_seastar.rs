// SPDX-License-Identifier: MIT OR Apache-2.0
//! gate-seastar: two shards with one read each at a time get a seventeenth of what one gets.
//!
//! Shards take tokens from one bucket. A shard that finds another's reservation before its own
//! waits until more tokens come; with one read at a time that happens once a read, however idle the
//! device.

use crate::reproduce::doors::{Client, Door, Doors};
use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Results, Run, Workload, of, ratio,
};

/// 24,000 reads a second, one after the other.
const DRIVE: &str = r#"name = "drive"
model = "linear"
summary = "an NVMe drive of 41.7 us a read, 268,000 reads a second"
valid = "random reads of 4 KiB"

[facts]
capacity = { value = "64 GiB", source = "assumed" }
depth = { value = 256, source = "assumed" }
rotational = { value = false, source = "thread: NVMe" }
max_sectors_kb = { value = 1280, source = "assumed" }
max_segments = { value = 128, source = "assumed" }
write_cache = { value = false, source = "assumed" }

[linear]
servers = { value = 11, source = "thread: 268,337 reads a second by iotune, of 24,000 for each" }
base = { value = "41.7 us", source = "thread: about 24,000 reads a second, one at a time" }
rate = { value = "0 ns/B", source = "reads of 4 KiB alone" }

[host]
submit_cost = { value = "0 us", source = "assumed" }
"#;

/// 1,400 reads a second, in ns: close to the 0.75 ms that are Seastar's goal for a tick.
const TICK: u64 = 714_286;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "gate-seastar",
        summary: "two shards with one read at a time each: a seventeenth, and behind the gate",
        source: "scylladb/seastar issue 3201 (13 January 2026)",
        notes: &[
            "The model of what was: a shard that asks within two ticks of another's ask waits for \
             the next tick. That the wait is a tick is our reading, and the tick's length is \
             fitted to the published 1,400 reads; so the first rows show what the model is, and \
             prove nothing.",
            "Judged is the gate, which is told nothing: one shard, and each of two, have 98 to \
             102 % of what one has without a door.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for shards in [1, 2] {
        for (name, door) in [
            ("open", Door::Open),
            ("bucket", Door::Ticks(TICK)),
            ("gate", Door::Gate { weights: vec![1000, 1000], cap: 0 }),
        ] {
            let doors = Doors {
                experiment: "gate-seastar",
                door,
                classes: &["one", "other"],
                clients: (0..shards).map(|shard| Client::reads(shard, 1)).collect(),
                episode: None,
                times: [500, 2_000],
            };
            let device = Device::File { name: "drive".to_owned(), text: DRIVE.to_owned() };
            let name = format!("{shards}: {name}");
            runs.push(Run::new(name, Workload::Doors(doors), device, "none"));
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let reads = |run: &str, shard: &str| of(run, format!("{shard} IOPS"));
    let beside = |run: &str, shard: &str| ratio(reads(run, shard), reads("1: open", "one"));
    let same = Judge::Between(0.98, 1.02);
    vec![
        Figure::new("one shard", "reads/s", reads("1: bucket", "one"))
            .published(24_000.0, "issue 3201")
            .judged(Judge::Within(2.0))
            .fitted(true),
        Figure::new("each of two", "reads/s", reads("2: bucket", "other"))
            .published(1_400.0, "issue 3201")
            .judged(Judge::Within(5.0))
            .fitted(true),
        Figure::new("each of two by one alone", "", beside("2: bucket", "one"))
            .published(1.0 / 17.0, "issue 3201: 17x")
            .judged(Judge::Within(10.0))
            .fitted(true),
        Figure::new("gate: one shard by one without a door", "", beside("1: gate", "one"))
            .judged(same),
        Figure::new("gate: the first of two", "", beside("2: gate", "one")).judged(same),
        Figure::new("gate: the second of two", "", beside("2: gate", "other")).judged(same),
    ]
}

fn conclude(results: &Results) -> Vec<String> {
    let [Some(bucket), Some(gate)] =
        ["2: bucket", "2: gate"].map(|run| results.number(run, "one IOPS"))
    else {
        return Vec::new();
    };
    vec![format!("Behind the gate a shard of two has {:.1} times as many reads.", gate / bucket)]
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! gate-agentenv: a sandbox that is alone on its host does not get the host's budget.
//!
//! Wanted is a budget of the host, of 200 MB/s, that goes to the sandboxes with work, by weight
//! (issue 47). The proposal has a token bucket for each sandbox (49): one alone has 111 MB/s of it,
//! two have 76 each. Without any limit a sandbox would have the drive, 1.8 GB/s.

use crate::reproduce::doors::{Client, Door, Doors};
use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Results, Run, Workload, of, parts, ratio,
};

const DRIVE: &str = r#"name = "host-drive"
model = "linear"
summary = "a host's drive of 1.8 GB/s"
valid = "writes of 256 KiB"

[facts]
capacity = { value = "256 GiB", source = "assumed" }
depth = { value = 64, source = "assumed" }
rotational = { value = false, source = "thread" }
max_sectors_kb = { value = 1280, source = "assumed" }
max_segments = { value = 128, source = "assumed" }
write_cache = { value = false, source = "assumed" }

[linear]
servers = { value = 1, source = "assumed: one stream fills it" }
base = { value = "0 us", source = "assumed" }
rate = { value = "1800 MB/s", source = "thread 49: 'from 1.8 GB/s baseline'" }

[host]
submit_cost = { value = "0 us", source = "assumed" }
"#;

const MB: u64 = 1_000_000;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "gate-agentenv",
        summary: "sandboxes with token buckets, by shares, and with a budget of the host",
        source: "kvcache-ai/AgentENV issue 47 and pull request 49 (28 July 2026)",
        notes: &[
            "The model of what was: a bucket of half the budget for each of two sandboxes, whether \
             the other wants something or not. It was read off the 111 MB/s and explains no more \
             than those: two have all 200 with it and not 152, and the thread does not say why.",
            "Judged of it, as fitted: one has 111 of 200, within 15 %. Judged of the gate, and \
             nothing of it was fitted: told nothing, one has 98 to 102 % of the drive, two have \
             their halves within two points and 97 to 103 % together; told one number, a cap of \
             200 MB/s on the host, one has it all, two have halves of it, and 80 % and 20 % with \
             weights of 400 and 100, all within 2 % or two points.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for count in [1, 2] {
        let gate = |weight, cap| Door::Gate { weights: vec![weight, 100], cap };
        for (name, door) in [
            ("open", Door::Open),
            ("buckets", Door::Buckets(vec![100 * MB, 100 * MB])),
            ("gate", gate(100, 0)),
            ("capped", gate(100, 200 * MB)),
            ("weighed", gate(400, 200 * MB)),
        ] {
            // The second wants more at a time, which is no reason to get more.
            let sandbox = |class| Client::reads(class, 4 + 12 * class).len(256 << 10).writes();
            let doors = Doors {
                experiment: "gate-agentenv",
                door,
                classes: &["one", "two"],
                clients: (0..count).map(sandbox).collect(),
                episode: None,
                times: [3_000, 5_000],
            };
            let device = Device::File { name: "host-drive".to_owned(), text: DRIVE.to_owned() };
            let name = format!("{count}: {name}");
            runs.push(Run::new(name, Workload::Doors(doors), device, "none"));
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let all = |run: &str| of(run, "all MB/s");
    let share = |run: &str| of(run, "one share %");
    let before = vec![
        Figure::new("one of 200", "", ratio(all("1: buckets"), all("1: capped")))
            .published(111.0 / 200.0, "pull request 49: 111 MB/s of 200")
            .fitted(true),
        Figure::new("two of 200", "", ratio(all("2: buckets"), all("2: capped")))
            .published(152.0 / 200.0, "pull request 49: 152 MB/s of 200"),
        Figure::new("two, share of the first", "%", share("2: buckets"))
            .published(50.0, "pull request 49: 76 MB/s each")
            .judged(Judge::Within(4.0)),
        Figure::new("two without a door, share of the first", "%", share("2: open")),
    ];
    let gate = vec![
        Figure::new("gate: one, of the drive", "", ratio(all("1: gate"), all("1: open")))
            .judged(Judge::Between(0.98, 1.02)),
        Figure::new("gate: two, of the drive", "", ratio(all("2: gate"), all("2: open")))
            .judged(Judge::Between(0.97, 1.03)),
        Figure::new("gate: two, share of the first", "%", share("2: gate"))
            .judged(Judge::Between(48.0, 52.0)),
    ];
    let budget = Judge::Between(196.0, 204.0);
    let capped = vec![
        Figure::new("host of 200: one", "MB/s", all("1: capped")).judged(budget),
        Figure::new("host of 200: two", "MB/s", all("2: capped")).judged(budget),
        Figure::new("host of 200: share of the first", "%", share("2: capped"))
            .judged(Judge::Between(48.0, 52.0)),
        Figure::new("host of 200: share of one of weight 400", "%", share("2: weighed"))
            .judged(Judge::Between(78.0, 82.0)),
        Figure::new("host of 200: two, 400 and 100", "MB/s", all("2: weighed")).judged(budget),
    ];
    parts(vec![before, gate, capped])
}

fn conclude(results: &Results) -> Vec<String> {
    let all = |run: &str| results.number(run, "all MB/s");
    let [Some(bucket), Some(gate), Some(capped)] = ["1: buckets", "1: gate", "1: capped"].map(all)
    else {
        return Vec::new();
    };
    vec![format!(
        "One sandbox has {bucket:.0} MB/s by its bucket, {gate:.0} behind the gate, and \
         {capped:.0} with a budget of 200 for the host."
    )]
}

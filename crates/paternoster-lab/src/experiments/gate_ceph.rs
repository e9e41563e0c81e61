// SPDX-License-Identifier: MIT OR Apache-2.0
//! gate-ceph: one client against 1, 4, 16 sessions of another, and the effect of counting sessions.
//!
//! Ceph's OSD takes ops from a queue that goes round the sessions (wpq), or has all clients in one
//! class (mclock): the victim's part is 1 / (K + 1). A proportional-share scheduler was proposed.
//! Its authors' model is a device of 100 MB/s without a seek cost, and they want a test on a disk;
//! both are here.

use crate::reproduce::doors::{Client, Door, Doors};
use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

const FANS: [(usize, f64); 3] = [(1, 50.0), (4, 20.0), (16, 5.9)];
/// A half, in per cent, within two points.
const HALF: Judge = Judge::Between(48.0, 52.0);

/// 100 MB/s, one at a time, at any position.
const PACED: &str = r#"name = "paced"
model = "linear"
summary = "100 MB/s without a cost of place, as the thread's tier 1"
valid = "what the thread says of it"

[facts]
capacity = { value = "64 GiB", source = "assumed" }
depth = { value = 1, source = "thread: dequeues are paced at a device rate" }
rotational = { value = false, source = "thread: no seek penalty" }
max_sectors_kb = { value = 1280, source = "assumed" }
max_segments = { value = 128, source = "assumed" }
write_cache = { value = false, source = "assumed" }

[linear]
servers = { value = 1, source = "thread: dequeues are paced" }
base = { value = "0 us", source = "thread: a rate, and nothing else" }
rate = { value = "100 MB/s", source = "thread: '100 MB/s simulated'" }

[host]
submit_cost = { value = "0 us", source = "assumed" }
"#;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "gate-ceph",
        summary: "one client beside 1, 4, 16 sessions, by sessions and behind the gate",
        source: "ceph/ceph pull request 70627 (28 July 2026) and 70798 (3 August 2026)",
        notes: &[
            "The model of what was: ops are taken from the sessions in turn, one at a time, which \
             is how wpq shares; mclock's published parts (50.3, 20.1, 6.7) are the same but for a \
             point. Sizes and depths are not published: 64 KiB, 16 at a time for each session.",
            "Judged: the published parts within 2 %; behind the gate, which is told nothing, the \
             victim's half within two points, both ways, and at least 97 % of what all do without \
             a door.",
            "On hdd-7200, which the authors ask for, 4 KiB at random places; nothing is published.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn clients(fan: usize, len: u64) -> Vec<Client> {
    let session = |class| Client::reads(class, 16).len(len);
    std::iter::once(session(0)).chain((0..fan).map(|_| session(1))).collect()
}

fn runs() -> Vec<Run> {
    let paced = || Device::File { name: "paced".to_owned(), text: PACED.to_owned() };
    let mut runs = Vec::new();
    for (fan, _) in FANS {
        let gate = Door::Gate { weights: vec![100, 100], cap: 0 };
        for (name, door) in [("sessions", Door::Sessions), ("gate", gate), ("open", Door::Open)] {
            for (place, device, len, times) in [
                ("paced", paced(), 64 << 10, [5_000, 20_000]),
                ("hdd-7200", Device::Named("hdd-7200"), 4096, [60_000, 120_000]),
            ] {
                let doors = Doors {
                    experiment: "gate-ceph",
                    door: door.clone(),
                    classes: &["victim", "others"],
                    clients: clients(fan, len),
                    episode: None,
                    times,
                };
                let name = format!("{place}, {fan}: {name}");
                runs.push(Run::new(name, Workload::Doors(doors), device, "none"));
            }
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let share = |run: &str| of(run, "victim share %");
    let mut all = Vec::new();
    for place in ["paced", "hdd-7200"] {
        let mut part = Vec::new();
        for (fan, published) in FANS {
            let [before, gate, open] =
                ["sessions", "gate", "open"].map(|door| format!("{place}, {fan}: {door}"));
            let figure = Figure::new(before.clone(), "%", share(&before));
            part.push(match place {
                "paced" => figure.published(published, "70798, wpq").judged(Judge::Within(2.0)),
                _ => figure,
            });
            part.push(Figure::new(gate.clone(), "%", share(&gate)).judged(HALF));
            let total = ratio(of(&*gate, "all MB/s"), of(&*open, "all MB/s"));
            let label = format!("{gate}, of what all do without a door");
            part.push(Figure::new(label, "", total).judged(Judge::AtLeast(0.97)));
        }
        all.push(part);
    }
    parts(all)
}

fn conclude(results: &Results) -> Vec<String> {
    let least = |door: &str| {
        let of_fan = |(fan, _)| of(format!("paced, {fan}: {door}"), "victim share %");
        results.value(&Quantity::Least(FANS.map(of_fan).to_vec()))
    };
    let (Some(sessions), Some(gate)) = (least("sessions"), least("gate")) else {
        return Vec::new();
    };
    vec![format!(
        "The victim has at least {sessions:.1} % by sessions, and {gate:.1} % by the gate."
    )]
}

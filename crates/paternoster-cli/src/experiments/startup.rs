// SPDX-License-Identifier: MIT OR Apache-2.0
//! startup: how long does a program take to start on a busy device, under each scheduler?
//!
//! The start is that of gnome-terminal: some 2,800 requests, 21 MB, 15 % of them at random, most
//! of which wait for the one before. Beside it are ten readers, or five readers and five writers,
//! who always have something to do. Whoever serves all alike gives it an eleventh of the device,
//! after ten others each time.

use paternoster::{Nanos, elevators};
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::startup::profile::by_name;

use crate::reproduce::experiment::{Device, Experiment, Figure, Results, Run, Workload, of, parts};

/// A start counts as near to that on an idle device up to so many times its time.
const NEAR: f64 = 1.2;

/// On what, beside whom.
#[derive(Debug, Clone, Copy)]
struct Scene {
    name: &'static str,
    device: &'static str,
    readers: u32,
    writers: u32,
    /// Until readers and writers have started themselves.
    warmup: Nanos,
    limit: Nanos,
}

const SCENES: [Scene; 3] = [
    Scene {
        name: "disk, 10 readers",
        device: "hdd-7200",
        readers: 10,
        writers: 0,
        warmup: Nanos::from_secs(12),
        limit: Nanos::from_secs(60),
    },
    Scene {
        name: "disk, 5 readers, 5 writers",
        device: "hdd-7200",
        readers: 5,
        writers: 5,
        warmup: Nanos::from_secs(12),
        limit: Nanos::from_secs(60),
    },
    Scene {
        name: "flash, 10 readers",
        device: "ssd-870evo",
        readers: 10,
        writers: 0,
        warmup: Nanos::from_secs(5),
        limit: Nanos::from_secs(10),
    },
];

/// What a user of the S suite had with ten readers, in seconds; his device is not named.
const PUBLISHED: [(&str, f64); 4] =
    [("noop", 2.110), ("mq-deadline", 2.176), ("kyber", 2.181), ("bfq", 0.736)];
const SOURCE: &str = "Algodev-github/S, issue 2: gnome-terminal, 10 sequential readers";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "startup",
        summary: "gnome-terminal starts beside readers and writers, under every scheduler",
        source: "seed 004 and the S suite (comm_startup_lat); figures are a user's, of 10 readers",
        notes: &[
            "2779 requests, 21.0 MB, 14.5 % at random, 851 waited for one by one; readers and \
             writers are sequential and buffered; hz=250, medians of two starts. They run for 12 s \
             before, on flash for 5: until bfq raises them no more.",
            "A start that takes longer than 60 s (on flash 10 s) is given up. `others` is what the \
             device reads and writes for them meanwhile.",
            "The published figures are for a device that is not named; ssd-870evo stands beside \
             them because its recording alone was fitted to it. Nothing is judged.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn name(scene: Scene, scheduler: &str) -> String {
    format!("{}: {scheduler}", scene.name)
}

fn runs() -> Vec<Run> {
    let profile = by_name("gnome-terminal").expect("a profile of ours");
    let run = |scene: Scene, scheduler: &'static str| {
        let Scene { device, readers, writers, warmup, limit, .. } = scene;
        let startup = Startup { readers, writers, warmup, limit, ..Startup::new(profile) };
        let workload = Workload::Startup { startup, repeat: 2 };
        let run = Run::new(name(scene, scheduler), workload, Device::Named(device), scheduler);
        run.set(&["hz=250"])
    };
    let all = |scene| elevators::ALL.iter().map(move |entry| run(scene, entry.name));
    SCENES.into_iter().flat_map(all).collect()
}

fn figures() -> Vec<Figure> {
    let of_scene = |scene: Scene| {
        let alone = of(name(scene, elevators::ALL[0].name), "alone s");
        let mut figures = vec![Figure::new(format!("{}: alone", scene.name), "s", alone)];
        for entry in elevators::ALL {
            let run = name(scene, entry.name);
            let time = Figure::new(run.clone(), "s", of(&run, "median s"));
            let published = PUBLISHED.iter().find(|(name, _)| *name == entry.name);
            figures.push(match published {
                Some((_, seconds)) if scene.device == "ssd-870evo" => {
                    time.published(*seconds, SOURCE)
                }
                _ => time,
            });
            figures.push(Figure::new(format!("{run}, others"), "MB/s", of(run, "others MB/s")));
        }
        figures
    };
    parts(SCENES.map(of_scene).to_vec())
}

fn conclude(results: &Results) -> Vec<String> {
    let tell = |scene: Scene| {
        let slowdown = |scheduler: &str| results.number(&name(scene, scheduler), "by alone");
        let near: Vec<&str> = elevators::ALL
            .iter()
            .map(|entry| entry.name)
            .filter(|name| slowdown(name).is_some_and(|by| by <= NEAR))
            .collect();
        let near = if near.is_empty() { "nobody".to_owned() } else { near.join(", ") };
        let best = elevators::ALL.iter().filter_map(|entry| Some((slowdown(entry.name)?, entry)));
        let best = best.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let best = best.map_or(String::new(), |(by, entry)| {
            format!("; best is {} with {by:.2} times", entry.name)
        });
        format!("{}: within {NEAR} times the time alone {near}{best}.", scene.name)
    };
    SCENES.map(tell).to_vec()
}

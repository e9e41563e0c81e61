// SPDX-License-Identifier: MIT OR Apache-2.0
//! startup: how long does a program take to start on a busy device, under each scheduler?
//!
//! The start is that of gnome-terminal: some 2,800 requests, 21 MB, 15 % of them at random, most of
//! which wait for the one before. It competes with ten readers, or five readers and five writers,
//! which always have work. A scheduler that treats all alike gives it an eleventh of the device,
//! and serves ten others between any two of its requests.
//!
//! Can a start be as fast as on an idle device while the others lose nothing? Not on a disk, which
//! a start alone keeps busy all the time. On a drive with many channels it depends on how many of
//! the others' commands are ahead of each of the program's; that number is varied. paternoster is
//! judged where both are possible.

use paternoster_core::Nanos;
use paternoster_sim::catalog;
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::startup::profile::by_name;

use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

/// A start that takes at most this many times as long as on an idle device counts as near to that.
const NEAR: f64 = 1.2;
/// How paternoster is judged, where the device allows both: a start's time divided by that alone,
/// and what the others get, in per cent of what they get under noop.
const SLOWDOWN_MOST: f64 = 1.25;
const OTHERS_LEAST: f64 = 90.0;

/// A device, and the load on it.
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

const SCENES: [Scene; 4] = [
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
    FLASH,
    NVME,
];

const FLASH: Scene = Scene {
    name: "flash, 10 readers",
    device: "ssd-870evo",
    readers: 10,
    writers: 0,
    warmup: Nanos::from_secs(5),
    limit: Nanos::from_secs(10),
};
const NVME: Scene =
    Scene { name: "NVMe, 10 readers", device: "nvme-pm9a3", warmup: Nanos::from_secs(2), ..FLASH };
const NVME_SCHEDULERS: [&str; 4] = ["noop", "mq-deadline", "bfq", "paternoster"];
/// Commands that the flash drive is allowed at a time, of 32.
const DEPTHS: [u32; 5] = [1, 2, 4, 8, 16];
const FLASH_DEPTH: &str = "depth = { value = 32";

/// What a user of the S suite measured with ten readers, in seconds; the device is not named.
const PUBLISHED: [(&str, f64); 4] =
    [("noop", 2.110), ("mq-deadline", 2.176), ("kyber", 2.181), ("bfq", 0.736)];
const SOURCE: &str = "Algodev-github/S, issue 2: gnome-terminal, 10 sequential readers";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "startup",
        summary: "gnome-terminal starts beside readers and writers, under every scheduler",
        source: "Paolo Valente, 20 December 2017, and the S suite (comm_startup_lat); figures are \
                 a user's, of 10 readers",
        notes: &[
            "2779 requests, 21.0 MB, 14.5 % at random, 851 waited for one by one; readers and \
             writers are sequential and buffered; hz=250, medians of two starts. They run for 12 s \
             before, on flash for 5: until bfq raises them no more.",
            "A start that takes longer than 60 s (on flash 10 s) is given up. `others` is what the \
             device reads and writes for them meanwhile.",
            "The published figures are for a device that is not named; ssd-870evo stands beside \
             them because its recording alone was fitted to it.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

/// The schedulers for a scene: all of them, except where each run takes a second.
fn schedulers(scene: Scene) -> impl Iterator<Item = &'static str> {
    let few = scene.name == NVME.name;
    let all = paternoster_schedulers::ALL.iter().map(|entry| entry.name);
    all.filter(move |name| !few || NVME_SCHEDULERS.contains(name))
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
    let all = |scene| schedulers(scene).map(move |name| run(scene, name));
    let mut runs: Vec<Run> = SCENES.into_iter().flat_map(all).collect();
    for depth in DEPTHS {
        let shallow = format!("depth = {{ value = {depth}");
        let text = catalog::SSD_870EVO.replace(FLASH_DEPTH, &shallow);
        let device = Device::File { name: format!("ssd-870evo-{depth}"), text };
        let swept = run(FLASH, "paternoster");
        let swept = Run { name: swept_name(depth), device, ..swept };
        runs.push(swept.set(&["nr_requests=256"]));
    }
    runs
}

fn swept_name(depth: u32) -> String {
    format!("{}, {depth} at a time: paternoster", FLASH.name)
}

/// What the others of a scene get, divided by what they get under noop, in per cent.
fn kept(run: String, scene: Scene) -> Quantity {
    let others = |run| of(run, "others MB/s");
    Quantity::Scaled(Box::new(ratio(others(run), others(name(scene, "noop")))), 100.0)
}

/// For one scheduler: a start's time divided by that alone, and what the others get.
fn both(run: &str, scene: Scene) -> [Figure; 2] {
    [
        Figure::new(format!("{run}, by alone"), "", of(run, "by alone")),
        Figure::new(format!("{run}, others by noop's"), "%", kept(run.to_owned(), scene)),
    ]
}

fn judged() -> Vec<Figure> {
    let [slowdown, others] = both(&name(NVME, "paternoster"), NVME);
    let least = Judge::AtLeast(OTHERS_LEAST);
    vec![slowdown.judged(Judge::Between(0.0, SLOWDOWN_MOST)), others.judged(least)]
}

/// What `paternoster` did meanwhile: its trials, their results, how long it kept a slot.
fn learning() -> Vec<Figure> {
    let row = |scene: Scene| {
        let run = name(scene, "paternoster");
        ["probes", "changes", "seats", "kept_us"].map(|what| {
            let unit = if what == "kept_us" { "us" } else { "" };
            Figure::new(format!("{run}, {what}"), unit, of(&run, what))
        })
    };
    SCENES.into_iter().flat_map(row).collect()
}

fn sweep() -> Vec<Figure> {
    let runs = DEPTHS.map(swept_name).into_iter().chain([name(FLASH, "paternoster")]);
    runs.flat_map(|run| both(&run, FLASH)).collect()
}

fn figures() -> Vec<Figure> {
    let of_scene = |scene: Scene| {
        let alone = of(name(scene, paternoster_schedulers::ALL[0].name), "alone s");
        let mut figures = vec![Figure::new(format!("{}: alone", scene.name), "s", alone)];
        for scheduler in schedulers(scene) {
            let run = name(scene, scheduler);
            let time = Figure::new(run.clone(), "s", of(&run, "median s"));
            let published = PUBLISHED.iter().find(|(name, _)| *name == scheduler);
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
    let scenes = SCENES.map(of_scene).into_iter();
    parts(scenes.chain([sweep(), learning(), judged()]).collect())
}

fn conclude(results: &Results) -> Vec<String> {
    let tell = |scene: Scene| {
        let slowdown = |scheduler: &str| results.number(&name(scene, scheduler), "by alone");
        let near = schedulers(scene).filter(|name| slowdown(name).is_some_and(|by| by <= NEAR));
        let near: Vec<&str> = near.collect();
        let near = if near.is_empty() { "nobody".to_owned() } else { near.join(", ") };
        let best = schedulers(scene).filter_map(|name| Some((slowdown(name)?, name)));
        let best = best.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let best =
            best.map_or(String::new(), |(by, name)| format!("; best is {name} with {by:.2} times"));
        format!("{}: within {NEAR} times the time alone {near}{best}.", scene.name)
    };
    let mut told = SCENES.map(tell).to_vec();
    let both = |depth: &u32| {
        let run = swept_name(*depth);
        let slowdown = results.number(&run, "by alone").unwrap_or(f64::INFINITY);
        let others = results.value(&kept(run, FLASH)).unwrap_or(0.0);
        slowdown <= SLOWDOWN_MOST && others >= OTHERS_LEAST
    };
    let found = DEPTHS.iter().find(|depth| both(depth));
    told.push(match found {
        None => "The flash drive allows not both, at whatever depth.".to_owned(),
        Some(depth) => format!("The flash drive allows both with {depth} commands at a time."),
    });
    told
}

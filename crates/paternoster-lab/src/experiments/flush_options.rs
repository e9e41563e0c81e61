// SPDX-License-Identifier: MIT OR Apache-2.0
//! flush-options: which ideas from seed 003's discussion are worth having, and where.
//!
//! The discussion has more ideas than the patch: hold writes where the device can queue a flush (T.
//! Heo), let no flush out while other commands are in the device (T. Heo), wait a little for others
//! to share it (V. Goyal), skip a flush when nothing was written (T. Heo). All of them are
//! attributes; here they are compared on every model with a volatile cache, and on two that could
//! queue a flush but in reality do not.
//!
//! The default must be the best result that one setting can give everywhere. Each cell is a rate
//! divided by the best of its row; the judged figure is the mean of a setting's cells.

use paternoster_core::Nanos;
use paternoster_sim::catalog;
use paternoster_workload::builtin::sysbench::{Mode, Sysbench};

use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

/// A disk writes some hundred times a second, flash tens of thousands.
const TIME: Nanos = Nanos::from_secs(20);
const TIME_ON_FLASH: Nanos = Nanos::from_secs(5);
const THREADS: [u32; 3] = [1, 8, 32];

/// Word and attributes.
type Setting = (&'static str, &'static [&'static str]);

const OFF: Setting = ("nothing", &["flush_hold=off", "flush_elide=0"]);
const HOLD: Setting = ("hold", &["flush_elide=0"]);
const WRITES: Setting = ("hold writes", &["flush_hold=writes", "flush_elide=0"]);
const DRAIN: Setting = ("hold, drain", &["flush_drain=1", "flush_elide=0"]);
const DELAY: Setting = ("hold, delay 1 ms", &["flush_delay=1000", "flush_elide=0"]);
const ELIDE: Setting = ("hold, elide", &["flush_elide=1"]);
const ALL: Setting = ("hold writes, elide", &["flush_hold=writes", "flush_elide=1"]);
const BOTH: Setting = ("hold, elide, delay 1 ms", &["flush_delay=1000", "flush_elide=1"]);
const HERE: Setting = ("here", &[]);
const SETTINGS: [Setting; 9] = [OFF, HOLD, WRITES, DRAIN, DELAY, ELIDE, ALL, BOTH, HERE];

const DEVICES: [&str; 8] = [
    "hdd-7200",
    "hdd-7200-enterprise",
    "ssd-870evo",
    "ssd-pm883",
    "ssd-px256m5s",
    "nvme-kc3000",
    "hdd-7200-queueing",
    "ssd-870evo-queueing",
];

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "flush-options",
        summary: "what to hold, drain, delay and elide: every device with a cache, each idea",
        source: "our own, after the discussion of May 2011",
        notes: &[
            "sysbench fileio rndwr with its defaults and 1, 8 and 32 threads, 20 s on disks and \
             5 s on flash; cfq, hz=250, flush_owners=0. `by best` is of the settings on the same \
             device with the same threads. `queueing`: the model told that it can queue a flush \
             beside others.",
            "`here`, when nothing is said: hold everything where a flush cannot be queued, and no \
             command for a flush of a clean cache. It is `hold, elide` by another way.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for device in DEVICES {
        for threads in THREADS {
            for setting in &SETTINGS {
                runs.push(run(device, threads, setting));
            }
        }
    }
    runs
}

fn name(device: &str, threads: u32, setting: &Setting) -> String {
    format!("{device}, {threads} threads, {}", setting.0)
}

fn run(device: &'static str, threads: u32, setting: &Setting) -> Run {
    let plain = Sysbench::new(Mode::RandomWrite);
    let time = if device.starts_with("hdd") { TIME } else { TIME_ON_FLASH };
    let sysbench = Sysbench { threads, time: Some(time), sync_end: false, ..plain };
    let name = name(device, threads, setting);
    let run = Run::new(name, Workload::Sysbench(sysbench), model(device), "cfq");
    run.set(&["hz=250", "flush_owners=0"]).set(setting.1)
}

fn model(name: &'static str) -> Device {
    match name {
        "hdd-7200-queueing" => Device::queueing_flushes(name, catalog::HDD_7200),
        "ssd-870evo-queueing" => Device::queueing_flushes(name, catalog::SSD_870EVO),
        _ => Device::Named(name),
    }
}

fn by_best(device: &str, threads: u32, setting: &Setting) -> Quantity {
    let rate = |setting: &Setting| of(name(device, threads, setting), "writes/s");
    let best = Quantity::Largest(SETTINGS.iter().map(rate).collect());
    Quantity::Scaled(Box::new(ratio(rate(setting), best)), 100.0)
}

fn mean(setting: &Setting) -> Quantity {
    let cells: Vec<Quantity> = DEVICES
        .iter()
        .flat_map(|device| THREADS.map(|threads| by_best(device, threads, setting)))
        .collect();
    let count = u32::try_from(cells.len()).unwrap_or(1);
    Quantity::Scaled(Box::new(Quantity::Sum(cells)), 1.0 / f64::from(count))
}

fn figures() -> Vec<Figure> {
    let best = Quantity::Largest(SETTINGS.iter().map(mean).collect());
    let by = Quantity::Scaled(Box::new(ratio(mean(&HERE), best)), 100.0);
    let first = Figure::new("here, by the best mean", "%", by).judged(Judge::AtLeast(100.0));
    let means = SETTINGS.iter().map(|setting| {
        Figure::new(format!("mean of all, {}", setting.0), "% of best", mean(setting))
    });
    let mut all = vec![std::iter::once(first).chain(means).collect()];
    for device in DEVICES {
        for threads in THREADS {
            let cell = |setting: &Setting| {
                let label = name(device, threads, setting);
                Figure::new(label, "% of best", by_best(device, threads, setting))
            };
            all.push(SETTINGS.iter().map(cell).collect());
        }
    }
    parts(all)
}

fn conclude(results: &Results) -> Vec<String> {
    let means =
        SETTINGS.iter().filter_map(|setting| Some((setting.0, results.value(&mean(setting))?)));
    let known: Vec<(&str, f64)> = means.filter(|(word, _)| *word != HERE.0).collect();
    let Some((word, mean)) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Vec::new();
    };
    vec![format!("With one setting everywhere `{word}` has most, {mean:.1} % of each cell's best.")]
}

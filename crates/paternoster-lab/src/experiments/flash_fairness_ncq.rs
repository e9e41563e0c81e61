// SPDX-License-Identifier: MIT OR Apache-2.0
//! flash-fairness-ncq: the guess of seed 000, measured.
//!
//! Asked what the size rule does on flash that queues commands, its author, Corrado Zoccolo, had
//! not tested it: "I think at worst it will not harm, and at best, it will provide similar fairness
//! improvements when the queue of processes submitting requests grows above the available NCQ
//! slots." Here the same card gets 4 to 32 servers and as many slots; one small and one large
//! reader represent few submitters, 32 of each more than the slots.
//!
//! ```text
//! harm   total bandwidth or Jain's index of device time falls by more than 2 %
//! help   Jain's index rises by more than 2 %
//! ```

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Results, Run, Workload, difference, of, parts,
};

const PATH: &str = "jobs/ncq-readers.fio";
const JOBS: &str = include_str!("../../jobs/ncq-readers.fio");

const SERVERS: [u32; 4] = [4, 8, 16, 32];
/// Readers of 4 KiB, and as many of 64 KiB.
const READERS: [(&str, u32); 2] = [("2", 1), ("64", 32)];
const SCHEDULERS: [(&str, &str); 3] =
    [("noop", "noop"), ("mean", "cfq:seek_detection=mean"), ("size", "cfq:seek_detection=size")];
/// The largest change that counts as none, in per cent.
const NOTHING: f64 = 2.0;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "flash-fairness-ncq",
        summary: "does the size rule harm or help on flash that queues? an open guess of 2010",
        source: "Corrado Zoccolo, linux-kernel, 3 March 2010 (\"not tested on NCQ SSD\")",
        notes: &[
            "No figures were published. The device is flash-card-2010's line (1.116 ms + 46.04 \
             us/KiB) with 4 to 32 servers and as many slots.",
            "2 readers are one of 4 KiB and one of 64 KiB; 64 readers are 32 of each. Small share \
             is the part of the 4 KiB readers in the device time; Jain is over all readers.",
            "ncq=declared: CFQ is told that the device queues. It waits for a request of a queue \
             that is alone in its tree (CFQ-65): under the size rule small and large readers sit \
             in two trees, so that two readers are served one after the other.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn name(scheduler: &str, servers: u32, readers: &str) -> String {
    format!("{scheduler}, {servers} servers, {readers} readers")
}

fn device(servers: u32) -> Device {
    let text = format!(
        r#"name = "flash-ncq-{servers}"
model = "linear"
summary = "flash-card-2010 with {servers} servers and as many slots"
valid = "a thought experiment: real flash shares a link and has planes"
[facts]
capacity = {{ value = "4 GiB", source = "flash-card-2010" }}
depth = {{ value = {servers}, source = "one slot for each server" }}
rotational = {{ value = false, source = "flash" }}
max_sectors_kb = {{ value = 512, source = "flash-card-2010" }}
[linear]
servers = {{ value = {servers}, source = "the question of this experiment" }}
base = {{ value = "1.116 ms", source = "flash-card-2010" }}
rate = {{ value = "46.04 us/KiB", source = "flash-card-2010" }}
"#
    );
    Device::File { name: format!("flash-ncq-{servers}"), text }
}

/// Every pair of servers and readers, in the order of the table.
fn places() -> impl Iterator<Item = (u32, &'static str, u32)> {
    let of = |(word, clones)| SERVERS.map(|servers| (servers, word, clones));
    READERS.into_iter().flat_map(of)
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (servers, word, clones) in places() {
        for (label, scheduler) in SCHEDULERS {
            let jobs = FioJobs::new(PATH, JOBS).option("numjobs", clones);
            let workload = Workload::Fio(jobs);
            let run = Run::new(name(label, servers, word), workload, device(servers), scheduler);
            runs.push(run.set(&["hz=1000"]));
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let mut all = Vec::new();
    for (servers, word, _) in places() {
        let mut figures = Vec::new();
        for (label, _) in SCHEDULERS {
            let run = name(label, servers, word);
            for (what, unit, measured) in [
                ("small share", "%", "small device time %"),
                ("Jain", "", "section 0 Jain"),
                ("total", "kB/s", "section 0 kB/s"),
            ] {
                figures.push(Figure::new(format!("{run}: {what}"), unit, of(&run, measured)));
            }
        }
        all.push(figures);
    }
    parts(all)
}

/// How much the size rule changes Jain's index and the bandwidth, in per cent.
struct Change {
    servers: u32,
    jain: f64,
    bandwidth: f64,
}

impl Change {
    fn of(results: &Results, servers: u32, readers: &str) -> Option<Change> {
        let change = |what: &str| {
            let of = |rule: &str| results.number(&name(rule, servers, readers), what);
            Some(difference(of("size")?, of("mean")?))
        };
        let (jain, bandwidth) = (change("section 0 Jain")?, change("section 0 kB/s")?);
        Some(Change { servers, jain, bandwidth })
    }

    fn harms(&self) -> bool {
        self.jain.min(self.bandwidth) < -NOTHING
    }

    fn helps(&self) -> bool {
        self.jain > NOTHING
    }

    fn words(&self) -> String {
        let word = match (self.harms(), self.helps()) {
            (false, false) => "nothing",
            (true, false) => "harms",
            (false, true) => "helps",
            (true, true) => "evens shares at a price",
        };
        let Change { servers, jain, bandwidth } = self;
        format!("{servers} servers {word} (Jain {jain:+.1} %, bandwidth {bandwidth:+.1} %)")
    }
}

fn conclude(results: &Results) -> Vec<String> {
    let of = |readers: &str| -> Option<Vec<Change>> {
        SERVERS.iter().map(|&servers| Change::of(results, servers, readers)).collect()
    };
    let (Some(few), Some(many)) = (of("2"), of("64")) else { return Vec::new() };
    let told = |changes: &[Change]| -> String {
        changes.iter().map(Change::words).collect::<Vec<_>>().join(", ")
    };
    let all = few.len() + many.len();
    let harm = few.iter().chain(&many).filter(|change| change.harms()).count();
    let help = many.iter().filter(|change| change.helps()).count();
    let holds = |holds: bool| if holds { "holds" } else { "does not hold" };
    vec![
        format!("The size rule beside the old one, 2 readers: {}.", told(&few)),
        format!("64 readers: {}.", told(&many)),
        format!(
            "\"At worst it will not harm\" {}: it harms in {harm} of {all} places. That it evens \
             shares once submitters exceed the slots {}: it does so in {help} of {} places.",
            holds(harm == 0),
            holds(help == many.len()),
            many.len()
        ),
    ]
}

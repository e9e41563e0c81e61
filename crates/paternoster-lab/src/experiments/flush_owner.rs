// SPDX-License-Identifier: MIT OR Apache-2.0
//! flush-owner: who pays for a flush? A random reader and a writer that makes each write durable.
//!
//! No publication shows a solution; published is the problem: one writer with fsync takes a
//! consumer SATA drive away from all others. That was on NTFS, which writes blocks of its own
//! before each flush; while it does, the reader has time for a second read:
//!
//! ```text
//! 850 EVO, us      0        103       206               3 250
//! reader           | read    | read    | waits            |
//! writer           |w|m|m|m| waits     |==== flush =======|      w: 31 us; m: metadata, 31 each
//! ```
//!
//! Every other elevator divides requests or their time
//! and charges a flush to no client. Here it is charged to the writer, which comes back when the
//! reader has had as much device time.
//!
//! # What an ideal division gives
//! Alone, a read takes the device for d and comes every d + g. If the writer is to have k times the
//! reader's device time, and the reader loses nothing else, a read comes every d + g + k d:
//!
//! ```text
//! 870 EVO: d + g = 80 us (12 460 reads/s), d = 77      k = 1     (d + g) / (d + g + d)   = 51 %
//!                                                      k = 1/9                           = 90 %
//! ```

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

const JOBS: FioJobs =
    FioJobs::new("jobs/flush-owner.fio", include_str!("../../jobs/flush-owner.fio"));

/// Word, scheduler, attributes.
type Who = (&'static str, &'static str, &'static [&'static str]);

const OWNED: Who = ("bfq, owned", "bfq", &[]);
const UNOWNED: Who = ("bfq, not owned", "bfq", &["flush_owners=0"]);
const CFQ: Who = ("cfq, owned", "cfq:group_isolation=1", &[]);
const CFQ_UNOWNED: Who = ("cfq, not owned", "cfq:group_isolation=1", &["flush_owners=0"]);
const NONE: Who = ("none", "none", &[]);
const PATERNOSTER: Who = ("paternoster", "paternoster", &[]);
const ALL: [Who; 6] = [NONE, UNOWNED, OWNED, CFQ_UNOWNED, CFQ, PATERNOSTER];

/// Jobs that run together, the reader first; and the writer's weight relative to the reader's.
struct Pair {
    word: &'static str,
    jobs: &'static [&'static str],
    device: &'static str,
    solo: &'static str,
}

const EQUAL: Pair =
    Pair { word: "1:1", jobs: &["reader", "writer"], device: "ssd-870evo", solo: "reader alone" };
const NINE: Pair = Pair { word: "9:1", jobs: &["reader-9", "writer-1"], ..EQUAL };
const DEEP: Pair =
    Pair { word: "32 deep", jobs: &["deep", "writer"], solo: "deep reader alone", ..EQUAL };
const FOUR: Pair =
    Pair { word: "four readers", jobs: &["four", "writer"], solo: "four alone", ..EQUAL };
const DISK: Pair =
    Pair { word: "on a disk", device: "hdd-7200", solo: "reader alone on a disk", ..EQUAL };
const PROTECTED: Pair = Pair {
    word: "on a drive with power-loss protection",
    device: "ssd-pm883",
    solo: "reader alone on that",
    ..EQUAL
};
const SHOWN: [Pair; 4] = [DEEP, FOUR, DISK, PROTECTED];

/// The drive that the published figures are of, as docs/own-device.md describes it from others.
const EVO_850: &str = include_str!("../../devices/ssd-850evo.toml");
const REAL_ALONE: &str = "850 EVO: reader alone";
const REAL_WRITER: &str = "850 EVO: writer alone";
const REAL: &str = "850 EVO: reader beside the writer";
/// A real 850 EVO's runs: name, sections.
const REAL_RUNS: [(&str, &[&str]); 3] =
    [(REAL_ALONE, &["reader"]), (REAL_WRITER, &["ntfs"]), (REAL, &["reader", "ntfs"])];
/// Writes of the file system and of the program before each flush.
const WRITES_A_FLUSH: f64 = 4.0;

const SOURCE: &str =
    "ublk-disksim README: a real 850 EVO, 10 700 reads/s and 612 beside the writer";
const WRITER_SOURCE: &str = "ublk-disksim, its validation, section 5: 315 to 320 writes with fsync";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "flush-owner",
        summary: "a random reader beside a writer with fsync, its flushes charged to it or not",
        source: "our own; published is only what happens without it (ublk-disksim README)",
        notes: &[
            "4 KiB, direct, depth 1 unless said otherwise; the writer calls fsync after each \
             write; 1 s of ramp and 10 s. `least` is of the whole seconds in them. Shares are of \
             device time; a flush is the writer's.",
            "Judged is our own goal on ssd-870evo under bfq and paternoster: the reader \
             keeps 50 % (85 % at 9:1), the writer has its weighted share of the device time in \
             every second, but for one flush that may fall into the next second (3.6 ms of 1 s).",
            "Published is a real 850 EVO on NTFS (first rows): described from six figures of \
             another one and its rate of writes with fsync, alone. NTFS writes three blocks before \
             a flush: on the same host's disk a flush takes 28 ms and 9.4 for each write, and 28 \
             / 9.4 is 3.0. Nothing was fitted to the reader.",
            "cfq with group_isolation=1: without it 2.6.3x serves random readers of all groups as \
             members of the root.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn runs() -> Vec<Run> {
    let real = |(name, sections): (&str, &'static [&'static str])| {
        let device = Device::File { name: "ssd-850evo".to_owned(), text: EVO_850.to_owned() };
        Run::new(name, Workload::Fio(FioJobs { sections, ..JOBS }), device, NONE.1)
    };
    let mut runs: Vec<Run> = REAL_RUNS.into_iter().map(real).collect();
    for pair in [&EQUAL, &NINE].into_iter().chain(&SHOWN) {
        if !runs.iter().any(|run: &Run| run.name == pair.solo) {
            runs.push(run(pair.solo, &pair.jobs[..1], pair.device, &OWNED));
        }
        runs.extend(ALL.iter().map(|who| run(&name(pair, who), pair.jobs, pair.device, who)));
    }
    runs
}

fn run(name: &str, sections: &'static [&'static str], device: &'static str, who: &Who) -> Run {
    let workload = Workload::Fio(FioJobs { sections, ..JOBS });
    Run::new(name, workload, Device::Named(device), who.1).set(who.2)
}

fn name(pair: &Pair, who: &Who) -> String {
    format!("{}, {}", pair.word, who.0)
}

fn figures() -> Vec<Figure> {
    let mut all = vec![published()];
    for who in [OWNED, PATERNOSTER] {
        all.extend([judged(&EQUAL, &who, 50.0, 50.0), judged(&NINE, &who, 85.0, 10.0)]);
    }
    all.extend([&EQUAL, &NINE].into_iter().chain(&SHOWN).map(shown));
    parts(all)
}

/// What the real drive does, as modelled.
fn published() -> Vec<Figure> {
    let [alone, beside] = [REAL_ALONE, REAL].map(|run| of(run, "reader IOPS"));
    let left = Quantity::Scaled(Box::new(ratio(beside.clone(), alone.clone())), 100.0);
    let writes = of(REAL_WRITER, "ntfs IOPS");
    let writes = Quantity::Scaled(Box::new(writes), WRITES_A_FLUSH.recip());
    vec![
        Figure::new(REAL_WRITER, "IOPS", writes).published(317.5, WRITER_SOURCE).fitted(true),
        Figure::new(REAL_ALONE, "IOPS", alone).published(10_700.0, SOURCE),
        Figure::new(REAL, "IOPS", beside).published(612.0, SOURCE),
        Figure::new("850 EVO: reader, of alone", "%", left).published(5.72, SOURCE),
    ]
}

/// The reader's rate divided by its rate alone.
fn kept(pair: &Pair, who: &Who) -> Quantity {
    let what = format!("{} IOPS", pair.jobs[0]);
    let solo = match pair.jobs[0] {
        "reader-9" => "reader IOPS",
        _ => &what,
    };
    ratio(of(name(pair, who), what.clone()), of(pair.solo, solo))
}

fn least_kept(pair: &Pair, who: &Who) -> Quantity {
    let what = format!("{} least IOPS", pair.jobs[0]);
    ratio(of(name(pair, who), what), of(pair.solo, "reader IOPS"))
}

fn judged(pair: &Pair, who: &Who, reader: f64, writer: f64) -> Vec<Figure> {
    let percent = |quantity: Quantity| Quantity::Scaled(Box::new(quantity), 100.0);
    let figure =
        |label: &str, quantity| Figure::new(format!("{}: {label}", name(pair, who)), "%", quantity);
    let share = of(name(pair, who), format!("{} least share %", pair.jobs[1]));
    vec![
        figure("reader, of alone", percent(kept(pair, who))).judged(Judge::AtLeast(reader)),
        figure("reader, least second, of alone", percent(least_kept(pair, who)))
            .judged(Judge::AtLeast(reader)),
        figure("writer, least share of a second", share).judged(Judge::AtLeast(writer - 0.4)),
    ]
}

fn shown(pair: &Pair) -> Vec<Figure> {
    let row = |who: &Who| {
        let figure = |label: &str, unit, what: String| {
            Figure::new(format!("{}: {label}", name(pair, who)), unit, of(name(pair, who), what))
        };
        [
            figure("reads", "IOPS", format!("{} IOPS", pair.jobs[0])),
            figure("writes with fsync", "IOPS", format!("{} IOPS", pair.jobs[1])),
            figure("writer's least share", "%", format!("{} least share %", pair.jobs[1])),
        ]
    };
    ALL.iter().flat_map(row).collect()
}

fn conclude(results: &Results) -> Vec<String> {
    let solo = |what: &str| results.number(EQUAL.solo, what);
    let (Some(rate), Some(share)) = (solo("reader IOPS"), busy(results)) else {
        return Vec::new();
    };
    let (every, taken) = (1e6 / rate, share * 1e6 / rate);
    let ideal = |writer: f64| 100.0 * every / (every + taken * writer);
    let mut told = vec![format!(
        "Alone a read comes every {every:.1} us and takes the device for {taken:.1} of them. An \
         ideal division by device time leaves the reader {:.1} % at 1:1 and {:.1} % at 9:1.",
        ideal(1.0),
        ideal(1.0 / 9.0)
    )];
    let kept = |pair: &Pair, who: &Who| Some(100.0 * results.value(&kept(pair, who))?);
    for (word, who) in [("bfq", &OWNED), ("paternoster", &PATERNOSTER)] {
        if let (Some(equal), Some(nine)) = (kept(&EQUAL, who), kept(&NINE, who)) {
            told.push(format!("Under {word} it has {equal:.1} and {nine:.1} %."));
        }
    }
    told
}

/// The part of the time in which a lone reader has the device.
fn busy(results: &Results) -> Option<f64> {
    Some(results.number(EQUAL.solo, "section 0 busy %")? / 100.0)
}

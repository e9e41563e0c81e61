// SPDX-License-Identifier: MIT OR Apache-2.0
//! array-readers: seed 001. 1 to 16 sequential readers on an HP EVA.
//!
//! CFQ gives the array to one reader at a time, and one reader cannot keep it busy: 130 MB/s
//! whatever their number, where noop goes up to 348. The thread tries remedies: no idling, one
//! shared queue for readers that fill the array better together (Zoccolo's patch with Goyal's
//! window), larger quantum and read-ahead, `rotational=0`.
//!
//! ```text
//! kB/s
//! 350 000 │                     noop, slice_idle=0
//!         │              ·
//! 180 000 │       ·             merged queues
//!         │    ·
//! 130 000 │ ·  ·  ·  ·  ·       cfq
//!           1  2  4  8  16 readers
//! ```
//!
//! On a disk with one arm merging must not cost more than a tenth of what plain CFQ gives (CFQ-52).

use super::arrays;
use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

const READERS: [u32; 5] = [1, 2, 4, 8, 16];
const DISK: Device = Device::Named("hdd-7200");

/// `bsr` with 4 KiB and 2 GB.
const FILES_4K: FioJobs =
    FioJobs::new("jobs/array-readers.fio", include_str!("../../jobs/array-readers.fio"));
/// `bsr` with 16 KiB and 1 GB.
const FILES_16K: FioJobs =
    FioJobs::new("jobs/array-readers-16k.fio", include_str!("../../jobs/array-readers-16k.fio"));

/// A scheduler and its published figures with 1, 2, 4, 8 and 16 readers.
struct Series {
    label: &'static str,
    scheduler: &'static str,
    jobs: FioJobs,
    /// kB/s.
    bandwidth: Option<[f64; 5]>,
    /// us.
    longest: Option<[f64; 5]>,
    source: &'static str,
    fitted: bool,
}

impl Series {
    const fn new(label: &'static str, scheduler: &'static str) -> Series {
        Series {
            label,
            scheduler,
            jobs: FILES_4K,
            bandwidth: None,
            longest: None,
            source: "",
            fitted: false,
        }
    }
}

fn series() -> Vec<Series> {
    vec![
        Series {
            bandwidth: Some([126_187.0, 185_154.0, 224_622.0, 285_416.0, 348_564.0]),
            longest: Some([95_272.0, 72_908.0, 88_037.0, 115_592.0, 156_846.0]),
            source: "bsr, iosched=noop, 22 April 2010",
            fitted: true,
            ..Series::new("noop", "noop")
        },
        Series {
            bandwidth: Some([135_366.0, 124_256.0, 132_921.0, 129_807.0, 129_988.0]),
            longest: Some([59_024.0, 126_808.0, 341_436.0, 392_904.0, 773_991.0]),
            source: "bsr, iosched=cfq, 22 April 2010",
            ..Series::new("cfq", "cfq")
        },
        Series::new("low_latency=0", "cfq:low_latency=0"),
        Series::new("slice_idle=0", "cfq:slice_idle=0"),
        Series::new("deadline", "deadline"),
        Series {
            bandwidth: Some([126_590.0, 127_849.0, 131_886.0, 131_890.0, 129_167.0]),
            longest: Some([61_448.0, 242_843.0, 508_021.0, 398_241.0, 454_244.0]),
            source: "bsr, Zoccolo's patches, 26 April 2010",
            ..Series::new("merge plain", "cfq:optimistic_merge=plain")
        },
        Series {
            jobs: FILES_16K,
            bandwidth: Some([136_457.0, 148_008.0, 180_223.0, 166_983.0, 176_617.0]),
            longest: Some([67_353.0, 192_415.0, 535_205.0, 542_326.0, 832_188.0]),
            source: "bsr with 16K and 1G, with Goyal's window, 28 April 2010",
            ..Series::new("merge", "cfq:optimistic_merge=sampled")
        },
        Series::new("merge corrected", "cfq:optimistic_merge=corrected"),
        Series::new("paternoster", "paternoster"),
    ]
}

/// Miklos' eight threads: what tiobench got there, and what Miklos and Corrado tried. Numbers were
/// published only for the first two.
const REMEDIES: [(&str, &str, &str, Option<f64>); 8] = [
    ("noop", "noop", "512", Some(260_000.0)),
    ("cfq", "cfq:low_latency=0", "512", Some(145_000.0)),
    ("quantum=32", "cfq:low_latency=0,quantum=32", "512", None),
    ("read_ahead_kb=2048", "cfq:low_latency=0", "2048", None),
    ("quantum=32, read_ahead_kb=2048", "cfq:low_latency=0,quantum=32", "2048", None),
    ("slice_idle=0", "cfq:low_latency=0,slice_idle=0", "512", None),
    ("low_latency=1", "cfq:low_latency=1", "512", None),
    ("Kara's slice_idle_tuning", "cfq:low_latency=0,slice_idle_tuning=1", "512", None),
];
const MIKLOS: &str = "tiobench with 8 threads: \"about 145MB/s\", noop \"back into the 260MB/s \
                      range\", 16 April 2010";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "array-readers",
        summary: "1 to 16 sequential readers on an array: noop, CFQ, its remedies, merged queues",
        source: "Vivek Goyal, Corrado Zoccolo, Miklos Szeredi, April 2010",
        notes: &[
            "30 s of reading at most, as iostest has it. hz=1000, which the thread's own \
             arithmetic supposes (204 sectors a tick = 100 MB/s); everything else is default.",
            "The array was fitted to noop's bandwidths. One answer of 2,940 is late, by as much as \
             a disk's published percentiles say; how many are was fitted to one reader's longest \
             calls under noop and cfq. Longest calls are judged within a factor of 2, rates \
             within 15 %.",
            "\"merge\" is optimistic_merge=sampled: the patch of 24 April with the window of 28 \
             April; \"plain\" is the patch alone, \"corrected\" has the corrections of 1 May.",
            "Miklos' array is another one: of 16 disks, which was fitted to his 260 MB/s under \
             noop. His rows are eight such readers under hz=250, read_ahead_kb=512 and \
             low_latency=0 unless they say otherwise. He says that quantum and read-ahead help, \
             not by as much as noop; that slice_idle=0 definitely helps; that rotational=0 seems \
             to help on 2.6.34-rc.",
            "paternoster, with no attribute touched, is judged by noop on the array, at least 97 % \
             at every number of readers, and on one disk by the best of those that idle: cfq, bfq, \
             and bfq with low_latency=0. 30 s from the first request on, what it learns included.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn name(label: &str, readers: u32) -> String {
    let plural = if readers == 1 { "" } else { "s" };
    format!("{label}, {readers} reader{plural}")
}

fn miklos(label: &str) -> String {
    format!("Miklos: {label}")
}

fn disk(label: &str, readers: u32) -> String {
    format!("one disk: {}", name(label, readers))
}

fn reading(jobs: FioJobs, readers: u32) -> Workload {
    Workload::Fio(jobs.option("numjobs", readers))
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for series in series() {
        for readers in READERS {
            let workload = reading(series.jobs.clone(), readers);
            let run =
                Run::new(name(series.label, readers), workload, arrays::goyal(), series.scheduler);
            runs.push(run.set(&["hz=1000"]));
        }
    }
    for (label, scheduler, read_ahead, _) in REMEDIES {
        let run = Run::new(miklos(label), reading(FILES_4K, 8), arrays::szeredi(), scheduler);
        runs.push(run.set(&["hz=250", &format!("read_ahead_kb={read_ahead}")]));
    }
    let run = Run::new(
        miklos("rotational=0"),
        reading(FILES_4K, 8),
        arrays::szeredi(),
        "cfq:low_latency=0",
    );
    runs.push(run.set(&["hz=250", "read_ahead_kb=512", "rotational=0"]));
    for (label, scheduler, _) in DISK_SCHEDULERS {
        for readers in READERS {
            let run = Run::new(disk(label, readers), reading(FILES_4K, readers), DISK, scheduler);
            runs.push(run.set(&["hz=1000"]));
        }
    }
    runs
}

/// On the disk; and whether what they lose is judged.
const DISK_SCHEDULERS: [(&str, &str, bool); 8] = [
    ("cfq", "cfq", false),
    ("merge plain", "cfq:optimistic_merge=plain", true),
    ("merge", "cfq:optimistic_merge=sampled", true),
    ("merge corrected", "cfq:optimistic_merge=corrected", true),
    ("Kara's slice_idle_tuning", "cfq:slice_idle_tuning=1", false),
    ("bfq", "bfq", false),
    ("bfq, low_latency=0", "bfq:low_latency=0", false),
    ("paternoster", "paternoster", false),
];

/// Schedulers that idle on a disk by default.
const IDLING: [&str; 3] = ["cfq", "bfq", "bfq, low_latency=0"];

fn bandwidth(label: &str, readers: u32) -> Quantity {
    of(name(label, readers), "bsr kB/s")
}

fn longest(label: &str, readers: u32) -> Quantity {
    of(name(label, readers), "bsr max us")
}

fn figures() -> Vec<Figure> {
    let series = series();
    let mut all: Vec<Vec<Figure>> = series.iter().map(|one| bandwidths(one).collect()).collect();
    all.extend([compared(), remedies(), single_disk()]);
    all.extend(series.iter().map(|one| latencies(one).collect()));
    all.push(compared_latencies());
    parts(all)
}

fn bandwidths(series: &Series) -> impl Iterator<Item = Figure> + '_ {
    READERS.into_iter().enumerate().map(|(place, readers)| {
        let label = name(series.label, readers);
        let figure = Figure::new(label, "kB/s", bandwidth(series.label, readers));
        match series.bandwidth {
            None => figure,
            Some(all) => figure.published(all[place], series.source).fitted(series.fitted),
        }
    })
}

fn latencies(series: &Series) -> impl Iterator<Item = Figure> + '_ {
    READERS.into_iter().enumerate().map(|(place, readers)| {
        let label = format!("{}: longest call", name(series.label, readers));
        let figure = Figure::new(label, "us", longest(series.label, readers));
        match series.longest {
            None => figure,
            Some(all) => {
                // The rate of late answers was fitted to these two.
                let fitted = readers == 1 && ["noop", "cfq"].contains(&series.label);
                figure.longest(all[place], series.source).fitted(fitted)
            }
        }
    })
}

/// Compares the bandwidths.
fn compared() -> Vec<Figure> {
    let cfq = READERS.map(|readers| bandwidth("cfq", readers)).to_vec();
    let flat = Figure::new("cfq, largest by smallest", "", Quantity::Spread(cfq));
    // 135 366 / 124 256.
    let flat = flat.published(1.089, "bsr, iosched=cfq, 22 April 2010");
    let mut figures = vec![flat];
    for readers in READERS {
        let idle = ratio(bandwidth("slice_idle=0", readers), bandwidth("noop", readers));
        let label = name("slice_idle=0 by noop", readers);
        figures.push(Figure::new(label, "", idle).judged(Judge::AtLeast(0.9)));
    }
    for readers in READERS {
        let by_noop = ratio(bandwidth("paternoster", readers), bandwidth("noop", readers));
        let label = name("paternoster by noop", readers);
        figures.push(Figure::new(label, "", by_noop).judged(Judge::AtLeast(0.97)));
    }
    let all = series();
    let published = |label: &str, place: usize| {
        let series = all.iter().find(|series| series.label == label)?;
        Some(series.bandwidth?[place])
    };
    for (place, readers) in READERS.into_iter().enumerate().filter(|(_, readers)| *readers >= 4) {
        let [low, high, it] =
            ["cfq", "noop", "merge"].map(|label| Box::new(bandwidth(label, readers)));
        let quantity = Quantity::Place { low, high, it };
        let label = format!("merge from cfq (0) to noop (1), {readers} readers");
        let mut figure = Figure::new(label, "", quantity);
        let [cfq, noop, merge] = ["cfq", "noop", "merge"].map(|label| published(label, place));
        if let (Some(cfq), Some(noop), Some(merge)) = (cfq, noop, merge) {
            figure = figure.published((merge - cfq) / (noop - cfq), "the three tables");
        }
        figures.push(figure);
    }
    figures
}

fn remedies() -> Vec<Figure> {
    let rate = |label: &str| of(miklos(label), "bsr kB/s");
    let mut figures = Vec::new();
    for (label, _, _, published) in REMEDIES {
        let figure = Figure::new(miklos(label), "kB/s", rate(label));
        figures.push(match published {
            None => figure,
            Some(published) => figure.published(published, MIKLOS).fitted(label == "noop"),
        });
    }
    figures.push(Figure::new(miklos("rotational=0"), "kB/s", rate("rotational=0")));
    let by_noop = ratio(rate("cfq"), rate("noop"));
    let by_noop = Figure::new("Miklos: cfq by noop", "", by_noop);
    figures.push(by_noop.published(145.0 / 260.0, MIKLOS));
    figures
}

/// CFQ-52: on a single spindle merging must not lose more than a tenth.
fn single_disk() -> Vec<Figure> {
    let rate = |label: &str, readers: u32| of(disk(label, readers), "bsr kB/s");
    let mut figures = Vec::new();
    for readers in READERS {
        figures.push(Figure::new(disk("cfq", readers), "kB/s", rate("cfq", readers)));
    }
    for (label, _, judged) in &DISK_SCHEDULERS[1..] {
        for readers in READERS {
            let by_cfq = ratio(rate(label, readers), rate("cfq", readers));
            let figure = Figure::new(disk(&format!("{label} by cfq"), readers), "", by_cfq);
            figures.push(if *judged { figure.judged(Judge::AtLeast(0.9)) } else { figure });
        }
    }
    for readers in READERS {
        let idling = IDLING.map(|label| rate(label, readers)).to_vec();
        let by_best = ratio(rate("paternoster", readers), Quantity::Largest(idling));
        let label = disk("paternoster by the best that idles", readers);
        figures.push(Figure::new(label, "", by_best).judged(Judge::AtLeast(0.95)));
    }
    figures
}

fn compared_latencies() -> Vec<Figure> {
    let cfq = READERS.map(|readers| longest("cfq", readers)).to_vec();
    let label = "cfq: longest call, least step with more readers";
    // 392 904 / 341 436 is the least of its steps.
    let steps = Figure::new(label, "", Quantity::LeastStep(cfq));
    let steps = steps.published(1.151, "bsr, iosched=cfq, 22 April 2010");
    let mut figures = vec![steps];
    for (readers, published) in [(4, 0.258), (8, 0.294), (16, 0.203)] {
        let quantity = ratio(longest("noop", readers), longest("cfq", readers));
        let label = format!("longest call, noop by cfq, {readers} readers");
        let figure = Figure::new(label, "", quantity).published(published, "both tables");
        figures.push(figure);
    }
    figures
}

fn conclude(results: &Results) -> Vec<String> {
    let rate = |label: &str, readers| results.number(&name(label, readers), "bsr kB/s");
    let all = ["noop", "cfq", "merge", "slice_idle=0"].map(|label| rate(label, 8));
    let [Some(noop), Some(cfq), Some(merge), Some(idle_0)] = all else { return Vec::new() };
    let mut told = vec![format!(
        "Eight readers get {noop:.0} kB/s under noop, {cfq:.0} under CFQ, {merge:.0} with merged \
         queues and {idle_0:.0} with slice_idle=0: the remedy is not to idle."
    )];
    if let Some(own) = rate("paternoster", 8) {
        told.push(format!(
            "paternoster finds out by itself that turns do not pay here: {own:.0} kB/s, {:.1} % \
             of noop.",
            100.0 * own / noop
        ));
    }
    let measured = results.text(&name("merge", 8), "bandwidth");
    told.extend(measured.map(|text| {
        format!("Its attribute bandwidth then says {text} (the mail: 0 546 740), sectors a tick.")
    }));
    told
}

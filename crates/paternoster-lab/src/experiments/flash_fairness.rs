// SPDX-License-Identifier: MIT OR Apache-2.0
//! flash-fairness: seed 000. Pairs of random readers of different sizes on a flash card.
//!
//! Under unpatched CFQ both readers are random, so both are "seeky", share one tree and are served
//! in turns: the same number of requests each, so bandwidth is proportional to request size. On
//! flash the patch calls a reader seeky if its requests are small, not if they are distant: a
//! reader of 32 KiB or more then gets time slices, and the 4 KiB reader keeps its share whatever it
//! competes with.
//!
//! It also shows what decides whether a faithful CFQ shows this at all: the warm-up (without it
//! `hw_tag` is unknown and counts as a queueing device), the first second, and the time between a
//! completion and the next submission.
//!
//! And how paternoster treats the same pairs: it counts device time and not requests.

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

const PATH: &str = "jobs/fair-warm.fio";
const JOBS: &str = include_str!("../../jobs/fair-warm.fio");
/// Without a warm-up and without a ramp.
const PLAIN: FioJobs = FioJobs::new("jobs/fair.fio", include_str!("../../jobs/fair.fio"));
const CARD: Device = Device::Named("flash-card-2010");

/// A reader of 4 KiB together with one of another size.
#[derive(Debug)]
struct Pair {
    size: &'static str,
    /// The job of 4 KiB, the other one; likewise below.
    jobs: [&'static str; 2],
    /// kB/s.
    unpatched: [f64; 2],
    patched: [f64; 2],
}

impl Pair {
    const fn new(
        size: &'static str,
        jobs: [&'static str; 2],
        unpatched: [f64; 2],
        patched: [f64; 2],
    ) -> Pair {
        Pair { size, jobs, unpatched, patched }
    }
}

const PAIRS: [Pair; 4] = [
    Pair::new("8K", ["test01", "test00"], [1485.0, 2922.0], [1511.0, 2898.0]),
    Pair::new("16K", ["test11", "test10"], [1327.0, 5126.0], [1277.0, 5274.0]),
    Pair::new("32K", ["test21", "test20"], [1031.0, 8493.0], [1576.0, 6498.0]),
    Pair::new("64K", ["test31", "test30"], [761.0, 12_486.0], [1512.0, 8548.0]),
];

/// For paternoster only the machine's settings are set; `plain` is as typed.
const PATERNOSTER: &str = "paternoster";
const PATERNOSTER_PLAIN: &str = "paternoster, plain";
/// Least index of Jain over two readers' device time: 0.998 is 52.2 against 47.8 %.
const JAIN_LEAST: f64 = 0.998;

/// Submit costs of the sweep.
const SWEEP_US: [u32; 6] = [0, 20, 40, 60, 100, 200];

/// The two schedulers that are compared.
#[derive(Debug, Clone, Copy)]
struct Detector {
    word: &'static str,
    source: &'static str,
    /// The table, and how close ours must be.
    published: fn(&Pair) -> [f64; 2],
    tolerance: f64,
    fitted: bool,
}

const DETECTORS: [Detector; 2] = [
    Detector {
        word: "mean",
        source: "unpatched 2.6.33, minb and maxb of each group",
        published: |pair| pair.unpatched,
        tolerance: 4.0,
        fitted: true,
    },
    Detector {
        word: "auto",
        source: "with the patch, minb and maxb of each group",
        published: |pair| pair.patched,
        tolerance: 8.0,
        fitted: false,
    },
];

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "flash-fairness",
        summary: "pairs of random readers on a flash card, CFQ without and with the size rule",
        source: "Corrado Zoccolo, linux-kernel, 3 March 2010",
        notes: &[
            "`mean` is the seek detector of 2.6.33, `auto` the patched one. The seed prints bytes \
             per millisecond, which are kB/s, as KiB/s.",
            "The device was fitted to the unpatched table; nothing was fitted to the patched one.",
            "hz=1000, ncq=probe, 20 us from completion to submission, 1 s of ramp, behind 16 \
             parallel readers that let CFQ find out that the card does not queue (hw_tag 0).",
            "Two readers of depth 1 never show CFQ whether the card queues: the rows without \
             warm-up stand beside the unpatched table, since the size rule should do nothing then.",
            "`plain` is jobs/fair.fio under cfq with nothing set: the device's word that it does \
             not queue is taken, no warm-up is needed.",
            "paternoster is judged by Jain's index of device time, at least 0.998 for each pair, \
             behind the same warm-up and as typed, from the first second on.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn jobs() -> FioJobs {
    FioJobs::new(PATH, JOBS)
}

fn run(name: String, jobs: FioJobs, detector: &str) -> Run {
    let scheduler = format!("cfq:seek_detection={detector}");
    Run::new(name, Workload::Fio(jobs), CARD, scheduler).set(&["hz=1000", "ncq=probe"])
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for Detector { word, .. } in DETECTORS {
        runs.push(run(word.to_owned(), jobs().option("ramp_time", 1), word));
        runs.push(run(format!("{word}, no ramp"), jobs(), word));
        let mut cold = jobs().option("ramp_time", 1);
        cold.sections =
            &["test00", "test01", "test10", "test11", "test20", "test21", "test30", "test31"];
        runs.push(run(format!("{word}, no warm-up"), cold, word));
        for cost in SWEEP_US {
            let swept = run(swept(word, cost), jobs().option("ramp_time", 1), word);
            runs.push(swept.submit_cost(format!("{cost}us")));
        }
    }
    runs.push(plain());
    runs.extend(paternoster());
    runs
}

fn paternoster() -> [Run; 2] {
    let run = |name, jobs| Run::new(name, Workload::Fio(jobs), CARD, "paternoster");
    let warm = run(PATERNOSTER, jobs().option("ramp_time", 1)).set(&["hz=1000"]);
    [warm, run(PATERNOSTER_PLAIN, PLAIN)]
}

/// As a user types it: the device says that it does not queue commands, and is believed.
fn plain() -> Run {
    Run::new("plain", Workload::Fio(PLAIN), CARD, "cfq")
}

fn swept(detector: &str, cost: u32) -> String {
    format!("{detector}, submit cost {cost} us")
}

fn figures() -> Vec<Figure> {
    let mut all = Vec::new();
    for detector in &DETECTORS {
        let judged = |figure: Figure| {
            figure.judged(Judge::Within(detector.tolerance)).fitted(detector.fitted)
        };
        let mut figures: Vec<Figure> = pairs(detector, detector.word).map(judged).collect();
        let tag = of(detector.word, "hw_tag");
        let tag = Figure::new(format!("{}: hw_tag", detector.word), "", tag);
        let settled = "no number: \"to make sure ncq detection is stabilized\", \"non-ncq\"";
        figures.push(tag.published(0.0, settled).judged(Judge::Between(0.0, 0.0)));
        all.push(figures);
    }
    for detector in &DETECTORS {
        all.push(pairs(detector, &format!("{}, no ramp", detector.word)).collect());
    }
    all.push(cold());
    all.push(pairs(&DETECTORS[1], "plain").collect());
    all.extend([beside(), evenness()]);
    all.extend(DETECTORS.iter().map(|of| SWEEP_US.map(|cost| farthest(of, cost)).to_vec()));
    parts(all)
}

/// The eight figures of a run compared with a detector's table.
fn pairs<'a>(detector: &'a Detector, run: &'a str) -> impl Iterator<Item = Figure> + 'a {
    PAIRS.iter().flat_map(move |pair| {
        let published = (detector.published)(pair);
        let Pair { size, jobs: [small, large], .. } = pair;
        [(&"4K", small, published[0]), (size, large, published[1])].map(|(who, job, published)| {
            let label = format!("{run}: {who} of 4K+{size}");
            Figure::new(label, "kB/s", of(run, format!("{job} kB/s")))
                .published(published, detector.source)
                // Each table judges one run; beside the others it only stands.
                .judged(Judge::Shown)
        })
    })
}

/// Without the warm-up: compared with the unpatched table, the expected result.
fn cold() -> Vec<Figure> {
    let mut figures: Vec<Figure> = pairs(&DETECTORS[0], "auto, no warm-up").collect();
    let tag = of("auto, no warm-up", "hw_tag");
    figures.push(Figure::new("auto, no warm-up: hw_tag", "", tag));
    let small = |run: &str| of(run, "test31 kB/s");
    let quantity = ratio(small("auto, no warm-up"), small("mean, no warm-up"));
    figures.push(Figure::new("no warm-up: 4K beside 64K, auto by mean", "", quantity));
    figures
}

/// What the readers get under paternoster; this was not published.
fn beside() -> Vec<Figure> {
    let row = |pair: &Pair| {
        let Pair { size, jobs: [small, large], .. } = *pair;
        [("4K", small), (size, large)].map(|(who, job)| {
            let label = format!("{PATERNOSTER}: {who} of 4K+{size}");
            Figure::new(label, "kB/s", of(PATERNOSTER, format!("{job} kB/s")))
        })
    };
    PAIRS.iter().flat_map(row).collect()
}

/// How evenly device time is divided. After the warm-up, which is a section too, or without it.
fn evenness() -> Vec<Figure> {
    let who = [("mean", 1), ("auto", 1), (PATERNOSTER, 1), (PATERNOSTER_PLAIN, 0)];
    let row = |(run, first): (&'static str, usize)| {
        PAIRS.iter().enumerate().map(move |(place, pair)| {
            let label = format!("{run}: Jain of device time, 4K+{}", pair.size);
            let jain = of(run, format!("section {} Jain", place + first));
            let figure = Figure::new(label, "", jain);
            let judged = run.starts_with(PATERNOSTER);
            if judged { figure.judged(Judge::AtLeast(JAIN_LEAST)) } else { figure }
        })
    };
    who.into_iter().flat_map(row).collect()
}

fn farthest(detector: &Detector, cost: u32) -> Figure {
    let run = swept(detector.word, cost);
    let all = PAIRS.iter().flat_map(|pair| {
        let jobs = pair.jobs.into_iter().zip((detector.published)(pair));
        let run = &run;
        jobs.map(move |(job, published)| (of(run, format!("{job} kB/s")), published))
    });
    let label = format!("{run}: farthest of the 8");
    Figure::new(label, "%", Quantity::Farthest(all.collect()))
}

fn conclude(results: &Results) -> Vec<String> {
    let small = |run: &str| results.number(run, "test31 kB/s");
    let all = [small("mean"), small("auto"), small("auto, no warm-up")];
    let [Some(mean), Some(auto), Some(cold)] = all else { return Vec::new() };
    let mut told = vec![format!(
        "Beside 64 KiB the 4 KiB reader gets {mean:.0} kB/s with the old detector and {auto:.0} \
         with the size rule, {:.1} times as much; without the warm-up {cold:.0}, {:.1} times.",
        auto / mean,
        cold / mean
    )];
    let under = [small(PATERNOSTER), results.number(PATERNOSTER, "test30 kB/s")];
    if let [Some(small), Some(large)] = under {
        told.push(format!(
            "Under paternoster it gets {small:.0} and the other {large:.0}, half of the device's \
             time each, without a rule for flash."
        ));
    }
    told
}

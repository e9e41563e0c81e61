// SPDX-License-Identifier: MIT OR Apache-2.0
//! ssd-injection-mixed: a sentence of seed 002, measured.
//!
//! "As some less random I/O is added to the mix, the throughput becomes equal to or higher than
//! that with none." It does not say which I/O that was. Here some of the five weighted readers read
//! their files sequentially instead of at random, the lightest first or the heaviest first; or all
//! of them seek less often.
//!
//! ```text
//! sequential readers    0      1      2      3      4      5
//!                      rrrrr  srrrr  ssrrr  sssrr  ssssr  sssss     the lightest first
//!                             rrrrs  rrrss  rrsss  rssss            the heaviest first
//! ```

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Results, Run, Workload, of, parts, ratio,
};

const JOBS: FioJobs =
    FioJobs::new("jobs/weighted-mix.fio", include_str!("../../jobs/weighted-mix.fio"));

const LIGHTEST: [&[&str]; 6] = [
    &["r1", "r2", "r3", "r4", "r5"],
    &["s1", "r2", "r3", "r4", "r5"],
    &["s1", "s2", "r3", "r4", "r5"],
    &["s1", "s2", "s3", "r4", "r5"],
    &["s1", "s2", "s3", "s4", "r5"],
    &["s1", "s2", "s3", "s4", "s5"],
];
const HEAVIEST: [&[&str]; 6] = [
    LIGHTEST[0],
    &["r1", "r2", "r3", "r4", "s5"],
    &["r1", "r2", "r3", "s4", "s5"],
    &["r1", "r2", "s3", "s4", "s5"],
    &["r1", "s2", "s3", "s4", "s5"],
    LIGHTEST[5],
];

const SCHEDULERS: [(&str, &str); 3] = [
    ("none", "none"),
    ("coefficient", "bfq-4.19:low_latency=0"),
    ("measured", "bfq:low_latency=0"),
];
/// Rates that differ by at most this much are called equal.
const EQUAL: f64 = 0.01;

const SOURCE: &str = "the patch's message: \"equal to or higher than that with none\"";

/// A place of the sweep.
#[derive(Debug, Clone)]
struct Mix {
    name: String,
    jobs: FioJobs,
}

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "ssd-injection-mixed",
        summary: "weighted readers of which some are less random: does bfq reach or exceed none?",
        source: "Paolo Valente, Linux 4.20, 14 September 2018 (no numbers)",
        notes: &[
            "The five readers of ssd-injection. `sequential` of them read their files in calls of \
             4 KiB or 128 KiB, direct; the others 4 KiB at random. Or all five jump with only so \
             many per cent of their calls. Buffered sequential readers come out as those of 128 \
             KiB.",
            "Bandwidth by that of none; judged where some I/O is less random: at least 0.99. The \
             model of the drive does not read ahead: 4 KiB that lie behind the last 4 KiB take as \
             long as any.",
            "The patch injects only in turns of readers that jump with more than 19 of 32 \
             requests. One that reads on in large calls has the drive to itself in his turn, and \
             cannot fill it: without a scheduler he has the others beside him.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

/// The sweep, in the parts of the table.
fn mixes() -> Vec<Vec<Mix>> {
    let sequential = |order: &str, sections: [&'static [&'static str]; 6], size: &str| {
        let mix = |(count, sections): (usize, &'static [&'static str])| {
            let name = format!("{count} sequential, {size}{order}");
            Mix { name, jobs: FioJobs { sections, ..JOBS.option("bs", size) } }
        };
        sections.into_iter().enumerate().map(mix).collect::<Vec<Mix>>()
    };
    let random = |percent: u32| {
        let jobs = JOBS.option("percentage_random", percent);
        let sections = LIGHTEST[0];
        Mix { name: format!("all jump, {percent} %"), jobs: FioJobs { sections, ..jobs } }
    };
    let heaviest = sequential(", heaviest first", HEAVIEST, "128k");
    vec![
        sequential("", LIGHTEST, "4k"),
        sequential("", LIGHTEST, "128k"),
        // The mixes with no sequential reader, and with sequential readers alone, exist already.
        heaviest[1..5].to_vec(),
        [80, 60, 40, 20].map(random).to_vec(),
    ]
}

fn name(mix: &Mix, scheduler: &str) -> String {
    format!("{}: {scheduler}", mix.name)
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for mix in mixes().into_iter().flatten() {
        for (word, scheduler) in SCHEDULERS {
            let jobs = mix.jobs.clone().option("ramp_time", 1).option("runtime", 3);
            let drive = Device::Named("ssd-px256m5s");
            let run = Run::new(name(&mix, word), Workload::Fio(jobs), drive, scheduler);
            runs.push(run.set(&["hz=250"]).submit_cost("5us"));
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let rate = |mix: &Mix, word: &str| of(name(mix, word), "section 0 MB/s");
    let figures = |mix: &Mix| {
        let [none, coefficient, measured] = SCHEDULERS.map(|(word, _)| rate(mix, word));
        let by = |it, word| {
            let label = format!("{} by none", name(mix, word));
            Figure::new(label, "", ratio(it, rate(mix, "none")))
        };
        let least = by(coefficient, "coefficient");
        let least = if mix.name.starts_with("0 ") {
            least
        } else {
            least.published(1.0, SOURCE).judged(Judge::AtLeast(1.0 - EQUAL))
        };
        vec![Figure::new(name(mix, "none"), "MB/s", none), least, by(measured, "measured")]
    };
    parts(mixes().iter().map(|part| part.iter().flat_map(figures).collect()).collect())
}

/// Where a scheduler reaches this part of `none`'s throughput.
fn places(results: &Results, scheduler: &str, holds: impl Fn(f64) -> bool) -> Vec<String> {
    let by_none = |mix: &Mix| {
        let rate = |word: &str| results.number(&name(mix, word), "section 0 MB/s");
        Some(rate(scheduler)? / rate("none")?)
    };
    let mixes = mixes().into_iter().flatten();
    let holds = |mix: &Mix| by_none(mix).is_some_and(&holds);
    mixes.filter(holds).map(|mix| mix.name).collect()
}

fn conclude(results: &Results) -> Vec<String> {
    let listed = |names: Vec<String>| match &names[..] {
        [] => "nowhere".to_owned(),
        names => format!("in {} ({})", names.len(), names.join("; ")),
    };
    let all = mixes().iter().map(Vec::len).sum::<usize>();
    let tell = |scheduler: &str| {
        let equal = places(results, scheduler, |by| (by - 1.0).abs() <= EQUAL);
        let higher = places(results, scheduler, |by| by > 1.0 + EQUAL);
        let lower = places(results, scheduler, |by| by < 1.0 - EQUAL);
        format!(
            "Of {all} places `{scheduler}` is equal to none, within 1 %, {}; higher {}; lower in \
             {}.",
            listed(equal),
            listed(higher),
            lower.len()
        )
    };
    vec![tell("coefficient"), tell("measured")]
}

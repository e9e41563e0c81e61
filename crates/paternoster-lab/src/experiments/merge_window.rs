// SPDX-License-Identifier: MIT OR Apache-2.0
//! merge-window: seed 004, patch 3. A program starts among readers, and is taken for one of them.
//!
//! Queues whose requests lie close to each other are merged, because their processes may cooperate.
//! A program that starts on a busy disk reads all over it; now and then next to another process's
//! position. Then it shares a reader's queue, and its requests are served with that reader's. The
//! patch lets queues merge only in the first 100 ms of their service:
//!
//! ```text
//! program   ##  # ##  # #     a process of it begins
//!           |--|              100 ms in which it may be merged; without the window at any time
//! readers  ################   wait, each somewhere on the disk
//! ```
//!
//! Nothing is put near anything on purpose: the program's files lie in pieces between those of the
//! others, and the seed says how large the pieces are and where the program reads.

use paternoster_core::Nanos;
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::startup::profile::by_name;

use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Results, Run, Workload, of, parts, ratio,
};

/// Starts under each scheduler.
const STARTS: u32 = 100;
/// Under the older test, and with direct readers and writers.
const STARTS_BEFORE: u32 = 50;
const DIRECT: &str = "direct, ";
/// With the files of the others far from the program's.
const STARTS_APART: u32 = 10;

const ANY_TIME: (&str, &str) = ("without", "bfq-4.19:merge_window=0");
const WINDOW: (&str, &str) = ("with", "bfq-4.19");
const BEFORE: (&str, &str) = ("before", "bfq-4.19:merge_window=0,late_raise_check=1");
const APART: &str = "apart, without";

const SOURCE: &str =
    "patch 3: \"lxterminal occasionally took 7.5 seconds to start, instead of 6.5\"";
const ELIMINATED: &str = "patch 3: \"eliminated any outlier caused by spurious queue merges\"";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "merge-window",
        summary: "a program starts beside readers and writers, without and with the merge window",
        source: "Paolo Valente, Angelo Ruocco, Linux 4.16, 20 December 2017, patch 3",
        notes: &[
            "`without` is bfq-4.19 with merge_window=0, `with` has the default of 100 ms; `before` \
             is merge_window=0 with the older test that the series replaced: who has been raised \
             for more than 100 ms is not merged. `apart`: as `without`, with the files of the \
             others behind the program's.",
            "The start is the profile lxterminal of `paternoster startup`, beside 5 buffered \
             sequential readers and 5 writers on hdd-mhx2300bt, hz=250, seeds 0 to 99, after 12 s, \
             when the readers themselves are raised no more (10.5 s on a disk).",
            "The time of a start is fitted: what lxterminal reads was never published. Where files \
             lie was not published either: here the program's lie in pieces of 12 MiB on average \
             between those of the others. The smaller the pieces, the more starts are merged; \
             docs/seeds/004-merge-window.md has other sizes.",
            "`direct`: readers and writers bypass the page cache. The message speaks of merged \
             queues of writers, and BFQ merges only those whose I/O is waited for.",
            "What is merged with the window is a process that has begun, or begun again, less than \
             100 ms ago, with a reader that has waited unserved; the patch's rule allows that, and \
             so did the older one.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn run(name: &str, scheduler: &str, starts: u32, direct: bool) -> Run {
    let profile = by_name("lxterminal").expect("a profile of ours");
    let (warmup, limit) = (Nanos::from_secs(12), Nanos::from_secs(30));
    let startup = Startup { direct, warmup, limit, ..Startup::new(profile) };
    let workload = Workload::Startup { startup, repeat: starts };
    Run::new(name, workload, Device::Named("hdd-mhx2300bt"), scheduler).set(&["hz=250"])
}

fn runs() -> Vec<Run> {
    let among = |(word, scheduler): (&str, &str), starts, direct| {
        let name = if direct { format!("{DIRECT}{word}") } else { word.to_owned() };
        run(&name, scheduler, starts, direct).placement("among:12m")
    };
    let mut runs = vec![
        among(ANY_TIME, STARTS, false),
        among(WINDOW, STARTS, false),
        among(BEFORE, STARTS_BEFORE, false),
        run(APART, ANY_TIME.1, STARTS_APART, false),
    ];
    runs.extend([ANY_TIME, WINDOW, BEFORE].map(|which| among(which, STARTS_BEFORE, true)));
    runs
}

fn figures() -> Vec<Figure> {
    let figure = |run: &str, label: &str, unit, what| {
        Figure::new(format!("{run}: {label}"), unit, of(run, what))
    };
    let starts =
        |run: &str, of: u32| figure(run, &format!("starts of {of} merged"), "", "starts merged");
    let by_median = |run: &str, label: &str, what| {
        let quantity = ratio(of(run, what), of(run, "median s"));
        Figure::new(format!("{run}: {label} by median"), "", quantity)
    };
    let median = |run: &str| figure(run, "median", "s", "median s");
    let (without, with) = (ANY_TIME.0, WINDOW.0);
    let (without, with) = (
        vec![
            starts(without, STARTS).judged(Judge::AtLeast(f64::from(STARTS) * 0.05)),
            median(without),
            figure(without, "longest of those merged", "s", "max s merged").published(7.5, SOURCE),
            by_median(without, "longest of those merged", "max s merged")
                .published(7.5 / 6.5, SOURCE),
        ],
        vec![
            starts(with, STARTS).published(0.0, ELIMINATED).judged(Judge::Between(0.0, 0.0)),
            median(with).published(6.5, SOURCE).fitted(true),
            figure(with, "alone", "s", "alone s"),
            figure(with, "longest", "s", "max s"),
            by_median(with, "longest", "max s").judged(Judge::Between(1.0, 1.05)),
        ],
    );
    let direct = [ANY_TIME, WINDOW, BEFORE].map(|(word, _)| format!("{DIRECT}{word}"));
    let mut shown = vec![(BEFORE.0.to_owned(), STARTS_BEFORE), (APART.to_owned(), STARTS_APART)];
    shown.extend(direct.map(|run| (run, STARTS_BEFORE)));
    let shown = shown
        .iter()
        .map(|(run, of)| vec![starts(run, *of), median(run), figure(run, "longest", "s", "max s")]);
    parts([without, with].into_iter().chain(shown).collect())
}

fn conclude(results: &Results) -> Vec<String> {
    let number = |run: &str, what: &str| results.number(run, what);
    let merged = |run: &str| number(run, "starts merged");
    let all = [ANY_TIME, WINDOW, BEFORE]
        .map(|(word, _)| Some((merged(word)?, merged(&format!("{DIRECT}{word}"))?)));
    let [Some(without), Some(with), Some(before)] = all else { return Vec::new() };
    let longest = [number(ANY_TIME.0, "max s merged"), number(WINDOW.0, "max s")];
    let [Some(merged), Some(longest)] = longest else { return Vec::new() };
    vec![
        format!(
            "Of {STARTS} starts {:.0} share a queue with a reader if queues merge at any time, and \
             the longest of them takes {merged:.1} s; with the window {:.0}, and the longest of \
             all takes {longest:.1} s.",
            without.0, with.0
        ),
        format!(
            "With the older test it is {:.0} of {STARTS_BEFORE}. Beside direct readers and \
             writers, of {STARTS_BEFORE}, {:.0} without either, {:.0} with the older test, {:.0} \
             with the window.",
            before.0, without.1, before.1, with.1
        ),
    ]
}

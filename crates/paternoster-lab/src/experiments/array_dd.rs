// SPDX-License-Identifier: MIT OR Apache-2.0
//! array-dd: seed 001. Does the layout of files explain what CFQ loses?
//!
//! Corrado Zoccolo saw in a plot of accessed sectors that the newer kernel's file system puts more
//! distance between the files. Miklos Szeredi answered with plain dd, where the layout was exactly
//! the same in both tests: the speed difference was still there. Here eight dd's read files that
//! lie one after the other, far apart, or interleaved in pieces of 1 MiB.

use paternoster_workload::builtin::dd::Dd;

use super::arrays;
use crate::reproduce::experiment::{Experiment, Figure, Results, Run, Workload, of, ratio};

const PLACEMENTS: [&str; 3] = ["near", "far", "interleaved:1m"];
const SCHEDULERS: [&str; 3] = ["noop", "cfq:low_latency=0", "cfq:low_latency=0,slice_idle=0"];
/// The only rates of Miklos' array: tiobench with 8 threads.
const SOURCE: &str = "tiobench with 8 threads: \"about 145MB/s\", noop \"back into the 260MB/s \
                      range\", 16 April 2010; of dd only \"still the speed difference is there\"";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "array-dd",
        summary: "eight dd's at a time on an array, files near, far and interleaved",
        source: "Miklos Szeredi, linux-kernel, 19 April 2010",
        notes: &[
            "8 files of 640 MB, the seed's 5 GB, all read at a time with 4 KiB a call; hz=250, \
             low_latency=0 and read_ahead_kb=512, his settings. MB are 10^6 bytes.",
            "Of dd no rate was published; the ratio beside it is that of tiobench, and where the \
             files lay is not known.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn name(scheduler: &str, placement: &str) -> String {
    format!("{scheduler}, {placement}")
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for placement in PLACEMENTS {
        for scheduler in SCHEDULERS {
            let dd = Dd {
                files: 8,
                size: 640_000_000,
                block: 4096,
                write: false,
                direct: false,
                together: true,
            };
            let array = arrays::szeredi();
            let run = Run::new(name(scheduler, placement), Workload::Dd(dd), array, scheduler);
            runs.push(run.placement(placement).set(&["hz=250", "read_ahead_kb=512"]));
        }
    }
    runs
}

fn figures() -> Vec<Figure> {
    let rate = |scheduler: &str, placement: &str| of(name(scheduler, placement), "MB/s");
    let mut figures = Vec::new();
    for placement in PLACEMENTS {
        for scheduler in SCHEDULERS {
            let label = name(scheduler, placement);
            figures.push(Figure::new(label, "MB/s", rate(scheduler, placement)));
        }
        let [noop, cfq, _] = SCHEDULERS.map(|scheduler| rate(scheduler, placement));
        let figure = Figure::new(format!("cfq by noop, {placement}"), "", ratio(cfq, noop));
        figures.push(figure.published(145.0 / 260.0, SOURCE));
    }
    figures
}

fn conclude(results: &Results) -> Vec<String> {
    let by_noop = |placement: &str| {
        let of = |scheduler| results.number(&name(scheduler, placement), "MB/s");
        Some(of(SCHEDULERS[1])? / of(SCHEDULERS[0])?)
    };
    let all: Option<Vec<f64>> = PLACEMENTS.iter().map(|placement| by_noop(placement)).collect();
    let Some(all) = all else { return Vec::new() };
    let [least, most] =
        [f64::min, f64::max].map(|pick| all.iter().copied().reduce(pick).unwrap_or(f64::NAN));
    let answer = if most < 0.9 {
        "it loses with every layout, so the layout does not explain it, as Miklos said"
    } else {
        "with one of the layouts it loses nothing, so the layout matters"
    };
    vec![format!("CFQ gets {least:.2} to {most:.2} of noop's rate with the same files: {answer}.")]
}

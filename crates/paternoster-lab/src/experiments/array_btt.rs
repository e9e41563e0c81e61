// SPDX-License-Identifier: MIT OR Apache-2.0
//! array-btt: seed 001. What btt says of eight sequential readers on an array, with and without CFQ
//! holding them back.
//!
//! Miklos Szeredi compared btt's report of 2.6.32 with that of 2.6.16, which read nearly twice as
//! fast. The difference is where an I/O spends its time: in the scheduler (I2D) under the newer
//! CFQ, in the device (D2C) under the older one.
//!
//! The CFQ of 2.6.16 is not specified and not here. `slice_idle=0` represents it, the nearest
//! available: it does not wait for the active queue's next request either, so that the array gets
//! requests of many readers at a time. What else changed in these sixteen releases is not included.
//!
//! # Where the files lie
//! The files of eight threads grew together. The report of 2.6.16 says how: of 67 466 bios in the
//! order of their arrival, 34 558 continued the one before, and all together moved by 866 834
//! sectors on average, so that
//!
//! ```text
//! sectors a jump    866 834 * 67 466 / (67 466 - 34 558) = 1 777 111
//! pieces a jump     (8 + 1) / 3 = 3                      on average, between two of eight files
//! a piece           1 777 111 / 3 * 512 bytes            = 289 MiB
//! ```
//!
//! The other report, of 2.6.32, has nothing fitted to it.

use paternoster_workload::builtin::tiotest::Tiotest;

use super::arrays;
use crate::reproduce::experiment::{Experiment, Figure, Judge, Results, Run, Workload, of, parts};

const NEWER: &str = "cfq";
const OLDER: &str = "slice_idle=0";
/// Megabytes of a file: the report of 2.6.32 has 28 614 984 sectors for eight of them.
const FILE_MB: u64 = 28_614_984 * 512 / 8 / (1 << 20);
/// A file's pieces, as computed above.
const PLACEMENT: &str = "interleaved:289m";
const REPORTS: [(&str, &str); 2] = [
    (NEWER, "btt output for 2.6.32, 19 April 2010"),
    (OLDER, "btt output for 2.6.16, 19 April 2010"),
];

/// btt's name, unit, the report of 2.6.32 and that of 2.6.16.
const PUBLISHED: [(&str, &str, [f64; 2]); 18] = [
    ("Q2Q us", "us", [1_710.581, 854.417]),
    ("Q2G us", "us", [1_798.735, 1.211]),
    ("I2D us", "us", [289_812.035, 158.001]),
    ("M2D us", "us", [98_208.187, 133.13]),
    ("D2C us", "us", [8_056.256, 23_778.266]),
    ("Q2C us", "us", [259_305.605, 23_931.014]),
    ("Q2G %", "%", [0.5489, 0.0035]),
    ("I2D %", "%", [88.4394, 0.4508]),
    ("D2C %", "%", [3.1069, 99.3617]),
    ("#Q", "", [69_430.0, 67_466.0]),
    ("#D", "", [54_955.0, 46_062.0]),
    ("ratio", "", [1.3, 1.5]),
    ("BLKavg", "sectors", [520.0, 597.0]),
    ("Q2Q seek", "sectors", [546_377.3, 866_834.0]),
    ("D2D seek", "sectors", [565_286.3, 1_265_503.9]),
    ("reqs @ Q", "", [132.8, 0.8]),
    ("active periods", "", [4835.0, 545.0]),
    ("% live", "%", [97.09, 94.56]),
];

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "array-btt",
        summary: "btt's report of eight sequential readers on an array",
        source: "Miklos Szeredi, linux-kernel, 19 April 2010",
        notes: &[
            "The read part of tiobench with 8 threads: 1746 MB each (28 614 984 sectors in all), 4 \
             KiB a call; read_ahead_kb=512 and low_latency=0, his settings; hz=250.",
            "The files lie in pieces of 289 MiB by turns: so far apart are the arrivals of \
             2.6.16's report on average, the one figure that something was fitted to.",
            "The CFQ of 2.6.16 is not specified: `slice_idle=0` is the nearest stand-in. What else \
             changed between the two kernels is not in it.",
            "Counts, sizes, seeks and requests at Q are judged within 30 %, times and their parts \
             within a factor of 2, I2D's part of Q2C within 15 %.",
            "Eight readers have at most 40 bios of 256 KiB outstanding: a window is requested when \
             the one before is begun. In 2.6.32's report 152 were (Q2C divided by Q2Q, Little's \
             law), so its times in the scheduler cannot come out.",
        ],
        runs: vec![run(NEWER, "cfq:low_latency=0"), run(OLDER, "cfq:low_latency=0,slice_idle=0")],
        figures: figures(),
        conclude,
    }
}

fn run(name: &str, scheduler: &str) -> Run {
    let tiotest = Tiotest {
        threads: 8,
        file_mb: FILE_MB,
        block: 4096,
        // Only the third of its four tests: Read.
        skipped: vec![0, 1, 3],
        drop_caches: true,
        ..Tiotest::default()
    };
    let run = Run::new(name, Workload::Tiotest(tiotest), arrays::szeredi(), scheduler);
    run.set(&["hz=250", "read_ahead_kb=512"]).placement(PLACEMENT).btt()
}

fn figures() -> Vec<Figure> {
    let of_report = |place: usize| {
        let (run, source) = REPORTS[place];
        let figure = move |(name, unit, published): (&str, &'static str, [f64; 2])| {
            let quantity = of(run, format!("btt {name}"));
            let figure = Figure::new(format!("{run}: {name}"), unit, quantity);
            let figure = figure.published(published[place], source);
            let fitted = run == OLDER && name == "Q2Q seek";
            figure.judged(judge(name, unit, published[place])).fitted(fitted)
        };
        PUBLISHED.into_iter().map(figure).collect()
    };
    parts(vec![of_report(0), of_report(1)])
}

/// Times and their parts within a factor of 2, what is counted within 30 %; how much of the time
/// passes in the scheduler, which the report was published for, within 15 %.
fn judge(name: &str, unit: &str, published: f64) -> Judge {
    let is_time = unit == "us" || ["Q2G %", "D2C %"].contains(&name);
    match name {
        "I2D %" => Judge::Within(15.0),
        _ if is_time => Judge::Between(published / 2.0, published * 2.0),
        _ => Judge::Within(30.0),
    }
}

fn conclude(results: &Results) -> Vec<String> {
    let share = |run: &str, what: &str| results.number(run, &format!("btt {what}"));
    let all = [(NEWER, "I2D %"), (OLDER, "I2D %"), (NEWER, "D2C %"), (OLDER, "D2C %")];
    let [Some(newer), Some(older), Some(served), Some(served_older)] =
        all.map(|(run, what)| share(run, what))
    else {
        return Vec::new();
    };
    vec![format!(
        "Of the time from Q to C, {newer:.1} % pass with the scheduler under CFQ and {served:.1} % \
         in the device; without idling {older:.1} % and {served_older:.1} %. Published were 88.4 \
         and 3.1 %, 0.5 and 99.4 %."
    )]
}

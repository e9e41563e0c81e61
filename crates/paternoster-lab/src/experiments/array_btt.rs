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
//! requests of many readers at a time. Other differences of these sixteen releases, in read-ahead
//! and plugging, are not included.

use paternoster_workload::builtin::tiotest::Tiotest;

use crate::reproduce::experiment::{
    Device, Experiment, Figure, Judge, Results, Run, Workload, of, parts,
};

const NEWER: &str = "cfq";
const OLDER: &str = "slice_idle=0";
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
            "The read part of tiobench with 8 threads: 2000 MB each (his total is 14 GB), 4 KiB a \
             call; read_ahead_kb=512 and low_latency=0, his settings; hz=250.",
            "A window of read-ahead is one bio here, and nothing is merged; that file system made \
             several of it, which were: #Q, the ratio and the intervals between arrivals differ.",
            "The CFQ of 2.6.16 is not specified: `slice_idle=0` is the nearest stand-in. What else \
             changed between the two kernels is not in it.",
            "Judged is where the time goes: I2D's part of Q2C. The rest depends on files, memory \
             and an array of which nothing else is known.",
        ],
        runs: vec![run(NEWER, "cfq:low_latency=0"), run(OLDER, "cfq:low_latency=0,slice_idle=0")],
        figures: figures(),
        conclude,
    }
}

fn run(name: &str, scheduler: &str) -> Run {
    let tiotest = Tiotest {
        threads: 8,
        file_mb: 2000,
        block: 4096,
        // Only the third of its four tests: Read.
        skipped: vec![0, 1, 3],
        drop_caches: true,
        ..Tiotest::default()
    };
    let run = Run::new(name, Workload::Tiotest(tiotest), Device::Named("array-eva"), scheduler);
    run.set(&["hz=250", "read_ahead_kb=512"]).btt()
}

fn figures() -> Vec<Figure> {
    let of_report = |place: usize| {
        let (run, source) = REPORTS[place];
        let figure = move |(name, unit, published): (&str, &'static str, [f64; 2])| {
            let quantity = of(run, format!("btt {name}"));
            let figure = Figure::new(format!("{run}: {name}"), unit, quantity);
            let figure = figure.published(published[place], source);
            if name == "I2D %" { figure.judged(Judge::Within(15.0)) } else { figure }
        };
        PUBLISHED.into_iter().map(figure).collect()
    };
    parts(vec![of_report(0), of_report(1)])
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! array-tiotest: seed 001. Eight threads of tiotest on an HP EVA, under noop and under CFQ.
//!
//! CFQ's cost is in one row: sequential reads, at a third of noop's rate. Random reads are the same
//! under both, because CFQ does not wait for seeky readers.
//!
//! CFQ's Read, 98 MB/s, contradicts the 130 of `bsr` on the same array a day apart.

use paternoster_workload::builtin::tiotest::Tiotest;

use super::arrays;
use crate::reproduce::experiment::{
    Experiment, Figure, Judge, Results, Run, Workload, of, parts, ratio,
};

/// Phase; MB/s and longest call in ms, under noop and under CFQ.
const PUBLISHED: [(&str, [f64; 2], [f64; 2]); 4] = [
    ("Write", [362.410, 834.092], [323.086, 832.680]),
    ("Random Write", [156.182, 21.024], [57.148, 12.031]),
    ("Read", [267.008, 105.830], [98.311, 561.623]),
    ("Random Read", [7.478, 295.605], [7.344, 273.156]),
];
const SOURCE: &str = "tiotest -t 8 -f 2000 -r 4000 -b 4096, 22 April 2010";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "array-tiotest",
        summary: "tiotest with eight threads on an array, noop and CFQ",
        source: "Vivek Goyal, linux-kernel, 22 April 2010",
        notes: &[
            "Caches are dropped before each phase (-F); MB are 2^20 bytes.",
            "The array's random reads were fitted to noop's Random Read, nothing else to this \
             table.",
            "CFQ's Read, 98 MB/s, contradicts 130 in `bsr` on the same array. In Random Write the \
             original kept its processors busy with 485 %, which is not modelled.",
            "Some answers of the array are late, as in array-readers; nothing of that was fitted \
             to this table.",
            "Rates are judged within 15 %, longest calls within a factor of 2.",
            "hz=1000, which the thread's own arithmetic supposes (204 sectors a tick = 100 MB/s).",
        ],
        runs: ["noop", "cfq"].map(run).into(),
        figures: figures(),
        conclude,
    }
}

fn run(scheduler: &str) -> Run {
    let tiotest = Tiotest {
        threads: 8,
        file_mb: 2000,
        random_calls: 4000,
        block: 4096,
        drop_caches: true,
        ..Tiotest::default()
    };
    let workload = Workload::Tiotest(tiotest);
    Run::new(scheduler, workload, arrays::goyal(), scheduler).set(&["hz=1000"])
}

fn figures() -> Vec<Figure> {
    let mut all = vec![Vec::new(); 4];
    for (phase, noop, _) in PUBLISHED {
        let rate = Figure::new(format!("noop: {phase}"), "MB/s", of("noop", rate(phase)));
        all[0].push(rate.published(noop[0], SOURCE).fitted(phase == "Random Read"));
    }
    for (phase, _, cfq) in PUBLISHED {
        let rate = Figure::new(format!("cfq: {phase}"), "MB/s", of("cfq", rate(phase)));
        all[1].push(rate.published(cfq[0], SOURCE));
    }
    for (phase, noop, cfq) in PUBLISHED {
        let quantity = ratio(of("cfq", rate(phase)), of("noop", rate(phase)));
        let figure = Figure::new(format!("{phase}, cfq by noop"), "", quantity);
        let figure = figure.published(cfq[0] / noop[0], SOURCE);
        let is_narrow = phase == "Random Read";
        all[2].push(if is_narrow { figure.judged(Judge::Between(0.9, 1.1)) } else { figure });
    }
    for (phase, noop, cfq) in PUBLISHED {
        for (scheduler, published) in [("noop", noop[1]), ("cfq", cfq[1])] {
            let label = format!("{scheduler}: {phase}, longest call");
            let longest = of(scheduler, format!("{phase} max ms"));
            all[3].push(Figure::new(label, "ms", longest).longest(published, SOURCE));
        }
    }
    parts(all)
}

fn rate(phase: &str) -> String {
    format!("{phase} MB/s")
}

fn conclude(results: &Results) -> Vec<String> {
    let read = |scheduler: &str| results.number(scheduler, &rate("Read"));
    let (Some(noop), Some(cfq)) = (read("noop"), read("cfq")) else { return Vec::new() };
    vec![format!(
        "Eight sequential readers get {noop:.0} MB/s under noop and {cfq:.0} under CFQ, {:.2} of \
         it; published were 267 and 98, 0.37 of it.",
        cfq / noop
    )]
}

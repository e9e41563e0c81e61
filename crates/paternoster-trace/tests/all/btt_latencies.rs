// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies of recorded traces compared with btt's (`../shared/data/btt-golden`).
//!
//! Without the folder the test says so and passes.

use std::fs::File;
use std::path::Path;

use paternoster_trace::blktrace::Merged;
use paternoster_trace::record::{CoarseHistogram, Devices, FromTrace, Way};
use paternoster_trace::{Kind, Recorder};

use crate::common::skipped;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/btt-golden");

/// Number, least, mean and most of one way, as btt prints them, in nanoseconds.
fn told(text: &str, way: Way) -> Option<[u64; 4]> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(way.name()))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let ns = |word: &str| word.replacen('.', "", 1).parse::<u64>().expect("nine decimals");
    let count = words[4].parse().expect("a number");
    Some([count, ns(words[1]), ns(words[2]), ns(words[3])])
}

/// The same as recorded here.
fn recorded(case: &str) -> Option<[CoarseHistogram; 2]> {
    let folder = Path::new(FOLDER).join(case);
    let files: Vec<(String, Option<u32>, File)> = (0..)
        .map_while(|cpu| {
            let name = format!("{case}.blktrace.{cpu}");
            Some((name.clone(), Some(cpu), File::open(folder.join(name)).ok()?))
        })
        .collect();
    if files.is_empty() {
        return None;
    }
    let mut recorder = Recorder::default();
    Kind::Latency.record(&mut recorder);
    let mut trace = FromTrace::new(recorder, Devices::All);
    trace.read(&mut Merged::new(files));
    let latency = trace.finish(|_| None).0.latency.expect("asked for");
    Some(Way::ALL.map(|way| {
        let mut both = latency.total(way, false);
        both.join(latency.total(way, true));
        both
    }))
}

/// Are number, least, mean and most of D2C and Q2C btt's own? btt rounds a mean to the nearest
/// nanosecond, we round it down. Where bios were merged (`merge`: 7 bios in 3 requests, one of them
/// refused and issued again) btt counts D2C once for each bio, while we and iowatcher count it once
/// for each request; so its number and mean are not compared there.
#[test]
fn latencies_are_btts() {
    for (case, merged) in [("basic", false), ("bigendian", false), ("merge", true)] {
        let Some(ours) = recorded(case) else {
            skipped(&format!("no recordings {FOLDER}/{case}"));
            continue;
        };
        let text = std::fs::read_to_string(format!("{FOLDER}/{case}/btt.txt")).expect("btt's");
        for (way, ours) in Way::ALL.into_iter().zip(ours) {
            let [count, least, mean, most] = told(&text, way).expect("a line of btt's");
            let what = format!("{case} {}", way.name());
            assert_eq!((ours.least().0, ours.most().0), (least, most), "{what}");
            if merged && way == Way::Device {
                assert_eq!((count, ours.count()), (7, 3), "{what}");
            } else {
                assert_eq!(ours.count(), count, "{what}");
                assert!(mean - ours.mean().0 <= 1, "{what}: {mean} {}", ours.mean());
            }
        }
    }
}

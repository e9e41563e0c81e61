// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts of `paternoster reproduce`: do the published figures come out? What else the
//! command prints is in `tests/all/reproduce.rs`.

use serde_json::Value;

use crate::common::reproduce::document;
use crate::common::too_slow;

/// Of `array-readers`: under cfq eight readers are 15.3 % low and sixteen 19.7, where 15 are
/// allowed; merged queues get less than published with one and two readers and more with eight and
/// sixteen; and how noop's longest calls compare with cfq's. Sixteen readers on one disk have
/// 89.4 % of bfq's rate under paternoster: its turns are 50 ms, 0.8 s for all, and bfq's are 125.
const READERS_OUTSIDE: [&str; 17] = [
    "cfq, 8 readers",
    "cfq, 16 readers",
    "merge plain, 8 readers",
    "merge plain, 16 readers",
    "merge, 1 reader",
    "merge, 2 readers",
    "merge, 8 readers",
    "merge, 16 readers",
    "merge from cfq (0) to noop (1), 4 readers",
    "merge from cfq (0) to noop (1), 8 readers",
    "merge from cfq (0) to noop (1), 16 readers",
    "one disk: paternoster by the best that idles, 16 readers",
    "cfq, 16 readers: longest call",
    "merge, 8 readers: longest call",
    "longest call, noop by cfq, 4 readers",
    "longest call, noop by cfq, 8 readers",
    "longest call, noop by cfq, 16 readers",
];

/// Of `array-tiotest`: random writes, and longest calls of writes and of noop's random reads.
const TIOTEST_OUTSIDE: [&str; 8] = [
    "noop: Random Write",
    "cfq: Random Write",
    "Random Write, cfq by noop",
    "noop: Write, longest call",
    "cfq: Write, longest call",
    "noop: Random Write, longest call",
    "cfq: Random Write, longest call",
    "noop: Random Read, longest call",
];

/// Of `array-btt`: more I/Os were outstanding than its readers ask for; and nothing is plugged.
const BTT_OUTSIDE: [&str; 19] = [
    "cfq: Q2G us",
    "cfq: I2D us",
    "cfq: M2D us",
    "cfq: D2C us",
    "cfq: Q2C us",
    "cfq: Q2G %",
    "cfq: D2C %",
    "cfq: Q2Q seek",
    "cfq: D2D seek",
    "cfq: reqs @ Q",
    "slice_idle=0: Q2G us",
    "slice_idle=0: I2D us",
    "slice_idle=0: M2D us",
    "slice_idle=0: Q2G %",
    "slice_idle=0: I2D %",
    "slice_idle=0: ratio",
    "slice_idle=0: D2D seek",
    "slice_idle=0: reqs @ Q",
    "slice_idle=0: active periods",
];

/// Of `ssd-injection-mixed`: readers that read on in large calls, or jump seldom.
const MIXED_OUTSIDE: [&str; 13] = [
    "5 sequential, 4k: coefficient by none",
    "1 sequential, 128k: coefficient by none",
    "2 sequential, 128k: coefficient by none",
    "3 sequential, 128k: coefficient by none",
    "4 sequential, 128k: coefficient by none",
    "5 sequential, 128k: coefficient by none",
    "1 sequential, 128k, heaviest first: coefficient by none",
    "2 sequential, 128k, heaviest first: coefficient by none",
    "3 sequential, 128k, heaviest first: coefficient by none",
    "4 sequential, 128k, heaviest first: coefficient by none",
    "all jump, 60 %: coefficient by none",
    "all jump, 40 %: coefficient by none",
    "all jump, 20 %: coefficient by none",
];

/// Which judged figures of an experiment are outside? The exit status says whether any is.
fn outside(name: &str) -> Vec<String> {
    let (experiment, status) = document(name);
    let figures = experiment["figures"].as_array().expect("figures");
    let outside = |figure: &&Value| figure["verdict"].as_str().unwrap().starts_with("outside");
    let text = |figure: &Value| figure["figure"].as_str().expect("a name").to_owned();
    let all: Vec<String> = figures.iter().filter(outside).map(text).collect();
    let ok = all.is_empty();
    assert_eq!((&experiment["ok"], status), (&Value::Bool(ok), Some(i32::from(!ok))), "{name}");
    all
}

/// Are all judged figures of an experiment as published?
fn holds(name: &str) {
    let outside = outside(name);
    assert!(outside.is_empty(), "{name}: {outside:?}");
}

/// Do the experiments on the array hold, except for what is known to fall short? docs/reproduce.md
/// has the reasons; when one of these comes in, this test says so. And paternoster has at least
/// 97 % of noop on the array whatever the number of readers, and on one disk with up to 8 readers
/// 95 % of the best that idles.
///
/// Half a minute in release and minutes in debug: there it only says that it did nothing. `./test`
/// runs it with `--release` too.
#[test]
fn arrays_hold_but_for_what_is_known() {
    if too_slow() {
        return;
    }
    assert_eq!(outside("array-readers"), READERS_OUTSIDE);
    assert_eq!(outside("array-btt"), BTT_OUTSIDE);
    assert_eq!(outside("array-tiotest"), TIOTEST_OUTSIDE);
    assert_eq!(outside("array-dd"), ["cfq by noop, far", "cfq by noop, interleaved:1m"]);
    assert_eq!(outside("array-disktest"), ["cfq: reads of 4 KiB a second", "cfq by noop"]);
}

/// Do the experiments of seed 002 hold: 110 MB/s without a scheduler, 25 under bfq, 100 with
/// injection by coefficient, each as near as it is told? Known to fall short: a real kernel's bfq
/// injects less on an emulated drive, and not every mix of less random I/O reaches none. Seconds in
/// release.
#[test]
fn injection_holds() {
    if too_slow() {
        return;
    }
    assert_eq!(outside("ssd-injection"), ["emulated, measured"]);
    assert_eq!(outside("ssd-injection-mixed"), MIXED_OUTSIDE);
}

/// Do the two repairs of seed 004 do what they are for: a queue is found by its next request, and a
/// split raises none where none should be raised?
#[test]
fn repairs_of_merging_hold() {
    holds("position-tree");
    holds("early-merge-low-latency");
}

/// Are queues put by position less often with the merge window than without?
#[test]
fn merge_cost_holds() {
    if too_slow() {
        return;
    }
    holds("merge-cost");
}

/// Without the merge window, does a program that starts among readers and writers come to share a
/// queue with them in at least 5 of 100 starts, one of which takes at least a tenth longer than the
/// median; and with the window, does the longest take at most a twentieth longer? With the window
/// none should be merged, but one is, in its first 100 ms: a known shortfall. And does the table
/// of starts under all schedulers hold, except that bfq's is a quarter shorter here? And under
/// paternoster on NVMe a start takes at most 1.25 times as long as alone; the others keep 90 %.
#[test]
fn starts_hold_but_for_merges_at_the_beginning() {
    if too_slow() {
        return;
    }
    assert_eq!(outside("merge-window"), ["with: starts of 100 merged"]);
    assert_eq!(outside("startup"), ["flash, 10 readers: bfq"]);
}

/// Does seed 003 hold: the hold loses nothing anywhere, and the default is the best of all settings
/// on average? The tail loses 53 % at worst, where the seed has 20 with a number of threads that it
/// does not tell: a known shortfall. And does a reader keep its half despite flushes, and the
/// writer its own, in every second?
#[test]
fn flushes_hold() {
    if too_slow() {
        return;
    }
    assert_eq!(outside("flush-hold"), ["tail: least by head"]);
    holds("flush-owner");
    holds("flush-options");
}

/// Does a client that is owed half of a device get it under paternoster, whatever sessions it
/// competes with?
#[test]
fn the_victim_has_its_half() {
    if too_slow() {
        return;
    }
    holds("victim");
}

/// Do programs' own doors come out as published, and does the gate do what they wanted, except for
/// what is known to fall short? On spinning disks no number of flushes gives both, all bytes and
/// half the tail; the notes of the experiment say why.
#[test]
fn published_cases_of_the_gate_hold() {
    if too_slow() {
        return;
    }
    for name in ["gate-seastar", "gate-ceph", "gate-eloqstore"] {
        holds(name);
    }
    assert_eq!(outside("gate-agentenv"), ["two of 200"]);
    assert_eq!(outside("gate-riffle"), ["gate by 32, all"]);
}

/// Is every figure of seed 000 within 4 % of the unpatched and 8 % of the patched table? And does
/// paternoster divide the same pairs evenly?
#[test]
fn flash_fairness_holds() {
    holds("flash-fairness");
}

/// Is the listing of seed 001 the same, line by line?
#[test]
fn array_sysfs_holds() {
    holds("array-sysfs");
}

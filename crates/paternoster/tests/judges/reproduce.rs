// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts of `paternoster reproduce`: do the published figures come out? What else the
//! command prints is in `tests/all/reproduce.rs`.

use serde_json::Value;

use crate::common::reproduce::document;
use crate::common::too_slow;

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

/// Do the experiments on the array hold, except for what is known to fall short? Sixteen readers
/// under cfq are 18.5 % low where 15 are allowed: with slices of 19 ms the model's prefetch
/// restarts too often. Merged queues get less than published with four readers and more with eight
/// and sixteen; the array has no tail, so that noop's longest calls are too short compared with
/// cfq's; and a request passes the scheduler of 2.6.16 at once. When one of these is fixed, this
/// test says so. And paternoster has at least 97 % of noop on the array whatever the number of
/// readers, and on one disk 95 % of the best that idles.
///
/// Half a minute in release and minutes in debug: there it only says that it did nothing. `./test`
/// runs it with `--release` too.
#[test]
fn arrays_hold_but_for_what_is_known() {
    if too_slow() {
        return;
    }
    let known = [
        "cfq, 16 readers",
        "merge from cfq (0) to noop (1), 4 readers",
        "merge from cfq (0) to noop (1), 8 readers",
        "merge from cfq (0) to noop (1), 16 readers",
        "longest call, noop by cfq, 4 readers",
        "longest call, noop by cfq, 8 readers",
        "longest call, noop by cfq, 16 readers",
    ];
    assert_eq!(outside("array-readers"), known);
    assert_eq!(outside("array-btt"), ["slice_idle=0: I2D %"]);
    for name in ["array-tiotest", "array-dd", "array-disktest"] {
        holds(name);
    }
}

/// Do the experiments of seed 002 hold: 110 MB/s without a scheduler, 25 under bfq, 100 with
/// injection by coefficient, each as near as it is told? Seconds in release.
#[test]
fn injection_holds() {
    if too_slow() {
        return;
    }
    holds("ssd-injection");
    holds("ssd-injection-mixed");
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
/// of starts under all schedulers hold? Only paternoster on NVMe is judged: a start takes at most
/// 1.25 times as long as alone, while the others keep 90 %.
#[test]
fn starts_hold_but_for_merges_at_the_beginning() {
    if too_slow() {
        return;
    }
    assert_eq!(outside("merge-window"), ["with: starts of 100 merged"]);
    holds("startup");
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
    for name in ["flush-options", "flush-owner"] {
        holds(name);
    }
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
/// what is known to fall short? With a burst of large writes in a limit's line reads get fewer
/// bytes than they ask for; and on spinning disks no number of flushes gives both, all bytes and
/// half the tail. The notes of the two say why.
#[test]
fn published_cases_of_the_gate_hold() {
    if too_slow() {
        return;
    }
    for name in ["gate-seastar", "gate-ceph", "gate-agentenv"] {
        holds(name);
    }
    assert_eq!(outside("gate-eloqstore"), ["bursts: gate by without"]);
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

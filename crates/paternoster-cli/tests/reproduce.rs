// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster reproduce` as a person or a script meets it; and the verdicts of the experiments
//! that are quick.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn reproduce(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("reproduce").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Runs one experiment; its part of the document and the exit status.
fn document(name: &str) -> (Value, Option<i32>) {
    let output = reproduce(&[name, "-q", "--output-format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {}", text(&output.stderr)));
    (document["experiments"][0].clone(), output.status.code())
}

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

/// Do the experiments on the array hold, but for what is known to fall short? Sixteen readers under
/// cfq are 18.5 % low where 15 are allowed: with slices of 19 ms the model's prefetch begins anew
/// too often. When that is mended, this test says so. And paternoster has at least 97 % of noop on
/// the array whatever the number of readers, and on one disk 95 % of the best that idles.
///
/// Half a minute in release and minutes in debug: there it only says that it did nothing. `./test`
/// runs it with `--release` too.
#[test]
fn arrays_hold_but_for_sixteen_readers() {
    if cfg!(debug_assertions) {
        println!("nothing is run in debug");
        return;
    }
    assert_eq!(outside("array-readers"), ["cfq, 16 readers"]);
    for name in ["array-tiotest", "array-dd", "array-disktest", "array-btt"] {
        holds(name);
    }
}

/// Do the experiments of seed 002 hold: 110 MB/s without a scheduler, 25 under bfq, at least 100
/// with injection by coefficient, and not more than without a scheduler? Seconds in release.
#[test]
fn injection_holds() {
    if cfg!(debug_assertions) {
        println!("nothing is run in debug");
        return;
    }
    holds("ssd-injection");
    holds("ssd-injection-mixed");
}

/// Do the two repairs of seed 004 do what they are for: a queue is found by its next request, and a
/// split raises nobody where nobody is to be raised?
#[test]
fn repairs_of_merging_hold() {
    holds("position-tree");
    holds("early-merge-low-latency");
}

/// Are queues put by position less often with the merge window than without?
#[test]
fn merge_cost_holds() {
    if cfg!(debug_assertions) {
        println!("nothing is run in debug");
        return;
    }
    holds("merge-cost");
}

/// Does a program that starts beside readers and writers come to share a queue with them without
/// the merge window, in at least 5 of 100 starts, one of which takes at least a tenth longer than
/// the median, while with the window the longest takes at most a twentieth longer? Of those with
/// the window none should be merged, but two are, in their first 100 ms: known to fall short. And
/// does the table of starts under all schedulers hold? Only paternoster on NVMe is judged: at most
/// 1.25 times as long as alone, while the others keep 90 %.
#[test]
fn starts_hold_but_for_merges_at_the_beginning() {
    if cfg!(debug_assertions) {
        println!("nothing is run in debug");
        return;
    }
    assert_eq!(outside("merge-window"), ["with: starts of 100 merged"]);
    holds("startup");
}

/// Does seed 003 hold: the tail loses at least 10 % somewhere, the hold nothing anywhere, and what
/// is done when nothing is said is the best of all settings on average? And does a reader beside
/// flushes keep its half, the writer its own, in every second?
#[test]
fn flushes_hold() {
    if cfg!(debug_assertions) {
        println!("nothing is run in debug");
        return;
    }
    for name in ["flush-hold", "flush-options", "flush-owner"] {
        holds(name);
    }
}

/// Has one that is owed half of a device half of it under paternoster, whatever the sessions beside
/// it?
#[test]
fn the_victim_has_its_half() {
    if cfg!(debug_assertions) {
        println!("nothing is run in debug");
        return;
    }
    holds("victim");
}

/// Is every figure of seed 000 within 4 % of the unpatched and 8 % of the patched table? And is
/// paternoster's division of the same pairs even?
#[test]
fn flash_fairness_holds() {
    holds("flash-fairness");
}

/// Is the listing of seed 001 the same, line by line?
#[test]
fn array_sysfs_holds() {
    holds("array-sysfs");
}

/// Do the commands print what the experiment compares: is the listing by hand the same?
#[test]
fn commands_do_the_same_by_hand() {
    let output = reproduce(&["array-sysfs", "--commands"]);
    let lines = text(&output.stdout);
    let line = lines.lines().find(|line| line.starts_with("paternoster ")).expect("a command");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    let by_hand = command.args(line.split_whitespace().skip(1)).output().expect("it starts");
    let listing = text(&by_hand.stdout);
    assert_eq!(listing.lines().count(), 29, "{}", text(&by_hand.stderr));
    assert!(listing.starts_with("./iosched/quantum:8\n./iosched/fifo_expire_sync:124\n"));
}

/// Is the JSON of the shape that scripts read, and the same each time?
#[test]
fn json_has_its_shape() {
    let (experiment, _) = document("array-sysfs");
    for key in ["name", "summary", "source", "ok", "figures", "notes", "conclusion", "runs"] {
        assert!(!experiment[key].is_null(), "{key} is missing");
    }
    let figure = &experiment["figures"][0];
    let keys: Vec<&str> = figure.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "figure",
        "unit",
        "source",
        "published",
        "reproduced",
        "difference_percent",
        "tolerance",
        "judged",
        "fitted",
        "verdict",
    ] {
        assert!(keys.contains(&key), "{key} is missing of {keys:?}");
    }
    let twice = [(); 2].map(|()| reproduce(&["array-disktest", "-q"]).stdout);
    assert_eq!(text(&twice[0]), text(&twice[1]));
}

/// Does a name that there is not get an answer with those that there are, and status 2?
#[test]
fn unknown_names_are_refused() {
    let output = reproduce(&["flash-unfairness"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = text(&output.stderr);
    let expected = "paternoster: there is no experiment `flash-unfairness`; there are \
                    flash-fairness, flash-fairness-ncq, array-readers, ";
    assert!(message.starts_with(expected), "{message}");
}

/// Does the list name every experiment with its source, without running one?
#[test]
fn the_list_names_all() {
    let list = text(&reproduce(&["--list"]).stdout);
    for name in [
        "flash-fairness",
        "flash-fairness-ncq",
        "array-readers",
        "array-tiotest",
        "array-disktest",
        "array-dd",
        "array-btt",
        "array-sysfs",
        "position-tree",
        "early-merge-low-latency",
        "merge-window",
        "merge-cost",
        "startup",
        "ssd-injection",
        "ssd-injection-mixed",
        "victim",
    ] {
        assert!(list.contains(name), "{name} is not in {list}");
    }
    for seed in ["seed 000", "seed 001", "seed 002", "seed 004"] {
        assert!(list.contains(seed), "{list}");
    }
}

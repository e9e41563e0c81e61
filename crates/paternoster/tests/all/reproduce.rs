// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster reproduce` as a user or a script meets it. Its verdicts are in
//! `tests/judges/reproduce.rs`.

use std::process::Command;

use crate::common::reproduce::{document, reproduce, text};

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

/// Does the JSON have the shape that scripts read, the same each time?
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
    let twice = [(); 2].map(|()| reproduce(&["merge-cost", "-q"]).stdout);
    assert_eq!(text(&twice[0]), text(&twice[1]));
}

/// Does an unknown name get an answer with the known ones, and status 2?
#[test]
fn unknown_names_are_refused() {
    let output = reproduce(&["flash-unfairness"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = text(&output.stderr);
    let expected = "paternoster: there is no experiment `flash-unfairness`; did you mean \
                    `flash-fairness`? Known are flash-fairness, flash-fairness-ncq, ";
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
        "gate-riffle",
        "gate-seastar",
        "gate-eloqstore",
        "gate-ceph",
        "gate-agentenv",
    ] {
        assert!(list.contains(name), "{name} is not in {list}");
    }
    for author in ["Corrado Zoccolo", "Vivek Goyal", "Paolo Valente", "Shaohua Li"] {
        assert!(list.contains(author), "{list}");
    }
}

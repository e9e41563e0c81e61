// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster guarantees` as a user meets it: does it print the table in the documentation?

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::too_slow;

fn guarantees(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("guarantees").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// Is every row of the documentation what the program prints, in its order?
///
/// Ten seconds in release and minutes in debug: there it only says that it did nothing. `./test`
/// runs it with `--release` too.
#[test]
fn the_documentation_shows_real_output() {
    if too_slow() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schedulers/guarantees.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let output = guarantees(&["-q", "--output-format=markdown"]);
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect()
    };
    assert!(rows(&printed).len() > 20);
    assert_eq!(rows(&page), rows(&printed), "paternoster guarantees --output-format=markdown");
}

/// Does the table say that noop keeps no shares of groups and bfq does, JSON the same, and does
/// each promise have an answer?
#[test]
fn a_scheduler_with_weights_keeps_shares() {
    if too_slow() {
        return;
    }
    let asked = ["--scheduler", "noop", "--scheduler", "bfq", "-q"];
    let printed = |form| {
        let output = guarantees(&[&asked[..], &["--output-format", form]].concat());
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    let document: Value = serde_json::from_str(&printed("json")).expect("JSON");
    let kept: Vec<&Value> = document["schedulers"]
        .as_array()
        .expect("schedulers")
        .iter()
        .map(|row| {
            let promises = row["promises"].as_object().expect("promises");
            assert!(promises.values().all(|promise| promise["found"].is_number()), "{row}");
            &promises["groups"]["kept"]
        })
        .collect();
    assert_eq!(kept, [&Value::Bool(false), &Value::Bool(true)], "{document}");
    let table = printed("table");
    let head = table.lines().position(|line| line.starts_with(" scheduler")).expect("a head");
    let words = |line: usize| table.lines().nth(head + line).expect("a line").split_whitespace();
    let groups = words(0).position(|word| word == "groups").expect("a column");
    // "no 1.02" is two words: after the scheduler's name the answers are at the odd places.
    let answers = [1, 2].map(|line| words(line).nth(2 * groups - 1).expect("an answer"));
    assert_eq!(answers, ["no", "yes"], "{table}");
    assert_eq!([1, 2].map(|line| words(line).next()), [Some("noop"), Some("bfq")], "{table}");
}

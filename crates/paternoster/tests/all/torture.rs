// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster torture` as a user meets it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn torture(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("torture").args(arguments).arg("-q").stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// Does every named scheduler have a line, with an answer for each law?
#[test]
fn each_scheduler_has_a_line_of_laws() {
    // Three paced readers on the lab's disk.
    let asked = ["--cases", "1", "--seed", "109", "--scheduler", "noop", "--scheduler", "kyber"];
    let output = torture(&asked);
    assert_eq!(output.status.code(), Some(0), "{}", text(output.stderr));
    let table = text(output.stdout);
    let head = table.lines().nth(2).expect("a head");
    assert!(head.contains("waits") && head.contains("repeats"), "{table}");
    let line = |name: &str| table.lines().find(|line| line.trim_start().starts_with(name));
    for name in ["noop", "kyber"] {
        assert_eq!(line(name).map(|line| line.matches("ok").count()), Some(7), "{table}");
    }
    let output = torture(&[&asked[..], &["--output-format", "json"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    crate::results::conforms(&document);
    assert_eq!(document["schedulers"].as_array().map(Vec::len), Some(2), "{document:#}");
    assert_eq!(document["found"].as_array().map(Vec::len), Some(0), "{document:#}");
}

/// Is an unknown scheduler, attribute or value refused before anything runs, with what would be
/// right?
#[test]
fn what_there_is_not_is_refused() {
    let wrong = [("bfk", "bfq"), ("bfq:nonsense=1", "lists them"), ("bfq:slice_idle=x", "slice")];
    for (scheduler, right) in wrong {
        let output = torture(&["--scheduler", scheduler]);
        let message = text(output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(scheduler.rsplit(':').next().unwrap_or(scheduler)), "{message}");
        assert!(message.contains(right), "{message}");
    }
}

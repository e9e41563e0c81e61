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
        assert_eq!(line(name).map(|line| line.matches("ok").count()), Some(8), "{table}");
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

/// Does the command in a saved job file repeat what its first line says? A client writes through a
/// page cache, so that the memory must be the same. Turns of four seconds, which no rule excuses,
/// let it wait for as long as its longest write.
#[test]
fn the_command_in_a_saved_file_repeats_the_finding() {
    let folder = std::env::temp_dir().join(format!("paternoster-found-{}", std::process::id()));
    let path = folder.display().to_string();
    let scheduler = "bfq:low_latency=0,timeout_sync=4000";
    let asked = ["--cases", "1", "--seed", "183", "--scheduler", scheduler, "--save", &path];
    let output = torture(&asked);
    assert_eq!(output.status.code(), Some(1), "{}", text(output.stderr));
    let file = std::fs::read_to_string(folder.join("seed-183-waits.fio")).expect("a saved file");
    let mut lines = file.lines();
    let finding = lines.next().unwrap_or_default();
    let field = |name: &str| {
        let (_, rest) = finding.split_once(name)?;
        rest.split([',', ' ']).next()?.parse::<f64>().ok()
    };
    let (place, waited) = (field("place: ").expect("a place"), field("waited: ").expect("a wait"));
    let first = lines.next().and_then(|line| line.strip_prefix("# in this folder: paternoster "));
    let first = first.and_then(|line| line.strip_suffix(" \\")).expect("a command");
    let more = lines.next().and_then(|line| line.strip_prefix("#   ")).expect("the rest of it");
    let command = first.split(' ').chain(more.split(' ')).chain(["--format", "json"]);
    let mut program = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    let program = program.args(command).current_dir(&folder).stdin(Stdio::null());
    let output = program.output().expect("the program starts");
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let jobs = document["runs"][0]["jobs"].as_array().expect("jobs");
    let job = jobs.iter().find(|job| job["job"] == format!("c{place}")).expect("the client");
    let longest = ["read", "write"].map(|one| job[one]["max_ns"].as_f64().unwrap_or(0.0) / 1e9);
    let longest = longest[0].max(longest[1]);
    assert!((longest - waited).abs() < 1e-6, "{finding}: {longest}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster compare` as a user meets it. `tests/judges/recipes.rs` checks whether the tables in
//! docs/which-scheduler.md are what it prints.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs/recipes/containers.fio");

fn compare(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["compare", JOB, "-q"]).args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// A disk, so that debug builds have little to do.
const SMALL: [&str; 10] = [
    "--device",
    "hdd-7200",
    "--runtime",
    "1",
    "--seeds",
    "2",
    "--scheduler",
    "noop",
    "--scheduler",
    "bfq",
];

/// Is the document of the stated version, with each scheduler, job and goal, and is the best first?
/// Keys may be added to version 1, but none removed.
#[test]
fn the_document_keeps_its_schema() {
    let output = compare(&[&SMALL[..], &["--goal", "gold p99<1us", "--format", "json"]].concat());
    assert!(output.status.success(), "{}", text(output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["seeds"], 2);
    assert_eq!(document["device"], "hdd-7200");
    let rows = document["schedulers"].as_array().expect("schedulers");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["scheduler"], document["best"]);
    for row in rows {
        assert_eq!(row["meets_goals"], false, "no disk reads within 1 us: {row}");
        assert_eq!(row["goals"][0]["met"], false);
        assert!(row["goals"][0]["miss"].as_f64().is_some_and(|miss| miss > 1.0), "{row}");
        assert!(row["least_share"]["median"].is_number() && row["work"]["median"].is_number());
        let jobs = row["jobs"].as_array().expect("jobs");
        let names: Vec<&str> = jobs.iter().filter_map(|job| job["job"].as_str()).collect();
        assert_eq!(names, ["gold", "plain", "flood"]);
        for key in ["iops", "bytes_per_second", "p50_ns", "p99_ns", "p99.9_ns", "max_ns", "share"] {
            let spread = &jobs[0][key];
            let of = |name: &str| spread[name].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
            assert!(of("least") <= of("median") && of("median") <= of("most"), "{key}: {spread}");
        }
    }
    let why = document["why"].as_str().expect("a sentence");
    assert!(why.starts_with("No scheduler meets all goals"), "{why}");
}

/// Is the best row marked, no escape code sent without a terminal, and does CSV have a line for
/// each scheduler and job after its head: 2 x 3 and one?
#[test]
fn table_and_lines() {
    let table = text(compare(&SMALL).stdout);
    assert!(table.lines().nth(3).is_some_and(|line| line.starts_with(" *")), "{table}");
    assert!(table.contains("least share") && !table.contains('\x1b'), "{table}");
    let lines = text(compare(&[&SMALL[..], &["--format", "csv"]].concat()).stdout);
    assert_eq!(lines.lines().count(), 7, "{lines}");
    let columns = |line: &str| line.split(',').count();
    assert!(lines.lines().all(|line| columns(line) == 14), "{lines}");
}

/// Is a mistake refused before anything runs, and named, with what would be right?
#[test]
fn what_is_wrong_is_refused() {
    for (arguments, wrong, right) in [
        (["--goal", "golt p99<5ms"], "`golt`", "did you mean `gold`?"),
        (["--goal", "gold p99<5"], "`5`", "5ms"),
        (["--scheduler", "bfk"], "`bfk`", "bfq"),
        (["--scheduler", "bfq:nonsense=1"], "nonsense", "lists them"),
        (["--runtime", "soon"], "soon", "--runtime"),
    ] {
        let output = compare(&[&["--device", "null"], &arguments[..]].concat());
        let message = text(output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(wrong) && message.contains(right), "{message}");
    }
}

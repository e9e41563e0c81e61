// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of `--html`, and `--explain`: are they complete, and do the parts of a wait sum to it?

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::results::conforms;

/// The program's output, given these words.
fn told(words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = command.args(words.split(' ')).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn file(name: &str) -> String {
    format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"))
}

/// A database with syncs and a backup.
const RUN: &str = "jobs/recipes/database.fio --device ssd-870evo --runtime=100ms -q";

/// The same, for commands that run it several times.
fn short(run: &str) -> String {
    run.replace("100ms", "50ms")
}

/// Do the parts of each longest wait sum to it, under schedulers that idle, merge, hold back
/// requests and send flushes, and does the document follow its schema?
#[test]
fn parts_sum_to_the_wait() {
    let schedulers = "--scheduler=none --scheduler=cfq --scheduler=bfq --scheduler=paternoster";
    let document = told(&format!("run {} {schedulers} --explain --format=json", short(RUN)));
    let document: Value = serde_json::from_str(&document).expect("one document");
    conforms(&document);
    let runs = document["runs"].as_array().expect("runs");
    for run in runs {
        let waits = run["waits"].as_array().expect("waits");
        assert!(waits.len() >= 2, "{run:#}");
        for wait in waits {
            let parts = wait["parts"].as_array().expect("parts");
            let sum: u64 = parts.iter().map(|part| part["ns"].as_u64().expect("a number")).sum();
            assert_eq!(Some(sum), wait["latency_ns"].as_u64(), "{wait:#}");
        }
    }
    assert_eq!(runs.len(), 4);
}

/// Does `--explain` say below the table which clients had the device meanwhile?
#[test]
fn a_wait_is_explained() {
    let text = told(&format!("run {RUN} --scheduler=none --explain --format table"));
    let (_, explained) = text.split_once("none: the longest wait of each client\n").expect(&text);
    for words in ["backup: ", " for a flush, asked for at ", "while backup had the device"] {
        assert!(explained.contains(words), "{words}: {text}");
    }
    assert!(!told(&format!("run {RUN} --scheduler=none --format table")).contains("longest wait"));
}

/// Does a page have the headline first, then each client over time, turns, tables and the command,
/// and nothing external; is it the same again, and the same as `--format html`?
#[test]
fn pages_have_all_parts() {
    let (trace, page) = (file("page-trace"), file("page.html"));
    let commands = [
        format!("run {} --scheduler=none --scheduler=bfq --trace {trace}", short(RUN)),
        format!("compare {} --scheduler=none --scheduler=bfq --seeds 1", short(RUN)),
        format!("replay {trace}.bfq --device ssd-870evo --scheduler none -q"),
    ];
    for command in commands {
        told(&format!("{command} --html {page}"));
        let html = std::fs::read_to_string(&page).expect("it was written");
        let parts = [
            "In short</h2>",
            "none: each client over time</h2>",
            "Share of bytes",
            "Turns: who had the device, and what waited</h2>",
            "The device</h2>",
            "About</h2>",
        ];
        let places: Vec<Option<usize>> = parts.iter().map(|part| html.find(part)).collect();
        assert!(places.iter().all(Option::is_some), "{command}: {places:?}");
        // Headings are also in the list of sections, so the last of each is checked.
        let last: Vec<Option<usize>> = parts.iter().map(|part| html.rfind(part)).collect();
        let order = [last[0], last[3], last[4], last[5]];
        assert!(order.windows(2).all(|two| two[0] < two[1]), "{command}: {last:?}");
        assert!(html.contains(&format!("paternoster {}", command.split(' ').next().expect("one"))));
        assert!(html.contains(concat!("paternoster ", env!("CARGO_PKG_VERSION"))));
        let elsewhere = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http:") && !elsewhere.contains("https:"), "{command}");
        if command.starts_with("compare") {
            continue;
        }
        let again = told(&format!("{command} --format html"));
        let strip = |page: &str| page.replace(&format!(" --html {page}"), "");
        let cut = |page: &str| page.rsplit_once("About</h2>").map(|(before, _)| before.len());
        assert_eq!(cut(&strip(&html)), cut(&strip(&again)), "{command}");
    }
    for cpu in 0..4 {
        for run in ["none", "bfq"] {
            let _absent = std::fs::remove_file(format!("{trace}.{run}.blktrace.{cpu}"));
        }
    }
}

/// Is a page that cannot be written refused before anything runs?
#[test]
fn a_page_needs_a_folder() {
    for command in ["run", "compare"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_paternoster"));
        program.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let words = format!("{command} {RUN} --html nowhere/page.html");
        let output = program.args(words.split(' ')).stdin(Stdio::null()).output();
        let output = output.expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--html nowhere/page.html: there is no folder nowhere"), "{said}");
    }
}

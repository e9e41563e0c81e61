// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first five minutes: what a user without a clone has, completions, Ctrl-C.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::skipped;

const PROGRAM: &str = env!("CARGO_BIN_EXE_paternoster");

fn paternoster(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// An empty folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("paternoster-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Do the examples of `--help` work outside a clone, with the jobs that the first one writes?
#[test]
fn the_examples_of_the_help_work_anywhere() {
    let folder = folder("anywhere");
    let help = text(&paternoster(&folder, &["--help"]).stdout);
    let lines: Vec<&str> = help.lines().filter_map(|l| l.strip_prefix("  paternoster ")).collect();
    assert!(lines[0].starts_with("examples --write jobs"), "{help}");
    // Not those that read a user's trace or disk; of a comparison only the job is checked.
    let mut tried = 0;
    for line in lines {
        let words = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        match words[0] {
            "compare" => assert!(folder.join(words[1]).exists(), "{words:?}"),
            "examples" | "devices" | "run" => {
                let short = ["--runtime=100ms", "--no-entitlement"];
                let more = if words[0] == "run" { &short[..] } else { &[] };
                let output = paternoster(&folder, &[&words[..], more].concat());
                assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
                tried += 1;
            }
            _ => {}
        }
    }
    assert!(tried >= 4, "{help}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Is the default device named, on standard error and in the table?
#[test]
fn the_default_device_is_named() {
    let job = ["run", "--name=a", "--size=1m", "--direct=1", "--output-format=table"];
    let output = paternoster(Path::new("."), &job);
    assert!(text(&output.stderr).contains("note: device ssd-870evo, as none was named"));
    assert!(text(&output.stdout).starts_with("device ssd-870evo\n"));
}

/// Does bash complete devices, schedulers, attributes, experiments and commands?
#[test]
fn bash_completes_values() {
    if Command::new("bash").arg("--version").output().is_err() {
        return skipped("bash is not there");
    }
    let script = text(&paternoster(Path::new("."), &["completions", "bash"]).stdout);
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let ask = format!(
            "{script}\nCOMP_WORDS=({line}); COMP_CWORD={}; COMP_LINE='{line}'; \
             _paternoster paternoster '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        // More than an argument may have.
        let mut bash = Command::new("bash");
        let bash = bash.args(["--norc", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut bash = bash.spawn().expect("it starts");
        let input = bash.stdin.take().expect("a pipe").write_all(ask.as_bytes());
        input.expect("it reads everything");
        let output = bash.wait_with_output().expect("it ends");
        text(&output.stdout).trim().to_owned()
    };
    for (line, expected) in [
        ("paternoster comp", "compare\ncompletions"),
        ("paternoster run --device nvme-p", "nvme-pm9a3"),
        ("paternoster compare --device ssd-pm8", "ssd-pm883"),
        ("paternoster emulate lab-d", "lab-disk"),
        ("paternoster run --scheduler ky", "kyber"),
        ("paternoster schedulers mq-deadline-", "mq-deadline-6.8"),
        ("paternoster run --set slice_idle_u", "slice_idle_us="),
        ("paternoster reproduce flash-fairness-", "flash-fairness-ncq"),
        // No model begins like this: bash goes on with files.
        ("paternoster run --device ./mine", ""),
        // The device of a trace is not one of ours.
        ("paternoster analyze --device nvme-p", ""),
    ] {
        assert_eq!(complete(line), expected, "{line}");
    }
}

/// Does Ctrl-C end a run with the results so far, further runs left out, and status 130?
#[test]
fn an_interrupted_run_reports() {
    // It never ends by itself, and reports once per virtual second.
    let job = "run -q --name=a --rw=randread --size=1g --direct=1 --time_based --runtime=300000 \
               --status-interval=1 --scheduler=noop --scheduler=bfq --no-entitlement";
    let mut command = Command::new(PROGRAM);
    command.args(job.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut first = [0];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).expect("it tells a status");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let (told, notes) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{notes}");
    assert!(notes.contains("interrupted: the last run was not done to its end, 1 were"), "{notes}");
    let table = told.split("device ssd-870evo").nth(1).expect("a table");
    let rows = |scheduler: &str| {
        table.lines().filter(|line| line.split_whitespace().any(|word| word == scheduler)).count()
    };
    assert_eq!((rows("noop"), rows("bfq")), (1, 0), "{table}");
    // A pipe loses the exit status.
    assert!(table.contains("Interrupted: this is what was there when Ctrl-C came"), "{table}");
}

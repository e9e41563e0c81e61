// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--perfetto`: are all runs in one file, the same each time? Its contents are tested in
//! `paternoster-trace`, and with perfetto's own descriptors in `checks/perfetto.sh`.

use std::process::{Command, Output, Stdio};

fn paternoster(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let command = command.args(words.split(' ')).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// Runs with `--perfetto FILE` for a file of this test's own and returns its contents.
fn written(name: &str, words: &str) -> Vec<u8> {
    let file = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    let output = paternoster(&format!("{words} -q --perfetto {file}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(file).expect("it was written")
}

fn has(trace: &[u8], text: &str) -> bool {
    trace.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Does the file have a track for each client, the device and the scheduler, of every run; is it
/// rewritten with equal bytes, and does a replay write one, too?
#[test]
fn all_runs_are_in_one_file() {
    let job = "run jobs/recipes/database.fio --device ssd-870evo --runtime=50ms";
    let both = format!("{job} --scheduler none --scheduler bfq");
    let trace = written("runs.pftrace", &both);
    let tracks = ["none on ssd-870evo", "bfq on ssd-870evo", "pg-read", "pg-wal", "backup"];
    let more = ["in the device", "commands in the device", "turn of pg-read", "pg-wal: flush"];
    for text in tracks.iter().chain(&more) {
        assert!(has(&trace, text), "{text}");
    }
    assert!(written("runs.pftrace", &both) == trace, "another file for the same runs");
    let one = written("one.pftrace", &format!("{job} --scheduler none"));
    assert!(trace.starts_with(&one), "runs of a file lie one behind the other");

    let prefix = concat!(env!("CARGO_TARGET_TMPDIR"), "/perfetto-trace");
    let run = "run --name=alone --rw=randread --size=64k --direct=1 -q --trace";
    assert!(paternoster(&format!("{run} {prefix}")).status.success());
    let replayed = written("again.pftrace", &format!("replay {prefix} --scheduler cfq"));
    assert!(has(&replayed, "cfq on hdd-7200") && has(&replayed, "alone"));
    for cpu in 0..4 {
        let _absent = std::fs::remove_file(format!("{prefix}.blktrace.{cpu}"));
    }
}

/// Is a file that cannot be written refused before anything runs?
#[test]
fn a_file_needs_a_folder() {
    let output = paternoster("dd --size=1m --perfetto nowhere/x.pftrace");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--perfetto nowhere/x.pftrace: there is no folder nowhere"), "{said}");
    assert!(output.stdout.is_empty());
}

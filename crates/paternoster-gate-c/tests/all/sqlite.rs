// SPDX-License-Identifier: MIT OR Apache-2.0
//! SQLite's VFS: does a database whose I/O asks the gate hold what was put into it?

use std::process::Command;

use crate::common::{fresh_folder, has, has_all, sqlite_program};

/// Compiled by gcc and clang: do seventeen databases, with a committing thread each for a second,
/// open and commit without a fault, and does plain SQLite then find each sound?
#[test]
fn databases_behind_the_gate_are_sound() {
    let test = "databases_behind_the_gate_are_sound";
    if !has_all(test, &["/usr/include/sqlite3.h", "sqlite3"]) {
        return;
    }
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            println!("skipped: {test}: {compiler} is not installed");
            continue;
        }
        let program = sqlite_program(compiler, "sqlite-sound");
        let folder = fresh_folder(&format!("sound-{compiler}"));
        let output = Command::new(&program).args(["fair", "0", "1"]).arg(&folder).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut commits = 0;
        for number in 0..17 {
            let question = "PRAGMA integrity_check; SELECT count(*) FROM t;";
            let database = folder.join(format!("{number}.db"));
            let answer = Command::new("sqlite3").arg(database).arg(question).output();
            let answer = answer.expect("it starts");
            let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
            let count: Option<u64> =
                answer.strip_prefix("ok\n").and_then(|count| count.trim().parse().ok());
            commits += count.unwrap_or_else(|| panic!("{compiler} {number}: {answer}"));
        }
        // A thread that the machine never scheduled commits nothing in its second.
        assert!(commits > 0, "{compiler}: nothing was committed");
        let _gone = std::fs::remove_dir_all(&folder);
    }
}

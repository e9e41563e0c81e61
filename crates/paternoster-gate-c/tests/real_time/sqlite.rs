// SPDX-License-Identifier: MIT OR Apache-2.0
//! SQLite with the gate as a VFS, and without it: the program is `sqlite.c` in this folder.

use std::process::Command;

use crate::common::{fresh_folder, has_all, sqlite_program};

/// Sixteen threads that commit without a pause, of two classes with four and twelve, and one that
/// commits every 50 ms: does each class get half, and how long does the one wait?
#[test]
fn commits_of_two_classes_and_a_paced_one() {
    let test = "commits_of_two_classes_and_a_paced_one";
    if !has_all(test, &["gcc", "/usr/include/sqlite3.h"]) {
        return;
    }
    let program = sqlite_program("gcc", "sqlite");
    let [without, fair] = ["unix", "fair"].map(|vfs| {
        let folder = fresh_folder(&format!("sqlite-{vfs}"));
        let output = Command::new(&program).args([vfs, "5", "8"]).arg(&folder).output();
        let output = output.expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let _gone = std::fs::remove_dir_all(&folder);
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect::<Vec<u64>>()
    });
    println!("a/s, b/s, paced median us, 99th\nwithout {without:?}\nfair {fair:?}");
    let share = |row: &[u64]| row[0] * 100 / (row[0] + row[1]);
    // Four threads of sixteen without the gate; half is due.
    assert!(share(&without) <= 32 && (44..=56).contains(&share(&fair)));
    assert!((fair[0] + fair[1]) * 100 >= (without[0] + without[1]) * 90);
    assert!(fair[2] * 10 <= without[2] * 8 && fair[3] < without[3]);
}

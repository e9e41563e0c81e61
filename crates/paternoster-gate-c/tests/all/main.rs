// SPDX-License-Identifier: MIT OR Apache-2.0
//! C programs that use the header and the library: do they compile without a warning, run, and
//! leave no memory behind?

#[path = "../common/mod.rs"]
mod common;
mod nbdkit;
mod sqlite;

use std::path::Path;
use std::process::Command;

use common::{ROOT, compile, has, has_all};

/// Does the example with pthreads compile under gcc and clang without a warning; and does each of
/// its classes get its 100 permits of 4 KiB, and every misuse its answer?
#[test]
fn the_example_compiles_and_runs() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            println!("skipped: the_example_compiles_and_runs: {compiler} is not installed");
            continue;
        }
        let output =
            Command::new(compile(compiler, "threads.c", "runs", &[])).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        // Two threads of 50 each; by a callback one more, of no bytes.
        assert_eq!(
            text,
            "class 0: 101 permits, 409600 bytes\nclass 1: 100 permits, 409600 bytes\n"
        );
    }
}

/// Does valgrind find nothing to say of the example?
#[test]
fn the_example_leaves_nothing_behind() {
    if !has_all("the_example_leaves_nothing_behind", &["gcc", "valgrind"]) {
        return;
    }
    let output = Command::new("valgrind")
        .args([
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(compile("gcc", "threads.c", "valgrind", &[]))
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Has the header every function of the library, and the library every function of the header?
#[test]
fn header_and_library_agree() {
    let names = |text: &str| {
        let mut names: Vec<String> = Vec::new();
        for part in text.split("pn_").skip(1) {
            let name: String =
                part.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if part[name.len()..].starts_with('(') {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    };
    let read = |file: &str| std::fs::read_to_string(Path::new(ROOT).join(file)).expect(file);
    let header = names(&read("include/paternoster.h"));
    assert_eq!(header, names(&read("src/lib.rs")));
    assert!(header.len() >= 20, "{header:?}");
}

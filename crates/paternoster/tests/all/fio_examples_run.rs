// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's own example job files, as in Debian's package fio-examples: does every one that is in
//! scope run? (Which those are, and what happens to the others: `paternoster-workload`'s
//! `fio_examples.rs`.)
//!
//! Each runs for 20 ms of virtual time, in a folder of its own for the logs that it writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::skipped;

const FOLDER: &str = "/usr/share/doc/fio/examples";

fn paternoster(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "--device", "ssd-870evo", "-q"]).args(arguments);
    command.current_dir(folder).stdin(Stdio::null()).output().expect("the program starts")
}

/// Files that expect a size on the command line, or a device larger than this one.
fn options(name: &str) -> &'static [&'static str] {
    match name {
        "butterfly.fio" | "surface-scan.fio" => &["--size=64m"],
        _ => &[],
    }
}

#[test]
fn examples_in_scope_run() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    if files.is_empty() {
        return skipped(&format!("no {FOLDER} (Debian package fio-examples)"));
    }
    let folder = std::env::temp_dir().join(format!("paternoster-examples-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut ran = 0;
    for file in &files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let path = file.to_str().expect("a path");
        let asked = [options(name), &[path, "--runtime=20ms"]].concat();
        if !paternoster(&folder, &[&asked[..], &["--parse-only"]].concat()).status.success() {
            continue;
        }
        let output = paternoster(&folder, &asked);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        ran += 1;
    }
    let _still_there = fs::remove_dir_all(&folder);
    println!("{ran} of {} examples are in scope and run", files.len());
    assert!(ran >= 30, "{ran} of {} ran", files.len());
}

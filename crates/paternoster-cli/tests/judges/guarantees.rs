// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster guarantees` as a person meets it: is the table in the documentation the one that it
//! prints?

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::too_slow;

fn guarantees(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("guarantees").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// Is every row of the documentation what the program prints, in its order?
///
/// Ten seconds in release and minutes in debug: there it only says that it did nothing. `./test`
/// runs it with `--release` too.
#[test]
fn the_documentation_shows_real_output() {
    if too_slow() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schedulers/guarantees.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let output = guarantees(&["-q", "--output-format=markdown"]);
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect()
    };
    assert!(rows(&printed).len() > 20);
    assert_eq!(rows(&page), rows(&printed), "paternoster guarantees --output-format=markdown");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `paternoster reproduce` and returns its output.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs it with these words after its name.
pub(crate) fn reproduce(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("reproduce").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Runs one experiment; its part of the document and the exit status.
pub(crate) fn document(name: &str) -> (Value, Option<i32>) {
    let output = reproduce(&[name, "-q", "--output-format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {}", text(&output.stderr)));
    (document["experiments"][0].clone(), output.status.code())
}

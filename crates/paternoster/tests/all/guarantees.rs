// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster guarantees` as a user meets it. `tests/judges/guarantees.rs` checks whether its
//! table is the one in the documentation.

use std::process::{Command, Stdio};

/// Is an unknown scheduler refused, with the known ones?
#[test]
fn an_unknown_scheduler_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["guarantees", "--scheduler", "bfk"]).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    let message = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("bfk") && message.contains("bfq"), "{message}");
}

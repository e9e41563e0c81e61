// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running tools: a missing one is reported, none runs longer than two minutes, and a failure shows
//! all of the tool's output.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::skipped;

/// Debian's, because that is where its libnbd is.
const PYTHON: &str = "/usr/bin/python3";

/// A tool of a Debian package, under a time limit; `None`, reported once a test, if it is not
/// installed.
pub(crate) fn tool(name: &str, package: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
        return Some(limited(name));
    }
    missing(name, package);
    None
}

/// One of the scripts next to this file, with libnbd's Python module.
pub(crate) fn script(name: &str) -> Option<Command> {
    let found = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        missing("libnbd for /usr/bin/python3", "python3-libnbd");
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/conformance");
    let mut command = limited(PYTHON);
    // -B: nothing is written next to the scripts.
    command.arg("-B").arg(folder.join(name));
    Some(command)
}

fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", program]);
    command
}

fn missing(name: &str, package: &str) {
    skipped(&format!("{name} is not installed (Debian package {package})"));
}

/// Runs a tool that must succeed; returns its standard output.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{}", told(command, &output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a tool that must fail, by itself and not by the time limit; all that it said.
pub(crate) fn fails(command: &mut Command) -> String {
    let output = run(command);
    let code = output.status.code();
    assert!(code.is_some_and(|code| code != 0 && code < 124), "{}", told(command, &output));
    told(command, &output)
}

fn run(command: &mut Command) -> Output {
    command.output().expect("timeout of coreutils is there")
}

fn told(command: &Command, output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (said, wailed) = (text(&output.stdout), text(&output.stderr));
    format!("{command:?}\n{}\n{said}{wailed}", output.status)
}

/// How tools name an export at a unix socket.
pub(crate) fn uri(export: &str, socket: &Path) -> String {
    format!("nbd+unix:///{export}?socket={}", socket.display())
}

/// Bytes that are different at every place, and for every seed.
pub(crate) fn pattern(bytes: u64, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        // A linear congruential generator: its upper half is random enough to tell blocks apart.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 17).to_le_bytes()
    });
    words.take(usize::try_from(bytes).expect("test data fit into memory")).collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this crate's test programs share: messages about what is missing, and commands that several
//! of them run.
#![allow(dead_code, reason = "not every program of tests needs all of it")]

pub(crate) mod emulate;
pub(crate) mod reproduce;
pub(crate) mod versus_kernel;

/// Says that the current test checks nothing, and why: a line that `./test` collects.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {why}");
}

/// Whether the current test would take minutes in this build; says so.
pub(crate) fn too_slow() -> bool {
    if cfg!(debug_assertions) {
        skipped("debug builds take minutes; use --release");
    }
    cfg!(debug_assertions)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this crate share: loops, DiskSim's files, and a message for skipped tests.

pub(crate) mod closed_loop;
pub(crate) mod disksim;
pub(crate) mod layout;

/// Says that the current test is skipped, and why: a line that `./test` collects.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {why}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this crate's tests share: jobs from a text, numbers from variables, a message about what is
//! missing.

use paternoster_workload::fio::jobfile::{JobFile, Problem, Source, parse};

/// The jobs of a text that includes no other.
pub(crate) fn jobs_of(text: &str) -> Result<JobFile, Vec<Problem>> {
    let include = |_: &str, named: &str| Err(format!("{named}: nothing is included"));
    parse(&[Source { name: "jobs", text }], &[], &[], &|_| None, &include)
}

/// The number in an environment variable.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: it is no number")))
}

/// Says that the current test checks nothing, and why: a line that `./test` collects.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {why}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random loads, as tests: each file checks one thing.

mod drawn_loads;
mod found;
mod torture;

/// The number in an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: it is no number")))
}

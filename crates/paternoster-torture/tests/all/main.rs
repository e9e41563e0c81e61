// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that nobody chose, as tests: each file asks one thing of them.

mod drawn_loads;
mod found;
mod torture;

/// The number that a variable of the environment asks for.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: it is no number")))
}

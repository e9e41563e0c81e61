// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on what the schedulers do: published experiments, guarantees, shares, the same bytes in
//! every build. `cargo test` skips these; run them by name, and in release, because most of them
//! check nothing in debug (`determinism` is meant for both):
//!
//! ```text
//! cargo test --release -p paternoster --test judges
//! ```
//!
//! A test that takes minutes in debug goes in here.

#[path = "../common/mod.rs"]
mod common;

mod array_figures;
mod bfq_results;
mod bfq_shares;
mod cfq_shares;
mod determinism;
mod guarantees;
mod kernel_results;
mod outside;
mod recipes;
mod reproduce;
mod worked_example;

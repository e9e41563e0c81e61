// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a slow or busy machine decides: times that are measured, states that last for a moment.
//! `cargo test` passes this by; ask for it by name, and one test at a time, or they slow each other
//! down:
//!
//! ```text
//! cargo test --release -p paternoster --test real_time -- --test-threads=1
//! ```
//!
//! A test whose verdict hangs on elapsed time goes in here.

#[path = "../common/mod.rs"]
mod common;

mod emulate;
mod versus_kernel;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a slow or busy machine decides: measured times, short-lived states. `cargo test`
//! skips these; run them by name, and one at a time, or they slow each other down:
//!
//! ```text
//! cargo test --release -p paternoster --test real_time -- --test-threads=1
//! ```
//!
//! A test whose verdict depends on elapsed time goes in here.

#[path = "../common/mod.rs"]
mod common;

mod emulate;
mod fio_timed;
mod versus_kernel;

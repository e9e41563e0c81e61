// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a slow or busy machine decides: shares and times that are measured while a server runs, and
//! limits so short that a test may miss them. `cargo test` passes this by; ask for it by name, in
//! release, and one test at a time, or they slow each other down:
//!
//! ```text
//! cargo test --release -p paternoster-serve --test real_time -- --test-threads=1
//! ```
//!
//! Tests whose verdict depends on elapsed time belong here. Some have files of their own mounts
//! open, and would notice it if others started processes meanwhile (see `tests/mounts/main.rs`):
//! one more reason to have them one at a time.

#[path = "../common/mod.rs"]
mod common;

mod emulate;
mod patience;
mod processes;
mod sharing;
mod soak;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems, databases and their tools on our disks. `cargo test` skips these; run them by
//! name:
//!
//! ```text
//! cargo test -p paternoster --test heavy
//! ```
//!
//! A test that needs large programs of other projects, mounts and minutes goes in here.

#[path = "../common/mod.rs"]
mod common;

mod file_systems;
mod guest;
mod interop;
mod persistent;

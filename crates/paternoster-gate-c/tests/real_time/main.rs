// SPDX-License-Identifier: MIT OR Apache-2.0
//! Third-party hosts, with the gate and without it, by the clock of this machine: not in `./test`.
//! Each prints its table of docs/gate.md, and checks it within wide bounds.

#[path = "../common/mod.rs"]
mod common;
mod nbdkit;
mod sqlite;

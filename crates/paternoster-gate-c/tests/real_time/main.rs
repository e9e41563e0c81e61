// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts that others have written, with the gate and without it, by the clock of this machine: not
//! in `./test`. Each prints the table that docs/gate.md has, and judges it within wide bounds.

#[path = "../common/mod.rs"]
mod common;
mod nbdkit;
mod sqlite;

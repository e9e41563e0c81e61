// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands of the program `paternoster` share, and no command.
//!
//! ```text
//! words ─▶ choice, setting, target ─▶ runs (parallel, progress, interrupt) ─▶ results ─▶ emit
//!          which scheduler, on what    one on each core, until Ctrl-C         table, JSON …
//!             └ context: files, threads and the stop of a program that calls a command
//! ```
//!
//! The program's own commands and the laboratory (`paternoster-lab`) are built on it; it knows
//! neither, and no command knows another by way of it.
//!
//! Without the feature `instruments` there are the parts that a server's commands need; jobs on
//! files and block devices for real need `serve` too.
#![forbid(unsafe_code)]
// `say!` and `print` tolerate an output without a reader; these panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

#[macro_use]
pub mod say;

#[cfg(feature = "instruments")]
pub mod cells;
pub mod choice;
#[cfg(feature = "parquet")]
pub mod columns;
pub mod context;
#[cfg(feature = "instruments")]
pub mod cost_model;
#[cfg(feature = "instruments")]
pub mod entitled;
mod failure;
pub mod format;
pub mod guard;
#[cfg(feature = "instruments")]
pub mod host;
pub mod interrupt;
#[cfg(feature = "instruments")]
pub mod job_files;
#[cfg(feature = "instruments")]
pub mod page;
#[cfg(feature = "instruments")]
pub mod parallel;
#[cfg(feature = "instruments")]
pub mod progress;
#[cfg(all(feature = "instruments", feature = "serve"))]
pub mod real;
#[cfg(all(feature = "instruments", not(feature = "serve")))]
#[path = "without_real.rs"]
pub mod real;
pub mod results;
#[cfg(feature = "instruments")]
pub mod setting;
pub mod sheet;
#[cfg(feature = "instruments")]
pub mod starts;
#[cfg(feature = "instruments")]
pub mod sysfs;
pub mod table;
#[cfg(feature = "instruments")]
pub mod target;
#[cfg(feature = "instruments")]
pub mod tracefs;
pub mod units;

pub use crate::failure::{Failure, print, print_bytes};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay of recorded decisions sees of CFQ: its queues, and what it knows of the device and
//! of processes.
//!
//! Source: ours; see `conformance.rs`.

mod choice;
mod hook;
mod seen;

pub use super::probe_points::Decision;
pub use choice::Choice;
pub(super) use hook::replace;
pub use hook::{Replace, install};
pub use seen::{CfqProbe, SeenQueue, tree};

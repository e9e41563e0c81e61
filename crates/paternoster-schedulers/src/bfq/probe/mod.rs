// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay of recorded decisions sees of BFQ: its queues, and which are raised.
//!
//! Source: ours; see `conformance.rs`.

mod hook;
mod seen;
mod turns;

pub use super::probe_points::{Decision, ProbePoint, Reading};
pub use hook::{Listener, install};
pub(super) use hook::{clock, probe, probe_of, replace, replace_turn};
pub use seen::{BfqProbe, SeenQueue};
pub use turns::Turns;

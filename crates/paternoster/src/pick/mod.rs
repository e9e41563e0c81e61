// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several schedulers choose with.
//!
//! * [`lane`]: requests in sector order and in order of age, the two ways in which a scheduler
//!   looks at what waits.
//! * [`batch`]: reads and writes in turns, as the deadline schedulers take them.

pub mod batch;
pub mod lane;

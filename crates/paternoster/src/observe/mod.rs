// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several schedulers measure.
//!
//! * [`latency`]: how long requests take, counted in quarters of a target, and which share of them
//!   meets it.

pub mod latency;

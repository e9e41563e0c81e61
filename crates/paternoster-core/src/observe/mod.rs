// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several schedulers measure.
//!
//! * [`latency`]: how long requests take, counted in quarters of a target, and what share of them
//!   meets it.
//! * [`seek`]: whether a queue jumps about, or sends small requests.
//! * [`think_time`]: how long a client thinks between the end of a request and the next one.
//! * [`queue_depth`]: whether the device queues commands, found by observation.

pub mod latency;
pub mod queue_depth;
pub mod seek;
pub mod think_time;

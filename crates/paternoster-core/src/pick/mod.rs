// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data structures with which several schedulers choose.
//!
//! * [`lane`]: requests in sector order and in order of age, the two ways in which a scheduler
//!   looks at waiting requests.
//! * [`batch`]: alternating reads and writes, as in the deadline schedulers.
//! * [`back_seek`]: which of two requests is nearer to the head, when going back costs more.
//! * [`home`]: which queue a request belongs to.
//! * [`positions`]: queues by the sector of their next request, to find those that work close to
//!   each other.
//! * [`shared`]: where async requests of a class and level wait together.

pub mod back_seek;
pub mod batch;
pub mod home;
pub mod lane;
pub mod positions;
pub mod shared;

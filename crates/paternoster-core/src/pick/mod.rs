// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several schedulers choose with.
//!
//! * [`lane`]: requests in sector order and in order of age, the two ways in which a scheduler
//!   looks at what waits.
//! * [`batch`]: reads and writes in turns, as the deadline schedulers take them.
//! * [`back_seek`]: which of two requests is nearer to the head, when going back costs more.
//! * [`home`]: which queue a request belongs to.
//! * [`positions`]: queues by the sector of their next request, to find those who work close to
//!   each other.
//! * [`shared`]: where async requests of a class and level wait together.

pub mod back_seek;
pub mod batch;
pub mod home;
pub mod lane;
pub mod positions;
pub mod shared;

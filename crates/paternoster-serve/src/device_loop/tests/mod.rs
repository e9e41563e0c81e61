// SPDX-License-Identifier: MIT OR Apache-2.0
//! No client harms another: attacks of one, and what another gets meanwhile, as counted work.

mod ahead;
mod attacks;
mod awake;
mod calls;
mod caps;
mod ending;
mod memory;
mod moves;
mod places;
mod policy;
mod ragged;
mod status;
mod told;
mod turns;

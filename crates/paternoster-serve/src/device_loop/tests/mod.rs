// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nobody harms anybody: attacks of one client, and what a client beside it gets, as counted work.

mod ahead;
mod attacks;
mod awake;
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

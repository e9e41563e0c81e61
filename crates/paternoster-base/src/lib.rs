// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulator and the server share, so that a server can be built without the simulator.
//!
//! * [`schedulers`]: elevators by name, ours and those that a program registers.
//! * [`quantity`]: numbers with a unit, read exactly.
//! * [`entitlement`]: what each client should get of what all used.
//! * [`csv`]: a field of a line of values.
//! * [`chance`]: numbers that follow from a seed.
#![forbid(unsafe_code)]

pub mod chance;
pub mod csv;
pub mod entitlement;
pub mod quantity;
pub mod schedulers;

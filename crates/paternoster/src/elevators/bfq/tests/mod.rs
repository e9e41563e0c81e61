// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of BFQ, one by one, and what it guarantees.

use super::entity::Standing;
use super::*;
use crate::client::Class;

mod engine;
mod exact;
mod guarantees;
mod shares;

std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// The engine compares two entities, or goes down by one.
pub(super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

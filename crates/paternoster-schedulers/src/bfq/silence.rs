// SPDX-License-Identifier: MIT OR Apache-2.0
//! Silence: what BFQ says and asks where nothing listens.
//!
//! Without the feature `conformance` no message is reported and no decision replaced; the compiler
//! removes all of it. With it, `probe` takes this file's place.
//!
//! Source: ours; see `probe_points`.

use crate::bfq::probe_points::{Decision, ProbePoint, Reading};
use paternoster_core::time::Nanos;

/// Reports a message about a queue or about the device.
#[inline(always)]
pub(super) const fn probe(_: Option<u32>, _: ProbePoint) {}

/// The same, for what takes a while to compute.
#[inline(always)]
pub(super) fn probe_of(_: impl FnOnce() -> (Option<u32>, ProbePoint)) {}

/// Our choice, or the recorded one.
#[inline(always)]
pub(super) const fn replace(_: Decision, ours: u64) -> u64 {
    ours
}

/// The time: `now`, or what the clock showed at this point in the recording.
#[inline(always)]
pub(super) const fn clock(_: Reading, now: Nanos) -> Nanos {
    now
}

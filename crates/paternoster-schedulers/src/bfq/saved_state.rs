// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved state: what a queue was like, kept of its process over a merge and until a split.
//!
//! While a process shares a queue, BFQ observes the shared queue. When the process leaves, its new
//! queue starts from what its own was like when it was merged:
//!
//! ```text
//! P alone (raised, thinks short) ── merge ──▶ shared with Q ── split ──▶ P alone (as before)
//!                                saved here                  resumed here
//! ```
//!
//! A queue merged with its very first request was never observed: the saved state is the one it
//! would have been given: raised, *if raising is wanted at all* (seed 004, patch 2; without that
//! check, `early_merge_check=0`, a split raises it in spite of `low_latency=0`).
//!
//! Source: BFQ-133 to BFQ-137, BFQ-143; seed 004.

use alloc::vec::Vec;

use crate::bfq::inject::Limit;
use crate::bfq::pattern::Pattern;
use crate::bfq::queue::Queue;
use crate::bfq::weight_raising::{Kind, Raising};
use paternoster_core::ClientId;
use paternoster_core::time::Nanos;

/// What a process's queue was like.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedState {
    pub(super) pattern: Pattern,
    pub(super) in_large_burst: bool,
    pub(super) was_listed: bool,
    pub(super) raising: Raising,
    pub(super) limit: Limit,
    pub(super) weight: u32,
}

/// The saved states of all processes. They are apart from the contexts, which each request needs:
/// most processes never share a queue.
#[derive(Debug)]
pub(super) struct SavedStates {
    of: Vec<Option<SavedState>>,
}

impl SavedStates {
    pub(super) fn with_capacity(clients: u32) -> SavedStates {
        SavedStates { of: (0..clients).map(|_| None).collect() }
    }

    /// What the process's queue was like, if it was ever merged.
    pub(super) fn of(&self, client: ClientId) -> Option<&SavedState> {
        self.of[client.index() as usize].as_ref()
    }

    /// The same, to be changed or forgotten.
    pub(super) fn of_mut(&mut self, client: ClientId) -> &mut Option<SavedState> {
        &mut self.of[client.index() as usize]
    }
}

impl SavedState {
    /// The state of a queue: its own, what others may do in its time, and its weight.
    pub(super) fn of(home: &Queue, was_listed: bool, limit: Limit, weight: u32) -> SavedState {
        SavedState {
            pattern: home.pattern,
            in_large_burst: home.in_large_burst,
            was_listed,
            raising: home.raising,
            limit,
            weight,
        }
    }

    /// It was merged before it was observed: it would have been raised, for this long.
    pub(super) fn is_to_be_raised(&mut self, now: Nanos, duration: Nanos) {
        self.raising.kind = Kind::Interactive;
        self.raising.lasts = duration;
        self.raising.since = now;
        self.raising.interactive_since = None;
    }
}

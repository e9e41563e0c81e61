// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue: the requests of one process, and what is known about them.
//!
//! Sync requests wait in a queue of their process, async ones in a queue shared by all of a group,
//! class and level. How a queue is scheduled (times, weight, budget) is in its entity, which has
//! the same number; what only one mechanism needs of it is with that (`inject`, `waker`,
//! `symmetry`).
//!
//! ```text
//! processes ── refs ──▶ queue ◀── allocated, in_flight ── requests
//!                        │ merge_into
//!                        ▼
//!                       another, to which its processes move with their next requests
//! ```
//!
//! # Invariants
//! I1  `refs` is the number of its requests, plus that of the processes that lead to it directly or
//!     through merges, plus one for its group if it is async, plus `stable_refs`, the number of
//!     places that remember it.
//! I2  `next` is one of its waiting requests, and is set exactly while any waits.
//! I3  `in_flight` counts its requests between their dispatch and their end.
//!
//! Source: BFQ-30, BFQ-49, BFQ-62, BFQ-94, BFQ-119.

use crate::bfq::pattern::Pattern;
use crate::bfq::weight_raising::Raising;
use paternoster_core::RequestId;
use paternoster_core::pick::lane::Lane;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, Priority};

/// Rest needed before a queue is taken for a starting application.
const REST: Nanos = Nanos::from_secs(2);
/// For this long after a split nothing is concluded, except about weight raising.
const SETTLE: Nanos = Nanos::from_secs(2);

/// The requests of one process, or of a class and level if they are async.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) refs: u32,
    pub(super) stable_refs: u32,
    /// Live requests that are settled in it.
    pub(super) allocated: u32,
    /// The process that it belongs to; none if it is shared.
    pub(super) owner: Option<ClientId>,
    /// The client it was made for; only observers use it.
    pub(super) made_for: Option<ClientId>,
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    pub(super) lane: Lane,
    pub(super) next: Option<RequestId>,
    pub(super) in_flight: u32,
    /// The budget that it asks for in one turn, in sectors.
    pub(super) max_budget: u64,

    /// It is among the queues to be served.
    pub(super) is_busy: bool,
    /// The class under which it is counted busy.
    pub(super) busy_class: u8,
    /// Its first request has not come yet.
    pub(super) is_new: bool,
    /// The device idles for its next request.
    pub(super) wait_request: bool,
    /// It ran out of work in its turn, not out of time or budget: it may recover the hole.
    pub(super) left_early: bool,
    /// Its oldest request was checked for expiry in this turn.
    pub(super) fifo_looked: bool,

    pub(super) pattern: Pattern,
    pub(super) raising: Raising,
    pub(super) in_large_burst: bool,

    /// In service: when its turn ends. At rest: since when. `None` before its first turn.
    pub(super) stamp: Option<Nanos>,
    pub(super) created: Nanos,
    pub(super) split_at: Option<Nanos>,
    /// When its present backlog was first served.
    pub(super) first_service: Nanos,
    pub(super) backlog_service: u64,
    pub(super) backlog_began: Nanos,

    /// Several processes share it.
    pub(super) is_shared: bool,
    /// Whether its processes should part.
    pub(super) is_to_split: bool,
    /// The queue that its processes move to.
    pub(super) merge_into: Option<u32>,
}

impl Queue {
    /// Whether nothing waits in it.
    pub(super) const fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    /// Processes that use it.
    pub(super) const fn processes(&self) -> u32 {
        self.refs - self.allocated - self.stable_refs
    }

    /// Its requests, waiting and in flight.
    pub(super) const fn requests(&self) -> u32 {
        self.in_flight + self.lane.len()
    }

    /// Whether neither a request nor a turn keeps it: it counts in no statistics.
    pub(super) const fn is_at_rest(&self) -> bool {
        !self.is_busy && self.in_flight == 0
    }

    /// Whether nothing has happened in it for long (BFQ-94).
    #[inline]
    pub(super) fn is_idle_for_long(&self, now: Nanos) -> bool {
        self.in_flight == 0 && self.stamp.is_none_or(|at| now > at + REST)
    }

    /// Whether it was not split from another recently.
    #[inline]
    pub(super) fn is_settled(&self, now: Nanos) -> bool {
        self.split_at.is_none_or(|at| now > at + SETTLE)
    }

    /// Whether the time of its turn is over.
    #[inline]
    pub(super) fn is_time_over(&self, now: Nanos) -> bool {
        self.stamp.is_some_and(|until| now >= until)
    }

    /// While it is served: the service charged so far (BFQ-1, BFQ-119).
    #[inline]
    pub(super) fn count_service(&mut self, charge: u64, now: Nanos) {
        if self.backlog_service == 0 {
            self.first_service = now;
        }
        self.backlog_service += charge;
        if self.raising.is_raised() {
            self.raising.service += charge;
        }
    }

    /// A word of each of its cache lines (`prefetch`).
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        let times = self.backlog_began.0 ^ self.created.0 ^ self.raising.since.0;
        let counts = self.refs ^ self.in_flight ^ self.lane.len();
        times ^ self.max_budget ^ self.raising.service ^ self.pattern.touch() ^ u64::from(counts)
    }

    /// Its backlog begins now.
    #[inline]
    pub(super) fn begin_backlog(&mut self, now: Nanos) {
        self.is_new = false;
        self.backlog_began = now;
        self.backlog_service = 0;
        self.raising.is_unsettled = false;
    }

    /// A request is settled in it.
    #[inline]
    pub(super) const fn allocate(&mut self) {
        self.allocated += 1;
        self.refs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are its processes counted as the references that are neither requests nor places that
    /// remember it?
    #[test]
    fn references_that_are_processes() {
        let mut queue = Queue { refs: 4, stable_refs: 1, allocated: 1, ..Queue::default() };
        assert_eq!(queue.processes(), 2);
        queue.allocate();
        assert_eq!((queue.processes(), queue.refs), (2, 5));
    }

    /// Does a backlog's first service set its time, and is service of a raised queue counted twice?
    #[test]
    fn service_of_a_backlog() {
        let ms = Nanos::from_millis;
        let mut queue = Queue { is_new: true, ..Queue::default() };
        queue.begin_backlog(ms(1));
        queue.count_service(8, ms(2));
        queue.raising.kind = crate::bfq::weight_raising::Kind::Interactive;
        queue.count_service(16, ms(3));
        assert_eq!((queue.first_service, queue.backlog_service), (ms(2), 24));
        assert_eq!((queue.raising.service, queue.is_new), (16, false));
        queue.begin_backlog(ms(9));
        assert_eq!(queue.backlog_service, 0);
    }
}

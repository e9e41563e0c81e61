// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue: the requests of one process, and what is known of it.
//!
//! Sync requests wait in a queue of their process, async ones in a queue shared by all of a group,
//! class and level. A queue holds its requests by sector and by age, and knows which comes next:
//! the nearest to the device's last position, or, once in each turn, the oldest if it has expired.
//!
//! ```text
//! by sector   120   [4008]   4100   9000        next: nearest to where the last one ended
//! by age      9000 120 4100 4008                looked at once in a turn, at its first dispatch
//! ```
//!
//! How a queue is scheduled (times, weight, budget) is in its entity, which has the same number.
//!
//! # Invariants
//! I1  `refs` is the number of its requests, plus the processes that come to it directly or through
//!     merges, plus one for its group if it is async, plus `stable_refs`: those that remember it.
//! I2  `next` is one of its waiting requests; there is one exactly while any waits.
//! I3  `in_flight` counts its requests between their dispatch and their end.
//!
//! Source: BFQ-37 to BFQ-40, BFQ-30, BFQ-49, BFQ-62.

use crate::bfq::Bfq;
use crate::bfq::inject::Limit;
use crate::bfq::pattern::Intensity;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::waker::Waiting;
use crate::bfq::weight_raising::Raising;
use paternoster_core::list::List;
use paternoster_core::observe::seek::SeekHistory;
use paternoster_core::observe::think_time::ThinkTime;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::home::{home, set_in_flight};
use paternoster_core::pick::lane::Lane;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, Flags, Priority, QueueView, RequestId};

/// Async service is charged this many times.
const ASYNC_FACTOR: u64 = 3;

/// The requests of one process, or of a class and level if they are async.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) refs: u32,
    pub(super) stable_refs: u32,
    /// Live requests that are settled in it.
    pub(super) allocated: u32,
    /// The one process that it belongs to; none if it is shared.
    pub(super) owner: Option<ClientId>,
    /// The client it was made for; only observers use it.
    pub(super) made_for: Option<ClientId>,
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    pub(super) lane: Lane,
    pub(super) next: Option<RequestId>,
    pub(super) in_flight: u32,
    /// What it asks for in one turn, in sectors.
    pub(super) max_budget: u64,

    /// It is among the queues to be served.
    pub(super) is_busy: bool,
    /// The class under which it is counted busy.
    pub(super) busy_class: u8,
    /// Its group counts it as having requests.
    pub(super) is_pending: bool,
    /// Its first request has not come yet.
    pub(super) is_new: bool,
    /// The device idles for its next request.
    pub(super) wait_request: bool,
    /// It ran out of work in its turn, not out of time or budget: it may recover the hole.
    pub(super) left_early: bool,
    /// Its oldest request was checked for expiry in this turn.
    pub(super) fifo_looked: bool,

    pub(super) thinks_short: bool,
    pub(super) is_io_bound: bool,
    pub(super) think_time: ThinkTime,
    pub(super) intensity: Intensity,
    /// Arrivals in time in a row (4.19).
    pub(super) in_time: u32,
    pub(super) last_completion: Option<Nanos>,
    pub(super) seek: SeekHistory,

    pub(super) raising: Raising,
    pub(super) in_large_burst: bool,

    /// In service: when its turn ends. At rest: since when. `None` before its first turn.
    pub(super) stamp: Option<Nanos>,
    pub(super) created: Nanos,
    pub(super) split_at: Option<Nanos>,
    /// Of its present backlog: its first service, and service received.
    pub(super) first_service: Nanos,
    pub(super) backlog_service: u64,
    pub(super) backlog_began: Nanos,

    /// Several processes share it.
    pub(super) is_shared: bool,
    /// Its processes should part.
    pub(super) is_to_split: bool,
    /// The queue that its processes move to.
    pub(super) merge_into: Option<u32>,

    /// Sectors of others that were served in its turn (seed 002).
    pub(super) injected: u64,
    pub(super) limit: Limit,
    pub(super) waiting: Waiting,
    /// The queues that wait for this one.
    pub(super) woken: List,
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

    /// Whether neither a request nor a turn keeps it: it counts in no statistics.
    pub(super) const fn is_at_rest(&self) -> bool {
        !self.is_busy && self.in_flight == 0
    }
}

impl Bfq {
    /// A request of `queue` goes in flight, or ends.
    pub(super) fn count_in_flight(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        request: RequestId,
        flies: bool,
    ) {
        set_in_flight(view, request, flies);
        let by = if flies { 1 } else { -1 };
        let home = self.queues.at_mut(queue);
        home.in_flight = home.in_flight.wrapping_add_signed(by);
        self.in_driver = self.in_driver.wrapping_add_signed(by);
    }

    /// Dispatches a request that goes before all others; its queue may have nothing else.
    pub(super) fn dispatch_bypassing(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        if self.queues.at(queue).is_at_rest() {
            self.leave_rest(queue);
        }
        self.count_in_flight(view, queue, request, true);
    }

    /// What a queue's next request is chosen by.
    pub(super) const fn back_seek(&self) -> BackSeek {
        BackSeek {
            most: self.tunables.back_seek_max.saturating_mul(2),
            penalty: self.tunables.back_seek_penalty,
            urgent: Flags::META,
        }
    }

    /// What a request of `queue` costs of its budget (BFQ-43): async ones threefold, so that a
    /// process that waits for its requests gets more of the device than one that does not.
    pub(super) fn charge_of(&self, view: &QueueView, queue: u32, request: RequestId) -> u64 {
        let sectors = u64::from(view.request(request).sectors());
        let home = self.queues.at(queue);
        let plain = home.is_sync
            || home.raising.is_raised()
            || (self.version.charges_async_if_symmetric && self.is_asymmetric(queue));
        if plain { sectors } else { sectors * ASYNC_FACTOR }
    }

    /// Whether the next request of `queue` fits what is left of its budget.
    pub(super) fn fits(&self, view: &QueueView, queue: u32) -> bool {
        let left = self.schedule.entities[queue as usize].budget_left();
        let next = self.queues.at(queue).next;
        next.is_some_and(|next| self.charge_of(view, queue, next) <= left)
    }

    /// The budget that a queue asks for when its account opens: what it usually needs, and at least
    /// its next request.
    pub(super) fn fresh_budget(&self, view: &QueueView, queue: u32) -> u64 {
        let home = self.queues.at(queue);
        let charge = home.next.map_or(0, |next| self.charge_of(view, queue, next));
        home.max_budget.max(charge)
    }

    /// Another request of `queue` comes first (BFQ-49): a queue that is not in service asks for a
    /// budget that fits it.
    pub(super) fn next_changed(&mut self, view: &QueueView, queue: u32) {
        if self.queues.at(queue).next.is_none() || self.in_service == Some(queue) {
            return;
        }
        let mut budget = self.fresh_budget(view, queue);
        let entity = &mut self.schedule.entities[queue as usize];
        if self.version.charges_outsiders() {
            budget = budget.max(entity.service);
        }
        if entity.budget != budget {
            probe(Some(queue), ProbePoint::NextChanged { budget });
            entity.budget = budget;
            self.schedule.reposition(queue, view.now());
            self.recount_class(queue);
        }
    }

    /// `request`, waiting in `queue`, may now come before the one that was next. Returns whether it
    /// does.
    pub(super) fn reconsider_next(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
    ) -> bool {
        let before = self.queues.at(queue).next;
        let chosen = self.back_seek().choose(view, before, Some(request), self.last_position);
        self.queues.at_mut(queue).next = chosen;
        let is_other = before != chosen;
        if is_other {
            self.update_position(view, queue);
        }
        is_other
    }

    /// A request stops waiting in `queue`.
    pub(super) fn take_request(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        if self.queues.at(queue).next == Some(request) {
            let next = self.following(view, queue, request);
            self.queues.at_mut(queue).next = next;
            self.next_changed(view, queue);
        }
        let home = self.queues.at_mut(queue);
        home.lane.remove(&mut self.lanes, request);
        self.waiting -= 1;
        if !home.is_empty() {
            // Without this, other queues look for it where it no longer is (seed 004, patch 1).
            if self.tunables.position_update {
                self.update_position(view, queue);
            }
            return;
        }
        home.next = None;
        if home.is_busy && self.in_service != Some(queue) {
            self.leave_busy(view, queue, false);
            let entity = &mut self.schedule.entities[queue as usize];
            (entity.budget, entity.service) = (0, 0);
        }
        self.positions.remove(queue);
    }

    /// The request that comes next when `request` leaves (BFQ-39).
    fn following(&mut self, view: &QueueView, queue: u32, request: RequestId) -> Option<RequestId> {
        let home = self.queues.at_mut(queue);
        if !core::mem::replace(&mut home.fifo_looked, true) {
            let oldest = home.lane.oldest().filter(|&oldest| oldest != request);
            let deadline = home.lane.deadline(view).unwrap_or(Nanos::MAX);
            if oldest.is_some() && view.exact_now() >= deadline {
                probe(Some(queue), ProbePoint::Aged);
                return oldest;
            }
        }
        let lane = self.queues.at(queue).lane;
        lane.nearest_neighbour(&self.lanes, view, &self.back_seek(), request)
    }

    /// A new queue that nothing refers to yet, if there is room.
    pub(super) fn new_queue(&mut self, queue: Queue) -> Option<u32> {
        if self.queues.is_full() {
            self.schedule.forget_oldest();
        }
        while let Some(gone) = self.schedule.next_gone() {
            self.queues.free(gone);
        }
        let (key, slot) = self.queues.take()?;
        *slot = queue;
        Some(key.index())
    }

    /// Drops a reference to `queue`. If it was the last, only how far the queue is ahead is
    /// remembered.
    pub(super) fn put_queue(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.refs -= 1;
        if home.refs > 0 {
            return;
        }
        debug_assert!(home.is_empty() && home.in_flight == 0, "bfq: {home:?} is given up");
        if self.in_service == Some(queue) {
            self.end_turn(view, queue);
        }
        if self.queues.at(queue).is_busy {
            self.leave_busy(view, queue, false);
        }
        self.schedule.weights.remove(queue);
        self.positions.remove(queue);
        self.leave_burst(queue, true);
        self.leave_wakers(queue);
        self.replace_last_created(queue, None);
        if !self.schedule.abandon(queue) {
            self.queues.free(queue);
        }
    }
}

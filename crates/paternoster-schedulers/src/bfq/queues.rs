// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues: all of them, and the requests that wait in each.
//!
//! A queue holds its requests by sector and by age, and knows which comes next: the nearest to the
//! device's last position, or, once in each turn, the oldest if it has expired.
//!
//! ```text
//! by sector   120   [4008]   4100   9000        next: nearest to where the last one ended
//! by age      9000 120 4100 4008                looked at once in a turn, at its first dispatch
//! ```
//!
//! # Invariants
//! I1  `waiting` counts the requests in all queues.
//!
//! Source: BFQ-37 to BFQ-40.

use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::queue::Queue;
use crate::bfq::schedule::Schedule;
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::lane::LaneSpace;
use paternoster_core::slab::{Key, Slab};
use paternoster_core::time::Nanos;

/// Queues by number, and their requests.
#[derive(Debug)]
pub(super) struct Queues {
    slab: Slab<Queue>,
    lanes: LaneSpace,
    waiting: u32,
}

impl Queues {
    pub(super) fn with_capacity(queues: u32, requests: u32) -> Queues {
        Queues {
            slab: Slab::with_capacity(queues),
            lanes: LaneSpace::with_capacity(requests),
            waiting: 0,
        }
    }

    #[inline]
    pub(super) fn at(&self, queue: u32) -> &Queue {
        self.slab.at(queue)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, queue: u32) -> &mut Queue {
        self.slab.at_mut(queue)
    }

    pub(super) fn is_live(&self, queue: u32) -> bool {
        self.slab.is_live(queue)
    }

    /// Numbers are below this.
    pub(super) fn capacity(&self) -> u32 {
        self.slab.capacity()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Queue)> {
        self.slab.iter()
    }

    /// Where their requests are.
    pub(super) const fn lanes(&self) -> &LaneSpace {
        &self.lanes
    }

    /// Requests that wait in queues.
    #[inline]
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Requests of the queue in service, waiting and in flight, if it thinks short: the device may
    /// be kept empty for it.
    #[inline]
    pub(super) fn of_starved(&self, served: Option<u32>) -> Option<u32> {
        let home = self.at(served?);
        home.pattern.thinks_short.then(|| home.requests())
    }

    /// A new queue that nothing refers to yet, if there is room: the queue that departed first
    /// gives way.
    pub(super) fn add(&mut self, schedule: &mut Schedule, queue: Queue) -> Option<u32> {
        if self.slab.is_full() {
            schedule.forget_oldest();
        }
        while let Some(gone) = schedule.next_gone() {
            self.slab.free(gone);
        }
        let (key, slot) = self.slab.take()?;
        *slot = queue;
        Some(key.index())
    }

    /// A queue that nothing refers to any more, and that is not remembered.
    pub(super) fn free(&mut self, queue: u32) {
        self.slab.free(queue);
    }

    /// A request begins to wait in `queue`.
    #[inline]
    pub(super) fn insert(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        request: RequestId,
        deadline: Nanos,
    ) {
        self.slab.at_mut(queue).lane.insert(&mut self.lanes, view, request, deadline);
        self.waiting += 1;
    }

    /// A request stops waiting in `queue`.
    #[inline]
    pub(super) fn remove(&mut self, queue: u32, request: RequestId) -> &mut Queue {
        self.waiting -= 1;
        let home = self.slab.at_mut(queue);
        home.lane.remove(&mut self.lanes, request);
        home
    }

    /// A waiting request has grown to the front.
    pub(super) fn resort(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        self.slab.at_mut(queue).lane.resort(&mut self.lanes, view, request);
    }

    /// `gone` has become part of `survivor`; both wait in `queue`.
    pub(super) fn absorb(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        survivor: RequestId,
        gone: RequestId,
    ) {
        let home = self.slab.at_mut(queue);
        if home.next == Some(gone) {
            home.next = Some(survivor);
        }
        home.lane.absorb(&mut self.lanes, view, survivor, gone);
        self.waiting -= 1;
    }

    /// `request`, waiting in `queue`, may now come before the one that was next. Returns whether it
    /// does (BFQ-38).
    #[inline]
    pub(super) fn reconsider_next(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        order: &BackSeek,
        position: u64,
    ) -> bool {
        let home = self.slab.at_mut(queue);
        let before = home.next;
        home.next = order.choose(view, before, Some(request), position);
        before != home.next
    }

    /// The request that comes next when `request` leaves (BFQ-39).
    #[inline]
    pub(super) fn following(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        order: &BackSeek,
    ) -> Option<RequestId> {
        let home = self.slab.at_mut(queue);
        if !core::mem::replace(&mut home.fifo_looked, true) {
            let oldest = home.lane.oldest().filter(|&oldest| oldest != request);
            let deadline = home.lane.deadline(view).unwrap_or(Nanos::MAX);
            if oldest.is_some() && view.exact_now() >= deadline {
                probe(Some(queue), ProbePoint::Aged);
                return oldest;
            }
        }
        home.lane.nearest_neighbour(&self.lanes, view, order, request)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue table: CFQ's or BFQ's queues by number, and the requests that wait in each.
//!
//! A queue keeps its requests by sector and by age, and knows its next one:
//!
//! ```text
//! by sector   120   [4008]   4100   9000        next: nearest to where the last one ended
//! by age      9000 120 4100 4008                looked at once in a turn, at its first dispatch
//! ```
//!
//! Which request follows when the next one leaves is each scheduler's own rule.
//!
//! # Invariants
//! I1  `waiting` counts the requests in all queues.
//!
//! Source: CFQ-9 to CFQ-12, BFQ-37 to BFQ-40.

use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::lane::{Lane, LaneSpace};
use paternoster_core::slab::{Key, Slab};
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// A queue whose requests are in a table's lanes.
pub(crate) trait Queued: Default + Clone {
    /// The queue's requests.
    fn lane(&mut self) -> &mut Lane;

    /// The request that comes next.
    fn next(&mut self) -> &mut Option<RequestId>;
}

/// Queues by number, and their requests.
#[derive(Debug)]
pub(crate) struct QueueTable<Q> {
    slab: Slab<Q>,
    lanes: LaneSpace,
    waiting: u32,
}

impl<Q: Queued> QueueTable<Q> {
    pub(crate) fn with_capacity(queues: u32, requests: u32) -> QueueTable<Q> {
        QueueTable {
            slab: Slab::with_capacity(queues),
            lanes: LaneSpace::with_capacity(requests),
            waiting: 0,
        }
    }

    #[inline]
    pub(crate) fn at(&self, queue: u32) -> &Q {
        self.slab.at(queue)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, queue: u32) -> &mut Q {
        self.slab.at_mut(queue)
    }

    /// A queue, and where the requests of all are.
    #[inline]
    pub(crate) fn with_lanes(&mut self, queue: u32) -> (&mut Q, &LaneSpace) {
        (self.slab.at_mut(queue), &self.lanes)
    }

    pub(crate) fn is_live(&self, queue: u32) -> bool {
        self.slab.is_live(queue)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slab.is_full()
    }

    /// Numbers are below this.
    pub(crate) fn capacity(&self) -> u32 {
        self.slab.capacity()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Q)> {
        self.slab.iter()
    }

    /// Where their requests are.
    #[inline]
    pub(crate) const fn lanes(&self) -> &LaneSpace {
        &self.lanes
    }

    /// Requests that wait in queues.
    #[inline]
    pub(crate) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// A new queue that nothing refers to yet, if there is room.
    pub(crate) fn put(&mut self, queue: Q) -> Option<u32> {
        let (key, slot) = self.slab.take()?;
        *slot = queue;
        Some(key.index())
    }

    /// A queue that nothing refers to any more.
    pub(crate) fn free(&mut self, queue: u32) {
        self.slab.free(queue);
    }

    /// A request begins to wait in `queue`.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        request: RequestId,
        deadline: Nanos,
    ) -> &mut Q {
        let home = self.slab.at_mut(queue);
        home.lane().insert(&mut self.lanes, view, request, deadline);
        self.waiting += 1;
        home
    }

    /// A request stops waiting in `queue`.
    #[inline]
    pub(crate) fn remove(&mut self, queue: u32, request: RequestId) -> &mut Q {
        self.waiting -= 1;
        let home = self.slab.at_mut(queue);
        home.lane().remove(&mut self.lanes, request);
        home
    }

    /// A waiting request has grown to the front.
    pub(crate) fn resort(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        self.slab.at_mut(queue).lane().resort(&mut self.lanes, view, request);
    }

    /// `gone` has become part of `survivor`; both wait in `queue`.
    pub(crate) fn absorb(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        survivor: RequestId,
        gone: RequestId,
    ) -> &mut Q {
        let home = self.slab.at_mut(queue);
        if *home.next() == Some(gone) {
            *home.next() = Some(survivor);
        }
        home.lane().absorb(&mut self.lanes, view, survivor, gone);
        self.waiting -= 1;
        home
    }

    /// `request`, waiting in `queue`, may now come before the one that was next, as seen from
    /// `position`. Returns whether it does (BFQ-38).
    #[inline]
    pub(crate) fn reconsider_next(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        order: &BackSeek,
        position: u64,
    ) -> bool {
        let next = self.slab.at_mut(queue).next();
        let before = *next;
        *next = order.choose(view, before, Some(request), position);
        before != *next
    }
}

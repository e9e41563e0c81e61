// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lane: waiting requests in sector order and also in order of age.
//!
//! A scheduler follows the sectors as long as that is fair, and age when it no longer is. A lane
//! has both orders of the same requests; deadline has one for each direction, mq-deadline one for
//! each class and direction.
//!
//! ```text
//! by sector   8 ─ 40 ─ 96 ─ 200          successor of 40: 96
//! by age      96, 8, 200, 40             96 expires first, at its deadline
//! ```
//!
//! All lanes of an elevator share one [`LaneSpace`]; a request is in at most one of them. Its
//! deadline is in `scratch[0]`.
//!
//! # Invariants
//! I1  Both orders hold the same requests.
//! I2  Deadlines never decrease along the FIFO, while expiries are not changed: the head is the
//!     oldest.
//!
//! Source: DL-11 (a merged request keeps the earlier deadline and its position).

use crate::list::{Links, List};
use crate::pick::back_seek::BackSeek;
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::time::Nanos;
use crate::tree::{Nodes, Root};

/// Trees and links for all lanes of an elevator.
#[derive(Debug)]
pub struct LaneSpace {
    nodes: Nodes<u64>,
    links: Links,
}

impl LaneSpace {
    /// Room for requests in slots below `capacity`.
    #[inline]
    #[must_use]
    pub fn with_capacity(capacity: u32) -> LaneSpace {
        LaneSpace { nodes: Nodes::with_capacity(capacity), links: Links::with_capacity(capacity) }
    }

    /// Whether a request is in some lane.
    #[inline]
    #[must_use]
    pub fn contains(&self, request: RequestId) -> bool {
        self.nodes.contains(request.index())
    }

    /// The first sector of a request that is in a lane.
    #[inline]
    #[must_use]
    pub fn sector(&self, request: RequestId) -> u64 {
        self.nodes.key(request.index()).unwrap_or(0)
    }

    /// The request after `request` in sector order. One that is in no lane has none: its former
    /// successor may have ended.
    #[inline]
    #[must_use]
    pub fn latter(&self, request: RequestId) -> Option<RequestId> {
        let next = self.nodes.next(request.index()).map(RequestId::from_index);
        next.filter(|_| self.contains(request))
    }

    /// The request before `request` in sector order, likewise.
    #[inline]
    #[must_use]
    pub fn former(&self, request: RequestId) -> Option<RequestId> {
        let prev = self.nodes.prev(request.index()).map(RequestId::from_index);
        prev.filter(|_| self.contains(request))
    }
}

/// Requests by sector and by age.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lane {
    sorted: Root,
    fifo: List,
}

impl Lane {
    /// How many requests it holds.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.sorted.len()
    }

    /// Whether it holds none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Inserts a request that should be served by `deadline`, as the youngest.
    #[inline]
    pub fn insert(
        &mut self,
        space: &mut LaneSpace,
        view: &mut QueueView,
        request: RequestId,
        deadline: Nanos,
    ) {
        let own = &mut view.requests[request];
        own.scratch[0] = deadline.0;
        self.sorted.insert(&mut space.nodes, request.index(), own.sector());
        self.fifo.push_back(&mut space.links, request.index());
    }

    /// Removes a request.
    #[inline]
    pub fn remove(&mut self, space: &mut LaneSpace, request: RequestId) {
        self.sorted.remove(&mut space.nodes, request.index());
        self.fifo.remove(&mut space.links, request.index());
    }

    /// A request's start has changed, and so its place in sector order.
    #[inline]
    pub fn resort(&mut self, space: &mut LaneSpace, view: &QueueView, request: RequestId) {
        self.sorted.rekey(&mut space.nodes, request.index(), view.requests[request].sector());
    }

    /// `gone` became part of `survivor`: if `gone` was more urgent, its deadline and its place by
    /// age pass to `survivor`.
    #[inline]
    pub fn absorb(
        &mut self,
        space: &mut LaneSpace,
        view: &mut QueueView,
        survivor: RequestId,
        gone: RequestId,
    ) {
        let (own, other) = (view.requests[survivor].scratch[0], view.requests[gone].scratch[0]);
        if other < own {
            view.requests[survivor].scratch[0] = other;
            self.fifo.remove(&mut space.links, survivor.index());
            self.fifo.insert_before(&mut space.links, gone.index(), survivor.index());
        }
        self.remove(space, gone);
    }

    /// The first request that starts at or after `sector`.
    #[inline]
    #[must_use]
    pub fn from_sector(&self, space: &LaneSpace, sector: u64) -> Option<RequestId> {
        self.sorted.lower_bound(&space.nodes, &sector).map(RequestId::from_index)
    }

    /// The first request of all by sector.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<RequestId> {
        self.sorted.first().map(RequestId::from_index)
    }

    /// The request that follows `request` when that leaves: the nearer of its neighbours by sector,
    /// or the first of all when it is the last.
    #[inline]
    #[must_use]
    pub fn nearest_neighbour(
        &self,
        space: &LaneSpace,
        view: &QueueView,
        back_seek: &BackSeek,
        request: RequestId,
    ) -> Option<RequestId> {
        let first = || self.from_sector(space, 0);
        let behind = space.latter(request).or_else(first).filter(|&other| other != request);
        let from = view.requests[request].sector();
        back_seek.choose(view, behind, space.former(request), from)
    }

    /// The oldest request.
    #[inline]
    #[must_use]
    pub fn oldest(&self) -> Option<RequestId> {
        self.fifo.first().map(RequestId::from_index)
    }

    /// When the oldest request should be served.
    #[inline]
    #[must_use]
    pub fn deadline(&self, view: &QueueView) -> Option<Nanos> {
        self.oldest().map(|oldest| Nanos(view.requests[oldest].scratch[0]))
    }

    /// How many requests are before `request` in sector order. O(n).
    #[inline]
    #[must_use]
    pub fn before(&self, space: &LaneSpace, request: RequestId) -> u32 {
        let mut count = 0;
        for index in self.sorted.iter(&space.nodes) {
            if index == request.index() {
                break;
            }
            count += 1;
        }
        count
    }

    /// Verifies the orders. O(n).
    ///
    /// # Errors
    /// The invariant that is broken.
    #[inline]
    pub fn check(&self, space: &LaneSpace, view: &QueueView) -> Result<(), &'static str> {
        self.sorted.check(&space.nodes)?;
        self.fifo.check(&space.links)?;
        if self.sorted.len() != self.fifo.len() {
            return Err("lane I1: the two orders hold different requests");
        }
        for index in self.sorted.iter(&space.nodes) {
            let request = &view.requests[RequestId::from_index(index)];
            if space.nodes.key(index) != Some(request.sector()) {
                return Err("lane I1: a request stands under another sector than its own");
            }
        }
        Ok(())
    }
}

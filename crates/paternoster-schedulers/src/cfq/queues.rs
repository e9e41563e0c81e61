// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues: all of them, and the requests that wait in each.
//!
//! A queue holds its requests by sector and by age, and knows which comes next: the nearest to the
//! device's last position. When that one leaves, the nearer of its neighbours follows.
//!
//! ```text
//! by sector   120   [4008]   4100   9000        next: nearest to where the last one ended
//! by age      9000 120 4100 4008                looked at once in a slice, at its first dispatch
//! ```
//!
//! # Invariants
//! I1  `waiting` counts the requests in all queues.
//! I2  A queue's `urgent` counts those of its requests that are.
//!
//! Source: CFQ-9 to CFQ-12, CFQ-54.

use crate::cfq::queue::Queue;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::lane::LaneSpace;
use paternoster_core::slab::{Key, Slab};
use paternoster_core::time::Nanos;
use paternoster_core::{Flags, QueueView, RequestId};

/// Queues by number, and their requests.
#[derive(Debug)]
pub(super) struct Queues {
    slab: Slab<Queue>,
    lanes: LaneSpace,
    waiting: u32,
    /// Requests with this flag go before the others of their queue.
    urgent: Flags,
}

impl Queues {
    pub(super) fn new(queues: u32, requests: u32, urgent: Flags) -> Queues {
        Queues {
            slab: Slab::with_capacity(queues),
            lanes: LaneSpace::with_capacity(requests),
            waiting: 0,
            urgent,
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

    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.slab.is_full()
    }

    /// Numbers are below this.
    pub(super) fn capacity(&self) -> u32 {
        self.slab.capacity()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Queue)> {
        self.slab.iter()
    }

    /// Where their requests are.
    #[inline]
    pub(super) const fn lanes(&self) -> &LaneSpace {
        &self.lanes
    }

    /// Requests that wait in queues.
    #[inline]
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether a request goes before the others of its queue, and preempts.
    #[inline]
    pub(super) fn is_urgent(&self, view: &QueueView, request: RequestId) -> bool {
        view.request(request).flags().intersects(self.urgent)
    }

    /// A new queue that nothing refers to yet, if there is room.
    pub(super) fn add(&mut self, queue: Queue) -> Option<u32> {
        let (key, slot) = self.slab.take()?;
        *slot = queue;
        Some(key.index())
    }

    /// A queue that nothing refers to any more.
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
        let urgent = self.is_urgent(view, request);
        let home = self.slab.at_mut(queue);
        home.lane.insert(&mut self.lanes, view, request, deadline);
        home.urgent += u32::from(urgent);
        self.waiting += 1;
    }

    /// A request stops waiting in `queue`. Returns the queue, whose next one is the nearer of its
    /// neighbours by `order`.
    #[inline]
    pub(super) fn remove(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        order: &BackSeek,
    ) -> &mut Queue {
        let urgent = self.is_urgent(view, request);
        let home = self.slab.at_mut(queue);
        if home.next == Some(request) {
            home.next = home.lane.nearest_neighbour(&self.lanes, view, order, request);
        }
        home.lane.remove(&mut self.lanes, request);
        home.urgent -= u32::from(urgent);
        self.waiting -= 1;
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
        let urgent = self.is_urgent(view, gone);
        let home = self.slab.at_mut(queue);
        if home.next == Some(gone) {
            home.next = Some(survivor);
        }
        home.lane.absorb(&mut self.lanes, view, survivor, gone);
        home.urgent -= u32::from(urgent);
        self.waiting -= 1;
    }

    /// `request`, waiting in `queue`, may now come before the one that was next, as seen from
    /// `position`.
    #[inline]
    pub(super) fn reconsider_next(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        order: &BackSeek,
        position: u64,
    ) {
        let home = self.slab.at_mut(queue);
        home.next = order.choose(view, home.next, Some(request), position);
    }

    /// A request that waits in `queue` at the sector of `request`.
    pub(super) fn alias(
        &self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
    ) -> Option<RequestId> {
        let sector = view.request(request).sector();
        let there = self.at(queue).lane.from_sector(&self.lanes, sector);
        there.filter(|&alias| view.request(alias).sector() == sector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::tunables::Tunables;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Bio, ClientSpec, Limits, Op};

    /// A queue with reads at these sectors, the last of them urgent.
    fn filled<const N: usize>(sectors: [u64; N]) -> (QueueView, Queues, [RequestId; N]) {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let client = view.add_client(ClientSpec::new());
        let mut queues = Queues::new(1, view.request_slots(), Flags::META);
        let queue = queues.add(Queue::default()).expect("room for it");
        let order = Tunables::default().back_seek(Flags::META);
        let last = sectors[N - 1];
        let ids = sectors.map(|sector| {
            let flags = if sector == last { Flags::META } else { Flags::NONE };
            let bio = Bio::new(client, Op::Read, sector, 8).flags(flags);
            let id = view.add_request(&bio, Nanos::ZERO);
            queues.insert(&mut view, queue, id, Nanos::ZERO);
            queues.reconsider_next(&view, queue, id, &order, 0);
            id
        });
        (view, queues, ids)
    }

    /// Is the urgent one next, then the nearer of its neighbours, and is the count of both kept?
    /// From 4100, 4008 is 92 back and costs 184; 9000 is 4900 ahead.
    #[test]
    fn the_nearer_neighbour_follows() {
        let (view, mut queues, [_, near, far, urgent]) = filled([120, 4008, 9000, 4100]);
        let order = Tunables::default().back_seek(Flags::META);
        let home = queues.at(0);
        assert_eq!((home.next, home.urgent, queues.waiting()), (Some(urgent), 1, 4));
        let home = queues.remove(&view, 0, urgent, &order);
        assert_eq!((home.next, home.urgent), (Some(near), 0));
        let home = queues.remove(&view, 0, far, &order);
        assert_eq!((home.next, home.lane.len()), (Some(near), 2));
        assert_eq!(queues.waiting(), 2);
    }

    /// Is a request an alias of one at the same sector only?
    #[test]
    fn an_alias_has_the_same_sector() {
        let (mut view, queues, [_, second]) = filled([120, 4008]);
        let client = view.request(second).client();
        let mut alias = |sector| {
            let id = view.add_request(&Bio::new(client, Op::Read, sector, 8), Nanos::ZERO);
            queues.alias(&view, 0, id)
        };
        assert_eq!([4000, 4008, 4009].map(&mut alias), [None, Some(second), None]);
    }

    /// If the next request becomes part of another, is that one next, and are both counted as one?
    #[test]
    fn what_absorbs_the_next_is_next() {
        let (mut view, mut queues, [first, second]) = filled([120, 128]);
        assert_eq!(queues.at(0).next, Some(second));
        queues.absorb(&mut view, 0, first, second);
        let home = queues.at(0);
        assert_eq!((home.next, home.urgent, home.lane.len()), (Some(first), 0, 1));
        assert_eq!(queues.waiting(), 1);
    }
}

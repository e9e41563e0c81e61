// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues: all of them, and which of their requests are urgent.
//!
//! How a queue holds its requests is in `queue_table.rs`: by sector and by age. When the next one
//! leaves, the nearer of its neighbours follows.
//!
//! # Invariants
//! I1  A queue's `urgent` counts those of its requests that are.
//!
//! Source: CFQ-9 to CFQ-12, CFQ-54.

use core::ops::{Deref, DerefMut};

use crate::cfq::queue::Queue;
use crate::queue_table::{QueueTable, Queued};
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::lane::Lane;
use paternoster_core::time::Nanos;
use paternoster_core::{Flags, QueueView, RequestId};

impl Queued for Queue {
    #[inline]
    fn lane(&mut self) -> &mut Lane {
        &mut self.lane
    }

    #[inline]
    fn next(&mut self) -> &mut Option<RequestId> {
        &mut self.next
    }
}

/// Queues by number, and their requests.
#[derive(Debug)]
pub(super) struct Queues {
    table: QueueTable<Queue>,
    /// Requests with this flag go before the others of their queue.
    urgent: Flags,
}

impl Deref for Queues {
    type Target = QueueTable<Queue>;

    #[inline]
    fn deref(&self) -> &QueueTable<Queue> {
        &self.table
    }
}

impl DerefMut for Queues {
    #[inline]
    fn deref_mut(&mut self) -> &mut QueueTable<Queue> {
        &mut self.table
    }
}

impl Queues {
    pub(super) fn new(queues: u32, requests: u32, urgent: Flags) -> Queues {
        Queues { table: QueueTable::with_capacity(queues, requests), urgent }
    }

    /// Whether a request goes before the others of its queue, and preempts.
    #[inline]
    pub(super) fn is_urgent(&self, view: &QueueView, request: RequestId) -> bool {
        view.request(request).flags().intersects(self.urgent)
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
        self.table.insert(view, queue, request, deadline).urgent += u32::from(urgent);
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
        let (home, lanes) = self.table.with_lanes(queue);
        if home.next == Some(request) {
            home.next = home.lane.nearest_neighbour(lanes, view, order, request);
        }
        let home = self.table.remove(queue, request);
        home.urgent -= u32::from(urgent);
        home
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
        self.table.absorb(view, queue, survivor, gone).urgent -= u32::from(urgent);
    }

    /// A request that waits in `queue` at the sector of `request`.
    pub(super) fn alias(
        &self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
    ) -> Option<RequestId> {
        let sector = view.request(request).sector();
        let there = self.at(queue).lane.from_sector(self.lanes(), sector);
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
        let queue = queues.put(Queue::default()).expect("room for it");
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

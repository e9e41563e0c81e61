// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue: the requests of one process, and what is known of it.
//!
//! Sync requests wait in a queue of their process; async ones in a queue shared by all of a class
//! and level, because the process that causes a write-back is not the one that waits for it. A
//! queue holds its requests by sector and by age, and knows which comes next:
//!
//! ```text
//! by sector   120   [4008]   4100   9000        next: nearest to where the last one ended
//! by age      9000 120 4100 4008                looked at once in a slice, at its first dispatch
//! ```
//!
//! A queue lives as long as something refers to it: a process, a request, a queue that is to be
//! merged into it, and for async queues the device.
//!
//! # Invariants
//! I1  `refs` is the number of its requests, plus the processes that come to it directly or through
//!     merges, plus one if it is shared.
//! I2  `next` is one of its waiting requests; there is one exactly if any waits.
//! I3  `dispatched` counts its requests between their dispatch and their end.
//!
//! Source: CFQ-9 to CFQ-12, CFQ-54.

use crate::cfq::Cfq;
use crate::cfq::kind::{Kind, Stand, tree_of};
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::slice::Slice;
use paternoster_core::observe::seek::SeekHistory;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::home::set_in_flight;
use paternoster_core::pick::lane::Lane;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, ClientId, Priority, QueueView, RequestId};

/// The requests of one process, or of a class and level if they are async.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) refs: u32,
    /// Live requests that belong to it.
    pub(super) allocated: u32,
    /// The client it was made for; none if it is shared.
    pub(super) client: Option<ClientId>,
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    /// Another priority takes effect with the next request.
    pub(super) priority_changed: bool,
    pub(super) group: u32,
    /// The group it returns to, if it was moved to the root (`group_isolation`).
    pub(super) own_group: Option<u32>,
    /// It is among the queues to be served (an active queue stays there though empty).
    pub(super) is_busy: bool,
    /// Its place in the service trees, or its last one.
    pub(super) stand: Option<Stand>,
    pub(super) lane: Lane,
    pub(super) next: Option<RequestId>,
    pub(super) dispatched: u32,
    /// Waiting requests that are urgent.
    pub(super) urgent: u32,
    pub(super) slice: Slice,
    pub(super) seek: SeekHistory,
    /// The device may idle for it.
    pub(super) idle_window: bool,
    /// It has had four requests waiting at once.
    pub(super) is_deep: bool,
    /// The device idles for it now.
    pub(super) wait_request: bool,
    /// It may be served although its slice is used up.
    pub(super) must_dispatch: bool,
    /// Its process has had its permit to allocate in this slice.
    pub(super) had_permit: bool,
    /// The slice goes on until its group has work again.
    pub(super) wait_busy: bool,
    /// Several processes share it.
    pub(super) is_shared: bool,
    /// Its processes should part.
    pub(super) is_to_split: bool,
    /// The queue that its processes move to.
    pub(super) merge_into: Option<u32>,
    /// Of its last slice that was long enough, in sectors per tick (seed 001).
    pub(super) bandwidth: u64,
}

impl Queue {
    /// Whether nothing waits in it.
    pub(super) const fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    /// How it is treated.
    pub(super) const fn kind(&self) -> Kind {
        if !self.is_sync {
            Kind::Async
        } else if self.idle_window {
            Kind::Sync
        } else {
            Kind::NoIdle
        }
    }

    /// Where it belongs by its present kind.
    pub(super) const fn place(&self) -> Stand {
        Stand { group: self.group, tree: tree_of(self.priority.class, self.kind()) }
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.priority.class == Class::Idle
    }

    pub(super) fn is_realtime(&self) -> bool {
        self.priority.class == Class::Realtime
    }

    /// The references to it other than its requests.
    pub(super) const fn processes(&self) -> u32 {
        self.refs - self.allocated
    }
}

impl Cfq {
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
        if home.is_sync && home.dispatched == u32::from(!flies) {
            self.flying_sync = self.flying_sync.wrapping_add_signed(by);
        }
        let group = &mut self.groups[home.group];
        for count in [
            &mut home.dispatched,
            &mut self.in_flight[usize::from(home.is_sync)],
            &mut group.dispatched,
        ] {
            *count = count.wrapping_add_signed(by);
        }
    }

    /// Whether a request goes before the others of its queue, and preempts.
    pub(super) fn is_urgent(&self, view: &QueueView, request: RequestId) -> bool {
        view.request(request).flags().intersects(self.version.urgent)
    }

    /// What a queue's next request is chosen by.
    fn back_seek(&self) -> BackSeek {
        BackSeek {
            most: self.tunables.back_seek_max.saturating_mul(2),
            penalty: self.tunables.back_seek_penalty.into(),
            urgent: self.version.urgent,
        }
    }

    /// A request begins to wait in `queue`.
    pub(super) fn add_request(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        if self.version.pushes_aliases_out {
            self.push_alias_out(view, queue, request);
        }
        let sync = view.request(request).is_sync();
        let expire = view.hz().floor(self.tunables.fifo_expire[usize::from(sync)]);
        let deadline = view.now() + expire;
        let lane = &mut self.queues.at_mut(queue).lane;
        lane.insert(&mut self.lanes, view, request, deadline);
        self.waiting += 1;
        if !self.queues.at(queue).is_busy {
            self.make_busy(view, queue);
        }
        let urgent = self.is_urgent(view, request);
        self.queues.at_mut(queue).urgent += u32::from(urgent);
        self.reconsider_next(view, queue, request);
    }

    /// `request` may now come before the one that was next.
    pub(super) fn reconsider_next(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let next = self.queues.at(queue).next;
        let chosen = self.back_seek().choose(view, next, Some(request), self.last_position);
        self.queues.at_mut(queue).next = chosen;
        // The active queue is not looked up by position; it is repositioned when its turn ends.
        if self.active != Some(queue) {
            self.update_position(view, queue);
        }
    }

    /// A waiting request at the same sector goes to the dispatch list now.
    fn push_alias_out(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let sector = view.request(request).sector();
        let there = self.queues.at(queue).lane.from_sector(&self.lanes, sector);
        if let Some(alias) = there.filter(|&alias| view.request(alias).sector() == sector) {
            self.dispatch(view, queue, alias);
            self.bypass.push_last(alias);
        }
    }

    /// A request of `queue` stops waiting. The queue's next one is the nearer of its neighbours.
    pub(super) fn take_request(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        if self.queues.at(queue).next == Some(request) {
            let (lane, back_seek) = (self.queues.at(queue).lane, self.back_seek());
            let next = lane.nearest_neighbour(&self.lanes, view, &back_seek, request);
            self.queues.at_mut(queue).next = next;
        }
        let urgent = self.is_urgent(view, request);
        let home = self.queues.at_mut(queue);
        home.lane.remove(&mut self.lanes, request);
        home.urgent -= u32::from(urgent);
        self.waiting -= 1;
        if self.queues.at(queue).is_empty() {
            self.positions.remove(queue);
        }
    }

    /// A request leaves `queue` other than by dispatch: a queue without requests leaves the busy
    /// queues, unless it is being served.
    pub(super) fn withdraw(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        self.take_request(view, queue, request);
        let left = self.queues.at(queue);
        if left.is_empty() && left.is_busy && self.active != Some(queue) {
            self.make_idle(queue);
        } else if self.active != Some(queue) {
            self.update_position(view, queue);
        }
    }

    /// The oldest request of `queue`, if it has expired and expiry was not yet checked in this
    /// slice.
    pub(super) fn expired_request(&mut self, view: &QueueView, queue: u32) -> Option<RequestId> {
        let home = self.queues.at_mut(queue);
        if core::mem::replace(&mut home.slice.fifo_looked, true) {
            return None;
        }
        let deadline = home.lane.deadline(view).unwrap_or(Nanos::MAX);
        let oldest = home.lane.oldest();
        replace(Decision::Aged { oldest }, oldest.filter(|_| view.now() >= deadline))
    }

    /// A new queue that nothing refers to yet, if there is room.
    pub(super) fn new_queue(&mut self, queue: Queue) -> Option<u32> {
        let (key, slot) = self.queues.take()?;
        *slot = queue;
        Some(key.index())
    }

    /// Drops a reference to `queue`.
    pub(super) fn put_queue(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.refs -= 1;
        if home.refs > 0 {
            return;
        }
        debug_assert!(home.is_empty() && home.dispatched == 0, "cfq: {home:?} is given up");
        if self.active == Some(queue) {
            self.expire(view, false);
        }
        if self.queues.at(queue).is_busy {
            self.make_idle(queue);
        }
        self.positions.remove(queue);
        self.queues.free(queue);
    }
}

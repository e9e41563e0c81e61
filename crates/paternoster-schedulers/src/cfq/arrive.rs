// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrive: a request begins to wait, or stops waiting.
//!
//! ```text
//! request ─▶ its queue ─▶ next of it? ─▶ busy, at a place in a tree ─▶ like what? ─▶ preempts?
//! ```
//!
//! This is wiring: what comes next in a queue, and whether a request preempts, is asked of the
//! parts (`queues`, `preempt`), and what follows is done here.
//!
//! Source: CFQ-9 to CFQ-12.

use crate::cfq::Cfq;
use paternoster_core::pick::home::set_in_flight;
use paternoster_core::{QueueView, RequestId};

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

    /// A request begins to wait in `queue`.
    pub(super) fn add_request(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        if self.version.pushes_aliases_out
            && let Some(alias) = self.queues.alias(view, queue, request)
        {
            // A waiting request at the same sector goes to the dispatch list now.
            self.dispatch(view, queue, alias);
            self.bypass.push_last(alias);
        }
        let sync = view.request(request).is_sync();
        let expire = view.hz().floor(self.tunables.fifo_expire[usize::from(sync)]);
        let deadline = view.now() + expire;
        self.queues.insert(view, queue, request, deadline);
        if !self.queues.at(queue).is_busy {
            self.make_busy(view, queue);
        }
        self.reconsider_next(view, queue, request);
    }

    /// `request` may now come before the one that was next.
    pub(super) fn reconsider_next(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let (order, position) = (self.tunables.back_seek(self.version.urgent), self.last_position);
        self.queues.reconsider_next(view, queue, request, &order, position);
        // The active queue is not looked up by position; it is repositioned when its turn ends.
        if self.active != Some(queue) {
            self.update_position(view, queue);
        }
    }

    /// A request of `queue` stops waiting.
    pub(super) fn take_request(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let order = self.tunables.back_seek(self.version.urgent);
        if self.queues.remove(view, queue, request, &order).is_empty() {
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
}

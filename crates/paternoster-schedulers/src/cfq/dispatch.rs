// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatch: how many requests of a queue may be in flight, and which goes next.
//!
//! A device with command queueing orders its commands itself, so too much of one queue in it delays
//! the next one's turn. A queue may have half the quantum in flight at any time, the whole quantum
//! while its slice will last for it, and any number when it is alone:
//!
//! ```text
//! quantum 8     just activated                      4
//!               slice left for dispatched * 8 ms    8
//!               the only busy queue                 no limit
//! ```
//!
//! Async requests wait until no sync one is in flight. With `low_latency`, after a late sync
//! request they start again with one at a time, and get one more for each `slice_sync` since.
//!
//! # Invariants
//! I1  `in_flight` counts dispatched requests by the kind of their queue, `in_driver` those of them
//!     in the device.
//!
//! Source: CFQ-61 and CFQ-20 to CFQ-25; CFQ-67, CFQ-69.

use crate::cfq::Cfq;
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::slice::signed;
use paternoster_core::observe::queue_depth::Probing;
use paternoster_core::pick::home::home;
use paternoster_core::{QueueView, RequestId};

/// With more than this many requests waiting or in flight, the device's depth can be probed.
const LOAD: u32 = 5;

impl Cfq {
    /// The next request of `queue`, if one more of it may be in flight.
    pub(super) fn dispatch_next(&mut self, view: &mut QueueView, queue: u32) -> Option<RequestId> {
        let mut expired = None;
        if self.version.lets_expired_through {
            expired = self.queues.at_mut(queue).expired_request(view);
            self.queues.at_mut(queue).must_dispatch |= expired.is_some();
        }
        let may = self.may_dispatch(view, queue);
        if !replace(Decision::MayDispatch, may) {
            return None;
        }
        if !self.version.lets_expired_through {
            expired = self.queues.at_mut(queue).expired_request(view);
        }
        let waiting = self.queues.at(queue).lane.len();
        let request = expired.or(self.queues.at(queue).next)?;
        let request = replace(Decision::Request { waiting }, request);
        self.dispatch(view, queue, request);
        if self.active_client.is_none() {
            self.active_client = Some(view.request(request).client());
        }
        self.after_dispatch(view, queue);
        Some(request)
    }

    /// A request leaves its queue for the device.
    pub(super) fn dispatch(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        // It may have come here because of its age, with another one next: the queue continues from
        // where the device goes.
        self.queues.at_mut(queue).next = Some(request);
        self.take_request(view, queue, request);
        self.count_in_flight(view, queue, request, true);
    }

    /// An async slice ends with its last request, an idle-class slice with each.
    fn after_dispatch(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.slice.dispatched += 1;
        home.must_dispatch = false;
        let (dispatched, level) = (home.slice.dispatched, home.priority.level);
        let (sync, idle) = (home.is_sync, home.is_idle_class());
        let full = !sync && dispatched >= self.tunables.async_limit(level);
        if replace(Decision::EndsWithDispatch, self.busy > 1 && (full || idle)) {
            let soon = view.now() + view.hz().tick();
            self.queues.at_mut(queue).slice.end = soon;
            self.expire(view, false);
        }
    }

    /// Whether one more request of `queue` may be in flight.
    fn may_dispatch(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        if self.version.lets_expired_through && home.must_dispatch {
            return true;
        }
        let [async_in_flight, sync_in_flight] = self.in_flight;
        if async_in_flight > 0 && self.should_idle(view, queue) {
            return false;
        }
        if !home.is_sync && sync_in_flight > 0 {
            return false;
        }
        let Some(most) = self.most_in_flight(view, queue) else { return false };
        let most = most.min(self.most_async(view, queue));
        home.dispatched < replace(Decision::Most, most)
    }

    /// The limit by the quantum; `None` if not even one more.
    fn most_in_flight(&self, view: &QueueView, queue: u32) -> Option<u32> {
        let home = self.queues.at(queue);
        let quantum = self.tunables.quantum;
        let most = if home.is_idle_class() { 1 } else { (quantum / 2).max(1) };
        if home.dispatched < most {
            return Some(most);
        }
        if home.is_idle_class() {
            return None;
        }
        let promoted = self.version.promotes_sole_sync && home.is_sync && self.busy_sync == 1;
        if self.busy == 1 || promoted {
            return Some(u32::MAX);
        }
        (!self.is_slice_used_soon(view, queue)).then_some(quantum)
    }

    /// With `low_latency`, the limit by the time since a sync request was last late (CFQ-23).
    fn most_async(&self, view: &QueueView, queue: u32) -> u32 {
        let home = self.queues.at(queue);
        if home.is_sync || !self.tunables.low_latency {
            return u32::MAX;
        }
        let slice = view.hz().floor(self.tunables.slice[1]).0.max(1);
        let since = signed(view.now()).saturating_sub(self.last_delayed_sync);
        let depth = u64::try_from(since).unwrap_or(0) / slice;
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        if depth == 0 && home.dispatched == 0 { 1 } else { depth }
    }

    /// The device has a request.
    pub(super) fn request_started(&mut self, view: &QueueView, request: RequestId) {
        self.in_driver += 1;
        self.last_position = view.request(request).end();
    }

    /// A request has ended.
    pub(super) fn request_ended(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        self.sample_depth();
        self.in_driver -= 1;
        self.count_in_flight(view, queue, request, false);
        if view.request(request).is_sync() {
            self.sync_ended(view, queue, request);
        }
        let group = self.queues.at(queue).group;
        self.groups[group].think_time.ended(view.now());
        self.count_sectors(view, queue, request);
        if self.active == Some(queue) {
            self.active_ended_one(view, queue, request);
        }
        self.climb(view, request);
    }

    /// Think times start from here; a request that took too long holds async ones back.
    fn sync_ended(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let now = view.now();
        if let Some(context) = self.contexts.get_mut(view.request(request).client()) {
            context.think_time.ended(now);
        }
        let home = self.queues.at(queue);
        // A queue that has left its tree would return to the one of its present kind.
        let stand = home.stand.filter(|_| home.is_busy).unwrap_or_else(|| home.place());
        self.groups[stand.group].tree_think_times[stand.tree].ended(now);
        let began = view.hz().floor(view.request(request).start());
        let late = now >= began + view.hz().floor(self.tunables.fifo_expire[1]);
        if replace(Decision::Late, late) {
            self.last_delayed_sync = signed(now);
        }
    }

    /// Whether the device is taken to queue commands: yes until the contrary is known.
    pub(super) fn may_queue_commands(&self, view: &QueueView) -> bool {
        self.queues_commands(view) != Some(false)
    }

    fn sample_depth(&mut self) {
        let starved = self.active.is_some_and(|active| {
            let home = self.queues.at(active);
            home.idle_window && home.dispatched + home.lane.len() < 5
        });
        let loaded = self.queues.waiting().max(self.in_driver) > LOAD;
        let counts = loaded && !(starved && self.in_driver < Probing::CFQ.queueing);
        self.depth.sample(&Probing::CFQ, self.in_driver, counts);
    }
}

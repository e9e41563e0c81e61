// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrive: a request begins to wait.
//!
//! BFQ learns most of what it knows when requests arrive. A request that comes to an idle queue
//! opens a new account, unless the queue only had a *hole*: it ran out of work in its turn, and the
//! next request has come in time. Then it keeps what was left of its budget, and may preempt the
//! queue in service:
//!
//! ```text
//! turn of A ▓▓▓▓▓      ▓▓▓        A had budget left, and came back within 24 ms of its last
//!           turn of B ▓          completion: its turn continues
//! ```
//!
//! Source: BFQ-30, BFQ-34, BFQ-47, BFQ-50 to BFQ-55, BFQ-101.

use crate::bfq::Bfq;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::weight_raising::Arrival;
use paternoster_core::event::{Expiry, Note, Preemption};
use paternoster_core::pick::home::{home, settle};
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView, RequestId};

/// A request smaller than this, and alone, may have more behind it.
const SMALL: u32 = 32;

impl Bfq {
    /// A request finds its queue.
    pub(super) fn settle_request(&mut self, view: &mut QueueView, request: RequestId) {
        let (client, sync) = (view.request(request).client(), view.request(request).is_sync());
        let queue = self.queue_for(view, client, sync);
        let home = self.queues.at_mut(queue);
        home.allocated += 1;
        home.refs += 1;
        self.contexts[client.index() as usize].requests += 1;
        self.count_allocated(queue, 1);
        settle(view, request, queue);
        if self.queues.at(queue).is_new {
            self.judge_burst(view, queue);
        }
    }

    /// A settled request ends its life.
    pub(super) fn forget_request(&mut self, view: &mut QueueView, request: RequestId) {
        let (queue, client) = (home(view, request), view.request(request).client());
        self.contexts[client.index() as usize].requests -= 1;
        self.count_allocated(queue, -1);
        self.queues.at_mut(queue).allocated -= 1;
        self.put_queue(view, queue);
    }

    /// The queue for I/O of `client` at `sector`, after a merge if one is due.
    pub(super) fn merge_if_due(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
        sector: u64,
    ) -> u32 {
        let Some(target) = self.cooperator(view, client, queue, sector) else { return queue };
        if self.contexts[client.index() as usize].slots[1] == Some(queue) {
            self.merge(view, client, queue, target);
        }
        target
    }

    /// A settled request begins to wait.
    pub(super) fn arrive(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = self.follow_merge(view, request);
        if self.version.learns_first {
            self.learn(view, queue, request);
            self.add_request(view, queue, request);
        } else {
            self.add_request(view, queue, request);
            self.learn(view, queue, request);
        }
        if self.in_service == Some(queue) && self.queues.at(queue).wait_request {
            self.came_while_idling(view, queue, request);
        }
    }

    /// The request moves along if its process moves to another queue.
    fn follow_merge(&mut self, view: &mut QueueView, request: RequestId) -> u32 {
        let queue = home(view, request);
        if !view.request(request).is_sync() {
            return queue;
        }
        let (client, sector) = (view.request(request).client(), view.request(request).sector());
        // Its own reference keeps the queue alive while the process leaves.
        let target = self.merge_if_due(view, client, queue, sector);
        if target != queue {
            let heir = self.queues.at_mut(target);
            heir.allocated += 1;
            heir.refs += 1;
            settle(view, request, target);
            let left = self.queues.at_mut(queue);
            left.is_new = false;
            left.allocated -= 1;
            self.put_queue(view, queue);
        }
        target
    }

    fn add_request(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let sync = view.request(request).is_sync();
        let client = view.request(request).client();
        probe(Some(queue), ProbePoint::Arrives { sync });
        if self.queues.at(queue).is_sync {
            if self.contexts[client.index() as usize].requests <= 1 {
                self.detect_waker(view, queue);
                self.begin_measuring(view, queue);
            }
            if self.version.measures_idleness {
                self.measure_intensity(view, queue);
            }
        }
        let was_raised = self.queues.at(queue).raising.is_raised();
        let deadline = view.exact_now() + self.tunables.fifo_expire[usize::from(sync)];
        let lane = &mut self.queues.at_mut(queue).lane;
        lane.insert(&mut self.lanes, view, request, deadline);
        self.waiting += 1;
        let is_next = self.reconsider_next(view, queue, request);
        let mut interactive = false;
        if self.queues.at(queue).is_busy {
            if !sync {
                self.raise_if_rare(view, queue);
            }
            if is_next {
                self.next_changed(view, queue);
            }
        } else {
            interactive = self.becomes_busy(view, queue, client);
        }
        let raising = &mut self.queues.at_mut(queue).raising;
        if self.tunables.low_latency && (!was_raised || !raising.is_raised() || interactive) {
            raising.since = view.now();
        }
    }

    /// A queue at rest gets a request. Returns whether it is taken for a starting application.
    fn becomes_busy(&mut self, view: &mut QueueView, queue: u32, client: ClientId) -> bool {
        let arrival = self.judge_arrival(view, queue, client);
        let window = Nanos(self.tunables.slice_idle.0.saturating_mul(3));
        let last = self.queues.at(queue).last_completion;
        let in_time = last.is_some_and(|end| view.exact_now() <= end + window);
        if !self.version.measures_idleness {
            self.count_arrival_in_time(queue, in_time);
        }
        let wants = self.open_account(view, queue, in_time, arrival);
        self.outlive_burst(view, queue);
        self.raise_on_arrival(view, queue, arrival);
        let now = view.now();
        let home = self.queues.at_mut(queue);
        home.is_new = false;
        home.backlog_began = now;
        home.backlog_service = 0;
        home.raising.is_unsettled = false;
        self.join_busy(view, queue);
        if let Some(served) = self.in_service
            && let Some(rule) = self.preemption(view, queue, served, wants)
        {
            let names = (self.queues.at(served).made_for, self.queues.at(queue).made_for);
            if let (Some(client), Some(by)) = names {
                view.note(Note::Preempted { client, by, rule });
            }
            self.expire(view, served, false, Expiry::Preempted);
        }
        arrival.interactive
    }

    /// Sets the budget with which a queue comes back. Returns whether it should go first: it had a
    /// hole, or, in 4.19, is raised.
    fn open_account(
        &mut self,
        view: &QueueView,
        queue: u32,
        in_time: bool,
        arrival: Arrival,
    ) -> bool {
        let home = self.queues.at(queue);
        let entity = self.schedule.entities[queue as usize];
        let left = entity.budget_left();
        if home.left_early && in_time && (left > 0 || !self.version.hole_needs_budget) {
            let entity = &mut self.schedule.entities[queue as usize];
            entity.budget = left.min(home.max_budget);
            entity.service = 0;
            return true;
        }
        let budget = self.fresh_budget(view, queue);
        let entity = &mut self.schedule.entities[queue as usize];
        (entity.budget, entity.service) = (budget, 0);
        self.queues.at_mut(queue).left_early = false;
        !self.version.preempts_by_weight && arrival.deserves
    }

    /// A queue is to be served, from now on (BFQ-3 to BFQ-5).
    fn join_busy(&mut self, view: &mut QueueView, queue: u32) {
        probe(Some(queue), ProbePoint::Joins);
        let left_early = core::mem::take(&mut self.queues.at_mut(queue).left_early);
        self.schedule.activate(queue, left_early, view.now());
        let class = self.schedule.entities[queue as usize].class;
        let home = self.queues.at_mut(queue);
        (home.is_busy, home.busy_class) = (true, class);
        let (raised, at_rest) = (home.raising.is_raised(), home.in_flight == 0);
        self.busy[usize::from(class)] += 1;
        self.raised += u32::from(raised);
        if at_rest {
            self.leave_rest(queue);
        }
        self.come_first_to_waker(queue);
    }

    /// Whether a queue that has just become busy preempts the one in service, and by which rule
    /// (BFQ-53, BFQ-54).
    fn preemption(
        &self,
        view: &QueueView,
        queue: u32,
        served: u32,
        wants: bool,
    ) -> Option<Preemption> {
        if !self.schedule.another_is_next(view.root().index()) {
            return None;
        }
        let raise = |queue: u32| self.queues.at(queue).raising.kind.coefficient();
        if !self.version.preempts_by_weight {
            return (wants && raise(served) < raise(queue)).then_some(Preemption::Deserves);
        }
        if wants && raise(queue) >= raise(served) {
            Some(Preemption::Deserves)
        } else if self.is_heavier(queue, served) {
            Some(Preemption::Heavier)
        } else if !self.better_to_idle(view, served) {
            Some(Preemption::NotIdledFor)
        } else {
            None
        }
    }

    /// Whether `queue` is of a higher class, or it (or its group) outweighs the one it competes
    /// with.
    fn is_heavier(&self, queue: u32, served: u32) -> bool {
        let entity = |entity: u32| &self.schedule.entities[entity as usize];
        let (one, other) = self.schedule.siblings(queue, served);
        entity(queue).class < entity(served).class || entity(one).weight > entity(other).weight
    }

    /// The request that the device was kept for has come (BFQ-47). A small one may have more behind
    /// it; it goes when Linux next asks for a request.
    fn came_while_idling(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let small =
            self.queues.at(queue).lane.len() == 1 && view.request(request).sectors() < SMALL;
        let patient =
            !self.version.patient_for_throughput_only || self.idles_for_throughput(view, queue);
        let over = self.is_time_over(view, queue);
        if small && patient && !over {
            return;
        }
        self.stop_idling(view, queue);
        if over {
            self.expire(view, queue, false, Expiry::BudgetTimeout);
        }
    }
}

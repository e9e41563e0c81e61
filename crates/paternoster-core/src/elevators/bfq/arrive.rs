// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrive: a request begins to wait.
//!
//! Most of what BFQ knows it learns when requests arrive. One that comes to a queue at rest begins
//! a new account, unless the queue only had a *hole*: it ran out of work in its turn, and here is
//! the next request, in time. Then what was left of its budget is still its own, and it may go
//! before whoever has the device:
//!
//! ```text
//! turn of A ▓▓▓▓▓      ▓▓▓        A had budget left, and came back within 24 ms of its last
//!           turn of B ▓          completion: it goes on where it was
//! ```
//!
//! Source: BFQ-30, BFQ-34, BFQ-47, BFQ-50 to BFQ-55, BFQ-101.

use crate::client::ClientId;
use crate::elevators::bfq::Bfq;
use crate::elevators::bfq::raise::Arrival;
use crate::elevators::bfq::recall::{Said, say};
use crate::event::{Expiry, Note, Preemption};
use crate::pick::home::{home, settle};
use crate::request::RequestId;
use crate::scene::Scene;
use crate::time::Nanos;

/// A request below this, and alone, may have more behind it.
const SMALL: u32 = 32;

impl Bfq {
    /// A request finds its queue.
    pub(super) fn settle_request(&mut self, scene: &mut Scene, request: RequestId) {
        let (client, sync) = (scene.requests[request].client(), scene.requests[request].is_sync());
        let queue = self.queue_for(scene, client, sync);
        let home = self.queues.at_mut(queue);
        home.allocated += 1;
        home.refs += 1;
        self.contexts[client.index() as usize].requests += 1;
        self.count_allocated(queue, 1);
        settle(scene, request, queue);
        if self.queues.at(queue).is_new {
            self.judge_burst(scene, queue);
        }
    }

    /// A settled request ends its life.
    pub(super) fn forget_request(&mut self, scene: &mut Scene, request: RequestId) {
        let (queue, client) = (home(scene, request), scene.requests[request].client());
        self.contexts[client.index() as usize].requests -= 1;
        self.count_allocated(queue, -1);
        self.queues.at_mut(queue).allocated -= 1;
        self.put_queue(scene, queue);
    }

    /// The queue that `client` comes to, after a merge that is due with I/O at `sector`.
    pub(super) fn merge_if_due(
        &mut self,
        scene: &mut Scene,
        client: ClientId,
        queue: u32,
        sector: u64,
    ) -> u32 {
        let Some(target) = self.cooperator(scene, client, queue, sector) else { return queue };
        if self.contexts[client.index() as usize].slots[1] == Some(queue) {
            self.merge(scene, client, queue, target);
        }
        target
    }

    /// A settled request begins to wait.
    pub(super) fn arrive(&mut self, scene: &mut Scene, request: RequestId) {
        let queue = self.follow_merge(scene, request);
        if self.version.learns_first {
            self.learn(scene, queue, request);
            self.add_request(scene, queue, request);
        } else {
            self.add_request(scene, queue, request);
            self.learn(scene, queue, request);
        }
        if self.in_service == Some(queue) && self.queues.at(queue).wait_request {
            self.came_while_idling(scene, queue, request);
        }
    }

    /// The request goes along if its process moves to another queue.
    fn follow_merge(&mut self, scene: &mut Scene, request: RequestId) -> u32 {
        let queue = home(scene, request);
        if !scene.requests[request].is_sync() {
            return queue;
        }
        let (client, sector) = (scene.requests[request].client(), scene.requests[request].sector());
        // Its own reference keeps the queue while the process leaves.
        let target = self.merge_if_due(scene, client, queue, sector);
        if target != queue {
            let heir = self.queues.at_mut(target);
            heir.allocated += 1;
            heir.refs += 1;
            settle(scene, request, target);
            let left = self.queues.at_mut(queue);
            left.is_new = false;
            left.allocated -= 1;
            self.put_queue(scene, queue);
        }
        target
    }

    fn add_request(&mut self, scene: &mut Scene, queue: u32, request: RequestId) {
        let sync = scene.requests[request].is_sync();
        let client = scene.requests[request].client();
        say(Some(queue), Said::Arrives { sync });
        if self.queues.at(queue).is_sync {
            if self.contexts[client.index() as usize].requests <= 1 {
                self.detect_waker(scene, queue);
                self.begin_measuring(scene, queue);
            }
            if self.version.measures_idleness {
                self.measure_intensity(scene, queue);
            }
        }
        let was_raised = self.queues.at(queue).raising.is_raised();
        let deadline = scene.exact_now() + self.tunables.fifo_expire[usize::from(sync)];
        let lane = &mut self.queues.at_mut(queue).lane;
        lane.insert(&mut self.lanes, scene, request, deadline);
        self.waiting += 1;
        let is_next = self.reconsider_next(scene, queue, request);
        let mut interactive = false;
        if self.queues.at(queue).is_busy {
            if !sync {
                self.raise_if_rare(scene, queue);
            }
            if is_next {
                self.next_changed(scene, queue);
            }
        } else {
            interactive = self.becomes_busy(scene, queue, client);
        }
        let raising = &mut self.queues.at_mut(queue).raising;
        if self.tunables.low_latency && (!was_raised || !raising.is_raised() || interactive) {
            raising.since = scene.now();
        }
    }

    /// A queue at rest gets a request. Whether it is taken for an application that starts.
    fn becomes_busy(&mut self, scene: &mut Scene, queue: u32, client: ClientId) -> bool {
        let arrival = self.judge_arrival(scene, queue, client);
        let window = Nanos(self.tunables.slice_idle.0.saturating_mul(3));
        let last = self.queues.at(queue).last_completion;
        let in_time = last.is_some_and(|end| scene.exact_now() <= end + window);
        if !self.version.measures_idleness {
            self.count_arrival_in_time(queue, in_time);
        }
        let wants = self.open_account(scene, queue, in_time, arrival);
        self.outlive_burst(scene, queue);
        self.raise_on_arrival(scene, queue, arrival);
        let now = scene.now();
        let home = self.queues.at_mut(queue);
        home.is_new = false;
        home.backlog_began = now;
        home.backlog_service = 0;
        home.raising.is_unsettled = false;
        self.join_busy(scene, queue);
        if let Some(served) = self.in_service
            && let Some(rule) = self.preemption(scene, queue, served, wants)
        {
            let names = (self.queues.at(served).made_for, self.queues.at(queue).made_for);
            if let (Some(client), Some(by)) = names {
                scene.note(Note::Preempted { client, by, rule });
            }
            self.expire(scene, served, false, Expiry::Preempted);
        }
        arrival.interactive
    }

    /// The budget with which a queue comes back. Whether it should go first: it had a hole, or,
    /// in 4.19, is raised.
    fn open_account(&mut self, scene: &Scene, queue: u32, in_time: bool, arrival: Arrival) -> bool {
        let home = self.queues.at(queue);
        let entity = self.schedule.entities[queue as usize];
        let left = entity.budget_left();
        if home.left_early && in_time && (left > 0 || !self.version.hole_needs_budget) {
            let entity = &mut self.schedule.entities[queue as usize];
            entity.budget = left.min(home.max_budget);
            entity.service = 0;
            return true;
        }
        let budget = self.fresh_budget(scene, queue);
        let entity = &mut self.schedule.entities[queue as usize];
        (entity.budget, entity.service) = (budget, 0);
        self.queues.at_mut(queue).left_early = false;
        !self.version.preempts_by_weight && arrival.deserves
    }

    /// A queue is to be served, from now on (BFQ-3 to BFQ-5).
    fn join_busy(&mut self, scene: &mut Scene, queue: u32) {
        say(Some(queue), Said::Joins);
        let left_early = core::mem::take(&mut self.queues.at_mut(queue).left_early);
        self.schedule.activate(queue, left_early, scene.now());
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

    /// Whether a queue that has just become busy goes before the one in service, and by which rule
    /// (BFQ-53, BFQ-54).
    fn preemption(
        &self,
        scene: &Scene,
        queue: u32,
        served: u32,
        wants: bool,
    ) -> Option<Preemption> {
        if !self.schedule.another_is_next(scene.root().index()) {
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
        } else if !self.better_to_idle(scene, served) {
            Some(Preemption::NotIdledFor)
        } else {
            None
        }
    }

    /// Whether `queue` is of a higher class, or weighs more among its siblings.
    fn is_heavier(&self, queue: u32, served: u32) -> bool {
        let entity = |entity: u32| &self.schedule.entities[entity as usize];
        let (one, other) = self.schedule.siblings(queue, served);
        entity(queue).class < entity(served).class || entity(one).weight > entity(other).weight
    }

    /// The request comes for which the device was kept (BFQ-47). A small one may have more behind
    /// it; it goes when it is asked for.
    fn came_while_idling(&mut self, scene: &mut Scene, queue: u32, request: RequestId) {
        let small =
            self.queues.at(queue).lane.len() == 1 && scene.requests[request].sectors() < SMALL;
        let patient =
            !self.version.patient_for_throughput_only || self.idles_for_throughput(scene, queue);
        let over = self.is_time_over(scene, queue);
        if small && patient && !over {
            return;
        }
        self.stop_idling(scene, queue);
        if over {
            self.expire(scene, queue, false, Expiry::BudgetTimeout);
        }
    }
}

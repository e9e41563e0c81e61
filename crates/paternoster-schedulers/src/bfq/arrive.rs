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
//! This is wiring: what a request looks like, what an arrival is taken for and whether it preempts
//! is asked of the parts (`pattern`, `arrival`, `preempt`), and what follows is done here.
//!
//! Source: BFQ-30, BFQ-34, BFQ-47, BFQ-50 to BFQ-55, BFQ-101, BFQ-116.

use crate::bfq::Bfq;
use crate::bfq::arrival;
use crate::bfq::preempt;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::weight_raising::Kind;
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::event::{Expiry, Note};
use paternoster_core::pick::home::{home, settle};
use paternoster_core::time::Nanos;
use paternoster_core::{Bio, ClientId};

/// A single request smaller than this may be followed by more.
const SMALL: u32 = 32;

impl Bfq {
    /// A word of each cache line of the queue that a bio's request will belong to (`prefetch`).
    #[inline(never)]
    pub(super) fn touch(&self, bio: &Bio) -> u64 {
        let Some(queue) = self.contexts.slot(bio.client, bio.is_sync()) else { return 0 };
        let own = self.queues.at(queue).touch() ^ self.schedule.touch(queue);
        let known = self.injection.touch(queue) ^ self.wakers.touch(queue);
        own ^ known ^ u64::from(self.bursts.lists(queue))
    }

    /// A request finds its queue.
    pub(super) fn settle_request(&mut self, view: &mut QueueView, request: RequestId) {
        let (client, sync) = (view.request(request).client(), view.request(request).is_sync());
        let queue = self.queue_for(view, client, sync);
        let home = self.queues.at_mut(queue);
        home.allocate();
        let is_new = home.is_new;
        self.contexts.at_mut(client).requests += 1;
        self.groups.count_allocated(&self.schedule, queue, 1);
        settle(view, request, queue);
        if is_new {
            let group = self.schedule.entities[queue as usize].group;
            let idle = self.schedule.symmetry.busy() == 0;
            self.bursts.judge(view, &mut self.queues, queue, group, idle);
        }
    }

    /// A settled request ends its life.
    pub(super) fn forget_request(&mut self, view: &mut QueueView, request: RequestId) {
        let (queue, client) = (home(view, request), view.request(request).client());
        self.contexts.at_mut(client).requests -= 1;
        self.groups.count_allocated(&self.schedule, queue, -1);
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
        if self.contexts.slot(client, true) == Some(queue) {
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
        if self.service.is(queue) && self.queues.at(queue).wait_request {
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
            self.queues.at_mut(target).allocate();
            settle(view, request, target);
            let left = self.queues.at_mut(queue);
            left.is_new = false;
            left.allocated -= 1;
            self.put_queue(view, queue);
        }
        target
    }

    /// A request comes to `queue`: its think time and its seeks (BFQ-34).
    fn learn(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let slice_idle = self.tunables.slice_idle;
        let home = self.queues.at_mut(queue);
        if !self.version.thinks_at_rest_only || home.is_at_rest() {
            home.pattern.sample_think_time(view.exact_now(), slice_idle);
        }
        let is_idle_class = self.schedule.is_idle_class(queue);
        let is_judged = home.is_sync && !is_idle_class && slice_idle > Nanos::ZERO;
        if is_judged && home.is_settled(view.now()) {
            let halves = self.version.halves_think_limit;
            let limit = if halves { Nanos(slice_idle.0 / 2) } else { slice_idle };
            let is_used = home.processes() > 0;
            if let Some(short) = home.pattern.judge_think_time(limit, is_used) {
                self.injection.think_time_flips(view, queue, short);
            }
        }
        let (start, sectors) = (view.request(request).sector(), view.request(request).sectors());
        home.pattern.seek.sample_far(view.facts().rotational, start, sectors);
        // 6.18: a queue that is totally seeky is not soft real time (BFQ-107).
        if self.version.raises_default_weight_only
            && home.raising.kind == Kind::SoftRealtime
            && home.pattern.is_totally_seeky()
        {
            let duration = || self.device.raise_duration(view);
            let kind = home.raising.end_period(view.now(), true, duration);
            self.schedule.set_raised(view, queue, home, kind);
        }
    }

    fn add_request(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let sync = view.request(request).is_sync();
        let client = view.request(request).client();
        probe(Some(queue), ProbePoint::Arrives { sync });
        let now = view.exact_now();
        let home = self.queues.at_mut(queue);
        if home.is_sync {
            if self.contexts.at(client).requests <= 1 {
                let short = home.pattern.thinks_short;
                if self.tunables.wakers && !short {
                    let since_end = self.device.since_completion(now);
                    self.wakers.detect(queue, now, since_end, self.tunables.slice_idle);
                }
                let (served, in_driver) = (self.service.is(queue), self.device.in_driver());
                self.injection.begin_measuring(view, queue, served, short, in_driver);
            }
            if self.version.measures_idleness {
                let was_idle = home.is_empty() && home.in_flight == 0;
                home.pattern.measure_intensity(now, was_idle, home.is_new);
            }
        }
        let was_raised = home.raising.is_raised();
        let deadline = now + self.tunables.fifo_expire[usize::from(sync)];
        self.queues.insert(view, queue, request, deadline);
        let is_next = self.reconsider_next(view, queue, request);
        let home = self.queues.at_mut(queue);
        let mut interactive = false;
        if home.is_busy {
            let may_raise = !sync && !home.is_sync && self.tunables.low_latency;
            if may_raise && home.raising.is_rare(view.now()) {
                let kind = home.raising.interactive(self.device.raise_duration(view));
                self.schedule.set_raised(view, queue, home, kind);
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
        let (version, tunables, now) = (&self.version, &self.tunables, view.now());
        let home = self.queues.at_mut(queue);
        let weight = self.schedule.entities[queue as usize].new_weight;
        let is_stable = self.contexts.at(client).is_stably_merged;
        let arrival = arrival::judge(now, home, weight, is_stable, version, tunables);
        let in_time = home.pattern.comes_in_time(view.exact_now(), tunables.slice_idle);
        if !version.measures_idleness {
            home.pattern.count_arrival_in_time(in_time);
        }
        let has_hole = self.schedule.open_account(view, queue, home, in_time);
        let wants = has_hole || (!version.preempts_by_weight && arrival.deserves);
        self.bursts.outlive(now, queue, home);
        if tunables.low_latency && home.is_settled(now) {
            let starts = !home.raising.is_raised() && arrival.deserves;
            let kind = home.raising.arrive(now, arrival, || self.device.raise_duration(view));
            if let Some(kind) = kind {
                self.schedule.set_raised(view, queue, home, kind);
            }
            if starts {
                // Its budget becomes small, so that it is served soon and often (BFQ-63).
                let entity = &mut self.schedule.entities[queue as usize];
                entity.budget = entity.budget.min(2 * self.budgets.least());
            }
        }
        home.begin_backlog(now);
        self.schedule.join_busy(queue, home, now);
        self.wakers.come_first(queue);
        if let Some(served) = self.service.queue()
            && self.schedule.another_is_next(view.root().index())
            && let Some(rule) = preempt::rule(
                &self.schedule,
                (queue, self.queues.at(queue)),
                (served, self.queues.at(served)),
                wants,
                self.version.preempts_by_weight,
                || self.better_to_idle(view, served),
            )
        {
            let names = (self.queues.at(served).made_for, self.queues.at(queue).made_for);
            if let (Some(client), Some(by)) = names {
                view.note(Note::Preempted { client, by, rule });
            }
            self.expire(view, served, false, Expiry::Preempted);
        }
        arrival.interactive
    }

    /// The request that the device was kept for has come (BFQ-47). A small one may be followed by
    /// more, so it waits until Linux next asks for a request.
    fn came_while_idling(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let home = self.queues.at(queue);
        let small = home.lane.len() == 1 && view.request(request).sectors() < SMALL;
        let over = home.is_time_over(view.now());
        let patient =
            !self.version.patient_for_throughput_only || self.idles_for_throughput(view, queue);
        if small && patient && !over {
            return;
        }
        self.stop_idling(view, queue);
        if over {
            self.expire(view, queue, false, Expiry::BudgetTimeout);
        }
    }

    /// Keeps a queue at the position of its next request, if others may find it (BFQ-116).
    pub(super) fn update_position(&mut self, view: &QueueView, queue: u32) {
        let on = self.tunables.queue_merging;
        if self.cooperation.is_looked_for(view, on, &self.device) {
            let (home, window) = (self.queues.at(queue), self.tunables.merge_window);
            self.cooperation.update(view, queue, home, &self.schedule, window);
        } else {
            self.cooperation.remove(queue);
        }
    }
}

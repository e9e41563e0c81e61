// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrive: a request begins to wait, or stops waiting.
//!
//! ```text
//! request ─▶ is it next of its queue? ─▶ is that busy? ─▶ what is it like? ─▶ does it preempt?
//! ```
//!
//! This is wiring: what comes next in a queue, what it is like, and whether a request preempts is
//! asked of the parts (`queues`, `idling`, `preempt`), and what follows is done here.
//!
//! Source: CFQ-9 to CFQ-12, CFQ-28, CFQ-32 to CFQ-34, CFQ-62.

use crate::cfq::Cfq;
use crate::cfq::idling;
use crate::cfq::preempt::{self, Asked};
use crate::cfq::probe_points::{Decision, replace};
use paternoster_core::event::{Note, Preemption};
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// The sectors of a page: a request that is no larger may grow.
const PAGE: u32 = 4096 / 512;

impl Cfq {
    /// A request begins to wait in `queue`.
    pub(super) fn arrive(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let client = view.request(request).client();
        self.queues.at_mut(queue).refresh_priority(view, client);
        self.add_request(view, queue, request);
        self.learn(view, queue, request);
        if self.service.is(queue) {
            self.came_to_active(view, queue, request);
        } else {
            self.preempt_if_due(view, queue, request);
        }
    }

    fn add_request(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
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
            let (charging, tunables) = (self.charging(view), &self.tunables);
            let home = self.queues.at_mut(queue);
            self.schedule.join_busy(view, tunables, charging, queue, home);
        }
        self.reconsider_next(view, queue, request);
    }

    /// `request` may now come before the one that was next.
    pub(super) fn reconsider_next(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let order = self.tunables.back_seek(self.version.urgent);
        let position = self.device.last_position();
        self.queues.reconsider_next(view, queue, request, &order, position);
        self.update_position(view, queue);
    }

    /// Keeps a queue at the position of its next request. The active queue is not looked up by
    /// position; it is repositioned when its turn ends.
    #[inline]
    pub(super) fn update_position(&mut self, view: &QueueView, queue: u32) {
        if !self.service.is(queue) {
            self.cooperation.update(view, queue, self.queues.at(queue));
        }
    }

    /// A request comes: updates think times and seek history, and whether to idle.
    fn learn(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let client = view.request(request).client();
        let (version, tunables) = (&self.version, &self.tunables);
        let home = self.queues.at_mut(queue);
        let (context, groups) = (self.contexts.at_mut(client), &mut self.schedule.groups);
        idling::sample_think_times(view, version, tunables, context, groups, home);
        let (start, sectors) = (view.request(request).sector(), view.request(request).sectors());
        home.seek.sample(tunables.seek_detection, view.facts().rotational, start, sectors);
        let mean = || self.contexts.think_time(view, Some(client));
        idling::judge_window(view, version, tunables, home, mean);
    }

    /// A request comes to the active queue.
    fn came_to_active(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let home = self.queues.at_mut(queue);
        if !home.wait_request {
            return;
        }
        // A single page may grow until the timer rings or a request is asked for.
        if view.request(request).sectors() > PAGE || self.schedule.busy() > 1 {
            self.service.stop_idling(view, home);
        } else {
            home.must_dispatch = true;
        }
    }

    /// Gives the request's queue the device if a rule says so.
    fn preempt_if_due(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let Some(active) = self.service.queue() else { return };
        let rule = self.preemption(view, active, queue, request);
        let Some(rule) = replace(Decision::Preempts, rule) else { return };
        let (running, comer) = (self.queues.at(active), self.queues.at(queue));
        if let (Some(client), Some(by)) = (running.client, comer.client) {
            view.note(Note::Preempted { client, by, rule });
        }
        let (other_kind, group) = (running.kind() != comer.kind(), comer.group);
        self.expire(view, true);
        if self.version.restarts_workloads && other_kind {
            self.schedule.groups[group].saved = None;
        }
        let charging = self.charging(view);
        let home = self.queues.at_mut(queue);
        self.schedule.stand(view, &self.tunables, charging, queue, home, true);
        (home.slice.end, home.slice.is_new) = (Nanos::ZERO, true);
    }

    /// Whether a request that came to `queue` should preempt the active one, and why.
    fn preemption(
        &self,
        view: &QueueView,
        active: u32,
        queue: u32,
        request: RequestId,
    ) -> Option<Preemption> {
        let (version, running) = (&self.version, self.queues.at(active));
        let arrived = view.request(request);
        let of_waiting = || {
            let waits = self.service.opened_by().is_some() && running.wait_request;
            let detection = self.tunables.seek_detection;
            let distance = arrived.sector().abs_diff(self.device.last_position());
            let idled_for = || self.may_idle(view, active);
            preempt::of_waiting(version, detection, running, waits, distance, idled_for)
        };
        let is_urgent = self.queues.is_urgent(view, request);
        let asked = Asked { is_sync: arrived.is_sync(), is_urgent };
        let turns = (&self.schedule, self.workload.kind());
        let comer = self.queues.at(queue);
        preempt::rule(version, view.now(), asked, comer, running, turns, of_waiting)
    }

    /// A request of `queue` stops waiting.
    pub(super) fn take_request(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let order = self.tunables.back_seek(self.version.urgent);
        if self.queues.remove(view, queue, request, &order).is_empty() {
            self.cooperation.remove(queue);
        }
    }

    /// A request leaves `queue` other than by dispatch: a queue without requests leaves the busy
    /// queues, unless it is being served.
    pub(super) fn withdraw(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        self.take_request(view, queue, request);
        let home = self.queues.at_mut(queue);
        if home.is_empty() && home.is_busy && !self.service.is(queue) {
            self.schedule.leave_busy(queue, home);
            self.cooperation.remove(queue);
        } else {
            self.update_position(view, queue);
        }
    }
}

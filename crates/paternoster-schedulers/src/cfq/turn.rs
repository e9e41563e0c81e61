// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turn: which queue has it, which of its requests goes next, and what follows from a request's
//! end.
//!
//! When CFQ is asked for the next request, it first decides about the active queue: keep it, wait
//! for it, or let the next one have its turn.
//!
//! ```text
//! active queue    slice left, requests wait      keep
//!                 empty, another close by        go on there, let the two merge
//!                 empty, timer set               wait: its next request is worth it
//!                 empty, some in flight          wait for them, if it is idled for
//!                 otherwise                      its turn is over
//! ```
//!
//! This is wiring: whether to idle, how many may be in flight and how long a slice is is asked of
//! the parts (`idling`, `dispatch`, `length`), and what follows is done here.
//!
//! # Invariants
//! I1  Each wait has a cause: the timer is set (`Idle`), or something is in flight (`Await`).
//!
//! Source: CFQ-60, CFQ-61; CFQ-30.

use crate::cfq::Cfq;
use crate::cfq::bandwidth::Bandwidth;
use crate::cfq::cooperate;
use crate::cfq::dispatch;
use crate::cfq::idling;
use crate::cfq::length;
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::schedule::Charging;
use crate::cfq::slice::{jiffy, signed};
use paternoster_core::event::Note;
use paternoster_core::pick::home::home;
use paternoster_core::time::Nanos;
use paternoster_core::{Flags, QueueView, RequestId};

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// Serve this queue.
    Serve(u32),
    /// Wait for the timer.
    Idle,
    /// Wait for something in flight.
    Await,
    /// Nothing waits.
    Nothing,
}

/// Whose turn it is.
impl Cfq {
    /// The queue to serve now, or what to wait for.
    pub(super) fn select(&mut self, view: &mut QueueView) -> Selection {
        if self.queues.waiting() == 0 {
            return Selection::Nothing;
        }
        let Some(queue) = self.service.queue() else { return self.select_new(view, None) };
        let home = self.queues.at(queue);
        let (empty, in_flight) = (home.is_empty(), home.dispatched > 0);
        if replace(Decision::BusyAgain, home.wait_busy && !empty) {
            return self.replace(view, None);
        }
        let used = home.slice.is_used(view.now()) && !home.must_dispatch;
        let left = home.slice.left(view.now());
        if replace(Decision::SliceUsed { left }, used) {
            let alone = self.schedule.is_alone(home);
            if alone && empty && in_flight && self.may_idle(view, queue) {
                return Selection::Await;
            }
            return self.leave_unless_group_idles(view, queue);
        }
        if !empty {
            return Selection::Serve(queue);
        }
        let other = self.partner(view, queue);
        if let Some(other) = replace(Decision::Cooperator, other) {
            if self.queues.at(queue).merge_into.is_none() {
                self.schedule_merge(view, queue, other);
            }
            return self.replace(view, Some(other));
        }
        if replace(Decision::WaitsForTimer, self.service.is_idling()) {
            return Selection::Idle;
        }
        let home = self.queues.at_mut(queue);
        idling::watch_deep_queue(view, &self.version, &self.tunables, home);
        let waits = in_flight && self.may_idle(view, queue);
        if replace(Decision::WaitsForFlight, waits) {
            return Selection::Await;
        }
        self.leave_unless_group_idles(view, queue)
    }

    /// A group's last queue is not left while requests of the group are in flight.
    fn leave_unless_group_idles(&mut self, view: &mut QueueView, queue: u32) -> Selection {
        let group = &self.schedule.groups[self.queues.at(queue).group];
        let waits = idling::waits_for_group(view, &self.version, &self.tunables, group);
        if replace(Decision::WaitsForGroup, waits) {
            return Selection::Await;
        }
        self.replace(view, None)
    }

    fn replace(&mut self, view: &mut QueueView, by: Option<u32>) -> Selection {
        self.expire(view, false);
        self.select_new(view, by)
    }

    fn select_new(&mut self, view: &mut QueueView, by: Option<u32>) -> Selection {
        let chosen = by.or_else(|| self.first_of_workload(view));
        match replace(Decision::Turn, chosen) {
            Some(queue) => {
                self.service.begins(view, queue, self.queues.at_mut(queue));
                Selection::Serve(queue)
            }
            None => Selection::Nothing,
        }
    }

    /// The first queue of the workload to be served now.
    pub(super) fn first_of_workload(&mut self, view: &QueueView) -> Option<u32> {
        self.workload.choose(view, &self.tunables, &mut self.schedule)
    }

    /// Whether the device may be kept free for the queue.
    #[inline]
    pub(super) fn may_idle(&self, view: &QueueView, queue: u32) -> bool {
        let (groups, home) = (&self.schedule.groups, self.queues.at(queue));
        idling::may_idle(view, &self.version, &self.tunables, &self.device, groups, home)
    }

    /// A queue to go on with in place of the active one.
    fn partner(&mut self, view: &QueueView, active: u32) -> Option<u32> {
        let is_alone = self.schedule.is_alone(self.queues.at(active));
        let (device, queues) = (&self.device, &self.queues);
        self.cooperation.partner(view, &self.tunables, device, queues, active, is_alone)
    }

    /// The queue with fewer references will move to the other.
    pub(super) fn schedule_merge(&mut self, view: &mut QueueView, queue: u32, other: u32) {
        let merge = cooperate::schedule_merge(&mut self.queues, queue, other);
        let names =
            merge.map(|(from, into)| (self.queues.at(from).client, self.queues.at(into).client));
        if let Some((Some(client), Some(into))) = names {
            view.note(Note::QueuesMerged { client, into });
        }
    }

    /// The turn of the active queue ends. `timed_out` keeps the account of what was left of it.
    pub(super) fn expire(&mut self, view: &mut QueueView, timed_out: bool) {
        let Some(queue) = self.service.queue() else { return };
        let timed_out = replace(Decision::TimedOut { queue }, timed_out);
        let charging = self.charging(view);
        let home = self.queues.at_mut(queue);
        self.service.stop_idling(view, home);
        home.wait_busy = false;
        let (tunables, contexts) = (&self.tunables, &mut self.contexts);
        self.cooperation.judge_sharing(view, tunables, contexts, queue, home);
        if timed_out {
            let groups = &mut self.schedule.groups;
            let left = length::residual(view, &self.version, tunables, groups, queue, home);
            home.slice.residual = left.unwrap_or(home.slice.residual);
        }
        let ticks = view.hz().get() != 0;
        let served = home.slice.used(view.now(), jiffy(view), ticks);
        let served = replace(Decision::Used { queue }, served);
        self.schedule.charge(view, charging, home, served);
        self.schedule.groups[home.group].saved = self.workload.rest(view.now());
        if let Some(client) = home.client {
            view.note(Note::SliceEnds { client, served });
        }
        if home.is_empty() {
            self.schedule.leave_busy(queue, home);
            self.cooperation.remove(queue);
        } else {
            self.schedule.stand(view, tunables, charging, queue, home, false);
            self.cooperation.update(view, queue, home);
        }
        self.service.ends();
    }

    /// What groups are charged for. Without `slice_idle` a device that queues commands is shared by
    /// requests, not by time (CFQ-46).
    #[inline]
    pub(super) fn charging(&self, view: &QueueView) -> Charging {
        let by_requests = self.version.idles_for_groups
            && self.tunables.slice_idle_in(view) == Nanos::ZERO
            && self.device.may_queue_commands(view);
        if by_requests { Charging::Requests } else { Charging::Time }
    }
}

/// Its requests.
impl Cfq {
    /// The next request of `queue`, if one more of it may be in flight.
    pub(super) fn dispatch_next(&mut self, view: &mut QueueView, queue: u32) -> Option<RequestId> {
        let mut expired = None;
        if self.version.lets_expired_through {
            let home = self.queues.at_mut(queue);
            expired = home.expired_request(view);
            home.must_dispatch |= expired.is_some();
        }
        if !replace(Decision::MayDispatch, self.may_dispatch(view, queue)) {
            return None;
        }
        let home = self.queues.at_mut(queue);
        if !self.version.lets_expired_through {
            expired = home.expired_request(view);
        }
        let request = expired.or(home.next)?;
        let request = replace(Decision::Request { waiting: home.lane.len() }, request);
        self.dispatch(view, queue, request);
        self.service.sent(view.request(request).client());
        let home = self.queues.at_mut(queue);
        home.slice.dispatched += 1;
        home.must_dispatch = false;
        let ends = dispatch::ends_slice(&self.tunables, home, self.schedule.busy());
        if replace(Decision::EndsWithDispatch, ends) {
            home.slice.end = view.now() + view.hz().tick();
            self.expire(view, false);
        }
        Some(request)
    }

    /// Whether one more request of `queue` may be in flight.
    fn may_dispatch(&self, view: &QueueView, queue: u32) -> bool {
        let (version, tunables, home) = (&self.version, &self.tunables, self.queues.at(queue));
        let idled_for = || self.may_idle(view, queue);
        let (device, schedule) = (&self.device, &self.schedule);
        dispatch::may_dispatch(view, version, tunables, device, schedule, home, idled_for)
    }

    /// A request leaves its queue for the device.
    pub(super) fn dispatch(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        // It may have come here because of its age, with another one next: the queue continues from
        // where the device goes.
        self.queues.at_mut(queue).next = Some(request);
        self.take_request(view, queue, request);
        self.count_in_flight(view, queue, request, true);
    }

    /// A request of `queue` goes in flight, or ends.
    #[inline]
    pub(super) fn count_in_flight(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        request: RequestId,
        flies: bool,
    ) {
        let home = self.queues.at_mut(queue);
        let by = self.device.count(view, home, request, flies);
        let count = &mut self.schedule.groups[home.group].dispatched;
        *count = count.wrapping_add_signed(by);
    }

    /// A request has ended.
    pub(super) fn request_ended(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        let active = self.service.queue().map(|active| self.queues.at(active));
        self.device.ended(self.queues.waiting(), active);
        self.count_in_flight(view, queue, request, false);
        if view.request(request).is_sync() {
            self.sync_ended(view, queue, request);
        }
        let home = self.queues.at_mut(queue);
        self.schedule.groups[home.group].think_time.ended(view.now());
        let context = self.contexts.get_mut(view.request(request).client());
        let sectors = view.request(request).sectors();
        let mode = self.tunables.optimistic_merge;
        Bandwidth::count_sectors(mode, home, context, sectors.into());
        if self.service.is(queue) {
            self.active_ended_one(view, queue, request);
        }
        if self.tunables.slice_idle_tuning {
            let busy = self.schedule.busy_sync().max(self.device.flying_sync());
            let slice_idle = self.climber.ended(view.now(), sectors, busy);
            self.tunables.slice_idle = slice_idle.unwrap_or(self.tunables.slice_idle);
        }
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
        self.schedule.groups[stand.group].tree_think_times[stand.tree].ended(now);
        let began = view.hz().floor(view.request(request).start());
        let late = now >= began + view.hz().floor(self.tunables.fifo_expire[1]);
        if replace(Decision::Late, late) {
            self.device.was_late(now);
        }
    }

    /// A request of the active queue has ended.
    fn active_ended_one(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let (version, tunables) = (&self.version, &self.tunables);
        let home = self.queues.at_mut(queue);
        if home.slice.is_new {
            let groups = &mut self.schedule.groups;
            let slice = length::length(view, tunables, groups, queue, home);
            home.slice.start(view.now(), slice);
            if let Some(client) = home.client {
                view.note(Note::SliceBegins { client, slice });
            }
        }
        let left = home.slice.left(view.now());
        let mean = || self.contexts.think_time(view, self.service.opened_by());
        let group = &self.schedule.groups[home.group];
        let waits = idling::waits_busy(view, version, tunables, group, home, mean);
        if replace(Decision::WaitBusy { left }, waits) {
            // The slice goes on until the group's only queue has work again.
            home.slice.end = view.now() + idling::extension(view, version, tunables);
            home.wait_busy = true;
        }
        let ends = home.slice.is_used(view.now()) || home.is_idle_class();
        let left = home.slice.left(view.now());
        if replace(Decision::EndsWithCompletion { left }, ends) {
            self.expire(view, true);
            return;
        }
        let idles = view.request(request).is_sync()
            && home.is_empty()
            && self.partner(view, queue).is_none();
        if replace(Decision::MayArm, idles) {
            let flagged = view.request(request).flags().contains(Flags::NOIDLE);
            self.workload.ended(!flagged);
            self.idle_for(view, queue);
        }
    }

    /// Sets the timer, if the device should idle for the active queue (CFQ-30, CFQ-67).
    fn idle_for(&mut self, view: &mut QueueView, queue: u32) {
        let (version, groups) = (&self.version, &self.schedule.groups);
        let home = self.queues.at_mut(queue);
        if !idling::may_set_timer(version, &self.workload, &groups[home.group]) {
            return;
        }
        let opened_by = self.service.opened_by();
        let mean = self.contexts.think_time(view, opened_by);
        let (tunables, device) = (&self.tunables, &self.device);
        let time = opened_by
            .and_then(|_| idling::period(view, version, tunables, device, groups, home, mean));
        let (left, mean) = (home.slice.left(view.now()), mean.map_or(0, signed));
        let Some(time) = replace(Decision::Arm { left, mean }, time) else { return };
        let until = view.now() + time;
        self.service.idle(view, home, until);
        if let Some(client) = home.client {
            view.note(Note::Idling { client, until });
        }
    }

    /// The timer rings: nothing came.
    pub(super) fn idle_timer_rings(&mut self, view: &mut QueueView) {
        self.service.timer_rang();
        let Some(queue) = self.service.queue() else { return };
        let home = self.queues.at_mut(queue);
        let used = home.slice.is_used(view.now());
        let sole = self.schedule.busy() == 0;
        let goes_on = home.must_dispatch || (!used && (sole || !home.is_empty()));
        if !replace(Decision::EndsWithTimer, !goes_on) {
            return;
        }
        if !used {
            home.is_deep = false;
        }
        self.expire(view, false);
    }
}

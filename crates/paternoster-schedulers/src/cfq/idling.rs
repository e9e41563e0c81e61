// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idling: keeping the device free for the next request of the active queue.
//!
//! A sequential reader asks for the next piece a moment after it got the last. Going elsewhere in
//! that moment costs two seeks; waiting costs the moment:
//!
//! ```text
//! with     A A A A A A A A │ B B B B B B B B │        one seek for each slice
//! without  A │ B │ A │ B │ A │ B │ A │ B │           one for each request
//! ```
//!
//! It pays only for processes that come back soon (think time) and read sequentially (seek
//! history), and on devices with moving parts. Queues that are not idled for singly are idled for
//! once, after the last of them, so that their tree is not left each time it is empty.
//!
//! # Invariants
//! I1  `idle_until` is when the view's timer rings.
//!
//! Source: CFQ-26 to CFQ-31, CFQ-38, CFQ-65, CFQ-67.

use crate::cfq::Cfq;
use crate::cfq::kind::Kind;
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::slice::{jiffy, signed};
use crate::cfq::version::TreeIdling;
use paternoster_core::event::Note;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, Flags, QueueView, RequestId};

/// A queue with this many requests waiting at once is deep: it needs no idling to be served well.
const DEEP: u32 = 4;

impl Cfq {
    /// A request comes: updates think times and seek history, and whether to idle.
    pub(super) fn learn(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let client = view.request(request).client();
        self.sample_think_times(view, queue, client);
        let (start, sectors) = (view.request(request).sector(), view.request(request).sectors());
        let (detection, rotational) = (self.tunables.seek_detection, view.facts().rotational);
        self.queues.at_mut(queue).seek.sample(detection, rotational, start, sectors);
        self.update_idle_window(view, queue, client);
    }

    fn sample_think_times(&mut self, view: &QueueView, queue: u32, client: ClientId) {
        let (now, tick) = (view.now(), view.hz().tick());
        let longest = Nanos(2 * self.tunables.slice_idle_in(view).0);
        let of_group = Nanos(2 * self.tunables.group_idle_in(view, &self.version).0);
        let home = self.queues.at(queue);
        let (sync, stand, group) = (home.is_sync, home.stand, home.group);
        if sync || self.version.tree_idling == TreeIdling::Unflagged {
            self.contexts.at_mut(client).think_time.sample(now, longest, tick);
        }
        if self.version.tree_idling != TreeIdling::ThinkTime {
            return;
        }
        if let (true, Some(stand)) = (sync, stand) {
            let trees = &mut self.groups[stand.group].tree_think_times;
            trees[stand.tree].sample(now, longest, tick);
        }
        self.groups[group].think_time.sample(now, of_group, tick);
    }

    /// Whether the queue is one to idle for (CFQ-28, CFQ-38).
    fn update_idle_window(&mut self, view: &QueueView, queue: u32, client: ClientId) {
        let home = self.queues.at(queue);
        if !home.is_sync || home.is_idle_class() {
            return;
        }
        let deep = home.is_deep || home.lane.len() >= DEEP;
        let slice_idle = self.tunables.slice_idle_in(view);
        let flagged = |next: RequestId| view.request(next).flags().contains(Flags::NOIDLE);
        let seeky = home.seek.is_seeky(self.tunables.seek_detection);
        let think_time = self.contexts.think_time(view, Some(client));
        let last_of_its_kind = self.version.heeds_no_idle && home.next.is_some_and(flagged);
        let hopeless = slice_idle == Nanos::ZERO || (!deep && seeky);
        let window = !last_of_its_kind
            && !hopeless
            && think_time.map_or(home.idle_window, |mean| mean <= slice_idle);
        let window = replace(Decision::IdleWindow { before: home.idle_window }, window);
        let home = self.queues.at_mut(queue);
        (home.is_deep, home.idle_window) = (deep, window);
    }

    /// Whether the device may be kept free for the queue (CFQ-65).
    pub(super) fn should_idle(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let slice_idle = self.tunables.slice_idle_in(view);
        let no_idling = self.version.no_slice_idle_no_idling && slice_idle == Nanos::ZERO;
        if no_idling || home.is_idle_class() {
            return false;
        }
        if home.idle_window && !self.is_queueing_flash(view) {
            return true;
        }
        let Some(stand) = home.stand else { return false };
        let group = &self.groups[stand.group];
        let thinks_long = self.version.tree_idling == TreeIdling::ThinkTime
            && group.tree_think_times[stand.tree].is_longer_than(slice_idle, view.hz().tick());
        home.is_sync && group.trees[stand.tree].len() == 1 && !thinks_long
    }

    /// Where seeks cost nothing and commands are queued, idling gains nothing.
    pub(super) fn is_queueing_flash(&self, view: &QueueView) -> bool {
        !view.facts().rotational && self.may_queue_commands(view)
    }

    /// A seeky queue with many requests at once loses its idle window when the first of them takes
    /// longer than what is left of its slice.
    pub(super) fn watch_deep_queue(&mut self, view: &QueueView, queue: u32) {
        let home = self.queues.at(queue);
        if !self.version.watches_deep_queues
            || !home.idle_window
            || !home.seek.is_seeky(self.tunables.seek_detection)
        {
            return;
        }
        let now = view.now();
        let began = home.slice.start.unwrap_or(Nanos::ZERO);
        let slow = home.slice.is_new || home.slice.left(now) > signed(now) - signed(began);
        if replace(Decision::DeepIsSlow, slow) {
            let home = self.queues.at_mut(queue);
            (home.is_deep, home.idle_window) = (false, false);
        }
    }

    /// A request of the active queue has ended.
    pub(super) fn active_ended_one(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        request: RequestId,
    ) {
        if self.queues.at(queue).slice.is_new {
            self.start_slice(view, queue);
        }
        let left = self.queues.at(queue).slice.left(view.now());
        if replace(Decision::WaitBusy { left }, self.should_wait_busy(view, queue)) {
            self.wait_until_busy(view, queue);
        }
        let home = self.queues.at(queue);
        let ends = home.slice.is_used(view.now()) || home.is_idle_class();
        let left = home.slice.left(view.now());
        if replace(Decision::EndsWithCompletion { left }, ends) {
            self.expire(view, true);
            return;
        }
        let sync = view.request(request).is_sync();
        let idles = sync && home.is_empty() && self.close_cooperator(view, queue).is_none();
        if replace(Decision::MayArm, idles) {
            let flagged = view.request(request).flags().contains(Flags::NOIDLE);
            self.tree_idles |= !flagged;
            self.idle_for(view, queue);
        }
    }

    /// The slice goes on until the group's only queue has work again.
    fn wait_until_busy(&mut self, view: &QueueView, queue: u32) {
        let slice_idle = self.tunables.slice_idle_in(view);
        let longer = if slice_idle == Nanos::ZERO {
            self.tunables.group_idle_in(view, &self.version)
        } else {
            slice_idle
        };
        let home = self.queues.at_mut(queue);
        home.slice.end = view.now() + longer;
        home.wait_busy = true;
    }

    fn should_wait_busy(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let group = &self.groups[home.group];
        let (now, tick) = (view.now(), view.hz().tick());
        let refined = self.version.keeps_unstarted_slice;
        if refined && !home.is_empty() {
            return false;
        }
        let idle = self.tunables.group_idle_in(view, &self.version);
        let thinks_long = refined && group.think_time.is_longer_than(idle, tick);
        if group.queues > 1 || thinks_long {
            return false;
        }
        let left = home.slice.left(now);
        let mean = self.contexts.think_time(view, self.active_client);
        home.slice.is_used(now)
            || mean.is_some_and(|mean| left < signed(mean))
            || left <= signed(jiffy(view))
    }

    /// Sets the timer, if the device should idle for the active queue (CFQ-30, CFQ-67).
    fn idle_for(&mut self, view: &mut QueueView, queue: u32) {
        if self.version.tree_idling == TreeIdling::Unflagged {
            let alone = self.groups[self.queues.at(queue).group].queues == 1;
            if self.serving.kind != Kind::Sync && !self.tree_idles && !alone {
                return;
            }
        }
        let left = self.queues.at(queue).slice.left(view.now());
        let mean = self.contexts.think_time(view, self.active_client).map_or(0, signed);
        let time = replace(Decision::Arm { left, mean }, self.idle_time(view, queue));
        let Some(time) = time else { return };
        let until = view.now() + time;
        self.queues.at_mut(queue).wait_request = true;
        self.idle_until = Some(until);
        view.set_timer(until);
        if let Some(client) = self.queues.at(queue).client {
            view.note(Note::Idling { client, until });
        }
    }

    /// How long to idle for the active queue, if at all.
    fn idle_time(&self, view: &QueueView, queue: u32) -> Option<Nanos> {
        let home = self.queues.at(queue);
        let (slice_idle, group_idle) =
            (self.tunables.slice_idle_in(view), self.tunables.group_idle_in(view, &self.version));
        let for_groups_only = self.version.idles_on_queueing_flash && group_idle.0 > 0;
        if self.is_queueing_flash(view) && !for_groups_only {
            return None;
        }
        let for_queue = slice_idle.0 > 0 && self.should_idle(view, queue);
        let alone = self.groups[home.group].queues <= 1;
        let tick = view.hz().tick();
        let thinks_long = home.stand.is_some_and(|stand| {
            let think_time = &self.groups[stand.group].tree_think_times[stand.tree];
            self.version.leaves_thinking_trees && think_time.is_longer_than(group_idle, tick)
        });
        let for_group = !for_queue && group_idle.0 > 0 && alone && !thinks_long;
        let client = self.active_client?;
        let mean = self.contexts.think_time(view, Some(client));
        let too_late = mean.is_some_and(|mean| home.slice.left(view.now()) < signed(mean));
        if home.dispatched > 0 || too_late {
            return None;
        }
        match (for_queue, for_group) {
            (true, _) => Some(slice_idle),
            (_, true) => Some(group_idle),
            _ => None,
        }
    }

    /// The timer rings: nothing came.
    pub(super) fn idle_timer_rings(&mut self, view: &mut QueueView) {
        self.idle_until = None;
        let Some(queue) = self.active else { return };
        let home = self.queues.at(queue);
        let used = home.slice.is_used(view.now());
        let goes_on = home.must_dispatch || (!used && (self.busy == 0 || !home.is_empty()));
        if !replace(Decision::EndsWithTimer, !goes_on) {
            return;
        }
        if !used {
            self.queues.at_mut(queue).is_deep = false;
        }
        self.expire(view, false);
    }

    /// A request comes to the active queue.
    pub(super) fn came_to_active(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        if !self.queues.at(queue).wait_request {
            return;
        }
        // A single page may grow until the timer rings or a request is asked for.
        let page = 4096 / 512;
        if view.request(request).sectors() > page || self.busy > 1 {
            self.stop_idling(view, queue);
        } else {
            self.queues.at_mut(queue).must_dispatch = true;
        }
    }

    /// The device no longer idles for the queue.
    pub(super) fn stop_idling(&mut self, view: &mut QueueView, queue: u32) {
        if self.queues.at(queue).wait_request {
            self.cancel_idle_timer(view);
        }
        self.queues.at_mut(queue).wait_request = false;
    }

    pub(super) fn cancel_idle_timer(&mut self, view: &mut QueueView) {
        if self.idle_until.take().is_some() {
            view.cancel_timer();
        }
    }
}

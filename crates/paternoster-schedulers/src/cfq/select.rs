// SPDX-License-Identifier: MIT OR Apache-2.0
//! Select: whose turn it is.
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
//! # Invariants
//! I1  Each wait has a cause: the timer is set (`Idle`), or something is in flight (`Await`).
//!
//! Source: CFQ-60.

use crate::cfq::Cfq;
use crate::cfq::probe_points::{Decision, replace};
use paternoster_core::QueueView;

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

impl Cfq {
    /// The queue to serve now, or what to wait for.
    pub(super) fn select(&mut self, view: &mut QueueView) -> Selection {
        if self.queues.waiting() == 0 {
            return Selection::Nothing;
        }
        let Some(queue) = self.active else { return self.select_new(view, None) };
        let home = self.queues.at(queue);
        let (empty, in_flight) = (home.is_empty(), home.dispatched > 0);
        if replace(Decision::BusyAgain, home.wait_busy && !empty) {
            return self.replace(view, None);
        }
        let used = home.slice.is_used(view.now()) && !home.must_dispatch;
        let left = home.slice.left(view.now());
        if replace(Decision::SliceUsed { left }, used) {
            let alone = self.groups[home.group].queues == 1;
            if alone && empty && in_flight && self.should_idle(view, queue) {
                return Selection::Await;
            }
            return self.leave_unless_group_idles(view, queue);
        }
        if !empty {
            return Selection::Serve(queue);
        }
        let other = self.close_cooperator(view, queue);
        if let Some(other) = replace(Decision::Cooperator, other) {
            if self.queues.at(queue).merge_into.is_none() {
                self.schedule_merge(view, queue, other);
            }
            return self.replace(view, Some(other));
        }
        if replace(Decision::WaitsForTimer, self.idle_until.is_some()) {
            return Selection::Idle;
        }
        self.watch_deep_queue(view, queue);
        let waits = in_flight && self.should_idle(view, queue);
        if replace(Decision::WaitsForFlight, waits) {
            return Selection::Await;
        }
        self.leave_unless_group_idles(view, queue)
    }

    /// A group's last queue is not left while requests of the group are in flight.
    fn leave_unless_group_idles(&mut self, view: &mut QueueView, queue: u32) -> Selection {
        let group = &self.groups[self.queues.at(queue).group];
        let idle = self.tunables.group_idle_in(view, &self.version);
        let waits = idle.0 > 0
            && group.queues == 1
            && group.dispatched > 0
            && !group.think_time.is_longer_than(idle, view.hz().tick());
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
        let chosen = by.or_else(|| {
            self.choose_workload(view);
            self.first_of_workload()
        });
        match replace(Decision::Turn, chosen) {
            Some(queue) => {
                self.activate(view, queue);
                Selection::Serve(queue)
            }
            None => Selection::Nothing,
        }
    }

    /// A queue's turn begins.
    fn activate(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.slice = home.slice.begun(view.now());
        home.wait_request = false;
        home.must_dispatch = false;
        home.had_permit = false;
        self.cancel_idle_timer(view);
        self.active = Some(queue);
    }
}

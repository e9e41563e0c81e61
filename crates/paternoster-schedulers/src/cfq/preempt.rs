// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemption: a request that need not wait for its queue's turn.
//!
//! ```text
//! async has the device       a read comes           it goes first, whatever the slice
//! best effort has it         real time comes        it goes first
//! idling for A at 5000       B asks for 5100        B goes on there: better than an idle device
//! ```
//!
//! The preempted queue keeps the account of what was left of its slice; the other queue moves to
//! the front of its tree. The rules are listed in the order in which they are checked; the first
//! that applies decides.
//!
//! Source: CFQ-62 and CFQ-32 to CFQ-34; CFQ-63, CFQ-68.

use crate::cfq::Cfq;
use crate::cfq::kind::Kind;
use crate::cfq::probe_points::{Decision, replace};
use paternoster_core::event::{Note, Preemption};
use paternoster_core::{QueueView, RequestId};

/// Sectors nearer to the head than this are close (4 MiB).
pub(super) const CLOSE_SECTORS: u64 = 8 * 1024;

impl Cfq {
    /// Whether a request that came to `queue` should preempt the active one, and why.
    fn preemption(&self, view: &QueueView, queue: u32, request: RequestId) -> Option<Preemption> {
        let active = self.active?;
        let (running, comer) = (self.queues.at(active), self.queues.at(queue));
        let asked = view.request(request);
        if comer.is_idle_class() {
            return None;
        }
        if running.is_idle_class() {
            return Some(Preemption::OverIdleClass);
        }
        if running.is_realtime() && !comer.is_realtime() {
            return None;
        }
        let let_through = self.version.lets_expired_through && running.must_dispatch;
        if asked.is_sync() && !running.is_sync && !let_through {
            return Some(Preemption::SyncOverAsync);
        }
        if !self.is_of_group_or_above(comer.group, running.group) {
            return None;
        }
        let realtime = comer.is_realtime() && !running.is_realtime();
        if self.version.realtime_first && realtime {
            return Some(Preemption::Realtime);
        }
        if running.slice.is_used(view.now()) {
            return Some(Preemption::SliceUsed);
        }
        if self.is_next_in_turn(active, queue) {
            return Some(Preemption::NextInTurn);
        }
        if self.queues.is_urgent(view, request) && running.urgent == 0 {
            return Some(Preemption::Urgent);
        }
        if realtime {
            return Some(Preemption::Realtime);
        }
        self.preemption_of_waiting(view, active, asked.sector())
    }

    /// Queues that are not idled for take turns: an empty active queue has had its turn.
    fn is_next_in_turn(&self, active: u32, queue: u32) -> bool {
        self.serving.kind == Kind::NoIdle
            && self.queues.at(queue).kind() == Kind::NoIdle
            && (self.version.preempts_among_seeky || self.beside(queue) == 2)
            && self.queues.at(active).is_empty()
    }

    fn preemption_of_waiting(
        &self,
        view: &QueueView,
        active: u32,
        sector: u64,
    ) -> Option<Preemption> {
        let running = self.queues.at(active);
        if self.version.preempts_unidled && running.is_empty() && !self.should_idle(view, active) {
            return Some(Preemption::NotIdledFor);
        }
        let idling = self.active_client.is_some() && running.wait_request;
        (idling && self.is_close(active, sector)).then_some(Preemption::Close)
    }

    fn is_close(&self, active: u32, sector: u64) -> bool {
        let seek = &self.queues.at(active).seek;
        let window = seek.closeness(self.tunables.seek_detection, CLOSE_SECTORS);
        sector.abs_diff(self.last_position) <= window
    }

    /// Whether `group` is `of`, or an ancestor of it where groups nest.
    fn is_of_group_or_above(&self, group: u32, of: u32) -> bool {
        let mut at = Some(of);
        while let Some(found) = at {
            if found == group {
                return true;
            }
            at = self.groups[found].parent.filter(|_| self.version.nests_groups);
        }
        false
    }

    /// Gives the request's queue the device if a rule says so.
    pub(super) fn preempt_if_due(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        let Some(active) = self.active else { return };
        let rule = replace(Decision::Preempts, self.preemption(view, queue, request));
        let Some(rule) = rule else { return };
        if let (Some(client), Some(by)) =
            (self.queues.at(active).client, self.queues.at(queue).client)
        {
            view.note(Note::Preempted { client, by, rule });
        }
        let other_kind = self.queues.at(active).kind() != self.queues.at(queue).kind();
        self.expire(view, true);
        if self.version.restarts_workloads && other_kind {
            self.groups[self.queues.at(queue).group].saved = None;
        }
        self.stand(view, queue, true);
        let slice = &mut self.queues.at_mut(queue).slice;
        slice.end = paternoster_core::time::Nanos::ZERO;
        slice.is_new = true;
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stable merge: queues that are created together stay together (stable merging).
//!
//! The threads of one program that start within a moment of each other mostly do one job. A queue
//! for each costs time and gains nothing, so a new queue is merged with the one created last in its
//! group, if both have the same weight:
//!
//! ```text
//! created within 180 ms   flash that queues commands: merged at once
//!                         others: remembered, and merged 600 ms later if idling for the queue
//!                         would not pay (readers that read on are left alone)
//! later than 600 ms       a series of its own
//! ```
//!
//! Such a merge is stable: it is not undone when the shared queue is seeky, and does not prevent
//! weight raising.
//!
//! Source: BFQ-145 to BFQ-147.

use crate::bfq::Bfq;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView};

/// A queue created longer ago than this no longer starts a pair.
const SERIES: Nanos = Nanos::from_millis(600);
/// Queues created within this time belong together.
const TOGETHER: Nanos = Nanos::from_millis(180);
/// Before this not enough is known of a pair.
const PATIENCE: Nanos = Nanos::from_millis(600);

impl Bfq {
    /// `queue` was just made for `client`. Returns the queue that the client is to use (BFQ-145).
    pub(super) fn stable_merge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
    ) -> u32 {
        if !self.tunables.stable_merging {
            return queue;
        }
        let hz = view.hz();
        let group = self.schedule.entities[queue as usize].group;
        let created = self.queues.at(queue).created;
        let fits = |last: &u32| {
            let (own, other) =
                (&self.schedule.entities[queue as usize], &self.schedule.entities[*last as usize]);
            self.queues.at(*last).created + hz.ceil(SERIES) >= created
                && own.group == other.group
                && own.new_class == other.new_class
                && own.new_weight == other.new_weight
        };
        let Some(last) = self.groups[group as usize].last_created.filter(fits) else {
            self.groups[group as usize].last_created = Some(queue);
            return queue;
        };
        if self.queues.at(last).created + hz.ceil(TOGETHER) < created {
            return queue;
        }
        if self.is_queueing_flash(view) {
            return self.merge_at_once(view, client, queue, last);
        }
        let partner = self.queues.at_mut(last);
        partner.refs += 1;
        partner.stable_refs += 1;
        self.contexts[client.index() as usize].stable_with = Some(last);
        queue
    }

    fn merge_at_once(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
        last: u32,
    ) -> u32 {
        let Some(target) = self.schedule_merge(view, queue, last) else { return queue };
        self.mark_stable(client, target);
        self.merge(view, client, queue, target);
        target
    }

    fn mark_stable(&mut self, client: ClientId, target: u32) {
        self.contexts[client.index() as usize].is_stably_merged = true;
        if let Some(owner) = self.queues.at(target).owner {
            self.contexts[owner.index() as usize].is_stably_merged = true;
        }
    }

    /// Whether the remembered partner is decided on now, and the queue to merge into, if any
    /// (BFQ-146).
    pub(super) fn decide_stable_merge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
    ) -> Option<Option<u32>> {
        if self.is_queueing_flash(view) {
            return None;
        }
        let partner = self.contexts[client.index() as usize].stable_with?;
        let home = self.queues.at(queue);
        let patience = view.hz().ceil(PATIENCE);
        let is_past = |at: Nanos| view.now() > at + patience;
        if !home.is_sync
            || home.is_new
            || !is_past(home.created)
            || !home.split_at.is_none_or(is_past)
        {
            return None;
        }
        let present = home.processes().min(self.queues.at(partner).processes()) > 0;
        let mut target = None;
        if present && partner != queue && !self.idles_for_throughput(view, queue) {
            target = self.schedule_merge(view, queue, partner);
        }
        if let Some(target) = target {
            self.mark_stable(client, target);
        }
        self.forget_stable_merge(view, client);
        Some(target)
    }

    /// A process forgets its remembered partner.
    pub(super) fn forget_stable_merge(&mut self, view: &mut QueueView, client: ClientId) {
        if let Some(partner) = self.contexts[client.index() as usize].stable_with.take() {
            self.queues.at_mut(partner).stable_refs -= 1;
            self.put_queue(view, partner);
        }
    }

    /// Another queue counts as the one created last in its group from now on.
    pub(super) fn replace_last_created(&mut self, queue: u32, by: Option<u32>) {
        let group = self.schedule.entities[queue as usize].group;
        let last = &mut self.groups[group as usize].last_created;
        if *last == Some(queue) {
            *last = by;
        }
    }
}

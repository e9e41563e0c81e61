// SPDX-License-Identifier: MIT OR Apache-2.0
//! Membership: the group that a queue belongs to, and what its turn costs that group.
//!
//! ```text
//! turn ends ─▶ used, slice or requests ─▶ groups charge it ─▶ the rest of the workload is kept
//! group goes ─▶ its queues move to the root, with what they have in flight
//! ```
//!
//! # Invariants
//! I1  A group's `dispatched` is the sum of its queues'.
//!
//! Source: CFQ-45 to CFQ-47. See `groups.rs` for the shares.

use crate::cfq::Cfq;
use crate::cfq::groups::Group;
use crate::cfq::kind::{Kind, Stand, tree_of};
use crate::cfq::queue::Queue;
use crate::cfq::slice::jiffy;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, QueueView};

impl Cfq {
    /// The turn of a queue ends after `used`: its group is charged, and the rest of the group's
    /// workload is kept for its next turn.
    pub(super) fn charge_group_of(&mut self, view: &QueueView, queue: u32, used: Nanos) {
        let Queue { group, is_sync, slice, .. } = *self.queues.at(queue);
        let known = &self.groups[group];
        let idle_class = known.trees[tree_of(Class::Idle, Kind::Sync)].len();
        let no_sync = known.queues == known.busy_async() + idle_class;
        let charge = if self.counts_requests(view) {
            u64::from(slice.dispatched)
        } else if !is_sync && no_sync {
            slice.allocated.0 / view.hz().tick().0
        } else {
            used.0 / view.hz().tick().0
        };
        self.groups.charge(group, charge);
        self.save_workload(view, group);
    }

    /// One more queue of the group is busy.
    pub(super) fn join_group(&mut self, view: &QueueView, group: u32) {
        let unit = if self.counts_requests(view) { jiffy(view) } else { view.hz().tick() };
        self.groups.join(group, unit);
    }

    /// Without `slice_idle` a device that queues commands is shared by requests, not by time
    /// (CFQ-46).
    fn counts_requests(&self, view: &QueueView) -> bool {
        self.version.idles_for_groups
            && self.tunables.slice_idle_in(view) == Nanos::ZERO
            && self.may_queue_commands(view)
    }

    /// Without isolation a queue that is not idled for moves to the root group, and back once it is
    /// idled for again (CFQ-47). `old` is its present place. Returns whether it moved.
    pub(super) fn choose_group(
        &mut self,
        view: &QueueView,
        queue: u32,
        old: Option<Stand>,
    ) -> bool {
        if !self.version.isolates_groups || self.tunables.group_isolation {
            return false;
        }
        let root = view.root().index();
        let home = self.queues.at_mut(queue);
        let from = home.group;
        match (home.kind(), home.own_group) {
            (Kind::NoIdle, _) if from != root => {
                home.own_group = Some(from);
                home.group = root;
            }
            (Kind::Sync, Some(own)) => {
                home.own_group = None;
                home.group = own;
            }
            _ => return false,
        }
        if old.is_some() {
            self.leave_tree(queue);
            self.groups.leave(from);
        }
        self.move_in_flight(queue, from);
        true
    }

    /// The queue's requests in flight now count for its new group, no longer for the group `from`.
    fn move_in_flight(&mut self, queue: u32, from: u32) {
        let Queue { group, dispatched, .. } = *self.queues.at(queue);
        self.groups[from].dispatched -= dispatched;
        self.groups[group].dispatched += dispatched;
    }

    /// A group is removed: what is left in it, requests of clients that moved, goes to the root.
    pub(super) fn dissolve_group(&mut self, view: &mut QueueView, group: u32) {
        let root = view.root().index();
        if self.active.is_some_and(|active| self.queues.at(active).group == group) {
            self.expire(view, false);
        }
        for queue in 0..self.queues.capacity() {
            if !self.queues.is_live(queue) {
                continue;
            }
            let home = self.queues.at_mut(queue);
            if home.own_group == Some(group) {
                home.own_group = None;
            }
            if home.group != group {
                continue;
            }
            let busy = home.is_busy;
            home.group = root;
            if busy {
                self.leave_tree(queue);
                self.groups.leave(group);
                self.stand(view, queue, false);
            }
            self.move_in_flight(queue, group);
        }
        if self.serving.group == Some(group) {
            self.serving.group = None;
        }
        self.groups[group] = Group::default();
    }
}

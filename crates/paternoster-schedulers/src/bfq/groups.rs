// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: what belongs to a group, and how queues move from one to another.
//!
//! Async requests wait in queues of their group, so that its writes are charged to the group. A
//! queue that changes its group takes its work along, but nothing that it was owed.
//!
//! # Invariants
//! I1  `pending` of a group counts its queues that are busy or have requests in flight; the
//!     scheduler counts the groups with such queues (4.19: except the root).
//!
//! Source: BFQ-180 to BFQ-184, BFQ-73, BFQ-74.

use crate::bfq::Bfq;
use crate::bfq::entity::Standing;
use crate::bfq::version::Guarantees;
use paternoster_core::QueueView;
use paternoster_core::event::Expiry;
use paternoster_core::pick::shared::SHARED;

/// What belongs to a group besides its trees.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Async queues by class and level.
    pub(super) shared: [Option<u32>; SHARED],
    /// The last queue that was created in it.
    pub(super) last_created: Option<u32>,
    /// Queues with requests (I1).
    pub(super) pending: u32,
    /// Requests of all queues in it and below.
    pub(super) allocated: u32,
    pub(super) is_known: bool,
}

impl Bfq {
    /// A group came, or its weight changed; the weight applies from its next turn on (BFQ-181).
    pub(super) fn weigh_group(&mut self, view: &QueueView, group: u32) {
        let Some(own) = view.group_id(group).and_then(|id| view.group(id)) else { return };
        let (parent, weight) = (own.parent().map(|parent| parent.index()), own.weight());
        if !self.groups[group as usize].is_known {
            self.groups[group as usize] = Group { is_known: true, ..Group::default() };
            self.schedule.add_group(group, parent, weight);
        } else if let Some(entity) = self.schedule.groups[group as usize].entity {
            self.schedule.set_weight(entity, weight);
        }
    }

    /// A group is removed: what is left in it moves to the root (BFQ-183).
    pub(super) fn dissolve_group(&mut self, view: &mut QueueView, group: u32) {
        self.give_up_shared(view, group);
        let root = view.root().index();
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) && self.schedule.entities[queue as usize].group == group {
                self.move_queue(view, queue, root);
            }
        }
        self.schedule.remove_group(group, view.now());
        self.groups[group as usize] = Group::default();
    }

    /// A queue moves to another group (BFQ-182).
    pub(super) fn move_queue(&mut self, view: &mut QueueView, queue: u32, group: u32) {
        if self.in_service == Some(queue) {
            self.expire(view, queue, false, Expiry::Preempted);
        }
        self.replace_last_created(queue, None);
        self.positions.remove(queue);
        let (counted, requests) =
            (self.queues.at(queue).is_pending, self.queues.at(queue).allocated.cast_signed());
        self.count_allocated(queue, -requests);
        self.uncount_pending(queue);
        let entity = &self.schedule.entities[queue as usize];
        let was_active = entity.standing == Standing::Active;
        self.schedule.deactivate(queue, false, false, view.now());
        self.schedule.entities[queue as usize].group = group;
        self.count_allocated(queue, requests);
        if counted {
            self.count_pending(queue);
        }
        if was_active {
            self.schedule.activate(queue, false, view.now());
            self.recount_class(queue);
            self.update_position(view, queue);
        }
    }

    /// A queue's class may have changed when it was enqueued: recounts it as busy under that class.
    pub(super) fn recount_class(&mut self, queue: u32) {
        let class = self.schedule.entities[queue as usize].class;
        let home = self.queues.at_mut(queue);
        if home.is_busy && home.busy_class != class {
            self.busy[usize::from(home.busy_class)] -= 1;
            self.busy[usize::from(class)] += 1;
            home.busy_class = class;
        }
    }

    /// A queue has requests now: so has its group.
    pub(super) fn count_pending(&mut self, queue: u32) {
        if core::mem::replace(&mut self.queues.at_mut(queue).is_pending, true) {
            return;
        }
        let group = self.schedule.entities[queue as usize].group;
        self.groups[group as usize].pending += 1;
        if self.groups[group as usize].pending == 1 && self.counts_group(group) {
            self.pending_groups += 1;
        }
    }

    /// A queue has no requests any more.
    pub(super) fn uncount_pending(&mut self, queue: u32) {
        if !core::mem::replace(&mut self.queues.at_mut(queue).is_pending, false) {
            return;
        }
        let group = self.schedule.entities[queue as usize].group;
        self.groups[group as usize].pending -= 1;
        if self.groups[group as usize].pending == 0 && self.counts_group(group) {
            self.pending_groups -= 1;
        }
    }

    /// Whether this group counts among the groups with requests.
    pub(super) fn counts_group(&self, group: u32) -> bool {
        let is_root = self.schedule.groups[group as usize].entity.is_none();
        self.version.guarantees == Guarantees::TwoGroups || !is_root
    }
}

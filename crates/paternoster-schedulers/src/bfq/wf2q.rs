// SPDX-License-Identifier: MIT OR Apache-2.0
//! B-WF2Q+: the order of service within one group and class.
//!
//! Worst-case fair weighted fair queueing, with budgets instead of packets. Each tree has a virtual
//! time V that advances by the service divided by the sum of the tree's weights. Entities with work
//! are in the *active* tree; of those whose start has come (S <= V), the one with the least finish
//! is served. An entity without work that had more than its share is in the *idle* tree until V has
//! passed its finish, so that leaving and coming back gains nothing:
//!
//! ```text
//! weights 40 and 80, budgets of 1200 sectors; virtual times in sectors per weight
//! V = 0    a: S 0 F 30    b: S 0 F 15       b is served, V becomes 1200/120 = 10
//! V = 10   a: S 0 F 30    b: S 15 F 30      b's start has not come: a is served, V = 20
//! V = 20   a: S 30 F 60   b: S 15 F 30      b … in the long run two turns to one
//! ```
//!
//! # Invariants
//! I1  The weight sum is that of all entities that count: active, idle, being served.
//! I2  V does not step back while any entity is active. (When none is, the original sets it to the
//!     finish of the last idle entity, which may be earlier; `steps_back`.)
//! I3  An entity that was served starts again at most delta(service, weight) ahead of V, plus the
//!     lead that it had when its turn began, plus what V stepped back during it. (A turn begins
//!     ahead if no other entity had work: then there was no lookup, and V did not jump.)
//!
//! Debug builds assert I2 and I3 each time.
//!
//! Differs: the least start of a subtree is always right here. The kernel's was stale in 3 of 721
//! recorded selections, where it took an entity with a later finish (BFQ-10). A group that is
//! enqueued again in the middle of its turn is charged once for what it was served until then
//! (`settle`).
//!
//! Source: BFQ-1 to BFQ-12, BFQ-17, BFQ-18; BFQ-G1.

use crate::bfq::entity::{Deadline, Finish, Standing, delta, is_after, later};
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::schedule::Schedule;
use paternoster_core::AUDITS;
use paternoster_core::tree::{Nodes, Root};

/// The trees of one class of one group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServiceTree {
    pub(super) active: Root,
    pub(super) idle: Root,
    /// Virtual time.
    pub(super) vtime: u64,
    /// Sum of the weights of all entities that count (I1).
    pub(super) weight_sum: u64,
    /// The same without raising. Used only by `flush_share`.
    pub(super) plain_sum: u64,
}

impl ServiceTree {
    /// Where virtual time jumps if no entity's start has come: to the least start.
    fn jump(&self, nodes: &Nodes<Deadline>) -> u64 {
        let least = self.active.top().and_then(|top| nodes.summary(top));
        least.map_or(self.vtime, |least| later(self.vtime, least))
    }

    /// Among the active entities whose start has come at `vtime`, the one with the least finish; of
    /// equal ones, the first inserted. One descent, guided by the least starts.
    fn first_eligible(&self, nodes: &Nodes<Deadline>, vtime: u64) -> Option<u32> {
        let has_come = |at: u32| nodes.summary(at).is_some_and(|least| !is_after(least, vtime));
        let mut at = self.active.top().filter(|&top| has_come(top))?;
        loop {
            #[cfg(test)]
            crate::bfq::entity::steps::count();
            if let Some(left) = nodes.left(at).filter(|&left| has_come(left)) {
                at = left;
            } else if nodes.key(at).is_some_and(|key| !is_after(key.start, vtime)) {
                return Some(at);
            } else {
                at = nodes.right(at)?;
            }
        }
    }
}

/// How far a start lies ahead of virtual time.
pub(super) const fn lead(start: u64, vtime: u64) -> u64 {
    later(start, vtime).wrapping_sub(vtime)
}

impl Schedule {
    fn tree_of(&mut self, entity: u32) -> &mut ServiceTree {
        let Self { entities, groups, .. } = self;
        let own = &entities[entity as usize];
        &mut groups[own.group as usize].trees[usize::from(own.class)]
    }

    /// The virtual time of an entity's tree.
    pub(super) fn vtime_of(&self, entity: u32) -> u64 {
        let own = &self.entities[entity as usize];
        self.groups[own.group as usize].trees[usize::from(own.class)].vtime
    }

    /// An entity has been served `sectors` of its budget: its tree's virtual time advances.
    pub(super) fn advance(&mut self, entity: u32, sectors: u64) {
        self.entities[entity as usize].service += sectors;
        let own = &self.entities[entity as usize];
        let (group, class) = (own.group, own.class);
        let tree = &self.groups[group as usize].trees[usize::from(class)];
        self.set_vtime(group, class, tree.vtime.wrapping_add(delta(sectors, tree.weight_sum)));
        self.forget_one(group, class);
    }

    /// Virtual time becomes `vtime`, which is earlier only if no entity is active (I2).
    fn set_vtime(&mut self, group: u32, class: u8, vtime: u64) {
        let server = &mut self.groups[group as usize];
        let tree = &mut server.trees[usize::from(class)];
        if is_after(tree.vtime, vtime) {
            debug_assert!(self.steps_back, "BFQ-17: V steps back from {} to {vtime}", tree.vtime);
            debug_assert!(tree.active.is_empty(), "BFQ-17: V steps back, and somebody is active");
            let served = server.in_service.map(|entity| self.entities[entity as usize].class);
            if served == Some(class) {
                server.lead = server.lead.wrapping_add(tree.vtime.wrapping_sub(vtime));
            }
        }
        tree.vtime = vtime;
    }

    /// Asserts that an entity in service has the finish its service gives: not too far ahead.
    fn assert_lead(&self, entity: u32) {
        if AUDITS {
            let own = &self.entities[entity as usize];
            let most = delta(own.service, own.weight.into());
            let lead = most.wrapping_add(self.groups[own.group as usize].lead);
            let bound = self.vtime_of(entity).wrapping_add(lead);
            assert!(!is_after(own.finish, bound), "wf2q I3: {own:?} finishes behind {bound}");
        }
    }

    /// An entity in service starts again after what it was served. A group may do so in the middle
    /// of a turn, when a member joins it: what it was served so far counts once.
    fn settle(&mut self, entity: u32) {
        self.assert_lead(entity);
        let vtime = self.vtime_of(entity);
        let own = &mut self.entities[entity as usize];
        if !own.is_queue {
            own.service = 0;
        }
        self.groups[own.group as usize].lead = lead(own.start, vtime);
    }

    /// Virtual time has moved on: at most one idle entity is forgotten, the first (BFQ-9).
    fn forget_one(&mut self, group: u32, class: u8) {
        let tree = &self.groups[group as usize].trees[usize::from(class)];
        let finish = |entity: u32| self.entities[entity as usize].finish;
        if let (true, Some(last)) = (tree.active.is_empty(), tree.idle.last())
            && !is_after(finish(last), tree.vtime)
            && self.steps_back
        {
            // Any entity that becomes active next would have been served long ago.
            self.set_vtime(group, class, finish(last));
        }
        let tree = &mut self.groups[group as usize].trees[usize::from(class)];
        if let Some(first) = tree.idle.first()
            && !is_after(self.entities[first as usize].finish, tree.vtime)
        {
            tree.idle.remove(&mut self.idle_nodes, first);
            self.forget(first);
        }
    }

    /// An entity begins to count in its tree.
    pub(super) fn count(&mut self, entity: u32) {
        let own = self.entities[entity as usize];
        let tree = self.tree_of(entity);
        tree.weight_sum += u64::from(own.weight);
        tree.plain_sum += u64::from(own.orig_weight);
    }

    /// An entity stops counting in its tree.
    pub(super) fn uncount(&mut self, entity: u32) {
        let own = self.entities[entity as usize];
        let tree = self.tree_of(entity);
        tree.weight_sum -= u64::from(own.weight);
        tree.plain_sum -= u64::from(own.orig_weight);
    }

    /// An entity that is in no tree stops counting.
    pub(super) fn forget(&mut self, entity: u32) {
        self.uncount(entity);
        self.entities[entity as usize].standing = Standing::Off;
        if self.entities[entity as usize].is_queue {
            self.departed.forget(entity);
        }
    }

    /// An entity gets work (BFQ-3 to BFQ-5). If it was `waited` for, it is given back the time
    /// since its finish.
    pub(super) fn activate_one(&mut self, entity: u32, waited: bool) {
        let vtime = self.vtime_of(entity);
        let own = self.entities[entity as usize];
        let shifted = waited && is_after(vtime, own.finish);
        let earliest = if shifted { own.finish } else { vtime };
        if own.standing == Standing::Idle {
            self.remove_idle(entity);
            self.entities[entity as usize].start = later(earliest, own.finish);
        } else {
            self.entities[entity as usize].start = earliest;
            self.count(entity);
        }
        self.enqueue(entity, shifted);
    }

    /// An entity restarts after what it was served (BFQ-6), or, if it was not in service, is
    /// enqueued again because its budget changed (BFQ-7).
    pub(super) fn requeue_one(&mut self, entity: u32, served: bool) {
        if served {
            let service = self.entities[entity as usize].service;
            self.set_finish(entity, service);
            let own = &mut self.entities[entity as usize];
            own.start = own.finish;
            self.settle(entity);
        }
        if self.entities[entity as usize].standing == Standing::Active {
            self.extract(entity);
        }
        self.enqueue(entity, false);
    }

    /// Sets an entity's finish, given this much service.
    fn set_finish(&mut self, entity: u32, service: u64) {
        let own = &mut self.entities[entity as usize];
        own.finish = own.finish_after(service);
        if own.is_queue {
            let (start, finish, weight) = (own.start, own.finish, own.weight);
            probe(Some(entity), ProbePoint::FinishOf { service, weight });
            probe(Some(entity), ProbePoint::Times { start, finish });
        }
    }

    /// Puts an entity, which counts and is in no tree, into the active one.
    fn enqueue(&mut self, entity: u32, shifted: bool) {
        self.take_over_changes(entity, true);
        let vtime = self.vtime_of(entity);
        let budget = self.entities[entity as usize].budget;
        self.set_finish(entity, budget);
        let own = &mut self.entities[entity as usize];
        if shifted && is_after(vtime, own.finish) {
            // Not into the past: raised entities are pushed less far.
            let by = vtime.wrapping_sub(own.finish) / u64::from(own.raise.max(1));
            own.start = own.start.wrapping_add(by);
            own.finish = own.finish.wrapping_add(by);
        }
        own.standing = Standing::Active;
        let key = own.deadline();
        let Self { entities, groups, nodes, .. } = self;
        let own = &entities[entity as usize];
        groups[own.group as usize].trees[usize::from(own.class)].active.insert(nodes, entity, key);
        groups[own.group as usize].active += 1;
        if own.is_queue {
            self.active_queues.push_front(&mut self.active_links, entity);
        }
    }

    /// Takes an entity out of the active tree; it still counts.
    pub(super) fn extract(&mut self, entity: u32) {
        let Self { entities, groups, nodes, .. } = self;
        let own = &mut entities[entity as usize];
        own.standing = Standing::Extracted;
        groups[own.group as usize].trees[usize::from(own.class)].active.remove(nodes, entity);
        groups[own.group as usize].active -= 1;
        if own.is_queue {
            self.active_queues.remove(&mut self.active_links, entity);
        }
    }

    pub(super) fn remove_idle(&mut self, entity: u32) {
        let Self { entities, groups, idle_nodes, .. } = self;
        let own = &mut entities[entity as usize];
        own.standing = Standing::Extracted;
        groups[own.group as usize].trees[usize::from(own.class)].idle.remove(idle_nodes, entity);
    }

    /// An entity has no work any more (BFQ-8): it is remembered while it is ahead of its share.
    /// Returns whether it counted at all.
    pub(super) fn deactivate_one(&mut self, entity: u32, remember: bool) -> bool {
        let own = self.entities[entity as usize];
        if !own.counts() {
            return false;
        }
        let served = self.groups[own.group as usize].in_service == Some(entity);
        if served || self.charges_outsiders {
            self.set_finish(entity, own.service);
        }
        if served {
            self.assert_lead(entity);
            self.groups[own.group as usize].in_service = None;
        } else if self.charges_outsiders {
            self.entities[entity as usize].service = 0;
        }
        match own.standing {
            Standing::Active => self.extract(entity),
            Standing::Idle if !served => self.remove_idle(entity),
            _ => {}
        }
        let ahead = is_after(self.entities[entity as usize].finish, self.vtime_of(entity));
        if remember && ahead {
            let own = &mut self.entities[entity as usize];
            own.standing = Standing::Idle;
            let key = Finish(own.finish);
            let Self { entities, groups, idle_nodes, .. } = self;
            let own = &entities[entity as usize];
            let tree = &mut groups[own.group as usize].trees[usize::from(own.class)];
            tree.idle.insert(idle_nodes, entity, key);
        } else {
            self.forget(entity);
        }
        true
    }

    /// The next entity in one class of a group; virtual time jumps to the least start if none is
    /// being served there (BFQ-10, BFQ-11).
    pub(super) fn first_of(&mut self, group: u32, class: u8, served: bool) -> Option<u32> {
        let tree = &self.groups[group as usize].trees[usize::from(class)];
        if tree.active.is_empty() {
            return None;
        }
        let vtime = tree.jump(&self.nodes);
        if !served && vtime != tree.vtime {
            self.set_vtime(group, class, vtime);
            self.forget_one(group, class);
        }
        let tree = &self.groups[group as usize].trees[usize::from(class)];
        let first = tree.first_eligible(&self.nodes, vtime);
        debug_assert!(first.is_some(), "BFQ-10: of those in {tree:?} nobody's start has come");
        first
    }
}

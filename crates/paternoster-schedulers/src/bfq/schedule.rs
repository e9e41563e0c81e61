// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedule: whose turn it is in the whole tree of groups.
//!
//! Each group schedules its members, queues and groups alike, as one server; a group's budget is
//! that of the member it would serve next. Going down from the root, each level gives its next
//! member:
//!
//! ```text
//! root     next ─▶ A 200 ─┬─ next ─▶ q1      A's budget is q1's. When q1 has been served, q1 is
//!          B 100          └─ q2              put back into A by what it got, A into the root by
//!                                            what it got, which is the same.
//! ```
//!
//! Each group keeps its next member, and looks it up again only when a change may matter: an entity
//! of the same class whose start has come, with an earlier finish, replaces it without a lookup.
//! That is the kernel's way (`takes_shortcuts`), and not quite right: since the lookup a third
//! entity may have become eligible, with a finish that is earlier still. Real-time members go
//! before best-effort ones, and those before idle ones; groups are best effort. So that the idle
//! class does not starve, it goes first once in 200 ms.
//!
//! Differs: Linux counts these from the last lookup that began with the idle class, even if another
//! class became ready before its turn and a new lookup replaced it. With readers that never pause,
//! the idle class may never be served. Here they count from its last turn.
//!
//! # Invariants
//! I1  Between calls a group has a next member exactly if one of its members is active; while its
//!     only member is being served, that member may be the next.
//! I2  A group's budget is that of its next member, if that is a queue. (When the budget of a group
//!     grows, the groups above it learn of it with the next change.)
//! I3  `in_service` of all levels leads from the root to one queue, or is empty.
//!
//! Source: BFQ-12 to BFQ-16, BFQ-21 to BFQ-25.

use alloc::vec::Vec;

use crate::bfq::departed::Departed;
use crate::bfq::entity::{Deadline, Entity, Finish, Standing, WEIGHTS, is_after};
use crate::bfq::symmetry::Symmetry;
use crate::bfq::version::Version;
use crate::bfq::wf2q::{ServiceTree, lead};
use paternoster_core::Class;
use paternoster_core::list::{Links, List};
use paternoster_core::time::Nanos;
use paternoster_core::tree::Nodes;

/// Real time, best effort, idle.
const CLASSES: usize = 3;
/// The idle class is served at least this often.
const IDLE_GUARD: Nanos = Nanos::from_millis(200);

/// A group, as the server of its members.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    pub(super) trees: [ServiceTree; CLASSES],
    /// The member whose turn it would be.
    pub(super) next: Option<u32>,
    pub(super) in_service: Option<u32>,
    /// How far the member in service was ahead of virtual time when its turn began, and how far
    /// virtual time has stepped back since. Used only by assertions.
    pub(super) lead: u64,
    /// Members in the active trees.
    pub(super) active: u32,
    /// When the idle class was last served, or had nothing to serve.
    pub(super) idle_served: Nanos,
    /// The entity by which a group's parent schedules it; the root has none.
    pub(super) entity: Option<u32>,
}

/// All entities, and whose turn it is.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) entities: Vec<Entity>,
    pub(super) groups: Vec<Server>,
    pub(super) nodes: Nodes<Deadline>,
    pub(super) idle_nodes: Nodes<Finish>,
    /// Queues in active trees, the last activated first.
    pub(super) active_queues: List,
    pub(super) active_links: Links,
    pub(super) symmetry: Symmetry,
    pub(super) departed: Departed,
    /// Slots below this number are queues, the others groups.
    queues: u32,
    /// Virtual time may step back while no entity is active (BFQ-17).
    pub(super) steps_back: bool,
    /// A queue is charged for what it was served outside its turn (BFQ-8, BFQ-16).
    pub(super) charges_outsiders: bool,
    /// An entity that goes before the next one replaces it without a lookup (BFQ-13).
    pub(super) takes_shortcuts: bool,
    /// Async requests are charged threefold only where all queues weigh the same (BFQ-43).
    pub(super) charges_async_if_symmetric: bool,
    /// A hole is recovered only with budget left (BFQ-51).
    pub(super) hole_needs_budget: bool,
}

impl Schedule {
    /// Room for this many queues and groups. Group 0 need not be the root.
    pub(super) fn new(queues: u32, groups: u32, version: &Version) -> Schedule {
        let all = queues + groups;
        Schedule {
            entities: (0..all).map(|_| Entity::default()).collect(),
            groups: (0..groups).map(|_| Server::default()).collect(),
            nodes: Nodes::with_capacity(all),
            idle_nodes: Nodes::with_capacity(all),
            active_queues: List::new(),
            active_links: Links::with_capacity(queues),
            symmetry: Symmetry::new(queues, groups, version.guarantees),
            departed: Departed::with_capacity(queues),
            queues,
            steps_back: version.steps_back,
            charges_outsiders: version.charges_outsiders(),
            takes_shortcuts: version.takes_shortcuts,
            charges_async_if_symmetric: version.charges_async_if_symmetric,
            hole_needs_budget: version.hole_needs_budget,
        }
    }

    /// A word of each of a queue's cache lines (`prefetch`).
    #[inline]
    pub(super) fn touch(&self, queue: u32) -> u64 {
        let own = &self.entities[queue as usize];
        let is_in =
            u64::from(self.nodes.contains(queue)) + u64::from(self.idle_nodes.contains(queue));
        let listed = u64::from(self.active_links.contains(queue)) + self.symmetry.touch(queue);
        own.finish ^ u64::from(own.weight) ^ is_in ^ listed
    }

    /// A group begins to exist, as a member of `parent` with this weight; the root has none.
    pub(super) fn add_group(&mut self, group: u32, parent: Option<u32>, weight: u32) {
        let entity = parent.map(|_| self.queues + group);
        if let (Some(entity), Some(parent)) = (entity, parent) {
            let own = Entity::new(parent, weight, Class::BestEffort, false);
            self.entities[entity as usize] = own;
        }
        self.groups[group as usize] = Server { entity, ..Server::default() };
    }

    /// Whether a group has no parent.
    #[inline]
    pub(super) fn is_root(&self, group: u32) -> bool {
        self.groups[group as usize].entity.is_none()
    }

    /// Whether a queue is of the idle class.
    #[inline]
    pub(super) fn is_idle_class(&self, queue: u32) -> bool {
        self.entities[queue as usize].class == Class::Idle as u8
    }

    /// Queues in active trees, the last activated first.
    #[inline]
    pub(super) fn waiting_queues(&self) -> impl Iterator<Item = u32> + '_ {
        self.active_queues.iter(&self.active_links)
    }

    /// The entity of the group that `entity` is a member of, unless that is the root.
    pub(super) fn parent_of(&self, entity: u32) -> Option<u32> {
        self.groups[self.entities[entity as usize].group as usize].entity
    }

    /// The group of an entity; `None` for a queue.
    pub(super) fn group_of_entity(&self, entity: u32) -> Option<u32> {
        entity.checked_sub(self.queues)
    }

    /// A queue has work, or still had it when its turn ended: it and the groups above it are
    /// enqueued. `waited` gives it back the time since its last finish (BFQ-4).
    pub(super) fn activate(&mut self, queue: u32, waited: bool, now: Nanos) {
        self.activate_upwards(queue, waited, false, now);
    }

    /// The budget of a waiting queue changed.
    pub(super) fn reposition(&mut self, queue: u32, now: Nanos) {
        self.activate_upwards(queue, false, false, now);
    }

    /// The turn of the queue in service ends, with work left: all levels are enqueued again.
    pub(super) fn requeue_served(&mut self, queue: u32, now: Nanos) {
        self.activate_upwards(queue, false, true, now);
    }

    /// An entity, and the groups above it as far as they change, are enqueued; if the turn of the
    /// queue in service `expires`, all of them.
    fn activate_upwards(&mut self, from: u32, waited: bool, expires: bool, now: Nanos) {
        let mut at = Some(from);
        while let Some(entity) = at {
            let own = &self.entities[entity as usize];
            let served = self.groups[own.group as usize].in_service == Some(entity);
            if served || own.standing == Standing::Active {
                self.requeue_one(entity, served);
            } else {
                self.activate_one(entity, waited);
            }
            let group = self.entities[entity as usize].group;
            if !self.update_next(group, Some(entity), expires, now) && !expires {
                return;
            }
            at = self.groups[group as usize].entity;
        }
    }

    /// A queue has no work any more. `remember` keeps how far it is ahead; `expires` says that its
    /// turn ends as well.
    pub(super) fn deactivate(&mut self, queue: u32, remember: bool, expires: bool, now: Nanos) {
        let (mut entity, mut remember) = (queue, remember);
        loop {
            if !self.deactivate_one(entity, remember) {
                return;
            }
            let group = self.entities[entity as usize].group;
            if self.groups[group as usize].next == Some(entity) {
                self.update_next(group, None, expires, now);
            }
            let server = &self.groups[group as usize];
            let Some(parent) = server.entity else { return };
            entity = parent;
            if server.next.is_some() || server.in_service.is_some() {
                // The group goes on without it.
                return self.activate_upwards(entity, false, expires, now);
            }
            remember = true;
        }
    }

    /// The next member of `group` may have changed, by `changed` if that is all. Returns whether
    /// the group's own place may have to change, too (BFQ-13, BFQ-14).
    fn update_next(&mut self, group: u32, changed: Option<u32>, expires: bool, now: Nanos) -> bool {
        let before = self.groups[group as usize].next;
        let replaces = |entity, next| self.takes_shortcuts && self.goes_before(entity, next);
        let simple = changed.filter(|&entity| {
            before != Some(entity) && before.is_none_or(|next| replaces(entity, next))
        });
        let next = match simple {
            Some(entity) => Some(entity),
            None => self.look_up(group, expires, now),
        };
        self.groups[group as usize].next = next;
        match next {
            Some(next) => self.pass_budget_up(group, next) || before.is_none(),
            None => false,
        }
    }

    /// Whether an entity replaces the next one without a lookup.
    fn goes_before(&self, entity: u32, next: u32) -> bool {
        let (own, other) = (&self.entities[entity as usize], &self.entities[next as usize]);
        own.class == other.class
            && !is_after(own.start, self.vtime_of(entity))
            && is_after(other.finish, own.finish)
    }

    /// A group's budget is that of its next member. Returns whether it shrank.
    fn pass_budget_up(&mut self, group: u32, next: u32) -> bool {
        let budget = self.entities[next as usize].budget;
        let Some(entity) = self.groups[group as usize].entity else { return false };
        let own = &mut self.entities[entity as usize];
        let shrank = own.budget > budget;
        own.budget = budget;
        shrank
    }

    /// The next member, from the highest class that has one to serve; the idle class first once in
    /// a while (BFQ-24, BFQ-25).
    fn look_up(&mut self, group: u32, expires: bool, now: Nanos) -> Option<u32> {
        let server = &mut self.groups[group as usize];
        let mut from = Class::Realtime as u8;
        if now > server.idle_served + IDLE_GUARD {
            if server.trees[Class::Idle as usize].active.is_empty() {
                server.idle_served = now;
            } else {
                from = Class::Idle as u8;
            }
        }
        let served = server.in_service.is_some() && !expires;
        (from..=Class::Idle as u8).find_map(|class| self.first_of(group, class, served))
    }

    /// Gives the device to the queue whose turn it is, and marks the path to it (BFQ-12, BFQ-15).
    pub(super) fn serve_next(&mut self, root: u32, resets: bool, now: Nanos) -> Option<u32> {
        let mut entity = self.groups[root as usize].next?;
        let mut group = root;
        loop {
            let lead = lead(self.entities[entity as usize].start, self.vtime_of(entity));
            let server = &mut self.groups[group as usize];
            (server.in_service, server.lead) = (Some(entity), lead);
            if self.entities[entity as usize].class == Class::Idle as u8 {
                server.idle_served = now;
            }
            if resets {
                self.entities[entity as usize].service = 0;
            }
            let below = self.group_of_entity(entity);
            // A group with other members to serve stays in its tree.
            if below.is_none_or(|below| self.groups[below as usize].active == 1) {
                self.extract(entity);
            }
            let Some(below) = below else { break };
            group = below;
            entity = self.groups[group as usize].next?;
        }
        let mut at = Some(entity);
        while let Some(up) = at {
            let group = self.entities[up as usize].group;
            if !self.update_next(group, None, false, now) {
                break;
            }
            at = self.groups[group as usize].entity;
        }
        Some(entity)
    }

    /// A queue, and with it all groups above it, has been served (BFQ-1).
    pub(super) fn serve(&mut self, queue: u32, sectors: u64) {
        let mut at = Some(queue);
        while let Some(entity) = at {
            self.advance(entity, sectors);
            at = self.parent_of(entity);
        }
    }

    /// The turn of `queue` is over, at all levels; its groups count their service from zero again.
    pub(super) fn end_service(&mut self, queue: u32) {
        let mut at = Some(queue);
        while let Some(entity) = at {
            let group = self.entities[entity as usize].group;
            self.groups[group as usize].in_service = None;
            at = self.groups[group as usize].entity;
            if let Some(parent) = at {
                self.entities[parent as usize].service = 0;
            }
        }
    }

    /// Sets another weight from the entity's next turn on (BFQ-21).
    pub(super) fn set_weight(&mut self, entity: u32, weight: u32) {
        let own = &mut self.entities[entity as usize];
        let weight = weight.clamp(*WEIGHTS.start(), *WEIGHTS.end());
        if own.new_weight != weight {
            own.new_weight = weight;
            own.changed = true;
        }
    }

    /// Sets another class from the queue's next turn on.
    pub(super) fn set_class(&mut self, queue: u32, class: Class) {
        let own = &mut self.entities[queue as usize];
        own.new_class = class as u8;
        own.changed |= own.class != own.new_class;
    }

    /// A group is removed; none of its members is active.
    pub(super) fn remove_group(&mut self, group: u32, now: Nanos) {
        if let Some(entity) = self.groups[group as usize].entity {
            self.deactivate(entity, false, false, now);
        }
        self.groups[group as usize] = Server::default();
    }

    /// Raises a queue by another coefficient from its next turn on.
    pub(super) fn set_raise(&mut self, queue: u32, raise: u32) {
        let own = &mut self.entities[queue as usize];
        if own.raise != raise {
            own.raise = raise;
            own.changed = true;
        }
    }

    /// Applies pending changes to an entity that is in no tree: its weight, and its class if it is
    /// about to be enqueued (BFQ-20 to BFQ-22).
    pub(super) fn take_over_changes(&mut self, entity: u32, with_class: bool) {
        if !self.entities[entity as usize].changed {
            return;
        }
        let Entity { weight: before, orig_weight, .. } = self.entities[entity as usize];
        let was_raised = before != orig_weight;
        self.uncount(entity);
        let own = &mut self.entities[entity as usize];
        own.orig_weight = own.new_weight;
        own.weight = own.orig_weight.saturating_mul(own.raise.max(1));
        let other_class = own.class != own.new_class;
        own.changed = other_class && !with_class;
        if with_class {
            own.class = own.new_class;
        }
        let own = *own;
        if with_class && other_class {
            self.entities[entity as usize].start = self.vtime_of(entity);
        }
        self.count(entity);
        // A raised weight can equal the next plain weight (Linux overlooks that). And a queue that
        // left rest counts with a weight that was to come; it may be back at the old one by now.
        let counts_with_other =
            || self.symmetry.weight_of(entity).is_some_and(|counted| counted != own.weight);
        let changes = own.weight != before || was_raised != (own.raise != 1);
        if own.is_queue && (changes || counts_with_other()) {
            self.symmetry.forget_weight(entity);
            if own.raise == 1 {
                self.symmetry.weigh(entity, own.weight);
            }
        }
    }

    /// Whether the queue whose turn it would be differs from the one in service.
    pub(super) fn another_is_next(&self, root: u32) -> bool {
        let root = &self.groups[root as usize];
        root.next != root.in_service
    }

    /// The members of one group through which two queues compete: themselves, or groups above them.
    pub(super) fn siblings(&self, a: u32, b: u32) -> (u32, u32) {
        let (one, other) = (&self.entities[a as usize], &self.entities[b as usize]);
        if one.group == other.group {
            return (a, b);
        }
        (self.parent_of(a).unwrap_or(a), self.parent_of(b).unwrap_or(b))
    }

    /// Whether `queue` is of a higher class than `other`, or it (or its group) outweighs the one it
    /// competes with.
    pub(super) fn is_heavier(&self, queue: u32, other: u32) -> bool {
        let entity = |entity: u32| &self.entities[entity as usize];
        let (one, its) = self.siblings(queue, other);
        entity(queue).class < entity(other).class || entity(one).weight > entity(its).weight
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: the invariants of BFQ, verified.
//!
//! Everything that is counted is counted again: references, requests in flight, busy and raised
//! queues, weights, each group's requests and pending queues, each tree's weight sum. Every order
//! is walked. There is one path from the root to the queue in service, and the device idles for a
//! queue only if a rule allows it. Two rules are asserted where they apply, in `wf2q`: virtual time
//! does not step back (BFQ-17), and no entity starts too far ahead of it (BFQ-G1).
//!
//! Source: BFQ-14, BFQ-18, BFQ-112, BFQ-167, BFQ-198, BFQ-199, BFQ-G14.

use alloc::format;
use alloc::vec::Vec;

use crate::bfq::context::Contexts;
use crate::bfq::cooperate::Cooperation;
use crate::bfq::device::Device;
use crate::bfq::entity::{Standing, is_after};
use crate::bfq::groups::Groups;
use crate::bfq::queue::Queue;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::elevator::Fault;
use paternoster_core::pick::home::{home, is_settled};

/// What is counted per queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    allocated: u32,
    /// Processes; for a shared queue, its group.
    others: u32,
    stable: u32,
}

/// What is counted over all queues.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    waiting: u32,
    busy: [u32; 3],
    raised: u32,
    in_flight: u32,
}

fn fault(text: &str, number: u32) -> Fault {
    format!("bfq: {text} (queue or group {number})")
}

/// What refers to each queue.
pub(super) fn count_references(
    view: &QueueView,
    contexts: &Contexts,
    queues: &Queues,
    groups: &Groups,
    device: &Device,
) -> Vec<Counted> {
    let mut counted: Vec<Counted> = (0..queues.capacity()).map(|_| Counted::default()).collect();
    for index in 0..view.request_slots() {
        let request = RequestId::from_index(index);
        // The flush command has no queue; an earlier elevator's requests are not ours.
        if view.is_live(request) && is_settled(view, request) && device.is_of_epoch(view, request) {
            counted[home(view, request) as usize].allocated += 1;
        }
    }
    for queue in contexts.held(|queue| queues.at(queue).merge_into) {
        counted[queue as usize].others += 1;
    }
    for partner in contexts.iter().filter_map(|context| context.stable_with) {
        counted[partner as usize].stable += 1;
    }
    for queue in groups.all_shared() {
        counted[queue as usize].others += 1;
    }
    counted
}

/// Each queue, and what is counted over all.
pub(super) fn audit_queues(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    in_driver: u32,
    served: Option<u32>,
    counted: &[Counted],
) -> Result<(), Fault> {
    let mut totals = Totals::default();
    for (key, queue) in queues.iter() {
        let number = key.index();
        queue.lane.check(queues.lanes(), view).map_err(|text| fault(text, number))?;
        audit_references(schedule, number, queue, counted[number as usize])?;
        let waits = |next| queues.lanes().contains(next) && home(view, next) == number;
        if queue.next.is_some() == queue.is_empty() || !queue.next.is_none_or(waits) {
            return Err(fault("queue I2: next is none of those that wait", number));
        }
        audit_entity(schedule, number, queue, served == Some(number))?;
        totals.waiting += queue.lane.len();
        totals.in_flight += queue.in_flight;
        if queue.is_busy {
            totals.busy[usize::from(queue.busy_class)] += 1;
            totals.raised += u32::from(queue.raising.is_raised());
        }
    }
    let (busy, raised) = schedule.symmetry.counted();
    let known = Totals { waiting: queues.waiting(), busy, raised, in_flight: in_driver };
    if totals != known {
        return Err(format!("bfq BFQ-198: counted {totals:?}, known {known:?}"));
    }
    Ok(())
}

fn audit_references(
    schedule: &Schedule,
    number: u32,
    queue: &Queue,
    counted: Counted,
) -> Result<(), Fault> {
    let Counted { allocated, others, stable } = counted;
    let known = (queue.allocated, queue.stable_refs, queue.refs);
    if known != (allocated, stable, allocated + others + stable) {
        return Err(format!("queue I1: queue {number} has {known:?}, counted {counted:?}"));
    }
    if (queue.refs == 0) != schedule.departed.contains(number) {
        return Err(fault("departed I1: live without a reason", number));
    }
    Ok(())
}

/// Whether a queue's entity stands where the queue says, and counts what it should.
fn audit_entity(
    schedule: &Schedule,
    number: u32,
    queue: &Queue,
    served: bool,
) -> Result<(), Fault> {
    let entity = &schedule.entities[number as usize];
    let stands = matches!(entity.standing, Standing::Active | Standing::Extracted);
    if stands != queue.is_busy || (!queue.is_empty() && !queue.is_busy) {
        return Err(fault("BFQ-198: busy and not to be served, or the reverse", number));
    }
    if (entity.standing == Standing::Extracted) != served {
        return Err(fault("schedule I3: extracted and not in service", number));
    }
    if entity.raise != queue.raising.kind.coefficient() {
        return Err(fault("raise I1: the coefficient is not that of the state", number));
    }
    let weighs = !queue.is_at_rest() && entity.weight == entity.orig_weight;
    let counts = schedule.symmetry.weight_of(number);
    // An entity whose weight is about to change still counts with the old one.
    if !entity.changed && counts != weighs.then_some(entity.weight) {
        return Err(format!("BFQ-199: queue {number} counts with {counts:?}, {entity:?}"));
    }
    if schedule.symmetry.is_pending(number) == queue.is_at_rest() {
        return Err(fault("symmetry I1: pending", number));
    }
    if queue.wait_request && !served {
        return Err(fault("idling I1: it is waited for, out of its turn", number));
    }
    Ok(())
}

impl Cooperation {
    /// The order of positions; and, if they follow each removal (`exact`), that each queue stands
    /// where its next request is.
    pub(super) fn audit(
        &self,
        view: &QueueView,
        queues: &Queues,
        exact: bool,
    ) -> Result<(), Fault> {
        self.positions.check().map_err(|fault| format!("bfq: {fault}"))?;
        for (key, queue) in queues.iter().filter(|_| exact) {
            let number = key.index();
            let at = queue.next.map(|next| view.request(next).sector());
            if self.positions.contains(number) && self.positions.sector(number) != at {
                return Err(fault("BFQ-116: it stands where its next request is not", number));
            }
        }
        Ok(())
    }
}

impl Schedule {
    /// Whether that is the queue in service.
    pub(super) fn audit_service(&self, root: u32, served: Option<u32>) -> Result<(), Fault> {
        let way = self.way_of_service(root)?;
        if way != served {
            return Err(format!("schedule I3: it serves {way:?}, {served:?} is"));
        }
        Ok(())
    }

    /// Where the path of entities in service leads from `root`: to one queue, and nowhere else.
    fn way_of_service(&self, root: u32) -> Result<Option<u32>, Fault> {
        let all = self.groups.iter().filter(|group| group.in_service.is_some()).count();
        let (mut at, mut passed) = (self.groups[root as usize].in_service, 0);
        while let Some(entity) = at {
            passed += 1;
            let Some(group) = self.group_of_entity(entity) else { break };
            at = self.groups[group as usize].in_service;
        }
        if passed != all {
            return Err(format!("schedule I3: {all} groups serve, {passed} on the way"));
        }
        Ok(at)
    }

    /// Weights of the counted members, by group and class.
    fn count_weights(&self, is_live: impl Fn(u32) -> bool) -> Vec<[u64; 3]> {
        let mut counted: Vec<[u64; 3]> = self.groups.iter().map(|_| [0; 3]).collect();
        for (number, entity) in (0..).zip(&self.entities) {
            let is_there = !entity.is_queue || is_live(number);
            if let Some(sums) = counted.get_mut(entity.group as usize)
                && entity.counts()
                && is_there
            {
                sums[usize::from(entity.class)] += u64::from(entity.weight);
            }
        }
        counted
    }

    /// Weight sums (of queues that are live), orders, budgets of groups, next members, the list of
    /// waiting queues.
    pub(super) fn audit(&self, is_live: impl Fn(u32) -> bool) -> Result<(), Fault> {
        let is_root = |group| self.is_root(group);
        self.symmetry.check(is_root).map_err(|fault| format!("bfq: {fault}"))?;
        let counted = self.count_weights(is_live);
        let waits = |&queue: &u32| self.entities[queue as usize].standing == Standing::Active;
        let listed = self.active_queues.iter(&self.active_links).filter(waits).count();
        let queues_active = self
            .entities
            .iter()
            .filter(|entity| entity.is_queue && entity.standing == Standing::Active);
        if listed != queues_active.count() || listed != self.active_queues.len() as usize {
            return Err(format!("schedule: {listed} of those that are listed wait"));
        }
        for (place, server) in self.groups.iter().enumerate() {
            let group = u32::try_from(place).unwrap_or(u32::MAX);
            let mut active = 0;
            for (class, tree) in server.trees.iter().enumerate() {
                tree.active.check(&self.nodes).map_err(|text| fault(text, group))?;
                tree.idle.check(&self.idle_nodes).map_err(|text| fault(text, group))?;
                active += tree.active.len();
                let sum = counted[place][class];
                if tree.plain_sum > tree.weight_sum || (tree.plain_sum == 0) != (sum == 0) {
                    return Err(format!("BFQ-18: group {group} weighs {tree:?} without raising"));
                }
                if sum != tree.weight_sum {
                    let known = tree.weight_sum;
                    return Err(format!("BFQ-18: group {group} weighs {sum}, counted {known}"));
                }
            }
            // While its only member is served, a group need not have looked for another.
            let next = server.next.filter(|_| active > 0 || server.next != server.in_service);
            if active != server.active || (active > 0) != next.is_some() {
                return Err(format!("schedule I1: group {group} has {active}, {server:?}"));
            }
            // A larger budget is passed up one level only, until something else changes.
            let next = next.filter(|&next| self.entities[next as usize].is_queue);
            if let (Some(next), Some(entity)) = (next, server.entity)
                && self.entities[next as usize].budget != self.entities[entity as usize].budget
            {
                let (own, of_next) = (self.entities[entity as usize], self.entities[next as usize]);
                return Err(format!("BFQ-14: group {group} {own:?}, its next {of_next:?}"));
            }
            for member in server.trees.iter().flat_map(|tree| tree.active.iter(&self.nodes)) {
                let entity = &self.entities[member as usize];
                if is_after(entity.start, entity.finish) {
                    return Err(fault("entity: its finish is before its start", member));
                }
            }
        }
        Ok(())
    }
}

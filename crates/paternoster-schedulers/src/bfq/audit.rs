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

use crate::bfq::Bfq;
use crate::bfq::entity::{Standing, is_after};
use crate::bfq::queue::Queue;
use paternoster_core::elevator::Fault;
use paternoster_core::pick::home::{home, is_settled};
use paternoster_core::slab::Slab;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// What is counted per queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
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

impl Bfq {
    /// Verifies all invariants; the time grows with everything there is.
    pub(super) fn audit_all(&self, view: &QueueView) -> Result<(), Fault> {
        let counted = self.count_references(view);
        let mut totals = Totals::default();
        for (key, queue) in self.queues.iter() {
            let number = key.index();
            self.audit_queue(view, number, queue, counted[number as usize])?;
            totals.waiting += queue.lane.len();
            totals.in_flight += queue.in_flight;
            if queue.is_busy {
                totals.busy[usize::from(queue.busy_class)] += 1;
                totals.raised += u32::from(queue.raising.is_raised());
            }
        }
        let known = Totals {
            waiting: self.waiting,
            busy: self.busy,
            raised: self.raised,
            in_flight: self.in_driver,
        };
        if totals != known {
            return Err(format!("bfq BFQ-198: counted {totals:?}, known {known:?}"));
        }
        self.positions.check().map_err(|fault| format!("bfq: {fault}"))?;
        self.schedule.weights.check().map_err(|fault| format!("bfq: {fault}"))?;
        self.audit_groups()?;
        self.audit_burst()?;
        self.audit_wakers()?;
        self.schedule.audit(&self.queues)?;
        self.audit_service(view)
    }

    fn count_references(&self, view: &QueueView) -> Vec<Counted> {
        let mut counted: Vec<Counted> =
            (0..self.queues.capacity()).map(|_| Counted::default()).collect();
        for index in 0..view.request_slots() {
            let request = RequestId::from_index(index);
            // The flush command has no queue; an earlier elevator's requests are not ours.
            if view.is_live(RequestId::from_index(index))
                && is_settled(view, request)
                && Some(view.request(request).epoch()) == self.epoch
            {
                counted[home(view, request) as usize].allocated += 1;
            }
        }
        for context in &self.contexts {
            for slot in context.slots {
                let mut at = slot;
                while let Some(queue) = at {
                    counted[queue as usize].others += 1;
                    at = self.queues.at(queue).merge_into;
                }
            }
            if let Some(partner) = context.stable_with {
                counted[partner as usize].stable += 1;
            }
        }
        for queue in self.groups.iter().flat_map(|group| group.shared).flatten() {
            counted[queue as usize].others += 1;
        }
        counted
    }

    fn audit_queue(
        &self,
        view: &QueueView,
        number: u32,
        queue: &Queue,
        counted: Counted,
    ) -> Result<(), Fault> {
        queue.lane.check(&self.lanes, view).map_err(|text| fault(text, number))?;
        let Counted { allocated, others, stable } = counted;
        let known = (queue.allocated, queue.stable_refs, queue.refs);
        if known != (allocated, stable, allocated + others + stable) {
            return Err(format!("queue I1: queue {number} has {known:?}, counted {counted:?}"));
        }
        if (queue.refs == 0) != self.schedule.departed.contains(number) {
            return Err(fault("departed I1: live without a reason", number));
        }
        let waits = |next: RequestId| self.lanes.contains(next) && home(view, next) == number;
        if queue.next.is_some() == queue.is_empty() || !queue.next.is_none_or(waits) {
            return Err(fault("queue I2: next is none of those that wait", number));
        }
        let entity = &self.schedule.entities[number as usize];
        let served = self.in_service == Some(number);
        let stands = matches!(entity.standing, Standing::Active | Standing::Extracted);
        if stands != queue.is_busy || (!queue.is_empty() && !queue.is_busy) {
            return Err(fault("BFQ-198: busy and not to be served, or the reverse", number));
        }
        if (entity.standing == Standing::Extracted) != served {
            return Err(fault("schedule I3: extracted and not in service", number));
        }
        if entity.raise != queue.raising.kind.coefficient() {
            return Err(fault("raise I2: the coefficient is not that of the state", number));
        }
        let weighs = !queue.is_at_rest() && entity.weight == entity.orig_weight;
        let counts = self.schedule.weights.of(number);
        // An entity whose weight is about to change still counts with the old one.
        if !entity.changed && counts != weighs.then_some(u64::from(entity.weight)) {
            return Err(format!("BFQ-199: queue {number} counts with {counts:?}, {entity:?}"));
        }
        if queue.is_pending == queue.is_at_rest() {
            return Err(fault("groups I1: pending", number));
        }
        let at = queue.next.map(|next| view.request(next).sector());
        let stale = self.positions.contains(number) && self.positions.sector(number) != at;
        if stale && self.tunables.position_update {
            return Err(fault("BFQ-116: it stands where its next request is not", number));
        }
        if queue.wait_request && !served {
            return Err(fault("idling I1: it is waited for, out of its turn", number));
        }
        Ok(())
    }

    fn audit_groups(&self) -> Result<(), Fault> {
        let mut counted: Vec<u32> = self.groups.iter().map(|_| 0).collect();
        for (key, _) in self.queues.iter().filter(|(_, queue)| queue.is_pending) {
            let group = self.schedule.entities[key.index() as usize].group;
            if let Some(pending) = counted.get_mut(group as usize) {
                *pending += 1;
            }
        }
        let mut pending_groups = 0;
        for (place, group) in self.groups.iter().enumerate() {
            let number = u32::try_from(place).unwrap_or(u32::MAX);
            let pending = counted[place];
            if pending != group.pending {
                return Err(format!(
                    "groups I1: group {number} has {pending}, counted {}",
                    group.pending
                ));
            }
            pending_groups += u32::from(pending > 0 && self.counts_group(number));
        }
        if pending_groups != self.pending_groups {
            return Err(format!("groups I1: {pending_groups}, counted {}", self.pending_groups));
        }
        Ok(())
    }

    /// A burst lists live queues, and none once it is large (BFQ-112).
    fn audit_burst(&self) -> Result<(), Fault> {
        let list = &self.burst.list;
        let gone = list.iter(&self.burst_links).find(|&queue| !self.queues.is_live(queue));
        if (self.burst.is_large && !list.is_empty()) || gone.is_some() {
            return Err(format!("burst I1: {:?} lists {gone:?}, who is gone", self.burst));
        }
        Ok(())
    }

    /// A queue is on the list of its waker, and on no other (BFQ-167).
    fn audit_wakers(&self) -> Result<(), Fault> {
        let mut listed = 0;
        for (key, queue) in self.queues.iter() {
            for woken in queue.woken.iter(&self.woken_links) {
                listed += 1;
                let live = self.queues.is_live(woken);
                if !live || self.queues.at(woken).waiting.waker != Some(key.index()) {
                    return Err(fault("waker I1: it lists one that does not wait for it", woken));
                }
            }
        }
        let waiting = self.queues.iter().filter(|(_, queue)| queue.waiting.waker.is_some());
        if waiting.count() != listed {
            return Err(format!("waker I1: {listed} are listed, others wait"));
        }
        Ok(())
    }

    /// The device is kept idle only by a rule that says so (BFQ-G14), for one queue (BFQ-198).
    fn audit_service(&self, view: &QueueView) -> Result<(), Fault> {
        let waits = self.in_service.is_some_and(|queue| self.queues.at(queue).wait_request);
        if waits != self.idle_until.is_some() {
            return Err(format!("idling I1: waits: {waits}, until {:?}", self.idle_until));
        }
        let [idle, again] = [self.idle_until, self.runs.again].map(|at| at.unwrap_or(Nanos::MAX));
        if view.timer() != idle.min(again) {
            return Err(format!("bfq I3: {idle}, {again}, the timer is set to {}", view.timer()));
        }
        let served = self.schedule.way_of_service(view.root().index())?;
        if served != self.in_service {
            return Err(format!("schedule I3: it serves {served:?}, {:?} is", self.in_service));
        }
        Ok(())
    }
}

impl crate::bfq::schedule::Schedule {
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
    fn count_weights(&self, queues: &Slab<Queue>) -> Vec<[u64; 3]> {
        let mut counted: Vec<[u64; 3]> = self.groups.iter().map(|_| [0; 3]).collect();
        for (number, entity) in (0..).zip(&self.entities) {
            let is_there = !entity.is_queue || queues.is_live(number);
            if let Some(sums) = counted.get_mut(entity.group as usize)
                && entity.counts()
                && is_there
            {
                sums[usize::from(entity.class)] += u64::from(entity.weight);
            }
        }
        counted
    }

    /// Weight sums, orders, budgets of groups, next members, the list of waiting queues.
    pub(super) fn audit(&self, queues: &Slab<Queue>) -> Result<(), Fault> {
        let counted = self.count_weights(queues);
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

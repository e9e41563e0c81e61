// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flush share: the device time that others are owed for a flush that a queue has caused.
//!
//! A queue whose share of the device is f, and that had it for a time c, must leave it to the
//! others for `c * (1 - f) / f`. The share is the product of its shares on each level of the group
//! tree, among the members that count there: those with work, those being served, and those
//! remembered for having had more than their share:
//!
//! ```text
//! root    A 200, B 100        A's share 2/3
//! in A    q1 40, q2 80        q1's share of A 1/3; of the device 2/9
//!
//! q1's flush takes 3.4 ms: the others are to have 3.4 * (9/2 - 1) = 11.9 ms
//! ```
//!
//! Weights are the configured ones: a raised weight, thirty or three thousand times as much, would
//! keep the owner out for seconds. c counts as one slot (`timeout_sync`, 125 ms) at most, or a long
//! flush would silence a light queue for minutes. The queue's virtual times stay as they are: it
//! comes back later, like a queue that thought for longer, and every rule for those holds.
//!
//! Clients with merged queues are one queue to the schedule. The members of a shared queue divide
//! its share by their own weights, where every other member is taken to weigh what the one served
//! last weighs.
//!
//! Source: own; BFQ-3 (weights that count).

use crate::bfq::context::{Contexts, weight_of};
use crate::bfq::entity::Standing;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use paternoster_core::ClientId;
use paternoster_core::QueueView;
use paternoster_core::ratio::{ONE, Ratio};
use paternoster_core::time::Nanos;

/// The device time that others are owed for `cost` of `client`'s, which is at most one slot.
pub(super) fn due_for(
    view: &QueueView,
    contexts: &Contexts,
    queues: &Queues,
    schedule: &Schedule,
    (client, cost): (ClientId, Nanos),
    beside: Option<ClientId>,
) -> Nanos {
    let Some(queue) = contexts.any_slot(client) else { return Nanos::ZERO };
    let mut whole = one_by_share(schedule, queue);
    if let Some(other) = beside {
        match contexts.any_slot(other) {
            Some(shared) if shared == queue => {
                let own = u64::from(weight_of(view, client));
                let others = u64::from(queues.at(queue).processes().max(2) - 1);
                let other = u64::from(weight_of(view, other));
                whole = whole.times(own + others * other, own);
            }
            Some(other) if whole == ONE => whole = one_by_share_beside(schedule, queue, other),
            _ => {}
        }
    }
    whole.without_one().of(cost)
}

/// One divided by the share of `queue` of the device.
fn one_by_share(schedule: &Schedule, queue: u32) -> Ratio {
    let mut whole = ONE;
    let mut at = Some(queue);
    while let Some(entity) = at {
        let own = &schedule.entities[entity as usize];
        let weight = u64::from(own.orig_weight.max(1));
        let tree = &schedule.groups[own.group as usize].trees[usize::from(own.class)];
        let counted = if own.standing == Standing::Off { 0 } else { weight };
        let others = tree.plain_sum.saturating_sub(counted);
        whole = whole.times(weight + others, weight);
        at = schedule.parent_of(entity);
    }
    whole
}

/// One divided by the share of `queue` if `other` is the only other queue.
fn one_by_share_beside(schedule: &Schedule, queue: u32, other: u32) -> Ratio {
    let (own, other) = schedule.siblings(queue, other);
    let weight = |entity: u32| u64::from(schedule.entities[entity as usize].orig_weight.max(1));
    ONE.times(weight(own) + weight(other), weight(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::entity::Entity;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Class;

    /// Is the example above right: of 3.4 ms, 3.4 * (9/2 - 1) = 11.9 ms? And is nothing owed if
    /// there is nothing else to serve, but with q2 there the time twice over, as the share is 40 of
    /// 120?
    #[test]
    fn shares_are_multiplied_along_the_way_up() {
        let mut schedule = Schedule::new(3, 3, &LINUX_6_18);
        schedule.add_group(0, None, 100);
        schedule.add_group(1, Some(0), 200);
        schedule.add_group(2, Some(0), 100);
        for (queue, group, weight) in [(0u32, 1, 40), (1, 1, 80), (2, 2, 40)] {
            let entity = Entity::new(group, weight, Class::BestEffort, true);
            schedule.entities[queue as usize] = Entity { budget: 100, ..entity };
        }
        let cost = Nanos::from_micros(3400);
        assert_eq!(one_by_share(&schedule, 0).without_one().of(cost), Nanos::ZERO);
        let beside = one_by_share_beside(&schedule, 0, 1);
        assert_eq!(beside.without_one().of(cost), Nanos::from_micros(6800));
        for queue in 0..3 {
            schedule.activate(queue, false, Nanos::ZERO);
        }
        let due = one_by_share(&schedule, 0).without_one().of(cost);
        assert_eq!(due, Nanos::from_micros(11_900));
    }
}

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

use crate::bfq::Bfq;
use crate::bfq::context::weight_of;
use crate::bfq::entity::Standing;
use paternoster_core::pick::shared::rather_sync;
use paternoster_core::ratio::{ONE, Ratio};
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView};

impl Bfq {
    /// The device time that others are owed for `cost` of `client`'s.
    pub(super) fn due_for(
        &self,
        view: &QueueView,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        let Some(queue) = self.any_queue_of(client) else { return Nanos::ZERO };
        let mut whole = ONE;
        let mut entity = queue;
        loop {
            let own = &self.schedule.entities[entity as usize];
            let weight = u64::from(own.orig_weight.max(1));
            let tree = &self.schedule.groups[own.group as usize].trees[usize::from(own.class)];
            let counted = if own.standing == Standing::Off { 0 } else { weight };
            let others = tree.plain_sum.saturating_sub(counted);
            whole = whole.times(weight + others, weight);
            let Some(above) = self.schedule.parent_of(entity) else { break };
            entity = above;
        }
        if let Some(other) = beside {
            match self.any_queue_of(other) {
                Some(shared) if shared == queue => {
                    let own = u64::from(weight_of(view, client));
                    let others = u64::from(self.queues.at(queue).processes().max(2) - 1);
                    let other = u64::from(weight_of(view, other));
                    whole = whole.times(own + others * other, own);
                }
                Some(other) if whole == ONE => whole = self.beside(queue, other),
                _ => {}
            }
        }
        let cost = cost.min(self.tunables.timeout(view.hz()));
        whole.without_one().of(cost)
    }

    /// One divided by the share of `queue` if `other` is the only other queue.
    fn beside(&self, queue: u32, other: u32) -> Ratio {
        let (own, other) = self.schedule.siblings(queue, other);
        let weight =
            |entity: u32| u64::from(self.schedule.entities[entity as usize].orig_weight.max(1));
        ONE.times(weight(own) + weight(other), weight(own))
    }

    fn any_queue_of(&self, client: ClientId) -> Option<u32> {
        rather_sync(self.contexts[client.index() as usize].slots)
    }
}

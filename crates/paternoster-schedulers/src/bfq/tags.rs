// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags: how many of a queue's requests each kind of I/O, group and queue may have.
//!
//! Requests are allocated before a scheduler sees them. If writes held them all, a reader would
//! wait for one however much it weighs. So async requests may have half of them, sync writes three
//! quarters, far less of both while a queue is raised; and of that, no queue gets more than its
//! share by weight:
//!
//! ```text
//! 256 requests: async 128, sync writes 192; with a raised queue 48 and 96
//! group 100 of 400, queue 40 of 80: 256 * 100/400 * 40/80 = 32 reads
//! ```
//!
//! Differs: before 6.18 the fractions were taken of each word of the tag map, which was wrong for
//! small `nr_requests`. Here, as in 6.18, they are fractions of all requests.
//!
//! Source: BFQ-35, BFQ-36.

use crate::bfq::Bfq;
use paternoster_core::elevator::Admission;
use paternoster_core::{ClientId, Flags, Op, QueueView, is_sync};

/// Deeper groups are not held to their share of tags.
const DEEPEST: usize = 16;

impl Bfq {
    /// How many requests of this kind there may be (BFQ-35).
    pub(super) fn admission(
        &self,
        view: &QueueView,
        client: ClientId,
        op: Op,
        flags: Flags,
    ) -> Admission {
        let sync = is_sync(op, flags);
        let depth = view.nr_requests();
        let part = |parts: u32, of: u32| {
            let most = u64::from(depth) * u64::from(parts) / u64::from(of);
            u32::try_from(most).unwrap_or(depth).max(1)
        };
        let limit = match (sync, self.raised > 0) {
            (true, _) if op == Op::Read => None,
            (true, false) => Some(part(3, 4)),
            (false, false) => Some(part(1, 2)),
            (true, true) => Some(part(6, 16)),
            (false, true) => Some(part(3, 16)),
        };
        let slot = self.contexts[client.index() as usize].slots[usize::from(sync)];
        if self.tunables.tag_shares
            && let Some(queue) = slot
            && self.is_beyond_share(queue, limit.unwrap_or(depth))
        {
            return Admission::AtMost(1);
        }
        limit.map_or(Admission::Normal, Admission::AtMost)
    }

    /// Whether the queue, or a group above it, already has its share of `limit` requests (BFQ-36).
    fn is_beyond_share(&self, queue: u32, limit: u32) -> bool {
        let mut path = [0; DEEPEST];
        let mut depth = 0;
        let mut at = Some(queue);
        while let Some(entity) = at {
            let own = &self.schedule.entities[entity as usize];
            if !own.counts() || depth == DEEPEST {
                return false;
            }
            path[depth] = entity;
            depth += 1;
            at = self.schedule.parent_of(entity);
        }
        let mut limit = u64::from(limit);
        for &entity in path[..depth].iter().rev() {
            let own = &self.schedule.entities[entity as usize];
            let trees = &self.schedule.groups[own.group as usize].trees;
            let sum = if own.is_queue {
                let upto = usize::from(own.class);
                trees[..=upto].iter().fold(0, |sum: u64, tree| sum * 8 + tree.weight_sum)
            } else {
                trees[usize::from(own.class)].weight_sum
            };
            if sum == 0 {
                continue;
            }
            limit = (limit * u64::from(own.weight) + sum / 2) / sum;
            // Differs: a share rounded down to zero would keep out a queue that holds no requests
            // (R3 of `block/admission`), until the first position happens to be free.
            if self.allocated_to(entity) >= limit.max(1) {
                return true;
            }
        }
        false
    }

    /// Requests held by a queue, or by all queues below a group.
    fn allocated_to(&self, entity: u32) -> u64 {
        match self.schedule.group_of_entity(entity) {
            None => u64::from(self.queues.at(entity).allocated),
            Some(group) => u64::from(self.groups[group as usize].allocated),
        }
    }

    /// A request of `queue` begins or ends its life: its groups count it.
    pub(super) fn count_allocated(&mut self, queue: u32, by: i32) {
        let mut group = self.schedule.entities[queue as usize].group;
        loop {
            let count = &mut self.groups[group as usize].allocated;
            *count = count.wrapping_add_signed(by);
            let Some(entity) = self.schedule.groups[group as usize].entity else { break };
            group = self.schedule.entities[entity as usize].group;
        }
    }
}

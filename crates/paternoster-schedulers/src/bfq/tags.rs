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

use crate::bfq::groups::Groups;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use paternoster_core::Op;

/// Deeper groups are not held to their share of tags.
const DEEPEST: usize = 16;

/// How many of `depth` requests may be of this kind; `None`: all (BFQ-35).
#[inline]
pub(super) fn limit(depth: u32, op: Op, sync: bool, is_any_raised: bool) -> Option<u32> {
    let part = |parts: u32, of: u32| {
        let most = u64::from(depth) * u64::from(parts) / u64::from(of);
        u32::try_from(most).unwrap_or(depth).max(1)
    };
    match (sync, is_any_raised) {
        (true, _) if op == Op::Read => None,
        (true, false) => Some(part(3, 4)),
        (false, false) => Some(part(1, 2)),
        (true, true) => Some(part(6, 16)),
        (false, true) => Some(part(3, 16)),
    }
}

/// Whether the queue, or a group above it, already has its share of `limit` requests (BFQ-36).
#[inline]
pub(super) fn is_beyond_share(
    schedule: &Schedule,
    queues: &Queues,
    groups: &Groups,
    queue: u32,
    limit: u32,
) -> bool {
    // Requests held by a queue, or by all queues below a group.
    let allocated_to = |entity: u32| {
        let group = schedule.group_of_entity(entity);
        u64::from(match group {
            None => queues.at(entity).allocated,
            Some(group) => groups.allocated(group),
        })
    };
    let mut path = [0; DEEPEST];
    let mut depth = 0;
    let mut at = Some(queue);
    while let Some(entity) = at {
        let own = &schedule.entities[entity as usize];
        if !own.counts() || depth == DEEPEST {
            return false;
        }
        path[depth] = entity;
        depth += 1;
        at = schedule.parent_of(entity);
    }
    let mut limit = u64::from(limit);
    for &entity in path[..depth].iter().rev() {
        let own = &schedule.entities[entity as usize];
        let trees = &schedule.groups[own.group as usize].trees;
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
        if allocated_to(entity) >= limit.max(1) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Have reads no limit, sync writes three quarters and async writes half, and far less while a
    /// queue is raised; never less than one?
    #[test]
    fn parts_of_the_requests() {
        let of = |depth, raised| {
            [(Op::Read, true), (Op::Write, true), (Op::Write, false)]
                .map(|(op, sync)| limit(depth, op, sync, raised))
        };
        assert_eq!(of(256, false), [None, Some(192), Some(128)]);
        assert_eq!(of(256, true), [None, Some(96), Some(48)]);
        assert_eq!(of(1, true), [None, Some(1), Some(1)]);
    }
}

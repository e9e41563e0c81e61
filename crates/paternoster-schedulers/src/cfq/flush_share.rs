// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flush share: the device time that others are owed for a flush that a queue has caused.
//!
//! A queue whose share of the device is f, and that had it for a time c, must leave it to the
//! others for `c * (1 - f) / f`. Its share is that of its group among those with busy queues, times
//! its level's slice within the group; the other busy queues of its class count as of the middle
//! level:
//!
//! ```text
//! groups 1000 (the queue's) and 500      its group has 2/3
//! level 0, 180 ms; one other is busy     it has 180 / (180 + 100) = 9/14 of its group
//!
//! a flush of 28 ms: the others are to have 28 * (3/2 * 14/9 - 1) = 37.3 ms
//! ```
//!
//! c counts as one slice of the middle level (100 ms) at most. Slices and virtual times stay as
//! they are: the queue comes back later, like a queue that thought for longer.
//!
//! Source: own; CFQ-14, CFQ-70.

use crate::cfq::Cfq;
use crate::cfq::slice::MIDDLE_LEVEL;
use paternoster_core::ratio::{ONE, Ratio};
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView};

impl Cfq {
    /// The device time that others are owed for `cost` of `client`'s.
    pub(super) fn due_for(
        &self,
        view: &QueueView,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        let Some(queue) = self.contexts.any_slot(client) else { return Nanos::ZERO };
        let own = self.queues.at(queue);
        let group = &self.groups[own.group];
        let busy = group.busy_of(own.priority.class);
        let others = busy.saturating_sub(u32::from(own.is_busy));
        let middle = self.tunables.level_slice(view, true, MIDDLE_LEVEL);
        let slice = self.tunables.level_slice(view, true, own.priority.level).0;
        let mut whole = ONE.times(slice + u64::from(others) * middle.0, slice);
        whole = self.groups.one_over_share(own.group, whole);
        if let Some(other) = beside.and_then(|other| self.contexts.any_slot(other))
            && (whole == ONE || other == queue)
        {
            whole = self.only_beside(view, queue, other);
        }
        whole.without_one().of(cost.min(middle))
    }

    /// One divided by the share of `queue` if `other` is the only other queue, or if its client
    /// shares it with one of the same level.
    fn only_beside(&self, view: &QueueView, queue: u32, other: u32) -> Ratio {
        let (own, other) = (self.queues.at(queue), self.queues.at(other));
        let (own, other) = if own.group == other.group {
            let slice = |level: u8| self.tunables.level_slice(view, true, level).0;
            (slice(own.priority.level), slice(other.priority.level))
        } else {
            let weight = |group: u32| u64::from(self.groups[group].new_weight);
            (weight(own.group), weight(other.group))
        };
        ONE.times(own + other, own)
    }
}

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

use crate::cfq::context::Contexts;
use crate::cfq::groups::Groups;
use crate::cfq::queue::Queue;
use crate::cfq::queues::Queues;
use crate::cfq::slice::MIDDLE_LEVEL;
use crate::cfq::tunables::Tunables;
use paternoster_core::ratio::{ONE, Ratio};
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView};

/// The device time that others are owed for `cost` of `client`'s.
pub(super) fn due_for(
    view: &QueueView,
    tunables: &Tunables,
    contexts: &Contexts,
    queues: &Queues,
    groups: &Groups,
    (client, cost): (ClientId, Nanos),
    beside: Option<ClientId>,
) -> Nanos {
    let Some(queue) = contexts.any_slot(client) else { return Nanos::ZERO };
    let own = queues.at(queue);
    let busy = groups[own.group].busy_of(own.priority.class);
    let others = busy.saturating_sub(u32::from(own.is_busy));
    let middle = tunables.level_slice(view, true, MIDDLE_LEVEL);
    let slice = tunables.level_slice(view, true, own.priority.level).0;
    let mut whole = ONE.times(slice + u64::from(others) * middle.0, slice);
    whole = groups.one_over_share(own.group, whole);
    if let Some(other) = beside.and_then(|other| contexts.any_slot(other))
        && (whole == ONE || other == queue)
    {
        whole = only_beside(view, tunables, groups, own, queues.at(other));
    }
    whole.without_one().of(cost.min(middle))
}

/// One divided by the share of `own` if `other` is the only other queue, or if its client shares it
/// with one of the same level.
fn only_beside(
    view: &QueueView,
    tunables: &Tunables,
    groups: &Groups,
    own: &Queue,
    other: &Queue,
) -> Ratio {
    let (own, other) = if own.group == other.group {
        let slice = |level: u8| tunables.level_slice(view, true, level).0;
        (slice(own.priority.level), slice(other.priority.level))
    } else {
        let weight = |group: u32| u64::from(groups[group].new_weight);
        (weight(own.group), weight(other.group))
    };
    ONE.times(own + other, own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Class, Limits, Priority};

    /// Beside one other queue, is the share that of the levels' slices (180 of 180 + 100 ms) in one
    /// group, and that of the weights (1000 of 1500) in two?
    #[test]
    fn shares_beside_one_other() {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let mut groups = Groups::with_capacity(2, false);
        (groups[0].new_weight, groups[1].new_weight) = (1000, 500);
        let queue = |group, level| {
            let priority = Priority { class: Class::BestEffort, level };
            Queue { is_sync: true, priority, group, ..Queue::default() }
        };
        for (other, own, all) in [(queue(0, 4), 180, 280), (queue(1, 4), 1000, 1500)] {
            let tunables = Tunables::default();
            let whole = only_beside(&view, &tunables, &groups, &queue(0, 0), &other);
            assert_eq!(whole, ONE.times(all, own), "{all}");
        }
    }
}

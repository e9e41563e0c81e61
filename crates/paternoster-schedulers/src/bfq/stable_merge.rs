// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stable merge: queues that are created together stay together (stable merging).
//!
//! The threads of one program that start within a moment of each other mostly do one job. A queue
//! for each costs time and gains nothing, so a new queue is merged with the one created last in its
//! group, if both have the same weight:
//!
//! ```text
//! created within 180 ms   flash that queues commands: merged at once
//!                         others: remembered, and merged 600 ms later if idling for the queue
//!                         would not pay (readers that read on are left alone)
//! later than 600 ms       a series of its own
//! ```
//!
//! Such a merge is stable: it is not undone when the shared queue is seeky, and does not prevent
//! weight raising.
//!
//! Source: BFQ-145 to BFQ-147.

use crate::bfq::context::Contexts;
use crate::bfq::groups::Groups;
use crate::bfq::queue::Queue;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use paternoster_core::ClientId;
use paternoster_core::QueueView;
use paternoster_core::time::Nanos;

/// A queue created longer ago than this no longer starts a pair.
const SERIES: Nanos = Nanos::from_millis(600);
/// Queues created within this time belong together.
const TOGETHER: Nanos = Nanos::from_millis(180);
/// Before this not enough is known of a pair.
const PATIENCE: Nanos = Nanos::from_millis(600);

/// `queue` was just made. Returns the queue that it makes a pair with: the one created last in its
/// group, unless it is the first of a series or came too late for a pair (BFQ-145).
pub(super) fn partner(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    groups: &mut Groups,
    queue: u32,
) -> Option<u32> {
    let hz = view.hz();
    let own = &schedule.entities[queue as usize];
    let created = queues.at(queue).created;
    let fits = |last: &u32| {
        let other = &schedule.entities[*last as usize];
        queues.at(*last).created + hz.ceil(SERIES) >= created
            && own.group == other.group
            && own.new_class == other.new_class
            && own.new_weight == other.new_weight
    };
    let Some(last) = groups.last_created(own.group).filter(fits) else {
        groups.set_last_created(own.group, Some(queue));
        return None;
    };
    (queues.at(last).created + hz.ceil(TOGETHER) >= created).then_some(last)
}

/// Whether enough is known of a queue to decide on its remembered partner (BFQ-146).
pub(super) fn is_time_to_decide(view: &QueueView, home: &Queue) -> bool {
    let patience = view.hz().ceil(PATIENCE);
    let is_past = |at: Nanos| view.now() > at + patience;
    home.is_sync && !home.is_new && is_past(home.created) && home.split_at.is_none_or(is_past)
}

/// `client` moves to `target`, for good; so does the process that `target` is of.
pub(super) fn mark(contexts: &mut Contexts, queues: &Queues, client: ClientId, target: u32) {
    contexts.at_mut(client).is_stably_merged = true;
    if let Some(owner) = queues.at(target).owner {
        contexts.at_mut(owner).is_stably_merged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::entity::Entity;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Class;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    /// Is the first of a series remembered, and makes one created up to 180 ms later a pair with
    /// it; one up to 600 ms later none; a later one, or one of another weight, a new series?
    #[test]
    fn bfq_145_series_and_pairs() {
        for (after, weight, pair, series) in [
            (180, 40, Some(0), 0),
            (181, 40, None, 0),
            (600, 40, None, 0),
            (601, 40, None, 1),
            (10, 50, None, 1),
        ] {
            let view = QueueView::alone(DeviceFacts::default(), Limits::default());
            let mut schedule = Schedule::new(2, 1, &LINUX_6_18);
            let mut queues = Queues::with_capacity(2, 0);
            let mut groups = Groups::with_capacity(1);
            let mut made = |ms, weight| {
                let created = Nanos::from_millis(ms);
                let made = queues.add(&mut schedule, Queue { created, ..Queue::default() });
                let queue = made.expect("room for it");
                schedule.entities[queue as usize] = Entity::new(0, weight, Class::BestEffort, true);
                partner(&view, &queues, &schedule, &mut groups, queue)
            };
            assert_eq!((made(1000, 40), made(1000 + after, weight)), (None, pair), "{after}");
            assert_eq!(groups.last_created(0), Some(series), "{after}");
        }
    }

    /// Is it decided 600 ms after a sync queue was made or split, once it has had a request?
    #[test]
    fn bfq_146_when_it_is_decided() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        view.turn_clock(Nanos::from_millis(1601));
        let home = Queue { is_sync: true, created: Nanos::from_millis(1000), ..Queue::default() };
        assert!(is_time_to_decide(&view, &home));
        assert!(!is_time_to_decide(&view, &Queue { is_new: true, ..home.clone() }));
        assert!(!is_time_to_decide(&view, &Queue { is_sync: false, ..home.clone() }));
        let split_at = Some(Nanos::from_millis(1001));
        assert!(!is_time_to_decide(&view, &Queue { split_at, ..home.clone() }));
        view.turn_clock(Nanos::from_millis(1600));
        assert!(!is_time_to_decide(&view, &home));
    }
}

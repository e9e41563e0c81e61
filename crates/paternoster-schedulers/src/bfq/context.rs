// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context: what BFQ keeps of a process, and how its requests find their queue.
//!
//! A process has two slots: the queue of its sync requests, made with its first one, and the async
//! queue that it shares with all processes of its group, class and level. Either may change under
//! the process: by a merge, a split, or a change of priority or group.
//!
//! ```text
//! request ──▶ slot empty?       make a queue (and perhaps merge it), or take the shared one
//!             to be split?      the process leaves the queue, and resumes what it was before
//! ```
//!
//! Differs: Linux has one fallback queue for when memory runs out. Here there is room for one queue
//! per process and one per request. If merges keep so many queues that none is free (departed
//! queues give way first), a process shares an existing one. A client's own weight, which Linux
//! does not have, scales the weight of its level: 100 leaves it unchanged.
//!
//! Source: BFQ-19, BFQ-142, BFQ-182, BFQ-185, BFQ-191, BFQ-192.

use crate::bfq::entity::{Entity, weight_of_level};
use crate::bfq::queue::Queue;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use crate::contexts::{self, Slots};
use paternoster_core::QueueView;
use paternoster_core::pick::shared::effective_priority;
use paternoster_core::{ClientId, Priority};

/// What BFQ keeps of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    /// Its queues: for async requests, for sync ones.
    pub(super) slots: [Option<u32>; 2],
    /// Its requests, waiting and in flight.
    pub(super) requests: u32,
    /// Another process's queue that this one may be merged with later, when more is known of both.
    pub(super) stable_with: Option<u32>,
    /// It shares a queue because both processes' queues were created together.
    pub(super) is_stably_merged: bool,
}

impl Slots for Context {
    #[inline]
    fn slots(&self) -> &[Option<u32>; 2] {
        &self.slots
    }
}

/// The contexts of all processes.
pub(super) type Contexts = contexts::Contexts<Context>;

/// A client's weight compared with others of its group.
pub(super) fn weight_of(view: &QueueView, client: ClientId) -> u32 {
    let level = effective_priority(view, client).level;
    let scaled = weight_of_level(level).saturating_mul(view.client_at(client.index()).weight());
    (scaled / 100).clamp(1, 1000)
}

/// No slot is left: an existing queue for `client`, of the same nature, group and class if
/// possible.
pub(super) fn fallback(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    client: ClientId,
    sync: bool,
) -> u32 {
    let group = view.group_of(client).index();
    let class = effective_priority(view, client).class;
    let fits = |number: u32, queue: &Queue| {
        let stays = queue.merge_into.is_none();
        let same_group = schedule.entities[number as usize].group == group;
        (stays, queue.is_sync == sync, same_group, queue.priority.class == class)
    };
    let kept = queues.iter().filter(|(_, queue)| queue.refs > 0);
    let best = kept.max_by_key(|(key, queue)| fits(key.index(), queue));
    best.map_or(0, |(key, _)| key.index())
}

/// A queue with one process takes over its class and weight, with its next turn (BFQ-185).
pub(super) fn adopt_priority(
    view: &QueueView,
    schedule: &mut Schedule,
    client: ClientId,
    queue: u32,
    home: &mut Queue,
) {
    let (priority, weight) = (effective_priority(view, client), weight_of(view, client));
    home.priority = priority;
    schedule.set_weight(queue, weight);
    schedule.set_class(queue, priority.class);
}

/// A new queue of `client` for the schedule: its own, or one shared by all of its group, class and
/// level.
pub(super) fn entity_for(view: &QueueView, client: ClientId, sync: bool) -> (Priority, Entity) {
    let group = view.group_of(client).index();
    let priority = effective_priority(view, client);
    let weight = if sync { weight_of(view, client) } else { weight_of_level(priority.level) };
    (priority, Entity::new(group, weight, priority.class, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Class, ClientSpec};

    fn one_client(weight: u32) -> (QueueView, ClientId) {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let spec = ClientSpec::new().priority(Class::BestEffort, 4).weight(weight);
        let id = view.add_client(spec);
        (view, id)
    }

    /// Does a client's own weight scale that of its level in its sync queue alone? Level 4: 40, of
    /// which 250 % are 100.
    #[test]
    fn its_own_weight_scales_its_level() {
        let (view, client) = one_client(250);
        let weight = |sync| entity_for(&view, client, sync).1.weight;
        assert_eq!((weight(true), weight(false)), (100, 40));
    }

    /// Is a client without room given a queue of the same nature, and none that moves on?
    #[test]
    fn bfq_191_the_queue_that_fits_best() {
        let (view, client) = one_client(100);
        let mut queues = Queues::with_capacity(3, 0);
        let mut schedule = Schedule::new(3, 1, &LINUX_6_18);
        for (is_sync, merge_into) in [(true, Some(1)), (true, None), (false, None)] {
            let queue = Queue { refs: 1, is_sync, merge_into, ..Queue::default() };
            queues.add(&mut schedule, queue).expect("room for it");
        }
        let found = |sync| fallback(&view, &queues, &schedule, client, sync);
        assert_eq!((found(true), found(false)), (1, 2));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context: what CFQ keeps of a process, and how its requests find their queue.
//!
//! A process has two slots: the queue of its sync requests, made with its first one, and the async
//! queue that it shares with all processes of its class and level. Either may change under the
//! process: by a merge, a split, or a change of priority or group.
//!
//! ```text
//! request ──▶ slot empty?        make a queue, or take the shared one
//!             to be split?       this process leaves the queue, a new one is made
//!             to be merged?      this process moves to the other
//! ```
//!
//! Differs: Linux has a fallback queue for when memory runs out. Here there is room for one queue
//! per process and one per request; if so many queues wait to be merged that none is free, a
//! process shares an existing one. Which process holds a file system's lock is not known here, so
//! 2.6.34's boost of its priority is left out.
//!
//! Source: CFQ-2 to CFQ-4, CFQ-54.

use crate::cfq::queue::Queue;
use crate::cfq::queues::Queues;
use crate::contexts::{self, Slots};
use paternoster_core::observe::think_time::ThinkTime;
use paternoster_core::pick::shared::effective_priority;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, ClientId, GroupId, QueueView};

/// What CFQ keeps of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    /// Its queues: for async requests, for sync ones.
    pub(super) slots: [Option<u32>; 2],
    pub(super) think_time: ThinkTime,
    /// Its sectors that ended in the present slice of a shared queue (seed 001).
    pub(super) sectors: u64,
    /// It should leave the queue that it shares (seed 001).
    pub(super) is_to_part: bool,
}

impl Context {
    pub(super) fn new(now: Nanos) -> Context {
        Context { think_time: ThinkTime::new(now), ..Context::default() }
    }
}

impl Slots for Context {
    #[inline]
    fn slots(&self) -> &[Option<u32>; 2] {
        &self.slots
    }
}

/// The contexts of all processes.
pub(super) type Contexts = contexts::Contexts<Context>;

impl Contexts {
    /// The mean think time of a process, if it is known.
    #[inline]
    pub(super) fn think_time(&self, view: &QueueView, client: Option<ClientId>) -> Option<Nanos> {
        let context = self.get(client?)?;
        context.think_time.mean(view.hz().tick())
    }

    /// The processes that use this sync queue. Scans all contexts, once per slice of a shared
    /// queue, in one mode of an experiment.
    fn sharers(&mut self, queue: u32) -> impl Iterator<Item = &mut Context> {
        self.iter_mut().filter(move |context| context.slots[1] == Some(queue))
    }

    /// Processes that got less than half of an equal share of a queue's slice are to leave it.
    /// Returns whether there are any.
    pub(super) fn part_with_the_slow(&mut self, queue: u32) -> bool {
        let (count, sum) = self
            .sharers(queue)
            .fold((0, 0), |(count, sum), context| (count + 1, sum + context.sectors));
        let mut slow = false;
        for context in self.sharers(queue) {
            context.is_to_part = context.sectors.saturating_mul(2 * count) < sum;
            slow |= context.is_to_part;
        }
        slow
    }

    /// The slice of a shared queue has ended: each process's part of it is counted afresh.
    pub(super) fn forget_shares(&mut self, queue: u32) {
        self.sharers(queue).for_each(|context| context.sectors = 0);
    }
}

/// The queue that a client's sync requests will wait in.
pub(super) fn sync_queue(view: &QueueView, client: ClientId) -> Queue {
    let priority = effective_priority(view, client);
    Queue {
        client: Some(client),
        is_sync: true,
        priority,
        group: view.group_of(client).index(),
        idle_window: priority.class != Class::Idle,
        ..Queue::default()
    }
}

/// The queue for async requests of a client's class and level, in `group`. The device's own
/// reference keeps it.
pub(super) fn shared_queue(view: &QueueView, client: ClientId, group: GroupId) -> Queue {
    let priority = effective_priority(view, client);
    Queue { refs: 1, priority, group: group.index(), ..Queue::default() }
}

/// Without room for another queue: the existing one that fits a client best. Not one that is to be
/// merged, because its end would have to account for another process.
pub(super) fn fallback(view: &QueueView, queues: &Queues, client: ClientId, sync: bool) -> u32 {
    let (group, class) = (view.group_of(client).index(), effective_priority(view, client).class);
    let fits = |queue: &Queue| {
        let stays = queue.merge_into.is_none();
        (stays, queue.is_sync == sync, queue.group == group, queue.priority.class == class)
    };
    let best = queues.iter().max_by_key(|(_, queue)| fits(queue));
    best.map_or(0, |(key, _)| key.index())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{ClientSpec, Flags, Limits};

    /// Is a client without room given a queue of the same nature, and none that moves on?
    #[test]
    fn the_queue_that_fits_best() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let client = view.add_client(ClientSpec::new());
        let mut queues = Queues::new(3, 0, Flags::META);
        for (is_sync, merge_into) in [(true, Some(1)), (true, None), (false, None)] {
            let queue = Queue { is_sync, merge_into, ..Queue::default() };
            queues.put(queue).expect("room for it");
        }
        let found = |sync| fallback(&view, &queues, client, sync);
        assert_eq!((found(true), found(false)), (1, 2));
    }

    /// Three processes on queue 0 with these sectors, a fourth on another: which are to leave?
    fn leave(sectors: [u64; 3]) -> (bool, Vec<bool>) {
        let mut contexts = Contexts::with_capacity(4);
        for (context, sectors) in contexts.iter_mut().zip(sectors) {
            (context.slots[1], context.sectors) = (Some(0), sectors);
        }
        contexts.iter_mut().last().expect("four").slots[1] = Some(1);
        let any = contexts.part_with_the_slow(0);
        let who = contexts.iter().map(|context| context.is_to_part).collect();
        contexts.forget_shares(0);
        assert!(contexts.iter().all(|context| context.sectors == 0));
        (any, who)
    }

    /// Is a process to leave that had less than half of a third? Of 600 sectors a third is 200: 99
    /// are too few, 100 are not.
    #[test]
    fn the_slow_are_those_below_half_a_share() {
        assert_eq!(leave([99, 301, 200]), (true, [true, false, false, false].into()));
        assert_eq!(leave([100, 300, 200]), (false, [false; 4].into()));
    }
}

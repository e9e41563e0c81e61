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

use crate::bfq::Bfq;
use crate::bfq::entity::{Entity, weight_of_level};
use crate::bfq::inject::Limit;
use crate::bfq::pattern::Intensity;
use crate::bfq::queue::Queue;
use crate::bfq::saved_state::SavedState;
use crate::bfq::weight_raising::Raising;
use paternoster_core::observe::seek::SeekHistory;
use paternoster_core::pick::shared::{SHARED, effective_priority, place_of};
use paternoster_core::{ClientId, Priority, QueueView};

/// What BFQ keeps of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    /// Its queues: for async requests, for sync ones.
    pub(super) slots: [Option<u32>; 2],
    /// Its requests, waiting and in flight.
    pub(super) requests: u32,
    /// What its queue was like before it was merged.
    pub(super) saved: Option<SavedState>,
    /// Another process's queue that this one may be merged with later, when more is known of both.
    pub(super) stable_with: Option<u32>,
    /// It shares a queue because both processes' queues were created together.
    pub(super) is_stably_merged: bool,
}

/// A client's weight compared with others of its group.
pub(super) fn weight_of(view: &QueueView, client: ClientId) -> u32 {
    let level = effective_priority(view, client).level;
    let scaled = weight_of_level(level).saturating_mul(view.client_at(client.index()).weight());
    (scaled / 100).clamp(1, 1000)
}

impl Bfq {
    /// The queue that a request of `client` belongs to.
    pub(super) fn queue_for(&mut self, view: &mut QueueView, client: ClientId, sync: bool) -> u32 {
        let slot = self.contexts[client.index() as usize].slots[usize::from(sync)];
        let Some(queue) = slot else { return self.take_queue(view, client, sync) };
        let stays = self.contexts[client.index() as usize].is_stably_merged;
        let home = self.queues.at_mut(queue);
        if home.is_sync && home.is_shared && home.is_to_split && !stays {
            return self.split(view, client, queue);
        }
        if home.is_sync && home.merge_into.is_none() && home.processes() == 1 {
            home.owner = Some(client);
        }
        queue
    }

    /// Fills an empty slot.
    fn take_queue(&mut self, view: &mut QueueView, client: ClientId, sync: bool) -> u32 {
        let made =
            if sync { self.new_sync_queue(view, client) } else { self.shared_queue(view, client) };
        let queue = made.unwrap_or_else(|| self.any_queue(view, client, sync));
        self.queues.at_mut(queue).refs += 1;
        self.contexts[client.index() as usize].slots[usize::from(sync)] = Some(queue);
        if sync && made.is_some() { self.stable_merge(view, client, queue) } else { queue }
    }

    /// No slot is left: an existing queue, of the same nature, group and class if possible.
    fn any_queue(&self, view: &QueueView, client: ClientId, sync: bool) -> u32 {
        let group = view.group_of(client).index();
        let class = effective_priority(view, client).class;
        let fits = |number: u32, queue: &Queue| {
            let stays = queue.merge_into.is_none();
            let same_group = self.schedule.entities[number as usize].group == group;
            (stays, queue.is_sync == sync, same_group, queue.priority.class == class)
        };
        let kept = self.queues.iter().filter(|(_, queue)| queue.refs > 0);
        let best = kept.max_by_key(|(key, queue)| fits(key.index(), queue));
        best.map_or(0, |(key, _)| key.index())
    }

    /// A queue for a process that has none, or that leaves the one it shared.
    pub(super) fn new_sync_queue(&mut self, view: &QueueView, client: ClientId) -> Option<u32> {
        let priority = effective_priority(view, client);
        let queue = self.blank_queue(view, priority);
        let queue = self.new_queue(Queue {
            owner: Some(client),
            made_for: Some(client),
            is_sync: true,
            is_io_bound: true,
            thinks_short: true,
            ..queue
        })?;
        let (group, weight) = (view.group_of(client).index(), weight_of(view, client));
        self.schedule.entities[queue as usize] = Entity::new(group, weight, priority.class, true);
        Some(queue)
    }

    fn blank_queue(&self, view: &QueueView, priority: Priority) -> Queue {
        let now = view.now();
        Queue {
            priority,
            is_new: true,
            created: now,
            max_budget: self.usual_max_budget() * 2 / 3,
            seek: SeekHistory::marked(),
            intensity: Intensity::new(view.exact_now()),
            raising: Raising::new(now),
            limit: Limit::new(now),
            ..Queue::default()
        }
    }

    /// The async queue of a client's class and level, made on first use.
    fn shared_queue(&mut self, view: &QueueView, client: ClientId) -> Option<u32> {
        let group = view.group_of(client).index();
        let priority = effective_priority(view, client);
        let place = place_of(priority);
        if self.groups[group as usize].shared[place].is_none() {
            // The group's own reference keeps it.
            let blank = self.blank_queue(view, priority);
            let made = self.new_queue(Queue { refs: 1, is_io_bound: true, ..blank });
            if let Some(queue) = made {
                let weight = weight_of_level(priority.level);
                let entity = Entity::new(group, weight, priority.class, true);
                self.schedule.entities[queue as usize] = entity;
            }
            self.groups[group as usize].shared[place] = made;
        }
        self.groups[group as usize].shared[place]
    }

    /// A client's class, level, weight or group changed. The async slot follows at once; the sync
    /// queue with its next turn, or at once if the group changed.
    pub(super) fn client_has_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let [of_async, of_sync] = self.contexts[client.index() as usize].slots;
        if let Some(queue) = of_async {
            self.contexts[client.index() as usize].slots[0] = None;
            self.put_queue(view, queue);
        }
        let Some(queue) = of_sync else { return };
        let group = view.group_of(client).index();
        if self.schedule.entities[queue as usize].group != group {
            self.forget_stable_merge(view, client);
            if self.queues.at(queue).processes() > 1 || self.queues.at(queue).merge_into.is_some() {
                // Nothing of what it shared there counts in the other group.
                let context = &mut self.contexts[client.index() as usize];
                (context.is_stably_merged, context.saved) = (false, None);
                return self.leave_queue(view, client, queue);
            }
            self.move_queue(view, queue, group);
        }
        if self.queues.at(queue).processes() == 1 {
            self.adopt_priority(view, client, queue);
        } else if let Some(saved) = &mut self.contexts[client.index() as usize].saved {
            // A shared queue keeps its weight; the process gets its own when it leaves.
            saved.weight = weight_of(view, client);
        }
    }

    /// A queue with one process takes over its class and weight, with its next turn (BFQ-185).
    pub(super) fn adopt_priority(&mut self, view: &QueueView, client: ClientId, queue: u32) {
        let (priority, weight) = (effective_priority(view, client), weight_of(view, client));
        self.queues.at_mut(queue).priority = priority;
        self.schedule.set_weight(queue, weight);
        self.schedule.set_class(queue, priority.class);
    }

    /// A client ends (BFQ-192).
    pub(super) fn client_goes(&mut self, view: &mut QueueView, client: ClientId) {
        self.forget_stable_merge(view, client);
        let [of_async, of_sync] = self.contexts[client.index() as usize].slots;
        if let Some(queue) = of_async {
            self.put_queue(view, queue);
        }
        if let Some(queue) = of_sync {
            if self.in_service == Some(queue) {
                self.end_turn(view, queue);
            }
            self.leave_queue(view, client, queue);
        }
        self.contexts[client.index() as usize] = Context::default();
    }

    /// A process leaves its sync queue, and the queues that it was to move to.
    pub(super) fn leave_queue(&mut self, view: &mut QueueView, client: ClientId, queue: u32) {
        self.contexts[client.index() as usize].slots[1] = None;
        let mut next = self.queues.at(queue).merge_into;
        while let Some(target) = next {
            next = self.queues.at(target).merge_into;
            self.release_process(view, target);
        }
        let home = self.queues.at_mut(queue);
        home.owner = home.owner.filter(|&owner| owner != client);
        self.release_process(view, queue);
    }

    /// `queue` has one process fewer. If it was kept busy though empty, for processes that might
    /// come back, it is dropped once none can (BFQ-192).
    pub(super) fn release_process(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at(queue);
        let kept = home.is_busy && home.is_empty() && self.in_service != Some(queue);
        if kept && home.is_sync && home.processes() == 1 {
            self.leave_busy(view, queue, false);
        }
        self.put_queue(view, queue);
    }

    /// Gives up the shared queues of a group that is removed.
    pub(super) fn give_up_shared(&mut self, view: &mut QueueView, group: u32) {
        for place in 0..SHARED {
            if let Some(queue) = self.groups[group as usize].shared[place].take() {
                self.put_queue(view, queue);
            }
        }
    }
}

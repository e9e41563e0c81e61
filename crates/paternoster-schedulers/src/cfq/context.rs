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
//! per process and one per request; if so many wait to be merged that none is free, a process
//! shares an existing one. Which process holds a file system's lock is not known here, so 2.6.34's
//! boost of its priority is left out.
//!
//! Source: CFQ-2 to CFQ-4, CFQ-54.

use crate::cfq::Cfq;
use crate::cfq::queue::Queue;
use paternoster_core::observe::think_time::ThinkTime;
use paternoster_core::pick::shared::{SHARED, effective_priority, place_of};
use paternoster_core::time::Nanos;
use paternoster_core::{Class, ClientId, QueueView};

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

impl Cfq {
    /// The queue that a request of `client` belongs to.
    pub(super) fn queue_for(&mut self, view: &mut QueueView, client: ClientId, sync: bool) -> u32 {
        let slot = self.contexts[client.index() as usize].slots[usize::from(sync)];
        let slot = slot.and_then(|queue| self.stay_or_split(view, client, queue));
        match slot {
            None => self.take_queue(view, client, sync),
            Some(queue) if self.queues.at(queue).merge_into.is_some() => {
                self.move_on(view, client, queue)
            }
            Some(queue) => queue,
        }
    }

    fn take_queue(&mut self, view: &QueueView, client: ClientId, sync: bool) -> u32 {
        let made =
            if sync { self.new_sync_queue(view, client) } else { self.shared_queue(view, client) };
        let queue = made.unwrap_or_else(|| self.borrowed_queue(view, client, sync));
        self.queues.at_mut(queue).refs += 1;
        self.contexts[client.index() as usize].slots[usize::from(sync)] = Some(queue);
        queue
    }

    /// Without room for another queue: the existing one that fits a client best. Not one that is to
    /// be merged, because its end would have to account for another process.
    fn borrowed_queue(&self, view: &QueueView, client: ClientId, sync: bool) -> u32 {
        let (group, class) =
            (view.group_of(client).index(), effective_priority(view, client).class);
        let fits = |queue: &Queue| {
            let stays = queue.merge_into.is_none();
            (stays, queue.is_sync == sync, queue.group == group, queue.priority.class == class)
        };
        let best = self.queues.iter().max_by_key(|(_, queue)| fits(queue));
        best.map_or(0, |(key, _)| key.index())
    }

    fn new_sync_queue(&mut self, view: &QueueView, client: ClientId) -> Option<u32> {
        let priority = effective_priority(view, client);
        self.new_queue(Queue {
            client: Some(client),
            is_sync: true,
            priority,
            group: view.group_of(client).index(),
            idle_window: priority.class != Class::Idle,
            ..Queue::default()
        })
    }

    /// The async queue of a client's class and level, made on first use (CFQ-3).
    fn shared_queue(&mut self, view: &QueueView, client: ClientId) -> Option<u32> {
        let group = if self.version.nests_groups { view.group_of(client) } else { view.root() };
        let group = group.index();
        let priority = effective_priority(view, client);
        let place = place_of(priority);
        let table = if self.version.nests_groups { group as usize } else { 0 };
        if self.shared[table][place].is_none() {
            // The device's own reference keeps it.
            let queue = Queue { refs: 1, priority, group, ..Queue::default() };
            self.shared[table][place] = self.new_queue(queue);
        }
        self.shared[table][place]
    }

    /// A queue takes over its process's class and level, if they have changed.
    pub(super) fn refresh_priority(&mut self, view: &QueueView, queue: u32, client: ClientId) {
        let home = self.queues.at_mut(queue);
        if !core::mem::replace(&mut home.priority_changed, false) {
            return;
        }
        home.priority = effective_priority(view, client);
        if home.is_idle_class() {
            home.idle_window = false;
        }
    }

    /// A client's class, level or group changed. Its sync queue follows with the next request; in
    /// another group it gets a new one. The async slot follows at once.
    pub(super) fn client_has_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let [of_async, of_sync] = self.contexts[client.index() as usize].slots;
        if let Some(queue) = of_async {
            self.take_queue(view, client, false);
            self.put_queue(view, queue);
        }
        let Some(queue) = of_sync else { return };
        let home = self.queues.at_mut(queue);
        home.priority_changed = true;
        if home.own_group.unwrap_or(home.group) != view.group_of(client).index() {
            self.leave_queue(view, client, queue);
        }
    }

    /// A client ends.
    pub(super) fn client_goes(&mut self, view: &mut QueueView, client: ClientId) {
        let [of_async, of_sync] = self.contexts[client.index() as usize].slots;
        if self.active_client == Some(client) {
            self.active_client = None;
        }
        if let Some(queue) = of_async {
            self.put_queue(view, queue);
        }
        if let Some(queue) = of_sync {
            if self.active == Some(queue) {
                self.expire(view, false);
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
            self.put_queue(view, target);
        }
        self.put_queue(view, queue);
    }

    /// Gives up the shared queues of a group that is removed.
    pub(super) fn give_up_shared(&mut self, view: &mut QueueView, group: u32) {
        if !self.version.nests_groups {
            return;
        }
        for place in 0..SHARED {
            if let Some(queue) = self.shared[group as usize][place].take() {
                self.put_queue(view, queue);
            }
        }
    }
}

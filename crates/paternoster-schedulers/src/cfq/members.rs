// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members: processes and groups come, change and go, and their queues are merged and split.
//!
//! ```text
//! process ── slot ──▶ queue ── merge ──▶ shared queue ── split ──▶ a queue of its own again
//!              │                             │
//!              └ left when the process       └ given up when the last one has left it
//!                ends, or changes its group
//! ```
//!
//! This is wiring: which queue a process gets, and which queues may be merged, is asked of the
//! parts (`context`, `shared`, `cooperate`), and what follows is done here.
//!
//! # Invariants
//! I1  A process's slot and the queue's reference for it come and go together.
//! I2  A queue without a reference left is gone from all parts that name queues.
//!
//! Source: CFQ-2 to CFQ-4, CFQ-41 to CFQ-45, CFQ-54.

use crate::cfq::Cfq;
use crate::cfq::context::{self, Context};
use paternoster_core::event::Note;
use paternoster_core::pick::shared::{SHARED, effective_priority};
use paternoster_core::{ClientId, QueueView};

impl Cfq {
    /// The queue that a request of `client` belongs to.
    pub(super) fn queue_for(&mut self, view: &mut QueueView, client: ClientId, sync: bool) -> u32 {
        let slot = self.contexts.slot(client, sync);
        let slot = slot.and_then(|queue| self.stay_or_split(view, client, queue));
        match slot {
            None => self.take_queue(view, client, sync),
            Some(queue) if self.queues.at(queue).merge_into.is_some() => {
                self.move_on(view, client, queue)
            }
            Some(queue) => queue,
        }
    }

    /// Fills an empty slot.
    fn take_queue(&mut self, view: &QueueView, client: ClientId, sync: bool) -> u32 {
        let made = if sync {
            self.queues.put(context::sync_queue(view, client))
        } else {
            self.shared_queue(view, client)
        };
        let queue = made.unwrap_or_else(|| context::fallback(view, &self.queues, client, sync));
        self.queues.at_mut(queue).refs += 1;
        self.contexts.at_mut(client).slots[usize::from(sync)] = Some(queue);
        queue
    }

    /// The async queue of a client's class and level, made on first use (CFQ-3).
    fn shared_queue(&mut self, view: &QueueView, client: ClientId) -> Option<u32> {
        let group = self.shared.group_of(view, client);
        let slot = self.shared.slot(group, effective_priority(view, client));
        if slot.is_none() {
            *slot = self.queues.put(context::shared_queue(view, client, group));
        }
        *slot
    }

    /// A process moves to the queue that its own is to be merged into.
    fn move_on(&mut self, view: &mut QueueView, client: ClientId, queue: u32) -> u32 {
        let Some(target) = self.queues.at(queue).merge_into else { return queue };
        self.contexts.at_mut(client).slots[1] = Some(target);
        self.queues.at_mut(target).is_shared = true;
        self.put_queue(view, queue);
        target
    }

    /// The queue that a process uses, unless it is to leave it.
    fn stay_or_split(&mut self, view: &mut QueueView, client: ClientId, queue: u32) -> Option<u32> {
        let parts = core::mem::replace(&mut self.contexts.at_mut(client).is_to_part, false);
        let home = self.queues.at_mut(queue);
        if !home.is_sync || !home.is_shared || !(home.is_to_split || parts) {
            return Some(queue);
        }
        if home.processes() == 1 {
            home.is_shared = false;
            home.is_to_split = false;
            home.client = Some(client);
            return Some(queue);
        }
        if let Some(from) = home.client {
            view.note(Note::QueuesParted { client, from });
        }
        self.leave_queue(view, client, queue);
        None
    }

    /// A client's class, level or group changed. Its sync queue follows with the next request; in
    /// another group it gets a new one. The async slot follows at once.
    pub(super) fn client_has_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let [of_async, of_sync] = self.contexts.at(client).slots;
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
        let [of_async, of_sync] = self.contexts.at(client).slots;
        self.service.forget(client);
        if let Some(queue) = of_async {
            self.put_queue(view, queue);
        }
        if let Some(queue) = of_sync {
            if self.service.is(queue) {
                self.expire(view, false);
            }
            self.leave_queue(view, client, queue);
        }
        *self.contexts.at_mut(client) = Context::default();
    }

    /// A process leaves its sync queue, and the queues that it was to move to.
    fn leave_queue(&mut self, view: &mut QueueView, client: ClientId, queue: u32) {
        self.contexts.at_mut(client).slots[1] = None;
        let mut next = self.queues.at(queue).merge_into;
        while let Some(target) = next {
            next = self.queues.at(target).merge_into;
            self.put_queue(view, target);
        }
        self.put_queue(view, queue);
    }

    /// Gives up the shared queues of a group that is removed.
    pub(super) fn give_up_shared(&mut self, view: &mut QueueView, group: u32) {
        for place in 0..SHARED {
            if let Some(queue) = self.shared.give_up(group, place) {
                self.put_queue(view, queue);
            }
        }
    }

    /// A group is removed: what is left in it, requests of clients that moved, goes to the root.
    pub(super) fn dissolve_group(&mut self, view: &mut QueueView, group: u32) {
        if self.service.queue().is_some_and(|active| self.queues.at(active).group == group) {
            self.expire(view, false);
        }
        let charging = self.charging(view);
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) {
                let own = (queue, self.queues.at_mut(queue));
                self.schedule.leave_group(view, &self.tunables, charging, group, own);
            }
        }
        self.workload.forget_group(group);
        self.schedule.groups.forget(group);
    }

    /// Drops a reference to `queue`.
    pub(super) fn put_queue(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.refs -= 1;
        if home.refs > 0 {
            return;
        }
        debug_assert!(home.is_empty() && home.dispatched == 0, "cfq: {home:?} is given up");
        if self.service.is(queue) {
            self.expire(view, false);
        }
        let home = self.queues.at_mut(queue);
        if home.is_busy {
            self.schedule.leave_busy(queue, home);
        }
        self.cooperation.remove(queue);
        self.queues.free(queue);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission of a queue: a bio gets its request here, and gives it back.
//!
//! ```text
//! bio ─▶ elevator: may it? ─▶ allocator: a pool, a position ─▶ request ─▶ ... ─▶ free
//!                                   └ none: its client sleeps             wakes ◀─┘
//! ```
//!
//! For the laws (R1 to R5), invariants and source see `block/admission`.

use crate::answer::SubmitError;
use crate::bio::Bio;
use crate::block::admission::{
    Allocator, Context, leave_one, nr_requests_bounds, nr_requests_least,
};
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::Rules;
use crate::event::{Action, Observer};
use crate::positions::NOWHERE;
use crate::queue::RequestQueue;
use crate::request::RequestId;

impl<O: Observer> RequestQueue<O> {
    /// The allocator, and what it needs of the other parts.
    #[inline(always)]
    pub(crate) fn admission(&mut self) -> (&mut Allocator, Context<'_>) {
        let context = Context {
            view: &mut self.common.view,
            rules: self.common.rules,
            elevator: &self.common.elevator,
            throttle: &self.throttle,
            has_bios: !self.common.bios.slots.is_full(),
        };
        (&mut self.allocator, context)
    }

    /// A request that carries `bio`, which is in slot `index`, and that waits nowhere yet; or the
    /// pool to sleep in.
    pub(crate) fn allocate(&mut self, index: u32, bio: &Bio) -> Result<RequestId, u8> {
        let client = bio.client;
        let admission =
            self.common.elevator.admit(&mut self.common.view, client, bio.op, bio.flags);
        let (pool, position) = match self.common.rules {
            Rules::Legacy => {
                (self.allocator.admit_by_pools(&mut self.common.view, bio, admission)?, NOWHERE)
            }
            Rules::Mq => {
                let admission =
                    leave_one(&self.throttle, &self.common.view, client, bio.op, admission);
                let in_turn = self.common.elevator.traits().admits_in_turn;
                let admitted =
                    self.allocator.admit_by_tags(&self.common.view, in_turn, client, admission);
                admitted
                    .inspect_err(|_| Allocator::refuse(&mut self.common.view, client, admission))?
            }
        };
        let Some((key, request)) = self.common.view.requests.0.take() else { return Err(pool) };
        self.allocator.positions.take(position);
        request.position = position;
        let owner = self.common.view.clients.0.at_mut(client.index());
        let priority = bio.priority.unwrap_or(owner.priority);
        request.fill(bio, priority, self.common.view.exact);
        (request.bios_first, request.bios_last) = (index, index);
        request.epoch = self.common.elevator.epoch();
        request.pool = pool;
        owner.requests += 1;
        let woken = owner.sleep != [Sleep::Awake; POOLS];
        self.allocator.give(pool);
        self.common.bios.slots.at_mut(index).request = key.index();
        if woken {
            self.use_wakes(client, pool);
        }
        self.common.emit_bio(Action::Get, bio);
        Ok(RequestId(key.index()))
    }

    /// The client sleeps in `pool` until a wake; what it had plugged is submitted first, since
    /// others may wait for that.
    #[cold]
    pub(crate) fn fall_asleep(&mut self, bio: &Bio, pool: u8) -> SubmitError {
        let rules = self.common.rules;
        let unused = self.allocator.fall_asleep(&mut self.common.view, rules, bio, pool);
        self.common.emit_bio(Action::Sleep, bio);
        // Only now that it is on the list: a request that becomes free in the process may be what
        // it waits for.
        self.flush_plug(bio.client);
        self.plugs.unplug_device(&mut self.common, Action::Unplug);
        let (allocator, mut around) = self.admission();
        if unused {
            allocator.pass_on(&mut around, bio.client, pool);
        }
        allocator.wake_if_nobody_will(&mut around);
        SubmitError::Busy
    }

    /// Ends a request that was bound to this elevator or an earlier one.
    pub(crate) fn free(&mut self, id: RequestId) {
        if self.common.elevator.has_bound(&self.common.view.requests[id]) {
            self.common.elevator.released(&mut self.common.view, id);
        }
        self.free_unbound(id);
    }

    /// Ends a request; the elevator knows.
    #[inline(always)]
    pub(crate) fn free_unbound(&mut self, id: RequestId) {
        let request = &self.common.view.requests[id];
        let (pool, client, position) = (request.pool, request.client, request.position);
        self.common.view.requests.0.free(id.0);
        let freed = self.allocator.take_back(pool, position, self.common.rules, &self.common.view);
        if !freed {
            // The flush command has no client.
            return;
        }
        let owner = self.common.view.clients.0.at_mut(client.index());
        owner.requests -= 1;
        let gone = owner.is_gone();
        if !self.allocator.nobody_sleeps() {
            self.wake_for(pool);
        }
        if gone {
            // The client had left; this request was made for a bio of its own that was withdrawn.
            self.remove_client(client);
        }
    }

    /// A bio has been handed back to its client.
    pub(crate) fn forget_bio_of(&mut self, id: ClientId) {
        let client = self.common.view.clients.0.at_mut(id.index());
        client.bios -= 1;
        let gone = client.is_gone();
        if self.allocator.awaits_slot() {
            self.slot_freed();
        }
        if gone {
            self.remove_client(id);
        }
    }

    #[inline(never)]
    fn use_wakes(&mut self, client: ClientId, pool: u8) {
        let (allocator, mut around) = self.admission();
        allocator.use_wakes(&mut around, client, pool);
    }

    #[inline(never)]
    fn wake_for(&mut self, pool: u8) {
        let (allocator, mut around) = self.admission();
        allocator.wake_for(&mut around, pool);
    }

    #[inline(never)]
    fn slot_freed(&mut self) {
        let is_last = self.common.bios.slots.is_empty();
        let (allocator, mut around) = self.admission();
        allocator.slot_freed(&mut around, is_last);
    }

    /// `client` does not use its wake: another client may.
    #[inline(never)]
    pub(crate) fn pass_on_wakes(&mut self, client: ClientId) {
        let (allocator, mut around) = self.admission();
        allocator.pass_on_wakes(&mut around, client);
    }

    /// Wakes all sleepers: limits or rules have changed.
    pub(crate) fn wake_all(&mut self) {
        let (allocator, mut around) = self.admission();
        allocator.wake_all(&mut around);
    }

    /// `nr_requests` after a change of rules: the default, or what was set as far as it can be.
    pub(crate) fn reset_nr_requests(&mut self) {
        let (default, most) = self.nr_requests_bounds();
        self.common.view.nr_requests = if self.policy.requests_fixed {
            self.common.view.nr_requests.max(nr_requests_least(self.common.rules)).min(most)
        } else {
            default
        };
    }

    /// The default of `nr_requests` under these rules, and the most it can be.
    pub(crate) fn nr_requests_bounds(&self) -> (u32, u32) {
        let passes_through = self.common.elevator.traits().passes_through;
        let depth = self.common.view.facts.depth;
        nr_requests_bounds(self.common.rules, &self.common.view.limits, depth, passes_through)
    }

    /// Whether a pool is congested, sync or async: a submitter that may wait should (BLK-7).
    #[must_use]
    pub fn is_congested(&self, sync: bool) -> bool {
        self.common.rules == Rules::Legacy && self.allocator.is_congested(sync)
    }

    /// Requests allocated: async (or limited) and sync (or others).
    #[must_use]
    pub const fn allocated(&self) -> (u32, u32) {
        let [limited, others] = self.allocator.pools;
        (limited.allocated, others.allocated)
    }
}

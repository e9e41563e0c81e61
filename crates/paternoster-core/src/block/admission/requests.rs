// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: a bio gets its request here, and gives it back.
//!
//! ```text
//! bio ─▶ elevator: may it? ─▶ a pool, a position ─▶ request ─▶ ... ─▶ free
//!                                └ none: its client sleeps         wakes ◀─┘
//! ```
//!
//! A client that has left is removed with the last of its bios and requests: what ends one of them
//! returns a client that has gone.

use super::{Allocator, Context, leave_one, nr_requests_bounds, nr_requests_least};
use crate::bio::Bio;
use crate::block::common::Common;
use crate::block::throttle::Throttle;
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::Rules;
use crate::event::{Action, Observer};
use crate::positions::NOWHERE;
use crate::request::RequestId;

impl Allocator {
    /// A request that carries `bio`, which is in slot `index`, and that waits nowhere yet; or the
    /// pool to sleep in.
    #[inline]
    pub(crate) fn allocate<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        throttle: &Throttle,
        index: u32,
        bio: &Bio,
    ) -> Result<RequestId, u8> {
        let client = bio.client;
        let Common { view, elevator, rules, .. } = common;
        let admission = elevator.admit(view, client, bio.op, bio.flags);
        let (pool, position) = match rules {
            Rules::Legacy => (self.admit_by_pools(view, bio, admission)?, NOWHERE),
            Rules::Mq => {
                let admission = leave_one(throttle, view, client, bio.op, admission);
                let in_turn = elevator.traits().admits_in_turn;
                let admitted = self.admit_by_tags(view, in_turn, client, admission);
                admitted.inspect_err(|_| Allocator::refuse(view, elevator, client, admission))?
            }
        };
        let Some((key, request)) = view.requests.0.take() else { return Err(pool) };
        self.positions.take(position);
        request.position = position;
        let owner = view.clients.0.at_mut(client.index());
        let priority = bio.priority.unwrap_or(owner.priority);
        request.fill(bio, priority, view.exact);
        (request.bios_first, request.bios_last) = (index, index);
        request.epoch = elevator.epoch();
        request.pool = pool;
        owner.requests += 1;
        let woken = owner.sleep != [Sleep::Awake; POOLS];
        self.give(pool);
        common.bios.slots.at_mut(index).request = key.index();
        if woken {
            self.wakes_used(common, throttle, client, pool);
        }
        common.emit_bio(Action::Get, bio);
        Ok(RequestId(key.index()))
    }

    /// Ends a request; the elevator knows. Returns its client if that has gone: this request was
    /// made for a bio of its own that was withdrawn.
    #[inline(always)]
    pub(crate) fn free<O>(
        &mut self,
        common: &mut Common<O>,
        throttle: &Throttle,
        id: RequestId,
    ) -> Option<ClientId> {
        let view = &mut common.view;
        let request = &view.requests[id];
        let (pool, client, position) = (request.pool, request.client, request.position);
        view.requests.0.free(id.0);
        if !self.take_back(pool, position, common.rules, view) {
            // The flush command has no client.
            return None;
        }
        let owner = view.clients.0.at_mut(client.index());
        owner.requests -= 1;
        let gone = owner.is_gone();
        if !self.nobody_sleeps() {
            self.freed(common, throttle, pool);
        }
        gone.then_some(client)
    }

    /// A bio has been handed back to its client. Returns the client if it has gone.
    #[inline(always)]
    pub(crate) fn forget_bio<O>(
        &mut self,
        common: &mut Common<O>,
        throttle: &Throttle,
        id: ClientId,
    ) -> Option<ClientId> {
        let client = common.view.clients.0.at_mut(id.index());
        client.bios -= 1;
        let gone = client.is_gone();
        if self.awaits_slot() {
            self.bio_freed(common, throttle);
        }
        gone.then_some(id)
    }

    /// A client that has gone is forgotten.
    #[inline(never)]
    pub(crate) fn remove_client<O>(
        &mut self,
        common: &mut Common<O>,
        throttle: &Throttle,
        id: ClientId,
    ) {
        self.stop_sleeping(&mut Context::of(common, throttle), id);
        let Common { view, elevator, .. } = common;
        elevator.tell(|it| it.client_detached(view, id));
        let client = view.clients.0.release(id.index());
        if let Some(group) = client.group {
            view.groups.0.at_mut(group.index()).members -= 1;
        }
    }

    /// `client` does not use its wake: another client may.
    #[inline(never)]
    pub(crate) fn wakes_unused<O>(
        &mut self,
        common: &mut Common<O>,
        throttle: &Throttle,
        client: ClientId,
    ) {
        self.pass_on_wakes(&mut Context::of(common, throttle), client);
    }

    #[inline(never)]
    fn wakes_used<O>(
        &mut self,
        common: &mut Common<O>,
        throttle: &Throttle,
        client: ClientId,
        pool: u8,
    ) {
        self.use_wakes(&mut Context::of(common, throttle), client, pool);
    }

    #[inline(never)]
    fn freed<O>(&mut self, common: &mut Common<O>, throttle: &Throttle, pool: u8) {
        self.wake_for(&mut Context::of(common, throttle), pool);
    }

    /// Clients that were refused until now are asked again.
    pub(crate) fn ask_again<O>(&mut self, common: &mut Common<O>, throttle: &Throttle) {
        self.wake_where_there_is_room(&mut Context::of(common, throttle), None);
    }

    #[inline(never)]
    fn bio_freed<O>(&mut self, common: &mut Common<O>, throttle: &Throttle) {
        let is_last = common.bios.slots.is_empty();
        self.slot_freed(&mut Context::of(common, throttle), is_last);
    }
}

impl<'a> Context<'a> {
    /// What the allocator needs of the other parts.
    #[inline(always)]
    pub(crate) fn of<O>(common: &'a mut Common<O>, throttle: &'a Throttle) -> Context<'a> {
        Context {
            view: &mut common.view,
            rules: common.rules,
            elevator: &common.elevator,
            throttle,
            has_bios: !common.bios.slots.is_full(),
        }
    }
}

/// The default of `nr_requests` under the present rules, and the most it can be.
pub(crate) fn bounds<O>(common: &Common<O>) -> (u32, u32) {
    let passes_through = common.elevator.traits().passes_through;
    let (limits, depth) = (&common.view.limits, common.view.facts.depth);
    nr_requests_bounds(common.rules, limits, depth, passes_through)
}

/// Resets `nr_requests` after a change of rules: to the default, or, if it was `fixed`, to what was
/// set, as far as it can be.
pub(crate) fn reset_nr_requests<O>(common: &mut Common<O>, fixed: bool) {
    let (default, most) = bounds(common);
    let least = nr_requests_least(common.rules);
    let set = common.view.nr_requests.max(least).min(most);
    common.view.nr_requests = if fixed { set } else { default };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::common::tests::{client, common};
    use crate::op::Op;

    /// Is a client that finds no tag woken by the request that becomes free, and does one that has
    /// left go with its last bio, and not before?
    #[test]
    fn a_freed_request_wakes_and_the_last_bio_lets_go() {
        let mut common = common();
        let throttle = Throttle::with_capacity(common.view.limits.clients);
        let mut allocator = Allocator::new(&common.view.limits);
        reset_nr_requests(&mut common, false);
        common.view.nr_requests = 1;
        let client = client(&common);
        let bio = Bio::new(client, Op::Read, 0, 8);
        common.view.clients.0.at_mut(0).bios = 1;
        let index = common.bios.take(&bio).unwrap().index();
        let id = allocator.allocate(&mut common, &throttle, index, &bio).unwrap();
        let second = common.bios.take(&bio).unwrap().index();
        let pool = allocator.allocate(&mut common, &throttle, second, &bio).unwrap_err();
        common.bios.slots.free(second);
        let _unused = allocator.fall_asleep(&mut common.view, common.rules, &bio, pool);
        assert_eq!(allocator.next_wake(&mut common.view), None);
        common.view.clients.0.at_mut(0).leaving = true;
        assert_eq!(allocator.free(&mut common, &throttle, id), None, "its bio is still here");
        assert_eq!(allocator.next_wake(&mut common.view), Some(client));
        assert_eq!(allocator.forget_bio(&mut common, &throttle, client), Some(client));
        allocator.remove_client(&mut common, &throttle, client);
        assert!(common.view.client(client).is_none());
        assert_eq!(allocator.pools.map(|pool| pool.allocated), [0, 0]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flush cost: how the queue charges for flushes. `flush/writers.rs` knows which client has written
//! what, `block/throttle.rs` what each owes; this file connects the two.
//!
//! ```text
//! flush ends ─▶ writers split its time ─▶ throttle charges them
//! insert ─▶ throttle holds its client? ─yes─▶ held ─released─▶ elevator's head, or flush sequence
//!                         └─no─▶ elevator
//! ```

use crate::block::common::Common;
use crate::block::throttle::Served;
use crate::elevator::Position;
use crate::event::Observer;
use crate::op::{Flags, Op};
use crate::queue::RequestQueue;
use crate::request::{RequestId, Stage};
use crate::slab::NIL;
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// Whether flushes are charged, and device time passes for clients that owe.
    pub(crate) const fn owners_pay(&self) -> bool {
        self.flush.policy.owned && self.common.view.facts.write_cache
    }

    /// A command other than a flush has ended: what it wrote may be in the cache.
    #[inline(never)]
    pub(crate) fn note_written(&mut self, id: RequestId, good: bool) {
        let request = &self.common.view.requests[id];
        self.flush.clean.write_ended(request, good);
        let cached = request.op == Op::Write && !request.flags.contains(Flags::FUA);
        if !cached || !self.owners_pay() {
            return;
        }
        let mut index = request.bios_first;
        while index != NIL {
            let slot = self.common.bios.slots.at(index);
            if self.common.view.clients.get(slot.client.0).is_some() {
                self.flush.writers.wrote(self.common.view.exact, slot.client.index(), slot.sectors);
            }
            index = slot.next;
        }
    }

    /// The flush for the clients in `list` has ended and took `served`: its owners are charged, and
    /// the clients that requested it share the rest.
    pub(crate) fn settle_flush(&mut self, list: usize, good: bool, served: Nanos) {
        let pays = self.owners_pay();
        let Common { view, elevator, links, .. } = &mut self.common;
        let (flush, throttle) = (&mut self.flush, &mut self.throttle);
        throttle.allow_ahead(served, flush.policy.ahead);
        let reading = throttle.begin(view, elevator, served, true);
        let mut charge = |client, cost| {
            if pays {
                throttle.account(view, elevator, client, reading, cost);
            }
        };
        let rest = flush.writers.flush_ends(good, served, &mut charge);
        let askers = flush.askers(list);
        let share = Nanos(rest.0 / u64::from(askers.len()).max(1));
        let mut at = askers.first();
        while let Some(index) = at {
            at = links.next(index);
            if pays {
                let client = view.slot(index).client().index();
                throttle.account(view, elevator, client, reading, share);
            }
        }
    }

    /// Whether a request has to wait because of its client's debt; if so it is held.
    #[inline(never)]
    pub(crate) fn throttles(&mut self, id: RequestId) -> bool {
        let client = self.common.view.requests[id].client().index();
        let holds = self.throttle.holds(client);
        if holds {
            self.common.view.requests[id].stage = Stage::Throttled;
            self.throttle.hold(&mut self.common.links, client, id.0);
        }
        holds
    }

    /// A command other than a flush has ended: device time passes.
    pub(crate) fn pass_device_time(&mut self, served: Served) {
        self.throttle.command_ended(&mut self.common.view, &mut self.common.elevator, served);
    }

    /// Releases the clients that owe nothing any more; if there are only clients that owe, also the
    /// one that owes least, and those that owe hardly more.
    #[inline(never)]
    pub(crate) fn release_throttled(&mut self) {
        let alone = self.issued.is_empty() && self.common.elevator.waiting() == 0;
        let now = self.common.view.exact;
        if alone && self.dispatch.is_empty() && self.throttle.opens(&self.common.view) <= now {
            self.throttle.forgive_least();
        }
        while let Some(client) = self.throttle.released() {
            self.release(client);
        }
    }

    /// Releases all requests of a client; ahead of all others, if the elevator supports that.
    fn release(&mut self, client: u32) {
        self.throttle.release(client);
        let first = self.common.elevator.traits().inserts_at_head;
        let position = if first { Position::Head } else { Position::Sorted };
        // Each goes to the head, so the last must go first.
        while let Some(index) = self.throttle.take(&mut self.common.links, client, first) {
            let id = RequestId(index);
            if self.common.view.requests[id].steps.is_sequenced() {
                self.begin_sequence(id);
                continue;
            }
            self.common.view.requests[id].past_throttle = first;
            self.insert_at(id, position);
        }
    }

    /// When the queue must check the throttle again.
    pub(crate) fn throttle_deadline(&self) -> Nanos {
        if self.issued.is_empty() { self.throttle.deadline(&self.common.view) } else { Nanos::MAX }
    }

    /// Forgives all debts, and releases all that waited.
    pub(crate) fn forgive_debts(&mut self) {
        while let Some(client) = self.throttle.first() {
            self.release(client);
        }
        self.throttle.forgive_all();
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intake: how a bio gets to the elevator.
//!
//! ```text
//! submit ─▶ valid? ─▶ a slot ─▶ merged ───────────────────────────▶ finished
//!                       │        └ a request ─▶ plug, or throttle ─▶ elevator
//!                       └ none: Busy, and its client sleeps
//! ```
//!
//! For invariants and source see `queue.rs`.

use super::RequestQueue;
use crate::answer::{Stale, SubmitError};
use crate::bio::{Bio, Ticket};
use crate::block::admission::{Context, POOL_BIOS};
use crate::block::merge::Merged;
use crate::client::ClientId;
use crate::device::Outcome;
use crate::elevator::{Position, Rules};
use crate::event::{Action, Observer};
use crate::op::{Flags, Op};
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::request::steps::{Step, Steps};
use crate::slab::Key;
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// Submits a bio.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] puts its client to sleep until an
    /// [`Output::Wake`](crate::Output::Wake); the others say what is wrong with it.
    pub fn submit(&mut self, now: Nanos, bio: Bio) -> Result<Ticket, SubmitError> {
        self.arrive(now);
        validate(&self.common.view, self.merger.max_sectors, &bio)?;
        self.common.announce(&bio);
        let client = self.common.view.clients.0.at_mut(bio.client.index());
        client.bios += 1;
        client.refused = None;
        let result = self.take_in(&bio);
        if result.is_err() {
            // It belongs to the caller again.
            self.common.view.clients.0.at_mut(bio.client.index()).bios -= 1;
        }
        self.end_call();
        result
    }

    fn take_in(&mut self, bio: &Bio) -> Result<Ticket, SubmitError> {
        let Some(key) = self.common.bios.take(bio) else {
            return Err(self.fall_asleep(bio, POOL_BIOS));
        };
        let taken = if bio.is_flushing() {
            self.take_in_flushing(key, bio)
        } else {
            self.take_in_plain(key, bio)
        };
        taken.map_err(|pool| {
            self.common.bios.slots.free(key.index());
            self.fall_asleep(bio, pool)
        })
    }

    /// A bio that does not concern the flush sequencer: merged, or given a request of its own; or
    /// the pool to sleep in.
    fn take_in_plain(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        if self.merge(key.index(), bio) {
            // The client had been woken for a request that it does not need now.
            self.allocator.wakes_unused(&mut self.common, &self.throttle, bio.client);
            return Ok(Ticket(key));
        }
        let id = self.allocator.allocate(&mut self.common, &self.throttle, key.index(), bio)?;
        self.begin(id, bio);
        Ok(Ticket(key))
    }

    /// Accepts a bio that orders the device's cache.
    #[inline(never)]
    fn take_in_flushing(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        let steps = Steps::of(bio, &self.common.view.facts);
        #[cfg(feature = "planted-bugs")]
        let steps =
            steps.planted(self.common.view.planted.postflushes_early(steps.begins_with_data()));
        if steps.next() == Step::Done {
            self.common.bios.end_one(key.index(), Outcome::OK);
            self.allocator.wakes_unused(&mut self.common, &self.throttle, bio.client);
            return Ok(Ticket(key));
        }
        if steps.is_data_only() {
            return self.take_in_data(key, bio);
        }
        let id = self.allocator.allocate(&mut self.common, &self.throttle, key.index(), bio)?;
        // No elevator knows of it, unless its data go through one.
        self.common.view.requests[id].epoch = u32::MAX;
        self.common.view.requests[id].steps = steps;
        if bio.sectors == 0
            || !(self.throttle.is_used() && self.throttle.stops(&mut self.common, id))
        {
            self.sequence().begin(id);
        }
        Ok(Ticket(key))
    }

    /// A bio whose flags require only its data: the device has no cache, or can write past it.
    fn take_in_data(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        if !self.common.view.facts.write_cache {
            // It stays sync: removing the flags must not make it async.
            let flags = bio.flags.without(Flags::FUA | Flags::PREFLUSH) | Flags::SYNC;
            self.common.bios.slots.at_mut(key.index()).flags = flags;
            return self.take_in_plain(key, &Bio { flags, ..*bio });
        }
        if self.common.rules == Rules::Mq {
            return self.take_in_plain(key, bio);
        }
        let id = self.allocator.allocate(&mut self.common, &self.throttle, key.index(), bio)?;
        self.common.view.requests[id].epoch = u32::MAX;
        self.common.emit_request(Action::Insert, id);
        self.dispatch.push_back(&mut self.common, id);
        Ok(Ticket(key))
    }

    /// Tries to make bio `index` part of a request; whether it succeeded.
    fn merge(&mut self, index: u32, bio: &Bio) -> bool {
        match self.merger.merge(&mut self.common, &self.plugs.tasks, index, bio) {
            Merged::No => return false,
            Merged::Joined => {}
            Merged::Closed(gone) => self.free_unbound(gone),
        }
        true
    }

    /// Binds a new request for `bio`, and puts it into the client's plug or the elevator.
    fn begin(&mut self, id: RequestId, bio: &Bio) {
        self.common.elevator.bind(&mut self.common.view, id);
        if self.common.view.clients.at(bio.client.index()).plugged {
            self.begin_plugged(id, bio.client);
        } else {
            if self.plugs.by_device {
                self.plugs.plug_device(&mut self.common, self.dispatch.len());
            }
            self.insert(id);
            if self.plugs.device.is_plugged() {
                self.plugs.unplug_if_enough(&mut self.common, self.dispatch.len());
            }
        }
    }

    #[inline(never)]
    fn begin_plugged(&mut self, id: RequestId, client: ClientId) {
        let (rules, merges) = (self.common.rules, self.merger.nomerges == 0);
        if self.plugs.tasks.is_full(client, rules, &self.common.view.requests, merges) {
            self.flush_plug(client);
        }
        self.plugs.add(&mut self.common, client, id);
    }

    /// `client` is about to submit several bios: its requests are held back until
    /// [`RequestQueue::unplug`].
    ///
    /// # Errors
    /// [`Stale`] when there is no such client.
    pub fn plug(&mut self, now: Nanos, client: ClientId) -> Result<(), Stale> {
        self.advance(now);
        self.common.view.clients.0.get_mut(client.0).ok_or(Stale)?.plugged = true;
        self.end_call();
        Ok(())
    }

    /// `client` has submitted all its bios: its requests go to the elevator. Opens the device plug
    /// as well.
    ///
    /// # Errors
    /// [`Stale`] when there is no such client.
    pub fn unplug(&mut self, now: Nanos, client: ClientId) -> Result<(), Stale> {
        self.arrive(now);
        self.common.view.clients.0.get_mut(client.0).ok_or(Stale)?.plugged = false;
        self.flush_plug(client);
        self.plugs.unplug_device(&mut self.common, Action::Unplug);
        self.end_call();
        Ok(())
    }

    /// All requests in the client's plug go to the elevator.
    pub(crate) fn flush_plug(&mut self, client: ClientId) {
        let count = self.plugs.tasks.of(client).len();
        if count == 0 {
            return;
        }
        self.common.emit_plug(Action::Unplug, client, count);
        while let Some(id) = self.plugs.tasks.pop(&mut self.common.links, client) {
            if self.common.rules == Rules::Legacy && self.merger.absorb(&mut self.common, id) {
                self.free_unbound(id);
            } else {
                self.insert(id);
            }
        }
    }

    /// Gives a bound request to the elevator, unless its client is throttled.
    #[inline(always)]
    pub(crate) fn insert(&mut self, id: RequestId) {
        if !(self.throttle.is_used() && self.throttle.stops(&mut self.common, id)) {
            self.merger.enqueue(&mut self.common, id, Position::Sorted);
        }
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
        let around = &mut Context::of(&mut self.common, &self.throttle);
        if unused {
            self.allocator.pass_on(around, bio.client, pool);
        } else {
            self.allocator.wake_in_its_turn(around);
        }
        self.allocator.wake_if_nobody_will(around);
        SubmitError::Busy
    }
}

/// Whether the queue takes this bio.
#[inline(always)]
fn validate(view: &QueueView, max_sectors: u32, bio: &Bio) -> Result<(), SubmitError> {
    let facts = &view.facts;
    let client = view.clients.get(bio.client.0).ok_or(SubmitError::NoClient)?;
    if client.leaving {
        return Err(SubmitError::NoClient);
    }
    if (bio.op == Op::Flush) != (bio.sectors == 0) {
        return Err(SubmitError::Size);
    }
    let capacity = facts.capacity;
    let end = bio.sector.checked_add(u64::from(bio.sectors));
    if end.is_none_or(|end| end > capacity) {
        return Err(SubmitError::BeyondEnd { end: end.unwrap_or(u64::MAX), capacity });
    }
    if bio.sectors > max_sectors {
        return Err(SubmitError::TooLarge { size: bio.sectors, most: max_sectors });
    }
    if bio.segments > facts.max_segments {
        let (size, most) = (bio.segments.into(), facts.max_segments.into());
        return Err(SubmitError::TooLarge { size, most });
    }
    Ok(())
}

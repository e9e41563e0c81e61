// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugs: requests are held back for a moment, so that adjacent bios find each other.
//!
//! Two generations of Linux, chosen by the attribute `plug`:
//!
//! * **task** (2.6.39 and later): a client that is about to submit several bios plugs itself; its
//!   requests stay in a private list until it unplugs, sleeps, or the list is full (BLK-6).
//! * **device** (until 2.6.38): an empty queue holds its first requests for everybody until four
//!   wait, 3 ms have passed, somebody unplugs, or a client sleeps (BLK-5). Flash that queues
//!   commands is not plugged.
//!
//! ```text
//! task    plug  b0 b1 b2 … b15  b16        unplug
//!               └──── list ───┘  └ the list is full: the 16 go to the elevator first
//! ```
//!
//! # Invariants
//! I1  A request is in its client's plug exactly while its stage is `Plugged`.
//! I2  A client that sleeps has an empty plug.
//!
//! Source: spec `cfq-flush-block.md` 13.3. Differs: a plug has one queue here, so the limits for
//! several do not apply; the elevator is asked whether it allows a merge in a plug too, as it is
//! for all others.

use crate::answer::Stale;
use crate::client::ClientId;
use crate::elevator::Rules;
use crate::event::{Action, Observer};
use crate::merge::adjoining_side;
use crate::queue::RequestQueue;
use crate::request::{Bio, Flags, Op, RequestId, Stage};
use crate::time::Nanos;

/// A legacy plug list this long is flushed before one more is added (R36, BLK-6).
const LEGACY_PLUG_MAX: u32 = 16;
/// The same under blk-mq.
const MQ_PLUG_MAX: u32 = 32;
/// Under blk-mq a request of this many sectors (128 KiB) ends the plug as well.
const MQ_PLUG_LARGE: u32 = 256;
/// The device plug opens when so many requests wait (BLK-5).
const DEVICE_PLUG_REQUESTS: u32 = 4;
/// The device plug opens after this time (BLK-5).
const DEVICE_PLUG_TIME: Nanos = Nanos::from_millis(3);

/// The plug that holds back everybody's requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DevicePlug {
    /// `Nanos::MAX` while it is open.
    until: Nanos,
}

impl DevicePlug {
    pub(crate) const OPEN: DevicePlug = DevicePlug { until: Nanos::MAX };

    pub(crate) fn is_plugged(&self) -> bool {
        self.until != Nanos::MAX
    }

    /// When it opens by itself; `Nanos::MAX` while it is open.
    pub(crate) const fn deadline(&self) -> Nanos {
        self.until
    }
}

impl<O: Observer> RequestQueue<O> {
    /// `client` is about to submit several bios: its requests are held back until
    /// [`RequestQueue::unplug`].
    ///
    /// # Errors
    /// [`Stale`] when there is no such client.
    pub fn plug(&mut self, now: Nanos, client: ClientId) -> Result<(), Stale> {
        self.advance(now);
        self.scene.clients.get_mut(client.0).ok_or(Stale)?.plugged = true;
        self.end_call();
        Ok(())
    }

    /// `client` has submitted what it had: its requests go to the elevator. Opens the device plug
    /// as well.
    ///
    /// # Errors
    /// [`Stale`] when there is no such client.
    pub fn unplug(&mut self, now: Nanos, client: ClientId) -> Result<(), Stale> {
        self.arrive(now);
        self.scene.clients.get_mut(client.0).ok_or(Stale)?.plugged = false;
        self.flush_plug(client);
        self.unplug_device(Action::Unplug);
        self.end_call();
        Ok(())
    }

    #[inline(never)]
    pub(crate) fn add_to_plug(&mut self, client: ClientId, id: RequestId) {
        if self.plug_is_full(client) {
            self.flush_plug(client);
        }
        self.scene.requests[id].stage = Stage::Plugged;
        let list = &mut self.scene.clients.at_mut(client.index()).plug;
        let first = list.is_empty();
        list.push_back(&mut self.links, id.0);
        self.plugged += 1;
        if first {
            self.emit(Action::Plug, client, Op::Read, Flags::NONE, (0, 0));
        }
    }

    fn plug_is_full(&self, client: ClientId) -> bool {
        let list = &self.scene.clients.at(client.index()).plug;
        match self.policy.rules {
            Rules::Legacy => list.len() >= LEGACY_PLUG_MAX,
            Rules::Mq => {
                let large = |index| self.scene.request(index).sectors >= MQ_PLUG_LARGE;
                list.len() >= MQ_PLUG_MAX
                    || (self.policy.nomerges == 0 && list.last().is_some_and(large))
            }
        }
    }

    /// All requests in the client's plug go to the elevator.
    pub(crate) fn flush_plug(&mut self, client: ClientId) {
        let count = self.scene.clients.at(client.index()).plug.len();
        if count == 0 {
            return;
        }
        self.emit(Action::Unplug, client, Op::Read, Flags::NONE, (0, count));
        while let Some(index) =
            self.scene.clients.at_mut(client.index()).plug.pop_front(&mut self.links)
        {
            self.plugged -= 1;
            let id = RequestId(index);
            if self.policy.rules == Rules::Mq || !self.absorb_before_insert(id) {
                self.insert(id);
            }
        }
    }

    /// Makes the bio part of a request in its client's own plug. Whether it did.
    pub(crate) fn merge_into_plug(&mut self, index: u32, bio: &Bio) -> bool {
        if self.plugged == 0 {
            return false;
        }
        let client = self.scene.clients.at(bio.client.index());
        if !client.plugged {
            return false;
        }
        // The newest first: a stream continues where it was a moment ago.
        let mut at = client.plug.last();
        while let Some(candidate) = at {
            let request = self.scene.request(candidate);
            if let Some(side) = adjoining_side(request, bio) {
                let id = RequestId(candidate);
                if self.may_grow(id, bio) && self.elevator.may_merge(&self.scene, id, bio) {
                    self.join(id, index, bio, side);
                    return true;
                }
            }
            at = self.links.prev(candidate);
        }
        false
    }

    /// The first request of an empty queue plugs the device, if that is the policy.
    #[inline(never)]
    pub(crate) fn plug_device(&mut self) {
        if self.plug.is_plugged() {
            return;
        }
        let facts = &self.scene.facts;
        let queues_flash = !facts.rotational && facts.depth > 1;
        let empty = self.elevator.waiting() == 0 && self.dispatch.is_empty();
        if !queues_flash && empty {
            self.plug.until = self.scene.exact + DEVICE_PLUG_TIME;
            self.emit(Action::Plug, ClientId::NOBODY, Op::Read, Flags::NONE, (0, 0));
        }
    }

    /// Opens the device plug when enough waits.
    #[inline(never)]
    pub(crate) fn unplug_device_if_enough(&mut self) {
        if self.elevator.waiting() + self.dispatch.len() >= DEVICE_PLUG_REQUESTS {
            self.unplug_device(Action::Unplug);
        }
    }

    #[inline(never)]
    pub(crate) fn unplug_device(&mut self, action: Action) {
        if self.plug.is_plugged() {
            self.plug = DevicePlug::OPEN;
            let waiting = self.elevator.waiting();
            self.emit(action, ClientId::NOBODY, Op::Read, Flags::NONE, (0, waiting));
        }
    }
}

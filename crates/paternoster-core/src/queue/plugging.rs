// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugging: when requests are held back, and when they go on. `block/plug.rs` holds them.

use super::RequestQueue;
use crate::answer::Stale;
use crate::bio::Bio;
use crate::block::merge::adjoining_side;
use crate::block::plug::DevicePlug;
use crate::client::ClientId;
use crate::elevator::Rules;
use crate::event::{Action, Observer};
use crate::op::{Flags, Op};
use crate::request::{RequestId, Stage};
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
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
        self.unplug_device(Action::Unplug);
        self.end_call();
        Ok(())
    }

    #[inline(never)]
    pub(crate) fn add_to_plug(&mut self, client: ClientId, id: RequestId) {
        let merges = self.merger.nomerges == 0;
        if self.plugs.tasks.is_full(client, self.common.rules, &self.common.view.requests, merges) {
            self.flush_plug(client);
        }
        self.common.view.requests[id].stage = Stage::Plugged;
        if self.plugs.tasks.add(&mut self.common.links, client, id) {
            self.common.emit(Action::Plug, client, Op::Read, Flags::NONE, (0, 0));
        }
    }

    /// All requests in the client's plug go to the elevator.
    pub(crate) fn flush_plug(&mut self, client: ClientId) {
        let count = self.plugs.tasks.of(client).len();
        if count == 0 {
            return;
        }
        self.common.emit(Action::Unplug, client, Op::Read, Flags::NONE, (0, count));
        while let Some(id) = self.plugs.tasks.pop(&mut self.common.links, client) {
            if self.common.rules == Rules::Mq || !self.absorb_before_insert(id) {
                self.insert(id);
            }
        }
    }

    /// Makes the bio part of a request in its client's own plug; whether it succeeded.
    pub(crate) fn merge_into_plug(&mut self, index: u32, bio: &Bio) -> bool {
        let plugged = || self.common.view.clients.at(bio.client.index()).plugged;
        if self.plugs.tasks.held() == 0 || !plugged() {
            return false;
        }
        // The newest first: a stream continues where it was a moment ago.
        let mut at = self.plugs.tasks.of(bio.client).last();
        while let Some(candidate) = at {
            let request = self.common.view.slot(candidate);
            if let Some(side) = adjoining_side(request, bio) {
                let id = RequestId(candidate);
                if self.may_join(id, bio) {
                    self.join(id, index, bio, side);
                    return true;
                }
            }
            at = self.common.links.prev(candidate);
        }
        false
    }

    /// The first request of an empty queue plugs the device, with that policy.
    #[inline(never)]
    pub(crate) fn plug_device(&mut self) {
        if self.plugs.device.is_plugged() {
            return;
        }
        let facts = &self.common.view.facts;
        let queues_flash = !facts.rotational && facts.depth > 1;
        let empty = self.common.elevator.waiting() == 0 && self.dispatch.is_empty();
        if !queues_flash && empty {
            self.plugs.device.close(self.common.view.exact);
            self.common.emit(Action::Plug, ClientId::NOBODY, Op::Read, Flags::NONE, (0, 0));
        }
    }

    /// Opens the device plug when enough requests wait.
    #[inline(never)]
    pub(crate) fn unplug_device_if_enough(&mut self) {
        if DevicePlug::opens_at(self.common.elevator.waiting() + self.dispatch.len()) {
            self.unplug_device(Action::Unplug);
        }
    }

    #[inline(never)]
    pub(crate) fn unplug_device(&mut self, action: Action) {
        if self.plugs.device.is_plugged() {
            self.plugs.device = DevicePlug::OPEN;
            let waiting = self.common.elevator.waiting();
            self.common.emit(action, ClientId::NOBODY, Op::Read, Flags::NONE, (0, waiting));
        }
    }
}

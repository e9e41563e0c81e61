// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explain: says in words why a request still waits.
//!
//! The clause names the first obstacle between a request and the device: a seat that its client
//! does not have, the gate, a kept slot, a client that has had less, or other requests of its own
//! client.

use core::fmt;

use crate::adaptive::account::STREAM;
use crate::adaptive::{Paternoster, Stage};
use paternoster_core::{QueueView, RequestId};

impl Paternoster {
    /// Continues "it waits because …".
    pub(super) fn explain_wait(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let now = view.exact_now();
        if self.jobs[request.index() as usize].stage == Stage::Bypassing {
            return out.write_str("it goes next");
        }
        let client = self.client_of(request);
        if !self.is_admitted(client) {
            let seats = self.seats.most.unwrap_or(0);
            return match self.clients[client as usize].kind() {
                STREAM => {
                    write!(out, "{seats} streams at a time are served, and others have seats")
                }
                _ => write!(out, "another has its turn; {seats} are served at a time"),
            };
        }
        let first = self.candidate(view, now);
        let others = self.clients[client as usize].lane.len().saturating_sub(1);
        match first {
            Some(first) if self.held_by_gate(view, first, now).is_some() => {
                let which = if first == client { "its client" } else { "the client before it" };
                write!(out, "{which} is ahead of one that has all that it asks for in the device")
            }
            Some(first) if first != client => match self.id_of(view, first) {
                Some(first) => write!(out, "{first} has had less of the device for its weight"),
                None => out.write_str("somebody else has had less of the device"),
            },
            _ if self.keeping.is_some() => {
                write!(out, "a slot is kept for one who has had less and is about to ask again")
            }
            _ => write!(out, "its client goes next, with {others} others of it waiting"),
        }
    }
}

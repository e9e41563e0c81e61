// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explain: says in words why a request still waits.
//!
//! The clause names the first obstacle between a request and the device: a seat that its client
//! does not have, the gate or the ramp, a client that has had less, a kept slot, or other requests
//! of its own client.

use core::fmt;

use crate::adaptive::Paternoster;
use crate::adaptive::account::STREAM;
use crate::adaptive::job::Stage;
use paternoster_core::{ClientId, QueueView, RequestId};

/// Why a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is none.
    None,
    /// Its client has none of so many seats.
    Seats { most: u32, is_stream: bool },
    /// The client that goes next, its own or another, is ahead of one that is owed.
    Gate { is_own: bool },
    /// A client was owed until just now.
    Ramp,
    /// Another client has had less; none if that one has gone.
    Account(Option<ClientId>),
    /// A slot is kept.
    Slot,
    /// So many other requests of its client.
    Others(u32),
}

impl Obstacle {
    /// Continues "it waits because …".
    pub(super) fn write(self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Obstacle::None => out.write_str("it goes next"),
            Obstacle::Seats { most, is_stream: true } => {
                write!(out, "{most} streams at a time are served, and others have seats")
            }
            Obstacle::Seats { most, is_stream: false } => {
                write!(out, "another has its turn; {most} are served at a time")
            }
            Obstacle::Gate { is_own } => {
                let which = if is_own { "its client" } else { "the client before it" };
                write!(out, "{which} is ahead of one that has all that it asks for in the device")
            }
            Obstacle::Ramp => out.write_str(
                "more go into the device only step by step, since a client was owed until just now",
            ),
            Obstacle::Account(Some(first)) => {
                write!(out, "{first} has had less of the device for its weight")
            }
            Obstacle::Account(None) => out.write_str("another client has had less of the device"),
            Obstacle::Slot => {
                out.write_str("a slot is kept for a client that has had less and will ask again")
            }
            Obstacle::Others(others) => {
                write!(out, "its client goes next, with {others} others of it waiting")
            }
        }
    }
}

impl Paternoster {
    /// What is between a waiting request and the device.
    pub(super) fn obstacle(&self, view: &QueueView, request: RequestId) -> Obstacle {
        let (now, client) = (view.exact_now(), self.jobs.client_of(request));
        let (choice, own) = (self.choice(view, now), self.clients.at(client));
        let is_next = self.jobs.at(request).stage == Stage::Bypassing;
        let others = own.lane.len().saturating_sub(1);
        if is_next {
            Obstacle::None
        } else if !choice.is_admitted(client) {
            let most = self.seats.most.unwrap_or(0);
            Obstacle::Seats { most, is_stream: own.kind() == STREAM }
        } else {
            match choice.candidate() {
                Some(first) if self.held_by_gate(view, first, now).is_some() => {
                    Obstacle::Gate { is_own: first == client }
                }
                Some(_) if self.ramp.is_full(view.in_device().requests) => Obstacle::Ramp,
                Some(first) if first != client => Obstacle::Account(view.client_id(first)),
                _ if self.credit.keeps() => Obstacle::Slot,
                _ => Obstacle::Others(others),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// Does each obstacle continue "it waits because"?
    #[test]
    fn obstacles_are_clauses() {
        for (obstacle, told) in [
            (Obstacle::Seats { most: 2, is_stream: true }, "2 streams at a time are served"),
            (Obstacle::Seats { most: 1, is_stream: false }, "another has its turn; 1 are served"),
            (Obstacle::Gate { is_own: true }, "its client is ahead of one"),
            (Obstacle::Ramp, "more go into the device only step by step"),
            (Obstacle::Others(3), "its client goes next, with 3 others"),
        ] {
            let mut text = String::new();
            obstacle.write(&mut text).expect("a string takes all");
            assert!(text.starts_with(told), "{text}");
        }
    }
}

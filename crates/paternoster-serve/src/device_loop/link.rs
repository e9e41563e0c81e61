// SPDX-License-Identifier: MIT OR Apache-2.0
//! Link: how a loop and a client reach each other.
//!
//! ```text
//! wire    socket ◀──▶ bytes of NBD     requests are parsed, replies are put in words (`outbox`)
//! calls   FUSE   ◀──▶ calls, answers   I/Os as they are
//! ```
//!
//! Behind a link everything is alike: I/Os, fragments, memory and shares do not know which it is.

use super::calls::Calls;
use crate::wire::Wire;

/// How a loop and a client reach each other.
#[derive(Debug)]
pub enum Link {
    /// Through a socket, by NBD.
    Wire(Wire),
    /// By calls of processes, through FUSE.
    Calls(Box<Calls>),
}

impl From<Wire> for Link {
    fn from(wire: Wire) -> Link {
        Link::Wire(wire)
    }
}

impl Link {
    /// By calls, of which there are none yet.
    pub(super) fn of_calls() -> Link {
        Link::Calls(Box::new(Calls::new()))
    }

    /// The wire, unless the client makes calls.
    pub(super) fn wire(&self) -> Option<&Wire> {
        match self {
            Link::Wire(wire) => Some(wire),
            Link::Calls(_) => None,
        }
    }
}

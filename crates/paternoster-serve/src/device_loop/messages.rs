// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages: what other threads send to a loop.
//!
//! Invariant: a message is whole; the loop needs nothing of its sender but, for some, where the
//! answer goes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::handover::{self, Resumed};
use super::link::Link;
use super::reload::Reload;
use super::seats::Seat;
use crate::config::Identity;
use crate::control::order::Asked;
use crate::fuse::call::Call;
use crate::host::peer::Peer;
use crate::nbd::Negotiated;

/// What other threads send to a loop.
#[derive(Debug)]
pub enum Message {
    /// A client that has chosen a volume of this loop.
    Newcomer(Box<Newcomer>),
    /// An order.
    Asked(Asked),
    /// A process's call on a volume's file.
    Call(Call),
    /// Another configuration.
    Reload(Box<Reload>),
    /// From or about another process that takes over.
    Handover(handover::Post),
}

/// A client that has chosen its volume.
#[derive(Debug)]
pub struct Newcomer {
    /// Its socket, which does not block; or its calls.
    pub link: Link,
    /// What client and server agreed on.
    pub negotiated: Negotiated,
    /// Numbers connections since the start of the server, below 2^32.
    pub id: u64,
    /// The client, in words.
    pub peer: Peer,
    /// Number of its process, if known.
    pub pid: u32,
    /// The name of its tenant, unless rules choose one by its identity.
    pub tenant: String,
    /// See there.
    pub identity: Option<Identity>,
    /// Bytes read after the handshake, and bytes of the handshake that the server still has to
    /// send.
    pub input: Vec<u8>,
    /// See there.
    pub output: Vec<u8>,
    /// Freed when it goes.
    pub seat: Seat,
    /// The request it was in the middle of at another process.
    pub(crate) handed: Option<Box<Resumed>>,
}

/// Numbers connections.
pub fn next_id(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX)
}

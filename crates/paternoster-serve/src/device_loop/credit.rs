// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credit: memory that waits for a client, and how much of a tenant's memory may do so.
//!
//! Memory comes back soon from a device, but not from a client that begins a payload and does not
//! send the rest, or asks for data and does not take them. While a tenant has plenty, its
//! connections are trusted. When a quarter is left (of what it has and may get, or of its places
//! for fragments), a fragment is made only if it need not wait for a client:
//!
//! ```text
//! write   that many bytes of its payload have come     (they are in the socket: FIONREAD)
//! read    the socket has room for that much of answers (half of the free buffer: SIOCOUTQ)
//! 240 connections, 3 MiB: begun writes hold 2.25 MiB at most; the rest turns over with the device
//! ```
//!
//! A connection that has to wait is looked at again when its socket has an event, and when memory
//! of its tenant comes back. Only half of the free buffer counts, since the kernel counts its own
//! overhead. Under TLS a payload is always trusted: the socket holds records, not payload bytes.
//!
//! Invariant: a tenant that is short holds memory, so that some comes back or a client is
//! disconnected for keeping it (`stall-timeout`).

use super::DeviceLoop;
use super::connection::Blocked;
use super::io_fragment::{Fragment, Io};
use crate::device::Work;
use crate::nbd::transmission::Kind;

/// A tenant is short when it may get less than what it holds divided by this.
const HELD: u64 = 3;

impl DeviceLoop {
    /// Notes for how many bytes the next fragment of an I/O need not wait for the client. `there`:
    /// bytes of its payload that were read already.
    pub(super) fn look_at_credit(&mut self, io: u32, there: usize) {
        let Io { connection: index, ref request, .. } = *self.ios.at(io);
        let connection = self.connections.at(index);
        let sure = match (request.kind, &connection.wire) {
            (Kind::Read | Kind::Write, Some(wire)) if self.is_short(connection.tenant) => {
                match request.kind {
                    Kind::Write => wire.arrived().map(|bytes| there as u64 + bytes),
                    _ => wire.room().map(|room| room.saturating_sub(connection.memory)),
                }
            }
            _ => None,
        };
        self.connections.at_mut(index).sure = sure.unwrap_or(u64::MAX);
    }

    /// Whether a tenant has so little left that its clients are no longer trusted.
    pub(super) fn is_short(&self, tenant: u32) -> bool {
        #[cfg(test)]
        if super::planted::has(super::planted::Bug::LendsAll) {
            return false;
        }
        let pools = [&self.pools.memory, &self.pools.fragments];
        pools.iter().any(|pool| pool.may_get(tenant) < pool.held(tenant) / HELD)
    }

    /// Whether a fragment would wait for its client; checked again when the client makes progress.
    pub(super) fn awaits_client(&mut self, index: u32, fragment: &Fragment) -> bool {
        let needed = match fragment.work {
            Work::Read => fragment.span,
            _ => fragment.length,
        };
        let sure = self.connections.at(index).sure;
        if u64::from(needed) <= sure {
            return false;
        }
        self.block(index, Blocked::Client);
        let now = self.now;
        let connection = self.connections.at_mut(index);
        if fragment.work == Work::Read {
            connection.takes.owes(now);
            // Otherwise it is looked at again when its memory comes back.
            if connection.memory == 0 {
                self.await_room(index);
            }
        } else {
            connection.brings.owes(now);
        }
        true
    }

    /// A connection's socket has an event.
    pub(super) fn client_moved(&mut self, index: u32) {
        if self.connections.at(index).blocked == Blocked::Client {
            self.unblock(index);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credit: memory that waits for a client, and how much of a tenant's does at most.
//!
//! Memory comes back soon from a device, but not from a client that begins a payload and does not
//! bring it, or asks for data and does not take them. While a tenant has plenty, its connections
//! are trusted. When a quarter is left (of what it has and may get, or of its places for
//! fragments), a fragment is made only if no client is waited for any more:
//!
//! ```text
//! write   so many bytes of its payload have come     (they lie in the socket: FIONREAD)
//! read    the socket has room for so many of answers  (half of the buffer that is free: SIOCOUTQ)
//! 240 connections, 3 MiB: begun writes hold 2.25 MiB at most; what is left turns with the device
//! ```
//!
//! One that has to wait is looked at again when its socket has something to say, and when memory of
//! its tenant comes back. Half of the free buffer, since the system counts what it spends itself.
//! Under TLS a payload is trusted always: what lies in the socket is records, not bytes of it.
//!
//! Invariant: a tenant that is short has memory that is held, so that some comes back or a client
//! is sent away for it (`stall-timeout`).

use super::DeviceLoop;
use super::connection::Blocked;
use super::io_fragment::{Fragment, Io};
use crate::device::Work;
use crate::nbd::transmission::Kind;

/// A tenant is short when it may get less than one of so many parts of what it holds.
const HELD: u64 = 3;

impl DeviceLoop {
    /// Notes for how many bytes the next fragment of an I/O waits for no client. `there`: bytes of
    /// its payload that were read already.
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

    /// Whether a tenant has so little left that its clients are trusted no more.
    pub(super) fn is_short(&self, tenant: u32) -> bool {
        #[cfg(test)]
        if super::planted::has(super::planted::Bug::LendsAll) {
            return false;
        }
        let pools = [&self.pools.memory, &self.pools.fragments];
        pools.iter().any(|pool| pool.may_get(tenant) < pool.held(tenant) / HELD)
    }

    /// Whether a fragment would wait for its client; that is looked at again when the client moves.
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
            // Otherwise it is looked at again when that comes back.
            if connection.memory == 0 {
                self.await_room(index);
            }
        } else {
            connection.brings.owes(now);
        }
        true
    }

    /// A connection's socket has something to say.
    pub(super) fn client_moved(&mut self, index: u32) {
        if self.connections.at(index).blocked == Blocked::Client {
            self.unblock(index);
        }
    }
}

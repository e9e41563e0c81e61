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
//! of its tenant comes back; a read that needs more than its empty socket surely takes (DF, large
//! blocks), only then. Only half of the free buffer counts, since the kernel counts its own
//! overhead. Under TLS a payload is always trusted: the socket holds records, not payload bytes. A
//! process's payload is there with its call, and its kernel takes every answer.
//!
//! Invariant: a tenant that is short holds memory, so that some comes back or a client is
//! disconnected for keeping it (`stall-timeout`).

use super::connection::Connection;
use super::io_fragment::Fragment;
use crate::device::Work;
use crate::nbd::transmission::{Kind, Request};

/// For how many bytes the next fragment of a request need not wait for the client of a short
/// tenant. `there`: bytes of its payload that were read already.
pub(super) fn sure(connection: &Connection, request: &Request, there: usize) -> u64 {
    let sure = match (request.kind, connection.wire()) {
        (Kind::Write, Some(wire)) => wire.arrived().map(|bytes| there as u64 + bytes),
        (Kind::Read, Some(wire)) => wire.room().map(|room| room.saturating_sub(connection.memory)),
        _ => None,
    };
    sure.unwrap_or(u64::MAX)
}

/// Whether a fragment would wait for its client, if `sure` bytes can be moved without waiting.
pub(super) fn is_beyond(fragment: &Fragment, sure: u64) -> bool {
    let needed = match fragment.work {
        Work::Read => fragment.span,
        _ => fragment.length,
    };
    u64::from(needed) > sure
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a read need its blocks in the answer's memory, and a write the bytes of its client
    /// alone? Bytes 100 to 612 of blocks of 512 are two blocks.
    #[test]
    fn a_read_needs_whole_blocks() {
        let of = |work| Fragment::new(0, work, (100, 512), (0, 1024), 0);
        let (read, write) = (of(Work::Read), of(Work::Write { fua: false }));
        assert!(is_beyond(&read, 1023) && !is_beyond(&read, 1024));
        assert!(is_beyond(&write, 511) && !is_beyond(&write, 512));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bios: what a client submits.
//!
//! A *bio* is one I/O of one client: an operation on a run of sectors, with a cookie that is
//! returned at its end. Sizes are in sectors of 512 bytes. Data never pass through here: buffers
//! stay with the caller.
//!
//! ```text
//! submit(bio, cookie 7) ─▶ ticket ─▶ cancel?
//!                             └────▶ Done(7, how it ended)
//! ```
//!
//! Source: BLK-1.

use crate::client::{ClientId, Priority};
use crate::op::{Flags, Op, is_sync};
use crate::slab::Key;

/// Identifies a bio in a queue from `submit` until its `Done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) Key);

/// Returned to the caller at the end of a bio: an index, a pointer, a sequence number.
pub type Cookie = u64;

/// One I/O of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bio {
    /// The client that submits it.
    pub client: ClientId,
    /// The operation.
    pub op: Op,
    /// First sector (512 bytes each).
    pub sector: u64,
    /// How many sectors; 0 only for a flush without data.
    pub sectors: u32,
    /// Memory segments of the data, at least 1.
    pub segments: u16,
    /// Properties.
    pub flags: Flags,
    /// Class and level of this bio, if they differ from its client's.
    pub priority: Option<Priority>,
    /// Returned in `Output::Done`.
    pub cookie: Cookie,
}

impl Bio {
    /// A bio of one segment without flags, at its client's priority.
    #[must_use]
    pub const fn new(client: ClientId, op: Op, sector: u64, sectors: u32) -> Bio {
        let flags = Flags::NONE;
        Bio { client, op, sector, sectors, segments: 1, flags, priority: None, cookie: 0 }
    }

    /// A flush without data.
    #[must_use]
    pub const fn flush(client: ClientId) -> Bio {
        Bio::new(client, Op::Flush, 0, 0)
    }

    /// Sets the cookie.
    #[must_use]
    pub const fn cookie(mut self, cookie: Cookie) -> Bio {
        self.cookie = cookie;
        self
    }

    /// Adds flags.
    #[must_use]
    pub fn flags(mut self, flags: Flags) -> Bio {
        self.flags |= flags;
        self
    }

    /// The sector after its last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }

    /// Whether a process waits for it.
    #[must_use]
    pub const fn is_sync(&self) -> bool {
        is_sync(self.op, self.flags)
    }

    /// Whether it orders the device's cache: a flush, or a write with PREFLUSH or FUA.
    #[must_use]
    pub fn is_flushing(&self) -> bool {
        self.op == Op::Flush || self.flags.intersects(Flags::FUA | Flags::PREFLUSH)
    }
}

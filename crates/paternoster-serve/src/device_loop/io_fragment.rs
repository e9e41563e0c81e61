// SPDX-License-Identifier: MIT OR Apache-2.0
//! I/Os and fragments: a client's request, and the pieces that become bios of the queue.
//!
//! An *I/O* is one request of the protocol, up to 4 GiB. It is cut into *fragments* of at most
//! 1 MiB, each with memory of its own and a bio of its own, as memory allows: no request needs
//! more than one fragment's memory to go on.
//!
//! ```text
//! I/O   READ 2.5 MiB        cookie 0x77
//! fragments    [1 MiB] [1 MiB] [0.5 MiB]        a bio each; answered as they end
//! ```
//!
//! Invariants: I1 `left` fragments of an I/O are in the slab; I2 a fragment's block is given back
//! once; I3 the cookie of a bio is its fragment's index.

use paternoster_core::{Nanos, Ticket};

use super::outbox::Outbox;
use crate::device::arena::Block;
use crate::device::{Extent, Work};
use crate::nbd::block_status::descriptors_most;
use crate::nbd::reply::block_status_bytes;
use crate::nbd::transmission::{Kind, Request};

/// A request of a client, taken and not yet answered.
#[derive(Debug)]
pub(super) struct Io {
    /// The connection that sent it.
    pub connection: u32,
    /// The request as the client sent it.
    pub request: Request,
    /// When it was read.
    pub arrived: Nanos,
    /// Bytes of it that were made fragments (or, of a write, will never be).
    pub cut: u64,
    /// Fragments that have not ended.
    pub left: u32,
    /// Fragments whose data wait to be sent, or were sent.
    pub answered: u32,
    /// The first error, as errno of Linux.
    pub error: i32,
    /// A flush follows what was written (FUA of what has no FUA of its own).
    pub then_flush: bool,
    /// All of its answer is in the connection's hands, or no client to answer is left.
    pub silent: bool,
}

impl Io {
    /// A request of this connection that was read now.
    pub(super) const fn new(connection: u32, request: Request, arrived: Nanos) -> Io {
        Io {
            connection,
            request,
            arrived,
            cut: 0,
            left: 0,
            answered: 0,
            error: 0,
            then_flush: request.flags.fua() && matches!(request.kind, Kind::Trim),
            silent: false,
        }
    }

    /// Bytes, at most, of an answer that is long, but is no data and so has no memory of the
    /// device: what a question for holes is told.
    pub(super) const fn promises(&self) -> usize {
        let Request { kind: Kind::BlockStatus, flags, .. } = self.request else { return 0 };
        Outbox::takes(block_status_bytes(descriptors_most(flags.req_one())))
    }
}

/// The stage of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Its payload is being received.
    Filling,
    /// It could not be given to the queue yet.
    Refused,
    /// It waits for other changes of the same blocks.
    Excluded,
    /// The queue has it.
    Queued,
    /// It is a question that the queue has let by, and is asked or waits for that.
    Asking,
}

/// A piece of an I/O: one bio.
#[derive(Debug)]
pub(super) struct Fragment {
    /// The I/O that it is a part of.
    pub io: u32,
    /// The operation.
    pub work: Work,
    /// First byte within the volume, as in the client's request.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
    /// First byte of the volume, rounded down to a block.
    pub start: u64,
    /// The same on the device's line: what tells whether two fragments concern the same bytes, be
    /// they of one volume or of two that share a file.
    pub on_line: u64,
    /// Bytes, rounded up to whole blocks.
    pub span: u32,
    /// Memory, for reads and writes. A command that is in the device has it.
    pub block: Option<Block>,
    /// Memory for the edge blocks of a write that begins or ends within a block.
    pub edges: Option<Block>,
    /// Bytes of payload that have come.
    pub filled: u32,
    /// Its stage.
    pub step: Step,
    /// Its blocks are read first, because it begins or ends within one.
    pub reads_first: bool,
    /// The result of a block status request.
    pub runs: Vec<Extent>,
    /// The queue's ticket, with which it can be withdrawn.
    pub ticket: Option<Ticket>,
}

impl Fragment {
    /// A fragment without memory, of which nothing has come yet: `length` bytes from `offset` on,
    /// in the blocks from `start` on over `span` bytes, of a volume that begins at `line`.
    pub(super) const fn new(
        io: u32,
        work: Work,
        (offset, length): (u64, u32),
        (start, span): (u64, u32),
        line: u64,
    ) -> Fragment {
        let mut fragment = Fragment {
            io,
            work,
            offset,
            length,
            start,
            on_line: line + start,
            span,
            block: None,
            edges: None,
            filled: 0,
            step: Step::Filling,
            reads_first: false,
            runs: Vec::new(),
            ticket: None,
        };
        fragment.reads_first = matches!(work, Work::Write { .. }) && fragment.is_ragged();
        fragment
    }

    /// Whether it begins or ends within a block.
    pub(super) const fn is_ragged(&self) -> bool {
        self.start != self.offset || self.span != self.length
    }

    /// Where the client's bytes begin in the fragment's memory.
    #[allow(clippy::cast_possible_truncation, reason = "less than a block")]
    pub(super) const fn skew(&self) -> usize {
        (self.offset - self.start) as usize
    }

    /// What the device does for it now, in words.
    pub(super) fn in_words(&self) -> String {
        let work = match self.work {
            _ if self.reads_first => "read",
            Work::Read => "read",
            Work::Write { .. } => "write",
            Work::Discard => "trim",
            Work::Zero { .. } => "write of zeroes",
            Work::Prefetch => "read ahead",
            Work::Flush => "flush",
        };
        format!("{work} of {} bytes at {}", self.length, self.offset)
    }

    /// A ragged write has read its edges: fills them in, and gives their memory back.
    pub(super) fn mend(&mut self) -> Option<Block> {
        self.reads_first = false;
        let edges = self.edges.take()?;
        let (first, span) = (self.skew(), self.span as usize);
        let last = first + self.length as usize;
        if let Some(block) = &mut self.block {
            let (around, bytes) = (edges.bytes(), block.bytes_mut());
            bytes[..first].copy_from_slice(&around[..first]);
            bytes[last..span].copy_from_slice(&around[last..span]);
        }
        Some(edges)
    }

    /// Whether it changes what is on the volume.
    pub(super) const fn is_change(&self) -> bool {
        matches!(self.work, Work::Write { .. } | Work::Discard | Work::Zero { .. })
    }
}

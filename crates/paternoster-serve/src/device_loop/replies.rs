// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies: what a connection is told of its requests: in the words of NBD, or as answers to calls.
//!
//! With structured replies each fragment of a read goes out as it ends, with its offset; the last
//! one says so. Without them, data go out in order after one header; an error after it can only be
//! reported by hanging up. The outbox ensures that nothing else comes in between.
//!
//! Invariant: every I/O is answered once; what could not be answered is said, and its connection is
//! closed.
//!
//! Source: `doc/proto.md` of NBD, "Reply message".

use super::connection::Connection;
use super::io_fragment::{Fragment, Io};
use super::outbox::{Data, OutOfPlace};
use crate::device::arena::{Block, PAGE};
use crate::nbd::block_status::Descriptors;
use crate::nbd::reply;
use crate::nbd::transmission::{Kind, Request};
use crate::nbd::wire::ALLOCATION_ID;

/// See above.
#[derive(Debug)]
pub(super) struct Replies {
    /// Kept to be used again.
    head: Vec<u8>,
    /// Answers that were not sent yet, in pages.
    unsent: u32,
}

impl Replies {
    /// No reply waits yet.
    pub(super) fn new() -> Replies {
        Replies { head: Vec::with_capacity(PAGE), unsent: 0 }
    }

    /// Answers that were not sent yet, in pages.
    #[inline]
    pub(super) const fn unsent(&self) -> u32 {
        self.unsent
    }

    /// Notes that all that can be sent has been sent.
    pub(super) const fn all_sent(&mut self) {
        self.unsent = 0;
    }

    /// Data of a fragment that has ended. Returns their memory, unless they are sent from it.
    ///
    /// # Errors
    /// They are out of place; the read fails, and its connection is closed at its end.
    pub(super) fn data(
        &mut self,
        connection: &mut Connection,
        io: &mut Io,
        fragment: &Fragment,
        block: Block,
    ) -> Result<Option<Block>, OutOfPlace> {
        let (cookie, whole) = (io.request.cookie, u64::from(io.request.length));
        let data = Data { block, first: fragment.skew(), length: fragment.length as usize };
        io.answered += 1;
        self.unsent += fragment.length / 4096;
        if let Some(calls) = connection.calls_mut() {
            return Ok(calls.data(cookie, fragment.offset, data));
        }
        self.head.clear();
        if connection.negotiated.structured {
            let is_last = io.cut == whole && io.left == 0 && io.error == 0;
            io.silent = is_last;
            reply::data(&mut self.head, cookie, fragment.offset, fragment.length, is_last);
            connection.out.whole(&self.head, Some(data));
            return Ok(None);
        }
        if io.answered != 1 {
            return connection.out.go_on(data).map(|()| None);
        }
        reply::simple(&mut self.head, cookie, 0);
        if u64::from(fragment.length) == whole {
            connection.out.whole(&self.head, Some(data));
            return Ok(None);
        }
        connection.out.begin(&self.head, data, whole, connection.reads == 1).map(|()| None)
    }

    /// The end of an I/O; returns whether it could be told.
    #[must_use = "a connection that cannot be told must be closed"]
    pub(super) fn end(&mut self, connection: &mut Connection, io: &Io) -> bool {
        let (cookie, errno) = (io.request.cookie, reply::errno(io.error));
        self.unsent += 1;
        if let Some(calls) = connection.calls_mut() {
            calls.end(cookie, errno);
            return true;
        }
        self.head.clear();
        if connection.negotiated.structured && io.error != 0 {
            let text = std::io::Error::from_raw_os_error(io.error).to_string();
            reply::error(&mut self.head, cookie, errno, &text, true);
        } else if connection.negotiated.structured && io.request.kind == Kind::Read {
            reply::done(&mut self.head, cookie);
        } else if io.answered == 0 {
            reply::simple(&mut self.head, cookie, errno);
        } else if io.error != 0 {
            // Data have begun to go out: there is no way to take them back.
            return false;
        }
        if !self.head.is_empty() {
            connection.out.whole(&self.head, None);
        }
        true
    }

    /// Refuses a request that has not begun.
    pub(super) fn refuse(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        errno: u32,
        text: &str,
    ) {
        connection.figures.errors += 1;
        if let Some(calls) = connection.calls_mut() {
            return calls.end(request.cookie, errno);
        }
        self.head.clear();
        if connection.negotiated.structured {
            reply::error(&mut self.head, request.cookie, errno, text, true);
        } else {
            reply::simple(&mut self.head, request.cookie, errno);
        }
        connection.out.whole(&self.head, None);
    }

    /// Block status: where the volume has data and where holes.
    pub(super) fn extents(
        &mut self,
        connection: &mut Connection,
        io: &mut Io,
        fragment: &Fragment,
        block: u32,
    ) {
        io.silent = true;
        let request = &io.request;
        let one = request.flags.req_one();
        let mut runs = Descriptors::new(request.offset, request.length, block, one);
        // There may be no room for the last runs.
        let _all = fragment.runs.iter().all(|&run| runs.push(run));
        self.head.clear();
        let runs = runs.finish();
        reply::block_status(&mut self.head, request.cookie, ALLOCATION_ID, &runs, true);
        connection.out.whole(&self.head, None);
    }
}

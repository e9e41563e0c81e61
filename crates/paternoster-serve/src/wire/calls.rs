// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wire of calls: what a process asked through FUSE, in the words of NBD.
//!
//! ```text
//! loop ──read──▶  header, payload of the calls that wait, one after the other
//! loop ──write──▶ simple replies and chunks ──▶ each call's answer
//! ```
//!
//! To a loop a process is a connection like any other: its requests are headers and payload, its
//! answers are replies. None of it goes through a socket: a header is made when the loop reads it,
//! and the data of a complete reply go to the kernel without a copy.
//!
//! ```text
//! read of 8 bytes      chunk DATA done, 8 bytes            → answered from the loop's memory
//!         in 2 parts   chunk DATA, 4 bytes; chunk DATA done → put together, then answered
//! write                simple reply                         → so many bytes were written
//! ```
//!
//! Invariants: I1 every call is answered once: by a reply, or with EIO when the wire goes; I2 a
//! read that returns less than requested has returned all there is; I3 replies are taken whole,
//! whatever the slices.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use crate::fuse::call::{Answer, Call};
use crate::nbd::reply::{CHUNK, DATA, SIMPLE};
use crate::nbd::transmission::{HEADER, Kind};
use crate::nbd::wire::{MAGIC_CHUNK, MAGIC_REQUEST, MAGIC_SIMPLE, chunk, command, command_flag};

/// A call that was read by the loop and is not answered yet.
#[derive(Debug)]
struct Asked {
    answer: Answer,
    /// First byte that the call wants.
    offset: u64,
    /// Bytes of data that it wants.
    length: usize,
    /// The data so far, if it does not come all at once.
    got: Vec<u8>,
    /// The errno of a call that has failed.
    errno: i32,
}

/// What comes next of the loop's replies.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// A header, or the rest of it.
    Head,
    /// Data for this call: where they go, how many are to come, and whether that is all.
    Data { cookie: usize, at: usize, left: usize, done: bool },
}

/// A connection's calls, as a wire.
#[derive(Debug)]
pub(crate) struct Calls {
    waiting: VecDeque<Call>,
    /// The header of the first of them, and how much of it and its payload was read.
    header: [u8; HEADER],
    read: usize,
    /// Calls that were read, by cookie.
    asked: Vec<Option<Asked>>,
    free: Vec<usize>,
    next: Next,
    head: Vec<u8>,
    gone: bool,
}

impl Calls {
    /// Without any.
    pub(crate) const fn new() -> Calls {
        Calls {
            waiting: VecDeque::new(),
            header: [0; HEADER],
            read: 0,
            asked: Vec::new(),
            free: Vec::new(),
            next: Next::Head,
            head: Vec::new(),
            gone: false,
        }
    }

    /// Another call.
    pub(crate) fn push(&mut self, call: Call) {
        self.waiting.push_back(call);
        if self.waiting.len() == 1 {
            self.open_first();
        }
    }

    /// There will be no more calls: after those that wait the wire ends.
    pub(crate) const fn leave(&mut self) {
        self.gone = true;
    }

    /// Whether nothing waits and nothing is to be answered.
    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.free.len() == self.asked.len()
    }

    /// Notes the first call and makes its header.
    fn open_first(&mut self) {
        let Some(call) = self.waiting.front_mut() else { return };
        self.read = 0;
        let answer = std::mem::replace(&mut call.answer, Answer::Nobody);
        let is_read = call.kind == Kind::Read;
        let length = if is_read { call.length as usize } else { 0 };
        let asked = Asked { answer, offset: call.offset, length, got: Vec::new(), errno: 0 };
        let cookie = match self.free.pop() {
            Some(cookie) => {
                self.asked[cookie] = Some(asked);
                cookie
            }
            None => {
                self.asked.push(Some(asked));
                self.asked.len() - 1
            }
        };
        self.header = header(call, cookie as u64);
    }

    /// Reads of the calls that wait, as of a socket.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut end = 0;
        while end < into.len() {
            let Some(call) = self.waiting.front() else { break };
            let from: &[u8] = match self.read.checked_sub(HEADER) {
                None => &self.header[self.read..],
                Some(behind) => &call.payload[behind..],
            };
            let taken = from.len().min(into.len() - end);
            into[end..end + taken].copy_from_slice(&from[..taken]);
            (end, self.read) = (end + taken, self.read + taken);
            if self.read == HEADER + call.payload.len() {
                self.waiting.pop_front();
                self.open_first();
            }
        }
        match end {
            0 if self.gone => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(end),
        }
    }

    /// Takes the bytes of replies, always all of them.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                let used = self.take(rest)?;
                rest = &rest[used..];
            }
            taken += slice.len();
        }
        Ok(taken)
    }

    /// Takes the first of these bytes that belong together; returns how many.
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.next {
            Next::Data { cookie, at, left, done } => {
                let used = bytes.len().min(left);
                self.take_data(cookie, at, &bytes[..used], done && used == left);
                if used == left {
                    self.next = Next::Head;
                } else {
                    self.next = Next::Data { cookie, at: at + used, left: left - used, done };
                }
                Ok(used)
            }
            Next::Head => {
                let wanted = head_length(&self.head);
                let used = bytes.len().min(wanted - self.head.len());
                self.head.extend_from_slice(&bytes[..used]);
                if self.head.len() == head_length(&self.head) {
                    self.understand()?;
                }
                Ok(used)
            }
        }
    }

    /// A header is whole.
    fn understand(&mut self) -> io::Result<()> {
        let head = std::mem::take(&mut self.head);
        let cookie = usize::try_from(number(&head, 8, 8)).unwrap_or(usize::MAX);
        let known = self.asked.get(cookie).and_then(Option::as_ref);
        let Some(asked) = known else { return Err(lost()) };
        if is_simple(&head) {
            let errno = errno_of(&head, 4);
            if errno == 0 && asked.length != 0 {
                return Err(lost());
            }
            self.fail(cookie, errno);
            self.end(cookie);
        } else {
            let done = number(&head, 4, 2) & u64::from(chunk::DONE) != 0;
            match u16::try_from(number(&head, 6, 2)).unwrap_or(0) {
                chunk::OFFSET_DATA => {
                    let at = number(&head, CHUNK, 8).wrapping_sub(asked.offset);
                    let at = usize::try_from(at).unwrap_or(usize::MAX);
                    let left = usize::try_from(number(&head, 16, 4)).unwrap_or(0) - 8;
                    if left == 0 || at.saturating_add(left) > asked.length {
                        return Err(lost());
                    }
                    self.next = Next::Data { cookie, at, left, done };
                }
                chunk::NONE if done => self.end(cookie),
                chunk::ERROR => {
                    self.fail(cookie, errno_of(&head, CHUNK));
                    if done {
                        self.end(cookie);
                    }
                }
                _ => return Err(lost()),
            }
        }
        self.head = head;
        self.head.clear();
        Ok(())
    }

    /// Data of a read; all that it wants, or a piece.
    fn take_data(&mut self, cookie: usize, at: usize, data: &[u8], done: bool) {
        let Some(asked) = self.asked[cookie].as_mut() else { return };
        if done && data.len() == asked.length && asked.errno == 0 {
            return self.answer(cookie, |answer, _| answer.good(data));
        }
        asked.got.resize(asked.length, 0);
        asked.got[at..at + data.len()].copy_from_slice(data);
        if done {
            self.end(cookie);
        }
    }

    fn fail(&mut self, cookie: usize, errno: i32) {
        if let Some(asked) = self.asked[cookie].as_mut()
            && asked.errno == 0
        {
            asked.errno = errno;
        }
    }

    /// All of a call's reply has come.
    fn end(&mut self, cookie: usize) {
        self.answer(cookie, |answer, asked| match asked.errno {
            0 => answer.good(&asked.got),
            errno => answer.bad(errno),
        });
    }

    fn answer(&mut self, cookie: usize, how: impl FnOnce(Answer, &Asked)) {
        if let Some(mut asked) = self.asked[cookie].take() {
            self.free.push(cookie);
            let answer = std::mem::replace(&mut asked.answer, Answer::Nobody);
            how(answer, &asked);
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for asked in self.asked.drain(..).flatten() {
            asked.answer.bad(libc::EIO);
        }
        for call in self.waiting.drain(..) {
            call.answer.bad(libc::EIO);
        }
    }
}

/// A call as a request.
fn header(call: &Call, cookie: u64) -> [u8; HEADER] {
    let kind = match call.kind {
        Kind::Write => command::WRITE,
        Kind::Flush => command::FLUSH,
        Kind::WriteZeroes => command::WRITE_ZEROES,
        _ => command::READ,
    };
    let fua = if call.fua { command_flag::FUA } else { 0 };
    let no_hole = if call.no_hole { command_flag::NO_HOLE } else { 0 };
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&MAGIC_REQUEST.to_be_bytes());
    header[4..6].copy_from_slice(&(fua | no_hole).to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..24].copy_from_slice(&call.offset.to_be_bytes());
    header[24..28].copy_from_slice(&call.length.to_be_bytes());
    header
}

/// Bytes of the header that begins so, as far as that can be said: a chunk's own fields come with
/// it, but for data.
fn head_length(head: &[u8]) -> usize {
    if head.len() < SIMPLE {
        return SIMPLE;
    }
    if is_simple(head) {
        return SIMPLE;
    }
    if head.len() < CHUNK {
        return CHUNK;
    }
    let kind = u16::try_from(number(head, 6, 2)).unwrap_or(0);
    if kind == chunk::OFFSET_DATA {
        return DATA;
    }
    CHUNK + usize::try_from(number(head, 16, 4)).unwrap_or(0)
}

fn is_simple(head: &[u8]) -> bool {
    debug_assert!(matches!(u32::try_from(number(head, 0, 4)), Ok(MAGIC_SIMPLE | MAGIC_CHUNK)));
    number(head, 0, 4) == u64::from(MAGIC_SIMPLE)
}

/// The number in these bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The protocol's numbers for errors are those of Linux.
fn errno_of(bytes: &[u8], at: usize) -> i32 {
    i32::try_from(number(bytes, at, 4)).unwrap_or(libc::EIO)
}

fn lost() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a reply to no call of this process")
}

#[cfg(test)]
mod tests;

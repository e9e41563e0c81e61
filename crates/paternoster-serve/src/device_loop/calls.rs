// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: what processes ask of a volume through FUSE, and what they are answered.
//!
//! ```text
//! call ─▶ waiting ─▶ begun: a request, its answer by number ─▶ data, whole or in parts ─▶ end
//!                      └─▶ payload ─▶ memory of fragments                                  │
//!                                         process ◀── answers, at the end of a round ◀── ended
//! ```
//!
//! To a loop a process is a connection whose requests do not come as bytes. A call becomes an I/O
//! as it is. Its payload is copied once, into the memory that the device takes it from; the data of
//! a read that has one fragment go to the kernel from the memory that the device read them into.
//!
//! ```text
//! read of 8 bytes, one fragment    8 bytes            → answered from the fragment's memory
//!                  two fragments   4 bytes, 4 bytes   → put together, then answered
//! write                            so many bytes were written
//! ```
//!
//! Errors are those that NBD has: some of Linux's others tell the kernel that a call does not
//! exist, and it would not ask again (ENOSYS to an fsync: later ones succeed, and do nothing).
//!
//! Invariants: I1 every call is answered once: when its I/O ends, or with EIO when the connection
//! goes; I2 a read that returns less than requested has returned all there is; I3 a block of memory
//! that is here is of a call that has not been answered.

use std::collections::VecDeque;

use super::outbox::Data;
use crate::device::arena::{Arena, Block};
use crate::fuse::call::{Answer, Call};
use crate::nbd::transmission::{CommandFlags, Kind, Request};
use crate::nbd::wire::command_flag;
use crate::table::Table;
use crate::tally;

/// A call that is being done.
#[derive(Debug)]
struct Begun {
    answer: Answer,
    /// First byte that the call wants.
    offset: u64,
    /// Bytes of data that it wants.
    length: usize,
    got: Got,
}

/// The data that a read has so far.
#[derive(Debug)]
enum Got {
    Nothing,
    /// All of them, in the memory of the only fragment.
    Whole(Data),
    /// Some, each in its place.
    Parts(Vec<u8>),
}

/// The calls of a connection.
#[derive(Debug)]
pub struct Calls {
    waiting: VecDeque<Call>,
    /// Calls that are being done; their numbers are the cookies of their requests.
    begun: Table<Begun>,
    /// Payload of the write that is being read, and how many bytes of it were.
    payload: Vec<u8>,
    read: usize,
    /// Calls to be answered, with their errno.
    ended: Vec<(u32, i32)>,
    leaves: bool,
}

impl Calls {
    /// Without any.
    pub(super) const fn new() -> Calls {
        Calls {
            waiting: VecDeque::new(),
            begun: Table::new(u32::MAX),
            payload: Vec::new(),
            read: 0,
            ended: Vec::new(),
            leaves: false,
        }
    }

    /// Another call.
    pub(super) fn push(&mut self, call: Call) {
        self.waiting.push_back(call);
    }

    /// There will be no more calls: the connection ends after those that there are.
    pub(super) const fn leave(&mut self) {
        self.leaves = true;
    }

    /// Whether no call waits to be begun.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether no call waits, and none will come.
    pub(super) fn is_over(&self) -> bool {
        self.leaves && self.waiting.is_empty()
    }

    /// Begins the first call that waits.
    pub(super) fn begin(&mut self) -> Option<Request> {
        let Call { kind, fua, no_hole, offset, length, payload, answer, .. } =
            self.waiting.pop_front()?;
        debug_assert_eq!(payload.len(), if kind == Kind::Write { length as usize } else { 0 });
        let wanted = if kind == Kind::Read { length as usize } else { 0 };
        let begun = Begun { answer, offset, length: wanted, got: Got::Nothing };
        let number = match self.begun.insert(begun) {
            Ok(number) => number,
            Err(begun) => {
                begun.answer.bad(libc::ENOMEM);
                return None;
            }
        };
        (self.payload, self.read) = (payload, 0);
        let fua = if fua { command_flag::FUA } else { 0 };
        let no_hole = if no_hole { command_flag::NO_HOLE } else { 0 };
        let (flags, cookie) = (CommandFlags(fua | no_hole), number.into());
        Some(Request { flags, kind, cookie, offset, length })
    }

    /// Takes the payload of the write that has begun, and how much of it was read.
    pub(super) fn take_payload(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.payload), self.read)
    }

    /// Keeps it until more of it can be read.
    pub(super) fn keep_payload(&mut self, payload: Vec<u8>, read: usize) {
        if read < payload.len() {
            (self.payload, self.read) = (payload, read);
        }
    }

    /// Data of a read, from this byte of the volume on. Returns their memory, unless the answer is
    /// given from it.
    pub(super) fn data(&mut self, number: u64, offset: u64, data: Data) -> Option<Block> {
        let begun = self.begun.at_mut(index_of(number));
        if offset == begun.offset && data.length == begun.length {
            begun.got = Got::Whole(data);
            return None;
        }
        if !matches!(begun.got, Got::Parts(_)) {
            begun.got = Got::Parts(vec![0; begun.length]);
        }
        if let Got::Parts(parts) = &mut begun.got {
            let at = usize::try_from(offset - begun.offset).unwrap_or(usize::MAX);
            parts[at..at + data.length].copy_from_slice(data.bytes());
            tally::copied(data.length);
        }
        Some(data.block)
    }

    /// A call has ended, with this errno of those that NBD has.
    pub(super) fn end(&mut self, number: u64, errno: u32) {
        self.ended.push((index_of(number), i32::try_from(errno).unwrap_or(libc::EIO)));
    }

    /// How many calls are to be answered.
    pub(super) const fn to_answer(&self) -> usize {
        self.ended.len()
    }

    /// Answers those that have ended. The kernel takes every answer at once. Memory that answers
    /// had is given back, its bytes taken off `memory`.
    pub(super) fn answer(&mut self, arena: &mut Arena, memory: &mut u64) {
        for (number, errno) in self.ended.drain(..) {
            let Begun { answer, got, .. } = self.begun.release(number);
            match (errno, &got) {
                (0, Got::Nothing) => answer.good(&[]),
                (0, Got::Whole(data)) => answer.good(data.bytes()),
                (0, Got::Parts(parts)) => answer.good(parts),
                (errno, _) => answer.bad(errno),
            }
            if let Got::Whole(data) = got {
                data.give_back(arena, memory);
            }
        }
    }

    /// The connection goes: what has ended is answered, and no other call is done any more.
    pub(super) fn clear(mut self, arena: &mut Arena, memory: &mut u64) {
        self.answer(arena, memory);
        for number in self.begun.which(|_| true) {
            let Begun { answer, got, .. } = self.begun.release(number);
            answer.bad(libc::EIO);
            if let Got::Whole(data) = got {
                data.give_back(arena, memory);
            }
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for number in self.begun.which(|_| true) {
            self.begun.release(number).answer.bad(libc::EIO);
        }
        for call in self.waiting.drain(..) {
            call.answer.bad(libc::EIO);
        }
    }
}

/// The number of a call, which a request has as its cookie.
fn index_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(super) mod tests;

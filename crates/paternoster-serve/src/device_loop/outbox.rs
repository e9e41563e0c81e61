// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outbox: the only way to a connection's wire; it owns the order of the stream's bytes.
//!
//! ```text
//! whole ──────────────────────────────▶ queue ──▶ wire
//! whole, while a read is open ─▶ behind ──┘  as the read's last byte is in the queue
//! begin, while earlier reads go on ─▶ held ─▶ open, once there are none
//! ```
//!
//! A reply is *whole* when it can be sent as one: a simple reply with all of its data, or a chunk.
//! A simple reply to a read of several fragments is not: after its header only its data may follow.
//! The outbox counts how many bytes it still owes; until they are there every other reply waits.
//! Nothing can be written past that count.
//!
//! What waits behind an open read must not keep it from ending: the read needs memory for its
//! fragments, and what waits may hold memory of its connection. Therefore a read opens only when no
//! earlier read of the connection is under way, and a later one does not begin before it has all
//! its fragments: while it needs memory, no reply with data waits for it. If its first fragment
//! comes earlier, it is *held*.
//!
//! Invariants: I1 the bytes in the queue are whole replies, but for one open read at their end;
//! I2 a reply waits only while a read is open; I3 `said` counts the bytes of all headers and texts
//!    here, each with its segment.
//!
//! Source: `doc/proto.md` of NBD, "Simple reply message".

use std::collections::VecDeque;
use std::io::{self, IoSlice};

#[cfg(test)]
use super::planted::{self, Bug};
use crate::device::arena::{Arena, Block};
use crate::wire::Wire;

/// Slices of one write to a socket.
const SLICES: usize = 128;
/// Bytes of a header that is kept in place.
const HEAD: usize = 40;

/// Data to send: the block, and the first byte and number of bytes in it.
#[derive(Debug)]
pub(super) struct Data {
    pub block: Block,
    pub first: usize,
    pub length: usize,
}

impl Data {
    /// The bytes to send.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.block.bytes()[self.first..self.first + self.length]
    }

    /// They were sent, or never will be: their block goes back, its bytes taken off `memory`.
    pub(super) fn give_back(self, arena: &mut Arena, memory: &mut u64) {
        *memory -= self.block.size() as u64;
        arena.give_back(self.block);
    }
}

/// Something to send.
#[derive(Debug)]
enum Segment {
    /// A header.
    Head([u8; HEAD], u8),
    /// A longer text.
    Text(Vec<u8>),
    Data(Data),
}

impl Segment {
    fn of(text: &[u8]) -> Segment {
        crate::tally::copied(text.len());
        if text.len() > HEAD {
            return Segment::Text(text.to_vec());
        }
        let mut head = [0; HEAD];
        head[..text.len()].copy_from_slice(text);
        #[allow(clippy::cast_possible_truncation, reason = "at most HEAD")]
        Segment::Head(head, text.len() as u8)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Segment::Head(bytes, length) => &bytes[..usize::from(*length)],
            Segment::Text(text) => text,
            Segment::Data(data) => data.bytes(),
        }
    }
}

/// The first fragment of a read whose turn has not come.
#[derive(Debug)]
struct Held {
    head: Segment,
    data: Data,
    owed: u64,
}

/// What is still to be sent to a connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Segment>,
    /// How much of the first segment was sent.
    sent: usize,
    /// Bytes of memory of what is to be sent, without data.
    said: usize,
    /// Bytes of data that the open read still owes; 0: none is open.
    owed: u64,
    /// Replies that wait until the open read is sent.
    behind: VecDeque<Segment>,
    held: Option<Held>,
}

/// A read has begun twice, or has more data than it owes: only its block was taken.
#[derive(Debug)]
pub(super) struct OutOfPlace(pub Block);

impl Outbox {
    /// What another process had to send: the bytes that go now, how many an open read still owes,
    /// and the replies that wait for that read.
    pub(super) fn taken(now: Vec<u8>, owed: u64, behind: Vec<u8>) -> Outbox {
        let said = now.len() + behind.len();
        let segment = |text: Vec<u8>| (!text.is_empty()).then_some(Segment::Text(text));
        let (queue, behind): (VecDeque<_>, VecDeque<_>) =
            (segment(now).into_iter().collect(), segment(behind).into_iter().collect());
        let said = said + (queue.len() + behind.len()) * size_of::<Segment>();
        Outbox { queue, said, owed, behind, ..Outbox::default() }
    }

    /// The same, of what is to be sent here; `None` while a read waits for its turn.
    pub(super) fn to_hand_over(&self) -> Option<(Vec<u8>, u64, Vec<u8>)> {
        if self.held.is_some() {
            return None;
        }
        let mut now: Vec<u8> = Vec::new();
        let mut behind = Vec::new();
        self.queue.iter().for_each(|it| now.extend_from_slice(it.bytes()));
        self.behind.iter().for_each(|it| behind.extend_from_slice(it.bytes()));
        now.drain(..self.sent);
        Some((now, self.owed, behind))
    }

    /// Adds a reply that is whole, or a chunk that is.
    pub(super) fn whole(&mut self, head: &[u8], data: Option<Data>) {
        self.said += Outbox::takes(head.len());
        let queue = if self.must_wait() { &mut self.behind } else { &mut self.queue };
        queue.push_back(Segment::of(head));
        if let Some(data) = data {
            queue.push_back(Segment::Data(data));
        }
    }

    /// Begins a read that brings `length` bytes, of which these are the first. It opens now, or
    /// when [`Outbox::open`] says so.
    ///
    /// # Errors
    /// Another read has begun, or `data` is longer than `length`.
    pub(super) fn begin(
        &mut self,
        head: &[u8],
        data: Data,
        length: u64,
        now: bool,
    ) -> Result<(), OutOfPlace> {
        let Some(owed) = length.checked_sub(data.length as u64) else {
            return Err(OutOfPlace(data.block));
        };
        if self.held.is_some() || (now && self.owed != 0) {
            return Err(OutOfPlace(data.block));
        }
        self.said += Outbox::takes(head.len());
        self.held = Some(Held { head: Segment::of(head), data, owed });
        if now {
            self.open();
        }
        Ok(())
    }

    /// No earlier read is under way: a held one opens. Returns whether one has.
    pub(super) fn open(&mut self) -> bool {
        if self.owed != 0 {
            return false;
        }
        let Some(Held { head, data, owed }) = self.held.take() else { return false };
        self.queue.push_back(head);
        self.queue.push_back(Segment::Data(data));
        self.owed = owed;
        true
    }

    /// More data of the open read.
    ///
    /// # Errors
    /// The open read does not owe that much.
    pub(super) fn go_on(&mut self, data: Data) -> Result<(), OutOfPlace> {
        let Some(owed) = self.owed.checked_sub(data.length as u64) else {
            return Err(OutOfPlace(data.block));
        };
        self.owed = owed;
        self.queue.push_back(Segment::Data(data));
        if owed == 0 {
            self.queue.append(&mut self.behind);
        }
        Ok(())
    }

    /// Whether other replies have to wait.
    fn must_wait(&self) -> bool {
        #[cfg(test)]
        if planted::has(Bug::Interleaves) {
            return false;
        }
        self.is_open()
    }

    /// Whether a read has begun to go out and owes more.
    pub(super) const fn is_open(&self) -> bool {
        self.owed != 0
    }

    /// Whether a read waits for its turn.
    pub(super) const fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Whether there is nothing to send, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.behind.is_empty() && self.held.is_none()
    }

    /// Segments that can be sent now.
    pub(super) fn to_send(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of memory that a reply of this many bytes takes, without data.
    pub(super) const fn takes(reply: usize) -> usize {
        reply + size_of::<Segment>()
    }

    /// Bytes of memory of what is to be sent, without data.
    pub(super) const fn said(&self) -> usize {
        self.said
    }

    /// Sends what the wire takes; returns how many bytes, 0 when there is nothing to send. Blocks
    /// that were sent whole are given back, their bytes taken off `memory`.
    ///
    /// # Errors
    /// The wire's.
    pub(super) fn send(
        &mut self,
        wire: &mut Wire,
        arena: &mut Arena,
        memory: &mut u64,
    ) -> io::Result<usize> {
        if self.queue.is_empty() {
            return Ok(0);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut skip) = (0, self.sent);
        for segment in self.queue.iter().take(SLICES) {
            let bytes = segment.bytes();
            slices[count] = IoSlice::new(&bytes[skip..]);
            (count, skip) = (count + 1, 0);
        }
        let taken = wire.write(&slices[..count])?;
        self.sent += taken;
        while let Some(first) = self.queue.front() {
            let length = first.bytes().len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            match self.queue.pop_front() {
                Some(Segment::Data(data)) => data.give_back(arena, memory),
                #[cfg(test)]
                Some(_) if planted::has(Bug::KeepsHeads) => self.said -= length,
                Some(_) => self.said -= Outbox::takes(length),
                None => {}
            }
        }
        Ok(taken)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self, arena: &mut Arena, memory: &mut u64) {
        let Outbox { queue, behind, held, .. } = std::mem::take(self);
        let data = |segment| if let Segment::Data(data) = segment { Some(data) } else { None };
        let all = queue.into_iter().chain(behind).filter_map(data);
        for data in all.chain(held.map(|held| held.data)) {
            data.give_back(arena, memory);
        }
    }
}

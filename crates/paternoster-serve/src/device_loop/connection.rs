// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection: a client of a loop, once it has chosen its volume.
//!
//! ```text
//! wire  ──▶ receiving (header, payload, cutting) ─┬▶ I/Os ──▶ … ─┬▶ outbox ──▶ wire
//! calls ──▶ receiving (payload, cutting) ─────────┘              └▶ answers ──▶ calls
//! ```
//!
//! A connection whose receiving is blocked is not read from: what it sends stays in its socket, and
//! the client's own writes stop. That is the only back-pressure, and no other client is slowed by
//! it.
//!
//! Invariants: I1 `memory` is the bytes of the blocks that its fragments and answers hold; I2 `ios`
//! counts its I/Os; I3 a closed connection stays, without a link, until its last I/O has ended; I4
//! at most [`SAID`] bytes of answers wait to be sent or are promised to questions for holes, and
//! one more such answer, and a short one for each other I/O.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use paternoster_core::{ClientId, Nanos, Priority};

use super::calls::Calls;
use super::link::Link;
use super::outbox::Outbox;
use super::seats::Seat;
use super::tenants::{BUCKETS, ROOT};
use crate::config::Identity;
use crate::control::snapshot::Figures;
use crate::device::arena::Arena;
use crate::fuse::callers::Caller;
use crate::host::peer::Peer;
use crate::nbd::Negotiated;
use crate::nbd::transmission::{Refusal, Request};
use crate::wire::Wire;

/// I/Os of a connection at a time; more stay in its socket.
pub(super) const IOS: u32 = 512;
/// Bytes that a connection reads ahead at first.
pub(super) const AHEAD: usize = 4096;
/// Bytes of answers, without data, that may wait to be sent or are promised; above that nothing
/// more is read.
pub(super) const SAID: usize = 64 << 10;

/// How far the reading of a connection's requests has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
    /// A header comes next.
    Header,
    /// The payload of this I/O; the fragment that is being filled.
    Payload {
        /// The I/O that is read.
        io: u32,
        /// Which fragment is being filled, if one could be made.
        fragment: Option<u32>,
    },
    /// An I/O without payload, not all of whose fragments have been made.
    Splitting {
        /// The I/O whose payload is read.
        io: u32,
    },
    /// Unwanted payload of a request that is refused after it: a client that is still sending does
    /// not expect an answer.
    Skipping {
        /// Bytes to come.
        left: u64,
    },
    /// It has disconnected, or must go once its I/Os have ended.
    Over,
}

/// Bytes of payload that get memory in advance, for a client that has sent none yet.
pub(super) const PIECE: u64 = 64 << 10;

/// Bytes that must move within a stall's time; fewer count as none. A client that holds much memory
/// must move more: all that it holds within four of these times.
const PACE: u64 = 64 << 10;
const PACES: u64 = 4;

/// Whether a client keeps up: takes the answers that wait for it, or sends the payload it
/// announced.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    since: Option<Nanos>,
    moved: u64,
}

impl Pace {
    /// The client owes something.
    pub(super) const fn owes(&mut self, now: Nanos) {
        if self.since.is_none() {
            *self = Pace { since: Some(now), moved: 0 };
        }
    }

    /// Some of it has moved; `held` bytes of memory are held meanwhile.
    pub(super) fn moved(&mut self, now: Nanos, bytes: usize, held: u64) {
        self.moved += bytes as u64;
        if self.moved >= PACE.max(held / PACES) {
            self.begin_again(now);
        }
    }

    /// The time for what is owed starts now.
    pub(super) fn begin_again(&mut self, now: Nanos) {
        *self = Pace { since: self.since.map(|_| now), moved: 0 };
    }

    /// Notes that nothing is owed any more.
    pub(super) fn paid(&mut self) {
        *self = Pace::default();
    }

    /// Whether something is owed.
    pub(super) const fn is_owing(&self) -> bool {
        self.since.is_some()
    }

    /// Whether too little has moved for too long.
    pub(super) fn is_late(&self, now: Nanos, patience: Nanos) -> bool {
        self.since.is_some_and(|since| since + patience <= now)
    }
}

/// What a connection by calls has in addition to others.
#[derive(Debug)]
pub(super) struct Process {
    /// The caller; `None`: all unknown callers.
    pub caller: Option<Arc<Caller>>,
    /// When its last call came.
    pub used: Nanos,
}

impl Process {
    /// Priority by the caller's ionice.
    pub(super) fn priority(&self) -> Priority {
        self.caller.as_ref().map_or_else(Priority::default, |caller| caller.priority)
    }
}

/// Why a connection is not read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Not blocked: it is read from.
    No,
    /// No memory, fragment or I/O is free.
    Room,
    /// It has as much memory as it may; some of that must come back first.
    Share,
    /// Its tenant has as much of something as it may; some of that must come back first.
    Tenant,
    /// Its tenant has little left: the client must send its payload, or take its answers, first.
    Client,
    /// The queue took no more; a wake will come.
    Queue,
    /// Its tenant, or a group above, is above its cap until then.
    Cap(Nanos),
    /// Its own fragments must end first.
    Own,
    /// Too many of its changes wait for others of their blocks.
    Changes,
    /// Its unsent answers, and those to its questions for holes, must be sent first.
    Unsent,
    /// It moves to another tenant first, when nothing of it is under way.
    Moving,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Numbers connections since the start of the server.
    pub id: u64,
    /// The client, in words.
    pub peer: Peer,
    /// What client and server agreed on.
    pub negotiated: Negotiated,
    /// Index of its volume.
    pub place: u32,
    /// Its tenant, and the one it is to move to.
    pub tenant: u32,
    /// See above.
    pub moves_to: Option<String>,
    /// The identity that rules are applied to; `None`: the connection is never moved.
    pub identity: Option<Identity>,
    /// Device time that it had before it moved, in nanoseconds.
    pub served_before: u64,
    /// The connection's client in the queue.
    pub client: ClientId,
    /// The process, if it makes calls (FUSE).
    pub process: Option<Process>,
    /// Its socket, or calls; `None` once it is closed.
    pub link: Option<Link>,
    /// The state of reading.
    pub receiving: Receiving,
    /// Why it is not read from.
    pub blocked: Blocked,
    /// In which of its tenant's lines it waits for a cap, or was first, and its number there.
    pub nap: Option<(usize, u64)>,
    /// The socket may have more.
    pub readable: bool,
    /// The socket takes more.
    pub writable: bool,
    /// Whether it is in the list of connections to read from.
    pub is_ready: bool,
    /// Whether it is in the list of connections to send to.
    pub is_sending: bool,
    /// Bytes that were read and not yet understood.
    pub rest: Vec<u8>,
    /// How many are read at a time at most, beyond what is certain to be parsed at once.
    pub ahead: usize,
    /// The request to refuse once its payload has been skipped, and why.
    pub refusal: Option<(Request, Refusal)>,
    /// Its requests have large payloads: headers are read alone, payloads straight to their place.
    pub sends_much: bool,
    /// Number of I/Os, and how many of them are reads.
    pub ios: u32,
    /// See above.
    pub reads: u32,
    /// Bytes, at most, of the answers to its questions for holes that are under way.
    pub promised: usize,
    /// Bytes of payload, at most, that get memory in advance.
    pub piece: u64,
    /// Bytes of its next fragment that need not wait for the client (`credit`).
    pub sure: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// How many of them are counted for its tenant.
    pub counted: u64,
    /// Fragments that wait for other changes of the same blocks.
    pub changes_waiting: u32,
    /// Fragments that the queue refused.
    pub refused: VecDeque<u32>,
    /// Replies that are to be sent.
    pub out: Outbox,
    /// How fast it takes its answers, and sends its payload.
    pub takes: Pace,
    /// See above.
    pub brings: Pace,
    /// Its number in its tenant's line of connections that wait for memory, if it is in there.
    pub listed: Option<u64>,
    /// How often in a row there was no memory for it.
    pub hunger: u32,
    /// What the client got.
    pub figures: Figures,
    /// When it came.
    pub came: Nanos,
    /// Its seat among the connections of the server.
    pub _seat: Seat,
}

impl Connection {
    /// A new connection: its number, what was agreed, its link, the bytes read from it, and its
    /// seat. It is the root's, and of the first volume.
    pub(super) fn new(
        (id, peer, negotiated): (u64, Peer, Negotiated),
        (link, input, seat): (Link, Vec<u8>, Seat),
        client: ClientId,
        came: Nanos,
    ) -> Connection {
        Connection {
            id,
            peer,
            negotiated,
            place: 0,
            tenant: ROOT,
            moves_to: None,
            identity: None,
            served_before: 0,
            client,
            process: None,
            link: Some(link),
            receiving: Receiving::Header,
            blocked: Blocked::No,
            nap: None,
            readable: true,
            writable: true,
            is_ready: false,
            is_sending: false,
            rest: input,
            ahead: AHEAD,
            refusal: None,
            sends_much: false,
            ios: 0,
            reads: 0,
            promised: 0,
            piece: PIECE,
            sure: u64::MAX,
            memory: 0,
            counted: 0,
            listed: None,
            changes_waiting: 0,
            refused: VecDeque::new(),
            out: Outbox::default(),
            takes: Pace::default(),
            brings: Pace::default(),
            hunger: 0,
            came,
            figures: Figures { latency_log2_us: vec![0; BUCKETS], ..Figures::default() },
            _seat: seat,
        }
    }

    /// Some, each a client of a queue, by calls, and of this tenant.
    #[cfg(test)]
    pub(super) fn some(tenants: &[u32]) -> Vec<Connection> {
        use paternoster_core::{ClientSpec, DeviceFacts, Limits, NoObserver};

        let noop = paternoster_schedulers::by_name("noop").expect("it is ours");
        let (facts, limits) = (DeviceFacts::default(), Limits::default());
        let mut queue = crate::recorded_queue::RecordedQueue::new(facts, limits, noop, NoObserver)
            .expect("a queue");
        let some = tenants.iter().zip(1..).map(|(&tenant, id)| {
            let client = queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room");
            let negotiated = Negotiated {
                export: "v".to_owned(),
                facts: crate::nbd::ExportFacts::default(),
                structured: true,
                allocation: false,
                block_sizes_known: false,
            };
            let seat = Seat::take(&Arc::default(), u32::MAX).expect("a seat");
            let link = (Link::of_calls(), Vec::new(), seat);
            let who = (id, "a client".to_owned().into(), negotiated);
            Connection { tenant, ..Connection::new(who, link, client, Nanos::ZERO) }
        });
        some.collect()
    }

    /// Whether it has not been closed.
    #[inline]
    pub(super) const fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Its wire, if it is open and has one.
    pub(super) fn wire(&self) -> Option<&Wire> {
        self.link.as_ref().and_then(Link::wire)
    }

    /// Its wire, to read and write.
    pub(super) fn wire_mut(&mut self) -> Option<&mut Wire> {
        match &mut self.link {
            Some(Link::Wire(wire)) => Some(wire),
            _ => None,
        }
    }

    /// Its calls, if it is open and makes some.
    pub(super) fn calls_mut(&mut self) -> Option<&mut Calls> {
        match &mut self.link {
            Some(Link::Calls(calls)) => Some(calls),
            _ => None,
        }
    }

    /// Bytes of answers, without data, that wait to be sent, or will.
    pub(super) const fn says(&self) -> usize {
        self.out.said() + self.promised
    }

    /// Pieces of answers that can be sent now.
    pub(super) fn to_send(&self) -> usize {
        match &self.link {
            Some(Link::Calls(calls)) => calls.to_answer(),
            _ => self.out.to_send(),
        }
    }

    /// Whether none of its requests is under way.
    pub(super) fn is_idle(&self) -> bool {
        let has_told_all = self.out.is_empty() && self.to_send() == 0;
        self.ios == 0 && has_told_all && (!self.takes.is_owing() || !self.is_open())
    }

    /// Sends until the socket is full: only then will it report room again. Gives blocks back.
    /// Returns whether everything was sent.
    ///
    /// # Errors
    /// `WouldBlock`; any other error means that the wire is dead.
    pub(super) fn send(&mut self, arena: &mut Arena, now: Nanos) -> io::Result<bool> {
        let wire = match &mut self.link {
            None => return Ok(true),
            Some(Link::Calls(calls)) => {
                calls.answer(arena, &mut self.memory);
                return Ok(true);
            }
            Some(Link::Wire(wire)) => wire,
        };
        while self.out.to_send() != 0 {
            let taken = self.out.send(wire, arena, &mut self.memory)?;
            self.takes.moved(now, taken, self.memory);
        }
        let all = wire.flush()?;
        if all {
            self.takes.paid();
        }
        Ok(all)
    }

    /// Drops what was to be sent.
    pub(super) fn hang_up(&mut self, arena: &mut Arena) {
        if let Some(Link::Calls(calls)) = self.link.take() {
            calls.clear(arena, &mut self.memory);
        }
        self.receiving = Receiving::Over;
        self.rest = Vec::new();
        self.takes.paid();
        self.brings.paid();
        self.out.clear(arena, &mut self.memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a client late that moves 70 kB in a stall's time and holds much memory? 1 MiB held: a
    /// quarter, 256 KiB, has to move; one that holds next to nothing keeps up with 64 KiB.
    #[test]
    fn who_holds_much_must_move_much() {
        let patience = Nanos::from_secs(60);
        let is_late = |held: u64, moved: usize| {
            let mut pace = Pace::default();
            pace.owes(Nanos::ZERO);
            pace.moved(Nanos::from_secs(30), moved, held);
            pace.is_late(patience, patience)
        };
        assert!(!is_late(4096, 70_000));
        assert!(is_late(4096, 60_000));
        assert!(is_late(1 << 20, 70_000));
        assert!(!is_late(1 << 20, 256 << 10));
    }
}

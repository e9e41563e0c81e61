// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive: from the bytes of a connection's socket to I/Os.
//!
//! Bytes are read into one buffer of the loop, several requests with one call if they are there. A
//! large payload is read straight into the memory that the device will take it from.
//!
//! ```text
//! reads ahead   4 KiB, 8, 16 … 256 KiB   as long as all of it is parsed at once
//!               a quarter, at least 28 B  each time the connection is blocked before the end of it
//! ```
//!
//! Bytes that were read but not parsed yet, because the connection is blocked, stay with it and
//! count as memory of the device: together at most an eighth of that; from then on no connection
//! reads ahead further than one header. Nothing is read from a blocked connection; a tenant's
//! connections are served for its turn (`turns`), then the next tenant's.

use std::io::ErrorKind;

use paternoster_core::Nanos;

use super::DeviceLoop;
use super::caps::Passing;
use super::connection::{AHEAD, Blocked, Connection, IOS, Receiving, SAID};
use super::connection_table::Connections;
use super::cut;
use super::handover;
use super::io_fragment::Io;
use super::requests::Requests;
use super::shared::Shared;
use crate::config::Level;
use crate::device::arena::{LARGEST, PAGE};
use crate::log::Entry;
use crate::nbd::transmission::{self, HEADER, Kind, Refusal, Request};
use crate::tally;
use crate::wire::Wire;

/// Bytes of the loop's reading buffer.
pub(super) const BUFFER: usize = 256 << 10;
/// Bytes of buffer that a connection keeps for unparsed input, even when there is next to none.
const REST: usize = 4096;
/// Payloads from this size on are worth a call of their own.
const LARGE: u32 = 64 << 10;
/// The error a client gets while the server ends.
const ESHUTDOWN: u32 = 108;
const EOVERFLOW: u32 = 75;

/// What a connection needs to be read further.
pub(super) enum Need {
    /// More bytes.
    Bytes,
    /// Something else must happen first.
    Patience,
    /// Its turn is over: other tenants are served first.
    Turn,
}

impl DeviceLoop {
    /// Reads from a connection and executes its requests, for a turn.
    pub(super) fn serve(&mut self, index: u32) {
        if self.connections.at_mut(index).calls_mut().is_some() {
            return self.serve_calls(index);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.serve_with(index, &mut buffer);
        self.buffer = buffer;
        if let Err(reason) = done {
            self.close(index, &reason);
        }
    }

    fn serve_with(&mut self, index: u32, buffer: &mut [u8]) -> Result<(), String> {
        let connection = self.connections.at_mut(index);
        if connection.blocked != Blocked::No || !connection.is_open() {
            return Ok(());
        }
        let rest = std::mem::take(&mut connection.rest);
        self.shared.drops(&rest);
        let mut from = 0;
        let need = self.digest(index, &rest, &mut from)?;
        if !reads_on(&mut self.connections, index, &need, from, rest.len() - from) {
            keep_rest(&mut self.shared, self.connections.at_mut(index), rest, from);
            return Ok(());
        }
        // The rest is less than a header: everything else that has come is parsed.
        let mut end = rest.len() - from;
        buffer[..end].copy_from_slice(&rest[from..]);
        tally::copied(end);
        let mut rest = rest;
        rest.clear();
        loop {
            let room = (&mut self.requests, &self.shared, self.time.now);
            match read_more(self.connections.at_mut(index), room, buffer, &mut end)? {
                0 => break,
                read => {
                    self.connections.turns.hear(read);
                }
            }
            let mut from = 0;
            let need = self.digest(index, &buffer[..end], &mut from)?;
            let goes_on = reads_on(&mut self.connections, index, &need, from, end - from);
            buffer.copy_within(from..end, 0);
            tally::copied(end - from);
            end -= from;
            if !goes_on {
                break;
            }
        }
        rest.extend_from_slice(&buffer[..end]);
        tally::copied(end);
        keep_rest(&mut self.shared, self.connections.at_mut(index), rest, 0);
        Ok(())
    }

    /// Reads from those that have something to be read, each tenant for its turn.
    pub(super) fn hear_all(&mut self) {
        let mut round = self.connections.turns.begin_round();
        while let Some(mut visit) = self.connections.turns.begin(&mut round) {
            while let Some(index) = self.connections.turns.next(&mut visit) {
                tally::looked(1);
                if self.connections.is_live(index) {
                    self.connections.at_mut(index).is_ready = false;
                    self.serve(index);
                    self.connections.turns.take(1);
                }
            }
            self.connections.turns.end(&visit);
        }
    }

    /// Reads from a connection without an event, as if it were ready; returns whether there was
    /// anything.
    pub(super) fn listen(&mut self, index: u32) -> bool {
        if !self.connections.is_live(index) {
            return false;
        }
        let before = self.connections.turns.heard();
        self.connections.at_mut(index).readable = true;
        self.connections.turns.begin_alone();
        self.serve(index);
        // It may have ended.
        self.connections.turns.heard() != before
            || !self.connections.is_live(index)
            || !self.connections.at(index).is_open()
    }

    /// Parses `input` from `from` on, as far as possible.
    fn digest(&mut self, index: u32, input: &[u8], from: &mut usize) -> Result<Need, String> {
        loop {
            if self.is_held(index) {
                return Ok(Need::Patience);
            }
            let is_over = self.connections.turns.is_over();
            let connection = self.connections.at_mut(index);
            match connection.receiving {
                Receiving::Over => return Ok(Need::Patience),
                Receiving::Skipping { left } => {
                    let have = left.min((input.len() - *from) as u64);
                    *from += usize::try_from(have).unwrap_or(0);
                    if have < left {
                        connection.receiving = Receiving::Skipping { left: left - have };
                        return Ok(Need::Bytes);
                    }
                    connection.receiving = Receiving::Header;
                    if let Some((request, refusal)) = connection.refusal.take() {
                        self.refuse(index, &request, refusal.errno, &refusal.text);
                    }
                }
                Receiving::Splitting { .. } | Receiving::Header if is_over => {
                    return Ok(Need::Turn);
                }
                Receiving::Splitting { io } => {
                    if let Some(need) = self.go_on_splitting(index, io) {
                        return Ok(need);
                    }
                }
                Receiving::Payload { io, fragment } => {
                    if let Some(need) = self.fill(index, io, fragment, input, from) {
                        return Ok(need);
                    }
                }
                Receiving::Header => {
                    let Some(header) = input[*from..].first_chunk::<HEADER>() else {
                        return Ok(Need::Bytes);
                    };
                    let request = transmission::parse(header).map_err(|wrong| wrong.to_string())?;
                    if !self.may_begin(index) {
                        return Ok(Need::Patience);
                    }
                    *from += HEADER;
                    self.connections.turns.take(1);
                    if let Some(refusal) = self.begin(index, request) {
                        self.refuse_behind_payload(index, request, refusal);
                    }
                }
            }
        }
    }

    /// Whether a connection must not be read from now.
    pub(super) fn is_held(&self, index: u32) -> bool {
        let it = self.connections.at(index);
        it.blocked != Blocked::No
            || !it.is_open()
            || (self.handover.is_asked() && handover::holds_back(it))
    }

    /// Makes further fragments of an I/O without payload; what is needed if not all of it is
    /// fragments then.
    pub(super) fn go_on_splitting(&mut self, index: u32, io: u32) -> Option<Need> {
        if !self.split(io) {
            let is_blocked = self.connections.at(index).blocked != Blocked::No;
            return Some(if is_blocked { Need::Patience } else { Need::Turn });
        }
        let connection = self.connections.at_mut(index);
        // Its end may have closed the connection.
        if connection.is_open() {
            connection.receiving = Receiving::Header;
        }
        None
    }

    /// Moves payload to its fragment; `None` when there is more to parse.
    pub(super) fn fill(
        &mut self,
        index: u32,
        io: u32,
        fragment: Option<u32>,
        input: &[u8],
        from: &mut usize,
    ) -> Option<Need> {
        let Some(place) = fragment.or_else(|| self.next_fragment(io, input.len() - *from)) else {
            return Some(Need::Patience);
        };
        let fragment = self.requests.fragment_mut(place);
        let wanted = (fragment.length - fragment.filled) as usize;
        let have = wanted.min(input.len() - *from);
        let to = fragment.skew() + fragment.filled as usize;
        if let Some(block) = &mut fragment.block {
            block.bytes_mut()[to..to + have].copy_from_slice(&input[*from..*from + have]);
            tally::copied(have);
        }
        *from += have;
        let connection = self.connections.at_mut(index);
        connection.brings.moved(self.time.now, have, connection.memory);
        #[allow(clippy::cast_possible_truncation, reason = "at most the fragment's length")]
        {
            fragment.filled += have as u32;
        }
        if fragment.filled < fragment.length {
            connection.brings.owes(self.time.now);
            connection.receiving = Receiving::Payload { io, fragment: Some(place) };
            return Some(Need::Bytes);
        }
        connection.brings.paid();
        // It sends what it announces: more memory at a time.
        connection.piece = (2 * connection.piece).min(LARGEST as u64);
        let io_now = self.requests.io(io);
        let is_last = io_now.cut == u64::from(io_now.request.length);
        self.connections.at_mut(index).receiving =
            if is_last { Receiving::Header } else { Receiving::Payload { io, fragment: None } };
        self.enqueue(place);
        None
    }

    /// Whether a request may come now; otherwise the connection is blocked.
    pub(super) fn may_begin(&mut self, index: u32) -> bool {
        let connection = self.connections.at_mut(index);
        if connection.moves_to.is_some() {
            self.connections.block(index, Blocked::Moving);
            return false;
        }
        if connection.says() >= SAID {
            self.connections.block(index, Blocked::Unsent);
            return false;
        }
        let tenant = connection.tenant;
        // It waits for something that it holds itself, or that others of its tenant hold.
        let has_room =
            connection.ios < IOS && self.shared.queue_limit.has_room(self.tenants.at(tenant));
        if !has_room || !self.shared.has_io(tenant) {
            self.connections.block(index, Blocked::Tenant);
            return false;
        }
        if self.requests.ios().is_full() {
            self.connections.block(index, Blocked::Room);
            return false;
        }
        self.is_within_caps(index, Passing::Request)
    }

    /// Whether the caps of a connection's tenant let something pass; otherwise the connection is
    /// blocked.
    ///
    /// While a volume is drained, or the server stops, accepted requests do not wait.
    pub(super) fn is_within_caps(&mut self, index: u32, what: Passing) -> bool {
        let connection = self.connections.at_mut(index);
        let ends = self.stop.is_on() || self.volumes.is_drained(connection.place);
        if !self.naps.is_capped() || ends {
            return true;
        }
        match self.naps.is_within(&self.tenants, self.time.now, (index, connection), what) {
            Ok(()) => true,
            Err(until) => {
                self.connections.block(index, Blocked::Cap(until));
                false
            }
        }
    }

    /// Begins an I/O; returns why not, if it is to be refused.
    pub(super) fn begin(&mut self, index: u32, request: Request) -> Option<Refusal> {
        let connection = self.connections.at_mut(index);
        let place = self.volumes.at(connection.place);
        if self.settings.verbose {
            Entry::new(Level::Debug, "request").tell(format_args!(
                "{} {} {} {}+{} flags {:#x}",
                place.name,
                connection.peer,
                request.kind.name(),
                request.offset,
                request.length,
                request.flags.0
            ));
        }
        // A server that stops answers what it has accepted, and nothing else: a client that
        // reconnects sends the rest again. A refusal would be a disk error for it.
        if request.kind == Kind::Disconnect || self.stop.is_on() {
            connection.receiving = Receiving::Over;
            self.leave_when_idle(index);
            return None;
        }
        let refusal = if self.volumes.is_drained(connection.place) {
            let text = "the volume is being drained".to_owned();
            Some(Refusal { errno: ESHUTDOWN, text })
        } else {
            let checked = transmission::check(&request, &connection.negotiated);
            checked.err().or_else(|| {
                let sectors = self.recorded_queue.queue().max_sectors();
                too_long(&request, cut::most(place, sectors))
            })
        };
        connection.sends_much = request.kind == Kind::Write && request.length >= LARGE;
        if let Some(refusal) = refusal {
            #[cfg(test)]
            if super::planted::has(super::planted::Bug::ChargesRefused) {
                let data = Passing::Data(u64::from(request.length));
                self.naps.charge(&mut self.tenants, connection.tenant, self.time.now, data);
            }
            return Some(refusal);
        }
        let (now, tenant) = (self.time.now, self.connections.at(index).tenant);
        self.naps.charge(&mut self.tenants, tenant, now, Passing::Request);
        // There is room: that was checked before.
        let _begun = self.begin_io(Io::new(index, request, now));
        None
    }

    /// Refuses a request once its payload, which comes in any case, has been skipped.
    fn refuse_behind_payload(&mut self, index: u32, request: Request, refusal: Refusal) {
        let left = u64::from(request.payload());
        if left == 0 {
            return self.refuse(index, &request, refusal.errno, &refusal.text);
        }
        let connection = self.connections.at_mut(index);
        connection.receiving = Receiving::Skipping { left };
        connection.refusal = Some((request, refusal));
    }

    /// An I/O of a connection begins; false if there is no room for it.
    pub(super) fn begin_io(&mut self, made: Io) -> bool {
        let (index, kind, promised) = (made.connection, made.request.kind, made.promises());
        let Some(io) = self.requests.begin(made) else { return false };
        self.shared.begin_io(self.connections.at(index).tenant);
        let connection = self.connections.at_mut(index);
        connection.ios += 1;
        connection.reads += u32::from(kind == Kind::Read);
        connection.promised += promised;
        self.volumes.begins(connection.place);
        connection.receiving = match kind {
            Kind::Write => Receiving::Payload { io, fragment: None },
            _ => Receiving::Splitting { io },
        };
        true
    }
}

/// Whether a connection is read from now; otherwise it is served again later, or when what it
/// waits for has come. `understood` bytes were parsed, `left` bytes are left.
fn reads_on(
    connections: &mut Connections,
    index: u32,
    need: &Need,
    understood: usize,
    left: usize,
) -> bool {
    let connection = connections.at_mut(index);
    match need {
        Need::Patience if left > 0 => connection.ahead = (connection.ahead / 4).max(HEADER),
        // The rest is moved each time.
        Need::Turn if left > AHEAD => connection.ahead = (connection.ahead / 4).max(AHEAD),
        Need::Bytes if understood != 0 => connection.ahead = (2 * connection.ahead).min(BUFFER),
        Need::Bytes | Need::Patience | Need::Turn => {}
    }
    let has_more = connection.readable && connection.is_open();
    let is_over = connections.turns.is_over();
    if matches!(need, Need::Turn) || (matches!(need, Need::Bytes) && has_more && is_over) {
        connections.make_ready(index);
        return false;
    }
    has_more && matches!(need, Need::Bytes)
}

/// Keeps what was read from a connection and is not parsed yet: `rest` from `from` on.
fn keep_rest(shared: &mut Shared, connection: &mut Connection, mut rest: Vec<u8>, from: usize) {
    if !connection.is_open() {
        return;
    }
    if from > 0 {
        rest.drain(..from);
        tally::copied(rest.len());
    }
    // Kept memory is counted by capacity: a large buffer is not held for a few bytes.
    if rest.capacity() > REST.max(2 * rest.len()) {
        rest.shrink_to(REST.min(rest.len()));
    }
    shared.keeps(&rest);
    connection.rest = rest;
}

/// Reads once: into the fragment that is being filled, or after what is in the buffer.
fn read_more(
    connection: &mut Connection,
    (requests, shared, now): (&mut Requests, &Shared, Nanos),
    buffer: &mut [u8],
    end: &mut usize,
) -> Result<usize, String> {
    if *end == 0
        && let Some(read) = read_straight(connection, requests, now)?
    {
        return Ok(read);
    }
    let room = shared.ahead();
    let Some(straight) = connection.wire().map(Wire::reads_straight) else { return Ok(0) };
    let skipped = match connection.receiving {
        Receiving::Skipping { left } => usize::try_from(left).unwrap_or(BUFFER),
        _ => 0,
    };
    let ahead = match usize::try_from(room) {
        _ if connection.sends_much && straight => HEADER,
        Ok(room) => connection.ahead.min(room).max(HEADER),
        Err(_) => connection.ahead,
    };
    let most = end.saturating_add(skipped).saturating_add(ahead).min(buffer.len());
    if *end == most {
        return Ok(0);
    }
    let Some(wire) = connection.wire_mut() else { return Ok(0) };
    let read = wire.read(&mut buffer[*end..most]);
    let read = took(read, &mut connection.readable)?;
    // A short read means that the socket is empty; its next bytes cause another event.
    if straight && read < most - *end {
        connection.readable = false;
    }
    *end += read;
    Ok(read)
}

/// Reads payload to where the device will take it from.
fn read_straight(
    connection: &mut Connection,
    requests: &mut Requests,
    now: Nanos,
) -> Result<Option<usize>, String> {
    let Receiving::Payload { fragment: Some(fragment), .. } = connection.receiving else {
        return Ok(None);
    };
    let Some(wire) = connection.wire_mut().filter(|wire| wire.reads_straight()) else {
        return Ok(None);
    };
    let fragment = requests.fragment_mut(fragment);
    let from = fragment.skew() + fragment.filled as usize;
    let to = fragment.skew() + fragment.length as usize;
    let Some(block) = &mut fragment.block else { return Ok(None) };
    let read = took(wire.read(&mut block.bytes_mut()[from..to]), &mut connection.readable)?;
    if read < to - from {
        connection.readable = false;
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most the fragment's length")]
    {
        fragment.filled += read as u32;
    }
    connection.brings.moved(now, read, connection.memory);
    Ok(Some(read))
}

/// The refusal of a read that must be sent in one piece, and is longer than a piece.
fn too_long(request: &Request, most: u64) -> Option<Refusal> {
    // It may begin within a block.
    let is_long = u64::from(request.length) + PAGE as u64 > most;
    (request.kind == Kind::Read && request.flags.df() && is_long).then(|| {
        let text = format!("{} bytes do not go out in one piece", request.length);
        Refusal { errno: EOVERFLOW, text }
    })
}

/// How many bytes a read returned; 0 when there was nothing now.
fn took(read: std::io::Result<usize>, readable: &mut bool) -> Result<usize, String> {
    match read {
        Ok(0) => Err(String::new()),
        Ok(read) => Ok(read),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            *readable = false;
            Ok(0)
        }
        Err(error) => Err(error.to_string()),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intake: from the bytes of a guest's socket to errands.
//!
//! Bytes are read into one buffer of the desk, several requests with one call if they are there. A
//! large payload is read straight into the memory that the device will take it from.
//!
//! ```text
//! reads ahead   4 KiB, 8, 16 … 256 KiB   as long as all of it is understood at once
//!               a quarter, at least 28 B  each time the guest is blocked before the end of it
//! ```
//!
//! What was read and is not understood yet, because the guest is blocked, stays with it, and is
//! memory of the device: all of it together is an eighth of that at most, and then no guest reads
//! further ahead than one header. Nothing is read from a guest that is blocked; those of a tenant
//! are served for its turn (`turns`), and then the next one's are.

use std::io::ErrorKind;

use super::Desk;
use super::caps::Passing;
use super::errand::Errand;
use super::guest::{Blocked, ERRANDS, Intake, SAID};
use super::turns::steps_of;
use crate::config::Level;
use crate::device::arena::{LARGEST, PAGE};
use crate::log::Entry;
use crate::nbd::transmission::{self, HEADER, Kind, Refusal, Request};
use crate::tally;

/// Bytes of the desk's reading buffer.
pub(super) const BUFFER: usize = 256 << 10;
/// Bytes that a guest reads ahead at first.
pub(super) const AHEAD: usize = 4096;
/// Part of the memory that may be what was read from guests and is not understood yet.
const RESTS: u64 = 8;
/// Bytes that a guest keeps for what was not understood yet, when it is next to nothing.
const REST: usize = 4096;
/// Payloads from this on are worth a call of their own.
const LARGE: u32 = 64 << 10;
/// What a client is told while the server ends.
const ESHUTDOWN: u32 = 108;
const EOVERFLOW: u32 = 75;

/// What reading needs to go on.
enum Need {
    /// More bytes.
    Bytes,
    /// Something else first.
    Patience,
    /// Others are heard first.
    Turn,
}

impl Desk {
    /// Reads from a guest and does what it says, for a turn.
    pub(super) fn serve(&mut self, index: u32) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.serve_with(index, &mut buffer);
        self.buffer = buffer;
        if let Err(reason) = done {
            self.close(index, &reason);
        }
    }

    fn serve_with(&mut self, index: u32, buffer: &mut [u8]) -> Result<(), String> {
        let guest = self.guests.at_mut(index);
        if guest.blocked != Blocked::No || guest.wire.is_none() {
            return Ok(());
        }
        let rest = std::mem::take(&mut guest.rest);
        self.rests -= rest.len() as u64;
        let mut from = 0;
        let need = self.digest(index, &rest, &mut from)?;
        if !self.reads_on(index, &need, from, rest.len() - from) {
            self.keep_rest(index, rest, from);
            return Ok(());
        }
        // What is left of it is less than a header: all else is understood as far as it is there.
        let mut end = rest.len() - from;
        buffer[..end].copy_from_slice(&rest[from..]);
        tally::copied(end);
        let mut rest = rest;
        rest.clear();
        loop {
            match self.read_more(index, buffer, &mut end)? {
                0 => break,
                read => {
                    self.heard += read as u64;
                    self.turns.take(steps_of(read));
                }
            }
            let mut from = 0;
            let need = self.digest(index, &buffer[..end], &mut from)?;
            let goes_on = self.reads_on(index, &need, from, end - from);
            buffer.copy_within(from..end, 0);
            tally::copied(end - from);
            end -= from;
            if !goes_on {
                break;
            }
        }
        rest.extend_from_slice(&buffer[..end]);
        tally::copied(end);
        self.keep_rest(index, rest, 0);
        Ok(())
    }

    /// Whether a guest is read from now; otherwise it is heard again later, or when what it waits
    /// for has come. So many bytes were understood, and so many are left.
    fn reads_on(&mut self, index: u32, need: &Need, understood: usize, left: usize) -> bool {
        let guest = self.guests.at_mut(index);
        match need {
            Need::Patience if left > 0 => guest.ahead = (guest.ahead / 4).max(HEADER),
            // It is moved each time.
            Need::Turn if left > AHEAD => guest.ahead = (guest.ahead / 4).max(AHEAD),
            Need::Bytes if understood != 0 => guest.ahead = (2 * guest.ahead).min(BUFFER),
            Need::Bytes | Need::Patience | Need::Turn => {}
        }
        let has_more = guest.readable && guest.wire.is_some();
        let is_over = self.turns.is_over();
        if matches!(need, Need::Turn) || (matches!(need, Need::Bytes) && has_more && is_over) {
            self.make_ready(index);
            return false;
        }
        has_more && matches!(need, Need::Bytes)
    }

    /// Keeps what was read from a guest and is not understood yet: `rest` from `from` on.
    fn keep_rest(&mut self, index: u32, mut rest: Vec<u8>, from: usize) {
        let guest = self.guests.at_mut(index);
        if guest.wire.is_none() {
            return;
        }
        if from > 0 {
            rest.drain(..from);
            tally::copied(rest.len());
        }
        // Memory is counted by what is kept: what was read far ahead is not held for a few bytes.
        if rest.capacity() > REST.max(2 * rest.len()) {
            rest.shrink_to(REST.min(rest.len()));
        }
        self.rests += rest.len() as u64;
        guest.rest = rest;
    }

    /// Reads once: to the part that is being filled, or behind what is in the buffer.
    fn read_more(
        &mut self,
        index: u32,
        buffer: &mut [u8],
        end: &mut usize,
    ) -> Result<usize, String> {
        if *end == 0
            && let Some(read) = self.read_straight(index)?
        {
            return Ok(read);
        }
        let room = (self.arena.length() as u64 / RESTS).saturating_sub(self.rests);
        let guest = self.guests.at_mut(index);
        let Some(wire) = &mut guest.wire else { return Ok(0) };
        let straight = wire.reads_straight();
        let skipped = match guest.intake {
            Intake::Skipping { left } => usize::try_from(left).unwrap_or(BUFFER),
            _ => 0,
        };
        let ahead = match usize::try_from(room) {
            _ if guest.sends_much && straight => HEADER,
            Ok(room) => guest.ahead.min(room).max(HEADER),
            Err(_) => guest.ahead,
        };
        let most = end.saturating_add(skipped).saturating_add(ahead).min(buffer.len());
        if *end == most {
            return Ok(0);
        }
        let read = wire.read(&mut buffer[*end..most]);
        let read = took(read, &mut guest.readable)?;
        // A short answer means that the socket is empty; its next bytes ring again.
        if straight && read < most - *end {
            guest.readable = false;
        }
        *end += read;
        Ok(read)
    }

    /// Reads payload to where the device will take it from.
    fn read_straight(&mut self, index: u32) -> Result<Option<usize>, String> {
        let guest = self.guests.at_mut(index);
        let Intake::Payload { part: Some(part), .. } = guest.intake else { return Ok(None) };
        let Some(wire) = guest.wire.as_mut().filter(|wire| wire.reads_straight()) else {
            return Ok(None);
        };
        let now = self.now;
        let part = self.parts.at_mut(part);
        let from = part.skew() + part.filled as usize;
        let to = part.skew() + part.length as usize;
        let Some(block) = &mut part.block else { return Ok(None) };
        let read = took(wire.read(&mut block.bytes_mut()[from..to]), &mut guest.readable)?;
        if read < to - from {
            guest.readable = false;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most the part's length")]
        {
            part.filled += read as u32;
        }
        guest.brings.moved(now, read, guest.memory);
        Ok(Some(read))
    }

    /// Understands what is in `input` from `from` on, as far as it can.
    fn digest(&mut self, index: u32, input: &[u8], from: &mut usize) -> Result<Need, String> {
        loop {
            let is_held_back = self.holds_back(index);
            let guest = self.guests.at_mut(index);
            if guest.blocked != Blocked::No || guest.wire.is_none() || is_held_back {
                return Ok(Need::Patience);
            }
            match guest.intake {
                Intake::Over => return Ok(Need::Patience),
                Intake::Skipping { left } => {
                    let have = left.min((input.len() - *from) as u64);
                    *from += usize::try_from(have).unwrap_or(0);
                    if have < left {
                        guest.intake = Intake::Skipping { left: left - have };
                        return Ok(Need::Bytes);
                    }
                    guest.intake = Intake::Header;
                    if let Some((request, refusal)) = guest.refusal.take() {
                        self.refuse(index, &request, refusal.errno, &refusal.text);
                    }
                }
                Intake::Cutting { .. } | Intake::Header if self.turns.is_over() => {
                    return Ok(Need::Turn);
                }
                Intake::Cutting { errand } => {
                    if !self.cut(errand) {
                        let is_blocked = self.guests.at(index).blocked != Blocked::No;
                        return Ok(if is_blocked { Need::Patience } else { Need::Turn });
                    }
                    let guest = self.guests.at_mut(index);
                    // Its end may have been that of the connection.
                    if guest.wire.is_some() {
                        guest.intake = Intake::Header;
                    }
                }
                Intake::Payload { errand, part } => {
                    if let Some(need) = self.fill(index, errand, part, input, from) {
                        return Ok(need);
                    }
                }
                Intake::Header => {
                    let Some(header) = input[*from..].first_chunk::<HEADER>() else {
                        return Ok(Need::Bytes);
                    };
                    let request = transmission::parse(header).map_err(|wrong| wrong.to_string())?;
                    if self.holds_for_move(index) || !self.admit(index) {
                        return Ok(Need::Patience);
                    }
                    *from += HEADER;
                    self.turns.take(1);
                    self.begin(index, request);
                }
            }
        }
    }

    /// Moves payload to the part that it belongs to; `None` when there is more to understand.
    fn fill(
        &mut self,
        index: u32,
        errand: u32,
        part: Option<u32>,
        input: &[u8],
        from: &mut usize,
    ) -> Option<Need> {
        let Some(place) = part.or_else(|| self.next_part(errand, input.len() - *from)) else {
            return Some(Need::Patience);
        };
        let part = self.parts.at_mut(place);
        let wanted = (part.length - part.filled) as usize;
        let have = wanted.min(input.len() - *from);
        let to = part.skew() + part.filled as usize;
        if let Some(block) = &mut part.block {
            block.bytes_mut()[to..to + have].copy_from_slice(&input[*from..*from + have]);
            tally::copied(have);
        }
        *from += have;
        let guest = self.guests.at_mut(index);
        guest.brings.moved(self.now, have, guest.memory);
        #[allow(clippy::cast_possible_truncation, reason = "at most the part's length")]
        {
            part.filled += have as u32;
        }
        if part.filled < part.length {
            guest.brings.owes(self.now);
            guest.intake = Intake::Payload { errand, part: Some(place) };
            return Some(Need::Bytes);
        }
        guest.brings.paid();
        // It brings what it says: more at a time.
        guest.piece = (2 * guest.piece).min(LARGEST as u64);
        let errand_now = self.errands.at(errand);
        let is_last = errand_now.cut == u64::from(errand_now.request.length);
        self.guests.at_mut(index).intake =
            if is_last { Intake::Header } else { Intake::Payload { errand, part: None } };
        self.enqueue(place);
        None
    }

    /// Whether a request may come now; otherwise the guest is blocked.
    fn admit(&mut self, index: u32) -> bool {
        let guest = self.guests.at_mut(index);
        if guest.out.said() >= SAID {
            self.block(index, Blocked::Unsent);
            return false;
        }
        let tenant = guest.tenant;
        // What it waits for is its own, or its tenant's others have it.
        let has_room = guest.errands < ERRANDS && self.bound.has_room(self.tenants.at(tenant));
        if !has_room || !self.pools.errands.has_one_for(tenant) {
            self.block(index, Blocked::Tenant);
            return false;
        }
        if self.errands.is_full() {
            self.block(index, Blocked::Room);
            return false;
        }
        self.is_within_caps(index, Passing::Request)
    }

    /// Begins an errand, or refuses it.
    fn begin(&mut self, index: u32, request: Request) {
        let part_most = self.part_most(index);
        let guest = self.guests.at_mut(index);
        let place = &self.places[guest.place as usize];
        if self.verbose {
            Entry::new(Level::Debug, "request").tell(format_args!(
                "{} {} {} {}+{} flags {:#x}",
                place.name,
                guest.peer,
                request.kind.name(),
                request.offset,
                request.length,
                request.flags.0
            ));
        }
        // A server that stops answers what it has accepted, and nothing else: a client that
        // connects again sends it again. Refused, it would be an error of its disk.
        if request.kind == Kind::Disconnect || self.stopping {
            guest.intake = Intake::Over;
            return self.leave_when_idle(index);
        }
        let refusal = if self.drained[guest.place as usize].is_drained() {
            let text = "the volume is being drained".to_owned();
            Some(Refusal { errno: ESHUTDOWN, text })
        } else {
            let checked = transmission::check(&request, &guest.negotiated);
            checked.err().or_else(|| too_long(&request, part_most))
        };
        guest.sends_much = request.kind == Kind::Write && request.length >= LARGE;
        if let Some(refusal) = refusal {
            #[cfg(test)]
            if super::planted::has(super::planted::Bug::ChargesRefused) {
                self.charge(index, Passing::Data(u64::from(request.length)));
            }
            let guest = self.guests.at_mut(index);
            let left = u64::from(request.payload());
            if left == 0 {
                return self.refuse(index, &request, refusal.errno, &refusal.text);
            }
            guest.intake = Intake::Skipping { left };
            guest.refusal = Some((request, refusal));
            return;
        }
        self.charge(index, Passing::Request);
        let made = Errand {
            guest: index,
            request,
            arrived: self.now,
            cut: 0,
            left: 0,
            answered: 0,
            error: 0,
            then_flush: request.flags.fua() && matches!(request.kind, Kind::Trim),
            silent: false,
        };
        // There is room: it was looked for before.
        let Ok(key) = self.errands.insert(made) else { return };
        self.count_errand(self.guests.at(index).tenant, 0, 1);
        let errand = key;
        let guest = self.guests.at_mut(index);
        guest.errands += 1;
        guest.reads += u32::from(request.kind == Kind::Read);
        self.drained[self.guests.at(index).place as usize].under_way += 1;
        self.guests.at_mut(index).intake = match request.kind {
            Kind::Write => Intake::Payload { errand, part: None },
            _ => Intake::Cutting { errand },
        };
    }

    /// A guest is not read from until something happens.
    pub(super) fn block(&mut self, index: u32, why: Blocked) {
        let guest = self.guests.at_mut(index);
        guest.blocked = why;
        match why {
            Blocked::Room => self.hungry.push_back(index),
            Blocked::Tenant | Blocked::Client if !guest.is_listed => {
                guest.is_listed = true;
                self.tenants.at_mut(guest.tenant).waiting.push_back(index);
            }
            Blocked::No
            | Blocked::Cap(_)
            | Blocked::Tenant
            | Blocked::Client
            | Blocked::Queue
            | Blocked::Own
            | Blocked::Share
            | Blocked::Changes
            | Blocked::Unsent
            | Blocked::Moving => {}
        }
    }

    /// What blocked a guest has gone.
    pub(super) fn unblock(&mut self, index: u32) {
        self.guests.at_mut(index).blocked = Blocked::No;
        self.make_ready(index);
    }

    /// Parts that end make room: as many of those who wait for it as have ended look again.
    pub(super) fn feed_the_hungry(&mut self) {
        let meals = std::mem::take(&mut self.freed).saturating_mul(2);
        for _ in 0..meals.min(self.hungry.len()) {
            let Some(index) = self.hungry.pop_front() else { return };
            if self.guests.is_live(index) && self.guests.at(index).blocked == Blocked::Room {
                self.unblock(index);
            }
        }
    }
}

/// A read that must come in one piece, and is longer than a piece.
fn too_long(request: &Request, most: u64) -> Option<Refusal> {
    // It may begin within a block.
    let is_long = u64::from(request.length) + PAGE as u64 > most;
    (request.kind == Kind::Read && request.flags.df() && is_long).then(|| {
        let text = format!("{} bytes do not go out in one piece", request.length);
        Refusal { errno: EOVERFLOW, text }
    })
}

/// What a read brought; 0 when there was nothing now.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting: from errands to parts, and from parts to bios of the queue.
//!
//! ```text
//! WRITE_ZEROES 100 … 5000, blocks of 512
//!   [100..512)  written as zeroes, after its block was read
//!   [512..4608) zeroed
//!   [4608..5000) as the first
//! ```
//!
//! A client may ask for any byte; files are asked for whole blocks. A read takes whole blocks and
//! tells what was meant. A write that begins or ends within a block reads the block first; while
//! it does, other changes of that block wait, and it waits for those that were before it: also
//! those of another volume that shares the file, if it is on the same device. (Another device has a
//! desk of its own, another server knows of nobody here.)
//!
//! Invariants: I1 two changes of one block are never with the queue together if one of them reads
//! first; I2 parts of an errand follow each other without gap.

use paternoster_core::{Bio, Flags, Op, SubmitError};

use super::Desk;
use super::caps::Passing;
use super::errand::{Errand, Part, Step};
use super::guest::Blocked;
use super::range_lock::Mode;
use crate::device::Work;
use crate::device::arena::{LARGEST, PAGE};
use crate::nbd::transmission::Kind;

/// So often who is hungry asks for the same again before it asks for half of it.
const PATIENT: u32 = 8;
/// By then it asks for the least: 2^-20 of anything is less than a page.
const HUNGRIEST: u32 = 20 * PATIENT;
/// So many parts of the largest size fit into the memory that is free; if there are fewer, parts
/// are smaller.
const PIECES: u64 = 32;
/// A part of zeroes or to be forgotten needs no memory, but the queue sees one command in it.
const MOST: u64 = LARGEST as u64;
/// Bytes of a part at most that is done at once, in the desk's own time. A write has been read in
/// turns by then.
const AT_ONCE: u64 = 256 << 10;
/// What a question for holes costs: as much as a read of so many bytes.
const QUESTION: u64 = 64 << 10;
/// Parts of a guest that may wait for other changes of their blocks; more stay in its socket.
pub(super) const CHANGES_WAITING: u32 = 128;
const EIO: i32 = 5;

impl Desk {
    /// Makes parts of an errand without payload; whether it is all parts now.
    pub(super) fn cut(&mut self, errand: u32) -> bool {
        loop {
            let now = self.errands.at(errand);
            if now.error != 0 && now.cut < u64::from(now.request.length) {
                // Nothing can come of the rest.
                let now = self.errands.at_mut(errand);
                now.cut = u64::from(now.request.length);
                continue;
            }
            let whole = now.request.kind == Kind::Flush && now.left == 0 && now.cut == 0;
            if !whole && now.cut == u64::from(now.request.length) {
                if now.left == 0 {
                    self.end_errand(errand);
                }
                return true;
            }
            // Without structured replies data go out in order: one part at a time, and none behind
            // the first before that may go out.
            let guest = self.guests.at(now.guest);
            if now.request.kind == Kind::Read
                && !guest.negotiated.structured
                && (now.left != 0 || guest.out.is_holding())
            {
                self.guests.at_mut(self.errands.at(errand).guest).blocked = Blocked::Own;
                return false;
            }
            let Some(part) = self.next_part(errand, 0) else { return false };
            self.enqueue(part);
            if whole {
                if self.errands.at(errand).left == 0 {
                    self.end_errand(errand);
                }
                return true;
            }
            let now = self.errands.at(errand);
            let is_all = now.cut == u64::from(now.request.length);
            let guest = now.guest;
            self.turns.take(1);
            if !is_all && (self.turns.is_over() || self.guests.at(guest).blocked != Blocked::No) {
                return false;
            }
        }
    }

    /// The next part of an errand, with its memory; `None` when there is no room, and the guest is
    /// blocked then. `there`: bytes of its payload that were read.
    pub(super) fn next_part(&mut self, errand: u32, there: usize) -> Option<u32> {
        self.look_at_credit(errand, there);
        let part = self.measure(errand);
        let Errand { guest, request, cut, .. } = *self.errands.at(errand);
        let data = Passing::Data(part.length.into());
        let moves_data = matches!(request.kind, Kind::Read | Kind::Write);
        // A read whose first data have gone is not held up: other replies wait behind the last.
        let has_begun =
            request.kind == Kind::Read && cut != 0 && self.guests.at(guest).out.is_open();
        if moves_data && !has_begun && !self.is_within_caps(guest, data) {
            return None;
        }
        if request.kind.modifies() && self.guests.at(guest).changes_waiting >= CHANGES_WAITING {
            self.block(guest, Blocked::Changes);
            return None;
        }
        if moves_data && self.awaits_client(guest, &part) {
            return None;
        }
        let needs_memory = matches!(part.work, Work::Read | Work::Write { .. });
        let bytes = if needs_memory { part.span as usize } else { 0 };
        let has_share = bytes as u64 <= self.allowance(guest);
        let tenant = self.guests.at(guest).tenant;
        let has_place = self.pools.parts.has_one_for(tenant);
        if self.parts.is_full() || !has_share || !has_place {
            let has_memory = self.guests.at(guest).memory != 0;
            let why = match () {
                () if self.parts.is_full() => Blocked::Room,
                () if has_place && has_memory => Blocked::Share,
                // Others of its tenant have what it wants.
                () => Blocked::Tenant,
            };
            self.block(guest, why);
            return None;
        }
        let mut part = part;
        if needs_memory {
            if !self.give_memory(errand, &mut part) {
                return self.starve(guest);
            }
            self.guests.at_mut(guest).hunger = 0;
            if request.kind == Kind::WriteZeroes
                && let Some(block) = &mut part.block
            {
                block.bytes_mut()[..part.span as usize].fill(0);
                part.filled = part.length;
            }
        }
        if moves_data {
            self.charge(guest, Passing::Data(part.length.into()));
        }
        let made = self.errands.at_mut(errand);
        made.cut += u64::from(part.length);
        made.left += 1;
        let key = self.parts.insert(part).unwrap_or_else(|_| unreachable!("there was room"));
        self.count_part(tenant, 0, 1);
        Some(key)
    }

    /// Gives a part its memory; whether there was any. What is guaranteed to a tenant is free, and
    /// what is kept from those that wait for their clients, but perhaps in small pieces alone: then
    /// the part becomes smaller, and does not wait.
    fn give_memory(&mut self, errand: u32, part: &mut Part) -> bool {
        let guest = self.errands.at(errand).guest;
        loop {
            let bytes = part.span as usize;
            if let Some(block) = self.take_memory(guest, bytes) {
                if part.reads_first {
                    part.edges = self.take_memory(guest, bytes);
                }
                if !part.reads_first || part.edges.is_some() {
                    part.block = Some(block);
                    return true;
                }
                self.give_back(guest, block);
            }
            let tenant = self.guests.at(guest).tenant;
            let is_owed = self.pools.memory.owed_to(tenant) != 0 || self.is_short(tenant);
            let hunger = &mut self.guests.at_mut(guest).hunger;
            if !is_owed || *hunger >= HUNGRIEST {
                return false;
            }
            *hunger += PATIENT;
            let smaller = self.measure(errand);
            if smaller.span < part.span {
                *part = smaller;
            }
        }
    }

    /// There is no memory for a part: its guest waits for some, and wants less if it waits often.
    fn starve(&mut self, guest: u32) -> Option<u32> {
        self.guests.at_mut(guest).hunger += 1;
        self.block(guest, Blocked::Room);
        None
    }

    /// Bytes of a part of this guest at most: what the queue takes at a time, in whole blocks.
    pub(super) fn part_most(&self, guest: u32) -> u64 {
        let block = u64::from(self.places[self.guests.at(guest).place as usize].facts.block);
        let queue = u64::from(self.ledger.queue().max_sectors()) * 512;
        (MOST.min(queue) / block * block).max(block)
    }

    /// As [`Desk::part_most`], but less while memory is short, so that many find some; and for who
    /// is hungry: small pieces of memory come back all the time, and are taken at once by those
    /// who want small ones; a large one never would.
    fn appetite(&self, errand: u32) -> u64 {
        let errand = self.errands.at(errand);
        let guest = self.guests.at(errand.guest);
        let most = self.part_most(errand.guest);
        let in_one_piece = errand.request.kind == Kind::Read && errand.request.flags.df();
        if in_one_piece {
            return most;
        }
        let most = match errand.request.kind {
            Kind::Write => most.min(guest.piece),
            _ if self.at_once => most.min(AT_ONCE),
            _ => most,
        };
        let block = u64::from(self.places[guest.place as usize].facts.block).max(PAGE as u64);
        let free = self.free_memory().min(self.may_get(errand.guest));
        let fair = most.min((free / PIECES).max(1).next_power_of_two());
        let sure = guest.sure / block * block;
        (fair >> (guest.hunger / PATIENT).min(20)).min(sure).max(block).min(most)
    }

    /// What the next part of an errand is, without memory.
    fn measure(&self, errand: u32) -> Part {
        let now = self.errands.at(errand);
        let request = &now.request;
        let place = &self.places[self.guests.at(now.guest).place as usize];
        let block = u64::from(place.facts.block);
        let offset = request.offset + now.cut;
        let left = u64::from(request.length) - now.cut;
        let fua = request.flags.fua();
        let (skew, to_block) = (offset % block, block - offset % block);
        let ragged_zero = request.kind == Kind::WriteZeroes && (skew != 0 || left < block);
        let work = match request.kind {
            Kind::Read => Work::Read,
            // A question is a read of its place to the queue, and has no memory either.
            Kind::Cache | Kind::BlockStatus => Work::Prefetch,
            Kind::Trim => Work::Discard,
            Kind::WriteZeroes if !ragged_zero => {
                Work::Zero { may_unmap: !request.flags.no_hole(), fua }
            }
            Kind::Flush => Work::Flush,
            _ => Work::Write { fua },
        };
        let most = self.appetite(errand);
        let length = match work {
            Work::Flush => 0,
            Work::Prefetch if request.kind == Kind::BlockStatus => left,
            Work::Zero { .. } => (left / block * block).min(most),
            Work::Write { .. } if ragged_zero => left.min(to_block),
            _ => left.min(most - skew),
        };
        let start = offset - skew;
        let mut span = (skew + length).next_multiple_of(block).min(place.size - start);
        if request.kind == Kind::BlockStatus {
            span = span.min(QUESTION.min(most));
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most LARGEST")]
        let (length, span) = (length as u32, span as u32);
        let span = if work == Work::Flush { 0 } else { span };
        Part::new(errand, work, (offset, length), (start, span), place.on_line(0))
    }

    /// Gives a part that is complete to the queue, or makes it wait for others of its blocks.
    pub(super) fn enqueue(&mut self, index: u32) {
        let part = self.parts.at(index);
        // What is forgotten is a hint: what is not a whole block of it is not forgotten.
        if part.work == Work::Discard && part.is_ragged() && !self.shrink(index) {
            return self.end_part(index, 0);
        }
        let part = self.parts.at(index);
        if part.is_change() {
            let mode = if part.reads_first { Mode::Exclusive } else { Mode::Shared };
            let range = part.on_line..part.on_line + u64::from(part.span);
            if !self.changes.lock(index, range, mode) {
                self.parts.at_mut(index).step = Step::Excluded;
                let guest = self.errands.at(self.parts.at(index).errand).guest;
                self.guests.at_mut(guest).changes_waiting += 1;
                return;
            }
        }
        self.submit(index);
    }

    /// Leaves the whole blocks of a part; whether there are any.
    fn shrink(&mut self, index: u32) -> bool {
        let part = self.parts.at_mut(index);
        let guest = self.errands.at(part.errand).guest;
        let place = &self.places[self.guests.at(guest).place as usize];
        let block = u64::from(place.facts.block);
        let start = part.offset.next_multiple_of(block);
        let end = (part.offset + u64::from(part.length)) / block * block;
        part.start = start;
        part.on_line = place.on_line(start);
        #[allow(clippy::cast_possible_truncation, reason = "at most the part's length")]
        {
            part.span = end.saturating_sub(start) as u32;
        }
        part.span != 0
    }

    /// Gives a part to the queue; if it takes no more, the guest waits for its wake.
    pub(super) fn submit(&mut self, index: u32) {
        let part = self.parts.at(index);
        let Errand { guest: guest_index, ref request, .. } = *self.errands.at(part.errand);
        let guest = self.guests.at(guest_index);
        if guest.wire.is_none() {
            return self.end_part(index, EIO);
        }
        let place = &self.places[guest.place as usize];
        let (op, flags) = match part.work {
            _ if part.reads_first => (Op::Read, Flags::NOMERGE),
            // What was cut stays cut.
            Work::Read if self.at_once && u64::from(part.span) >= AT_ONCE => {
                (Op::Read, Flags::NOMERGE)
            }
            Work::Read => (Op::Read, Flags::NONE),
            Work::Prefetch if request.kind == Kind::BlockStatus => {
                (Op::Read, Flags::NOIDLE | Flags::NOMERGE)
            }
            Work::Prefetch => (Op::Read, Flags::AHEAD | Flags::NOMERGE),
            Work::Write { fua: true } => (Op::Write, Flags::SYNC | Flags::FUA),
            Work::Write { fua: false } => (Op::Write, Flags::SYNC),
            Work::Zero { fua: true, .. } => (Op::Write, Flags::SYNC | Flags::FUA | Flags::NOMERGE),
            Work::Zero { fua: false, .. } => (Op::Write, Flags::SYNC | Flags::NOMERGE),
            Work::Discard => (Op::Discard, Flags::NOMERGE),
            Work::Flush => (Op::Flush, Flags::NONE),
        };
        let sector = if op == Op::Flush { 0 } else { place.sector(part.start) };
        let bio = Bio::new(guest.client, op, sector, part.span / 512)
            .flags(flags)
            .cookie(u64::from(index));
        match self.ledger.submit(self.now, bio) {
            Ok(ticket) => {
                let part = self.parts.at_mut(index);
                part.step = Step::Queued;
                part.ticket = Some(ticket);
                self.tenants.at_mut(self.guests.at(guest_index).tenant).under_way += 1;
            }
            Err(SubmitError::Busy) => {
                self.parts.at_mut(index).step = Step::Refused;
                let guest = self.guests.at_mut(guest_index);
                guest.refused.push_back(index);
                guest.blocked = Blocked::Queue;
            }
            Err(error) => {
                // The desk made the bio: that it is wrong is its own mistake, not the client's.
                debug_assert!(false, "a bio of the desk was refused: {error}");
                self.end_part(index, EIO);
            }
        }
    }

    /// The queue has room for a client that it refused.
    pub(super) fn wake(&mut self, guest: u32) {
        self.guests.at_mut(guest).blocked = Blocked::No;
        while let Some(part) = self.guests.at_mut(guest).refused.pop_front() {
            self.submit(part);
            if self.guests.at(guest).blocked == Blocked::Queue {
                // It stands at the end now; it was the first.
                self.guests.at_mut(guest).refused.rotate_right(1);
                return;
            }
        }
        self.make_ready(guest);
    }

    /// A change has ended: those that waited for it, and for nothing else, go on.
    ///
    /// Those that end on the way do not begin this once more within itself: a client could make it
    /// as deep as it likes.
    pub(super) fn let_changes_go(&mut self) {
        if std::mem::replace(&mut self.letting_go, true) {
            return;
        }
        while let Some(part) = self.changes.next_granted() {
            self.waits_no_more(part);
            self.submit(part);
        }
        self.letting_go = false;
    }

    /// A part waits for no other change any more.
    pub(super) fn waits_no_more(&mut self, index: u32) {
        let part = self.parts.at_mut(index);
        part.step = Step::Refused;
        let owner = self.errands.at(part.errand).guest;
        let guest = self.guests.at_mut(owner);
        guest.changes_waiting -= 1;
        if guest.blocked == Blocked::Changes {
            self.unblock(owner);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split: from I/Os to fragments, and from fragments to bios of the queue.
//!
//! ```text
//! WRITE_ZEROES 100 … 5000, blocks of 512
//!   [100..512)  written as zeroes, after its block was read
//!   [512..4608) zeroed
//!   [4608..5000) as the first
//! ```
//!
//! A client may ask for any byte; files are asked for whole blocks. A read reads whole blocks and
//! returns the bytes requested. A write that begins or ends within a block reads the block first;
//! meanwhile, later changes of that block wait for it, and it waits for earlier ones: also those of
//! another volume that shares the file, if it is on the same device. (Another device has a loop of
//! its own; another server does not know of these clients.)
//!
//! Invariants: I1 two changes of one block are never in the queue together if one of them reads
//! first; I2 fragments of an I/O are contiguous.

use paternoster_core::{Bio, Flags, Op, SubmitError};

use super::DeviceLoop;
use super::caps::Passing;
use super::connection::Blocked;
use super::credit;
use super::io_fragment::{Fragment, Io, Step};
use crate::device::Work;
use crate::device::arena::{LARGEST, PAGE};
use crate::nbd::transmission::Kind;

/// A connection short of memory asks for the same amount this often before it asks for half.
const PATIENT: u32 = 8;
/// By then it asks for the least: 2^-20 of anything is less than a page.
const HUNGRIEST: u32 = 20 * PATIENT;
/// While free memory fits this many fragments of the largest size, fragments are that large; below
/// that they are smaller.
const PIECES: u64 = 32;
/// A fragment of zeroes or of a discard needs no memory, but the queue sees one command in it.
const MOST: u64 = LARGEST as u64;
/// Bytes, at most, of a fragment that is done at once, in the loop's own time. A write's payload
/// has been read in turns by then.
const AT_ONCE: u64 = 256 << 10;
/// A question for holes costs as much as a read of this many bytes.
const QUESTION: u64 = 64 << 10;
/// Fragments of a connection that may wait for other changes of their blocks; more stay in its
/// socket.
pub(super) const CHANGES_WAITING: u32 = 128;
const EIO: i32 = 5;

impl DeviceLoop {
    /// Makes fragments of an I/O without payload; returns whether all of it is fragments now.
    pub(super) fn split(&mut self, io: u32) -> bool {
        loop {
            let now = self.requests.io(io);
            if now.error != 0 && now.cut < u64::from(now.request.length) {
                // The rest cannot succeed.
                let now = self.requests.io_mut(io);
                now.cut = u64::from(now.request.length);
                continue;
            }
            let whole = now.request.kind == Kind::Flush && now.left == 0 && now.cut == 0;
            if !whole && now.cut == u64::from(now.request.length) {
                if now.left == 0 {
                    self.end_io(io);
                }
                return true;
            }
            // Without structured replies data go out in order: one fragment at a time, and none
            // after the first before that may be sent.
            let connection = self.connections.at(now.connection);
            if now.request.kind == Kind::Read
                && !connection.negotiated.structured
                && (now.left != 0 || connection.out.is_holding())
            {
                self.connections.at_mut(self.requests.io(io).connection).blocked = Blocked::Own;
                return false;
            }
            let Some(fragment) = self.next_fragment(io, 0) else { return false };
            self.enqueue(fragment);
            if whole {
                if self.requests.io(io).left == 0 {
                    self.end_io(io);
                }
                return true;
            }
            let now = self.requests.io(io);
            let is_all = now.cut == u64::from(now.request.length);
            let connection = now.connection;
            self.connections.turns.take(1);
            if !is_all
                && (self.connections.turns.is_over()
                    || self.connections.at(connection).blocked != Blocked::No)
            {
                return false;
            }
        }
    }

    /// The next fragment of an I/O, with its memory; `None` when there is no room; the connection
    /// is then blocked. `there`: bytes of its payload already read.
    pub(super) fn next_fragment(&mut self, io: u32, there: usize) -> Option<u32> {
        let Io { connection, ref request, .. } = *self.requests.io(io);
        let client = self.connections.at(connection);
        let is_short = self.shared.is_short(client.tenant);
        let sure = if is_short { credit::sure(client, request, there) } else { u64::MAX };
        self.connections.at_mut(connection).sure = sure;
        let fragment = self.measure(io);
        let Io { connection, request, cut, .. } = *self.requests.io(io);
        let data = Passing::Data(fragment.length.into());
        let moves_data = matches!(request.kind, Kind::Read | Kind::Write);
        // A read whose first data were sent is not held up: other replies wait for its last data.
        let has_begun =
            request.kind == Kind::Read && cut != 0 && self.connections.at(connection).out.is_open();
        if moves_data && !has_begun && !self.is_within_caps(connection, data) {
            return None;
        }
        if request.kind.modifies()
            && self.connections.at(connection).changes_waiting >= CHANGES_WAITING
        {
            self.connections.block(connection, Blocked::Changes);
            return None;
        }
        if moves_data && self.awaits_client(connection, &fragment) {
            return None;
        }
        let needs_memory = matches!(fragment.work, Work::Read | Work::Write { .. });
        let bytes = if needs_memory { fragment.span as usize } else { 0 };
        let has_share = bytes as u64 <= self.shared.allowance(self.connections.at(connection));
        let tenant = self.connections.at(connection).tenant;
        let has_place = self.shared.has_fragment(tenant);
        if self.requests.fragments().is_full() || !has_share || !has_place {
            let has_memory = self.connections.at(connection).memory != 0;
            let why = match () {
                () if self.requests.fragments().is_full() => Blocked::Room,
                () if has_place && has_memory => Blocked::Share,
                // Other connections of its tenant have the memory.
                () => Blocked::Tenant,
            };
            self.connections.block(connection, why);
            return None;
        }
        let mut fragment = fragment;
        if needs_memory {
            if !self.give_memory(io, &mut fragment) {
                return self.starve(connection);
            }
            self.connections.at_mut(connection).hunger = 0;
            if request.kind == Kind::WriteZeroes
                && let Some(block) = &mut fragment.block
            {
                block.bytes_mut()[..fragment.span as usize].fill(0);
                fragment.filled = fragment.length;
            }
        }
        if moves_data {
            self.charge(connection, Passing::Data(fragment.length.into()));
        }
        self.requests.io_mut(io).cut += u64::from(fragment.length);
        let key = self.requests.add(fragment).unwrap_or_else(|| unreachable!("there was room"));
        self.shared.begin_fragment(tenant);
        Some(key)
    }

    /// Gives a fragment its memory; returns whether there was any. What is guaranteed to a tenant
    /// is free, and so is what may not wait for clients, but perhaps only in small pieces: then the
    /// fragment becomes smaller, and does not wait.
    fn give_memory(&mut self, io: u32, fragment: &mut Fragment) -> bool {
        let connection = self.requests.io(io).connection;
        loop {
            let bytes = fragment.span as usize;
            if let Some(block) = self.shared.take(&mut self.connections, connection, bytes) {
                if fragment.reads_first {
                    fragment.edges = self.shared.take(&mut self.connections, connection, bytes);
                }
                if !fragment.reads_first || fragment.edges.is_some() {
                    fragment.block = Some(block);
                    return true;
                }
                self.shared.give_back(&mut self.connections, connection, block);
            }
            let tenant = self.connections.at(connection).tenant;
            let is_owed = self.shared.is_owed(tenant);
            let hunger = &mut self.connections.at_mut(connection).hunger;
            if !is_owed || *hunger >= HUNGRIEST {
                return false;
            }
            *hunger += PATIENT;
            let smaller = self.measure(io);
            if smaller.span < fragment.span {
                *fragment = smaller;
            }
        }
    }

    /// Whether a fragment would wait for its client; checked again when the client makes progress.
    fn awaits_client(&mut self, index: u32, fragment: &Fragment) -> bool {
        let now = self.time.now;
        let connection = self.connections.at_mut(index);
        if !credit::is_beyond(fragment, connection.sure) {
            return false;
        }
        let reads = fragment.work == Work::Read;
        let pace = if reads { &mut connection.takes } else { &mut connection.brings };
        pace.owes(now);
        let has_memory = connection.memory != 0;
        self.connections.block(index, Blocked::Client);
        // A read with memory is looked at again when that comes back.
        if reads && !has_memory {
            self.await_room(index);
        }
        true
    }

    /// There is no memory for a fragment: its connection waits for some, and asks for less if it
    /// waits often.
    fn starve(&mut self, connection: u32) -> Option<u32> {
        self.connections.at_mut(connection).hunger += 1;
        self.connections.block(connection, Blocked::Room);
        None
    }

    /// Bytes, at most, of a fragment of this connection: what the queue takes at a time, in whole
    /// blocks.
    pub(super) fn fragment_most(&self, connection: u32) -> u64 {
        let block = u64::from(self.volumes.at(self.connections.at(connection).place).facts.block);
        let queue = u64::from(self.recorded_queue.queue().max_sectors()) * 512;
        (MOST.min(queue) / block * block).max(block)
    }

    /// As [`DeviceLoop::fragment_most`], but less while memory is short, so that many find some;
    /// and for a connection that has waited often: small pieces of memory come back all the time,
    /// and small requests take them at once, so a large one might never be free.
    fn appetite(&self, io: u32) -> u64 {
        let io = self.requests.io(io);
        let connection = self.connections.at(io.connection);
        let most = self.fragment_most(io.connection);
        let in_one_piece = io.request.kind == Kind::Read && io.request.flags.df();
        if in_one_piece {
            return most;
        }
        let most = match io.request.kind {
            Kind::Write => most.min(connection.piece),
            _ if self.commands.are_done_at_once() => most.min(AT_ONCE),
            _ => most,
        };
        let block = u64::from(self.volumes.at(connection.place).facts.block).max(PAGE as u64);
        let free = self.shared.free().min(self.shared.may_get(connection.tenant));
        let fair = most.min((free / PIECES).max(1).next_power_of_two());
        let sure = connection.sure / block * block;
        (fair >> (connection.hunger / PATIENT).min(20)).min(sure).max(block).min(most)
    }

    /// The next fragment of an I/O, without memory.
    fn measure(&self, io: u32) -> Fragment {
        let now = self.requests.io(io);
        let request = &now.request;
        let place = self.volumes.at(self.connections.at(now.connection).place);
        let block = u64::from(place.facts.block);
        let offset = request.offset + now.cut;
        let left = u64::from(request.length) - now.cut;
        let fua = request.flags.fua();
        let (skew, to_block) = (offset % block, block - offset % block);
        let ragged_zero = request.kind == Kind::WriteZeroes && (skew != 0 || left < block);
        let work = match request.kind {
            Kind::Read => Work::Read,
            // To the queue a question is a read of its place; it has no memory either.
            Kind::Cache | Kind::BlockStatus => Work::Prefetch,
            Kind::Trim => Work::Discard,
            Kind::WriteZeroes if !ragged_zero => {
                Work::Zero { may_unmap: !request.flags.no_hole(), fua }
            }
            Kind::Flush => Work::Flush,
            _ => Work::Write { fua },
        };
        let most = self.appetite(io);
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
        Fragment::new(io, work, (offset, length), (start, span), place.on_line(0))
    }

    /// Gives a fragment that is complete to the queue, or makes it wait for others of its blocks.
    pub(super) fn enqueue(&mut self, index: u32) {
        let fragment = self.requests.fragment(index);
        // A discard is a hint: partial blocks at its ends are not discarded.
        if fragment.work == Work::Discard && fragment.is_ragged() && !self.shrink(index) {
            return self.end_fragment(index, 0);
        }
        if !self.requests.lock(index) {
            let owner = self.requests.owner(index);
            self.connections.at_mut(owner).changes_waiting += 1;
            return;
        }
        self.submit(index);
    }

    /// Reduces a fragment to its whole blocks; returns whether there are any.
    fn shrink(&mut self, index: u32) -> bool {
        let place = self.volumes.at(self.connections.at(self.requests.owner(index)).place);
        let fragment = self.requests.fragment_mut(index);
        let block = u64::from(place.facts.block);
        let start = fragment.offset.next_multiple_of(block);
        let end = (fragment.offset + u64::from(fragment.length)) / block * block;
        fragment.start = start;
        fragment.on_line = place.on_line(start);
        #[allow(clippy::cast_possible_truncation, reason = "at most the fragment's length")]
        {
            fragment.span = end.saturating_sub(start) as u32;
        }
        fragment.span != 0
    }

    /// Gives a fragment to the queue; if it takes no more, the connection waits for its wake.
    pub(super) fn submit(&mut self, index: u32) {
        let fragment = self.requests.fragment(index);
        let Io { connection: connection_index, ref request, .. } = *self.requests.io(fragment.io);
        let connection = self.connections.at(connection_index);
        if connection.wire.is_none() {
            return self.end_fragment(index, EIO);
        }
        let place = self.volumes.at(connection.place);
        let (op, flags) = match fragment.work {
            _ if fragment.reads_first => (Op::Read, Flags::NOMERGE),
            // Fragments that were cut keep their size.
            Work::Read
                if self.commands.are_done_at_once() && u64::from(fragment.span) >= AT_ONCE =>
            {
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
        let sector = if op == Op::Flush { 0 } else { place.sector(fragment.start) };
        let bio = Bio::new(connection.client, op, sector, fragment.span / 512)
            .flags(flags)
            .cookie(u64::from(index));
        match self.recorded_queue.submit(self.time.now, bio) {
            Ok(ticket) => {
                let fragment = self.requests.fragment_mut(index);
                fragment.step = Step::Queued;
                fragment.ticket = Some(ticket);
                self.tenants.at_mut(self.connections.at(connection_index).tenant).under_way += 1;
            }
            Err(SubmitError::Busy) => {
                self.requests.fragment_mut(index).step = Step::Refused;
                let connection = self.connections.at_mut(connection_index);
                connection.refused.push_back(index);
                connection.blocked = Blocked::Queue;
            }
            Err(error) => {
                // The loop made the bio: if it is invalid, that is the loop's bug, not the
                // client's.
                debug_assert!(false, "a bio of the loop was refused: {error}");
                self.end_fragment(index, EIO);
            }
        }
    }

    /// The queue has room for a client that it refused.
    pub(super) fn wake(&mut self, connection: u32) {
        self.connections.at_mut(connection).blocked = Blocked::No;
        while let Some(fragment) = self.connections.at_mut(connection).refused.pop_front() {
            self.submit(fragment);
            if self.connections.at(connection).blocked == Blocked::Queue {
                // It is at the end now; it was the first.
                self.connections.at_mut(connection).refused.rotate_right(1);
                return;
            }
        }
        self.connections.make_ready(connection);
    }

    /// A change has ended: those that waited for it, and for nothing else, go on.
    ///
    /// Changes that end meanwhile do not call this recursively: a client could make the recursion
    /// as deep as it likes.
    pub(super) fn let_changes_go(&mut self) {
        if !self.requests.begin_release() {
            return;
        }
        while let Some(fragment) = self.requests.next_granted() {
            self.waits_no_more(fragment);
            self.submit(fragment);
        }
    }

    /// A fragment no longer waits for any other change.
    pub(super) fn waits_no_more(&mut self, index: u32) {
        self.requests.fragment_mut(index).step = Step::Refused;
        let owner = self.requests.owner(index);
        self.connections.at_mut(owner).changes_waiting -= 1;
        self.connections.unblock_if(owner, |why| why == Blocked::Changes);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split: from I/Os to fragments, and from fragments to bios of the queue.
//!
//! ```text
//! I/O ─▶ may it? caps, other changes, its client, its share ─▶ memory ─▶ fragment
//! fragment, complete ─▶ other changes of its blocks ─▶ bio ─▶ queue, or its connection waits
//! ```
//!
//! What a fragment is `cut` says. A write that begins or ends within a block reads the block first;
//! meanwhile later changes of that block wait for it, as it waits for earlier ones. That includes
//! changes by another volume that shares the file, if it is on the same device. (Another device has
//! a loop of its own; another server does not know of these clients.)
//!
//! Invariants: I1 two changes of one block are never in the queue together if one of them reads
//! first; I2 fragments of an I/O are contiguous.

use paternoster_core::SubmitError;

use super::DeviceLoop;
use super::caps::Passing;
use super::connection::Blocked;
use super::credit;
use super::cut::{self, HUNGRIEST, PATIENT, Room};
use super::io_fragment::{Fragment, Io, Step};
use crate::device::Work;
use crate::nbd::transmission::Kind;
use crate::wire::Wire;

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
                // It waits for some, and asks for less if it waits often.
                self.connections.at_mut(connection).hunger += 1;
                self.connections.block(connection, Blocked::Room);
                return None;
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
            let data = Passing::Data(fragment.length.into());
            self.naps.charge(&mut self.tenants, tenant, self.time.now, data);
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
        if reads && connection.memory == 0 && connection.wire().is_some_and(Wire::takes_more) {
            // Its client has nothing to take, and it needs more than its socket may ever take at
            // once: it waits for its tenant to have plenty. The socket would ring at once, and
            // again and again.
            self.connections.block(index, Blocked::Tenant);
            return true;
        }
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

    /// The next fragment of an I/O, without memory.
    fn measure(&self, io: u32) -> Fragment {
        let it = self.requests.io(io);
        let connection = self.connections.at(it.connection);
        let room = Room {
            sectors: self.recorded_queue.queue().max_sectors(),
            free: self.shared.free().min(self.shared.may_get(connection.tenant)),
            at_once: self.commands.are_done_at_once(),
        };
        cut::next((io, it), connection, self.volumes.at(connection.place), &room)
    }

    /// Gives a fragment that is complete to the queue, or makes it wait for others of its blocks.
    pub(super) fn enqueue(&mut self, index: u32) {
        let fragment = self.requests.fragment(index);
        if fragment.work == Work::Discard && fragment.is_ragged() {
            let owner = self.connections.at(self.requests.owner(index));
            let place = self.volumes.at(owner.place);
            if !cut::shrink(self.requests.fragment_mut(index), place) {
                return self.end_fragment(index, 0);
            }
        }
        if !self.requests.lock(index) {
            let owner = self.requests.owner(index);
            self.connections.at_mut(owner).changes_waiting += 1;
            return;
        }
        self.submit(index);
    }

    /// Gives a fragment to the queue; if it takes no more, the connection waits for its wake.
    pub(super) fn submit(&mut self, index: u32) {
        let fragment = self.requests.fragment(index);
        let Io { connection: connection_index, ref request, .. } = *self.requests.io(fragment.io);
        let connection = self.connections.at(connection_index);
        if !connection.is_open() {
            return self.end_fragment(index, EIO);
        }
        let (place, at_once) =
            (self.volumes.at(connection.place), self.commands.are_done_at_once());
        let bio = cut::bio((index, fragment), request.kind, connection.client, place, at_once);
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
            self.connections.change_goes_on(self.requests.owner(fragment));
            self.requests.fragment_mut(fragment).step = Step::Refused;
            self.submit(fragment);
        }
    }
}

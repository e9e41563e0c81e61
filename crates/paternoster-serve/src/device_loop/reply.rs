// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reply: the ends of fragments and I/Os, and the replies to the client.
//!
//! With structured replies each fragment of a read goes out as it ends, with its offset; the last
//! one says so. Without them, data go out in order after one header; an error after it can only be
//! reported by hanging up. The outbox ensures that nothing else comes in between.
//!
//! Invariants: I1 every I/O is answered once, or its connection has gone; I2 an I/O is answered
//! after all its fragments have ended.

use super::DeviceLoop;
use super::connection::{Blocked, Receiving, SAID};
use super::io_fragment::{Fragment, Io, Step};
use super::outbox::{Data, OutOfPlace};
use super::tenants::BUCKETS;
use crate::control::snapshot::Figures;
use crate::device::Work;
use crate::device::arena::Block;
use crate::nbd::block_status::Descriptors;
use crate::nbd::reply;
use crate::nbd::transmission::{Kind, Request};
use crate::nbd::wire::ALLOCATION_ID;

impl DeviceLoop {
    /// A fragment has ended: done, or with an errno of Linux.
    pub(super) fn end_fragment(&mut self, index: u32, error: i32) {
        if self.fragments.at(index).step == Step::Excluded {
            self.waits_no_more(index);
        }
        let mut fragment = self.fragments.release(index);
        self.freed += 1;
        let io = self.ios.at_mut(fragment.io);
        let connection = io.connection;
        io.left -= 1;
        if error != 0 && io.error == 0 {
            io.error = error;
        }
        self.count_fragment(self.connections.at(connection).tenant, 1, 0);
        if let Some(edges) = fragment.edges.take() {
            self.give_back(connection, edges);
        }
        if let Some(block) = fragment.block.take() {
            if fragment.work == Work::Read && error == 0 && self.wants_data(fragment.io) {
                self.answer_data(&fragment, block);
            } else {
                self.give_back(connection, block);
            }
        }
        if self.ios.at(fragment.io).request.kind == Kind::BlockStatus && error == 0 {
            self.answer_extents(&fragment);
        }
        if fragment.is_change() {
            self.changes.unlock(index);
            self.let_changes_go();
        }
        self.fragment_has_ended(fragment.io);
    }

    /// Whether data of an I/O are sent. Without structured replies none are once it has failed.
    fn wants_data(&self, io: u32) -> bool {
        let io = self.ios.at(io);
        let connection = self.connections.at(io.connection);
        connection.wire.is_some() && (connection.negotiated.structured || io.error == 0)
    }

    /// Updates its I/O.
    fn fragment_has_ended(&mut self, index: u32) {
        let io = self.ios.at(index);
        let (owner, left) = (io.connection, io.left);
        let connection = self.connections.at(owner);
        match connection.receiving {
            // The code that cuts it goes on and ends it.
            Receiving::Splitting { io } if io == index => {
                let was_waiting = connection.blocked == Blocked::Own;
                was_waiting.then(|| self.unblock(owner));
            }
            // Its payload is still coming.
            Receiving::Payload { io, .. } if io == index => {}
            _ if left == 0 => self.end_io(index),
            _ => {}
        }
    }

    /// All fragments have ended.
    pub(super) fn end_io(&mut self, index: u32) {
        let io = self.ios.at_mut(index);
        let connection = io.connection;
        if io.then_flush && io.error == 0 && self.connections.at(connection).wire.is_some() {
            io.then_flush = false;
            if self.flush_behind(index) {
                return;
            }
        }
        let io = self.ios.release(index);
        self.count_io(self.connections.at(connection).tenant, 1, 0);
        self.volumes.ended(self.connections.at(connection).place);
        self.count(&io);
        let now = self.connections.at_mut(connection);
        now.ios -= 1;
        if now.wire.is_some() && !io.silent {
            self.answer_end(&io);
        }
        if io.request.kind == Kind::Read {
            self.read_has_ended(connection);
        }
        self.freed += 1;
        self.leave_when_idle(connection);
    }

    /// A flush after what was done; returns whether there was room for its fragment.
    fn flush_behind(&mut self, index: u32) -> bool {
        let fragment = Fragment::new(index, Work::Flush, (0, 0), (0, 0), 0);
        let Ok(key) = self.fragments.insert(fragment) else {
            self.ios.at_mut(index).error = 12;
            return false;
        };
        let io = self.ios.at_mut(index);
        io.left += 1;
        let connection = io.connection;
        self.count_fragment(self.connections.at(connection).tenant, 0, 1);
        self.submit(key);
        true
    }

    fn count(&mut self, io: &Io) {
        let passed = (self.now - io.arrived).0;
        let connection = self.connections.at_mut(io.connection);
        add(&mut connection.figures, io, passed);
        let tenant = self.tenants.at_mut(connection.tenant);
        add(&mut tenant.figures, io, passed);
    }

    /// Data of a fragment that has ended.
    fn answer_data(&mut self, fragment: &Fragment, block: Block) {
        let io = self.ios.at_mut(fragment.io);
        let index = io.connection;
        let connection = self.connections.at_mut(index);
        let (cookie, whole) = (io.request.cookie, u64::from(io.request.length));
        let data = Data { block, first: fragment.skew(), length: fragment.length as usize };
        io.answered += 1;
        self.unsent += fragment.length / 4096;
        self.head.clear();
        let placed = if connection.negotiated.structured {
            let is_last = io.cut == whole && io.left == 0 && io.error == 0;
            io.silent = is_last;
            reply::data(&mut self.head, cookie, fragment.offset, fragment.length, is_last);
            connection.out.whole(&self.head, Some(data));
            Ok(())
        } else if io.answered != 1 {
            connection.out.go_on(data)
        } else {
            reply::simple(&mut self.head, cookie, 0);
            if u64::from(fragment.length) == whole {
                connection.out.whole(&self.head, Some(data));
                Ok(())
            } else {
                connection.out.begin(&self.head, data, whole, connection.reads == 1)
            }
        };
        if let Err(OutOfPlace(block)) = placed {
            debug_assert!(
                false,
                "a read has its turn before it begins, and its fragments one by one"
            );
            // It is answered in part and has failed: its connection will be closed.
            io.error = libc::EIO;
            return self.give_back(index, block);
        }
        self.make_sending(index);
    }

    /// A read has ended: a read whose first data wait for that goes on.
    fn read_has_ended(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        connection.reads -= 1;
        if connection.reads == 1 && connection.wire.is_some() && connection.out.open() {
            if connection.blocked == Blocked::Own {
                self.unblock(index);
            }
            self.make_sending(index);
        }
    }

    /// The end of an I/O.
    fn answer_end(&mut self, io: &Io) {
        let connection = self.connections.at_mut(io.connection);
        let (cookie, errno) = (io.request.cookie, reply::errno(io.error));
        self.unsent += 1;
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
            let connection = io.connection;
            return self.close(connection, "a read failed behind its first data");
        }
        if !self.head.is_empty() {
            connection.out.whole(&self.head, None);
        }
        self.make_sending(io.connection);
    }

    /// Refuses a request that has not begun.
    pub(super) fn refuse(&mut self, index: u32, request: &Request, errno: u32, text: &str) {
        let connection = self.connections.at_mut(index);
        self.head.clear();
        if connection.negotiated.structured {
            reply::error(&mut self.head, request.cookie, errno, text, true);
        } else {
            reply::simple(&mut self.head, request.cookie, errno);
        }
        connection.out.whole(&self.head, None);
        connection.figures.errors += 1;
        let tenant = connection.tenant;
        self.tenants.at_mut(tenant).figures.errors += 1;
        self.make_sending(index);
    }

    /// Block status: where the volume has data and where holes.
    fn answer_extents(&mut self, fragment: &Fragment) {
        let io = self.ios.at_mut(fragment.io);
        let Io { connection: index, request, .. } = *io;
        let connection = self.connections.at_mut(index);
        if connection.wire.is_none() {
            return;
        }
        io.silent = true;
        let block = self.volumes.at(connection.place).facts.block;
        let one = request.flags.req_one();
        let mut runs = Descriptors::new(request.offset, request.length, block, one);
        // There may be no room for the last runs.
        let _all = fragment.runs.iter().all(|&run| runs.push(run));
        self.head.clear();
        let runs = runs.finish();
        reply::block_status(&mut self.head, request.cookie, ALLOCATION_ID, &runs, true);
        connection.out.whole(&self.head, None);
        self.make_sending(index);
    }

    /// Puts a connection into the list of connections to send to.
    pub(super) fn make_sending(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        if !connection.is_sending && connection.wire.is_some() {
            connection.is_sending = true;
            self.sending.push(index);
        }
    }

    /// A connection's socket is full: sending goes on when it reports room.
    pub(super) fn await_room(&mut self, index: u32) {
        let now = self.now;
        let connection = self.connections.at_mut(index);
        connection.writable = false;
        connection.takes.owes(now);
        self.watch_connection(index);
    }

    /// Sends to all connections that have something to be sent.
    pub(super) fn send_all(&mut self) {
        self.unsent = 0;
        let mut sending = std::mem::take(&mut self.sending);
        if let [first, others @ ..] = &sending[..] {
            self.told = others.is_empty().then_some(*first);
        }
        for index in sending.drain(..) {
            if !self.connections.is_live(index) {
                continue;
            }
            let now = self.now;
            let connection = self.connections.at_mut(index);
            connection.is_sending = false;
            if !connection.writable || connection.wire.is_none() {
                continue;
            }
            let before = connection.out.to_send();
            let sent = connection.send(&mut self.arena, now);
            self.count_memory(index);
            match sent {
                Ok(true) => {}
                Ok(false) => self.await_room(index),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.await_room(index);
                }
                Err(error) => {
                    self.close(index, &error.to_string());
                    continue;
                }
            }
            let connection = self.connections.at(index);
            let gone = before - connection.out.to_send();
            self.freed += gone;
            if gone != 0 && matches!(connection.blocked, Blocked::Share | Blocked::Client) {
                self.unblock(index);
            }
            let connection = self.connections.at(index);
            if connection.blocked == Blocked::Unsent && connection.out.said() < SAID / 2 {
                self.unblock(index);
            }
            self.leave_when_idle(index);
        }
        // Only closing ran meanwhile, and closing adds no connection.
        if self.sending.is_empty() {
            self.sending = sending;
        }
    }
}

fn add(figures: &mut Figures, io: &Io, passed: u64) {
    let bytes = u64::from(io.request.length);
    if io.error != 0 {
        figures.errors += 1;
    }
    match io.request.kind {
        Kind::Read | Kind::Cache => {
            figures.reads += 1;
            figures.read_bytes += bytes;
        }
        Kind::Flush => figures.flushes += 1,
        Kind::BlockStatus => return,
        _ => {
            figures.writes += 1;
            figures.write_bytes += bytes;
        }
    }
    figures.latency_ns += passed;
    let bucket = (u64::BITS - (passed / 1000).leading_zeros()) as usize;
    figures.latency_log2_us[bucket.min(BUCKETS - 1)] += 1;
}

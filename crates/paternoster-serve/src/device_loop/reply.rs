// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reply: the ends of fragments and I/Os; what a client is told of them is in `replies`.
//!
//! Invariants: I1 every I/O is answered once, or its connection has gone; I2 an I/O is answered
//! after all its fragments have ended.

use super::DeviceLoop;
use super::connection::{Blocked, Connection, Receiving, SAID};
use super::io_fragment::{Fragment, Io, Step};
use super::outbox::OutOfPlace;
use super::tenants::BUCKETS;
use crate::control::snapshot::Figures;
use crate::device::Work;
use crate::nbd::transmission::{Kind, Request};

impl DeviceLoop {
    /// A fragment has ended: done, or with an errno of Linux.
    pub(super) fn end_fragment(&mut self, index: u32, error: i32) {
        if self.requests.fragment(index).step == Step::Excluded {
            self.connections.change_goes_on(self.requests.owner(index));
        }
        let mut fragment = self.requests.remove(index, error);
        self.connections.freed(1);
        let connection = self.requests.io(fragment.io).connection;
        let tenant = self.connections.at(connection).tenant;
        self.shared.end_fragment(&mut self.connections, tenant);
        if let Some(edges) = fragment.edges.take() {
            self.shared.give_back(&mut self.connections, connection, edges);
        }
        if let Some(block) = fragment.block.take() {
            let owner = self.connections.at_mut(connection);
            let io = self.requests.io_mut(fragment.io);
            if fragment.work != Work::Read || error != 0 || !wants_data(owner, io) {
                self.shared.give_back(&mut self.connections, connection, block);
            } else {
                match self.replies.data(owner, io, &fragment, block) {
                    Ok(None) => self.connections.make_sending(connection),
                    Ok(Some(block)) => {
                        self.shared.give_back(&mut self.connections, connection, block);
                    }
                    Err(OutOfPlace(block)) => {
                        debug_assert!(
                            false,
                            "a read has its turn before it begins, and its fragments one by one"
                        );
                        // It is answered in part and has failed: its connection will be closed.
                        io.error = libc::EIO;
                        self.shared.give_back(&mut self.connections, connection, block);
                    }
                }
            }
        }
        let owner = self.connections.at_mut(connection);
        let io = self.requests.io_mut(fragment.io);
        if io.request.kind == Kind::BlockStatus && error == 0 && owner.is_open() {
            let block = self.volumes.at(owner.place).facts.block;
            self.replies.extents(owner, io, &fragment, block);
            self.connections.make_sending(connection);
        }
        if fragment.is_change() {
            self.requests.unlock(index);
            self.let_changes_go();
        }
        self.fragment_has_ended(fragment.io);
    }

    /// Updates its I/O.
    fn fragment_has_ended(&mut self, index: u32) {
        let io = self.requests.io(index);
        let (owner, left) = (io.connection, io.left);
        let connection = self.connections.at(owner);
        match connection.receiving {
            // The code that cuts it goes on and ends it.
            Receiving::Splitting { io } if io == index => {
                let was_waiting = connection.blocked == Blocked::Own;
                was_waiting.then(|| self.connections.unblock(owner));
            }
            // Its payload is still coming.
            Receiving::Payload { io, .. } if io == index => {}
            _ if left == 0 => self.end_io(index),
            _ => {}
        }
    }

    /// Ends an I/O all of whose fragments have ended.
    pub(super) fn end_io(&mut self, index: u32) {
        let io = self.requests.io_mut(index);
        let connection = io.connection;
        if io.then_flush && io.error == 0 && self.connections.at(connection).is_open() {
            io.then_flush = false;
            if self.flush_behind(index) {
                return;
            }
        }
        let io = self.requests.end(index);
        let tenant = self.connections.at(connection).tenant;
        self.shared.end_io(&mut self.connections, tenant);
        self.volumes.ended(self.connections.at(connection).place);
        let passed = (self.time.now - io.arrived).0;
        let now = self.connections.at_mut(connection);
        add(&mut now.figures, &io, passed);
        add(&mut self.tenants.at_mut(tenant).figures, &io, passed);
        now.ios -= 1;
        now.promised -= io.promises();
        if now.is_open() && !io.silent {
            if self.replies.end(now, &io) {
                self.connections.make_sending(connection);
            } else {
                self.close(connection, "a read failed behind its first data");
            }
        }
        if io.request.kind == Kind::Read {
            self.connections.read_has_ended(connection);
        }
        self.connections.freed(1);
        self.leave_when_idle(connection);
    }

    /// A flush after what was done; returns whether there was room for its fragment.
    fn flush_behind(&mut self, index: u32) -> bool {
        let fragment = Fragment::new(index, Work::Flush, (0, 0), (0, 0), 0);
        let Some(key) = self.requests.add(fragment) else {
            self.requests.io_mut(index).error = 12;
            return false;
        };
        let connection = self.requests.io(index).connection;
        self.shared.begin_fragment(self.connections.at(connection).tenant);
        self.submit(key);
        true
    }

    /// Refuses a request that has not begun.
    pub(super) fn refuse(&mut self, index: u32, request: &Request, errno: u32, text: &str) {
        let connection = self.connections.at_mut(index);
        self.replies.refuse(connection, request, errno, text);
        self.tenants.at_mut(connection.tenant).figures.errors += 1;
        self.connections.make_sending(index);
    }

    /// A connection's socket is full: sending goes on when it reports room.
    pub(super) fn await_room(&mut self, index: u32) {
        let now = self.time.now;
        let connection = self.connections.at_mut(index);
        connection.writable = false;
        connection.takes.owes(now);
        self.watch_connection(index);
    }

    /// Sends to all connections that have something to be sent.
    pub(super) fn send_all(&mut self) {
        self.replies.all_sent();
        let mut sending = self.connections.take_sending();
        for index in sending.drain(..) {
            if !self.connections.is_live(index) {
                continue;
            }
            let now = self.time.now;
            let connection = self.connections.at_mut(index);
            connection.is_sending = false;
            if !connection.writable || !connection.is_open() {
                continue;
            }
            let before = connection.out.to_send();
            let sent = connection.send(self.shared.arena(), now);
            self.shared.count(&mut self.connections, index);
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
            let gone = before - self.connections.at(index).out.to_send();
            self.connections.freed(gone);
            if gone != 0 {
                self.connections.share_again(index);
            }
            let connection = self.connections.at(index);
            if connection.blocked == Blocked::Unsent && connection.says() < SAID / 2 {
                self.connections.unblock(index);
            }
            self.leave_when_idle(index);
        }
        self.connections.sent(sending);
    }
}

/// Whether data of an I/O are sent. Without structured replies none are once it has failed.
fn wants_data(connection: &Connection, io: &Io) -> bool {
    connection.is_open() && (connection.negotiated.structured || io.error == 0)
}

/// An I/O has ended after so many nanoseconds.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers: the ends of parts and errands, and what a client is told of them.
//!
//! With structured replies each part of a read goes out as it ends, with its offset; the last one
//! says so. Without, data go out in order behind one header; an error behind it can only be told
//! by hanging up. The outbox sees to it that nothing else comes between.
//!
//! Invariants: I1 every errand is answered once, or its guest has gone; I2 an errand is answered
//! after all its parts have ended.

use super::Desk;
use super::errand::{Errand, Part, Step};
use super::guest::{Blocked, Intake, SAID};
use super::outbox::{Data, OutOfPlace};
use super::tenants::BUCKETS;
use crate::control::snapshot::Figures;
use crate::device::Work;
use crate::device::arena::Block;
use crate::nbd::block_status::Descriptors;
use crate::nbd::reply;
use crate::nbd::transmission::{Kind, Request};
use crate::nbd::wire::ALLOCATION_ID;

impl Desk {
    /// A part has ended: done, or with an errno of Linux.
    pub(super) fn end_part(&mut self, index: u32, error: i32) {
        if self.parts.at(index).step == Step::Excluded {
            self.waits_no_more(index);
        }
        let mut part = self.parts.release(index);
        self.freed += 1;
        let errand = self.errands.at_mut(part.errand);
        let guest = errand.guest;
        errand.left -= 1;
        if error != 0 && errand.error == 0 {
            errand.error = error;
        }
        self.count_part(self.guests.at(guest).tenant, 1, 0);
        if let Some(edges) = part.edges.take() {
            self.give_back(guest, edges);
        }
        if let Some(block) = part.block.take() {
            if part.work == Work::Read && error == 0 && self.wants_data(part.errand) {
                self.answer_data(&part, block);
            } else {
                self.give_back(guest, block);
            }
        }
        if self.errands.at(part.errand).request.kind == Kind::BlockStatus && error == 0 {
            self.answer_extents(&part);
        }
        if part.is_change() {
            self.changes.unlock(index);
            self.let_changes_go();
        }
        self.part_has_ended(part.errand);
    }

    /// Whether data of an errand are told. Without structured replies none are once it failed.
    fn wants_data(&self, errand: u32) -> bool {
        let errand = self.errands.at(errand);
        let guest = self.guests.at(errand.guest);
        guest.wire.is_some() && (guest.negotiated.structured || errand.error == 0)
    }

    /// What follows for the errand.
    fn part_has_ended(&mut self, index: u32) {
        let errand = self.errands.at(index);
        let (owner, left) = (errand.guest, errand.left);
        let guest = self.guests.at(owner);
        match guest.intake {
            // Whoever cuts it goes on and ends it.
            Intake::Cutting { errand } if errand == index => {
                let was_waiting = guest.blocked == Blocked::Own;
                was_waiting.then(|| self.unblock(owner));
            }
            // Its payload is still coming.
            Intake::Payload { errand, .. } if errand == index => {}
            _ if left == 0 => self.end_errand(index),
            _ => {}
        }
    }

    /// All parts have ended.
    pub(super) fn end_errand(&mut self, index: u32) {
        let errand = self.errands.at_mut(index);
        let guest = errand.guest;
        if errand.then_flush && errand.error == 0 && self.guests.at(guest).wire.is_some() {
            errand.then_flush = false;
            if self.flush_behind(index) {
                return;
            }
        }
        let errand = self.errands.release(index);
        self.count_errand(self.guests.at(guest).tenant, 1, 0);
        let place = self.guests.at(guest).place as usize;
        self.drained[place].under_way -= 1;
        if self.drained[place].is_drained() {
            self.tell_the_drained(place);
        }
        self.count(&errand);
        let now = self.guests.at_mut(guest);
        now.errands -= 1;
        if now.wire.is_some() && !errand.silent {
            self.answer_end(&errand);
        }
        if errand.request.kind == Kind::Read {
            self.read_has_ended(guest);
        }
        self.freed += 1;
        self.leave_when_idle(guest);
    }

    /// A flush behind what was done; whether there was room for its part.
    fn flush_behind(&mut self, index: u32) -> bool {
        let part = Part::new(index, Work::Flush, (0, 0), (0, 0), 0);
        let Ok(key) = self.parts.insert(part) else {
            self.errands.at_mut(index).error = 12;
            return false;
        };
        let errand = self.errands.at_mut(index);
        errand.left += 1;
        let guest = errand.guest;
        self.count_part(self.guests.at(guest).tenant, 0, 1);
        self.submit(key);
        true
    }

    fn count(&mut self, errand: &Errand) {
        let passed = (self.now - errand.arrived).0;
        let guest = self.guests.at_mut(errand.guest);
        add(&mut guest.figures, errand, passed);
        let tenant = self.tenants.at_mut(guest.tenant);
        add(&mut tenant.figures, errand, passed);
    }

    /// Data of a part that has ended.
    fn answer_data(&mut self, part: &Part, block: Block) {
        let errand = self.errands.at_mut(part.errand);
        let index = errand.guest;
        let guest = self.guests.at_mut(index);
        let (cookie, whole) = (errand.request.cookie, u64::from(errand.request.length));
        let data = Data { block, first: part.skew(), length: part.length as usize };
        errand.answered += 1;
        self.unsent += part.length / 4096;
        self.head.clear();
        let placed = if guest.negotiated.structured {
            let is_last = errand.cut == whole && errand.left == 0 && errand.error == 0;
            errand.silent = is_last;
            reply::data(&mut self.head, cookie, part.offset, part.length, is_last);
            guest.out.whole(&self.head, Some(data));
            Ok(())
        } else if errand.answered != 1 {
            guest.out.go_on(data)
        } else {
            reply::simple(&mut self.head, cookie, 0);
            if u64::from(part.length) == whole {
                guest.out.whole(&self.head, Some(data));
                Ok(())
            } else {
                guest.out.begin(&self.head, data, whole, guest.reads == 1)
            }
        };
        if let Err(OutOfPlace(block)) = placed {
            debug_assert!(false, "a read has its turn before it begins, and its parts one by one");
            // It is answered in part and has failed: its connection will be closed.
            errand.error = libc::EIO;
            return self.give_back(index, block);
        }
        self.make_sending(index);
    }

    /// A read has ended: one whose first data wait for that goes on.
    fn read_has_ended(&mut self, index: u32) {
        let guest = self.guests.at_mut(index);
        guest.reads -= 1;
        if guest.reads == 1 && guest.wire.is_some() && guest.out.open() {
            if guest.blocked == Blocked::Own {
                self.unblock(index);
            }
            self.make_sending(index);
        }
    }

    /// The end of an errand.
    fn answer_end(&mut self, errand: &Errand) {
        let guest = self.guests.at_mut(errand.guest);
        let (cookie, errno) = (errand.request.cookie, reply::errno(errand.error));
        self.unsent += 1;
        self.head.clear();
        if guest.negotiated.structured && errand.error != 0 {
            let text = std::io::Error::from_raw_os_error(errand.error).to_string();
            reply::error(&mut self.head, cookie, errno, &text, true);
        } else if guest.negotiated.structured && errand.request.kind == Kind::Read {
            reply::done(&mut self.head, cookie);
        } else if errand.answered == 0 {
            reply::simple(&mut self.head, cookie, errno);
        } else if errand.error != 0 {
            // Data have begun to go out: there is no way to take them back.
            let guest = errand.guest;
            return self.close(guest, "a read failed behind its first data");
        }
        if !self.head.is_empty() {
            guest.out.whole(&self.head, None);
        }
        self.make_sending(errand.guest);
    }

    /// A request that is not begun.
    pub(super) fn refuse(&mut self, index: u32, request: &Request, errno: u32, text: &str) {
        let guest = self.guests.at_mut(index);
        self.head.clear();
        if guest.negotiated.structured {
            reply::error(&mut self.head, request.cookie, errno, text, true);
        } else {
            reply::simple(&mut self.head, request.cookie, errno);
        }
        guest.out.whole(&self.head, None);
        guest.figures.errors += 1;
        let tenant = guest.tenant;
        self.tenants.at_mut(tenant).figures.errors += 1;
        self.make_sending(index);
    }

    /// Block status: where the volume has data and where holes.
    fn answer_extents(&mut self, part: &Part) {
        let errand = self.errands.at_mut(part.errand);
        let Errand { guest: index, request, .. } = *errand;
        let guest = self.guests.at_mut(index);
        if guest.wire.is_none() {
            return;
        }
        errand.silent = true;
        let block = self.places[guest.place as usize].facts.block;
        let one = request.flags.req_one();
        let mut runs = Descriptors::new(request.offset, request.length, block, one);
        // What is told last may have no room.
        let _all = part.runs.iter().all(|&run| runs.push(run));
        self.head.clear();
        let runs = runs.finish();
        reply::block_status(&mut self.head, request.cookie, ALLOCATION_ID, &runs, true);
        guest.out.whole(&self.head, None);
        self.make_sending(index);
    }

    /// Puts a guest into the list of those to be sent to.
    pub(super) fn make_sending(&mut self, index: u32) {
        let guest = self.guests.at_mut(index);
        if !guest.is_sending && guest.wire.is_some() {
            guest.is_sending = true;
            self.sending.push(index);
        }
    }

    /// A guest's socket is full: it is sent to again when it tells of room.
    pub(super) fn await_room(&mut self, index: u32) {
        let now = self.now;
        let guest = self.guests.at_mut(index);
        guest.writable = false;
        guest.takes.owes(now);
        self.watch_guest(index);
    }

    /// Sends to everybody for whom there is something.
    pub(super) fn send_all(&mut self) {
        self.unsent = 0;
        let mut sending = std::mem::take(&mut self.sending);
        if let [first, others @ ..] = &sending[..] {
            self.told = others.is_empty().then_some(*first);
        }
        for index in sending.drain(..) {
            if !self.guests.is_live(index) {
                continue;
            }
            let now = self.now;
            let guest = self.guests.at_mut(index);
            guest.is_sending = false;
            if !guest.writable || guest.wire.is_none() {
                continue;
            }
            let before = guest.out.to_send();
            let sent = guest.send(&mut self.arena, now);
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
            let guest = self.guests.at(index);
            let gone = before - guest.out.to_send();
            self.freed += gone;
            if gone != 0 && matches!(guest.blocked, Blocked::Share | Blocked::Client) {
                self.unblock(index);
            }
            let guest = self.guests.at(index);
            if guest.blocked == Blocked::Unsent && guest.out.said() < SAID / 2 {
                self.unblock(index);
            }
            self.leave_when_idle(index);
        }
        // Nobody was added meanwhile but by closing, which adds nobody.
        if self.sending.is_empty() {
            self.sending = sending;
        }
    }
}

fn add(figures: &mut Figures, errand: &Errand, passed: u64) {
    let bytes = u64::from(errand.request.length);
    if errand.error != 0 {
        figures.errors += 1;
    }
    match errand.request.kind {
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

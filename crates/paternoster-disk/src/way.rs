// SPDX-License-Identifier: MIT OR Apache-2.0
//! Way: how an operation reaches the device, in pieces if it is long, and what it leaves when it
//! has ended.
//!
//! ```text
//! submit ─▶ waiting ──piece──▶ device ──▶ all pieces have ended ─▶ store ─▶ ended ─▶ next
//!              ▲                                   │
//!              └──── a flush, if FUA asks for it ──┘
//! ```
//!
//! # Order at one instant
//! As in a run of Paternoster: first everything that ends at the instant; then waiting operations
//! are handed to the device; operations submitted at that instant come last. A late caller gets the
//! same answers as one in time: between two calls the disk goes from event to event.
//!
//! # When a write lands
//! When it ends; or earlier, by chance, when a read of the same sectors ends: that read, and later
//! ones, find it. A power cut may leave it even before it lands.
//!
//! # Invariants
//! I1  A device with nothing inside and operations waiting will be asked again (`retry`).
//! I2  An operation that was taken ends exactly once, unless the power fails.

use alloc::vec::Vec;

use paternoster_core::{ClientId, Command, Completion, Flags, Nanos, Status, Tag};
use paternoster_sim::Model;
use paternoster_sim::power::Cached;

use crate::disk::Disk;
use crate::operation::{Done, Id, Op};
use crate::store::{Load, SECTOR};

/// An idle device that has refused is asked again after this time, as a request queue does (BLK-9).
const RETRY: Nanos = Nanos::from_millis(3);

/// An operation that has not ended.
#[derive(Debug)]
pub(crate) struct Operation {
    id: Id,
    op: Op,
    submitted: Nanos,
    /// Its sectors: the first, and the one after the last.
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// The first sector not yet handed to the device.
    next: u64,
    /// Commands of the operation in the device.
    inside: u32,
    /// The first error, or 0.
    errno: i32,
    /// Whether it is a flush, or has one after its data; and whether that was handed to the device.
    flushes: bool,
    flush_issued: bool,
    /// The last write that the flush covers.
    mark: u64,
    /// Data of a write, where they go, and whether they have landed.
    pub(crate) load: Option<Load>,
    pub(crate) place: u64,
    landed: bool,
}

impl Operation {
    pub(crate) const fn new(id: Id, op: Op, submitted: Nanos, first: u64, end: u64) -> Operation {
        Operation {
            id,
            op,
            submitted,
            first,
            end,
            next: first,
            inside: 0,
            errno: 0,
            flushes: matches!(op, Op::Flush),
            flush_issued: false,
            mark: 0,
            load: None,
            place: first,
            landed: false,
        }
    }

    const fn is_issued(&self) -> bool {
        self.next == self.end && self.flushes == self.flush_issued
    }

    /// Its next command, of at most `sectors_max` sectors.
    pub(crate) fn command(&self, tag: Tag, flags: Flags, sectors_max: u32) -> Command {
        let op = match self.op {
            _ if self.flushes => paternoster_core::Op::Flush,
            Op::Read => paternoster_core::Op::Read,
            Op::Write | Op::WriteFua => paternoster_core::Op::Write,
            Op::Flush => paternoster_core::Op::Flush,
            Op::Discard => paternoster_core::Op::Discard,
        };
        let left = if self.flushes { 0 } else { self.end - self.next };
        let sectors = u32::try_from(left).unwrap_or(u32::MAX).min(sectors_max);
        let sector = if self.flushes { 0 } else { self.next };
        Command { tag, op, sector, sectors, flags, client: ClientId::NOBODY }
    }

    /// Its data as a write, as far as the device has them.
    fn write_up_to(&self, end: u64) -> Option<Cached<Load>> {
        let load = self.load.clone()?;
        Some(Cached::new(self.id.0, self.place, self.place + (end - self.first), load))
    }

    /// The part that a power cut may leave though it has not landed. A write that does not tear is
    /// in the device as a whole or not at all.
    pub(crate) fn flying(&self) -> Option<Cached<Load>> {
        let tears = self.load.as_ref().is_some_and(|load| load.torn);
        let is_there = if tears { self.next > self.first } else { self.next == self.end };
        if self.landed || !is_there { None } else { self.write_up_to(self.next) }
    }
}

impl Disk {
    /// When something happens next, if anything does.
    pub(crate) fn first_event(&self) -> Option<Nanos> {
        self.model.next_event().into_iter().chain(self.retry).min()
    }

    /// Lets everything happen up to `now`.
    pub(crate) fn settle(&mut self, now: Nanos) {
        while let Some(at) = self.first_event().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            if self.retry.is_some_and(|retry| retry <= at) {
                self.retry = None;
                self.refused = false;
            }
            while let Some(completion) = self.model.advance(self.now) {
                self.refused = false;
                self.command_ended(&completion);
            }
            self.issue();
        }
        self.now = self.now.max(now);
    }

    /// Takes a new operation.
    pub(crate) fn enter(&mut self, operation: Operation) {
        let needs_no_device = operation.op == Op::Flush && !self.device.has_volatile_cache();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() - 1
        });
        self.operations[slot] = Some(operation);
        if needs_no_device {
            self.end(slot);
        } else {
            self.waiting.push_back(slot);
            self.issue();
        }
    }

    /// Hands to the device what it takes. After a refusal, waits until an operation has ended or,
    /// if nothing is inside, some time has passed.
    fn issue(&mut self) {
        if self.refused {
            return;
        }
        let facts = &self.device.description.facts;
        while let Some(&slot) = self.waiting.front() {
            let Some(&tag) = self.free_tags.last() else { return };
            let Some(operation) = &mut self.operations[slot] else { return };
            let fua = operation.op == Op::WriteFua && facts.fua && facts.write_cache;
            let flags = if fua { Flags::FUA } else { Flags::NONE };
            let command = operation.command(Tag::of_slot(tag), flags, facts.max_sectors);
            if self.model.submit(self.now, &command).is_err() {
                self.refused = true;
                if self.free_tags.len() == self.tags.len() {
                    self.retry = Some(self.now + RETRY);
                }
                return;
            }
            self.free_tags.pop();
            self.tags[tag as usize] = Some(slot);
            operation.inside += 1;
            operation.next += u64::from(command.sectors);
            if operation.flushes {
                operation.flush_issued = true;
                operation.mark = self.store.as_ref().map_or(0, |store| store.mark());
            }
            if operation.is_issued() {
                self.waiting.pop_front();
            }
        }
    }

    fn command_ended(&mut self, completion: &Completion) {
        let tag = completion.tag.index();
        let Some(slot) = self.tags[tag as usize].take() else { return };
        self.free_tags.push(tag);
        let Some(operation) = &mut self.operations[slot] else { return };
        operation.inside -= 1;
        if let (Status::Failed(errno), 0) = (completion.outcome.status, operation.errno) {
            operation.errno = errno;
        }
        if operation.inside > 0 || !operation.is_issued() {
            return;
        }
        let facts = &self.device.description.facts;
        let needs_flush = operation.op == Op::WriteFua && facts.write_cache && !facts.fua;
        if needs_flush && !operation.flushes && operation.errno == 0 {
            operation.flushes = true;
            self.written(slot);
            self.waiting.push_front(slot);
        } else {
            self.end(slot);
        }
    }

    /// The data of a write have reached the device.
    fn written(&mut self, slot: usize) {
        let (Some(store), Some(operation)) = (&mut self.store, &mut self.operations[slot]) else {
            return;
        };
        // Half of the failed writes never land.
        let lands = operation.errno == 0 || store.coin();
        if !operation.landed
            && lands
            && let Some(write) = operation.write_up_to(operation.end)
        {
            store.land(write);
            operation.landed = true;
        }
        if operation.errno == 0 {
            let facts = &self.device.description.facts;
            let durable = !facts.write_cache || operation.op == Op::WriteFua && facts.fua;
            store.end(operation.id.0, durable);
        }
    }

    /// All of an operation has ended, now.
    fn end(&mut self, slot: usize) {
        let mut data = Vec::new();
        let Some(operation) = &self.operations[slot] else { return };
        let (errno, mark) = (operation.errno, operation.mark);
        if operation.flushes {
            if let Some(store) = &mut self.store {
                // A failed one may have done anything, or nothing.
                store.flush(if errno == 0 { mark } else { 0 });
            }
        } else if operation.op.is_write() {
            self.written(slot);
        } else if operation.op == Op::Read && errno == 0 {
            data = self.found(operation.first, operation.end);
        }
        let Some(operation) = self.operations[slot].take() else { return };
        self.free.push(slot);
        let done = Done {
            id: operation.id,
            op: operation.op,
            offset: operation.first * SECTOR as u64,
            len: (operation.end - operation.first) * SECTOR as u64,
            submitted: operation.submitted,
            at: self.now,
            result: if errno == 0 { Ok(()) } else { Err(errno) },
        };
        self.digest.mix(done.id.0);
        self.digest.mix(done.at.0);
        self.digest.mix(errno.unsigned_abs().into());
        self.ended.push_back((done, data));
    }

    /// The data of a read that ends now.
    fn found(&mut self, first: u64, end: u64) -> Vec<u8> {
        let Some(store) = &mut self.store else { return Vec::new() };
        for slot in self.tags.iter().flatten() {
            let Some(operation) = &mut self.operations[*slot] else { continue };
            let (from, to) = (operation.place, operation.place + (operation.end - operation.first));
            let touches = from < end && first < to && operation.op.is_write();
            let whole = operation.next == operation.end && !operation.landed;
            if touches && whole && store.coin() {
                if let Some(write) = operation.write_up_to(operation.end) {
                    store.land(write);
                }
                operation.landed = true;
            }
        }
        let bytes = usize::try_from(end - first).unwrap_or(0) * SECTOR;
        let mut data = alloc::vec![0; bytes];
        store.read(first, &mut data);
        data
    }
}

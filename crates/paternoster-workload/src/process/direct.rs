// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct: I/Os that go to the device as bios, several at a time.
//!
//! An I/O that is larger than a request may be, or that crosses the end of a piece of its file, is
//! several bios under one plug; it ends with the last of them, or once that is durable
//! (`durable.rs`) if it must be and the device cannot write through its cache:
//!
//! ```text
//! O_DSYNC, 8 KiB, 4 KiB a request     the device has FUA    W(FUA) W(FUA)
//!                                     it has not            W W, then one flush
//! write_barrier                                             W(PREFLUSH|FUA) W(FUA)
//! ```
//!
//! # Invariants
//! I1  At most `depth` I/Os are in flight; a slot's I/O ends when its last bio has, and what
//!     follows that.

use paternoster_core::{
    Bio, Flags, Nanos, Observer, Op, Outcome, Priority, RequestQueue, Status, SubmitError,
};

use super::durable::Durable;
use super::{EINVAL, Identity};
use crate::direction::Direction;
use crate::fio::cmdprio::IoPriority;
use crate::page_cache::PageCache;
use crate::page_cache::extent::Extent;

/// One I/O of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Io {
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    pub(super) began: Nanos,
    /// When its last bio was taken.
    pub(super) accepted: Nanos,
    pub(super) error: i32,
    /// Offset in its file.
    pub(super) offset: u64,
    /// Its priority, if it is not the job's: as drawn, in the queue's form.
    pub(super) drawn: Option<IoPriority>,
    priority: Option<Priority>,
    /// Number of its file.
    pub(super) number: u32,
    file: Extent,
    flags: Flags,
    /// What makes it durable after its data.
    durable: Option<Durable>,
    /// What is still to be submitted: where in the file, and how much.
    next: u64,
    left: u64,
    /// Bios in flight.
    under_way: u32,
}

impl Io {
    /// Whether all its data have been submitted and have ended.
    const fn is_written(&self) -> bool {
        self.under_way == 0 && self.left == 0
    }
}

/// The slots of a process's I/Os.
#[derive(Debug)]
pub(super) struct Slots {
    ios: Vec<Io>,
    free: Vec<u32>,
    /// The I/O whose next bio got Busy.
    blocked: Option<u32>,
    /// I/Os whose data are written, and must be durable before they end.
    settling: Vec<u32>,
}

/// A request for the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) direction: Direction,
    /// The file: its number, and where it lies.
    pub(super) number: u32,
    pub(super) file: Extent,
    pub(super) offset: u64,
    /// Bytes that count, and bytes that are submitted (none with the engine `null`).
    pub(super) bytes: u64,
    pub(super) submitted: u64,
    /// In addition to those of its direction.
    pub(super) flags: Flags,
    /// What makes it durable after its data.
    pub(super) durable: Option<Durable>,
    /// If it is not the job's.
    pub(super) drawn: Option<IoPriority>,
    pub(super) priority: Option<Priority>,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Slots {
        let nothing = Io {
            direction: Direction::Read,
            bytes: 0,
            began: Nanos::ZERO,
            accepted: Nanos::ZERO,
            error: 0,
            offset: 0,
            drawn: None,
            priority: None,
            number: 0,
            file: Extent::whole(0, 0),
            flags: Flags::NONE,
            durable: None,
            next: 0,
            left: 0,
            under_way: 0,
        };
        let ios = vec![nothing; depth as usize];
        Slots { ios, free: (0..depth).rev().collect(), blocked: None, settling: Vec::new() }
    }

    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn in_flight(&self) -> u32 {
        u32::try_from(self.ios.len() - self.free.len()).unwrap_or(u32::MAX)
    }

    /// Whether an I/O in flight touches these bytes of this file.
    pub(super) fn overlaps(&self, number: u32, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes);
        self.ios.iter().any(|io| {
            let under_way = !io.is_written();
            under_way && io.number == number && io.offset < end && offset < io.offset + io.bytes
        })
    }

    /// Begins an I/O in a free slot, which must exist. Submit it with [`Slots::push`].
    pub(super) fn begin(&mut self, now: Nanos, request: Request) -> Option<u32> {
        let slot = self.free.pop()?;
        self.ios[slot as usize] = Io {
            direction: request.direction,
            bytes: request.bytes,
            began: now,
            accepted: now,
            error: 0,
            offset: request.offset,
            drawn: request.drawn,
            priority: request.priority,
            number: request.number,
            file: request.file,
            flags: request.flags,
            durable: request.durable,
            next: request.offset,
            left: request.submitted,
            under_way: 0,
        };
        Some(slot)
    }

    /// The I/O that goes on after a Wake.
    pub(super) const fn take_blocked(&mut self) -> Option<u32> {
        self.blocked.take()
    }

    /// Submits what is left of an I/O, until Busy. Returns it if that has ended it (nothing was
    /// to be submitted, or nothing was taken).
    pub(super) fn push<O: Observer>(
        &mut self,
        now: Nanos,
        slot: u32,
        identity: Identity,
        gathers: bool,
        queue: &mut RequestQueue<O>,
    ) -> Option<Io> {
        let most = u64::from(queue.max_sectors()) * 512;
        let first = self.next_bytes(slot, most);
        // A batch that is being gathered has its plug already.
        let several = !gathers && self.ios[slot as usize].left > first;
        if several {
            // The client is ours: it cannot be stale.
            let _plugged = queue.plug(now, identity.client);
        }
        loop {
            let bytes = self.next_bytes(slot, most);
            let io = &mut self.ios[slot as usize];
            if bytes == 0 {
                io.accepted = now;
                break;
            }
            let (at, _) = io.file.locate(io.next);
            let (op, flags) = operation(io.direction);
            let sectors = u32::try_from(bytes.div_ceil(512)).unwrap_or(u32::MAX);
            let mut bio = Bio::new(identity.client, op, at / 512, sectors)
                .flags(flags | io.flags)
                .cookie(identity.cookie(slot));
            bio.priority = io.priority;
            match queue.submit(now, bio) {
                Ok(_) => {
                    // Earlier data is flushed once.
                    io.flags = io.flags.without(Flags::PREFLUSH);
                    io.under_way += 1;
                    io.next += bytes;
                    io.left -= bytes;
                }
                Err(SubmitError::Busy) => {
                    self.blocked = Some(slot);
                    break;
                }
                Err(_) => {
                    io.error = EINVAL;
                    io.left = 0;
                }
            }
        }
        if several {
            let _unplugged = queue.unplug(now, identity.client);
        }
        self.end_if_done(slot)
    }

    /// Bytes of the next bio of an I/O: what is left, at most `most`, within one piece of the file.
    fn next_bytes(&self, slot: u32, most: u64) -> u64 {
        let io = &self.ios[slot as usize];
        io.left.min(most).min(io.file.locate(io.next).1)
    }

    /// A bio of I/O `slot` has ended. Returns the I/O if that was its last.
    pub(super) fn bio_ended(&mut self, slot: u32, outcome: Outcome) -> Option<Io> {
        let io = &mut self.ios[slot as usize];
        if let (true, Some(durable)) = (io.is_written(), &mut io.durable) {
            // It was its flush; `settle` ends it.
            durable.flush_ended(outcome);
            return None;
        }
        io.under_way -= 1;
        io.error = match outcome.status {
            Status::Ok => io.error,
            Status::Failed(errno) => errno,
            Status::Cancelled => EINVAL,
        };
        self.end_if_done(slot)
    }

    fn end_if_done(&mut self, slot: u32) -> Option<Io> {
        let io = self.ios[slot as usize];
        if !io.is_written() {
            return None;
        }
        if io.durable.is_some() && io.error == 0 {
            self.settling.push(slot);
            return None;
        }
        self.free.push(slot);
        Some(io)
    }

    /// Makes what is written durable, as far as that is possible now. Returns an I/O that this
    /// has ended, `None` when there is none.
    pub(super) fn settle<O: Observer>(
        &mut self,
        now: Nanos,
        identity: Identity,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> Option<Io> {
        for place in 0..self.settling.len() {
            let slot = self.settling[place];
            let io = &mut self.ios[slot as usize];
            let Some(durable) = &mut io.durable else { continue };
            if durable.go_on(now, identity, slot, cache, queue) {
                continue;
            }
            io.error = durable.error();
            self.settling.remove(place);
            self.free.push(slot);
            return Some(*io);
        }
        None
    }
}

/// Direct writes are sync: their process waits for them.
const fn operation(direction: Direction) -> (Op, Flags) {
    match direction {
        Direction::Read => (Op::Read, Flags::NONE),
        Direction::Write => (Op::Write, Flags::SYNC),
        Direction::Trim => (Op::Discard, Flags::SYNC),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bios and requests: what a client submits, and what the device is given.
//!
//! A *bio* is one I/O of one client: an operation on a run of sectors, with a cookie that is
//! returned at its end. A *request* is one command for the device: one bio, or several adjacent
//! ones that were merged. Sizes are in sectors of 512 bytes. Data never pass through here: buffers
//! stay with the caller.
//!
//! ```text
//! bios      [8..16) cookie 1   [16..24) cookie 2   [24..32) cookie 3
//! request   [8..32)  first bio 1 -> 2 -> 3                              one command
//! ```
//!
//! Source: BLK-18 (sync), BLK-1.

use core::ops::{BitOr, BitOrAssign, Index, IndexMut};

use crate::bio_slot::BioRun;
use crate::client::{ClientId, Priority};
use crate::flush::Steps;
use crate::slab::{Key, NIL, Slab};
use crate::time::Nanos;

/// Identifies a bio in a queue from `submit` until its `Done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) Key);

/// Returned to the caller at the end of a bio: an index, a pointer, a sequence number.
pub type Cookie = u64;

/// The operation on the sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Op {
    /// Data come from the device.
    #[default]
    Read,
    /// Data go to the device.
    Write,
    /// The device may discard the sectors.
    Discard,
    /// Everything that was completed before becomes durable. Has no sectors.
    Flush,
}

/// Properties of a bio or request, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// None of them.
    pub const NONE: Flags = Flags(0);
    /// A process waits for this write. (Reads are always sync.)
    pub const SYNC: Flags = Flags(1);
    /// Metadata of a file system.
    pub const META: Flags = Flags(2);
    /// More urgent than its client's other I/O.
    pub const PRIO: Flags = Flags(4);
    /// Durable when it ends.
    pub const FUA: Flags = Flags(8);
    /// What was completed before becomes durable first.
    pub const PREFLUSH: Flags = Flags(16);
    /// Read-ahead: may fail without harm.
    pub const AHEAD: Flags = Flags(32);
    /// No further I/O follows at once: do not idle for it.
    pub const NOIDLE: Flags = Flags(64);
    /// Must not be merged.
    pub const NOMERGE: Flags = Flags(128);
    /// Done in the background.
    pub const BACKGROUND: Flags = Flags(256);

    /// Whether all of `other` are in this set.
    #[must_use]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this set.
    #[must_use]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The set without `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The set as bits, for records and hashes.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// Reads, and writes that a process waits for (also through FUA and PREFLUSH), are sync.
#[must_use]
pub const fn is_sync(op: Op, flags: Flags) -> bool {
    matches!(op, Op::Read | Op::Flush)
        || flags.intersects(Flags(Flags::SYNC.0 | Flags::FUA.0 | Flags::PREFLUSH.0))
}

/// One I/O of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bio {
    /// The client that submits it.
    pub client: ClientId,
    /// The operation.
    pub op: Op,
    /// First sector (512 bytes each).
    pub sector: u64,
    /// How many sectors; 0 only for a flush without data.
    pub sectors: u32,
    /// Memory segments of the data, at least 1.
    pub segments: u16,
    /// Properties.
    pub flags: Flags,
    /// Class and level of this bio, if they differ from its client's.
    pub priority: Option<Priority>,
    /// Returned in `Output::Done`.
    pub cookie: Cookie,
}

impl Bio {
    /// A bio of one segment without flags, at its client's priority.
    #[must_use]
    pub const fn new(client: ClientId, op: Op, sector: u64, sectors: u32) -> Bio {
        let flags = Flags::NONE;
        Bio { client, op, sector, sectors, segments: 1, flags, priority: None, cookie: 0 }
    }

    /// A flush without data.
    #[must_use]
    pub const fn flush(client: ClientId) -> Bio {
        Bio::new(client, Op::Flush, 0, 0)
    }

    /// Sets the cookie.
    #[must_use]
    pub const fn cookie(mut self, cookie: Cookie) -> Bio {
        self.cookie = cookie;
        self
    }

    /// Adds flags.
    #[must_use]
    pub fn flags(mut self, flags: Flags) -> Bio {
        self.flags |= flags;
        self
    }

    /// The sector after its last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }

    /// Whether a process waits for it.
    #[must_use]
    pub const fn is_sync(&self) -> bool {
        is_sync(self.op, self.flags)
    }

    /// Whether it orders the device's cache: a flush, or a write with PREFLUSH or FUA.
    #[must_use]
    pub fn is_flushing(&self) -> bool {
        self.op == Op::Flush || self.flags.intersects(Flags::FUA | Flags::PREFLUSH)
    }
}

/// Identifies a request inside the library, between its allocation and its end.
///
/// Elevators use it as an index into their own tables. Unlike the public handles it is not checked
/// for staleness: an elevator is told when a request leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u32);

impl RequestId {
    /// Its slot, below `Limits::requests`.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The request in slot `index`, as returned by lists and trees.
    #[must_use]
    pub const fn from_index(index: u32) -> RequestId {
        RequestId(index)
    }
}

/// The place of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Not allocated.
    #[default]
    Free,
    /// In its client's plug list.
    Plugged,
    /// In the elevator.
    Waiting,
    /// Held back: its client has caused a flush and waits until others have had their part.
    Throttled,
    /// In the flush sequencer: it waits for a flush, before or after its data.
    Flushing,
    /// Picked, or requeued: on the dispatch list.
    Dispatched,
    /// In the device.
    InDevice,
}

/// One command for the device, waiting or in progress.
///
/// The fields up to `start` are the hot part: together with the slab's own data of the slot they
/// fit in a cache line.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Request {
    pub(crate) sector: u64,
    pub(crate) client: ClientId,
    /// For the elevator's use only: a deadline, a queue number. Zero when the request is bound.
    pub(crate) scratch: [u64; 2],
    pub(crate) sectors: u32,
    pub(crate) segments: u16,
    pub(crate) flags: Flags,
    pub(crate) bios_first: u32,
    pub(crate) bios_last: u32,
    pub(crate) op: Op,
    pub(crate) stage: Stage,
    pub(crate) priority: Priority,

    pub(crate) start: Nanos,
    pub(crate) issued: Nanos,
    /// The service clock when it was issued.
    pub(crate) clock: Nanos,
    /// The elevator it was bound to.
    pub(crate) epoch: u32,
    pub(crate) tag: u32,
    /// Its tag's number under mq rules (`positions.rs`).
    pub(crate) position: u32,
    pub(crate) pool: u8,
    pub(crate) was_started: bool,
    /// The throttle released it to the head of the elevator, which does not charge it.
    pub(crate) past_throttle: bool,
    /// The completed steps of its flush sequence.
    pub(crate) steps: Steps,
}

impl Request {
    /// Begins the life of a request for `bio`, in the slot of one that has ended.
    pub(crate) fn fill(&mut self, bio: &Bio, priority: Priority, now: Nanos) {
        self.sector = bio.sector;
        self.client = bio.client;
        self.scratch = [0; 2];
        self.sectors = bio.sectors;
        self.segments = bio.segments;
        self.flags = bio.flags;
        self.bios_first = NIL;
        self.bios_last = NIL;
        self.op = bio.op;
        self.stage = Stage::Plugged;
        self.priority = priority;
        self.start = now;
        self.issued = Nanos::ZERO;
        self.clock = Nanos::ZERO;
        self.tag = NIL;
        self.was_started = false;
        self.past_throttle = false;
        self.steps = Steps::default();
    }

    /// The bios that it carries.
    pub(crate) const fn bios(&self) -> BioRun {
        BioRun { first: self.bios_first, last: self.bios_last }
    }

    /// First sector.
    #[must_use]
    pub const fn sector(&self) -> u64 {
        self.sector
    }

    /// How many sectors.
    #[must_use]
    pub const fn sectors(&self) -> u32 {
        self.sectors
    }

    /// The sector after its last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }

    /// The operation.
    #[must_use]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// Properties.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether a process waits for it.
    #[must_use]
    pub const fn is_sync(&self) -> bool {
        is_sync(self.op, self.flags)
    }

    /// Its client: that of its first bio.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// Class and level, the better of those of its bios.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// What its elevator has stored ([`QueueView::scratch_mut`](crate::QueueView::scratch_mut)).
    #[must_use]
    pub const fn scratch(&self) -> [u64; 2] {
        self.scratch
    }

    /// When it was allocated; the earlier time after a merge with another request.
    #[must_use]
    pub const fn start(&self) -> Nanos {
        self.start
    }

    /// When it was given to the device.
    #[must_use]
    pub const fn issued(&self) -> Nanos {
        self.issued
    }

    /// Whether the throttle has released it to the head of the elevator, which does not charge it.
    #[must_use]
    pub const fn is_past_throttle(&self) -> bool {
        self.past_throttle
    }

    /// The number of the elevator that bound it: each change of elevator counts one up, and what an
    /// earlier one bound is not this one's. `u32::MAX` for flush commands.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Its present place.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        self.stage
    }
}

/// All requests of a queue, indexed by [`RequestId`].
#[derive(Debug, Clone)]
pub(crate) struct Requests(pub(crate) Slab<Request>);

impl Index<RequestId> for Requests {
    type Output = Request;
    fn index(&self, id: RequestId) -> &Request {
        self.0.at(id.0)
    }
}

impl IndexMut<RequestId> for Requests {
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        self.0.at_mut(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a request within its size limit, and its hot part within a cache line?
    #[test]
    fn a_request_is_small() {
        assert!(size_of::<Request>() <= 256, "{}", size_of::<Request>());
        assert!(core::mem::offset_of!(Request, start) + 8 <= 64);
    }

    /// Which I/O is sync (BLK-18)? Reads, and writes with SYNC; FUA and PREFLUSH imply it.
    #[test]
    fn sync_is_what_somebody_waits_for() {
        assert!(is_sync(Op::Read, Flags::NONE));
        assert!(!is_sync(Op::Write, Flags::NONE));
        assert!(is_sync(Op::Write, Flags::SYNC) && is_sync(Op::Write, Flags::FUA));
    }
}

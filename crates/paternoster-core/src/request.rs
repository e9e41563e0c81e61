// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: what the device is given.
//!
//! A *request* is one command for the device: one bio, or several adjacent ones that were merged.
//!
//! ```text
//! bios      [8..16) cookie 1   [16..24) cookie 2   [24..32) cookie 3
//! request   [8..32)  first bio 1 -> 2 -> 3                              one command
//! ```
//!
//! Source: BLK-1.

pub(crate) mod steps;

use core::ops::{Index, IndexMut};

use self::steps::Steps;
use crate::bio::Bio;
use crate::bio_slot::BioRun;
use crate::client::{ClientId, Priority};
use crate::op::{Flags, Op, is_sync};
use crate::slab::{NIL, Slab};
use crate::time::Nanos;

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

/// The flush command is in no pool of the admission.
pub(crate) const POOL_NONE: u8 = 3;

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
    /// The device has ended it with an error, of which the elevator is told.
    pub(crate) has_failed: bool,
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

    /// Whether the device has ended it with an error: what such a request took tells nothing.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.has_failed
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
}

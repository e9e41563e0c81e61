// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bio slots: where the bios of a queue are stored, and the runs that they form.
//!
//! A bio is in exactly one run from its submission to its end: that of the request that carries it,
//! or the list of ended bios. It moves by relinking.
//!
//! ```text
//! request [8..32)    first ─▶ bio 3 ─▶ bio 7 ─▶ bio 4 ◀─ last
//! done               first ─▶ bio 1 ◀─ last
//! ```

use crate::bio::{Bio, Cookie};
use crate::client::{ClientId, Priority};
use crate::device::Outcome;
use crate::op::{Flags, Op};
use crate::slab::{NIL, Slab};

/// A bio in the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct BioSlot {
    pub(crate) client: ClientId,
    pub(crate) sector: u64,
    pub(crate) cookie: Cookie,
    pub(crate) sectors: u32,
    pub(crate) segments: u16,
    pub(crate) flags: Flags,
    pub(crate) op: Op,
    pub(crate) priority: Option<Priority>,
    /// The next bio of the same request, or of the done list.
    pub(crate) next: u32,
    /// The request that carries it.
    pub(crate) request: u32,
    pub(crate) outcome: Outcome,
}

impl BioSlot {
    pub(crate) fn fill(&mut self, bio: &Bio) {
        self.client = bio.client;
        self.sector = bio.sector;
        self.cookie = bio.cookie;
        self.sectors = bio.sectors;
        self.segments = bio.segments;
        self.flags = bio.flags;
        self.op = bio.op;
        self.priority = bio.priority;
        self.next = NIL;
        self.request = NIL;
        self.outcome = Outcome::default();
    }

    /// The bio as it was submitted, without flags that the device does not need.
    pub(crate) const fn bio(&self) -> Bio {
        Bio {
            client: self.client,
            op: self.op,
            sector: self.sector,
            sectors: self.sectors,
            segments: self.segments,
            flags: self.flags,
            priority: self.priority,
            cookie: self.cookie,
        }
    }
}

/// A singly linked run of bios: those of a request, or the done list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BioRun {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl BioRun {
    /// Whether the run is empty.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NIL
    }

    pub(crate) const EMPTY: BioRun = BioRun { first: NIL, last: NIL };

    pub(crate) const fn one(index: u32) -> BioRun {
        BioRun { first: index, last: index }
    }

    pub(crate) fn append(&mut self, bios: &mut Slab<BioSlot>, run: BioRun) {
        if self.last == NIL {
            *self = run;
        } else if run.first != NIL {
            bios.at_mut(self.last).next = run.first;
            self.last = run.last;
        }
    }

    /// Removes the first bio and frees its slot, whose contents are returned.
    pub(crate) fn pop<'a>(&mut self, bios: &'a mut Slab<BioSlot>) -> Option<&'a BioSlot> {
        if self.is_empty() {
            return None;
        }
        let slot = bios.free(self.first);
        self.first = slot.next;
        if self.first == NIL {
            self.last = NIL;
        }
        Some(slot)
    }

    pub(crate) fn iter(self, bios: &Slab<BioSlot>) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NIL).then_some(index);
        core::iter::successors(some(self.first), move |&index| some(bios.at(index).next))
    }
}

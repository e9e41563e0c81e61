// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging: adjacent bios and requests become one command.
//!
//! A device pays once per command, so a bio that adjoins a waiting request becomes part of it.
//! Where to look, in this order (BLK-3):
//!
//! ```text
//! 1  the client's own plug             only what it has itself plugged
//! 2  the last merged request           one-hit cache, both sides; all that nomerges=1 leaves
//! 3  a hash of request ends            back merge:   [request)[bio)
//! 4  a hash of request starts          front merge:  [bio)[request)      if the elevator wants it
//! ```
//!
//! When a merge closes the gap between two requests, these become one as well (BLK-4).
//!
//! # Invariants
//! I1  The index holds exactly the waiting requests that may be merged (not FUA, not refused by
//!     the device), each under its end and its start.
//! I2  A request never exceeds max_sectors and max_segments. One that would have is marked and
//!     never tried again (BLK-2).
//!
//! Source: spec `cfq-flush-block.md` 13.2: BLK-1 to BLK-4, BLK-16.
//! Differs: the elevators of Linux look for front merges in their own orders; here one hash of
//! starts serves all, and the elevator only says whether it wants them and agrees
//! (`merges_front`, `may_merge`). Segments are added up; whether two are physically adjacent is
//! the caller's knowledge, who can count them as one in the second bio.

use alloc::vec::Vec;

use crate::bio_slot::BioRun;
use crate::elevator::{Rules, Side};
use crate::event::{Action, Observer};
use crate::queue::RequestQueue;
use crate::request::{Bio, Flags, Request, RequestId, Stage};
use crate::slab::NIL;

/// Requests by a sector of theirs: chained buckets whose links lie beside the slab.
#[derive(Debug)]
struct SectorHash {
    buckets: Vec<u32>,
    links: Vec<BucketLink>,
}

#[derive(Debug, Clone, Copy)]
struct BucketLink {
    next: u32,
    prev: u32,
    /// `NIL` while the request is not in the hash.
    bucket: u32,
}

impl SectorHash {
    fn with_capacity(requests: u32) -> SectorHash {
        let buckets = (requests.max(8) * 2).next_power_of_two();
        let link = BucketLink { next: NIL, prev: NIL, bucket: NIL };
        SectorHash {
            buckets: (0..buckets).map(|_| NIL).collect(),
            links: (0..requests).map(|_| link).collect(),
        }
    }

    fn bucket_of(&self, sector: u64) -> u32 {
        // Fibonacci hashing: the upper bits of a multiplication by 2^64 / golden ratio.
        let mixed = sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = self.buckets.len().trailing_zeros();
        u32::try_from(mixed >> (64 - bits)).unwrap_or(0)
    }

    fn add(&mut self, index: u32, sector: u64) {
        let bucket = self.bucket_of(sector);
        let next = self.buckets[bucket as usize];
        if next != NIL {
            self.links[next as usize].prev = index;
        }
        self.links[index as usize] = BucketLink { next, prev: NIL, bucket };
        self.buckets[bucket as usize] = index;
    }

    fn drop(&mut self, index: u32) {
        let link = self.links[index as usize];
        if link.bucket == NIL {
            return;
        }
        if link.prev == NIL {
            self.buckets[link.bucket as usize] = link.next;
        } else {
            self.links[link.prev as usize].next = link.next;
        }
        if link.next != NIL {
            self.links[link.next as usize].prev = link.prev;
        }
        self.links[index as usize].bucket = NIL;
    }

    fn contains(&self, index: u32) -> bool {
        self.links[index as usize].bucket != NIL
    }

    fn chain(&self, sector: u64) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NIL).then_some(index);
        let first = self.buckets[self.bucket_of(sector) as usize];
        core::iter::successors(some(first), move |&index| some(self.links[index as usize].next))
    }
}

/// Where bios may be merged: waiting requests by their ends, by their starts, and the one merged
/// last.
#[derive(Debug)]
pub(crate) struct MergeIndex {
    ends: SectorHash,
    starts: SectorHash,
    /// The one-hit cache.
    last: u32,
}

impl MergeIndex {
    pub(crate) fn with_capacity(requests: u32) -> MergeIndex {
        MergeIndex {
            ends: SectorHash::with_capacity(requests),
            starts: SectorHash::with_capacity(requests),
            last: NIL,
        }
    }

    fn add(&mut self, index: u32, request: &Request) {
        self.ends.add(index, request.end());
        self.starts.add(index, request.sector);
    }

    fn drop(&mut self, index: u32) {
        self.ends.drop(index);
        self.starts.drop(index);
    }

    /// Whether request `index` is in the index.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.ends.contains(index)
    }

    /// The request in the one-hit cache.
    pub(crate) const fn last(&self) -> Option<u32> {
        if self.last == NIL { None } else { Some(self.last) }
    }
}

impl<O: Observer> RequestQueue<O> {
    /// Tries to make bio `index` part of a request. Whether it did.
    pub(crate) fn merge_bio(&mut self, index: u32, bio: &Bio) -> bool {
        let barred = bio.is_flushing() || bio.flags.contains(Flags::NOMERGE);
        if self.policy.nomerges >= 2 || barred {
            return false;
        }
        if self.policy.nomerges == 0 && self.merge_into_plug(index, bio) {
            return true;
        }
        self.elevator.bio_comes(&mut self.scene, bio);
        if let Some(last) = self.merge.last() {
            let request = &self.scene.requests.0.at(last);
            if let Some(side) = adjoining_side(request, bio)
                && self.grow(RequestId(last), index, bio, side)
            {
                return true;
            }
        }
        if self.policy.nomerges == 1 {
            return false;
        }
        if let Some(id) = self.find_back(bio)
            && self.grow(id, index, bio, Side::Back)
        {
            return true;
        }
        if !self.elevator.merges_front() {
            return false;
        }
        match self.find_front(bio) {
            Some(id) => self.grow(id, index, bio, Side::Front),
            None => false,
        }
    }

    /// A waiting request behind whose end the bio begins.
    fn find_back(&self, bio: &Bio) -> Option<RequestId> {
        let fits = |&index: &u32| {
            let request = self.scene.request(index);
            request.end() == bio.sector && compatible(request, bio)
        };
        self.merge.ends.chain(bio.sector).find(fits).map(RequestId)
    }

    /// A waiting request before whose start the bio ends, and with which the elevator agrees.
    fn find_front(&self, bio: &Bio) -> Option<RequestId> {
        let fits = |&index: &u32| {
            let request = self.scene.request(index);
            request.sector == bio.end()
                && compatible(request, bio)
                && self.elevator.may_merge(&self.scene, RequestId(index), bio)
        };
        self.merge.starts.chain(bio.end()).find(fits).map(RequestId)
    }

    /// Makes the bio part of a waiting request if all rules allow it; then closes a gap that this
    /// filled.
    fn grow(&mut self, id: RequestId, index: u32, bio: &Bio, side: Side) -> bool {
        if !self.may_grow(id, bio) || !self.elevator.may_merge(&self.scene, id, bio) {
            return false;
        }
        self.join(id, index, bio, side);
        self.merge.drop(id.0);
        self.merge.add(id.0, &self.scene.requests[id]);
        self.merge.last = id.0;
        self.elevator.grown(&mut self.scene, id, side);
        self.close_gap(id, side);
        true
    }

    /// The rules of the block core for one bio more (BLK-1, BLK-2); marks a request that is full.
    pub(crate) fn may_grow(&mut self, id: RequestId, bio: &Bio) -> bool {
        let request = &self.scene.requests[id];
        if !compatible(request, bio) || (self.policy.rules == Rules::Mq && !self.alike(id, bio)) {
            return false;
        }
        self.fits_or_mark(id, bio.sectors, bio.segments)
    }

    fn fits(&self, id: RequestId, sectors: u32, segments: u16) -> bool {
        let request = &self.scene.requests[id];
        request.sectors.saturating_add(sectors) <= self.policy.max_sectors
            && request.segments.saturating_add(segments) <= self.scene.facts.max_segments
    }

    /// Whether so much more fits; a request that is too full for it is never tried again (BLK-2).
    fn fits_or_mark(&mut self, id: RequestId, sectors: u32, segments: u16) -> bool {
        let fits = self.fits(id, sectors, segments);
        if !fits {
            self.scene.requests[id].flags |= Flags::NOMERGE;
            if self.merge.last == id.0 {
                self.merge.last = NIL;
            }
        }
        fits
    }

    /// Modern kernels merge only within a group and a priority (BLK-1).
    fn alike(&self, id: RequestId, bio: &Bio) -> bool {
        let request = &self.scene.requests[id];
        let priority = self.priority_of(bio);
        request.priority == priority
            && (request.client() == bio.client
                || self.scene.group_of(request.client()) == self.scene.group_of(bio.client))
    }

    /// Links the bio to the request's end or start and moves the request's bounds.
    pub(crate) fn join(&mut self, id: RequestId, index: u32, bio: &Bio, side: Side) {
        let priority = self.priority_of(bio);
        self.bios.at_mut(index).request = id.0;
        let request = &mut self.scene.requests[id];
        let mut run = BioRun { first: request.bios_first, last: request.bios_last };
        let action = match side {
            Side::Back => {
                run.append(&mut self.bios, BioRun::one(index));
                Action::BackMerge
            }
            Side::Front => {
                let mut front = BioRun::one(index);
                front.append(&mut self.bios, run);
                run = front;
                request.sector = bio.sector;
                Action::FrontMerge
            }
        };
        (request.bios_first, request.bios_last) = (run.first, run.last);
        request.sectors += bio.sectors;
        request.segments += bio.segments;
        request.priority = request.priority.better(priority);
        self.emit(action, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
    }

    /// If `id` now touches its neighbour on `side`, the two become one (BLK-4).
    fn close_gap(&mut self, id: RequestId, side: Side) {
        let neighbour = match side {
            Side::Back => self.elevator.latter(&self.scene, id),
            Side::Front => self.elevator.former(&self.scene, id),
        };
        if let Some(neighbour) = neighbour {
            let (first, second) =
                if side == Side::Back { (id, neighbour) } else { (neighbour, id) };
            self.absorb(first, second);
        }
    }

    /// A plug's request that begins where a waiting one ends becomes part of it (BLK-6, legacy).
    /// Whether it did: then `id` has ended.
    pub(crate) fn absorb_before_insert(&mut self, id: RequestId) -> bool {
        if self.policy.nomerges >= 2 {
            return false;
        }
        let start = self.scene.requests[id].sector;
        let ends_there = |&index: &u32| self.scene.request(index).end() == start;
        let found = match self.merge.last().filter(ends_there) {
            None if self.policy.nomerges == 0 => self.merge.ends.chain(start).find(ends_there),
            cached => cached,
        };
        let Some(index) = found else { return false };
        let survivor = RequestId(index);
        if !self.may_become_one(survivor, id)
            || !self.elevator.may_absorb(&self.scene, survivor, id)
        {
            return false;
        }
        self.take_over(survivor, id);
        self.merge.drop(survivor.0);
        self.merge.add(survivor.0, &self.scene.requests[survivor]);
        self.merge.last = survivor.0;
        self.elevator.grown(&mut self.scene, survivor, Side::Back);
        self.elevator.released(&mut self.scene, id);
        self.free_unbound(id);
        true
    }

    /// `second`, which waits directly behind `first`, becomes part of it if all rules allow it.
    fn absorb(&mut self, first: RequestId, second: RequestId) {
        let adjoin = self.scene.requests[first].end() == self.scene.requests[second].sector;
        let both = self.merge.contains(first.0) && self.merge.contains(second.0);
        if !adjoin
            || !both
            || !self.may_become_one(first, second)
            || !self.elevator.may_absorb(&self.scene, first, second)
        {
            return;
        }
        self.merge.drop(first.0);
        self.leave_merging(second);
        self.take_over(first, second);
        self.merge.add(first.0, &self.scene.requests[first]);
        self.merge.last = first.0;
        self.elevator.absorbed(&mut self.scene, first, second);
        self.elevator.released(&mut self.scene, second);
        self.free_unbound(second);
    }

    fn may_become_one(&self, first: RequestId, second: RequestId) -> bool {
        let (a, b) = (&self.scene.requests[first], &self.scene.requests[second]);
        let barred = Flags::NOMERGE | Flags::FUA;
        let compatible = a.op == b.op && !a.flags.intersects(barred) && !b.flags.intersects(barred);
        let group = |id: RequestId| self.scene.group_of(self.scene.requests[id].client());
        let alike = self.policy.rules == Rules::Legacy
            || (a.priority == b.priority && group(first) == group(second));
        let (sectors, segments) = (b.sectors, b.segments);
        // Only a bio that does not fit marks a request (BLK-2): a smaller one may still come.
        compatible && alike && self.fits(first, sectors, segments)
    }

    /// The bios of `gone` go to `survivor`, which keeps the earlier start and the better priority.
    fn take_over(&mut self, survivor: RequestId, gone: RequestId) {
        let taken = self.scene.requests[gone].clone();
        let run = BioRun { first: taken.bios_first, last: taken.bios_last };
        let mut index = run.first;
        while index != NIL {
            let slot = self.bios.at_mut(index);
            slot.request = survivor.0;
            index = slot.next;
        }
        let request = &mut self.scene.requests[survivor];
        let mut all = BioRun { first: request.bios_first, last: request.bios_last };
        all.append(&mut self.bios, run);
        request.bios_last = all.last;
        request.sectors += taken.sectors;
        request.segments += taken.segments;
        request.start = request.start.min(taken.start);
        request.priority = request.priority.better(taken.priority);
        let empty = &mut self.scene.requests[gone];
        (empty.bios_first, empty.bios_last) = (NIL, NIL);
        self.emit_request(Action::BackMerge, gone);
    }

    /// A request waits: bios may be merged into it, unless it forbids that or was in the device.
    pub(crate) fn index_for_merging(&mut self, id: RequestId) {
        let request = &self.scene.requests[id];
        if request.was_started || request.flags.intersects(Flags::NOMERGE | Flags::FUA) {
            return;
        }
        self.merge.add(id.0, &self.scene.requests[id]);
        if self.merge.last == NIL {
            self.merge.last = id.0;
        }
    }

    /// A request waits no longer.
    pub(crate) fn leave_merging(&mut self, id: RequestId) {
        self.merge.drop(id.0);
        if self.merge.last == id.0 {
            self.merge.last = NIL;
        }
    }
}

/// At which end of the request the bio would continue it, if at one.
pub(crate) fn adjoining_side(request: &Request, bio: &Bio) -> Option<Side> {
    if request.end() == bio.sector {
        Some(Side::Back)
    } else if bio.end() == request.sector {
        Some(Side::Front)
    } else {
        None
    }
}

/// Same operation, not on its way to the device, nothing that forbids it (BLK-1).
fn compatible(request: &Request, bio: &Bio) -> bool {
    request.op == bio.op
        && !request.was_started
        && matches!(request.stage, Stage::Waiting | Stage::Plugged)
        && !request.flags.intersects(Flags::NOMERGE | Flags::FUA | Flags::PREFLUSH)
}

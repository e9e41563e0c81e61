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
use core::iter::successors;
use core::mem;

use crate::bio_slot::BioRun;
use crate::elevator::{Rules, Side};
use crate::event::{Action, Observer};
use crate::queue::RequestQueue;
use crate::request::{Bio, Flags, Request, RequestId, Stage};
use crate::slab::NIL;

/// By which of their two ends requests are found.
const ENDS: usize = 0;
const STARTS: usize = 1;

/// A request's place in a chain of those whose sectors fall into one bucket.
#[derive(Debug, Clone, Copy)]
struct BucketLink {
    next: u32,
    prev: u32,
    /// `NIL` while the request is not in the index.
    bucket: u32,
}

/// Where bios may be merged: waiting requests by their ends, by their starts, and the one merged
/// last. Two hashes of chained buckets, whose links lie beside the slab, a request's two together.
#[derive(Debug)]
pub(crate) struct MergeIndex {
    /// The first of each chain; as many as a power of two.
    heads: [Vec<u32>; 2],
    links: Vec<[BucketLink; 2]>,
    /// What a mixed sector is shifted by to become a bucket.
    shift: u32,
    /// The one-hit cache.
    last: u32,
}

impl MergeIndex {
    pub(crate) fn with_capacity(requests: u32) -> MergeIndex {
        let buckets = requests.max(8).next_power_of_two();
        let heads = || (0..buckets).map(|_| NIL).collect();
        let link = BucketLink { next: NIL, prev: NIL, bucket: NIL };
        MergeIndex {
            heads: [heads(), heads()],
            links: (0..requests).map(|_| [link; 2]).collect(),
            shift: 64 - buckets.trailing_zeros(),
            last: NIL,
        }
    }

    /// Fibonacci hashing: the upper bits of a multiplication by 2^64 / golden ratio.
    #[allow(clippy::cast_possible_truncation, reason = "no more bits are left than in a u32")]
    const fn bucket_of(&self, sector: u64) -> u32 {
        (sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as u32
    }

    /// A request waits: bios may be merged into it, unless it forbids that or was in the device.
    #[inline]
    pub(crate) fn offer(&mut self, index: u32, request: &Request) {
        if request.was_started || request.flags.intersects(Flags::NOMERGE | Flags::FUA) {
            return;
        }
        self.add(index, request);
        if self.last == NIL {
            self.last = index;
        }
    }

    #[inline]
    fn add(&mut self, index: u32, request: &Request) {
        let ends = self.become_first(ENDS, index, request.end());
        let starts = self.become_first(STARTS, index, request.sector);
        self.links[index as usize] = [ends, starts];
    }

    /// Puts a request before those of its bucket.
    fn become_first(&mut self, by: usize, index: u32, sector: u64) -> BucketLink {
        let bucket = self.bucket_of(sector);
        let next = mem::replace(&mut self.heads[by][bucket as usize], index);
        // The end of a chain, `NIL`, is the number of no request.
        if let Some(next) = self.links.get_mut(next as usize) {
            next[by].prev = index;
        }
        BucketLink { next, prev: NIL, bucket }
    }

    #[inline]
    fn drop(&mut self, index: u32) {
        let links = &mut self.links[index as usize];
        if links[ENDS].bucket == NIL {
            return;
        }
        let left = *links;
        links[ENDS].bucket = NIL;
        for by in [ENDS, STARTS] {
            let BucketLink { next, prev, bucket } = left[by];
            match self.links.get_mut(prev as usize) {
                Some(prev) => prev[by].next = next,
                None => self.heads[by][bucket as usize] = next,
            }
            if let Some(next) = self.links.get_mut(next as usize) {
                next[by].prev = prev;
            }
        }
    }

    /// Whether request `index` is in the index.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.links[index as usize][ENDS].bucket != NIL
    }

    /// The request in the one-hit cache.
    pub(crate) const fn last(&self) -> Option<u32> {
        if self.last == NIL { None } else { Some(self.last) }
    }

    /// The requests in the bucket of `sector`, the one that came last first.
    fn chain(&self, by: usize, sector: u64) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NIL).then_some(index);
        let first = self.heads[by][self.bucket_of(sector) as usize];
        successors(some(first), move |&index| some(self.links[index as usize][by].next))
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
        self.merge.chain(ENDS, bio.sector).find(fits).map(RequestId)
    }

    /// A waiting request before whose start the bio ends, and with which the elevator agrees.
    fn find_front(&self, bio: &Bio) -> Option<RequestId> {
        let fits = |&index: &u32| {
            let request = self.scene.request(index);
            request.sector == bio.end()
                && compatible(request, bio)
                && self.elevator.may_merge(&self.scene, RequestId(index), bio)
        };
        self.merge.chain(STARTS, bio.end()).find(fits).map(RequestId)
    }

    /// Makes the bio part of a waiting request if all rules allow it; then closes a gap that this
    /// filled.
    #[inline(never)]
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
        let mut run = request.bios();
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
            None if self.policy.nomerges == 0 => self.merge.chain(ENDS, start).find(ends_there),
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
        let run = taken.bios();
        let mut index = run.first;
        while index != NIL {
            let slot = self.bios.at_mut(index);
            slot.request = survivor.0;
            index = slot.next;
        }
        let request = &mut self.scene.requests[survivor];
        let mut all = request.bios();
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

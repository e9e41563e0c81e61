// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging: adjacent bios and requests become one command.
//!
//! A device has a cost per command, so a bio adjacent to a waiting request becomes part of it. It
//! is looked for in this order (BLK-3):
//!
//! ```text
//! 1  the client's own plug             only requests that it has plugged itself
//! 2  the last merged request           one-hit cache, both sides; all that nomerges=1 leaves
//! 3  a hash of request ends            back merge:   [request)[bio)
//! 4  a hash of request starts          front merge:  [bio)[request)      if the elevator allows it
//! ```
//!
//! When a merge closes the gap between two requests, these are merged as well (BLK-4).
//!
//! The merger finds what may be merged by the rules of the block core; `joining` asks the elevator
//! and makes one of the two.
//!
//! # Invariants
//! I1  The index holds exactly the waiting requests that may be merged (not FUA, not refused by the
//!     device), each under its end and its start.
//! I2  A request never exceeds max_sectors and max_segments. One that would have is marked and
//!     never tried again (BLK-2).
//!
//! Source: BLK-1 to BLK-4, BLK-16.
//! Differs: the elevators of Linux look for front merges in their own orders; here one hash of
//! starts serves all, and the elevator only says whether it wants them and agrees (`merges_front`,
//! `may_merge`). Segments are added up; only the caller knows whether two are physically adjacent,
//! and can count them as one in the second bio.

mod joining;

use alloc::vec::Vec;
use core::iter::successors;
use core::mem;

use crate::bio::Bio;
use crate::block::common::Common;
use crate::elevator::{Position, Rules, Side};
use crate::event::{Action, Observer};
use crate::list::List;
use crate::op::Flags;
use crate::queue_view::QueueView;
use crate::request::{Request, RequestId, Requests, Stage};
use crate::slab::NIL;

pub(crate) use joining::Merged;

/// The end of a request by which it is found.
const ENDS: usize = 0;
const STARTS: usize = 1;

/// A request's links in the chain of a hash bucket.
#[derive(Debug, Clone, Copy)]
struct BucketLink {
    next: u32,
    prev: u32,
    /// `NIL` while the request is not in the index.
    bucket: u32,
}

/// Finds where bios may be merged: waiting requests by their ends, by their starts, and the one
/// merged last. Two hashes of chained buckets, with their links apart from the slab, both of a
/// request together.
#[derive(Debug)]
struct Index {
    /// The first of each chain; their number is a power of two.
    heads: [Vec<u32>; 2],
    links: Vec<[BucketLink; 2]>,
    /// How far a mixed sector is shifted to become a bucket.
    shift: u32,
    /// The one-hit cache.
    last: u32,
}

impl Index {
    fn with_capacity(requests: u32) -> Index {
        let buckets = requests.max(8).next_power_of_two();
        let heads = || (0..buckets).map(|_| NIL).collect();
        let link = BucketLink { next: NIL, prev: NIL, bucket: NIL };
        Index {
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

    #[inline]
    fn add(&mut self, index: u32, request: &Request) {
        let ends = self.become_first(ENDS, index, request.end());
        let starts = self.become_first(STARTS, index, request.sector);
        self.links[index as usize] = [ends, starts];
    }

    /// Puts a request first in its bucket.
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

    fn contains(&self, index: u32) -> bool {
        self.links[index as usize][ENDS].bucket != NIL
    }

    /// The requests in the bucket of `sector`, the latest first.
    fn chain(&self, by: usize, sector: u64) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NIL).then_some(index);
        let first = self.heads[by][self.bucket_of(sector) as usize];
        successors(some(first), move |&index| some(self.links[index as usize][by].next))
    }
}

/// Finds what may be merged.
#[derive(Debug)]
pub(crate) struct Merger {
    index: Index,
    /// 0 all merges, 1 only with the last merged, 2 none (BLK-3).
    pub(crate) nomerges: u8,
    /// The largest request.
    pub(crate) max_sectors: u32,
}

impl Merger {
    pub(crate) fn new(requests: u32, max_sectors: u32) -> Merger {
        Merger { index: Index::with_capacity(requests), nomerges: 0, max_sectors }
    }

    /// A request waits: bios may be merged into it, unless its flags forbid that or it was in the
    /// device.
    #[inline]
    pub(crate) fn offer(&mut self, id: RequestId, request: &Request) {
        if request.was_started || request.flags.intersects(Flags::NOMERGE | Flags::FUA) {
            return;
        }
        self.index.add(id.0, request);
        if self.index.last == NIL {
            self.index.last = id.0;
        }
    }

    /// A request no longer waits.
    #[inline]
    pub(crate) fn leave(&mut self, id: RequestId) {
        self.index.drop(id.0);
        self.forget_last(id);
    }

    #[inline]
    fn forget_last(&mut self, id: RequestId) {
        if self.index.last == id.0 {
            self.index.last = NIL;
        }
    }

    /// A request has grown: it is indexed by its new bounds, and is the one merged last.
    pub(crate) fn grew(&mut self, id: RequestId, request: &Request) {
        self.index.drop(id.0);
        self.index.add(id.0, request);
        self.index.last = id.0;
    }

    /// Whether bios may be merged into this request, as far as the merger knows.
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.index.contains(id.0)
    }

    /// The request merged last.
    pub(crate) const fn last(&self) -> Option<RequestId> {
        if self.index.last == NIL { None } else { Some(RequestId(self.index.last)) }
    }

    /// Whether the bio may be merged at all.
    #[inline]
    pub(crate) fn wants(&self, bio: &Bio) -> bool {
        self.nomerges < 2 && !bio.is_flushing() && !bio.flags.contains(Flags::NOMERGE)
    }

    /// A waiting request that ends where the bio begins.
    #[inline]
    pub(crate) fn find_back(&self, requests: &Requests, bio: &Bio) -> Option<RequestId> {
        let fits = |&index: &u32| {
            let request = requests.0.at(index);
            request.end() == bio.sector && compatible(request, bio)
        };
        self.index.chain(ENDS, bio.sector).find(fits).map(RequestId)
    }

    /// A waiting request that begins where the bio ends, and which `may` be merged with it.
    #[inline]
    pub(crate) fn find_front(
        &self,
        requests: &Requests,
        bio: &Bio,
        may: impl Fn(RequestId) -> bool,
    ) -> Option<RequestId> {
        let fits = |&index: &u32| {
            let request = requests.0.at(index);
            request.sector == bio.end() && compatible(request, bio) && may(RequestId(index))
        };
        self.index.chain(STARTS, bio.end()).find(fits).map(RequestId)
    }

    /// A waiting request that ends at `sector`; with nomerges only the one merged last.
    pub(crate) fn find_ending(&self, requests: &Requests, sector: u64) -> Option<RequestId> {
        let ends_there = |&index: &u32| requests.0.at(index).end() == sector;
        match self.last().map(|id| id.0).filter(ends_there) {
            None if self.nomerges == 0 => self.index.chain(ENDS, sector).find(ends_there),
            cached => cached,
        }
        .map(RequestId)
    }

    /// A request begins to wait: bios may be merged into it, and the elevator has it.
    #[inline(always)]
    pub(crate) fn enqueue<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        id: RequestId,
        position: Position,
    ) {
        let request = &mut common.view.requests[id];
        request.stage = Stage::Waiting;
        self.offer(id, request);
        common.emit_request(Action::Insert, id);
        common.elevator.insert(&mut common.view, id, position);
    }

    /// Takes everything that waits in the elevator, as a list in the order of a forced dispatch.
    /// The old elevator knows nothing afterwards, not even what is plugged.
    pub(crate) fn take_back<O: Observer>(&mut self, common: &mut Common<O>) -> List {
        let mut waiting = List::new();
        while let Some(id) = common.elevator.drain(&mut common.view) {
            self.leave(id);
            common.elevator.released(&mut common.view, id);
            waiting.push_back(&mut common.links, id.0);
        }
        for index in 0..common.view.request_slots() {
            if common.is_plugged(index) {
                common.elevator.released(&mut common.view, RequestId(index));
            }
        }
        waiting
    }

    /// The rules of the block core for one more bio (BLK-1, BLK-2); marks a request that is full.
    pub(crate) fn may_grow(
        &mut self,
        view: &mut QueueView,
        rules: Rules,
        id: RequestId,
        bio: &Bio,
    ) -> bool {
        let request = &view.requests[id];
        if !compatible(request, bio) || (rules == Rules::Mq && !alike(view, id, bio)) {
            return false;
        }
        let fits = self.fits(view, id, bio.sectors, bio.segments);
        if !fits {
            // A request that is too full for the bio is never tried again (BLK-2).
            view.requests[id].flags |= Flags::NOMERGE;
            self.forget_last(id);
        }
        fits
    }

    fn fits(&self, view: &QueueView, id: RequestId, sectors: u32, segments: u16) -> bool {
        let request = &view.requests[id];
        request.sectors.saturating_add(sectors) <= self.max_sectors
            && request.segments.saturating_add(segments) <= view.facts.max_segments
    }

    /// The same rules for two requests, the second of which begins where the first ends.
    pub(crate) fn may_become_one(
        &self,
        view: &QueueView,
        rules: Rules,
        first: RequestId,
        second: RequestId,
    ) -> bool {
        let (a, b) = (&view.requests[first], &view.requests[second]);
        let barred = Flags::NOMERGE | Flags::FUA;
        let compatible = a.op == b.op && !a.flags.intersects(barred) && !b.flags.intersects(barred);
        let group = |id: RequestId| view.group_of(view.requests[id].client());
        let alike =
            rules == Rules::Legacy || (a.priority == b.priority && group(first) == group(second));
        let (sectors, segments) = (b.sectors, b.segments);
        // Only a bio that does not fit marks a request (BLK-2): a smaller one may still come.
        compatible && alike && self.fits(view, first, sectors, segments)
    }
}

/// The end of the request at which the bio would continue it, if any.
fn adjoining_side(request: &Request, bio: &Bio) -> Option<Side> {
    if request.end() == bio.sector {
        Some(Side::Back)
    } else if bio.end() == request.sector {
        Some(Side::Front)
    } else {
        None
    }
}

/// Same operation, not on its way to the device, no flag that forbids it (BLK-1).
fn compatible(request: &Request, bio: &Bio) -> bool {
    request.op == bio.op
        && !request.was_started
        && matches!(request.stage, Stage::Waiting | Stage::Plugged)
        && !request.flags.intersects(Flags::NOMERGE | Flags::FUA | Flags::PREFLUSH)
}

/// Modern kernels merge only within a group and a priority (BLK-1).
fn alike(view: &QueueView, id: RequestId, bio: &Bio) -> bool {
    let request = &view.requests[id];
    request.priority == view.priority_of(bio)
        && (request.client() == bio.client
            || view.group_of(request.client()) == view.group_of(bio.client))
}

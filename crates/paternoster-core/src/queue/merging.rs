// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging: joins what the merger finds (`block/merge.rs`), if the elevator agrees.
//!
//! ```text
//! bio ─▶ own plug? ─▶ merged last? ─▶ back? ─▶ front? ─▶ grow ─▶ the gap is closed: absorb
//! ```

use super::RequestQueue;
use crate::bio::Bio;
use crate::bio_slot::BioRun;
use crate::block::merge::adjoining_side;
use crate::elevator::Side;
use crate::event::{Action, Observer};
use crate::request::RequestId;
use crate::slab::NIL;

impl<O: Observer> RequestQueue<O> {
    /// Tries to make bio `index` part of a request; whether it succeeded.
    pub(crate) fn merge_bio(&mut self, index: u32, bio: &Bio) -> bool {
        if !self.merger.wants(bio) {
            return false;
        }
        let nomerges = self.merger.nomerges;
        if nomerges == 0 && self.merge_into_plug(index, bio) {
            return true;
        }
        self.elevator.bio_comes(&mut self.view, bio);
        if let Some(last) = self.merger.last() {
            let request = &self.view.requests[last];
            if let Some(side) = adjoining_side(request, bio)
                && self.grow(last, index, bio, side)
            {
                return true;
            }
        }
        if nomerges == 1 {
            return false;
        }
        if let Some(id) = self.merger.find_back(&self.view.requests, bio)
            && self.grow(id, index, bio, Side::Back)
        {
            return true;
        }
        if !self.elevator.traits().merges_front {
            return false;
        }
        let (view, elevator) = (&self.view, &self.elevator);
        let found =
            self.merger.find_front(&view.requests, bio, |id| elevator.may_merge(view, id, bio));
        match found {
            Some(id) => self.grow(id, index, bio, Side::Front),
            None => false,
        }
    }

    /// Makes the bio part of a waiting request if all rules allow it; then closes the gap if this
    /// filled one.
    #[inline(never)]
    fn grow(&mut self, id: RequestId, index: u32, bio: &Bio, side: Side) -> bool {
        if !self.may_join(id, bio) {
            return false;
        }
        self.join(id, index, bio, side);
        self.merger.grew(id, &self.view.requests[id]);
        self.elevator.grown(&mut self.view, id, side);
        self.close_gap(id, side);
        true
    }

    /// Whether block core and elevator allow the bio to join the request.
    pub(crate) fn may_join(&mut self, id: RequestId, bio: &Bio) -> bool {
        self.merger.may_grow(&mut self.view, self.policy.rules, id, bio)
            && self.elevator.may_merge(&self.view, id, bio)
    }

    /// Links the bio to the request's end or start and moves the request's bounds.
    pub(crate) fn join(&mut self, id: RequestId, index: u32, bio: &Bio, side: Side) {
        let priority = self.view.priority_of(bio);
        self.bios.at_mut(index).request = id.0;
        let request = &mut self.view.requests[id];
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
        if let Some(neighbour) = self.elevator.neighbour(&self.view, id, side) {
            let (first, second) =
                if side == Side::Back { (id, neighbour) } else { (neighbour, id) };
            self.absorb(first, second);
        }
    }

    /// A request from a plug that begins where a waiting one ends becomes part of it (BLK-6,
    /// legacy). Whether it did: then `id` has ended.
    pub(crate) fn absorb_before_insert(&mut self, id: RequestId) -> bool {
        if self.merger.nomerges >= 2 {
            return false;
        }
        let start = self.view.requests[id].sector;
        let Some(survivor) = self.merger.find_ending(&self.view.requests, start) else {
            return false;
        };
        if !self.may_become_one(survivor, id) {
            return false;
        }
        self.take_over(survivor, id);
        self.merger.grew(survivor, &self.view.requests[survivor]);
        self.elevator.grown(&mut self.view, survivor, Side::Back);
        self.elevator.released(&mut self.view, id);
        self.free_unbound(id);
        true
    }

    /// `second`, which waits directly after `first`, becomes part of it if all rules allow it.
    fn absorb(&mut self, first: RequestId, second: RequestId) {
        let adjoin = self.view.requests[first].end() == self.view.requests[second].sector;
        let both = self.merger.contains(first) && self.merger.contains(second);
        if !adjoin || !both || !self.may_become_one(first, second) {
            return;
        }
        self.merger.leave(second);
        self.take_over(first, second);
        self.merger.grew(first, &self.view.requests[first]);
        self.elevator.absorbed(&mut self.view, first, second);
        self.elevator.released(&mut self.view, second);
        self.free_unbound(second);
    }

    fn may_become_one(&self, first: RequestId, second: RequestId) -> bool {
        self.merger.may_become_one(&self.view, self.policy.rules, first, second)
            && self.elevator.may_absorb(&self.view, first, second)
    }

    /// The bios of `gone` go to `survivor`, which keeps the earlier start and the better priority.
    fn take_over(&mut self, survivor: RequestId, gone: RequestId) {
        let taken = self.view.requests[gone].clone();
        let run = taken.bios();
        let mut index = run.first;
        while index != NIL {
            let slot = self.bios.at_mut(index);
            slot.request = survivor.0;
            index = slot.next;
        }
        let request = &mut self.view.requests[survivor];
        let mut all = request.bios();
        all.append(&mut self.bios, run);
        request.bios_last = all.last;
        request.sectors += taken.sectors;
        request.segments += taken.segments;
        request.start = request.start.min(taken.start);
        request.priority = request.priority.better(taken.priority);
        let empty = &mut self.view.requests[gone];
        (empty.bios_first, empty.bios_last) = (NIL, NIL);
        self.emit_request(Action::BackMerge, gone);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging: joins what the merger finds (`block/merge.rs`), if the elevator agrees.
//!
//! ```text
//! bio ─▶ own plug? ─▶ merged last? ─▶ back? ─▶ front? ─▶ grow ─▶ the gap is closed: absorb
//! ```

use super::RequestQueue;
use crate::bio::Bio;
use crate::block::common::Common;
use crate::block::merge::adjoining_side;
use crate::elevator::Side;
use crate::event::{Action, Observer};
use crate::request::RequestId;

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
        self.common.elevator.bio_comes(&mut self.common.view, bio);
        if let Some(last) = self.merger.last() {
            let request = &self.common.view.requests[last];
            if let Some(side) = adjoining_side(request, bio)
                && self.grow(last, index, bio, side)
            {
                return true;
            }
        }
        if nomerges == 1 {
            return false;
        }
        if let Some(id) = self.merger.find_back(&self.common.view.requests, bio)
            && self.grow(id, index, bio, Side::Back)
        {
            return true;
        }
        if !self.common.elevator.traits().merges_front {
            return false;
        }
        let (view, elevator) = (&self.common.view, &self.common.elevator);
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
        self.merger.grew(id, &self.common.view.requests[id]);
        self.common.elevator.grown(&mut self.common.view, id, side);
        self.close_gap(id, side);
        true
    }

    /// Whether block core and elevator allow the bio to join the request.
    pub(crate) fn may_join(&mut self, id: RequestId, bio: &Bio) -> bool {
        self.merger.may_grow(&mut self.common.view, self.common.rules, id, bio)
            && self.common.elevator.may_merge(&self.common.view, id, bio)
    }

    /// Links the bio to the request's end or start and moves the request's bounds.
    pub(crate) fn join(&mut self, id: RequestId, index: u32, bio: &Bio, side: Side) {
        let priority = self.common.view.priority_of(bio);
        let Common { view, bios, .. } = &mut self.common;
        let request = &mut view.requests[id];
        bios.join(request, id, index, side);
        request.priority = request.priority.better(priority);
        let action = match side {
            Side::Back => Action::BackMerge,
            Side::Front => Action::FrontMerge,
        };
        self.common.emit(action, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
    }

    /// If `id` now touches its neighbour on `side`, the two become one (BLK-4).
    fn close_gap(&mut self, id: RequestId, side: Side) {
        if let Some(neighbour) = self.common.elevator.neighbour(&self.common.view, id, side) {
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
        let start = self.common.view.requests[id].sector;
        let Some(survivor) = self.merger.find_ending(&self.common.view.requests, start) else {
            return false;
        };
        if !self.may_become_one(survivor, id) {
            return false;
        }
        self.common.take_over(survivor, id);
        self.merger.grew(survivor, &self.common.view.requests[survivor]);
        self.common.elevator.grown(&mut self.common.view, survivor, Side::Back);
        self.common.elevator.released(&mut self.common.view, id);
        self.free_unbound(id);
        true
    }

    /// `second`, which waits directly after `first`, becomes part of it if all rules allow it.
    fn absorb(&mut self, first: RequestId, second: RequestId) {
        let adjoin =
            self.common.view.requests[first].end() == self.common.view.requests[second].sector;
        let both = self.merger.contains(first) && self.merger.contains(second);
        if !adjoin || !both || !self.may_become_one(first, second) {
            return;
        }
        self.merger.leave(second);
        self.common.take_over(first, second);
        self.merger.grew(first, &self.common.view.requests[first]);
        self.common.elevator.absorbed(&mut self.common.view, first, second);
        self.common.elevator.released(&mut self.common.view, second);
        self.free_unbound(second);
    }

    fn may_become_one(&self, first: RequestId, second: RequestId) -> bool {
        self.merger.may_become_one(&self.common.view, self.common.rules, first, second)
            && self.common.elevator.may_absorb(&self.common.view, first, second)
    }
}

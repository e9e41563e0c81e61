// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joining: what the merger finds becomes one, if the elevator agrees.
//!
//! ```text
//! bio ─▶ own plug? ─▶ merged last? ─▶ back? ─▶ front? ─▶ grow ─▶ the gap is closed: absorb
//! ```
//!
//! A request that has become part of another ends; the queue frees it.

use super::{Merger, adjoining_side};
use crate::bio::Bio;
use crate::block::common::Common;
use crate::block::plug::TaskPlugs;
use crate::elevator::Side;
use crate::event::Observer;
use crate::request::RequestId;

/// What became of a bio that looked for a request to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merged {
    /// It needs a request of its own.
    No,
    /// It is part of a request.
    Joined,
    /// It is, and has closed a gap: this request is part of its neighbour, and has ended.
    Closed(RequestId),
}

impl Merger {
    /// Tries to make bio `index` part of a request.
    #[inline(always)]
    pub(crate) fn merge<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        plugs: &TaskPlugs,
        index: u32,
        bio: &Bio,
    ) -> Merged {
        if !self.wants(bio) {
            return Merged::No;
        }
        if self.nomerges == 0 && self.merge_into_plug(common, plugs, index, bio) {
            return Merged::Joined;
        }
        common.elevator.bio_comes(&mut common.view, bio);
        if let Some(last) = self.last()
            && let Some(side) = adjoining_side(&common.view.requests[last], bio)
        {
            let merged = self.grow(common, last, index, bio, side);
            if merged != Merged::No {
                return merged;
            }
        }
        if self.nomerges == 1 {
            return Merged::No;
        }
        if let Some(id) = self.find_back(&common.view.requests, bio) {
            let merged = self.grow(common, id, index, bio, Side::Back);
            if merged != Merged::No {
                return merged;
            }
        }
        if !common.elevator.traits().merges_front {
            return Merged::No;
        }
        let Common { view, elevator, .. } = &*common;
        let may = |id| elevator.may_merge(view, id, bio);
        match self.find_front(&view.requests, bio, may) {
            Some(id) => self.grow(common, id, index, bio, Side::Front),
            None => Merged::No,
        }
    }

    /// Makes the bio part of a request in its client's own plug; whether it succeeded.
    fn merge_into_plug<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        plugs: &TaskPlugs,
        index: u32,
        bio: &Bio,
    ) -> bool {
        let plugged = || common.view.clients.at(bio.client.index()).plugged;
        if plugs.held() == 0 || !plugged() {
            return false;
        }
        // The newest first: a stream continues where it was a moment ago.
        let mut at = plugs.of(bio.client).last();
        while let Some(candidate) = at {
            let id = RequestId(candidate);
            if let Some(side) = adjoining_side(&common.view.requests[id], bio)
                && self.may_join(common, id, bio)
            {
                common.join(id, index, bio, side);
                return true;
            }
            at = common.links.prev(candidate);
        }
        false
    }

    /// Makes the bio part of a waiting request if all rules allow it; then closes the gap if this
    /// filled one.
    #[inline(never)]
    fn grow<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        id: RequestId,
        index: u32,
        bio: &Bio,
        side: Side,
    ) -> Merged {
        if !self.may_join(common, id, bio) {
            return Merged::No;
        }
        common.join(id, index, bio, side);
        self.grew(id, &common.view.requests[id]);
        common.elevator.grown(&mut common.view, id, side);
        self.close_gap(common, id, side).map_or(Merged::Joined, Merged::Closed)
    }

    /// Whether block core and elevator allow the bio to join the request.
    fn may_join<O>(&mut self, common: &mut Common<O>, id: RequestId, bio: &Bio) -> bool {
        self.may_grow(&mut common.view, common.rules, id, bio)
            && common.elevator.may_merge(&common.view, id, bio)
    }

    /// If `id` now touches its neighbour on `side`, the two become one (BLK-4): returns the one
    /// that has ended.
    fn close_gap<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        id: RequestId,
        side: Side,
    ) -> Option<RequestId> {
        let neighbour = common.elevator.neighbour(&common.view, id, side)?;
        let (first, second) = if side == Side::Back { (id, neighbour) } else { (neighbour, id) };
        let adjoin = common.view.requests[first].end() == common.view.requests[second].sector;
        let both = self.contains(first) && self.contains(second);
        if !adjoin || !both || !self.may_absorb(common, first, second) {
            return None;
        }
        self.leave(second);
        common.take_over(first, second);
        self.grew(first, &common.view.requests[first]);
        common.elevator.absorbed(&mut common.view, first, second);
        common.elevator.released(&mut common.view, second);
        Some(second)
    }

    /// A request from a plug that begins where a waiting one ends becomes part of it (BLK-6,
    /// legacy). Whether it did: then `id` has ended.
    pub(crate) fn absorb<O: Observer>(&mut self, common: &mut Common<O>, id: RequestId) -> bool {
        if self.nomerges >= 2 {
            return false;
        }
        let start = common.view.requests[id].sector;
        let Some(survivor) = self.find_ending(&common.view.requests, start) else {
            return false;
        };
        if !self.may_absorb(common, survivor, id) {
            return false;
        }
        common.take_over(survivor, id);
        self.grew(survivor, &common.view.requests[survivor]);
        common.elevator.grown(&mut common.view, survivor, Side::Back);
        common.elevator.released(&mut common.view, id);
        true
    }

    fn may_absorb<O>(&self, common: &Common<O>, first: RequestId, second: RequestId) -> bool {
        self.may_become_one(&common.view, common.rules, first, second)
            && common.elevator.may_absorb(&common.view, first, second)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::block::common::tests::{client, common, request};
    use crate::elevator::Position;
    use crate::op::{Flags, Op};
    use crate::request::Stage;

    proptest! {
        /// Whatever the order in which reads of 4 KiB arrive: is each in a request, and do no two
        /// requests that wait touch each other, unless they would be too large together?
        #[test]
        fn what_touches_becomes_one(places in prop::collection::vec(0u64..40, 1..60)) {
            let (mut common, plugs) = (common(), TaskPlugs::with_capacity(1));
            let client = client(&common);
            let most = 64;
            let mut merger = Merger::new(common.view.limits.requests, most);
            let mut seen = Vec::new();
            for place in places {
                if seen.contains(&place) {
                    continue;
                }
                seen.push(place);
                let bio = Bio::new(client, Op::Read, 8 * place, 8);
                let index = common.bios.take(&bio).unwrap().index();
                match merger.merge(&mut common, &plugs, index, &bio) {
                    Merged::No => {
                        let id = request(&mut common, index, &bio);
                        common.view.requests[id].stage = Stage::Waiting;
                        merger.offer(id, &common.view.requests[id]);
                        common.elevator.insert(&mut common.view, id, Position::Sorted);
                    }
                    Merged::Joined => {}
                    Merged::Closed(gone) => {
                        prop_assert!(!merger.contains(gone));
                        common.view.requests.0.free(gone.0);
                    }
                }
                prop_assert_eq!(common.bios.audit(&common.view), Ok(()));
            }
            let requests = common.view.requests().map(|(_, one)| one);
            let mut waiting: Vec<(u64, u64, Flags)> =
                requests.map(|one| (one.sector(), one.end(), one.flags())).collect();
            waiting.sort_unstable_by_key(|one| one.0);
            let sectors: u64 = waiting.iter().map(|one| one.1 - one.0).sum();
            prop_assert_eq!(sectors, 8 * seen.len() as u64);
            for pair in waiting.windows(2) {
                let [(first, middle, full), (next, last, too)] = [pair[0], pair[1]];
                // One that a bio did not fit into is not tried again (BLK-2).
                let barred = full.contains(Flags::NOMERGE) || too.contains(Flags::NOMERGE);
                let apart = middle < next || last - first > u64::from(most) || barred;
                prop_assert!(middle <= next && apart, "{first} to {middle}, {next} to {last}");
            }
        }
    }
}

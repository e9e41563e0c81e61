// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatch list: requests that have left the elevator and not yet reached the device.
//!
//! The device pulls: only when this list is empty does the elevator pick one request, so that at
//! most one scheduled request is in it (BLK-17). There are more when the elevator is emptied by
//! force (`RequestQueue::dispatch_all`) or the device refuses. Picked requests are sorted one way
//! from the boundary, which is the end of the last request that was issued (BLK-12):
//!
//! ```text
//! boundary 50     picked 30, 70, 20, 60     list 60 70 20 30
//! ```
//!
//! A refused request goes to the head and keeps its precedence (BLK-11).
//!
//! # Invariants
//! I1  The list holds exactly the requests whose stage is `Dispatched`.
//!
//! Source: BLK-10, BLK-11, BLK-12, BLK-17.

use crate::block::common::Common;
use crate::list::{Links, List};
use crate::op::Op;
use crate::request::{Request, RequestId, Requests, Stage};

/// The dispatch list.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    pub(crate) list: List,
}

impl Dispatch {
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) const fn len(&self) -> u32 {
        self.list.len()
    }

    /// A request goes before all others: the device refused it, or a sequence needs it first.
    pub(crate) fn push_front<O>(&mut self, common: &mut Common<O>, id: RequestId) {
        common.view.requests[id].stage = Stage::Dispatched;
        self.list.push_front(&mut common.links, id.0);
    }

    /// A request goes behind all others.
    pub(crate) fn push_back<O>(&mut self, common: &mut Common<O>, id: RequestId) {
        common.view.requests[id].stage = Stage::Dispatched;
        self.list.push_back(&mut common.links, id.0);
    }

    /// A picked request goes to its place by sector (BLK-12).
    #[inline(never)]
    pub(crate) fn sort_in<O>(&mut self, common: &mut Common<O>, id: RequestId) {
        let Common { view, links, .. } = common;
        view.requests[id].stage = Stage::Dispatched;
        sort_in(&mut self.list, links, &view.requests, view.in_device.last_end, id);
    }

    /// The first request, which goes to the device.
    #[inline(always)]
    pub(crate) fn pop(&mut self, links: &mut Links) -> Option<RequestId> {
        self.list.pop_front(links).map(RequestId)
    }
}

/// Inserts a picked request in order (BLK-12).
fn sort_in(list: &mut List, links: &mut Links, requests: &Requests, boundary: u64, id: RequestId) {
    let new = &requests[id];
    let mut place = list.last();
    while let Some(index) = place {
        let other = requests.0.at(index);
        if is_fence(other, new) || !goes_before(new, other, boundary) {
            break;
        }
        place = links.prev(index);
    }
    match place {
        Some(index) => list.insert_after(links, index, id.0),
        None => list.push_front(links, id.0),
    }
}

/// Whether nothing may be sorted past `other`: another direction, a discard among others, or a
/// request that the device has already seen.
fn is_fence(other: &Request, new: &Request) -> bool {
    let discard = |request: &Request| request.op == Op::Discard;
    other.op != new.op || discard(other) != discard(new) || other.was_started
}

/// One-way order from the boundary: first the sectors from it on, ascending; then those before it,
/// ascending.
fn goes_before(new: &Request, other: &Request, boundary: u64) -> bool {
    match (new.sector >= boundary, other.sector >= boundary) {
        (true, false) => true,
        (false, true) => false,
        _ => new.sector < other.sector,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::bio::Bio;
    use crate::block::common::tests::{client, common, request};

    /// Are picked requests sorted one way from the boundary, as in the header, and does a refused
    /// one go before them all, with nothing sorted past it (BLK-11, BLK-12)?
    #[test]
    fn blk_12_picked_requests_are_sorted_from_the_boundary() {
        let mut common = common();
        let mut dispatch = Dispatch::default();
        common.view.in_device.last_end = 50;
        let picked = |common: &mut Common<_>, sector| {
            let bio = Bio::new(client(common), Op::Read, sector, 1);
            let index = common.bios.take(&bio).unwrap().index();
            request(common, index, &bio)
        };
        for sector in [30, 70, 20, 60] {
            let id = picked(&mut common, sector);
            dispatch.sort_in(&mut common, id);
        }
        let refused = picked(&mut common, 10);
        common.view.requests[refused].was_started = true;
        dispatch.push_front(&mut common, refused);
        let late = picked(&mut common, 55);
        dispatch.sort_in(&mut common, late);
        let mut order = Vec::new();
        while let Some(id) = dispatch.pop(&mut common.links) {
            assert_eq!(common.view.requests[id].stage, Stage::Dispatched);
            order.push(common.view.requests[id].sector);
        }
        assert_eq!(order, [10, 55, 60, 70, 20, 30]);
    }
}

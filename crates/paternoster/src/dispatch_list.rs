// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatch list: what has left the elevator and not yet reached the device.
//!
//! The device pulls: the elevator is asked for one request only when this list is empty, so that
//! at most one scheduled request stands here (BLK-17). More come together when the elevator is
//! emptied by force ([`RequestQueue::dispatch_all`]) or the device refuses. Picked requests are
//! sorted one way from the boundary, which is the end of the last request that was issued
//! (BLK-12):
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
//! Source: spec `cfq-flush-block.md` 13.5: BLK-10, BLK-11, BLK-12, BLK-17.

use crate::elevator::{Place, Rules};
use crate::event::Observer;
use crate::queue::RequestQueue;
use crate::request::{Op, Request, RequestId, Stage};
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// Sorts a picked request in (BLK-12).
    #[inline(never)]
    pub(crate) fn add_to_dispatch(&mut self, id: RequestId) {
        self.scene.requests[id].stage = Stage::Dispatched;
        let boundary = self.scene.in_device.last_end;
        let new = &self.scene.requests[id];
        let mut place = self.dispatch.last();
        while let Some(index) = place {
            let other = self.scene.request(index);
            if is_fence(other, new) || !goes_before(new, other, boundary) {
                break;
            }
            place = self.links.prev(index);
        }
        match place {
            Some(index) => self.dispatch.insert_after(&mut self.links, index, id.0),
            None => self.dispatch.push_front(&mut self.links, id.0),
        }
    }

    /// Empties the elevator into the dispatch list, whatever its limits and idling say: a forced
    /// dispatch, as an insertion at the back of the queue needs it (BLK-10). Sorted, unless the
    /// elevator's own order is to stay (deadline; everything under mq rules). Returns how many
    /// requests went.
    pub fn dispatch_all(&mut self, now: Nanos) -> u32 {
        self.advance(now);
        let mut count = 0;
        while let Some(id) = self.elevator.drain(&mut self.scene) {
            self.leave_merging(id);
            if self.policy.rules == Rules::Mq || self.elevator.drain_place() == Place::Tail {
                self.scene.requests[id].stage = Stage::Dispatched;
                self.dispatch.push_back(&mut self.links, id.0);
            } else {
                self.add_to_dispatch(id);
            }
            count += 1;
        }
        self.end_call();
        count
    }
}

/// Nothing is sorted across: another direction, a discard beside others, what the device has
/// already seen.
fn is_fence(other: &Request, new: &Request) -> bool {
    let discard = |request: &Request| request.op == Op::Discard;
    other.op != new.op || discard(other) != discard(new) || other.was_started
}

/// One-way order from the boundary: what lies behind it first, ascending; then what lies before
/// it, ascending.
fn goes_before(new: &Request, other: &Request, boundary: u64) -> bool {
    match (new.sector >= boundary, other.sector >= boundary) {
        (true, false) => true,
        (false, true) => false,
        _ => new.sector < other.sector,
    }
}

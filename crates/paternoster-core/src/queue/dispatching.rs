// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatching: requests move from the elevator to the dispatch list (`block/dispatch.rs`).

use super::RequestQueue;
use crate::block::dispatch::sort_in;
use crate::elevator::{Place, Rules};
use crate::event::Observer;
use crate::request::{RequestId, Stage};
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// Inserts a picked request in order (BLK-12).
    #[inline(never)]
    pub(crate) fn add_to_dispatch(&mut self, id: RequestId) {
        self.view.requests[id].stage = Stage::Dispatched;
        let boundary = self.view.in_device.last_end;
        sort_in(&mut self.dispatch, &mut self.links, &self.view.requests, boundary, id);
    }

    /// Empties the elevator into the dispatch list, whatever its limits and idling say: a forced
    /// dispatch, as needed for an insertion at the back of the queue (BLK-10). Sorted, unless the
    /// elevator's own order is kept (deadline; everything under mq rules). Returns the number of
    /// requests.
    pub fn dispatch_all(&mut self, now: Nanos) -> u32 {
        self.advance(now);
        let mut count = 0;
        while let Some(id) = self.elevator.drain(&mut self.view) {
            self.merger.leave(id);
            if self.policy.rules == Rules::Mq || self.elevator.traits().drain_place == Place::Tail {
                self.view.requests[id].stage = Stage::Dispatched;
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

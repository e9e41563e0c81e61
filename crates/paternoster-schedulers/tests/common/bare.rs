// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bare: an elevator with the required methods of the trait and nothing else, as a newcomer starts
//! one.
//!
//! First come, first served, in a deque. The defaults of the trait do the rest: bios merge with its
//! requests, requests with each other, clients come and go.

use std::collections::VecDeque;

use paternoster_core::elevator::{Elevator, Pick, Place, Position, Traits};
use paternoster_core::{QueueView, RequestId};

#[derive(Debug, Default)]
pub(crate) struct Bare {
    waiting: VecDeque<RequestId>,
}

impl Elevator for Bare {
    fn traits(&self) -> Traits {
        Traits { merges_front: true, ..Traits::mq("bare") }
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.waiting = VecDeque::with_capacity(view.request_slots() as usize);
    }

    fn insert(&mut self, _: &mut QueueView, request: RequestId, position: Position) {
        match position {
            Position::Sorted => self.waiting.push_back(request),
            Position::Head => self.waiting.push_front(request),
        }
    }

    fn pick(&mut self, _: &mut QueueView) -> Pick {
        let first = self.waiting.pop_front();
        first.map_or(Pick::Nothing, |request| Pick::Dispatch(request, Place::Tail))
    }

    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.waiting.retain(|&other| other != request);
    }

    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        self.waiting.pop_front()
    }

    fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).expect("there are few")
    }
}

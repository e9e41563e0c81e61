// SPDX-License-Identifier: MIT OR Apache-2.0
//! noop and none: first come, first served.
//!
//! One FIFO. It is good for a device that orders requests itself, and as a baseline for what the
//! other schedulers cost and gain. Merging still happens (the core does it), with neighbours in the
//! FIFO as former and latter.
//!
//! `noop` is a scheduler of the legacy block layer, with its two pools of requests; `none` is
//! blk-mq without a scheduler, where a request is one of the device's tags. On a device of 8 tags,
//! with three clients that keep 8 requests of 64 KiB outstanding and one that reads 4 KiB at a
//! time, the small client gets 79 I/Os a second under the kernel's none, 69 under ours, and 29
//! under noop, because its request waits behind everything the others have put into the FIFO.
//!
//! Source: NOOP-1, NOOP-2.

use alloc::format;
use core::fmt;

use paternoster_core::elevator::{Elevator, Fault, Pick, Place, Position, Rules, Side, Traits};
use paternoster_core::list::{Links, List};
use paternoster_core::{QueueView, RequestId};

/// First come, first served.
#[derive(Debug)]
pub struct Noop {
    links: Links,
    fifo: List,
    rules: Rules,
}

impl Noop {
    /// noop of the legacy block layer.
    #[must_use]
    pub fn new() -> Noop {
        Noop::of(Rules::Legacy)
    }

    /// blk-mq without a scheduler.
    #[must_use]
    pub fn none() -> Noop {
        Noop::of(Rules::Mq)
    }

    fn of(rules: Rules) -> Noop {
        Noop { links: Links::default(), fifo: List::new(), rules }
    }

    fn take(&mut self) -> Option<RequestId> {
        self.fifo.pop_front(&mut self.links).map(RequestId::from_index)
    }
}

impl Default for Noop {
    fn default() -> Noop {
        Noop::new()
    }
}

impl Elevator for Noop {
    fn traits(&self) -> Traits {
        let traits = match self.rules {
            Rules::Legacy => Traits::legacy("noop"),
            Rules::Mq => Traits::mq("none"),
        };
        Traits { passes_through: true, ..traits }
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.links = Links::with_capacity(view.request_slots());
        self.fifo = List::new();
    }

    fn insert(&mut self, _: &mut QueueView, request: RequestId, position: Position) {
        match position {
            Position::Sorted => self.fifo.push_back(&mut self.links, request.index()),
            Position::Head => self.fifo.push_front(&mut self.links, request.index()),
        }
    }

    fn shrunk(&mut self, _: &mut QueueView, _: RequestId, _: Side) {}

    fn absorbed(&mut self, _: &mut QueueView, _: RequestId, gone: RequestId) {
        self.fifo.remove(&mut self.links, gone.index());
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.links.prev(request.index()).map(RequestId::from_index),
            Side::Back => self.links.next(request.index()).map(RequestId::from_index),
        }
    }

    fn pick(&mut self, _: &mut QueueView) -> Pick {
        self.take().map_or(Pick::Nothing, |request| Pick::Dispatch(request, Place::Sorted))
    }

    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.fifo.remove(&mut self.links, request.index());
    }

    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        self.take()
    }

    fn explain(&self, _: &QueueView, request: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        let at = |&index: &u32| index == request.index();
        let before = self.fifo.iter(&self.links).position(|index| at(&index)).unwrap_or(0);
        match before {
            0 => out.write_str("it is the next"),
            _ => write!(out, "{before} came before it"),
        }
    }

    fn waiting(&self) -> u32 {
        self.fifo.len()
    }

    fn audit(&self, _: &QueueView) -> Result<(), Fault> {
        self.fifo.check(&self.links).map_err(|fault| format!("noop: {fault}"))
    }
}

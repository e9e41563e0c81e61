// SPDX-License-Identifier: MIT OR Apache-2.0
//! deadline: sector order within batches, and no request waits much longer than its deadline.
//!
//! A scheduler of the single-queue block layer that does not tell clients apart. Everything it does
//! is in [`paternoster_core::pick::batch`]; this file connects it to the elevator interface.
//!
//! Source: DL-1 to DL-6, DL-11, DL-12, of 2.6.34 and 3.6.

use alloc::format;
use core::fmt;

use paternoster_core::attribute::Attribute;
use paternoster_core::elevator::{
    Elevator, Fault, KnobTable, Knobs, Pick, Place, Position, Side, Traits,
};
use paternoster_core::knob::{self, Knob, Unit, count};
use paternoster_core::pick::batch::{Directions, READ, Resume, Tuning, Turn, WRITE, direction};
use paternoster_core::pick::lane::LaneSpace;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// What deadline and mq-deadline have in common, in the order of deadline's listing.
pub(super) const fn tuning_knobs<T: Tuned>() -> [Knob<T>; 5] {
    [
        Knob::<T>::time(
            "read_expire",
            Unit::Ms,
            "after which time a read should be served",
            |of, _| of.tuning().expire[READ],
            |of, _, time| of.tuning_mut().expire[READ] = time,
        )
        .at_most(MOST),
        Knob::<T>::time(
            "write_expire",
            Unit::Ms,
            "after which time a write should be served",
            |of, _| of.tuning().expire[WRITE],
            |of, _, time| of.tuning_mut().expire[WRITE] = time,
        )
        .at_most(MOST),
        Knob::<T>::number(
            "writes_starved",
            "batches",
            "how often reads may be preferred while writes wait",
            |of, _| of.tuning().writes_starved.into(),
            |of, _, value| of.tuning_mut().writes_starved = count(value),
        ),
        Knob::<T>::switch(
            "front_merges",
            "1 if bios are merged before requests too",
            |of, _| of.tuning().front_merges,
            |of, _, on| of.tuning_mut().front_merges = on,
        ),
        Knob::<T>::number(
            "fifo_batch",
            "requests",
            "requests in sector order before the other direction and the deadlines are looked at",
            |of, _| of.tuning().fifo_batch.into(),
            |of, _, value| of.tuning_mut().fifo_batch = count(value),
        ),
    ]
}

/// A scheduler with batches and deadlines, as [`tuning_knobs`] needs it.
pub(super) trait Tuned {
    fn tuning(&self) -> &Tuning;
    fn tuning_mut(&mut self) -> &mut Tuning;
}

/// The kernel keeps these times in an `int`.
pub(super) const MOST: u64 = i32::MAX as u64;

static KNOBS: [Knob<Deadline>; 5] = tuning_knobs();
static ATTRIBUTES: [Attribute; 5] = knob::attributes(&KNOBS);

/// "it waits because …", for a request in a lane.
pub(super) fn explain_lane(
    directions: &Directions,
    space: &LaneSpace,
    view: &QueueView,
    request: RequestId,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let lane = &directions.lanes[direction(view.request(request).op())];
    let before = lane.before(space, request);
    let deadline = Nanos(view.request(request).scratch()[0]);
    let others = lane.len() - 1;
    let wait = if others == 1 { "other waits" } else { "others wait" };
    write!(out, "{others} {wait} in its direction, {before} of them at lower sectors; ")?;
    if deadline > view.now() {
        write!(out, "its deadline is in {}", deadline - view.now())
    } else {
        write!(
            out,
            "its deadline passed {} ago, the next batch begins with the oldest",
            view.now() - deadline
        )
    }
}

/// The deadline scheduler.
#[derive(Debug)]
pub struct Deadline {
    space: LaneSpace,
    directions: Directions,
    turn: Turn,
    tuning: Tuning,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline::new()
    }
}

impl Deadline {
    /// A deadline scheduler with the kernel's defaults and no queues.
    #[must_use]
    pub fn new() -> Deadline {
        Deadline {
            space: LaneSpace::with_capacity(0),
            directions: Directions::default(),
            turn: Turn::default(),
            tuning: Tuning::new(false, Resume::Next),
        }
    }

    fn choose(&mut self, view: &mut QueueView) -> Option<(RequestId, usize)> {
        let running = self.directions.running();
        match self.directions.following(&self.space, &self.tuning, running) {
            Some(next) if self.turn.batching < self.tuning.fifo_batch => Some((next, running)),
            _ => self.directions.begin_batch(&self.space, view, &self.tuning, &mut self.turn),
        }
    }

    fn take(&mut self, view: &mut QueueView) -> Option<RequestId> {
        let (request, direction) = self.choose(view)?;
        self.turn.batching += 1;
        self.directions.dispatch(&mut self.space, view, request, direction);
        Some(request)
    }
}

impl Elevator for Deadline {
    fn traits(&self) -> Traits {
        Traits {
            merges_front: self.tuning.front_merges,
            drain_place: Place::Tail,
            ..Traits::legacy("deadline")
        }
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.space = LaneSpace::with_capacity(view.request_slots());
        self.directions = Directions::default();
        self.turn = Turn::default();
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, _: Position) {
        let lane = direction(view.request(request).op());
        let deadline = view.now() + self.tuning.expire[lane];
        self.directions.lanes[lane].insert(&mut self.space, view, request, deadline);
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Front {
            let lane = direction(view.request(request).op());
            self.directions.lanes[lane].resort(&mut self.space, view, request);
        }
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        // Its place by sector changes as after a front merge; its age does not.
        self.grown(view, request, side);
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let lane = direction(view.request(gone).op());
        self.directions.absorb(&mut self.space, view, survivor, gone, lane);
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.space.former(request),
            Side::Back => self.space.latter(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        self.take(view).map_or(Pick::Nothing, |request| Pick::Dispatch(request, Place::Tail))
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        let lane = direction(view.request(request).op());
        self.directions.remove(&mut self.space, request, lane);
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        self.take(view)
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        explain_lane(&self.directions, &self.space, view, request, out)
    }

    fn waiting(&self) -> u32 {
        self.directions.len()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        self.directions.check(&self.space, view).map_err(|fault| format!("deadline: {fault}"))
    }

    fn knobs(&self) -> Option<&dyn Knobs> {
        Some(self)
    }

    fn knobs_mut(&mut self) -> Option<&mut dyn Knobs> {
        Some(self)
    }
}

impl KnobTable for Deadline {
    fn table(&self) -> (&'static [Knob<Deadline>], &'static [Attribute]) {
        (&KNOBS, &ATTRIBUTES)
    }
}

impl Tuned for Deadline {
    fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    fn tuning_mut(&mut self) -> &mut Tuning {
        &mut self.tuning
    }
}

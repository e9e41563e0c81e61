// SPDX-License-Identifier: MIT OR Apache-2.0
//! mq-deadline: deadline for blk-mq, with classes.
//!
//! Each class (RT, BE, IDLE) has its own reads and writes; a lower class is served only while no
//! request of a higher one waits *or is in the device*, except for what has waited longer than
//! `prio_aging_expire`:
//!
//! ```text
//! RT in the device, BE waits 9.9 s     BE waits on
//! RT in the device, BE waits 10 s      BE goes, before further RT
//! ```
//!
//! The classes share the batch, `writes_starved` and the running direction. Everything but
//! synchronous reads is held to `async_depth` tags. What the device refused goes to its class's own
//! list, which is served first.
//!
//! The preset `mq-deadline-6.8` differs in one thing: each direction resumes at the sector where it
//! stopped ([`Resume::Position`]).
//!
//! # Invariants
//! I1  `queued` of a class is the number of live requests that were inserted in it: waiting,
//!     dispatched or in the device.
//!
//! Source: DL-1 to DL-3, DL-5 to DL-13, of 6.0.1 and 6.8.1. Not here:
//! zoned devices.

use alloc::format;
use core::fmt;

use super::deadline::{MOST, Tuned, explain_lane, tuning_knobs};
use paternoster_core::attribute::Attribute;
use paternoster_core::elevator::{
    Admission, Elevator, Fault, KnobTable, Knobs, Pick, Place, Position, Side, Traits,
};
use paternoster_core::event::Note;
use paternoster_core::knob::{self, Knob, Unit, count};
use paternoster_core::list::{Links, List};
use paternoster_core::pick::batch::{Directions, Resume, Tuning, Turn, direction};
use paternoster_core::pick::lane::LaneSpace;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, ClientId, Flags, Op, QueueView, RequestId, is_sync};

const CLASSES: usize = 3;
const BEST_EFFORT: usize = Class::BestEffort as usize;
const IDLE: usize = Class::Idle as usize;

/// In `scratch[1]`: the class it was inserted in, plus one. Zero: not inserted yet.
const CLASS_SLOT: usize = 1;

/// An attribute of this elevator.
type Row = Knob<MqDeadline>;

/// All of them, in the order of the listing.
static KNOBS: [Row; 7] = {
    let [read_expire, write_expire, writes_starved, front_merges, fifo_batch] = tuning_knobs();
    let async_depth = Row::number(
        "async_depth",
        "requests",
        "tags for all but synchronous reads; 3/4 of nr_requests until it is set",
        |of: &MqDeadline, view| of.async_depth(view).into(),
        |of, _, value| of.async_depth = Some(count(value)),
    )
    .at_least(1);
    let aging = Row::time(
        "prio_aging_expire",
        Unit::Ms,
        "after which time a request goes before those of a higher class",
        |of: &MqDeadline, _| of.aging,
        |of, _, time| of.aging = time,
    )
    .at_most(MOST);
    [read_expire, write_expire, writes_starved, front_merges, async_depth, fifo_batch, aging]
};
static ATTRIBUTES: [Attribute; 7] = knob::attributes(&KNOBS);

/// The reads and writes of one class, and those of its requests that go first.
#[derive(Debug, Clone, Copy, Default)]
struct Rank {
    directions: Directions,
    at_head: List,
    /// Inserted and not yet released (I1).
    queued: u32,
}

/// The mq-deadline scheduler.
#[derive(Debug)]
pub struct MqDeadline {
    space: LaneSpace,
    head_links: Links,
    ranks: [Rank; CLASSES],
    turn: Turn,
    tuning: Tuning,
    aging: Nanos,
    async_depth: Option<u32>,
    name: &'static str,
}

impl Default for MqDeadline {
    fn default() -> MqDeadline {
        MqDeadline::new()
    }
}

impl MqDeadline {
    /// The scheduler as in Linux 6.0.
    #[must_use]
    pub fn new() -> MqDeadline {
        MqDeadline::with("mq-deadline", Resume::Next)
    }

    /// As in Linux 6.8: directions resume where they stopped.
    #[must_use]
    pub fn linux_6_8() -> MqDeadline {
        MqDeadline::with("mq-deadline-6.8", Resume::Position)
    }

    fn with(name: &'static str, resume: Resume) -> MqDeadline {
        MqDeadline {
            space: LaneSpace::with_capacity(0),
            head_links: Links::default(),
            ranks: [Rank::default(); CLASSES],
            turn: Turn::default(),
            tuning: Tuning::new(true, resume),
            aging: Nanos::from_secs(10),
            async_depth: None,
            name,
        }
    }

    /// DL-9: three quarters of the tags, at least one.
    fn async_depth(&self, view: &QueueView) -> u32 {
        self.async_depth.unwrap_or((3 * view.nr_requests() / 4).max(1))
    }

    /// When `request` was inserted, computed from its deadline.
    fn inserted(&self, view: &QueueView, request: RequestId) -> Nanos {
        let expire = self.tuning.expire[direction(view.request(request).op())];
        Nanos(view.request(request).scratch()[0]) - expire
    }

    /// The next request of a class, unless it was inserted later than `latest`.
    fn try_rank(&mut self, view: &mut QueueView, class: usize, latest: Nanos) -> Option<RequestId> {
        if Self::waiting_in(&self.ranks[class]) == 0 {
            return None;
        }
        if let Some(first) = self.ranks[class].at_head.first() {
            let request = RequestId::from_index(first);
            // Its deadline is the time of the refusal, so it counts as older than it is (DL-13).
            if self.inserted(view, request) > latest {
                return None;
            }
            self.ranks[class].at_head.pop_front(&mut self.head_links);
            return Some(request);
        }
        let directions = &self.ranks[class].directions;
        let running = self.turn.direction;
        // Only a request taken for its age alone may be refused here; then the turn is unchanged.
        // Differs: Linux 6.0 has begun a batch by then and leaves it so.
        let before = (latest < view.now()).then_some(self.turn);
        let turn = &mut self.turn;
        let (request, way) = match directions.following(&self.space, &self.tuning, running) {
            Some(next) if turn.batching < self.tuning.fifo_batch => (next, running),
            _ => directions.begin_batch(&self.space, view, &self.tuning, turn)?,
        };
        if self.inserted(view, request) > latest {
            self.turn = before.unwrap_or(self.turn);
            return None;
        }
        self.turn.batching += 1;
        self.turn.direction = way;
        self.ranks[class].directions.dispatch(&mut self.space, view, request, way);
        Some(request)
    }

    /// A request that has waited too long in a class that others are preferred to. DL-10: only if
    /// there are others.
    fn take_aged(&mut self, view: &mut QueueView) -> Option<RequestId> {
        if self.ranks.iter().filter(|rank| rank.queued > 0).count() < 2 {
            return None;
        }
        // Nothing can be that old before that much time has passed.
        let latest = Nanos(view.now().0.checked_sub(self.aging.0)?);
        for class in [BEST_EFFORT, IDLE] {
            if let Some(request) = self.try_rank(view, class, latest) {
                let client = view.request(request).client();
                view.note(Note::Aged { client });
                return Some(request);
            }
        }
        None
    }

    /// The class a request was inserted in, or would be.
    fn class_of(view: &QueueView, request: RequestId) -> usize {
        let request = view.request(request);
        match request.scratch()[CLASS_SLOT] {
            0 => request.priority().class as usize,
            slot => usize::try_from(slot - 1).map_or(BEST_EFFORT, |class| class.min(IDLE)),
        }
    }

    fn is_at_head(&self, request: RequestId) -> bool {
        self.head_links.contains(request.index())
    }

    const fn waiting_in(rank: &Rank) -> u32 {
        rank.directions.len() + rank.at_head.len()
    }
}

impl Elevator for MqDeadline {
    fn traits(&self) -> Traits {
        Traits { merges_front: self.tuning.front_merges, ..Traits::mq(self.name) }
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.space = LaneSpace::with_capacity(view.request_slots());
        self.head_links = Links::with_capacity(view.request_slots());
        // It may have served another queue before; requests it left in a device there are no longer
        // its own.
        self.ranks = [Rank::default(); CLASSES];
        self.turn = Turn::default();
    }

    fn would_admit(&self, view: &QueueView, _: ClientId, op: Op, flags: Flags) -> Admission {
        if op == Op::Read && is_sync(op, flags) {
            Admission::Normal
        } else {
            Admission::AtMost(self.async_depth(view))
        }
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        let lane = direction(view.request(request).op());
        if view.request(request).scratch()[CLASS_SLOT] == 0 {
            let class = view.request(request).priority().class;
            view.scratch_mut(request)[CLASS_SLOT] = class as u64 + 1;
            self.ranks[class as usize].queued += 1;
        }
        let rank = &mut self.ranks[Self::class_of(view, request)];
        match position {
            Position::Sorted => {
                let deadline = view.now() + self.tuning.expire[lane];
                rank.directions.lanes[lane].insert(&mut self.space, view, request, deadline);
            }
            Position::Head => {
                view.scratch_mut(request)[0] = view.now().0;
                rank.at_head.push_front(&mut self.head_links, request.index());
            }
        }
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Front && !self.is_at_head(request) {
            let lane = direction(view.request(request).op());
            let rank = &mut self.ranks[Self::class_of(view, request)];
            rank.directions.lanes[lane].resort(&mut self.space, view, request);
        }
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        // Its place by sector changes as after a front merge; its age does not.
        self.grown(view, request, side);
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        Self::class_of(view, request) == Self::class_of(view, next)
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let lane = direction(view.request(gone).op());
        let rank = &mut self.ranks[Self::class_of(view, gone)];
        rank.directions.absorb(&mut self.space, view, survivor, gone, lane);
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.space.former(request),
            Side::Back => self.space.latter(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        if let Some(request) = self.take_aged(view) {
            return Pick::Dispatch(request, Place::Tail);
        }
        for class in 0..CLASSES {
            // Whatever its age: after an expiry is shortened, a request may look younger than now.
            if let Some(request) = self.try_rank(view, class, Nanos::MAX) {
                return Pick::Dispatch(request, Place::Tail);
            }
            if self.ranks[class].queued > 0 {
                break;
            }
        }
        // A lower class waits until a higher one has nothing in the device.
        if self.waiting() == 0 { Pick::Nothing } else { Pick::Await }
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        let lane = direction(view.request(request).op());
        let rank = &mut self.ranks[Self::class_of(view, request)];
        if self.head_links.contains(request.index()) {
            rank.at_head.remove(&mut self.head_links, request.index());
        } else {
            rank.directions.remove(&mut self.space, request, lane);
        }
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        if view.request(request).scratch()[CLASS_SLOT] != 0 {
            self.ranks[Self::class_of(view, request)].queued -= 1;
        }
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        (0..CLASSES).find_map(|class| self.try_rank(view, class, Nanos::MAX))
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let class = Self::class_of(view, request);
        let above: u32 = self.ranks[..class].iter().map(|rank| rank.queued).sum();
        if above > 0 {
            write!(out, "{above} requests of higher classes wait or are in the device; ")?;
        }
        if self.is_at_head(request) {
            return out.write_str("the device refused it, it goes first in its class");
        }
        explain_lane(&self.ranks[class].directions, &self.space, view, request, out)
    }

    fn waiting(&self) -> u32 {
        self.ranks.iter().map(Self::waiting_in).sum()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        for (class, rank) in self.ranks.iter().enumerate() {
            rank.directions
                .check(&self.space, view)
                .and_then(|()| rank.at_head.check(&self.head_links))
                .map_err(|fault| format!("mq-deadline: {fault}"))?;
            if Self::waiting_in(rank) > rank.queued {
                let (waiting, queued) = (Self::waiting_in(rank), rank.queued);
                return Err(format!("mq-deadline I1: class {class}: {waiting} wait of {queued}"));
            }
        }
        Ok(())
    }

    fn knobs(&self) -> Option<&dyn Knobs> {
        Some(self)
    }

    fn knobs_mut(&mut self) -> Option<&mut dyn Knobs> {
        Some(self)
    }
}

impl KnobTable for MqDeadline {
    fn table(&self) -> (&'static [Knob<MqDeadline>], &'static [Attribute]) {
        (&KNOBS, &ATTRIBUTES)
    }
}

impl Tuned for MqDeadline {
    fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    fn tuning_mut(&mut self) -> &mut Tuning {
        &mut self.tuning
    }
}

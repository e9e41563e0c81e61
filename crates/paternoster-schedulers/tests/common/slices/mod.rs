// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices: a small elevator made from outside, to prove that the interface carries what cfq and bfq
//! need.
//!
//! It sees only what the crate makes public, and does a little of everything that a fair
//! scheduler does:
//!
//! ```text
//! group with the least virtual time ─▶ best class in it ─▶ its queues in turn ─▶ a time slice
//!                                      RT, BE, IDLE                              │
//!      root  1000  ┌ async (writes of all)           first completion starts it ◀┘
//!      a      200  ├ client 0 ◀── client 1 joined it: it reads where client 0 left off
//!      b      100  └ client 2                        empty, time left: idle, then the next
//! ```
//!
//! A client's sync requests wait in its own queue in sector order; asynchronous ones in one queue
//! for all. A slice of `slice_ms` begins at the first completion. When the queue is empty with time
//! left in its slice, the device idles for `idle_ms`: the client's next request, if it comes, goes
//! before all others'. Device time is charged to the group: `served * 2^20 / weight`. Groups are
//! side by side, whatever their parents.
//!
//! A client that reads where another's last request ended joins that one's queue with what it binds
//! from then on, until either changes its group or class, or leaves.
//!
//! Where requests are, and which queue is next, is in `queues.rs` (S1 to S3, S6); slices and idling
//! are here.
//!
//! # Invariants
//! S4  The timer is set exactly while the device idles, for an active queue in which nothing waits.
//! S5  Time and the groups' virtual time never step back.
//! S7  It only gets requests that it was asked to bind, each in its order.
//!
//! A breach of S7 is recorded and reported by the audit, because the calls themselves cannot
//! refuse.

mod queues;

use std::fmt;

use paternoster_core::elevator::{
    Admission, Elevator, Fault, KnobTable, Knobs, Members, Pick, Place, Position, Rules, Side,
    Traits,
};
use paternoster_core::knob::{Knob, Unit, attributes};
use paternoster_core::{
    Attribute, Bio, ClientId, Flags, GroupId, Nanos, Note, Op, QueueView, RequestId, is_sync,
};

use queues::{IDLE_CLASS, Queue, Queues, State};

static KNOBS: [Knob<Slices>; 2] = [
    Knob::<Slices>::time(
        "slice_ms",
        Unit::Ms,
        "how long a queue has the device",
        |slices, _| slices.slice,
        |slices, _, time| slices.slice = time,
    )
    .at_least(1)
    .at_most(10_000),
    Knob::<Slices>::time(
        "idle_ms",
        Unit::Ms,
        "how long the device idles for the next request of a queue",
        |slices, _| slices.idle,
        |slices, _, time| slices.idle = time,
    )
    .at_most(10_000),
];
static ATTRIBUTES: [Attribute; 2] = attributes(&KNOBS);

/// The scheduler of this fixture.
#[derive(Debug)]
pub(crate) struct Slices {
    rules: Rules,
    slice: Nanos,
    idle: Nanos,
    queues: Queues,
    /// The queue in service.
    active: Option<u32>,
    /// Set by the first completion of the slice.
    slice_end: Option<Nanos>,
    idle_until: Option<Nanos>,
    last_seen: Nanos,
    /// The first breach of S5 or S7.
    breach: Option<String>,
}

impl Slices {
    /// The scheduler for the legacy block layer.
    pub(crate) fn new() -> Slices {
        Slices::with_rules(Rules::Legacy)
    }

    /// For the block layer of `rules`: 100 ms slices, 8 ms idling.
    pub(crate) fn with_rules(rules: Rules) -> Slices {
        Slices {
            rules,
            slice: Nanos::from_millis(100),
            idle: Nanos::from_millis(8),
            queues: Queues::none(),
            active: None,
            slice_end: None,
            idle_until: None,
            last_seen: Nanos::ZERO,
            breach: None,
        }
    }

    fn note_breach(&mut self, what: impl FnOnce() -> String) {
        if self.breach.is_none() {
            self.breach = Some(what());
        }
    }

    /// S5 and S7: time advances, the request is ours and in one of `states`. Returns its queue.
    fn expect(
        &mut self,
        view: &QueueView,
        request: RequestId,
        call: &str,
        states: &[State],
    ) -> Option<u32> {
        self.see(view);
        if !self.queues.knows(request) {
            self.note_breach(|| format!("S7: {call} of request {} not bound", request.index()));
            return None;
        }
        if !states.iter().any(|known| known.is_of(view, request)) {
            let state = State::of(view, request);
            self.note_breach(|| format!("S7: {call} of a request in state {state}"));
        }
        Some(Queues::home(view, request))
    }

    fn see(&mut self, view: &QueueView) {
        let (now, before) = (view.now(), self.last_seen);
        if now < before {
            self.note_breach(|| format!("S5: time steps back from {} to {}", before.0, now.0));
        }
        self.last_seen = now;
    }

    /// Puts a request into a queue's order; the one the device idled for may have come.
    fn stand(&mut self, view: &mut QueueView, request: RequestId, number: u32, position: Position) {
        self.queues.stand(view, request, number, position, self.active);
        if self.active == Some(number) {
            self.stop_idling(view);
        }
    }

    fn stop_idling(&mut self, view: &mut QueueView) {
        if self.idle_until.take().is_some() {
            view.cancel_timer();
        }
    }

    fn begin_slice(&mut self, view: &mut QueueView, number: u32) {
        let slice = self.slice;
        self.active = Some(number);
        self.slice_end = None;
        let queue = self.queues.at_mut(number);
        queue.served = Nanos::ZERO;
        if let Some(client) = queue.client {
            view.note(Note::SliceBegins { client, slice });
        }
    }

    fn end_slice(&mut self, view: &mut QueueView) {
        self.stop_idling(view);
        let Some(number) = self.active.take() else { return };
        self.slice_end = None;
        let Queue { client, served, .. } = *self.queues.at(number);
        if let Some(client) = client {
            view.note(Note::SliceEnds { client, served });
        }
        self.queues.go_behind(number);
    }

    fn is_over(&self, view: &QueueView) -> bool {
        self.slice_end.is_some_and(|end| end <= view.now())
    }

    /// Whether the device may wait for this queue's next request.
    fn may_idle(&self, number: u32) -> bool {
        let queue = self.queues.at(number);
        queue.client.is_some() && queue.class != IDLE_CLASS && self.idle != Nanos::ZERO
    }

    /// What remains of a client that leaves goes to the queues of its owners.
    fn scatter(&mut self, view: &mut QueueView, number: u32) {
        while let Some(request) = self.queues.first_member(number) {
            let heir = self.queues.target(view.request(request).client().index());
            if heir == number {
                let index = request.index();
                self.note_breach(|| format!("S7: client {number} leaves with request {index}"));
                return;
            }
            let waits = State::Waiting.is_of(view, request);
            let stood = waits.then(|| self.queues.step_out(view, request, number, State::Bound));
            self.queues.rehome(view, request, number, heir);
            if let Some(position) = stood {
                self.stand(view, request, heir, position);
            }
        }
    }
}

impl Elevator for Slices {
    fn traits(&self) -> Traits {
        Traits { merges_front: true, ..Traits::new("slices", self.rules) }
    }

    fn attach(&mut self, view: &mut QueueView) {
        *self = Slices {
            slice: self.slice,
            idle: self.idle,
            queues: Queues::of(view),
            last_seen: view.now(),
            ..Slices::with_rules(self.rules)
        };
    }

    fn would_admit(&self, view: &QueueView, _: ClientId, op: Op, flags: Flags) -> Admission {
        if is_sync(op, flags) {
            Admission::Normal
        } else {
            Admission::AtMost(view.nr_requests() / 2)
        }
    }

    fn admit(&mut self, view: &mut QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.see(view);
        if !is_sync(op, flags) {
            Admission::AtMost(view.nr_requests() / 2)
        } else if self.idle_until.is_some()
            && self.active == Some(self.queues.target(client.index()))
        {
            // The device idles for this very client.
            Admission::Must
        } else {
            Admission::Normal
        }
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        Queues::home(view, request) == self.queues.home_of(bio)
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        Queues::home(view, request) == Queues::home(view, next)
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        self.see(view);
        let new = view.request(request);
        let (client, sector) = (new.client(), new.sector());
        let (op, sync) = (new.op(), new.is_sync());
        if new.scratch() != [0; 2] || self.queues.knows(request) {
            self.note_breach(|| format!("S7: request {} is bound twice", request.index()));
            return;
        }
        if op == Op::Read
            && let Some(into) = self.queues.join_neighbour(client, sector)
        {
            view.note(Note::QueuesMerged { client, into });
        }
        let home = match sync {
            true => self.queues.target(client.index()),
            false => self.queues.async_queue(),
        };
        self.queues.bind(view, request, home);
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        let states = [State::Bound, State::Refused];
        let Some(home) = self.expect(view, request, "insert", &states) else { return };
        if State::Refused.is_of(view, request) {
            self.queues.at_mut(home).picked -= 1;
        }
        self.stand(view, request, home, position);
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        let Some(home) = self.expect(view, request, "grown", &[State::Waiting]) else { return };
        self.queues.grown(view, request, home, side == Side::Front);
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let own = self.expect(view, survivor, "absorbed", &[State::Waiting]);
        let other = self.expect(view, gone, "absorbed", &[State::Waiting]);
        if own != other {
            self.note_breach(|| format!("S7: {own:?} absorbs from {other:?}"));
        }
        if let Some(home) = other {
            self.queues.step_out(view, gone, home, State::Ended);
        }
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.queues.before(request),
            Side::Back => self.queues.behind(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        self.see(view);
        if self.queues.waiting() == 0 {
            return Pick::Nothing;
        }
        if let Some(active) = self.active {
            if self.is_over(view) || self.queues.is_outranked(active) {
                self.end_slice(view);
            } else if let Some(request) = self.queues.take(view, active) {
                return Pick::Dispatch(request, Place::Sorted);
            } else if self.idle_until.is_some() {
                return Pick::Idle;
            } else if self.queues.at(active).picked > 0 && self.may_idle(active) {
                return Pick::Await;
            } else {
                self.end_slice(view);
            }
        }
        let Some(number) = self.queues.choose() else { return Pick::Nothing };
        self.begin_slice(view, number);
        match self.queues.take(view, number) {
            Some(request) => Pick::Dispatch(request, Place::Sorted),
            None => Pick::Nothing,
        }
    }

    fn started(&mut self, view: &mut QueueView, request: RequestId) {
        self.expect(view, request, "started", &[State::Picked, State::Refused]);
        State::Picked.put(view, request);
    }

    fn requeued(&mut self, view: &mut QueueView, request: RequestId) {
        self.expect(view, request, "requeued", &[State::Picked]);
        State::Refused.put(view, request);
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, served: Nanos) {
        let home = self.expect(view, request, "completed", &[State::Picked]);
        let Some(home) = home else { return };
        State::Ended.put(view, request);
        self.queues.at_mut(home).picked -= 1;
        self.queues.charge_group(self.queues.at(home).group, served);
        if self.active != Some(home) {
            return;
        }
        let now = view.now();
        self.queues.at_mut(home).served += served;
        let end = *self.slice_end.get_or_insert(now + self.slice);
        if end <= now {
            self.end_slice(view);
            return;
        }
        let Queue { client, picked, .. } = *self.queues.at(home);
        let alone = self.queues.at(home).waiting() == 0 && picked == 0;
        if let (Some(client), true, true) = (client, alone, self.may_idle(home)) {
            let until = end.min(now + self.idle);
            self.idle_until = Some(until);
            view.set_timer(until);
            view.note(Note::Idling { client, until });
        }
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        let home = self.expect(view, request, "removed", &[State::Waiting]);
        if let Some(home) = home {
            self.queues.step_out(view, request, home, State::Bound);
        }
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        let states = [State::Bound, State::Picked, State::Refused, State::Ended];
        let Some(home) = self.expect(view, request, "released", &states) else { return };
        if State::Picked.is_of(view, request) || State::Refused.is_of(view, request) {
            // Given up by force, and now another elevator's.
            self.queues.at_mut(home).picked -= 1;
        }
        self.queues.release(request, home);
    }

    fn timer(&mut self, view: &mut QueueView) {
        self.see(view);
        match self.idle_until.take() {
            Some(until) if until <= view.now() => self.end_slice(view),
            until => self.note_breach(|| format!("S4: the timer rings, idle until {until:?}")),
        }
    }

    fn charge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        cost: Nanos,
        _: Option<ClientId>,
    ) -> Nanos {
        self.queues.charge_group(view.group_of(client).index(), cost);
        // One other of the same weight, of those that exist.
        cost
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        self.see(view);
        let next = match self.active {
            Some(active) if self.queues.at(active).waiting() > 0 => Some(active),
            _ => self.queues.choose(),
        };
        next.and_then(|number| self.queues.take(view, number))
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let home = Queues::home(view, request);
        match self.active {
            Some(active) if active == home => out.write_str("others of its queue go first"),
            Some(active) => write!(out, "queue {active} has the device"),
            None => out.write_str("no queue has the device yet"),
        }
    }

    fn waiting(&self) -> u32 {
        self.queues.waiting()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        if let Some(breach) = &self.breach {
            return Err(format!("slices {breach}"));
        }
        self.queues.audit(view).map_err(|fault| format!("slices {fault}"))?;
        let timer = self.idle_until.unwrap_or(Nanos::MAX);
        let empty = self.active.is_some_and(|active| self.queues.at(active).waiting() == 0);
        if timer != view.timer() || (self.idle_until.is_some() && !empty) {
            let set = view.timer();
            return Err(format!("slices S4: idle until {timer:?}, timer {set:?}, empty {empty}"));
        }
        Ok(())
    }

    fn members(&mut self) -> Option<&mut dyn Members> {
        Some(self)
    }

    fn knobs(&self) -> Option<&dyn Knobs> {
        Some(self)
    }

    fn knobs_mut(&mut self) -> Option<&mut dyn Knobs> {
        Some(self)
    }
}

impl Members for Slices {
    fn client_attached(&mut self, view: &mut QueueView, client: ClientId) {
        if !self.queues.at(client.index()).is_free() {
            self.note_breach(|| format!("S7: client {} comes twice", client.index()));
        }
        *self.queues.at_mut(client.index()) = Queue::of(client);
        self.client_changed(view, client);
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let number = client.index();
        let class = view.client(client).expect("it is there").priority().class as usize;
        let group = view.group_of(client).index();
        self.queues.part(number);
        self.queues.leave_ring(number);
        let queue = self.queues.at_mut(number);
        (queue.class, queue.group) = (class, group);
        if queue.waiting() > 0 {
            self.queues.enter_ring(number, self.active);
        }
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        let number = client.index();
        self.queues.part(number);
        if self.active == Some(number) {
            self.end_slice(view);
        }
        self.scatter(view, number);
        *self.queues.at_mut(number) = Queue::default();
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        let weight = view.group(group).expect("it is there").weight();
        self.queues.weigh_group(group.index(), weight);
    }

    fn group_removed(&mut self, _: &mut QueueView, group: GroupId) {
        if !self.queues.remove_group(group.index()) {
            self.note_breach(|| format!("S7: group {} goes with members", group.index()));
        }
    }
}

impl KnobTable for Slices {
    fn table(&self) -> (&'static [Knob<Slices>], &'static [Attribute]) {
        (&KNOBS, &ATTRIBUTES)
    }
}

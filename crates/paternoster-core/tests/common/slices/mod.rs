// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices: a small elevator made from outside, to prove that the seam carries what cfq and bfq
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
//! for all. A slice of `slice_ms` begins at the first completion. When the queue is empty and
//! slice is left, the device idles for `idle_ms`: the client's next request, if it comes, goes
//! before all others'. Device time is charged to the group: `served * 2^20 / weight`. Groups
//! stand side by side, whatever their parents.
//!
//! A client that reads where another's last request ended joins that one's queue with what it
//! binds from then on, until one of both changes its group or class, or leaves.
//!
//! Where requests stand, and whose turn it is, is with `queues.rs` (S1 to S3, S6); slices and
//! idling are here.
//!
//! # Invariants
//! S4  The timer is set exactly while the device idles, for an active queue in which nothing waits.
//! S5  Time and the groups' virtual time never step back.
//! S7  It is told only of requests that it was asked to bind, each in its order.
//!
//! What breaks S7 is written down and reported by the audit, since the calls themselves cannot
//! refuse.

mod queues;

use std::fmt;

use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Rules, Side, Traits,
};
use paternoster_core::knob::{Knob, Unit, attributes};
use paternoster_core::{
    Attribute, AttributeError, Bio, ClientId, Flags, GroupId, Nanos, Note, Op, RequestId, Scene,
    is_sync,
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
    /// The queue that has the device.
    active: Option<u32>,
    /// Set by the first completion of the slice.
    slice_end: Option<Nanos>,
    idle_until: Option<Nanos>,
    last_seen: Nanos,
    /// The first breach of S5 or S7.
    breach: Option<String>,
}

impl Slices {
    /// For the legacy block layer.
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

    /// S5 and S7: time goes on, the request is ours and in one of `states`. Its queue.
    fn expect(
        &mut self,
        scene: &Scene,
        request: RequestId,
        call: &str,
        states: &[State],
    ) -> Option<u32> {
        self.see(scene);
        if !self.queues.knows(request) {
            self.note_breach(|| format!("S7: {call} of request {} not bound", request.index()));
            return None;
        }
        if !states.iter().any(|known| known.is_of(scene, request)) {
            let state = State::of(scene, request);
            self.note_breach(|| format!("S7: {call} of a request in state {state}"));
        }
        Some(Queues::home(scene, request))
    }

    fn see(&mut self, scene: &Scene) {
        let (now, before) = (scene.now(), self.last_seen);
        if now < before {
            self.note_breach(|| format!("S5: time steps back from {} to {}", before.0, now.0));
        }
        self.last_seen = now;
    }

    /// Puts a request into a queue's order; what the device stood still for has come.
    fn stand(&mut self, scene: &mut Scene, request: RequestId, number: u32, position: Position) {
        self.queues.stand(scene, request, number, position, self.active);
        if self.active == Some(number) {
            self.stop_idling(scene);
        }
    }

    fn stop_idling(&mut self, scene: &mut Scene) {
        if self.idle_until.take().is_some() {
            scene.cancel_timer();
        }
    }

    fn begin_slice(&mut self, scene: &mut Scene, number: u32) {
        let slice = self.slice;
        self.active = Some(number);
        self.slice_end = None;
        let queue = self.queues.at_mut(number);
        queue.served = Nanos::ZERO;
        if let Some(client) = queue.client {
            scene.note(Note::SliceBegins { client, slice });
        }
    }

    fn end_slice(&mut self, scene: &mut Scene) {
        self.stop_idling(scene);
        let Some(number) = self.active.take() else { return };
        self.slice_end = None;
        let Queue { client, served, .. } = *self.queues.at(number);
        if let Some(client) = client {
            scene.note(Note::SliceEnds { client, served });
        }
        self.queues.go_behind(number);
    }

    fn is_over(&self, scene: &Scene) -> bool {
        self.slice_end.is_some_and(|end| end <= scene.now())
    }

    /// Whether the device may wait for this queue's next request.
    fn may_idle(&self, number: u32) -> bool {
        let queue = self.queues.at(number);
        queue.client.is_some() && queue.class != IDLE_CLASS && self.idle != Nanos::ZERO
    }

    /// What remains of a client that leaves goes to the queues of those whose it is.
    fn scatter(&mut self, scene: &mut Scene, number: u32) {
        while let Some(request) = self.queues.first_member(number) {
            let heir = self.queues.target(scene.request(request).client().index());
            if heir == number {
                let index = request.index();
                self.note_breach(|| format!("S7: client {number} leaves with request {index}"));
                return;
            }
            let waits = State::Waiting.is_of(scene, request);
            let stood = waits.then(|| self.queues.step_out(scene, request, number, State::Bound));
            self.queues.rehome(scene, request, number, heir);
            if let Some(position) = stood {
                self.stand(scene, request, heir, position);
            }
        }
    }
}

impl Elevator for Slices {
    fn traits(&self) -> Traits {
        Traits { merges_front: true, ..Traits::new("slices", self.rules) }
    }

    fn attach(&mut self, scene: &mut Scene) {
        *self = Slices {
            slice: self.slice,
            idle: self.idle,
            queues: Queues::of(scene),
            last_seen: scene.now(),
            ..Slices::with_rules(self.rules)
        };
    }

    fn would_admit(&self, scene: &Scene, _: ClientId, op: Op, flags: Flags) -> Admission {
        if is_sync(op, flags) {
            Admission::Normal
        } else {
            Admission::AtMost(scene.nr_requests() / 2)
        }
    }

    fn admit(&mut self, scene: &mut Scene, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.see(scene);
        if !is_sync(op, flags) {
            Admission::AtMost(scene.nr_requests() / 2)
        } else if self.idle_until.is_some()
            && self.active == Some(self.queues.target(client.index()))
        {
            // The device stands still for this very client.
            Admission::Must
        } else {
            Admission::Normal
        }
    }

    fn may_merge(&self, scene: &Scene, request: RequestId, bio: &Bio) -> bool {
        Queues::home(scene, request) == self.queues.home_of(bio)
    }

    fn may_absorb(&self, scene: &Scene, request: RequestId, next: RequestId) -> bool {
        Queues::home(scene, request) == Queues::home(scene, next)
    }

    fn bind(&mut self, scene: &mut Scene, request: RequestId) {
        self.see(scene);
        let new = scene.request(request);
        let (client, sector) = (new.client(), new.sector());
        let (op, sync) = (new.op(), new.is_sync());
        if new.scratch() != [0; 2] || self.queues.knows(request) {
            self.note_breach(|| format!("S7: request {} is bound twice", request.index()));
            return;
        }
        if op == Op::Read
            && let Some(into) = self.queues.join_neighbour(client, sector)
        {
            scene.note(Note::QueuesMerged { client, into });
        }
        let home = match sync {
            true => self.queues.target(client.index()),
            false => self.queues.async_queue(),
        };
        self.queues.bind(scene, request, home);
    }

    fn insert(&mut self, scene: &mut Scene, request: RequestId, position: Position) {
        let states = [State::Bound, State::Refused];
        let Some(home) = self.expect(scene, request, "insert", &states) else { return };
        if State::Refused.is_of(scene, request) {
            self.queues.at_mut(home).picked -= 1;
        }
        self.stand(scene, request, home, position);
    }

    fn grown(&mut self, scene: &mut Scene, request: RequestId, side: Side) {
        let Some(home) = self.expect(scene, request, "grown", &[State::Waiting]) else { return };
        self.queues.grown(scene, request, home, side == Side::Front);
    }

    fn absorbed(&mut self, scene: &mut Scene, survivor: RequestId, gone: RequestId) {
        let own = self.expect(scene, survivor, "absorbed", &[State::Waiting]);
        let other = self.expect(scene, gone, "absorbed", &[State::Waiting]);
        if own != other {
            self.note_breach(|| format!("S7: {own:?} absorbs from {other:?}"));
        }
        if let Some(home) = other {
            self.queues.step_out(scene, gone, home, State::Ended);
        }
    }

    fn neighbour(&self, _: &Scene, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.queues.before(request),
            Side::Back => self.queues.behind(request),
        }
    }

    fn pick(&mut self, scene: &mut Scene) -> Pick {
        self.see(scene);
        if self.queues.waiting() == 0 {
            return Pick::Nothing;
        }
        if let Some(active) = self.active {
            if self.is_over(scene) || self.queues.is_outranked(active) {
                self.end_slice(scene);
            } else if let Some(request) = self.queues.take(scene, active) {
                return Pick::Dispatch(request, Place::Sorted);
            } else if self.idle_until.is_some() {
                return Pick::Idle;
            } else if self.queues.at(active).picked > 0 && self.may_idle(active) {
                return Pick::Await;
            } else {
                self.end_slice(scene);
            }
        }
        let Some(number) = self.queues.choose() else { return Pick::Nothing };
        self.begin_slice(scene, number);
        match self.queues.take(scene, number) {
            Some(request) => Pick::Dispatch(request, Place::Sorted),
            None => Pick::Nothing,
        }
    }

    fn started(&mut self, scene: &mut Scene, request: RequestId) {
        self.expect(scene, request, "started", &[State::Picked, State::Refused]);
        State::Picked.put(scene, request);
    }

    fn requeued(&mut self, scene: &mut Scene, request: RequestId) {
        self.expect(scene, request, "requeued", &[State::Picked]);
        State::Refused.put(scene, request);
    }

    fn completed(&mut self, scene: &mut Scene, request: RequestId, served: Nanos) {
        let home = self.expect(scene, request, "completed", &[State::Picked]);
        let Some(home) = home else { return };
        State::Ended.put(scene, request);
        self.queues.at_mut(home).picked -= 1;
        self.queues.charge_group(self.queues.at(home).group, served);
        if self.active != Some(home) {
            return;
        }
        let now = scene.now();
        self.queues.at_mut(home).served += served;
        let end = *self.slice_end.get_or_insert(now + self.slice);
        if end <= now {
            self.end_slice(scene);
            return;
        }
        let Queue { client, picked, .. } = *self.queues.at(home);
        let alone = self.queues.at(home).waiting() == 0 && picked == 0;
        if let (Some(client), true, true) = (client, alone, self.may_idle(home)) {
            let until = end.min(now + self.idle);
            self.idle_until = Some(until);
            scene.set_timer(until);
            scene.note(Note::Idling { client, until });
        }
    }

    fn removed(&mut self, scene: &mut Scene, request: RequestId) {
        let home = self.expect(scene, request, "removed", &[State::Waiting]);
        if let Some(home) = home {
            self.queues.step_out(scene, request, home, State::Bound);
        }
    }

    fn released(&mut self, scene: &mut Scene, request: RequestId) {
        let states = [State::Bound, State::Picked, State::Refused, State::Ended];
        let Some(home) = self.expect(scene, request, "released", &states) else { return };
        if State::Picked.is_of(scene, request) || State::Refused.is_of(scene, request) {
            // Given up by force, and now another elevator's.
            self.queues.at_mut(home).picked -= 1;
        }
        self.queues.release(request, home);
    }

    fn timer(&mut self, scene: &mut Scene) {
        self.see(scene);
        match self.idle_until.take() {
            Some(until) if until <= scene.now() => self.end_slice(scene),
            until => self.note_breach(|| format!("S4: the timer rings, idle until {until:?}")),
        }
    }

    fn charge(
        &mut self,
        scene: &mut Scene,
        client: ClientId,
        cost: Nanos,
        _: Option<ClientId>,
    ) -> Nanos {
        self.queues.charge_group(scene.group_of(client).index(), cost);
        // One other of the same weight, of those that are there.
        cost
    }

    fn drain(&mut self, scene: &mut Scene) -> Option<RequestId> {
        self.see(scene);
        let next = match self.active {
            Some(active) if self.queues.at(active).waiting() > 0 => Some(active),
            _ => self.queues.choose(),
        };
        next.and_then(|number| self.queues.take(scene, number))
    }

    fn explain(&self, scene: &Scene, request: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        let home = Queues::home(scene, request);
        match self.active {
            Some(active) if active == home => out.write_str("others of its queue go first"),
            Some(active) => write!(out, "queue {active} has the device"),
            None => out.write_str("no queue has the device yet"),
        }
    }

    fn waiting(&self) -> u32 {
        self.queues.waiting()
    }

    fn audit(&self, scene: &Scene) -> Result<(), Fault> {
        if let Some(breach) = &self.breach {
            return Err(format!("slices {breach}"));
        }
        self.queues.audit(scene).map_err(|fault| format!("slices {fault}"))?;
        let timer = self.idle_until.unwrap_or(Nanos::MAX);
        let empty = self.active.is_some_and(|active| self.queues.at(active).waiting() == 0);
        if timer != scene.timer() || (self.idle_until.is_some() && !empty) {
            let set = scene.timer();
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
    fn client_attached(&mut self, scene: &mut Scene, client: ClientId) {
        if !self.queues.at(client.index()).is_free() {
            self.note_breach(|| format!("S7: client {} comes twice", client.index()));
        }
        *self.queues.at_mut(client.index()) = Queue::of(client);
        self.client_changed(scene, client);
    }

    fn client_changed(&mut self, scene: &mut Scene, client: ClientId) {
        let number = client.index();
        let class = scene.client(client).expect("it is there").priority().class as usize;
        let group = scene.group_of(client).index();
        self.queues.part(number);
        self.queues.leave_ring(number);
        let queue = self.queues.at_mut(number);
        (queue.class, queue.group) = (class, group);
        if queue.waiting() > 0 {
            self.queues.enter_ring(number, self.active);
        }
    }

    fn client_detached(&mut self, scene: &mut Scene, client: ClientId) {
        let number = client.index();
        self.queues.part(number);
        if self.active == Some(number) {
            self.end_slice(scene);
        }
        self.scatter(scene, number);
        *self.queues.at_mut(number) = Queue::default();
    }

    fn group_changed(&mut self, scene: &mut Scene, group: GroupId) {
        let weight = scene.group(group).expect("it is there").weight();
        self.queues.weigh_group(group.index(), weight);
    }

    fn group_removed(&mut self, _: &mut Scene, group: GroupId) {
        if !self.queues.remove_group(group.index()) {
            self.note_breach(|| format!("S7: group {} goes with members", group.index()));
        }
    }
}

impl Knobs for Slices {
    fn attributes(&self) -> &'static [Attribute] {
        &ATTRIBUTES
    }

    fn get(&self, scene: &Scene, place: usize) -> Option<u64> {
        KNOBS[place].get(self, scene)
    }

    fn set(&mut self, scene: &mut Scene, place: usize, value: u64) -> Result<(), AttributeError> {
        KNOBS[place].set(self, scene, value)
    }
}

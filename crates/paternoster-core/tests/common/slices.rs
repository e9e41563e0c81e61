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
//!      root  1000  ┌ async (everybody's writes)      first completion starts it ◀┘
//!      a      200  ├ client 0 ◀── client 1 joined it: it reads where client 0 left off
//!      b      100  └ client 2                        empty, time left: idle, then the next
//! ```
//!
//! A client's sync requests wait in its own queue in sector order; asynchronous ones in one queue
//! for all. A slice of `slice_ms` begins at the first completion. When the queue is empty and
//! slice is left, the device idles for `idle_ms`: the client's next request, if it comes, goes
//! before everybody else's. Device time is charged to the group: `served * 2^20 / weight`. Groups
//! stand side by side, whatever their parents.
//!
//! A client that reads where another's last request ended joins that one's queue with what it
//! binds from then on, until one of both changes its group or class, or leaves.
//!
//! In a request's scratch: the number of its queue plus one, and its [`State`].
//!
//! # Invariants
//! S1  A request stands in the members of exactly one queue, the one that its scratch names.
//! S2  `waiting` and `picked` are the numbers of members in these states; those that wait are in
//!     the queue's tree or its head list, under their own sector.
//! S3  A queue is in the ring of its group and class exactly while something waits in it.
//! S4  The timer is set exactly while the device idles, for an active queue in which nothing waits.
//! S5  Time and the groups' virtual time never step back.
//! S6  Queues are joined only within a group and a class, and never in a circle.
//! S7  It is told only of requests that it was asked to bind, each in its order.
//!
//! What breaks S7 is written down and reported by the audit, since the calls themselves cannot
//! refuse.

use std::fmt;

use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Rules, Side, Traits,
};
use paternoster_core::knob::{Knob, Unit, attributes};
use paternoster_core::list::{Links, List};
use paternoster_core::tree::{Nodes, Root};
use paternoster_core::{
    Attribute, AttributeError, Bio, ClientId, Flags, GroupId, Nanos, Note, Op, RequestId, Scene,
    is_sync,
};

/// Fraction bits of virtual time: a nanosecond at weight 10 000 is still a hundred steps.
const FRACTION_BITS: u32 = 20;
const CLASSES: usize = 3;
const IDLE_CLASS: usize = 2;
/// In the scratch of a request: its queue, and its state.
const HOME: usize = 0;
const STATE: usize = 1;

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

/// Where a request stands, as the calls so far have put it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Bound = 1,
    Waiting = 2,
    Picked = 3,
    Refused = 4,
    Ended = 5,
}

/// A client's sync requests, or everybody's async ones.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    /// Whose; nobody's if free, or the async one.
    client: Option<ClientId>,
    members: List,
    sorted: Root,
    /// What the device refused: goes first.
    head: List,
    /// Picked, and neither completed nor back.
    picked: u32,
    group: u32,
    class: usize,
    /// The queue that this client's next requests go to.
    into: Option<u32>,
    /// Behind the last request that was bound here.
    last_end: Option<u64>,
    /// Device time in the present slice.
    served: Nanos,
}

impl Queue {
    const fn waiting(&self) -> u32 {
        self.sorted.len() + self.head.len()
    }
}

/// A group's claim on the device.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    weight: u32,
    virtual_time: u128,
    rings: [List; CLASSES],
}

impl Share {
    fn best_class(&self) -> Option<usize> {
        self.rings.iter().position(|ring| !ring.is_empty())
    }
}

/// The scheduler of this fixture.
#[derive(Debug)]
pub(crate) struct Slices {
    rules: Rules,
    slice: Nanos,
    idle: Nanos,
    nodes: Nodes<u64>,
    head_links: Links,
    member_links: Links,
    ring_links: Links,
    /// By client, the async one last.
    queues: Vec<Queue>,
    /// By group.
    shares: Vec<Share>,
    active: Option<u32>,
    /// Set by the first completion of the slice.
    slice_end: Option<Nanos>,
    idle_until: Option<Nanos>,
    waiting: u32,
    /// Virtual time of the whole: who comes back starts here.
    virtual_now: u128,
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
            nodes: Nodes::with_capacity(0),
            head_links: Links::default(),
            member_links: Links::default(),
            ring_links: Links::default(),
            queues: Vec::new(),
            shares: Vec::new(),
            active: None,
            slice_end: None,
            idle_until: None,
            waiting: 0,
            virtual_now: 0,
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
        if !self.member_links.contains(request.index()) {
            self.note_breach(|| format!("S7: {call} of request {} not bound", request.index()));
            return None;
        }
        let [home, state] = scene.request(request).scratch();
        if !states.iter().any(|&known| known as u64 == state) {
            self.note_breach(|| format!("S7: {call} of a request in state {state}"));
        }
        u32::try_from(home - 1).ok()
    }

    fn see(&mut self, scene: &Scene) {
        let (now, before) = (scene.now(), self.last_seen);
        if now < before {
            self.note_breach(|| format!("S5: time steps back from {} to {}", before.0, now.0));
        }
        self.last_seen = now;
    }

    fn at(&self, number: u32) -> &Queue {
        &self.queues[number as usize]
    }

    fn at_mut(&mut self, number: u32) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    fn async_queue(&self) -> u32 {
        u32::try_from(self.queues.len() - 1).unwrap_or(0)
    }

    /// The queue that a client's sync requests go to.
    fn target(&self, client: u32) -> u32 {
        let mut number = client;
        while let Some(next) = self.at(number).into {
            number = next;
        }
        number
    }

    /// The queue that `bio` would go to.
    fn home_of(&self, bio: &Bio) -> u32 {
        if bio.is_sync() { self.target(bio.client.index()) } else { self.async_queue() }
    }

    fn home(scene: &Scene, request: RequestId) -> u32 {
        u32::try_from(scene.request(request).scratch()[HOME].saturating_sub(1)).unwrap_or(0)
    }

    /// A client that reads where another's last request ended joins that one's queue.
    fn join_neighbour(&mut self, scene: &mut Scene, client: ClientId, sector: u64) {
        let own = self.target(client.index());
        if own != client.index() || self.at(own).last_end == Some(sector) {
            return;
        }
        let (group, class) = (self.at(own).group, self.at(own).class);
        let adjoins = |queue: &Queue| {
            queue.client.is_some()
                && queue.into.is_none()
                && queue.last_end == Some(sector)
                && (queue.group, queue.class) == (group, class)
        };
        let clients = &self.queues[..self.queues.len() - 1];
        let Some(found) = clients.iter().position(adjoins) else { return };
        let into = u32::try_from(found).unwrap_or(own);
        if into == own {
            return;
        }
        self.at_mut(own).into = Some(into);
        if let Some(into) = self.at(into).client {
            scene.note(Note::QueuesMerged { client, into });
        }
    }

    /// Nobody shares a queue with this client any longer; what is bound stays where it is.
    fn part(&mut self, client: u32) {
        for queue in &mut self.queues {
            if queue.into == Some(client) {
                queue.into = None;
            }
        }
        self.at_mut(client).into = None;
    }

    fn enter_ring(&mut self, number: u32) {
        if self.ring_links.contains(number) {
            return;
        }
        let Queue { group, class, .. } = *self.at(number);
        let share = &mut self.shares[group as usize];
        if share.best_class().is_none() && self.active != Some(number) {
            // A group that was away has saved nothing.
            share.virtual_time = share.virtual_time.max(self.virtual_now);
        }
        share.rings[class].push_back(&mut self.ring_links, number);
    }

    fn leave_ring(&mut self, number: u32) {
        if self.ring_links.contains(number) {
            let Queue { group, class, .. } = *self.at(number);
            self.shares[group as usize].rings[class].remove(&mut self.ring_links, number);
        }
    }

    /// Puts a request into a queue's order.
    fn stand(&mut self, scene: &mut Scene, request: RequestId, number: u32, position: Position) {
        let (sector, index) = (scene.request(request).sector(), request.index());
        scene.scratch_mut(request)[STATE] = State::Waiting as u64;
        self.waiting += 1;
        let queue = &mut self.queues[number as usize];
        match position {
            Position::Sorted => queue.sorted.insert(&mut self.nodes, index, sector),
            Position::Head => queue.head.push_front(&mut self.head_links, index),
        }
        self.enter_ring(number);
        if self.active == Some(number) {
            self.stop_idling(scene);
        }
    }

    /// Takes a waiting request out of its queue's order.
    fn step_out(&mut self, scene: &mut Scene, request: RequestId, number: u32, state: State) {
        let index = request.index();
        let queue = &mut self.queues[number as usize];
        if self.head_links.contains(index) {
            queue.head.remove(&mut self.head_links, index);
        } else {
            queue.sorted.remove(&mut self.nodes, index);
        }
        scene.scratch_mut(request)[STATE] = state as u64;
        self.waiting -= 1;
        if self.at(number).waiting() == 0 {
            self.leave_ring(number);
        }
    }

    fn stop_idling(&mut self, scene: &mut Scene) {
        if self.idle_until.take().is_some() {
            scene.cancel_timer();
        }
    }

    /// The request that a queue serves next: refused ones, then upwards from the head, then from
    /// the lowest.
    fn take(&mut self, scene: &mut Scene, number: u32) -> Option<RequestId> {
        let queue = self.at(number);
        let from = scene.in_device().last_end;
        let next = queue
            .head
            .first()
            .or_else(|| queue.sorted.lower_bound(&self.nodes, &from))
            .or_else(|| queue.sorted.first())?;
        let request = RequestId::from_index(next);
        self.step_out(scene, request, number, State::Picked);
        self.at_mut(number).picked += 1;
        Some(request)
    }

    /// Whose turn it is: group, class, queue.
    fn choose(&mut self) -> Option<u32> {
        let busy = self.shares.iter().filter(|share| share.best_class().is_some());
        let share = busy.min_by_key(|share| share.virtual_time)?;
        let first = share.rings[share.best_class()?].first();
        self.virtual_now = self.virtual_now.max(share.virtual_time);
        first
    }

    fn begin_slice(&mut self, scene: &mut Scene, number: u32) {
        let slice = self.slice;
        self.active = Some(number);
        self.slice_end = None;
        let queue = self.at_mut(number);
        queue.served = Nanos::ZERO;
        if let Some(client) = queue.client {
            scene.note(Note::SliceBegins { client, slice });
        }
    }

    fn end_slice(&mut self, scene: &mut Scene) {
        self.stop_idling(scene);
        let Some(number) = self.active.take() else { return };
        self.slice_end = None;
        let Queue { client, served, .. } = *self.at(number);
        if let Some(client) = client {
            scene.note(Note::SliceEnds { client, served });
        }
        if self.ring_links.contains(number) {
            self.leave_ring(number);
            let Queue { group, class, .. } = *self.at(number);
            self.shares[group as usize].rings[class].push_back(&mut self.ring_links, number);
        }
    }

    fn is_over(&self, scene: &Scene) -> bool {
        self.slice_end.is_some_and(|end| end <= scene.now())
    }

    /// Whether the device may wait for this queue's next request.
    fn may_idle(&self, number: u32) -> bool {
        let queue = self.at(number);
        queue.client.is_some() && queue.class != IDLE_CLASS && self.idle != Nanos::ZERO
    }

    /// Whether somebody of a better class waits in the active queue's group.
    fn is_outranked(&self, number: u32) -> bool {
        let queue = self.at(number);
        let best = self.shares[queue.group as usize].best_class();
        best.is_some_and(|best| best < queue.class)
    }

    /// Device time goes to a group's account.
    fn charge_group(&mut self, group: u32, served: Nanos) {
        let share = &mut self.shares[group as usize];
        let cost = (u128::from(served.0) << FRACTION_BITS) / u128::from(share.weight.max(1));
        share.virtual_time += cost;
    }

    /// What remains of a client that leaves goes to the queues of those whose it is.
    fn scatter(&mut self, scene: &mut Scene, number: u32) {
        while let Some(index) = self.at(number).members.first() {
            let request = RequestId::from_index(index);
            let heir = self.target(scene.request(request).client().index());
            if heir == number {
                self.note_breach(|| format!("S7: client {number} leaves with request {index}"));
                return;
            }
            let state = scene.request(request).scratch()[STATE];
            let refused = self.head_links.contains(index);
            if state == State::Waiting as u64 {
                self.step_out(scene, request, number, State::Bound);
            }
            if state == State::Picked as u64 || state == State::Refused as u64 {
                self.at_mut(number).picked -= 1;
                self.at_mut(heir).picked += 1;
            }
            self.at_mut_members(number, |members, links| members.remove(links, index));
            self.at_mut_members(heir, |members, links| members.push_back(links, index));
            scene.scratch_mut(request)[HOME] = u64::from(heir) + 1;
            if state == State::Waiting as u64 {
                let position = if refused { Position::Head } else { Position::Sorted };
                self.stand(scene, request, heir, position);
            }
        }
    }

    fn at_mut_members(&mut self, number: u32, change: impl FnOnce(&mut List, &mut Links)) {
        change(&mut self.queues[number as usize].members, &mut self.member_links);
    }

    fn audit_queue(&self, scene: &Scene, number: u32) -> Result<u32, Fault> {
        let queue = self.at(number);
        queue.members.check(&self.member_links)?;
        queue.sorted.check(&self.nodes)?;
        queue.head.check(&self.head_links)?;
        let (mut waiting, mut picked) = (0, 0);
        for index in queue.members.iter(&self.member_links) {
            let request = scene.request(RequestId::from_index(index));
            let [home, state] = request.scratch();
            if home != u64::from(number) + 1 {
                return Err(format!("S1: request {index} of queue {number} names {home}"));
            }
            let stands = self.nodes.contains(index) || self.head_links.contains(index);
            if stands != (state == State::Waiting as u64) {
                return Err(format!("S2: request {index} in state {state} stands: {stands}"));
            }
            if self.nodes.contains(index) && self.nodes.key(index) != Some(request.sector()) {
                return Err(format!("S2: request {index} stands under a sector not its own"));
            }
            waiting += u32::from(stands);
            picked += u32::from(state == State::Picked as u64 || state == State::Refused as u64);
        }
        if waiting != queue.waiting() || picked != queue.picked {
            return Err(format!("S2: queue {number} has {waiting} and {picked}: {queue:?}"));
        }
        if self.ring_links.contains(number) != (waiting > 0) {
            return Err(format!("S3: queue {number} with {waiting} is not where it should be"));
        }
        if let Some(into) = queue.into {
            let other = self.at(into);
            if (other.group, other.class) != (queue.group, queue.class) || other.client.is_none() {
                return Err(format!("S6: queue {number} is joined to {into}"));
            }
        }
        Ok(waiting)
    }
}

impl Elevator for Slices {
    fn traits(&self) -> Traits {
        Traits { merges_front: true, ..Traits::new("slices", self.rules) }
    }

    fn attach(&mut self, scene: &mut Scene) {
        let (requests, limits) = (scene.request_slots(), *scene.limits());
        let root = scene.root().index();
        *self = Slices {
            slice: self.slice,
            idle: self.idle,
            nodes: Nodes::with_capacity(requests),
            head_links: Links::with_capacity(requests),
            member_links: Links::with_capacity(requests),
            ring_links: Links::with_capacity(limits.clients + 1),
            queues: (0..=limits.clients).map(|_| Queue::default()).collect(),
            shares: (0..limits.groups).map(|_| Share::default()).collect(),
            last_seen: scene.now(),
            ..Slices::with_rules(self.rules)
        };
        let shared = self.async_queue();
        *self.at_mut(shared) = Queue { group: root, class: 1, ..Queue::default() };
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
        } else if self.idle_until.is_some() && self.active == Some(self.target(client.index())) {
            // The device stands still for this very client.
            Admission::Must
        } else {
            Admission::Normal
        }
    }

    fn may_merge(&self, scene: &Scene, request: RequestId, bio: &Bio) -> bool {
        Self::home(scene, request) == self.home_of(bio)
    }

    fn may_absorb(&self, scene: &Scene, request: RequestId, next: RequestId) -> bool {
        Self::home(scene, request) == Self::home(scene, next)
    }

    fn bind(&mut self, scene: &mut Scene, request: RequestId) {
        self.see(scene);
        let new = scene.request(request);
        let (client, sector, end) = (new.client(), new.sector(), new.end());
        let (op, sync) = (new.op(), new.is_sync());
        if new.scratch() != [0; 2] || self.member_links.contains(request.index()) {
            self.note_breach(|| format!("S7: request {} is bound twice", request.index()));
            return;
        }
        if op == Op::Read {
            self.join_neighbour(scene, client, sector);
        }
        let home = if sync { self.target(client.index()) } else { self.async_queue() };
        self.at_mut_members(home, |members, links| members.push_back(links, request.index()));
        self.at_mut(home).last_end = Some(end);
        *scene.scratch_mut(request) = [u64::from(home) + 1, State::Bound as u64];
    }

    fn insert(&mut self, scene: &mut Scene, request: RequestId, position: Position) {
        let states = [State::Bound, State::Refused];
        let Some(home) = self.expect(scene, request, "insert", &states) else { return };
        if scene.request(request).scratch()[STATE] == State::Refused as u64 {
            self.at_mut(home).picked -= 1;
        }
        self.stand(scene, request, home, position);
    }

    fn grown(&mut self, scene: &mut Scene, request: RequestId, side: Side) {
        let Some(home) = self.expect(scene, request, "grown", &[State::Waiting]) else { return };
        if side == Side::Front {
            let sector = scene.request(request).sector();
            self.queues[home as usize].sorted.rekey(&mut self.nodes, request.index(), sector);
        }
        self.at_mut(home).last_end = Some(scene.request(request).end());
    }

    fn absorbed(&mut self, scene: &mut Scene, survivor: RequestId, gone: RequestId) {
        let own = self.expect(scene, survivor, "absorbed", &[State::Waiting]);
        let other = self.expect(scene, gone, "absorbed", &[State::Waiting]);
        if own != other {
            self.note_breach(|| format!("S7: {own:?} absorbs from {other:?}"));
        }
        if let Some(home) = other {
            self.step_out(scene, gone, home, State::Ended);
        }
    }

    fn neighbour(&self, _: &Scene, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.nodes.prev(request.index()).map(RequestId::from_index),
            Side::Back => self.nodes.next(request.index()).map(RequestId::from_index),
        }
    }

    fn pick(&mut self, scene: &mut Scene) -> Pick {
        self.see(scene);
        if self.waiting == 0 {
            return Pick::Nothing;
        }
        if let Some(active) = self.active {
            if self.is_over(scene) || self.is_outranked(active) {
                self.end_slice(scene);
            } else if let Some(request) = self.take(scene, active) {
                return Pick::Dispatch(request, Place::Sorted);
            } else if self.idle_until.is_some() {
                return Pick::Idle;
            } else if self.at(active).picked > 0 && self.may_idle(active) {
                return Pick::Await;
            } else {
                self.end_slice(scene);
            }
        }
        let Some(number) = self.choose() else { return Pick::Nothing };
        self.begin_slice(scene, number);
        match self.take(scene, number) {
            Some(request) => Pick::Dispatch(request, Place::Sorted),
            None => Pick::Nothing,
        }
    }

    fn started(&mut self, scene: &mut Scene, request: RequestId) {
        self.expect(scene, request, "started", &[State::Picked, State::Refused]);
        scene.scratch_mut(request)[STATE] = State::Picked as u64;
    }

    fn requeued(&mut self, scene: &mut Scene, request: RequestId) {
        self.expect(scene, request, "requeued", &[State::Picked]);
        scene.scratch_mut(request)[STATE] = State::Refused as u64;
    }

    fn completed(&mut self, scene: &mut Scene, request: RequestId, served: Nanos) {
        let home = self.expect(scene, request, "completed", &[State::Picked]);
        let Some(home) = home else { return };
        scene.scratch_mut(request)[STATE] = State::Ended as u64;
        self.at_mut(home).picked -= 1;
        self.charge_group(self.at(home).group, served);
        if self.active != Some(home) {
            return;
        }
        let now = scene.now();
        self.at_mut(home).served += served;
        let end = *self.slice_end.get_or_insert(now + self.slice);
        if end <= now {
            self.end_slice(scene);
            return;
        }
        let Queue { client, picked, .. } = *self.at(home);
        let alone = self.at(home).waiting() == 0 && picked == 0;
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
            self.step_out(scene, request, home, State::Bound);
        }
    }

    fn released(&mut self, scene: &mut Scene, request: RequestId) {
        let states = [State::Bound, State::Picked, State::Refused, State::Ended];
        let Some(home) = self.expect(scene, request, "released", &states) else { return };
        let state = scene.request(request).scratch()[STATE];
        if state == State::Picked as u64 || state == State::Refused as u64 {
            // Given up by force, and now another elevator's.
            self.at_mut(home).picked -= 1;
        }
        self.at_mut_members(home, |members, links| members.remove(links, request.index()));
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
        self.charge_group(scene.group_of(client).index(), cost);
        // One other of the same weight, whoever is there.
        cost
    }

    fn drain(&mut self, scene: &mut Scene) -> Option<RequestId> {
        self.see(scene);
        let next = match self.active {
            Some(active) if self.at(active).waiting() > 0 => Some(active),
            _ => self.choose(),
        };
        next.and_then(|number| self.take(scene, number))
    }

    fn explain(&self, scene: &Scene, request: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        let home = Self::home(scene, request);
        match self.active {
            Some(active) if active == home => out.write_str("others of its queue go first"),
            Some(active) => write!(out, "queue {active} has the device"),
            None => out.write_str("no queue has the device yet"),
        }
    }

    fn waiting(&self) -> u32 {
        self.waiting
    }

    fn audit(&self, scene: &Scene) -> Result<(), Fault> {
        if let Some(breach) = &self.breach {
            return Err(format!("slices {breach}"));
        }
        let mut waiting = 0;
        for number in 0..=self.async_queue() {
            let found = self.audit_queue(scene, number);
            waiting += found.map_err(|fault| format!("slices {fault}"))?;
            let mut hops = 0;
            let mut at = number;
            while let Some(next) = self.at(at).into {
                (at, hops) = (next, hops + 1);
                if hops > self.queues.len() {
                    return Err(format!("slices S6: queue {number} is joined in a circle"));
                }
            }
        }
        if waiting != self.waiting {
            return Err(format!("slices S2: {waiting} wait, counted {}", self.waiting));
        }
        for list in self.shares.iter().flat_map(|share| &share.rings) {
            list.check(&self.ring_links).map_err(|fault| format!("slices S3: {fault}"))?;
        }
        let timer = self.idle_until.unwrap_or(Nanos::MAX);
        let empty = self.active.is_some_and(|active| self.at(active).waiting() == 0);
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
        let queue = self.at(client.index());
        if queue.client.is_some() || !queue.members.is_empty() {
            self.note_breach(|| format!("S7: client {} comes twice", client.index()));
        }
        *self.at_mut(client.index()) = Queue { client: Some(client), ..Queue::default() };
        self.client_changed(scene, client);
    }

    fn client_changed(&mut self, scene: &mut Scene, client: ClientId) {
        let number = client.index();
        let class = scene.client(client).expect("it is there").priority().class as usize;
        let group = scene.group_of(client).index();
        self.part(number);
        self.leave_ring(number);
        let queue = self.at_mut(number);
        (queue.class, queue.group) = (class, group);
        if queue.waiting() > 0 {
            self.enter_ring(number);
        }
    }

    fn client_detached(&mut self, scene: &mut Scene, client: ClientId) {
        let number = client.index();
        self.part(number);
        if self.active == Some(number) {
            self.end_slice(scene);
        }
        self.scatter(scene, number);
        *self.at_mut(number) = Queue::default();
    }

    fn group_changed(&mut self, scene: &mut Scene, group: GroupId) {
        let (weight, virtual_now) =
            (scene.group(group).expect("it is there").weight(), self.virtual_now);
        let share = &mut self.shares[group.index() as usize];
        if share.weight == 0 {
            *share = Share { virtual_time: virtual_now, ..Share::default() };
        }
        share.weight = weight;
    }

    fn group_removed(&mut self, _: &mut Scene, group: GroupId) {
        let share = self.shares[group.index() as usize];
        if share.best_class().is_some() || share.weight == 0 {
            self.note_breach(|| format!("S7: group {} goes with members", group.index()));
        }
        self.shares[group.index() as usize] = Share::default();
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

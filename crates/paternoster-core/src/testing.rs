// SPDX-License-Identifier: MIT OR Apache-2.0
//! Testing: an elevator without a queue, for tests that take the queue's place.
//!
//! Compiled only with the feature `testing`; never in a release. A test calls the elevator itself,
//! in a [`QueueView`] of its own, in which it does what a queue would do: time passes, clients and
//! groups come and go, requests are made, grow, move and end. So it reaches states that a queue
//! reaches only with luck, and sees an elevator's own data beside them.
//!
//! ```text
//!          ┌─────────────── Probe ───────────────┐
//!   test ──┼─▶ QueueView::add_client, …  elevator │
//!          │        │                       ▲     │
//!          │        └──────── view ─────────┘     │
//!          └─────────────────────────────────────┘
//! ```
//!
//! ```
//! use paternoster_core::testing::World;
//! use paternoster_core::{Bio, ClientSpec, DeviceFacts, Limits, Nanos, Op, QueueView};
//!
//! let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
//! let client = view.add_client(ClientSpec::new().weight(300));
//! let request = view.add_request(&Bio::new(client, Op::Read, 8, 8), Nanos::ZERO);
//! assert_eq!((view.request(request).end(), view.client_at(0).weight()), (16, 300));
//! assert_eq!(World::default().nr_requests, 0);
//! ```
//!
//! [`Probe`] is an elevator with such a view, and what a queue says to it: with it recorded
//! decisions of real kernels are replayed (`paternoster-conformance`).
//!
//! # Invariants
//! I1  A probe never turns time back, except for the moment in which a client is attached that was
//!     known before.
//! I2  A client that leaves stays until its last request has ended.
//!
//! Source: own.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bio::Bio;
use crate::client::{Client, ClientId, ClientSpec, Group, GroupId, GroupSpec, Priority};
use crate::device::DeviceFacts;
use crate::elevator::{Admission, Elevator, Fault, Pick, Position, Side};
use crate::event::Note;
use crate::op::{Flags, Op};
use crate::queue_view::{Limits, Ncq, QueueView};
use crate::request::{Request, RequestId, Stage};
use crate::time::{Hz, Nanos};

/// What a queue does to its view.
impl QueueView {
    /// A view without a queue, at time zero. It keeps the notes of its elevator.
    #[must_use]
    pub fn alone(facts: DeviceFacts, limits: Limits) -> QueueView {
        QueueView::new(facts, limits, true)
    }

    /// Sets the time, which may be an earlier one.
    pub fn turn_clock(&mut self, to: Nanos) {
        self.exact = to;
        self.now = self.hz().floor(to);
    }

    /// Sets the ticks per second.
    pub fn change_hz(&mut self, hz: Hz) {
        self.set_hz(hz);
    }

    /// The exact time at which the timer fires; `Nanos::MAX` if it is not set.
    #[must_use]
    pub const fn rings(&self) -> Nanos {
        self.timer_rings()
    }

    /// What the device reports, to be changed.
    pub const fn facts_mut(&mut self) -> &mut DeviceFacts {
        &mut self.facts
    }

    /// Sets whether its report on queueing counts.
    pub const fn set_ncq(&mut self, ncq: Ncq) {
        self.ncq = ncq;
    }

    /// Sets how many requests may be allocated.
    pub const fn set_nr_requests(&mut self, nr_requests: u32) {
        self.nr_requests = nr_requests;
    }

    /// The notes since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.drain().collect()
    }

    /// Adds a client, in the root if in no other group. The elevator is not told.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_client(&mut self, spec: ClientSpec) -> ClientId {
        let client = Client::of(spec, spec.group.unwrap_or(self.root()));
        ClientId(self.clients.0.insert(client).expect("room for clients"))
    }

    /// A client, which is there, moves to another group.
    pub fn move_client(&mut self, client: ClientId, to: GroupId) {
        self.clients.0.at_mut(client.index()).group = Some(to);
    }

    /// A client, which is there, gets another class and level.
    pub fn set_priority(&mut self, client: ClientId, priority: Priority) {
        self.clients.0.at_mut(client.index()).priority = priority;
    }

    /// A client has gone.
    pub fn remove_client(&mut self, client: ClientId) {
        self.clients.0.free(client.index());
    }

    /// Adds a group, below the root if below no other.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_group(&mut self, spec: GroupSpec) -> GroupId {
        let parent = Some(spec.parent.unwrap_or(self.root()));
        let group = Group { parent, weight: spec.weight, members: 0 };
        GroupId(self.groups.0.insert(group).expect("room for groups"))
    }

    /// A group, which is there, gets another weight.
    pub fn set_group_weight(&mut self, group: GroupId, weight: u32) {
        self.groups.0.at_mut(group.index()).weight = weight;
    }

    /// A group has gone.
    pub fn remove_group(&mut self, group: GroupId) {
        self.groups.0.free(group.index());
    }

    /// Makes a request for a bio, at its client's priority, that was allocated at `start`. It does
    /// not wait yet.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_request(&mut self, bio: &Bio, start: Nanos) -> RequestId {
        let client = self.clients.0.get_mut(bio.client.0);
        let priority = client.map_or_else(Default::default, |client| {
            client.requests += 1;
            client.priority
        });
        let mut made = Request::default();
        made.fill(bio, priority, start);
        let key = self.requests.0.insert(made).expect("room for requests");
        RequestId(key.index())
    }

    /// Moves a request on.
    pub fn set_stage(&mut self, request: RequestId, stage: Stage) {
        self.requests[request].stage = stage;
    }

    /// A request has other sectors from now on.
    pub fn resize(&mut self, request: RequestId, sector: u64, sectors: u32) {
        let request = &mut self.requests[request];
        (request.sector, request.sectors) = (sector, sectors);
    }

    /// A request has ended. Its client, if that has left, goes with its last one.
    pub fn free_request(&mut self, request: RequestId) {
        let client = self.request(request).client();
        self.requests.0.free(request.index());
        if let Some(owner) = self.clients.0.get_mut(client.0) {
            owner.requests -= 1;
            self.free_if_gone(client);
        }
    }

    fn free_if_gone(&mut self, client: ClientId) {
        if self.clients.get(client.0).is_some_and(Client::is_gone) {
            self.clients.0.free(client.index());
        }
    }
}

impl Request {
    /// A request for a bio, outside of any queue.
    #[must_use]
    pub fn of(bio: &Bio, start: Nanos) -> Request {
        let mut made = Request::default();
        made.fill(bio, bio.priority.unwrap_or_default(), start);
        made
    }
}

/// What an elevator sees of the world when it is chosen.
#[derive(Debug, Clone, Copy, Default)]
pub struct World {
    /// What the device reports.
    pub facts: DeviceFacts,
    /// Whether its report on queueing counts.
    pub ncq: Ncq,
    /// Requests that may be allocated.
    pub nr_requests: u32,
    /// Ticks per second.
    pub hz: Hz,
}

/// An elevator, and the world as its recording describes it. There is no queue around it: this does
/// what a queue would do, and nothing else.
#[derive(Debug)]
pub struct Probe<E: Elevator + ?Sized> {
    /// The world.
    pub view: QueueView,
    /// The elevator in it.
    pub elevator: Box<E>,
}

impl<E: Elevator + ?Sized> Probe<E> {
    /// An elevator that has not been chosen yet, at time zero.
    #[must_use]
    pub fn new(world: World, elevator: Box<E>) -> Probe<E> {
        let mut view = QueueView::new(world.facts, Limits::default(), false);
        (view.ncq, view.nr_requests) = (world.ncq, world.nr_requests);
        view.set_hz(world.hz);
        Probe { view, elevator }
    }

    /// The elevator is chosen, now.
    pub fn attach(&mut self) {
        self.elevator.attach(&mut self.view);
        let root = self.view.root();
        if let Some(members) = self.elevator.members() {
            members.group_changed(&mut self.view, root);
        }
    }

    /// Sets an attribute by its name.
    ///
    /// # Panics
    /// If no attribute has this name.
    pub fn set(&mut self, name: &str, value: u64) {
        let knobs = self.elevator.knobs_mut().expect("it has attributes");
        let place = knobs.attributes().iter().position(|it| it.name == name);
        let place = place.expect("an attribute");
        knobs.set(&mut self.view, place, value).expect("it can be set");
    }

    /// Moves time on to `at`, unless it is later already.
    pub fn set_time(&mut self, at: Nanos) {
        self.view.turn_clock(self.view.exact.max(at));
    }

    /// The time in nanoseconds.
    #[must_use]
    pub const fn exact_now(&self) -> Nanos {
        self.view.exact_now()
    }

    /// Adds a client that the elevator has known since then.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_client(&mut self, spec: ClientSpec, since: Nanos) -> ClientId {
        let client = self.view.add_client(spec);
        let now = self.view.exact;
        self.view.turn_clock(since);
        if let Some(members) = self.elevator.members() {
            members.client_attached(&mut self.view, client);
        }
        self.view.turn_clock(now);
        client
    }

    /// A client leaves; its slot is free when its last request has ended.
    pub fn client_leaves(&mut self, client: ClientId) {
        if let Some(members) = self.elevator.members() {
            members.client_detached(&mut self.view, client);
        }
        self.view.clients.0.at_mut(client.index()).leaving = true;
        self.view.free_if_gone(client);
    }

    /// Adds a group.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_group(&mut self, spec: GroupSpec) -> GroupId {
        let group = self.view.add_group(spec);
        if let Some(members) = self.elevator.members() {
            members.group_changed(&mut self.view, group);
        }
        group
    }

    /// How many requests a client may have.
    pub fn admit(&mut self, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.elevator.admit(&mut self.view, client, op, flags)
    }

    /// A bio comes to the queue.
    pub fn bio_comes(&mut self, bio: &Bio) {
        self.elevator.bio_comes(&mut self.view, bio);
    }

    /// Whether a bio may join a request.
    #[must_use]
    pub fn may_merge(&self, request: RequestId, bio: &Bio) -> bool {
        self.elevator.may_merge(&self.view, request, bio)
    }

    /// Makes a request for a bio, at its client's priority; it does not wait yet.
    ///
    /// # Panics
    /// If there is no room.
    pub fn bind(&mut self, bio: &Bio) -> RequestId {
        let request = self.view.add_request(bio, self.view.now);
        self.elevator.bind(&mut self.view, request);
        request
    }

    /// A request begins to wait.
    pub fn insert(&mut self, request: RequestId) {
        self.elevator.insert(&mut self.view, request, Position::Sorted);
    }

    /// A request has grown by this many sectors. The elevator is told if the request waits.
    pub fn grow(&mut self, request: RequestId, sectors: u32, side: Side, waits: bool) {
        let grown = &mut self.view.requests[request];
        grown.sectors += sectors;
        if side == Side::Front {
            grown.sector -= u64::from(sectors);
        }
        if waits {
            self.elevator.grown(&mut self.view, request, side);
        }
    }

    /// Asks the elevator for a request.
    pub fn pick(&mut self) -> Option<RequestId> {
        match self.elevator.pick(&mut self.view) {
            Pick::Dispatch(request, _) => Some(request),
            _ => None,
        }
    }

    /// A request goes to the device.
    pub fn start(&mut self, request: RequestId) {
        self.elevator.started(&mut self.view, request);
    }

    /// The device has refused a request.
    pub fn requeue(&mut self, request: RequestId) {
        self.elevator.requeued(&mut self.view, request);
    }

    /// A request has ended, and is freed.
    pub fn complete(&mut self, request: RequestId) {
        self.elevator.completed(&mut self.view, request, Nanos::ZERO);
        self.elevator.released(&mut self.view, request);
        self.view.free_request(request);
    }

    /// The timer fires.
    pub fn ring(&mut self) {
        self.view.cancel_timer();
        self.elevator.timer(&mut self.view);
    }

    /// Checks the elevator's invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn audit(&self) -> Result<(), Fault> {
        self.elevator.audit(&self.view)
    }
}

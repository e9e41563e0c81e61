// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conformance: hooks for replaying a real kernel's recorded decisions against an elevator.
//!
//! Compiled only with the feature `conformance`, which the crate `paternoster-conformance` enables
//! for its tests; never in a release. A replay makes the calls of an elevator itself, at the times
//! of a recording, in a world that contains no more than the recording says:
//!
//! ```text
//!             ┌──────────── Probe ────────────┐
//! recording ──┼─▶ elevator ── decides ──▶ hook of this thread ──▶ ours compared,
//!   calls     │    │    ▲                     │                   the recorded one goes on
//!             │    ▼    └─ recorded choice ◀──┼──────────────────────────┘
//!             │   view                       │
//!             └───────────────────────────────┘
//! ```
//!
//! This has what all elevators share; what is specific to one, and its hook, is in the `probe` of
//! its folder.
//!
//! # Invariants
//! I1  On a thread without a hook a decision stands as it is.
//! I2  Time never steps back, except for the moment in which a client is attached that was known
//!     before.
//!
//! Source: own.

use alloc::boxed::Box;

use crate::client::{Client, ClientId, ClientSpec, Group, GroupId, GroupSpec};
use crate::device::DeviceFacts;
use crate::elevator::{Admission, Elevator, Fault, Pick, Position, Side};
use crate::queue_view::{Limits, Ncq, QueueView};
use crate::request::{Bio, Flags, Op, Request, RequestId};
use crate::time::{Hz, Nanos};

/// BFQ's hook, and the data of its queues.
pub mod bfq {
    pub use crate::elevators::bfq_probe::{
        Decision, Listener, ProbePoint, Reading, SeenQueue, Turns, install,
    };
}

/// CFQ's hook, and the data of its queues.
pub mod cfq {
    pub use crate::elevators::cfq_probe::{Choice, Decision, Replace, SeenQueue, install, tree};
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
    pub(crate) view: QueueView,
    pub(crate) elevator: Box<E>,
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
        self.turn_clock(self.view.exact.max(at));
    }

    fn turn_clock(&mut self, to: Nanos) {
        self.view.exact = to;
        self.view.now = self.view.hz().floor(to);
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
        let ClientSpec { group, priority, weight, pid } = spec;
        let group = Some(group.unwrap_or(self.view.root()));
        let client = Client { group, priority, weight, pid, ..Client::default() };
        let client = ClientId(self.view.clients.0.insert(client).expect("room for clients"));
        let now = self.view.exact;
        self.turn_clock(since);
        if let Some(members) = self.elevator.members() {
            members.client_attached(&mut self.view, client);
        }
        self.turn_clock(now);
        client
    }

    /// A client leaves; its slot is free when its last request has ended.
    pub fn client_leaves(&mut self, client: ClientId) {
        if let Some(members) = self.elevator.members() {
            members.client_detached(&mut self.view, client);
        }
        self.view.clients.0.at_mut(client.index()).leaving = true;
        self.free_if_gone(client);
    }

    fn free_if_gone(&mut self, client: ClientId) {
        if self.view.clients.get(client.0).is_some_and(Client::is_gone) {
            self.view.clients.0.free(client.index());
        }
    }

    /// Adds a group.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_group(&mut self, spec: GroupSpec) -> GroupId {
        let parent = Some(spec.parent.unwrap_or(self.view.root()));
        let group = Group { parent, weight: spec.weight, members: 0 };
        let group = GroupId(self.view.groups.0.insert(group).expect("room for groups"));
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
        let client = self.view.clients.0.get_mut(bio.client.0);
        let priority = client.map_or_else(Default::default, |client| {
            client.requests += 1;
            client.priority
        });
        let mut made = Request::default();
        made.fill(bio, priority, self.view.now);
        let key = self.view.requests.0.insert(made).expect("room for requests");
        let request = RequestId(key.index());
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
        let client = self.view.requests[request].client();
        self.view.requests.0.free(request.index());
        if let Some(owner) = self.view.clients.0.get_mut(client.0) {
            owner.requests -= 1;
            self.free_if_gone(client);
        }
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

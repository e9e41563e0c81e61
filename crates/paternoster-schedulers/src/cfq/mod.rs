// SPDX-License-Identifier: MIT OR Apache-2.0
//! CFQ, complete fairness queueing: each process has the device to itself for a while.
//!
//! Sequential readers are served best one at a time, each for a time slice in which it has the
//! device to itself; seeky processes are served in turns; processes that write without waiting get
//! what is left. Linux's default from 2.6.18 to 4.20.
//!
//! ```text
//!            group (weight)          class      kind        queue (slice)        request
//!  root ─┬─ 1000 ──────────── RT ──┬─ sync ──── A 100 ms ── by sector, oldest first if expired
//!        │                    BE   ├─ no idle ─ B, C, D in turns
//!        └─  500 …            IDLE └─ async ─── all writes, 40 ms
//! ```
//!
//! Each concept has its own file: `select` (whose turn it is), `workload` (which kind), `service`
//! (in which order), `slice` (how long), `dispatch` (how many in flight), `idling`, `preempt`,
//! `cooperate` (queues that merge), `groups` (shares between cgroups), `membership` (a queue's
//! group), `context` (what is kept per process), `queue`; `bandwidth` and `climb` are seed 001's
//! experiments. Differences between kernels are in `version`.
//!
//! # Invariants (see `audit.rs`)
//! I1  A queue with a waiting request is busy. A busy queue without one has the device.
//! I2  Counters equal what they count.
//! I3  The timer is set exactly while the device idles on purpose.
//!
//! Source: `docs/rules/cfq.md`; seeds 000 and 001.

mod arrive;
mod audit;
mod bandwidth;
mod climb;
mod context;
mod cooperate;
mod dispatch;
mod explain;
mod flush_share;
mod groups;
mod idling;
mod kind;
mod knobs;
mod members;
mod membership;
mod preempt;
#[cfg(feature = "conformance")]
pub(crate) mod probe;
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature alone")
)]
mod probe_points;
mod queue;
mod queues;
mod select;
mod service;
mod shared;
mod slice;
#[cfg(test)]
mod tests;
mod tunables;
mod version;
mod workload;

use core::fmt;

use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::observe::queue_depth::QueueDepth;
use paternoster_core::pick::home::{home, is_in_flight, settle};
use paternoster_core::pick::positions::Positions;
use paternoster_core::pick::shared::SHARED;
use paternoster_core::time::Nanos;
use paternoster_core::tree::Nodes;
use paternoster_core::{Bio, ClientId, Flags, GroupId, Ncq, Op, QueueView, RequestId, is_sync};

use crate::bypass::Bypass;
use bandwidth::Bandwidth;
use climb::Climber;
use context::{Context, Contexts};
use groups::Groups;
use queues::Queues;
use select::Selection;
use shared::SharedQueues;
use slice::signed;
use tunables::Tunables;
use version::{LINUX_2_6_34, LINUX_3_6, LINUX_4_19, Version};
use workload::Serving;

/// One tree of positions per level.
const LEVELS: u32 = 8;
/// How long ago a sync request counts as late before any was.
const LATE_AT_FIRST: Nanos = Nanos::from_millis(1000);

/// The CFQ scheduler.
#[derive(Debug)]
pub struct Cfq {
    version: Version,
    tunables: Tunables,

    contexts: Contexts,
    shared: SharedQueues,
    queues: Queues,
    groups: Groups,
    /// Already dispatched; handed out before anything else is chosen.
    bypass: Bypass,
    service: Nodes<i64>,
    positions: Positions,

    active: Option<u32>,
    /// The process whose request opened the active slice.
    active_client: Option<ClientId>,
    serving: Serving,
    /// The device idles for the tree of queues not idled for singly, at its end (2.6.34).
    tree_idles: bool,
    idle_until: Option<Nanos>,

    /// Busy queues, and the sync ones among them.
    busy: u32,
    busy_sync: u32,
    /// Sync queues with requests in flight.
    flying_sync: u32,
    /// Dispatched but not ended, by the kind of their queue: async, sync.
    in_flight: [u32; 2],
    /// Those of them in the device.
    in_driver: u32,
    /// The sector after the last request sent to the device.
    last_position: u64,
    /// When a sync request last took too long; in nanoseconds, possibly before time zero.
    last_delayed_sync: i64,
    depth: QueueDepth,
    bandwidth: Bandwidth,
    climber: Climber,
    /// Its epoch, taken from its first request: of the requests in the device, only those with this
    /// epoch are its own.
    epoch: Option<u32>,
}

impl Default for Cfq {
    fn default() -> Cfq {
        Cfq::new()
    }
}

impl Cfq {
    /// CFQ of Linux 2.6.34, with the kernel's defaults and no queues.
    #[must_use]
    pub fn new() -> Cfq {
        Cfq::of(LINUX_2_6_34)
    }

    /// CFQ of Linux 3.6.
    #[must_use]
    pub fn linux_3_6() -> Cfq {
        Cfq::of(LINUX_3_6)
    }

    /// CFQ of Linux 4.19.
    #[must_use]
    pub fn linux_4_19() -> Cfq {
        Cfq::of(LINUX_4_19)
    }

    fn of(version: Version) -> Cfq {
        Cfq {
            version,
            tunables: Tunables::default(),
            contexts: Contexts::with_capacity(0),
            shared: SharedQueues::new(0, version.nests_groups),
            queues: Queues::new(0, 0, version.urgent),
            groups: Groups::with_capacity(0, version.nests_groups),
            bypass: Bypass::with_capacity(0),
            service: Nodes::with_capacity(0),
            positions: Positions::new(0, 0),
            active: None,
            active_client: None,
            serving: Serving::default(),
            tree_idles: false,
            idle_until: None,
            busy: 0,
            busy_sync: 0,
            flying_sync: 0,
            in_flight: [0; 2],
            in_driver: 0,
            last_position: 0,
            last_delayed_sync: 0,
            depth: QueueDepth::default(),
            bandwidth: Bandwidth::default(),
            climber: Climber::new(Nanos::ZERO, Nanos::ZERO),
            epoch: None,
        }
    }

    /// Whether the device queues commands; `None` if that is not known.
    fn queues_commands(&self, view: &QueueView) -> Option<bool> {
        match view.ncq() {
            Ncq::Declared => Some(view.facts().depth > 1),
            Ncq::Probe => self.depth.queues(),
        }
    }

    /// The most requests that the device takes at a time, as far as known.
    fn estimated_depth(&self, view: &QueueView) -> u32 {
        match view.ncq() {
            Ncq::Declared => view.facts().depth,
            Ncq::Probe => self.depth.most(),
        }
    }

    /// The kernel's defaults, as a queue with this device gets them.
    fn default_tunables(&self, view: &QueueView) -> Tunables {
        let mut tunables = self.tunables;
        if self.version.no_slice_idle_on_flash && !view.facts().rotational {
            tunables.slice_idle = Nanos::ZERO;
        }
        tunables
    }

    /// Whether a request in the device is this elevator's.
    fn is_own(&self, view: &QueueView, request: RequestId) -> bool {
        Some(view.request(request).epoch()) == self.epoch && is_in_flight(view, request)
    }
}

impl Elevator for Cfq {
    fn traits(&self) -> Traits {
        Traits { merges_front: true, ..Traits::legacy(self.version.name) }
    }

    fn attach(&mut self, view: &mut QueueView) {
        let (requests, limits) = (view.request_slots(), *view.limits());
        let tables = if self.version.nests_groups { limits.groups } else { 1 };
        let shared = tables.saturating_mul(u32::try_from(SHARED).unwrap_or(0));
        // The queue of a process, a queue that only its requests still refer to, the shared queues.
        let queues = limits.clients.saturating_add(requests).saturating_add(shared);
        let now = view.now();
        let tunables = self.default_tunables(view);
        *self = Cfq {
            tunables,
            contexts: Contexts::with_capacity(limits.clients),
            shared: SharedQueues::new(tables, self.version.nests_groups),
            queues: Queues::new(queues, requests, self.version.urgent),
            groups: Groups::with_capacity(limits.groups, self.version.nests_groups),
            bypass: Bypass::with_capacity(requests),
            service: Nodes::with_capacity(queues),
            positions: Positions::new(queues, LEVELS),
            last_delayed_sync: signed(now) - signed(LATE_AT_FIRST),
            climber: Climber::new(now, tunables.slice_idle),
            ..Cfq::of(self.version)
        };
    }

    fn admit(&mut self, view: &mut QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        let sync = is_sync(op, flags);
        let Some(queue) = self.contexts.slot(client, sync) else { return Admission::Normal };
        let home = self.queues.at_mut(queue);
        home.refresh_priority(view, client);
        if home.wait_request && !home.had_permit {
            // The device idles for this very process.
            home.had_permit = true;
            Admission::Must
        } else {
            Admission::Normal
        }
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        let sync = bio.is_sync();
        let slot = self.contexts.slot(bio.client, sync);
        (view.request(request).is_sync() || !sync) && slot == Some(home(view, request))
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        home(view, request) == home(view, next)
            && self.queues.lanes().contains(request)
            && !self.bypass.contains(next)
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        let (client, sync) = (view.request(request).client(), view.request(request).is_sync());
        let queue = self.queue_for(view, client, sync);
        self.queues.at_mut(queue).allocate();
        settle(view, request, queue);
        self.epoch = Some(view.request(request).epoch());
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        if position == Position::Head {
            // It was dispatched already, and refused: it keeps its precedence.
            self.bypass.push(request);
            return;
        }
        let queue = home(view, request);
        self.queues.at_mut(queue).refresh_priority(view, view.request(request).client());
        self.add_request(view, queue, request);
        self.learn(view, queue, request);
        if self.active == Some(queue) {
            self.came_to_active(view, queue, request);
        } else {
            self.preempt_if_due(view, queue, request);
        }
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Back || !self.queues.lanes().contains(request) {
            return;
        }
        let queue = home(view, request);
        self.queues.resort(view, queue, request);
        self.reconsider_next(view, queue, request);
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        // Its place by sector changes as after a front merge; its age does not.
        self.grown(view, request, side);
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let queue = home(view, gone);
        self.queues.absorb(view, queue, survivor, gone);
        if self.active != Some(queue) {
            self.update_position(view, queue);
        }
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.queues.lanes().former(request),
            Side::Back => self.queues.lanes().latter(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        if let Some(request) = self.bypass.pop() {
            return Pick::Dispatch(request, Place::Sorted);
        }
        match self.select(view) {
            Selection::Serve(queue) => match self.dispatch_next(view, queue) {
                Some(request) => Pick::Dispatch(request, Place::Sorted),
                None => Pick::Await,
            },
            Selection::Idle => Pick::Idle,
            Selection::Await => Pick::Await,
            Selection::Nothing => Pick::Nothing,
        }
    }

    fn started(&mut self, view: &mut QueueView, request: RequestId) {
        self.request_started(view, request);
    }

    fn requeued(&mut self, _: &mut QueueView, _: RequestId) {
        self.in_driver -= 1;
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, _: Nanos) {
        if self.is_own(view, request) {
            self.request_ended(view, request);
        }
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        if self.bypass.remove(request) {
            self.count_in_flight(view, queue, request, false);
        } else {
            self.withdraw(view, queue, request);
        }
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        if is_in_flight(view, request) {
            // Given up by force, and now another elevator's.
            self.count_in_flight(view, queue, request, false);
        }
        self.queues.at_mut(queue).allocated -= 1;
        self.put_queue(view, queue);
    }

    fn timer(&mut self, view: &mut QueueView) {
        self.idle_timer_rings(view);
    }

    fn charge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        self.due_for(view, client, cost, beside)
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        if let Some(request) = self.bypass.pop() {
            return Some(request);
        }
        if self.queues.waiting() == 0 {
            return None;
        }
        self.expire(view, false);
        self.choose_workload(view);
        let queue = self.first_of_workload()?;
        let request = self.queues.at(queue).next?;
        self.withdraw(view, queue, request);
        self.count_in_flight(view, queue, request, true);
        Some(request)
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        self.explain_wait(view, request, out)
    }

    fn waiting(&self) -> u32 {
        self.queues.waiting() + self.bypass.len()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        self.audit_all(view)
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

impl Members for Cfq {
    fn client_attached(&mut self, view: &mut QueueView, client: ClientId) {
        *self.contexts.at_mut(client) = Context::new(view.now());
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        self.client_has_changed(view, client);
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        self.client_goes(view, client);
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        self.groups.weigh(view, group.index(), self.version.least_weight);
    }

    fn group_removed(&mut self, view: &mut QueueView, group: GroupId) {
        self.give_up_shared(view, group.index());
        self.dissolve_group(view, group.index());
    }
}

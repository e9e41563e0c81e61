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
//! ```text
//! arrival ─▶ whose queue? (merge, split) ─▶ its place in a tree ─▶ what is it like? ─▶ preempts?
//! select  ─▶ goes on, idles, or ends its turn ─▶ next group, kind, queue ─▶ its request
//! end     ─▶ think time, lateness ─▶ idle for its queue, or end the turn
//! ```
//!
//! Each concept is a part with a file of its own, to be read and tested alone. `schedule` (with
//! `kind` and `groups`) knows in which order queues have their turn, `workload` which kind of them,
//! `service` which queue has the device, `slice` and `length` for how long, `dispatch` how many
//! requests may be in flight. `queues` holds each [`Queue`](queue), `context` what is kept per
//! process, `shared` the queues of async requests, `device` what is known of the device. `idling`
//! and `preempt` say what happens while one is waited for, `cooperate` which queues merge;
//! `bandwidth` and `climb` are seed 001's experiments. Differences between kernels are in
//! `version`, settings in `tunables` and `knobs`. `probe_points` lets a test replace decisions.
//!
//! [`Cfq`] is the wiring: parts answer, and it acts, in `members` and `arrive` (the first line
//! above) and in `turn` (the others).
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
mod device;
mod dispatch;
mod explain;
mod flush_share;
mod groups;
mod idling;
mod kind;
mod knobs;
mod length;
mod members;
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
mod schedule;
mod service;
mod shared;
mod slice;
#[cfg(test)]
mod tests;
mod tunables;
mod turn;
mod version;
mod workload;

use core::fmt;

use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::pick::home::{home, is_in_flight, settle};
use paternoster_core::pick::shared::SHARED;
use paternoster_core::time::Nanos;
use paternoster_core::{Bio, ClientId, Flags, GroupId, Op, QueueView, RequestId, is_sync};

use crate::bypass::Bypass;
use climb::Climber;
use context::{Context, Contexts};
use cooperate::Cooperation;
use device::Device;
use queues::Queues;
use schedule::Schedule;
use service::Service;
use shared::SharedQueues;
use tunables::Tunables;
use turn::Selection;
use version::{LINUX_2_6_34, LINUX_3_6, LINUX_4_19, Version};
use workload::Workload;

/// The CFQ scheduler.
#[derive(Debug)]
pub struct Cfq {
    version: Version,
    tunables: Tunables,

    contexts: Contexts,
    shared: SharedQueues,
    queues: Queues,
    /// Already dispatched; handed out before anything else is chosen.
    bypass: Bypass,
    schedule: Schedule,
    workload: Workload,
    service: Service,
    device: Device,
    cooperation: Cooperation,
    climber: Climber,
}

impl Default for Cfq {
    fn default() -> Cfq {
        Cfq::new()
    }
}

/// How much room a view asks for.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    requests: u32,
    clients: u32,
    groups: u32,
    queues: u32,
    /// Number of tables of shared queues.
    tables: u32,
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
        Cfq::with_room(version, Tunables::default(), Nanos::ZERO, Room::default())
    }

    fn with_room(version: Version, tunables: Tunables, now: Nanos, room: Room) -> Cfq {
        let Room { requests, clients, groups, queues, tables } = room;
        Cfq {
            version,
            tunables,
            contexts: Contexts::with_capacity(clients),
            shared: SharedQueues::new(tables, version.nests_groups),
            queues: Queues::new(queues, requests, version.urgent),
            bypass: Bypass::with_capacity(requests),
            schedule: Schedule::new(queues, groups, &version),
            workload: Workload::new(&version),
            service: Service::default(),
            device: Device::new(now),
            cooperation: Cooperation::with_capacity(queues),
            climber: Climber::new(now, tunables.slice_idle),
        }
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
        let room = Room {
            requests,
            clients: limits.clients,
            groups: limits.groups,
            // The queue of a process, one that only its requests still refer to, the shared ones.
            queues: limits.clients.saturating_add(requests).saturating_add(shared),
            tables,
        };
        let mut tunables = self.tunables;
        if self.version.no_slice_idle_on_flash && !view.facts().rotational {
            tunables.slice_idle = Nanos::ZERO;
        }
        *self = Cfq::with_room(self.version, tunables, view.now(), room);
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
        self.device.bind(view.request(request).epoch());
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        if position == Position::Head {
            // It was dispatched already, and refused: it keeps its precedence.
            self.bypass.push(request);
            return;
        }
        let queue = home(view, request);
        self.arrive(view, queue, request);
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
        self.update_position(view, queue);
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
        self.device.started(view, request);
    }

    fn requeued(&mut self, _: &mut QueueView, _: RequestId) {
        self.device.requeued();
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, _: Nanos) {
        if self.device.is_own(view, request) {
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
        let (contexts, queues, groups) = (&self.contexts, &self.queues, &self.schedule.groups);
        let whose = (client, cost);
        flush_share::due_for(view, &self.tunables, contexts, queues, groups, whose, beside)
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        if let Some(request) = self.bypass.pop() {
            return Some(request);
        }
        if self.queues.waiting() == 0 {
            return None;
        }
        self.expire(view, false);
        let queue = self.first_of_workload(view)?;
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
        if self.bypass.contains(request) {
            return out.write_str("it goes next");
        }
        let (queues, busy) = (&self.queues, self.schedule.busy());
        explain::explain_wait(view, queues, &self.service, busy, home(view, request), out)
    }

    fn waiting(&self) -> u32 {
        self.queues.waiting() + self.bypass.len()
    }

    /// Takes time in proportion to all queues, groups and requests.
    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let (queues, device, active) = (&self.queues, &self.device, self.service.queue());
        let counted = audit::count_references(view, &self.contexts, &self.shared, queues, device);
        audit::audit_queues(view, queues, &self.schedule, device, active, &counted)?;
        self.cooperation.audit(view, queues, active)?;
        self.schedule.audit(queues)?;
        self.service.audit(view)
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
        self.schedule.groups.weigh(view, group.index(), self.version.least_weight);
    }

    fn group_removed(&mut self, view: &mut QueueView, group: GroupId) {
        self.give_up_shared(view, group.index());
        self.dissolve_group(view, group.index());
    }
}

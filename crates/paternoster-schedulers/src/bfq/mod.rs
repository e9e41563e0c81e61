// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFQ, budget fair queueing: each process gets the device for the number of sectors it asks for.
//!
//! Queues take turns. A turn lasts for a *budget* of sectors; B-WF2Q+ decides from weights and
//! budgets whose turn is next, and keeps every queue within one budget of its exact share, in a
//! tree of groups. On top of that: a process that starts, or plays, weighs more for a while; queues
//! of processes that read one stream are merged; the device is kept idle for a queue that needs it,
//! and lent to others meanwhile. In Linux since 4.12.
//!
//! ```text
//! arrival ─▶ whose queue? (merge, split) ─▶ what is it like? (pattern, raise, burst) ─▶ its place
//! select  ─▶ goes on, idles, injects, or ends its turn ─▶ next by virtual finish ─▶ its request
//! end     ─▶ rate, depth, think time ─▶ idle for its queue, or end the turn
//! ```
//!
//! Each concept is a part with a file of its own, to be read and tested alone. `schedule` (with
//! `entity`, `wf2q`, `departed`) knows whose turn it is, `busy`, `symmetry` and `weights` what is
//! counted of queues with work, `charge` and `budgets` what service costs and how much of it a turn
//! may have, `service` and `runs` which queue is served and when BFQ is asked. `queues` holds each
//! [`Queue`](queue), `pattern` what its requests look like, `weight_raising`, `arrival` and `burst`
//! whether it is raised, `context` what is kept per process, `groups` and `tags` per group.
//! `cooperate`, `stable_merge` and `saved_state` merge queues and split them; `idling`, `preempt`,
//! `inject` and `waker` say what happens while one is waited for; `device` (with `rate`) is what is
//! known of the device. Differences between kernels are in `version`, settings in `tunables` and
//! `knobs`. `probe_points` lets a test listen to decisions.
//!
//! [`Bfq`] is the wiring: parts answer, and it acts, in `members` and `arrive` (the first line
//! above) and in `turn` (the others).
//!
//! # Invariants (see `audit.rs`)
//! I1  A queue with a waiting request is busy. A busy queue without one is in service, or was
//!     preempted while the device was kept for it.
//! I2  Counters equal what they count.
//! I3  The timer is set exactly while the device idles on purpose, or a run is due later.
//!
//! Differs: actuators (BFQ-170 to BFQ-172) are not modelled: a device has one.
//!
//! Source: `docs/rules/bfq.md`; seeds 002 and 004.

mod arrival;
mod arrive;
mod audit;
mod budgets;
mod burst;
mod busy;
mod charge;
mod context;
mod cooperate;
mod departed;
mod device;
mod entity;
mod explain;
mod flush_share;
mod groups;
mod idling;
mod inject;
mod knobs;
mod members;
mod pattern;
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
mod rate;
mod runs;
mod saved_state;
mod schedule;
mod service;
#[cfg(not(feature = "conformance"))]
mod silence;
mod stable_merge;
mod symmetry;
mod tags;
#[cfg(test)]
mod tests;
mod tunables;
mod turn;
mod version;
mod waker;
mod weight_raising;
mod weights;
mod wf2q;

use core::fmt;

use paternoster_core::QueueView;
use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::event::Expiry;
use paternoster_core::pick::home::{home, is_in_flight, is_settled};
use paternoster_core::pick::shared::SHARED;
use paternoster_core::time::Nanos;
use paternoster_core::{Bio, Flags, Op, RequestId, is_sync};
use paternoster_core::{ClientId, GroupId};

use crate::bypass::Bypass;
use crate::prefetch::prefetch;
use budgets::Budgets;
use burst::Bursts;
use context::{Context, Contexts};
use cooperate::Cooperation;
use device::Device;
use groups::Groups;
use inject::Injection;
use probe_points::{ProbePoint, probe};
use queues::Queues;
use runs::Runs;
use saved_state::SavedStates;
use schedule::Schedule;
use service::Service;
use tunables::Tunables;
use version::{LINUX_4_19, LINUX_6_18, Version};
use waker::Wakers;

/// The BFQ scheduler.
#[derive(Debug)]
pub struct Bfq {
    version: Version,
    tunables: Tunables,
    contexts: Contexts,
    saved: SavedStates,
    groups: Groups,
    queues: Queues,
    bypass: Bypass,
    schedule: Schedule,
    budgets: Budgets,
    service: Service,
    runs: Runs,
    device: Device,
    bursts: Bursts,
    cooperation: Cooperation,
    wakers: Wakers,
    injection: Injection,
}

impl Default for Bfq {
    fn default() -> Bfq {
        Bfq::new()
    }
}

/// How much room a view asks for.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    requests: u32,
    clients: u32,
    groups: u32,
    queues: u32,
    rotational: bool,
}

impl Bfq {
    /// BFQ of Linux 6.18, with the kernel's defaults and no queues.
    #[must_use]
    pub fn new() -> Bfq {
        Bfq::of(LINUX_6_18)
    }

    /// BFQ of Linux 4.19 LTS, with seeds 002 and 004.
    #[must_use]
    pub fn linux_4_19() -> Bfq {
        Bfq::of(LINUX_4_19)
    }

    fn of(version: Version) -> Bfq {
        let tunables = Tunables::new(version.inject, version.late_mechanisms);
        Bfq::with_room(version, tunables, Room::default())
    }

    fn with_room(version: Version, tunables: Tunables, room: Room) -> Bfq {
        let Room { requests, clients, groups, queues, rotational } = room;
        Bfq {
            version,
            tunables,
            contexts: Contexts::with_capacity(clients),
            saved: SavedStates::with_capacity(clients),
            groups: Groups::with_capacity(groups),
            queues: Queues::with_capacity(queues, requests),
            bypass: Bypass::with_capacity(requests),
            schedule: Schedule::new(queues, groups, &version),
            budgets: Budgets::new(tunables.max_budget),
            service: Service::default(),
            runs: Runs::default(),
            device: Device::new(rotational, version.top_rate, version.probing),
            bursts: Bursts::with_capacity(queues, version.bursts_begin_at_rest),
            cooperation: Cooperation::new(queues, groups, version.merges_not_on_queueing_flash),
            wakers: Wakers::with_capacity(queues),
            injection: Injection::with_capacity(queues),
        }
    }
}

impl Elevator for Bfq {
    fn traits(&self) -> Traits {
        Traits {
            merges_front: true,
            // A queue that the device is kept for competes with the others.
            charges_for_owners: true,
            inserts_at_head: true,
            drain_place: Place::Tail,
            ..Traits::mq(self.version.name)
        }
    }

    fn attach(&mut self, view: &mut QueueView) {
        let (requests, limits) = (view.request_slots(), *view.limits());
        let shared = limits.groups.saturating_mul(u32::try_from(SHARED).unwrap_or(0));
        let room = Room {
            requests,
            clients: limits.clients,
            groups: limits.groups,
            // The queue of a process, one that only its requests still refer to, the shared ones.
            queues: limits.clients.saturating_add(requests).saturating_add(shared),
            rotational: view.facts().rotational,
        };
        *self = Bfq::with_room(self.version, self.tunables, room);
        self.weigh_group(view, view.root().index());
    }

    fn would_admit(&self, view: &QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        let (sync, depth) = (is_sync(op, flags), view.nr_requests());
        let limit = tags::limit(depth, op, sync, self.schedule.symmetry.raised() > 0);
        let most = limit.unwrap_or(depth);
        let slot = self.contexts.slot(client, sync).filter(|_| self.tunables.tag_shares);
        let beyond =
            |queue| tags::is_beyond_share(&self.schedule, &self.queues, &self.groups, queue, most);
        if slot.is_some_and(beyond) {
            return Admission::AtMost(1);
        }
        limit.map_or(Admission::Normal, Admission::AtMost)
    }

    fn bio_comes(&mut self, view: &mut QueueView, bio: &Bio) {
        prefetch(self.contexts.len(), || self.touch(bio));
        let slot = self.contexts.slot(bio.client, true);
        if let (true, Some(queue)) = (bio.is_sync(), slot) {
            self.merge_if_due(view, bio.client, queue, bio.sector);
        }
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        let sync = bio.is_sync();
        let slot = self.contexts.slot(bio.client, sync);
        let alike = view.request(request).is_sync() || !sync;
        alike && is_settled(view, request) && slot == Some(home(view, request))
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        let alike = view.request(request).is_sync() == view.request(next).is_sync();
        alike && self.queues.lanes().contains(request) && !self.bypass.contains(next)
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        self.device.bind(view.request(request).epoch());
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        self.runs.ask();
        if !is_settled(view, request) {
            self.settle_request(view, request);
        }
        if position == Position::Head {
            self.bypass.push(request);
        } else {
            self.arrive(view, request);
        }
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Back || !self.queues.lanes().contains(request) {
            return;
        }
        let queue = home(view, request);
        self.queues.resort(view, queue, request);
        if self.reconsider_next(view, queue, request) {
            self.next_changed(view, queue);
        }
        self.update_position(view, queue);
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        // Its place by sector changes as after a front merge; its age does not.
        self.grown(view, request, side);
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let (queue, other) = (home(view, survivor), home(view, gone));
        if queue != other {
            return self.take_request(view, other, gone);
        }
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
            self.dispatch_bypassing(view, request);
            return Pick::Dispatch(request, Place::Tail);
        }
        let (always, in_driver) = (self.tunables.completion_runs, self.device.in_driver());
        if self.runs.is_asked(view, always, in_driver) {
            probe(None, ProbePoint::Asked { busy: self.schedule.symmetry.busy() });
            let one_at_a_time = self.tunables.strict_guarantees && in_driver > 0;
            let queue = if one_at_a_time { None } else { self.select(view) };
            if let Some(request) = queue.and_then(|queue| self.dispatch(view, queue)) {
                return Pick::Dispatch(request, Place::Tail);
            }
            probe(None, ProbePoint::Nobody);
            // With an empty device nothing changes except through events that cause a run anyway.
            let may_change = self.queues.waiting() > 0 && self.device.in_driver() > 0;
            self.runs.asked_in_vain(view, may_change && !always);
        }
        if self.queues.waiting() == 0 {
            Pick::Nothing
        } else if view.timer() == Nanos::MAX {
            Pick::Await
        } else {
            Pick::Idle
        }
    }

    fn started(&mut self, view: &mut QueueView, request: RequestId) {
        // Under legacy rules this is the only way a refused request comes back.
        if is_settled(view, request) && !is_in_flight(view, request) {
            self.dispatch_bypassing(view, request);
        }
    }

    fn requeued(&mut self, view: &mut QueueView, request: RequestId) {
        self.runs.ask();
        if self.device.is_own(view, request) {
            self.end_request(view, request);
        }
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, _: Nanos) {
        if self.device.is_own(view, request) {
            self.end_request(view, request);
        }
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        self.runs.ask();
        if !self.bypass.remove(request) {
            self.take_request(view, home(view, request), request);
        }
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        if !is_settled(view, request) {
            return;
        }
        if is_in_flight(view, request) {
            // Given up by force, and now another elevator's.
            self.end_request(view, request);
        }
        self.forget_request(view, request);
    }

    fn timer(&mut self, view: &mut QueueView) {
        if self.runs.ring(view.exact_now()) {
            self.idle_timer_rings(view);
        }
        self.runs.set_timer(view);
    }

    fn charge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        let (contexts, queues, schedule) = (&self.contexts, &self.queues, &self.schedule);
        let cost = cost.min(self.tunables.timeout(view.hz()));
        flush_share::due_for(view, contexts, queues, schedule, (client, cost), beside)
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        if let Some(request) = self.bypass.pop() {
            self.dispatch_bypassing(view, request);
            return Some(request);
        }
        while self.queues.waiting() > 0 {
            let queue = match self.service.queue() {
                Some(queue) => queue,
                None => self.begin_turn(view)?,
            };
            if let Some(request) = self.queues.at(queue).next {
                self.count_in_flight(view, queue, request, true);
                self.take_request(view, queue, request);
                return Some(request);
            }
            self.expire(view, queue, false, Expiry::NoMoreRequests);
        }
        None
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
        let (queues, served) = (&self.queues, self.service.queue());
        explain::explain_wait(view, queues, &self.schedule, served, home(view, request), out)
    }

    fn waiting(&self) -> u32 {
        self.queues.waiting() + self.bypass.len()
    }

    /// The time grows with everything there is.
    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let Bfq { contexts, groups, queues, schedule, service, device, .. } = self;
        let counted = audit::count_references(view, contexts, queues, groups, device);
        let served = service.queue();
        audit::audit_queues(view, queues, schedule, device.in_driver(), served, &counted)?;
        self.cooperation.audit(view, queues, self.tunables.position_update)?;
        self.bursts.audit(queues)?;
        self.wakers.audit(|queue| queues.is_live(queue))?;
        schedule.audit(|queue| queues.is_live(queue))?;
        schedule.audit_service(view.root().index(), served)?;
        self.runs.audit(view, served.is_some_and(|queue| queues.at(queue).wait_request))
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

impl Members for Bfq {
    fn client_attached(&mut self, _: &mut QueueView, client: ClientId) {
        *self.contexts.at_mut(client) = Context::default();
        *self.saved.of_mut(client) = None;
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        self.runs.ask();
        self.client_has_changed(view, client);
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        self.runs.ask();
        self.client_goes(view, client);
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        self.weigh_group(view, group.index());
    }

    fn group_removed(&mut self, view: &mut QueueView, group: GroupId) {
        self.dissolve_group(view, group.index());
    }
}

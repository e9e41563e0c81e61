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
//! Each concept has its own file: `entity`, `wf2q`, `schedule` (whose turn), `weights` (whether all
//! weights are equal), `turn` (budgets), `rate` (what the device can do), `select`, `arrive`,
//! `pattern` (seeks, think time), `idling`, `inject`, `waker`, `weight_raising`, `burst`,
//! `cooperate` (merging), `saved_state`, `stable_merge`, `runs` (when Linux calls BFQ), `groups`,
//! `tags`, `context` (what is kept per process), `queue`, `departed` (what is kept of a queue).
//! Differences between kernels are in `version`, settings in `tunables`. `probe_points` lets a test
//! listen to decisions.
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

mod arrive;
mod audit;
mod burst;
mod context;
mod cooperate;
mod departed;
mod entity;
mod explain;
mod flush_share;
mod groups;
mod idling;
mod inject;
mod pattern;
#[cfg(feature = "conformance")]
pub(crate) mod probe;
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature alone")
)]
mod probe_points;
mod queue;
mod rate;
mod runs;
mod saved_state;
mod schedule;
mod select;
mod stable_merge;
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

use alloc::vec::Vec;
use core::fmt;

use paternoster_core::attribute::{Attribute, AttributeError};
use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::event::Expiry;
use paternoster_core::list::{Links, List};
use paternoster_core::observe::queue_depth::QueueDepth;
use paternoster_core::pick::home::{home, is_in_flight, is_settled};
use paternoster_core::pick::lane::LaneSpace;
use paternoster_core::pick::positions::Positions;
use paternoster_core::pick::shared::SHARED;
use paternoster_core::slab::Slab;
use paternoster_core::time::Nanos;
use paternoster_core::{Bio, ClientId, Flags, GroupId, Op, QueueView, RequestId};

use burst::Burst;
use context::Context;
use groups::Group;
use inject::Measuring;
use probe_points::{ProbePoint, probe};
use queue::Queue;
use rate::PeakRate;
use runs::Runs;
use schedule::Schedule;
use tunables::{ATTRIBUTES, KNOBS, Tunables};
use turn::DEFAULT_MAX_BUDGET;
use version::{LINUX_4_19, LINUX_6_18, Version};

/// The BFQ scheduler.
#[derive(Debug)]
pub struct Bfq {
    version: Version,
    tunables: Tunables,

    contexts: Vec<Context>,
    queues: Slab<Queue>,
    groups: Vec<Group>,
    lanes: LaneSpace,
    schedule: Schedule,
    positions: Positions,
    /// Refused by the device, or due before all others.
    bypass: List,
    bypass_links: Links,
    burst: Burst,
    burst_links: Links,
    woken_links: Links,

    in_service: Option<u32>,
    /// When its turn began.
    turn_began: Nanos,
    /// When the device began to idle for it, and until when it will.
    idling_since: Nanos,
    idle_until: Option<Nanos>,
    runs: Runs,
    /// Running mean of turns, times 256: how many budgets were assigned.
    turns: u64,
    /// The largest budget: derived from the rate, or set by hand.
    max_budget: u64,

    /// Busy queues by class, and how many of all are raised.
    busy: [u32; 3],
    raised: u32,
    /// Groups with requests.
    pending_groups: u32,
    /// Requests that wait in queues.
    waiting: u32,
    /// Requests that the device has.
    in_driver: u32,
    /// The sector after the last request sent to the device, and after the last one of the queue in
    /// service.
    last_position: u64,
    in_service_position: u64,
    /// The queue whose request ended last; none if several processes share it.
    last_completed: Option<u32>,
    rate: PeakRate,
    depth: QueueDepth,
    measuring: Measuring,
    /// Its epoch, taken from its first request: of the requests in the device, only those with this
    /// epoch are its own.
    epoch: Option<u32>,
}

impl Default for Bfq {
    fn default() -> Bfq {
        Bfq::new()
    }
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
        Bfq {
            version,
            tunables: Tunables::new(version.inject, version.late_mechanisms),
            contexts: Vec::new(),
            queues: Slab::with_capacity(0),
            groups: Vec::new(),
            lanes: LaneSpace::with_capacity(0),
            schedule: Schedule::new(0, 0, &version),
            positions: Positions::new(0, 0),
            bypass: List::new(),
            bypass_links: Links::with_capacity(0),
            burst: Burst::default(),
            burst_links: Links::with_capacity(0),
            woken_links: Links::with_capacity(0),
            in_service: None,
            turn_began: Nanos::ZERO,
            idling_since: Nanos::ZERO,
            idle_until: None,
            runs: Runs::default(),
            turns: 0,
            max_budget: DEFAULT_MAX_BUDGET,
            busy: [0; 3],
            raised: 0,
            pending_groups: 0,
            waiting: 0,
            in_driver: 0,
            last_position: 0,
            in_service_position: 0,
            last_completed: None,
            rate: PeakRate::new(false, version.top_rate),
            depth: QueueDepth::default(),
            measuring: Measuring::default(),
            epoch: None,
        }
    }

    /// Whether a request in the device is this elevator's.
    fn is_own(&self, view: &QueueView, request: RequestId) -> bool {
        Some(view.request(request).epoch()) == self.epoch && is_in_flight(view, request)
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
        // The queue of a process, a queue that only its requests still refer to, the shared queues.
        let queues = limits.clients.saturating_add(requests).saturating_add(shared);
        *self = Bfq {
            tunables: self.tunables,
            contexts: (0..limits.clients).map(|_| Context::default()).collect(),
            queues: Slab::with_capacity(queues),
            groups: (0..limits.groups).map(|_| Group::default()).collect(),
            lanes: LaneSpace::with_capacity(requests),
            schedule: Schedule::new(queues, limits.groups, &self.version),
            positions: Positions::new(queues, limits.groups),
            bypass_links: Links::with_capacity(requests),
            burst_links: Links::with_capacity(queues),
            woken_links: Links::with_capacity(queues),
            rate: PeakRate::new(view.facts().rotational, self.version.top_rate),
            max_budget: match self.tunables.max_budget {
                0 => DEFAULT_MAX_BUDGET,
                by_hand => by_hand,
            },
            ..Bfq::of(self.version)
        };
        self.weigh_group(view, view.root().index());
    }

    fn would_admit(&self, view: &QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.admission(view, client, op, flags)
    }

    fn bio_comes(&mut self, view: &mut QueueView, bio: &Bio) {
        let slot = self.contexts[bio.client.index() as usize].slots[1];
        if let (true, Some(queue)) = (bio.is_sync(), slot) {
            self.merge_if_due(view, bio.client, queue, bio.sector);
        }
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        let sync = bio.is_sync();
        let slot = self.contexts[bio.client.index() as usize].slots[usize::from(sync)];
        let alike = view.request(request).is_sync() || !sync;
        alike && is_settled(view, request) && slot == Some(home(view, request))
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        let alike = view.request(request).is_sync() == view.request(next).is_sync();
        let waits = |request: RequestId| !self.bypass_links.contains(request.index());
        alike && self.lanes.contains(request) && waits(next)
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        self.epoch = Some(view.request(request).epoch());
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        self.ask();
        if !is_settled(view, request) {
            self.settle_request(view, request);
        }
        if position == Position::Head {
            self.bypass.push_front(&mut self.bypass_links, request.index());
        } else {
            self.arrive(view, request);
        }
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Back || !self.lanes.contains(request) {
            return;
        }
        let queue = home(view, request);
        self.queues.at_mut(queue).lane.resort(&mut self.lanes, view, request);
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
        let home = self.queues.at_mut(queue);
        if home.next == Some(gone) {
            home.next = Some(survivor);
        }
        home.lane.absorb(&mut self.lanes, view, survivor, gone);
        self.waiting -= 1;
        self.update_position(view, queue);
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.lanes.former(request),
            Side::Back => self.lanes.latter(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        if let Some(index) = self.bypass.pop_front(&mut self.bypass_links) {
            let request = RequestId::from_index(index);
            self.dispatch_bypassing(view, request);
            return Pick::Dispatch(request, Place::Tail);
        }
        if self.is_asked(view) {
            probe(None, ProbePoint::Asked { busy: self.busy() });
            let one_at_a_time = self.tunables.strict_guarantees && self.in_driver > 0;
            let queue = if one_at_a_time { None } else { self.select(view) };
            if let Some(request) = queue.and_then(|queue| self.dispatch(view, queue)) {
                return Pick::Dispatch(request, Place::Tail);
            }
            probe(None, ProbePoint::Nobody);
            self.asked_in_vain(view);
        }
        if self.waiting == 0 {
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
        self.ask();
        if self.is_own(view, request) {
            self.end_request(view, request);
        }
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, _: Nanos) {
        if self.is_own(view, request) {
            self.end_request(view, request);
        }
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        self.ask();
        if self.bypass_links.contains(request.index()) {
            self.bypass.remove(&mut self.bypass_links, request.index());
        } else {
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
        self.timer_rings(view);
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
        if let Some(index) = self.bypass.pop_front(&mut self.bypass_links) {
            let request = RequestId::from_index(index);
            self.dispatch_bypassing(view, request);
            return Some(request);
        }
        while self.waiting > 0 {
            let queue = match self.in_service {
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
        self.explain_wait(view, request, out)
    }

    fn waiting(&self) -> u32 {
        self.waiting + self.bypass.len()
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

impl Members for Bfq {
    fn client_attached(&mut self, _: &mut QueueView, client: ClientId) {
        self.contexts[client.index() as usize] = Context::default();
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        self.ask();
        self.client_has_changed(view, client);
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        self.ask();
        self.client_goes(view, client);
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        self.weigh_group(view, group.index());
    }

    fn group_removed(&mut self, view: &mut QueueView, group: GroupId) {
        self.dissolve_group(view, group.index());
    }
}

impl Knobs for Bfq {
    fn attributes(&self) -> &'static [Attribute] {
        &ATTRIBUTES
    }

    fn get(&self, view: &QueueView, place: usize) -> Option<u64> {
        KNOBS[place].get(self, view)
    }

    fn set(
        &mut self,
        view: &mut QueueView,
        place: usize,
        value: u64,
    ) -> Result<(), AttributeError> {
        self.ask();
        KNOBS[place].set(self, view, value)
    }

    fn show(&self, view: &QueueView, place: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        KNOBS[place].show(self, view, out)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFQ, budget fair queueing: each process has the device for a number of sectors that it asks for.
//!
//! Queues take turns. A turn lasts for a *budget* of sectors; whose turn it is follows from weights
//! and budgets by B-WF2Q+, which keeps everyone within one budget of his exact share, in a tree of
//! groups. Around that: who starts, or plays, weighs more for a while; queues of processes that
//! read one stream are merged; the device is kept for who needs it, and lent to others meanwhile.
//! In Linux since 4.12.
//!
//! ```text
//! arrival ─▶ whose queue? (merge, split) ─▶ what is it like? (pattern, raise, burst) ─▶ its place
//! select  ─▶ goes on, idles, injects, or ends its turn ─▶ next by virtual finish ─▶ its request
//! end     ─▶ rate, depth, think time ─▶ idle for its queue, or end the turn
//! ```
//!
//! The concepts have a file each: `entity`, `wf2q`, `schedule` (whose turn), `weights` (whether all
//! weigh the same), `turn` (budgets), `rate` (what the device can do), `select`, `arrive`,
//! `pattern` (seeks, think time), `idling`, `inject`, `waker`, `raise`, `burst`, `cooperate`
//! (merging), `saved`, `stable_merge`, `runs` (when it is asked), `groups`, `tags`,
//! `context` (what is kept of a process), `queue`, `abandoned` (what is kept of a queue). What
//! kernels do differently is in `version`, what can be set in `tunables`. `recall` lets a test hear
//! what is decided.
//!
//! # Invariants (see `audit.rs`)
//! I1  A queue with a waiting request is busy. A busy queue without one is in service, or was
//!     preempted while the device was kept for it.
//! I2  Counters equal what they count.
//! I3  The timer is set exactly while the device idles on purpose, or a run is due later.
//!
//! Differs: actuators (BFQ-170 to BFQ-172) are not modelled: a device is one.
//!
//! Source: `docs/rules/bfq.md`; seeds 002 and 004.

mod abandoned;
mod arrive;
mod audit;
mod burst;
mod context;
mod cooperate;
mod due;
mod entity;
mod explain;
mod groups;
mod idling;
mod inject;
mod pattern;
#[cfg(feature = "conformance")]
pub(crate) mod probe;
mod queue;
mod raise;
mod rate;
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature alone")
)]
mod recall;
mod runs;
mod saved;
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
mod weights;
mod wf2q;

use alloc::vec::Vec;
use core::fmt;

use crate::attribute::{Attribute, AttributeError};
use crate::client::{ClientId, GroupId};
use crate::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use crate::event::Expiry;
use crate::list::{Links, List};
use crate::observe::queue_depth::QueueDepth;
use crate::pick::home::{home, is_in_flight, is_settled};
use crate::pick::lane::LaneSpace;
use crate::pick::positions::Positions;
use crate::pick::shared::SHARED;
use crate::request::{Bio, Flags, Op, RequestId};
use crate::scene::Scene;
use crate::slab::Slab;
use crate::time::Nanos;

use burst::Burst;
use context::Context;
use groups::Group;
use inject::Measuring;
use queue::Queue;
use rate::PeakRate;
use recall::{Said, say};
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
    /// Refused by the device, or to go before all others.
    bypass: List,
    bypass_links: Links,
    burst: Burst,
    burst_links: Links,
    woken_links: Links,

    in_service: Option<u32>,
    /// When its turn began.
    turn_began: Nanos,
    /// When the device began to idle for it, and until when it does.
    idling_since: Nanos,
    idle_until: Option<Nanos>,
    runs: Runs,
    /// Running mean of turns, times 256: how many budgets were assigned.
    turns: u64,
    /// The largest budget, as the rate says or as it was set.
    max_budget: u64,

    /// Busy queues by class, and the raised ones among all.
    busy: [u32; 3],
    raised: u32,
    /// Groups with requests.
    pending_groups: u32,
    /// Requests that wait in queues.
    waiting: u32,
    /// Requests that the device has.
    in_driver: u32,
    /// The sector behind the last request that went to the device, and behind the last one of the
    /// queue in service.
    last_position: u64,
    in_service_position: u64,
    /// Whose request ended last, if it is nobody's shared one.
    last_completed: Option<u32>,
    rate: PeakRate,
    depth: QueueDepth,
    measuring: Measuring,
    /// Its epoch, from the first request that it was given: of those in the device only those that
    /// carry it are its own.
    epoch: Option<u32>,
}

impl Default for Bfq {
    fn default() -> Bfq {
        Bfq::new()
    }
}

impl Bfq {
    /// BFQ of Linux 6.18, with the kernel's defaults, without a queue.
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
    fn is_own(&self, scene: &Scene, request: RequestId) -> bool {
        Some(scene.requests[request].epoch) == self.epoch && is_in_flight(scene, request)
    }
}

impl Elevator for Bfq {
    fn traits(&self) -> Traits {
        Traits {
            merges_front: true,
            // A queue that is waited for stands among the others.
            charges_for_owners: true,
            inserts_at_head: true,
            drain_place: Place::Tail,
            ..Traits::mq(self.version.name)
        }
    }

    fn attach(&mut self, scene: &mut Scene) {
        let (requests, limits) = (scene.request_slots(), *scene.limits());
        let shared = limits.groups.saturating_mul(u32::try_from(SHARED).unwrap_or(0));
        // A process's queue, one that only its requests refer to, the shared ones.
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
            rate: PeakRate::new(scene.facts().rotational, self.version.top_rate),
            max_budget: match self.tunables.max_budget {
                0 => DEFAULT_MAX_BUDGET,
                by_hand => by_hand,
            },
            ..Bfq::of(self.version)
        };
        self.weigh_group(scene, scene.root().index());
    }

    fn would_admit(&self, scene: &Scene, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.admission(scene, client, op, flags)
    }

    fn bio_comes(&mut self, scene: &mut Scene, bio: &Bio) {
        let slot = self.contexts[bio.client.index() as usize].slots[1];
        if let (true, Some(queue)) = (bio.is_sync(), slot) {
            self.merge_if_due(scene, bio.client, queue, bio.sector);
        }
    }

    fn may_merge(&self, scene: &Scene, request: RequestId, bio: &Bio) -> bool {
        let sync = bio.is_sync();
        let slot = self.contexts[bio.client.index() as usize].slots[usize::from(sync)];
        let alike = scene.requests[request].is_sync() || !sync;
        alike && is_settled(scene, request) && slot == Some(home(scene, request))
    }

    fn may_absorb(&self, scene: &Scene, request: RequestId, next: RequestId) -> bool {
        let alike = scene.requests[request].is_sync() == scene.requests[next].is_sync();
        let waits = |request: RequestId| !self.bypass_links.contains(request.index());
        alike && self.lanes.contains(request) && waits(next)
    }

    fn bind(&mut self, scene: &mut Scene, request: RequestId) {
        self.epoch = Some(scene.requests[request].epoch);
    }

    fn insert(&mut self, scene: &mut Scene, request: RequestId, position: Position) {
        self.ask();
        if !is_settled(scene, request) {
            self.settle_request(scene, request);
        }
        if position == Position::Head {
            self.bypass.push_front(&mut self.bypass_links, request.index());
        } else {
            self.arrive(scene, request);
        }
    }

    fn grown(&mut self, scene: &mut Scene, request: RequestId, side: Side) {
        if side == Side::Back || !self.lanes.contains(request) {
            return;
        }
        let queue = home(scene, request);
        self.queues.at_mut(queue).lane.resort(&mut self.lanes, scene, request);
        if self.reconsider_next(scene, queue, request) {
            self.next_changed(scene, queue);
        }
        self.update_position(scene, queue);
    }

    fn shrunk(&mut self, scene: &mut Scene, request: RequestId, side: Side) {
        // Its place by sector changes as after a front merge; its age does not.
        self.grown(scene, request, side);
    }

    fn absorbed(&mut self, scene: &mut Scene, survivor: RequestId, gone: RequestId) {
        let (queue, other) = (home(scene, survivor), home(scene, gone));
        if queue != other {
            return self.take_request(scene, other, gone);
        }
        let home = self.queues.at_mut(queue);
        if home.next == Some(gone) {
            home.next = Some(survivor);
        }
        home.lane.absorb(&mut self.lanes, scene, survivor, gone);
        self.waiting -= 1;
        self.update_position(scene, queue);
    }

    fn neighbour(&self, _: &Scene, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.lanes.former(request),
            Side::Back => self.lanes.latter(request),
        }
    }

    fn pick(&mut self, scene: &mut Scene) -> Pick {
        if let Some(index) = self.bypass.pop_front(&mut self.bypass_links) {
            let request = RequestId::from_index(index);
            self.dispatch_bypassing(scene, request);
            return Pick::Dispatch(request, Place::Tail);
        }
        if self.is_asked(scene) {
            say(None, Said::Asked { busy: self.busy() });
            let one_at_a_time = self.tunables.strict_guarantees && self.in_driver > 0;
            let queue = if one_at_a_time { None } else { self.select(scene) };
            if let Some(request) = queue.and_then(|queue| self.dispatch(scene, queue)) {
                return Pick::Dispatch(request, Place::Tail);
            }
            say(None, Said::Nobody);
            self.asked_in_vain(scene);
        }
        if self.waiting == 0 {
            Pick::Nothing
        } else if scene.timer() == Nanos::MAX {
            Pick::Await
        } else {
            Pick::Idle
        }
    }

    fn started(&mut self, scene: &mut Scene, request: RequestId) {
        // Under legacy rules one that was refused comes again by this alone.
        if is_settled(scene, request) && !is_in_flight(scene, request) {
            self.dispatch_bypassing(scene, request);
        }
    }

    fn requeued(&mut self, scene: &mut Scene, request: RequestId) {
        self.ask();
        if self.is_own(scene, request) {
            self.end_request(scene, request);
        }
    }

    fn completed(&mut self, scene: &mut Scene, request: RequestId, _: Nanos) {
        if self.is_own(scene, request) {
            self.end_request(scene, request);
        }
    }

    fn removed(&mut self, scene: &mut Scene, request: RequestId) {
        self.ask();
        if self.bypass_links.contains(request.index()) {
            self.bypass.remove(&mut self.bypass_links, request.index());
        } else {
            self.take_request(scene, home(scene, request), request);
        }
    }

    fn released(&mut self, scene: &mut Scene, request: RequestId) {
        if !is_settled(scene, request) {
            return;
        }
        if is_in_flight(scene, request) {
            // Given up by force, and now another elevator's.
            self.end_request(scene, request);
        }
        self.forget_request(scene, request);
    }

    fn timer(&mut self, scene: &mut Scene) {
        self.timer_rings(scene);
    }

    fn charge(
        &mut self,
        scene: &mut Scene,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        self.due_for(scene, client, cost, beside)
    }

    fn drain(&mut self, scene: &mut Scene) -> Option<RequestId> {
        if let Some(index) = self.bypass.pop_front(&mut self.bypass_links) {
            let request = RequestId::from_index(index);
            self.dispatch_bypassing(scene, request);
            return Some(request);
        }
        while self.waiting > 0 {
            let queue = match self.in_service {
                Some(queue) => queue,
                None => self.begin_turn(scene)?,
            };
            if let Some(request) = self.queues.at(queue).next {
                self.count_in_flight(scene, queue, request, true);
                self.take_request(scene, queue, request);
                return Some(request);
            }
            self.expire(scene, queue, false, Expiry::NoMoreRequests);
        }
        None
    }

    fn explain(&self, scene: &Scene, request: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        self.explain_wait(scene, request, out)
    }

    fn waiting(&self) -> u32 {
        self.waiting + self.bypass.len()
    }

    fn audit(&self, scene: &Scene) -> Result<(), Fault> {
        self.audit_all(scene)
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
    fn client_attached(&mut self, _: &mut Scene, client: ClientId) {
        self.contexts[client.index() as usize] = Context::default();
    }

    fn client_changed(&mut self, scene: &mut Scene, client: ClientId) {
        self.ask();
        self.client_has_changed(scene, client);
    }

    fn client_detached(&mut self, scene: &mut Scene, client: ClientId) {
        self.ask();
        self.client_goes(scene, client);
    }

    fn group_changed(&mut self, scene: &mut Scene, group: GroupId) {
        self.weigh_group(scene, group.index());
    }

    fn group_removed(&mut self, scene: &mut Scene, group: GroupId) {
        self.dissolve_group(scene, group.index());
    }
}

impl Knobs for Bfq {
    fn attributes(&self) -> &'static [Attribute] {
        &ATTRIBUTES
    }

    fn get(&self, scene: &Scene, place: usize) -> Option<u64> {
        KNOBS[place].get(self, scene)
    }

    fn set(&mut self, scene: &mut Scene, place: usize, value: u64) -> Result<(), AttributeError> {
        self.ask();
        KNOBS[place].set(self, scene, value)
    }

    fn show(&self, scene: &Scene, place: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        KNOBS[place].show(self, scene, out)
    }
}

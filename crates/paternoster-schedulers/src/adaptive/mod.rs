// SPDX-License-Identifier: MIT OR Apache-2.0
//! paternoster: one elevator for all devices, by device time, kept slots and seats.
//!
//! Each client pays for the device time of its requests, and the client that has paid least for its
//! weight goes next (`account`). Three things are added, each measured on the device itself:
//!
//! * A slot of the device is *kept* for a client that has had less and is about to ask again
//!   (`pattern`, `choose`). On a disk without a queue that is idling; on an SSD it is one slot of
//!   32.
//! * *Seats* limit how many streams are served at a time, where that makes the device faster
//!   (`seats`). Trials show whether, and how many (`learn`, `throughput_gain`). Clients that read
//!   one stream between them share a seat (`cooperate`), and so do the random clients of a group
//!   (`sweep_group`).
//! * Where the device takes everything that all clients have, a *gate* holds a client that is ahead
//!   (`gate`).
//!
//! ```text
//! arrival ─▶ access pattern: expected? a stream? ─▶ account: waits, from the others' floor on
//! pick    ─▶ seats: whose turn ─▶ account: least served ─▶ slot kept for another? ─▶ request
//! end   ─▶ account: the real price ─▶ access pattern: expected again until … ─▶ learn: epoch over?
//! ```
//!
//! Each concept is a part with a file of its own, to be read and tested alone. `account` knows what
//! each client has had, `clients` what waits of it, with its `access_pattern`, `job` where each
//! request is. `pricing` (with `costs`, `even`, `behind`, `drains`, `told`) says what a request is
//! charged, `device_time` what the device did. `choose` says who goes next and for whom a slot is
//! kept, on `credit`; `depth`, `gate` (with `least_time`) and `ramp` whether it may. `seats`, held
//! by `parties` and paid for by `seat_time`, limit streams; `cooperate` (with `shared_stream`) and
//! `sweep_group` find those that share one, and `kinds` sorts clients by that. `learn` (with
//! `arms`, `workload_mix` and `throughput_gain`) tries numbers of seats. `watchdog` judges all
//! that, with the `pause` of each wait; `explain` and `audit` look on. Settings are in `tunables`
//! and `knobs`.
//!
//! [`Paternoster`] is the wiring: parts answer, and it acts, in `arrive` and `members` (the first
//! line above) and in `turn` (the others).
//!
//! The requests of one client go in sector order, from the last one on, and by age when they are
//! too old.
//!
//! # Invariants (see `audit.rs`)
//! I1  Each waiting request is in its client's lane, or among those that go ahead of all others.
//! I2  Counters equal what they count; what was charged is what was served plus what is estimated.
//! I3  The timer is set exactly while the device is kept for an expected client, or the gate holds
//!     a client.
//!
//! Source: own; its rules are `docs/rules/adaptive.md`.

mod access_pattern;
mod account;
mod arms;
mod arrive;
mod audit;
mod behind;
mod choose;
mod clients;
mod cooperate;
mod costs;
mod credit;
mod depth;
mod device_time;
mod drains;
mod even;
mod explain;
mod gate;
mod job;
mod kinds;
mod knobs;
mod lap;
mod learn;
mod least_time;
mod members;
mod overdue;
mod parties;
mod pause;
mod pricing;
mod ramp;
mod seat_time;
mod seats;
mod shared_changes;
mod shared_stream;
mod sweep_group;
#[cfg(test)]
mod tests;
mod throughput_gain;
mod told;
mod tunables;
mod turn;
mod watchdog;
mod workload_mix;

use core::fmt;

use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::event::Note;
use paternoster_core::ratio::ONE;
use paternoster_core::time::Nanos;
use paternoster_core::{self as library, Bio, Flags, Op, RequestId};
use paternoster_core::{ClientId, QueueView};

use crate::prefetch::prefetch;
use access_pattern::blend;
use account::Accounts;
use clients::Clients;
use cooperate::Cooperation;
use credit::Credit;
use depth::Depth;
use device_time::DeviceTime;
use gate::Gate;
use job::{Job, Jobs, Stage};
use lap::Lap;
use learn::{Learn, Phase};
use overdue::Overdue;
use parties::Holder;
use pricing::Pricing;
use ramp::Ramp;
use seat_time::SeatTime;
use seats::Seats;
use sweep_group::SweepGroups;
use throughput_gain::Did;
use tunables::Tunables;
use watchdog::Watchdog;
use workload_mix::Present;

/// A flush charges its owner at most as much as a long turn.
const FLUSH_MOST: Nanos = Nanos::from_millis(125);

/// The paternoster scheduler.
#[derive(Debug)]
pub struct Paternoster {
    tunables: Tunables,
    accounts: Accounts,
    clients: Clients,
    jobs: Jobs,
    /// Clients that were active at the last count or since.
    present: Present,
    /// The commands that the device takes, and how many of them are used.
    depth: Depth,
    /// What is owed to clients that have nothing waiting.
    gate: Gate,
    ramp: Ramp,
    /// What requests cost.
    pricing: Pricing,
    /// What may be idled away.
    credit: Credit,
    device_time: DeviceTime,
    seats: Seats,
    seat_time: SeatTime,
    learn: Learn,
    watchdog: Watchdog,
    /// Which clients wait for longer than they are used to.
    overdue: Overdue,
    /// Which clients go in step.
    cooperation: Cooperation,
    /// The clients that go in sector order together, where there are seats.
    sweep_groups: SweepGroups,
}

impl Default for Paternoster {
    fn default() -> Paternoster {
        Paternoster::new()
    }
}

/// How much room a view asks for, and for which device.
#[derive(Debug, Clone, Copy)]
struct Room {
    requests: u32,
    clients: u32,
    groups: u32,
    /// The number of the group that all others are in.
    root: u32,
    depth: u32,
    rotational: bool,
    capacity: u64,
}

impl Paternoster {
    /// A paternoster without a queue.
    #[must_use]
    pub fn new() -> Paternoster {
        let none = Room {
            requests: 0,
            clients: 0,
            groups: 0,
            root: 0,
            depth: 1,
            rotational: false,
            capacity: 0,
        };
        Paternoster::with_room(Tunables::default(), none)
    }

    fn with_room(tunables: Tunables, room: Room) -> Paternoster {
        let Room { requests, clients, groups, root, depth, rotational, capacity } = room;
        let mut pricing = Pricing::new(clients, depth, rotational, capacity);
        pricing.tell(None, tunables.prices);
        Paternoster {
            tunables,
            accounts: Accounts::new(clients, groups, root),
            clients: Clients::with_capacity(clients, requests),
            jobs: Jobs::with_capacity(requests),
            present: Present::new(clients),
            depth: Depth::new(depth),
            gate: Gate::new(groups, rotational),
            ramp: Ramp::new(),
            pricing,
            credit: Credit::default(),
            device_time: DeviceTime::default(),
            seats: Seats::with_lap(Lap::new(clients + groups)),
            seat_time: SeatTime::default(),
            learn: Learn::default(),
            watchdog: Watchdog::default(),
            overdue: Overdue::new(clients),
            cooperation: Cooperation::new(clients, groups),
            sweep_groups: SweepGroups::new(groups, requests),
        }
    }

    /// With few requests left: a client that is refused, or finds no free request, will sleep for
    /// one. It counts among those that share the requests, even if it holds none.
    #[inline(never)]
    fn admit_to_few(&mut self, view: &QueueView, client: ClientId) -> Admission {
        let admission = self.admission(view, client);
        if admission != Admission::Normal || self.accounts.holds_all(view.nr_requests()) {
            if !self.accounts.at(client.index()).asks {
                let (client, now) = (client.index(), view.exact_now());
                self.overdue.sleeps(client, now);
                let busy = self.accounts.is_busy(client);
                self.clients.falls_asleep(client, now, busy);
            }
            self.accounts.ask(client.index());
        }
        admission
    }

    /// A client has a request that it slept for.
    #[cold]
    #[inline(never)]
    fn has_slept(&mut self, view: &QueueView, client: u32) {
        self.accounts.has_slept_for_one(client, view.exact_now());
        self.clients.at_mut(client).pattern.slept();
    }

    /// No client may hold more than its share of the requests: otherwise one that comes later would
    /// wait for a request, whatever its weight.
    fn admission(&self, view: &QueueView, client: ClientId) -> Admission {
        let (most, now) = (view.nr_requests(), view.exact_now());
        match self.accounts.refusal(client.index(), most, now) {
            Some(refusal) if self.tunables.tag_shares && refusal.is_outright => Admission::Later,
            Some(_) if self.tunables.tag_shares => Admission::AtMost(1),
            _ => Admission::Normal,
        }
    }
}

impl Elevator for Paternoster {
    fn traits(&self) -> Traits {
        Traits {
            admits_in_turn: true,
            merges_front: true,
            inserts_at_head: true,
            drain_place: Place::Tail,
            ..Traits::mq("paternoster")
        }
    }

    fn attach(&mut self, view: &mut QueueView) {
        let (limits, facts) = (*view.limits(), view.facts());
        let room = Room {
            requests: view.request_slots(),
            clients: limits.clients,
            groups: limits.groups,
            root: view.root().index(),
            depth: facts.depth,
            rotational: facts.rotational,
            capacity: facts.capacity,
        };
        #[cfg(test)]
        let sabotage = self.watchdog.sabotage;
        *self = Paternoster::with_room(self.tunables, room);
        #[cfg(test)]
        {
            self.watchdog = Watchdog::to_bark_at(sabotage);
        }
        let takes = view.facts().depth;
        self.depth.limit(takes, self.tunables.depth_max, view.exact_now());
    }

    fn would_admit(&self, view: &QueueView, client: ClientId, _: Op, _: Flags) -> Admission {
        self.admission(view, client)
    }

    fn admits_from(&self, view: &QueueView, client: ClientId) -> Nanos {
        let (most, now) = (view.nr_requests(), view.exact_now());
        let refusal = self.accounts.refusal(client.index(), most, now);
        refusal.map_or(Nanos::MAX, |refusal| refusal.until)
    }

    /// While enough requests are left no client is refused.
    fn admit(&mut self, view: &mut QueueView, client: ClientId, _: Op, _: Flags) -> Admission {
        if self.accounts.shares_requests(view.nr_requests()) {
            return self.admit_to_few(view, client);
        }
        Admission::Normal
    }

    fn bio_comes(&mut self, _: &mut QueueView, bio: &Bio) {
        let client = bio.client.index();
        prefetch(self.clients.all().len(), || {
            self.clients.touch(client) + self.accounts.touch(client)
        });
    }

    /// By class and account, as for dispatch: where requests are few, a client that gets one is
    /// served next. Of one class one that has slept for long goes first (S10).
    fn wakes_rather(&self, view: &QueueView, one: ClientId, other: ClientId) -> bool {
        let (one, other, now) = (one.index(), other.index(), view.exact_now());
        let [late, other_late] = [one, other].map(|client| self.overdue.has_slept(client, now));
        if late != other_late && self.accounts.are_of_one_class(one, other) {
            return late;
        }
        self.accounts.goes_before(one, other, now)
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        let alike = view.request(request).is_sync() || !bio.is_sync();
        // A request that is still in its client's plug has not been inserted yet.
        let grows =
            self.jobs.waits(request) || view.request(request).stage() == library::Stage::Plugged;
        alike && grows && self.jobs.client_of(request) == bio.client.index()
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        let (one, other) = (view.request(request), view.request(next));
        let plain = self.jobs.at(next).stage != Stage::Bypassing;
        let same = self.jobs.client_of(request) == other.client().index();
        plain && same && self.jobs.waits(request) && one.is_sync() == other.is_sync()
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        let client = view.request(request).client().index();
        self.jobs.bind(request, client);
        if self.accounts.get(client) {
            self.has_slept(view, client);
        }
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        let client = self.jobs.client_of(request);
        if position == Position::Head {
            self.jobs.push_first(request);
        } else {
            self.arrive(view, request, client);
        }
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if !self.jobs.waits(request) {
            return;
        }
        let client = self.jobs.client_of(request);
        self.accounts.ask_no_more(client);
        match side {
            Side::Back => {
                let end = view.request(request).end();
                self.clients.at_mut(client).pattern.grown(end);
                self.cooperation.move_on(client, self.accounts.group_of(client), end);
            }
            Side::Front => {
                self.clients.resort(view, client, request);
                self.sweep_groups.resort(view, &self.accounts, client, request);
            }
        }
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Front && self.jobs.waits(request) {
            let client = self.jobs.client_of(request);
            self.clients.resort(view, client, request);
            self.sweep_groups.resort(view, &self.accounts, client, request);
        }
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let client = self.jobs.client_of(gone);
        let both = self.jobs.waits(survivor) && self.jobs.waits(gone);
        if !both || client != self.jobs.client_of(survivor) {
            return self.take(gone);
        }
        self.clients.absorb(view, client, survivor, gone);
        let kind = self.clients.at(client).kind();
        if self.seats.most.is_some() {
            self.sweep_groups.remove(self.accounts.group_of(client), gone);
        }
        self.accounts.leave(client, kind);
        self.jobs.leave(gone);
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.clients.lanes().former(request),
            Side::Back => self.clients.lanes().latter(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        self.choose(view)
    }

    fn started(&mut self, view: &mut QueueView, request: RequestId) {
        // Under legacy rules this call alone tells that a refused request comes again.
        if self.jobs.at(request).stage == Stage::Elsewhere {
            self.fly_past(view, request);
        }
    }

    fn requeued(&mut self, view: &mut QueueView, request: RequestId) {
        let Some(job) = self.jobs.end(request) else { return };
        self.drop_job(&job, view.exact_now());
        let (accounts, kind) = (&self.accounts, usize::from(job.kind));
        let holder = Holder::of(accounts, &self.cooperation, job.client, kind);
        self.seats.ended(holder, false, -job.estimate, (0, 0));
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, served: Nanos) {
        let Some(job) = self.jobs.end(request) else { return };
        let Job { is_priced, estimate, sort, client, .. } = job;
        let now = view.exact_now();
        // The charge that was set at dispatch, if that was final (C5, C7); otherwise the time that
        // it took, or that its kind takes (C6), or its told cost (C7).
        let charge = if is_priced {
            estimate
        } else {
            let times = (served.0, self.device_time.busy_until(now));
            let took = self.pricing.charge_at_end(view, request, (client, sort), times);
            i64::try_from(took).unwrap_or(i64::MAX)
        };
        let took = charge.unsigned_abs();
        #[cfg(test)]
        let charge = self.watchdog.sabotaged_charge(client, charge);
        let ended = self.end_job(&job, charge, now);
        let gone = view.request(request);
        let (latency, sectors) = ((now - gone.issued()).0, gone.sectors());
        self.pricing.ended(job.sort, served.0);
        if self.seats.most.is_none() {
            self.seats.cost = blend(self.seats.cost, served.0, 4);
            self.seats.latency = blend(self.seats.latency, latency, 4);
        } else {
            let time = self.pricing.turn_time(gone.op(), served.0, took);
            let time = i64::try_from(time).unwrap_or(i64::MAX);
            let off = if is_priced { 0 } else { time - job.estimate };
            let did = (served.0, u64::from(sectors));
            let (accounts, kind) = (&self.accounts, usize::from(job.kind));
            let holder = Holder::of(accounts, &self.cooperation, client, kind);
            self.seats.ended(holder, job.first, off, did);
        }
        self.credit.earn(served.0, self.tunables.strictness);
        let least = self.gate.ended(job.sort, gone, latency);
        if self.pricing.costs.ended(gone, job.sort, now, [latency, least]) {
            let is_free = self.seats.most.is_none()
                && self.learn.phase == Phase::Rest
                && !self.watchdog.has_fallen();
            self.pricing.costs.end(now, is_free);
        }
        // R1: the holder of the only seat is waited for as long as a change would cost.
        let has_seats = self.seats.most.is_some();
        let patience = |leader| self.seats.patience_for(leader);
        let limit = if has_seats { patience(self.cooperation.leader_of(client)) } else { 0 };
        let latency = [latency, least];
        let (until, missed) = self.clients.ended(client, now, latency, served.0, limit);
        self.watchdog.opened(until);
        self.accounts.expect(client, until);
        if let Some(is_missed) = missed {
            self.clients.miss(client, is_missed);
        }
        if self.watchdog.has_fallen() {
            if self.watchdog.is_over(now) && self.watchdog.rearm(now) {
                view.note(Note::TriesAgain);
            }
        } else if self.watchdog.ended(&self.accounts, &self.clients, &self.seats, &ended, took) {
            let (strictness, top) = (self.tunables.strictness, self.depth.top());
            if let Some(why) = self.watchdog.judge(&self.accounts, strictness, top) {
                self.fall_back(view, Some(why));
            }
        }
        if !self.watchdog.has_fallen() {
            let did = Did { sort: job.sort, sectors, took: served.0 };
            self.learn.ended(job.epoch, did);
            if self.learn.is_due(&self.seats, self.pricing.mean(), now) {
                self.learn_on(view);
            }
            let is_free = || self.seats.most.is_none() && self.learn.phase == Phase::Rest;
            self.depth.ended(now, &self.tunables, &self.accounts, did, is_free);
        }
    }

    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.take(request);
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        if let Some(job) = self.jobs.end(request) {
            // It ends without a completion.
            self.drop_job(&job, view.exact_now());
        }
        if let Some(client) = self.jobs.release(request) {
            self.accounts.hold(client, -1);
        }
    }

    /// With a share of f the others get `cost * (1 - f) / f`; shares multiply on the way up the
    /// tree, among busy siblings.
    fn charge(
        &mut self,
        _: &mut QueueView,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        self.pricing.costs.flushed();
        let mut whole = ONE;
        let mut at = client.index();
        while let Some((own, all, parent)) = self.accounts.among_busy(at) {
            whole = whole.times(all, own);
            at = parent;
        }
        if let (true, Some(other)) = (whole == ONE, beside) {
            let (own, other) = self.accounts.weights(client.index(), other.index());
            whole = whole.times(own + other, own);
        }
        whole.without_one().of(cost.min(FLUSH_MOST))
    }

    /// C9: on a disk the account of the client is charged, and its turn.
    fn charge_at_once(&mut self, view: &mut QueueView, client: ClientId, cost: Nanos) -> bool {
        if !view.facts().rotational {
            return false;
        }
        self.pricing.costs.flushed();
        let (client, now) = (client.index(), view.exact_now());
        let cost = self.pricing.drains.drained(client, cost.0, now);
        self.pricing.drains.charged += cost;
        self.charge_beside_requests(client, cost);
        true
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        if let Some(request) = self.jobs.pop_first() {
            return Some(request);
        }
        let now = view.exact_now();
        let client = self.accounts.first_of_all(now)?;
        let request = self.clients.next_of(view, client, now);
        self.take(request);
        Some(request)
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        self.obstacle(view, request).write(out)
    }

    fn waiting(&self) -> u32 {
        self.accounts.waiting() + self.jobs.bypassing()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let Paternoster { accounts, clients, jobs, present, .. } = self;
        let (departed, served) = (self.device_time.departed(), self.device_time.served());
        let besides = self.seat_time.time + self.seats.shared.charged + self.pricing.drains.charged;
        let sums = (departed, served + besides);
        audit::audit_clients(view, accounts, clients, jobs, present, sums)?;
        let has_seats = self.seats.most.is_some();
        if self.watchdog.has_fallen() && (has_seats || self.credit.keeps()) {
            return Err("watchdog I2: a rule is in force although it fell back".into());
        }
        jobs.check()?;
        clients.check()?;
        self.seats.check()?;
        self.cooperation.check(accounts, clients)?;
        self.sweep_groups.audit(view, clients, has_seats)?;
        accounts.check()
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

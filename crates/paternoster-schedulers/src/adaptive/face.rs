// SPDX-License-Identifier: MIT OR Apache-2.0
//! Face: the calls between the queue and the elevator.
//!
//! Each call is passed to the component that handles it. The trait ([`paternoster_core::elevator`])
//! says what a call means, and the files named here say what is done.
//!
//! ```text
//! insert, grown, shrunk, absorbed     waiting requests  job, lane, account
//! pick                                the next request  choose
//! started, requeued, completed        costs             account, access pattern, seats, learn
//! client_*, group_*                   the tree          account
//! ```
//!
//! For invariants and source see `mod.rs`.

use core::fmt;
use core::hint::black_box;

use super::access_pattern::blend;
use super::account::Accounts;
use super::cooperate::Cooperation;
use super::costs::Costs;
use super::depth::Depth;
use super::even::Even;
use super::gate::Gate;
use super::job::{Job, Stage};
use super::shared_stream::SharedStreams;
use super::sweep_group::SweepGroups;
use super::tunables::{ATTRIBUTES, KNOBS};
use super::workload_mix::Present;
use super::{Client, FEW, FLUSH_MOST, Paternoster};
use paternoster_core::attribute::{Attribute, AttributeError};
use paternoster_core::elevator::{
    Admission, Elevator, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::list::Links;
use paternoster_core::pick::lane::LaneSpace;
use paternoster_core::pick::positions::Positions;
use paternoster_core::ratio::ONE;
use paternoster_core::time::Nanos;
use paternoster_core::{self as library, Bio, Flags, Op, RequestId};
use paternoster_core::{ClientId, GroupId, QueueView};

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
        let (requests, limits) = (view.request_slots(), *view.limits());
        *self = Paternoster {
            tunables: self.tunables,
            accounts: Accounts::new(limits.clients, limits.groups, view.root().index()),
            clients: (0..limits.clients).map(|_| Client::default()).collect(),
            jobs: (0..requests).map(|_| Job::default()).collect(),
            lanes: LaneSpace::with_capacity(requests),
            bypass_links: Links::with_capacity(requests),
            expected_links: Links::with_capacity(limits.clients),
            interactive_links: Links::with_capacity(limits.clients),
            present: Present::new(limits.clients),
            depth: Depth::new(view.facts().depth),
            gate: Gate::new(limits.groups),
            costs: Costs::new(view.facts().depth, view.facts().rotational),
            even: Even::new(limits.clients, view.facts().rotational),
            shared_streams: SharedStreams::new(limits.clients),
            positions: Positions::new(limits.clients, limits.groups),
            cooperation: (0..limits.clients).map(|_| Cooperation::default()).collect(),
            sweep_groups: SweepGroups::new(limits.groups, requests),
            #[cfg(test)]
            sabotage: self.sabotage,
            ..Paternoster::new()
        };
        self.limit_depth(view);
    }

    /// No client may hold more than its share of the requests: otherwise one that comes later would
    /// wait for a request, whatever its weight.
    fn would_admit(&self, view: &QueueView, client: ClientId, _: Op, _: Flags) -> Admission {
        let most = view.nr_requests();
        if self.tunables.tag_shares && self.accounts.has_its_share(client.index(), most) {
            Admission::AtMost(1)
        } else {
            Admission::Normal
        }
    }

    /// A client that is refused, or finds no free request, will sleep for one: it counts among
    /// those that share the requests, even if it holds none.
    fn admit(&mut self, view: &mut QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        let admission = self.would_admit(view, client, op, flags);
        if admission != Admission::Normal || self.accounts.holds_all(view.nr_requests()) {
            self.accounts.ask(client.index());
        }
        admission
    }

    /// With thousands of clients, none of this client's data is in the processor's cache.
    /// Everything that will be needed is prefetched together, while the bio is examined, not piece
    /// by piece.
    fn bio_comes(&mut self, _: &mut QueueView, bio: &Bio) {
        if self.clients.len() < FEW {
            return;
        }
        let client = bio.client.index();
        let own = &self.clients[client as usize];
        let listed = self.interactive_links.contains(client);
        // Both cache lines of a client: one has its access patterns, the other its lane.
        let known = own.pattern.think + u64::from(own.lane.len()) + u64::from(listed);
        black_box(known + self.accounts.touch(client));
    }

    /// By account, as for dispatch: where requests are few, a client that gets one is served next.
    /// Between different classes the one that has slept longer goes first, so that the lower class
    /// gets its turn too.
    fn wakes_rather(&self, one: ClientId, other: ClientId) -> bool {
        self.accounts.has_had_less(one.index(), other.index())
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        let alike = view.request(request).is_sync() || !bio.is_sync();
        // A request that is still in its client's plug has not been inserted yet.
        let grows = self.waits(request) || view.request(request).stage() == library::Stage::Plugged;
        alike && grows && self.client_of(request) == bio.client.index()
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        let (one, other) = (view.request(request), view.request(next));
        let plain = self.jobs[next.index() as usize].stage != Stage::Bypassing;
        let same = self.client_of(request) == other.client().index();
        plain && same && self.waits(request) && one.is_sync() == other.is_sync()
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        let client = view.request(request).client().index();
        let job = &mut self.jobs[request.index() as usize];
        // The other fields are set when it goes to the device.
        (job.stage, job.client, job.is_bound) = (Stage::Elsewhere, client, true);
        self.accounts.hold(client, 1);
        self.accounts.ask_no_more(client);
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        let client = self.client_of(request);
        if position == Position::Head {
            self.jobs[request.index() as usize].stage = Stage::Bypassing;
            self.bypass.push_front(&mut self.bypass_links, request.index());
        } else {
            self.arrive(view, request, client);
        }
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if !self.waits(request) {
            return;
        }
        let owner = self.client_of(request);
        let client = owner as usize;
        self.accounts.ask_no_more(owner);
        match side {
            Side::Back => {
                let end = view.request(request).end();
                self.clients[client].pattern.grown(end);
                self.move_on(owner, end);
            }
            Side::Front => self.moved(view, request),
        }
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        if side == Side::Front && self.waits(request) {
            self.moved(view, request);
        }
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        let client = self.client_of(gone);
        let both = self.waits(survivor) && self.waits(gone);
        if !both || client != self.client_of(survivor) {
            return self.take(gone);
        }
        let own = &mut self.clients[client as usize];
        own.lane.absorb(&mut self.lanes, view, survivor, gone);
        let kind = own.kind();
        self.leave_sweep_with(client, gone);
        self.accounts.leave(client, kind);
        self.set_interactive(client, false);
        self.jobs[gone.index() as usize].stage = Stage::Elsewhere;
    }

    fn neighbour(&self, _: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        match side {
            Side::Front => self.lanes.former(request),
            Side::Back => self.lanes.latter(request),
        }
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        self.choose(view)
    }

    fn started(&mut self, view: &mut QueueView, request: RequestId) {
        // Under legacy rules this call alone tells that a refused request comes again.
        if self.jobs[request.index() as usize].stage == Stage::Elsewhere {
            self.fly_past(view, request);
        }
    }

    fn requeued(&mut self, view: &mut QueueView, request: RequestId) {
        let job = self.jobs[request.index() as usize];
        if job.stage == Stage::Flying {
            self.drop_job(request, view.exact_now());
            let holder = self.holder_of(job.client, usize::from(job.kind));
            self.seats.ended(holder, false, -job.estimate, (0, 0));
        }
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, served: Nanos) {
        let Job { stage, is_priced, estimate, sort, client, .. } =
            self.jobs[request.index() as usize];
        if stage != Stage::Flying {
            return;
        }
        let now = view.exact_now();
        // The charge that was set at dispatch, if that was final (C5); otherwise the time that it
        // took, or that its kind takes (C6).
        let took = self.even.charge(client, sort, served.0);
        let charge = if is_priced { estimate } else { i64::try_from(took).unwrap_or(i64::MAX) };
        let took = charge.unsigned_abs();
        #[cfg(test)]
        let charge = self.sabotaged_charge(request, charge);
        let (job, ended) = self.end_job(request, charge, now);
        let gone = view.request(request);
        let (latency, sectors) = ((now - gone.issued()).0, gone.sectors());
        let price = &mut self.prices[usize::from(job.sort)];
        *price = blend(*price, served.0, 4).max(1);
        self.mean_cost = blend(self.mean_cost, served.0, 4);
        if self.seats.most.is_none() {
            self.seats.cost = blend(self.seats.cost, served.0, 4);
            self.seats.latency = blend(self.seats.latency, latency, 4);
        } else {
            // A turn is measured in time, whatever its requests cost.
            let time = i64::try_from(served.0).unwrap_or(i64::MAX);
            let off = if is_priced { 0 } else { time - job.estimate };
            let did = (served.0, u64::from(sectors));
            let holder = self.holder_of(job.client, usize::from(job.kind));
            self.seats.ended(holder, job.first, off, did);
        }
        self.earn_credit(served.0);
        let least = self.gate.ended(job.sort, latency);
        self.learn_costs(gone, job.sort, now, [latency, least]);
        self.open_window(job.client, now, [latency, least], served.0);
        self.watch_end(view, &ended, took);
        if !self.watchdog.has_fallen() {
            self.learn_from(view, job.epoch, job.sort, sectors, served.0);
            self.learn(view);
            self.learn_depth(view, job.sort, sectors, served.0);
        }
    }

    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.take(request);
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        let job = &mut self.jobs[request.index() as usize];
        let (client, was_bound) = (job.client, core::mem::take(&mut job.is_bound));
        if core::mem::replace(&mut job.stage, Stage::Elsewhere) == Stage::Flying {
            // It ends without a completion.
            self.drop_job(request, view.exact_now());
        }
        if was_bound {
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

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        if let Some(index) = self.bypass.pop_front(&mut self.bypass_links) {
            self.jobs[index as usize].stage = Stage::Elsewhere;
            return Some(RequestId::from_index(index));
        }
        let now = view.exact_now();
        let client = self.accounts.first_of_all(now)?;
        let request = self.next_of(view, client, now);
        self.take(request);
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
        Paternoster::waiting(self) + self.bypass.len()
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

impl Members for Paternoster {
    fn client_attached(&mut self, view: &mut QueueView, client: ClientId) {
        let (parent, weight, class) = self.place_of(view, client);
        self.clients[client.index() as usize] = Client::default();
        self.accounts.open(client.index(), parent, weight, class);
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let (parent, weight, class) = self.place_of(view, client);
        let own = self.accounts.at(client.index());
        if (own.parent, own.class) != (parent, class) {
            self.forget_place(view, client.index());
        }
        self.leave_sweep(client.index());
        self.accounts.change(client.index(), parent, weight, class);
        self.join_sweep_with_all(client.index());
        self.watchdog.look_anew();
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        self.accounts.ask_no_more(client.index());
        self.forget_place(view, client.index());
        self.expect_no_more(client.index());
        self.set_interactive(client.index(), false);
        self.present.remove(client.index());
        self.clients[client.index() as usize] = Client::default();
        self.even.forget(client.index());
        self.seat_time.forget(client.index());
        self.departed += self.accounts.at(client.index()).charged;
        self.accounts.close(client.index());
        self.watchdog.look_anew();
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        self.open_group(view, group.index());
        self.watchdog.look_anew();
    }

    fn group_removed(&mut self, _: &mut QueueView, group: GroupId) {
        self.accounts.close(self.accounts.of_group(group.index()));
        self.watchdog.look_anew();
    }
}

impl Knobs for Paternoster {
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
        KNOBS[place].set(self, view, value)?;
        self.watchdog.look_anew();
        Ok(())
    }
}

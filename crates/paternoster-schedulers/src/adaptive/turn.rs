// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turn: the next request goes to the device, or the device waits; and what follows when one has
//! left it.
//!
//! ```text
//! pick ─▶ refused or let in? it goes
//!      ─▶ overdue? it goes
//!      ─▶ candidate ─▶ room? ─▶ gate? ─▶ a slot kept for another? ─▶ its request goes
//!      ─▶ none may go: wait for a holder, or the hindmost of a shared stream
//! ```
//!
//! This is wiring: who is next and for whom a slot is kept is asked of `choose`, what it costs of
//! `pricing`, whether it may go of `depth`, `ramp` and `gate`; what follows is done here.
//!
//! # Invariants
//! I1  The device idles while requests wait only until the timer fires, and the timer is set.
//! I2  A request dispatched where there are seats counts as part of a turn, or of a sweep group.
//!
//! Source: C1, C2, R1 to R5, S3, S10 of `docs/rules/adaptive.md`.

use crate::adaptive::Paternoster;
use crate::adaptive::account::{CROWD, Ended};
use crate::adaptive::audit::audit_hold;
use crate::adaptive::choose::Choice;
use crate::adaptive::credit::Reserved;
use crate::adaptive::job::Job;
use crate::adaptive::learn::{Moment, Phase};
use crate::adaptive::parties::{Holder, Parties};
use crate::adaptive::pause::Reason;
use crate::adaptive::ramp::Ramp;
use crate::adaptive::seats::Setting;
use crate::adaptive::throughput_gain::sort_of;
#[cfg(test)]
use crate::adaptive::watchdog::Sabotage;
use crate::adaptive::workload_mix::Census;
use paternoster_core::elevator::{Pick, Place};
use paternoster_core::event::{Distrust, Note};
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

impl Paternoster {
    /// Which request goes next?
    pub(super) fn choose(&mut self, view: &mut QueueView) -> Pick {
        let now = view.exact_now();
        self.credit.pay_for_waiting(now, self.depth.top());
        if self.seat_time.is_kept() {
            self.charge_seat_time(now);
        }
        self.watchdog.resume(now, self.depth.top());
        view.cancel_timer();
        if let Some(request) = self.jobs.pop_first() {
            self.fly_past(view, request);
            return Pick::Dispatch(request, Place::Tail);
        }
        if self.overdue.is_time(now)
            && let Some(request) = self.overdue_goes(view, now)
        {
            return Pick::Dispatch(request, Place::Tail);
        }
        let candidate = if self.seats.most.is_some() {
            self.whose_turn_in_seats(view, now)
        } else {
            // A client that is alone, as most are, is not held back.
            let first = self.accounts.first_of_all(now);
            let may_go = first.is_none_or(|first| !self.clients.at(first).is_together);
            let first = if may_go { first } else { self.choice(view, now).candidate() };
            #[cfg(test)]
            let first = self.watchdog.sabotaged_choice(&self.accounts, false, first, now);
            first
        };
        match candidate {
            Some(least) => self.go_on(view, least, now),
            None if self.accounts.waiting() == 0 => {
                self.watchdog.goes();
                Pick::Nothing
            }
            None => self.wait_for_what_comes(view, now),
        }
    }

    /// S10: dispatches the oldest request of the client that is overdue, if the device takes it.
    /// Where there are seats it interrupts a turn, and the arm goes there and back.
    #[inline(never)]
    fn overdue_goes(&mut self, view: &mut QueueView, now: Nanos) -> Option<RequestId> {
        if view.in_device().requests >= self.depth.top() || self.watchdog.has_fallen() {
            return None;
        }
        let (has_seats, parties) = (self.seats.most.is_some(), (&self.accounts, &self.clients));
        let (client, request) = self.overdue.look(view, parties, has_seats, now)?;
        self.dispatch(view, client, request);
        let takes = self.jobs.at(request).estimate.unsigned_abs();
        let ways = if has_seats { 2 * self.seats.change } else { 0 };
        self.overdue.went(client, self.clients.at(client).gone(), takes + ways, now);
        Some(request)
    }

    /// What a choice looks at.
    #[inline(always)]
    pub(super) fn choice<'a>(&'a self, view: &'a QueueView, now: Nanos) -> Choice<'a> {
        let parties = Parties {
            accounts: &self.accounts,
            clients: &self.clients,
            cooperation: &self.cooperation,
            sweep_groups: &self.sweep_groups,
            now,
        };
        Choice {
            view,
            parties,
            seats: &self.seats,
            is_plain: self.watchdog.has_fallen(),
            #[cfg(test)]
            sabotage: self.watchdog.sabotage,
        }
    }

    /// Which of the waiting clients goes next, where there are seats. An interactive client has no
    /// seat and needs none: it has had less than its share and has one request. It may interrupt
    /// the turn of others, and pays for its request as usual.
    #[inline(never)]
    fn whose_turn_in_seats(&mut self, view: &mut QueueView, now: Nanos) -> Option<u32> {
        if self.accounts.waiting() == 0 {
            return None;
        }
        let parties = Parties {
            accounts: &self.accounts,
            clients: &self.clients,
            cooperation: &self.cooperation,
            sweep_groups: &self.sweep_groups,
            now,
        };
        self.seats.tend(view, &parties);
        while let Some((client, ns)) = self.seats.shared.pop_due() {
            // A client that has gone is owed nothing.
            if self.accounts.is_open(client) {
                self.accounts.charge_time(client, ns);
                self.seats.shared.charged += ns;
            }
        }
        let candidate = self.choice(view, now).candidate();
        #[cfg(test)]
        let candidate = self.watchdog.sabotaged_choice(&self.accounts, true, candidate, now);
        match (self.clients.first_interactive(), candidate) {
            (Some(one), Some(other)) if self.accounts.outranks(other, one) => candidate,
            (one, other) => one.or(other),
        }
    }

    /// It is this client's turn: dispatches a request of it or of its shared stream, if a slot may
    /// be used.
    #[inline(always)]
    fn go_on(&mut self, view: &mut QueueView, least: u32, now: Nanos) -> Pick {
        // A client that is alone goes itself, where random clients do not share turns.
        let may_go_itself = self.seats.most.is_none() && !self.clients.at(least).is_together;
        let member = if may_go_itself { None } else { self.choice(view, now).goes_instead(least) };
        let client = member.map_or(least, |(client, _)| client);
        let taken = view.in_device().requests;
        let most = self.depth.room_for(|| self.accounts.is_shallow(client));
        if taken >= most || self.ramp.is_full(taken) {
            if taken < most {
                self.ramp.refuses();
            }
            // The next completion makes room.
            return self.pause(view, Nanos::MAX, Reason::Seats);
        }
        if let Some(until) = self.accounts.yields_until(least, now)
            && !self.watchdog.has_fallen()
        {
            return self.pause(view, until, Reason::Seats);
        }
        if let Some(until) = self.held_by_gate(view, least, now) {
            let has_seats = self.seats.most.is_some();
            audit_hold(view, &self.accounts, has_seats, least, self.gate.holds);
            self.gate.holds += 1;
            return self.pause(view, until, Reason::Seats);
        }
        let room = most - taken - 1;
        if self.depth.spares(taken, self.tunables.strictness, now)
            && !self.watchdog.has_fallen()
            && !self.accounts.is_shallow(client)
        {
            self.credit.keep(Reserved::SPARED, view.in_device().requests == 0, now);
            return self.pause(view, Nanos::MAX, Reason::Seats);
        }
        let request =
            member.map_or_else(|| self.clients.next_of(view, client, now), |(_, own)| own);
        // More than enough slots may be free.
        if self.clients.total_expected() > room && !self.watchdog.has_fallen() {
            let kept = self.what_is_kept_from(view, client, request, now);
            if kept.slots > room {
                self.credit.keep(kept, view.in_device().requests == 0, now);
                return self.pause(view, kept.until, kept.reason());
            }
        }
        self.choice(view, now).audit(least, request);
        self.dispatch(view, client, request);
        Pick::Dispatch(request, Place::Tail)
    }

    /// Until when `client` is held because it is ahead of one that is owed (gate I1).
    #[inline(always)]
    pub(super) fn held_by_gate(&self, view: &QueueView, client: u32, now: Nanos) -> Option<Nanos> {
        let is_empty = view.in_device().requests == 0;
        let state = (is_empty, self.seats.most.is_some());
        let is_open = || self.is_gate_open(is_empty);
        self.gate.held_by_gate(&self.accounts, client, now, state, is_open)
    }

    /// Whether the gate is open for all (gate I1).
    fn is_gate_open(&self, is_empty: bool) -> bool {
        is_empty && self.accounts.totals().1 > 0
            || self.learn.phase == Phase::Changed
            || self.watchdog.has_fallen()
    }

    /// Dispatches nothing until then, on purpose, unless that breaks the rules (see `watchdog.rs`).
    fn pause(&mut self, view: &mut QueueView, until: Nanos, reason: Reason) -> Pick {
        let empty = view.in_device().requests == 0 && self.accounts.totals().1 == 0;
        if self.watchdog.pauses(view.exact_now(), until, empty, reason) {
            self.fall_back(view, Some(Distrust::Stuck));
            // Nothing is kept any more: any waiting client may go.
            return self.choose(view);
        }
        if until == Nanos::MAX {
            return Pick::Await;
        }
        view.set_precise_timer(until);
        Pick::Idle
    }

    /// No seated client has a request that may go: wait until one of theirs ends or arrives. If
    /// nothing is in the device and none is expected, no client is held back (cooperate I3).
    #[inline(never)]
    fn wait_for_what_comes(&mut self, view: &mut QueueView, now: Nanos) -> Pick {
        let comes = self.choice(view, now).comes();
        let ends = view.in_device().requests > 0 || self.accounts.totals().1 > 0;
        if comes.is_none()
            && !ends
            && let Some(first) = self.choice(view, now).first_held_back()
        {
            return self.go_on(view, first, now);
        }
        if let (Some((_, client)), false, true) = (comes, ends, self.seats.most.is_some()) {
            self.seat_time.begins(client, now);
        }
        let until = comes.map_or(Nanos::MAX, |(until, _)| until);
        self.pause(view, until, Reason::Seats)
    }

    /// R2: the slots that are kept for others when this request could go.
    #[inline(never)]
    fn what_is_kept_from(
        &mut self,
        view: &QueueView,
        client: u32,
        request: RequestId,
        now: Nanos,
    ) -> Reserved {
        let access = self.clients.at(client).access();
        let price = self.pricing.price_of(view.request(request), access);
        let has_credit = self.credit.is_left();
        #[cfg(test)]
        let has_credit = has_credit || self.watchdog.sabotage == Sabotage::Spendthrift;
        let (kept, has_expired) = self.choice(view, now).what_is_kept(client, price, has_credit);
        if has_expired {
            self.clients.expire(now);
        }
        kept
    }

    #[inline(always)]
    fn dispatch(&mut self, view: &mut QueueView, client: u32, request: RequestId) {
        let now = view.exact_now();
        let (is_seated, gone) = (self.seats.most.is_some(), view.request(request));
        let (own, is_last) = self.clients.dispatch(client, request, gone.end());
        let (kind, is_together, sort) = (own.kind(), own.is_together, sort_of(gone, own.access()));
        let was_interactive = own.is_interactive();
        let charge = self.pricing.charge_of(gone, sort, is_seated);
        self.jobs.begin(request, (sort, kind), charge, self.learn.epoch);
        if is_seated {
            self.go_in_turn(client, request, gone.end());
        }
        self.accounts.dispatch(client, kind, charge.0, now);
        if is_last {
            self.has_nothing_waiting(client, view.facts().rotational, now);
        }
        self.device_time.begins(now);
        self.watchdog.goes();
        let leader = if is_together { self.cooperation.leader_of(client) } else { client };
        self.learn.note_switch(leader);
        if is_together && !self.watchdog.has_fallen() {
            let quantum = self.seats.quantum();
            self.cooperation.keep_step(&mut self.accounts, client, gone.end(), quantum);
        }
        if was_interactive {
            self.clients.set_interactive(client, false);
        }
    }

    /// A client's last waiting request has gone: it may be owed more, and may be about to ask.
    #[inline(never)]
    fn has_nothing_waiting(&mut self, client: u32, rotates: bool, now: Nanos) {
        let pattern = &self.clients.at(client).pattern;
        let comes = pattern.expected > 0;
        let from = (self.tunables.weights_from, rotates);
        let was_owed = self.gate.note_owed(&mut self.accounts, client, pattern, from, now);
        if was_owed && !rotates && self.seats.most.is_none() && !self.watchdog.has_fallen() {
            self.ramp.begins(self.accounts.totals().1);
        }
        if comes {
            self.clients.miss(client, true);
        }
    }

    /// Where there are seats a request, which ends at this sector, counts as part of a turn, or of
    /// a sweep group (I2).
    #[inline(never)]
    fn go_in_turn(&mut self, client: u32, request: RequestId, end: u64) {
        let job = *self.jobs.at(request);
        let (kind, group) = (usize::from(job.kind), self.accounts.group_of(client));
        self.sweep_groups.remove(group, request);
        let is_swept = kind == CROWD;
        if is_swept && !self.clients.at(client).is_interactive() {
            self.sweep_groups.set_head(group, end);
        }
        let holder = Holder::of(&self.accounts, &self.cooperation, client, kind);
        let first = self.seats.dispatched(holder, job.estimate);
        let sweep_group = if is_swept { group } else { NIL };
        self.sweep_groups.count(sweep_group, 1);
        self.jobs.take_turn(request, first, sweep_group);
    }

    /// A request goes to the device ahead of all others.
    pub(super) fn fly_past(&mut self, view: &mut QueueView, request: RequestId) {
        let (now, gone) = (view.exact_now(), view.request(request));
        let client = self.jobs.client_of(request);
        self.present.add(client);
        let sort = sort_of(gone, self.clients.at(client).access());
        let charge = self.pricing.charge_of(gone, sort, self.seats.most.is_some());
        self.jobs.begin(request, (sort, CROWD), charge, self.learn.epoch);
        if self.seats.most.is_some() {
            let sweep_group = self.accounts.group_of(client);
            self.sweep_groups.count(sweep_group, 1);
            self.jobs.take_turn(request, false, sweep_group);
        }
        // What the throttle has released was charged there.
        if gone.is_past_throttle() {
            self.jobs.is_paid(request);
        }
        self.accounts.bypass(client, self.jobs.at(request).estimate, now);
        self.device_time.begins(now);
        self.watchdog.goes();
    }

    /// The elevator runs again: the time spent waiting for a client with a seat is charged to it.
    #[inline(never)]
    pub(super) fn charge_seat_time(&mut self, now: Nanos) {
        let Some((client, waited)) = self.seat_time.ends(now) else { return };
        let charge = i64::try_from(waited).unwrap_or(i64::MAX);
        self.charge_beside_requests(client, charge);
        self.watchdog.seat_time(&self.accounts, client, waited);
    }

    /// A client is charged for what no request of it took: on its account, and in its turn.
    pub(super) fn charge_beside_requests(&mut self, client: u32, charge: i64) {
        self.accounts.charge_time(client, charge);
        let kind = self.clients.at(client).kind();
        let holder = Holder::of(&self.accounts, &self.cooperation, client, kind);
        self.seats.ended(holder, false, charge, (0, 0));
    }

    /// Goes on with the search for the number of seats.
    #[inline(never)]
    pub(super) fn learn_on(&mut self, view: &mut QueueView) {
        let (now, facts) = (view.exact_now(), view.facts());
        let moment = Moment {
            now,
            busy: self.device_time.busy_until(now),
            mean_cost: self.pricing.mean(),
            seeks: facts.rotational,
            caches_writes: facts.rotational && facts.write_cache,
            depth: facts.depth,
        };
        let mut census = Census {
            present: &mut self.present,
            clients: &mut self.clients,
            accounts: &self.accounts,
            streams: self.cooperation.streams_mut(),
            sweep_groups: &mut self.sweep_groups,
        };
        if self.learn.go_on(&mut self.seats, &moment, &mut census) {
            self.seat(view);
        }
    }

    /// From now on accounts alone decide: for a gap, or without a reason until further notice.
    pub(super) fn fall_back(&mut self, view: &mut QueueView, why: Option<Distrust>) {
        let now = view.exact_now();
        self.watchdog.fall(now, why.is_some());
        if let Some(why) = why {
            view.note(Note::FellBack { why });
        }
        self.credit.keep_nothing();
        self.learn.stop();
        self.pricing.costs.stop();
        self.seats.tries = false;
        self.depth.use_all(now);
        self.ramp = Ramp::new();
        if self.seats.setting() != Setting::Free {
            self.seats.set(Setting::Free);
            self.seat(view);
        }
    }

    /// A request has left the device without a measurement.
    #[inline(never)]
    pub(super) fn drop_job(&mut self, job: &Job, now: Nanos) {
        self.end_job(job, 0, now);
    }

    /// A request has left the device: its charge becomes what it took.
    #[inline(always)]
    pub(super) fn end_job(&mut self, job: &Job, took: i64, now: Nanos) -> Ended {
        self.sweep_groups.count(job.sweep_group, -1);
        let ended = self.accounts.end(job.client, job.estimate, took);
        self.device_time.ends(took, ended.flying == 0, now);
        ended
    }
}

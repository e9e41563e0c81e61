// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrive: a request comes to its client's lane or leaves it, and the client's kind follows.
//!
//! ```text
//! lane ─▶ continues another's? ─▶ shared stream ─▶ kind ─▶ sweep ─▶ account ─▶ expected no more
//! ```
//!
//! This is wiring: what a request shows is asked of the parts (`clients`, `cooperate`, `account`),
//! and what follows is done here.
//!
//! # Invariants
//! I1  Requests wait as the kind of their client: a stream alone or with others, or the crowd.
//!
//! Source: C4, R5, S2 of `docs/rules/adaptive.md`.

use crate::adaptive::Paternoster;
use crate::adaptive::account::CROWD;
use crate::adaptive::job::Stage;
use crate::adaptive::kinds::Kinds;
use crate::adaptive::ramp::Ramp;
use paternoster_core::event::Note;
use paternoster_core::{QueueView, RequestId};

impl Paternoster {
    /// A request arrives at its client's lane.
    #[inline]
    pub(super) fn arrive(&mut self, view: &mut QueueView, request: RequestId, client: u32) {
        let now = view.exact_now();
        let busy = self.accounts.is_busy(client);
        if !busy {
            self.present.add(client);
        }
        let (own, expected) = self.clients.arrive(view, client, request, busy, now);
        let is_another = own.is_stream != own.reads_on();
        let mut slack = 0;
        // Otherwise no shared stream is looked for, and there are no turns.
        if is_another || view.facts().rotational || self.seats.most.is_some() {
            slack = self.take_place(view, client, request);
        }
        let behind = !busy && self.accounts.is_behind(client, slack);
        let own = self.clients.at(client);
        // A stream that thinks for longer than a change costs is not waited for in a turn, and need
        // not wait for one.
        let too_slow = || self.seats.most.is_some() && own.pattern.thinks_beyond(self.seats.change);
        let is_interactive = behind && !expected && (!own.reads_on() || too_slow());
        let kind = own.kind();
        self.clients.is_here(client, is_interactive);
        if behind {
            self.depth.note_interactive(now, expected);
        }
        self.accounts.arrive(client, kind, now, slack);
        self.jobs.wait(request);
        self.watchdog.arrival(&self.accounts, client);
    }

    /// A request has come to its lane: updates its client's shared stream, kind and sweep. Returns
    /// how far a client may be ahead of the others, in ns.
    #[inline(never)]
    fn take_place(&mut self, view: &mut QueueView, client: u32, request: RequestId) -> i64 {
        let job = view.request(request);
        let sector = job.sector();
        self.pricing.even.jump(client, sector);
        // Where seeks cost nothing no shared stream is looked for.
        if view.facts().rotational {
            let (alone, now) = (self.clients.at(client).pattern.is_stream, view.exact_now());
            let found = self.cooperation.look_around(&self.accounts, client, job, alone, now);
            if found.parts {
                self.part(view, client);
            }
            if let Some(other) = found.joins {
                self.unite(view, client, other);
            }
        }
        let own = self.clients.at(client);
        if own.is_stream != (own.reads_on() || self.seats.everyone) {
            self.kinds().sort(client);
        }
        if self.seats.most.is_none() {
            return 0;
        }
        if self.clients.at(client).kind() == CROWD {
            self.sweep_groups.insert(self.accounts.group_of(client), request, sector);
        }
        // Turns let a client be ahead of the others by a quantum; so may this one.
        i64::try_from(self.seats.quantum()).unwrap_or(i64::MAX)
    }

    /// A waiting request leaves without being dispatched, and is not charged.
    pub(super) fn take(&mut self, request: RequestId) {
        let client = self.jobs.client_of(request);
        if self.jobs.leave(request) == Stage::Waiting {
            self.clients.leave(client, request);
            if self.seats.most.is_some() {
                self.sweep_groups.remove(self.accounts.group_of(client), request);
            }
            self.accounts.leave(client, self.clients.at(client).kind());
            self.clients.recount_expected(client);
        }
    }

    /// Two clients, and those with them, share a seat from now on.
    fn unite(&mut self, view: &mut QueueView, client: u32, other: u32) {
        let head = |client| self.clients.at(client).head;
        let Some((from, into)) = self.cooperation.unite(client, other, head) else { return };
        self.seats.rename(from, into);
        self.kinds().sort_members(into);
        self.learn.be_stale();
        if let (Some(client), Some(into)) = (view.client_id(client), view.client_id(into)) {
            view.note(Note::QueuesMerged { client, into });
        }
    }

    /// A client leaves its shared stream, if it is in one.
    pub(super) fn part(&mut self, view: &mut QueueView, client: u32) {
        let Some((leader, heir)) = self.cooperation.part(client) else { return };
        // The seat stays with the others.
        if heir != leader {
            self.seats.rename(leader, heir);
        }
        self.clients.at_mut(client).is_together = false;
        self.kinds().sort(client);
        self.kinds().sort_members(heir);
        if let (Some(client), Some(from)) = (view.client_id(client), view.client_id(heir)) {
            view.note(Note::QueuesParted { client, from });
        }
    }

    /// The parts that have to agree on the kind of a client.
    pub(super) fn kinds(&mut self) -> Kinds<'_> {
        Kinds {
            accounts: &mut self.accounts,
            clients: &mut self.clients,
            sweep_groups: &mut self.sweep_groups,
            cooperation: &self.cooperation,
            seats: &self.seats,
        }
    }

    /// There is another setting: all clients may wait as another kind.
    pub(super) fn seat(&mut self, view: &mut QueueView) {
        self.ramp = Ramp::new();
        self.kinds().sort_all();
        view.note(Note::SeatsChanged { seats: self.seats.most.unwrap_or(0) });
    }
}

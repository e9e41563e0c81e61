// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choose: which client goes next, and for which a slot of the device is kept (rule R).
//!
//! The *candidate* is the waiting client that has had least. But a client that has had even less
//! may have nothing waiting because it is thinking: it is expected (see `access_pattern.rs`). A
//! slot is kept for it if that is worth while. A device that takes one command at a time has only
//! that slot, and idles; on one that takes 32 it is one of 32, and costs nothing:
//!
//! ```text
//! depth 1    in the device 0, kept 1     0 + 1 + 1 > 1      wait for it
//! depth 32   in the device 4, kept 1     4 + 1 + 1 <= 32    the candidate goes
//! ```
//!
//! It is worth while if the client thinks for less time than its requests take, and for at most
//! half the time that the candidate's request would hold it up; and as long as there is *credit*: a
//! 32nd of each second of device time may be idled away, and no more. It is a bargain, which needs
//! no credit, if the client thinks for a quarter of its own request's time and a 16th of the
//! candidate's.
//!
//! # Invariants
//! I1  No client goes before a waiting client that has had less (G2), within seats and classes;
//!     except that a member of a shared stream may go for another member.
//! I2  The device idles while requests wait only until the timer fires, and the timer is set.
//! I3  Each expected client with nothing waiting is in the list of expected clients;
//!     `total_expected` is the number of their requests that a slot may be kept for.
//!
//! Source: R1 to R5 of `docs/rules/adaptive.md`.

use crate::adaptive::Paternoster;
use crate::adaptive::account::{CROWD, STREAM};
use crate::adaptive::throughput_gain::sort_of;
use crate::adaptive::watchdog::Reason;
#[cfg(test)]
use crate::adaptive::watchdog::Sabotage;
use paternoster_core::elevator::{Pick, Place};
use paternoster_core::event::Distrust;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// At most this many expected clients are examined, and at most this many slots kept at a time.
pub(super) const LOOKS_MOST: usize = 64;
/// R4: saved credit is at most this.
pub(super) const CREDIT_MOST: i64 = 100_000_000;
/// R5: a client that used less than its share within this time may come at any moment.
const INTERACTIVE_FOR: Nanos = Nanos::from_millis(500);

/// Since when the device has been waiting for a client, and who pays for the wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    since: Nanos,
    /// The device is empty.
    idle: bool,
    /// Every client waited for is a bargain.
    bargain: bool,
}

/// The slots kept for others.
struct Reserved {
    slots: u32,
    until: Nanos,
    bargain: bool,
}

impl Paternoster {
    /// Which request goes next?
    pub(super) fn choose(&mut self, view: &mut QueueView) -> Pick {
        let now = view.exact_now();
        self.pay_for_waiting(now);
        self.pay_for_seat(now);
        self.watchdog.resume(now, self.depth.top());
        view.cancel_timer();
        if !self.bypass.is_empty()
            && let Some(index) = self.bypass.pop_front(&mut self.bypass_links)
        {
            let request = RequestId::from_index(index);
            self.fly_past(view, request);
            return Pick::Dispatch(request, Place::Tail);
        }
        match self.whose_turn(view, now) {
            Some(least) => self.go_on(view, least, now),
            None if self.waiting() == 0 => {
                self.watchdog.goes();
                Pick::Nothing
            }
            None => self.wait_for_what_comes(view, now),
        }
    }

    /// Which of the waiting clients goes next. (Without seats there are no interactive clients, and
    /// `candidate` already shows whether any client waits.)
    #[inline(always)]
    fn whose_turn(&mut self, view: &mut QueueView, now: Nanos) -> Option<u32> {
        if self.seats.most.is_some() {
            return self.whose_turn_in_seats(view, now);
        }
        let candidate = self.candidate(view, now);
        #[cfg(test)]
        let candidate = self.sabotaged_choice(candidate, now).filter(|_| self.waiting() > 0);
        candidate
    }

    /// The same with seats. An interactive client has no seat and needs none: it has had less than
    /// its share and has one request. It may interrupt the turn of others, and pays for its request
    /// as usual.
    #[inline(never)]
    fn whose_turn_in_seats(&mut self, view: &mut QueueView, now: Nanos) -> Option<u32> {
        if self.waiting() == 0 {
            return None;
        }
        self.tend_seats(view);
        let candidate = self.candidate(view, now);
        #[cfg(test)]
        let candidate = self.sabotaged_choice(candidate, now);
        self.interactive.first().or(candidate)
    }

    /// Dispatches a client that had been held back for others, as nothing else can go.
    #[inline(never)]
    fn go_on_at_last(&mut self, view: &mut QueueView, first: u32, now: Nanos) -> Pick {
        self.go_on(view, first, now)
    }

    /// It is this client's turn: dispatches a request of it or of its shared stream, if a slot may
    /// be used.
    #[inline(always)]
    fn go_on(&mut self, view: &mut QueueView, least: u32, now: Nanos) -> Pick {
        let member = self.goes_instead(view, least, now);
        let client = member.map_or(least, |(client, _)| client);
        let taken = view.in_device().requests;
        let most = self.depth.room_for(|| self.is_shallow(client));
        if taken >= most {
            // The next completion makes room.
            return self.pause(view, Nanos::MAX, Reason::Seats);
        }
        if let Some(until) = self.yields_inside(least, now) {
            return self.pause(view, until, Reason::Seats);
        }
        if let Some(until) = self.held_by_gate(view, least, now) {
            self.audit_hold(view, least, now);
            self.gate.holds += 1;
            return self.pause(view, until, Reason::Seats);
        }
        let room = most - taken - 1;
        if self.spares_slot(room, now) && !self.is_shallow(client) {
            return self.keep(view, Reserved { slots: 1, until: Nanos::MAX, bargain: true }, now);
        }
        let request = member.map_or_else(|| self.next_of(view, client, now), |(_, own)| own);
        if let Some(kept) = self.is_kept_from(view, client, request, room, now) {
            return self.keep(view, kept, now);
        }
        self.audit_choice(view, least, request, now);
        self.dispatch(view, client, request);
        Pick::Dispatch(request, Place::Tail)
    }

    /// The client that goes instead of the one whose turn it is, and its request. None if that
    /// client is alone and random clients do not share turns.
    #[inline(always)]
    fn goes_instead(&self, view: &QueueView, least: u32, now: Nanos) -> Option<(u32, RequestId)> {
        if self.seats.most.is_none() && !self.clients[least as usize].is_together {
            return None;
        }
        self.member_of(view, least, now).or_else(|| self.next_of_sweep_group(view, least))
    }

    /// The client that goes next, of those that may.
    #[inline(always)]
    pub(super) fn candidate(&self, view: &QueueView, now: Nanos) -> Option<u32> {
        if self.seats.most.is_none() {
            // A client that is alone, as most are, is not held back.
            let first = self.accounts.first_of_all(now)?;
            if !self.clients[first as usize].is_together {
                return Some(first);
            }
        }
        self.first_but(now, &|client| self.is_held_back(view, client, now))
    }

    /// The client that goes next, of those that have a seat or need none, except those that
    /// `waits`.
    fn first_but(&self, now: Nanos, waits: &dyn Fn(u32) -> bool) -> Option<u32> {
        if self.seats.most.is_some() {
            return self.first_seated(now, waits);
        }
        let first = self.accounts.first_of_all(now)?;
        if waits(first) { self.accounts.first(&[CROWD, STREAM], now, waits) } else { Some(first) }
    }

    /// One request, and nothing in the device (R5).
    fn is_shallow(&self, client: u32) -> bool {
        let node = self.accounts.at(client);
        node.flying == 0 && node.waiting() <= 1
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
    fn wait_for_what_comes(&mut self, view: &mut QueueView, now: Nanos) -> Pick {
        let comes = if self.seats.most.is_none() {
            self.hindmost_come(now)
        } else {
            self.holders_come(now)
        };
        let ends = view.in_device().requests > 0 || self.accounts.totals().1 > 0;
        if comes.is_none()
            && !ends
            && let Some(first) = self.first_but(now, &|_| false)
            && self.is_held_back(view, first, now)
        {
            return self.go_on_at_last(view, first, now);
        }
        if let (Some((_, client)), false, true) = (comes, ends, self.seats.most.is_some()) {
            self.seat_time.begins(client, now);
        }
        let until = comes.map_or(Nanos::MAX, |(until, _)| until);
        self.pause(view, until, Reason::Seats)
    }

    fn keep(&mut self, view: &mut QueueView, kept: Reserved, now: Nanos) -> Pick {
        let idle = view.in_device().requests == 0;
        self.keeping = Some(Reservation { since: now, idle, bargain: kept.bargain });
        let reason = match (kept.until, kept.bargain) {
            (Nanos::MAX, _) => Reason::Seats,
            (_, true) => Reason::Bargain,
            (_, false) => Reason::Credit,
        };
        self.pause(view, kept.until, reason)
    }

    /// R4: pays for the time waited since the last call.
    #[inline]
    fn pay_for_waiting(&mut self, now: Nanos) {
        if self.keeping.is_some() {
            self.pay_what_was_waited(now);
        }
    }

    fn pay_what_was_waited(&mut self, now: Nanos) {
        let Some(keeping) = self.keeping.take() else { return };
        let waited = (now - keeping.since).0;
        self.kept_time += waited;
        if !keeping.bargain {
            let slots = if keeping.idle { 1 } else { u64::from(self.depth.top()) };
            self.credit -= i64::try_from(waited / slots).unwrap_or(i64::MAX);
        }
    }

    /// R4: device time was used; a part of it may be idled away.
    pub(super) fn earn_credit(&mut self, took: u64) {
        if self.credit == CREDIT_MOST {
            return;
        }
        let part = i64::try_from(took / self.tunables.strictness).unwrap_or(CREDIT_MOST);
        self.credit = (self.credit + part).min(CREDIT_MOST);
    }

    /// R2: whether the free slot is kept for others. It is not if more than enough are free.
    #[inline]
    fn is_kept_from(
        &mut self,
        view: &QueueView,
        client: u32,
        request: RequestId,
        room: u32,
        now: Nanos,
    ) -> Option<Reserved> {
        if self.total_expected <= room || self.watchdog.has_fallen() {
            return None;
        }
        self.what_is_kept_from(view, client, request, room, now)
    }

    #[inline(never)]
    fn what_is_kept_from(
        &mut self,
        view: &QueueView,
        client: u32,
        request: RequestId,
        room: u32,
        now: Nanos,
    ) -> Option<Reserved> {
        let job = view.request(request);
        let price = self.price_of(job, self.clients[client as usize].access());
        let mut kept = Reserved { slots: 0, until: Nanos::MAX, bargain: true };
        let mut next = self.expected.first();
        for _ in 0..LOOKS_MOST {
            let Some(other) = next else { break };
            next = self.expected_links.next(other);
            let own = &self.clients[other as usize];
            if !own.pattern.is_expected(now) {
                self.expect_no_more(other);
                continue;
            }
            // Clients of one shared stream, and those of one sweep group, go in sector order.
            let together = || self.share_one(other, client);
            if own.owed_soon == 0 || together() || self.are_of_one_sweep_group(other, client) {
                continue;
            }
            let Some(bargain) = self.is_worth(other, price) else { continue };
            if !self.accounts.precedes(other, client) || !self.is_admitted(other) {
                continue;
            }
            let pattern = &self.clients[other as usize].pattern;
            kept.slots = kept.slots.saturating_add(pattern.expected);
            kept.until = kept.until.min(pattern.window);
            kept.bargain &= bargain;
        }
        (kept.slots > room).then_some(kept)
    }

    /// R3: whether a client is worth waiting for when a request that costs `price` is held up; and
    /// whether that is a bargain.
    fn is_worth(&self, client: u32, price: u64) -> Option<bool> {
        let pattern = &self.clients[client as usize].pattern;
        let time = pattern.patience();
        let own = pattern.latency;
        if time > own.max(pattern.cost) || 2 * time > price.max(own) {
            return None;
        }
        let bargain = 4 * time <= own && 16 * time <= price;
        #[cfg(test)]
        if self.sabotage == Sabotage::Spendthrift {
            return Some(bargain);
        }
        (bargain || self.credit > 0).then_some(bargain)
    }

    /// R5: while some client uses less than its share, the last slots are for clients with one
    /// request: none of 1, one of 32.
    fn spares_slot(&self, room: u32, now: Nanos) -> bool {
        if self.interactive_until <= now || self.watchdog.has_fallen() {
            return false;
        }
        let sigma = u32::try_from(self.tunables.strictness).unwrap_or(u32::MAX);
        let top = self.depth.top();
        room < (top / sigma.max(1)).min(top / 8)
    }

    /// A client that used less than its share arrives with the least virtual time (R5, L4).
    pub(super) fn note_interactive(&mut self, now: Nanos, expected: bool) {
        self.depth.note_interactive(now + INTERACTIVE_FOR);
        if !expected {
            self.interactive_until = now + INTERACTIVE_FOR;
        }
    }

    /// The client's next request: the first from its last position on, unless one is too old.
    #[inline]
    pub(super) fn next_of(&self, view: &QueueView, client: u32, now: Nanos) -> RequestId {
        self.next_from(view, client, self.clients[client as usize].head, now)
    }

    /// The client's next request from `head` on.
    #[inline]
    pub(super) fn next_from(
        &self,
        view: &QueueView,
        client: u32,
        head: u64,
        now: Nanos,
    ) -> RequestId {
        let own = &self.clients[client as usize];
        if own.lane.len() == 1 {
            // Whether or not it is late, ahead or behind.
            return own.lane.first().unwrap_or(RequestId::from_index(0));
        }
        let late = own.lane.deadline(view).is_some_and(|deadline| deadline <= now);
        let onwards = if late { None } else { own.lane.from_sector(&self.lanes, head) };
        let found = onwards.or_else(|| if late { own.lane.oldest() } else { own.lane.first() });
        // A client in an order has a request waiting (account I1).
        found.unwrap_or(RequestId::from_index(0))
    }

    #[inline(always)]
    fn dispatch(&mut self, view: &mut QueueView, client: u32, request: RequestId) {
        let now = view.exact_now();
        let (is_seated, gone) = (self.seats.most.is_some(), view.request(request));
        let own = &mut self.clients[client as usize];
        own.lane.remove(&mut self.lanes, request);
        own.head = gone.end();
        let (kind, is_together, sort) = (own.kind(), own.is_together, sort_of(gone, own.access()));
        let (was_interactive, comes) =
            (own.is_interactive, own.lane.is_empty() && own.pattern.expected > 0);
        let estimate = self.begin_job(request, gone, sort, kind);
        if is_seated {
            self.leave_sweep_with(client, request);
            self.sweep_on(client, gone.end());
            self.go_in_turn(client, request);
        }
        self.accounts.dispatch(client, kind, estimate, now);
        self.note_owed(client, now);
        if comes {
            self.miss(client, true);
        }
        self.count_busy(now);
        self.note_switch(if is_together { self.leader_of(client) } else { client });
        if is_together {
            self.keep_step(client, gone.end());
        }
        if was_interactive {
            self.set_interactive(client, false);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watchdog: does paternoster keep its own rules? If not, it falls back to plain sharing, and says
//! so.
//!
//! Kept slots and seats make the device wait while requests are queued. That is meant to pay off,
//! and is bounded. A fault in it would cost every client, and nothing would show why. So the
//! watchdog looks on; it does not share the rules' reasoning, only their bounds:
//!
//! ```text
//! stuck     nothing in the device, requests wait, and nothing will come that could change it
//! idle      more was idled away than the credit allows, or than bargains could cost
//! unfair    a client that had something waiting all the time got less than its weight's part
//! ```
//!
//! The first is seen at once. The other two are judged over *windows* of 2 s of device time, or 64
//! turns if that is longer. Each window looks at one child of the root, the *sampled child*: in one
//! window the child that has had least, which finds errors that the accounts do not see, in the
//! next the child whose request arrives first, which finds errors in the accounts.
//!
//! ```text
//! three children of equal weight, one of them the sampled child, 2 s      fair part: 667 ms
//!   it must have 3/4 of that, less two turns and the requests in the device
//! ```
//!
//! A child is rarely that far behind by chance, and the same one never twice running (turns on
//! disks have been seen to come unevenly for ten seconds, and then to even out). If it is, the
//! elevator *falls back*: no seats, no kept slots, no probes; accounts alone decide, which is plain
//! fair queueing. After a gap, which doubles each time, the rules are tried again.
//!
//! # Invariants
//! I1  O(1) a call (and a step for each level of groups), integers, no allocation.
//! I2  In fallback there are no seats, nothing is kept, and no child is sampled.
//! I3  With an empty device, no request is waited for beyond the last window that was opened.
//!
//! Source: G3, G4, G7 of `docs/rules/adaptive.md`.

use crate::adaptive::account::{Accounts, Ended, UNIT};
use crate::adaptive::clients::Clients;
use crate::adaptive::credit::CREDIT_MOST;
use crate::adaptive::pause::Reason;
use crate::adaptive::seats::Seats;
use paternoster_core::event::Distrust;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;

/// A window has at least this much device time, and this many turns.
const WINDOW_LEAST: u64 = 2_000_000_000;
const WINDOW_TURNS: u64 = 64;
/// Tolerance for I3: a late timer is no fault.
const GRACE: Nanos = Nanos::from_secs(1);
/// The first gap until the rules are tried again; it doubles up to this: 10 s, and 2.8 hours.
const GAP_FIRST: u64 = 10_000_000_000;
const GAP_MOST: u64 = GAP_FIRST << 10;
/// After this many gaps without a fault the first gap applies again.
const GAPS_CALM: u64 = 8;

/// A wait that began with a pick, and ends with the next.
#[derive(Debug, Clone, Copy)]
struct Pause {
    since: Nanos,
    until: Nanos,
    /// The device is empty.
    empty: bool,
    reason: Reason,
}

/// The child of the root that is observed.
#[derive(Debug, Clone, Copy)]
struct Sampled {
    node: u32,
    /// Device time that it had, and that all children of its class or a lower one had.
    served: u64,
    all: u64,
    /// The largest sum of weights of the children that were busy at the same time.
    weights: u64,
}

impl Sampled {
    const fn at(node: u32) -> Sampled {
        Sampled { node, served: 0, all: 0, weights: 0 }
    }
}

/// What has happened in a window; times in ns.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    busy: u64,
    credit: u64,
    bargains: u64,
    /// The longest wait on credit.
    longest: u64,
    /// The longest quantum, while there were seats.
    quantum: u64,
    /// The most expensive request, in virtual time.
    dearest: i64,
    /// The least weight of a child of the root that was served.
    lightest: Option<u32>,
    sampled: Option<Sampled>,
}

/// The state of the watchdog.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watchdog {
    /// The rules are off.
    fallen: bool,
    /// When they are tried again.
    again: Nanos,
    gap: u64,
    armed_since: Nanos,
    /// No window of R1 is open after this.
    latest: Nanos,
    /// Since when requests have been waiting while the device is empty.
    empty_since: Option<Nanos>,
    pause: Option<Pause>,
    window: Window,
    /// The sampled child of this window is the one whose request arrives first.
    by_arrival: bool,
    /// For each sort of sampled child: the one that had too little last time, to be sampled again.
    suspects: [Option<u32>; 2],
    /// A rule to break on purpose.
    #[cfg(test)]
    pub(super) sabotage: Sabotage,
}

impl Watchdog {
    /// Whether accounts alone decide.
    pub(super) const fn has_fallen(&self) -> bool {
        self.fallen
    }

    /// Weights or policy have changed: the counts of this window mean nothing.
    pub(super) fn look_anew(&mut self) {
        self.window = Window::default();
    }

    /// R1: a window was opened.
    pub(super) fn opened(&mut self, until: Nanos) {
        self.latest = self.latest.max(until);
    }

    /// Counts the wait since the last pick, up to its planned end.
    #[inline]
    pub(super) fn resume(&mut self, now: Nanos, depth: u32) {
        if self.pause.is_some() {
            self.count_pause(now, depth);
        }
    }

    fn count_pause(&mut self, now: Nanos, depth: u32) {
        let Some(pause) = self.pause.take() else { return };
        let waited = now.min(pause.until).0.saturating_sub(pause.since.0);
        let window = &mut self.window;
        match pause.reason {
            Reason::Credit => {
                let slots = if pause.empty { 1 } else { u64::from(depth.max(1)) };
                window.credit += waited / slots;
                window.longest = window.longest.max(waited / slots);
            }
            Reason::Bargain if pause.empty => window.bargains += waited,
            Reason::Bargain | Reason::Seats => {}
        }
    }

    /// A request is dispatched: the device is not stuck.
    pub(super) fn goes(&mut self) {
        self.empty_since = None;
    }

    /// Nothing is dispatched until then although requests wait. Whether that breaks I3.
    pub(super) fn pauses(&mut self, now: Nanos, until: Nanos, empty: bool, reason: Reason) -> bool {
        self.pause = Some(Pause { since: now, until, empty, reason });
        if !empty {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert(now);
        until > self.latest.max(since) + GRACE
    }

    /// G4: more was idled away than R4 grants.
    fn idled(&self, strictness: u64) -> bool {
        let window = &self.window;
        let saved = CREDIT_MOST.unsigned_abs();
        let earned = window.busy / strictness.max(1);
        // A bargain waits for at most half the time that its own request takes then.
        window.credit > earned + earned / 4 + saved + window.longest
            || window.bargains > window.busy / 2 + window.busy / 4 + saved
    }

    /// G3: the sampled child, of this weight, has less than its part by more than chance explains.
    fn was_unfair(&self, weight: u32, depth: u32) -> bool {
        let window = &self.window;
        let Some(sampled) = window.sampled else { return false };
        let weight = u64::from(weight);
        let right = sampled.all.saturating_mul(weight) / sampled.weights.max(1);
        let lightest = u64::from(window.lightest.unwrap_or(1).max(1));
        let turns = (4 * window.quantum).saturating_mul(weight) / lightest;
        let dearest = window.dearest.unsigned_abs().saturating_mul(u64::from(depth) + 2);
        let requests = dearest.saturating_mul(weight) / UNIT.unsigned_abs();
        sampled.served.saturating_add(turns).saturating_add(requests) < right - right / 4
    }

    /// A request arrives: its client may belong to the next sampled child.
    #[inline(always)]
    pub(super) fn arrival(&mut self, accounts: &Accounts, client: u32) {
        if self.by_arrival && self.window.sampled.is_none() {
            let top = accounts.top_of(client);
            if self.suspects[1].is_none_or(|suspect| suspect == top) {
                self.window.sampled = Some(Sampled::at(top));
            }
        }
    }

    /// Whether the rules are to be tried again.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.again
    }

    /// A request ends that was charged `took`. Returns whether a window is over, which
    /// [`Watchdog::judge`] judges.
    #[inline(always)]
    #[must_use]
    pub(super) fn ended(
        &mut self,
        accounts: &Accounts,
        clients: &Clients,
        seats: &Seats,
        ended: &Ended,
        took: u64,
    ) -> bool {
        self.count_end(accounts, clients, seats, ended, took);
        let window = &self.window;
        window.busy >= WINDOW_LEAST.max(WINDOW_TURNS * window.quantum)
    }

    /// A window is over, on a device that takes `depth` commands: which rule was broken, if any.
    #[inline(never)]
    pub(super) fn judge(
        &mut self,
        accounts: &Accounts,
        strictness: u64,
        depth: u32,
    ) -> Option<Distrust> {
        let window = &self.window;
        let weight = window.sampled.map_or(1, |sampled| accounts.at(sampled.node).weight);
        let why = if self.idled(strictness) {
            Some(Distrust::Idle)
        } else {
            let unfair = self.was_unfair(weight, depth);
            let sort = usize::from(self.by_arrival);
            let sampled = self.window.sampled.filter(|_| unfair).map(|sampled| sampled.node);
            let before = core::mem::replace(&mut self.suspects[sort], sampled);
            (unfair && before == sampled).then_some(Distrust::Unfair)
        };
        self.look_anew();
        self.by_arrival = !self.by_arrival;
        why
    }

    #[inline(always)]
    fn count_end(
        &mut self,
        accounts: &Accounts,
        clients: &Clients,
        seats: &Seats,
        ended: &Ended,
        took: u64,
    ) {
        let Ended { top, class, weight, .. } = *ended;
        let window = &mut self.window;
        window.busy += took;
        window.dearest = window.dearest.max(ended.dearest);
        if seats.most.is_some() {
            window.quantum = window.quantum.max(seats.quantum());
        }
        if window.lightest.is_none_or(|least| weight < least) {
            window.lightest = Some(weight);
        }
        let Some(sampled) = &mut window.sampled else { return self.choose_sampled(accounts) };
        let own = accounts.at(sampled.node);
        // A child owes nothing to a lower class, and is owed nothing while it asks for nothing.
        sampled.all += if class >= own.class { took } else { 0 };
        sampled.served += if top == sampled.node { took } else { 0 };
        // A child whose last request has just ended is about to ask again, and counts.
        sampled.weights = sampled.weights.max(ended.weights);
        // In shared stream a client has no more than the shared stream's pace allows.
        let together = clients.all().get(sampled.node as usize).is_some_and(|one| one.is_together);
        if own.waiting() == 0 || own.parent == NIL || together {
            window.sampled = None;
        }
    }

    /// The device was kept this long for a client with a seat, which paid for it.
    pub(super) fn seat_time(&mut self, accounts: &Accounts, client: u32, waited: u64) {
        let Some(sampled) = &mut self.window.sampled else { return };
        let top = accounts.top_of(client);
        let counts = accounts.at(top).class >= accounts.at(sampled.node).class;
        sampled.all += if counts { waited } else { 0 };
        sampled.served += if top == sampled.node { waited } else { 0 };
    }

    /// Samples the next child, unless that is left to the next arrival.
    #[inline(always)]
    fn choose_sampled(&mut self, accounts: &Accounts) {
        if !self.by_arrival && accounts.waiting() > 0 {
            let waits = |&node: &u32| accounts.at(node).waiting() > 0;
            let first = self.suspects[0].filter(waits).or_else(|| accounts.first_child());
            self.window.sampled = first.map(Sampled::at);
        }
    }

    /// From now on accounts alone decide: for a gap, or without a reason until further notice.
    pub(super) fn fall(&mut self, now: Nanos, is_distrust: bool) {
        if is_distrust {
            let calm = (now - self.armed_since).0 >= self.gap.saturating_mul(GAPS_CALM);
            self.gap = if calm { GAP_FIRST } else { (2 * self.gap).min(GAP_MOST) };
            self.again = now + Nanos(self.gap);
        } else {
            self.again = Nanos::MAX;
        }
        self.fallen = true;
        (self.pause, self.empty_since) = (None, None);
    }

    /// The rules are tried again, if accounts alone decide. Returns whether they did.
    pub(super) fn rearm(&mut self, now: Nanos) -> bool {
        if !self.fallen {
            return false;
        }
        self.fallen = false;
        self.armed_since = now;
        self.look_anew();
        self.suspects = [None; 2];
        true
    }
}

/// A rule to break on purpose until the watchdog reacts, to test that it does.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sabotage {
    /// No rule is broken.
    #[default]
    None,
    /// R4: a slot is kept whatever the credit.
    Spendthrift,
    /// S3: no client with a seat is dispatched.
    EmptySeats,
    /// G2: this client goes only if no other waits.
    PassesOver(u32),
    /// cooperate I3: each client in a shared stream is held back, for no reason.
    HoldsBack,
    /// G1: this client pays four times what its requests take.
    Overcharges(u32),
}

#[cfg(test)]
impl Watchdog {
    /// One that has this rule to break.
    pub(super) fn to_bark_at(sabotage: Sabotage) -> Watchdog {
        Watchdog { sabotage, ..Watchdog::default() }
    }

    /// The client that goes instead of `right`.
    pub(super) fn sabotaged_choice(
        &self,
        accounts: &Accounts,
        has_seats: bool,
        right: Option<u32>,
        now: Nanos,
    ) -> Option<u32> {
        use crate::adaptive::account::{CROWD, STREAM};
        match self.sabotage {
            Sabotage::PassesOver(client) if !self.fallen => {
                accounts.first(&[CROWD, STREAM], now, &|one| one == client).or(right)
            }
            Sabotage::EmptySeats if has_seats => None,
            _ => right,
        }
    }

    /// The charge for a request of a client instead of `right`.
    pub(super) fn sabotaged_charge(&self, client: u32, right: i64) -> i64 {
        let overcharges = self.sabotage == Sabotage::Overcharges(client);
        if overcharges && !self.fallen { 4 * right } else { right }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    /// I3: is it a fault if nothing will come, and the device is empty, for more than a second; and
    /// none while a window is open, or something is in the device?
    #[test]
    fn i3_nothing_comes() {
        let mut dog = Watchdog::default();
        let later = SECOND + SECOND + Nanos(1);
        assert!(!dog.pauses(SECOND, Nanos::MAX, false, Reason::Seats));
        assert!(!dog.pauses(SECOND, SECOND + SECOND, true, Reason::Credit));
        assert!(dog.pauses(SECOND, later, true, Reason::Credit));
        dog.opened(SECOND + SECOND);
        assert!(!dog.pauses(SECOND, later, true, Reason::Credit));
        assert!(dog.pauses(SECOND, Nanos::MAX, true, Reason::Seats));
    }

    /// G4: is it a fault if more is idled away than one part in 32 of the device time and a tenth
    /// of a second allow? Of 4 s that is 125 ms; a quarter more and the tenth are 256 ms, and the
    /// longest wait is not counted.
    #[test]
    fn g4_what_is_idled_away() {
        let accounts = Accounts::new(0, 1, 0);
        let waits = |times: u64| {
            let mut dog = Watchdog::default();
            for _ in 0..times {
                dog.pauses(Nanos::ZERO, Nanos::from_millis(1), true, Reason::Credit);
                dog.resume(SECOND, 1);
            }
            dog.window.busy = 4_000_000_000;
            dog.judge(&accounts, 32, 1)
        };
        assert_eq!((waits(257), waits(258)), (None, Some(Distrust::Idle)));
    }

    /// Are the rules tried again after 10 s, then after 20, and after 10 again once there was no
    /// fault for eight gaps?
    #[test]
    fn g7_the_gap_doubles() {
        let mut dog = Watchdog::default();
        for (at, gap) in [(0, 10), (15, 20), (40, 40), (1000, 10)] {
            let now = Nanos::from_secs(at);
            dog.fall(now, true);
            let again = now + Nanos::from_secs(gap);
            assert!(dog.has_fallen() && dog.is_over(again) && !dog.is_over(again - Nanos(1)));
            assert!(dog.rearm(again) && !dog.rearm(again));
        }
        dog.fall(SECOND, false);
        assert!(!dog.is_over(Nanos::MAX - Nanos(1)) && dog.has_fallen());
    }
}

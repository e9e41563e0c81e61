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

use crate::adaptive::Paternoster;
use crate::adaptive::account::{Ended, UNIT};
use crate::adaptive::choose::CREDIT_MOST;
use crate::adaptive::seats::Setting;
use paternoster_core::QueueView;
use paternoster_core::event::{Distrust, Note};
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

/// Why the device waits while requests are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// R2: a slot is kept, and paid for from the credit.
    Credit,
    /// R3: a slot is kept, and that is a bargain.
    Bargain,
    /// R5, S3, S4, L6: the last slots are spared, a seat's holder is expected, the last holder's
    /// requests drain, or a client that is ahead is held.
    Seats,
}

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
}

impl Paternoster {
    /// A request arrives: its client may belong to the next sampled child.
    pub(super) fn watch_arrival(&mut self, client: u32) {
        if self.watchdog.by_arrival && self.watchdog.window.sampled.is_none() {
            let top = self.accounts.top_of(client);
            if self.watchdog.suspects[1].is_none_or(|suspect| suspect == top) {
                self.watchdog.window.sampled = Some(self.sampled_at(top));
            }
        }
    }

    const fn sampled_at(&self, node: u32) -> Sampled {
        Sampled { node, served: 0, all: 0, weights: 0 }
    }

    /// A request ends that was charged `took`.
    #[inline(always)]
    pub(super) fn watch_end(&mut self, view: &mut QueueView, ended: &Ended, took: u64) {
        if self.watchdog.fallen {
            if view.exact_now() >= self.watchdog.again {
                self.rearm(view);
            }
            return;
        }
        self.count_end(ended, took);
        let window = &self.watchdog.window;
        if window.busy >= WINDOW_LEAST.max(WINDOW_TURNS * window.quantum) {
            self.judge_window(view);
        }
    }

    /// A window is over: judges it.
    #[inline(never)]
    fn judge_window(&mut self, view: &mut QueueView) {
        let window = &self.watchdog.window;
        let weight = window.sampled.map_or(1, |sampled| self.accounts.at(sampled.node).weight);
        let why = if self.watchdog.idled(self.tunables.strictness) {
            Some(Distrust::Idle)
        } else {
            let unfair = self.watchdog.was_unfair(weight, self.depth.top());
            let sort = usize::from(self.watchdog.by_arrival);
            let sampled =
                self.watchdog.window.sampled.filter(|_| unfair).map(|sampled| sampled.node);
            let before = core::mem::replace(&mut self.watchdog.suspects[sort], sampled);
            (unfair && before == sampled).then_some(Distrust::Unfair)
        };
        self.watchdog.look_anew();
        self.watchdog.by_arrival = !self.watchdog.by_arrival;
        if let Some(why) = why {
            self.fall_back(view, Some(why));
        }
    }

    #[inline(always)]
    fn count_end(&mut self, ended: &Ended, took: u64) {
        let Ended { top, class, weight, .. } = *ended;
        let window = &mut self.watchdog.window;
        window.busy += took;
        window.dearest = window.dearest.max(ended.dearest);
        if self.seats.most.is_some() {
            window.quantum = window.quantum.max(self.seats.quantum());
        }
        if window.lightest.is_none_or(|least| weight < least) {
            window.lightest = Some(weight);
        }
        let Some(sampled) = &mut window.sampled else { return self.choose_sampled() };
        let own = self.accounts.at(sampled.node);
        // A child owes nothing to a lower class, and is owed nothing while it asks for nothing.
        sampled.all += if class >= own.class { took } else { 0 };
        sampled.served += if top == sampled.node { took } else { 0 };
        // A child whose last request has just ended is about to ask again, and counts.
        sampled.weights = sampled.weights.max(ended.weights);
        // In shared stream a client has no more than the shared stream's pace allows.
        let together = self.clients.get(sampled.node as usize).is_some_and(|one| one.is_together);
        if own.waiting() == 0 || own.parent == NIL || together {
            window.sampled = None;
        }
    }

    /// The device was kept this long for a client with a seat, which paid for it.
    pub(super) fn watch_seat_time(&mut self, client: u32, waited: u64) {
        let Some(sampled) = self.watchdog.window.sampled else { return };
        let top = self.accounts.top_of(client);
        let counts = self.accounts.at(top).class >= self.accounts.at(sampled.node).class;
        if let Some(sampled) = &mut self.watchdog.window.sampled {
            sampled.all += if counts { waited } else { 0 };
            sampled.served += if top == sampled.node { waited } else { 0 };
        }
    }

    /// Samples the next child, unless that is left to the next arrival.
    #[inline(always)]
    fn choose_sampled(&mut self) {
        if !self.watchdog.by_arrival && self.waiting() > 0 {
            let suspect = self.watchdog.suspects[0];
            let waits = |&node: &u32| self.accounts.at(node).waiting() > 0;
            let first = suspect.filter(waits).or_else(|| self.accounts.first_child());
            self.watchdog.window.sampled = first.map(|node| self.sampled_at(node));
        }
    }

    /// From now on accounts alone decide: for a gap, or without a reason until further notice.
    pub(super) fn fall_back(&mut self, view: &mut QueueView, why: Option<Distrust>) {
        let now = view.exact_now();
        let dog = &mut self.watchdog;
        if let Some(why) = why {
            let calm = (now - dog.armed_since).0 >= dog.gap.saturating_mul(GAPS_CALM);
            dog.gap = if calm { GAP_FIRST } else { (2 * dog.gap).min(GAP_MOST) };
            dog.again = now + Nanos(dog.gap);
            view.note(Note::FellBack { why });
        } else {
            dog.again = Nanos::MAX;
        }
        dog.fallen = true;
        (dog.pause, dog.empty_since) = (None, None);
        self.keeping = None;
        self.learn.stop();
        self.seats.tries = false;
        self.depth.use_all(now);
        if self.seats.setting() != Setting::Free {
            self.seat(view, Setting::Free);
        }
    }

    /// The rules are tried again.
    pub(super) fn rearm(&mut self, view: &mut QueueView) {
        if self.watchdog.fallen {
            self.watchdog.fallen = false;
            self.watchdog.armed_since = view.exact_now();
            self.watchdog.look_anew();
            self.watchdog.suspects = [None; 2];
            view.note(Note::TriesAgain);
        }
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
impl Paternoster {
    /// The client that goes instead of `right`.
    pub(super) fn sabotaged_choice(&self, right: Option<u32>, now: Nanos) -> Option<u32> {
        use crate::adaptive::account::{CROWD, STREAM};
        match self.sabotage {
            Sabotage::PassesOver(client) if !self.watchdog.fallen => {
                self.accounts.first(&[CROWD, STREAM], now, &|one| one == client).or(right)
            }
            Sabotage::EmptySeats if self.seats.most.is_some() => None,
            _ => right,
        }
    }

    /// The charge for a request instead of `right`.
    pub(super) fn sabotaged_charge(&self, request: paternoster_core::RequestId, right: i64) -> i64 {
        let client = Sabotage::Overcharges(self.client_of(request));
        if self.sabotage == client && !self.watchdog.fallen { 4 * right } else { right }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watchdog: does paternoster keep its own rules? If not, it shares plainly, and says so.
//!
//! Kept slots and seats make the device wait although somebody asks. That is meant to pay, and is
//! bounded. A fault in it would cost everybody, and nobody would know why. So somebody looks on who
//! does not share the rules' reasoning, only their bounds:
//!
//! ```text
//! stuck     nothing in the device, somebody waits, and nothing will come that could change it
//! idle      more was idled away than the credit allows, or than bargains could cost
//! unfair    one who had something waiting all the time got less than his weight's part
//! ```
//!
//! The first is seen at once. The other two are judged by *windows* of 2 s of device time, or 64
//! turns if that is longer. In each of them one child of the root is looked at, the *sampled
//! child*: by turns the one that has had least, which finds what goes wrong behind the accounts,
//! and the one that comes first, which finds what goes wrong in them.
//!
//! ```text
//! three children of equal weight, one of them the sampled child, 2 s      right: 667 ms
//!   it must have 3/4 of that, less two turns and the requests in the device
//! ```
//!
//! One who is behind that much is rarely so by chance, and the same one twice running never: turns
//! on disks that differ have been seen to come unevenly for ten seconds, and to make up for it.
//! Then the elevator *falls back*: no seats, no kept slots, no trying; accounts alone decide, which
//! is plain fair queueing. After a gap, which doubles each time, the rules are tried again.
//!
//! # Invariants
//! I1  O(1) a call (and a step for each level of groups), integers, no allocation.
//! I2  While it has fallen back there are no seats, nothing is kept, and nobody is watched.
//! I3  No request is waited for, with an empty device, longer than the last window that was opened.
//!
//! Source: G3, G4, G7 of `docs/rules/adaptive.md`.

use crate::elevators::adaptive::Paternoster;
use crate::elevators::adaptive::account::{Ended, UNIT};
use crate::elevators::adaptive::choose::CREDIT_MOST;
use crate::elevators::adaptive::seats::Setting;
use crate::event::{Distrust, Note};
use crate::queue_view::QueueView;
use crate::slab::NIL;
use crate::time::Nanos;

/// A window has at least so much device time, and so many turns.
const WINDOW_LEAST: u64 = 2_000_000_000;
const WINDOW_TURNS: u64 = 64;
/// I3 holds but for this: nobody is accused for a timer that is late.
const GRACE: Nanos = Nanos::from_secs(1);
/// The first gap until the rules are tried again; it doubles up to this: 10 s, and 2.8 hours.
const GAP_FIRST: u64 = 10_000_000_000;
const GAP_MOST: u64 = GAP_FIRST << 10;
/// Whoever kept the rules for so many gaps starts with the first one again.
const GAPS_CALM: u64 = 8;

/// Why the device waits although somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// R2: a slot is kept, and paid for from the credit.
    Credit,
    /// R3: a slot is kept, and that is a bargain.
    Bargain,
    /// R5, S3, S4, L6: the last slots are spared, a seat's holder comes, what was its drains; a
    /// client that is ahead is held.
    Seats,
}

/// A wait that began with a pick, and ends with the next.
#[derive(Debug, Clone, Copy)]
struct Pause {
    since: Nanos,
    until: Nanos,
    /// Nothing is in the device.
    empty: bool,
    reason: Reason,
}

/// Who is looked at.
#[derive(Debug, Clone, Copy)]
struct Sampled {
    node: u32,
    /// Device time that it had, and that those had who stand no higher than it.
    served: u64,
    all: u64,
    /// The most that everybody weighed who asked at a time.
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
    /// The dearest request in virtual time.
    dearest: i64,
    /// The least weight of a child of the root that was served.
    lightest: Option<u32>,
    sampled: Option<Sampled>,
}

/// The one who looks on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watchdog {
    /// The rules are off.
    fallen: bool,
    /// When they are tried again.
    again: Nanos,
    gap: u64,
    armed_since: Nanos,
    /// No window of R1 is open behind this.
    latest: Nanos,
    /// Since when somebody waits although nothing is in the device.
    empty_since: Option<Nanos>,
    pause: Option<Pause>,
    window: Window,
    /// The sampled child of this window is to be the one that comes first.
    by_arrival: bool,
    /// Of each sort of sampled child: who had too little last time, and is looked at again.
    suspects: [Option<u32>; 2],
}

impl Watchdog {
    /// Accounts alone decide.
    pub(super) const fn has_fallen(&self) -> bool {
        self.fallen
    }

    /// Weights or policy are others: what was counted says nothing.
    pub(super) fn look_anew(&mut self) {
        self.window = Window::default();
    }

    /// R1: a window was opened.
    pub(super) fn opened(&mut self, until: Nanos) {
        self.latest = self.latest.max(until);
    }

    /// What was waited since the last pick, as far as it was meant.
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

    /// A request goes: nobody is stuck.
    pub(super) fn goes(&mut self) {
        self.empty_since = None;
    }

    /// Nothing goes until then, although somebody waits. Whether that breaks I3.
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
        // A bargain waits for half of what its own request then takes, at most.
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
    /// A request arrives: perhaps its owner is the next sampled child.
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

    /// A window is over.
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
        // Who is above it owes it nothing; and whoever asks for nothing is owed nothing.
        sampled.all += if class >= own.class { took } else { 0 };
        sampled.served += if top == sampled.node { took } else { 0 };
        // Who has just had his answer is about to ask again, and counts.
        sampled.weights = sampled.weights.max(ended.weights);
        // In a shared stream one has no more than its pace allows.
        let together = self.clients.get(sampled.node as usize).is_some_and(|one| one.is_together);
        if own.waiting() == 0 || own.parent == NIL || together {
            window.sampled = None;
        }
    }

    /// The device was kept for a client that has a seat, for so long: it paid for that.
    pub(super) fn watch_seat_time(&mut self, client: u32, waited: u64) {
        let Some(sampled) = self.watchdog.window.sampled else { return };
        let top = self.accounts.top_of(client);
        let counts = self.accounts.at(top).class >= self.accounts.at(sampled.node).class;
        if let Some(sampled) = &mut self.watchdog.window.sampled {
            sampled.all += if counts { waited } else { 0 };
            sampled.served += if top == sampled.node { waited } else { 0 };
        }
    }

    /// Nobody is looked at, and it is not for those who come to be it.
    #[inline(always)]
    fn choose_sampled(&mut self) {
        if !self.watchdog.by_arrival && self.waiting() > 0 {
            let suspect = self.watchdog.suspects[0];
            let waits = |&node: &u32| self.accounts.at(node).waiting() > 0;
            let first = suspect.filter(waits).or_else(|| self.accounts.first_child());
            self.watchdog.window.sampled = first.map(|node| self.sampled_at(node));
        }
    }

    /// From now on accounts alone decide; until some time, or until told, without a reason.
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

/// A rule that is broken on purpose, so that the watchdog is seen to bark; until it has.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sabotage {
    /// None is.
    #[default]
    None,
    /// R4: a slot is kept whatever the credit.
    Spendthrift,
    /// S3: nobody with a seat is let go.
    EmptySeats,
    /// G2: this client goes only if nobody else waits.
    PassesOver(u32),
    /// cooperate I3: whoever is in a shared stream is held back, whatever for.
    HoldsBack,
    /// G1: this client pays four times what its requests take.
    Overcharges(u32),
}

#[cfg(test)]
impl Paternoster {
    /// Who goes instead of `right`.
    pub(super) fn sabotaged_choice(&self, right: Option<u32>, now: Nanos) -> Option<u32> {
        use crate::elevators::adaptive::account::{CROWD, STREAM};
        match self.sabotage {
            Sabotage::PassesOver(client) if !self.watchdog.fallen => {
                self.accounts.first(&[CROWD, STREAM], now, &|one| one == client).or(right)
            }
            Sabotage::EmptySeats if self.seats.most.is_some() => None,
            _ => right,
        }
    }

    /// What is paid instead of `right` for a request.
    pub(super) fn sabotaged_charge(&self, request: crate::request::RequestId, right: i64) -> i64 {
        let client = Sabotage::Overcharges(self.client_of(request));
        if self.sabotage == client && !self.watchdog.fallen { 4 * right } else { right }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overdue: a client that waits for much longer than it is used to has one request first (S10).
//!
//! Accounts say what each client has had, and in the long run they are right. But what requests
//! cost changes: a disk's cache is full, and a write takes 20 ms, not 20 us; a command takes four
//! seconds, since the drive could not read a sector. Then a client that was level a moment ago is
//! ahead by seconds, and would wait until the others have had as much:
//!
//! ```text
//! five readers, 15 ms a read; one of b takes 4 s     a b------------ c d e a c d e a c d e a …
//! by account b waits until the other four have had 4 s each, for 16 s
//! ```
//!
//! So every 20 ms some clients are looked at. One is *overdue* if its oldest request has waited for
//! 0.7 s (0.85 where there are seats), and for two and a half times as long as all that it has
//! outstanding usually takes. The one that is overdue by most has one request, ahead of all of its
//! class, and pays for it as usual. A client of little weight that has always waited for ten
//! seconds is used to that, and is not overdue:
//!
//! ```text
//! 1 outstanding, usually one in 75 ms     2.5 * 75 ms is less than 0.7 s, which counts
//! 8 outstanding, usually one in 3.3 s     2.5 * 8 * 3.3 s = 66 s
//! ```
//!
//! On a disk a request out of turn costs two ways of the arm. With twice the usual, and a ninth of
//! the time, 256 clients of one request each took that ninth for ever, since in a sweep many wait
//! for twice as long as usual: three disks did 83 to 96 % of what they do without this rule, and do
//! 90 to 98 % now.
//!
//! One that is ahead may also sleep for a request, and find none as long as others that have had
//! less sleep, too. Once it has slept for half a second it has the next one that is free.
//!
//! # Invariants
//! I1  After a request that goes first here and takes t, no other does for 16 t, or for 0.6 s if
//!     that is less.
//! I2  Requests that go first here change what is usual by a 64th, others by a quarter, and each
//!     span counts as twice the usual at most. So for a client that only goes first each wait
//!     makes the next one longer by a 64th of itself at most: after a time t it waits for 0.7 s and
//!     t / 64 at most. By a quarter it would soon be used to any wait; if they did not count, a
//!     client whose weight is less than it was would go first for ever.
//!
//! Source: S10 of `docs/rules/adaptive.md`.

use alloc::vec::Vec;

use crate::adaptive::access_pattern::blend;
use crate::adaptive::account::Accounts;
use crate::adaptive::clients::Clients;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// Between two looks.
const LOOK_EVERY: Nanos = Nanos::from_millis(20);
/// So many clients are looked at each time.
const LOOKS_MOST: usize = 64;
/// I1: after a client has gone first, so many times what that takes, but no longer than this: what
/// it takes is an estimate, and after a command of seconds that is much too high.
const COST_TIMES: u64 = 16;
const PAUSE_MOST: Nanos = Nanos::from_millis(600);
/// A client is overdue after this time at the earliest: a second is what it may have to wait at
/// most, and the device has to serve it yet.
const WAIT_LEAST: Nanos = Nanos::from_millis(700);
/// Where there are seats it is after this time: a lap of turns takes 0.8 s (S5).
const LAP_LEAST: Nanos = Nanos::from_millis(850);
/// And after this many halves of what its requests usually take; three times is what it may have to
/// wait.
const USUAL_HALVES: u64 = 5;
/// One that sleeps for a request has the next one after this time. It has yet to wait for its turn.
const SLEEP_MOST: Nanos = Nanos::from_millis(500);
/// What is usual is learned from spans of this length and more.
const SPAN: Nanos = Nanos::from_millis(500);
/// I2: a span changes it by one part of 2^2, and a request that goes first by one of 2^6.
const BLEND: u32 = 2;
const BLEND_FIRST: u32 = 6;

/// What a client is used to.
#[derive(Debug, Clone, Copy, Default)]
struct Usual {
    /// Since when it sleeps for a request, if it does.
    asleep: Nanos,
    /// Since when it is counted, and how many of its requests had gone then, modulo 2^16.
    since: Nanos,
    gone: u16,
    /// From one of its requests to the next, in ns; 0 until it is known.
    each: u64,
}

impl Usual {
    /// A client with something waiting or in the device has had so many.
    fn note(&mut self, gone: u16, now: Nanos) {
        if self.since == Nanos::ZERO {
            (self.since, self.gone) = (now, gone);
        } else if now - self.since >= SPAN && gone != self.gone {
            self.learn(gone, now, BLEND);
        }
    }

    /// From what it has had since it is counted; it is counted anew.
    fn learn(&mut self, gone: u16, now: Nanos, shift: u32) {
        let (span, had) = ((now - self.since).0, u64::from(gone.wrapping_sub(self.gone)).max(1));
        let most = if self.each == 0 { u64::MAX } else { 2 * self.each };
        self.each = blend(self.each, most.min(span / had), shift);
        (self.since, self.gone) = (now, gone);
    }

    /// For how long a request may wait, of so many outstanding.
    fn limit(&self, outstanding: u32, has_seats: bool) -> u64 {
        let least = if has_seats { LAP_LEAST } else { WAIT_LEAST };
        least.0.max(self.each.saturating_mul(USUAL_HALVES * u64::from(outstanding)) / 2)
    }
}

/// Which clients are overdue.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    next_look: Nanos,
    /// The client that was looked at last.
    at: usize,
    /// By client.
    usual: Vec<Usual>,
}

impl Overdue {
    /// For this many clients.
    pub(super) fn new(clients: u32) -> Overdue {
        let usual = (0..clients).map(|_| Usual::default()).collect();
        Overdue { usual, ..Overdue::default() }
    }

    /// Whether it is time to look.
    #[inline(always)]
    pub(super) fn is_time(&self, now: Nanos) -> bool {
        now >= self.next_look
    }

    /// A client sleeps for a request from now on.
    pub(super) fn sleeps(&mut self, client: u32, now: Nanos) {
        self.usual[client as usize].asleep = now;
    }

    /// Whether a client that sleeps for a request has slept for long.
    pub(super) fn has_slept(&self, client: u32, now: Nanos) -> bool {
        now - self.usual[client as usize].asleep > SLEEP_MOST
    }

    /// This number belongs to another client now.
    pub(super) fn reset(&mut self, client: u32) {
        self.usual[client as usize] = Usual::default();
    }

    /// The client that is overdue by most, of those looked at, and its oldest request.
    #[inline(never)]
    pub(super) fn look(
        &mut self,
        view: &QueueView,
        (accounts, clients): (&Accounts, &Clients),
        has_seats: bool,
        now: Nanos,
    ) -> Option<(u32, RequestId)> {
        self.next_look = now + LOOK_EVERY;
        let first = accounts.first_of_all(now)?;
        let mut most: Option<(u64, u32, RequestId)> = None;
        for _ in 0..LOOKS_MOST.min(self.usual.len()) {
            self.at = (self.at + 1) % self.usual.len();
            let client = u32::try_from(self.at).unwrap_or(0);
            let (own, node) = (clients.at(client), accounts.at(client));
            let usual = &mut self.usual[self.at];
            let outstanding = node.waiting() + node.flying;
            if outstanding == 0 && own.pattern.expected == 0 {
                usual.since = Nanos::ZERO;
                continue;
            }
            usual.note(own.gone(), now);
            let Some(oldest) = own.lane.oldest() else { continue };
            let limit = usual.limit(outstanding, has_seats);
            let by = (now - view.request(oldest).start()).0.saturating_sub(limit);
            let is_most = by > most.map_or(0, |(most, ..)| most);
            if is_most && accounts.are_of_one_class(client, first) {
                most = Some((by, client, oldest));
            }
        }
        most.map(|(_, client, oldest)| (client, oldest))
    }

    /// A client has gone first, which takes so many ns; so many of its requests have gone now.
    pub(super) fn went(&mut self, client: u32, gone: u16, ns: u64, now: Nanos) {
        self.usual[client as usize].learn(gone, now, BLEND_FIRST);
        let pause = PAUSE_MOST.min(Nanos(ns.saturating_mul(COST_TIMES)));
        self.next_look = self.next_look.max(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// What a client is used to that had so many requests in each span, of so many ms.
    fn used_to(spans: &[(u64, u16)]) -> Usual {
        let (mut usual, mut now, mut gone) = (Usual::default(), ms(100), 7);
        usual.note(gone, now);
        for &(span, had) in spans {
            (now, gone) = (now + ms(span), gone + had);
            usual.note(gone, now);
        }
        usual
    }

    /// S10: for how long may a request wait? Ten a second, one outstanding: 2.5 * 100 ms is less
    /// than 0.7 s. Of eight outstanding, one in 3 s, a request may wait for 2.5 * 8 * 3 s.
    #[test]
    fn s10_a_request_may_wait_for_more_than_twice_what_is_usual() {
        let often = used_to(&[(1000, 10)]);
        assert_eq!(often.each, 100_000_000);
        assert_eq!([1, 4].map(|of| often.limit(of, false)), [700_000_000, 1_000_000_000]);
        assert_eq!([1, 4].map(|of| often.limit(of, true)), [850_000_000, 1_000_000_000]);
        assert_eq!(used_to(&[(3000, 1)]).limit(8, false), 60_000_000_000);
        // Nothing went, or for too short a time: not known.
        assert_eq!(used_to(&[(3000, 0)]).limit(8, false), 700_000_000);
        assert_eq!(used_to(&[(499, 10)]).limit(8, false), 700_000_000);
    }

    /// I2: a span changes what is usual by a quarter, one that goes first by a 64th of the
    /// difference: (3 * 400 + 600) / 4 = 450 ms, and (63 * 450 + 770) / 64 = 455. More than twice
    /// the usual counts as twice: (3 * 400 + 800) / 4.
    #[test]
    fn i2_what_is_usual_changes_by_a_quarter_or_a_64th() {
        let mut usual = used_to(&[(800, 2), (600, 1)]);
        assert_eq!(usual.each, 450_000_000);
        usual.learn(usual.gone + 1, usual.since + ms(770), BLEND_FIRST);
        assert_eq!(usual.each, 455_000_000);
        assert_eq!(used_to(&[(800, 2), (9000, 1)]).each, 500_000_000);
    }

    /// I1: after one that takes 10 ms none goes first for 160 ms, after one of 100 ms for 600.
    #[test]
    fn i1_what_goes_first_has_a_17th_of_the_time() {
        for (takes, until) in [(1, 16), (10, 160), (100, 600)] {
            let mut overdue = Overdue::new(2);
            overdue.went(1, 1, takes * 1_000_000, ms(500));
            assert!(!overdue.is_time(ms(499 + until)) && overdue.is_time(ms(500 + until)));
        }
    }

    /// S10: does one that sleeps for a request have the next one after half a second, each time
    /// anew?
    #[test]
    fn s10_one_that_sleeps_has_the_next_request_after_half_a_second() {
        let mut overdue = Overdue::new(2);
        for since in [100, 900] {
            overdue.sleeps(1, ms(since));
            let after = |wait| overdue.has_slept(1, ms(since + wait));
            assert_eq!([0, 500, 501].map(after), [false, false, true]);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates: the least and the most that a class gets, in bytes and requests a second.
//!
//! Each of the two has a clock that says until when past permits are paid for. A permit of 200 kB:
//!
//! ```text
//! cap 1 MB/s      paid until 0 + 200 ms: the next may go when 100 ms of it are left, at 100 ms
//! floor 1 MB/s    behind while its clock is in the past: then its next goes before all others
//! ```
//!
//! Both clocks move as permits are granted. Asks that a cap has let into the queue and that are not
//! granted yet are *promised*, and count as well: otherwise a class that the queue holds up would
//! be let in without end, and go all at once.
//!
//! # Invariants
//! I1  Within any time t a class of cap r is granted at most `r * (t + BURST)` and one permit.
//! I2  A floor's clock is at most [`BURST`] (and one permit) away from now, in both directions:
//!     extra service in the past is no debt, and a lack in the past is not made up for.
//!
//! Source: the virtual clock of Zhang (1990); floors as reservation tags of mClock (2010).

use paternoster_core::Nanos;

/// How far ahead of its cap a class may be, and how far a floor's clock may be from now.
pub(super) const BURST: u64 = 100_000_000;
/// A permit costs at most this long: 11 days. Sums of many stay within 64 bits.
const COST_MOST: u64 = 1_000_000_000_000_000;

/// Bytes and requests a second; 0: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Bytes of the permits that are granted in a second.
    pub bytes: u64,
    /// Permits that are granted in a second.
    pub requests: u64,
}

impl Rate {
    /// No rate.
    pub const NONE: Rate = Rate { bytes: 0, requests: 0 };

    /// This many bytes a second.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Rate {
        Rate { bytes, requests: 0 }
    }

    /// This many permits a second.
    #[must_use]
    pub const fn requests(requests: u64) -> Rate {
        Rate { bytes: 0, requests }
    }

    /// Whether it sets any rate.
    #[must_use]
    pub const fn is_said(&self) -> bool {
        self.bytes != 0 || self.requests != 0
    }

    /// How long a permit of `len` bytes takes at this rate, by bytes and by requests.
    fn costs(self, len: u64) -> [u64; 2] {
        let cost = |amount: u64, rate: u64| {
            let ns = u128::from(amount) * 1_000_000_000 / u128::from(rate.max(1));
            if rate == 0 { 0 } else { u64::try_from(ns).unwrap_or(COST_MOST).min(COST_MOST) }
        };
        [cost(len, self.bytes), cost(1, self.requests)]
    }

    fn is_said_by(self) -> [bool; 2] {
        [self.bytes != 0, self.requests != 0]
    }
}

/// The most that a class gets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cap {
    rate: Rate,
    paid: [u64; 2],
    promised: [u64; 2],
}

impl Cap {
    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Sets another rate from now on. Past payments stay; the caller must promise again.
    pub(super) fn set(&mut self, rate: Rate) {
        self.rate = rate;
        self.promised = [0; 2];
        for (paid, said) in self.paid.iter_mut().zip(rate.is_said_by()) {
            *paid = if said { *paid } else { 0 };
        }
    }

    /// When the next may be let in, if nothing else happens.
    pub(super) fn opens(&self, now: Nanos) -> Nanos {
        let mut opens = 0;
        for (paid, promised) in self.paid.into_iter().zip(self.promised) {
            // Time before now has no value.
            let ahead = paid.max(now.0).saturating_add(promised);
            opens = opens.max(ahead.saturating_sub(BURST));
        }
        Nanos(opens)
    }

    pub(super) const fn promised(&self) -> [u64; 2] {
        self.promised
    }

    pub(super) fn promise(&mut self, len: u64) {
        for (promised, cost) in self.promised.iter_mut().zip(self.rate.costs(len)) {
            *promised = promised.saturating_add(cost);
        }
    }

    /// A promise ends: its ask was withdrawn, or is granted now.
    pub(super) fn release(&mut self, len: u64) {
        for (promised, cost) in self.promised.iter_mut().zip(self.rate.costs(len)) {
            *promised = promised.saturating_sub(cost);
        }
    }

    /// A permit is granted.
    pub(super) fn pay(&mut self, now: Nanos, len: u64) {
        for (paid, cost) in self.paid.iter_mut().zip(self.rate.costs(len)) {
            if cost > 0 {
                *paid = (*paid).max(now.0).saturating_add(cost);
            }
        }
    }
}

/// The least that a class gets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Floor {
    rate: Rate,
    paid: [u64; 2],
}

impl Floor {
    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Another rate, from now on.
    pub(super) const fn set(&mut self, now: Nanos, rate: Rate) {
        self.rate = rate;
        self.paid = [now.0; 2];
    }

    /// The class begins to ask again: nothing is owed for the time when it did not.
    pub(super) fn begins(&mut self, now: Nanos) {
        for paid in &mut self.paid {
            *paid = (*paid).max(now.0);
        }
    }

    /// The time from which on it is behind its floor; `None` if it has no floor.
    pub(super) fn behind(&self) -> Option<Nanos> {
        let said = self.paid.into_iter().zip(self.rate.is_said_by());
        said.filter_map(|(paid, is_said)| is_said.then_some(Nanos(paid))).min()
    }

    /// A permit is granted, by whatever order (I2).
    pub(super) fn pay(&mut self, now: Nanos, len: u64) {
        for (paid, cost) in self.paid.iter_mut().zip(self.rate.costs(len)) {
            let least = now.0.saturating_sub(BURST);
            let most = now.0.saturating_add(BURST).max(least.saturating_add(cost));
            *paid = (*paid).max(least).saturating_add(cost).min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the example above hold?
    #[test]
    fn a_cap_is_paid_for_before_the_next() {
        let mut cap = Cap::default();
        cap.set(Rate::bytes(1_000_000));
        cap.pay(Nanos(0), 200_000);
        assert_eq!(cap.opens(Nanos(0)), Nanos::from_millis(100));
        // And promises count: 50 kB are 50 ms.
        cap.promise(50_000);
        assert_eq!(cap.opens(Nanos(0)), Nanos::from_millis(150));
        cap.release(50_000);
        assert_eq!(cap.opens(Nanos(0)), Nanos::from_millis(100));
        // Nothing is saved up while idle, except the burst: a second's worth at 100 s.
        let now = Nanos::from_secs(100);
        cap.pay(now, 1_000_000);
        assert_eq!(cap.opens(now), now + Nanos::from_millis(900));
    }

    /// Is a floor's clock never farther than a tenth of a second from now, whatever it got?
    #[test]
    fn a_floor_forgets() {
        let mut floor = Floor::default();
        floor.set(Nanos(0), Rate::requests(100));
        assert_eq!(floor.behind(), Some(Nanos(0)));
        (0..1000).for_each(|_| floor.pay(Nanos(0), 4096));
        assert_eq!(floor.behind(), Some(Nanos(BURST)));
        // At 10 s it lacks 990; 100 ms of it are 10, and one of them is granted.
        let now = Nanos::from_secs(10);
        floor.pay(now, 4096);
        assert_eq!(floor.behind(), Some(Nanos(now.0 - BURST + 10_000_000)));
        floor.begins(now);
        assert_eq!(floor.behind(), Some(now));
    }

    /// Do the largest numbers cause no fault?
    #[test]
    fn hostile_numbers() {
        let (mut cap, mut floor) = (Cap::default(), Floor::default());
        for rate in [Rate { bytes: 1, requests: 1 }, Rate { bytes: u64::MAX, requests: u64::MAX }] {
            cap.set(rate);
            floor.set(Nanos(u64::MAX), rate);
            for len in [0, 1, u64::MAX] {
                cap.promise(len);
                cap.pay(Nanos(u64::MAX), len);
                cap.release(len);
                floor.pay(Nanos(u64::MAX), len);
                assert_eq!(cap.opens(Nanos(u64::MAX)), Nanos(u64::MAX - BURST));
            }
        }
    }
}

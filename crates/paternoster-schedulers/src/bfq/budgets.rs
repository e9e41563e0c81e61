// SPDX-License-Identifier: MIT OR Apache-2.0
//! Budgets: how much a queue may be served in one turn.
//!
//! The largest budget is what the device serves within the budget timeout, or set by hand. Why a
//! turn ended says what the next should be like. A queue that used up its budget gets four times as
//! much, one that ran out of time twice as much, one that kept the device waiting less:
//!
//! ```text
//! budget 10922 of at most 16384, at least 512
//! exhausted 16384   too idle 14336, 12288 … 2048, 512   no more requests: what it was served
//! ```
//!
//! # Invariants
//! I1  Until eleven turns have been seen, budgets are computed from the default.
//!
//! Source: BFQ-56 to BFQ-60, BFQ-79.

use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::queue::Queue;
use crate::bfq::rate;
use paternoster_core::event::Expiry;
use paternoster_core::time::Nanos;

/// The largest budget, until enough turns have been seen.
pub(super) const DEFAULT: u64 = 16 * 1024;
/// The smallest budget is this part of it.
const MIN_PARTS: u64 = 32;
/// Running mean of turns from which budgets follow the rate: eleven turns.
const ENOUGH_TURNS: u64 = 194;

/// The largest budget, and whether it can be trusted.
#[derive(Debug)]
pub(super) struct Budgets {
    /// Running mean of turns, times 256: how many budgets were assigned.
    turns: u64,
    /// Derived from the rate, or set by hand.
    largest: u64,
}

impl Budgets {
    /// Set by hand; 0 if not.
    pub(super) const fn new(by_hand: u64) -> Budgets {
        Budgets { turns: 0, largest: if by_hand == 0 { DEFAULT } else { by_hand } }
    }

    /// The largest budget.
    #[inline]
    pub(super) const fn largest(&self) -> u64 {
        self.largest
    }

    /// The largest budget, as far as it can be trusted.
    #[inline]
    pub(super) const fn usual(&self) -> u64 {
        if self.turns < ENOUGH_TURNS { DEFAULT } else { self.largest }
    }

    /// The smallest budget.
    #[inline]
    pub(super) const fn least(&self) -> u64 {
        self.usual() / MIN_PARTS
    }

    /// A budget is assigned.
    #[inline]
    pub(super) const fn turn_begins(&mut self) {
        self.turns = (7 * self.turns + 256) / 8;
    }

    /// The largest budget is set by hand.
    pub(super) const fn set(&mut self, largest: u64) {
        self.largest = largest;
    }

    /// The largest budget follows the device's rate.
    pub(super) fn follow(&mut self, rate: u64, timeout: Nanos) {
        self.largest = rate::budget_at(rate, timeout);
        probe(None, ProbePoint::MaxBudget { budget: self.largest });
    }

    /// The largest budget that a queue has been able to ask for so far.
    #[inline]
    pub(super) fn last_of(&self, home: &Queue) -> u64 {
        if home.raising.is_raised() { 2 * self.least() } else { home.max_budget }
    }

    /// What a queue asks for in its next turns, after one that ended for this reason and served
    /// this much; `None`: as before (BFQ-57 to BFQ-59).
    #[inline]
    pub(super) fn next(
        &self,
        home: &Queue,
        why: Expiry,
        served: u64,
        by_hand: bool,
    ) -> Option<u64> {
        let (least, most, before) = (self.least(), self.largest, home.max_budget);
        let budget = if home.raising.is_raised() {
            2 * least
        } else if !home.is_sync {
            most
        } else {
            match why {
                Expiry::TooIdle if home.in_flight > 0 => before.saturating_mul(2).min(most),
                Expiry::TooIdle if before > 5 * least => before - 4 * least,
                Expiry::TooIdle => least,
                Expiry::BudgetTimeout => before.saturating_mul(2).min(most),
                Expiry::BudgetExhausted => before.saturating_mul(4).min(most),
                Expiry::NoMoreRequests => served.max(least),
                Expiry::Preempted => return None,
            }
        };
        let bounded = self.turns >= ENOUGH_TURNS && !by_hand;
        Some(if bounded { budget.min(most) } else { budget })
    }

    /// Running mean of turns, times 256.
    #[cfg(test)]
    pub(super) const fn turns(&self) -> u64 {
        self.turns
    }

    /// As if so many turns had been seen.
    #[cfg(test)]
    pub(super) const fn set_turns(&mut self, turns: u64) {
        self.turns = turns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the eleventh turn reach the mean of 194, from which the largest budget is trusted?
    /// t = (7 t + 256) / 8: 32 60 84 105 123 139 153 165 176 186 194.
    #[test]
    fn the_eleventh_turn_is_enough() {
        let mut budgets = Budgets::new(5000);
        for turn in 1..=12 {
            budgets.turn_begins();
            let usual = if turn < 11 { DEFAULT } else { 5000 };
            assert_eq!((budgets.usual(), budgets.least()), (usual, usual / 32), "turn {turn}");
        }
    }

    /// Does a queue of 10922 ask for what the example above says?
    #[test]
    fn what_a_queue_asks_for_next() {
        let budgets = Budgets::new(0);
        let next = |before, in_flight, why| {
            let home = Queue { is_sync: true, in_flight, max_budget: before, ..Queue::default() };
            budgets.next(&home, why, 700, false)
        };
        assert_eq!(next(10_922, 0, Expiry::BudgetExhausted), Some(16_384));
        assert_eq!(next(4000, 0, Expiry::BudgetExhausted), Some(16_000));
        assert_eq!(next(4000, 0, Expiry::BudgetTimeout), Some(8000));
        assert_eq!(next(16_384, 0, Expiry::TooIdle), Some(14_336), "less four times 512");
        assert_eq!(next(2560, 0, Expiry::TooIdle), Some(512), "not above five times 512");
        assert_eq!(next(4000, 1, Expiry::TooIdle), Some(8000), "a request is in flight");
        assert_eq!(next(4000, 0, Expiry::NoMoreRequests), Some(700));
        assert_eq!(next(4000, 0, Expiry::Preempted), None);
        let writes = Queue { max_budget: 4000, ..Queue::default() };
        assert_eq!(budgets.next(&writes, Expiry::TooIdle, 700, false), Some(16_384));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credit: what may be idled away, and the slots that are kept for others (rules R2 to R4).
//!
//! A slot is kept for a client that has had less and is about to ask again, if that is worth while:
//! it thinks for less time than its requests take, and for at most half the time that the request
//! that could go now would hold it up; and there is *credit*: a 32nd of each second of device time
//! may be idled away, and no more. It is a *bargain*, which needs no credit, if the client thinks
//! for a quarter of its own request's time and a 16th of the candidate's.
//!
//! ```text
//! thinks for   own request   candidate's
//!   20 us         100 us        400 us      a bargain: 20 <= 100 / 4, 20 <= 400 / 16
//!   40 us         100 us        400 us      on credit
//!  120 us         100 us        400 us      not waited for
//! ```
//!
//! # Invariants
//! I1  Credit is at most [`CREDIT_MOST`]; only waits that are no bargains cost any, each once.
//!
//! Source: R2 to R4 of `docs/rules/adaptive.md`.

use crate::adaptive::access_pattern::AccessPattern;
use crate::adaptive::pause::Reason;
use paternoster_core::time::Nanos;

/// R4: saved credit is at most this.
pub(super) const CREDIT_MOST: i64 = 100_000_000;

/// Since when the device has been waiting for a client, and which client pays for the wait.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    since: Nanos,
    /// The device is empty.
    idle: bool,
    /// Every client waited for is a bargain.
    bargain: bool,
}

/// The slots kept for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) slots: u32,
    pub(super) until: Nanos,
    pub(super) bargain: bool,
}

impl Reserved {
    /// One of the last slots, which are spared for clients with one request (R5).
    pub(super) const SPARED: Reserved = Reserved { slots: 1, until: Nanos::MAX, bargain: true };

    /// Why the device waits then.
    pub(super) const fn reason(self) -> Reason {
        match (self.until, self.bargain) {
            (Nanos::MAX, _) => Reason::Seats,
            (_, true) => Reason::Bargain,
            (_, false) => Reason::Credit,
        }
    }
}

/// What may be idled away, and the slot that is kept at present.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Credit {
    /// R4: what may be idled away, in ns; below zero it is overdrawn.
    credit: i64,
    keeping: Option<Reservation>,
    /// How long a slot was kept free while requests waited.
    kept_time: u64,
}

impl Credit {
    /// A slot is kept from now on; `idle`: the device is empty.
    pub(super) const fn keep(&mut self, kept: Reserved, idle: bool, now: Nanos) {
        self.keeping = Some(Reservation { since: now, idle, bargain: kept.bargain });
    }

    /// Nothing is kept any more, and nothing is paid for it.
    pub(super) const fn keep_nothing(&mut self) {
        self.keeping = None;
    }

    /// Whether a slot is kept.
    pub(super) const fn keeps(&self) -> bool {
        self.keeping.is_some()
    }

    /// R4: pays for the time waited since the last call, on a device that takes `depth` commands.
    #[inline]
    pub(super) fn pay_for_waiting(&mut self, now: Nanos, depth: u32) {
        if self.keeping.is_some() {
            self.pay_what_was_waited(now, depth);
        }
    }

    fn pay_what_was_waited(&mut self, now: Nanos, depth: u32) {
        let Some(keeping) = self.keeping.take() else { return };
        let waited = (now - keeping.since).0;
        self.kept_time += waited;
        if !keeping.bargain {
            let slots = if keeping.idle { 1 } else { u64::from(depth) };
            self.credit -= i64::try_from(waited / slots).unwrap_or(i64::MAX);
        }
    }

    /// R4: device time was used; one part in `strictness` of it may be idled away.
    #[inline(always)]
    pub(super) fn earn(&mut self, took: u64, strictness: u64) {
        if self.credit == CREDIT_MOST {
            return;
        }
        let part = (took / strictness).min(CREDIT_MOST.unsigned_abs());
        self.credit = (self.credit + part.cast_signed()).min(CREDIT_MOST);
    }

    /// Whether anything may be idled away.
    pub(super) const fn is_left(&self) -> bool {
        self.credit > 0
    }

    /// For how long a slot was kept although requests waited, in ns.
    pub(super) const fn kept_time(&self) -> u64 {
        self.kept_time
    }
}

/// R3: whether a client is worth waiting for when a request that costs `price` is held up; and
/// whether that is a bargain.
#[inline(always)]
pub(super) fn is_worth(pattern: &AccessPattern, price: u64, has_credit: bool) -> Option<bool> {
    let time = pattern.patience();
    let own = pattern.latency;
    if time > own.max(pattern.cost) || 2 * time > price.max(own) {
        return None;
    }
    let bargain = 4 * time <= own && 16 * time <= price;
    (bargain || has_credit).then_some(bargain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The module's table.
    #[test]
    fn r3_what_is_worth_a_wait() {
        let thinks = |think| {
            let mut pattern = AccessPattern::default();
            (pattern.think, pattern.latency) = (think, 100);
            pattern
        };
        for (think, on_credit, without) in
            [(20, Some(true), Some(true)), (40, Some(false), None), (120, None, None)]
        {
            assert_eq!(is_worth(&thinks(think), 400, true), on_credit, "{think}");
            assert_eq!(is_worth(&thinks(think), 400, false), without, "{think}");
        }
    }

    /// R4: is a 32nd of the device time saved, up to a tenth of a second, and paid by the slot: 32
    /// ms of waiting with one of 32 slots are 1 ms, with an empty device 32; a bargain is free?
    #[test]
    fn r4_what_is_saved_is_spent() {
        let mut credit = Credit::default();
        assert!(!credit.is_left());
        credit.earn(320_000_000, 32);
        assert_eq!(credit.credit, 10_000_000);
        for (idle, bargain, left) in
            [(false, false, 9_000_000), (true, false, -23_000_000), (true, true, -23_000_000)]
        {
            let kept = Reserved { slots: 1, until: Nanos::MAX, bargain };
            credit.keep(kept, idle, Nanos::ZERO);
            credit.pay_for_waiting(Nanos::from_millis(32), 32);
            assert_eq!((credit.credit, credit.keeps()), (left, false));
        }
        assert_eq!(credit.kept_time(), 96_000_000);
        // One request saves a tenth of a second at most.
        credit.earn(u64::MAX, 1);
        assert_eq!(credit.credit, 77_000_000);
        credit.earn(u64::MAX, 1);
        assert_eq!(credit.credit, CREDIT_MOST);
    }
}

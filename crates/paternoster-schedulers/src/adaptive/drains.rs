// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drains: random writes pay for the flush that will drain them when they end (C9).
//!
//! A disk takes a random write into its cache in 0.1 ms, and a flush drains it in 4 ms. Charged
//! when the flush ends, a writer fills the cache with a thousand in the meantime, and the client
//! that syncs waits for 4 s:
//!
//! ```text
//! at the end    |w w w w w … 1000 of 0.1 ms|             flush 4 s             | now it owes 4 s
//! ahead         |w pays 4 ms|the other's turn: its write| flush 4 ms |w pays 4 ms| …
//! ```
//!
//! What a write costs is learned from what flushes cost those that wrote at random, divided by how
//! many writes they had. A flush charges only what was not paid ahead, and gives back what was too
//! much. While no client syncs nothing is paid: then the device drains when it likes, and C8 has
//! the rules.
//!
//! # Invariants
//! I1  No client has paid more ahead than [`MOST`] for each of its writes since the last flush.
//! I2  `charged` is what accounts were charged for flushes, and not for requests (G1).
//!
//! Source: C9 of `docs/rules/adaptive.md`; own.

use alloc::vec;
use alloc::vec::Vec;

use paternoster_core::time::Nanos;

use crate::adaptive::access_pattern::blend;

/// The most that is paid ahead for a write.
const MOST: u64 = 16_000_000;
/// Writes in a flush from which what one costs is learned: of fewer, the flush itself is most.
const LEARNED_FROM: u64 = 8;
/// Paid ahead for so long after a flush.
const KEPT: Nanos = Nanos::from_secs(2);

/// What a client has written since the last flush.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    writes: u64,
    paid: u64,
}

/// What random writes pay for flushes ahead.
#[derive(Debug)]
pub(super) struct Drains {
    /// By client.
    written: Vec<Written>,
    /// What one costs, in ns.
    each: u64,
    /// The last flush that drained something.
    last: Option<Nanos>,
    /// I2, in ns.
    pub(super) charged: i64,
}

impl Drains {
    pub(super) fn new(clients: u32) -> Drains {
        Drains {
            written: vec![Written::default(); clients as usize],
            each: 0,
            last: None,
            charged: 0,
        }
    }

    /// No flush lately: nothing is paid ahead, and what was does not count any more.
    fn has_lapsed(&self, now: Nanos) -> bool {
        self.last.is_none_or(|last| last + KEPT < now)
    }

    /// A random write of `client` has ended: what it pays ahead, in ns.
    pub(super) fn wrote(&mut self, client: u32, now: Nanos) -> u64 {
        let has_lapsed = self.has_lapsed(now);
        let written = &mut self.written[client as usize];
        written.writes += 1;
        if has_lapsed {
            return 0;
        }
        written.paid += self.each;
        self.each
    }

    /// A flush has drained what `client` wrote, and took `cost` ns for that: what is left to pay;
    /// below zero if it has paid more.
    pub(super) fn drained(&mut self, client: u32, cost: u64, now: Nanos) -> i64 {
        let has_lapsed = self.has_lapsed(now);
        self.last = Some(now);
        let Written { writes, paid } = core::mem::take(&mut self.written[client as usize]);
        if writes >= LEARNED_FROM {
            self.each = blend(self.each, (cost / writes).min(MOST), 3);
        }
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if has_lapsed { cost } else { cost - paid.cast_signed() }
    }

    /// A client has gone.
    pub(super) fn forget(&mut self, client: u32) {
        self.written[client as usize] = Written::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// C9: is a write free before there was a flush, does it then cost what one in that flush did
    /// (40 / 10 ms), does the next flush charge only the rest, and is given back what was too much?
    #[test]
    fn c9_what_was_paid_ahead_is_not_paid_again() {
        let mut drains = Drains::new(2);
        let now = Nanos::from_millis(1);
        assert_eq!((0..10).map(|_| drains.wrote(0, now)).sum::<u64>(), 0);
        let ms = |ms: i64| ms * 1_000_000;
        assert_eq!(drains.drained(0, 40 * MS, now), ms(40));
        assert_eq!((0..10).map(|_| drains.wrote(0, now)).sum::<u64>(), 40 * MS);
        assert_eq!(drains.drained(0, 45 * MS, now), ms(5));
        assert_eq!(drains.drained(0, 2 * MS, now), ms(2), "it has written nothing since");
        // 7/8 * 4 + 4.5 / 8 ms.
        assert_eq!(drains.wrote(0, now), 4_062_500);
        assert_eq!(drains.drained(0, 3 * MS, now), -1_062_500);
        // Two seconds after the last flush no client seems to sync, and none has paid anything.
        assert_eq!(drains.wrote(0, now + KEPT), 4_062_500);
        assert_eq!(drains.wrote(0, now + KEPT + Nanos(1)), 0);
        assert_eq!(drains.drained(0, 2 * MS, now + KEPT + Nanos(1)), ms(2));
        drains.forget(0);
        assert_eq!(drains.drained(0, 2 * MS, now), ms(2));
    }

    /// C9: do few writes in a flush, of which the flush itself is most, teach nothing, and does one
    /// count as 16 ms at most? 7/8 * 10 + 16/8 = 10.75 ms.
    #[test]
    fn c9_what_a_write_costs_is_learned_of_many() {
        let mut drains = Drains::new(1);
        let now = Nanos::from_millis(1);
        for (writes, took, each) in [(7, 40, 0), (8, 80, 10 * MS), (8, 8000, 10_750_000)] {
            for _ in 0..writes {
                drains.wrote(0, now);
            }
            let _rest = drains.drained(0, took * MS, now);
            assert_eq!(drains.each, each, "{writes} writes");
        }
    }
}

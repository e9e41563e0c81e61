// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared changes: the ways from one stream's turn to the next are paid for by all streams, by how
//! long each reads (rule S8).
//!
//! The first requests of a turn pay for the way from where the last one ended. A client of low
//! weight has short turns, so that it need not wait long for the next one, and that way is a large
//! part of each. A stream at the edge of a disk has a long way in each lap. Neither has chosen
//! that: the elevator has, since it pays for all.
//!
//! ```text
//! weights 1 and 4, a change takes 8 ms    turns           reads           of its part
//! each pays for its own way               80 and 320 ms   72 and 312 ms   94 and 102 %
//! shared                                  85 and 315 ms   77 and 307 ms   100 and 100 %
//! ```
//!
//! So a stream gets back what its own way took, at the end of its turn: as much as the first half
//! of the turn took longer than the second did for as many sectors. (It is no more than twice what
//! that usually is, so that a client gains little that is slow at first.) What was given back goes
//! into a pool, and at the end of its turn each stream pays a part of the pool by how long it has
//! read. All together pay what all ways took; random clients pay for their own ways as before.
//!
//! # Invariants
//! I1  All that was given back and is not yet paid is in the pool, to the nanosecond.
//!
//! Source: own; S8 of `docs/rules/adaptive.md`.

use crate::adaptive::seats::SEATS_MOST;

/// A turn of a whole quantum pays this part of the pool, which so holds the ways of eight turns.
const POOL_TURNS: u64 = 8;
/// A turn gets back at most this many times what a change usually costs.
const USUAL_MOST: u64 = 2;

/// The pool, and what clients are still to be charged.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedChanges {
    /// I1, in ns.
    pool: u64,
    due: [(u32, i64); SEATS_MOST],
    dues: usize,
    /// All that was charged, in ns: with what requests took and seats were kept, it is all that
    /// accounts were charged (G1).
    pub(super) charged: i64,
}

/// A turn of a stream that has ended, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// The client for which it began.
    pub(super) client: u32,
    pub(super) served: u64,
    /// What the way to it took, if that is known, and what ways usually take.
    pub(super) way: Option<u64>,
    pub(super) usual: u64,
    pub(super) quantum: u64,
}

impl SharedChanges {
    /// A turn has ended. (If more than there are seats end at once, the others are not shared.)
    pub(super) fn ended(&mut self, turn: Turn) {
        let Turn { client, served, way, usual, quantum } = turn;
        let way = way.unwrap_or(usual).min(USUAL_MOST * usual).min(served / 2);
        if self.dues == SEATS_MOST || quantum == 0 {
            return;
        }
        self.pool += way;
        // Below 2^64: a pool of eight ways, at most a second each, and turns of at most 160 ms.
        let paid = self.pool.saturating_mul((served - way).min(quantum)) / (POOL_TURNS * quantum);
        self.pool -= paid;
        self.due[self.dues] = (client, paid.cast_signed() - way.cast_signed());
        self.dues += 1;
    }

    /// A client that is to be charged, and how much; less than nothing if it gets something back.
    pub(super) fn pop_due(&mut self) -> Option<(u32, i64)> {
        self.dues = self.dues.checked_sub(1)?;
        Some(self.due[self.dues])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8, I1: do streams pay for the ways of all by how long they read, and does all that is given
    /// back come in again? Two by turns: one has 40 ms in its turns of a quantum of 160, 10 of them
    /// for its way, the other 160 and 10. They read for 30 and 150 ms: of 20 ms they pay a sixth,
    /// 3.3, and five sixths, 16.7; the first somewhat less, since it finds less in the pool.
    #[test]
    fn s8_ways_are_paid_for_by_time_read() {
        let mut shared = SharedChanges::default();
        let mut sums = [0i64; 2];
        let ms = 1_000_000;
        for lap in 0..200 {
            for (client, served) in [(0, 40 * ms), (1, 160 * ms)] {
                let way = Some(10 * ms);
                let (usual, quantum) = (10 * ms, 160 * ms);
                shared.ended(Turn { client, served, way, usual, quantum });
                let (who, ns) = shared.pop_due().expect("it is charged");
                assert_eq!((who, shared.pop_due()), (client, None));
                // By then the pool holds what it will.
                sums[client as usize] += if lap < 100 { 0 } else { ns + 10_000_000 };
                shared.charged += ns;
            }
        }
        let paid = sums.map(|sum| sum / 100);
        assert!(paid[0].abs_diff(3_333_333) < 150_000, "{paid:?}");
        assert!(paid[1].abs_diff(16_666_667) < 150_000, "{paid:?}");
        assert_eq!(shared.charged, -shared.pool.cast_signed());
    }

    /// Is what a turn gets back bounded, by twice the usual way and half of the turn? A way of 50
    /// ms where 10 are usual gives 20, and the 30 ms read of a quantum of 100 pay 20 * 30 / 800 =
    /// 0.75 of that; one of 20 in a turn of 30 gives 15, and the other 15 pay 15 * 15 / 800.
    #[test]
    fn s8_what_is_given_back_is_bounded() {
        let ms = 1_000_000;
        let charged = |served: u64, way: u64, usual: u64| {
            let mut shared = SharedChanges::default();
            let (client, way, quantum) = (0, Some(way * ms), 100 * ms);
            shared.ended(Turn { client, served: served * ms, way, usual: usual * ms, quantum });
            shared.pop_due().expect("it is charged").1
        };
        assert_eq!(charged(50, 50, 10), 750_000 - 20_000_000);
        assert_eq!(charged(30, 20, 20), 281_250 - 15_000_000);
    }
}

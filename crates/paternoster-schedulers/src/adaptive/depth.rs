// SPDX-License-Identifier: MIT OR Apache-2.0
//! Depth: how many commands the device is given while a client waits for a single one (rule L4).
//!
//! A device works best with all the commands that it takes, but a client that sends one more waits
//! behind all of them. With some fewer, many devices do nearly as well. How many is tried, but only
//! while a client is present that uses less than its share, and only while the depth is what others
//! wait for: otherwise no client would gain.
//!
//! ```text
//! depth   32 ────── 28 ────── 32 ──────           28: 99 % of 32, taken for now
//!         28 … 28 ─ 32 ─ 24 ─ 32 ── 28 …          24: 95 %, taken; 20: 89 %, which is below 95
//! ```
//!
//! Stretches of time are compared by throughput, as in `throughput_gain.rs`. A level is taken if it
//! keeps at least `bulk_kept` percent of the throughput at full depth, and is given up as soon as
//! it does not. The slots left over are for clients with a single request.
//!
//! # Invariants
//! I1  Clients with more than one request get at most `used` commands; all together get at most
//!     `top`.
//! I2  Without a shallow client, and where there are seats, the full depth is used.
//!
//! Source: L4 (phi), L5 (gaps) of `docs/rules/adaptive.md`.

use crate::adaptive::account::Accounts;
use crate::adaptive::throughput_gain::{Did, Tally, log2};
use crate::adaptive::tunables::Tunables;
use paternoster_core::time::Nanos;

/// L4: an epoch lasts at least this long, and until this many times the full depth have ended.
const EPOCH_LEAST: Nanos = Nanos::from_millis(20);
const EPOCH_DEPTHS: u32 = 4;
/// R5: a client that used less than its share within this time may come at any moment.
const INTERACTIVE_FOR: Nanos = Nanos::from_millis(500);
/// log2(1.12): two stretches at full depth that differ by more prove nothing.
const ALIKE: i64 = 10_715;
/// L5: between two probes there are at most this many lengths of one.
const GAP_MOST: u64 = 64;

/// The step of a probe, which has three epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    Rest,
    Before,
    Lower,
    After,
}

/// The depth in use, and the search for it.
#[derive(Debug)]
pub(super) struct Depth {
    top: u32,
    /// The accepted level, and the one in use at this moment of a probe.
    level: u32,
    used: u32,
    interactive_until: Nanos,
    /// R5: until then the last slots are spared.
    spares_until: Nanos,
    /// In this epoch a client had to wait because of the depth.
    is_binding: bool,
    step: Step,
    began: Nanos,
    ended: u32,
    present: Tally,
    /// At the level in use, at full depth before, and at the lower one.
    rest: Tally,
    before: Tally,
    lower: Tally,
    probe_began: Nanos,
    next: Nanos,
    gap: u64,
}

/// The next level below: four in an octave from 8 on, single steps below.
const fn below(depth: u32) -> u32 {
    if depth <= 8 {
        return if depth > 1 { depth - 1 } else { 1 };
    }
    let octave = 1 << (depth - 1).ilog2();
    let step = octave / 4;
    (depth - 1) / step * step
}

/// The next level above.
const fn above(depth: u32) -> u32 {
    if depth < 8 { depth + 1 } else { depth + (1 << depth.ilog2()) / 4 }
}

impl Depth {
    pub(super) fn new(top: u32) -> Depth {
        Depth {
            top,
            level: top,
            used: top,
            interactive_until: Nanos::ZERO,
            spares_until: Nanos::ZERO,
            is_binding: false,
            step: Step::Rest,
            began: Nanos::ZERO,
            ended: 0,
            present: Tally::default(),
            rest: Tally::default(),
            before: Tally::default(),
            lower: Tally::default(),
            probe_began: Nanos::ZERO,
            next: Nanos::ZERO,
            gap: 1,
        }
    }

    /// The commands that the device takes.
    pub(super) const fn top(&self) -> u32 {
        self.top
    }

    /// The commands that it is given.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// The limit of requests in the device for a client, which may be shallow (I1).
    #[inline(always)]
    pub(super) fn room_for(&self, is_shallow: impl Fn() -> bool) -> u32 {
        if self.used == self.top || is_shallow() { self.top } else { self.used }
    }

    /// A client that used less than its share arrives with the least virtual time (R5, L4);
    /// `expected`: while it was expected.
    pub(super) fn note_interactive(&mut self, now: Nanos, expected: bool) {
        self.interactive_until = now + INTERACTIVE_FOR;
        if !expected {
            self.spares_until = now + INTERACTIVE_FOR;
        }
    }

    /// R5: while some client uses less than its share, the last slots of the device are for clients
    /// with one request: none of 1, one of 32. `taken` slots of all that it has are used now; those
    /// that are not given to others (I1) are spared already.
    pub(super) fn spares(&self, taken: u32, strictness: u64, now: Nanos) -> bool {
        if self.spares_until <= now {
            return false;
        }
        let sigma = u32::try_from(strictness).unwrap_or(u32::MAX);
        let room = self.top.saturating_sub(taken + 1);
        room < (self.top / sigma.max(1)).min(self.top / 8)
    }

    /// No client needs low latency: uses all that the device takes.
    #[inline(never)]
    pub(super) fn use_all(&mut self, now: Nanos) {
        self.level = self.top;
        self.begin(now, Step::Rest, self.top);
    }

    fn begin(&mut self, now: Nanos, step: Step, used: u32) {
        (self.step, self.used, self.began, self.ended) = (step, used, now, 0);
        self.present = Tally::default();
        self.is_binding = false;
    }

    /// Whether what was in the device when the epoch began has ended, and enough after it.
    fn is_over(&self, now: Nanos) -> bool {
        self.ended >= EPOCH_DEPTHS * self.top && now >= self.began + EPOCH_LEAST
    }

    /// The device takes `takes` commands; at most `most` are given to it, unless that is 0.
    pub(super) fn limit(&mut self, takes: u32, most: u64, now: Nanos) {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.top = if most == 0 { takes } else { takes.min(most) };
        self.use_all(now);
    }

    /// A request has ended. `is_free`: there are no seats, and no other number of them is tried.
    #[inline(always)]
    pub(super) fn ended(
        &mut self,
        now: Nanos,
        tunables: &Tunables,
        accounts: &Accounts,
        did: Did,
        is_free: impl FnOnce() -> bool,
    ) {
        let spares = now < self.interactive_until && self.top > 1;
        if spares && tunables.depth_max == 0 && is_free() {
            self.learn(now, tunables.bulk_kept, accounts, did);
        } else if self.used != self.top || self.step != Step::Rest {
            self.use_all(now);
        }
    }

    /// The same, while a client is present that gains from fewer commands.
    #[inline(never)]
    fn learn(&mut self, now: Nanos, bulk_kept: u64, accounts: &Accounts, did: Did) {
        self.ended += 1;
        self.is_binding |= accounts.waiting() > 0;
        // The first requests of an epoch belong to the last one.
        if self.ended > self.top {
            self.present.count_one(did);
        }
        if self.step == Step::Rest {
            let ready = self.is_over(now) && now >= self.next;
            if ready && self.is_binding && below(self.level) < self.level {
                self.probe_began = now;
                self.rest = core::mem::take(&mut self.present);
                self.begin(now, Step::Before, self.top);
            }
        } else if self.is_over(now) {
            self.end_epoch(now, bulk_kept);
        }
    }

    fn end_epoch(&mut self, now: Nanos, bulk_kept: u64) {
        let kept = log2(bulk_kept) - log2(100);
        let tally = core::mem::take(&mut self.present);
        match self.step {
            Step::Rest => {}
            Step::Before => {
                self.before = tally;
                self.begin(now, Step::Lower, below(self.level));
            }
            Step::Lower => {
                self.lower = tally;
                self.begin(now, Step::After, self.top);
            }
            Step::After => {
                let drift = self.before.gain_of_device(&tally);
                self.before.add(&tally);
                let ratio = self.before.gain_of_device(&self.lower);
                let is_steady = drift.is_some_and(|drift| drift.abs() <= ALIKE);
                self.end_probe(now, ratio.filter(|_| is_steady), kept);
            }
        }
    }

    /// L4: one level down if that keeps enough; one up if the present level does not.
    fn end_probe(&mut self, now: Nanos, ratio: Option<i64>, kept: i64) {
        let present = self.before.gain_of_device(&self.rest);
        match ratio {
            Some(_) if self.level < self.top && present.is_some_and(|own| own < kept) => {
                self.level = above(self.level).min(self.top);
                self.gap = 1;
            }
            Some(ratio) if ratio >= kept => {
                self.level = below(self.level);
                self.gap = 1;
            }
            _ => self.gap = (2 * self.gap).min(GAP_MOST),
        }
        let length = (now - self.probe_began).0;
        self.next = now + Nanos(length.saturating_mul(self.gap));
        self.begin(now, Step::Rest, self.level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read of 4 KiB.
    const READ: Did = Did { sort: 3, sectors: 8, took: 1000 };

    /// Requests end, one in each `every`, until the depth in use has been `to`.
    fn go_on(depth: &mut Depth, now: &mut Nanos, every: impl Fn(u32) -> u64, to: u32) -> bool {
        let mut accounts = Accounts::new(1, 1, 0);
        accounts.open(0, 1, 100, 1);
        accounts.arrive(0, 0, Nanos::ZERO, 0);
        for _ in 0..100_000 {
            *now += Nanos(every(depth.used()));
            depth.note_interactive(*now, false);
            let did = Did { took: every(depth.used()), ..READ };
            depth.ended(*now, &Tunables::default(), &accounts, did, || true);
            if depth.used() == to {
                return true;
            }
        }
        false
    }

    /// L4: is a lower depth found where it keeps the throughput, and does the device get all that
    /// it takes as soon as seats are in use, or a depth below which it does less: 16 of 32 at half
    /// the speed?
    #[test]
    fn l4_fewer_commands_if_that_costs_nothing() {
        let mut now = Nanos::ZERO;
        let mut depth = Depth::new(32);
        depth.limit(32, 0, now);
        assert!(go_on(&mut depth, &mut now, |_| 100_000, 8), "used {}", depth.used());
        depth.ended(now, &Tunables::default(), &Accounts::new(0, 1, 0), READ, || false);
        assert_eq!((depth.used(), depth.top()), (32, 32));
        let slow = |used: u32| 3_200_000 / u64::from(used);
        assert!(!go_on(&mut depth, &mut now, slow, 24), "used {}", depth.used());
        depth.limit(32, 6, now);
        assert_eq!((depth.used(), depth.top(), depth.room_for(|| false)), (6, 6, 6));
    }

    /// R5: are the last slots spared, one of 32 and none of 4, for half a second after a client
    /// that came when it was not expected?
    #[test]
    fn r5_the_last_slots_are_spared() {
        let mut depth = Depth::new(32);
        assert!(!depth.spares(31, 32, Nanos::ZERO));
        depth.note_interactive(Nanos::ZERO, true);
        assert!(!depth.spares(31, 32, Nanos::ZERO));
        depth.note_interactive(Nanos::ZERO, false);
        assert!(depth.spares(31, 32, Nanos::ZERO) && !depth.spares(30, 32, Nanos::ZERO));
        assert!(!depth.spares(31, 32, INTERACTIVE_FOR));
        let mut few = Depth::new(4);
        few.note_interactive(Nanos::ZERO, false);
        assert!(!few.spares(3, 32, Nanos::ZERO));
    }

    /// Are there four levels in an octave, and single steps from eight down?
    #[test]
    fn l4_the_ladder() {
        let mut all = alloc::vec![64];
        while let Some(&last) = all.last().filter(|&&last| last > 1) {
            all.push(below(last));
        }
        assert_eq!(all, [64, 56, 48, 40, 32, 28, 24, 20, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!([below(1), below(33), below(31)], [1, 32, 28]);
        assert!(all.windows(2).all(|pair| above(pair[1]) == pair[0]));
    }
}

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

use crate::adaptive::Paternoster;
use crate::adaptive::learn::Phase;
use crate::adaptive::throughput_gain::{Tally, log2};
use paternoster_core::QueueView;
use paternoster_core::time::Nanos;

/// L4: an epoch lasts at least this long, and until this many times the full depth have ended.
const EPOCH_LEAST: Nanos = Nanos::from_millis(20);
const EPOCH_DEPTHS: u32 = 4;
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

    pub(super) const fn note_interactive(&mut self, until: Nanos) {
        self.interactive_until = until;
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
}

impl Paternoster {
    /// The device takes another number of commands, as far as is known.
    pub(super) fn limit_depth(&mut self, view: &QueueView) {
        let most = u32::try_from(self.tunables.depth_max).unwrap_or(u32::MAX);
        let takes = view.facts().depth;
        self.depth.top = if most == 0 { takes } else { takes.min(most) };
        self.depth.use_all(view.exact_now());
    }

    /// A request has ended.
    #[inline(always)]
    pub(super) fn learn_depth(&mut self, view: &QueueView, sort: u8, sectors: u32, took: u64) {
        let (now, depth) = (view.exact_now(), &mut self.depth);
        let spares = now < depth.interactive_until && depth.top > 1;
        let searches = self.tunables.depth_max == 0 && self.seats.most.is_none();
        if spares && searches && self.learn.phase == Phase::Rest {
            self.learn_shallow_depth(now, sort, sectors, took);
        } else if depth.used != depth.top || depth.step != Step::Rest {
            depth.use_all(now);
        }
    }

    /// The same, while a client is present that gains from fewer commands.
    #[inline(never)]
    fn learn_shallow_depth(&mut self, now: Nanos, sort: u8, sectors: u32, took: u64) {
        let depth = &mut self.depth;
        depth.ended += 1;
        depth.is_binding |= self.accounts.totals().0 != [0; 2];
        // The first requests of an epoch belong to the last one.
        if depth.ended > depth.top {
            depth.present.count(sort, sectors, took);
        }
        if depth.step == Step::Rest {
            let ready = depth.is_over(now) && now >= depth.next;
            if ready && depth.is_binding && below(depth.level) < depth.level {
                depth.probe_began = now;
                depth.rest = core::mem::take(&mut depth.present);
                depth.begin(now, Step::Before, depth.top);
            }
        } else if depth.is_over(now) {
            self.end_depth_epoch(now);
        }
    }

    fn end_depth_epoch(&mut self, now: Nanos) {
        let kept = log2(self.tunables.bulk_kept) - log2(100);
        let depth = &mut self.depth;
        let tally = core::mem::take(&mut depth.present);
        match depth.step {
            Step::Rest => {}
            Step::Before => {
                depth.before = tally;
                depth.begin(now, Step::Lower, below(depth.level));
            }
            Step::Lower => {
                depth.lower = tally;
                depth.begin(now, Step::After, depth.top);
            }
            Step::After => {
                let drift = depth.before.gain_of_device(&tally);
                depth.before.add(&tally);
                let ratio = depth.before.gain_of_device(&depth.lower);
                let is_steady = drift.is_some_and(|drift| drift.abs() <= ALIKE);
                self.end_depth_probe(now, ratio.filter(|_| is_steady), kept);
            }
        }
    }

    /// L4: one level down if that keeps enough; one up if the present level does not.
    fn end_depth_probe(&mut self, now: Nanos, ratio: Option<i64>, kept: i64) {
        let depth = &mut self.depth;
        let present = depth.before.gain_of_device(&depth.rest);
        match ratio {
            Some(_) if depth.level < depth.top && present.is_some_and(|own| own < kept) => {
                depth.level = above(depth.level).min(depth.top);
                depth.gap = 1;
            }
            Some(ratio) if ratio >= kept => {
                depth.level = below(depth.level);
                depth.gap = 1;
            }
            _ => depth.gap = (2 * depth.gap).min(GAP_MOST),
        }
        let length = (now - depth.probe_began).0;
        depth.next = now + Nanos(length.saturating_mul(depth.gap));
        depth.begin(now, Step::Rest, depth.level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

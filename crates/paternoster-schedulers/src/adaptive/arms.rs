// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arms: the settings that can be tried, and when each of them is due (rule L5).
//!
//! Six settings can be tried: no seats, one, two, four, eight for streams, and turns for all
//! clients. Each is an *arm* with its own gap, in lengths of the probe that rejected it: a setting
//! that halves the throughput while it is tried is tried rarely, one that is nearly as good more
//! often.
//!
//! ```text
//!             tried, 2 s long, loss 80 %: gap 128 · 0.8 = 102 lengths        next in 204 s
//!             tried, 2 s long, gain  3 %: gap   8, then 16, 32 … 1024         next in  16 s
//!             tried, 2 s long, gain  6 %: gap   3, then  6, 12 …              next in   6 s
//!             tried, 2 s long, no difference at all: 32, then 64 …            next in  64 s
//! ```
//!
//! A setting given up for a better one has the gap for what it would lose. When the mix of clients
//! changes, all are due again. So that clients that come and go do not cause endless trials, the
//! pause between two such occasions doubles as long as no trial succeeds; and results found with
//! streams alone are kept while random clients are present as well, until these have gone.
//!
//! # Invariants
//! I1  Trying an arm costs at most 1/128 of the time, after its first rejection; trying all five
//!     that are not accepted, 1/25.
//!
//! Source: L3, L5 of `docs/rules/adaptive.md`. Differs: a gap for each arm instead of one for all,
//! so that a costly one is not repeated because a cheap one is.

use crate::adaptive::seats::Setting;
use crate::adaptive::throughput_gain::ONE;
use crate::adaptive::workload_mix::WorkloadMix;
use paternoster_core::time::Nanos;

/// All settings that can be tried.
const ALL: [Setting; 6] = [
    Setting::Free,
    Setting::Streams(1),
    Setting::All,
    Setting::Streams(2),
    Setting::Streams(4),
    Setting::Streams(8),
];
/// L5: the gap after a first rejection, and the largest, in lengths of a probe.
const GAP_LEAST: u64 = 8;
const GAP_MOST: u64 = 1024;
/// The same if it made no difference, or one of less than 1 %: log2(1.01).
const GAP_OF_NOTHING: u64 = 32;
const NOTHING: i64 = 941;
/// The same if it was nearly good enough: log2(1.03). To try it again costs nothing.
const GAP_OF_PROMISE: u64 = 3;
const PROMISE: i64 = 2795;
/// L5: a loss is made up for by this many times its length.
const GAP_BY_LOSS: u64 = 128;
/// At least this many lengths lie between two occasions to try everything again.
const PAUSE_LEAST: u64 = 4;
const PAUSE_MOST: u64 = 1024;

#[derive(Debug, Clone, Copy, Default)]
struct Arm {
    gap: u64,
    next: Nanos,
}

/// What was learned with another kind of mix.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    mix: WorkloadMix,
    accepted: Setting,
    arms: [Arm; ALL.len()],
}

/// When each setting is due.
#[derive(Debug, Default)]
pub(super) struct Arms {
    arms: [Arm; ALL.len()],
    /// By kind of mix.
    kept: [Option<Kept>; WorkloadMix::KINDS],
    /// No probe begins before this.
    pub(super) next: Nanos,
    /// Nothing is due before this, as of the last check.
    pub(super) quiet_until: Nanos,
    /// The last probe's length, in ns.
    length: u64,
    /// The next occasion to try all, and the pause after it, in lengths.
    occasion: Nanos,
    pause: u64,
}

impl Arms {
    /// The setting that has been due longest, except the accepted one.
    pub(super) fn due(
        &mut self,
        from: Setting,
        mix: WorkloadMix,
        seeks: bool,
        now: Nanos,
    ) -> Option<Setting> {
        let fits = |setting: Setting| is_near(from, setting) && differs(setting, mix, seeks);
        let all = self.arms.iter().zip(ALL).filter(|&(_, setting)| fits(setting));
        // Without streams, turns for each client give a result sooner.
        let is_later = |setting| mix.streams == 0 && setting == Setting::Streams(1);
        let first = all.min_by_key(|&(arm, setting)| (arm.next, arm.gap, is_later(setting)));
        let at = first.map_or(Nanos::MAX, |(arm, _)| arm.next.max(self.next));
        self.quiet_until = at;
        first.filter(|_| at <= now).map(|(_, setting)| setting)
    }

    fn of(&mut self, setting: Setting) -> Option<&mut Arm> {
        let place = ALL.iter().position(|&known| known == setting)?;
        self.arms.get_mut(place)
    }

    /// A probe of `length` ns was rejected; `gain` is the logarithm of its gain, below zero for a
    /// loss.
    pub(super) fn reject(&mut self, setting: Setting, now: Nanos, length: u64, gain: Option<i64>) {
        let by_loss = gap_by_loss(gain.map_or(0, |gain| -gain));
        let is_nothing = gain.is_some_and(|gain| gain.abs() < NOTHING);
        let is_promise = gain.is_some_and(|gain| gain > PROMISE);
        let least = match (is_nothing, is_promise) {
            (true, _) => GAP_OF_NOTHING,
            (_, true) => GAP_OF_PROMISE,
            _ => GAP_LEAST,
        };
        self.length = length;
        self.next = now + Nanos(length);
        self.quiet_until = Nanos::ZERO;
        if let Some(arm) = self.of(setting) {
            arm.gap = (2 * arm.gap).max(least).max(by_loss).min(GAP_MOST);
            arm.next = now + Nanos(length.saturating_mul(arm.gap));
        }
    }

    /// A setting was accepted: its neighbours are tried at once; the one given up for it, after the
    /// gap for what it would lose.
    pub(super) fn accept(&mut self, given_up: Setting, now: Nanos, length: u64, gain: i64) {
        (self.length, self.pause) = (length, PAUSE_LEAST);
        self.next = now + Nanos(length / 4);
        self.quiet_until = Nanos::ZERO;
        if let Some(arm) = self.of(given_up) {
            arm.gap = gap_by_loss(gain).max(GAP_LEAST);
            arm.next = now + Nanos(length.saturating_mul(arm.gap));
        }
    }

    /// The device has changed: what was learned about the old one does not apply.
    pub(super) fn forget(&mut self, now: Nanos) {
        self.kept = [None; WorkloadMix::KINDS];
        self.begin(now);
    }

    fn begin(&mut self, now: Nanos) {
        self.arms = [Arm::default(); ALL.len()];
        (self.next, self.quiet_until) = (self.next.min(now), Nanos::ZERO);
    }

    /// Another mix of clients is present: results for the former do not apply to it, but earlier
    /// results for a mix of its kind do, with the same setting. Whether those were of as many
    /// clients.
    pub(super) fn turn_to(
        &mut self,
        mix: WorkloadMix,
        from: WorkloadMix,
        accepted: Setting,
        now: Nanos,
    ) -> bool {
        self.kept[from.kind()] = Some(Kept { mix: from, accepted, arms: self.arms });
        match self.kept[mix.kind()] {
            Some(kept) if kept.accepted == accepted => {
                self.arms = kept.arms;
                self.quiet_until = Nanos::ZERO;
                !mix.is_another(kept.mix, true)
            }
            _ => {
                self.begin(now);
                false
            }
        }
    }

    /// Something has changed: all arms are due at `at`, unless that happened recently.
    pub(super) fn try_all(&mut self, now: Nanos, at: Nanos) {
        if now < self.occasion {
            return;
        }
        self.occasion = at + Nanos(self.length.saturating_mul(self.pause));
        self.pause = (2 * self.pause).clamp(PAUSE_LEAST, PAUSE_MOST);
        self.next = self.next.min(at);
        self.quiet_until = Nanos::ZERO;
        for arm in &mut self.arms {
            arm.gap /= 4;
            arm.next = arm.next.min(at);
        }
    }
}

/// I1: how many lengths make up for a loss, of which `lost` is the logarithm. 1 - 2^-l is about 0.7
/// l, and at most 1.
fn gap_by_loss(lost: i64) -> u64 {
    let loss = (lost * 7 / 10).clamp(0, ONE).unsigned_abs();
    (GAP_BY_LOSS * loss) >> 16
}

/// L3: from no seats to any number; from a number to half and twice as many, or none.
const fn is_near(from: Setting, to: Setting) -> bool {
    match (from, to) {
        (Setting::Free, Setting::Free) | (Setting::All, Setting::All) => false,
        (Setting::Free, _) | (_, Setting::Free) => true,
        (Setting::Streams(from), Setting::Streams(to)) => from == 2 * to || to == 2 * from,
        (Setting::All, Setting::Streams(other)) | (Setting::Streams(other), Setting::All) => {
            other == 1
        }
    }
}

/// Whether a setting makes a difference with the clients present.
const fn differs(setting: Setting, mix: WorkloadMix, seeks: bool) -> bool {
    // With one seat, members of a shared stream are in the device one after the other.
    let together = mix.together as u32;
    if mix.streams + mix.others + together < 2 {
        return false;
    }
    match setting {
        Setting::Free => true,
        // Sweep groups have turns, and each goes in sector order. With one client in each, they are
        // what `All` does.
        Setting::Streams(1) if mix.streams == 0 => seeks && mix.sweep_groups < mix.others,
        Setting::Streams(1) => 1 < mix.parties() + together,
        Setting::Streams(seats) => mix.streams > 0 && seats < mix.parties(),
        // Without seeks, nearness gains nothing and costs every client tail latency (G8).
        Setting::All => seeks && mix.others > 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: WorkloadMix = WorkloadMix {
        streams: 0,
        others: 0,
        sweep_groups: 0,
        idle: 0,
        strange: false,
        together: false,
    };
    const FOUR: WorkloadMix = WorkloadMix { streams: 4, others: 2, sweep_groups: 1, ..NOBODY };

    /// L3: from no seats, are all numbers tried that make a difference, and from one seat its
    /// neighbours? Four streams and a crowd are five parties: eight seats are as good as none.
    /// Without a disk, turns for all clients are not tried.
    #[test]
    fn l3_which_settings_are_tried() {
        let all = |from: Setting, mix: WorkloadMix, seeks: bool| -> alloc::vec::Vec<Setting> {
            let fits = |&to: &Setting| is_near(from, to) && differs(to, mix, seeks);
            ALL.into_iter().filter(fits).collect()
        };
        let [one, two, four] = [1, 2, 4].map(Setting::Streams);
        assert_eq!(all(Setting::Free, FOUR, true), [one, Setting::All, two, four]);
        assert_eq!(all(Setting::Free, FOUR, false), [one, two, four]);
        assert_eq!(all(two, FOUR, true), [Setting::Free, one, four]);
        assert_eq!(all(one, FOUR, true), [Setting::Free, Setting::All, two]);
        let random = WorkloadMix { streams: 0, others: 3, sweep_groups: 1, ..NOBODY };
        assert_eq!(all(Setting::Free, random, true), [one, Setting::All]);
        assert!(all(Setting::Free, random, false).is_empty());
        assert!(
            all(Setting::Free, WorkloadMix { streams: 1, ..WorkloadMix::default() }, true)
                .is_empty()
        );
    }

    /// L5: does a loss of a half (log2 = -1, about 0.7 by the rule) make a gap of 128 * 0.7 = 89
    /// lengths, and a gain of 3 % (log2(1.03) = 2795 / 65536) one of 8, then 16?
    #[test]
    fn l5_each_has_its_gap() {
        let mut arms = Arms::default();
        let (now, length) = (Nanos::from_secs(1), 1000);
        arms.reject(Setting::Streams(1), now, length, Some(-ONE));
        arms.reject(Setting::All, now, length, Some(2795));
        assert_eq!(arms.arms[1].next, now + Nanos(89 * length));
        assert_eq!(arms.arms[2].next, now + Nanos(8 * length));
        arms.reject(Setting::All, now, length, Some(2795));
        assert_eq!(arms.arms[2].next, now + Nanos(16 * length));
        // log2(1.06) * 65536 = 5509: nearly good enough.
        arms.reject(Setting::Streams(8), now, length, Some(5509));
        assert_eq!(arms.arms[5].next, now + Nanos(3 * length));
        // A setting that makes no difference need not be tried again so soon.
        arms.reject(Setting::Streams(4), now, length, Some(0));
        assert_eq!(arms.arms[4].next, now + Nanos(32 * length));
        // Two seats have not been tried yet, and are due when a length has passed.
        assert_eq!(arms.due(Setting::Free, FOUR, true, now), None);
        let next = arms.due(Setting::Free, FOUR, true, now + Nanos(length));
        assert_eq!(next, Some(Setting::Streams(2)));
    }

    /// Are results found with streams used again when a random client has gone, unless there are
    /// more streams, or the setting has changed?
    #[test]
    fn l5_what_was_found_out_is_kept() {
        let streams = WorkloadMix { streams: 4, ..NOBODY };
        let found = |accepted: Setting, mix: WorkloadMix| {
            let (mut arms, now) = (Arms::default(), Nanos::from_secs(1));
            arms.reject(Setting::Streams(1), now, 1000, Some(-ONE));
            let known = arms.arms[1].next;
            assert!(!arms.turn_to(FOUR, streams, Setting::Free, now));
            assert_eq!(arms.arms[1].next, Nanos::ZERO);
            (arms.turn_to(mix, FOUR, accepted, now), arms.arms[1].next == known)
        };
        assert_eq!(found(Setting::Free, streams), (true, true));
        assert_eq!(found(Setting::Free, WorkloadMix { streams: 5, ..NOBODY }), (false, true));
        assert_eq!(found(Setting::All, streams), (false, false));
    }

    /// L5: when the mix changes, are all due again, and soon after the beginning a second time;
    /// then not before four lengths have passed, then eight?
    #[test]
    fn l5_who_comes_and_goes_does_not_make_it_try_for_ever() {
        let mut arms = Arms::default();
        let length = 1000;
        let mut is_due_at = |lengths: u64| {
            let at = Nanos::from_secs(1) + Nanos(lengths * length);
            arms.try_all(at, at);
            let due = arms.due(Setting::Free, FOUR, true, at + Nanos(length)).is_some();
            for setting in ALL {
                arms.reject(setting, at, length, Some(-ONE));
            }
            due
        };
        assert_eq!([0, 2, 4, 5].map(&mut is_due_at), [true, true, false, false]);
        assert_eq!([6, 10, 13, 14].map(&mut is_due_at), [true, false, false, true]);
    }
}

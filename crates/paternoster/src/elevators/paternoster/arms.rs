// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arms: the settings that can be tried, and when each of them is due (rule L5).
//!
//! Six settings can be tried: no seats, one, two, four, eight for streams, and turns for everybody.
//! Each is an *arm* with a gap of its own, in lengths of the probe that rejected it: what halves the
//! throughput while it is tried is tried rarely, what is nearly as good more often.
//!
//! ```text
//!             tried, 2 s long, loss 80 %: gap 128 · 0.8 = 102 lengths        next in 204 s
//!             tried, 2 s long, loss  0 %: gap   8, then 16, 32 … 1024         next in  16 s
//! ```
//!
//! When the mix of clients changes, all are due again. So that clients who come and go do not make
//! it try for ever, the pause between two such occasions doubles as long as nothing comes of them.
//!
//! # Invariants
//! I1  What an arm loses by being tried is at most 1/128 of the time, behind its first rejection;
//!     all five that are not accepted, 1/25.
//!
//! Source: spec `elevator.md` 2.5 (L3: which, L5: when). Differs: a gap for each instead of one for
//! all, so that a costly one is not repeated because a cheap one is.

use crate::elevators::paternoster::gain::ONE;
use crate::elevators::paternoster::seats::Setting;
use crate::time::Nanos;

/// All that can be tried.
const ALL: [Setting; 6] = [
    Setting::Free,
    Setting::Streams(1),
    Setting::All,
    Setting::Streams(2),
    Setting::Streams(4),
    Setting::Streams(8),
];
/// L5: the gap behind a first rejection, and the largest, in lengths of a probe.
const GAP_LEAST: u64 = 8;
const GAP_MOST: u64 = 1024;
/// L5: a loss is made up for by so many times its length.
const GAP_BY_LOSS: u64 = 128;
/// Between two occasions to try everything again there are so many lengths, at least.
const PAUSE_LEAST: u64 = 10;
const PAUSE_MOST: u64 = 1024;

/// Who has been active of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mix {
    pub(super) streams: u32,
    pub(super) others: u32,
}

impl Mix {
    /// Who would take turns: each stream, and the crowd.
    pub(super) const fn parties(self) -> u32 {
        self.parties_of(false)
    }

    /// The same, where perhaps each of the crowd is one.
    pub(super) const fn parties_of(self, everyone: bool) -> u32 {
        let crowd = if everyone || self.others == 0 { self.others } else { 1 };
        self.streams + crowd
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Arm {
    gap: u64,
    next: Nanos,
}

/// When each setting is due.
#[derive(Debug, Default)]
pub(super) struct Arms {
    arms: [Arm; ALL.len()],
    /// No probe before.
    pub(super) next: Nanos,
    /// The last probe's length, in ns.
    length: u64,
    /// The next occasion for all, and the pause behind it, in lengths.
    occasion: Nanos,
    pause: u64,
}

impl Arms {
    /// The setting that is due for the longest time, beside the accepted one.
    pub(super) fn due(&self, from: Setting, mix: Mix, seeks: bool, now: Nanos) -> Option<Setting> {
        if now < self.next {
            return None;
        }
        let fits = |setting: Setting| is_near(from, setting) && differs(setting, mix, seeks);
        let all = self.arms.iter().zip(ALL);
        let due = all.filter(|&(arm, setting)| arm.next <= now && fits(setting));
        due.min_by_key(|(arm, _)| (arm.next, arm.gap)).map(|(_, setting)| setting)
    }

    fn of(&mut self, setting: Setting) -> Option<&mut Arm> {
        let place = ALL.iter().position(|&known| known == setting)?;
        self.arms.get_mut(place)
    }

    /// A probe of so many ns came to nothing; `loss` is the logarithm of what it lost.
    pub(super) fn reject(&mut self, setting: Setting, now: Nanos, length: u64, gain: Option<i64>) {
        // 1 - 2^g is about -0.7 g, and at most 1.
        let loss = gain.map_or(0, |gain| (-gain * 7 / 10).clamp(0, ONE).unsigned_abs());
        let by_loss = (GAP_BY_LOSS * loss) >> 16;
        self.length = length;
        self.next = now + Nanos(length);
        if let Some(arm) = self.of(setting) {
            arm.gap = (2 * arm.gap).max(GAP_LEAST).max(by_loss).min(GAP_MOST);
            arm.next = now + Nanos(length.saturating_mul(arm.gap));
        }
    }

    /// It was accepted: its neighbours are tried at once, the one that was given up in its turn.
    pub(super) fn accept(&mut self, given_up: Setting, now: Nanos, length: u64) {
        (self.length, self.pause) = (length, PAUSE_LEAST);
        self.next = now + Nanos(length);
        if let Some(arm) = self.of(given_up) {
            arm.gap = GAP_LEAST;
            arm.next = now + Nanos(length.saturating_mul(GAP_LEAST));
        }
    }

    /// Something is different: all of them are due at `at`, if that was not so just now.
    pub(super) fn try_all(&mut self, now: Nanos, at: Nanos) {
        if now < self.occasion {
            return;
        }
        self.pause = (2 * self.pause).clamp(PAUSE_LEAST, PAUSE_MOST);
        self.occasion = at + Nanos(self.length.saturating_mul(self.pause));
        self.next = self.next.min(at);
        for arm in &mut self.arms {
            arm.gap /= 4;
            arm.next = arm.next.min(at);
        }
    }
}

/// L3: from no seats any number, from a number half and twice as many, or none.
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

/// Whether a setting makes a difference with those who are there.
const fn differs(setting: Setting, mix: Mix, seeks: bool) -> bool {
    if mix.streams + mix.others < 2 {
        return false;
    }
    match setting {
        Setting::Free => true,
        Setting::Streams(seats) => mix.streams > 0 && seats < mix.parties(),
        // Without seeks it is nearness for nothing, and everybody's tail (G8).
        Setting::All => seeks && mix.others > 1,
    }
}

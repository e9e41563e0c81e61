// SPDX-License-Identifier: MIT OR Apache-2.0
//! Learn: how many seats are best, found out by trying (rule L).
//!
//! No description of a device says how many streams it serves best at a time, and the answer
//! changes with the mix. So another number of seats is tried for a while, between two stretches, or
//! *epochs*, of the present one:
//!
//! ```text
//!          base          changed         base
//! seats     ∞      |        1        |     ∞            gain(base, changed) = 3.5 and 3.4: taken
//!                  |- turns of each -|
//! ```
//!
//! The verdict goes by the lesser of both gains, so that a burst in one epoch decides nothing. More
//! order must pay: at least 8 %. Less order is taken if it costs less than 3 %.
//!
//! Trying has a price, which is kept small: probes that are rejected double the gap to the next,
//! up to 1024 times their own length, and one that cost much is not repeated before it is made up
//! for 32 times. When the mix changes, everything is tried again soon.
//!
//! # Invariants
//! I1  A request counts in the epoch in which it was dispatched, or not at all.
//! I2  Outside of probes the number of seats is the one last accepted.
//!
//! Source: spec `elevator.md` 2.5 (L1, L3, L5). Differs: epochs overlap at their ends, since gains
//! go by device time (see `gain.rs`); there is no L4, the depth is not learned.

use crate::elevators::paternoster::Paternoster;
use crate::elevators::paternoster::gain::{ONE, Tally};
use crate::elevators::paternoster::seats::Setting;
use crate::scene::Scene;
use crate::time::Nanos;

/// L3: log2(1.08) and log2(0.97), the least gains for more order and for less.
const GAIN_FOR_SEATS: i64 = 7277;
const GAIN_FOR_NONE: i64 = -2880;
/// L3: an epoch has at least so much device time, so many quanta, so many mean requests.
const EPOCH_LEAST: u64 = 5_000_000;
const EPOCH_QUANTA: u64 = 3;
const EPOCH_REQUESTS: u64 = 8;
/// Turns in an epoch with seats: one of everybody, within these bounds; if nobody but streams is
/// there, who are all alike, so many.
const TURNS_LEAST: u64 = 2;
const TURNS_MOST: u64 = 12;
const TURNS_OF_STREAMS: u64 = 4;
/// Without seats an epoch counts when those who are there have mixed, so many changes for each.
const SWITCHES_EACH: u32 = 4;
/// An epoch that takes so many times its length is given up: nobody comes.
const PATIENCE: u64 = 16;
/// L5.
const GAP_MOST: u64 = 1024;
const GAP_BY_LOSS: u64 = 32;
/// Who is there is counted so often; a change of it leads to a probe within this time.
const CENSUS: Nanos = Nanos::from_millis(100);

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// The accepted number of seats.
    #[default]
    Rest,
    /// The first epoch of a probe, with the accepted number.
    Base,
    /// The second, with the other.
    Changed,
    /// The third, with the accepted one again.
    Again,
}

/// Who has been active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mix {
    pub(super) streams: u32,
    pub(super) others: u32,
}

impl Mix {
    /// Who would take turns: each stream, and the crowd.
    const fn parties(self) -> u32 {
        self.parties_of(false)
    }

    /// The same, where perhaps each of the crowd is one.
    const fn parties_of(self, everyone: bool) -> u32 {
        let crowd = if everyone || self.others == 0 { self.others } else { 1 };
        self.streams + crowd
    }
}

/// The state of the search.
#[derive(Debug, Default)]
pub(super) struct Learn {
    pub(super) phase: Phase,
    /// The number of the epoch, which requests carry from their dispatch on (I1).
    pub(super) epoch: u32,
    base: Tally,
    changed: Tally,
    present: Tally,
    began: Nanos,
    is_warm: bool,
    /// How often another client than the last one went in this epoch.
    switches: u32,
    last: u32,
    busy_before: u64,
    turns_before: u64,
    accepted: Setting,
    tried: Setting,
    /// Which candidate is next; how many were rejected in a row.
    turn: u32,
    rejected: u32,
    gap: u64,
    probe_began: Nanos,
    next_probe: Nanos,
    pub(super) mix: Mix,
    next_census: Nanos,
    /// Figures for people.
    pub(super) probes: u64,
    pub(super) changes: u64,
}

impl Learn {
    /// The settings beside the accepted one that make a difference with those who are there.
    fn candidates(&self, seeks: bool) -> ([Setting; 5], usize) {
        let mut all = [Setting::Free; 5];
        let mut count = 0;
        let parties = self.mix.parties();
        let clients = self.mix.streams + self.mix.others;
        let mut add = |setting: Setting| {
            let differs = match setting {
                Setting::Free => true,
                Setting::Streams(seats) => self.mix.streams > 0 && seats < parties,
                // Without seeks it is nearness for nothing, and everybody's tail (G8).
                Setting::All => seeks && self.mix.others > 1,
            };
            if differs && clients > 1 && count < all.len() {
                all[count] = setting;
                count += 1;
            }
        };
        match self.accepted {
            Setting::Free => {
                [1, 2, 4, 8].map(Setting::Streams).into_iter().for_each(&mut add);
                add(Setting::All);
            }
            Setting::Streams(seats) => {
                add(Setting::Free);
                if seats < 8 {
                    add(Setting::Streams(2 * seats));
                }
                if seats > 1 {
                    add(Setting::Streams(seats / 2));
                } else {
                    add(Setting::All);
                }
            }
            Setting::All => {
                add(Setting::Free);
                add(Setting::Streams(1));
            }
        }
        (all, count)
    }
}

impl Paternoster {
    /// A request of a client goes to the device.
    pub(super) fn note_switch(&mut self, client: u32) {
        let last = core::mem::replace(&mut self.learn.last, client);
        self.learn.switches = self.learn.switches.saturating_add(u32::from(last != client));
    }

    /// A request that was dispatched in `epoch` has ended.
    pub(super) fn learn_from(&mut self, epoch: u32, sort: u8, sectors: u32, took: u64) {
        if self.learn.phase != Phase::Rest && epoch == self.learn.epoch {
            self.learn.present.count(sort, sectors, took);
        }
    }

    /// At the end of each request: is an epoch over, a probe due?
    pub(super) fn learn(&mut self, scene: &mut Scene) {
        let now = scene.exact_now();
        if now >= self.learn.next_census {
            self.take_census(now);
        }
        if self.learn.phase == Phase::Rest {
            if now >= self.learn.next_probe {
                self.begin_probe(scene, now);
            }
            return;
        }
        let passed = (now - self.learn.began).0;
        let least = self.epoch_length();
        if passed > PATIENCE * least.saturating_mul(self.turns_wanted()) {
            return self.end_probe(scene, now, None);
        }
        if self.seats.most.is_none() && !self.learn.is_warm {
            // What a disk has read ahead in turns is used up first, and what somebody was behind is
            // paid, for which he has the device to himself: neither is this epoch's merit.
            let parties = self.learn.mix.parties_of(true);
            let mixes = self.learn.switches >= SWITCHES_EACH * parties;
            if self.learn.present.served >= least / 2 && mixes {
                self.begin_counting(now);
                self.learn.is_warm = true;
            }
            return;
        }
        let turns = self.seats.turns - self.learn.turns_before;
        let in_turn = self.seats.most.is_none() || turns >= self.turns_wanted();
        if self.learn.present.served >= least && in_turn {
            self.end_epoch(scene, now);
        }
    }

    /// L3.
    fn epoch_length(&self) -> u64 {
        let quanta = match self.seats.most {
            Some(_) => EPOCH_QUANTA * self.seats.quantum(),
            None => EPOCH_QUANTA * self.seats.floor(),
        };
        EPOCH_LEAST.max(quanta).max(EPOCH_REQUESTS * self.mean_cost)
    }

    fn turns_wanted(&self) -> u64 {
        let Mix { others, .. } = self.learn.mix;
        let parties = u64::from(self.learn.mix.parties_of(self.seats.everyone));
        if self.seats.most.is_none() {
            1
        } else if others == 0 {
            parties.min(TURNS_OF_STREAMS)
        } else {
            parties.clamp(TURNS_LEAST, TURNS_MOST)
        }
    }

    /// Counts who is there. Another mix is tried out soon.
    fn take_census(&mut self, now: Nanos) {
        let mut mix = Mix::default();
        let mut next = self.present.first();
        while let Some(number) = next {
            next = self.present_links.next(number);
            let client = &mut self.clients[number as usize];
            let active = core::mem::take(&mut client.habit.ended) > 0;
            if active || self.accounts.is_busy(number) {
                let count = if client.habit.is_stream { &mut mix.streams } else { &mut mix.others };
                *count += 1;
            } else {
                client.is_present = false;
                self.present.remove(&mut self.present_links, number);
            }
        }
        let learn = &mut self.learn;
        learn.next_census = now + CENSUS;
        if mix != learn.mix && learn.phase == Phase::Rest {
            let (many, few) = (mix.parties().max(learn.mix.parties()), learn.mix.parties());
            let is_other = many != few || (mix.streams == 0) != (learn.mix.streams == 0);
            learn.mix = mix;
            if is_other {
                learn.gap /= 4;
                learn.rejected = 0;
                learn.next_probe = learn.next_probe.min(now + CENSUS);
            }
        }
    }

    /// Tries another number of seats, if there is a stream and somebody beside it.
    fn begin_probe(&mut self, scene: &mut Scene, now: Nanos) {
        let learn = &mut self.learn;
        let (all, count) = learn.candidates(scene.facts().rotational);
        if count == 0 {
            learn.next_probe = now + CENSUS;
            return;
        }
        learn.tried = all[learn.turn as usize % count];
        learn.turn = learn.turn.wrapping_add(1);
        learn.probes += 1;
        learn.probe_began = now;
        learn.phase = Phase::Base;
        let setting = learn.accepted;
        self.begin_epoch(scene, now, setting);
    }

    fn begin_epoch(&mut self, scene: &mut Scene, now: Nanos, setting: Setting) {
        if self.seats.setting() != setting {
            self.seat(scene, setting);
        }
        self.learn.epoch = self.learn.epoch.wrapping_add(1);
        (self.learn.is_warm, self.learn.switches) = (false, 0);
        self.begin_counting(now);
    }

    fn begin_counting(&mut self, now: Nanos) {
        let busy = self.busy_until(now);
        let learn = &mut self.learn;
        learn.present = Tally::default();
        (learn.began, learn.busy_before) = (now, busy);
        learn.turns_before = self.seats.turns;
    }

    fn end_epoch(&mut self, scene: &mut Scene, now: Nanos) {
        let busy = self.busy_until(now);
        let learn = &mut self.learn;
        let mut tally = core::mem::take(&mut learn.present);
        (tally.elapsed, tally.busy) = ((now - learn.began).0, busy - learn.busy_before);
        match learn.phase {
            Phase::Rest => {}
            Phase::Base => {
                learn.base = tally;
                learn.phase = Phase::Changed;
                let setting = learn.tried;
                self.begin_epoch(scene, now, setting);
            }
            Phase::Changed => {
                // Nothing is gained: no need to look a third time.
                let early = learn.base.gain(&tally);
                learn.changed = tally;
                if early.is_none_or(|gain| gain <= learn.least_gain()) {
                    return self.end_probe(scene, now, early);
                }
                learn.phase = Phase::Again;
                let setting = learn.accepted;
                self.begin_epoch(scene, now, setting);
            }
            Phase::Again => {
                let before = learn.base.gain(&learn.changed);
                let behind = tally.gain(&learn.changed);
                let gain = before.zip(behind).map(|(one, other)| one.min(other));
                self.end_probe(scene, now, gain);
            }
        }
    }

    /// L3 and L5: the verdict, and when the next probe is.
    fn end_probe(&mut self, scene: &mut Scene, now: Nanos, gain: Option<i64>) {
        let learn = &mut self.learn;
        let (_, count) = learn.candidates(scene.facts().rotational);
        let length = (now - learn.probe_began).0;
        let least = learn.least_gain();
        if gain.is_some_and(|gain| gain > least) {
            learn.accepted = learn.tried;
            (learn.gap, learn.rejected, learn.turn) = (1, 0, 0);
            learn.changes += 1;
        } else {
            learn.rejected += 1;
            if learn.rejected as usize >= count {
                // 1 - 2^g is about -0.7 g, and at most 1.
                let loss = gain.map_or(0, |gain| (-gain * 7 / 10).clamp(0, ONE).unsigned_abs());
                let by_loss = (GAP_BY_LOSS * loss) >> 16;
                learn.gap = (learn.gap.max(1) * 2).max(by_loss).min(GAP_MOST);
            } else {
                learn.gap = 1;
            }
        }
        learn.phase = Phase::Rest;
        learn.next_probe = now + Nanos(length.saturating_mul(learn.gap));
        let setting = learn.accepted;
        self.begin_epoch(scene, now, setting);
    }
}

impl Learn {
    fn least_gain(&self) -> i64 {
        if self.tried == Setting::Free { GAIN_FOR_NONE } else { GAIN_FOR_SEATS }
    }
}

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
use crate::event::Note;
use crate::scene::Scene;
use crate::time::Nanos;

/// L3: log2(1.08) and log2(0.97), the least gains for more order and for less.
const GAIN_FOR_SEATS: i64 = 7277;
const GAIN_FOR_NONE: i64 = -2880;
/// L3: an epoch has at least so much device time, so many quanta, so many requests one by one.
const EPOCH_LEAST: u64 = 5_000_000;
const EPOCH_QUANTA: u64 = 3;
const EPOCH_LATENCIES: u64 = 8;
/// Turns in an epoch with seats: one of everybody, within these bounds; if nobody but streams is
/// there, who are all alike, so many.
const TURNS_LEAST: u64 = 2;
const TURNS_MOST: u64 = 12;
const TURNS_OF_STREAMS: u64 = 4;
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
        self.streams + if self.others > 0 { 1 } else { 0 }
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
    busy_before: u64,
    turns_before: u64,
    accepted: Option<u32>,
    tried: Option<u32>,
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
    /// The candidates beside `accepted` that make a difference with so many who take turns.
    fn candidates(&self, parties: u32) -> ([Option<u32>; 4], usize) {
        let mut all = [None; 4];
        let mut count = 0;
        let mut add = |seats: Option<u32>| {
            if seats.is_none_or(|seats| seats < parties) && count < all.len() {
                all[count] = seats;
                count += 1;
            }
        };
        match self.accepted {
            None => [1, 2, 4, 8].map(Some).into_iter().for_each(add),
            Some(seats) => {
                add(None);
                if seats < 8 {
                    add(Some(2 * seats));
                }
                if seats > 1 {
                    add(Some(seats / 2));
                }
            }
        }
        (all, count)
    }
}

impl Paternoster {
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
        // As many as clients who wait for each other's: of the device's time one takes its cost.
        EPOCH_LEAST.max(quanta).max(EPOCH_LATENCIES * self.mean_cost)
    }

    fn turns_wanted(&self) -> u64 {
        let Mix { others, .. } = self.learn.mix;
        let parties = u64::from(self.learn.mix.parties());
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
        for (client, number) in self.clients.iter_mut().zip(0u32..) {
            let active = core::mem::take(&mut client.habit.ended) > 0;
            if active || self.accounts.at(number).waiting() > 0 {
                let count = if client.habit.is_stream { &mut mix.streams } else { &mut mix.others };
                *count += 1;
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
        let (all, count) = learn.candidates(learn.mix.parties());
        let alone = learn.mix.streams == 0 || learn.mix.parties() < 2;
        if alone || count == 0 {
            learn.next_probe = now + CENSUS;
            return;
        }
        learn.tried = all[learn.turn as usize % count];
        learn.turn = learn.turn.wrapping_add(1);
        learn.probes += 1;
        learn.probe_began = now;
        learn.phase = Phase::Base;
        let seats = learn.accepted;
        self.begin_epoch(scene, now, seats);
    }

    fn begin_epoch(&mut self, scene: &mut Scene, now: Nanos, seats: Option<u32>) {
        if self.seats.most != seats {
            self.seats.limit(seats);
            scene.note(Note::SeatsChanged { seats: seats.unwrap_or(0) });
        }
        let busy = self.busy_until(now);
        let learn = &mut self.learn;
        learn.epoch = learn.epoch.wrapping_add(1);
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
                let seats = learn.tried;
                self.begin_epoch(scene, now, seats);
            }
            Phase::Changed => {
                // Nothing is gained: no need to look a third time.
                let early = learn.base.gain(&tally);
                learn.changed = tally;
                if early.is_none_or(|gain| gain <= learn.least_gain()) {
                    return self.end_probe(scene, now, early);
                }
                learn.phase = Phase::Again;
                let seats = learn.accepted;
                self.begin_epoch(scene, now, seats);
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
        let (_, count) = learn.candidates(learn.mix.parties());
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
        let seats = learn.accepted;
        self.begin_epoch(scene, now, seats);
    }
}

impl Learn {
    const fn least_gain(&self) -> i64 {
        if self.tried.is_none() { GAIN_FOR_NONE } else { GAIN_FOR_SEATS }
    }
}

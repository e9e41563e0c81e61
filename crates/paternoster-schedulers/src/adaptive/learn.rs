// SPDX-License-Identifier: MIT OR Apache-2.0
//! Learn: trials find the best number of seats (rule L).
//!
//! No description of a device says how many streams it serves best at a time, and the answer
//! changes with the mix of clients. So another number of seats is tried for a while, between two
//! stretches, or *epochs*, of the present one:
//!
//! ```text
//!          base          changed         again                   rest, on probation
//! seats     ∞      |        1        |     ∞    …     ∞      |      1        1        1 …
//!                  |- turns of each -|   until it is as before
//! ```
//!
//! The smaller of both gains decides, so that a burst in one epoch does not. More order must pay:
//! at least 8 %. Less order is accepted if it costs less than 3 %.
//!
//! A disk still has read-ahead left over from turns, and serves it at once when turns are given up:
//! for a moment any setting looks good. So the last epoch is repeated until it resembles the first;
//! and an accepted setting is on probation: it must keep its promise in each stretch, or it is
//! withdrawn.
//!
//! The same observation shows when the device has changed under the same clients (an array that
//! rebuilds a disk): once a stretch is off by a quarter, two more in a row like it are reason to
//! try all settings again.
//!
//! A probe is about the clients present. It does not begin before their kinds are known, and is
//! given up when others come (see `workload_mix.rs`).
//!
//! # Invariants
//! I1  A request counts in the epoch in which it was dispatched, or not at all.
//! I2  Outside of probes the number of seats is the one accepted last.
//!
//! Source: L1, L3, L5 of `docs/rules/adaptive.md`. Differs: epochs overlap at
//! their ends, since gains go by device time (see `throughput_gain.rs`); probation; the gaps of
//! `arms.rs`.

use crate::adaptive::arms::Arms;
use crate::adaptive::seats::{Seats, Setting};
use crate::adaptive::throughput_gain::{Did, Tally};
use crate::adaptive::workload_mix::{Census, WorkloadMix};
use paternoster_core::time::Nanos;

/// The interval between counts; a changed mix leads to a probe within this time.
const COUNT_EVERY: Nanos = Nanos::from_millis(100);
/// For this long at most, clients not yet known prevent probes.
const STRANGE_MOST: Nanos = Nanos::from_secs(2);
/// L3: log2(1.08) and, below, log2(0.97), the least gains for more order and for less.
const GAIN_FOR_SEATS: i64 = 7277;
/// log2(1.15): where there are no seeks and many requests run at once, clients that fell into step
/// with each other make turns look better.
const GAIN_AT_ONCE: i64 = 13_214;
const GAIN_FOR_NONE: i64 = -2880;
/// log2(1.12) and log2(1.25): within it two stretches are alike; beyond it the device has changed.
const ALIKE: i64 = 10_715;
const ANOTHER: i64 = 21_098;
/// log2(2) and log2(0.6): so good, or so bad, that less evidence is enough.
const TWICE: i64 = 1 << 16;
const HOPELESS: i64 = -48_299;
/// log2(1.01): the least difference put down to chance.
const CHANCE_LEAST: i64 = 941;
/// L3: an epoch has at least this much device time, this many quanta, this many mean requests.
const EPOCH_LEAST: u64 = 5_000_000;
const EPOCH_QUANTA: u64 = 3;
const EPOCH_REQUESTS: u64 = 8;
/// The same where a drive that orders its own queue may pass over a client for half of that.
const EPOCH_OF_LUCK: u64 = 1_000_000_000;
/// A stretch of rest is this many epochs long; probation is this many stretches.
const REST_EPOCHS: u64 = 2;
const REST_LEAST: u64 = REST_EPOCHS * EPOCH_LEAST;
const PROBATION: u8 = 4;
/// This many in a row that are like the one before, and unlike the usual: the device has changed.
const ODD_MOST: u8 = 2;
/// The last epoch of a probe is repeated at most this often.
const AGAIN_MOST: u8 = 3;
/// Both settings are tried at most this often in one probe, while the result is not clear.
const ROUNDS_MOST: u8 = 4;
/// A setting is called hopeless after this many turns, or one of this many parts of an epoch.
const HOPELESS_TURNS: u64 = 3;
const HOPELESS_PARTS: u64 = 4;
/// Turns in an epoch with seats: one of each party, within these bounds; if all parties are
/// streams, which are all alike, at most the third.
const TURNS_LEAST: u64 = 2;
const TURNS_MOST: u64 = 12;
const TURNS_OF_STREAMS: u64 = 16;
/// Without seats an epoch begins to count after this many switches between clients, for each party.
const SWITCHES_EACH: u32 = 4;
/// At most this many parties count for that.
const MIXES_MOST: u32 = 16;
/// An epoch that takes this many times its length is given up: no requests come.
const PATIENCE: u64 = 16;
/// A probe is not given up for another mix again within this time, nor within this many times the
/// length of the one that was.
const STALE_LEAST: Nanos = Nanos::from_secs(1);
const STALE_PAUSE: u64 = 8;

/// What the search looks at besides itself, when a request has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Nanos,
    /// For how long the device has been busy, and the mean device time of a request, in ns.
    pub(super) busy: u64,
    pub(super) mean_cost: u64,
    /// The device has seeks, has a cache for writes besides, and takes this many commands.
    pub(super) seeks: bool,
    pub(super) caches_writes: bool,
    pub(super) depth: u32,
}

/// What the search is doing.
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

/// The state of the search.
#[derive(Debug, Default)]
pub(super) struct Learn {
    pub(super) phase: Phase,
    /// The number of the epoch, which requests carry from their dispatch on (I1).
    pub(super) epoch: u32,
    base: Tally,
    changed: Tally,
    present: Tally,
    /// The usual result of a stretch of rest, and how many in a row differed from it.
    pub(super) usual: Option<Tally>,
    odd: u8,
    /// The gain of the last stretch over the usual one.
    was_off: i64,
    began: Nanos,
    is_warm: bool,
    /// The epoch before had turns: read-ahead may be left over.
    was_seated: bool,
    /// How often a request came from another client than the last one, in this epoch.
    switches: u32,
    last: u32,
    busy_before: u64,
    turns_before: u64,
    /// The number of turns, or parts, at which to check next whether the tried setting is hopeless.
    looked: u64,
    pub(super) accepted: Setting,
    tried: Setting,
    /// What `accepted` replaced, and for how many stretches it can still come back.
    given_up: Setting,
    probation: u8,
    repeated: u8,
    rounds: u8,
    /// The largest difference between stretches with the accepted number, in this probe.
    chance: i64,
    /// The device does not seek, and takes more than one command at a time.
    goes_at_once: bool,
    pub(super) arms: Arms,
    probe_began: Nanos,
    pub(super) mix: WorkloadMix,
    /// The mix when all settings were last tried because of it.
    pub(super) tried_with: WorkloadMix,
    pub(super) next_count: Nanos,
    /// By then the clients present are known, or are taken for what they seem to be.
    pub(super) known_by: Nanos,
    /// What was begun before is not comparable.
    pub(super) is_stale: bool,
    /// Until then, an end only checks whether a stretch is long enough. This holds because all that
    /// the decision depends on changes only in `learn_on`, and in `be_stale` and `stop`, which
    /// reset it.
    calm_until: Nanos,
    next_stale: Nanos,
    /// Figures for display.
    pub(super) probes: u64,
    pub(super) changes: u64,
}

impl Learn {
    /// How far off the threshold a gain may be by chance: a quarter in the first round, less in
    /// each further one; and at most twice the difference between two stretches of the same kind.
    fn doubt(&self) -> i64 {
        (ANOTHER / i64::from(self.rounds.max(1))).min(CHANCE_LEAST + 2 * self.chance)
    }

    /// Until then, an end has nothing to decide but whether a stretch of rest is over.
    fn is_calm_until(&self, is_free: bool) -> Nanos {
        if self.phase == Phase::Rest && (self.is_warm || !is_free) && !self.is_stale {
            self.next_count.min(self.arms.quiet_until)
        } else {
            Nanos::ZERO
        }
    }

    /// Clients have formed a shared stream: what was begun before is not comparable.
    pub(super) const fn be_stale(&mut self) {
        (self.is_stale, self.calm_until) = (true, Nanos::ZERO);
    }

    /// The least gain of the tried setting over `from`.
    const fn least_gain(&self, from: Setting) -> i64 {
        match (self.tried, from) {
            (Setting::Free, _) => GAIN_FOR_NONE,
            // Turns for each sweep group instead of for each client in it.
            (Setting::Streams(_), Setting::All) if self.mix.streams == 0 => GAIN_FOR_NONE,
            _ if self.goes_at_once => GAIN_AT_ONCE,
            _ => GAIN_FOR_SEATS,
        }
    }
}

impl Learn {
    /// A request of a client goes to the device.
    pub(super) fn note_switch(&mut self, client: u32) {
        let last = core::mem::replace(&mut self.last, client);
        self.switches = self.switches.saturating_add(u32::from(last != client));
    }

    /// A request that was dispatched in `epoch` has ended.
    pub(super) fn ended(&mut self, epoch: u32, did: Did) {
        if epoch == self.epoch {
            self.present.count_one(did);
        }
    }

    /// At the end of each request, `mean_cost` being the device time of one: may an epoch be over,
    /// or a probe due?
    #[inline(always)]
    pub(super) fn is_due(&self, seats: &Seats, mean_cost: u64, now: Nanos) -> bool {
        // While it is calm this is a stretch of rest, whose exact length is rarely computed: it is
        // not below this many of the least quanta.
        let served = self.present.served;
        let rest_least = REST_LEAST.max(REST_EPOCHS * EPOCH_QUANTA * seats.quantum_least());
        let is_short = || served < rest_least || served < self.epoch_length(seats, mean_cost);
        now >= self.calm_until || !is_short()
    }

    /// The same, if something is due: goes on with the search. Sets the number of seats; returns
    /// whether that is another one.
    #[inline(never)]
    pub(super) fn go_on(&mut self, seats: &mut Seats, now: &Moment, census: &mut Census) -> bool {
        let before = seats.setting();
        self.learn_more(seats, now, census);
        self.calm_until = self.is_calm_until(seats.most.is_none());
        seats.setting() != before
    }

    fn learn_more(&mut self, seats: &mut Seats, moment: &Moment, census: &mut Census) {
        let now = moment.now;
        self.present.is_cached = moment.caches_writes;
        if now >= self.next_count {
            self.update_workload_mix(seats, moment, census);
        }
        if core::mem::take(&mut self.is_stale) {
            self.drop_probe(seats, moment, census);
        }
        let resting = self.phase == Phase::Rest;
        if resting && self.begins_probe(seats, moment) {
            return;
        }
        let passed = (now - self.began).0;
        let least = self.epoch_length(seats, moment.mean_cost);
        let turns = self.turns_wanted(seats).max(1);
        if !resting && passed > PATIENCE * least.saturating_mul(turns) {
            return self.end_probe(seats, moment, None);
        }
        if seats.most.is_none() && !self.is_warm {
            self.warm_up(seats, moment, least);
        } else if self.is_hopeless(seats, least) {
            let gain = self.base.gain_of_device(&self.present);
            self.end_probe(seats, moment, gain);
        } else if self.present.served >= least && self.had_turns(seats) {
            self.end_epoch(seats, moment);
        }
    }

    /// Waits until a disk's read-ahead from turns is used up, and until a client that was behind
    /// has caught up, with the device to itself: neither is this epoch's merit.
    fn warm_up(&mut self, seats: &Seats, moment: &Moment, least: u64) {
        let parties = self.mix.parties_of(true).min(MIXES_MOST);
        let mixes = self.is_one_shared_stream() || self.switches >= SWITCHES_EACH * parties;
        let least = if self.was_seated { least } else { 0 };
        if self.present.served >= least && mixes {
            self.begin_counting(seats, moment);
            self.is_warm = true;
        }
    }

    /// Whether a tried setting is far worse, which a few turns are enough to show; among streams,
    /// which are all alike, a part of one. Checked at most once in a turn, or in such a part.
    fn is_hopeless(&mut self, seats: &Seats, least: u64) -> bool {
        if self.phase != Phase::Changed || seats.most.is_none() {
            return false;
        }
        let parts = HOPELESS_PARTS * self.present.served / least;
        let (seen, wanted) = if self.mix.others > 0 {
            // Random clients are not alike: each has one turn.
            let turns = seats.turns - self.turns_before;
            (turns, self.turns_wanted(seats).max(HOPELESS_TURNS))
        } else {
            (parts, 1)
        };
        if parts == 0 || seen < wanted.max(self.looked) {
            return false;
        }
        self.looked = seen + 1;
        let gain = self.base.gain_of_device(&self.present);
        gain.is_some_and(|gain| gain <= HOPELESS)
    }

    /// L3.
    fn epoch_length(&self, seats: &Seats, mean_cost: u64) -> u64 {
        let quanta = self.quanta_wanted(seats) * seats.quantum();
        let least = EPOCH_LEAST.max(quanta).max(EPOCH_REQUESTS * mean_cost);
        let least = if self.is_luck(seats) { least.max(EPOCH_OF_LUCK) } else { least };
        if self.phase == Phase::Rest { REST_EPOCHS * least } else { least }
    }

    /// The first look at streams that have no seats is short: on a disk they lose nine tenths of
    /// their throughput while it lasts, and where less is at stake there are more looks.
    const fn quanta_wanted(&self, seats: &Seats) -> u64 {
        let Learn { phase, rounds, mix, .. } = self;
        let is_first = matches!(phase, Phase::Base) && *rounds == 0;
        if is_first && mix.others == 0 && seats.most.is_none() { 1 } else { EPOCH_QUANTA }
    }

    /// Without seats a disk drive chooses between a stream, which costs it nothing, and random
    /// requests, which it passes over until they are old.
    const fn is_luck(&self, seats: &Seats) -> bool {
        let WorkloadMix { streams, others, .. } = self.mix;
        seats.tries && seats.most.is_none() && streams > 0 && others > 0
    }

    fn had_turns(&self, seats: &Seats) -> bool {
        let turns = seats.turns - self.turns_before;
        seats.most.is_none() || turns >= self.turns_wanted(seats)
    }

    fn turns_wanted(&self, seats: &Seats) -> u64 {
        let WorkloadMix { others, .. } = self.mix;
        // The idle class has its turns when there is time: the epoch does not wait for them.
        let parties = self.mix.parties_of(seats.everyone);
        let parties = u64::from(parties.saturating_sub(self.mix.idle));
        if seats.most.is_none() {
            1
        } else if self.is_one_shared_stream() || parties < 2 {
            // There is no other party to give a seat up to.
            0
        } else if others == 0 {
            parties.min(TURNS_OF_STREAMS)
        } else {
            parties.clamp(TURNS_LEAST, TURNS_MOST)
        }
    }

    /// All clients present are one shared stream: there is no other party to give a seat up to, or
    /// to switch to.
    const fn is_one_shared_stream(&self) -> bool {
        self.mix.together && self.mix.parties_of(true) == 1
    }

    /// Tries another setting, if one is due.
    fn begins_probe(&mut self, seats: &mut Seats, moment: &Moment) -> bool {
        let Moment { now, seeks, depth, .. } = *moment;
        if self.mix.strange && now < self.known_by {
            return false;
        }
        self.goes_at_once = !seeks && depth > 1;
        let Some(tried) = self.arms.due(self.accepted, self.mix, seeks, now) else {
            return false;
        };
        (self.tried, self.phase) = (tried, Phase::Base);
        (self.probes, self.probe_began) = (self.probes + 1, now);
        (self.probation, self.repeated, self.rounds) = (0, 0, 0);
        self.chance = ANOTHER;
        self.changed = Tally::default();
        // Random clients may still profit from read-ahead of a time before the first stretch.
        let is_new = self.usual.is_none() && self.mix.others > 0;
        let setting = self.accepted;
        // Where there are seeks it may take a while until all arms have arrived.
        seats.tries = seeks;
        self.begin_epoch(seats, moment, setting);
        self.was_seated |= is_new;
        true
    }

    fn begin_epoch(&mut self, seats: &mut Seats, moment: &Moment, setting: Setting) {
        self.was_seated = seats.most.is_some();
        if seats.setting() != setting {
            seats.set(setting);
        }
        self.epoch = self.epoch.wrapping_add(1);
        (self.is_warm, self.switches) = (false, 0);
        self.begin_counting(seats, moment);
    }

    fn begin_counting(&mut self, seats: &Seats, moment: &Moment) {
        let Moment { now, busy, .. } = *moment;
        self.present = Tally::default();
        (self.began, self.busy_before) = (now, busy);
        (self.turns_before, self.looked) = (seats.turns, 0);
    }

    fn end_epoch(&mut self, seats: &mut Seats, moment: &Moment) {
        let Moment { now, busy, .. } = *moment;
        let mut tally = core::mem::take(&mut self.present);
        (tally.elapsed, tally.busy) = ((now - self.began).0, busy - self.busy_before);
        let (accepted, tried) = (self.accepted, self.tried);
        match self.phase {
            Phase::Rest => self.end_rest(seats, moment, tally),
            Phase::Base => {
                self.base = tally;
                self.phase = Phase::Changed;
                self.begin_epoch(seats, moment, tried);
            }
            Phase::Changed => {
                self.changed.add(&tally);
                let gain = self.base.gain(&self.changed);
                if self.mix.others == 0 && gain.is_some_and(|gain| gain >= TWICE) {
                    // Streams that get twice as much need no second look before probation takes a
                    // third. With random requests present, a drive that orders its own queue is a
                    // matter of luck.
                    return self.end_probe(seats, moment, gain);
                }
                // So bad that it need not be tried again.
                if gain.is_none_or(|gain| gain <= self.least_gain(self.accepted) - self.doubt()) {
                    return self.end_probe(seats, moment, gain);
                }
                self.phase = Phase::Again;
                self.begin_epoch(seats, moment, accepted);
            }
            Phase::Again => {
                let differ = self.base.gain(&tally).map(i64::abs);
                let alike = differ.is_none_or(|differ| differ <= ALIKE);
                if !alike && self.repeated < AGAIN_MOST {
                    self.repeated += 1;
                    return self.begin_epoch(seats, moment, accepted);
                }
                let differ = differ.unwrap_or(ANOTHER);
                self.chance = if self.rounds == 0 { differ } else { self.chance.max(differ) };
                let behind = tally.gain(&self.changed);
                self.base.add(&tally);
                let before = self.base.gain(&self.changed);
                let gain = before.zip(behind).map(|(one, other)| one.min(other));
                let off =
                    gain.map_or(i64::MAX, |gain| (gain - self.least_gain(self.accepted)).abs());
                self.rounds += 1;
                if off > self.doubt() || self.rounds >= ROUNDS_MOST {
                    return self.end_probe(seats, moment, gain);
                }
                (self.phase, self.repeated) = (Phase::Changed, 0);
                self.begin_epoch(seats, moment, tried);
            }
        }
    }

    /// L3 and L5: the verdict, and when the next probe is.
    fn end_probe(&mut self, seats: &mut Seats, moment: &Moment, gain: Option<i64>) {
        let now = moment.now;
        let length = (now - self.probe_began).0;
        if gain.is_some_and(|gain| gain > self.least_gain(self.accepted)) {
            self.given_up = core::mem::replace(&mut self.accepted, self.tried);
            self.arms.accept(self.given_up, now, length, gain.unwrap_or(0));
            (self.probation, self.usual) = (PROBATION, None);
            self.changes += 1;
        } else {
            // A long probe of a nearly equal setting need not delay the next one in proportion.
            let round = length / u64::from(self.rounds.max(1));
            self.arms.reject(self.tried, now, round, gain);
        }
        self.rest(seats, moment);
    }

    /// Gives up a probe that was begun with another mix, unless that happened recently.
    fn drop_probe(&mut self, seats: &mut Seats, moment: &Moment, census: &mut Census) {
        let now = moment.now;
        if self.phase == Phase::Rest || now < self.next_stale {
            return;
        }
        // So that clients that come and go do not keep probes from ever finishing.
        let length = Nanos(STALE_PAUSE * (now - self.probe_began).0);
        self.next_stale = now + STALE_LEAST.max(length);
        self.arms.next = now + COUNT_EVERY;
        self.rest(seats, moment);
        self.update_workload_mix(seats, moment, census);
    }

    fn rest(&mut self, seats: &mut Seats, moment: &Moment) {
        self.phase = Phase::Rest;
        seats.tries = false;
        let setting = self.accepted;
        self.begin_epoch(seats, moment, setting);
    }

    /// A stretch of rest is over: does the accepted number keep its promise, and is the device
    /// unchanged?
    fn end_rest(&mut self, seats: &mut Seats, moment: &Moment, tally: Tally) {
        let now = moment.now;
        let kept = self.base.gain(&tally);
        if self.probation > 0 {
            self.probation -= 1;
            if kept.is_some_and(|gain| gain <= self.least_gain(self.given_up) - ALIKE) {
                let broken = core::mem::replace(&mut self.accepted, self.given_up);
                let length = (now - self.probe_began).0;
                self.arms.reject(broken, now, length, kept);
                self.probation = 0;
                return self.rest(seats, moment);
            }
        }
        match &mut self.usual {
            None => self.usual = Some(tally),
            Some(usual) => {
                let off = usual.gain_of_device(&tally).unwrap_or(0);
                let is_odd = off.abs() > ANOTHER && (off - self.was_off).abs() <= ALIKE;
                (self.odd, self.was_off) = (if is_odd { self.odd + 1 } else { 0 }, off);
                if off.abs() <= ANOTHER {
                    usual.blend(&tally);
                }
                if self.odd >= ODD_MOST {
                    (self.odd, self.usual) = (0, None);
                    self.arms.forget(now);
                }
            }
        }
        self.was_seated = false;
        self.begin_counting(seats, moment);
    }

    /// Counts the active clients. A changed mix is tried out soon.
    fn update_workload_mix(&mut self, seats: &mut Seats, moment: &Moment, census: &mut Census) {
        let Moment { now, seeks, .. } = *moment;
        let mix = census.count(now);
        seats.parties = mix.parties_of(seats.everyone);
        seats.all_random = mix.streams == 0;
        self.next_count = now + COUNT_EVERY;
        // The mix or the times may have changed: what is due is checked again.
        self.arms.quiet_until = Nanos::ZERO;
        // Without seeks a random client is just one more, not a separate question.
        let is_of_another_kind = seeks && mix.kind() != self.mix.kind();
        if self.phase != Phase::Rest {
            self.is_stale |= is_of_another_kind;
            return;
        }
        if !self.mix.strange {
            self.known_by = now + STRANGE_MOST;
        }
        let was = core::mem::replace(&mut self.mix, mix);
        if was.kind() != mix.kind() || was.parties() != mix.parties() {
            self.usual = None;
        }
        let at = now + COUNT_EVERY;
        let is_known = is_of_another_kind && self.arms.turn_to(mix, was, self.accepted, at);
        if (is_of_another_kind || mix.is_another(self.tried_with, seeks)) && !is_known {
            self.tried_with = mix;
            self.arms.try_all(now, at);
        }
    }

    /// Everything is to be learned anew, without a limit until then.
    pub(super) fn stop(&mut self) {
        let Learn { epoch, probes, changes, .. } = *self;
        *self = Learn { epoch: epoch.wrapping_add(1), probes, changes, ..Learn::default() };
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ceiling: how many permits may be out at most, found by trial.
//!
//! The elevator orders what waits in front of a device that says how many commands it takes. The
//! device behind a gate does not: permits beyond what it works on wait in a line that no weight
//! orders. So the gate tries fewer and more, and keeps the fewest that do as much work:
//!
//! ```text
//! ssd    8: 92   12: 98   16: 99.6   24: 100 %    of the work of all permits
//!        16 16 | 12 12 | 16 16     12 does 1.3 % less: 16 stays
//!        16 16 | 24 24 | 16 16     24 does 0.4 % more: 16 stays
//! ```
//!
//! The work of a stretch of time is the sum of its I/Os' costs at the prices before the trial (mean
//! device time by kind and size), so that the mix of I/Os makes no difference. A trial goes up or
//! down one rung of the ladder 1 2 3 4 6 8 12 16 …, between two stretches at the present ceiling;
//! it is repeated until its result is more than chance, at most [`TRIALS`] times. At the start the
//! ceiling is doubled as long as that does an eighth more work, and then halved as long as that
//! does nearly as much. Without that, the search rung by rung would take minutes on a disk that
//! does 80 I/Os a second, and all that time readers would wait in the device's queue.
//!
//! Only stretches in which asks waited for the ceiling count. A trial of a higher ceiling need not
//! have reached it: not reaching it shows that more permits are of no use. Where the elevator holds
//! classes back for the sake of others, or gives fewer commands by itself, nothing is tried.
//!
//! # Invariants
//! I1  1 <= `used` <= `most`, and `used` is a rung of the ladder or `most`.
//! I2  Integers only; O(1) a permit; no allocation.

use paternoster_core::Nanos;

use super::entry::Op;
use super::eta::Held;

/// The ceiling that a gate begins with.
const START: u32 = 8;
/// A stretch has at least this many ends, and this multiple of the ceiling.
const ENDS: u32 = 64;
const DEPTHS: u32 = 4;
/// And lasts at least this long, two of the elevator's epochs (its rule C5): with too few permits
/// it charges costs in one and device time in the next, and other classes go.
const LEAST: Nanos = Nanos::from_millis(20);
/// A trial is repeated at most this often, and lasts at least this long.
const TRIALS: u32 = 8;
/// In thousandths: how little one rung less may do, how much one rung more must do; and twice as
/// many at the start.
const LOSS: u64 = 990;
const GAIN: u64 = 1020;
const GAIN_OF_DOUBLE: u64 = 1125;
/// Then, how little a half, a quarter … of that may do, in total.
const LOSS_OF_HALVES: u64 = 925;
/// If two stretches differ by more, in thousandths, the trial between them says nothing.
const ALIKE: u64 = 150;
/// Between two trials that change nothing at most this many times a trial's length passes.
const GAP_MOST: u64 = 16;

/// The work done in a stretch.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    /// At the prices before the trial, in ns.
    work: u64,
    time: u64,
    ends: u64,
}

impl Done {
    fn add(&mut self, other: Done) {
        self.work += other.work;
        self.time += other.time;
        self.ends += other.ends;
    }

    /// The rate of work here divided by the rate there, in thousandths.
    fn beside(self, other: Done) -> u64 {
        let here = u128::from(self.work) * u128::from(other.time) * 1000;
        let there = u128::from(other.work) * u128::from(self.time);
        u64::try_from(here / there.max(1)).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Doubling from the start.
    Start,
    /// Doubling no longer helped: halving.
    Halves,
    Rest,
    Before,
    Trial,
    After,
}

/// How many permits may be out, and the search for it.
#[derive(Debug)]
pub(super) struct Ceiling {
    most: u32,
    /// The accepted ceiling, and the one in use at this point of a trial.
    level: u32,
    used: u32,
    /// The direction to try next.
    goes_up: bool,
    step: Step,
    /// The current stretch: when it began; ends before it counts; ends, and those of them at which
    /// the ceiling was reached.
    began: Nanos,
    skip: u32,
    ends: u32,
    full: u32,
    work: u64,
    last: Option<Done>,
    before: Done,
    /// Sums over all repetitions of a trial.
    without: Done,
    with: Done,
    trials: u32,
    /// The largest difference between stretches without.
    drift: u64,
    trial_began: Nanos,
    next: Nanos,
    gap: u64,
    prices: Held,
    frozen: Held,
}

/// The next rung below.
const fn below(level: u32) -> u32 {
    if level <= 4 {
        return if level > 1 { level - 1 } else { 1 };
    }
    let octave = 1 << (level - 1).ilog2();
    if level > octave / 2 * 3 { octave / 2 * 3 } else { octave }
}

/// The next rung above.
const fn above(level: u32) -> u32 {
    if level < 4 {
        return level + 1;
    }
    let octave = 1 << level.ilog2();
    if level < octave / 2 * 3 { octave / 2 * 3 } else { 2 * octave }
}

impl Ceiling {
    pub(super) fn new(most: u32) -> Ceiling {
        let start = START.min(most);
        Ceiling {
            most,
            level: start,
            used: start,
            goes_up: true,
            step: Step::Start,
            began: Nanos::ZERO,
            skip: 0,
            ends: 0,
            full: 0,
            work: 0,
            last: None,
            before: Done::default(),
            without: Done::default(),
            with: Done::default(),
            trials: 0,
            drift: 0,
            trial_began: Nanos::ZERO,
            next: Nanos::ZERO,
            gap: 1,
            prices: Held::default(),
            frozen: Held::default(),
        }
    }

    /// How many may be out now.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// A permit of this kind and size was given back after this much device time; before that `out`
    /// were out, and one waited or not. Returns whether the number that may be out changes.
    pub(super) fn ended(
        &mut self,
        now: Nanos,
        (op, len): (Op, u64),
        served: Nanos,
        (out, waits): (u32, bool),
    ) -> bool {
        self.prices.add(op, len, served);
        if self.skip > 0 {
            // The first ends of a stretch belong to the one before.
            self.skip -= 1;
            self.began = now;
            return false;
        }
        self.ends += 1;
        self.full += u32::from(waits && out + self.used / 8 >= self.used);
        self.work += self.frozen.expect(op, len).max(1);
        let enough = self.ends >= (DEPTHS * self.used).max(ENDS);
        if !enough || now < self.began + LEAST {
            return false;
        }
        let before = self.used;
        self.end_stretch(now);
        self.used != before
    }

    fn begin(&mut self, step: Step, used: u32, now: Nanos) {
        // Permits that are out stay out: the stretch begins when they have ended.
        self.skip = if used == self.used { 0 } else { self.used.max(used) };
        (self.step, self.used, self.began) = (step, used, now);
        (self.ends, self.full, self.work) = (0, 0, 0);
    }

    fn end_stretch(&mut self, now: Nanos) {
        // A trial of more need not be full: the work done says whether they are of use.
        let is_more = match self.step {
            Step::Start => self.last.is_some_and(|last| last.ends > 0),
            Step::Trial => self.goes_up,
            _ => false,
        };
        let is_full = is_more || 4 * self.full >= 3 * self.ends;
        let time = (now - self.began).0;
        let done = Done { work: self.work, time, ends: self.ends.into() };
        if !is_full {
            // The trial is given up and its results so far are forgotten.
            self.last = None;
            self.trials = 0;
            let step = if self.step == Step::Start { Step::Start } else { Step::Rest };
            self.frozen = self.prices.clone();
            return self.begin(step, self.level, now);
        }
        match self.step {
            Step::Start => self.start(now, done),
            Step::Halves => self.halve(now, done),
            Step::Rest if now >= self.next => {
                self.frozen = self.prices.clone();
                if self.trials == 0 {
                    self.trial_began = now;
                    (self.without, self.with) = (Done::default(), Done::default());
                }
                self.begin(Step::Before, self.level, now);
            }
            Step::Rest => self.begin(Step::Rest, self.level, now),
            Step::Before => {
                self.before = done;
                self.begin(Step::Trial, self.candidate(), now);
            }
            Step::Trial => {
                self.last = Some(done);
                self.begin(Step::After, self.level, now);
            }
            Step::After => self.end_trial(now, done),
        }
    }

    fn candidate(&self) -> u32 {
        let next = if self.goes_up { above(self.level) } else { below(self.level) };
        next.clamp(1, self.most)
    }

    /// Tries twice as many, as long as that does an eighth more.
    fn start(&mut self, now: Nanos, done: Done) {
        let grows = self.last.is_none_or(|last| done.beside(last) >= GAIN_OF_DOUBLE);
        if self.last.is_none() {
            // Prices are known now; the first stretch is repeated with them.
            self.last = Some(Done { work: 0, time: 1, ends: 0 });
            self.frozen = self.prices.clone();
            return self.begin(Step::Start, self.level, now);
        }
        if grows && self.level < self.most {
            self.last = Some(done);
            self.level = (2 * self.level).min(self.most);
            return self.begin(Step::Start, self.level, now);
        }
        self.goes_up = grows;
        if !grows {
            self.level = (self.level / 2).max(1);
            if self.level > 1 {
                // The work done with it stays in `last`.
                return self.begin(Step::Halves, self.level / 2, now);
            }
        }
        self.last = None;
        self.begin(Step::Rest, self.level, now);
    }

    /// Tries half as many, as long as all halves together do nearly as much.
    fn halve(&mut self, now: Nanos, done: Done) {
        let is_taken = self.last.is_some_and(|last| done.beside(last) >= LOSS_OF_HALVES);
        if is_taken {
            // It may have been halved once too often: the first trial goes up.
            self.goes_up = true;
            self.level = self.used;
            if self.level > 1 {
                return self.begin(Step::Halves, self.level / 2, now);
            }
        }
        self.last = None;
        self.begin(Step::Rest, self.level, now);
    }

    fn end_trial(&mut self, now: Nanos, after: Done) {
        let with = self.last.take().unwrap_or_default();
        let drift = after.beside(self.before).abs_diff(1000);
        self.drift = if self.trials == 0 { drift } else { self.drift.max(drift) };
        if drift <= ALIKE {
            self.without.add(self.before);
            self.without.add(after);
            self.with.add(with);
        }
        self.trials += 1;
        let ratio = self.with.beside(self.without);
        // Assume that times vary by half of their mean: this is how far a mean of this many is off
        // by chance.
        let chance = 600 / self.with.ends.max(1).isqrt();
        let asked = if self.goes_up { GAIN } else { LOSS };
        // Unless the trials show that they hardly vary.
        let varies = if self.trials > 1 { chance.min(2 * self.drift) } else { chance };
        let is_sure = self.with.ends > 0 && ratio.abs_diff(asked) > 2 * varies;
        if !is_sure && self.trials < TRIALS {
            return self.begin(Step::Before, self.level, now);
        }
        self.decide(now, self.with.ends > 0 && ratio >= asked && self.candidate() != self.level);
    }

    /// Accepts the tried ceiling, or tries the other direction next.
    fn decide(&mut self, now: Nanos, is_taken: bool) {
        if is_taken {
            self.level = self.candidate();
            self.gap = 0;
        } else {
            self.goes_up = !self.goes_up;
            self.gap = (2 * self.gap).clamp(1, GAP_MOST);
        }
        self.trials = 0;
        let length = (now - self.trial_began).0;
        self.next = now + Nanos(length.saturating_mul(self.gap));
        self.begin(Step::Rest, self.level, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the ladder the same upwards and downwards?
    #[test]
    fn the_ladder() {
        let mut all = alloc::vec![1];
        while let Some(&last) = all.last().filter(|last| **last < 256) {
            all.push(above(last));
        }
        assert_eq!(all, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]);
        assert!(all.windows(2).all(|pair| below(pair[1]) == pair[0]));
        assert_eq!([below(1), below(7), above(7), below(100)], [1, 6, 8, 96]);
    }

    /// A device with a number of servers that each take 100 us for an I/O: its work is the lesser
    /// of permits and servers. Is the ceiling the number of servers, for 1 to 256?
    #[test]
    fn as_many_as_the_device_works_at() {
        for servers in [1, 2, 4, 6, 16, 32, 128, 256] {
            let mut ceiling = Ceiling::new(256);
            let mut now = Nanos::ZERO;
            for _ in 0..200_000 {
                let out = ceiling.used();
                let working = out.min(servers);
                now += Nanos(100_000 / u64::from(working));
                let served = Nanos(100_000 / u64::from(working));
                ceiling.ended(now, (Op::Read, 4096), served, (out, true));
            }
            let (low, high) = (below(servers), above(servers));
            assert!((low..=high).contains(&ceiling.level), "{servers}: {}", ceiling.level);
        }
    }

    /// Clients that use at most twenty permits, on a device that works on 16: is the ceiling 16 at
    /// the end, though 32 were never full, and so never measured?
    #[test]
    fn more_than_can_be_filled_are_not_kept() {
        let (mut ceiling, mut now) = (Ceiling::new(256), Nanos::ZERO);
        for _ in 0..200_000 {
            let out = ceiling.used().min(20);
            let served = Nanos(100_000 / u64::from(out.min(16)));
            now += served;
            ceiling.ended(now, (Op::Read, 4096), served, (out, out == ceiling.used()));
        }
        assert!((12..=16).contains(&ceiling.level), "{}", ceiling.level);
    }

    /// A device that works on one, 10 ms each: is the ceiling 1 after 600 I/Os (6 s)? Rung by rung,
    /// with eight trials of three stretches of 64 each, it would be 7,680 I/Os.
    #[test]
    fn a_slow_device_is_found_out_by_halves() {
        let (mut ceiling, mut now) = (Ceiling::new(256), Nanos::ZERO);
        for _ in 0..600 {
            now += Nanos::from_millis(10);
            let out = ceiling.used();
            ceiling.ended(now, (Op::Read, 4096), Nanos::from_millis(10), (out, true));
        }
        assert_eq!(ceiling.level, 1);
    }

    /// Is nothing tried while no client waits for the ceiling?
    #[test]
    fn it_rests_while_it_does_not_bind() {
        let mut ceiling = Ceiling::new(256);
        for end in 0..10_000u64 {
            let now = Nanos(end * 100_000);
            ceiling.ended(now, (Op::Read, 4096), Nanos(100_000), (3, false));
            assert_eq!(ceiling.used(), START);
        }
    }
}

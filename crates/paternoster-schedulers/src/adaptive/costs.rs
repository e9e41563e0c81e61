// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs: what a request is charged where the device is full (rule C5).
//!
//! A device that works on k requests at once charges each of them 1/k of the time that passes. Once
//! it is full most of that time is waiting, which is as long for a small request as for a large
//! one, and a client that requests little at a time pays for what others requested:
//!
//! ```text
//! 4 KiB and 64 KiB, 32 of each inside `nvme-pm9a3`      1/k: one costs as much as the other
//! the device full of only one of them                   1.17 us each, and 10.06 us
//! ```
//!
//! So each *kind* of request (reads, writes, discards by powers of two of their size) has a cost
//! per sector. At first it is a guess, a constant part of 4 KiB and one by size. *Trials* correct
//! the guess: in four epochs one kind is charged twice, half, half and twice its cost, and gets
//! less or more for that; what the others get more or less is its cost:
//!
//! ```text
//!              writes, at their cost   others, at theirs
//! charged x 2       0.10 of the time     1.10               others gain 0.60, writes lose 0.20:
//!         / 2       0.30                 0.50               they cost 3 times the guess
//! ```
//!
//! A client cannot lower the cost of its own requests: the others' gains determine it. After each
//! epoch all costs are scaled so that together they make up the time that passed, as 1/k does.
//!
//! # Invariants
//! I1  Costs are charged only where nothing rotates and `prices` is not 0, the device takes several
//!     commands, there are no seats and requests took more than [`FULL`] percent of their least
//!     time in the last epoch; learned ones only where an epoch is no longer than [`EPOCH_MOST`],
//!     and after one without a flush. Otherwise what is charged is what was served.
//! I2  The charge is set when a request goes to the device, and does not change.
//! I3  A trial has as many dear epochs as cheap ones, and a cost changes by at most a factor of
//!     four in the first trial of its kind, and by half of itself later.
//! I4  A few steps a request; O(kinds) at the end of an epoch; integers, no allocation.
//!
//! Source: measured on the models, see `docs/elevator.md`.

use paternoster_core::Request;
use paternoster_core::time::Nanos;

/// Kinds: each operation, by the power of two of its sectors.
const SIZES: usize = 16;
const KINDS: usize = 4 * SIZES;
/// While nothing is known, a request costs as much as this many sectors more than it has.
const CONSTANT: u64 = 8;
/// Costs per sector are in ns with this many fraction bits.
const POINT: u32 = 20;
/// At most 16 ms a sector, so that nothing overflows.
const COST_MOST: u64 = 1 << 44;
/// A device is full as soon as requests take this many percent of their least time, until they take
/// less than [`EMPTY`].
const FULL: u64 = 150;
const EMPTY: u64 = 120;
/// An epoch has at least this much time, this many mean latencies, this many requests.
const EPOCH_LEAST: Nanos = Nanos::from_millis(10);
const EPOCH_LATENCIES: u64 = 8;
const EPOCH_REQUESTS: u64 = 64;
/// Where it would last longer a trial would keep a client waiting for too long. On flash it hardly
/// ever does; on disks that do not say that they rotate it does.
const EPOCH_MOST: Nanos = Nanos::from_millis(100);
/// A kind is tried if it has at least one part in this many of the time.
const PARTS_LEAST: u64 = 16;
/// A trial proves nothing if the kind lost less than one part in this many of the time, or if all
/// others had less than this: then it is the device that varies, as when it flushes.
const TELLS_LEAST: i64 = 32;
const OTHERS_LEAST: i64 = 16;
/// This many trials of a kind follow each other soon, and have a wide range.
const SOON: u8 = 4;
/// At most this many epochs lie between trials.
const GAP_MOST: u32 = 16;
/// 1, in parts of the time; and a limit for costs that are far from right, so that nothing
/// overflows.
const WHOLE: i64 = 1 << 16;
const PART_MOST: i64 = 1 << 40;

/// What was done in epochs of a trial: at the known costs, in parts of the time.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    own: i64,
    others: i64,
}

/// The kind whose cost is being tried.
#[derive(Debug, Clone, Copy)]
struct Trial {
    kind: usize,
    /// How many of its epochs are over.
    epoch: u8,
    dear: Parts,
    cheap: Parts,
}

/// The cost of each kind, and the search for it.
#[derive(Debug)]
pub(super) struct Costs {
    /// The device was full in the last epoch.
    is_full: bool,
    /// By kind, per sector: as known, and as charged at present.
    known: [u64; KINDS],
    charged: [u64; KINDS],
    /// By kind: trials that proved something; whether it was ever seen.
    tried: [u8; KINDS],
    seen: [bool; KINDS],
    /// Of this epoch: sectors by kind, requests, their latencies, and the least ones for them.
    sectors: [u64; KINDS],
    ended: u64,
    latency: u64,
    least: u64,
    /// The device made its cache safe in this epoch: that time is charged to those who wrote, and
    /// what the kinds did in the rest of it proves nothing.
    has_flushed: bool,
    /// Costs are charged on this device (I1).
    fits: bool,
    /// They are found by trials; otherwise they are told (C7), and all that is found out here is
    /// whether the device is full.
    learns: bool,
    /// Nothing is counted before this; it is never where costs are not charged.
    began: Nanos,
    until: Nanos,
    trial: Option<Trial>,
    /// The kind that was tried last, and the number of epochs until the next trial.
    last: usize,
    gap: u32,
    left: u32,
    pub(super) trials: u64,
}

/// The kind of a request of this sort.
#[inline(always)]
fn kind_of(request: &Request, sort: u8) -> usize {
    request.op() as usize * SIZES + usize::from(sort) % SIZES
}

impl Costs {
    /// For a device that takes this many commands.
    pub(super) fn new(depth: u32, rotational: bool) -> Costs {
        let mut known = [0; KINDS];
        for (place, cost) in known.iter_mut().enumerate() {
            let sectors = 1 << (place % SIZES);
            // About 100 ns a sector, until the number of sectors a second is known.
            *cost = (((CONSTANT + sectors) * 100) << POINT) / sectors;
        }
        Costs {
            is_full: false,
            known,
            charged: known,
            tried: [0; KINDS],
            seen: [false; KINDS],
            sectors: [0; KINDS],
            ended: 0,
            latency: 0,
            least: 0,
            has_flushed: false,
            fits: depth > 1 && !rotational,
            learns: true,
            began: Nanos::MAX,
            until: Nanos::ZERO,
            trial: None,
            last: 0,
            gap: 1,
            left: 1,
            trials: 0,
        }
    }

    /// From now on charges costs, where the rules allow it, or else device time. `learns`: they are
    /// found by trials.
    pub(super) fn switch(&mut self, on: bool, learns: bool) {
        self.give_up();
        (self.is_full, self.learns) = (false, learns);
        // The first epoch begins with the next completion.
        (self.began, self.until) =
            (if on && self.fits { Nanos::ZERO } else { Nanos::MAX }, Nanos::ZERO);
    }

    /// Whether a request that goes now is charged its cost (I1), where there are no seats.
    #[inline(always)]
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Device time is charged until an epoch ends in which the device is full and accounts do not
    /// decide alone.
    pub(super) fn stop(&mut self) {
        self.give_up();
        self.is_full = false;
    }

    /// The device has flushed its cache.
    pub(super) const fn flushed(&mut self) {
        self.has_flushed = true;
    }

    /// What a request of this sort is charged where the device is full, in ns.
    #[inline(always)]
    pub(super) fn charge_for(&self, request: &Request, sort: u8) -> i64 {
        let cost = self.charged[kind_of(request, sort)];
        (cost.saturating_mul(u64::from(request.sectors())) >> POINT).cast_signed()
    }

    /// How long the next epoch lasts.
    fn length(&self) -> Nanos {
        let mean = self.latency / self.ended.max(1);
        EPOCH_LEAST.max(Nanos(mean.saturating_mul(EPOCH_LATENCIES)))
    }

    /// The next epoch begins.
    fn begin_epoch(&mut self, now: Nanos) {
        (self.began, self.until) = (now, now + self.length());
        self.sectors = [0; KINDS];
        (self.ended, self.latency, self.least) = (0, 0, 0);
        self.has_flushed = false;
    }

    /// The cost of what a kind did in this epoch, in ns.
    fn cost(&self, kind: usize) -> u64 {
        let cost = u128::from(self.known[kind]) * u128::from(self.sectors[kind]);
        u64::try_from(cost >> POINT).unwrap_or(u64::MAX)
    }

    /// The same for all kinds.
    fn cost_of_all(&self) -> u64 {
        (0..KINDS).fold(0, |sum: u64, kind| sum.saturating_add(self.cost(kind)))
    }

    /// Scales all costs by `to / from`, within a factor of four.
    fn scale(&mut self, to: u64, from: u64) {
        let (to, from) = (to.clamp(from / 4, from.saturating_mul(4)), from.max(1));
        for cost in &mut self.known {
            *cost = scaled(*cost, to, from);
        }
        self.charged = self.known;
    }

    /// Charges known costs, and ends any trial.
    fn give_up(&mut self) {
        self.trial = None;
        self.charged = self.known;
    }

    /// The next kind with a part of the time, after the one tried last; none if it is the only one.
    fn next_kind(&self, all: u64) -> Option<usize> {
        let counts = |&kind: &usize| self.cost(kind) > all / PARTS_LEAST;
        let mut order = (1..=KINDS).map(|step| (self.last + step) % KINDS).filter(counts);
        let first = order.next()?;
        order.next().map(|_| first)
    }

    /// Charges the kind of the trial more or less.
    fn try_on(&mut self) {
        let Some(Trial { kind, epoch, .. }) = self.trial else { return };
        let (much, little) = if self.tried[kind] < SOON { (2, 1) } else { (3, 2) };
        let is_dear = epoch == 0 || epoch == 3;
        let (to, from) = if is_dear { (much, little) } else { (little, much) };
        self.charged = self.known;
        self.charged[kind] = scaled(self.known[kind], to, from);
    }

    /// An epoch of a trial is over.
    fn end_try(&mut self, time: u64, all: u64) {
        let Some(mut trial) = self.trial else { return };
        let own = self.cost(trial.kind);
        let part = |cost: u64| {
            let part = (u128::from(cost) << 16) / u128::from(time.max(1));
            i64::try_from(part).unwrap_or(PART_MOST).min(PART_MOST)
        };
        let parts =
            if trial.epoch == 0 || trial.epoch == 3 { &mut trial.dear } else { &mut trial.cheap };
        parts.own += part(own) / 2;
        parts.others += part(all - own) / 2;
        trial.epoch += 1;
        self.trial = (trial.epoch < 4).then_some(trial);
        if self.trial.is_none() {
            self.end_trial(&trial);
        }
        self.try_on();
    }

    /// What the others gained, divided by what the kind lost, is its cost.
    fn end_trial(&mut self, trial: &Trial) {
        self.trials += 1;
        self.charged = self.known;
        let lost = trial.cheap.own - trial.dear.own;
        let gained = trial.dear.others - trial.cheap.others;
        let mut is_off = false;
        let others = trial.dear.others.max(trial.cheap.others);
        if lost >= WHOLE / TELLS_LEAST && others >= WHOLE / OTHERS_LEAST {
            let tried = &mut self.tried[trial.kind];
            let (most, part) = match *tried {
                0 => (4, 1),
                1..SOON => (2, 2),
                _ => (2, 4),
            };
            let factor = (gained * WHOLE / lost).clamp(WHOLE / most, WHOLE * most);
            is_off = !(WHOLE * 3 / 4..=WHOLE * 4 / 3).contains(&factor);
            // Far off: it is to be learned anew.
            *tried = if is_off { 1 } else { tried.saturating_add(1) };
            let to = (WHOLE + (factor - WHOLE) / part).unsigned_abs();
            self.learn_cost(trial.kind, to);
        }
        let is_soon = is_off || (1..SOON).contains(&self.tried[trial.kind]);
        self.gap = if is_soon { 1 } else { (2 * self.gap).min(GAP_MOST) };
        self.left = self.gap;
    }

    /// A kind costs `to` of [`WHOLE`] of what was assumed; and so do those of its operation that
    /// have never been seen.
    fn learn_cost(&mut self, kind: usize, to: u64) {
        let first = kind / SIZES * SIZES;
        for place in first..first + SIZES {
            if place == kind || !self.seen[place] {
                self.known[place] = scaled(self.known[place], to, WHOLE.unsigned_abs());
            }
        }
        self.charged = self.known;
    }

    /// An epoch in which costs could be learned is over.
    fn end_epoch(&mut self, now: Nanos) {
        let time = (now - self.began).0;
        let from = if self.is_full { EMPTY } else { FULL };
        let is_crowded = self.latency.saturating_mul(100) > self.least.saturating_mul(from);
        let tells = !self.has_flushed && self.length() <= EPOCH_MOST;
        self.is_full = is_crowded && (tells || !self.learns);
        let all = if self.is_full && self.learns { self.cost_of_all() } else { 0 };
        if all > 0 {
            for (seen, &sectors) in self.seen.iter_mut().zip(&self.sectors) {
                *seen |= sectors > 0;
            }
            if self.trial.is_some() {
                self.end_try(time, all);
            } else {
                self.scale(time, all);
                self.left = self.left.saturating_sub(1);
                if self.left == 0
                    && let Some(kind) = self.next_kind(all)
                {
                    let none = Parts::default();
                    self.trial = Some(Trial { kind, epoch: 0, dear: none, cheap: none });
                    self.last = kind;
                    self.try_on();
                }
            }
        } else {
            self.give_up();
        }
        self.begin_epoch(now);
    }

    /// A request of this sort has ended, `latency` after it went to the device; the second value is
    /// the least time for its sort. Returns whether an epoch may be over: see [`Costs::end`].
    #[inline(always)]
    #[must_use]
    pub(super) fn ended(
        &mut self,
        gone: &Request,
        sort: u8,
        now: Nanos,
        latency: [u64; 2],
    ) -> bool {
        if now < self.began {
            return false;
        }
        let [latency, least] = latency;
        self.sectors[kind_of(gone, sort)] += u64::from(gone.sectors());
        self.ended += 1;
        self.latency += latency;
        self.least += least;
        now >= self.until
    }

    /// The time of an epoch has passed. `is_free`: there are no seats, no number of them is tried,
    /// and accounts do not decide alone.
    #[inline(never)]
    pub(super) fn end(&mut self, now: Nanos, is_free: bool) {
        if !is_free {
            self.give_up();
            self.begin_epoch(now);
        } else if self.ended >= EPOCH_REQUESTS {
            self.end_epoch(now);
        } else if now > self.until + EPOCH_LEAST {
            // Almost nothing is happening.
            self.stop();
            self.begin_epoch(now);
        }
    }
}

fn scaled(cost: u64, to: u64, from: u64) -> u64 {
    let cost = u128::from(cost) * u128::from(to) / u128::from(from.max(1));
    u64::try_from(cost).unwrap_or(u64::MAX).clamp(1, COST_MOST)
}

#[cfg(test)]
#[path = "tests/costs.rs"]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eta: when would a permit be given, and the I/O be done?
//!
//! Nothing is simulated: the recent past is expected to go on.
//!
//! ```text
//! done = now + wait + held        held: recent mean for permits of that kind and size
//! wait = waits ahead * pace       pace: mean time between two permits of the class, while it waits
//! ```
//!
//! Then the result is corrected by how accurate such estimates were recently. Times are skewed, and
//! the mean of a cache's hits and misses is close to neither. So each class keeps a histogram, in
//! steps of about an eighth, of the truth divided by the estimate, and takes the factor with the
//! most values within a quarter of it:
//!
//! ```text
//! truth / estimate  .6 .7 .8 .9 1. 1.1 …  2.2 2.4        factor .9: six of ten within a quarter,
//! count              1  2  2  1  0  0      2   2         1.0 (the mean): four
//! ```
//!
//! If nothing of the class waits and all permits are given out, the expected wait is what it
//! recently was in that case; the first time, until the next permit is given back. Means are
//! exponential, over about the last 16 values; those of paces over the last 64.

use paternoster_core::Nanos;

use super::Core;
use super::class::ClassId;
use super::entry::Op;

/// log2 of how many values a mean covers, and a pace's mean: a pace is multiplied by the number
/// that wait, so its random error matters more.
const MEAN_OF: u32 = 4;
const PACE_OF: u32 = 6;
/// Sizes are classed by powers of two, from 512 bytes to half a gibibyte and more.
const SIZES: usize = 21;
const OPS: usize = 4;

/// Eighths of octaves from a 64th to 16 times the estimate; one is at `ONE`.
const RATIOS: usize = 80;
const ONE: u64 = 512;
/// At most this many places are within a quarter of one number: five thirds are less.
const WIDEST: usize = 6;
/// This many are counted before the counts are halved, and before they are used at all.
const COUNTED: u32 = 240;
const SAYS: u32 = 16;

/// A histogram of the truth divided by the estimate.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    counts: [u8; RATIOS],
    all: u32,
    /// The factor for estimates, in 1/2048.
    factor: u64,
}

impl Default for Ratios {
    fn default() -> Ratios {
        Ratios { counts: [0; RATIOS], all: 0, factor: 4 * ONE }
    }
}

impl Ratios {
    /// The least ratio that is counted at a place, in 1/512.
    const fn edge(place: usize) -> u64 {
        (8 + place as u64 % 8) << (place / 8)
    }

    /// By the place where a window begins: where it ends. It spans a factor of less than 5/3.
    const ENDS: [usize; RATIOS] = {
        let (mut ends, mut from, mut to) = ([0; RATIOS], 0, 0);
        while from < RATIOS {
            while to < RATIOS && 3 * Ratios::edge(to + 1) <= 5 * Ratios::edge(from) {
                to += 1;
            }
            ends[from] = to;
            from += 1;
        }
        ends
    };

    fn place(told: u64, truth: u64) -> usize {
        let ratio = u128::from(truth) * u128::from(ONE) / u128::from(told.max(1));
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX).max(8);
        let octave = ratio.ilog2() as usize - 3;
        (8 * octave + ((ratio >> octave) % 8) as usize).min(RATIOS - 1)
    }

    fn add(&mut self, told: u64, truth: u64) {
        if self.all >= COUNTED {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.all = self.counts.iter().map(|count| u32::from(*count)).sum();
        }
        self.counts[Ratios::place(told, truth)] += 1;
        self.all += 1;
        if self.all >= SAYS && self.all.is_multiple_of(8) {
            self.choose();
        }
    }

    /// The factor f with the most ratios between f / 1.25 and f / 0.75, which is where f is within
    /// a quarter of them. Among equals, the middle one.
    fn choose(&mut self) {
        let counted = |count: &u8| *count > 0;
        let Some(lowest) = self.counts.iter().position(counted) else { return };
        let highest = self.counts.iter().rposition(counted).unwrap_or(lowest);
        // Windows that begin earlier hold none.
        let lowest = lowest.saturating_sub(WIDEST);
        let (mut best, mut first, mut last) = (0, 0, 0);
        // The window's sum and its end, which advances with its beginning.
        let (mut sum, mut to) = (0_u32, lowest);
        for from in lowest..=highest {
            let end = Ratios::ENDS[from].max(to);
            sum += self.counts[to..end].iter().map(|count| u32::from(*count)).sum::<u32>();
            to = end;
            if sum > best {
                (best, first) = (sum, from);
            }
            if sum == best {
                last = from;
            }
            sum -= u32::from(self.counts[from]);
        }
        // 1.25 times the least of them, in 2048ths.
        self.factor = 5 * Ratios::edge(usize::midpoint(first, last));
    }

    const fn correct(&self, estimate: u64) -> u64 {
        let (whole, rest) = (estimate / 2048, estimate % 2048);
        whole.saturating_mul(self.factor).saturating_add(rest * self.factor / 2048)
    }
}

/// The corrections of a class: of reads and of others, with something of it waiting or not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Corrections([[Ratios; 2]; 2]);

impl Corrections {
    fn of(&mut self, op: Op, waits: bool) -> &mut Ratios {
        &mut self.0[usize::from(op != Op::Read)][usize::from(waits)]
    }

    /// Adds an uncorrected estimate and how long it really took.
    pub(super) fn add(&mut self, op: Op, waits: bool, told: u64, truth: u64) {
        self.of(op, waits).add(told, truth);
    }

    /// Corrects an estimate for an ask that would wait behind others of its class, or not.
    pub(super) const fn correct(&self, op: Op, waits: bool, estimate: u64) -> u64 {
        self.0[!matches!(op, Op::Read) as usize][waits as usize].correct(estimate)
    }
}

/// When a permit would be given, and the I/O done: an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// When the permit would be given.
    pub permit: Nanos,
    /// When the I/O would have ended.
    pub done: Nanos,
}

/// An exponential mean of about 2^`OF` values, which may have none yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean<const OF: u32 = MEAN_OF> {
    /// Sum in 1/16 ns.
    sum: u64,
    count: u32,
}

impl<const OF: u32> Mean<OF> {
    pub(super) fn add(&mut self, value: Nanos) {
        // The first few get a plain average: a mean that begins at zero would be too small.
        self.count = (self.count + 1).min(1 << OF);
        let value = value.0.saturating_mul(1 << MEAN_OF);
        // Later usually a shift and no division: a permit's times go into six means.
        self.sum = match self.count {
            count if count == 1 << OF => Self::blend(self.sum, value, 1 << OF),
            count => Self::blend(self.sum, value, count.into()),
        };
    }

    /// The value is `sum` divided by `count`.
    #[inline(always)]
    const fn blend(sum: u64, value: u64, count: u64) -> u64 {
        (sum - sum.div_ceil(count)).saturating_add(value / count)
    }

    pub(super) fn get(self) -> Option<u64> {
        (self.count > 0).then_some(self.sum >> MEAN_OF)
    }
}

/// How fast a class gets permits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When it last got one, or began to wait.
    since: Nanos,
    between: Mean<PACE_OF>,
    /// How long the first in line waited.
    first: Mean,
}

impl Pace {
    /// The class begins to wait: nothing of it waited before.
    pub(super) const fn begins(&mut self, now: Nanos) {
        self.since = now;
    }

    /// A permit is given. `was_first`: at the ask nothing of the class waited, and others did, or
    /// held all permits.
    pub(super) fn granted(&mut self, now: Nanos, asked: Nanos, was_first: bool) {
        if was_first {
            self.first.add(now - asked);
        }
        self.between.add(now - self.since);
        self.since = now;
    }

    /// How long an ask waits behind `waiting` others. `next`: how long until a permit is given
    /// back, if one has to be.
    pub(super) fn wait(self, waiting: u32, next: Option<u64>) -> u64 {
        if waiting == 0 {
            return next.map_or(0, |next| self.first.get().unwrap_or(next));
        }
        self.between.get().unwrap_or(0).saturating_mul(u64::from(waiting) + 1)
    }
}

/// How long permits are held, by kind and size.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    means: [[Mean; SIZES]; OPS],
    any: Mean,
}

impl Held {
    fn size(len: u64) -> usize {
        (len >> 9).max(1).ilog2().min(20) as usize
    }

    #[inline]
    pub(super) fn add(&mut self, op: Op, len: u64, time: Nanos) {
        self.means[op as usize][Held::size(len)].add(time);
        self.any.add(time);
    }

    /// How long a permit of any kind is held.
    pub(super) fn any(&self) -> u64 {
        self.any.get().unwrap_or(0)
    }

    /// The mean for that size, or for the nearest size seen, or for any.
    pub(super) fn expect(&self, op: Op, len: u64) -> u64 {
        let (means, size) = (&self.means[op as usize], Held::size(len));
        if let Some(known) = means[size].get() {
            return known;
        }
        let near = (0..SIZES).flat_map(|by| [size.checked_sub(by), Some(size + by)]);
        let known = near.flatten().filter_map(|size| means.get(size)?.get()).next();
        known.or_else(|| self.any.get()).unwrap_or(0)
    }
}

impl Core {
    /// When would a permit be given, and the I/O be done? `None` if the class was closed.
    #[must_use]
    pub fn eta(&self, now: Nanos, class: ClassId, op: Op, len: u64) -> Option<Eta> {
        let (own, opens) = (self.classes.get(class)?, self.opens(class));
        let (wait, held) = self.estimate(class, op, len)?;
        let correct = |time: u64| Nanos(own.corrections.correct(op, own.waiting > 0, time));
        let now = now.max(self.now);
        let permit = (now + correct(wait)).max(opens);
        Some(Eta { permit, done: (now + correct(wait + held)).max(permit) })
    }

    /// How long it would wait, and then take, before both are corrected.
    pub(super) fn estimate(&self, class: ClassId, op: Op, len: u64) -> Option<(u64, u64)> {
        let class = self.classes.get(class)?;
        let next = self.is_busy().then(|| self.held.any() / (u64::from(self.out.len()) + 1));
        let held = self.held.expect(op, len);
        Some((class.pace.wait(class.waiting, next).min(u64::MAX / 4), held.min(u64::MAX / 4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the mean of 10, 20, 30 their average, and that of many equal values the value?
    #[test]
    fn a_mean_begins_with_its_first() {
        let mut mean = Mean::<MEAN_OF>::default();
        assert_eq!(mean.get(), None);
        for value in [10, 20, 30] {
            mean.add(Nanos(value));
        }
        // (10 + 20 + 30) / 3; a sixteenth is lost in rounding.
        assert!(mean.get().is_some_and(|mean| (19..=20).contains(&mean)));
        for _ in 0..1000 {
            mean.add(Nanos(1_000_000));
        }
        assert!(mean.get().is_some_and(|mean| (999_990..=1_000_000).contains(&mean)));
    }

    /// Does a place begin where the one before ends, and is the factor that of the example above:
    /// of ten, six within a quarter of it?
    #[test]
    fn the_most_lie_within_a_quarter() {
        for told in [1, 7, 1000, 123_456_789] {
            for ratio in 8..8192_u64 {
                let place = Ratios::place(told * ONE, told * ratio);
                let covers = Ratios::edge(place)..Ratios::edge(place + 1);
                assert!(covers.contains(&ratio) || ratio >= Ratios::edge(RATIOS), "{ratio}");
            }
        }
        let mut ratios = Ratios::default();
        let truths = [600, 700, 720, 800, 820, 900, 2200, 2210, 2400, 2420];
        (0..2).for_each(|_| truths.iter().for_each(|truth| ratios.add(1000, *truth)));
        let told = ratios.correct(1000);
        let within = truths.iter().filter(|truth| told.abs_diff(**truth) * 4 <= **truth).count();
        assert!(within >= 6, "{told}: {within}");
        // An accurate estimate stays as it is, within a bucket.
        let mut ratios = Ratios::default();
        (0..1000).for_each(|_| ratios.add(1000, 1000));
        assert!(ratios.correct(1000).abs_diff(1000) <= 125, "{}", ratios.correct(1000));
        // The largest numbers cause no fault.
        ratios.add(0, u64::MAX);
        ratios.add(u64::MAX, 0);
        assert!(ratios.correct(u64::MAX) > 0);
    }

    /// Is the nearest size used for an unknown one?
    #[test]
    fn sizes_near_each_other_are_alike() {
        let mut held = Held::default();
        assert_eq!(held.expect(Op::Read, 4096), 0);
        held.add(Op::Read, 4096, Nanos(100));
        held.add(Op::Read, 1 << 20, Nanos(900));
        assert_eq!(held.expect(Op::Read, 8192), 100);
        assert_eq!(held.expect(Op::Read, 1 << 40), 900);
        // No write was seen: the mean of all.
        assert!(held.expect(Op::Write, 4096) > 0);
    }
}

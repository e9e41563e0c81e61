// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput gain: whether the device did more in one stretch of time than in another.
//!
//! Bytes cannot tell: they change whenever shares do, and one client that reads 128 KiB at a time
//! outweighs ten that read 4. So each *sort* of requests (read or not, kind of access, size) is
//! compared with itself: the sectors that it got per second of device time. The gain is the product
//! of all these ratios, each to the power of its sort's share of the time (a Nash product), and of
//! the ratio of the fractions of time in which the device was busy:
//!
//! ```text
//!            before                         after                        ratio
//! streams    256 sectors in 12 ms   21/ms   25 600 sectors in 100 ms    256/ms    12 ^ 0.5
//! random     8 sectors in 8 ms       1/ms   104 sectors in 100 ms       1.04/ms  1.04 ^ 0.5
//!                                                                       gain      3.5
//! ```
//!
//! This needs no price list, nor any unit; and it makes no difference which client had how much of
//! the time. Logarithms are to base 2, in fixed point with 16 fraction bits.
//!
//! Writes into a disk's cache cannot be compared. They cost next to nothing until it is full, which
//! may take ten seconds, and a seek each from then on; whatever is tried meanwhile seems to be the
//! cause. Where reads have at least a quarter of the time, only they are compared:
//!
//! ```text
//!            cache half empty               cache full                     ratio
//! reads      80 sectors in 40 ms     2/ms   120 sectors in 40 ms     3/ms  1.5    the gain
//! writes     800 sectors in 10 ms   80/ms   480 sectors in 40 ms    12/ms  0.15   meaningless
//! ```
//!
//! Source: L2 of `docs/rules/adaptive.md`. Differs: per device time instead of per time, so that an
//! epoch need not begin and end with a request of every client; writes into a cache, see above.

use paternoster_core::{Op, Request};

/// Read or not, three kinds of access, sixteen sizes.
pub(super) const SORTS: usize = 96;
pub(super) const SIZES: usize = 16;
/// From here on the sorts are not reads.
pub(super) const READS: usize = 48;
/// Reads with at least one part in this many of the device time are enough to compare.
const READS_LEAST: u64 = 4;

/// A client's access pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It jumps about.
    Random,
    /// It reads sequentially.
    Sequential,
    /// It reads sequentially in a shared stream. What a shared stream gets says nothing about a
    /// stream that is alone: together they can keep a disk from it.
    Together,
}

/// 1 in the fixed point of logarithms.
pub(super) const ONE: i64 = 1 << 16;

/// The sort of a request.
pub(super) fn sort_of(request: &Request, access: Access) -> u8 {
    let size = u8::try_from(request.sectors().max(1).ilog2().min(15)).unwrap_or(15);
    let reads = request.op() == Op::Read;
    (u8::from(!reads) * 3 + access as u8) * 16 + size
}

/// The logarithm of `value` (0 counts as 1): its whole part is the place of the highest bit; each
/// squaring of the remainder gives one bit of the fraction.
pub(super) fn log2(value: u64) -> i64 {
    let value = value.max(1);
    let whole = value.ilog2();
    // From 1 (inclusive) to 2, with 32 fraction bits.
    let mut rest = (u128::from(value) << 32) >> whole;
    let mut log = i64::from(whole);
    for _ in 0..16 {
        rest = (rest * rest) >> 32;
        log <<= 1;
        if rest >= 2 << 32 {
            rest >>= 1;
            log += 1;
        }
    }
    log
}

/// What a request was, and the device time that it took, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Did {
    pub(super) sort: u8,
    pub(super) sectors: u32,
    pub(super) took: u64,
}

/// What the device did in a stretch of time.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Sectors and device time, in ns, by sort.
    sectors: [u64; SORTS],
    times: [u64; SORTS],
    /// Device time of all sorts.
    pub(super) served: u64,
    /// How long the device was busy, and how long the stretch was, in ns.
    pub(super) busy: u64,
    pub(super) elapsed: u64,
    /// What a write takes depends more on how full the device's cache is than on anything else.
    pub(super) is_cached: bool,
}

impl Default for Tally {
    fn default() -> Tally {
        let (sectors, times) = ([0; SORTS], [0; SORTS]);
        Tally { sectors, times, served: 0, busy: 0, elapsed: 0, is_cached: false }
    }
}

impl Tally {
    /// A request has ended.
    pub(super) fn count_one(&mut self, did: Did) {
        self.count(did.sort, did.sectors, did.took);
    }

    pub(super) fn count(&mut self, sort: u8, sectors: u32, took: u64) {
        let sort = usize::from(sort);
        self.sectors[sort] += u64::from(sectors);
        self.times[sort] += took;
        self.served += took;
    }

    /// The share of a sort, with 16 fraction bits.
    fn share(&self, sort: usize) -> u64 {
        (self.times[sort] << 16) / self.served.max(1)
    }

    fn rate(&self, sort: usize) -> i64 {
        log2(self.sectors[sort]) - log2(self.times[sort])
    }

    fn is_known(&self, sort: usize) -> bool {
        self.sectors[sort] > 0 && self.times[sort] > 0
    }

    /// Device time of reads.
    fn read(&self) -> u64 {
        self.times[..READS].iter().sum()
    }

    /// Whether only reads are to be compared, and there are enough of them.
    fn goes_by_reads(&self) -> bool {
        self.is_cached && READS_LEAST * self.read() >= self.served.max(1)
    }

    /// The logarithm of how much better `after` is than this one; `None` if they have less than
    /// half of their time in common.
    pub(super) fn gain(&self, after: &Tally) -> Option<i64> {
        let busy = |tally: &Tally| log2(tally.busy) - log2(tally.elapsed);
        self.gain_of_device(after).map(|gain| gain + busy(after) - busy(self))
    }

    /// The same, whatever time the device was idle.
    pub(super) fn gain_of_device(&self, after: &Tally) -> Option<i64> {
        let (mut sum, mut common, mut whole) = (0i64, 0u64, 1 << 16);
        let mut sorts = 0..SORTS;
        if self.goes_by_reads() && after.goes_by_reads() {
            sorts.end = READS;
            let part = |tally: &Tally| (tally.read() << 16) / tally.served.max(1);
            whole = (part(self) + part(after)) / 2;
        }
        for sort in sorts.filter(|&sort| self.is_known(sort) && after.is_known(sort)) {
            let share = (self.share(sort) + after.share(sort)) / 2;
            sum += (after.rate(sort) - self.rate(sort)) * share.cast_signed();
            common += share;
        }
        if common < whole / 2 {
            return None;
        }
        Some(sum / common.cast_signed())
    }

    /// Adds another stretch.
    pub(super) fn add(&mut self, next: &Tally) {
        self.is_cached |= next.is_cached;
        for sort in 0..SORTS {
            self.sectors[sort] += next.sectors[sort];
            self.times[sort] += next.times[sort];
        }
        self.served += next.served;
        self.busy += next.busy;
        self.elapsed += next.elapsed;
    }

    /// Halves what was known and adds another stretch.
    pub(super) fn blend(&mut self, next: &Tally) {
        self.sectors.iter_mut().chain(&mut self.times).for_each(|sum| *sum /= 2);
        (self.served, self.busy, self.elapsed) = (self.served / 2, self.busy / 2, self.elapsed / 2);
        self.add(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are logarithms right to a part in a thousand? log2(1) = 0, of 8 = 3, of 10 = 3.321928, of
    /// 2^63 = 63.
    #[test]
    fn g9_logarithms_in_fixed_point() {
        assert_eq!([log2(0), log2(1), log2(8), log2(1 << 63)], [0, 0, 3 * ONE, 63 * ONE]);
        // 3.321928 * 65536 = 217705.9
        assert!((log2(10) - 217_705).abs() <= 1, "{}", log2(10));
        assert!((log2(1_000_000) - log2(999_000)).abs() < 100);
    }

    /// The module's example: (256 / 21.33)^0.55 * 1.04^0.45 with the real shares. Shares: 12/20 and
    /// 1/2, mean 0.55; log2(12) * 0.55 + log2(1.04) * 0.45 = 1.972 + 0.025 = 1.997.
    #[test]
    fn l2_the_gain_of_turns() {
        let (mut before, mut after) = (Tally::default(), Tally::default());
        before.count(16 + 8, 256, 12_000_000);
        before.count(3, 8, 8_000_000);
        after.count(16 + 8, 25_600, 100_000_000);
        after.count(3, 104, 100_000_000);
        for (tally, time) in [(&mut before, 20), (&mut after, 200)] {
            (tally.busy, tally.elapsed) = (time, time);
        }
        let gain = before.gain(&after).unwrap();
        assert!((gain - 130_875).abs() < 300, "{gain}");
        assert_eq!(after.gain(&before), Some(-gain));
        // A device that was busy for half of the time has done half as much: the log falls by one.
        after.busy = 100;
        assert_eq!(before.gain(&after), Some(gain - ONE));
    }

    /// The module's example: do reads alone count where there is a cache, log2(1.5) * 65536 =
    /// 38336, and all sorts elsewhere? There reads have 40/50 and 40/80 of the time, a mean of
    /// 0.65: 0.65 * log2(1.5) + 0.35 * log2(0.15) = 0.380 - 0.958 = -0.578, times 65536 -37865.
    /// With reads of 10 ms in 90, less than a quarter, writes count too: 0.455 * 2.585 for reads
    /// that seem six times as good (0.8 and 0.111), 0.544 * -2.737: -0.313, -20550.
    #[test]
    fn l2_writes_into_a_cache_are_no_measure() {
        let (mut before, mut after) = (Tally::default(), Tally::default());
        for (tally, reads, writes) in
            [(&mut before, (80, 40), (800, 10)), (&mut after, (120, 40), (480, 40))]
        {
            tally.count(3, reads.0, reads.1 * 1_000_000);
            tally.count(51, writes.0, writes.1 * 1_000_000);
            (tally.busy, tally.elapsed) = (1, 1);
        }
        let near = |gain: Option<i64>, right: i64| gain.is_some_and(|g| (g - right).abs() < 300);
        let plain = before.gain(&after);
        assert!(near(plain, -37_865), "{plain:?}");
        (before.is_cached, after.is_cached) = (true, true);
        let cached = before.gain(&after);
        assert!(near(cached, 38_336), "{cached:?}");
        let mut few = Tally { is_cached: true, busy: 1, elapsed: 1, ..Tally::default() };
        few.count(3, 120, 10_000_000);
        few.count(51, 960, 80_000_000);
        let all = before.gain(&few);
        assert!(near(all, -20_550), "{all:?}");
    }

    /// Are two stretches that have no sort in common not compared?
    #[test]
    fn l2_what_cannot_be_compared() {
        let (mut before, mut after) = (Tally::default(), Tally::default());
        before.count(1, 8, 1000);
        after.count(2, 8, 1000);
        assert_eq!(before.gain(&after), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seek: whether a queue jumps about, or sends small requests.
//!
//! Waiting for a process that reads sequentially is cheaper than leaving it; for one that jumps
//! about it gains nothing. Kernels have distinguished the two in three ways:
//!
//! ```text
//! mean       a running mean of the distances is over 8192 sectors             (until 2.6.33)
//! distance   more than 4 of the last 32 requests lay over 800 sectors away    (disks, 2.6.34)
//! size       more than 4 of the last 32 requests were shorter than 64 sectors (flash, seed 000)
//! auto       size where seeks cost nothing, distance where they do            (2.6.34 on)
//! ```
//!
//! BFQ requires both on flash, and only distance on disks: [`is_far`].
//!
//! On flash the time of a request depends only on its size. By distance every random reader is
//! seeky, and served in turns with the others, so that one that reads 64 KiB at a time gets sixteen
//! times the bandwidth of one that reads 4 KiB. By size it has its own time slice.
//!
//! # Invariants
//! I1  A queue without requests is not seeky; its first request is no jump.
//!
//! Source: CFQ-36, CFQ-37; BFQ-84; seed 000.

/// A jump over more sectors than this is a seek (400 KiB).
const SEEK_SECTORS: u64 = 8 * 100;
/// A request below this is small where seeks cost nothing (32 KiB).
const SMALL_SECTORS: u32 = 2 * 32;
/// A queue with more marks than this among its last 32 is seeky.
const MARKS: u32 = 32 / 8;
/// A mean distance above this is seeky; before there is a mean, this counts as close.
const MEAN_SECTORS: u64 = 8 * 1024;
/// Distances are capped this far above four means: at first, and with enough samples.
const SLACK_AT_FIRST: u64 = 2 * 1024 * 1024;
const SLACK: u64 = 2 * 1024 * 64;
/// Distances are capped at this: sums of them stay within 64 bits on a device of any size.
const FARTHEST: u64 = 1 << 50;
/// Up to this weight of samples a mean is young.
const YOUNG: u64 = 60;
/// Above this weight of samples a mean is trusted.
const BELIEVED: u64 = 80;

/// Whether a request of `sectors` at `start` is a seek from `from`, where 0 means no position yet:
/// far away, and not so large that the distance costs nothing (BFQ-84).
#[inline]
#[must_use]
pub const fn is_far(from: u64, start: u64, sectors: u32, rotational: bool) -> bool {
    from != 0 && from.abs_diff(start) > SEEK_SECTORS && (rotational || sectors < SMALL_SECTORS)
}

/// How seeks are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeekDetection {
    /// By the running mean of distances.
    Mean,
    /// By how many of the last 32 were far away.
    Distance,
    /// By how many of the last 32 were small.
    Size,
    /// Size where seeks cost nothing, distance where they do.
    #[default]
    Auto,
}

/// The seek history of a queue's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeekHistory {
    /// One mark for each of the last 32 requests, the last lowest.
    marks: u32,
    /// The sector after the last request, as it was on arrival.
    last_end: Option<u64>,
    samples: u64,
    total: u64,
    mean: u64,
}

impl SeekHistory {
    /// A request of `sectors` at `start` arrives.
    #[inline]
    pub fn sample(&mut self, detection: SeekDetection, rotational: bool, start: u64, sectors: u32) {
        let distance = self.last_end.map_or(0, |end| end.abs_diff(start));
        self.last_end = Some(start + u64::from(sectors));
        let by_size = match detection {
            SeekDetection::Mean => return self.average(distance),
            SeekDetection::Distance => false,
            SeekDetection::Size => true,
            SeekDetection::Auto => !rotational,
        };
        let mark = if by_size { sectors < SMALL_SECTORS } else { distance > SEEK_SECTORS };
        self.marks = (self.marks << 1) | u32::from(mark);
    }

    /// The history of a queue that begins with one mark, as BFQ's do.
    #[inline]
    #[must_use]
    pub fn marked() -> SeekHistory {
        SeekHistory { marks: 1, ..SeekHistory::default() }
    }

    /// A request arrives, and is judged by [`is_far`].
    #[inline]
    pub fn sample_far(&mut self, rotational: bool, start: u64, sectors: u32) {
        let mark = is_far(self.last_end.unwrap_or(0), start, sectors, rotational);
        self.last_end = Some(start + u64::from(sectors));
        self.marks = (self.marks << 1) | u32::from(mark);
    }

    fn average(&mut self, distance: u64) {
        let slack = if self.samples <= YOUNG { SLACK_AT_FIRST } else { SLACK };
        let distance = distance.min(4 * self.mean + slack).min(FARTHEST);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * distance) / 8;
        self.mean = (self.total + self.samples / 2) / self.samples;
    }

    /// Whether its requests jump about, or are small.
    #[inline]
    #[must_use]
    pub fn is_seeky(&self, detection: SeekDetection) -> bool {
        match detection {
            SeekDetection::Mean => self.mean > MEAN_SECTORS,
            _ => self.marks.count_ones() > MARKS,
        }
    }

    /// The distance within which another queue's request is close to this one's: `close` sectors,
    /// or the mean distance if that is what is measured.
    #[inline]
    #[must_use]
    pub const fn closeness(&self, detection: SeekDetection, close: u64) -> u64 {
        match detection {
            SeekDetection::Mean if self.samples > BELIEVED => self.mean,
            SeekDetection::Mean => MEAN_SECTORS,
            _ => close,
        }
    }

    /// The marks of the last 32 requests, the last lowest.
    #[inline]
    #[must_use]
    pub const fn marks(&self) -> u32 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn history(detection: SeekDetection, rotational: bool, runs: &[(u64, u32)]) -> SeekHistory {
        let mut history = SeekHistory::default();
        for &(start, sectors) in runs {
            history.sample(detection, rotational, start, sectors);
        }
        history
    }

    /// Is a jump of exactly 800 sectors none, ahead or back, and one of 801 one? From sector 1000
    /// on, 8 sectors end at 1008.
    #[test]
    fn cfq_36_a_jump_is_longer_than_800_sectors() {
        let at = |start| history(SeekDetection::Auto, true, &[(1000, 8), (start, 8)]).marks();
        assert_eq!([1808, 1809, 208, 207].map(at), [0, 1, 0, 1]);
    }

    /// Do four jumps of 32 leave a queue sequential, and five make it seeky; and does a jump no
    /// longer count after 32 others?
    #[test]
    fn cfq_36_the_fifth_jump_counts() {
        let jumps = |count: u64, calm: u64| {
            let far = (0..=count).map(|place| place * 100_000);
            let near = (1..=calm).map(|place| count * 100_000 + 8 * place);
            let runs: Vec<(u64, u32)> = far.chain(near).map(|start| (start, 8)).collect();
            history(SeekDetection::Auto, true, &runs).is_seeky(SeekDetection::Auto)
        };
        // The first request is no jump. The first of five jumps has 31 after it, then 32.
        assert!(!jumps(4, 0) && jumps(5, 0));
        assert!(jumps(5, 27) && !jumps(5, 28));
    }

    /// Where seeks cost nothing, are 63 sectors small and 64 not, wherever they lie, and does the
    /// fifth small request make a queue seeky?
    #[test]
    fn cfq_37_small_is_below_32_kib() {
        let of = |sectors| history(SeekDetection::Auto, false, &[(1 << 30, sectors)]).marks();
        assert_eq!((of(63), of(64)), (1, 0));
        let far = history(SeekDetection::Auto, false, &[(0, 64), (1 << 30, 64), (0, 64)]);
        assert_eq!(far.marks(), 0);
        let small = |count| {
            history(
                SeekDetection::Auto,
                false,
                &[(0, 8), (8, 8), (16, 8), (24, 8), (32, 8)][..count],
            )
        };
        assert!(!small(4).is_seeky(SeekDetection::Auto) && small(5).is_seeky(SeekDetection::Auto));
    }

    /// Is a mean above 8192 sectors seeky? A jump of 100,000 at once: total 32 * 100,000, mean
    /// 100,000; then each small step reduces it to 7/8.
    #[test]
    fn a_mean_forgets() {
        let mut history = history(SeekDetection::Mean, true, &[(0, 8), (100_008, 8)]);
        // Samples 32 then 60; total (7 * 0 + 256 * 100,000) / 8 = 3,200,000; / 60 = 53,333.
        assert_eq!(history.mean, 53_333);
        assert!(history.is_seeky(SeekDetection::Mean));
        for place in 0..20 {
            history.sample(SeekDetection::Mean, true, 100_016 + place * 8, 8);
        }
        assert!(!history.is_seeky(SeekDetection::Mean));
    }
    /// Does the mean of the longest possible jumps stay a number? Each counts 2^50; the weight of
    /// samples settles at 249 (7 * 249 + 256 = 1999, / 8 = 249), their total a little below 256 *
    /// 2^50.
    #[test]
    fn jumps_of_any_length_are_summed() {
        let mut history = SeekHistory::default();
        for place in 0..200 {
            let start = if place % 2 == 0 { 0 } else { u64::MAX - 8 };
            history.sample(SeekDetection::Mean, true, start, 8);
        }
        let least = FARTHEST / 249 * 255;
        assert!(history.mean > least && history.mean <= FARTHEST / 249 * 256 + 256);
    }
}

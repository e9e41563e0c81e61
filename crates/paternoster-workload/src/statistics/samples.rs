// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples: how evenly a job was served, as bandwidth and IOPS of one interval after another.
//!
//! The mean over a run hides a process that is starved for seconds and then served in a burst. fio
//! therefore takes a sample every `bwavgtime` (500 ms): KiB/s and I/Os per second of that interval,
//! whole numbers, and reports their extremes, mean and deviation.
//!
//! ```text
//! 0         500       1000      1500      2000   2300 ms
//! |  800 K  |  800 K  |    -    |  400 K  | 100 K |        completed bytes
//!   1600      1600      no        800       cut off        samples in KiB/s: mean 1333.3, n = 3
//! ```
//!
//! An interval without a completion yields no sample (fio's rule: a job that thinks or waits for
//! its turn is not slow because of that), nor does the last one when the run ends inside it.
//! Intervals are closed by the first completion after them, so no timer is needed.
//!
//! Differs: fio's intervals begin some ms late and are stretched by its helper thread's sleep;
//! these are exact, so a run of 3 s has 6 samples, not 5.
//!
//! Source: FIO-101.

use paternoster_core::Nanos;

use super::moments::Moments;

/// Bandwidth and IOPS of one direction, sampled every interval.
#[derive(Debug, Clone)]
pub struct Samples {
    interval: Nanos,
    /// The running interval ends before this time.
    interval_end: Nanos,
    bytes: u64,
    ios: u64,
    bandwidth: Moments,
    iops: Moments,
}

impl Samples {
    /// No samples yet; intervals of `interval` (at least 1 ns) from time zero.
    #[must_use]
    pub fn new(interval: Nanos) -> Samples {
        let interval = interval.max(Nanos(1));
        Samples {
            interval,
            interval_end: interval,
            bytes: 0,
            ios: 0,
            bandwidth: Moments::default(),
            iops: Moments::default(),
        }
    }

    /// Forgets everything; the first interval begins at `now`.
    pub fn start(&mut self, now: Nanos) {
        *self = Samples { interval_end: now + self.interval, ..Samples::new(self.interval) };
    }

    /// Counts an I/O of `bytes` that completed at `now`.
    #[inline]
    pub fn record(&mut self, now: Nanos, bytes: u64) {
        if now >= self.interval_end {
            self.turn(now);
        }
        self.bytes += bytes;
        self.ios += 1;
    }

    /// Closes the last interval, if it is over at `now`.
    pub fn end(&mut self, now: Nanos) {
        if now >= self.interval_end {
            self.turn(now);
        }
    }

    /// Merges the samples of a clone into these: the group's bandwidth is the sum.
    pub fn add(&mut self, other: &Samples) {
        self.bandwidth.add(&other.bandwidth);
        self.iops.add(&other.iops);
    }

    /// The bandwidth samples, in KiB/s.
    #[must_use]
    pub fn bandwidth(&self) -> &Moments {
        &self.bandwidth
    }

    /// The IOPS samples.
    #[must_use]
    pub fn iops(&self) -> &Moments {
        &self.iops
    }

    /// Sets both series of samples, as read back from a report.
    #[cfg(test)]
    pub(crate) fn set(&mut self, bandwidth: Moments, iops: Moments) {
        (self.bandwidth, self.iops) = (bandwidth, iops);
    }

    /// Takes the sample of the interval that ended, and moves on to the one in which `now` lies.
    #[cold]
    fn turn(&mut self, now: Nanos) {
        if self.ios > 0 {
            self.bandwidth.record(per_second(self.bytes, self.interval) / 1024);
            self.iops.record(per_second(self.ios, self.interval));
            (self.bytes, self.ios) = (0, 0);
        }
        let intervals = (now - self.interval_end).0 / self.interval.0 + 1;
        self.interval_end += Nanos(self.interval.0.saturating_mul(intervals));
    }
}

/// `count` in `interval`, as a whole number per second.
fn per_second(count: u64, interval: Nanos) -> u64 {
    // 128 bits: a gigabyte times 10^9 does not fit into 64.
    let rate = u128::from(count) * 1_000_000_000 / u128::from(interval.0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_SECOND: Nanos = Nanos::from_millis(500);

    /// Are the samples those of the drawing? 800 KiB in half a second are 1600 KiB/s; the empty
    /// third interval and the cut fifth give none: (1600 + 1600 + 800) / 3 = 1333.3.
    #[test]
    fn worked_example() {
        let mut samples = Samples::new(HALF_SECOND);
        for (ms, kib) in [(100, 800), (600, 500), (999, 300), (1500, 400), (2001, 100)] {
            samples.record(Nanos::from_millis(ms), kib * 1024);
        }
        samples.end(Nanos::from_millis(2300));
        let bandwidth = samples.bandwidth();
        assert_eq!((bandwidth.count(), bandwidth.min(), bandwidth.max()), (3, 800, 1600));
        assert!((bandwidth.mean() - 4000.0 / 3.0).abs() < 1e-9);
        // One, two and one I/Os in half a second.
        assert_eq!((samples.iops().min(), samples.iops().max()), (2, 4));
    }

    /// Does a run that ends with its last interval keep that sample? 3 s: six samples.
    #[test]
    fn whole_last_interval_counts() {
        let mut samples = Samples::new(HALF_SECOND);
        samples.start(Nanos::from_secs(5));
        (0..300).for_each(|n| samples.record(Nanos::from_millis(5000 + n * 10), 4096));
        samples.end(Nanos::from_secs(8));
        assert_eq!(samples.bandwidth().count(), 6);
        // 50 I/Os of 4 KiB in each half second.
        assert_eq!((samples.bandwidth().min(), samples.bandwidth().max()), (400, 400));
        assert_eq!((samples.iops().min(), samples.iops().max()), (100, 100));
    }

    /// Does a start drop what a ramp collected?
    #[test]
    fn start_forgets() {
        let mut samples = Samples::new(HALF_SECOND);
        samples.record(Nanos::from_millis(10), 4096);
        samples.record(Nanos::from_millis(700), 4096);
        samples.start(Nanos::from_secs(1));
        samples.end(Nanos::from_secs(2));
        assert_eq!(samples.bandwidth().count(), 0);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics: what one job's I/Os amount to, counted while they complete.
//!
//! A [`JobStatistics`] gets each step of each I/O and keeps only sums, so that a run of any length
//! costs the same memory (about 130 KiB, taken in `new`) and no call allocates.
//!
//! ```text
//! prepared      submitted            completed
//!    |-- slat ------|------ clat --------|        lat = slat + clat
//! ```
//!
//! An engine that blocks has no submission of its own, so its slat is not recorded; clat and lat
//! then are the same but for the time between.
//!
//! A run's figures cover the time from [`start`](JobStatistics::start) to
//! [`end`](JobStatistics::end); a second `start`, after a ramp, drops what was collected.
//! [`merge`](JobStatistics::merge) joins clones for `group_reporting`: latencies as one stream,
//! bandwidth samples concatenated, runtimes by the longest, CPU time and `job_runtime` as sums.
//!
//! Source: FIO-100 to FIO-107.

pub mod depth;
pub mod distribution;
pub mod frames;
pub mod latency;
pub mod moments;
pub mod samples;

use paternoster_core::Nanos;

use crate::direction::Direction;

pub use depth::{BatchDistribution, DepthDistribution};
pub use distribution::LatencyDistribution;
pub use frames::Frames;
pub use latency::Latency;
pub use moments::Moments;
pub use paternoster_measure::Histogram;
pub use samples::Samples;

/// What one direction of a job did.
#[derive(Debug, Clone)]
pub struct DirectionStatistics {
    pub(crate) bytes: u64,
    pub(crate) ios: u64,
    pub(crate) submission: Latency,
    pub(crate) completion: Latency,
    pub(crate) total: Latency,
    pub(crate) completion_histogram: Histogram,
    pub(crate) total_histogram: Histogram,
    pub(crate) samples: Samples,
    pub(crate) runtime: Nanos,
}

impl DirectionStatistics {
    fn new(interval: Nanos) -> DirectionStatistics {
        DirectionStatistics {
            bytes: 0,
            ios: 0,
            submission: Latency::default(),
            completion: Latency::default(),
            total: Latency::default(),
            completion_histogram: Histogram::new(),
            total_histogram: Histogram::new(),
            samples: Samples::new(interval),
            runtime: Nanos::ZERO,
        }
    }

    fn start(&mut self, now: Nanos) {
        (self.bytes, self.ios, self.runtime) = (0, 0, Nanos::ZERO);
        self.submission = Latency::default();
        self.completion = Latency::default();
        self.total = Latency::default();
        self.completion_histogram.clear();
        self.total_histogram.clear();
        self.samples.start(now);
    }

    fn merge(&mut self, other: &DirectionStatistics) {
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.submission.merge(&other.submission);
        self.completion.merge(&other.completion);
        self.total.merge(&other.total);
        self.completion_histogram.merge(&other.completion_histogram);
        self.total_histogram.merge(&other.total_histogram);
        self.samples.add(&other.samples);
        self.runtime = self.runtime.max(other.runtime);
    }

    /// Bytes completed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// I/Os completed.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.ios
    }

    /// From preparation to submission; empty for engines that block.
    #[must_use]
    pub fn submission(&self) -> &Latency {
        &self.submission
    }

    /// From submission to completion.
    #[must_use]
    pub fn completion(&self) -> &Latency {
        &self.completion
    }

    /// From preparation to completion.
    #[must_use]
    pub fn total(&self) -> &Latency {
        &self.total
    }

    /// The completion latencies by bin.
    #[must_use]
    pub fn completion_histogram(&self) -> &Histogram {
        &self.completion_histogram
    }

    /// The total latencies by bin.
    #[must_use]
    pub fn total_histogram(&self) -> &Histogram {
        &self.total_histogram
    }

    /// Bandwidth and IOPS of the intervals.
    #[must_use]
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Whole ms from start to end, at least 1; 0 when nothing completed.
    #[must_use]
    pub fn runtime_ms(&self) -> u64 {
        if self.ios == 0 { 0 } else { self.runtime.as_millis().max(1) }
    }

    /// Bytes per second over the runtime, rounded down.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        bytes_per_second(self.bytes, self.runtime_ms())
    }

    /// I/Os per second over the runtime.
    #[must_use]
    pub fn ios_per_second(&self) -> f64 {
        let runtime_ms = self.runtime_ms();
        if runtime_ms == 0 { 0.0 } else { self.ios as f64 * 1000.0 / runtime_ms as f64 }
    }
}

/// `bytes` in `runtime_ms`, per second, rounded down; 0 in no time.
pub(crate) fn bytes_per_second(bytes: u64, runtime_ms: u64) -> u64 {
    // 128 bits: 16 PiB times 1000 would not fit into 64.
    let rate = (u128::from(bytes) * 1000).checked_div(u128::from(runtime_ms));
    u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The accumulators of one job, or of clones merged into one.
#[derive(Debug, Clone)]
pub struct JobStatistics {
    pub(crate) directions: [DirectionStatistics; 3],
    pub(crate) sync: Latency,
    pub(crate) sync_histogram: Histogram,
    /// Syncs of files that were closed at the end.
    pub(crate) closed: u64,
    pub(crate) distribution: LatencyDistribution,
    pub(crate) depths: DepthDistribution,
    pub(crate) submits: BatchDistribution,
    pub(crate) reaps: BatchDistribution,
    /// Frames, if the job is a player.
    pub(crate) frames: Option<Frames>,
    pub(crate) waits: u64,
    pub(crate) user: Nanos,
    pub(crate) system: Nanos,
    pub(crate) started: Nanos,
    /// Summed over merged clones.
    pub(crate) runtime: Nanos,
}

impl JobStatistics {
    /// Empty statistics that sample bandwidth every `interval` (`bwavgtime`).
    #[must_use]
    pub fn new(interval: Nanos) -> JobStatistics {
        JobStatistics {
            directions: Direction::ALL.map(|_| DirectionStatistics::new(interval)),
            sync: Latency::default(),
            sync_histogram: Histogram::new(),
            closed: 0,
            distribution: LatencyDistribution::default(),
            depths: DepthDistribution::default(),
            submits: BatchDistribution::default(),
            reaps: BatchDistribution::default(),
            frames: None,
            waits: 0,
            user: Nanos::ZERO,
            system: Nanos::ZERO,
            started: Nanos::ZERO,
            runtime: Nanos::ZERO,
        }
    }

    /// Statistics begin at `now`: also after a ramp, when everything collected so far is dropped.
    pub fn start(&mut self, now: Nanos) {
        self.directions.iter_mut().for_each(|direction| direction.start(now));
        self.sync = Latency::default();
        self.sync_histogram.clear();
        self.distribution = LatencyDistribution::default();
        self.depths = DepthDistribution::default();
        self.submits = BatchDistribution::default();
        self.reaps = BatchDistribution::default();
        self.frames = self.frames.map(|_| Frames::default());
        (self.waits, self.closed, self.runtime) = (0, 0, Nanos::ZERO);
        (self.user, self.system) = (Nanos::ZERO, Nanos::ZERO);
        self.started = now;
    }

    /// An I/O (no sync) was issued, after which `depth` are in flight, itself included.
    #[inline]
    pub fn issued(&mut self, depth: u32) {
        self.depths.record(depth);
    }

    /// A call submitted `batch` I/Os.
    #[inline]
    pub fn submitted(&mut self, batch: u32) {
        self.submits.record(batch);
    }

    /// A call reaped `batch` I/Os.
    #[inline]
    pub fn reaped(&mut self, batch: u32) {
        self.reaps.record(batch);
    }

    /// An I/O of `bytes` ended at `now`.
    #[inline]
    pub fn ended(&mut self, now: Nanos, direction: Direction, bytes: u64) {
        let statistics = &mut self.directions[direction as usize];
        statistics.bytes += bytes;
        statistics.ios += 1;
        statistics.samples.record(now, bytes);
    }

    /// The latencies of an I/O that has ended, perhaps some time ago. The slat of an engine that
    /// blocks (not `asynchronous`) counts in lat only.
    #[inline]
    pub fn latency(&mut self, direction: Direction, slat: Nanos, clat: Nanos, asynchronous: bool) {
        let lat = slat + clat;
        let statistics = &mut self.directions[direction as usize];
        if asynchronous {
            statistics.submission.record(slat);
        }
        statistics.completion.record(clat);
        statistics.total.record(lat);
        statistics.completion_histogram.record(clat);
        statistics.total_histogram.record(lat);
        self.distribution.record(clat);
    }

    /// A sync (fsync, fdatasync, sync_file_range) took `latency`. Do not pass it to `issued` too.
    #[inline]
    pub fn synced(&mut self, latency: Nanos) {
        self.sync.record(latency);
        self.sync_histogram.record(latency);
        self.depths.record_sync();
    }

    /// A sync of a file that is closed at the end, which is counted separately.
    #[inline]
    pub fn closed(&mut self) {
        self.closed += 1;
    }

    /// A player's frames, to be counted from now on.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut Frames {
        self.frames.get_or_insert_default()
    }

    /// The process gave up its CPU to wait: a context switch.
    #[inline]
    pub fn waited(&mut self) {
        self.waits += 1;
    }

    /// The process computed for another `user`.
    #[inline]
    pub fn cpu(&mut self, user: Nanos) {
        self.user += user;
    }

    /// The kernel computed for the process for another `system`: copied pages.
    #[inline]
    pub fn cpu_in_kernel(&mut self, system: Nanos) {
        self.system += system;
    }

    /// Statistics end at `now`. May be called again later, for reports along the way.
    pub fn end(&mut self, now: Nanos) {
        self.runtime = now - self.started;
        for direction in &mut self.directions {
            direction.runtime = self.runtime;
            direction.samples.end(now);
        }
    }

    /// Takes in a clone's statistics, for `group_reporting`. Both have ended.
    pub fn merge(&mut self, other: &JobStatistics) {
        for (own, foreign) in self.directions.iter_mut().zip(&other.directions) {
            // A direction without completions does not affect the runtime.
            if foreign.ios > 0 && own.ios == 0 {
                own.runtime = Nanos::ZERO;
            }
            if foreign.ios > 0 {
                own.merge(foreign);
            }
        }
        self.sync.merge(&other.sync);
        self.sync_histogram.merge(&other.sync_histogram);
        self.closed += other.closed;
        self.distribution.merge(&other.distribution);
        self.depths.merge(&other.depths);
        self.submits.merge(&other.submits);
        self.reaps.merge(&other.reaps);
        if let Some(frames) = &other.frames {
            self.frames_mut().merge(frames);
        }
        self.waits += other.waits;
        self.user += other.user;
        self.system += other.system;
        self.runtime += other.runtime;
    }

    /// Bytes read, written or trimmed.
    #[must_use]
    pub fn direction(&self, direction: Direction) -> &DirectionStatistics {
        &self.directions[direction as usize]
    }

    /// All directions as one, for `unified_rw_reporting`.
    #[must_use]
    pub fn mixed(&self) -> DirectionStatistics {
        let [read, write, trim] = &self.directions;
        let mut mixed = read.clone();
        for other in [write, trim].into_iter().filter(|other| other.ios > 0) {
            mixed.merge(other);
        }
        mixed
    }

    /// I/Os completed in all directions, syncs not counted.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.directions.iter().map(|direction| direction.ios).sum()
    }

    /// Latency of the syncs.
    #[must_use]
    pub fn sync(&self) -> &Latency {
        &self.sync
    }

    /// The syncs by bin.
    #[must_use]
    pub fn sync_histogram(&self) -> &Histogram {
        &self.sync_histogram
    }

    /// Syncs of files that were closed at the end, of a job that counts them apart.
    #[must_use]
    pub fn closing_syncs(&self) -> u64 {
        self.closed
    }

    /// Completion latencies of all directions in coarse steps.
    #[must_use]
    pub fn distribution(&self) -> &LatencyDistribution {
        &self.distribution
    }

    /// I/Os in flight at each issue.
    #[must_use]
    pub fn depths(&self) -> &DepthDistribution {
        &self.depths
    }

    /// Sizes of the batches submitted.
    #[must_use]
    pub fn submits(&self) -> &BatchDistribution {
        &self.submits
    }

    /// Sizes of the batches reaped.
    #[must_use]
    pub fn reaps(&self) -> &BatchDistribution {
        &self.reaps
    }

    /// Frames, if the job is a player.
    #[must_use]
    pub fn frames(&self) -> Option<&Frames> {
        self.frames.as_ref()
    }

    /// How often the process waited.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.waits
    }

    /// Time from start to end, summed over merged clones.
    #[must_use]
    pub fn runtime(&self) -> Nanos {
        self.runtime
    }

    /// CPU time in per cent of the runtime.
    #[must_use]
    pub fn user_per_cent(&self) -> f64 {
        distribution::per_cent(self.user.0, self.runtime.0)
    }

    /// CPU time that the kernel spent for it, in per cent of the runtime.
    #[must_use]
    pub fn system_per_cent(&self) -> f64 {
        distribution::per_cent(self.system.0, self.runtime.0)
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! sysbench: its test `fileio`, many threads on many files, with bursts of fsync.
//!
//! ```text
//! options ──jobs()──▶ run ──▶ RunResult ──Totals::of()──▶ report, or an experiment's figures
//!             │         ▲
//!             └ rules ──┴─ one generator, that every thread asks
//! ```
//!
//! A read, a write or an fsync of a burst is an *event*. Buffered writes end in memory; the fsyncs
//! do the writing, each the dirty pages of its file and then the device's cache. So with one thread
//! the fsyncs of a burst follow each other; with more they are at the device at the same time, as
//! in the workload with which seed 003 measured a regression.
//!
//! At its end each thread syncs every file. Those fsyncs take their time and count as fsyncs, but
//! are no events: they have no latency.
//!
//! What an experiment needs besides the run itself:
//!
//! ```
//! use paternoster_workload::builtin::sysbench::{Mode, Sysbench};
//!
//! let sysbench = Sysbench { threads: 16, direct: true, ..Sysbench::new(Mode::RandomWrite) };
//! let jobs = sysbench.jobs();
//! assert_eq!((jobs.len(), jobs[0].clones.numjobs, jobs[0].files.nrfiles), (1, 16, 128));
//! // After `run(&jobs, …)`: Totals::of(&result).writes_per_second()
//! ```
//!
//! Not modelled: metadata and a journal, `mmap`, sysbench's own computing (it is the host's submit
//! cost for each direct request and each fsync, copying for a buffered one).
//!
//! Source: LOAD-6 to LOAD-9; seed 003.

pub mod generator;
mod options;
mod report;

use paternoster_core::Nanos;

use super::{per_second, seconds};
use crate::direction::Direction;
use crate::run::RunResult;
use crate::statistics::{Histogram, JobStatistics};

pub use generator::Mode;
pub use options::{IoMode, SyncCall, Sysbench};
pub use report::Form;

/// The measurements of one thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thread {
    /// Its events.
    pub events: u64,
    /// The time of all of them.
    pub seconds: f64,
}

/// What all threads did, up to some time.
#[derive(Debug, Clone)]
pub struct Totals {
    /// Since the beginning, with the fsyncs at the end.
    pub time: Nanos,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Fsyncs of bursts.
    pub fsyncs: u64,
    /// Fsyncs at the end, which are no events.
    pub closing_fsyncs: u64,
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// The shortest event.
    pub least: Nanos,
    /// The longest event.
    pub greatest: Nanos,
    /// The threads' measurements.
    pub threads: Vec<Thread>,
    /// Latencies of events.
    pub latencies: Histogram,
}

impl Totals {
    /// From a run of [`Sysbench::jobs`], or from interim results.
    #[must_use]
    pub fn of(result: &RunResult) -> Totals {
        let began = result.sections.first().map_or(Nanos::ZERO, |section| section.began);
        let mut totals = Totals {
            time: result.ended - began,
            reads: 0,
            writes: 0,
            fsyncs: 0,
            closing_fsyncs: 0,
            bytes: [0; 2],
            least: Nanos::MAX,
            greatest: Nanos::ZERO,
            threads: Vec::with_capacity(result.processes.len()),
            latencies: Histogram::new(),
        };
        for process in &result.processes {
            totals.add(&process.statistics);
        }
        totals.least = totals.least.min(totals.greatest);
        totals
    }

    fn add(&mut self, thread: &JobStatistics) {
        let [read, write] = [Direction::Read, Direction::Write].map(|way| thread.direction(way));
        self.reads += read.ios();
        self.writes += write.ios();
        self.fsyncs += thread.sync().n();
        self.closing_fsyncs += thread.closing_syncs();
        self.bytes[0] += read.bytes();
        self.bytes[1] += write.bytes();
        let (mut events, mut time) = (0, 0.0);
        for latency in [read.total(), write.total(), thread.sync()] {
            events += latency.n();
            time += latency.mean() * count(latency.n()) / 1e9;
            if latency.n() > 0 {
                self.least = self.least.min(latency.min());
                self.greatest = self.greatest.max(latency.max());
            }
        }
        self.threads.push(Thread { events, seconds: time });
        for histogram in [read.total_histogram(), write.total_histogram(), thread.sync_histogram()]
        {
            self.latencies.merge(histogram);
        }
    }

    /// What was done since `earlier`, in `self.time - earlier.time`. The figures of the shortest
    /// and the longest event, and of threads, remain those of the whole run.
    #[must_use]
    pub fn since(mut self, earlier: &Totals) -> Totals {
        self.time = self.time - earlier.time;
        self.reads -= earlier.reads;
        self.writes -= earlier.writes;
        self.fsyncs -= earlier.fsyncs;
        self.closing_fsyncs -= earlier.closing_fsyncs;
        for (own, before) in self.bytes.iter_mut().zip(earlier.bytes) {
            *own -= before;
        }
        self.latencies.since(&earlier.latencies);
        self
    }

    /// Reads, writes and fsyncs of bursts.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.reads + self.writes + self.fsyncs
    }

    /// Reads a second.
    #[must_use]
    pub fn reads_per_second(&self) -> f64 {
        per_second(count(self.reads), self.time)
    }

    /// Writes a second.
    #[must_use]
    pub fn writes_per_second(&self) -> f64 {
        per_second(count(self.writes), self.time)
    }

    /// Fsyncs a second, those at the end among them.
    #[must_use]
    pub fn fsyncs_per_second(&self) -> f64 {
        per_second(count(self.fsyncs + self.closing_fsyncs), self.time)
    }

    /// Bytes read a second, and written.
    #[must_use]
    pub fn bytes_per_second(&self) -> [f64; 2] {
        self.bytes.map(|bytes| per_second(count(bytes), self.time))
    }

    /// The time of all events of all threads, in seconds.
    #[must_use]
    pub fn busy_seconds(&self) -> f64 {
        self.threads.iter().map(|thread| thread.seconds).sum()
    }

    /// The mean latency of an event, in ms.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        let events: u64 = self.threads.iter().map(|thread| thread.events).sum();
        1000.0 * self.busy_seconds() / count(events.max(1))
    }

    /// The latency in ms that this percentage of events does not exceed.
    #[must_use]
    pub fn percentile_ms(&self, per_cent: u32) -> f64 {
        let middle = Nanos(self.latencies.percentile(f64::from(per_cent)));
        // A bin's middle may lie above all that is in it.
        1000.0 * seconds(middle.min(self.greatest))
    }
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;

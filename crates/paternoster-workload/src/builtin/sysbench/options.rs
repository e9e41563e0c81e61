// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: sysbench's `fileio` options, with their defaults, and the one job they become here.
//!
//! The job's clones are the threads; all of them have all files, and take their work from one
//! [`Generator`](super::generator::Generator).
//!
//! Files consist of whole blocks: the remainder when `--file-total-size` is divided by the number
//! of files, and then by the block, is not used. (sysbench lets requests reach over the end of a
//! file.)
//!
//! Source: LOAD-6 to LOAD-8.

use std::sync::Arc;

use paternoster_core::Nanos;

use super::generator::{Mode, Rules};
use crate::builtin::job;
use crate::direction::Direction;
use crate::fio::job::{Engine, Job};
use crate::fio::syncs::{FileSync, SyncKind, Syncs};

/// Files times threads: each thread keeps a little about each file.
const PLACES_MAX: u64 = 1 << 22;

/// `--file-io-mode`, but for `mmap`, which is not modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// One call at a time.
    Sync,
    /// This many I/Os in flight for each thread, if they are direct.
    Async(u32),
}

/// `--file-fsync-mode`. What both do is the same, unless the host has a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncCall {
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

impl SyncCall {
    /// The mode's name, as in sysbench.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SyncCall::Fsync => "fsync",
            SyncCall::Fdatasync => "fdatasync",
        }
    }

    const fn kind(self) -> SyncKind {
        match self {
            SyncCall::Fsync => SyncKind::Fsync,
            SyncCall::Fdatasync => SyncKind::Fdatasync,
        }
    }
}

/// The options of a sysbench run.
#[derive(Debug, Clone)]
pub struct Sysbench {
    /// `--threads`.
    pub threads: u32,
    /// `--time`: no request is begun after it; `None` is without limit.
    pub time: Option<Nanos>,
    /// `--events`: this many requests, including fsyncs of bursts; `None` is without limit.
    pub events: Option<u64>,
    /// `--rate`: this many a second on average; `None` is as fast as possible.
    pub rate: Option<u64>,
    /// `--percentile` of latencies; 0 is none.
    pub percentile: u32,
    /// `--report-interval`.
    pub report_interval: Option<Nanos>,
    /// `--file-num`.
    pub files: u32,
    /// `--file-block-size` in bytes.
    pub block: u64,
    /// `--file-total-size` in bytes.
    pub total: u64,
    /// `--file-test-mode`.
    pub mode: Mode,
    /// `--file-io-mode`.
    pub io_mode: IoMode,
    /// `sync` or `dsync` of `--file-extra-flags`.
    pub open: FileSync,
    /// `direct` of `--file-extra-flags`.
    pub direct: bool,
    /// `--file-fsync-freq`: a burst of fsyncs after this many requests; 0 is never.
    pub sync_every: u64,
    /// `--file-fsync-all`: an fsync after each write, and no bursts.
    pub sync_all: bool,
    /// `--file-fsync-end`: at its end each thread syncs every file.
    pub sync_end: bool,
    /// `--file-fsync-mode`.
    pub sync_call: SyncCall,
    /// `--file-merged-requests`: blocks of a sequential request at most; 0 is one.
    pub merged: u32,
    /// `--file-rw-ratio`: reads by writes of a mixed test.
    pub ratio: f64,
}

impl Sysbench {
    /// sysbench's defaults.
    #[must_use]
    pub const fn new(mode: Mode) -> Sysbench {
        Sysbench {
            threads: 1,
            time: Some(Nanos::from_secs(10)),
            events: None,
            rate: None,
            percentile: 95,
            report_interval: None,
            files: 128,
            block: 16 << 10,
            total: 2 << 30,
            mode,
            io_mode: IoMode::Sync,
            open: FileSync::None,
            direct: false,
            sync_every: 100,
            sync_all: false,
            sync_end: true,
            sync_call: SyncCall::Fsync,
            merged: 0,
            ratio: 1.5,
        }
    }

    /// Bytes of each file: of whole blocks.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let each = self.total / u64::from(self.files.max(1));
        each - each % self.block.max(1)
    }

    /// Whether the options go together.
    ///
    /// # Errors
    /// Which do not, and what would do.
    pub fn check(&self) -> Result<(), String> {
        let Sysbench { threads, files, total, block, .. } = *self;
        if self.time.is_none() && self.events.is_none() {
            return Err(
                "--time=0 --events=0: the test would never end; give one of them".to_owned()
            );
        }
        if self.file_bytes() == 0 {
            return Err(format!(
                "--file-total-size={total} makes {files} files of {} bytes, less than one block of \
                 {block}; make it larger, or --file-num or --file-block-size smaller",
                total / u64::from(files.max(1))
            ));
        }
        if u64::from(threads) * u64::from(files) > PLACES_MAX {
            return Err(format!(
                "--threads={threads} --file-num={files}: threads times files may be {PLACES_MAX} \
                 at most"
            ));
        }
        if self.sync_all && self.io_mode != IoMode::Sync {
            return Err(
                "--file-fsync-all=on waits for each write, --file-io-mode=async does not: \
                        use --file-io-mode=sync"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What the requests are.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let file_bytes = self.file_bytes().max(1);
        Rules {
            mode: self.mode,
            files: self.files.max(1),
            file_bytes,
            block: self.block.clamp(1, file_bytes),
            sequential: self.block.max(1).saturating_mul(u64::from(self.merged.max(1))),
            ratio: self.ratio,
            sync_every: if self.sync_all { 0 } else { self.sync_every },
            events: self.events,
            rate: self.rate,
            sync: self.sync_call.kind(),
        }
    }

    /// The one job.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let direction = if self.mode.writes() { Direction::Write } else { Direction::Read };
        let mut job = job("sysbench", direction, self.mode.is_random(), self.block);
        (job.files.nrfiles, job.files.filesize) = (self.files, Some(self.file_bytes()));
        job.files.filename_format = Some("test_file.$filenum".to_owned());
        job.ours.generated = Some(Arc::new(self.rules()));
        job.clones.numjobs = self.threads.max(1);
        job.time.runtime = self.time;
        job.cache.direct = Some(self.direct);
        job.cache.invalidate = false;
        job.report.status_interval = self.report_interval;
        job.syncs = Syncs {
            open: self.open,
            each: self.sync_all.then(|| self.sync_call.kind()),
            at_end: self.sync_end && self.mode.writes(),
            every_file: true,
            ..Syncs::default()
        };
        if let IoMode::Async(backlog) = self.io_mode {
            (job.queue.engine, job.queue.iodepth, job.queue.iodepth_low) =
                (Engine::Async, backlog, backlog);
        }
        vec![job]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are files of whole blocks? 2 GiB in 3 are 715,827,882 bytes each, 43,690 blocks and a rest.
    #[test]
    fn files_are_of_whole_blocks() {
        let of = |files, block| {
            Sysbench { files, block, ..Sysbench::new(Mode::RandomWrite) }.file_bytes()
        };
        assert_eq!(of(128, 16 << 10), 16 << 20);
        assert_eq!(of(3, 16 << 10), 43_690 << 14);
    }

    /// Is what cannot be done refused, with the options it is about?
    #[test]
    fn contradictions_are_refused() {
        let plain = Sysbench::new(Mode::RandomWrite);
        assert_eq!(plain.check(), Ok(()));
        let endless = Sysbench { time: None, ..plain.clone() };
        let small = Sysbench { total: 1 << 20, ..plain.clone() };
        let many = Sysbench { threads: 4096, files: 4096, ..plain.clone() };
        let both = Sysbench { sync_all: true, io_mode: IoMode::Async(8), ..plain };
        for (options, words) in [
            (endless, "never end"),
            (small, "128 files of 8192 bytes, less than one block of 16384"),
            (many, "may be 4194304 at most"),
            (both, "use --file-io-mode=sync"),
        ] {
            let message = options.check().unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }
}

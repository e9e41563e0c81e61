// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sync: fsync, fdatasync, sync_file_range and O_SYNC, as a process lives through them.
//!
//! ```text
//! write     the file's dirty pages, as sync bios of this process
//! wait      until nothing of the file is being written; once more for what was written meanwhile
//! durable   a commit of the journal, or a flush of the device          (not for sync_file_range)
//! ```
//!
//! A direct file has no dirty pages, so only the last step remains. Pages that other processes
//! dirty after the beginning are not waited for.
//!
//! A range is written for the integrity of its data, as by fsync, only with all three of its flags;
//! otherwise its pages are async bios, and those being written are left alone.
//!
//! Source: FIO-57, FIO-58 (when), Linux' manual pages fsync(2), sync_file_range(2) (what).

use paternoster_core::{Flags, Nanos, Observer, Outcome, RequestQueue};

use super::durable::Durable;
use super::{Identity, Progress, SYNC_SLOT};
use crate::fio::syncs::SyncFileRange;
use crate::page_cache::pages::Run;
use crate::page_cache::{PageCache, Rest, Wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Write(Run),
    Wait,
    Durable,
    Done,
}

/// What a sync does besides writing pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    /// Waits for what is already being written.
    pub(super) wait_before: bool,
    /// Writes the dirty pages.
    pub(super) write: bool,
    /// Waits for them.
    pub(super) wait_after: bool,
    /// How its pages are written: as sync bios, or async ones.
    pub(super) sync: bool,
    /// Commits or flushes; and whether only for the data's sake.
    pub(super) durable: Option<bool>,
}

impl Steps {
    /// fsync; fdatasync if it is for the data only.
    pub(super) const fn whole(data_only: bool) -> Steps {
        let (wait_before, write, wait_after, sync) = (false, true, true, true);
        Steps { wait_before, write, wait_after, sync, durable: Some(data_only) }
    }

    /// `sync_file_range`.
    pub(super) const fn range(range: SyncFileRange) -> Steps {
        let SyncFileRange { wait_before, write, wait_after, .. } = range;
        let sync = wait_before && write && wait_after;
        Steps { wait_before, write, wait_after, sync, durable: None }
    }
}

/// A sync in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncCall {
    pub(super) began: Nanos,
    pub(super) error: i32,
    /// Whether the sync is counted in the job's statistics.
    pub(super) counts: bool,
    steps: Steps,
    durable: Durable,
    file: u32,
    run: Run,
    stage: Stage,
    /// Pages were skipped because an earlier write of them was in flight; and whether they were
    /// then written a second time.
    again: bool,
    repeated: bool,
    /// The writes that it waits for have numbers below this; none until it waits.
    before: Option<u64>,
}

impl SyncCall {
    pub(super) const fn new(now: Nanos, steps: Steps, file: u32, run: Run) -> SyncCall {
        let data_only = matches!(steps.durable, Some(true));
        SyncCall {
            began: now,
            error: 0,
            counts: true,
            steps,
            durable: Durable::new(file, data_only),
            file,
            run,
            stage: Stage::Before,
            again: false,
            repeated: false,
            before: None,
        }
    }

    /// Goes on as far as it can.
    pub(super) fn go_on<O: Observer>(
        &mut self,
        now: Nanos,
        identity: Identity,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> Progress {
        loop {
            let waits = match self.stage {
                Stage::Before => self.steps.wait_before && self.wait_for_writeback(identity, cache),
                Stage::Write(run) => self.write(now, run, identity, cache, queue),
                Stage::Wait => self.steps.wait_after && self.wait_for_writeback(identity, cache),
                Stage::Durable => self.durable.go_on(now, identity, SYNC_SLOT, cache, queue),
                Stage::Done => return Progress::Ended,
            };
            if waits {
                return Progress::Waiting;
            }
            self.stage = self.next_stage(cache);
        }
    }

    /// What follows a stage that has been passed.
    fn next_stage(&mut self, cache: &mut PageCache) -> Stage {
        match self.stage {
            Stage::Before if self.steps.write => Stage::Write(self.run),
            Stage::Before | Stage::Write(_) => Stage::Wait,
            Stage::Wait if self.again && !self.repeated && self.steps.sync => {
                self.repeated = true;
                Stage::Write(self.run)
            }
            Stage::Wait => {
                self.error = cache.take_write_error(self.file);
                let lasts = self.steps.durable.is_some() && self.error == 0;
                if lasts { Stage::Durable } else { Stage::Done }
            }
            Stage::Durable => {
                self.error = self.durable.error();
                Stage::Done
            }
            Stage::Done => Stage::Done,
        }
    }

    fn write<O: Observer>(
        &mut self,
        now: Nanos,
        run: Run,
        identity: Identity,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> bool {
        let flags = if self.steps.sync { Flags::SYNC } else { Flags::NONE };
        match cache.write_back(now, queue, identity.client, self.file, run, flags) {
            Ok(passed_over) => {
                self.again |= passed_over;
                false
            }
            Err(Rest(rest)) => {
                self.stage = Stage::Write(rest);
                true
            }
        }
    }

    /// Whether something of its pages that was on its way when this wait began still is.
    fn wait_for_writeback(&mut self, identity: Identity, cache: &mut PageCache) -> bool {
        if cache.is_waiting(identity.number) {
            return true;
        }
        let before = *self.before.get_or_insert(cache.next_transfer());
        if cache.is_writing(self.file, self.run, before) {
            cache.wait(identity.number, Wait::Writeback { file: self.file, run: self.run, before });
            return true;
        }
        self.before = None;
        false
    }

    /// The flush of the sync has ended.
    pub(super) const fn flush_ended(&mut self, outcome: Outcome) {
        self.durable.flush_ended(outcome);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sync: fsync, fdatasync, sync_file_range and O_SYNC, as a process lives through them.
//!
//! ```text
//! write   the file's dirty pages, as sync bios of this process
//! wait    until nothing of the file is on its way; once more for what was written again meanwhile
//! flush   the device's cache                                  (not for sync_file_range)
//! ```
//!
//! A direct file has no dirty pages, so only the flush remains. Pages that other processes dirty
//! after the beginning are not waited for.
//!
//! Not here: the commit of a file system's journal.
//!
//! Source: spec `fio.md` 3.4 (when), Linux' manual pages fsync(2), sync_file_range(2) (what).

use paternoster::{Bio, Flags, Nanos, Observer, Outcome, RequestQueue, Status, SubmitError};

use super::{EINVAL, Identity, Progress, SYNC_SLOT};
use crate::fio::syncs::SyncFileRange;
use crate::page_cache::pages::Run;
use crate::page_cache::{PageCache, Rest, Wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Write(Run),
    Wait,
    Flush,
    Flushing,
    Done,
}

/// What a sync does beside writing pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    /// Waits for what is on its way already.
    pub(super) wait_before: bool,
    /// Writes the dirty pages.
    pub(super) write: bool,
    /// Waits for them.
    pub(super) wait_after: bool,
    /// Flushes the device's cache.
    pub(super) flush: bool,
}

impl Steps {
    /// fsync, fdatasync.
    pub(super) const WHOLE: Steps =
        Steps { wait_before: false, write: true, wait_after: true, flush: true };

    /// `sync_file_range`.
    pub(super) const fn range(range: SyncFileRange) -> Steps {
        let SyncFileRange { wait_before, write, wait_after, .. } = range;
        Steps { wait_before, write, wait_after, flush: false }
    }
}

/// A sync that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncCall {
    pub(super) began: Nanos,
    pub(super) error: i32,
    steps: Steps,
    file: u32,
    run: Run,
    stage: Stage,
    /// Pages were passed over because an earlier write of them was on its way; and whether they
    /// were written a second time for that.
    again: bool,
    repeated: bool,
    /// The writes that it waits for have numbers below this; none until it waits.
    before: Option<u64>,
}

impl SyncCall {
    pub(super) const fn new(now: Nanos, steps: Steps, file: u32, run: Run) -> SyncCall {
        let stage = Stage::Before;
        SyncCall {
            began: now,
            error: 0,
            steps,
            file,
            run,
            stage,
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
                Stage::Flush => self.flush(now, identity, queue),
                Stage::Flushing => true,
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
            Stage::Wait if self.again && !self.repeated && self.steps.wait_after => {
                self.repeated = true;
                Stage::Write(self.run)
            }
            Stage::Wait => {
                self.error = cache.take_write_error(self.file);
                if self.steps.flush && self.error == 0 { Stage::Flush } else { Stage::Done }
            }
            stage => stage,
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
        match cache.write_back(now, queue, identity.client, self.file, run, Flags::SYNC) {
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

    fn flush<O: Observer>(
        &mut self,
        now: Nanos,
        identity: Identity,
        queue: &mut RequestQueue<O>,
    ) -> bool {
        let bio = Bio::flush(identity.client).cookie(identity.cookie(SYNC_SLOT));
        match queue.submit(now, bio) {
            Ok(_) => self.stage = Stage::Flushing,
            Err(SubmitError::Busy) => {}
            Err(_) => {
                self.error = EINVAL;
                self.stage = Stage::Done;
            }
        }
        self.stage != Stage::Done
    }

    /// Its flush has ended.
    pub(super) const fn flush_ended(&mut self, outcome: Outcome) {
        if let Status::Failed(errno) = outcome.status {
            self.error = errno;
        }
        self.stage = Stage::Done;
    }
}

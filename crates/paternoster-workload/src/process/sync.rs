// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sync: fsync, fdatasync, sync_file_range and O_SYNC, as a process lives through them.
//!
//! ```text
//! write   the file's dirty pages, as sync bios of this process
//! wait    until nothing of the file is on its way; once more for what was written again meanwhile
//! flush   the device's cache
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
use crate::page_cache::pages::Run;
use crate::page_cache::{PageCache, Rest, Wait};

/// When a process syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncPlan {
    /// After every so many writes: fsync. 0: never.
    pub fsync_every: u32,
    /// After every so many writes: fdatasync. 0: never.
    pub fdatasync_every: u32,
    /// After every so many writes: sync_file_range of what was written since the last. 0: never.
    pub range_every: u32,
    /// Every so many writes, one is a barrier: what came before it is durable first, and so is
    /// it. 0: never.
    pub barrier_every: u32,
    /// fsync at the end of the job.
    pub at_end: bool,
    /// Every write is durable when it ends (O_SYNC, O_DSYNC).
    pub every_write: bool,
}

impl SyncPlan {
    /// The sync that is due after this many writes, if any.
    #[must_use]
    pub const fn due(&self, writes: u64) -> Option<Kind> {
        if is_due(writes, self.fsync_every) || is_due(writes, self.fdatasync_every) {
            Some(Kind::Flush)
        } else if is_due(writes, self.range_every) {
            Some(Kind::Range)
        } else {
            None
        }
    }

    /// Whether write number `writes`, from 1, is a barrier.
    #[must_use]
    pub const fn is_barrier(&self, writes: u64) -> bool {
        is_due(writes, self.barrier_every)
    }
}

const fn is_due(writes: u64, every: u32) -> bool {
    every > 0 && writes > 0 && writes.is_multiple_of(every as u64)
}

/// What a sync does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything, and the device's cache: fsync, fdatasync.
    Flush,
    /// Only pages, without the device's cache: sync_file_range.
    Range,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Write(Run),
    Wait,
    Flush,
    Flushing,
    Done,
}

/// A sync that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncCall {
    pub(super) began: Nanos,
    pub(super) error: i32,
    kind: Kind,
    file: u32,
    run: Run,
    stage: Stage,
    /// Pages were passed over because an earlier write of them was on its way.
    again: bool,
}

impl SyncCall {
    pub(super) const fn new(now: Nanos, kind: Kind, file: u32, run: Run) -> SyncCall {
        SyncCall { began: now, error: 0, kind, file, run, stage: Stage::Write(run), again: false }
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
                Stage::Write(run) => self.write(now, run, identity, cache, queue),
                Stage::Wait => self.wait(identity, cache),
                Stage::Flush => self.flush(now, identity, queue),
                Stage::Flushing => true,
                Stage::Done => return Progress::Ended,
            };
            if waits {
                return Progress::Waiting;
            }
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
                self.stage = Stage::Wait;
                false
            }
            Err(Rest(rest)) => {
                self.stage = Stage::Write(rest);
                true
            }
        }
    }

    fn wait(&mut self, identity: Identity, cache: &mut PageCache) -> bool {
        if cache.is_waiting(identity.number) {
            return true;
        }
        if cache.pages().writeback_of(self.file) > 0 {
            cache.wait(identity.number, Wait::Writeback { file: self.file });
            return true;
        }
        let _told_by_file = cache.take_error(identity.number);
        if std::mem::take(&mut self.again) {
            self.stage = Stage::Write(self.run);
            return false;
        }
        self.error = cache.take_write_error(self.file);
        self.stage = match self.kind {
            Kind::Flush if self.error == 0 => Stage::Flush,
            _ => Stage::Done,
        };
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
                return false;
            }
        }
        true
    }

    /// Its flush has ended.
    pub(super) const fn flush_ended(&mut self, outcome: Outcome) {
        if let Status::Failed(errno) = outcome.status {
            self.error = errno;
        }
        self.stage = Stage::Done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fsync=3` over 8 writes with `end_fsync=1` is w w w S w w w S w w S (spec 3.4, measured).
    #[test]
    fn syncs_are_due_after_every_so_many_writes() {
        let plan = SyncPlan { fsync_every: 3, at_end: true, ..SyncPlan::default() };
        let due: Vec<u64> = (0..=8).filter(|&writes| plan.due(writes).is_some()).collect();
        assert_eq!(due, [3, 6]);
        let plan = SyncPlan { barrier_every: 4, ..SyncPlan::default() };
        let barriers: Vec<u64> = (1..=8).filter(|&write| plan.is_barrier(write)).collect();
        assert_eq!(barriers, [4, 8]);
    }
}

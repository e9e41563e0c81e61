// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durable: what follows written data, so that they outlast a power failure.
//!
//! ```text
//!                     what changed of the file is in the journal already, or nothing did
//! data is written ──┬───────────────────────────────────────────────────────▶ flush ──▶ durable
//!                   │ a transaction holds it
//!                   └─▶ commit it, wait ─┬─ its record came after the data ───────────▶ durable
//!                                        └─ it was too late to flush them ──▶ flush ──▶ durable
//! ```
//!
//! A commit flushes the device before it writes its record, and so also makes durable the data of
//! every process that asks for it. Only a process that comes after that flush was sent needs one of
//! its own.
//!
//! Both a sync call and a direct write of a file that is open with `O_SYNC` end like this; several
//! of the latter may be in flight.
//!
//! Source: Linux' manual pages fsync(2), open(2); general knowledge of ext4.

use paternoster_core::{Bio, Nanos, Observer, Outcome, RequestQueue, Status, SubmitError};

use super::{EINVAL, Identity};
use crate::page_cache::PageCache;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    /// Waits for the end of a commit; and whether that will have flushed the data.
    Commit {
        id: u64,
        flushes: bool,
    },
    Flush,
    Flushing,
    Done,
}

/// Data that were written and are to be durable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Durable {
    file: u32,
    /// Metadata counts only as far as it is needed to find the data.
    data_only: bool,
    step: Step,
    error: i32,
}

impl Durable {
    pub(super) const fn new(file: u32, data_only: bool) -> Durable {
        Durable { file, data_only, step: Step::Begin, error: 0 }
    }

    /// The errno of what failed, 0 if nothing did.
    pub(super) const fn error(&self) -> i32 {
        self.error
    }

    /// Goes on as far as it can; its flush is I/O `slot` of the process. True while it waits.
    pub(super) fn go_on<O: Observer>(
        &mut self,
        now: Nanos,
        identity: Identity,
        slot: u32,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> bool {
        loop {
            self.step = match self.step {
                Step::Begin => self.first(cache),
                Step::Commit { id, flushes } => {
                    if !cache.has_committed(id) {
                        cache.await_commit(identity.number, id);
                        return true;
                    }
                    self.error = cache.journal_error(self.file);
                    if flushes || self.error != 0 { Step::Done } else { Step::Flush }
                }
                Step::Flush => {
                    let bio = Bio::flush(identity.client).cookie(identity.cookie(slot));
                    match queue.submit(now, bio) {
                        Ok(_) => Step::Flushing,
                        // A Wake will come.
                        Err(SubmitError::Busy) => return true,
                        Err(_) => {
                            self.error = EINVAL;
                            Step::Done
                        }
                    }
                }
                Step::Flushing => return true,
                Step::Done => return false,
            };
        }
    }

    fn first(&mut self, cache: &mut PageCache) -> Step {
        self.error = cache.journal_error(self.file);
        if self.error != 0 {
            return Step::Done;
        }
        match cache.transaction_of(self.file, self.data_only) {
            Some(id) => Step::Commit { id, flushes: cache.ask_for_commit(id) },
            None => Step::Flush,
        }
    }

    /// The flush of the write has ended.
    pub(super) const fn flush_ended(&mut self, outcome: Outcome) {
        if let Status::Failed(errno) = outcome.status {
            self.error = errno;
        }
        self.step = Step::Done;
    }
}

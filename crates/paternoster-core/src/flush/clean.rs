// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clean: whether a flush would find anything to do.
//!
//! A write that has ended without forced unit access may lie in the volatile cache until a flush
//! that *started* later has ended. Nothing is known of a write that failed, with forced unit access
//! or without, so it counts too; nor
//! of what was written before the queue was made, so the cache starts as dirty.
//!
//! ```text
//! write ends      w           w
//! flush             |====|      |===|
//! written since   y n         y n            the next flush has something to do
//! being flushed     y    n      y   n        ... or the one under way may still fail
//! ```
//!
//! With the attribute `flush_elide` a flush of a clean cache is no command: who waits for it goes
//! on at once. It is on unless told otherwise, since it measures best: threads with nothing to
//! flush get to their next write, and more of them share the next flush (`reproduce
//! flush-options`). It holds only for what goes through this queue; who shares the device with
//! others, or does not trust it to keep what it has acknowledged as flushed, turns it off.
//!
//! # Invariants
//! I1  If both marks are off, every write that has ended is durable.
//!
//! Source: seed 003 (Tejun Heo: back-to-back flushes are no-ops; doing that in the block layer);
//! FLUSH-21.

use crate::device::Outcome;
use crate::event::Observer;
use crate::queue::RequestQueue;
use crate::request::{Flags, Op, Request, RequestId};

/// What the volatile cache may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cleanness {
    /// A write has ended since a flush last started.
    written: bool,
    /// The flush in the device, if any, has something to do.
    flushing: bool,
}

impl Default for Cleanness {
    fn default() -> Cleanness {
        Cleanness { written: true, flushing: false }
    }
}

impl Cleanness {
    pub(crate) fn write_ended(&mut self, request: &Request, good: bool) {
        let leaves_dirt = matches!(request.op, Op::Write | Op::Discard);
        if leaves_dirt && !(good && request.flags.contains(Flags::FUA)) {
            self.written = true;
        }
    }

    /// Nothing is known any more.
    pub(super) const fn forget(&mut self) {
        self.written = true;
    }

    pub(super) const fn flush_starts(&mut self) {
        self.flushing |= self.written;
        self.written = false;
    }

    /// Whether the flush in the device has something to do, as far as is known.
    pub(super) const fn has_work(self) -> bool {
        self.flushing
    }

    pub(super) const fn flush_ended(&mut self, good: bool) {
        if !good {
            self.written |= self.flushing;
        }
        self.flushing = false;
    }

    const fn is_clean(self) -> bool {
        !self.written && !self.flushing
    }
}

impl<O: Observer> RequestQueue<O> {
    /// The device is said to have a cache, or to have none: while it had none nobody looked what
    /// was written, nor passed the time that debts are repaid in.
    pub(crate) fn believe_write_cache(&mut self, there: bool) {
        if self.view.facts.write_cache != there {
            self.view.facts.write_cache = there;
            self.flush.clean.forget();
            self.forgive_debts();
        }
    }

    /// Whether those who wait for a flush can go on without one.
    pub(super) fn is_clean(&mut self) -> bool {
        if !self.flush.policy.elides {
            return false;
        }
        #[cfg(feature = "planted-bugs")]
        if self.planted.elides_too_many(!self.flush.clean.is_clean()) {
            return true;
        }
        self.flush.clean.is_clean()
    }

    /// Nobody in the pending list needs a flush: all go on.
    pub(super) fn pass_pending(&mut self) {
        let pending = self.flush.pending;
        for _ in 0..self.flush.lists[pending].len() {
            if let Some(index) = self.flush.lists[pending].pop_front(&mut self.links) {
                self.end_step(RequestId(index), Outcome::OK);
            }
        }
    }
}

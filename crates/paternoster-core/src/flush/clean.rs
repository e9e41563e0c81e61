// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clean: whether a flush would find anything to do.
//!
//! A write that has ended without forced unit access may be in the volatile cache until a flush
//! that *started* later has ended. A failed write, with forced unit access or without, may be there
//! as well, so it counts too; so may writes from before the queue was built, so the cache starts as
//! dirty.
//!
//! ```text
//! write ends      w           w
//! flush             |====|      |===|
//! written since   y n         y n            the next flush has something to do
//! being flushed     y    n      y   n        ... or the one under way may still fail
//! ```
//!
//! With the attribute `flush_elide` a flush of a clean cache issues no command: its client
//! continues at once. It is on by default, since it performs best: threads with nothing to flush
//! get to their next write, and more of them share the next flush (`reproduce flush-options`). It
//! knows only what goes through this queue; turn it off if the device is shared with others, or if
//! you do not trust it to keep what it has acknowledged as flushed.
//!
//! # Invariants
//! I1  If both marks are off, every write that has ended is durable.
//!
//! Source: seed 003 (Tejun Heo: back-to-back flushes are no-ops; doing that in the block layer);
//! FLUSH-21.

use crate::op::{Flags, Op};
use crate::request::Request;

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

    /// Nothing is known any more: the cache counts as dirty.
    pub(crate) const fn forget(&mut self) {
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

    /// I1: every write that has ended is durable.
    pub(crate) const fn is_clean(self) -> bool {
        !self.written && !self.flushing
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hold: what may go to the device while a flush is in flight.
//!
//! A SATA disk cannot queue a flush together with other commands. It refuses whatever it is given
//! meanwhile, and a refused request goes to the head of the dispatch list, before the next flush:
//!
//! ```text
//! flush of a dirty cache 10 ms, of a clean one 0.2, a write 1; write1 waits, flush2 comes at 5
//!
//! without   |---- flush1 10 ----| write1 |---- flush2 10 ----|      flush2 ends at 21
//! with      |---- flush1 10 ----|f2| write1                         flush2 ends at 10.2
//! ```
//!
//! So the queue is *held*: while a flush is in flight nothing is taken from the elevator, where
//! requests stay mergeable and more urgent ones can still go first. Requests that have left the
//! elevator before are issued all the same (and are refused). At the end of the flush the queue
//! continues by itself.
//!
//! | `flush_hold`   | device cannot queue a flush | device can |
//! |----------------|-----------------------------|------------|
//! | `off`          | nothing is held             | nothing is held |
//! | `unqueueable`  | everything                  | nothing is held |
//! | `writes`       | everything                  | writes; reads go on during the flush |
//!
//! Held writes of the last line have been picked already and are on the dispatch list, as many as
//! the device takes commands; reads behind them go before them.
//!
//! * `flush_drain`: a flush that cannot be queued is not even tried while other commands are in the
//!   device, instead of being refused once for each of their ends.
//! * `flush_delay` (V. Goyal): a flush waits for others to share it while the queue is not empty.
//!   There is no *adaptive* delay: T. Heo's reason holds, it would need patterns to be recognised
//!   and numbers to be guessed, and more merging does not lower the number of flushes (S. Li: of
//!   ten, 4 F, W, 6 F becomes 6 F, W, 4 F; a test shows it).
//!
//! # Trains
//! Back-to-back flushes of a clean cache are cheap, so nothing is held for long: between flushes of
//! writes with data other I/O goes on (T. Heo: F, F + data, F, F, F + data). But two clients that
//! only flush always have the next one ready when one ends, and the queue is held for ever (V.
//! Goyal's worry): on a disk of 0.2 ms each, 4952 in a row in the first second. So after
//! [`TRAIN_MOST`] flushes during which others waited, the next one lets one of those go first.
//! Differs from Linux, where they wait as long as the train lasts.
//!
//! # Invariants
//! I1  With a hold, no request leaves the elevator while a flush is in flight on a device that
//!     cannot queue it (FLUSH-10).
//! I2  Whatever is held continues with the next call of `next` at the end of the flush, however it
//!     ended (FLUSH-11), or of a train of at most [`TRAIN_MOST`].
//!
//! Source: seed 003; FLUSH-10 to FLUSH-15, FLUSH-19 to FLUSH-23.

use crate::answer::Waiting;
use crate::event::Observer;
use crate::queue::RequestQueue;
use crate::request::{Op, RequestId, Stage};
use crate::time::Nanos;

/// At most this many flushes follow each other while something else waits. Long enough for the
/// trains that the hold is for (a handful), and at 0.2 ms each no longer than a seek.
const TRAIN_MOST: u32 = 16;

/// What is held while a flush is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    /// Nothing.
    Off,
    /// Everything, if the device cannot queue the flush.
    Unqueueable,
    /// If it can, writes.
    Writes,
}

/// The words of the attribute `flush_hold`.
pub(crate) const HOLDS: [(&str, Hold); 3] =
    [("off", Hold::Off), ("unqueueable", Hold::Unqueueable), ("writes", Hold::Writes)];

impl<O: Observer> RequestQueue<O> {
    /// A flush is in flight. The request on the dispatch list that goes to the device next; or why
    /// none does although the list is not empty.
    pub(crate) fn next_dispatched(&mut self) -> Result<Option<RequestId>, Waiting> {
        let Some(first) = self.dispatch.first() else { return Ok(None) };
        let mut id = RequestId(first);
        if self.is_held(first) {
            let other = self.dispatch.iter(&self.links).find(|&index| !self.is_write(index));
            match other {
                Some(index) => id = RequestId(index),
                None if self.dispatch.len() >= self.view.facts.depth => {
                    return Err(Waiting::Flush);
                }
                None => return Ok(None),
            }
        }
        if self.flush.is_command(id) && self.must_drain() {
            return Err(Waiting::Flush);
        }
        self.dispatch.remove(&mut self.links, id.0);
        Ok(Some(id))
    }

    fn is_write(&self, index: u32) -> bool {
        self.view.slot(index).op == Op::Write
    }

    fn must_drain(&self) -> bool {
        self.flush.policy.drains && !self.view.facts.flush_queueable && !self.tags.is_empty()
    }

    /// Whether nothing leaves the elevator because a flush is in flight.
    pub(crate) fn holds_queue(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        if self.planted.holds_for_ever() {
            return true;
        }
        let holds = self.flush.policy.hold != Hold::Off && !self.view.facts.flush_queueable;
        holds && self.flush.in_flight()
    }

    fn holds_writes(&self) -> bool {
        self.flush.in_flight()
            && self.flush.policy.hold == Hold::Writes
            && self.view.facts.flush_queueable
    }

    /// Whether a picked request has to stay on the dispatch list until the flush has ended; if so,
    /// it is put there.
    pub(crate) fn hold_write(&mut self, id: RequestId) -> bool {
        if !self.is_held(id.0) {
            return false;
        }
        self.view.requests[id].stage = Stage::Dispatched;
        self.dispatch.push_back(&mut self.links, id.0);
        true
    }

    /// Whether a request on the dispatch list has to stay there until the flush has ended.
    pub(crate) fn is_held(&self, index: u32) -> bool {
        self.holds_writes() && self.is_write(index)
    }

    /// Whether a flush is in flight, or will be.
    pub(crate) fn somebody_awaits_flush(&self) -> bool {
        self.flush.in_flight() || !self.flush.lists[self.flush.pending].is_empty()
    }

    /// A flush has ended: did others wait meanwhile?
    pub(super) fn lengthen_train(&mut self) {
        self.flush.train = if self.others_wait() { self.flush.train + 1 } else { 0 };
    }

    /// Something outside a sequence has been done; a flush may have waited for it.
    pub(crate) fn end_train(&mut self) {
        if self.flush.train != 0 && core::mem::take(&mut self.flush.train) >= TRAIN_MOST {
            self.kick();
        }
    }

    /// Checks again whether a delayed flush may be issued.
    #[inline]
    pub(crate) fn kick_put_off(&mut self) {
        let puts_off = self.flush.policy.delay != Nanos::ZERO || self.flush.train >= TRAIN_MOST;
        if puts_off && !self.flush.lists[self.flush.pending].is_empty() {
            self.kick();
        }
    }

    /// Whether the next flush lets others go first.
    pub(crate) fn gives_way(&self) -> bool {
        self.flush.train >= TRAIN_MOST && self.others_wait()
    }

    /// Whether something outside a sequence has yet to go to the device.
    fn others_wait(&self) -> bool {
        let sequenced = |index| self.view.slot(index).steps.is_sequenced();
        let command = self.flush.command.map(|id| id.0);
        let plain = |index| Some(index) != command && !sequenced(index);
        self.elevator.waiting() > 0 || self.dispatch.iter(&self.links).any(plain)
    }

    /// Whether a flush that could be issued waits for others to share it.
    pub(super) fn is_delayed(&self, waited: Nanos) -> bool {
        let busy = !self.tags.is_empty() || self.elevator.waiting() != 0 || self.plugs.held() != 0;
        busy && waited < self.flush.policy.delay
    }

    /// When a delayed flush is due, if there is one.
    pub(crate) fn flush_due(&self) -> Nanos {
        let waits = !self.flush.in_flight() && !self.flush.lists[self.flush.pending].is_empty();
        let due = self.flush.pending_since + self.flush.policy.delay;
        // Past its time it waits for data in the device, whose end is an event of its own.
        if waits && due > self.view.exact { due } else { Nanos::MAX }
    }
}

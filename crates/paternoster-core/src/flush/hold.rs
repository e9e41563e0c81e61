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

use super::Sequencer;
use crate::answer::Waiting;
use crate::list::{Links, List};
use crate::op::Op;
use crate::queue_view::QueueView;
use crate::request::RequestId;
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

impl Sequencer {
    /// A flush is in flight. The request on the dispatch list that goes to the device next; or why
    /// none does although the list is not empty. `idle`: nothing is in the device.
    pub(crate) fn next_dispatched(
        &self,
        view: &QueueView,
        dispatch: &List,
        links: &Links,
        idle: bool,
    ) -> Result<Option<RequestId>, Waiting> {
        let Some(first) = dispatch.first() else { return Ok(None) };
        let mut id = RequestId(first);
        if self.holds(view, id) {
            match dispatch.iter(links).find(|&index| !is_write(view, RequestId(index))) {
                Some(index) => id = RequestId(index),
                None if dispatch.len() >= view.facts.depth => return Err(Waiting::Flush),
                None => return Ok(None),
            }
        }
        let must_drain = self.policy.drains && !view.facts.flush_queueable && !idle;
        if self.is_command(id) && must_drain { Err(Waiting::Flush) } else { Ok(Some(id)) }
    }

    /// Whether nothing leaves the elevator because a flush is in flight.
    pub(crate) fn holds_queue(&self, view: &QueueView) -> bool {
        #[cfg(feature = "planted-bugs")]
        if view.planted.holds_for_ever() {
            return true;
        }
        let holds = self.policy.hold != Hold::Off && !view.facts.flush_queueable;
        holds && self.in_flight()
    }

    /// Whether a request that was picked has to stay on the dispatch list until the flush has
    /// ended.
    pub(crate) fn holds(&self, view: &QueueView, id: RequestId) -> bool {
        let holds_writes =
            self.in_flight() && self.policy.hold == Hold::Writes && view.facts.flush_queueable;
        holds_writes && is_write(view, id)
    }

    /// Whether a flush is in flight, or will be.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.in_flight() || self.has_pending()
    }

    /// Whether a request waits for a flush to start.
    pub(super) const fn has_pending(&self) -> bool {
        !self.lists[self.pending].is_empty()
    }

    /// A flush has ended; `others_wait`: something outside a sequence has yet to go to the device.
    pub(super) const fn lengthen_train(&mut self, others_wait: bool) {
        self.train = if others_wait { self.train + 1 } else { 0 };
    }

    /// Something outside a sequence has been done; returns whether a flush may have waited for it.
    pub(crate) const fn end_train(&mut self) -> bool {
        core::mem::replace(&mut self.train, 0) >= TRAIN_MOST
    }

    /// For the planted bug of a lost restart.
    #[cfg(feature = "planted-bugs")]
    pub(super) const fn has_train(&self) -> bool {
        self.train != 0
    }

    /// Whether the train is so long that the next flush lets others go first.
    pub(super) const fn is_long_train(&self) -> bool {
        self.train >= TRAIN_MOST
    }

    /// Whether a flush waits, and may have become due without an event of its own.
    #[inline]
    pub(crate) fn is_put_off(&self) -> bool {
        (self.policy.delay != Nanos::ZERO || self.is_long_train()) && self.has_pending()
    }

    /// When a delayed flush is due, if there is one.
    pub(crate) fn due(&self, now: Nanos) -> Nanos {
        let waits = !self.in_flight() && self.has_pending();
        let due = self.pending_since + self.policy.delay;
        // Past its time it waits for data in the device, whose end is an event of its own.
        if waits && due > now { due } else { Nanos::MAX }
    }

    /// Whether something outside a sequence is among the dispatched requests.
    pub(super) fn has_plain(&self, view: &QueueView, dispatch: &List, links: &Links) -> bool {
        let is_sequenced = |index| view.slot(index).steps.is_sequenced();
        let command = self.command.map(|id| id.0);
        dispatch.iter(links).any(|index| Some(index) != command && !is_sequenced(index))
    }
}

fn is_write(view: &QueueView, id: RequestId) -> bool {
    view.slot(id.0).op == Op::Write
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slice: the time for which one queue has the device.
//!
//! ```text
//!  activated     first completion                                      used up
//!     │                │◀────────────── length ────────────────────────▶│
//!     ●───── seek ─────●──── requests, the device to itself ────────────●── overrun ──▶
//!  dispatch_start    start                                             end
//! ```
//!
//! The clock starts at the first completion, so that the seek to get there is not charged to the
//! queue. What a queue overran is subtracted from its next turn; what a preemption took from it is
//! given back (`residual`, through its key in the service tree).
//!
//! The length is `base + base/5 * (4 - level)`: 180 ms at level 0, 40 ms at level 7. With
//! `low_latency` it shrinks so that all busy queues have their turn within `target_latency`, but
//! not below twice `slice_idle`: ten queues at level 4 get 30 ms, thirty get 16.
//!
//! # Invariants
//! I1  A slice whose clock has not started is not used up.
//!
//! Source: CFQ-6, CFQ-8, CFQ-14 to CFQ-16, CFQ-66, CFQ-70 (the charge).

use crate::cfq::Cfq;
use crate::cfq::probe_points::{Decision, replace};
use paternoster_core::QueueView;
use paternoster_core::event::Note;
use paternoster_core::time::{Nanos, scale};

/// The level whose slice is the base.
pub(super) const MIDDLE_LEVEL: u8 = 4;

/// A queue's time slice so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slice {
    /// None of its requests has ended yet.
    pub(super) is_new: bool,
    /// When the clock started.
    pub(super) start: Option<Nanos>,
    pub(super) end: Nanos,
    pub(super) allocated: Nanos,
    /// In nanoseconds: what was left of the last slice; negative if it overran.
    pub(super) residual: i64,
    /// Requests dispatched in it.
    pub(super) dispatched: u32,
    /// When the queue was activated.
    pub(super) dispatch_start: Nanos,
    /// Sectors that ended since the clock started.
    pub(super) sectors: u64,
    /// Its oldest request was checked for expiry.
    pub(super) fifo_looked: bool,
}

/// `time` as a signed number, for differences.
pub(super) fn signed(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// The shortest time that a kernel measures: a tick, or 1 ms where time is exact.
pub(super) fn jiffy(view: &QueueView) -> Nanos {
    if view.hz().get() == 0 { Nanos::from_millis(1) } else { view.hz().tick() }
}

impl Slice {
    /// A slice that begins now and keeps what was left of the last one.
    pub(super) const fn begun(self, now: Nanos) -> Slice {
        Slice {
            is_new: true,
            start: None,
            end: Nanos::ZERO,
            allocated: Nanos::ZERO,
            residual: self.residual,
            dispatched: 0,
            dispatch_start: now,
            sectors: 0,
            fifo_looked: false,
        }
    }

    pub(super) fn is_used(&self, now: Nanos) -> bool {
        !self.is_new && now >= self.end
    }

    /// What is left of it, in nanoseconds; negative if it overran.
    pub(super) fn left(&self, now: Nanos) -> i64 {
        signed(self.end).saturating_sub(signed(now))
    }

    /// The time to charge: since the first completion, at most what was allocated; if there was no
    /// completion, since the activation, and at least a jiffy. A clock that counts `ticks` cannot
    /// tell a completion in the current tick from none.
    pub(super) fn used(&self, now: Nanos, jiffy: Nanos, ticks: bool) -> Nanos {
        match self.start {
            Some(start) if start != now || !ticks => (now - start).min(self.allocated),
            _ => (now - self.dispatch_start).max(jiffy),
        }
    }
}

impl Cfq {
    /// The slice that a queue gets now (CFQ-14 to CFQ-16). Updates the average of busy queues.
    pub(super) fn scaled_slice(&mut self, view: &QueueView, queue: u32) -> Nanos {
        let length = self.compute_slice(view, queue);
        replace(Decision::SliceLength { queue }, length)
    }

    fn compute_slice(&mut self, view: &QueueView, queue: u32) -> Nanos {
        let tick = view.hz().tick().0;
        let home = self.queues.at(queue);
        let (sync, level, group) = (home.is_sync, home.priority.level, home.group);
        let is_realtime = home.is_realtime();
        let slice = self.tunables.level_slice(view, sync, level).0 / tick;
        if !self.tunables.low_latency {
            return Nanos(slice * tick);
        }
        let busy = u64::from(self.groups.average_busy(group, is_realtime));
        let base = (self.tunables.slice[1].0 / tick).max(1);
        let expected = base.saturating_mul(busy);
        let share =
            self.groups.slice(group, self.tunables.target_latency, view.hz().tick()).0 / tick;
        if expected <= share {
            return Nanos(slice * tick);
        }
        let idle = self.tunables.slice_idle_in(view).0 / tick;
        let least = slice.min(scale(slice, 2 * idle, base));
        Nanos(scale(slice, share, expected).max(least) * tick)
    }

    /// The first request of the active queue has ended: the clock starts.
    pub(super) fn start_slice(&mut self, view: &mut QueueView, queue: u32) {
        let length = self.scaled_slice(view, queue);
        let now = view.now();
        let home = self.queues.at_mut(queue);
        let slice = &mut home.slice;
        (slice.is_new, slice.start) = (false, Some(now));
        (slice.allocated, slice.end) = (length, now + length);
        if let Some(client) = home.client {
            view.note(Note::SliceBegins { client, slice: length });
        }
    }

    /// The turn of the active queue ends. `timed_out` keeps the account of what was left of it.
    pub(super) fn expire(&mut self, view: &mut QueueView, timed_out: bool) {
        let Some(queue) = self.active else { return };
        let timed_out = replace(Decision::TimedOut { queue }, timed_out);
        self.stop_idling(view, queue);
        self.queues.at_mut(queue).wait_busy = false;
        self.judge_sharing(view, queue);
        if timed_out {
            self.keep_residual(view, queue);
        }
        let now = view.now();
        let ticks = view.hz().get() != 0;
        let served = self.queues.at(queue).slice.used(now, jiffy(view), ticks);
        let served = replace(Decision::Used { queue }, served);
        self.charge_group_of(view, queue, served);
        if let Some(client) = self.queues.at(queue).client {
            view.note(Note::SliceEnds { client, served });
        }
        if self.queues.at(queue).is_empty() {
            self.make_idle(queue);
        } else {
            self.resort(view, queue);
        }
        self.active = None;
        self.active_client = None;
    }

    fn keep_residual(&mut self, view: &QueueView, queue: u32) {
        let slice = self.queues.at(queue).slice;
        let residual = if !slice.is_new {
            slice.left(view.now())
        } else if self.version.keeps_unstarted_slice {
            signed(self.scaled_slice(view, queue))
        } else {
            return;
        };
        let residual = replace(Decision::Residual { queue }, residual);
        self.queues.at_mut(queue).slice.residual = residual;
    }

    /// Whether a queue may use up its slice before its requests in flight have been served: a rough
    /// guess, a `slice_idle` for each.
    pub(super) fn is_slice_used_soon(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let each = self.tunables.slice_idle_in(view).0;
        let served = Nanos(each.saturating_mul(home.dispatched.into()));
        home.slice.is_new || view.now() + served > home.slice.end
    }
}

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
//! How long it is says `length.rs`.
//!
//! # Invariants
//! I1  A slice whose clock has not started is not used up.
//!
//! Source: CFQ-8, CFQ-14, CFQ-70 (the charge).

use paternoster_core::QueueView;
use paternoster_core::time::Nanos;

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

    /// The clock starts: the first of its requests has ended.
    pub(super) fn start(&mut self, now: Nanos, length: Nanos) {
        self.is_new = false;
        self.start = Some(now);
        (self.allocated, self.end) = (length, now + length);
    }

    pub(super) fn is_used(&self, now: Nanos) -> bool {
        !self.is_new && now >= self.end
    }

    /// What is left of the slice, in nanoseconds; negative if it overran.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Is a slice not used up before its clock starts, and does the next one keep what was left?
    #[test]
    fn the_clock_starts_at_the_first_completion() {
        let mut slice = Slice { residual: 7, ..Slice::default() }.begun(MS(10));
        assert!(!slice.is_used(MS(5000)));
        slice.start(MS(20), MS(100));
        assert_eq!([119, 120].map(|at| slice.is_used(MS(at))), [false, true]);
        assert_eq!([119, 121].map(|at| slice.left(MS(at))), [1_000_000, -1_000_000]);
        assert_eq!(slice.begun(MS(200)).residual, 7);
    }

    /// Is a slice charged from its first completion, at most what was allocated; without one from
    /// its activation, at least a jiffy, and so where ticks cannot tell?
    #[test]
    fn cfq_70_what_a_slice_has_used() {
        let mut slice = Slice::default().begun(MS(10));
        let used = |slice: &Slice, at, ticks| slice.used(MS(at), MS(1), ticks);
        assert_eq!([10, 25].map(|at| used(&slice, at, true)), [MS(1), MS(15)]);
        slice.start(MS(20), MS(100));
        assert_eq!([50, 200].map(|at| used(&slice, at, true)), [MS(30), MS(100)]);
        assert_eq!([true, false].map(|ticks| used(&slice, 20, ticks)), [MS(10), MS(0)]);
    }
}

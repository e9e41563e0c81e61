// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs: when Linux asks BFQ for a request.
//!
//! The Linux block layer does not ask a scheduler after every completion. It asks when a request
//! arrives, when the scheduler wants it, and again after it had to stop because the device was
//! full; and if that gave no request although some wait, once more 3 ms later:
//!
//! ```text
//! P in service, empty, idled for; others wait      a request of P ends ── 40 us ── the next comes
//! asked at completions                             others go in between: they are injected
//! asked as in Linux                                no other goes, except in a run that the timer
//!                                                   causes just then: one in fifty
//! ```
//!
//! So whether injection begins at all depends on a timer: five weighted readers on parallel flash
//! are served one at a time for half a second, and side by side for another, in the recorded
//! decisions as here. With `completion_runs=1` they are side by side at once.
//!
//! # Invariants
//! I1  While a request waits and BFQ is not asked for it, the device is busy or the timer is set.
//!
//! Source: the recorded decisions of Linux 6.18 (`ssd_5groups_rand_ll0`: calls by a `kworker` 3 ms
//! behind one that chose none); BFQ-46, BFQ-48, BFQ-190.

use crate::bfq::Bfq;
use paternoster_core::QueueView;
use paternoster_core::time::{Hz, Nanos};

/// Time from a run without a result until the next.
const AGAIN: Nanos = Nanos::from_millis(3);

/// Whether BFQ is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runs {
    /// The next call for a request counts.
    pub(super) is_due: bool,
    /// There will be a run at this time.
    pub(super) again: Option<Nanos>,
}

impl Bfq {
    /// Something happened after which the block layer asks for a request.
    pub(super) const fn ask(&mut self) {
        self.runs.is_due = true;
    }

    /// Whether a call for a request counts: if not, nothing is chosen, and nothing expires.
    pub(super) const fn is_asked(&self, view: &QueueView) -> bool {
        self.runs.is_due
            || self.tunables.completion_runs
            || (self.in_driver == 0 && view.timer().0 == Nanos::MAX.0)
    }

    /// A call gave no request.
    pub(super) fn asked_in_vain(&mut self, view: &mut QueueView) {
        self.runs.is_due = false;
        // With an empty device nothing changes except through events that cause a run anyway.
        let may_change = self.waiting > 0 && self.in_driver > 0;
        if may_change && self.runs.again.is_none() && !self.tunables.completion_runs {
            let hz = view.hz();
            let now = if hz == Hz::EXACT { view.exact_now() } else { view.now() };
            self.runs.again = Some(now + hz.ceil(AGAIN));
            self.set_timer(view);
        }
    }

    /// Sets the timer for the idle queue, or for a run, whichever is first.
    pub(super) fn set_timer(&self, view: &mut QueueView) {
        let idle = self.idle_until.unwrap_or(Nanos::MAX);
        let again = self.runs.again.unwrap_or(Nanos::MAX);
        match idle.min(again) {
            Nanos::MAX => view.cancel_timer(),
            at => view.set_precise_timer(at),
        }
    }

    /// The timer rings.
    pub(super) fn timer_rings(&mut self, view: &mut QueueView) {
        let now = view.exact_now();
        if self.runs.again.is_some_and(|at| at <= now) {
            self.runs = Runs { is_due: true, again: None };
        }
        if self.idle_until.is_some_and(|at| at <= now) {
            self.idle_until = None;
            self.ask();
            self.idle_timer_rings(view);
        }
        self.set_timer(view);
    }
}

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
//! I2  The timer is set to the earlier of two times: the end of idling, and the next run.
//!
//! Source: the recorded decisions of Linux 6.18 (`ssd_5groups_rand_ll0`: calls by a `kworker` 3 ms
//! after one that chose none); BFQ-46, BFQ-48, BFQ-190.

use alloc::format;

use paternoster_core::QueueView;
use paternoster_core::elevator::Fault;
use paternoster_core::time::{Hz, Nanos};

/// Time from a run without a result until the next.
const AGAIN: Nanos = Nanos::from_millis(3);

/// Whether BFQ is asked, and when it wants to be.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runs {
    /// The next call for a request counts.
    is_due: bool,
    /// There will be a run at this time.
    again: Option<Nanos>,
    /// Until when the device idles.
    idle_until: Option<Nanos>,
}

impl Runs {
    /// Something happened after which the block layer asks for a request.
    #[inline]
    pub(super) const fn ask(&mut self) {
        self.is_due = true;
    }

    /// Whether a call for a request counts: if not, nothing is chosen, and nothing expires.
    /// `always`: each does.
    #[inline]
    pub(super) const fn is_asked(&self, view: &QueueView, always: bool, in_driver: u32) -> bool {
        self.is_due || always || (in_driver == 0 && view.timer().0 == Nanos::MAX.0)
    }

    /// A call gave no request. `may_change`: a request may wait for nothing but time.
    #[inline]
    pub(super) fn asked_in_vain(&mut self, view: &mut QueueView, may_change: bool) {
        self.is_due = false;
        if may_change && self.again.is_none() {
            let hz = view.hz();
            let now = if hz == Hz::EXACT { view.exact_now() } else { view.now() };
            self.again = Some(now + hz.ceil(AGAIN));
            self.set_timer(view);
        }
    }

    /// The device idles until then.
    #[inline]
    pub(super) fn idle(&mut self, view: &mut QueueView, until: Nanos) {
        self.idle_until = Some(until);
        self.set_timer(view);
    }

    /// The device idles no longer.
    #[inline]
    pub(super) fn stop_idling(&mut self, view: &mut QueueView) {
        self.idle_until = None;
        self.set_timer(view);
    }

    /// Sets the timer for the idle queue, or for a run, whichever is first.
    #[inline]
    pub(super) fn set_timer(&self, view: &mut QueueView) {
        match self.next() {
            Nanos::MAX => view.cancel_timer(),
            at => view.set_precise_timer(at),
        }
    }

    fn next(&self) -> Nanos {
        let [idle, again] = [self.idle_until, self.again].map(|at| at.unwrap_or(Nanos::MAX));
        idle.min(again)
    }

    /// The timer rings. Returns whether the device has idled long enough.
    pub(super) fn ring(&mut self, now: Nanos) -> bool {
        if self.again.is_some_and(|at| at <= now) {
            self.is_due = true;
            self.again = None;
        }
        let over = self.idle_until.is_some_and(|at| at <= now);
        if over {
            self.idle_until = None;
            self.ask();
        }
        over
    }

    /// Verifies the timer, and that the device idles exactly if a queue `waits` for it.
    pub(super) fn audit(&self, view: &QueueView, waits: bool) -> Result<(), Fault> {
        if waits != self.idle_until.is_some() {
            return Err(format!("bfq idling I1: waits: {waits}, until {:?}", self.idle_until));
        }
        if view.timer() != self.next() {
            return Err(format!("bfq I3: {self:?}, the timer is set to {}", view.timer()));
        }
        Ok(())
    }

    /// Whether the next call counts, and when there will be a run.
    #[cfg(test)]
    pub(super) const fn seen(&self) -> (bool, Option<Nanos>) {
        (self.is_due, self.again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    /// Is the timer set for idling or for a run, whichever is first, and does only the end of
    /// idling say so when it rings?
    #[test]
    fn one_timer_for_two_times() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let mut runs = Runs::default();
        runs.idle(&mut view, Nanos::from_millis(8));
        runs.asked_in_vain(&mut view, true);
        assert_eq!(view.timer(), Nanos::from_millis(3), "the run is first");
        runs.audit(&view, true).unwrap();
        assert!(!runs.ring(Nanos::from_millis(3)));
        assert!(runs.is_asked(&view, false, 1), "the run counts");
        runs.set_timer(&mut view);
        assert_eq!(view.timer(), Nanos::from_millis(8));
        assert!(runs.ring(Nanos::from_millis(8)));
        runs.set_timer(&mut view);
        assert_eq!(view.timer(), Nanos::MAX);
        runs.audit(&view, false).unwrap();
    }

    /// Does an empty device without a timer ask, and a busy one only after an event?
    #[test]
    fn an_empty_device_asks() {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let mut runs = Runs::default();
        assert_eq!([0, 1].map(|many| runs.is_asked(&view, false, many)), [true, false]);
        assert!(runs.is_asked(&view, true, 1), "completion_runs");
        runs.ask();
        assert!(runs.is_asked(&view, false, 1));
    }
}

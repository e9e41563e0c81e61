// SPDX-License-Identifier: MIT OR Apache-2.0
//! Select: which request goes next, and what follows from its end.
//!
//! The queue in service goes on until its time is over, its next request no longer fits its budget,
//! or it is empty and need not be waited for. Then it is the next queue's turn:
//!
//! ```text
//! in service? ──no──────────────────────────────▶ begin a turn ─▶ serve
//!  │ time over ─ expire ─▶ begin a turn               ▲
//!  │ next does not fit ─ expire ──────────────────────┤
//!  │ empty, waited for ─▶ inject, or nothing          │
//!  └ empty ─ expire ──────────────────────────────────┘
//! ```
//!
//! Source: BFQ-44 to BFQ-48, BFQ-26, BFQ-61, BFQ-93, BFQ-155.

use crate::bfq::Bfq;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::weight_raising::Kind;
use paternoster_core::event::Expiry;
use paternoster_core::pick::home::home;
use paternoster_core::{QueueView, RequestId};

impl Bfq {
    /// The queue whose next request goes now.
    pub(super) fn select(&mut self, view: &mut QueueView) -> Option<u32> {
        let mut queue = match self.in_service {
            Some(served) => {
                probe(Some(served), ProbePoint::GoesOn);
                let over = self.may_end_by_time(view, served);
                if over && !self.must_idle(view, served) {
                    self.expire(view, served, false, Expiry::BudgetTimeout);
                    self.begin_turn(view)?
                } else {
                    served
                }
            }
            None => self.begin_turn(view)?,
        };
        loop {
            let home = self.queues.at(queue);
            let why = if home.next.is_some() {
                if self.fits(view, queue) {
                    if self.queues.at(queue).wait_request {
                        self.stop_idling(view, queue);
                    }
                    return Some(queue);
                }
                Expiry::BudgetExhausted
            } else if home.wait_request || (home.in_flight > 0 && self.better_to_idle(view, queue))
            {
                return self.queue_to_inject(view, queue);
            } else {
                Expiry::NoMoreRequests
            };
            self.expire(view, queue, false, why);
            queue = self.begin_turn(view)?;
        }
    }

    /// The next request of `queue` goes to the device.
    pub(super) fn dispatch(&mut self, view: &mut QueueView, queue: u32) -> Option<RequestId> {
        let request = self.queues.at(queue).next?;
        probe(Some(queue), ProbePoint::Returned);
        let charge = self.charge_of(view, queue, request);
        self.charge_service(view, queue, charge);
        let is_served = self.in_service == Some(queue);
        if is_served {
            self.measure_dispatch(request);
        } else if let Some(served) = self.in_service {
            self.queues.at_mut(served).injected += charge;
        }
        self.learn_rate(view, queue, request);
        self.count_in_flight(view, queue, request, true);
        self.take_request(view, queue, request);
        if is_served {
            self.check_raising(view, queue);
            if self.busy() > 1 && self.is_idle_class(queue) {
                // The idle class gets one request per turn.
                self.expire(view, queue, false, Expiry::BudgetExhausted);
            }
        }
        Some(request)
    }

    /// A queue is served: what it is charged, and what it really got (BFQ-1, BFQ-119).
    fn charge_service(&mut self, view: &QueueView, queue: u32, charge: u64) {
        let home = self.queues.at_mut(queue);
        if home.backlog_service == 0 {
            home.first_service = view.now();
        }
        home.backlog_service += charge;
        if home.raising.is_raised() {
            home.raising.service += charge;
        }
        probe(Some(queue), ProbePoint::Served { sectors: charge });
        self.schedule.serve(queue, charge);
    }

    /// A request has ended.
    pub(super) fn end_request(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        let (now, tick) = (view.exact_now(), view.now());
        self.measure_completion(view, queue, request);
        self.probe_depth();
        self.count_in_flight(view, queue, request, false);
        let home = self.queues.at_mut(queue);
        if home.is_at_rest() {
            home.stamp = Some(tick);
            self.come_to_rest(queue);
        }
        let home = self.queues.at_mut(queue);
        home.last_completion = Some(now);
        if self.rate.completed(now) {
            self.follow_rate(view);
        }
        self.last_completed = (!self.queues.at(queue).is_shared).then_some(queue);
        self.settle_soft_realtime(view, queue);
        let kept = self.in_service == Some(queue) && self.served_ended_one(view, queue);
        if !kept && self.in_driver == 0 {
            self.ask();
        }
    }

    fn settle_soft_realtime(&mut self, view: &QueueView, queue: u32) {
        let raising = self.queues.at(queue).raising;
        let interactive = raising.kind == Kind::Interactive;
        let waits = self.version.raises_default_weight_only && interactive;
        if raising.is_unsettled && self.queues.at(queue).in_flight == 0 && !waits {
            let next = self.soft_realtime_next(view, queue);
            self.queues.at_mut(queue).raising.soft_realtime_next = next;
        }
    }

    /// A request of the queue in service has ended (BFQ-46). Returns whether the device is kept for
    /// it.
    fn served_ended_one(&mut self, view: &mut QueueView, queue: u32) -> bool {
        let in_flight = self.queues.at(queue).in_flight;
        if self.must_idle(view, queue) {
            if in_flight == 0 {
                self.arm_idle_timer(view, queue);
            }
            return true;
        }
        if self.may_end_by_time(view, queue) {
            self.expire(view, queue, false, Expiry::BudgetTimeout);
        } else if self.queues.at(queue).is_empty()
            && (in_flight == 0 || !self.better_to_idle(view, queue))
        {
            self.expire(view, queue, false, Expiry::NoMoreRequests);
        }
        false
    }

    /// The request that the device was kept for has not come in time (BFQ-48).
    pub(super) fn idle_timer_rings(&mut self, view: &mut QueueView) {
        let Some(queue) = self.in_service else { return };
        self.queues.at_mut(queue).wait_request = false;
        if self.is_time_over(view, queue) {
            self.expire(view, queue, true, Expiry::BudgetTimeout);
        } else if self.queues.at(queue).is_empty() {
            self.expire(view, queue, true, Expiry::TooIdle);
        }
    }
}

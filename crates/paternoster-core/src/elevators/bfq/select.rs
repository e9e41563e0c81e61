// SPDX-License-Identifier: MIT OR Apache-2.0
//! Select: which request goes next, and what follows from its end.
//!
//! The queue in service goes on until its time is over, its next request does not fit its budget
//! any more, or it is empty and need not be waited for. Then it is the turn of the next:
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

use crate::elevators::bfq::Bfq;
use crate::elevators::bfq::raise::Kind;
use crate::elevators::bfq::recall::{Said, say};
use crate::event::Expiry;
use crate::pick::home::home;
use crate::request::RequestId;
use crate::scene::Scene;

impl Bfq {
    /// The queue whose next request goes now.
    pub(super) fn select(&mut self, scene: &mut Scene) -> Option<u32> {
        let mut queue = match self.in_service {
            Some(served) => {
                say(Some(served), Said::GoesOn);
                let over = self.may_end_by_time(scene, served);
                if over && !self.must_idle(scene, served) {
                    self.expire(scene, served, false, Expiry::BudgetTimeout);
                    self.begin_turn(scene)?
                } else {
                    served
                }
            }
            None => self.begin_turn(scene)?,
        };
        loop {
            let home = self.queues.at(queue);
            let why = if home.next.is_some() {
                if self.fits(scene, queue) {
                    if self.queues.at(queue).wait_request {
                        self.stop_idling(scene, queue);
                    }
                    return Some(queue);
                }
                Expiry::BudgetExhausted
            } else if home.wait_request || (home.in_flight > 0 && self.better_to_idle(scene, queue))
            {
                return self.queue_to_inject(scene, queue);
            } else {
                Expiry::NoMoreRequests
            };
            self.expire(scene, queue, false, why);
            queue = self.begin_turn(scene)?;
        }
    }

    /// The next request of `queue` goes to the device.
    pub(super) fn dispatch(&mut self, scene: &mut Scene, queue: u32) -> Option<RequestId> {
        let request = self.queues.at(queue).next?;
        say(Some(queue), Said::Returned);
        let charge = self.charge_of(scene, queue, request);
        self.charge_service(scene, queue, charge);
        let is_served = self.in_service == Some(queue);
        if is_served {
            self.measure_dispatch(request);
        } else if let Some(served) = self.in_service {
            self.queues.at_mut(served).injected += charge;
        }
        self.learn_rate(scene, queue, request);
        self.count_in_flight(scene, queue, request, true);
        self.take_request(scene, queue, request);
        if is_served {
            self.check_raising(scene, queue);
            if self.busy() > 1 && self.is_idle_class(queue) {
                // One request for each turn of the idle class.
                self.expire(scene, queue, false, Expiry::BudgetExhausted);
            }
        }
        Some(request)
    }

    /// A queue is served: what it is charged, and what it really got (BFQ-1, BFQ-119).
    fn charge_service(&mut self, scene: &Scene, queue: u32, charge: u64) {
        let home = self.queues.at_mut(queue);
        if home.backlog_service == 0 {
            home.first_service = scene.now();
        }
        home.backlog_service += charge;
        if home.raising.is_raised() {
            home.raising.service += charge;
        }
        say(Some(queue), Said::Served { sectors: charge });
        self.schedule.serve(queue, charge);
    }

    /// A request has ended.
    pub(super) fn end_request(&mut self, scene: &mut Scene, request: RequestId) {
        let queue = home(scene, request);
        let (now, tick) = (scene.exact_now(), scene.now());
        self.measure_completion(scene, queue, request);
        self.probe_depth();
        self.count_in_flight(scene, queue, request, false);
        let home = self.queues.at_mut(queue);
        if home.is_at_rest() {
            home.stamp = Some(tick);
            self.come_to_rest(queue);
        }
        let home = self.queues.at_mut(queue);
        home.last_completion = Some(now);
        if self.rate.completed(now) {
            self.follow_rate(scene);
        }
        self.last_completed = (!self.queues.at(queue).is_shared).then_some(queue);
        self.settle_soft_realtime(scene, queue);
        let kept = self.in_service == Some(queue) && self.served_ended_one(scene, queue);
        if !kept && self.in_driver == 0 {
            self.ask();
        }
    }

    fn settle_soft_realtime(&mut self, scene: &Scene, queue: u32) {
        let raising = self.queues.at(queue).raising;
        let interactive = raising.kind == Kind::Interactive;
        let waits = self.version.raises_default_weight_only && interactive;
        if raising.is_unsettled && self.queues.at(queue).in_flight == 0 && !waits {
            let next = self.soft_realtime_next(scene, queue);
            self.queues.at_mut(queue).raising.soft_realtime_next = next;
        }
    }

    /// A request of the queue in service has ended (BFQ-46). Whether the device is kept for it.
    fn served_ended_one(&mut self, scene: &mut Scene, queue: u32) -> bool {
        let in_flight = self.queues.at(queue).in_flight;
        if self.must_idle(scene, queue) {
            if in_flight == 0 {
                self.arm_idle_timer(scene, queue);
            }
            return true;
        }
        if self.may_end_by_time(scene, queue) {
            self.expire(scene, queue, false, Expiry::BudgetTimeout);
        } else if self.queues.at(queue).is_empty()
            && (in_flight == 0 || !self.better_to_idle(scene, queue))
        {
            self.expire(scene, queue, false, Expiry::NoMoreRequests);
        }
        false
    }

    /// The request for which the device was kept has not come in time (BFQ-48).
    pub(super) fn idle_timer_rings(&mut self, scene: &mut Scene) {
        let Some(queue) = self.in_service else { return };
        self.queues.at_mut(queue).wait_request = false;
        if self.is_time_over(scene, queue) {
            self.expire(scene, queue, true, Expiry::BudgetTimeout);
        } else if self.queues.at(queue).is_empty() {
            self.expire(scene, queue, true, Expiry::TooIdle);
        }
    }
}

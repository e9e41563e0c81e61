// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turn: a queue has the device until its budget, its time or its work is used up.
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
//! This is wiring: whether to idle, what a turn costs and what the next may have is asked of the
//! parts (`idling`, `charge`, `budgets`), and what follows is done here.
//!
//! # Invariants
//! I1  The next request of a queue with work fits its budget when its turn begins. If it does not
//!     (it was raised, or its request has grown), the turn ends at once, and the next budget fits.
//! I2  The budget of the queue in service does not change during its turn, except for charged time.
//!
//! Source: BFQ-26, BFQ-41 to BFQ-48, BFQ-56 to BFQ-67, BFQ-93, BFQ-155, BFQ-160.

use crate::bfq::Bfq;
use crate::bfq::arrival;
use crate::bfq::charge;
use crate::bfq::entity::Entity;
use crate::bfq::idling;
use crate::bfq::inject;
use crate::bfq::probe_points::{ProbePoint, Reading, clock, probe};
use crate::bfq::tunables::Inject;
use crate::bfq::weight_raising::{Kind, Raising};
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::event::{Expiry, Note};
use paternoster_core::pick::home::home;
use paternoster_core::time::Nanos;

/// What goes next, and what follows from a request's end.
impl Bfq {
    /// The queue whose next request goes now.
    pub(super) fn select(&mut self, view: &mut QueueView) -> Option<u32> {
        let mut queue = match self.service.queue() {
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
                if self.schedule.fits(view, queue, home) {
                    if home.wait_request {
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
        let home = self.queues.at_mut(queue);
        let request = home.next?;
        probe(Some(queue), ProbePoint::Returned);
        let charge = self.schedule.charge_of(view, queue, home, request);
        home.count_service(charge, view.now());
        probe(Some(queue), ProbePoint::Served { sectors: charge });
        self.schedule.serve(queue, charge);
        let is_served = self.service.is(queue);
        if is_served {
            self.injection.dispatched(request);
        } else if self.service.queue().is_some() {
            self.injection.injected(charge);
        }
        if self.device.dispatched(view, request) {
            self.follow_rate(view);
        }
        self.service.sent(queue, self.device.last_position());
        self.count_in_flight(view, queue, request, true);
        self.take_request(view, queue, request);
        if is_served {
            self.check_raising(view, queue);
            if self.schedule.symmetry.busy() > 1 && self.schedule.is_idle_class(queue) {
                // The idle class gets one request per turn.
                self.expire(view, queue, false, Expiry::BudgetExhausted);
            }
        }
        Some(request)
    }

    /// Dispatches a request that goes before all others; its queue may have nothing else.
    pub(super) fn dispatch_bypassing(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        let home = self.queues.at(queue);
        if home.is_at_rest() {
            self.schedule.leave_rest(queue, home.raising.is_raised());
        }
        self.count_in_flight(view, queue, request, true);
    }

    /// A request has ended.
    pub(super) fn end_request(&mut self, view: &mut QueueView, request: RequestId) {
        let queue = home(view, request);
        let (now, tick) = (view.exact_now(), view.now());
        let (in_driver, most_seen) = (self.device.in_driver(), self.device.most_seen());
        self.injection.completed(view, queue, request, in_driver, most_seen);
        let served = self.service.queue().filter(|_| self.version.probes_not_when_starved);
        self.device.probe_depth(self.queues.waiting(), self.queues.of_starved(served));
        self.count_in_flight(view, queue, request, false);
        let home = self.queues.at_mut(queue);
        if home.is_at_rest() {
            home.stamp = Some(tick);
            self.schedule.come_to_rest(queue);
        }
        home.pattern.last_completion = Some(now);
        self.wakers.completed((!home.is_shared).then_some(queue));
        if self.device.completed(now) {
            self.follow_rate(view);
        }
        let waits = self.version.raises_default_weight_only;
        let (home, slice_idle) = (self.queues.at_mut(queue), self.tunables.slice_idle);
        arrival::settle_soft_realtime(view, home, waits, slice_idle);
        let kept = self.service.is(queue) && self.served_ended_one(view, queue);
        if !kept && self.device.in_driver() == 0 {
            self.runs.ask();
        }
    }

    /// A request of the queue in service has ended (BFQ-46). Returns whether the device is kept for
    /// it.
    fn served_ended_one(&mut self, view: &mut QueueView, queue: u32) -> bool {
        let in_flight = self.queues.at(queue).in_flight;
        if self.must_idle(view, queue) {
            if in_flight == 0 {
                self.begin_idling(view, queue);
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
        let Some(queue) = self.service.queue() else { return };
        let home = self.queues.at_mut(queue);
        home.wait_request = false;
        if home.is_time_over(view.now()) {
            self.expire(view, queue, true, Expiry::BudgetTimeout);
        } else if home.is_empty() {
            self.expire(view, queue, true, Expiry::TooIdle);
        }
    }

    /// A request of `queue` goes in flight, or ends.
    #[inline]
    pub(super) fn count_in_flight(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        request: RequestId,
        flies: bool,
    ) {
        let by = self.device.count(view, request, flies);
        let home = self.queues.at_mut(queue);
        home.in_flight = home.in_flight.wrapping_add_signed(by);
    }

    /// The largest budget follows the estimate, unless it was set by hand.
    pub(super) fn follow_rate(&mut self, view: &QueueView) {
        if self.tunables.max_budget == 0 {
            self.budgets.follow(self.device.rate(), self.tunables.timeout(view.hz()));
        }
    }

    /// Another request of `queue` comes first (BFQ-49): a queue that is not in service asks for a
    /// budget that fits it.
    #[inline]
    pub(super) fn next_changed(&mut self, view: &QueueView, queue: u32) {
        if !self.service.is(queue) {
            self.schedule.next_changed(view, queue, self.queues.at_mut(queue));
        }
    }

    /// `request`, waiting in `queue`, may now come before the one that was next. Returns whether it
    /// does.
    #[inline]
    pub(super) fn reconsider_next(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
    ) -> bool {
        let (order, position) = (self.tunables.back_seek(), self.device.last_position());
        let is_other = self.queues.reconsider_next(view, queue, request, &order, position);
        if is_other {
            self.update_position(view, queue);
        }
        is_other
    }

    /// A request stops waiting in `queue`.
    pub(super) fn take_request(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        if self.queues.at(queue).next == Some(request) {
            let order = self.tunables.back_seek();
            let next = self.queues.following(view, queue, request, &order);
            self.queues.at_mut(queue).next = next;
            self.next_changed(view, queue);
        }
        let home = self.queues.remove(queue, request);
        if !home.is_empty() {
            // Without this, other queues look for it where it no longer is (seed 004, patch 1).
            if self.tunables.position_update {
                self.update_position(view, queue);
            }
            return;
        }
        home.next = None;
        if home.is_busy && !self.service.is(queue) {
            self.schedule.leave_busy(queue, home, false, view.now());
            let entity = &mut self.schedule.entities[queue as usize];
            (entity.budget, entity.service) = (0, 0);
        }
        self.cooperation.remove(queue);
    }
}

/// The device is kept for a queue, or lent to others meanwhile.
impl Bfq {
    /// Whether the device is kept for `queue` while it is empty (BFQ-68, BFQ-69).
    #[inline]
    pub(super) fn better_to_idle(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let orphaned = self.version.keeps_empty_preempted && home.processes() == 0;
        if orphaned {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.tunables.slice_idle == Nanos::ZERO
            || !home.is_sync
            || self.schedule.is_idle_class(queue)
        {
            return false;
        }
        self.idles_for_throughput(view, queue) || self.idles_for_guarantees(queue)
    }

    /// BFQ-70.
    #[inline]
    pub(super) fn must_idle(&self, view: &QueueView, queue: u32) -> bool {
        self.queues.at(queue).is_empty() && self.better_to_idle(view, queue)
    }

    /// BFQ-71.
    #[inline]
    pub(super) fn idles_for_throughput(&self, view: &QueueView, queue: u32) -> bool {
        let (rotational, queues) = (view.facts().rotational, self.device.queues_commands(view));
        self.schedule.symmetry.raised() == 0
            && idling::for_throughput(&self.queues.at(queue).pattern, rotational, queues)
    }

    /// BFQ-72.
    #[inline]
    pub(super) fn idles_for_guarantees(&self, queue: u32) -> bool {
        let (symmetry, in_driver) = (&self.schedule.symmetry, self.device.in_driver());
        let home = self.queues.at(queue);
        idling::for_guarantees(self.version.guarantees, symmetry, queue, home, in_driver)
    }

    /// The device waits for the next request of the queue in service (BFQ-91).
    fn begin_idling(&mut self, view: &mut QueueView, queue: u32) {
        let now = view.exact_now();
        let home = self.queues.at_mut(queue);
        let is_asymmetric = || self.schedule.symmetry.is_asymmetric(queue);
        let until = now + idling::period(self.tunables.slice_idle, home, is_asymmetric);
        home.wait_request = true;
        self.service.idles(now);
        self.runs.idle(view, until);
        if let Some(client) = home.made_for {
            view.note(Note::Idling { client, until });
        }
    }

    /// The device stops waiting.
    pub(super) fn stop_idling(&mut self, view: &mut QueueView, queue: u32) {
        self.queues.at_mut(queue).wait_request = false;
        self.runs.stop_idling(view);
    }

    /// The queue to serve from while `served`, in service, is kept though empty (BFQ-150, BFQ-160,
    /// BFQ-161).
    fn queue_to_inject(&mut self, view: &mut QueueView, served: u32) -> Option<u32> {
        let Bfq { queues, schedule, wakers, device, injection, .. } = &*self;
        let source = match self.tunables.inject {
            Inject::Off => None,
            Inject::Coefficient if !device.is_queueing_flash(view) => None,
            Inject::Coefficient => injection.by_coefficient(view, queues, schedule, served),
            Inject::Measured => {
                let owner = queues.at(served).owner;
                let writes = owner.and_then(|owner| self.contexts.slot(owner, false));
                inject::related(view, queues, schedule, wakers, served, writes)
                    .or_else(|| self.queue_within_limit(view, served))
            }
        }?;
        let names = (self.queues.at(source).made_for, self.queues.at(served).made_for);
        if let (Some(client), Some(into)) = names {
            view.note(Note::Injected { client, into });
        }
        Some(source)
    }

    /// Another queue, with few enough requests in the device (BFQ-161).
    fn queue_within_limit(&mut self, view: &QueueView, served: u32) -> Option<u32> {
        let raised = self.schedule.symmetry.raised();
        if self.idles_for_throughput(view, served)
            || !inject::is_tolerant(self.queues.at(served), raised)
        {
            return None;
        }
        let idled_long = self.service.has_idled(view.exact_now(), self.tunables.slice_idle);
        let (queues, schedule, in_driver) = (&self.queues, &self.schedule, self.device.in_driver());
        self.injection.within_limit(view, queues, schedule, served, in_driver, idled_long)
    }
}

/// Turns begin and end.
impl Bfq {
    /// Gives the device to the queue whose turn it is (BFQ-41).
    pub(super) fn begin_turn(&mut self, view: &mut QueueView) -> Option<u32> {
        if self.schedule.symmetry.busy() == 0 {
            return None;
        }
        let (root, resets) = (view.root().index(), self.version.forgets_injected);
        #[cfg(feature = "conformance")]
        crate::bfq::probe::replace_turn(&mut self.schedule, root);
        let queue = self.schedule.serve_next(root, resets, view.now())?;
        self.budgets.turn_begins();
        let home = self.queues.at_mut(queue);
        home.fifo_looked = false;
        home.raising.forgive_waiting(view.now(), home.stamp);
        self.service.begins(queue, clock(Reading::Begin, view.exact_now()));
        let entity = &self.schedule.entities[queue as usize];
        let soft = home.raising.kind == Kind::SoftRealtime;
        let times = if soft { 1 } else { entity.weight / entity.orig_weight.max(1) };
        let timeout = self.tunables.timeout(view.hz()).0.saturating_mul(times.into());
        let (until, budget) = (view.now() + Nanos(timeout), entity.budget);
        probe(Some(queue), ProbePoint::Begins { budget });
        home.stamp = Some(until);
        if let Some(client) = home.made_for {
            view.note(Note::BudgetGranted { client, budget });
        }
        probe(Some(queue), ProbePoint::Looks);
        Some(queue)
    }

    /// Whether the time of the turn is over and may end it: not while the device idles for a queue
    /// that has used most of its budget and would soon use up the rest (BFQ-45).
    fn may_end_by_time(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let (waits, over) = (home.wait_request, home.is_time_over(view.now()));
        let third_left = self.schedule.entities[queue as usize].has_third_left();
        probe(Some(queue), ProbePoint::MayEnd { waits, third_left, over });
        over && (!waits || third_left)
    }

    /// The turn of the queue in service ends; `idled` says that the idle timer rang.
    pub(super) fn expire(&mut self, view: &mut QueueView, queue: u32, idled: bool, why: Expiry) {
        let home = self.queues.at_mut(queue);
        let largest = self.budgets.largest();
        let entity = &self.schedule.entities[queue as usize];
        let served = entity.service;
        let (slow, lasted) = if home.is_sync {
            let lasted = self.service.lasted(clock(Reading::End, view.exact_now()), idled);
            let (seeky, rotational) = (home.pattern.is_seeky(), view.facts().rotational);
            charge::is_slow(queue, lasted, seeky, rotational, served >= largest / 2)
        } else {
            (false, Nanos::ZERO)
        };
        let wasteful = why == Expiry::BudgetTimeout && entity.has_third_left();
        if !home.raising.is_raised() && (slow || wasteful) {
            let timeout = self.tunables.timeout(view.hz());
            self.schedule.charge_time(queue, largest, timeout, lasted);
        }
        if !self.version.measures_idleness && why == Expiry::TooIdle {
            let entity = &self.schedule.entities[queue as usize];
            home.pattern.idled_in_vain(entity.service, entity.budget);
        }
        if self.tunables.low_latency {
            arrival::expect_soft_realtime(view, home, self.tunables.slice_idle);
        }
        let (in_flight, short) = (home.in_flight, home.pattern.thinks_short);
        probe(Some(queue), ProbePoint::Expired { why, slow, in_flight, short });
        if let Some(client) = home.made_for {
            view.note(Note::Expired { client, served, why });
        }
        let by_hand = self.tunables.max_budget != 0;
        self.schedule.feed_back(view, queue, home, &self.budgets, why, by_hand);
        self.end_turn(view, queue, why);
        let home = self.queues.at_mut(queue);
        let used_up = matches!(why, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        if !home.is_busy && !used_up {
            home.left_early = true;
        } else {
            self.schedule.entities[queue as usize].service = 0;
        }
    }

    /// A queue with work is enqueued again, one without leaves; unless it was preempted while the
    /// device was kept for it, and its share depends on that (BFQ-61). If a process leaves, this is
    /// all: as in Linux, what was served stays on the account, and counts once more with the next
    /// turn.
    pub(super) fn end_turn(&mut self, view: &mut QueueView, queue: u32, why: Expiry) {
        let now = view.now();
        self.injection.turn_ends();
        let kept = self.version.keeps_empty_preempted
            && why == Expiry::Preempted
            && self.idles_for_guarantees(queue);
        let home = self.queues.at_mut(queue);
        home.is_to_split |= home.is_shared && home.pattern.is_seeky();
        let is_empty = home.is_empty();
        if is_empty && !kept {
            if home.in_flight == 0 {
                home.stamp = Some(now);
            }
            self.schedule.leave_busy(queue, home, true, now);
        } else {
            self.schedule.requeue_served(queue, now);
            self.schedule.recount_class(queue, home);
        }
        self.schedule.end_service(queue);
        if home.wait_request {
            self.stop_idling(view, queue);
        }
        self.service.ends();
        if !is_empty {
            self.update_position(view, queue);
        }
    }

    /// A request of the queue in service was dispatched: raising may be over (BFQ-103 to BFQ-105).
    fn check_raising(&mut self, view: &mut QueueView, queue: u32) {
        let (now, forgets) = (view.now(), self.version.raises_default_weight_only);
        let home = self.queues.at_mut(queue);
        if home.raising.is_raised() {
            probe_raised(now, queue, &home.raising, &self.schedule.entities[queue as usize]);
            let duration = || self.device.raise_duration(view);
            let kind = home.raising.dispatched(now, home.in_large_burst, forgets, duration);
            if let Some(kind) = kind {
                self.schedule.set_raised(view, queue, home, kind);
            }
            if home.raising.is_used_up() {
                let kind = home.raising.end(now, forgets);
                self.schedule.set_raised(view, queue, home, kind);
            }
        }
        let entity = &self.schedule.entities[queue as usize];
        if (entity.weight > entity.orig_weight) != (entity.raise > 1) {
            // At once, so that this turn's times are computed with its weight.
            self.schedule.take_over_changes(queue, false);
        }
    }

    /// `low_latency` is switched off (BFQ-108).
    pub(super) fn end_all_raising(&mut self, view: &mut QueueView) {
        let forgets = self.version.raises_default_weight_only;
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) && self.queues.at(queue).raising.is_raised() {
                let home = self.queues.at_mut(queue);
                let kind = home.raising.end(view.now(), forgets);
                self.schedule.set_raised(view, queue, home, kind);
            }
        }
    }

    /// Updates all positions after a change of rules.
    pub(super) fn update_positions(&mut self, view: &QueueView) {
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) {
                self.update_position(view, queue);
            }
        }
    }
}

fn probe_raised(now: Nanos, queue: u32, raising: &Raising, entity: &Entity) {
    let Raising { kind, since, lasts, .. } = *raising;
    let Entity { weight, orig_weight: original, changed, .. } = *entity;
    let (elapsed, coefficient) = (now - since, kind.coefficient());
    probe(Some(queue), ProbePoint::Raised { elapsed, lasts, coefficient, weight, original });
    if changed {
        probe(Some(queue), ProbePoint::Pending);
    }
}

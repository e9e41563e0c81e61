// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turn: a queue has the device until its budget, its time or its work is used up.
//!
//! Why a turn ended says what the next should be like. A queue that used up its budget gets four
//! times as much, one that ran out of time twice as much, one that kept the device waiting less:
//!
//! ```text
//! budget 10922 of at most 16384, at least 512
//! exhausted 16384   too idle 14336, 12288 … 2048, 512   no more requests: what it was served
//! ```
//!
//! Budgets are sectors, but a seeky queue takes far more time for as many. A queue that was slow,
//! or ran out of time with a third of its budget left, is charged for its time: the largest budget
//! times its time divided by the timeout.
//!
//! ```text
//! 16384 sectors in 124 ms: a turn of 4 ms costs 528, however few sectors it moved
//! ```
//!
//! # Invariants
//! I1  The next request of a queue with work fits its budget when its turn begins. If it does not
//!     (it was raised, or its request has grown), the turn ends at once, and the next budget fits.
//! I2  The budget of the queue in service does not change during its turn, except for charged time.
//!
//! Differs: charged time is measured against the timeout as it is set; Linux takes the default
//! whatever is set (BFQ-65).
//!
//! Source: BFQ-41 to BFQ-46, BFQ-60, BFQ-61; BFQ-56 to BFQ-67.

use crate::bfq::Bfq;
use crate::bfq::probe_points::{
    Decision, ProbePoint, Reading, clock, probe, replace, replace_turn,
};
use crate::bfq::queue::Queue;
use crate::bfq::weight_raising::Kind;
use paternoster_core::QueueView;
use paternoster_core::event::{Expiry, Note};
use paternoster_core::time::{Nanos, scale};

/// The largest budget, until enough turns have been seen.
pub(super) const DEFAULT_MAX_BUDGET: u64 = 16 * 1024;
/// The smallest budget is this part of it.
const MIN_PARTS: u64 = 32;
/// Running mean of turns from which budgets follow the rate: eleven turns.
const ENOUGH_TURNS: u64 = 194;
/// Turns shorter than this are not measured, and do not show whether a queue is slow.
const MEASURABLE: Nanos = Nanos::from_millis(1);
const TELLING: Nanos = Nanos::from_millis(20);
/// How long a turn too short to be measured is taken to have lasted: rotational, or not.
const SHORT_TURN: [Nanos; 2] = [Nanos::from_millis(2), Nanos::from_millis(8)];
/// A queue that idled with less than this many tenths of its budget used is not I/O bound (4.19).
const BOUND_TENTHS: u64 = 2;

impl Bfq {
    /// The largest budget, as far as it can be trusted.
    pub(super) const fn usual_max_budget(&self) -> u64 {
        if self.turns < ENOUGH_TURNS { DEFAULT_MAX_BUDGET } else { self.max_budget }
    }

    pub(super) const fn min_budget(&self) -> u64 {
        self.usual_max_budget() / MIN_PARTS
    }

    /// Gives the device to the queue whose turn it is (BFQ-41).
    pub(super) fn begin_turn(&mut self, view: &mut QueueView) -> Option<u32> {
        if self.busy() == 0 {
            return None;
        }
        let (root, resets) = (view.root().index(), self.version.forgets_injected);
        replace_turn(&mut self.schedule, root);
        let queue = self.schedule.serve_next(root, resets, view.now())?;
        self.in_service = Some(queue);
        self.turns = (7 * self.turns + 256) / 8;
        self.queues.at_mut(queue).fifo_looked = false;
        self.forgive_waiting(view, queue);
        self.turn_began = clock(Reading::Begin, view.exact_now());
        self.in_service_position = 0;
        let entity = &self.schedule.entities[queue as usize];
        let soft = self.queues.at(queue).raising.kind == Kind::SoftRealtime;
        let times = if soft { 1 } else { entity.weight / entity.orig_weight.max(1) };
        let timeout = self.tunables.timeout(view.hz()).0.saturating_mul(times.into());
        let (until, budget) = (view.now() + Nanos(timeout), entity.budget);
        probe(Some(queue), ProbePoint::Begins { budget });
        let home = self.queues.at_mut(queue);
        home.stamp = Some(until);
        if let Some(client) = home.made_for {
            view.note(Note::BudgetGranted { client, budget });
        }
        probe(Some(queue), ProbePoint::Looks);
        Some(queue)
    }

    /// Whether the time of the turn is over.
    pub(super) fn is_time_over(&self, view: &QueueView, queue: u32) -> bool {
        self.queues.at(queue).stamp.is_some_and(|until| view.now() >= until)
    }

    /// Whether that may end it: not while the device idles for a queue that has used most of its
    /// budget and would soon use up the rest (BFQ-45).
    pub(super) fn may_end_by_time(&self, view: &QueueView, queue: u32) -> bool {
        let waits = self.queues.at(queue).wait_request;
        let (third_left, over) = (self.has_third_left(queue), self.is_time_over(view, queue));
        probe(Some(queue), ProbePoint::MayEnd { waits, third_left, over });
        over && (!waits || third_left)
    }

    fn has_third_left(&self, queue: u32) -> bool {
        let entity = &self.schedule.entities[queue as usize];
        entity.budget_left() >= entity.budget / 3
    }

    /// The turn of the queue in service ends; `idled` says that the idle timer rang.
    pub(super) fn expire(&mut self, view: &mut QueueView, queue: u32, idled: bool, why: Expiry) {
        let (slow, lasted) = self.is_slow(view, queue, idled);
        let served = self.schedule.entities[queue as usize].service;
        let raised = self.queues.at(queue).raising.is_raised();
        let wasteful = why == Expiry::BudgetTimeout && self.has_third_left(queue);
        if !raised && (slow || wasteful) {
            self.charge_time(view, queue, lasted);
        }
        self.judge_io_bound(queue, why);
        self.expect_soft_realtime(view, queue);
        let Queue { in_flight, thinks_short, .. } = *self.queues.at(queue);
        probe(Some(queue), ProbePoint::Expired { why, slow, in_flight, short: thinks_short });
        if let Some(client) = self.queues.at(queue).made_for {
            view.note(Note::Expired { client, served, why });
        }
        self.stop_measuring();
        self.feed_back(view, queue, why);
        self.end_turn_because(view, queue, why);
        let home = self.queues.at_mut(queue);
        let used_up = matches!(why, Expiry::BudgetTimeout | Expiry::BudgetExhausted);
        if !home.is_busy && !used_up {
            home.left_early = true;
        } else {
            self.schedule.entities[queue as usize].service = 0;
        }
    }

    /// Whether a turn was slow, and how long it lasted (BFQ-64).
    fn is_slow(&self, view: &QueueView, queue: u32, idled: bool) -> (bool, Nanos) {
        if !self.queues.at(queue).is_sync {
            return (false, Nanos::ZERO);
        }
        let end = clock(Reading::End, view.exact_now());
        let end = if idled { self.idling_since } else { end };
        let lasted = end - self.turn_began;
        let seeky = self.is_seeky(queue);
        if lasted < MEASURABLE {
            return (seeky, SHORT_TURN[usize::from(view.facts().rotational)]);
        }
        let served = self.schedule.entities[queue as usize].service;
        let slow = if lasted > TELLING { served < self.max_budget / 2 } else { seeky };
        probe(Some(queue), ProbePoint::Slow { slow });
        (slow, lasted)
    }

    /// Charges time instead of sectors (BFQ-65, BFQ-66). What was really served is left alone.
    fn charge_time(&mut self, view: &QueueView, queue: u32, lasted: Nanos) {
        let timeout = self.tunables.timeout(view.hz()).as_millis().max(1);
        let charge = scale(self.max_budget, lasted.as_millis().min(timeout), timeout);
        let entity = &mut self.schedule.entities[queue as usize];
        let charge = charge.max(entity.service);
        let more = charge - entity.service;
        probe(Some(queue), ProbePoint::Served { sectors: more });
        let more = replace(Decision::TimeCharge { lasted }, more);
        entity.budget = entity.budget.max(entity.service + more);
        self.schedule.serve(queue, more);
    }

    /// 4.19: the device idled for it without success, and it has done little (BFQ-88).
    fn judge_io_bound(&mut self, queue: u32, why: Expiry) {
        if self.version.measures_idleness || why != Expiry::TooIdle {
            return;
        }
        let entity = &self.schedule.entities[queue as usize];
        if entity.service.saturating_mul(10) <= entity.budget.saturating_mul(BOUND_TENTHS) {
            self.queues.at_mut(queue).is_io_bound = false;
        }
    }

    /// The earliest soft real-time arrival is known at the end of a backlog, or when the requests
    /// in flight have ended (BFQ-99).
    fn expect_soft_realtime(&mut self, view: &QueueView, queue: u32) {
        if !self.tunables.low_latency {
            return;
        }
        let next = self.soft_realtime_next(view, queue);
        let home = self.queues.at_mut(queue);
        if !home.raising.is_raised() {
            home.raising.since = view.now();
        }
        if !home.is_empty() {
            return;
        }
        if home.in_flight == 0 {
            home.raising.soft_realtime_next = next;
        } else {
            home.raising.is_unsettled = true;
        }
    }

    /// What the queue asks for in its next turns (BFQ-57 to BFQ-59).
    fn feed_back(&mut self, view: &QueueView, queue: u32, why: Expiry) {
        let (least, most) = (self.min_budget(), self.max_budget);
        let served = self.schedule.entities[queue as usize].service;
        let entity = &self.schedule.entities[queue as usize];
        let (budget, service) = (entity.budget, entity.service);
        probe(Some(queue), ProbePoint::Account { budget, service });
        let home = self.queues.at(queue);
        let before = home.max_budget;
        let last = if home.raising.is_raised() { 2 * least } else { before };
        probe(Some(queue), ProbePoint::Bounds { most: last, least });
        probe(Some(queue), ProbePoint::Nature { sync: home.is_sync, seeky: self.is_seeky(queue) });
        let mut budget = if home.raising.is_raised() {
            2 * least
        } else if !home.is_sync {
            most
        } else {
            match why {
                Expiry::TooIdle if home.in_flight > 0 => before.saturating_mul(2).min(most),
                Expiry::TooIdle if before > 5 * least => before - 4 * least,
                Expiry::TooIdle => least,
                Expiry::BudgetTimeout => before.saturating_mul(2).min(most),
                Expiry::BudgetExhausted => before.saturating_mul(4).min(most),
                Expiry::NoMoreRequests => served.max(least),
                Expiry::Preempted => return,
            }
        };
        if self.turns >= ENOUGH_TURNS && self.tunables.max_budget == 0 {
            budget = budget.min(most);
        }
        self.queues.at_mut(queue).max_budget = budget;
        if self.queues.at(queue).next.is_some() {
            let budget = self.fresh_budget(view, queue);
            self.schedule.entities[queue as usize].budget = budget;
        }
        let head = self.queues.at(queue).next.map_or(0, |next| view.request(next).sectors());
        let budget = self.schedule.entities[queue as usize].budget;
        probe(Some(queue), ProbePoint::Asks { head, budget });
    }

    /// A process leaves: the turn ends without changing the queue's budget. As in Linux, what was
    /// served stays on the account, and counts once more with the next turn.
    pub(super) fn end_turn(&mut self, view: &mut QueueView, queue: u32) {
        self.stop_measuring();
        self.end_turn_because(view, queue, Expiry::BudgetTimeout);
    }

    /// A queue with work is enqueued again, one without leaves; unless it was preempted while the
    /// device was kept for it, and its share depends on that (BFQ-61).
    fn end_turn_because(&mut self, view: &mut QueueView, queue: u32, why: Expiry) {
        let seeky = self.is_seeky(queue);
        let now = view.now();
        let home = self.queues.at_mut(queue);
        home.injected = 0;
        home.is_to_split |= home.is_shared && seeky;
        let is_empty = home.is_empty();
        let kept = self.version.keeps_empty_preempted
            && why == Expiry::Preempted
            && self.idles_for_guarantees(queue);
        if is_empty && !kept {
            let home = self.queues.at_mut(queue);
            if home.in_flight == 0 {
                home.stamp = Some(now);
            }
            self.leave_busy(view, queue, true);
        } else {
            self.schedule.requeue_served(queue, now);
            self.recount_class(queue);
        }
        self.schedule.end_service(queue);
        if self.queues.at(queue).wait_request {
            self.stop_idling(view, queue);
        }
        self.in_service = None;
        if !is_empty {
            self.update_position(view, queue);
        }
    }

    /// A queue leaves the queues to be served.
    pub(super) fn leave_busy(&mut self, view: &QueueView, queue: u32, expires: bool) {
        probe(Some(queue), ProbePoint::Leaves);
        let home = self.queues.at_mut(queue);
        home.is_busy = false;
        self.busy[usize::from(home.busy_class)] -= 1;
        self.raised -= u32::from(home.raising.is_raised());
        let at_rest = home.in_flight == 0;
        if at_rest {
            self.come_to_rest(queue);
        }
        self.schedule.deactivate(queue, true, expires, view.now());
    }

    /// A queue at rest gets work, or a request in flight: it counts in the statistics.
    pub(super) fn leave_rest(&mut self, queue: u32) {
        if !self.queues.at(queue).raising.is_raised() {
            // What it will weigh, if a change is pending.
            let weight = self.schedule.entities[queue as usize].new_weight;
            self.schedule.weights.add(queue, weight);
        }
        self.count_pending(queue);
    }

    /// Neither a request nor a turn keeps the queue any more: it counts in no statistics.
    pub(super) fn come_to_rest(&mut self, queue: u32) {
        self.schedule.weights.remove(queue);
        self.uncount_pending(queue);
    }
}

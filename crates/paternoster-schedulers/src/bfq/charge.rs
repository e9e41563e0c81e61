// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charge: what requests and turns cost, and the budgets that have to cover it.
//!
//! A request costs its sectors; an async one threefold, so that a process that waits for its
//! requests gets more of the device than one that does not. Budgets are sectors, but a seeky queue
//! takes far more time for as many. A queue that was slow, or ran out of time with a third of its
//! budget left, is charged for its time: the largest budget times its time divided by the timeout.
//!
//! ```text
//! 16384 sectors in 124 ms: a turn of 4 ms costs 528, however few sectors it moved
//! ```
//!
//! Differs: charged time is measured against the timeout as it is set; Linux takes the default
//! whatever is set (BFQ-65).
//!
//! Source: BFQ-43, BFQ-49, BFQ-51, BFQ-57 to BFQ-59, BFQ-64 to BFQ-66.

use crate::bfq::budgets::Budgets;
use crate::bfq::entity::Entity;
use crate::bfq::probe_points::{Decision, ProbePoint, probe, replace};
use crate::bfq::queue::Queue;
use crate::bfq::schedule::Schedule;
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::event::Expiry;
use paternoster_core::time::{Nanos, scale};

/// Async service is charged this many times.
const ASYNC_FACTOR: u64 = 3;
/// Turns shorter than this are not measured, and do not show whether a queue is slow.
const MEASURABLE: Nanos = Nanos::from_millis(1);
const TELLING: Nanos = Nanos::from_millis(20);
/// How long a turn too short to be measured is taken to have lasted: rotational, or not.
const SHORT_TURN: [Nanos; 2] = [Nanos::from_millis(2), Nanos::from_millis(8)];

impl Schedule {
    /// What a request of `queue` costs of its budget (BFQ-43).
    #[inline]
    pub(super) fn charge_of(
        &self,
        view: &QueueView,
        queue: u32,
        home: &Queue,
        request: RequestId,
    ) -> u64 {
        let sectors = u64::from(view.request(request).sectors());
        let plain = home.is_sync
            || home.raising.is_raised()
            || (self.charges_async_if_symmetric && self.symmetry.is_asymmetric(queue));
        if plain { sectors } else { sectors * ASYNC_FACTOR }
    }

    /// Whether the next request of `queue` fits what is left of its budget.
    #[inline]
    pub(super) fn fits(&self, view: &QueueView, queue: u32, home: &Queue) -> bool {
        let left = self.entities[queue as usize].budget_left();
        home.next.is_some_and(|next| self.charge_of(view, queue, home, next) <= left)
    }

    /// The budget that a queue asks for when its account opens: what it usually needs, and at least
    /// its next request.
    #[inline]
    fn fresh_budget(&self, view: &QueueView, queue: u32, home: &Queue) -> u64 {
        let charge = home.next.map_or(0, |next| self.charge_of(view, queue, home, next));
        home.max_budget.max(charge)
    }

    /// Another request of a queue that is not in service comes first (BFQ-49): it asks for a budget
    /// that fits it.
    #[inline]
    pub(super) fn next_changed(&mut self, view: &QueueView, queue: u32, home: &mut Queue) {
        if home.next.is_none() {
            return;
        }
        let mut budget = self.fresh_budget(view, queue, home);
        let entity = &mut self.entities[queue as usize];
        if self.charges_outsiders {
            budget = budget.max(entity.service);
        }
        if entity.budget != budget {
            probe(Some(queue), ProbePoint::NextChanged { budget });
            entity.budget = budget;
            self.reposition(queue, view.now());
            self.recount_class(queue, home);
        }
    }

    /// A queue comes back, `in_time` or later. If it had a hole it goes on with the rest of its
    /// budget; otherwise it opens a new account. Returns whether it had a hole (BFQ-51).
    #[inline]
    pub(super) fn open_account(
        &mut self,
        view: &QueueView,
        queue: u32,
        home: &mut Queue,
        in_time: bool,
    ) -> bool {
        let left = self.entities[queue as usize].budget_left();
        let hole = home.left_early && in_time && (left > 0 || !self.hole_needs_budget);
        let budget = if hole {
            left.min(home.max_budget)
        } else {
            home.left_early = false;
            self.fresh_budget(view, queue, home)
        };
        let entity = &mut self.entities[queue as usize];
        (entity.budget, entity.service) = (budget, 0);
        hole
    }

    /// A turn has ended like this: what the queue asks for in its next turns (BFQ-57 to BFQ-59).
    #[inline]
    pub(super) fn feed_back(
        &mut self,
        view: &QueueView,
        queue: u32,
        home: &mut Queue,
        budgets: &Budgets,
        why: Expiry,
        by_hand: bool,
    ) {
        let Entity { budget, service, .. } = self.entities[queue as usize];
        probe(Some(queue), ProbePoint::Account { budget, service });
        let (most, least) = (budgets.last_of(home), budgets.least());
        probe(Some(queue), ProbePoint::Bounds { most, least });
        let (sync, seeky) = (home.is_sync, home.pattern.is_seeky());
        probe(Some(queue), ProbePoint::Nature { sync, seeky });
        let Some(budget) = budgets.next(home, why, service, by_hand) else { return };
        home.max_budget = budget;
        if home.next.is_some() {
            let budget = self.fresh_budget(view, queue, home);
            self.entities[queue as usize].budget = budget;
        }
        let head = home.next.map_or(0, |next| view.request(next).sectors());
        let budget = self.entities[queue as usize].budget;
        probe(Some(queue), ProbePoint::Asks { head, budget });
    }

    /// Charges time instead of sectors (BFQ-65, BFQ-66). The service that was really given is not
    /// changed.
    pub(super) fn charge_time(&mut self, queue: u32, largest: u64, timeout: Nanos, lasted: Nanos) {
        let timeout = timeout.as_millis().max(1);
        let charge = scale(largest, lasted.as_millis().min(timeout), timeout);
        let entity = &mut self.entities[queue as usize];
        let charge = charge.max(entity.service);
        let more = charge - entity.service;
        probe(Some(queue), ProbePoint::Served { sectors: more });
        let more = replace(Decision::TimeCharge { lasted }, more);
        entity.budget = entity.budget.max(entity.service + more);
        self.serve(queue, more);
    }
}

/// Whether a sync queue's turn of this length was slow, and how long it counts (BFQ-64).
pub(super) fn is_slow(
    queue: u32,
    lasted: Nanos,
    seeky: bool,
    rotational: bool,
    served_half: bool,
) -> (bool, Nanos) {
    if lasted < MEASURABLE {
        return (seeky, SHORT_TURN[usize::from(rotational)]);
    }
    let slow = if lasted > TELLING { !served_half } else { seeky };
    probe(Some(queue), ProbePoint::Slow { slow });
    (slow, lasted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::version::LINUX_6_18;
    use crate::bfq::weight_raising::Kind;
    use paternoster_core::Class;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Bio, ClientSpec, Op};

    /// Is a turn below 1 ms taken for 2 ms (rotational: 8 ms) and slow if seeky, one up to 20 ms
    /// slow if seeky, and a longer one slow if it served less than half the largest budget?
    #[test]
    fn bfq_64_what_is_slow() {
        let slow = |us, seeky, rotational, half| {
            is_slow(0, Nanos::from_micros(us), seeky, rotational, half)
        };
        let ms = Nanos::from_millis;
        assert_eq!(slow(999, true, false, true), (true, ms(2)));
        assert_eq!(slow(999, false, true, false), (false, ms(8)));
        assert_eq!(slow(1000, true, false, true), (true, ms(1)));
        assert_eq!(slow(20_000, false, false, false), (false, ms(20)));
        assert_eq!(slow(20_001, true, true, true), (false, Nanos::from_micros(20_001)));
        assert_eq!(slow(20_001, false, true, false), (true, Nanos::from_micros(20_001)));
    }

    /// A schedule with two queues, the second of them async and of another weight if `uneven`.
    fn two(uneven: bool) -> (Schedule, [Queue; 2]) {
        let mut schedule = Schedule::new(2, 1, &LINUX_6_18);
        schedule.add_group(0, None, 100);
        let mut queues = [true, false].map(|is_sync| Queue { is_sync, ..Queue::default() });
        for (queue, weight) in [(0, 40), (1, if uneven { 80 } else { 40 })] {
            let entity = Entity::new(0, weight, Class::BestEffort, true);
            schedule.entities[queue as usize] = entity;
            schedule.join_busy(queue, &mut queues[queue as usize], Nanos::ZERO);
        }
        (schedule, queues)
    }

    /// Are 8 sectors of an async queue charged threefold, unless it is raised; and in 6.18 not if
    /// its weight is above the others'?
    #[test]
    fn bfq_43_async_costs_three_times_as_much() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let client = view.add_client(ClientSpec::new());
        let id = view.add_request(&Bio::new(client, Op::Read, 0, 8), Nanos::ZERO);
        for (uneven, raised, charges) in
            [(false, false, [8, 24]), (false, true, [8, 8]), (true, false, [8, 8])]
        {
            let (schedule, mut queues) = two(uneven);
            if raised {
                queues[1].raising.kind = Kind::Interactive;
            }
            let cost = |queue: u32| schedule.charge_of(&view, queue, &queues[queue as usize], id);
            assert_eq!([0, 1].map(cost), charges, "{uneven} {raised}");
        }
    }

    /// Does a queue that comes back in time go on with the rest of its budget, and does any other
    /// open an account with the budget that it usually needs?
    #[test]
    fn bfq_51_a_hole_keeps_its_budget() {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        for (left_early, in_time, service, hole, budget) in [
            (true, true, 300, true, 700),
            (true, true, 1000, false, 5000),
            (true, false, 300, false, 5000),
            (false, true, 300, false, 5000),
        ] {
            let (mut schedule, [mut home, _]) = two(false);
            (home.left_early, home.max_budget) = (left_early, 5000);
            let entity = &mut schedule.entities[0];
            (entity.budget, entity.service) = (1000, service);
            assert_eq!(schedule.open_account(&view, 0, &mut home, in_time), hole);
            let Entity { budget: now, service, .. } = schedule.entities[0];
            assert_eq!((now, service, home.left_early), (budget, 0, hole), "{in_time}");
        }
    }

    /// Does a turn of 4 of 124 ms cost 16384 * 4 / 124 = 528 sectors, and never less than what was
    /// served?
    #[test]
    fn bfq_65_time_is_charged() {
        let ms = Nanos::from_millis;
        for (served, charged) in [(8, 528), (600, 600)] {
            let (mut schedule, _) = two(false);
            schedule.serve(0, served);
            schedule.charge_time(0, 16_384, ms(124), ms(4));
            let Entity { service, budget, .. } = schedule.entities[0];
            assert_eq!((service, budget), (charged, charged), "{served}");
        }
    }
}

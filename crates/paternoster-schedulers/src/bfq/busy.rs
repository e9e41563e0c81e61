// SPDX-License-Identifier: MIT OR Apache-2.0
//! Busy: a queue begins and ceases to have work, and what is counted of it meanwhile.
//!
//! ```text
//! at rest ── a request ──▶ busy ── the last leaves ──▶ in flight ── the last ends ──▶ at rest
//!            its weight and its group count until here ───────────────────────────────┘
//! ```
//!
//! A queue is the schedule's entity of the same number and a [`Queue`]; both change here, and with
//! them the counts of [`Symmetry`](super::symmetry).
//!
//! # Invariants
//! I1  The entity's coefficient is that of the queue's state.
//!
//! Source: BFQ-3 to BFQ-5, BFQ-90, BFQ-198, BFQ-199.

use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::queue::Queue;
use crate::bfq::schedule::Schedule;
use crate::bfq::weight_raising::Kind;
use paternoster_core::QueueView;
use paternoster_core::event::Note;
use paternoster_core::time::Nanos;

impl Schedule {
    /// A queue is to be served, from now on (BFQ-3 to BFQ-5).
    #[inline]
    pub(super) fn join_busy(&mut self, queue: u32, home: &mut Queue, now: Nanos) {
        probe(Some(queue), ProbePoint::Joins);
        let left_early = core::mem::take(&mut home.left_early);
        self.activate(queue, left_early, now);
        let class = self.entities[queue as usize].class;
        (home.is_busy, home.busy_class) = (true, class);
        let raised = home.raising.is_raised();
        self.symmetry.join(class, raised);
        if home.in_flight == 0 {
            self.leave_rest(queue, raised);
        }
    }

    /// A queue leaves the queues to be served.
    #[inline]
    pub(super) fn leave_busy(&mut self, queue: u32, home: &mut Queue, expires: bool, now: Nanos) {
        probe(Some(queue), ProbePoint::Leaves);
        home.is_busy = false;
        self.symmetry.leave(home.busy_class, home.raising.is_raised());
        if home.in_flight == 0 {
            self.come_to_rest(queue);
        }
        self.deactivate(queue, true, expires, now);
    }

    /// A queue at rest gets work, or a request in flight: it counts in the statistics.
    #[inline]
    pub(super) fn leave_rest(&mut self, queue: u32, is_raised: bool) {
        if !is_raised {
            // The queue's new weight, if a change is pending.
            self.symmetry.weigh(queue, self.entities[queue as usize].new_weight);
        }
        self.count_pending(queue);
    }

    /// Neither a request nor a turn keeps the queue any more: it counts in no statistics.
    #[inline]
    pub(super) fn come_to_rest(&mut self, queue: u32) {
        self.symmetry.forget_weight(queue);
        self.uncount_pending(queue);
    }

    /// A queue has requests now: so has its group.
    #[inline]
    pub(super) fn count_pending(&mut self, queue: u32) {
        let group = self.entities[queue as usize].group;
        self.symmetry.count_pending(queue, group, self.is_root(group));
    }

    /// A queue has no requests any more.
    #[inline]
    pub(super) fn uncount_pending(&mut self, queue: u32) {
        let group = self.entities[queue as usize].group;
        self.symmetry.uncount_pending(queue, self.is_root(group));
    }

    /// A queue's class may have changed when it was enqueued: recounts it as busy under that class.
    #[inline]
    pub(super) fn recount_class(&mut self, queue: u32, home: &mut Queue) {
        let class = self.entities[queue as usize].class;
        if home.is_busy && home.busy_class != class {
            self.symmetry.change_class(home.busy_class, class);
            home.busy_class = class;
        }
    }

    /// Gives a queue another state; its weight follows with its next turn.
    pub(super) fn set_raised(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        home: &mut Queue,
        kind: Kind,
    ) {
        let before = home.raising.is_raised();
        let changes = home.raising.kind != kind;
        home.raising.kind = kind;
        if home.is_busy {
            self.symmetry.change_raised(before, kind != Kind::No);
        }
        self.set_raise(queue, kind.coefficient());
        if let (true, Some(client)) = (changes, home.made_for) {
            view.note(Note::WeightRaised { client, coefficient: kind.coefficient() });
        }
        self.count_if_never_raised(queue, home);
    }

    /// A queue left rest when it was to be raised, and is lowered again before that took effect:
    /// its weight was not counted, and would never be. Counts it now. (Linux does not.)
    fn count_if_never_raised(&mut self, queue: u32, home: &Queue) {
        let entity = &self.entities[queue as usize];
        let never = entity.raise == 1 && entity.weight == entity.orig_weight;
        let weight = entity.new_weight;
        if never && !home.is_at_rest() && self.symmetry.weight_of(queue).is_none() {
            self.symmetry.weigh(queue, weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::entity::Entity;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Class;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    const NOW: Nanos = Nanos::ZERO;

    fn one_queue() -> (Schedule, Queue) {
        let mut schedule = Schedule::new(1, 1, &LINUX_6_18);
        schedule.add_group(0, None, 100);
        schedule.entities[0] = Entity::new(0, 40, Class::BestEffort, true);
        (schedule, Queue::default())
    }

    /// Does a queue that is busy no more still count while a request of it is in flight?
    #[test]
    fn it_counts_until_it_is_at_rest() {
        let (mut schedule, mut home) = one_queue();
        schedule.join_busy(0, &mut home, NOW);
        let counts = |schedule: &Schedule| {
            let symmetry = &schedule.symmetry;
            (symmetry.busy(), symmetry.weight_of(0), symmetry.is_pending(0))
        };
        assert_eq!(counts(&schedule), (1, Some(40), true));
        home.in_flight = 1;
        schedule.leave_busy(0, &mut home, false, NOW);
        assert_eq!(counts(&schedule), (0, Some(40), true));
        schedule.come_to_rest(0);
        assert_eq!(counts(&schedule), (0, None, false));
    }

    /// Is only a busy queue counted as raised, and is a raised one's weight not counted, until it
    /// is lowered again?
    #[test]
    fn what_is_raised() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let (mut schedule, mut home) = one_queue();
        schedule.set_raised(&mut view, 0, &mut home, Kind::Interactive);
        assert_eq!((schedule.symmetry.raised(), schedule.entities[0].raise), (0, 30));
        schedule.join_busy(0, &mut home, NOW);
        assert_eq!((schedule.symmetry.raised(), schedule.symmetry.weight_of(0)), (1, None));
        assert_eq!(schedule.entities[0].weight, 1200, "30 times 40");
        schedule.set_raised(&mut view, 0, &mut home, Kind::No);
        schedule.leave_busy(0, &mut home, false, NOW);
        schedule.join_busy(0, &mut home, NOW);
        assert_eq!((schedule.symmetry.raised(), schedule.symmetry.weight_of(0)), (0, Some(40)));
        assert_eq!(schedule.entities[0].weight, 40);
    }
}

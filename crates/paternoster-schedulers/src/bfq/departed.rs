// SPDX-License-Identifier: MIT OR Apache-2.0
//! Departed: queues that no process will use again, but that are still ahead of their share.
//!
//! A process that ends, or whose queue is merged into another, may have had more than its share.
//! Its weight keeps counting until virtual time has passed its queue's finish; otherwise virtual
//! time would run faster from that moment, and the next queue to come would start behind the
//! others:
//!
//! ```text
//! q1 and q2 of weight 40, q1 ends 16384 sectors ahead:  V runs at 1/80 until it has passed q1's
//!                                                       finish, and only then at 1/40
//! ```
//!
//! Such a queue keeps its slot and nothing else. If no slot is left, the queue departed first is
//! forgotten early.
//!
//! # Invariants
//! I1  A departed queue is remembered in its idle tree, or its slot is about to be freed.
//!
//! Source: the recorded decisions of Linux 6.18, where a tree holds a reference to its queues;
//! BFQ-8, BFQ-9.

use crate::bfq::entity::Standing;
use crate::bfq::schedule::Schedule;
use paternoster_core::list::{Links, List};

/// Queues that stay live only because they are remembered.
#[derive(Debug)]
pub(super) struct Departed {
    /// In idle trees, longest departed first.
    remembered: List,
    /// Forgotten since: their slots are free.
    gone: List,
    links: Links,
}

impl Departed {
    pub(super) fn with_capacity(queues: u32) -> Departed {
        let links = Links::with_capacity(queues);
        Departed { remembered: List::new(), gone: List::new(), links }
    }

    pub(super) fn contains(&self, queue: u32) -> bool {
        self.links.contains(queue)
    }

    /// A queue was forgotten by its tree.
    pub(super) fn forget(&mut self, queue: u32) {
        if self.contains(queue) {
            self.remembered.remove(&mut self.links, queue);
            self.gone.push_back(&mut self.links, queue);
        }
    }
}

impl Schedule {
    /// Nothing refers to a queue any more. Returns whether it is remembered because it is ahead.
    pub(super) fn abandon(&mut self, queue: u32) -> bool {
        let is_ahead = self.entities[queue as usize].standing == Standing::Idle;
        if is_ahead {
            let Departed { remembered, links, .. } = &mut self.departed;
            remembered.push_back(links, queue);
        }
        is_ahead
    }

    /// A slot that is free again.
    pub(super) fn next_gone(&mut self) -> Option<u32> {
        let Departed { gone, links, .. } = &mut self.departed;
        gone.pop_front(links)
    }

    /// Forgets the queue that has departed first, if any.
    pub(super) fn forget_oldest(&mut self) {
        if let Some(oldest) = self.departed.remembered.first() {
            self.remove_idle(oldest);
            self.forget(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::entity::Entity;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Class;
    use paternoster_core::time::Nanos;

    const NOW: Nanos = Nanos::ZERO;

    /// Two queues of weight 40, with work for 1000 sectors each; the first is served and leaves.
    fn one_served() -> Schedule {
        let mut schedule = Schedule::new(2, 1, &LINUX_6_18);
        schedule.add_group(0, None, 100);
        for queue in 0..2 {
            let entity = Entity::new(0, 40, Class::BestEffort, true);
            schedule.entities[queue as usize] = Entity { budget: 1000, ..entity };
            schedule.activate(queue, false, NOW);
        }
        assert_eq!(schedule.serve_next(0, false, NOW), Some(0));
        schedule.serve(0, 1000);
        schedule.deactivate(0, true, true, NOW);
        schedule.end_service(0);
        schedule
    }

    fn weight_sum(schedule: &Schedule) -> u64 {
        schedule.groups[0].trees[Class::BestEffort as usize].weight_sum
    }

    /// Does the weight of a departed queue count until virtual time has passed its finish? It
    /// finished at 1000 / 40 = 25; V is at 1000 / 80 = 12.5 then, and at 25 when the other has been
    /// served as much.
    #[test]
    fn an_departed_queue_counts_until_its_finish() {
        let mut schedule = one_served();
        assert!(schedule.abandon(0));
        assert_eq!(schedule.serve_next(0, false, NOW), Some(1));
        schedule.serve(1, 500);
        assert_eq!((weight_sum(&schedule), schedule.next_gone()), (80, None));
        schedule.serve(1, 500);
        assert_eq!((weight_sum(&schedule), schedule.next_gone()), (40, Some(0)));
        assert!(!schedule.departed.contains(0));
    }

    /// Is a slot free at once when one is needed, and is none kept for a queue that is not ahead?
    #[test]
    fn slots_come_back() {
        let mut schedule = one_served();
        assert!(schedule.abandon(0));
        schedule.forget_oldest();
        assert_eq!((weight_sum(&schedule), schedule.next_gone()), (40, Some(0)));
        schedule.forget_oldest();
        assert_eq!(schedule.next_gone(), None);
        assert!(!schedule.abandon(0), "it is forgotten already");
    }
}

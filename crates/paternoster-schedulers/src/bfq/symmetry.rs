// SPDX-License-Identifier: MIT OR Apache-2.0
//! Symmetry: whether queues may be served side by side without loss to any of them.
//!
//! A device that queues commands gives each queue as much as any other. That is right if all weigh
//! the same (*symmetric*); if not, serving them side by side takes from the heavier ones:
//!
//! ```text
//! weights 40 40 40, one class, one group       symmetric
//! weights 10 40 40                             asymmetric, except for the queue of 10
//! two classes with work, or two groups         asymmetric
//! ```
//!
//! So it counts what has work: queues by class, the raised ones, weights, and the groups in which a
//! queue has a request, waiting or in flight. It is told of every change, and looks at no queue
//! itself.
//!
//! # Invariants
//! I1  `busy` and `raised` count the queues to be served; a group counts exactly while one of its
//!     queues is pending (4.19: except the root).
//!
//! Source: BFQ-73, BFQ-74, BFQ-90, BFQ-199.

use alloc::vec::Vec;

use crate::bfq::version::Guarantees;
use crate::bfq::weights::Weights;

/// What is counted over all queues.
#[derive(Debug)]
pub(super) struct Symmetry {
    guarantees: Guarantees,
    weights: Weights,
    /// Busy queues by class, and how many of all are raised.
    busy: [u32; 3],
    raised: u32,
    /// For each queue: the group that counts it as having requests.
    pending_in: Vec<Option<u32>>,
    /// For each group: such queues; and groups that have any.
    pending: Vec<u32>,
    pending_groups: u32,
}

impl Symmetry {
    pub(super) fn new(queues: u32, groups: u32, guarantees: Guarantees) -> Symmetry {
        Symmetry {
            guarantees,
            weights: Weights::with_capacity(queues),
            busy: [0; 3],
            raised: 0,
            pending_in: (0..queues).map(|_| None).collect(),
            pending: (0..groups).map(|_| 0).collect(),
            pending_groups: 0,
        }
    }

    /// Queues with work, or kept in service without.
    #[inline]
    pub(super) const fn busy(&self) -> u32 {
        self.busy[0] + self.busy[1] + self.busy[2]
    }

    /// The number of these queues that are raised.
    #[inline]
    pub(super) const fn raised(&self) -> u32 {
        self.raised
    }

    /// Whether serving queues side by side would give `queue` less than its share (BFQ-73, BFQ-74).
    pub(super) fn is_asymmetric(&self, queue: u32) -> bool {
        match self.guarantees {
            Guarantees::AnyGroup => self.weights.differ() || self.pending_groups > 0,
            Guarantees::TwoGroups => {
                let classes = self.busy.iter().filter(|&&busy| busy > 0).count();
                (self.weights.differ() && !self.weights.is_least(queue))
                    || classes >= 2
                    || self.pending_groups >= 2
            }
        }
    }

    /// A queue of this class is to be served.
    #[inline]
    pub(super) fn join(&mut self, class: u8, raised: bool) {
        self.busy[usize::from(class)] += 1;
        self.raised += u32::from(raised);
    }

    /// The queue has no work any more.
    #[inline]
    pub(super) fn leave(&mut self, class: u8, raised: bool) {
        self.busy[usize::from(class)] -= 1;
        self.raised -= u32::from(raised);
    }

    /// A busy queue counts under another class.
    pub(super) fn change_class(&mut self, from: u8, to: u8) {
        self.busy[usize::from(from)] -= 1;
        self.busy[usize::from(to)] += 1;
    }

    /// A busy queue becomes raised, or is raised no longer.
    pub(super) fn change_raised(&mut self, before: bool, now: bool) {
        self.raised -= u32::from(before);
        self.raised += u32::from(now);
    }

    /// The weight of a queue with work counts from now on, unless it does already.
    #[inline]
    pub(super) fn weigh(&mut self, queue: u32, weight: u32) {
        self.weights.add(queue, weight);
    }

    /// The queue's weight no longer counts.
    #[inline]
    pub(super) fn forget_weight(&mut self, queue: u32) {
        self.weights.remove(queue);
    }

    /// The weight under which a queue counts.
    pub(super) fn weight_of(&self, queue: u32) -> Option<u32> {
        self.weights.of(queue)
    }

    /// A word of its cache line (`prefetch`).
    #[inline]
    pub(super) fn touch(&self, queue: u32) -> u64 {
        u64::from(self.is_pending(queue))
    }

    /// Whether its group counts a queue as having requests.
    pub(super) fn is_pending(&self, queue: u32) -> bool {
        self.pending_in[queue as usize].is_some()
    }

    /// A queue has requests from now on, and so has its group.
    #[inline]
    pub(super) fn count_pending(&mut self, queue: u32, group: u32, is_root: bool) {
        let counted = &mut self.pending_in[queue as usize];
        if counted.is_some() {
            return;
        }
        *counted = Some(group);
        let pending = &mut self.pending[group as usize];
        *pending += 1;
        if *pending == 1 && self.counts(is_root) {
            self.pending_groups += 1;
        }
    }

    /// A queue has no requests any more.
    #[inline]
    pub(super) fn uncount_pending(&mut self, queue: u32, is_root: bool) {
        let Some(group) = self.pending_in[queue as usize].take() else { return };
        let pending = &mut self.pending[group as usize];
        *pending -= 1;
        if *pending == 0 && self.counts(is_root) {
            self.pending_groups -= 1;
        }
    }

    /// Whether this group counts among the groups with requests.
    const fn counts(&self, is_root: bool) -> bool {
        matches!(self.guarantees, Guarantees::TwoGroups) || !is_root
    }

    /// Busy queues by class, and raised ones, as counted.
    pub(super) const fn counted(&self) -> ([u32; 3], u32) {
        (self.busy, self.raised)
    }

    /// Verifies the order of weights, and the counts of groups. O(n).
    pub(super) fn check(&self, is_root: impl Fn(u32) -> bool) -> Result<(), &'static str> {
        self.weights.check()?;
        let mut counted: Vec<u32> = self.pending.iter().map(|_| 0).collect();
        for &group in self.pending_in.iter().flatten() {
            counted[group as usize] += 1;
        }
        let with_requests =
            |&(group, &pending): &(u32, &u32)| pending > 0 && self.counts(is_root(group));
        let groups = (0..).zip(&counted).filter(with_requests).count();
        if counted != self.pending || groups != self.pending_groups as usize {
            return Err("symmetry I1: those with requests are others than counted");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [Guarantees; 2] = [Guarantees::AnyGroup, Guarantees::TwoGroups];

    /// Are two queues of one weight, class and group symmetric, and is the lighter of two weights
    /// the only one that loses nothing (4.19: none)?
    #[test]
    fn weights_decide() {
        for rule in RULES {
            let mut symmetry = Symmetry::new(2, 2, rule);
            for queue in 0..2 {
                symmetry.join(1, false);
                symmetry.weigh(queue, 40);
                symmetry.count_pending(queue, 0, true);
            }
            assert!(!symmetry.is_asymmetric(0), "{rule:?}");
            symmetry.forget_weight(1);
            symmetry.weigh(1, 80);
            let lighter = rule == Guarantees::AnyGroup;
            assert_eq!([0, 1].map(|queue| symmetry.is_asymmetric(queue)), [lighter, true]);
            symmetry.check(|group| group == 0).unwrap();
        }
    }

    /// Do two classes with work count in 6.18 alone?
    #[test]
    fn classes_decide_in_618() {
        for rule in RULES {
            let mut symmetry = Symmetry::new(2, 1, rule);
            symmetry.join(1, false);
            symmetry.join(2, true);
            assert_eq!(symmetry.is_asymmetric(0), rule == Guarantees::TwoGroups);
            symmetry.change_class(2, 1);
            assert!(!symmetry.is_asymmetric(0));
            assert_eq!((symmetry.busy(), symmetry.raised()), (2, 1));
            symmetry.leave(1, true);
            assert_eq!((symmetry.busy(), symmetry.raised()), (1, 0));
        }
    }

    /// Does one group with requests besides the root count in 4.19, and do two count in 6.18, the
    /// root among them; each once, however many of its queues have requests?
    #[test]
    fn groups_with_requests_decide() {
        for rule in RULES {
            let mut symmetry = Symmetry::new(3, 2, rule);
            symmetry.count_pending(0, 1, false);
            symmetry.count_pending(1, 1, false);
            symmetry.count_pending(1, 1, false);
            assert_eq!(symmetry.is_asymmetric(0), rule == Guarantees::AnyGroup);
            symmetry.count_pending(2, 0, true);
            assert!(symmetry.is_asymmetric(0), "{rule:?}");
            symmetry.check(|group| group == 0).unwrap();
            symmetry.uncount_pending(1, false);
            assert!(symmetry.is_asymmetric(0) && symmetry.is_pending(0), "{rule:?}");
            symmetry.uncount_pending(0, false);
            symmetry.uncount_pending(0, false);
            assert!(!symmetry.is_asymmetric(0), "{rule:?}");
            symmetry.check(|group| group == 0).unwrap();
        }
    }
}

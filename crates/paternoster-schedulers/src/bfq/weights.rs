// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights: whether all queues with work have the same weight.
//!
//! If all do, a device that queues commands may serve them side by side; if one weighs more, the
//! device has to wait for its next request, or it would not get its share. So the weights of all
//! queues that are not raised and have something waiting or in flight are kept in order:
//!
//! ```text
//! 10   40   40   40   80      two distinct weights or more; the least is 10
//! ```
//!
//! # Invariants
//! I1  It holds exactly the queues that are not raised and are busy or have requests in flight,
//!     each under its present weight.
//!
//! Source: BFQ-73, BFQ-74, BFQ-90, BFQ-199.

use paternoster_core::tree::{Nodes, Root};

/// Queues by weight.
#[derive(Debug)]
pub(super) struct Weights {
    nodes: Nodes<u64>,
    root: Root,
}

impl Weights {
    pub(super) fn with_capacity(queues: u32) -> Weights {
        Weights { nodes: Nodes::with_capacity(queues), root: Root::new() }
    }

    /// A queue counts from now on, unless it does already.
    pub(super) fn add(&mut self, queue: u32, weight: u32) {
        if !self.nodes.contains(queue) {
            self.root.insert(&mut self.nodes, queue, weight.into());
        }
    }

    /// A queue counts no longer.
    pub(super) fn remove(&mut self, queue: u32) {
        if self.nodes.contains(queue) {
            self.root.remove(&mut self.nodes, queue);
        }
    }

    fn end(&self, queue: Option<u32>) -> Option<u64> {
        self.nodes.key(queue?)
    }

    /// Whether there are two weights that differ.
    pub(super) fn differ(&self) -> bool {
        self.end(self.root.first()) != self.end(self.root.last())
    }

    /// Whether a queue counts, and no counted queue weighs less.
    pub(super) fn is_least(&self, queue: u32) -> bool {
        self.nodes.contains(queue) && self.nodes.key(queue) == self.end(self.root.first())
    }

    /// The weight under which a queue counts.
    pub(super) fn of(&self, queue: u32) -> Option<u64> {
        self.nodes.contains(queue).then(|| self.nodes.key(queue)).flatten()
    }

    /// Verifies the order. O(n).
    pub(super) fn check(&self) -> Result<(), &'static str> {
        self.root.check(&self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do two distinct weights differ, and does a weight counted twice not?
    #[test]
    fn bfq_199_weights_are_counted_once_each() {
        let mut weights = Weights::with_capacity(3);
        assert!(!weights.differ());
        weights.add(0, 40);
        weights.add(1, 40);
        weights.add(1, 80);
        assert!(!weights.differ(), "queue 1 counted already, with 40");
        weights.remove(1);
        weights.add(1, 80);
        assert!(weights.differ());
        assert!(weights.is_least(0) && !weights.is_least(1) && !weights.is_least(2));
        weights.remove(0);
        assert!(!weights.differ() && weights.is_least(1));
        weights.check().unwrap();
    }
}

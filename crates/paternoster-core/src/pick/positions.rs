// SPDX-License-Identifier: MIT OR Apache-2.0
//! Positions: queues by the sector of their next request, to find those that work close to each
//! other.
//!
//! Two processes that read one file between them (a dump with two readers, a server's threads) look
//! like two seeky ones. If the next request of one is where the other has just been, the device
//! should continue there instead of idling, and the two should share a queue.
//!
//! ```text
//! head has just been at 5000
//! queues wait at   120   4900 ─┬─ 5050   91000       within 8192 sectors: 5050, the nearer
//!                              └ 100 behind, 50 ahead
//! ```
//!
//! Each queue is in one of several trees (one for each priority level in CFQ, for each group in
//! BFQ) or in none.
//!
//! # Invariants
//! I1  No two queues of a tree are at the same sector: the second is left out.
//!
//! Differs: of two that are both close, Linux takes the one that its search in a red-black tree
//! happened to reach last; here it is the nearer one, and the one ahead at equal distance.
//!
//! Source: CFQ-41; BFQ-116, BFQ-117, BFQ-125.

use alloc::vec::Vec;

use crate::tree::{Nodes, Root};

/// Queues by tree and sector.
#[derive(Debug)]
pub struct Positions {
    nodes: Nodes<u64>,
    trees: Vec<Root>,
    /// The tree of each queue that is in one.
    homes: Vec<u32>,
    /// Queues in all trees: with none, no search is needed.
    placed: u32,
    /// How often a queue was put into a tree, or removed.
    changes: u64,
}

/// The queues on both sides of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Neighbours {
    /// At the sector or after it.
    pub ahead: Option<u32>,
    /// Before it.
    pub behind: Option<u32>,
}

impl Positions {
    /// Room for queues in slots below `queues`, in `trees` trees.
    #[inline]
    #[must_use]
    pub fn new(queues: u32, trees: u32) -> Positions {
        Positions {
            nodes: Nodes::with_capacity(queues),
            trees: (0..trees).map(|_| Root::new()).collect(),
            homes: (0..queues).map(|_| 0).collect(),
            placed: 0,
            changes: 0,
        }
    }

    /// Puts a queue at `sector` of a tree, or leaves it out if another is there already.
    #[inline]
    pub fn place(&mut self, queue: u32, tree: u32, sector: u64) {
        if self.nodes.key(queue) == Some(sector) && self.homes[queue as usize] == tree {
            return;
        }
        self.remove(queue);
        let root = &mut self.trees[tree as usize];
        let there = root.lower_bound(&self.nodes, &sector);
        if there.and_then(|other| self.nodes.key(other)) != Some(sector) {
            root.insert(&mut self.nodes, queue, sector);
            self.homes[queue as usize] = tree;
            self.placed += 1;
            self.changes += 1;
        }
    }

    /// Removes a queue, if it is in a tree.
    #[inline]
    pub fn remove(&mut self, queue: u32) {
        if self.placed > 0 && self.nodes.contains(queue) {
            self.placed -= 1;
            self.changes += 1;
            let home = self.homes[queue as usize] as usize;
            self.trees[home].remove(&mut self.nodes, queue);
        }
    }

    /// How often a queue was put into a tree, or removed: the cost of keeping the trees.
    #[inline]
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a queue is in a tree.
    #[inline]
    #[must_use]
    pub fn contains(&self, queue: u32) -> bool {
        self.nodes.contains(queue)
    }

    /// The sector of a queue.
    #[inline]
    #[must_use]
    pub fn sector(&self, queue: u32) -> Option<u64> {
        self.nodes.key(queue)
    }

    /// Whether a tree is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self, tree: u32) -> bool {
        self.trees[tree as usize].is_empty()
    }

    /// The queues next to `sector` in a tree.
    #[inline]
    #[must_use]
    pub fn neighbours(&self, tree: u32, sector: u64) -> Neighbours {
        let root = &self.trees[tree as usize];
        let ahead = root.lower_bound(&self.nodes, &sector);
        let behind = ahead.map_or(root.last(), |ahead| self.nodes.prev(ahead));
        Neighbours { ahead, behind }
    }

    /// The queue of a tree that is nearest to `sector`, at most `window` sectors away.
    #[inline]
    #[must_use]
    pub fn close_to(&self, tree: u32, sector: u64, window: u64) -> Option<u32> {
        let Neighbours { ahead, behind } = self.neighbours(tree, sector);
        let far = |queue: Option<u32>| {
            let at = queue.and_then(|queue| self.nodes.key(queue));
            at.map_or(u64::MAX, |at| at.abs_diff(sector))
        };
        let (forth, back) = (far(ahead), far(behind));
        let nearer = if forth <= back { ahead } else { behind };
        nearer.filter(|_| forth.min(back) <= window)
    }

    /// Verifies the trees. O(n).
    ///
    /// # Errors
    /// The invariant that is broken.
    #[inline]
    pub fn check(&self) -> Result<(), &'static str> {
        for root in &self.trees {
            root.check(&self.nodes)?;
            let mut last = None;
            for queue in root.iter(&self.nodes) {
                let sector = self.nodes.key(queue);
                if sector == last {
                    return Err("positions I1: two queues stand at one sector");
                }
                last = sector;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the nearer one found, up to the window and not beyond it?
    #[test]
    fn the_nearer_one_within_the_window() {
        let mut positions = Positions::new(4, 2);
        positions.place(0, 1, 4900);
        positions.place(1, 1, 5050);
        assert_eq!(positions.close_to(1, 5000, 8192), Some(1));
        assert_eq!(positions.close_to(1, 4950, 8192), Some(0));
        assert_eq!(positions.close_to(1, 5050 + 8192, 8192), Some(1));
        assert_eq!(positions.close_to(1, 5050 + 8193, 8192), None);
        assert_eq!(positions.close_to(0, 5000, 8192), None);
    }

    /// Is the second queue at a sector left out, and found once the first has gone and it is placed
    /// again?
    #[test]
    fn one_queue_for_each_sector() {
        let mut positions = Positions::new(2, 1);
        positions.place(0, 0, 8);
        positions.place(1, 0, 8);
        assert!(!positions.contains(1));
        positions.remove(0);
        positions.place(1, 0, 8);
        assert_eq!(positions.close_to(0, 8, 0), Some(1));
        positions.check().unwrap();
    }
}

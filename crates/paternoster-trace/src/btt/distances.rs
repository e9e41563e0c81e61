// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances: how often each seek distance occurred, in the order in which they first did.
//!
//! A random workload has as many distances as I/Os. Each costs 16 bytes here and two for its bucket:
//! a chain of nodes in order of first occurrence, hashed by linear hashing, which grows by one bucket
//! at a time and so never copies itself:
//!
//! ```text
//! buckets  0 1 2 3 │ 0' 1'        the next to be split is 2, into 2 and 2'
//! ```
//!
//! A tree, as btt has, would cost as much memory and a microsecond for each I/O; its shape, which
//! decides a tie of the most frequent distances, is found afterwards from the order ([`super::shape`]).
//!
//! Invariant: I1 nodes are in order of first occurrence; I2 the sum of the counts is the number of
//! calls of [`Distances::add`].

use super::chunks::Chunks;
use super::shape::post_order;

const NONE: u32 = u32::MAX;
/// Nodes to a bucket, at which the next one is split.
const LOAD: u32 = 2;
/// A random odd number near 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Clone, Copy)]
struct Node {
    distance: u64,
    count: u32,
    next: u32,
}

/// Counts of distances.
#[derive(Debug)]
pub(super) struct Distances {
    nodes: Chunks<Node>,
    buckets: Chunks<u32>,
    /// Buckets before this round of splits, a power of two.
    round: u32,
    /// The last one that was counted: streams repeat themselves.
    last: u32,
}

/// The most frequent distances of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Modes {
    /// How often each of them occurred.
    pub(super) count: u64,
    /// In post-order of the tree.
    pub(super) distances: Vec<u64>,
}

impl Distances {
    pub(super) fn new() -> Distances {
        let mut buckets = Chunks::new();
        buckets.push(NONE);
        Distances { nodes: Chunks::new(), buckets, round: 1, last: NONE }
    }

    fn bucket_of(&self, distance: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "32 bits of the hash suffice")]
        let hash = (distance.wrapping_mul(SPREAD) >> 32) as u32;
        let wide = hash & (2 * self.round - 1);
        if wide < self.buckets.len() { wide } else { hash & (self.round - 1) }
    }

    /// Counts a distance.
    pub(super) fn add(&mut self, distance: u64) {
        if self.last != NONE && self.nodes[self.last].distance == distance {
            let count = &mut self.nodes[self.last].count;
            *count = count.saturating_add(1);
            return;
        }
        let bucket = self.bucket_of(distance);
        let mut at = self.buckets[bucket];
        while at != NONE {
            let node = &mut self.nodes[at];
            if node.distance == distance {
                node.count = node.count.saturating_add(1);
                self.last = at;
                return;
            }
            at = node.next;
        }
        let node = Node { distance, count: 1, next: self.buckets[bucket] };
        self.last = self.nodes.push(node);
        self.buckets[bucket] = self.last;
        if self.nodes.len() / LOAD > self.buckets.len() {
            self.split();
        }
    }

    /// Splits the next bucket in two.
    fn split(&mut self) {
        let old = self.buckets.len() - self.round;
        let new = self.buckets.push(NONE);
        let mut at = core::mem::replace(&mut self.buckets[old], NONE);
        if self.buckets.len() == 2 * self.round {
            self.round *= 2;
        }
        while at != NONE {
            let Node { distance, next, .. } = self.nodes[at];
            // In the round that just ended both masks name the same buckets.
            let bucket = self.bucket_of(distance);
            debug_assert!(bucket == old || bucket == new);
            self.nodes[at].next = core::mem::replace(&mut self.buckets[bucket], at);
            at = next;
        }
    }

    /// How many different ones there are.
    pub(super) const fn distinct(&self) -> u32 {
        self.nodes.len()
    }

    /// btt's median: the one that occurred at least half as often as there were seeks; of two
    /// different ones the first, of three the middle one. Otherwise 0.
    pub(super) fn median(&self, seeks: u64) -> u64 {
        let half = seeks / 2;
        let enough = |node: &&Node| u64::from(node.count) >= half;
        let mut candidates = self.nodes.iter().filter(enough).take(2);
        let (Some(one), another) = (candidates.next(), candidates.next()) else { return 0 };
        if another.is_none() {
            return one.distance;
        }
        if self.distinct() == 2 {
            return self.nodes[0].distance;
        }
        // Three: the tree's root is the middle one, on its left the smallest.
        let mut sorted: Vec<&Node> = self.nodes.iter().collect();
        sorted.sort_unstable_by_key(|node| node.distance);
        [1, 0].map(|at| sorted[at]).into_iter().find(enough).map_or(0, |node| node.distance)
    }

    /// The true median: half of the seeks are not longer (the lower one of two).
    pub(super) fn true_median(&self) -> u64 {
        let total: u64 = self.nodes.iter().map(|node| u64::from(node.count)).sum();
        let longest = self.nodes.iter().map(|node| node.distance).max();
        let (mut low, mut high) = (0, longest.unwrap_or(0));
        // By halving the range of values: no copy of the distances is needed.
        while low < high {
            let middle = low + (high - low) / 2;
            let within = self.nodes.iter().filter(|node| node.distance <= middle);
            let count: u64 = within.map(|node| u64::from(node.count)).sum();
            if count >= total.div_ceil(2) { high = middle } else { low = middle + 1 }
        }
        if total == 0 { 0 } else { low }
    }

    /// The most frequent ones; the counts are given back to the system.
    pub(super) fn into_modes(self) -> Modes {
        let count = self.nodes.iter().map(|node| node.count).max().unwrap_or(0);
        let most = self.nodes.iter().filter(|node| node.count == count);
        let few: Vec<u64> = most.take(2).map(|node| node.distance).collect();
        let distances = if few.len() < 2 {
            few
        } else {
            drop(self.buckets);
            let total = self.nodes.len() as usize;
            let wanted = |node: Node| (node.distance, node.count == count);
            post_order(total, self.nodes.drain().map(wanted))
        };
        Modes { count: count.into(), distances }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(list: &[u64]) -> Distances {
        let mut distances = Distances::new();
        list.iter().for_each(|distance| distances.add(*distance));
        distances
    }

    /// Is btt's median what its rule says, where it is none?
    #[test]
    fn the_median_is_btts_and_no_median() {
        let median = |list: &[u64]| of(list).median(list.len() as u64);
        // Two different ones, each at least 2/2 times: the first.
        assert_eq!(median(&[100, 792]), 100);
        // Three, each at least floor(3/2) = 1 time: the middle value.
        assert_eq!(median(&[100, 792, 4092]), 792);
        // 3 of 4 are 0; none of five is there twice or more but 0 and 192.
        assert_eq!(median(&[8, 0, 0, 0]), 0);
        // 5/2 = 2: 192 and 200 are candidates, 92 in front of them is not; the middle one is.
        assert_eq!(median(&[92, 200, 192, 200, 192]), 192);
        // The middle one is no candidate: the smallest.
        assert_eq!(median(&[100, 200, 192, 200, 100]), 100);
        // Fully random: nothing occurs half as often as there are seeks.
        assert_eq!(median(&[1, 2, 3, 4, 5, 6]), 0);
        assert_eq!(of(&[1, 9, 2, 8, 7]).true_median(), 7);
        assert_eq!(of(&[1, 9]).true_median(), 1);
    }

    proptest! {
        /// Are counts those of a map, and is the order that of first occurrence?
        #[test]
        fn counts_are_those_of_a_map(list in proptest::collection::vec(0..400_u64, 0..2000)) {
            let distances = of(&list);
            let mut naive: BTreeMap<u64, u32> = BTreeMap::new();
            let mut first = Vec::new();
            for distance in &list {
                let count = naive.entry(*distance).or_insert(0);
                if *count == 0 { first.push(*distance) }
                *count += 1;
            }
            let order: Vec<u64> = distances.nodes.iter().map(|node| node.distance).collect();
            prop_assert_eq!(order, first);
            for node in distances.nodes.iter() {
                prop_assert_eq!(node.count, naive[&node.distance]);
            }
        }
    }
}

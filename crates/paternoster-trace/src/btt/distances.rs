// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances: how often each seek distance occurred, and in which order they first did.
//!
//! A random workload has as many distances as I/Os, so each must be cheap. A tree or a hash table
//! of millions costs several cache misses for each seek. Here a seek is appended, and now and then
//! these are sorted and merged, in sequential passes:
//!
//! ```text
//! seek ──▶ cache of 256 ──▶ recent, in order of time ──sort, merge──▶ known, sorted
//!          (streams stay)   at most an eighth of known                16 bytes each, in place
//! ```
//!
//! The shape of btt's tree, which decides a tie of the most frequent distances, is found at the end
//! from the order of first occurrence ([`super::shape`]).
//!
//! Invariants: I1 `known` is sorted, each distance is there once; I2 the counts are together the
//! number of calls of [`Distances::add`].

use super::shape::post_order;

/// Entries of the cache in front, a power of two.
const CACHE: usize = 1 << 8;
/// Recent ones that are merged at once, at least.
const RECENT_MIN: usize = 1 << 12;
/// Otherwise this part of the known distances.
const RECENT_PART: usize = 8;
/// A random odd number near 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    distance: u64,
    count: u32,
    /// The number of the seek with which it came.
    first: u32,
}

/// Counts of distances.
#[derive(Debug)]
pub(super) struct Distances {
    known: Vec<Node>,
    recent: Vec<Node>,
    /// By hash; an entry without a count is empty. Made with the first seek.
    cache: Vec<Node>,
    next: u32,
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
    pub(super) const fn new() -> Distances {
        Distances { known: Vec::new(), recent: Vec::new(), cache: Vec::new(), next: 0 }
    }

    /// Counts a distance.
    pub(super) fn add(&mut self, distance: u64) {
        if self.cache.is_empty() {
            self.cache.resize(CACHE, Node::default());
        }
        let place = (distance.wrapping_mul(SPREAD) >> 32) as usize % CACHE;
        let node = &mut self.cache[place];
        let first = self.next;
        self.next = self.next.saturating_add(1);
        if node.distance == distance {
            node.first = if node.count == 0 { first } else { node.first };
            node.count = node.count.saturating_add(1);
            return;
        }
        let before = core::mem::replace(node, Node { distance, count: 1, first });
        if before.count > 0 {
            self.recent.push(before);
            if self.recent.len() >= RECENT_MIN.max(self.known.len() / RECENT_PART) {
                self.merge();
            }
        }
    }

    /// Takes everything into `known`.
    pub(super) fn settle(&mut self) {
        self.recent.extend(self.cache.iter().filter(|node| node.count > 0));
        self.cache = Vec::new();
        self.merge();
        self.recent = Vec::new();
    }

    /// Sorts the recent ones into the known ones.
    fn merge(&mut self) {
        self.recent.sort_unstable_by_key(|node| (node.distance, node.first));
        self.recent.dedup_by(|later, kept| {
            let same = later.distance == kept.distance;
            kept.count = kept.count.saturating_add(if same { later.count } else { 0 });
            same
        });
        let old = self.known.len();
        let new = self.add_to_known();
        self.known.reserve_exact(new);
        self.known.resize(old + new, Node::default());
        // From the end, so that nothing still to be moved is overwritten.
        let (mut from, mut to) = (old, old + new);
        for node in self.recent.iter().filter(|node| node.count > 0).rev() {
            while from > 0 && self.known[from - 1].distance > node.distance {
                (from, to) = (from - 1, to - 1);
                self.known[to] = self.known[from];
            }
            to -= 1;
            self.known[to] = *node;
        }
        debug_assert_eq!(from, to, "as many places as new nodes");
        self.recent.clear();
        let room = RECENT_MIN.max(self.known.len() / RECENT_PART);
        self.recent.reserve_exact(room);
    }

    /// Adds those recent ones that are known to their counts, and takes these away; how many are
    /// new.
    fn add_to_known(&mut self) -> usize {
        let (mut at, mut new) = (0, 0);
        for node in &mut self.recent {
            while self.known.get(at).is_some_and(|known| known.distance < node.distance) {
                at += 1;
            }
            match self.known.get_mut(at).filter(|known| known.distance == node.distance) {
                Some(known) => {
                    known.count = known.count.saturating_add(node.count);
                    known.first = known.first.min(node.first);
                    node.count = 0;
                }
                None => new += 1,
            }
        }
        new
    }

    /// btt's median, when all is settled: the one that occurred at least half as often as there
    /// were seeks; of two different ones the first, of three the middle one. Otherwise 0.
    pub(super) fn median(&self, seeks: u64) -> u64 {
        let half = seeks / 2;
        let enough = |node: &&Node| u64::from(node.count) >= half;
        let mut candidates = self.known.iter().filter(enough).take(2);
        let (Some(one), another) = (candidates.next(), candidates.next()) else { return 0 };
        if another.is_none() {
            return one.distance;
        }
        if self.known.len() == 2 {
            return self.known.iter().min_by_key(|node| node.first).map_or(0, |n| n.distance);
        }
        // Three: the tree's root is the middle one, on its left the smallest.
        let [low, middle, ..] = self.known[..] else { return 0 };
        [&middle, &low].into_iter().find(enough).map_or(0, |node| node.distance)
    }

    /// The true median, when all is settled: half of the seeks are not longer (the lower one of
    /// two).
    pub(super) fn true_median(&self) -> u64 {
        let total: u64 = self.known.iter().map(|node| u64::from(node.count)).sum();
        let mut seen = 0;
        let mut until = |node: &&Node| {
            seen += u64::from(node.count);
            seen >= total.div_ceil(2)
        };
        self.known.iter().find(|node| until(node)).map_or(0, |node| node.distance)
    }

    /// The most frequent ones, when all is settled; the counts are given back to the system.
    pub(super) fn into_modes(mut self) -> Modes {
        let count = self.known.iter().map(|node| node.count).max().unwrap_or(0);
        let most = self.known.iter().filter(|node| node.count == count);
        let few: Vec<u64> = most.take(2).map(|node| node.distance).collect();
        if few.len() < 2 {
            return Modes { count: count.into(), distances: few };
        }
        // The last first: they are taken from the end.
        self.known.sort_unstable_by_key(|node| core::cmp::Reverse(node.first));
        let total = self.known.len();
        let ordered = core::iter::from_fn(|| {
            let node = self.known.pop();
            // Memory is given back now and then, while the other side grows.
            if self.known.len().is_multiple_of(1 << 16) {
                self.known.shrink_to_fit();
            }
            node
        });
        let wanted = |node: Node| (node.distance, node.count == count);
        let distances = post_order(total, ordered.map(wanted));
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
        distances.settle();
        distances
    }

    /// Does btt's median follow its rule, which gives no real median?
    #[test]
    fn the_median_is_btts_and_no_median() {
        let median = |list: &[u64]| of(list).median(list.len() as u64);
        // Two different ones, each at least 2/2 times: the first.
        assert_eq!(median(&[792, 100]), 792);
        // Three, each at least floor(3/2) = 1 time: the middle value.
        assert_eq!(median(&[100, 792, 4092]), 792);
        // 3 of 4 are 0.
        assert_eq!(median(&[8, 0, 0, 0]), 0);
        // 5/2 = 2: 192 and 200 are candidates, 92 in front of them is not; the middle one is.
        assert_eq!(median(&[92, 200, 192, 200, 192]), 192);
        // The middle one is no candidate: the smallest.
        assert_eq!(median(&[100, 200, 192, 200, 100]), 100);
        // Fully random: nothing occurs half as often as there are seeks.
        assert_eq!(median(&[1, 2, 3, 4, 5, 6]), 0);
        assert_eq!(median(&[]), 0);
        assert_eq!(of(&[1, 9, 2, 8, 7]).true_median(), 7);
        assert_eq!(of(&[1, 9]).true_median(), 1);
    }

    proptest! {
        /// Are counts those of a map, sorted, and is the order that of first occurrence?
        #[test]
        fn counts_are_those_of_a_map(seed in any::<u64>(), count in 0..20_000_u64,
                                     range in 1..20_000_u64) {
            let scattered = |at: u64| (at ^ seed).wrapping_mul(SPREAD) >> 20;
            let list: Vec<u64> = (0..count).map(|at| scattered(at) % range).collect();
            let distances = of(&list);
            let mut naive: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
            for (at, distance) in (0..).zip(&list) {
                naive.entry(*distance).or_insert((0, at)).0 += 1;
            }
            let pair = |node: &Node| (node.distance, (node.count, node.first));
            let found = distances.known.iter().map(pair);
            prop_assert!(found.eq(naive));
        }
    }
}

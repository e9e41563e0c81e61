// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shape: the post-order of a red-black tree that was never built.
//!
//! Which of several equally frequent distances btt prints first depends on the shape of its tree,
//! and that on the order in which millions of keys came. Building it costs a walk through memory
//! for each key. But a red-black tree is a 2-3-4 tree in disguise (a black node with its red
//! children is one node of up to three keys), and a node of that tree splits by its own keys only,
//! whatever is above it. So it can be found level by level, in sequential passes:
//!
//! ```text
//! keys in order of time   50 20 80 │ 60 30 90 …      three are a node, the fourth splits it:
//!                         the middle one, 50, goes up at the time of the fourth (60)
//!      below 50: 20 30 …      above 50: 80 60 90 …   and each side goes on by itself
//! ```
//!
//! That is quicksort with the middle of the first three as pivot. What went up, in order of time,
//! is the next level. Within a node of two keys the one that came first is black, in one of three
//! the middle one; from there the order of the binary tree follows.
//!
//! Where keys came in order quicksort would take forever; then the tree is built after all, which
//! is quick then: its places are near each other.
//!
//! Invariant: I1 the order is that of [`Forest`] with plain insertion (a test holds both side by
//! side).
//!
//! Source: Guibas and Sedgewick, "A dichromatic framework for balanced trees" (1978); BTT-18.

use super::tree::{Forest, NONE, Side};

/// Keys moved for each key, at most, before the tree is built after all.
const PATIENCE: usize = 80;
/// In a time: this key is wanted.
const WANTED: u32 = 1 << 31;

/// How the keys of one node of the 2-3-4 tree hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    /// One key.
    One,
    /// Two, the smaller one on top.
    LowOnTop,
    /// Two nodes, the larger one on top.
    HighOnTop,
    /// Three nodes, the middle one on top.
    Three,
}

/// The keys that are wanted, in post-order of the red-black tree into which all were inserted in
/// this order; no key may come twice.
pub(super) fn post_order(count: usize, keys: impl Iterator<Item = (u64, bool)>) -> Vec<u64> {
    let (mut sorted, mut times) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (time, (key, wanted)) in (0_u32..).zip(keys) {
        sorted.push(key);
        times.push(time | if wanted { WANTED } else { 0 });
    }
    if sorted.is_empty() {
        return sorted;
    }
    let Some(levels) = levels(&mut sorted, &mut times) else {
        return by_the_tree(&sorted, &times);
    };
    let mut walk = Walk { levels: levels.iter().map(|level| level.iter()).collect(), next: 0 };
    let mut order = Vec::new();
    walk.node(levels.len(), &mut |at| {
        if times[at] & WANTED != 0 {
            order.push(sorted[at]);
        }
    });
    order
}

/// The nodes of each level from below, each level's from left to right; the keys are sorted. `None`
/// if they came too much in order for that.
fn levels(sorted: &mut [u64], times: &mut [u32]) -> Option<Vec<Vec<Node>>> {
    let mut patience = sorted.len().saturating_mul(PATIENCE);
    let (mut up, nodes) = split(sorted, times, &mut patience)?;
    let mut levels = vec![nodes];
    while !up.is_empty() {
        let mut times: Vec<u32> = (0_u32..).take(up.len()).collect();
        let (above, nodes) = split(&mut up, &mut times, &mut patience)?;
        levels.push(nodes);
        up = above;
    }
    Some(levels)
}

/// Splits one level, whose keys are in order of time, into its nodes, and sorts it; what went up
/// comes in order of time.
fn split(
    keys: &mut [u64],
    times: &mut [u32],
    patience: &mut usize,
) -> Option<(Vec<u64>, Vec<Node>)> {
    let mut nodes = Vec::new();
    // By time, which place went up then.
    let mut went_up = vec![NONE; keys.len()];
    let mut scratch = Vec::new();
    let mut ranges = vec![(0, keys.len())];
    while let Some((from, to)) = ranges.pop() {
        if to - from < 4 {
            nodes.push(node(&mut keys[from..to], &mut times[from..to]));
            continue;
        }
        *patience = patience.checked_sub(to - from)?;
        let when = times[from + 3] & !WANTED;
        let pivot = from + partition(&mut keys[from..to], &mut times[from..to], &mut scratch);
        went_up[when as usize] = u32::try_from(pivot).expect("as many keys as chunks can hold");
        ranges.push((pivot + 1, to));
        ranges.push((from, pivot));
    }
    drop(scratch);
    let up = went_up.into_iter().filter(|at| *at != NONE).map(|at| keys[at as usize]).collect();
    Some((up, nodes))
}

/// One node of up to three keys in order of time; sorts it.
fn node(keys: &mut [u64], times: &mut [u32]) -> Node {
    let kind = match *keys {
        [] | [_] => Node::One,
        [first, second] if first < second => Node::LowOnTop,
        [_, _] => Node::HighOnTop,
        _ => Node::Three,
    };
    for (low, high) in [(0, 1), (1, 2), (0, 1)] {
        if high < keys.len() && keys[low] > keys[high] {
            keys.swap(low, high);
            times.swap(low, high);
        }
    }
    kind
}

/// Partitions the keys by the middle one of the first three, both sides in order of time; returns
/// its place.
fn partition(keys: &mut [u64], times: &mut [u32], scratch: &mut Vec<(u64, u32)>) -> usize {
    let (a, b, c) = (keys[0], keys[1], keys[2]);
    let pivot = a.max(b).min(a.min(b).max(c));
    let mut time = 0;
    let low = keys.iter().filter(|key| **key < pivot).count();
    // The smaller side goes over the scratch.
    let keep_low = low > keys.len() / 2;
    let mut kept = 0;
    scratch.clear();
    for at in 0..keys.len() {
        let key = keys[at];
        if key == pivot {
            time = times[at];
        } else if (key < pivot) == keep_low {
            (keys[kept], times[kept]) = (key, times[at]);
            kept += 1;
        } else {
            scratch.push((key, times[at]));
        }
    }
    let mut aside = low + 1;
    if !keep_low {
        keys.copy_within(..kept, low + 1);
        times.copy_within(..kept, low + 1);
        aside = 0;
    }
    for (at, (key, time)) in (aside..).zip(scratch.iter()) {
        (keys[at], times[at]) = (*key, *time);
    }
    (keys[low], times[low]) = (pivot, time);
    low
}

/// Goes through the levels at once.
struct Walk<'a> {
    levels: Vec<core::slice::Iter<'a, Node>>,
    /// The place in sorted order of the key that comes next.
    next: usize,
}

impl Walk<'_> {
    /// Takes the next key's place.
    const fn key(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// The node that comes next among those below `level`, and all below it.
    fn node(&mut self, level: usize, tell: &mut impl FnMut(usize)) {
        let Some(below) = level.checked_sub(1) else { return };
        let Some(node) = self.levels[below].next() else { return };
        self.node(below, tell);
        let first = self.key();
        match node {
            Node::One => {
                self.node(below, tell);
                tell(first);
            }
            Node::LowOnTop => {
                self.node(below, tell);
                let second = self.key();
                self.node(below, tell);
                tell(second);
                tell(first);
            }
            Node::HighOnTop => {
                self.node(below, tell);
                tell(first);
                let second = self.key();
                self.node(below, tell);
                tell(second);
            }
            Node::Three => {
                self.node(below, tell);
                tell(first);
                let second = self.key();
                self.node(below, tell);
                let third = self.key();
                self.node(below, tell);
                tell(third);
                tell(second);
            }
        }
    }
}

/// The same from a tree that was built.
fn by_the_tree(keys: &[u64], times: &[u32]) -> Vec<u64> {
    let mut by_time = vec![0; keys.len()];
    for (at, time) in (0_u32..).zip(times) {
        by_time[(time & !WANTED) as usize] = at;
    }
    let (mut forest, mut root) = (Forest::new(), NONE);
    for at in &by_time {
        let node = forest.grow();
        let (mut parent, mut below, mut side) = (NONE, root, Side::Left);
        while below != NONE {
            parent = below;
            let other = keys[by_time[below as usize] as usize];
            side = if keys[*at as usize] < other { Side::Left } else { Side::Right };
            below = forest.child(below, side);
        }
        forest.insert(&mut root, parent, side, node);
    }
    let places = forest.post_order(root).into_iter().map(|node| by_time[node as usize] as usize);
    places.filter(|at| times[*at] & WANTED != 0).map(|at| keys[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(keys: &[u64]) -> Vec<u64> {
        post_order(keys.len(), keys.iter().map(|key| (*key, true)))
    }

    /// Is the order of small trees the one that can be drawn by hand?
    #[test]
    fn small_trees_can_be_drawn_by_hand() {
        // 100 with 792 on its right: what is below goes first.
        assert_eq!(all(&[100, 792]), [792, 100]);
        assert_eq!(all(&[100, 4092, 792]), [100, 4092, 792]);
        // The fourth recolours: 2 on top, 1 and 3 black, 4 red below 3.
        assert_eq!(all(&[1, 2, 3, 4]), [1, 4, 3, 2]);
    }

    /// Are keys in order, forwards or backwards, printed in the tree's order although the passes
    /// give up?
    #[test]
    fn ordered_keys_go_through_the_tree() {
        let keys: Vec<u64> = (0..5000).collect();
        let (mut sorted, mut times) = (keys.clone(), (0..5000).collect::<Vec<u32>>());
        assert!(levels(&mut sorted, &mut times).is_none());
        let times: Vec<u32> = (0..5000).map(|time| time | WANTED).collect();
        assert_eq!(all(&keys), by_the_tree(&keys, &times));
        assert_eq!(all(&keys).len(), 5000);
    }

    proptest! {
        /// Is it the order of the tree with plain insertion (I1)?
        #[test]
        fn it_is_the_order_of_the_tree(
            keys in proptest::collection::hash_set(any::<u64>(), 0..600),
            every in 1..4_u32, range in 1..u64::MAX,
        ) {
            let mut keys: Vec<u64> = keys.into_iter().map(|key| key % range).collect();
            let mut seen = std::collections::BTreeSet::new();
            keys.retain(|key| seen.insert(*key));
            let wanted = |time: u32| time.is_multiple_of(every);
            let asked = (0..).zip(&keys).map(|(time, key)| (*key, wanted(time)));
            let passes = post_order(keys.len(), asked);
            let times: Vec<u32> = (0..).take(keys.len())
                .map(|time| time | if wanted(time) { WANTED } else { 0 }).collect();
            prop_assert_eq!(passes, by_the_tree(&keys, &times));
        }
    }
}

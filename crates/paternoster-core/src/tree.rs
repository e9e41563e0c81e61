// SPDX-License-Identifier: MIT OR Apache-2.0
//! One balanced tree for everything that is kept in order: requests by sector, deadlines,
//! positions, service trees.
//!
//! # Idea
//! An AVL tree whose nodes are stored separately from a slab, as [`crate::list`]'s links are: node
//! `i` belongs to slot `i`. Many trees ([`Root`]) share one set of [`Nodes`], since a slot is in at
//! most one of them at a time; a scheduler with a thousand queues has a thousand roots and one
//! array.
//!
//! Each node has a *summary* of its subtree, which the key type defines ([`TreeKey::combine`]):
//! nothing for a plain order, the least virtual start for a service tree, so that finding "the
//! least finish among those whose start has come" takes one descent.
//!
//! ```text
//!              (F 9, S 4 | min 1)                 | summary = least S below
//!             /                  \
//!   (F 6, S 5 | min 5)      (F 12, S 1 | min 1)
//! ```
//!
//! A tree of few slots is kept as a row: its slots know their neighbours, and walking a handful of
//! them is cheaper than keeping a balance (`row.rs`; balancing is in `balance.rs`). Trees with
//! summaries, which are searched from the top, are always trees.
//!
//! # Invariants
//! I1  In order, no key comes before its predecessor's; equal keys are in the order of their
//!     insertion.
//! I2  The heights of two siblings differ by at most one, as `balance` says (AVL): a tree of n is
//!     lower than 1.45 log2(n + 2). Or it is a row of few slots, and has no top.
//! I3  Each summary is `combine` of the node's own key and its children's summaries.
//! I4  A slot is in some tree exactly when it is marked as a member.
//! I5  Each node knows its neighbours in order (a threaded tree): the next slot is one step away.
//!
//! Source: Adelson-Velsky and Landis 1962. Linux uses a red-black tree in these places; the kind of
//! balanced tree makes no difference to any decision.

mod balance;
mod row;

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::slab::NIL;

use row::{ROW_AGAIN, ROW_MOST};

/// The order of a tree.
pub trait TreeKey: Copy + Default + Debug {
    /// What a node knows of its subtree.
    type Summary: Copy + Default + PartialEq + Debug;

    /// Whether there are summaries; if not, none is computed.
    const SUMMED: bool = true;

    /// Whether `self` comes before `other`. Equal keys keep the order of insertion.
    fn before(&self, other: &Self) -> bool;

    /// The summary of a node with this key and these children.
    fn combine(&self, left: Option<&Self::Summary>, right: Option<&Self::Summary>)
    -> Self::Summary;
}

/// Sectors, deadlines, and times that may lie before the start: in numerical order, without
/// summaries.
macro_rules! plain_key {
    ($number:ty) => {
        impl TreeKey for $number {
            type Summary = ();

            const SUMMED: bool = false;

            fn before(&self, other: &$number) -> bool {
                self < other
            }

            fn combine(&self, _: Option<&()>, _: Option<&()>) {}
        }
    };
}

plain_key!(u64);
plain_key!(i64);

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Aligned, so that no short node crosses a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Node<K: TreeKey> {
    key: K,
    summary: K::Summary,
    parent: u32,
    child: [u32; 2],
    /// The slots before and after in order (I5).
    thread: [u32; 2],
    /// Height of the right subtree minus that of the left: -1, 0 or 1 (I2).
    balance: i8,
    /// Whether the slot is in a tree (I4).
    member: bool,
}

impl<K: TreeKey> Node<K> {
    fn outside() -> Node<K> {
        Node {
            key: K::default(),
            summary: K::Summary::default(),
            parent: NIL,
            child: [NIL; 2],
            thread: [NIL; 2],
            balance: 0,
            member: false,
        }
    }
}

/// One node per slot, shared by many trees.
#[derive(Debug, Clone)]
pub struct Nodes<K: TreeKey>(Vec<Node<K>>);

/// A tree in some [`Nodes`]; always pass it the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    root: u32,
    len: u32,
    /// The first and the last slot.
    ends: [u32; 2],
}

impl Default for Root {
    fn default() -> Root {
        Root::new()
    }
}

const fn some(index: u32) -> Option<u32> {
    if index == NIL { None } else { Some(index) }
}

/// Reports a caller's error. Apart, so that formatting costs nothing otherwise.
#[cold]
#[inline(never)]
fn refuse(index: u32, why: &str) -> ! {
    panic!("slot {index} {why}")
}

impl<K: TreeKey> Nodes<K> {
    /// Nodes for slots 0 to `capacity`, none of them in a tree.
    #[must_use]
    pub fn with_capacity(capacity: u32) -> Nodes<K> {
        Nodes((0..capacity).map(|_| Node::outside()).collect())
    }

    /// Whether slot `index` is in some tree of these nodes.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.0[index as usize].member
    }

    /// The key of slot `index`, if it is in a tree.
    #[must_use]
    pub fn key(&self, index: u32) -> Option<K> {
        let node = &self.0[index as usize];
        node.member.then_some(node.key)
    }

    /// The summary of the subtree below slot `index`, itself included.
    #[must_use]
    pub fn summary(&self, index: u32) -> Option<K::Summary> {
        let node = &self.0[index as usize];
        node.member.then_some(node.summary)
    }

    /// The left child of slot `index`: for descents guided by summaries.
    #[must_use]
    pub fn left(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].child[LEFT])
    }

    /// The right child of slot `index`.
    #[must_use]
    pub fn right(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].child[RIGHT])
    }

    /// The slot that follows `index` in order.
    #[must_use]
    pub fn next(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].thread[RIGHT])
    }

    /// The slot that precedes `index` in order.
    #[must_use]
    pub fn prev(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].thread[LEFT])
    }

    /// Whether slot `index` would keep its place with `key`: after all that are equal or before,
    /// and before all others.
    fn fits(&self, index: u32, key: &K) -> bool {
        let [before, behind] = self.0[index as usize].thread;
        some(before).is_none_or(|before| !key.before(&self.0[before as usize].key))
            && some(behind).is_none_or(|behind| key.before(&self.0[behind as usize].key))
    }

    /// On which side of `parent` its child `index` is.
    fn side_of(&self, parent: u32, index: u32) -> usize {
        usize::from(self.0[parent as usize].child[RIGHT] == index)
    }

    fn expected_summary(&self, index: u32) -> K::Summary {
        let node = &self.0[index as usize];
        let below =
            |side: usize| some(node.child[side]).map(|child| &self.0[child as usize].summary);
        node.key.combine(below(LEFT), below(RIGHT))
    }

    /// Updates the summary of `index`; whether it has changed.
    fn refresh(&mut self, index: u32) -> bool {
        if !K::SUMMED {
            return false;
        }
        let summary = self.expected_summary(index);
        let before = core::mem::replace(&mut self.0[index as usize].summary, summary);
        before != summary
    }

    /// Updates the summaries from `at` upwards while they change, and at least through `through`,
    /// if that is above.
    fn refresh_upwards(&mut self, mut at: u32, mut through: u32) {
        if !K::SUMMED {
            return;
        }
        while at != NIL {
            let changed = self.refresh(at);
            if at == through {
                through = NIL;
            }
            if !changed && through == NIL {
                return;
            }
            at = self.0[at as usize].parent;
        }
    }
}

impl Root {
    /// An empty tree.
    #[must_use]
    pub const fn new() -> Root {
        Root { root: NIL, len: 0, ends: [NIL; 2] }
    }

    /// How many slots are in it.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot at the top: where descents guided by summaries begin. A row has none.
    #[must_use]
    pub const fn top(&self) -> Option<u32> {
        some(self.root)
    }

    /// The first slot in order.
    #[must_use]
    pub const fn first(&self) -> Option<u32> {
        some(self.ends[LEFT])
    }

    /// The last slot in order.
    #[must_use]
    pub const fn last(&self) -> Option<u32> {
        some(self.ends[RIGHT])
    }

    /// The first slot whose key is not before `key`.
    #[must_use]
    pub fn lower_bound<K: TreeKey>(&self, nodes: &Nodes<K>, key: &K) -> Option<u32> {
        if self.is_row::<K>() {
            return self.row_bound(nodes, key);
        }
        let (mut at, mut found) = (self.root, NIL);
        while at != NIL {
            let node = &nodes.0[at as usize];
            let before = node.key.before(key);
            found = if before { found } else { at };
            at = node.child[usize::from(before)];
        }
        some(found)
    }

    /// Inserts slot `index` with `key`, after those with an equal key.
    #[inline(never)]
    pub fn insert<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        if nodes.contains(index) {
            refuse(index, "is in a tree already");
        }
        if self.is_row::<K>() {
            if self.len < ROW_MOST {
                return self.insert_in_row(nodes, index, key);
            }
            self.plant(nodes);
        }
        self.insert_in_tree(nodes, index, key);
    }

    #[inline(never)]
    fn insert_in_tree<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        let (mut parent, mut at, mut side) = (NIL, self.root, LEFT);
        while at != NIL {
            let node = &nodes.0[at as usize];
            parent = at;
            side = usize::from(!key.before(&node.key));
            at = node.child[side];
        }
        nodes.0[index as usize] = Node { key, parent, member: true, ..Node::outside() };
        nodes.refresh(index);
        self.put_child(nodes, parent, side, index);
        self.thread_in(nodes, parent, side, index);
        self.len += 1;
        // A rotation changes no summary above it.
        nodes.refresh_upwards(parent, NIL);
        self.grown(nodes, parent, index);
    }

    /// Links a new leaf on `side` of `parent` into the order, next to its parent.
    fn thread_in<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        parent: u32,
        side: usize,
        index: u32,
    ) {
        let beyond = if parent == NIL { NIL } else { nodes.0[parent as usize].thread[side] };
        nodes.0[index as usize].thread[side] = beyond;
        nodes.0[index as usize].thread[1 - side] = parent;
        match some(parent) {
            Some(parent) => nodes.0[parent as usize].thread[side] = index,
            None => self.ends[1 - side] = index,
        }
        match some(beyond) {
            Some(beyond) => nodes.0[beyond as usize].thread[1 - side] = index,
            None => self.ends[side] = index,
        }
    }

    fn thread_out<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, thread: [u32; 2]) {
        let [before, behind] = thread;
        self.thread_between(nodes, thread, [behind, before]);
    }

    /// Makes `next` and `prev` the neighbours of the slots before and after a place. `NIL`, where
    /// the tree ends, is the number of no slot.
    #[inline]
    fn thread_between<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        [before, behind]: [u32; 2],
        [next, prev]: [u32; 2],
    ) {
        match nodes.0.get_mut(before as usize) {
            Some(before) => before.thread[RIGHT] = next,
            None => self.ends[LEFT] = next,
        }
        match nodes.0.get_mut(behind as usize) {
            Some(behind) => behind.thread[LEFT] = prev,
            None => self.ends[RIGHT] = prev,
        }
    }

    /// Removes slot `index`, which is in this tree.
    #[inline(never)]
    pub fn remove<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32) {
        if !nodes.contains(index) {
            refuse(index, "is in no tree");
        }
        if self.is_row::<K>() {
            self.remove_from_row(nodes, index);
        } else {
            self.remove_from_tree(nodes, index);
        }
    }

    // Apart, so that a row does not pay for the setup that a tree needs.
    #[inline(never)]
    fn remove_from_tree<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32) {
        let node = nodes.0[index as usize];
        let side = if node.parent == NIL { LEFT } else { nodes.side_of(node.parent, index) };
        // Where a subtree became lower, and on which side.
        let mut heir = NIL;
        let (at, lower) = if node.child[LEFT] == NIL || node.child[RIGHT] == NIL {
            let child = if node.child[LEFT] == NIL { node.child[RIGHT] } else { node.child[LEFT] };
            self.put_child(nodes, node.parent, side, child);
            if child != NIL {
                nodes.0[child as usize].parent = node.parent;
            }
            (node.parent, side)
        } else {
            heir = node.thread[RIGHT];
            self.put_successor(nodes, &node, index, side)
        };
        self.thread_out(nodes, node.thread);
        nodes.0[index as usize] = Node::outside();
        self.len -= 1;
        nodes.refresh_upwards(at, heir);
        if !K::SUMMED && self.len <= ROW_AGAIN {
            self.root = NIL;
        } else {
            self.shrunk(nodes, at, lower);
        }
    }

    /// Puts the successor of `index`, which has two children, in its place. Returns where a subtree
    /// became lower.
    fn put_successor<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        node: &Node<K>,
        index: u32,
        side: usize,
    ) -> (u32, usize) {
        let heir = node.thread[RIGHT];
        let Node { parent: heir_parent, child: [_, orphan], .. } = nodes.0[heir as usize];
        let lower = if heir_parent == index {
            (heir, RIGHT)
        } else {
            nodes.0[heir_parent as usize].child[LEFT] = orphan;
            if orphan != NIL {
                nodes.0[orphan as usize].parent = heir_parent;
            }
            nodes.0[heir as usize].child[RIGHT] = node.child[RIGHT];
            nodes.0[node.child[RIGHT] as usize].parent = heir;
            (heir_parent, LEFT)
        };
        let place = &mut nodes.0[heir as usize];
        place.child[LEFT] = node.child[LEFT];
        place.parent = node.parent;
        place.balance = node.balance;
        // The nodes above have used the summary of the removed node for this subtree.
        place.summary = node.summary;
        nodes.0[node.child[LEFT] as usize].parent = heir;
        self.put_child(nodes, node.parent, side, heir);
        lower
    }

    /// Moves slot `index` to its place in order with a new key.
    #[inline]
    pub fn rekey<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        if !K::SUMMED && nodes.fits(index, &key) {
            nodes.0[index as usize].key = key;
            return;
        }
        self.move_to(nodes, index, key);
    }

    #[inline(never)]
    fn move_to<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        if self.is_row::<K>() {
            return self.move_in_row(nodes, index, key);
        }
        self.remove(nodes, index);
        self.insert(nodes, index, key);
    }

    /// The slots in order.
    pub fn iter<'a, K: TreeKey>(
        &self,
        nodes: &'a Nodes<K>,
    ) -> impl Iterator<Item = u32> + use<'a, K> {
        core::iter::successors(self.first(), |&index| nodes.next(index))
    }

    /// Verifies I1 to I5 in O(n).
    ///
    /// # Errors
    /// The invariant that is broken.
    pub fn check<K: TreeKey>(&self, nodes: &Nodes<K>) -> Result<(), &'static str> {
        let (mut previous, mut count): (Option<K>, u32) = (None, 0);
        for index in self.iter(nodes) {
            let node = &nodes.0[index as usize];
            if !node.member {
                return Err("tree I4: a slot that is no member");
            }
            if previous.is_some_and(|previous| node.key.before(&previous)) {
                return Err("tree I1: out of order");
            }
            if K::SUMMED && nodes.expected_summary(index) != node.summary {
                return Err("tree I3: a summary is not that of its subtree");
            }
            if nodes.next(index).map_or(self.last(), |next| nodes.prev(next)) != Some(index) {
                return Err("tree I5: a thread does not lead back");
            }
            previous = Some(node.key);
            count += 1;
        }
        if count != self.len {
            return Err("tree: more or fewer slots than counted");
        }
        if self.is_row::<K>() {
            return if count <= ROW_MOST { Ok(()) } else { Err("tree I2: a row of many") };
        }
        if count != Root::count(nodes, self.root) {
            return Err("tree: more or fewer slots below the top than in order");
        }
        Root::check_balance(nodes, self.root).map(|_| ())
    }

    /// The number of slots below `index`, itself included. Recurses as deep as the tree is high.
    fn count<K: TreeKey>(nodes: &Nodes<K>, index: u32) -> u32 {
        some(index).map_or(0, |index| {
            let [left, right] = nodes.0[index as usize].child;
            1 + Root::count(nodes, left) + Root::count(nodes, right)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Ordered by the first, summarising the least of the second: the shape of a service tree.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    struct Entity(u64, u64);

    impl TreeKey for Entity {
        type Summary = u64;

        fn before(&self, other: &Entity) -> bool {
            self.0 < other.0
        }

        fn combine(&self, left: Option<&u64>, right: Option<&u64>) -> u64 {
            self.1.min(left.copied().unwrap_or(u64::MAX)).min(right.copied().unwrap_or(u64::MAX))
        }
    }

    proptest! {
        /// Does the tree do what a sorted `Vec` does, with ties in the order of insertion and
        /// correct summaries?
        #[test]
        fn equals_a_sorted_vec(
            steps in prop::collection::vec((0u32..64, 0u64..40, 0u64..100), 1..400)
        ) {
            let mut nodes = Nodes::with_capacity(64);
            let mut root = Root::new();
            let mut model: Vec<(Entity, u32)> = Vec::new();
            for (index, key, start) in steps {
                if let Some(at) = model.iter().position(|&(_, other)| other == index) {
                    root.remove(&mut nodes, index);
                    model.remove(at);
                } else {
                    let key = Entity(key, start);
                    root.insert(&mut nodes, index, key);
                    let at = model.partition_point(|(other, _)| other.0 <= key.0);
                    model.insert(at, (key, index));
                }
                prop_assert_eq!(root.check(&nodes), Ok(()));
                prop_assert!(root.iter(&nodes).eq(model.iter().map(|&(_, index)| index)));
                let backwards =
                    core::iter::successors(root.last(), |&index| nodes.prev(index));
                prop_assert!(backwards.eq(model.iter().rev().map(|&(_, index)| index)));
                let bound = Entity(start.min(39), 0);
                let expected = model.iter().find(|(other, _)| other.0 >= bound.0).map(|m| m.1);
                prop_assert_eq!(root.lower_bound(&nodes, &bound), expected);
                let least = model.iter().map(|(entity, _)| entity.1).min();
                prop_assert_eq!(root.top().and_then(|top| nodes.summary(top)), least);
            }
        }
    }

    proptest! {
        /// Does a tree without summaries do the same, also where it becomes a row and a tree again?
        /// Of 64 slots in and out about half are in: 400 steps cross 8 and 16 on the way.
        #[test]
        fn rows_and_trees_equal_a_sorted_vec(
            steps in prop::collection::vec((0u32..64, 0u64..40, 0u64..3), 1..400)
        ) {
            let mut nodes = Nodes::with_capacity(64);
            let mut root = Root::new();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (index, key, way) in steps {
                let known = model.iter().position(|&(_, other)| other == index);
                if let Some(at) = known {
                    model.remove(at);
                }
                match known {
                    Some(_) if way > 0 => root.remove(&mut nodes, index),
                    Some(_) => root.rekey(&mut nodes, index, key),
                    None => root.insert(&mut nodes, index, key),
                }
                if known.is_none() || way == 0 {
                    model.insert(model.partition_point(|&(other, _)| other <= key), (key, index));
                }
                prop_assert_eq!(root.check(&nodes), Ok(()));
                prop_assert!(root.iter(&nodes).eq(model.iter().map(|&(_, index)| index)));
                let expected = model.iter().find(|&&(other, _)| other >= key).map(|m| m.1);
                prop_assert_eq!(root.lower_bound(&nodes, &key), expected);
            }
            // And down to empty, tree or row.
            for (_, index) in model.drain(..) {
                root.remove(&mut nodes, index);
                prop_assert_eq!(root.check(&nodes), Ok(()));
            }
            prop_assert!(root.is_empty() && root.first().is_none());
        }
    }

    /// Is a tree of 1023 ascending keys, the worst order for a naive tree, at most 14 high?
    /// I2: 1.45 * log2(1025) = 14.5.
    #[test]
    fn stays_low_when_keys_ascend() {
        let mut nodes = Nodes::with_capacity(1023);
        let mut root = Root::new();
        for index in 0..1023 {
            root.insert(&mut nodes, index, u64::from(index));
        }
        assert!(Root::check_balance(&nodes, root.root).unwrap() <= 14);
    }
}

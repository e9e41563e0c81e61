// SPDX-License-Identifier: MIT OR Apache-2.0
//! One balanced tree for everything that is kept in order: requests by sector, deadlines, positions,
//! service trees.
//!
//! # Idea
//! An AVL tree whose nodes lie beside a slab, as [`crate::list`]'s links do: node `i` belongs to slot `i`.
//! Many trees ([`Root`]) share one set of [`Nodes`], since a slot is in at most one of them at a time;
//! a scheduler with a thousand queues has a thousand roots and one array.
//!
//! Each node carries a *summary* of its subtree, which the key type defines ([`TreeKey::combine`]): nothing for a
//! plain order, the least virtual start for a service tree, so that "least finish among those whose start has
//! come" is one descent.
//!
//! ```text
//!              (F 9, S 4 | min 1)                 | summary = least S below
//!             /                  \
//!   (F 6, S 5 | min 5)      (F 12, S 1 | min 1)
//! ```
//!
//! # Invariants
//! I1  In order, no key comes before its predecessor's; equal keys stand in the order of their insertion.
//! I2  The heights of two siblings differ by at most one (AVL), so a tree of n has a height below 1.45 log2(n + 2).
//! I3  Each summary is what `combine` says of the node's own key and its children's summaries.
//! I4  A slot is in some tree exactly when its height is not zero.
//!
//! Source: Adelson-Velsky and Landis 1962. Linux uses a red-black tree in these places; which balanced tree it is
//! makes no difference to a decision.

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::slab::NIL;

/// What a tree is ordered by.
pub trait TreeKey: Copy + Debug {
    /// What a node knows of its subtree.
    type Summary: Copy + PartialEq + Debug;

    /// Whether `self` stands before `other`. Equal keys keep the order of insertion.
    fn before(&self, other: &Self) -> bool;

    /// The summary of a node with this key and these children.
    fn combine(&self, left: Option<&Self::Summary>, right: Option<&Self::Summary>)
    -> Self::Summary;
}

/// Sectors, deadlines: in numerical order, nothing to sum up.
impl TreeKey for u64 {
    type Summary = ();

    fn before(&self, other: &u64) -> bool {
        self < other
    }

    fn combine(&self, _: Option<&()>, _: Option<&()>) {}
}

#[derive(Debug, Clone)]
struct Node<K: TreeKey> {
    key: Option<K>,
    summary: Option<K::Summary>,
    parent: u32,
    left: u32,
    right: u32,
    /// Of the subtree; a leaf has 1, a slot in no tree 0 (I4).
    height: u8,
}

/// One node per slot, shared by many trees.
#[derive(Debug, Clone)]
pub struct Nodes<K: TreeKey>(Vec<Node<K>>);

/// A tree in some [`Nodes`]; always pass it the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    root: u32,
    len: u32,
}

impl Default for Root {
    fn default() -> Root {
        Root { root: NIL, len: 0 }
    }
}

const fn some(index: u32) -> Option<u32> {
    if index == NIL { None } else { Some(index) }
}

impl<K: TreeKey> Nodes<K> {
    /// Nodes for slots 0 to `capacity`, none of them in a tree.
    #[must_use]
    pub fn with_capacity(capacity: u32) -> Nodes<K> {
        let node = Node { key: None, summary: None, parent: NIL, left: NIL, right: NIL, height: 0 };
        Nodes((0..capacity).map(|_| node.clone()).collect())
    }

    /// Whether slot `index` is in some tree of these nodes.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.0[index as usize].height != 0
    }

    /// The key under which slot `index` stands, if it is in a tree.
    #[must_use]
    pub fn key(&self, index: u32) -> Option<K> {
        self.0[index as usize].key
    }

    /// The summary of the subtree below slot `index`, itself included.
    #[must_use]
    pub fn summary(&self, index: u32) -> Option<K::Summary> {
        self.0[index as usize].summary
    }

    /// The left child of slot `index`: for descents that are guided by summaries.
    #[must_use]
    pub fn left(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].left)
    }

    /// The right child of slot `index`.
    #[must_use]
    pub fn right(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].right)
    }

    /// The slot that follows `index` in order.
    #[must_use]
    pub fn next(&self, index: u32) -> Option<u32> {
        match self.right(index) {
            Some(right) => Some(self.leftmost(right)),
            None => {
                self.climb(index, |nodes, parent, child| nodes.0[parent as usize].left == child)
            }
        }
    }

    /// The slot that precedes `index` in order.
    #[must_use]
    pub fn prev(&self, index: u32) -> Option<u32> {
        match self.left(index) {
            Some(left) => Some(self.rightmost(left)),
            None => {
                self.climb(index, |nodes, parent, child| nodes.0[parent as usize].right == child)
            }
        }
    }

    /// Up from `index` to the first parent for which `arrived` holds.
    fn climb(&self, index: u32, arrived: impl Fn(&Self, u32, u32) -> bool) -> Option<u32> {
        let mut child = index;
        loop {
            let parent = some(self.0[child as usize].parent)?;
            if arrived(self, parent, child) {
                return Some(parent);
            }
            child = parent;
        }
    }

    fn leftmost(&self, mut index: u32) -> u32 {
        while let Some(left) = self.left(index) {
            index = left;
        }
        index
    }

    fn rightmost(&self, mut index: u32) -> u32 {
        while let Some(right) = self.right(index) {
            index = right;
        }
        index
    }

    fn height(&self, index: u32) -> u8 {
        if index == NIL { 0 } else { self.0[index as usize].height }
    }

    /// What height and summary of `index` follow from its children.
    fn expected(&self, index: u32) -> (u8, Option<K::Summary>) {
        let node = &self.0[index as usize];
        let below =
            |child: u32| some(child).and_then(|child| self.0[child as usize].summary.as_ref());
        let summary = node.key.as_ref().map(|key| key.combine(below(node.left), below(node.right)));
        (1 + self.height(node.left).max(self.height(node.right)), summary)
    }

    /// Height and summary of `index` from its children; whether either changed.
    fn refresh(&mut self, index: u32) -> bool {
        let (height, summary) = self.expected(index);
        let node = &mut self.0[index as usize];
        let changed = height != node.height || summary != node.summary;
        node.height = height;
        node.summary = summary;
        changed
    }
}

impl Root {
    /// An empty tree.
    #[must_use]
    pub const fn new() -> Root {
        Root { root: NIL, len: 0 }
    }

    /// How many slots are in it.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot at the top: where descents guided by summaries begin.
    #[must_use]
    pub const fn top(&self) -> Option<u32> {
        some(self.root)
    }

    /// The slot that stands first.
    #[must_use]
    pub fn first<K: TreeKey>(&self, nodes: &Nodes<K>) -> Option<u32> {
        some(self.root).map(|root| nodes.leftmost(root))
    }

    /// The slot that stands last.
    #[must_use]
    pub fn last<K: TreeKey>(&self, nodes: &Nodes<K>) -> Option<u32> {
        some(self.root).map(|root| nodes.rightmost(root))
    }

    /// The first slot whose key does not stand before `key`.
    #[must_use]
    pub fn lower_bound<K: TreeKey>(&self, nodes: &Nodes<K>, key: &K) -> Option<u32> {
        let (mut at, mut found) = (self.root, None);
        while let Some(index) = some(at) {
            let node = &nodes.0[index as usize];
            if node.key.as_ref().is_some_and(|own| own.before(key)) {
                at = node.right;
            } else {
                found = Some(index);
                at = node.left;
            }
        }
        found
    }

    /// Puts slot `index` in under `key`, behind those with an equal key.
    pub fn insert<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        assert!(!nodes.contains(index), "slot {index} is in a tree already");
        let (mut parent, mut at, mut goes_left) = (NIL, self.root, false);
        while at != NIL {
            let node = &nodes.0[at as usize];
            parent = at;
            goes_left = node.key.as_ref().is_some_and(|own| key.before(own));
            at = if goes_left { node.left } else { node.right };
        }
        nodes.0[index as usize] =
            Node { key: Some(key), summary: None, parent, left: NIL, right: NIL, height: 0 };
        nodes.refresh(index);
        self.replace_child(nodes, parent, goes_left, index);
        self.len += 1;
        self.mend(nodes, parent);
    }

    /// Takes slot `index`, which is in this tree, out of it.
    pub fn remove<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32) {
        assert!(nodes.contains(index), "slot {index} is in no tree");
        let node = nodes.0[index as usize].clone();
        let goes_left = node.parent != NIL && nodes.0[node.parent as usize].left == index;
        let mend_from = if node.left == NIL || node.right == NIL {
            let child = if node.left == NIL { node.right } else { node.left };
            self.replace_child(nodes, node.parent, goes_left, child);
            if child != NIL {
                nodes.0[child as usize].parent = node.parent;
            }
            node.parent
        } else {
            self.replace_by_successor(nodes, index, &node, goes_left)
        };
        let gone = &mut nodes.0[index as usize];
        *gone = Node { key: None, summary: None, parent: NIL, left: NIL, right: NIL, height: 0 };
        self.len -= 1;
        self.mend(nodes, mend_from);
    }

    /// Puts the successor of `index`, which has two children, in its place. Returns where to mend from.
    fn replace_by_successor<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        index: u32,
        node: &Node<K>,
        goes_left: bool,
    ) -> u32 {
        let heir = nodes.leftmost(node.right);
        let (heir_parent, heir_right) =
            (nodes.0[heir as usize].parent, nodes.0[heir as usize].right);
        let mend_from = if heir_parent == index {
            heir
        } else {
            nodes.0[heir_parent as usize].left = heir_right;
            if heir_right != NIL {
                nodes.0[heir_right as usize].parent = heir_parent;
            }
            nodes.0[heir as usize].right = node.right;
            nodes.0[node.right as usize].parent = heir;
            heir_parent
        };
        nodes.0[heir as usize].left = node.left;
        nodes.0[node.left as usize].parent = heir;
        nodes.0[heir as usize].parent = node.parent;
        self.replace_child(nodes, node.parent, goes_left, heir);
        // Those above still see what the one who left had: the heir starts from there, and has to be looked
        // at whether or not something below it changes.
        nodes.0[heir as usize].height = node.height;
        nodes.0[heir as usize].summary = node.summary;
        self.mend(nodes, mend_from);
        heir
    }

    /// Takes the key of slot `index` back to order after it changed.
    pub fn rekey<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        self.remove(nodes, index);
        self.insert(nodes, index, key);
    }

    fn replace_child<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        parent: u32,
        goes_left: bool,
        child: u32,
    ) {
        match some(parent) {
            None => self.root = child,
            Some(parent) if goes_left => nodes.0[parent as usize].left = child,
            Some(parent) => nodes.0[parent as usize].right = child,
        }
    }

    /// From `at` upwards: restores I2 and I3. Stops where nothing changes any more.
    fn mend<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, at: u32) {
        let mut at = at;
        while at != NIL {
            let (left, right) = (nodes.0[at as usize].left, nodes.0[at as usize].right);
            let (left_height, right_height) = (nodes.height(left), nodes.height(right));
            let top = if left_height > right_height + 1 {
                if nodes.height(nodes.0[left as usize].left)
                    < nodes.height(nodes.0[left as usize].right)
                {
                    self.rotate_left(nodes, left);
                }
                self.rotate_right(nodes, at)
            } else if right_height > left_height + 1 {
                if nodes.height(nodes.0[right as usize].right)
                    < nodes.height(nodes.0[right as usize].left)
                {
                    self.rotate_right(nodes, right);
                }
                self.rotate_left(nodes, at)
            } else if nodes.refresh(at) {
                at
            } else {
                return;
            };
            at = nodes.0[top as usize].parent;
        }
    }

    /// The right child of `at` takes its place; returns it.
    fn rotate_left<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, at: u32) -> u32 {
        let top = nodes.0[at as usize].right;
        let middle = nodes.0[top as usize].left;
        nodes.0[at as usize].right = middle;
        nodes.0[top as usize].left = at;
        self.reparent(nodes, at, top, middle);
        top
    }

    /// The left child of `at` takes its place; returns it.
    fn rotate_right<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, at: u32) -> u32 {
        let top = nodes.0[at as usize].left;
        let middle = nodes.0[top as usize].right;
        nodes.0[at as usize].left = middle;
        nodes.0[top as usize].right = at;
        self.reparent(nodes, at, top, middle);
        top
    }

    /// The common half of a rotation: `top` rises above `at`, `middle` changes its parent to `at`.
    fn reparent<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, at: u32, top: u32, middle: u32) {
        let parent = nodes.0[at as usize].parent;
        let goes_left = parent != NIL && nodes.0[parent as usize].left == at;
        if middle != NIL {
            nodes.0[middle as usize].parent = at;
        }
        nodes.0[top as usize].parent = parent;
        nodes.0[at as usize].parent = top;
        self.replace_child(nodes, parent, goes_left, top);
        nodes.refresh(at);
        nodes.refresh(top);
    }

    /// The slots in order.
    pub fn iter<'a, K: TreeKey>(
        &self,
        nodes: &'a Nodes<K>,
    ) -> impl Iterator<Item = u32> + use<'a, K> {
        core::iter::successors(self.first(nodes), |&index| nodes.next(index))
    }

    /// Verifies I1 to I4 in O(n).
    ///
    /// # Errors
    /// Which invariant is broken.
    pub fn check<K: TreeKey>(&self, nodes: &Nodes<K>) -> Result<(), &'static str> {
        let (mut previous, mut count): (Option<K>, u32) = (None, 0);
        for index in self.iter(nodes) {
            let node = &nodes.0[index as usize];
            let Some(key) = node.key else { return Err("tree I4: a slot without a key") };
            if previous.is_some_and(|previous| key.before(&previous)) {
                return Err("tree I1: out of order");
            }
            if nodes.height(node.left).abs_diff(nodes.height(node.right)) > 1 {
                return Err("tree I2: out of balance");
            }
            if nodes.expected(index) != (node.height, node.summary) {
                return Err("tree I3: a summary is not that of its subtree");
            }
            previous = Some(key);
            count += 1;
        }
        if count == self.len { Ok(()) } else { Err("tree: more or fewer slots than counted") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Ordered by the first, summing up the least of the second: the shape of a service tree.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        /// Does the tree do what a sorted `Vec` does, ties in the order of insertion, summaries true?
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
                    core::iter::successors(root.last(&nodes), |&index| nodes.prev(index));
                prop_assert!(backwards.eq(model.iter().rev().map(|&(_, index)| index)));
                let bound = Entity(start.min(39), 0);
                let expected = model.iter().find(|(other, _)| other.0 >= bound.0).map(|m| m.1);
                prop_assert_eq!(root.lower_bound(&nodes, &bound), expected);
                let least = model.iter().map(|(entity, _)| entity.1).min();
                prop_assert_eq!(root.top().and_then(|top| nodes.summary(top)), least);
            }
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
        assert!(nodes.height(root.top().unwrap()) <= 14);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tree: a red-black tree whose shape matters.
//!
//! btt keeps outstanding bios and seek distances in red-black trees, and two of its outputs follow
//! their shape: the order in which the bios of one request are printed, and which of several
//! equally frequent distances is printed first. So this is the textbook's tree, step by step: plain
//! insertion by key, then recolouring and at most two rotations; removal by the successor.
//!
//! ```text
//! insert 1 2 3 4 5        2            (2), (1) black, 4 black with red 3 and 5
//!                       1   4
//!                          3 5
//! ```
//!
//! Only links are kept here, twelve bytes a node; keys are the caller's, which walks down to the
//! place of a new node itself.
//!
//! Invariants: I1 no red node has a red child; I2 every way down meets as many black nodes.
//!
//! Source: Cormen, Leiserson, Rivest, Stein, "Introduction to Algorithms", chapter 13; that this is
//! the shape: BTT-7, BTT-18, and the real tool.

use super::chunks::Chunks;

/// No node.
pub(super) const NONE: u32 = 0x7fff_ffff;
const RED: u32 = 1 << 31;

/// A node's place in a tree; the parent's highest bit is the colour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    child: [u32; 2],
    parent: u32,
}

impl Links {
    /// Links of a node that is in no tree.
    pub(super) const FREE: Links = Links { child: [NONE, NONE], parent: NONE };
}

/// A side of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Smaller keys.
    Left = 0,
    /// Larger keys.
    Right = 1,
}

impl Side {
    const fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// The links of all nodes of any number of trees; a tree is the number of its root.
#[derive(Debug)]
pub(super) struct Forest {
    links: Chunks<Links>,
}

impl Forest {
    pub(super) const fn new() -> Forest {
        Forest { links: Chunks::new() }
    }

    /// Adds a node; returns its number.
    pub(super) fn grow(&mut self) -> u32 {
        self.links.push(Links::FREE)
    }

    /// The child on a side, or `NONE`.
    pub(super) fn child(&self, node: u32, side: Side) -> u32 {
        self.links[node].child[side as usize]
    }

    fn parent(&self, node: u32) -> u32 {
        self.links[node].parent & !RED
    }

    fn is_red(&self, node: u32) -> bool {
        node != NONE && self.links[node].parent & RED != 0
    }

    fn set_red(&mut self, node: u32, red: bool) {
        let parent = &mut self.links[node].parent;
        *parent = *parent & !RED | if red { RED } else { 0 };
    }

    fn set_parent(&mut self, node: u32, parent: u32) {
        let own = &mut self.links[node].parent;
        *own = *own & RED | parent;
    }

    /// On which side of its parent a node is.
    fn side(&self, parent: u32, node: u32) -> Side {
        if self.child(parent, Side::Left) == node { Side::Left } else { Side::Right }
    }

    /// Puts `new` where `old` hangs, as the parent sees it.
    fn replace_below(&mut self, root: &mut u32, parent: u32, old: u32, new: u32) {
        if parent == NONE {
            *root = new;
        } else {
            let side = self.side(parent, old);
            self.links[parent].child[side as usize] = new;
        }
    }

    /// Turns the edge to the child on the other side, so that `node` goes down to `side`.
    fn rotate(&mut self, root: &mut u32, node: u32, side: Side) {
        let up = self.child(node, side.other());
        let between = self.child(up, side);
        self.links[node].child[side.other() as usize] = between;
        if between != NONE {
            self.set_parent(between, node);
        }
        let parent = self.parent(node);
        self.replace_below(root, parent, node, up);
        self.set_parent(up, parent);
        self.links[up].child[side as usize] = node;
        self.set_parent(node, up);
    }

    /// Hangs a node below `parent` (`NONE`: the tree is empty), and balances.
    pub(super) fn insert(&mut self, root: &mut u32, parent: u32, side: Side, node: u32) {
        self.links[node] = Links { child: [NONE, NONE], parent: parent | RED };
        if parent == NONE {
            *root = node;
        } else {
            self.links[parent].child[side as usize] = node;
        }
        self.balance_insertion(root, node);
        self.set_red(*root, false);
    }

    fn balance_insertion(&mut self, root: &mut u32, mut node: u32) {
        loop {
            let mut parent = self.parent(node);
            if !self.is_red(parent) {
                return;
            }
            let grandparent = self.parent(parent);
            if grandparent == NONE {
                return;
            }
            let side = self.side(grandparent, parent);
            let uncle = self.child(grandparent, side.other());
            if self.is_red(uncle) {
                self.set_red(uncle, false);
                self.set_red(parent, false);
                self.set_red(grandparent, true);
                node = grandparent;
                continue;
            }
            if self.child(parent, side.other()) == node {
                self.rotate(root, parent, side);
                parent = node;
            }
            self.set_red(parent, false);
            self.set_red(grandparent, true);
            self.rotate(root, grandparent, side.other());
            return;
        }
    }

    /// Takes a node out, and balances.
    pub(super) fn remove(&mut self, root: &mut u32, node: u32) {
        let [left, right] = self.links[node].child;
        let (mut parent, child, was_red);
        if left == NONE || right == NONE {
            child = if left == NONE { right } else { left };
            parent = self.parent(node);
            was_red = self.is_red(node);
            self.replace_below(root, parent, node, child);
            if child != NONE {
                self.set_parent(child, parent);
            }
        } else {
            let mut next = right;
            while self.child(next, Side::Left) != NONE {
                next = self.child(next, Side::Left);
            }
            child = self.child(next, Side::Right);
            parent = self.parent(next);
            was_red = self.is_red(next);
            if parent == node {
                parent = next;
            } else {
                self.links[parent].child[Side::Left as usize] = child;
                if child != NONE {
                    self.set_parent(child, parent);
                }
                self.links[next].child[Side::Right as usize] = right;
                self.set_parent(right, next);
            }
            let above = self.parent(node);
            self.replace_below(root, above, node, next);
            self.links[next].parent = self.links[node].parent;
            self.links[next].child[Side::Left as usize] = left;
            self.set_parent(left, next);
        }
        self.links[node] = Links::FREE;
        if !was_red {
            self.balance_removal(root, child, parent);
        }
    }

    /// Below `parent`, where `node` hangs, one black node is missing.
    fn balance_removal(&mut self, root: &mut u32, mut node: u32, mut parent: u32) {
        while !self.is_red(node) && node != *root {
            let side = self.side(parent, node);
            let mut sibling = self.child(parent, side.other());
            if self.is_red(sibling) {
                self.set_red(sibling, false);
                self.set_red(parent, true);
                self.rotate(root, parent, side);
                sibling = self.child(parent, side.other());
            }
            let (near, far) = (self.child(sibling, side), self.child(sibling, side.other()));
            if !self.is_red(near) && !self.is_red(far) {
                self.set_red(sibling, true);
                node = parent;
                parent = self.parent(node);
                continue;
            }
            if !self.is_red(far) {
                self.set_red(near, false);
                self.set_red(sibling, true);
                self.rotate(root, sibling, side.other());
                sibling = near;
            }
            let red = self.is_red(parent);
            self.set_red(sibling, red);
            self.set_red(parent, false);
            let far = self.child(sibling, side.other());
            self.set_red(far, false);
            self.rotate(root, parent, side);
            node = *root;
            break;
        }
        if node != NONE {
            self.set_red(node, false);
        }
    }

    /// All nodes of a tree, each after those below it.
    pub(super) fn post_order(&self, root: u32) -> Vec<u32> {
        // Node, right, left, backwards: no recursion.
        let (mut waiting, mut order) = (vec![root], Vec::new());
        while let Some(node) = waiting.pop() {
            if node != NONE {
                order.push(node);
                waiting.extend(self.links[node].child);
            }
        }
        order.reverse();
        order
    }

    /// Panics unless I1 and I2 hold; the black height.
    #[cfg(test)]
    fn check(&self, node: u32) -> u32 {
        if node == NONE {
            return 1;
        }
        let [left, right] = self.links[node].child;
        for child in [left, right].into_iter().filter(|child| *child != NONE) {
            assert_eq!(self.parent(child), node);
            assert!(!(self.is_red(node) && self.is_red(child)), "I1");
        }
        let height = self.check(left);
        assert_eq!(height, self.check(right), "I2");
        height + u32::from(!self.is_red(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tree of numbered keys, for the tests.
    fn insert(forest: &mut Forest, root: &mut u32, keys: &[u32], node: u32) {
        let (mut parent, mut at, mut side) = (NONE, *root, Side::Left);
        while at != NONE {
            parent = at;
            side = if keys[node as usize] < keys[at as usize] { Side::Left } else { Side::Right };
            at = forest.child(at, side);
        }
        forest.insert(root, parent, side, node);
    }

    fn keys_in_post_order(keys: &[u32]) -> Vec<u32> {
        let (mut forest, mut root) = (Forest::new(), NONE);
        for _ in keys {
            let node = forest.grow();
            insert(&mut forest, &mut root, keys, node);
        }
        forest.post_order(root).into_iter().map(|node| keys[node as usize]).collect()
    }

    /// Is the shape the textbook's?
    #[test]
    fn ascending_keys_give_the_known_shape() {
        // 1 2 3: 2 on top. 4: recoloured, 4 below 3. 5: 3 4 5 turn to 4 with 3 and 5.
        assert_eq!(keys_in_post_order(&[1, 2, 3, 4, 5]), [1, 3, 5, 4, 2]);
        assert_eq!(keys_in_post_order(&[2, 1]), [1, 2]);
        assert_eq!(keys_in_post_order(&[1, 2]), [2, 1]);
    }

    proptest! {
        /// Does a tree stay one, and sorted, whatever is put in and taken out?
        #[test]
        fn it_stays_a_tree(keys in proptest::collection::vec(any::<u32>(), 1..80),
                           outs in proptest::collection::vec(any::<usize>(), 0..80)) {
            let (mut forest, mut root) = (Forest::new(), NONE);
            let mut inside: Vec<u32> = Vec::new();
            for _ in &keys {
                let node = forest.grow();
                insert(&mut forest, &mut root, &keys, node);
                inside.push(node);
                forest.check(root);
            }
            for out in outs {
                if inside.is_empty() { break }
                let node = inside.swap_remove(out % inside.len());
                forest.remove(&mut root, node);
                forest.check(root);
                prop_assert_eq!(forest.post_order(root).len(), inside.len());
            }
        }
    }
}

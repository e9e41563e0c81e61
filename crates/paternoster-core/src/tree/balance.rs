// SPDX-License-Identifier: MIT OR Apache-2.0
//! Balance: rotations of the tree, so that it stays low (I2).
//!
//! A leaf makes the subtrees above it higher, up to the first that was not level; a removal makes
//! them lower. Where the heights of two siblings come to differ by two, a rotation lifts the
//! higher.
//!
//! Source: Adelson-Velsky and Landis 1962.

use super::{LEFT, Nodes, RIGHT, Root, TreeKey, some};
use crate::slab::NIL;

impl Root {
    /// The subtree `child` of `at` became higher: restores the balance upwards.
    pub(super) fn grown<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, mut at: u32, mut child: u32) {
        while at != NIL {
            let side = nodes.side_of(at, child);
            let node = &mut nodes.0[at as usize];
            let tilt = if side == RIGHT { 1 } else { -1 };
            if node.balance == tilt {
                self.rotate_heavy(nodes, at, side);
                return;
            }
            node.balance += tilt;
            if node.balance == 0 {
                return;
            }
            child = at;
            at = node.parent;
        }
    }

    /// The subtree of `at` on `side` became lower: restores the balance upwards.
    pub(super) fn shrunk<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        mut at: u32,
        mut side: usize,
    ) {
        while at != NIL {
            let node = &mut nodes.0[at as usize];
            let tilt = if side == LEFT { 1 } else { -1 };
            let top = if node.balance == tilt {
                let heavy = node.child[1 - side];
                let level = nodes.0[heavy as usize].balance == 0;
                let top = self.rotate_heavy(nodes, at, 1 - side);
                if level {
                    return;
                }
                top
            } else {
                node.balance += tilt;
                if node.balance != 0 {
                    return;
                }
                at
            };
            at = nodes.0[top as usize].parent;
            if at != NIL {
                side = nodes.side_of(at, top);
            }
        }
    }

    pub(super) fn put_child<K: TreeKey>(
        &mut self,
        nodes: &mut Nodes<K>,
        parent: u32,
        side: usize,
        child: u32,
    ) {
        match some(parent) {
            None => self.root = child,
            Some(parent) => nodes.0[parent as usize].child[side] = child,
        }
    }

    /// `at` is two higher on `side`: one rotation, or two if its child leans the other way.
    /// Returns the new top.
    ///
    /// ```text
    /// at            child               at              middle
    ///   \          /     \               \             /      \
    ///   child  -> at     x              child   ->   at       child
    ///       \                           /
    ///        x                      middle
    /// ```
    fn rotate_heavy<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, at: u32, side: usize) -> u32 {
        let tilt: i8 = if side == RIGHT { 1 } else { -1 };
        let child = nodes.0[at as usize].child[side];
        let lean = nodes.0[child as usize].balance;
        if lean != -tilt {
            let top = self.rotate(nodes, at, side);
            // A level child (only when something was removed) stays one lower on its own side.
            nodes.0[at as usize].balance = if lean == 0 { tilt } else { 0 };
            nodes.0[top as usize].balance = if lean == 0 { -tilt } else { 0 };
            return top;
        }
        let middle = nodes.0[child as usize].child[1 - side];
        let lean = nodes.0[middle as usize].balance;
        self.rotate(nodes, child, 1 - side);
        let top = self.rotate(nodes, at, side);
        nodes.0[at as usize].balance = if lean == tilt { -tilt } else { 0 };
        nodes.0[child as usize].balance = if lean == -tilt { tilt } else { 0 };
        nodes.0[top as usize].balance = 0;
        top
    }

    /// The child of `at` on `side` takes its place, and is returned. The caller sets the balances.
    fn rotate<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, at: u32, side: usize) -> u32 {
        let parent = nodes.0[at as usize].parent;
        let top = nodes.0[at as usize].child[side];
        let middle = nodes.0[top as usize].child[1 - side];
        nodes.0[at as usize].child[side] = middle;
        if middle != NIL {
            nodes.0[middle as usize].parent = at;
        }
        let place = if parent == NIL { LEFT } else { nodes.side_of(parent, at) };
        nodes.0[top as usize].child[1 - side] = at;
        nodes.0[top as usize].parent = parent;
        nodes.0[at as usize].parent = top;
        self.put_child(nodes, parent, place, top);
        nodes.refresh(at);
        nodes.refresh(top);
        top
    }

    /// The height of the subtree at `index`, if all balances in it are correct (I2). Recurses as
    /// deep as the tree is high.
    pub(super) fn check_balance<K: TreeKey>(
        nodes: &Nodes<K>,
        index: u32,
    ) -> Result<i32, &'static str> {
        let Some(index) = some(index) else { return Ok(0) };
        let node = &nodes.0[index as usize];
        let left = Root::check_balance(nodes, node.child[LEFT])?;
        let right = Root::check_balance(nodes, node.child[RIGHT])?;
        if right - left != i32::from(node.balance) || (right - left).abs() > 1 {
            return Err("tree I2: out of balance");
        }
        Ok(1 + left.max(right))
    }
}

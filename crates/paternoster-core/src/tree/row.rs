// SPDX-License-Identifier: MIT OR Apache-2.0
//! Row: a tree of few slots, kept as a chain of neighbours.
//!
//! Most trees are small: a client has eight requests waiting, a group sixteen clients. Finding a
//! place among eight along their threads, from both ends at once, takes two steps on average;
//! inserting and removing change four links, and nothing is rotated:
//!
//! ```text
//! insert 40:   8 <-> 96 <-> 200    from the back: 200, 96 are larger; from the front: 96 is
//!          8 <-> 40 <-> 96 <-> 200
//! ```
//!
//! A row of more than [`ROW_MOST`] becomes a tree; a tree that has shrunk to [`ROW_AGAIN`] drops
//! its top, and the row remains. The two limits differ, so that one slot that comes and goes does
//! not build a tree each time.
//!
//! # Invariant
//! In a row only threads, keys and membership are valid; `child`, `parent` and `balance` are not.

use super::{LEFT, Nodes, RIGHT, Root, TreeKey, some};
use crate::slab::NIL;

/// A row has at most this many slots: four steps on average to find a place among them.
pub(super) const ROW_MOST: u32 = 16;
/// A tree of this few becomes a row again.
pub(super) const ROW_AGAIN: u32 = 8;

impl Root {
    /// Whether the slots are in a row, without a top.
    pub(super) const fn is_row<K: TreeKey>(&self) -> bool {
        !K::SUMMED && self.root == NIL
    }

    /// As `insert`, in a row.
    pub(super) fn insert_in_row<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        self.thread_at_key(nodes, index, key);
        self.len += 1;
    }

    /// The neighbours of a new `key`, after all that are equal; `NIL`: none.
    fn place_in_row<K: TreeKey>(&self, nodes: &Nodes<K>, key: &K) -> [u32; 2] {
        let [mut low, mut high] = self.ends;
        let [mut before, mut behind] = [NIL; 2];
        // The two never pass each other: the first to reach the place ends the search.
        while let Some(back) = nodes.0.get(high as usize) {
            if !key.before(&back.key) {
                return [high, behind];
            }
            let front = &nodes.0[low as usize];
            if key.before(&front.key) {
                return [before, low];
            }
            [before, behind] = [low, high];
            [low, high] = [front.thread[RIGHT], back.thread[LEFT]];
        }
        [NIL; 2]
    }

    /// As `lower_bound`, in a row.
    pub(super) fn row_bound<K: TreeKey>(&self, nodes: &Nodes<K>, key: &K) -> Option<u32> {
        let [mut low, mut high] = self.ends;
        while let Some(back) = nodes.0.get(high as usize) {
            let front = &nodes.0[low as usize];
            if !front.key.before(key) {
                return Some(low);
            }
            if back.key.before(key) {
                return some(back.thread[RIGHT]);
            }
            (low, high) = (front.thread[RIGHT], back.thread[LEFT]);
        }
        None
    }

    /// As `remove`, in a row.
    pub(super) fn remove_from_row<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32) {
        let node = &mut nodes.0[index as usize];
        node.member = false;
        let thread = node.thread;
        self.thread_out(nodes, thread);
        self.len -= 1;
    }

    /// Moves slot `index` to its place under another key.
    pub(super) fn move_in_row<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        self.thread_out(nodes, nodes.0[index as usize].thread);
        self.thread_at_key(nodes, index, key);
    }

    /// Links slot `index` in at the place of `key`.
    fn thread_at_key<K: TreeKey>(&mut self, nodes: &mut Nodes<K>, index: u32, key: K) {
        let thread = self.place_in_row(nodes, &key);
        self.thread_between(nodes, thread, [index; 2]);
        let node = &mut nodes.0[index as usize];
        (node.key, node.member, node.thread) = (key, true, thread);
    }

    /// Turns a full row into a tree.
    #[inline(never)]
    pub(super) fn plant<K: TreeKey>(&mut self, nodes: &mut Nodes<K>) {
        let mut row = [NIL; ROW_MOST as usize];
        for (place, index) in row.iter_mut().zip(self.iter(nodes)) {
            *place = index;
        }
        self.root = nodes.plant_below(NIL, &row[..self.len as usize]).0;
    }
}

impl<K: TreeKey> Nodes<K> {
    /// Makes a subtree of a part of a row, recursing as deep as the logarithm of its length.
    /// Returns its top and its height.
    fn plant_below(&mut self, parent: u32, row: &[u32]) -> (u32, i8) {
        let (before, rest) = row.split_at(row.len() / 2);
        let Some((&top, behind)) = rest.split_first() else { return (NIL, 0) };
        let (left, lower) = self.plant_below(top, before);
        let (right, higher) = self.plant_below(top, behind);
        let node = &mut self.0[top as usize];
        (node.parent, node.child, node.balance) = (parent, [left, right], higher - lower);
        (top, 1 + lower.max(higher))
    }
}

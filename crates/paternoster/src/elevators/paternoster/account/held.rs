// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that clients hold, wherever they are, and who has his share of them.
//!
//! A queue has `nr_requests`; who came first could have them all. Each level shares them by weight
//! among those who hold any: of 128, two groups of equal weight have 64 each, and two clients of
//! one of them 32.
//!
//! # Invariant
//! The held requests of a group are those of its children; `held_weight` is the weight of the
//! children that hold some (I2 of the accounts).

use super::{Accounts, Node};
use crate::slab::NIL;

/// One request in so many is left for those who have less than their share.
const LEFT_FOR_OTHERS: u32 = 16;

impl Accounts {
    /// A client has so many requests more, or less, wherever they are.
    #[inline(always)]
    pub(in super::super) fn hold(&mut self, client: u32, by: i32) {
        let mut at = self.hold_one(client, by);
        while at != self.root && at != NIL {
            at = self.hold_above(at, by);
        }
        // Who left before its requests has no parent any more.
        if at != NIL {
            let all = &mut self.at_mut(at).held;
            *all = all.wrapping_add_signed(by);
        }
    }

    #[inline(never)]
    fn hold_above(&mut self, at: u32, by: i32) -> u32 {
        self.hold_one(at, by)
    }

    #[inline(always)]
    fn hold_one(&mut self, at: u32, by: i32) -> u32 {
        let node = &mut self.nodes[at as usize];
        let before = node.held;
        node.held = before.wrapping_add_signed(by);
        if (before == 0 || node.held == 0) && before != node.held && node.parent != NIL {
            let group = &mut self.groups[(node.parent - self.clients) as usize];
            let (sum, weight) = (&mut group.held_weight, u64::from(node.weight));
            *sum = if node.held == 0 { *sum - weight } else { *sum + weight };
        }
        node.parent
    }

    /// Whether a client, or a group that it is in, has its share of `most` requests already, by
    /// weight among those who have some. While there are enough left for whoever comes, nobody has
    /// too many.
    pub(in super::super) fn has_its_share(&self, client: u32, most: u32) -> bool {
        if self.at(self.root).held + (most / LEFT_FOR_OTHERS).max(1) < most {
            return false;
        }
        let mut at = client;
        while at != self.root {
            let node = self.at(at);
            if node.held > 0 && u64::from(node.held) >= self.share_of(at, most) {
                return true;
            }
            at = node.parent;
        }
        false
    }

    /// The part of `most` that is a node's: the product on the way up.
    fn share_of(&self, node: u32, most: u32) -> u64 {
        let (mut limit, mut at) = (u64::from(most), node);
        while at != self.root {
            let Node { parent, weight, held, .. } = *self.at(at);
            let own = u64::from(weight);
            let counted = if held == 0 { own } else { 0 };
            limit = limit * own / (self.group(parent).held_weight + counted).max(1);
            at = parent;
        }
        limit.max(1)
    }
}

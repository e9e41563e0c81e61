// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that clients hold, wherever those are, and whether a client has its share of them.
//!
//! A queue has `nr_requests`; the first client to arrive could take them all. Each level shares
//! them by weight among those that hold any: of 128, two groups of equal weight get 64 each, and
//! two clients of one of them 32. A client that sleeps for a request *asks*, and counts as well:
//!
//! ```text
//! 2 requests, two writers      sleeper not counted      A holds both, B has one now and then
//!                              sleeper counted          A holds one, B has the other
//! ```
//!
//! A client that asks for one request at a time holds none between an answer and its next request.
//! If it did not count then, all others would take what is left, and it would find none, each time
//! anew. So of each group the child that last came to hold none counts while it is expected.
//!
//! Those of lower classes do not count (G10): their requests wait, as long as a better class asks
//! for more, and what they hold is lost to it.
//!
//! ```text
//! 16 requests, one client of best effort and two of the idle class, 32 outstanding each
//!     equal shares          5 each: of a device's 8 servers 3 have nothing to do
//!     by class              up to 16 and 5 each; one that is free goes to the better class
//! ```
//!
//! What the idle class holds it keeps, until it is due: so it never has more than its share,
//! however many are left. Others have no more than theirs while few are left.
//!
//! And the last one is kept for a better class that is expected, even from a client that has none:
//! a disk may have two in all, and two of best effort would have both.
//!
//! # Invariant
//! A group holds the requests that its children hold; `held_weight` is the weight of the children
//! that hold or ask, by class, and `asking` how many ask (I2 of the accounts).

use super::{Accounts, Node};
use paternoster_core::Class;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;

/// One in this many requests is left for clients that have less than their share.
const LEFT_FOR_OTHERS: u32 = 16;
/// More than a queue has.
const ALL: u32 = u32::MAX / 2;

/// How many of `most` requests are left for clients that have less than their share.
fn left_for_others(most: u32) -> u32 {
    (most / LEFT_FOR_OTHERS).max(1)
}

impl Accounts {
    /// A client gets a request, and asks for none any more. Returns whether it slept for this one.
    #[inline(always)]
    pub(in super::super) fn get(&mut self, client: u32) -> bool {
        let asks = self.at(client).asks;
        if asks {
            self.get_at_last(client);
        } else {
            self.hold(client, 1);
        }
        asks
    }

    #[inline(never)]
    fn get_at_last(&mut self, client: u32) {
        self.hold_in_all(client, 1);
        self.withdraw(client);
    }

    /// A client holds this many requests more, or fewer, wherever they are. In no group but the
    /// root, and with others before and after, that changes two numbers.
    #[inline(always)]
    pub(in super::super) fn hold(&mut self, client: u32, by: i32) {
        let root = self.root;
        let node = self.at_mut(client);
        let held = node.held.wrapping_add_signed(by);
        if node.parent != root || node.held == 0 || held == 0 {
            return self.hold_in_all(client, by);
        }
        node.held = held;
        let all = &mut self.at_mut(root).held;
        *all = all.wrapping_add_signed(by);
    }

    /// The same for any client, group by group.
    #[inline(never)]
    fn hold_in_all(&mut self, client: u32, by: i32) {
        let mut at = client;
        while at != self.root && at != NIL {
            at = self.hold_one(at, by);
        }
        // A client that left before its requests no longer has a parent.
        if at != NIL {
            let all = &mut self.at_mut(at).held;
            *all = all.wrapping_add_signed(by);
        }
    }

    fn hold_one(&mut self, at: u32, by: i32) -> u32 {
        let node = &mut self.nodes[at as usize];
        let before = node.held;
        node.held = before.wrapping_add_signed(by);
        if (before == 0 || node.held == 0)
            && before != node.held
            && node.parent != NIL
            && !node.asks
        {
            let group = &mut self.groups[(node.parent - self.clients) as usize];
            if node.held == 0 {
                group.holds_none = Some(at);
            }
            let (class, weight) = (usize::from(node.class), u64::from(node.weight));
            let sum = &mut group.held_weight[class];
            *sum = if node.held == 0 { *sum - weight } else { *sum + weight };
        }
        node.parent
    }

    /// There are nodes of the idle class, or none: whether shares are looked at in any case.
    pub(super) const fn watch_shares(&mut self) {
        self.withheld = if self.idlers > 0 { ALL } else { 0 };
    }

    /// A client sleeps for a request.
    #[inline(never)]
    pub(in super::super) fn ask(&mut self, client: u32) {
        let mut at = client;
        while at != self.root && !self.at(at).asks {
            let Node { parent, weight, held, class, .. } = *self.at(at);
            self.at_mut(at).asks = true;
            let group = self.group_mut(parent);
            group.held_weight[usize::from(class)] += if held == 0 { u64::from(weight) } else { 0 };
            group.asking += 1;
            at = parent;
        }
    }

    /// A client has the request that it slept for, or no longer needs one.
    #[inline]
    pub(in super::super) fn ask_no_more(&mut self, client: u32) {
        if self.at(client).asks {
            self.withdraw(client);
        }
    }

    #[inline(never)]
    pub(super) fn withdraw(&mut self, client: u32) {
        let mut at = client;
        while at != self.root {
            let Node { parent, weight, held, class, .. } = *self.at(at);
            self.at_mut(at).asks = false;
            let group = self.group_mut(parent);
            group.held_weight[usize::from(class)] -= if held == 0 { u64::from(weight) } else { 0 };
            group.asking -= 1;
            if group.asking > 0 {
                return;
            }
            at = parent;
        }
    }

    /// Whether all of `most` requests are held.
    pub(in super::super) fn holds_all(&self, most: u32) -> bool {
        self.at(self.root).held >= most
    }

    /// Whether a client may be refused one of `most` requests. While enough are left for a newcomer
    /// no client has too many, except for the idle class: what it holds it keeps.
    #[inline(always)]
    pub(in super::super) fn shares_requests(&self, most: u32) -> bool {
        self.at(self.root).held + left_for_others(most) + self.withheld >= most
    }

    /// Whether a client, or a group above it, already holds its share of `most` requests, if few of
    /// them are left or it is of the idle class: by weight among those of its class and better ones
    /// that hold some, ask for one, or are expected. That of the last request is none while a
    /// better class is expected.
    pub(in super::super) fn has_its_share(&self, client: u32, most: u32, now: Nanos) -> bool {
        if !self.shares_requests(most) {
            return false;
        }
        let held = self.at(self.root).held;
        let are_few_left = held + left_for_others(most) >= most;
        let (mut at, is_last) = (client, held + 1 >= most);
        while at != self.root {
            let node = self.at(at);
            let counts = node.held > 0 && (are_few_left || node.class == Class::Idle as u8);
            if counts && u64::from(node.held) >= self.share_of(at, most, now)
                || is_last && self.is_better_expected(at, now)
            {
                return true;
            }
            at = node.parent;
        }
        false
    }

    /// The child of a group that last came to hold none, if it is expected.
    fn comes_back(&self, parent: u32, now: Nanos) -> Option<(u32, &Node)> {
        let child = self.group(parent).holds_none?;
        let own = self.at(child);
        (own.parent == parent && own.expected > now).then_some((child, own))
    }

    /// Whether the sibling that last came to hold none is of a better class, and expected.
    fn is_better_expected(&self, node: u32, now: Nanos) -> bool {
        let own = self.at(node);
        self.comes_back(own.parent, now).is_some_and(|(_, other)| other.class < own.class)
    }

    /// A node's share of `most`: the product of the shares on the way up.
    fn share_of(&self, node: u32, most: u32, now: Nanos) -> u64 {
        let (mut limit, mut at) = (u64::from(most), node);
        while at != self.root {
            let own = self.at(at);
            let (parent, weight) = (own.parent, u64::from(own.weight));
            let counted = if own.shares() { 0 } else { weight };
            let theirs = &self.group(parent).held_weight[..=usize::from(own.class)];
            let others = theirs.iter().sum::<u64>() + self.weight_expected(parent, at, now);
            limit = limit * weight / (others + counted).max(1);
            at = parent;
        }
        limit.max(1)
    }

    /// The weight of the child of a group, other than `node`, that last came to hold none, if it is
    /// expected, and not of a lower class.
    fn weight_expected(&self, parent: u32, node: u32, now: Nanos) -> u64 {
        let Some((other, own)) = self.comes_back(parent, now) else { return 0 };
        let counts = own.class <= self.at(node).class && !own.shares() && other != node;
        if counts { u64::from(own.weight) } else { 0 }
    }
}

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
//! however many are left. Others have no more than theirs while few are left; and the shares are
//! shares of what lower classes do not hold, since that does not come back soon:
//!
//! ```text
//! 62 requests, 31 held by the idle class    shares of 62    one has 31, the other sleeps
//! two of best effort, one of them paced     shares of 31    16 each: one is left for the other
//! ```
//!
//! And the last one is kept for a better class that is expected, even from a client that has none:
//! a disk may have two in all, and two of best effort would have both. Where several requests end
//! together a client that slept for one asks for the next a moment after it has it: so all that are
//! free are kept from lower classes for [`HUNGRY`].
//!
//! # Invariant
//! A group holds the requests that its children hold; `held_weight` is the weight of the children
//! that hold or ask, by class, and `asking` how many ask (I2 of the accounts).

use super::super::gate::{BEST_EFFORT, REAL_TIME};
use super::{Accounts, Node};
use paternoster_core::Class;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;

/// One in this many requests is left for clients that have less than their share.
const LEFT_FOR_OTHERS: u32 = 16;
/// A client that slept for a request, and has it, asks for the next one within this time.
const HUNGRY: Nanos = Nanos::from_micros(200);
/// No node's parent; `NIL` is that of a client that has left.
const NO_PARENT: u32 = NIL - 1;
/// More than a queue has.
const ALL: u32 = u32::MAX / 2;

/// A client is to have no request, although one is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Refusal {
    /// Otherwise it may have the first position, if that is free.
    pub(in super::super) is_outright: bool,
    /// Then a window closes, and it may have one.
    pub(in super::super) until: Nanos,
}

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

    /// A client has a request that it slept for: it may ask for more at once.
    #[inline(never)]
    pub(in super::super) fn has_slept_for_one(&mut self, client: u32, now: Nanos) {
        let mut at = if self.withheld > 0 { client } else { self.root };
        while at != self.root {
            let Node { parent, class, .. } = *self.at(at);
            let hungry = &mut self.group_mut(parent).hungry;
            if class <= hungry.0 || hungry.1 <= now {
                *hungry = (class, now + HUNGRY);
            }
            at = parent;
        }
    }

    /// A client holds this many requests more, or fewer, wherever they are. In no group but the
    /// root, and with others before and after, that changes two numbers.
    #[inline(always)]
    pub(in super::super) fn hold(&mut self, client: u32, by: i32) {
        let root = self.plain_root;
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
        if node.class != Class::BestEffort as u8 && node.parent != NIL {
            let holds = &mut self.groups[(node.parent - self.clients) as usize].holds;
            let of_class = &mut holds[usize::from(node.class)];
            *of_class = of_class.wrapping_add_signed(by);
        }
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

    /// All nodes are of best effort, or not: whether shares are looked at in any case, and whether
    /// classes are counted.
    pub(super) const fn watch_shares(&mut self) {
        let [real_time, _, idle] = self.of_class;
        let are_any = real_time + idle > 0;
        self.withheld = if are_any { ALL } else { 0 };
        self.plain_root = if are_any { NO_PARENT } else { self.root };
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
    /// no client has too many, if all are of best effort.
    #[inline(always)]
    pub(in super::super) fn shares_requests(&self, most: u32) -> bool {
        self.at(self.root).held + left_for_others(most) + self.withheld >= most
    }

    /// Whether a client is refused one of `most` requests, because it, or a group above it, already
    /// holds its share. That is looked at if few of them are left or it is of the idle class: by
    /// weight among those of its class and better ones that hold some, ask for one, or are
    /// expected. And whether all that are free are kept for a better class that is hungry, or the
    /// last one for one that is expected. With none in use none is kept.
    pub(in super::super) fn refusal(&self, client: u32, most: u32, now: Nanos) -> Option<Refusal> {
        let held = self.at(self.root).held;
        if !self.shares_requests(most) || held == 0 {
            return None;
        }
        let are_few_left = held + left_for_others(most) >= most;
        let (mut at, is_last) = (client, held + 1 >= most);
        let mut refusal: Option<Refusal> = None;
        while at != self.root {
            let node = self.at(at);
            let idles = node.class == Class::Idle as u8;
            let due = if idles { self.group(node.parent).idlers_due_at() } else { Nanos::MAX };
            // An idle class that is due is kept from none, unless it has one already.
            if (due > now || node.held > 0)
                && let Some(until) = self.kept_until(at, is_last, now)
            {
                let until = if due > now { until.min(due) } else { until };
                return Some(Refusal { is_outright: true, until });
            }
            let counts = node.held > 0 && (are_few_left || idles);
            if counts && u64::from(node.held) >= self.share_of(at, most, now) {
                let is_outright = idles || refusal.is_some_and(|other| other.is_outright);
                refusal = Some(Refusal { is_outright, until: self.first_window(client, now) });
            }
            at = node.parent;
        }
        refusal
    }

    /// The child of a group that last came to hold none, if it is expected.
    fn comes_back(&self, parent: u32, now: Nanos) -> Option<(u32, &Node)> {
        let child = self.group(parent).holds_none?;
        let own = self.at(child);
        let comes = own.parent == parent && !own.shares() && own.expected > now;
        comes.then_some((child, own))
    }

    /// Until when what is free is kept for a sibling of a better class: all for one that is hungry,
    /// the last one for one that is expected.
    fn kept_until(&self, node: u32, is_last: bool, now: Nanos) -> Option<Nanos> {
        let own = self.at(node);
        let (better, until) = self.group(own.parent).hungry;
        if better < own.class && until > now {
            return Some(until);
        }
        if is_last { self.better_comes_until(node, now) } else { None }
    }

    /// Until when the sibling that last came to hold none is expected, if it is of a better class.
    fn better_comes_until(&self, node: u32, now: Nanos) -> Option<Nanos> {
        let own = self.at(node);
        let (_, other) = self.comes_back(own.parent, now)?;
        (other.class < own.class).then_some(other.expected)
    }

    /// When the first of the windows closes that may have made a node's share smaller.
    fn first_window(&self, node: u32, now: Nanos) -> Nanos {
        let (mut first, mut at) = (Nanos::MAX, node);
        while at != self.root {
            at = self.at(at).parent;
            first = self.comes_back(at, now).map_or(first, |(_, other)| first.min(other.expected));
        }
        first
    }

    /// A node's share of `most`: by weight, of what its group has without what lower classes there
    /// hold. At least one; and rounded up if those hold some, or they would keep what is left over.
    fn share_of(&self, node: u32, most: u32, now: Nanos) -> u64 {
        if node == self.root {
            return u64::from(most);
        }
        let own = self.at(node);
        let (parent, weight, lost) = (own.parent, u64::from(own.weight), self.lost(own));
        let limit = self.share_of(parent, most, now).saturating_sub(lost);
        let counted = if own.shares() { 0 } else { weight };
        let theirs = &self.group(parent).held_weight[..=usize::from(own.class)];
        let others = theirs.iter().sum::<u64>() + self.weight_expected(parent, node, now);
        let (share, all) = (limit * weight, (others + counted).max(1));
        let share = if lost > 0 { share.div_ceil(all) } else { share / all };
        share.max(1)
    }

    /// How many requests siblings of lower classes hold.
    fn lost(&self, node: &Node) -> u64 {
        let [real_time, _, idle] = self.group(node.parent).holds;
        u64::from(match node.class {
            REAL_TIME => self.at(node.parent).held - real_time,
            BEST_EFFORT => idle,
            _ => 0,
        })
    }

    /// The weight of the child of a group, other than `node`, that last came to hold none, if it is
    /// expected, and not of a lower class.
    fn weight_expected(&self, parent: u32, node: u32, now: Nanos) -> u64 {
        let Some((other, own)) = self.comes_back(parent, now) else { return 0 };
        let counts = own.class <= self.at(node).class && other != node;
        if counts { u64::from(own.weight) } else { 0 }
    }
}

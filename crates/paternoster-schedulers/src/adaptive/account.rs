// SPDX-License-Identifier: MIT OR Apache-2.0
//! Account: how much of the device each client has had, in a tree of clients and groups (rule C).
//!
//! Each client pays for the *device time* of its requests, divided by its weight. The sum so far is
//! its virtual time; in each group, the waiting client or group with the least goes next:
//!
//! ```text
//! root ─┬─ A  weight 100   vt 40     waits        A goes: 40 < 55
//!       └─ B  weight 200   vt 55 ─┬─ b1 vt 9
//!                                 └─ b2 vt 7      of B's own, b2 goes first
//!
//! A's request takes 3 ms: A's vt + 3 ms / 100, in units in which nothing is lost to rounding
//! ```
//!
//! The real price is known when a request ends. Until then the client is charged an estimate, so
//! that it cannot dispatch more and more before the first charge; at the end the account is
//! corrected.
//!
//! A client that returns from a pause does not bring the time that it did not use (C4): it starts
//! at the floor of those that waited meanwhile. An expected client that returns in time keeps the
//! little that it is behind.
//!
//! Requests wait as one of two *kinds*, streams and the crowd (see `seats.rs`), each in its own
//! order; without seats the lesser of the two heads goes next.
//!
//! # Invariants
//! I1  A node is in its parent's order of a kind exactly while requests of that kind wait below it,
//!     sorted by its class and virtual time.
//! I2  The counts of a group are the sums of its children's; `busy_weight` is the weight of the
//!     children with a request waiting or in the device, `held_weight` of those that hold requests
//!     or sleep for one.
//! I3  The floor of a group never falls, and no waiting node of it was below the floor when it
//!     rose.
//! I4  What an account was charged is what its requests took, or cost (C5 to C7), to the
//!     nanosecond: the rest of each division is kept.
//!
//! `node.rs` has a single account, `order.rs` the orders of waiting nodes, `held.rs` the requests
//! held and the shares of them, `pick.rs` the choice of the first, `place.rs` where each stands,
//! `check.rs` the audit.
//!
//! Source: C1 to C4, G1, G2, G5 of `docs/rules/adaptive.md`. Differs: a tree instead of one level;
//! the floor follows the least of all waiting nodes, so that turns do not raise it.

mod check;
mod held;
mod node;
mod order;
mod pick;
mod place;

use alloc::vec::Vec;

use paternoster_core::Class;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::tree::Nodes;

pub(super) use node::{CLASSES, Group, Node, UNIT};

/// An idle-class request goes once after this long without one, whatever else waits.
const IDLE_WAITS_MOST: Nanos = Nanos::from_millis(200);

/// In ns: two of the longest turns.
const OWED_MOST: i64 = 320_000_000;
/// The same where there are no turns, in requests.
const OWED_REQUESTS: i64 = 64;

/// The two kinds in which requests wait.
pub(super) const CROWD: usize = 0;
pub(super) const STREAM: usize = 1;

/// After the end of a request: the state of the root's child to which it belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) top: u32,
    pub(super) class: u8,
    pub(super) weight: u32,
    /// The weight of all children of the root that were busy until now.
    pub(super) weights: u64,
    /// The most expensive recent request, in virtual time.
    pub(super) dearest: i64,
    /// How many requests of all clients are still in the device.
    pub(super) flying: u32,
}

/// All accounts: clients at their numbers, groups after them.
#[derive(Debug)]
pub(super) struct Accounts {
    pub(super) nodes: Vec<Node>,
    groups: Vec<Group>,
    orders: [Nodes<i64>; 2],
    clients: u32,
    root: u32,
    /// The root while all nodes are of best effort, otherwise none: below it no class is counted.
    plain_root: u32,
    /// How many nodes are of each class; those of best effort are not counted.
    of_class: [u32; CLASSES],
    /// So many requests count as held besides: all, while there are such (see `held.rs`).
    withheld: u32,
}

impl Accounts {
    pub(super) fn new(clients: u32, groups: u32, root: u32) -> Accounts {
        let all = clients + groups;
        let mut nodes: Vec<Node> = (0..all).map(|_| Node::default()).collect();
        if let Some(node) = nodes.get_mut((clients + root) as usize) {
            node.is_known = true;
        }
        let orders = [Nodes::with_capacity(all), Nodes::with_capacity(all)];
        let groups = (0..groups).map(|_| Group::default()).collect();
        let root = clients + root;
        Accounts {
            nodes,
            groups,
            orders,
            clients,
            root,
            plain_root: root,
            of_class: [0; CLASSES],
            withheld: 0,
        }
    }

    /// The account of the group with this number.
    pub(super) const fn of_group(&self, group: u32) -> u32 {
        self.clients + group
    }

    /// The number of the group whose account is `node`.
    pub(super) const fn number_of(&self, node: u32) -> u32 {
        node - self.clients
    }

    /// The number of the group that a client is in.
    pub(super) fn group_of(&self, client: u32) -> u32 {
        self.number_of(self.at(client).parent)
    }

    /// How many clients there can be.
    pub(super) const fn clients(&self) -> u32 {
        self.clients
    }

    /// One request, and nothing in the device (R5).
    pub(super) fn is_shallow(&self, client: u32) -> bool {
        let node = self.at(client);
        node.flying == 0 && node.waiting() <= 1
    }

    pub(super) const fn is_client(&self, node: u32) -> bool {
        node < self.clients
    }

    pub(super) fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// The group data of `node`, which is a group.
    pub(super) fn group(&self, node: u32) -> &Group {
        &self.groups[(node - self.clients) as usize]
    }

    fn group_mut(&mut self, node: u32) -> &mut Group {
        &mut self.groups[(node - self.clients) as usize]
    }

    /// Reads a client's account, to bring it into the cache; the number means nothing.
    pub(super) fn touch(&self, client: u32) -> u64 {
        u64::from(self.at(client).held) + u64::from(self.orders[CROWD].contains(client))
    }

    /// Requests that wait, by kind, and requests in the device.
    pub(super) fn totals(&self) -> ([u32; 2], u32) {
        let root = self.at(self.root);
        (root.queued, root.flying)
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> u32 {
        self.at(self.root).waiting()
    }

    /// Opens the account of a client or group below `parent` (`NIL`: the root itself).
    pub(super) fn open(&mut self, node: u32, parent: u32, weight: u32, class: u8) {
        if node == self.root {
            return;
        }
        let vt = self.group(parent).floor[usize::from(class)];
        self.count_class(node, class);
        *self.at_mut(node) = Node { parent, weight, class, vt, is_known: true, ..Node::default() };
        if !self.is_client(node) {
            let depth = self.group(parent).depth + 1;
            self.group_mut(parent).groups += 1;
            *self.group_mut(node) = Group { depth, ..Group::default() };
        }
    }

    /// Whether a group has an account.
    pub(super) fn is_open(&self, node: u32) -> bool {
        self.at(node).is_known
    }

    /// A client or group has gone; it has nothing waiting and nothing in the device.
    pub(super) fn close(&mut self, node: u32) {
        if node != self.root {
            debug_assert!(!self.at(node).is_busy(), "account {node} is closed with requests");
            self.count_class(node, Node::default().class);
            let Node { parent, is_known, .. } = core::mem::take(self.at_mut(node));
            if !self.is_client(node) {
                *self.group_mut(node) = Group::default();
                if is_known {
                    self.group_mut(parent).groups -= 1;
                }
            }
        }
    }

    /// Sets class, weight and place. A node that changes its place starts there as a newcomer; its
    /// requests move with it. In another class of the same group it is as far ahead as it was, and
    /// what it was owed lapses: virtual times of two classes have nothing to do with each other.
    pub(super) fn change(&mut self, node: u32, parent: u32, weight: u32, class: u8) {
        if node == self.root {
            return;
        }
        let Node { queued, flying, held, parent: old, class: before, .. } = *self.at(node);
        if before == Class::Idle as u8 {
            self.group_mut(old).idlers_flying -= flying;
        }
        self.lift_out(node, queued, flying);
        let asks = self.at(node).asks;
        if asks {
            self.withdraw(node);
        }
        self.hold(node, -held.cast_signed());
        if parent != old {
            let estimated = self.at(node).estimated;
            self.move_estimates(old, -estimated);
            self.move_estimates(parent, estimated);
            let vt = self.group(parent).floor[usize::from(class)];
            let own = self.at_mut(node);
            (own.parent, own.vt, own.rest) = (parent, vt, 0);
            if !self.is_client(node) {
                self.group_mut(node).depth = self.group(parent).depth + 1;
                self.group_mut(old).groups -= 1;
                self.group_mut(parent).groups += 1;
            }
        } else if class != before {
            let vt = self.group(parent).in_class(self.at(node), class);
            let own = self.at_mut(node);
            (own.vt, own.rest) = (vt, 0);
        }
        self.count_class(node, class);
        let own = self.at_mut(node);
        (own.weight, own.class) = (weight, class);
        own.rest = own.rest.min(weight - 1);
        if class == Class::Idle as u8 {
            self.group_mut(parent).idlers_flying += flying;
        }
        self.put_back(node, queued, flying);
        self.hold(node, held.cast_signed());
        if asks {
            self.ask(node);
        }
    }

    /// A node will be of this class.
    fn count_class(&mut self, node: u32, class: u8) {
        let best_effort = Class::BestEffort as u8;
        let before = self.at(node).class;
        self.of_class[usize::from(before)] -= u32::from(before != best_effort);
        self.of_class[usize::from(class)] += u32::from(class != best_effort);
        self.watch_shares();
    }

    /// Moves estimated charges of requests in the device to or from `group` and all above it.
    fn move_estimates(&mut self, group: u32, by: i64) {
        let mut at = group;
        while at != NIL {
            let node = self.at_mut(at);
            node.estimated += by;
            at = node.parent;
        }
    }

    /// Takes a node's requests out of its own counts and of all above it.
    fn lift_out(&mut self, node: u32, queued: [u32; 2], flying: u32) {
        let mut at = node;
        while at != NIL {
            let was_busy = self.at(at).is_busy();
            for kind in [CROWD, STREAM] {
                self.at_mut(at).queued[kind] -= queued[kind];
                if queued[kind] > 0 && self.at(at).queued[kind] == 0 {
                    self.leave_order(at, kind);
                }
            }
            self.at_mut(at).flying -= flying;
            if was_busy && !self.at(at).is_busy() {
                self.weigh_in_parent(at, false);
            }
            at = self.at(at).parent;
        }
    }

    fn put_back(&mut self, node: u32, queued: [u32; 2], flying: u32) {
        let mut at = node;
        while at != NIL {
            let was_busy = self.at(at).is_busy();
            self.at_mut(at).flying += flying;
            for kind in [CROWD, STREAM] {
                let before = self.at(at).queued[kind];
                self.at_mut(at).queued[kind] += queued[kind];
                if queued[kind] > 0 && before == 0 {
                    self.enter_order(at, kind);
                }
            }
            if !was_busy && self.at(at).is_busy() {
                self.weigh_in_parent(at, true);
            }
            at = self.at(at).parent;
        }
    }

    fn weigh_in_parent(&mut self, node: u32, comes: bool) {
        let Node { parent, weight, .. } = *self.at(node);
        if parent != NIL {
            let sum = &mut self.group_mut(parent).busy_weight;
            *sum = if comes { *sum + u64::from(weight) } else { *sum - u64::from(weight) };
        }
    }

    /// A request of a client begins to wait (C4 for each node on the way up that was idle).
    #[inline(always)]
    pub(super) fn arrive(&mut self, client: u32, kind: usize, now: Nanos, slack: i64) {
        let mut at = self.arrive_one(client, kind, now, slack);
        while at != self.root {
            at = self.arrive_above(at, kind, now, slack);
        }
        self.at_mut(at).queued[kind] += 1;
    }

    /// As `arrive_one`, for a group: rare, so it is kept out of the common path.
    #[inline(never)]
    fn arrive_above(&mut self, at: u32, kind: usize, now: Nanos, slack: i64) -> u32 {
        self.arrive_one(at, kind, now, slack)
    }

    /// One step of the way up; returns the next node. For most clients there is only this one.
    #[inline(always)]
    fn arrive_one(&mut self, at: u32, kind: usize, now: Nanos, slack: i64) -> u32 {
        let node = &mut self.nodes[at as usize];
        let group = &mut self.groups[(node.parent - self.clients) as usize];
        if node.waiting() == 0 {
            group.lift(node, now, slack);
            if node.flying == 0 {
                group.busy_weight += u64::from(node.weight);
            }
        }
        node.queued[kind] += 1;
        if node.queued[kind] == 1 {
            let order = &mut group.ready[kind][usize::from(node.class)];
            order.insert(&mut self.orders[kind], at, node.vt);
        }
        node.parent
    }

    /// A request no longer waits, and nothing is charged for it.
    pub(super) fn leave(&mut self, client: u32, kind: usize) {
        let mut queued = [0; 2];
        queued[kind] = 1;
        self.lift_out(client, queued, 0);
    }

    /// A client's waiting requests change their kind.
    pub(super) fn change_kind(&mut self, client: u32, from: usize, to: usize) {
        let count = self.at(client).queued[from];
        let mut at = client;
        while at != NIL && count > 0 {
            self.at_mut(at).queued[from] -= count;
            if self.at(at).queued[from] == 0 {
                self.leave_order(at, from);
            }
            self.at_mut(at).queued[to] += count;
            if self.at(at).queued[to] == count {
                self.enter_order(at, to);
            }
            at = self.at(at).parent;
        }
    }

    /// A waiting request goes to the device: its client and groups are charged the estimate (C1,
    /// C3).
    #[inline(always)]
    pub(super) fn dispatch(&mut self, client: u32, kind: usize, estimate: i64, now: Nanos) {
        let mut at = self.dispatch_one(client, kind, estimate, now);
        while at != self.root {
            at = self.dispatch_above(at, kind, estimate, now);
        }
        let all = self.at_mut(at);
        all.begin(kind, estimate);
        all.charged += estimate;
    }

    #[inline(never)]
    fn dispatch_above(&mut self, at: u32, kind: usize, estimate: i64, now: Nanos) -> u32 {
        self.dispatch_one(at, kind, estimate, now)
    }

    #[inline(always)]
    fn dispatch_one(&mut self, at: u32, kind: usize, estimate: i64, now: Nanos) -> u32 {
        let nodes = &mut self.nodes[..];
        let Node { parent, class, .. } = nodes[at as usize];
        let group = &mut self.groups[(parent - self.clients) as usize];
        group.raise_floor(nodes, at, kind, nodes[parent as usize].queued[1 - kind]);
        group.remember_dearest(now);
        if class == Class::Idle as u8 {
            group.idle_class_served = now;
            group.idlers_flying += 1;
        }
        let node = &mut nodes[at as usize];
        node.begin(kind, estimate);
        node.charge(estimate);
        if node.queued[kind] == 0 {
            group.ready[kind][usize::from(class)].remove(&mut self.orders[kind], at);
        }
        group.reorder(&mut self.orders, at, node);
        parent
    }

    /// A request goes to the device ahead of all others: the device refused it, or it was let in.
    #[inline(never)]
    pub(super) fn bypass(&mut self, client: u32, estimate: i64, now: Nanos) {
        self.arrive(client, CROWD, now, 0);
        self.dispatch(client, CROWD, estimate, now);
    }

    /// A request has ended, or was refused: the estimate is corrected (C2). Returns the state that
    /// this leaves at the top.
    #[inline(always)]
    pub(super) fn end(&mut self, client: u32, estimate: i64, took: i64) -> Ended {
        let (mut parent, mut ended) = self.end_one(client, estimate, took);
        while parent != self.root {
            (parent, ended) = self.end_above(parent, estimate, took);
        }
        let all = self.at_mut(parent);
        all.finish(estimate);
        all.charged += took - estimate;
        ended.flying = all.flying;
        ended
    }

    #[inline(never)]
    fn end_above(&mut self, at: u32, estimate: i64, took: i64) -> (u32, Ended) {
        self.end_one(at, estimate, took)
    }

    #[inline(always)]
    fn end_one(&mut self, at: u32, estimate: i64, took: i64) -> (u32, Ended) {
        let node = &mut self.nodes[at as usize];
        node.finish(estimate);
        node.charge(took - estimate);
        let group = &mut self.groups[(node.parent - self.clients) as usize];
        let before = group.dearest;
        group.dearest = node.price_above(took, before - (before >> 8));
        group.reorder(&mut self.orders, at, node);
        let Node { class, weight, parent, flying, .. } = *node;
        let (weights, dearest) = (group.busy_weight, group.dearest);
        if !node.is_busy() {
            group.busy_weight -= u64::from(weight);
        }
        if class == Class::Idle as u8 {
            group.idlers_flying -= 1;
            group.raise_idle_floor(&self.nodes);
        }
        (parent, Ended { top: at, class, weight, weights, dearest, flying })
    }

    /// A client pays for time in which the device was kept for it, and so do its groups.
    pub(super) fn charge_time(&mut self, client: u32, ns: i64) {
        let mut at = client;
        while at != self.root {
            self.at_mut(at).charge(ns);
            self.reorder(at);
            at = self.at(at).parent;
        }
        self.at_mut(at).charged += ns;
    }

    /// Two clients of a group go in step: moves the account of `client` up, so that it is at most
    /// `ns` of its own device time behind `other`.
    pub(super) fn follow(&mut self, client: u32, other: u32, ns: i64) {
        let weight = i64::from(self.at(client).weight);
        let least = self.at(other).vt.saturating_sub(ns.saturating_mul(UNIT) / weight);
        if self.at(client).vt < least {
            let own = self.at_mut(client);
            (own.vt, own.rest) = (least, 0);
            self.reorder(client);
        }
    }

    /// The client's next request is expected until then.
    #[inline(always)]
    pub(super) fn expect(&mut self, client: u32, until: Nanos) {
        self.at_mut(client).expected = until;
        if self.withheld > 0 {
            self.keep_idlers_waiting(client, until);
        }
        let mut at = self.at(client).parent;
        while at != self.root {
            let node = self.at_mut(at);
            node.expected = node.expected.max(until);
            at = node.parent;
        }
    }

    /// The idle class waits for a client of a better class that is expected, and for its groups.
    #[inline(never)]
    fn keep_idlers_waiting(&mut self, client: u32, until: Nanos) {
        let mut at = client;
        while at != self.root {
            let Node { parent, class, .. } = *self.at(at);
            if class != Class::Idle as u8 {
                let comes = &mut self.group_mut(parent).better_comes;
                *comes = until.max(*comes);
            }
            at = parent;
        }
    }

    /// Sets whether a node that has nothing waiting asks at once for its next request.
    pub(super) fn set_asks_at_once(&mut self, node: u32, asks: bool) {
        self.at_mut(node).asks_at_once = asks;
    }

    /// The weight of a node, and that of its busy siblings and itself, and their parent.
    pub(super) fn among_busy(&self, node: u32) -> Option<(u64, u64, u32)> {
        let Node { parent, weight, .. } = *self.at(node);
        if parent == NIL {
            return None;
        }
        let own = u64::from(weight);
        let counted = if self.at(node).is_busy() { own } else { 0 };
        Some((own, self.group(parent).busy_weight - counted + own, parent))
    }

    /// Whether a node has a request waiting or in the device.
    pub(super) fn is_busy(&self, node: u32) -> bool {
        self.at(node).is_busy()
    }

    /// Whether a client that has nothing here has had less than all waiting siblings, or at most
    /// `ahead` ns of device time more. One of the idle class waits for the better ones in any case.
    #[inline(always)]
    pub(super) fn is_behind(&self, client: u32, ahead: i64) -> bool {
        if self.at(client).class == Class::Idle as u8 {
            return false;
        }
        let mut at = client;
        while at != self.root {
            let node = self.at(at);
            if node.parent == NIL || node.is_busy() || !self.is_below_floor(node, ahead) {
                return false;
            }
            at = node.parent;
        }
        true
    }

    #[inline(always)]
    fn is_below_floor(&self, node: &Node, ahead: i64) -> bool {
        let floor = self.group(node.parent).floor[usize::from(node.class)];
        // Without seats no client may be ahead.
        let ahead =
            if ahead == 0 { 0 } else { ahead.saturating_mul(UNIT) / i64::from(node.weight) };
        node.vt.saturating_sub(ahead) < floor
    }
}

#[cfg(test)]
#[path = "tests/account.rs"]
mod tests;

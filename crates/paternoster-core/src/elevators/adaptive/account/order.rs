// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who stands where among his siblings: the orders of those who wait, and their floor (C3).
//!
//! # Invariants
//! A node stands in its parent's order of a kind and of its class exactly while requests of that
//! kind wait below it (I1 of the accounts).

use super::node::Key;
use super::{Accounts, CROWD, Group, Node, OWED_MOST, OWED_REQUESTS, STREAM, UNIT};
use crate::slab::NIL;
use crate::time::Nanos;
use crate::tree::{Nodes, Root};

impl Accounts {
    pub(super) fn enter_order(&mut self, node: u32, kind: usize) {
        let Node { parent, class, vt, .. } = *self.at(node);
        if parent != NIL {
            let group = &mut self.groups[(parent - self.clients) as usize];
            group.ready[kind][usize::from(class)].insert(&mut self.orders[kind], node, vt);
        }
    }

    pub(super) fn leave_order(&mut self, node: u32, kind: usize) {
        let Node { parent, class, .. } = *self.at(node);
        if parent != NIL {
            let group = &mut self.groups[(parent - self.clients) as usize];
            group.ready[kind][usize::from(class)].remove(&mut self.orders[kind], node);
        }
    }

    /// The virtual time of a node, which has a parent, is another one.
    pub(super) fn reorder(&mut self, node: u32) {
        let Accounts { nodes, groups, orders, clients, .. } = self;
        let own = &nodes[node as usize];
        groups[(own.parent - *clients) as usize].reorder(orders, node, own);
    }

    /// Who stands behind `node` among those of its group who wait as a kind.
    pub(super) fn next_in_order(&self, group: &Group, node: u32, kind: usize) -> Option<u32> {
        let behind = usize::from(self.at(node).class) + 1;
        let others = || group.ready[kind][behind..].iter().find_map(Root::first);
        self.orders[kind].next(node).or_else(others)
    }
}

impl Group {
    /// The virtual time of one in it is another one.
    #[inline(always)]
    pub(super) fn reorder(&mut self, orders: &mut [Nodes<i64>; 2], node: u32, own: &Node) {
        let class = usize::from(own.class);
        if own.queued[CROWD] > 0 {
            self.ready[CROWD][class].rekey(&mut orders[CROWD], node, own.vt);
        }
        if own.queued[STREAM] > 0 {
            self.ready[STREAM][class].rekey(&mut orders[STREAM], node, own.vt);
        }
    }

    /// C3: the floor of a class is the least virtual time among those of it who wait, where nobody
    /// of a better one does. `goes` is about to go, of a kind, and so many wait of the other one:
    /// mostly it is the first of all, and the floor is where it stands.
    #[inline(always)]
    pub(super) fn raise_floor(&mut self, nodes: &[Node], goes: u32, kind: usize, others: u32) {
        let own = nodes[goes as usize].key();
        let least =
            if others == 0 && self.first(kind) == Some(goes) { own } else { self.least(nodes) };
        if least.class == own.class {
            let floor = &mut self.floor[usize::from(own.class)];
            *floor = least.vt.max(*floor);
        }
    }

    /// Where the first of all stands who wait; somebody does.
    #[inline(never)]
    fn least(&self, nodes: &[Node]) -> Key {
        let firsts = [CROWD, STREAM].into_iter().filter_map(|kind| self.first(kind));
        let keys = firsts.map(|first| nodes[first as usize].key());
        keys.reduce(|one, other| if other.before(&one) { other } else { one }).unwrap_or_default()
    }

    /// C4: what was not used is released, but for the little that one is behind that is expected. A
    /// client that always has something in the device, and nothing waiting, has all that it asks
    /// for: what it is owed for that is at most [`OWED_MOST`], and without turns [`OWED_REQUESTS`]
    /// of the dearest requests: of the last second or so, not only of the last few hundred, or a
    /// client with many small requests would forgive one with large ones what it is ahead. The rest
    /// the gate did not get for it, and is nobody's.
    pub(super) fn lift(&self, own: &mut Node, now: Nanos, slack: i64) {
        let floor = self.floor[usize::from(own.class)];
        if own.vt >= floor {
            return;
        }
        let behind = match (own.flying > 0, own.expected > now) {
            (true, _) => self.debt_most(own.weight, now, slack),
            (_, true) => 2 * (self.dearest + slack * UNIT),
            _ => 0,
        };
        let least = floor.saturating_sub(behind);
        if own.vt < least {
            (own.vt, own.rest) = (least, 0);
        }
    }

    /// How far behind the floor one may be that has something in the device.
    fn debt_most(&self, weight: u32, now: Nanos, slack: i64) -> i64 {
        let turns = self.dearest + OWED_MOST * UNIT / i64::from(weight);
        if slack > 0 { turns } else { turns.min(OWED_REQUESTS * self.dearest_lately(now)) }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The orders of the waiting children of a group, and their floor (C3).
//!
//! # Invariants
//! A node is in its parent's order of a kind and of its class exactly while requests of that kind
//! wait below it (I1 of the accounts).

use super::node::Key;
use super::{Accounts, CROWD, Group, Node, OWED_MOST, OWED_REQUESTS, STREAM, UNIT};
use paternoster_core::Class;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::tree::{Nodes, Root};

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

    /// Re-sorts a node, which has a parent, after its virtual time has changed.
    pub(super) fn reorder(&mut self, node: u32) {
        let Accounts { nodes, groups, orders, clients, .. } = self;
        let own = &nodes[node as usize];
        groups[(own.parent - *clients) as usize].reorder(orders, node, own);
    }

    /// The node behind `node` among those of its group that wait as a kind.
    pub(super) fn next_in_order(&self, group: &Group, node: u32, kind: usize) -> Option<u32> {
        let behind = usize::from(self.at(node).class) + 1;
        let others = || group.ready[kind][behind..].iter().find_map(Root::first);
        self.orders[kind].next(node).or_else(others)
    }
}

impl Group {
    /// Re-sorts a child whose virtual time has changed.
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

    /// C3: the floor of a class is the least virtual time of its waiting nodes, while none of a
    /// better class waits. `goes` is about to go, of a kind, and `others` wait of the other kind:
    /// mostly it is the first of all, and the floor becomes its virtual time.
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

    /// The least key of all waiting nodes; there is at least one.
    #[inline(never)]
    fn least(&self, nodes: &[Node]) -> Key {
        let firsts = [CROWD, STREAM].into_iter().filter_map(|kind| self.first(kind));
        let keys = firsts.map(|first| nodes[first as usize].key());
        keys.reduce(|one, other| if other.before(&one) { other } else { one }).unwrap_or_default()
    }

    /// The same for the idle class, of which a request has ended: it may go although a better class
    /// waits (G10).
    #[cold]
    #[inline(never)]
    pub(super) fn raise_idle_floor(&mut self, nodes: &[Node]) {
        let idle = usize::from(Class::Idle as u8);
        let firsts = self.ready.iter().filter_map(|kind| kind[idle].first());
        if let Some(least) = firsts.map(|first| nodes[first as usize].vt).min() {
            self.floor[idle] = least.max(self.floor[idle]);
        }
    }

    /// The virtual time of a node that is to be of another class: as far above the floor there as
    /// it is above that of its own, but no more than [`OWED_MOST`].
    pub(super) fn in_class(&self, own: &Node, class: u8) -> i64 {
        let [from, to] = [own.class, class].map(|class| self.floor[usize::from(class)]);
        let most = self.dearest + OWED_MOST * UNIT / i64::from(own.weight);
        to.saturating_add((own.vt - from).clamp(0, most))
    }

    /// C4: releases unused time, except the little that an expected client is behind. A client that
    /// always has something in the device, or asks again at once, and has nothing waiting, gets all
    /// that it asks for. What it is owed for that is at most [`OWED_MOST`], and without turns at
    /// most [`OWED_REQUESTS`] times the most expensive request of the last second or so. (If only
    /// the last few hundred requests counted, a client with many small ones would forgive one with
    /// large ones its lead.) The rest the gate did not collect for it, and it lapses.
    pub(super) fn lift(&self, own: &mut Node, now: Nanos, slack: i64) {
        let floor = self.floor[usize::from(own.class)];
        if own.vt >= floor {
            return;
        }
        let behind = match (own.flying > 0, own.expected > now) {
            (true, _) => self.debt_most(own.weight, now, slack),
            (_, true) if own.asks_at_once => self.debt_most(own.weight, now, slack),
            (_, true) => 2 * (self.dearest + slack * UNIT),
            _ => 0,
        };
        let least = floor.saturating_sub(behind);
        if own.vt < least {
            (own.vt, own.rest) = (least, 0);
        }
    }

    /// How far ahead of an owed client of this weight another is not ahead yet: so many times the
    /// most expensive recent request, but at most half of what may be owed. (Requests of a light
    /// client are expensive for their weight: eight of 9 ms, of weight 100, are as much as 720 ms
    /// of one of weight 1000, which may be owed 410.)
    #[inline]
    pub(in super::super) fn slack(&self, requests: i64, weight: u32, now: Nanos) -> i64 {
        requests.saturating_mul(self.dearest).min(self.debt_most(weight, now, 0) / 2)
    }

    /// How far behind the floor a client may be that has something in the device or asks at once.
    fn debt_most(&self, weight: u32, now: Nanos, slack: i64) -> i64 {
        let turns = self.dearest + OWED_MOST * UNIT / i64::from(weight);
        if slack > 0 { turns } else { turns.min(OWED_REQUESTS * self.dearest_lately(now)) }
    }
}

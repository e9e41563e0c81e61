// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who stands where among his siblings: the orders of those who wait, and their floor (C3).
//!
//! # Invariants
//! A node stands in its parent's order of a kind and of its class exactly while requests of that
//! kind wait below it (I1 of the accounts).

use super::{Accounts, CROWD, Group, Key, Node, STREAM};
use crate::slab::NIL;
use crate::tree::Root;

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
        let Node { parent, class, vt, queued, .. } = *self.at(node);
        let group = &mut self.groups[(parent - self.clients) as usize];
        for kind in [CROWD, STREAM] {
            if queued[kind] > 0 {
                group.ready[kind][usize::from(class)].rekey(&mut self.orders[kind], node, vt);
            }
        }
    }

    /// Who stands behind `node` among those of its group who wait as a kind.
    pub(super) fn next_in_order(&self, group: &Group, node: u32, kind: usize) -> Option<u32> {
        let behind = usize::from(self.at(node).class) + 1;
        let others = || group.ready[kind][behind..].iter().find_map(Root::first);
        self.orders[kind].next(node).or_else(others)
    }

    /// C3: the floor of a class is the least virtual time among those of it who wait, where nobody
    /// of a better one does.
    pub(super) fn raise_floor(&mut self, parent: u32, class: u8) {
        if let Some(key) = self.first_key(parent).filter(|key| key.class == class) {
            let floor = &mut self.group_mut(parent).floor[usize::from(class)];
            *floor = key.vt.max(*floor);
        }
    }

    fn first_key(&self, parent: u32) -> Option<Key> {
        let group = self.group(parent);
        let key = |kind: usize| group.first(kind).map(|first| self.at(first).key());
        match (key(CROWD), key(STREAM)) {
            (Some(one), Some(other)) => Some(if other.before(&one) { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

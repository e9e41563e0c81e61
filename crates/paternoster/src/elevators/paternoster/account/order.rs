// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who stands where among his siblings: the orders of those who wait, and their floor (C3).
//!
//! # Invariants
//! A node stands in its parent's order of a kind exactly while requests of that kind wait below it
//! (I1 of the accounts); `idlers` of a group counts those of the idle class in each.

use super::{Accounts, CROWD, Key, STREAM};
use crate::client::Class;
use crate::slab::NIL;
use crate::tree::TreeKey;

impl Accounts {
    pub(super) fn enter_order(&mut self, node: u32, kind: usize) {
        let (parent, key) = (self.at(node).parent, self.at(node).key());
        if parent != NIL {
            let group = &mut self.groups[(parent - self.clients) as usize];
            group.ready[kind].insert(&mut self.orders[kind], node, key);
            group.idlers[kind] += u32::from(key.class == Class::Idle as u8);
        }
    }

    pub(super) fn leave_order(&mut self, node: u32, kind: usize) {
        let (parent, class) = (self.at(node).parent, self.at(node).class);
        if parent != NIL {
            let group = &mut self.groups[(parent - self.clients) as usize];
            group.ready[kind].remove(&mut self.orders[kind], node);
            group.idlers[kind] -= u32::from(class == Class::Idle as u8);
        }
    }

    /// The virtual time of a node is another one.
    pub(super) fn reorder(&mut self, node: u32) {
        let own = self.at(node);
        let (parent, key, queued) = (own.parent, own.key(), own.queued);
        if parent == NIL {
            return;
        }
        for kind in [CROWD, STREAM] {
            if queued[kind] > 0 {
                let group = &mut self.groups[(parent - self.clients) as usize];
                group.ready[kind].rekey(&mut self.orders[kind], node, key);
            }
        }
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
        let ready = &self.group(parent).ready;
        let key = |kind: usize| ready[kind].first().map(|first| self.at(first).key());
        match (key(CROWD), key(STREAM)) {
            (Some(one), Some(other)) => Some(if other.before(&one) { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

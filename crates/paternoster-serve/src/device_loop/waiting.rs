// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting: which connections look again when something that they lacked has come back.
//!
//! ```text
//! room      any of the device's memory or places     one line, two tries for each thing freed
//! tenant    what others of the same tenant hold     a line for each tenant, the same
//! ```
//!
//! Two look again for each thing, as what comes back may suffice for two. No other tenant's line is
//! looked at.
//!
//! Invariants: I1 a connection that is in a line need not wait any more: it is asked when its turn
//! comes. I2 One that goes leaves its tenant's line: the next connection of its index is another's.

use std::collections::{BTreeMap, VecDeque};

/// The lines of a loop.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    for_room: VecDeque<u32>,
    /// Things that have come back since connections last tried again.
    freed: usize,
    /// By the number that each has in its line.
    by_tenant: Vec<BTreeMap<u64, u32>>,
    /// Numbers given so far.
    numbers: u64,
}

impl Waiting {
    /// A connection waits for room.
    pub(super) fn for_room(&mut self, index: u32) {
        self.for_room.push_back(index);
    }

    /// A connection waits for something that others of its tenant hold. Returns its number in the
    /// line.
    pub(super) fn for_tenant(&mut self, tenant: u32, index: u32) -> u64 {
        let place = tenant as usize;
        if self.by_tenant.len() <= place {
            self.by_tenant.resize_with(place + 1, BTreeMap::new);
        }
        self.numbers += 1;
        self.by_tenant[place].insert(self.numbers, index);
        self.numbers
    }

    /// Notes that this many things were given back.
    #[inline]
    pub(super) const fn freed(&mut self, things: usize) {
        self.freed += things;
    }

    /// Whether anything has, since connections last tried again.
    pub(super) const fn has_freed(&self) -> bool {
        self.freed != 0
    }

    /// How many connections try again now: two for each thing that has come back.
    pub(super) fn tries(&mut self) -> usize {
        std::mem::take(&mut self.freed).saturating_mul(2).min(self.for_room.len())
    }

    /// The next that tries again.
    pub(super) fn next_for_room(&mut self) -> Option<u32> {
        self.for_room.pop_front()
    }

    /// The next of a tenant that looks again.
    pub(super) fn next_of_tenant(&mut self, tenant: u32) -> Option<u32> {
        Some(self.by_tenant.get_mut(tenant as usize)?.pop_first()?.1)
    }

    /// The tenants of which connections wait.
    pub(super) fn tenants(&self) -> Vec<u32> {
        let waits = (0..).zip(&self.by_tenant).filter(|(_, line)| !line.is_empty());
        waits.map(|(tenant, _)| tenant).collect()
    }

    /// The connection of this number waits for nothing of a tenant any more.
    pub(super) fn remove(&mut self, tenant: u32, number: u64) {
        if let Some(line) = self.by_tenant.get_mut(tenant as usize) {
            line.remove(&number);
        }
    }

    /// A tenant has gone.
    pub(super) fn forget(&mut self, tenant: u32) {
        if let Some(line) = self.by_tenant.get_mut(tenant as usize) {
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do two try again for each thing, no more than wait, and none twice for one thing?
    #[test]
    fn two_try_for_each_thing() {
        let mut waiting = Waiting::default();
        (0..5).for_each(|index| waiting.for_room(index));
        assert_eq!(waiting.tries(), 0, "nothing has come back");
        waiting.freed(2);
        assert!(waiting.has_freed());
        assert_eq!((waiting.tries(), waiting.tries()), (4, 0));
        assert_eq!([0; 5].map(|_| waiting.next_for_room()), [0, 1, 2, 3, 4].map(Some));
        waiting.freed(9);
        assert_eq!(waiting.tries(), 0, "none waits");
    }

    /// Does each tenant have a line of its own? Does a connection that moves to another tenant
    /// leave it, and does the line go with its tenant?
    #[test]
    fn tenants_have_lines_of_their_own() {
        let mut waiting = Waiting::default();
        let each = [(3, 10), (1, 11), (3, 12), (3, 13)];
        let numbers = each.map(|(tenant, index)| waiting.for_tenant(tenant, index));
        assert_eq!(waiting.tenants(), [1, 3]);
        waiting.remove(3, numbers[2]);
        assert_eq!((waiting.next_of_tenant(3), waiting.next_of_tenant(3)), (Some(10), Some(13)));
        assert_eq!((waiting.next_of_tenant(3), waiting.next_of_tenant(9)), (None, None));
        waiting.forget(1);
        assert!(waiting.tenants().is_empty());
    }
}

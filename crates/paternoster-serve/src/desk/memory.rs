// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory: how much of it each tenant may have.
//!
//! Half of it is guaranteed to tenants, half is lent to those that ask first. Of the guaranteed
//! half one half is divided by weight and one equally, among the tenants that are there and one of
//! weight 100 that is not: the next one finds its part free, whatever the others hold.
//!
//! ```text
//! 64 MiB     |--- guaranteed, 32 MiB --------------|--- lent, 32 MiB ---|
//! one tenant |  a 8 + 8 MiB   | the next 8 + 8 MiB |
//! a 300, b 100, the next 100: 16 MiB by weight are 9.6, 3.2, 3.2; 16 MiB equally 5.33 each
//! ```
//!
//! What a tenant holds above its guarantee is lent. A connection may have a quarter of what its
//! tenant could get if the connection had nothing: one that asks for much and takes no answers
//! leaves three quarters to others of its tenant. A tenant that has nothing may always have one
//! part; a connection that has nothing waits for its tenant's others. A payload is given memory in
//! pieces: 64 KiB of the first, twice as many of each that follows one that has come.
//!
//! Invariants: I1 `memory` of a tenant is the sum of its connections'; I2 `lent` is the sum of what
//! tenants hold above their guarantees; I3 more is lent only while less than the lent half is.

use super::Desk;
use super::guest::Blocked;
use super::tenants::{ROOT, Tenants};
use crate::device::arena::Block;

/// Weight of connections of a node that has others below it, and of the tenant that may come.
const USUAL: u64 = 100;

/// Half of the memory: it is guaranteed.
const fn guaranteed_in_all(memory: u64) -> u64 {
    memory / 2
}

impl Tenants {
    /// Divides what is guaranteed, after tenants or weights have changed.
    pub(super) fn divide_memory(&mut self, memory: u64) {
        let all = guaranteed_in_all(memory);
        let mut below: Vec<u64> = Vec::new();
        let mut is_active: Vec<bool> = Vec::new();
        let mut add = |place: u32, weight: u64| {
            let place = place as usize;
            if below.len() <= place {
                below.resize(place + 1, 0);
            }
            below[place] += weight;
        };
        // One that is not there.
        let mut count = 1;
        add(ROOT, USUAL);
        for (place, node) in self.iter().filter(|(_, node)| node.connections != 0) {
            count += 1;
            add(place, USUAL);
            let (mut place, mut node) = (place, node);
            while place != ROOT {
                if is_active.len() <= place as usize {
                    is_active.resize(place as usize + 1, false);
                }
                if std::mem::replace(&mut is_active[place as usize], true) {
                    break;
                }
                add(node.parent, u64::from(node.effective));
                place = node.parent;
                node = self.at(place);
            }
        }
        let mut lent = 0;
        let places: Vec<u32> = self.iter().map(|(place, _)| place).collect();
        for place in places {
            let node = self.at(place);
            let mut part = if node.connections == 0 { 0 } else { all / 2 };
            let equal = if node.connections == 0 { 0 } else { all / 2 / count };
            if part != 0 {
                part = part * USUAL / below[place as usize].max(1);
                let (mut below_it, mut node) = (place, node);
                while below_it != ROOT {
                    part = part * u64::from(node.effective) / below[node.parent as usize].max(1);
                    below_it = node.parent;
                    node = self.at(below_it);
                }
            }
            let node = self.at_mut(place);
            node.guaranteed = part + equal;
            lent += node.memory.saturating_sub(node.guaranteed);
        }
        self.lent = lent;
    }

    /// A connection of a tenant holds so many bytes now, instead of others.
    fn hold(&mut self, place: u32, before: u64, now: u64) {
        let node = self.at_mut(place);
        let was_lent = node.memory.saturating_sub(node.guaranteed);
        node.memory = node.memory - before + now;
        let is_lent = node.memory.saturating_sub(node.guaranteed);
        self.lent = self.lent - was_lent + is_lent;
    }

    /// Bytes that a tenant may still get.
    fn may_get(&self, place: u32, memory: u64) -> u64 {
        let node = self.at(place);
        let own = node.guaranteed.saturating_sub(node.memory);
        own + (memory - guaranteed_in_all(memory)).saturating_sub(self.lent)
    }
}

impl Desk {
    /// What is divided among tenants, after one has come or gone, or a weight has changed.
    pub(super) fn divide(&mut self) {
        self.bound.divide(&self.tenants);
        self.tenants.divide_memory(self.arena.length() as u64);
    }

    /// A guest's memory has changed: its tenant's has, too.
    pub(super) fn count_memory(&mut self, index: u32) {
        let guest = self.guests.at_mut(index);
        let before = std::mem::replace(&mut guest.counted, guest.memory);
        let (tenant, now) = (guest.tenant, guest.memory);
        if before != now {
            self.tenants.hold(tenant, before, now);
        }
        if before > now {
            self.feed_the_tenant(tenant);
        }
    }

    /// Some memory of a tenant has come back: of its connections that wait for that, two look
    /// again, as what comes back may suffice for two.
    fn feed_the_tenant(&mut self, tenant: u32) {
        for _ in 0..2 {
            let Some(index) = self.tenants.at_mut(tenant).waiting.pop_front() else { return };
            if !self.guests.is_live(index) {
                continue;
            }
            let guest = self.guests.at_mut(index);
            guest.is_listed = false;
            if guest.blocked == Blocked::Tenant {
                self.unblock(index);
            }
        }
    }

    /// As [`Desk::feed_the_tenant`], of each that has connections that wait.
    pub(super) fn feed_the_tenants(&mut self) {
        let waiting = self.tenants.iter().filter(|(_, node)| !node.waiting.is_empty());
        let places: Vec<u32> = waiting.map(|(place, _)| place).collect();
        for place in places {
            self.feed_the_tenant(place);
        }
    }

    /// Bytes that a guest's tenant may still get.
    pub(super) fn may_get(&self, index: u32) -> u64 {
        self.tenants.may_get(self.guests.at(index).tenant, self.arena.length() as u64)
    }

    /// Bytes that the parts of a guest may still take.
    pub(super) fn allowance(&self, index: u32) -> u64 {
        let guest = self.guests.at(index);
        let may_get = self.may_get(index);
        if guest.memory != 0 {
            let without_it = may_get + guest.memory;
            return self.connection_memory.min(without_it / 4).saturating_sub(guest.memory);
        }
        // One part always fits, or nothing would ever go on.
        if self.tenants.at(guest.tenant).memory == 0 { u64::MAX } else { may_get }
    }

    /// Bytes of memory that are nobody's.
    pub(super) fn free_memory(&self) -> u64 {
        (self.arena.length() - self.arena.used()) as u64
    }

    /// A block for a part of a guest.
    pub(super) fn take_memory(&mut self, guest: u32, bytes: usize) -> Option<Block> {
        let block = self.arena.take(bytes)?;
        self.guests.at_mut(guest).memory += block.size() as u64;
        self.count_memory(guest);
        Some(block)
    }

    /// The memory of a part goes back.
    pub(super) fn give_back(&mut self, guest: u32, block: Block) {
        self.guests.at_mut(guest).memory -= block.size() as u64;
        self.count_memory(guest);
        self.arena.give_back(block);
        self.share_again(guest);
    }

    /// Some memory of a guest has come back: if it waits for that, it goes on.
    pub(super) fn share_again(&mut self, guest: u32) {
        if self.guests.at(guest).blocked == Blocked::Share {
            self.unblock(guest);
        }
    }
}

#[cfg(test)]
mod tests {
    use paternoster::{DeviceFacts, Limits, Nanos, NoObserver, elevators};

    use super::*;
    use crate::config::{Config, Tenant};
    use crate::ledger::Ledger;

    const MEMORY: u64 = 64 << 20;

    fn tenants(weights: &[(&str, u32)]) -> (Tenants, Ledger<NoObserver>) {
        let tenant = |&(name, weight): &(&str, u32)| Tenant { weight, ..Tenant::new(name) };
        let config = Config { tenants: weights.iter().map(tenant).collect(), ..Config::default() };
        let elevator = elevators::by_name("bfq").unwrap();
        let limits = Limits { groups: 64, ..Limits::default() };
        let mut ledger = Ledger::new(DeviceFacts::default(), limits, elevator, NoObserver);
        let made = Tenants::new(&config, &mut ledger).unwrap();
        (made, ledger)
    }

    /// Does the example of the essay hold?
    #[test]
    fn a_part_for_each_and_for_the_next() {
        let (mut tenants, mut ledger) = tenants(&[("a", 300), ("b", 100)]);
        let a = tenants.enter(Nanos::ZERO, &mut ledger, "a");
        tenants.divide_memory(MEMORY);
        // 16 MiB * 300 / 400 by weight, 16 / 2 equally.
        assert_eq!(tenants.at(a).guaranteed, (12 + 8) << 20);
        let b = tenants.enter(Nanos::ZERO, &mut ledger, "b");
        tenants.divide_memory(MEMORY);
        let equally = (16 << 20) / 3;
        assert_eq!(tenants.at(a).guaranteed, (16 << 20) * 3 / 5 + equally);
        assert_eq!(tenants.at(b).guaranteed, (16 << 20) / 5 + equally);
    }

    /// Does the next tenant find its part free, though the first has taken all that it may?
    #[test]
    fn what_is_guaranteed_is_free() {
        let (mut tenants, mut ledger) = tenants(&[("a", 100), ("b", 100)]);
        let a = tenants.enter(Nanos::ZERO, &mut ledger, "a");
        tenants.divide_memory(MEMORY);
        let all_of_a = tenants.may_get(a, MEMORY);
        assert_eq!(all_of_a, (16 + 32) << 20);
        tenants.hold(a, 0, all_of_a);
        assert_eq!(tenants.may_get(a, MEMORY), 0);
        let b = tenants.enter(Nanos::ZERO, &mut ledger, "b");
        tenants.divide_memory(MEMORY);
        // A third of 32 MiB, and nothing is lent.
        assert_eq!(tenants.may_get(b, MEMORY), 2 * ((16 << 20) / 3));
        assert!(all_of_a + tenants.may_get(b, MEMORY) <= MEMORY);
        tenants.hold(a, all_of_a, 0);
        assert_eq!(tenants.lent, 0);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shared: a loop's memory, and its places for requests and their fragments, in pools.
//!
//! A connection may have a quarter of the memory that its tenant could get if the connection had
//! nothing: one that asks for much and takes no answers leaves three quarters to others of its
//! tenant. A tenant that has nothing may always have one fragment; a connection that has nothing
//! waits for others of its tenant. A payload gets memory in pieces: 64 KiB for the first, then
//! twice as much after each one that has come.
//!
//! A connection that waits for something its tenant holds is in the tenant's list. Whenever the
//! tenant gets something back, two of these look again: no other tenant's list is looked at.
//!
//! Invariants: I1 the memory that a pool says a tenant has is the sum of its connections'; I2 a
//! connection in a list waits for something that another connection of its tenant has.

use super::DeviceLoop;
use super::connection::Blocked;
use super::pool::Pool;
use crate::device::arena::Block;
use crate::tally;

/// What the tenants of a loop share.
#[derive(Debug)]
pub(super) struct Pools {
    /// Bytes.
    pub memory: Pool,
    /// Places.
    pub ios: Pool,
    pub fragments: Pool,
}

impl Pools {
    /// Pools of these sizes.
    pub(super) const fn new(memory: u64, ios: u32, fragments: u32) -> Pools {
        Pools {
            memory: Pool::new(memory),
            ios: Pool::new(ios as u64),
            fragments: Pool::new(fragments as u64),
        }
    }
}

impl DeviceLoop {
    /// Divides everything among tenants again, after one has come or gone, or a weight has changed.
    pub(super) fn divide(&mut self) {
        self.queue_limit.divide(&self.tenants);
        let shares = self.tenants.shares();
        self.surveys.divide(&shares);
        self.turns.divide(&shares);
        let Pools { memory, ios, fragments } = &mut self.pools;
        [memory, ios, fragments].into_iter().for_each(|pool| pool.divide(&shares));
    }

    /// A connection's memory has changed: its tenant's has, too.
    pub(super) fn count_memory(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        let before = std::mem::replace(&mut connection.counted, connection.memory);
        let (tenant, now) = (connection.tenant, connection.memory);
        if before != now {
            self.pools.memory.hold(tenant, before, now);
        }
        if before > now {
            self.feed_the_tenant(tenant);
        }
    }

    /// A tenant has one fragment more, or less.
    pub(super) fn count_fragment(&mut self, tenant: u32, before: u64, now: u64) {
        self.pools.fragments.hold(tenant, before, now);
        if before > now {
            self.feed_the_tenant(tenant);
        }
    }

    /// A tenant has one I/O more, or less.
    pub(super) fn count_io(&mut self, tenant: u32, before: u64, now: u64) {
        self.pools.ios.hold(tenant, before, now);
        if before > now {
            self.feed_the_tenant(tenant);
        }
    }

    /// Something of a tenant has come back: two of its waiting connections look again, as what
    /// comes back may suffice for two.
    fn feed_the_tenant(&mut self, tenant: u32) {
        for _ in 0..2 {
            let Some(index) = self.tenants.at_mut(tenant).waiting.pop_front() else { return };
            tally::looked(1);
            if !self.connections.is_live(index) {
                continue;
            }
            let connection = self.connections.at_mut(index);
            connection.is_listed = false;
            if matches!(connection.blocked, Blocked::Tenant | Blocked::Client) {
                self.unblock(index);
            }
        }
    }

    /// As [`DeviceLoop::feed_the_tenant`], for each tenant with waiting connections.
    pub(super) fn feed_the_tenants(&mut self) {
        let waiting = self.tenants.iter().filter(|(_, node)| !node.waiting.is_empty());
        let places: Vec<u32> = waiting.map(|(place, _)| place).collect();
        for place in places {
            self.feed_the_tenant(place);
        }
    }

    /// Bytes that a connection's tenant may still get.
    pub(super) fn may_get(&self, index: u32) -> u64 {
        #[cfg(test)]
        if super::planted::has(super::planted::Bug::LendsAll) {
            return self.free_memory();
        }
        self.pools.memory.may_get(self.connections.at(index).tenant)
    }

    /// Bytes that the fragments of a connection may still take.
    pub(super) fn allowance(&self, index: u32) -> u64 {
        let connection = self.connections.at(index);
        let may_get = self.may_get(index);
        if connection.memory != 0 {
            let without_it = may_get + connection.memory;
            return self.connection_memory.min(without_it / 4).saturating_sub(connection.memory);
        }
        // One fragment always fits, or nothing would ever go on.
        if self.pools.memory.held(connection.tenant) == 0 { u64::MAX } else { may_get }
    }

    /// Bytes of free memory.
    pub(super) fn free_memory(&self) -> u64 {
        (self.arena.length() - self.arena.used()) as u64
    }

    /// A block for a fragment of a connection.
    pub(super) fn take_memory(&mut self, connection: u32, bytes: usize) -> Option<Block> {
        let block = self.arena.take(bytes)?;
        self.connections.at_mut(connection).memory += block.size() as u64;
        self.count_memory(connection);
        Some(block)
    }

    /// The memory of a fragment goes back.
    pub(super) fn give_back(&mut self, connection: u32, block: Block) {
        self.connections.at_mut(connection).memory -= block.size() as u64;
        self.count_memory(connection);
        self.arena.give_back(block);
        self.share_again(connection);
    }

    /// Some memory of a connection has come back: if it waits for that, it goes on.
    pub(super) fn share_again(&mut self, connection: u32) {
        if matches!(self.connections.at(connection).blocked, Blocked::Share | Blocked::Client) {
            self.unblock(connection);
        }
    }
}

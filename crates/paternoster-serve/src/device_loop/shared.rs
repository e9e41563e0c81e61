// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shared: a loop's memory, and its places for requests and their fragments, in pools.
//!
//! A connection may have a quarter of the memory that its tenant could get if the connection had
//! nothing: one that asks for much and takes no answers leaves three quarters to others of its
//! tenant. A tenant that holds nothing may always have one fragment; a connection that holds
//! nothing waits for others of its tenant. A payload gets memory in pieces: 64 KiB for the first,
//! then twice as much after each one that has come.
//!
//! Which connections wait for that, and which look again when something comes back, is in `waiting`
//! and `connection_table`.
//!
//! Invariant: the memory that a pool says a tenant has is the sum of its connections'.

use super::connection::Connection;
use super::connection_table::Connections;
#[cfg(test)]
use super::planted::{self, Bug};
use super::pool::{Pool, Shares};
use super::queue_limit::QueueLimit;
use crate::device::arena::{Arena, Block};

/// The part of the memory, one in this many, that bytes read but not parsed yet may take.
const RESTS: u64 = 8;
/// A tenant is short when it may get less than what it holds divided by this.
const HELD: u64 = 3;

/// What the tenants of a loop share.
#[derive(Debug)]
pub(super) struct Shared {
    arena: Arena,
    /// Bytes.
    memory: Pool,
    /// Places.
    ios: Pool,
    fragments: Pool,
    /// Bytes that were read from connections and not understood yet.
    rests: u64,
    /// Bytes that one connection may have.
    of_one: u64,
    /// Places in the queue.
    pub queue_limit: QueueLimit,
}

impl Shared {
    /// Shares this memory, of which one connection may have `of_one` bytes, and this many places.
    pub(super) fn new(
        (arena, of_one): (Arena, u64),
        ios: u32,
        fragments: u32,
        queue_limit: QueueLimit,
    ) -> Shared {
        Shared {
            memory: Pool::new(arena.length() as u64),
            ios: Pool::new(ios.into()),
            fragments: Pool::new(fragments.into()),
            arena,
            rests: 0,
            of_one,
            queue_limit,
        }
    }

    /// Sets how much one connection may have.
    pub(super) const fn limit(&mut self, of_one: u64) {
        self.of_one = of_one;
    }

    /// Divides everything among tenants again.
    pub(super) fn divide(&mut self, shares: &Shares) {
        for pool in [&mut self.memory, &mut self.ios, &mut self.fragments] {
            pool.divide(shares);
        }
    }

    /// Bytes of memory in all, and bytes in use.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.arena.length() as u64, self.arena.used() as u64 + self.rests)
    }

    /// Bytes of free memory.
    pub(super) fn free(&self) -> u64 {
        (self.arena.length() - self.arena.used()) as u64
    }

    /// The memory, for what gives blocks back: the owner's is counted again after it.
    pub(super) const fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// Bytes that a connection may still read ahead, given what waits already.
    pub(super) fn ahead(&self) -> u64 {
        (self.arena.length() as u64 / RESTS).saturating_sub(self.rests)
    }

    /// Counts bytes that were read and are not parsed yet.
    pub(super) fn keeps(&mut self, rest: &[u8]) {
        self.rests += rest.len() as u64;
    }

    /// Takes bytes off the account that were parsed or dropped.
    pub(super) fn drops(&mut self, rest: &[u8]) {
        self.rests -= rest.len() as u64;
    }

    /// A connection's memory has changed: updates its tenant's.
    pub(super) fn count(&mut self, connections: &mut Connections, index: u32) {
        let connection = connections.at_mut(index);
        let before = std::mem::replace(&mut connection.counted, connection.memory);
        let (tenant, now) = (connection.tenant, connection.memory);
        if before != now {
            self.memory.hold(tenant, before, now);
        }
        if before > now {
            connections.feed(tenant);
        }
    }

    /// A tenant has one fragment more.
    pub(super) fn begin_fragment(&mut self, tenant: u32) {
        self.fragments.hold(tenant, 0, 1);
    }

    /// A tenant has one fragment less.
    pub(super) fn end_fragment(&mut self, connections: &mut Connections, tenant: u32) {
        self.fragments.hold(tenant, 1, 0);
        connections.feed(tenant);
    }

    /// Whether a tenant may have one fragment more.
    pub(super) fn has_fragment(&self, tenant: u32) -> bool {
        self.fragments.has_one_for(tenant)
    }

    /// A tenant has one I/O more.
    pub(super) fn begin_io(&mut self, tenant: u32) {
        self.ios.hold(tenant, 0, 1);
    }

    /// A tenant has one I/O less.
    pub(super) fn end_io(&mut self, connections: &mut Connections, tenant: u32) {
        self.ios.hold(tenant, 1, 0);
        connections.feed(tenant);
    }

    /// Whether a tenant may have one I/O more.
    pub(super) fn has_io(&self, tenant: u32) -> bool {
        self.ios.has_one_for(tenant)
    }

    /// Bytes that a tenant may still get.
    pub(super) fn may_get(&self, tenant: u32) -> u64 {
        #[cfg(test)]
        if planted::has(Bug::LendsAll) {
            return self.free();
        }
        self.memory.may_get(tenant)
    }

    /// Bytes that the fragments of a connection may still take.
    pub(super) fn allowance(&self, connection: &Connection) -> u64 {
        let may_get = self.may_get(connection.tenant);
        if connection.memory != 0 {
            let without_it = may_get + connection.memory;
            return self.of_one.min(without_it / 4).saturating_sub(connection.memory);
        }
        // One fragment always fits, or nothing would ever go on.
        if self.memory.held(connection.tenant) == 0 { u64::MAX } else { may_get }
    }

    /// Whether a tenant has so little left that its clients are no longer trusted (`credit`).
    pub(super) fn is_short(&self, tenant: u32) -> bool {
        #[cfg(test)]
        if planted::has(Bug::LendsAll) {
            return false;
        }
        let pools = [&self.memory, &self.fragments];
        pools.iter().any(|pool| pool.may_get(tenant) < pool.held(tenant) / HELD)
    }

    /// Whether memory that a tenant has a claim to must be there, if only in small pieces: what is
    /// guaranteed to it, or what may not wait for clients.
    pub(super) fn is_owed(&self, tenant: u32) -> bool {
        self.memory.owed_to(tenant) != 0 || self.is_short(tenant)
    }

    /// A block for a fragment of a connection.
    pub(super) fn take(
        &mut self,
        connections: &mut Connections,
        index: u32,
        bytes: usize,
    ) -> Option<Block> {
        let block = self.arena.take(bytes)?;
        connections.at_mut(index).memory += block.size() as u64;
        self.count(connections, index);
        Some(block)
    }

    /// The memory of a fragment goes back.
    pub(super) fn give_back(&mut self, connections: &mut Connections, index: u32, block: Block) {
        connections.at_mut(index).memory -= block.size() as u64;
        self.count(connections, index);
        self.arena.give_back(block);
        connections.share_again(index);
    }

    /// What a tenant holds: bytes, I/Os and fragments.
    #[cfg(test)]
    pub(super) fn held(&self, tenant: u32) -> [u64; 3] {
        [&self.memory, &self.ios, &self.fragments].map(|pool| pool.held(tenant))
    }

    /// Bytes that one connection may have.
    #[cfg(test)]
    pub(super) const fn of_one(&self) -> u64 {
        self.of_one
    }

    /// What is lent: bytes, I/Os and fragments.
    #[cfg(test)]
    pub(super) fn lent(&self) -> [u64; 3] {
        [&self.memory, &self.ios, &self.fragments].map(Pool::lent)
    }

    /// Bytes that are used, and that were read ahead.
    #[cfg(test)]
    pub(super) fn used(&self) -> (usize, u64) {
        (self.arena.used(), self.rests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::arena::LARGEST;

    fn whole() -> Shared {
        let memory = (Arena::new(4 * LARGEST).unwrap(), 1 << 20);
        Shared::new(memory, 8, 8, QueueLimit::new(None, 1))
    }

    /// May bytes that are not understood yet take an eighth of the memory, and are they counted as
    /// used?
    #[test]
    fn rests_are_an_eighth() {
        let mut shared = whole();
        let (all, rest) = (4 * LARGEST as u64, vec![0; 1000]);
        assert_eq!((shared.ahead(), shared.bytes()), (all / 8, (all, 0)));
        shared.keeps(&rest);
        assert_eq!((shared.ahead(), shared.bytes()), (all / 8 - 1000, (all, 1000)));
        shared.drops(&rest);
        assert_eq!((shared.ahead(), shared.free()), (all / 8, all));
    }

    /// Is a tenant short of places when it may get fewer than a third of what it holds? Of eight,
    /// four are lent; with the third of those two are left, with the fourth one.
    #[test]
    fn a_tenant_is_short_of_places() {
        let mut shared = whole();
        let mut short = Vec::new();
        for _ in 0..4 {
            shared.begin_fragment(3);
            short.push(shared.is_short(3));
        }
        assert_eq!(short, [false, false, false, true]);
        assert!(!shared.has_fragment(3) && shared.has_fragment(4), "four more are guaranteed");
    }
}

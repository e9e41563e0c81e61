// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owner: whose flush it is.
//!
//! A flush is asked for by one client and may drain what ten have written; on most devices it
//! takes the device from everybody. Its *owners* are the writers of the data that it drains. Per
//! client the bytes are counted that have ended in the volatile cache since a flush last started
//! (*pending*), and those that the flush in the device drains (*running*). At its end its device
//! time above that of a flush of a clean cache is split by them; the rest goes to those who asked:
//!
//! ```text
//! A wrote 12 KiB, B 4 KiB; C asks.   The flush takes 3.4 ms, one of a clean cache 0.2:
//! A 3.2 * 12/16 = 2.4 ms     B 3.2 * 4/16 = 0.8 ms     C 0.2 ms
//! ```
//!
//! The cost of a clean cache is the least that was seen of flushes that are known to have found
//! nothing. Where those are no commands (`flush_elide`) none is seen, and it counts as nothing.
//!
//! What it costs to have taken so much is in `debt`. What a device drains by itself costs nobody
//! anything: the pending bytes halve for every second in which their client has written nothing.
//!
//! # Invariants
//! I1  A client is on the list at least while it has bytes pending or running.
//! I2  What is charged adds up to the flush's device time, but for rounding. (For what clients
//!     wrote that have gone the others pay.)
//!
//! Source: plan of the house, section 5. No Linux does it.

use crate::client::ClientId;
use crate::debt::Reading;
use crate::event::Observer;
use crate::list::{Links, List};
use crate::queue::RequestQueue;
use crate::request::{Flags, Op, RequestId};
use crate::scene::Scene;
use crate::slab::NIL;
use crate::time::Nanos;

/// How fast a device drains its cache by itself: half of what is there in this time. Assumed.
const HALF_LIFE: Nanos = Nanos::from_secs(1);

/// What a client has in the device's cache, in sectors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dirt {
    /// Since a flush last started.
    pending: u64,
    /// Drained by the flush in the device.
    running: u64,
    /// When it last wrote.
    since: Nanos,
}

/// The clients with something in the cache.
#[derive(Debug)]
pub(super) struct Owners {
    list: List,
    links: Links,
    /// The least device time of a flush that found nothing to drain.
    clean_cost: Option<Nanos>,
}

impl Owners {
    pub(super) fn with_capacity(clients: u32) -> Owners {
        Owners { list: List::new(), links: Links::with_capacity(clients), clean_cost: None }
    }

    fn wrote(&mut self, scene: &mut Scene, client: ClientId, sectors: u32) {
        let Some(writer) = scene.clients.get_mut(client.0) else { return };
        writer.dirt.pending = remaining(&writer.dirt, scene.exact) + u64::from(sectors);
        writer.dirt.since = scene.exact;
        if !self.links.contains(client.index()) {
            self.list.push_back(&mut self.links, client.index());
        }
    }

    /// What is pending now is drained by the flush that goes to the device.
    pub(super) fn flush_starts(&mut self, scene: &mut Scene) {
        let mut at = self.list.first();
        while let Some(index) = at {
            at = self.links.next(index);
            let now = scene.exact;
            let dirt = &mut scene.clients.at_mut(index).dirt;
            dirt.running += remaining(dirt, now);
            dirt.pending = 0;
        }
    }

    /// A flush of a cache that is known to have been clean took so long.
    pub(super) fn found_clean(&mut self, served: Nanos) {
        let least = self.clean_cost.map_or(served, |least| least.min(served));
        self.clean_cost = Some(least);
    }

    fn forget(&mut self, client: u32) {
        if self.links.contains(client) {
            self.list.remove(&mut self.links, client);
        }
    }

    /// Verifies I1.
    pub(super) fn audit(&self, scene: &Scene) -> Result<(), alloc::string::String> {
        self.list.check(&self.links)?;
        for (key, client) in scene.clients.iter() {
            let has = client.dirt.pending + client.dirt.running > 0;
            if has && !self.links.contains(key.index()) {
                return Err(alloc::format!("owner I1: client {} is not listed", key.index()));
            }
        }
        Ok(())
    }
}

/// What the device has not drained by itself of what is pending.
fn remaining(dirt: &Dirt, now: Nanos) -> u64 {
    let halvings = (now - dirt.since).0 / HALF_LIFE.0;
    dirt.pending.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
}

impl<O: Observer> RequestQueue<O> {
    /// Whether flushes are charged, and device time passes for who owes.
    pub(crate) const fn owners_pay(&self) -> bool {
        self.flush.policy.owned && self.scene.facts.write_cache
    }

    /// A command other than a flush has ended: what it wrote may be in the cache.
    #[inline(never)]
    pub(crate) fn note_written(&mut self, id: RequestId, good: bool) {
        let request = &self.scene.requests[id];
        self.flush.clean.write_ended(request, good);
        let cached = request.op == Op::Write && !request.flags.contains(Flags::FUA);
        if !cached || !self.owners_pay() {
            return;
        }
        let mut index = request.bios_first;
        while index != NIL {
            let slot = self.bios.at(index);
            self.flush.owners.wrote(&mut self.scene, slot.client, slot.sectors);
            index = slot.next;
        }
    }

    /// The flush has ended and took `served`: its owners are charged, and those who asked.
    pub(super) fn settle_flush(&mut self, list: usize, good: bool, served: Nanos) {
        let total = self.running_sectors();
        let clean = self.flush.owners.clean_cost.unwrap_or(Nanos::ZERO).min(served);
        let above = if total == 0 { Nanos::ZERO } else { served - clean };
        self.allow_ahead(served);
        let reading = self.begin_account(served, true);
        let mut charged = Nanos::ZERO;
        let mut at = self.flush.owners.list.first();
        while let Some(index) = at {
            at = self.flush.owners.links.next(index);
            let dirt = &mut self.scene.clients.at_mut(index).dirt;
            let sectors = core::mem::take(&mut dirt.running);
            if !good {
                // It is still there, for the next one.
                dirt.pending += sectors;
            }
            if dirt.pending == 0 {
                self.flush.owners.forget(index);
            }
            if sectors > 0 {
                let share = part(above, sectors, total);
                charged += share;
                self.account(index, reading, share);
            }
        }
        self.charge_askers(list, reading, served - charged);
    }

    /// Those who asked for the flush share what is left of its cost.
    fn charge_askers(&mut self, list: usize, reading: Reading, rest: Nanos) {
        let askers = u64::from(self.flush.lists[list].len());
        let mut at = self.flush.lists[list].first();
        while let Some(index) = at {
            at = self.links.next(index);
            let client = self.scene.request(index).client();
            self.account(client.index(), reading, Nanos(rest.0 / askers));
        }
    }

    /// Whether a client has something in the device's cache.
    pub(crate) fn is_owner(&self, client: ClientId) -> bool {
        self.flush.owners.links.contains(client.index())
    }

    fn running_sectors(&self) -> u64 {
        let owners = self.flush.owners.list.iter(&self.flush.owners.links);
        owners.map(|index| self.scene.clients.at(index).dirt.running).sum()
    }

    /// A client goes: what it has written belongs to nobody.
    pub(crate) fn forget_owner(&mut self, client: ClientId) {
        self.flush.owners.forget(client.index());
    }
}

/// `cost * sectors / total`, rounded down.
fn part(cost: Nanos, sectors: u64, total: u64) -> Nanos {
    let part = u128::from(cost.0) * u128::from(sectors) / u128::from(total.max(1));
    Nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

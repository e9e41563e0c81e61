// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writers: which clients own a flush, and what each has to pay for it.
//!
//! A flush is requested by one client and may drain what ten have written; on most devices it takes
//! the device from all clients. Its *owners* are the writers of the data that it drains. For each
//! client the sectors are counted that have ended in the volatile cache since a flush last started
//! (*pending*), and those that the flush in the device drains (*running*). At its end the owners
//! share its device time above that of a flush of a clean cache, by sectors; the clients that
//! requested the flush share the rest:
//!
//! ```text
//! A wrote 12 KiB, B 4 KiB; C flushes.   The flush takes 3.4 ms, one of a clean cache 0.2:
//! A 3.2 * 12/16 = 2.4 ms     B 3.2 * 4/16 = 0.8 ms     C 0.2 ms
//! ```
//!
//! A disk has to get to what it drains. There a write counts as its sectors and those between the
//! client's last write and this one, at most [`WAY`]; so does a client's first since a flush:
//!
//! ```text
//! A writes 4 KiB at random 100 times, B a stream of 4 * 16 KiB and flushes
//! A 100 * (1024 + 8) = 103,200      B 1024 + 4 * 32 = 1152, 1 % (14 % if sectors alone counted)
//! ```
//!
//! Flushes are *mixed* while they drain data of clients, too, that call for none: then the elevator
//! may charge at once ([`Elevator::charge_at_once`](crate::Elevator::charge_at_once)). Writers that
//! sync among themselves share a flush if they are throttled, and go one by one if not.
//!
//! The cost of a clean cache is the least that was seen of flushes known to have found nothing.
//! Where those issue no commands (`flush_elide`) none is seen, and it counts as zero.
//!
//! `block/throttle.rs` has the consequences for the owners. What a device drains by itself costs no
//! client anything: the pending sectors halve for every second in which their client has written
//! nothing.
//!
//! # Invariants
//! I1  A client is on the list at least while it has sectors pending or running.
//! I2  The charges add up to the flush's device time, except for rounding. (The others pay for what
//!     clients wrote that have gone.)
//!
//! Source: own design; no kernel does it.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use crate::client::ClientId;
use crate::list::{Links, List};
use crate::time::Nanos;

/// How fast a device drains its cache by itself: half of its contents in this time. Assumed.
const HALF_LIFE: Nanos = Nanos::from_secs(1);
/// The way to a random write as sectors: what a disk passes in 3 to 5 ms, 100 to 170 MB/s.
/// Assumed.
const WAY: u64 = 1024;

/// A client that has made so many writes since it called for a flush, [`LATELY`] ago or never,
/// calls for none.
const UNCALLED: u32 = 8;
/// Flushes count as mixed for so long, too. Assumed.
const LATELY: Nanos = Nanos::from_secs(2);

/// A write that has ended in the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

/// A client's sectors in the device's cache.
#[derive(Debug, Clone, Copy, Default)]
struct CachedWrites {
    /// Sectors, ways included, since a flush last started.
    pending: u64,
    /// The same, drained by the flush in the device.
    running: u64,
    /// When it last wrote.
    since: Nanos,
    /// Where its last write ended.
    end: u64,
    /// When it last called for a flush, and its writes since then.
    called: Option<Nanos>,
    uncalled: u32,
}

impl CachedWrites {
    /// The pending sectors that the device has not drained by itself.
    fn remaining(&self, now: Nanos) -> u64 {
        let halvings = (now - self.since).0 / HALF_LIFE.0;
        self.pending.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

/// The clients with something in the cache.
#[derive(Debug)]
pub(crate) struct Writers {
    list: List,
    links: Links,
    /// By client.
    cached: Vec<CachedWrites>,
    /// The least device time of a flush that found nothing to drain.
    clean_cost: Option<Nanos>,
    /// When a flush last drained data of a client that calls for none.
    mixed: Option<Nanos>,
}

impl Writers {
    pub(crate) fn with_capacity(clients: u32) -> Writers {
        Writers {
            list: List::new(),
            links: Links::with_capacity(clients),
            cached: vec![CachedWrites::default(); clients as usize],
            clean_cost: None,
            mixed: None,
        }
    }

    /// A write of `client` has ended, and may be in the cache, of a disk or another device.
    pub(crate) fn wrote(&mut self, now: Nanos, client: u32, written: Written, disk: bool) {
        let Written { sector, sectors } = written;
        let cached = &mut self.cached[client as usize];
        let way = if disk { cached.end.abs_diff(sector).min(WAY) } else { 0 };
        cached.pending = cached.remaining(now) + way + u64::from(sectors);
        cached.since = now;
        cached.uncalled = cached.uncalled.saturating_add(1);
        cached.end = sector + u64::from(sectors);
        if !self.links.contains(client) {
            self.list.push_back(&mut self.links, client);
        }
    }

    /// The flush that goes to the device drains what is pending now.
    pub(crate) fn flush_starts(&mut self, now: Nanos) {
        let mut at = self.list.first();
        while let Some(client) = at {
            at = self.links.next(client);
            let cached = &mut self.cached[client as usize];
            cached.running += cached.remaining(now);
            cached.pending = 0;
            // The next flush has to come back here.
            cached.end = u64::MAX;
        }
    }

    /// `client` calls for a flush.
    pub(crate) fn called(&mut self, now: Nanos, client: u32) {
        let cached = &mut self.cached[client as usize];
        (cached.called, cached.uncalled) = (Some(now), 0);
    }

    /// Whether flushes, this one or others lately, drain data of a client that calls for none.
    pub(crate) fn are_mixed(&mut self, now: Nanos) -> bool {
        let is_late = |last: Option<Nanos>| last.is_none_or(|last| last + LATELY < now);
        let is_mixed = self.list.iter(&self.links).any(|client| {
            let cached = &self.cached[client as usize];
            cached.running > 0 && cached.uncalled >= UNCALLED && is_late(cached.called)
        });
        if is_mixed {
            self.mixed = Some(now);
        }
        !is_late(self.mixed)
    }

    /// A flush of a cache that is known to have been clean took this long.
    pub(crate) fn found_clean(&mut self, served: Nanos) {
        let least = self.clean_cost.map_or(served, |least| least.min(served));
        self.clean_cost = Some(least);
    }

    /// The flush has ended and took `served`: `pay` receives the charge of each owner. Returns the
    /// rest, for the clients that requested the flush.
    pub(crate) fn flush_ends(
        &mut self,
        good: bool,
        served: Nanos,
        mut pay: impl FnMut(u32, Nanos),
    ) -> Nanos {
        let running = |client| self.cached[client as usize].running;
        let total: u64 = self.list.iter(&self.links).map(running).sum();
        let clean = self.clean_cost.unwrap_or(Nanos::ZERO).min(served);
        let above = if total == 0 { Nanos::ZERO } else { served - clean };
        let mut rest = served;
        let mut at = self.list.first();
        while let Some(client) = at {
            at = self.links.next(client);
            let cached = &mut self.cached[client as usize];
            let sectors = mem::take(&mut cached.running);
            if !good {
                // It is still there, for the next flush.
                cached.pending += sectors;
            }
            if cached.pending == 0 {
                self.list.remove(&mut self.links, client);
            }
            if sectors > 0 {
                let share = part(above, sectors, total);
                rest = rest - share;
                pay(client, share);
            }
        }
        rest
    }

    /// Whether a client has something in the device's cache.
    pub(crate) fn contains(&self, client: ClientId) -> bool {
        self.links.contains(client.index())
    }

    /// A client leaves: no client owns what it has written.
    pub(crate) fn forget(&mut self, client: u32) {
        self.cached[client as usize] = CachedWrites::default();
        if self.links.contains(client) {
            self.list.remove(&mut self.links, client);
        }
    }

    /// Verifies I1.
    pub(crate) fn audit(&self) -> Result<(), String> {
        self.list.check(&self.links)?;
        for (client, cached) in (0..).zip(&self.cached) {
            if cached.pending + cached.running > 0 && !self.links.contains(client) {
                return Err(format!("writers I1: client {client} is not listed"));
            }
        }
        Ok(())
    }
}

/// `cost * sectors / total`, rounded down.
fn part(cost: Nanos, sectors: u64, total: u64) -> Nanos {
    let part = u128::from(cost.0) * u128::from(sectors) / u128::from(total.max(1));
    Nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn at(sector: u64, sectors: u32) -> Written {
        Written { sector, sectors }
    }

    /// Do random writes of a disk count as the ways to them, and a stream as its sectors and one
    /// way? The header's numbers, in 103,200 + 1152 = 104,352nds of the flush.
    #[test]
    fn a_disk_gets_to_what_it_drains() {
        let mut writers = Writers::with_capacity(2);
        writers.flush_starts(MS(1));
        for write in 0..100 {
            writers.wrote(MS(1), 0, at((write % 2 + 1) * 1_000_000, 8), true);
        }
        for write in 0..4 {
            writers.wrote(MS(1), 1, at(5000 + write * 32, 32), true);
        }
        writers.flush_starts(MS(1));
        let mut paid = Vec::new();
        let rest = writers.flush_ends(true, Nanos(104_352), |client, share| {
            paid.push((client, share.0));
        });
        assert_eq!((paid, rest.0), (vec![(0, 103_200), (1, 1152)], 0));
    }

    /// Are flushes mixed while they drain what a client wrote that has called for none in eight
    /// writes and two seconds, and for two seconds more?
    #[test]
    fn flushes_are_mixed_while_others_write() {
        let mut writers = Writers::with_capacity(2);
        let mut flush = |now, writes: [u32; 2], calls: &[u32]| {
            for client in [0, 1] {
                for _ in 0..writes[client as usize] {
                    writers.wrote(now, client, at(0, 8), true);
                }
            }
            writers.flush_starts(now);
            for &client in calls {
                writers.called(now, client);
            }
            let is_mixed = writers.are_mixed(now);
            let _rest = writers.flush_ends(true, MS(1), |_, _| ());
            is_mixed
        };
        assert!(!flush(MS(1), [100, 0], &[0]), "only its own");
        assert!(!flush(MS(2), [1, 7], &[0]), "it may call yet");
        assert!(flush(MS(3), [1, 1], &[0]));
        assert!(flush(MS(2003), [1, 0], &[0]));
        assert!(!flush(MS(2004), [1, 1], &[0, 1]));
        assert!(!flush(MS(4004), [1, 8], &[0]), "it has called two seconds ago");
        assert!(flush(MS(4005), [0, 1], &[0]));
    }

    /// Do the owners pay, by what they wrote, for what a flush takes above one of a clean cache,
    /// and is the rest left for the clients that requested it? The header's numbers, in
    /// microseconds.
    #[test]
    fn a_flush_is_split_by_what_it_drains() {
        let mut writers = Writers::with_capacity(3);
        writers.found_clean(Nanos::from_micros(200));
        writers.wrote(MS(1), 0, at(0, 24), false);
        writers.wrote(MS(1), 1, at(9000, 8), false);
        writers.flush_starts(MS(1));
        let mut paid = Vec::new();
        let rest = writers.flush_ends(true, Nanos::from_micros(3400), |client, share| {
            paid.push((client, share.as_micros()));
        });
        // 3.4 - 0.2 = 3.2 ms; 24 of 32 sectors and 8 of 32.
        assert_eq!(paid, [(0, 2400), (1, 800)]);
        assert_eq!(rest, Nanos::from_micros(200));
        writers.audit().unwrap();
        assert!(writers.list.is_empty());
    }

    /// Does data stay that a failed flush was to drain, and does data go that a device drains by
    /// itself?
    #[test]
    fn what_is_pending_stays_or_fades() {
        let mut writers = Writers::with_capacity(1);
        writers.wrote(Nanos::ZERO, 0, at(0, 64), false);
        writers.flush_starts(Nanos::ZERO);
        let _rest = writers.flush_ends(false, MS(1), |_, _| ());
        assert_eq!(writers.cached[0].pending, 64);
        // Two half-lives later, 64 / 4.
        assert_eq!(writers.cached[0].remaining(MS(2000)), 16);
        writers.forget(0);
        assert_eq!((writers.cached[0].pending, writers.links.contains(0)), (0, false));
    }
}

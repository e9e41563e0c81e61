// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation: who gets one of the limited requests, who sleeps, who is woken.
//!
//! Two generations of Linux, by the attribute `rules`:
//!
//! * **legacy** pools (BLK-7): one for sync and one for async requests, `nr_requests` each. A
//!   client that finds its pool full may become a *batcher*, who may finish a batch of 32
//!   requests (or 20 ms) up to half as many again; the next who comes sleeps. A woken client is a
//!   batcher.
//!
//! ```text
//! 0 ──────────── 103 ──── 113 ──── 128 ───────────── 192        nr_requests = 128
//!                off      on       full             hard stop
//!                └ congested ┘      └ batchers only ┘
//! ```
//!
//! * **mq** tags (BLK-8): one pool of `nr_requests`; the elevator may hold some kinds of I/O to a
//!   part of it.
//!
//! Sleepers are woken first come first served: for each request that becomes free one of the pool,
//! under mq rules one of either kind, since the tags are one pool. A client
//! that was woken and does not use it (its bio was merged, it left) passes it on. Whoever comes
//! between a wake and its answer takes the request, as in Linux; unless the elevator wants turns to
//! be kept (`admits_in_turn`), or those whose requests have just ended would have all for ever.
//!
//! # Invariants
//! I1  `allocated` of each pool is the number of live requests that name it.
//! I2  A client is in a pool's list of sleepers exactly while its state there is `Asleep`.
//! I3  No one sleeps in a pool that nobody holds anything of, unless a woken client is about to
//!     try.
//!
//! Source: spec `cfq-flush-block.md` 13.4. Not here: BLK-8's shared tag sets (several queues on
//! one set of tags).

use crate::answer::SubmitError;
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::{Admission, Rules};
use crate::event::{Action, Observer};
use crate::list::{Links, List};
use crate::queue::RequestQueue;
use crate::request::{Bio, RequestId};
use crate::scene::Limits;
use crate::time::Nanos;

/// Legacy: async requests. mq: those admitted with a limit of their own.
const POOL_ASYNC: u8 = 0;
/// Legacy: sync requests. mq: all others.
const POOL_SYNC: u8 = 1;
/// Bio slots ran out.
pub(crate) const POOL_BIOS: u8 = 2;
/// The flush command is in no pool.
pub(crate) const POOL_NONE: u8 = 3;

/// A batcher may finish so many requests ...
const BATCH_REQUESTS: u8 = 32;
/// ... in this time (BLK-7).
const BATCH_TIME: Nanos = Nanos::from_millis(20);
/// Fewer than this nominal requests cannot be set (BLK-7).
const LEGACY_REQUESTS_MIN: u32 = 4;
/// What a legacy queue starts with (BLK-7).
const LEGACY_REQUESTS: u32 = 128;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pool {
    pub(crate) allocated: u32,
    /// Somebody became a batcher since it was last below the limit.
    full: bool,
    congested: bool,
}

impl Pool {
    /// It has become emptier.
    fn update_fullness(&mut self, nominal: u32) {
        self.congested &= self.allocated >= congestion_off(nominal);
        self.full &= self.allocated >= nominal;
    }
}

#[derive(Debug)]
pub(crate) struct Allocator {
    pub(crate) pools: [Pool; 2],
    pub(crate) sleepers: [List; POOLS],
    pub(crate) sleeper_links: [Links; POOLS],
    /// Clients whose `Wake` has not been taken by `next` yet.
    wakes: List,
    wake_links: Links,
}

impl Allocator {
    pub(crate) fn new(limits: &Limits) -> Allocator {
        let links = || Links::with_capacity(limits.clients);
        Allocator {
            pools: [Pool::default(); 2],
            sleepers: [List::new(); POOLS],
            sleeper_links: [links(), links(), links()],
            wakes: List::new(),
            wake_links: links(),
        }
    }

    fn nobody_sleeps(&self) -> bool {
        self.sleepers.iter().fold(0, |any, list| any | list.len()) == 0
    }
}

impl<O: Observer> RequestQueue<O> {
    /// A request that carries `bio`, which is in slot `index`, and waits nowhere yet; or the pool
    /// to sleep in.
    pub(crate) fn allocate(&mut self, index: u32, bio: &Bio) -> Result<RequestId, u8> {
        let admission = self.elevator.admit(&mut self.scene, bio.client, bio.op, bio.flags);
        let slots_left = self.has_slots();
        let pool = match self.policy.rules {
            Rules::Legacy => self.admit_by_pools(bio, admission, slots_left)?,
            Rules::Mq => self.admit_by_tags(bio.client, admission, slots_left)?,
        };
        let Some((key, request)) = self.scene.requests.0.take() else { return Err(pool) };
        let client = self.scene.clients.at_mut(bio.client.index());
        let priority = bio.priority.unwrap_or(client.priority);
        request.fill(bio, priority, self.scene.exact);
        (request.bios_first, request.bios_last) = (index, index);
        request.epoch = self.epoch;
        request.pool = pool;
        client.requests += 1;
        let woken = client.sleep != [Sleep::Awake; POOLS];
        self.allocator.pools[usize::from(pool)].allocated += 1;
        self.bios.at_mut(index).request = key.index();
        if woken {
            self.use_wakes(bio.client, pool);
        }
        self.emit(Action::Get, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
        Ok(RequestId(key.index()))
    }

    /// A client has got what it had been woken for; if for another pool too, others may have that.
    #[inline(never)]
    fn use_wakes(&mut self, client: ClientId, pool: u8) {
        let mut unused = false;
        let sleeps = &mut self.scene.clients.at_mut(client.index()).sleep;
        for (number, sleep) in sleeps.iter_mut().enumerate() {
            if *sleep == Sleep::Woken {
                *sleep = Sleep::Awake;
                unused |= number != usize::from(pool) && number != usize::from(POOL_BIOS);
            }
        }
        if unused {
            self.wake_where_there_is_room(None);
        }
    }

    /// Whether a slot is free that is not the flush command's. Pools filled under one set of
    /// rules may leave none to those of another, and `Must` knows no other limit.
    fn has_slots(&self) -> bool {
        let [first, second] = self.allocator.pools;
        first.allocated + second.allocated < self.scene.limits.requests
    }

    /// BLK-7. The pool, if it gives one.
    fn admit_by_pools(
        &mut self,
        bio: &Bio,
        admission: Admission,
        slots_left: bool,
    ) -> Result<u8, u8> {
        let nominal = self.scene.nr_requests;
        let number = if bio.is_sync() { POOL_SYNC } else { POOL_ASYNC };
        let now = self.scene.exact;
        let pool = &mut self.allocator.pools[usize::from(number)];
        let client = self.scene.clients.at_mut(bio.client.index());
        let count = pool.allocated;
        pool.congested |= count + 1 >= congestion_on(nominal);
        if count + 1 >= nominal {
            let woken = client.sleep[usize::from(number)] == Sleep::Woken;
            let batching = client.batch_left == BATCH_REQUESTS
                || (client.batch_left > 0 && now < client.batch_since + BATCH_TIME);
            if !pool.full {
                // The one who fills the pool may finish its batch.
                client.batch_left = BATCH_REQUESTS;
                client.batch_since = now;
                pool.full = true;
            } else if admission != Admission::Must && !batching && !woken {
                return Err(number);
            }
            if count >= hard_stop(nominal) {
                return Err(number);
            }
        }
        if !slots_left {
            return Err(number);
        }
        client.batch_left = client.batch_left.saturating_sub(1);
        Ok(number)
    }

    /// BLK-8, one hardware queue. The pool, if it gives one.
    fn admit_by_tags(
        &mut self,
        client: ClientId,
        admission: Admission,
        slots_left: bool,
    ) -> Result<u8, u8> {
        let [limited, others] = &self.allocator.pools;
        let in_all = limited.allocated + others.allocated;
        let free = self.scene.nr_requests.saturating_sub(in_all);
        let room = free > 0 && (free > self.before(client) || !self.elevator.admits_in_turn());
        match admission {
            Admission::AtMost(most) if room && limited.allocated < most.max(1) => Ok(POOL_ASYNC),
            Admission::AtMost(most) => {
                self.scene.clients.at_mut(client.index()).limit = most.max(1);
                Err(POOL_ASYNC)
            }
            Admission::Must if slots_left => Ok(POOL_SYNC),
            Admission::Normal if room => Ok(POOL_SYNC),
            Admission::Normal | Admission::Must => Err(POOL_SYNC),
        }
    }

    /// How many have waited for a request under mq rules since before `client` came; none if it has
    /// been woken.
    fn before(&self, client: ClientId) -> u32 {
        let woken = self.scene.clients.at(client.index()).sleep.contains(&Sleep::Woken);
        let asleep = &self.allocator.sleepers[usize::from(POOL_SYNC)];
        if woken { 0 } else { asleep.len() + self.allocator.wakes.len() }
    }

    /// The client sleeps in `pool` until a wake; what it had plugged goes on first, for others
    /// may wait for that.
    #[cold]
    pub(crate) fn fall_asleep(&mut self, bio: &Bio, pool: u8) -> SubmitError {
        let index = bio.client.index();
        let number = usize::from(pool);
        let client = self.scene.clients.at_mut(index);
        client.refused = Some((bio.sector, bio.sectors));
        let list = &mut self.allocator.sleepers[number];
        let links = &mut self.allocator.sleeper_links[number];
        let before = client.sleep[number];
        client.sleep[number] = Sleep::Asleep;
        match before {
            Sleep::Awake => list.push_back(links, index),
            // It was woken and still found nothing: it keeps its turn.
            Sleep::Woken => list.push_front(links, index),
            Sleep::Asleep => {}
        }
        let mut unused = before == Sleep::Woken;
        for other in &mut client.sleep {
            if *other == Sleep::Woken {
                *other = Sleep::Awake;
                unused = true;
            }
        }
        self.emit(Action::Sleep, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
        // Only now that it is on the list: a request that becomes free on the way may be what it
        // waits for.
        self.flush_plug(bio.client);
        self.unplug_device(Action::Unplug);
        if unused {
            // What it was woken for may serve somebody else, who waits for something else.
            self.wake_where_there_is_room(Some(pool));
        }
        self.wake_if_nobody_will();
        SubmitError::Busy
    }

    /// A request's life ends. It was bound to this elevator or an earlier one.
    pub(crate) fn free(&mut self, id: RequestId) {
        if self.scene.requests[id].epoch == self.epoch {
            self.elevator.released(&mut self.scene, id);
        }
        self.free_unbound(id);
    }

    /// A request's life ends; the elevator knows.
    #[inline(always)]
    pub(crate) fn free_unbound(&mut self, id: RequestId) {
        let request = &self.scene.requests[id];
        let (number, client) = (request.pool, request.client);
        self.scene.requests.0.free(id.0);
        let Some(pool) = self.allocator.pools.get_mut(usize::from(number)) else {
            // The flush command: it is in no pool, and nobody's.
            return;
        };
        pool.allocated -= 1;
        if self.policy.rules == Rules::Legacy && (pool.congested || pool.full) {
            pool.update_fullness(self.scene.nr_requests);
        }
        let owner = self.scene.clients.at_mut(client.index());
        owner.requests -= 1;
        let gone = owner.is_gone();
        if !self.allocator.nobody_sleeps() {
            self.wake_for(number);
        }
        if gone {
            // It had left; this request was made for a bio of its own that was withdrawn.
            self.remove_client(client);
        }
    }

    /// One request of `pool` became free: at most one sleeper is woken for it, and all whom nobody
    /// else would wake.
    #[inline(never)]
    fn wake_for(&mut self, pool: u8) {
        match self.policy.rules {
            Rules::Legacy => {
                if self.allocator.pools[usize::from(pool)].allocated < self.scene.nr_requests {
                    self.wake_first(pool);
                }
            }
            Rules::Mq => self.wake_where_there_is_room(None),
        }
        self.wake_if_nobody_will();
    }

    /// Wakes the first sleeper of each pool with room, other than `except`.
    fn wake_where_there_is_room(&mut self, except: Option<u8>) {
        if self.allocator.nobody_sleeps() {
            return;
        }
        let [first, second] = self.allocator.pools;
        let nominal = self.scene.nr_requests;
        for pool in [POOL_SYNC, POOL_ASYNC] {
            let room = match self.policy.rules {
                Rules::Legacy => {
                    self.has_slots() && self.allocator.pools[usize::from(pool)].allocated < nominal
                }
                Rules::Mq => first.allocated + second.allocated < nominal,
            };
            // Tags are one pool, yet both lists are asked: those who wait under a limit of their
            // own must not sleep for ever behind sync traffic that never pauses.
            if Some(pool) != except && room && self.below_limit_of_first(pool) {
                self.wake_first(pool);
            }
        }
        if Some(POOL_BIOS) != except && !self.bios.is_full() {
            self.wake_first(POOL_BIOS);
        }
    }

    /// Whether the first sleeper of a pool is not kept out by a limit of its own, as far as
    /// known: it would only look and sleep again.
    fn below_limit_of_first(&self, pool: u8) -> bool {
        let first = self.allocator.sleepers[usize::from(pool)].first();
        self.policy.rules == Rules::Legacy
            || pool != POOL_ASYNC
            || first.is_none_or(|index| {
                let client = ClientId(self.scene.clients.key_at(index));
                self.allocator.pools[0].allocated < self.scene.clients.at(index).limit
                    || self.elevator.relents(&self.scene, client)
            })
    }

    /// If a pool's sleepers have nobody whose end would wake them, they are woken now (I3).
    pub(crate) fn wake_if_nobody_will(&mut self) {
        let [first, second] = self.allocator.pools;
        if first.allocated + second.allocated == 0 {
            self.wake_all();
            return;
        }
        if self.policy.rules == Rules::Legacy && self.has_slots() {
            for pool in [POOL_ASYNC, POOL_SYNC] {
                while self.allocator.pools[usize::from(pool)].allocated == 0
                    && self.wake_first(pool)
                {}
            }
        }
    }

    /// Everybody who sleeps is woken: limits or rules have changed.
    pub(crate) fn wake_all(&mut self) {
        for pool in [POOL_SYNC, POOL_ASYNC] {
            while self.wake_first(pool) {}
        }
        while !self.bios.is_full() && self.wake_first(POOL_BIOS) {}
    }

    fn wake_first(&mut self, pool: u8) -> bool {
        let number = usize::from(pool);
        let links = &mut self.allocator.sleeper_links[number];
        let Some(index) = self.allocator.sleepers[number].pop_front(links) else { return false };
        #[cfg(feature = "planted-bugs")]
        if self.planted.loses_wake() {
            self.scene.clients.at_mut(index).sleep[number] = Sleep::Awake;
            return true;
        }
        let now = self.scene.exact;
        let client = self.scene.clients.at_mut(index);
        client.sleep[number] = Sleep::Woken;
        client.batch_left = BATCH_REQUESTS;
        client.batch_since = now;
        if !self.allocator.wake_links.contains(index) {
            self.allocator.wakes.push_back(&mut self.allocator.wake_links, index);
        }
        true
    }

    /// The next client to be told.
    pub(crate) fn next_wake(&mut self) -> Option<ClientId> {
        let index = self.allocator.wakes.pop_front(&mut self.allocator.wake_links)?;
        Some(ClientId(self.scene.clients.key_at(index)))
    }

    /// `client` does not use what it was woken for: somebody else may.
    pub(crate) fn pass_on_wakes(&mut self, client: ClientId) {
        for pool in [POOL_ASYNC, POOL_SYNC, POOL_BIOS] {
            let sleep = &mut self.scene.clients.at_mut(client.index()).sleep[usize::from(pool)];
            if *sleep == Sleep::Woken {
                *sleep = Sleep::Awake;
                self.wake_where_there_is_room(None);
            }
        }
    }

    /// A client that leaves is no sleeper any more.
    pub(crate) fn stop_sleeping(&mut self, client: ClientId) {
        let index = client.index();
        for number in 0..POOLS {
            let state = &mut self.scene.clients.at_mut(index).sleep[number];
            if *state == Sleep::Asleep {
                *state = Sleep::Awake;
                let links = &mut self.allocator.sleeper_links[number];
                self.allocator.sleepers[number].remove(links, index);
            }
        }
        if self.allocator.wake_links.contains(index) {
            self.allocator.wakes.remove(&mut self.allocator.wake_links, index);
        }
        self.pass_on_wakes(client);
    }

    /// A bio has been handed back to its client.
    pub(crate) fn forget_bio_of(&mut self, id: ClientId) {
        let client = self.scene.clients.at_mut(id.index());
        client.bios -= 1;
        let gone = client.is_gone();
        if !self.allocator.sleepers[usize::from(POOL_BIOS)].is_empty() {
            self.wake_first(POOL_BIOS);
            // Nobody holds a bio any more whose end would wake the others (I3).
            while self.bios.is_empty() && self.wake_first(POOL_BIOS) {}
        }
        if gone {
            self.remove_client(id);
        }
    }

    /// Whether a pool is congested, sync or async: a submitter that may wait should (BLK-7).
    #[must_use]
    pub fn is_congested(&self, sync: bool) -> bool {
        self.policy.rules == Rules::Legacy && self.allocator.pools[usize::from(sync)].congested
    }

    /// Requests allocated, async (or held to a limit) and sync (or others).
    #[must_use]
    pub const fn allocated(&self) -> (u32, u32) {
        (self.allocator.pools[0].allocated, self.allocator.pools[1].allocated)
    }

    /// What `nr_requests` is under these rules when nobody has set it, and the most it can be.
    pub(crate) fn nr_requests_bounds(&self) -> (u32, u32) {
        let (capacity, depth) = (self.scene.limits.requests, self.scene.facts.depth);
        match self.policy.rules {
            // Two pools, each up to its hard stop: 2 * 3/2 nominal.
            Rules::Legacy => (LEGACY_REQUESTS.min(capacity / 3), capacity / 3),
            // Without a scheduler the requests are the device's own tags.
            Rules::Mq if self.elevator.passes_through() => (depth.min(capacity), capacity),
            Rules::Mq => ((2 * depth.min(128)).min(capacity), capacity),
        }
    }

    pub(crate) fn reset_nr_requests(&mut self) {
        let (default, most) = self.nr_requests_bounds();
        self.scene.nr_requests = if self.policy.requests_fixed {
            self.scene.nr_requests.max(self.nr_requests_least()).min(most)
        } else {
            default
        };
    }

    /// Fewer than this cannot be set under the present rules.
    pub(crate) fn nr_requests_least(&self) -> u32 {
        match self.policy.rules {
            Rules::Legacy => LEGACY_REQUESTS_MIN,
            Rules::Mq => 1,
        }
    }
}

/// From so many on a pool is congested: 113 of 128 (BLK-7).
const fn congestion_on(nominal: u32) -> u32 {
    nominal - nominal / 8 + 1
}

/// Below so many it is no longer: 103 of 128 (BLK-7).
const fn congestion_off(nominal: u32) -> u32 {
    (nominal - nominal / 8 - nominal / 16).saturating_sub(1)
}

/// Not even a batcher gets more: 192 of 128 (BLK-7).
const fn hard_stop(nominal: u32) -> u32 {
    3 * nominal / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the thresholds of BLK-7 those of nr_requests = 128? 128-16+1, 128-16-8-1, 128*3/2.
    #[test]
    fn thresholds_of_128() {
        assert_eq!((congestion_on(128), congestion_off(128), hard_stop(128)), (113, 103, 192));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation: which client gets one of the limited requests, which sleeps, which is woken.
//!
//! Two generations of Linux, by the attribute `rules`:
//!
//! * **legacy** pools (BLK-7): one for sync and one for async requests, `nr_requests` each. A
//!   client that finds its pool full may become a *batcher*, which may finish a batch of 32
//!   requests (or 20 ms) up to half as many again; the next client sleeps. A woken client is a
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
//! Sleepers are woken first come, first served, one for each request that becomes free. A woken
//! client that does not use it (its bio was merged, or it left) passes it on. A client that arrives
//! between a wake and its answer takes the request, as in Linux (*barging*: 50 to 93 % of the tags
//! of a 6.18 with 64 tasks on 16 tags go to tasks that did not sleep); but not always, or a task
//! whose request has just ended, and that asks again at the same instant, would win for ever.
//!
//! Under mq rules these laws hold:
//!
//! * **R1** A sleeper does not wait until all requests of others have ended. The limit on its kind
//!   of I/O stays what it was when it fell asleep: bfq's limit for writes is a third of the usual
//!   one while a queue is raised, and sleepers that followed it would fill the pool each time that
//!   such a queue is empty for a moment (merge-window: a start takes 7.9 s instead of 7.3). But the
//!   limit of a sleeper that may have only the first position, because it is beyond its share, is
//!   computed anew each time: its share changes with each request that ends.
//! * **R2** A freed tag goes to the first in line that could use it, that is, whose limit it lies
//!   below, since a limit is one of tag positions (`positions.rs`). A sleeper that could not use it
//!   delays no other, and keeps its turn: sent to the end of the line, as a task is that Linux
//!   wakes to no avail, it could come to the front at the wrong tag each time, as nothing is left
//!   to chance. Twice `LOOK` (`queue/admission/wait_queue.rs`) are examined at a time; among these
//!   an elevator without barging may choose (`wakes_rather`).
//! * **R3** A client that holds nothing is never beyond its share (`bfq/tags.rs`,
//!   `account/held.rs`).
//! * **R4** A sleeper is passed over once at most: if another barged in before its wake took
//!   effect, the next sleeper is *kept*, and a tag with it. Linux leaves that to chance, and is
//!   fair in the mean; this is its deterministic stand-in. `admits_in_turn` allows no barging at
//!   all.
//! * **R5** Clients that owe for a flush (`block/throttle.rs`) may not hold all positions between
//!   them: what they hold waits until the others have had their part, and the others could not ask
//!   for it. Of two requests, two throttled writers held both, a reader slept, and the debt was
//!   forgiven because no other client was present (torture, seed 130: 2 reads/s instead of 41).
//! ```text
//! tag 5 is free, in line: W(<4) B(<1) R       R is woken, told, takes it; W is first at 0 to 3
//! a client awake takes it before R asks       R is in line as before; the next is kept for it
//! ```
//!
//! # Invariants
//! I1  `allocated` of each pool is the number of live requests that name it; under mq rules each
//!     has a position of its own.
//! I2  A client is in a pool's list of sleepers exactly while its state there is `Asleep`.
//! I3  No client sleeps in a pool from which no request is held, unless a woken client is about to
//!     try.
//! I4  `expected` and `kept` count the clients with these flags set.
//!
//! Source: BLK-7, BLK-8; measurements of 6.18 (sleepers, failed wakes, barging).
//! Not here: BLK-8's shared tag sets (several queues on one set of tags).

mod wait_queue;

use crate::answer::SubmitError;
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::{Admission, Rules};
use crate::event::{Action, Observer};
use crate::list::{Links, List};
use crate::positions::{NOWHERE, Positions};
use crate::queue::RequestQueue;
use crate::queue_view::Limits;
use crate::request::{Bio, Op, RequestId};
use crate::time::Nanos;

/// Legacy: async requests. mq: those admitted with a limit of their own.
const POOL_ASYNC: u8 = 0;
/// Legacy: sync requests. mq: all others.
const POOL_SYNC: u8 = 1;
/// For sleepers without a bio slot.
pub(crate) const POOL_BIOS: u8 = 2;
/// The flush command is in no pool.
pub(crate) const POOL_NONE: u8 = 3;

/// A batcher may finish this many requests ...
const BATCH_REQUESTS: u8 = 32;
/// ... in this time (BLK-7).
const BATCH_TIME: Nanos = Nanos::from_millis(20);
/// Fewer than this nominal requests cannot be set (BLK-7).
const LEGACY_REQUESTS_MIN: u32 = 4;
/// The default of a legacy queue (BLK-7).
const LEGACY_REQUESTS: u32 = 128;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pool {
    pub(crate) allocated: u32,
    /// A client became a batcher since it was last below the limit.
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
    /// Clients woken for a tag under mq rules and not told yet; for how many of them a tag is kept.
    expected: u32,
    kept: u32,
    /// Positions of requests under mq rules.
    pub(crate) positions: Positions,
    /// For each line: where to continue with sleepers that are not at its front.
    cursors: [Option<u32>; POOLS],
    /// How many have fallen asleep so far: the next one's place in line.
    turns: u64,
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
            expected: 0,
            kept: 0,
            cursors: [None; POOLS],
            positions: Positions::with_capacity(limits.requests),
            turns: 0,
        }
    }

    /// For the audit: expected clients, and for how many of them a tag is kept.
    pub(crate) const fn expected(&self) -> (u32, u32) {
        (self.expected, self.kept)
    }

    fn nobody_sleeps(&self) -> bool {
        self.sleepers.iter().fold(0, |any, list| any | list.len()) == 0
    }
}

impl<O: Observer> RequestQueue<O> {
    /// A request that carries `bio`, which is in slot `index`, and that waits nowhere yet; or the
    /// pool to sleep in.
    pub(crate) fn allocate(&mut self, index: u32, bio: &Bio) -> Result<RequestId, u8> {
        let admission = self.elevator.admit(&mut self.view, bio.client, bio.op, bio.flags);
        let (pool, position) = match self.policy.rules {
            Rules::Legacy => (self.admit_by_pools(bio, admission, self.has_slots())?, NOWHERE),
            Rules::Mq => {
                let admission = self.leave_one(bio.client, bio.op, admission);
                match self.admit_by_tags(bio.client, admission) {
                    Ok(admitted) => admitted,
                    Err(pool) => return Err(self.refuse(bio.client, admission, pool)),
                }
            }
        };
        let Some((key, request)) = self.view.requests.0.take() else { return Err(pool) };
        self.allocator.positions.take(position);
        request.position = position;
        let client = self.view.clients.0.at_mut(bio.client.index());
        let priority = bio.priority.unwrap_or(client.priority);
        request.fill(bio, priority, self.view.exact);
        (request.bios_first, request.bios_last) = (index, index);
        request.epoch = self.elevator.epoch();
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

    /// A client has got what it was woken for; a wake for another pool may serve others.
    #[inline(never)]
    fn use_wakes(&mut self, client: ClientId, pool: u8) {
        let mut unused = false;
        self.expect_no_more(client.index());
        let sleeps = &mut self.view.clients.0.at_mut(client.index()).sleep;
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

    /// Whether a slot other than the flush command's is free. Pools filled under one set of rules
    /// may leave none to those of another, and `Must` knows no other limit.
    fn has_slots(&self) -> bool {
        let [first, second] = self.allocator.pools;
        first.allocated + second.allocated < self.view.limits.requests
    }

    /// BLK-7. The pool, if it gives one.
    fn admit_by_pools(
        &mut self,
        bio: &Bio,
        admission: Admission,
        slots_left: bool,
    ) -> Result<u8, u8> {
        let nominal = self.view.nr_requests;
        let number = if bio.is_sync() { POOL_SYNC } else { POOL_ASYNC };
        let now = self.view.exact;
        let pool = &mut self.allocator.pools[usize::from(number)];
        let client = self.view.clients.0.at_mut(bio.client.index());
        let count = pool.allocated;
        pool.congested |= count + 1 >= congestion_on(nominal);
        if count + 1 >= nominal {
            let woken = client.sleep[usize::from(number)] == Sleep::Woken;
            let batching = client.batch_left == BATCH_REQUESTS
                || (client.batch_left > 0 && now < client.batch_since + BATCH_TIME);
            if !pool.full {
                // The client that fills the pool may finish its batch.
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

    /// BLK-8, one hardware queue. The pool and the position, if there is one for it.
    fn admit_by_tags(&self, client: ClientId, admission: Admission) -> Result<(u8, u32), u8> {
        let (free, most) = (self.free_tags(), self.view.nr_requests);
        let room = free > 0 && free > self.before(client);
        let (pool, limit) = match admission {
            Admission::AtMost(limit) if room => (POOL_ASYNC, limit.clamp(1, most)),
            Admission::Normal if room => (POOL_SYNC, most),
            // Whatever the limits say: while a slot is free, so is a position.
            Admission::Must if self.has_slots() => (POOL_SYNC, self.view.limits.requests),
            Admission::AtMost(_) => return Err(POOL_ASYNC),
            Admission::Normal | Admission::Must => return Err(POOL_SYNC),
        };
        let positions = &self.allocator.positions;
        let position =
            if pool == POOL_ASYNC { positions.first(limit) } else { positions.last(limit) };
        position.map(|position| (pool, position)).ok_or(pool)
    }

    /// What an elevator admits, without the last position if the client is throttled (R5).
    #[inline(always)]
    fn leave_one(&self, client: ClientId, op: Op, admission: Admission) -> Admission {
        if self.throttle.is_used() && op != Op::Flush && self.throttle.holds(client.index()) {
            self.but_the_last(admission)
        } else {
            admission
        }
    }

    #[cold]
    fn but_the_last(&self, admission: Admission) -> Admission {
        let most = self.view.nr_requests.saturating_sub(1).max(1);
        match admission {
            Admission::Normal => Admission::AtMost(most),
            Admission::AtMost(limit) => Admission::AtMost(limit.min(most)),
            Admission::Must => Admission::Must,
        }
    }

    /// The client is going to sleep under this limit (R1).
    #[cold]
    fn refuse(&mut self, client: ClientId, admission: Admission, pool: u8) -> u8 {
        self.view.clients.0.at_mut(client.index()).refused_under = match admission {
            Admission::AtMost(limit) => limit.max(1),
            Admission::Normal | Admission::Must => u32::MAX,
        };
        pool
    }

    /// Requests that may still be allocated under mq rules.
    fn free_tags(&self) -> u32 {
        let [limited, others] = &self.allocator.pools;
        self.view.nr_requests.saturating_sub(limited.allocated + others.allocated)
    }

    /// How many free requests are not for `client` under mq rules, because others have waited
    /// longer (R4).
    #[inline]
    fn before(&self, client: ClientId) -> u32 {
        let in_turn = self.elevator.traits().admits_in_turn;
        let waiting = if in_turn {
            let asleep = &self.allocator.sleepers[usize::from(POOL_SYNC)];
            asleep.len() + self.allocator.wakes.len()
        } else {
            self.allocator.kept
        };
        if waiting == 0 {
            return 0;
        }
        let client = self.view.clients.at(client.index());
        let is_its_turn = client.sleep.contains(&Sleep::Woken) && (in_turn || client.passed_over);
        if is_its_turn { 0 } else { waiting }
    }

    /// The client sleeps in `pool` until a wake; what it had plugged is submitted first, since
    /// others may wait for that.
    #[cold]
    pub(crate) fn fall_asleep(&mut self, bio: &Bio, pool: u8) -> SubmitError {
        let index = bio.client.index();
        let number = usize::from(pool);
        let client = self.view.clients.0.at_mut(index);
        client.refused = Some((bio.sector, bio.sectors));
        client.refused_as = (bio.op, bio.flags);
        let before = client.sleep[number];
        let waits = client.sleep.contains(&Sleep::Asleep);
        // Tags are one pool, whichever it was woken for.
        let woken = before == Sleep::Woken
            || self.policy.rules == Rules::Mq
                && client.sleep[..usize::from(POOL_BIOS)].contains(&Sleep::Woken);
        client.sleep[number] = Sleep::Asleep;
        if before == Sleep::Asleep {
            // It keeps its place.
        } else if woken {
            // It was woken and still found nothing: it keeps its turn.
            client.passed_over = true;
            self.expect_no_more(index);
            self.back_into_line(number, index);
        } else {
            if !waits {
                self.allocator.turns += 1;
                (client.turn, client.passed_over) = (self.allocator.turns, false);
            }
            let links = &mut self.allocator.sleeper_links[number];
            self.allocator.sleepers[number].push_back(links, index);
        }
        let client = self.view.clients.0.at_mut(index);
        let mut unused = before == Sleep::Woken;
        for other in &mut client.sleep {
            if *other == Sleep::Woken {
                *other = Sleep::Awake;
                unused = true;
            }
        }
        self.emit(Action::Sleep, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
        // Only now that it is on the list: a request that becomes free in the process may be what
        // it waits for.
        self.flush_plug(bio.client);
        self.unplug_device(Action::Unplug);
        if unused {
            // What it was woken for may serve another client, which waits for something else; under
            // mq rules one behind it in line, so that two cannot wake each other for ever.
            match self.policy.rules {
                Rules::Legacy => self.wake_where_there_is_room(Some(pool)),
                Rules::Mq => {
                    self.wake_in_turn(self.view.clients.at(index).turn);
                    if pool != POOL_BIOS && !self.bios.is_full() {
                        self.wake_first(POOL_BIOS);
                    }
                }
            }
        }
        self.wake_if_nobody_will();
        SubmitError::Busy
    }

    /// Ends a request that was bound to this elevator or an earlier one.
    pub(crate) fn free(&mut self, id: RequestId) {
        if self.elevator.has_bound(&self.view.requests[id]) {
            self.elevator.released(&mut self.view, id);
        }
        self.free_unbound(id);
    }

    /// Ends a request; the elevator knows.
    #[inline(always)]
    pub(crate) fn free_unbound(&mut self, id: RequestId) {
        let request = &self.view.requests[id];
        let (number, client, position) = (request.pool, request.client, request.position);
        self.view.requests.0.free(id.0);
        let Some(pool) = self.allocator.pools.get_mut(usize::from(number)) else {
            // The flush command: it is in no pool, and has no client.
            return;
        };
        pool.allocated -= 1;
        self.allocator.positions.free(position);
        if self.policy.rules == Rules::Legacy && (pool.congested || pool.full) {
            pool.update_fullness(self.view.nr_requests);
        }
        let owner = self.view.clients.0.at_mut(client.index());
        owner.requests -= 1;
        let gone = owner.is_gone();
        if !self.allocator.nobody_sleeps() {
            self.wake_for(number);
        }
        if gone {
            // The client had left; this request was made for a bio of its own that was withdrawn.
            self.remove_client(client);
        }
    }

    /// The default of `nr_requests` under these rules, and the most it can be.
    pub(crate) fn nr_requests_bounds(&self) -> (u32, u32) {
        let (capacity, depth) = (self.view.limits.requests, self.view.facts.depth);
        match self.policy.rules {
            // Two pools, each up to its hard stop: 2 * 3/2 nominal.
            Rules::Legacy => (LEGACY_REQUESTS.min(capacity / 3), capacity / 3),
            // Without a scheduler the requests are the device's own tags.
            Rules::Mq if self.elevator.traits().passes_through => (depth.min(capacity), capacity),
            Rules::Mq => ((2 * depth.min(128)).min(capacity), capacity),
        }
    }

    pub(crate) fn reset_nr_requests(&mut self) {
        let (default, most) = self.nr_requests_bounds();
        self.view.nr_requests = if self.policy.requests_fixed {
            self.view.nr_requests.max(self.nr_requests_least()).min(most)
        } else {
            default
        };
    }

    /// Less than this cannot be set under the present rules.
    pub(crate) fn nr_requests_least(&self) -> u32 {
        match self.policy.rules {
            Rules::Legacy => LEGACY_REQUESTS_MIN,
            Rules::Mq => 1,
        }
    }
}

/// From this many on a pool is congested: 113 of 128 (BLK-7).
const fn congestion_on(nominal: u32) -> u32 {
    nominal - nominal / 8 + 1
}

/// Below this many it is no longer: 103 of 128 (BLK-7).
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

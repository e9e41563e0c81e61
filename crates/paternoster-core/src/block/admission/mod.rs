// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission: which client gets one of the limited requests, which sleeps, which is woken.
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
//!   to chance. Twice `LOOK` (`wait_queue.rs`) are examined at a time; an elevator without barging
//!   may choose among as many that could use it (`wakes_rather`).
//! * **R3** A client that holds nothing is never beyond its share (`bfq/tags.rs`), unless its group
//!   is, or what is free is kept for one of a better class (`account/held.rs`).
//! * **R4** A sleeper is passed over once at most: if another barged in before its wake took
//!   effect, the next sleeper is *kept*, and a tag with it. Linux leaves that to chance, and is
//!   fair in the mean; this is its deterministic stand-in. `admits_in_turn` allows no barging at
//!   all.
//! * **R5** Clients that owe for a flush (`block/throttle.rs`) may not hold all positions between
//!   them: what they hold waits until the others have had their part, and the others could not ask
//!   for it. Of two requests, two throttled writers held both, a reader slept, and the debt was
//!   forgiven because no other client was present (torture, seed 130: 2 reads/s instead of 41).
//! * **R6** What an elevator keeps for a client that does not come it does not keep until the next
//!   request ends: sleepers are asked again when it says (`admits_from`). And without barging one
//!   that falls asleep only because others are in line is woken at once, if it is the one that may
//!   have what is free.
//!
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

mod audit;
mod requests;
mod wait_queue;

use crate::bio::Bio;
use crate::block::chosen::Chosen;
use crate::block::throttle::Throttle;
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::{Admission, Rules};
use crate::list::{Links, List};
use crate::op::Op;
use crate::positions::Positions;
use crate::queue_view::{Limits, QueueView};
use crate::time::Nanos;

pub(crate) use requests::{bounds, reset_nr_requests};

/// Legacy: async requests. mq: those admitted with a limit of their own.
const POOL_ASYNC: u8 = 0;
/// Legacy: sync requests. mq: all others.
const POOL_SYNC: u8 = 1;
/// For sleepers without a bio slot.
pub(crate) const POOL_BIOS: u8 = 2;

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

/// What admission reads of the queue's other parts, and the clients that it changes.
pub(crate) struct Context<'a> {
    pub(crate) view: &'a mut QueueView,
    pub(crate) rules: Rules,
    pub(crate) elevator: &'a Chosen,
    pub(crate) throttle: &'a Throttle,
    /// Whether a slot for a bio is free.
    pub(crate) has_bios: bool,
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

    /// Whether no client sleeps for a request or a slot.
    #[inline(always)]
    pub(crate) fn nobody_sleeps(&self) -> bool {
        self.sleepers.iter().fold(0, |any, list| any | list.len()) == 0
    }

    /// Whether a slot other than the flush command's is free. Pools filled under one set of rules
    /// may leave none to those of another, and `Must` knows no other limit.
    #[inline(always)]
    fn has_slots(&self, view: &QueueView) -> bool {
        let [first, second] = self.pools;
        first.allocated + second.allocated < view.limits.requests
    }

    /// BLK-7. The pool, if it gives one.
    #[inline(always)]
    pub(crate) fn admit_by_pools(
        &mut self,
        view: &mut QueueView,
        bio: &Bio,
        admission: Admission,
    ) -> Result<u8, u8> {
        let slots_left = self.has_slots(view);
        let nominal = view.nr_requests;
        let number = if bio.is_sync() { POOL_SYNC } else { POOL_ASYNC };
        let now = view.exact;
        let pool = &mut self.pools[usize::from(number)];
        let client = view.clients.0.at_mut(bio.client.index());
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

    /// BLK-8, one hardware queue. The pool and the position, if there is one for it; `in_turn`:
    /// without barging.
    #[inline(always)]
    pub(crate) fn admit_by_tags(
        &self,
        view: &QueueView,
        in_turn: bool,
        client: ClientId,
        admission: Admission,
    ) -> Result<(u8, u32), u8> {
        let (free, most) = (self.free_tags(view), view.nr_requests);
        let room = free > 0 && free > self.before(view, in_turn, client);
        let (pool, limit) = match admission {
            Admission::AtMost(limit) if room => (POOL_ASYNC, limit.clamp(1, most)),
            Admission::Later if room && self.is_unused() => (POOL_ASYNC, 1),
            Admission::Normal if room => (POOL_SYNC, most),
            // Whatever the limits say: while a slot is free, so is a position.
            Admission::Must if self.has_slots(view) => (POOL_SYNC, view.limits.requests),
            Admission::AtMost(_) | Admission::Later => return Err(POOL_ASYNC),
            Admission::Normal | Admission::Must => return Err(POOL_SYNC),
        };
        let positions = &self.positions;
        let position =
            if pool == POOL_ASYNC { positions.first(limit) } else { positions.last(limit) };
        position.map(|position| (pool, position)).ok_or(pool)
    }

    /// Whether no request is allocated.
    #[inline(always)]
    fn is_unused(&self) -> bool {
        let [first, second] = &self.pools;
        first.allocated + second.allocated == 0
    }

    /// Requests that may still be allocated under mq rules.
    #[inline(always)]
    fn free_tags(&self, view: &QueueView) -> u32 {
        let [limited, others] = &self.pools;
        view.nr_requests.saturating_sub(limited.allocated + others.allocated)
    }

    /// How many free requests are not for `client` under mq rules, because others have waited
    /// longer (R4).
    #[inline(always)]
    fn before(&self, view: &QueueView, in_turn: bool, client: ClientId) -> u32 {
        let waiting = if in_turn {
            let asleep = &self.sleepers[usize::from(POOL_SYNC)];
            asleep.len() + self.wakes.len()
        } else {
            self.kept
        };
        if waiting == 0 {
            return 0;
        }
        let client = view.clients.at(client.index());
        let is_its_turn = client.sleep.contains(&Sleep::Woken) && (in_turn || client.passed_over);
        if is_its_turn { 0 } else { waiting }
    }

    /// A request of this pool has been given.
    #[inline(always)]
    pub(crate) fn give(&mut self, pool: u8) {
        self.pools[usize::from(pool)].allocated += 1;
    }

    /// A request of this pool and position has ended; `false` for the flush command, which is in no
    /// pool.
    #[inline(always)]
    pub(crate) fn take_back(
        &mut self,
        pool: u8,
        position: u32,
        rules: Rules,
        view: &QueueView,
    ) -> bool {
        let Some(pool) = self.pools.get_mut(usize::from(pool)) else { return false };
        pool.allocated -= 1;
        self.positions.free(position);
        if rules == Rules::Legacy && (pool.congested || pool.full) {
            pool.update_fullness(view.nr_requests);
        }
        true
    }

    /// Whether a pool is congested under legacy rules (BLK-7).
    pub(crate) const fn is_congested(&self, sync: bool) -> bool {
        self.pools[sync as usize].congested
    }
}

/// What an elevator admits, without the last position if the client is throttled (R5).
#[inline(always)]
pub(crate) fn leave_one(
    throttle: &Throttle,
    view: &QueueView,
    client: ClientId,
    op: Op,
    admission: Admission,
) -> Admission {
    if throttle.is_used() && op != Op::Flush && throttle.holds(client.index()) {
        but_the_last(view.nr_requests, admission)
    } else {
        admission
    }
}

#[cold]
fn but_the_last(nr_requests: u32, admission: Admission) -> Admission {
    let most = nr_requests.saturating_sub(1).max(1);
    match admission {
        Admission::Normal => Admission::AtMost(most),
        Admission::AtMost(limit) => Admission::AtMost(limit.min(most)),
        Admission::Must | Admission::Later => admission,
    }
}

/// The default of `nr_requests` under these rules, and the most it can be.
pub(crate) const fn nr_requests_bounds(
    rules: Rules,
    limits: &Limits,
    depth: u32,
    passes_through: bool,
) -> (u32, u32) {
    let capacity = limits.requests;
    let default = match rules {
        // Two pools, each up to its hard stop: 2 * 3/2 nominal.
        Rules::Legacy => return (at_most(LEGACY_REQUESTS, capacity / 3), capacity / 3),
        // Without a scheduler the requests are the device's own tags.
        Rules::Mq if passes_through => depth,
        Rules::Mq => 2 * at_most(depth, 128),
    };
    (at_most(default, capacity), capacity)
}

const fn at_most(value: u32, most: u32) -> u32 {
    if value < most { value } else { most }
}

/// Less than this cannot be set under these rules.
pub(crate) const fn nr_requests_least(rules: Rules) -> u32 {
    match rules {
        Rules::Legacy => LEGACY_REQUESTS_MIN,
        Rules::Mq => 1,
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
    use alloc::vec::Vec;

    use super::*;
    use crate::client::Client;
    use crate::device::DeviceFacts;

    /// Are the thresholds of BLK-7 those of nr_requests = 128? 128-16+1, 128-16-8-1, 128*3/2.
    #[test]
    fn thresholds_of_128() {
        assert_eq!((congestion_on(128), congestion_off(128), hard_stop(128)), (113, 103, 192));
    }

    fn view(nr_requests: u32, clients: u32) -> (QueueView, Vec<ClientId>) {
        let mut view = QueueView::new(DeviceFacts::default(), Limits::default(), false);
        view.nr_requests = nr_requests;
        let attach = |_| view.clients.0.insert(Client::default()).map(ClientId).unwrap();
        let clients = (0..clients).map(attach).collect();
        (view, clients)
    }

    /// Are limits those of positions (BLK-8)? Of 4 positions a client that may have 2 gets 0 and 1,
    /// and no third; one without a limit gets the last, 3.
    #[test]
    fn limits_are_positions() {
        let (view, clients) = view(4, 1);
        let mut allocator = Allocator::new(&view.limits);
        let mut ask = |admission| {
            let given = allocator.admit_by_tags(&view, false, clients[0], admission);
            if let Ok((pool, position)) = given {
                allocator.positions.take(position);
                allocator.give(pool);
            }
            given
        };
        assert_eq!(ask(Admission::AtMost(2)), Ok((POOL_ASYNC, 0)));
        assert_eq!(ask(Admission::AtMost(2)), Ok((POOL_ASYNC, 1)));
        assert_eq!(ask(Admission::AtMost(2)), Err(POOL_ASYNC));
        assert_eq!(ask(Admission::Normal), Ok((POOL_SYNC, 3)));
    }

    /// Does a client that was woken, and found nothing, keep its turn (R4)? It returns before those
    /// that fell asleep later.
    #[test]
    fn a_sleeper_keeps_its_turn() {
        let (mut view, clients) = view(4, 3);
        let mut allocator = Allocator::new(&view.limits);
        let sleep = |allocator: &mut Allocator, view: &mut QueueView, client: ClientId| {
            let bio = Bio::new(client, Op::Read, 0, 8);
            allocator.fall_asleep(view, Rules::Mq, &bio, POOL_SYNC)
        };
        for &client in &clients {
            assert!(!sleep(&mut allocator, &mut view, client), "no wake to give up");
        }
        let number = usize::from(POOL_SYNC);
        let first = clients[0].index();
        allocator.sleepers[number].remove(&mut allocator.sleeper_links[number], first);
        view.clients.0.at_mut(first).sleep[number] = Sleep::Woken;
        assert!(sleep(&mut allocator, &mut view, clients[0]), "its wake may serve another");
        assert_eq!(allocator.sleepers[number].first(), Some(first));
        assert!(view.clients.at(first).passed_over);
    }
}

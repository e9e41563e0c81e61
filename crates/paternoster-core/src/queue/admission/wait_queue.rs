// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wait queue: the clients that sleep for a request, in order of arrival, and which of them is
//! woken when one becomes free.
//!
//! ```text
//! front ─ asleep ─ asleep ─ asleep ─ back      a free tag: the first that could use it is woken
//!   ▲                                          told ─ it asks again, and gets the tag
//!   └── back to its own place, if another got it sooner
//! ```
//!
//! For invariants and laws (I2 to I4, R1, R2, R4) and the source see `queue/admission.rs`.

use super::{BATCH_REQUESTS, POOL_ASYNC, POOL_BIOS, POOL_SYNC};
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::{Admission, Rules};
use crate::event::Observer;
use crate::queue::RequestQueue;

/// This many sleepers are examined at the front of a line, and as many further back, for one that
/// could use a free request: Linux wakes one from each of eight wait queues in turn.
const LOOK: u32 = 4;

/// A sleeping client: its turn, its pool, its number.
type Sleeper = (u64, u8, u32);

impl<O: Observer> RequestQueue<O> {
    /// A client woken for a tag has been told, or tries before that, or does not try.
    pub(super) fn expect_no_more(&mut self, index: u32) {
        let client = self.view.clients.0.at_mut(index);
        self.allocator.expected -= u32::from(client.expected);
        self.allocator.kept -= u32::from(client.kept);
        (client.expected, client.kept) = (false, false);
    }

    /// A client returns to its former place among the sleepers: several that return at once stay in
    /// their order, so that none of them is always the last.
    pub(super) fn back_into_line(&mut self, number: usize, index: u32) {
        let turn = self.view.clients.at(index).turn;
        let (list, links) =
            (&mut self.allocator.sleepers[number], &mut self.allocator.sleeper_links[number]);
        let is_later = |other: u32| self.view.clients.at(other).turn > turn;
        match list.last() {
            Some(last) if is_later(last) => {
                let mut place = list.first();
                while let Some(other) = place.filter(|&other| !is_later(other)) {
                    place = links.next(other);
                }
                match place {
                    Some(later) => list.insert_before(links, later, index),
                    None => list.push_back(links, index),
                }
            }
            _ => list.push_back(links, index),
        }
    }

    /// One request of `pool` became free: wakes at most one sleeper for it, and all that nothing
    /// else would wake.
    #[inline(never)]
    pub(super) fn wake_for(&mut self, pool: u8) {
        match self.policy.rules {
            Rules::Legacy => {
                if self.allocator.pools[usize::from(pool)].allocated < self.view.nr_requests {
                    self.wake_first(pool);
                }
            }
            Rules::Mq => self.wake_where_there_is_room(None),
        }
        self.wake_if_nobody_will();
    }

    /// Wakes sleepers for which there is room: under legacy rules the first sleeper of each pool
    /// with room, other than `except`; under mq rules those that the free tags are for.
    pub(super) fn wake_where_there_is_room(&mut self, except: Option<u8>) {
        if self.allocator.nobody_sleeps() {
            return;
        }
        let nominal = self.view.nr_requests;
        match self.policy.rules {
            Rules::Legacy => {
                for pool in [POOL_SYNC, POOL_ASYNC] {
                    let room = self.has_slots()
                        && self.allocator.pools[usize::from(pool)].allocated < nominal;
                    if Some(pool) != except && room {
                        self.wake_first(pool);
                    }
                }
            }
            Rules::Mq => self.wake_in_turn(0),
        }
        if Some(POOL_BIOS) != except && !self.bios.is_full() {
            self.wake_first(POOL_BIOS);
        }
    }

    /// For each free tag, except those for which others have been woken, wakes the first in line
    /// behind `after` that could use one now (R1, R2).
    pub(super) fn wake_in_turn(&mut self, after: u64) {
        while self.free_tags() > self.allocator.expected {
            let [one, other] = [POOL_SYNC, POOL_ASYNC].map(|pool| self.first_able(pool, after));
            let first = match (one, other) {
                (Some(one), Some(other)) => Some(self.sooner(one.min(other), one.max(other))),
                (one, other) => one.or(other),
            };
            let Some((_, pool, index)) = first else { return };
            self.wake(pool, index);
        }
    }

    /// Which of two sleepers is woken; `first` has slept longer.
    fn sooner(&self, first: Sleeper, second: Sleeper) -> Sleeper {
        let id = |(_, _, index): Sleeper| ClientId(self.view.clients.key_at(index));
        if self.elevator.wakes_rather(id(second), id(first)) { second } else { first }
    }

    /// The first sleeper of a pool that could use one of the free tags, and its turn. Examines the
    /// first in line, and then some further back, different ones each time.
    fn first_able(&mut self, pool: u8, after: u64) -> Option<Sleeper> {
        let number = usize::from(pool);
        let first = self.allocator.sleepers[number].first();
        let (found, next) = self.ask(pool, first, after);
        let is_enough = found.is_some() && !self.elevator.traits().admits_in_turn;
        if is_enough || next.is_none() {
            return found;
        }
        let links = &self.allocator.sleeper_links[number];
        let cursor = self.allocator.cursors[number].filter(|&index| links.contains(index));
        let (farther, next) = self.ask(pool, cursor.or(next), after);
        self.allocator.cursors[number] = next;
        match (found, farther) {
            (Some(found), Some(farther)) => Some(self.sooner(found, farther)),
            (found, farther) => found.or(farther),
        }
    }

    /// Examines [`LOOK`] sleepers of a pool, starting with one: returns the first that could use a
    /// free tag, or one that the elevator prefers, and the next one to examine.
    fn ask(&self, pool: u8, mut place: Option<u32>, after: u64) -> (Option<Sleeper>, Option<u32>) {
        let mut found: Option<Sleeper> = None;
        for _ in 0..LOOK {
            let Some(index) = place else { break };
            let turn = self.view.clients.at(index).turn;
            if turn > after && self.could_use_a_tag(index) {
                let able = (turn, pool, index);
                if !self.elevator.traits().admits_in_turn {
                    return (Some(able), place);
                }
                found = Some(found.map_or(able, |first| self.sooner(first, able)));
            }
            place = self.allocator.sleeper_links[usize::from(pool)].next(index);
        }
        (found, place)
    }

    /// Whether one of the free positions is for a sleeper (R1).
    fn could_use_a_tag(&self, index: u32) -> bool {
        let sleeper = self.view.clients.at(index);
        let ((op, flags), under) = (sleeper.refused_as, sleeper.refused_under);
        let client = ClientId(self.view.clients.key_at(index));
        let most = self.view.nr_requests;
        let admission = self.elevator.would_admit(&self.view, client, op, flags);
        let limit = match self.leave_one(client, op, admission) {
            Admission::AtMost(limit) if under == 1 => limit.clamp(1, most),
            Admission::AtMost(_) => under.min(most),
            Admission::Normal | Admission::Must => most,
        };
        self.allocator.positions.first(limit).is_some()
    }

    /// Wakes a pool's sleepers if there is no request whose end would wake them (I3).
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

    /// Wakes all sleepers: limits or rules have changed.
    pub(crate) fn wake_all(&mut self) {
        while self.policy.rules == Rules::Mq {
            let first = [POOL_SYNC, POOL_ASYNC].map(|pool| {
                let index = self.allocator.sleepers[usize::from(pool)].first()?;
                Some((self.view.clients.at(index).turn, pool, index))
            });
            let Some((_, pool, index)) = first.into_iter().flatten().min() else { break };
            self.wake(pool, index);
        }
        for pool in [POOL_SYNC, POOL_ASYNC] {
            while self.wake_first(pool) {}
        }
        while !self.bios.is_full() && self.wake_first(POOL_BIOS) {}
    }

    pub(super) fn wake_first(&mut self, pool: u8) -> bool {
        let number = usize::from(pool);
        let Some(index) = self.allocator.sleepers[number].first() else { return false };
        self.wake(pool, index);
        true
    }

    /// Wakes a sleeper of `pool`.
    fn wake(&mut self, pool: u8, index: u32) {
        let number = usize::from(pool);
        let links = &mut self.allocator.sleeper_links[number];
        self.allocator.sleepers[number].remove(links, index);
        #[cfg(feature = "planted-bugs")]
        if self.planted.loses_wake() {
            self.view.clients.0.at_mut(index).sleep[number] = Sleep::Awake;
            return;
        }
        let now = self.view.exact;
        let client = self.view.clients.0.at_mut(index);
        client.sleep[number] = Sleep::Woken;
        client.batch_left = BATCH_REQUESTS;
        client.batch_since = now;
        if self.policy.rules == Rules::Mq && pool != POOL_BIOS && !client.expected {
            (client.expected, client.kept) = (true, client.passed_over);
            self.allocator.expected += 1;
            self.allocator.kept += u32::from(client.kept);
        }
        if !self.allocator.wake_links.contains(index) {
            self.allocator.wakes.push_back(&mut self.allocator.wake_links, index);
        }
    }

    /// The next client to be told.
    pub(crate) fn next_wake(&mut self) -> Option<ClientId> {
        let index = self.allocator.wakes.pop_front(&mut self.allocator.wake_links)?;
        self.expect_no_more(index);
        Some(ClientId(self.view.clients.key_at(index)))
    }

    /// `client` does not use its wake: another client may.
    pub(crate) fn pass_on_wakes(&mut self, client: ClientId) {
        self.expect_no_more(client.index());
        for pool in [POOL_ASYNC, POOL_SYNC, POOL_BIOS] {
            let sleep = &mut self.view.clients.0.at_mut(client.index()).sleep[usize::from(pool)];
            if *sleep == Sleep::Woken {
                *sleep = Sleep::Awake;
                self.wake_where_there_is_room(None);
            }
        }
    }

    /// A leaving client is no longer a sleeper.
    pub(crate) fn stop_sleeping(&mut self, client: ClientId) {
        let index = client.index();
        self.expect_no_more(index);
        for number in 0..POOLS {
            let state = &mut self.view.clients.0.at_mut(index).sleep[number];
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
        let client = self.view.clients.0.at_mut(id.index());
        client.bios -= 1;
        let gone = client.is_gone();
        if !self.allocator.sleepers[usize::from(POOL_BIOS)].is_empty() {
            self.wake_first(POOL_BIOS);
            // No bio is left whose end would wake the others (I3).
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

    /// Requests allocated: async (or limited) and sync (or others).
    #[must_use]
    pub const fn allocated(&self) -> (u32, u32) {
        (self.allocator.pools[0].allocated, self.allocator.pools[1].allocated)
    }
}

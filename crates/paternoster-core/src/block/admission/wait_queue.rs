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
//! For invariants and laws (I2 to I4, R1, R2, R4) and the source see the folder.

use super::{Allocator, BATCH_REQUESTS, Context, POOL_ASYNC, POOL_BIOS, POOL_SYNC, leave_one};
use crate::bio::Bio;
use crate::block::chosen::Chosen;
use crate::client::{ClientId, POOLS, Sleep};
use crate::elevator::{Admission, Rules};
use crate::queue_view::QueueView;
use crate::request::POOL_NONE;

/// This many sleepers are examined at the front of a line, and as many further back, for one that
/// could use a free request: Linux wakes one from each of eight wait queues in turn.
const LOOK: u32 = 4;
/// Without barging, where the elevator chooses, that many that could use it, out of this many:
/// those that may have none now would hide the others.
const LOOK_IN_TURN: u32 = 16;

/// A sleeping client: its turn, its pool, its number.
type Sleeper = (u64, u8, u32);

impl Allocator {
    /// The client sleeps in `pool` until a wake. Returns whether it gives up a wake that may serve
    /// another.
    #[cold]
    pub(crate) fn fall_asleep(
        &mut self,
        view: &mut QueueView,
        rules: Rules,
        bio: &Bio,
        pool: u8,
    ) -> bool {
        let index = bio.client.index();
        let number = usize::from(pool);
        let client = view.clients.0.at_mut(index);
        client.refused = Some((bio.sector, bio.sectors));
        client.refused_as = (bio.op, bio.flags);
        let before = client.sleep[number];
        let waits = client.sleep.contains(&Sleep::Asleep);
        // Tags are one pool, whichever it was woken for.
        let woken = before == Sleep::Woken
            || rules == Rules::Mq && client.sleep[..usize::from(POOL_BIOS)].contains(&Sleep::Woken);
        client.sleep[number] = Sleep::Asleep;
        if before == Sleep::Asleep {
            // It keeps its place.
        } else if woken {
            // It was woken and still found nothing: it keeps its turn.
            client.passed_over = true;
            self.expect_no_more(view, index);
            self.back_into_line(view, number, index);
        } else {
            if !waits {
                self.turns += 1;
                (client.turn, client.passed_over) = (self.turns, false);
            }
            self.sleepers[number].push_back(&mut self.sleeper_links[number], index);
        }
        let mut unused = before == Sleep::Woken;
        for other in &mut view.clients.0.at_mut(index).sleep {
            if *other == Sleep::Woken {
                *other = Sleep::Awake;
                unused = true;
            }
        }
        unused
    }

    /// What a client in `pool` was woken for, and does not use, may serve another client, which
    /// waits for something else; under mq rules one behind it in line, so that two cannot wake each
    /// other for ever.
    #[cold]
    pub(crate) fn pass_on(&mut self, around: &mut Context<'_>, client: ClientId, pool: u8) {
        let turn = around.view.clients.at(client.index()).turn;
        self.wake_where_there_is_room(around, Some((pool, turn)));
    }

    /// The client is going to sleep under this limit (R1), and is asked again when the elevator
    /// says (R6).
    #[cold]
    pub(crate) fn refuse(
        view: &mut QueueView,
        elevator: &Chosen,
        client: ClientId,
        admission: Admission,
    ) {
        if admission != Admission::Normal {
            view.ask_again(elevator.admits_from(view, client));
        }
        view.clients.0.at_mut(client.index()).refused_under = match admission {
            Admission::AtMost(limit) => limit.max(1),
            Admission::Later => 1,
            Admission::Normal | Admission::Must => u32::MAX,
        };
    }

    /// A client has got what it was woken for; a wake for another pool may serve others.
    pub(super) fn use_wakes(&mut self, around: &mut Context<'_>, client: ClientId, pool: u8) {
        let mut unused = false;
        self.expect_no_more(around.view, client.index());
        let sleeps = &mut around.view.clients.0.at_mut(client.index()).sleep;
        for (number, sleep) in sleeps.iter_mut().enumerate() {
            if *sleep == Sleep::Woken {
                *sleep = Sleep::Awake;
                unused |= number != usize::from(pool) && number != usize::from(POOL_BIOS);
            }
        }
        if unused {
            self.wake_where_there_is_room(around, None);
        }
    }

    /// A slot for a bio has become free. `is_last`: no bio is left whose end would wake the others
    /// that wait for one (I3).
    pub(super) fn slot_freed(&mut self, around: &mut Context<'_>, is_last: bool) {
        self.wake_first(around, POOL_BIOS);
        while is_last && self.wake_first(around, POOL_BIOS) {}
    }

    /// Whether a client sleeps for a slot.
    #[inline(always)]
    pub(crate) const fn awaits_slot(&self) -> bool {
        !self.sleepers[POOL_BIOS as usize].is_empty()
    }

    /// A client woken for a tag has been told, or tries before that, or does not try.
    pub(super) fn expect_no_more(&mut self, view: &mut QueueView, index: u32) {
        let client = view.clients.0.at_mut(index);
        self.expected -= u32::from(client.expected);
        self.kept -= u32::from(client.kept);
        (client.expected, client.kept) = (false, false);
    }

    /// A client returns to its former place among the sleepers: several that return at once stay in
    /// their order, so that none of them is always the last.
    pub(super) fn back_into_line(&mut self, view: &QueueView, number: usize, index: u32) {
        let turn = view.clients.at(index).turn;
        let (list, links) = (&mut self.sleepers[number], &mut self.sleeper_links[number]);
        let is_later = |other: u32| view.clients.at(other).turn > turn;
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
    pub(super) fn wake_for(&mut self, around: &mut Context<'_>, pool: u8) {
        match around.rules {
            Rules::Legacy => {
                if self.pools[usize::from(pool)].allocated < around.view.nr_requests {
                    self.wake_first(around, pool);
                }
            }
            Rules::Mq => self.wake_where_there_is_room(around, None),
        }
        self.wake_if_nobody_will(around);
    }

    /// Wakes sleepers for which there is room: under legacy rules the first sleeper of each pool
    /// with room; under mq rules those that the free tags are for. If a client passes on what it
    /// was woken for, `by` is its pool, in which none is woken, and its turn: of those that wait
    /// for tags only one behind it is.
    pub(super) fn wake_where_there_is_room(
        &mut self,
        around: &mut Context<'_>,
        by: Option<(u8, u64)>,
    ) {
        if self.nobody_sleeps() {
            return;
        }
        let nominal = around.view.nr_requests;
        let (except, after) = by.unwrap_or((POOL_NONE, 0));
        match around.rules {
            Rules::Legacy => {
                for pool in [POOL_SYNC, POOL_ASYNC] {
                    let room = self.has_slots(around.view)
                        && self.pools[usize::from(pool)].allocated < nominal;
                    if pool != except && room {
                        self.wake_first(around, pool);
                    }
                }
            }
            Rules::Mq => self.wake_in_turn(around, after),
        }
        if POOL_BIOS != except && around.has_bios {
            self.wake_first(around, POOL_BIOS);
        }
    }

    /// Without barging a client falls asleep if others are in line, also if a tag is free that
    /// these may not have: then it is woken at once (R6).
    #[cold]
    pub(crate) fn wake_in_its_turn(&mut self, around: &mut Context<'_>) {
        if around.rules == Rules::Mq && around.elevator.traits().admits_in_turn {
            self.wake_in_turn(around, 0);
        }
    }

    /// For each free tag, except those for which others have been woken, wakes the first in line
    /// behind `after` that could use one now (R1, R2).
    pub(super) fn wake_in_turn(&mut self, around: &mut Context<'_>, after: u64) {
        while self.free_tags(around.view) > self.expected {
            let [one, other] =
                [POOL_SYNC, POOL_ASYNC].map(|pool| self.first_able(around, pool, after));
            let first = match (one, other) {
                (Some(one), Some(other)) => {
                    Some(self.sooner(around, one.min(other), one.max(other)))
                }
                (one, other) => one.or(other),
            };
            let Some((_, pool, index)) = first else { return };
            self.wake(around, pool, index);
        }
    }

    /// Which of two sleepers is woken; `first` has slept longer.
    fn sooner(&self, around: &Context<'_>, first: Sleeper, second: Sleeper) -> Sleeper {
        let id = |(_, _, index): Sleeper| ClientId(around.view.clients.key_at(index));
        let is_rather = around.elevator.wakes_rather(around.view, id(second), id(first));
        if is_rather { second } else { first }
    }

    /// The first sleeper of a pool that could use one of the free tags, and its turn. Examines the
    /// first in line, and then some further back, different ones each time.
    fn first_able(&mut self, around: &mut Context<'_>, pool: u8, after: u64) -> Option<Sleeper> {
        let number = usize::from(pool);
        let first = self.sleepers[number].first();
        let (found, next) = self.ask(around, pool, first, after);
        let is_enough = found.is_some() && !around.elevator.traits().admits_in_turn;
        if is_enough || next.is_none() {
            return found;
        }
        let links = &self.sleeper_links[number];
        let cursor = self.cursors[number].filter(|&index| links.contains(index));
        let (farther, next) = self.ask(around, pool, cursor.or(next), after);
        self.cursors[number] = next;
        match (found, farther) {
            (Some(found), Some(farther)) => Some(self.sooner(around, found, farther)),
            (found, farther) => found.or(farther),
        }
    }

    /// Examines [`LOOK`] sleepers of a pool, starting with one: returns the first that could use a
    /// free tag, or, without barging, the one of [`LOOK`] such that the elevator prefers; and the
    /// next one to examine.
    fn ask(
        &self,
        around: &mut Context<'_>,
        pool: u8,
        mut place: Option<u32>,
        after: u64,
    ) -> (Option<Sleeper>, Option<u32>) {
        let in_turn = around.elevator.traits().admits_in_turn;
        let (mut found, mut able): (Option<Sleeper>, u32) = (None, 0);
        for _ in 0..if in_turn { LOOK_IN_TURN } else { LOOK } {
            let Some(index) = place else { break };
            place = self.sleeper_links[usize::from(pool)].next(index);
            let turn = around.view.clients.at(index).turn;
            if turn <= after || !self.could_use_a_tag(around, index) {
                continue;
            }
            let one = (turn, pool, index);
            if !in_turn {
                return (Some(one), Some(index));
            }
            found = Some(found.map_or(one, |first| self.sooner(around, first, one)));
            able += 1;
            if able == LOOK {
                break;
            }
        }
        (found, place)
    }

    /// Whether one of the free positions is for a sleeper (R1); if not, it may be asked again (R6).
    fn could_use_a_tag(&self, around: &mut Context<'_>, index: u32) -> bool {
        let sleeper = around.view.clients.at(index);
        let ((op, flags), under) = (sleeper.refused_as, sleeper.refused_under);
        let client = ClientId(around.view.clients.key_at(index));
        let most = around.view.nr_requests;
        let admission = around.elevator.would_admit(around.view, client, op, flags);
        let limit = match leave_one(around.throttle, around.view, client, op, admission) {
            Admission::AtMost(limit) if under == 1 => limit.clamp(1, most),
            Admission::AtMost(_) => under.min(most),
            Admission::Later => u32::from(self.is_unused()),
            Admission::Normal | Admission::Must => most,
        };
        let is_able = limit > 0 && self.positions.first(limit).is_some();
        if !is_able && admission != Admission::Normal {
            around.view.ask_again(around.elevator.admits_from(around.view, client));
        }
        is_able
    }

    /// Wakes a pool's sleepers if there is no request whose end would wake them (I3).
    pub(crate) fn wake_if_nobody_will(&mut self, around: &mut Context<'_>) {
        if self.is_unused() {
            self.wake_all(around);
            return;
        }
        if around.rules == Rules::Legacy && self.has_slots(around.view) {
            for pool in [POOL_ASYNC, POOL_SYNC] {
                while self.pools[usize::from(pool)].allocated == 0 && self.wake_first(around, pool)
                {
                }
            }
        }
    }

    /// Wakes all sleepers: limits or rules have changed.
    pub(crate) fn wake_all(&mut self, around: &mut Context<'_>) {
        while around.rules == Rules::Mq {
            let first = [POOL_SYNC, POOL_ASYNC].map(|pool| {
                let index = self.sleepers[usize::from(pool)].first()?;
                Some((around.view.clients.at(index).turn, pool, index))
            });
            let Some((_, pool, index)) = first.into_iter().flatten().min() else { break };
            self.wake(around, pool, index);
        }
        for pool in [POOL_SYNC, POOL_ASYNC] {
            while self.wake_first(around, pool) {}
        }
        while around.has_bios && self.wake_first(around, POOL_BIOS) {}
    }

    pub(super) fn wake_first(&mut self, around: &mut Context<'_>, pool: u8) -> bool {
        let number = usize::from(pool);
        let Some(index) = self.sleepers[number].first() else { return false };
        self.wake(around, pool, index);
        true
    }

    /// Wakes a sleeper of `pool`.
    fn wake(&mut self, around: &mut Context<'_>, pool: u8, index: u32) {
        let number = usize::from(pool);
        let links = &mut self.sleeper_links[number];
        self.sleepers[number].remove(links, index);
        #[cfg(feature = "planted-bugs")]
        if around.view.planted.loses_wake() {
            around.view.clients.0.at_mut(index).sleep[number] = Sleep::Awake;
            return;
        }
        let now = around.view.exact;
        let client = around.view.clients.0.at_mut(index);
        client.sleep[number] = Sleep::Woken;
        client.batch_left = BATCH_REQUESTS;
        client.batch_since = now;
        if around.rules == Rules::Mq && pool != POOL_BIOS && !client.expected {
            (client.expected, client.kept) = (true, client.passed_over);
            self.expected += 1;
            self.kept += u32::from(client.kept);
        }
        if !self.wake_links.contains(index) {
            self.wakes.push_back(&mut self.wake_links, index);
        }
    }

    /// The next client to be told.
    #[inline(always)]
    pub(crate) fn next_wake(&mut self, view: &mut QueueView) -> Option<ClientId> {
        let index = self.wakes.pop_front(&mut self.wake_links)?;
        self.expect_no_more(view, index);
        Some(ClientId(view.clients.key_at(index)))
    }

    /// `client` does not use its wake: another client may.
    pub(super) fn pass_on_wakes(&mut self, around: &mut Context<'_>, client: ClientId) {
        self.expect_no_more(around.view, client.index());
        for pool in [POOL_ASYNC, POOL_SYNC, POOL_BIOS] {
            let sleep = &mut around.view.clients.0.at_mut(client.index()).sleep[usize::from(pool)];
            if *sleep == Sleep::Woken {
                *sleep = Sleep::Awake;
                self.wake_where_there_is_room(around, None);
            }
        }
    }

    /// A leaving client is no longer a sleeper.
    pub(crate) fn stop_sleeping(&mut self, around: &mut Context<'_>, client: ClientId) {
        let index = client.index();
        for number in 0..POOLS {
            let state = &mut around.view.clients.0.at_mut(index).sleep[number];
            if *state == Sleep::Asleep {
                *state = Sleep::Awake;
                let links = &mut self.sleeper_links[number];
                self.sleepers[number].remove(links, index);
            }
        }
        if self.wake_links.contains(index) {
            self.wakes.remove(&mut self.wake_links, index);
        }
        self.pass_on_wakes(around, client);
    }
}

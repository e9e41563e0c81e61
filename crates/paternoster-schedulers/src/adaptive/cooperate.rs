// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cooperate: clients that read one stream between them share a seat, and nothing else.
//!
//! A dump with two readers, or the threads of a file server: each of them jumps about, and together
//! they read sequentially. Each request is checked: does it begin where *another* client of the
//! group has just been? A client for which that holds with five of eight is in a shared stream:
//!
//! ```text
//! P   0   2   4   6 …     P and Q: each continues the other     one seat, one turn, in the order
//! Q     1   3   5   7 …                                         of sectors: 0 1 2 3 4 5 6 7 …
//! ```
//!
//! BFQ and CFQ merge the two queues into one, which has the share of one. Here each client keeps
//! its account and pays for its own requests: two readers of one file get the share of two readers.
//! But they go in step, and if the requests of one are larger, it pays more for the same stretch of
//! the file. The other is not owed the difference for ever, or it would take the seat for both of
//! them again and again: beyond a quantum it is forgotten.
//!
//! Membership is checked all the time by the same measure: a client leaves the shared stream if its
//! requests no longer continue the others' (two of eight), if it reads sequentially by itself, or
//! if it was away for [`AWAY_MOST`].
//!
//! They go in step also without seats, when the account of one of them is the least. Where seeks
//! cost nothing no shared stream is looked for, and none of this applies.
//!
//! In a shared stream's turn a client that is ahead is held back until the hindmost has caught up:
//!
//! ```text
//! P               8   10          P waits at 8      in step: 3 5 7 8 9 10 11 …
//! Q     3   5   7   9   11        Q goes on         to and fro: 3 8 5 10 7 12 …
//! ```
//!
//! # Invariants
//! I1  A shared stream is of one group and class, and its members wait as streams.
//! I2  No member of a shared stream is more than a quantum, by its weight, behind one that has just
//! gone.
//! I3  A client is held back only while something is in the device, or until a window ends. While
//!     accounts alone decide (see `watchdog.rs`), none is, and I2 does not apply.
//!
//! Source: own; the search by positions is that of `pick/positions.rs`, as in BFQ and CFQ
//! (BFQ-125, CFQ-41).

use alloc::format;
use alloc::vec::Vec;

use crate::adaptive::account::{Accounts, STREAM};
use crate::adaptive::clients::Clients;
use crate::adaptive::shared_stream::SharedStreams;
use paternoster_core::elevator::Fault;
use paternoster_core::pick::positions::Positions;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, Request, RequestId};

/// How far from another's last position a request may begin to continue it: what BFQ calls a seek
/// is beyond that.
const NEAR: u64 = 800;
/// For large requests: this many of them. Of four readers in step one may be three ahead.
const NEAR_REQUESTS: u64 = 4;
/// Clients that go in the same even steps may be this far apart, 64 MiB: what a disk reads in a
/// turn. They can catch up.
const FAR: u64 = 1 << 17;
/// This many steps of the same length are even.
const STEPS_LEAST: u8 = 2;
/// The whole and the thresholds of `run`, as for streams (see `access_pattern.rs`): 5 of 8, and 3
/// of 8.
const RUN_WHOLE: u32 = 256;
const RUN_BEGINS: u32 = 160;
const RUN_ENDS: u32 = 96;
/// A client that was away for longer begins anew.
const AWAY_MOST: Nanos = Nanos::from_secs(1);

/// How a client's requests relate to those of others.
#[derive(Debug, Clone, Copy, Default)]
struct Relation {
    /// How many of 256 continue another's.
    run: u32,
    last_seen: Nanos,
    /// Where its last request began, how far that was from the one before, and how often in a row.
    last: u64,
    step: u64,
    /// Where its last request ended: a client that goes on from there needs no shared stream.
    end: u64,
    steps: u8,
}

impl Relation {
    /// A request begins at `sector`.
    fn steps_to(&mut self, now: Nanos, sector: u64) {
        if self.last_seen + AWAY_MOST < now {
            (self.run, self.steps) = (0, 0);
        }
        self.last_seen = now;
        let step = sector.wrapping_sub(self.last);
        self.steps = if step == self.step { self.steps.saturating_add(1) } else { 0 };
        (self.last, self.step) = (sector, step);
    }

    /// Notes whether it continues another's. One in even steps is no accident, and counts twice.
    fn saw(&mut self, near: bool) {
        let shift = if self.is_even() { 2 } else { 3 };
        self.run -= self.run >> shift;
        if near {
            self.run += RUN_WHOLE >> shift;
        }
    }

    /// It goes on in even steps, forward.
    const fn is_even(&self) -> bool {
        self.steps >= STEPS_LEAST && self.step > 0 && self.step <= FAR
    }

    /// Where its next request begins, if it goes on in even steps.
    fn next(&self) -> Option<u64> {
        self.is_even().then(|| self.last.saturating_add(self.step))
    }
}

/// What a request says about its client and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Finding {
    /// The client leaves its shared stream, if it is in one.
    pub(super) parts: bool,
    /// It shares a seat with this one from now on.
    pub(super) joins: Option<u32>,
}

/// Which clients go in step; and the last positions of all clients, by group, to find that out.
#[derive(Debug)]
pub(super) struct Cooperation {
    relations: Vec<Relation>,
    positions: Positions,
    streams: SharedStreams,
}

impl Cooperation {
    /// For this many clients and groups: all alone.
    pub(super) fn new(clients: u32, groups: u32) -> Cooperation {
        Cooperation {
            relations: (0..clients).map(|_| Relation::default()).collect(),
            positions: Positions::new(clients, groups),
            streams: SharedStreams::new(clients),
        }
    }

    /// The shared streams.
    pub(super) const fn streams(&self) -> &SharedStreams {
        &self.streams
    }

    pub(super) const fn streams_mut(&mut self) -> &mut SharedStreams {
        &mut self.streams
    }

    fn of(&self, client: u32) -> &Relation {
        &self.relations[client as usize]
    }

    /// A request of a client arrives; `reads_alone`: it reads sequentially by itself. Does it
    /// continue another's?
    #[inline(never)]
    pub(super) fn look_around(
        &mut self,
        accounts: &Accounts,
        client: u32,
        request: &Request,
        reads_alone: bool,
        now: Nanos,
    ) -> Finding {
        let (group, begin, end) = (accounts.group_of(client), request.sector(), request.end());
        self.positions.remove(client);
        let own = &mut self.relations[client as usize];
        own.steps_to(now, begin);
        let alone = core::mem::replace(&mut own.end, end) == begin;
        let nearest = self.positions.close_to(group, begin, FAR);
        let found = nearest.filter(|&it| !alone && self.is_beside(accounts, client, it, request));
        let own = &mut self.relations[client as usize];
        own.saw(found.is_some());
        let (run, tied) = (own.run, own.run >= RUN_BEGINS);
        // A client far away would wait there until the others came by.
        let parts = reads_alone || run < RUN_ENDS || nearest.is_none();
        if reads_alone {
            return Finding { parts, joins: None };
        }
        self.positions.place(client, group, end);
        let of_the_same_mind = |other: u32| self.of(other).run >= RUN_BEGINS;
        let joins = found.filter(|&other| tied && of_the_same_mind(other));
        Finding { parts, joins }
    }

    /// Whether another client has been where a request begins: near it or, if both go in the same
    /// steps, not far from it.
    fn is_beside(&self, accounts: &Accounts, client: u32, other: u32, request: &Request) -> bool {
        let place = self.positions.sector(other);
        let distance = place.map_or(u64::MAX, |place| place.abs_diff(request.sector()));
        let near = NEAR.max(NEAR_REQUESTS * u64::from(request.sectors()));
        let (one, two) = (self.of(client), self.of(other));
        let in_step = one.is_even() && two.is_even() && one.step == two.step;
        let alike = accounts.at(client).class == accounts.at(other).class;
        alike && (in_step || distance <= near)
    }

    /// The last request of a client has grown: the position moves on.
    pub(super) fn move_on(&mut self, client: u32, group: u32, end: u64) {
        if self.positions.contains(client) {
            self.positions.place(client, group, end);
            self.relations[client as usize].end = end;
        }
    }

    /// Two clients, and those with them, share a seat from now on, unless they would be too many.
    /// `head` is where `other` is. Returns the former leader of the one and the leader of all.
    pub(super) fn unite(
        &mut self,
        client: u32,
        other: u32,
        head: impl Fn(u32) -> u64,
    ) -> Option<(u32, u32)> {
        let (from, into) = (self.streams.leader_of(client), self.streams.leader_of(other));
        if !self.streams.is_in_one(into) {
            self.streams.set_head(into, head(into));
        }
        self.streams.unite(client, other).then_some((from, into))
    }

    /// A client leaves its shared stream, if it is in one. Returns its former leader and the leader
    /// of the others.
    pub(super) fn part(&mut self, client: u32) -> Option<(u32, u32)> {
        let leader = self.streams.leader_of(client);
        self.streams.part(client).map(|heir| (leader, heir))
    }

    /// A client leaves, or changes its group or class: no other must find it at its last position.
    pub(super) fn forget_place(&mut self, client: u32) {
        self.positions.remove(client);
        self.relations[client as usize] = Relation::default();
    }

    /// The client that represents a client's shared stream: itself if it is alone.
    #[inline]
    pub(super) fn leader_of(&self, client: u32) -> u32 {
        self.streams.leader_of(client)
    }

    /// The member of a shared stream that goes next, of those with something waiting, and its
    /// request: from where they were on, or one that is too old.
    pub(super) fn next_of(
        &self,
        view: &QueueView,
        accounts: &Accounts,
        clients: &Clients,
        client: u32,
        now: Nanos,
    ) -> Option<(u32, RequestId)> {
        let head = self.streams.head(client);
        // What is too old comes first, oldest first; then a client that goes in even steps and has
        // fallen behind, then what lies ahead, then the rest.
        let rank = |member: u32, request: RequestId| {
            let request = view.request(request);
            let deadline = Nanos(request.scratch()[0]);
            let (behind, even) = (request.sector() < head, self.of(member).is_even());
            match (deadline <= now, behind, even) {
                (true, ..) => (0, deadline.0),
                (_, true, true) => (1, request.sector()),
                (_, false, _) => (2, request.sector()),
                (_, true, false) => (3, request.sector()),
            }
        };
        let members = self.streams.members(client);
        let waiting = members.filter(|&member| waits_in_turn(accounts, member));
        let all = waiting.map(|member| (member, clients.next_from(view, member, head, now)));
        all.min_by_key(|&(member, request)| rank(member, request))
    }

    /// Whether a shared stream waits for its hindmost: a member that is ahead goes when it has been
    /// caught up with, or the two would go to and fro for ever. The hindmost has nothing waiting,
    /// goes in even steps, and its next request would lie before what could go now; it has a
    /// request in the device, or is expected.
    fn waits_for_hindmost(
        &self,
        view: &QueueView,
        accounts: &Accounts,
        clients: &Clients,
        leader: u32,
        now: Nanos,
    ) -> bool {
        let Some((_, request)) = self.next_of(view, accounts, clients, leader, now) else {
            return false;
        };
        let request = view.request(request);
        let late = Nanos(request.scratch()[0]) <= now;
        if late || request.sector() == self.streams.head(leader) {
            return false;
        }
        let first = request.sector().saturating_sub(FAR);
        self.streams.members(leader).any(|other| {
            let node = accounts.at(other);
            let comes = node.flying > 0 || clients.at(other).pattern.is_expected(now);
            let next = self.of(other).next().filter(|_| comes && node.waiting() == 0);
            next.is_some_and(|next| (first..request.sector()).contains(&next))
        })
    }

    /// Whether a client is held back by its shared stream: for the hindmost, or because one of them
    /// has a request in the device already, and there are other clients, or one seat. Two
    /// sequential readers next to each other would keep a disk that orders its own queue from going
    /// anywhere else.
    pub(super) fn is_held_back(
        &self,
        view: &QueueView,
        accounts: &Accounts,
        clients: &Clients,
        client: u32,
        has_one_seat: bool,
        now: Nanos,
    ) -> bool {
        let (mut flying, mut waiting) = (0, 0);
        for node in self.streams.members(client).map(|member| accounts.at(member)) {
            flying += node.flying;
            waiting += node.waiting();
        }
        let ([crowd, streams], all) = accounts.totals();
        let others = crowd + streams > waiting || all > flying;
        flying > 0 && (others || has_one_seat)
            || self.waits_for_hindmost(view, accounts, clients, client, now)
    }

    /// The client that has had least, of those that share a seat and have something waiting.
    pub(super) fn least_of(&self, accounts: &Accounts, leader: u32) -> Option<u32> {
        let members = self.streams.members(leader);
        let waiting = members.filter(|&member| waits_in_turn(accounts, member));
        waiting.reduce(|one, other| if accounts.precedes(other, one) { other } else { one })
    }

    /// A request of a client has gone in its shared stream's turn: no member stays behind by more
    /// than a quantum (I2).
    #[inline(never)]
    pub(super) fn keep_step(
        &mut self,
        accounts: &mut Accounts,
        client: u32,
        end: u64,
        quantum: u64,
    ) {
        self.streams.set_head(client, end);
        let quantum = i64::try_from(quantum).unwrap_or(i64::MAX);
        let mut at = self.streams.after(client);
        while at != client {
            accounts.follow(at, client, quantum);
            at = self.streams.after(at);
        }
    }

    /// Verifies I1, and the order of positions. O(n).
    pub(super) fn check(&self, accounts: &Accounts, clients: &Clients) -> Result<(), Fault> {
        self.positions.check()?;
        self.streams.check()?;
        for (client, number) in clients.all().iter().zip(0u32..) {
            let leader = self.leader_of(number);
            let (own, other) = (accounts.at(number), accounts.at(leader));
            if (own.parent, own.class) != (other.parent, other.class) {
                return Err(format!(
                    "cooperate I1: client {number} is of another group than {leader}"
                ));
            }
            let together = self.streams.is_in_one(number);
            if client.is_together != together || together && !client.is_stream {
                return Err(format!(
                    "cooperate I1: client {number} is in a shared stream, and no stream"
                ));
            }
        }
        Ok(())
    }
}

fn waits_in_turn(accounts: &Accounts, client: u32) -> bool {
    accounts.at(client).queued[STREAM] > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::{Bio, ClientId, Op};

    /// Two clients of one group and one of another.
    fn three() -> (Accounts, Cooperation) {
        let mut accounts = Accounts::new(3, 2, 0);
        accounts.open(4, 3, 100, 1);
        for (client, group) in [(0, 3), (1, 3), (2, 4)] {
            accounts.open(client, group, 100, 1);
        }
        (accounts, Cooperation::new(3, 2))
    }

    /// What the `nth` request of 128 sectors of `client`, of `of` that go in turn, shows.
    fn goes(
        (accounts, cooperation): &mut (Accounts, Cooperation),
        client: u32,
        nth: u64,
        of: u64,
    ) -> Finding {
        let sector = 128 * (of * nth + u64::from(client));
        let bio = Bio::new(ClientId::NOBODY, Op::Read, sector, 128);
        let request = Request::of(&bio, Nanos::ZERO);
        cooperation.look_around(accounts, client, &request, false, Nanos(nth))
    }

    /// Are two clients found that read one stream in turn, and no one of another group?
    #[test]
    fn who_reads_in_turn_is_found() {
        let mut all = three();
        let mut joins = Vec::new();
        for nth in 0..8 {
            for client in 0..3 {
                joins.extend(goes(&mut all, client, nth, 3).joins.map(|other| (client, other)));
            }
        }
        assert!(joins.contains(&(0, 1)) || joins.contains(&(1, 0)), "{joins:?}");
        assert!(joins.iter().all(|&(one, other)| one < 2 && other < 2), "{joins:?}");
    }

    /// Do a client that goes on by itself, and one that is far from all others, leave?
    #[test]
    fn who_goes_elsewhere_parts() {
        let mut all = three();
        for nth in 0..8 {
            goes(&mut all, 0, nth, 2);
            goes(&mut all, 1, nth, 2);
        }
        assert!(!goes(&mut all, 0, 8, 2).parts);
        assert!(goes(&mut all, 0, 1 << 20, 2).parts);
        let (accounts, cooperation) = &mut all;
        let request = Request::of(&Bio::new(ClientId::NOBODY, Op::Read, 8, 8), Nanos::ZERO);
        let alone = cooperation.look_around(accounts, 1, &request, true, Nanos(99));
        assert_eq!(alone, Finding { parts: true, joins: None });
    }

    /// I2: is a member that is behind by more than a quantum brought up to it, and not the one that
    /// went?
    #[test]
    fn i2_the_pace_is_that_of_who_pays_more() {
        let (mut accounts, mut cooperation) = three();
        assert_eq!(cooperation.unite(0, 1, |_| 77), Some((0, 1)));
        assert_eq!(cooperation.unite(0, 1, |_| 78), None);
        assert_eq!(cooperation.streams().head(0), 77);
        for _ in 0..3 {
            accounts.arrive(0, STREAM, Nanos::ZERO, 0);
            accounts.dispatch(0, STREAM, 1_000_000, Nanos::ZERO);
        }
        let ahead = accounts.at(0).vt;
        cooperation.keep_step(&mut accounts, 0, 256, 1_000_000);
        assert_eq!((accounts.at(0).vt, cooperation.streams().head(1)), (ahead, 256));
        assert_eq!(accounts.at(1).vt, ahead - ahead / 3);
        assert_eq!(cooperation.part(0), Some((1, 1)));
        assert_eq!(cooperation.part(0), None);
    }
}

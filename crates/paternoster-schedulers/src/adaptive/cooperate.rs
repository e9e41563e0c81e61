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

use crate::adaptive::Paternoster;
use crate::adaptive::account::STREAM;
#[cfg(test)]
use crate::adaptive::watchdog::Sabotage;
use paternoster_core::event::Note;
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
pub(super) struct Cooperation {
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

impl Cooperation {
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

impl Paternoster {
    /// A request of a client arrives: does it continue another's?
    #[inline]
    pub(super) fn look_around(&mut self, view: &mut QueueView, client: u32, request: RequestId) {
        if view.facts().rotational {
            self.look_for_shared_stream(view, client, request);
        }
    }

    #[inline(never)]
    fn look_for_shared_stream(&mut self, view: &mut QueueView, client: u32, request: RequestId) {
        self.positions.remove(client);
        let (now, begin) = (view.exact_now(), view.request(request).sector());
        self.cooperation[client as usize].steps_to(now, begin);
        let nearest = self.positions.close_to(self.tree_of(client), begin, FAR);
        let end = view.request(request).end();
        let alone = core::mem::replace(&mut self.cooperation[client as usize].end, end) == begin;
        let beside = |&it: &u32| !alone && self.is_beside(client, it, view.request(request));
        let found = nearest.filter(beside);
        let own = &mut self.cooperation[client as usize];
        own.saw(found.is_some());
        let (run, tied) = (own.run, own.run >= RUN_BEGINS);
        let by_himself = self.clients[client as usize].pattern.is_stream;
        // A client far away would wait there until the others came by.
        if by_himself || run < RUN_ENDS || nearest.is_none() {
            self.part(view, client);
        }
        if by_himself {
            return;
        }
        self.positions.place(client, self.tree_of(client), view.request(request).end());
        let of_the_same_mind = |other: u32| self.cooperation[other as usize].run >= RUN_BEGINS;
        if let Some(other) = found.filter(|&other| tied && of_the_same_mind(other)) {
            self.unite(view, client, other);
        }
    }

    fn tree_of(&self, client: u32) -> u32 {
        self.accounts.at(client).parent - self.accounts.of_group(0)
    }

    /// Whether another client has been where a request begins: near it or, if both go in the same
    /// steps, not far from it.
    fn is_beside(&self, client: u32, other: u32, request: &Request) -> bool {
        let place = self.positions.sector(other);
        let distance = place.map_or(u64::MAX, |place| place.abs_diff(request.sector()));
        let near = NEAR.max(NEAR_REQUESTS * u64::from(request.sectors()));
        let cooperation = |client: u32| &self.cooperation[client as usize];
        let in_step = cooperation(client).is_even() && cooperation(other).is_even();
        let in_step = in_step && cooperation(client).step == cooperation(other).step;
        let alike = self.accounts.at(client).class == self.accounts.at(other).class;
        alike && (in_step || distance <= near)
    }

    /// The last request of a client has grown: the position moves on.
    pub(super) fn move_on(&mut self, client: u32, end: u64) {
        if self.positions.contains(client) {
            self.positions.place(client, self.tree_of(client), end);
            self.cooperation[client as usize].end = end;
        }
    }

    /// Two clients, and those with them, share a seat from now on.
    fn unite(&mut self, view: &mut QueueView, client: u32, other: u32) {
        let (from, into) =
            (self.shared_streams.leader_of(client), self.shared_streams.leader_of(other));
        if !self.shared_streams.is_in_one(into) {
            self.shared_streams.set_head(into, self.clients[into as usize].head);
        }
        if !self.shared_streams.unite(client, other) {
            return;
        }
        self.seats.rename(from, into);
        self.sort_shared_stream(into);
        self.learn.be_stale();
        if let (Some(client), Some(into)) = (self.id_of(view, client), self.id_of(view, into)) {
            view.note(Note::QueuesMerged { client, into });
        }
    }

    /// A client leaves its shared stream, if it is in one.
    pub(super) fn part(&mut self, view: &mut QueueView, client: u32) {
        let leader = self.shared_streams.leader_of(client);
        let Some(heir) = self.shared_streams.part(client) else { return };
        // The seat stays with the others.
        if heir != leader {
            self.seats.rename(leader, heir);
        }
        self.clients[client as usize].is_together = false;
        self.sort_client(client);
        self.sort_shared_stream(heir);
        if let (Some(client), Some(from)) = (self.id_of(view, client), self.id_of(view, heir)) {
            view.note(Note::QueuesParted { client, from });
        }
    }

    /// A client leaves, or changes its group or class: no other must find it at its last position.
    pub(super) fn forget_place(&mut self, view: &mut QueueView, client: u32) {
        self.part(view, client);
        self.positions.remove(client);
        self.cooperation[client as usize] = Cooperation::default();
    }

    fn sort_shared_stream(&mut self, client: u32) {
        let mut at = client;
        for _ in 0..self.shared_streams.count(client) {
            self.clients[at as usize].is_together = self.shared_streams.is_in_one(at);
            self.sort_client(at);
            at = self.shared_streams.after(at);
        }
    }

    /// The client that represents a client's shared stream: itself if it is alone.
    pub(super) fn leader_of(&self, client: u32) -> u32 {
        let is_together = self.clients[client as usize].is_together;
        if is_together { self.shared_streams.leader_of(client) } else { client }
    }

    /// Whether two are of one shared stream, or the same client.
    pub(super) fn share_one(&self, one: u32, other: u32) -> bool {
        one == other
            || self.clients[one as usize].is_together && self.shared_streams.share_one(one, other)
    }

    /// The client that goes instead of the one whose turn it is, possibly itself, and its request.
    /// None if it is alone, or accounts alone decide.
    pub(super) fn member_of(
        &self,
        view: &QueueView,
        client: u32,
        now: Nanos,
    ) -> Option<(u32, RequestId)> {
        let together = self.clients[client as usize].is_together && !self.watchdog.has_fallen();
        if together { self.next_of_shared_stream(view, client, now) } else { None }
    }

    /// The member of a shared stream that goes next, of those with something waiting, and its
    /// request: from where they were on, or one that is too old.
    pub(super) fn next_of_shared_stream(
        &self,
        view: &QueueView,
        client: u32,
        now: Nanos,
    ) -> Option<(u32, RequestId)> {
        let head = self.shared_streams.head(client);
        // What is too old comes first, oldest first; then a client that goes in even steps and has
        // fallen behind, then what lies ahead, then the rest.
        let rank = |member: u32, request: RequestId| {
            let request = view.request(request);
            let deadline = Nanos(request.scratch()[0]);
            let (behind, even) =
                (request.sector() < head, self.cooperation[member as usize].is_even());
            match (deadline <= now, behind, even) {
                (true, ..) => (0, deadline.0),
                (_, true, true) => (1, request.sector()),
                (_, false, _) => (2, request.sector()),
                (_, true, false) => (3, request.sector()),
            }
        };
        let waiting =
            self.shared_streams.members(client).filter(|&member| self.waits_in_turn(member));
        let all = waiting.map(|member| (member, self.next_from(view, member, head, now)));
        all.min_by_key(|&(member, request)| rank(member, request))
    }

    /// Whether a shared stream waits for its hindmost: a member that is ahead goes when it has been
    /// caught up with, or the two would go to and fro for ever. The hindmost has nothing waiting,
    /// goes in even steps, and its next request would lie before what could go now; it has a
    /// request in the device, or is expected.
    fn waits_for_hindmost(&self, view: &QueueView, leader: u32, now: Nanos) -> bool {
        let Some((_, request)) = self.next_of_shared_stream(view, leader, now) else {
            return false;
        };
        let request = view.request(request);
        let late = Nanos(request.scratch()[0]) <= now;
        if late || request.sector() == self.shared_streams.head(leader) {
            return false;
        }
        let first = request.sector().saturating_sub(FAR);
        self.shared_streams.members(leader).any(|other| {
            let node = self.accounts.at(other);
            let comes = node.flying > 0 || self.clients[other as usize].pattern.is_expected(now);
            let next =
                self.cooperation[other as usize].next().filter(|_| comes && node.waiting() == 0);
            next.is_some_and(|next| (first..request.sector()).contains(&next))
        })
    }

    /// Whether a client is held back by its shared stream: for the hindmost, or because one of them
    /// has a request in the device already, and there are other clients, or one seat. Two
    /// sequential readers next to each other would keep a disk that orders its own queue from going
    /// anywhere else.
    pub(super) fn is_held_back(&self, view: &QueueView, client: u32, now: Nanos) -> bool {
        if !self.clients[client as usize].is_together || self.watchdog.has_fallen() {
            return false;
        }
        #[cfg(test)]
        if self.sabotage == Sabotage::HoldsBack {
            return true;
        }
        let (mut flying, mut waiting) = (0, 0);
        for node in self.shared_streams.members(client).map(|member| self.accounts.at(member)) {
            flying += node.flying;
            waiting += node.waiting();
        }
        let ([crowd, streams], all) = self.accounts.totals();
        let others = crowd + streams > waiting || all > flying;
        flying > 0 && (others || self.seats.most == Some(1))
            || self.waits_for_hindmost(view, client, now)
    }

    /// The earliest time until which a member of a shared stream is expected, and which. O(expected
    /// clients); called only when all waiting clients are held back.
    pub(super) fn hindmost_come(&self, now: Nanos) -> Option<(Nanos, u32)> {
        let all = self.expected.iter(&self.expected_links);
        let together = all.filter(|&client| self.clients[client as usize].is_together);
        let pattern = |client: u32| &self.clients[client as usize].pattern;
        let come = together.filter(|&client| pattern(client).is_expected(now));
        come.map(|client| (pattern(client).window, client)).min()
    }

    fn waits_in_turn(&self, client: u32) -> bool {
        self.accounts.at(client).queued[STREAM] > 0
    }

    /// The client that has had least, of those that share a seat and have something waiting.
    pub(super) fn least_of(&self, leader: u32) -> Option<u32> {
        let waiting =
            self.shared_streams.members(leader).filter(|&member| self.waits_in_turn(member));
        waiting.reduce(|one, other| if self.accounts.precedes(other, one) { other } else { one })
    }

    /// A request of a client has gone in its shared stream's turn: no member stays behind by more
    /// than a quantum (I2).
    pub(super) fn keep_step(&mut self, client: u32, end: u64) {
        if !self.clients[client as usize].is_together || self.watchdog.has_fallen() {
            return;
        }
        self.shared_streams.set_head(client, end);
        let quantum = i64::try_from(self.seats.quantum()).unwrap_or(i64::MAX);
        let mut at = self.shared_streams.after(client);
        while at != client {
            self.accounts.follow(at, client, quantum);
            at = self.shared_streams.after(at);
        }
    }
}

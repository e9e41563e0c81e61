// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seats: how many streams are served at a time (rule S).
//!
//! A disk that reads one stream does 150 MB/s, and one that alternates between two does 15. An
//! array reads sixteen at once and needs them all. So trials find the number of *seats* (see
//! `learn.rs`). Without a limit there are none, and each client goes by its account. With one, each
//! stream needs a seat to be served, and the clients of a group that are no streams, its *sweep
//! group* (see `sweep_group.rs`), need one together:
//!
//! ```text
//! one seat, a quantum of 100 ms  | stream 1 | sweep group  | stream 2 | stream 1 | sweep group ...
//!                                     ^ drained   ^ random requests, as many at a time as it likes
//! ```
//!
//! A turn ends when its holder has had a quantum and is ahead of a client that waits for a seat; so
//! turns are short, and accounts still decide the shares. It also ends when nothing more is
//! expected from the holder. A seat is reassigned when all requests of its last holder have left
//! the device: from then on, a request's measured cost is its own.
//!
//! The quantum is sixteen times the cost of a change, so that changes take 6 % of the time. That
//! cost is the device time of the first half of a turn, less that of the second. All turns together
//! take at most 0.8 s (S5): with many parties turns are shorter, down to six changes. A client of
//! low weight has shorter turns, since it waits longer for the next one:
//!
//! ```text
//! weights 100 and 1500, 160 ms    turns 160 and 160 ms: the light one waits for 2.4 s
//!                                 turns  50 and 160 ms: for 0.75 s        800 ms / 16 = 50
//! ```
//!
//! Which party is next says `lap.rs`; what changes cost is shared, see `shared_changes.rs`.
//!
//! # Invariants
//! I1  At most `most` seats are taken, none of them twice by the same holder.
//! I2  With a limit, all requests in the device are the holders' (except those that went ahead of
//!     all others).
//!
//! Source: S1 to S5, S7, S8 of `docs/rules/adaptive.md`.

use crate::adaptive::access_pattern::blend;
use crate::adaptive::account::{Accounts, STREAM};
use crate::adaptive::lap::{Lap, Next};
use crate::adaptive::parties::{Holder, Parties};
use crate::adaptive::shared_changes::{SharedChanges, Turn};
use paternoster_core::QueueView;
use paternoster_core::event::Note;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;

/// More are never tried: beyond this the difference from no limit cannot be measured.
pub(super) const SEATS_MOST: usize = 8;
/// S5: a change costs a 17th of the time, 6 %.
const QUANTUM_CHANGES: u64 = 16;
/// S5: with n clients waiting, the last waits n times as long.
const QUANTUM_MOST: u64 = 160_000_000;
/// S5: with many clients waiting a turn is at least so many changes, of which it has one. Without
/// turns each waits for a change of each other for every request, and so six times that here.
const CHANGES_MANY: u64 = 6;
/// S5: all turns together. A second is what a client may have to wait at most, and a fifth of that
/// is left for turns that are too long: by a request, or because they are tried.
const ROUND_MOST: u64 = 800_000_000;
/// S5: where no stream takes turns one of 8 to 16 parties may have so much, and all up to twice
/// [`ROUND_MOST`].
const QUANTUM_RANDOM: u64 = 100_000_000;
/// The turn of a client of low weight is at least a quantum divided by this.
const LIGHT_MOST: u64 = 8;
/// Up to this many parties may all have the longest turns.
const PARTIES_FEW: u64 = ROUND_MOST / QUANTUM_MOST;
/// S5: bounds of a quantum while the cost of a change is not known.
const FLOOR_LEAST: u64 = 500_000;
const FLOOR_MOST: u64 = 160_000_000;
const FLOOR_TRIED: u64 = 4;
const FLOOR_REQUESTS: u64 = 16;

/// Which clients take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Setting {
    /// None: there is no limit.
    #[default]
    Free,
    /// Streams, this many at a time; the crowd counts as one stream.
    Streams(u32),
    /// All clients, one at a time: where even the random requests of one client lie close together.
    All,
}

impl Setting {
    /// How many hold a seat at a time.
    pub(super) const fn most(self) -> Option<u32> {
        match self {
            Setting::Free => None,
            Setting::Streams(most) => Some(most),
            Setting::All => Some(1),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Seat {
    holder: Holder,
    /// The client for which the turn began.
    first: u32,
    /// Device time in this turn, estimates included.
    served: i64,
    /// What its holder was ahead when it began (lap I2), in ns of device time.
    ahead: u64,
    /// It dispatches nothing more (S4).
    leaving: bool,
    /// What the requests of the first half of the quantum took, and the later ones: in ns of device
    /// time, and in sectors.
    early: (u64, u64),
    late: (u64, u64),
}

impl Seat {
    const fn of(holder: Holder, first: u32, ahead: u64) -> Seat {
        Seat { holder, first, served: 0, ahead, leaving: false, early: (0, 0), late: (0, 0) }
    }

    /// How much more the first half of the turn took than the second.
    fn change(&self) -> Option<u64> {
        let ((early, begin), (late, rest)) = (self.early, self.late);
        if begin == 0 || rest == 0 {
            return None;
        }
        let usual = u128::from(late) * u128::from(begin) / u128::from(rest);
        Some(early.saturating_sub(u64::try_from(usual).unwrap_or(u64::MAX)))
    }
}

impl Default for Seat {
    fn default() -> Seat {
        Seat::of(Holder::One(NIL), NIL, 0)
    }
}

/// The seats and their present holders.
#[derive(Debug, Clone, Default)]
pub(super) struct Seats {
    /// `None`: no limit.
    pub(super) most: Option<u32>,
    /// All clients take turns as if they were streams, and there is no crowd.
    pub(super) everyone: bool,
    seats: [Seat; SEATS_MOST],
    taken: usize,
    /// The cost of a change (x), in ns of device time.
    pub(super) change: u64,
    /// Without a limit: mean device time of requests, and mean time that they are in the device, in
    /// ns.
    pub(super) cost: u64,
    pub(super) latency: u64,
    /// Turns are long, while the cost of a change is being measured.
    pub(super) tries: bool,
    /// How many take turns; and whether none of them is a stream.
    pub(super) parties: u32,
    pub(super) all_random: bool,
    /// Turns that have ended, and when each party had its last.
    pub(super) turns: u64,
    pub(super) lap: Lap,
    /// What changes cost, shared.
    pub(super) shared: SharedChanges,
}

impl Seats {
    pub(super) fn with_lap(lap: Lap) -> Seats {
        Seats { lap, ..Seats::default() }
    }

    /// S5: the least device time of a turn.
    pub(super) fn quantum(&self) -> u64 {
        let floor = if self.tries { FLOOR_TRIED * self.floor() } else { self.floor() };
        let most = QUANTUM_MOST.min(self.most_by_round());
        (QUANTUM_CHANGES * self.change).max(floor).min(most)
    }

    /// A lower bound of the quantum that is quick to compute.
    #[inline]
    pub(super) fn quantum_least(&self) -> u64 {
        let are_few = u64::from(self.parties) <= PARTIES_FEW;
        if are_few { self.to_fill().min(FLOOR_MOST) } else { 0 }
    }

    /// With many parties the last waits long: turns are shorter then, if changes allow that.
    fn most_by_round(&self) -> u64 {
        let parties = u64::from(self.parties);
        if parties <= PARTIES_FEW {
            return QUANTUM_MOST;
        }
        let changes = if self.all_random { QUANTUM_CHANGES / 2 } else { CHANGES_MANY };
        (self.round() / parties).max(changes * self.change)
    }

    /// All turns together. Random clients ask for several things at a time, of which the next one
    /// goes in their next turn, and so wait for several laps in any case; and the fewer of one
    /// client's go together, the less there is to order.
    fn round(&self) -> u64 {
        if !self.all_random {
            return ROUND_MOST;
        }
        (u64::from(self.parties) * QUANTUM_RANDOM).clamp(ROUND_MOST, 2 * ROUND_MOST)
    }

    /// The least quantum (qf).
    fn floor(&self) -> u64 {
        self.to_fill().clamp(FLOOR_LEAST, FLOOR_MOST)
    }

    #[inline]
    fn to_fill(&self) -> u64 {
        // The queue of random requests is filled and emptied once a turn.
        let fills = self.everyone || self.all_random;
        let one = if fills { self.latency.max(self.cost) } else { self.cost };
        FLOOR_REQUESTS * one
    }

    fn all(&self) -> &[Seat] {
        &self.seats[..self.taken]
    }

    fn of(&mut self, holder: Holder) -> Option<&mut Seat> {
        self.seats[..self.taken].iter_mut().find(|seat| seat.holder == holder)
    }

    pub(super) fn has(&self, holder: Holder) -> bool {
        self.all().iter().any(|seat| seat.holder == holder)
    }

    /// The holder of the only seat is waited for as long as a change would cost (R1).
    pub(super) fn patience_for(&self, client: u32) -> u64 {
        if self.most == Some(1) && self.has(Holder::One(client)) { self.change } else { 0 }
    }

    /// Sets the number of seats. All turns end.
    pub(super) fn set(&mut self, setting: Setting) {
        (self.most, self.everyone, self.taken) = (setting.most(), setting == Setting::All, 0);
    }

    /// The present setting.
    pub(super) const fn setting(&self) -> Setting {
        match self.most {
            None => Setting::Free,
            Some(_) if self.everyone => Setting::All,
            Some(most) => Setting::Streams(most),
        }
    }

    /// The seat of `old` passes to `new`, which may have one already.
    pub(super) fn rename(&mut self, old: u32, new: u32) {
        let (old, new) = (Holder::One(old), Holder::One(new));
        let has_one = self.has(new);
        let Some(place) = self.all().iter().position(|seat| seat.holder == old) else { return };
        if has_one {
            self.seats.copy_within(place + 1..self.taken, place);
            self.taken -= 1;
        } else {
            self.seats[place].holder = new;
        }
    }

    /// A request of a holder goes to the device. Whether it is one of the first half of a turn.
    pub(super) fn dispatched(&mut self, holder: Holder, estimate: i64) -> bool {
        if self.taken == 0 {
            return false;
        }
        let half = i64::try_from(self.quantum() / 2).unwrap_or(i64::MAX);
        let Some(seat) = self.of(holder) else { return false };
        let early = seat.served < half;
        seat.served += estimate;
        early
    }

    /// A request has ended, or something else that the holder pays for.
    pub(super) fn ended(&mut self, holder: Holder, early: bool, off: i64, did: (u64, u64)) {
        if let Some(seat) = self.of(holder) {
            seat.served += off;
            let half = if early { &mut seat.early } else { &mut seat.late };
            half.0 += did.0;
            half.1 += did.1;
        }
    }

    /// A turn is over: learns how much more its first half took than its second, and shares that
    /// if the holder reads on. (A random client pays what such requests take, the ways included.)
    fn learn_change(&mut self, seat: &Seat, reads_on: bool) {
        if !matches!(seat.holder, Holder::One(_)) {
            return;
        }
        // That of the turn, before it changes what changes cost.
        let quantum = self.quantum();
        let way = seat.change();
        if let Some(way) = way {
            self.change = blend(self.change, way, 3);
        }
        if !reads_on {
            return;
        }
        let (client, usual) = (seat.first, self.change);
        let served = u64::try_from(seat.served).unwrap_or(0);
        self.shared.ended(Turn { client, served, way, usual, quantum });
    }

    /// Verifies I1.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.taken > self.most.map_or(0, |most| most as usize) {
            return Err("seats I1: more are taken than there are");
        }
        for (place, seat) in self.all().iter().enumerate() {
            if self.seats[..place].iter().any(|other| other.holder == seat.holder) {
                return Err("seats I1: somebody holds two");
            }
        }
        Ok(())
    }

    /// Ends turns and begins new ones, where there is a limit.
    pub(super) fn tend(&mut self, view: &mut QueueView, parties: &Parties) {
        let Some(most) = self.most else { return };
        let next = self.rightful(parties);
        let mut place = 0;
        while place < self.taken {
            let seat = self.seats[place];
            let leaving = seat.leaving || self.is_over(parties, &seat, next);
            self.seats[place].leaving = leaving;
            if leaving
                && (parties.flying_of(seat.holder) == 0 || self.may_overlap(parties, &seat, next))
            {
                self.end_turn(view, parties, place);
            } else {
                place += 1;
            }
        }
        while self.taken < most as usize {
            let Some(client) = self.rightful(parties) else { return };
            let (client, ahead) = self.next(parties, client);
            let own = parties.clients.at(client);
            if self.strangers(parties, own.reads_on()) > 0 {
                return;
            }
            let holder = parties.holder_of(client);
            self.seats[self.taken] = Seat::of(holder, client, ahead);
            self.taken += 1;
            if let Some(client) = view.client_id(client) {
                let slice = Nanos(self.quantum());
                view.note(Note::SliceBegins { client, slice });
            }
        }
    }

    /// The client of the next turn, and how far it is ahead, if `least` has had least. Where no
    /// stream takes turns that one goes (S7).
    fn next(&self, parties: &Parties, least: u32) -> (u32, u64) {
        if self.all_random {
            return (least, 0);
        }
        let has = |holder: Holder| self.has(holder);
        let turn_of = |client: u32| self.turn_of(parties.accounts, client);
        let Next { client, ahead, .. } = self.lap.next(parties, least, &has, &turn_of);
        (client, ahead)
    }

    fn end_turn(&mut self, view: &mut QueueView, parties: &Parties, place: usize) {
        let gone = self.seats[place];
        self.learn_change(&gone, parties.clients.at(gone.first).reads_on());
        self.seats.copy_within(place + 1..self.taken, place);
        self.taken -= 1;
        self.turns += 1;
        self.lap.had(parties.accounts, gone.holder, self.turns);
        let served = Nanos(u64::try_from(gone.served).unwrap_or(0));
        if let Holder::One(client) = gone.holder
            && let Some(client) = view.client_id(client)
        {
            view.note(Note::SliceEnds { client, served });
        }
    }

    /// S3: the client without a seat that is entitled to the next one.
    fn rightful(&self, parties: &Parties) -> Option<u32> {
        let Parties { accounts, now, .. } = *parties;
        let has = |client| self.has(Holder::One(parties.cooperation.leader_of(client)));
        let seated = |group| self.has(Holder::SweepGroup(accounts.number_of(group)));
        let stream = accounts.first(&[STREAM], now, &has);
        let sweep_group = accounts.first_of_sweep_groups(now, &seated);
        match (stream, sweep_group) {
            (Some(one), Some(other)) if accounts.goes_before(other, one, now) => Some(other),
            (one, other) => one.or(other),
        }
    }

    /// S4: whether the turn ends.
    fn is_over(&self, parties: &Parties, seat: &Seat, next: Option<u32>) -> bool {
        if parties.is_finished(seat.holder) {
            return true;
        }
        let own = match seat.holder {
            Holder::SweepGroup(_) => parties.least_of(seat.holder),
            Holder::One(client) => parties.least_of(seat.holder).or(Some(client)),
        };
        let (Some(next), Some(own)) = (next, own) else { return false };
        let served = u64::try_from(seat.served).unwrap_or(0);
        let had = served >= self.quantum() / LIGHT_MOST
            && served + seat.ahead >= self.turn_of(parties.accounts, own);
        let Parties { accounts, now, .. } = *parties;
        (had || accounts.outranks(next, own)) && accounts.goes_before(next, own, now)
    }

    /// S5: a client's turn: a quantum, or its share of all turns together if that is less. A client
    /// of low weight waits for its next turn until all others have had as much for their weight.
    fn turn_of(&self, accounts: &Accounts, client: u32) -> u64 {
        let quantum = self.quantum();
        let all_turns = self.round().max(u64::from(self.parties) * quantum);
        let (mut share, mut at) = (all_turns, client);
        while let Some((own, all, parent)) = accounts.among_busy(at) {
            (share, at) = (share * own / all, parent);
        }
        share.clamp(quantum / LIGHT_MOST, quantum)
    }

    /// Requests in the device that are no holder's, and that a new turn has to wait for. Random
    /// requests have to wait only for those of streams, which have drained.
    fn strangers(&self, parties: &Parties, is_stream: bool) -> u32 {
        if self.takes_turns_at_random() && !is_stream {
            return 0;
        }
        let (_, flying) = parties.accounts.totals();
        let theirs: u32 = self.all().iter().map(|seat| parties.flying_of(seat.holder)).sum();
        // A client that was random when it asked, and now has a seat as a stream, is counted twice.
        flying.saturating_sub(theirs)
    }

    /// Each client has the device to itself, and random requests have turns among themselves.
    const fn takes_turns_at_random(&self) -> bool {
        self.everyone || self.all_random
    }

    /// Both are random: the first requests of the one overlap the last of the other, so that the
    /// device's queue stays full. A stream begins and ends alone.
    fn may_overlap(&self, parties: &Parties, seat: &Seat, next: Option<u32>) -> bool {
        let random = |client: u32| !parties.clients.at(client).reads_on();
        let was_random = match seat.holder {
            Holder::SweepGroup(_) => true,
            Holder::One(client) => random(client),
        };
        self.takes_turns_at_random() && was_random && next.is_some_and(random)
    }

    /// The holder's client that goes next, unless its shared stream `waits`.
    pub(super) fn first_seated(
        &self,
        parties: &Parties,
        waits: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        let Parties { accounts, now, .. } = *parties;
        let mut best: Option<u32> = None;
        for seat in self.all().iter().filter(|seat| !seat.leaving) {
            let own = match seat.holder {
                Holder::One(client) if waits(client) => None,
                holder => parties.least_of(holder),
            };
            best = match (own, best) {
                (Some(own), Some(other)) if accounts.goes_before(other, own, now) => Some(other),
                (own, other) => own.or(other),
            };
        }
        best
    }

    /// The earliest time until which a holder's next request is expected, and the client.
    pub(super) fn holders_come(&self, parties: &Parties) -> Option<(Nanos, u32)> {
        let seats = self.all().iter().filter(|seat| !seat.leaving);
        seats.filter_map(|seat| parties.comes(seat.holder)).min()
    }

    /// Whether the holder may go, as far as seats are concerned. A leaving holder may not.
    #[inline(always)]
    pub(super) fn admits(&self, holder: impl FnOnce() -> Holder) -> bool {
        self.most.is_none() || {
            let holder = holder();
            self.all().iter().any(|seat| seat.holder == holder && !seat.leaving)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S5: is the cost of a change what the first half of a turn took more than the second? Four
    /// arms that arrive one after the other, 10 ms each, among 40 requests of 1 ms: 60 ms for the
    /// first 20, 20 ms for the other 20. The first request alone would have shown 10.
    #[test]
    fn s5_all_arms_are_part_of_a_change() {
        let mut seats = Seats::default();
        seats.set(Setting::Streams(1));
        let turn = Seat {
            holder: Holder::One(3),
            early: (60_000_000, 20 * 256),
            late: (20_000_000, 20 * 256),
            ..Seat::default()
        };
        seats.learn_change(&turn, true);
        assert_eq!(seats.change, 40_000_000);
        // 16 * 40 ms are more than a turn may last.
        assert_eq!(seats.quantum(), QUANTUM_MOST);
        // A sweep group has no position of its own: nothing is learned from its turns.
        let group = Seat { holder: Holder::SweepGroup(0), early: (1, 1), late: (1, 1), ..turn };
        seats.learn_change(&group, false);
        assert_eq!(seats.change, 40_000_000);
    }

    /// S8: does a random client that has a turn of its own get nothing back? The first half of a
    /// turn of 80 ms took 60, the second 20: a stream gets back half of the turn, and pays 40 * 40
    /// of (8 * 160) ms, an eighth of a quarter of that. What random clients pay has the ways of all
    /// in it (C6), and of turns of 80 and 160 ms the short ones would get back twice as much.
    #[test]
    fn s8_random_clients_get_nothing_back() {
        for (reads_on, due) in [(false, None), (true, Some((3, 1_250_000 - 40_000_000)))] {
            // Sixteen requests of 10 ms are a quantum.
            let mut seats = Seats { latency: 10_000_000, ..Seats::default() };
            seats.set(Setting::All);
            let turn = Seat {
                served: 80_000_000,
                early: (60_000_000, 20 * 256),
                late: (20_000_000, 20 * 256),
                ..Seat::of(Holder::One(3), 3, 0)
            };
            // What changes usually cost: the first that is seen.
            seats.learn_change(&turn, reads_on);
            assert_eq!((seats.change, seats.shared.pop_due()), (40_000_000, due));
        }
    }

    /// S5: are turns shorter with many parties, as far as changes allow? 0.8 s / 8 are 100 ms,
    /// where 16 changes of 10 ms are 160. 0.8 s / 16 are 50; of changes of 10 and 15 ms the quantum
    /// is at least six, 60 and 90. Where none is a stream it is 1.6 s / 16 = 100, and eight changes
    /// of 15 ms are 120; 1.6 s / 20 are 80.
    #[test]
    fn s5_many_have_short_turns() {
        let quantum = |parties, change| Seats { parties, change, ..Seats::default() }.quantum();
        assert_eq!([10_000_000, 15_000_000].map(|change| quantum(8, change)), [100_000_000; 2]);
        assert_eq!(quantum(16, 5_000_000), 50_000_000);
        assert_eq!(quantum(16, 10_000_000), 60_000_000);
        assert_eq!(quantum(20, 15_000_000), 90_000_000);
        assert_eq!(quantum(2, 15_000_000), 160_000_000);
        let random = |parties, change| {
            Seats { parties, change, all_random: true, ..Seats::default() }.quantum()
        };
        assert_eq!([16, 20].map(|parties| random(parties, 10_000_000)), [100_000_000, 80_000_000]);
        assert_eq!(random(16, 15_000_000), 120_000_000);
    }
}

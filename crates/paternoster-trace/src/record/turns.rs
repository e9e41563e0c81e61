// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns: which client had the device when, and what each request waited for, in parts that sum to
//! its latency.
//!
//! ```text
//! asked      got         inserted                           issued      ended
//!   Q ───────── G ────────── I ───────────────────────────────── D ─────── C
//!     for a free   in the      in the scheduler, meanwhile the     in the
//!     request      plug        device had: backup 30 ms, own 5 ms, device
//!                              idle 5 ms
//! ```
//!
//! While the device has k commands, each client is charged 1/k of the passing time for each of its
//! own. Of 10 ns, two clients with one and two commands are charged 3 and 6, and the remaining
//! nanosecond goes to the first of them. So the charges sum to the time, and the parts to the
//! latency.
//!
//! A flush is one command for all that ask for one, of any client; where the cache is clean there
//! is none, and its bio ends without an event. So those bios are not followed: a flush begins when
//! the device gets it.
//!
//! A long run has more requests than anyone looks at. Kept are the longest one of each client and
//! the [`KEPT`] around the longest of all:
//!
//! ```text
//! ended   … . . . . . . . . | . . . . L . . . . | . . .        L the longest so far
//!                           └─ KEPT / 2 ┴ KEPT / 2 ┘
//! ```
//!
//! # Invariants
//! I1  At most `2 * KEPT` ended, [`WAITING_MAX`] waiting and as many issued requests are kept.
//! I2  A turn's parts sum to `ended - asked`.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::{Action, Event, Nanos, Op};

/// This many requests are kept around the one that took longest.
pub const KEPT: usize = 1024;
/// This many clients, the first to come, are listed separately in what the device did meanwhile.
pub const CHARGED: usize = 12;
/// More that wait are forgotten, the oldest place first.
const WAITING_MAX: usize = 1 << 16;

/// How long each of the first clients had the device, all others, and none.
pub type Charges = [u64; CHARGED + 2];
/// The index of the others in [`Charges`], and of the time in which the device was idle.
pub const OTHERS: usize = CHARGED;
/// See [`OTHERS`].
pub const IDLE: usize = CHARGED + 1;

/// One request from asking to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Its client's index.
    pub client: u32,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When its first bio was submitted.
    pub asked: Nanos,
    /// When there was a request for it.
    pub got: Nanos,
    /// When the scheduler had it.
    pub inserted: Nanos,
    /// When the device had it.
    pub issued: Nanos,
    /// When it came back.
    pub ended: Nanos,
    /// How many commands of others, and of its own client, the device had when it came.
    pub before: u32,
    /// What had the device while it was in the scheduler; sums to `issued - inserted`.
    pub charges: Charges,
}

impl Turn {
    /// From asking to the end.
    #[must_use]
    pub fn latency(&self) -> Nanos {
        Nanos(self.ended.0 - self.asked.0)
    }
}

/// The state of a waiting one.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    asked: Nanos,
    got: Option<Nanos>,
    inserted: Option<(Nanos, Charges)>,
}

/// Client, whether it is not a read, first sector.
type Place = (u32, bool, u64);

/// The findings.
#[derive(Debug, Clone, Default)]
pub struct FoundTurns {
    /// Those around the longest one, in the order in which the device got them.
    pub around: Vec<Turn>,
    /// The longest one of each client.
    pub longest: Vec<Turn>,
}

/// Follows the requests of a run.
#[derive(Debug, Clone)]
pub struct Turns {
    now: Nanos,
    charged: Charges,
    /// Commands in the device, by client.
    inside: BTreeMap<u32, u32>,
    waiting: BTreeMap<Place, VecDeque<Waiting>>,
    waiting_count: usize,
    issued: BTreeMap<Place, VecDeque<Turn>>,
    issued_count: usize,
    ended: VecDeque<Turn>,
    most: Nanos,
    /// This many are still to end before the surroundings of the longest are kept.
    until_kept: Option<usize>,
    around: Vec<Turn>,
    longest: BTreeMap<u32, Turn>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            now: Nanos::ZERO,
            charged: [0; CHARGED + 2],
            inside: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_count: 0,
            issued: BTreeMap::new(),
            issued_count: 0,
            ended: VecDeque::with_capacity(KEPT),
            most: Nanos::ZERO,
            until_kept: None,
            around: Vec::new(),
            longest: BTreeMap::new(),
        }
    }
}

impl Turns {
    /// Takes an event of the run; the request that ended with it, if one did.
    pub fn event(&mut self, event: &Event) -> Option<Turn> {
        self.charge(event.at);
        let write = event.op != Op::Read;
        let place = (event.client.index(), write, event.sector);
        match event.action {
            Action::Queue | Action::Get | Action::Insert if event.op == Op::Flush => {}
            Action::Queue => {
                let waiting = Waiting { asked: event.at, got: None, inserted: None };
                self.wait(place, waiting);
            }
            Action::Get => {
                let mut of = self.waiting.get_mut(&place).into_iter().flatten();
                if let Some(waiting) = of.find(|waiting| waiting.got.is_none()) {
                    waiting.got = Some(event.at);
                }
            }
            Action::Insert => {
                let charged = self.charged;
                let mut of = self.waiting.get_mut(&place).into_iter().flatten();
                if let Some(waiting) = of.find(|waiting| waiting.inserted.is_none()) {
                    waiting.inserted = Some((event.at, charged));
                }
            }
            // The bio goes with another; a request that now begins earlier is found there.
            Action::BackMerge => drop(self.take_waiting(place, true)),
            Action::FrontMerge => {
                let bio = self.take_waiting(place, true);
                let behind = (place.0, write, event.sector + u64::from(event.sectors));
                if let Some(request) = self.take_waiting(behind, false) {
                    let asked = bio.map_or(request.asked, |bio| bio.asked.min(request.asked));
                    self.wait(place, Waiting { asked, ..request });
                }
            }
            Action::Issue => self.issue(place, event),
            Action::Requeue => {
                if let Some(turn) = self.take_issued(place) {
                    self.leave(place.0);
                    let charges = core::array::from_fn(|nth| self.charged[nth] - turn.charges[nth]);
                    let inserted = Some((turn.inserted, charges));
                    let (asked, got) = (turn.asked, Some(turn.got));
                    self.wait(place, Waiting { asked, got, inserted });
                }
            }
            Action::Complete => {
                let turn = self.take_issued(place)?;
                let turn = Turn { ended: event.at, ..turn };
                self.leave(place.0);
                self.end(turn);
                return Some(turn);
            }
            _ => {}
        }
        None
    }

    /// The findings, when everything has ended.
    #[must_use]
    pub fn finish(mut self) -> FoundTurns {
        if self.until_kept.is_some() || self.around.is_empty() {
            self.keep();
        }
        let longest = self.longest.into_values().collect();
        FoundTurns { around: self.around, longest }
    }

    /// Charges those that have the device with the time since the last event.
    fn charge(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.now.0);
        self.now = self.now.max(now);
        if passed == 0 {
            return;
        }
        let commands: u32 = self.inside.values().sum();
        let (mut left, mut first) = (passed, IDLE);
        for (&client, &own) in &self.inside {
            let slot = slot(client);
            if first == IDLE {
                first = slot;
            }
            let part = u128::from(passed) * u128::from(own) / u128::from(commands.max(1));
            let part = u64::try_from(part).unwrap_or(passed);
            self.charged[slot] += part;
            left -= part;
        }
        self.charged[first] += left;
    }

    fn wait(&mut self, place: Place, waiting: Waiting) {
        if self.waiting_count >= WAITING_MAX {
            let first = self.waiting.keys().next().copied();
            let _forgotten = first.and_then(|first| self.take_waiting(first, false));
        }
        self.waiting.entry(place).or_default().push_back(waiting);
        self.waiting_count += 1;
    }

    /// The newest of this place, for a bio that is merged at once, or the oldest.
    fn take_waiting(&mut self, place: Place, newest: bool) -> Option<Waiting> {
        let of = self.waiting.get_mut(&place)?;
        let taken = if newest { of.pop_back() } else { of.pop_front() };
        if of.is_empty() {
            self.waiting.remove(&place);
        }
        self.waiting_count -= usize::from(taken.is_some());
        taken
    }

    fn take_issued(&mut self, place: Place) -> Option<Turn> {
        let of = self.issued.get_mut(&place)?;
        let taken = of.pop_front();
        if of.is_empty() {
            self.issued.remove(&place);
        }
        self.issued_count -= usize::from(taken.is_some());
        taken
    }

    fn issue(&mut self, place: Place, event: &Event) {
        let before = self.inside.values().sum();
        *self.inside.entry(place.0).or_default() += 1;
        // A request not seen before, such as a flush that the queue itself sends, begins here.
        let waiting = self.take_waiting(place, false);
        let asked = waiting.map_or(event.at, |waiting| waiting.asked);
        let (inserted, since) =
            waiting.and_then(|waiting| waiting.inserted).unwrap_or((event.at, self.charged));
        let got = waiting.and_then(|waiting| waiting.got).unwrap_or(asked).min(inserted);
        let turn = Turn {
            client: place.0,
            op: event.op,
            sector: event.sector,
            sectors: event.sectors,
            asked,
            got,
            inserted,
            issued: event.at,
            ended: event.at,
            before,
            charges: core::array::from_fn(|nth| self.charged[nth] - since[nth]),
        };
        if self.issued_count < WAITING_MAX {
            self.issued.entry(place).or_default().push_back(turn);
            self.issued_count += 1;
        }
    }

    fn leave(&mut self, client: u32) {
        if let Some(own) = self.inside.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                self.inside.remove(&client);
            }
        }
    }

    fn end(&mut self, turn: Turn) {
        if self.ended.len() == KEPT {
            self.ended.pop_front();
        }
        self.ended.push_back(turn);
        let longest = self.longest.entry(turn.client).or_insert(turn);
        if turn.latency() > longest.latency() {
            *longest = turn;
        }
        if turn.latency() > self.most {
            self.most = turn.latency();
            self.until_kept = Some(KEPT / 2);
        }
        match self.until_kept {
            Some(0) => self.keep(),
            Some(left) => self.until_kept = Some(left - 1),
            None => {}
        }
    }

    fn keep(&mut self) {
        self.until_kept = None;
        self.around = self.ended.iter().copied().collect();
        self.around.sort_by_key(|turn| (turn.issued, turn.sector));
    }
}

/// The index of a client's time in [`Charges`].
#[must_use]
pub fn slot(client: u32) -> usize {
    usize::try_from(client).map_or(OTHERS, |client| client.min(OTHERS))
}

#[cfg(test)]
mod tests {
    use paternoster_core::ClientId;

    use super::*;
    use crate::made::{clients, event};

    fn found(events: &[Event]) -> FoundTurns {
        let mut turns = Turns::default();
        for event in events {
            turns.event(event);
        }
        turns.finish()
    }

    /// Is a request's time split into parts, by hand? It waits 10 for a request and then 10 in the
    /// scheduler, in which the other one has the device for 5; then 30 in the device.
    #[test]
    fn a_way_by_hand() {
        use Action::{Complete, Get, Insert, Issue, Queue};
        let [a, b] = clients();
        let found = found(&[
            event(0, Issue, a, 800),
            event(0, Queue, b, 8),
            event(10, Get, b, 8),
            event(10, Insert, b, 8),
            event(15, Complete, a, 800),
            event(20, Issue, b, 8),
            event(50, Complete, b, 8),
        ]);
        let turn = found.longest.iter().find(|turn| turn.client == b.index()).expect("it ended");
        let times = [turn.asked, turn.got, turn.inserted, turn.issued, turn.ended].map(|at| at.0);
        assert_eq!(times, [0, 10, 10, 20, 50]);
        assert_eq!((turn.charges[slot(a.index())], turn.charges[IDLE], turn.before), (5, 5, 0));
        assert_eq!(turn.charges.iter().sum::<u64>(), 10);
        assert_eq!(found.around.len(), 2);
    }

    /// Do the charges sum to the time though it does not divide? 10 ns, one command and two: 3 and
    /// 6, and the rest is the first one's.
    #[test]
    fn nothing_is_lost() {
        use Action::{Complete, Insert, Issue, Queue};
        let [a, b, c] = clients();
        let found = found(&[
            event(0, Issue, a, 800),
            event(0, Issue, b, 816),
            event(0, Issue, b, 832),
            event(0, Queue, c, 8),
            event(0, Insert, c, 8),
            event(10, Issue, c, 8),
            event(11, Complete, c, 8),
        ]);
        let turn = found.around.iter().find(|turn| turn.client == c.index()).expect("it ended");
        let of = |client: ClientId| turn.charges[slot(client.index())];
        assert_eq!((of(a), of(b), turn.charges[IDLE]), (4, 6, 0));
        assert_eq!(turn.before, 3);
    }

    /// Does a request follow the bio that was merged before it, keep its first submission, and end
    /// once?
    #[test]
    fn what_merges_is_one() {
        use Action::{BackMerge, Complete, FrontMerge, Insert, Issue, Queue};
        let [a] = clients();
        let found = found(&[
            event(1, Queue, a, 16),
            event(1, Insert, a, 16),
            event(2, Queue, a, 8),
            event(2, FrontMerge, a, 8),
            event(3, Queue, a, 24),
            event(3, BackMerge, a, 24),
            event(5, Issue, a, 8),
            event(9, Complete, a, 8),
        ]);
        assert_eq!(found.around.len(), 1);
        assert_eq!((found.around[0].asked, found.around[0].latency()), (Nanos(1), Nanos(8)));
    }

    /// Is what surrounds the longest one kept, and no more? The longest is number 3,000 of 5,000.
    #[test]
    fn the_longest_is_in_the_middle() {
        use Action::{Complete, Issue, Queue};
        let [a] = clients();
        let mut turns = Turns::default();
        for nth in 0..5_000_u64 {
            let at = nth * 100;
            let length = if nth == 3_000 { 90 } else { 10 };
            turns.event(&event(at, Queue, a, nth * 8));
            turns.event(&event(at, Issue, a, nth * 8));
            turns.event(&event(at + length, Complete, a, nth * 8));
        }
        let found = turns.finish();
        let numbers: Vec<u64> = found.around.iter().map(|turn| turn.sector / 8).collect();
        assert_eq!((numbers.len(), numbers[0]), (KEPT, 3_000 - 511));
        assert_eq!(found.longest.iter().map(|turn| turn.latency().0).collect::<Vec<_>>(), [90]);
    }

    /// Does a flush count from when the device gets it? Of three askers one is told at once, since
    /// the cache is clean; the other two share a command of 30, which counts once.
    #[test]
    fn a_flush_begins_in_the_device() {
        use Action::{Complete, Insert, Issue, Queue};
        let [a, b] = clients();
        let flush = |at, action, client| Event { op: Op::Flush, ..event(at, action, client, 0) };
        let found = found(&[
            flush(0, Queue, a),
            flush(0, Insert, a),
            flush(100, Queue, b),
            flush(100, Insert, b),
            flush(110, Queue, a),
            flush(110, Insert, a),
            flush(120, Issue, a),
            flush(150, Complete, a),
        ]);
        assert_eq!(found.longest.len(), 1);
        let Turn { client, asked, issued, ended, .. } = found.longest[0];
        assert_eq!((client, asked.0, issued.0, ended.0), (a.index(), 120, 120, 150));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workload mix: who is there, and what it means that others are.
//!
//! Every tenth of a second those are counted of whom a request ended or is here: streams, others,
//! and the groups that these are in. What was found out (see `learn.rs`) holds for the mix that it
//! was found out with:
//!
//! ```text
//! an eighth more or fewer       all is tried again soon, what was bad for longer the later
//! the first stream, or random   all is tried anew; a probe that is under way is given up
//! as it was before that         what was found out then is known again
//! ```
//!
//! # Invariants
//! I1  Everybody who has a request here is one of those who are present.
//!
//! Source: L5 of `docs/rules/adaptive.md` (when it is that probes are due again).

use alloc::vec::Vec;

use crate::client::Class;
use crate::elevators::adaptive::Paternoster;
use crate::elevators::adaptive::learn::Phase;
use crate::time::Nanos;

/// Who is there is counted so often; a change of it leads to a probe within this time.
pub(super) const COUNT_EVERY: Nanos = Nanos::from_millis(100);
/// One more or less of so many makes no difference.
const ALIKE_OF_SEEKS: u32 = 8;
const ALIKE: u32 = 2;
/// So long nothing is tried because of strangers.
const STRANGE_MOST: Nanos = Nanos::from_secs(2);

/// Those of whom something waited or was in the device at the last count, or later: a bit for each
/// client. To note somebody down touches no memory that is far away, and to go along all of them is
/// to go along the clients in their order.
#[derive(Debug, Default)]
pub(super) struct Present(Vec<u64>);

impl Present {
    /// Nobody, of so many clients.
    pub(super) fn new(clients: u32) -> Present {
        Present((0..clients.div_ceil(64)).map(|_| 0).collect())
    }

    pub(super) fn add(&mut self, client: u32) {
        self.0[client as usize / 64] |= 1 << (client % 64);
    }

    pub(super) fn remove(&mut self, client: u32) {
        self.0[client as usize / 64] &= !(1 << (client % 64));
    }

    pub(super) fn contains(&self, client: u32) -> bool {
        self.0[client as usize / 64] >> (client % 64) & 1 == 1
    }

    /// The first of them from this number on.
    fn from(&self, client: u32) -> Option<u32> {
        let mut base = client & !63;
        let mut ignored = (1 << (client % 64)) - 1;
        for &word in self.0.get(client as usize / 64..)? {
            let rest = word & !ignored;
            if rest != 0 {
                return Some(base + rest.trailing_zeros());
            }
            (base, ignored) = (base + 64, 0);
        }
        None
    }
}

/// Who has been active of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WorkloadMix {
    pub(super) streams: u32,
    pub(super) others: u32,
    /// Groups that the others are in.
    pub(super) sweep_groups: u32,
    /// Those of them all who are of the idle class, and have no turns.
    pub(super) idle: u32,
    /// Some have asked too seldom to be known for what they are.
    pub(super) strange: bool,
    /// Some of the streams are shared streams, whose members have a seat one after the other.
    pub(super) together: bool,
}

impl WorkloadMix {
    /// What would take turns: each stream, and each sweep group.
    pub(super) const fn parties(self) -> u32 {
        self.parties_of(false)
    }

    /// The same, where perhaps each of the others is one.
    pub(super) const fn parties_of(self, everyone: bool) -> u32 {
        self.streams + if everyone { self.others } else { self.sweep_groups }
    }

    /// How many kinds there are.
    pub(super) const KINDS: usize = 4;

    /// Streams or none, random requests or none: each is another question.
    pub(super) const fn kind(self) -> usize {
        (self.streams > 0) as usize * 2 + (self.others > 0) as usize
    }

    /// More or fewer who would take turns, by more than an eighth; without seeks, twice as many:
    /// turns have never paid then, and who comes would pay for finding that out again.
    pub(super) const fn is_another(self, other: WorkloadMix, seeks: bool) -> bool {
        let (one, two) = (self.parties(), other.parties());
        let most = if one > two { one } else { two };
        let times = if seeks { ALIKE_OF_SEEKS } else { ALIKE };
        one.abs_diff(two) * times > most || self.together != other.together
    }
}

impl Paternoster {
    /// Counts who is there. Another mix is tried out soon. `seeks`: on a device that has them.
    pub(super) fn update_workload_mix(&mut self, now: Nanos, seeks: bool) {
        let mix = self.count_present(now);
        self.seats.parties = mix.parties_of(self.seats.everyone);
        self.seats.all_random = mix.streams == 0;
        let learn = &mut self.learn;
        learn.next_count = now + COUNT_EVERY;
        // Another mix, or other times: what is due is looked at again.
        learn.arms.quiet_until = Nanos::ZERO;
        // Without seeks a random client is one more, and no other question.
        let is_of_another_kind = seeks && mix.kind() != learn.mix.kind();
        if learn.phase != Phase::Rest {
            learn.is_stale |= is_of_another_kind;
            return;
        }
        if !learn.mix.strange {
            learn.known_by = now + STRANGE_MOST;
        }
        let was = core::mem::replace(&mut learn.mix, mix);
        if was.kind() != mix.kind() || was.parties() != mix.parties() {
            learn.usual = None;
        }
        let at = now + COUNT_EVERY;
        let is_known = is_of_another_kind && learn.arms.turn_to(mix, was, learn.accepted, at);
        if (is_of_another_kind || mix.is_another(learn.tried_with, seeks)) && !is_known {
            learn.tried_with = mix;
            learn.arms.try_all(now, at);
        }
    }

    /// Who is there. Who was not since the last time is not asked for again until he comes.
    fn count_present(&mut self, now: Nanos) -> WorkloadMix {
        let mut mix = WorkloadMix::default();
        let mut next = self.present.from(0);
        while let Some(number) = next {
            next = self.present.from(number + 1);
            let client = &mut self.clients[number as usize];
            let active = core::mem::take(&mut client.pattern.was_active);
            if active || self.accounts.is_busy(number) {
                // Those who share a seat are one.
                let counts = !client.is_together || self.shared_streams.comes_first(number, now);
                mix.together |= client.is_together;
                mix.strange |= !client.pattern.is_known();
                mix.idle += u32::from(self.accounts.at(number).class == Class::Idle as u8);
                let reads_on = client.reads_on();
                let sort = if reads_on { &mut mix.streams } else { &mut mix.others };
                *sort += u32::from(counts);
                if !reads_on {
                    let group = self.group_of(number);
                    mix.sweep_groups += u32::from(self.sweep_groups.comes_first(group, now));
                }
            } else {
                self.present.remove(number);
            }
        }
        mix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are all found who were added and not removed, in order, at the ends of words too?
    #[test]
    fn i1_who_is_present() {
        let mut present = Present::new(130);
        for client in [129, 64, 0, 63, 64, 100] {
            present.add(client);
        }
        present.remove(100);
        let next = |&client: &u32| present.from(client + 1);
        let all: Vec<u32> = core::iter::successors(present.from(0), next).collect();
        assert_eq!(all, [0, 63, 64, 129]);
        assert!(present.contains(63) && !present.contains(100));
        assert_eq!(Present::new(0).from(0), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workload mix: which clients are active, and what a change of them means.
//!
//! Every tenth of a second it counts the clients that had a request here or ended one: streams,
//! others, and the groups of the others. What was learned (see `learn.rs`) holds for the mix that
//! it was learned with:
//!
//! ```text
//! an eighth more or fewer       all is tried again soon, those with long gaps last
//! the first stream, or random   all is tried anew; a probe in progress is given up
//! the former mix comes back     what was learned with it applies again
//! ```
//!
//! # Invariants
//! I1  Each client that has a request here is one of those present.
//!
//! Source: L5 of `docs/rules/adaptive.md` (when probes are due again).

use alloc::vec::Vec;

use crate::adaptive::account::Accounts;
use crate::adaptive::clients::Clients;
use crate::adaptive::shared_stream::SharedStreams;
use crate::adaptive::sweep_group::SweepGroups;
use paternoster_core::Class;
use paternoster_core::time::Nanos;

/// One more or fewer of this many makes no difference: with seeks, and without.
const ALIKE_OF_SEEKS: u32 = 8;
const ALIKE: u32 = 2;
/// Clients of which something waited or was in the device at the last count, or since: a bit for
/// each. Adding a client touches no distant memory, and walking the bits walks the clients in the
/// order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Present(Vec<u64>);

impl Present {
    /// None present, of this many clients.
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

/// The clients that have been active lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WorkloadMix {
    pub(super) streams: u32,
    pub(super) others: u32,
    /// Groups that the others are in.
    pub(super) sweep_groups: u32,
    /// Clients among all of these that are of the idle class, and have no turns.
    pub(super) idle: u32,
    /// Some clients have sent too few requests for their kind to be known.
    pub(super) strange: bool,
    /// Some of the streams are shared streams, whose members use a seat one after the other.
    pub(super) together: bool,
}

impl WorkloadMix {
    /// The parties that would take turns: each stream, and each sweep group.
    pub(super) const fn parties(self) -> u32 {
        self.parties_of(false)
    }

    /// The same; with `everyone` each other client is a party, too.
    pub(super) const fn parties_of(self, everyone: bool) -> u32 {
        self.streams + if everyone { self.others } else { self.sweep_groups }
    }

    /// How many kinds of mix there are.
    pub(super) const KINDS: usize = 4;

    /// Streams or none, random requests or none: each combination is a separate question.
    pub(super) const fn kind(self) -> usize {
        (self.streams > 0) as usize * 2 + (self.others > 0) as usize
    }

    /// Whether the parties are more or fewer by over an eighth; without seeks, by over a half:
    /// turns have never paid off there, and a client that comes would pay for learning that again.
    pub(super) const fn is_another(self, other: WorkloadMix, seeks: bool) -> bool {
        let (one, two) = (self.parties(), other.parties());
        let most = if one > two { one } else { two };
        let times = if seeks { ALIKE_OF_SEEKS } else { ALIKE };
        one.abs_diff(two) * times > most || self.together != other.together
    }
}

/// The clients present, and what is asked of each.
#[derive(Debug)]
pub(super) struct Census<'a> {
    pub(super) present: &'a mut Present,
    pub(super) clients: &'a mut Clients,
    pub(super) accounts: &'a Accounts,
    pub(super) streams: &'a mut SharedStreams,
    pub(super) sweep_groups: &'a mut SweepGroups,
}

impl Census<'_> {
    /// Counts the clients present. One without a request since the last time is dropped until it
    /// returns.
    pub(super) fn count(&mut self, now: Nanos) -> WorkloadMix {
        let mut mix = WorkloadMix::default();
        let mut next = self.present.from(0);
        while let Some(number) = next {
            next = self.present.from(number + 1);
            let client = self.clients.at_mut(number);
            let active = core::mem::take(&mut client.pattern.was_active);
            if active || self.accounts.is_busy(number) {
                // Clients that share a seat count once.
                let counts = !client.is_together || self.streams.comes_first(number, now);
                mix.together |= client.is_together;
                mix.strange |= !client.pattern.is_known();
                mix.idle += u32::from(self.accounts.at(number).class == Class::Idle as u8);
                let reads_on = client.reads_on();
                let sort = if reads_on { &mut mix.streams } else { &mut mix.others };
                *sort += u32::from(counts);
                if !reads_on {
                    let group = self.accounts.group_of(number);
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

    /// Are all clients found that were added and not removed, in order, at the ends of words too?
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

    /// Does a stream count as one, and do two random clients of a group count as two and as one
    /// sweep group; and does each that did nothing since the last count no longer?
    #[test]
    fn i1_kinds_are_counted() {
        let mut accounts = Accounts::new(3, 1, 0);
        let mut clients = Clients::with_capacity(3, 0);
        let (mut present, mut streams) = (Present::new(3), SharedStreams::new(3));
        let mut sweep_groups = SweepGroups::new(1, 0);
        for client in 0..3 {
            accounts.open(client, 3, 100, 1);
            present.add(client);
            clients.at_mut(client).pattern.was_active = true;
        }
        clients.at_mut(0).pattern.is_stream = true;
        accounts.arrive(2, 0, Nanos::ZERO, 0);
        let mut count = |now| {
            let mut census = Census {
                present: &mut present,
                clients: &mut clients,
                accounts: &accounts,
                streams: &mut streams,
                sweep_groups: &mut sweep_groups,
            };
            let mix = census.count(now);
            (mix.streams, mix.others, mix.sweep_groups, mix.parties(), mix.strange)
        };
        assert_eq!(count(Nanos(1)), (1, 2, 1, 2, true));
        assert_eq!(count(Nanos(2)), (0, 1, 1, 1, true));
        assert!(present.contains(2) && !present.contains(0));
    }
}

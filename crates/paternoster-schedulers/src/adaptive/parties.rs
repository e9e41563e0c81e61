// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parties: what can hold a seat, and what each of them has waiting, in the device and coming.
//!
//! A stream holds a seat for itself or for its shared stream; the random clients of a group, its
//! sweep group, hold one together:
//!
//! ```text
//! holder            requests                 least              is finished
//! One(leader)       those of all members     of the members     none waits, flies or is expected
//! SweepGroup(group) the crowd's of a group   of the crowd       the same
//! ```
//!
//! Nothing is kept here: [`Parties`] looks at the parts that know.
//!
//! Source: S2 to S4 of `docs/rules/adaptive.md`.

use crate::adaptive::account::{Accounts, CROWD, STREAM};
use crate::adaptive::clients::{Clients, LOOKS_MOST};
use crate::adaptive::cooperate::Cooperation;
use crate::adaptive::sweep_group::SweepGroups;
use paternoster_core::time::Nanos;

/// The holder of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A client, for itself or for its shared stream.
    One(u32),
    /// The random clients of the group with this number.
    SweepGroup(u32),
}

impl Holder {
    /// The holder for a client whose requests wait as `kind`: the leader of a shared stream for all
    /// its members, or a sweep group.
    #[inline]
    pub(super) fn of(
        accounts: &Accounts,
        cooperation: &Cooperation,
        client: u32,
        kind: usize,
    ) -> Holder {
        if kind == STREAM {
            Holder::One(cooperation.leader_of(client))
        } else {
            Holder::SweepGroup(accounts.group_of(client))
        }
    }
}

/// Those that can hold a seat, at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parties<'a> {
    pub(super) accounts: &'a Accounts,
    pub(super) clients: &'a Clients,
    pub(super) cooperation: &'a Cooperation,
    pub(super) sweep_groups: &'a SweepGroups,
    pub(super) now: Nanos,
}

impl Parties<'_> {
    /// The holder of the seat that a client needs.
    pub(super) fn holder_of(&self, client: u32) -> Holder {
        let kind = self.clients.at(client).kind();
        Holder::of(self.accounts, self.cooperation, client, kind)
    }

    /// The client that has had least, of those of a holder that have something waiting.
    pub(super) fn least_of(&self, holder: Holder) -> Option<u32> {
        match holder {
            Holder::SweepGroup(group) => {
                let node = self.accounts.of_group(group);
                self.accounts.first_of_sweep_group(node, self.now)
            }
            Holder::One(leader) => self.cooperation.least_of(self.accounts, leader),
        }
    }

    /// How many requests a holder has in the device.
    pub(super) fn flying_of(&self, holder: Holder) -> u32 {
        match holder {
            Holder::SweepGroup(group) => self.sweep_groups.flying(group),
            Holder::One(leader) => {
                let members = self.cooperation.streams().members(leader);
                members.map(|client| self.accounts.at(client).flying).sum()
            }
        }
    }

    /// Nothing waits, nothing is in the device, and nothing is expected; or the holder is no longer
    /// a stream.
    pub(super) fn is_finished(&self, holder: Holder) -> bool {
        match holder {
            Holder::SweepGroup(group) => {
                self.sweep_groups.is_empty(group)
                    && self.sweep_groups.flying(group) == 0
                    && self.comes(holder).is_none()
            }
            Holder::One(leader) => {
                let idles = |client: u32| {
                    let node = self.accounts.at(client);
                    node.queued[STREAM] == 0 && node.flying == 0 && !self.is_coming(client)
                };
                let is_stream = self.clients.at(leader).kind() == STREAM;
                !is_stream || self.cooperation.streams().members(leader).all(idles)
            }
        }
    }

    /// Whether a client's next request is expected. One that sleeps for a request cannot come
    /// before one ends: to keep the device for it would be to wait for nothing.
    fn is_coming(&self, client: u32) -> bool {
        self.clients.at(client).pattern.is_expected(self.now) && !self.accounts.at(client).asks
    }

    /// Until when a holder's next request is expected, and the client: of a sweep group the last,
    /// of a shared stream the first that is.
    pub(super) fn comes(&self, holder: Holder) -> Option<(Nanos, u32)> {
        let window = |client: u32| (self.clients.at(client).pattern.window, client);
        match holder {
            Holder::SweepGroup(group) => {
                let all = self.clients.expected().take(LOOKS_MOST);
                let theirs = all.filter(|&client| {
                    self.accounts.group_of(client) == group
                        && self.clients.at(client).kind() == CROWD
                        && self.is_coming(client)
                });
                theirs.map(window).max()
            }
            Holder::One(leader) => {
                let members = self.cooperation.streams().members(leader);
                members.filter(|&client| self.is_coming(client)).map(window).min()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a holder's turn last while a member waits or is in the device; are the requests of a
    /// shared stream those of all members, and is its least the one that has had less?
    #[test]
    fn s4_a_holder_is_all_its_members() {
        let mut accounts = Accounts::new(3, 1, 0);
        let mut clients = Clients::with_capacity(3, 8);
        let mut cooperation = Cooperation::new(3, 1);
        let mut sweep_groups = SweepGroups::new(1, 8);
        for client in 0..3 {
            accounts.open(client, 3, 100, 1);
            clients.at_mut(client).is_stream = client < 2;
        }
        cooperation.unite(0, 1, |_| 0);
        for (client, kind, took) in [(0, STREAM, 100), (1, STREAM, 50), (2, CROWD, 10)] {
            accounts.arrive(client, kind, Nanos::ZERO, 0);
            accounts.arrive(client, kind, Nanos::ZERO, 0);
            accounts.dispatch(client, kind, took, Nanos::ZERO);
        }
        sweep_groups.count(0, 1);
        let of = |accounts: &Accounts, sweep_groups: &SweepGroups, client: u32| {
            let (clients, cooperation, now) = (&clients, &cooperation, Nanos::ZERO);
            let all = Parties { accounts, clients, cooperation, sweep_groups, now };
            let holder = all.holder_of(client);
            (holder, all.flying_of(holder), all.least_of(holder), all.is_finished(holder))
        };
        let stream = (Holder::One(1), 2, Some(1), false);
        assert_eq!([0, 1].map(|client| of(&accounts, &sweep_groups, client)), [stream; 2]);
        assert_eq!(of(&accounts, &sweep_groups, 2), (Holder::SweepGroup(0), 1, Some(2), false));
        for (client, kind, took) in [(0, STREAM, 100), (1, STREAM, 50), (2, CROWD, 10)] {
            accounts.end(client, took, took);
            accounts.leave(client, kind);
        }
        sweep_groups.count(0, -1);
        assert_eq!(of(&accounts, &sweep_groups, 0), (Holder::One(1), 0, None, true));
        assert_eq!(of(&accounts, &sweep_groups, 2), (Holder::SweepGroup(0), 0, None, true));
    }

    /// S4: does a holder that sleeps for a request not come, although it is expected?
    #[test]
    fn s4_one_that_sleeps_for_a_request_does_not_come() {
        let (mut accounts, mut clients) = (Accounts::new(2, 1, 0), Clients::with_capacity(2, 8));
        let (cooperation, sweep_groups) = (Cooperation::new(2, 1), SweepGroups::new(1, 8));
        let window = Nanos(10);
        for client in 0..2 {
            accounts.open(client, 2, 100, 1);
            clients.at_mut(client).is_stream = client == 0;
            let pattern = &mut clients.at_mut(client).pattern;
            (pattern.expected, pattern.window) = (1, window);
            clients.recount_expected(client);
        }
        for asks in [false, true] {
            for client in 0..2 {
                if asks {
                    accounts.ask(client);
                }
                let (accounts, clients) = (&accounts, &clients);
                let (cooperation, sweep_groups) = (&cooperation, &sweep_groups);
                let now = Nanos::ZERO;
                let all = Parties { accounts, clients, cooperation, sweep_groups, now };
                let holder = all.holder_of(client);
                assert_eq!(all.comes(holder), (!asks).then_some((window, client)));
                assert_eq!(all.is_finished(holder), asks);
            }
        }
    }
}

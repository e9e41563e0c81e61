// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds: as which kind a client's requests wait, and in which sweep.
//!
//! A client that reads sequentially, alone or with others, waits as a stream; where each client has
//! turns, all do. The others are the crowd, and where there are seats their requests are in their
//! group's sweep:
//!
//! ```text
//! reads on, or `everyone`    its requests wait as a stream
//! no, without seats                            as the crowd, by account alone
//! no, with seats                               as the crowd, and in the sweep of its group
//! ```
//!
//! # Invariants
//! I1  A client's account and its sweep agree with its kind.
//!
//! Source: S2 of `docs/rules/adaptive.md`.

use crate::adaptive::account::{Accounts, CROWD};
use crate::adaptive::clients::Clients;
use crate::adaptive::cooperate::Cooperation;
use crate::adaptive::seats::Seats;
use crate::adaptive::sweep_group::SweepGroups;

/// The parts that have to agree.
#[derive(Debug)]
pub(super) struct Kinds<'a> {
    pub(super) accounts: &'a mut Accounts,
    pub(super) clients: &'a mut Clients,
    pub(super) sweep_groups: &'a mut SweepGroups,
    pub(super) cooperation: &'a Cooperation,
    pub(super) seats: &'a Seats,
}

impl Kinds<'_> {
    /// A client may have changed its kind: its requests then wait as the new one.
    pub(super) fn sort(&mut self, client: u32) {
        let own = self.clients.at_mut(client);
        let from = own.kind();
        own.is_stream = own.reads_on() || self.seats.everyone;
        let to = own.kind();
        if from != to {
            self.accounts.change_kind(client, from, to);
            self.sort_into_sweep(client);
        }
    }

    /// A client's waiting requests leave its group's sweep, or join it, as their kind demands.
    pub(super) fn sort_into_sweep(&mut self, client: u32) {
        let own = self.clients.at(client);
        if own.lane.is_empty() {
            return;
        }
        let group = self.accounts.group_of(client);
        self.sweep_groups.leave_with_all(self.clients, group, client);
        if own.kind() == CROWD && self.seats.most.is_some() {
            self.sweep_groups.join_with_all(self.clients, group, client);
        }
    }

    /// Other clients are in this client's shared stream now.
    pub(super) fn sort_members(&mut self, client: u32) {
        let streams = self.cooperation.streams();
        for member in streams.members(client) {
            self.clients.at_mut(member).is_together = streams.is_in_one(member);
            self.sort(member);
        }
    }

    /// There is another setting: all clients may wait as another kind.
    pub(super) fn sort_all(&mut self) {
        for client in 0..self.accounts.clients() {
            self.sort(client);
            self.sort_into_sweep(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::account::STREAM;
    use crate::adaptive::seats::Setting;
    use paternoster_core::time::Nanos;

    /// Do requests wait as a stream once their client is in a shared stream, and again as the crowd
    /// when it is alone; and do those of all clients where each has turns?
    #[test]
    fn s2_the_account_follows_the_kind() {
        let mut accounts = Accounts::new(2, 1, 0);
        let mut clients = Clients::with_capacity(2, 4);
        let (mut sweep_groups, mut seats) = (SweepGroups::new(1, 4), Seats::default());
        let mut cooperation = Cooperation::new(2, 1);
        for client in 0..2 {
            accounts.open(client, 2, 100, 1);
            accounts.arrive(client, CROWD, Nanos::ZERO, 0);
        }
        let mut totals = |cooperation: &Cooperation, seats: &Seats, all: bool| {
            let (accounts, clients) = (&mut accounts, &mut clients);
            let mut kinds =
                Kinds { accounts, clients, sweep_groups: &mut sweep_groups, cooperation, seats };
            if all {
                kinds.sort_all();
            } else {
                kinds.sort_members(0);
            }
            let ([crowd, streams], _) = kinds.accounts.totals();
            (crowd, streams, kinds.clients.at(0).kind())
        };
        assert_eq!(totals(&cooperation, &seats, false), (2, 0, CROWD));
        cooperation.unite(0, 1, |_| 0);
        assert_eq!(totals(&cooperation, &seats, false), (0, 2, STREAM));
        cooperation.part(0);
        // The one that left; the other one has not been sorted yet.
        assert_eq!(totals(&cooperation, &seats, false), (1, 1, CROWD));
        seats.set(Setting::All);
        assert_eq!(totals(&cooperation, &seats, true), (0, 2, STREAM));
        seats.set(Setting::Streams(1));
        assert_eq!(totals(&cooperation, &seats, true), (1, 1, CROWD));
    }
}

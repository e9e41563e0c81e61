// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lap: of the parties that may have the next turn, the one that has waited longest (rule S7).
//!
//! Accounts alone say which party has had least, and where all have had nearly the same, chance
//! decides. A reader whose last turn was 6 ms longer than those of the others waits until all of
//! them have had their next turn, and some of them the one after that:
//!
//! ```text
//! by account    A B C D E F G H | B D A E C G H F | A …      F has the 6th turn, and the 16th
//! by lap        A B C D E F G H | A B C D E F G H | A …      F has the 6th turn, and the 14th
//! ```
//!
//! So accounts say how long turns are, and which party has none because it is far ahead: by more
//! than half of its turn. Among the others the longest wait decides. A party that is ahead has a
//! turn that is shorter by that: nothing is given away, and all that one can be ahead is bounded.
//!
//! ```text
//! turns of 100 ms     ahead by 6 ms      a turn of 94 ms, when all others have had theirs
//!                     ahead by 51 ms     no turn, until it is the least or within 50 ms of that
//! ```
//!
//! # Invariants
//! I1  No party gets a seat while another waits that has waited longer, is of its class and at most
//!     half of a turn ahead of the one that has had least (if at most [`LOOKS_MOST`] wait).
//! I2  A turn is shorter by what its holder was ahead when it began.
//!
//! Source: S7 of `docs/rules/adaptive.md`. A turn that is shorter for what the last one had too
//! much is known from deficit round robin (Shreedhar and Varghese, 1996).

use alloc::vec::Vec;
use core::cell::Cell;

use crate::adaptive::account::{Accounts, STREAM};
use crate::adaptive::parties::{Holder, Parties};

/// A party is passed over if it is ahead by more than its turn divided by this.
const AHEAD_PART: u64 = 2;
/// So many parties of each kind are looked at for a turn.
const LOOKS_MOST: u32 = 64;

/// When each party had its last turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Lap {
    /// For each account, of clients and of groups: the number of the turn.
    last: Vec<u64>,
}

/// The party that has the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    /// Its client that goes first.
    pub(super) client: u32,
    /// How far it is ahead, in ns of its own device time.
    pub(super) ahead: u64,
    last: u64,
}

impl Lap {
    /// For this many clients and groups.
    pub(super) fn new(accounts: u32) -> Lap {
        Lap { last: (0..accounts).map(|_| 0).collect() }
    }

    fn place(accounts: &Accounts, holder: Holder) -> usize {
        match holder {
            Holder::One(client) => client as usize,
            Holder::SweepGroup(group) => accounts.of_group(group) as usize,
        }
    }

    /// A turn has ended, the one with this number.
    pub(super) fn had(&mut self, accounts: &Accounts, holder: Holder, turn: u64) {
        if let Some(last) = self.last.get_mut(Lap::place(accounts, holder)) {
            *last = turn;
        }
    }

    fn last_of(&self, accounts: &Accounts, holder: Holder) -> u64 {
        self.last.get(Lap::place(accounts, holder)).copied().unwrap_or(0)
    }

    /// I1: of the parties that wait and of which none `has` a seat, the one that has waited
    /// longest. `least` is the client of one of them that has had least; `turn_of` says how long a
    /// client's turn is, in ns.
    pub(super) fn next(
        &self,
        parties: &Parties,
        least: u32,
        has: &dyn Fn(Holder) -> bool,
        turn_of: &dyn Fn(u32) -> u64,
    ) -> Next {
        let Parties { accounts, now, .. } = *parties;
        let of = |client: u32, holder: Holder| Next {
            client,
            ahead: accounts.ahead_of(client, least),
            last: self.last_of(accounts, holder),
        };
        let best = Cell::new(of(least, parties.holder_of(least)));
        let looks = Cell::new(0);
        // Looks at a party, and says whether to look at one more.
        let goes_on = |client: u32, holder: Holder| {
            let next = of(client, holder);
            let may_go = next.ahead <= turn_of(client) / AHEAD_PART
                && accounts.are_of_one_class(client, least);
            if may_go && next.last < best.get().last {
                best.set(next);
            }
            looks.set(looks.get() + 1);
            looks.get() < LOOKS_MOST
        };
        let _ = accounts.first(&[STREAM], now, &|client| {
            let holder = Holder::One(parties.cooperation.leader_of(client));
            has(holder) || goes_on(client, holder)
        });
        looks.set(0);
        let _ = accounts.first_of_sweep_groups(now, &|group| {
            let holder = Holder::SweepGroup(accounts.number_of(group));
            let first = parties.least_of(holder);
            has(holder) || first.is_none_or(|first| goes_on(first, holder))
        });
        best.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::clients::Clients;
    use crate::adaptive::cooperate::Cooperation;
    use crate::adaptive::sweep_group::SweepGroups;
    use paternoster_core::time::Nanos;

    /// S7: does the party go that has waited longest, unless it is ahead by more than half of its
    /// turn, or has a seat? Of three equal streams the first had its last turn 1st and has had 6 ms
    /// more than the one that has had least, the second had the 2nd turn and has had 51 ms more,
    /// the third had the 3rd. The first goes; if it has a turn already, the third, since 51 ms are
    /// more than half of a turn of 100; with turns of 102 ms the second.
    #[test]
    fn s7_the_longest_wait_goes_if_it_is_not_far_ahead() {
        let mut accounts = Accounts::new(3, 1, 0);
        let mut clients = Clients::with_capacity(3, 8);
        let (cooperation, sweep_groups) = (Cooperation::new(3, 1), SweepGroups::new(1, 8));
        let mut lap = Lap::new(4);
        for (client, had) in [(0, 6_000_000), (1, 51_000_000), (2, 0)] {
            accounts.open(client, 3, 100, 1);
            clients.at_mut(client).is_stream = true;
            accounts.arrive(client, STREAM, Nanos::ZERO, 0);
            accounts.charge_time(client, had);
            lap.had(&accounts, Holder::One(client), u64::from(client) + 1);
        }
        let parties = Parties {
            accounts: &accounts,
            clients: &clients,
            cooperation: &cooperation,
            sweep_groups: &sweep_groups,
            now: Nanos::ZERO,
        };
        let next = |seated: Option<u32>, turn: u64| {
            let has = |holder: Holder| seated.map(Holder::One) == Some(holder);
            let next = lap.next(&parties, 2, &has, &|_| turn);
            (next.client, next.ahead)
        };
        assert_eq!(next(None, 100_000_000), (0, 6_000_000));
        assert_eq!(next(Some(0), 100_000_000), (2, 0));
        assert_eq!(next(Some(0), 102_000_000), (1, 51_000_000));
    }
}

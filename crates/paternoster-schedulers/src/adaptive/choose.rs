// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choice: which client goes next, and for which a slot of the device is kept (rule R).
//!
//! The *candidate* is the waiting client that has had least. But a client that has had even less
//! may have nothing waiting because it is thinking: it is expected (see `access_pattern.rs`). A
//! slot is kept for it if that is worth while (see `credit.rs`). A device that takes one command at
//! a time has only that slot, and idles; on one that takes 32 it is one of 32, and costs nothing:
//!
//! ```text
//! depth 1    in the device 0, kept 1     0 + 1 + 1 > 1      wait for it
//! depth 32   in the device 4, kept 1     4 + 1 + 1 <= 32    the candidate goes
//! ```
//!
//! [`Choice`] looks at the parts and says what is right; what follows is done in `turn.rs`.
//!
//! # Invariants
//! I1  No client goes before a waiting client that has had less (G2), within seats and classes;
//!     except that a member of a shared stream may go for another member.
//!
//! Source: R1 to R5 of `docs/rules/adaptive.md`.

use crate::adaptive::account::{CROWD, STREAM};
use crate::adaptive::clients::{Client, LOOKS_MOST};
use crate::adaptive::credit::{Reserved, is_worth};
use crate::adaptive::parties::Parties;
use crate::adaptive::seats::Seats;
#[cfg(test)]
use crate::adaptive::watchdog::Sabotage;
use paternoster_core::time::Nanos;
use paternoster_core::{AUDITS, QueueView, RequestId};

/// All that a choice looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) view: &'a QueueView,
    pub(super) parties: Parties<'a>,
    pub(super) seats: &'a Seats,
    /// Accounts alone decide (see `watchdog.rs`).
    pub(super) is_plain: bool,
    /// A rule to break on purpose.
    #[cfg(test)]
    pub(super) sabotage: Sabotage,
}

impl Choice<'_> {
    /// The client that goes next, of those that may.
    #[inline(never)]
    pub(super) fn candidate(&self) -> Option<u32> {
        self.first_but(&|client| self.is_held_back(client))
    }

    /// The client that goes next, of those that have a seat or need none, except those that
    /// `waits`.
    fn first_but(&self, waits: &dyn Fn(u32) -> bool) -> Option<u32> {
        if self.seats.most.is_some() {
            return self.seats.first_seated(&self.parties, waits);
        }
        let Parties { accounts, now, .. } = self.parties;
        let first = accounts.first_of_all(now)?;
        if waits(first) { accounts.first(&[CROWD, STREAM], now, waits) } else { Some(first) }
    }

    /// The client that goes next, if it is held back.
    pub(super) fn first_held_back(&self) -> Option<u32> {
        self.first_but(&|_| false).filter(|&first| self.is_held_back(first))
    }

    /// Whether a client is held back by its shared stream.
    fn is_held_back(&self, client: u32) -> bool {
        let Parties { accounts, clients, cooperation, now, .. } = self.parties;
        if !clients.at(client).is_together || self.is_plain {
            return false;
        }
        #[cfg(test)]
        if self.sabotage == Sabotage::HoldsBack {
            return true;
        }
        let has_one_seat = self.seats.most == Some(1);
        cooperation.is_held_back(self.view, accounts, clients, client, has_one_seat, now)
    }

    /// The client that goes instead of the one whose turn it is, possibly itself, and its request:
    /// another member of its shared stream or sweep group. None if it is alone, or accounts alone
    /// decide.
    #[inline(never)]
    pub(super) fn goes_instead(&self, least: u32) -> Option<(u32, RequestId)> {
        if self.is_plain {
            return None;
        }
        let Parties { accounts, clients, cooperation, sweep_groups, now } = self.parties;
        let own = clients.at(least);
        let member =
            own.is_together.then(|| cooperation.next_of(self.view, accounts, clients, least, now));
        member.flatten().or_else(|| {
            self.seats.most?;
            let quantum = self.seats.quantum();
            sweep_groups.goes_instead(self.view, accounts, clients, least, quantum, now)
        })
    }

    /// Whether a client may go at all, as far as seats are concerned.
    #[inline(always)]
    pub(super) fn is_admitted(&self, client: u32) -> bool {
        // A copy, so that all of it can stay in registers where there are no seats.
        self.seats.admits(|| {
            let parties = self.parties;
            parties.holder_of(client)
        })
    }

    /// Whether two are of one shared stream, or of one sweep group, whose members do not wait for
    /// each other; `own` is `one`.
    #[inline(always)]
    fn are_of_one_party(&self, own: &Client, one: u32, other: u32) -> bool {
        let Parties { accounts, clients, cooperation, .. } = self.parties;
        if one == other || own.is_together && cooperation.streams().share_one(one, other) {
            return true;
        }
        let crowd = || own.kind() == CROWD && clients.at(other).kind() == CROWD;
        let parent = |client: u32| accounts.at(client).parent;
        self.seats.most.is_some() && crowd() && parent(one) == parent(other)
    }

    /// R2: the slots that are kept for others, when a request of `client` that costs `price` could
    /// go; and whether a client is still listed as expected that is not.
    #[inline(always)]
    pub(super) fn what_is_kept(&self, client: u32, price: u64, credit: bool) -> (Reserved, bool) {
        let Parties { clients, now, .. } = self.parties;
        let mut kept = Reserved { slots: 0, until: Nanos::MAX, bargain: true };
        let (mut next, mut looks) = (clients.first_expected(), LOOKS_MOST);
        let mut has_expired = false;
        while let Some(other) = next
            && looks > 0
        {
            looks -= 1;
            next = clients.next_expected(other);
            let own = clients.at(other);
            // Requests of it are expected (clients I1), until its window is over.
            if own.pattern.window <= now {
                has_expired = true;
            } else if own.owed_soon() > 0
                && let Some(bargain) = is_worth(&own.pattern, price, credit)
                && self.would_go_before(own, other, client)
            {
                kept.slots = kept.slots.saturating_add(own.pattern.expected);
                kept.until = kept.until.min(own.pattern.window);
                kept.bargain &= bargain;
            }
        }
        (kept, has_expired)
    }

    /// Whether one that is expected, `own`, would go before another. Clients of one shared stream,
    /// and those of one sweep group, go in sector order. (A call, so that the seats are not looked
    /// at before one is needed.)
    #[inline(never)]
    fn would_go_before(&self, own: &Client, one: u32, other: u32) -> bool {
        !self.are_of_one_party(own, one, other)
            && self.parties.accounts.goes_before(one, other, self.parties.now)
            && self.is_admitted(one)
    }

    /// The earliest time until which a client is expected whose request could go then, and which:
    /// a holder of a seat, or without seats a member of a shared stream.
    pub(super) fn comes(&self) -> Option<(Nanos, u32)> {
        if self.seats.most.is_none() {
            self.parties.clients.hindmost_come(self.parties.now)
        } else {
            self.seats.holders_come(&self.parties)
        }
    }

    /// G2, checked at each choice: of all clients that wait and may go, none has had less than
    /// `client`, which goes. A client held back by its shared stream is not passed over; for a
    /// shared stream its least member counts, whichever member goes.
    #[inline]
    pub(super) fn audit(&self, client: u32, request: RequestId) {
        let Parties { accounts, clients, now, .. } = self.parties;
        // O(n) for each request: with many clients a sixteenth of the requests is enough.
        let looks = clients.all().len() <= 64 || request.index().is_multiple_of(16);
        if !AUDITS || !looks {
            return;
        }
        #[cfg(test)]
        if self.sabotage != Sabotage::None {
            return;
        }
        for (other, _) in (0u32..).zip(clients.all()) {
            let waits = accounts.at(other).waiting() > 0 && self.is_admitted(other);
            if waits && accounts.goes_before(other, client, now) {
                let excused = clients.at(client).is_interactive() || self.is_held_back(other);
                assert!(excused, "choose G2: {other} had had less than {client} at {}", now.0);
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debt: who has taken the device with a flush comes again when the others have had their part.
//!
//! A flush is no request of its owner, and on its way past the elevator it takes as much of the
//! device as hundreds of requests. An elevator says how much device time the others are to have
//! for it ([`Elevator::charge`](crate::Elevator::charge)): with shares f and 1 - f it is
//! `cost * (1 - f) / f`. Until then the owner's requests stand at the *door*, in front of the
//! elevator and of the flush sequencer (but for flushes without data):
//!
//! ```text
//! a writer with fsync and a reader, weights 100 and 100; a flush costs 3.4 ms
//!
//! device   |write| flush 3.4 |r|r|r|r|r| ... 3.4 ms of reads |write| flush 3.4 |r|r| ...
//! writer    ends       ^fsync returns, next write at the door  ^goes in
//! ```
//!
//! Time is counted by a clock of device time that has passed, the owner's own taken out. Who is
//! let in goes to the head of its elevator, since it has waited its turn here, and its requests
//! that came so are charged like the flush.
//!
//! Beside a client that has nothing to do with flushes (a *bystander*: it reads, and nothing of
//! what it wrote is in the cache) only the time of those who own no flush passes on that clock, or
//! two owners would repay their debts with each other's flushes and leave the reader nothing. What
//! the reader has is repaid to all owners at the same time, so that of three it has a third. (bfq
//! asks for the other owners' parts, too: under it their time passes.)
//!
//! ```text
//! two writers with fsync and a reader    |w|w| flush of both 3.4 |r|r| ... 1.7 ms |w|w| flush |
//! ```
//!
//! Nobody is kept out who owes no more than some flushes like the last (`flush_ahead`, 4): those
//! who call fsync beside each other would else be let in one by one, and share no flush. When
//! nobody is there but those who owe, the least debt is forgiven to all of them.
//!
//! Commands cannot be interrupted, so the others have a little more than their part before the
//! owner is in the device again. So much less it owes the next time, up to [`MOST_CREDIT`], if it
//! has owed before.
//!
//! Nobody waits here for others that do not come. If nothing is to do but what stands at the
//! door, it is opened to the one who owes least, at once, or, when somebody who owes nothing had
//! an I/O a moment ago and has none now, after [`PATIENCE`].
//!
//! # Invariants
//! I1  A client stands in the tree exactly while it has requests at the door.
//! I2  The device is idle while somebody stands at the door only for [`PATIENCE`] at a time
//!     (`Waiting::Debt`).
//! I3  One charge is at most what the elevator calls a slot, and nobody waits until the others have
//!     had more than [`MOST_DUE`], however much was charged; nor longer than they use the device.
//!
//! Source: plan of the house, section 5.

use crate::client::ClientId;
use crate::elevator::Position;
use crate::event::Observer;
use crate::list::List;
use crate::queue::RequestQueue;
use crate::request::{Op, RequestId, Stage};
use crate::time::Nanos;
use crate::tree::{Nodes, Root};

/// So long the device waits, while somebody stands at the door, for one who was just served.
const PATIENCE: Nanos = Nanos::from_millis(2);
/// The most that a client gets back for having been let in late.
const MOST_CREDIT: Nanos = Nanos::from_millis(1);
/// The most that the others are to have for one charge.
const MOST_DUE: Nanos = Nanos::from_secs(5);

/// Where a client stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Debt {
    /// It owes nothing from this reading of the clock on.
    until: Nanos,
    /// Its requests at the door.
    at_door: List,
}

/// What the clock said when something began to be accounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    before: Nanos,
    /// It has gone on by what was served.
    passes: bool,
}

impl Reading {
    /// What is to be taken out of the time that has passed.
    const fn own(self, cost: Nanos) -> Nanos {
        if self.passes { cost } else { Nanos::ZERO }
    }
}

/// The door.
#[derive(Debug)]
pub(crate) struct Door {
    /// Somebody has owed something since the debts were last forgiven.
    is_used: bool,
    /// Device time that has passed.
    clock: Nanos,
    /// So much may be owed.
    ahead: Nanos,
    /// Clients with requests at the door, who owes least first.
    waiting: Root,
    nodes: Nodes<u64>,
    /// Who owes nothing and was served last; and when.
    last_other: Option<(ClientId, Nanos)>,
    /// The client that read last of those that own no flush; and when.
    bystander: Option<(ClientId, Nanos)>,
}

impl Door {
    pub(crate) fn with_capacity(clients: u32) -> Door {
        Door {
            is_used: false,
            clock: Nanos::ZERO,
            ahead: Nanos::ZERO,
            waiting: Root::new(),
            nodes: Nodes::with_capacity(clients),
            last_other: None,
            bystander: None,
        }
    }

    /// Whether somebody may owe something.
    pub(crate) const fn is_used(&self) -> bool {
        self.is_used
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl<O: Observer> RequestQueue<O> {
    fn owes(&self, client: u32) -> bool {
        self.scene.clients.at(client).debt.until > self.door.clock + self.door.ahead
    }

    /// A flush has ended that took so long: so many of them may be owed.
    pub(crate) fn allow_ahead(&mut self, flush: Nanos) {
        self.door.ahead = Nanos(flush.0.saturating_mul(self.flush.policy.ahead));
    }

    /// Device time passes, of owners of flushes or not; what was read before and whether the clock
    /// has gone on, for [`RequestQueue::account`].
    pub(crate) fn begin_account(&mut self, served: Nanos, of_owners: bool) -> Reading {
        let before = self.door.clock;
        let apart = of_owners && !self.elevator.charges_for_owners();
        let passes = !(apart && self.bystander().is_some());
        if passes {
            self.door.clock += served;
        }
        Reading { before, passes }
    }

    /// Of the device time since a reading so much was `client`'s, beside its turns: the others are
    /// to have theirs.
    pub(crate) fn account(&mut self, client: u32, reading: Reading, cost: Nanos) {
        let owned = self.owners_pay() && self.scene.clients.is_live(client);
        if !owned || cost == Nanos::ZERO {
            return;
        }
        let id = ClientId(self.scene.clients.key_at(client));
        let last = self.door.last_other.map(|(other, _)| other);
        let other = [self.bystander(), last].into_iter().flatten().find(|other| *other != id);
        let due = self.elevator.charge(&mut self.scene, id, cost, other).min(MOST_DUE);
        if due > Nanos::ZERO {
            self.owe(client, reading.before, reading.own(cost) + due);
        } else {
            self.take_out(client, reading, cost);
        }
    }

    /// The time of one who owes does not count as the others'.
    fn take_out(&mut self, client: u32, reading: Reading, cost: Nanos) {
        if self.scene.clients.at(client).debt.until > reading.before && reading.passes {
            self.owe(client, reading.before, cost);
        }
    }

    /// The bystander, if it has something here, or had a moment ago.
    fn bystander(&self) -> Option<ClientId> {
        let (id, at) = self.door.bystander?;
        let client = self.scene.clients.get(id.0)?;
        (client.bios > 0 || self.scene.exact < at + PATIENCE).then_some(id)
    }

    fn owe(&mut self, client: u32, before: Nanos, more: Nanos) {
        self.door.is_used = true;
        let debt = &mut self.scene.clients.at_mut(client).debt;
        let credit = if debt.until == Nanos::ZERO { Nanos::ZERO } else { MOST_CREDIT.min(before) };
        // Who goes past the door (flushes without data do) may owe more and more: not for ever.
        let most = self.door.clock + self.door.ahead + MOST_DUE;
        debt.until = (debt.until.max(before - credit) + more).min(most);
        let key = debt.until.0;
        if self.door.nodes.contains(client) {
            self.door.waiting.rekey(&mut self.door.nodes, client, key);
        }
        if self.door.last_other.is_some_and(|(other, _)| other.index() == client) {
            self.door.last_other = None;
        }
    }

    /// A command of `client` has ended that took `served`.
    #[inline(never)]
    pub(crate) fn pass_device_time(
        &mut self,
        client: ClientId,
        served: Nanos,
        let_in: bool,
        op: Op,
    ) {
        let index = client.index();
        let repaid = self.scene.clients.at(index).debt.until <= self.door.clock;
        let of_owner = !repaid || self.is_owner(client);
        let reading = self.begin_account(served, of_owner);
        if let_in {
            self.account(index, reading, served);
        } else {
            self.take_out(index, reading, served);
        }
        if !self.owes(index) {
            self.door.last_other = Some((client, self.scene.exact));
        }
        if op == Op::Read && !of_owner {
            self.door.bystander = Some((client, self.scene.exact));
        }
    }

    /// Whether a request has to stand at the door; if so it does.
    #[inline(never)]
    pub(crate) fn keep_at_door(&mut self, id: RequestId) -> bool {
        let index = self.scene.requests[id].client().index();
        if !self.owes(index) {
            return false;
        }
        self.scene.requests[id].stage = Stage::Owing;
        let debt = &mut self.scene.clients.at_mut(index).debt;
        debt.at_door.push_back(&mut self.links, id.0);
        if !self.door.nodes.contains(index) {
            self.door.waiting.insert(&mut self.door.nodes, index, debt.until.0);
        }
        true
    }

    /// Lets in who owes nothing any more; if there is nobody but those who owe, also who owes
    /// hardly more than the one who owes least.
    #[inline(never)]
    pub(crate) fn open_door(&mut self) {
        let alone = self.tags.is_empty() && self.elevator.waiting() == 0;
        if alone && self.dispatch.is_empty() && self.door_opens() <= self.scene.exact {
            self.forgive_least();
        }
        while let Some(client) = self.door.waiting.first() {
            if self.owes(client) {
                return;
            }
            self.let_in(client);
        }
    }

    /// All requests of a client go in; before all others, if the elevator can do that.
    fn let_in(&mut self, client: u32) {
        self.door.waiting.remove(&mut self.door.nodes, client);
        let first = self.elevator.lets_in_first();
        let position = if first { Position::Head } else { Position::Sorted };
        loop {
            let at_door = &mut self.scene.clients.at_mut(client).debt.at_door;
            // Each goes to the head, so that the last must go first.
            let Some(index) = (if first { at_door.last() } else { at_door.first() }) else {
                return;
            };
            at_door.remove(&mut self.links, index);
            let id = RequestId(index);
            if self.scene.requests[id].steps.is_sequenced() {
                self.begin_sequence(id);
                continue;
            }
            self.scene.requests[id].let_in = first;
            self.insert_at(id, position);
        }
    }

    /// The debt of the one at the door who owes least is forgiven, and as much of everybody's.
    fn forgive_least(&mut self) {
        if let Some(first) = self.door.waiting.first() {
            self.door.clock = self.door.clock.max(self.scene.clients.at(first).debt.until);
        }
    }

    /// When the door opens to those who owe, if nobody else comes; zero if nobody was served lately
    /// who may come. Who has bios here does not: he waits for them.
    fn door_opens(&self) -> Nanos {
        let thinks = |id: ClientId| self.scene.clients.get(id.0).is_some_and(|c| c.bios == 0);
        let others = [self.door.last_other, self.door.bystander];
        let comes = others.into_iter().flatten().filter(|(other, _)| thinks(*other));
        comes.map(|(_, at)| at + PATIENCE).max().unwrap_or(Nanos::ZERO)
    }

    /// When the queue has to look at the door again.
    pub(crate) fn door_deadline(&self) -> Nanos {
        if self.door.is_empty() || !self.tags.is_empty() {
            return Nanos::MAX;
        }
        let opens = self.door_opens();
        if opens > self.scene.exact { opens } else { Nanos::MAX }
    }

    /// Takes a request away from the door, because its bio is withdrawn.
    pub(crate) fn leave_door(&mut self, id: RequestId) {
        let client = self.scene.requests[id].client().index();
        let debt = &mut self.scene.clients.at_mut(client).debt;
        debt.at_door.remove(&mut self.links, id.0);
        if debt.at_door.is_empty() {
            self.door.waiting.remove(&mut self.door.nodes, client);
        }
    }

    /// Everybody's debts are forgiven, and all go in.
    pub(crate) fn forgive_debts(&mut self) {
        while let Some(client) = self.door.waiting.first() {
            self.let_in(client);
        }
        for index in 0..self.scene.limits.clients {
            if self.scene.clients.is_live(index) {
                self.scene.clients.at_mut(index).debt.until = Nanos::ZERO;
            }
        }
        self.door.is_used = false;
        (self.door.last_other, self.door.bystander) = (None, None);
    }

    /// Verifies I1.
    pub(crate) fn audit_door(&self) -> Result<(), alloc::string::String> {
        for (key, client) in self.scene.clients.iter() {
            client.debt.at_door.check(&self.links)?;
            let stands = self.door.nodes.contains(key.index());
            if stands == client.debt.at_door.is_empty() {
                return Err(alloc::format!(
                    "debt I1: client {} at the door: {stands}",
                    key.index()
                ));
            }
            if stands && self.door.nodes.key(key.index()) != Some(client.debt.until.0) {
                return Err(alloc::format!("debt I1: client {} owes otherwise", key.index()));
            }
        }
        Ok(())
    }
}

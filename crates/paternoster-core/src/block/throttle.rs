// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throttle: a client that has used the device for a flush is served again when the others have had
//! their part.
//!
//! A flush is no request of its owner, and on its way past the elevator it takes as much of the
//! device as hundreds of requests. The elevator says how much device time the others must get in
//! return ([`Elevator::charge`]): with shares f and 1 - f it is `cost * (1 - f) / f`. Until then
//! the owner's requests are *throttled*: they wait in front of the elevator and of the flush
//! sequencer (except for flushes without data):
//!
//! ```text
//! a writer with fsync and a reader, weights 100 and 100; a flush costs 3.4 ms
//!
//! device   |write| flush 3.4 |r|r|r|r|r| ... 3.4 ms of reads |write| flush 3.4 |r|r| ...
//! writer    ends       ^fsync returns, next write throttled    ^released
//! ```
//!
//! A clock counts the device time that has passed, without the owner's own. Released requests go to
//! the head of the elevator, since they have waited their turn here, and are charged like the
//! flush.
//!
//! While a client is present that has nothing to do with flushes (a *bystander*: it reads, and
//! nothing that it wrote is in the cache), only the time of clients that own no flush passes on
//! that clock, or two owners would repay their debts with each other's flushes and leave the reader
//! nothing. The reader's time is repaid to all owners at once, so that of three clients it gets a
//! third. (bfq counts the other owners' parts, too: with it their time passes.)
//!
//! ```text
//! two writers with fsync and a reader    |w|w| flush of both 3.4 |r|r| ... 1.7 ms |w|w| flush |
//! ```
//!
//! A client that owes at most some flushes like the last one (`flush_ahead`, 4) is not throttled:
//! otherwise clients that call fsync at the same time would be released one by one, and share no
//! flush. When only clients that owe are present, all of them are forgiven as much as the least
//! debt.
//!
//! A flush that drains what others wrote, too, may take seconds, and its owners are many: there an
//! elevator may charge each at once, in its own order, and then none is throttled for it
//! ([`Elevator::charge_at_once`], `flush/writers.rs`).
//!
//! Commands cannot be interrupted, so the others get a little more than their part before the owner
//! is in the device again. It owes that much less the next time, up to [`MOST_CREDIT`], if it has
//! owed before.
//!
//! Nothing waits here for clients that do not come. If only throttled requests are left to do, the
//! client that owes least is released: at once or, when a client that owes nothing had an I/O a
//! moment ago and has none now, after [`PATIENCE`].
//!
//! The throttle keeps what clients owe and which of their requests wait; the queue decides what a
//! released request does next (`queue/ends.rs`).
//!
//! # Invariants
//! I1  A client is in the tree exactly while it has throttled requests.
//! I2  The device is idle while a request is throttled only for [`PATIENCE`] at a time
//!     (`Waiting::Throttled`).
//! I3  A charge is for at most one slot as the elevator defines it, and no client waits until the
//!     others have had more than [`MOST_DUE`], however much was charged; nor longer than they use
//!     the device.
//!
//! Source: own design; no kernel does it.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::block::chosen::Chosen;
use crate::block::common::Common;
use crate::client::{ClientId, POOLS, Sleep};
use crate::list::{Links, List};
use crate::op::Op;
use crate::queue_view::QueueView;
use crate::request::{RequestId, Stage};
use crate::time::Nanos;
use crate::tree::{Nodes, Root};

/// While requests are throttled, the device waits this long for a client that was just served.
const PATIENCE: Nanos = Nanos::from_millis(2);
/// The most that a client is credited for a late release.
const MOST_CREDIT: Nanos = Nanos::from_millis(1);
/// The most that the others are owed for one charge.
const MOST_DUE: Nanos = Nanos::from_secs(5);

/// The debt of a client.
#[derive(Debug, Clone, Copy, Default)]
struct Debt {
    /// It owes nothing from this reading of the clock on.
    until: Nanos,
    /// Its throttled requests.
    held: List,
}

/// The clock before some device time was accounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    before: Nanos,
    /// The clock has advanced by the time served.
    passes: bool,
    /// The time was that of a flush that drained data of clients, too, that call for none.
    is_mixed: bool,
}

impl Reading {
    /// The time was that of a flush of other clients' data, too, or not.
    pub(crate) const fn mixed(self, is_mixed: bool) -> Reading {
        Reading { is_mixed, ..self }
    }

    /// The client's own part of the time that has passed.
    const fn own(self, cost: Nanos) -> Nanos {
        if self.passes { cost } else { Nanos::ZERO }
    }
}

/// A command that has ended, as far as the throttle needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) client: ClientId,
    pub(crate) time: Nanos,
    /// It was released from here to the head of the elevator, which has not charged it.
    pub(crate) released: bool,
    pub(crate) op: Op,
    /// Its client has data in the device's cache.
    pub(crate) of_writer: bool,
}

/// The throttle.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Some client has owed something since the debts were last forgiven.
    is_used: bool,
    /// Device time that has passed.
    clock: Nanos,
    /// This much may be owed.
    ahead: Nanos,
    /// By client.
    debts: Vec<Debt>,
    /// Clients with throttled requests, the one that owes least first.
    waiting: Root,
    nodes: Nodes<u64>,
    /// The last client served that owes nothing; and when.
    last_other: Option<(ClientId, Nanos)>,
    /// The last client to read of those that own no flush; and when.
    bystander: Option<(ClientId, Nanos)>,
}

impl Throttle {
    pub(crate) fn with_capacity(clients: u32) -> Throttle {
        Throttle {
            is_used: false,
            clock: Nanos::ZERO,
            ahead: Nanos::ZERO,
            debts: vec![Debt::default(); clients as usize],
            waiting: Root::new(),
            nodes: Nodes::with_capacity(clients),
            last_other: None,
            bystander: None,
        }
    }

    /// A client arrives, in the slot of one that has gone: it owes nothing.
    pub(crate) fn attach(&mut self, client: u32) {
        *self.debt(client) = Debt::default();
    }

    /// Whether any client may owe something.
    pub(crate) const fn is_used(&self) -> bool {
        self.is_used
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn debt(&mut self, client: u32) -> &mut Debt {
        &mut self.debts[client as usize]
    }

    fn until(&self, client: u32) -> Nanos {
        self.debts[client as usize].until
    }

    /// Whether the client's requests have to wait.
    pub(crate) fn holds(&self, client: u32) -> bool {
        self.until(client) > self.clock + self.ahead
    }

    /// A flush took this long: `ahead` of them may be owed.
    pub(crate) fn allow_ahead(&mut self, flush: Nanos, ahead: u64) {
        self.ahead = Nanos(flush.0.saturating_mul(ahead));
    }

    /// Device time passes, of clients with data in the cache or not. Returns the former clock and
    /// whether it has advanced, for [`Throttle::account`].
    pub(crate) fn begin(
        &mut self,
        view: &QueueView,
        elevator: &Chosen,
        served: Nanos,
        of_writers: bool,
    ) -> Reading {
        let before = self.clock;
        let apart = of_writers && !elevator.traits().charges_for_owners;
        let passes = !(apart && self.present_bystander(view).is_some());
        if passes {
            self.clock += served;
        }
        Reading { before, passes, is_mixed: false }
    }

    /// `client` used `cost` of the device time since a reading, outside its turns: the others are
    /// owed theirs.
    pub(crate) fn account(
        &mut self,
        view: &mut QueueView,
        elevator: &mut Chosen,
        client: u32,
        reading: Reading,
        cost: Nanos,
    ) {
        if cost == Nanos::ZERO || !view.clients.is_live(client) {
            return;
        }
        let id = ClientId(view.clients.key_at(client));
        if reading.is_mixed && elevator.charge_at_once(view, id, cost) {
            self.take_out(client, reading, cost);
            return;
        }
        let last = self.last_other.map(|(other, _)| other);
        let others = [self.present_bystander(view), last];
        let other = others.into_iter().flatten().find(|other| *other != id);
        let due = elevator.charge(view, id, cost, other).min(MOST_DUE);
        if due > Nanos::ZERO {
            self.owe(client, reading.before, reading.own(cost) + due);
        } else {
            self.take_out(client, reading, cost);
        }
    }

    /// Time of a client that owes does not count as the others'.
    fn take_out(&mut self, client: u32, reading: Reading, cost: Nanos) {
        if self.until(client) > reading.before && reading.passes {
            self.owe(client, reading.before, cost);
        }
    }

    /// The bystander, if it has a bio here, sleeps for a request, or was served a moment ago.
    fn present_bystander(&self, view: &QueueView) -> Option<ClientId> {
        let (id, at) = self.bystander?;
        let client = view.clients.get(id.0)?;
        let is_here = client.bios > 0 || client.sleep != [Sleep::Awake; POOLS];
        (is_here || view.exact < at + PATIENCE).then_some(id)
    }

    fn owe(&mut self, client: u32, before: Nanos, more: Nanos) {
        self.is_used = true;
        // A client whose requests bypass the throttle (flushes without data) may owe more and more:
        // this limits it.
        let most = self.clock + self.ahead + MOST_DUE;
        let debt = self.debt(client);
        let credit = if debt.until == Nanos::ZERO { Nanos::ZERO } else { MOST_CREDIT.min(before) };
        debt.until = (debt.until.max(before - credit) + more).min(most);
        let key = debt.until.0;
        if self.nodes.contains(client) {
            self.waiting.rekey(&mut self.nodes, client, key);
        }
        if self.last_other.is_some_and(|(other, _)| other.index() == client) {
            self.last_other = None;
        }
    }

    /// A command other than a flush has ended.
    #[inline(never)]
    pub(crate) fn command_ended(
        &mut self,
        view: &mut QueueView,
        elevator: &mut Chosen,
        served: Served,
    ) {
        let Served { client, time, released, op, of_writer } = served;
        let index = client.index();
        let of_owner = self.until(index) > self.clock || of_writer;
        if of_owner && self.bystander.is_some_and(|(other, _)| other == client) {
            // It has written since: as its own bystander it would stop its clock, and repay no
            // debt.
            self.bystander = None;
        }
        let reading = self.begin(view, elevator, time, of_owner);
        if released {
            self.account(view, elevator, index, reading, time);
        } else {
            self.take_out(index, reading, time);
        }
        if !self.holds(index) {
            self.last_other = Some((client, view.exact));
        }
        if op == Op::Read && !of_owner {
            self.bystander = Some((client, view.exact));
        }
    }

    /// Whether a request has to wait because of its client's debt; if so it is held.
    #[inline(never)]
    pub(crate) fn stops<O>(&mut self, common: &mut Common<O>, id: RequestId) -> bool {
        let client = common.view.requests[id].client().index();
        let holds = self.holds(client);
        if holds {
            common.view.requests[id].stage = Stage::Throttled;
            self.hold(&mut common.links, client, id.0);
        }
        holds
    }

    /// A request of `client` waits here.
    fn hold(&mut self, links: &mut Links, client: u32, request: u32) {
        let debt = self.debt(client);
        debt.held.push_back(links, request);
        let key = debt.until.0;
        if !self.nodes.contains(client) {
            self.waiting.insert(&mut self.nodes, client, key);
        }
    }

    /// The first waiting client, if its requests may go now.
    pub(crate) fn released(&self) -> Option<u32> {
        self.waiting.first().filter(|&client| !self.holds(client))
    }

    /// The first waiting client, whatever it owes.
    pub(crate) fn first(&self) -> Option<u32> {
        self.waiting.first()
    }

    /// The client no longer waits. Its requests are taken one by one.
    pub(crate) fn release(&mut self, client: u32) {
        self.waiting.remove(&mut self.nodes, client);
    }

    /// The last or the first request of a released client.
    pub(crate) fn take(&mut self, links: &mut Links, client: u32, last: bool) -> Option<u32> {
        let held = &mut self.debt(client).held;
        let request = if last { held.last() } else { held.first() }?;
        held.remove(links, request);
        Some(request)
    }

    /// Forgives the debt of the waiting client that owes least, and as much to every other.
    pub(crate) fn forgive_least(&mut self) {
        if let Some(first) = self.waiting.first() {
            self.clock = self.clock.max(self.until(first));
        }
    }

    /// When clients that owe are released, if no other comes; zero if no client served lately may
    /// come. One that has bios here may not: it waits for them.
    pub(crate) fn opens(&self, view: &QueueView) -> Nanos {
        let thinks = |id: ClientId| view.clients.get(id.0).is_some_and(|c| c.bios == 0);
        let others = [self.last_other, self.bystander];
        let comes = others.into_iter().flatten().filter(|(other, _)| thinks(*other));
        comes.map(|(_, at)| at + PATIENCE).max().unwrap_or(Nanos::ZERO)
    }

    /// When the queue must check the throttle again, while the device is idle.
    pub(crate) fn deadline(&self, view: &QueueView) -> Nanos {
        let opens = if self.is_empty() { Nanos::ZERO } else { self.opens(view) };
        if opens > view.exact { opens } else { Nanos::MAX }
    }

    /// Removes a request whose bio is withdrawn.
    pub(crate) fn cancel(&mut self, links: &mut Links, client: u32, request: u32) {
        let held = &mut self.debt(client).held;
        held.remove(links, request);
        if held.is_empty() {
            self.waiting.remove(&mut self.nodes, client);
        }
    }

    /// Forgives all debts; all that waited were released before.
    pub(crate) fn forgive_all(&mut self) {
        debug_assert!(self.is_empty(), "throttle: requests wait for debts that are forgiven");
        for debt in &mut self.debts {
            debt.until = Nanos::ZERO;
        }
        self.is_used = false;
        (self.last_other, self.bystander) = (None, None);
    }

    /// Verifies I1.
    pub(crate) fn audit(&self, links: &Links) -> Result<(), String> {
        for (client, debt) in (0..).zip(&self.debts) {
            debt.held.check(links)?;
            let stands = self.nodes.contains(client);
            if stands == debt.held.is_empty() {
                return Err(format!("throttle I1: client {client} waits: {stands}"));
            }
            if stands && self.nodes.key(client) != Some(debt.until.0) {
                return Err(format!("throttle I1: client {client} owes otherwise"));
            }
        }
        Ok(())
    }
}

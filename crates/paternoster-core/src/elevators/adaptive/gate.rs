// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gate: a client that is ahead waits, while a sibling that is owed has all that it asks for in the
//! device (rule L6).
//!
//! Accounts decide which of the clients that *wait* goes next. A deep device takes everybody's
//! requests at once: nobody waits, and no order matters. Of what the device does each client then
//! has the part that its requests are of all that are inside (Little's law), whatever it weighs:
//!
//! ```text
//! weights 1 1 1 1 2 2 4 4, 32 requests each, all 256 inside      parts 1/8, 1/8 ... 1/8
//! the heaviest is owed 4/16: its 32 have to be a quarter of D    D = 32 * 16 / 4 = 128
//! gate: a client that is ahead of it waits, until that is so     parts 1/16 ... 2/16 ... 4/16
//! ```
//!
//! D need not be known. A client is *owed* if nothing of it waits, it asks again as soon as
//! something of it ends, and its virtual time is the least of such siblings. One that stands more
//! than [`SLACK`] requests above it is *ahead*, and waits; so commands become fewer just as long as
//! the accounts drift apart. What holds between siblings holds at each level of groups, and within
//! a class: classes have an order of their own.
//!
//! Where there is room for more nobody is owed anything: a client with one request at a time has a
//! 30th of an NVMe drive because it asks for no more. What tells is how long requests take,
//! compared with the least that such requests ever took:
//!
//! ```text
//! D      16   32   64   96  128  192     commands inside, of random reads on `nvme-pm9a3`
//! X(D)   21   39   64   80   89   99     % of the throughput
//! wait  106  115  139  167  200  270     % of the least: about D / X(D)
//! ```
//!
//! Below `weights_from` percent nobody is owed. That is where on the curve between exact shares
//! (100) and throughput one wants to be: the device is emptied to what `weights_from` says, and no
//! further.
//!
//! Classes are no matter of accounts: a client of the idle class waits while siblings of a better
//! class have anything in the device, but for one request in 200 ms.
//!
//! # Invariants
//! I1  No client is held while the device is empty, while there are seats, while a probe tries
//!     another setting, or in fallback. The other epochs of a probe, with the accepted setting, are
//!     half of all time where probes follow each other: the gate works in them too.
//! I2  None is held for a client of which something waits, or that is neither inside nor
//!     expected; nor for longer after its last dispatch than [`PATIENCE`] times as long as its
//!     requests take.
//! I3  A client that is owed is of the group and class for which it is remembered, or does not
//!     count.
//! I4  O(1) a call, and a step for each level of groups; no allocation.
//!
//! Source: measured on the models, see `docs/elevator.md`; Little's law.

use alloc::vec::Vec;

use crate::elevators::adaptive::Paternoster;
use crate::elevators::adaptive::account::{Accounts, CLASSES};
use crate::elevators::adaptive::learn::Phase;
use crate::elevators::adaptive::throughput_gain::SORTS;
use crate::queue_view::QueueView;
use crate::slab::NIL;
use crate::time::Nanos;

/// A client that is ahead by no more than so many of the dearest requests of late is not ahead:
/// equal ones are apart by fewer by chance.
const SLACK: i64 = 8;
/// I2: a request that is stuck in the device does not hold anybody up for long.
const PATIENCE: u64 = 4;

/// One that is owed, and until when it counts unless it sends something.
#[derive(Debug, Clone, Copy)]
struct Owed {
    node: u32,
    until: Nanos,
}

const NOBODY: Owed = Owed { node: NIL, until: Nanos::ZERO };

/// What is owed, by group and class; and how long requests take at least.
#[derive(Debug)]
pub(super) struct Gate {
    /// Of each group, by its number: one that was owed when it was last seen, by class.
    owed: Vec<[Owed; CLASSES]>,
    /// The least that a request of a sort was in the device, in ns; 0: none was.
    least: [u64; SORTS],
    /// From then on nothing is owed, unless something is sent until then.
    until: Nanos,
    /// How often a client was held.
    pub(super) holds: u64,
}

impl Gate {
    /// Nobody is owed, in so many groups.
    pub(super) fn new(groups: u32) -> Gate {
        let owed = (0..groups).map(|_| [NOBODY; CLASSES]).collect();
        Gate { owed, least: [0; SORTS], until: Nanos::ZERO, holds: 0 }
    }

    /// A request of this sort was in the device for so long. Returns the least that one was.
    #[inline(always)]
    pub(super) const fn ended(&mut self, sort: u8, latency: u64) -> u64 {
        let least = &mut self.least[sort as usize];
        if *least == 0 || latency < *least {
            *least = latency;
        }
        *least
    }

    /// Whether one that was remembered for a group and class is still owed (I2, I3).
    #[inline]
    fn is_owed(accounts: &Accounts, owed: Owed, group: u32, class: u8, now: Nanos) -> bool {
        if owed.node == NIL || owed.until <= now {
            return false;
        }
        let node = accounts.at(owed.node);
        let inside = node.flying > 0 || node.expected > now;
        (node.parent, node.class) == (group, class) && node.waiting() == 0 && inside
    }

    /// A client has sent a request, and nothing of it waits: `asks_until` says until when it would
    /// have more, `None` that it has all it asks for. The same goes for the groups that it is in,
    /// as far up as nothing of theirs waits.
    #[inline(never)]
    fn note(&mut self, accounts: &Accounts, client: u32, asks_until: Option<Nanos>, now: Nanos) {
        let (mut at, mut asks_until) = (client, asks_until);
        loop {
            let node = accounts.at(at);
            if node.parent == NIL || node.waiting() > 0 {
                return;
            }
            if at != client {
                asks_until = asks_until.or_else(|| self.owed_in(accounts, at, now));
            }
            let place = accounts.number_of(node.parent) as usize;
            let slot = &mut self.owed[place][usize::from(node.class)];
            let stands_lower = |other: Owed| node.vt < accounts.at(other.node).vt;
            match asks_until {
                None if slot.node == at => *slot = NOBODY,
                None => {}
                Some(until) => {
                    let other = slot.node != at
                        && Gate::is_owed(accounts, *slot, node.parent, node.class, now);
                    if !other || stands_lower(*slot) {
                        *slot = Owed { node: at, until };
                        self.until = self.until.max(until);
                    }
                }
            }
            at = node.parent;
        }
    }

    /// Until when a group has more because one of its members has: what one client does not ask
    /// for another of its group may.
    #[inline(never)]
    fn owed_in(&self, accounts: &Accounts, group: u32, now: Nanos) -> Option<Nanos> {
        let slots = self.owed[accounts.number_of(group) as usize];
        let owed = |class: u8, slot| Gate::is_owed(accounts, slot, group, class, now);
        let members = (0..).zip(slots).filter(|&(class, slot)| owed(class, slot));
        members.map(|(_, slot)| slot.until).max()
    }

    /// Until when a client is held at most that is ahead of one that is owed, itself or a group
    /// that it is in.
    #[inline(always)]
    fn held_until(&self, accounts: &Accounts, client: u32, now: Nanos) -> Option<Nanos> {
        // As it is on most devices, all the time.
        if self.until <= now {
            return None;
        }
        let mut at = client;
        loop {
            let node = accounts.at(at);
            if node.parent == NIL {
                return None;
            }
            let place = accounts.number_of(node.parent) as usize;
            let slot = self.owed[place][usize::from(node.class)];
            if slot.node != at && Gate::is_owed(accounts, slot, node.parent, node.class, now) {
                let slack = SLACK.saturating_mul(accounts.group(node.parent).dearest);
                if accounts.at(slot.node).vt.saturating_add(slack) < node.vt {
                    return Some(slot.until);
                }
            }
            at = node.parent;
        }
    }
}

impl Paternoster {
    /// A request of a client has gone to the device, and has been charged.
    #[inline(always)]
    pub(super) fn note_owed(&mut self, client: u32, now: Nanos) {
        if self.accounts.at(client).waiting() > 0 {
            return;
        }
        let pattern = &self.clients[client as usize].pattern;
        let asks = pattern.is_greedy() && pattern.is_crowded(self.tunables.weights_from);
        let until = asks.then(|| now + Nanos(PATIENCE * pattern.latency));
        self.gate.note(&self.accounts, client, until, now);
    }

    /// Until when one of the idle class waits for what better ones have in the device.
    #[inline(always)]
    pub(super) fn yields_inside(&self, client: u32, now: Nanos) -> Option<Nanos> {
        self.accounts.yields_until(client, now).filter(|_| !self.watchdog.has_fallen())
    }

    /// Until when it is not `client`'s turn, since it is ahead of one that is owed (I1).
    #[inline(always)]
    pub(super) fn held_by_gate(&self, view: &QueueView, client: u32, now: Nanos) -> Option<Nanos> {
        let until = self.gate.held_until(&self.accounts, client, now)?;
        let is_open = view.in_device().requests == 0
            || self.seats.most.is_some()
            || self.learn.phase == Phase::Changed
            || self.watchdog.has_fallen();
        (!is_open).then_some(until)
    }
}

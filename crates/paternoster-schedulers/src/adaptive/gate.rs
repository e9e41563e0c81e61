// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gate: a client that is ahead waits, while a sibling that is owed has all its requests in the
//! device (rule L6).
//!
//! Accounts decide which of the *waiting* clients goes next. A deep device takes all clients'
//! requests at once: no client waits, and no order matters. Each client then gets the part of the
//! device's work that its requests are of all inside (Little's law), whatever its weight:
//!
//! ```text
//! weights 1 1 1 1 2 2 4 4, 32 requests each, all 256 inside      parts 1/8, 1/8 ... 1/8
//! the heaviest is owed 4/16: its 32 have to be a quarter of D    D = 32 * 16 / 4 = 128
//! gate: a client that is ahead of it waits, until that is so     parts 1/16 ... 2/16 ... 4/16
//! ```
//!
//! D need not be known. A client is *owed* if nothing of it waits, it asks again as soon as one of
//! its requests ends, and its virtual time is the least of such siblings. A client more than
//! [`SLACK`] requests above it is *ahead*, and waits; so there are fewer commands inside just as
//! long as the accounts drift apart. This holds between siblings at each level of groups, and
//! within a class: classes have their own order.
//!
//! While the device has room for more, no client is owed anything: a client with one request at a
//! time gets a 30th of an NVMe drive because it asks for no more. The sign is how long requests
//! take, compared with the least time that such requests ever took (or larger reads, if nothing
//! rotates: a client that comes to a full device learns no other):
//!
//! ```text
//! D      16   32   64   96  128  192     commands inside, of random reads on `nvme-pm9a3`
//! X(D)   21   39   64   80   89   99     % of the throughput
//! wait  106  115  139  167  200  270     % of the least: about D / X(D)
//! ```
//!
//! Below `weights_from` percent no client is owed. That sets the point on the curve between exact
//! shares (100) and throughput: the device is emptied to what `weights_from` says, and no further.
//!
//! A client that asks for *one request at a time* has nothing in the device between an answer and
//! its next request, and is owed all the same, until its window closes (see `access_pattern.rs`):
//!
//! ```text
//! weights 1 2 3 4, one request each       all four inside: a quarter each
//! the heaviest is owed 4/10: D* = 2.5     two or three inside, and the lightest waits most
//! ```
//!
//! Classes do not depend on accounts: a client of best effort waits for any owed sibling of the
//! real-time class, and one of the idle class while siblings of a better class have anything in the
//! device or are expected, except for one request in 200 ms.
//!
//! # Invariants
//! I1  While the device is empty a client is held only for one that is expected, and thinks for at
//!     most a quarter of its requests' least time (if the device rotates, or of the device time
//!     that they take), until its window closes. While there are seats one is held only for one of
//!     the real-time class, and none while a probe tries another setting, or in fallback. The other
//!     epochs of a probe, with the accepted setting, are half of all time where probes follow each
//!     other: the gate works in them too.
//! I2  No client is held for one that has something waiting, or that is neither inside nor
//!     expected, or that sleeps for a request outside; nor for longer after that one's last
//!     dispatch than [`PATIENCE`] times as long as its requests take.
//! I3  An owed client is of the group and class for which it is remembered, or does not count.
//! I4  O(1) a call, and a step for each level of groups; no allocation.
//!
//! Source: measured on the models, see `docs/elevator.md`; Little's law.

use alloc::vec::Vec;

use crate::adaptive::access_pattern::{AccessPattern, blend};
use crate::adaptive::account::{Accounts, CLASSES, Node};
use crate::adaptive::least_time::LeastTimes;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, Request};

/// A client that is ahead by at most this many of the most expensive recent requests is not ahead:
/// equal clients drift apart by fewer by chance.
const SLACK: i64 = 8;
/// The least of `weights_from`: requests take no longer than they ever did.
const WEIGHTS_LEAST: u64 = 100;
/// I2: a request that is stuck in the device does not hold up others for long.
const PATIENCE: u64 = 4;

/// Of these two classes the second waits for what is owed to the first (G10).
pub(super) const REAL_TIME: u8 = Class::Realtime as u8;
pub(super) const BEST_EFFORT: u8 = Class::BestEffort as u8;

/// An owed client or group, and until when it counts unless it sends something.
#[derive(Debug, Clone, Copy)]
struct Owed {
    node: u32,
    until: Nanos,
}

/// A client would take more until then; and it does not let the device wait for it.
#[derive(Debug, Clone, Copy)]
struct Asks {
    until: Nanos,
    is_prompt: bool,
}

const NOBODY: Owed = Owed { node: NIL, until: Nanos::ZERO };

/// What is owed, by group and class; and the least time that requests take.
#[derive(Debug)]
pub(super) struct Gate {
    /// For each group, by its number and by class: the node that was owed when last checked.
    owed: Vec<[Owed; CLASSES]>,
    /// The least times that requests were in the device.
    least: LeastTimes,
    /// The mean of these least times over recent requests of all clients, in ns.
    usual: u64,
    /// From then on nothing is owed, unless something is sent until then.
    until: Nanos,
    /// How often a client was held.
    pub(super) holds: u64,
}

impl Gate {
    /// A gate for this many groups, in which nothing is owed, on a device that rotates or not.
    pub(super) fn new(groups: u32, rotates: bool) -> Gate {
        let owed = (0..groups).map(|_| [NOBODY; CLASSES]).collect();
        Gate { owed, least: LeastTimes::new(rotates), usual: 0, until: Nanos::ZERO, holds: 0 }
    }

    /// A request of this sort was in the device for `latency`. Returns the least time for such.
    #[inline(always)]
    pub(super) fn ended(&mut self, sort: u8, ended: &Request, latency: u64) -> u64 {
        let least = self.least.ended(sort, ended, latency);
        self.usual = blend(self.usual, least, 5);
        least
    }

    /// Whether a node that was remembered for a group and class is still owed (I2, I3).
    #[inline]
    fn is_owed(accounts: &Accounts, owed: Owed, group: u32, class: u8, now: Nanos) -> bool {
        if owed.node == NIL || owed.until <= now {
            return false;
        }
        let node = accounts.at(owed.node);
        // One that sleeps for a request does not ask within its window: who is held has them all.
        let inside = node.flying > 0 || node.expected > now && !node.asks;
        (node.parent, node.class) == (group, class) && node.waiting() == 0 && inside
    }

    /// A client has sent a request, and nothing of it waits. `asks`: that it would take more;
    /// `None`: it has all it asks for. The same goes for the groups above it, up to the first
    /// that has something waiting. Returns whether one of them was owed and is not any more.
    #[inline(never)]
    fn note(
        &mut self,
        accounts: &mut Accounts,
        client: u32,
        asks: Option<Asks>,
        now: Nanos,
    ) -> bool {
        let (mut at, mut asks_until) = (client, asks.map(|asks| asks.until));
        let mut was_owed = false;
        let is_prompt = asks.is_some_and(|asks| asks.is_prompt);
        loop {
            let node = accounts.at(at);
            if node.parent == NIL || node.waiting() > 0 {
                return was_owed;
            }
            if at != client {
                asks_until = asks_until.or_else(|| self.owed_in(accounts, at, now));
            }
            let Node { parent, class, vt, .. } = *node;
            accounts.set_asks_at_once(at, is_prompt);
            let place = accounts.number_of(parent) as usize;
            let slot = &mut self.owed[place][usize::from(class)];
            let stands_lower = |other: Owed| vt < accounts.at(other.node).vt;
            match asks_until {
                None if slot.node == at => (*slot, was_owed) = (NOBODY, true),
                None => {}
                Some(until) => {
                    let other =
                        slot.node != at && Gate::is_owed(accounts, *slot, parent, class, now);
                    if !other || stands_lower(*slot) {
                        *slot = Owed { node: at, until };
                        self.until = self.until.max(until);
                    }
                }
            }
            at = parent;
        }
    }

    /// Until when a group would take more because one of its members would: what one client does
    /// not ask for, another of its group may.
    #[inline(never)]
    fn owed_in(&self, accounts: &Accounts, group: u32, now: Nanos) -> Option<Nanos> {
        let slots = self.owed[accounts.number_of(group) as usize];
        let owed = |class: u8, slot| Gate::is_owed(accounts, slot, group, class, now);
        let members = (0..).zip(slots).filter(|&(class, slot)| owed(class, slot));
        members.map(|(_, slot)| slot.until).max()
    }

    /// Until when a node is held for a sibling that is owed in this class: of its own, if it is
    /// ahead of it; of a better one in any case (G10). With an empty device only for one that asks
    /// at once.
    #[inline(always)]
    fn held_for(
        accounts: &Accounts,
        (at, node): (u32, &Node),
        (slot, class): (Owed, u8),
        now: Nanos,
        is_empty: bool,
    ) -> Option<Nanos> {
        if slot.node == at || !Gate::is_owed(accounts, slot, node.parent, class, now) {
            return None;
        }
        let owed = accounts.at(slot.node);
        let slack = accounts.group(node.parent).slack(SLACK, owed.weight, now);
        let is_ahead = class < node.class || owed.vt.saturating_add(slack) < node.vt;
        if !is_ahead || is_empty && !owed.asks_at_once {
            return None;
        }
        let is_inside = owed.flying > 0;
        Some(if is_inside { slot.until } else { slot.until.min(owed.expected) })
    }

    /// Until when a client is held at most because it, or a group above it, is beside an owed
    /// sibling of the real-time class, or (without seats) ahead of one that is owed.
    #[inline(always)]
    fn held_until(
        &self,
        accounts: &Accounts,
        client: u32,
        now: Nanos,
        (is_empty, has_seats): (bool, bool),
    ) -> Option<Nanos> {
        // The usual case on most devices.
        if self.until <= now {
            return None;
        }
        let mut at = client;
        loop {
            let node = accounts.at(at);
            if node.parent == NIL {
                return None;
            }
            let slots = &self.owed[accounts.number_of(node.parent) as usize];
            let held = |class: u8| {
                let slot = slots[usize::from(class)];
                Gate::held_for(accounts, (at, node), (slot, class), now, is_empty)
            };
            // The idle class yields to all others in any case, until it is due.
            let better = if node.class == BEST_EFFORT { held(REAL_TIME) } else { None };
            let until = if has_seats { better } else { better.or_else(|| held(node.class)) };
            if until.is_some() {
                return until;
            }
            at = node.parent;
        }
    }

    /// The last waiting request of a client of this access pattern has gone to the device, and has
    /// been charged. `weights_from`: in percent of their least time, what requests of an owed
    /// client take; and whether the device rotates. Returns whether it was owed, and is not any
    /// more only since its requests take so little now (see `ramp.rs`).
    #[inline(always)]
    pub(super) fn note_owed(
        &mut self,
        accounts: &mut Accounts,
        client: u32,
        pattern: &AccessPattern,
        (weights_from, rotates): (u64, bool),
        now: Nanos,
    ) -> bool {
        // Exact parts at any price: also of one that sends small requests among much larger ones.
        let usual = if weights_from <= WEIGHTS_LEAST { 0 } else { self.usual };
        let (mut from, is_prompt) = (weights_from, pattern.is_prompt(usual, rotates));
        if is_prompt && accounts.at(client).flying == 1 {
            // Half of the excess: no other request of its own makes up for one that takes longer.
            from -= (from - WEIGHTS_LEAST) / 2;
        }
        let is_greedy = pattern.is_greedy();
        let asks = is_greedy && pattern.is_crowded(from);
        let asks = asks.then(|| Asks { until: now + Nanos(PATIENCE * pattern.latency), is_prompt });
        self.note(accounts, client, asks, now) && is_greedy
    }

    /// Until when `client` is held because it is ahead of one that is owed, unless the gate is open
    /// for all (I1). `state`: whether the device is empty, and whether there are seats.
    #[inline(always)]
    pub(super) fn held_by_gate(
        &self,
        accounts: &Accounts,
        client: u32,
        now: Nanos,
        state: (bool, bool),
        is_open: impl FnOnce() -> bool,
    ) -> Option<Nanos> {
        let until = self.held_until(accounts, client, now, state)?;
        (!is_open()).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_millis(1000);
    const UNTIL: Nanos = Nanos::from_millis(1001);

    /// Two clients of the root; the first has `inside` requests of 1 us in the device and none
    /// waiting, the second has had `more` of them, and one waits.
    fn two(inside: u32, more: u32) -> Accounts {
        let mut accounts = Accounts::new(2, 1, 0);
        for client in 0..2 {
            accounts.open(client, 2, 100, 1);
        }
        for (client, requests) in [(0, inside), (1, inside + more)] {
            for _ in 0..requests {
                accounts.arrive(client, 0, NOW, 0);
                accounts.dispatch(client, 0, 1000, NOW);
            }
        }
        for _ in 0..inside + more {
            accounts.end(1, 1000, 1000);
        }
        accounts.arrive(1, 0, NOW, 0);
        accounts
    }

    /// L6: is a client held that is more than eight requests ahead of one that is owed, and only
    /// while that one has something in the device and time is left (I2)?
    #[test]
    fn l6_who_is_ahead_is_held() {
        let asks = |is_prompt| Some(Asks { until: UNTIL, is_prompt });
        let mut gate = Gate::new(1, false);
        for (inside, more, held) in [(1, 9, Some(UNTIL)), (1, 8, None), (0, 9, None)] {
            let mut accounts = two(inside, more);
            gate.note(&mut accounts, 0, asks(false), NOW);
            assert_eq!(
                gate.held_until(&accounts, 1, NOW, (false, false)),
                held,
                "{inside} and {more}"
            );
            assert_eq!(gate.held_until(&accounts, 1, UNTIL, (false, false)), None);
            assert_eq!(gate.held_until(&accounts, 1, NOW, (false, true)), None, "beside seats");
        }
        let mut accounts = two(1, 9);
        assert_eq!(gate.held_by_gate(&accounts, 1, NOW, (false, false), || false), Some(UNTIL));
        assert_eq!(gate.held_by_gate(&accounts, 1, NOW, (false, false), || true), None);
        // It has all it asks for.
        gate.note(&mut accounts, 0, None, NOW);
        assert_eq!(gate.held_until(&accounts, 1, NOW, (false, false)), None);
    }

    /// L6: is a client held for one that has nothing in the device, until that one's window closes,
    /// if it asks at once, even if the device is empty; and not if it thinks for longer (I1)?
    #[test]
    fn l6_one_that_asks_at_once_is_owed_between_its_requests() {
        let closes = NOW + Nanos::from_micros(20);
        for (is_prompt, is_empty, held) in [
            (true, true, Some(closes)),
            (true, false, Some(closes)),
            (false, false, Some(closes)),
            (false, true, None),
        ] {
            let (mut gate, mut accounts) = (Gate::new(1, false), two(1, 9));
            gate.note(&mut accounts, 0, Some(Asks { until: UNTIL, is_prompt }), NOW);
            accounts.end(0, 1000, 1000);
            accounts.expect(0, closes);
            let held_at = |now| gate.held_until(&accounts, 1, now, (is_empty, false));
            assert_eq!((held_at(NOW), held_at(closes)), (held, None), "{is_prompt} {is_empty}");
        }
    }

    /// L6, G10: is a client of best effort held for one of the real-time class, however much that
    /// one has had; and neither the other way, nor one of the idle class, which waits in any case?
    #[test]
    fn l6_an_owed_better_class_holds_best_effort() {
        let asks = Some(Asks { until: UNTIL, is_prompt: false });
        for (classes, held) in [
            ([REAL_TIME, BEST_EFFORT], Some(UNTIL)),
            ([BEST_EFFORT, REAL_TIME], None),
            ([REAL_TIME, Class::Idle as u8], None),
            ([BEST_EFFORT, Class::Idle as u8], None),
        ] {
            let (mut gate, mut accounts) = (Gate::new(1, false), two(1, 0));
            for (client, class) in (0..).zip(classes) {
                accounts.change(client, 2, 100, class);
            }
            accounts.charge_time(0, 1_000_000);
            gate.note(&mut accounts, 0, asks, NOW);
            assert_eq!(gate.held_until(&accounts, 1, NOW, (false, false)), held, "{classes:?}");
            assert_eq!(gate.held_until(&accounts, 1, NOW, (false, true)), held, "{classes:?}");
        }
    }

    /// L6: is a heavy client owed though a light one's requests cost so much for their weight that
    /// eight of them are more than it may be owed? One request of 20 ms, of weight 1, is 1,280 ms
    /// in 1/64 ms; one of weight 1000 may be owed 320 ms, which are 20 of these, and what is in the
    /// way is half of that and of the request: 650.
    #[test]
    fn l6_a_heavy_client_is_owed_beside_a_light_one() {
        for (ahead, held) in [(9, None), (11, Some(UNTIL))] {
            let mut accounts = Accounts::new(2, 1, 0);
            for (client, weight) in [(0, 1000), (1, 1)] {
                accounts.open(client, 2, weight, 1);
                accounts.arrive(client, 0, NOW, 0);
                accounts.dispatch(client, 0, 0, NOW);
            }
            accounts.end(1, 0, 20_000_000);
            accounts.charge_time(1, -20_000_000 + ahead * 1_000_000);
            accounts.arrive(1, 0, NOW, 0);
            let mut gate = Gate::new(1, false);
            let asks = Some(Asks { until: UNTIL, is_prompt: false });
            gate.note(&mut accounts, 0, asks, NOW);
            assert_eq!(gate.held_until(&accounts, 1, NOW, (false, false)), held, "{ahead} ms");
        }
    }
}

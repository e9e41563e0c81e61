// SPDX-License-Identifier: MIT OR Apache-2.0
//! One account: what a client or group was charged, and its requests that wait or are in the
//! device.
//!
//! # Invariant
//! `rest` is the remainder of the divisions by the weight, and less than the weight: nothing that
//! was charged is lost to rounding (I4 of the accounts).

use super::{CROWD, IDLE_WAITS_MOST, STREAM};
use paternoster_core::Class;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::tree::Root;

/// Virtual time of one nanosecond at weight 1. It lets a client of weight 1 that has the device to
/// itself for four years stay within 64 bits.
pub(in super::super) const UNIT: i64 = 64;

/// How many classes there are.
pub(in super::super) const CLASSES: usize = 3;

/// The order of nodes: by class, the better first, and then by virtual time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Key {
    pub(in super::super) class: u8,
    pub(in super::super) vt: i64,
}

impl Key {
    pub(super) fn before(&self, other: &Key) -> bool {
        (self.class, self.vt) < (other.class, other.vt)
    }
}

/// The account of a client, or of a group and all in it: one cache line, because with thousands of
/// clients the account of the next request is rarely in the cache.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(in super::super) struct Node {
    pub(in super::super) parent: u32,
    pub(in super::super) weight: u32,
    pub(in super::super) vt: i64,
    /// The remainder of the last division, less than the weight (I4).
    pub(super) rest: u32,
    pub(in super::super) class: u8,
    pub(super) is_known: bool,
    /// It, or a client in it, sleeps for a request.
    pub(in super::super) asks: bool,
    /// L6: it asks at once for its next request, and has nothing waiting: what it is owed does not
    /// lapse while it has nothing in the device.
    pub(in super::super) asks_at_once: bool,
    /// Requests that wait, by kind, and requests in the device.
    pub(in super::super) queued: [u32; 2],
    pub(in super::super) flying: u32,
    /// Requests held.
    pub(super) held: u32,
    /// Device time charged, and how much of it is only an estimate.
    pub(in super::super) charged: i64,
    pub(in super::super) estimated: i64,
    /// Its next request is expected until then.
    pub(in super::super) expected: Nanos,
}

const _: () = assert!(size_of::<Node>() == 64, "an account is one cache line");

impl Default for Node {
    fn default() -> Node {
        Node {
            parent: NIL,
            weight: 1,
            vt: 0,
            rest: 0,
            class: Class::BestEffort as u8,
            is_known: false,
            asks: false,
            asks_at_once: false,
            queued: [0; 2],
            flying: 0,
            held: 0,
            charged: 0,
            estimated: 0,
            expected: Nanos::ZERO,
        }
    }
}

impl Node {
    pub(super) const fn key(&self) -> Key {
        Key { class: self.class, vt: self.vt }
    }

    /// Requests that wait.
    pub(in super::super) const fn waiting(&self) -> u32 {
        self.queued[CROWD] + self.queued[STREAM]
    }

    /// It counts among those that share the requests.
    pub(super) const fn shares(&self) -> bool {
        self.held > 0 || self.asks
    }

    pub(in super::super) const fn is_busy(&self) -> bool {
        self.waiting() + self.flying > 0
    }

    /// A waiting request goes to the device.
    pub(super) const fn begin(&mut self, kind: usize, estimate: i64) {
        self.queued[kind] -= 1;
        self.flying += 1;
        self.estimated += estimate;
    }

    /// A request has left the device.
    pub(super) const fn finish(&mut self, estimate: i64) {
        self.flying -= 1;
        self.estimated -= estimate;
    }

    /// Charges `ns` of device time, or refunds it if below zero. (The root has no siblings, and no
    /// virtual time.)
    #[inline(always)]
    pub(super) fn charge(&mut self, ns: i64) {
        self.charged += ns;
        let rest = i64::from(self.rest);
        let due = match i32::try_from(ns) {
            Ok(ns) => i64::from(ns) * UNIT + rest,
            Err(_) => ns.saturating_mul(UNIT).saturating_add(rest),
        };
        let (whole, rest) = self.divided(due);
        self.vt = self.vt.saturating_add(whole);
        self.rest = rest;
    }

    /// Divided by the weight, rounded down, and the remainder. Below zero it counts from the other
    /// end, as in -1 / 100 = -1, rest 99: one division either way, and a short one for nearly all
    /// values.
    #[inline(always)]
    fn divided(&self, due: i64) -> (i64, u32) {
        let (size, weight) = (if due < 0 { !due } else { due }.cast_unsigned(), self.weight);
        let (whole, rest) = match u32::try_from(size) {
            Ok(small) => (i64::from(small / weight), small % weight),
            Err(_) => long_division(size, weight),
        };
        if due < 0 { (!whole, weight - 1 - rest) } else { (whole, rest) }
    }

    /// `took` ns as virtual time, if that is more than `least`, or else `least`. Neither is below
    /// zero.
    #[inline(always)]
    pub(super) fn price_above(&self, took: i64, least: i64) -> i64 {
        let weight = i64::from(self.weight);
        // Up to two seconds the products are far from overflowing.
        let is_short = (took | least) >> 31 == 0;
        let (due, more) = if is_short {
            (took * UNIT, (least + 1) * weight)
        } else {
            (took.saturating_mul(UNIT), least.saturating_add(1).saturating_mul(weight))
        };
        // A multiplication instead of a division, most of the time.
        if due < more { least } else { due / weight }
    }
}

/// For values too large for a short division: apart, to keep its setup off the common path.
#[cold]
#[inline(never)]
fn long_division(size: u64, weight: u32) -> (i64, u32) {
    let weight = u64::from(weight);
    ((size / weight).cast_signed(), u32::try_from(size % weight).unwrap_or(0))
}

/// What is known of a group's children.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Group {
    /// Waiting children, by kind and class.
    pub(super) ready: [[Root; CLASSES]; 2],
    /// By class.
    pub(super) floor: [i64; CLASSES],
    pub(in super::super) busy_weight: u64,
    /// The weight of the children that hold requests or ask for one, by class, and how many ask.
    pub(super) held_weight: [u64; CLASSES],
    pub(super) asking: u32,
    /// Requests that its direct children hold, by class; those of best effort are not counted, they
    /// hold the rest.
    pub(super) holds: [u32; CLASSES],
    /// The child that last came to hold none.
    pub(super) holds_none: Option<u32>,
    /// A child of this class has a request that it slept for, and may ask for more until then.
    pub(super) hungry: (u8, Nanos),
    /// The most expensive recent request, in virtual time: fades by 1/256 with each one that ends.
    pub(in super::super) dearest: i64,
    /// The most expensive request of longer ago, and since when it fades.
    pub(super) dearest_then: i64,
    pub(super) then: Nanos,
    pub(super) idle_class_served: Nanos,
    /// Requests in the device of its direct children of the idle class.
    pub(super) idlers_flying: u32,
    /// Until when a child of a better class than idle is expected.
    pub(super) better_comes: Nanos,
    /// Steps to the root, and groups directly below it.
    pub(super) depth: u32,
    pub(super) groups: u32,
}

impl Group {
    /// Remembers the most expensive request for longer than [`Group::dearest`] does.
    #[inline(always)]
    pub(super) const fn remember_dearest(&mut self, now: Nanos) {
        // At most all of the older one is left: mostly that is enough to know.
        if self.dearest >= self.dearest_then || self.dearest >= self.faded(now) {
            (self.dearest_then, self.then) = (self.dearest, now);
        }
    }

    /// What is left of the older maximum: it halves every 2^28 ns, a quarter of a second.
    #[inline(always)]
    const fn faded(&self, now: Nanos) -> i64 {
        let halvings = now.0.saturating_sub(self.then.0) >> 28;
        self.dearest_then >> if halvings < 63 { halvings } else { 63 }
    }

    /// The most expensive request of the last second or so.
    pub(super) fn dearest_lately(&self, now: Nanos) -> i64 {
        self.dearest.max(self.faded(now))
    }

    /// From then on the idle class goes before all others, once.
    pub(super) fn idlers_due_at(&self) -> Nanos {
        self.idle_class_served + IDLE_WAITS_MOST
    }

    /// The first waiting child of a kind.
    pub(super) fn first(&self, kind: usize) -> Option<u32> {
        let [real_time, best_effort, idle] = &self.ready[kind];
        real_time.first().or_else(|| best_effort.first()).or_else(|| idle.first())
    }
}

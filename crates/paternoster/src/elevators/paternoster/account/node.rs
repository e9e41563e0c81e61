// SPDX-License-Identifier: MIT OR Apache-2.0
//! One account: what a client or group was charged, and what it has waiting and in the device.
//!
//! # Invariant
//! `rest` is what the divisions by the weight have left over, below the weight: nothing that was
//! charged is lost to rounding (I4 of the accounts).

use super::{CROWD, STREAM};
use crate::client::Class;
use crate::slab::NIL;
use crate::time::Nanos;
use crate::tree::{Root, TreeKey};

/// Virtual time of one nanosecond at weight 1. With it a client of weight 1 that has the device to
/// itself for four years is still within 64 bits.
pub(super) const UNIT: i64 = 64;

/// What an order goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Key {
    pub(in super::super) class: u8,
    pub(in super::super) vt: i64,
}

impl TreeKey for Key {
    type Summary = ();

    const SUMMED: bool = false;

    fn before(&self, other: &Key) -> bool {
        (self.class, self.vt) < (other.class, other.vt)
    }

    fn combine(&self, _: Option<&()>, _: Option<&()>) {}
}

/// The account of a client, or of a group and everybody in it.
#[derive(Debug, Clone)]
pub(in super::super) struct Node {
    pub(in super::super) parent: u32,
    /// Steps to the root.
    pub(super) depth: u32,
    pub(in super::super) weight: u32,
    pub(in super::super) class: u8,
    pub(in super::super) vt: i64,
    /// What the last division left over, below the weight (I4).
    pub(super) rest: i64,
    /// Device time charged, and what of it is only an estimate.
    pub(in super::super) charged: i64,
    pub(in super::super) estimated: i64,
    /// Requests that wait, by kind, and that are in the device.
    pub(in super::super) queued: [u32; 2],
    pub(in super::super) flying: u32,
    /// Requests allocated.
    pub(super) held: u32,
    /// Until then its next request is expected.
    pub(super) expected: Nanos,

    // Of a group:
    pub(super) ready: [Root; 2],
    /// By class.
    pub(super) floor: [i64; 3],
    pub(super) busy_weight: u64,
    /// The weight of the children that hold requests.
    pub(super) held_weight: u64,
    /// The dearest request of late, in virtual time: fades by 1/256 with each one that ends.
    pub(super) dearest: i64,
    pub(super) idle_class_served: Nanos,
    pub(super) is_known: bool,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            parent: NIL,
            depth: 0,
            weight: 1,
            class: Class::BestEffort as u8,
            vt: 0,
            rest: 0,
            charged: 0,
            estimated: 0,
            queued: [0; 2],
            flying: 0,
            held: 0,
            expected: Nanos::ZERO,
            ready: [Root::new(); 2],
            floor: [0; 3],
            busy_weight: 0,
            held_weight: 0,
            dearest: 0,
            idle_class_served: Nanos::ZERO,
            is_known: false,
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

    pub(super) const fn is_busy(&self) -> bool {
        self.waiting() + self.flying > 0
    }

    /// Pays for `ns` of device time, or gets them back.
    pub(super) fn charge(&mut self, ns: i64) {
        let weight = i64::from(self.weight);
        let due = ns.saturating_mul(UNIT).saturating_add(self.rest);
        self.vt = self.vt.saturating_add(due.div_euclid(weight));
        self.rest = due.rem_euclid(weight);
        self.charged = self.charged.saturating_add(ns);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: the policy that can be set, and the figures that were found out.
//!
//! Nothing here describes the device: what it is like is measured.
//!
//! Source: spec `elevator.md` 2.6 (sigma).

use crate::attribute::{Attribute, Values};
use crate::elevators::paternoster::Paternoster;

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    /// One part in so many of the device time may be idled away for fairness (1 / sigma).
    pub(super) strictness: u64,
    /// L4: so much of the throughput is kept, in percent, when a shallow client waits less for it
    /// (phi).
    pub(super) bulk_kept: u64,
    /// L6: whose requests take less than so many percent of the least that they take is not owed.
    pub(super) weights_from: u64,
    /// Whether nobody has more than his share of the requests there are.
    pub(super) tag_shares: bool,
}

impl Default for Tunables {
    fn default() -> Tunables {
        Tunables { strictness: 32, bulk_kept: 95, weights_from: 150, tag_shares: true }
    }
}

impl Tunables {
    /// Sets the attribute `name`; the value is in its range.
    pub(super) fn set(&mut self, name: &str, value: u64) {
        match name {
            "strictness" => self.strictness = value.max(1),
            "bulk_kept" => self.bulk_kept = value,
            "weights_from" => self.weights_from = value,
            "tag_shares" => self.tag_shares = value != 0,
            _ => {}
        }
    }
}

const fn shown(name: &'static str, unit: &'static str, help: &'static str) -> Attribute {
    Attribute { name, unit, values: Values::ReadOnly, help }
}

/// All of them, in the order of the listing.
pub(super) static ATTRIBUTES: [Attribute; 14] = [
    Attribute {
        name: "strictness",
        unit: "",
        values: Values::Number { min: 1, max: 1_000_000 },
        help: "one part in so many of the device time may be idled away for fairness",
    },
    Attribute {
        name: "bulk_kept",
        unit: "%",
        values: Values::Number { min: 1, max: 100 },
        help: "how much throughput is kept where a shorter queue makes a shallow client wait less",
    },
    Attribute {
        name: "weights_from",
        unit: "%",
        values: Values::Number { min: 100, max: 1_000_000 },
        help: "weights count once requests take so much of their least time: 100 is exact shares",
    },
    Attribute {
        name: "tag_shares",
        unit: "",
        values: Values::Number { min: 0, max: 1 },
        help: "1 if nobody may have more requests than his share of them by weight",
    },
    Attribute {
        name: "fallback",
        unit: "",
        values: Values::Number { min: 0, max: 1 },
        help: "1: accounts alone decide, as the watchdog found a rule broken; 0: all rules",
    },
    shown("depth", "", "how many commands the device is given at a time at present"),
    shown("seats", "", "how many streams are served at a time at present; 0 is without a limit"),
    shown("quantum_us", "us", "how much device time a turn has, where there are seats"),
    shown("switch_us", "us", "what it costs to go from one stream to another, as measured"),
    shown("probes", "", "how often another number of seats was tried"),
    shown("changes", "", "how often one was accepted"),
    shown("kept_us", "us", "for how long a slot was kept for somebody although others waited"),
    shown("holds", "", "how often a client waited that was ahead of one with nothing waiting"),
    shown("in_company", "clients", "who reads one stream with others, and shares their seat"),
];

impl Paternoster {
    /// The value of the attribute `name`.
    pub(super) fn figure(&self, name: &str) -> u64 {
        match name {
            "strictness" => self.tunables.strictness,
            "bulk_kept" => self.tunables.bulk_kept,
            "depth" => u64::from(self.depth.used()),
            "weights_from" => self.tunables.weights_from,
            "holds" => self.gate.holds,
            "tag_shares" => self.tunables.tag_shares.into(),
            "fallback" => u64::from(self.watchdog.has_fallen()),
            "seats" => self.seats.most.map_or(0, u64::from),
            "quantum_us" => self.seats.quantum() / 1000,
            "switch_us" => self.seats.change / 1000,
            "probes" => self.learn.probes,
            "changes" => self.learn.changes,
            "in_company" => self.companies.in_company(),
            "kept_us" => self.kept_time / 1000,
            _ => 0,
        }
    }
}

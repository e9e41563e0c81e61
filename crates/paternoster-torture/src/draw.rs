// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draw: a device and the clients that load it, from a seed.
//!
//! In a third of the loads all clients are alike; the others have two to four kinds. Depth, size,
//! direction and engine are drawn, and sometimes a weight of three times the others'. [`plain`]
//! draws clients that always have I/Os to submit, from the beginning to the end, on devices of the
//! catalog. [`any`] draws everything: devices, too, clients that think, pace themselves, call fsync
//! or come later, classes, groups in groups, more weights.

use paternoster_sim::chance::Chance;

use crate::device as drives;
use crate::load::{Class, Client, Device, Engine, Kind, Load};

/// Devices with their frequencies: those that are quick to simulate are drawn more often.
const DEVICES: [(&str, u64); 9] = [
    ("flash-card-2010", 4),
    ("hdd-7200", 3),
    ("hdd-7200-no-ncq", 3),
    ("hdd-mhx2300bt", 3),
    ("lab-disk", 3),
    ("lab-flash", 2),
    ("raid0-4-hdd", 2),
    ("ssd-870evo", 1),
    ("nvme-7300", 1),
];
/// Clients of a load.
const CLIENTS: (u64, u64) = (2, 12);
/// Number of clients in one of sixteen loads.
const CLIENTS_MANY: (u64, u64) = (13, 64);
/// The place in the seed for everything that is drawn beyond plain clients.
const OTHER_PLACE: u64 = 2;
/// And for a device by itself.
const DEVICE_PLACE: u64 = 3;

/// The load of a seed: clients that always have I/Os to submit.
#[must_use]
pub fn plain(seed: u64) -> Load {
    let mut draw = Draw(Chance::new(seed, 0));
    let device = Device::named(draw.device());
    let count = draw.between(CLIENTS.0, CLIENTS.1);
    let kinds = if draw.one_in(3) { 1 } else { draw.between(2, 4) };
    let kinds: Vec<Kind> = (0..kinds).map(|_| draw.kind()).collect();
    let grouped = draw.one_in(2);
    let weighted = draw.one_in(4);
    let client = |draw: &mut Draw, place: u64| {
        let kind = draw.of(&kinds);
        let weight = if weighted && draw.one_in(2) { 300 } else { 100 };
        Client::new(kind, grouped.then(|| format!("g{place}")), weight)
    };
    let clients = (0..count).map(|place| client(&mut draw, place)).collect();
    Load { seed, device, clients }
}

/// The device of a seed, by itself.
#[must_use]
pub fn device(seed: u64) -> Device {
    drives::draw(seed, &mut Draw(Chance::new(seed, DEVICE_PLACE)))
}

/// The load of a seed: anything.
#[must_use]
pub fn any(seed: u64) -> Load {
    let mut draw = Draw(Chance::new(seed, OTHER_PLACE));
    let device =
        if draw.one_in(2) { drives::draw(seed, &mut draw) } else { Device::named(draw.device()) };
    let (least, most) = if draw.one_in(16) { CLIENTS_MANY } else { CLIENTS };
    let count = draw.between(least, most);
    let kinds = if draw.one_in(3) { 1 } else { draw.between(2, 4) };
    let kinds: Vec<Kind> = (0..kinds).map(|_| draw.any_kind()).collect();
    let (grouped, nested, weighted) = (draw.one_in(2), draw.one_in(4), draw.one_in(2));
    let (classes, late) = (draw.one_in(4), draw.one_in(4));
    let client = |draw: &mut Draw, place: u64| {
        let kind = draw.of(&kinds);
        let weight = if weighted { draw.of(&[100, 200, 300, 500, 1000]) } else { 100 };
        let path = match (grouped, nested) {
            (false, _) => None,
            (true, false) => Some(format!("g{place}")),
            // Some groups are alone, others two or three in a parent group.
            (true, true) => Some(format!("p{}/g{place}", draw.0.below(1 + count / 2))),
        };
        let class = match (classes, draw.0.below(4)) {
            (true, 0) => Class::Idle,
            (true, 1) => Class::RealTime,
            _ => Class::BestEffort,
        };
        let begins = if late && draw.one_in(3) { draw.of(&[20, 40, 60]) } else { 0 };
        Client { class, begins, ..Client::new(kind, path, weight) }
    };
    let clients = (0..count).map(|place| client(&mut draw, place)).collect();
    Load { seed, device, clients }
}

/// Numbers of a seed, as choices.
pub(super) struct Draw(pub(super) Chance);

impl Draw {
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.0.below(of) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[usize::try_from(self.0.below(choice.len() as u64)).unwrap_or(0)]
    }

    fn device(&mut self) -> &'static str {
        let mut left = self.0.below(DEVICES.iter().map(|(_, parts)| parts).sum());
        for (name, parts) in DEVICES {
            if left < parts {
                return name;
            }
            left -= parts;
        }
        DEVICES[0].0
    }

    fn kind(&mut self) -> Kind {
        let engine = match self.0.below(8) {
            0 => Engine::Buffered,
            1 => Engine::Psync,
            2..=4 => Engine::IoUring,
            _ => Engine::Libaio,
        };
        let deep = matches!(engine, Engine::Libaio | Engine::IoUring);
        let rw =
            self.of(&["randread", "randread", "randwrite", "randwrite", "read", "write", "randrw"]);
        // Small calls would mostly be served from memory.
        let block_kib = if engine == Engine::Buffered { 64 } else { self.of(&[4, 4, 16, 64, 128]) };
        let depth = if deep { self.of(&[2, 4, 8, 16, 32, 64]) } else { 1 };
        Kind::greedy(engine, rw, block_kib, depth)
    }

    /// As above, and some that do not always have I/Os, or that call fsync.
    fn any_kind(&mut self) -> Kind {
        let mut kind = self.kind();
        match self.0.below(8) {
            0 => kind.think_us = self.of(&[20, 200, 1000, 2000, 5000, 12_000, 50_000]),
            1 => kind.rate = self.of(&[5, 20, 100, 500, 2000]),
            2 if kind.rw.ends_with("write") && kind.engine != Engine::Buffered => {
                kind.fsync = self.of(&[1, 4, 16]);
            }
            _ => {}
        }
        kind
    }
}

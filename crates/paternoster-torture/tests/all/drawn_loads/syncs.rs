// SPDX-License-Identifier: MIT OR Apache-2.0
//! Syncs: does each client get its share by cost, and within what time, beside writers that sync
//! on disks with a cache?
//!
//! 2 to 5 clients of two or three kinds, at least one of which calls fsync after each 1 to 16
//! writes and one does not, with 1 to 16 requests each. A flush drains what all have written
//! since the last one: a second's random writes of 4 KiB take a second.
//!
//! What each is entitled to is what it does alone times its part; one that syncs keeps the disk
//! busy, alone.
//!
//! `PATERNOSTER_LOADS=80` draws a quarter as many; otherwise one. `PATERNOSTER_SYNCS=30` draws 30,
//! from `PATERNOSTER_LOADS_SEED` on, and compares with other schedulers.

use paternoster_sim::chance::Chance;
use paternoster_torture::load::{Engine, Kind, Load};

use super::parts::{Table, cached_disk, of, some_of};

/// The everyday load, which is quick to simulate, and what may be missed in it.
const EVERY_DAY: u64 = 6;
const MISS: f64 = 0.25;
/// What may be missed in the median of many.
const MISS_OF_MANY: f64 = 0.52;
/// Of which a cache's filling is a small part.
const SECONDS: f64 = 40.0;

fn draw(seed: u64) -> Load {
    let device = cached_disk(seed);
    let mut chance = Chance::new(seed, 8);
    loop {
        let kinds = [
            (of(&mut chance, &["write", "randwrite"]), of(&mut chance, &[4, 16, 64])),
            of(&mut chance, &[("randwrite", 4), ("randwrite", 16), ("write", 64), ("randread", 4)]),
            of(&mut chance, &[("randread", 4), ("randread", 64), ("read", 128), ("randrw", 4)]),
        ];
        let every = of(&mut chance, &[1, 1, 4, 16]);
        let kind = |chance: &mut Chance| {
            let index = chance.below(3);
            let (rw, size) = kinds[usize::try_from(index).unwrap_or(0)];
            let kind = Kind::greedy(Engine::Libaio, rw, size, of(chance, &[1, 2, 4, 16]));
            Kind { fsync: if index == 0 { every } else { 0 }, ..kind }
        };
        if let Some(clients) = some_of(&mut chance, 4, kind, |kind| kind.fsync > 0) {
            return Load { seed, device, clients };
        }
    }
}

/// Does each get its share beside writers that sync? When all that used a flush were throttled in
/// front of the elevator, one of weight 400 missed 90 % of its part beside four that synced each
/// write. And is the median of many within 52 %? Of seeds 100 to 159, with which nothing was
/// developed, it is 48 % and was 56.
#[test]
fn flushes_are_paid_for_by_those_whose_data_they_drain() {
    let table = Table {
        schedulers: &["paternoster", "paternoster:flush_owners=0", "bfq", "mq-deadline", "noop"],
        compares: "PATERNOSTER_SYNCS",
        every_day: EVERY_DAY,
        draw,
        seconds: |_| SECONDS,
        most: [MISS, MISS_OF_MANY],
    };
    table.check();
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writers: does each client get its share by cost where writes end in a disk's cache?
//!
//! 2 to 6 clients of two or three kinds, at least one of which writes at random and one something
//! else, with 1 to 16 requests each, on disks with a cache, of the catalog and drawn ones. A write
//! has ended when it is in the cache, and what it costs is paid later, by those that wait for room
//! there: a stream that writes 128 KiB waits until 32 random writes of 4 KiB have left.
//!
//! What each is entitled to is what it does alone, with a full cache, times its part.
//!
//! `PATERNOSTER_LOADS=80` draws a quarter as many; otherwise one. `PATERNOSTER_WRITERS=30` draws
//! 30, from `PATERNOSTER_LOADS_SEED` on, and compares with other schedulers.

use paternoster_sim::chance::Chance;
use paternoster_torture::load::{Engine, Kind, Load};

use super::parts::{Table, cached_disk, of, some_of};

/// The everyday load, which is quick to simulate, and what may be missed in it.
const EVERY_DAY: u64 = 16;
const MISS: f64 = 0.15;
/// What may be missed in the median of many.
const MISS_OF_MANY: f64 = 0.45;
/// Of which a cache's filling is a small part.
const SECONDS: f64 = 40.0;

fn draw(seed: u64) -> Load {
    let device = cached_disk(seed);
    let mut chance = Chance::new(seed, 8);
    loop {
        let other = of(&mut chance, &["write", "write", "randread", "read", "randrw"]);
        let kinds = [
            ("randwrite", of(&mut chance, &[4, 4, 16, 64])),
            (other, of(&mut chance, &[4, 64, 128, 256])),
            of(&mut chance, &[("write", 128), ("randread", 16), ("read", 128), ("randwrite", 4)]),
        ];
        let kind = |chance: &mut Chance| {
            let (rw, size) = of(chance, &kinds);
            Kind::greedy(Engine::Libaio, rw, size, of(chance, &[1, 2, 4, 16]))
        };
        if let Some(clients) = some_of(&mut chance, 5, kind, |kind| kind.rw == "randwrite") {
            return Load { seed, device, clients };
        }
    }
}

/// Does each get its share beside random writes? When a stream paid for all that it waited for, one
/// of weight 4 missed 91 % of its part beside 4 KiB at random of the same weight. And is the median
/// of many within 45 %? It was 68 %.
#[test]
fn writes_are_paid_for_by_those_who_wrote() {
    let table = Table {
        schedulers: &["paternoster", "paternoster:prices=0", "bfq", "mq-deadline", "noop"],
        compares: "PATERNOSTER_WRITERS",
        every_day: EVERY_DAY,
        draw,
        seconds: |_| SECONDS,
        most: [MISS, MISS_OF_MANY],
    };
    table.check();
}

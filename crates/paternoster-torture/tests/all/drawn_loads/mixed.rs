// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mixed: does each client get its share by cost where requests of different kinds fill a device?
//!
//! 2 to 8 clients of two or three kinds (reads, writes and both, of 4 to 128 KiB), each in a group
//! of its own, of weights 1 to 4, on NVMe and SATA drives of the catalog and on drawn ones. What
//! each is entitled to is computed from the device's own figures (`entitlement.rs`); the elevator
//! has to find out what requests cost (C5).
//!
//! Not all can get their share: a client with few requests outstanding and a large weight gets it
//! only while few commands are inside; and a drive with a slow buffer needs a second for each trial
//! of a cost. So the median of the loads is checked.
//!
//! `PATERNOSTER_LOADS=80` draws a quarter as many; otherwise one. `PATERNOSTER_MIXED=30` draws 30,
//! and compares with runs without costs and without a scheduler.

use paternoster_sim::chance::Chance;
use paternoster_torture::draw::any;
use paternoster_torture::load::{Client, Device, Engine, Kind, Load};

use super::parts::{Table, of};

const DEVICES: [&str; 5] = ["nvme-pm9a3", "nvme-7300", "nvme-kc3000", "ssd-870evo", "ssd-pm883"];
/// The everyday load, which is quick to simulate, and what may be missed in it.
const EVERY_DAY: u64 = 22;
const MISS: f64 = 0.05;
/// What may be missed in the median of many.
const MISS_OF_MANY: f64 = 0.3;
/// Seconds, on a drive with many queues and on others.
const SECONDS: [f64; 2] = [1.5, 4.0];

fn device(seed: u64) -> Device {
    if let Some(name) = DEVICES.get(usize::try_from(seed % 6).unwrap_or(0)) {
        return Device::named(name);
    }
    let mut drawn = (seed..).map(|seed| any(seed).device);
    let is_ssd = |device: &Device| device.name().starts_with("drawn-ssd");
    drawn.find(is_ssd).expect("some are drawn")
}

fn draw(seed: u64) -> Load {
    let device = device(seed);
    let mut chance = Chance::new(seed, 7);
    loop {
        let count = 2 + chance.below(7);
        let kind = |chance: &mut Chance| {
            let rw = of(chance, &["randread", "randread", "randwrite", "randrw"]);
            (rw, of(chance, &[4, 4, 16, 64, 128]))
        };
        let kinds: Vec<(&str, u32)> = (0..2 + chance.below(2)).map(|_| kind(&mut chance)).collect();
        let client = |chance: &mut Chance, place: u64| {
            let (rw, size) = of(chance, &kinds);
            let depth = of(chance, &[16, 32, 48, 64]);
            let kind = Kind::greedy(Engine::IoUring, rw, size, depth);
            Client::new(kind, Some(format!("g{place}")), of(chance, &[100, 100, 200, 400]))
        };
        let clients: Vec<Client> = (0..count).map(|place| client(&mut chance, place)).collect();
        let outstanding: u32 = clients.iter().map(|client| client.kind.depth).sum();
        let first = clients[0].kind;
        let is_other = |client: &Client| {
            (client.kind.rw, client.kind.block_kib) != (first.rw, first.block_kib)
        };
        if (64..=240).contains(&outstanding) && clients.iter().any(is_other) {
            return Load { seed, device, clients };
        }
    }
}

/// How long a load runs on its device, in seconds.
fn seconds(load: &Load) -> f64 {
    let [many, others] = SECONDS;
    if load.device.description.facts.depth > 64 { many } else { others }
}

/// Does each get its share where 64 KiB and 128 KiB are read? By device time one missed 21 %. And
/// is the median of many loads within a quarter? It was 60 %.
#[test]
fn parts_are_by_cost() {
    let table = Table {
        schedulers: &["paternoster", "paternoster:prices=0", "noop:nr_requests=256"],
        compares: "PATERNOSTER_MIXED",
        every_day: EVERY_DAY,
        draw,
        seconds,
        most: [MISS, MISS_OF_MANY],
    };
    table.check();
}

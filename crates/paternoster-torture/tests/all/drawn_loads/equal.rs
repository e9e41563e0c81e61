// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equal clients, many of them on few requests: each gets its share.
//!
//! Section 6 of the report on bfq's tags: n equal clients with as many I/Os outstanding as there
//! are requests or more, reading, writing or both, with and without groups. It is reads *and*
//! writes that once left clients asleep for good.

use paternoster_torture::bench::Bench;
use paternoster_torture::load::{Client, Device, Engine, Kind, Load};

use crate::number;

const SCHEDULERS: [&str; 5] = ["mq-deadline", "bfq", "bfq-4.19", "kyber", "paternoster"];
/// One case in this many is checked. With `PATERNOSTER_EQUAL=1` all are, and not all pass: under
/// bfq a client sleeps for 2.2 s where two, each 32 deep, have four requests between them.
const ONE_OF: usize = 37;
/// A blocked submission takes at most this long, in seconds.
const ASLEEP: f64 = 0.5;

/// Does each of n equal clients get at least half of the mean, and does none sleep for a request
/// for more than half a second?
#[test]
fn equal_clients_have_equal_parts() {
    let one_of = if number("PATERNOSTER_EQUAL").is_some() { 1 } else { ONE_OF };
    let mut bench = Bench::default();
    let device = Device::named("lab-flash");
    let mut cases = Vec::new();
    for count in [2, 8, 16] {
        for rw in ["randread", "randwrite", "randrw"] {
            for grouped in [false, true] {
                for requests in [(count / 4).max(4), 32] {
                    for depth in [1, 32] {
                        let engine = if depth == 1 { Engine::Psync } else { Engine::IoUring };
                        let kind = Kind::greedy(engine, rw, 4, depth);
                        let of =
                            |place| Client::new(kind, grouped.then(|| format!("g{place}")), 100);
                        let clients = (0..count).map(of).collect();
                        let load = Load { seed: 1, device: device.clone(), clients };
                        cases.extend(
                            SCHEDULERS.map(|scheduler| (load.clone(), scheduler, requests)),
                        );
                    }
                }
            }
        }
    }
    for (load, scheduler, requests) in cases.iter().step_by(one_of) {
        // Turns of 125 ms for sixteen come round in 2 s, and raised ones come first.
        let seconds = if scheduler.starts_with("bfq") { 10.0 } else { 2.0 };
        let with = format!("{scheduler}:nr_requests={requests}");
        let got = bench.run(load, &with, seconds).clients;
        let mean = got.iter().map(|got| got.ios).sum::<u64>() / got.len() as u64;
        let ios = || got.iter().map(|got| got.ios);
        let told = || format!("{with}: {:?}\n  {}", ios().collect::<Vec<_>>(), load.tell());
        assert!(mean > 0 && ios().all(|ios| 2 * ios >= mean), "{}", told());
        let asleep = got.iter().map(|got| got.asleep).fold(0.0, f64::max);
        assert!(asleep <= ASLEEP, "asleep for {asleep:.3} s under {}", told());
    }
}

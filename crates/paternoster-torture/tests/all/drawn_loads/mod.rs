// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drawn loads: does a random load starve a client?
//!
//! A load is a device and 2 to 12 clients, from a seed (`draw::plain`); it runs under every
//! scheduler with its defaults, for a few virtual seconds, and is checked (`laws.rs`):
//!
//! * No client waits longer than its bound: the longest of 1 s, ten times its wait under noop,
//!   three times what its entitled rate implies for its depth. (All clients always have I/Os to
//!   submit.)
//! * Equal clients get within three times of each other, where noop gives them within two.
//!
//! A failure is printed with its seed; it is shrunk, by leaving clients out, if
//! `PATERNOSTER_LOADS_SHRINK` is set or if it must never happen: any under [`NEVER`], and a wait of
//! more than three times its bound ("far") under all but [`FAR`]. Elevators that serve in turns
//! fail for other reasons too: many turns one after the other, weights raised for seconds. Their
//! number may not grow ([`FAULTS`]), and each is a line of the output.
//!
//! ```text
//! PATERNOSTER_LOADS=400 cargo test --release -p paternoster-torture --test all \
//!     drawn_loads -- --nocapture
//! ```
//!
//! draws that many; otherwise few, of those that are quick to simulate, under [`EVERY_DAY`] only.
//! `PATERNOSTER_LOADS_SEED` is the first seed, `PATERNOSTER_LOADS_ONLY` the only scheduler.

mod deep;
mod equal;
mod mixed;
mod parts;
mod syncs;
mod writers;

use paternoster_torture::bench::{Bench, Got};
use paternoster_torture::bounds::bounds;
use paternoster_torture::draw::plain;
use paternoster_torture::laws::{Fault, broken};
use paternoster_torture::load::Load;
use paternoster_torture::shrink;

use crate::number;

/// All schedulers checked; those with 768 requests as `serve` sets them up, with a queue that holds
/// all requests.
const ALL: [&str; 10] = [
    "noop",
    "mq-deadline",
    "kyber",
    "bfq",
    "bfq:low_latency=0",
    "bfq:low_latency=0,nr_requests=768",
    "paternoster",
    "paternoster:nr_requests=768",
    "cfq-4.19",
    "deadline",
];
/// Checked every day.
const EVERY_DAY: &[&str] = &["mq-deadline", "kyber", "bfq", "paternoster"];
/// Schedulers that make no client wait longer than noop does, except for preferred clients.
const NEVER: [&str; 2] = ["noop", "kyber"];
/// Under them some clients wait very long: bfq raises readers for seconds, over writeback and
/// writers (BFQ-100 and after; rare with `low_latency=0`); CFQ of 4.19 preempts among equals
/// (CFQ-68: of ten recorded readers six had 2 % of the rate of two); deadline lets readers overtake
/// writers for 5 s and longer.
const FAR: [&str; 5] =
    ["bfq", "bfq:low_latency=0", "bfq:low_latency=0,nr_requests=768", "cfq-4.19", "deadline"];
/// A very long wait, in multiples of its bound.
const VERY_LONG: f64 = 3.0;
/// How many loads of a hundred may fail under the others.
const FAULTS: [(&str, u64); 8] = [
    ("mq-deadline", 2),
    ("paternoster", 10),
    ("paternoster:nr_requests=768", 14),
    ("bfq:low_latency=0", 15),
    ("bfq:low_latency=0,nr_requests=768", 26),
    ("deadline", 5),
    ("cfq-4.19", 20),
    ("bfq", 25),
];
/// Loads that are drawn every day.
const LOADS: u64 = 9;

/// Loads, under one scheduler.
#[derive(Debug, Clone, Default)]
struct Counts {
    starved: u64,
    far: u64,
    unequal: u64,
    kept: u64,
    pairs: u64,
}

/// Is no client starved, and are equal clients treated equally, under random loads?
#[test]
fn nobody_is_starved_by_drawn_loads() {
    let asked = number("PATERNOSTER_LOADS");
    let first = number("PATERNOSTER_LOADS_SEED").unwrap_or(0);
    let only = std::env::var("PATERNOSTER_LOADS_ONLY").ok();
    let schedulers: Vec<&str> = match (&only, asked) {
        (Some(only), _) => vec![only],
        (None, Some(_)) => ALL.to_vec(),
        (None, None) => EVERY_DAY.to_vec(),
    };
    let mut bench = Bench::default();
    let mut counts = vec![Counts::default(); schedulers.len()];
    let mut judged = 0;
    for seed in first..first + asked.unwrap_or(LOADS) {
        let load = plain(seed);
        if asked.is_none() && !is_cheap(&load) {
            continue;
        }
        let within = bounds(&mut bench, &load);
        judged += 1;
        for (place, scheduler) in schedulers.iter().enumerate() {
            let given = bench.run(&load, scheduler, within.seconds);
            let fault = broken(&load, scheduler, &given, &within);
            let count = &mut counts[place];
            if let Some(keeps) = keeps_weights(&load, &given.clients) {
                count.kept += u64::from(keeps);
                count.pairs += 1;
            }
            let Some(fault) = fault else { continue };
            let mut is_far = false;
            match fault {
                Fault::Waited { waited, bound, .. } => {
                    count.starved += 1;
                    is_far = waited > VERY_LONG * bound;
                    count.far += u64::from(is_far);
                }
                Fault::Unequal { .. } => count.unequal += 1,
                ref other => panic!("{scheduler}: {other:?}\n  {}", load.tell()),
            }
            let ios: Vec<u64> = given.clients.iter().map(|got| got.ios).collect();
            println!("{scheduler}: {fault:?} in {:.1} s; I/Os {ios:?}", within.seconds);
            println!("  {}", load.tell());
            let must_not = NEVER.contains(scheduler) || is_far && !FAR.contains(scheduler);
            if must_not || std::env::var("PATERNOSTER_LOADS_SHRINK").is_ok() {
                println!("  shrunk: {}", shrink(&mut bench, &load, scheduler, fault.law()).tell());
            }
        }
    }
    println!("{judged} loads from {first} on, {} I/Os", bench.ios);
    println!("{:>33}  starved   far  unequal  weights kept", "scheduler");
    for (scheduler, count) in schedulers.iter().zip(&counts) {
        let Counts { starved, far, unequal, kept, pairs } = count;
        println!("{scheduler:>33} {starved:8} {far:5} {unequal:8}  {kept} of {pairs}");
    }
    for (scheduler, count) in schedulers.iter().zip(&counts) {
        let most = FAULTS.iter().find(|(name, _)| name == scheduler).map_or(0, |(_, most)| *most);
        // With few loads per cents are coarse: allow two more.
        let most = if most == 0 { 0 } else { (judged * most).div_ceil(100) + 2 };
        let faults = count.starved + count.unequal;
        assert!(faults <= most, "{scheduler}: {faults} of {judged} loads, at most {most}");
        assert!(count.far == 0 || FAR.contains(scheduler), "{scheduler}: {count:?}");
    }
}

/// Whether a load is quick to simulate: a slow device, and nothing that memory or a drive's cache
/// answers.
fn is_cheap(load: &Load) -> bool {
    let slow = !["lab-flash", "ssd-870evo", "nvme-7300"].contains(&load.device.name());
    slow && load.clients.iter().all(|client| client.kind.is_random_and_direct())
}

/// For clients in groups that differ only in weights of 1 to 3: whether each pair got between 1 to
/// 1.5 and 1 to 5. `None` without such a pair for which weights matter: a client with one I/O at a
/// time never waits long enough, and merged or buffered I/O is not counted in I/Os.
fn keeps_weights(load: &Load, got: &[Got]) -> Option<bool> {
    let pairs = || {
        let places = 0..got.len();
        places.clone().flat_map(move |light| places.clone().map(move |heavy| (light, heavy)))
    };
    let is_pair = |&(light, heavy): &(usize, usize)| {
        let (light, heavy) = (&load.clients[light], &load.clients[heavy]);
        let deep = light.kind.depth >= 8 && light.kind.rw.starts_with("rand");
        let alike = light.group.is_some() && light.kind == heavy.kind;
        deep && alike && light.weight * 3 == heavy.weight
    };
    let keeps = |(light, heavy): (usize, usize)| {
        let (light, heavy) = (got[light].ios, got[heavy].ios);
        2 * heavy >= 3 * light && heavy <= 5 * light
    };
    let mut pairs = pairs().filter(is_pair).map(keeps).peekable();
    pairs.peek()?;
    Some(pairs.all(|keeps| keeps))
}

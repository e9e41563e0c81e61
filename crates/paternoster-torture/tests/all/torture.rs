// SPDX-License-Identifier: MIT OR Apache-2.0
//! Torture: does every scheduler obey every law, under random loads?
//!
//! Each case is one random load (`draw::any`) under one scheduler, which is drawn as well. A load
//! that breaks a law is shrunk and printed as a job file with its device. Excuses are counted.
//!
//! ```text
//! PATERNOSTER_CASES=4000 cargo test --release -p paternoster-torture --test all \
//!     torture:: -- --nocapture
//! ```
//!
//! checks that many, from `PATERNOSTER_CASES_SEED` on; otherwise [`CASES`]. They are loads that are
//! quick to simulate, unless `PATERNOSTER_CASES_ANY` is set: some of those are known to break a law
//! (`docs/torture.md`). `PATERNOSTER_CASES_ONLY` is the only scheduler, and with
//! `PATERNOSTER_CASES_SHRINK` failures are shrunk.

use std::collections::BTreeMap;

use paternoster_torture::bench::Bench;
use paternoster_torture::bounds::bounds;
use paternoster_torture::draw::any;
use paternoster_torture::excuses::excuse;
use paternoster_torture::{judge, shrink};

use crate::number;

/// All schedulers checked.
const SCHEDULERS: [&str; 8] = [
    "noop",
    "mq-deadline",
    "kyber",
    "bfq",
    "bfq:low_latency=0",
    "paternoster",
    "cfq-4.19",
    "deadline",
];
/// Cases that are drawn every day.
const CASES: u64 = 40;

/// Are all laws obeyed?
#[test]
fn every_law_is_obeyed() {
    let cases = number("PATERNOSTER_CASES").unwrap_or(CASES);
    let is_any = std::env::var("PATERNOSTER_CASES_ANY").is_ok();
    let first = number("PATERNOSTER_CASES_SEED").unwrap_or(0);
    let only = std::env::var("PATERNOSTER_CASES_ONLY").ok();
    let mut bench = Bench::default();
    let mut excused: BTreeMap<&str, u64> = BTreeMap::new();
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let mut missed = Vec::new();
    let mut judged = 0;
    for seed in first.. {
        if judged == cases {
            break;
        }
        let load = any(seed);
        if !is_any && !load.is_cheap() {
            continue;
        }
        let within = bounds(&mut bench, &load);
        judged += 1;
        let drawn = SCHEDULERS[usize::try_from(seed % 8).unwrap_or(0)];
        let scheduler = only.as_deref().unwrap_or(drawn);
        let case = judge(&mut bench, &load, scheduler, &within);
        if scheduler == "paternoster" {
            missed.extend(case.missed.map(|missed| (missed, seed)));
        }
        let Some(fault) = &case.fault else { continue };
        if let Some(excuse) = excuse(&load, scheduler, fault) {
            *excused.entry(excuse.rule).or_default() += 1;
            continue;
        }
        *faults.entry(format!("{scheduler} {}", fault.law())).or_default() += 1;
        println!("{scheduler}: {fault:?}\n  {}", load.tell());
        if std::env::var("PATERNOSTER_CASES_SHRINK").is_ok() {
            println!("  shrunk: {}", shrink(&mut bench, &load, scheduler, fault.law()).tell());
        }
    }
    missed.sort_by(|one, other| other.0.total_cmp(&one.0));
    println!("paternoster misses: {missed:.2?}");
    println!("{cases} cases from {first} on, {} I/Os", bench.ios);
    println!("faults {faults:?}\nexcused {excused:?}");
    assert!(faults.is_empty(), "{faults:?}");
}

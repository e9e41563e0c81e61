// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is everything promised on the medium, whenever the power fails?
//!
//! Random clients on a queue, with a disk that may lose its power at any event
//! (`paternoster_sim::power`). At each event of each run the medium is checked as a cut would leave
//! it: FLUSH-16 for every elevator, with changing attributes and elevators, with merges, errors,
//! withdrawals and every kind of cache. `promises.rs` says what is promised, `world.rs` what a run
//! is, `workload.rs` what happens in it.
//!
//! By default 500,000 cuts at which something was volatile; for a long night
//! `PATERNOSTER_POWER_CUTS=10000000 cargo test --release -p paternoster-sim --test all power_cuts`,
//! with another `PATERNOSTER_POWER_SEED` each night. A workload that loses something is shrunk and
//! printed.
//!
//! A test is worth what it finds: it has to find disks and queues that are wrong on purpose.

mod promises;
pub(crate) mod search;
pub(crate) mod workload;
mod world;

use paternoster_sim::power::Flaw;
use proptest::strategy::{Strategy, ValueTree};
use search::{Loss, asked, runner, search};
use workload::{Ills, Place, Plan, Sabotage, Step, What, plans, steps};
use world::{Census, run};

/// Cuts to check, unless `PATERNOSTER_POWER_CUTS` says otherwise.
const CUTS: u64 = 500_000;

/// The seed of the workloads, unless `PATERNOSTER_POWER_SEED` says otherwise.
const SEED: u64 = 1;

/// Cuts within which each planted fault has to be found.
const FOUND_WITHIN: u64 = 20_000;

/// Is nothing promised ever lost, at any cut; does nothing hang?
#[test]
fn flush_16_nothing_that_was_promised_is_lost() {
    let wanted = asked("PATERNOSTER_POWER_CUTS").unwrap_or(CUTS);
    let seed = asked("PATERNOSTER_POWER_SEED").unwrap_or(SEED);
    let census = search(seed, wanted, Ills::default(), &|_| ());
    let census = census.unwrap_or_else(|loss| panic!("{loss}"));
    println!("{census:?}");
    assert!(census.at_risk >= wanted);
}

/// Do the workloads reach states where something could be lost? Each of these at least 50 times in
/// 20,000 cuts.
#[test]
fn the_workloads_go_everywhere() {
    let mut census =
        search(SEED, 20_000, Ills::default(), &|_| ()).unwrap_or_else(|loss| panic!("{loss}"));
    for (name, count) in census.all() {
        assert!(*count >= 50, "{name}: {count}");
    }
}

/// Does the same workload give the same run?
#[test]
fn the_same_workload_gives_the_same_run() {
    let mut runner = runner(1);
    for _ in 0..50 {
        let tree = (plans(), steps(80)).new_tree(&mut runner).expect("nothing is filtered out");
        let (plan, steps) = tree.current();
        let again = || run(&plan, &steps, Ills::default(), &|_| ());
        assert_eq!(again(), again());
    }
}

fn found(ills: Ills) -> Box<Loss> {
    match search(SEED, FOUND_WITHIN, ills, &|_| ()) {
        Ok(Census { cuts, .. }) => panic!("{ills:?} was not noticed in {cuts} cuts"),
        Err(loss) => {
            println!("{ills:?}: {loss}");
            loss
        }
    }
}

/// Is every flaw of a disk found, and shrunk to a case that a person can follow?
#[test]
fn a_disk_that_breaks_its_word_is_found() {
    for &flaw in Flaw::ALL {
        let loss = found(Ills { flaw: Some(flaw), sabotage: None });
        assert!(loss.fault.contains("lost") || loss.fault.contains("P3"), "{flaw:?}: {loss}");
        assert!(loss.steps.len() <= 16, "{flaw:?}: {loss}");
    }
}

/// Does the test notice a flush that never reached the disk?
#[test]
fn an_elided_flush_too_many_is_found() {
    let loss = found(Ills { sabotage: Some(Sabotage::ElidesFlushes), flaw: None });
    assert!(loss.fault.contains("lost") || loss.fault.contains("P3"), "{loss}");
    assert!(loss.steps.len() <= 4, "{loss}");
}

/// Does the test notice data on the medium before the writes that their PREFLUSH covers, before
/// they are acknowledged? One write, and when it is acknowledged another with PREFLUSH, whose flush
/// never reaches the disk: a cut that leaves the second and not the first breaks the fence.
#[test]
fn data_before_their_preflush_are_found() {
    let submit = |what, at| Step::Submit { who: 0, what, place: Place::At(at), sectors: 8 };
    let steps = [submit(What::Write, 0), Step::Pass(1000), submit(What::Preflush, 16)];
    let ills = Ills { sabotage: Some(Sabotage::ElidesFlushes), flaw: None };
    let mut broken = 0;
    for seed in 0..100 {
        let plan = Plan { seed, ..Plan::plain() };
        assert_eq!(run(&plan, &steps, Ills::default(), &|_| ()).err(), None, "seed {seed}");
        let fault = run(&plan, &steps, ills, &|_| ()).err().unwrap_or_default();
        broken += u32::from(fault.contains("P3"));
    }
    assert!(broken >= 10, "{broken} of 100 cases");
}

/// Does the test notice that a queue waits forever?
#[test]
fn a_queue_that_stands_still_is_found() {
    let loss = found(Ills { sabotage: Some(Sabotage::LosesEnds), flaw: None });
    assert!(loss.fault.contains("S1"), "{loss}");
}

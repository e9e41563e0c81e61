// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the library keep its promises, whatever its callers do?
//!
//! Random sequences of every call there is, on every elevator, against the naive model of
//! `common/world/mod.rs`, which lists what is checked. Capacities are small, so that pools, tags
//! and slots run out all the time.
//!
//! 40,000 sequences, 4,000 with odd settings, and 200 long ones, in which an elevator gets as far
//! as it does in seconds of work; for a long night `PATERNOSTER_SEQUENCES=1000000 cargo test -p
//! paternoster-schedulers --features planted-bugs --test all properties`. `./test` draws the same
//! ones each day, `PROPTEST_RNG_SEED=2 ./test` others. A failing sequence is shrunk and printed,
//! and saved next to this file, from where it is tried first.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use crate::common::world::{self, Census, Plan, choices, plans, run, steps};
use crate::common::world::{steps_after_settings, steps_of_one_run};

/// Sequences in all, unless `PATERNOSTER_SEQUENCES` says otherwise.
const SEQUENCES: u32 = 40_000;
/// Steps in a sequence, at most.
const STEPS: usize = 200;
/// Steps in a long one, at most, and how many others there are for each of these.
const LONG: (usize, u32) = (4_000, 200);

/// So many sequences are asked for.
fn asked() -> u32 {
    let asked = std::env::var("PATERNOSTER_SEQUENCES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(SEQUENCES)
}

/// So many sequences.
fn config(cases: u32) -> Config {
    // Next to this file, as `properties.proptest-regressions`.
    let persistence = FileFailurePersistence::WithSource("proptest-regressions");
    Config {
        cases,
        max_shrink_iters: 20_000,
        failure_persistence: Some(Box::new(persistence)),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config(asked().div_ceil(2)))]

    /// Does every elevator keep the promises while it is the queue's only one?
    #[test]
    fn an_elevator_keeps_the_promises(plan in plans(), steps in steps(STEPS)) {
        let plan = Plan { faithful: true, ..plan };
        if let Err(fault) = run(&plan, &steps) {
            prop_assert!(false, "{}", fault);
        }
    }

    /// Do they keep them while elevators change under the requests?
    #[test]
    fn a_change_of_elevator_keeps_the_promises(plan in plans(), steps in steps(STEPS)) {
        if let Err(fault) = run(&plan, &steps) {
            prop_assert!(false, "{}", fault);
        }
    }
}

proptest! {
    #![proptest_config(config(asked().div_ceil(LONG.1)))]

    /// Does every elevator keep the promises also after what seconds of work have taught it?
    #[test]
    fn a_long_run_keeps_the_promises(plan in plans(), steps in steps_of_one_run(LONG.0)) {
        let plan = Plan { faithful: true, ..plan };
        if let Err(fault) = run(&plan, &steps) {
            prop_assert!(false, "{}", fault);
        }
    }
}

proptest! {
    #![proptest_config(config(asked().div_ceil(10)))]

    /// Does every elevator keep the promises whatever its attributes are set to?
    #[test]
    fn odd_settings_break_no_promise(plan in plans(), steps in steps_after_settings(STEPS)) {
        let plan = Plan { faithful: true, ..plan };
        if let Err(fault) = run(&plan, &steps) {
            prop_assert!(false, "{}", fault);
        }
    }
}

/// Do the same calls give the same answers?
#[test]
fn the_same_calls_give_the_same_answers() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..200 {
        let (plan, steps) = draw(&mut runner);
        assert_eq!(run(&plan, &steps), run(&plan, &steps));
    }
}

/// Does the random driver reach what it should test: full pools, merges, flushes, refusals,
/// withdrawals from merged requests, idling, joined queues?
#[test]
fn the_driver_goes_everywhere() {
    let mut runner = TestRunner::deterministic();
    let mut all = Census::default();
    let mut used = vec![false; choices()];
    for _ in 0..1000 {
        let (plan, steps) = draw(&mut runner);
        used[plan.elevator] = true;
        let one = run(&plan, &steps).unwrap_or_else(|fault| panic!("{plan:?} {steps:?}: {fault}"));
        all.submitted += one.submitted;
        all.commands += one.commands;
        all.merged += one.merged;
        all.busies += one.busies;
        all.wakes += one.wakes;
        all.flushes += one.flushes;
        all.refusals += one.refusals;
        all.cancels += one.cancels;
        all.merged_cancels += one.merged_cancels;
        all.changes += one.changes;
        all.idle_waits += one.idle_waits;
        all.joined += one.joined;
    }
    println!("{all:?}");
    assert!(used.iter().all(|&used| used));
    let reached = [
        all.submitted,
        all.commands,
        all.merged,
        all.busies,
        all.wakes,
        all.flushes,
        all.refusals,
        all.cancels,
        all.merged_cancels,
        all.changes,
        all.idle_waits,
        all.joined,
    ];
    assert!(reached.iter().all(|&count| count >= 25), "{all:?}");
}

fn draw(runner: &mut TestRunner) -> (Plan, Vec<world::Step>) {
    let strategy = (plans(), steps(STEPS));
    strategy.new_tree(runner).expect("nothing is filtered out").current()
}

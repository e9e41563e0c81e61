// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the property test notice a bug? The test of the tests.
//!
//! For each bug that can be planted (see `src/planted.rs`) the driver of `properties.rs` runs on
//! queues with that bug: it strikes once in each, at the n-th opportunity. The harness must report
//! it, as an `Err` and not by a panic, in some of a bounded number of sequences; without the bug
//! the same sequences must pass.
//!
//! There are two checks: the audit sees the inside, the model sees what a caller sees. A bug that
//! shows outside (a client is not woken, a bio never ends) the model must see without the audit's
//! help. (A bio that ends twice takes the queue's own counts below zero, and so stops it, before a
//! caller sees it.)

use paternoster_core::planted::Bug;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::common::world::{Plan, Step, plans, run, steps};

/// At most this many sequences may pass before a bug is noticed. Most cannot strike in a given
/// sequence at all: no client sleeps, or the elevator stays.
const SEQUENCES: usize = 400;

/// The same sequences for every bug.
fn sequences() -> Vec<(Plan, Vec<Step>)> {
    let mut runner = TestRunner::deterministic();
    let strategy = (plans(), steps(150));
    let mut draw = || strategy.new_tree(&mut runner).expect("nothing is filtered out").current();
    (0..SEQUENCES).map(|_| draw()).collect()
}

/// How many sequences report `bug` when it strikes at opportunity `after`, and the first report.
fn reports(bug: Bug, after: u32, audits: bool) -> (usize, String) {
    let (mut count, mut first) = (0, String::new());
    for (plan, mut steps) in sequences() {
        if !audits {
            // Withdrawing or explaining a bio that the queue has forgotten trips its assertions.
            steps.retain(|step| !matches!(step, Step::Cancel(_) | Step::Explain(_)));
        }
        let sick = Plan { bug: Some((bug, after)), audits, ..plan };
        if let Err(fault) = run(&sick, &steps) {
            count += 1;
            if count == 1 {
                first = fault;
            }
        }
    }
    println!(
        "{bug:?} after {after}, audit {audits}: {count} of {SEQUENCES} report, first: {first}"
    );
    (count, first)
}

/// Do the sequences pass when nothing is wrong?
#[test]
fn the_sequences_pass_without_a_bug() {
    for (plan, steps) in sequences() {
        for audits in [true, false] {
            assert_eq!(run(&Plan { audits, ..plan }, &steps).err(), None, "{plan:?} {steps:?}");
        }
    }
}

/// Is a client that is never woken noticed?
#[test]
fn a_lost_wake_is_noticed() {
    for after in [0, 1, 4, 16] {
        for audits in [true, false] {
            let (count, fault) = reports(Bug::LostWake, after, audits);
            assert!(count > 0, "after {after}");
            assert!(fault.contains("W6"), "{fault}");
        }
    }
}

/// Is a bio that is handed back twice noticed?
#[test]
fn a_double_completion_is_noticed() {
    for after in [0, 1, 4, 16] {
        let (count, _) = reports(Bug::DoubleCompletion, after, true);
        assert!(count > 0, "after {after}");
    }
}

/// Is a bio that is never handed back noticed?
#[test]
fn a_forgotten_bio_is_noticed() {
    for after in [0, 1, 4] {
        for audits in [true, false] {
            let (count, fault) = reports(Bug::ForgottenBio, after, audits);
            assert!(count > 0, "after {after}");
            // By W5, at the latest at the end, when the queue says that it is empty.
            assert!(audits || fault.contains("W5"), "{fault}");
        }
    }
}

/// Is it noticed that an elevator gets the end of a request that it never knew? The fixture
/// notices.
#[test]
fn a_completion_of_an_old_epoch_is_noticed() {
    for after in [0, 1, 4] {
        let (count, fault) = reports(Bug::OldEpoch, after, true);
        assert!(count > 0, "after {after}");
        assert!(fault.contains("slices S7"), "{fault}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the crash test notice a bug of the flush sequencer? The test of the test.
//!
//! For each bug of `paternoster_core::planted` that concerns flushes the workloads of `power_cuts`
//! run on queues that have it: it strikes once in each, at the n-th opportunity. The search has to
//! find it, and shrink it to a case that a person can follow.

use paternoster_core::planted::Bug;

use crate::power_cuts::search::search;
use crate::power_cuts::workload::Ills;

/// How the bugs show from outside.
const BUGS: [(Bug, &[&str]); 4] = [
    // A flush that never became a command covers nothing.
    (Bug::ElidedFlush, &["lost", "P3"]),
    // FUA data that no flush covered.
    (Bug::EarlyPostflush, &["lost"]),
    // A write that ended while the flush was inside, and was reported as covered.
    (Bug::SharedTooLate, &["lost", "P3"]),
    // A request waits, and the disk is empty.
    (Bug::LostRestart, &["S1"]),
];

/// Cuts within which each has to be found.
const FOUND_WITHIN: u64 = 60_000;

/// Steps of the smallest case, at most.
const STEPS: usize = 8;

/// Is each of the bugs found, early or late in a run, with its own symptom?
#[test]
fn every_bug_of_the_sequencer_is_found() {
    for (bug, signs) in BUGS {
        for after in [0, 1, 3] {
            let found = search(1, FOUND_WITHIN, Ills::default(), &|queue| queue.plant(bug, after));
            let Err(loss) = found else {
                panic!("{bug:?} after {after} was not noticed: {found:?}");
            };
            println!("{bug:?} after {after}: {loss}");
            assert!(signs.iter().any(|sign| loss.fault.contains(sign)), "{bug:?}: {loss}");
            let most = STEPS * (after as usize + 1);
            assert!(loss.steps.len() <= most, "{bug:?} after {after}: {loss}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! When BFQ is asked: on arrivals, and once more after no result, but not after each completion.

use super::*;
use crate::bfq::tunables::Inject;

/// Two readers in groups of different weight: the heavier one is served alone, the other waits.
fn served_and_waiting() -> (Bench, RequestId) {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    bench.bfq.tunables.completion_runs = false;
    bench.bfq.tunables.inject = Inject::Off;
    let groups = [300, 100].map(|weight| bench.group(weight));
    let [heavy, light] = groups.map(|group| bench.client_in(group, Class::BestEffort, 4));
    bench.read(heavy, FAR);
    let first = bench.pick().expect("it is served at once");
    bench.read(light, 3 * FAR);
    (bench, first)
}

/// Is nothing chosen after a completion if the device is kept for its queue, and is BFQ asked once
/// more 3 ms after a call without a result?
#[test]
fn bfq_46_a_completion_does_not_ask() {
    let (mut bench, first) = served_and_waiting();
    assert_eq!(bench.pick(), Err(Pick::Idle));
    let again = bench.bfq.runs.seen().1.expect("a run, since something waits");
    assert_eq!(again, bench.view.exact_now() + Nanos::from_millis(3));
    bench.end(first);
    assert!(!bench.bfq.runs.seen().0, "the device is kept: no client asks");
    assert_eq!(bench.pick(), Err(Pick::Idle));
}

/// With completion_runs, does every call count, and no run follow?
#[test]
fn completion_runs_need_no_timer() {
    let (mut bench, _) = served_and_waiting();
    bench.bfq.tunables.completion_runs = true;
    assert_eq!(bench.pick(), Err(Pick::Await));
    assert_eq!(bench.bfq.runs.seen().1, None);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! bfq: a queue raised for long was not merged before seed 004's last patch removed the test.

use paternoster_core::{
    Bio, ClientSpec, DeviceFacts, Event, Nanos, Note, Observer, Op, Output, RequestQueue,
};

/// Counts merges.
#[derive(Debug, Default)]
struct Merges(u32);

impl Observer for Merges {
    fn event(&mut self, _: &Event) {}

    fn note(&mut self, _: Nanos, _: u64, note: &Note) {
        self.0 += u32::from(matches!(note, Note::QueuesMerged { .. }));
    }
}

/// A disk that takes one command at a time: one client is served at sector 1000 and has more to do,
/// another waits far away; after `after` its next request lies next to where the first one is.
/// Returns how many merges there are.
fn merges(after: Nanos, settings: &[(&str, &str)]) -> u32 {
    let facts = DeviceFacts { rotational: true, depth: 1, ..DeviceFacts::default() };
    let elevator = paternoster_schedulers::by_name("bfq-4.19").expect("it is there");
    let mut queue = RequestQueue::builder(facts, elevator)
        .observer(Merges::default())
        .build()
        .expect("its limits work");
    // So that no client waits for a request of the queue.
    for (name, value) in [("nr_requests", "64")].iter().chain(settings) {
        queue.set_attribute(Nanos::ZERO, name, value).expect("it has that");
    }
    let [served, other] =
        [(); 2].map(|()| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room"));
    for (at, client, sector) in [
        (Nanos::ZERO, served, 1000),
        (Nanos::ZERO, served, 5000),
        (Nanos::ZERO, other, 10_000_000),
        (after, other, 1100),
    ] {
        queue.submit(at, Bio::new(client, Op::Read, sector, 8)).expect("room");
        while !matches!(queue.next(at), Output::Wait { .. }) {}
    }
    queue.observer().0
}

/// Is a queue raised for more than 100 ms merged at any time without the window and the older test;
/// is it not with the older test; and not for lack of raising either: does the older test still
/// apply with `low_latency=0`?
#[test]
fn bfq_127_the_older_test_spares_who_is_raised() {
    let at_any_time = ("merge_window", "0");
    let (soon, late) = (Nanos::from_millis(50), Nanos::from_millis(150));
    assert_eq!(merges(late, &[at_any_time]), 1);
    assert_eq!(merges(late, &[at_any_time, ("late_raise_check", "1")]), 0);
    assert_eq!(merges(soon, &[at_any_time, ("late_raise_check", "1")]), 1);
    let nobody_raised = ("low_latency", "0");
    assert_eq!(merges(late, &[at_any_time, ("late_raise_check", "1"), nobody_raised]), 1);
}

/// Does the window make the older test superfluous here, as the last patch says: the queue that is
/// served is too late after 100 ms, raised or not?
#[test]
fn bfq_127_the_window_spares_all() {
    let (soon, late) = (Nanos::from_millis(50), Nanos::from_millis(150));
    for low_latency in ["0", "1"] {
        assert_eq!(merges(late, &[("low_latency", low_latency)]), 0);
        assert_eq!(merges(soon, &[("low_latency", low_latency)]), 1);
    }
}

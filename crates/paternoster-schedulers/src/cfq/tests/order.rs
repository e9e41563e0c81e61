// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which queues are served: trees, keys, what a turn leaves to the next, workloads.
//! CFQ-4, 5, 7, 8, 19; CFQ-63; the restart of workloads.

use super::*;
use crate::cfq::kind::{IDLE_TREE, Kind, tree_of};

const FAR: u64 = 1 << 24;

/// In the idle class, is idle_window never set, is the queue in the tree of that class, and is its
/// level 7? Also, with its next request, when it was best effort before.
#[test]
fn cfq_4_the_idle_class_has_a_tree_of_its_own() {
    each(|mut bench| {
        let client = bench.client_of(Class::Idle, 3);
        for sector in 0..5 {
            bench.read(client, sector * 8);
            assert!(!bench.queue(client).idle_window);
        }
        assert_eq!(bench.tree(client), IDLE_TREE);
        assert_eq!(bench.queue(client).priority.level, 7);

        let other = bench.client();
        let first = bench.read(other, FAR);
        assert!(bench.queue(other).idle_window);
        bench.withdraw(first);
        bench.view.set_priority(other, Priority { class: Class::Idle, level: 4 });
        bench.cfq.client_changed(&mut bench.view, other);
        bench.read(other, FAR);
        assert!(!bench.queue(other).idle_window);
        assert_eq!(bench.tree(other), IDLE_TREE);
    });
}

/// If a queue in the tree of those idled for turns seeky while it has the device, is it counted
/// there until its slice ends, and then put among those that are not idled for? Five seeks of 32
/// make it seeky.
#[test]
fn cfq_5_a_queue_changes_its_tree_only_when_it_is_put_in() {
    each(|mut bench| {
        let client = bench.client();
        bench.read(client, 0);
        for jump in 1..=5 {
            // One waits at a time: four at once would make the queue deep.
            assert!(bench.pick().is_ok());
            bench.read(client, jump * 100_000);
        }
        let sync = tree_of(Class::BestEffort, Kind::Sync);
        assert_eq!(bench.queue(client).kind(), Kind::NoIdle);
        assert_eq!((bench.tree(client), bench.cfq.schedule.groups[0].trees[sync].len()), (sync, 1));
        bench.cfq.expire(&mut bench.view, false);
        assert_eq!(bench.tree(client), tree_of(Class::BestEffort, Kind::NoIdle));
        bench.audit();
    });
}

/// With three busy queues and no residual, is the key of a queue that is put back now + 2 * (180 -
/// own slice): 160 ms ahead for sync level 4, now for level 0, 280 ms for async level 4?
#[test]
fn cfq_7_keys_of_queues_that_are_put_in_again() {
    each(|mut bench| {
        let [four, zero, writer] = [4, 0, 4].map(|level| bench.client_of(Class::BestEffort, level));
        bench.read(four, 0);
        bench.read(zero, FAR);
        bench.write(writer, 2 * FAR);
        bench.at(1000);
        let queues = [bench.number(four), bench.number(zero), bench.shared(writer)];
        for queue in queues {
            bench.stand(queue, false);
        }
        let keys = queues.map(|queue| bench.key(queue));
        assert_eq!(keys, [1160 * MS, 1000 * MS, 1280 * MS]);
    });
}

/// Is a new queue not yet counted in its own key (CFQ-7)? The first has (0 - 1) * 80 ms, the second
/// at level 0 (1 - 1) * 0, the third, async, (2 - 1) * 140.
#[test]
fn cfq_7_a_new_queue_is_not_counted() {
    each(|mut bench| {
        let [four, zero, writer] = [4, 0, 4].map(|level| bench.client_of(Class::BestEffort, level));
        bench.read(four, 0);
        bench.read(zero, FAR);
        bench.write(writer, 2 * FAR);
        let keys = [bench.number(four), bench.number(zero), bench.shared(writer)];
        assert_eq!(keys.map(|queue| bench.key(queue)), [-80 * MS, 0, 140 * MS]);
    });
}

/// A reader with three requests and another with one; the slice of the first is 10 to 110 ms, its
/// second request is in the device.
fn in_its_slice(bench: &mut Bench) -> (ClientId, RequestId) {
    let [client, other] = [(); 2].map(|()| bench.client());
    for sector in [0, 8, 16] {
        bench.read(client, sector);
    }
    bench.read(other, FAR);
    let first = bench.pick().unwrap();
    bench.at(10);
    bench.end(first);
    (client, bench.pick().unwrap())
}

/// If a slice was overrun by 30 ms when a request ended, is the next key 30 ms later than without?
/// One other queue: 80 ms ahead.
#[test]
fn cfq_8_an_overrun_is_subtracted() {
    for (ms, key) in [(110, 110 + 80), (140, 140 + 80 + 30)] {
        each(|mut bench| {
            let (client, second) = in_its_slice(&mut bench);
            bench.at(ms);
            bench.end(second);
            assert_eq!(bench.cfq.service.queue(), None);
            assert_eq!(bench.key(bench.number(client)), key * MS);
        });
    }
}

/// After a preemption with 40 ms left, is the next key 40 ms earlier? At 70 ms a third queue comes,
/// of the real-time class: 70 + 2 * 80 - 40.
#[test]
fn cfq_8_what_a_preemption_took_is_given_back() {
    each(|mut bench| {
        let (client, _) = in_its_slice(&mut bench);
        let hurried = bench.client_of(Class::Realtime, 4);
        bench.at(70);
        bench.read(hurried, 2 * FAR);
        assert_eq!(bench.key(bench.number(client)), 190 * MS);
    });
}

/// After a preemption before any completion, is nothing given back in 2.6.34, and the whole slice
/// of 100 ms later on (CFQ-66)? 5 + 2 * 80 [- 100].
#[test]
fn cfq_8_a_slice_that_has_not_started() {
    each(|mut bench| {
        let [client, other] = [(); 2].map(|()| bench.client());
        let hurried = bench.client_of(Class::Realtime, 4);
        bench.read(client, 0);
        bench.read(client, 8);
        bench.read(other, FAR);
        bench.pick().unwrap();
        bench.at(5);
        bench.read(hurried, 2 * FAR);
        let given_back = if bench.is(LINUX_2_6_34) { 0 } else { 100 };
        assert_eq!(bench.key(bench.number(client)), (165 - given_back) * MS);
    });
}

/// If the timer ends a slice, is nothing kept of it? It idles from 10 to 18 ms; put back at 20 ms
/// with one other, which alone is counted: 20 + (1 - 1) * 80.
#[test]
fn cfq_8_an_idle_queue_keeps_nothing() {
    each(|mut bench| {
        let [client, other] = [(); 2].map(|()| bench.client());
        bench.read(client, 0);
        bench.read(other, FAR);
        let first = bench.pick().unwrap();
        bench.at(10);
        bench.end(first);
        assert_eq!(bench.view.timer(), Nanos::from_millis(18));
        bench.at(18);
        assert_eq!((bench.cfq.service.queue(), bench.queue(client).slice.residual), (None, 0));
        bench.at(20);
        bench.read(client, 8);
        assert_eq!(bench.key(bench.number(client)), 20 * MS);
    });
}

/// With 300 ms for the group, and two queues idled for, one that is not and one async, does a
/// workload of each kind get 300 * 2/4, 300 * 1/4, and min(300 * 1/4, 300 * 1/4) * 40/100 ms? The
/// kind with the lowest key is served, which the first to come has.
#[test]
fn cfq_19_workloads_share_by_their_queues() {
    for (first, kind, ms) in [(0, Kind::Sync, 150), (2, Kind::NoIdle, 75), (3, Kind::Async, 30)] {
        each(|mut bench| {
            for who in (first..4).chain(0..first) {
                let client = bench.client();
                let sector = who * FAR;
                match who {
                    2 => bench.read_unidled(client, sector),
                    3 => bench.write(client, sector),
                    _ => bench.read(client, sector),
                };
            }
            bench.at(1000);
            bench.cfq.first_of_workload(&bench.view);
            let serving = bench.cfq.workload.serving;
            assert_eq!((serving.class, serving.kind), (Class::BestEffort, kind));
            assert_eq!(serving.expires, Some(Nanos::from_millis(1000 + ms)));
        });
    }
}

/// Does a workload of sync queues get at least twice slice_idle, and any at least two ticks (1 ms
/// each where time is exact)? With target_latency 2 ms and two queues it would be 2 * 1/2 = 1 ms.
#[test]
fn cfq_19_workloads_are_not_shorter_than_two_idles() {
    for (idle, ms) in [(8, 16), (1, 2), (0, 2)] {
        each(|mut bench| {
            bench.cfq.tunables.target_latency = Nanos::from_millis(2);
            bench.cfq.tunables.slice_idle = Nanos::from_millis(idle);
            let [reader, writer] = [(); 2].map(|()| bench.client());
            bench.read(reader, 0);
            bench.write(writer, FAR);
            bench.at(1000);
            bench.cfq.first_of_workload(&bench.view);
            assert_eq!(bench.cfq.workload.serving.expires, Some(Nanos::from_millis(1000 + ms)));
        });
    }
}

/// Does a change of class begin a new workload from 2.6.38 on? Best effort has 50 ms left of its
/// time when a real-time queue of the same kind comes: 2.6.34 goes on with these 50 ms, later
/// kernels begin with 300 * 1/1.
#[test]
fn a_change_of_class_begins_a_workload() {
    each(|mut bench| {
        let [calm, hurried] =
            [Class::BestEffort, Class::Realtime].map(|class| bench.client_of(class, 4));
        bench.read(calm, 0);
        bench.cfq.workload.serving = Serving {
            group: Some(0),
            class: Class::BestEffort,
            kind: Kind::Sync,
            expires: Some(Nanos::from_millis(50)),
        };
        bench.cfq.schedule.groups[0].saved = bench.cfq.workload.rest(bench.view.now());
        bench.read(hurried, FAR);
        bench.cfq.first_of_workload(&bench.view);
        let ms = if bench.is(LINUX_2_6_34) { 50 } else { 300 };
        let Serving { class, expires, .. } = bench.cfq.workload.serving;
        assert_eq!((class, expires), (Class::Realtime, Some(Nanos::from_millis(ms))));
    });
}

/// Is the rest of a workload kept when a queue of the same kind preempts, and dropped from 2.6.38
/// on when one of another kind does? A writer has the device, a reader comes.
#[test]
fn a_preemption_by_another_kind_forgets_the_workload() {
    each(|mut bench| {
        let [writer, reader] = [(); 2].map(|()| bench.client());
        bench.write(writer, 0);
        bench.write(writer, 800);
        bench.pick().unwrap();
        bench.read(reader, FAR);
        assert_eq!(bench.cfq.service.queue(), None);
        assert_eq!(bench.cfq.schedule.groups[0].saved.is_some(), bench.is(LINUX_2_6_34));

        let mut bench = Bench::new(bench.cfq.version, disk(1));
        let [calm, hurried] =
            [Class::BestEffort, Class::Realtime].map(|class| bench.client_of(class, 4));
        bench.read(calm, 0);
        bench.read(calm, 800);
        bench.pick().unwrap();
        bench.read(hurried, FAR);
        assert_eq!(bench.cfq.service.queue(), None);
        assert!(bench.cfq.schedule.groups[0].saved.is_some());
    });
}

/// Is a preempting queue put a second before the first of its tree, which is normally itself
/// (CFQ-63)? A real-time queue comes at 200 ms, with one other busy: its own key is 200 + (1 - 1) *
/// 80 ms, in front it is -800. Another one that is put in front of both has -1800.
#[test]
fn a_preempting_queue_stands_a_second_before_the_first() {
    each(|mut bench| {
        let calm = bench.client();
        let [hurried, urgent] = [(); 2].map(|()| bench.client_of(Class::Realtime, 4));
        bench.read(calm, 0);
        bench.read(calm, 8);
        bench.pick().unwrap();
        bench.at(200);
        bench.read(hurried, FAR);
        assert_eq!(bench.key(bench.number(hurried)), (200 - 1000) * MS);
        bench.read(urgent, 2 * FAR);
        let queue = bench.number(urgent);
        bench.stand(queue, true);
        assert_eq!(bench.key(queue), (200 - 2000) * MS);
        bench.audit();
    });
}

/// Is a queue of the idle class put 200 ms after the last of them, or after now if there is none?
#[test]
fn the_idle_class_stands_in_line() {
    each(|mut bench| {
        let clients = [(); 3].map(|()| bench.client_of(Class::Idle, 7));
        bench.at(50);
        for (place, &client) in clients.iter().enumerate() {
            bench.read(client, place as u64 * FAR);
        }
        let keys = clients.map(|client| bench.key(bench.number(client)));
        assert_eq!(keys, [250 * MS, 450 * MS, 650 * MS]);
    });
}

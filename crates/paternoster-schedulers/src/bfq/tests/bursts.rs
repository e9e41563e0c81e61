// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many that start together. BFQ-110 to BFQ-115; `low_latency` is on.

use super::super::weight_raising::Kind;
use super::*;

/// New processes, each making its first request `apart` after the one before; the device does
/// nothing for them.
fn starters(bench: &mut Bench, count: u64, apart: u64) -> Vec<ClientId> {
    let start = |place: u64| {
        if place > 0 {
            bench.later(apart);
        }
        let client = bench.client();
        bench.read(client, (place + 1) * FAR);
        client
    };
    (0..count).map(start).collect()
}

/// New processes whose first request finds the device idle: each is served before the next comes.
fn one_by_one(bench: &mut Bench, count: u64, apart: u64) -> Vec<ClientId> {
    let start = |place: u64| {
        let client = bench.client();
        bench.read(client, (place + 1) * FAR);
        bench.serve();
        bench.later(apart);
        let _ = bench.pick();
        client
    };
    (0..count).map(start).collect()
}

fn latency(facts: DeviceFacts, test: impl Fn(Bench)) {
    each(facts, |mut bench| {
        bench.set("low_latency", 1);
        test(bench);
    });
}

/// Is a queue considered only once, at its first request; not if it is in a burst already; and not
/// within 10 ms of a split?
#[test]
fn bfq_110_a_queue_is_considered_once() {
    latency(disk(1), |mut bench| {
        let clients = starters(&mut bench, 2, 10);
        assert_eq!(bench.bfq.bursts.size(), 2);
        bench.read(clients[0], 9 * FAR);
        let queue = bench.number(clients[0]);
        bench.judge_burst(queue);
        assert_eq!(bench.bfq.bursts.size(), 2);
        for (ago, size) in [(10, 2), (11, 3)] {
            let client = bench.client();
            let queue = bench.bfq.new_queue(&bench.view, client, true).expect("room");
            bench.bfq.queues.at_mut(queue).split_at = Some(bench.view.now() - ms(ago));
            bench.judge_burst(queue);
            assert_eq!(bench.bfq.bursts.size(), size, "{ago} ms");
            bench.bfq.bursts.leave(queue, true);
            bench.bfq.queues.free(queue);
        }
    });
}

/// In 6.18, does a series begin only on a device without work, and does nothing count until one has
/// begun?
#[test]
fn bfq_110_a_series_begins_at_rest() {
    latency(disk(1), |mut bench| {
        bench.set("low_latency", 0);
        let [_] = bench.readers();
        let (_, id) = bench.picked();
        bench.end(id);
        bench.at(1500);
        bench.readers::<1>();
        bench.bfq.bursts.forget();
        let late = bench.client();
        bench.read(late, 9 * FAR);
        assert_eq!(bench.bfq.bursts.size(), u32::from(bench.is(LINUX_4_19)));
    });
}

/// Does a series end after 180 ms, and with a queue of another group: the list is then that queue
/// alone, or in 6.18 empty if the device has work?
#[test]
fn bfq_111_a_series_ends() {
    for (apart, size) in [(180, 3), (181, 1)] {
        latency(disk(1), |mut bench| {
            starters(&mut bench, 2, 10);
            bench.later(apart);
            let late = bench.client();
            bench.read(late, 9 * FAR);
            // The others still wait.
            let none = size == 1 && bench.is(LINUX_6_18);
            assert_eq!(bench.bfq.bursts.size(), if none { 0 } else { size }, "{apart} ms");
            assert_eq!(bench.bfq.bursts.listed(), bench.bfq.bursts.size());
        });
    }
    latency(disk(1), |mut bench| {
        starters(&mut bench, 2, 10);
        let group = bench.group(100);
        let late = bench.member(group);
        bench.read(late, 9 * FAR);
        assert_eq!(bench.bfq.bursts.size(), u32::from(bench.is(LINUX_4_19)));
        let other = bench.member(group);
        bench.read(other, 10 * FAR);
        assert_eq!(bench.bfq.bursts.size(), if bench.is(LINUX_4_19) { 2 } else { 0 });
    });
}

/// Does the eighth queue make a burst large: it and the seven before are marked, the list is empty,
/// and all that follow are marked too?
#[test]
fn bfq_112_the_eighth_makes_it_large() {
    latency(disk(1), |mut bench| {
        let mut clients = starters(&mut bench, 7, 10);
        assert_eq!((bench.bfq.bursts.size(), bench.bfq.bursts.is_large()), (7, false));
        assert!(clients.iter().all(|&client| !bench.queue(client).in_large_burst));
        for place in 0..2 {
            bench.later(10);
            let client = bench.client();
            bench.read(client, (10 + place) * FAR);
            clients.push(client);
            assert!(bench.bfq.bursts.is_large() && bench.bfq.bursts.listed() == 0);
            assert!(clients.iter().all(|&client| bench.queue(client).in_large_burst));
        }
    });
}

/// Of eight processes that start together on an idle device, is none raised in the end, the first
/// seven from their next dispatch on; and is each of seven?
#[test]
fn bfq_113_eight_are_too_many() {
    for (count, raised) in [(7, 7), (8, 0)] {
        latency(disk(1), |mut bench| {
            let clients = starters(&mut bench, count, 10);
            for _ in &clients {
                bench.serve();
                while bench.bfq.queues.waiting() > 0 && bench.view.timer() < Nanos::MAX {
                    bench.later(1);
                }
            }
            let is_raised = |&&client: &&ClientId| bench.queue(client).raising.is_raised();
            assert_eq!(clients.iter().filter(is_raised).count(), raised, "of {count}");
        });
    }
}

/// In 6.18, if another queue had work when the series began, are all eight raised?
#[test]
fn bfq_113_not_beside_others_in_6_18() {
    latency(disk(1), |mut bench| {
        let [_] = bench.readers();
        bench.at(2000);
        let clients = starters(&mut bench, 8, 10);
        let marked = clients.iter().filter(|&&client| bench.queue(client).in_large_burst).count();
        assert_eq!(marked, if bench.is(LINUX_4_19) { 8 } else { 0 });
    });
}

/// After more than 10 s of rest, does a queue no longer belong to a burst, without shrinking the
/// burst; and does a queue that is given up shrink it?
#[test]
fn bfq_114_who_leaves_a_burst() {
    for (rest, listed) in [(9_000, true), (11_000, false)] {
        latency(disk(1), |mut bench| {
            let clients = one_by_one(&mut bench, 2, 20);
            assert_eq!(bench.bfq.bursts.size(), 2);
            bench.later(rest);
            bench.read(clients[0], FAR);
            let queue = bench.number(clients[0]);
            assert_eq!(bench.bfq.bursts.lists(queue), listed, "{rest} ms");
            assert_eq!(bench.bfq.bursts.size(), 2);
            let other = bench.number(clients[1]);
            bench.bfq.client_detached(&mut bench.view, clients[1]);
            assert!(!bench.bfq.queues.is_live(other));
            assert_eq!(
                (bench.bfq.bursts.size(), bench.bfq.bursts.listed()),
                (1, u32::from(listed))
            );
        });
    }
    latency(disk(1), |mut bench| {
        let clients = one_by_one(&mut bench, 8, 20);
        assert!(bench.queue(clients[0]).in_large_burst);
        bench.later(11_000);
        bench.read(clients[0], FAR);
        assert!(!bench.queue(clients[0]).in_large_burst);
    });
}

/// Is a queue of a large burst not raised when it comes back, and in 4.19 not idled for by weight?
#[test]
fn bfq_115_what_a_large_burst_costs() {
    latency(flash(32), |mut bench| {
        let clients = one_by_one(&mut bench, 8, 20);
        bench.later(3000);
        bench.read(clients[0], FAR);
        assert_eq!(bench.queue(clients[0]).raising.kind, Kind::No);
        let light = bench.client_of(Class::BestEffort, 7);
        bench.read(light, 20 * FAR);
        let idles = bench.bfq.idles_for_guarantees(bench.number(clients[0]));
        assert_eq!(idles, bench.is(LINUX_6_18));
    });
}

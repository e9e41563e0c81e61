// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many requests of a queue are in flight. CFQ-20 to CFQ-25; the sole sync queue; expired async
//! requests (16.4).

use paternoster_core::{Class, ClientId, ClientSpec, Nanos, Waiting};

use super::{FAR, each};
use crate::common::driver::Rig;

fn reads(rig: &mut Rig, client: ClientId, from: u64, count: u64) {
    for n in 0..count {
        rig.read(client, from + n * 100, 8);
    }
}

fn writes(rig: &mut Rig, client: ClientId, from: u64, count: u64) {
    for n in 0..count {
        rig.write(client, from + n * 100, 8);
    }
}

/// With two busy readers, quantum 8 and a device that never refuses: does the active one have
/// exactly 4 in flight before its first completion, then 8 while now + 8 ms * (in flight) is within
/// its slice, else 4? The slice is 1 to 101 ms. At 1 ms the eighth goes with 7 in flight: 1 + 56.
/// At 70 none goes with 4 in flight: 70 + 32 = 102; at 69: 101, one goes, and then 69 + 40 is too
/// late.
#[test]
fn cfq_20_half_the_quantum_or_the_whole() {
    each(100, |preset, mut rig| {
        let [client, other] = [(); 2].map(|()| rig.client());
        reads(&mut rig, client, 0, 50);
        reads(&mut rig, other, FAR, 1);
        assert_eq!((rig.pull().len(), rig.why), (4, Waiting::Completion), "{preset}");
        rig.at(1);
        rig.complete_oldest();
        assert_eq!(rig.pull().len(), 5, "{preset}: 3 fly, 8 may");
        rig.at(69);
        for _ in 0..4 {
            rig.complete_oldest();
        }
        assert_eq!(rig.pull().len(), 1, "{preset}: 4 fly");
        rig.at(70);
        rig.complete_oldest();
        assert_eq!(rig.pull().len(), 0, "{preset}: 4 fly");
        rig.complete_oldest();
        assert_eq!(rig.pull().len(), 1, "{preset}: 3 fly");
    });
}

/// Does a quantum of 1 still let one go?
#[test]
fn cfq_20_at_least_one() {
    each(100, |preset, mut rig| {
        rig.set("quantum", "1");
        let [client, other] = [(); 2].map(|()| rig.client());
        reads(&mut rig, client, 0, 5);
        reads(&mut rig, other, FAR, 1);
        assert_eq!(rig.pull().len(), 1, "{preset}");
    });
}

/// With a sole busy queue, is there no limit in flight?
#[test]
fn cfq_21_a_sole_queue_has_no_limit() {
    each(100, |preset, mut rig| {
        let client = rig.client();
        reads(&mut rig, client, 0, 100);
        assert_eq!(rig.pull().len(), 100, "{preset}");
    });
}

/// From 3.0 on, is the sole sync queue not held back by async ones?
#[test]
fn a_sole_sync_queue_has_no_limit_in_later_kernels() {
    each(100, |preset, mut rig| {
        let [reader, writer] = [(); 2].map(|()| rig.client());
        reads(&mut rig, reader, 0, 50);
        writes(&mut rig, writer, FAR, 5);
        assert_eq!(rig.pull().len(), if preset == "cfq" { 4 } else { 50 }, "{preset}");
    });
}

/// A reader with a request in flight whose slice is used up, and three async writes from 0 ms on
/// that have their turn at `ms`.
fn writes_behind_a_read_in_flight(rig: &mut Rig, ms: u64) -> Vec<u64> {
    let [reader, writer] = [(); 2].map(|()| rig.client());
    reads(rig, reader, 0, 2);
    assert_eq!(rig.pulled(), [0, 100]);
    writes(rig, writer, FAR, 3);
    rig.at(1);
    rig.complete_at(0);
    assert!(rig.pulled().is_empty());
    rig.at(ms);
    rig.pulled()
}

/// With a sync request in flight, does no async one go, even in its own turn? The slice is 1 to 101
/// ms.
#[test]
fn cfq_22_async_waits_for_sync_in_flight() {
    each(100, |preset, mut rig| {
        assert_eq!(writes_behind_a_read_in_flight(&mut rig, 101), [], "{preset}");
        assert_eq!(rig.why, Waiting::Completion);
        rig.complete_at(100);
        assert_eq!(rig.pulled(), [FAR, FAR + 100, FAR + 200], "{preset}");
    });
}

/// In 4.19, does an expired one go whatever is in flight (16.4), and only that one? The writes
/// expire after 250 ms.
#[test]
fn an_expired_write_is_let_through_in_4_19() {
    each(100, |preset, mut rig| {
        let gone = writes_behind_a_read_in_flight(&mut rig, 249);
        assert_eq!(gone, [], "{preset}");
    });
    each(100, |preset, mut rig| {
        let gone = writes_behind_a_read_in_flight(&mut rig, 250);
        assert_eq!(gone, if preset == "cfq-4.19" { vec![FAR] } else { vec![] }, "{preset}");
    });
}

/// With async requests in flight, does a queue that is idled for wait until they have ended? One
/// that is not need not: without slice_idle it goes at once, except in 2.6.34, which idles for the
/// last of a tree all the same.
#[test]
fn cfq_22_sync_waits_for_async_in_flight() {
    for idle in ["8", "0"] {
        each(100, |preset, mut rig| {
            rig.set("slice_idle", idle);
            let [reader, writer] = [(); 2].map(|()| rig.client());
            writes(&mut rig, writer, FAR, 2);
            assert_eq!(rig.pull().len(), 2);
            reads(&mut rig, reader, 0, 1);
            let at_once = idle == "0" && preset != "cfq";
            assert_eq!(rig.pulled().len(), usize::from(at_once), "{preset} {idle}");
            rig.complete_at(FAR);
            assert_eq!(rig.pulled(), []);
            rig.complete_at(FAR + 100);
            assert_eq!(rig.pulled().len(), usize::from(!at_once), "{preset} {idle}");
        });
    }
}

/// How many of ten async writes go at once `ms` after the end of a read that took 125 ms, which is
/// fifo_expire_sync.
fn writes_behind_a_late_read(rig: &mut Rig, took: u64, ms: u64) -> usize {
    let [reader, writer] = [(); 2].map(|()| rig.client());
    reads(rig, reader, 0, 1);
    rig.pull();
    rig.at(took);
    rig.complete_oldest();
    rig.pull();
    rig.at(took + ms);
    rig.pull();
    writes(rig, writer, FAR, 10);
    rig.pull().len()
}

/// With low_latency, after a late sync request, do async ones begin with one at a time, and get one
/// more for each slice_sync since? 50 ms: 1; 100: 1; 200 and 250: 2; 300: 3. Without low_latency a
/// sole queue has no limit. A read of 124 ms was not late: the last late one is taken to have been
/// a second before the beginning, (124 + 50 + 1000) / 100 = 11.
#[test]
fn cfq_23_async_requests_come_back_slowly() {
    for (ms, count) in [(50, 1), (99, 1), (100, 1), (199, 1), (200, 2), (250, 2), (300, 3)] {
        each(100, |preset, mut rig| {
            assert_eq!(writes_behind_a_late_read(&mut rig, 125, ms), count, "{preset} {ms}");
        });
    }
    each(100, |preset, mut rig| {
        rig.set("low_latency", "0");
        assert_eq!(writes_behind_a_late_read(&mut rig, 125, 50), 10, "{preset}");
    });
    each(100, |_, mut rig| assert_eq!(writes_behind_a_late_read(&mut rig, 124, 50), 10));
}

/// Runs of one client's commands, of 1 ms each: client, how many.
fn runs(rig: &mut Rig) -> Vec<(ClientId, usize)> {
    let mut runs: Vec<(ClientId, usize)> = Vec::new();
    loop {
        rig.pull();
        if rig.inside.is_empty() {
            return runs;
        }
        rig.now += Nanos::from_millis(1);
        let command = rig.complete_oldest();
        match runs.last_mut() {
            Some((client, count)) if *client == command.client => *count += 1,
            _ => runs.push((command.client, 1)),
        }
    }
}

/// With async queues of levels 4 and 5, do at most 16 and 12 requests make a slice? 40 each: 16,
/// 12, 16, 12, the last 8 of the first, and 16 of a queue that is alone by then.
#[test]
fn cfq_24_an_async_slice_has_so_many_requests() {
    each(1, |preset, mut rig| {
        let [four, five] = [4, 5].map(|level| {
            let client = rig.client_with(ClientSpec::new().priority(Class::BestEffort, level));
            writes(&mut rig, client, u64::from(level) * FAR, 40);
            client
        });
        let expected = [(four, 16), (five, 12), (four, 16), (five, 12), (four, 8), (five, 16)];
        assert_eq!(runs(&mut rig), expected, "{preset}");
    });
}

/// In the idle class, is one request in flight, and does its slice end with each if others are
/// busy? Two of the class take turns.
#[test]
fn cfq_25_the_idle_class_has_one_in_flight() {
    let idle = ClientSpec::new().priority(Class::Idle, 7);
    each(100, |preset, mut rig| {
        let client = rig.client_with(idle);
        reads(&mut rig, client, 0, 3);
        for sector in [0, 100, 200] {
            assert_eq!(rig.pulled(), [sector], "{preset}");
            rig.complete_oldest();
        }
    });
    each(100, |preset, mut rig| {
        let [one, other] = [0, 1].map(|place| {
            let client = rig.client_with(idle);
            reads(&mut rig, client, place * FAR, 3);
            client
        });
        let turns = [one, other].repeat(3);
        let found: Vec<ClientId> = runs(&mut rig).iter().map(|&(client, _)| client).collect();
        assert_eq!(found, turns, "{preset}");
    });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes, and what mq-deadline adds: DL-7 to DL-10.

use super::*;

// ----------------------------------------------------------------------------------- DL-7 to DL-10

fn of_class(rig: &mut Rig, class: Class) -> ClientId {
    rig.client_with(ClientSpec::new().priority(class, 4))
}

/// Does a lower class wait until a higher one has nothing in the device either? Depth 2, so there
/// is room.
#[test]
fn dl_7_what_is_in_flight_counts() {
    for elevator in MODERN {
        for (higher, lower) in [
            (Class::Realtime, Class::BestEffort),
            (Class::Realtime, Class::Idle),
            (Class::BestEffort, Class::Idle),
        ] {
            let mut rig = Rig::new(disk(2), elevator);
            let [high, low] = [higher, lower].map(|class| of_class(&mut rig, class));
            rig.read(high, 0, 8);
            assert_eq!(rig.pulled(), [0]);
            rig.read(low, 1000, 8);
            assert!(rig.pull().is_empty());
            assert_eq!(rig.why, paternoster_core::Waiting::Completion);
            rig.at(9000);
            assert!(rig.pull().is_empty());
            rig.complete_oldest();
            assert_eq!(rig.pulled(), [1000], "{elevator}: {higher:?} before {lower:?}");
        }
    }
}

/// Does the class of the bio count before that of its client?
#[test]
fn dl_7_a_bios_own_class() {
    let (mut rig, client) = rig("mq-deadline");
    rig.read(client, 0, 8);
    let priority = Some(paternoster_core::Priority { class: Class::Realtime, level: 0 });
    rig.submit(Bio { priority, ..Bio::new(client, Op::Read, 1000, 8) });
    assert_eq!(rig.served(), [1000, 0]);
}

/// With continuous RT, is a BE request dispatched next once it is 10 s old, and not at 9.9 s? From
/// 20 s: at 29.9 not, at 30 it is.
#[test]
fn dl_8_aging() {
    for elevator in MODERN {
        let (mut rig, _) = rig(elevator);
        let urgent = of_class(&mut rig, Class::Realtime);
        let low = of_class(&mut rig, Class::BestEffort);
        rig.at(20_000);
        rig.read(low, 1000, 8);
        for n in 0..10 {
            rig.read(urgent, 5000 + n * 100, 8);
        }
        rig.at(29_900);
        assert_eq!(rig.pulled(), [5000], "9.9 s");
        rig.complete_oldest();
        rig.at(30_000);
        assert_eq!(rig.pulled(), [1000], "{elevator}: 10 s");
        assert_eq!(aged(&rig), 1);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [5100]);
    }
}

/// Of two aged classes, is BE tried before IDLE, and does another prio_aging_expire apply? 2 s
/// instead of 10.
#[test]
fn dl_8_aging_prefers_best_effort() {
    let (mut rig, _) = rig("mq-deadline");
    rig.set("prio_aging_expire", "2000");
    let [urgent, low, idle] =
        [Class::Realtime, Class::BestEffort, Class::Idle].map(|class| of_class(&mut rig, class));
    rig.at(20_000);
    rig.read(idle, 100, 8);
    rig.read(low, 200, 8);
    rig.read(urgent, 300, 8);
    rig.read(urgent, 400, 8);
    rig.at(21_999);
    assert_eq!(rig.pulled(), [300]);
    rig.complete_oldest();
    rig.at(22_000);
    assert_eq!(rig.served(), [200, 100, 400]);
    assert_eq!(aged(&rig), 2);
}

/// How old is a refused request? Its FIFO time is that of the refusal, so it counts as inserted
/// read_expire = 500 ms before: refused at 20 s it has aged at 20 - 0.5 + 10 = 29.5 s.
#[test]
fn dl_8_a_refused_request_ages_from_its_refusal() {
    for (ms, first) in [(29_499, 5000), (29_500, 1000)] {
        let (mut rig, client) = rig("mq-deadline");
        let urgent = of_class(&mut rig, Class::Realtime);
        rig.at(20_000);
        rig.read(client, 1000, 8);
        assert_eq!(rig.pulled(), [1000]);
        rig.refuse(1000);
        rig.read(urgent, 5000, 8);
        rig.at(ms);
        assert_eq!(rig.pulled(), [first], "at {ms} ms");
    }
}

/// With nr_requests 256, is async_depth 192, and do writes, sync or not, never hold more? Reads
/// take the rest, 64.
#[test]
fn dl_9_async_depth() {
    for elevator in MODERN {
        for flags in [Flags::NONE, Flags::SYNC] {
            // Depth 128: nr_requests = 2 * min(128, 128) = 256; 3 * 256 / 4 = 192.
            let mut rig = Rig::new(disk(128), elevator);
            assert_eq!(
                (rig.get("nr_requests"), rig.get("async_depth")),
                ("256".into(), "192".into())
            );
            let [writer, reader] = [0; 2].map(|_| rig.client());
            let write = |n: u64| Bio::new(writer, Op::Write, n * 100, 8).cookie(n).flags(flags);
            for n in 0..192 {
                rig.submit(write(n));
            }
            assert_eq!(rig.try_submit(write(192)), Err(SubmitError::Busy), "{elevator}");
            for n in 0..64 {
                rig.read(reader, 1_000_000 + n * 100, 8);
            }
            let more = Bio::new(reader, Op::Read, 2_000_000, 8);
            assert_eq!(rig.try_submit(more), Err(SubmitError::Busy), "192 + 64 = 256");
        }
    }
}

/// Does async_depth follow nr_requests until it is set, is it at least 1, and does it hold when
/// set?
#[test]
fn dl_9_async_depth_follows_until_set() {
    let (mut rig, client) = rig("mq-deadline");
    // 3 * n / 4, and 1 for 1.
    for (nr_requests, depth) in [("384", "288"), ("3", "2"), ("1", "1")] {
        rig.set("nr_requests", nr_requests);
        assert_eq!(rig.get("async_depth"), depth);
    }
    rig.set("nr_requests", "64");
    rig.set("async_depth", "0");
    assert_eq!(rig.get("async_depth"), "1");
    rig.set("nr_requests", "128");
    assert_eq!(rig.get("async_depth"), "1", "set once, it stays");
    rig.write(client, 0, 8);
    assert_eq!(rig.try_submit(Bio::new(client, Op::Write, 1000, 8)), Err(SubmitError::Busy));
}

/// With only one class with requests, is aging not checked, however old they are? And with two?
#[test]
fn dl_10_one_class_does_not_age() {
    for (second, expected) in [(false, 0), (true, 1)] {
        let mut rig = Rig::new(disk(2), "mq-deadline");
        let low = of_class(&mut rig, Class::BestEffort);
        let idle = of_class(&mut rig, Class::Idle);
        rig.at(20_000);
        rig.read(low, 0, 8);
        rig.at(40_000);
        if second {
            rig.read(idle, 1000, 8);
        }
        assert_eq!(rig.pulled(), [0]);
        assert_eq!(aged(&rig), expected);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is held back for a moment, by device and by client: BLK-5, BLK-6, BLK-15.

use super::*;

// ------------------------------------------------------------------------------------------- BLK-5

/// Does the plug of an empty queue hold three requests and open at the fourth?
#[test]
fn blk_5_four_waiting_requests_unplug() {
    let (mut rig, client) = device_plugged(disk(4));
    for sector in [0, 100, 200] {
        rig.read(client, sector, 8);
        assert!(rig.pull().is_empty());
        assert_eq!((rig.why, rig.until), (Waiting::Plugged, Some(Nanos::from_millis(3))));
    }
    rig.read(client, 300, 8);
    assert_eq!(rig.pulled(), [0, 100, 200, 300]);
    assert_eq!((rig.count(Action::Plug), rig.count(Action::Unplug)), (1, 1));
}

/// Does the count exclude requests in the device (allocated - in flight)? Three there and three
/// waiting stay plugged.
#[test]
fn blk_5_what_is_in_flight_does_not_count() {
    let (mut rig, client) = device_plugged(disk(8));
    for sector in [0, 100, 200, 300] {
        rig.read(client, sector, 8);
    }
    assert_eq!(rig.pull().len(), 4);
    for sector in [400, 500, 600] {
        rig.read(client, sector, 8);
        assert!(rig.pull().is_empty(), "7 allocated - 4 in flight = 3 < 4");
    }
    rig.read(client, 700, 8);
    assert_eq!(rig.pull().len(), 4);
}

/// Does the timer open it 3 ms after the first request, and not before?
#[test]
fn blk_5_the_timer_unplugs() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.at(10);
    rig.read(client, 0, 8);
    rig.at(12);
    rig.read(client, 8, 8);
    rig.at_us(12_999);
    assert!(rig.pull().is_empty());
    rig.at(13);
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 16)], "10 + 3 ms, merged meanwhile");
    assert_eq!((rig.count(Action::UnplugTimer), rig.count(Action::Unplug)), (1, 0));
}

/// If a timer is due at the instant of a submission, does it go first, as the order at one instant
/// says?
#[test]
fn timers_come_before_submissions() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.at(10);
    rig.read(client, 0, 8);
    rig.at(13);
    rig.read(client, 800, 8);
    // Opened by the timer first: the second request finds a non-empty queue and no plug.
    assert_eq!((rig.count(Action::UnplugTimer), rig.count(Action::Plug)), (1, 1));
    assert_eq!(rig.pulled(), [0]);
}

/// Does an explicit unplug open it at once?
#[test]
fn blk_5_an_explicit_unplug() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.read(client, 0, 8);
    assert!(rig.pull().is_empty());
    rig.unplug(client);
    assert_eq!(rig.pulled(), [0]);
}

/// Does a client that sleeps for a request open it? Of 4 nominal requests 4 are in the device; the
/// batcher's fifth is plugged alone; the next client sleeps, and the fifth can go once there is
/// room.
#[test]
fn blk_5_a_sleeper_unplugs() {
    let (mut rig, a) = device_plugged(disk(5));
    rig.set("nr_requests", "4");
    let b = rig.client();
    for sector in [0, 100, 200, 300] {
        rig.read(a, sector, 8);
    }
    assert_eq!(rig.pull().len(), 4);
    rig.read(a, 400, 8);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.why, Waiting::Plugged);
    assert_eq!(rig.try_submit(Bio::new(b, Op::Read, 500, 8)), Err(SubmitError::Busy));
    assert_eq!(rig.pulled(), [400]);
}

/// Which devices are plugged? All but flash that queues commands; what `rotational` says applies.
#[test]
fn blk_5_queueing_flash_is_not_plugged() {
    let flash = |depth| DeviceFacts { depth, ..DeviceFacts::default() };
    for (what, facts, plugs) in [
        ("disk, depth 1", disk(1), true),
        ("disk, depth 32", disk(32), true),
        ("flash, depth 1", flash(1), true),
        ("flash, depth 32", flash(32), false),
    ] {
        let (mut rig, client) = device_plugged(facts);
        rig.read(client, 0, 8);
        assert_eq!(rig.pull().is_empty(), plugs, "{what}");
    }
    let (mut rig, client) = device_plugged(flash(32));
    rig.set("rotational", "1");
    rig.read(client, 0, 8);
    assert!(rig.pull().is_empty(), "flash that is called rotational");
}

// ------------------------------------------------------------------------------------------- BLK-6

/// When is a legacy plug list full? 16 stay, the 17th sends them to the elevator first.
#[test]
fn blk_6_legacy_lists_hold_16() {
    let mut rig = Rig::new(disk(32), "deadline");
    let client = rig.client();
    rig.plug(client);
    for n in 0..16 {
        rig.read(client, n * 100, 8);
    }
    assert_eq!(rig.count(Action::Insert), 0);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.why, Waiting::Plugged);
    rig.read(client, 1600, 8);
    assert_eq!(rig.count(Action::Insert), 16);
    rig.unplug(client);
    assert_eq!(rig.count(Action::Insert), 17);
    assert_eq!(rig.pull().len(), 17);
}

/// When is a list full under blk-mq? 32 stay, the 33rd sends them.
#[test]
fn blk_6_mq_lists_hold_32() {
    let mut rig = Rig::new(disk(64), "mq-deadline");
    let client = rig.client();
    rig.plug(client);
    for n in 0..32 {
        rig.read(client, n * 100, 8);
    }
    assert_eq!(rig.count(Action::Insert), 0);
    rig.read(client, 3200, 8);
    assert_eq!(rig.count(Action::Insert), 32);
}

/// Does a large newest request end a list under blk-mq? 128 KiB = 256 sectors do, 255 do not;
/// legacy ignores the size.
#[test]
fn blk_6_mq_lists_end_at_128_kib() {
    for (elevator, sectors, inserted) in
        [("mq-deadline", 256, 2), ("mq-deadline", 255, 0), ("deadline", 256, 0)]
    {
        let mut rig = Rig::new(disk(64), elevator);
        let client = rig.client();
        rig.plug(client);
        rig.read(client, 0, 8);
        rig.read(client, 1000, sectors);
        assert_eq!(rig.count(Action::Insert), 0);
        rig.read(client, 5000, 8);
        assert_eq!(rig.count(Action::Insert), inserted, "{elevator}, {sectors} sectors");
    }
}

/// Is a list flushed when its client sleeps? Of 2 tags (depth 1) both are in the plug, the third
/// bio sleeps.
#[test]
fn blk_6_a_sleeper_flushes_its_plug() {
    let mut rig = Rig::new(disk(1), "mq-deadline");
    let client = rig.client();
    rig.plug(client);
    rig.read(client, 0, 8);
    rig.read(client, 100, 8);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.try_submit(Bio::new(client, Op::Read, 200, 8)), Err(SubmitError::Busy));
    assert_eq!(rig.pulled(), [0]);
    rig.complete_oldest();
    assert_eq!(rig.pulled(), [100]);
    assert_eq!(rig.wakes, [client]);
}

/// Does a client merge with its own plug first, on both sides, and with no other's?
#[test]
fn blk_6_plugs_are_private() {
    for elevator in ["deadline", "mq-deadline"] {
        let mut rig = Rig::new(disk(8), elevator);
        let [a, b] = [0; 2].map(|_| rig.client());
        rig.plug(a);
        rig.plug(b);
        rig.read(a, 8, 8);
        rig.read(a, 16, 8);
        rig.read(a, 0, 8);
        rig.read(b, 24, 8);
        // [0, 24) of a and [24, 32) of b.
        assert_eq!((rig.count(Action::Get), rig.count(Action::Insert)), (2, 0), "{elevator}");
    }
}

/// Is a legacy plug's request that continues a waiting one merged into it at insertion? [8, 16) is
/// plugged before [0, 8) comes to the elevator, so that only the insertion can find it.
#[test]
fn blk_6_legacy_merges_at_insertion() {
    for (nomerges, commands) in [("0", 1), ("1", 1), ("2", 2)] {
        let mut rig = Rig::new(disk(8), "deadline");
        rig.set("nomerges", nomerges);
        let [a, b] = [0; 2].map(|_| rig.client());
        rig.plug(a);
        rig.read(a, 8, 8);
        // [0, 8) is the first in the elevator, so it is cached: nomerges=1 finds it as well.
        rig.read(b, 0, 8);
        rig.unplug(a);
        assert_eq!(rig.pull().len(), commands, "nomerges={nomerges}");
    }
    // Not cached: nomerges=1 does not find it, 0 does.
    for (nomerges, commands) in [("0", 2), ("1", 3)] {
        let mut rig = Rig::new(disk(8), "deadline");
        rig.set("nomerges", nomerges);
        let [a, b] = [0; 2].map(|_| rig.client());
        rig.plug(a);
        rig.read(a, 8, 8);
        rig.read(b, 1000, 8);
        rig.read(b, 0, 8);
        rig.unplug(a);
        assert_eq!(rig.pull().len(), commands, "not cached, nomerges={nomerges}");
    }
}

// ------------------------------------------------------------------------------------------ BLK-15

/// Do 20 contiguous bios of 4 KiB under one plug become one request of 80 KiB = 160 sectors,
/// touching nothing but the plug?
#[test]
fn blk_15_twenty_contiguous() {
    for elevator in ["deadline", "mq-deadline"] {
        let mut rig = Rig::new(disk(32), elevator);
        let client = rig.client();
        rig.plug(client);
        for n in 0..20 {
            rig.read(client, n * 8, 8);
        }
        assert_eq!((rig.count(Action::Get), rig.count(Action::Insert)), (1, 0), "{elevator}");
        rig.unplug(client);
        assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 160)], "{elevator}");
    }
}

/// And 20 that are not? Legacy sends the first 16 when the 17th is added; blk-mq holds all 20 (its
/// limit is 32).
#[test]
fn blk_15_twenty_scattered() {
    for (elevator, early) in [("deadline", [0, 16]), ("mq-deadline", [0, 0])] {
        let mut rig = Rig::new(disk(32), elevator);
        let client = rig.client();
        rig.plug(client);
        let mut inserted = [0; 2];
        for n in 0..20 {
            rig.read(client, n * 100, 8);
            match n {
                15 => inserted[0] = rig.count(Action::Insert),
                16 => inserted[1] = rig.count(Action::Insert),
                _ => {}
            }
        }
        assert_eq!(inserted, early, "{elevator}");
    }
}

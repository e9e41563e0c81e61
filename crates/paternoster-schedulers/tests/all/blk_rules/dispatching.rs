// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes to the device, and what comes back from it: BLK-9 to BLK-12, BLK-17.

use super::*;

// ------------------------------------------------------------------------------------------- BLK-9

/// Is a device that refused while idle asked again after 3 ms? Refused at 1 ms: at 4, not at 3.999.
#[test]
fn blk_9_retry_after_3_ms() {
    for elevator in ["noop", "mq-deadline"] {
        let mut rig = Rig::new(disk(4), elevator);
        let client = rig.client();
        rig.at(1);
        rig.read(client, 0, 8);
        assert_eq!(rig.pulled(), [0]);
        rig.refuse(0);
        assert!(rig.pull().is_empty());
        assert_eq!((rig.why, rig.until), (Waiting::Refused, Some(Nanos::from_millis(4))));
        rig.at_us(3_999);
        assert!(rig.pull().is_empty());
        rig.at(4);
        assert_eq!(rig.pulled(), [0], "{elevator}");
    }
}

/// While a command is in flight, is its end the moment to try again, however late or early? No
/// timer runs; at 0.5 ms it ends.
#[test]
fn blk_9_retry_at_the_next_completion() {
    for elevator in ["noop", "mq-deadline"] {
        let mut rig = Rig::new(disk(4), elevator);
        let client = rig.client();
        rig.read(client, 0, 8);
        rig.read(client, 100, 8);
        assert_eq!(rig.pulled(), [0, 100]);
        rig.refuse(100);
        assert!(rig.pull().is_empty());
        assert_eq!((rig.why, rig.until), (Waiting::Refused, None));
        rig.at_us(500);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [100], "{elevator}");
    }
}

// ------------------------------------------------------------------------------------------ BLK-10

/// Does a forced dispatch empty an elevator that idles on purpose?
#[test]
fn blk_10_a_forced_dispatch_asks_nobody() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(1), Limits::default(), elevator);
    let client = rig.client();
    script.hold(true);
    for sector in [300, 100, 200] {
        rig.read(client, sector, 8);
    }
    assert!(rig.pull().is_empty());
    assert_eq!(rig.why, Waiting::Idling);
    assert_eq!(rig.queue.dispatch_all(rig.now), 3);
    assert_eq!(rig.served(), [100, 200, 300]);
    assert_eq!(rig.queue.dispatch_all(rig.now), 0);
}

/// Is the result of a forced dispatch sorted only where BLK-12 says so (noop, cfq)? deadline's own
/// order stays: the oldest first, 300, nothing above it; then the oldest again, 100, and up to 200.
/// So it does under blk-mq.
#[test]
fn blk_10_deadline_keeps_its_own_order() {
    for (elevator, order) in
        [("noop", [100, 200, 300]), ("deadline", [300, 100, 200]), ("mq-deadline", [300, 100, 200])]
    {
        let mut rig = Rig::new(disk(1), elevator);
        rig.set("nr_requests", "8");
        let client = rig.client();
        for sector in [300, 100, 200] {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.queue.dispatch_all(rig.now), 3);
        assert_eq!(rig.served(), order, "{elevator}");
    }
}

// ------------------------------------------------------------------------------------------ BLK-11

/// Does a refused request (legacy) go to the head of the dispatch list, unsorted, before everything
/// else? [500] was refused; 100 waits in the elevator, 200 and 300 are force-dispatched after it.
#[test]
fn blk_11_legacy_requeues_at_the_head() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.read(client, 500, 8);
    assert_eq!(rig.pulled(), [500]);
    rig.read(client, 300, 8);
    rig.read(client, 200, 8);
    rig.refuse(500);
    assert_eq!(rig.queue.dispatch_all(rig.now), 2);
    rig.read(client, 100, 8);
    rig.at(3);
    assert_eq!(rig.served(), [500, 200, 300, 100]);
    assert_eq!(rig.count(Action::Requeue), 1);
}

/// Does a refused request (blk-mq) wait in the elevator again, at the head of its class? 900 was
/// refused; 100 and 200 are lower and older in the batch, yet it comes first.
#[test]
fn blk_11_mq_requeues_through_the_elevator() {
    let mut rig = Rig::new(disk(1), "mq-deadline");
    rig.set("nr_requests", "8");
    let client = rig.client();
    let ticket = rig.read(client, 900, 8);
    assert_eq!(rig.pulled(), [900]);
    rig.read(client, 100, 8);
    rig.read(client, 200, 8);
    rig.refuse(900);
    assert!(rig.explain(ticket).ends_with("the device refused it, it goes first in its class"));
    // A higher class still goes before it: it is the head of its own class only.
    let urgent = rig.client_with(ClientSpec::new().priority(Class::Realtime, 0));
    rig.read(urgent, 700, 8);
    rig.at(3);
    assert_eq!(rig.served(), [700, 900, 100, 200]);
}

/// Does the last of several refused requests come first again, under both rules? 1 and 2 refused in
/// this order: 2, 1.
#[test]
fn blk_11_the_last_refused_comes_first() {
    for elevator in ["noop", "mq-deadline"] {
        let mut rig = Rig::new(disk(2), elevator);
        let client = rig.client();
        rig.read(client, 100, 8);
        rig.read(client, 200, 8);
        assert_eq!(rig.pulled(), [100, 200]);
        rig.refuse(100);
        rig.refuse(200);
        rig.at(3);
        assert_eq!(rig.served(), [200, 100], "{elevator}");
    }
}

/// Does a refused request that an earlier elevator had picked keep its precedence? The new one is
/// not asked.
#[test]
fn blk_11_a_request_of_an_earlier_elevator() {
    let mut rig = Rig::new(disk(1), "mq-deadline");
    let client = rig.client();
    rig.read(client, 900, 8);
    rig.read(client, 100, 8);
    // The elevator gives 900 first, because it is the oldest.
    assert_eq!(rig.pulled(), [900]);
    let (elevator, script) = Scripted::with_script(Rules::Mq);
    rig.queue.change_elevator(rig.now, elevator);
    rig.refuse(900);
    rig.at(3);
    assert_eq!(rig.pulled(), [900]);
    assert_eq!(script.picks(), 0);
    rig.complete_oldest();
    assert_eq!(rig.served(), [100]);
}

// ------------------------------------------------------------------------------------------ BLK-12

/// Is the dispatch list sorted one way from the end of the last started request? Boundary 50, then
/// 30 70 20 60: 60 and 70 are after it, 20 and 30 wrap around.
#[test]
fn blk_12_one_way_from_the_boundary() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.read(client, 42, 8);
    assert_eq!(rig.served(), [42]);
    for sector in [30, 70, 20, 60] {
        rig.read(client, sector, 2);
    }
    assert_eq!(rig.queue.dispatch_all(rig.now), 4);
    assert_eq!(rig.served(), [60, 70, 20, 30]);
}

/// Is nothing sorted across another direction, a discard, or a started request?
#[test]
fn blk_12_fences() {
    let order = |fence: Op| {
        let mut rig = Rig::new(disk(1), "noop");
        let client = rig.client();
        rig.write(client, 600, 8);
        rig.submit(Bio::new(client, fence, 100, 8));
        rig.write(client, 400, 8);
        rig.write(client, 300, 8);
        rig.queue.dispatch_all(rig.now);
        rig.served()
    };
    assert_eq!(order(Op::Read), [600, 100, 300, 400], "a read among writes");
    assert_eq!(order(Op::Discard), [600, 100, 300, 400], "a discard among writes");
    assert_eq!(order(Op::Write), [100, 300, 400, 600], "no fence");

    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.write(client, 600, 8);
    assert_eq!(rig.pulled(), [600]);
    rig.refuse(600);
    rig.write(client, 100, 8);
    rig.queue.dispatch_all(rig.now);
    rig.at(3);
    assert_eq!(rig.served(), [600, 100], "it has started");
}

// ------------------------------------------------------------------------------------------ BLK-17

/// Is the elevator asked for one request only, and only when the dispatch list is empty? Three by
/// force: no question. Then two waiting on a device of depth 2: two questions, no third.
#[test]
fn blk_17_the_device_pulls() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(3), Limits::default(), elevator);
    let client = rig.client();
    for sector in [0, 100, 200] {
        rig.read(client, sector, 8);
    }
    rig.queue.dispatch_all(rig.now);
    assert_eq!((rig.pull().len(), script.picks()), (3, 0));
    rig.read(client, 300, 8);
    rig.read(client, 400, 8);
    rig.read(client, 500, 8);
    assert_eq!((rig.pull().len(), script.picks()), (0, 0), "the device is full");
    rig.complete_oldest();
    rig.complete_oldest();
    assert_eq!((rig.pull().len(), script.picks()), (2, 2));
    // One of them is refused: it goes out again before the elevator is asked.
    rig.refuse(300);
    rig.complete_at(400);
    assert_eq!((rig.pulled(), script.picks()), (vec![300, 500], 3));
}

/// After the elevator gives nothing, is it left alone until an insert, a completion or a timer?
#[test]
fn blk_17_a_hold_stops_the_feed() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(4), Limits::default(), elevator);
    let client = rig.client();
    rig.read(client, 0, 8);
    assert_eq!(rig.pulled(), [0]);
    script.hold(true);
    rig.read(client, 100, 8);
    assert!(rig.pull().is_empty());
    // It set its timer 8 ms from now.
    assert_eq!((rig.why, rig.until), (Waiting::Idling, Some(Nanos::from_millis(8))));
    let asked = script.picks.load(Ordering::Relaxed);
    rig.complete_oldest();
    assert!(rig.pull().is_empty());
    rig.read(client, 200, 8);
    assert!(rig.pull().is_empty());
    rig.at(8);
    script.hold(false);
    assert_eq!(rig.pulled(), [100, 200]);
    // The completion, the insert, then two requests and "nothing".
    assert_eq!(script.picks() - asked, 5);
}

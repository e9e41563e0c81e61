// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which client gets a request, sleeps, is woken: BLK-7, BLK-8, BLK-14.

use super::*;

// ------------------------------------------------------------------------------------------- BLK-7

/// Writes 8 sectors at a place that adjoins nothing. Returns whether there was a request.
fn scattered(rig: &mut Rig, client: ClientId, place: &mut u64) -> bool {
    *place += 100;
    rig.try_submit(Bio::new(client, Op::Write, *place, 8).cookie(*place)).is_ok()
}

/// A rig with `clients` clients on a disk of depth 32, and 128 async requests of the first, which
/// filled the pool.
fn full_pool(clients: u32) -> (Rig, Vec<ClientId>, u64) {
    let elevator = paternoster_schedulers::by_name("noop").unwrap();
    let mut rig = Rig::with(disk(32), limits(clients), elevator);
    let clients: Vec<_> = (0..clients).map(|_| rig.client()).collect();
    let mut place = 0;
    for _ in 0..128 {
        assert!(scattered(&mut rig, clients[0], &mut place));
    }
    assert_eq!(rig.queue.allocated(), (128, 0));
    (rig, clients, place)
}

/// When is a pool congested? On at 128-16+1 = 113, off below 128-16-8-1 = 103.
#[test]
fn blk_7_congestion() {
    let mut rig = Rig::new(disk(32), "noop");
    let client = rig.client();
    let mut place = 0;
    for count in 1..=113 {
        assert!(!rig.queue.is_congested(false), "before the {count}th");
        assert!(scattered(&mut rig, client, &mut place));
    }
    assert!(rig.queue.is_congested(false), "the 113th");
    assert!(!rig.queue.is_congested(true), "the pools are separate");
    while rig.queue.allocated().0 > 103 {
        rig.pull();
        rig.complete_oldest();
    }
    assert!(rig.queue.is_congested(false), "103");
    rig.pull();
    rig.complete_oldest();
    assert!(!rig.queue.is_congested(false), "102");
}

/// Does the client that fills the pool finish a batch of 32 while others sleep? 127 + 32 = 159 for
/// it, none for the other.
#[test]
fn blk_7_a_batcher_has_32_requests() {
    let (mut rig, clients, mut place) = full_pool(2);
    assert!(!scattered(&mut rig, clients[1], &mut place), "the other sleeps at 128");
    while scattered(&mut rig, clients[0], &mut place) {}
    assert_eq!(rig.queue.allocated(), (159, 0));
}

/// Does a batch end after 20 ms? At 19.999 ms there is one more, at 20 ms none, though 30 of 32 are
/// left.
#[test]
fn blk_7_a_batch_lasts_20_ms() {
    let (mut rig, clients, mut place) = full_pool(1);
    rig.at_us(19_999);
    assert!(scattered(&mut rig, clients[0], &mut place));
    rig.at(20);
    assert!(!scattered(&mut rig, clients[0], &mut place));
}

/// Are sleepers woken in order, one for each request that becomes free below 128?
#[test]
fn blk_7_sleepers_wake_in_order() {
    let (mut rig, clients, mut place) = full_pool(4);
    for &client in &clients[1..] {
        assert!(!scattered(&mut rig, client, &mut place));
    }
    for woken in 1..4 {
        rig.pull();
        assert_eq!(rig.wakes, clients[1..woken], "128 - {woken} + 1 allocated");
        rig.complete_oldest();
    }
    rig.pull();
    assert_eq!(rig.wakes, clients[1..]);
}

/// Is no client woken while batchers hold more than the pool has? From 159 the 32nd completion (127
/// left) wakes the first.
#[test]
fn blk_7_no_wake_above_128() {
    let (mut rig, clients, mut place) = full_pool(2);
    assert!(!scattered(&mut rig, clients[1], &mut place));
    while scattered(&mut rig, clients[0], &mut place) {}
    for _ in 0..31 {
        rig.pull();
        rig.complete_oldest();
    }
    rig.pull();
    assert_eq!((rig.queue.allocated().0, rig.wakes.len()), (128, 0));
    rig.complete_oldest();
    rig.pull();
    assert_eq!(rig.wakes, [clients[1]]);
}

/// Is a woken client a batcher, and do even batchers stop at 128*3/2 = 192? Three were woken; each
/// may take 32, which would be 125 + 96 = 221.
#[test]
fn blk_7_the_woken_are_batchers_up_to_192() {
    let (mut rig, clients, mut place) = full_pool(4);
    for &client in &clients[1..] {
        assert!(!scattered(&mut rig, client, &mut place));
    }
    rig.pull();
    for _ in 0..3 {
        rig.complete_oldest();
    }
    rig.pull();
    assert_eq!((rig.queue.allocated().0, rig.wakes.len()), (125, 3));
    for &client in &clients[1..] {
        while scattered(&mut rig, client, &mut place) {}
        assert!(rig.queue.allocated().0 > 128, "he passed the nominal limit");
    }
    assert_eq!(rig.queue.allocated(), (192, 0));
}

/// Does an elevator that says MUST get its client past a full pool, up to the hard stop?
#[test]
fn blk_7_must_passes_a_full_pool() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(32), Limits::default(), elevator);
    let [a, b] = [0; 2].map(|_| rig.client());
    let mut place = 0;
    for _ in 0..128 {
        assert!(scattered(&mut rig, a, &mut place));
    }
    assert!(!scattered(&mut rig, b, &mut place));
    script.must(true);
    while scattered(&mut rig, b, &mut place) {}
    assert_eq!(rig.queue.allocated(), (192, 0));
}

// ------------------------------------------------------------------------------------------- BLK-8

/// How many requests does a blk-mq queue start with? 2*min(depth, 128) with a scheduler, depth
/// without.
#[test]
fn blk_8_nr_requests_by_depth() {
    for (depth, scheduled, bare) in [(1, "2", "1"), (32, "64", "32"), (200, "256", "200")] {
        let mut rig = Rig::new(disk(depth), "mq-deadline");
        assert_eq!(rig.get("nr_requests"), scheduled, "depth {depth}");
        rig.queue.change_elevator(Nanos::ZERO, paternoster_schedulers::by_name("none").unwrap());
        assert_eq!(rig.get("nr_requests"), bare, "depth {depth}");
    }
    // The most is 10240, for a queue that was made with so many.
    let limits = Limits { requests: 20_000, bios: 20_000, ..Limits::default() };
    let mut rig =
        Rig::with(disk(32), limits, paternoster_schedulers::by_name("mq-deadline").unwrap());
    rig.set("nr_requests", "99999");
    assert_eq!(rig.get("nr_requests"), "10240");
}

/// Do the tags limit what is allocated, and the driver's tags what is in the device? Depth 4: 8
/// requests, 4 commands.
#[test]
fn blk_8_tags_at_allocation_and_at_dispatch() {
    let mut rig = Rig::new(disk(4), "mq-deadline");
    let [a, b] = [0; 2].map(|_| rig.client());
    for n in 0..8 {
        rig.read(a, n * 100, 8);
    }
    assert_eq!(rig.try_submit(Bio::new(b, Op::Read, 5000, 8)), Err(SubmitError::Busy));
    assert_eq!((rig.pull().len(), rig.why), (4, Waiting::DeviceFull));
    assert_eq!(rig.queue.in_device(), 4);
    rig.complete_oldest();
    assert_eq!(rig.pull().len(), 1);
    assert_eq!(rig.wakes, [b]);
    rig.read(b, 5000, 8);
}

/// Does an elevator's own limit hold some kinds of I/O back, with 0 as 1, and wake them in time?
#[test]
fn blk_8_at_most() {
    for (most, admitted) in [(3, 3), (0, 1)] {
        let (elevator, script) = Scripted::with_script(Rules::Mq);
        let mut rig = Rig::with(disk(32), Limits::default(), elevator);
        script.at_most(most);
        let [a, b] = [0; 2].map(|_| rig.client());
        let mut place = 0;
        for _ in 0..admitted {
            assert!(scattered(&mut rig, a, &mut place));
        }
        assert!(!scattered(&mut rig, b, &mut place), "at most {most}");
        rig.pull();
        assert!(rig.wakes.is_empty());
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.wakes, [b]);
        assert!(scattered(&mut rig, b, &mut place));
    }
}

// ------------------------------------------------------------------------------------------ BLK-14

/// With nr_requests=128 and 300 async writers, are never more than 192 async requests allocated,
/// and sync ones as if there were none?
#[test]
fn blk_14_300_async_writers() {
    let elevator = paternoster_schedulers::by_name("noop").unwrap();
    let mut rig = Rig::with(disk(32), limits(301), elevator);
    let writers: Vec<_> = (0..300).map(|_| rig.client()).collect();
    let reader = rig.client();
    let mut place = 0;
    let accepted = writers.iter().filter(|&&w| scattered(&mut rig, w, &mut place)).count();
    assert_eq!(accepted, 128, "one each; the 128th is the only batcher");
    let mut most = 0;
    for _ in 0..100 {
        rig.pull();
        for _ in 0..8 {
            rig.complete_oldest();
        }
        rig.pull();
        for client in std::mem::take(&mut rig.wakes) {
            while scattered(&mut rig, client, &mut place) {}
        }
        most = most.max(rig.queue.allocated().0);
    }
    assert_eq!(most, 192);
    assert_eq!(rig.queue.allocated().1, 0);
    for n in 0..128 {
        rig.read(reader, (1 << 24) + n * 100, 8);
    }
    assert_eq!(rig.queue.allocated().1, 128);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules C and R: device time by weight, and slots that are kept free.

use super::*;

/// A card that takes one command at a time: 1.1 ms, and 6 us a sector.
const CARD: Price = Price { base: 1_100_000, sector: 6_000, seek: 0 };

/// An SSD: 100 us, and 1 us a sector.
const FLASH: Price = Price { base: 100_000, sector: 1_000, seek: 0 };

/// Does each of two readers get half of the device, whatever their sizes? A read of 4 KiB takes
/// 1.15 ms and one of 128 KiB 2.64; by alternating they would get 30 % and 70 %. Neither has a
/// request waiting when the other's ends, so slots must be kept free.
#[test]
fn c2_r2_half_of_the_device_each() {
    let mut world = World::new(1, CARD);
    let (small, large) = (world.add(random(8)), world.add(random(256)));
    world.run(ms(500));
    world.count_anew();
    world.run(ms(5500));
    assert!((490..=510).contains(&world.share(small)), "{}", world.share(small));
    assert!((490..=510).contains(&world.share(large)), "{}", world.share(large));
    // G4: it idled for that. 20 us of 1.15 ms are a bargain; at most a 20th of the time.
    let kept = world.attribute("kept_us");
    assert!(kept > 0 && kept < 5_500_000 / 20, "{kept} us");
}

/// Do weights of 1 to 5 give 1/15 to 5/15 on one server?
#[test]
fn c1_weights_are_shares() {
    let mut world = World::new(1, CARD);
    let all: Vec<usize> = (1..=5).map(|n| world.weighing(100 * n, random(8))).collect();
    world.run(ms(500));
    world.count_anew();
    world.run(ms(10_500));
    for (n, place) in (1..).zip(all) {
        let (share, right) = (world.share(place), 1000 * n / 15);
        assert!(share.abs_diff(right) <= 8, "weight {n}: {share}, not {right}");
    }
}

/// Does a group count as one, however many clients it has? Eight in one group get half.
#[test]
fn c1_a_group_is_one() {
    let mut world = World::new(4, FLASH);
    let alone = world.weighing(100, deep(16, 8));
    let group =
        world.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(100)).expect("there is room");
    for _ in 0..8 {
        world.join(ClientSpec::new().group(group), deep(4, 8));
    }
    world.run(ms(100));
    world.count_anew();
    world.run(ms(1100));
    assert!((490..=510).contains(&world.share(alone)), "{}", world.share(alone));
}

/// Are nearly all requests used although some clients already have their share of them? Sixteen
/// sessions of one group, with 32 outstanding each, compete with one client of another group. Each
/// session's share is 256 / 2 / 16 = 8, but it is limited to that only while fewer than 256 / 16 =
/// 16 requests are free. A client that was refused is asked again when one becomes free.
#[test]
fn who_has_his_share_is_not_refused_for_ever() {
    let mut world = World::new(256, FLASH);
    let victim = world.weighing(100, deep(32, 8));
    let group =
        world.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(100)).expect("there is room");
    for _ in 0..16 {
        world.join(ClientSpec::new().group(group), deep(32, 8));
    }
    world.run(ms(20));
    world.count_anew();
    world.run(ms(60));
    // A client thinks for 20 us of 128: of 240, a sixth is absent.
    assert!(world.flying.len() >= 190, "{}", world.flying.len());
    // It has 32 in the device all the time: 40 ms / 128 us.
    let own = world.actors[victim].ended;
    assert!(own >= 32 * 40_000 / 128 * 95 / 100, "{own}");
}

/// G8: does no request wait on a parallel device that has a slot for each? Eight clients of depth 1
/// on 32 servers: no request takes more than 108 us.
#[test]
fn g8_a_parallel_device_adds_nothing() {
    let mut world = World::new(32, FLASH);
    let all: Vec<usize> = (0..8).map(|_| world.add(random(8))).collect();
    world.run(ms(1000));
    for &place in &all {
        assert_eq!(world.actors[place].longest, 108_000, "client {place}");
    }
    assert_eq!(world.attribute("kept_us"), 0);
}

/// C4, G5: does a client that was away for a second come back without a claim to a second of device
/// time? The other, which had the device meanwhile, waits for a few requests at most.
#[test]
fn c4_g5_idleness_is_not_saved() {
    let mut world = World::new(1, CARD);
    let steady = world.add(deep(4, 8));
    world.run(ms(1000));
    world.count_anew();
    world.add(deep(4, 8));
    world.run(ms(1200));
    // Four of its own requests, four of the other's, 1.15 ms each, and one more.
    assert!(world.actors[steady].longest <= 10 * 1_148_000, "{}", world.actors[steady].longest);
    assert!((450..=560).contains(&world.share(steady)), "{}", world.share(steady));
}

/// R4: is idling limited by the credit where it is no bargain? The reader thinks for 0.4 ms, its
/// requests take 1.15 ms, and the other client's 2.64. To give the reader half of the device, the
/// device would have to idle 0.4 ms for most of its requests, a tenth of the time. It may idle a
/// 32nd.
#[test]
fn r4_credit_bounds_idling() {
    let mut world = World::new(1, CARD);
    world.add(Patterns { think: Nanos::from_micros(400), ..random(8) });
    world.add(deep(4, 256));
    world.run(ms(10_000));
    let kept = world.attribute("kept_us");
    assert!(kept > 0 && kept <= 10_000_000 / 30, "{kept} us");
    assert_eq!(world.attribute("fallback"), 0);
}

/// Is a client that waits for a request admitted while others have more than their share? Each may
/// have its share of the 128 by weight; one that comes later does not wait behind 400.
#[test]
fn requests_are_shared_by_weight() {
    let mut world = World::new(2, FLASH);
    for _ in 0..16 {
        world.weighing(100, deep(32, 8));
    }
    world.run(ms(100));
    let late = world.weighing(100, deep(4, 8));
    world.run(ms(150));
    world.count_anew();
    world.run(ms(1150));
    // A 17th.
    assert!((52..=66).contains(&world.share(late)), "{}", world.share(late));
}

/// G1: once nothing is in the device, has each client paid exactly for what its requests took?
#[test]
fn g1_charges_are_what_was_served() {
    let mut world = World::new(4, FLASH);
    for n in 0..4 {
        world.add(deep(1 + n, 8 << n));
    }
    world.run(ms(200));
    world.closing = true;
    world.pending.clear();
    world.run(ms(400));
    assert!(world.flying.is_empty());
    // The audit checks that estimates are zero, and that the sum of charges is what was served.
    assert_eq!(world.queue.audit(), Ok(()));
}

/// Do two adjacent bios of a plugged client become one request? Read-ahead comes that way; as
/// separate commands they would alternate with those of all others.
#[test]
fn i1_what_is_plugged_may_grow() {
    let mut world = World::new(1, Price { base: 1_000_000, sector: 0, seek: 0 });
    let id = world.queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is room");
    world.queue.plug(world.now, id).expect("it is there");
    for sector in [0, 8] {
        world.queue.submit(world.now, Bio::new(id, Op::Read, sector, 8)).expect("there is room");
    }
    world.queue.unplug(world.now, id).expect("it is there");
    let Output::Issue(command) = world.queue.next(world.now) else { panic!("nothing is issued") };
    assert_eq!((command.sector, command.sectors), (0, 16));
}

/// G7: does each client get something if there are fewer requests than clients and each asks again
/// at once? Six clients on one server with four requests get a sixth each.
#[test]
fn g7_requests_go_round() {
    let mut world = World::new(1, Price { base: 1_000_000, sector: 0, seek: 0 });
    world.queue.set_attribute(Nanos::ZERO, "nr_requests", "4").expect("there is room");
    let greedy = Patterns { think: Nanos::ZERO, ..deep(2, 8) };
    let all = [(); 6].map(|()| world.add(greedy));
    world.run(ms(600));
    for place in all {
        let share = world.share(place);
        assert!((150..=184).contains(&share), "{share} thousandths");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule L6: weights inside the device.
//!
//! The device takes many more commands than it works on at once, so that no request waits outside:
//! the case in which the order of waiting requests decides nothing.

use super::*;
use proptest::prelude::*;

/// An SSD: 100 us, and 1 us a sector.
const FLASH: Price = Price { base: 100_000, sector: 1_000, seek: 0 };
/// A client that asks again at once.
const fn greedy(depth: u32) -> Patterns {
    Patterns { think: Nanos::ZERO, ..deep(depth, 8) }
}

/// A device that takes 256 commands and works on `servers` of them, which end one after the other.
fn queueing(servers: usize) -> World {
    let mut world = World::new(256, FLASH);
    world.servers.truncate(servers);
    for (server, place) in world.servers.iter_mut().zip(0u64..) {
        server.0 = Nanos(108_000 * place / servers as u64);
    }
    world
}

/// The shares of the requests done, in thousandths, between 50 ms and 350 ms from now: all are of
/// one kind, and cost the same (C5).
fn shares(world: &mut World) -> Vec<u64> {
    world.run(world.now + ms(50));
    world.count_anew();
    world.run(world.now + ms(300));
    let all = world.ended();
    world.actors.iter().map(|actor| 1000 * actor.ended / all).collect()
}

/// What each client's requests cost, in us: 100 a request, and 1 a sector.
fn costs(world: &World) -> Vec<u64> {
    let cost = |actor: &Actor| actor.ended * (100 + u64::from(actor.patterns.sectors));
    world.actors.iter().map(cost).collect()
}

/// Each client's part of a thousand, by weight.
fn entitled(weights: &[u32]) -> Vec<u64> {
    let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    weights.iter().map(|&weight| 1000 * u64::from(weight) / all).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Does each client get its share by weight, whatever the weights and depths, and is the device
    /// as busy as it can be? Four requests at a time, 108 us each, are 11,111 in 300 ms. A client
    /// must have enough outstanding requests for its share: with q requests and weight w of W it
    /// has enough while at most D* = q * W / w commands are in the device. From D* = 16 on, that
    /// keeps four servers and their queues busy.
    #[test]
    fn l6_shares_are_weights(
        clients in prop::collection::vec((1u32..=10, 4u32..=32), 2..=7)
    ) {
        let all: u32 = clients.iter().map(|client| client.0).sum();
        let least = clients.iter().map(|&(weight, depth)| depth * all / weight).min();
        prop_assume!(least >= Some(16));
        let mut world = queueing(4);
        for &(weight, depth) in &clients {
            world.weighing(100 * weight, greedy(depth));
        }
        let got = shares(&mut world);
        let weights: Vec<u32> = clients.iter().map(|client| client.0).collect();
        for (own, right) in got.iter().zip(entitled(&weights)) {
            let off = own.abs_diff(right);
            prop_assert!(off * 20 <= right + 20, "{:?}, not {:?}", got, entitled(&weights));
        }
        prop_assert!(world.ended() >= 11_111 * 97 / 100, "{}", world.ended());
        prop_assert!(world.queue.observer().1.is_empty(), "it fell back");
    }
}

/// At each level of groups: A and B of equal weight, and in A a client of weight 300 next to one of
/// 100? All requests fit inside.
#[test]
fn l6_within_groups() {
    let mut world = queueing(4);
    let group =
        world.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(100)).expect("there is room");
    let inner = |weight| ClientSpec::new().group(group).weight(weight);
    world.join(inner(300), greedy(32));
    world.join(inner(100), greedy(64));
    world.weighing(100, greedy(96));
    let got = shares(&mut world);
    for (own, right) in got.iter().zip([375, 125, 500]) {
        assert!(own.abs_diff(right) <= right / 20, "{got:?}");
    }
}

/// Do weights count within 20 ms of the arrival of two clients that weigh four times as much as the
/// four others? They are owed 8 of 12 parts.
#[test]
fn l6_weights_count_at_once() {
    let mut world = queueing(8);
    let four: Vec<usize> = (0..4).map(|_| world.weighing(100, greedy(32))).collect();
    world.run(ms(100));
    for _ in 0..2 {
        world.weighing(400, greedy(32));
    }
    world.run(ms(120));
    world.count_anew();
    world.run(ms(220));
    let light: u64 = four.iter().map(|&place| world.actors[place].ended).sum();
    let part = 1000 * light / world.ended();
    assert!((316..=350).contains(&part), "{part} thousandths, not a third");
}

/// Do weights count for clients that ask for one request at a time, and 5 us after each answer?
/// With weights of 1 to 4 exact shares need at most 10 / 4 = 2.5 commands in the device, which one
/// server is busy with: 108 us each are 2,777 in 300 ms.
#[test]
fn l6_of_clients_with_one_request_each() {
    let mut world = queueing(1);
    for weight in 1..=4 {
        world.weighing(100 * weight, Patterns { think: Nanos::from_micros(5), ..greedy(1) });
    }
    let got = shares(&mut world);
    for (own, right) in got.iter().zip(entitled(&[1, 2, 3, 4])) {
        assert!(own.abs_diff(right) <= right / 20, "{got:?}");
    }
    assert!(world.ended() >= 2_777 * 97 / 100, "{}", world.ended());
}

/// Does a flood come back step by step when a client is not owed any more? 32 reads of 4 KiB,
/// 108 us each, are owed 4 parts of 5 of 32 servers, beside 160 of 128 KiB. At 150 % of their least
/// time they keep 32 * 108 / 162 = 21.3 servers busy, 667 of 1000; the flood's way in stops a
/// little before. If it came back at once, that would be 178.
#[test]
fn l6_a_flood_comes_back_step_by_step() {
    let mut world = queueing(32);
    world.weighing(400, greedy(32));
    world.weighing(100, Patterns { sectors: 256, ..greedy(160) });
    world.run(ms(600));
    world.count_anew();
    world.run(ms(1000));
    let costs = costs(&world);
    let all: u64 = costs.iter().sum();
    let part = costs[0] * 1000 / all;
    assert!((640..=760).contains(&part), "{part} of 1000");
    // 32 servers for 400 ms, in us.
    assert!(all >= 32 * 400_000 * 97 / 100, "{all}");
}

/// L6: does a device that has room hold no client, although requests failed in 1 us instead of 108?
#[test]
fn l6_a_failed_request_tells_nothing_of_others() {
    let mut world = queueing(32);
    world.weighing(400, Patterns { think: Nanos::from_micros(5), ..greedy(1) });
    world.weighing(100, greedy(8));
    world.run(Nanos::from_micros(1));
    while let Some((_, tag, actor)) = world.flying.pop() {
        world.queue.complete(world.now, tag, Outcome::failed(5)).expect("it is in the device");
        world.pending.push((world.now, actor));
    }
    world.run(ms(300));
    assert_eq!(world.attribute("holds"), 0);
    // 1 in 113 us and 8 in 108.
    assert!((24_800..=24_900).contains(&world.ended()), "{}", world.ended());
}

/// Has a client that asks for one request at a time nearly all that it would have alone, beside the
/// idle class? Alone it does one in 113 us; in 300 ms the idle class has one or two requests.
#[test]
fn l6_the_idle_class_waits_for_one_that_comes() {
    let mut world = queueing(1);
    let one = world.add(Patterns { think: Nanos::from_micros(5), ..greedy(1) });
    world.join(ClientSpec::new().priority(Class::Idle, 4), greedy(32));
    world.run(ms(50));
    world.count_anew();
    world.run(ms(350));
    let ended = world.actors[one].ended;
    assert!((2_654 - 10..=2_655).contains(&ended), "{ended} of 2,654");
    assert!(world.ended() > ended);
}

/// Are equal clients hardly ever held? Eight of equal weight and depth.
#[test]
fn l6_equal_ones_are_not_held() {
    let mut world = queueing(8);
    for _ in 0..8 {
        world.add(greedy(16));
    }
    world.run(ms(100));
    let before = world.attribute("holds");
    world.run(ms(600));
    let held = world.attribute("holds") - before;
    // 8 at a time, 108 us each: 37,000 requests.
    assert!(held <= 370, "{held} holds");
}

/// Is no client held where there is room for more? 32 servers, and a client with 16 requests
/// outstanding next to one of equal weight with two, which asks for no more.
#[test]
fn l6_where_there_is_room_nobody_is_held() {
    let mut world = queueing(32);
    world.weighing(100, greedy(2));
    world.weighing(100, greedy(16));
    world.run(ms(300));
    assert_eq!(world.attribute("holds"), 0);
}

/// Is no client held for one that paces itself? It asks 5 ms after each answer, four at a time.
#[test]
fn l6_who_thinks_is_not_owed() {
    let mut world = queueing(4);
    let paced = Patterns { think: Nanos::from_micros(5_000), ..greedy(4) };
    world.weighing(900, paced);
    world.weighing(100, greedy(64));
    world.run(ms(300));
    assert_eq!(world.attribute("holds"), 0);
}

/// Has a real-time client that has all that it asks for inside nearly what it has alone, beside a
/// flood of best effort? 8 outstanding on 4 servers, 108 us each, are 11,111 in 300 ms. One of best
/// effort is never held by the gate for the idle class, nor the idle class: that waits in any case.
#[test]
fn l6_a_better_class_is_owed_all() {
    let ended = |classes: [Class; 2]| {
        let mut world = queueing(4);
        let place = world.join(ClientSpec::new().priority(classes[0], 4), greedy(8));
        world.join(ClientSpec::new().priority(classes[1], 4), greedy(64));
        world.run(ms(50));
        world.count_anew();
        world.run(ms(350));
        (world.actors[place].ended, world.attribute("holds"))
    };
    let (did, holds) = ended([Class::Realtime, Class::BestEffort]);
    assert!((9_500..=11_120).contains(&did) && holds > 0, "{did} of 11,111, {holds} holds");
    assert_eq!(ended([Class::BestEffort, Class::Idle]).1, 0);
}

/// `weights_from`: does a very large value restore what the device gives by itself? 32 requests
/// each, weights 100 and 300: a half each.
#[test]
fn l6_a_knob_says_from_where_on() {
    for (from, right) in [("100", 250), ("1000000", 500)] {
        let mut world = queueing(4);
        world.queue.set_attribute(Nanos::ZERO, "weights_from", from).expect("a number");
        world.weighing(100, greedy(32));
        world.weighing(300, greedy(32));
        let got = shares(&mut world);
        assert!(got[0].abs_diff(right) <= 15, "{from}: {got:?}");
    }
}

/// `weights_from`: does 100 keep the part of a client that sends one small request at a time beside
/// a flood of large ones, where each is charged device time (`prices=0`)? 4 KiB take 108 us, 128
/// KiB 356 us, one at a time. Weights are 3 and 1. A large one comes in beside a small one, and is
/// inside with the next, for half of the time: 54, 5 and 175 us are charged to it; 54, 175 and 108
/// for each further one to the small client. Three times 234 us are 5.4 small ones to a large one:
/// 583 of 583 + 356 us, 62 %. The default keeps nothing for the small one between its requests, so
/// that eight large ones (the slack) come in before each: 108 of 108 + 8 * 356 us, 3.7 %, and the
/// server has nothing to wait for.
#[test]
fn l6_exact_parts_are_kept_for_small_requests_too() {
    for (from, least, most) in [("100", 600, 640), ("150", 30, 45)] {
        let mut world = queueing(1);
        for (name, value) in [("weights_from", from), ("prices", "0")] {
            world.queue.set_attribute(Nanos::ZERO, name, value).expect("a number");
        }
        world.weighing(300, Patterns { think: Nanos::from_micros(5), ..greedy(1) });
        world.weighing(100, Patterns { sectors: 256, ..greedy(16) });
        world.run(ms(300));
        world.count_anew();
        world.run(ms(600));
        let costs = costs(&world);
        let part = costs[0] * 1000 / costs.iter().sum::<u64>();
        assert!((least..=most).contains(&part), "{from}: {part} of 1000");
    }
}

/// `prices`: does each client get its part by what its requests cost the device, and not by how
/// long they are inside? Two read 4 KiB and two 128 KiB, all 16 deep: 108 us and 356 us, 3.3 times
/// as much, where the first guess is 16.5 times. By the time inside they get as many requests as
/// the others, and a small one gets 108 / 464 / 2 = 116 of 1000 of the device instead of 250.
#[test]
fn c5_parts_are_by_cost_inside() {
    for (prices, small) in [("0", 116), ("1", 250)] {
        let mut world = queueing(4);
        world.queue.set_attribute(Nanos::ZERO, "prices", prices).expect("a switch");
        for sectors in [8, 8, 256, 256] {
            world.weighing(100, Patterns { sectors, ..greedy(16) });
        }
        world.run(ms(600));
        world.count_anew();
        world.run(ms(1000));
        let costs = costs(&world);
        let all: u64 = costs.iter().sum();
        for (cost, right) in costs.iter().zip([small, small, 500 - small, 500 - small]) {
            assert!((cost * 1000 / all).abs_diff(right) <= 20, "{prices}: {costs:?} of {all}");
        }
        // Four servers for 400 ms, in us.
        assert!(all >= 4 * 400_000 * 97 / 100, "{prices}: {all}");
        assert_eq!(world.attribute("trials") > 0, prices == "1");
    }
}

/// `cost_model`: does each client get its part by told costs, some epochs after the start? The
/// device of the test above: four servers do 4 / 108 us = 37,037 small reads a second, and in a
/// sector of 1 us 4 * 512 MB: 128 KiB cost 27 + 62 us of four servers, a quarter of 356. Also if it
/// is told that all cost alike, per request: then as many of each are done, 116 of 1000.
#[test]
fn c7_parts_are_by_told_costs_inside() {
    let right = "rbps=2048000000 rseqiops=37037 rrandiops=37037 wbps=1 wseqiops=1 wrandiops=1";
    let alike = right.replace("rbps=2048000000", "rbps=1000000000000");
    for (model, small) in [(right, 250), (&*alike, 116)] {
        let mut world = queueing(4);
        world.queue.set_attribute(Nanos::ZERO, "cost_model", model).expect("a model");
        for sectors in [8, 8, 256, 256] {
            world.weighing(100, Patterns { sectors, ..greedy(16) });
        }
        world.run(ms(200));
        world.count_anew();
        world.run(ms(600));
        let costs = costs(&world);
        let all: u64 = costs.iter().sum();
        for (cost, right) in costs.iter().zip([small, small, 500 - small, 500 - small]) {
            assert!((cost * 1000 / all).abs_diff(right) <= 20, "{model}: {costs:?} of {all}");
        }
        assert_eq!(world.attribute("trials"), 0);
    }
}

/// L6: is no client owed while a device has room, also beside requests of a size within the same
/// power of two? One of 185 sectors takes 285 us, one of 128 takes 228, and both go at once.
#[test]
fn l6_larger_requests_are_not_late() {
    for (sectors, took) in [(185, 285_000), (200, 300_000), (255, 355_000)] {
        let mut world = World::new(32, FLASH);
        let [many, one] = [deep(3, 128), deep(1, sectors)].map(|patterns| world.add(patterns));
        world.run(ms(400));
        let longest = [many, one].map(|place| world.actors[place].longest);
        assert_eq!(longest, [228_000, took]);
    }
}

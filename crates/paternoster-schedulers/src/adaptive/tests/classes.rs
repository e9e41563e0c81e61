// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes, and explanations for people.

use super::*;
use alloc::string::String;

const CARD: Price = Price { base: 1_000_000, sector: 0, seek: 0 };

/// Does a real-time client go before all others? It takes 1 ms, and waits for at most the one
/// request in the device.
#[test]
fn classes_are_strict() {
    let mut world = World::new(1, CARD);
    for _ in 0..4 {
        world.add(deep(8, 8));
    }
    let spec = ClientSpec::new().priority(Class::Realtime, 4);
    let first = world.join(spec, random(8));
    world.run(ms(2000));
    let longest = world.actors[first].longest;
    assert!(longest <= 2_000_000, "{longest} ns");
}

/// Does the idle class get something, though others always wait: one request in 200 ms, ten in two
/// seconds?
#[test]
fn the_idle_class_is_not_starved() {
    let mut world = World::new(1, CARD);
    world.add(deep(4, 8));
    let last = world.join(ClientSpec::new().priority(Class::Idle, 4), deep(2, 8));
    world.run(ms(2000));
    let ended = world.actors[last].ended;
    assert!((8..=12).contains(&ended), "{ended}");
}

/// G7: does a client of weight 1 next to one of 1000 get its turn: once in 1001 ms?
#[test]
fn g7_the_lightest_is_served() {
    let mut world = World::new(1, CARD);
    world.weighing(1000, deep(4, 8));
    let light = world.weighing(1, deep(4, 8));
    world.run(ms(5100));
    assert!((4..=8).contains(&world.actors[light].ended), "{}", world.actors[light].ended);
}

/// Is the reason given for which a request waits?
#[test]
fn waiting_is_explained() {
    let mut world = World::new(1, CARD);
    let (one, other) = (world.add(deep(2, 8)), world.add(deep(2, 8)));
    world.run(ms(20));
    let mut told = String::new();
    for place in [one, other] {
        let id = world.actors[place].id;
        let bio = Bio::new(id, Op::Read, 1 << 30, 8).flags(Flags::NOMERGE);
        let ticket = world.queue.submit(world.now, bio).expect("there is room");
        told += &alloc::format!("{} / ", world.queue.explain(ticket));
    }
    assert!(told.contains("has had less") || told.contains("goes next"), "{told}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule L4, and requests that need no seat.

use super::*;

/// 100 us for each request, wherever it is.
const FLASH: Price = Price { base: 100_000, sector: 0, seek: 0 };
/// A disk: 0.2 ms, 3 us a sector, 10 ms for a seek.
const DISK: Price = Price { base: 200_000, sector: 3_000, seek: 10_000_000 };

/// A device that takes 32 requests and works on four of them at once.
fn queueing() -> World {
    let mut world = World::new(32, FLASH);
    world.servers.truncate(4);
    world
}

/// One request at a time, and then 5 ms of thinking.
const fn paced() -> Patterns {
    Patterns { think: Nanos::from_millis(5), ..random(8) }
}

/// Does the device get fewer commands than it takes if that costs no throughput and a client waits
/// for one answer at a time? Behind 32 commands of 100 us, four at a time, it would wait for 800
/// us; eight commands keep four servers busy.
#[test]
fn l4_a_shallow_client_shortens_the_queue() {
    let mut world = queueing();
    world.add(deep(32, 8));
    world.add(deep(32, 8));
    let waits = world.add(paced());
    world.run(ms(4_000));
    assert!(world.attribute("depth") <= 12, "{}", world.attribute("depth"));
    world.count_anew();
    world.run(ms(5_000));
    // 40,000 a second, of which 95 % are to be kept.
    let ended = world.ended();
    assert!(ended >= 38_000, "{ended}");
    assert!(world.actors[waits].longest <= 900_000, "{} ns", world.actors[waits].longest);
}

/// Is the device used where it takes 32 commands and is given one at a time, as that costs nothing,
/// while a client comes now and then? The slot that is spared for it (R5) is one of the other 31.
/// It used to be the only one: nothing went, the device was empty, and the watchdog spoke.
#[test]
fn l4_r5_the_only_command_is_not_spared() {
    let mut world = queueing();
    world.servers.truncate(1);
    world.add(deep(32, 8));
    world.add(deep(32, 8));
    world.add(paced());
    world.run(ms(4_000));
    assert_eq!(world.attribute("depth"), 1);
    world.count_anew();
    world.run(ms(5_000));
    // 10,000 a second, one after the other; 95 % are to be kept.
    let ended = world.ended();
    assert!(ended >= 9_500, "{ended}");
    assert!(world.queue.observer().1.is_empty(), "{:?}", world.queue.observer().1);
}

/// Is the full depth used where the device works on as many requests as it takes, and where no
/// client is shallow (I2)?
#[test]
fn l4_i2_otherwise_the_full_depth() {
    let mut parallel = World::new(32, FLASH);
    parallel.add(deep(32, 8));
    parallel.add(deep(32, 8));
    parallel.add(paced());
    parallel.run(ms(2_000));
    // 28 of 32 would be 87 %: not even the first level below is accepted.
    assert_eq!(parallel.attribute("depth"), 32);

    let mut alone = queueing();
    alone.add(deep(32, 8));
    alone.add(deep(32, 8));
    alone.run(ms(2_000));
    assert_eq!(alone.attribute("depth"), 32);
}

/// Does a device that takes 32 get as many commands as `depth_max` says, and all 32 again when that
/// is 0? A client with 64 requests outstanding always has enough waiting.
#[test]
fn l4_depth_max_is_what_the_device_takes() {
    let mut world = queueing();
    world.add(deep(64, 8));
    for (most, inside, until) in [("6", 6, 100), ("48", 32, 200), ("1", 1, 300), ("0", 32, 400)] {
        world.queue.set_attribute(ms(until - 99), "depth_max", most).unwrap();
        world.run(ms(until));
        assert_eq!((world.attribute("depth"), world.queue.in_device()), (inside.into(), inside));
    }
}

/// Is a client that rarely asks, and has had least, served without a seat? Two streams on a disk
/// have turns of 160 ms. For a turn of its own it would wait that long; instead it waits only for
/// what is in the device, 0.97 ms, a seek of 10 ms, and its own 10.2 ms.
#[test]
fn s3_a_interactive_needs_no_seat() {
    let mut world = World::new(1, DISK);
    world.add(stream(256));
    world.add(stream(256));
    world.run(ms(4_000));
    let waits = world.add(Patterns { think: Nanos::from_millis(100), ..random(8) });
    world.run(ms(6_000));
    world.count_anew();
    world.run(ms(8_000));
    assert!(
        world.actors[waits].ended >= 15,
        "{} {}",
        world.actors[waits].ended,
        world.actors[waits].longest
    );
    assert!(world.actors[waits].longest <= 40_000_000, "{} ns", world.actors[waits].longest);
}

/// Does a client whose only request is withdrawn interrupt no turn? It was asked for its next
/// request, had none, and another's went, or the queue panicked.
#[test]
fn s3_a_interactive_with_nothing_left_interrupts_nothing() {
    let mut world = World::new(1, DISK);
    let streams = [stream(256), stream(256)].map(|patterns| world.add(patterns));
    world.run(ms(4_000));
    let client = world.queue.attach(world.now, ClientSpec::new()).expect("there is room");
    for (nth, sector) in [1_000, 9_000, 5_000].into_iter().enumerate() {
        let bio = Bio::new(client, Op::Read, sector, 8);
        let ticket = world.queue.submit(world.now, bio).expect("there is room");
        world.queue.cancel(world.now, ticket).expect("it waits");
        world.count_anew();
        world.run(ms(5_000 + 1_000 * nth as u64));
        // In 1 s at 0.97 ms a request, less than a fifth of it for the ways.
        assert!(world.ended() >= 800, "{}", world.ended());
    }
    assert!(streams.map(|place| world.actors[place].ended).into_iter().all(|ended| ended > 300));
}

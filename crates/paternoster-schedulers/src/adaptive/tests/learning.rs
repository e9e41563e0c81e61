// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules S and L: seats, and how their number is learned.

use super::*;

/// A disk: 0.2 ms, 3 us a sector, 10 ms for a seek.
const DISK: Price = Price { base: 200_000, sector: 3_000, seek: 10_000_000 };

/// The same price for all, wherever they read.
const FLASH: Price = Price { base: 200_000, sector: 3_000, seek: 0 };

/// Are four streams read one after the other on a disk? With turns of one request each takes 10.97
/// ms, 91 in a second; with seats 0.97 ms, and a 17th goes for changes: 970.
#[test]
fn s1_l3_a_disk_gets_one_seat() {
    let mut world = World::new(1, DISK);
    let all: Vec<usize> = (0..4).map(|_| world.add(stream(256))).collect();
    world.run(ms(6_000));
    assert_eq!(world.attribute("changes"), 1);
    world.count_anew();
    world.run(ms(16_000));
    assert_eq!(world.attribute("changes"), 1);
    let ended: u64 = all.iter().map(|&place| world.actors[place].ended).sum();
    assert!(ended > 2 * 850, "{ended}");
    // A turn of 160 ms is 16 thousandths of ten seconds; a stretch in which none is tried has no
    // turns.
    for &place in &all {
        assert!((220..=280).contains(&world.share(place)), "{}", world.share(place));
    }
    // S5: its quantum is sixteen changes of 10 ms.
    let quantum = world.attribute("quantum_us");
    assert!((120_000..=160_000).contains(&quantum), "{quantum} us");
}

/// S7: does no reader wait longer than for a turn of each other, although their turns end
/// unevenly? Eight that read 100 to 128 KiB at a time: turns of 0.8 s / 8 = 100 ms and a request,
/// 1 ms. Seven of them, and its own way of 11 ms, are 718 ms; a reader that is passed over waits
/// for 1.4 s.
#[test]
fn s7_no_reader_is_passed_over_in_a_lap() {
    let mut world = World::new(1, DISK);
    let all: Vec<usize> = (0..8).map(|n| world.add(stream(200 + 8 * n))).collect();
    world.run(ms(5_000));
    assert_eq!(world.attribute("changes"), 1);
    world.count_anew();
    world.run(ms(20_000));
    for &place in &all {
        let longest = world.actors[place].longest;
        assert!(longest <= 800_000_000, "{longest}");
        assert!((120..=130).contains(&world.share(place)), "{}", world.share(place));
    }
}

/// S8: do readers of weights 1 to 4 read by weight, although the turns of the lightest are short?
/// A tenth of 0.8 s are 80 ms, 10 of them for the way; the others have 160 and 10, so that it would
/// read 70 / 80 of its time, and they 150 / 160: 94 % of its part.
#[test]
fn s8_the_light_read_by_weight() {
    let mut world = World::new(1, DISK);
    let all: Vec<usize> = (1..=4).map(|n| world.weighing(100 * n, stream(256))).collect();
    world.run(ms(5_000));
    world.count_anew();
    world.run(ms(65_000));
    let sum = world.ended();
    for (n, &place) in (1..).zip(&all) {
        let (ended, right) = (world.actors[place].ended, sum * n / 10);
        assert!(ended.abs_diff(right) * 100 <= 3 * right, "weight {n}: {ended}, not {right}");
    }
}

/// Are two streams enough? After turns one is owed a quantum, and without seats, too, has the disk
/// to itself until they are even: that is not the merit of having no seats.
#[test]
fn l1_debts_of_turns_are_paid_before_it_counts() {
    let mut world = World::new(1, DISK);
    world.add(stream(256));
    world.add(stream(256));
    world.run(ms(3_000));
    // One change accepted, and not given up again (a probe may be in progress).
    assert_eq!(world.attribute("changes"), 1);
}

/// Does no client wait for a turn where that gains nothing? And do probes cost little: less than a
/// 20th of eight streams on eight servers, 1 ms each?
#[test]
fn l3_l5_a_parallel_device_has_no_limit() {
    let mut world = World::new(8, FLASH);
    let all: Vec<usize> = (0..8).map(|_| world.add(stream(256))).collect();
    world.run(ms(500));
    world.count_anew();
    world.run(ms(2_500));
    assert_eq!(world.attribute("changes"), 0);
    let ended: u64 = all.iter().map(|&place| world.actors[place].ended).sum();
    // 968 us and 20 us of thinking: 1012 a second each.
    assert!(ended > 2 * 8 * 1012 * 19 / 20, "{ended}");
    // L5: gaps double. 2.5 s of probes without a gap would be some hundred.
    assert!((1..=40).contains(&world.attribute("probes")), "{}", world.attribute("probes"));
}

/// Does a stream get its share of a disk next to random readers, and do these, which are one crowd
/// of two, get theirs of three equal accounts: a third each?
#[test]
fn s2_s4_accounts_decide_between_seats_too() {
    let mut world = World::new(1, DISK);
    let all = [world.add(stream(256)), world.add(random(8)), world.add(random(8))];
    world.run(ms(4_000));
    world.count_anew();
    world.run(ms(16_000));
    for place in all {
        assert!((310..=355).contains(&world.share(place)), "{place}: {}", world.share(place));
    }
    // The stream alone does 1012 a second: a third, less a 17th.
    assert!(world.actors[0].ended > 12 * 1012 / 3 * 8 / 10, "{}", world.actors[0].ended);
}

/// Is it noticed that the device has changed, long before a probe would be due? Where seats gain
/// tenfold, having none is tried every 128 * 0.9 lengths of a probe, which is minutes; and when
/// seeks no longer cost anything, no client should wait for a turn after ten seconds or so.
#[test]
fn l5_another_device_is_noticed() {
    let mut world = World::new(1, DISK);
    for _ in 0..4 {
        world.add(stream(256));
    }
    world.run(ms(12_000));
    assert_eq!((world.attribute("changes"), world.attribute("seats")), (1, 1));
    world.price = Price { base: 20_000, sector: 300, seek: 0 };
    world.run(ms(26_000));
    std::eprintln!(
        "P {} {} {} {}",
        world.attribute("probes"),
        world.attribute("changes"),
        world.attribute("switch_us"),
        world.attribute("quantum_us")
    );
    assert_eq!(world.attribute("seats"), 0);
}

/// G9: do the same calls lead to the same decisions, learning included?
#[test]
fn g9_the_same_again() {
    let once = || {
        let mut world = World::new(2, DISK);
        for n in 0..6 {
            world.add(if n % 2 == 0 { stream(64) } else { random(8) });
        }
        world.run(ms(2_000));
        world.actors.iter().map(|actor| (actor.ended, actor.longest)).collect::<Vec<_>>()
    };
    assert_eq!(once(), once());
}

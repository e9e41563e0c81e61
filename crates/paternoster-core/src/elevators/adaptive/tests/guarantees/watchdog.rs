// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watchdog: does it bark at each rule that is broken, does plain fair queueing follow, and is
//! it quiet otherwise?
//!
//! A rule is broken on purpose ([`Sabotage`]) until the watchdog has noticed.

use super::super::super::watchdog::Sabotage;
use super::*;
use crate::event::Distrust;

/// A world in which a rule is broken.
fn broken(sabotage: Sabotage, depth: u32, price: Price) -> World {
    World::of(Paternoster { sabotage, ..Paternoster::new() }, depth, price)
}

/// The first thing that the watchdog said.
fn said(world: &World) -> Option<Note> {
    world.queue.observer().1.first().copied()
}

fn fell(why: Distrust) -> Option<Note> {
    Some(Note::FellBack { why })
}

/// Is it noticed that the device idles for more than the credit? A reader who thinks for 1 of the
/// 1.15 ms that he takes, beside requests of 2.64 ms: with him waited for, a quarter of the time.
/// Granted are a 32nd and, at a time, 100 ms. And does nobody wait for him any more?
#[test]
fn g4_too_much_idling_is_noticed() {
    let mut world = broken(Sabotage::Spendthrift, 1, CARD);
    world.add(Patterns { think: Nanos::from_micros(1000), ..random(8) });
    world.add(deep(4, 256));
    world.run(ms(1_500));
    assert_eq!((said(&world), world.attribute("fallback")), (None, 0));
    world.run(ms(4_000));
    assert_eq!((said(&world), world.attribute("fallback")), (fell(Distrust::Idle), 1));
    let kept = world.attribute("kept_us");
    assert!(kept > 200_000, "{kept}");
    world.run(ms(8_000));
    assert_eq!(world.attribute("kept_us"), kept);
}

/// Is it noticed, at once, that nobody goes although somebody waits, and is the device not left to
/// itself for good? Streams on a disk get seats in the first seconds, and here nobody with a seat
/// is let go. Without seats they take turns of one request, 10.97 ms each: 91 in a second.
#[test]
fn g4_a_standstill_is_noticed() {
    let mut world = broken(Sabotage::EmptySeats, 1, DISK);
    let all: Vec<usize> = (0..4).map(|_| world.add(stream(256))).collect();
    world.run(ms(4_000));
    assert_eq!((said(&world), world.attribute("fallback")), (fell(Distrust::Stuck), 1));
    assert_eq!(world.attribute("seats"), 0);
    world.count_anew();
    world.run(ms(8_000));
    let ended: u64 = all.iter().map(|&place| world.actors[place].ended).sum();
    assert!((4 * 88..=4 * 92).contains(&ended), "{ended}");
    for &place in &all {
        assert!((240..=260).contains(&world.share(place)), "{}", world.share(place));
    }
}

/// Is it noticed that somebody is passed over, and has he his third then?
#[test]
fn g3_who_is_passed_over_is_noticed() {
    let mut world = broken(Sabotage::PassesOver(1), 2, FLASH);
    let all: Vec<usize> = (0..3).map(|_| world.add(deep(8, 8))).collect();
    world.run(ms(1_900));
    assert_eq!(said(&world), None);
    assert!(world.share(all[1]) < 50, "{}", world.share(all[1]));
    // He is the sampled child of every other window, of 2 s each, and the second one that is bad
    // counts.
    world.run(ms(9_000));
    assert_eq!(said(&world), fell(Distrust::Unfair));
    world.count_anew();
    world.run(ms(11_000));
    for place in all {
        assert!((325..=341).contains(&world.share(place)), "{}", world.share(place));
    }
}

/// Is it noticed that accounts are wrong? Who pays four times has 1/4 of what each of two others
/// has, a ninth instead of a third. The accounts do not tell; what he was served does.
#[test]
fn g1_wrong_charges_are_noticed() {
    let mut world = broken(Sabotage::Overcharges(1), 1, FLASH);
    let all: Vec<usize> = (0..3).map(|_| world.add(deep(8, 8))).collect();
    world.run(ms(1_900));
    assert!(world.share(all[1]) < 150, "{}", world.share(all[1]));
    world.run(ms(60_000));
    assert!(world.queue.observer().1.contains(&Note::FellBack { why: Distrust::Unfair }));
}

/// Are the rules tried again after 10 s, and after 20 when they are still broken? Or at once, if
/// somebody says so; and never of themselves if somebody had said to fall back.
#[test]
fn rules_are_tried_again() {
    let mut world = broken(Sabotage::PassesOver(0), 1, FLASH);
    for _ in 0..3 {
        world.add(deep(4, 64));
    }
    let states = |world: &World| -> Vec<bool> {
        let told = world.queue.observer().1.iter();
        told.map(|note| matches!(note, Note::FellBack { .. })).collect()
    };
    world.run(ms(9_000));
    assert_eq!(states(&world), [true]);
    world.run(ms(25_000));
    assert_eq!(states(&world), [true, false, true]);
    let now = world.now;
    world.queue.set_attribute(now, "iosched/fallback", "0").expect("it can be set");
    assert_eq!(world.attribute("fallback"), 0);
    world.queue.set_attribute(now, "iosched/fallback", "1").expect("it can be set");
    world.run(ms(60_000));
    assert_eq!((world.attribute("fallback"), states(&world).len()), (1, 4));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watchdog: does it notice each rule that is broken, does plain fair queueing follow, and is
//! it quiet otherwise?
//!
//! A rule is broken on purpose ([`Sabotage`]) until the watchdog has noticed.

use super::super::super::watchdog::{Sabotage, Watchdog};
use super::*;
use paternoster_core::event::Distrust;

/// A world in which a rule is broken.
fn broken(sabotage: Sabotage, depth: u32, price: Price) -> World {
    World::of(
        Paternoster { watchdog: Watchdog::to_bark_at(sabotage), ..Paternoster::new() },
        depth,
        price,
    )
}

/// The first thing that the watchdog reported.
fn said(world: &World) -> Option<Note> {
    world.queue.observer().1.first().copied()
}

fn fell(why: Distrust) -> Option<Note> {
    Some(Note::FellBack { why })
}

/// Is it noticed that the device idles for more than the credit? A reader thinks for 1 of the 1.15
/// ms that it takes, next to requests of 2.64 ms: waiting for it costs a quarter of the time.
/// Allowed are a 32nd, and 100 ms at once. And is it then no longer waited for?
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

/// Is it noticed, at once, that no request goes although some wait, and does the device not stay
/// idle for good? Streams on a disk get seats in the first seconds, and here no seated client is
/// dispatched. Without seats they take turns of one request, 10.97 ms each: 91 in a second.
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

/// Is it noticed that a client is passed over, and does it get its third then?
#[test]
fn g3_who_is_passed_over_is_noticed() {
    let mut world = broken(Sabotage::PassesOver(1), 2, FLASH);
    let all: Vec<usize> = (0..3).map(|_| world.add(deep(8, 8))).collect();
    world.run(ms(1_900));
    assert_eq!(said(&world), None);
    assert!(world.share(all[1]) < 50, "{}", world.share(all[1]));
    // It is the sampled child of every other window, of 2 s each, and the second bad window counts.
    world.run(ms(9_000));
    assert_eq!(said(&world), fell(Distrust::Unfair));
    world.count_anew();
    world.run(ms(11_000));
    for place in all {
        assert!((325..=341).contains(&world.share(place)), "{}", world.share(place));
    }
}

/// Is it noticed that accounts are wrong? A client that pays four times as much gets 1/4 of what
/// each of two others gets, a ninth instead of a third. The accounts do not show it; its service
/// does.
#[test]
fn g1_wrong_charges_are_noticed() {
    let mut world = broken(Sabotage::Overcharges(1), 1, FLASH);
    let all: Vec<usize> = (0..3).map(|_| world.add(deep(8, 8))).collect();
    world.run(ms(1_900));
    assert!(world.share(all[1]) < 150, "{}", world.share(all[1]));
    world.run(ms(60_000));
    assert!(world.queue.observer().1.contains(&Note::FellBack { why: Distrust::Unfair }));
}

/// Are the rules tried again after 10 s, and after 20 when they are still broken? Or at once on
/// request; and never by themselves if the fallback was requested.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lateness: which of a client's own requests goes next, by sector or by age (S9), and that a
//! client whose account is far ahead does not wait for ever (S10).

use super::*;
use crate::adaptive::clients::Clients;
use paternoster_core::{Limits, QueueView};

/// A client with an old request behind its position and always so many ahead of it: how many of the
/// latter go, 600 ms after the old one came, before that goes?
fn passed_over(rotational: bool, ahead: u64) -> u64 {
    let facts = DeviceFacts { rotational, ..DeviceFacts::default() };
    let mut view = QueueView::alone(facts, Limits::default());
    let client = view.add_client(ClientSpec::new());
    let mut clients = Clients::with_capacity(client.index() + 1, 64);
    let arrive = |clients: &mut Clients, view: &mut QueueView, sector, at| {
        let request = view.add_request(&Bio::new(client, Op::Read, sector, 8), at);
        clients.arrive(view, client.index(), request, true, at);
        request
    };
    let old = arrive(&mut clients, &mut view, 8, ms(0));
    clients.at_mut(client.index()).head = 1000;
    for sector in (0..ahead - 1).map(|nth| 1000 + 16 * nth) {
        arrive(&mut clients, &mut view, sector, ms(600));
    }
    for passed in 0..32 {
        arrive(&mut clients, &mut view, 1000 + 16 * (ahead - 1 + passed), ms(600));
        let next = clients.next_of(&view, client.index(), ms(600));
        if next == old {
            return passed;
        }
        let end = view.request(next).sector() + 8;
        clients.dispatch(client.index(), next, end);
    }
    panic!("it was passed over by 32");
}

/// S9: six wait. On a disk more than 2 * 6 have to go first; where there are no seeks none does,
/// nor where four wait, of which the order saves little. Of five it is more than 10.
#[test]
fn s9_a_late_request_goes_once_a_sweep_would_have_come_to_it() {
    assert_eq!([3, 4, 5].map(|ahead| passed_over(true, ahead)), [0, 11, 13]);
    assert_eq!([3, 4, 5].map(|ahead| passed_over(false, ahead)), [0; 3]);
}

/// S10: five readers of 15 ms each, so that each has one in 75 ms. Then one request takes 4 s, and
/// its client is ahead by that; by account it would wait until the other four have had as much. It
/// goes after 0.7 s, a look later (20 ms) and when the device is free (15 ms), and takes 15 ms: 750
/// ms. In 12 s it so has 16; by account it has none. And the others wait for one more, at most.
#[test]
fn s10_a_client_that_is_ahead_by_seconds_does_not_wait_for_seconds() {
    let mut world = World::new(1, Price { base: 15_000_000, sector: 0, seek: 0 });
    for _ in 0..5 {
        world.add(random(8));
    }
    world.run(ms(3000));
    world.price.base = 4_000_000_000;
    world.run(ms(3016));
    world.price.base = 15_000_000;
    let slow = world.flying[0].2;
    world.run(ms(7100));
    world.count_anew();
    world.run(ms(19_100));
    let had: Vec<u64> = world.actors.iter().map(|actor| actor.ended).collect();
    let longest = |place: usize| world.actors[place].longest / 1_000_000;
    assert!((15..=17).contains(&had[slow]) && longest(slow) <= 750, "{had:?} {}", longest(slow));
    // (12 s / 15 ms - 16) / 4 = 196, in turns of four and now and then five.
    let others = (0..5).filter(|&place| place != slow);
    assert!(others.clone().all(|place| (194..=198).contains(&had[place])), "{had:?}");
    assert!(others.clone().all(|place| longest(place) <= 90), "{had:?}");
}

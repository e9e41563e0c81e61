// SPDX-License-Identifier: MIT OR Apache-2.0
//! G1, G3, G6: what is charged, who has how much, and what trying costs.

use super::*;

/// What everybody had beside his part by weight: the worst of them, in thousandths of his part.
/// All of them could use more.
fn worst(world: &World, all: &[(usize, u32)]) -> u64 {
    let served = &world.queue.observer().0;
    let had = |place: usize| served[world.actors[place].id.index() as usize];
    let sum: u64 = all.iter().map(|&(place, _)| had(place)).sum();
    let weights: u64 = all.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let off = |&(place, weight): &(usize, u32)| {
        // Who has more than his part has it from one who has less.
        let right = sum * u64::from(weight) / weights;
        right.saturating_sub(had(place)) * 1000 / right
    };
    all.iter().map(off).max().expect("one at least")
}

proptest! {
    #![proptest_config(cases(6))]

    /// G3: on a device that takes one request at a time, have random readers of all sizes and
    /// weights their parts within 2 %, who think for 20 us (2 % of what the least request takes)
    /// or always have some waiting? Over 100 rounds of everybody's requests: 6 of up to 4.2 ms, by
    /// weights up to 1 to 8, are 100 * 8 * 6 * 4.2 ms = 20 s. Estimates are learned before.
    #[test]
    fn g3_shares_on_one_server(
        clients in prop::collection::vec((1u32..=512, 1u32..=8, 1u32..=8), 2..=6)
    ) {
        let mut world = World::new(1, CARD);
        let join = |&(sectors, weight, depth): &(u32, u32, u32)| {
            (world.weighing(100 * weight, deep(depth, sectors)), weight)
        };
        let all: Vec<(usize, u32)> = clients.iter().map(join).collect();
        world.run(ms(2_000));
        world.count_anew();
        world.run(ms(22_000));
        let worst = worst(&world, &all);
        prop_assert!(worst <= 20, "{worst} thousandths");
        prop_assert!(is_quiet(&world));
    }

    /// G3: and on a device that takes 8, of clients who each could fill it: all have more waiting
    /// than their part of it? Parts of 8 slots by weights 1 to 3.
    #[test]
    fn g3_shares_on_eight_servers(
        clients in prop::collection::vec((1u32..=512, 1u32..=3), 2..=5)
    ) {
        let mut world = World::new(8, FLASH);
        let join = |&(sectors, weight): &(u32, u32)| {
            (world.weighing(100 * weight, deep(16, sectors)), weight)
        };
        let all: Vec<(usize, u32)> = clients.iter().map(join).collect();
        world.run(ms(500));
        world.count_anew();
        world.run(ms(3_500));
        let worst = worst(&world, &all);
        prop_assert!(worst <= 20, "{worst} thousandths");
        prop_assert!(is_quiet(&world));
    }

    /// G1: is the sum of all charges the time for which the device was busy, but for the nanosecond
    /// that a division leaves over for each request? The audit compares accounts with what was
    /// served after all calls.
    #[test]
    fn g1_charges_are_busy_time(
        servers in 1u32..=8,
        clients in prop::collection::vec((1u32..=256, 1u32..=4, any::<bool>()), 1..=5)
    ) {
        let mut world = World::new(servers, DISK);
        for &(sectors, depth, sequential) in &clients {
            world.add(Patterns { sequential, ..deep(depth, sectors) });
        }
        world.run(ms(700));
        world.closing = true;
        world.pending.clear();
        world.run(ms(60_000));
        prop_assert!(world.flying.is_empty());
        prop_assert_eq!(world.queue.audit(), Ok(()));
        let charged: u64 = world.queue.observer().0.iter().sum();
        let requests: u64 = world.actors.iter().map(|actor| actor.ended).sum();
        prop_assert!(charged <= world.busy, "{charged} of {} ns", world.busy);
        prop_assert!(charged + requests >= world.busy, "{charged} of {} ns", world.busy);
    }
}

/// G3: have streams on a disk equal parts, turns and all: eight of them, who need one seat, over a
/// hundred rounds of eight turns of 160 ms? The first 20 s, in which the seat is found, are not
/// counted.
#[test]
fn g3_shares_of_turns() {
    let mut world = World::new(1, DISK);
    let all: Vec<(usize, u32)> = (0..8).map(|_| (world.add(stream(256)), 1)).collect();
    world.run(ms(20_000));
    world.count_anew();
    world.run(ms(20_000 + 100 * 8 * 160));
    let worst = worst(&world, &all);
    assert!(worst <= 20, "{worst} thousandths");
    assert!(is_quiet(&world));
}

/// G6: is what trying costs at most a 32nd of the time, where it gains nothing? Beside the same
/// world that has been told to try nothing: streams on servers of a disk's price without seeks.
/// Counted from the end of the first round on, with some requests' worth of chance.
#[test]
fn g6_trying_costs_a_32nd_at_most() {
    for (servers, streams) in [(4, 4), (8, 12), (2, 6)] {
        let mut plain = World::new(servers, Price { seek: 0, ..DISK });
        let mut tries = World::new(servers, Price { seek: 0, ..DISK });
        plain.queue.set_attribute(ms(0), "iosched/fallback", "1").expect("it can be set");
        let mut before = [0, 0];
        for second in 0..8 {
            for (world, before) in [&mut plain, &mut tries].into_iter().zip(&mut before) {
                if second == 0 {
                    for _ in 0..streams {
                        world.add(stream(256));
                    }
                }
                world.run(ms(1000 * (second + 1)));
                if second < 2 {
                    *before = world.ended();
                }
            }
            let [had, got] = [plain.ended() - before[0], tries.ended() - before[1]];
            assert!(got + 64 >= had - had / 32, "{servers} {streams} {second}: {got} of {had}");
        }
        assert!(tries.attribute("probes") > 1 && plain.attribute("probes") == 0);
    }
}

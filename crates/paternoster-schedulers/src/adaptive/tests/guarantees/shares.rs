// SPDX-License-Identifier: MIT OR Apache-2.0
//! G1, G3, G6: charges, shares, and the cost of probes.

use super::*;

/// How far the worst client fell short of its part by weight, in thousandths of that part. All of
/// them could use more.
fn worst(world: &World, all: &[(usize, u32)]) -> u64 {
    let served = &world.queue.observer().0;
    let had = |place: usize| served[world.actors[place].id.index() as usize];
    let sum: u64 = all.iter().map(|&(place, _)| had(place)).sum();
    let weights: u64 = all.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let off = |&(place, weight): &(usize, u32)| {
        // What one has above its part, another lacks.
        let right = sum * u64::from(weight) / weights;
        right.saturating_sub(had(place)) * 1000 / right
    };
    all.iter().map(off).max().expect("one at least")
}

proptest! {
    #![proptest_config(cases(6))]

    /// G3: on a device that takes one request at a time, do random readers of all sizes and weights
    /// get their parts within 2 %, whether they think for 20 us (2 % of what the least request
    /// takes) or always have some waiting? Over 100 rounds of all requests: 6 of up to 4.2 ms, by
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

    /// G3: and on a device that takes 8, with clients that could each fill it: all have more
    /// waiting than their part of it? Parts of 8 slots by weights 1 to 3.
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

    /// G1: is the sum of all charges the time for which the device was busy, except for the
    /// nanosecond that a division leaves over for each request? The audit compares accounts with
    /// what was served after all calls.
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

/// G3: do streams on a disk get equal parts, turns included: eight of them, which need one seat,
/// over a hundred rounds of eight turns of 160 ms? The first 20 s, in which the seat is found, are
/// not counted.
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

/// G6: do probes cost at most a 32nd of the time, where they gain nothing? Compared with the same
/// world with probes turned off: streams on servers of a disk's price without seeks. Counted from
/// the end of the first round on, with a tolerance of some requests.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweep groups: the random clients of a group, which take turns as one and go by sector.

use super::*;
use crate::adaptive::sweep_group::SweepGroups;
use paternoster_core::GroupId;

/// A disk: 100 us, 1 ms for a seek, and 5 ns for each sector of arm movement: 10 ms from one end of
/// a region to the other.
const DISK: Price = Price { base: 100_000, sector: 0, seek: 1_000_000 };
const TRAVEL: u64 = 5;

/// Eight sessions of one group that read one region here and there, next to one client of depth 8
/// in a group of the same weight, with a region of its own. Returns the places of all.
fn sessions(world: &mut World) -> (usize, Vec<usize>) {
    world.travel = TRAVEL;
    let victim = world.weighing(100, deep(8, 8));
    let group =
        world.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(100)).expect("there is room");
    let join = |n: u64| {
        // Steps of more than 64 MiB, all different, so that no two form a shared stream.
        let patterns = Patterns { skip: 20_011 + 4_002 * n, ..random(8) };
        let place = world.join(ClientSpec::new().group(group), patterns);
        let region = world.actors[victim].region + (1 << 22);
        // Each begins somewhere else, on a grid that no two share.
        world.actors[place].region = region;
        world.actors[place].at = region + (n * 262_139 * 8) % (1 << 21);
        place
    };
    let all = (0..8).map(join).collect();
    (victim, all)
}

/// Do sessions get more of a disk as a sweep group, and does the other group still get its half? By
/// accounts alone an arm moves a third of the region from one request to the next, 700 000 sectors
/// or 3.5 ms, and with the seek and the rest 4.6 ms; among eight that go by sector an eighth, 1.3
/// ms or 2.4 ms in all: nearly twice as many.
#[test]
fn sweep_group_goes_by_sector() {
    let mut world = World::new(1, DISK);
    let (victim, all) = sessions(&mut world);
    // While turns were tried, some sessions were ahead by seconds and went first (S10); their group
    // pays for that until here.
    world.run(ms(16_000));
    assert_eq!(world.attribute("seats"), 1, "turns were accepted");
    world.count_anew();
    world.run(ms(36_000));
    assert!((480..=520).contains(&world.share(victim)), "{}", world.share(victim));
    let sum: u64 = all.iter().map(|&place| world.actors[place].ended).sum();
    // Half of 20 s are 2 174 requests of 4.6 ms, or 4 167 of 2.4 ms.
    assert!(sum > 3_300, "{sum}");
    // I3, C6: each of eight has an eighth of the sweep group's requests, whatever arm movement its
    // steps took; a quantum of 160 ms is 1.6 % of the 10 s that are the sweep group's, and an
    // eighth 12.5 %.
    for &place in &all {
        let eighths = world.actors[place].ended * 1000 / sum;
        assert!(eighths.abs_diff(125) <= 18, "{eighths}");
    }
}

/// A disk with a random client of depth 4, and a group of the same weight.
fn beside_a_group() -> (World, usize, GroupId) {
    let mut world = World::new(1, DISK);
    world.travel = TRAVEL;
    let alone = world.weighing(100, deep(4, 8));
    let group =
        world.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(100)).expect("there is room");
    (world, alone, group)
}

/// A random client of a group, which begins at `at` in a region of its own.
fn join(
    world: &mut World,
    group: GroupId,
    (weight, depth): (u32, u32),
    region: u64,
    at: u64,
) -> usize {
    let patterns = Patterns { skip: 20_011 + 80 * u64::from(weight), ..deep(depth, 8) };
    let place = world.join(ClientSpec::new().group(group).weight(weight), patterns);
    (world.actors[place].region, world.actors[place].at) = (region, region + at);
    place
}

/// I3: does a client that weighs three times as much get three times as much of a sweep group's
/// turns, although sectors decide the order?
#[test]
fn sweep_group_i3_weights_hold() {
    let (mut world, alone, group) = beside_a_group();
    let region = world.actors[alone].region + (1 << 22);
    let [heavy, light] = [300, 100]
        .map(|weight| join(&mut world, group, (weight, 4), region, u64::from(weight) * 1_001 * 8));
    world.run(ms(12_000));
    world.count_anew();
    world.run(ms(42_000));
    // Half of the time is the sweep group's, and three quarters of its requests are the heavy
    // client's: both are random, and pay the same (C6), whatever the arm movements were.
    assert!(world.share(alone).abs_diff(500) <= 20, "{}", world.share(alone));
    let (heavy, light) = (world.actors[heavy].ended, world.actors[light].ended);
    let part = heavy * 1000 / (heavy + light);
    assert!(part.abs_diff(750) <= 30, "{heavy} and {light}");
}

/// Does a sweep go upwards from where it was, and then from the lowest again?
#[test]
fn sweep_group_sweeps_upwards_and_begins_again() {
    let mut sweep_groups = SweepGroups::new(1, 4);
    for (request, sector) in [30, 10, 40, 20].into_iter().enumerate() {
        let request = u32::try_from(request).unwrap();
        sweep_groups.insert(0, RequestId::from_index(request), sector);
    }
    let mut order = Vec::new();
    sweep_groups.set_head(0, 25);
    while let Some(request) = sweep_groups.next(0) {
        order.push(request.index());
        sweep_groups.remove(0, request);
        sweep_groups.set_head(0, [30, 10, 40, 20][request.index() as usize] + 1);
    }
    assert_eq!(order, [0, 2, 1, 3]);
    assert!(sweep_groups.is_empty(0));
}

/// I4: is no request passed over for ever, however far up its file lies? A client that weighs 20
/// times as much has its file below, and takes the sweep back to there each time. The light one has
/// a 21st of a half of the time. A request of it takes at most 32 ms: 1.1, and an arm that moves by
/// 6 million sectors. So it has one each 42 * 32 = 1344 ms, and one after the other goes each of
/// eight after 10.8 s.
#[test]
fn sweep_group_i4_no_request_is_passed_over_for_ever() {
    let (mut world, alone, group) = beside_a_group();
    let region = world.actors[alone].region;
    let [_, light] =
        [(2000, 1, 1), (100, 8, 2)].map(|(weight, depth, further): (u32, u32, u64)| {
            join(&mut world, group, (weight, depth), region + (further << 22), 8_008)
        });
    world.run(ms(12_000));
    assert_eq!(world.attribute("seats"), 1, "turns were accepted");
    world.count_anew();
    world.run(ms(72_000));
    // What still waits has ended then, and counts.
    world.closing = true;
    world.run(ms(90_000));
    let longest = world.actors[light].longest / 1_000_000;
    assert!(longest < 10_800, "{longest} ms");
}

/// I4: is a request that waits passed over by four times as many as wait, and no more?
#[test]
fn sweep_group_i4_passed_over_is_counted() {
    let mut sweep_groups = SweepGroups::new(1, 2);
    let [one, other] = [0, 1].map(RequestId::from_index);
    sweep_groups.insert(0, one, 900);
    for passed in 1..=9 {
        sweep_groups.insert(0, other, 8 * passed);
        // Two wait: 4 * 2 are not too many.
        assert_eq!(sweep_groups.is_passed_over(0, one), passed > 9, "{passed}");
        sweep_groups.remove(0, other);
        sweep_groups.set_head(0, 8 * passed + 8);
    }
    sweep_groups.insert(0, other, 8);
    assert!(sweep_groups.is_passed_over(0, one), "nine have gone");
    assert!(!sweep_groups.is_passed_over(0, other), "it has just come");
}

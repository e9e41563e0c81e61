// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: weights, fractions of nested ones, which group async queues belong to, where seeky ones
//! go; what CFQ-46 and 47 rest on.

use super::*;
use crate::cfq::kind::Kind;

/// Is a weight brought into 100 to 1000 in 2.6.34, and 10 to 1000 later?
#[test]
fn weights_have_a_least_and_a_most() {
    each(|mut bench| {
        let root = bench.view.root();
        let [light, heavy] = [1, 5000].map(|weight| bench.group(root, weight));
        let least = if bench.is(LINUX_2_6_34) { 100 } else { 10 };
        let weight = |group: GroupId| bench.cfq.schedule.groups[group.index()].weight;
        assert_eq!((weight(light), weight(heavy), weight(root)), (least, 1000, 1000));
    });
}

/// Does a group get its part of target_latency by weight, and, where groups nest, by the product of
/// its parts on the way down? Root 1000, in it 500, in that 250, each with a reader. Flat: 250 of
/// 1750, 300 * 250/1750 = 42.857 ms. Nested: 250 of 250 + 500, times 500 of 500 + 1000, is 1/9; in
/// 4096ths 4096 * 250/750 = 1365, 1365 * 500/1500 = 455, and 300 * 455/4096 = 33.325 ms.
#[test]
fn a_groups_part_of_the_latency() {
    each(|mut bench| {
        let root = bench.view.root();
        let outer = bench.group(root, 500);
        let inner = bench.group(outer, 250);
        for (place, group) in [root, outer, inner].into_iter().enumerate() {
            let client = bench.client_in(group, Class::BestEffort, 4);
            bench.read(client, (place as u64) << 20);
        }
        let target = bench.cfq.tunables.target_latency;
        let tick = bench.view.hz().tick();
        let part = bench.cfq.schedule.groups.slice(inner.index(), target, tick).as_micros();
        assert_eq!(part, if bench.is(LINUX_4_19) { 33_325 } else { 42_857 });
    });
}

/// What a turn of 10 ms costs a group of weight 250 that competes only with the root's 1000: 10 *
/// 500/250 = 20, nested 10 * 4096/fraction, with 4096 * 250/(250 + 1000) = 819 of 4096: 50.01; in
/// 4096ths of a ns. The fraction is that of when the group entered the tree, after the root.
#[test]
fn a_groups_turn_costs_by_its_weight() {
    each(|mut bench| {
        let root = bench.view.root();
        let light = bench.group(root, 250);
        let [member, other] =
            [light, root].map(|group| bench.client_in(group, Class::BestEffort, 4));
        bench.read(other, 1 << 20);
        bench.read(member, 0);
        let queue = bench.number(member);
        let before = bench.cfq.schedule.groups[light.index()].virtual_time;
        bench.charge(queue, Nanos::from_millis(10));
        let cost = bench.cfq.schedule.groups[light.index()].virtual_time - before;
        let nested = 10_000_000 * 4096 * 4096 / 819;
        let expected = if bench.is(LINUX_4_19) { nested } else { 10_000_000 * 4096 * 2 };
        assert_eq!(cost, expected);
    });
}

/// CFQ-46: without slice_idle on a device that queues commands, does a turn cost its requests and
/// not its time, from 2.6.37 on? Three requests, 10 ms, weight 1000: 3 * 500/1000 against 10 ms /
/// 2.
#[test]
fn cfq_46_without_slice_idle_requests_are_charged() {
    for (idle, depth) in [(0, 32), (0, 1), (8, 32)] {
        for version in [LINUX_2_6_34, LINUX_3_6, LINUX_4_19] {
            let mut bench = Bench::new(version, disk(depth));
            bench.cfq.tunables.slice_idle = Nanos::from_millis(idle);
            let client = bench.client();
            for sector in 0..4 {
                bench.read(client, sector * 100);
            }
            for _ in 0..3 {
                bench.pick().unwrap();
            }
            let queue = bench.number(client);
            let before = bench.cfq.schedule.groups[0].virtual_time;
            bench.charge(queue, Nanos::from_millis(10));
            let cost = bench.cfq.schedule.groups[0].virtual_time - before;
            let by_requests = idle == 0 && depth > 1 && !bench.is(LINUX_2_6_34);
            // Alone, its fraction is the whole in 4.19; its weight is twice the usual before.
            let units = if by_requests { 3 } else { 10_000_000 };
            let expected = if bench.is(LINUX_4_19) { units * 4096 } else { units * 4096 / 2 };
            assert_eq!(cost, expected, "{idle} {depth} {}", version.name);
        }
    }
}

/// CFQ-47: does a seeky queue move to the root in 2.6.34 when it is put in, and back when it is
/// idled for again; with group_isolation=1 not, and in later kernels never?
#[test]
fn cfq_47_without_isolation_seeky_queues_move_to_the_root() {
    for isolation in [false, true] {
        each(|mut bench| {
            bench.cfq.tunables.group_isolation = isolation;
            let root = bench.view.root();
            let group = bench.group(root, 500);
            let client = bench.client_in(group, Class::BestEffort, 4);
            let mut homes = Vec::new();
            for (place, window) in [true, false, true].into_iter().enumerate() {
                let id = bench.bound(client, Op::Read, Flags::NONE, place as u64 * 8);
                let queue = bench.number(client);
                bench.cfq.queues.at_mut(queue).idle_window = window;
                bench.wait(id);
                homes.push(bench.queue(client).group);
                bench.withdraw(id);
            }
            let away = if bench.is(LINUX_2_6_34) && !isolation { root } else { group };
            assert_eq!(homes, [group, away, group].map(GroupId::index));
        });
    }
}

/// Do async queues belong to the root, and only in 4.19 to the writer's group?
#[test]
fn async_queues_belong_to_the_root_before_groups_nest() {
    each(|mut bench| {
        let root = bench.view.root();
        let group = bench.group(root, 500);
        let client = bench.client_in(group, Class::BestEffort, 4);
        bench.write(client, 0);
        let queue = bench.cfq.queues.at(bench.shared(client));
        assert_eq!(queue.kind(), Kind::Async);
        let home = if bench.is(LINUX_4_19) { group } else { root };
        assert_eq!(queue.group, home.index());
    });
}

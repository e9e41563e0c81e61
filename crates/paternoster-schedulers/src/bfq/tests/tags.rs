// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many requests each kind of I/O may have. BFQ-35, BFQ-36; scenario 12.

use super::super::weight_raising::Kind;
use super::*;

const KINDS: [(Op, Flags); 3] =
    [(Op::Read, Flags::NONE), (Op::Write, Flags::SYNC), (Op::Write, Flags::NONE)];

fn limits(bench: &mut Bench, client: ClientId) -> [Admission; 3] {
    KINDS.map(|(op, flags)| bench.bfq.admit(&mut bench.view, client, op, flags))
}

/// Have reads no limit, sync writes three quarters and async writes half of the requests, and while
/// a queue is raised three eighths and three sixteenths; never less than one?
#[test]
fn bfq_35_parts_of_the_requests() {
    use Admission::{AtMost, Normal};
    for (depth, calm, raised) in
        [(64, [48, 32], [24, 12]), (256, [192, 128], [96, 48]), (2, [1, 1], [1, 1])]
    {
        each(disk(32), |mut bench| {
            bench.view.set_nr_requests(depth);
            let client = bench.client();
            assert_eq!(limits(&mut bench, client), [Normal, AtMost(calm[0]), AtMost(calm[1])]);
            let [other] = bench.readers();
            let queue = bench.number(other);
            bench.set_raised(queue, Kind::Interactive);
            assert_eq!(limits(&mut bench, client), [Normal, AtMost(raised[0]), AtMost(raised[1])]);
        });
    }
}

/// Scenario 12: do background writes leave at least half of the requests to reads, and 81 % while a
/// queue is raised? 256 - 128 and 256 - 48.
#[test]
fn bfq_scenario_12_writes_leave_room() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        let left = |bench: &mut Bench| match limits(bench, client)[2] {
            Admission::AtMost(most) => 100 * (256 - most) / 256,
            _ => 0,
        };
        assert_eq!(left(&mut bench), 50);
        let [other] = bench.readers();
        let queue = bench.number(other);
        bench.set_raised(queue, Kind::Interactive);
        assert_eq!(left(&mut bench), 81);
    });
}

/// A group of weight 100 and one of 300; the first has queues of 40 and 40: its readers' share of
/// 256 is 64, and each of the two has 32.
fn in_groups(version: Version) -> (Bench, [ClientId; 3]) {
    let mut bench = Bench::new(version, disk(32));
    let groups = [100, 300].map(|weight| bench.group(weight));
    let clients = [0, 0, 1].map(|place| bench.member(groups[place]));
    for (place, client) in (1..).zip(clients) {
        bench.read(client, place * FAR);
    }
    (bench, clients)
}

/// In 6.18, is a queue admitted only one request once it, or a group above it, has its share by
/// weight; and in 4.19 any number?
#[test]
fn bfq_36_requests_by_weight() {
    for version in [LINUX_4_19, LINUX_6_18] {
        let (mut bench, [one, two, _]) = in_groups(version);
        let queue = bench.number(one);
        let cut = |bench: &mut Bench, client| {
            bench.bfq.admit(&mut bench.view, client, Op::Read, Flags::NONE) == Admission::AtMost(1)
        };
        let later = version.name == LINUX_6_18.name;
        bench.bfq.queues.at_mut(queue).allocated += 30;
        assert!(!cut(&mut bench, one), "31 of 32");
        bench.bfq.queues.at_mut(queue).allocated += 1;
        assert_eq!(cut(&mut bench, one), later, "32 of 32");
        assert!(!cut(&mut bench, two));
        bench.bfq.queues.at_mut(queue).allocated -= 31;
        let group = bench.entity(one).group;
        bench.bfq.groups.allocate(group, 62);
        assert_eq!(cut(&mut bench, two), later, "64 of 64 of the group");
        bench.bfq.groups.allocate(group, -1);
        assert!(!cut(&mut bench, two));
        bench.bfq.groups.allocate(group, -61);
    }
}

/// Is nothing limited if the queue or a group above it has nothing to serve?
#[test]
fn bfq_36_not_at_rest() {
    let (mut bench, [one, ..]) = in_groups(LINUX_6_18);
    let id = bench.queue(one).next.expect("it has one");
    bench.bfq.queues.at_mut(bench.number(one)).allocated += 100;
    let admit = |bench: &mut Bench| bench.bfq.admit(&mut bench.view, one, Op::Read, Flags::NONE);
    assert_eq!(admit(&mut bench), Admission::AtMost(1));
    let queue = bench.number(one);
    bench.bfq.queues.at_mut(queue).allocated -= 100;
    bench.withdraw(id);
    assert_eq!(bench.entity(one).standing, Standing::Off);
    bench.bfq.queues.at_mut(queue).allocated += 100;
    assert_eq!(admit(&mut bench), Admission::Normal);
    bench.bfq.queues.at_mut(queue).allocated -= 100;
}

/// Is a queue's share counted among the weights of its class, where those of each higher class
/// count eight times? 10 * 8 + 40: 256 * 40/120 = 85.
#[test]
fn bfq_36_classes_above_count_eightfold() {
    let mut bench = Bench::new(LINUX_6_18, disk(32));
    let urgent = bench.client_of(Class::Realtime, 7);
    let [client] = bench.readers();
    bench.read(urgent, 9 * FAR);
    let queue = bench.number(client);
    for (more, expected) in [(83, Admission::Normal), (84, Admission::AtMost(1))] {
        bench.bfq.queues.at_mut(queue).allocated += more;
        let admitted = bench.bfq.admit(&mut bench.view, client, Op::Read, Flags::NONE);
        assert_eq!(admitted, expected, "{more} and one");
        bench.bfq.queues.at_mut(queue).allocated -= more;
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: where they wait, what they are merged with, which of a queue's goes next. BFQ-28 to
//! BFQ-34, BFQ-37 to BFQ-40.

use super::super::weight_raising::Kind;
use super::*;
use paternoster_core::elevator::Side;

/// Does a request inserted at the head go before everything, the last inserted first?
#[test]
fn bfq_28_at_the_head() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        let ordinary = bench.read(client, FAR);
        let urgent = [1, 2].map(|place| {
            let id = bench.bound(client, Op::Read, Flags::NONE, (place * 100, 8));
            bench.bfq.insert(&mut bench.view, id, Position::Head);
            bench.audit();
            id
        });
        let order = [(); 3].map(|()| bench.pick().expect("three wait"));
        assert_eq!(order, [urgent[1], urgent[0], ordinary]);
    });
}

/// Is a request inserted at the head never merged with a neighbour, even in a slot whose last
/// request, ended since, had one when it was dispatched?
#[test]
fn bfq_28_at_the_head_stands_beside_none() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        let waiting = [0, 100, 200].map(|place| bench.read(client, FAR + place));
        let order = [(); 3].map(|()| bench.pick().expect("three wait"));
        assert_eq!(order, waiting);
        for id in [waiting[0], waiting[2], waiting[1]] {
            bench.end(id);
        }
        for place in 0..3 {
            let id = bench.bound(client, Op::Read, Flags::NONE, (place * 100, 8));
            bench.bfq.insert(&mut bench.view, id, Position::Head);
            for side in [Side::Front, Side::Back] {
                assert_eq!(bench.bfq.neighbour(&bench.view, id, side), None, "{id:?}");
            }
        }
    });
}

/// Does it go regardless of budget, idling and strict_guarantees, and does it still count as in
/// flight for its queue?
#[test]
fn bfq_29_the_head_goes_before_all_rules() {
    each(disk(32), |mut bench| {
        bench.set("strict_guarantees", 1);
        let [client, other] = bench.readers();
        let first = bench.pick().expect("one at a time");
        assert!(bench.pick().is_err());
        let id = bench.bound(other, Op::Read, Flags::NONE, (100, 8));
        bench.bfq.insert(&mut bench.view, id, Position::Head);
        assert_eq!(bench.pick(), Ok(id));
        assert_eq!((bench.queue(other).in_flight, bench.bfq.device.in_driver()), (1, 2));
        assert_eq!(bench.entity(other).service, 0);
        bench.end(first);
        bench.end(id);
        assert_eq!((bench.queue(other).in_flight, bench.bfq.device.in_driver()), (0, 0));
        assert_eq!(bench.in_service(), Some(bench.number(client)));
    });
}

/// Do a read and a sync write expire after 125 ms and a background write after 250?
#[test]
fn bfq_30_when_requests_expire() {
    each(disk(1), |mut bench| {
        let client = bench.client();
        let read = bench.read(client, FAR);
        let sync = bench.ask(client, Op::Write, Flags::SYNC, (FAR + 100, 8));
        let write = bench.write(client, FAR + 200);
        let deadline = |id: RequestId| Nanos(bench.view.request(id).scratch()[0]);
        assert_eq!([read, sync, write].map(deadline), [ms(1125), ms(1125), ms(1250)]);
        assert_eq!(bench.queue(client).lane.len(), 2);
    });
}

/// Is a sync bio not merged into an async request, and no bio into a request of a queue that its
/// process does not use?
#[test]
fn bfq_31_what_may_be_merged() {
    each(disk(1), |mut bench| {
        let [client, other] = bench.readers();
        let read = bench.queue(client).next.expect("it has one");
        let write = bench.write(client, 9 * FAR);
        let may = |id: RequestId, client, op, flags| {
            let sector = bench.view.request(id).end();
            let bio = Bio::new(client, op, sector, 8).flags(flags);
            bench.bfq.may_merge(&bench.view, id, &bio)
        };
        assert!(may(read, client, Op::Read, Flags::NONE));
        assert!(may(write, client, Op::Write, Flags::NONE));
        assert!(!may(write, client, Op::Write, Flags::SYNC));
        assert!(!may(read, other, Op::Read, Flags::NONE));
    });
}

/// May a bio be merged into a request of the queue that its process joins with this very bio,
/// because both read one stream?
#[test]
fn bfq_31_merged_early() {
    each(disk(1), |mut bench| {
        let [client, other] = bench.readers();
        let id = bench.queue(client).next.expect("it has one");
        let bio = Bio::new(other, Op::Read, FAR + 8, 8);
        bench.bfq.bio_comes(&mut bench.view, &bio);
        assert_eq!(bench.number(other), bench.number(client));
        assert!(bench.bfq.may_merge(&bench.view, id, &bio));
    });
}

/// When a request is merged into a younger one of its queue, does that get the older one's age; and
/// one of another queue not?
#[test]
fn bfq_32_the_survivor_is_as_old_as_the_older() {
    for same in [true, false] {
        each(disk(1), |mut bench| {
            let [a, b] = [(); 2].map(|()| bench.client());
            let gone = bench.read(if same { a } else { b }, FAR + 8);
            bench.at(1010);
            let between = bench.read(a, 3 * FAR);
            bench.at(1020);
            let survivor = bench.read(a, FAR);
            if !same {
                // Two queues with adjoining requests would be one by now.
                assert_eq!(bench.number(a), bench.number(b));
                return;
            }
            bench.bfq.absorbed(&mut bench.view, survivor, gone);
            bench.free(gone);
            let lane = bench.queue(a).lane;
            assert_eq!(lane.oldest(), Some(survivor));
            assert_eq!(lane.deadline(&bench.view), Some(ms(1125)));
            let _ = between;
        });
    }
    each(disk(1), |mut bench| {
        bench.set("queue_merging", 0);
        let [a, b] = [(); 2].map(|()| bench.client());
        let gone = bench.read(b, FAR + 8);
        bench.at(1020);
        let survivor = bench.read(a, FAR);
        bench.bfq.absorbed(&mut bench.view, survivor, gone);
        bench.free(gone);
        assert_eq!(bench.queue(a).lane.deadline(&bench.view), Some(ms(1145)));
    });
}

/// When a front merge moves a request before its neighbour, are the order by sector and the next
/// request updated, and with it budget and position?
#[test]
fn bfq_33_a_merge_at_the_front() {
    each(disk(1), |mut bench| {
        let client = bench.client();
        let first = bench.read(client, 1000);
        let grown = bench.read_of(client, 1016, 20_000);
        let queue = bench.number(client);
        assert_eq!(bench.queue(client).next, Some(first));
        assert_eq!(bench.bfq.cooperation.positions.sector(queue), Some(1000));
        bench.view.resize(grown, 800, 20_216);
        bench.bfq.grown(&mut bench.view, grown, Side::Front);
        bench.audit();
        assert_eq!(bench.bfq.neighbour(&bench.view, grown, Side::Back), Some(first));
        assert_eq!(bench.queue(client).next, Some(grown));
        assert_eq!(bench.entity(client).budget, 20_216);
        assert_eq!(bench.bfq.cooperation.positions.sector(queue), Some(800));
    });
}

/// In 6.18, does a request count among the seeks of its queue before it is judged? The 32nd seek in
/// a row makes the queue totally seeky: not soft real time. In 4.19 nothing judged at an arrival
/// depends on it.
#[test]
fn bfq_34_learned_before_judged() {
    for (marks, soft) in [(31, false), (30, true)] {
        let mut bench = Bench::new(LINUX_6_18, disk(1));
        bench.set("low_latency", 1);
        let [client] = bench.readers();
        bench.serve();
        bench.marks(client, marks);
        let queue = bench.number(client);
        bench.end_raising(queue);
        bench.at(1900);
        bench.read(client, 9 * FAR);
        let kind = bench.queue(client).raising.kind;
        assert_eq!(kind == Kind::SoftRealtime, soft, "{marks}: {kind:?}");
    }
}

/// Of two requests, is the sync one next before the async one, and meta before others; then the
/// nearer one, with backward distance counted twice up to 32768 sectors, and the one ahead if both
/// are equally near; and does a request further back come after one that is not, and of two such
/// the lower one first? Seen from sector 100,000.
#[test]
fn bfq_37_which_request_is_nearer() {
    each(disk(1), |mut bench| {
        let client = bench.client();
        let first = |bench: &mut Bench, two: [(Op, Flags, u64); 2]| {
            let [a, b] = two.map(|(op, flags, at)| bench.bound(client, op, flags, (at, 8)));
            let chosen =
                bench.bfq.tunables.back_seek().choose(&bench.view, Some(a), Some(b), 100_000);
            bench.view.request(chosen.expect("one of two")).sector()
        };
        let reads = |a, b| [(Op::Read, Flags::NONE, a), (Op::Read, Flags::NONE, b)];
        for (a, b, expected) in [
            (100_100, 99_960, 99_960),
            (100_100, 99_950, 100_100),
            (67_232, 165_537, 67_232),
            (67_231, 900_000, 900_000),
            (50_000, 60_000, 50_000),
        ] {
            assert_eq!(first(&mut bench, reads(a, b)), expected, "{a} {b}");
        }
        let write = (Op::Write, Flags::NONE, 100_000);
        assert_eq!(first(&mut bench, [write, (Op::Read, Flags::NONE, 900_000)]), 900_000);
        let meta = (Op::Read, Flags::META, 900_000);
        assert_eq!(first(&mut bench, [(Op::Read, Flags::NONE, 100_000), meta]), 900_000);
    });
}

/// Is the next request the nearest to the device's last position, whichever queue was served there?
#[test]
fn bfq_38_near_to_the_last_position() {
    each(disk(32), |mut bench| {
        bench.set("queue_merging", 0);
        let [other, client] = [(); 2].map(|()| bench.client());
        bench.read(other, 50_000);
        bench.picked();
        for sector in [10, 60_000, 49_000] {
            bench.read(client, sector);
        }
        let next = bench.queue(client).next.expect("three wait");
        // 49,000 is 1008 back and counts 2016, 60,000 is 9992 ahead.
        assert_eq!(bench.view.request(next).sector(), 49_000);
    });
}

/// The sectors in which the requests of a client go, each 10 ms after the one before.
fn order<const N: usize>(bench: &mut Bench) -> [u64; N] {
    [(); N].map(|()| {
        let (_, id) = bench.picked();
        let sector = bench.view.request(id).sector();
        bench.later(10);
        bench.end(id);
        sector
    })
}

/// When the next request leaves, is its nearer neighbour next, seen from its start; and the first
/// of all if it was the last? 5000 to 5300 is 300; back to 4900 it is 200.
#[test]
fn bfq_39_the_nearer_neighbour_follows() {
    each(disk(32), |mut bench| {
        bench.bfq.device.set_last_position(5000);
        let client = bench.client();
        for sector in [4900, 5000, 5300] {
            bench.read(client, sector);
        }
        assert_eq!(order(&mut bench), [5000, 4900, 5300]);
        bench.bfq.device.set_last_position(900_000);
        for sector in [10, 20, 900_000] {
            bench.read(client, sector);
        }
        assert_eq!(order(&mut bench), [900_000, 10, 20]);
    });
}

/// Does the oldest request go second in a turn if it has expired when the first leaves; but not if
/// it expires later in the turn, nor if it is itself the first, which uses up the check?
#[test]
fn bfq_39_the_oldest_once_in_a_turn() {
    for (age, expected) in [(125, [100, 9000, 500, 300]), (124, [100, 300, 500, 9000])] {
        each(disk(32), |mut bench| {
            bench.bfq.device.set_last_position(100);
            let client = bench.client();
            for sector in [9000, 100, 300, 500] {
                bench.read(client, sector);
            }
            bench.later(age);
            assert_eq!(order(&mut bench), expected);
        });
    }
    each(disk(32), |mut bench| {
        bench.bfq.device.set_last_position(100);
        let client = bench.client();
        for sector in [100, 9000, 300, 500] {
            bench.read(client, sector);
        }
        bench.later(200);
        assert_eq!(order(&mut bench), [100, 300, 500, 9000]);
    });
}

/// Is an expired request looked for again in the next turn?
#[test]
fn bfq_40_the_next_turn_looks_anew() {
    each(disk(32), |mut bench| {
        bench.bfq.device.set_last_position(100);
        let client = bench.client();
        for sector in [9000, 100, 300, 500, 700] {
            bench.read(client, sector);
        }
        assert_eq!(order(&mut bench), [100]);
        bench.at(1130);
        // The turn is over after 125 ms; another begins with 300.
        assert_eq!(order(&mut bench), [300, 9000, 700, 500]);
    });
}

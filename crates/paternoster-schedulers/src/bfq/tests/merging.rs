// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues that become one: positions, the merge window of seed 004, which may be merged, what a
//! merge does; partners. BFQ-116 to BFQ-131, BFQ-145 to BFQ-147.

use super::super::weight_raising::{Kind, Raising};
use super::*;

/// Three readers far from each other; the first is in service, and its head is at FAR + 8.
fn readers(bench: &mut Bench) -> [ClientId; 3] {
    let clients = bench.readers();
    bench.read(clients[0], FAR + 100);
    assert_eq!(bench.picked().0, clients[0]);
    clients
}

/// The queue found at a sector of the root.
fn at(bench: &Bench, sector: u64) -> Option<u32> {
    bench.bfq.cooperation.positions.close_to(0, sector, 0)
}

fn target(bench: &Bench, client: ClientId) -> Option<u32> {
    bench.queue(client).merge_into
}

/// Is a queue found where its next request is, and nowhere if it has none; and is the second of two
/// at one sector left out? It moves with an insert, a removal, and a new turn.
#[test]
fn bfq_116_where_a_queue_stands() {
    each(disk(32), |mut bench| {
        let [a, b] = [(); 2].map(|()| bench.client());
        bench.read(a, 5000);
        let one = Some(bench.number(a));
        assert_eq!(at(&bench, 5000), one);
        bench.read(a, 1000);
        assert_eq!((at(&bench, 1000), at(&bench, 5000)), (one, None));
        bench.bfq.cooperation.positions.remove(bench.number(a));
        bench.bfq.begin_turn(&mut bench.view);
        bench.expire(a, Expiry::BudgetTimeout);
        assert_eq!(at(&bench, 1000), one, "put back with its place");
        bench.marks(a, 32);
        bench.read(b, 1000);
        assert_ne!(bench.number(a), bench.number(b));
        assert!(!bench.bfq.cooperation.positions.contains(bench.number(b)), "1000 is taken");
        while !bench.queue(a).is_empty() {
            match bench.pick() {
                Ok(id) => bench.end(id),
                Err(_) => bench.later(1),
            }
        }
        assert!(!bench.bfq.cooperation.positions.contains(bench.number(a)));
    });
}

/// Seed 004, patch 1: when the head of a queue with requests at 1000 and 5000 is dispatched, is it
/// found at 5000 and no longer at 1000; and without the patch still at 1000?
#[test]
fn bfq_117_a_dispatched_head_moves_its_queue() {
    for update in [1, 0] {
        each(disk(32), |mut bench| {
            bench.set("position_update", update);
            let client = bench.client();
            bench.read(client, 1000);
            bench.read(client, 5000);
            bench.picked();
            let queue = Some(bench.number(client));
            let expected = if update == 1 { (None, queue) } else { (queue, None) };
            assert_eq!((at(&bench, 1000), at(&bench, 5000)), expected);
        });
    }
}

/// Is a queue too late for a merge 100 ms after its first service, and never with merge_window=0?
#[test]
fn bfq_118_the_merge_window() {
    for (window, at, late) in
        [(100, 1100, false), (100, 1101, true), (20, 1021, true), (0, 9000, false)]
    {
        each(disk(32), |mut bench| {
            bench.set("merge_window", window);
            let [client] = bench.readers();
            bench.read(client, FAR + 8);
            bench.picked();
            bench.pass(ms(at));
            let queue = bench.number(client);
            assert_eq!(bench.is_too_late(queue), late, "{window} {at}");
        });
    }
}

/// Is service counted as it is dispatched from when a queue has work, and the time of the first
/// kept; both afresh when it has work again?
#[test]
fn bfq_119_service_is_counted_when_it_happens() {
    each(disk(1), |mut bench| {
        let client = bench.client();
        bench.at(1500);
        bench.read(client, FAR);
        bench.read_of(client, FAR + 8, 16);
        let known = |bench: &Bench| {
            (bench.queue(client).first_service, bench.queue(client).backlog_service)
        };
        assert_eq!(known(&bench).1, 0);
        bench.at(1600);
        let (_, first) = bench.picked();
        assert_eq!(known(&bench), (ms(1600), 8));
        bench.at(1610);
        let (_, second) = bench.picked();
        assert_eq!(known(&bench), (ms(1600), 24), "not only when the turn ends");
        bench.end(first);
        bench.end(second);
        bench.at(1700);
        bench.read(client, FAR + 24);
        assert_eq!(known(&bench).1, 0);
        bench.at(1701);
        bench.picked();
        assert_eq!(known(&bench), (ms(1701), 8));
    });
}

/// Is a queue with work for 150 ms neither merged nor merged into, and not found from its next
/// change on; and when it has run empty and starts again, is it merged again?
#[test]
fn bfq_120_who_has_worked_for_long_is_left_alone() {
    each(disk(32), |mut bench| {
        let [a, b, _] = readers(&mut bench);
        bench.queue_mut(a).stamp = Some(Nanos::MAX);
        bench.pass(ms(1150));
        bench.read(a, FAR + 50_000);
        bench.picked();
        assert!(!bench.bfq.cooperation.positions.contains(bench.number(a)));
        bench.read(b, FAR + 116);
        assert_ne!(bench.number(b), bench.number(a), "into it");
        bench.read(a, 2 * FAR + 8);
        assert_ne!(bench.number(b), bench.number(a), "it");
    });
    each(disk(32), |mut bench| {
        let [a, b, _] = readers(&mut bench);
        bench.pass(ms(1150));
        let queue = bench.queue_mut(a);
        (queue.backlog_service, queue.backlog_began) = (0, ms(1150));
        bench.read(b, FAR + 16);
        assert_eq!(bench.number(b), bench.number(a));
    });
}

/// Is a queue that has not been served since it has work never too late, however long it waits?
#[test]
fn bfq_121_waiting_makes_nobody_late() {
    each(disk(32), |mut bench| {
        let [a, b, _] = readers(&mut bench);
        bench.queue_mut(a).backlog_service = 0;
        bench.pass(ms(60_000));
        assert!(!bench.is_too_late(bench.number(b)));
        bench.read(b, FAR + 16);
        assert_eq!(bench.number(b), bench.number(a));
    });
}

/// Does a scheduled merge take place though it is too late by now? The plain seed would have
/// checked that first.
#[test]
fn bfq_122_what_was_agreed_on_is_done() {
    each(disk(32), |mut bench| {
        let [a, b, _] = readers(&mut bench);
        let (from, to) = (bench.number(b), bench.number(a));
        bench.schedule_merge(from, to);
        let queue = bench.queue_mut(b);
        (queue.backlog_service, queue.first_service) = (8, Nanos::ZERO);
        assert!(bench.is_too_late(from));
        bench.read(b, 9 * FAR);
        assert_eq!(bench.number(b), to);
    });
}

/// Is no partner looked for if only one queue has work?
#[test]
fn bfq_122_not_for_one_alone() {
    each(disk(32), |mut bench| {
        let [a] = bench.readers();
        bench.picked();
        let b = bench.client();
        bench.read(b, FAR + 16);
        assert_ne!(bench.number(b), bench.number(a));
    });
}

/// On flash with command queueing, are queues merged by position in 4.19 and not in 6.18?
#[test]
fn bfq_123_not_on_flash_that_queues() {
    for facts in [flash(32), flash(1)] {
        each(facts, |mut bench| {
            let [a, b, _] = readers(&mut bench);
            bench.read(b, FAR + 16);
            let merged = bench.number(b) == bench.number(a);
            assert_eq!(merged, bench.is(LINUX_4_19) || facts.depth == 1);
        });
    }
}

/// Is the queue in service a partner if its last request ended at most 8192 sectors away, in the
/// same group only?
#[test]
fn bfq_124_close_to_the_queue_in_service() {
    for (sector, merged) in [
        (FAR + 8 + 8192, true),
        (FAR + 8 + 8193, false),
        (FAR + 8 - 8192, true),
        (FAR + 8 - 8193, false),
    ] {
        each(disk(32), |mut bench| {
            let [a, b, _] = readers(&mut bench);
            // No other is close: its other request is taken out of sight.
            bench.bfq.cooperation.positions.remove(bench.number(a));
            bench.read(b, sector);
            assert_eq!(bench.number(b) == bench.number(a), merged, "{sector}");
        });
    }
    each(disk(32), |mut bench| {
        let [a, _, _] = readers(&mut bench);
        let group = bench.group(100);
        let member = bench.member(group);
        bench.read(member, FAR + 16);
        assert_ne!(bench.number(member), bench.number(a));
    });
}

/// Is a waiting queue a partner if its next request starts at most 8192 sectors away, the nearer of
/// two?
#[test]
fn bfq_125_close_to_a_waiting_queue() {
    for (sector, partner) in [
        (2 * FAR, Some(1)),
        (2 * FAR + 8192, Some(1)),
        (2 * FAR + 8193, None),
        (2 * FAR - 8192, Some(1)),
        (3 * FAR - 5, Some(2)),
    ] {
        each(disk(32), |mut bench| {
            let clients = readers(&mut bench);
            let coming = bench.client();
            bench.read(coming, sector);
            let found = (0..3).find(|&it| bench.number(clients[it]) == bench.number(coming));
            assert_eq!(found, partner, "{sector}");
        });
    }
}

/// Whether a second reader, of this class and with the second number of seeks, joins one in service
/// that has the first number.
fn joins(mut bench: Bench, class: Class, jumps: [u32; 2]) -> bool {
    let [a, _, _] = readers(&mut bench);
    let b = bench.client_of(class, 4);
    bench.read(b, 9 * FAR);
    bench.marks(a, jumps[0]);
    bench.marks(b, jumps[1]);
    bench.read(b, FAR + 16);
    bench.number(a) == bench.number(b)
}

/// Is a queue of another class, or a seeky one, no partner, whichever of the two it is?
#[test]
fn bfq_126_who_fits() {
    for (class, jumps, fits) in [
        (Class::BestEffort, [19, 19], true),
        (Class::BestEffort, [20, 0], false),
        (Class::BestEffort, [0, 20], false),
        (Class::Idle, [0, 0], false),
    ] {
        each(disk(32), |bench| assert_eq!(joins(bench, class, jumps), fits, "{class:?} {jumps:?}"));
    }
    each(disk(32), |mut bench| {
        let urgent = [(); 2].map(|()| bench.client_of(Class::Realtime, 4));
        let [a] = bench.readers();
        bench.read(a, FAR + 100);
        bench.picked();
        bench.read(urgent[0], 9 * FAR);
        bench.read(urgent[1], FAR + 16);
        assert_ne!(bench.number(a), bench.number(urgent[1]), "another class");
        bench.write(a, FAR + 24);
        assert_ne!(bench.number(a), bench.shared(a), "in the background");
    });
}

/// Seed 004, patch 4: may a queue be merged that has been raised for longer than 100 ms, if it has
/// not been served for that long?
#[test]
fn bfq_127_raised_for_long_is_no_reason() {
    each(disk(32), |mut bench| {
        let [a, b, _] = readers(&mut bench);
        let queue = bench.number(b);
        bench.set_raised(queue, Kind::Interactive);
        bench.queue_mut(b).raising.since = bench.view.now() - ms(900);
        bench.read(b, FAR + 16);
        assert_eq!(bench.number(b), bench.number(a));
    });
}

/// Do merges lead to the end of a chain and never form a cycle; and are they refused with a queue
/// that no process uses, and across groups?
#[test]
fn bfq_128_chains_of_merges() {
    each(disk(32), |mut bench| {
        let [a, b, c] = bench.readers();
        let [one, two, three] = [a, b, c].map(|client| bench.number(client));
        let merge = |bench: &mut Bench, from, to| bench.schedule_merge(from, to);
        assert_eq!(merge(&mut bench, one, two), Some(two));
        assert_eq!(bench.bfq.queues.at(two).refs, 3, "its request, its process, and the other's");
        assert_eq!(merge(&mut bench, two, one), None);
        assert_eq!(merge(&mut bench, three, one), Some(two));
        assert_eq!((target(&bench, c), target(&bench, b)), (Some(two), None));
        assert_eq!(bench.bfq.queues.at(two).refs, 4);
        let group = bench.group(100);
        let member = bench.member(group);
        bench.read(member, 9 * FAR);
        let other = bench.number(member);
        assert_eq!(merge(&mut bench, other, two), None);
        bench.audit();
        // The first moves on, and its old queue has only its request left.
        bench.read(a, 8 * FAR);
        let late = bench.client();
        bench.read(late, 10 * FAR);
        let last = bench.number(late);
        assert_eq!(bench.bfq.queues.at(one).processes(), 0);
        assert_eq!(merge(&mut bench, last, one), None);
    });
}

/// Is a partner looked for with each bio, before it has a request, and with each insert?
#[test]
fn bfq_129_asked_with_every_bio() {
    each(disk(32), |mut bench| {
        let [a, b, c] = readers(&mut bench);
        let bio = Bio::new(b, Op::Read, FAR + 16, 8);
        bench.bfq.bio_comes(&mut bench.view, &bio);
        assert_eq!(bench.number(b), bench.number(a));
        bench.read(c, FAR + 24);
        assert_eq!(bench.number(c), bench.number(a));
    });
}

/// Does a merge pass on whether the queue is I/O bound, its raise and (6.18) its waker if the other
/// has none, and that it was made last; and does the queue have no single owner then?
#[test]
fn bfq_130_what_a_merge_hands_over() {
    each(disk(32), |mut bench| {
        let [a, b, c] = readers(&mut bench);
        let [one, two, three] = [a, b, c].map(|client| bench.number(client));
        bench.set_raised(two, Kind::SoftRealtime);
        let raising = &mut bench.queue_mut(b).raising;
        (raising.lasts, raising.since) = (ms(300), ms(990));
        raising.interactive_since = Some(ms(800));
        bench.queue_mut(a).pattern.is_io_bound = false;
        bench.bfq.wakers.set(two, Some(three));
        bench.bfq.groups.set_last_created(0, Some(two));
        bench.read(b, FAR + 16);

        let (left, heir) = (bench.bfq.queues.at(two), bench.queue(a));
        assert!(heir.pattern.is_io_bound && !left.pattern.is_io_bound);
        let Raising { kind, lasts, since, interactive_since, .. } = heir.raising;
        assert_eq!((kind, lasts), (Kind::SoftRealtime, ms(300)));
        assert_eq!((since, interactive_since), (ms(990), Some(ms(800))));
        assert_eq!(left.raising.kind, Kind::No);
        let waker = |queue| bench.bfq.wakers.waker_of(queue);
        assert_eq!((waker(one), waker(two)), (Some(three), Some(three)));
        assert_eq!(bench.bfq.groups.last_created(0), Some(one));
        assert!(heir.is_shared && heir.owner.is_none());
        assert_eq!(left.processes(), 0);
    });
}

/// If the other already has a raise, does it stay as it is?
#[test]
fn bfq_130_a_raise_is_not_replaced() {
    each(disk(32), |mut bench| {
        let [a, b, _] = readers(&mut bench);
        for (client, kind) in [(a, Kind::Interactive), (b, Kind::SoftRealtime)] {
            let queue = bench.number(client);
            bench.set_raised(queue, kind);
        }
        let left = bench.number(b);
        bench.read(b, FAR + 16);
        assert_eq!(bench.queue(a).raising.kind, Kind::Interactive);
        assert_eq!(bench.bfq.queues.at(left).raising.kind, Kind::No);
    });
}

/// Is a shared queue served at the weight of the queue that remains?
#[test]
fn bfq_131_the_shared_queue_keeps_its_weight() {
    each(disk(32), |mut bench| {
        let [a, _, _] = readers(&mut bench);
        let heavy = bench.client_of(Class::BestEffort, 0);
        bench.read(heavy, 9 * FAR);
        assert_eq!(bench.entity(heavy).weight, 80);
        bench.read(heavy, FAR + 16);
        assert_eq!(bench.number(heavy), bench.number(a));
        assert_eq!((bench.entity(a).weight, bench.entity(a).new_weight), (40, 40));
    });
}

/// Clients whose queues are made one after the other, at these times in ms.
fn made_at<const N: usize>(bench: &mut Bench, times: [u64; N]) -> [ClientId; N] {
    let mut place = 0;
    times.map(|at| {
        bench.at(at);
        place += 1;
        let client = bench.client();
        bench.read(client, place * FAR);
        client
    })
}

fn stable_merges(facts: DeviceFacts) -> Bench {
    let mut bench = Bench::new(LINUX_6_18, facts);
    bench.set("stable_merging", 1);
    bench
}

/// The index of the client whose queue this one shares, or remembers.
fn partner_of(bench: &Bench, clients: &[ClientId], client: ClientId) -> Option<usize> {
    let remembered = bench.bfq.contexts.at(client).stable_with;
    let own = bench.number(client);
    let is_partner = |&place: &usize| {
        let other = bench.number(clients[place]);
        clients[place] != client && (remembered == Some(other) || own == other)
    };
    (0..clients.len()).find(is_partner)
}

/// On flash with command queueing, is a queue merged at once with the last one made in its group,
/// at most 180 ms before; on a disk, is that one remembered; and does a third pair with the first,
/// too?
#[test]
fn bfq_145_made_together() {
    for facts in [flash(32), disk(1)] {
        for (times, pairs) in [
            ([2000, 2180, 2190], [Some(0), None]),
            ([2000, 2010, 2180], [Some(0), Some(0)]),
            ([2000, 2181, 2190], [None, None]),
            ([2000, 2601, 2700], [None, Some(1)]),
            ([2000, 2600, 2700], [None, None]),
        ] {
            let mut bench = stable_merges(facts);
            let clients = made_at(&mut bench, times);
            let second = partner_of(&bench, &clients[..1], clients[1]);
            let third = partner_of(&bench, &clients[..2], clients[2]);
            assert_eq!([second, third], pairs, "{times:?} {facts:?}");
            let merged = bench.number(clients[1]) == bench.number(clients[0]);
            assert_eq!(merged, second.is_some() && !facts.rotational);
        }
    }
}

/// Not if group, class or weight differ: does the new one then start a series?
#[test]
fn bfq_145_those_made_together_are_alike() {
    for differ in 0..3 {
        let mut bench = stable_merges(flash(32));
        let first = bench.client();
        let group = bench.group(100);
        let other = match differ {
            0 => bench.member(group),
            1 => bench.client_of(Class::Realtime, 4),
            _ => bench.client_of(Class::BestEffort, 3),
        };
        bench.read(first, FAR);
        bench.read(other, 2 * FAR);
        assert_ne!(bench.number(first), bench.number(other));
        let place = if differ == 0 { group.index() } else { 0 };
        let made = bench.bfq.groups.last_created(place);
        assert_eq!(made, Some(bench.number(other)));
    }
}

/// On a disk, is the partner decided on after more than 600 ms: merged with, unless idling pays for
/// the queue; and forgotten either way?
#[test]
fn bfq_146_decided_on_later() {
    for (at, marks, merged, forgotten) in
        [(2610, 32, false, false), (2611, 32, true, true), (2611, 0, false, true)]
    {
        let mut bench = stable_merges(disk(32));
        let clients @ [a, b] = made_at(&mut bench, [2000, 2010]);
        let remembered = |bench: &Bench| bench.bfq.contexts.at(b).stable_with;
        assert_eq!(remembered(&bench), Some(bench.number(a)));
        bench.pass(ms(at));
        bench.marks(b, marks);
        bench.read(b, 7 * FAR);
        assert_eq!(bench.number(a) == bench.number(b), merged, "{at} {marks}");
        assert_eq!(remembered(&bench).is_none(), forgotten, "{at} {marks}");
        let _ = clients;
    }
}

/// Do processes whose queues were made together stay together though the queue is seeky?
#[test]
fn bfq_147_partners_are_not_parted() {
    let mut bench = stable_merges(flash(32));
    let [a, b] = made_at(&mut bench, [2000, 2010]);
    let shared = bench.number(a);
    assert_eq!(bench.number(b), shared);
    bench.bfq.queues.at_mut(shared).is_to_split = true;
    for client in [a, b] {
        assert!(bench.bfq.contexts.at(client).is_stably_merged);
        bench.read(client, 9 * FAR);
        assert_eq!(bench.number(client), shared);
    }
}

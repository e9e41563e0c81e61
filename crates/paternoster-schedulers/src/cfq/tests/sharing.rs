// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues with several references: merges, splits, seed 001's candidates, references. CFQ-42, 43,
//! 48, 54.

use super::*;
use tunables::OptimisticMerge;

/// Two readers, or three, each with a waiting request.
fn readers<const N: usize>(bench: &mut Bench) -> [ClientId; N] {
    let mut place = 0;
    [(); N].map(|()| {
        let client = bench.client();
        bench.read(client, place << 20);
        place += 1;
        client
    })
}

/// If queue A is to be merged into B, is a merge of B into A refused, and of B into C if C is
/// already merged into B?
#[test]
fn cfq_42_merges_do_not_run_in_a_circle() {
    each(|mut bench| {
        let clients: [ClientId; 3] = readers(&mut bench);
        let [a, b, c] = clients.map(|client| bench.number(client));
        let target = |bench: &Bench, queue| bench.cfq.queues.at(queue).merge_into;
        bench.cfq.schedule_merge(&mut bench.view, a, b);
        assert_eq!((target(&bench, a), target(&bench, b)), (Some(b), None));
        bench.cfq.schedule_merge(&mut bench.view, b, a);
        assert_eq!((target(&bench, a), target(&bench, b)), (Some(b), None));
        // By now two processes use B, one uses C: C moves.
        bench.cfq.schedule_merge(&mut bench.view, b, c);
        assert_eq!((target(&bench, b), target(&bench, c)), (None, Some(b)));
        bench.cfq.schedule_merge(&mut bench.view, b, c);
        assert_eq!(target(&bench, b), None);
        bench.audit();
    });
}

/// Is a queue that its process has left for another not a partner, although one of its requests
/// waits and the other queue is gone by now? The process moved on to a third.
#[test]
fn a_queue_that_all_have_left_is_no_partner() {
    each(|mut bench| {
        let [a, b, c] = [(); 3].map(|()| bench.client());
        bench.read(a, 0);
        let of_b = bench.read(b, 1 << 20);
        bench.read(c, 2 << 20);
        let (left, gone) = (bench.number(a), bench.number(b));
        bench.cfq.schedule_merge(&mut bench.view, left, gone);
        let moved = bench.read(a, 3 << 20);
        assert_eq!(bench.number(a), gone);
        let root = bench.view.root();
        let group = bench.group(root, 500);
        for client in [a, b] {
            bench.view.move_client(client, group);
            bench.cfq.client_changed(&mut bench.view, client);
        }
        bench.withdraw(of_b);
        bench.withdraw(moved);
        assert!(bench.cfq.queues.is_live(left) && !bench.cfq.queues.is_live(gone));
        let active = bench.number(c);
        bench.cfq.schedule_merge(&mut bench.view, active, left);
        assert_eq!(bench.cfq.queues.at(active).merge_into, None);
        bench.audit();
    });
}

/// With three processes on a seeky queue, does each next request after the end of its slice make a
/// private queue, and does the last process keep the old one, no longer shared?
#[test]
fn cfq_43_a_seeky_shared_queue_is_taken_apart() {
    each(|mut bench| {
        let clients: [ClientId; 3] = readers(&mut bench);
        let [a, b, c] = clients.map(|client| bench.number(client));
        bench.cfq.schedule_merge(&mut bench.view, b, a);
        bench.cfq.schedule_merge(&mut bench.view, c, a);
        for round in 1..3 {
            for (place, client) in clients.into_iter().enumerate() {
                bench.read(client, (round * 8 + place as u64) << 20);
                assert_eq!(bench.number(client), a);
            }
        }
        let shared = bench.cfq.queues.at(a);
        assert!(shared.is_shared && shared.seek.is_seeky(bench.cfq.tunables.seek_detection));
        bench.notes();
        while bench.cfq.service.queue() != Some(a) {
            bench.pick().unwrap();
        }
        bench.cfq.expire(&mut bench.view, false);
        assert!(bench.cfq.queues.at(a).is_to_split);
        bench.notes();

        let mut homes = clients.map(|client| {
            let request = bench.bound(client, Op::Read, Flags::NONE, 1 << 25);
            bench.wait(request);
            bench.number(client)
        });
        assert_eq!(homes[2], a, "the last keeps it");
        homes.sort_unstable();
        assert!(homes.windows(2).all(|two| two[0] != two[1]), "{homes:?}");
        let kept = bench.cfq.queues.at(a);
        assert_eq!((kept.is_shared, kept.is_to_split, kept.processes()), (false, false, 1));
        let parted = |note: &Note| matches!(note, Note::QueuesParted { .. });
        assert_eq!(bench.notes().into_iter().filter(parted).count(), 2);
    });
}

/// Whether a queue with this many requests and this bandwidth takes another for a partner; 300
/// sectors per tick is the best of unmerged queues, 400 of merged ones, the device takes 32.
fn partners(version: Version, own: (u32, u64), other: (u32, u64)) -> bool {
    let mut bench = Bench::new(version, disk(32));
    bench.cfq.tunables.optimistic_merge = OptimisticMerge::Plain;
    bench.cfq.cooperation.bandwidth.most = [300, 400];
    let [client, stranger] = readers(&mut bench);
    bench.pick().unwrap();
    for (client, (allocated, bandwidth)) in [(client, own), (stranger, other)] {
        let number = bench.number(client);
        let queue = bench.cfq.queues.at_mut(number);
        (queue.allocated, queue.bandwidth) = (allocated, bandwidth);
    }
    let (active, expected) = (bench.number(client), bench.number(stranger));
    let Cfq { cooperation, queues, tunables, device, .. } = &mut bench.cfq;
    let own = queues.at(active);
    let found = cooperation.distant_partner(&bench.view, tunables, device, queues, own);
    assert!(found.is_none() || found == Some(expected));
    found.is_some()
}

/// Which distant queues are merged, with 3 and 5 requests and bandwidths 200 and 250: |50| * 4 =
/// 200 < 300, these; 200 and 275: 300 < 300, not. With 16 of its own, no: 16 < 32/2. With 10 + 7 =
/// 17, no; 9 + 7 = 16, yes.
#[test]
fn cfq_48_queues_of_like_bandwidth_are_partners() {
    for version in [LINUX_2_6_34, LINUX_3_6, LINUX_4_19] {
        assert!(partners(version, (3, 200), (5, 250)));
        assert!(!partners(version, (3, 200), (5, 275)));
        assert!(!partners(version, (16, 200), (0, 200)));
        assert!(partners(version, (15, 200), (1, 200)));
        assert!(!partners(version, (10, 200), (7, 200)));
        assert!(partners(version, (9, 200), (7, 200)));
    }
}

/// With k live requests and p processes, are there k + p references, one more for an async queue,
/// and is the queue free at none?
#[test]
fn cfq_54_references_are_requests_and_processes() {
    each(|mut bench| {
        let [a, b] = [(); 2].map(|()| bench.client());
        let reads = [0, 100, 200].map(|sector| bench.read(a, sector));
        let queue = bench.number(a);
        assert_eq!(bench.cfq.queues.at(queue).refs, 3 + 1);
        let first = bench.pick().unwrap();
        assert_eq!(bench.cfq.queues.at(queue).refs, 3 + 1, "in the device it lives");
        bench.end(first);
        assert_eq!(bench.cfq.queues.at(queue).refs, 2 + 1);

        // A second process, by a merge: it counts from when the merge is scheduled.
        let other = bench.read(b, 1 << 20);
        let from = bench.number(b);
        bench.cfq.schedule_merge(&mut bench.view, from, queue);
        assert_eq!(bench.cfq.queues.at(queue).refs, 2 + 2);
        let moved = bench.read(b, 2 << 20);
        assert_eq!(bench.cfq.queues.at(queue).refs, 3 + 2);
        assert_eq!(bench.cfq.queues.at(from).refs, 1, "its last request");
        bench.withdraw(other);
        assert!(!bench.cfq.queues.is_live(from));
        for id in [reads[1], reads[2], moved] {
            bench.withdraw(id);
        }
        assert_eq!(bench.cfq.queues.at(queue).refs, 2);

        for sector in [0, 100] {
            bench.write(a, sector);
        }
        bench.write(b, 200);
        assert_eq!(bench.cfq.queues.at(bench.shared(a)).refs, 3 + 2 + 1);
    });
}

/// Is an active queue that is freed expired first, and its timer stopped with it?
#[test]
fn cfq_54_an_active_queue_ends_its_slice_before_it_goes() {
    each(|mut bench| {
        let client = bench.client();
        bench.read(client, 0);
        let request = bench.pick().unwrap();
        bench.at(1);
        bench.end(request);
        let queue = bench.number(client);
        assert_eq!(bench.view.timer(), Nanos::from_millis(9), "it idles");
        bench.cfq.client_detached(&mut bench.view, client);
        assert!(!bench.cfq.queues.is_live(queue));
        assert_eq!((bench.cfq.service.queue(), bench.view.timer()), (None, Nanos::MAX));
        bench.audit();
    });
}

/// Without room for another queue, does a process share an existing one, of its group and class if
/// there is one, and do all its requests end?
#[test]
fn without_room_a_queue_is_shared() {
    each(|mut bench| {
        let [first, realtime] =
            [Class::BestEffort, Class::Realtime].map(|class| bench.client_of(class, 4));
        let held = [bench.read(first, 0), bench.read(realtime, 8000)];
        while !bench.cfq.queues.is_full() {
            let queue = Queue { group: bench.view.limits().groups, ..Queue::default() };
            bench.cfq.queues.put(queue);
        }
        let late = bench.client();
        let id = bench.bound(late, Op::Read, Flags::NONE, 16_000);
        assert_eq!(bench.number(late), bench.number(first));
        bench.cfq.insert(&mut bench.view, id, Position::Sorted);
        let mut ended = 0;
        while bench.cfq.waiting() > 0 {
            if let Pick::Dispatch(id, _) = bench.cfq.pick(&mut bench.view) {
                bench.cfq.started(&mut bench.view, id);
                bench.cfq.completed(&mut bench.view, id, Nanos::ZERO);
                bench.cfq.released(&mut bench.view, id);
                bench.view.free_request(id);
                ended += 1;
            }
            bench.at(bench.view.now().as_millis() + 10);
        }
        assert_eq!(ended, held.len() + 1);
    });
}

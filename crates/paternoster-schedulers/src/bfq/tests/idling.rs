// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queues the device is kept free for, and how long. BFQ-26, BFQ-27, BFQ-68 to BFQ-74, BFQ-90
//! to BFQ-93, BFQ-G14.

use super::super::weight_raising::Kind;
use super::*;

fn idles(bench: &Bench, client: ClientId) -> bool {
    bench.bfq.better_to_idle(&bench.view, bench.number(client))
}

fn raise(bench: &mut Bench, client: ClientId) {
    let queue = bench.number(client);
    bench.set_raised(queue, Kind::Interactive);
}

/// Does the idle class get one request per turn while any other class has work? A reader's turn is
/// over at 1.3 s, when the idle class has not been served for more than 200 ms.
#[test]
fn bfq_26_the_idle_class_gets_one_request() {
    each(disk(1), |mut bench| {
        let [reader] = bench.readers();
        let idle = bench.client_of(Class::Idle, 7);
        bench.bfq.schedule.groups[0].idle_served = ms(1000);
        for client in [reader, idle] {
            bench.read(client, 8 * FAR);
            bench.read(client, 9 * FAR);
        }
        let (_, id) = bench.picked();
        bench.at(1300);
        bench.end(id);
        assert_eq!((bench.serve(), bench.in_service()), (idle, None));
        let ends = [Expiry::BudgetTimeout, Expiry::BudgetExhausted];
        assert_eq!(bench.endings(), ends);
        assert_eq!(bench.serve(), reader);
    });
    each(disk(1), |mut bench| {
        let idle = bench.client_of(Class::Idle, 7);
        bench.read(idle, FAR);
        bench.read(idle, FAR + 8);
        assert_eq!([bench.serve(), bench.serve()], [idle; 2]);
        assert!(!bench.endings().contains(&Expiry::BudgetExhausted));
    });
}

/// Is a queue of the idle class not idled for, not merged, and not found by its position?
#[test]
fn bfq_27_the_idle_class_is_left_alone() {
    each(disk(1), |mut bench| {
        let [idle, other] = [Class::Idle, Class::Idle].map(|class| bench.client_of(class, 7));
        bench.read(idle, FAR);
        let queue = bench.number(idle);
        assert!(!idles(&bench, idle));
        assert!(!bench.bfq.cooperation.positions.contains(queue));
        bench.read(other, 5 * FAR);
        bench.read(other, FAR + 8);
        assert_ne!(bench.number(other), queue);
    });
}

/// Is every queue idled for with strict_guarantees, and none with slice_idle=0, nor async queues?
/// In 6.18, nor a queue whose process has left?
#[test]
fn bfq_68_for_whom_there_is_no_question() {
    each(disk(1), |mut bench| {
        let client = bench.client();
        bench.read(client, FAR);
        bench.write(client, 2 * FAR);
        let of_writes = bench.shared(client);
        let writes_idle = |bench: &Bench| bench.bfq.better_to_idle(&bench.view, of_writes);
        assert!(idles(&bench, client) && !writes_idle(&bench));
        bench.set("slice_idle", 0);
        assert!(!idles(&bench, client));
        bench.set("strict_guarantees", 1);
        assert!(idles(&bench, client) && writes_idle(&bench));
        let queue = bench.number(client);
        bench.bfq.client_detached(&mut bench.view, client);
        let orphan = bench.bfq.better_to_idle(&bench.view, queue);
        assert_eq!(orphan, bench.is(LINUX_4_19));
    });
}

/// Does either reason, throughput or guarantees, cause idling, and neither of them none?
#[test]
fn bfq_69_either_reason_is_enough() {
    each(disk(1), |mut bench| {
        let [client, _] = bench.readers();
        assert!(bench.bfq.idles_for_throughput(&bench.view, bench.number(client)));
        assert!(idles(&bench, client), "throughput");
    });
    each(flash(32), |mut bench| {
        let [heavy, light] = [0, 4].map(|level| bench.client_of(Class::BestEffort, level));
        bench.read(heavy, FAR);
        assert_eq!(idles(&bench, heavy), bench.is(LINUX_6_18), "the only one: 6.18");
        bench.read(light, 2 * FAR);
        assert!(!bench.bfq.idles_for_throughput(&bench.view, bench.number(heavy)));
        assert!(idles(&bench, heavy), "guarantees");
    });
    each(flash(32), |mut bench| {
        let [client, _] = bench.readers();
        assert!(!idles(&bench, client));
    });
}

/// Must the device idle only while the queue is empty?
#[test]
fn bfq_70_only_for_an_empty_queue() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        let must = |bench: &Bench| bench.bfq.must_idle(&bench.view, bench.number(client));
        assert!(!must(&bench));
        let (_, id) = bench.picked();
        assert!(must(&bench));
        bench.end(id);
    });
}

/// For throughput: on a disk that does not queue commands, for every queue; on one that does, and
/// on flash that does not, for a queue that reads sequentially, is I/O bound and thinks short; on
/// flash that does, for none; and nowhere while a queue is raised?
#[test]
fn bfq_71_idling_for_throughput() {
    for (facts, reads_on, jumps) in [
        (disk(1), true, true),
        (disk(32), true, false),
        (flash(1), true, false),
        (flash(32), false, false),
    ] {
        each(facts, |mut bench| {
            let [client, other] = bench.readers();
            let asked =
                |bench: &Bench| bench.bfq.idles_for_throughput(&bench.view, bench.number(client));
            assert_eq!(asked(&bench), reads_on, "{facts:?}");
            bench.marks(client, 20);
            assert_eq!(asked(&bench), jumps, "{facts:?}");
            bench.marks(client, 19);
            bench.queue_mut(client).pattern.is_io_bound = false;
            assert_eq!(asked(&bench), jumps, "{facts:?}");
            bench.queue_mut(client).pattern.is_io_bound = true;
            bench.queue_mut(client).pattern.thinks_short = false;
            assert_eq!(asked(&bench), jumps, "{facts:?}");
            bench.queue_mut(client).pattern.thinks_short = true;
            raise(&mut bench, other);
            assert!(!asked(&bench), "{facts:?}");
        });
    }
}

/// Does idling for guarantees happen for a raised queue while one that is not raised has work (in
/// 4.19 not in a large burst); and in 6.18 also while others have four more requests in the device
/// than it has, and for the only queue with work?
#[test]
fn bfq_72_idling_for_guarantees() {
    each(flash(32), |mut bench| {
        let [client, other] = bench.readers();
        let asked = |bench: &Bench| bench.bfq.idles_for_guarantees(bench.number(client));
        let later = bench.is(LINUX_6_18);
        assert!(!asked(&bench));
        raise(&mut bench, client);
        assert!(asked(&bench));
        bench.queue_mut(client).in_large_burst = true;
        assert_eq!(asked(&bench), later);
        bench.queue_mut(client).in_large_burst = false;
        raise(&mut bench, other);
        assert!(!asked(&bench), "all are raised");
        bench.bfq.device.set_in_driver(4);
        assert_eq!(asked(&bench), later);
        bench.bfq.device.set_in_driver(3);
        assert!(!asked(&bench));
        bench.bfq.device.set_in_driver(0);
    });
    each(flash(32), |mut bench| {
        let [client] = bench.readers();
        let alone = bench.bfq.idles_for_guarantees(bench.number(client));
        assert_eq!(alone, bench.is(LINUX_6_18));
    });
}

/// In 4.19, is it asymmetric with two weights among the queues with work, and with work in one
/// group besides the root; for all queues alike?
#[test]
fn bfq_73_asymmetry_in_4_19() {
    let mut bench = Bench::new(LINUX_4_19, flash(32));
    let [client, _] = bench.readers();
    let asked =
        |bench: &Bench, client| bench.bfq.schedule.symmetry.is_asymmetric(bench.number(client));
    assert!(!asked(&bench, client));
    let light = bench.client_of(Class::BestEffort, 7);
    let id = bench.read(light, 9 * FAR);
    assert!(asked(&bench, client) && asked(&bench, light));
    bench.withdraw(id);
    assert!(!asked(&bench, client));
    let group = bench.group(100);
    let member = bench.member(group);
    bench.read(member, 10 * FAR);
    assert!(asked(&bench, client) && asked(&bench, member));
}

/// In 6.18, is it asymmetric with two weights for all but the queue that weighs least, with two
/// classes for every queue, and with work in two groups, one of which may be the root, but not in
/// one?
#[test]
fn bfq_74_asymmetry_in_6_18() {
    let asked =
        |bench: &Bench, client| bench.bfq.schedule.symmetry.is_asymmetric(bench.number(client));
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let [client, _] = bench.readers();
    assert!(!asked(&bench, client));
    let light = bench.client_of(Class::BestEffort, 7);
    let id = bench.read(light, 9 * FAR);
    assert!(asked(&bench, client) && !asked(&bench, light));
    bench.withdraw(id);
    let urgent = bench.client_of(Class::Realtime, 4);
    let id = bench.read(urgent, 10 * FAR);
    assert!(asked(&bench, client) && asked(&bench, urgent));
    bench.withdraw(id);
    let group = bench.group(100);
    let member = bench.member(group);
    let id = bench.read(member, 10 * FAR);
    assert!(asked(&bench, client) && asked(&bench, member));
    bench.withdraw(id);

    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let group = bench.group(100);
    let [one, two] = [(); 2].map(|()| bench.member(group));
    bench.read(one, FAR);
    bench.read(two, 2 * FAR);
    assert!(!asked(&bench, one));
}

/// Do the weights of queues with work or requests in the device count, and those of raised ones
/// not?
#[test]
fn bfq_90_whose_weight_counts() {
    each(flash(32), |mut bench| {
        let [client, _] = bench.readers();
        let queue = bench.number(client);
        let counts = |bench: &Bench| bench.bfq.schedule.symmetry.weight_of(queue);
        assert_eq!(counts(&bench), Some(40));
        let (first, id) = bench.picked();
        assert_eq!(first, client);
        bench.expire(client, Expiry::NoMoreRequests);
        assert_eq!(counts(&bench), Some(40), "one is in the device");
        bench.end(id);
        assert_eq!(counts(&bench), None);
        bench.set("low_latency", 1);
        bench.at(4000);
        bench.read(client, FAR);
        assert!(bench.queue(client).raising.is_raised());
        assert_eq!(counts(&bench), None);
    });
}

/// For how long, in ms, the device idles for a client whose only request has ended.
fn period(bench: &mut Bench) -> u64 {
    let (_, id) = bench.picked();
    bench.end(id);
    (bench.view.timer() - bench.view.exact_now()).as_millis()
}

/// Does the device idle for 8 ms, for 2 ms if the queue is seeky and all weigh the same, and for at
/// least 20 ms if it is raised?
#[test]
fn bfq_91_how_long_the_device_idles() {
    for (marks, raised, weights_differ, expected) in [
        (0, false, false, 8),
        (32, false, false, 2),
        (32, false, true, 8),
        (32, true, false, 20),
        (0, true, false, 20),
    ] {
        each(disk(1), |mut bench| {
            let level = if weights_differ { 0 } else { 4 };
            let client = bench.client_of(Class::BestEffort, level);
            let [_] = bench.readers();
            bench.read(client, 5 * FAR);
            bench.marks(client, marks);
            if raised {
                raise(&mut bench, client);
            }
            while bench.in_service() != Some(bench.number(client)) {
                if let Some(served) = bench.in_service() {
                    bench.bfq.expire(&mut bench.view, served, false, Expiry::BudgetTimeout);
                }
                bench.bfq.begin_turn(&mut bench.view);
            }
            assert_eq!(period(&mut bench), expected, "{marks} {raised} {weights_differ}");
        });
    }
    let mut bench = Bench::new(LINUX_6_18, disk(1));
    bench.set("slice_idle", 30);
    let [client] = bench.readers();
    raise(&mut bench, client);
    assert_eq!(period(&mut bench), 30);
}

/// On flash with command queueing, with equal weights, one class and no groups, does the device
/// never idle, and do a queue with requests of 8 sectors and one with 1024 get equally many
/// requests?
#[test]
fn bfq_92_equal_weights_on_flash() {
    each(flash(32), |mut bench| {
        let [small, large] = [(); 2].map(|()| bench.client());
        let mut inside = alloc::collections::VecDeque::new();
        let mut served = [0u32; 2];
        bench.read_of(small, FAR, 8);
        bench.read_of(large, 2 * FAR, 1024);
        for turn in 0..400u64 {
            while let Ok(id) = bench.pick() {
                inside.push_back(id);
            }
            let id: RequestId = inside.pop_front().expect("one is in the device");
            let of_large = bench.view.request(id).client() == large;
            served[usize::from(of_large)] += 1;
            bench.later_us(200);
            bench.end(id);
            let (client, place, sectors) =
                if of_large { (large, 2 * FAR, 1024) } else { (small, FAR, 8) };
            bench.read_of(client, place + 1024 * turn, sectors);
        }
        let idled = bench.notes().into_iter().any(|note| matches!(note, Note::Idling { .. }));
        assert!(!idled);
        assert_eq!(served, [200, 200]);
    });
}

/// With strict_guarantees, is at most one request in the device, and does it idle after every queue
/// that runs empty, even an async one?
#[test]
fn bfq_93_strict_guarantees() {
    each(flash(32), |mut bench| {
        bench.set("strict_guarantees", 1);
        let client = bench.client();
        bench.write(client, FAR);
        bench.write(client, FAR + 100);
        let (_, id) = bench.picked();
        assert!(bench.pick().is_err());
        bench.end(id);
        bench.serve();
        assert!(bench.view.timer() < Nanos::MAX);
        bench.read(client, 2 * FAR);
        assert_eq!(bench.pick(), Err(Pick::Idle));
    });
}

/// G14: does the device idle on purpose only for a queue that must be idled for at that moment?
/// Readers and writers of several weights, on each kind of device.
#[test]
fn bfq_g14_idle_only_on_purpose() {
    for facts in [disk(1), disk(32), flash(1), flash(32)] {
        each(facts, |mut bench| {
            bench.set("low_latency", 1);
            let levels = [0, 4, 4, 7];
            let clients = levels.map(|level| bench.client_of(Class::BestEffort, level));
            let mut inside = Vec::new();
            for turn in 0..2000u64 {
                let client = clients[(turn * 7 % 11) as usize % 4];
                let sector = (turn % 5) * FAR + turn * 8;
                if bench.view.requests().count() < 200 && turn % 3 != 0 {
                    let op = if turn % 4 == 0 { Op::Write } else { Op::Read };
                    bench.ask(client, op, Flags::NONE, (sector, 8));
                }
                match bench.pick() {
                    Ok(id) => inside.push(id),
                    Err(_) if !inside.is_empty() => {
                        let id = inside.remove(0);
                        bench.later_us(150);
                        bench.notes();
                        bench.bfq.completed(&mut bench.view, id, Nanos::ZERO);
                        if bench.notes().iter().any(|note| matches!(note, Note::Idling { .. })) {
                            let queue = bench.in_service().expect("it is idled for");
                            assert!(bench.bfq.must_idle(&bench.view, queue), "{facts:?}");
                        }
                        bench.free(id);
                    }
                    Err(Pick::Idle) => {
                        assert!(bench.view.timer() < Nanos::MAX);
                        bench.later(1);
                    }
                    Err(Pick::Await) => panic!("nothing is in the device: {facts:?}"),
                    Err(_) => bench.later(1),
                }
            }
        });
    }
}

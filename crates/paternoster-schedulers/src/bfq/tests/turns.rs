// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns: how they begin, go on and end; holes; preemption. BFQ-41 to BFQ-55, BFQ-60 to BFQ-62.

use super::super::weight_raising::Kind;
use super::*;

/// When a turn begins, is request expiry still to be checked, and does the turn last 31 ticks of 4
/// ms from the tick in which it began: not over at 1123 ms, over at 1124?
#[test]
fn bfq_41_a_turn_begins() {
    each(disk(1), |bench| {
        let mut bench = bench.ticks();
        bench.at(1003);
        let [client] = bench.readers();
        bench.queue_mut(client).fifo_looked = true;
        bench.bfq.service.sent(0, 77);
        let queue = bench.bfq.begin_turn(&mut bench.view);
        assert_eq!(queue, Some(bench.number(client)));
        let began = (bench.bfq.service.seen(), bench.bfq.budgets.turns());
        assert_eq!(began, ((ms(1003), 0), 32));
        assert!(!bench.queue(client).fifo_looked);
        let is_over = |bench: &Bench| bench.queue(client).is_time_over(bench.view.now());
        bench.at(1123);
        assert!(!is_over(&bench));
        bench.at(1124);
        assert!(is_over(&bench));
    });
}

/// Does the turn of a raised queue last thirty times as long, 3.72 s, and that of a soft real-time
/// one no longer than others'?
#[test]
fn bfq_41_the_turn_of_the_raised() {
    for (kind, lasts) in [(Kind::Interactive, 3720), (Kind::SoftRealtime, 124)] {
        each(disk(1), |bench| {
            let mut bench = bench.ticks();
            let [client] = bench.readers();
            let queue = bench.number(client);
            bench.bfq.begin_turn(&mut bench.view);
            bench.set_raised(queue, kind);
            bench.expire(client, Expiry::BudgetTimeout);
            bench.bfq.begin_turn(&mut bench.view);
            assert_eq!(bench.queue(client).stamp, Some(ms(1000 + lasts)));
        });
    }
}

/// Do the first turns count 32, 60, 84, 105, 123, 139, 153, 165, 176, 186, 194, so that the largest
/// budget is trusted from the 11th on?
#[test]
fn bfq_42_eleven_turns_open_the_gate() {
    each(disk(1), |mut bench| {
        bench.set("slice_idle", 0);
        bench.bfq.budgets.set(5000);
        let client = bench.client();
        let mut seen = Vec::new();
        for place in 0..11 {
            bench.read(client, place * 8);
            let believed = bench.bfq.budgets.usual();
            assert_eq!(believed, crate::bfq::budgets::DEFAULT, "before turn {place}");
            bench.serve();
            seen.push(bench.bfq.budgets.turns());
        }
        assert_eq!(seen, [32, 60, 84, 105, 123, 139, 153, 165, 176, 186, 194]);
        assert_eq!(bench.bfq.budgets.usual(), 5000);
        assert_eq!(bench.bfq.budgets.least(), 5000 / 32);
    });
}

/// Does a request count as many sectors as it has, a background one three times as many, but not of
/// a raised queue?
#[test]
fn bfq_43_what_requests_are_charged() {
    each(flash(32), |mut bench| {
        let [reader] = bench.readers();
        let writer = bench.client();
        let read = bench.read(reader, 5);
        let write = bench.write(writer, 3 * FAR);
        let sync = bench.ask(writer, Op::Write, Flags::SYNC, (4 * FAR, 8));
        let queues = [bench.number(reader), bench.shared(writer), bench.number(writer)];
        let charge = |bench: &Bench, place: usize, id| bench.charge_of(queues[place], id);
        let charges = [(0, read), (1, write), (2, sync)].map(|(p, id)| charge(&bench, p, id));
        assert_eq!(charges, [8, 24, 8]);
        bench.set_raised(queues[1], Kind::Interactive);
        assert_eq!(charge(&bench, 1, write), 8);
    });
}

/// In 6.18, is a background request charged at its size where its queue would be idled for: it
/// weighs more than another with work?
#[test]
fn bfq_43_not_where_weights_differ() {
    each(flash(32), |mut bench| {
        let light = bench.client_of(Class::BestEffort, 7);
        let writer = bench.client();
        bench.read(light, FAR);
        let write = bench.write(writer, 3 * FAR);
        let charge = bench.charge_of(bench.shared(writer), write);
        assert_eq!(charge, if bench.is(LINUX_6_18) { 8 } else { 24 });
    });
}

/// Is a request charged when it is dispatched; and does one larger than what is left end the turn,
/// so that the next budget holds it, however large it is?
#[test]
fn bfq_44_a_budget_is_never_overrun() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        bench.read(client, 8);
        bench.entity_mut(client).budget = 100;
        bench.read_of(client, 200, 20_000);
        let (_, first) = bench.picked();
        assert_eq!((bench.entity(client).service, bench.entity(client).budget), (8, 100));
        let (_, second) = bench.picked();
        assert_eq!(bench.endings(), [Expiry::BudgetExhausted]);
        assert_eq!(bench.view.request(second).sector(), 200);
        assert_eq!((bench.entity(client).service, bench.entity(client).budget), (20_000, 20_000));
        bench.end(first);
        bench.end(second);
    });
}

/// A sequential reader in service since 1 s. The disk has idled for it since 1.12 s and would until
/// 1.128 s, but its turn lasts only until 1.125 s. It has used `used` of 90 sectors.
fn idling_at_the_end(bench: &mut Bench, used: u64) -> ClientId {
    let client = bench.client();
    let id = bench.read(client, FAR);
    bench.picked();
    bench.at(1120);
    bench.end(id);
    assert_eq!(bench.view.timer(), ms(1128));
    let entity = bench.entity_mut(client);
    (entity.budget, entity.service) = (90, used);
    client
}

/// Does time end a turn with the next pick, but not while the device idles for the queue and less
/// than a third of its budget is left? A small request has come that may be followed by more.
#[test]
fn bfq_45_time_on_select() {
    for (used, ending) in [(60, Some(Expiry::BudgetTimeout)), (61, None)] {
        each(disk(1), |mut bench| {
            let client = idling_at_the_end(&mut bench, used);
            bench.at(1122);
            bench.read(client, FAR + 8);
            assert!(bench.queue(client).wait_request);
            bench.at(1126);
            assert!(bench.pick().is_ok());
            assert_eq!(bench.endings().first().copied(), ending);
        });
    }
}

/// Does time end a turn when a request ends, if there would be a wait?
#[test]
fn bfq_45_time_on_completion() {
    for (at, ending) in [(1124, None), (1125, Some(Expiry::BudgetTimeout))] {
        each(disk(32), |mut bench| {
            let [client] = bench.readers();
            bench.read(client, FAR + 8);
            let (_, id) = bench.picked();
            bench.at(at);
            bench.end(id);
            assert_eq!(bench.endings().first().copied(), ending);
        });
    }
}

/// Does time end a turn when a request comes that the device idled for, and when the idle timer
/// rings, even with less than a third of the budget left?
#[test]
fn bfq_45_time_while_idling() {
    each(disk(1), |mut bench| {
        let client = idling_at_the_end(&mut bench, 80);
        bench.at(1126);
        bench.read(client, FAR + 8);
        assert_eq!(bench.endings(), [Expiry::BudgetTimeout]);
    });
    each(disk(1), |mut bench| {
        idling_at_the_end(&mut bench, 80);
        bench.at(1128);
        assert_eq!(bench.endings(), [Expiry::BudgetTimeout]);
    });
}

/// When a queue that is idled for has run empty, does the device idle from the end of its last
/// request on, and not from that of the one before?
#[test]
fn bfq_46_idling_begins_with_the_last_end() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        let ids = [bench.picked().1, bench.picked().1];
        bench.end(ids[0]);
        assert_eq!(
            (bench.in_service(), bench.view.timer()),
            (Some(bench.number(client)), Nanos::MAX)
        );
        bench.end(ids[1]);
        assert_eq!(bench.view.timer(), ms(1008));
    });
}

/// If it need not be idled for, does its turn end with the first completion that leaves it empty?
#[test]
fn bfq_46_an_empty_queue_goes() {
    each(disk(1), |mut bench| {
        bench.set("slice_idle", 0);
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        let ids = [bench.picked().1, bench.picked().1];
        bench.end(ids[0]);
        assert_eq!(
            (bench.endings(), bench.in_service()),
            (Vec::from([Expiry::NoMoreRequests]), None)
        );
        bench.end(ids[1]);
    });
}

/// While the disk idles, does a small request of its queue wait for more to follow, until BFQ is
/// asked, and one of 32 sectors not?
#[test]
fn bfq_47_a_small_request_waits() {
    for (sectors, waits) in [(31, true), (32, false)] {
        each(disk(1), |mut bench| {
            let [client] = bench.readers();
            bench.serve();
            bench.read_of(client, FAR + 8, sectors);
            assert_eq!(bench.view.timer() == ms(1009), waits);
            bench.picked();
            assert_eq!(bench.view.timer(), Nanos::MAX);
        });
    }
}

/// In 6.18, does it wait only where idling is for throughput, and not for a share by weight?
#[test]
fn bfq_47_patience_is_for_throughput() {
    each(flash(32), |mut bench| {
        let [heavy, light] = [0, 4].map(|level| bench.client_of(Class::BestEffort, level));
        bench.read(light, FAR);
        bench.read(heavy, 2 * FAR);
        let (client, id) = bench.picked();
        assert_eq!(client, heavy, "10922/80 is before 10922/40");
        bench.end(id);
        assert!(bench.queue(heavy).wait_request);
        bench.read(heavy, 2 * FAR + 8);
        assert_eq!(bench.queue(heavy).wait_request, !bench.is(LINUX_6_18));
    });
}

/// When the idle timer rings, does the turn of an empty queue end, and that of one with a small
/// request go on?
#[test]
fn bfq_48_the_idle_timer_rings() {
    each(disk(1), |mut bench| {
        bench.readers::<1>();
        bench.serve();
        bench.at(1009);
        assert_eq!((bench.endings(), bench.in_service()), (Vec::from([Expiry::TooIdle]), None));
    });
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        bench.serve();
        bench.at(1008);
        bench.read(client, FAR + 8);
        bench.at(1009);
        assert_eq!(bench.endings(), []);
        assert_eq!((bench.serve(), bench.endings()), (client, Vec::new()));
    });
}

/// Does a waiting queue ask for a budget that holds its next request when that changes, in 6.18 at
/// least for what it was served; and does the budget of the queue in service stay as it is?
#[test]
fn bfq_49_the_next_request_fits() {
    each(disk(1), |mut bench| {
        let [served, waiting] = bench.readers();
        bench.picked();
        let budget = bench.entity(served).budget;
        bench.read_of(waiting, FAR + 20_000, 20_000);
        assert_eq!(bench.entity(waiting).budget, 20_000);
        bench.read_of(served, FAR + 50, 20_000);
        assert_eq!(bench.entity(served).budget, budget);
        bench.entity_mut(waiting).service = 30_000;
        bench.read_of(waiting, FAR + 15_000, 25_000);
        let expected = if bench.is(LINUX_6_18) { 30_000 } else { 25_000 };
        assert_eq!(bench.entity(waiting).budget, expected);
        bench.entity_mut(waiting).service = 0;
    });
}

/// Two readers on flash that queues commands: the first's turn ended early 1 ms ago because it was
/// empty, with 70 of 100 sectors left; it usually asks for 8000. The other is in service.
fn with_a_hole(bench: &mut Bench) -> [ClientId; 2] {
    let clients @ [first, second] = bench.readers();
    bench.read(second, 3 * FAR);
    assert_eq!(bench.serve(), first);
    assert_eq!(bench.endings(), [Expiry::NoMoreRequests]);
    bench.queue_mut(first).max_budget = 8000;
    let entity = bench.entity_mut(first);
    (entity.budget, entity.service) = (100, 30);
    assert_eq!(bench.picked().0, second);
    bench.later(1);
    clients
}

/// Does an arrival count as in time up to 24 ms after the last completion of its queue?
#[test]
fn bfq_50_in_time_is_three_idle_slices() {
    for (us, budget) in [(23_000, 70), (23_001, 8000)] {
        each(flash(32), |mut bench| {
            let [first, _] = with_a_hole(&mut bench);
            bench.later_us(us);
            bench.read(first, FAR + 8);
            assert_eq!(bench.entity(first).budget, budget);
        });
    }
}

/// Does a queue that comes back in time go on where it was: with the rest of its budget, from its
/// finish on, and ahead of the queue in service?
#[test]
fn bfq_51_a_hole_is_recovered() {
    each(flash(32), |mut bench| {
        let [first, second] = with_a_hole(&mut bench);
        let (finish, vtime) = (bench.entity(first).finish, bench.bfq.schedule.vtime_of(0));
        bench.read(first, FAR + 8);
        let Entity { start, budget, service, .. } = bench.entity(first);
        assert_eq!((start, budget, service), (finish.min(vtime), 70, 0));
        assert!(!bench.queue(first).left_early);
        // In 4.19 only a raised queue preempts.
        let preempted = if bench.is(LINUX_6_18) { None } else { Some(bench.number(second)) };
        assert_eq!(bench.in_service(), preempted);
    });
}

/// In 6.18, is nothing recovered of a budget that is used up; and in 4.19 is it?
#[test]
fn bfq_51_nothing_is_left() {
    each(flash(32), |mut bench| {
        let [first, _] = with_a_hole(&mut bench);
        bench.entity_mut(first).service = 100;
        bench.read(first, FAR + 8);
        let budget = if bench.is(LINUX_6_18) { 8000 } else { 0 };
        assert_eq!(bench.entity(first).budget, budget);
    });
}

/// Does any other arrival open a new account, with the usual budget or that of its request; and, in
/// 4.19, go first if it deserves to be raised?
#[test]
fn bfq_52_a_new_account() {
    for (sectors, budget) in [(8, 8000), (9000, 9000)] {
        each(flash(32), |mut bench| {
            let [first, _] = with_a_hole(&mut bench);
            bench.later(100);
            bench.read_of(first, FAR + 8, sectors);
            let Entity { budget: asked, service, .. } = bench.entity(first);
            assert_eq!((asked, service, bench.queue(first).left_early), (budget, 0, false));
            // In 6.18, because the other is not idled for.
            assert_eq!(bench.preemptions().len(), usize::from(bench.is(LINUX_6_18)));
        });
    }
}

/// In 4.19, does a starting queue preempt one that is not raised, and not one that is?
#[test]
fn bfq_53_the_raised_go_first_in_4_19() {
    for (raised, preempts) in [(false, 1), (true, 0)] {
        let mut bench = Bench::new(LINUX_4_19, disk(1));
        bench.set("low_latency", u64::from(raised));
        let [first] = bench.readers();
        bench.read(first, FAR + 100);
        bench.picked();
        bench.set("low_latency", 1);
        let starter = bench.client();
        bench.read(starter, 2 * FAR);
        assert_eq!(bench.queue(starter).raising.kind, Kind::Interactive);
        assert_eq!(bench.preemptions().len(), preempts, "raised: {raised}");
    }
}

/// In 6.18, does a higher class or weight preempt, and the same or less not? Idling is for
/// throughput on this disk, so that there is no other reason.
#[test]
fn bfq_54_weight_and_class_preempt_in_6_18() {
    for (class, level, rule) in [
        (Class::BestEffort, 3, Some(Preemption::Heavier)),
        (Class::BestEffort, 4, None),
        (Class::BestEffort, 5, None),
        (Class::Realtime, 7, Some(Preemption::Heavier)),
        (Class::Idle, 7, None),
    ] {
        let mut bench = Bench::new(LINUX_6_18, disk(1));
        let [first] = bench.readers();
        bench.read(first, FAR + 100);
        bench.picked();
        let other = bench.client_of(class, level);
        bench.read(other, 2 * FAR);
        assert_eq!(bench.preemptions(), Vec::from_iter(rule), "{class:?} {level}");
    }
}

/// In 6.18, do members of two groups compare by the weights of the groups?
#[test]
fn bfq_54_groups_compare_by_their_own_weights() {
    for (weight, rule) in [(300, Some(Preemption::Heavier)), (100, None)] {
        let mut bench = Bench::new(LINUX_6_18, disk(1));
        let [served, coming] = [200, weight].map(|weight| bench.group(weight));
        let [first, other] = [served, coming].map(|group| bench.member(group));
        bench.read(first, FAR);
        bench.read(first, FAR + 100);
        bench.picked();
        bench.read(other, 2 * FAR);
        assert_eq!(bench.preemptions(), Vec::from_iter(rule), "{weight}");
    }
}

/// In 6.18, does any arrival preempt a queue that is not idled for?
#[test]
fn bfq_54_who_is_not_idled_for() {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let [first, _] = bench.readers();
    bench.read(first, FAR + 100);
    assert_eq!(bench.picked().0, first);
    let other = bench.client();
    bench.read(other, 5 * FAR);
    assert_eq!(bench.preemptions(), [Preemption::NotIdledFor]);
}

/// In 6.18, does a queue that recovers a hole preempt, but not one that is raised more and idled
/// for?
#[test]
fn bfq_54_who_recovers_a_hole() {
    for (raised, rule) in [(false, Some(Preemption::Deserves)), (true, None)] {
        let mut bench = Bench::new(LINUX_6_18, flash(32));
        let [first, second] = with_a_hole(&mut bench);
        if raised {
            let queue = bench.number(second);
            bench.set_raised(queue, Kind::Interactive);
        }
        bench.read(first, FAR + 8);
        assert_eq!(bench.preemptions(), Vec::from_iter(rule), "raised: {raised}");
    }
}

/// When a queue gets work, does its backlog start from zero?
#[test]
fn bfq_55_a_backlog_begins() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        bench.serve();
        bench.at(1500);
        let queue = bench.queue_mut(client);
        assert_eq!((queue.backlog_began, queue.backlog_service), (ms(1000), 8));
        queue.raising.is_unsettled = true;
        bench.read(client, FAR + 8);
        let queue = bench.queue(client);
        assert_eq!((queue.backlog_began, queue.backlog_service), (ms(1500), 0));
        assert!(!queue.raising.is_unsettled && !queue.is_new);
    });
}

/// Is the account of a queue that ran empty kept, because it may come back, and not that of one
/// that used up its time or budget?
#[test]
fn bfq_60_whose_account_is_kept() {
    for (why, kept) in [
        (Expiry::NoMoreRequests, true),
        (Expiry::TooIdle, true),
        (Expiry::BudgetTimeout, false),
        (Expiry::BudgetExhausted, false),
    ] {
        each(disk(32), |mut bench| {
            let [client] = bench.readers();
            let (_, id) = bench.picked();
            bench.expire(client, why);
            assert_eq!(bench.queue(client).left_early, kept, "{why:?}");
            assert_eq!(bench.entity(client).service, if kept { 8 } else { 0 }, "{why:?}");
            bench.end(id);
        });
    }
    // Nor that of one with work.
    each(disk(32), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        bench.picked();
        bench.expire(client, Expiry::NoMoreRequests);
        assert!(!bench.queue(client).left_early);
        assert_eq!(bench.entity(client).service, 0);
    });
}

/// Does an empty queue leave when its turn ends, and is it at rest since then, or since the end of
/// its last request; does its weight stop counting only then?
#[test]
fn bfq_61_an_empty_queue_leaves() {
    each(disk(32), |mut bench| {
        let [client] = bench.readers();
        let (_, id) = bench.picked();
        bench.at(1001);
        bench.expire(client, Expiry::NoMoreRequests);
        let queue = bench.number(client);
        assert!(!bench.queue(client).is_busy);
        assert_eq!(bench.bfq.schedule.symmetry.weight_of(queue), Some(40));
        bench.at(1007);
        bench.end(id);
        assert_eq!(bench.queue(client).stamp, Some(ms(1007)));
        assert_eq!(bench.bfq.schedule.symmetry.weight_of(queue), None);
    });
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        bench.serve();
        bench.at(1009);
        assert_eq!(bench.endings(), [Expiry::TooIdle]);
        assert_eq!(bench.queue(client).stamp, Some(ms(1009)));
    });
}

/// In 6.18, does a queue stay busy that was preempted while the device was kept for its share, and
/// not one preempted while that was for throughput?
#[test]
fn bfq_61_preempted_in_its_pause() {
    for (facts, kept) in [(flash(32), true), (disk(1), false)] {
        let mut bench = Bench::new(LINUX_6_18, facts);
        let light = bench.client_of(Class::BestEffort, 7);
        let client = bench.client_of(Class::BestEffort, if kept { 4 } else { 7 });
        bench.read(client, FAR);
        bench.read(client, FAR + 8);
        if kept {
            bench.read(light, 2 * FAR);
        }
        for _ in 0..2 {
            assert_eq!(bench.serve(), client);
        }
        assert!(bench.queue(client).wait_request);
        let heavy = bench.client_of(Class::BestEffort, 0);
        bench.read(heavy, 3 * FAR);
        assert_eq!(bench.preemptions(), [Preemption::Heavier]);
        assert!(bench.queue(client).is_empty());
        assert_eq!(bench.queue(client).is_busy, kept);
    }
}

/// Does a queue that loses its last request outside its turn leave at once, asking for nothing? In
/// 4.19 what it had asked for counts against it, in 6.18 only what it was served.
#[test]
fn bfq_62_emptied_out_of_its_turn() {
    each(disk(1), |mut bench| {
        let [_, waiting] = bench.readers();
        bench.picked();
        let id = bench.queue(waiting).next.expect("it has one");
        bench.withdraw(id);
        let Entity { budget, service, standing, .. } = bench.entity(waiting);
        let expected = if bench.is(LINUX_6_18) { Standing::Off } else { Standing::Idle };
        assert_eq!((budget, service, standing), (0, 0, expected));
        assert!(!bench.queue(waiting).is_busy);
    });
}

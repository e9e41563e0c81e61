// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queues are raised, for how long, and what ends it. BFQ-94 to BFQ-109; `low_latency` is on.

use super::super::rate::Dispatched;
use super::super::weight_raising::Kind;
use super::*;

/// A bench with `low_latency`, and a reader that was raised at its first request, but no longer is.
/// The device is empty.
fn calm(version: Version, facts: DeviceFacts) -> (Bench, ClientId) {
    let mut bench = Bench::new(version, facts);
    let [client] = bench.readers();
    bench.serve();
    while bench.in_service().is_some() {
        bench.later(1);
        let _ = bench.pick();
    }
    bench.set("low_latency", 1);
    (bench, client)
}

fn both(facts: DeviceFacts, test: impl Fn(Bench, ClientId)) {
    for version in [LINUX_4_19, LINUX_6_18] {
        let (bench, client) = calm(version, facts);
        test(bench, client);
    }
}

fn kind(bench: &Bench, client: ClientId) -> Kind {
    bench.queue(client).raising.kind
}

/// Is a queue idle for long if it has nothing in the device and has been at rest for more than two
/// seconds; and is a new queue always?
#[test]
fn bfq_94_two_seconds_of_rest() {
    both(disk(1), |mut bench, client| {
        let queue = bench.number(client);
        let idle = |bench: &Bench| bench.bfq.queues.at(queue).is_idle_for_long(bench.view.now());
        let rest = bench.queue(client).stamp.expect("it had a turn");
        bench.go(rest + ms(2000));
        assert!(!idle(&bench));
        bench.go(rest + ms(2001));
        assert!(idle(&bench));
        bench.queue_mut(client).in_flight = 1;
        assert!(!idle(&bench));
        bench.queue_mut(client).in_flight = 0;
        bench.queue_mut(client).stamp = None;
        assert!(idle(&bench));
    });
}

/// Is an arrival after such a rest taken for a starting application; but not in a large burst, and
/// in 6.18 only if the queue has the default weight?
#[test]
fn bfq_95_who_starts() {
    for (level, burst, rest) in
        [(4, false, 3000), (4, true, 3000), (4, false, 1000), (0, false, 3000)]
    {
        each(disk(1), |mut bench| {
            let client = bench.client_of(Class::BestEffort, level);
            bench.read(client, FAR);
            bench.serve();
            bench.later(rest);
            bench.queue_mut(client).in_large_burst = burst;
            let arrival = bench.judged(client);
            let by_weight = level == 4 || bench.is(LINUX_4_19);
            assert_eq!(arrival.interactive, !burst && rest > 2000 && by_weight);
        });
    }
}

/// Is an arrival taken for soft real time if it comes after the time computed for it, with nothing
/// in the device; but not in a large burst, and in 6.18 not if the queue is totally seeky, and only
/// at the default weight?
#[test]
fn bfq_96_what_soft_real_time_is() {
    both(disk(1), |mut bench, client| {
        let queue = bench.number(client);
        let soft = |bench: &Bench| bench.judged(client).soft_realtime;
        let next = bench.queue(client).raising.soft_realtime_next;
        bench.go(next);
        assert!(!soft(&bench));
        bench.go(next + Nanos(1));
        assert!(soft(&bench));
        bench.queue_mut(client).in_flight = 1;
        assert!(!soft(&bench));
        bench.queue_mut(client).in_flight = 0;
        bench.queue_mut(client).in_large_burst = true;
        assert!(!soft(&bench));
        bench.queue_mut(client).in_large_burst = false;
        let old = bench.is(LINUX_4_19);
        bench.marks(client, 32);
        assert_eq!(soft(&bench), old);
        bench.marks(client, 31);
        assert!(soft(&bench));
        bench.bfq.schedule.set_weight(queue, 50);
        assert_eq!(soft(&bench), old);
        bench.bfq.schedule.set_weight(queue, 40);
    });
}

/// Does a queue deserve to be raised if it already is, or if it belongs to one process and starts
/// or is soft real time; but not if it is shared, unless in 6.18 its processes' queues were created
/// together; and never without low_latency?
#[test]
fn bfq_97_who_deserves_it() {
    both(disk(1), |mut bench, client| {
        bench.later(5000);
        let queue = bench.number(client);
        let deserves = |bench: &Bench| bench.judged(client).deserves;
        assert!(deserves(&bench));
        let owner = bench.queue_mut(client).owner.take();
        assert!(!deserves(&bench));
        bench.bfq.contexts.at_mut(client).is_stably_merged = true;
        assert!(deserves(&bench));
        bench.bfq.contexts.at_mut(client).is_stably_merged = false;
        bench.set_raised(queue, Kind::Interactive);
        assert!(deserves(&bench));
        bench.set_raised(queue, Kind::No);
        bench.queue_mut(client).owner = owner;
        bench.set("low_latency", 0);
        assert!(!deserves(&bench));
    });
}

/// Within two seconds of a split, does raising stay as it is?
#[test]
fn bfq_97_not_soon_after_a_split() {
    for (ms_ago, raised) in [(2000, false), (2001, true)] {
        both(disk(1), |mut bench, client| {
            bench.later(5000);
            bench.queue_mut(client).split_at = Some(bench.view.now() - ms(ms_ago));
            bench.read(client, FAR);
            assert_eq!(kind(&bench, client) == Kind::Interactive, raised);
        });
    }
}

/// Feeds a rate of 29,340 to an estimate of 9333: nine tenths of the estimate, 8399, plus a tenth
/// of the rate.
fn rate_of_11333(bench: &mut Bench) {
    for dispatch in 0..=32u64 {
        let now = bench.view.exact_now() + ms(if dispatch == 32 { 500 } else { 10 * dispatch });
        // 138,785 sectors in 310 ms.
        let sectors = if dispatch == 31 { 4338 } else { 4337 };
        bench.bfq.device.rate_mut().dispatched(Dispatched {
            now,
            sectors,
            is_near: false,
            in_driver: 0,
        });
    }
    assert_eq!(bench.bfq.device.rate(), 11_333);
}

/// Is an interactive period longer on a slower device: 10.5 s on a disk and 3.75 s on flash at
/// first, 8644 ms in ticks of 4 ms at a rate of 11333, and never less than 3 s?
#[test]
fn bfq_98_how_long_a_start_lasts() {
    for (facts, lasts) in [(disk(1), 10_500), (flash(32), 3750)] {
        each(facts, |bench| {
            assert_eq!(bench.bfq.device.raise_duration(&bench.view).as_millis(), lasts);
            let bench = bench.ticks();
            // 7 s are 1750 ticks: 14000 * 1750/9333 = 2625; 625: 33000 * 625/22000 = 937.5.
            let ticks = if lasts == 3750 { 937 } else { 2625 };
            assert_eq!(bench.bfq.device.raise_duration(&bench.view), ms(4 * ticks));
        });
    }
    each(disk(1), |bench| {
        let mut bench = bench.ticks();
        rate_of_11333(&mut bench);
        assert_eq!(bench.bfq.device.raise_duration(&bench.view), ms(8644));
    });
}

/// Does a start raise the weight 30 times for that long, and soft real time 3000 times for 300 ms,
/// with no interactive period after it?
#[test]
fn bfq_98_what_begins() {
    both(disk(1), |mut bench, client| {
        bench.later(5000);
        bench.queue_mut(client).raising.service = 7;
        bench.read(client, FAR);
        let raising = bench.queue(client).raising;
        assert_eq!((raising.kind, raising.lasts.as_millis()), (Kind::Interactive, 10_500));
        assert_eq!((raising.since, raising.service), (bench.view.now(), 0));
        assert_eq!(bench.entity(client).weight, 1200);
    });
    both(disk(1), |mut bench, client| {
        bench.later(1000);
        bench.read(client, FAR);
        let raising = bench.queue(client).raising;
        assert_eq!((raising.kind, raising.lasts), (Kind::SoftRealtime, ms(300)));
        assert_eq!((raising.since, raising.interactive_since), (bench.view.now(), None));
        assert_eq!(bench.entity(client).weight, 120_000);
    });
}

/// When a raised queue gets work: does a start begin a new interactive period, does a large burst
/// end raising, and does soft real time remember the interactive period that it interrupts?
#[test]
fn bfq_98_what_becomes_of_the_raised() {
    let raised = |version| {
        let (mut bench, client) = calm(version, disk(1));
        bench.later(5000);
        bench.read(client, FAR);
        bench.serve();
        bench.later(100);
        while bench.in_service().is_some() {
            bench.later(1);
            let _ = bench.pick();
        }
        (bench, client)
    };
    for version in [LINUX_4_19, LINUX_6_18] {
        let (mut bench, client) = raised(version);
        bench.later(2500);
        bench.read(client, FAR);
        let Raised { kind, since } = state(&bench, client);
        assert_eq!((kind, since), (Kind::Interactive, bench.view.now()));

        let (mut bench, client) = raised(version);
        bench.queue_mut(client).in_large_burst = true;
        bench.read(client, FAR);
        assert_eq!(kind_of(&bench, client), Kind::No);

        let (mut bench, client) = raised(version);
        let began = state(&bench, client).since;
        bench.read(client, FAR);
        let Raised { kind, since } = state(&bench, client);
        assert_eq!((kind, since), (Kind::SoftRealtime, bench.view.now()));
        assert_eq!(bench.queue(client).raising.interactive_since, Some(began));
        // And again: the period is not forgotten.
        bench.serve();
        while bench.in_service().is_some() {
            bench.later(1);
            let _ = bench.pick();
        }
        bench.later(50);
        bench.read(client, FAR + 8);
        assert_eq!(state(&bench, client).since, bench.view.now());
        assert_eq!(bench.queue(client).raising.interactive_since, Some(began));
    }
}

struct Raised {
    kind: Kind,
    since: Nanos,
}

fn state(bench: &Bench, client: ClientId) -> Raised {
    let raising = bench.queue(client).raising;
    Raised { kind: raising.kind, since: raising.since }
}

fn kind_of(bench: &Bench, client: ClientId) -> Kind {
    state(bench, client).kind
}

/// Is the time from which an arrival is soft real time the latest of three: what it was, the start
/// of the backlog plus its service at 7000 sectors a second, and slice_idle plus four ticks from
/// now: 24 ms at 250 ticks a second, 12 ms in exact time?
#[test]
fn bfq_99_when_it_would_be_soft_real_time() {
    both(disk(1), |bench, client| {
        for ticks in [false, true] {
            let (mut bench, client) = if ticks {
                let (bench, client) = calm(bench.bfq.version, disk(1));
                (bench.ticks(), client)
            } else {
                calm(bench.bfq.version, disk(1))
            };
            bench.at(2000);
            let queue = bench.number(client);
            let next = |bench: &Bench| {
                let home = bench.bfq.queues.at(queue);
                let slice_idle = bench.bfq.tunables.slice_idle;
                arrival::soft_realtime_next(&bench.view, home, slice_idle)
            };
            let home = bench.queue_mut(client);
            (home.backlog_began, home.backlog_service) = (ms(1900), 0);
            assert_eq!(next(&bench), ms(if ticks { 2024 } else { 2012 }));
            // 7000 sectors are a second; a tick less where whole ticks are counted.
            bench.queue_mut(client).backlog_service = 7000;
            assert_eq!(next(&bench), ms(2900));
            bench.queue_mut(client).raising.soft_realtime_next = ms(5000);
            assert_eq!(next(&bench), ms(5000));
        }
        let _ = client;
    });
}

/// Is that time computed when a turn ends with no work and nothing in the device, otherwise when
/// the last request completes; but in 6.18 not at that completion if the queue is starting?
#[test]
fn bfq_99_when_it_is_computed() {
    for (raised, later_only) in [(Kind::No, true), (Kind::Interactive, false)] {
        both(disk(32), |mut bench, client| {
            let queue = bench.number(client);
            let known = bench.queue(client).raising.soft_realtime_next;
            // Too soon after its last request to be raised.
            bench.read(client, FAR);
            bench.set_raised(queue, raised);
            let (_, id) = bench.picked();
            bench.later(500);
            bench.expire(client, Expiry::NoMoreRequests);
            let next = |bench: &Bench| bench.queue(client).raising.soft_realtime_next;
            assert_eq!(next(&bench), known, "one is in the device");
            bench.later(500);
            bench.end(id);
            let computed = next(&bench) > known;
            assert_eq!(computed, later_only || bench.is(LINUX_4_19));
        });
    }
}

/// What a reader is taken for after ten requests of `sectors`, each `us` microseconds after the one
/// before. Each takes 1 ms. At the first it is too early to tell.
fn player(version: Version, sectors: u32, us: u64) -> Kind {
    let (mut bench, client) = calm(version, disk(1));
    bench.later(500);
    let now = bench.view.now();
    bench.queue_mut(client).raising.soft_realtime_next = now;
    for round in 0..10 {
        let began = bench.view.exact_now();
        bench.read_of(client, FAR + 1000 * round, sectors);
        bench.serve();
        bench.go(began + Nanos::from_micros(us));
    }
    bench.queue(client).raising.kind
}

/// Is a reader of 3.0 MB/s soft real time, and one of 4.0 MB/s not? 256 sectors take 36.6 ms at
/// 7000 a second, 43.7 ms at 3.0 MB/s, and 32.8 ms at 4.0 MB/s.
#[test]
fn bfq_100_players_and_readers() {
    for version in [LINUX_4_19, LINUX_6_18] {
        assert_eq!(player(version, 256, 43_700), Kind::SoftRealtime, "{}", version.name);
        assert_eq!(player(version, 256, 32_800), Kind::No, "{}", version.name);
        // 8 sectors are 1.1 ms; but asking again 11 ms after the last completion is greedy.
        assert_eq!(player(version, 8, 12_000), Kind::No, "{}", version.name);
    }
}

/// Does every arrival at a queue that is not raised, or that starts, move `since`, and does an
/// arrival at a raised queue not move it?
#[test]
fn bfq_101_since_when() {
    both(disk(1), |mut bench, client| {
        bench.set("low_latency", 1);
        bench.queue_mut(client).split_at = Some(bench.view.now());
        bench.later(30);
        bench.read(client, FAR);
        assert_eq!(
            (kind(&bench, client), state(&bench, client).since),
            (Kind::No, bench.view.now())
        );
        bench.queue_mut(client).split_at = None;
        bench.later(3);
        bench.read(client, FAR + 8);
        assert_eq!(state(&bench, client).since, bench.view.now());
        let queue = bench.number(client);
        bench.set_raised(queue, Kind::Interactive);
        let since = bench.view.now();
        bench.later(3);
        bench.read(client, FAR + 16);
        assert_eq!(state(&bench, client).since, since);
    });
}

/// Does the period of a soft real-time queue leave out the time that it waits for its turn? The
/// period's beginning moves by that time, but not beyond now.
#[test]
fn bfq_102_waiting_does_not_count() {
    for (since, rested, expected) in [(1500, 1900, 1600), (1950, 1900, 2000), (1500, 1200, 2000)] {
        both(disk(1), |mut bench, client| {
            bench.at(2000);
            let queue = bench.number(client);
            bench.set_raised(queue, Kind::SoftRealtime);
            let home = bench.queue_mut(client);
            (home.raising.since, home.stamp) = (ms(since), Some(ms(rested)));
            bench.forgive_waiting(queue);
            assert_eq!(state(&bench, client).since, ms(expected), "{since} {rested}");
            bench.set_raised(queue, Kind::Interactive);
            bench.queue_mut(client).raising.since = ms(since);
            bench.forgive_waiting(queue);
            assert_eq!(state(&bench, client).since, ms(since), "who starts has a longer time");
        });
    }
}

/// A raised reader in its turn, with two requests; the first is about to go.
fn raised_in_its_turn(version: Version, kind: Kind) -> (Bench, ClientId) {
    let (mut bench, client) = calm(version, disk(32));
    bench.at(20_000);
    bench.read(client, FAR);
    bench.read(client, FAR + 8);
    let queue = bench.number(client);
    bench.set_raised(queue, kind);
    let lasts = if kind == Kind::Interactive { 10_500 } else { 300 };
    bench.queue_mut(client).raising.lasts = ms(lasts);
    bench.bfq.begin_turn(&mut bench.view);
    // For as long as the test likes.
    bench.queue_mut(client).stamp = Some(Nanos::MAX);
    (bench, client)
}

/// At a dispatch, does raising end in a large burst, when its time is over, and for a starting
/// queue after 120,000 sectors; and does soft real time turn back into an interactive period that
/// is still open?
#[test]
fn bfq_103_what_ends_it() {
    for version in [LINUX_4_19, LINUX_6_18] {
        let (mut bench, client) = raised_in_its_turn(version, Kind::Interactive);
        bench.picked();
        assert_eq!(kind(&bench, client), Kind::Interactive);
        bench.queue_mut(client).in_large_burst = true;
        bench.picked();
        assert_eq!(kind(&bench, client), Kind::No);

        let (mut bench, client) = raised_in_its_turn(version, Kind::Interactive);
        bench.queue_mut(client).raising.since = bench.view.now() - ms(10_501);
        bench.picked();
        assert_eq!(kind(&bench, client), Kind::No);

        for (before, ends) in [(119_992, false), (119_993, true)] {
            let (mut bench, client) = raised_in_its_turn(version, Kind::Interactive);
            bench.queue_mut(client).raising.service = before;
            bench.picked();
            assert_eq!(kind(&bench, client) == Kind::No, ends, "{before} and 8");
        }

        let now = ms(20_400);
        for (interactive, expected) in [
            (Some(now - ms(10_500)), Kind::Interactive),
            (Some(now - ms(10_501)), Kind::No),
            (None, Kind::No),
        ] {
            let (mut bench, client) = raised_in_its_turn(version, Kind::SoftRealtime);
            let raising = &mut bench.queue_mut(client).raising;
            (raising.since, raising.interactive_since) = (ms(20_000), interactive);
            bench.pass(now);
            bench.picked();
            assert_eq!(kind(&bench, client), expected, "{interactive:?}");
            if expected == Kind::Interactive {
                assert_eq!(Some(state(&bench, client).since), interactive);
            }
        }
    }
}

/// Is the end of raising remembered; and in 6.18 may soft real time follow a start at once?
#[test]
fn bfq_104_what_is_left_of_it() {
    for version in [LINUX_4_19, LINUX_6_18] {
        for raised in [Kind::Interactive, Kind::SoftRealtime] {
            let (mut bench, client) = raised_in_its_turn(version, raised);
            let queue = bench.number(client);
            let known = bench.queue(client).raising.soft_realtime_next;
            bench.pass(bench.view.exact_now() + ms(40));
            bench.end_raising(queue);
            let raising = bench.queue(client).raising;
            assert_eq!((raising.kind, raising.since), (Kind::No, bench.view.now()));
            let anew = raised == Kind::Interactive && version.name == LINUX_6_18.name;
            let expected = if anew { bench.view.now() } else { known };
            assert_eq!(raising.soft_realtime_next, expected);
        }
    }
}

/// Does the weight change in the middle of a turn when raising begins or ends, so that the turn is
/// charged at the new weight; but does a change of the factor from 3000 to 30 wait for the next
/// turn?
#[test]
fn bfq_105_the_weight_follows_at_once() {
    for version in [LINUX_4_19, LINUX_6_18] {
        let (mut bench, client) = raised_in_its_turn(version, Kind::Interactive);
        let start = bench.entity(client).start;
        bench.queue_mut(client).raising.since = Nanos::ZERO;
        bench.picked();
        assert_eq!(bench.entity(client).weight, 40);
        bench.expire(client, Expiry::Preempted);
        let by_forty = entity::delta(8, 40);
        assert_eq!(bench.entity(client).start - start, by_forty);

        let (mut bench, client) = raised_in_its_turn(version, Kind::SoftRealtime);
        bench.expire(client, Expiry::Preempted);
        bench.bfq.begin_turn(&mut bench.view);
        assert_eq!(bench.entity(client).weight, 120_000);
        let now = bench.view.now();
        let raising = &mut bench.queue_mut(client).raising;
        (raising.since, raising.interactive_since) = (ms(5000), Some(now));
        bench.pass(bench.view.exact_now() + ms(301));
        bench.picked();
        assert_eq!(
            (kind(&bench, client), bench.entity(client).weight),
            (Kind::Interactive, 120_000)
        );
        bench.expire(client, Expiry::Preempted);
        assert_eq!(bench.entity(client).weight, 1200);
    }
}

/// Does a background write raise its queue if it comes more than 500 ms after the last one, while
/// the queue has work?
#[test]
fn bfq_106_rare_writes_are_raised() {
    for (after, raised) in [(500, Kind::No), (501, Kind::Interactive)] {
        each(disk(32), |mut bench| {
            bench.set("low_latency", 1);
            let client = bench.client();
            bench.write(client, FAR);
            let queue = bench.shared(client);
            assert_eq!(bench.bfq.queues.at(queue).raising.kind, Kind::No);
            bench.later(after);
            bench.write(client, FAR + 8);
            assert_eq!(bench.bfq.queues.at(queue).raising.kind, raised, "{after} ms");
        });
    }
}

/// In 6.18, does soft real time end at once when the last 32 requests were all seeks: for good, or
/// back to an interactive period that is still open?
#[test]
fn bfq_107_jumps_all_over_end_soft_real_time() {
    for (interactive, expected) in [(None, Kind::No), (Some(ms(19_000)), Kind::Interactive)] {
        for version in [LINUX_4_19, LINUX_6_18] {
            let (mut bench, client) = raised_in_its_turn(version, Kind::SoftRealtime);
            bench.queue_mut(client).raising.interactive_since = interactive;
            bench.marks(client, 31);
            bench.read(client, 9 * FAR);
            let later = version.name == LINUX_6_18.name;
            let expected = if later { expected } else { Kind::SoftRealtime };
            assert_eq!(kind(&bench, client), expected, "{}", version.name);
        }
    }
}

/// Does low_latency=0 end all raising, and is no queue raised while it is 0?
#[test]
fn bfq_108_low_latency_off() {
    each(disk(1), |mut bench| {
        bench.set("low_latency", 1);
        let clients: [ClientId; 3] = bench.readers();
        assert_eq!(bench.bfq.schedule.symmetry.raised(), 3);
        bench.set("low_latency", 0);
        assert_eq!(bench.bfq.schedule.symmetry.raised(), 0);
        for client in clients {
            assert_eq!(kind(&bench, client), Kind::No);
        }
        let late = bench.client();
        bench.read(late, 9 * FAR);
        assert_eq!(kind(&bench, late), Kind::No);
    });
}

/// Does an application that starts among readers preempt the one in service, with a weight of 1200
/// against 40?
#[test]
fn bfq_109_who_starts_goes_first() {
    each(disk(1), |mut bench| {
        let readers: [ClientId; 5] = bench.readers();
        for client in readers {
            bench.read(client, 8 * FAR + u64::from(client.index()) * FAR);
        }
        bench.picked();
        bench.notes();
        bench.set("low_latency", 1);
        let starter = bench.client();
        bench.read(starter, 30 * FAR);
        let later = bench.is(LINUX_6_18);
        let rule = if later { Preemption::Heavier } else { Preemption::Deserves };
        assert_eq!(bench.preemptions(), [rule]);
        assert_eq!(bench.picked().0, starter);
        assert_eq!(bench.entity(starter).weight, 1200);
        assert_eq!(bench.entity(readers[1]).weight, 40);
    });
}

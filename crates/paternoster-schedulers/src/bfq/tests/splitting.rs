// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of a queue over a merge, and what happens to processes that part.
//! BFQ-133 to BFQ-137, BFQ-141 to BFQ-144.

use super::super::weight_raising::{Kind, Raising};
use super::*;

/// A bench in which the second of two readers joins the first's queue; `prepare` gets the second
/// before that.
fn shared(version: Version, prepare: impl Fn(&mut Bench, ClientId)) -> (Bench, [ClientId; 2]) {
    let mut bench = Bench::new(version, disk(32));
    let [a, b, _] = bench.readers();
    bench.read(a, FAR + 100);
    assert_eq!(bench.picked().0, a);
    prepare(&mut bench, b);
    bench.read(b, FAR + 16);
    assert_eq!(bench.number(a), bench.number(b));
    (bench, [a, b])
}

/// The client's next request takes it out of the shared queue.
fn part(bench: &mut Bench, client: ClientId) {
    bench.queue_mut(client).is_to_split = true;
    let before = bench.number(client);
    bench.read(client, 20 * FAR);
    assert_ne!(bench.number(client), before);
}

fn both(test: impl Fn(Version)) {
    for version in [LINUX_4_19, LINUX_6_18] {
        test(version);
    }
}

/// Is the state of a queue saved for its owner, and for none once it is shared?
#[test]
fn bfq_133_kept_of_the_owner() {
    both(|version| {
        let (mut bench, [a, b]) = shared(version, |_, _| {});
        let kept = |bench: &Bench, client: ClientId| bench.bfq.saved.of(client).is_some();
        assert!(kept(&bench, a) && kept(&bench, b));
        let queue = bench.number(a);
        *bench.bfq.saved.of_mut(a) = None;
        bench.bfq.save_state(&bench.view, queue);
        assert!(!kept(&bench, a));
    });
}

/// Does a process that is split off get back its earlier think time and I/O-boundness; and in 6.18
/// also its injection limit and weight?
#[test]
fn bfq_133_what_is_kept() {
    both(|version| {
        let prepare = |bench: &mut Bench, client| {
            let queue = bench.queue_mut(client);
            queue.pattern.think_time.set_parts(3_000_000, 105);
            (queue.pattern.thinks_short, queue.pattern.is_io_bound) = (false, false);
            bench.limit_mut(client).most = 3;
        };
        let (mut bench, [_, b]) = shared(version, prepare);
        let queue = bench.queue_mut(b);
        (queue.pattern.thinks_short, queue.pattern.is_io_bound) = (true, true);
        bench.queue_mut(b).is_to_split = true;
        let id = bench.bound(b, Op::Read, Flags::NONE, (20 * FAR, 8));
        // Before the request is added nothing new has been learned.
        bench.bfq.settle_request(&mut bench.view, id);
        let queue = bench.queue(b);
        assert_eq!(queue.pattern.think_time.parts(), (3_000_000, 105));
        assert_eq!((queue.pattern.thinks_short, queue.pattern.is_io_bound), (false, false));
        assert_eq!(bench.limit(b).most, if version.name == LINUX_6_18.name { 3 } else { 0 });
        bench.wait(id);
    });
}

/// Is the time from which an arrival is soft real time not kept, so that it is as for any new
/// queue; nor, in 4.19, what was served while it started?
#[test]
fn bfq_133_what_is_not_kept() {
    both(|version| {
        let prepare = |bench: &mut Bench, client| {
            let raising = &mut bench.queue_mut(client).raising;
            (raising.soft_realtime_next, raising.service) = (ms(77_000), 5000);
            raising.is_unsettled = true;
        };
        let (mut bench, [_, b]) = shared(version, prepare);
        bench.later(3);
        part(&mut bench, b);
        let Raising { soft_realtime_next, service, is_unsettled, .. } = bench.queue(b).raising;
        assert_eq!((soft_realtime_next, is_unsettled), (bench.view.now(), false));
        assert_eq!(service, if version.name == LINUX_6_18.name { 5000 } else { 0 });
    });
}

/// A process whose very first request joined another's queue, and that parts 100 ms later.
fn merged_with_its_first(version: Version, low_latency: u64, check: u64) -> (Bench, ClientId) {
    let mut bench = Bench::new(version, disk(32));
    let [a, _, _] = bench.readers();
    bench.read(a, FAR + 100);
    assert_eq!(bench.picked().0, a);
    bench.set("low_latency", low_latency);
    bench.set("early_merge_check", check);
    let late = bench.client();
    bench.later(5);
    bench.read(late, FAR + 16);
    assert_eq!(bench.number(late), bench.number(a));
    bench.later(100);
    part(&mut bench, late);
    (bench, late)
}

/// With low_latency, is it as if it had been raised when it was merged?
#[test]
fn bfq_134_merged_before_it_was_seen() {
    both(|version| {
        let (bench, client) = merged_with_its_first(version, 1, 1);
        let raising = bench.queue(client).raising;
        assert_eq!(raising.kind, Kind::Interactive);
        let lasts = bench.bfq.device.raise_duration(&bench.view);
        assert_eq!((raising.lasts, raising.interactive_since), (lasts, None));
        assert_eq!(bench.entity(client).weight, 1200);
    });
}

/// Without, is it not; and without seed 004's check is it raised in 4.19, while 6.18 checks again
/// when it parts?
#[test]
fn bfq_135_not_without_low_latency() {
    both(|version| {
        let (bench, client) = merged_with_its_first(version, 0, 1);
        assert_eq!(bench.queue(client).raising.kind, Kind::No);
        let (bench, client) = merged_with_its_first(version, 0, 0);
        let kind = if version.name == LINUX_4_19.name { Kind::Interactive } else { Kind::No };
        assert_eq!(bench.queue(client).raising.kind, kind);
    });
}

/// The same as the scenario BFQ-S8.
#[test]
fn bfq_scenario_8_early_merge_and_split() {
    both(|version| {
        let (bench, client) = merged_with_its_first(version, 0, 1);
        assert_eq!(
            (bench.bfq.schedule.symmetry.raised(), bench.queue(client).raising.kind),
            (0, Kind::No)
        );
        assert_eq!(bench.entity(client).weight, 40);
    });
}

/// Is a raise that still runs resumed; ended if it is over; and, if it was soft real time, followed
/// by the interactive period that it had interrupted? Parted at 1.5 s.
#[test]
fn bfq_136_a_raise_is_resumed() {
    for (kind, lasts, interactive, expected) in [
        (Kind::Interactive, 9000, None, Kind::Interactive),
        (Kind::Interactive, 499, None, Kind::No),
        (Kind::SoftRealtime, 300, None, Kind::No),
        (Kind::SoftRealtime, 300, Some(ms(900)), Kind::Interactive),
        (Kind::SoftRealtime, 600, Some(ms(900)), Kind::SoftRealtime),
    ] {
        both(|version| {
            let prepare = |bench: &mut Bench, client| {
                bench.set("low_latency", 1);
                let queue = bench.number(client);
                bench.set_raised(queue, kind);
                let raising = &mut bench.queue_mut(client).raising;
                (raising.lasts, raising.since) = (ms(lasts), ms(1000));
                raising.interactive_since = interactive;
            };
            let (mut bench, [_, b]) = shared(version, prepare);
            bench.pass(ms(1500));
            bench.queue_mut(b).stamp = Some(Nanos::MAX);
            part(&mut bench, b);
            assert_eq!(bench.queue(b).raising.kind, expected, "{kind:?} {lasts}");
            assert_eq!(bench.entity(b).weight, 40 * expected.coefficient());
        });
    }
}

/// And ended in a large burst?
#[test]
fn bfq_136_not_in_a_large_burst() {
    both(|version| {
        let prepare = |bench: &mut Bench, client| {
            bench.set("low_latency", 1);
            let queue = bench.number(client);
            bench.set_raised(queue, Kind::Interactive);
            bench.queue_mut(client).raising.lasts = ms(9000);
            bench.queue_mut(client).in_large_burst = true;
        };
        let (mut bench, [_, b]) = shared(version, prepare);
        part(&mut bench, b);
        assert!(bench.queue(b).in_large_burst);
        assert_eq!(bench.queue(b).raising.kind, Kind::No);
    });
}

/// In 6.18, does a split raise no queue while low_latency is 0; and in 4.19 does it?
#[test]
fn bfq_137_low_latency_off_meanwhile() {
    both(|version| {
        let prepare = |bench: &mut Bench, client| {
            bench.set("low_latency", 1);
            let queue = bench.number(client);
            bench.set_raised(queue, Kind::Interactive);
            let raising = &mut bench.queue_mut(client).raising;
            (raising.lasts, raising.since) = (ms(9000), ms(1000));
        };
        let (mut bench, [_, b]) = shared(version, prepare);
        bench.set("low_latency", 0);
        part(&mut bench, b);
        let kind = if version.name == LINUX_4_19.name { Kind::Interactive } else { Kind::No };
        assert_eq!(bench.queue(b).raising.kind, kind);
    });
}

/// Is a shared queue split if it is seeky when its turn ends, and otherwise not?
#[test]
fn bfq_141_a_seeky_shared_queue_is_to_be_split() {
    for (marks, split) in [(20, true), (19, false)] {
        both(|version| {
            let (mut bench, [a, _]) = shared(version, |_, _| {});
            bench.marks(a, marks);
            bench.expire(a, Expiry::BudgetTimeout);
            assert_eq!(bench.queue(a).is_to_split, split, "{marks}");
        });
    }
    each(disk(32), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        bench.picked();
        bench.marks(client, 32);
        bench.expire(client, Expiry::BudgetTimeout);
        assert!(!bench.queue(client).is_to_split, "its own");
    });
}

/// Does the next request of each process make it a queue of its own, while the last keeps the
/// existing one?
#[test]
fn bfq_142_each_gets_his_own() {
    both(|version| {
        let (mut bench, [a, b]) = shared(version, |_, _| {});
        let queue = bench.number(a);
        part(&mut bench, b);
        assert_eq!(bench.queue(b).split_at, Some(bench.view.now()));
        assert_eq!((bench.queue(b).owner, bench.queue(b).is_shared), (Some(b), false));
        bench.read(a, 30 * FAR);
        assert_eq!(bench.number(a), queue);
        let kept = bench.queue(a);
        assert_eq!((kept.owner, kept.is_shared, kept.is_to_split), (Some(a), false, false));
    });
}

/// Does a process that parts belong to the burst that it belonged to: marked if that became large
/// meanwhile, and listed again, without counting twice, if it did not?
#[test]
fn bfq_143_the_burst_of_who_parts() {
    for large in [false, true] {
        both(|version| {
            let prepare = |bench: &mut Bench, client| {
                let queue = bench.number(client);
                if bench.bfq.bursts.lists(queue) {
                    return;
                }
                bench.bfq.bursts.resume(queue, true, false);
            };
            let (mut bench, [_, b]) = shared(version, prepare);
            bench.bfq.bursts.set_size(3);
            if large {
                bench.bfq.bursts.set_large();
            }
            part(&mut bench, b);
            assert_eq!(bench.queue(b).in_large_burst, large);
            assert_eq!(bench.bfq.bursts.lists(bench.number(b)), !large);
            assert_eq!(bench.bfq.bursts.size(), 3);
        });
    }
}

/// Within two seconds of a split, is a queue not judged by think time? (For bursts and raising:
/// `bfq_110_…`, `bfq_97_…`.)
#[test]
fn bfq_144_settling_down() {
    for (after, short) in [(1999, true), (2001, false)] {
        both(|version| {
            let (mut bench, [_, b]) = shared(version, |_, _| {});
            part(&mut bench, b);
            let queue = bench.queue_mut(b);
            queue.pattern.think_time.set_parts(15_000_000, 200);
            queue.pattern.thinks_short = true;
            bench.pass(bench.view.exact_now() + ms(after));
            bench.read(b, 21 * FAR);
            assert_eq!(bench.queue(b).pattern.thinks_short, short, "{after} ms");
        });
    }
}

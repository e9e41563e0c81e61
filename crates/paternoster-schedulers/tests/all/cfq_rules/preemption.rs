// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that need not wait for the end of a slice, rule by rule in the order of CFQ-62.
//! CFQ-32 to CFQ-34, CFQ-68.

use paternoster_core::{Bio, Class, ClientId, ClientSpec, Flags, GroupSpec, Nanos, Op, Preemption};

use super::{FAR, each, ended, pass_idling, preemptions, seeky_client};
use crate::common::driver::{Rig, disk};

fn of(rig: &mut Rig, class: Class) -> ClientId {
    rig.client_with(ClientSpec::new().priority(class, 4))
}

/// A client in service: one of its two requests is in flight.
fn active(rig: &mut Rig, class: Class) -> ClientId {
    let client = of(rig, class);
    rig.read(client, 0, 8);
    rig.read(client, 100, 8);
    assert_eq!(rig.pulled(), [0]);
    client
}

/// If an async queue is active, does any sync request preempt it at once, read or write, real time
/// or best effort; not one of the idle class, nor another async one? In 2.6.34 the slice ends, but
/// the rest of that class's async workload is kept, so that their queue is chosen again; since
/// 2.6.38 a preemption by another kind ends that, too.
#[test]
fn cfq_32_sync_goes_before_async() {
    let calm = Class::BestEffort;
    for (class, op, flags, old, new) in [
        (calm, Op::Read, Flags::NONE, 100, FAR),
        (calm, Op::Write, Flags::SYNC, 100, FAR),
        (Class::Realtime, Op::Read, Flags::NONE, FAR, FAR),
        (Class::Idle, Op::Read, Flags::NONE, 100, 100),
        (calm, Op::Write, Flags::NONE, 100, 100),
    ] {
        each(1, |preset, mut rig| {
            let writer = rig.client();
            let other = rig.client_with(ClientSpec::new().priority(class, 3));
            for n in 0..3 {
                rig.write(writer, n * 100, 8);
            }
            assert_eq!(rig.pulled(), [0]);
            rig.submit(Bio::new(other, op, FAR, 8).flags(flags));
            rig.complete_oldest();
            let next = if preset == "cfq" { old } else { new };
            assert_eq!(rig.pulled(), [next], "{preset} {class:?} {op:?}");
        });
    }
}

/// Does a best-effort request never preempt an active real-time queue: not when its slice is used
/// up, with either urgent flag, close to where the device idles?
#[test]
fn cfq_33_best_effort_never_preempts_real_time() {
    each(1, |preset, mut rig| {
        active(&mut rig, Class::Realtime);
        let other = of(&mut rig, Class::BestEffort);
        rig.submit(Bio::new(other, Op::Read, FAR, 8).flags(Flags::META | Flags::PRIO));
        rig.at(1);
        rig.complete_oldest();
        rig.pull();
        rig.at(200);
        rig.read(other, 2 * FAR, 8);
        assert_eq!((preemptions(&rig), ended(&rig)), (vec![], vec![]), "{preset}");

        let mut rig = Rig::new(disk(1), preset);
        let [client, other] = [Class::Realtime, Class::BestEffort].map(|class| of(&mut rig, class));
        rig.read(client, 0, 8);
        rig.pull();
        rig.complete_oldest();
        rig.read(other, 16, 8);
        assert_eq!(preemptions(&rig), [], "{preset}");
    });
}

/// If the device idles for a reader at P, does another's request at P + 8192 or P - 8192 preempt
/// it, and one a sector further away not?
#[test]
fn cfq_34_close_requests_preempt_an_idle_device() {
    const P: u64 = 1_000_000;
    for (sector, close) in
        [(P + 8192, true), (P + 8193, false), (P - 8192, true), (P - 8193, false)]
    {
        each(1, |preset, mut rig| {
            let [client, other] = [(); 2].map(|()| rig.client());
            rig.read(client, P - 8, 8);
            rig.pull();
            rig.at(5);
            rig.complete_oldest();
            rig.pull();
            rig.read(other, sector, 8);
            let expected = if close { vec![Preemption::Close] } else { vec![] };
            assert_eq!(preemptions(&rig), expected, "{preset} {sector}");
            assert_eq!(rig.pull().len(), usize::from(close), "{preset} {sector}");
        });
    }
}

/// Rule 3: does any class preempt the idle class, and rule 2: does the idle class preempt none?
#[test]
fn preemption_of_and_by_the_idle_class() {
    each(2, |preset, mut rig| {
        active(&mut rig, Class::Idle);
        let other = of(&mut rig, Class::Idle);
        rig.read(other, FAR, 8);
        assert_eq!(preemptions(&rig), [], "{preset}");
        let calm = of(&mut rig, Class::BestEffort);
        rig.read(calm, 2 * FAR, 8);
        assert_eq!(preemptions(&rig), [Preemption::OverIdleClass], "{preset}");
    });
}

/// Rule 6: is a queue of another group never preempted, though its slice is used up and the request
/// is real time? In 4.19 a group above it may: the root.
#[test]
fn preemption_stays_in_its_group() {
    each(1, |preset, mut rig| {
        let groups =
            [(); 2].map(|()| rig.queue.add_group(Nanos::ZERO, GroupSpec::new()).expect("room"));
        let [client, sibling] = groups.map(|group| {
            rig.client_with(ClientSpec::new().group(group).priority(Class::BestEffort, 4))
        });
        let above = of(&mut rig, Class::BestEffort);
        let inside =
            rig.client_with(ClientSpec::new().group(groups[0]).priority(Class::BestEffort, 4));
        rig.read(client, 0, 8);
        rig.read(client, 100, 8);
        rig.pull();
        rig.at(1);
        rig.complete_oldest();
        rig.pull();
        rig.at(150);
        rig.read(sibling, FAR, 8);
        assert_eq!(preemptions(&rig), [], "{preset}");
        rig.read(above, 2 * FAR, 8);
        let nested = preset == "cfq-4.19";
        assert_eq!(preemptions(&rig).len(), usize::from(nested), "{preset}");
        rig.read(inside, 3 * FAR, 8);
        assert_eq!(preemptions(&rig), [Preemption::SliceUsed], "{preset}");
    });
}

/// Rule 7: if a slice is used up at a completion, does any request preempt? And before rule 10,
/// except in 4.19: for a real-time request that is the reason there. The slice is 1 to 101 ms.
#[test]
fn preemption_of_a_used_slice() {
    for (class, at, expected) in [
        (Class::BestEffort, 100, [None; 3]),
        (Class::BestEffort, 101, [Some(Preemption::SliceUsed); 3]),
        (Class::Realtime, 100, [Some(Preemption::Realtime); 3]),
        (
            Class::Realtime,
            101,
            [Preemption::SliceUsed, Preemption::SliceUsed, Preemption::Realtime].map(Some),
        ),
    ] {
        let expected = super::PRESETS.into_iter().zip(expected);
        for (preset, rule) in expected {
            let mut rig = Rig::new(disk(1), preset);
            active(&mut rig, Class::BestEffort);
            rig.at(1);
            rig.complete_oldest();
            assert_eq!(rig.pulled(), [100]);
            rig.at(at);
            let other = of(&mut rig, class);
            rig.read(other, FAR, 8);
            assert_eq!(preemptions(&rig), rule.into_iter().collect::<Vec<_>>(), "{preset} {at}");
        }
    }
}

/// Rule 8: among queues served in turns, does one preempt another that has nothing waiting, if the
/// tree has only these two, and in 4.19 however many it has (16.1)? With a third, 3.6 finds by rule
/// 11 that the active one is not idled for.
#[test]
fn preemption_among_those_served_in_turns() {
    each(1, |preset, mut rig| {
        let [a, b, c, d] = [1, 2, 3, 4].map(|place| seeky_client(&mut rig, place));
        rig.read(a, 0, 8);
        assert_eq!(rig.pulled(), [0]);
        rig.queue.observer_mut().notes.clear();
        rig.read(b, FAR, 8);
        assert_eq!(preemptions(&rig), [Preemption::NextInTurn], "{preset}: two");
        rig.serve();
        pass_idling(&mut rig);

        rig.read(a, 0, 8);
        rig.read(a, 100_000, 8);
        assert_eq!(rig.pulled(), [0]);
        rig.queue.observer_mut().notes.clear();
        rig.read(b, FAR, 8);
        rig.read(c, 2 * FAR, 8);
        assert_eq!(preemptions(&rig), [], "{preset}: a has one waiting");
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [100_000]);
        rig.read(d, 3 * FAR, 8);
        let expected = match preset {
            "cfq" => vec![],
            "cfq-3.6" => vec![Preemption::NotIdledFor],
            _ => vec![Preemption::NextInTurn],
        };
        assert_eq!(preemptions(&rig), expected, "{preset}: four");
    });
}

/// Rule 9: does a request with the urgent flag preempt, metadata in 2.6.34, priority in later
/// kernels; unless the active queue has one waiting?
#[test]
fn preemption_by_urgent_requests() {
    for (flag, old) in [(Flags::META, true), (Flags::PRIO, false)] {
        for pending in [false, true] {
            each(1, |preset, mut rig| {
                let [client, other] = [(); 2].map(|()| rig.client());
                rig.read(client, 0, 8);
                rig.pull();
                let more = if pending { flag } else { Flags::NONE };
                rig.submit(Bio::new(client, Op::Read, 100, 8).flags(more));
                rig.submit(Bio::new(other, Op::Read, FAR, 8).flags(flag));
                let urgent = old == (preset == "cfq") && !pending;
                let expected = if urgent { vec![Preemption::Urgent] } else { vec![] };
                assert_eq!(preemptions(&rig), expected, "{preset} {flag:?} {pending}");
            });
        }
    }
}

/// Rule 11: from 2.6.38 on, is an active queue with nothing waiting preempted if it is not idled
/// for? Without slice_idle none is.
#[test]
fn preemption_of_a_queue_that_is_not_idled_for() {
    for idle in ["8", "0"] {
        each(1, |preset, mut rig| {
            rig.set("slice_idle", idle);
            let [client, other] = [(); 2].map(|()| rig.client());
            rig.read(client, 0, 8);
            rig.pull();
            rig.read(other, FAR, 8);
            let preempts = preset != "cfq" && idle == "0";
            let expected = if preempts { vec![Preemption::NotIdledFor] } else { vec![] };
            assert_eq!(preemptions(&rig), expected, "{preset} {idle}");
        });
    }
}

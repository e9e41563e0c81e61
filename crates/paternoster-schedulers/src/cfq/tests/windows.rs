// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queues are idled for. CFQ-28, 29, 38; requests flagged that no other follows; deep queues
//! that are slow; what must be dispatched.

use super::*;
use crate::cfq::kind::{Kind, tree_of};

const FAR: u64 = 1 << 24;

/// A reader comes back `think` ms after each completion, `times` times; its requests take 5 ms.
fn reads_and_thinks(bench: &mut Bench, client: ClientId, think: u64, times: u64) {
    for _ in 0..times {
        let now = bench.view.now().as_millis();
        let id = bench.read(client, now * 8);
        assert_eq!(bench.pick(), Ok(id));
        bench.at(now + 5);
        bench.end(id);
        // The timer rings on the way.
        bench.at(now + 5 + think.min(8));
        bench.at(now + 5 + think);
    }
}

/// With think times of 20 ms, is idle_window cleared at the request after which three of them are
/// known, and does it stay set with 5 ms? A think time counts as at most 16 ms: 0, 16, 16 have a
/// mean above 8.
#[test]
fn cfq_28_long_thinkers_are_not_idled_for() {
    each(|mut bench| {
        let client = bench.client();
        for (times, window) in [(2, true), (1, false), (3, false)] {
            reads_and_thinks(&mut bench, client, 20, times);
            assert_eq!(bench.queue(client).idle_window, window);
        }
        let quick = bench.client();
        reads_and_thinks(&mut bench, quick, 5, 10);
        assert!(bench.queue(quick).idle_window);
    });
}

/// Is the timer then set for it only if it is the only one in its tree? With another queue that is
/// not idled for either, never. Alone in its tree: in 2.6.34 yes; later only if the tree's own
/// think time is short, which such a reader's is not. (group_idle is off.)
#[test]
fn cfq_28_but_the_last_of_a_tree_is() {
    for beside in [false, true] {
        each(|mut bench| {
            bench.cfq.tunables.group_idle = Nanos::ZERO;
            let [client, other] = [(); 2].map(|()| bench.client());
            for _ in 0..8 {
                reads_and_thinks(&mut bench, client, 20, 1);
                // Where no timer was set it still has the device, and would not change its tree.
                bench.cfq.expire(&mut bench.view, false);
            }
            let now = bench.view.now().as_millis();
            let id = bench.read(client, now * 8);
            assert_eq!(bench.tree(client), tree_of(Class::BestEffort, Kind::NoIdle));
            assert_eq!(bench.pick(), Ok(id));
            if beside {
                bench.cfq.version.preempts_unidled = false;
                bench.cfq.version.preempts_among_seeky = false;
                // Two come, so that there are never exactly two in the tree with the active one.
                let third = bench.client();
                bench.cfq.workload.serving.kind = Kind::Sync;
                bench.read_unidled(other, FAR);
                bench.read_unidled(third, 2 * FAR);
                bench.cfq.workload.serving.kind = Kind::NoIdle;
            }
            bench.at(now + 5);
            bench.end(id);
            let idles = bench.view.timer() != Nanos::MAX;
            assert_eq!(idles, !beside && bench.is(LINUX_2_6_34), "{}", bench.cfq.version.name);
        });
    }
}

/// Is the device kept free for a group's only queue if its tree is known to think for longer than
/// group_idle? In 3.6 it is, in 4.19 not; 2.6.34 idles for the last of the tree.
#[test]
fn a_group_whose_tree_thinks_long_is_left_in_4_19() {
    each(|mut bench| {
        let client = bench.client();
        for round in 0..12 {
            let now = bench.view.now().as_millis();
            let id = bench.read(client, now * 8);
            assert_eq!(bench.pick(), Ok(id));
            bench.at(now + 5);
            bench.end(id);
            if round == 11 {
                let idles = bench.view.timer() != Nanos::MAX;
                assert_eq!(idles, !bench.is(LINUX_4_19), "{}", bench.cfq.version.name);
            }
            bench.cfq.expire(&mut bench.view, false);
            bench.at(now + 25);
        }
    });
}

/// With slice_idle=0, is idle_window cleared with the next request and the kind at the next
/// insertion into a tree; and does 2.6.34 alone still idle for the last of a tree?
#[test]
fn cfq_29_without_slice_idle_nobody_has_a_window() {
    each(|mut bench| {
        let client = bench.client();
        bench.read(client, 0);
        assert!(bench.queue(client).idle_window);
        bench.cfq.tunables.slice_idle = Nanos::ZERO;
        bench.read(client, 8);
        assert!(!bench.queue(client).idle_window);
        let [sync, unidled] = [Kind::Sync, Kind::NoIdle].map(|k| tree_of(Class::BestEffort, k));
        assert_eq!(bench.tree(client), sync);
        bench.pick().unwrap();
        bench.cfq.expire(&mut bench.view, false);
        assert_eq!(bench.tree(client), unidled);
        let queue = bench.number(client);
        assert_eq!(bench.cfq.may_idle(&bench.view, queue), bench.is(LINUX_2_6_34));
    });
}

/// Six requests at once, far apart.
fn deep_and_seeky(bench: &mut Bench) -> ClientId {
    let client = bench.client();
    for jump in 0..6 {
        bench.read(client, jump * 100_000);
    }
    let queue = bench.queue(client);
    assert!(queue.is_deep && queue.seek.is_seeky(bench.cfq.tunables.seek_detection));
    client
}

/// Does a seeky queue with four requests at once keep its idle_window until the device has idled
/// for it without success? Then it is no longer deep, and the next request finds it seeky only.
#[test]
fn cfq_38_a_deep_queue_is_idled_for_until_that_fails() {
    each(|mut bench| {
        let client = deep_and_seeky(&mut bench);
        let rest = bench.client();
        bench.read(rest, FAR);
        for ms in 1..=6 {
            let id = bench.pick().unwrap();
            bench.at(ms);
            bench.end(id);
            assert!(bench.queue(client).idle_window);
        }
        assert_eq!(bench.view.timer(), Nanos::from_millis(6 + 8));
        bench.at(14);
        assert_eq!((bench.queue(client).is_deep, bench.cfq.service.queue()), (false, None));
        bench.read(client, 700_000);
        assert!(!bench.queue(client).idle_window);
    });
}

/// Is such a queue dropped at once from 2.6.38 on, when all its requests are in the device and at
/// most half of its slice was needed to get there? Not before; and not when more than half has
/// passed, which is not slow: at 70 of 100 ms.
#[test]
fn a_deep_queue_that_is_slow_loses_its_window() {
    for (ms, later) in [(0, true), (20, true), (70, false)] {
        each(|mut bench| {
            let client = deep_and_seeky(&mut bench);
            let first = bench.pick().unwrap();
            if ms > 0 {
                bench.end(first);
                bench.at(ms);
            }
            while bench.pick().is_ok() {}
            let rest = bench.client();
            bench.read(rest, FAR);
            assert_eq!(bench.pick().is_ok(), later && !bench.is(LINUX_2_6_34), "{ms}");
            assert_eq!(bench.queue(client).idle_window, !later || bench.is(LINUX_2_6_34), "{ms}");
        });
    }
}

/// Does a request flagged that no other follows clear idle_window, from 2.6.38 on?
#[test]
fn a_last_request_says_that_no_other_follows() {
    each(|mut bench| {
        let client = bench.client();
        let id = bench.bound(client, Op::Read, Flags::NOIDLE, 0);
        bench.wait(id);
        assert_eq!(bench.queue(client).idle_window, bench.is(LINUX_2_6_34));
    });
}

/// Does 2.6.34 idle for the tree of those not idled for, at its end, only if one of its requests
/// lacked the flag that no other follows? A reader of another kind keeps the group from being
/// alone.
#[test]
fn the_end_of_a_tree_is_idled_for_unless_all_say_the_contrary() {
    for (flags, idles) in [(Flags::NONE, true), (Flags::NOIDLE, false)] {
        let mut bench = Bench::new(LINUX_2_6_34, disk(1));
        let [client, other] = [(); 2].map(|()| bench.client());
        let id = bench.bound(client, Op::Read, flags, 0);
        let queue = bench.number(client);
        bench.cfq.queues.at_mut(queue).idle_window = false;
        bench.wait(id);
        bench.read(other, FAR);
        assert_eq!(bench.pick(), Ok(id));
        bench.at(5);
        bench.end(id);
        assert_eq!(bench.view.timer() != Nanos::MAX, idles, "{flags:?}");
    }
}

/// Does a sync request preempt an async queue whatever that was to dispatch, except in 4.19, where
/// an expired request goes first?
#[test]
fn an_expired_async_request_is_not_preempted() {
    each(|mut bench| {
        let [writer, reader] = [(); 2].map(|()| bench.client());
        bench.write(writer, 0);
        bench.write(writer, 800);
        bench.pick().unwrap();
        let queue = bench.shared(writer);
        bench.cfq.queues.at_mut(queue).must_dispatch = true;
        bench.read(reader, FAR);
        assert_eq!(bench.cfq.service.queue().is_some(), bench.is(LINUX_4_19));
    });
}

/// Is a sole queue's slice extended when it is used up at a completion, until it has work again;
/// not when its group has another queue, and from 2.6.38 on not when it has a request already? The
/// first ends at 1 ms: the slice ends at 101.
#[test]
fn a_sole_queue_is_waited_for_behind_its_slice() {
    for (others, waiting) in [(false, false), (false, true), (true, false)] {
        each(|mut bench| {
            let client = bench.client();
            let [first, second] = [0, 8].map(|sector| bench.read(client, sector));
            if others {
                let other = bench.client();
                bench.read(other, FAR);
            }
            assert_eq!(bench.pick(), Ok(first));
            bench.at(1);
            bench.end(first);
            assert_eq!(bench.pick(), Ok(second));
            if waiting {
                bench.read(client, 16);
            }
            bench.at(150);
            bench.end(second);
            let waits = !others && (!waiting || bench.is(LINUX_2_6_34));
            assert_eq!(bench.cfq.service.queue().is_some(), waits, "{others} {waiting}");
            if waits {
                let queue = bench.queue(client);
                assert_eq!((queue.wait_busy, queue.slice.end), (true, Nanos::from_millis(158)));
            }
        });
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queue another waits for. BFQ-167, BFQ-168; 6.18.

use super::*;

/// A journal, and a process that asks this long after the end of each of the journal's requests;
/// both think long.
fn journal(bench: &mut Bench) -> [ClientId; 2] {
    let clients = [(); 2].map(|()| bench.client());
    for (place, client) in (1..).zip(clients) {
        bench.read(client, place * FAR);
        bench.serve();
        rest(bench);
        let queue = bench.queue_mut(client);
        queue.pattern.think_time.set_parts(16_000_000, 200);
        queue.pattern.thinks_short = false;
    }
    clients
}

/// Until no queue has the device.
fn rest(bench: &mut Bench) {
    while bench.in_service().is_some() {
        bench.later(1);
        let _ = bench.pick();
    }
}

/// One round: a request of the journal ends, and the process asks `us` microseconds later.
fn round(bench: &mut Bench, [journal, process]: [ClientId; 2], us: u64) {
    bench.later(20);
    bench.read(journal, FAR);
    let (_, id) = bench.picked();
    bench.later_us(100);
    bench.end(id);
    let ended = bench.view.exact_now();
    bench.pass(ended + Nanos::from_micros(us));
    bench.queue_mut(process).pattern.thinks_short = false;
    let id = bench.read(process, 2 * FAR);
    while bench.queue(process).in_flight == 0 {
        bench.later_us(500);
        let _ = bench.pick();
    }
    bench.end(id);
    rest(bench);
}

fn waker(bench: &Bench, client: ClientId) -> Option<u32> {
    bench.bfq.wakers.waker_of(bench.number(client))
}

/// Does the third time in a row within 1.024 s make a queue the waker: the other asks less than 4
/// ms after its end each time?
#[test]
fn bfq_167_three_times_in_a_row() {
    for (us, expected) in [(3999, true), (4000, false)] {
        let mut bench = Bench::new(LINUX_6_18, flash(32));
        let clients @ [journal, process] = journal(&mut bench);
        for times in 1..=3 {
            round(&mut bench, clients, us);
            let known = waker(&bench, process) == Some(bench.number(journal));
            assert_eq!(known, expected && times == 3, "{us} us, {times} times");
        }
        let woken = bench.bfq.wakers.woken_by(bench.number(journal));
        assert_eq!(woken, expected.then(|| bench.number(process)));
    }
}

/// Does another candidate, or a pause of more than 1.024 s after the first time, restart the count?
#[test]
fn bfq_167_in_vain() {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let clients @ [_, process] = journal(&mut bench);
    round(&mut bench, clients, 1000);
    round(&mut bench, clients, 1000);
    bench.later(1100);
    round(&mut bench, clients, 1000);
    round(&mut bench, clients, 1000);
    assert_eq!(waker(&bench, process), None);
    round(&mut bench, clients, 1000);
    assert!(waker(&bench, process).is_some());

    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let clients @ [_, process] = journal(&mut bench);
    let [other, _] = journal(&mut bench);
    round(&mut bench, clients, 1000);
    round(&mut bench, clients, 1000);
    round(&mut bench, [other, process], 1000);
    round(&mut bench, clients, 1000);
    assert_eq!(waker(&bench, process), None);
}

/// Has no queue a waker that thinks short, nor with wakers=0, nor in 4.19; and is a shared queue
/// none?
#[test]
fn bfq_167_who_has_none() {
    let three = |bench: &mut Bench, prepare: &dyn Fn(&mut Bench, ClientId)| {
        let clients @ [journal, process] = journal(bench);
        for _ in 0..3 {
            prepare(bench, journal);
            round(bench, clients, 1000);
        }
        waker(bench, process)
    };
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    bench.set("wakers", 0);
    assert_eq!(three(&mut bench, &|_, _| {}), None);
    let mut bench = Bench::new(LINUX_4_19, flash(32));
    assert_eq!(three(&mut bench, &|_, _| {}), None);
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let shared = |bench: &mut Bench, client: ClientId| bench.queue_mut(client).is_shared = true;
    assert_eq!(three(&mut bench, &shared), None);
    assert_eq!(bench.bfq.wakers.last_completed(), Some(1), "the process itself");

    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let clients @ [journal, process] = journal(&mut bench);
    round(&mut bench, clients, 1000);
    round(&mut bench, clients, 1000);
    bench.read(journal, FAR);
    bench.serve();
    bench.queue_mut(process).pattern.thinks_short = true;
    bench.queue_mut(process).pattern.think_time.set_parts(10, 200);
    let last = bench.view.exact_now();
    bench.queue_mut(process).pattern.last_completion = Some(last);
    bench.read(process, 2 * FAR);
    assert_eq!(waker(&bench, process), None, "thinks short");
}

/// Two that wait for one journal; the one whose request came last is first.
fn with_waker() -> (Bench, [ClientId; 3]) {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let [journal, one] = journal(&mut bench);
    let two = bench.client();
    bench.read(two, 9 * FAR);
    bench.serve();
    rest(&mut bench);
    let of_journal = bench.number(journal);
    for client in [one, two] {
        let queue = bench.number(client);
        bench.bfq.wakers.set(queue, Some(of_journal));
    }
    (bench, [journal, one, two])
}

/// Is a waker that is given up no longer any queue's, and a woken queue that is given up in no
/// list; and is the one with work first in the list?
#[test]
fn bfq_168_wakers_come_and_go() {
    let (mut bench, [journal, one, two]) = with_waker();
    assert_eq!(bench.bfq.wakers.woken_by(bench.number(journal)), Some(bench.number(two)));
    let id = bench.read(one, 2 * FAR);
    assert_eq!(bench.bfq.wakers.woken_by(bench.number(journal)), Some(bench.number(one)));
    bench.withdraw(id);
    bench.bfq.client_detached(&mut bench.view, one);
    bench.audit();
    assert_eq!(bench.bfq.wakers.count_woken(bench.number(journal)), 1);

    let (mut bench, [journal, one, two]) = with_waker();
    let of_journal = bench.number(journal);
    bench.bfq.client_detached(&mut bench.view, journal);
    assert!(!bench.bfq.queues.is_live(of_journal));
    assert_eq!((waker(&bench, one), waker(&bench, two)), (None, None));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Injection as in 6.18: other queues' requests are served in a turn as far as that does not
//! prolong the queue's own. BFQ-160 to BFQ-166.

use super::super::weight_raising::Kind;
use super::*;

/// A heavy reader in service with one request, and light ones with a request each. The device idles
/// for the heavy one because weights differ; up to `limit` requests may be in the device.
fn kept(limit: u32, light: usize) -> (Bench, ClientId, RequestId) {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let heavy = bench.client_of(Class::BestEffort, 0);
    bench.read(heavy, FAR);
    for place in 0..light as u64 {
        let client = bench.client();
        bench.read(client, (2 + place) * FAR);
    }
    let (client, id) = bench.picked();
    assert_eq!(client, heavy);
    bench.limit_mut(heavy).most = limit;
    (bench, heavy, id)
}

fn injected(bench: &mut Bench) -> usize {
    core::iter::from_fn(|| bench.pick().ok()).count()
}

/// In the turn of a heavy reader, is its own write served first, then its waker's request, then
/// those of queues that it wakes, whatever the limit is?
#[test]
fn bfq_160_who_goes_first() {
    let (mut bench, heavy, _) = kept(0, 1);
    let [waker, woken] = [(); 2].map(|()| bench.client());
    for (client, sector) in [(woken, 20 * FAR), (waker, 21 * FAR)] {
        bench.read(client, sector);
    }
    let [own, of_waker, of_woken] = [heavy, waker, woken].map(|client| bench.number(client));
    bench.bfq.wakers.set(own, Some(of_waker));
    bench.bfq.wakers.set(of_woken, Some(own));
    bench.write(heavy, 22 * FAR);
    let order = [(); 3].map(|()| bench.picked().0);
    assert_eq!(order, [heavy, waker, woken]);
    assert_eq!(bench.pick(), Err(Pick::Await));
}

/// Is another process's write not taken for the reader's own?
#[test]
fn bfq_160_a_write_of_another() {
    let (mut bench, heavy, _) = kept(0, 1);
    let other = bench.client_of(Class::BestEffort, 0);
    bench.write(other, 20 * FAR);
    bench.write(heavy, 20 * FAR + 800);
    assert_eq!(bench.shared(other), bench.shared(heavy));
    bench.bfq.device.set_last_position(20 * FAR);
    let next = bench.bfq.queues.at(bench.shared(heavy)).next.expect("two wait");
    assert_eq!(bench.view.request(next).client(), other);
    assert_eq!(bench.pick(), Err(Pick::Await));
}

/// Are no other queues served in the turn of a queue that is idled for throughput, nor in that of
/// the only raised queue if its think time is short?
#[test]
fn bfq_160_when_nobody_is_served() {
    let (mut bench, ..) = kept(9, 3);
    assert_eq!(injected(&mut bench), 3);
    let (mut bench, heavy, _) = kept(9, 3);
    bench.view.facts_mut().depth = 1;
    assert!(bench.bfq.idles_for_throughput(&bench.view, bench.number(heavy)));
    assert_eq!(injected(&mut bench), 0);
    for (short, count) in [(true, 0), (false, 3)] {
        let (mut bench, heavy, _) = kept(9, 3);
        let queue = bench.number(heavy);
        bench.set_raised(queue, Kind::Interactive);
        bench.queue_mut(heavy).pattern.thinks_short = short;
        assert_eq!(injected(&mut bench), count, "thinks short: {short}");
    }
}

/// Does the limit for requests in the device include the queue's own?
#[test]
fn bfq_161_up_to_the_limit() {
    for (limit, count) in [(0, 0), (1, 0), (2, 1), (4, 3)] {
        let (mut bench, ..) = kept(limit, 5);
        assert_eq!(injected(&mut bench), count, "{limit}");
    }
}

/// Is the queue that is served the last one to come whose request fits its budget; on flash not
/// with a request of 64 sectors or more together with another; and in the turn of a raised queue
/// with a short think time only a raised one?
#[test]
fn bfq_161_who_is_served() {
    let (mut bench, ..) = kept(9, 1);
    let [small, large, poor] = [(); 3].map(|()| bench.client());
    bench.read_of(small, 20 * FAR, 63);
    bench.read_of(large, 21 * FAR, 64);
    bench.read(poor, 22 * FAR);
    bench.entity_mut(poor).budget = 7;
    assert_eq!(bench.picked().0, small);
    assert_eq!(injected(&mut bench), 1, "the light one of the beginning");
    bench.entity_mut(poor).budget = 10_922;

    let (mut bench, heavy, _) = kept(9, 3);
    let raised = bench.client();
    bench.read(raised, 20 * FAR);
    for client in [heavy, raised] {
        let queue = bench.number(client);
        bench.set_raised(queue, Kind::Interactive);
    }
    let last = bench.client();
    bench.read(last, 21 * FAR);
    assert_eq!(bench.picked().0, raised);
    assert_eq!(bench.pick(), Err(Pick::Await));
}

/// If nothing is known of a queue and the device idles for it longer than slice_idle, does its
/// limit become one? That happens when it is raised: then idling takes 20 ms.
#[test]
fn bfq_162_kept_in_vain() {
    for (us, count) in [(8000, 0), (8001, 1)] {
        let (mut bench, heavy, id) = kept(0, 2);
        let queue = bench.number(heavy);
        bench.set_raised(queue, Kind::Interactive);
        bench.queue_mut(heavy).pattern.thinks_short = false;
        bench.end(id);
        assert_eq!(bench.view.timer(), ms(1020));
        bench.later_us(us);
        assert_eq!(injected(&mut bench), count, "{us} us");
    }
}

/// Whether the next request of the queue in service is measured, if the queue has run empty,
/// `after` ms after a decrease, with `others` in the device.
fn is_measured(known: bool, after: u64, others: usize) -> bool {
    let (mut bench, heavy, id) = kept(9, others);
    injected(&mut bench);
    bench.end(id);
    bench.limit_mut(heavy).base = if known { ms(1) } else { Nanos::ZERO };
    bench.pass(bench.view.exact_now() + ms(after));
    let id = bench.read(heavy, FAR + 8);
    assert_eq!(bench.pick(), Ok(id));
    let before = bench.limit(heavy);
    bench.pass(bench.view.exact_now() + Nanos::from_micros(100));
    bench.end(id);
    let limit = bench.limit(heavy);
    limit.base != before.base || limit.most != before.most
}

/// If the queue in service gets a request while its process has no other, at least 10 ms after a
/// decrease, is it measured if the device is empty, or with others in it once its time alone is
/// known?
#[test]
fn bfq_163_what_is_measured() {
    for (known, after, others, measured) in [
        (false, 10, 0, true),
        (false, 9, 0, false),
        (true, 10, 0, true),
        (false, 10, 2, false),
        (true, 10, 2, true),
    ] {
        assert_eq!(is_measured(known, after, others), measured, "{known} {after} {others}");
    }
}

/// Does the end of the turn cancel a measurement?
#[test]
fn bfq_163_the_end_of_the_turn_cancels_it() {
    let (mut bench, heavy, id) = kept(9, 0);
    bench.end(id);
    bench.pass(bench.view.exact_now() + ms(10));
    let id = bench.read(heavy, FAR + 8);
    assert_eq!(bench.pick(), Ok(id));
    bench.expire(heavy, Expiry::Preempted);
    bench.end(id);
    assert_eq!(bench.limit(heavy).base, Nanos::ZERO);
}

/// The base and limit of a queue, which were `base` and `limit`, after a measured request that took
/// `us`, with `others` injected and as many seen in the device at most.
fn learned(base: u64, limit: u32, us: u64, others: usize) -> (u64, u32) {
    let (mut bench, heavy, id) = kept(9, others);
    injected(&mut bench);
    bench.end(id);
    bench.limit_mut(heavy).base = Nanos::from_micros(base);
    bench.limit_mut(heavy).most = limit;
    bench.pass(bench.view.exact_now() + ms(10));
    let id = bench.read(heavy, FAR + 8);
    assert_eq!(bench.pick(), Ok(id));
    bench.pass(bench.view.exact_now() + Nanos::from_micros(us));
    bench.end(id);
    let known = bench.limit(heavy);
    (known.base.as_micros(), known.most)
}

/// Measured alone: does its time become the base, with a limit of at least one, the first time and
/// each later time? Measured with others: is the limit lowered if it took half as long again or
/// more; otherwise raised, while the limit does not exceed what was seen in the device; and does a
/// shorter time become the base?
#[test]
fn bfq_164_what_is_learned() {
    assert_eq!(learned(0, 0, 100, 0), (100, 1));
    assert_eq!(learned(0, 5, 100, 0), (100, 5));
    assert_eq!(learned(90, 2, 100, 0), (100, 2));
    assert_eq!(learned(100, 2, 150, 2), (100, 1));
    assert_eq!(learned(100, 0, 150, 2), (100, 0));
    assert_eq!(learned(100, 2, 149, 2), (100, 3));
    // Three were in the device when the first ended.
    assert_eq!(learned(100, 3, 149, 2), (100, 4));
    assert_eq!(learned(100, 4, 149, 2), (100, 4));
    assert_eq!(learned(100, 2, 80, 2), (80, 3));
}

/// After a second without a decrease, does an arrival reset everything: the limit to zero for a
/// queue with a short think time, to one for another?
#[test]
fn bfq_165_forgotten_behind_a_second() {
    for (after, short, expected) in
        [(999, true, (50, 7)), (1000, true, (0, 0)), (1000, false, (0, 1))]
    {
        let mut bench = Bench::new(LINUX_6_18, flash(32));
        let [client] = bench.readers();
        let (_, id) = bench.picked();
        bench.end(id);
        bench.expire(client, Expiry::TooIdle);
        let limit = bench.limit_mut(client);
        (limit.base, limit.most) = (Nanos::from_micros(50), 7);
        let queue = bench.queue_mut(client);
        queue.pattern.thinks_short = short;
        queue.split_at = Some(ms(1000));
        bench.pass(ms(1000 + after));
        bench.read(client, FAR + 8);
        let limit = bench.limit(client);
        assert_eq!((limit.base.as_micros(), limit.most), expected, "{after} {short}");
    }
}

/// Is everything also reset when the think time becomes long while nothing is known; and when it
/// becomes short, at least 100 ms after a decrease?
#[test]
fn bfq_165_forgotten_with_another_think_time() {
    for (becomes_short, after, base, most) in [
        (false, 50, 0, 1),
        (false, 50, 9, 7),
        (true, 99, 0, 7),
        (true, 100, 0, 0),
        (true, 100, 9, 7),
    ] {
        let mut bench = Bench::new(LINUX_6_18, flash(32));
        let [client] = bench.readers();
        let (_, id) = bench.picked();
        bench.end(id);
        bench.expire(client, Expiry::TooIdle);
        let limit = bench.limit_mut(client);
        (limit.base, limit.most) = (Nanos(base), 7);
        let queue = bench.queue_mut(client);
        queue.pattern.thinks_short = !becomes_short;
        let mean = if becomes_short { 10 } else { 16_000_000 };
        queue.pattern.think_time.set_parts(mean, 200);
        bench.pass(ms(1000 + after));
        let last = bench.view.exact_now() - if becomes_short { Nanos(10) } else { ms(16) };
        bench.queue_mut(client).pattern.last_completion = Some(last);
        bench.read(client, FAR + 8);
        assert_eq!(bench.queue(client).pattern.thinks_short, becomes_short);
        assert_eq!(bench.limit(client).most, most, "{becomes_short} {after} {base}");
    }
}

/// Is what a queue was served outside its turn charged when its turn begins, and is its budget at
/// least that?
#[test]
fn bfq_166_injected_service_is_paid() {
    let (mut bench, heavy, id) = kept(2, 0);
    let light = bench.client();
    for place in 0..3 {
        bench.read(light, 20 * FAR + 8 * place);
    }
    assert_eq!(bench.picked().0, light);
    assert_eq!(bench.entity(light).service, 8);
    let start = bench.entity(light).start;
    bench.end(id);
    bench.expire(heavy, Expiry::TooIdle);
    assert_eq!(bench.picked().0, light);
    assert_eq!(bench.entity(light).service, 16);
    bench.expire(light, Expiry::Preempted);
    assert_eq!(bench.entity(light).start - start, entity::delta(16, 40));
}

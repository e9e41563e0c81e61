// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the device is taken to be: when an interval begins and ends, what counts in it, what
//! the largest budget becomes. BFQ-75, BFQ-76, BFQ-78, BFQ-79, BFQ-81; tests of BFQ-77 and BFQ-80
//! are next to the code.

use super::super::rate::{Dispatched, ONE, PeakRate, budget_at};
use super::*;

/// A disk's estimate, 9333, fed with dispatches of 1000 sectors, 10 ms apart.
struct Feed {
    rate: PeakRate,
    now: Nanos,
}

/// Kinds of dispatch: whether near, and requests in the driver.
const NEAR: (bool, u32) = (true, 1);
const FAR_AWAY: (bool, u32) = (false, 1);

impl Feed {
    fn new() -> Feed {
        let mut rate = PeakRate::new(true, 20);
        rate.completed(ms(1000));
        Feed { rate, now: ms(1000) }
    }

    /// A dispatch `after` the one before; returns whether the estimate is new.
    fn dispatch(&mut self, after: Nanos, (is_near, in_driver): (bool, u32), sectors: u64) -> bool {
        self.now += after;
        self.rate.dispatched(Dispatched { now: self.now, sectors, is_near, in_driver })
    }

    fn many(&mut self, count: u32, kind: (bool, u32)) {
        for _ in 0..count {
            assert!(!self.dispatch(ms(10), kind, 1000));
        }
    }

    /// A pause of more than 100 ms with nothing in the driver; returns whether the estimate is new.
    fn pause(&mut self) -> bool {
        self.dispatch(ms(101), (false, 0), 8)
    }

    fn complete(&mut self, after: Nanos) -> bool {
        self.now += after;
        self.rate.completed(self.now)
    }
}

/// Sectors per microsecond in an interval, as the estimate counts them.
const fn measured(sectors: u64, us: u64) -> u64 {
    sectors * ONE / us
}

/// Is the first dispatch counted with its sectors, but not as sequential, and each later one as
/// what it is? Of 40 dispatches 30 must be sequential for a rate below the estimate to count:
/// 40,000 sectors in 390 ms are 6721.
#[test]
fn bfq_75_what_counts_in_an_interval() {
    for (near, accepted) in [(30, true), (29, false)] {
        let mut feed = Feed::new();
        feed.dispatch(ms(0), NEAR, 1000);
        feed.many(near, NEAR);
        feed.many(39 - near, FAR_AWAY);
        assert_eq!(feed.pause(), accepted, "{near} of 40");
    }
}

/// Is a near one sequential only if a request is in the driver, or ended less than 2 ms ago?
#[test]
fn bfq_75_sequential_without_a_pause() {
    for (us, accepted) in [(1999, true), (2000, false)] {
        let mut feed = Feed::new();
        feed.dispatch(ms(0), NEAR, 100);
        for _ in 0..39 {
            feed.complete(Nanos::from_micros(10_000 - us));
            feed.dispatch(Nanos::from_micros(us), (true, 0), 1000);
        }
        assert_eq!(feed.pause(), accepted, "{us} us");
    }
}

/// Is nearness to the last position judged as the queue's seeks are?
#[test]
fn bfq_75_what_is_near() {
    use paternoster_core::observe::seek::is_far;
    assert!(!is_far(5000, 5800, 8, true) && is_far(5000, 5801, 8, true));
    assert!(is_far(5000, 5801, 64, true) && !is_far(5000, 5801, 64, false));
    assert!(is_far(5000, 5801, 63, false));
}

/// Does an interval end after a second, with the dispatch that ends it counted, from now on; and
/// does the next one begin with the same dispatch? 101 dispatches are 101,000 sectors in 1 s.
#[test]
fn bfq_76_a_second_ends_an_interval() {
    let mut feed = Feed::new();
    feed.dispatch(ms(0), NEAR, 1000);
    feed.many(99, NEAR);
    assert!(feed.dispatch(ms(10), NEAR, 1000));
    // 9 * 100/101 = 8 times 1 s: weight 8, a half of each.
    let expected = 9333 / 2 + measured(101_000, 1_000_000) / 2;
    assert_eq!(feed.rate.rate(), expected);
    // The next interval began 30 dispatches ago, not 29: 31 are too few, 32 are enough.
    feed.many(31, NEAR);
    assert!(feed.pause());
    let second = measured(32_000, 310_000);
    assert_eq!(feed.rate.rate(), (expected * 7) / 8 + second / 8);
}

/// Does a pause of more than 100 ms with nothing in the driver end it at the last dispatch before,
/// with the new one counted in the next; but not a shorter pause, nor one with requests in the
/// driver? 40,000 sectors in 390 ms.
#[test]
fn bfq_76_a_pause_ends_an_interval() {
    for (after, in_driver, ends) in [(101, 0, true), (100, 0, false), (101, 1, false)] {
        let mut feed = Feed::new();
        feed.dispatch(ms(0), NEAR, 1000);
        feed.many(39, NEAR);
        let is_new = feed.dispatch(ms(after), (true, in_driver), 100_000);
        assert_eq!(is_new, ends, "{after} ms, {in_driver} in the driver");
        if ends {
            // 9 * 39/40 = 8 times 0.39 s: weight 3, divisor 7.
            let expected = 9333 * 6 / 7 + measured(40_000, 390_000) / 7;
            assert_eq!(feed.rate.rate(), expected);
        }
    }
}

/// Does a completion more than 2 ms after the one before end it, if the largest request since came
/// at less than 977 sectors a second; measured from the first to the last dispatch, or to that
/// completion before if it is later? The next dispatch starts afresh.
#[test]
fn bfq_76_a_late_completion_ends_an_interval() {
    // 64 of 2^-16 sectors per us: 1000 sectors in 1,024,000 us are not less.
    for (us, ends) in [(1_024_000, false), (1_024_100, true)] {
        let mut feed = Feed::new();
        feed.dispatch(ms(0), NEAR, 1000);
        feed.many(39, NEAR);
        feed.complete(ms(5));
        assert_eq!(feed.complete(Nanos::from_micros(us)), ends, "{us} us");
        if ends {
            // To the completion before: 395 ms. 8 * 0.395: weight 3.
            let expected = 9333 * 6 / 7 + measured(40_000, 395_000) / 7;
            assert_eq!(feed.rate.rate(), expected);
            feed.dispatch(ms(1), NEAR, 1000);
            feed.many(30, NEAR);
            assert!(!feed.pause(), "31 of a new interval");
        }
    }
}

/// Does the weight of an interval grow with its length and with how sequential it was: from a tenth
/// to a half?
#[test]
fn bfq_78_how_much_an_interval_counts() {
    // Dispatches 10 ms apart, all but the first near; then a pause.
    for (dispatches, weight) in [(40, 3), (60, 4), (90, 7), (100, 7)] {
        let mut feed = Feed::new();
        feed.dispatch(ms(0), NEAR, 1000);
        feed.many(dispatches - 1, NEAR);
        assert!(feed.pause());
        let us = u64::from(dispatches - 1) * 10_000;
        let observed = measured(u64::from(dispatches) * 1000, us);
        let divisor = 10 - weight;
        let expected = 9333 * (divisor - 1) / divisor + observed / divisor;
        assert_eq!(feed.rate.rate(), expected, "{dispatches}");
    }
    // Nothing sequential, but faster than the estimate: a tenth.
    let mut feed = Feed::new();
    feed.dispatch(ms(0), FAR_AWAY, 2000);
    for _ in 0..39 {
        feed.dispatch(ms(10), FAR_AWAY, 2000);
    }
    assert!(feed.pause());
    assert_eq!(feed.rate.rate(), 9333 * 9 / 10 + measured(80_000, 390_000) / 10);
}

/// Is the largest budget what the device does in the timeout, after each new estimate, unless it
/// was set by hand? At 124 ms.
#[test]
fn bfq_79_the_largest_budget_follows() {
    for by_hand in [0, 5000] {
        each(disk(32), |bench| {
            let mut bench = bench.ticks();
            bench.set("max_budget", by_hand);
            assert_eq!(bench.bfq.budgets.largest(), if by_hand == 0 { 17_658 } else { 5000 });
            let client = bench.client();
            let mut ids = Vec::new();
            for place in 0..40 {
                ids.push(bench.read_of(client, FAR + 1000 * place, 1000));
                bench.picked();
                bench.pass(bench.view.exact_now() + ms(10));
            }
            for id in ids {
                bench.end(id);
            }
            bench.go(bench.view.exact_now() + ms(200));
            bench.read(client, FAR);
            bench.picked();
            let rate = bench.bfq.device.rate();
            assert_ne!(rate, 9333);
            let expected = if by_hand == 0 { budget_at(rate, ms(124)) } else { 5000 };
            assert_eq!(bench.bfq.budgets.largest(), expected);
            assert_eq!(budget_at(rate, ms(124)), (rate * 124_000) >> 16);
        });
    }
}

/// Is the largest recent request the largest since the last multiple of 32: does one of 100,000
/// sectors in the middle of an interval keep a late completion from ending it until then?
#[test]
fn bfq_81_the_largest_of_32() {
    for (large_at, ends) in [(33, false), (31, true)] {
        let mut feed = Feed::new();
        for dispatch in 1..=40 {
            let sectors = if dispatch == large_at { 100_000 } else { 1000 };
            feed.dispatch(ms(10), NEAR, sectors);
        }
        feed.complete(ms(5));
        assert_eq!(feed.complete(Nanos::from_micros(1_024_100)), ends, "{large_at}");
    }
}

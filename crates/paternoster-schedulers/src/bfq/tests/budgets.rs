// SPDX-License-Identifier: MIT OR Apache-2.0
//! What queues ask for: how the end of a turn changes the next budget. BFQ-56 to BFQ-59, BFQ-63.

use super::super::weight_raising::Kind;
use super::*;

/// A reader that usually asks for `before` has two requests in its turn, one of them in the device
/// if `in_device`. Returns what it asks for after its turn has ended.
fn after(bench: &mut Bench, why: Expiry, before: u64, in_device: bool) -> u64 {
    let [client] = bench.readers();
    bench.read(client, FAR + 100);
    bench.bfq.begin_turn(&mut bench.view);
    if in_device {
        bench.picked();
    }
    bench.queue_mut(client).max_budget = before;
    bench.expire(client, why);
    bench.queue(client).max_budget
}

/// Does a new queue ask for two thirds of the largest budget?
#[test]
fn bfq_56_a_new_queue_asks_for_two_thirds() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        assert_eq!((bench.queue(client).max_budget, bench.entity(client).budget), (10_922, 10_922));
        bench.bfq.budgets.set_turns(194);
        bench.bfq.budgets.set(9000);
        let other = bench.client();
        bench.read(other, 9 * FAR);
        assert_eq!(bench.queue(other).max_budget, 6000);
    });
}

/// Is a reader's next budget the one in the table, at least 512 and at most 16384?
#[test]
fn bfq_57_each_end_has_its_answer() {
    use Expiry::{BudgetExhausted, BudgetTimeout, NoMoreRequests, Preempted, TooIdle};
    for (why, in_device, before, next) in [
        (TooIdle, true, 3000, 6000),
        (TooIdle, true, 10_922, 16_384),
        (TooIdle, false, 10_922, 8874),
        (TooIdle, false, 2561, 513),
        (TooIdle, false, 2560, 512),
        (BudgetTimeout, false, 3000, 6000),
        (BudgetTimeout, false, 10_922, 16_384),
        (BudgetExhausted, false, 3000, 12_000),
        (BudgetExhausted, false, 10_922, 16_384),
        (NoMoreRequests, true, 3000, 512),
        (Preempted, true, 3000, 3000),
    ] {
        each(disk(32), |mut bench| {
            assert_eq!(after(&mut bench, why, before, in_device), next, "{why:?} {before}");
        });
    }
}

/// If there are no more requests, is the reader's next budget what it was served, including what it
/// was charged for its time? A turn of less than 1 ms counts as 8 ms for a seeky queue on a disk: 8
/// of 125 ms are 1048 of 16384 sectors.
#[test]
fn bfq_57_no_more_requests_is_what_was_served() {
    for (marks, service, next) in [(0, 3000, 3000), (32, 8, 1048), (32, 3000, 3000)] {
        each(disk(32), |mut bench| {
            let [client] = bench.readers();
            bench.read(client, FAR + 100);
            bench.picked();
            bench.marks(client, marks);
            bench.entity_mut(client).service = service;
            bench.expire(client, Expiry::NoMoreRequests);
            assert_eq!(bench.queue(client).max_budget, next);
        });
    }
}

/// Does a budget follow BFQ-57: 10922, used up 16384, then 2048 less for each turn idled for
/// without success, down to 2048, and 512?
#[test]
fn bfq_57_a_budget_shrinks_in_steps() {
    each(disk(32), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        let mut seen = Vec::new();
        for turn in 0..10 {
            bench.bfq.begin_turn(&mut bench.view);
            let why = if turn == 0 { Expiry::BudgetExhausted } else { Expiry::TooIdle };
            bench.expire(client, why);
            seen.push(bench.queue(client).max_budget);
        }
        assert_eq!(seen, [16_384, 14_336, 12_288, 10_240, 8192, 6144, 4096, 2048, 512, 512]);
    });
}

/// Does a raised queue ask for twice the minimum whatever ended its turn, and an async one for the
/// maximum?
#[test]
fn bfq_58_raised_and_async_queues() {
    use Expiry::{BudgetExhausted, BudgetTimeout, NoMoreRequests, Preempted, TooIdle};
    for why in [BudgetExhausted, BudgetTimeout, NoMoreRequests, Preempted, TooIdle] {
        each(disk(32), |mut bench| {
            let [client] = bench.readers();
            let queue = bench.number(client);
            bench.set_raised(queue, Kind::Interactive);
            bench.read(client, FAR + 100);
            bench.bfq.begin_turn(&mut bench.view);
            bench.expire(client, why);
            assert_eq!((bench.queue(client).max_budget, bench.entity(client).budget), (1024, 1024));
        });
        each(disk(32), |mut bench| {
            let client = bench.client();
            bench.write(client, FAR);
            let queue = bench.shared(client);
            bench.bfq.begin_turn(&mut bench.view);
            bench.bfq.expire(&mut bench.view, queue, false, why);
            bench.audit();
            assert_eq!(bench.bfq.queues.at(queue).max_budget, 16_384);
        });
    }
}

/// Is a budget capped at the device's largest budget after the eleventh turn, unless that was set
/// by hand; and does the budget hold the next request in any case?
#[test]
fn bfq_59_the_largest_budget_caps() {
    for (turns, by_hand, next) in [(194, 0, 5000), (100, 0, 9000), (194, 5000, 9000)] {
        each(disk(32), |mut bench| {
            let [client] = bench.readers();
            bench.read_of(client, FAR + 100, 12_000);
            bench.set("max_budget", by_hand);
            bench.bfq.budgets.set(5000);
            bench.picked();
            bench.bfq.budgets.set_turns(turns);
            bench.entity_mut(client).service = 9000;
            bench.expire(client, Expiry::NoMoreRequests);
            assert_eq!(
                (bench.queue(client).max_budget, bench.entity(client).budget),
                (next, 12_000)
            );
        });
    }
}

/// When a queue is preempted, does its budget stay unchanged?
#[test]
fn bfq_59_not_when_it_was_preempted() {
    each(disk(32), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        bench.picked();
        bench.entity_mut(client).budget = 77;
        bench.expire(client, Expiry::Preempted);
        assert_eq!((bench.queue(client).max_budget, bench.entity(client).budget), (10_922, 77));
    });
}

/// Does a queue that becomes raised ask at once for twice the minimum at most?
#[test]
fn bfq_63_the_raised_ask_for_little() {
    each(disk(32), |mut bench| {
        bench.set("low_latency", 1);
        let [client] = bench.readers();
        assert_eq!((bench.queue(client).max_budget, bench.entity(client).budget), (10_922, 1024));
    });
}

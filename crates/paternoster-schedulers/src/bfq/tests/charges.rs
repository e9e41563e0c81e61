// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charging time instead of sectors: which queues are slow, and what that costs. BFQ-64 to BFQ-66.

use super::super::entity::delta;
use super::super::weight_raising::Kind;
use super::*;

/// A turn, and what was charged for it.
#[derive(Debug, Clone, Copy)]
struct Turn {
    us: u64,
    /// Seeks among its last 32 requests.
    marks: u32,
    /// Served, in sectors, before it ended.
    service: u64,
    why: Expiry,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { us: 0, marks: 0, service: 8, why: Expiry::Preempted }
    }
}

impl Turn {
    /// Checks that it is charged `sectors`: V and the start of the queue, alone in its tree, both
    /// advance by that.
    fn costs(self, mut bench: Bench, sectors: u64) {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        bench.bfq.begin_turn(&mut bench.view);
        bench.marks(client, self.marks);
        let queue = bench.number(client);
        bench.bfq.schedule.serve(queue, self.service);
        let (start, vtime) = (bench.entity(client).start, bench.bfq.schedule.vtime_of(queue));
        bench.pass(bench.view.exact_now() + Nanos::from_micros(self.us));
        bench.expire(client, self.why);
        assert_eq!(bench.entity(client).start - start, delta(sectors, 40), "{self:?}");
        let more = delta(sectors - self.service, 40);
        assert_eq!(bench.bfq.schedule.vtime_of(queue), vtime + more, "{self:?}");
    }
}

/// Is a turn of less than a millisecond slow if the queue is seeky, and counted as 2 ms on flash, 8
/// ms on a disk? 16384 * 2/125 = 262.1, 16384 * 8/125 = 1048.6.
#[test]
fn bfq_64_a_turn_too_short_to_tell() {
    for (facts, sectors) in [(flash(32), 262), (disk(1), 1048)] {
        each(facts, |bench| Turn { us: 999, marks: 20, ..Turn::default() }.costs(bench, sectors));
        each(facts, |bench| Turn { us: 999, marks: 19, ..Turn::default() }.costs(bench, 8));
    }
}

/// Up to 20 ms, is a turn slow if the queue is seeky; and after that, if less than half of the
/// largest budget was served? 16384 * 20/125 = 2621, 16384 * 21/125 = 2752.
#[test]
fn bfq_64_what_a_slow_turn_is() {
    for (us, marks, service, sectors) in [
        (1000, 0, 8, 8),
        (1000, 20, 8, 131),
        (20_000, 0, 8, 8),
        (20_000, 20, 8, 2621),
        (20_001, 0, 8, 2621),
        (21_000, 0, 8191, 8191),
        (21_000, 0, 8, 2752),
        (125_000, 0, 8191, 16_384),
        (125_000, 0, 8192, 8192),
    ] {
        each(disk(1), |bench| {
            Turn { us, marks, service, ..Turn::default() }.costs(bench, sectors);
        });
    }
}

/// Is time for which the device idled without success not counted? 4 ms of work, 2 ms of idling for
/// a seeky queue: 16384 * 4/125 = 524.
#[test]
fn bfq_64_idling_is_not_counted() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        let (_, id) = bench.picked();
        bench.marks(client, 32);
        let start = bench.entity(client).start;
        bench.at(1004);
        bench.end(id);
        assert_eq!(bench.view.timer(), ms(1006));
        bench.at(1006);
        assert_eq!(bench.endings(), [Expiry::TooIdle]);
        assert_eq!(bench.entity(client).finish - start, delta(524, 40));
    });
}

/// Is an async queue never slow, however long its turn was?
#[test]
fn bfq_64_writes_in_the_background_are_not_slow() {
    each(disk(1), |mut bench| {
        let client = bench.client();
        bench.write(client, FAR);
        bench.write(client, FAR + 100);
        let (_, id) = bench.picked();
        bench.at(1100);
        let queue = bench.shared(client);
        bench.bfq.expire(&mut bench.view, queue, false, Expiry::BudgetTimeout);
        let entity = bench.bfq.schedule.entities[queue as usize];
        assert_eq!(entity.start, delta(24, 40));
        bench.end(id);
    });
}

/// Is the time charge that of the golden vectors, for 250 and for 1000 ticks a second? Less than a
/// third of the budget is left, so that time is charged for slowness alone.
#[test]
fn bfq_golden_time_charge() {
    for (ms, sectors) in [
        (1, 132),
        (2, 264),
        (4, 528),
        (32, 4228),
        (40, 5285),
        (117, 15_459),
        (123, 16_251),
        (124, 16_384),
        (500, 16_384),
    ] {
        each(disk(1), |bench| {
            let turn = Turn { us: 1000 * ms, marks: 32, ..Turn::default() };
            turn.costs(bench.ticks(), sectors);
        });
    }
    for (ms, sectors) in
        [(2, 262), (10, 1310), (20, 2621), (60, 7864), (124, 16_252), (125, 16_384)]
    {
        each(disk(1), |bench| {
            Turn { us: 1000 * ms, marks: 32, ..Turn::default() }.costs(bench, sectors);
        });
    }
}

/// Is the charge a share of the stored largest budget, even while that is not trusted yet, and
/// never less than what was served? 5000 * 40/125 = 1600.
#[test]
fn bfq_65_the_charge_is_of_the_stored_budget() {
    for (service, sectors) in [(8, 1600), (1700, 1700)] {
        each(disk(1), |mut bench| {
            bench.bfq.budgets.set(5000);
            Turn { us: 40_000, marks: 32, service, ..Turn::default() }.costs(bench, sectors);
        });
    }
}

/// When a queue that was not slow ran out of time, is it charged for its time with a third of its
/// budget left, and not with less? A third of 10922 is 3640: 7282 sectors served leave that much,
/// 7283 leave less. Both are less than 8192, so the largest budget is 14000 here, half of it is
/// 7000, and at most 14000 are charged.
#[test]
fn bfq_66_time_over_with_a_third_left() {
    for (service, sectors) in [(7282, 14_000), (7283, 7283)] {
        each(disk(1), |mut bench| {
            bench.bfq.budgets.set(14_000);
            let why = Expiry::BudgetTimeout;
            Turn { us: 125_000, marks: 0, service, why }.costs(bench, sectors);
        });
    }
}

/// Is a raised queue never charged for its time?
#[test]
fn bfq_66_not_the_raised() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 100);
        let queue = bench.number(client);
        bench.set_raised(queue, Kind::Interactive);
        bench.bfq.begin_turn(&mut bench.view);
        bench.marks(client, 32);
        bench.bfq.schedule.serve(queue, 8);
        let (start, weight) = (bench.entity(client).start, bench.entity(client).weight);
        bench.pass(ms(1040));
        bench.expire(client, Expiry::BudgetTimeout);
        assert_eq!(bench.entity(client).start - start, delta(8, weight.into()));
    });
}

/// Does the budget grow to what was charged, if that is more?
#[test]
fn bfq_66_the_budget_holds_the_charge() {
    each(disk(1), |mut bench| {
        let [client] = bench.readers();
        bench.picked();
        bench.marks(client, 32);
        bench.entity_mut(client).budget = 100;
        bench.pass(ms(1040));
        bench.expire(client, Expiry::NoMoreRequests);
        // The account of a queue that ran empty is kept: 16384 * 40/125.
        let Entity { budget, service, .. } = bench.entity(client);
        assert_eq!((budget, service), (5242, 5242));
    });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine, called directly: who is served next, how groups come along, and when virtual time
//! jumps or steps back. BFQ-10 to BFQ-18, and the golden orders.
//!
//! The [`Engine`] is that of `engine.rs`; virtual times are written as they are there.

use proptest::prelude::*;

use super::super::entity::is_after;
use super::engine::{BE, Engine, QUEUES, either, grouped, two, vt};
use super::*;

proptest! {
    /// Whatever came before, is the queue chosen whose finish is least among those whose start has
    /// come, and of equal ones the first inserted? Few weights and budgets, so that many are equal.
    #[test]
    fn bfq_10_least_finish_of_those_who_may_start(
        steps in prop::collection::vec((0u32..QUEUES, 0u8..4, 1u64..5), 1..120)
    ) {
        let mut engine = Engine::new(LINUX_6_18);
        let mut order = [0u32; QUEUES as usize];
        for (queue, weight) in (0..QUEUES).zip([10, 20, 40].into_iter().cycle()) {
            engine.queue(queue, weight);
        }
        for (step, (queue, what, budget)) in (1..).zip(steps) {
            let served = engine.schedule.groups[0].in_service;
            let active = engine.entity(queue).standing == Standing::Active;
            match (what, served) {
                (_, None) if what == 0 => drop(engine.turn()),
                (0 | 1, Some(served)) => {
                    engine.serve(served, budget * 40);
                    engine.end(served, budget * 40);
                    order[served as usize] = step;
                }
                (2, Some(served)) => {
                    engine.serve(served, budget * 40);
                    engine.leave(served);
                }
                (_, served) if served != Some(queue) => {
                    if active {
                        engine.ask(queue, budget * 40);
                    } else {
                        engine.arrive(queue, budget * 40);
                    }
                    order[queue as usize] = step;
                }
                _ => {}
            }
            let found = engine.schedule.first_of(0, BE, true);
            prop_assert_eq!(found, naive_first(&engine, &order));
        }
    }
}

/// BFQ-10 by checking every queue.
fn naive_first(engine: &Engine, order: &[u32]) -> Option<u32> {
    let active = || (0..QUEUES).filter(|&queue| engine.entity(queue).standing == Standing::Active);
    let least = active().map(|queue| engine.entity(queue).start).min()?;
    let vtime = engine.vtime().max(least);
    let may_start = active().filter(|&queue| engine.entity(queue).start <= vtime);
    may_start.min_by_key(|&queue| (engine.entity(queue).finish, order[queue as usize]))
}

/// If no queue's start has come, does V jump to the least start; and does it stay where it is while
/// one is being served there?
#[test]
fn bfq_11_v_jumps_when_nobody_is_served() {
    for served in [false, true] {
        either(|engine| {
            let mut engine = two(engine);
            assert_eq!([engine.whole_turn(), engine.whole_turn()], [1, 0]);
            // V is 20, queue 1 starts at 15, queue 0 at 30. Queue 1 leaves.
            assert_eq!(engine.turn(), Some(1));
            engine.serve(1, 1200);
            engine.leave(1);
            // V is 30 = the finish of queue 1, and the start of queue 0: move that ahead.
            assert_eq!(engine.turn(), Some(0));
            engine.serve(0, 40);
            engine.end(0, 1200);
            let (start, vtime) = (engine.entity(0).start, 30 * vt(1, 1) + vt(40, 40));
            assert_eq!(start, 31 * vt(1, 1));
            // The lookup after the turn moved V already: no queue was in service any more.
            assert_eq!(engine.vtime(), vtime.max(start));
            engine.schedule.groups[0].trees[1].vtime = 25 * vt(1, 1);
            assert_eq!(engine.schedule.first_of(0, BE, served), Some(0));
            assert_eq!(engine.vtime(), if served { 25 } else { 31 } * vt(1, 1));
            engine.schedule.groups[0].trees[1].vtime = vtime;
        });
    }
}

/// Is a queue taken out of its tree when it is served, and a group only if it has no other member
/// to serve?
#[test]
fn bfq_12_who_is_served_is_taken_out() {
    either(|engine| {
        let (mut engine, [first, second]) = grouped(engine);
        assert_eq!(engine.turn(), Some(1));
        let standing = |engine: &Engine, number| engine.entity(number).standing;
        assert_eq!(standing(&engine, 1), Standing::Extracted);
        assert_eq!(standing(&engine, first), Standing::Active, "queue 0 is there, too");
        assert_eq!(engine.tree(0).weight_sum, 300);
        engine.serve(1, 1200);
        engine.end(1, 1200);
        // 1200/200 = 6 has not come at V = 1200/300 = 4.
        assert_eq!(engine.turn(), Some(2));
        assert_eq!(standing(&engine, second), Standing::Extracted, "it has queue 2 only");
        assert_eq!((engine.tree(0).weight_sum, engine.tree(2).weight_sum), (300, 40));
    });
}

/// If there is no next member, is the first to come next, without a check of its start? It finished
/// at 15 and V is 12.5 when it comes back; there is no lookup, so V does not jump.
#[test]
fn bfq_13_the_first_to_come_is_next() {
    either(|engine| {
        let mut engine = two(engine);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 1200);
        engine.leave(1);
        assert_eq!(engine.turn(), Some(0));
        engine.serve(0, 300);
        assert_eq!(engine.schedule.groups[0].next, None);
        engine.arrive(1, 1200);
        assert_eq!(engine.schedule.groups[0].next, Some(1));
        assert_eq!((engine.times(1).0, engine.vtime()), (vt(1200, 80), vt(1500, 120)));
    });
}

/// Does a newcomer with an earlier finish replace the next one if its start has come, and not if it
/// has not?
#[test]
fn bfq_13_who_comes_before_the_next() {
    either(|engine| {
        let mut engine = two(engine);
        engine.queue(2, 80);
        assert_eq!(engine.schedule.groups[0].next, Some(1), "1200/80 is before 1200/40");
        engine.arrive(2, 1000);
        assert_eq!(engine.schedule.groups[0].next, Some(2));
        engine.queue(3, 80);
        engine.arrive(3, 1000);
        assert_eq!(engine.schedule.groups[0].next, Some(2), "the earlier of equals");
        // Queue 2 has its turn, and comes again with finish 12.5 + 0.1, before the 15 of queue 1;
        // its start is behind V = 1000/280.
        assert_eq!(engine.turn(), Some(2));
        engine.serve(2, 1000);
        engine.end(2, 8);
        assert_eq!(engine.schedule.groups[0].next, Some(3));
    });
}

/// Is a group's budget that of the member it would serve next, and does the group move when that
/// shrinks? Queue 0 now asks for 200 at weight 40: 5, before the 15 of queue 1; the group then
/// finishes at 200/200 = 1.
#[test]
fn bfq_14_a_group_asks_for_what_its_next_asks_for() {
    either(|engine| {
        let (mut engine, [first, second]) = grouped(engine);
        assert_eq!([first, second].map(|group| engine.entity(group).budget), [1200, 1200]);
        assert_eq!(engine.times(first), (0, vt(1200, 200)));
        engine.ask(0, 200);
        assert_eq!((engine.entity(first).budget, engine.times(first).1), (200, vt(200, 200)));
    });
}

/// Does a group move when a member joins that it would serve next?
#[test]
fn bfq_14_a_group_comes_with_its_first_member() {
    either(|mut engine| {
        let group = engine.group(1, 100);
        engine.queue_of(0, 1, 40, Class::BestEffort);
        assert_eq!((engine.entity(group).standing, engine.turn()), (Standing::Off, None));
        engine.arrive(0, 500);
        assert_eq!(engine.entity(group).standing, Standing::Active);
        assert_eq!((engine.entity(group).budget, engine.tree(0).weight_sum), (500, 100));
    });
}

/// Are all levels from the root to a queue put in service together, and put back with what each was
/// served?
#[test]
fn bfq_15_all_levels_are_served_together() {
    either(|engine| {
        let (mut engine, [first, _]) = grouped(engine);
        assert_eq!(engine.turn(), Some(1));
        let in_service = |engine: &Engine| [0, 1, 2].map(|g| engine.schedule.groups[g].in_service);
        assert_eq!(in_service(&engine), [Some(first), Some(1), None]);
        engine.serve(1, 600);
        engine.end(1, 1200);
        assert_eq!(in_service(&engine), [None; 3]);
        assert_eq!((engine.times(1).0, engine.times(first).0), (vt(600, 80), vt(600, 200)));
    });
}

/// Is a group that is enqueued again while it is being served, because a member joined it, charged
/// once for what it was served? 300 of 600 sectors had been served then.
#[test]
fn bfq_15_a_group_pays_once() {
    either(|mut engine| {
        let [first, second] = [engine.group(1, 100), engine.group(2, 100)];
        for (queue, group) in [(0, 1), (1, 1), (2, 2)] {
            engine.queue_of(queue, group, 40, Class::BestEffort);
        }
        engine.arrive(0, 600);
        engine.arrive(2, 600);
        assert_eq!(engine.turn(), Some(0));
        engine.serve(0, 300);
        engine.arrive(1, 600);
        engine.serve(0, 300);
        engine.end(0, 600);
        assert_eq!(engine.times(first).0, vt(600, 100));
        assert_eq!(engine.times(second).0, 0);
    });
}

/// Is the service of groups forgotten when the turn ends; and is what a queue was served outside
/// its turn forgotten when its turn begins in 4.19, and kept in 6.18?
#[test]
fn bfq_16_whose_account_begins_anew() {
    for (version, kept) in [(LINUX_4_19, 0), (LINUX_6_18, 100)] {
        let (mut engine, [first, second]) = grouped(Engine::new(version));
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 300);
        engine.serve(2, 100);
        engine.end(1, 4800);
        // What the other group was served outside its turn stays with it until its own.
        let services = [first, second, 2].map(|number| engine.entity(number).service);
        assert_eq!(services, [0, 100, 100]);
        assert_eq!(engine.turn(), Some(2), "300/200 has not come at V = 400/300");
        assert_eq!([second, 2].map(|number| engine.entity(number).service), [kept, kept]);
        engine.serve(2, 60);
        engine.end(2, 1200);
        assert_eq!(engine.times(2).0, vt(60 + kept, 40));
    }
}

/// Queue 0, which finished at 10, is remembered alone while queue 1 is being served; V passes 10 by
/// far.
fn alone_beside(version: Version) -> Engine {
    let mut engine = Engine::new(version);
    for queue in [0, 1] {
        engine.queue(queue, 40);
        engine.arrive(queue, 400);
    }
    assert_eq!(engine.turn(), Some(0));
    engine.serve(0, 400);
    engine.leave(0);
    assert_eq!(engine.turn(), Some(1));
    engine
}

/// When no queue is active, does V step back to the last remembered finish, and not without that
/// switch? 400/80 + 4000/80 = 55.
#[test]
fn bfq_17_v_steps_back_only_when_nobody_is_active() {
    for (steps_back, vtime) in [(true, 10), (false, 55)] {
        let mut engine = alone_beside(Version { steps_back, ..LINUX_6_18 });
        engine.serve(1, 4000);
        assert_eq!(engine.vtime(), vtime * vt(1, 1));
        assert_eq!(engine.entity(0).standing, Standing::Off);
    }
    either(|mut engine| {
        engine.schedule = alone_beside(LINUX_6_18).schedule;
        engine.queue(2, 40);
        engine.arrive(2, 8000);
        engine.serve(1, 6000);
        // Of 120 now: 400/80 + 6000/120.
        assert_eq!(engine.vtime(), 55 * vt(1, 1));
    });
}

proptest! {
    /// Is a tree's weight sum that of its members, is each order right, and does V never step back
    /// while any entity is active, whatever comes? The audit runs after every step, the engine's
    /// assertions in each.
    #[test]
    fn bfq_18_weights_are_summed(
        steps in prop::collection::vec((0u32..QUEUES, 0u8..9, 1u64..2000, any::<bool>()), 1..200),
        later in any::<bool>(),
    ) {
        let mut engine = Engine::new(if later { LINUX_6_18 } else { LINUX_4_19 });
        engine.group(1, 200);
        engine.group(2, 700);
        for queue in 0..QUEUES {
            let class = [Class::BestEffort, Class::Realtime, Class::Idle][queue as usize / 4 % 3];
            engine.queue_of(queue, queue % 3, 10 + 30 * (queue % 5), class);
        }
        let mut served = None;
        for (queue, what, sectors, flag) in steps {
            engine.now += Nanos::from_millis(sectors / 10);
            let standing = engine.entity(queue).standing;
            match (what, served) {
                (0, _) => engine.schedule.set_weight(queue, u32::try_from(sectors).unwrap()),
                (1, _) => engine.schedule.set_raise(queue, if flag { 30 } else { 1 }),
                (2, _) => {
                    let class = if flag { Class::Realtime } else { Class::BestEffort };
                    engine.schedule.set_class(queue, class);
                }
                (3, _) if standing == Standing::Active => {
                    engine.serve(queue, sectors);
                    if flag {
                        engine.schedule.deactivate(queue, true, false, engine.now);
                        engine.schedule.entities[queue as usize].service = 0;
                    }
                }
                (4 | 5, Some(current)) => {
                    engine.serve(current, sectors);
                    if flag {
                        engine.end(current, 1 + sectors / 2);
                    } else {
                        engine.leave(current);
                    }
                    served = None;
                }
                (6, None) => served = engine.turn(),
                _ if standing == Standing::Active => engine.ask(queue, sectors),
                _ if served != Some(queue) => engine.comes(queue, sectors, flag),
                _ => engine.serve(queue, sectors),
            }
            engine.check();
        }
    }
}

/// Do three queues of one weight that come together take turns in the order in which they came, and
/// start together again when each has had one? 3 * 1024/120 = 1024/40.
#[test]
fn bfq_golden_three_of_one_weight() {
    either(|mut engine| {
        for queue in 0..3 {
            engine.queue(queue, 40);
            engine.arrive(queue, 1024);
        }
        for _ in 0..3 {
            assert_eq!([(); 3].map(|()| engine.whole_turn()), [0, 1, 2]);
        }
        let starts = [0, 1, 2].map(|queue| engine.times(queue).0);
        assert_eq!(starts, [3 * vt(1024, 40); 3]);
        // V is late by what rounding took: it jumps to the common start at the next lookup.
        assert!(!is_after(engine.vtime(), starts[0]));
    });
}

/// Do queues of weights 40 and 80 with equal budgets have one turn to two?
#[test]
fn bfq_golden_one_turn_to_two() {
    either(|engine| {
        let mut engine = two(engine);
        let order = [(); 9].map(|()| engine.whole_turn());
        assert_eq!(order[..2], [1, 0]);
        assert_eq!(order.iter().filter(|&&queue| queue == 1).count(), 6);
    });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine, called directly: virtual times, trees, groups. BFQ-1 to BFQ-18; what changes, and
//! classes, are in `engine_classes.rs`.
//!
//! An [`Engine`] is a `Schedule` with queues that have no requests: the test sets what each asks
//! for and what it is served. Virtual times are written as fractions of sectors per weight.

use proptest::prelude::*;

use super::super::entity::{Entity, delta, is_after};
use super::super::queue::Queue;
use super::super::schedule::Schedule;
use super::super::wf2q::ServiceTree;
use super::*;
use paternoster_core::slab::Slab;

pub(super) const BE: u8 = Class::BestEffort as u8;
const QUEUES: u32 = 12;

/// A schedule whose queues are numbers.
pub(super) struct Engine {
    pub(super) schedule: Schedule,
    queues: Slab<Queue>,
    pub(super) now: Nanos,
}

/// Virtual time of this many sectors at this weight.
pub(super) fn vt(sectors: u64, weight: u64) -> u64 {
    delta(sectors, weight)
}

impl Engine {
    pub(super) fn new(version: Version) -> Engine {
        Engine::with(version, QUEUES)
    }

    pub(super) fn with(version: Version, count: u32) -> Engine {
        let mut schedule = Schedule::new(count, 4, &version);
        schedule.add_group(0, None, 0);
        let mut queues = Slab::with_capacity(count);
        while queues.take().is_some() {}
        Engine { schedule, queues, now: Nanos::from_secs(1) }
    }

    /// Queue `number` becomes a member of `group`.
    pub(super) fn queue_of(&mut self, number: u32, group: u32, weight: u32, class: Class) {
        self.schedule.entities[number as usize] = Entity::new(group, weight, class, true);
    }

    /// A best-effort queue in the root.
    pub(super) fn queue(&mut self, number: u32, weight: u32) {
        self.queue_of(number, 0, weight, Class::BestEffort);
    }

    /// Group `number`, a member of the root; returns the number of its entity.
    pub(super) fn group(&mut self, number: u32, weight: u32) -> u32 {
        self.schedule.add_group(number, Some(0), weight);
        self.schedule.groups[number as usize].entity.expect("it has a parent")
    }

    fn comes(&mut self, queue: u32, budget: u64, waited: bool) {
        let entity = &mut self.schedule.entities[queue as usize];
        (entity.budget, entity.service) = (budget, 0);
        self.schedule.activate(queue, waited, self.now);
        self.check();
    }

    /// A queue has work.
    pub(super) fn arrive(&mut self, queue: u32, budget: u64) {
        self.comes(queue, budget, false);
    }

    /// A waiting queue asks for another budget.
    pub(super) fn ask(&mut self, queue: u32, budget: u64) {
        self.schedule.entities[queue as usize].budget = budget;
        self.schedule.reposition(queue, self.now);
        self.check();
    }

    /// Starts the next turn; returns whose it is.
    pub(super) fn turn(&mut self) -> Option<u32> {
        let resets = !self.schedule.charges_outsiders;
        let queue = self.schedule.serve_next(0, resets, self.now);
        self.check();
        queue
    }

    pub(super) fn serve(&mut self, queue: u32, sectors: u64) {
        self.schedule.serve(queue, sectors);
        self.check();
    }

    /// Its turn ends; it asks for `budget` in its next one.
    pub(super) fn end(&mut self, queue: u32, budget: u64) {
        self.schedule.entities[queue as usize].budget = budget;
        self.schedule.requeue_served(queue, self.now);
        self.over(queue);
    }

    /// Its turn ends, and it has no work.
    pub(super) fn leave(&mut self, queue: u32) {
        self.schedule.deactivate(queue, true, true, self.now);
        self.over(queue);
    }

    fn over(&mut self, queue: u32) {
        self.schedule.end_service(queue);
        self.schedule.entities[queue as usize].service = 0;
        self.check();
    }

    /// A turn in which the queue uses up its budget, and asks for the same again.
    pub(super) fn whole_turn(&mut self) -> u32 {
        let queue = self.turn().expect("somebody has work");
        let budget = self.entity(queue).budget;
        self.serve(queue, budget);
        self.end(queue, budget);
        queue
    }

    pub(super) fn entity(&self, number: u32) -> Entity {
        self.schedule.entities[number as usize]
    }

    /// Start and finish.
    pub(super) fn times(&self, number: u32) -> (u64, u64) {
        (self.entity(number).start, self.entity(number).finish)
    }

    pub(super) fn tree(&self, group: u32) -> &ServiceTree {
        &self.schedule.groups[group as usize].trees[usize::from(BE)]
    }

    pub(super) fn vtime(&self) -> u64 {
        self.tree(0).vtime
    }

    fn check(&self) {
        self.schedule.audit(|queue| self.queues.is_live(queue)).expect("the audit holds");
    }
}

/// Runs a test with the engine of either kernel.
pub(super) fn either(test: impl Fn(Engine)) {
    for version in [LINUX_4_19, LINUX_6_18] {
        test(Engine::new(version));
    }
}

/// Queues 0 and 1 of weights 40 and 80 that ask for 1200 sectors each.
pub(super) fn two(mut engine: Engine) -> Engine {
    for (queue, weight) in [(0, 40), (1, 80)] {
        engine.queue(queue, weight);
        engine.arrive(queue, 1200);
    }
    engine
}

/// Group 1 of weight 200 with queues 0 (40) and 1 (80), group 2 of weight 100 with queue 2.
fn grouped(mut engine: Engine) -> (Engine, [u32; 2]) {
    let groups = [engine.group(1, 200), engine.group(2, 100)];
    for (queue, group, weight) in [(0, 1, 40), (1, 1, 80), (2, 2, 40)] {
        engine.queue_of(queue, group, weight, Class::BestEffort);
        engine.arrive(queue, 1200);
    }
    (engine, groups)
}

/// If queue 1 is served 300 sectors, do its own and its group's service grow by that, and does
/// virtual time advance on both levels, by 300 divided by the weights there, 120 and 300, and on no
/// other?
#[test]
fn bfq_1_service_counts_at_every_level() {
    either(|engine| {
        let (mut engine, [first, second]) = grouped(engine);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 300);
        let served = [0, 1, 2, first, second].map(|number| engine.entity(number).service);
        assert_eq!(served, [0, 300, 0, 300, 0]);
        let vtimes = [0, 1, 2].map(|group| engine.tree(group).vtime);
        assert_eq!(vtimes, [vt(300, 300), vt(300, 120), 0]);
    });
}

/// Does a queue's weight still count after it left ahead of its share? Its finish, 1200/80 = 15, is
/// ahead of V = 1200/120 = 10, so the next 120 sectors advance V by 120/120 and not by 120/40.
#[test]
fn bfq_1_the_idle_tree_counts() {
    either(|engine| {
        let mut engine = two(engine);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 1200);
        engine.leave(1);
        assert_eq!(engine.entity(1).standing, Standing::Idle);
        assert_eq!(engine.turn(), Some(0));
        engine.serve(0, 120);
        assert_eq!(engine.vtime(), vt(1200, 120) + vt(120, 120));
    });
}

/// Is the finish of an active entity start + budget/weight, with its new weight if one was pending?
#[test]
fn bfq_2_finish_is_start_and_budget() {
    either(|mut engine| {
        engine.queue(0, 40);
        engine.arrive(0, 8);
        assert_eq!(engine.times(0), (0, 838_860));
        engine.turn();
        engine.schedule.set_weight(0, 80);
        engine.serve(0, 8);
        engine.end(0, 16);
        // What it was served counts at the weight it had, the next budget at the new one.
        assert_eq!(engine.times(0), (838_860, 838_860 + vt(16, 80)));
    });
}

/// Does a forgotten queue start at V and add its weight, and a remembered one start at its finish,
/// with its weight counted all the time?
#[test]
fn bfq_3_where_a_queue_starts() {
    either(|engine| {
        let mut engine = two(engine);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 1200);
        engine.leave(1);
        assert_eq!((engine.vtime(), engine.tree(0).weight_sum), (vt(1200, 120), 120));
        engine.arrive(1, 80);
        assert_eq!(engine.times(1), (vt(1200, 80), vt(1200, 80) + vt(80, 80)));
        assert_eq!(engine.tree(0).weight_sum, 120);
        engine.queue(2, 30);
        engine.arrive(2, 90);
        assert_eq!(engine.times(2), (engine.vtime(), engine.vtime() + vt(90, 30)));
        assert_eq!(engine.tree(0).weight_sum, 150);
    });
}

/// Queues 0 and 1 of weight 40. Queue 0 was served 400 sectors, to finish 10, and left; V is 20.
fn left_behind(mut engine: Engine) -> Engine {
    for queue in [0, 1] {
        engine.queue(queue, 40);
        engine.arrive(queue, 400);
    }
    assert_eq!(engine.turn(), Some(0));
    engine.serve(0, 400);
    engine.leave(0);
    // 400/80 and 400/80, then queue 0 is forgotten; 400/40.
    assert_eq!([engine.whole_turn(), engine.whole_turn()], [1, 1]);
    assert_eq!(engine.entity(0).standing, Standing::Off);
    assert_eq!((engine.vtime(), engine.times(0).1), (20 * vt(1, 1), 10 * vt(1, 1)));
    engine
}

/// Does a queue that was waited for get back the time since its finish, and no other queue? It
/// starts at 10, not at V = 20; 800 sectors are 20 more.
#[test]
fn bfq_4_who_was_waited_for_starts_where_he_ended() {
    either(|engine| {
        let mut engine = left_behind(engine);
        engine.comes(0, 800, true);
        assert_eq!(engine.times(0), (10 * vt(1, 1), 30 * vt(1, 1)));
    });
    either(|engine| {
        let mut engine = left_behind(engine);
        engine.comes(0, 800, false);
        assert_eq!(engine.times(0), (20 * vt(1, 1), 40 * vt(1, 1)));
    });
}

/// Do the groups above it get the time back, too, if they come with it? The group was served 400
/// sectors at weight 40, and V is 20 at both levels.
#[test]
fn bfq_4_the_groups_above_get_it_back_too() {
    for waited in [true, false] {
        either(|mut engine| {
            let group = engine.group(1, 40);
            engine.queue_of(0, 1, 40, Class::BestEffort);
            engine.queue(1, 40);
            engine.arrive(0, 400);
            engine.arrive(1, 400);
            assert_eq!(engine.turn(), Some(0));
            engine.serve(0, 400);
            engine.leave(0);
            assert_eq!([engine.whole_turn(), engine.whole_turn()], [1, 1]);
            assert_eq!(engine.entity(group).standing, Standing::Off);
            engine.comes(0, 800, waited);
            let start = if waited { 10 } else { 20 };
            assert_eq!(engine.times(group), (start * vt(1, 1), (start + 20) * vt(1, 1)));
        });
    }
}

/// If a queue's finish would still be before V, do its start and finish both move by the
/// difference, so that it finishes at V; and by a thirtieth of the difference if its weight is
/// raised 30 times? 200 sectors at weight 40 are 5: from 10 to 15, where V is 20.
#[test]
fn bfq_5_not_into_the_past() {
    either(|engine| {
        let mut engine = left_behind(engine);
        engine.comes(0, 200, true);
        assert_eq!(engine.times(0), (15 * vt(1, 1), 20 * vt(1, 1)));
    });
    for raise in [30, 3000] {
        either(|engine| {
            let mut engine = left_behind(engine);
            engine.schedule.set_raise(0, raise);
            engine.comes(0, 200, true);
            let finish = 10 * vt(1, 1) + vt(200, 40 * u64::from(raise));
            let by = (20 * vt(1, 1) - finish) / u64::from(raise);
            assert_eq!(engine.times(0), (10 * vt(1, 1) + by, finish + by));
        });
    }
}

/// Does a queue restart after what it was served, not after what it had asked for? 300 of 1200
/// sectors at weight 80.
#[test]
fn bfq_6_a_turn_counts_as_it_was() {
    either(|engine| {
        let mut engine = two(engine);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 200);
        engine.serve(1, 100);
        engine.end(1, 160);
        assert_eq!(engine.times(1), (vt(300, 80), vt(300, 80) + vt(160, 80)));
    });
}

/// Does a waiting queue that asks for another budget keep its start, and move to the place of its
/// new finish?
#[test]
fn bfq_7_another_budget_moves_the_finish() {
    either(|engine| {
        let mut engine = two(engine);
        engine.ask(1, 4800);
        assert_eq!(engine.times(1), (0, vt(4800, 80)));
        assert_eq!(engine.turn(), Some(0), "1200/40 is before 4800/80");
    });
}

/// When a turn ends without work, does the finish follow from the service: remembered if it is
/// after V, otherwise forgotten with its weight?
#[test]
fn bfq_8_who_leaves_is_remembered_while_ahead() {
    either(|engine| {
        let mut engine = two(engine);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 240);
        engine.leave(1);
        assert_eq!(engine.times(1), (0, vt(240, 80)));
        assert_eq!((engine.entity(1).standing, engine.vtime()), (Standing::Idle, vt(240, 120)));
        assert_eq!(engine.tree(0).weight_sum, 120);
    });
    either(|engine| {
        let mut engine = two(engine);
        assert_eq!(engine.whole_turn(), 1);
        // V is 10 when queue 0, which starts at 0, has its turn; its 40 sectors are 1.
        assert_eq!(engine.turn(), Some(0));
        engine.serve(0, 40);
        engine.leave(0);
        assert_eq!((engine.times(0).1, engine.entity(0).standing), (vt(40, 40), Standing::Off));
        assert_eq!(engine.tree(0).weight_sum, 80);
    });
}

/// Is a waiting queue that loses its work charged for what it was served outside its turn, after
/// which its service is zero; and in 4.19 not?
#[test]
fn bfq_8_service_out_of_turn_is_charged_in_6_18() {
    for (version, finish, service) in [(LINUX_6_18, vt(800, 80), 0), (LINUX_4_19, 0, 800)] {
        let mut engine = two(Engine::new(version));
        assert_eq!(engine.turn(), Some(1));
        engine.end(1, 1200);
        assert_eq!(engine.turn(), Some(1));
        engine.end(1, 1200);
        engine.queue(2, 40);
        engine.arrive(2, 40);
        assert_eq!(engine.turn(), Some(2));
        engine.serve(1, 800);
        let before = engine.entity(1).finish;
        engine.schedule.deactivate(1, true, false, engine.now);
        let expected = if finish == 0 { before } else { finish };
        assert_eq!((engine.times(1).1, engine.entity(1).service), (expected, service));
        engine.schedule.entities[1].service = 0;
        engine.end(2, 40);
    }
}

/// When V passes the finish of two idle queues at once, is one forgotten now, and the other with
/// the next service?
#[test]
fn bfq_9_one_is_forgotten_at_a_time() {
    either(|mut engine| {
        for queue in 0..4 {
            engine.queue(queue, 40);
            engine.arrive(queue, 400);
        }
        for queue in [0, 1] {
            assert_eq!(engine.turn(), Some(queue));
            engine.serve(queue, 400);
            engine.leave(queue);
        }
        assert_eq!((engine.vtime(), engine.tree(0).weight_sum), (5 * vt(1, 1), 160));
        assert_eq!(engine.turn(), Some(2));
        // Both finish at 10. 800/160 = 5.
        engine.serve(2, 800);
        assert_eq!((engine.vtime(), engine.tree(0).weight_sum), (10 * vt(1, 1), 120));
        assert_eq!(
            [0, 1].map(|queue| engine.entity(queue).standing),
            [Standing::Off, Standing::Idle]
        );
        engine.serve(2, 8);
        assert_eq!(engine.tree(0).weight_sum, 80);
        engine.end(2, 400);
    });
}

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
    either(|engine| {
        let mut engine = Engine { schedule: alone_beside(LINUX_6_18).schedule, ..engine };
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

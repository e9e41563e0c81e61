// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine, called directly: where queues start and finish, and what is remembered of them.
//! BFQ-1 to BFQ-9; who is served next, and groups, are in `engine_order.rs`; what changes, and
//! classes, in `engine_classes.rs`.
//!
//! An [`Engine`] is a `Schedule` with queues that have no requests: the test sets what each asks
//! for and what it is served. Virtual times are written as fractions of sectors per weight.

use super::super::entity::{Entity, delta};
use super::super::queue::Queue;
use super::super::schedule::Schedule;
use super::super::wf2q::ServiceTree;
use super::*;
use paternoster_core::slab::Slab;

pub(super) const BE: u8 = Class::BestEffort as u8;
pub(super) const QUEUES: u32 = 12;

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

    pub(super) fn comes(&mut self, queue: u32, budget: u64, waited: bool) {
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

    pub(super) fn check(&self) {
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
pub(super) fn grouped(mut engine: Engine) -> (Engine, [u32; 2]) {
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

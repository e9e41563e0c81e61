// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine, called directly: weights and classes that change, and the order of classes. BFQ-20
//! to BFQ-25, BFQ-199.

use super::engine::{BE, Engine, either, two, vt};
use super::*;

/// Does a raise multiply a queue's weight from its next turn on, and is a group's weight as it is
/// set?
#[test]
fn bfq_20_a_raise_multiplies() {
    either(|mut engine| {
        engine.queue(0, 40);
        engine.arrive(0, 1200);
        engine.schedule.set_raise(0, 30);
        assert_eq!(engine.entity(0).weight, 40);
        engine.whole_turn();
        assert_eq!((engine.entity(0).weight, engine.entity(0).orig_weight), (1200, 40));
        assert_eq!(engine.times(0).1 - engine.times(0).0, vt(1200, 1200));
        let group = engine.group(1, 5000);
        assert_eq!(engine.entity(group).weight, 1000);
    });
}

/// BFQ-199: a queue of weight 40 is to weigh 80, comes out of rest and counts with that already;
/// before it took effect it is to weigh 40 again. Does it count with 40 when it is enqueued?
#[test]
fn bfq_199_a_weight_that_never_came() {
    either(|mut engine| {
        engine.queue(0, 40);
        engine.schedule.set_weight(0, 80);
        engine.schedule.leave_rest(0, false);
        assert_eq!(engine.schedule.symmetry.weight_of(0), Some(80));
        engine.schedule.set_weight(0, 40);
        engine.arrive(0, 8);
        assert_eq!(engine.schedule.symmetry.weight_of(0), Some(40));
    });
}

/// Does another weight or class of a waiting queue count from its next place on; and of a queue in
/// service the weight at once, if that is requested, but not the class?
#[test]
fn bfq_21_changes_wait_for_the_next_place() {
    either(|engine| {
        let mut engine = two(engine);
        engine.schedule.set_weight(1, 10);
        engine.schedule.set_class(1, Class::Realtime);
        let known = |engine: &Engine| (engine.entity(1).weight, engine.entity(1).class);
        assert_eq!(known(&engine), (80, BE));
        assert_eq!(engine.turn(), Some(1));
        assert_eq!(known(&engine), (80, BE));
        engine.schedule.take_over_changes(1, false);
        assert_eq!((known(&engine), engine.tree(0).weight_sum), ((10, BE), 50));
        engine.serve(1, 1200);
        engine.end(1, 1200);
        assert_eq!(known(&engine), (10, Class::Realtime as u8));
        assert_eq!(engine.tree(0).weight_sum, 40);
    });
}

/// Does a queue that moves to another class start at the virtual time of that class?
#[test]
fn bfq_22_another_class_is_another_time() {
    either(|engine| {
        let mut engine = two(engine);
        engine.queue_of(2, 0, 50, Class::Realtime);
        engine.arrive(2, 500);
        assert_eq!(engine.turn(), Some(2));
        engine.serve(2, 500);
        engine.end(2, 500);
        assert_eq!(engine.turn(), Some(2));
        engine.serve(2, 100);
        engine.leave(2);
        assert_eq!(engine.turn(), Some(1));
        engine.serve(1, 600);
        engine.schedule.set_class(1, Class::Realtime);
        engine.end(1, 800);
        // 500/50 + 100/50 = 12; the idle queue 2 counts there still, V = 12 and F = 12.
        assert_eq!(engine.times(1), (12 * vt(1, 1), 12 * vt(1, 1) + vt(800, 80)));
        assert_eq!(engine.turn(), Some(1));
    });
}

/// Is a real-time queue of a group no better off than others of the root: is its group best effort?
#[test]
fn bfq_23_classes_count_among_siblings() {
    either(|mut engine| {
        let group = engine.group(1, 100);
        engine.queue_of(0, 1, 40, Class::Realtime);
        engine.queue(1, 40);
        engine.arrive(0, 1000);
        engine.arrive(1, 100);
        assert_eq!(engine.entity(group).class, BE);
        assert_eq!(engine.turn(), Some(1), "100/40 is before 1000/100");
    });
}

/// Queues 0, 1, 2 of the real-time, best effort and idle class, each with work.
fn of_all_classes(mut engine: Engine) -> Engine {
    let classes = [Class::Realtime, Class::BestEffort, Class::Idle];
    for (queue, class) in (0..).zip(classes) {
        engine.queue_of(queue, 0, 40, class);
        engine.arrive(queue, 8000);
    }
    engine
}

/// Is a lower class served only when no higher one has work?
#[test]
fn bfq_24_classes_in_their_order() {
    either(|engine| {
        let mut engine = of_all_classes(engine);
        for expected in [0, 0, 1, 1, 2] {
            let queue = engine.turn().expect("somebody has work");
            assert_eq!(queue, expected);
            engine.serve(queue, 8);
            let first = engine.entity(queue).start == 0 && queue != 2;
            if first { engine.end(queue, 8000) } else { engine.leave(queue) }
        }
        assert_eq!(engine.turn(), None);
    });
}

/// When a turn ends, is the idle class checked first once in 200 ms, not at 200 but at 201; and
/// does the time start again with each such check?
#[test]
fn bfq_25_the_idle_class_is_not_starved() {
    either(|engine| {
        let mut engine = of_all_classes(engine);
        let mut order = Vec::new();
        // The first check was at 1 s.
        for end in [1100, 1200, 1201, 1300, 1402, 1403, 1500, 1602, 1603] {
            let queue = engine.turn().expect("somebody has work");
            order.push(queue);
            engine.serve(queue, 8);
            engine.now = Nanos::from_millis(end);
            engine.end(queue, 8000);
        }
        // After the turns that ended at 1201 and 1402; 1602 is 200 ms after that.
        assert_eq!(order, [0, 0, 0, 2, 0, 2, 0, 0, 0]);
        assert_eq!(engine.turn(), Some(2), "1603");
    });
}

/// If another queue comes between the lookup that chose the idle class and its turn, does the idle
/// class still have its turn?
#[test]
fn bfq_25_who_comes_does_not_take_its_turn() {
    either(|engine| {
        let mut engine = of_all_classes(engine);
        engine.queue_of(3, 0, 40, Class::Realtime);
        assert_eq!(engine.turn(), Some(0));
        engine.serve(0, 8);
        engine.now = Nanos::from_millis(1201);
        engine.end(0, 8000);
        engine.arrive(3, 8);
        assert_eq!(engine.turn(), Some(2));
        engine.serve(2, 8);
        engine.end(2, 8);
        assert_eq!(engine.turn(), Some(3));
    });
}

/// Does each group have its own time? One group is looked up at 1 s, another at 1.15 s.
#[test]
fn bfq_25_each_group_has_its_time() {
    either(|mut engine| {
        for (group, base, ms) in [(1, 0, 1000), (2, 2, 1150)] {
            engine.group(group, 100);
            engine.now = Nanos::from_millis(ms);
            engine.queue_of(base, group, 40, Class::BestEffort);
            engine.queue_of(base + 1, group, 40, Class::Idle);
            engine.arrive(base, 8);
            engine.ask(base, 16);
            engine.arrive(base + 1, 16);
        }
        let mut order = Vec::new();
        for _ in 0..3 {
            let queue = engine.turn().expect("somebody has work");
            order.push(queue);
            engine.serve(queue, 16);
            engine.now = Nanos::from_millis(1201);
            engine.end(queue, 16);
        }
        assert_eq!(order, [0, 2, 1]);
    });
}

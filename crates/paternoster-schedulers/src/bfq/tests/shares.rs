// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from the guarantees: shares, delays, groups, classes, costs. BFQ-G7 to BFQ-G12.

use proptest::prelude::*;

use super::super::entity::steps;
use super::engine::Engine;
use super::guarantees::{Accounts, EXACT, Excess, Set, number, raise, sets};
use super::*;

/// All the kernels, and the engine as it is written down.
const ALL: [Version; 3] = [EXACT, LINUX_4_19, LINUX_6_18];

/// Uses up its budget, and asks for the same again.
fn whole_turn(engine: &mut Engine) -> (u32, u64) {
    let queue = engine.turn().expect("somebody has work");
    let budget = engine.entity(queue).budget;
    engine.serve(queue, budget);
    engine.end(queue, budget);
    (queue, budget)
}

/// G7: of two queues of one weight with budgets of 512 and 16384, does each get half of what is
/// served in 1000 turns, within a percent? 31 turns of 16384 to 969 of 512: 50.6 % and 49.4 %.
#[test]
fn bfq_g7_shares_depend_on_weights_only() {
    for version in ALL {
        let mut engine = Engine::new(version);
        let mut served = [0; 2];
        for (queue, budget) in [(0, 512), (1, 16_384)] {
            engine.queue(queue, 40);
            engine.arrive(queue, budget);
        }
        for _ in 0..1000 {
            let (queue, budget) = whole_turn(&mut engine);
            served[queue as usize] += budget;
        }
        let all: u64 = served.iter().sum();
        for own in served {
            assert!((2 * own).abs_diff(all) * 100 < 2 * all, "{} {served:?}", version.name);
        }
    }
}

/// G8: of two idle queues of one weight that come at the same V, is the one with the smaller budget
/// served first, whichever comes first?
#[test]
fn bfq_g8_the_smaller_budget_goes_first() {
    for version in ALL {
        for (first, second) in [(512, 16_384), (16_384, 512)] {
            let mut engine = Engine::new(version);
            for (queue, budget) in [(0, first), (1, second)] {
                engine.queue(queue, 40);
                engine.arrive(queue, budget);
            }
            let (_, budget) = whole_turn(&mut engine);
            assert_eq!(budget, 512, "{}", version.name);
        }
    }
}

/// Sectors served until a newcomer's first turn ends, and what is promised: its budget divided by
/// its share, and one largest budget.
fn delay_of_newcomer(set: &Set, version: Version, before: u32, budget: u64) -> (u64, u64) {
    let mut engine = Engine::new(version);
    let last = set.weights.len() - 1;
    for (queue, &weight) in set.weights.iter().enumerate() {
        engine.queue(number(queue), weight);
        if queue < last {
            engine.arrive(number(queue), set.most[queue]);
        }
    }
    for _ in 0..before {
        whole_turn(&mut engine);
    }
    engine.arrive(number(last), budget);
    let mut served = 0;
    loop {
        let (queue, sectors) = whole_turn(&mut engine);
        served += sectors;
        if queue == number(last) {
            break;
        }
    }
    let sum: u64 = set.weights.iter().map(|&weight| u64::from(weight)).sum();
    let own = (budget * sum).div_ceil(set.weights[last].into());
    (served, own + set.most.iter().max().expect("two at least"))
}

proptest! {
    /// G9: is a newcomer's budget done once its share of what is served amounts to it, plus one
    /// largest budget? With the kernel's shortcut: two.
    #[test]
    fn bfq_g9_a_newcomer_waits_for_one_budget(
        set in sets(2..10), before in 0u32..50, budget in 8u64..16_384
    ) {
        let (served, promised) = delay_of_newcomer(&set, EXACT, before, budget);
        prop_assert!(served <= promised, "{served} {promised}");
        for version in [LINUX_4_19, LINUX_6_18] {
            let (served, promised) = delay_of_newcomer(&set, version, before, budget);
            prop_assert!(served <= promised + 16_384, "{} {served} {promised}", version.name);
        }
    }

    /// G10: do the bounds hold among groups, and among the members of each, in each case in sectors
    /// of that group and with its weights?
    #[test]
    fn bfq_g10_each_group_keeps_the_bounds(
        groups in sets(2..4), members in prop::collection::vec(sets(1..5), 3)
    ) {
        let worst = in_groups(&groups, &members[..groups.weights.len()]);
        prop_assert!(worst.lag_at_end <= 0 && worst.lag <= 0 && worst.lead <= 0, "{worst:?}");
    }
}

/// Where the members of groups are: group, and index in it.
fn places(members: &[Set]) -> Vec<(usize, usize)> {
    let of_group = |(group, set): (usize, &Set)| {
        (0..set.weights.len()).map(move |place| (group, place)).collect::<Vec<_>>()
    };
    members.iter().enumerate().flat_map(of_group).collect()
}

/// Serves the members of some groups; returns how far the bounds were exceeded at either level. The
/// largest budget of a group is that of its members.
fn in_groups(groups: &Set, members: &[Set]) -> Excess {
    let mut engine = Engine::new(EXACT);
    let largest = |set: &Set| *set.most.iter().max().expect("one at least");
    let groups = Set { most: members.iter().map(largest).collect(), ..groups.clone() };
    let places = places(members);
    for (group, weight) in (1..).zip(&groups.weights) {
        engine.group(group, *weight);
    }
    for (queue, &(group, place)) in (0..).zip(&places) {
        let weight = members[group].weights[place];
        engine.queue_of(queue, number(group) + 1, weight, Class::BestEffort);
        // The same for all: the parent learns with the next turn that a group's budget grew.
        engine.arrive(queue, 8);
    }
    let mut of_groups = Accounts::new(&groups);
    let mut of_members: Vec<Accounts> = members.iter().map(Accounts::new).collect();
    let mut worst = Excess::NONE;
    for turn in 0..300 {
        let queue = engine.turn().expect("all have work");
        let (group, place) = places[queue as usize];
        let mut left = engine.entity(queue).budget;
        while left > 0 {
            let sectors = left.min(128);
            left -= sectors;
            engine.schedule.serve(queue, sectors);
            of_groups.serve(group, sectors, groups.weights.len(), &mut worst);
            let count = members[group].weights.len();
            of_members[group].serve(place, sectors, count, &mut worst);
        }
        for (lag, bound) in [of_groups.at_end(group), of_members[group].at_end(place)] {
            raise(&mut worst.lag_at_end, lag - bound);
        }
        let most = members[group].most[place];
        engine.end(queue, 8 + (turn * 7919 + u64::from(queue) * 613) % (most - 7));
    }
    worst
}

proptest! {
    /// G11: does no best-effort queue begin a turn while a real-time one has work; and does the
    /// idle class have a turn within 200 ms plus the turn then in progress, whatever the others do?
    #[test]
    fn bfq_g11_classes(
        turns in prop::collection::vec((0u64..50, 1u64..16_384, any::<bool>()), 200),
    ) {
        for version in ALL {
            let mut engine = Engine::new(version);
            let classes = [Class::Realtime, Class::Realtime, Class::BestEffort, Class::Idle];
            for (queue, class) in (0..).zip(classes) {
                engine.queue_of(queue, 0, 40, class);
            }
            (2..4).for_each(|queue| engine.arrive(queue, 1000));
            let mut last_idle = engine.now;
            for &(ms, sectors, leaves) in &turns {
                for queue in 0..2 {
                    let away = engine.entity(queue).standing != Standing::Active;
                    if away && sectors % (3 + u64::from(queue)) == 0 {
                        engine.arrive(queue, sectors);
                    }
                }
                let urgent = (0..2).any(|q| engine.entity(q).standing == Standing::Active);
                let began = engine.now;
                let queue = engine.turn().expect("somebody has work");
                prop_assert!(!(urgent && queue == 2), "{}", version.name);
                engine.serve(queue, sectors);
                engine.now += Nanos::from_millis(ms);
                if queue < 2 && leaves { engine.leave(queue) } else { engine.end(queue, sectors) }
                if queue == 3 {
                    last_idle = engine.now;
                }
                // The next queue is chosen when a turn ends; one may have begun just before.
                let most = last_idle + Nanos::from_millis(200 + 50);
                prop_assert!(began <= most, "{}: {began}, idle at {last_idle}", version.name);
            }
        }
    }
}

/// Comparisons and steps down for each turn of `queues` queues of one group that all have work.
fn steps_of_a_turn(version: Version, queues: u32) -> u64 {
    let mut engine = Engine::with(version, queues);
    for queue in 0..queues {
        engine.queue(queue, 1 + queue.wrapping_mul(7919) % 1000);
        engine.schedule.entities[queue as usize].budget = 512 + u64::from(queue * 613 % 8192);
        engine.schedule.activate(queue, false, engine.now);
    }
    let before = steps::counted();
    for _ in 0..1000 {
        let queue = engine.schedule.serve_next(0, true, engine.now).expect("all have work");
        engine.schedule.serve(queue, 512);
        engine.schedule.requeue_served(queue, engine.now);
        engine.schedule.end_service(queue);
    }
    (steps::counted() - before) / 1000
}

/// G12: do the steps of a turn grow as the logarithm of how many have work? Two lookups of a
/// descent each, and an insertion; a tree of n is at most 1.45 log2(n + 2) high, 25 for 100,000.
#[test]
fn bfq_g12_a_turn_takes_logarithmic_time() {
    for version in ALL {
        for (queues, height) in [(10, 6), (100, 10), (1000, 15), (10_000, 20), (100_000, 25)] {
            let steps = steps_of_a_turn(version, queues);
            std::println!("{} {queues} queues: {steps} steps", version.name);
            assert!(steps <= 3 * height, "{} {queues}: {steps}", version.name);
        }
    }
}

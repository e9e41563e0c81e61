// SPDX-License-Identifier: MIT OR Apache-2.0
//! What BFQ guarantees: a queue with work gets its share, at any time, within a budget or two.
//!
//! Random sets of queues are served by the engine and accounted for in whole numbers: sectors
//! received compared with the share of all sectors, `w * all - own * sum`, which is lag times the
//! sum of weights. Each run reports by how much a bound was exceeded at worst.
//!
//! ```text
//! start - V <= B/w - B/sum   (G1)      V - finish <= M/sum   (G2)
//! lag    B(1-f) + f*M   at the end of an own turn (G3)     2B(1-f) + f*M at any time (G4)
//! lead   B(2-f) + f*M   at any time (G5)
//!
//! f: share by weight; B: own largest budget; M: the largest of all
//! ```
//!
//! They hold for the engine as it is written down. The kernel's takes a shortcut (BFQ-13) that
//! costs up to a budget more; and no lag is guaranteed among queues that come and go.
//!
//! Source: BFQ-G1 to BFQ-G6, which G1 to G6 stand for here.

use proptest::prelude::*;

use super::engine::{Engine, vt};
use super::exact::Exact;
use super::*;

/// B-WF2Q+ as it is written down.
pub(super) const EXACT: Version = Version { takes_shortcuts: false, ..LINUX_6_18 };
const TURNS: u32 = 300;

/// Queues: their weights, and the most that each asks for.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) weights: Vec<u32>,
    pub(super) most: Vec<u64>,
    pub(super) seed: u64,
}

impl Set {
    fn sum(&self) -> u64 {
        self.weights.iter().map(|&weight| u64::from(weight)).sum()
    }

    fn largest(&self) -> u64 {
        *self.most.iter().max().expect("one at least")
    }

    fn len(&self) -> usize {
        self.weights.len()
    }
}

pub(super) fn sets(queues: core::ops::Range<usize>) -> impl Strategy<Value = Set> {
    let weight = prop_oneof![1u32..=1000, Just(1), Just(10), Just(100), Just(1000)];
    let most = prop_oneof![512u64..=16_384, Just(512), Just(16_384)];
    (prop::collection::vec((weight, most), queues), any::<u64>()).prop_map(|(queues, seed)| {
        let (weights, most) = queues.into_iter().unzip();
        Set { weights, most, seed }
    })
}

/// Random numbers from a seed.
pub(super) struct Dice(u64);

impl Dice {
    /// From `least` to `most`.
    fn roll(&mut self, least: u64, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        least + (self.0 >> 33) % (most - least + 1)
    }
}

/// What the others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// All have work from the beginning, always.
    Stay,
    /// Two thirds come some time later.
    Come,
    /// Two thirds come and go.
    ComeAndGo,
}

/// How much of a budget is used in a turn.
type Part = fn(&mut Dice, u64) -> u64;

fn all_of_it(_: &mut Dice, budget: u64) -> u64 {
    budget
}

fn a_part_of_it(dice: &mut Dice, budget: u64) -> u64 {
    match dice.roll(0, 2) {
        0 => budget,
        1 => dice.roll(1, budget),
        _ => dice.roll(1, budget.min(64)),
    }
}

/// By how much each bound was exceeded at worst: virtual time in units, the rest in sectors times
/// the sum of weights. Negative if it never was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excess {
    /// G1 and G2.
    pub(super) start: i128,
    pub(super) finish: i128,
    /// G3, G4, G5.
    pub(super) lag_at_end: i128,
    pub(super) lag: i128,
    pub(super) lead: i128,
    /// Lag or lead beyond two of the largest budgets.
    pub(super) twice: i128,
    /// Choices that the exact model does not allow.
    wrong_choices: u32,
}

impl Excess {
    pub(super) const NONE: Excess = Excess {
        start: i128::MIN,
        finish: i128::MIN,
        lag_at_end: i128::MIN,
        lag: i128::MIN,
        lead: i128::MIN,
        twice: i128::MIN,
        wrong_choices: 0,
    };
}

pub(super) fn raise(most: &mut i128, to: i128) {
    *most = (*most).max(to);
}

/// What a queue is owed, times the sum of weights; the least and the most so far.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    least: i128,
    most: i128,
    present: i128,
}

/// The accounts of the members of one group, all of which have work.
pub(super) struct Accounts {
    set: Set,
    all: Vec<Account>,
}

impl Accounts {
    pub(super) fn new(set: &Set) -> Accounts {
        Accounts { set: set.clone(), all: set.weights.iter().map(|_| Account::default()).collect() }
    }

    /// Shares of B and M as in the table above, times the sum of weights: B(1-f), B, f*M.
    fn terms(&self, member: usize) -> [i128; 3] {
        let (sum, weight) = (i128::from(self.set.sum()), i128::from(self.set.weights[member]));
        let own = i128::from(self.set.most[member]);
        [own * (sum - weight), own * sum, weight * i128::from(self.set.largest())]
    }

    /// A member is served this many sectors: checks the first `steady` members.
    pub(super) fn serve(&mut self, turn: usize, sectors: u64, steady: usize, worst: &mut Excess) {
        let sum = i128::from(self.set.sum());
        let twice = 2 * sum * i128::from(self.set.largest());
        for member in 0..steady {
            let share = i128::from(self.set.weights[member]) * i128::from(sectors);
            let own = if member == turn { sum * i128::from(sectors) } else { 0 };
            let [rest, own_most, others] = self.terms(member);
            let account = &mut self.all[member];
            account.present += share - own;
            account.least = account.least.min(account.present);
            account.most = account.most.max(account.present);
            let lag = account.present - account.least;
            let lead = account.most - account.present;
            raise(&mut worst.lag, lag - 2 * rest - others);
            raise(&mut worst.lead, lead - own_most - rest - others);
            raise(&mut worst.twice, lag.max(lead) - twice);
        }
    }

    /// A member's turn ends. Returns its lag, and the bound for it.
    pub(super) fn at_end(&self, member: usize) -> (i128, i128) {
        let account = &self.all[member];
        let [rest, _, others] = self.terms(member);
        (account.present - account.least, rest + others)
    }
}

pub(super) fn number(queue: usize) -> u32 {
    u32::try_from(queue).expect("a few")
}

/// A set being served.
struct Run<'a> {
    set: &'a Set,
    others: Others,
    /// This many have work all the time.
    steady: usize,
    dice: Dice,
    engine: Engine,
    exact: Exact,
    accounts: Accounts,
    worst: Excess,
}

impl Run<'_> {
    fn new(set: &Set, version: Version, others: Others) -> Run<'_> {
        let mut run = Run {
            set,
            others,
            steady: if others == Others::Stay { set.len() } else { 1 + set.len() / 3 },
            dice: Dice(set.seed),
            engine: Engine::new(version),
            exact: Exact::new(&set.weights),
            accounts: Accounts::new(set),
            worst: Excess::NONE,
        };
        for (queue, &weight) in set.weights.iter().enumerate() {
            run.engine.queue(number(queue), weight);
            if queue < run.steady || others == Others::ComeAndGo {
                run.comes(queue);
            }
        }
        run
    }

    fn comes(&mut self, queue: usize) {
        let budget = self.dice.roll(8, self.set.most[queue]);
        self.engine.arrive(number(queue), budget);
        self.exact.asks(queue, budget);
    }

    fn some_come(&mut self) {
        for queue in self.steady..self.set.len() {
            let away = self.engine.entity(number(queue)).standing != Standing::Active;
            if away && self.dice.roll(0, 7) == 0 {
                self.comes(queue);
            }
        }
    }

    /// One turn, in which a part of the budget is used.
    fn turn(&mut self, part: Part) {
        self.some_come();
        let turn = self.engine.turn().expect("some have work") as usize;
        if self.others == Others::Stay {
            self.worst.wrong_choices += u32::from(!self.exact.allows(turn));
        }
        let wanted = part(&mut self.dice, self.engine.entity(number(turn)).budget);
        let mut left = wanted;
        while left > 0 {
            let sectors = self.dice.roll(8, 256).min(left);
            left -= sectors;
            self.engine.schedule.serve(number(turn), sectors);
            self.exact.serve(sectors);
            self.accounts.serve(turn, sectors, self.steady, &mut self.worst);
        }
        if turn < self.steady {
            let (lag, bound) = self.accounts.at_end(turn);
            raise(&mut self.worst.lag_at_end, lag - bound);
        }
        self.ends(turn, wanted);
        (0..self.steady).for_each(|queue| self.judge_times(queue));
    }

    fn ends(&mut self, turn: usize, served: u64) {
        let goes = self.others == Others::ComeAndGo && turn >= self.steady;
        if goes && self.dice.roll(0, 1) == 0 {
            return self.engine.leave(number(turn));
        }
        let budget = self.dice.roll(8, self.set.most[turn]);
        self.engine.end(number(turn), budget);
        self.exact.ends(turn, served);
        self.exact.asks(turn, budget);
    }

    fn judge_times(&mut self, queue: usize) {
        let (entity, vtime) = (self.engine.entity(number(queue)), self.engine.vtime());
        let (sum, most) = (self.set.sum(), self.set.most[queue]);
        let ahead = vt(most, entity.weight.into()) - vt(most, sum);
        let behind = vt(self.set.largest(), sum);
        let distance = |a: u64, b: u64| i128::from(a.wrapping_sub(b).cast_signed());
        raise(&mut self.worst.start, distance(entity.start, vtime) - i128::from(ahead));
        raise(&mut self.worst.finish, distance(vtime, entity.finish) - i128::from(behind));
    }
}

fn run(set: &Set, version: Version, others: Others, part: Part) -> Excess {
    let mut run = Run::new(set, version, others);
    (0..TURNS).for_each(|_| run.turn(part));
    run.worst
}

/// As the bounds assume: all have work, and use what they ask for.
fn full(set: &Set, version: Version) -> Excess {
    run(set, version, Others::Stay, all_of_it)
}

/// Requests of a turn, for each of which V may be rounded down by less than a unit.
const ROUNDING: i128 = 16_384 / 8;

proptest! {
    /// Is each choice of the engine that of exact fractions, where those leave no doubt?
    #[test]
    fn bfq_g_choices_are_those_of_exact_fractions(set in sets(2..10)) {
        prop_assert_eq!(full(&set, EXACT).wrong_choices, 0);
    }

    /// G1: after each turn, does every queue start ahead of V by at most its largest budget divided
    /// by its weight, less what all move on by that budget? Also with the kernel's shortcut, and
    /// with budgets that are not used up.
    #[test]
    fn bfq_g1_nobody_starts_far_ahead(set in sets(2..10)) {
        for version in [EXACT, LINUX_4_19, LINUX_6_18] {
            for part in [all_of_it, a_part_of_it] {
                let Excess { start, .. } = run(&set, version, Others::Stay, part);
                prop_assert!(start <= ROUNDING, "{} {start}", version.name);
            }
        }
    }

    /// G2: does V pass no finish by more than one largest budget divided by the sum of weights?
    #[test]
    fn bfq_g2_nobody_is_passed_by_far(set in sets(2..10)) {
        let Excess { finish, .. } = full(&set, EXACT);
        prop_assert!(finish <= 1, "{finish}");
    }

    /// G3: when its turn ends, does every queue lag by at most one largest budget, counted from any
    /// moment?
    #[test]
    fn bfq_g3_lag_is_at_most_one_budget(set in sets(2..10)) {
        let Excess { lag_at_end, .. } = full(&set, EXACT);
        prop_assert!(lag_at_end <= 0, "{lag_at_end}");
    }

    /// G4: does every queue lag by at most two budgets at any time?
    #[test]
    fn bfq_g4_lag_at_any_time(set in sets(2..10)) {
        let Excess { lag, .. } = full(&set, EXACT);
        prop_assert!(lag <= 0, "{lag}");
    }

    /// G5: is every queue ahead by at most two budgets at any time?
    #[test]
    fn bfq_g5_lead_at_any_time(set in sets(2..10)) {
        let Excess { lead, .. } = full(&set, EXACT);
        prop_assert!(lead <= 0, "{lead}");
    }

    /// Do G3 and G4 hold for queues that have work all the time while others join them?
    #[test]
    fn bfq_g3_others_may_come(set in sets(3..10)) {
        let worst = run(&set, EXACT, Others::Come, all_of_it);
        prop_assert!(worst.lag_at_end <= 0 && worst.lag <= 0, "{worst:?}");
    }

    /// G6: if budgets are used in part, is no queue ever off by more than two largest budgets? Not
    /// a theorem: observed, with either kernel's engine.
    #[test]
    fn bfq_g6_budgets_that_are_not_used_up(set in sets(2..10)) {
        for version in [EXACT, LINUX_4_19, LINUX_6_18] {
            let Excess { twice, .. } = run(&set, version, Others::Stay, a_part_of_it);
            prop_assert!(twice <= 0, "{} {twice}", version.name);
        }
    }

    /// What does the kernel's shortcut cost? Not a theorem: lag and lead exceeded the bounds by at
    /// most the largest budget, and were at most two budgets in all.
    #[test]
    fn bfq_g6_the_kernels_shortcut(set in sets(2..10)) {
        let more = i128::from(set.sum()) * i128::from(set.largest());
        let worst = full(&set, LINUX_6_18);
        let Excess { lag_at_end, lag, lead, .. } = worst;
        prop_assert!(lag_at_end.max(lag).max(lead) <= more && worst.twice <= 0, "{worst:?}");
    }

    /// How far does a queue lag among others that come and go, and are remembered when they leave
    /// ahead of their share? Not a theorem: so far twice the bound of G3 was never exceeded.
    #[test]
    fn bfq_g6_others_may_come_and_go(set in sets(3..10)) {
        let mut run = Run::new(&set, EXACT, Others::ComeAndGo);
        for _ in 0..TURNS {
            run.turn(all_of_it);
            for queue in 0..run.steady {
                let (lag, bound) = run.accounts.at_end(queue);
                prop_assert!(lag <= 3 * bound, "{queue} {lag} {bound}");
            }
        }
    }
}

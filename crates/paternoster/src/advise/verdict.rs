// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdict: which of the schedulers that were tried is best, why, and what would change that.
//!
//! ```text
//! all ─▶ meet every goal with every seed? ─▶ share >= 0.9? ─▶ most work ─▶ within 1 %: lowest p99
//!         └ none: nearest to the limits       └ none: the greatest share
//! ```
//!
//! # Invariants
//! V1  The order is total and depends on nothing but the trials: ties go to the first.
//! V2  A goal counts as met only if the worst of the seeds meets it.

use paternoster_frame::results::{alike, identical};

use super::goal::{Goal, Metric};
use super::trial::{Figures, Trial};

/// A client with this much of its entitlement has its share.
const FAIR: f64 = 0.9;
/// Amounts of work that differ by less are equal.
const EQUAL: f64 = 0.01;

/// A figure over all seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut all: Vec<f64> = values.collect();
        all.sort_by(f64::total_cmp);
        match (all.first(), all.get(all.len() / 2), all.last()) {
            (Some(&least), Some(&median), Some(&most)) => Spread { least, median, most },
            _ => Spread { least: f64::NAN, median: f64::NAN, most: f64::NAN },
        }
    }

    /// Greatest less least, divided by the median.
    pub(crate) fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.most - self.least) / self.median } else { 0.0 }
    }
}

/// The question.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) device: String,
    pub(crate) jobs: Vec<String>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) schedulers: Vec<String>,
}

/// What one job got, over all seeds.
#[derive(Debug, Clone)]
pub(crate) struct JobRow {
    pub(crate) iops: Spread,
    pub(crate) bandwidth: Spread,
    pub(crate) p50: Spread,
    pub(crate) p99: Spread,
    pub(crate) p999: Spread,
    pub(crate) max: Spread,
    pub(crate) sync_p99: Option<Spread>,
    pub(crate) share: Option<Spread>,
}

/// How one goal was kept, by the job that kept it worst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) median: f64,
    pub(crate) worst: f64,
    /// How far the worst seed misses the goal; see [`Goal::miss`].
    pub(crate) miss: f64,
}

/// One scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) scheduler: String,
    /// By job, as in the question.
    pub(crate) jobs: Vec<JobRow>,
    /// Verdicts by goal.
    pub(crate) goals: Vec<Kept>,
    /// What a client got divided by its entitlement, the least among all clients.
    pub(crate) share: Spread,
    /// The part of its capacity that the device used.
    pub(crate) work: Spread,
}

impl Row {
    /// The worst of its goals, 0 without any.
    pub(crate) fn miss(&self) -> f64 {
        self.goals.iter().map(|kept| kept.miss).fold(0.0, f64::max)
    }

    pub(crate) fn meets(&self) -> bool {
        self.miss() <= 1.0
    }

    pub(crate) fn is_fair(&self) -> bool {
        // If no client is promised anything, none misses it.
        self.share.median.is_nan() || self.share.median >= FAIR
    }

    /// How far the seeds lie apart: the rate of the job with the largest spread.
    pub(crate) fn spread(&self) -> f64 {
        self.jobs.iter().map(|job| job.iops.relative()).fold(0.0, f64::max)
    }

    /// Over all jobs, so that none counts for more because its requests are larger.
    fn tail(&self) -> f64 {
        self.jobs.iter().map(|job| job.p99.median.ln()).sum()
    }
}

/// Which scheduler to use.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) question: Question,
    pub(crate) seeds: usize,
    /// In the order of the question's schedulers.
    pub(crate) rows: Vec<Row>,
    /// Indices into `rows`, the best first.
    pub(crate) order: Vec<usize>,
    /// Why the best is the best.
    pub(crate) why: String,
    /// Changes that would lead to another advice.
    pub(crate) changes: Vec<String>,
    /// Which schedulers gave identical results with every seed, in sentences.
    pub(crate) identical: Vec<String>,
    /// A letter for each scheduler that was identical to another, in the order of the rows.
    pub(crate) alike: Vec<Option<char>>,
}

impl Advice {
    /// Whether two schedulers did the same with every seed.
    fn is_same(&self, a: usize, b: usize) -> bool {
        a == b || self.alike[a].is_some() && self.alike[a] == self.alike[b]
    }

    /// The best one after it that did something else.
    fn next_best(&self) -> Option<&usize> {
        self.order.iter().find(|&&place| !self.is_same(place, self.order[0]))
    }

    /// The best, the next one that did something else, and the last.
    pub(crate) fn worth_seeing(&self) -> Vec<usize> {
        let mut worth: Vec<usize> = Vec::new();
        let all = self.order.first().into_iter().chain(self.next_best()).chain(self.order.last());
        for place in all {
            if !worth.iter().any(|&seen| self.is_same(seen, *place)) {
                worth.push(*place);
            }
        }
        worth
    }

    /// Judges trials, by scheduler and seed.
    pub(crate) fn new(question: Question, trials: Vec<Vec<Trial>>) -> Advice {
        let seeds = trials.first().map_or(0, Vec::len);
        let rows: Vec<Row> = question
            .schedulers
            .iter()
            .zip(&trials)
            .map(|(scheduler, trials)| row(&question, scheduler, trials))
            .collect();
        let order = order(&rows);
        let commands = |trials: &Vec<Trial>| trials.iter().map(|one| one.commands).collect();
        let alike = alike(&trials.iter().map(commands).collect::<Vec<Vec<u64>>>());
        let names: Vec<&str> = question.schedulers.iter().map(String::as_str).collect();
        let identical = identical(&alike, &names);
        let (why, changes) = (String::new(), Vec::new());
        let mut advice = Advice { question, seeds, rows, order, why, changes, identical, alike };
        if !advice.order.is_empty() {
            (advice.why, advice.changes) = (advice.reason(), advice.changes());
        }
        advice
    }

    pub(crate) fn best(&self) -> &Row {
        &self.rows[self.order[0]]
    }

    fn reason(&self) -> String {
        let best = self.best();
        let name = &best.scheduler;
        let of = self.rows.len();
        let work = format!("{:.0} % of the work that the device can do", 100.0 * best.work.median);
        let share = if best.is_fair() {
            format!("each client has at least {FAIR:.1} of what it is entitled to")
        } else {
            format!("a client has only {:.2} of what it is entitled to", best.share.median)
        };
        if self.question.goals.is_empty() {
            let fair = self.rows.iter().filter(|row| row.is_fair()).count();
            return match fair {
                0 => format!(
                    "No scheduler gives each client its share; {name} is nearest: {share}, at \
                     {work}."
                ),
                1 => format!("{name}: the only one of {of} with which {share}; it does {work}."),
                _ => format!(
                    "{name}: {share}, as with {fair} of {of}; of those it does the most ({work}), \
                     or as much with a lower p99."
                ),
            };
        }
        let met = self.rows.iter().filter(|row| row.meets()).count();
        let share = if best.is_fair() { share } else { format!("but {share}") };
        match met {
            0 => format!(
                "No scheduler meets all goals with every seed; {name} is nearest: {}.",
                self.tight(best, "is missed")
            ),
            1 => format!("{name}: the only one of {of} that meets all goals; {share}, at {work}."),
            _ => format!("{name}: meets all goals, as {met} of {of} do; {share}, at {work}."),
        }
    }

    /// The worst goal of a row.
    fn tight(&self, row: &Row, verb: &str) -> String {
        let goals = self.question.goals.iter().zip(&row.goals);
        let worst = goals.max_by(|a, b| a.1.miss.total_cmp(&b.1.miss));
        worst.map_or(String::new(), |(goal, kept)| {
            let value = super::tell::value(goal.metric, kept.worst);
            format!("`{}` {verb} ({value} with the worst seed)", goal.text)
        })
    }

    fn changes(&self) -> Vec<String> {
        let best = self.best();
        let mut all = Vec::new();
        if best.meets() && !self.question.goals.is_empty() {
            all.push(format!("The tight goal: {}.", self.tight(best, "is kept")));
        }
        if let Some(next) = self.next_best().map(|&place| &self.rows[place]) {
            all.push(format!("Next best: {}.", self.beside(next)));
        }
        // The one with the most work of those that the rule put lower, and why.
        let more =
            self.rows.iter().filter(|row| row.work.median > best.work.median * (1.0 + EQUAL));
        // Of equal ones the first, which has the fewest attributes.
        if let Some(more) = more.rev().max_by(|a, b| a.work.median.total_cmp(&b.work.median)) {
            let why = if !more.meets() {
                self.tight(more, "is missed")
            } else {
                format!("a client has {:.2} of what it is entitled to", more.share.median)
            };
            let percent = 100.0 * (more.work.median / best.work.median - 1.0);
            all.push(format!(
                "If only work counted: {}, {percent:.0} % more, but {why}.",
                more.scheduler
            ));
        }
        let fairest =
            self.rows.iter().filter(|row| row.share.median > best.share.median * (1.0 + EQUAL));
        let fairest = fairest.rev().max_by(|a, b| a.share.median.total_cmp(&b.share.median));
        if let (false, Some(fairest)) = (best.is_fair(), fairest) {
            all.push(format!("If shares counted first: {}.", self.beside(fairest)));
        }
        all
    }

    /// A row compared with the best.
    fn beside(&self, row: &Row) -> String {
        let best = self.best();
        let work = 100.0 * (row.work.median / best.work.median - 1.0);
        let mut text = format!("{}, with {work:+.1} % work", row.scheduler);
        if !row.share.median.is_nan() {
            text += &format!(", least share {:.2}", row.share.median);
        }
        if !self.question.goals.is_empty() {
            let tight = if row.meets() {
                "it meets all goals, too".to_owned()
            } else {
                self.tight(row, "is missed")
            };
            text += &format!("; {tight}");
        }
        text
    }
}

fn row(question: &Question, scheduler: &str, trials: &[Trial]) -> Row {
    let jobs = (0..question.jobs.len()).map(|place| {
        let of = |figure: fn(&Figures) -> f64| {
            Spread::of(trials.iter().map(|trial| figure(&trial.jobs[place])))
        };
        let some = |figure: fn(&Figures) -> Option<f64>| {
            let known: Vec<f64> =
                trials.iter().filter_map(|trial| figure(&trial.jobs[place])).collect();
            (!known.is_empty()).then(|| Spread::of(known.into_iter()))
        };
        JobRow {
            iops: of(|job| job.iops),
            bandwidth: of(|job| job.bandwidth),
            p50: of(|job| job.p50),
            p99: of(|job| job.p99),
            p999: of(|job| job.p999),
            max: of(|job| job.max),
            sync_p99: some(|job| job.sync_p99),
            share: some(|job| job.share),
        }
    });
    let jobs: Vec<JobRow> = jobs.collect();
    let least = |trial: &Trial| {
        trial.jobs.iter().filter_map(|job| job.share).min_by(f64::total_cmp).unwrap_or(f64::NAN)
    };
    Row {
        scheduler: scheduler.to_owned(),
        goals: question.goals.iter().map(|goal| kept(question, goal, &jobs)).collect(),
        jobs,
        share: Spread::of(trials.iter().map(least)),
        work: Spread::of(trials.iter().map(|trial| trial.work)),
    }
}

fn kept(question: &Question, goal: &Goal, jobs: &[JobRow]) -> Kept {
    let nothing = Spread { least: f64::NAN, median: f64::NAN, most: f64::NAN };
    let own = question.jobs.iter().zip(jobs).filter(|(name, _)| goal.is_about(name));
    let kept = own.map(|(_, job)| {
        let spread = match goal.metric {
            Metric::P50 => job.p50,
            Metric::P99 => job.p99,
            Metric::P999 => job.p999,
            Metric::Max => job.max,
            Metric::SyncP99 => job.sync_p99.unwrap_or(nothing),
            Metric::Iops => job.iops,
            Metric::Bandwidth => job.bandwidth,
            Metric::Share => job.share.unwrap_or(nothing),
        };
        let worst = if goal.at_most { spread.most } else { spread.least };
        Kept { median: spread.median, worst, miss: goal.miss(worst) }
    });
    let worst = kept.max_by(|a, b| a.miss.total_cmp(&b.miss));
    worst.unwrap_or(Kept { median: f64::NAN, worst: f64::NAN, miss: f64::INFINITY })
}

/// Indices of rows, the best first: the best, then the best of the rest, and so on.
fn order(rows: &[Row]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..rows.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let best = best_of(rows, &left);
        left.retain(|&place| place != best);
        order.push(best);
    }
    order
}

fn best_of(rows: &[Row], left: &[usize]) -> usize {
    let keep = |of: &[usize], so: &dyn Fn(&Row) -> bool| -> Vec<usize> {
        of.iter().copied().filter(|&place| so(&rows[place])).collect()
    };
    let most = |of: &[usize], figure: fn(&Row) -> f64| {
        of.iter().map(|&place| figure(&rows[place])).fold(f64::NEG_INFINITY, f64::max)
    };
    let mut among = keep(left, &Row::meets);
    if among.is_empty() {
        let nearest = -most(left, |row| -row.miss());
        among = keep(left, &|row| row.miss() <= nearest);
    }
    let fair = keep(&among, &Row::is_fair);
    if fair.is_empty() {
        let share = most(&among, |row| row.share.median);
        among = keep(&among, &|row| row.share.median >= share * (1.0 - EQUAL));
    } else {
        among = fair;
    }
    let work = most(&among, |row| row.work.median);
    among = keep(&among, &|row| row.work.median >= work * (1.0 - EQUAL));
    let tail = |place: &usize| rows[*place].tail();
    // `min_by` takes the first of equals. NaN, a job that did nothing, comes last.
    among.into_iter().min_by(|a, b| tail(a).total_cmp(&tail(b))).unwrap_or(left[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(work: f64, share: f64, p99: f64) -> Trial {
        let job = Figures {
            iops: 1000.0 * work,
            bandwidth: 4096.0 * 1000.0 * work,
            p50: p99 / 2.0,
            p99,
            p999: 2.0 * p99,
            max: 3.0 * p99,
            sync_p99: None,
            share: Some(share),
        };
        Trial { jobs: vec![job], work, commands: work.to_bits() }
    }

    fn advice(goals: &[&str], trials: &[(&str, Vec<Trial>)]) -> Advice {
        let jobs = vec!["db".to_owned()];
        let goals = goals.iter().map(|text| Goal::parse(text, &jobs).expect("a goal")).collect();
        let schedulers = trials.iter().map(|(name, _)| (*name).to_owned()).collect();
        let question = Question { device: "d".to_owned(), jobs, goals, schedulers };
        Advice::new(question, trials.iter().map(|(_, trials)| trials.clone()).collect())
    }

    /// Without goals: do shares come before work, work before p99, and p99 where amounts of work
    /// are equal? 0.795 is within 1 % of 0.80.
    #[test]
    fn shares_then_work_then_tail() {
        let found = advice(
            &[],
            &[
                ("unfair", vec![trial(1.0, 0.5, 1e6)]),
                ("slow", vec![trial(0.7, 0.95, 1e6)]),
                ("late", vec![trial(0.80, 0.95, 4e6)]),
                ("best", vec![trial(0.795, 0.92, 2e6)]),
            ],
        );
        let names: Vec<&str> =
            found.order.iter().map(|&place| found.rows[place].scheduler.as_str()).collect();
        assert_eq!(names, ["best", "late", "slow", "unfair"]);
        assert!(found.changes.iter().any(|text| text.contains("If only work counted: unfair")));
        assert!(found.changes[0].starts_with("Next best: late"), "{:?}", found.changes);
    }

    /// Does a goal come before shares, and does it take every seed to meet it? "often" has 3 ms
    /// with one seed and 6 ms with another, where 5 are required.
    #[test]
    fn a_goal_is_met_by_the_worst_seed() {
        let found = advice(
            &["db p99<5ms"],
            &[
                ("often", vec![trial(1.0, 1.0, 3e6), trial(1.0, 1.0, 6e6)]),
                ("always", vec![trial(0.6, 0.8, 4e6), trial(0.6, 0.8, 4e6)]),
            ],
        );
        assert_eq!(found.best().scheduler, "always");
        assert!(found.why.contains("the only one of 2 that meets all goals; but a client"));
        assert!(found.changes[0].contains("is kept (4.0 ms"), "{:?}", found.changes);
    }

    /// If none meets the goals, does the verdict say so and name the nearest, with how close it
    /// comes?
    #[test]
    fn nobody_meets_it() {
        let found = advice(
            &["db p99<1ms"],
            &[("far", vec![trial(1.0, 1.0, 9e6)]), ("near", vec![trial(0.5, 0.5, 2e6)])],
        );
        assert_eq!(found.best().scheduler, "near");
        assert!(found.why.contains("No scheduler meets all goals"), "{}", found.why);
        assert!(found.why.contains("2.0 ms"), "{}", found.why);
    }
}

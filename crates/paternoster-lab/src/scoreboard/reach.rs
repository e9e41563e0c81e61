// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reach: the most throughput at which each client of a cell can have what it is entitled to, of
//! all mixtures of what was measured there.
//!
//! ```text
//! one is served alone        ─┐
//! noop, device limited to D   ├─ states: what each client uses of the device in it
//! each scheduler's own run   ─┘
//!
//! mixture   a part of the time for each state; a client uses the sum of parts times uses
//! most      the largest throughput T of a mixture in which none misses more than 5 % of what T
//!           entitles it to
//! ```
//!
//! A scheduler that knew the states and their parts could do what a mixture does, but for what it
//! costs to go from one to another: so the figure is a witness that a cell can be kept.
//!
//! # Invariants
//! I1  A scheduler's own figures are never beyond it: its run is one of the states.
//!
//! Source: own; linear programming over time sharing.

use paternoster_workload::entitlement::{Party, Use, entitled_by_class};

use super::rule::ERROR_MOST;
use super::simplex;

/// Throughputs that are tried.
const STEPS: u32 = 200;

/// What is known of a window of a cell.
#[derive(Debug, Clone)]
pub(super) struct States {
    pub(super) seconds: f64,
    /// Classes of clients, and groups.
    pub(super) parties: Vec<Vec<Party>>,
    /// For each process: the part of the device that it uses alone.
    pub(super) demands: Vec<f64>,
    /// The client of each process, counted from 0; `None` for a process that is not present.
    pub(super) clients: Vec<Option<usize>>,
    /// For each client: whether it is owed something throughout.
    pub(super) backlogged: Vec<bool>,
    /// For each state and process: the part of the device that it uses.
    pub(super) costs: Vec<Vec<f64>>,
    /// Laws that hold under any scheduler.
    pub(super) laws: Vec<Law>,
}

/// Of its time a client has what its own requests take alone, and the delays that requests of
/// another mean: cost / demand + factor * cost of the other <= 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Law {
    /// Processes.
    pub(super) own: usize,
    pub(super) other: usize,
    /// The least delay by a request, times requests a second of a device that is full of them.
    pub(super) factor: f64,
}

impl States {
    /// For each client: the sum of its processes' figures.
    fn by_client(&self, own: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.backlogged.len()];
        for (&client, figure) in self.clients.iter().zip(own) {
            if let Some(client) = client {
                sums[client] += figure;
            }
        }
        sums
    }

    /// What each client is entitled to when all together use `whole`.
    fn entitled(&self, whole: f64) -> Vec<f64> {
        let demand: f64 = self.demands.iter().sum();
        let part = if demand > 0.0 { whole / demand } else { 0.0 };
        // What is used is divided among the demands, which are no less for it.
        let of = |&alone: &f64| Use { rate: alone * part, alone, saturated: 1.0 };
        let uses: Vec<Use> = self.demands.iter().map(of).collect();
        self.by_client(&entitled_by_class(&self.parties, &uses))
    }

    /// The least error of a mixture of which the throughput is `whole`, and the parts of time.
    fn least_error(&self, whole: f64) -> Option<(f64, Vec<f64>)> {
        let states: Vec<Vec<f64>> = self.costs.iter().map(|costs| self.by_client(costs)).collect();
        let entitled = self.entitled(whole);
        let owed: Vec<usize> = (0..entitled.len())
            .filter(|&client| self.backlogged[client] && entitled[client] > 0.0)
            .collect();
        // Unknowns: a part of the time for each state, the error, and by client what it has more.
        let count = states.len();
        let width = count + 1 + owed.len();
        let mut rows = Vec::new();
        let row = |of: &dyn Fn(usize) -> f64| {
            let mut row = vec![0.0; width];
            (0..count).for_each(|state| row[state] = of(state));
            row
        };
        rows.push((row(&|_| 1.0), 1.0));
        rows.push((row(&|state| self.costs[state].iter().sum()), whole));
        for (nth, &client) in owed.iter().enumerate() {
            let mut own = row(&|state| states[state][client] / entitled[client]);
            (own[count], own[count + 1 + nth]) = (1.0, -1.0);
            rows.push((own, 1.0));
        }
        let mut cost = vec![0.0; width];
        cost[count] = 1.0;
        let (error, mut found) = simplex::least(&cost, &rows)?;
        found.truncate(count);
        Some((error, found))
    }

    /// The most throughput of a mixture in which no client misses more than is kept.
    fn most(&self) -> f64 {
        let fair =
            |whole: f64| self.least_error(whole).is_some_and(|(error, _)| error <= ERROR_MOST);
        largest(self.best(), fair)
    }

    fn best(&self) -> f64 {
        self.costs.iter().map(|costs| costs.iter().sum::<f64>()).fold(0.0, f64::max)
    }

    /// The throughput that no scheduler exceeds with so small an error, where that is known: for
    /// two clients, each a process of its own.
    fn bound(&self) -> Option<f64> {
        let [first, second] = self.demands[..] else { return None };
        if self.laws.is_empty() {
            return None;
        }
        let allowed = |whole: f64| {
            let entitled = self.entitled(whole);
            let least = |client: usize| (1.0 - ERROR_MOST) * entitled[client];
            // The first one's cost is between these; laws are lines, so that an end holds if any.
            let from = least(0).max(whole - second);
            let to = (whole - least(1)).min(first);
            let holds = |own: f64| {
                let costs = [own, whole - own];
                self.laws.iter().all(|law| self.holds(law, &costs, 0.0))
            };
            let between = |part: u32| from + (to - from) * f64::from(part) / f64::from(STEPS);
            from <= to && (0..=STEPS).any(|part| holds(between(part)))
        };
        Some(largest(first + second, allowed))
    }

    /// Whether a law holds for costs by process, but for so much.
    pub(super) fn holds(&self, law: &Law, costs: &[f64], but: f64) -> bool {
        costs[law.own] / self.demands[law.own] + law.factor * costs[law.other] <= 1.0 + but
    }
}

/// The largest throughput that is allowed, of [`STEPS`] up to `most`.
fn largest(most: f64, allowed: impl Fn(f64) -> bool) -> f64 {
    let mut steps = (1..=STEPS).rev().map(|step| most * f64::from(step) / f64::from(STEPS));
    steps.find(|&whole| allowed(whole)).unwrap_or(0.0)
}

/// The most throughput at which a cell's clients have what they are entitled to, over its windows.
pub(super) fn most(windows: &[States]) -> f64 {
    let seconds: f64 = windows.iter().map(|window| window.seconds).sum();
    windows.iter().map(|window| window.most() * window.seconds).sum::<f64>() / seconds
}

/// What no scheduler exceeds there, if that is known.
pub(super) fn bound(windows: &[States]) -> Option<f64> {
    match windows {
        [window] => window.bound(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients of equal weight that use so much alone, and together.
    fn pair(demands: [f64; 2], together: [f64; 2], laws: Vec<Law>) -> States {
        let one = |place| Party::Client(place, 1.0);
        States {
            seconds: 1.0,
            parties: vec![vec![one(0), one(1)]],
            demands: demands.to_vec(),
            clients: vec![Some(0), Some(1)],
            backlogged: vec![true, true],
            costs: vec![
                vec![0.0, 0.0],
                vec![demands[0], 0.0],
                vec![0.0, demands[1]],
                together.to_vec(),
            ],
            laws,
        }
    }

    fn near(a: f64, b: f64, by: f64) -> bool {
        (a - b).abs() <= by
    }

    /// Is the docs' example computed? One uses 0.13 alone, the other 0.75, together 0.03 and 0.75.
    /// At 0.78 the first is entitled to 0.13 and misses 77 %. With all of T halved, and 5 % less
    /// for the first one, it uses 0.475 T, the other 0.525 T: in turns that takes
    /// 0.475 T / 0.13 + 0.525 T / 0.75 = 4.35 T of the time, so T = 0.230; part of the time
    /// together gives 0.03 more by one part of the other's: 0.234, a step of 0.0039 less or more.
    #[test]
    fn a_mixture_is_found() {
        let states = pair([0.13, 0.75], [0.03, 0.75], Vec::new());
        let most = states.most();
        assert!((0.226..=0.239).contains(&most), "{most}");
        let (error, parts) = states.least_error(0.5).expect("it is within reach");
        assert!(error > ERROR_MOST && near(parts.iter().sum(), 1.0, 1e-6), "{error} {parts:?}");
        // Nothing beyond the most that is used together.
        assert_eq!(states.least_error(0.8), None);
    }

    /// Does a law bound what any scheduler has? A request of the other delays the first one so that
    /// 0.71 of its time are gone when the other has all: c1 / 0.13 + 0.71 c2 <= 1. With 0.475 T and
    /// 0.525 T: T (3.65 + 0.37) = 1, T = 0.2485. Without delays both have all that they use alone.
    #[test]
    fn laws_bound_what_mixtures_reach() {
        let law = |factor| vec![Law { own: 0, other: 1, factor }];
        let states = pair([0.13, 0.75], [0.03, 0.75], law(0.71));
        let bound = states.bound().expect("there is a law");
        assert!(near(bound, 0.2485, 0.005) && states.most() <= bound, "{bound}");
        let free = pair([0.13, 0.75], [0.03, 0.75], law(0.0)).bound();
        assert!(free.is_some_and(|free| near(free, 0.88, 0.005)), "{free:?}");
        assert_eq!(pair([0.13, 0.75], [0.03, 0.75], Vec::new()).bound(), None);
        // What both did together breaks no such law: 0.03 / 0.13 + 0.71 * 0.75 = 0.76.
        assert!(states.holds(&states.laws[0], &states.costs[3], 0.0));
        assert!(!states.holds(&states.laws[0], &[0.13, 0.1], 0.0));
    }

    /// Is a mixture of pairs found where each alone is too little? Weights 1 and 2 and 3, each 0.5
    /// alone, any two fill the device: the last one, owed a half of it, is in all pairs; 2 / 6 and
    /// 1 / 6 are two thirds and one third of the time.
    #[test]
    fn pairs_give_parts_by_weight() {
        let client = |place: usize, weight| Party::Client(place, weight);
        let states = States {
            seconds: 1.0,
            parties: vec![vec![client(0, 1.0), client(1, 2.0), client(2, 3.0)]],
            demands: vec![0.5; 3],
            clients: vec![Some(0), Some(1), Some(2)],
            backlogged: vec![true; 3],
            costs: vec![vec![0.5, 0.5, 0.0], vec![0.5, 0.0, 0.5], vec![0.0, 0.5, 0.5]],
            laws: Vec::new(),
        };
        let (error, parts) = states.least_error(1.0).expect("all of them fill it");
        assert!(error < 1e-6 && near(parts[1], 1.0 / 3.0, 1e-6), "{error} {parts:?}");
    }
}

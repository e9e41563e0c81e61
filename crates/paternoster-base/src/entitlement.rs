// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entitlement: what each client of a device should have had, and how far its result is from it.
//!
//! A client's *cost* is its rate divided by the rate that its own kind of request reaches when the
//! device is full of them: the part of the device that it used, whatever its requests. Its *demand*
//! is what it could use alone, at its own depth and pace. What all of them used together is then
//! divided again: by weight, no client more than its demand, group by group.
//!
//! ```text
//! an SSD that does 400 k reads of 4 KiB or 40 k of 64 KiB; weights 1 and 1
//!            rate     cost    alone    demand    entitled             error
//! 4 KiB       80 k    0.20    400 k     1.00     0.45 -> 180 k    1 - 0.20 / 0.45 = 56 %
//! 64 KiB      28 k    0.70     40 k     1.00     0.45 ->  18 k    none: it got more
//!                     0.90 were used
//! ```
//!
//! A client whose requests are all in the device is as entitled as one whose requests wait: rates
//! are compared, not queues.
//!
//! # Invariants
//! I1  What all are entitled to is what all used, if their demands allow it.
//! I2  No client is entitled to more than its demand, nor to less than a sibling with no larger
//!     weight and demand.
//!
//! Source: water-filling (max-min fairness); findings of the schedulers' review, "The measure".

/// The weight of what has none, as of a new cgroup.
pub const WEIGHT: f64 = 100.0;

/// A client's use of the device, and its demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// What the client got, in I/Os a second.
    pub rate: f64,
    /// What the client gets alone, at its own depth and pace.
    pub alone: f64,
    /// The rate of its kind of request when the device is full of such requests.
    pub saturated: f64,
}

impl Use {
    /// The part of the device that it used.
    #[must_use]
    pub fn cost(&self) -> f64 {
        ratio(self.rate, self.saturated)
    }

    /// The most that it could use.
    #[must_use]
    pub fn demand(&self) -> f64 {
        ratio(self.alone, self.saturated).min(1.0).max(self.cost())
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// A client, or a group of them, and its weight compared with its siblings'.
#[derive(Debug, Clone, PartialEq)]
pub enum Party {
    /// A client with this place, of this weight.
    Client(usize, f64),
    /// A group of this weight, and its members.
    Group(Vec<Party>, f64),
}

impl Party {
    const fn weight(&self) -> f64 {
        match self {
            Party::Client(_, weight) | Party::Group(_, weight) => *weight,
        }
    }

    fn demand(&self, uses: &[Use]) -> f64 {
        match self {
            Party::Client(place, _) => uses[*place].demand(),
            Party::Group(all, _) => all.iter().map(|one| one.demand(uses)).sum(),
        }
    }
}

/// The cost that each client is entitled to, in the order of `uses`.
#[must_use]
pub fn entitled(parties: &[Party], uses: &[Use]) -> Vec<f64> {
    let mut all = vec![0.0; uses.len()];
    let used = uses.iter().map(Use::cost).sum();
    divide(parties, uses, used, &mut all);
    all
}

/// The same of parties in classes, the first class first: each divides what those before it leave.
#[must_use]
pub fn entitled_by_class(classes: &[Vec<Party>], uses: &[Use]) -> Vec<f64> {
    let mut all = vec![0.0; uses.len()];
    let mut left: f64 = uses.iter().map(Use::cost).sum();
    for parties in classes {
        let demand: f64 = parties.iter().map(|party| party.demand(uses)).sum();
        divide(parties, uses, left, &mut all);
        left = (left - demand).max(0.0);
    }
    all
}

fn divide(parties: &[Party], uses: &[Use], whole: f64, all: &mut [f64]) {
    let demands: Vec<f64> = parties.iter().map(|party| party.demand(uses)).collect();
    let weights: Vec<f64> = parties.iter().map(Party::weight).collect();
    let level = level(&demands, &weights, whole);
    for ((party, demand), weight) in parties.iter().zip(demands).zip(weights) {
        let part = demand.min(weight * level);
        match party {
            Party::Client(place, _) => all[*place] = part,
            Party::Group(members, _) => divide(members, uses, part, all),
        }
    }
}

/// The level at which the demands, cut off at weight times level, make up `whole`; at which all are
/// met if they do not.
#[must_use]
pub fn level(demands: &[f64], weights: &[f64], whole: f64) -> f64 {
    let mut order: Vec<(f64, f64)> =
        demands.iter().zip(weights).map(|(&demand, &weight)| (demand, weight)).collect();
    order.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (mut left, mut weight_left) = (whole, weights.iter().sum::<f64>());
    for &(demand, weight) in &order {
        if demand / weight * weight_left >= left {
            return left / weight_left;
        }
        left -= demand;
        weight_left -= weight;
    }
    order.last().map_or(0.0, |(demand, weight)| demand / weight)
}

/// The parts of the device that a client got and that it is entitled to, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The part that the client got.
    pub got: f64,
    /// The part that it is entitled to.
    pub entitled: f64,
}

impl Part {
    /// The fraction of its entitlement that it got; 1 and more is content.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.entitled > 0.0 { self.got / self.entitled } else { 1.0 }
    }
}

/// For each client, what it got and what it is entitled to.
#[must_use]
pub fn parts(parties: &[Party], uses: &[Use]) -> Vec<Part> {
    let part = |(&entitled, own): (&f64, &Use)| Part { got: own.cost(), entitled };
    entitled(parties, uses).iter().zip(uses).map(part).collect()
}

/// Clients as siblings, each with its group's path and that group's weight. A group that appears
/// only in other groups' paths weighs [`WEIGHT`], as does a client without a group; clients of one
/// group are alike.
#[must_use]
pub fn tree(clients: &[(Option<&str>, f64)]) -> Vec<Party> {
    tree_of(&(0..clients.len()).collect::<Vec<_>>(), clients)
}

/// The same of those at some places alone.
#[must_use]
pub fn tree_of<'a>(places: &[usize], clients: &[(Option<&'a str>, f64)]) -> Vec<Party> {
    let path = |(path, _): &(Option<&'a str>, f64)| path.map(|path| path.split('/').collect());
    let paths: Vec<Vec<&str>> = clients.iter().map(|one| path(one).unwrap_or_default()).collect();
    let weights: Vec<f64> = clients.iter().map(|&(_, weight)| weight).collect();
    below(0, places, &paths, &weights)
}

/// The siblings `deep` levels down, of the clients at `places`.
fn below(deep: usize, places: &[usize], paths: &[Vec<&str>], weights: &[f64]) -> Vec<Party> {
    let mut all = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for &place in places {
        let Some(&name) = paths[place].get(deep) else {
            all.push(Party::Client(place, WEIGHT));
            continue;
        };
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let is_in = |&&other: &&usize| paths[other].get(deep) == Some(&name);
        let members: Vec<usize> = places.iter().filter(is_in).copied().collect();
        let own = members.iter().find(|&&other| paths[other].len() == deep + 1);
        let weight = own.map_or(WEIGHT, |&other| weights[other]);
        all.push(Party::Group(below(deep + 1, &members, paths, weights), weight));
    }
    all
}

/// For each client: the part of its entitlement that it did not get, 0 to 1.
#[must_use]
pub fn misses(parties: &[Party], uses: &[Use]) -> Vec<f64> {
    let miss = |(&part, own): (&f64, &Use)| (1.0 - ratio(own.cost(), part)).max(0.0);
    entitled(parties, uses).iter().zip(uses).map(miss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// Does the example above hold? 80 / 400 + 28 / 40 = 0.9, half of it each.
    #[test]
    fn cost_and_not_requests_is_divided() {
        let small = Use { rate: 80.0, alone: 400.0, saturated: 400.0 };
        let large = Use { rate: 28.0, alone: 40.0, saturated: 40.0 };
        let both = [Party::Client(0, 1.0), Party::Client(1, 1.0)];
        let found = misses(&both, &[small, large]);
        assert!(near(found[0], 1.0 - 0.20 / 0.45) && near(found[1], 0.0), "{found:?}");
    }

    /// Does a client that asks for little get that, and do the others share the rest by weight? Of
    /// 1.0 the first wants 0.1; 0.9 divided 1 to 2 is 0.3 and 0.6.
    #[test]
    fn what_one_does_not_want_is_for_the_others() {
        let little = Use { rate: 10.0, alone: 10.0, saturated: 100.0 };
        let flood = Use { rate: 45.0, alone: 100.0, saturated: 100.0 };
        let all = [Party::Client(0, 8.0), Party::Client(1, 1.0), Party::Client(2, 2.0)];
        let found = entitled(&all, &[little, flood, flood]);
        assert!(near(found[0], 0.1) && near(found[1], 0.3) && near(found[2], 0.6), "{found:?}");
    }

    /// Does a higher class get all that it asks for, and does the next share what is left? Of 1.0
    /// used the first takes 0.4, two floods after it 0.3 each, the idle one nothing.
    #[test]
    fn classes_come_one_after_the_other() {
        let first = Use { rate: 40.0, alone: 40.0, saturated: 100.0 };
        let flood = Use { rate: 20.0, alone: 100.0, saturated: 100.0 };
        let one = |place| Party::Client(place, 1.0);
        let classes = [vec![one(0)], vec![one(1), one(2)], vec![one(3)]];
        let found = entitled_by_class(&classes, &[first, flood, flood, flood]);
        let wanted = [0.4, 0.3, 0.3, 0.0];
        assert!(found.iter().zip(wanted).all(|(found, wanted)| near(*found, wanted)), "{found:?}");
    }

    /// Do paths of groups become groups, with the given weights? `a` is only named in a path, `b`
    /// holds two clients, and one client has no group.
    #[test]
    fn paths_of_groups_are_a_tree() {
        let clients = [(Some("a/x"), 300.0), (Some("b"), 200.0), (None, 7.0), (Some("b"), 200.0)];
        let x = Party::Group(vec![Party::Client(0, WEIGHT)], 300.0);
        let b = vec![Party::Client(1, WEIGHT), Party::Client(3, WEIGHT)];
        let client = Party::Client(2, WEIGHT);
        let wanted = [Party::Group(vec![x], WEIGHT), Party::Group(b, 200.0), client];
        assert_eq!(tree(&clients), wanted);
    }

    /// Is a group one party, however many are in it? Two of three floods are in one group: a half
    /// for the third, a quarter each for the two.
    #[test]
    fn groups_stand_beside_each_other() {
        let flood = Use { rate: 1.0, alone: 3.0, saturated: 3.0 };
        let pair = vec![Party::Client(0, 5.0), Party::Client(1, 5.0)];
        let all = [Party::Group(pair, 1.0), Party::Client(2, 1.0)];
        let found = entitled(&all, &[flood; 3]);
        assert!(near(found[0], 0.25) && near(found[1], 0.25) && near(found[2], 0.5), "{found:?}");
    }
}

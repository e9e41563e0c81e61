// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts compared with a naive model: G1, G2, G5 as they are written down.
//!
//! The model keeps each account as an exact fraction, `paid / weight`, and finds the least by
//! looking at all. Random arrivals, dispatches of the first client, ends and changes of weight go
//! to both.
//!
//! ```text
//! root ─┬─ clients 0, 1, 2
//!       └─ group A ─┬─ clients 3, 4
//!                   └─ group B ── client 5
//! ```

use super::super::super::account::{Accounts, CROWD, STREAM, UNIT};
use super::*;
use paternoster_core::slab::NIL;

const CLIENTS: u32 = 6;
/// Groups come after the clients.
const ROOT: u32 = CLIENTS;
const PARENTS: [u32; 9] = [ROOT, ROOT, ROOT, ROOT + 1, ROOT + 1, ROOT + 2, NIL, ROOT, ROOT + 1];
const BEST_EFFORT: u8 = Class::BestEffort as u8;
const NOW: Nanos = Nanos::from_millis(1000);

/// A step of a random history.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request of a client arrives, of one of the two kinds.
    Arrive(u32, usize),
    /// The first client goes, for an estimate.
    Go(i64),
    /// The request dispatched first ends, and took this long.
    End(i64),
    /// One of a client's waiting requests is cancelled.
    Leave(u32),
    /// A client's next request is expected, or no longer.
    Expect(u32, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0..CLIENTS;
    let step = prop_oneof![
        4 => (client.clone(), 0usize..2).prop_map(|(client, kind)| Step::Arrive(client, kind)),
        4 => (1i64..5_000_000).prop_map(Step::Go),
        4 => (0i64..5_000_000).prop_map(Step::End),
        1 => client.clone().prop_map(Step::Leave),
        1 => (client, any::<bool>()).prop_map(|(client, comes)| Step::Expect(client, comes)),
    ];
    prop::collection::vec(step, 1..300)
}

/// An account of the model.
#[derive(Debug, Clone, Copy, Default)]
struct Plain {
    weight: i128,
    /// Virtual time times the weight, in units.
    paid: i128,
    /// Total charge so far, in ns.
    charged: i128,
    waiting: [u32; 2],
    flying: u32,
    floor: i128,
    dearest: i128,
    /// The same of longer ago; no time passes here.
    dearest_then: i128,
    expected: bool,
}

impl Plain {
    const fn vt(&self) -> i128 {
        self.paid.div_euclid(self.weight)
    }

    const fn waits(&self) -> bool {
        self.waiting[0] + self.waiting[1] > 0
    }
}

struct Model {
    all: [Plain; 9],
}

impl Model {
    fn ways(client: u32) -> impl Iterator<Item = usize> {
        core::iter::successors(Some(client as usize), |&at| {
            let parent = PARENTS[at];
            (parent != NIL).then_some(parent as usize)
        })
    }

    fn least_waiting(&self, group: u32) -> Option<i128> {
        let waits = |&at: &usize| PARENTS[at] == group && self.all[at].waits();
        (0..9).filter(waits).map(|at| self.all[at].vt()).min()
    }

    /// C4 and G5: an idle client starts at the floor, or two of the most expensive requests behind
    /// it; one that had something in the device, but nothing waiting, two turns and one of the most
    /// expensive behind it, or 64 of the most expensive of longer ago if that is less.
    fn arrive(&mut self, client: u32, kind: usize) {
        for at in Model::ways(client) {
            let own = self.all[at];
            if !own.waits() && PARENTS[at] != NIL {
                let above = self.all[PARENTS[at] as usize];
                let turns = above.dearest + 320_000_000 * 64 / own.weight;
                let owed = turns.min(64 * above.dearest.max(above.dearest_then));
                let idle = if own.expected { 2 * above.dearest } else { 0 };
                let behind = if own.flying > 0 { owed } else { idle };
                let least = above.floor - behind;
                if own.vt() < least {
                    self.all[at].paid = least * own.weight;
                }
            }
            self.all[at].waiting[kind] += 1;
        }
    }

    /// C1 and C3.
    fn go(&mut self, client: u32, kind: usize, estimate: i64) {
        for at in Model::ways(client) {
            let parent = PARENTS[at];
            if parent != NIL {
                let least = self.least_waiting(parent).expect("one goes");
                let above = &mut self.all[parent as usize];
                above.floor = above.floor.max(least);
                above.dearest_then = above.dearest_then.max(above.dearest);
            }
            let own = &mut self.all[at];
            own.waiting[kind] -= 1;
            own.flying += 1;
            own.pay(estimate);
        }
    }

    /// C2.
    fn end(&mut self, client: u32, estimate: i64, took: i64) {
        for at in Model::ways(client) {
            let own = &mut self.all[at];
            own.flying -= 1;
            own.pay(took - estimate);
            let price = i128::from(took) * i128::from(UNIT) / own.weight;
            if PARENTS[at] != NIL {
                let dearest = &mut self.all[PARENTS[at] as usize].dearest;
                *dearest = price.max(*dearest - *dearest / 256);
            }
        }
    }
}

impl Plain {
    fn pay(&mut self, ns: i64) {
        self.paid += i128::from(ns) * i128::from(UNIT);
        self.charged += i128::from(ns);
    }
}

/// The accounts and the model.
struct Pair {
    accounts: Accounts,
    model: Model,
    /// The clients in the device, and their estimates.
    flying: Vec<(u32, i64)>,
    took: i128,
}

impl Pair {
    fn new(weights: &[u32]) -> Pair {
        let mut accounts = Accounts::new(CLIENTS, 3, 0);
        let mut model = Model { all: [Plain { weight: 1, ..Plain::default() }; 9] };
        for node in [7, 8, 0, 1, 2, 3, 4, 5] {
            let weight = weights[node as usize];
            accounts.open(node, PARENTS[node as usize], weight, BEST_EFFORT);
            model.all[node as usize].weight = i128::from(weight);
        }
        Pair { accounts, model, flying: Vec::new(), took: 0 }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Arrive(client, kind) => {
                // A client waits as one kind at a time; its other requests keep theirs.
                self.accounts.arrive(client, kind, NOW, 0);
                self.model.arrive(client, kind);
            }
            Step::Go(estimate) => return self.go(estimate),
            Step::End(took) if !self.flying.is_empty() => {
                let (client, estimate) = self.flying.remove(0);
                self.accounts.end(client, estimate, took);
                self.model.end(client, estimate, took);
                self.took += i128::from(took);
            }
            Step::Leave(client) => {
                let waiting = self.model.all[client as usize].waiting;
                if let Some(kind) = (0..2).find(|&kind| waiting[kind] > 0) {
                    self.accounts.leave(client, kind);
                    for at in Model::ways(client) {
                        self.model.all[at].waiting[kind] -= 1;
                    }
                }
            }
            Step::Expect(client, comes) => {
                // On the way up the latest time counts: groups do not learn that no request will
                // come.
                self.accounts.expect(client, if comes { NOW + Nanos(1) } else { Nanos::ZERO });
                self.model.all[client as usize].expected = comes;
                for at in Model::ways(client).skip(1) {
                    self.model.all[at].expected |= comes;
                }
            }
            Step::End(_) => {}
        }
        Ok(())
    }

    fn go(&mut self, estimate: i64) -> Result<(), TestCaseError> {
        let Some(client) = self.accounts.first(&[CROWD, STREAM], NOW, &|_| false) else {
            prop_assert!(!self.model.all[ROOT as usize].waits(), "somebody waits");
            return Ok(());
        };
        // G2: at each level no waiting node has had less.
        for at in Model::ways(client).filter(|&at| PARENTS[at] != NIL) {
            let least = self.model.least_waiting(PARENTS[at]);
            prop_assert_eq!(Some(self.model.all[at].vt()), least, "{} goes", at);
        }
        let waiting = self.accounts.at(client).queued;
        let kind = if waiting[CROWD] > 0 { CROWD } else { STREAM };
        self.accounts.dispatch(client, kind, estimate, NOW);
        self.model.go(client, kind, estimate);
        self.flying.push((client, estimate));
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        for (node, plain) in (0u32..).zip(&self.model.all) {
            let own = self.accounts.at(node);
            let known = (i128::from(own.charged), own.queued, own.flying);
            prop_assert_eq!(known, (plain.charged, plain.waiting, plain.flying), "{}", node);
            if node != ROOT {
                prop_assert_eq!(i128::from(own.vt), plain.vt(), "virtual time of {}", node);
            }
        }
        prop_assert_eq!(self.accounts.check(), Ok(()));
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// Do accounts do what the rules say, step by step, whatever happens (G2, G5)? And have all
    /// clients together paid for what was used, once nothing is in the device (G1)?
    #[test]
    fn g1_g2_g5_accounts_are_the_models(
        weights in prop::collection::vec(1u32..=1000, 9),
        steps in steps(),
    ) {
        let mut pair = Pair::new(&weights);
        for step in steps {
            pair.step(step)?;
            pair.compare()?;
        }
        while !pair.flying.is_empty() {
            pair.step(Step::End(1_000))?;
        }
        pair.compare()?;
        let clients = (0..CLIENTS).map(|client| i128::from(pair.accounts.at(client).charged));
        prop_assert_eq!(clients.sum::<i128>(), pair.took);
        let all = pair.accounts.at(ROOT);
        prop_assert_eq!((i128::from(all.charged), all.estimated), (pair.took, 0));
    }
}

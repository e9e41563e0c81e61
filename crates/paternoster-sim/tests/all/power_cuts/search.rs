// SPDX-License-Identifier: MIT OR Apache-2.0
//! Search: random workloads until enough cuts were checked or something is lost; and the smallest
//! workload that loses it.
//!
//! A seed determines everything. Searches for planted faults always use the same one.

use std::cell::{Cell, RefCell};

use paternoster_core::RequestQueue;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::workload::{Ills, Plan, Step, plans, steps};
use super::world::{Census, run};

/// Steps of a workload, at most.
const STEPS: usize = 120;
/// Seeds under which a smaller workload is tried.
const SEEDS: u64 = 32;

/// Something that was lost.
#[derive(Debug)]
pub(crate) struct Loss {
    /// The seed of the search.
    pub(crate) seed: u64,
    /// The counts before it was found.
    pub(crate) before: Census,
    /// The smallest world and steps that lose something, and what.
    pub(crate) plan: Plan,
    pub(crate) steps: Vec<Step>,
    pub(crate) fault: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.fault)?;
        writeln!(
            f,
            "found behind {} cuts with PATERNOSTER_POWER_SEED={}",
            self.before.cuts, self.seed
        )?;
        writeln!(f, "{:?}", self.plan)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "    {step:?}"))
    }
}

/// A number from the environment.
pub(crate) fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {text:?}, where a whole number is right")))
}

pub(crate) fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        Config { max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Runs a workload under several seeds until something is lost; returns the loss with its seed.
fn under(
    seeds: u64,
    (plan, steps): (&Plan, &[Step]),
    ills: Ills,
    prepare: &dyn Fn(&mut RequestQueue),
) -> Result<Census, (Plan, String)> {
    let mut census = Census::default();
    for seed in 0..seeds {
        let plan = Plan { seed: plan.seed.wrapping_add(seed), ..*plan };
        census = run(&plan, steps, ills, prepare).map_err(|fault| (plan, fault))?;
    }
    Ok(census)
}

/// The steps without any run that can be left out. Proptest first removes steps and then
/// simplifies; simpler steps may have made others needless, several at a time.
fn without_needless(mut steps: Vec<Step>, is_lost: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let smaller = |steps: &[Step]| {
        let runs = (1..steps.len()).rev();
        let runs = runs.flat_map(|run| (0..=steps.len() - run).map(move |place| (place, run)));
        runs.map(|(place, run)| [&steps[..place], &steps[place + run..]].concat())
            .find(|fewer| is_lost(fewer))
    };
    while let Some(fewer) = smaller(&steps) {
        steps = fewer;
    }
    steps
}

/// Checks workloads with the faults `ills` until there were `cuts` cuts.
///
/// While a loss is shrunk each attempt has several seeds: with one step less the disk draws other
/// times for all the rest, and the rest may need another seed to show the same loss.
pub(crate) fn search(
    seed: u64,
    cuts: u64,
    ills: Ills,
    prepare: &dyn Fn(&mut RequestQueue),
) -> Result<Census, Box<Loss>> {
    let mut runner = runner(seed);
    let strategy = (plans(), steps(STEPS));
    let census = RefCell::new(Census::default());
    let lost = Cell::new(false);
    while census.borrow().at_risk < cuts {
        let tree = strategy.new_tree(&mut runner).expect("nothing is filtered out");
        let test = |(plan, steps): (Plan, Vec<Step>)| {
            let seeds = if lost.get() { SEEDS } else { 1 };
            match under(seeds, (&plan, &steps), ills, prepare) {
                Ok(one) if !lost.get() => census.borrow_mut().add(&one),
                Ok(_) => {}
                Err((_, fault)) => {
                    lost.set(true);
                    return Err(TestCaseError::fail(fault));
                }
            }
            Ok(())
        };
        if let Err(error) = runner.run_one(tree, test) {
            let TestError::Fail(_, (plan, steps)) = error else { panic!("{error}") };
            let steps = without_needless(steps, |steps| {
                under(SEEDS, (&plan, steps), ills, prepare).is_err()
            });
            let again = under(SEEDS, (&plan, &steps), ills, prepare);
            let (plan, fault) = again.expect_err("the smallest that was lost");
            let before = census.into_inner();
            return Err(Box::new(Loss { seed, before, plan, steps, fault }));
        }
    }
    Ok(census.into_inner())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster reproduce`: the published experiments, repeated; the published figures compared
//! with the results.
//!
//! ```text
//! names ──▶ experiments ──▶ runs ──▶ threads ──▶ measured ──▶ verdicts ──▶ table or JSON
//! ```
//!
//! Runs are independent, so threads take them one by one; results are kept by the index of their
//! run, so that the output does not depend on which thread was faster.
//!
//! * [`experiment`]: what an experiment is; `experiments/` holds one file for each.
//! * [`mod@measure`], [`counts`], [`seconds`], [`maxmin`], [`blocktrace`], [`verdict`], [`tell`]: a
//!   run's figures, what the scheduler did, what each client got in each second, how much the
//!   worst-off misses of its share, what btt says of it, the verdict, the table.
//! * [`command`]: how to repeat a run by hand.

mod blocktrace;
pub mod command;
mod counts;
pub(crate) mod doors;
pub(crate) mod experiment;
mod maxmin;
pub(crate) mod measure;
mod seconds;
mod tally;
pub(crate) mod tell;
pub(crate) mod verdict;

use clap::Args;
use paternoster_core::near;
use paternoster_frame::progress::Steps;
use paternoster_frame::results::{Format, Listed, emit};
use paternoster_frame::table::{plain_table, trimmed};
use paternoster_frame::{Failure, parallel, print};

use crate::experiments;
use experiment::{Experiment, Measured, Results, Run};

/// Repeat published experiments: published figures compared with what comes out
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster reproduce
  paternoster reproduce flash-fairness array-readers
  paternoster reproduce --list
  paternoster reproduce array-dd --commands
  paternoster reproduce flash-fairness --format json | jq '.experiments[].ok'

Verdicts: `ok` and `outside` are judged by the tolerance; `fitted` says that the device was fitted
to this figure; `shown` is only there to be seen.

Exit status: 0 done, 1 a judged figure is outside its tolerance, 2 the request was wrong.")]
pub struct ReproduceOptions {
    /// Experiments; all of them if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// List them with a description, run nothing
    #[arg(long)]
    list: bool,

    /// Print the commands that repeat the runs by hand, run nothing
    #[arg(long, conflicts_with = "list")]
    commands: bool,

    /// How to print the results
    #[arg(long, alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    format: Format,

    /// No progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// Carries it out, and prints the results.
///
/// # Errors
/// The request is wrong, a run fails, or a judged figure is outside its tolerance.
pub fn reproduce(options: &ReproduceOptions) -> Result<(), Failure> {
    let experiments = chosen(&options.names)?;
    if options.list {
        return emit(options.format, None, |format| match format {
            Format::Table => list(&experiments),
            format => listed(&experiments).results().told(format),
        });
    }
    if options.commands {
        let lines: Vec<String> = experiments.iter().map(command::lines).collect();
        return print(&lines.join("\n"));
    }
    let all: Vec<&Run> = experiments.iter().flat_map(|experiment| &experiment.runs).collect();
    let mut measured = measure_all(&all, options.quiet)?.into_iter();
    let mut told = Vec::new();
    for experiment in &experiments {
        let runs = experiment.runs.iter().map(|run| run.name.clone());
        told.push((experiment, Results(runs.zip(measured.by_ref()).collect())));
    }
    emit(options.format, None, |format| match format {
        Format::Table => {
            let texts = told.iter().map(|(experiment, results)| tell::text(experiment, results));
            let mut text = texts.collect::<Vec<_>>().join("\n");
            if told.len() > 1 {
                text.push_str(
                    "\nPublished figures, and how many are near (predicted: judged, not ",
                );
                text.push_str("fitted, within 15 %)\n\n");
                text.push_str(&tell::tallies(&told).text());
            }
            text
        }
        format => tell::results(&told).told(format),
    })?;
    let outside = told.iter().flat_map(|(experiment, results)| tell::outside(experiment, results));
    last_word(&outside.collect::<Vec<_>>())
}

/// Whether all is well, for the exit status.
fn last_word(outside: &[String]) -> Result<(), Failure> {
    match outside {
        [] => Ok(()),
        [one] => Err(Failure::Job(format!("a judged figure is outside: {one}"))),
        some => {
            let lines = some.join("\n  ");
            Err(Failure::Job(format!("{} judged figures are outside:\n  {lines}", some.len())))
        }
    }
}

/// The experiments that were named, in that order; all if none was.
fn chosen(names: &[String]) -> Result<Vec<Experiment>, Failure> {
    let all = experiments::all();
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        all.iter().find(|experiment| experiment.name == name).cloned().ok_or_else(|| {
            let hint = near::hint(name, all.iter().map(|experiment| experiment.name));
            Failure::Request(format!("there is no experiment `{name}`{hint}"))
        })
    };
    // An experiment named twice is done once.
    let first = |(place, name): &(usize, &String)| !names[..*place].contains(name);
    names.iter().enumerate().filter(first).map(|(_, name)| find(name)).collect()
}

fn list(experiments: &[Experiment]) -> String {
    let mut table = plain_table();
    for experiment in experiments {
        table.add_row([experiment.name, experiment.summary, experiment.source]);
    }
    trimmed(&table)
}

/// The same for programs.
fn listed(experiments: &[Experiment]) -> Listed<3> {
    let row = |one: &Experiment| [one.name, one.summary, one.source].map(Into::into);
    let rows = experiments.iter().map(row).collect();
    Listed { kind: "experiments", heads: ["name", "summary", "source"], rows }
}

/// Does all runs on as many threads as there are processors. Results are in the order of the runs;
/// so is the failure that is told, if there are any.
pub(crate) fn measure_all(runs: &[&Run], quiet: bool) -> Result<Vec<Measured>, Failure> {
    let steps = Steps::new(quiet, runs.len());
    let done = parallel::each(parallel::threads(), runs, |run| {
        let measured = measure::measure(run);
        steps.done(&run.name);
        measured
    });
    steps.clear();
    done.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::experiment::{Judge, Quantity, Workload};
    use super::*;

    /// Does an unknown name get an answer with the known ones?
    #[test]
    fn unknown_names_are_refused() {
        let Err(Failure::Request(message)) = chosen(&["flash".to_owned()]) else {
            panic!("not refused")
        };
        let start = "there is no experiment `flash`; did you mean `flash-fairness`? Known are ";
        assert!(message.starts_with(start), "{message}");
        assert!(message.contains("flash-fairness, "), "{message}");
    }

    /// Is an experiment that is named twice done once?
    #[test]
    fn named_twice_is_done_once() {
        let names = ["array-dd", "array-sysfs", "array-dd"].map(str::to_owned);
        let chosen = chosen(&names).unwrap_or_else(|_| panic!("they are known"));
        let found: Vec<&str> = chosen.iter().map(|experiment| experiment.name).collect();
        assert_eq!(found, ["array-dd", "array-sysfs"]);
    }

    /// Does the command fail with the names of figures outside, and only then?
    #[test]
    fn what_is_outside_fails() {
        assert!(last_word(&[]).is_ok());
        let names = ["a: x", "b: y"].map(str::to_owned);
        let Err(Failure::Job(one)) = last_word(&names[..1]) else { panic!("it does not fail") };
        assert_eq!(one, "a judged figure is outside: a: x");
        let Err(Failure::Job(two)) = last_word(&names) else { panic!("it does not fail") };
        assert_eq!(two, "2 judged figures are outside:\n  a: x\n  b: y");
    }

    fn runs_of(quantity: &Quantity) -> Vec<&str> {
        match quantity {
            Quantity::Of { run, .. } => vec![run],
            Quantity::Ratio(above, below) => [runs_of(above), runs_of(below)].concat(),
            Quantity::Scaled(it, _) => runs_of(it),
            Quantity::Sum(all)
            | Quantity::Least(all)
            | Quantity::Largest(all)
            | Quantity::Spread(all)
            | Quantity::LeastStep(all) => all.iter().flat_map(runs_of).collect(),
            Quantity::Place { low, high, it } => {
                [low, high, it].into_iter().flat_map(|one| runs_of(one)).collect()
            }
            Quantity::Farthest(all) => all.iter().flat_map(|(one, _)| runs_of(one)).collect(),
        }
    }

    /// Is every experiment whole: unique names, figures of existing runs, a published value
    /// wherever one is compared with, and a source for each that was published?
    #[test]
    fn experiments_are_sound() {
        let mut names = BTreeSet::new();
        for experiment in experiments::all() {
            let name = experiment.name;
            assert!(names.insert(name), "{name} occurs twice");
            let runs: BTreeSet<&str> = experiment.runs.iter().map(|run| &*run.name).collect();
            assert_eq!(runs.len(), experiment.runs.len(), "{name}: a run's name occurs twice");
            let labels: BTreeSet<&str> = experiment.figures.iter().map(|f| &*f.label).collect();
            assert_eq!(labels.len(), experiment.figures.len(), "{name}: a label occurs twice");
            for figure in &experiment.figures {
                let label = &figure.label;
                for run in runs_of(&figure.quantity) {
                    assert!(runs.contains(run), "{name}, {label}: there is no run {run}");
                }
                let compared = matches!(figure.judge, Judge::Within(_) | Judge::Same);
                assert!(!compared || figure.published.is_some(), "{name}, {label}");
                assert!(figure.published.is_none() || !figure.source.is_empty(), "{name}, {label}");
            }
        }
    }

    /// Are results in the order of the runs, however many threads execute them?
    #[test]
    fn results_keep_their_order() {
        use super::experiment::{Device, FioJobs};
        const JOB: &str = "[a]\nrw=randread\nsize=64m\ndirect=1\n";
        let run = |ios: u32| {
            let jobs = FioJobs::new("jobs/test.fio", JOB).option("number_ios", ios);
            Run::new(ios.to_string(), Workload::Fio(jobs), Device::Named("flash-card-2010"), "noop")
        };
        // The first takes longest.
        let runs: Vec<Run> = [4000, 10, 20, 30, 40].map(run).into();
        let runs: Vec<&Run> = runs.iter().collect();
        let all = measure_all(&runs, true).unwrap();
        let alone: Vec<Measured> = runs.iter().map(|run| measure::measure(run).unwrap()).collect();
        assert_eq!(all, alone);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiment: runs, and the published figures that their results are compared with.
//!
//! All of it is data. A run has a name, and its results have names ([`super::measure`]); a figure
//! says which results it is computed from, what was published, and how it is judged:
//!
//! ```text
//! runs     "noop 8"   "cfq 8"                     each measures "kB/s", "bsr max us", …
//! figures  of("cfq 8", "kB/s")                    published 129807   within 15 %
//!          ratio(cfq 8, noop 8)                   not published      shown
//! ```
//!
//! A figure that was used to fit the device says so (`fitted`); it may be judged all the same, but
//! that only shows that one set of numbers explains them all.

use std::collections::BTreeMap;

use paternoster_workload::builtin::dd::Dd;
use paternoster_workload::builtin::disktest::Disktest;
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::sysbench::Sysbench;
use paternoster_workload::builtin::tiotest::Tiotest;

use super::doors::Doors;

/// One published experiment.
#[derive(Debug, Clone)]
pub(crate) struct Experiment {
    /// The name it is requested by.
    pub(crate) name: &'static str,
    /// A description in one line.
    pub(crate) summary: &'static str,
    /// Where it was published, when, and the author.
    pub(crate) source: &'static str,
    /// What differs here, and what one must know to read the figures.
    pub(crate) notes: &'static [&'static str],
    pub(crate) runs: Vec<Run>,
    pub(crate) figures: Vec<Figure>,
    /// The conclusions from the results, in sentences made from the figures.
    pub(crate) conclude: fn(&Results) -> Vec<String>,
}

/// One workload under one scheduler on one fresh device.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Its name in figures: `cfq 8`.
    pub(crate) name: String,
    pub(crate) workload: Workload,
    pub(crate) device: Device,
    /// With its attributes, as `--scheduler` takes it.
    pub(crate) scheduler: String,
    /// Attributes of the queue, as `--set` takes them.
    pub(crate) set: Vec<String>,
    /// The submit cost, as `--submit-cost` takes it; the device file's if there is none.
    pub(crate) submit_cost: Option<String>,
    /// How files are placed, as `--placement` takes it.
    pub(crate) placement: &'static str,
    /// Its block trace is analysed as btt does.
    pub(crate) btt: bool,
}

/// The device.
#[derive(Debug, Clone)]
pub(crate) enum Device {
    /// A device by name, as `--device` takes it.
    Named(&'static str),
    /// A device file of the experiment's own.
    File {
        /// Name for messages and commands.
        name: String,
        text: String,
    },
}

impl Device {
    /// The device of this file, set to queue a flush while other commands are in it.
    pub(crate) fn queueing_flushes(name: &str, text: &str) -> Device {
        let [cannot, can] =
            ["false", "true"].map(|can| format!("flush_queueable = {{ value = {can}"));
        Device::File { name: name.to_owned(), text: text.replace(&cannot, &can) }
    }
}

/// The workload.
#[derive(Debug, Clone)]
pub(crate) enum Workload {
    Fio(FioJobs),
    Tiotest(Tiotest),
    Disktest(Disktest),
    Dd(Dd),
    /// A program that starts, this many times.
    Startup {
        startup: Startup,
        /// Starts, with seeds from 0.
        repeat: u32,
    },
    /// sysbench's fileio.
    Sysbench(Sysbench),
    /// A program's I/Os through its own door.
    Doors(Doors),
    /// None: the queue's folder in sysfs is listed.
    Listing,
}

/// A job file that comes with the program.
#[derive(Debug, Clone)]
pub(crate) struct FioJobs {
    /// Path of the job file in the repository.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    /// fio's options before the file: defaults for all jobs.
    pub(crate) options: Vec<(&'static str, String)>,
    /// Only these sections; all if there are none.
    pub(crate) sections: &'static [&'static str],
}

impl FioJobs {
    pub(crate) const fn new(path: &'static str, text: &'static str) -> FioJobs {
        FioJobs { path, text, options: Vec::new(), sections: &[] }
    }

    /// Adds an option of fio.
    pub(crate) fn option(mut self, name: &'static str, value: impl ToString) -> FioJobs {
        self.options.push((name, value.to_string()));
        self
    }
}

impl Run {
    pub(crate) fn new(
        name: impl Into<String>,
        workload: Workload,
        device: Device,
        scheduler: impl Into<String>,
    ) -> Run {
        Run {
            name: name.into(),
            workload,
            device,
            scheduler: scheduler.into(),
            set: Vec::new(),
            submit_cost: None,
            placement: "near",
            btt: false,
        }
    }

    /// With attributes of the queue, like `hz=250`.
    pub(crate) fn set(mut self, assignments: &[&str]) -> Run {
        self.set.extend(assignments.iter().map(|text| (*text).to_owned()));
        self
    }

    /// With a time between completion and next submission.
    pub(crate) fn submit_cost(mut self, time: impl Into<String>) -> Run {
        self.submit_cost = Some(time.into());
        self
    }

    /// With btt's figures of its block trace.
    pub(crate) fn btt(mut self) -> Run {
        self.btt = true;
        self
    }

    /// Sets how files are placed.
    pub(crate) fn placement(mut self, how: &'static str) -> Run {
        self.placement = how;
        self
    }
}

/// A number or a line of text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    Number(f64),
    Text(String),
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) label: String,
    /// The number's unit; empty for ratios and texts.
    pub(crate) unit: &'static str,
    /// The place in the source.
    pub(crate) source: &'static str,
    pub(crate) published: Option<Reading>,
    pub(crate) quantity: Quantity,
    pub(crate) judge: Judge,
    /// The device was fitted to it.
    pub(crate) fitted: bool,
    /// A blank line goes before it.
    pub(crate) apart: bool,
}

impl Figure {
    /// Not published, not judged: only shown.
    pub(crate) fn new(label: impl Into<String>, unit: &'static str, quantity: Quantity) -> Figure {
        Figure {
            label: label.into(),
            unit,
            source: "",
            published: None,
            quantity,
            judge: Judge::Shown,
            fitted: false,
            apart: false,
        }
    }

    /// With the published value, and where it was published. Judged within 15 % of it, unless
    /// something else is said.
    pub(crate) fn published(mut self, number: f64, source: &'static str) -> Figure {
        (self.published, self.source) = (Some(Reading::Number(number)), source);
        if self.judge == Judge::Shown {
            self.judge = Judge::Within(15.0);
        }
        self
    }

    /// Like [`Figure::published`], but judged within a factor of 2: the longest of many calls is a
    /// single event.
    pub(crate) fn longest(self, number: f64, source: &'static str) -> Figure {
        self.published(number, source).judged(Judge::Between(number / 2.0, number * 2.0))
    }

    /// With a published line, which must be the same.
    pub(crate) fn line(mut self, line: &str, source: &'static str) -> Figure {
        (self.published, self.source) = (Some(Reading::Text(line.to_owned())), source);
        self.judge = Judge::Same;
        self
    }

    pub(crate) fn judged(mut self, judge: Judge) -> Figure {
        self.judge = judge;
        self
    }

    /// Marks whether the device was fitted to it.
    pub(crate) fn fitted(mut self, fitted: bool) -> Figure {
        self.fitted = fitted;
        self
    }
}

/// One table of several parts, with a blank line between them.
pub(crate) fn parts(parts: Vec<Vec<Figure>>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for mut part in parts {
        if let (Some(first), false) = (part.first_mut(), figures.is_empty()) {
            first.apart = true;
        }
        figures.append(&mut part);
    }
    figures
}

/// When a figure is as it should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Judge {
    /// Within this many per cent of what was published.
    Within(f64),
    AtLeast(f64),
    Below(f64),
    Between(f64, f64),
    /// The same text.
    Same,
    /// Shown and not judged.
    Shown,
}

/// What a figure is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quantity {
    /// What a run measured under this name.
    Of {
        run: String,
        what: String,
    },
    Ratio(Box<Quantity>, Box<Quantity>),
    /// This many times as much.
    Scaled(Box<Quantity>, f64),
    Sum(Vec<Quantity>),
    Least(Vec<Quantity>),
    Largest(Vec<Quantity>),
    /// The largest divided by the smallest: 1 is flat.
    Spread(Vec<Quantity>),
    /// The least of each divided by the one before it: at least 1 if they never fall.
    LeastStep(Vec<Quantity>),
    /// Where `it` lies between `low` (0) and `high` (1).
    Place {
        low: Box<Quantity>,
        high: Box<Quantity>,
        it: Box<Quantity>,
    },
    /// The largest difference from these published numbers, in per cent of them.
    Farthest(Vec<(Quantity, f64)>),
}

/// What a run measured under this name.
pub(crate) fn of(run: impl Into<String>, what: impl Into<String>) -> Quantity {
    Quantity::Of { run: run.into(), what: what.into() }
}

/// The ratio of two quantities.
pub(crate) fn ratio(above: Quantity, below: Quantity) -> Quantity {
    Quantity::Ratio(Box::new(above), Box::new(below))
}

/// All results of one run, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measured {
    pub(crate) numbers: BTreeMap<String, f64>,
    pub(crate) texts: BTreeMap<String, String>,
}

/// The results of every run of an experiment, by the name of the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Results(pub(crate) BTreeMap<String, Measured>);

impl Results {
    pub(crate) fn number(&self, run: &str, what: &str) -> Option<f64> {
        self.0.get(run)?.numbers.get(what).copied()
    }

    pub(crate) fn text(&self, run: &str, what: &str) -> Option<&str> {
        self.0.get(run)?.texts.get(what).map(String::as_str)
    }

    /// The reading; `None` if a run has not measured it.
    pub(crate) fn reading(&self, quantity: &Quantity) -> Option<Reading> {
        match quantity {
            Quantity::Of { run, what } => match self.text(run, what) {
                Some(text) => Some(Reading::Text(text.to_owned())),
                None => self.number(run, what).map(Reading::Number),
            },
            _ => self.value(quantity).map(Reading::Number),
        }
    }

    /// The number; `None` if a run has not measured it.
    pub(crate) fn value(&self, quantity: &Quantity) -> Option<f64> {
        match quantity {
            Quantity::Of { run, what } => self.number(run, what),
            Quantity::Ratio(above, below) => Some(self.value(above)? / self.value(below)?),
            Quantity::Scaled(it, times) => Some(self.value(it)? * times),
            Quantity::Sum(all) => Some(self.values(all)?.iter().sum()),
            Quantity::Least(all) => self.values(all)?.into_iter().min_by(f64::total_cmp),
            Quantity::Largest(all) => self.values(all)?.into_iter().max_by(f64::total_cmp),
            Quantity::Spread(all) => {
                let all = self.values(all)?;
                let least = all.iter().copied().fold(f64::INFINITY, f64::min);
                Some(all.iter().copied().fold(0.0, f64::max) / least)
            }
            Quantity::LeastStep(all) => {
                let all = self.values(all)?;
                let steps = all.windows(2).map(|pair| pair[1] / pair[0]);
                Some(steps.fold(f64::INFINITY, f64::min))
            }
            Quantity::Place { low, high, it } => {
                let low = self.value(low)?;
                Some((self.value(it)? - low) / (self.value(high)? - low))
            }
            Quantity::Farthest(all) => {
                let off = |(quantity, published): &(Quantity, f64)| {
                    Some(difference(self.value(quantity)?, *published).abs())
                };
                let off: Vec<f64> = all.iter().map(off).collect::<Option<_>>()?;
                Some(off.into_iter().fold(0.0, f64::max))
            }
        }
    }

    fn values(&self, all: &[Quantity]) -> Option<Vec<f64>> {
        all.iter().map(|quantity| self.value(quantity)).collect()
    }
}

/// By how many per cent `found` is above `published`.
pub(crate) fn difference(found: f64, published: f64) -> f64 {
    100.0 * (found - published) / published
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let measured = |numbers: &[(&str, f64)]| Measured {
            numbers: numbers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            texts: BTreeMap::from([("bandwidth".to_owned(), "0 546 740".to_owned())]),
        };
        let runs = [("a", 100.0), ("b", 110.0), ("c", 105.0)];
        let runs = runs.map(|(name, value)| (name.to_owned(), measured(&[("kB/s", value)])));
        Results(BTreeMap::from(runs))
    }

    fn all() -> Vec<Quantity> {
        ["a", "b", "c"].map(|run| of(run, "kB/s")).to_vec()
    }

    fn assert_is(quantity: &Quantity, expected: f64) {
        let value = results().value(quantity).unwrap();
        assert!((value - expected).abs() < 1e-9, "{quantity:?}: {value}, not {expected}");
    }

    /// Are figures made as their names say? Spread 110/100; steps 110/100 and 105/110; 105 lies
    /// halfway from 100 to 110; 100 is 20 % below 125 and 110 is 10 % above 100; together 315.
    #[test]
    fn figures_are_derived() {
        assert_is(&ratio(of("b", "kB/s"), of("a", "kB/s")), 1.1);
        assert_is(&Quantity::Scaled(Box::new(of("b", "kB/s")), 100.0), 11_000.0);
        assert_is(&Quantity::Sum(all()), 315.0);
        assert_is(&Quantity::Least(all()), 100.0);
        assert_is(&Quantity::Largest(all()), 110.0);
        assert_is(&Quantity::Spread(all()), 1.1);
        assert_is(&Quantity::LeastStep(all()), 105.0 / 110.0);
        let [low, high, it] = ["a", "b", "c"].map(|run| Box::new(of(run, "kB/s")));
        assert_is(&Quantity::Place { low, high, it }, 0.5);
        let pairs = vec![(of("a", "kB/s"), 125.0), (of("b", "kB/s"), 100.0)];
        assert_is(&Quantity::Farthest(pairs), 20.0);
    }

    /// Is a missing measurement reported as missing, with no number made up for it?
    #[test]
    fn what_is_missing_is_missing() {
        assert_eq!(results().value(&ratio(of("a", "kB/s"), of("z", "kB/s"))), None);
        assert_eq!(results().reading(&of("a", "MB/s")), None);
        let text = Reading::Text("0 546 740".to_owned());
        assert_eq!(results().reading(&of("a", "bandwidth")), Some(text));
    }
}

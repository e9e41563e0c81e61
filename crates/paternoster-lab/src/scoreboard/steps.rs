// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps: every run that a board needs, and which of them make a cell.
//!
//! ```text
//! alone    each process by itself, where its file lies, and the device full of its requests:
//!          equal ones once a device
//! curve    noop on the same device when it takes D*, 3/2 D*, 9/4 D* … commands, to what there is
//! pairs    two clients without the others, on flash
//! noop     what a wait is compared with, and the end of the curve
//! shared   every scheduler
//! ```

use std::collections::BTreeMap;

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_frame::Failure;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::entitled::key;
use paternoster_frame::target::Target;
use paternoster_workload::fio::job::Job;

use super::board::Row;
use super::cell::{self, Load, Process, Times};
use super::mutual_delay::{self, Delay};
use super::owed::{self, Kind};
use super::rule::Curve;
use super::windows::{Window, windows};
use super::workloads::Workload;

/// The scheduler for runs alone.
const NOOP: &str = "noop";
/// With more jobs than this there are too many pairs.
const PAIRED_MOST: usize = 5;

/// One run.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) device: usize,
    /// The device's limit on commands, if fewer than it could take.
    pub(super) depth: Option<u32>,
    pub(super) requests: u32,
    pub(super) jobs: Vec<Job>,
    pub(super) scheduler: SchedulerChoice,
    pub(super) seed: u64,
    pub(super) times: Times,
    pub(super) windows: Vec<Window>,
}

/// The runs of a cell, by index.
#[derive(Debug)]
struct Cell {
    /// For each process: alone, and the device full of it.
    solos: Vec<(usize, usize)>,
    /// Runs of the curve: number of commands, and place of the run.
    curve: Vec<(f64, usize)>,
    noop: usize,
    shared: Vec<usize>,
    /// Two jobs, and a client of each together without the others.
    pairs: Vec<((usize, usize), usize)>,
}

impl Cell {
    /// Places of all its runs.
    fn places(&self) -> impl Iterator<Item = usize> {
        let solos = self.solos.iter().flat_map(|&(alone, full)| [alone, full]);
        let curve = self.curve.iter().map(|&(_, place)| place);
        let curve = curve.chain(self.pairs.iter().map(|&(_, place)| place));
        solos.chain(curve).chain([self.noop]).chain(self.shared.iter().copied())
    }
}

/// A workload on a device.
#[derive(Debug)]
struct Planned {
    device: String,
    workload: Workload,
    jobs: Vec<Job>,
    windows: Vec<Window>,
    delays: Vec<Delay>,
    /// The cell of each seed.
    cells: Vec<Cell>,
}

/// All runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) steps: Vec<Step>,
    rows: Vec<Planned>,
}

/// What is to be run on a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) place: usize,
    pub(super) name: &'a str,
    pub(super) target: &'a Target,
    pub(super) schedulers: &'a [SchedulerChoice],
    pub(super) seeds: &'a [u64],
}

impl Runs {
    /// Adds a device's workloads, with their times.
    pub(super) fn add(
        &mut self,
        subject: Subject<'_>,
        workloads: &[(Workload, Times)],
    ) -> Result<(), Failure> {
        let Subject { place: device, name, target, schedulers, seeds } = subject;
        let noop = SchedulerChoice::parse(NOOP)?;
        let mut known: BTreeMap<(u64, String), usize> = BTreeMap::new();
        for &(workload, times) in workloads {
            let jobs = cell::jobs(&workload, &target.facts, times)?;
            let windows = windows(&jobs, times);
            let clones = |(place, job): (usize, &Job)| vec![place; job.clones.numjobs as usize];
            let of: Vec<usize> = jobs.iter().enumerate().flat_map(clones).collect();
            let places = cell::places(&jobs, &target.facts)?;
            let asked: u32 = of.iter().map(|&place| owed::depth(&jobs[place])).sum();
            let mut cells = Vec::new();
            for &seed in seeds {
                let step = |what: String, jobs: Vec<Job>, scheduler: &SchedulerChoice| Step {
                    name: format!("{} {what} on {name}, seed {seed}", workload.name),
                    device,
                    depth: None,
                    requests: workload.requests(),
                    jobs,
                    scheduler: scheduler.clone(),
                    seed,
                    times,
                    windows: Vec::new(),
                };
                let mut lone = |what: String, job: Job| {
                    let key = (seed, key(&job));
                    *known.entry(key).or_insert_with(|| {
                        self.steps.push(step(what, vec![job], &noop));
                        self.steps.len() - 1
                    })
                };
                let solo = |(&job, &at): (&usize, &Option<u64>)| {
                    let job = &jobs[job];
                    let alone = cell::alone(job, times, at);
                    let full = cell::full(&alone, &jobs, &target.facts);
                    let name = &job.name;
                    (lone(format!("{name} alone"), alone), lone(format!("full of {name}"), full))
                };
                let solos = of.iter().zip(&places).map(solo).collect();
                let pairs: Vec<((usize, usize), usize)> =
                    pairs(&jobs, &target.facts, windows.len())
                        .into_iter()
                        .map(|(one, other)| {
                            let both = cell::pair(&jobs, (one, other));
                            let what = format!("{} and {} alone", jobs[one].name, jobs[other].name);
                            self.steps.push(step(what, both, &noop));
                            ((one, other), self.steps.len() - 1)
                        })
                        .collect();
                let mut together = |depth: Option<u32>, scheduler: &SchedulerChoice| {
                    let what = format!("under {}", scheduler.text);
                    let windows = windows.clone();
                    self.steps.push(Step { depth, windows, ..step(what, jobs.clone(), scheduler) });
                    self.steps.len() - 1
                };
                let most = target.facts.depth.min(workload.requests()).min(asked);
                let exact = owed::exact_depth(&jobs, &of, &windows);
                let mut curve = Vec::new();
                let mut commands = floor(exact.min(f64::from(most)));
                while commands < most {
                    curve.push((f64::from(commands), together(Some(commands), &noop)));
                    commands = (commands * 3 / 2).max(commands + 1);
                }
                let shared: Vec<usize> =
                    schedulers.iter().map(|scheduler| together(None, scheduler)).collect();
                let same = schedulers.iter().position(|scheduler| scheduler.text == NOOP);
                let noop = same.map_or_else(|| together(None, &noop), |place| shared[place]);
                curve.push((f64::from(most), noop));
                cells.push(Cell { solos, curve, noop, shared, pairs });
            }
            let device = name.to_owned();
            let delays = mutual_delay::delays(&jobs, target)?;
            self.rows.push(Planned { device, workload, jobs, windows, delays, cells });
        }
        Ok(())
    }

    /// The results, from what each step gave; rows with an unfinished step are left out.
    pub(super) fn rows(&self, all: &[Option<Vec<Process>>]) -> Vec<Row> {
        let done = |place: usize| all[place].as_deref().unwrap_or_default();
        let is_whole = |planned: &&Planned| {
            planned.cells.iter().flat_map(Cell::places).all(|place| all[place].is_some())
        };
        let row = |planned: &Planned| {
            let Planned { device, workload, jobs, windows, delays, cells } = planned;
            let schedulers = cells.first().map_or(0, |cell| cell.shared.len());
            let mut measured = vec![Vec::new(); schedulers];
            let (mut curves, mut reach) = (Vec::new(), Vec::new());
            for cell in cells {
                let solos: Vec<&Process> =
                    cell.solos.iter().map(|&(alone, _)| &done(alone)[0]).collect();
                let full = cell.solos.iter().map(|&(_, full)| done(full));
                let kinds: Vec<Kind> =
                    solos.iter().zip(full).map(|(alone, full)| cell::kind(alone, full)).collect();
                let noop = done(cell.noop);
                let load = Load { jobs, windows, kinds: &kinds, solos: &solos, noop };
                for (own, &place) in measured.iter_mut().zip(&cell.shared) {
                    own.push(load.figures(done(place)));
                }
                let point =
                    |&(commands, place): &(f64, usize)| (commands, load.throughput(done(place)));
                curves.push(Curve { points: cell.curve.iter().map(point).collect() });
                let runs = cell.curve.iter().map(|&(_, place)| place);
                let runs: Vec<&[Process]> =
                    runs.chain(cell.shared.iter().copied()).map(done).collect();
                let pairs = cell.pairs.iter().map(|&(jobs, place)| (jobs, done(place)));
                reach.push(load.states(&runs, &pairs.collect::<Vec<_>>(), delays));
            }
            Row { device: device.clone(), workload: *workload, measured, curves, reach }
        };
        self.rows.iter().filter(is_whole).map(row).collect()
    }
}

/// The pairs of jobs that also run without the others: of few jobs, whose load is constant, where
/// it makes no difference where a file lies.
fn pairs(jobs: &[Job], facts: &DeviceFacts, windows: usize) -> Vec<(usize, usize)> {
    if facts.rotational || windows > 1 || jobs.len() > PAIRED_MOST {
        return Vec::new();
    }
    let with = |one: usize| (one..jobs.len()).map(move |other| (one, other));
    let clients = |(one, other): &(usize, usize)| one != other || jobs[*one].clones.numjobs > 1;
    (0..jobs.len()).flat_map(with).filter(clients).collect()
}

/// Commands, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "commands")]
fn floor(commands: f64) -> u32 {
    (commands as u32).max(1)
}

/// Times of a workload, if some differ from the device's own.
pub(super) fn times(own: Times, settle: Option<Nanos>, measure: Option<Nanos>) -> Times {
    Times { settle: settle.unwrap_or(own.settle), measure: measure.unwrap_or(own.measure) }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster scoreboard`: every workload on every kind of device under every elevator.
//!
//! One elevator for all devices must be judged on all of them, and by figures that do not depend on
//! how it is made. Each cell is a run in virtual time; each of its jobs also runs alone.
//!
//! ```text
//!                                       ┌─ each job alone, the device full of it ─┐
//!          devices x workloads x seeds ─┼─ a device of fewer commands (curve) ────┤
//!                                       └─ x schedulers ──────────────────────────┴─▶ figures
//!                                                                 table, JSON, page ◀─┘
//! ```
//!
//! What the worst-off client misses of its entitlement ([`owed`]), throughput compared with what
//! the device does and the best of the fair schedulers ([`rule`]), the longest wait, p99.9 of an
//! interactive client compared with what it has alone, what sharing costs ([`figures`]). Threads
//! execute the runs, and results are in the order of the arguments: equal arguments give equal
//! bytes.

mod board;
pub(crate) mod cell;
pub(crate) mod figures;
mod frontier;
mod kept;
mod mutual_delay;
mod owed;
mod page;
mod picture;
mod reach;
mod reachable;
mod rule;
mod simplex;
mod steps;
pub(crate) mod tally;
mod tell;
mod windows;
mod workloads;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use paternoster_core::Nanos;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::cost_model;
use paternoster_frame::format::{Form, Format, emit};
use paternoster_frame::progress::Steps;
use paternoster_frame::setting::{self, Setting, time};
use paternoster_frame::target::{Real, Target};
use paternoster_frame::{Failure, interrupt, parallel, print};
use paternoster_sim::schedulers;
use paternoster_torture::draw;

use self::board::Board;
use self::cell::{Process, Times};
use self::steps::{Runs, Step, Subject};
use self::workloads::Workload;

/// One of each kind of device.
const DEVICES: [&str; 10] = [
    "flash-card-2010",
    "lab-disk",
    "hdd-7200-no-ncq",
    "hdd-7200",
    "array-eva",
    "raid0-4-hdd",
    "ssd-px256m5s",
    "ssd-px256m5s-gc",
    "ssd-870evo",
    "nvme-pm9a3",
];
/// Any scheduler may have this many requests.
const REQUESTS_ALLOWED: u32 = 256;
/// More seeds than this are a typing error.
const SEEDS_MOST: u64 = 1000;

/// Workloads W1 to W25 on every kind of device under every scheduler: throughput, shares, tails
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster scoreboard --device flash-card-2010 --seeds 1
  paternoster scoreboard --workload W2 --workload W6d --scheduler noop --scheduler bfq
  paternoster scoreboard --workload W11 --drawn 12 --seeds 1-2
  paternoster scoreboard --format=json --html board.html --svg frontier.svg

Exit status: 0 done, whatever is kept; 1 a job failed; 2 the request was wrong; 130
interrupted: the rows until then were printed.")]
pub struct ScoreboardOptions {
    /// A device's name or device file; ten kinds of devices if none is named
    #[arg(long, value_name = "NAME|FILE.toml")]
    device: Vec<String>,

    /// This many devices that do not exist, drawn as `torture` draws them, by the seeds 1 to N; in
    /// addition to those that are named
    #[arg(long, value_name = "N", default_value_t = 0)]
    drawn: u32,

    /// A workload (W6d), or all of a number (W6); all if none is named
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,

    /// Schedulers, with attributes if you like; all but the older versions if none is named
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE,…]")]
    scheduler: Vec<String>,

    /// A seed, or the first and the last
    #[arg(long, value_name = "N|N-M", default_value = "1-5")]
    seeds: String,

    /// How many runs at a time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// How long each run settles before it is measured, instead of the device's (5s)
    #[arg(long, value_name = "TIME")]
    settle: Option<String>,

    /// How long each run is measured, instead of the device's (20s)
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,

    /// How to print the results
    #[arg(long = "format", alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    output_format: Form<Own>,

    /// Also writes everything as one document
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Also writes a page for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also draws W4's frontier, tail against bulk, a panel for each device
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// No progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// Further formats of this command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Own {
    /// W4's frontier of tail against bulk, as tables in Markdown
    Frontier,
    /// Kept and missed cells, as tables in Markdown
    Kept,
    /// Which of the last scheduler's missed cells could be kept, as tables in Markdown
    Reach,
}

/// Carries it out, and prints the results.
///
/// # Errors
/// The request is wrong, a job fails, or a verdict is not what it is to be.
pub fn scoreboard(options: &ScoreboardOptions) -> Result<(), Failure> {
    let plan = Plan::new(options)?;
    interrupt::hear()?;
    let board = plan.run(options.quiet)?;
    let all = plan.devices.len() * plan.workloads.len();
    let undone = || format!("{} of {all} rows were not done to their end", all - board.rows.len());
    if board.rows.is_empty() {
        return interrupt::end(undone);
    }
    match options.output_format {
        Form::Own(Own::Frontier) => print(&frontier::markdown(&board)),
        Form::Own(Own::Kept) => print(&kept::markdown(&board)),
        Form::Own(Own::Reach) => print(&reachable::markdown(&board)),
        Form::Shared(format) => emit(format, None, |format| match format {
            Format::Table => tell::text(&board),
            Format::Json => json(&board),
            Format::Csv | Format::Parquet => tell::csv(&board),
            Format::Markdown => tell::markdown(&board),
            Format::Html => page::html(&board),
        }),
    }?;
    write(options.json.as_ref(), || json(&board))?;
    write(options.html.as_ref(), || page::html(&board))?;
    write(options.svg.as_ref(), || picture::panels(&board))?;
    interrupt::end(undone)
}

fn json(board: &Board) -> String {
    format!("{:#}\n", tell::document(board))
}

fn write(path: Option<&PathBuf>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))
}

/// The plan.
#[derive(Debug)]
struct Plan {
    devices: Vec<(String, Target)>,
    /// Instead of a workload's own times.
    settle: Option<Nanos>,
    measure: Option<Nanos>,
    workloads: Vec<Workload>,
    schedulers: Vec<SchedulerChoice>,
    /// By device: with the cost model measured there, if one asks for that.
    resolved: Vec<Vec<SchedulerChoice>>,
    seeds: Vec<u64>,
    threads: usize,
}

impl Plan {
    /// Finds everything that can be wrong before the first run.
    fn new(options: &ScoreboardOptions) -> Result<Plan, Failure> {
        let schedulers = or_all(&options.scheduler, present);
        let schedulers: Vec<SchedulerChoice> =
            schedulers.iter().map(|text| SchedulerChoice::parse(text)).collect::<Result<_, _>>()?;
        let devices = devices(options)?;
        let resolved = devices.iter().map(|(_, target)| cost_model::resolved(&schedulers, target));
        let plan = Plan {
            resolved: resolved.collect::<Result<_, _>>()?,
            devices,
            settle: own_time("--settle", options.settle.as_ref())?,
            measure: own_time("--runtime", options.runtime.as_ref())?,
            workloads: chosen(&options.workload)?,
            schedulers,
            seeds: seeds(&options.seeds)?,
            threads: options.threads.map_or_else(parallel::threads, |threads| threads as usize),
        };
        let setting = cell::setting(REQUESTS_ALLOWED, 0)?;
        for ((_, target), schedulers) in plan.devices.iter().zip(&plan.resolved) {
            schedulers.iter().try_for_each(|one| setting.check(&[], target, one))?;
        }
        Ok(plan)
    }

    fn run(&self, quiet: bool) -> Result<Board, Failure> {
        let runs = self.runs()?;
        let display = Steps::new(quiet, runs.steps.len());
        let done = self.each(&runs.steps, &display);
        display.clear();
        let rows = runs.rows(&done?);
        let schedulers = self.schedulers.iter().map(|scheduler| scheduler.text.clone());
        Ok(Board { schedulers: schedulers.collect(), seeds: self.seeds.clone(), rows })
    }

    /// Every run, and which of them make a cell.
    fn runs(&self) -> Result<Runs, Failure> {
        let mut runs = Runs::default();
        for (place, (name, target)) in self.devices.iter().enumerate() {
            let (schedulers, seeds) = (&self.resolved[place], &self.seeds);
            let timed = |workload: &Workload| {
                let own = Times::of(&target.facts, workload);
                (*workload, steps::times(own, self.settle, self.measure))
            };
            let workloads: Vec<(Workload, Times)> = self.workloads.iter().map(timed).collect();
            runs.add(Subject { place, name, target, schedulers, seeds }, &workloads)?;
        }
        Ok(runs)
    }

    /// Executes all runs on threads. Results are in the order of the runs; so is the failure that
    /// is reported, if there are any. Runs that a Ctrl-C cut or left undone have none.
    fn each(&self, steps: &[Step], display: &Steps) -> Result<Vec<Option<Vec<Process>>>, Failure> {
        let done = parallel::each(self.threads, steps, |step| {
            let found = (!interrupt::heard()).then(|| self.step(step))?;
            display.done(&step.name);
            (found.is_err() || !interrupt::heard()).then_some(found)
        });
        done.into_iter().map(Option::transpose).collect()
    }

    fn step(&self, step: &Step) -> Result<Vec<Process>, Failure> {
        let Step { jobs, scheduler, seed, times, windows, .. } = step;
        let (_, target) = &self.devices[step.device];
        let shallow = step.depth.map(|depth| target.with_depth(depth));
        let target = shallow.as_ref().unwrap_or(target);
        let setting = setting_for(step.requests, *seed, target, scheduler)?;
        let found = cell::run(jobs, &setting, target, scheduler, *times, windows);
        found.map_err(|failure| failure.of(&step.name))
    }
}

/// With as many requests as are allowed, up to a limit.
fn setting_for(
    requests: u32,
    seed: u64,
    target: &Target,
    scheduler: &SchedulerChoice,
) -> Result<Setting, Failure> {
    let mut fewer = requests;
    loop {
        let setting = cell::setting(fewer, seed)?;
        if fewer <= REQUESTS_ALLOWED || setting.check(&[], target, scheduler).is_ok() {
            return Ok(setting);
        }
        fewer -= REQUESTS_ALLOWED / 2;
    }
}

/// The named devices, or one of each kind; and those that are drawn.
fn devices(options: &ScoreboardOptions) -> Result<Vec<(String, Target)>, Failure> {
    let mut all = Vec::new();
    let named = &options.device[..];
    let names = match (named, options.drawn) {
        ([], 0) => DEVICES.map(str::to_owned).to_vec(),
        _ => named.to_vec(),
    };
    for name in names {
        let target = Target::find(&name, Real::Refused, 0)?;
        all.push((name, target));
    }
    for seed in 1..=options.drawn {
        let target = Target::from(draw::device(seed.into()).description);
        all.push((target.name.clone(), target));
    }
    Ok(all)
}

fn or_all(named: &[String], all: impl FnOnce() -> Vec<String>) -> Vec<String> {
    if named.is_empty() { all() } else { named.to_vec() }
}

/// Every elevator except those whose name gives a version.
fn present() -> Vec<String> {
    let all = schedulers::all().map(|entry| entry.name);
    all.filter(|name| !name.contains(char::is_numeric)).map(str::to_owned).collect()
}

/// A time, if it was given.
fn own_time(option: &str, given: Option<&String>) -> Result<Option<Nanos>, Failure> {
    let Some(text) = given else { return Ok(None) };
    match time(option, text, Nanos::from_secs(1))? {
        Nanos::ZERO => {
            let message = format!("{option} {text}: it takes some time, as 5s or 300ms");
            Err(Failure::Request(message))
        }
        time => Ok(Some(time)),
    }
}

/// The named workloads, each once, in their own order; all if none was.
fn chosen(names: &[String]) -> Result<Vec<Workload>, Failure> {
    let mut wanted = Vec::new();
    for name in names {
        let found = workloads::by_name(name);
        if found.is_empty() {
            let known: Vec<&str> = workloads::ALL.iter().map(|workload| workload.name).collect();
            let known = known.join(", ");
            return Err(Failure::Request(format!(
                "--workload {name}: there is no such workload; there are {known}, and W1 to W25 \
                 for all of a number"
            )));
        }
        wanted.extend(found.iter().map(|workload| workload.name));
    }
    let all = workloads::ALL.iter().copied();
    Ok(all.filter(|workload| names.is_empty() || wanted.contains(&workload.name)).collect())
}

/// `N` or `N-M`.
fn seeds(text: &str) -> Result<Vec<u64>, Failure> {
    match setting::seeds(text) {
        Some((first, last)) if last - first < SEEDS_MOST => Ok((first..=last).collect()),
        _ => Err(Failure::Request(format!(
            "--seeds {text}: it is a number, or the first and the last of at most {SEEDS_MOST}, \
             as 1-5"
        ))),
    }
}

#[cfg(test)]
mod tests;

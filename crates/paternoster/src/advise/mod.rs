// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster compare`: which scheduler to use for a job, found out by trying them.
//!
//! ```text
//! JOB, device ─┬─ schedulers and attributes ([`CANDIDATES`]) x seeds ─▶ trial ─▶ figures
//! goals ───────┴───────────────────────────────────────────────────────▶ verdict ─▶ Advice
//!                                                     table | markdown | json | csv ◀─┘
//! ```
//!
//! # Invariants
//! A1  Everything that can be wrong with a request is found before the first run.
//! A2  Equal arguments give equal bytes.

mod goal;
mod tell;
mod trial;
mod verdict;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use paternoster_core::{DeviceFacts, Nanos};
use paternoster_frame::job_files::{include, read_file, refused};
use paternoster_frame::page::{self, Watched};
use paternoster_frame::results::{Format, emit};
use paternoster_frame::say;
use paternoster_frame::setting::{Setting, SettingOptions, time};
use paternoster_frame::target::Target;
use paternoster_frame::{Failure, choice, interrupt};
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{JobFile, Source, parse};
use paternoster_workload::fio::unwired;
use paternoster_workload::layout;
use paternoster_workload::run::Settings;
use serde_json::Value;

use self::goal::Goal;
use self::trial::Trials;
use self::verdict::{Advice, Question};

/// What is tried unless `--scheduler` says otherwise: the schedulers of current Linux and ours,
/// with the attributes that change most (docs/which-scheduler.md says what each is for).
pub(crate) const CANDIDATES: [&str; 12] = [
    "noop",
    "mq-deadline",
    "mq-deadline:fifo_batch=1",
    "kyber",
    "kyber:read_lat_nsec=500000",
    "bfq",
    "bfq:low_latency=0",
    "bfq:slice_idle=0",
    "bfq:low_latency=0,nr_requests=256",
    "paternoster",
    "paternoster:bulk_kept=80",
    "paternoster:nr_requests=256",
];

/// Also tried where a job syncs each write and the device cannot queue a flush: the flush waits
/// until the device is empty, so each sync waits for everything the other jobs have in it.
const SHALLOW: &str = "paternoster:depth_max=4";

/// Which scheduler should I use? Try them on a job, and say which one is best and why
#[derive(Debug, Args)]
#[command(
    after_help = "The best: goals are met with every seed; then each client has 90 % of what it \
     is entitled to (by its
weight, and by what it asks for); then the most work; of those within 1 % of it the lowest p99. If
none meets all goals, the one that is nearest.

A goal is JOB METRIC OP VALUE: p50, p99, p99.9, max, sync-p99 (300us, 5ms), iops (12k), bw
(200MB/s), share (90%: got by entitled); < <= > >=. * is each job.

Examples:
  paternoster compare jobs/recipes/database.fio --device ssd-870evo --goal 'pg-read p99<5ms'
  paternoster compare mine.fio --device nvme-pm9a3 --goal '* share>90%' --format json
  paternoster compare mine.fio --device hdd-7200 --scheduler bfq --scheduler mq-deadline --seeds 9

Exit status: 0 done, whether or not a scheduler meets the goals; 1 a job failed; 2 the request was
wrong; 130 interrupted: what was found until then was printed."
)]
pub(crate) struct CompareOptions {
    /// A job file; `-` is standard input
    #[arg(value_name = "JOB.fio")]
    file: String,

    /// A device's name (see `paternoster devices`) or device file
    #[arg(long, value_name = "NAME|FILE.toml")]
    device: String,

    /// A goal for a job; may be given several times
    #[arg(long, value_name = "GOAL")]
    goal: Vec<String>,

    /// How many runs of each, with different places and start times
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Schedulers, with attributes if you like [default: a selection worth trying]
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE,…]")]
    scheduler: Vec<String>,

    /// Ends every job after this time, whatever it says (5s, 300ms, 2m; seconds without a unit)
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,

    /// How to print the results
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,

    /// Where the results go instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Also write a page for a browser: the table, each client over time and a timeline of turns
    /// under the best scheduler, the next one that differs, and the last
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// No notes, no progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// What the trials showed.
struct FoundOut {
    advice: Advice,
    /// This many schedulers were not tried with all seeds.
    left: usize,
    /// Runs recorded for a page.
    watched: Vec<Watched>,
}

pub(crate) fn advise(options: &CompareOptions) -> Result<(), Failure> {
    page::check("--html", options.html.as_ref())?;
    let file = read_jobs(options)?;
    if !options.quiet {
        file.notes.iter().for_each(|note| say!("note: {note}"));
    }
    interrupt::hear()?;
    let found = find_out(options, &file.jobs)?;
    let Some(FoundOut { mut advice, left, watched }) = found else {
        return interrupt::end(|| "no scheduler was tried with all seeds".to_owned());
    };
    if interrupt::heard() {
        advice.changes.insert(0, format!("Interrupted: {left} schedulers were not tried."));
    }
    emit(options.format, options.output.as_deref(), |format| match format {
        Format::Table => {
            let terminal = options.output.is_none() && std::io::stdout().is_terminal();
            let bold = terminal && std::env::var_os("NO_COLOR").is_none();
            tell::text(&advice, bold)
        }
        Format::Markdown => tell::markdown(&advice),
        Format::Json => format!("{:#}\n", tell::document(&advice)),
        Format::Csv | Format::Parquet => tell::csv(&advice),
        Format::Html => tell::page(&advice, &watched),
    })?;
    if let Some(path) = &options.html {
        page::write(path, &tell::page(&advice, &watched))?;
    }
    interrupt::end(|| format!("{left} schedulers were not tried with all seeds"))
}

/// The advice as JSON, for a call.
pub(crate) fn document(options: &CompareOptions) -> Result<Value, Failure> {
    let file = read_jobs(options)?;
    let found = find_out(options, &file.jobs)?;
    interrupt::end(String::new)?;
    Ok(found.map_or(Value::Null, |found| tell::document(&found.advice)))
}

fn read_jobs(options: &CompareOptions) -> Result<JobFile, Failure> {
    let (name, text) = read_file(&options.file)?;
    let source = [Source { name: &name, text: &text }];
    let environment = |name: &str| std::env::var(name).ok();
    let mut file =
        parse(&source, &[], &[], &environment, &include).map_err(|problems| refused(&problems))?;
    let runtime = options.runtime.as_deref();
    let runtime = runtime.map(|text| time("--runtime", text, Nanos::from_secs(1))).transpose()?;
    let refuse =
        |job: &Job, why: &str| Err(Failure::Request(job.problem(why.to_owned()).to_string()));
    for job in &mut file.jobs {
        job.time.runtime = runtime.or(job.time.runtime);
        match () {
            () if job.time.runtime.is_none_or(|runtime| runtime == Nanos::ZERO) => {
                return refuse(
                    job,
                    "it has no runtime: shares are compared over one, as --runtime 5s",
                );
            }
            () if job.clones.stonewall => {
                return refuse(job, "stonewall: compare takes jobs that run together");
            }
            () if !job.replay.logs.is_empty() => {
                return refuse(
                    job,
                    "read_iolog: `paternoster replay` compares schedulers on traces",
                );
            }
            () => job.time.time_based = true,
        }
    }
    if file.jobs.is_empty() {
        return Err(Failure::Request(format!("{}: there is no job in it", options.file)));
    }
    Ok(file)
}

/// The schedulers and settings worth trying with these jobs on such a device.
fn candidates(jobs: &[Job], facts: &DeviceFacts) -> Vec<String> {
    let drains = facts.write_cache && !facts.flush_queueable;
    let shallow = drains && jobs.iter().any(|job| job.syncs.of_each_write());
    let all = CANDIDATES.into_iter().chain(shallow.then_some(SHALLOW));
    all.map(str::to_owned).collect()
}

/// The advice; none if no scheduler remains.
fn find_out(options: &CompareOptions, jobs: &[Job]) -> Result<Option<FoundOut>, Failure> {
    let mut names: Vec<String> = Vec::new();
    for job in jobs {
        if !names.contains(&job.name) {
            names.push(job.name.clone());
        }
    }
    let goals = options.goal.iter().map(|text| Goal::parse(text, &names));
    let goals: Vec<Goal> = goals.collect::<Result<_, _>>()?;
    let schedulers = match &options.scheduler[..] {
        [] => candidates(jobs, &choice::device(&options.device)?.facts),
        named => named.to_vec(),
    };
    let setting = SettingOptions {
        device: vec![options.device.clone()],
        scheduler: schedulers,
        seed: 1,
        ..SettingOptions::plain()
    };
    let setting = Setting::new(&setting, None)?;
    let unwired = unwired::problems(jobs);
    if !unwired.is_empty() {
        return Err(refused(&unwired));
    }
    let device: &Target = &setting.devices[0];
    let Settings { placement, seed, .. } = setting.on(device);
    layout::plan(jobs, device.facts.capacity * 512, placement, seed)
        .map_err(|problem| refused(&[problem]))?;
    setting.schedulers.iter().try_for_each(|one| setting.check(jobs, device, one))?;
    let trials = Trials {
        jobs,
        names: &names,
        device,
        setting: &setting,
        schedulers: &setting.schedulers,
        seeds: options.seeds,
    };
    let tried_all = trials.run(options.quiet)?;
    let (tried, all) = (tried_all.len(), setting.schedulers.len());
    if tried == 0 {
        return Ok(None);
    }
    let schedulers = setting.schedulers.iter().take(tried).map(|one| one.text.clone()).collect();
    let device = device.name.clone();
    let question = Question { device, jobs: names.clone(), goals, schedulers };
    let advice = Advice::new(question, tried_all);
    let is_page = options.html.is_some() || options.format == Format::Html;
    let worth = if is_page { advice.worth_seeing() } else { Vec::new() };
    let watched = worth.into_iter().map(|place| trials.watch(&setting.schedulers[place]));
    let watched = watched.collect::<Result<Vec<Watched>, Failure>>()?;
    Ok(Some(FoundOut { advice, left: all - tried, watched }))
}

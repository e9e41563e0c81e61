// SPDX-License-Identifier: MIT OR Apache-2.0
//! Setting: what jobs run on and under; the options shared by all commands with runs.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use clap::Args;
use paternoster_core::{Device, Nanos, NoObserver, Observer, RequestQueue};
use paternoster_sim::{Model, Rule, Simulated};
use paternoster_workload::Queue;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::value::Reader;
use paternoster_workload::process::record::Output;
use paternoster_workload::run::{Progress, RunResult, Settings, Watcher, limits};

use crate::choice::{self, SchedulerChoice};
use crate::cost_model;
use crate::progress::{Display, Whole};
use crate::target::{Real, Target};
use crate::{Failure, host, interrupt};

/// The jitter of `run`, whose processes are fio's: between the starts of two of those there are 120
/// us in the median (`run/starts.rs` of the workload).
pub const START_JITTER: &str = "250us";

/// The default device: a SATA SSD on sale today.
const DEVICE: &str = "ssd-870evo";

/// The device or devices, the schedulers, the host.
#[derive(Debug, Args)]
pub struct SettingOptions {
    /// A device's name (see `paternoster devices`) or device file; several give one table. `run`
    /// also takes any other file, or a block device, and runs on it for real
    #[arg(long, value_name = "NAME|FILE.toml|PATH", default_value = DEVICE)]
    pub device: Vec<String>,

    /// A scheduler's name (see `paternoster schedulers`), with attributes; several give one table
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE,…]", default_value = "mq-deadline")]
    pub scheduler: Vec<String>,

    /// An attribute for all schedulers, by its sysfs name
    #[arg(long, value_name = "ATTRIBUTE=VALUE")]
    pub set: Vec<String>,

    /// Faults of every device, in addition to its file's: an effect (error [errno=5], delay
    /// time=50ms, stall time=1s, refuse) and which commands (op=read,write,discard,flush
    /// range=1m-2m from=1s to=2s every=100 probability=0.01 count=3); may be given several times
    #[arg(long, value_name = "RULE")]
    pub fault: Vec<String>,

    /// Seed for what the jobs leave to chance (randrepeat=0), and for faults
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// CPU time between a completion and the next submission (20us, 1ms; microseconds without a
    /// unit) [default: the device file's]
    #[arg(long, value_name = "TIME")]
    pub submit_cost: Option<String>,

    /// A process begins up to this much after the one before, at random (microseconds without a
    /// unit); all begin at once with 0
    #[arg(long, value_name = "TIME")]
    pub start_jitter: Option<String>,

    /// The memory in front of the device, by names of /proc/sys/vm: memory, dirty_ratio,
    /// dirty_background_ratio, dirty_expire_centisecs, dirty_writeback_centisecs; copy_cost; and a
    /// journal for its files: journal=ordered, journal_commit, journal_blocks, delayed_allocation
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub host: Vec<String>,

    /// How files are placed: near, far, interleaved:SIZE, or among:SIZE (the first one)
    #[arg(long, value_name = "HOW", default_value = "near")]
    pub placement: String,

    /// Draws all runs into one picture: queue-depth, access (places of the device), throughput,
    /// iops, latency over time, or latency-histogram; the last four with `:job` have a curve for
    /// each process; may be given several times
    #[arg(long, value_name = "KIND[:job]=FILE.svg")]
    pub plot: Vec<String>,

    /// Writes a block trace of every run, as blktrace leaves it: PREFIX.blktrace.0 and so on, for
    /// blkparse, btt and `paternoster analyze`; several runs add their names to the prefix
    #[arg(long, value_name = "PREFIX")]
    pub trace: Option<String>,

    /// Writes all runs as one trace for ui.perfetto.dev: a track for each client, the device and
    /// the scheduler's turns
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,

    /// No notes, no progress on the terminal
    #[arg(long, short)]
    pub quiet: bool,
}

impl SettingOptions {
    /// The settings of a command that has none of them: nothing is set, and nothing shown.
    pub fn plain() -> SettingOptions {
        SettingOptions {
            device: Vec::new(),
            scheduler: Vec::new(),
            set: Vec::new(),
            fault: Vec::new(),
            seed: 0,
            submit_cost: None,
            start_jitter: None,
            host: Vec::new(),
            placement: "near".to_owned(),
            plot: Vec::new(),
            trace: None,
            perfetto: None,
            quiet: true,
        }
    }
}

/// The settings, read and checked.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What jobs run on, in the order of the words.
    pub devices: Vec<Target>,
    /// The schedulers, in the order of the words.
    pub schedulers: Vec<SchedulerChoice>,
    set: Vec<(String, String)>,
    faults: Vec<Rule>,
    settings: Settings,
    submit_cost: Option<Nanos>,
    quiet: bool,
    /// By device, then by scheduler: with what was measured for it.
    resolved: Vec<Vec<SchedulerChoice>>,
}

impl Setting {
    /// Reads the options, for models only. `runtime` ends every job, whatever it says.
    pub fn new(options: &SettingOptions, runtime: Option<Nanos>) -> Result<Setting, Failure> {
        Setting::with(options, runtime, Real::Refused)
    }

    /// Reads the options; devices may be real as far as `real` says.
    pub fn with(
        options: &SettingOptions,
        runtime: Option<Nanos>,
        real: Real,
    ) -> Result<Setting, Failure> {
        let devices = options.device.iter().map(|name| Target::find(name, real, options.seed));
        let schedulers = options.scheduler.iter().map(|text| SchedulerChoice::parse(text));
        let set = options.set.iter().map(|text| choice::for_all(text));
        let faults = options.fault.iter().map(|text| fault(text));
        let micros = |option, text: &Option<String>| {
            text.as_deref().map(|text| time(option, text, Nanos::from_micros(1))).transpose()
        };
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        let schedulers = schedulers.collect::<Result<Vec<_>, _>>()?;
        let resolved = devices.iter().map(|device| cost_model::resolved(&schedulers, device));
        Ok(Setting {
            resolved: resolved.collect::<Result<_, _>>()?,
            devices,
            schedulers,
            set: set.collect::<Result<_, _>>()?,
            faults: faults.collect::<Result<_, _>>()?,
            settings: Settings {
                seed: options.seed,
                runtime,
                start_jitter: micros("--start-jitter", &options.start_jitter)?
                    .unwrap_or(Nanos::ZERO),
                host: host::settings(&options.host)?,
                placement: host::placement(&options.placement)?,
                ..Settings::default()
            },
            submit_cost: micros("--submit-cost", &options.submit_cost)?,
            quiet: options.quiet,
        })
    }

    /// The same with another seed.
    pub fn with_seed(&self, seed: u64) -> Setting {
        Setting { settings: Settings { seed, ..self.settings }, ..self.clone() }
    }

    /// The same with latencies as fio tells them, which end when it reaps the I/O.
    pub fn reaping(mut self) -> Setting {
        self.settings.reaps = true;
        self
    }

    /// The seed of what is left to chance.
    pub const fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// The settings of a run on `device`.
    pub fn on(&self, device: &Target) -> Settings {
        let submit_cost = self.submit_cost.unwrap_or(device.submit_cost);
        Settings { submit_cost, ..self.settings }
    }

    /// What distinguishes a run from the others, in pictures.
    pub fn label(&self, device: &Target, scheduler: &SchedulerChoice) -> String {
        match &self.devices[..] {
            [_] => scheduler.text.clone(),
            _ => format!("{} on {}", scheduler.text, device.name),
        }
    }

    /// What all runs of `workload` have in common, in pictures.
    pub fn subject(&self, workload: &str) -> String {
        match &self.devices[..] {
            [device] => format!("{workload} on {}", device.name),
            _ => workload.to_owned(),
        }
    }

    /// The scheduler as it runs on a device: with the cost model that was measured there, if it
    /// asks for that.
    pub fn resolved<'a>(
        &'a self,
        device: &Target,
        scheduler: &'a SchedulerChoice,
    ) -> &'a SchedulerChoice {
        let row = self.devices.iter().zip(&self.resolved).find(|(own, _)| own.name == device.name);
        row.and_then(|(_, row)| row.iter().find(|own| own.text == scheduler.text))
            .unwrap_or(scheduler)
    }

    /// Checks the attributes for these jobs on `device`, before anything runs.
    pub fn check(
        &self,
        jobs: &[Job],
        device: &Target,
        scheduler: &SchedulerChoice,
    ) -> Result<(), Failure> {
        if let (Some(_), Some(rule)) = (device.as_real(), self.faults.first()) {
            let name = &device.name;
            let message = format!("--fault {rule}: {name} is no model; faults are for models");
            return Err(Failure::Request(message));
        }
        device.check(jobs)?;
        let limits = limits(jobs, device.facts.depth);
        let mut queue =
            RequestQueue::builder(device.facts, scheduler.make()).limits(limits).build()?;
        self.prepare(self.resolved(device, scheduler), &mut queue)
    }

    /// A fresh device, with its faults.
    pub fn fresh(&self, device: &Target) -> Result<Simulated<Box<dyn Model>>, Failure> {
        device.model(&self.faults, self.settings.seed)
    }

    /// Sets the requested attributes.
    pub fn prepare<O: Observer>(
        &self,
        scheduler: &SchedulerChoice,
        queue: &mut RequestQueue<O>,
    ) -> Result<(), Failure> {
        scheduler.prepare(queue, &self.set)
    }

    /// A line of progress for a run, if wanted.
    pub fn display(&self, device: &Target, scheduler: &SchedulerChoice, whole: Whole) -> Display {
        Display::new(self.quiet, &format!("{} on {}", scheduler.text, device.name), whole)
    }

    /// One run on a fresh device. `status` gets interim results, if the jobs ask for them.
    pub fn run<O: Observer + 'static>(
        &self,
        jobs: &[Job],
        device: &Target,
        scheduler: &SchedulerChoice,
        observer: O,
        status: &mut dyn FnMut(&RunResult),
    ) -> Result<(RunResult, O, Queue), Failure> {
        let whole = Whole::of(jobs, self.settings.runtime);
        let display = self.display(device, scheduler, whole);
        let several = self.devices.len() * self.schedulers.len() > 1;
        let prefix = several.then(|| format!("{}.{}.", scheduler.text, device.name));
        let mut onlooker = Onlooker { display, prefix, status };
        let status_interval = jobs.iter().filter_map(|job| job.report.status_interval).min();
        let settings = Settings { status_interval, ..self.on(device) };
        let on = (jobs, &settings, self.resolved(device, scheduler));
        let done = match device.as_real() {
            Some(file) => self.drive(on, &mut file.open(self.seed())?, observer, &mut onlooker),
            None => {
                let mut model = self.fresh(device)?;
                let done = self.drive(on, &mut model, observer, &mut onlooker);
                done.map(|(mut result, observer, queue)| {
                    let figures = model.model().figures().into_iter();
                    result.figures = figures.map(|figure| (figure.name, figure.value)).collect();
                    (result, observer, queue)
                })
            }
        };
        onlooker.display.clear();
        done
    }

    /// A run of `jobs` on a fresh model under `noop` with its own attributes, without side effects:
    /// what clients can do.
    pub fn probe(&self, jobs: &[Job], device: &Target) -> Result<RunResult, Failure> {
        let settings = Settings { runtime: None, ..self.on(device) };
        let noop = SchedulerChoice::parse("noop")?.make();
        let mut model = self.fresh(device)?;
        let prepare = |_: &mut _| Ok::<(), Failure>(());
        let done = paternoster_workload::run(
            jobs,
            &settings,
            &mut model,
            noop,
            NoObserver,
            prepare,
            &mut Silent,
        );
        done.map(|(result, ..)| result)
    }

    /// The run itself, in the time of the given device.
    fn drive<O: Observer + 'static>(
        &self,
        (jobs, settings, scheduler): (&[Job], &Settings, &SchedulerChoice),
        device: &mut dyn Device,
        observer: O,
        onlooker: &mut Onlooker<'_>,
    ) -> Result<(RunResult, O, Queue), Failure> {
        let prepare = |queue: &mut _| self.prepare(scheduler, queue);
        let elevator = scheduler.make();
        paternoster_workload::run(jobs, settings, device, elevator, observer, prepare, onlooker)
    }
}

/// Shows nothing, and drops what jobs write about themselves.
struct Silent;

impl Watcher for Silent {
    fn stops(&mut self) -> bool {
        interrupt::heard()
    }

    fn create(&mut self, _name: &str) -> io::Result<Output> {
        Ok(Box::new(io::sink()))
    }
}

/// Watches a run: progress on the terminal, files for what jobs write.
struct Onlooker<'a> {
    display: Display,
    /// Precedes each file's name, so that several runs do not write the same one.
    prefix: Option<String>,
    status: &'a mut dyn FnMut(&RunResult),
}

impl Watcher for Onlooker<'_> {
    fn progress(&mut self, progress: Progress) {
        self.display.update(progress);
    }

    fn status(&mut self, result: &RunResult) {
        (self.status)(result);
    }

    fn stops(&mut self) -> bool {
        interrupt::heard()
    }

    fn create(&mut self, name: &str) -> io::Result<Output> {
        let path = Path::new(name);
        let path = match (&self.prefix, path.file_name().and_then(OsStr::to_str)) {
            (Some(prefix), Some(file)) => path.with_file_name(format!("{prefix}{file}")),
            _ => path.to_path_buf(),
        };
        Ok(Box::new(BufWriter::new(File::create(path)?)))
    }
}

fn fault(text: &str) -> Result<Rule, Failure> {
    text.parse().map_err(|why| Failure::Request(format!("--fault: {why}")))
}

/// Seeds as `7`, or from the first to the last as `1-5`; `None` if it is neither.
pub fn seeds(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

/// A span of time given to `option`; `unit` applies if it has none.
pub fn time(option: &str, text: &str, unit: Nanos) -> Result<Nanos, Failure> {
    let mut notes = Vec::new();
    let time = Reader::new(1024, &mut notes).time(text, unit.0);
    time.map_err(|why| Failure::Request(format!("{option} {text}: {why}")))
}

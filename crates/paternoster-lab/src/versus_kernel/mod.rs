// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster versus-kernel`: a job under the kernel's own schedulers and under ours.
//!
//! ```text
//!            ┌─▶ real fio ─▶ loop device, the kernel's none … bfq ─▶ FUSE ─▶ model in real time
//! job file ──┤                   │ sysfs: depth, iosched/*
//!            │                   ▼
//!            └─▶ ours ─────▶ the same schedulers, ours ─▶ the same way ─▶ model in virtual time
//! ```
//!
//! Both see the same device: the kernel a model emulated in real time as a file, ours the model
//! itself in virtual time, after delays equal to the cost of the path to that file, which is
//! measured in the same run. Both have as many tags, and every attribute that the kernel's sysfs
//! shows. Differences in the table then come from the algorithms alone, or from chance.
//!
//! | file | what |
//! |---|---|
//! | `needs` | what must be there |
//! | `split` | a job file as fio runs it on one block device |
//! | `cgroups`, `loop_device`, `undo` | what is changed on the machine, and put back |
//! | `fio` | run, and read |
//! | `stage` | the device; what the way to it costs |
//! | `way`, `ours` | our side |
//! | `record` | the kernel's decisions |
//! | `drawn` | random jobs, collected over time |
//! | `tell` | the table |
//!
//! Everything is restored whatever happens: at the end, after a failure, a panic, Ctrl-C.

mod cgroups;
mod drawn;
mod fio;
mod loop_device;
mod needs;
mod ours;
mod record;
mod split;
mod stage;
mod tell;
#[cfg(test)]
mod tests;
mod undo;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use clap::Args;
use paternoster_core::Nanos;
use paternoster_frame::choice::{self, SchedulerChoice, assignment};
use paternoster_frame::format::{Format, emit};
use paternoster_frame::progress::Steps;
use paternoster_frame::say;
use paternoster_frame::setting::time;
use paternoster_frame::{Failure, job_files, print};
use paternoster_sim::Description;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{JobFile, Source, parse};
use paternoster_workload::fio::unwired;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use self::cgroups::Hierarchy;
use self::fio::Got;
use self::loop_device::{Attributes, NR_REQUESTS, TAGS_LEAST, TAGS_MOST};
use self::needs::Needs;
use self::ours::Same;
use self::record::Recording;
use self::stage::Stage;
use self::tell::{Machine, Row, Table, Told};
use self::undo::Undo;
use self::way::Costs;

/// The kernel's names of its schedulers, which are also ours.
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// Our runs, each with another seed: differences between them are not differences of the
/// algorithms.
const OURS: u64 = 9;

/// Run fio jobs under the kernel's own schedulers and ours, on the same slow device, side by side
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "It needs root, FUSE, loop devices and fio, and leaves everything as it was.

Examples:
  paternoster versus-kernel jobs/versus-kernel/two-readers.fio \\
    --device jobs/versus-kernel/slow-disk.toml
  paternoster versus-kernel mine.fio --device flash-card-2010 --schedulers none,bfq --runtime 10 \\
    --repeat 3 --json mine.json
  paternoster versus-kernel mine.fio --device lab-flash --schedulers bfq --record decisions
  paternoster versus-kernel mine.fio --device lab-flash --beside paternoster
  paternoster versus-kernel --drawn 1-60 --repeat 3 --results drawn.tsv
  paternoster versus-kernel --results drawn.tsv

Exit status: 0 done, 1 a job failed or something could not be put back, 2 something is missing or \
     the request was wrong."
)]
pub struct VersusOptions {
    /// Job files, one after the other; a table for each
    #[arg(value_name = "JOB.fio", required_unless_present = "results")]
    files: Vec<String>,

    /// A device's name (see `paternoster devices`) or device file; commands of a millisecond and
    /// more can be emulated well
    #[arg(long, value_name = "NAME|FILE.toml", required_unless_present = "results")]
    device: Option<String>,

    /// Instead of job files: draws a job and a device for each of these seeds, for 3 s each
    #[arg(long, value_name = "SEEDS", value_parser = drawn::seeds)]
    #[arg(requires = "results", conflicts_with_all = ["files", "device", "runtime", "record"])]
    drawn: Option<(u64, u64)>,

    /// Where drawn jobs' figures are added, each seed once; shows what is there
    #[arg(long, value_name = "FILE.tsv", conflicts_with_all = ["files", "json", "beside"])]
    results: Option<PathBuf>,

    /// The kernel's schedulers
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    #[arg(default_values_t = SCHEDULERS.map(str::to_owned))]
    schedulers: Vec<String>,

    /// Our schedulers that the kernel lacks, with attributes if you like: rows next to the others,
    /// on the same model with the same path before it
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE]")]
    beside: Vec<String>,

    /// Ends every job after this time, whatever it says (seconds without a unit)
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,

    /// Runs on the kernel; the median counts
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    repeat: u32,

    /// Tags of the loop driver, and of our device [default: the device's depth, at least 4]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = tags())]
    depth: Option<u32>,

    /// Attributes that the kernel's schedulers are set to, those that have them, and `nr_requests`;
    /// ours are then as the kernel says. bfq has low_latency=0 unless said here
    #[arg(long, value_name = "NAME=VALUE,…", value_delimiter = ',')]
    kernel_attributes: Vec<String>,

    /// Writes what the kernel's tracer says of every run, bfq's decisions among it, to
    /// PREFIX.JOBS.SCHEDULER.txt
    #[arg(long, value_name = "PREFIX")]
    record: Option<PathBuf>,

    /// Also writes everything to a file, for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// How to print the results
    #[arg(long = "format", alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    output_format: Format,

    /// No notes, no progress on the terminal
    #[arg(long, short)]
    quiet: bool,
}

/// How many tags the loop driver may have.
fn tags() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(TAGS_LEAST)..=i64::from(TAGS_MOST))
}

/// Carries it out, and prints the results.
///
/// # Errors
/// Something that it needs is missing, the request is wrong, a job fails, or something could not be
/// put back.
pub fn versus_kernel(options: &VersusOptions) -> Result<(), Failure> {
    if let Some(path) = &options.results {
        let mut failed = Vec::new();
        if let Some(seeds) = options.drawn {
            needed(&options.schedulers, true)?;
            failed = drawn::collect(options, seeds, path, &*stops()?)?;
        }
        print(&drawn::summary(path)?)?;
        return finished(&failed);
    }
    let plan = Plan::new(options)?;
    let cgroups =
        plan.jobs.iter().any(|(_, file)| file.jobs.iter().any(|job| job.priority.cgroup.is_some()));
    needed(&plan.schedulers, cgroups)?;
    let (told, failed) = plan.run(&*stops()?)?;
    emit(options.output_format, None, |format| match format {
        Format::Table => told.text(),
        Format::Markdown => told.markdown(),
        Format::Json => format!("{:#}\n", told.json()),
        Format::Csv | Format::Parquet => told.csv(),
        Format::Html => told.html(),
    })?;
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", told.json());
        std::fs::write(path, text)
            .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?;
    }
    finished(&failed)
}

/// Refuses, listing everything missing, if this machine cannot do it.
fn needed(schedulers: &[String], cgroups: bool) -> Result<(), Failure> {
    let schedulers: Vec<&str> = schedulers.iter().map(String::as_str).collect();
    let missing = Needs { schedulers: &schedulers, cgroups }.missing();
    if missing.is_empty() {
        return Ok(());
    }
    let lines = missing.join("\npaternoster: versus-kernel needs ");
    Err(Failure::Request(format!("versus-kernel needs {lines}")))
}

/// A flag that a signal to end sets.
fn stops() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn finished(failed: &[String]) -> Result<(), Failure> {
    if failed.is_empty() { Ok(()) } else { Err(Failure::Job(failed.join("\npaternoster: "))) }
}

/// The whole request, read and checked.
#[derive(Debug)]
struct Plan<'a> {
    options: &'a VersusOptions,
    /// With as many tags as the loop driver will have.
    device: Description,
    /// Names of files without folder and ending, and what they hold.
    jobs: Vec<(String, JobFile)>,
    schedulers: Vec<String>,
    wanted: Vec<(String, String)>,
    runtime: Option<Nanos>,
}

impl<'a> Plan<'a> {
    fn new(options: &'a VersusOptions) -> Result<Plan<'a>, Failure> {
        let name = options.device.as_deref().unwrap_or_default();
        let mut device = choice::device(name)?;
        device.facts.depth =
            options.depth.unwrap_or(device.facts.depth).clamp(TAGS_LEAST, TAGS_MOST);
        for name in &options.schedulers {
            if !SCHEDULERS.contains(&name.as_str()) {
                let known = SCHEDULERS.join(", ");
                let message = format!("--schedulers {name}: the kernel's are {known}");
                return Err(Failure::Request(message));
            }
            SchedulerChoice::parse(name)?;
        }
        for name in &options.beside {
            choice::queue(name, device.facts, &[]).map(drop)?;
        }
        let wanted = options.kernel_attributes.iter();
        let wanted = wanted.map(|text| assignment("--kernel-attributes", text));
        let mut wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        if !wanted.iter().any(|(name, _)| name == "low_latency") {
            // With it runs of a few seconds are a matter of luck.
            wanted.push(("low_latency".to_owned(), "0".to_owned()));
        }
        let runtime = options.runtime.as_deref();
        let runtime = runtime.map(|text| time("--runtime", text, Nanos::from_secs(1)));
        let runtime = runtime.transpose()?;
        if runtime == Some(Nanos::ZERO) {
            let message = "--runtime 0: a run takes some time, as 5s or 300ms";
            return Err(Failure::Request(message.to_owned()));
        }
        let jobs = options.files.iter().map(|name| read(name, runtime));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let schedulers = options.schedulers.clone();
        let plan = Plan { options, device, jobs, schedulers, wanted, runtime };
        for (_, file) in &plan.jobs {
            // What cannot be split is reported before anything is touched.
            plan.split(file, Path::new("/dev/loop0"))?;
        }
        Ok(plan)
    }

    fn split(&self, file: &JobFile, device: &Path) -> Result<Vec<split::Part>, Failure> {
        let capacity = self.device.facts.capacity * 512;
        split::split(file, device, capacity, self.runtime).map_err(Failure::Request)
    }

    /// Runs everything; returns the results, and what failed on the way.
    fn run(&self, stop: &AtomicBool) -> Result<(Told, Vec<String>), Failure> {
        // Dropped last: it goes when the device in it is gone.
        let mut folders = Undo::new();
        let name = format!("paternoster-versus-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        folders.folder(&folder, true).map_err(Failure::Job)?;
        if self.options.record.is_some() {
            record::mount(&mut folders).map_err(Failure::Request)?;
        }
        let theirs = self.schedulers.len() * (self.options.repeat as usize + 1);
        let runs = self.jobs.len() * (theirs + self.options.beside.len());
        let display = Steps::new(self.options.quiet, runs + 1);
        let costs = stage::measure(&folder, stop).map_err(Failure::Job)?;
        display.done("the way to the device");
        let stage = Stage::open(&self.device, &folder, "device").map_err(Failure::Job)?;
        let mut on =
            OnStage { plan: self, stage: &stage, folder: &folder, stop, display, costs, hz: 0 };
        let told = on.all();
        on.display.clear();
        let hz = on.hz;
        let closed = stage.close();
        let wrong = folders.all();
        let (tables, unknown, mut failed) = told?;
        failed.extend(wrong.into_iter().map(|wrong| format!("not put back: {wrong}")));
        let precision = closed.unwrap_or_else(|wrong| {
            failed.push(wrong);
            paternoster_serve::emulate::Precision::default()
        });
        let kernel = undo::read(Path::new("/proc/sys/kernel/osrelease"));
        let machine = Machine {
            kernel: kernel.unwrap_or_else(|_| "of unknown version".to_owned()),
            date: tell::day(SystemTime::now()),
        };
        let told = Told {
            machine,
            device: self.device.name.clone(),
            tags: self.device.facts.depth,
            repeat: self.options.repeat,
            costs,
            hz,
            precision,
            unknown,
            tables,
        };
        Ok((told, failed))
    }
}

/// A job file, with our runtime if there is one.
fn read(name: &str, runtime: Option<Nanos>) -> Result<(String, JobFile), Failure> {
    let (name, text) = job_files::read_file(name)?;
    let environment = |name: &str| std::env::var(name).ok();
    let source = Source { name: &name, text: &text };
    let file = parse(&[source], &[], &[], &environment, &job_files::include);
    let mut file = file.map_err(|problems| job_files::refused(&problems))?;
    let unwired = unwired::problems(&file.jobs);
    if !unwired.is_empty() {
        return Err(job_files::refused(&unwired));
    }
    if file.jobs.is_empty() {
        return Err(Failure::Request(format!("{name}: there is no job")));
    }
    for job in &mut file.jobs {
        same(job, runtime).map_err(|why| Failure::Request(job.problem(why).to_string()))?;
    }
    let stem = Path::new(&name).file_stem().unwrap_or_default();
    Ok((stem.to_string_lossy().into_owned(), file))
}

/// Prepares a job as fio will run it: bypassing the page cache, and with our duration.
fn same(job: &mut Job, runtime: Option<Nanos>) -> Result<(), String> {
    if !job.replay.logs.is_empty() || job.profile.is_some() {
        return Err("a job that replays a log, or has a profile, is not run here".to_owned());
    }
    job.cache.direct = Some(true);
    if let Some(runtime) = runtime {
        (job.time.runtime, job.time.time_based) = (Some(runtime), true);
        job.region.loops = 1;
    }
    if job.region.size.is_none() {
        return Err("`size` is needed: without it each job has the whole device".to_owned());
    }
    Ok(())
}

/// Runs on a stage.
struct OnStage<'a> {
    plan: &'a Plan<'a>,
    stage: &'a Stage,
    folder: &'a Path,
    stop: &'a AtomicBool,
    display: Steps,
    costs: Costs,
    hz: u32,
}

/// Tables, attributes that ours lacks, and what failed.
type Results = (Vec<Table>, Vec<String>, Vec<String>);

impl OnStage<'_> {
    fn all(&mut self) -> Result<Results, Failure> {
        self.look()?;
        let (mut tables, mut unknown, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, file) in &self.plan.jobs {
            let mut rows: Vec<Row> = Vec::new();
            for scheduler in &self.plan.schedulers {
                let done = self.compare(name, file, scheduler, &mut unknown);
                if self.stop.load(Ordering::Relaxed) {
                    return Err(Failure::Job("stopped by a signal".to_owned()));
                }
                match done {
                    Ok(found) => rows.extend(found),
                    Err(Failure::Request(why) | Failure::Job(why)) => {
                        failed.push(format!("{name} under {scheduler}: {why}"));
                    }
                    Err(other) => return Err(other),
                }
            }
            match self.alone(name, file) {
                Ok(found) => rows.extend(found),
                Err(Failure::Request(why) | Failure::Job(why)) => {
                    failed.push(format!("{name}, ours alone: {why}"));
                }
                Err(other) => return Err(other),
            }
            // By process: schedulers next to each other, processes in the job file's order.
            let names = process_names(&file.jobs);
            let place = |row: &Row| names.iter().position(|name| *name == row.process);
            rows.sort_by_key(place);
            tables.push(Table { jobs: name.clone(), rows });
        }
        Ok((tables, unknown, failed))
    }

    /// Chooses each scheduler once: finds what would be refused, and how long the kernel's tick is.
    fn look(&mut self) -> Result<(), Failure> {
        let queue = &self.stage.loop_device.queue;
        let mut known = vec!["low_latency".to_owned(), NR_REQUESTS.to_owned()];
        for scheduler in &self.plan.schedulers {
            let chosen = queue.choose(scheduler, &self.plan.wanted);
            let attributes = chosen.map_err(Failure::Request)?;
            known.extend(attributes.iosched.into_iter().map(|(name, _)| name));
        }
        for (name, value) in &self.plan.wanted {
            if !known.contains(name) {
                let message =
                    format!("--kernel-attributes {name}={value}: none of these schedulers has it");
                return Err(Failure::Request(message));
            }
        }
        let usual = queue.choose("bfq", &[]).unwrap_or_default();
        let timeout = usual.iosched.iter().find(|(name, _)| name == "timeout_sync");
        self.hz = timeout.map_or(0, |(_, value)| ours::hz(value));
        queue.choose("none", &[]).map(drop).map_err(Failure::Job)
    }

    /// One job file under one scheduler, theirs and ours.
    fn compare(
        &self,
        name: &str,
        file: &JobFile,
        scheduler: &str,
        unknown: &mut Vec<String>,
    ) -> Result<Vec<Row>, Failure> {
        let loop_device = &self.stage.loop_device;
        let mut runs: Vec<Vec<Got>> = Vec::new();
        let mut attributes = Attributes::default();
        for nth in 1..=self.plan.options.repeat {
            let chosen = loop_device.queue.choose(scheduler, &self.plan.wanted);
            attributes = chosen.map_err(Failure::Job)?;
            runs.push(self.theirs(name, file, scheduler, nth)?);
            self.display.done(&format!("{name} under the kernel's {scheduler}"));
        }
        let (ours, mapped) = self.ours(name, file, scheduler, &attributes)?;
        for name in mapped.unknown {
            let said = format!("{scheduler}'s {name}");
            if !unknown.contains(&said) {
                unknown.push(said);
            }
        }
        Ok(rows(file, scheduler, &runs, &ours))
    }

    /// One job file under one of ours that the kernel lacks: with the kernel's queue attributes,
    /// but no scheduler attributes.
    fn alone(&self, name: &str, file: &JobFile) -> Result<Vec<Row>, Failure> {
        let mut all = Vec::new();
        // All except `none` have the same queue.
        let Some(like) = self.plan.schedulers.last() else { return Ok(all) };
        for scheduler in &self.plan.options.beside {
            let wanted = &self.plan.wanted;
            let chosen = self.stage.loop_device.queue.choose(like, wanted).map_err(Failure::Job)?;
            let attributes = Attributes { iosched: Vec::new(), ..chosen };
            let (ours, _) = self.ours(name, file, scheduler, &attributes)?;
            all.extend(rows(file, scheduler, &[], &ours));
        }
        Ok(all)
    }

    /// Our runs of a job file, one for each seed.
    fn ours(
        &self,
        name: &str,
        file: &JobFile,
        scheduler: &str,
        attributes: &Attributes,
    ) -> Result<(Vec<Vec<Got>>, ours::Mapped), Failure> {
        let (hz, costs) = (self.hz, self.costs);
        let same = Same { device: &self.plan.device, scheduler, attributes, hz, costs };
        let mut ours: Vec<Vec<Got>> = Vec::new();
        let mut mapped = ours::Mapped::default();
        for seed in 0..OURS {
            let (got, found) = ours::run(&file.jobs, &same, seed)?;
            ours.push(got);
            mapped = found;
        }
        self.display.done(&format!("{name} under our {scheduler}"));
        Ok((ours, mapped))
    }

    /// Does one run on the kernel.
    fn theirs(
        &self,
        name: &str,
        file: &JobFile,
        scheduler: &str,
        nth: u32,
    ) -> Result<Vec<Got>, Failure> {
        let loop_device = &self.stage.loop_device;
        let parts = self.plan.split(file, &loop_device.path)?;
        let mut groups = Undo::new();
        let parts = if parts.iter().any(|part| part.group.is_some()) {
            let made = Hierarchy::find().and_then(|found| found.make(parts, &mut groups));
            made.map_err(Failure::Job)?
        } else {
            parts.into_iter().map(|part| (part, None)).collect()
        };
        let recording = self.plan.options.record.as_ref().map(|prefix| {
            let again = if nth > 1 { format!("-{nth}") } else { String::new() };
            let path = format!("{}.{name}.{scheduler}{again}.txt", prefix.display());
            Recording::start(&loop_device.name(), Path::new(&path))
        });
        let recording = recording.transpose()?;
        let done = fio::run(&parts, self.folder, self.stop);
        if let Some(note) = recording.map(Recording::finish).transpose()?.flatten() {
            say!("note: {note}");
        }
        let done = done.map_err(Failure::Job)?;
        let wrong = groups.all();
        if wrong.is_empty() { Ok(done) } else { Err(Failure::Job(wrong.join("; "))) }
    }
}

/// A row for each process.
fn rows(file: &JobFile, scheduler: &str, runs: &[Vec<Got>], ours: &[Vec<Got>]) -> Vec<Row> {
    let of = |runs: &[Vec<Got>], place: usize| -> Vec<Got> {
        runs.iter().map(|run| run[place].clone()).collect()
    };
    let names = process_names(&file.jobs).into_iter().enumerate();
    let row = |(place, name)| Row::new(name, scheduler, &of(runs, place), &of(ours, place));
    names.map(row).collect()
}

/// The name of each clone; with a number where several would share it.
fn process_names(jobs: &[Job]) -> Vec<String> {
    let clones: Vec<&str> =
        jobs.iter().flat_map(|job| (0..job.clones.numjobs).map(|_| job.name.as_str())).collect();
    let name = |place: usize| {
        let same = |other: &&&str| **other == clones[place];
        match clones.iter().filter(same).count() {
            1 => clones[place].to_owned(),
            _ => format!("{}.{}", clones[place], clones[..place].iter().filter(same).count()),
        }
    };
    (0..clones.len()).map(name).collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster run`: fio jobs on modelled devices, or for real, under one scheduler or several.
//!
//! Everything is read and checked before anything runs. Each pair of device and scheduler is a
//! run of its own with a fresh device; results come in the order of the arguments.

use std::fmt::Write as _;
use std::io::BufReader;
use std::sync::Arc;

use paternoster_core::{Nanos, Observer};
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::entitled::{self, Entitled};
use paternoster_frame::job_files::{include, read_file, refused};
use paternoster_frame::page::{self, Watched};
use paternoster_frame::real::RealFile;
use paternoster_frame::results::{Format, emit};
use paternoster_frame::say;
use paternoster_frame::setting::{Setting, time};
use paternoster_frame::target::{self, Real, Target};
use paternoster_frame::{Failure, interrupt};

use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{JobFile, Problem, Source, parse, parse_command_line};
use paternoster_workload::fio::recorded::Recorded;
use paternoster_workload::fio::unwired;
use paternoster_workload::meter::{CommandHash, EventHash};
use paternoster_workload::outcome::{Outcome, Subject};
use paternoster_workload::report::TerseVersion;
use paternoster_workload::run::{RunResult, Settings};
use paternoster_workload::{Queue, layout, report};

use crate::Ran;
use crate::arguments::{Form, RunOptions};
use crate::compare::{self, Told};
use crate::device_figures;
use crate::evidence::{Evidence, Which};
use crate::plot::clients;

pub(crate) fn run(options: &RunOptions, fio: &[String]) -> Result<(), Failure> {
    let jobs = read_jobs(options, fio)?;
    let plan = Plan::new(options, &jobs)?;
    let mut evidence = Evidence::new(&options.setting)?;
    page::check("--html", options.html.as_ref())?;
    let is_page = options.html.is_some() || options.format == Some(Format::Html);
    evidence.watch(is_page || options.explain);
    if !options.setting.quiet {
        tell_notes(&jobs);
        let real = plan.setting.devices.iter().filter_map(Target::as_real);
        real.flat_map(RealFile::notes).for_each(|note| say!("note: {note}"));
    }
    if options.parse_only {
        return Ok(());
    }
    interrupt::hear()?;
    let mut runs: Vec<Told> = Vec::new();
    let mut entitled = (!options.no_entitlement).then(Entitled::default);
    for device in &plan.setting.devices {
        for scheduler in &plan.setting.schedulers {
            if !interrupt::heard() {
                runs.push(plan.run(device, scheduler, &mut evidence, entitled.as_mut())?);
            }
        }
    }
    let what = plan.setting.subject(&workload(options, &jobs));
    tell(options, &what, &runs, evidence.watched())?;
    evidence.write(&what)?;
    interrupt::end(|| {
        let left = plan.setting.devices.len() * plan.setting.schedulers.len() - runs.len();
        format!("the last run was not done to its end, {left} were not begun")
    })?;
    let outcomes = runs.iter().map(|run| &run.outcome);
    failed(outcomes).map_or(Ok(()), |message| Err(Failure::Job(message)))
}

/// The message about a job that failed, if one did.
fn failed<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Option<String> {
    let jobs = outcomes.into_iter().flat_map(|outcome| &outcome.report.jobs);
    let job = { jobs }.find(|job| job.error != 0)?;
    Some(format!("job {} failed with errno {}", job.name, job.error))
}

/// The same runs for a call, with digests, each observed by what `observer` makes; prints nothing.
pub(crate) fn outcomes<O: Observer + 'static>(
    options: &RunOptions,
    fio: &[String],
    mut observer: impl FnMut(&[Job]) -> O,
) -> Result<Ran<O>, Failure> {
    let jobs = read_jobs(options, fio)?;
    let plan = Plan::new(options, &jobs)?;
    let mut entitled = (!options.no_entitlement).then(Entitled::default);
    let mut notes: Vec<String> = jobs.notes.iter().map(ToString::to_string).collect();
    let mut runs = Vec::new();
    for device in &plan.setting.devices {
        for scheduler in &plan.setting.schedulers {
            let observer = (EventHash::default(), observer(&jobs.jobs));
            let digest = |(hash, _): &(EventHash, O)| Some(hash.digest());
            let status = &mut |_: &RunResult| {};
            let (mut done, (_, observer)) =
                plan.observed((device, scheduler), observer, digest, status)?;
            notes.extend(plan.judge(device, &mut done, entitled.as_mut())?);
            interrupt::end(String::new)?;
            runs.push((done.outcome, observer));
        }
    }
    let failed = failed(runs.iter().map(|(outcome, _)| outcome));
    Ok(Ran { runs, notes, failed })
}

/// What ran, for pictures: the job files, or the jobs of the command line.
fn workload(options: &RunOptions, jobs: &JobFile) -> String {
    let jobs: Vec<&str> = jobs.jobs.iter().map(|job| job.name.as_str()).collect();
    let files: Vec<&str> = options.files.iter().map(String::as_str).collect();
    if files.is_empty() { jobs.join(", ") } else { files.join(", ") }
}

/// All job files and the jobs of the command line, one after the other.
fn read_jobs(options: &RunOptions, fio: &[String]) -> Result<JobFile, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let first_name = fio.iter().position(|option| is_name(option)).unwrap_or(fio.len());
    let defaults: Vec<(String, String)> =
        fio[..first_name].iter().map(|option| pair(option)).collect();
    let mut jobs = JobFile { global: Vec::new(), jobs: Vec::new(), notes: Vec::new() };
    if !options.files.is_empty() {
        let texts = options.files.iter().map(|name| read_file(name));
        let texts: Vec<(String, String)> = texts.collect::<Result<_, _>>()?;
        let sources: Vec<Source<'_>> =
            texts.iter().map(|(name, text)| Source { name, text }).collect();
        jobs = parse(&sources, &defaults, &options.section, &environment, &include)
            .map_err(|problems| refused(&problems))?;
    }
    if first_name < fio.len() {
        let more = if options.files.is_empty() { fio } else { &fio[first_name..] };
        let more = parse_command_line(more, &environment).map_err(|problems| refused(&problems))?;
        jobs.global.extend(more.global);
        jobs.jobs.extend(more.jobs);
        jobs.notes.extend(more.notes);
    }
    if jobs.jobs.is_empty() {
        let message = "there is no job: name a job file, `-` for standard input, or \
         --name=… with fio's options";
        return Err(Failure::Request(message.to_owned()));
    }
    jobs.jobs.iter_mut().try_for_each(read_logs)?;
    Ok(jobs)
}

/// The logs that a job replays.
fn read_logs(job: &mut Job) -> Result<(), Failure> {
    for name in &job.replay.logs {
        let file = std::fs::File::open(name)
            .map_err(|error| Failure::Request(format!("read_iolog {name}: {error}")))?;
        let log = Recorded::read(name, BufReader::new(file), &job.replay);
        job.recorded.push(Arc::new(log.map_err(|problem| refused(&[problem]))?));
    }
    Ok(())
}

fn is_name(option: &str) -> bool {
    option == "--name" || option.starts_with("--name=")
}

fn pair(option: &str) -> (String, String) {
    let option = option.trim_start_matches('-');
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    (name.to_owned(), value.to_owned())
}

fn tell_notes(jobs: &JobFile) {
    for note in &jobs.notes {
        say!("note: {note}");
    }
}

/// What does not fit; for a real file it says how large that is.
fn too_small(device: &Target, problem: Problem) -> Failure {
    match device.as_real() {
        None => refused(&[problem]),
        Some(_) => {
            let (name, bytes) = (&device.name, device.facts.capacity * 512);
            Failure::Request(format!("{name} has {bytes} bytes: {problem}"))
        }
    }
}

/// A run, and its outcome before entitlement is added.
struct Done {
    outcome: Outcome,
    result: RunResult,
    queue: Queue,
}

/// What all runs have in common.
struct Plan<'a> {
    options: &'a RunOptions,
    jobs: &'a JobFile,
    setting: Setting,
}

impl<'a> Plan<'a> {
    /// Reads the rest of the options, and checks everything.
    fn new(options: &'a RunOptions, jobs: &'a JobFile) -> Result<Plan<'a>, Failure> {
        let runtime = match options.runtime.as_deref() {
            None => None,
            Some(text) => match time("--runtime", text, Nanos::from_secs(1))? {
                Nanos::ZERO => {
                    let message = "--runtime 0: a run takes some time, as 5s or 300ms";
                    return Err(Failure::Request(message.to_owned()));
                }
                runtime => Some(runtime),
            },
        };
        let real = Real::Allowed { writes: target::writes(&jobs.jobs), force: options.force };
        let setting = Setting::with(&options.setting, runtime, real)?.reaping();
        let plan = Plan { options, jobs, setting };
        plan.check()?;
        Ok(plan)
    }

    /// Finds everything that can be wrong before the first run.
    fn check(&self) -> Result<(), Failure> {
        let unwired = unwired::problems(&self.jobs.jobs);
        if !unwired.is_empty() {
            return Err(refused(&unwired));
        }
        for device in &self.setting.devices {
            let Settings { placement, seed, .. } = self.setting.on(device);
            layout::plan(&self.jobs.jobs, device.facts.capacity * 512, placement, seed)
                .map_err(|problem| too_small(device, problem))?;
            for scheduler in &self.setting.schedulers {
                self.setting.check(&self.jobs.jobs, device, scheduler)?;
            }
        }
        Ok(())
    }

    fn run(
        &self,
        device: &Target,
        scheduler: &SchedulerChoice,
        evidence: &mut Evidence,
        entitled: Option<&mut Entitled>,
    ) -> Result<Told, Failure> {
        let settings = self.setting.on(device);
        let subject = self.subject(device, scheduler, &settings);
        // fio repeats its whole report during the run.
        let mut status = |result: &RunResult| {
            let text = report::normal(&Outcome::new(&subject, result, None).report);
            let _closed = paternoster_frame::print(&(text + "\n"));
        };
        let which = Which { setting: &self.setting, device, scheduler, more: "" };
        let run_observer = evidence.run_observer(which, clients(&self.jobs.jobs))?;
        let on = (device, scheduler);
        let observer = (CommandHash::default(), run_observer);
        let (mut done, (commands, run_observer)) = if self.options.event_hash {
            let observer = (EventHash::default(), observer);
            let digest = |(hash, _): &(EventHash, _)| Some(hash.digest());
            let (done, (_, observer)) = self.observed(on, observer, digest, &mut status)?;
            (done, observer)
        } else {
            self.observed(on, observer, |_| None, &mut status)?
        };
        evidence.keep(which, run_observer)?;
        let notes = self.judge(device, &mut done, entitled)?;
        Ok(Told { outcome: done.outcome, commands: commands.digest(), notes })
    }

    fn subject<'b>(
        &'b self,
        device: &'b Target,
        scheduler: &'b SchedulerChoice,
        settings: &'b Settings,
    ) -> Subject<'b> {
        let (device, scheduler) = (device.name.as_str(), scheduler.text.as_str());
        Subject { jobs: self.jobs, device, scheduler, settings }
    }

    /// Does one run; returns the observer.
    fn observed<O: Observer + 'static>(
        &self,
        (device, scheduler): (&Target, &SchedulerChoice),
        observer: O,
        digest: impl FnOnce(&O) -> Option<u64>,
        status: &mut dyn FnMut(&RunResult),
    ) -> Result<(Done, O), Failure> {
        let jobs = &self.jobs.jobs;
        let (result, observer, queue) =
            self.setting.run(jobs, device, scheduler, observer, status)?;
        let settings = self.setting.on(device);
        let subject = self.subject(device, scheduler, &settings);
        let outcome = Outcome::new(&subject, &result, digest(&observer));
        Ok((Done { outcome, result, queue }, observer))
    }

    /// Adds what each process is entitled to, if requested, and notes to be read with the figures.
    fn judge(
        &self,
        device: &Target,
        done: &mut Done,
        entitled: Option<&mut Entitled>,
    ) -> Result<Vec<String>, Failure> {
        let jobs = &self.jobs.jobs;
        let Done { outcome, result, queue } = done;
        if let Some(entitled) = entitled {
            entitled.judge(&self.setting, jobs, device, result, outcome)?;
        }
        let mut most = String::new();
        let _absent = queue.show_attribute("nr_requests", &mut most);
        let mut notes = most.trim().parse().map_or_else(
            |_| Vec::new(),
            |most| entitled::notes(outcome, jobs, result, &device.facts, most),
        );
        let run = format!("{} on {}", outcome.report.scheduler, device.name);
        notes.extend(device_figures::sentence(&run, &result.figures));
        Ok(notes)
    }
}

/// Writes the results in every requested form.
fn tell(
    options: &RunOptions,
    what: &str,
    runs: &[Told],
    watched: &[Watched],
) -> Result<(), Failure> {
    let mut results = compare::results(what, runs, watched);
    if options.explain {
        results.explained.extend(watched.iter().map(Watched::explained));
    }
    let page = || page::render(&results, watched);
    if let Some(path) = &options.html {
        page::write(path, &page())?;
    }
    let default = match runs {
        [_] => vec![Form::Normal, Form::Table],
        _ => vec![Form::Table],
    };
    let forms = match () {
        () if options.minimal => &vec![Form::Terse],
        () if options.output_format.is_empty() => &default,
        () => &options.output_format,
    };
    let terse_version = TerseVersion::of(options.terse_version).unwrap_or_default();
    let mut text = String::new();
    // Tables and documents have them; fio's forms have no place for them.
    let has_notes = match options.format {
        Some(format) => !matches!(format, Format::Csv | Format::Parquet),
        None => forms.contains(&Form::Table),
    };
    if !has_notes && !options.setting.quiet {
        runs.iter().flat_map(|run| &run.notes).for_each(|note| say!("note: {note}"));
    }
    let outcomes: Vec<&Outcome> = runs.iter().map(|run| &run.outcome).collect();
    if let Some(format) = options.format {
        return emit(format, options.output.as_deref(), |format| match format {
            Format::Html => page(),
            format => results.told(format),
        });
    }
    for form in forms {
        match form {
            Form::Table => text.push_str(&results.told(Format::Table)),
            Form::Csv => {
                for (place, outcome) in outcomes.iter().enumerate() {
                    text.push_str(&report::csv(&outcome.report, place == 0));
                }
            }
            Form::Json | Form::JsonPlus => {
                let render = if *form == Form::Json { report::json } else { report::json_plus };
                for outcome in &outcomes {
                    text.push_str(render(&outcome.report).trim_end());
                    text.push('\n');
                }
            }
            Form::Terse => {
                for outcome in &outcomes {
                    text.push_str(&report::terse(&outcome.report, terse_version));
                }
            }
            Form::Normal | Form::Normal1 => {
                for outcome in &outcomes {
                    let report = &outcome.report;
                    if outcomes.len() > 1 {
                        let _infallible =
                            writeln!(text, "{} on {}", report.scheduler, report.device);
                    }
                    let render =
                        if *form == Form::Normal { report::normal } else { report::normal1 };
                    text.push_str(&render(report));
                    text.push('\n');
                }
            }
        }
    }
    match &options.output {
        None => paternoster_frame::print(&text)?,
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?,
    }
    Ok(())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster run`: fio jobs on modelled devices, or for real, under one scheduler or several.
//!
//! Everything is read and checked before anything runs. Each pair of device and scheduler is a
//! run of its own with a fresh device; results come in the order of the arguments.

use std::fmt::Write as _;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use paternoster_core::Nanos;

use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{JobFile, Problem, Source, parse, parse_command_line};
use paternoster_workload::fio::recorded::Recorded;
use paternoster_workload::fio::unwired;
use paternoster_workload::meter::{CommandHash, EventHash};
use paternoster_workload::outcome::{Outcome, Subject};
use paternoster_workload::report::TerseVersion;
use paternoster_workload::run::{RunResult, Settings};
use paternoster_workload::{layout, report};

use crate::arguments::{Form, RunOptions};
use crate::choice::SchedulerChoice;
use crate::compare::{self, Told};
use crate::entitled::{self, Entitled};
use crate::evidence::{Evidence, Which};
use crate::page::{self, Watched};
use crate::plot::clients;
use crate::real::RealFile;
use crate::results::Format;
use crate::setting::{Setting, time};
use crate::target::{self, Real, Target};
use crate::{Failure, interrupt};

pub(crate) fn run(options: &RunOptions, fio: &[String]) -> Result<(), Failure> {
    let jobs = read_jobs(options, fio)?;
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
    let setting = Setting::with(&options.setting, runtime, real)?;
    let plan = Plan { options, jobs: &jobs, setting };
    plan.check()?;
    let mut evidence = Evidence::new(&options.setting)?;
    page::check(options.html.as_ref())?;
    let is_page = options.html.is_some() || options.format == Some(Format::Html);
    evidence.watch(is_page || options.explain);
    if !options.setting.quiet {
        tell_notes(&jobs);
        let real = plan.setting.devices.iter().filter_map(Target::as_real);
        real.flat_map(RealFile::notes).for_each(|note| eprintln!("note: {note}"));
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
    match runs.iter().flat_map(|run| &run.outcome.report.jobs).find(|job| job.error != 0) {
        None => Ok(()),
        Some(job) => Err(Failure::Job(format!("job {} failed with errno {}", job.name, job.error))),
    }
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

pub(crate) fn read_file(name: &str) -> Result<(String, String), Failure> {
    let wrong = |error: std::io::Error| {
        let hint = "; fio's options are written --option=value";
        let hint = if error.kind() == std::io::ErrorKind::NotFound { hint } else { "" };
        Failure::Request(format!("job file {name}: {error}{hint}"))
    };
    let text = if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(wrong)?;
        text
    } else {
        std::fs::read_to_string(name).map_err(wrong)?
    };
    Ok((if name == "-" { "stdin".to_owned() } else { name.to_owned() }, text))
}

/// `include FILE`, relative to the including file.
pub(crate) fn include(including: &str, named: &str) -> Result<(String, String), String> {
    let path = Path::new(including).parent().unwrap_or(Path::new("")).join(named);
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), text))
}

pub(crate) fn refused(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::Request(lines.join("\npaternoster: "))
}

fn tell_notes(jobs: &JobFile) {
    for note in &jobs.notes {
        eprintln!("note: {note}");
    }
}

/// What does not fit; of a real file it is said how large that is.
fn too_small(device: &Target, problem: Problem) -> Failure {
    match device.as_real() {
        None => refused(&[problem]),
        Some(_) => {
            let (name, bytes) = (&device.name, device.facts.capacity * 512);
            Failure::Request(format!("{name} has {bytes} bytes: {problem}"))
        }
    }
}

/// What all runs have in common.
struct Plan<'a> {
    options: &'a RunOptions,
    jobs: &'a JobFile,
    setting: Setting,
}

impl Plan<'_> {
    /// Everything that can be wrong is found before the first run.
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
        let jobs = &self.jobs.jobs;
        let subject = Subject {
            jobs: self.jobs,
            device: &device.name,
            scheduler: &scheduler.text,
            settings: &self.setting.on(device),
        };
        // fio repeats its whole report on the way.
        let mut status = |result: &RunResult| {
            let text = report::normal(&Outcome::new(&subject, result, None).report);
            let _closed = crate::print(&(text + "\n"));
        };
        let which = Which { setting: &self.setting, device, scheduler, more: "" };
        let witness = evidence.witness(which, clients(jobs))?;
        let observer = (CommandHash::default(), witness);
        let (result, hash, (commands, witness), queue) = if self.options.event_hash {
            let observer = (EventHash::default(), observer);
            let (result, (hash, observer), queue) =
                self.setting.run(jobs, device, scheduler, observer, &mut status)?;
            (result, Some(hash.digest()), observer, queue)
        } else {
            let (result, observer, queue) =
                self.setting.run(jobs, device, scheduler, observer, &mut status)?;
            (result, None, observer, queue)
        };
        evidence.keep(which, witness)?;
        let mut outcome = Outcome::new(&subject, &result, hash);
        if let Some(entitled) = entitled {
            entitled.judge(&self.setting, jobs, device, &result, &mut outcome)?;
        }
        let mut most = String::new();
        let _absent = queue.show_attribute("nr_requests", &mut most);
        let notes = most.trim().parse().map_or_else(
            |_| Vec::new(),
            |most| entitled::notes(&outcome, jobs, &result, &device.facts, most),
        );
        Ok(Told { outcome, commands: commands.digest(), notes })
    }
}

/// Writes the results in every form that was asked for.
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
    match options.format {
        Some(Format::Html) => text = page(),
        Some(format) => text = results.told(format),
        None => {}
    }
    // Tables and documents have them; fio's forms have no place for them.
    let has_notes = match options.format {
        Some(format) => format != Format::Csv,
        None => forms.contains(&Form::Table),
    };
    if !has_notes && !options.setting.quiet {
        runs.iter().flat_map(|run| &run.notes).for_each(|note| eprintln!("note: {note}"));
    }
    let outcomes: Vec<&Outcome> = runs.iter().map(|run| &run.outcome).collect();
    for form in forms.iter().filter(|_| options.format.is_none()) {
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
        None => crate::print(&text)?,
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?,
    }
    Ok(())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster run`: fio jobs on modelled devices, under one scheduler or several.
//!
//! Everything is read and checked before anything runs. Each pair of device and scheduler is a
//! run of its own with a fresh device; results come in the order of the arguments.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use paternoster::{Nanos, NoObserver, Observer, RequestQueue};
use paternoster_sim::{Description, Rule, Simulated};

use paternoster_workload::fio::jobfile::{JobFile, Problem, Source, parse, parse_command_line};
use paternoster_workload::fio::value::Reader;
use paternoster_workload::meter::{EventHash, Meter};
use paternoster_workload::outcome::{Outcome, Subject};
use paternoster_workload::run::{RunResult, Settings, limits};
use paternoster_workload::{layout, report};

use crate::Failure;
use crate::arguments::{Form, RunOptions};
use crate::choice::{self, SchedulerChoice};
use crate::compare;
use crate::progress::Display;

pub(crate) fn run(options: &RunOptions, fio: &[String]) -> Result<(), Failure> {
    let jobs = read_jobs(options, fio)?;
    let devices = options.device.iter().map(|name| choice::device(name));
    let devices: Vec<Description> = devices.collect::<Result<_, _>>()?;
    let schedulers = options.scheduler.iter().map(|text| SchedulerChoice::parse(text));
    let schedulers: Vec<SchedulerChoice> = schedulers.collect::<Result<_, _>>()?;
    let set = options.set.iter().map(|text| choice::assignment("--set", text));
    let set: Vec<(String, String)> = set.collect::<Result<_, _>>()?;
    let faults = options.fault.iter().map(|text| fault(text));
    let faults: Vec<Rule> = faults.collect::<Result<_, _>>()?;
    let plan = Plan { options, jobs: &jobs, set: &set, faults: &faults };
    plan.check(&devices, &schedulers)?;
    if !options.quiet {
        tell_notes(&jobs);
    }
    if options.parse_only {
        return Ok(());
    }
    let mut outcomes = Vec::new();
    for device in &devices {
        for scheduler in &schedulers {
            outcomes.push(plan.run(device, scheduler)?);
        }
    }
    tell(options, &outcomes)?;
    match outcomes.iter().flat_map(|outcome| &outcome.report.jobs).find(|job| job.error != 0) {
        None => Ok(()),
        Some(job) => Err(Failure::Job(format!("job {} failed with errno {}", job.name, job.error))),
    }
}

fn fault(text: &str) -> Result<Rule, Failure> {
    text.parse().map_err(|why| Failure::Request(format!("--fault: {why}")))
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
    Ok(jobs)
}

fn is_name(option: &str) -> bool {
    option == "--name" || option.starts_with("--name=")
}

fn pair(option: &str) -> (String, String) {
    let option = option.trim_start_matches('-');
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    (name.to_owned(), value.to_owned())
}

fn read_file(name: &str) -> Result<(String, String), Failure> {
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
fn include(including: &str, named: &str) -> Result<(String, String), String> {
    let path = Path::new(including).parent().unwrap_or(Path::new("")).join(named);
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), text))
}

fn refused(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::Request(lines.join("\npaternoster: "))
}

fn tell_notes(jobs: &JobFile) {
    for note in &jobs.notes {
        eprintln!("note: {note}");
    }
    for job in jobs.jobs.iter().filter(|job| job.direct.is_none()) {
        let (file, line, name) = (&job.file, job.line, &job.name);
        eprintln!(
            "note: {file}:{line}: job `{name}` does not say direct; it runs with direct=1, \
             there is no page cache yet"
        );
    }
}

/// What all runs have in common.
struct Plan<'a> {
    options: &'a RunOptions,
    jobs: &'a JobFile,
    set: &'a [(String, String)],
    faults: &'a [Rule],
}

impl Plan<'_> {
    /// Everything that can be wrong is found before the first run.
    fn check(
        &self,
        devices: &[Description],
        schedulers: &[SchedulerChoice],
    ) -> Result<(), Failure> {
        for job in &self.jobs.jobs {
            if job.direct == Some(false) {
                let (file, line, name) = (&job.file, job.line, &job.name);
                return Err(Failure::Request(format!(
                    "{file}:{line}: job `{name}` asks for buffered I/O, which needs a page \
                     cache that is not \
                     here yet; say direct=1: `direct=0`"
                )));
            }
        }
        for device in devices {
            self.settings(device)?;
            layout::plan(&self.jobs.jobs, device.facts.capacity * 512)
                .map_err(|problem| refused(&[problem]))?;
            for scheduler in schedulers {
                let limits = limits(&self.jobs.jobs, device.facts.depth);
                let mut queue = RequestQueue::unobserved(device.facts, limits, scheduler.make());
                scheduler.prepare(&mut queue, self.set)?;
            }
        }
        Ok(())
    }

    fn settings(&self, device: &Description) -> Result<Settings, Failure> {
        let time = |option: &str, text: &Option<String>, unit: Nanos| {
            let Some(text) = text else { return Ok(None) };
            let mut notes = Vec::new();
            match Reader::new(1024, &mut notes).time(text, unit.0) {
                Ok(time) => Ok(Some(time)),
                Err(why) => Err(Failure::Request(format!("{option} {text}: {why}"))),
            }
        };
        Ok(Settings {
            seed: self.options.seed,
            submit_cost: time("--submit-cost", &self.options.submit_cost, Nanos::from_micros(1))?
                .unwrap_or(device.submit_cost),
            runtime: match time("--runtime", &self.options.runtime, Nanos::from_secs(1))? {
                Some(Nanos::ZERO) => {
                    let message = "--runtime 0: a run takes some time, as 5s or 300ms";
                    return Err(Failure::Request(message.to_owned()));
                }
                runtime => runtime,
            },
        })
    }

    fn run(&self, device: &Description, scheduler: &SchedulerChoice) -> Result<Outcome, Failure> {
        let settings = self.settings(device)?;
        let (result, hash) = if self.options.event_hash {
            let (result, queue) = self.run_observed(device, scheduler, EventHash::default())?;
            (result, Some(queue.observer().1.digest()))
        } else {
            (self.run_observed(device, scheduler, NoObserver)?.0, None)
        };
        let subject = Subject {
            jobs: self.jobs,
            device: &device.name,
            scheduler: &scheduler.text,
            settings: &settings,
        };
        Ok(Outcome::new(&subject, &result, hash))
    }

    fn run_observed<O: Observer>(
        &self,
        device: &Description,
        scheduler: &SchedulerChoice,
        observer: O,
    ) -> Result<(RunResult, RequestQueue<(Meter, O)>), Failure> {
        let display =
            Display::new(self.options.quiet, &format!("{} on {}", scheduler.text, device.name));
        let model = device.faulty_model(self.faults, self.options.seed);
        let mut simulated = Simulated::new(model);
        let done = paternoster_workload::run(
            &self.jobs.jobs,
            &self.settings(device)?,
            &mut simulated,
            scheduler.make(),
            observer,
            |queue| scheduler.prepare(queue, self.set),
            |progress| display.update(progress),
        );
        display.clear();
        done
    }
}

/// Writes the results in every form that was asked for.
fn tell(options: &RunOptions, outcomes: &[Outcome]) -> Result<(), Failure> {
    let default = match outcomes {
        [_] => vec![Form::Normal, Form::Table],
        _ => vec![Form::Table],
    };
    let forms = if options.output_format.is_empty() { &default } else { &options.output_format };
    let mut text = String::new();
    for form in forms {
        match form {
            Form::Table => text.push_str(&compare::table(outcomes)),
            Form::Csv => {
                for (place, outcome) in outcomes.iter().enumerate() {
                    text.push_str(&report::csv(&outcome.report, place == 0));
                }
            }
            Form::Json => {
                for outcome in outcomes {
                    text.push_str(report::json(&outcome.report).trim_end());
                    text.push('\n');
                }
            }
            Form::Normal | Form::Normal1 => {
                for outcome in outcomes {
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

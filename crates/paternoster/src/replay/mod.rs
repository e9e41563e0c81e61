// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster replay`: a recorded trace under other schedulers, on other devices.
//!
//! ```text
//! TRACE ──▶ read.rs ──▶ Recording ──▶ one replay for each device and scheduler ──▶ tell.rs
//! ```
//!
//! Everything is read and checked before anything runs: also whether the recording fits each
//! device. The results are compared with the recording.
//!
//! A record of a server's decisions is something else: `decisions.rs` repeats every call.

#[cfg(feature = "serve")]
mod decisions;
#[cfg(not(feature = "serve"))]
#[path = "without_decisions.rs"]
mod decisions;
mod likeness;
mod options;
mod read;
mod tell;

use std::ops::ControlFlow;

use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::page::{self, Watched};
use paternoster_frame::progress::Whole;
use paternoster_frame::results::{Format, Results, emit};
use paternoster_frame::say;
use paternoster_frame::setting::Setting;
use paternoster_frame::target::Target;
use paternoster_frame::{Failure, interrupt};
use paternoster_workload::replay::{
    self, Account, Fit, Manner, Mapping, RecordedProcess, Recording, Replay, Schedule,
};
use serde_json::Value;

use crate::evidence::{Evidence, Which};

pub(crate) use options::ReplayOptions;
use read::Read;
use tell::{Told, ToldRun};

/// If the end of this many I/Os in a hundred is known, think times are inferred by default.
const ENDS_NEEDED: u64 = 90;

pub(crate) fn replay(options: &ReplayOptions) -> Result<(), Failure> {
    if let Some(record) = &options.decisions {
        return decisions::replay(record, options.dispatch.as_deref(), &options.setting);
    }
    replayed(options, |results, watched| {
        let page = || page::render(&results, watched);
        emit(options.format, None, |format| match format {
            Format::Html => page(),
            format => results.told(format),
        })?;
        options.html.as_ref().map_or(Ok(()), |path| page::write(path, &page()))
    })
}

/// The replays of a trace as JSON, for a call.
pub(crate) fn document(options: &ReplayOptions) -> Result<Value, Failure> {
    if options.decisions.is_some() {
        let message = "--decisions: a record of decisions is replayed by the program alone";
        return Err(Failure::Request(message.to_owned()));
    }
    let mut document = Value::Null;
    replayed(options, |results, _| {
        document = results.document;
        Ok(())
    })?;
    Ok(document)
}

/// Carries out the request, and prints the results.
fn replayed(
    options: &ReplayOptions,
    tell: impl FnOnce(Results, &[Watched]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let setting = Setting::new(&options.setting, None)?;
    let (part, speed) = (options.part()?, options.speed()?);
    options.check_setting()?;
    let mut evidence = Evidence::new(&options.setting)?;
    page::check("--html", options.html.as_ref())?;
    let is_page = options.html.is_some() || options.format == Format::Html;
    evidence.watch(is_page || options.explain);
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            setting.check(&[], device, scheduler)?;
        }
    }
    let trace = options.trace();
    let read = read::read(trace, &mut *options.input.open(trace)?, &part)?;
    let manner = manner(options.manner, &read, trace)?;
    let mappings = setting.devices.iter().map(|device| mapping(&read, device, options.fit));
    let mappings: Vec<Mapping> = mappings.collect::<Result<_, _>>()?;
    if !options.setting.quiet {
        tell_notes(&read, &setting, &mappings);
    }
    interrupt::hear()?;
    let plan = Plan { setting: &setting, recording: &read.recording };
    let schedule = Schedule::new(&read.recording, manner, speed);
    let mut runs = Vec::new();
    for (device, mapping) in setting.devices.iter().zip(&mappings) {
        for scheduler in &setting.schedulers {
            if !interrupt::heard() {
                runs.extend(plan.run(device, scheduler, &schedule, mapping, &mut evidence)?);
            }
        }
    }
    let recorded = Account::recorded(&read.recording);
    let told = Told { options, read: &read, setting: &setting, manner, speed, recorded, runs };
    let watched = evidence.watched();
    tell(told.results(watched), watched)?;
    evidence.write(&setting.subject(&format!("replay of {trace}")))?;
    interrupt::end(|| {
        let left = setting.devices.len() * setting.schedulers.len() - told.runs.len();
        format!("{left} replays were not done to their end")
    })?;
    match told.runs.iter().find(|run| run.failed.0 > 0) {
        None => Ok(()),
        Some(run) => {
            let ((count, errno), label) = (run.failed, &run.label);
            Err(Failure::Job(format!("{label}: {count} I/Os failed, the first with errno {errno}")))
        }
    }
}

/// The requested manner; otherwise think times if they can be known.
fn manner(asked: Option<Manner>, read: &Read, trace: &str) -> Result<Manner, Failure> {
    let (known, all) = (read.recording.completions(), read.recording.ios().len() as u64);
    match asked {
        Some(manner) if manner.needs_ends() && known == 0 => Err(Failure::Request(format!(
            "trace {trace}: it does not tell when I/Os ended (C events), so nothing is known of \
             what waited for what; replay it with --manner timed"
        ))),
        Some(manner) => Ok(manner),
        None if known * 100 >= all * ENDS_NEEDED => Ok(Manner::Think),
        None => Ok(Manner::Timed),
    }
}

fn mapping(read: &Read, device: &Target, fit: Fit) -> Result<Mapping, Failure> {
    Mapping::new(&read.recording, device.facts.capacity, fit).map_err(|error| {
        Failure::Request(format!("{}: {error}; see --fit wrap and --fit scale", device.name))
    })
}

/// What a reader of the figures should know.
fn tell_notes(read: &Read, setting: &Setting, mappings: &[Mapping]) {
    let (count, shown) = &read.problems;
    shown.iter().for_each(|problem| say!("note: {problem}"));
    if *count > shown.len() as u64 {
        say!("note: and {} more problems in the trace", count - shown.len() as u64);
    }
    let (ios, known) = (read.recording.ios().len() as u64, read.recording.completions());
    if !read.others.is_empty() {
        let others = read.others.join(", ");
        say!("note: replayed is device {}; others: {others} (--from-device)", read.device);
    }
    if read.left_out > 0 {
        say!("note: {} arrivals are no read, write, discard or flush", read.left_out);
    }
    if read.remapped > 0 {
        let count = read.remapped;
        say!("note: {count} arrivals at remappers are left out; they come again below");
    }
    if known < ios {
        say!("note: the end of {} of {ios} I/Os is not in the trace", ios - known);
    }
    for (device, mapping) in setting.devices.iter().zip(mappings) {
        if mapping.moved() > 0 {
            let (moved, name) = (mapping.moved(), &device.name);
            say!("note: {name} is smaller than what was recorded: {moved} of {ios} I/Os moved");
        }
    }
}

/// What all replays have in common.
struct Plan<'a> {
    setting: &'a Setting,
    recording: &'a Recording,
}

impl Plan<'_> {
    /// One replay; nothing if a Ctrl-C cut it short.
    fn run(
        &self,
        device: &Target,
        scheduler: &SchedulerChoice,
        schedule: &Schedule,
        mapping: &Mapping,
        evidence: &mut Evidence,
    ) -> Result<Option<ToldRun>, Failure> {
        let clients = self.recording.processes().iter().map(RecordedProcess::label);
        let which = Which { setting: self.setting, device, scheduler, more: "" };
        let run_observer = evidence.run_observer(which, clients.collect())?;
        let whole = Whole::Requests(self.recording.ios().len() as u64);
        let display = self.setting.display(device, scheduler, whole);
        let done = replay::replay(
            Replay { recording: self.recording, schedule, mapping },
            &mut self.setting.fresh(device)?,
            scheduler.make(),
            run_observer,
            |queue| self.setting.prepare(self.setting.resolved(device, scheduler), queue),
            &mut |progress| {
                display.update(progress);
                if interrupt::heard() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        display.clear();
        if interrupt::heard() {
            return Ok(None);
        }
        let (replayed, run_observer, _) = done?;
        evidence.keep(which, run_observer)?;
        Ok(Some(ToldRun {
            label: which.label(),
            device: device.name.clone(),
            scheduler: scheduler.text.clone(),
            account: Account::replayed(self.recording, &replayed),
            moved: mapping.moved(),
            failed: replayed.failed,
            sleeps: replayed.sleeps,
        }))
    }
}

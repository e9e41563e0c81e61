// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run: processes, a request queue and a device, until every process has ended.
//!
//! The loop is the twenty lines around the library, and the same for a model in virtual time and
//! for a real device: only the device knows which it is. At one instant, in this order:
//! completions, timers of the queue, submissions in the order of the processes' timers, then
//! whatever the queue says. The flusher of the page cache is one more client, after those of the
//! processes, and so is the journal's thread if there is one; they act when the cache has something
//! to write.
//!
//! ```text
//!        ┌───────────── due processes act: submit ────────────┐
//!        ▼                                                    │
//!   queue.next ──Issue──▶ device        Done, Wake ──▶ process│
//!        │ Wait until t                                       │
//!        ▼                                                    │
//!   device.wait(min(t, first timer)) ──completion──▶ queue ───┘
//! ```
//!
//! # Invariants
//! I1  A process has at most one timer; an entry of the heap that is not that timer is ignored.
//! I2  When nothing is in flight and no timer is set, every process has ended; otherwise the run
//!     fails and names the processes that wait.
//!
//! Source: FIO-60 (stonewall, start delay); the order at one instant is our own.

mod changes;
mod endings;
mod setup;
mod starts;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use paternoster_core::{
    BuildError, Device, Elevator, GroupId, Nanos, Observer, Output as Said, Waiting,
};

use crate::fio::ending::Ending;
use crate::fio::job::{Job, reporting_groups};
use crate::fio::jobfile::Problem;
use crate::layout::Placement;
use crate::meter::DeviceMeter;
use crate::observed::{AnyObserver, Queue};
use crate::page_cache::{self, HostSettings};
use crate::process::record::Output;
use crate::process::{Phase, Process, Shared};
use crate::statistics::JobStatistics;

use changes::DueChanges;

pub use setup::limits;

/// Steps of the loop between two calls for progress.
const PROGRESS_EVERY: u64 = 1 << 14;
/// Steps between two questions whether to stop: on a slow disk one takes 10 ms.
const ASKED_EVERY: u64 = 1 << 4;
/// The pid of the first process; the next ones follow.
const FIRST_PID: u32 = 1001;
/// The pid of the flusher, before all others.
const FLUSHER_PID: u32 = FIRST_PID - 1;
/// The pid of the journal's thread, before that.
const JOURNAL_PID: u32 = FIRST_PID - 2;

/// What a run needs besides its jobs.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Seeds what the jobs leave to chance (`randrepeat=0`).
    pub seed: u64,
    /// CPU time for each I/O.
    pub submit_cost: Nanos,
    /// A process begins up to this much after the one before, and delayed ones when fio looks for
    /// them; with zero all begin at once, or exactly after their delays.
    pub start_jitter: Nanos,
    /// Ends every job after this time of its own, whatever it says.
    pub runtime: Option<Nanos>,
    /// Memory for buffered I/O.
    pub host: HostSettings,
    /// How files lie to each other.
    pub placement: Placement,
    /// Whether latencies end when fio would reap the I/O, as its reports tell them; else when the
    /// I/O ends.
    pub reaps: bool,
    /// How often the watcher gets interim results.
    pub status_interval: Option<Nanos>,
}

impl Default for Settings {
    /// Seed 0, 20 us for each I/O, all processes at once, the default host, files near each other.
    fn default() -> Settings {
        Settings {
            seed: 0,
            submit_cost: Nanos::from_micros(20),
            start_jitter: Nanos::ZERO,
            runtime: None,
            host: HostSettings::default(),
            placement: Placement::Near,
            reaps: false,
            status_interval: None,
        }
    }
}

/// The result of one clone of a job.
#[derive(Debug, Clone)]
pub struct ProcessResult {
    /// Place of its job.
    pub job: usize,
    /// The clone, from 0.
    pub clone: u32,
    /// Its process id in the events.
    pub pid: u32,
    /// What it has measured.
    pub statistics: JobStatistics,
    /// Device time of its requests, after the ramp.
    pub served: Nanos,
    /// The errno that ended it, 0 if none did.
    pub error: i32,
    /// Which section between two stonewalls it belongs to, from 0.
    pub section: usize,
    /// The depth that its `latency_target` has found.
    pub searched_depth: Option<u32>,
}

/// What became of the device between two stonewalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionResult {
    /// When its first job was let go.
    pub began: Nanos,
    /// When its last job ended.
    pub ended: Nanos,
    /// How long the device had something to do.
    pub busy: Nanos,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Every clone, in the order of jobs and clones.
    pub processes: Vec<ProcessResult>,
    /// Every section between two stonewalls.
    pub sections: Vec<SectionResult>,
    /// Sums of the device.
    pub device: DeviceMeter,
    /// What the device counted that no request shows, by name; the device's maker fills it in.
    pub figures: Vec<(&'static str, f64)>,
    /// When the last job had ended.
    pub ended: Nanos,
}

impl RunResult {
    /// What all clones of some jobs measured together; `None` if they have none.
    pub fn together(&self, of: impl Fn(usize) -> bool) -> Option<JobStatistics> {
        let mut clones = self.processes.iter().filter(|process| of(process.job));
        let mut all = clones.next()?.statistics.clone();
        clones.for_each(|clone| all.merge(&clone.statistics));
        Some(all)
    }
}

/// A run could not go on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A job cannot be run on this device.
    #[error("{0}")]
    Job(Problem),
    /// The device reports what no queue can work with.
    #[error("there can be no queue in front of this device: {0}")]
    Queue(#[from] BuildError),
    /// A file that a job writes about itself could not be written.
    #[error("{name}: {error}")]
    Output {
        /// Its name.
        name: String,
        /// The system's error.
        error: String,
    },
    /// Nothing is in flight and processes still wait: a bug, with the reason that the queue gave.
    #[error(
        "at {at} nothing is under way, the queue says {why}, and process {process} still waits"
    )]
    Stuck {
        /// The time.
        at: Nanos,
        /// The queue's last reason for waiting.
        why: String,
        /// A process that waits.
        process: u32,
    },
}

/// How far a run has come, for a display.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Time on the device's clock.
    pub now: Nanos,
    /// Requests that have ended.
    pub requests: u64,
    /// Processes that have ended, of all.
    pub ended: (u32, u32),
}

/// Watches the run, and takes what the jobs write.
pub trait Watcher {
    /// The run goes on.
    fn progress(&mut self, _progress: Progress) {}

    /// Interim results, every `status_interval`.
    fn status(&mut self, _result: &RunResult) {}

    /// Whether the run is to end now, with the results until then.
    fn stops(&mut self) -> bool {
        false
    }

    /// Opens a file that a job writes about itself.
    ///
    /// # Errors
    /// Those of the system; by default no files are taken.
    fn create(&mut self, _name: &str) -> io::Result<Output> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "nobody takes what jobs write"))
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWatcher;

impl Watcher for NoWatcher {}

/// Runs the jobs on `device` under `elevator`. `prepare` sets the queue's attributes before
/// anything is submitted; `observer` sees every event and is returned, with the queue as the last
/// request left it.
///
/// # Errors
/// [`RunError`] when a job does not fit the device, or the run cannot go on.
pub fn run<O: Observer + 'static, E: From<RunError>>(
    jobs: &[Job],
    settings: &Settings,
    device: &mut dyn Device,
    elevator: Box<dyn Elevator>,
    observer: O,
    prepare: impl FnOnce(&mut Queue) -> Result<(), E>,
    watcher: &mut dyn Watcher,
) -> Result<(RunResult, O, Queue), E> {
    let place = (device.facts(), device.now());
    let observer = AnyObserver::new(observer);
    let mut run = Run::new(jobs, settings, place, elevator, observer, watcher)?;
    prepare(&mut run.queue)?;
    run.go(device, watcher)?;
    let result = run.result(device.now());
    let observer = run.queue.observer_mut().1.take().expect("I1: it is what was given");
    Ok((result, observer, run.queue))
}

/// One process and what the loop keeps about it.
#[derive(Debug)]
struct Seat {
    process: Process,
    job: usize,
    clone: u32,
    section: usize,
    /// The job that must have ended before it begins.
    after: Option<usize>,
    delay: Nanos,
    /// How long it begins after the first that begins with it.
    behind: Nanos,
    timer: Nanos,
    /// Device time when its measurement began.
    served_before: Option<Nanos>,
    /// Device time of its measurement, once it has ended.
    served: Nanos,
    ended: bool,
}

#[derive(Debug)]
struct Run {
    queue: Queue,
    shared: Shared,
    seats: Vec<Seat>,
    /// For each job: how its end ends others, its reporting group, how many of its clones have not
    /// ended, and whether it runs only as long as others do.
    ends: Vec<Ending>,
    groups: Vec<u32>,
    left_of_job: Vec<usize>,
    in_background: Vec<bool>,
    /// Delayed processes begin when fio would look for them.
    looks_for_delayed: bool,
    shared_changes: u64,
    status_every: Option<Nanos>,
    status_at: Nanos,
    timers: BinaryHeap<Reverse<(Nanos, u32)>>,
    changes: DueChanges,
    sections: Vec<SectionResult>,
    /// The running section, and how many of its processes have not ended.
    section: usize,
    left: u32,
    busy_before: Nanos,
    began: Nanos,
    ended: u32,
    requests: u64,
}

impl Run {
    fn with(
        jobs: &[Job],
        began: Nanos,
        settings: &Settings,
        queue: Queue,
        shared: Shared,
        seats: Vec<Seat>,
        groups: Vec<Option<GroupId>>,
    ) -> Run {
        let changes = DueChanges::new(seats.iter().map(|seat| &jobs[seat.job]), groups);
        let left_of = |place: usize| seats.iter().filter(|seat| seat.job == place).count();
        Run {
            ends: jobs.iter().map(|job| job.clones.ending.clone()).collect(),
            groups: reporting_groups(jobs),
            left_of_job: (0..jobs.len()).map(left_of).collect(),
            looks_for_delayed: settings.start_jitter > Nanos::ZERO,
            in_background: jobs.iter().map(Job::is_in_background).collect(),
            shared_changes: 0,
            status_every: settings.status_interval,
            status_at: settings.status_interval.map_or(Nanos::MAX, |every| began + every),
            queue,
            shared,
            seats,
            timers: BinaryHeap::new(),
            changes,
            sections: Vec::new(),
            section: 0,
            left: 0,
            busy_before: Nanos::ZERO,
            began,
            ended: 0,
            requests: 0,
        }
    }

    fn go(&mut self, device: &mut dyn Device, watcher: &mut dyn Watcher) -> Result<(), RunError> {
        self.begin_section(device.now());
        let mut steps = 0u64;
        loop {
            let now = device.now();
            self.tell_status(now, watcher);
            self.act_due(now);
            let (until, why) = self.serve(now, device);
            let timer = earlier(self.first_timer(), self.shared.cache.background_due());
            let timer = earlier(timer, self.changes.next());
            if timer.is_some_and(|timer| timer <= now) {
                continue;
            }
            if self.seats.len() == self.ended as usize {
                return self.output_error();
            }
            let wake = earlier(until, timer);
            let status = (self.status_at != Nanos::MAX).then_some(self.status_at);
            match device.wait(earlier(wake, status)) {
                Some(completion) => {
                    self.complete(completion.at, completion);
                    // What ends at the same instant comes before anything else.
                    let at = device.now();
                    while let Some(completion) = device.wait(Some(at)) {
                        self.complete(completion.at, completion);
                    }
                }
                // With interim results, time passes even when nothing else happens.
                None if wake.is_none() && (status.is_none() || why == Waiting::Empty) => {
                    return Err(self.stuck(now, &why));
                }
                None => {}
            }
            steps += 1;
            if steps.is_multiple_of(ASKED_EVERY) && watcher.stops() {
                self.measure_section(device.now());
                return self.output_error();
            }
            if steps.is_multiple_of(PROGRESS_EVERY) {
                let all = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
                let ended = (self.ended, all);
                watcher.progress(Progress { now, requests: self.requests, ended });
            }
        }
    }

    /// Gives the watcher interim results, if it is time.
    fn tell_status(&mut self, now: Nanos, watcher: &mut dyn Watcher) {
        while now >= self.status_at {
            watcher.status(&self.result(self.status_at));
            self.status_at += self.status_every.unwrap_or(Nanos::MAX);
        }
    }

    /// The first file that could not be written, if any.
    fn output_error(&mut self) -> Result<(), RunError> {
        let failed = self.seats.iter_mut().find_map(|seat| seat.process.take_output_error());
        match failed {
            None => Ok(()),
            Some((name, error)) => Err(RunError::Output { name, error: error.to_string() }),
        }
    }

    fn complete(&mut self, at: Nanos, completion: paternoster_core::Completion) {
        self.requests += 1;
        // A device that names a tag twice is broken; its second word is ignored.
        let _stale = self.queue.complete(at, completion.tag, completion.outcome);
    }

    /// Everything that the queue wants done now; then until when it waits, and why.
    fn serve(&mut self, now: Nanos, device: &mut dyn Device) -> (Option<Nanos>, Waiting) {
        loop {
            match self.queue.next(now) {
                Said::Issue(command) => {
                    if device.submit(command).is_err() {
                        let _stale = self.queue.requeue(now, command.tag);
                    }
                }
                Said::Done(cookie, outcome) if cookie & page_cache::COOKIE != 0 => {
                    self.shared.cache.transfer_ended(cookie, outcome);
                    self.settle(now);
                }
                Said::Done(cookie, outcome) => {
                    let (number, slot) = split_cookie(cookie);
                    self.seats[number as usize].process.bio_ended(now, slot, outcome);
                    self.act(now, number);
                }
                Said::Wake(client) => {
                    // Clients were attached in the order of the processes and none has left.
                    let number = client.index();
                    match self.seats.get_mut(number as usize) {
                        Some(seat) => {
                            seat.process.woken(now, &mut self.queue);
                            self.act(now, number);
                        }
                        None => self.shared.cache.client_woken(now, client, &mut self.queue),
                    }
                }
                Said::Wait { until, why } => return (until, why),
            }
        }
    }

    fn first_timer(&mut self) -> Option<Nanos> {
        while let Some(&Reverse((at, number))) = self.timers.peek() {
            if self.seats[number as usize].timer == at {
                return Some(at);
            }
            self.timers.pop();
        }
        None
    }

    fn act_due(&mut self, now: Nanos) {
        self.change_due(now);
        while self.first_timer().is_some_and(|timer| timer <= now) {
            if let Some(Reverse((_, number))) = self.timers.pop() {
                self.seats[number as usize].timer = Nanos::MAX;
                self.act(now, number);
            }
        }
        self.shared.cache.work_in_background(now, &mut self.queue);
        // A commit that failed at once has let processes go on.
        self.settle(now);
    }

    /// Lets a process do what it can, and then those that this allows to go on.
    fn act(&mut self, now: Nanos, number: u32) {
        self.act_alone(now, number);
        self.settle(now);
    }

    /// Lets a process do what it can, and notes when it wants to be called again.
    fn act_alone(&mut self, now: Nanos, number: u32) {
        let seat = &mut self.seats[number as usize];
        if seat.process.phase() == Phase::Waiting {
            seat.process.start(now, &mut self.shared);
            self.changes.begin(number, now);
        }
        let wish = seat.process.act(now, &mut self.shared, &mut self.queue);
        if seat.served_before.is_none() && seat.process.is_measuring() {
            let served = self.queue.observer().0.client(seat.process.client().index()).served;
            seat.served_before = Some(served);
        }
        if let Some(at) = wish
            && at != seat.timer
        {
            seat.timer = at;
            self.timers.push(Reverse((at, number)));
        }
        if seat.process.phase() == Phase::Ended && !seat.ended {
            self.end_process(now, number);
        }
    }

    /// A step of one process may let others go on: those that waited for pages that will not come,
    /// and those of its flow or relay.
    fn settle(&mut self, now: Nanos) {
        loop {
            if let Some(number) = self.shared.cache.next_woken() {
                self.act_alone(now, number);
                continue;
            }
            let changes = self.shared.changes();
            if self.shared_changes == changes {
                return;
            }
            self.shared_changes = changes;
            for number in std::mem::take(&mut self.shared.waiting) {
                if !self.seats[number as usize].ended {
                    self.act_alone(now, number);
                }
            }
        }
    }

    fn stuck(&self, at: Nanos, why: &Waiting) -> RunError {
        let waits = self.seats.iter().position(|seat| !seat.ended).unwrap_or(0);
        let process = u32::try_from(waits).unwrap_or(u32::MAX);
        RunError::Stuck { at, why: format!("{why:?}"), process }
    }

    /// The device time of a process, after the ramp: until its end, or until now.
    fn served(&self, seat: &Seat) -> Nanos {
        if seat.ended {
            return seat.served;
        }
        let so_far = self.queue.observer().0.client(seat.process.client().index()).served;
        seat.served_before.map_or(Nanos::ZERO, |before| so_far - before)
    }

    fn result(&self, now: Nanos) -> RunResult {
        let processes = self
            .seats
            .iter()
            .map(|seat| ProcessResult {
                job: seat.job,
                clone: seat.clone,
                pid: FIRST_PID + seat.process.client().index(),
                statistics: seat.process.statistics_at(now),
                served: self.served(seat),
                error: seat.process.error(),
                section: seat.section,
                searched_depth: seat.process.searched_depth(),
            })
            .collect();
        let device = self.queue.observer().0.device(now);
        let (sections, figures) = (self.sections.clone(), Vec::new());
        RunResult { processes, sections, device, figures, ended: now }
    }
}

fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

const fn split_cookie(cookie: u64) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a cookie")]
    let halves = ((cookie >> 32) as u32, cookie as u32);
    halves
}

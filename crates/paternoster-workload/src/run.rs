// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run: processes, a request queue and a device, until every process has ended.
//!
//! The loop is the twenty lines around the library, and the same for a model in virtual time and
//! for a real device: only the device knows which it is. At one instant, in this order:
//! completions, timers of the queue, submissions in the order of the processes' timers, then
//! whatever the queue says. The flusher of the page cache is one more client, behind those of the
//! processes; it acts when the cache says that it has something to write.
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
//! I2  When nothing is under way and no timer is set, every process has ended; otherwise the run
//!     fails and says who waits.
//!
//! Source: plan of the house, sections 4 (order at one instant) and 7; spec `fio.md` 3.5
//! (stonewall, start delay).

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use paternoster::{
    Class, ClientSpec, Device, Elevator, GroupId, GroupSpec, Limits, Nanos, Observer, Output,
    Priority, RequestQueue,
};

use crate::fio::job::Job;
use crate::fio::jobfile::Problem;
use crate::fio::offsets::{Extent, Offsets};
use crate::fio::random::{Choice, Seeds};
use crate::fio::unwired;
use crate::layout::{self, Placement};
use crate::meter::{DeviceMeter, Meter};
use crate::page_cache::{self, HostSettings, PageCache};
use crate::process::{Identity, Phase, Process, ProcessSetup, SharedPosition};
use crate::statistics::JobStatistics;

/// Steps of the loop between two calls for progress.
const PROGRESS_EVERY: u64 = 1 << 14;
/// The pid of the first process; the next ones follow.
const FIRST_PID: u32 = 1001;
/// The pid of the flusher, before all others.
const FLUSHER_PID: u32 = FIRST_PID - 1;

/// What a run needs beside its jobs.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Seeds what the jobs leave to chance (`randrepeat=0`).
    pub seed: u64,
    /// CPU time for each I/O.
    pub submit_cost: Nanos,
    /// Ends every job after this time of its own, whatever it says.
    pub runtime: Option<Nanos>,
    /// Memory for buffered I/O.
    pub host: HostSettings,
    /// How files lie to each other.
    pub placement: Placement,
}

impl Default for Settings {
    /// Seed 0, 20 us for each I/O, the default host, files near each other.
    fn default() -> Settings {
        Settings {
            seed: 0,
            submit_cost: Nanos::from_micros(20),
            runtime: None,
            host: HostSettings::default(),
            placement: Placement::Near,
        }
    }
}

/// What became of one clone of a job.
#[derive(Debug, Clone)]
pub struct ProcessResult {
    /// Place of its job.
    pub job: usize,
    /// Which clone, from 0.
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

/// What became of a run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Every clone, in the order of jobs and clones.
    pub processes: Vec<ProcessResult>,
    /// Every section between two stonewalls.
    pub sections: Vec<SectionResult>,
    /// Sums of the device.
    pub device: DeviceMeter,
    /// When the last job had ended.
    pub ended: Nanos,
}

/// A run could not go on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A job cannot be run on this device.
    #[error("{0}")]
    Job(Problem),
    /// Nothing is under way and processes still wait: a bug, with the reason that the queue gave.
    #[error(
        "at {at} nothing is under way, the queue says {why}, and process {process} still waits"
    )]
    Stuck {
        /// When.
        at: Nanos,
        /// What the queue said last.
        why: String,
        /// One of those who wait.
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

/// Runs the jobs on `device` under `elevator`. `prepare` sets the queue's attributes before
/// anything is submitted; `observer` sees every event and is returned.
///
/// # Errors
/// [`RunError`] when a job does not fit the device, or the run cannot go on.
pub fn run<D: Device, O: Observer, E: From<RunError>>(
    jobs: &[Job],
    settings: &Settings,
    device: &mut D,
    elevator: Box<dyn Elevator>,
    observer: O,
    prepare: impl FnOnce(&mut RequestQueue<(Meter, O)>) -> Result<(), E>,
    mut progress: impl FnMut(Progress),
) -> Result<(RunResult, RequestQueue<(Meter, O)>), E> {
    let mut run = Run::new(jobs, settings, device, elevator, observer)?;
    prepare(&mut run.queue)?;
    run.go(device, &mut progress)?;
    let result = run.result(device.now());
    Ok((result, run.queue))
}

/// One process and what the loop keeps about it.
#[derive(Debug)]
struct Seat {
    process: Process,
    job: usize,
    clone: u32,
    section: usize,
    delay: Nanos,
    timer: Nanos,
    /// Device time when its measurement began.
    served_before: Option<Nanos>,
    served: Nanos,
    ended: bool,
}

#[derive(Debug)]
struct Run<O: Observer> {
    queue: RequestQueue<(Meter, O)>,
    cache: PageCache,
    seats: Vec<Seat>,
    timers: BinaryHeap<Reverse<(Nanos, u32)>>,
    sections: Vec<SectionResult>,
    /// The section that is running, and how many of its processes have not ended.
    section: usize,
    left: u32,
    busy_before: Nanos,
    began: Nanos,
    ended: u32,
    requests: u64,
}

impl<O: Observer> Run<O> {
    fn new<D: Device>(
        jobs: &[Job],
        settings: &Settings,
        device: &D,
        elevator: Box<dyn Elevator>,
        observer: O,
    ) -> Result<Run<O>, RunError> {
        if let Some(problem) = unwired::problems(jobs).into_iter().next() {
            return Err(RunError::Job(problem));
        }
        let facts = device.facts();
        let layout =
            layout::plan(jobs, facts.capacity * 512, settings.placement).map_err(RunError::Job)?;
        let clients: u32 = jobs.iter().map(|job| job.numjobs).sum();
        let limits = limits(jobs, facts.depth);
        let observers = (Meter::new(clients + 1), observer);
        let mut queue = RequestQueue::new(facts, limits, elevator, observers);
        let groups = add_groups(jobs, &mut queue);
        let mut seats: Vec<Seat> = Vec::new();
        let mut section = 0;
        for (place, job) in jobs.iter().enumerate() {
            let position = job.shared_position.then(|| Rc::new(Cell::new(0)));
            section += usize::from(job.stonewall && place > 0);
            for (clone, region) in (0..job.numjobs).zip(&layout.regions[place]) {
                let number = u32::try_from(seats.len()).unwrap_or(u32::MAX);
                let group = groups[place];
                let client = queue
                    .attach(client_spec(job, group, FIRST_PID + number))
                    .expect("limits has a place for every clone");
                let setup = ProcessSetup {
                    identity: Identity { client, number },
                    file: region.file,
                    position: position.as_ref().map(|next| SharedPosition {
                        region: (region.start, region.bytes),
                        next: Rc::clone(next),
                    }),
                    submit_cost: settings.submit_cost.max(Nanos(1)),
                    runtime: settings.runtime,
                };
                // fio counts its threads from 1 over all jobs.
                let thread = number + 1;
                let name = job.file_names(clone).into_iter().next().unwrap_or_default();
                let extent = Extent { file: &name, start: region.start, bytes: region.bytes };
                let offsets = Offsets::over(job, thread, &[extent], region.io_bytes, settings.seed);
                seats.push(Seat {
                    process: Process::new(job, offsets, setup),
                    job: place,
                    clone,
                    section,
                    delay: start_delay(job, thread, settings.seed),
                    timer: Nanos::MAX,
                    served_before: None,
                    served: Nanos::ZERO,
                    ended: false,
                });
            }
        }
        let flusher = ClientSpec::new().pid(FLUSHER_PID);
        let flusher = queue.attach(flusher).expect("limits has a place for the flusher");
        let cache = PageCache::new(settings.host, layout.files, seats.len(), flusher);
        Ok(Run {
            queue,
            cache,
            seats,
            timers: BinaryHeap::new(),
            sections: Vec::new(),
            section: 0,
            left: 0,
            busy_before: Nanos::ZERO,
            began: device.now(),
            ended: 0,
            requests: 0,
        })
    }

    fn go<D: Device>(
        &mut self,
        device: &mut D,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), RunError> {
        self.begin_section(device.now());
        let mut steps = 0u64;
        loop {
            let now = device.now();
            self.act_due(now);
            let (until, why) = self.serve(now, device);
            let timer = earlier(self.first_timer(), self.cache.flusher_due());
            if timer.is_some_and(|timer| timer <= now) {
                continue;
            }
            if self.seats.len() == self.ended as usize {
                return Ok(());
            }
            let wake = earlier(until, timer);
            match device.wait(wake) {
                Some(completion) => {
                    self.complete(completion.at, completion);
                    // What ends at the same instant comes before anything else.
                    let at = device.now();
                    while let Some(completion) = device.wait(Some(at)) {
                        self.complete(completion.at, completion);
                    }
                }
                None if wake.is_none() => return Err(self.stuck(now, &why)),
                None => {}
            }
            steps += 1;
            if steps.is_multiple_of(PROGRESS_EVERY) {
                let all = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
                let ended = (self.ended, all);
                progress(Progress { now, requests: self.requests, ended });
            }
        }
    }

    fn complete(&mut self, at: Nanos, completion: paternoster::Completion) {
        self.requests += 1;
        // A device that names a tag twice is broken; its second word is ignored.
        let _stale = self.queue.complete(at, completion.tag, completion.outcome);
    }

    /// Everything that the queue wants done now; then until when it waits, and why.
    fn serve<D: Device>(
        &mut self,
        now: Nanos,
        device: &mut D,
    ) -> (Option<Nanos>, paternoster::Waiting) {
        loop {
            match self.queue.next(now) {
                Output::Issue(command) => {
                    if device.submit(command).is_err() {
                        let _stale = self.queue.requeue(now, command.tag);
                    }
                }
                Output::Done(cookie, outcome) if cookie & page_cache::COOKIE != 0 => {
                    self.cache.transfer_ended(cookie, outcome);
                    while let Some(number) = self.cache.next_woken() {
                        self.act(now, number);
                    }
                }
                Output::Done(cookie, outcome) => {
                    let (number, slot) = split_cookie(cookie);
                    self.seats[number as usize].process.bio_ended(now, slot, outcome);
                    self.act(now, number);
                }
                Output::Wake(client) => {
                    // Clients were attached in the order of the processes and none has left.
                    let number = client.index();
                    match self.seats.get_mut(number as usize) {
                        Some(seat) => {
                            seat.process.woken(now, &mut self.queue);
                            self.act(now, number);
                        }
                        None => self.cache.flush_in_background(now, &mut self.queue),
                    }
                }
                Output::Wait { until, why } => return (until, why),
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
        while self.first_timer().is_some_and(|timer| timer <= now) {
            if let Some(Reverse((_, number))) = self.timers.pop() {
                self.seats[number as usize].timer = Nanos::MAX;
                self.act(now, number);
            }
        }
        if self.cache.flusher_due().is_some_and(|due| due <= now) {
            self.cache.flush_in_background(now, &mut self.queue);
        }
    }

    /// Lets a process do what it can, and notes when it wants to be called again.
    fn act(&mut self, now: Nanos, number: u32) {
        let seat = &mut self.seats[number as usize];
        if seat.process.phase() == Phase::Waiting {
            seat.process.start(now, &mut self.cache);
        }
        let wish = seat.process.act(now, &mut self.cache, &mut self.queue);
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

    fn end_process(&mut self, now: Nanos, number: u32) {
        let seat = &mut self.seats[number as usize];
        seat.ended = true;
        let served = self.queue.observer().0.client(seat.process.client().index()).served;
        seat.served = served - seat.served_before.unwrap_or(Nanos::ZERO);
        self.ended += 1;
        self.left -= 1;
        if self.left == 0 {
            if let Some(section) = self.sections.last_mut() {
                let busy = self.queue.observer().0.device(now).busy;
                section.ended = now;
                section.busy = busy - self.busy_before;
            }
            self.section += 1;
            self.begin_section(now);
        }
    }

    /// Lets the jobs up to the next stonewall go.
    fn begin_section(&mut self, now: Nanos) {
        self.busy_before = self.queue.observer().0.device(now).busy;
        for number in 0..self.seats.len() {
            let seat = &mut self.seats[number];
            if seat.section == self.section {
                // As in fio a start delay counts from the beginning of the run.
                seat.timer = now.max(self.began + seat.delay);
                self.timers.push(Reverse((seat.timer, u32::try_from(number).unwrap_or(u32::MAX))));
                self.left += 1;
            }
        }
        if self.left > 0 {
            self.sections.push(SectionResult { began: now, ended: now, busy: Nanos::ZERO });
        }
    }

    fn stuck(&self, at: Nanos, why: &paternoster::Waiting) -> RunError {
        let waits = self.seats.iter().position(|seat| !seat.ended).unwrap_or(0);
        let process = u32::try_from(waits).unwrap_or(u32::MAX);
        RunError::Stuck { at, why: format!("{why:?}"), process }
    }

    fn result(&self, now: Nanos) -> RunResult {
        let processes = self
            .seats
            .iter()
            .map(|seat| ProcessResult {
                job: seat.job,
                clone: seat.clone,
                pid: FIRST_PID + seat.process.client().index(),
                statistics: seat.process.statistics().clone(),
                served: seat.served,
                error: seat.process.error(),
                section: seat.section,
            })
            .collect();
        let device = self.queue.observer().0.device(now);
        RunResult { processes, sections: self.sections.clone(), device, ended: now }
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

/// The capacities of a run's queue: what no job of it exceeds by itself.
#[must_use]
pub fn limits(jobs: &[Job], depth: u32) -> Limits {
    let clients: u32 = jobs.iter().map(|job| job.numjobs).sum();
    let depths: u64 = jobs.iter().map(|job| u64::from(job.iodepth) * u64::from(job.numjobs)).sum();
    let default = Limits::default();
    let groups = u32::try_from(jobs.len()).unwrap_or(u32::MAX).saturating_add(1);
    Limits {
        // Room for nr_requests of up to 256 a pool, and for a deep device's tags.
        requests: (3 * 256).max(2 * depth.min(10_240)),
        bios: u32::try_from(depths.clamp(1024, 1 << 16)).unwrap_or(1024),
        // And the flusher of the page cache.
        clients: clients + 1,
        groups: groups.max(default.groups),
        notes: default.notes,
    }
}

/// The group of each job's cgroup; jobs that name the same one share it.
fn add_groups<O: Observer>(jobs: &[Job], queue: &mut RequestQueue<O>) -> Vec<Option<GroupId>> {
    let mut known: Vec<(&str, GroupId)> = Vec::new();
    let mut groups = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(name) = job.cgroup.as_deref() else {
            groups.push(None);
            continue;
        };
        let found = known.iter().find(|(other, _)| *other == name).map(|&(_, id)| id);
        let id = found.or_else(|| queue.add_group(GroupSpec::new()).ok());
        if let (Some(id), Some(weight)) = (id, job.cgroup_weight) {
            // The last weight that is said of a cgroup counts, as in its file.
            let _gone = queue.set_group_weight(Nanos::ZERO, id, weight);
        }
        if let (None, Some(id)) = (found, id) {
            known.push((name, id));
        }
        groups.push(id);
    }
    groups
}

fn client_spec(job: &Job, group: Option<GroupId>, pid: u32) -> ClientSpec {
    let priority = priority(job);
    let spec = ClientSpec::new().priority(priority.class, priority.level).pid(pid);
    group.map_or(spec, |group| spec.group(group))
}

/// Class and level by `prioclass` and `prio`; what is not said follows from `nice`, as in Linux.
fn priority(job: &Job) -> Priority {
    let by_nice = Priority::from_nice(job.nice);
    let class = match (job.prioclass, job.prio) {
        (Some(1), _) => Class::Realtime,
        (Some(3), _) => Class::Idle,
        _ => Class::BestEffort,
    };
    match (job.prioclass, job.prio) {
        (None | Some(0), None) => by_nice,
        (_, level) => Priority { class, level: level.unwrap_or(0) },
    }
}

/// A draw from the range of `startdelay`, by the job's own generator for it.
fn start_delay(job: &Job, thread: u32, entropy: u64) -> Nanos {
    let seeds = Seeds::new(job.randseed, job.randrepeat, job.allrandrepeat, thread, entropy);
    let draw = seeds.generator(Choice::StartDelay).next_u32();
    let (low, high) = job.start_delay;
    let part = (u128::from((high - low).0) * u128::from(draw)) >> 32;
    low + Nanos(u64::try_from(part).unwrap_or(0))
}

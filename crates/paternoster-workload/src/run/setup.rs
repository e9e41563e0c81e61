// SPDX-License-Identifier: MIT OR Apache-2.0
//! Setup: the queue, the processes and what they share, from jobs.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use paternoster_core::{
    ClientSpec, DeviceFacts, Elevator, GroupId, GroupSpec, Limits, Nanos, Observer, Priority,
    RequestQueue,
};

use super::starts::{Starts, start_delay};
use super::{FIRST_PID, FLUSHER_PID, JOURNAL_PID, Run, RunError, Seat, Settings, Watcher};
use crate::fio::cmdprio::IoPriority;
use crate::fio::flow::Flows;
use crate::fio::iolog::LogWriter;
use crate::fio::job::Job;
use crate::fio::job_logs::JobLog;
use crate::fio::offsets::{Extent, Offsets};
use crate::fio::random::Seeds;
use crate::fio::relay::{Relays, Runner};
use crate::fio::unwired;
use crate::layout::{self, Region};
use crate::meter::Meter;
use crate::observed::AnyObserver;
use crate::page_cache::{HostSettings, PageCache, journal};
use crate::process::record::Record;
use crate::process::{
    Identity, Process, ProcessSetup, Shared, SharedGenerator, SharedPosition, Together,
};

/// The processes that were made so far.
struct Seats<'a> {
    jobs: &'a [Job],
    settings: &'a Settings,
    flows: Flows,
    relays: Relays,
    starts: Starts,
    seats: Vec<Seat>,
}

impl Run {
    /// Everything that a run needs; nothing has happened yet.
    pub(super) fn new(
        jobs: &[Job],
        settings: &Settings,
        (facts, now): (DeviceFacts, Nanos),
        elevator: Box<dyn Elevator>,
        observer: AnyObserver,
        watcher: &mut dyn Watcher,
    ) -> Result<Run, RunError> {
        if let Some(problem) = unwired::problems(jobs).into_iter().next() {
            return Err(RunError::Job(problem));
        }
        let Settings { placement, seed, .. } = *settings;
        let layout =
            layout::plan(jobs, facts.capacity * 512, placement, seed).map_err(RunError::Job)?;
        let clients: u32 = jobs.iter().map(|job| job.clones.numjobs).sum();
        let limits = limits(jobs, facts.depth);
        let observers = (Meter::new(clients + 2), observer);
        let mut queue =
            RequestQueue::builder(facts, elevator).limits(limits).observer(observers).build()?;
        let groups = add_groups(jobs, now, &mut queue);
        let (flows, relays) = (Flows::new(), Relays::default());
        let starts = Starts::new(settings.start_jitter, seed);
        let mut made = Seats { jobs, settings, flows, relays, starts, seats: Vec::new() };
        let mut section = 0;
        for (place, job) in jobs.iter().enumerate() {
            section += usize::from(job.clones.stonewall && place > 0);
            let position = job.ours.shared_position.then(|| Rc::new(Cell::new(0)));
            let generator =
                job.ours.generated.as_ref().map(|work| work.begin(job.clones.numjobs, seed));
            let generator = generator.map(|generator| Rc::new(RefCell::new(generator)));
            let relay = (!job.ours.relay.is_empty()).then(|| made.relays.add(&job.ours.relay));
            for (clone, region) in (0..job.clones.numjobs).zip(&layout.regions[place]) {
                let pid = FIRST_PID + made.number();
                let client = queue
                    .attach(now, client_spec(job, groups[place], pid))
                    .expect("limits has a place for every clone");
                let identity = Identity { client, number: made.number() };
                let runner = relay.map(|relay| Relays::runner(relay, clone));
                let first = region.files.first();
                let together = Together {
                    position: position.as_ref().zip(first).map(|(next, file)| SharedPosition {
                        region: (file.start, file.bytes),
                        next: Rc::clone(next),
                    }),
                    generator: generator.as_ref().map(|generator| SharedGenerator {
                        generator: Rc::clone(generator),
                        clone,
                    }),
                };
                let shared = (together, runner);
                made.add(place, clone, section, identity, region, shared, watcher)?;
            }
        }
        let flusher = ClientSpec::new().pid(FLUSHER_PID);
        let flusher = queue.attach(now, flusher).expect("limits has a place for the flusher");
        let Seats { flows, relays, seats, .. } = made;
        // What costs nothing would never end.
        let copy_cost = settings.host.copy_cost.max(Nanos(1));
        let host = HostSettings { copy_cost, ..settings.host };
        let area = layout.reserve(host.journal.bytes(), facts.capacity * 512);
        let kinds = layout.kinds;
        let mut cache = PageCache::new(host, layout.files, seats.len(), flusher);
        let wrong = |why| RunError::Job(jobs.first().unwrap_or(&Job::default()).problem(why));
        if let Some(area) = area.map_err(wrong)? {
            let (class, level) = journal::PRIORITY;
            let thread = ClientSpec::new().pid(JOURNAL_PID).priority(class, level);
            let thread = queue.attach(now, thread).expect("limits has a place for the journal");
            cache = cache.with_journal(thread, area, &kinds);
        }
        let shared = Shared::new(cache, flows, relays);
        Ok(Run::with(jobs, now, settings, queue, shared, seats, groups))
    }
}

impl Seats<'_> {
    fn number(&self) -> u32 {
        u32::try_from(self.seats.len()).unwrap_or(u32::MAX)
    }

    #[expect(clippy::too_many_arguments, reason = "what a clone is, piece by piece")]
    fn add(
        &mut self,
        place: usize,
        clone: u32,
        section: usize,
        identity: Identity,
        region: &Region,
        (together, runner): (Together, Option<Runner>),
        watcher: &mut dyn Watcher,
    ) -> Result<(), RunError> {
        let job = &self.jobs[place];
        // fio counts its threads from 1 over all jobs.
        let thread = job.thread_of(self.number() + 1 - clone, clone);
        let entropy = self.settings.seed;
        let names = names(job, clone);
        // A process with a generator draws nothing itself.
        let drawn = if together.generator.is_some() { 1 } else { names.len() };
        let extents: Vec<Extent<'_>> = names
            .iter()
            .zip(&region.files)
            .take(drawn)
            .map(|(name, file)| Extent {
                file: name,
                start: file.start,
                bytes: file.bytes,
                room: file.room,
                later: layout::later_start(job, clone, file),
            })
            .collect();
        let seeds = Seeds::of(job, thread, entropy);
        let delay = start_delay(job, &seeds);
        // With a randseed the offsets of the clones after the first follow from it.
        let clones = clone > 0 && job.random.randseed.is_some();
        let of_clone = clones.then(|| {
            let mut of_clone = job.clone();
            of_clone.random.randrepeat = false;
            of_clone
        });
        let draws = of_clone.as_ref().unwrap_or(job);
        let offsets = Offsets::over(draws, thread, &extents, region.io_bytes, entropy);
        let setup = ProcessSetup {
            identity,
            files: region.files.iter().map(|file| file.file).collect(),
            seeds,
            together,
            log: layout::recorded(job, clone).map(Arc::clone),
            record: record(job, clone, thread, &names, watcher)?,
            flow: self.flows.join(&job.pacing.flow),
            runner,
            submit_cost: self.settings.submit_cost.max(Nanos(1)),
            runtime: self.settings.runtime,
            reaps: self.settings.reaps,
        };
        let after = job.clones.ending.waits_for(&self.jobs[..place]);
        let after = after.map_err(|message| RunError::Job(job.problem(message)))?;
        self.seats.push(Seat {
            process: Process::new(job, offsets, setup),
            job: place,
            clone,
            section,
            after,
            delay,
            behind: self.starts.next(section, after),
            timer: Nanos::MAX,
            served_before: None,
            served: Nanos::ZERO,
            ended: false,
        });
        Ok(())
    }
}

/// A clone's files: those of its job, or of the log that it replays.
fn names(job: &Job, clone: u32) -> Vec<String> {
    match layout::recorded(job, clone) {
        Some(log) => log.files.clone(),
        None => job.file_names(clone),
    }
}

/// Opens the files that a clone writes about itself. With several clones each records its I/O in a
/// file of its own, the first one under the given name.
fn record(
    job: &Job,
    clone: u32,
    thread: u32,
    files: &[String],
    watcher: &mut dyn Watcher,
) -> Result<Record, RunError> {
    let wrong = |name: &str| {
        let name = name.to_owned();
        move |error: io::Error| RunError::Output { name, error: error.to_string() }
    };
    let mut record = Record::default();
    for (kind, name) in job.report.logs.files(&job.name, thread) {
        let out = watcher.create(&name).map_err(wrong(&name))?;
        record.logs.push((name, JobLog::new(kind, &job.report.logs, out)));
    }
    if let Some(name) = &job.replay.record {
        let name = if clone == 0 { name.clone() } else { format!("{name}.{clone}") };
        let out = watcher.create(&name).map_err(wrong(&name))?;
        let log = LogWriter::new(out, files).map_err(wrong(&name))?;
        record.ios = Some((name, log));
    }
    Ok(record)
}

/// The capacities of a run's queue: what no job of it exceeds by itself.
#[must_use]
pub fn limits(jobs: &[Job], depth: u32) -> Limits {
    let clients: u32 = jobs.iter().map(|job| job.clones.numjobs).sum();
    let depths: u64 =
        jobs.iter().map(|job| u64::from(job.queue.iodepth) * u64::from(job.clones.numjobs)).sum();
    let default = Limits::default();
    let paths = jobs.iter().filter_map(|job| job.priority.cgroup.as_deref());
    let groups: usize = paths.map(|path| paths_to(path).count()).sum();
    let groups = u32::try_from(groups).unwrap_or(u32::MAX).saturating_add(1);
    Limits {
        // Room for nr_requests of up to 256 a pool, and for a deep device's tags.
        requests: (3 * 256).max(2 * depth.min(10_240)),
        bios: u32::try_from(depths.clamp(1024, 1 << 16)).unwrap_or(1024),
        // And the flusher of the page cache, and a journal.
        clients: clients + 2,
        groups: groups.max(default.groups),
        notes: default.notes,
    }
}

/// The group of each job's cgroup; jobs that name the same one share it. A path (`vms/db`) is a
/// group in a group, and a parent weighs 100 unless a job names that, too.
fn add_groups<O: Observer>(
    jobs: &[Job],
    now: Nanos,
    queue: &mut RequestQueue<O>,
) -> Vec<Option<GroupId>> {
    let mut known: Vec<(&str, GroupId)> = Vec::new();
    let mut group_of = |path| {
        let mut above = None;
        for path in paths_to(path) {
            let found = known.iter().find(|(other, _)| *other == path).map(|&(_, id)| id);
            let spec = above.map_or(GroupSpec::new(), |above| GroupSpec::new().parent(above));
            let id = found.or_else(|| queue.add_group(now, spec).ok())?;
            if found.is_none() {
                known.push((path, id));
            }
            above = Some(id);
        }
        above
    };
    let groups: Vec<Option<GroupId>> =
        jobs.iter().map(|job| job.priority.cgroup.as_deref().and_then(&mut group_of)).collect();
    for (job, group) in jobs.iter().zip(&groups) {
        if let (Some(id), Some(weight)) = (*group, job.priority.cgroup_weight) {
            // The last weight given for a cgroup counts, as in its file.
            let _gone = queue.set_group_weight(now, id, weight);
        }
    }
    groups
}

/// The cgroups on the way to one, it included: `vms` and `vms/db`.
fn paths_to(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|path| !path.is_empty())
}

fn client_spec(job: &Job, group: Option<GroupId>, pid: u32) -> ClientSpec {
    let priority = priority(job);
    let spec = ClientSpec::new().priority(priority.class, priority.level).pid(pid);
    group.map_or(spec, |group| spec.group(group))
}

/// Class and level by `prioclass` and `prio`; if absent they follow from `nice`, as in Linux.
pub(super) fn priority(job: &Job) -> Priority {
    match (job.priority.prioclass, job.priority.prio) {
        (None | Some(0), None) => Priority::from_nice(job.priority.nice),
        (class, level) => {
            let (class, level) = (class.unwrap_or(0), level.unwrap_or(0));
            IoPriority { class, level }.in_queue()
        }
    }
}

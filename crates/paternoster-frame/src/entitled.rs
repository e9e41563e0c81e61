// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entitled: what each process of a run should have had, found by short runs of its kind alone.
//!
//! A process is compared with what its kind does alone, at its own depth and pace, and with what
//! the device does when it is full of that kind. Each kind is run twice, under noop, for a short
//! time, once for all schedulers:
//!
//! ```text
//! device                      takes      compared with a run of 4 schedulers and 30 s
//! rotates                     10 s       two kinds: 120 s and 4 times 10 s of virtual time
//! takes one at a time          2 s
//! takes up to 64             0.5 s
//! takes more                 0.1 s
//! ```
//!
//! but never longer than the jobs themselves. The first third does not count.
//!
//! Only sections are judged where it is known what each process can have: two or more processes,
//! present for the whole section, direct, best effort, and without writes that a disk's cache
//! absorbs until it is full.
//!
//! For a job that syncs each write the kind of request is the write with its sync. Such a job keeps
//! the device busy alone, whatever its depth; one flush makes the writes of several jobs durable,
//! so the device is full of them when all of the section's run together:
//!
//! ```text
//! one, alone 260/s                   at 130/s it has a half of the device
//! four, alone 260/s, together 640/s  one at 80/s has an eighth
//! ```
//!
//! On a device without a volatile cache a sync is no command, and such a job is a plain one.
//!
//! A job that syncs now and then is neither, and its section is not judged.
//!
//! Source: `paternoster_workload::entitlement`.

use std::collections::BTreeMap;

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_workload::Direction;
use paternoster_workload::entitlement::{Part, Use, WEIGHT, parts, tree};
use paternoster_workload::fio::changes::Changes;
use paternoster_workload::fio::flow::FlowShare;
use paternoster_workload::fio::frames::FrameRules;
use paternoster_workload::fio::job::{Engine, Job, Kind, Queueing, Section, Timing};
use paternoster_workload::fio::syncs::Syncs;
use paternoster_workload::outcome::Outcome;
use paternoster_workload::run::{ProcessResult, RunResult};
use paternoster_workload::shares::SectionShares;

use crate::setting::Setting;
use crate::target::Target;
use crate::{Failure, interrupt};

/// A device is full with twice its depth, and at least and at most this many.
const FULL: u32 = 64;
const FULL_MOST: u32 = 256;
/// All of a section's processes run for this much of the longest time, in per cent.
const THROUGHOUT: u64 = 95;
/// A weight counts as effective if the job gets at least this much of its entitlement.
const EFFECT: f64 = 0.8;
/// Schedulers that divide by weight, whatever their version.
const BY_WEIGHT: [&str; 3] = ["paternoster", "bfq", "cfq"];
/// `prioclass` of best effort.
const BEST_EFFORT: u8 = 2;

/// What kinds of jobs do on devices; each is run once.
#[derive(Debug, Default)]
pub struct Entitled {
    known: BTreeMap<(String, String), f64>,
}

impl Entitled {
    /// Adds to `outcome`, of `result` on `device`, what its processes are entitled to.
    pub fn judge(
        &mut self,
        setting: &Setting,
        jobs: &[Job],
        device: &Target,
        result: &RunResult,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        if device.as_real().is_some() {
            return Ok(());
        }
        let mut found: Vec<Option<Part>> = vec![None; result.processes.len()];
        for section in &outcome.shares {
            let processes = section.processes.iter().map(|&place| &result.processes[place]);
            let processes: Vec<&ProcessResult> = processes.collect();
            if !is_known(&processes, jobs, &device.facts) {
                continue;
            }
            let uses = processes.iter().map(|process| {
                let job = &jobs[process.job];
                let span = span(job, &device.facts);
                let own = alone(job, span);
                let alike = processes.iter().filter(|one| jobs[one.job].syncs == job.syncs);
                let full = full(&own, alike.count(), &device.facts);
                let alone = self.rate(setting, device, own)?;
                let saturated = self.rate(setting, device, full)?.max(alone);
                Ok(Use { rate: rate(process), alone, saturated })
            });
            let uses: Vec<Use> = uses.collect::<Result<_, Failure>>()?;
            let clients = processes.iter().map(|process| {
                let job = &jobs[process.job];
                (
                    job.priority.cgroup.as_deref(),
                    job.priority.cgroup_weight.map_or(WEIGHT, f64::from),
                )
            });
            let clients: Vec<(Option<&str>, f64)> = clients.collect();
            for (&place, part) in section.processes.iter().zip(parts(&tree(&clients), &uses)) {
                found[place] = Some(part);
            }
        }
        // A run alone that was cut short says nothing.
        if !interrupt::heard() {
            outcome.entitle(found);
        }
        Ok(())
    }

    /// I/Os a second of `job`, all of its clones, with the device to itself.
    fn rate(&mut self, setting: &Setting, device: &Target, job: Job) -> Result<f64, Failure> {
        let key = (device.name.clone(), key(&job));
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let found = setting.probe(&[job], device)?.processes.iter().map(rate).sum();
        self.known.insert(key, found);
        Ok(found)
    }
}

/// Why a weight did not have its effect, where something is known of it: with a scheduler that
/// divides by weight, where a job has much less than its entitlement.
pub fn notes(
    outcome: &Outcome,
    jobs: &[Job],
    result: &RunResult,
    facts: &DeviceFacts,
    nr_requests: u32,
) -> Vec<String> {
    let scheduler = &outcome.report.scheduler;
    if !BY_WEIGHT.iter().any(|name| scheduler.starts_with(name)) {
        return Vec::new();
    }
    let why = |section: &SectionShares| {
        let (place, part) = outcome.worst_off(section)?;
        let own = section.processes.iter().map(|&place| &jobs[result.processes[place].job]);
        let weight = |job: &Job| job.priority.cgroup_weight.map_or(WEIGHT, f64::from);
        let least = own.clone().map(weight).min_by(f64::total_cmp)?;
        let worst = &jobs[result.processes[place].job];
        // If the lightest is worst off, weights had too much effect, if anything.
        if part.ratio() >= EFFECT || weight(worst) <= least {
            return None;
        }
        let drains = facts.write_cache && !facts.flush_queueable;
        let depth =
            |job: &Job| if job.queue.engine == Engine::Sync { 1 } else { job.queue.iodepth };
        let all: u32 = own.map(depth).sum();
        let cause = if all > nr_requests {
            format!(
                "the jobs ask for {all} requests at a time and nr_requests is {nr_requests}: \
                 those that sleep for one are not seen by the scheduler"
            )
        } else if drains && worst.syncs.of_each_write() {
            "the device cannot queue a flush: each of its syncs waits until the device has done \
             all that it was given"
                .to_owned()
        } else if all <= facts.depth {
            format!("the device takes all {all} requests at once, so nothing waits to be chosen")
        } else {
            return None;
        };
        let name = &outcome.report.jobs[place].name;
        Some(format!("{scheduler}: the weights had little effect on {name}: {cause}."))
    };
    outcome.shares.iter().filter_map(why).collect()
}

/// Whether it is known what each of a section's processes can have.
fn is_known(processes: &[&ProcessResult], jobs: &[Job], facts: &DeviceFacts) -> bool {
    let cached = facts.rotational && facts.write_cache;
    let is_plain = |job: &Job| {
        let each = job.syncs.of_each_write();
        let kind = match job.order.rw.kind {
            Kind::ReadOnly => true,
            Kind::WriteOnly => each || !cached,
            Kind::ReadWrite => !each && !cached,
            Kind::TrimOnly | Kind::TrimWrite => false,
        };
        let engine = matches!(job.queue.engine, Engine::Sync | Engine::Async);
        let class = job.priority.prioclass.is_none_or(|class| class == BEST_EFFORT)
            && job.priority.prio.is_none();
        let own = job.recorded.is_empty() && job.ours.generated.is_none() && job.profile.is_none();
        let steady = job.ours.changes == Changes::default()
            && job.ours.frames == FrameRules::default()
            && job.pacing.flow == FlowShare::default()
            && job.pacing.latency_goal.target == Nanos::ZERO
            && job.ours.relay.is_empty();
        let syncs = each || job.syncs == Syncs::default();
        kind && engine && class && own && steady && syncs
    };
    let direct = |job: &Job| job.cache.direct == Some(true);
    let times = processes.iter().map(|process| runtime_ms(process));
    let longest = times.clone().max().unwrap_or(0);
    processes.len() > 1
        && processes
            .iter()
            .all(|process| is_plain(&jobs[process.job]) && direct(&jobs[process.job]))
        && times.into_iter().all(|time| time * 100 >= longest * THROUGHOUT)
}

fn runtime_ms(process: &ProcessResult) -> u64 {
    let all = Direction::ALL.map(|one| process.statistics.direction(one).runtime_ms());
    all.into_iter().max().unwrap_or(0)
}

/// I/Os a second, of all directions.
fn rate(process: &ProcessResult) -> f64 {
    Direction::ALL.map(|one| process.statistics.direction(one).ios_per_second()).iter().sum()
}

/// How long `job` is run alone.
fn span(job: &Job, facts: &DeviceFacts) -> Nanos {
    let enough = Nanos::from_millis(match (facts.rotational, facts.depth) {
        (true, _) => 10_000,
        (false, ..=1) => 2000,
        (false, ..=64) => 500,
        (false, _) => 100,
    });
    job.time.runtime.map_or(enough, |runtime| runtime.min(enough))
}

/// The job by itself, at its own depth and pace.
fn alone(job: &Job, span: Nanos) -> Job {
    let settles = Nanos(span.0 / 3);
    let mut alone = job.clone();
    (alone.clones.numjobs, alone.clones.stonewall) = (1, false);
    alone.time = Timing {
        start_delay: (Nanos::ZERO, Nanos::ZERO),
        ramp_time: settles,
        runtime: Some(Nanos(span.0 - settles.0)),
        time_based: true,
    };
    (alone.region.io_size, alone.region.number_ios) = (None, None);
    (alone.priority.cgroup, alone.priority.cgroup_weight) = (None, None);
    alone.report.status_interval = None;
    alone
}

/// With this many requests of a kind at a time a device is full of it.
pub fn full_depth(facts: &DeviceFacts) -> u32 {
    (2 * facts.depth).clamp(FULL, FULL_MOST)
}

/// The same when the device is full of it; `syncing` is how many run together that sync as it does,
/// including itself.
pub fn full(alone: &Job, syncing: usize, facts: &DeviceFacts) -> Job {
    let depth = full_depth(facts);
    let mut full = alone.clone();
    unpace(&mut full);
    if alone.syncs.of_each_write() {
        if facts.write_cache {
            full.clones.numjobs = u32::try_from(syncing).unwrap_or(u32::MAX);
            return full;
        }
        full.syncs = Syncs::default();
    }
    full.queue = Queueing {
        engine: Engine::Async,
        iodepth: depth,
        iodepth_low: depth,
        iodepth_batch_submit: 1,
        iodepth_batch_complete_min: 1,
        iodepth_batch_complete_max: 1,
        ..full.queue
    };
    full
}

/// Takes away what keeps a job from asking at once.
pub fn unpace(job: &mut Job) {
    job.think.thinktime = Nanos::ZERO;
    job.think.thinktime_spin = Nanos::ZERO;
    job.think.think_io_time = Nanos::ZERO;
    (job.pacing.rate, job.pacing.rate_iops) = ([None; 3], [None; 3]);
}

/// What distinguishes jobs that are run alone: equal jobs are run once.
pub fn key(job: &Job) -> String {
    let nameless = Job { name: String::new(), section: Section::default(), ..job.clone() };
    format!("{nameless:?}")
}

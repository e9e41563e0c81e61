// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trial: the runs that an advice is based on, and what each job got in each of them.
//!
//! ```text
//! each job's clone alone      ─┐ demand: what it could use
//! the same, many at a time    ─┤ cost: what a request of it takes of the device
//! schedulers x seeds          ─┴▶ rates, latencies, got / entitled   (workload, entitlement.rs)
//! ```
//!
//! A seed changes the offsets of all random jobs, and when each job begins: by up to `JITTER`.
//! Clients that begin at the same instant and stay in step are an artefact of simulation.
//!
//! Results are in the order of the steps (`parallel.rs`): equal arguments, equal bytes.

use paternoster_core::Nanos;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::entitled::{self, full_depth};
use paternoster_frame::page::{Watch, Watched};
use paternoster_frame::parallel::{each, threads};
use paternoster_frame::progress::Steps;
use paternoster_frame::setting::Setting;
use paternoster_frame::target::Target;
use paternoster_frame::{Failure, interrupt};
use paternoster_workload::entitlement::{self, Use, WEIGHT, tree};
use paternoster_workload::fio::job::{Engine, Job, Priorities};
use paternoster_workload::fio::syncs::Syncs;
use paternoster_workload::meter::CommandHash;
use paternoster_workload::run::RunResult;

use crate::plot::clients;

/// Each job begins up to this much later than the run, depending on the seed.
const JITTER: u64 = 10_000_000;

/// What one job got in one run: the sum over its clones, and over sections of its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    /// I/Os and bytes a second.
    pub(crate) iops: f64,
    pub(crate) bandwidth: f64,
    /// Latencies in ns; NaN if nothing ended.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    /// 99th percentile of the job's fsyncs, if it has any.
    pub(crate) sync_p99: Option<f64>,
    /// What the job got divided by its entitlement, the least among its clones; `None` if nothing
    /// is promised.
    pub(crate) share: Option<f64>,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    /// Figures by the job's name.
    pub(crate) jobs: Vec<Figures>,
    /// The part of the device's capacity that was used: rates divided by saturated rates, summed.
    pub(crate) work: f64,
    /// Digest of the commands that the device got.
    pub(crate) commands: u64,
}

/// The schedulers and jobs that are tried.
#[derive(Debug)]
pub(crate) struct Trials<'a> {
    pub(crate) jobs: &'a [Job],
    /// Names of jobs, each once.
    pub(crate) names: &'a [String],
    pub(crate) device: &'a Target,
    pub(crate) setting: &'a Setting,
    pub(crate) schedulers: &'a [SchedulerChoice],
    pub(crate) seeds: u64,
}

/// One run.
struct Step {
    name: String,
    jobs: Vec<Job>,
    scheduler: SchedulerChoice,
    seed: u64,
}

impl Trials<'_> {
    /// By scheduler and seed, in order; only the schedulers that were tried before a Ctrl-C.
    pub(crate) fn run(&self, quiet: bool) -> Result<Vec<Vec<Trial>>, Failure> {
        let noop = SchedulerChoice::parse("noop")?;
        let mut steps = Vec::new();
        for job in self.jobs {
            for (what, job) in [("alone", alone(job)), ("saturated", self.saturated(job))] {
                let name = format!("{} {what}", job.name);
                steps.push(Step { name, jobs: vec![job], scheduler: noop.clone(), seed: 1 });
            }
        }
        for scheduler in self.schedulers {
            for seed in 1..=self.seeds {
                let name = format!("{}, seed {seed}", scheduler.text);
                let jobs = self.jobs.iter().enumerate().map(|(nth, job)| drawn(job, nth, seed));
                let jobs = jobs.collect();
                steps.push(Step { name, jobs, scheduler: scheduler.clone(), seed });
            }
        }
        let display = Steps::new(quiet, steps.len());
        // After a Ctrl-C there are no results of unfinished steps.
        let done = each(threads(), &steps, |step| {
            let found = (!interrupt::heard()).then(|| self.step(step))?;
            display.done(&step.name);
            (found.is_err() || !interrupt::heard()).then_some(found)
        });
        display.clear();
        let mut done = done.into_iter();
        let rate = |(result, _): (RunResult, u64)| -> f64 {
            (0..result.processes.len()).map(|place| rate(&result, place)).sum()
        };
        let mut rates = Vec::new();
        for own in done.by_ref().take(2 * self.jobs.len()).flatten() {
            rates.push(own.map(rate)?);
        }
        if rates.len() < 2 * self.jobs.len() {
            return Ok(Vec::new());
        }
        // A device that is full does no less than for one.
        let rates: Vec<(f64, f64)> =
            rates.chunks(2).map(|pair| (pair[0], pair[1].max(pair[0]))).collect();
        let mut all = Vec::new();
        for _ in self.schedulers {
            let seeds = usize::try_from(self.seeds).unwrap_or(1);
            let own = done.by_ref().take(seeds).flatten();
            let own = own.map(|result| Ok(self.trial(&result?, &rates)));
            let own = own.collect::<Result<Vec<Trial>, Failure>>()?;
            if own.len() < seeds {
                break;
            }
            all.push(own);
        }
        Ok(all)
    }

    /// A run with the first seed, recorded for a page.
    pub(crate) fn watch(&self, scheduler: &SchedulerChoice) -> Result<Watched, Failure> {
        let jobs = self.jobs.iter().enumerate().map(|(nth, job)| drawn(job, nth, 1));
        let jobs: Vec<Job> = jobs.collect();
        let setting = self.setting.with_seed(1);
        let (_, watch, _) =
            setting.run(&jobs, self.device, scheduler, Watch::new(), &mut |_| {})?;
        Ok(watch.finish(scheduler.text.clone(), clients(&jobs)))
    }

    /// The result, and the digest of the device's commands.
    fn step(&self, step: &Step) -> Result<(RunResult, u64), Failure> {
        let setting = self.setting.with_seed(step.seed);
        let hash = CommandHash::default();
        let (result, hash, _) =
            setting.run(&step.jobs, self.device, &step.scheduler, hash, &mut |_| {})?;
        match result.processes.iter().find(|process| process.error != 0) {
            None => Ok((result, hash.digest())),
            Some(failed) => Err(Failure::Job(format!(
                "{}: job {} failed with errno {}",
                step.name, step.jobs[failed.job].name, failed.error
            ))),
        }
    }

    /// The job with enough requests at a time to fill the device; of a job that syncs each write,
    /// as many clones as there are (`entitled.rs`).
    fn saturated(&self, job: &Job) -> Job {
        if job.syncs.of_each_write() {
            let syncing = self.jobs.iter().filter(|one| one.syncs == job.syncs);
            let syncing = syncing.map(|one| one.clones.numjobs as usize).sum();
            return entitled::full(&alone(job), syncing, &self.device.facts);
        }
        let mut full = alone(job);
        entitled::unpace(&mut full);
        full.syncs = Syncs::default();
        if job.cache.direct == Some(true) {
            let depth = full_depth(&self.device.facts);
            full.queue.engine = Engine::Async;
            full.queue.engine_name = "libaio".to_owned();
            (full.queue.iodepth, full.queue.iodepth_low) = (depth, depth);
            (full.queue.iodepth_batch_submit, full.queue.iodepth_batch_complete_max) = (1, depth);
        }
        full
    }

    fn trial(&self, (result, commands): &(RunResult, u64), rates: &[(f64, f64)]) -> Trial {
        let uses: Vec<Use> = (0..result.processes.len())
            .map(|place| {
                let (alone, saturated) = rates[result.processes[place].job];
                Use { rate: rate(result, place), alone, saturated }
            })
            .collect();
        let clients = result.processes.iter().map(|process| {
            let job = &self.jobs[process.job];
            (job.priority.cgroup.as_deref(), job.priority.cgroup_weight.map_or(WEIGHT, f64::from))
        });
        let parts = entitlement::entitled(&tree(&clients.collect::<Vec<_>>()), &uses);
        let first = self.jobs.iter().any(|job| job.priority.prioclass == Some(1));
        let jobs = self.names.iter().map(|name| {
            let is_own = |job: usize| self.jobs[job].name == *name;
            let own: Vec<usize> =
                (0..uses.len()).filter(|&place| is_own(result.processes[place].job)).collect();
            // The idle class is promised nothing, nor are those below a real-time class.
            let share = |place: usize| {
                let class = self.jobs[result.processes[place].job].priority.prioclass;
                let promised = class != Some(3) && (class == Some(1) || !first);
                let cost = uses[place].cost();
                (promised && parts[place] > 0.0).then(|| cost / parts[place])
            };
            let all = result.together(is_own);
            let mixed = all.as_ref().map(|all| all.mixed());
            let latency = |p: f64| match &mixed {
                Some(mixed) if mixed.ios() > 0 => {
                    let most = mixed.total().max().0;
                    as_f64(mixed.total_histogram().percentile(p).min(most))
                }
                _ => f64::NAN,
            };
            let sync = all.as_ref().filter(|all| all.sync().n() > 0);
            let bandwidth = |place: usize| {
                let all = &result.processes[place].statistics;
                rate(result, place) * as_f64(all.mixed().bytes()) / as_f64(all.ios().max(1))
            };
            Figures {
                iops: own.iter().map(|&place| uses[place].rate).sum(),
                bandwidth: own.iter().map(|&place| bandwidth(place)).sum(),
                p50: latency(50.0),
                p99: latency(99.0),
                p999: latency(99.9),
                max: latency(100.0),
                sync_p99: sync.map(|all| {
                    as_f64(all.sync_histogram().percentile(99.0).min(all.sync().max().0))
                }),
                share: own.iter().filter_map(|&place| share(place)).min_by(f64::total_cmp),
            }
        });
        let work = uses.iter().map(Use::cost).sum();
        Trial { jobs: jobs.collect(), work, commands: *commands }
    }
}

/// I/Os a second of one process.
fn rate(result: &RunResult, place: usize) -> f64 {
    let all = &result.processes[place].statistics;
    let time = all.runtime();
    if time == Nanos::ZERO { 0.0 } else { as_f64(all.ios()) * 1e9 / as_f64(time.0) }
}

/// The job as it is in the run of a seed.
fn drawn(job: &Job, nth: usize, seed: u64) -> Job {
    // An odd factor of 64 bits spreads neighbouring places over the whole range.
    let place = (seed << 16) | nth as u64;
    let late = Nanos(((place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) * JITTER) >> 32);
    let (least, most) = job.time.start_delay;
    let start_delay = (least + late, most + late);
    let mut job = job.clone();
    (job.random.randrepeat, job.random.allrandrepeat) = (false, false);
    job.time.start_delay = start_delay;
    job
}

/// One clone of the job, from the beginning and in no group.
fn alone(job: &Job) -> Job {
    let mut alone = job.clone();
    alone.clones.numjobs = 1;
    alone.time.start_delay = (Nanos::ZERO, Nanos::ZERO);
    let Priorities { prio, prioclass, cgroup, cgroup_weight, .. } = &mut alone.priority;
    (*prio, *prioclass, *cgroup, *cgroup_weight) = (None, None, None, None);
    alone
}

#[expect(clippy::cast_precision_loss, reason = "a report's figure")]
pub(crate) const fn as_f64(value: u64) -> f64 {
    value as f64
}

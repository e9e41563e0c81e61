// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cell: one workload on one device under one scheduler with one seed, run and measured; and the
//! same for each of its jobs alone, and for a device full of its requests: these give what each is
//! entitled to (`owed.rs`).
//!
//! Each run is bounded in virtual time: it settles, then it is measured.
//!
//! | device | settles | measured |
//! |---|---|---|
//! | rotates | 20 s | 120 s |
//! | takes one command at a time | 5 s | 20 s |
//! | takes up to 64 | 1 s | 2 s |
//! | takes more | 0.5 s | 0.5 s |
//!
//! By then sixteen clients with turns of 100 ms have had 75 turns; shares should be judged over a
//! window of a hundred (G3). An NVMe drive's write buffer is full after half a second. W10, whose
//! first seconds are what counts, settles for 10 s and is measured for 40 s on rotating devices.
//!
//! Files are a 32nd of the device (a 64th where there are so many), at most 8 GiB, and lie far from
//! each other.

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_frame::Failure;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::entitled;
use paternoster_frame::setting::{Setting, SettingOptions};
use paternoster_frame::target::Target;
use paternoster_workload::fio::changes::Changes;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::fio::value::Amount;
use paternoster_workload::layout::{self, Placement, Region};
use paternoster_workload::run::RunResult;

use super::figures::{incentive, throughput};
use super::mutual_delay::Delay;
use super::owed::{self, Kind, Owed};
use super::reach::{Law, States};
use super::tally::Tally;
use super::windows::{Scale, Window};
use super::workloads::{Workload, is_client};

/// The device itself.
const WHOLE: &str = "/dev/whole";
/// Largest file.
const FILE_MAX: u64 = 8 << 30;
/// Paced clients of flash send this many times what those of disks do.
const FLASH_PACE: u64 = 10;

/// With more processes than this, those of a job take turns in one state.
const SINGLE_MOST: usize = 16;
/// Requests this close together take the same time.
const SAME: f64 = 0.05;

/// How long a run settles, and how long it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) settle: Nanos,
    pub(super) measure: Nanos,
}

impl Times {
    /// The times of a workload on a device.
    pub(super) fn of(facts: &DeviceFacts, workload: &Workload) -> Times {
        let (settle, measure) = match (facts.rotational, facts.depth) {
            (true, _) if workload.counts_beginning() => (10_000, 40_000),
            (true, _) => (20_000, 120_000),
            (false, ..=1) => (5000, 20_000),
            (false, ..=64) => (1000, 2000),
            (false, _) => (500, 500),
        };
        Times { settle: Nanos::from_millis(settle), measure: Nanos::from_millis(measure) }
    }
}

/// What a process did in a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Process {
    pub(super) job: usize,
    /// Bytes a second.
    pub(super) rate: f64,
    /// I/Os a second.
    pub(super) ios: f64,
    /// The 99.9th percentile of its latencies, ns; 0 if it did nothing.
    pub(super) tail: f64,
    /// Longest wait of the client, in seconds.
    pub(super) longest: f64,
    /// The fraction of time in which it had a request outstanding.
    pub(super) outstanding: f64,
    /// Bytes, by window.
    pub(super) bytes: Vec<u64>,
}

/// The results of one run of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Sum of rates, each divided by what its kind reaches when the device is full of it.
    pub(super) throughput: f64,
    /// What the worst-off backlogged client misses of what it is entitled to, 0 to 1.
    pub(super) error: f64,
    /// The longest wait divided by its bound.
    pub(super) wait: f64,
    /// The least of rate divided by part of the weights times rate alone.
    pub(super) incentive: f64,
    /// 99.9th percentile of the interactive client divided by its own alone.
    pub(super) tail: Option<f64>,
    /// Sum of the others' rates divided by their rates alone, if there is an interactive client.
    pub(super) bulk: Option<f64>,
    /// The clients of each window.
    pub(super) windows: Vec<Vec<Owed>>,
}

/// The jobs of a workload, as adapted to a device.
pub(super) fn jobs(
    workload: &Workload,
    facts: &DeviceFacts,
    times: Times,
) -> Result<Vec<Job>, Failure> {
    let (name, text) = workload.file;
    let bytes = (facts.capacity * 512 / workload.files()).min(FILE_MAX) >> 20 << 20;
    let defaults = [("size".to_owned(), bytes.to_string())];
    let include = |_: &str, named: &str| Err(format!("{named}: a job file of the program's own"));
    let parsed = parse(&[Source { name, text }], &defaults, &[], &|_| None, &include);
    let mut jobs = parsed
        .map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::Request(lines.join("; "))
        })?
        .jobs;
    jobs.retain(|job| workload.has(&job.name));
    let scale = Scale(times);
    for job in &mut jobs {
        let (begins, lasts) =
            (job.time.start_delay.0, job.time.runtime.map(|runtime| scale.span(runtime)));
        let mut most = times.measure;
        if begins > Nanos::ZERO {
            let begins = scale.instant(begins);
            job.time.start_delay = (begins, begins);
            most = Nanos(times.settle.0 + times.measure.0 - begins.0);
        } else {
            job.time.ramp_time = times.settle;
        }
        job.time.runtime = Some(lasts.map_or(most, |lasts| lasts.min(most)));
        job.ours.changes = job.ours.changes.at_times(|at| scale.instant(at));
        // A job file without a runtime loses it.
        job.time.time_based = true;
        if !facts.rotational {
            job.pacing.rate_iops =
                job.pacing.rate_iops.map(|rate| rate.map(|rate| FLASH_PACE * rate));
        }
    }
    Ok(jobs)
}

/// The job as it runs alone: one clone, from the beginning; in a file at the device's beginning, or
/// from this byte of the device on.
pub(super) fn alone(job: &Job, times: Times, place: Option<u64>) -> Job {
    let mut alone = job.clone();
    alone.clones.numjobs = 1;
    alone.time.start_delay = (Nanos::ZERO, Nanos::ZERO);
    alone.time.ramp_time = times.settle;
    alone.time.runtime = Some(times.measure);
    alone.ours.changes = Changes::default();
    alone.priority.prioclass = None;
    (alone.priority.cgroup, alone.priority.cgroup_weight) = (None, None);
    if let Some(at) = place {
        (alone.files.filenames, alone.region.offset) = (vec![WHOLE.to_owned()], Amount::Bytes(at));
    }
    alone
}

/// A client of each of two jobs, without the others.
pub(super) fn pair(jobs: &[Job], (one, other): (usize, usize)) -> Vec<Job> {
    let single = |place: usize| {
        let mut job = jobs[place].clone();
        job.clones.numjobs = 1;
        job
    };
    vec![single(one), single(other)]
}

/// By job and clone: the byte of the device at which its file begins, where that makes a
/// difference: the outer tracks of a disk pass twice as many sectors as the inner ones.
pub(super) fn places(jobs: &[Job], facts: &DeviceFacts) -> Result<Vec<Option<u64>>, Failure> {
    let layout = layout::plan(jobs, facts.capacity * 512, Placement::Far, 0)
        .map_err(|problem| Failure::Request(problem.to_string()))?;
    let place = |region: &Region| match region.files[..] {
        [own] if facts.rotational => Some(layout.files[own.file as usize].at + own.start),
        _ => None,
    };
    Ok(layout.regions.iter().flatten().map(place).collect())
}

/// The device full of the job's requests, given the jobs of its workload.
pub(super) fn full(alone: &Job, jobs: &[Job], facts: &DeviceFacts) -> Job {
    let syncing = jobs.iter().filter(|job| job.syncs == alone.syncs);
    entitled::full(alone, syncing.map(|job| job.clones.numjobs as usize).sum(), facts)
}

/// The setting of a run.
pub(super) fn setting(requests: u32, seed: u64) -> Result<Setting, Failure> {
    let options = SettingOptions {
        // As much as an elevator may hold: what does not get into it, it cannot order.
        set: vec![format!("nr_requests={requests}")],
        seed,
        placement: "far".to_owned(),
        ..SettingOptions::plain()
    };
    Setting::new(&options, None)
}

/// Executes a run; returns what each process got in the measured time, and in each window of it.
pub(super) fn run(
    jobs: &[Job],
    setting: &Setting,
    device: &Target,
    scheduler: &SchedulerChoice,
    times: Times,
    windows: &[Window],
) -> Result<Vec<Process>, Failure> {
    let clients: usize = jobs.iter().map(|job| job.clones.numjobs as usize).sum();
    let tally = Tally::new(times.settle, times.settle + times.measure, clients)
        .with_windows(windows.iter().map(|window| (window.begin, window.end)));
    let (result, mut tally, _) = setting.run(jobs, device, scheduler, tally, &mut |_| {})?;
    if let Some(failed) = result.processes.iter().find(|process| process.error != 0) {
        let name = &jobs[failed.job].name;
        return Err(Failure::Job(format!("job {name} failed with errno {}", failed.error)));
    }
    Ok(processes(&result, &mut tally, times))
}

fn processes(result: &RunResult, tally: &mut Tally, times: Times) -> Vec<Process> {
    let measured = as_f64(times.measure.0);
    let clients = tally.close().to_vec();
    let each = result.processes.iter().zip(&clients).enumerate().map(|(place, found)| {
        let (process, client) = found;
        let all = process.statistics.mixed();
        let longest = all.total().max();
        let tail = all.total_histogram().percentile(99.9).min(longest.0);
        Process {
            job: process.job,
            rate: as_f64(client.bytes) / measured * 1e9,
            ios: all.ios_per_second(),
            tail: as_f64(tail),
            longest: as_f64(longest.max(client.longest).0) / 1e9,
            outstanding: as_f64(client.outstanding) / measured,
            bytes: tally.bytes().map(|window| window[place]).collect(),
        }
    });
    each.collect()
}

/// What a kind of job does, from its run alone and from that of a device full of it.
pub(super) fn kind(alone: &Process, full: &[Process]) -> Kind {
    let sum = |of: fn(&Process) -> f64| full.iter().map(of).sum::<f64>();
    let (bytes, ios) = (sum(|one| one.rate), sum(|one| one.ios));
    let io_bytes = if ios > 0.0 { bytes / ios } else { 4096.0 };
    Kind { alone: alone.rate, saturated: bytes.max(alone.rate), io_bytes }
}

/// The law that a delay makes of two processes, if requests take alone what they did when delays
/// were found: streams that a drive reads ahead do not.
fn law(delay: &Delay, kinds: &[Kind]) -> Option<Law> {
    let Delay { own, other, alone, seconds } = *delay;
    let each = kinds[own].io_bytes / kinds[own].alone;
    let factor = seconds * kinds[other].saturated / kinds[other].io_bytes;
    ((each / alone - 1.0).abs() < SAME).then_some(Law { own, other, factor })
}

/// What is known of a cell's load: its jobs, when they are present, what they do alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) jobs: &'a [Job],
    pub(super) windows: &'a [Window],
    /// For each process, what its kind does at the place of its file.
    pub(super) kinds: &'a [Kind],
    /// Each process's run alone.
    pub(super) solos: &'a [&'a Process],
    /// Without a scheduler.
    pub(super) noop: &'a [Process],
}

impl Load<'_> {
    /// Sum of costs, over all windows.
    pub(super) fn throughput(&self, processes: &[Process]) -> f64 {
        let (mut all, mut seconds) = (0.0, 0.0);
        for (nth, window) in self.windows.iter().enumerate() {
            let (_, costs) = owed::owed(self.jobs, processes, self.kinds, (nth, window));
            all += costs * window.seconds();
            seconds += window.seconds();
        }
        all / seconds
    }

    /// By window: each process served alone (of many: each job, its clones by turns), two of them,
    /// and these runs.
    pub(super) fn states(
        &self,
        runs: &[&[Process]],
        pairs: &[((usize, usize), &[Process])],
        delays: &[Delay],
    ) -> Vec<States> {
        let Load { jobs, windows, kinds, noop, .. } = *self;
        let of = |window: (usize, &Window)| {
            let mut states = owed::states(jobs, noop, kinds, window);
            // The device does nothing.
            states.costs.push(vec![0.0; noop.len()]);
            let few = noop.len() <= SINGLE_MOST;
            let alone: Vec<usize> = if few { (0..noop.len()).collect() } else { Vec::new() };
            states.costs.extend(alone.into_iter().map(|place| {
                let mut costs = vec![0.0; noop.len()];
                costs[place] = states.demands[place];
                costs
            }));
            for (place, job) in jobs.iter().enumerate().filter(|_| !few) {
                let each = noop.iter().zip(&states.demands).map(|(process, demand)| {
                    if process.job == place { demand / f64::from(job.clones.numjobs) } else { 0.0 }
                });
                states.costs.push(each.collect());
            }
            for ((one, other), run) in pairs {
                let each = noop.iter().zip(kinds).map(|(process, kind)| {
                    let used = |(place, own): (&usize, &Process)| {
                        let cost =
                            own.rate / kind.saturated / f64::from(jobs[*place].clones.numjobs);
                        if process.job == *place { cost } else { 0.0 }
                    };
                    [one, other].into_iter().zip(*run).map(used).sum()
                });
                states.costs.push(each.collect());
            }
            states.laws = delays.iter().filter_map(|delay| law(delay, kinds)).collect();
            states.costs.extend(runs.iter().map(|run| owed::costs(run, kinds, window)));
            states
        };
        windows.iter().enumerate().map(of).collect()
    }

    /// The figures of a run.
    pub(super) fn figures(&self, processes: &[Process]) -> Measured {
        let Load { jobs, windows, kinds, solos, noop } = *self;
        let each = || processes.iter().zip(solos);
        let client = jobs.iter().position(|job| is_client(&job.name));
        let beside = |client: usize| {
            let others = each().filter(|(process, _)| process.job != client);
            let rates = others.map(|(process, solo)| (process.rate, solo.rate));
            throughput(&rates.collect::<Vec<_>>())
        };
        let tail = |client: usize| {
            let own = || each().filter(|(process, _)| process.job == client);
            let longest = own().map(|(process, _)| process.tail).fold(0.0, f64::max);
            let solo = own().next().map_or(0.0, |(_, solo)| solo.tail);
            (longest > 0.0 && solo > 0.0).then(|| longest / solo)
        };
        let clients: Vec<Vec<Owed>> = windows
            .iter()
            .enumerate()
            .map(|window| owed::owed(jobs, processes, kinds, window).0)
            .collect();
        let of: Vec<usize> = processes.iter().map(|process| process.job).collect();
        let parts = windows.iter().enumerate().flat_map(|(nth, window)| {
            let parts = owed::plain_parts(jobs, &of, window).into_iter().zip(processes);
            parts.zip(kinds).map(move |((part, process), kind)| {
                let rate = as_f64(process.bytes[nth]) / window.seconds();
                (rate, kind.alone, part)
            })
        });
        Measured {
            throughput: self.throughput(processes),
            error: clients.iter().map(|window| owed::error(window)).fold(0.0, f64::max),
            wait: owed::longest_wait(jobs, processes, noop, kinds, windows),
            incentive: incentive(&parts.collect::<Vec<_>>()),
            tail: client.and_then(tail),
            bulk: client.map(beside),
            windows: clients,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a report's figure")]
pub(super) const fn as_f64(value: u64) -> f64 {
    value as f64
}

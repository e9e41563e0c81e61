// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cell: one workload on one device under one scheduler with one seed, run and measured; and the
//! same for each of its jobs alone, which is what the others are compared with.
//!
//! Each run is bounded in virtual time: it settles, then it is measured.
//!
//! | device | settles | measured |
//! |---|---|---|
//! | rotates | 20 s | 120 s |
//! | takes one command at a time | 5 s | 20 s |
//! | takes up to 64 | 1 s | 3 s |
//! | takes more | 0.3 s | 1 s |
//!
//! Sixteen who take turns of 100 ms each have had 75 by then; before shares are judged a window
//! should hold a hundred (G3). W10, whose first seconds are what counts, settles for 10 s and is
//! measured for 40 s on what rotates.
//!
//! Files are a 32nd of the device, at most 8 GiB, and lie far from each other.

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::run::RunResult;

use super::figures::{Got, fairness, incentive, throughput};
use super::tally::{Client, Tally};
use super::workloads::{Workload, is_client};
use crate::Failure;
use crate::choice::SchedulerChoice;
use crate::setting::{Setting, SettingOptions};
use crate::target::Target;

/// No file is larger.
const FILE_MAX: u64 = 8 << 30;
/// Paced clients of flash send so many times what those of disks do.
const FLASH_PACE: u64 = 10;
/// A paced client that keeps so much of its pace has what it wants.
const CONTENT: f64 = 0.98;
/// Weight of who has none, as of a new cgroup.
const WEIGHT: u32 = 100;

/// How long a run settles, and how long it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) settle: Nanos,
    pub(super) measure: Nanos,
}

impl Times {
    /// Those of a workload on a device.
    pub(super) fn of(facts: &DeviceFacts, workload: &Workload) -> Times {
        let (settle, measure) = match (facts.rotational, facts.depth) {
            (true, _) if workload.counts_beginning() => (10_000, 40_000),
            (true, _) => (20_000, 120_000),
            (false, ..=1) => (5000, 20_000),
            (false, ..=64) => (1000, 3000),
            (false, _) => (300, 1000),
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
    /// The 99.9th percentile of its latencies, ns; 0 if it did nothing.
    pub(super) tail: f64,
    got: Got,
}

/// One entity of a cell: a process, or all of a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entity {
    pub(super) name: String,
    pub(super) weight: f64,
    pub(super) share: f64,
    pub(super) demand: f64,
    pub(super) rate: f64,
    /// Of its processes alone, one by one, summed.
    pub(super) solo: f64,
}

/// What one run of a cell gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Sum of rates by solo rates.
    pub(super) throughput: f64,
    /// Weighted max-min error, 0 to 1.
    pub(super) error: f64,
    /// Least rate by part of the weights times solo rate.
    pub(super) incentive: f64,
    /// 99.9th percentile of the interactive client by its own alone.
    pub(super) tail: Option<f64>,
    /// Sum of rates by solo rates of all the others, beside an interactive client.
    pub(super) bulk: Option<f64>,
    pub(super) entities: Vec<Entity>,
}

/// The jobs of a workload, as they are on a device.
pub(super) fn jobs(
    workload: &Workload,
    facts: &DeviceFacts,
    times: Times,
) -> Result<Vec<Job>, Failure> {
    let (name, text) = workload.file;
    let bytes = (facts.capacity * 512 / 32).min(FILE_MAX) >> 20 << 20;
    let defaults = [("size".to_owned(), bytes.to_string())];
    let sections: Vec<String> = workload.sections.iter().map(|&name| name.to_owned()).collect();
    let include = |_: &str, named: &str| Err(format!("{named}: a job file of the program's own"));
    let parsed = parse(&[Source { name, text }], &defaults, &sections, &|_| None, &include);
    let mut jobs = parsed
        .map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::Request(lines.join("; "))
        })?
        .jobs;
    for job in &mut jobs {
        job.runtime = Some(times.measure);
        // A job file without a runtime loses it.
        job.time_based = true;
        if job.start_delay.0 > Nanos::ZERO {
            // It begins where measuring does.
            job.start_delay = (times.settle, times.settle);
        } else {
            job.ramp_time = times.settle;
        }
        if !facts.rotational {
            job.rate_iops = job.rate_iops.map(|rate| rate.map(|rate| FLASH_PACE * rate));
        }
    }
    Ok(jobs)
}

/// The job as it runs alone: one clone, from the beginning.
pub(super) fn alone(job: &Job, times: Times) -> Job {
    Job {
        numjobs: 1,
        start_delay: (Nanos::ZERO, Nanos::ZERO),
        ramp_time: times.settle,
        cgroup: None,
        cgroup_weight: None,
        ..job.clone()
    }
}

/// The setting of a run.
pub(super) fn setting(device: &str, seed: u64) -> Result<Setting, Failure> {
    let options = SettingOptions {
        device: vec![device.to_owned()],
        // As much as an elevator may hold: what does not get into it, it cannot order.
        set: vec!["nr_requests=256".to_owned()],
        seed,
        placement: "far".to_owned(),
        ..SettingOptions::plain()
    };
    Setting::new(&options, None)
}

/// Does a run, and tells what each process had in the measured time.
pub(super) fn run(
    jobs: &[Job],
    setting: &Setting,
    device: &Target,
    scheduler: &SchedulerChoice,
    times: Times,
) -> Result<Vec<Process>, Failure> {
    let clients: usize = jobs.iter().map(|job| job.numjobs as usize).sum();
    let tally = Tally::new(times.settle, times.settle + times.measure, clients);
    let (result, mut tally, _) = setting.run(jobs, device, scheduler, tally, &mut |_| {})?;
    if let Some(failed) = result.processes.iter().find(|process| process.error != 0) {
        let name = &jobs[failed.job].name;
        return Err(Failure::Job(format!("job {name} failed with errno {}", failed.error)));
    }
    let clients = tally.close();
    Ok(processes(jobs, &result, clients, times))
}

fn processes(jobs: &[Job], result: &RunResult, clients: &[Client], times: Times) -> Vec<Process> {
    let seconds = as_f64(times.measure.0) / 1e9;
    let each = result.processes.iter().zip(clients).map(|(process, client)| {
        let job = &jobs[process.job];
        let all = process.statistics.mixed();
        let tail = all.total_histogram().percentile(99.9).min(all.total().max().0);
        let paces = job.rate_iops.iter().flatten().next();
        let keeps = |&rate: &u64| as_f64(client.requests) >= CONTENT * as_f64(rate) * seconds;
        let got = Got {
            weight: f64::from(job.cgroup_weight.unwrap_or(WEIGHT)),
            served: as_f64(client.served.0),
            waiting: as_f64(client.waiting) / as_f64(times.measure.0),
            in_flight: as_f64(client.in_flight) / as_f64(times.measure.0),
            content: paces.is_some_and(keeps),
        };
        let rate = as_f64(client.bytes) / seconds;
        Process { job: process.job, rate, tail: as_f64(tail), got }
    });
    each.collect()
}

/// The figures of a cell: `solos` is what each job did alone. Where bytes tell what the device
/// does (`in_bytes`) the throughput is theirs, in units of what the first job does alone.
pub(super) fn figures(
    in_bytes: bool,
    jobs: &[Job],
    processes: &[Process],
    solos: &[&Process],
) -> Measured {
    let rates: Vec<(f64, f64)> =
        processes.iter().map(|process| (process.rate, solos[process.job].rate)).collect();
    let client = jobs.iter().position(|job| is_client(&job.name));
    let beside = |client: usize| {
        let others = processes.iter().zip(&rates).filter(|(process, _)| process.job != client);
        throughput(&others.map(|(_, rate)| *rate).collect::<Vec<_>>())
    };
    let tail = |client: usize| {
        let own = processes.iter().filter(|process| process.job == client);
        let longest = own.map(|process| process.tail).fold(0.0, f64::max);
        (longest > 0.0 && solos[client].tail > 0.0).then(|| longest / solos[client].tail)
    };
    let members = members(jobs, processes);
    let all: Vec<Got> = members.iter().map(|(_, members)| together(processes, members)).collect();
    let unit = |&(rate, solo): &(f64, f64)| (rate, if in_bytes { solos[0].rate } else { solo });
    let fair = fairness(&all);
    let weights: f64 = all.iter().map(|got| got.weight).sum();
    let mut parts = Vec::new();
    let mut entities = Vec::new();
    for (nth, (name, members)) in members.into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a number of processes")]
        let part = all[nth].weight / weights / members.len() as f64;
        parts.extend(members.iter().map(|&place| (rates[place].0, rates[place].1, part)));
        entities.push(Entity {
            name,
            weight: all[nth].weight,
            share: fair.shares[nth],
            demand: fair.demands[nth],
            rate: members.iter().map(|&place| rates[place].0).sum(),
            solo: members.iter().map(|&place| rates[place].1).sum(),
        });
    }
    Measured {
        throughput: throughput(&rates.iter().map(unit).collect::<Vec<_>>()),
        error: fair.error,
        incentive: incentive(&parts),
        tail: client.and_then(tail),
        bulk: client.map(beside),
        entities,
    }
}

/// The entities that share the device, with the places of their processes: a cgroup is one, and so
/// is each process outside of cgroups.
fn members(jobs: &[Job], processes: &[Process]) -> Vec<(String, Vec<usize>)> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for (place, process) in processes.iter().enumerate() {
        let job = &jobs[process.job];
        let known = |(name, _): &(String, Vec<usize>)| job.cgroup.as_ref() == Some(name);
        match found.iter().position(known) {
            Some(nth) => found[nth].1.push(place),
            None => {
                let name = job.cgroup.as_ref().unwrap_or(&job.name).clone();
                found.push((name, vec![place]));
            }
        }
    }
    found
}

fn together(processes: &[Process], members: &[usize]) -> Got {
    let mut all = processes[members[0]].got;
    for &place in &members[1..] {
        let got = processes[place].got;
        all.served += got.served;
        all.waiting += got.waiting;
        all.in_flight += got.in_flight;
        all.content &= got.content;
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a report's figure")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

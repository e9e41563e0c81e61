// SPDX-License-Identifier: MIT OR Apache-2.0
//! Max-min: how far the worst-off client is from its fair share, and what share each client has.
//!
//! Shares of device time say little where a client asks for less than its share: five readers of
//! depth 1 on a drive that serves 32 get all they ask for, whatever they weigh. The scoreboard's
//! error counts what each would have had if none of its requests had waited; here it is given for
//! the jobs of an experiment, if all of them are measured between the same two instants.
//!
//! ```text
//! levels 7, 6 … 3   weigh 25, 50 … 125        (8 - level) / 4 of the default weight
//! cgroup=w1         all of it is one client, with its configured weight
//! ```

use paternoster_core::Nanos;
use paternoster_workload::fio::job::Job;
use paternoster_workload::run::RunResult;

use super::experiment::Measured;
use crate::scoreboard::figures::{Got, fairness};
use crate::scoreboard::tally::{Client, Tally};

/// The weight at level 4, or of a new cgroup.
const WEIGHT: u32 = 100;
/// The default level.
const LEVEL: u32 = 4;

/// Counts between the two instants; nothing if jobs are measured at different times.
pub(super) fn tally(jobs: &[Job]) -> Tally {
    let clients = jobs.iter().map(|job| job.clones.numjobs as usize).sum();
    let (begin, end) = window(jobs).unwrap_or_default();
    Tally::new(begin, end, clients)
}

/// When all of them are measured.
fn window(jobs: &[Job]) -> Option<(Nanos, Nanos)> {
    let first = jobs.first()?;
    let end = first.time.ramp_time + first.time.runtime?;
    let alike = |job: &Job| {
        (job.time.ramp_time, job.time.runtime) == (first.time.ramp_time, first.time.runtime)
            && job.time.start_delay.1 == Nanos::ZERO
    };
    jobs.iter().all(alike).then_some((first.time.ramp_time, end))
}

/// The error; and the share of each cgroup, of device time and of bytes.
pub(super) fn tell(jobs: &[Job], result: &RunResult, tally: &mut Tally, measured: &mut Measured) {
    // After a stonewall others have gone before.
    if window(jobs).is_none() || result.sections.len() != 1 {
        return;
    }
    let (mut names, mut all): (Vec<Option<&str>>, Vec<Got>) = (Vec::new(), Vec::new());
    let mut bytes: Vec<u64> = Vec::new();
    for (process, client) in result.processes.iter().zip(tally.close()) {
        let job = &jobs[process.job];
        let (group, own) = (job.priority.cgroup.as_deref(), got(job, client));
        match names.iter().position(|name| name.is_some() && *name == group) {
            Some(place) => {
                add(&mut all[place], own);
                bytes[place] += client.bytes;
            }
            None => {
                names.push(group);
                all.push(own);
                bytes.push(client.bytes);
            }
        }
    }
    let found = fairness(&all);
    measured.numbers.insert("max-min error %".to_owned(), found.error * 100.0);
    let all_bytes = as_f64(bytes.iter().sum());
    for ((name, share), own) in names.iter().zip(&found.shares).zip(bytes) {
        let Some(name) = name else { continue };
        let numbers = &mut measured.numbers;
        numbers.insert(format!("group {name} share %"), share * 100.0);
        numbers.insert(format!("group {name} share of bytes %"), as_f64(own) / all_bytes * 100.0);
    }
}

fn got(job: &Job, client: &Client) -> Got {
    let level = job.priority.prio.map_or(LEVEL, u32::from).min(7);
    let weight = match job.priority.cgroup {
        Some(_) => job.priority.cgroup_weight.unwrap_or(WEIGHT),
        None => WEIGHT * (8 - level) / (8 - LEVEL),
    };
    Got {
        weight: f64::from(weight),
        served: as_f64(client.served.0),
        waiting: as_f64(client.waiting),
        in_flight: as_f64(client.in_flight),
        content: false,
    }
}

fn add(sum: &mut Got, own: Got) {
    sum.served += own.served;
    sum.waiting += own.waiting;
    sum.in_flight += own.in_flight;
}

#[expect(clippy::cast_precision_loss, reason = "a report's figure")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::super::experiment::{Device, FioJobs, Run, Workload};
    use super::super::measure::measure;

    const JOB: &str = "[global]\nrw=randread\nsize=64m\ndirect=1\ntime_based\nruntime=20\n\
                       [a]\nbs=4k\ncgroup=small\n[b]\nbs=64k\ncgroup=large\n";

    fn measured(text: &'static str, number: &str) -> Option<f64> {
        let jobs = FioJobs::new("jobs/test.fio", text);
        let device = Device::Named("flash-card-2010");
        let run = Run::new("test", Workload::Fio(jobs), device, "noop");
        measure(&run).expect("it runs").numbers.get(number).copied()
    }

    /// Is the error the arithmetic one? 1116 + 4 * 46.04 = 1300 us and 1116 + 64 * 46.04 = 4063 us
    /// in turns: shares 24.2 and 75.8 %. The small one always has a request waiting or in service;
    /// it is owed a half and misses 1 - 24.2 / 50 = 51.5 %.
    #[test]
    fn turns_of_different_sizes() {
        let error = measured(JOB, "max-min error %").expect("an error");
        assert!((error - 51.5).abs() < 1.0, "{error}");
        let share = measured(JOB, "group small share %").expect("a share");
        assert!((share - 24.2).abs() < 0.5, "{share}");
        // As many requests, of 4 and of 64 KiB: 1 / 17.
        let share = measured(JOB, "group small share of bytes %").expect("a share");
        assert!((share - 5.9).abs() < 0.1, "{share}");
    }

    /// Is nothing reported for jobs that are measured one after the other, or for as long as they
    /// take?
    #[test]
    fn other_instants_are_not_compared() {
        const WALL: &str = "[global]\nrw=randread\nsize=64m\ndirect=1\ntime_based\nruntime=1\n\
                            [a]\n[b]\nstonewall\n";
        const SHORT: &str = "[a]\nrw=randread\nsize=1m\ndirect=1\nnumber_ios=9\n";
        assert_eq!([WALL, SHORT].map(|text| measured(text, "max-min error %")), [None, None]);
    }
}

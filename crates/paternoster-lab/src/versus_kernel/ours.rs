// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ours: the same job in virtual time, on the same model, with the same path costs and attributes.
//!
//! | of the kernel | ours |
//! |---|---|
//! | tags of the loop driver | the device's depth, and one more that waits (`way.rs`) |
//! | `nr_requests`, `max_sectors_kb` | the same; without a scheduler requests are tags |
//! | `iosched/*` as sysfs says it | the same, where ours has it; otherwise it is reported |
//! | length of a tick, from bfq's `timeout_sync` | `hz` |
//!
//! The kernel shows bfq's timeout of an eighth of a second in whole ticks, so its tick can be
//! derived from it: at 250 Hz 31 ticks, 124 ms; at 100 Hz 12, 120 ms; at 300 Hz 37, 123 ms; at 1000
//! Hz 125.

use paternoster_core::{Nanos, NoObserver};
use paternoster_frame::Failure;
use paternoster_frame::choice::{self, SchedulerChoice};
use paternoster_frame::setting::{START_JITTER, time};
use paternoster_sim::{Description, Simulated};
use paternoster_workload::Queue;
use paternoster_workload::direction::Direction;
use paternoster_workload::fio::job::Job;
use paternoster_workload::run::{NoWatcher, RunResult, Settings};

use super::fio::Got;
use super::loop_device::Attributes;
use super::way::{Behind, Costs};

/// The settings of our run.
#[derive(Debug, Clone)]
pub(super) struct Same<'a> {
    /// With as many tags as the loop driver.
    pub(super) device: &'a Description,
    pub(super) scheduler: &'a str,
    /// The attributes that the kernel has set.
    pub(super) attributes: &'a Attributes,
    /// Ticks a second; 0 if they are not known.
    pub(super) hz: u32,
    pub(super) costs: Costs,
}

impl Same<'_> {
    /// Whether a scheduler is asked for one request more than there are tags.
    fn peeks(&self) -> bool {
        self.scheduler != "none"
    }
}

/// The kernel's numbers for ours: what is set, and what ours lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Mapped {
    pub(super) set: Vec<(String, String)>,
    pub(super) unknown: Vec<String>,
}

/// What each clone of `jobs` got; `seed` is for path delays, and for when processes start.
///
/// # Errors
/// Of the job, or an attribute's value that ours does not take.
pub(super) fn run(jobs: &[Job], same: &Same<'_>, seed: u64) -> Result<(Vec<Got>, Mapped), Failure> {
    let choice = SchedulerChoice::parse(same.scheduler)?;
    let peeks = same.peeks();
    let tags = same.device.facts.depth;
    let mut description = same.device.clone();
    // Waiting commands are not in the device; its own limit must merely not be reached.
    description.facts.depth = Behind::depth(tags, peeks);
    description.facts.max_sectors = same.attributes.max_sectors_kb.saturating_mul(2);
    let mapped = map(&choice, &description, same)?;
    let model = Behind::new(description.model(), same.costs, (tags, peeks), seed);
    let submit_cost = same.costs.submit.max(Nanos(1));
    let start_jitter = time("start jitter", START_JITTER, Nanos::from_micros(1))?;
    let settings = Settings { seed, submit_cost, start_jitter, reaps: true, ..Settings::default() };
    let prepare = |queue: &mut Queue| choice.prepare(queue, &mapped.set);
    let mut device = Simulated::new(model);
    let (result, ..) = paternoster_workload::run(
        jobs,
        &settings,
        &mut device,
        choice.make(),
        NoObserver,
        prepare,
        &mut NoWatcher,
    )?;
    Ok((got(jobs, &result)?, mapped))
}

/// The kernel's numbers by our names.
fn map(choice: &SchedulerChoice, device: &Description, same: &Same<'_>) -> Result<Mapped, Failure> {
    let mut known = Vec::new();
    let queue = choice::queue(&choice.name, device.facts, &[])?;
    queue.for_each_attribute(|path, _, _| {
        known.extend(path.strip_prefix("iosched/").map(str::to_owned));
    });
    let mut mapped = Mapped::default();
    // sysfs still shows what it showed before the tags were shrunk.
    let most = if same.peeks() { u32::MAX } else { same.device.facts.depth };
    let nr_requests = same.attributes.nr_requests.min(most);
    mapped.set.push(("nr_requests".to_owned(), nr_requests.to_string()));
    if same.hz > 0 {
        mapped.set.push(("hz".to_owned(), same.hz.to_string()));
    }
    let all = &same.attributes.iosched;
    for (name, value) in all {
        // The same time in whole ms, which would round the finer one.
        let finer = format!("{name}_us");
        if all.iter().any(|(other, _)| *other == finer) {
            continue;
        }
        if known.contains(name) {
            mapped.set.push((name.clone(), value.clone()));
        } else {
            mapped.unknown.push(format!("{name}={value}"));
        }
    }
    Ok(mapped)
}

/// Ticks a second of a kernel whose bfq has this timeout by default; 0 if that is unknown.
pub(super) fn hz(timeout_sync_ms: &str) -> u32 {
    match timeout_sync_ms.trim() {
        "120" => 100,
        "124" => 250,
        "123" => 300,
        "125" => 1000,
        _ => 0,
    }
}

fn got(jobs: &[Job], result: &RunResult) -> Result<Vec<Got>, Failure> {
    let each = result.processes.iter().map(|process| {
        let name = jobs[process.job].name.clone();
        if process.error != 0 {
            let message = format!("ours: job {name} failed with errno {}", process.error);
            return Err(Failure::Job(message));
        }
        let ways = Direction::ALL.map(|direction| process.statistics.direction(direction));
        #[expect(clippy::cast_precision_loss, reason = "printed figures")]
        let percentile = |p: f64| {
            let most = ways.iter().max_by_key(|way| way.ios());
            most.map_or(0.0, |way| way.total_histogram().percentile(p) as f64)
        };
        let most = ways.iter().max_by_key(|way| way.ios());
        #[expect(clippy::cast_precision_loss, reason = "printed figures")]
        let rate = ways.iter().map(|way| way.bytes_per_second() as f64).sum();
        Ok(Got {
            name,
            rate,
            iops: ways.iter().map(|way| way.ios_per_second()).sum(),
            mean: most.map_or(0.0, |way| way.total().mean()),
            p50: percentile(50.0),
            p99: percentile(99.0),
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use paternoster_workload::fio::jobfile::{Source, parse};

    use super::*;

    const DEVICE: &str = include_str!("../../../paternoster/tests/millisecond.toml");

    fn jobs(text: &str) -> Vec<Job> {
        let source = Source { name: "jobs", text };
        parse(&[source], &[], &[], &|_| None, &|_, _| Err(String::new())).unwrap().jobs
    }

    fn attributes(iosched: &[(&str, &str)]) -> Attributes {
        let iosched = iosched.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Attributes { nr_requests: 64, max_sectors_kb: 1280, iosched }
    }

    /// Is a reader as fast as device, path and its own time say? 1 ms + 60 us + 40 us: 909 reads a
    /// second in a row, so that 4 KiB each are 3.72 MB/s; a latency of 1.06 ms on average.
    #[test]
    fn one_reader_is_as_fast_as_the_way() {
        let device = Description::parse("millisecond", DEVICE).unwrap();
        let attributes = attributes(&[]);
        let micros = Nanos::from_micros;
        let costs = Costs { command: micros(60), kib: Nanos::ZERO, submit: micros(40) };
        let same =
            Same { device: &device, scheduler: "none", attributes: &attributes, hz: 0, costs };
        let jobs = jobs("[a]\nrw=randread\nbs=4k\nsize=8m\ndirect=1\n");
        let (got, _) = run(&jobs, &same, 0).unwrap();
        let [only] = got.as_slice() else { panic!("{got:?}") };
        assert!((only.iops / 909.1 - 1.0).abs() < 0.01, "{only:?}");
        assert!((only.rate / 3_723_636.0 - 1.0).abs() < 0.01, "{only:?}");
        assert!((only.mean / 1_060_000.0 - 1.0).abs() < 0.01, "{only:?}");
    }

    /// Are the kernel's numbers taken by their names, the finer of two, and reported where ours
    /// lacks them? And refused with their name where ours does not take them?
    #[test]
    fn numbers_are_the_kernels() {
        let device = Description::parse("millisecond", DEVICE).unwrap();
        let choice = SchedulerChoice::parse("bfq").unwrap();
        let kernels = attributes(&[
            ("low_latency", "0"),
            ("new_thing", "7"),
            ("slice_idle", "8"),
            ("slice_idle_us", "8300"),
        ]);
        let mut same = Same {
            device: &device,
            scheduler: "bfq",
            attributes: &kernels,
            hz: 250,
            costs: Costs::default(),
        };
        let mapped = map(&choice, &device, &same).unwrap();
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let expected =
            [("nr_requests", "64"), ("hz", "250"), ("low_latency", "0"), ("slice_idle_us", "8300")];
        assert_eq!(mapped.set, expected.map(pair));
        assert_eq!(mapped.unknown, ["new_thing=7"]);
        let wrong = attributes(&[("low_latency", "maybe")]);
        same.attributes = &wrong;
        match run(&jobs("[a]\nrw=read\nsize=1m\ndirect=1\n"), &same, 0) {
            Err(Failure::Request(message)) => assert!(message.contains("low_latency=maybe")),
            other => panic!("{other:?}"),
        }
    }

    /// Is the tick read from the timeout? An eighth of a second in whole ticks of 4 ms is 31: 124.
    #[test]
    fn ticks_are_read_from_a_timeout() {
        assert_eq!(["124", "125", "120", "123", "99"].map(hz), [250, 1000, 100, 300, 0]);
    }
}

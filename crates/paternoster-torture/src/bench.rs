// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bench: runs a load under a scheduler in virtual time, and says what each client got.
//!
//! A run is sampled `LOOKS` times. A client with an I/O that ended between two samples has not
//! waited; one with none has waited that long. What it got is counted after the first third of the
//! run, so that start-up effects are not taken for a share.
//!
//! ```text
//! |   settles   |           counted           |
//! 0            1/3                          runtime      a client that begins later is not counted
//! ```
//!
//! What a kind gets alone, and what the device does when full of that kind, is measured once and
//! remembered.

use std::collections::BTreeMap;

use paternoster_core::{Nanos, RequestQueue};
use paternoster_sim::Simulated;
use paternoster_sim::schedulers;

use crate::load::{Device, Engine, Kind, Load};
use paternoster_workload::direction::Direction;
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::meter::EventHash;
use paternoster_workload::page_cache::HostSettings;
use paternoster_workload::run::{RunError, RunResult, Settings, Watcher, run};

/// Samples of a run.
const LOOKS: u64 = 200;
/// The sample from which rates are counted.
const SETTLED: u64 = LOOKS / 3;
/// A run that lasts this many times its runtime is stopped: its clients wait forever.
const FAR: u64 = 100;
/// This many at a time, or twice its depth, fill a device.
const FULL: u32 = 64;
const FULL_MOST: u32 = 256;
/// This many I/Os are enough for a rate.
const ENOUGH: u64 = 100;
/// Where a write buffer has to be full first: a rate is steady once a run of this many times the
/// length has at least nine parts in ten of it; runs are no longer than this many seconds.
const LONGER: f64 = 4.0;
const STEADY: f64 = 0.9;
const LONGEST: f64 = 20.0;
/// MiB of memory in front of the device: files do not fit, so reads go to the device.
pub const MEMORY_MIB: u64 = 64;

/// What one client got.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Got {
    /// I/Os that ended.
    pub ios: u64,
    /// Counted I/Os per second.
    pub rate: f64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Longest wait of the client, in seconds.
    pub waited: f64,
    /// The part of it asleep for a request.
    pub asleep: f64,
    /// The sum of its I/Os' times, in seconds.
    pub took: f64,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// Figures by client.
    pub clients: Vec<Got>,
    /// Seconds until the last client had ended.
    pub ended: f64,
    /// Seconds in which the device had something to do.
    pub busy: f64,
    /// A digest of all steps.
    pub digest: u64,
}

/// Runs loads, and remembers what kinds get alone.
#[derive(Debug, Default)]
pub struct Bench {
    alone: BTreeMap<(String, Kind), f64>,
    /// Says whether runs should end now.
    stops: Option<fn() -> bool>,
    /// I/Os that were simulated.
    pub ios: u64,
}

struct Looks {
    stops: Option<fn() -> bool>,
    every: f64,
    looked: u64,
    counts: Vec<u64>,
    settled: Vec<u64>,
    since: Vec<f64>,
    longest: Vec<f64>,
}

impl Watcher for Looks {
    fn status(&mut self, result: &RunResult) {
        self.looked += 1;
        for (place, process) in result.processes.iter().enumerate() {
            let ios = process.statistics.ios();
            if ios > self.counts[place] {
                (self.counts[place], self.since[place]) = (ios, 0.0);
            } else {
                self.since[place] += self.every;
                self.longest[place] = self.longest[place].max(self.since[place]);
            }
            if self.looked == SETTLED {
                self.settled[place] = ios;
            }
        }
    }

    fn stops(&mut self) -> bool {
        self.looked > FAR * LOOKS || self.stops.is_some_and(|stops| stops())
    }
}

impl Bench {
    /// A bench whose runs end early, with partial results, as soon as `stops` says so.
    #[must_use]
    pub fn ended_by(stops: fn() -> bool) -> Bench {
        Bench { stops: Some(stops), ..Bench::default() }
    }

    /// What clients of `load` get under `scheduler`, with its attributes, in `seconds`.
    ///
    /// # Panics
    /// If the load is invalid, or its run gets stuck: the message has the load.
    #[expect(clippy::cast_precision_loss, reason = "counts and times of a run")]
    pub fn run(&mut self, load: &Load, scheduler: &str, seconds: f64) -> Given {
        let device = &load.device.description;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
        let runtime_ms = (seconds * 1000.0) as u64;
        let text = load.job_file(runtime_ms);
        let include = |_: &str, named: &str| Err(format!("{named}: nothing is included"));
        let source = [Source { name: "jobs", text: &text }];
        let jobs = parse(&source, &[], &[], &|_| None, &include);
        let jobs = jobs.unwrap_or_else(|problems| panic!("{problems:?}\n{text}")).jobs;
        let settings = Settings {
            seed: load.seed,
            submit_cost: device.submit_cost,
            status_interval: Some(Nanos(runtime_ms * 1_000_000 / LOOKS)),
            host: HostSettings { memory: MEMORY_MIB << 20, ..HostSettings::default() },
            ..Settings::default()
        };
        let clients = load.clients.len();
        let mut looks = Looks {
            stops: self.stops,
            every: seconds / LOOKS as f64,
            looked: 0,
            counts: vec![0; clients],
            settled: vec![0; clients],
            since: vec![0.0; clients],
            longest: vec![0.0; clients],
        };
        let (name, attributes) = scheduler.split_once(':').unwrap_or((scheduler, ""));
        let elevator = schedulers::by_name(name).unwrap_or_else(|| panic!("no scheduler `{name}`"));
        let prepare = |queue: &mut RequestQueue<_>| {
            for (name, value) in attributes.split(',').filter_map(|text| text.split_once('=')) {
                let done = queue.set_attribute(Nanos::ZERO, name, value);
                done.unwrap_or_else(|error| panic!("{name}={value}: {error}"));
            }
            Ok(())
        };
        let mut model = Simulated::new(device.model());
        let watch = EventHash::default();
        let done: Result<_, RunError> =
            run(&jobs, &settings, &mut model, elevator, watch, prepare, &mut looks);
        let (result, watch, _) =
            done.unwrap_or_else(|error| panic!("{}: {scheduler}: {error}", load.tell()));
        let counted = seconds * (LOOKS - SETTLED) as f64 / LOOKS as f64;
        let seconds_of = |time: Nanos| time.0 as f64 / 1e9;
        let got = |place: usize| {
            let all = Direction::ALL.map(|one| result.processes[place].statistics.direction(one));
            let longest = all.map(|one| one.total().max()).into_iter().max();
            let asleep = all.map(|one| one.submission().max()).into_iter().max();
            let took = |one: &paternoster_workload::statistics::DirectionStatistics| {
                if one.ios() == 0 { 0.0 } else { one.total().mean() * one.ios() as f64 / 1e9 }
            };
            // What ended after the runtime does not count beyond the last sample.
            let (ios, settled) = (looks.counts[place], looks.settled[place]);
            Got {
                ios,
                rate: (ios - settled) as f64 / counted,
                bytes: all.iter().map(|one| one.bytes()).sum(),
                waited: looks.longest[place].max(seconds_of(longest.unwrap_or(Nanos::ZERO))),
                asleep: seconds_of(asleep.unwrap_or(Nanos::ZERO)),
                took: all.iter().map(|one| took(one)).sum(),
            }
        };
        let given = Given {
            clients: (0..clients).map(got).collect(),
            ended: seconds_of(result.ended),
            busy: seconds_of(result.device.busy),
            digest: watch.digest(),
        };
        self.ios += looks.counts.iter().sum::<u64>();
        given
    }

    /// I/Os a second of such a client alone, in steady state.
    pub fn alone(&mut self, device: &Device, kind: Kind) -> f64 {
        let key = (device.name().to_owned(), kind);
        if let Some(&rate) = self.alone.get(&key) {
            return rate;
        }
        let facts = &device.description.facts;
        let is_cached = facts.rotational && facts.write_cache && kind.rw != "randread";
        let spans: &[f64] = match (facts.rotational, facts.depth) {
            // A disk's cache has to be full first.
            _ if is_cached => &[60.0],
            (true, _) | (false, ..=1) => &[1.0, 20.0],
            (false, ..=32) => &[1.0],
            (false, _) => &[0.1],
        };
        let (mut rate, mut span) = (0.0, 0.0);
        for &seconds in spans {
            let ios;
            (rate, ios) = self.rate_in(device, kind, seconds);
            span = seconds;
            if ios >= ENOUGH {
                break;
            }
        }
        while kind.writes() && !is_cached && LONGER * span <= LONGEST {
            span *= LONGER;
            let before = rate;
            (rate, _) = self.rate_in(device, kind, span);
            if rate >= STEADY * before {
                break;
            }
        }
        self.alone.insert(key, rate);
        rate
    }

    /// I/Os a second of such a client alone in a run of this length, and how many it did.
    fn rate_in(&mut self, device: &Device, kind: Kind, seconds: f64) -> (f64, u64) {
        let got = self.run(&Load::alone(device, kind), "noop", seconds).clients[0];
        (got.rate.max(1.0 / seconds), got.ios)
    }

    /// I/Os a second of such requests when the device is full of them.
    pub fn saturated(&mut self, device: &Device, kind: Kind) -> f64 {
        if kind.engine == Engine::Buffered {
            return self.alone(device, Kind { think_us: 0, rate: 0, fsync: 0, ..kind });
        }
        let depth = (2 * device.description.facts.depth).clamp(FULL, FULL_MOST);
        let full = Kind::greedy(Engine::IoUring, kind.rw, kind.block_kib, depth);
        self.alone(device, full).max(self.alone(device, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_sim::Description;

    /// A drive with eight dies that program 16 KiB in 2.9 ms, and much to copy for each.
    const SLOW: &str = r#"
name = "slow"
model = "ssd"
summary = "slow"
valid = "a test"
[facts]
write_cache = { value = true, source = "drawn" }
flush_queueable = { value = false, source = "drawn" }
fua = { value = false, source = "drawn" }
capacity = { value = "500 GB", source = "drawn" }
depth = { value = 64, source = "drawn" }
rotational = { value = false, source = "drawn" }
[ssd]
channels = { value = 4, source = "drawn" }
dies = { value = 8, source = "drawn" }
page = { value = "16 KiB", source = "drawn" }
read = { value = ["606 us"], source = "drawn" }
program = { value = "2919 us", source = "drawn" }
channel_rate = { value = "200 MB/s", source = "drawn" }
link_rate = { value = "300 MB/s", source = "drawn" }
link_command = { value = "3 us", source = "drawn" }
link_duplex = { value = false, source = "drawn" }
controller = { value = "20 us", source = "drawn" }
buffer = { value = "32 MB", source = "drawn" }
amplification = { value = "10.5", source = "drawn" }
power_loss_protection = { value = true, source = "drawn" }
flush = { value = "6 ms", source = "drawn" }
[host]
submit_cost = { value = "3 us", source = "drawn" }
"#;

    /// Is a writer's rate that with a full write buffer? In the first 0.1 s 32 MB go at the link's
    /// 300 MB/s; later 8 dies program 16 KiB in 2.919 ms, and 10.5 times for each write: 261/s (and
    /// a tenth more, as it ends a run before it is quite steady).
    #[test]
    fn a_rate_is_that_with_a_full_write_buffer() {
        let description = Description::parse("slow", SLOW).expect("it is right");
        let (mut bench, device) = (Bench::default(), Device { description, file: None });
        let kind = Kind::greedy(Engine::IoUring, "randwrite", 16, 128);
        let (first, _) = bench.rate_in(&device, kind, 0.1);
        assert!(first > 10_000.0, "{first}");
        let alone = bench.alone(&device, kind);
        assert!((250.0..=300.0).contains(&alone), "{alone}");
    }
}

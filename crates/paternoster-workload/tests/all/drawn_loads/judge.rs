// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judge: what a load gave under a scheduler, and whether a client of it was starved.
//!
//! A client waits from when it asks to when that has ended; while nothing of it ends it waits, too,
//! to the end of the run. Its bound is the longest of
//!
//! ```text
//! 1 s
//! 10 * what noop made it wait
//!  3 * depth / (least part of it * its rate alone)      least part: min(1/n, w_i/W)
//! ```

use std::collections::BTreeMap;

use paternoster::{Nanos, NoObserver, RequestQueue, elevators};
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::page_cache::HostSettings;
use paternoster_workload::{Direction, RunError, RunResult, Settings, Watcher, run};

use super::draw::{Client, Engine, Kind, Load};
use crate::common::jobs_of;

/// The bound is never less.
const ONE_SECOND: f64 = 1.0;
/// Times what noop makes a client wait.
const NOOP_TIMES: f64 = 10.0;
/// Times what its entitled rate implies.
const ENTITLED_TIMES: f64 = 3.0;
/// Looks at a run.
const LOOKS: u64 = 200;
/// A run is as long as its longest bound, and this much of it more.
const LONGER: f64 = 1.25;
/// But not longer.
const LONGEST: f64 = 60.0;
/// Clients alike get at most so many times what another gets ...
const UNEQUAL: u64 = 3;
/// ... if one of them got so much, and noop gave at most so many times.
const ENOUGH: u64 = 60;
const NOOP_UNEQUAL: u64 = 2;

/// What one client got.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Got {
    pub(super) ios: u64,
    /// Seconds that it waited at the longest.
    pub(super) waited: f64,
    /// Of that for a request.
    pub(super) asleep: f64,
}

/// What is wrong with a run.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "told in words by Debug")]
pub(super) enum Fault {
    /// A client waited so long, of so much that it may.
    Starved { place: usize, waited: f64, bound: f64 },
    /// Of clients alike one got so much, another so little.
    Unequal { place: usize, most: u64, least: u64 },
}

/// How long a load is run, how long each of its clients may wait, and what noop gave them.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) seconds: f64,
    bounds: Vec<f64>,
    noop: Vec<Got>,
}

/// Remembers what clients got alone.
#[derive(Debug, Default)]
pub(super) struct Judge {
    alone: BTreeMap<(&'static str, Kind), f64>,
    /// I/Os that were simulated.
    pub(super) ios: u64,
}

struct Looks {
    every: f64,
    counts: Vec<u64>,
    since: Vec<f64>,
    longest: Vec<f64>,
}

impl Looks {
    fn look(&mut self, result: &RunResult) {
        for (place, process) in result.processes.iter().enumerate() {
            let ios = process.statistics.ios();
            if ios > self.counts[place] {
                (self.counts[place], self.since[place]) = (ios, 0.0);
            } else {
                self.since[place] += self.every;
                self.longest[place] = self.longest[place].max(self.since[place]);
            }
        }
    }
}

impl Watcher for Looks {
    fn status(&mut self, result: &RunResult) {
        self.look(result);
    }
}

impl Judge {
    /// What clients of `load` get under `scheduler` in so many seconds.
    pub(super) fn run(&mut self, load: &Load, scheduler: &str, seconds: f64) -> Vec<Got> {
        let device = catalog::by_name(load.device).expect("it is known").expect("it is sound");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
        let runtime_ms = (seconds * 1000.0) as u64;
        let text = load.job_file(runtime_ms);
        let jobs = jobs_of(&text).expect("a sound job file").jobs;
        let settings = Settings {
            seed: load.seed,
            submit_cost: device.submit_cost,
            status_interval: Some(Nanos(runtime_ms * 1_000_000 / LOOKS)),
            // Files do not fit: what is read is read from the device.
            host: HostSettings { memory: 64 << 20, ..HostSettings::default() },
            ..Settings::default()
        };
        let clients = load.clients.len();
        let mut looks = Looks {
            every: seconds / LOOKS as f64,
            counts: vec![0; clients],
            since: vec![0.0; clients],
            longest: vec![0.0; clients],
        };
        let (name, attributes) = scheduler.split_once(':').unwrap_or((scheduler, ""));
        let elevator = elevators::by_name(name).expect("it is known");
        let prepare = |queue: &mut RequestQueue<_>| {
            for (name, value) in attributes.split(',').filter_map(|text| text.split_once('=')) {
                queue.set_attribute(Nanos::ZERO, name, value).expect("an attribute");
            }
            Ok(())
        };
        let mut model = Simulated::new(device.model());
        let done: Result<_, RunError> =
            run(&jobs, &settings, &mut model, elevator, NoObserver, prepare, &mut looks);
        let (result, ..) =
            done.unwrap_or_else(|error| panic!("{}: {scheduler}: {error}", load.tell()));
        // What ended behind the runtime is no more than its last look saw.
        let got = result.processes.iter().zip(&looks.longest).zip(&looks.counts);
        let got: Vec<Got> = got
            .map(|((process, &gap), &ios)| {
                let longest = Direction::ALL
                    .map(|direction| process.statistics.direction(direction).total().max());
                let longest = longest.into_iter().max().unwrap_or(Nanos::ZERO);
                let asleep = Direction::ALL
                    .map(|direction| process.statistics.direction(direction).submission().max());
                let asleep = asleep.into_iter().max().unwrap_or(Nanos::ZERO);
                let seconds = |time: Nanos| time.0 as f64 / 1e9;
                Got { ios, waited: gap.max(seconds(longest)), asleep: seconds(asleep) }
            })
            .collect();
        self.ios += got.iter().map(|got| got.ios).sum::<u64>();
        got
    }

    /// I/Os a second of such a client alone, while it goes on for a while.
    fn alone(&mut self, device: &'static str, kind: Kind) -> f64 {
        if let Some(&rate) = self.alone.get(&(device, kind)) {
            return rate;
        }
        let facts = catalog::by_name(device).expect("it is known").expect("it is sound").facts;
        let seconds = match (facts.rotational, facts.depth) {
            (true, _) => 20.0,
            (false, ..=32) => 1.0,
            (false, _) => 0.1,
        };
        let got = self.run(&Load::alone(device, kind), "noop", seconds);
        let rate = got[0].ios.max(1) as f64 / seconds;
        self.alone.insert((device, kind), rate);
        rate
    }

    /// By client: what its entitlement lets it wait, one second at least.
    pub(super) fn entitled(&mut self, load: &Load) -> Vec<f64> {
        let weights: u32 = load.clients.iter().map(|client| client.weight).sum();
        let equal = 1.0 / load.clients.len() as f64;
        let wait = |client: &Client| {
            let part = equal.min(f64::from(client.weight) / f64::from(weights));
            let rate = part * self.alone(load.device, client.kind);
            (ENTITLED_TIMES * f64::from(client.kind.depth) / rate).max(ONE_SECOND)
        };
        load.clients.iter().map(wait).collect()
    }

    /// How long a load is run, how long each of its clients may wait, and what they get under noop.
    pub(super) fn bounds(&mut self, load: &Load) -> Bounds {
        let entitled = self.entitled(load);
        let least = least_seconds(load.device);
        let long_enough = |bounds: &[f64]| {
            let most = bounds.iter().fold(0.0, |most: f64, &bound| most.max(bound));
            (LONGER * most).clamp(least, LONGEST)
        };
        let mut seconds = long_enough(&entitled);
        loop {
            let noop = self.run(load, "noop", seconds);
            let with_noop = |(&bound, got): (&f64, &Got)| bound.max(NOOP_TIMES * got.waited);
            let bounds: Vec<f64> = entitled.iter().zip(&noop).map(with_noop).collect();
            let more = long_enough(&bounds);
            if more <= seconds {
                return Bounds { seconds, bounds, noop };
            }
            seconds = more;
        }
    }

    /// What is wrong under `scheduler`, if anything is.
    pub(super) fn fault(
        &mut self,
        load: &Load,
        scheduler: &str,
        within: &Bounds,
    ) -> (Option<Fault>, Vec<Got>) {
        let got = self.run(load, scheduler, within.seconds);
        let longest = |(place, (got, &bound)): (usize, (&Got, &f64))| {
            let (waited, ios) = (got.waited, got.ios);
            let starves = waited > bound || ios == 0 && within.seconds > bound;
            starves.then_some(Fault::Starved { place, waited, bound })
        };
        let mut starved = got.iter().zip(&within.bounds).enumerate().filter_map(longest);
        let fault = starved.next().or_else(|| unequal(load, &got, &within.noop));
        (fault, got)
    }

    /// The least load that is at fault as `load` is: with as many clients less as can be.
    pub(super) fn shrink(&mut self, load: &Load, scheduler: &str) -> Load {
        let mut least = load.clone();
        let mut place = 0;
        while least.clients.len() > 1 && place < least.clients.len() {
            let less = least.without(place);
            let within = self.bounds(&less);
            match self.fault(&less, scheduler, &within).0 {
                Some(_) => least = less,
                None => place += 1,
            }
        }
        least
    }
}

/// Whether clients that are alike got as much as each other, where noop gives them that. Sequential
/// ones are merged, more of one than of another; what is buffered is shared out by the page cache.
fn unequal(load: &Load, got: &[Got], noop: &[Got]) -> Option<Fault> {
    let spread = |place: usize, of: &[Got]| {
        let alike = |other: &usize| load.clients[*other] == load.clients[place];
        let ios = || (0..of.len()).filter(alike).map(|other| of[other].ios);
        (ios().max().unwrap_or(0), ios().min().unwrap_or(0))
    };
    (0..got.len()).find_map(|place| {
        let client = load.clients[place];
        let (most, least) = spread(place, got);
        let (noop_most, noop_least) = spread(place, noop);
        let judged = client.kind.engine != Engine::Buffered
            && client.kind.rw.starts_with("rand")
            && most >= ENOUGH
            && noop_most <= NOOP_UNEQUAL * noop_least;
        (judged && most > UNEQUAL * least).then_some(Fault::Unequal { place, most, least })
    })
}

/// Of clients in groups alike but for weights of 1 to 3: whether each pair got between 1 to 1.5 and
/// 1 to 5. `None` if there is no such pair that the weights are of any matter to: one at a time
/// never waits long enough, and what is merged or buffered is not counted in I/Os.
pub(super) fn keeps_weights(load: &Load, got: &[Got]) -> Option<bool> {
    let pairs = || {
        let places = 0..got.len();
        places.clone().flat_map(move |light| places.clone().map(move |heavy| (light, heavy)))
    };
    let is_pair = |&(light, heavy): &(usize, usize)| {
        let (light, heavy) = (load.clients[light], load.clients[heavy]);
        let deep = light.kind.depth >= 8 && light.kind.rw.starts_with("rand");
        deep && light.grouped && light.kind == heavy.kind && light.weight * 3 == heavy.weight
    };
    let keeps = |(light, heavy): (usize, usize)| {
        let (light, heavy) = (got[light].ios, got[heavy].ios);
        2 * heavy >= 3 * light && heavy <= 5 * light
    };
    let mut pairs = pairs().filter(is_pair).map(keeps).peekable();
    pairs.peek()?;
    Some(pairs.all(|keeps| keeps))
}

/// A load is run for so long at least: turns of a disk's clients are to come round.
fn least_seconds(device: &str) -> f64 {
    let facts = catalog::by_name(device).expect("it is known").expect("it is sound").facts;
    match (facts.rotational, facts.depth) {
        (true, _) | (false, ..=1) => 12.0,
        (false, ..=64) => 3.0,
        (false, _) => 1.25,
    }
}

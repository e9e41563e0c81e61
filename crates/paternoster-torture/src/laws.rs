// SPDX-License-Identifier: MIT OR Apache-2.0
//! Laws: what must hold for any run, whatever the load.
//!
//! ```text
//! sums     bytes are I/Os times their size; the device is busy no longer than the run; what a
//!          client's I/Os took is no more than its depth allows (Little)
//! waits    no client waits longer than its bound (`bounds.rs`)
//! equals   equal clients get within a factor of three of each other, if within two under noop
//! shares   a client that is always there gets a part of what it is entitled to, if a scheduler
//!          promises shares (`entitlement.rs` of the workloads)
//! busy     a scheduler that never idles keeps the device as busy as noop does
//! repeats  the same seed takes the same steps
//! more     a client with ten times the weight gets no less
//! classes  a client of the best class that always asks gets half of what it has when those of
//!          lower classes are away, if a scheduler promises that
//! ```
//!
//! Each law says which client of a run broke it, and by how much.

use crate::bench::{Bench, Given, Got};
use crate::bounds::Bounds;
use crate::load::{Class, Client, Engine, Load};
use paternoster_workload::entitlement::{Party, Use, misses, tree};

/// One of equal clients gets at most this many times what another gets ...
const UNEQUAL: u64 = 3;
/// ... if one of them got this many I/Os, and under noop at most this many times.
const ENOUGH: u64 = 60;
const NOOP_UNEQUAL: u64 = 2;
/// A client gets at least this part of what it is entitled to.
const SHARE_LEAST: f64 = 0.25;
/// The device may be idle for this part of a run longer than under noop.
const IDLE_MORE: f64 = 0.03;
/// More weight gives at least this part of what less weight gave.
const NOT_LESS: f64 = 0.9;
/// Lower classes leave at least this part to the best one.
const CLASS_LEAST: f64 = 0.5;
/// Schedulers that promise that.
const RANK: [&str; 1] = ["paternoster"];
/// Schedulers that never idle for a client.
const NEVER_WAIT: [&str; 4] = ["noop", "mq-deadline", "kyber", "deadline"];
/// Schedulers that promise shares by weight.
const SHARE: [&str; 3] = ["paternoster", "bfq", "cfq"];
/// Allows for rounding, and for I/Os under way at the end.
const EDGE: f64 = 1.001;

/// What is wrong with a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A sum is not that of its parts.
    Sum(String),
    /// A client waited longer than its bound.
    Waited {
        /// Place of the client.
        place: usize,
        /// Seconds.
        waited: f64,
        /// The most that it may.
        bound: f64,
    },
    /// Equal clients got unequal amounts.
    Unequal {
        /// The place of one of them.
        place: usize,
        /// I/Os.
        most: u64,
        /// I/Os.
        least: u64,
    },
    /// A client missed too large a part of what it is entitled to, 0 to 1.
    Short {
        /// Place of the client.
        place: usize,
        /// The part that it did not get.
        missed: f64,
    },
    /// The device was idle for too large a part of the run, compared with noop.
    Idle {
        /// Under the scheduler.
        part: f64,
        /// Under noop.
        noop: f64,
    },
    /// The same seed took other steps.
    Differs,
    /// A client got less with more weight.
    Less {
        /// Place of the client.
        place: usize,
        /// I/Os a second before.
        before: f64,
        /// I/Os a second with ten times the weight.
        after: f64,
    },
    /// A client of the best class got too little beside lower ones.
    Outranked {
        /// Place of the client.
        place: usize,
        /// I/Os a second without clients of lower classes.
        before: f64,
        /// I/Os a second with them.
        after: f64,
    },
}

/// All laws, by name.
pub const LAWS: [&str; 8] =
    ["sums", "waits", "equals", "shares", "busy", "repeats", "more", "classes"];

impl Fault {
    /// The law that was broken.
    #[must_use]
    pub const fn law(&self) -> &'static str {
        match self {
            Fault::Sum(_) => "sums",
            Fault::Waited { .. } => "waits",
            Fault::Unequal { .. } => "equals",
            Fault::Short { .. } => "shares",
            Fault::Idle { .. } => "busy",
            Fault::Differs => "repeats",
            Fault::Less { .. } => "more",
            Fault::Outranked { .. } => "classes",
        }
    }
}

/// The name of a scheduler without its attributes.
fn plain(scheduler: &str) -> &str {
    scheduler.split(':').next().unwrap_or(scheduler)
}

/// Whether a scheduler promises shares by weight.
#[must_use]
pub fn promises_shares(scheduler: &str) -> bool {
    SHARE.iter().any(|name| plain(scheduler).starts_with(name))
}

/// What is wrong with the results of `scheduler`, if anything, judged by one run alone.
#[must_use]
pub fn broken(load: &Load, scheduler: &str, given: &Given, within: &Bounds) -> Option<Fault> {
    sums(load, given)
        .or_else(|| waits(given, within))
        .or_else(|| equals(load, given, &within.noop))
        .or_else(|| busy(load, scheduler, given, &within.noop))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn sums(load: &Load, given: &Given) -> Option<Fault> {
    if given.busy > given.ended * EDGE {
        return Some(Fault::Sum(format!("busy for {} s of {} s", given.busy, given.ended)));
    }
    for (place, (client, got)) in load.clients.iter().zip(&given.clients).enumerate() {
        let size = u64::from(client.kind.block_kib) << 10;
        if got.bytes % size != 0 || got.bytes < got.ios * size {
            let Given { clients, .. } = given;
            return Some(Fault::Sum(format!("client {place}: {size} bytes each: {clients:?}")));
        }
        // At most its depth is under way at any time.
        let most = f64::from(client.kind.depth) * given.ended * EDGE;
        if got.took > most {
            let took = got.took;
            return Some(Fault::Sum(format!("client {place}: I/Os of {took} s in {most} s")));
        }
        if got.ios as f64 > 0.0 && got.took <= 0.0 {
            return Some(Fault::Sum(format!("client {place}: I/Os that took no time: {got:?}")));
        }
    }
    None
}

fn waits(given: &Given, within: &Bounds) -> Option<Fault> {
    let waited = |(place, (got, &bound)): (usize, (&Got, &f64))| {
        let starves = got.waited > bound || got.ios == 0 && within.seconds > bound;
        starves.then_some(Fault::Waited { place, waited: got.waited, bound })
    };
    given.clients.iter().zip(&within.waits).enumerate().find_map(waited)
}

/// Does not judge sequential I/Os, which are merged to different degrees, nor buffered ones, which
/// the page cache divides.
fn equals(load: &Load, given: &Given, noop: &Given) -> Option<Fault> {
    let spread = |place: usize, of: &Given| {
        let alike = |other: &usize| are_alike(&load.clients[*other], &load.clients[place]);
        let ios = || (0..of.clients.len()).filter(alike).map(|other| of.clients[other].ios);
        (ios().max().unwrap_or(0), ios().min().unwrap_or(0))
    };
    (0..given.clients.len()).find_map(|place| {
        let (most, least) = spread(place, given);
        let (noop_most, noop_least) = spread(place, noop);
        let judged = load.clients[place].kind.is_random_and_direct()
            && most >= ENOUGH
            && noop_most <= NOOP_UNEQUAL * noop_least;
        (judged && most > UNEQUAL * least).then_some(Fault::Unequal { place, most, least })
    })
}

/// Whether two clients are alike in all that matters to a scheduler.
fn are_alike(one: &Client, other: &Client) -> bool {
    let above = |client: &Client| {
        let path = client.group.clone();
        path.map(|path| path.rsplit_once('/').map_or(String::new(), |(above, _)| above.to_owned()))
    };
    let plain = |client: &Client| (client.kind, client.weight, client.class, client.begins);
    plain(one) == plain(other) && above(one) == above(other)
}

fn busy(load: &Load, scheduler: &str, given: &Given, noop: &Given) -> Option<Fault> {
    let never_waits = NEVER_WAIT.contains(&plain(scheduler));
    let greedy = |client: &Client| {
        client.kind.is_greedy() && client.begins == 0 && client.kind.engine != Engine::Buffered
    };
    if !never_waits || !load.clients.iter().any(greedy) {
        return None;
    }
    let idle = |given: &Given| 1.0 - given.busy / given.ended;
    let (part, noop) = (idle(given), idle(noop));
    (part > noop + IDLE_MORE).then_some(Fault::Idle { part, noop })
}

/// For each client, the part of its entitlement that it did not get. Only for loads where each
/// client's due is known: best effort, always there, direct, without merging or fsync, and without
/// writes that a disk's cache takes until it is full.
pub fn shares(bench: &mut Bench, load: &Load, given: &Given) -> Vec<(usize, f64)> {
    let facts = &load.device.description.facts;
    let cached = facts.rotational && facts.write_cache;
    let is_plain = |client: &Client| {
        let Client { kind, class, begins, .. } = client;
        let known = kind.is_random_and_direct() && kind.fsync == 0;
        let there = *class == Class::BestEffort && *begins == 0;
        known && there && (kind.rw == "randread" || !cached)
    };
    if !load.clients.iter().all(is_plain) {
        return Vec::new();
    }
    let uses: Vec<Use> = load
        .clients
        .iter()
        .zip(&given.clients)
        .map(|(client, got)| Use {
            rate: got.rate,
            alone: bench.alone(&load.device, client.kind),
            saturated: bench.saturated(&load.device, client.kind),
        })
        .collect();
    misses(&parties(load), &uses).into_iter().enumerate().collect()
}

/// Clients and their groups, as competing parties.
fn parties(load: &Load) -> Vec<Party> {
    let own = load.clients.iter().map(|one| (one.group.as_deref(), f64::from(one.weight)));
    tree(&own.collect::<Vec<_>>())
}

/// The client that misses most of what it is entitled to, if it misses too much.
#[must_use]
pub fn short(missed: &[(usize, f64)]) -> Option<Fault> {
    let worst = missed.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (place, missed) = *worst;
    (missed > 1.0 - SHARE_LEAST).then_some(Fault::Short { place, missed })
}

/// Whether the first client of a group gets less with ten times the weight: the median of five
/// seeds.
pub fn more(bench: &mut Bench, load: &Load, scheduler: &str, seconds: f64) -> Option<Fault> {
    let place = load.clients.iter().position(|client| client.group.is_some())?;
    let mut heavier = load.clone();
    heavier.clients[place].weight = (10 * load.clients[place].weight).min(1000);
    let mut median = |load: &Load| {
        let mut rates: Vec<f64> = (0..5)
            .map(|seed| {
                let load = Load { seed: load.seed + seed, ..load.clone() };
                bench.run(&load, scheduler, seconds).clients[place].rate
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        rates[2]
    };
    let (before, after) = (median(load), median(&heavier));
    (after < NOT_LESS * before).then_some(Fault::Less { place, before, after })
}

/// Whether a scheduler promises that lower classes take little from better ones.
#[must_use]
pub fn promises_classes(scheduler: &str) -> bool {
    RANK.contains(&plain(scheduler))
}

/// Whether a client of the best class gets too little beside clients of lower classes. Does not
/// judge loads with groups, where classes count among siblings; nor sequential I/Os, which are
/// merged to different degrees, and buffered ones, for which the page cache waits.
pub fn classes(
    bench: &mut Bench,
    load: &Load,
    scheduler: &str,
    (given, seconds): (&Given, f64),
) -> Option<Fault> {
    let best = load.clients.iter().map(|client| client.class).min()?;
    let is_of_best = |client: &&Client| client.class == best;
    let in_groups = load.clients.iter().any(|client| client.group.is_some());
    if in_groups || load.clients.iter().all(|client| client.class == best) {
        return None;
    }
    let clients: Vec<Client> = load.clients.iter().filter(is_of_best).cloned().collect();
    let alone = Load { clients, ..load.clone() };
    let before = bench.run(&alone, scheduler, seconds);
    let theirs = load.clients.iter().zip(&given.clients).enumerate();
    let theirs = theirs.filter(|(_, (client, _))| client.class == best);
    theirs.zip(&before.clients).find_map(|((place, (client, got)), before)| {
        let (before, after) = (before.rate, got.rate);
        let asks = client.kind.is_greedy() && client.begins == 0;
        let judged = asks && client.kind.is_random_and_direct();
        let is_less = judged && after < CLASS_LEAST * before;
        is_less.then_some(Fault::Outranked { place, before, after })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Device, Kind};

    /// classes: is a real-time reader that others crowd out of the device found, and not if all are
    /// of its class, or in groups, or if a scheduler serves it first?
    #[test]
    fn a_better_class_has_half_of_what_it_has_alone() {
        let client = |class, block_kib, depth, group: Option<&str>| {
            let kind = Kind::greedy(Engine::IoUring, "randread", block_kib, depth);
            Client { class, ..Client::new(kind, group.map(str::to_owned), 100) }
        };
        let (urgent, other) = (Class::RealTime, Class::BestEffort);
        for (scheduler, class, group, breaks) in [
            ("noop", other, None, true),
            ("noop", urgent, None, false),
            ("noop", other, Some("g"), false),
            ("bfq", other, None, false),
        ] {
            let clients = vec![client(urgent, 4, 4, group), client(class, 128, 64, group)];
            let load = Load { seed: 1, device: Device::named("ssd-870evo"), clients };
            let mut bench = Bench::default();
            let given = bench.run(&load, scheduler, 0.5);
            let fault = classes(&mut bench, &load, scheduler, (&given, 0.5));
            let found = matches!(fault, Some(Fault::Outranked { place: 0, .. }));
            assert_eq!(found, breaks, "{scheduler}: {fault:?}");
        }
    }
}

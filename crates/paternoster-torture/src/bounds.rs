// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds: how long each client of a load may wait, and how long a run must be to show it.
//!
//! A client waits from a request to its end; while none of its requests end it also waits, to the
//! end of the run. Its bound is the longest of
//!
//! ```text
//! 1 s
//! 10 * its wait under noop
//!  3 * depth / (its least share * its rate alone)      least share: min(1/n, w_i/W)
//! ```
//!
//! plus, for a client that thinks or paces itself, that time. The idle class as a whole has one
//! request in 200 ms, of which a client has its least share among that class; and while there is a
//! real-time client no other client is promised anything. The thread that writes the page cache
//! back is such a client, of best effort; so neither is one that waits for it, whatever its own
//! class, beside another of the real-time class.
//!
//! Source: the schedulers' review, "The measure".

use crate::bench::{Bench, Given, Got};
use crate::load::{Class, Client, Engine, Load};

/// The bound is never less.
const ONE_SECOND: f64 = 1.0;
/// The idle class as a whole gets one request in 200 ms; twice that is allowed.
const IDLERS_TURN: f64 = 0.4;
/// This many times a client's wait under noop.
const NOOP_TIMES: f64 = 10.0;
/// This many times the wait that its entitled rate implies.
const ENTITLED_TIMES: f64 = 3.0;
/// A run is this many times its longest bound.
const LONGER: f64 = 1.25;
/// Longest run in seconds.
const LONGEST: f64 = 60.0;

/// How long a load is run, how long each of its clients may wait, and what noop gave them.
#[derive(Debug)]
pub struct Bounds {
    /// The length of a run.
    pub seconds: f64,
    /// Bound on each client's wait, in seconds.
    pub waits: Vec<f64>,
    /// The results without a scheduler.
    pub noop: Given,
}

/// The least share of a client among these: by weight, or an equal one if that is less. (Where
/// there are no groups clients have no weights.)
fn least_part(clients: &[&Client]) -> impl Fn(&Client) -> f64 + use<> {
    let weights: u32 = clients.iter().map(|client| client.weight).sum();
    let equal = 1.0 / f64::from(u32::try_from(clients.len()).unwrap_or(1));
    move |client| equal.min(f64::from(client.weight) / f64::from(weights))
}

/// For each client: the wait that its entitlement allows, at least one second.
pub fn entitled_waits(bench: &mut Bench, load: &Load) -> Vec<f64> {
    let part = least_part(&load.clients.iter().collect::<Vec<_>>());
    let wait = |client: &Client| {
        let rate = part(client) * bench.alone(&load.device, client.kind);
        let own = f64::from(client.kind.think_us) / 1e6;
        let paced = if client.kind.rate > 0 { 1.0 / f64::from(client.kind.rate) } else { 0.0 };
        let asks = ENTITLED_TIMES * f64::from(client.kind.depth) / rate;
        asks.max(ONE_SECOND) + own + paced
    };
    load.clients.iter().map(wait).collect()
}

/// How long a load is run, how long each of its clients may wait, and what they get under noop.
pub fn bounds(bench: &mut Bench, load: &Load) -> Bounds {
    let entitled = entitled_waits(bench, load);
    let least = least_seconds(load);
    let long_enough = |waits: &[f64]| {
        let most = waits.iter().fold(0.0, |most: f64, &wait| most.max(wait));
        (LONGER * most).clamp(least, LONGEST)
    };
    let mut seconds = long_enough(&entitled);
    loop {
        let noop = bench.run(load, "noop", seconds);
        let with_noop = |(&wait, got): (&f64, &Got)| wait.max(NOOP_TIMES * got.waited);
        let mut waits: Vec<f64> = entitled.iter().zip(&noop.clients).map(with_noop).collect();
        let more = long_enough(&waits);
        if more <= seconds {
            let of = |class| load.clients.iter().filter(move |one| one.class == class);
            let part = least_part(&of(Class::Idle).collect::<Vec<_>>());
            let urgent = of(Class::RealTime).count();
            for (wait, client) in waits.iter_mut().zip(&load.clients) {
                // A client that begins later has waited for itself until then.
                *wait += seconds * f64::from(client.begins) / 100.0;
                match client.class {
                    Class::RealTime if writes_back(client) && urgent > 1 => *wait = f64::INFINITY,
                    Class::RealTime => {}
                    _ if urgent > 0 => *wait = f64::INFINITY,
                    Class::Idle => {
                        *wait += IDLERS_TURN * f64::from(client.kind.depth) / part(client);
                    }
                    Class::BestEffort => {}
                }
            }
            return Bounds { seconds, waits, noop };
        }
        seconds = more;
    }
}

/// Whether a client waits for the page cache's writeback when too much of it is dirty.
fn writes_back(client: &Client) -> bool {
    client.kind.engine == Engine::Buffered && client.kind.writes()
}

/// The least time to run a load: each client of a disk must get turns.
fn least_seconds(load: &Load) -> f64 {
    let facts = &load.device.description.facts;
    match (facts.rotational, facts.depth) {
        (true, _) | (false, ..=1) => 12.0,
        (false, ..=64) => 3.0,
        (false, _) => 1.25,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Device, Kind};

    /// Is a real-time client that writes through the page cache promised anything beside another of
    /// its class? The flusher has the device when that one does not ask. Alone it is: then the
    /// flusher has the device whenever the client waits for it.
    #[test]
    fn writeback_is_not_of_the_real_time_class() {
        let client = |engine, rw| {
            let kind = Kind::greedy(engine, rw, 64, 1);
            Client { class: Class::RealTime, ..Client::new(kind, None, 100) }
        };
        let waits = |clients: Vec<Client>| {
            let device = Device::named("flash-card-2010");
            let load = Load { seed: 1, device, clients };
            bounds(&mut Bench::default(), &load).waits.iter().map(|wait| wait.is_finite()).collect()
        };
        let (writer, reader) =
            (client(Engine::Buffered, "randrw"), client(Engine::Psync, "randread"));
        let both: Vec<bool> = waits(vec![writer.clone(), reader]);
        assert_eq!((both, waits(vec![writer])), (vec![false, true], vec![true]));
    }
}

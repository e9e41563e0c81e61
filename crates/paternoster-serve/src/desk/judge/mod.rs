// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judge: clients that take their own streams apart, against a desk in virtual time.
//!
//! ```text
//! plan ─▶ clients ══ socket pairs ══▶ desk (as in production) ─▶ medium (held, faulty, cut)
//!            │  laws S1 to S8                                       │
//!            └────────────▶ book: what bytes are admissible ◀───────┘  law D1
//! ```
//!
//! One thread does everything: what each client sends and takes, how many bytes of it, a turn of
//! the desk, the ends of jobs in any order, write-back, the clock. All of it follows from a seed. A
//! case that fails is made smaller until nothing can be left out, and printed.
//!
//! A case has one to three volumes of one device, mostly side by side, and one to three tenants of
//! it; a client is of one of each.
//!
//! Laws: S1 to S9 of the streams (`client`); D1 after a cut the disk has what was promised
//! (`book`), D2 and what it had beside the volumes; D3 of the medium (`medium`); L1 nothing stands
//! still while something is owed; L2 when all have gone nothing is left: no memory, no part, no
//! errand, no connection; T1 and T2 of the tenants (`tenants`).
//!
//! `PATERNOSTER_STREAM_REQUESTS` says how many requests are judged, `PATERNOSTER_STREAM_SEED` from
//! which seed on. Not judged here: the lobby, TLS, calls of FUSE, files of a real kernel; how much
//! each tenant gets, but for its caps.

mod book;
mod client;
mod medium;
mod plan;
mod tenants;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use paternoster::Nanos;
use paternoster_sim::chance::Chance;

use super::outbox::planted::plant_interleaving;
use super::{Desk, NO_TIME, Newcomer, Seat, TICK};
use crate::clock::Clock;
use crate::config::{Config, Device, Direct, Engine, Server, Volume};
use crate::device::arena::{Block, LARGEST, PAGE};
use crate::device::durability::planted::plant_forgotten_doubt;
use crate::nbd::Negotiated;
use crate::server::Options;
use crate::wire::Wire;
use book::{Book, zeroes};
use client::{Client, World};
use medium::Medium;
use plan::Plan;

/// Requests to be judged, unless `PATERNOSTER_STREAM_REQUESTS` says otherwise.
const REQUESTS: usize = 5_000;
/// Rounds in which nothing moves before everything is let go.
const QUIET: u32 = 20;
/// Rounds in which nothing moves though everything is let go: 10 s of the desk's time.
const STILL: u32 = 1_000;

/// The number that an environment variable says.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number was expected")))
}

/// A desk, its medium and its clients.
struct Stage {
    desk: Desk,
    medium: Medium,
    /// Bytes of the medium that are no volume's.
    beside: Vec<Range<usize>>,
    clients: Vec<Client>,
    book: Book,
    chance: Chance,
    /// Memory that is kept from the desk.
    kept: Vec<Block>,
    now: Nanos,
    beat: u64,
}

impl Stage {
    fn new(plan: &Plan) -> Stage {
        let chance = Chance::new(plan.seed, 1);
        let medium = Medium::new(plan, Chance::new(plan.seed, 2));
        let (config, device) = config(plan);
        let options = Options::default();
        let backend = Box::new(medium.clone());
        let opened = Desk::before(backend, Vec::new(), &config, &device, &options);
        let mut opened = opened.expect("a desk");
        let desk = &mut opened.desk;
        desk.clock = Clock::Told(Nanos::ZERO);
        let mut kept = Vec::new();
        while desk.free_memory() > (plan.memory + LARGEST) as u64 {
            kept.extend(desk.arena.take(LARGEST));
        }
        while desk.free_memory() > plan.memory as u64 {
            kept.extend(desk.arena.take(PAGE));
        }
        let seats = Arc::new(AtomicU32::new(0));
        let mut clients = Vec::new();
        for (number, client) in plan.clients.iter().enumerate() {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            theirs.set_nonblocking(true).expect("a socket");
            desk.welcome(Newcomer {
                wire: Wire::plain(OwnedFd::from(theirs)),
                negotiated: Negotiated {
                    export: volume_name(client.volume),
                    facts: opened.exports[client.volume].clone(),
                    structured: client.structured,
                    allocation: client.structured,
                    block_sizes_known: client.knows_blocks,
                },
                id: number as u64 + 1,
                peer: format!("client {number}").into(),
                pid: 0,
                tenant: tenants::name(client.tenant),
                input: Vec::new(),
                output: Vec::new(),
                seat: Seat::take(&seats, u32::MAX).expect("a seat"),
            });
            let base = plan.volumes[client.volume].start as u64;
            clients.push(Client::new(client.clone(), base, ours));
        }
        let book = Book::new(plan.bytes as u64);
        Stage {
            desk: opened.desk,
            beside: beside(plan),
            medium,
            clients,
            book,
            chance,
            kept,
            now: Nanos(1),
            beat: 1,
        }
    }

    /// A turn of the desk.
    fn turn(&mut self, passes: u64) {
        self.now = Nanos(self.now.0 + passes);
        self.desk.clock = Clock::Told(self.now);
        self.medium.state().beat = self.beat;
        self.desk.look(&NO_TIME);
        self.desk.note_events();
        self.desk.turn();
    }

    /// Every client sends and takes something, `all` of it or as chance says; whether any did.
    fn clients_move(&mut self, all: bool) -> Result<bool, String> {
        let mut moved = false;
        for which in 0..self.clients.len() {
            self.beat += 1;
            let mut most = || match (all, self.chance.below(4)) {
                (true, _) => 1 << 20,
                (false, 0) => 0,
                (false, 1) => 1 + self.chance.below(200),
                (false, _) => 1 + self.chance.below(64 << 10),
            };
            let (send, take) = (most(), most());
            let send = usize::try_from(send).unwrap();
            let mut state = self.medium.state();
            state.beat = self.beat;
            moved |= self.clients[which].send(send, &mut self.book, &mut state) != 0;
            drop(state);
            if take == 0 {
                continue;
            }
            self.beat += 1;
            let oldest = self.clients.iter().filter_map(Client::oldest).min();
            let state = self.medium.state();
            let mut world = World {
                book: &mut self.book,
                log: &state.log,
                beat: self.beat,
                forgotten: &state.forgotten,
                oldest: oldest.unwrap_or(self.beat),
            };
            let took = self.clients[which].take(usize::try_from(take).unwrap(), &mut world);
            moved |= took.map_err(|law| format!("client {which}: {law}"))? != 0;
        }
        Ok(moved)
    }

    /// D1.
    fn cut(&mut self) -> Result<(), String> {
        let left = self.medium.state().cut();
        let is_nothing = |range: &Range<usize>| left[range.clone()] == *zeroes(range.len());
        if let Some(range) = self.beside.iter().find(|range| !is_nothing(range)) {
            return Err(format!("D2: bytes of no volume were changed: some of {range:?}"));
        }
        match self.book.wrong(0, &left, None) {
            Some(wrong) => Err(format!("D1: after a cut {wrong}")),
            None => Ok(()),
        }
    }

    fn play(&mut self, plan: &Plan) -> Result<(), String> {
        let mut still = 0;
        // What a cap keeps back may be worth minutes.
        let long = if tenants::are_capped(plan) { 1_000_000_000 } else { 10_000_000 };
        while !self.clients.iter().all(Client::is_done) {
            let all = still > QUIET;
            let ended = self.medium.state().ended;
            let mut moved = self.clients_move(all)?;
            let passes = if all { long } else { self.chance.below(200_000) };
            self.turn(passes);
            if self.chance.once_in(6) {
                self.medium.state().write_some_back();
            }
            if self.chance.once_in(12) {
                self.cut()?;
            }
            moved |= self.medium.state().ended != ended;
            still = if moved { 0 } else { still + 1 };
            if still > STILL {
                let owed: Vec<_> = self.clients.iter().map(Client::unanswered).collect();
                return Err(format!("L1: nothing moves; unanswered: {owed:?}"));
            }
        }
        self.cut()?;
        tenants::are_kept_to_their_caps(plan, &self.clients, self.now)?;
        self.leave()?;
        tenants::are_counted(plan, &self.clients, &self.desk.tenants)
    }

    /// L2.
    fn leave(&mut self) -> Result<(), String> {
        self.clients.iter_mut().for_each(Client::hang_up);
        for _ in 0..STILL {
            self.turn(1_000_000);
            if self.desk.guests.is_empty() && self.desk.in_device == 0 {
                break;
            }
        }
        // What is looked after now and then is looked after.
        self.turn(TICK.0);
        self.cut()?;
        for block in self.kept.drain(..) {
            self.desk.arena.give_back(block);
        }
        let desk = &self.desk;
        let left = (desk.guests.len(), desk.errands.len(), desk.parts.len(), desk.arena.used());
        if (left.0 as u64, left.1 as u64, left.2 as u64, left.3 as u64) == (0, 0, 0, 0) {
            return Ok(());
        }
        Err(format!("L2: guests, errands, parts and bytes that are left: {left:?}"))
    }
}

fn volume_name(number: usize) -> String {
    format!("v{number}")
}

/// Bytes of the medium that no volume has.
fn beside(plan: &Plan) -> Vec<Range<usize>> {
    let ranges = plan.volumes.iter().map(|volume| volume.start..volume.start + volume.size);
    let mut volumes: Vec<Range<usize>> = ranges.collect();
    volumes.push(plan.bytes..plan.bytes);
    volumes.sort_by_key(|range| range.start);
    let (mut end, mut beside) = (0, Vec::new());
    for range in volumes {
        if range.start > end {
            beside.push(end..range.start);
        }
        end = end.max(range.end);
    }
    beside
}

fn config(plan: &Plan) -> (Config, Device) {
    let server = Server {
        connections: 16,
        connection_memory: plan.connection_memory,
        // No client is late by the clock here.
        stall_timeout: Nanos::from_secs(1 << 20),
        ..Server::default()
    };
    let volumes = plan.volumes.iter().enumerate().map(|(number, volume)| {
        let path = format!("file{}", volume.file);
        Volume {
            start: (volume.start - plan.files[volume.file]) as u64,
            length: Some((volume.size + volume.odd) as u64),
            readonly: volume.readonly,
            ..Volume::new(volume_name(number), path)
        }
    });
    let device = Device {
        name: "dev".to_owned(),
        scheduler: plan.scheduler.to_owned(),
        attributes: vec![("max_sectors_kb".to_owned(), plan.sectors_kb.to_string())],
        depth: None,
        memory: 4 << 20,
        direct: Direct::Auto,
        engine: Engine::Auto,
        delay_bound: plan.delay_bound,
        volumes: volumes.collect(),
    };
    let (groups, tenants) = (tenants::groups(plan), tenants::configured(plan));
    let devices = vec![device.clone()];
    (Config { server, devices, groups, tenants, rules: Vec::new() }, device)
}

/// Plays a case; which law it breaks.
fn judge(plan: &Plan) -> Result<(), String> {
    let played = catch_unwind(AssertUnwindSafe(|| Stage::new(plan).play(plan)));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("without words")))
    })
}

/// A smaller case that breaks a law, too.
fn shrink(mut plan: Plan, mut why: String) -> (Plan, String) {
    'smaller: loop {
        for smaller in plan.smaller() {
            if let Err(law) = judge(&smaller) {
                (plan, why) = (smaller, law);
                continue 'smaller;
            }
        }
        return (plan, why);
    }
}

/// The first case from `seed` on that breaks a law, within so many requests.
fn first_broken(seed: u64, requests: usize) -> Option<(Plan, String, usize)> {
    let (mut judged, mut seed) = (0, seed);
    while judged < requests {
        let plan = Plan::draw(seed);
        judged += plan.requests();
        if let Err(why) = judge(&plan) {
            return Some((plan, why, judged));
        }
        seed += 1;
    }
    None
}

/// Is every reply whole, in its place, once, with bytes that may be there or an error that is due;
/// and does a cut leave what was promised?
#[test]
fn every_stream_is_right() {
    crate::log::SILENT.set(true);
    let seed = asked("PATERNOSTER_STREAM_SEED").unwrap_or(1);
    let requests = asked("PATERNOSTER_STREAM_REQUESTS").map(usize::try_from);
    let requests = requests.and_then(Result::ok).unwrap_or(REQUESTS);
    if let Some((plan, why, judged)) = first_broken(seed, requests) {
        let first = plan.seed;
        let (plan, smaller) = shrink(plan, why.clone());
        panic!(
            "{why}\nafter {judged} requests; again: PATERNOSTER_STREAM_SEED={first}\nsmaller: \
             {smaller}\n{plan:#?}"
        );
    }
}

/// Are two bugs that the server had found among the seeds of every day, and made small?
#[test]
fn what_was_wrong_is_found() {
    crate::log::SILENT.set(true);
    is_found("replies within a read", plant_interleaving, &["S1", "S5"]);
    is_found("a failed durable write is forgotten", plant_forgotten_doubt, &["D1"]);
}

fn is_found(name: &str, plant: fn(bool), laws: &[&str]) {
    plant(true);
    let found = first_broken(1, REQUESTS);
    let found = found.map(|(plan, why, judged)| (shrink(plan, why), judged));
    plant(false);
    let ((plan, why), judged) = found.unwrap_or_else(|| panic!("not found: {name}"));
    let clue = laws.iter().any(|law| why.contains(law));
    assert!(clue, "{name}: found by another law: {why}");
    assert!(plan.requests() <= 12, "{name}: {plan:#?}");
    println!("{name}: after {judged} requests, {} are left: {why}", plan.requests());
}

/// Does the same seed give the same case, to the last end of a job?
#[test]
fn a_case_follows_from_its_seed() {
    crate::log::SILENT.set(true);
    for seed in 1..20 {
        let end = || {
            let plan = Plan::draw(seed);
            let mut stage = Stage::new(&plan);
            let played = stage.play(&plan);
            (played, stage.beat, stage.now, stage.medium.state().ended)
        };
        assert_eq!(end(), end(), "seed {seed}");
    }
}

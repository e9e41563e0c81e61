// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of paternoster, one by one, on a small device in virtual time.
//!
//! A [`World`] is a queue, a device of some servers, and clients that each keep a number of
//! requests outstanding. The device takes `base` for a request, `sector` for each of its sectors,
//! and `seek` more if it does not begin where the last one of that server ended. With the feature
//! `audit`, the queue audits itself at each call.

use super::*;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use paternoster_core::device::{DeviceFacts, Outcome, Tag};
use paternoster_core::event::{Action, Event, Note, Observer};
use paternoster_core::{
    Bio, Class, ClientSpec, Flags, GroupSpec, Limits, Op, Output, RequestQueue,
};

mod classes;
mod cooperating;
mod depth;
mod gate;
mod guarantees;
mod lateness;
mod learning;
mod sharing;
mod sweep_groups;

/// What a client does.
#[derive(Debug, Clone, Copy)]
struct Patterns {
    /// Requests that it keeps outstanding.
    depth: u32,
    sectors: u32,
    /// Sequential: reads on where the last one ended, or `skip` sectors further. Otherwise far from
    /// it, in steps of its own of eight times `skip`, if that is not 0.
    sequential: bool,
    skip: u64,
    think: Nanos,
}

/// A reader of `sectors` at random places, one at a time, that thinks for 20 us.
const fn random(sectors: u32) -> Patterns {
    Patterns { depth: 1, sectors, sequential: false, skip: 0, think: Nanos::from_micros(20) }
}

const fn deep(depth: u32, sectors: u32) -> Patterns {
    Patterns { depth, ..random(sectors) }
}

const fn stream(sectors: u32) -> Patterns {
    Patterns { sequential: true, ..random(sectors) }
}

#[derive(Debug)]
struct Actor {
    id: ClientId,
    patterns: Patterns,
    /// Where its part of the device begins, and where it is.
    region: u64,
    at: u64,
    /// Requests and the longest wait of one, in ns.
    ended: u64,
    longest: u64,
    /// It asks no more.
    gone: bool,
}

/// What a device costs, in ns.
#[derive(Debug, Clone, Copy)]
struct Price {
    base: u64,
    sector: u64,
    seek: u64,
}

/// Device time by client, in ns; and what the watchdog reported.
#[derive(Debug, Default)]
struct Served(Vec<u64>, Vec<Note>);

impl Observer for Served {
    fn event(&mut self, event: &Event) {
        let place = event.client.index() as usize;
        if event.action == Action::Complete {
            self.0.resize(self.0.len().max(place + 1), 0);
            self.0[place] += event.served.0;
        }
    }

    fn note(&mut self, _: Nanos, _: u64, note: &Note) {
        if matches!(note, Note::FellBack { .. } | Note::TriesAgain) {
            self.1.push(*note);
        }
    }
}

struct World {
    queue: RequestQueue<Served>,
    now: Nanos,
    price: Price,
    /// What moving the arm by one sector takes, in ns, on top of a seek.
    travel: u64,
    /// Of each server: when it is free, and its position.
    servers: Vec<(Nanos, u64)>,
    flying: Vec<(Nanos, Tag, usize)>,
    /// Future submissions: when and whose.
    pending: Vec<(Nanos, usize)>,
    actors: Vec<Actor>,
    /// No client asks again.
    closing: bool,
    /// When the queue wants to be called again.
    timer: Option<Nanos>,
    /// How long something was in the device, in ns, up to the last time that all had ended.
    busy: u64,
    busy_since: Nanos,
}

impl World {
    fn new(depth: u32, price: Price) -> World {
        World::of(Paternoster::new(), depth, price)
    }

    fn of(elevator: Paternoster, depth: u32, price: Price) -> World {
        // A device with seeks rotates.
        let facts = DeviceFacts { depth, rotational: price.seek > 0, ..DeviceFacts::default() };
        let limits = Limits { requests: 512, clients: 32, groups: 24, ..Limits::default() };
        let mut queue = RequestQueue::builder(facts, Box::new(elevator))
            .limits(limits)
            .observer(Served::default())
            .build()
            .expect("its limits work");
        queue.set_attribute(Nanos::ZERO, "nr_requests", "256").expect("there is room");
        World {
            queue,
            now: Nanos::ZERO,
            price,
            travel: 0,
            servers: vec![(Nanos::ZERO, 0); depth as usize],
            flying: Vec::new(),
            pending: Vec::new(),
            actors: Vec::new(),
            closing: false,
            timer: None,
            busy: 0,
            busy_since: Nanos::ZERO,
        }
    }

    /// A client of `spec` begins now.
    fn join(&mut self, spec: ClientSpec, patterns: Patterns) -> usize {
        let id = self.queue.attach(Nanos::ZERO, spec).expect("there is room");
        let place = self.actors.len();
        let region = place as u64 * (1 << 22);
        let actor = Actor { id, patterns, region, at: region, ended: 0, longest: 0, gone: false };
        self.actors.push(actor);
        self.pending.extend((0..patterns.depth).map(|_| (self.now, place)));
        place
    }

    fn add(&mut self, patterns: Patterns) -> usize {
        self.join(ClientSpec::new(), patterns)
    }

    fn weighing(&mut self, weight: u32, patterns: Patterns) -> usize {
        let group = self.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(weight));
        self.join(ClientSpec::new().group(group.expect("there is room")), patterns)
    }

    fn submit(&mut self, place: usize) {
        let actor = &mut self.actors[place];
        let sectors = actor.patterns.sectors;
        // Far away, and never the same twice in a row: a step that is prime to the region.
        let step = match actor.patterns {
            Patterns { sequential: true, skip, .. } => skip,
            Patterns { skip: 0, .. } => 7_919 * 8,
            Patterns { skip, .. } => skip * 8,
        };
        let region = actor.region;
        let next = region + (actor.at - region + step) % (1 << 21);
        let bio = Bio::new(actor.id, Op::Read, next, sectors).cookie(place as u64 | 1 << 32);
        actor.at = next + u64::from(sectors);
        if self.queue.submit(self.now, bio.flags(Flags::NOMERGE)).is_err() {
            // It sleeps, and tries again with the wake.
            actor.at = next;
        }
    }

    fn issue(&mut self) {
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => {
                    let free = |&server: &usize| (self.servers[server].0, server);
                    let server = (0..self.servers.len()).min_by_key(free).expect("one at least");
                    let (until, stood) = self.servers[server];
                    let seek = if stood == command.sector { 0 } else { self.price.seek };
                    let way = stood.abs_diff(command.sector) * self.travel;
                    let took = self.price.base + seek + way;
                    let took = took + self.price.sector * u64::from(command.sectors);
                    let end = until.max(self.now) + Nanos(took);
                    self.servers[server] = (end, command.end());
                    let of = |actor: &Actor| actor.id == command.client;
                    let place = self.actors.iter().position(of).expect("one of ours");
                    if self.flying.is_empty() {
                        self.busy_since = self.now;
                    }
                    self.flying.push((end, command.tag, place));
                }
                Output::Done(..) => {}
                Output::Wake(client) => {
                    let of = |actor: &Actor| actor.id == client;
                    let place = self.actors.iter().position(of).expect("one of ours");
                    self.pending.push((self.now, place));
                }
                Output::Wait { until, .. } => {
                    let busy = !self.flying.is_empty() || !self.pending.is_empty();
                    assert!(busy || until.is_some() || self.closing, "nothing goes on");
                    self.timer = until;
                    return;
                }
            }
        }
    }

    /// Lets time pass until `end`.
    fn run(&mut self, end: Nanos) {
        self.issue();
        loop {
            let flights = self.flying.iter().map(|flight| flight.0);
            let arrivals = self.pending.iter().map(|arrival| arrival.0);
            let timers = self.timer;
            let Some(next) = flights.chain(arrivals).chain(timers).min() else { return };
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            while let Some(place) = self.flying.iter().position(|flight| flight.0 <= self.now) {
                self.complete(place);
            }
            while let Some(place) = self.pending.iter().position(|one| one.0 <= self.now) {
                let (_, actor) = self.pending.remove(place);
                self.submit(actor);
            }
            self.issue();
        }
    }

    fn complete(&mut self, place: usize) {
        let (_, tag, actor) = self.flying.remove(place);
        if self.flying.is_empty() {
            self.busy += (self.now - self.busy_since).0;
        }
        let request = self.queue.request_of(tag).expect("it is in the device");
        let waited = (self.now - request.start()).0;
        self.queue.complete(self.now, tag, Outcome::OK).expect("it is in the device");
        let own = &mut self.actors[actor];
        own.ended += 1;
        own.longest = own.longest.max(waited);
        if !self.closing && !own.gone {
            self.pending.push((self.now + own.patterns.think, actor));
        }
    }

    /// An actor asks no more.
    fn leave(&mut self, place: usize) {
        self.pending.retain(|&(_, other)| other != place);
        self.actors[place].gone = true;
    }

    /// Forgets what has been counted so far.
    fn count_anew(&mut self) {
        for actor in &mut self.actors {
            (actor.ended, actor.longest) = (0, 0);
        }
        self.queue.observer_mut().0.clear();
    }

    /// Requests that have ended.
    fn ended(&self) -> u64 {
        self.actors.iter().map(|actor| actor.ended).sum()
    }

    /// The share of device time of an actor, in thousandths.
    fn share(&self, place: usize) -> u64 {
        let served = &self.queue.observer().0;
        let own = served.get(self.actors[place].id.index() as usize).copied().unwrap_or(0);
        own * 1000 / served.iter().sum::<u64>().max(1)
    }

    fn attribute(&self, name: &str) -> u64 {
        let mut found = None;
        self.queue.for_each_attribute(|path, _, value| {
            if path.ends_with(name) {
                found = value.parse().ok();
            }
        });
        found.expect("an attribute of this name, a number")
    }
}

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! World: clients, a queue and a disk whose power could fail at any event.
//!
//! [`run`] carries out a workload and checks the medium at each of its events: a command is taken,
//! data land in the cache, a command ends, the disk drains, a bio is handed back. Each of these is
//! a *cut*: the disk draws what a power failure would leave, with a separate seed for each, and the
//! promises (`promises.rs`) say whether something is lost. The run itself goes on.
//!
//! ```text
//! clients ── Bio ─▶ queue ── Command ─▶ disk          the medium, by sector
//!    ▲               │ cookies(tag) ────────────▶ whose command it was
//!    └──── Done ─────┘                                  │
//!                    └──────▶ promises ◀── judge ───────┘
//! ```
//!
//! What else must hold, without a cut:
//!
//! * S1 Nothing hangs: when something waits, then something is in the disk, or the queue says until
//!   when, or a client holds a plug. And time helps: the queue does not say so forever.
//! * S2 A bio is handed back once; a command carries exactly its bios.
//!
//! Attributes of the queue whose names begin with `flush` are drawn for each world, and changed
//! like all others as it runs: new ones are covered as soon as they exist.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::{
    Attribute, Bio, ClientId, ClientSpec, Command, Cookie, Limits, Nanos, Op, Outcome, Output,
    QUEUE_ATTRIBUTES, RequestQueue, Status, SubmitError, Ticket, Values, Waiting,
};
use paternoster_sim::Model;
use paternoster_sim::chance::Chance;
use paternoster_sim::power::{Habits, Serial, Survival, VolatileDisk};

use super::promises::Promises;
use super::workload::{Ills, Place, Plan, SECTORS, Sabotage, Step, What};

/// The queue may give this many answers before a `Wait`.
const ANSWERS: u32 = 4096;
/// At the end time may pass this often without any event.
const PATIENCE: u32 = 512;

/// Attributes that tell the queue what disk it has. Wrong values void all promises.
const DECLARED: [&str; 2] = ["write_cache", "fua"];

/// Counts of what happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Events at which the medium was checked.
    pub(crate) cuts: u64,
    /// Cuts at which something was volatile.
    pub(crate) at_risk: u64,
    /// Cuts that lost something that was not promised.
    pub(crate) forgiven: u64,
    /// Cuts after which part of the volatile data was still there.
    pub(crate) partial: u64,
    pub(crate) submitted: u64,
    pub(crate) commands: u64,
    pub(crate) merged: u64,
    pub(crate) flushes: u64,
    pub(crate) fua: u64,
    pub(crate) refusals: u64,
    pub(crate) busies: u64,
    pub(crate) cancels: u64,
    pub(crate) failures: u64,
    pub(crate) changes: u64,
    pub(crate) settings: u64,
    /// Sectors that were promised.
    pub(crate) promised: u64,
    /// How often requests were held for a flush, and throttled for a debt.
    pub(crate) held: u64,
    pub(crate) indebted: u64,
}

impl Census {
    pub(crate) fn add(&mut self, other: &Census) {
        for (sum, more) in self.all().into_iter().zip(Census::all(&mut { *other })) {
            *sum.1 += *more.1;
        }
    }

    /// Every count with its name.
    pub(crate) fn all(&mut self) -> [(&'static str, &mut u64); 18] {
        [
            ("cuts", &mut self.cuts),
            ("at risk", &mut self.at_risk),
            ("forgiven", &mut self.forgiven),
            ("partial", &mut self.partial),
            ("submitted", &mut self.submitted),
            ("commands", &mut self.commands),
            ("merged", &mut self.merged),
            ("flushes", &mut self.flushes),
            ("fua", &mut self.fua),
            ("refusals", &mut self.refusals),
            ("busies", &mut self.busies),
            ("cancels", &mut self.cancels),
            ("failures", &mut self.failures),
            ("changes", &mut self.changes),
            ("settings", &mut self.settings),
            ("promised", &mut self.promised),
            ("held", &mut self.held),
            ("indebted", &mut self.indebted),
        ]
    }
}

/// A bio that was accepted and has not been handed back.
#[derive(Debug, Clone, Copy)]
struct Live {
    bio: Bio,
    ticket: Ticket,
    person: usize,
    synced: bool,
}

#[derive(Debug)]
struct Person {
    id: ClientId,
    plugged: bool,
    /// Got Busy, and no Wake since.
    asleep: bool,
    /// Bios it wants to submit, and whether a flush follows each.
    wishes: VecDeque<(Bio, bool)>,
    /// Place of the client's last bio.
    last: (u64, u64),
}

struct World {
    ills: Ills,
    queue: RequestQueue,
    disk: VolatileDisk,
    now: Nanos,
    until: Option<Nanos>,
    seed: u64,
    promises: Promises,
    live: BTreeMap<Cookie, Live>,
    people: Vec<Person>,
    /// The bios of each command: its first sector and each sector's cookie, by serial.
    written: Vec<(usize, Vec<Cookie>)>,
    /// The states of disk and promises at the last cut, as counts of events.
    judged: (u64, u64),
    ends: u64,
    image: Vec<Serial>,
    medium: Vec<Cookie>,
    census: Census,
}

/// Carries out a workload on a world with the faults `ills`; `prepare` may change the queue
/// further. The error says what was lost or hung.
pub(crate) fn run(
    plan: &Plan,
    steps: &[Step],
    ills: Ills,
    prepare: &dyn Fn(&mut RequestQueue),
) -> Result<Census, String> {
    let mut world = World::new(plan, ills);
    prepare(&mut world.queue);
    for (number, &step) in steps.iter().enumerate() {
        let at = |fault| format!("step {number}, {step:?}: {fault}");
        world.carry_out(step).map_err(at)?;
        world.pump().map_err(at)?;
    }
    world.finish().map_err(|fault| format!("behind the last step: {fault}"))?;
    world.census.promised = world.promises.promised;
    Ok(world.census)
}

impl World {
    fn new(plan: &Plan, ills: Ills) -> World {
        let facts = plan.facts();
        let elevator = paternoster_schedulers::ALL
            [usize::from(plan.elevator) % paternoster_schedulers::ALL.len()];
        let (requests, bios) = if plan.narrow { (12, 16) } else { (96, 64) };
        let clients = u32::from(plan.clients);
        let limits = Limits { requests, bios, clients, groups: 1, notes: 0 };
        let mut queue = RequestQueue::builder(facts, (elevator.make)())
            .limits(limits)
            .build()
            .expect("its limits work");
        let people = (0..plan.clients).map(|number| Person {
            id: queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is room for it"),
            plugged: false,
            asleep: false,
            wishes: VecDeque::new(),
            last: (u64::from(number) * 32, u64::from(number) * 32),
        });
        let people = people.collect();
        let habits = Habits {
            seed: plan.seed,
            error_every: plan.error_every,
            refuse_every: plan.refuse_every,
            flaw: ills.flaw,
        };
        let mut world = World {
            ills,
            queue,
            disk: VolatileDisk::new(facts, habits),
            now: Nanos::ZERO,
            until: None,
            seed: plan.seed,
            promises: Promises::new(usize::try_from(SECTORS).expect("few sectors")),
            live: BTreeMap::new(),
            people,
            written: vec![(0, vec![0; usize::try_from(SECTORS).expect("few sectors")])],
            judged: (0, 0),
            ends: 0,
            image: Vec::new(),
            medium: Vec::new(),
            census: Census::default(),
        };
        world.set_first_attributes();
        world
    }

    /// Draws the attributes about flushes and requests for this world.
    fn set_first_attributes(&mut self) {
        let mut chance = Chance::new(self.seed, 2);
        for attribute in QUEUE_ATTRIBUTES {
            let value = u8::try_from(chance.below(256)).unwrap_or(0);
            if attribute.name.starts_with("flush") || (attribute.name == "rules" && value < 128) {
                self.set(attribute.name, attribute, value);
            }
        }
    }

    fn carry_out(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Submit { who, what, place, sectors } => {
                let person = usize::from(who) % self.people.len();
                let bio = self.draw(person, what, place, sectors);
                self.wish(person, bio, what == What::Synced)?;
            }
            Step::Burst { who, at, count } => {
                let person = usize::from(who) % self.people.len();
                for number in 0..count {
                    let place = Place::At(at.wrapping_add(number * 8));
                    let bio = self.draw(person, What::Write, place, 8);
                    self.wish(person, bio, false)?;
                }
            }
            Step::Pass(micros) => self.pass(Nanos::from_micros(micros.into()))?,
            Step::Plug(who) => {
                let person = usize::from(who) % self.people.len();
                self.people[person].plugged = true;
                let plugged = self.queue.plug(self.now, self.people[person].id);
                plugged.map_err(|stale| stale.to_string())?;
            }
            Step::Unplug(who) => self.unplug(usize::from(who) % self.people.len())?,
            Step::Cancel(which) => {
                let place = usize::from(which) % self.live.len().max(1);
                let ticket = self.live.values().nth(place).map(|live| live.ticket);
                if let Some(ticket) = ticket
                    && self.queue.cancel(self.now, ticket).is_ok()
                {
                    self.census.cancels += 1;
                }
            }
            Step::Set { attribute, value } => self.set_any(attribute, value),
            Step::Elevator(which) => {
                let entry = paternoster_schedulers::ALL
                    [usize::from(which) % paternoster_schedulers::ALL.len()];
                self.queue.change_elevator(self.now, (entry.make)());
                self.census.changes += 1;
            }
        }
        Ok(())
    }

    fn unplug(&mut self, person: usize) -> Result<(), String> {
        self.people[person].plugged = false;
        let unplugged = self.queue.unplug(self.now, self.people[person].id);
        unplugged.map_err(|stale| stale.to_string())
    }

    /// Sets any attribute of the queue or the elevator; every other time one that concerns flushes,
    /// if there is one.
    fn set_any(&mut self, attribute: u8, value: u8) {
        let mut all: Vec<(String, Attribute)> = Vec::new();
        self.queue.for_each_attribute(|name, attribute, _| all.push((name.into(), *attribute)));
        let flush = |of: &&(String, Attribute)| of.0.starts_with("flush");
        let about_flush: Vec<_> = all.iter().filter(flush).cloned().collect();
        let from = if attribute.is_multiple_of(2) && !about_flush.is_empty() {
            &about_flush
        } else {
            &all
        };
        let (name, attribute) = &from[usize::from(attribute / 2) % from.len()];
        self.set(name, attribute, value);
    }

    fn set(&mut self, name: &str, attribute: &Attribute, value: u8) {
        if DECLARED.contains(&name) {
            return;
        }
        // Times of elevators stay short, so that runs end soon.
        const NUMBERS: [u64; 8] = [0, 1, 2, 3, 8, 16, 40, 100];
        let text = match attribute.values {
            // Clients may seldom owe anything, or none would ever be throttled.
            _ if name == "flush_ahead" => (value % 4 / 3).to_string(),
            Values::Number { min, max } => {
                NUMBERS[usize::from(value) % NUMBERS.len()].clamp(min, max).to_string()
            }
            Values::Choice(words) => words[usize::from(value) % words.len()].to_owned(),
            Values::Text(_) | Values::ReadOnly => return,
        };
        // The value may be more than this queue has room for; then nothing has changed.
        let set = self.queue.set_attribute(self.now, name, &text);
        self.census.settings += u64::from(set.is_ok());
    }

    fn draw(&self, person: usize, what: What, place: Place, sectors: u8) -> Bio {
        let (op, flags) = what.op();
        let id = self.people[person].id;
        if op == Op::Flush {
            return Bio::flush(id);
        }
        let last = self.people[person].last;
        let sector = match place {
            Place::At(at) => u64::from(at),
            Place::Behind => last.1,
            Place::Again => last.0,
        };
        let sector = sector % SECTORS;
        let room = u32::try_from(SECTORS - sector).unwrap_or(1);
        let sectors = u32::from(sectors).min(room).min(self.queue.max_sectors());
        Bio::new(id, op, sector, sectors).flags(flags)
    }

    /// A client wants to submit a bio, after those it could not submit yet.
    fn wish(&mut self, person: usize, bio: Bio, synced: bool) -> Result<(), String> {
        if bio.sectors > 0 {
            self.people[person].last = (bio.sector, bio.end());
        }
        self.people[person].wishes.push_back((bio, synced));
        self.submit_wishes(person)
    }

    fn submit_wishes(&mut self, person: usize) -> Result<(), String> {
        while !self.people[person].asleep {
            let Some((bio, synced)) = self.people[person].wishes.pop_front() else { break };
            let bio = bio.cookie(self.promises.next_cookie());
            match self.queue.submit(self.now, bio) {
                Ok(ticket) => {
                    self.promises.submitted(&bio);
                    self.live.insert(bio.cookie, Live { bio, ticket, person, synced });
                    self.census.submitted += 1;
                }
                Err(SubmitError::Busy) => {
                    self.people[person].wishes.push_front((bio, synced));
                    self.people[person].asleep = true;
                    self.census.busies += 1;
                }
                // The largest request has become smaller since it was drawn.
                Err(SubmitError::TooLarge { most, .. }) => {
                    self.people[person].wishes.push_front((Bio { sectors: most, ..bio }, synced));
                }
                Err(error) => return Err(format!("{bio:?}: {error}")),
            }
        }
        Ok(())
    }

    /// Lets `span` pass.
    fn pass(&mut self, span: Nanos) -> Result<(), String> {
        let target = self.now + span;
        self.pump()?;
        while self.now < target {
            let next = [self.disk.next_event(), self.until].into_iter().flatten().min();
            self.reach(next.unwrap_or(target).min(target))?;
        }
        Ok(())
    }

    /// Advances time to `at`, which is not after the disk's next event.
    fn reach(&mut self, at: Nanos) -> Result<(), String> {
        self.now = self.now.max(at);
        loop {
            let completion = self.disk.advance(self.now);
            if let Some(completion) = completion {
                self.ends += 1;
                let lost =
                    self.ills.sabotage == Some(Sabotage::LosesEnds) && self.ends.is_multiple_of(8);
                if !lost {
                    let told = self.queue.complete(self.now, completion.tag, completion.outcome);
                    told.map_err(|_| format!("S2: {:?} had ended before", completion.tag))?;
                }
            }
            self.cut()?;
            if completion.is_none() {
                return self.pump();
            }
        }
    }

    /// Asks the queue until it says `Wait`.
    fn pump(&mut self) -> Result<(), String> {
        for _ in 0..ANSWERS {
            match self.queue.next(self.now) {
                Output::Issue(command) => self.issue(&command)?,
                Output::Done(cookie, outcome) => self.done(cookie, outcome)?,
                Output::Wake(client) => {
                    let woken = self.people.iter().position(|person| person.id == client);
                    let woken = woken.ok_or_else(|| format!("{client} was never here"))?;
                    self.people[woken].asleep = false;
                    self.submit_wishes(woken)?;
                }
                Output::Wait { until, why } => {
                    self.census.held += u64::from(why == Waiting::Flush);
                    self.census.indebted += u64::from(why == Waiting::Throttled);
                    self.until = until.filter(|&until| until > self.now);
                    let stands = self.until.is_none() && self.disk.next_event().is_none();
                    let waits = !self.live.is_empty() || self.people.iter().any(|p| p.asleep);
                    if stands && waits && !self.people.iter().any(|person| person.plugged) {
                        let live = self.live.values().map(|live| live.bio).collect::<Vec<_>>();
                        return Err(format!("S1: nothing moves ({why:?}): {live:?}"));
                    }
                    return Ok(());
                }
            }
        }
        Err(format!("S1: no Wait in {ANSWERS} answers"))
    }

    fn issue(&mut self, command: &Command) -> Result<(), String> {
        let cookies: Vec<Cookie> = self.queue.cookies(command.tag).collect();
        if command.op == Op::Flush && self.ills.sabotage == Some(Sabotage::ElidesFlushes) {
            let told = self.queue.complete(self.now, command.tag, Outcome::OK);
            return told.map_err(|_| String::from("S2: a flush had ended before"));
        }
        if self.disk.submit(self.now, command).is_err() {
            self.census.refusals += 1;
            let told = self.queue.requeue(self.now, command.tag);
            return told.map_err(|_| format!("S2: {command:?} had ended before"));
        }
        self.census.commands += 1;
        self.census.flushes += u64::from(command.op == Op::Flush);
        self.census.fua += u64::from(command.flags.contains(paternoster_core::Flags::FUA));
        self.census.merged += u64::from(cookies.len() > 1);
        let mut owners = Vec::new();
        if command.op != Op::Flush {
            for cookie in cookies {
                let live = self.live.get(&cookie);
                let bio = live.ok_or_else(|| format!("S2: {cookie} is not under way"))?.bio;
                if bio.sector != command.sector + owners.len() as u64 || bio.op != command.op {
                    return Err(format!("S2: {bio:?} in {command:?}"));
                }
                owners.resize(owners.len() + bio.sectors as usize, cookie);
            }
        }
        if owners.len() != command.sectors as usize {
            return Err(format!("S2: {} sectors of bios in {command:?}", owners.len()));
        }
        let first = usize::try_from(command.sector).expect("a sector of a small disk");
        self.written.push((first, owners));
        assert_eq!(self.written.len() as u64, self.disk.last_taken() + 1);
        self.cut()
    }

    fn done(&mut self, cookie: Cookie, outcome: Outcome) -> Result<(), String> {
        let live = self.live.remove(&cookie);
        let live = live.ok_or_else(|| format!("S2: {cookie} was handed back before"))?;
        self.promises.ended(cookie, outcome.status);
        self.census.failures += u64::from(matches!(outcome.status, Status::Failed(_)));
        self.cut()?;
        if live.synced && outcome.status == Status::Ok {
            let flush = Bio::flush(self.people[live.person].id);
            self.wish(live.person, flush, false)?;
        }
        Ok(())
    }

    /// Imagines a power failure: is everything promised on the medium?
    fn cut(&mut self) -> Result<(), String> {
        let state = (self.disk.events(), self.promises.beat());
        if self.judged == state {
            return Ok(());
        }
        self.judged = state;
        let seed = self.seed ^ self.census.cuts.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.census.cuts += 1;
        self.census.at_risk += u64::from(self.disk.is_at_risk());
        let survival = self.disk.cut(seed, &mut self.image);
        let partial = matches!(survival, Survival::SomeWrites | Survival::SomeSectors);
        self.census.partial += u64::from(partial);
        self.medium.clear();
        for (sector, &serial) in self.image.iter().enumerate() {
            let (first, owners) = &self.written[usize::try_from(serial).expect("few commands")];
            self.medium.push(owners[sector - first]);
        }
        self.promises.judge(&self.medium).map_err(|fault| {
            let (now, cut) = (self.now, self.census.cuts);
            format!("cut {cut} at {now}, of the cache {survival:?}: {fault}")
        })?;
        self.census.forgiven += u64::from(self.promises.forgives(&self.medium));
        Ok(())
    }

    /// All bios under way complete, and the disk drains.
    fn finish(&mut self) -> Result<(), String> {
        for person in 0..self.people.len() {
            self.unplug(person)?;
        }
        self.pump()?;
        let mut patience = PATIENCE;
        let mut before = self.promises.beat();
        while let Some(at) = [self.disk.next_event(), self.until].into_iter().flatten().min() {
            // A timer may fire after the last I/O; there is no need to wait for it.
            if self.live.is_empty() && self.disk.next_event().is_none() {
                break;
            }
            self.reach(at)?;
            if self.promises.beat() != before {
                (before, patience) = (self.promises.beat(), PATIENCE);
            }
            patience -= 1;
            if patience == 0 {
                return Err(format!("S1: time does not help: {:?}", self.live));
            }
        }
        if let Some(person) = self.people.iter().find(|person| !person.wishes.is_empty()) {
            return Err(format!("S1: nobody wakes {person:?}"));
        }
        Ok(())
    }
}

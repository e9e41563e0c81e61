// SPDX-License-Identifier: MIT OR Apache-2.0
//! World: a random caller of the library, and a naive model that knows what must result.
//!
//! A [`Plan`] says what device and which capacities; [`Step`]s say what the caller does. Both are
//! small and shrink well. [`run`] carries them out on a queue and checks every answer against the
//! model, which keeps only a map of the bios that have not ended and a list of the commands in the
//! device:
//!
//! ```text
//! submit ─▶ live bios ─ Issue: these, in order ─▶ commands ─ complete ─▶ ended ─ Done ─▶ gone
//!   Busy ─▶ owed a Wake                                     │ requeue
//!                  live bios ◀──────────────────────────────┘
//! ```
//!
//! What is checked:
//!
//! * W1  Each accepted bio ends once, with its cookie and the outcome that its command had.
//! * W2  A command covers exactly the sectors of its bios, in their order, within max_sectors,
//!   segments and depth.
//! * W3  A bio is in one command at a time, and in none once it has ended or was withdrawn.
//! * W4  A flush is alone in the device. PREFLUSH data follows a flush that began after its
//!   submission; FUA without FUA in the device ends after a flush that began after its data; a
//!   flush ends after one of its own.
//! * W5  Each `Wait` is true: its reason holds, its `until` is in the future, and with `Empty`
//!   nothing is left.
//! * W6  A client that got `Busy` gets a `Wake` by the time everything has drained.
//! * W7  A bounded number of `next` leads to a `Wait`.
//! * W8  The audit holds after every call; events are in order and as many as there were steps.
//!
//! A breach is an `Err` that says which step it was. Nothing here panics because of a bug in the
//! library.

mod bios;
mod ledger;
mod model;
mod people;
mod plan;
mod step;

use std::fmt::Write as _;

use paternoster_core::{
    Bio, CancelError, ClientId, ClientSpec, Command, Cookie, Elevator, GroupId, GroupSpec, Nanos,
    Op, Outcome, Output, Priority, RequestQueue, SubmitError, Waiting,
};

use ledger::Ledger;
use model::{Live, Model, Stand};
use people::{Held, Person};
use step::{Span, VALUES, Where, choose, class};

pub(crate) use ledger::Census;
pub(crate) use plan::{Plan, choices, make, plans};
pub(crate) use step::{End, Step, What, steps, steps_after_settings, steps_of_one_run};

struct World {
    plan: Plan,
    queue: RequestQueue<Ledger>,
    now: Nanos,
    next_cookie: Cookie,
    model: Model,
    people: Vec<Person>,
    groups: Vec<GroupId>,
    retired: Option<Box<dyn Elevator>>,
    until: Option<Nanos>,
    census: Census,
}

/// Carries out a plan. Returns what was wrong, if anything.
pub(crate) fn run(plan: &Plan, steps: &[Step]) -> Result<Census, String> {
    let mut world = World::new(plan);
    for (number, &step) in steps.iter().enumerate() {
        world.carry_out(step).map_err(|fault| format!("step {number}, {step:?}: {fault}"))?;
    }
    world.finish().map_err(|fault| format!("at the end: {fault}"))?;
    let ledger = world.queue.observer();
    Ok(Census { joined: ledger.joined, digest: ledger.digest, ..world.census })
}

impl World {
    fn new(plan: &Plan) -> World {
        let plan = *plan;
        let mut queue = RequestQueue::builder(plan.facts, make(plan.elevator))
            .limits(plan.limits)
            .observer(Ledger::default())
            .build()
            .expect("its limits work");
        if let Some((bug, after)) = plan.bug {
            queue.plant(bug, after);
        }
        let mut world = World {
            plan,
            model: Model::new(plan.facts, queue.max_sectors()),
            queue,
            now: Nanos::ZERO,
            next_cookie: 1,
            people: Vec::new(),
            groups: Vec::new(),
            retired: None,
            until: None,
            census: Census::default(),
        };
        for _ in 0..plan.people {
            world.attach(0, 0);
        }
        world
    }

    /// W8, after every call.
    fn check(&self) -> Result<(), String> {
        if self.plan.audits {
            self.queue.audit()?;
        }
        let ledger = self.queue.observer();
        if let Some(breach) = &ledger.breach {
            return Err(breach.clone());
        }
        let under_way = u64::from(self.queue.in_device());
        if ledger.issued != ledger.completed + ledger.refused + under_way {
            return Err(format!("W8: {ledger:?}, and {under_way} in the device"));
        }
        if self.model.commands.len() as u64 != under_way {
            return Err(format!(
                "W3: {under_way} in the device, not {}",
                self.model.commands.len()
            ));
        }
        Ok(())
    }

    fn carry_out(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Submit { who, what, place, sectors } => {
                self.submit(who, what, place, u32::from(sectors) + 1)?;
            }
            Step::Burst { who, what, at, count, gap } => {
                for number in 0..u16::from(count) {
                    let place = Where::At(at + number * (1 + u16::from(gap)));
                    let before = self.census.submitted;
                    self.submit(who, what, place, 8)?;
                    if self.census.submitted == before {
                        break;
                    }
                }
            }
            Step::Pump => self.pump()?,
            Step::Next(times) => {
                for _ in 0..times {
                    if self.next()? {
                        break;
                    }
                }
            }
            Step::Complete(which, end) => self.complete(which, end)?,
            Step::Pass(span) => self.pass(span),
            Step::Requeue(which) => self.requeue(which)?,
            Step::Cancel(which) => self.cancel(which)?,
            Step::Plug(who) => self.with_person(who, |queue, now, id| queue.plug(now, id))?,
            Step::Unplug(who) => self.with_person(who, |queue, now, id| queue.unplug(now, id))?,
            Step::ChangeElevator(to) => self.change_elevator(make(usize::from(to)))?,
            Step::RestoreElevator => {
                if let Some(elevator) = self.retired.take() {
                    self.change_elevator(elevator)?;
                }
            }
            Step::Set { attribute, value } => {
                self.set(attribute, value);
                self.within_limits()?;
            }
            Step::Attach { group, class } => self.attach(group, class),
            Step::Detach(who) => self.detach(who)?,
            Step::SetPriority { who, class: number, level } => {
                let priority = Priority { class: class(number), level };
                let weight = u32::from(level) * 100;
                self.with_person(who, |queue, now, id| {
                    queue.set_priority(now, id, priority, weight)
                })?;
            }
            Step::Move { who, group } => {
                let to = self.group(group);
                self.with_person(who, |queue, now, id| queue.move_client(now, id, to))?;
            }
            Step::AddGroup { parent, weight } => {
                let spec = GroupSpec::new().weight(weight.into()).parent(self.group(parent));
                self.groups.extend(self.queue.add_group(self.now, spec).ok());
            }
            Step::SetWeight { group, weight } => {
                let (now, group) = (self.now, self.group(group));
                let set = self.queue.set_group_weight(now, group, weight.into());
                set.map_err(|_| "a live group is stale")?;
            }
            Step::RemoveGroup(which) => self.remove_group(which),
            Step::DispatchAll => {
                self.queue.dispatch_all(self.now);
            }
            Step::Explain(which) => self.explain(which)?,
            Step::Misuse(which) => self.misuse(which)?,
        }
        self.check()
    }

    fn with_person<E: std::fmt::Debug>(
        &mut self,
        who: u8,
        act: impl FnOnce(&mut RequestQueue<Ledger>, Nanos, ClientId) -> Result<(), E>,
    ) -> Result<(), String> {
        let Some(&person) = choose(&self.people, who) else { return Ok(()) };
        act(&mut self.queue, self.now, person.id)
            .map_err(|error| format!("{} is here: {error:?}", person.id))
    }

    fn group(&self, number: u8) -> GroupId {
        let groups = self.groups.len();
        let place = usize::from(number) % (groups + 1);
        self.groups.get(place).copied().unwrap_or(self.queue.root())
    }

    fn attach(&mut self, group: u8, number: u8) {
        let spec = ClientSpec::new()
            .group(self.group(group))
            .priority(class(number), number)
            .weight(u32::from(number) * 50)
            .pid(number.into());
        if let Ok(id) = self.queue.attach(self.now, spec) {
            self.people.push(Person::new(id));
        }
    }

    fn detach(&mut self, who: u8) -> Result<(), String> {
        if self.people.is_empty() {
            return Ok(());
        }
        let person = self.people.remove(usize::from(who) % self.people.len());
        self.queue.detach(self.now, person.id).map_err(|_| "a client that is here is stale")?;
        let late = self.queue.submit(self.now, Bio::new(person.id, Op::Read, 0, 8));
        match late {
            Err(SubmitError::NoClient) => Ok(()),
            other => Err(format!("a client that left may submit: {other:?}")),
        }
    }

    fn remove_group(&mut self, which: u8) {
        if self.groups.is_empty() {
            return;
        }
        let place = usize::from(which) % self.groups.len();
        if self.queue.remove_group(self.now, self.groups[place]).is_ok() {
            self.groups.remove(place);
        }
    }

    fn submit(&mut self, who: u8, what: What, place: Where, sectors: u32) -> Result<(), String> {
        let index = match self.people.len() {
            0 => return Ok(()),
            people => usize::from(who) % people,
        };
        // A sleeping client stays asleep, mostly.
        if self.people[index].owed && who < 12 {
            return Ok(());
        }
        let woken = self.people[index].refused.filter(|_| !self.people[index].owed);
        let bio = match woken {
            Some(bio) => {
                self.people[index].refused = None;
                bio
            }
            None => {
                self.next_cookie += 1;
                bios::draw((&self.people, index), (what, place, sectors), self.next_cookie - 1)
            }
        };
        self.offer(index, bio)
    }

    fn offer(&mut self, index: usize, bio: Bio) -> Result<(), String> {
        self.model.tick();
        let right = bios::is_right(&bio, self.queue.max_sectors(), &self.plan.facts);
        let (limited, others) = self.queue.allocated();
        match self.queue.submit(self.now, bio) {
            Ok(ticket) => {
                if !right {
                    return Err(format!("{bio:?} was accepted"));
                }
                self.census.submitted += 1;
                self.people[index].last = (bio.sector, bio.end());
                self.people[index].has_turn = false;
                self.model.accepted(bio, ticket)?;
            }
            Err(SubmitError::Busy) => {
                if !right {
                    return Err(format!("{bio:?} is no bio to wait for"));
                }
                self.census.busies += 1;
                let (bios, limits) = (self.model.live.len(), &self.plan.limits);
                self.people[index].falls_asleep(bio, limited + others, bios, limits);
            }
            Err(error) if right => return Err(format!("{bio:?} was refused: {error}")),
            Err(error) => {
                if error.to_string().is_empty() {
                    return Err(String::from("an error without words"));
                }
            }
        }
        self.check()
    }

    /// One answer; whether it was `Wait`.
    fn next(&mut self) -> Result<bool, String> {
        let output = self.queue.next(self.now);
        match output {
            Output::Issue(command) => self.issued(command)?,
            Output::Done(cookie, outcome) => self.model.ended(cookie, outcome)?,
            Output::Wake(client) => self.woken(client)?,
            Output::Wait { until, why } => {
                self.check()?;
                self.until = until;
                self.census.idle_waits += u64::from(why == Waiting::Idling);
                if why == Waiting::Empty {
                    self.model.largest = self.queue.max_sectors();
                }
                let waits = self.model.waits(self.now, until, why);
                waits.map_err(|fault| format!("W5: {why:?}: {fault}"))?;
                self.sleepers()?;
                return Ok(true);
            }
        }
        self.check().map_err(|fault| format!("{output:?}: {fault}"))?;
        Ok(false)
    }

    fn pump(&mut self) -> Result<(), String> {
        let limits = &self.plan.limits;
        let bound = 16 * (limits.bios + limits.requests + limits.clients + self.plan.facts.depth);
        for _ in 0..bound {
            if self.next()? {
                return Ok(());
            }
        }
        Err(format!("W7: no Wait after {bound} calls of next"))
    }

    /// Whether the rules are legacy, and how many requests there may be.
    fn nominal(&self) -> (bool, u32) {
        let shown = |name: &str| {
            let mut text = String::new();
            self.queue.show_attribute(name, &mut text).map(|()| text).unwrap_or_default()
        };
        (shown("rules") == "legacy", shown("nr_requests").parse().unwrap_or(0))
    }

    /// Settings stay within what was promised when the queue was made, even across changes.
    fn within_limits(&self) -> Result<(), String> {
        let (legacy, nominal) = self.nominal();
        let (least, most) = if legacy {
            (4, self.plan.limits.requests / 3)
        } else {
            (1, self.plan.limits.requests)
        };
        if nominal < least
            || nominal > most
            || self.queue.max_sectors() > self.plan.facts.max_sectors
        {
            return Err(format!("nr_requests {nominal}, legacy {legacy}, {least} to {most}"));
        }
        Ok(())
    }

    /// W6.
    fn sleepers(&self) -> Result<(), String> {
        let (legacy, nominal) = self.nominal();
        let (requests, bios) = (self.queue.allocated(), self.model.live.len());
        let held = Held { requests, bios, legacy, nominal };
        people::sleepers(&self.people, &self.plan.limits, held)
    }

    fn issued(&mut self, command: Command) -> Result<(), String> {
        self.model.tick();
        let cookies: Vec<Cookie> = self.queue.cookies(command.tag).collect();
        self.census.commands += 1;
        self.census.merged += u64::from(cookies.len() > 1);
        self.census.flushes += u64::from(command.op == Op::Flush);
        if self.queue.client(command.client).is_none() {
            return Err(format!("W2: no client of {command:?}"));
        }
        self.model.issued(command, cookies)
    }

    fn complete(&mut self, which: u8, end: End) -> Result<(), String> {
        self.model.tick();
        let Some(carried) = self.model.take_command(which) else { return Ok(()) };
        let outcome = match end {
            End::Ok => Outcome::OK,
            End::Served(micros) => Outcome::OK.served(Nanos::from_micros(micros.into())),
            End::Failed(errno) => Outcome::failed(i32::from(errno) + 1),
        };
        let tag = carried.command.tag;
        self.queue.complete(self.now, tag, outcome).map_err(|_| "W3: a command is stale")?;
        self.model.completed(&carried, outcome);
        self.check()
    }

    fn requeue(&mut self, which: u8) -> Result<(), String> {
        let Some(carried) = self.model.take_command(which) else { return Ok(()) };
        self.census.refusals += 1;
        let tag = carried.command.tag;
        self.queue.requeue(self.now, tag).map_err(|_| "W3: a command is stale")?;
        self.model.refused(&carried);
        self.check()
    }

    fn woken(&mut self, client: ClientId) -> Result<(), String> {
        self.census.wakes += 1;
        let Some(index) = self.people.iter().position(|person| person.id == client) else {
            return Err(format!("W6: {client} is woken and has left"));
        };
        let person = &mut self.people[index];
        person.wakes()?;
        match person.refused {
            Some(bio) if self.plan.eager => {
                person.refused = None;
                self.offer(index, bio)
            }
            _ => Ok(()),
        }
    }

    fn pass(&mut self, span: Span) {
        let passed = match span {
            Span::Until => self.until.map_or(Nanos::from_micros(100), |until| until - self.now),
            Span::Micros(micros) => Nanos::from_micros(micros.into()),
            Span::Millis(millis) => Nanos::from_millis(millis.into()),
            Span::Hours(hours) => Nanos::from_secs(u64::from(hours) * 3600),
            Span::Back => {
                let before = self.now - Nanos::from_millis(50);
                self.queue.set_attribute(before, "rotational", "1").ok();
                return;
            }
        };
        self.now += passed;
    }

    fn cancel(&mut self, which: u8) -> Result<(), String> {
        let cookies: Vec<Cookie> = self.model.live.keys().copied().collect();
        let Some(cookie) = choose(&cookies, which) else { return Ok(()) };
        let Some(live) = self.model.live.get_mut(cookie) else { return Ok(()) };
        let before = self.queue.request_with(live.ticket).map(|request| request.sectors());
        match self.queue.cancel(self.now, live.ticket) {
            Ok(()) if live.stand == Stand::Waiting => {
                live.stand = Stand::Withdrawn;
                self.census.cancels += 1;
                let alone = before.is_none_or(|sectors| sectors == live.bio.sectors);
                self.census.merged_cancels += u64::from(!alone);
                Ok(())
            }
            Ok(()) => Err(format!("W3: {live:?} was withdrawn")),
            Err(CancelError::Stale) => Err(format!("W3: {live:?} is stale")),
            Err(_) => Ok(()),
        }
    }

    fn change_elevator(&mut self, elevator: Box<dyn Elevator>) -> Result<(), String> {
        if self.plan.faithful {
            return Ok(());
        }
        self.census.changes += 1;
        let old = self.queue.change_elevator(self.now, elevator);
        if old.waiting() != 0 {
            return Err(format!(
                "{} comes back with {} requests",
                old.traits().name,
                old.waiting()
            ));
        }
        self.retired = Some(old);
        self.within_limits()
    }

    fn set(&mut self, attribute: u8, value: u8) {
        let mut names = Vec::new();
        self.queue.for_each_attribute(|name, _, _| names.push(String::from(name)));
        let name = &names[usize::from(attribute) % names.len()];
        let mut shown = String::new();
        let text = VALUES[usize::from(value) % VALUES.len()];
        let result = self.queue.set_attribute(self.now, name, text);
        if let Err(error) = result {
            // It has words, and reading does no harm.
            let _written = write!(shown, "{error}");
        }
        let _found = self.queue.show_attribute(name, &mut shown);
        self.model.largest = self.model.largest.max(self.queue.max_sectors());
    }

    fn explain(&mut self, which: u8) -> Result<(), String> {
        let lives: Vec<Live> = self.model.live.values().copied().collect();
        let Some(live) = choose(&lives, which) else { return Ok(()) };
        let words = self.queue.explain(live.ticket).to_string();
        let right = match live.stand {
            Stand::InDevice => words.contains("in the device") || words.contains("flush"),
            Stand::Waiting => words.starts_with("it ") || words.starts_with("its "),
            _ => !words.is_empty(),
        };
        if right { Ok(()) } else { Err(format!("{live:?}: {words}")) }
    }

    fn misuse(&mut self, which: u8) -> Result<(), String> {
        let Some(&(tag, ticket)) = choose(&self.model.gone, which) else { return Ok(()) };
        let now = self.now;
        let stale = match (tag, ticket) {
            (Some(tag), _) => {
                self.queue.complete(now, tag, Outcome::OK).is_err()
                    && self.queue.requeue(now, tag).is_err()
            }
            (_, Some(ticket)) => self.queue.cancel(now, ticket).is_err(),
            _ => true,
        };
        if stale { Ok(()) } else { Err(String::from("W3: a handle outlived what it named")) }
    }

    /// Everything drains; no client is forgotten (W1, W6); all leave.
    fn finish(&mut self) -> Result<(), String> {
        for index in 0..self.people.len() {
            let id = self.people[index].id;
            self.queue.unplug(self.now, id).map_err(|_| "a client that is here is stale")?;
        }
        self.check()?;
        let bound = 64 * (self.plan.limits.bios + self.plan.limits.requests);
        let mut rounds = 0;
        loop {
            self.pump()?;
            rounds += 1;
            if rounds > bound {
                return Err(format!("W7: not empty after {rounds} rounds"));
            }
            if !self.model.commands.is_empty() {
                self.complete(0, End::Ok)?;
            } else if let Some(until) = self.until {
                self.now = until;
            } else if !self.retry_refused()? {
                break;
            }
        }
        if !self.model.live.is_empty() {
            return Err(format!("W1: these never ended: {:?}", self.model.live));
        }
        if let Some(person) = self.people.iter().find(|person| person.owed) {
            return Err(format!("W6: {} sleeps and nothing will wake it", person.id));
        }
        if self.queue.allocated() != (0, 0) {
            return Err(format!("requests are left: {:?}", self.queue.allocated()));
        }
        self.leave()
    }

    /// Clients that were woken try again; whether any did.
    fn retry_refused(&mut self) -> Result<bool, String> {
        for index in 0..self.people.len() {
            if self.people[index].owed {
                continue;
            }
            if let Some(bio) = self.people[index].refused.take() {
                self.offer(index, bio)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn leave(&mut self) -> Result<(), String> {
        while let Some(person) = self.people.pop() {
            self.queue.detach(self.now, person.id).map_err(|_| "a client that is here is stale")?;
            self.check()?;
            if self.queue.client(person.id).is_some() {
                return Err(format!("{} has no bios and stays", person.id));
            }
        }
        for _ in 0..self.groups.len() {
            for which in 0..4 {
                self.remove_group(which);
            }
        }
        if !self.groups.is_empty() {
            return Err(format!("empty groups cannot be removed: {:?}", self.groups));
        }
        self.check()
    }
}

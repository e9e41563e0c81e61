// SPDX-License-Identifier: MIT OR Apache-2.0
//! World: a random caller of the library, and a naive model that knows what must come of it.
//!
//! A [`Plan`] says what device and which capacities; [`Step`]s say what the caller does. Both are
//! small and shrink well. [`run`] carries them out on a queue and checks every answer against the
//! model, which keeps nothing but a map of the bios that have not ended and a list of the
//! commands that are in the device:
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
//! * W4  A flush is in the device alone. PREFLUSH data follow a flush that began behind their
//!   submission; FUA without FUA in the device ends behind a flush that began behind its data; a
//!   flush ends behind one of its own.
//! * W5  Each `Wait` is true: its reason holds, its `until` lies ahead, and with `Empty` nothing
//!   is left.
//! * W6  Who got `Busy` gets a `Wake` by the time everything has drained.
//! * W7  A bounded number of `next` leads to a `Wait`.
//! * W8  The audit holds after every call; events are in order and as many as there were steps.
//!
//! A breach is an `Err` that says which step it was. Nothing here panics for a bug of the
//! library.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paternoster_core::elevator::Rules;
use paternoster_core::planted::Bug;
use paternoster_core::{
    Action, Bio, Class, ClientId, ClientSpec, Command, Cookie, DeviceFacts, Elevator, Event, Flags,
    GroupId, GroupSpec, Limits, Nanos, Note, Observer, Op, Outcome, Output, Priority, RequestQueue,
    Status, SubmitError, Tag, Ticket, Waiting, elevators,
};
use proptest::prelude::*;

use super::bare::Bare;
use super::slices::Slices;

/// Sectors of the device: few, so that bios meet.
const CAPACITY: u64 = 4096;

/// How many elevators there are to choose from: the library's, the fixture under both rules, and
/// one that has the core of the trait alone.
pub(crate) fn choices() -> usize {
    elevators::ALL.len() + 3
}

/// One of the elevators.
pub(crate) fn make(choice: usize) -> Box<dyn Elevator> {
    let choice = choice % choices();
    match elevators::ALL.get(choice) {
        Some(entry) => (entry.make)(),
        None => match choice - elevators::ALL.len() {
            0 => Box::new(Slices::new()),
            1 => Box::new(Slices::with_rules(Rules::Mq)),
            _ => Box::new(Bare::default()),
        },
    }
}

/// The world before the first step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) elevator: usize,
    /// The elevator stays: steps that would change it do nothing.
    pub(crate) faithful: bool,
    pub(crate) facts: DeviceFacts,
    pub(crate) limits: Limits,
    /// Clients there are from the start.
    pub(crate) people: u32,
    /// Whether a woken client tries again at once, or when its next turn comes.
    pub(crate) eager: bool,
    /// A bug to be planted, and after how many opportunities it strikes.
    pub(crate) bug: Option<(Bug, u32)>,
    /// Whether the audit is asked. Without it only what a caller can see is left.
    pub(crate) audits: bool,
}

/// What a bio is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Read,
    Write,
    SyncWrite,
    Discard,
    Flush,
    Fua,
    Preflush,
    PreflushFua,
    ReadFua,
    Alone,
    Urgent,
}

/// Where a bio is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Where {
    /// Behind the client's last.
    Behind,
    /// Before the client's last.
    Before,
    /// Behind another client's last.
    BehindOther(u8),
    At(u16),
    BeyondTheEnd,
}

/// How far time goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Span {
    /// To where the last `Wait` asked for.
    Until,
    Micros(u16),
    Millis(u16),
    Hours(u16),
    /// Backwards: the queue takes it as no time at all.
    Back,
}

/// How a command ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Ok,
    Served(u16),
    Failed(u8),
}

/// One thing that the caller does. Numbers choose among what there is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Submit {
        who: u8,
        what: What,
        place: Where,
        sectors: u8,
    },
    /// Several bios one behind the other, or with gaps, until one is not accepted.
    Burst {
        who: u8,
        what: What,
        at: u16,
        count: u8,
        gap: u8,
    },
    Pump,
    Next(u8),
    Complete(u8, End),
    Pass(Span),
    Requeue(u8),
    Cancel(u8),
    Plug(u8),
    Unplug(u8),
    ChangeElevator(u8),
    /// Puts the elevator back that was there before.
    RestoreElevator,
    Set {
        attribute: u8,
        value: u8,
    },
    Attach {
        group: u8,
        class: u8,
    },
    Detach(u8),
    SetPriority {
        who: u8,
        class: u8,
        level: u8,
    },
    Move {
        who: u8,
        group: u8,
    },
    AddGroup {
        parent: u8,
        weight: u16,
    },
    SetWeight {
        group: u8,
        weight: u16,
    },
    RemoveGroup(u8),
    DispatchAll,
    Explain(u8),
    /// Handles of what has gone.
    Misuse(u8),
}

/// Takes a number apart, least significant choice first.
struct Dice(u32);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        let face = self.0 % sides;
        self.0 /= sides;
        face
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(16)).unwrap_or(0)
    }

    fn short(&mut self, sides: u16) -> u16 {
        u16::try_from(self.roll(sides.into())).unwrap_or(0)
    }
}

impl What {
    fn roll(dice: &mut Dice) -> What {
        match dice.roll(32) {
            0..14 => What::Read,
            14..20 => What::Write,
            20..23 => What::SyncWrite,
            23 => What::Discard,
            24 => What::Flush,
            25 => What::Fua,
            26 => What::Preflush,
            27 => What::PreflushFua,
            28 => What::ReadFua,
            29 => What::Alone,
            _ => What::Urgent,
        }
    }
}

impl Where {
    fn roll(dice: &mut Dice) -> Where {
        match dice.roll(16) {
            0..7 => Where::Behind,
            7 | 8 => Where::Before,
            9..12 => Where::BehindOther(dice.byte()),
            12..15 => Where::At(dice.short(512)),
            _ if dice.roll(4) == 0 => Where::BeyondTheEnd,
            _ => Where::At(0),
        }
    }
}

impl Span {
    fn roll(dice: &mut Dice) -> Span {
        match dice.roll(16) {
            0..7 => Span::Until,
            7..11 => Span::Micros(dice.short(5000)),
            11..14 => Span::Millis(dice.short(200)),
            14 => Span::Back,
            _ => Span::Hours(dice.short(20)),
        }
    }
}

impl End {
    fn roll(dice: &mut Dice) -> End {
        match dice.roll(8) {
            0..5 => End::Ok,
            5 | 6 => End::Served(dice.short(10_000)),
            _ => End::Failed(dice.byte()),
        }
    }
}

impl Step {
    /// The step for a kind below 100 and a number from which the rest is drawn.
    pub(crate) fn draw(kind: u8, rest: u32) -> Step {
        let dice = &mut Dice(rest);
        match kind {
            0..33 => Step::Submit {
                who: dice.byte(),
                what: What::roll(dice),
                sectors: dice.byte(),
                place: Where::roll(dice),
            },
            33..36 => Step::Burst {
                who: dice.byte(),
                what: What::roll(dice),
                at: dice.short(512),
                count: dice.byte() + 4,
                gap: dice.byte() / 6,
            },
            36..48 => Step::Pump,
            48..54 => Step::Next(dice.byte()),
            54..68 => Step::Complete(dice.byte(), End::roll(dice)),
            68..75 => Step::Pass(Span::roll(dice)),
            75..78 => Step::Requeue(dice.byte()),
            78..81 => Step::Cancel(dice.byte()),
            81 | 82 => Step::Plug(dice.byte()),
            83 | 84 => Step::Unplug(dice.byte()),
            85 => Step::ChangeElevator(dice.byte()),
            86 if dice.roll(2) == 0 => Step::RestoreElevator,
            86 => Step::ChangeElevator(dice.byte()),
            87..90 => Step::Set { attribute: dice.byte() * 16 + dice.byte(), value: dice.byte() },
            90 => Step::Attach { group: dice.byte(), class: dice.byte() },
            91 => Step::Detach(dice.byte()),
            92 => Step::SetPriority { who: dice.byte(), class: dice.byte(), level: dice.byte() },
            93 => Step::Move { who: dice.byte(), group: dice.byte() },
            94 => Step::AddGroup { parent: dice.byte(), weight: dice.short(12_000) },
            95 => Step::SetWeight { group: dice.byte(), weight: dice.short(12_000) },
            96 => Step::RemoveGroup(dice.byte()),
            97 => Step::DispatchAll,
            98 => Step::Explain(dice.byte()),
            _ => Step::Misuse(dice.byte()),
        }
    }
}

/// Random steps, at most `most`.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0u8..100, any::<u32>()).prop_map(|(kind, rest)| Step::draw(kind, rest));
    prop::collection::vec(step, 1..=most)
}

/// Random worlds.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let device = (any::<u8>(), 1u32..=32, 0usize..4, 0usize..3);
    let limits = (12u32..=64, 16u32..=64, 1u32..=6, 1u32..=4, 0u32..=4);
    (0..choices(), device, limits, any::<bool>()).prop_map(
        |(elevator, (bits, depth, largest, segments), limits, eager)| {
            let (requests, bios, clients, groups, notes) = limits;
            let facts = DeviceFacts {
                capacity: CAPACITY,
                // Shallow devices are the ones that fill.
                depth: if bits & 16 == 0 { 1 + depth % 4 } else { depth },
                rotational: bits & 1 != 0,
                write_cache: bits & 2 != 0,
                fua: bits & 4 != 0,
                flush_queueable: bits & 8 != 0,
                max_sectors: [2560, 16, 24, 64][largest],
                max_segments: [128, 2, 5][segments],
            };
            let limits = Limits { requests, bios, clients, groups, notes };
            Plan {
                elevator,
                faithful: false,
                facts,
                limits,
                people: clients,
                eager,
                bug: None,
                audits: true,
            }
        },
    )
}

/// What happened in a run, to see that the driver goes everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) submitted: u64,
    pub(crate) commands: u64,
    pub(crate) merged: u64,
    pub(crate) busies: u64,
    pub(crate) wakes: u64,
    pub(crate) flushes: u64,
    pub(crate) refusals: u64,
    pub(crate) cancels: u64,
    pub(crate) merged_cancels: u64,
    pub(crate) changes: u64,
    pub(crate) idle_waits: u64,
    pub(crate) joined: u64,
    /// A hash of all events and notes: the same calls, the same answers.
    pub(crate) digest: u64,
}

/// Checks the stream (W8) and counts it.
#[derive(Debug, Default)]
struct Ledger {
    sequence: u64,
    at: Nanos,
    issued: u64,
    completed: u64,
    refused: u64,
    joined: u64,
    digest: u64,
    breach: Option<String>,
}

impl Ledger {
    fn follow(&mut self, at: Nanos, sequence: u64, words: [u64; 3]) {
        if sequence != self.sequence || at < self.at {
            let expected = self.sequence;
            self.breach = Some(format!("W8: event {sequence} at {at}, expected {expected}"));
        }
        self.sequence = sequence + 1;
        self.at = at;
        for word in [at.0, words[0], words[1], words[2]] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Observer for Ledger {
    fn event(&mut self, event: &Event) {
        match event.action {
            Action::Issue => self.issued += 1,
            Action::Complete => self.completed += 1,
            Action::Requeue => self.refused += 1,
            _ => {}
        }
        let letter = u64::from(u32::from(event.action.letter()));
        let words = [letter, event.sector, u64::from(event.sectors)];
        self.follow(event.at, event.sequence, words);
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        self.joined += u64::from(matches!(note, Note::QueuesMerged { .. }));
        self.follow(at, sequence, [0; 3]);
    }
}

/// Where a bio is, as far as a caller can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    Waiting,
    InDevice,
    Withdrawn,
    /// Its data have ended so; since that beat.
    Ended(Outcome, u64),
}

/// A bio that was accepted and has not been handed back.
#[derive(Debug, Clone, Copy)]
struct Live {
    bio: Bio,
    ticket: Ticket,
    /// The beat of its submission.
    born: u64,
    stand: Stand,
}

#[derive(Debug, Clone)]
struct Carried {
    command: Command,
    cookies: Vec<Cookie>,
    /// The beat of its issue.
    issued: u64,
}

#[derive(Debug, Clone, Copy)]
struct Person {
    id: ClientId,
    /// Got Busy and no Wake since.
    owed: bool,
    /// The bio that got Busy.
    refused: Option<Bio>,
    /// When it got Busy, all places for bios were taken.
    for_bio: bool,
    /// When it got Busy, requests of both pools together had all slots: only under changing rules.
    for_slot: bool,
    /// Got a Wake, and has not submitted since what the queue could take or refuse.
    has_turn: bool,
    busies: u64,
    wakes: u64,
    last: (u64, u64),
}

struct World {
    plan: Plan,
    queue: RequestQueue<Ledger>,
    now: Nanos,
    /// Numbers what happens, for "before" and "behind".
    beat: u64,
    next_cookie: Cookie,
    live: BTreeMap<Cookie, Live>,
    commands: Vec<Carried>,
    people: Vec<Person>,
    groups: Vec<GroupId>,
    retired: Option<Box<dyn Elevator>>,
    until: Option<Nanos>,
    /// The largest request that was allowed since the queue was last empty.
    largest: u32,
    /// When the last flush that succeeded was issued.
    flushed: u64,
    /// When the last write ended that may be in the cache.
    dirtied: u64,
    /// When the cache was last known to be clean: a flush may be elided then.
    clean: u64,
    /// Flushes that failed, and when.
    failures: Vec<(u64, Outcome)>,
    gone: Vec<(Option<Tag>, Option<Ticket>)>,
    census: Census,
}

/// Carries out a plan. What was wrong, if anything.
pub(crate) fn run(plan: &Plan, steps: &[Step]) -> Result<Census, String> {
    let mut world = World::new(plan);
    for (number, &step) in steps.iter().enumerate() {
        world.carry_out(step).map_err(|fault| format!("step {number}, {step:?}: {fault}"))?;
    }
    world.finish().map_err(|fault| format!("at the end: {fault}"))?;
    let ledger = world.queue.observer();
    Ok(Census { joined: ledger.joined, digest: ledger.digest, ..world.census })
}

/// The item that a random number means.
fn choose<T>(items: &[T], number: u8) -> Option<&T> {
    if items.is_empty() { None } else { items.get(usize::from(number) % items.len()) }
}

fn class(number: u8) -> Class {
    [Class::BestEffort, Class::Realtime, Class::Idle][usize::from(number) % 3]
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
            queue,
            now: Nanos::ZERO,
            beat: 0,
            next_cookie: 1,
            live: BTreeMap::new(),
            commands: Vec::new(),
            people: Vec::new(),
            groups: Vec::new(),
            retired: None,
            until: None,
            largest: 0,
            flushed: 0,
            dirtied: 0,
            clean: 0,
            failures: Vec::new(),
            gone: Vec::new(),
            census: Census::default(),
        };
        world.largest = world.queue.max_sectors();
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
        if self.commands.len() as u64 != under_way {
            return Err(format!("W3: {under_way} in the device, not {}", self.commands.len()));
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
            let start = u64::from(id.index()) * 512;
            self.people.push(Person {
                id,
                owed: false,
                refused: None,
                for_bio: false,
                for_slot: false,
                has_turn: false,
                busies: 0,
                wakes: 0,
                last: (start, start),
            });
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
        // One who sleeps is asleep, mostly.
        if self.people[index].owed && who < 12 {
            return Ok(());
        }
        let woken = self.people[index].refused.filter(|_| !self.people[index].owed);
        let bio = match woken {
            Some(bio) => {
                self.people[index].refused = None;
                bio
            }
            None => self.draw_bio(index, what, place, sectors),
        };
        self.offer(index, bio)
    }

    fn draw_bio(&mut self, index: usize, what: What, place: Where, sectors: u32) -> Bio {
        let person = self.people[index];
        let mut sectors = if sectors == 16 { 2600 } else { sectors };
        let sector = match place {
            Where::Behind => person.last.1,
            Where::Before => person.last.0.saturating_sub(sectors.into()),
            Where::BehindOther(other) => choose(&self.people, other).map_or(0, |p| p.last.1),
            Where::At(at) => u64::from(at) * 8,
            Where::BeyondTheEnd => CAPACITY - 1,
        };
        let (op, flags) = match what {
            What::Read => (Op::Read, Flags::NONE),
            What::Write => (Op::Write, Flags::NONE),
            What::SyncWrite => (Op::Write, Flags::SYNC),
            What::Discard => (Op::Discard, Flags::NONE),
            What::Flush => (Op::Flush, Flags::NONE),
            What::Fua => (Op::Write, Flags::FUA),
            What::Preflush => (Op::Write, Flags::PREFLUSH),
            What::PreflushFua => (Op::Write, Flags::PREFLUSH | Flags::FUA),
            What::ReadFua => (Op::Read, Flags::FUA),
            What::Alone => (Op::Write, Flags::NOMERGE),
            What::Urgent => (Op::Read, Flags::META | Flags::PRIO | Flags::NOIDLE),
        };
        if op == Op::Flush && sectors != 7 {
            sectors = 0;
        }
        let sector = if sectors == 0 { 0 } else { sector };
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let mut bio = Bio::new(person.id, op, sector, sectors).flags(flags).cookie(cookie);
        bio.segments = u16::try_from(cookie % 3).unwrap_or(0) + 1;
        if cookie.is_multiple_of(16) {
            let number = u8::try_from(cookie % 7).unwrap_or(0);
            bio.priority = Some(Priority { class: class(number), level: number });
        }
        bio
    }

    /// What is wrong with a bio, if anything.
    fn is_right(&self, bio: &Bio) -> bool {
        (bio.op == Op::Flush) == (bio.sectors == 0)
            && bio.end() <= CAPACITY
            && bio.sectors <= self.queue.max_sectors()
            && bio.segments <= self.plan.facts.max_segments
    }

    fn offer(&mut self, index: usize, bio: Bio) -> Result<(), String> {
        self.tick();
        let right = self.is_right(&bio);
        let bios = self.plan.limits.bios;
        let (limited, others) = self.queue.allocated();
        match self.queue.submit(self.now, bio) {
            Ok(ticket) => {
                if !right {
                    return Err(format!("{bio:?} was accepted"));
                }
                self.census.submitted += 1;
                self.people[index].last = (bio.sector, bio.end());
                self.people[index].has_turn = false;
                let live = Live { bio, ticket, born: self.beat, stand: Stand::Waiting };
                if self.live.insert(bio.cookie, live).is_some() {
                    return Err(format!("the driver used cookie {} twice", bio.cookie));
                }
            }
            Err(SubmitError::Busy) => {
                if !right {
                    return Err(format!("{bio:?} is no bio to wait for"));
                }
                self.census.busies += 1;
                let person = &mut self.people[index];
                person.owed = true;
                person.has_turn = false;
                person.busies += 1;
                person.refused = Some(bio);
                person.for_slot = limited + others >= self.plan.limits.requests;
                person.for_bio = self.live.len() >= bios as usize;
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
            Output::Done(cookie, outcome) => self.ended(cookie, outcome)?,
            Output::Wake(client) => self.woken(client)?,
            Output::Wait { until, why } => {
                self.check()?;
                self.until = until;
                self.waits(until, why).map_err(|fault| format!("W5: {why:?}: {fault}"))?;
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

    /// W5.
    fn waits(&mut self, until: Option<Nanos>, why: Waiting) -> Result<(), String> {
        let inside = self.commands.len();
        let outside = self.live.values().any(|live| live.stand != Stand::InDevice);
        let depth = self.plan.facts.depth as usize;
        if until.is_some_and(|until| until <= self.now) {
            return Err(format!("until {until:?}, and it is {}", self.now.0));
        }
        let right = match why {
            Waiting::Empty => {
                self.largest = self.queue.max_sectors();
                self.live.is_empty() && inside == 0
            }
            Waiting::InDevice => inside > 0 && !outside,
            Waiting::DeviceFull => inside == depth,
            Waiting::Idling => {
                self.census.idle_waits += 1;
                until.is_some() && outside
            }
            Waiting::Completion => inside > 0 && outside,
            // A flush is in the device, or waits for data under way, or for others (delayed).
            Waiting::Flush => outside && (inside > 0 || until.is_some()),
            Waiting::Throttled => outside && (inside > 0 || until.is_some()),
            // The device's plug opens with time, also when what it held back was withdrawn.
            Waiting::Plugged => outside || until.is_some(),
            Waiting::Refused => inside > 0 || until.is_some(),
        };
        if right {
            return Ok(());
        }
        Err(format!("until {until:?}, {inside} in the device, {:?}", self.live))
    }

    /// Whether the rules are legacy, and how many requests there may be.
    fn nominal(&self) -> (bool, u32) {
        let shown = |name: &str| {
            let mut text = String::new();
            self.queue.show_attribute(name, &mut text).map(|()| text).unwrap_or_default()
        };
        (shown("rules") == "legacy", shown("nr_requests").parse().unwrap_or(0))
    }

    /// What can be set stays within what was promised when the queue was made, also across changes.
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

    /// W6: nobody sleeps for what is free, unless as many others are awake and have not tried
    /// again yet.
    fn sleepers(&self) -> Result<(), String> {
        let asleep = |person: &&Person| person.owed;
        let mut sleepers = self.people.iter().filter(asleep).peekable();
        if sleepers.peek().is_none() {
            return Ok(());
        }
        let awake = self.people.iter().filter(|person| person.has_turn).count();
        let awake = u32::try_from(awake).unwrap_or(u32::MAX);
        let (limited, others) = self.queue.allocated();
        let (legacy, nominal) = self.nominal();
        let limits = &self.plan.limits;
        for person in sleepers {
            let sync = person.refused.is_none_or(|bio| bio.is_sync());
            let forgotten = if person.for_bio {
                self.live.len() + (awake as usize) < limits.bios as usize
            } else if legacy && !person.for_slot {
                // Who finds the pool one short of full sleeps as well, for the last goes to
                // batchers.
                let held = if sync { others } else { limited };
                held + awake + 1 < nominal
            } else {
                limited + others + awake == 0
            };
            if forgotten {
                let held = (limited, others, nominal, awake, self.live.len());
                return Err(format!("W6: {person:?} sleeps, held {held:?} of {limits:?}"));
            }
        }
        Ok(())
    }

    /// One call later.
    fn tick(&mut self) {
        self.beat += 1;
        self.look_whether_clean();
    }

    fn look_whether_clean(&mut self) {
        if self.flushed > self.dirtied {
            self.clean = self.beat;
        }
    }

    /// Whether who asked for a flush at `beat` has had one, or needed none.
    fn is_flushed(&self, beat: u64) -> bool {
        !self.plan.facts.write_cache || self.flushed > beat || self.clean >= beat
    }

    /// W2 to W4.
    fn issued(&mut self, command: Command) -> Result<(), String> {
        self.tick();
        self.census.commands += 1;
        let facts = self.plan.facts;
        let cookies: Vec<Cookie> = self.queue.cookies(command.tag).collect();
        self.census.merged += u64::from(cookies.len() > 1);
        if self.commands.len() >= facts.depth as usize || command.tag.index() >= facts.depth {
            return Err(format!("W2: {command:?} is beyond the depth {}", facts.depth));
        }
        if self.commands.iter().any(|other| other.command.tag.index() == command.tag.index()) {
            return Err(format!("W2: the tag of {command:?} is in use"));
        }
        if self.queue.client(command.client).is_none() {
            return Err(format!("W2: nobody is the client of {command:?}"));
        }
        let fua = command.flags.contains(Flags::FUA);
        if command.flags.contains(Flags::PREFLUSH)
            || (fua && !(facts.fua && facts.write_cache))
            || (command.op == Op::Flush && !facts.write_cache)
        {
            return Err(format!("W4: the device does not know {command:?}"));
        }
        if command.op == Op::Flush {
            self.census.flushes += 1;
            let second = self.commands.iter().any(|other| other.command.op == Op::Flush);
            if second || !cookies.is_empty() || command.sectors != 0 {
                return Err(format!("W4: {command:?} beside {:?}", self.commands));
            }
        } else {
            self.carries(&command, &cookies)?;
        }
        self.commands.push(Carried { command, cookies, issued: self.beat });
        Ok(())
    }

    fn carries(&mut self, command: &Command, cookies: &[Cookie]) -> Result<(), String> {
        let facts = self.plan.facts;
        let (mut at, mut segments) = (command.sector, 0);
        for cookie in cookies {
            let Some(live) = self.live.get_mut(cookie) else {
                return Err(format!("W3: {command:?} carries {cookie}, which is not here"));
            };
            let bio = live.bio;
            if live.stand != Stand::Waiting {
                return Err(format!("W3: {command:?} carries {cookie}: {live:?}"));
            }
            if bio.op != command.op || bio.sector != at {
                return Err(format!("W2: {command:?} should go on at {at} with {bio:?}"));
            }
            if facts.write_cache {
                let flushed = self.flushed > live.born || self.clean >= live.born;
                if bio.flags.contains(Flags::PREFLUSH) && !flushed {
                    return Err(format!("W4: no flush went before {bio:?}"));
                }
                let fua = bio.flags.contains(Flags::FUA);
                if fua && facts.fua && !command.flags.contains(Flags::FUA) {
                    return Err(format!("W4: {command:?} does not force {bio:?}"));
                }
            }
            live.stand = Stand::InDevice;
            at = bio.end();
            segments += bio.segments;
        }
        if at != command.end() || cookies.is_empty() || command.sectors == 0 {
            return Err(format!("W2: {command:?} covers more or less than {cookies:?}"));
        }
        if command.sectors > self.largest || segments > facts.max_segments {
            let largest = self.largest;
            return Err(format!("W2: {command:?} of {segments} segments, {largest} allowed"));
        }
        Ok(())
    }

    fn take_command(&mut self, which: u8) -> Option<Carried> {
        match self.commands.len() {
            0 => None,
            len => Some(self.commands.remove(usize::from(which) % len)),
        }
    }

    fn complete(&mut self, which: u8, end: End) -> Result<(), String> {
        self.tick();
        let Some(carried) = self.take_command(which) else { return Ok(()) };
        let outcome = match end {
            End::Ok => Outcome::OK,
            End::Served(micros) => Outcome::OK.served(Nanos::from_micros(micros.into())),
            End::Failed(errno) => Outcome::failed(i32::from(errno) + 1),
        };
        let tag = carried.command.tag;
        self.queue.complete(self.now, tag, outcome).map_err(|_| "W3: a command is stale")?;
        self.gone.push((Some(tag), None));
        for cookie in &carried.cookies {
            if let Some(live) = self.live.get_mut(cookie) {
                live.stand = Stand::Ended(outcome, self.beat);
            }
        }
        if carried.command.op != Op::Read && carried.command.op != Op::Flush {
            let durable = carried.command.flags.contains(Flags::FUA);
            self.dirtied = if durable { self.dirtied } else { self.beat };
        }
        if carried.command.op == Op::Flush {
            match outcome.status {
                Status::Ok => self.flushed = carried.issued,
                _ => self.failures.push((self.beat, outcome)),
            }
        }
        self.look_whether_clean();
        self.check()
    }

    fn requeue(&mut self, which: u8) -> Result<(), String> {
        let Some(carried) = self.take_command(which) else { return Ok(()) };
        self.census.refusals += 1;
        let tag = carried.command.tag;
        self.queue.requeue(self.now, tag).map_err(|_| "W3: a command is stale")?;
        self.gone.push((Some(tag), None));
        for cookie in &carried.cookies {
            if let Some(live) = self.live.get_mut(cookie) {
                live.stand = Stand::Waiting;
            }
        }
        self.check()
    }

    /// W1, W4.
    fn ended(&mut self, cookie: Cookie, outcome: Outcome) -> Result<(), String> {
        let Some(live) = self.live.remove(&cookie) else {
            return Err(format!("W1: {cookie} ends, and is not here (any more)"));
        };
        self.gone.push((None, Some(live.ticket)));
        let facts = self.plan.facts;
        let failed_behind =
            |beat: u64| self.failures.iter().any(|&(at, failure)| at > beat && failure == outcome);
        let ok = outcome.status == Status::Ok;
        let bio = live.bio;
        let right = match live.stand {
            Stand::Withdrawn => outcome.status == Status::Cancelled,
            Stand::InDevice => false,
            Stand::Waiting if bio.op == Op::Flush => {
                (ok && self.is_flushed(live.born)) || failed_behind(live.born)
            }
            // Its data never went out: only a flush before them can have failed.
            Stand::Waiting => bio.flags.contains(Flags::PREFLUSH) && failed_behind(live.born),
            Stand::Ended(data, at) => {
                let flush_follows = facts.write_cache
                    && !facts.fua
                    && bio.flags.contains(Flags::FUA)
                    && data.status == Status::Ok;
                if flush_follows {
                    (ok && self.is_flushed(at)) || failed_behind(at)
                } else {
                    data == outcome
                }
            }
        };
        if right { Ok(()) } else { Err(format!("W1: {live:?} ends with {outcome:?}")) }
    }

    fn woken(&mut self, client: ClientId) -> Result<(), String> {
        self.census.wakes += 1;
        let Some(index) = self.people.iter().position(|person| person.id == client) else {
            return Err(format!("W6: {client} is woken and has left"));
        };
        let person = &mut self.people[index];
        person.owed = false;
        person.has_turn = true;
        person.wakes += 1;
        if person.wakes > person.busies {
            return Err(format!("W6: {client} is woken more often than it fell asleep"));
        }
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
        let cookies: Vec<Cookie> = self.live.keys().copied().collect();
        let Some(cookie) = choose(&cookies, which) else { return Ok(()) };
        let Some(live) = self.live.get_mut(cookie) else { return Ok(()) };
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
            Err(paternoster_core::CancelError::Stale) => Err(format!("W3: {live:?} is stale")),
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
        const VALUES: [&str; 21] = [
            "0",
            "1",
            "2",
            "3",
            "5",
            "8",
            "40",
            "100",
            "1000",
            "18446744073709551615",
            "-1",
            "many",
            "mq",
            "legacy",
            "device",
            "probe",
            "off",
            "unqueueable",
            "writes",
            "head",
            "tail",
        ];
        let mut names = Vec::new();
        self.queue.for_each_attribute(|name, _, _| names.push(String::from(name)));
        let name = &names[usize::from(attribute) % names.len()];
        let mut shown = String::new();
        let text = VALUES[usize::from(value) % VALUES.len()];
        let result = self.queue.set_attribute(self.now, name, text);
        if let Err(error) = result {
            // It has words, and does not hinder reading.
            let _written = write!(shown, "{error}");
        }
        let _found = self.queue.show_attribute(name, &mut shown);
        self.largest = self.largest.max(self.queue.max_sectors());
    }

    fn explain(&mut self, which: u8) -> Result<(), String> {
        let lives: Vec<Live> = self.live.values().copied().collect();
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
        let Some(&(tag, ticket)) = choose(&self.gone, which) else { return Ok(()) };
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

    /// Everything drains; nobody is forgotten (W1, W6); everybody leaves.
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
            if !self.commands.is_empty() {
                self.complete(0, End::Ok)?;
            } else if let Some(until) = self.until {
                self.now = until;
            } else if !self.retry_refused()? {
                break;
            }
        }
        if !self.live.is_empty() {
            return Err(format!("W1: these never ended: {:?}", self.live));
        }
        if let Some(person) = self.people.iter().find(|person| person.owed) {
            return Err(format!("W6: {} sleeps and nobody will wake it", person.id));
        }
        if self.queue.allocated() != (0, 0) {
            return Err(format!("requests are left: {:?}", self.queue.allocated()));
        }
        self.leave()
    }

    /// Those who were woken try again; whether anybody did.
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

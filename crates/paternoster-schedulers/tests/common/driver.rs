// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue, a device that does what the test says, and a log of everything: the rig of the rule
//! tests.
//!
//! Time stands still until the test moves it (`at`, `at_us`). The device keeps its commands until
//! the test completes or refuses them. A second part is [`Scripted`], an elevator whose answers the
//! test sets.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use paternoster_core::elevator::{Admission, Fault, Pick, Place, Position, Rules, Traits};
use paternoster_core::{
    Action, Bio, ClientId, ClientSpec, Command, Cookie, DeviceFacts, Elevator, Event, Flags,
    Limits, Nanos, Note, Observer, Op, Outcome, Output, QueueView, RequestId, RequestQueue, Status,
    SubmitError, Ticket, Waiting,
};

/// Everything that was observed.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) notes: Vec<Note>,
}

impl Observer for Log {
    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }

    fn note(&mut self, _: Nanos, _: u64, note: &Note) {
        self.notes.push(*note);
    }
}

/// A queue and its device.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) queue: RequestQueue<Log>,
    pub(crate) now: Nanos,
    /// What is in the device, oldest first.
    pub(crate) inside: VecDeque<Command>,
    pub(crate) done: Vec<(Cookie, Status)>,
    pub(crate) wakes: Vec<ClientId>,
    /// What the last `pull` ended with.
    pub(crate) until: Option<Nanos>,
    pub(crate) why: Waiting,
}

/// A disk that takes `depth` commands, with the default limits.
pub(crate) fn disk(depth: u32) -> DeviceFacts {
    DeviceFacts { depth, rotational: true, ..DeviceFacts::default() }
}

/// More clients than the default.
pub(crate) fn limits(clients: u32) -> Limits {
    Limits { clients, ..Limits::default() }
}

impl Rig {
    pub(crate) fn new(facts: DeviceFacts, elevator: &str) -> Rig {
        let elevator = paternoster_schedulers::by_name(elevator).expect("an elevator of this name");
        Rig::with(facts, Limits::default(), elevator)
    }

    pub(crate) fn with(facts: DeviceFacts, limits: Limits, elevator: Box<dyn Elevator>) -> Rig {
        Rig {
            queue: RequestQueue::builder(facts, elevator)
                .limits(limits)
                .observer(Log::default())
                .build()
                .expect("its limits work"),
            now: Nanos::ZERO,
            inside: VecDeque::new(),
            done: Vec::new(),
            wakes: Vec::new(),
            until: None,
            why: Waiting::Empty,
        }
    }

    /// Sets the time to `ms` milliseconds.
    pub(crate) fn at(&mut self, ms: u64) {
        self.now = Nanos::from_millis(ms);
    }

    /// Sets the time to `us` microseconds.
    pub(crate) fn at_us(&mut self, us: u64) {
        self.now = Nanos::from_micros(us);
    }

    pub(crate) fn client(&mut self) -> ClientId {
        self.queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room for a client")
    }

    pub(crate) fn client_with(&mut self, spec: ClientSpec) -> ClientId {
        self.queue.attach(Nanos::ZERO, spec).expect("room for a client")
    }

    pub(crate) fn try_submit(&mut self, bio: Bio) -> Result<Ticket, SubmitError> {
        self.queue.submit(self.now, bio)
    }

    pub(crate) fn submit(&mut self, bio: Bio) -> Ticket {
        self.try_submit(bio).expect("a free request")
    }

    /// The cookie of these three is the first sector.
    pub(crate) fn read(&mut self, client: ClientId, sector: u64, sectors: u32) -> Ticket {
        self.submit(Bio::new(client, Op::Read, sector, sectors).cookie(sector))
    }

    pub(crate) fn write(&mut self, client: ClientId, sector: u64, sectors: u32) -> Ticket {
        self.submit(Bio::new(client, Op::Write, sector, sectors).cookie(sector))
    }

    pub(crate) fn plug(&mut self, client: ClientId) {
        self.queue.plug(self.now, client).expect("a live client");
    }

    pub(crate) fn unplug(&mut self, client: ClientId) {
        self.queue.unplug(self.now, client).expect("a live client");
    }

    /// Calls `next` until it waits. Returns the new commands, which are in the device now.
    pub(crate) fn pull(&mut self) -> Vec<Command> {
        let mut new = Vec::new();
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => new.push(command),
                Output::Done(cookie, outcome) => self.done.push((cookie, outcome.status)),
                Output::Wake(client) => self.wakes.push(client),
                Output::Wait { until, why } => {
                    (self.until, self.why) = (until, why);
                    self.inside.extend(&new);
                    return new;
                }
            }
        }
    }

    /// As `pull`; the first sectors of the new commands.
    pub(crate) fn pulled(&mut self) -> Vec<u64> {
        self.pull().iter().map(|command| command.sector).collect()
    }

    /// The device finishes its oldest command.
    pub(crate) fn complete_oldest(&mut self) -> Command {
        let command = self.inside.pop_front().expect("something is in the device");
        self.queue.complete(self.now, command.tag, Outcome::OK).expect("it is in the device");
        command
    }

    /// The device finishes its command at `sector`.
    pub(crate) fn complete_at(&mut self, sector: u64) {
        let command = self.take(sector);
        self.queue.complete(self.now, command.tag, Outcome::OK).expect("it is in the device");
    }

    /// The device refuses its command at `sector`.
    pub(crate) fn refuse(&mut self, sector: u64) {
        let command = self.take(sector);
        self.queue.requeue(self.now, command.tag).expect("it is in the device");
    }

    fn take(&mut self, sector: u64) -> Command {
        let place = self.inside.iter().position(|command| command.sector == sector);
        self.inside.remove(place.expect("it is in the device")).expect("it was just found")
    }

    /// Pulls and completes, oldest first, and lets the device's idle time pass, until nothing comes
    /// any more. Returns what the device got, in order.
    pub(crate) fn serve(&mut self) -> Vec<Command> {
        let mut all = Vec::new();
        loop {
            all.extend(self.pull());
            match (self.inside.is_empty(), self.why, self.until) {
                (false, _, _) => drop(self.complete_oldest()),
                (true, Waiting::Idling, Some(until)) => self.now = until,
                _ => return all,
            }
        }
    }

    /// As `serve`, but at most `count` commands; on a device of depth 1.
    pub(crate) fn serve_some(&mut self, count: usize) -> Vec<Command> {
        let mut all = Vec::new();
        while all.len() < count {
            let new = self.pull();
            assert_eq!(new.len(), 1, "depth 1, and something waits");
            all.extend(new);
            self.complete_oldest();
        }
        all
    }

    /// Serves all; returns the first sectors.
    pub(crate) fn served(&mut self) -> Vec<u64> {
        self.serve().iter().map(|command| command.sector).collect()
    }

    pub(crate) fn set(&mut self, name: &str, text: &str) {
        self.queue.set_attribute(self.now, name, text).expect("an attribute that takes this");
    }

    pub(crate) fn get(&self, name: &str) -> String {
        let mut shown = String::new();
        self.queue.show_attribute(name, &mut shown).expect("an attribute of this name");
        shown
    }

    /// How the refusal of `text` for attribute `name` reads.
    pub(crate) fn refusal(&mut self, name: &str, text: &str) -> String {
        self.queue.set_attribute(self.now, name, text).expect_err("a refusal").to_string()
    }

    pub(crate) fn explain(&self, ticket: Ticket) -> String {
        self.queue.explain(ticket).to_string()
    }

    /// The action letters of all events so far.
    pub(crate) fn letters(&self) -> String {
        self.queue.observer().events.iter().map(|event| event.action.letter()).collect()
    }

    /// Forgets the events so far.
    pub(crate) fn forget_events(&mut self) {
        self.queue.observer_mut().events.clear();
    }

    pub(crate) fn count(&self, action: Action) -> usize {
        self.queue.observer().events.iter().filter(|event| event.action == action).count()
    }
}

/// Op, first sector, sectors: what a test compares of a command.
pub(crate) fn shape(commands: &[Command]) -> Vec<(Op, u64, u32)> {
    commands.iter().map(|command| (command.op, command.sector, command.sectors)).collect()
}

/// The directions of commands in runs: `R16 W16 `.
pub(crate) fn runs(commands: &[Command]) -> String {
    let mut runs: Vec<(char, u32)> = Vec::new();
    for command in commands {
        let letter = if command.op == Op::Read { 'R' } else { 'W' };
        match runs.last_mut() {
            Some((last, count)) if *last == letter => *count += 1,
            _ => runs.push((letter, 1)),
        }
    }
    runs.iter().map(|(letter, count)| format!("{letter}{count} ")).collect()
}

/// Input and output of a [`Scripted`] elevator, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// How often `pick` was called.
    pub(crate) picks: AtomicU32,
    /// Picks nothing on purpose.
    pub(crate) holds: AtomicBool,
    /// Admits whatever the limits say.
    pub(crate) must: AtomicBool,
    /// The limit on what it admits, plus one. 0: no limit.
    pub(crate) at_most: AtomicU32,
    /// The number of a client that it admits later, and when, in ns.
    pub(crate) late: AtomicU32,
    pub(crate) admits_from: AtomicU64,
    /// Grants requests in turn, without barging.
    pub(crate) in_turn: AtomicBool,
}

impl Script {
    pub(crate) fn picks(&self) -> u32 {
        self.picks.load(Ordering::Relaxed)
    }

    pub(crate) fn hold(&self, on: bool) {
        self.holds.store(on, Ordering::Relaxed);
    }

    pub(crate) fn must(&self, on: bool) {
        self.must.store(on, Ordering::Relaxed);
    }

    /// Admits a client only from then on.
    pub(crate) fn later(&self, client: ClientId, at: Nanos) {
        self.late.store(client.index(), Ordering::Relaxed);
        self.admits_from.store(at.0, Ordering::Relaxed);
    }

    /// Grants requests in turn; to be set before a queue is made.
    pub(crate) fn in_turn(&self) {
        self.in_turn.store(true, Ordering::Relaxed);
    }

    fn is_late(&self, client: ClientId, now: Nanos) -> bool {
        self.late.load(Ordering::Relaxed) == client.index()
            && now.0 < self.admits_from.load(Ordering::Relaxed)
    }

    pub(crate) fn at_most(&self, most: u32) {
        self.at_most.store(most + 1, Ordering::Relaxed);
    }
}

/// First come, first served, unless the script says otherwise.
pub(crate) struct Scripted {
    fifo: VecDeque<RequestId>,
    rules: Rules,
    script: Arc<Script>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({:?})", self.fifo)
    }
}

impl Scripted {
    /// A scripted elevator, and the script it follows.
    pub(crate) fn with_script(rules: Rules) -> (Box<dyn Elevator>, Arc<Script>) {
        let script = Arc::new(Script::default());
        let fifo = VecDeque::new();
        (Box::new(Scripted { fifo, rules, script: Arc::clone(&script) }), script)
    }
}

impl Elevator for Scripted {
    fn traits(&self) -> Traits {
        let admits_in_turn = self.script.in_turn.load(Ordering::Relaxed);
        Traits { admits_in_turn, ..Traits::new("scripted", self.rules) }
    }

    fn attach(&mut self, _: &mut QueueView) {}

    fn admits_from(&self, _: &QueueView, _: ClientId) -> Nanos {
        Nanos(self.script.admits_from.load(Ordering::Relaxed))
    }

    fn would_admit(&self, view: &QueueView, client: ClientId, _: Op, _: Flags) -> Admission {
        let most = self.script.at_most.load(Ordering::Relaxed);
        if self.script.is_late(client, view.exact_now()) {
            Admission::Later
        } else if self.script.must.load(Ordering::Relaxed) {
            Admission::Must
        } else if most > 0 {
            Admission::AtMost(most - 1)
        } else {
            Admission::Normal
        }
    }

    fn insert(&mut self, _: &mut QueueView, request: RequestId, position: Position) {
        match position {
            Position::Sorted => self.fifo.push_back(request),
            Position::Head => self.fifo.push_front(request),
        }
    }

    fn absorbed(&mut self, _: &mut QueueView, _: RequestId, gone: RequestId) {
        self.fifo.retain(|&other| other != gone);
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        self.script.picks.fetch_add(1, Ordering::Relaxed);
        if self.fifo.is_empty() {
            return Pick::Nothing;
        }
        if self.script.holds.load(Ordering::Relaxed) {
            view.set_timer(view.now() + Nanos::from_millis(8));
            return Pick::Idle;
        }
        self.fifo.pop_front().map_or(Pick::Nothing, |first| Pick::Dispatch(first, Place::Sorted))
    }

    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.fifo.retain(|&other| other != request);
    }

    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        self.fifo.pop_front()
    }

    fn explain(&self, _: &QueueView, _: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("the script says so")
    }

    fn waiting(&self) -> u32 {
        u32::try_from(self.fifo.len()).expect("few")
    }

    fn audit(&self, _: &QueueView) -> Result<(), Fault> {
        Ok(())
    }
}

/// A client of a noop queue whose plug is the device's.
pub(crate) fn device_plugged(facts: DeviceFacts) -> (Rig, ClientId) {
    let mut rig = Rig::new(facts, "noop");
    rig.set("plug", "device");
    let client = rig.client();
    (rig, client)
}

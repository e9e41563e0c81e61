// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine: the gate without threads, clock or I/O. The caller says what time it is.
//!
//! A gate is a request queue without a device: what the queue would issue as a command is given
//! out as a permit, and a permit that is given back is a command that has ended. Merging and
//! plugging are off, so that one permit is one request. Order, depth and seats are the elevator's
//! (`paternoster`), as in front of any device:
//!
//! ```text
//! ask ─▶ entry ─bio─▶ RequestQueue ─command─▶ entry: granted ─▶ next
//!                          ▲                       │
//!                          └────── complete ───────┴─ give_back, or its time is over
//! ```
//!
//! How many permits may be out is found out: at most [`Settings::permits`], fewer if the elevator
//! finds that fewer do nearly as well while some class asks for little, or that a class which is
//! owed something has all that it asks for inside.
//!
//! # Invariants (see `check`)
//! I1  An entry is in exactly one stage; a class counts its entries by stage.
//! I2  Granted entries stand in the order in which their permits expire.
//! I3  Every ask ends in exactly one of: granted and then given back or expired; withdrawn; told
//!     that it is too late.
//! I4  What waits for its deadline stands in `deadlines`, and nothing else.

mod ceiling;
mod check;
mod class;
mod entry;
mod eta;
mod report;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use paternoster_core::device::ServiceClock;
use paternoster_core::elevators::Paternoster;
use paternoster_core::list::{Links, List};
use paternoster_core::slab::Slab;
use paternoster_core::{
    AddError, Bio, ClientSpec, DeviceFacts, Flags, GroupId, GroupSpec, Limits, Nanos,
    Op as QueueOp, Outcome, Output, RequestQueue,
};

use ceiling::Ceiling;
use class::Class;
use entry::{Entry, Stage};
use eta::Held;
use report::Reports;

pub use class::{ClassId, ClassSpec, Counts, Kind};
pub use entry::{Ask, AskError, Next, Op, Ticket};
pub use eta::Eta;
pub use report::Report;

/// Sectors of the space in which I/Os lie: 2^54 bytes.
const CAPACITY: u64 = 1 << 45;
/// The largest I/O that the queue is told of, in sectors: 1 GiB. Larger ones are charged alike,
/// since what is charged is time.
const SECTORS_MOST: u32 = 1 << 21;
/// I/Os of which nobody says where they lie are so far from each other, in sectors: near to none,
/// and in the order in which they were asked for.
const STRIDE: u64 = 1 << 20;

/// The sizes of a gate's tables, which never grow, and its one policy. Nothing here describes the
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Permits that may be out at a time, whatever is learned: 256 unless said. More than the
    /// device can use at once are useless and harmless.
    pub permits: u32,
    /// Asks that may wait or hold a permit: 4,096 unless said, at most 10,240.
    pub asks: u32,
    /// Classes, 255 unless said.
    pub classes: u32,
    /// A permit that is not given back within that time expires: 30 s unless said.
    pub expires_after: Nanos,
    /// Whether seeks cost time, if that is known: as `queue/rotational` of a disk says. Only where
    /// they do a class without streams can be served by place.
    pub rotational: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let expires_after = Nanos::from_secs(30);
        Settings { permits: 256, asks: 4096, classes: 255, expires_after, rotational: false }
    }
}

/// A class was not opened, changed or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassError {
    /// There are as many as the gate has places for.
    Full,
    /// There is none of that name: it was closed.
    NoClass,
    /// Others are below it, so it cannot be closed.
    InUse,
    /// Only a class of the normal kind has others below it.
    Kind,
}

impl core::fmt::Display for ClassError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ClassError::Full => "there are as many classes as the gate has places for",
            ClassError::NoClass => "the class was closed",
            ClassError::InUse => "other classes are below it",
            ClassError::Kind => "only a class of the normal kind has others below it",
        })
    }
}

impl core::error::Error for ClassError {}

impl From<AddError> for ClassError {
    fn from(error: AddError) -> ClassError {
        match error {
            AddError::Full { .. } => ClassError::Full,
            _ => ClassError::NoClass,
        }
    }
}

/// A permit that is not out: it was given back, has expired, or was never granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOut;

impl core::fmt::Display for NotOut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the permit was given back already, or has expired")
    }
}

impl core::error::Error for NotOut {}

/// A gate as a state machine. Calls come in order of time: an earlier `now` counts as the latest.
///
/// ```
/// use paternoster_gate::{Ask, ClassSpec, Core, Nanos, Next, Op, Settings};
///
/// let mut gate = Core::new(Settings::default());
/// let reads = gate.open(ClassSpec::new("reads").weight(400))?;
///
/// let ticket = gate.ask(Nanos(0), reads, Ask::new(Op::Read, 4096))?;
/// assert_eq!(gate.next(Nanos(0)), Next::Granted(ticket));
/// // Read 4096 bytes here.
/// gate.give_back(Nanos(80_000), ticket)?;
/// assert_eq!(gate.counts(reads).unwrap().device_time, Nanos(80_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Core {
    queue: RequestQueue,
    classes: Slab<Class>,
    entries: Slab<Entry>,
    links: Links,
    /// Permits that are out, in the order in which they expire (I2).
    out: List,
    fresh_links: Links,
    /// What `next` has to tell.
    fresh: List,
    /// Of permits that are out: who holds them, if that was said.
    holders: Vec<u64>,
    deadlines: BTreeSet<(Nanos, u32)>,
    /// Device time, as the queue would measure it.
    clock: ServiceClock,
    ceiling: Ceiling,
    held: Held,
    reports: Reports,
    expires_after: Nanos,
    /// When the queue wants to be asked again.
    queue_wakes: Option<Nanos>,
    /// Groups of classes that were closed, until the queue lets them go.
    closing: Vec<GroupId>,
    waiting: u32,
    asked: u64,
    now: Nanos,
}

impl Core {
    /// A gate without classes. Allocates what it needs.
    #[must_use]
    pub fn new(settings: Settings) -> Core {
        let asks = settings.asks.clamp(16, 10_240);
        let classes = settings.classes.max(1);
        let facts = DeviceFacts {
            capacity: CAPACITY,
            depth: settings.permits.clamp(1, asks),
            rotational: settings.rotational,
            max_sectors: SECTORS_MOST,
            ..DeviceFacts::default()
        };
        let limits = Limits {
            requests: asks,
            bios: asks,
            clients: classes,
            groups: classes.saturating_add(1),
            notes: 0,
        };
        let elevator = Box::new(Paternoster::new());
        let mut queue = RequestQueue::unobserved(facts, limits, elevator);
        // One permit, one request; and a class may have all the places there are.
        for (name, value) in
            [("nomerges", 2), ("nr_requests", asks), ("tag_shares", 0), ("bulk_kept", 98)]
        {
            let set = queue.set_value(Nanos::ZERO, name, value);
            debug_assert!(set.is_ok(), "{set:?}");
        }
        let ceiling = Ceiling::new(facts.depth);
        let set = queue.set_value(Nanos::ZERO, "depth_max", ceiling.used());
        debug_assert!(set.is_ok(), "{set:?}");
        Core {
            queue,
            classes: Slab::with_capacity(classes),
            entries: Slab::with_capacity(asks),
            links: Links::with_capacity(asks),
            out: List::new(),
            fresh_links: Links::with_capacity(asks),
            fresh: List::new(),
            holders: Vec::with_capacity(facts.depth as usize),
            deadlines: BTreeSet::new(),
            clock: ServiceClock::default(),
            ceiling,
            held: Held::default(),
            reports: Reports::new(),
            expires_after: settings.expires_after,
            queue_wakes: None,
            closing: Vec::new(),
            waiting: 0,
            asked: 0,
            now: Nanos::ZERO,
        }
    }

    /// Opens a class.
    ///
    /// # Errors
    /// [`ClassError`]; nothing has changed then.
    pub fn open(&mut self, spec: ClassSpec) -> Result<ClassId, ClassError> {
        if self.classes.is_full() {
            return Err(ClassError::Full);
        }
        let group = spec.below.map(|above| self.group_of(above)).transpose()?;
        let mut class = Class {
            name: spec.name,
            weight: spec.weight,
            kind: spec.kind,
            above: spec.below,
            ..Class::default()
        };
        let priority = class.priority();
        let client = ClientSpec::new()
            .priority(priority.class, priority.level)
            .weight(class.client_weight());
        class.client = self.queue.attach(group.map_or(client, |group| client.group(group)))?;
        let key = self.classes.insert(class).map_err(|_| ClassError::Full)?;
        if let Some(above) = spec.below.and_then(|above| self.classes.get_mut(above.0)) {
            above.below += 1;
        }
        Ok(ClassId(key))
    }

    /// The group of a class, which becomes one if it was none.
    fn group_of(&mut self, id: ClassId) -> Result<GroupId, ClassError> {
        let class = self.classes.get(id.0).ok_or(ClassError::NoClass)?;
        if class.kind != Kind::Normal {
            return Err(ClassError::Kind);
        }
        if let Some(group) = class.group {
            return Ok(group);
        }
        let (client, weight, above) = (class.client, class.effective_weight(), class.above);
        let mut spec = GroupSpec::new().weight(weight);
        if let Some(group) = above.and_then(|above| self.classes.get(above.0)?.group) {
            spec = spec.parent(group);
        }
        let group = self.queue.add_group(spec)?;
        self.queue.move_client(self.now, client, group)?;
        if let Some(class) = self.classes.get_mut(id.0) {
            class.group = Some(group);
        }
        self.reweigh(id);
        Ok(group)
    }

    /// Tells the queue what a class weighs.
    fn reweigh(&mut self, id: ClassId) {
        let Some(class) = self.classes.get(id.0) else { return };
        let (now, client, priority) = (self.now, class.client, class.priority());
        let told = self.queue.set_priority(now, client, priority, class.client_weight());
        debug_assert!(told.is_ok(), "an open class has a client");
        if let Some(group) = class.group {
            let told = self.queue.set_group_weight(now, group, class.effective_weight());
            debug_assert!(told.is_ok(), "an open class has its group");
        }
    }

    /// Gives a class another weight, also while it waits.
    ///
    /// # Errors
    /// [`ClassError::NoClass`] if it was closed.
    pub fn set_weight(&mut self, now: Nanos, id: ClassId, weight: u32) -> Result<(), ClassError> {
        self.now = self.now.max(now);
        self.classes.get_mut(id.0).ok_or(ClassError::NoClass)?.weight = weight;
        self.reweigh(id);
        self.pump();
        Ok(())
    }

    /// Closes a class: nothing more can be asked for it. What waits and what is out ends as usual.
    ///
    /// # Errors
    /// [`ClassError`]: it was closed, or others are below it.
    pub fn close(&mut self, now: Nanos, id: ClassId) -> Result<(), ClassError> {
        self.now = self.now.max(now);
        let class = self.classes.get(id.0).ok_or(ClassError::NoClass)?;
        if class.below > 0 {
            return Err(ClassError::InUse);
        }
        let (client, group, above) = (class.client, class.group, class.above);
        self.classes.release(id.0.index());
        if let Some(above) = above.and_then(|above| self.classes.get_mut(above.0)) {
            above.below -= 1;
        }
        let left = self.queue.detach(self.now, client);
        debug_assert!(left.is_ok(), "an open class has a client");
        self.closing.extend(group);
        self.let_groups_go();
        Ok(())
    }

    fn let_groups_go(&mut self) {
        let queue = &mut self.queue;
        self.closing.retain(|group| queue.remove_group(*group).is_err());
    }

    /// Asks for a permit. [`Core::next`] will tell when it is granted.
    ///
    /// # Errors
    /// [`AskError`]; nothing waits then.
    pub fn ask(&mut self, now: Nanos, class: ClassId, ask: Ask) -> Result<Ticket, AskError> {
        self.now = self.now.max(now);
        let eta = match ask.deadline {
            Nanos::MAX => None,
            _ => self.eta(self.now, class, ask.op, ask.len),
        };
        let is_busy = self.is_busy();
        let own = self.classes.get_mut(class.0).ok_or(AskError::NoClass)?;
        own.counts.asked += 1;
        if let Some(eta) = eta.filter(|eta| eta.done > ask.deadline) {
            own.counts.too_late += 1;
            return Err(AskError::TooLate(eta));
        }
        let client = own.client;
        let Some((key, entry)) = self.entries.take() else {
            own.counts.asked -= 1;
            return Err(AskError::Full);
        };
        let (sector, sectors) = place(ask.offset, ask.len, self.asked);
        let op = match ask.op {
            Op::Read => QueueOp::Read,
            Op::Discard => QueueOp::Discard,
            Op::Write | Op::Flush => QueueOp::Write,
        };
        let flags = Flags::SYNC | Flags::NOMERGE;
        let bio = Bio::new(client, op, sector, sectors).flags(flags).cookie(key.index().into());
        let Ok(bio) = self.queue.submit(self.now, bio) else {
            // As many requests as entries: not reached.
            self.entries.free(key.index());
            own.counts.asked -= 1;
            return Err(AskError::Full);
        };
        let gives_up = ask.ends_waiting();
        *entry = Entry {
            class: Some(class),
            stage: Stage::Waiting,
            op: ask.op,
            was_first: is_busy && own.waiting == 0,
            len: ask.len,
            holder: ask.holder,
            asked: self.now,
            granted: Nanos::ZERO,
            gives_up: (gives_up != Nanos::MAX).then_some(gives_up),
            bio: Some(bio),
            tag: None,
            clock: Nanos::ZERO,
        };
        self.asked += 1;
        if own.waiting == 0 {
            own.pace.begins(self.now);
        }
        own.waiting += 1;
        self.waiting += 1;
        if let Some(at) = entry.gives_up {
            self.deadlines.insert((at, key.index()));
        }
        let ticket = Ticket(key);
        if ask.holder != 0 && self.holders.contains(&ask.holder) {
            self.reports.add(Report::HolderWaits { holder: ask.holder, class, ticket });
        }
        self.pump();
        Ok(ticket)
    }

    /// What has to be told at `now`, one thing a call; or when to ask again.
    pub fn next(&mut self, now: Nanos) -> Next {
        self.now = self.now.max(now);
        if let Some(told) = self.tell() {
            return told;
        }
        let ended = self.take_back_expired() | self.give_up_late();
        // Whatever else changes anything asks the queue by itself.
        if ended || self.queue_wakes.is_some_and(|at| at <= self.now) {
            self.pump();
        }
        if let Some(told) = self.tell() {
            return told;
        }
        self.wakes_at().map_or(Next::Idle, Next::Wait)
    }

    /// When [`Core::next`] has to be called at the latest, though nothing is asked for or given
    /// back until then.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Nanos> {
        if !self.fresh.is_empty() {
            return Some(self.now);
        }
        let expires = self.out.first().map(|first| self.expires(first));
        let gives_up = self.deadlines.first().map(|(at, _)| *at);
        [self.queue_wakes, expires, gives_up].into_iter().flatten().min()
    }

    fn expires(&self, index: u32) -> Nanos {
        self.entries.at(index).granted + self.expires_after
    }

    /// Whether its permit is out.
    #[must_use]
    pub fn is_out(&self, ticket: Ticket) -> bool {
        self.entries.get(ticket.0).is_some_and(|entry| entry.stage == Stage::Granted)
    }

    /// The caller knows what became of it: [`Core::next`] need not tell that it was granted.
    pub fn told(&mut self, ticket: Ticket) {
        if self.is_out(ticket) {
            self.untell(ticket.index());
        }
    }

    fn tell(&mut self) -> Option<Next> {
        let index = self.fresh.pop_front(&mut self.fresh_links)?;
        let ticket = Ticket(self.entries.key_at(index));
        if self.entries.at(index).stage == Stage::Granted {
            return Some(Next::Granted(ticket));
        }
        self.entries.free(index);
        Some(Next::TooLate(ticket))
    }

    /// The I/O has ended.
    ///
    /// # Errors
    /// [`NotOut`] if the permit is not out: it has expired, or was given back.
    pub fn give_back(&mut self, now: Nanos, ticket: Ticket) -> Result<(), NotOut> {
        self.now = self.now.max(now);
        let entry = self.entries.get(ticket.0).ok_or(NotOut)?;
        if entry.stage != Stage::Granted {
            return Err(NotOut);
        }
        let (op, len, took) = (entry.op, entry.len, self.now - entry.granted);
        self.held.add(op, len, took);
        self.end(ticket.index(), true);
        self.pump();
        Ok(())
    }

    /// The asker does not want it any more: if it waits it waits no more, if it has its permit
    /// that is given back, and [`Core::next`] says nothing of it. `false` if nothing of it is left.
    pub fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.now = self.now.max(now);
        let Some(entry) = self.entries.get(ticket.0) else { return false };
        match entry.stage {
            Stage::Granted => return self.give_back(now, ticket).is_ok(),
            Stage::TooLate => {}
            Stage::Waiting => {
                self.leave_queue(ticket.index());
                self.count(ticket.index(), |counts| counts.withdrawn += 1);
            }
        }
        self.untell(ticket.index());
        self.entries.free(ticket.index());
        self.pump();
        true
    }

    fn untell(&mut self, index: u32) {
        if self.fresh_links.contains(index) {
            self.fresh.remove(&mut self.fresh_links, index);
        }
    }

    fn count(&mut self, index: u32, change: impl FnOnce(&mut Counts)) {
        let class = self.entries.at(index).class;
        if let Some(class) = class.and_then(|class| self.classes.get_mut(class.0)) {
            change(&mut class.counts);
        }
    }

    /// It waits no more in the queue.
    fn leave_queue(&mut self, index: u32) {
        let entry = self.entries.at_mut(index);
        if let Some(bio) = entry.bio.take() {
            let withdrawn = self.queue.cancel(self.now, bio);
            debug_assert!(withdrawn.is_ok(), "what waits can be withdrawn: {withdrawn:?}");
        }
        self.stops_waiting(index);
    }

    fn stops_waiting(&mut self, index: u32) {
        self.waiting -= 1;
        let entry = self.entries.at_mut(index);
        if let Some(at) = entry.gives_up.take() {
            self.deadlines.remove(&(at, index));
        }
        if let Some(class) = entry.class.and_then(|class| self.classes.get_mut(class.0)) {
            class.waiting -= 1;
        }
    }

    /// A permit is out no more.
    fn end(&mut self, index: u32, in_time: bool) {
        self.untell(index);
        let out = self.out.len();
        self.out.remove(&mut self.links, index);
        let entry = self.entries.at_mut(index);
        let (holder, len, class) = (entry.holder, entry.len, entry.class);
        if let Some(place) = self.holders.iter().position(|held| holder != 0 && *held == holder) {
            self.holders.swap_remove(place);
        }
        let served = self.clock.leave(self.now, entry.clock);
        if let Some(tag) = entry.tag.take() {
            let ended = self.queue.complete(self.now, tag, Outcome::OK.served(served));
            debug_assert!(ended.is_ok(), "a permit that is out is a command in the queue");
        }
        if let Some(class) = class.and_then(|class| self.classes.get_mut(class.0)) {
            class.inside -= 1;
            class.counts.device_time += served;
            if in_time {
                class.counts.given_back += 1;
                class.counts.bytes += len;
            } else {
                class.counts.expired += 1;
            }
        }
        let waits = self.waiting > 0;
        let (op, len) = (self.entries.at(index).op, len);
        self.entries.free(index);
        if self.ceiling.ended(self.now, (op, len), served, (out, waits)) {
            let set = self.queue.set_value(self.now, "depth_max", self.ceiling.used());
            debug_assert!(set.is_ok(), "{set:?}");
        }
    }

    /// Whether there were any.
    fn take_back_expired(&mut self) -> bool {
        let before = self.out.len();
        while let Some(index) = self.out.first().filter(|first| self.expires(*first) <= self.now) {
            let ticket = Ticket(self.entries.key_at(index));
            let entry = self.entries.at(index);
            let (holder, granted) = (entry.holder, entry.granted);
            if let Some(class) = entry.class {
                self.reports.add(Report::Expired { ticket, class, holder, granted });
            }
            self.end(index, false);
        }
        self.out.len() != before
    }

    /// Whether there were any.
    fn give_up_late(&mut self) -> bool {
        let before = self.waiting;
        while let Some((_, index)) = self.deadlines.first().filter(|(at, _)| *at <= self.now) {
            let index = *index;
            self.leave_queue(index);
            self.count(index, |counts| counts.too_late += 1);
            self.entries.at_mut(index).stage = Stage::TooLate;
            self.fresh.push_back(&mut self.fresh_links, index);
        }
        self.waiting != before
    }

    /// Lets the queue do what it wants done.
    fn pump(&mut self) {
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => self.grant(command.tag),
                Output::Done(..) | Output::Wake(_) => {}
                Output::Wait { until, .. } => {
                    self.queue_wakes = until;
                    break;
                }
            }
        }
        if !self.closing.is_empty() {
            self.let_groups_go();
        }
    }

    fn grant(&mut self, tag: paternoster_core::Tag) {
        let cookie = self.queue.cookies(tag).next();
        let Some(index) = cookie.and_then(|cookie| u32::try_from(cookie).ok()) else { return };
        self.stops_waiting(index);
        let entry = self.entries.at_mut(index);
        entry.stage = Stage::Granted;
        entry.granted = self.now;
        entry.tag = Some(tag);
        entry.clock = self.clock.enter(self.now);
        if entry.holder != 0 {
            self.holders.push(entry.holder);
        }
        if let Some(class) = entry.class.and_then(|class| self.classes.get_mut(class.0)) {
            class.inside += 1;
            class.counts.granted += 1;
            class.counts.waited += self.now - entry.asked;
            class.pace.granted(self.now, entry.asked, entry.was_first);
        }
        self.out.push_back(&mut self.links, index);
        self.fresh.push_back(&mut self.fresh_links, index);
    }

    /// Others wait, or hold all permits that there are.
    fn is_busy(&self) -> bool {
        self.waiting > 0 || self.out.len() >= self.ceiling.used()
    }

    /// When would a permit be given, and the I/O be done? `None` if the class was closed.
    #[must_use]
    pub fn eta(&self, now: Nanos, class: ClassId, op: Op, len: u64) -> Option<Eta> {
        let class = self.classes.get(class.0)?;
        let next = self.is_busy().then(|| self.held.any() / (u64::from(self.out.len()) + 1));
        let permit = now.max(self.now) + Nanos(class.pace.wait(class.waiting, next));
        Some(Eta { permit, done: permit + Nanos(self.held.expect(op, len)) })
    }

    /// What a class has had so far.
    #[must_use]
    pub fn counts(&self, class: ClassId) -> Option<Counts> {
        self.classes.get(class.0).map(|class| class.counts)
    }

    /// Asks that wait, and permits that are out.
    #[must_use]
    pub fn in_all(&self) -> (u32, u32) {
        (self.waiting, self.out.len())
    }

    /// Verifies the invariants, the queue's among them. For tests: it looks at everything.
    ///
    /// # Errors
    /// The first that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        check::check(self)
    }
}

/// Where an I/O lies, in sectors. One of which nobody says where comes behind all others.
fn place(offset: Option<u64>, len: u64, number: u64) -> (u64, u32) {
    let sectors = u32::try_from(len.div_ceil(512)).unwrap_or(u32::MAX).clamp(1, SECTORS_MOST);
    let last = CAPACITY - u64::from(sectors);
    let next = number.wrapping_mul(STRIDE) % CAPACITY;
    (offset.map_or(next, |offset| offset / 512).min(last), sectors)
}

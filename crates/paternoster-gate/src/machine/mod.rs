// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine: the gate without threads, clock or I/O. The caller says what time it is.
//!
//! A gate is a request queue without a device: a command that the queue issues is a permit given
//! out, and a permit given back is a command that has ended. Merging and plugging are off, so that
//! one permit is one request. The elevator (`paternoster`) decides order, depth and seats, as in
//! front of any device:
//!
//! ```text
//! ask ─▶ entry ─bio─▶ RequestQueue ─command─▶ entry: granted ─▶ next
//!                          ▲                       │
//!                          └────── complete ───────┴─ give_back, or its time is over
//! ```
//!
//! The gate finds out how many permits may be out: at most [`Settings::permits`], fewer if the
//! elevator finds that fewer do nearly as well while some class asks for little, or that a class
//! which is owed service already has all its asks granted.
//!
//! # Invariants (see `check`)
//! I1  An entry is in exactly one stage; a class counts its entries by stage.
//! I2  Granted entries are in `out`, in the order in which their permits expire.
//! I3  Every ask ends in exactly one of: granted and then given back or expired; withdrawn; too
//!     late.
//! I4  `deadlines` holds exactly the asks that wait with a deadline.

mod admission;
mod ceiling;
mod check;
mod class;
mod classes;
mod entry;
mod eta;
mod out;
mod pump;
mod rates;
mod record;
mod report;
mod settings;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use paternoster_core::device::ServiceClock;
use paternoster_core::list::{Links, List};
use paternoster_core::slab::Slab;
use paternoster_core::{Nanos, Outcome, RequestQueue, Ticket as BioTicket};

use ceiling::Ceiling;
use classes::Classes;
use entry::{Entry, Lane, Stage};
use eta::Held;
use out::Out;
use record::{Opened, Record};
use report::Reports;
use settings::place;

pub use class::{ClassId, ClassSpec, Counts, Kind};
pub use classes::ClassError;
pub use entry::{Ask, AskError, Next, Op, Ticket};
pub use eta::Eta;
pub use out::NotOut;
pub use rates::Rate;
pub use record::{ReplayError, Sink};
pub use report::Report;
pub use settings::Settings;

/// One ask in this many is used to check how accurate its estimate was.
const TOLD: u64 = 4;

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
    classes: Classes,
    entries: Slab<Entry>,
    out: Out,
    fresh_links: Links,
    /// Entries that `next` has still to report.
    fresh: List,
    deadlines: BTreeSet<(Nanos, u32)>,
    /// Device time, as the queue would measure it.
    clock: ServiceClock,
    ceiling: Ceiling,
    held: Held,
    reports: Reports,
    record: Option<Record>,
    /// When the queue wants to be called again.
    queue_wakes: Option<Nanos>,
    /// When a cap opens for an ask, or a class falls behind its floor.
    rates_wake: Option<Nanos>,
    /// Classes with a cap or a floor.
    rated: Vec<ClassId>,
    /// For each entry: the lines of classes, `kept` and `queued`.
    lines: Links,
    /// How many of the waiting asks wait for a cap.
    kept: u32,
    /// The queue had nothing when last called, or gave its last; and nothing was submitted since.
    is_empty: bool,
    /// Permits given back and asks withdrawn whose ends the queue has not reported yet.
    untold: u32,
    /// The start tag of the top-level class that was let in last.
    tag: u64,
    waiting: u32,
    asked: u64,
    now: Nanos,
}

impl Core {
    /// A gate without classes. Allocates what it needs.
    #[must_use]
    pub fn new(settings: Settings) -> Core {
        let ceiling = Ceiling::new(settings.depth());
        let queue = settings.queue(ceiling.used());
        let asks = settings.places();
        Core {
            queue,
            classes: Classes::new(settings.classes.max(1)),
            entries: Slab::with_capacity(asks),
            out: Out::new(asks, settings.depth(), settings.expires_after),
            fresh_links: Links::with_capacity(asks),
            fresh: List::new(),
            deadlines: BTreeSet::new(),
            clock: ServiceClock::default(),
            ceiling,
            held: Held::default(),
            reports: Reports::new(),
            record: None,
            queue_wakes: None,
            rates_wake: None,
            rated: Vec::with_capacity(settings.classes.max(1) as usize),
            lines: Links::with_capacity(asks),
            kept: 0,
            is_empty: true,
            untold: 0,
            tag: 0,
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
        let said = self.record.is_some().then(|| Opened::new(&spec));
        let (cap, floor) = (spec.cap, spec.floor);
        let mut opened = self.classes.open(&mut self.queue, self.now, spec);
        if let (Ok(id), true) = (opened, cap.is_said() || floor.is_said())
            && let Err(error) = self.give_rates(id, cap, floor)
        {
            let closed = self.classes.close(&mut self.queue, self.now, id);
            debug_assert!(closed.is_ok(), "it was opened");
            opened = Err(error);
        }
        if let (Some(record), Some(said)) = (&mut self.record, said) {
            record.open(&said, opened);
        }
        opened
    }

    /// Gives a class another weight, even while it waits.
    ///
    /// # Errors
    /// [`ClassError::NoClass`] if it was closed.
    pub fn set_weight(&mut self, now: Nanos, id: ClassId, weight: u32) -> Result<(), ClassError> {
        self.now = self.now.max(now);
        let set = self.classes.set_weight(&mut self.queue, self.now, id, weight);
        if set.is_ok() {
            self.pump();
        }
        if let Some(record) = &mut self.record {
            record.call("weigh", &[now.0, id.0.bits(), weight.into()], &set);
        }
        set
    }

    /// Closes a class: no more asks are taken for it. Waiting asks and permits that are out end as
    /// usual.
    ///
    /// # Errors
    /// [`ClassError`]: it was closed, or others are below it.
    pub fn close(&mut self, now: Nanos, id: ClassId) -> Result<(), ClassError> {
        self.now = self.now.max(now);
        if self.classes.get(id).is_some_and(|class| class.below == 0) {
            self.stops_rating(id);
        }
        let closed = self.classes.close(&mut self.queue, self.now, id);
        if closed.is_ok() {
            self.pump();
        }
        if let Some(record) = &mut self.record {
            record.call("close", &[now.0, id.0.bits()], &closed);
        }
        closed
    }

    /// Asks for a permit. [`Core::next`] will tell when it is granted.
    ///
    /// # Errors
    /// [`AskError`]; nothing waits then.
    pub fn ask(&mut self, now: Nanos, class: ClassId, ask: Ask) -> Result<Ticket, AskError> {
        let asked = self.enter(now, class, ask);
        if let Some(record) = &mut self.record {
            record.ask(now, class, &ask, asked);
        }
        asked
    }

    fn enter(&mut self, now: Nanos, class: ClassId, ask: Ask) -> Result<Ticket, AskError> {
        self.now = self.now.max(now);
        let eta = match ask.deadline {
            Nanos::MAX => None,
            _ => self.eta(self.now, class, ask.op, ask.len),
        };
        let is_busy = self.is_busy();
        let told = match self.asked % TOLD {
            0 => self.estimate(class, ask.op, ask.len).map_or(0, |(wait, held)| wait + held),
            _ => 0,
        };
        let own = self.classes.get_mut(class).ok_or(AskError::NoClass)?;
        own.counts.asked += 1;
        if let Some(eta) = eta.filter(|eta| eta.done > ask.deadline) {
            own.counts.too_late += 1;
            return Err(AskError::TooLate(eta));
        }
        let waits = own.waiting > 0;
        let Some((key, entry)) = self.entries.take() else {
            own.counts.asked -= 1;
            return Err(AskError::Full);
        };
        let gives_up = ask.ends_waiting();
        *entry = Entry {
            class: Some(class),
            stage: Stage::Waiting,
            lane: Lane::Usual,
            op: ask.op,
            sector: place(ask.offset, ask.len, self.asked),
            was_first: is_busy && !waits,
            was_behind: waits,
            told,
            len: ask.len,
            holder: ask.holder,
            asked: self.now,
            granted: Nanos::ZERO,
            gives_up: (gives_up != Nanos::MAX).then_some(gives_up),
            bio: None,
            tag: None,
            clock: Nanos::ZERO,
        };
        let at = entry.gives_up;
        if self.is_kept(class) {
            self.keep(class, key.index());
        } else if self.submit(key.index(), Lane::Usual) {
            self.promise(class, ask.len);
        } else {
            // As many requests as entries: not reached.
            self.entries.free(key.index());
            return Err(AskError::Full);
        }
        self.asked += 1;
        if let Some(own) = self.classes.get_mut(class) {
            if !waits {
                own.pace.begins(self.now);
                own.floor.begins(self.now);
            }
            own.waiting += 1;
        }
        self.waiting += 1;
        if let Some(at) = at {
            self.deadlines.insert((at, key.index()));
        }
        let ticket = Ticket(key);
        if self.out.holds(ask.holder) {
            self.reports.add(Report::HolderWaits { holder: ask.holder, class, ticket });
        }
        self.pump();
        Ok(ticket)
    }

    /// What there is to report at `now`, one thing per call; or when to call again.
    pub fn next(&mut self, now: Nanos) -> Next {
        let next = self.go_on(now);
        if let Some(record) = &mut self.record {
            record.next(now, next);
        }
        next
    }

    fn go_on(&mut self, now: Nanos) -> Next {
        self.now = self.now.max(now);
        if let Some(told) = self.tell() {
            return told;
        }
        let ended = self.take_back_expired() | self.give_up_late();
        // All other changes call the queue themselves.
        let wakes = [self.queue_wakes, self.rates_wake].into_iter().flatten().min();
        if ended || wakes.is_some_and(|at| at <= self.now) {
            self.pump();
        }
        if let Some(told) = self.tell() {
            return told;
        }
        self.wakes_at().map_or(Next::Idle, Next::Wait)
    }

    /// When [`Core::next`] has to be called at the latest, even if there is no ask or give-back
    /// before.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Nanos> {
        if !self.fresh.is_empty() {
            return Some(self.now);
        }
        let expires = self.first_out().map(|(_, expires)| expires);
        let gives_up = self.deadlines.first().map(|(at, _)| *at);
        [self.queue_wakes, self.rates_wake, expires, gives_up].into_iter().flatten().min()
    }

    /// Whether [`Core::next`] has anything to report or to do at `now`.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        let now = now.max(self.now);
        let is_by_now = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
        !self.fresh.is_empty()
            || is_by_now(self.queue_wakes)
            || is_by_now(self.rates_wake)
            || is_by_now(self.first_out().map(|(_, expires)| expires))
            || is_by_now(self.deadlines.first().map(|(at, _)| *at))
    }

    /// The permit that expires first, and when.
    fn first_out(&self) -> Option<(u32, Nanos)> {
        let first = self.out.first()?;
        Some((first, self.out.expires(self.entries.at(first).granted)))
    }

    /// Whether its permit is out.
    #[must_use]
    pub fn is_out(&self, ticket: Ticket) -> bool {
        self.entries.get(ticket.0).is_some_and(|entry| entry.stage == Stage::Granted)
    }

    /// The caller knows its outcome: [`Core::next`] need not report that it was granted.
    #[inline]
    pub fn told(&mut self, ticket: Ticket) {
        if self.is_out(ticket) {
            self.untell(ticket.index());
        }
        if let Some(record) = &mut self.record {
            record.call("told", &[ticket.bits()], &());
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
        let given = self.take_back(now, ticket);
        if let Some(record) = &mut self.record {
            record.call("give-back", &[now.0, ticket.bits()], &given);
        }
        given
    }

    fn take_back(&mut self, now: Nanos, ticket: Ticket) -> Result<(), NotOut> {
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

    /// The asker no longer wants it: a waiting ask is withdrawn, a granted permit is given back,
    /// and [`Core::next`] does not report it. `false` if the ticket was already over.
    pub fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let was_there = self.let_go(now, ticket);
        if let Some(record) = &mut self.record {
            record.call("withdraw", &[now.0, ticket.bits()], &was_there);
        }
        was_there
    }

    fn let_go(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.now = self.now.max(now);
        let Some(entry) = self.entries.get(ticket.0) else { return false };
        match entry.stage {
            Stage::Granted => return self.take_back(now, ticket).is_ok(),
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
        if let Some(class) = class.and_then(|class| self.classes.get_mut(class)) {
            change(&mut class.counts);
        }
    }

    /// An ask leaves the queue.
    fn leave_queue(&mut self, index: u32) {
        let entry = self.entries.at_mut(index);
        if let Some(bio) = entry.bio.take() {
            self.cancel(bio);
        }
        self.stops_waiting(index, false);
    }

    /// What waits in the queue is withdrawn from it.
    #[inline(never)]
    fn cancel(&mut self, bio: BioTicket) {
        let withdrawn = self.queue.cancel(self.now, bio);
        debug_assert!(withdrawn.is_ok(), "what waits can be withdrawn: {withdrawn:?}");
        self.untold += u32::from(withdrawn.is_ok());
    }

    fn stops_waiting(&mut self, index: u32, granted: bool) {
        self.waiting -= 1;
        self.leaves(index, granted);
        let entry = self.entries.at_mut(index);
        if let Some(at) = entry.gives_up.take() {
            self.deadlines.remove(&(at, index));
        }
        if let Some(class) = entry.class.and_then(|class| self.classes.get_mut(class)) {
            class.waiting -= 1;
        }
    }

    /// A permit is no longer out.
    fn end(&mut self, index: u32, in_time: bool) {
        self.untell(index);
        let out = self.out.len();
        let entry = self.entries.at_mut(index);
        let (op, len, class) = (entry.op, entry.len, entry.class);
        let (told, behind, took) = (entry.told, entry.was_behind, self.now - entry.asked);
        self.out.leave(index, entry.holder);
        let served = self.clock.leave(self.now, entry.clock);
        if let Some(tag) = entry.tag.take() {
            let ended = self.queue.complete(self.now, tag, Outcome::OK.served(served));
            debug_assert!(ended.is_ok(), "a permit that is out is a command in the queue");
            self.untold += u32::from(ended.is_ok());
        }
        if let Some(class) = class.and_then(|class| self.classes.get_mut(class)) {
            class.inside -= 1;
            class.counts.device_time += served;
            if in_time {
                class.counts.given_back += 1;
                class.counts.bytes += len;
                if told > 0 {
                    class.corrections.add(op, behind, told, took.0);
                }
            } else {
                class.counts.expired += 1;
            }
        }
        let waits = self.waiting > self.kept;
        self.entries.free(index);
        if self.ceiling.ended(self.now, (op, len), served, (out, waits)) {
            let set = self.queue.set_value(self.now, "depth_max", self.ceiling.used());
            debug_assert!(set.is_ok(), "{set:?}");
        }
    }

    /// Returns whether there were any.
    fn take_back_expired(&mut self) -> bool {
        let before = self.out.len();
        while let Some((index, _)) = self.first_out().filter(|(_, expires)| *expires <= self.now) {
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

    /// Returns whether there were any.
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

    /// Whether others wait, or hold all permits.
    fn is_busy(&self) -> bool {
        self.waiting > self.kept || self.out.len() >= self.ceiling.used()
    }

    /// What a class has received so far.
    #[must_use]
    pub fn counts(&self, class: ClassId) -> Option<Counts> {
        self.classes.get(class).map(|class| class.counts)
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

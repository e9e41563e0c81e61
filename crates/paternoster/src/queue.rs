// SPDX-License-Identifier: MIT OR Apache-2.0
//! Request queue: the face of the library.
//!
//! A state machine without I/O. Time is an argument; what it wants done comes out of
//! [`RequestQueue::next`]:
//!
//! ```text
//!  submit ──▶ merge? ──▶ plug ──▶ door ──▶ elevator ──▶ dispatch list ──▶ Issue ──▶ (device)
//!      │         │ allocate: Busy, later Wake           ▲     ▲                         │
//!      └─ flush sequencer ──────────────────────────────┴─────┘                         │
//!  Done ◀────────┴────────────────────────────────────────────────────── complete ◀─────┘
//! ```
//!
//! Its parts have a file each: `merge.rs`, `plug.rs`, `allocate.rs`, `dispatch_list.rs`,
//! `flush/` (sequencer), `debt.rs` (the door), `change.rs` (elevators, clients, groups), `tell.rs`
//! (events), `control.rs` (attributes), `inspect.rs` (explain, audit). This file is the way of a
//! bio through them.
//!
//! # Order at one instant
//! Completions, then timers, then submissions in the order of the calls, then `next` until
//! `Wait`.
//!
//! # Invariants (asserted in debug builds in passing, see `inspect.rs`)
//! I1  Every bio that was accepted is in exactly one place (a request, the done list) until its
//!     one `Done`.
//! I2  Every request is in exactly one place: a plug, the door, the elevator, a list of the flush
//!     sequencer, the dispatch list, the device.
//! I3  Who got `Busy` gets a `Wake`, as long as others make progress.
//! I4  While requests wait and the device has room, `Wait` names the rule that says so.
//!
//! Source: spec `cfq-flush-block.md` section 13; the plan of the house, the library's contract.

use alloc::boxed::Box;

use crate::allocate::{Allocator, POOL_BIOS};
use crate::answer::{Output, Stale, SubmitError, Waiting};
use crate::bio_slot::{BioRun, BioSlot};
use crate::debt::Door;
use crate::device::{Command, DeviceFacts, Outcome, ServiceClock, Tag};
use crate::elevator::{Elevator, Pick, Place, Position, Rules};
use crate::event::{Action, NoObserver, Observer};
use crate::flush::Sequencer;
use crate::list::{Links, List};
use crate::merge::MergeIndex;
use crate::plug::DevicePlug;
use crate::request::{Bio, Cookie, Op, Request, RequestId, Stage, Ticket};
use crate::scene::{Limits, Scene};
use crate::slab::{Key, NIL, Slab};
use crate::time::Nanos;

/// A device that refused with nothing under way is asked again after this time (BLK-9).
const RETRY_AFTER_REFUSAL: Nanos = Nanos::from_millis(3);

/// Linux' read_ahead_kb when nothing is said.
const READ_AHEAD_KB: u64 = 128;

/// What is set by attributes.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) rules: Rules,
    /// Set by attribute: a change of elevator leaves it alone.
    pub(crate) rules_fixed: bool,
    pub(crate) requests_fixed: bool,
    /// 0 all merges, 1 only with the last merged, 2 none (BLK-3).
    pub(crate) nomerges: u8,
    pub(crate) device_plug: bool,
    pub(crate) max_sectors: u32,
    /// Not used here: kept for the page cache in front of the queue.
    pub(crate) read_ahead_kb: u64,
}

/// A block layer for one device. See the crate's opening for an example.
#[derive(Debug)]
pub struct RequestQueue<O: Observer = NoObserver> {
    pub(crate) scene: Scene,
    pub(crate) elevator: Box<dyn Elevator>,
    pub(crate) epoch: u32,
    pub(crate) policy: Policy,
    pub(crate) bios: Slab<BioSlot>,
    pub(crate) done: BioRun,
    pub(crate) merge: MergeIndex,
    pub(crate) allocator: Allocator,
    /// Of plug lists and the dispatch list.
    pub(crate) links: Links,
    pub(crate) dispatch: List,
    pub(crate) tags: Slab<u32>,
    pub(crate) plug: DevicePlug,
    /// Requests in the plugs of clients.
    pub(crate) plugged: u32,
    pub(crate) flush: Sequencer,
    pub(crate) door: Door,
    pub(crate) service: ServiceClock,
    /// The device refused: not before then, or before something ends.
    pub(crate) refused_until: Option<Nanos>,
    pub(crate) observer: O,
    pub(crate) sequence: u64,
    /// Calls so far, for the audit in passing.
    #[cfg(debug_assertions)]
    pub(crate) calls: u64,
    #[cfg(feature = "planted-bugs")]
    pub(crate) planted: crate::planted::Planted,
}

impl RequestQueue<NoObserver> {
    /// A queue that nobody observes.
    #[must_use]
    pub fn unobserved(facts: DeviceFacts, limits: Limits, elevator: Box<dyn Elevator>) -> Self {
        RequestQueue::new(facts, limits, elevator, NoObserver)
    }
}

impl<O: Observer> RequestQueue<O> {
    /// A queue in front of a device. Allocates everything it will ever need; limits below the
    /// least that works (12 requests, 16 bios, one client) are raised to it.
    #[must_use]
    pub fn new(
        facts: DeviceFacts,
        limits: Limits,
        elevator: Box<dyn Elevator>,
        observer: O,
    ) -> RequestQueue<O> {
        let limits = Limits {
            requests: limits.requests.max(12),
            bios: limits.bios.max(16),
            clients: limits.clients.max(1),
            groups: limits.groups.max(1),
            notes: limits.notes,
        };
        let facts = DeviceFacts { depth: facts.depth.max(1), ..facts };
        let scene = Scene::new(facts, limits, O::LISTENS);
        let mut queue = RequestQueue {
            epoch: 0,
            policy: Policy {
                rules: elevator.rules(),
                rules_fixed: false,
                requests_fixed: false,
                nomerges: 0,
                device_plug: false,
                max_sectors: facts.max_sectors.max(1),
                read_ahead_kb: READ_AHEAD_KB,
            },
            elevator,
            bios: Slab::with_capacity(limits.bios),
            done: BioRun::EMPTY,
            merge: MergeIndex::with_capacity(limits.requests + 1),
            allocator: Allocator::new(&limits),
            links: Links::with_capacity(limits.requests + 1),
            dispatch: List::new(),
            tags: Slab::with_capacity(facts.depth),
            plug: DevicePlug::default(),
            plugged: 0,
            flush: Sequencer::new(&limits),
            door: Door::with_capacity(limits.clients),
            service: ServiceClock::default(),
            refused_until: None,
            observer,
            sequence: 0,
            #[cfg(debug_assertions)]
            calls: 0,
            #[cfg(feature = "planted-bugs")]
            planted: crate::planted::Planted::default(),
            scene,
        };
        queue.reset_nr_requests();
        queue.introduce();
        queue
    }

    /// Takes a bio in.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] puts its client to sleep until an [`Output::Wake`]; the others say
    /// what is wrong with it.
    pub fn submit(&mut self, now: Nanos, bio: Bio) -> Result<Ticket, SubmitError> {
        self.arrive(now);
        self.validate(&bio)?;
        self.announce(&bio);
        let result = self.take_in(&bio);
        if result.is_ok() {
            let client = self.scene.clients.at_mut(bio.client.index());
            client.bios += 1;
            client.refused = None;
        }
        self.end_call();
        result
    }

    fn validate(&self, bio: &Bio) -> Result<(), SubmitError> {
        let facts = &self.scene.facts;
        let client = self.scene.clients.get(bio.client.0).ok_or(SubmitError::NoClient)?;
        if client.leaving {
            return Err(SubmitError::NoClient);
        }
        if (bio.op == Op::Flush) != (bio.sectors == 0) {
            return Err(SubmitError::Size);
        }
        let capacity = facts.capacity;
        let end = bio.sector.checked_add(u64::from(bio.sectors));
        if end.is_none_or(|end| end > capacity) {
            return Err(SubmitError::BeyondEnd { end: end.unwrap_or(u64::MAX), capacity });
        }
        if bio.sectors > self.policy.max_sectors {
            return Err(SubmitError::TooLarge { size: bio.sectors, most: self.policy.max_sectors });
        }
        if bio.segments > facts.max_segments {
            let (size, most) = (bio.segments.into(), facts.max_segments.into());
            return Err(SubmitError::TooLarge { size, most });
        }
        Ok(())
    }

    /// One Q event per bio, also when it has to be submitted again after a sleep.
    fn announce(&mut self, bio: &Bio) {
        let refused = self.scene.clients.at(bio.client.index()).refused;
        if refused != Some((bio.sector, bio.sectors)) {
            self.emit(Action::Queue, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
        }
    }

    fn take_in(&mut self, bio: &Bio) -> Result<Ticket, SubmitError> {
        let Some((key, slot)) = self.bios.take() else {
            return Err(self.fall_asleep(bio, POOL_BIOS));
        };
        slot.fill(bio);
        let taken = if bio.is_flushing() {
            self.take_in_flushing(key, bio)
        } else {
            self.take_in_plain(key, bio)
        };
        taken.map_err(|pool| {
            self.bios.free(key.index());
            self.fall_asleep(bio, pool)
        })
    }

    /// A bio that the flush machinery has nothing to do with: merged, or given a request of its
    /// own; or the pool to sleep in.
    pub(crate) fn take_in_plain(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        if self.merge_bio(key.index(), bio) {
            // The client had been woken for a request that it does not take now.
            self.pass_on_wakes(bio.client);
            return Ok(Ticket(key));
        }
        let id = self.allocate(bio)?;
        self.begin(id, key.index(), bio);
        Ok(Ticket(key))
    }

    /// A fresh request carries `bio`.
    pub(crate) fn carry(&mut self, id: RequestId, bio_index: u32, bio: &Bio) {
        self.bios.at_mut(bio_index).request = id.0;
        let request = &mut self.scene.requests[id];
        (request.bios_first, request.bios_last) = (bio_index, bio_index);
        self.emit(Action::Get, bio.client, bio.op, bio.flags, (bio.sector, bio.sectors));
    }

    /// A fresh request for `bio`: bound, and put into the client's plug or the elevator.
    fn begin(&mut self, id: RequestId, bio_index: u32, bio: &Bio) {
        self.carry(id, bio_index, bio);
        self.elevator.bind(&mut self.scene, id);
        if self.scene.clients.at(bio.client.index()).plugged {
            self.add_to_plug(bio.client, id);
        } else {
            self.plug_device();
            self.insert(id);
            self.unplug_device_if_enough();
        }
    }

    /// Gives a bound request to the elevator, unless its client has to wait at the door.
    pub(crate) fn insert(&mut self, id: RequestId) {
        if !self.keep_at_door(id) {
            self.insert_at(id, Position::Sorted);
        }
    }

    pub(crate) fn insert_at(&mut self, id: RequestId, position: Position) {
        self.scene.requests[id].stage = Stage::Waiting;
        self.emit_request(Action::Insert, id);
        self.elevator.insert(&mut self.scene, id, position);
        self.index_for_merging(id);
    }

    /// What to do next. Call it until it says `Wait`.
    pub fn next(&mut self, now: Nanos) -> Output {
        self.advance(now);
        let output = loop {
            if let Some(output) = self.hand_back() {
                break output;
            }
            self.run_timers();
            // A flush that was put off may have ended without a command.
            if self.done.is_empty() {
                break self.choose();
            }
        };
        self.end_call();
        output
    }

    /// Bios that have ended and clients that may try again, before anything else.
    fn hand_back(&mut self) -> Option<Output> {
        if let Some(index) = self.done.pop(&mut self.bios) {
            let slot = self.bios.at(index);
            let (client, cookie, outcome) = (slot.client?, slot.cookie, slot.outcome);
            self.bios.free(index);
            self.forget_bio_of(client);
            return Some(Output::Done(cookie, outcome));
        }
        self.next_wake().map(Output::Wake)
    }

    #[inline]
    fn run_timers(&mut self) {
        if self.scene.timer_rings() <= self.scene.exact {
            self.scene.cancel_timer();
            self.elevator.timer(&mut self.scene);
        }
        if self.plug.is_due(self.scene.exact) {
            self.unplug_device(Action::UnplugTimer);
        }
        if self.tags.is_empty() && self.refused_until.is_some_and(|at| at <= self.scene.exact) {
            self.refused_until = None;
        }
        self.kick_put_off();
    }

    fn choose(&mut self) -> Output {
        if self.tags.is_full() {
            return self.wait(Waiting::DeviceFull);
        }
        if self.refused_until.is_some() {
            return self.wait(Waiting::Refused);
        }
        loop {
            if !self.door.is_empty() {
                self.open_door();
            }
            let beside_flush = self.flush.in_flight();
            #[cfg(feature = "planted-bugs")]
            let beside_flush = beside_flush || self.planted.holds_for_ever();
            if beside_flush {
                if let Some(output) = self.choose_beside_flush() {
                    return output;
                }
            } else if let Some(index) = self.dispatch.pop_front(&mut self.links) {
                return self.issue(RequestId(index));
            }
            if self.plug.is_plugged() {
                return self.wait(Waiting::Plugged);
            }
            if let Some(output) = self.ask_elevator() {
                return output;
            }
        }
    }

    /// What goes while a flush is in flight, or may not; `None` to ask the elevator.
    fn choose_beside_flush(&mut self) -> Option<Output> {
        match self.next_dispatched() {
            Err(wait) => Some(wait),
            Ok(Some(id)) => Some(self.issue(id)),
            Ok(None) if self.holds_queue() => Some(self.wait(Waiting::Flush)),
            Ok(None) => None,
        }
    }

    /// What the elevator wants done; `None` to look at the dispatch list again.
    fn ask_elevator(&mut self) -> Option<Output> {
        Some(match self.elevator.pick(&mut self.scene) {
            Pick::Dispatch(id, place) => {
                self.leave_merging(id);
                if self.hold_write(id) {
                    return None;
                }
                if self.policy.rules == Rules::Mq || place == Place::Tail {
                    // The dispatch list is empty: its tail is its head (BLK-17).
                    return Some(self.issue(id));
                }
                self.add_to_dispatch(id);
                return None;
            }
            Pick::Idle => self.wait(Waiting::Idling),
            Pick::Await => self.wait(Waiting::Completion),
            Pick::Nothing if self.somebody_awaits_flush() => self.wait(Waiting::Flush),
            // The door was open a moment ago to whoever may come in now.
            Pick::Nothing if !self.door.is_empty() => self.wait(Waiting::Debt),
            Pick::Nothing if self.plugged != 0 => self.wait(Waiting::Plugged),
            Pick::Nothing if !self.tags.is_empty() => self.wait(Waiting::InDevice),
            Pick::Nothing => self.wait(Waiting::Empty),
        })
    }

    pub(crate) fn wait(&self, why: Waiting) -> Output {
        let mut until = self.scene.timer_rings().min(self.plug.deadline());
        if self.flush.policy.delay != Nanos::ZERO || !self.door.is_empty() {
            until = until.min(self.flush_due()).min(self.door_deadline());
        }
        if let (true, Some(at)) = (self.tags.is_empty(), self.refused_until) {
            until = until.min(at);
        }
        Output::Wait { until: (until != Nanos::MAX).then_some(until), why }
    }

    /// Gives a request to the device. There is a free tag.
    pub(crate) fn issue(&mut self, id: RequestId) -> Output {
        let Ok(tag) = self.tags.insert(id.0) else {
            // Only reached if a caller of this function forgot to look; the request keeps its turn.
            self.dispatch.push_front(&mut self.links, id.0);
            return self.wait(Waiting::DeviceFull);
        };
        let now = self.scene.exact;
        let clock = self.service.enter(now);
        let request = &mut self.scene.requests[id];
        request.stage = Stage::InDevice;
        request.was_started = true;
        request.tag = tag.index();
        request.issued = now;
        request.clock = clock;
        let command = Command {
            tag: Tag(tag),
            op: request.op,
            sector: request.sector,
            sectors: request.sectors,
            flags: request.flags,
            client: request.client(),
        };
        let (sync, bound) = (request.is_sync(), request.epoch == self.epoch);
        if command.op == Op::Flush {
            self.flush_starts();
        } else {
            let in_device = &mut self.scene.in_device;
            in_device.requests += 1;
            in_device.sync += u32::from(sync);
            in_device.last_end = command.end();
        }
        self.emit_request(Action::Issue, id);
        if bound {
            self.elevator.started(&mut self.scene, id);
        }
        Output::Issue(command)
    }

    /// The device has finished the command `tag`.
    ///
    /// # Errors
    /// [`Stale`] when no such command is in the device: it was completed or requeued already.
    pub fn complete(&mut self, now: Nanos, tag: Tag, outcome: Outcome) -> Result<(), Stale> {
        self.advance(now);
        let (id, measured) = self.take_from_device(tag)?;
        let served = outcome.served.unwrap_or(measured);
        let request = &self.scene.requests[id];
        let bound = request.epoch == self.epoch;
        self.emit_completion(id, outcome, served);
        self.refused_until = None;
        if self.flush.is_command(id) {
            self.flush_ended(id, outcome, served);
        } else {
            #[cfg(feature = "planted-bugs")]
            let bound = bound || self.planted.completes_old_epoch();
            if bound {
                self.elevator.completed(&mut self.scene, id, served);
            }
            self.command_ended(id, outcome, served);
        }
        self.kick_put_off();
        self.end_call();
        Ok(())
    }

    /// A command other than a flush has ended; an elevator that knew of it has been told.
    fn command_ended(&mut self, id: RequestId, outcome: Outcome, served: Nanos) {
        let request = &self.scene.requests[id];
        let (sequenced, let_in) = (request.steps.is_sequenced(), request.let_in);
        let client = request.client();
        if self.scene.facts.write_cache {
            self.note_written(id);
        }
        if self.owners_pay() {
            self.pass_device_time(client, served, let_in);
        }
        if sequenced {
            self.data_ended(id, outcome);
        } else {
            self.end_bios(id, outcome);
            self.free(id);
            self.end_train();
        }
    }

    /// The device refused the command `tag`; it goes out again.
    ///
    /// # Errors
    /// [`Stale`] when no such command is in the device.
    pub fn requeue(&mut self, now: Nanos, tag: Tag) -> Result<(), Stale> {
        self.advance(now);
        let (id, _) = self.take_from_device(tag)?;
        let bound = self.scene.requests[id].epoch == self.epoch;
        self.emit_request(Action::Requeue, id);
        self.refused_until = Some(self.scene.exact + RETRY_AFTER_REFUSAL);
        if bound {
            self.elevator.requeued(&mut self.scene, id);
        }
        if bound && self.policy.rules == Rules::Mq {
            self.scene.requests[id].stage = Stage::Waiting;
            self.elevator.insert(&mut self.scene, id, Position::Head);
        } else {
            // Also a flush, and what an earlier elevator had picked: it keeps its precedence
            // (BLK-11).
            self.scene.requests[id].stage = Stage::Dispatched;
            self.dispatch.push_front(&mut self.links, id.0);
        }
        self.end_call();
        Ok(())
    }

    fn take_from_device(&mut self, tag: Tag) -> Result<(RequestId, Nanos), Stale> {
        let id = RequestId(*self.tags.get(tag.0).ok_or(Stale)?);
        self.tags.release(tag.index());
        let request = &self.scene.requests[id];
        let (sync, op) = (request.is_sync(), request.op);
        let measured = self.service.leave(self.scene.exact, request.clock);
        if op != Op::Flush {
            self.scene.in_device.requests -= 1;
            self.scene.in_device.sync -= u32::from(sync);
        }
        Ok((id, measured))
    }

    /// All bios of a request have ended with `outcome`.
    pub(crate) fn end_bios(&mut self, id: RequestId, outcome: Outcome) {
        let request = &self.scene.requests[id];
        let run = BioRun { first: request.bios_first, last: request.bios_last };
        #[cfg(feature = "planted-bugs")]
        let run = if self.planted.forgets_merged_bio(run.first != run.last) {
            self.bios.at_mut(run.first).next = NIL;
            BioRun::one(run.first)
        } else {
            run
        };
        let mut index = run.first;
        while index != NIL {
            let slot = self.bios.at_mut(index);
            slot.outcome = outcome;
            slot.request = NIL;
            index = slot.next;
        }
        #[cfg(feature = "planted-bugs")]
        if self.planted.completes_twice() {
            let again = self.bios.at(run.first).clone();
            if let Ok(key) = self.bios.insert(BioSlot { next: NIL, ..again }) {
                self.done.append(&mut self.bios, BioRun::one(key.index()));
            }
        }
        self.done.append(&mut self.bios, run);
    }

    /// Lets time reach `now` for something that comes from a client: timers that are due by then
    /// were first (see the order at one instant).
    pub(crate) fn arrive(&mut self, now: Nanos) {
        self.advance(now);
        self.run_timers();
    }

    /// Lets time reach `now`; an earlier time than the last is taken as the last.
    pub(crate) fn advance(&mut self, now: Nanos) {
        if now > self.scene.exact {
            self.scene.exact = now;
            // Behind a change to a coarser `hz` its next tick may be still to come.
            self.scene.now = self.scene.now.max(self.scene.hz.floor(now));
        }
    }

    /// The end of every public call: notes go out, and in debug builds the audit is held.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        self.tell_notes();
        #[cfg(debug_assertions)]
        self.audit_in_passing();
    }

    /// What a request knows of itself, for callers that keep tables by tag.
    #[must_use]
    pub fn request_of(&self, tag: Tag) -> Option<&Request> {
        self.tags.get(tag.0).map(|&index| self.scene.request(index))
    }

    /// The cookies of the bios that a command carries, in the order of their sectors: whose
    /// buffers to use.
    pub fn cookies(&self, tag: Tag) -> impl Iterator<Item = Cookie> + '_ {
        let run = self.request_of(tag).map_or(BioRun::EMPTY, |request| BioRun {
            first: request.bios_first,
            last: request.bios_last,
        });
        run.iter(&self.bios).map(|index| self.bios.at(index).cookie)
    }

    /// The observer, to read what it has gathered.
    #[must_use]
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to change what it does.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// What the device says of itself.
    #[must_use]
    pub const fn facts(&self) -> &DeviceFacts {
        &self.scene.facts
    }

    /// Largest bio and request, in sectors.
    #[must_use]
    pub const fn max_sectors(&self) -> u32 {
        self.policy.max_sectors
    }

    /// The present elevator's name.
    #[must_use]
    pub fn elevator_name(&self) -> &'static str {
        self.elevator.name()
    }

    /// Commands in the device.
    #[must_use]
    pub const fn in_device(&self) -> u32 {
        self.tags.len()
    }
}

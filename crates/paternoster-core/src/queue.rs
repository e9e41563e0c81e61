// SPDX-License-Identifier: MIT OR Apache-2.0
//! Request queue: the main interface of the library.
//!
//! A state machine without I/O. Time is an argument; [`RequestQueue::next`] returns what it wants
//! done:
//!
//! ```text
//!  submit ──▶ merge? ──▶ plug ─▶ throttle ─▶ elevator ─▶ dispatch list ──▶ Issue ──▶ (device)
//!      │         │ allocate: Busy, later Wake           ▲     ▲                         │
//!      └─ flush sequencer ──────────────────────────────┴─────┘                         │
//!  Done ◀────────┴────────────────────────────────────────────────────── complete ◀─────┘
//! ```
//!
//! Its parts are in `block/` (merge, admission, plug, dispatch, throttle) and `flush/`
//! (sequencer); what it does with them in `queue/`, `queue/lifecycle.rs` (elevators, clients,
//! groups), `queue/events.rs` (events), `queue/attributes.rs` (attributes), `inspect.rs` (explain,
//! audit). A bio passes through `queue/submit.rs` (in), this file (what to do next),
//! `queue/ends.rs` (done, refused).
//!
//! # Order at one instant
//! Completions, then timers, then submissions in the order of the calls, then `next` until
//! `Wait`.
//!
//! # Invariants (asserted automatically with the feature `audit`, see `inspect.rs`)
//! I1  Every accepted bio is in exactly one place (a request, the done list) until its one `Done`.
//! I2  Every request is in exactly one place: a plug, the throttle, the elevator, a list of the
//!     flush sequencer, the dispatch list, the device.
//! I3  A client that got `Busy` gets a `Wake`, as long as others make progress.
//! I4  While requests wait and the device has room, `Wait` names the rule that applies.
//!
//! Source: BLK-1 to BLK-17; the calls and their contract are own.

pub(crate) mod admission;
pub(crate) mod attributes;
mod dispatching;
mod ends;
mod events;
mod flush_cost;
mod flushing;
pub(crate) mod lifecycle;
mod merging;
mod plugging;
mod submit;

use alloc::boxed::Box;

use crate::answer::{Output, Waiting};
use crate::bio::Cookie;
use crate::bio_slot::{BioRun, BioSlot};
use crate::block::admission::Allocator;
use crate::block::chosen::Chosen;
use crate::block::merge::Merger;
use crate::block::plug::{DevicePlug, TaskPlugs};
use crate::block::throttle::Throttle;
use crate::device::{Command, DeviceFacts, ServiceClock, Tag};
use crate::elevator::{Elevator, Pick, Place, Rules};
use crate::event::{Action, NoObserver, Observer};
use crate::flush::Sequencer;
use crate::list::{Links, List};
use crate::op::Op;
use crate::queue_view::{Limits, QueueView};
use crate::request::{Request, RequestId, Stage};
use crate::slab::Slab;
use crate::time::Nanos;

/// A device that refused with nothing in it is tried again after this time (BLK-9).
const RETRY_AFTER_REFUSAL: Nanos = Nanos::from_millis(3);

/// Linux' default of read_ahead_kb.
const READ_AHEAD_KB: u64 = 128;

/// Settings made by attributes.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) rules: Rules,
    /// Set by attribute: a change of elevator does not change it.
    pub(crate) rules_fixed: bool,
    pub(crate) requests_fixed: bool,
    pub(crate) device_plug: bool,
    /// Not used here: kept for the page cache in front of the queue.
    pub(crate) read_ahead_kb: u64,
}

/// A block layer for one device. See the crate documentation for an example.
#[derive(Debug)]
pub struct RequestQueue<O: Observer = NoObserver> {
    pub(crate) view: QueueView,
    pub(crate) elevator: Chosen,
    pub(crate) policy: Policy,
    pub(crate) bios: Slab<BioSlot>,
    pub(crate) done: BioRun,
    pub(crate) merger: Merger,
    pub(crate) allocator: Allocator,
    /// Links of plug lists and the dispatch list.
    pub(crate) links: Links,
    pub(crate) dispatch: List,
    pub(crate) tags: Slab<u32>,
    pub(crate) plug: DevicePlug,
    pub(crate) plugs: TaskPlugs,
    pub(crate) flush: Sequencer,
    pub(crate) throttle: Throttle,
    pub(crate) service: ServiceClock,
    /// The device refused: nothing is sent before this, or before a command ends. `Nanos::MAX`: it
    /// did not.
    pub(crate) refused_until: Nanos,
    pub(crate) observer: O,
    pub(crate) sequence: u64,
    /// Calls so far, for the automatic audit.
    #[cfg(all(debug_assertions, feature = "audit"))]
    pub(crate) calls: u64,
}

impl<O: Observer> RequestQueue<O> {
    /// A queue in front of a device, with limits that the builder has checked. Allocates everything
    /// it will ever need.
    pub(crate) fn make(
        facts: DeviceFacts,
        limits: Limits,
        elevator: Box<dyn Elevator>,
        observer: O,
    ) -> RequestQueue<O> {
        let view = QueueView::new(facts, limits, O::LISTENS);
        let elevator = Chosen::new(elevator);
        let mut queue = RequestQueue {
            policy: Policy {
                rules: elevator.traits().rules,
                rules_fixed: false,
                requests_fixed: false,
                device_plug: false,
                read_ahead_kb: READ_AHEAD_KB,
            },
            elevator,
            bios: Slab::with_capacity(limits.bios),
            done: BioRun::EMPTY,
            merger: Merger::new(limits.requests + 1, facts.max_sectors.max(1)),
            allocator: Allocator::new(&limits),
            links: Links::with_capacity(limits.requests + 1),
            dispatch: List::new(),
            tags: Slab::with_capacity(facts.depth),
            plug: DevicePlug::OPEN,
            plugs: TaskPlugs::with_capacity(limits.clients),
            flush: Sequencer::new(&limits),
            throttle: Throttle::with_capacity(limits.clients),
            service: ServiceClock::default(),
            refused_until: Nanos::MAX,
            observer,
            sequence: 0,
            #[cfg(all(debug_assertions, feature = "audit"))]
            calls: 0,
            view,
        };
        queue.reset_nr_requests();
        queue.introduce();
        queue
    }

    /// What to do next. Call it until it says `Wait`.
    pub fn next(&mut self, now: Nanos) -> Output {
        self.advance(now);
        let output = loop {
            if let Some(output) = self.hand_back() {
                break output;
            }
            self.run_timers();
            // A delayed flush may have ended without a command.
            if self.done.is_empty() {
                break self.choose();
            }
        };
        self.end_call();
        output
    }

    /// Bios that have ended, and clients that may try again, before anything else.
    fn hand_back(&mut self) -> Option<Output> {
        if let Some(slot) = self.done.pop(&mut self.bios) {
            let (client, cookie, outcome) = (slot.client, slot.cookie, slot.outcome);
            self.forget_bio_of(client);
            return Some(Output::Done(cookie, outcome));
        }
        self.allocator.next_wake(&mut self.view).map(Output::Wake)
    }

    #[inline]
    fn run_timers(&mut self) {
        if self.view.timer_rings() <= self.view.exact {
            self.view.cancel_timer();
            self.elevator.timer(&mut self.view);
        }
        if self.plug.deadline() <= self.view.exact {
            self.unplug_device(Action::UnplugTimer);
        }
        if self.refused_until <= self.view.exact && self.tags.is_empty() {
            self.refused_until = Nanos::MAX;
        }
        self.kick_put_off();
    }

    fn choose(&mut self) -> Output {
        match self.next_request() {
            Ok(id) => self.issue(id),
            Err(why) => self.wait(why),
        }
    }

    /// Which request goes to the device, or why none does.
    fn next_request(&mut self) -> Result<RequestId, Waiting> {
        if self.tags.is_full() {
            return Err(Waiting::DeviceFull);
        }
        if self.refused_until != Nanos::MAX {
            return Err(Waiting::Refused);
        }
        loop {
            if !self.throttle.is_empty() {
                self.release_throttled();
            }
            let beside_flush = self.flush.in_flight();
            #[cfg(feature = "planted-bugs")]
            let beside_flush = beside_flush || self.view.planted.holds_for_ever();
            if beside_flush {
                if let Some(id) = self.next_beside_flush()? {
                    return Ok(id);
                }
            } else if let Some(index) = self.dispatch.pop_front(&mut self.links) {
                return Ok(RequestId(index));
            }
            if self.plug.is_plugged() {
                return Err(Waiting::Plugged);
            }
            if let Some(id) = self.ask_elevator()? {
                return Ok(id);
            }
        }
    }

    /// The request that goes while a flush is in flight, or why none does; `None` to ask the
    /// elevator.
    #[inline(never)]
    fn next_beside_flush(&mut self) -> Result<Option<RequestId>, Waiting> {
        let idle = self.tags.is_empty();
        let RequestQueue { flush, view, dispatch, links, .. } = self;
        let next = flush.next_dispatched(view, dispatch, links, idle)?;
        if let Some(id) = next {
            dispatch.remove(links, id.0);
        }
        if next.is_none() && self.holds_queue() { Err(Waiting::Flush) } else { Ok(next) }
    }

    /// Whether nothing leaves the elevator because a flush is in flight.
    pub(crate) fn holds_queue(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        if self.view.planted.holds_for_ever() {
            return true;
        }
        self.flush.holds_queue(&self.view.facts)
    }

    /// What the elevator wants done; `None` to look at the dispatch list again.
    fn ask_elevator(&mut self) -> Result<Option<RequestId>, Waiting> {
        match self.elevator.pick(&mut self.view) {
            Pick::Dispatch(id, place) => {
                self.merger.leave(id);
                if self.flush.holds(&self.view, id) {
                    self.view.requests[id].stage = Stage::Dispatched;
                    self.dispatch.push_back(&mut self.links, id.0);
                    return Ok(None);
                }
                let last = place == Place::Tail || self.policy.rules == Rules::Mq;
                if last || self.dispatch.is_empty() {
                    // Nothing on the dispatch list goes before it, if the list has anything at all
                    // (BLK-17): requests held for a flush do not.
                    return Ok(Some(id));
                }
                self.add_to_dispatch(id);
                Ok(None)
            }
            Pick::Idle => Err(Waiting::Idling),
            Pick::Await => Err(Waiting::Completion),
            Pick::Nothing if self.flush.is_awaited() => Err(Waiting::Flush),
            // Requests that may go were released a moment ago.
            Pick::Nothing if !self.throttle.is_empty() => Err(Waiting::Throttled),
            Pick::Nothing if self.plugs.held() != 0 => Err(Waiting::Plugged),
            Pick::Nothing if !self.tags.is_empty() => Err(Waiting::InDevice),
            Pick::Nothing => Err(Waiting::Empty),
        }
    }

    #[inline]
    fn wait(&self, why: Waiting) -> Output {
        let mut until = self.view.timer_rings().min(self.plug.deadline());
        if self.flush.policy.delay != Nanos::ZERO || !self.throttle.is_empty() {
            until = until.min(self.flush.due(self.view.exact)).min(self.throttle_deadline());
        }
        if self.tags.is_empty() {
            until = until.min(self.refused_until);
        }
        Output::Wait { until: (until != Nanos::MAX).then_some(until), why }
    }

    /// Gives a request to the device. There is a free tag.
    #[inline(always)]
    fn issue(&mut self, id: RequestId) -> Output {
        let Ok(tag) = self.tags.insert(id.0) else { return self.put_back(id) };
        let now = self.view.exact;
        let clock = self.service.enter(now);
        let request = &mut self.view.requests[id];
        request.stage = Stage::InDevice;
        request.was_started = true;
        request.tag = tag.index();
        request.issued = now;
        request.clock = clock;
        let bound = self.elevator.has_bound(request);
        if request.op == Op::Flush {
            self.flush.starts(now);
        } else {
            let in_device = &mut self.view.in_device;
            in_device.requests += 1;
            in_device.sync += u32::from(request.is_sync());
            in_device.last_end = request.end();
        }
        self.emit_request(Action::Issue, id);
        if bound {
            self.elevator.started(&mut self.view, id);
        }
        let request = &self.view.requests[id];
        Output::Issue(Command {
            tag: Tag(tag),
            op: request.op,
            sector: request.sector,
            sectors: request.sectors,
            flags: request.flags,
            client: request.client,
        })
    }

    /// Reached only if a caller of `issue` forgot to check for a free tag: the request keeps its
    /// turn.
    #[cold]
    fn put_back(&mut self, id: RequestId) -> Output {
        self.view.requests[id].stage = Stage::Dispatched;
        self.dispatch.push_front(&mut self.links, id.0);
        self.wait(Waiting::DeviceFull)
    }

    /// Plants a bug that strikes once, after `after` opportunities.
    #[cfg(feature = "planted-bugs")]
    pub const fn plant(&mut self, bug: crate::planted::Bug, after: u32) {
        self.view.planted = crate::planted::Planted::new(bug, after);
    }

    /// Advances time to `now` for something that comes from a client: timers that are due by then
    /// come first (see the order at one instant).
    pub(crate) fn arrive(&mut self, now: Nanos) {
        self.advance(now);
        self.run_timers();
    }

    /// Advances time to `now`; an earlier time than the last counts as the last.
    pub(crate) fn advance(&mut self, now: Nanos) {
        if now > self.view.exact {
            self.view.exact = now;
            // After a change to a coarser `hz` its next tick may be still to come.
            self.view.now = self.view.now.max(self.view.hz().floor(now));
        }
    }

    /// The end of every public call: forwards notes, and audits with the feature `audit`.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        self.tell_notes();
        #[cfg(all(debug_assertions, feature = "audit"))]
        self.audit_in_passing();
    }

    /// The request of a command, for callers that keep tables by tag.
    #[must_use]
    pub fn request_of(&self, tag: Tag) -> Option<&Request> {
        self.tags.get(tag.0).map(|&index| self.view.slot(index))
    }

    /// The cookies of the bios that a command carries, in sector order: they identify the buffers
    /// to use.
    pub fn cookies(&self, tag: Tag) -> impl Iterator<Item = Cookie> + '_ {
        let run = self.request_of(tag).map_or(BioRun::EMPTY, Request::bios);
        run.iter(&self.bios).map(|index| self.bios.at(index).cookie)
    }

    /// The observer, to read its data.
    #[must_use]
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to change its behaviour.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// What the device reports about itself.
    #[must_use]
    pub const fn facts(&self) -> &DeviceFacts {
        &self.view.facts
    }

    /// Largest bio and request, in sectors.
    #[must_use]
    pub const fn max_sectors(&self) -> u32 {
        self.merger.max_sectors
    }

    /// The present elevator's name.
    #[must_use]
    pub fn elevator_name(&self) -> &'static str {
        self.elevator.traits().name
    }

    /// Commands in the device.
    #[must_use]
    pub const fn in_device(&self) -> u32 {
        self.tags.len()
    }
}

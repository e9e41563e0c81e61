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
//! Its parts are in `block/` (merge, admission, plug, dispatch, issued, throttle) and `flush/`
//! (sequencer); what all of them may need is in `block/common.rs` (tables, elevator, events). The
//! queue wires them: a part answers, the queue acts. A bio passes through `queue/submit.rs` (in),
//! this file (what to do next) and `queue/ends.rs` (done, refused); `queue/lifecycle.rs` has
//! elevators, clients and groups, `queue/attributes.rs` attributes, `inspect.rs` explain and audit.
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

pub(crate) mod attributes;
mod ends;
pub(crate) mod lifecycle;
mod submit;

use alloc::boxed::Box;

use crate::answer::{Output, Waiting};
use crate::bio::Cookie;
use crate::bio_slot::BioRun;
use crate::block::admission::{Allocator, reset_nr_requests};
use crate::block::chosen::Chosen;
use crate::block::common::Common;
use crate::block::dispatch::Dispatch;
use crate::block::issued::{Entered, Issued};
use crate::block::merge::Merger;
use crate::block::plug::Plugs;
use crate::block::throttle::Throttle;
use crate::builder::Builder;
use crate::device::{Command, DeviceFacts, Tag};
use crate::elevator::{Elevator, Pick, Place, Rules};
use crate::event::{Action, NoObserver, Observer};
use crate::flush::{Sequence, Sequencer};
use crate::queue_view::{Limits, QueueView};
use crate::request::{Request, RequestId};
use crate::time::Nanos;

/// Linux' default of read_ahead_kb.
const READ_AHEAD_KB: u64 = 128;

/// Settings made by attributes.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// The rules were set by attribute: a change of elevator does not change them.
    pub(crate) rules_fixed: bool,
    pub(crate) requests_fixed: bool,
    /// Not used here: kept for the page cache in front of the queue.
    pub(crate) read_ahead_kb: u64,
}

/// A block layer for one device. See the crate documentation for an example.
#[derive(Debug)]
pub struct RequestQueue<O: Observer = NoObserver> {
    pub(crate) common: Common<O>,
    pub(crate) policy: Policy,
    pub(crate) merger: Merger,
    pub(crate) allocator: Allocator,
    pub(crate) dispatch: Dispatch,
    pub(crate) issued: Issued,
    pub(crate) plugs: Plugs,
    pub(crate) flush: Sequencer,
    pub(crate) throttle: Throttle,
    /// Calls so far, for the automatic audit.
    #[cfg(all(debug_assertions, feature = "audit"))]
    pub(crate) calls: u64,
}

impl RequestQueue<NoObserver> {
    /// The parts of a queue in front of a device. As it is, it has the default limits and no
    /// observer.
    ///
    /// ```
    /// use paternoster_core::{BuildError, DeviceFacts, Elevator, Limits, RequestQueue};
    ///
    /// fn with_four_bios(elevator: Box<dyn Elevator>) {
    ///     let limits = Limits { bios: 4, ..Limits::default() };
    ///     let builder = RequestQueue::builder(DeviceFacts::default(), elevator);
    ///     let refused = builder.limits(limits).build();
    ///     let why = BuildError::TooFew { what: "bios", asked: 4, least: 16 };
    ///     assert_eq!(refused.unwrap_err(), why);
    /// }
    /// ```
    pub fn builder(facts: DeviceFacts, elevator: Box<dyn Elevator>) -> Builder {
        Builder::new(facts, elevator)
    }
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
            common: Common::new(view, elevator, observer),
            policy: Policy {
                rules_fixed: false,
                requests_fixed: false,
                read_ahead_kb: READ_AHEAD_KB,
            },
            merger: Merger::new(limits.requests + 1, facts.max_sectors.max(1)),
            allocator: Allocator::new(&limits),
            dispatch: Dispatch::default(),
            issued: Issued::with_depth(facts.depth),
            plugs: Plugs::with_capacity(limits.clients),
            flush: Sequencer::new(&limits),
            throttle: Throttle::with_capacity(limits.clients),
            #[cfg(all(debug_assertions, feature = "audit"))]
            calls: 0,
        };
        reset_nr_requests(&mut queue.common, false);
        queue.common.introduce();
        queue
    }

    /// What to do next. Call it until it says `Wait`.
    pub fn next(&mut self, now: Nanos) -> Output {
        self.advance(now);
        let output = loop {
            if let Some(output) = self.hand_back() {
                break output;
            }
            if self.is_time_to_ring() && self.ring() {
                continue;
            }
            self.run_timers();
            // A delayed flush may have ended without a command.
            if !self.common.bios.has_ended() {
                break match self.next_request() {
                    Ok(id) => self.issue(id),
                    Err(why) => self.wait(why),
                };
            }
        };
        self.end_call();
        output
    }

    /// Bios that have ended, and clients that may try again, before anything else.
    fn hand_back(&mut self) -> Option<Output> {
        if let Some(slot) = self.common.bios.hand_back() {
            let (client, cookie, outcome) = (slot.client, slot.cookie, slot.outcome);
            let Self { common, throttle, .. } = self;
            if let Some(gone) = self.allocator.forget_bio(common, throttle, client) {
                self.remove_client(gone);
            }
            return Some(Output::Done(cookie, outcome));
        }
        self.allocator.next_wake(&mut self.common.view).map(Output::Wake)
    }

    #[inline(always)]
    fn is_time_to_ring(&self) -> bool {
        self.common.view.next_ring() <= self.common.view.exact
    }

    /// All but the elevator's.
    #[inline]
    fn run_timers(&mut self) {
        if self.plugs.device.deadline() <= self.common.view.exact {
            self.unplug_by_timer();
        }
        self.issued.retry_if_due(self.common.view.exact);
        if self.flush.is_put_off() {
            self.kick();
        }
    }

    /// The elevator's timer fires, or clients that sleep for a request may have one now. Returns
    /// whether any of those was asked.
    #[inline(never)]
    fn ring(&mut self) -> bool {
        if self.common.view.timer_rings() <= self.common.view.exact {
            self.common.view.cancel_timer();
            self.common.elevator.timer(&mut self.common.view);
        }
        let wakes = self.common.view.take_asks();
        if wakes {
            self.allocator.ask_again(&mut self.common, &self.throttle);
        }
        wakes
    }

    #[cold]
    #[inline(never)]
    fn unplug_by_timer(&mut self) {
        self.plugs.unplug_device(&mut self.common, Action::UnplugTimer);
    }

    /// Which request goes to the device, or why none does.
    fn next_request(&mut self) -> Result<RequestId, Waiting> {
        if self.issued.is_full() {
            return Err(Waiting::DeviceFull);
        }
        if self.issued.is_refused() {
            return Err(Waiting::Refused);
        }
        loop {
            if !self.throttle.is_empty() {
                self.release_throttled();
            }
            let beside_flush = self.flush.in_flight();
            #[cfg(feature = "planted-bugs")]
            let beside_flush = beside_flush || self.common.view.planted.holds_for_ever();
            if beside_flush {
                if let Some(id) = self.next_beside_flush()? {
                    return Ok(id);
                }
            } else if let Some(id) = self.dispatch.pop(&mut self.common.links) {
                return Ok(id);
            }
            if self.plugs.device.is_plugged() {
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
        let idle = self.issued.is_empty();
        let list = &mut self.dispatch.list;
        let Common { view, links, .. } = &mut self.common;
        let next = self.flush.next_dispatched(view, list, links, idle)?;
        if let Some(id) = next {
            list.remove(links, id.0);
        }
        if next.is_none() && self.flush.holds_queue(&self.common.view) {
            Err(Waiting::Flush)
        } else {
            Ok(next)
        }
    }

    /// The flush sequencer, and what its requests go through.
    #[cold]
    #[inline(never)]
    pub(crate) fn sequence(&mut self) -> Sequence<'_, O> {
        Sequence {
            is_busy: !self.issued.is_empty() || self.plugs.tasks.held() != 0,
            common: &mut self.common,
            flush: &mut self.flush,
            dispatch: &mut self.dispatch,
            allocator: &mut self.allocator,
            throttle: &mut self.throttle,
        }
    }

    /// Issues flushes that may go now.
    #[cold]
    #[inline(never)]
    pub(crate) fn kick(&mut self) {
        self.sequence().kick();
    }

    /// What the elevator wants done; `None` to look at the dispatch list again.
    fn ask_elevator(&mut self) -> Result<Option<RequestId>, Waiting> {
        match self.common.elevator.pick(&mut self.common.view) {
            Pick::Dispatch(id, place) => {
                self.merger.leave(id);
                if self.flush.holds(&self.common.view, id) {
                    self.dispatch.push_back(&mut self.common, id);
                    return Ok(None);
                }
                let last = place == Place::Tail || self.common.rules == Rules::Mq;
                if last || self.dispatch.is_empty() {
                    // Nothing on the dispatch list goes before it, if the list has anything at all
                    // (BLK-17): requests held for a flush do not.
                    return Ok(Some(id));
                }
                self.dispatch.sort_in(&mut self.common, id);
                Ok(None)
            }
            Pick::Idle => Err(Waiting::Idling),
            Pick::Await => Err(Waiting::Completion),
            Pick::Nothing if self.flush.is_awaited() => Err(Waiting::Flush),
            // Requests that may go were released a moment ago.
            Pick::Nothing if !self.throttle.is_empty() => Err(Waiting::Throttled),
            Pick::Nothing if self.plugs.tasks.held() != 0 => Err(Waiting::Plugged),
            Pick::Nothing if !self.issued.is_empty() => Err(Waiting::InDevice),
            Pick::Nothing => Err(Waiting::Empty),
        }
    }

    #[inline]
    fn wait(&self, why: Waiting) -> Output {
        let mut until = self.common.view.next_ring().min(self.plugs.device.deadline());
        if self.flush.policy.delay != Nanos::ZERO || !self.throttle.is_empty() {
            let view = &self.common.view;
            until = until.min(self.flush.due(view.exact));
            if self.issued.is_empty() {
                until = until.min(self.throttle.deadline(view));
            }
        }
        until = self.issued.or_retry(until);
        Output::Wait { until: (until != Nanos::MAX).then_some(until), why }
    }

    /// Gives a request to the device. There is a free tag.
    #[inline(always)]
    fn issue(&mut self, id: RequestId) -> Output {
        let Some(Entered { tag, bound, is_flush }) = self.issued.enter(&mut self.common, id) else {
            return self.put_back(id);
        };
        if is_flush {
            self.flush.starts(self.common.view.exact);
        }
        self.common.emit_request(Action::Issue, id);
        if bound {
            self.common.elevator.started(&mut self.common.view, id);
        }
        let request = &self.common.view.requests[id];
        Output::Issue(Command {
            tag,
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
        self.dispatch.push_front(&mut self.common, id);
        self.wait(Waiting::DeviceFull)
    }

    /// Plants a bug that strikes once, after `after` opportunities.
    #[cfg(feature = "planted-bugs")]
    pub const fn plant(&mut self, bug: crate::planted::Bug, after: u32) {
        self.common.view.planted = crate::planted::Planted::new(bug, after);
    }

    /// Advances time to `now` for something that comes from a client: timers that are due by then
    /// come first (see the order at one instant).
    pub(crate) fn arrive(&mut self, now: Nanos) {
        self.advance(now);
        // Who is woken is told by `next`.
        if self.is_time_to_ring() {
            self.ring();
        }
        self.run_timers();
    }

    /// Advances time to `now`; an earlier time than the last counts as the last.
    pub(crate) fn advance(&mut self, now: Nanos) {
        if now > self.common.view.exact {
            self.common.view.exact = now;
            // After a change to a coarser `hz` its next tick may be still to come.
            self.common.view.now = self.common.view.now.max(self.common.view.hz().floor(now));
        }
    }

    /// The end of every public call: forwards notes, and audits with the feature `audit`.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        self.common.events.tell_notes(&mut self.common.view);
        #[cfg(all(debug_assertions, feature = "audit"))]
        self.audit_in_passing();
    }

    /// Empties the elevator into the dispatch list, whatever its limits and idling say: a forced
    /// dispatch, as needed for an insertion at the back of the queue (BLK-10). Sorted, unless the
    /// elevator's own order is kept (deadline; everything under mq rules). Returns the number of
    /// requests.
    pub fn dispatch_all(&mut self, now: Nanos) -> u32 {
        self.advance(now);
        let mut count = 0;
        while let Some(id) = self.common.elevator.drain(&mut self.common.view) {
            self.merger.leave(id);
            let in_its_order = self.common.elevator.traits().drain_place == Place::Tail;
            if self.common.rules == Rules::Mq || in_its_order {
                self.dispatch.push_back(&mut self.common, id);
            } else {
                self.dispatch.sort_in(&mut self.common, id);
            }
            count += 1;
        }
        self.end_call();
        count
    }

    /// The request of a command, for callers that keep tables by tag.
    #[must_use]
    pub fn request_of(&self, tag: Tag) -> Option<&Request> {
        self.issued.request_of(tag).map(|id| &self.common.view.requests[id])
    }

    /// The cookies of the bios that a command carries, in sector order: they identify the buffers
    /// to use.
    pub fn cookies(&self, tag: Tag) -> impl Iterator<Item = Cookie> + '_ {
        let run = self.request_of(tag).map_or(BioRun::EMPTY, Request::bios);
        run.iter(&self.common.bios.slots).map(|index| self.common.bios.slots.at(index).cookie)
    }

    /// The observer, to read its data.
    #[must_use]
    pub const fn observer(&self) -> &O {
        &self.common.events.observer
    }

    /// The observer, to change its behaviour.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.common.events.observer
    }

    /// What the device reports about itself.
    #[must_use]
    pub const fn facts(&self) -> &DeviceFacts {
        &self.common.view.facts
    }

    /// Largest bio and request, in sectors.
    #[must_use]
    pub const fn max_sectors(&self) -> u32 {
        self.merger.max_sectors
    }

    /// The present elevator's name.
    #[must_use]
    pub fn elevator_name(&self) -> &'static str {
        self.common.elevator.traits().name
    }

    /// Commands in the device.
    #[must_use]
    pub const fn in_device(&self) -> u32 {
        self.issued.len()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspection: why a bio still waits, and whether everything is where it should be.
//!
//! [`RequestQueue::explain`] answers the question of a user with a slow client, in words.
//! [`RequestQueue::audit`] verifies the invariants of the queue, of its parts and of its elevator;
//! in debug builds with the feature `audit` it also runs automatically: after every call while
//! little is going on, after every 32nd otherwise.

use alloc::format;
use core::fmt;

use crate::bio::Ticket;
use crate::elevator::Fault;
use crate::event::Observer;
use crate::op::Op;
use crate::queue::RequestQueue;
use crate::request::{RequestId, Stage};
use crate::slab::NIL;

/// Whether invariants are verified automatically: in debug builds with the feature `audit`. An
/// elevator may ask for it, to verify in passing what costs too much otherwise.
pub const AUDITS: bool = cfg!(all(debug_assertions, feature = "audit"));

/// The reason why a bio is where it is; prints as a sentence.
#[derive(Debug)]
pub struct Explanation<'a, O: Observer> {
    queue: &'a RequestQueue<O>,
    ticket: Ticket,
}

impl<O: Observer> RequestQueue<O> {
    /// Why does this bio still wait?
    #[must_use]
    pub const fn explain(&self, ticket: Ticket) -> Explanation<'_, O> {
        Explanation { queue: self, ticket }
    }
}

impl<O: Observer> fmt::Display for Explanation<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue;
        let Some(slot) = queue.common.bios.slots.get(self.ticket.0) else {
            return f.write_str("the bio has ended");
        };
        if slot.request == NIL {
            return f.write_str("it has ended and will be handed back by the next call");
        }
        let request = queue.common.view.slot(slot.request);
        let waited = queue.common.view.exact - request.start;
        match request.stage {
            Stage::Plugged => {
                write!(f, "it waits because its client has plugged itself {waited} ago")
            }
            Stage::Throttled => {
                f.write_str(
                    "it waits until others have had the device for as long as its client ",
                )?;
                f.write_str("has taken it with flushes")
            }
            Stage::Flushing if queue.flush.shares(&queue.common.links, RequestId(slot.request)) => {
                f.write_str("it waits for the flush in flight")
            }
            Stage::Flushing if queue.flush.in_flight() => {
                f.write_str("it came while a flush was in flight and waits for the next")
            }
            Stage::Flushing if queue.flush.gives_way(&queue.common, &queue.dispatch) => {
                f.write_str("it waits for a flush, which lets others go first for once")
            }
            Stage::Flushing => {
                f.write_str("it waits for a flush, which waits for writes of others that share it")
            }
            Stage::Dispatched if queue.issued.is_refused() => {
                f.write_str("it was chosen; the device refused a command and will be asked again")
            }
            Stage::Dispatched if queue.flush.holds(&queue.common.view, RequestId(slot.request)) => {
                f.write_str("it was chosen and is held until the flush has ended")
            }
            Stage::Dispatched => {
                write!(f, "it was chosen and waits because the device takes no more commands")
            }
            Stage::InDevice => {
                let since = queue.common.view.exact - request.issued;
                write!(f, "it is in the device for {since}")
            }
            Stage::Waiting => {
                write!(
                    f,
                    "it waits for {waited} in {} because ",
                    queue.common.elevator.traits().name
                )?;
                if queue.flush.holds_queue(&queue.common.view) {
                    f.write_str("a flush is under way; then ")?;
                } else if queue.plugs.device.is_plugged() {
                    write!(
                        f,
                        "the device is plugged until {}; then ",
                        queue.plugs.device.deadline()
                    )?;
                }
                queue.common.elevator.explain(&queue.common.view, RequestId(slot.request), f)
            }
            Stage::Free => f.write_str("the bio has ended"),
        }
    }
}

impl<O: Observer> RequestQueue<O> {
    /// Verifies every invariant. O(everything that is in the queue).
    ///
    /// # Errors
    /// The first invariant that does not hold, with its numbers.
    pub fn audit(&self) -> Result<(), Fault> {
        self.common.bios.audit(&self.common.view)?;
        self.audit_requests()?;
        self.allocator.audit(&self.common.view)?;
        self.common.bios.audit_counts(&self.common.view)?;
        self.flush.audit(&self.common.view, &self.common.links)?;
        self.plugs.tasks.audit(&self.common.links)?;
        self.throttle.audit(&self.common.links)?;
        self.common.elevator.audit(&self.common.view)
    }

    /// Every request is in exactly one place (queue I2).
    fn audit_requests(&self) -> Result<(), Fault> {
        self.dispatch.list.check(&self.common.links)?;
        let (mut counts, mut sync) = ([0u32; 7], 0);
        for (key, request) in self.common.view.requests.0.iter() {
            let index = key.index();
            counts[request.stage as usize] += 1;
            let linked = self.common.links.contains(index);
            let right = match request.stage {
                Stage::Free => false,
                Stage::Plugged | Stage::Flushing | Stage::Throttled | Stage::Dispatched => linked,
                Stage::Waiting => !linked && self.common.elevator.has_bound(request),
                Stage::InDevice => {
                    sync += u32::from(request.is_sync() && request.op != Op::Flush);
                    !linked && self.issued.holds(index, request)
                }
            };
            let indexed = self.merger.contains(RequestId(index));
            if !right || (indexed && (request.stage != Stage::Waiting || request.was_started)) {
                return Err(format!(
                    "queue I2: request {index} is not where {:?} is",
                    request.stage
                ));
            }
        }
        let expected = [
            ("plugged", counts[Stage::Plugged as usize], self.plugs.tasks.held()),
            ("waiting", counts[Stage::Waiting as usize], self.common.elevator.waiting()),
            ("in device", counts[Stage::InDevice as usize], self.issued.len()),
            ("in device, sync", sync, self.common.view.in_device.sync),
            ("in service", self.issued.in_service(), self.issued.len()),
        ];
        match expected.iter().find(|(_, found, counted)| found != counted) {
            Some((what, found, counted)) => {
                Err(format!("queue I2: {found} requests are {what}, counted {counted}"))
            }
            None => Ok(()),
        }
    }

    /// The automatic audit. It costs several times as much as a call, so that a long run is audited
    /// less often: a lasting fault is found a few calls late. (The property tests, whose runs are
    /// short, audit after each call themselves.)
    ///
    /// ```text
    ///                        first 20,000 calls    later
    /// up to 6 bios inside    each                  every 13th
    /// more                   every 32nd            every 131st
    /// ```
    #[cfg(all(debug_assertions, feature = "audit"))]
    pub(crate) fn audit_in_passing(&mut self) {
        const FEW: u32 = 6;
        const FIRST: u64 = 20_000;
        self.calls += 1;
        #[cfg(feature = "planted-bugs")]
        if self.common.view.planted.is_sick() {
            return;
        }
        // Odd numbers, so that a loop of calls is not always audited at the same place.
        let every = match (self.common.bios.slots.len() <= FEW, self.calls <= FIRST) {
            (true, true) => 1,
            (true, false) => 13,
            (false, true) => 32,
            (false, false) => 131,
        };
        if self.calls.is_multiple_of(every)
            && let Err(fault) = self.audit()
        {
            panic!("audit after call {}: {fault}", self.calls);
        }
    }
}

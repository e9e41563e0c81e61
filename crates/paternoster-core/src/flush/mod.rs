// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flush sequencer: preflush, data, postflush; and one flush for all requests that wait for one.
//!
//! `request/steps.rs` has the steps of a request, `sequence` takes it through them. Requests that
//! need a flush wait in the *pending* list; when a flush is issued that list becomes the *running*
//! one, and requests that arrive meanwhile wait in the other. So any number of fsyncs share two
//! flushes:
//!
//! ```text
//! flush in the device   |======= 1 =======|======= 2 =======|
//! arrive meanwhile         a  b  c             d
//! pending               -  a  ab abc  -        d             -
//! running               x          x  abc                    -       1 ends x, 2 ends a, b, c
//! ```
//!
//! # When a flush is issued
//! * C1: none is in flight, and a request waits.
//! * C2: no data of a sequence are in the device, so that requests that shared a preflush share the
//!   postflush too;
//! * C3: unless the first has waited for 5 s. (Checked whenever a step ends; there is no timer.)
//!
//! It is then put on the dispatch list, at its tail (53d63e6b0d and later) or its head (before;
//! blk-mq), as the attribute `flush_insert` says. It is *in flight* from then on. `hold` decides
//! which other commands may go meanwhile, `writers` which client pays for it, `clean` when it is
//! not needed.
//!
//! Data of a sequence go to the head of the dispatch list under legacy rules, and no elevator sees
//! them; under mq rules they go through the elevator, at its head after a preflush.
//!
//! # Invariants
//! I1  At most one flush is in flight (FLUSH-7).
//! I2  A sequenced request is in exactly one of: the pending list, the running list, its data being
//!     processed (FLUSH-17). The running list is empty while no flush is in flight.
//! I3  Its bio ends exactly once: after its last step, or with the error of a failed one (FLUSH-1,
//!     FLUSH-8, FLUSH-9).
//!
//! # Not here
//! Aborting a whole queue: a device that is gone fails what it is given, and every sequence ends
//! with the error of its current step. FLUSH-18: several hardware queues with a flush each; here
//! there is one. Linux up to 3.x lets flush bios join a task's plug; here they bypass it, as in
//! blk-mq.
//!
//! Source: FLUSH-1 to FLUSH-9, FLUSH-17, FLUSH-18.

mod clean;
mod cost;
mod hold;
mod sequence;
mod writers;

use crate::list::{Links, List};
use crate::op::Op;
use crate::queue_view::{Limits, QueueView};
use crate::request::steps::Step;
use crate::request::{POOL_NONE, Request, RequestId, Stage};
use crate::slab::NIL;
use crate::time::Nanos;

use clean::Cleanness;
use writers::Writers;

pub(crate) use hold::{HOLDS, Hold};
pub(crate) use sequence::Sequence;

/// After this time a flush no longer waits for data being processed (C3).
const PENDING_MOST: Nanos = Nanos::from_secs(5);

/// Settings made by attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlushPolicy {
    pub(crate) hold: Hold,
    pub(crate) at_head: bool,
    /// A flush that cannot be queued waits for the device to become empty.
    pub(crate) drains: bool,
    /// A flush of a cache that is known to be clean issues no command.
    pub(crate) elides: bool,
    /// A flush waits this long for others to share it, while the queue is not empty.
    pub(crate) delay: Nanos,
    /// Clients pay for the flushes that drain what they have written.
    pub(crate) owned: bool,
    /// No client waits that owes at most this many flushes like the last.
    pub(crate) ahead: u64,
}

impl Default for FlushPolicy {
    fn default() -> FlushPolicy {
        FlushPolicy {
            hold: Hold::Unqueueable,
            at_head: false,
            drains: false,
            elides: true,
            delay: Nanos::ZERO,
            owned: true,
            ahead: 4,
        }
    }
}

/// The requests that wait for a flush, and the flush in flight.
#[derive(Debug)]
pub(crate) struct Sequencer {
    pub(crate) policy: FlushPolicy,
    lists: [List; 2],
    /// The list that collects; the other is served while a flush is in flight.
    pending: usize,
    /// The flush command, from the dispatch list until its end.
    command: Option<RequestId>,
    /// When the first request of the pending list arrived.
    pending_since: Nanos,
    /// Sequenced requests whose data are being processed.
    data_in_flight: u32,
    /// Flushes that have ended since anything else was done, while others waited.
    train: u32,
    pub(crate) clean: Cleanness,
    pub(crate) writers: Writers,
}

impl Sequencer {
    pub(crate) fn new(limits: &Limits) -> Sequencer {
        Sequencer {
            policy: FlushPolicy::default(),
            lists: [List::new(); 2],
            pending: 0,
            command: None,
            pending_since: Nanos::ZERO,
            data_in_flight: 0,
            train: 0,
            clean: Cleanness::default(),
            writers: Writers::with_capacity(limits.clients),
        }
    }

    /// Whether a flush is between the dispatch list and its end.
    pub(crate) const fn in_flight(&self) -> bool {
        self.command.is_some()
    }

    pub(crate) fn is_command(&self, id: RequestId) -> bool {
        self.command == Some(id)
    }

    /// The list that the flush in flight serves.
    const fn running(&self) -> usize {
        self.pending ^ 1
    }

    /// Whether the flush in flight also serves this request.
    pub(crate) fn shares(&self, links: &Links, id: RequestId) -> bool {
        self.in_flight() && self.lists[self.running()].iter(links).any(|index| index == id.0)
    }

    /// A request waits for the next flush from now on.
    fn ask(&mut self, links: &mut Links, now: Nanos, id: RequestId) {
        let list = &mut self.lists[self.pending];
        if list.is_empty() {
            self.pending_since = now;
        }
        list.push_back(links, id.0);
    }

    /// Removes a request that has not begun, because its bio is withdrawn; whether it did.
    pub(crate) fn leave_pending(
        &mut self,
        view: &QueueView,
        links: &mut Links,
        id: RequestId,
    ) -> bool {
        let list = &mut self.lists[self.pending];
        let waits = view.slot(id.0).steps.next() == Step::Preflush
            && list.iter(links).any(|index| index == id.0);
        if waits {
            list.remove(links, id.0);
        }
        waits
    }

    /// The next of the requests in one of the two lists, which leaves it.
    fn take_asker(&mut self, links: &mut Links, list: usize) -> Option<RequestId> {
        self.lists[list].pop_front(links).map(RequestId)
    }

    /// C1 to C3, and a configured delay, if others are `busy`.
    fn may_flush(&self, now: Nanos, busy: impl FnOnce() -> bool) -> bool {
        if self.in_flight() || !self.has_pending() {
            return false;
        }
        let waited = now - self.pending_since;
        (self.data_in_flight == 0 || waited >= PENDING_MOST)
            && !(waited < self.policy.delay && busy())
    }

    /// The pending list becomes the running one; returns the flush for it.
    fn begin_flush(&mut self, view: &mut QueueView) -> Option<RequestId> {
        let asker = view.slot(self.lists[self.pending].first()?);
        let command = Request {
            client: asker.client,
            bios_first: NIL,
            bios_last: NIL,
            op: Op::Flush,
            stage: Stage::Dispatched,
            priority: asker.priority,
            start: view.exact,
            epoch: u32::MAX,
            pool: POOL_NONE,
            ..Request::default()
        };
        // There is a slot for it: see `QueueView::new`.
        let id = view.requests.0.insert(command).map(|key| RequestId(key.index())).ok()?;
        self.command = Some(id);
        self.pending ^= 1;
        Some(id)
    }

    /// The flush goes to the device, not always for the first time.
    #[inline(never)]
    pub(crate) fn starts(&mut self, now: Nanos) {
        self.clean.flush_starts();
        self.writers.flush_starts(now);
    }

    /// The data of a sequence go to the device; later: have been processed.
    const fn data_start(&mut self) {
        self.data_in_flight += 1;
    }

    const fn data_end(&mut self) {
        self.data_in_flight -= 1;
    }

    /// The flush has ended, and took `served` device time.
    fn note_end(&mut self, good: bool, served: Nanos) {
        if good && !self.clean.has_work() {
            self.writers.found_clean(served);
        }
        self.clean.flush_ended(good);
    }

    /// None is in flight any more; `others_wait` for the device.
    const fn end(&mut self, others_wait: bool) {
        self.command = None;
        self.lengthen_train(others_wait);
    }

    /// Verifies I1 and I2, and the counts of the parts.
    pub(crate) fn audit(
        &self,
        view: &QueueView,
        links: &Links,
    ) -> Result<(), alloc::string::String> {
        let (mut flushing, mut data, mut commands) = (0, 0, 0);
        for (key, request) in view.requests.0.iter() {
            let sequenced = request.steps.is_sequenced();
            let at = request.steps.next();
            flushing += u32::from(request.stage == Stage::Flushing);
            let begun = request.stage != Stage::Throttled;
            data += u32::from(sequenced && begun && request.stage != Stage::Flushing);
            let is_command = request.pool == POOL_NONE && request.op == Op::Flush;
            commands += u32::from(is_command);
            let right = match request.stage {
                Stage::Flushing => matches!(at, Step::Preflush | Step::Postflush),
                Stage::Throttled => true,
                _ => !sequenced || at == Step::Data,
            };
            if !right {
                return Err(alloc::format!("flush I2: request {} at {at:?}", key.index()));
            }
        }
        let [first, second] = &self.lists;
        first.check(links)?;
        second.check(links)?;
        if self.in_flight() as u32 != commands {
            return Err(alloc::format!("flush I1: {commands} flush commands"));
        }
        if flushing != first.len() + second.len() || data != self.data_in_flight {
            let counted = self.data_in_flight;
            return Err(alloc::format!(
                "flush I2: {flushing} wait, {data} have data under way, counted {counted}"
            ));
        }
        if !self.in_flight() && !self.lists[self.running()].is_empty() {
            return Err("flush I2: a running list without a flush".into());
        }
        self.writers.audit()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flush sequencer: preflush, data, postflush; and one flush for all requests that wait for one.
//!
//! `steps` has the steps of a request. Requests that need a flush wait in the *pending* list; when
//! a flush is issued that list becomes the *running* one, and requests that arrive meanwhile wait
//! in the other. So any number of fsyncs share two flushes:
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
mod hold;
mod steps;
mod writers;

use crate::bio_slot::BioRun;
use crate::block::admission::POOL_NONE;
use crate::device::{Outcome, Status};
use crate::elevator::{Position, Rules};
use crate::event::{Action, Observer};
use crate::list::List;
use crate::queue::RequestQueue;
use crate::queue_view::Limits;
use crate::request::{Bio, Flags, Op, Request, RequestId, Stage, Ticket};
use crate::slab::{Key, NIL};
use crate::time::Nanos;

use clean::Cleanness;
use steps::Step;
use writers::Writers;

pub(crate) use hold::{HOLDS, Hold};
pub(crate) use steps::Steps;

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
    /// The requests in one of the two lists, which a flush serves.
    pub(crate) const fn askers(&self, list: usize) -> &List {
        &self.lists[list]
    }

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

    fn running(&self) -> usize {
        self.pending ^ 1
    }
}

impl<O: Observer> RequestQueue<O> {
    /// Accepts a bio that orders the device's cache.
    #[inline(never)]
    pub(crate) fn take_in_flushing(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        let steps = Steps::of(bio, &self.view.facts);
        #[cfg(feature = "planted-bugs")]
        let steps = steps.planted(self.planted.postflushes_early(steps.begins_with_data()));
        if steps.next() == Step::Done {
            self.bios.at_mut(key.index()).outcome = Outcome::OK;
            self.done.append(&mut self.bios, BioRun::one(key.index()));
            self.pass_on_wakes(bio.client);
            return Ok(Ticket(key));
        }
        if steps.is_data_only() {
            return self.take_in_data(key, bio);
        }
        let id = self.allocate(key.index(), bio)?;
        // No elevator knows of it, unless its data go through one.
        self.view.requests[id].epoch = u32::MAX;
        self.view.requests[id].steps = steps;
        if bio.sectors == 0 || !(self.throttle.is_used() && self.throttles(id)) {
            self.begin_sequence(id);
        }
        Ok(Ticket(key))
    }

    /// Starts the first step of a sequenced request.
    pub(crate) fn begin_sequence(&mut self, id: RequestId) {
        self.emit_request(Action::Insert, id);
        let steps = self.view.requests[id].steps;
        if self.policy.rules == Rules::Mq && steps.begins_with_data() {
            self.start_data(id, Position::Sorted);
        } else {
            self.go_to_next_step(id, Outcome::OK);
            self.kick();
        }
    }

    /// A bio whose flags require only its data: the device has no cache, or can write past it.
    fn take_in_data(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        if !self.view.facts.write_cache {
            // It stays sync: removing the flags must not make it async.
            let flags = bio.flags.without(Flags::FUA | Flags::PREFLUSH) | Flags::SYNC;
            self.bios.at_mut(key.index()).flags = flags;
            return self.take_in_plain(key, &Bio { flags, ..*bio });
        }
        if self.policy.rules == Rules::Mq {
            return self.take_in_plain(key, bio);
        }
        let id = self.allocate(key.index(), bio)?;
        self.view.requests[id].epoch = u32::MAX;
        self.view.requests[id].stage = Stage::Dispatched;
        self.emit_request(Action::Insert, id);
        self.dispatch.push_back(&mut self.links, id.0);
        Ok(Ticket(key))
    }

    /// Puts a request where its next step is done, or ends it.
    fn go_to_next_step(&mut self, id: RequestId, outcome: Outcome) {
        let steps = self.view.requests[id].steps;
        let next = if outcome.status == Status::Ok { steps.next() } else { Step::Done };
        match next {
            Step::Preflush | Step::Postflush => {
                let list = &mut self.flush.lists[self.flush.pending];
                if list.is_empty() {
                    self.flush.pending_since = self.view.exact;
                }
                list.push_back(&mut self.links, id.0);
                self.view.requests[id].stage = Stage::Flushing;
            }
            Step::Data => self.start_data(id, Position::Head),
            Step::Done => {
                self.end_bios(id, outcome);
                self.free_unbound(id);
            }
        }
    }

    /// The current step of a request has ended.
    fn end_step(&mut self, id: RequestId, outcome: Outcome) {
        let steps = &mut self.view.requests[id].steps;
        *steps = steps.advanced();
        self.go_to_next_step(id, outcome);
    }

    /// The data of a sequence go to the device, past the elevator or through it.
    fn start_data(&mut self, id: RequestId, position: Position) {
        self.flush.data_in_flight += 1;
        let fua = self.view.facts.fua;
        let request = &mut self.view.requests[id];
        let ordering = if fua { Flags::PREFLUSH } else { Flags::PREFLUSH | Flags::FUA };
        request.flags = request.flags.without(ordering) | Flags::SYNC | Flags::NOMERGE;
        if self.policy.rules == Rules::Legacy {
            request.stage = Stage::Dispatched;
            self.dispatch.push_front(&mut self.links, id.0);
            return;
        }
        request.epoch = self.elevator.epoch();
        request.scratch = [0; 2];
        self.elevator.bind(&mut self.view, id);
        self.view.requests[id].stage = Stage::Waiting;
        self.elevator.insert(&mut self.view, id, position);
    }

    /// The device has processed the data of a sequence. If the elevator knew of them, it has been
    /// told.
    #[inline(never)]
    pub(crate) fn data_ended(&mut self, id: RequestId, outcome: Outcome) {
        if self.elevator.has_bound(&self.view.requests[id]) {
            self.elevator.released(&mut self.view, id);
        }
        self.view.requests[id].epoch = u32::MAX;
        self.flush.data_in_flight -= 1;
        self.end_step(id, outcome);
        self.kick();
    }

    /// Issues flushes while requests wait and may have one. (More than one only if they cost
    /// nothing.)
    #[inline(never)]
    pub(crate) fn kick(&mut self) {
        while self.may_flush() {
            if self.is_clean() {
                self.pass_pending();
            } else {
                self.issue_flush();
            }
        }
    }

    /// C1 to C3, a configured delay, and the end of a train.
    fn may_flush(&self) -> bool {
        let flush = &self.flush;
        if flush.in_flight() || flush.lists[flush.pending].is_empty() {
            return false;
        }
        let waited = self.view.exact - flush.pending_since;
        (flush.data_in_flight == 0 || waited >= PENDING_MOST)
            && !self.is_delayed(waited)
            && !self.gives_way()
    }

    /// The pending list becomes the running one, and a flush for it goes to the dispatch list.
    fn issue_flush(&mut self) {
        let Some(first) = self.flush.lists[self.flush.pending].first() else { return };
        let asker = self.view.slot(first);
        let command = Request {
            client: asker.client,
            bios_first: NIL,
            bios_last: NIL,
            op: Op::Flush,
            stage: Stage::Dispatched,
            priority: asker.priority,
            start: self.view.exact,
            epoch: u32::MAX,
            pool: POOL_NONE,
            ..Request::default()
        };
        // There is a slot for it: see `QueueView::new`.
        let Ok(key) = self.view.requests.0.insert(command) else { return };
        let id = RequestId(key.index());
        self.flush.command = Some(id);
        self.flush.pending ^= 1;
        if self.flush.policy.at_head {
            self.dispatch.push_front(&mut self.links, id.0);
        } else {
            self.dispatch.push_back(&mut self.links, id.0);
        }
    }

    /// The flush goes to the device, not always for the first time.
    #[inline(never)]
    pub(crate) fn flush_starts(&mut self) {
        self.flush.clean.flush_starts();
        self.flush.writers.flush_starts(self.view.exact);
    }

    /// The flush has ended, and took `served` device time: all requests that waited for it
    /// continue.
    #[inline(never)]
    pub(crate) fn flush_ended(&mut self, id: RequestId, outcome: Outcome, served: Nanos) {
        let good = outcome.status == Status::Ok;
        let running = self.flush.running();
        if good && !self.flush.clean.has_work() {
            self.flush.writers.found_clean(served);
        }
        self.flush.clean.flush_ended(good);
        self.settle_flush(running, good, served);
        #[cfg(feature = "planted-bugs")]
        if self.planted.shares_late(!self.flush.lists[self.flush.pending].is_empty()) {
            self.end_waiters(self.flush.pending, outcome);
        }
        self.free_unbound(id);
        self.flush.command = None;
        self.lengthen_train();
        self.end_waiters(running, outcome);
        #[cfg(feature = "planted-bugs")]
        self.planted.forgets_restart(self.flush.train != 0);
    }

    /// The steps of all requests in a list have ended.
    fn end_waiters(&mut self, list: usize, outcome: Outcome) {
        // During this loop the next flush may be issued, and this list become the pending one
        // again: requests put back are behind those still in it.
        for _ in 0..self.flush.lists[list].len() {
            let Some(index) = self.flush.lists[list].pop_front(&mut self.links) else { return };
            self.end_step(RequestId(index), outcome);
            self.kick();
        }
    }

    /// Whether the flush in flight also serves this request.
    pub(crate) fn shares_flush(&self, id: RequestId) -> bool {
        let running = &self.flush.lists[self.flush.running()];
        self.flush.in_flight() && running.iter(&self.links).any(|index| index == id.0)
    }

    /// Removes a request that has not begun, because its bio is withdrawn; whether it did.
    pub(crate) fn leave_pending(&mut self, id: RequestId) -> bool {
        let list = &mut self.flush.lists[self.flush.pending];
        if self.view.requests[id].steps.next() != Step::Preflush
            || !list.iter(&self.links).any(|index| index == id.0)
        {
            return false;
        }
        list.remove(&mut self.links, id.0);
        true
    }

    /// Verifies I1 and I2, and the counts of the parts.
    pub(crate) fn audit_flush(&self) -> Result<(), alloc::string::String> {
        let (mut flushing, mut data, mut commands) = (0, 0, 0);
        for (key, request) in self.view.requests.0.iter() {
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
        let [first, second] = &self.flush.lists;
        first.check(&self.links)?;
        second.check(&self.links)?;
        if self.flush.in_flight() as u32 != commands {
            return Err(alloc::format!("flush I1: {commands} flush commands"));
        }
        if flushing != first.len() + second.len() || data != self.flush.data_in_flight {
            let counted = self.flush.data_in_flight;
            return Err(alloc::format!(
                "flush I2: {flushing} wait, {data} have data under way, counted {counted}"
            ));
        }
        if !self.flush.in_flight() && !self.flush.lists[self.flush.running()].is_empty() {
            return Err("flush I2: a running list without a flush".into());
        }
        self.flush.writers.audit()
    }
}

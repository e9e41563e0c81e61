// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flushing: how the queue takes a sequenced request from step to step.
//!
//! ```text
//! bio with flags ─▶ steps ─▶ pending ─kick─▶ flush ─ends─▶ next step ─▶ data ─ends─▶ ... ─▶ end
//!                                └─ cache is clean: no flush ──┘
//! ```
//!
//! What may be flushed, held or left out the sequencer knows (`flush/`), and it has the invariants
//! and the source; this file connects it with elevator, dispatch list and admission.

use crate::bio::{Bio, Ticket};
use crate::device::{Outcome, Status};
use crate::elevator::{Position, Rules};
use crate::event::{Action, Observer};
use crate::op::Flags;
use crate::queue::RequestQueue;
use crate::request::steps::{Step, Steps};
use crate::request::{RequestId, Stage};
use crate::slab::Key;
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// Accepts a bio that orders the device's cache.
    #[inline(never)]
    pub(crate) fn take_in_flushing(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        let steps = Steps::of(bio, &self.common.view.facts);
        #[cfg(feature = "planted-bugs")]
        let steps =
            steps.planted(self.common.view.planted.postflushes_early(steps.begins_with_data()));
        if steps.next() == Step::Done {
            self.common.bios.end_one(key.index(), Outcome::OK);
            self.pass_on_wakes(bio.client);
            return Ok(Ticket(key));
        }
        if steps.is_data_only() {
            return self.take_in_data(key, bio);
        }
        let id = self.allocator.allocate(&mut self.common, &self.throttle, key.index(), bio)?;
        // No elevator knows of it, unless its data go through one.
        self.common.view.requests[id].epoch = u32::MAX;
        self.common.view.requests[id].steps = steps;
        if bio.sectors == 0 || !(self.throttle.is_used() && self.throttles(id)) {
            self.begin_sequence(id);
        }
        Ok(Ticket(key))
    }

    /// Starts the first step of a sequenced request.
    pub(crate) fn begin_sequence(&mut self, id: RequestId) {
        self.common.emit_request(Action::Insert, id);
        let steps = self.common.view.requests[id].steps;
        if self.common.rules == Rules::Mq && steps.begins_with_data() {
            self.start_data(id, Position::Sorted);
        } else {
            self.go_to_next_step(id, Outcome::OK);
            self.kick();
        }
    }

    /// A bio whose flags require only its data: the device has no cache, or can write past it.
    fn take_in_data(&mut self, key: Key, bio: &Bio) -> Result<Ticket, u8> {
        if !self.common.view.facts.write_cache {
            // It stays sync: removing the flags must not make it async.
            let flags = bio.flags.without(Flags::FUA | Flags::PREFLUSH) | Flags::SYNC;
            self.common.bios.slots.at_mut(key.index()).flags = flags;
            return self.take_in_plain(key, &Bio { flags, ..*bio });
        }
        if self.common.rules == Rules::Mq {
            return self.take_in_plain(key, bio);
        }
        let id = self.allocator.allocate(&mut self.common, &self.throttle, key.index(), bio)?;
        self.common.view.requests[id].epoch = u32::MAX;
        self.common.emit_request(Action::Insert, id);
        self.dispatch.push_back(&mut self.common, id);
        Ok(Ticket(key))
    }

    /// Puts a request where its next step is done, or ends it.
    fn go_to_next_step(&mut self, id: RequestId, outcome: Outcome) {
        let steps = self.common.view.requests[id].steps;
        let next = if outcome.status == Status::Ok { steps.next() } else { Step::Done };
        match next {
            Step::Preflush | Step::Postflush => {
                self.flush.ask(&mut self.common.links, self.common.view.exact, id);
                self.common.view.requests[id].stage = Stage::Flushing;
            }
            Step::Data => self.start_data(id, Position::Head),
            Step::Done => {
                self.common.end_all(self.common.view.requests[id].bios(), outcome);
                self.free_unbound(id);
            }
        }
    }

    /// The current step of a request has ended.
    fn end_step(&mut self, id: RequestId, outcome: Outcome) {
        let steps = &mut self.common.view.requests[id].steps;
        *steps = steps.advanced();
        self.go_to_next_step(id, outcome);
    }

    /// The data of a sequence go to the device, past the elevator or through it.
    fn start_data(&mut self, id: RequestId, position: Position) {
        self.flush.data_start();
        let fua = self.common.view.facts.fua;
        let request = &mut self.common.view.requests[id];
        let ordering = if fua { Flags::PREFLUSH } else { Flags::PREFLUSH | Flags::FUA };
        request.flags = request.flags.without(ordering) | Flags::SYNC | Flags::NOMERGE;
        if self.common.rules == Rules::Legacy {
            self.dispatch.push_front(&mut self.common, id);
            return;
        }
        request.epoch = self.common.elevator.epoch();
        request.scratch = [0; 2];
        self.common.elevator.bind(&mut self.common.view, id);
        self.common.view.requests[id].stage = Stage::Waiting;
        self.common.elevator.insert(&mut self.common.view, id, position);
    }

    /// The device has processed the data of a sequence. If the elevator knew of them, it has been
    /// told.
    #[inline(never)]
    pub(crate) fn data_ended(&mut self, id: RequestId, outcome: Outcome) {
        if self.common.elevator.has_bound(&self.common.view.requests[id]) {
            self.common.elevator.released(&mut self.common.view, id);
        }
        self.common.view.requests[id].epoch = u32::MAX;
        self.flush.data_end();
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

    /// Checks again whether a flush that was put off may be issued.
    #[inline]
    pub(crate) fn kick_put_off(&mut self) {
        if self.flush.is_put_off() {
            self.kick();
        }
    }

    /// Whether a flush may be issued now; at the end of a train others go first.
    fn may_flush(&self) -> bool {
        let busy = || {
            !self.issued.is_empty()
                || self.common.elevator.waiting() != 0
                || self.plugs.tasks.held() != 0
        };
        self.flush.may_flush(self.common.view.exact, busy) && !self.gives_way()
    }

    /// Whether the next flush lets others go first.
    pub(crate) fn gives_way(&self) -> bool {
        self.flush.is_long_train() && self.others_wait()
    }

    /// Whether something outside a sequence has yet to go to the device.
    fn others_wait(&self) -> bool {
        self.common.elevator.waiting() > 0
            || self.flush.has_plain(&self.common.view, &self.dispatch.list, &self.common.links)
    }

    /// Whether the clients that wait for a flush can continue without one.
    fn is_clean(&mut self) -> bool {
        if !self.flush.policy.elides {
            return false;
        }
        #[cfg(feature = "planted-bugs")]
        if self.common.view.planted.elides_too_many(!self.flush.clean.is_clean()) {
            return true;
        }
        self.flush.clean.is_clean()
    }

    /// No request in the pending list needs a flush: all continue.
    fn pass_pending(&mut self) {
        let pending = self.flush.pending();
        for _ in 0..self.flush.askers(pending).len() {
            if let Some(id) = self.flush.take_asker(&mut self.common.links, pending) {
                self.end_step(id, Outcome::OK);
            }
        }
    }

    /// A flush for the pending list goes to the dispatch list.
    fn issue_flush(&mut self) {
        let Some(id) = self.flush.begin_flush(&mut self.common.view) else { return };
        if self.flush.policy.at_head {
            self.dispatch.push_front(&mut self.common, id);
        } else {
            self.dispatch.push_back(&mut self.common, id);
        }
    }

    /// The flush has ended, and took `served` device time: all requests that waited for it
    /// continue.
    #[inline(never)]
    pub(crate) fn flush_ended(&mut self, id: RequestId, outcome: Outcome, served: Nanos) {
        let good = outcome.status == Status::Ok;
        let running = self.flush.running();
        self.flush.note_end(good, served);
        self.settle_flush(running, good, served);
        #[cfg(feature = "planted-bugs")]
        if self.common.view.planted.shares_late(!self.flush.askers(self.flush.pending()).is_empty())
        {
            self.end_waiters(self.flush.pending(), outcome);
        }
        self.free_unbound(id);
        let others_wait = self.others_wait();
        self.flush.end(others_wait);
        self.end_waiters(running, outcome);
        #[cfg(feature = "planted-bugs")]
        self.common.view.planted.forgets_restart(self.flush.has_train());
    }

    /// The steps of all requests in a list have ended.
    fn end_waiters(&mut self, list: usize, outcome: Outcome) {
        // During this loop the next flush may be issued, and this list become the pending one
        // again: requests put back are behind those still in it.
        for _ in 0..self.flush.askers(list).len() {
            let Some(id) = self.flush.take_asker(&mut self.common.links, list) else { return };
            self.end_step(id, outcome);
            self.kick();
        }
    }

    /// The device is declared to have a cache, or to have none: while it had none, writes were not
    /// tracked, and the time in which debts are repaid did not pass.
    pub(crate) fn believe_write_cache(&mut self, there: bool) {
        if self.common.view.facts.write_cache != there {
            self.common.view.facts.write_cache = there;
            self.flush.clean.forget();
            self.forgive_debts();
        }
    }
}

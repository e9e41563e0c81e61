// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends: what happens to a command that the device has finished, or refused.
//!
//! ```text
//! complete ─▶ elevator told ─▶ bios to the done list ─▶ request free, a sleeper woken
//! requeue  ─▶ elevator told ─▶ back to its head, or to that of the dispatch list
//! ```
//!
//! For invariants and source see `queue.rs`.

use super::RequestQueue;
use crate::answer::Stale;
use crate::block::common::Common;
use crate::block::issued::Left;
use crate::block::throttle::Served;
use crate::client::ClientId;
use crate::device::{Outcome, Status, Tag};
use crate::elevator::{Position, Rules};
use crate::event::{Action, Observer};
use crate::request::{RequestId, Stage};
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// The device has finished the command `tag`.
    ///
    /// # Errors
    /// [`Stale`] when no such command is in the device: it was completed or requeued already.
    pub fn complete(&mut self, now: Nanos, tag: Tag, outcome: Outcome) -> Result<(), Stale> {
        self.advance(now);
        let Left { id, bound, measured } = self.issued.leave(&mut self.common, tag)?;
        let served = match outcome.served {
            Some(told) => {
                self.common.view.tells_times = true;
                told
            }
            None => measured,
        };
        self.common.events.emit_completion(&mut self.common.view, id, outcome, served);
        self.issued.has_room();
        if self.flush.is_command(id) {
            self.sequence().flush_ended(id, outcome, served);
        } else {
            let told = bound;
            #[cfg(feature = "planted-bugs")]
            let told = told || self.common.view.planted.completes_old_epoch();
            if told && outcome.status == Status::Ok {
                self.common.elevator.completed(&mut self.common.view, id, served);
            } else if told {
                self.tell_of_failure(id, served);
            }
            self.command_ended(id, bound, outcome, served);
        }
        if self.flush.is_put_off() {
            self.kick();
        }
        self.end_call();
        Ok(())
    }

    /// The elevator is told of a command that has failed.
    #[cold]
    fn tell_of_failure(&mut self, id: RequestId, served: Nanos) {
        let Common { view, elevator, .. } = &mut self.common;
        view.requests[id].has_failed = true;
        elevator.completed(view, id, served);
        view.requests[id].has_failed = false;
    }

    /// A command other than a flush has ended; if it was bound to the elevator, that has been told.
    fn command_ended(&mut self, id: RequestId, bound: bool, outcome: Outcome, served: Nanos) {
        let request = &self.common.view.requests[id];
        let run = request.bios();
        let (sequenced, released) = (request.steps.is_sequenced(), request.past_throttle);
        let (client, op) = (request.client(), request.op);
        if self.common.view.facts.write_cache {
            let Common { view, bios, .. } = &self.common;
            self.flush.note_written(view, bios, id, outcome.status == Status::Ok);
            if self.flush.is_charged(view) {
                let of_writer = self.flush.writers.contains(client);
                let served = Served { client, time: served, released, op, of_writer };
                let Common { view, elevator, .. } = &mut self.common;
                self.throttle.command_ended(view, elevator, served);
            }
        }
        if sequenced {
            self.sequence().data_ended(id, outcome);
        } else {
            self.common.end_all(run, outcome);
            if bound {
                self.common.elevator.released(&mut self.common.view, id);
            }
            self.free_unbound(id);
            if self.flush.end_train() {
                self.kick();
            }
        }
    }

    /// The device refused the command `tag`; it will be issued again.
    ///
    /// # Errors
    /// [`Stale`] when no such command is in the device.
    pub fn requeue(&mut self, now: Nanos, tag: Tag) -> Result<(), Stale> {
        self.advance(now);
        let Left { id, bound, .. } = self.issued.leave(&mut self.common, tag)?;
        self.common.emit_request(Action::Requeue, id);
        self.issued.refused(self.common.view.exact);
        if bound {
            self.common.elevator.requeued(&mut self.common.view, id);
        }
        if bound && self.common.rules == Rules::Mq {
            self.common.view.requests[id].stage = Stage::Waiting;
            self.common.elevator.insert(&mut self.common.view, id, Position::Head);
        } else {
            // A flush, or a request that an earlier elevator had picked: it keeps its precedence
            // (BLK-11).
            self.dispatch.push_front(&mut self.common, id);
        }
        self.end_call();
        Ok(())
    }

    /// Ends a request; the elevator knows.
    #[inline(always)]
    pub(crate) fn free_unbound(&mut self, id: RequestId) {
        if let Some(gone) = self.allocator.free(&mut self.common, &self.throttle, id) {
            self.remove_client(gone);
        }
    }

    #[inline(never)]
    pub(crate) fn remove_client(&mut self, id: ClientId) {
        self.flush.let_go(&mut self.common, &mut self.allocator, &self.throttle, id);
    }

    /// Releases the clients that owe nothing any more; if there are only clients that owe, also the
    /// one that owes least, and those that owe hardly more.
    #[inline(never)]
    pub(crate) fn release_throttled(&mut self) {
        let alone = self.issued.is_empty() && self.common.elevator.waiting() == 0;
        let now = self.common.view.exact;
        if alone && self.dispatch.is_empty() && self.throttle.opens(&self.common.view) <= now {
            self.throttle.forgive_least();
        }
        while let Some(client) = self.throttle.released() {
            self.release(client);
        }
    }

    /// Releases all requests of a client; ahead of all others, if the elevator supports that.
    fn release(&mut self, client: u32) {
        self.throttle.release(client);
        let first = self.common.elevator.traits().inserts_at_head;
        let position = if first { Position::Head } else { Position::Sorted };
        // Each goes to the head, so the last must go first.
        while let Some(index) = self.throttle.take(&mut self.common.links, client, first) {
            let id = RequestId(index);
            if self.common.view.requests[id].steps.is_sequenced() {
                self.sequence().begin(id);
                continue;
            }
            self.common.view.requests[id].past_throttle = first;
            self.merger.enqueue(&mut self.common, id, position);
        }
    }

    /// Forgives all debts, and releases all that waited.
    pub(crate) fn forgive_debts(&mut self) {
        while let Some(client) = self.throttle.first() {
            self.release(client);
        }
        self.throttle.forgive_all();
    }
}

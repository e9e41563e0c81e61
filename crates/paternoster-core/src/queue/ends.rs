// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends: what happens to a command that the device has finished, or refused.
//!
//! ```text
//! complete ─▶ elevator told ─▶ bios to the done list ─▶ request free, a sleeper woken
//! requeue  ─▶ elevator told ─▶ back to its head, or to that of the dispatch list
//! ```
//!
//! For invariants and source see `queue.rs`.

use super::{RETRY_AFTER_REFUSAL, RequestQueue};
use crate::answer::Stale;
use crate::bio_slot::BioRun;
use crate::block::throttle::Served;
use crate::device::{Outcome, Status, Tag};
use crate::elevator::{Position, Rules};
use crate::event::{Action, Observer};
use crate::op::Op;
use crate::request::{RequestId, Stage};
use crate::slab::NIL;
use crate::time::Nanos;

/// A request that has left the device.
struct Left {
    id: RequestId,
    /// Whether it was bound to the present elevator.
    bound: bool,
    /// The device time it took.
    measured: Nanos,
}

impl<O: Observer> RequestQueue<O> {
    /// The device has finished the command `tag`.
    ///
    /// # Errors
    /// [`Stale`] when no such command is in the device: it was completed or requeued already.
    pub fn complete(&mut self, now: Nanos, tag: Tag, outcome: Outcome) -> Result<(), Stale> {
        self.advance(now);
        let Left { id, bound, measured } = self.take_from_device(tag)?;
        let served = outcome.served.unwrap_or(measured);
        self.emit_completion(id, outcome, served);
        self.refused_until = Nanos::MAX;
        if self.flush.is_command(id) {
            self.flush_ended(id, outcome, served);
        } else {
            let told = bound;
            #[cfg(feature = "planted-bugs")]
            let told = told || self.view.planted.completes_old_epoch();
            if told {
                self.elevator.completed(&mut self.view, id, served);
            }
            self.command_ended(id, bound, outcome, served);
        }
        self.kick_put_off();
        self.end_call();
        Ok(())
    }

    /// A command other than a flush has ended; if it was bound to the elevator, that has been told.
    fn command_ended(&mut self, id: RequestId, bound: bool, outcome: Outcome, served: Nanos) {
        let request = &self.view.requests[id];
        let run = request.bios();
        let (sequenced, released) = (request.steps.is_sequenced(), request.past_throttle);
        let (client, op) = (request.client(), request.op);
        if self.view.facts.write_cache {
            self.note_written(id, outcome.status == Status::Ok);
            if self.owners_pay() {
                let of_writer = self.flush.writers.contains(client);
                self.pass_device_time(Served { client, time: served, released, op, of_writer });
            }
        }
        if sequenced {
            self.data_ended(id, outcome);
        } else {
            self.end_run(run, outcome);
            if bound {
                self.elevator.released(&mut self.view, id);
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
        let Left { id, bound, .. } = self.take_from_device(tag)?;
        self.emit_request(Action::Requeue, id);
        self.refused_until = self.view.exact + RETRY_AFTER_REFUSAL;
        if bound {
            self.elevator.requeued(&mut self.view, id);
        }
        if bound && self.policy.rules == Rules::Mq {
            self.view.requests[id].stage = Stage::Waiting;
            self.elevator.insert(&mut self.view, id, Position::Head);
        } else {
            // A flush, or a request that an earlier elevator had picked: it keeps its precedence
            // (BLK-11).
            self.view.requests[id].stage = Stage::Dispatched;
            self.dispatch.push_front(&mut self.links, id.0);
        }
        self.end_call();
        Ok(())
    }

    fn take_from_device(&mut self, tag: Tag) -> Result<Left, Stale> {
        let id = RequestId(*self.tags.free_by_key(tag.0).ok_or(Stale)?);
        let request = &self.view.requests[id];
        let bound = self.elevator.has_bound(request);
        if request.op != Op::Flush {
            self.view.in_device.requests -= 1;
            self.view.in_device.sync -= u32::from(request.is_sync());
        }
        let measured = self.service.leave(self.view.exact, request.clock);
        Ok(Left { id, bound, measured })
    }

    /// All bios of a request have ended with `outcome`.
    pub(crate) fn end_bios(&mut self, id: RequestId, outcome: Outcome) {
        self.end_run(self.view.requests[id].bios(), outcome);
    }

    fn end_run(&mut self, run: BioRun, outcome: Outcome) {
        #[cfg(feature = "planted-bugs")]
        let run = if self.view.planted.forgets_merged_bio(run.first != run.last) {
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
        if self.view.planted.completes_twice() {
            let again = self.bios.at(run.first).clone();
            if let Ok(key) = self.bios.insert(crate::bio_slot::BioSlot { next: NIL, ..again }) {
                self.done.append(&mut self.bios, BioRun::one(key.index()));
            }
        }
        self.done.append(&mut self.bios, run);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Telling: how the queue's steps become the stream of events.
//!
//! Events and the elevator's notes share one numbering. Notes written before a step are emitted
//! before it, so that a reason precedes its consequence:
//!
//! ```text
//! elevator writes "batch begins"      queue issues         stream:  7 note   8 D
//! ```
//!
//! With an observer that does not listen the compiler removes all of this.

use crate::client::ClientId;
use crate::device::{Outcome, Status};
use crate::event::{Action, Event, Observer};
use crate::op::{Flags, Op};
use crate::queue::RequestQueue;
use crate::request::RequestId;
use crate::time::Nanos;

impl<O: Observer> RequestQueue<O> {
    /// An event about sectors `at.0` to `at.0 + at.1`.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        action: Action,
        client: ClientId,
        op: Op,
        flags: Flags,
        at: (u64, u32),
    ) {
        if O::LISTENS {
            self.tell(Event {
                at: self.view.exact,
                sequence: 0,
                action,
                client,
                op,
                flags,
                sector: at.0,
                sectors: at.1,
                error: 0,
                served: Nanos::ZERO,
            });
        }
    }

    /// An event about a whole request.
    #[inline]
    pub(crate) fn emit_request(&mut self, action: Action, id: RequestId) {
        if O::LISTENS {
            let request = &self.view.requests[id];
            let (client, op, flags) = (request.client(), request.op, request.flags);
            let at = (request.sector, request.sectors);
            self.emit(action, client, op, flags, at);
        }
    }

    pub(crate) fn emit_completion(&mut self, id: RequestId, outcome: Outcome, served: Nanos) {
        if O::LISTENS {
            let request = &self.view.requests[id];
            self.tell(Event {
                at: self.view.exact,
                sequence: 0,
                action: Action::Complete,
                client: request.client(),
                op: request.op,
                flags: request.flags,
                sector: request.sector,
                sectors: request.sectors,
                error: match outcome.status {
                    Status::Failed(errno) => errno,
                    _ => 0,
                },
                served,
            });
        }
    }

    fn tell(&mut self, mut event: Event) {
        self.tell_notes();
        event.sequence = self.sequence;
        self.sequence += 1;
        self.observer.event(&event);
    }

    /// Forwards the elevator's notes.
    pub(crate) fn tell_notes(&mut self) {
        if O::LISTENS && !self.view.notes.is_empty() {
            for note in self.view.notes.drain() {
                self.observer.note(self.view.exact, self.sequence, &note);
                self.sequence += 1;
            }
        }
    }
}

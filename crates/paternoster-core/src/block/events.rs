// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: how the queue's steps become the stream that an observer reads.
//!
//! Events and the elevator's notes share one numbering. Notes written before a step are emitted
//! before it, so that a reason precedes its consequence:
//!
//! ```text
//! elevator writes "batch begins"      queue issues         stream:  7 note   8 D
//! ```
//!
//! With an observer that does not listen the compiler removes all of this.
//!
//! # Invariants
//! I1  Sequence numbers rise by one from each event or note to the next, from 0.

use crate::client::ClientId;
use crate::device::{Outcome, Status};
use crate::event::{Action, Event, Observer};
use crate::op::{Flags, Op};
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::time::Nanos;

/// The stream, and its reader.
#[derive(Debug)]
pub(crate) struct Events<O> {
    pub(crate) observer: O,
    sequence: u64,
}

impl<O: Observer> Events<O> {
    pub(crate) const fn new(observer: O) -> Events<O> {
        Events { observer, sequence: 0 }
    }

    /// An event about sectors `at.0` to `at.0 + at.1`.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        view: &mut QueueView,
        action: Action,
        client: ClientId,
        what: (Op, Flags),
        at: (u64, u32),
    ) {
        if O::LISTENS {
            let event = Event {
                at: view.exact,
                sequence: 0,
                action,
                client,
                op: what.0,
                flags: what.1,
                sector: at.0,
                sectors: at.1,
                error: 0,
                served: Nanos::ZERO,
            };
            self.tell(view, event);
        }
    }

    /// An event about a whole request.
    #[inline]
    pub(crate) fn emit_request(&mut self, view: &mut QueueView, action: Action, id: RequestId) {
        if O::LISTENS {
            let request = &view.requests[id];
            let (client, what) = (request.client(), (request.op, request.flags));
            let at = (request.sector, request.sectors);
            self.emit(view, action, client, what, at);
        }
    }

    /// A command has ended, after that much device time.
    pub(crate) fn emit_completion(
        &mut self,
        view: &mut QueueView,
        id: RequestId,
        outcome: Outcome,
        served: Nanos,
    ) {
        if O::LISTENS {
            let request = &view.requests[id];
            let event = Event {
                at: view.exact,
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
            };
            self.tell(view, event);
        }
    }

    fn tell(&mut self, view: &mut QueueView, mut event: Event) {
        self.tell_notes(view);
        event.sequence = self.sequence;
        self.sequence += 1;
        self.observer.event(&event);
    }

    /// Forwards the elevator's notes.
    pub(crate) fn tell_notes(&mut self, view: &mut QueueView) {
        if O::LISTENS && !view.notes.is_empty() {
            for note in view.notes.drain() {
                self.observer.note(view.exact, self.sequence, &note);
                self.sequence += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::device::DeviceFacts;
    use crate::event::Note;
    use crate::queue_view::Limits;

    #[derive(Debug, Default)]
    struct Heard(Vec<(u64, char)>);

    impl Observer for Heard {
        fn event(&mut self, event: &Event) {
            self.0.push((event.sequence, event.action.letter()));
        }

        fn note(&mut self, _: Nanos, sequence: u64, _: &Note) {
            self.0.push((sequence, 'm'));
        }
    }

    /// Does a note precede the event that follows it, and does one numbering count both (I1)?
    #[test]
    fn a_reason_precedes_its_consequence() {
        let mut view = QueueView::new(DeviceFacts::default(), Limits::default(), true);
        let mut events = Events::new(Heard::default());
        let plug = |events: &mut Events<Heard>, view: &mut QueueView| {
            events.emit(view, Action::Plug, ClientId::NOBODY, (Op::Read, Flags::NONE), (0, 0));
        };
        plug(&mut events, &mut view);
        view.note(Note::TriesAgain);
        view.note(Note::TriesAgain);
        plug(&mut events, &mut view);
        view.note(Note::TriesAgain);
        events.tell_notes(&mut view);
        events.tell_notes(&mut view);
        let expected = [(0, 'P'), (1, 'm'), (2, 'm'), (3, 'P'), (4, 'm')];
        assert_eq!(events.observer.0, expected);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded queue: a queue, and a record of every call of it.
//!
//! A loop calls its queue only through the recorded queue, so that its calls can be recorded and
//! replayed elsewhere.
//!
//! ```text
//! loop ──call──▶ Recorded queue ──▶ RequestQueue
//!      ◀─answer──┘ │
//!                  └─ call and answer ──▶ Record writer (only while the queue is recorded)
//! ```
//!
//! Invariants: I1 everything that changes the queue goes through here; I2 the queue behaves the
//! same whether it is recorded or not.

use std::fmt;
use std::io::{self, Write};

use paternoster_core::near;
use paternoster_core::{
    AddError, AttributeError, Bio, BuildError, CancelError, ClientId, ClientSpec, DeviceFacts,
    Elevator, GroupId, GroupSpec, InUse, Limits, Nanos, Observer, Outcome, Output, Priority,
    RequestQueue, Stale, SubmitError, Tag, Ticket,
};

use crate::decisions::call::{Answer, BioOf, Call};
use crate::decisions::names::answer_of;
use crate::decisions::record_writer::{RECORD_BYTES_MAX, RecordWriter};
use crate::decisions::{RecordError, RecordState};
use crate::watchdog::{self, Verdict};

/// A queue whose calls can be recorded.
#[derive(Debug)]
pub struct RecordedQueue<O: Observer> {
    queue: RequestQueue<O>,
    facts: DeviceFacts,
    limits: Limits,
    /// Whether a call has been made.
    begun: bool,
    record_writer: Option<Box<RecordWriter>>,
    /// The watchdog's verdict on an external elevator.
    verdict: Option<Verdict>,
}

impl<O: Observer> RecordedQueue<O> {
    /// A recorded queue of a new queue.
    ///
    /// # Errors
    /// The limit that cannot work.
    pub fn new(
        facts: DeviceFacts,
        limits: Limits,
        elevator: Box<dyn Elevator>,
        observer: O,
    ) -> Result<RecordedQueue<O>, BuildError> {
        let queue =
            RequestQueue::builder(facts, elevator).limits(limits).observer(observer).build()?;
        Ok(RecordedQueue { queue, facts, limits, begun: false, record_writer: None, verdict: None })
    }

    /// A recorded queue of a new queue with the elevator of this name, which is watched if it is
    /// external.
    ///
    /// # Errors
    /// There is no such elevator, or one of the limits cannot work.
    pub fn named(
        facts: DeviceFacts,
        limits: Limits,
        name: &str,
        observer: O,
    ) -> Result<RecordedQueue<O>, String> {
        let (elevator, verdict) =
            watchdog::by_name(name).ok_or_else(|| format!("there is no scheduler {name}"))?;
        let mut recorded_queue = RecordedQueue::new(facts, limits, elevator, observer)
            .map_err(|error| error.to_string())?;
        recorded_queue.verdict = verdict;
        Ok(recorded_queue)
    }

    /// The law that its elevator has broken, if it is watched and has broken one.
    #[must_use]
    pub fn broken_law(&self) -> Option<&str> {
        self.verdict.as_ref()?.why()
    }

    /// Writes every call from now on to `sink`, at most 16 GiB; only before the first call. The
    /// sink is written to by a thread of its own, in pieces of up to 64 KiB.
    ///
    /// # Errors
    /// Why there is no record; the queue goes on without.
    pub fn record(&mut self, sink: Box<dyn Write + Send>) -> Result<(), RecordError> {
        self.record_at_most(sink, RECORD_BYTES_MAX)
    }

    /// As [`RecordedQueue::record`], but the record ends, with a mark, before it exceeds `bytes`
    /// (not counting the heads of its blocks, 13 bytes in 64 KiB).
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn record_at_most(
        &mut self,
        sink: Box<dyn Write + Send>,
        bytes: u64,
    ) -> Result<(), RecordError> {
        match self.record_writer {
            Some(_) => return Err(RecordError::Already),
            None if self.begun => return Err(RecordError::Begun),
            None => {}
        }
        let queue = (self.facts, self.limits, self.queue.elevator_name(), self.queue.root());
        self.record_writer = Some(Box::new(RecordWriter::start(sink, bytes, queue)?));
        Ok(())
    }

    /// The record's state, if there is one.
    #[must_use]
    pub fn recorded(&self) -> Option<RecordState> {
        self.record_writer.as_ref().map(|record_writer| record_writer.state())
    }

    /// Ends the record, if there is one, and waits for the disk. Dropping the recorded queue does
    /// the same.
    ///
    /// # Errors
    /// The error of writing it.
    pub fn finish_record(&mut self) -> io::Result<Option<RecordState>> {
        self.record_writer.as_mut().map(|record_writer| record_writer.finish()).transpose()
    }

    /// The queue's limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The queue, read-only.
    pub const fn queue(&self) -> &RequestQueue<O> {
        &self.queue
    }

    /// The observer.
    pub const fn observer_mut(&mut self) -> &mut O {
        self.queue.observer_mut()
    }

    /// The queue and the record writer, if any; notes that a call has been made.
    #[inline]
    fn begin(&mut self) -> (&mut RequestQueue<O>, Option<&mut RecordWriter>) {
        self.begun = true;
        let record_writer =
            self.record_writer.as_deref_mut().filter(|record_writer| record_writer.is_writing());
        (&mut self.queue, record_writer)
    }

    /// As [`RequestQueue::submit`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn submit(&mut self, now: Nanos, bio: Bio) -> Result<Ticket, SubmitError> {
        let (queue, record_writer) = self.begin();
        let answer = queue.submit(now, bio);
        if let Some(record_writer) = record_writer {
            let said = record_writer.names.submitted(&answer);
            let client = record_writer.names.clients.name(bio.client);
            let Bio { op, sector, sectors, segments, flags, priority, cookie, .. } = bio;
            let bio = BioOf { client, op, sector, sectors, segments, flags, priority, cookie };
            record_writer.write(now, &Call::Submit(bio), &said);
        }
        answer
    }

    /// Calls [`RequestQueue::next`].
    pub fn next(&mut self, now: Nanos) -> Output {
        let (queue, record_writer) = self.begin();
        let output = queue.next(now);
        if let Some(record_writer) = record_writer {
            let said = record_writer.names.output(&output);
            record_writer.write(now, &Call::Next, &said);
            if matches!(output, Output::Wait { .. }) {
                record_writer.names.tickets.tidy(|ticket| queue.request_with(ticket).is_some());
            }
        }
        output
    }

    /// As [`RequestQueue::complete`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn complete(&mut self, now: Nanos, tag: Tag, outcome: Outcome) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.complete(now, tag, outcome);
        if let Some(record_writer) = record_writer {
            let tag = record_writer.names.tags.name(tag);
            record_writer.write(now, &Call::Complete { tag, outcome }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::requeue`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn requeue(&mut self, now: Nanos, tag: Tag) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.requeue(now, tag);
        if let Some(record_writer) = record_writer {
            let tag = record_writer.names.tags.name(tag);
            record_writer.write(now, &Call::Requeue { tag }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::cancel`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn cancel(&mut self, now: Nanos, ticket: Ticket) -> Result<(), CancelError> {
        let (queue, record_writer) = self.begin();
        let answer = queue.cancel(now, ticket);
        if let Some(record_writer) = record_writer {
            let ticket = record_writer.names.tickets.number(ticket);
            record_writer.write(now, &Call::Cancel { ticket }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::plug`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn plug(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.plug(now, id);
        if let Some(record_writer) = record_writer {
            let client = record_writer.names.clients.name(id);
            record_writer.write(now, &Call::Plug { client }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::unplug`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn unplug(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.unplug(now, id);
        if let Some(record_writer) = record_writer {
            let client = record_writer.names.clients.name(id);
            record_writer.write(now, &Call::Unplug { client }, &answer_of(answer));
        }
        answer
    }

    /// Calls [`RequestQueue::dispatch_all`].
    pub fn dispatch_all(&mut self, now: Nanos) -> u32 {
        let (queue, record_writer) = self.begin();
        let count = queue.dispatch_all(now);
        if let Some(record_writer) = record_writer {
            record_writer.write(now, &Call::DispatchAll, &Answer::Count(count));
        }
        count
    }

    /// As [`RequestQueue::attach`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn attach(&mut self, now: Nanos, spec: ClientSpec) -> Result<ClientId, AddError> {
        let (queue, record_writer) = self.begin();
        let answer = queue.attach(now, spec);
        if let Some(record_writer) = record_writer {
            record_writer.attached(now, queue, &answer);
        }
        answer
    }

    /// As [`RequestQueue::detach`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn detach(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.detach(now, id);
        if let Some(record_writer) = record_writer {
            let client = record_writer.names.clients.name(id);
            record_writer.write(now, &Call::Detach { client }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::set_priority`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn set_priority(
        &mut self,
        now: Nanos,
        id: ClientId,
        priority: Priority,
        weight: u32,
    ) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.set_priority(now, id, priority, weight);
        if let Some(record_writer) = record_writer {
            let client = record_writer.names.clients.name(id);
            record_writer.write(
                now,
                &Call::SetPriority { client, priority, weight },
                &answer_of(answer),
            );
        }
        answer
    }

    /// As [`RequestQueue::move_client`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn move_client(&mut self, now: Nanos, id: ClientId, to: GroupId) -> Result<(), AddError> {
        let (queue, record_writer) = self.begin();
        let answer = queue.move_client(now, id, to);
        if let Some(record_writer) = record_writer {
            let client = record_writer.names.clients.name(id);
            let to = record_writer.names.groups.name(to);
            record_writer.write(now, &Call::MoveClient { client, to }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::add_group`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn add_group(&mut self, now: Nanos, spec: GroupSpec) -> Result<GroupId, AddError> {
        let (queue, record_writer) = self.begin();
        let answer = queue.add_group(now, spec);
        if let Some(record_writer) = record_writer {
            record_writer.group_added(now, queue, &answer);
        }
        answer
    }

    /// As [`RequestQueue::set_group_weight`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn set_group_weight(&mut self, now: Nanos, id: GroupId, weight: u32) -> Result<(), Stale> {
        let (queue, record_writer) = self.begin();
        let answer = queue.set_group_weight(now, id, weight);
        if let Some(record_writer) = record_writer {
            let group = record_writer.names.groups.name(id);
            record_writer.write(now, &Call::SetGroupWeight { group, weight }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::remove_group`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn remove_group(&mut self, now: Nanos, id: GroupId) -> Result<(), InUse> {
        let (queue, record_writer) = self.begin();
        let answer = queue.remove_group(now, id);
        if let Some(record_writer) = record_writer {
            let group = record_writer.names.groups.name(id);
            record_writer.write(now, &Call::RemoveGroup { group }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::change_elevator`], by name.
    ///
    /// # Errors
    /// The name, if there is no such elevator.
    pub fn change_elevator(&mut self, now: Nanos, name: &str) -> Result<(), String> {
        let Some((elevator, verdict)) = watchdog::by_name(name) else {
            let names = paternoster_base::schedulers::choices().map(|entry| entry.name);
            return Err(format!("there is no scheduler `{name}`{}", near::hint(name, names)));
        };
        let (queue, record_writer) = self.begin();
        queue.change_elevator(now, elevator);
        if let Some(record_writer) = record_writer {
            let name = name.to_owned();
            record_writer.write(now, &Call::ChangeElevator { name }, &Answer::Fine);
        }
        self.verdict = verdict;
        Ok(())
    }

    /// As [`RequestQueue::set_attribute`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn set_attribute(
        &mut self,
        now: Nanos,
        name: &str,
        text: &str,
    ) -> Result<(), AttributeError> {
        let (queue, record_writer) = self.begin();
        let answer = queue.set_attribute(now, name, text);
        if let Some(record_writer) = record_writer {
            let said = answer_of(answer.as_ref().copied());
            let (name, text) = (name.to_owned(), text.to_owned());
            record_writer.write(now, &Call::SetAttribute { name, text }, &said);
        }
        answer
    }

    /// As [`RequestQueue::show_attribute`].
    ///
    /// # Errors
    /// As for the same method of [`RequestQueue`].
    pub fn show_attribute(
        &self,
        name: &str,
        out: &mut dyn fmt::Write,
    ) -> Result<(), AttributeError> {
        self.queue.show_attribute(name, out)
    }
}

impl<O: Observer> Drop for RecordedQueue<O> {
    fn drop(&mut self) {
        // Callers that need to know ask first.
        let _what_failed = self.finish_record();
    }
}

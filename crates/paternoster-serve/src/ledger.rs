// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ledger: a queue, and a record of every call of it.
//!
//! A desk speaks to its queue through the ledger alone, so that what it did can be written down and
//! done again at another desk.
//!
//! ```text
//! desk ──call──▶ Ledger ──▶ RequestQueue
//!      ◀─answer──┘ │
//!                  └─ call and answer ──▶ Clerk (only while the queue is recorded)
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
use crate::decisions::clerk::{Clerk, RECORD_BYTES_MAX};
use crate::decisions::names::answer_of;
use crate::decisions::{RecordError, RecordState};
use crate::watchdog::{self, Verdict};

/// A queue whose calls can be recorded.
#[derive(Debug)]
pub struct Ledger<O: Observer> {
    queue: RequestQueue<O>,
    facts: DeviceFacts,
    limits: Limits,
    /// A call has been made.
    begun: bool,
    clerk: Option<Box<Clerk>>,
    /// Of an elevator that is not ours.
    verdict: Option<Verdict>,
}

impl<O: Observer> Ledger<O> {
    /// A ledger of a new queue.
    ///
    /// # Errors
    /// One of the limits that cannot work.
    pub fn new(
        facts: DeviceFacts,
        limits: Limits,
        elevator: Box<dyn Elevator>,
        observer: O,
    ) -> Result<Ledger<O>, BuildError> {
        let queue =
            RequestQueue::builder(facts, elevator).limits(limits).observer(observer).build()?;
        Ok(Ledger { queue, facts, limits, begun: false, clerk: None, verdict: None })
    }

    /// A ledger of a new queue with the elevator of this name, which is watched if it is not ours.
    ///
    /// # Errors
    /// There is no such elevator, or one of the limits cannot work.
    pub fn named(
        facts: DeviceFacts,
        limits: Limits,
        name: &str,
        observer: O,
    ) -> Result<Ledger<O>, String> {
        let (elevator, verdict) =
            watchdog::by_name(name).ok_or_else(|| format!("there is no scheduler {name}"))?;
        let mut ledger =
            Ledger::new(facts, limits, elevator, observer).map_err(|error| error.to_string())?;
        ledger.verdict = verdict;
        Ok(ledger)
    }

    /// Which law its elevator has broken, if it is watched and one is.
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

    /// As [`Ledger::record`], but the record ends, with a mark, before it has more than `bytes`
    /// (the heads of its blocks, 13 bytes in 64 KiB, apart).
    ///
    /// # Errors
    /// As there.
    pub fn record_at_most(
        &mut self,
        sink: Box<dyn Write + Send>,
        bytes: u64,
    ) -> Result<(), RecordError> {
        match self.clerk {
            Some(_) => return Err(RecordError::Already),
            None if self.begun => return Err(RecordError::Begun),
            None => {}
        }
        let queue = (self.facts, self.limits, self.queue.elevator_name(), self.queue.root());
        self.clerk = Some(Box::new(Clerk::start(sink, bytes, queue)?));
        Ok(())
    }

    /// How the record stands, if there is one.
    #[must_use]
    pub fn recorded(&self) -> Option<RecordState> {
        self.clerk.as_ref().map(|clerk| clerk.state())
    }

    /// Ends the record, if there is one, and waits for the disk. Dropping the ledger does, too.
    ///
    /// # Errors
    /// What writing it failed with.
    pub fn finish_record(&mut self) -> io::Result<Option<RecordState>> {
        self.clerk.as_mut().map(|clerk| clerk.finish()).transpose()
    }

    /// The queue's limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The queue, to look at.
    pub const fn queue(&self) -> &RequestQueue<O> {
        &self.queue
    }

    /// The observer.
    pub const fn observer_mut(&mut self) -> &mut O {
        self.queue.observer_mut()
    }

    /// The clerk, if one writes; and a call has been made now.
    #[inline]
    fn begin(&mut self) -> (&mut RequestQueue<O>, Option<&mut Clerk>) {
        self.begun = true;
        let clerk = self.clerk.as_deref_mut().filter(|clerk| clerk.is_writing());
        (&mut self.queue, clerk)
    }

    /// As [`RequestQueue::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&mut self, now: Nanos, bio: Bio) -> Result<Ticket, SubmitError> {
        let (queue, clerk) = self.begin();
        let answer = queue.submit(now, bio);
        if let Some(clerk) = clerk {
            let said = clerk.names.submitted(&answer);
            let client = clerk.names.clients.name(bio.client);
            let Bio { op, sector, sectors, segments, flags, priority, cookie, .. } = bio;
            let bio = BioOf { client, op, sector, sectors, segments, flags, priority, cookie };
            clerk.write(now, &Call::Submit(bio), &said);
        }
        answer
    }

    /// As [`RequestQueue::next`].
    pub fn next(&mut self, now: Nanos) -> Output {
        let (queue, clerk) = self.begin();
        let output = queue.next(now);
        if let Some(clerk) = clerk {
            let said = clerk.names.output(&output);
            clerk.write(now, &Call::Next, &said);
            if matches!(output, Output::Wait { .. }) {
                clerk.names.tickets.tidy(|ticket| queue.request_with(ticket).is_some());
            }
        }
        output
    }

    /// As [`RequestQueue::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(&mut self, now: Nanos, tag: Tag, outcome: Outcome) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.complete(now, tag, outcome);
        if let Some(clerk) = clerk {
            let tag = clerk.names.tags.name(tag);
            clerk.write(now, &Call::Complete { tag, outcome }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::requeue`].
    ///
    /// # Errors
    /// As there.
    pub fn requeue(&mut self, now: Nanos, tag: Tag) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.requeue(now, tag);
        if let Some(clerk) = clerk {
            let tag = clerk.names.tags.name(tag);
            clerk.write(now, &Call::Requeue { tag }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::cancel`].
    ///
    /// # Errors
    /// As there.
    pub fn cancel(&mut self, now: Nanos, ticket: Ticket) -> Result<(), CancelError> {
        let (queue, clerk) = self.begin();
        let answer = queue.cancel(now, ticket);
        if let Some(clerk) = clerk {
            let ticket = clerk.names.tickets.number(ticket);
            clerk.write(now, &Call::Cancel { ticket }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::plug`].
    ///
    /// # Errors
    /// As there.
    pub fn plug(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.plug(now, id);
        if let Some(clerk) = clerk {
            let client = clerk.names.clients.name(id);
            clerk.write(now, &Call::Plug { client }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::unplug`].
    ///
    /// # Errors
    /// As there.
    pub fn unplug(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.unplug(now, id);
        if let Some(clerk) = clerk {
            let client = clerk.names.clients.name(id);
            clerk.write(now, &Call::Unplug { client }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::dispatch_all`].
    pub fn dispatch_all(&mut self, now: Nanos) -> u32 {
        let (queue, clerk) = self.begin();
        let count = queue.dispatch_all(now);
        if let Some(clerk) = clerk {
            clerk.write(now, &Call::DispatchAll, &Answer::Count(count));
        }
        count
    }

    /// As [`RequestQueue::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&mut self, now: Nanos, spec: ClientSpec) -> Result<ClientId, AddError> {
        let (queue, clerk) = self.begin();
        let answer = queue.attach(now, spec);
        if let Some(clerk) = clerk {
            clerk.attached(now, queue, &answer);
        }
        answer
    }

    /// As [`RequestQueue::detach`].
    ///
    /// # Errors
    /// As there.
    pub fn detach(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.detach(now, id);
        if let Some(clerk) = clerk {
            let client = clerk.names.clients.name(id);
            clerk.write(now, &Call::Detach { client }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::set_priority`].
    ///
    /// # Errors
    /// As there.
    pub fn set_priority(
        &mut self,
        now: Nanos,
        id: ClientId,
        priority: Priority,
        weight: u32,
    ) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.set_priority(now, id, priority, weight);
        if let Some(clerk) = clerk {
            let client = clerk.names.clients.name(id);
            clerk.write(now, &Call::SetPriority { client, priority, weight }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::move_client`].
    ///
    /// # Errors
    /// As there.
    pub fn move_client(&mut self, now: Nanos, id: ClientId, to: GroupId) -> Result<(), AddError> {
        let (queue, clerk) = self.begin();
        let answer = queue.move_client(now, id, to);
        if let Some(clerk) = clerk {
            let client = clerk.names.clients.name(id);
            let to = clerk.names.groups.name(to);
            clerk.write(now, &Call::MoveClient { client, to }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::add_group`].
    ///
    /// # Errors
    /// As there.
    pub fn add_group(&mut self, now: Nanos, spec: GroupSpec) -> Result<GroupId, AddError> {
        let (queue, clerk) = self.begin();
        let answer = queue.add_group(now, spec);
        if let Some(clerk) = clerk {
            clerk.group_added(now, queue, &answer);
        }
        answer
    }

    /// As [`RequestQueue::set_group_weight`].
    ///
    /// # Errors
    /// As there.
    pub fn set_group_weight(&mut self, now: Nanos, id: GroupId, weight: u32) -> Result<(), Stale> {
        let (queue, clerk) = self.begin();
        let answer = queue.set_group_weight(now, id, weight);
        if let Some(clerk) = clerk {
            let group = clerk.names.groups.name(id);
            clerk.write(now, &Call::SetGroupWeight { group, weight }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::remove_group`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_group(&mut self, now: Nanos, id: GroupId) -> Result<(), InUse> {
        let (queue, clerk) = self.begin();
        let answer = queue.remove_group(now, id);
        if let Some(clerk) = clerk {
            let group = clerk.names.groups.name(id);
            clerk.write(now, &Call::RemoveGroup { group }, &answer_of(answer));
        }
        answer
    }

    /// As [`RequestQueue::change_elevator`], by name.
    ///
    /// # Errors
    /// The name, if there is no such elevator.
    pub fn change_elevator(&mut self, now: Nanos, name: &str) -> Result<(), String> {
        let Some((elevator, verdict)) = watchdog::by_name(name) else {
            let names = paternoster_sim::schedulers::choices().map(|entry| entry.name);
            return Err(format!("there is no scheduler `{name}`{}", near::hint(name, names)));
        };
        let (queue, clerk) = self.begin();
        queue.change_elevator(now, elevator);
        if let Some(clerk) = clerk {
            let name = name.to_owned();
            clerk.write(now, &Call::ChangeElevator { name }, &Answer::Fine);
        }
        self.verdict = verdict;
        Ok(())
    }

    /// As [`RequestQueue::set_attribute`].
    ///
    /// # Errors
    /// As there.
    pub fn set_attribute(
        &mut self,
        now: Nanos,
        name: &str,
        text: &str,
    ) -> Result<(), AttributeError> {
        let (queue, clerk) = self.begin();
        let answer = queue.set_attribute(now, name, text);
        if let Some(clerk) = clerk {
            let said = answer_of(answer.as_ref().copied());
            let (name, text) = (name.to_owned(), text.to_owned());
            clerk.write(now, &Call::SetAttribute { name, text }, &said);
        }
        answer
    }

    /// As [`RequestQueue::show_attribute`].
    ///
    /// # Errors
    /// As there.
    pub fn show_attribute(
        &self,
        name: &str,
        out: &mut dyn fmt::Write,
    ) -> Result<(), AttributeError> {
        self.queue.show_attribute(name, out)
    }
}

impl<O: Observer> Drop for Ledger<O> {
    fn drop(&mut self) {
        // Whoever wants to know asks before.
        let _what_failed = self.finish_record();
    }
}

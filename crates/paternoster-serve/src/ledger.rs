// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ledger: a queue, and a record of every call of it.
//!
//! A desk speaks to its queue through the ledger alone, so that what it did can be written down and
//! done again at another desk.

use std::fmt;

use paternoster::{
    AddError, AttributeError, Bio, ClientId, ClientSpec, DeviceFacts, Elevator, GroupId, GroupSpec,
    InUse, Limits, Nanos, Observer, Outcome, Output, Priority, RequestQueue, Stale, SubmitError,
    Tag, Ticket,
};

/// A queue whose calls can be recorded.
#[derive(Debug)]
pub struct Ledger<O: Observer> {
    queue: RequestQueue<O>,
}

impl<O: Observer> Ledger<O> {
    /// A ledger of a new queue.
    pub fn new(
        facts: DeviceFacts,
        limits: Limits,
        elevator: Box<dyn Elevator>,
        observer: O,
    ) -> Ledger<O> {
        Ledger { queue: RequestQueue::new(facts, limits, elevator, observer) }
    }

    /// The queue, to look at.
    pub const fn queue(&self) -> &RequestQueue<O> {
        &self.queue
    }

    /// The observer.
    pub const fn observer_mut(&mut self) -> &mut O {
        self.queue.observer_mut()
    }

    /// As [`RequestQueue::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&mut self, now: Nanos, bio: Bio) -> Result<Ticket, SubmitError> {
        self.queue.submit(now, bio)
    }

    /// As [`RequestQueue::next`].
    pub fn next(&mut self, now: Nanos) -> Output {
        self.queue.next(now)
    }

    /// As [`RequestQueue::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(&mut self, now: Nanos, tag: Tag, outcome: Outcome) -> Result<(), Stale> {
        self.queue.complete(now, tag, outcome)
    }

    /// As [`RequestQueue::requeue`].
    ///
    /// # Errors
    /// As there.
    pub fn requeue(&mut self, now: Nanos, tag: Tag) -> Result<(), Stale> {
        self.queue.requeue(now, tag)
    }

    /// As [`RequestQueue::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&mut self, spec: ClientSpec) -> Result<ClientId, AddError> {
        self.queue.attach(spec)
    }

    /// As [`RequestQueue::detach`].
    ///
    /// # Errors
    /// As there.
    pub fn detach(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        self.queue.detach(now, id)
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
        self.queue.set_priority(now, id, priority, weight)
    }

    /// As [`RequestQueue::move_client`].
    ///
    /// # Errors
    /// As there.
    pub fn move_client(&mut self, now: Nanos, id: ClientId, to: GroupId) -> Result<(), AddError> {
        self.queue.move_client(now, id, to)
    }

    /// As [`RequestQueue::add_group`].
    ///
    /// # Errors
    /// As there.
    pub fn add_group(&mut self, spec: GroupSpec) -> Result<GroupId, AddError> {
        self.queue.add_group(spec)
    }

    /// As [`RequestQueue::set_group_weight`].
    ///
    /// # Errors
    /// As there.
    pub fn set_group_weight(&mut self, now: Nanos, id: GroupId, weight: u32) -> Result<(), Stale> {
        self.queue.set_group_weight(now, id, weight)
    }

    /// As [`RequestQueue::remove_group`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_group(&mut self, id: GroupId) -> Result<(), InUse> {
        self.queue.remove_group(id)
    }

    /// As [`RequestQueue::change_elevator`], by name.
    ///
    /// # Errors
    /// The name, if there is no such elevator.
    pub fn change_elevator(&mut self, now: Nanos, name: &str) -> Result<(), String> {
        let Some(elevator) = paternoster::elevators::by_name(name) else {
            return Err(format!("there is no scheduler {name}"));
        };
        self.queue.change_elevator(now, elevator);
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
        self.queue.set_attribute(now, name, text)
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Class: where a program asks for permits, and the ways in which it may wait.

use std::boxed::Box;
use std::time::Duration;

use super::permit::this_thread;
use super::waiter::Waiter;
use super::{Gate, Permit, PermitError, PermitFuture};
use crate::machine::{Ask, ClassError, ClassId, ClassSpec, Counts, Eta, Op, Rate};
use paternoster_core::Nanos;

/// A class of a gate; a clone is the same class. It stays open until [`Class::close`].
#[derive(Debug, Clone)]
pub struct Class {
    pub(super) gate: Gate,
    pub(super) id: ClassId,
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Class {
    /// The gate that it belongs to.
    #[must_use]
    pub const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Opens a class below this one.
    ///
    /// # Errors
    /// [`ClassError`]; nothing has changed then.
    pub fn class(&self, spec: ClassSpec) -> Result<Class, ClassError> {
        self.gate.class(spec.below(self.id))
    }

    /// A permit for one I/O of `len` bytes; waits for as long as it takes.
    ///
    /// # Errors
    /// [`PermitError`]: the class was closed, or too many ask already.
    pub fn permit(&self, op: Op, len: u64) -> Result<Permit, PermitError> {
        self.permit_for(Ask::new(op, len))
    }

    /// The same for any ask: with a place, a deadline of the gate's time ([`Gate::now`]) …
    ///
    /// # Errors
    /// [`PermitError`].
    pub fn permit_for(&self, ask: Ask) -> Result<Permit, PermitError> {
        self.gate.shared.wait(self.id, ask.holder(this_thread()))
    }

    /// A permit, if it is granted within this time.
    ///
    /// # Errors
    /// [`PermitError`].
    pub fn permit_within(&self, op: Op, len: u64, most: Duration) -> Result<Permit, PermitError> {
        let until = self.gate.now() + nanos(most);
        self.permit_for(Ask::new(op, len).until(until))
    }

    /// A permit for an I/O that is expected to end within this time; refused at once if not.
    ///
    /// # Errors
    /// [`PermitError`]; [`crate::AskError::TooLate`] has the time at which it would be done.
    pub fn permit_by(&self, op: Op, len: u64, most: Duration) -> Result<Permit, PermitError> {
        let by = self.gate.now() + nanos(most);
        self.permit_for(Ask::new(op, len).by(by))
    }

    /// A permit, if one is available at once.
    #[must_use]
    pub fn try_permit(&self, op: Op, len: u64) -> Option<Permit> {
        self.gate.shared.try_wait(self.id, Ask::new(op, len))
    }

    /// A permit for a task.
    pub fn permit_async(&self, ask: Ask) -> PermitFuture {
        let shared = super::Arc::clone(&self.gate.shared);
        PermitFuture { shared, class: self.id, ask, asked: None }
    }

    /// Calls `then` with the permit when it is granted, or with an error when it is too late: at
    /// once in this thread, or later in the thread that gives a permit back.
    ///
    /// # Errors
    /// [`PermitError`]: the ask was refused, and `then` is not called.
    pub fn permit_then(
        &self,
        ask: Ask,
        then: impl FnOnce(Result<Permit, PermitError>) + Send + 'static,
    ) -> Result<(), PermitError> {
        let (shared, id) = (&self.gate.shared, self.id);
        let now = shared.clock.now();
        let waiter = Waiter::Function(Box::new(then));
        let asked = shared.act(now, |state| state.ask(now, id, ask, waiter));
        asked.ok_or(PermitError::Forked)??;
        Ok(())
    }

    /// When would a permit be given, and the I/O be done, for an ask now? `None` if it was closed.
    #[must_use]
    pub fn eta(&self, op: Op, len: u64) -> Option<(Duration, Duration)> {
        let now = self.gate.now();
        let Eta { permit, done } = self.gate.shared.lock()?.core.eta(now, self.id, op, len)?;
        Some((Duration::from_nanos((permit - now).0), Duration::from_nanos((done - now).0)))
    }

    /// Sets another weight from now on.
    ///
    /// # Errors
    /// [`ClassError::NoClass`] if it was closed.
    pub fn set_weight(&self, weight: u32) -> Result<(), ClassError> {
        let (now, id) = (self.gate.now(), self.id);
        let set = self.gate.shared.act(now, |state| state.core.set_weight(now, id, weight));
        set.unwrap_or(Err(ClassError::NoClass))
    }

    /// Sets another cap and floor from now on; [`Rate::NONE`] for none.
    ///
    /// # Errors
    /// [`ClassError`]: it was closed, or a floor is set and others are below it.
    pub fn set_rates(&self, cap: Rate, floor: Rate) -> Result<(), ClassError> {
        let (now, id) = (self.gate.now(), self.id);
        let set = self.gate.shared.act(now, |state| state.core.set_rates(now, id, cap, floor));
        set.unwrap_or(Err(ClassError::NoClass))
    }

    /// Closes the class: no more asks are taken. Waiting asks and permits that are out end as
    /// usual.
    ///
    /// # Errors
    /// [`ClassError`]: it was closed, or others are below it.
    pub fn close(&self) -> Result<(), ClassError> {
        let (now, id) = (self.gate.now(), self.id);
        let closed = self.gate.shared.act(now, |state| state.core.close(now, id));
        closed.unwrap_or(Err(ClassError::NoClass))
    }

    /// What the class has received so far; `None` if it was closed.
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        self.gate.shared.lock()?.core.counts(self.id)
    }
}

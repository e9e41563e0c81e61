// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permit: given back when it is dropped; and how a thread waits for one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread_local;

use paternoster_core::Nanos;
use paternoster_core::slab::Key;

use super::sync::{Arc, current};
use super::waiter::Waiter;
use super::{PermitError, Shared, State};
use crate::machine::{Ask, ClassId, NotOut, Ticket};

/// The right to do one I/O. Drop it when that has ended: its class pays for the time it is held. A
/// leaked one expires.
#[must_use = "a permit that is dropped at once permits nothing"]
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    ticket: Option<Ticket>,
}

impl Permit {
    pub(super) fn new(shared: &Arc<Shared>, ticket: Ticket) -> Permit {
        Permit { shared: Arc::clone(shared), ticket: Some(ticket) }
    }

    /// Like dropping it, but reports whether it was still out.
    ///
    /// # Errors
    /// [`NotOut`] if it has expired.
    pub fn give_back(mut self) -> Result<(), NotOut> {
        self.end()
    }

    /// Its ticket, for holders that cannot keep a value of this type: nothing is given back until
    /// [`super::Gate::give_back`] is called with it.
    #[must_use]
    pub fn into_ticket(mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    fn end(&mut self) -> Result<(), NotOut> {
        let ticket = self.ticket.take().ok_or(NotOut)?;
        let now = self.shared.clock.now();
        self.shared.act(now, |state| state.core.give_back(now, ticket)).unwrap_or(Err(NotOut))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let _expired_is_reported = self.end();
    }
}

/// A number for each thread, from 1.
pub(super) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    OWN.with(|own| {
        if own.get() == 0 {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    })
}

impl Shared {
    /// A thread asks, and waits for the outcome.
    pub(super) fn wait(
        self: &Arc<Shared>,
        class: ClassId,
        ask: Ask,
    ) -> Result<Permit, PermitError> {
        let mut state = self.lock().ok_or(PermitError::Forked)?;
        let mut now = self.clock.now();
        let ticket = state.enter(now, class, ask)?;
        if state.core.is_out(ticket) {
            // Usually there is no wait, and no waiter to register.
            state.core.told(ticket);
            self.leave(state, now);
            return Ok(Permit::new(self, ticket));
        }
        let key = state.listen(ticket, Waiter::Thread(None, None))?;
        let mut is_blocked = false;
        loop {
            let calls = self.settle(&mut state, now);
            if let Some(is_granted) = state.told(key) {
                if is_blocked {
                    state.unblock(key);
                }
                let ringer = self.find_ringer(&mut state);
                drop(state);
                self.make(calls);
                self.make(ringer);
                return match is_granted {
                    true => Ok(Permit::new(self, ticket)),
                    false => Err(PermitError::TooLate),
                };
            }
            if let Some(waiter) = state.waiters.get_mut(key) {
                *waiter = Waiter::Thread(Some(current()), None);
            }
            if !is_blocked {
                state.blocked.push_back(key);
                is_blocked = true;
            }
            let rings = state.blocked.front() == Some(&key);
            let until = if rings { state.core.wakes_at() } else { None };
            if rings {
                state.rings_at = until;
            }
            let ringer = if rings { None } else { self.find_ringer(&mut state) };
            drop(state);
            self.make(calls);
            self.make(ringer);
            self.clock.park(until);
            state = self.lock().ok_or(PermitError::Forked)?;
            now = self.clock.now();
        }
    }

    /// Asks, and takes the permit only if it is granted at once.
    pub(super) fn try_wait(self: &Arc<Shared>, class: ClassId, ask: Ask) -> Option<Permit> {
        let now = self.clock.now();
        let ticket = self.act(now, |state| state.try_ask(now, class, ask))??;
        Some(Permit::new(self, ticket))
    }
}

impl State {
    /// A thread is no longer blocked. If it watched the time, another one takes over.
    fn unblock(&mut self, key: Key) {
        if self.blocked.front() == Some(&key) {
            self.rings_at = None;
        }
        if let Some(place) = self.blocked.iter().position(|other| *other == key) {
            self.blocked.remove(place);
        }
    }

    fn try_ask(&mut self, now: Nanos, class: ClassId, ask: Ask) -> Option<Ticket> {
        let ticket = self.core.ask(now, class, ask).ok()?;
        if self.core.is_out(ticket) {
            self.core.told(ticket);
            return Some(ticket);
        }
        self.core.withdraw(now, ticket);
        None
    }
}

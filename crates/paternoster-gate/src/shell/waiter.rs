// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiter: what learns the outcome of a ticket: a thread, a task, a function.

use core::fmt;
use std::boxed::Box;
use std::task::Waker;

use super::sync::{Arc, Thread};
use super::{Permit, PermitError, Shared};
use crate::machine::Ticket;

/// A function to call back.
pub(super) type Callback = Box<dyn FnOnce(Result<Permit, PermitError>) + Send>;

/// What waits with a ticket, and its outcome, once known: granted, or too late.
#[derive(Default)]
pub(super) enum Waiter {
    #[default]
    Nobody,
    /// A thread; `None` while it is not parked.
    Thread(Option<Thread>, Option<bool>),
    Task(Waker, Option<bool>),
    Function(Callback),
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Nobody => "Nobody",
            Waiter::Thread(..) => "Thread",
            Waiter::Task(..) => "Task",
            Waiter::Function(_) => "Function",
        })
    }
}

/// What to do when the lock is free again.
pub(super) enum Call {
    Unpark(Thread),
    Wake(Waker),
    Back(Callback, Ticket, bool),
}

impl Call {
    pub(super) fn make(self, shared: &Arc<Shared>) {
        match self {
            Call::Unpark(thread) => thread.unpark(),
            Call::Wake(waker) => waker.wake(),
            Call::Back(function, ticket, true) => function(Ok(Permit::new(shared, ticket))),
            Call::Back(function, _, false) => function(Err(PermitError::TooLate)),
        }
    }
}

impl Waiter {
    /// Tells the waiter the outcome: a permit, or none.
    pub(super) fn tell(&mut self, ticket: Ticket, is_granted: bool) -> Option<Call> {
        match self {
            Waiter::Nobody => None,
            Waiter::Thread(thread, told) => {
                *told = Some(is_granted);
                thread.take().map(Call::Unpark)
            }
            Waiter::Task(waker, told) => {
                *told = Some(is_granted);
                Some(Call::Wake(waker.clone()))
            }
            Waiter::Function(_) => match core::mem::take(self) {
                Waiter::Function(function) => Some(Call::Back(function, ticket, is_granted)),
                _ => None,
            },
        }
    }

    /// Its outcome.
    pub(super) const fn told(&self) -> Option<bool> {
        match self {
            Waiter::Thread(_, told) | Waiter::Task(_, told) => *told,
            Waiter::Nobody | Waiter::Function(_) => None,
        }
    }

    /// Makes it look when it next has to wake.
    pub(super) fn ring(&self) -> Option<Call> {
        match self {
            Waiter::Thread(Some(thread), _) => Some(Call::Unpark(thread.clone())),
            _ => None,
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiter: who is told what became of a ticket: a thread, a task, a function.

use core::fmt;
use std::boxed::Box;
use std::task::Waker;

use super::sync::{Arc, Thread};
use super::{Permit, PermitError, Shared};
use crate::machine::Ticket;

/// What is called back.
pub(super) type Callback = Box<dyn FnOnce(Result<Permit, PermitError>) + Send>;

/// What waits with a ticket, and whether it was told that its permit was granted, or not in time.
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

/// What is done when the lock is free again.
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
    /// It has its permit, or does not get it.
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

    /// What it was told.
    pub(super) const fn told(&self) -> Option<bool> {
        match self {
            Waiter::Thread(_, told) | Waiter::Task(_, told) => *told,
            Waiter::Nobody | Waiter::Function(_) => None,
        }
    }

    /// It is to look when it has to ring.
    pub(super) fn ring(&self) -> Option<Call> {
        match self {
            Waiter::Thread(Some(thread), _) => Some(Call::Unpark(thread.clone())),
            _ => None,
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Future: a permit for a task, of any runtime or of none.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use paternoster_core::slab::Key;

use super::sync::Arc;
use super::waiter::Waiter;
use super::{Permit, PermitError, Shared};
use crate::machine::{Ask, ClassId, Ticket};

/// Waits for a permit. It asks when first polled; dropped before that, or before its outcome, it
/// leaves nothing behind.
#[must_use = "it asks when it is polled"]
#[derive(Debug)]
pub struct PermitFuture {
    pub(super) shared: Arc<Shared>,
    pub(super) class: ClassId,
    pub(super) ask: Ask,
    pub(super) asked: Option<(Ticket, Key)>,
}

impl PermitFuture {
    fn ask(&mut self, context: &Context<'_>) -> Result<(Ticket, Key), PermitError> {
        let now = self.shared.clock.now();
        let (class, ask) = (self.class, self.ask);
        let waiter = Waiter::Task(context.waker().clone(), None);
        let asked = self.shared.act(now, |state| state.ask(now, class, ask, waiter));
        Ok(asked.ok_or(PermitError::Forked)??)
    }
}

impl Future for PermitFuture {
    type Output = Result<Permit, PermitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (ticket, key) = match self.asked {
            Some(asked) => asked,
            None => self.ask(context)?,
        };
        self.asked = Some((ticket, key));
        let told = self.shared.lock().ok_or(PermitError::Forked).map(|mut state| {
            if let Some(Waiter::Task(waker, None)) = state.waiters.get_mut(key) {
                waker.clone_from(context.waker());
            }
            state.told(key)
        })?;
        let Some(is_granted) = told else { return Poll::Pending };
        self.asked = None;
        Poll::Ready(match is_granted {
            true => Ok(Permit::new(&self.shared, ticket)),
            false => Err(PermitError::TooLate),
        })
    }
}

impl Drop for PermitFuture {
    fn drop(&mut self) {
        let Some((ticket, key)) = self.asked.take() else { return };
        let now = self.shared.clock.now();
        self.shared.act(now, |state| {
            if state.told(key).is_none() {
                state.waiters.release(key.index());
                state.listens[ticket.index() as usize] = None;
            }
            // An ask that was too late, or has expired, has no ticket any more.
            state.core.withdraw(now, ticket);
        });
    }
}

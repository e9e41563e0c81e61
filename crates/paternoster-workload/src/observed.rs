// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observed: one type of queue for all runs and replays, whatever observes them.
//!
//! A queue is compiled again for each type of observer, and the loops, processes and the page cache
//! around it too: seventeen copies in the program. In a run the meter, which every run has, is part
//! of the type; other observers are called through a pointer:
//!
//! ```text
//! RequestQueue<(Meter, AnyObserver)>
//!                      └─ none                      NoObserver: one branch an event
//!                      └─ a pointer to any Observer   a call an event
//! ```
//!
//! # Invariants
//! I1  A run returns the observers it was given.

use std::any::Any;
use std::fmt;

use paternoster_core::{Event, Nanos, Note, Observer, RequestQueue};

use crate::meter::Meter;

/// The queue of a run or replay.
pub type Queue = RequestQueue<(Meter, AnyObserver)>;

/// An [`Observer`] without what depends on its type.
trait Listener: Any {
    fn event(&mut self, event: &Event);
    fn note(&mut self, at: Nanos, sequence: u64, note: &Note);
}

impl<O: Observer + 'static> Listener for O {
    fn event(&mut self, event: &Event) {
        Observer::event(self, event);
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        Observer::note(self, at, sequence, note);
    }
}

/// An observer of any type.
pub struct AnyObserver {
    observer: Option<Box<dyn Listener>>,
    listens: bool,
}

impl AnyObserver {
    pub(crate) fn new<O: Observer + 'static>(observer: O) -> AnyObserver {
        AnyObserver { observer: Some(Box::new(observer)), listens: O::LISTENS }
    }

    /// Gives back the observer that it was made with, and observes nothing from then on; `None` if
    /// the observer has another type, or was taken already.
    pub(crate) fn take<O: Observer + 'static>(&mut self) -> Option<O> {
        self.listens = false;
        let observer: Box<dyn Any> = self.observer.take()?;
        observer.downcast().ok().map(|observer| *observer)
    }
}

impl fmt::Debug for AnyObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyObserver").field("listens", &self.listens).finish_non_exhaustive()
    }
}

impl Observer for AnyObserver {
    #[inline]
    fn event(&mut self, event: &Event) {
        if self.listens
            && let Some(observer) = &mut self.observer
        {
            observer.event(event);
        }
    }

    #[inline]
    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        if self.listens
            && let Some(observer) = &mut self.observer
        {
            observer.note(at, sequence, note);
        }
    }
}

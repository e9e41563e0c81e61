// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builder: a queue of given capacities, or the reason why they cannot work.
//!
//! A queue's minimum follows from its own rules: a request for each of the pools and their batches
//! (12), and a bio for each of a run of merges (16). The maximum is what 32-bit counters can hold
//! when elevators add them up. There is no other way to make a queue, and none has other limits
//! than those requested.

use alloc::boxed::Box;
use core::fmt;

use crate::device::DeviceFacts;
use crate::elevator::Elevator;
use crate::event::{NoObserver, Observer};
use crate::queue::RequestQueue;
use crate::queue_view::Limits;

/// Why a queue in front of this device was not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// One of the [`Limits`], or the device's depth, is below the working minimum.
    TooFew {
        /// The name of its field.
        what: &'static str,
        /// The value requested.
        asked: u32,
        /// The least that works.
        least: u32,
    },
    /// One of them is more than can be counted.
    TooMany {
        /// The name of its field.
        what: &'static str,
        /// The value requested.
        asked: u32,
        /// The most that works.
        most: u32,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::TooFew { what, asked, least } => {
                write!(f, "{what} is {asked} where {least} are needed at the least")
            }
            BuildError::TooMany { what, asked, most } => {
                write!(f, "{what} is {asked} where {most} are possible at the most")
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// Makes a [`RequestQueue`]; see [`RequestQueue::builder`].
#[must_use = "it is no queue before `build`"]
#[derive(Debug)]
pub struct Builder<O: Observer = NoObserver> {
    facts: DeviceFacts,
    elevator: Box<dyn Elevator>,
    limits: Limits,
    observer: O,
}

impl Builder {
    /// With the default limits and no observer.
    pub(crate) fn new(facts: DeviceFacts, elevator: Box<dyn Elevator>) -> Builder {
        Builder { facts, elevator, limits: Limits::default(), observer: NoObserver }
    }
}

impl<O: Observer> Builder<O> {
    /// Sets the capacities. All memory is allocated by [`Builder::build`], none later.
    pub fn limits(mut self, limits: Limits) -> Builder<O> {
        self.limits = limits;
        self
    }

    /// Sets an observer, which gets each event and note.
    pub fn observer<P: Observer>(self, observer: P) -> Builder<P> {
        let Builder { facts, elevator, limits, .. } = self;
        Builder { facts, elevator, limits, observer }
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// [`BuildError`] names the limit that is too small, or too large.
    pub fn build(self) -> Result<RequestQueue<O>, BuildError> {
        let (asked, least, most) = (&self.limits, Limits::LEAST, Limits::MOST);
        for (what, asked, least, most) in [
            ("requests", asked.requests, least.requests, most.requests),
            ("bios", asked.bios, least.bios, most.bios),
            ("clients", asked.clients, least.clients, most.clients),
            ("groups", asked.groups, least.groups, most.groups),
            ("notes", asked.notes, least.notes, most.notes),
            ("depth", self.facts.depth, 1, most.requests),
        ] {
            if asked < least {
                return Err(BuildError::TooFew { what, asked, least });
            }
            if asked > most {
                return Err(BuildError::TooMany { what, asked, most });
            }
        }
        Ok(RequestQueue::make(self.facts, self.limits, self.elevator, self.observer))
    }
}

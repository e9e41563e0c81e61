// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builder: a queue of stated capacities, or why they cannot work.
//!
//! What a queue needs at the least follows from its own rules: a request for each of the pools and
//! their batches (12), and a bio for each of a run of merges (16). [`RequestQueue::new`] raises
//! what is less; a program whose limits come from a person rather says so.

use alloc::boxed::Box;
use core::fmt;

use crate::device::DeviceFacts;
use crate::elevator::Elevator;
use crate::event::{NoObserver, Observer};
use crate::queue::RequestQueue;
use crate::scene::Limits;

/// A queue in front of this device is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// One of the [`Limits`], or the device's depth, is less than what works.
    TooFew {
        /// Which, by the name of its field.
        what: &'static str,
        /// What was asked for.
        asked: u32,
        /// The least that works.
        least: u32,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BuildError::TooFew { what, asked, least } = self;
        write!(f, "{what} is {asked} where {least} are needed at the least")
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

impl RequestQueue<NoObserver> {
    /// The parts of a queue in front of a device. Without more it has the default limits and is not
    /// observed.
    ///
    /// ```
    /// use paternoster_core::{BuildError, DeviceFacts, Limits, RequestQueue, elevators};
    ///
    /// let elevator = elevators::by_name("bfq").unwrap();
    /// let limits = Limits { bios: 4, ..Limits::default() };
    /// let builder = RequestQueue::builder(DeviceFacts::default(), elevator);
    /// let refused = builder.limits(limits).build();
    /// let why = BuildError::TooFew { what: "bios", asked: 4, least: 16 };
    /// assert_eq!(refused.unwrap_err(), why);
    /// ```
    pub fn builder(facts: DeviceFacts, elevator: Box<dyn Elevator>) -> Builder {
        Builder { facts, elevator, limits: Limits::default(), observer: NoObserver }
    }
}

impl<O: Observer> Builder<O> {
    /// With these capacities. All memory is allocated by [`Builder::build`], none later.
    pub fn limits(mut self, limits: Limits) -> Builder<O> {
        self.limits = limits;
        self
    }

    /// Observed: each event and note is told.
    pub fn observer<P: Observer>(self, observer: P) -> Builder<P> {
        let Builder { facts, elevator, limits, .. } = self;
        Builder { facts, elevator, limits, observer }
    }

    /// The queue.
    ///
    /// # Errors
    /// [`BuildError`] names the limit that is less than what works.
    pub fn build(self) -> Result<RequestQueue<O>, BuildError> {
        let (asked, least) = (&self.limits, Limits::LEAST);
        let limits = [
            ("requests", asked.requests, least.requests),
            ("bios", asked.bios, least.bios),
            ("clients", asked.clients, least.clients),
            ("groups", asked.groups, least.groups),
            ("depth", self.facts.depth, 1),
        ];
        match limits.into_iter().find(|(_, asked, least)| asked < least) {
            Some((what, asked, least)) => Err(BuildError::TooFew { what, asked, least }),
            None => Ok(RequestQueue::new(self.facts, self.limits, self.elevator, self.observer)),
        }
    }
}

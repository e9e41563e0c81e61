// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model: a device as a state machine in virtual time; and the clock in front of it.
//!
//! A model says when its next event is, and is called when that time has come. [`Simulated`] makes
//! a [`Device`] of it: to wait is to set the clock forward, so an hour of I/O passes as fast as its
//! events are computed, and always in the same way.
//!
//! # Invariants
//! I1  Time never steps back: a model's next event is not before the last one.
//! I2  What was submitted completes exactly once.

use std::fmt::Debug;

use paternoster_core::{Command, Completion, Device, DeviceFacts, Nanos, Refused};

/// A figure that a model counts and requests do not show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Words joined by `_`; the last may be `bytes`, or `part` for a fraction of a whole.
    pub name: &'static str,
    /// How much.
    pub value: f64,
}

/// A device as a state machine. Calls come in order of time.
pub trait Model: Debug + Send {
    /// What it reports about itself.
    fn facts(&self) -> DeviceFacts;

    /// Takes a command at `now`.
    ///
    /// # Errors
    /// [`Refused`] when it cannot take one now.
    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused>;

    /// When something happens in it next, if anything is under way.
    fn next_event(&self) -> Option<Nanos>;

    /// Does what is due at `now` and returns the first completion of that, if any. Called again
    /// until it returns `None`.
    fn advance(&mut self, now: Nanos) -> Option<Completion>;

    /// What it has counted so far that requests do not show, for the report of a run.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// A model's numbers, read and checked, from which any number of fresh devices are made.
pub trait Blueprint: Debug + Send + Sync {
    /// A fresh device that reports `facts`.
    fn build(&self, facts: DeviceFacts) -> Box<dyn Model>;

    /// The same; `seed` determines the device's random choices.
    fn build_seeded(&self, facts: DeviceFacts, _seed: u64) -> Box<dyn Model> {
        self.build(facts)
    }
}

impl Model for Box<dyn Model> {
    fn facts(&self) -> DeviceFacts {
        (**self).facts()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        (**self).submit(now, command)
    }

    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        (**self).advance(now)
    }

    fn figures(&self) -> Vec<Figure> {
        (**self).figures()
    }
}

/// A model with a virtual clock that starts at zero.
#[derive(Debug)]
pub struct Simulated<M: Model> {
    model: M,
    now: Nanos,
}

impl<M: Model> Simulated<M> {
    /// The model at time zero.
    #[must_use]
    pub const fn new(model: M) -> Simulated<M> {
        Simulated { model, now: Nanos::ZERO }
    }

    /// The model itself.
    #[must_use]
    pub const fn model(&self) -> &M {
        &self.model
    }
}

impl<M: Model> Device for Simulated<M> {
    fn facts(&self) -> DeviceFacts {
        self.model.facts()
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, command: Command) -> Result<(), Refused> {
        self.model.submit(self.now, &command)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let until = until.map(|until| until.max(self.now));
        loop {
            let event = self.model.next_event();
            match (event, until) {
                (Some(event), Some(until)) if event > until => {
                    self.now = until;
                    return None;
                }
                (None, Some(until)) => {
                    self.now = until;
                    return None;
                }
                (None, None) => return None,
                (Some(event), _) => self.now = self.now.max(event),
            }
            if let Some(completion) = self.model.advance(self.now) {
                return Some(completion);
            }
        }
    }
}

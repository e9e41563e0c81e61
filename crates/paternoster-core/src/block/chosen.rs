// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chosen: the queue's elevator, its traits, and its epoch.
//!
//! The traits are read when the elevator arrives and when an attribute was set, not for each bio:
//! `Deref` leads to the elevator, [`Chosen::traits`] to the stored traits.
//!
//! # Invariants
//! I1  The stored traits are what the elevator would return now.
//! I2  The epoch differs from that of every elevator before it (within 2^32 changes), so that a
//!     request names the one that it was bound to.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;
use core::mem;
use core::ops::{Deref, DerefMut};

use crate::attribute::{Attribute, AttributeError};
use crate::elevator::{Elevator, Fault, Knobs, Members, Traits};
use crate::queue_view::QueueView;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct Chosen {
    elevator: Box<dyn Elevator>,
    traits: Traits,
    epoch: u32,
}

impl Deref for Chosen {
    type Target = dyn Elevator;

    #[inline(always)]
    fn deref(&self) -> &(dyn Elevator + 'static) {
        &*self.elevator
    }
}

impl DerefMut for Chosen {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut (dyn Elevator + 'static) {
        &mut *self.elevator
    }
}

impl Chosen {
    /// A queue's first elevator.
    pub(crate) fn new(elevator: Box<dyn Elevator>) -> Chosen {
        Chosen { traits: elevator.traits(), elevator, epoch: 0 }
    }

    /// Replaces the elevator; returns the old one.
    pub(crate) fn replace(&mut self, elevator: Box<dyn Elevator>) -> Box<dyn Elevator> {
        self.traits = elevator.traits();
        self.epoch = self.epoch.wrapping_add(1);
        mem::replace(&mut self.elevator, elevator)
    }

    /// Its stored traits.
    #[inline(always)]
    pub(crate) const fn traits(&self) -> &Traits {
        &self.traits
    }

    /// The number of elevators before it.
    #[inline(always)]
    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether a request was bound to it.
    #[inline(always)]
    pub(crate) const fn has_bound(&self, request: &Request) -> bool {
        request.epoch == self.epoch
    }

    /// Informs it of a client or a group, if it listens.
    pub(crate) fn tell(&mut self, what: impl FnOnce(&mut dyn Members)) {
        if let Some(members) = self.elevator.members() {
            what(members);
        }
    }

    /// Its attributes.
    pub(crate) fn attributes(&self) -> &'static [Attribute] {
        self.elevator.knobs().map_or(&[], |knobs| knobs.attributes())
    }

    /// The value of one of them.
    pub(crate) fn get(&self, view: &QueueView, place: usize) -> Option<u64> {
        self.elevator.knobs()?.get(view, place)
    }

    /// Sets one of them.
    pub(crate) fn set(
        &mut self,
        view: &mut QueueView,
        place: usize,
        value: u64,
    ) -> Result<(), AttributeError> {
        self.change(place, |knobs| knobs.set(view, place, value))
    }

    /// Sets one of them that is a text.
    pub(crate) fn set_text(
        &mut self,
        view: &mut QueueView,
        place: usize,
        text: &str,
    ) -> Result<(), AttributeError> {
        self.change(place, |knobs| knobs.set_text(view, place, text))
    }

    fn change(
        &mut self,
        place: usize,
        set: impl FnOnce(&mut dyn Knobs) -> Result<(), AttributeError>,
    ) -> Result<(), AttributeError> {
        let result = match self.elevator.knobs_mut() {
            Some(knobs) => set(knobs),
            None => self.refuse(place),
        };
        self.traits = self.elevator.traits();
        result
    }

    /// Whether one of them that is a text can be this.
    pub(crate) fn check_text(&self, place: usize, text: &str) -> Result<(), AttributeError> {
        self.elevator.knobs().map_or(Ok(()), |knobs| knobs.check_text(place, text))
    }

    /// For an elevator that shows attributes but lets none be set.
    fn refuse(&self, place: usize) -> Result<(), AttributeError> {
        match self.attributes().get(place) {
            Some(attribute) => Err(AttributeError::ReadOnly { name: attribute.name }),
            None => Ok(()),
        }
    }

    /// Writes one of them as sysfs shows it.
    pub(crate) fn show(
        &self,
        view: &QueueView,
        place: usize,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        self.elevator.knobs().map_or(Ok(()), |knobs| knobs.show(view, place, out))
    }

    /// Verifies I1, and the elevator's own invariants.
    pub(crate) fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let (kept, says) = (self.traits, self.elevator.traits());
        if kept != says {
            return Err(format!("chosen I1: it said {kept:?} and says {says:?}"));
        }
        self.elevator.audit(view)
    }
}

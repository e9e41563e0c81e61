// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extensions: what an elevator may hear and offer beside requests. Each is a trait of its own,
//! which it hands out by a method of [`Elevator`]; none of them is asked for with a request.
//!
//! ```text
//! attach, detach, set_priority, add_group … ──▶ Elevator::members ──▶ Members
//! set_attribute, value, listings ─────────────▶ Elevator::knobs ────▶ Knobs
//! ```
//!
//! # Invariants
//! I1  A client is attached once before anything is asked for it, and detached once, when it has no
//!     requests left; a group comes before its members and goes behind them.
//! I2  An attribute is only ever named by its place in `attributes`, which does not change.
//!
//! [`Elevator`]: super::Elevator

use core::fmt;

use crate::attribute::{Attribute, AttributeError};
use crate::client::{ClientId, GroupId};
use crate::knob::Knob;
use crate::queue_view::QueueView;

/// Hears of clients and groups.
pub trait Members {
    /// A client came.
    fn client_attached(&mut self, _view: &mut QueueView, _client: ClientId) {}

    /// A client's class, level, weight or group changed.
    fn client_changed(&mut self, _view: &mut QueueView, _client: ClientId) {}

    /// A client has gone; it has no requests left.
    fn client_detached(&mut self, _view: &mut QueueView, _client: ClientId) {}

    /// A group was added, or its weight has changed.
    fn group_changed(&mut self, _view: &mut QueueView, _group: GroupId) {}

    /// A group was removed; it has no members left.
    fn group_removed(&mut self, _view: &mut QueueView, _group: GroupId) {}
}

/// Has attributes. With a [`Knob`] for each, [`KnobTable`] answers all of it.
pub trait Knobs {
    /// What can be set, in the order of the listing.
    fn attributes(&self) -> &'static [Attribute];

    /// The value of the attribute at `place` of `attributes`; `None` if it is not one number, or
    /// there is none.
    fn get(&self, view: &QueueView, place: usize) -> Option<u64>;

    /// Sets the attribute at `place`; the value is in its range.
    ///
    /// # Errors
    /// What a [`Knob`](crate::Knob) refuses; nothing has changed then.
    fn set(&mut self, view: &mut QueueView, place: usize, value: u64)
    -> Result<(), AttributeError>;

    /// Sets the attribute at `place` of `attributes`, which is a text.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    fn set_text(
        &mut self,
        _view: &mut QueueView,
        place: usize,
        _text: &str,
    ) -> Result<(), AttributeError> {
        Err(AttributeError::ReadOnly { name: self.attributes()[place].name })
    }

    /// Whether the attribute at `place` of `attributes`, which is a text, can be this.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_text(&self, place: usize, _text: &str) -> Result<(), AttributeError> {
        Err(AttributeError::ReadOnly { name: self.attributes()[place].name })
    }

    /// Writes the attribute at `place` as sysfs shows it; for those that are not one number.
    ///
    /// # Errors
    /// Only what `out` reports.
    fn show(&self, view: &QueueView, place: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        match (self.attributes().get(place), self.get(view, place)) {
            (Some(attribute), Some(value)) => attribute.show(value, out),
            _ => Ok(()),
        }
    }
}

/// Has its attributes in one table of [`Knob`]s: that makes it [`Knobs`].
pub trait KnobTable: Sized + 'static {
    /// The rows, and their listing (see [`attributes`](crate::knob::attributes)).
    fn table(&self) -> (&'static [Knob<Self>], &'static [Attribute]);

    /// An attribute was set.
    fn was_set(&mut self, _view: &mut QueueView) {}
}

impl<T: KnobTable> Knobs for T {
    fn attributes(&self) -> &'static [Attribute] {
        self.table().1
    }

    fn get(&self, view: &QueueView, place: usize) -> Option<u64> {
        self.table().0[place].get(self, view)
    }

    fn set(
        &mut self,
        view: &mut QueueView,
        place: usize,
        value: u64,
    ) -> Result<(), AttributeError> {
        self.table().0[place].set(self, view, value)?;
        self.was_set(view);
        Ok(())
    }

    fn set_text(
        &mut self,
        view: &mut QueueView,
        place: usize,
        text: &str,
    ) -> Result<(), AttributeError> {
        self.table().0[place].set_text(self, view, text)?;
        self.was_set(view);
        Ok(())
    }

    fn check_text(&self, place: usize, text: &str) -> Result<(), AttributeError> {
        self.table().0[place].check_text(text)
    }

    fn show(&self, view: &QueueView, place: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.table().0[place].show(self, view, out)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units: in which an attribute shows a time, as a whole number.
//!
//! ```text
//! slice_idle  ms   8      Nanos(8_000_000)
//! target      us   2000   Nanos(2_000_000)
//! ```
//!
//! Source: `iosched/` of Linux, whose attributes have the unit in their documentation or name.

use crate::time::Nanos;

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
}

impl Unit {
    /// All units.
    const ALL: [Unit; 3] = [Unit::Ns, Unit::Us, Unit::Ms];

    /// Its name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Us => "us",
            Unit::Ms => "ms",
        }
    }

    /// The unit called `name`.
    pub(crate) fn by_name(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    const fn nanos(self) -> u64 {
        match self {
            Unit::Ns => 1,
            Unit::Us => 1_000,
            Unit::Ms => 1_000_000,
        }
    }

    /// The time of `number` units.
    pub(crate) const fn time(self, number: u64) -> Nanos {
        Nanos(number.saturating_mul(self.nanos()))
    }

    /// The number of units in `time`, rounded down.
    pub(crate) const fn number(self, time: Nanos) -> u64 {
        time.0 / self.nanos()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clock: what time it is for a thread of the server.
//!
//! Negotiation and loop ask this one and no other, so that a judge in one thread can tell both the
//! time.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use paternoster_core::Nanos;

/// Time since its owner began.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// Real time since this instant.
    Since(Instant),
    /// The time that a judge sets.
    #[cfg(test)]
    Told(Nanos),
    /// Each look at it takes this many nanoseconds, as work between two looks would.
    #[cfg(test)]
    Passing(&'static AtomicU64, u64),
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Clock {
        Clock::Since(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        match self {
            Clock::Since(begin) => {
                Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
            #[cfg(test)]
            Clock::Told(now) => now,
            #[cfg(test)]
            Clock::Passing(now, each) => Nanos(now.fetch_add(each, Ordering::Relaxed)),
        }
    }
}

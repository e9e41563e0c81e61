// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time: what time it is for a loop, and when it next looks at what is done now and then.
//!
//! Invariant: `now` is the time of the last look at the clock; all that is done at once has one
//! time.

use paternoster_core::Nanos;

use crate::clock::Clock;

/// How often stalls and deadlines are checked.
pub(super) const TICK: Nanos = Nanos::from_millis(250);

/// See above.
#[derive(Debug)]
pub(super) struct Time {
    /// The clock that is read.
    pub clock: Clock,
    /// The time of the last look.
    pub now: Nanos,
    next_tick: Nanos,
}

impl Time {
    /// Time begins.
    pub(super) fn start() -> Time {
        Time { clock: Clock::start(), now: Nanos::ZERO, next_tick: Nanos::ZERO }
    }

    /// Looks at the clock.
    #[inline]
    pub(super) fn look(&mut self) -> Nanos {
        self.now = self.clock.now();
        self.now
    }

    /// When stalls and deadlines are next checked.
    pub(super) const fn next_tick(&self) -> Nanos {
        self.next_tick
    }

    /// Whether they are checked now.
    pub(super) fn ticks(&mut self) -> bool {
        let ticks = self.now >= self.next_tick;
        if ticks {
            self.next_tick = self.now + TICK;
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a tick one from then on, however late it is?
    #[test]
    fn ticks_do_not_pile_up() {
        let mut time = Time::start();
        let mut at = |ms: u64| {
            time.clock = Clock::Told(Nanos::from_millis(ms));
            time.look();
            (time.ticks(), time.ticks())
        };
        let ticks = [0, 249, 250, 1000, 1249].map(|ms| at(ms).0);
        assert_eq!(ticks, [true, false, true, true, false]);
        assert_eq!(time.next_tick(), Nanos::from_millis(1250));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Busy poll: staying awake for a moment where that has been worth it.
//!
//! A client of depth 1 sends its next request some microseconds after an answer. Sleeping in
//! between costs as much again: the processor goes idle, and an interrupt has to wake it. So the
//! loop polls for up to 20 us before it sleeps; but only while at least half of these polls find
//! something, and never on a single processor, where the client would wait for it.
//!
//! ```text
//! answer ─▶ look look look ─▶ request        worth it: +2
//! answer ─▶ look … 20 us ─▶ sleep            not: -2; at 0 only one sleep in 64 begins with it
//! ```
//!
//! If one client alone was answered, the loop does not ask which socket has something: it reads
//! from that client's, with a short pause between two tries, and asks for the others every eighth
//! time. Then a request has been read already: it takes three system calls, not four.
//!
//! Invariant: at most [`LONGEST`] of processor time is wasted before a sleep.

use paternoster_core::Nanos;

/// Twice the time of a request from one processor to another and back.
pub(super) const LONGEST: Nanos = Nanos::from_micros(20);
/// Pauses of the processor between two looks: some hundred nanoseconds.
pub(super) const PAUSES: u32 = 16;
/// It reads this often from the client that it has answered before it looks for others.
pub(super) const LISTENS: u32 = 8;
/// The highest score that past polls can reach.
const MOST: u8 = 8;
/// While it is not worth it, one sleep in this many tries again.
const PROBE: u8 = 64;

/// Whether to stay awake.
#[derive(Debug)]
pub(super) struct BusyPoll {
    credit: u8,
    slept: u8,
    possible: bool,
}

impl BusyPoll {
    /// On a machine with this many processors.
    pub(super) const fn new(processors: usize) -> BusyPoll {
        BusyPoll { credit: 0, slept: 0, possible: processors > 1 }
    }

    /// Whether to poll before the next sleep.
    pub(super) const fn is_worth_it(&mut self) -> bool {
        if self.credit == 0 {
            self.slept = (self.slept + 1) % PROBE;
        }
        self.possible && (self.credit != 0 || self.slept == 0)
    }

    /// Something was found, or not.
    pub(super) const fn ended(&mut self, found: bool) {
        if found {
            self.credit = if self.credit + 2 < MOST { self.credit + 2 } else { MOST };
        } else {
            self.credit = self.credit.saturating_sub(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a loop with slow clients poll before one sleep in 64, and one with fast clients before
    /// all?
    #[test]
    fn awake_where_it_is_worth_it() {
        let mut busy_poll = BusyPoll::new(2);
        let tried = (0..640).filter(|_| {
            busy_poll.is_worth_it() && {
                busy_poll.ended(false);
                true
            }
        });
        assert_eq!(tried.count(), 10);
        busy_poll.ended(true);
        assert!((0..640).all(|_| busy_poll.is_worth_it() && {
            busy_poll.ended(true);
            true
        }));
        (0..4).for_each(|_| busy_poll.ended(false));
        assert!(!busy_poll.is_worth_it(), "eight was the most that it kept in mind");
    }

    /// With a single processor, does the loop never poll, so that the client can run?
    #[test]
    fn one_processor_is_left_to_the_client() {
        let mut busy_poll = BusyPoll::new(1);
        busy_poll.ended(true);
        assert!((0..640).all(|_| !busy_poll.is_worth_it()));
    }
}

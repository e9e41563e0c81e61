// SPDX-License-Identifier: MIT OR Apache-2.0
//! Busy poll: staying awake for a moment where that has been worth it.
//!
//! A client of depth 1 sends its next request some microseconds after an answer. To sleep in
//! between costs as much again: the processor goes idle, and an interrupt has to wake it. So the
//! loop looks again for up to 20 us before it sleeps; but only while at least half of its looks
//! find something, and never where there is one processor, on which the client would wait for it.
//!
//! ```text
//! answer ─▶ look look look ─▶ request        worth it: +2
//! answer ─▶ look … 20 us ─▶ sleep            not: -2; at 0 only one sleep in 64 begins with it
//! ```
//!
//! If one client alone was answered, the loop does not ask which socket has something: it reads
//! from that client's, with a short pause between two tries, and asks for the others' each eighth
//! time. What is there has been read then: a request takes three system calls, not four.
//!
//! Invariant: at most [`LONGEST`] of processor time go by for nothing in a sleep.

use paternoster_core::Nanos;

/// Twice the way of a request from one processor to another and back.
pub(super) const LONGEST: Nanos = Nanos::from_micros(20);
/// Pauses of the processor between two looks: some hundred nanoseconds.
pub(super) const PAUSES: u32 = 16;
/// So often it reads from the client that it has answered before it looks for others.
pub(super) const LISTENS: u32 = 8;
/// What is kept in mind of the past.
const MOST: u8 = 8;
/// So often it is tried again whether it is worth it.
const PROBE: u8 = 64;

/// Whether to stay awake.
#[derive(Debug)]
pub(super) struct BusyPoll {
    credit: u8,
    slept: u8,
    possible: bool,
}

impl BusyPoll {
    /// On a machine of so many processors.
    pub(super) const fn new(processors: usize) -> BusyPoll {
        BusyPoll { credit: 0, slept: 0, possible: processors > 1 }
    }

    /// Whether to look again before the next sleep.
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

    /// Does a loop whose clients are slow stay awake for one sleep in 64, and one whose clients are
    /// fast for all?
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

    /// Is a client never kept from the only processor?
    #[test]
    fn one_processor_is_left_to_the_client() {
        let mut busy_poll = BusyPoll::new(1);
        busy_poll.ended(true);
        assert!((0..640).all(|_| !busy_poll.is_worth_it()));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seat time: a client with a seat pays for the time for which the device is kept for it (rule S6).
//!
//! A reader that thinks for 5 ms after each 64 KiB, which take 0.3 ms, uses little of the device
//! and keeps it from all others. If its turn were a quantum of *device* time it would last 17 times
//! as long, and since its account hardly moves it would get the next turn, too:
//!
//! ```text
//! quantum 160 ms      device time: 160 / 0.3 requests of 5.3 ms     a turn of 2.8 s
//!                     seat time:   160 / 5.3 requests               a turn of 160 ms
//! ```
//!
//! So when the device has nothing to do and another client waits, because a holder is about to ask,
//! that time is charged to the holder: to its turn, and to its account. Turns are then bounded in
//! elapsed time, and shares are shares of time. A holder's wait that overlaps others is not
//! charged.
//!
//! # Invariants
//! I1  What is charged is time in which the device was empty and another client waited, once.
//! I2  `time` is what all accounts were charged in this way: with what requests took, it is all
//!     that they were charged (G1).
//!
//! Source: measured, see `docs/elevator.md`; CFQ's and BFQ's budgets are of elapsed time, too.

use paternoster_core::time::Nanos;

/// The holder for which the device is kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    client: u32,
    since: Nanos,
}

/// The time for which the device was kept for holders.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeatTime {
    kept: Option<Kept>,
    /// I2, in ns.
    pub(super) time: i64,
}

impl SeatTime {
    /// From now on the device has nothing to do, and waits for a client with a seat.
    pub(super) const fn begins(&mut self, client: u32, now: Nanos) {
        self.kept = Some(Kept { client, since: now });
    }

    /// A client has gone: the time for which the device was kept for it is not charged.
    pub(super) fn forget(&mut self, client: u32) {
        self.kept = self.kept.filter(|kept| kept.client != client);
    }

    /// Whether the device is kept for a client with a seat.
    #[inline(always)]
    pub(super) const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// The elevator runs again: for which client the device was kept, and for how long, in ns. That
    /// is charged to it.
    pub(super) fn ends(&mut self, now: Nanos) -> Option<(u32, u64)> {
        let Kept { client, since } = self.kept.take()?;
        let waited = (now - since).0;
        self.time += i64::try_from(waited).unwrap_or(i64::MAX);
        Some((client, waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I1, I2: is a wait charged once, and not if the client has gone?
    #[test]
    fn i1_a_wait_is_charged_once() {
        let mut seat_time = SeatTime::default();
        seat_time.begins(3, Nanos(100));
        assert!(seat_time.is_kept());
        assert_eq!(seat_time.ends(Nanos(150)), Some((3, 50)));
        assert_eq!(seat_time.ends(Nanos(170)), None);
        seat_time.begins(3, Nanos(200));
        seat_time.forget(2);
        assert!(seat_time.is_kept());
        seat_time.forget(3);
        assert_eq!((seat_time.ends(Nanos(300)), seat_time.time), (None, 50));
    }
}

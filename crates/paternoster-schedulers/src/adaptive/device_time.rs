// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device time: how long the device has been busy, and what it did for clients, in ns.
//!
//! ```text
//!        |== busy ==|      |==== busy ====|        something is in the device
//! served  a   b  b           a  c  c a              the sum of what ended requests were charged
//! ```
//!
//! # Invariants
//! I1  The device is busy from a request's dispatch until no request is left in it.
//! I2  What all accounts were charged, those of clients that have left included, is what was served
//!     (and what seats cost, see `seat_time.rs`, and flushes, see `drains.rs`): G1.
//!
//! Source: G1, L2 of `docs/rules/adaptive.md`.

use paternoster_core::time::Nanos;

/// The time that the device has worked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeviceTime {
    /// Time with something in the device; since when there has been something.
    busy: u64,
    busy_since: Option<Nanos>,
    /// Device time of all requests that have ended.
    served: i64,
    /// How much of it was charged to clients that have left.
    departed: i64,
}

impl DeviceTime {
    /// Something is in the device from now on.
    #[inline(always)]
    pub(super) fn begins(&mut self, now: Nanos) {
        self.busy_since.get_or_insert(now);
    }

    /// A request has left the device, which was charged `took`; `is_last`: it was the only one.
    #[inline(always)]
    pub(super) fn ends(&mut self, took: i64, is_last: bool, now: Nanos) {
        self.served += took;
        if is_last {
            self.busy = self.busy_until(now);
            self.busy_since = None;
        }
    }

    /// For how long the device has been busy.
    pub(super) fn busy_until(&self, now: Nanos) -> u64 {
        self.busy + self.busy_since.map_or(0, |since| (now - since).0)
    }

    /// A client leaves that was charged this much.
    pub(super) const fn departs(&mut self, charged: i64) {
        self.departed += charged;
    }

    /// What was served.
    pub(super) const fn served(&self) -> i64 {
        self.served
    }

    /// What clients that have left were charged.
    pub(super) const fn departed(&self) -> i64 {
        self.departed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I1: is the device busy from 10 to 30 us, while two requests overlap, and from 50 us on?
    #[test]
    fn i1_requests_that_overlap_count_once() {
        let mut time = DeviceTime::default();
        time.begins(Nanos(10_000));
        time.begins(Nanos(15_000));
        time.ends(9_000, false, Nanos(20_000));
        assert_eq!(time.busy_until(Nanos(25_000)), 15_000);
        time.ends(8_000, true, Nanos(30_000));
        assert_eq!(time.busy_until(Nanos(40_000)), 20_000);
        time.begins(Nanos(50_000));
        assert_eq!((time.busy_until(Nanos(51_000)), time.served()), (21_000, 17_000));
    }
}

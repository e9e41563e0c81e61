// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting: how many bios were not yet issued when another came.
//!
//! Not how many are in the device: what counts are those waiting in front of it. A requeued request
//! counts as one that comes again; merges and issues take one out, so the number is one of requests
//! rather than bios.
//!
//! Source: BTT-22.

/// The bios that wait in front of one device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waiting {
    now: u64,
    sum: u64,
    arrivals: u64,
}

impl Waiting {
    /// Notes that one more waits.
    pub(super) const fn arrive(&mut self) {
        self.sum = self.sum.saturating_add(self.now);
        self.now += 1;
        self.arrivals += 1;
    }

    /// One is issued, or part of another.
    pub(super) const fn leave(&mut self) {
        self.now = self.now.saturating_sub(1);
    }

    /// Bios and requeues.
    pub(super) const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The sum over all arrivals of how many they found waiting.
    pub(super) const fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does every arrival see those that wait?
    #[test]
    fn arrivals_see_those_who_wait() {
        let mut waiting = Waiting::default();
        waiting.leave();
        waiting.arrive();
        waiting.arrive();
        waiting.leave();
        waiting.arrive();
        // 0, then 1, then 1 again.
        assert_eq!((waiting.arrivals(), waiting.sum()), (3, 2));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue limit: how many requests may wait, so that none waits longer than it should.
//!
//! A queue that serves one request every 2 ms, and should keep no request waiting for more than 50
//! ms, has room for 25. The rest stays in the clients' sockets. The room is divided among the
//! tenants by their shares of the device, so that a flood fills only its own part; each tenant may
//! always have one.
//!
//! ```text
//! bound 50 ms, an end every 2 ms     25 places
//! shares 60 %, 40 %                  15 and 10
//! ```
//!
//! How often a request ends is measured while the device is busy, as a mean over some hundred ends.
//!
//! Invariants: I1 without a bound there is always room; I2 never fewer places than the device
//! takes commands.

use paternoster_core::Nanos;

use super::tenants::{Node, Tenants};

/// Ends over which the mean goes.
const WINDOW: u64 = 128;

/// Room in the queue.
#[derive(Debug)]
pub(super) struct QueueLimit {
    bound: Option<Nanos>,
    depth: u64,
    /// Mean time between two ends while the device was busy, times [`WINDOW`]; 0: unknown.
    interval: u64,
    last: Option<Nanos>,
    /// Share of each tenant, in thousandths of the device.
    shares: Vec<u16>,
}

impl QueueLimit {
    /// Room for a device that takes `depth` commands.
    pub(super) fn new(bound: Option<Nanos>, depth: u32) -> QueueLimit {
        QueueLimit { bound, depth: depth.into(), interval: 0, last: None, shares: Vec::new() }
    }

    /// Sets another bound.
    pub(super) fn limit(&mut self, bound: Option<Nanos>) {
        if self.bound != bound {
            (self.bound, self.last) = (bound, None);
        }
    }

    /// A request has ended; the device is still busy or just became idle.
    pub(super) fn ended(&mut self, now: Nanos) {
        if self.bound.is_none() {
            return;
        }
        if let Some(last) = self.last.replace(now) {
            let passed = (now - last).0;
            self.interval = if self.interval == 0 {
                passed * WINDOW
            } else {
                self.interval - self.interval / WINDOW + passed
            };
        }
    }

    /// The device has nothing to do: the next end says nothing about its speed.
    pub(super) const fn idle(&mut self) {
        self.last = None;
    }

    /// Places in all.
    pub(super) fn places(&self) -> u64 {
        match self.bound {
            Some(bound) if self.interval != 0 => (bound.0 * WINDOW / self.interval).max(self.depth),
            _ => u64::MAX,
        }
    }

    /// Whether a tenant may have another request in the queue.
    pub(super) fn has_room(&self, tenant: &Node) -> bool {
        if self.bound.is_none() {
            return true;
        }
        let share = self.shares.get(tenant.group.index() as usize).copied().unwrap_or(1000);
        let places = self.places().saturating_mul(share.into()) / 1000;
        u64::from(tenant.under_way) < places.max(1)
    }

    /// The tenants, their weights or their connections have changed.
    pub(super) fn divide(&mut self, tenants: &Tenants) {
        if self.bound.is_none() {
            return;
        }
        self.shares.clear();
        for (place, node) in tenants.iter() {
            let group = node.group.index() as usize;
            if self.shares.len() <= group {
                self.shares.resize(group + 1, 1000);
            }
            self.shares[group] = tenants.share(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the example of the essay hold?
    #[test]
    fn room_for_so_many() {
        let mut bound = QueueLimit::new(Some(Nanos::from_millis(50)), 4);
        assert_eq!(bound.places(), u64::MAX, "nothing is known yet");
        for end in 0..1000 {
            bound.ended(Nanos::from_millis(2 * end));
        }
        assert_eq!(bound.places(), 25);
    }

    /// Does a slow device still get its depth?
    #[test]
    fn never_less_than_the_device_takes() {
        let mut bound = QueueLimit::new(Some(Nanos::from_millis(1)), 32);
        for end in 0..1000 {
            bound.ended(Nanos::from_millis(10 * end));
        }
        assert_eq!(bound.places(), 32);
    }
}

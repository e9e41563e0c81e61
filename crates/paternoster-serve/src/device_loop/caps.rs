// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caps: the most that a tenant or a group gets, even while no other wants the device.
//!
//! A cap applies before the queue: what is above it stays in the client's socket and takes no place
//! from others. Two clocks say until when past use is paid for, one in bytes, one in requests:
//!
//! ```text
//! cap 1 MB/s, burst 100 ms; a fragment of 200 kB at 0 ms
//! paid until   0 + 200 = 200 ms       the next may come when now + 100 >= 200: at 100 ms
//! ```
//!
//! All tenants of a group are charged together. So only what costs the others something is charged:
//! data of reads and writes fragment by fragment as they move, and each accepted request as one. A
//! length that a client only states (a refused request, a trim, zeroes, a question) is not.
//!
//! Invariants: I1 over any time t no more than `rate * (t + BURST)` and one fragment passes, plus,
//! for each client without structured replies, the rest of a read whose first data were sent, since
//! other replies wait until it is sent; I2 nothing but the burst is saved up while idle.

use paternoster_core::Nanos;

use crate::config;

/// How far ahead of its rate a tenant may be.
const BURST: Nanos = Nanos::from_millis(100);

/// What is charged to a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    /// A request that begins, of any kind.
    Request,
    /// Bytes of a read or a write, as they are about to move.
    Data(u64),
}

/// Until when past use is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cap {
    limits: config::Caps,
    bytes_until: Nanos,
    requests_until: Nanos,
}

impl Cap {
    /// A cap of which nothing is used yet.
    pub(super) const fn new(limits: config::Caps) -> Cap {
        Cap { limits, bytes_until: Nanos::ZERO, requests_until: Nanos::ZERO }
    }

    /// Sets other limits. What was used under the old caps is forgotten.
    pub(super) fn limit(&mut self, limits: config::Caps) {
        if self.limits != limits {
            *self = Cap::new(limits);
        }
    }

    /// How long it takes from now to pay for what has passed: bytes, and requests.
    pub(super) const fn ahead(&self, now: Nanos) -> [u64; 2] {
        [self.bytes_until.0.saturating_sub(now.0), self.requests_until.0.saturating_sub(now.0)]
    }

    /// What has passed at another process is paid for only after this time.
    pub(super) fn is_ahead(&mut self, now: Nanos, [bytes, requests]: [u64; 2]) {
        let until = |ahead: u64| Nanos(now.0.saturating_add(ahead));
        if self.limits.bytes != 0 {
            self.bytes_until = self.bytes_until.max(until(bytes));
        }
        if self.limits.requests != 0 {
            self.requests_until = self.requests_until.max(until(requests));
        }
    }

    /// The limits.
    #[cfg(test)]
    pub(super) const fn is_limited_to(&self) -> config::Caps {
        self.limits
    }

    /// Whether there is any limit.
    pub(super) const fn limits(&self) -> bool {
        self.limits.bytes != 0 || self.limits.requests != 0
    }

    /// When the next of its kind may pass.
    pub(super) fn open_at(&self, what: Passing) -> Nanos {
        let until = match what {
            Passing::Request => self.requests_until,
            Passing::Data(_) => self.bytes_until,
        };
        Nanos(until.0.saturating_sub(BURST.0))
    }

    /// Something passes at `now`.
    pub(super) fn charge(&mut self, now: Nanos, what: Passing) {
        match what {
            Passing::Request => pay(&mut self.requests_until, now, 1, self.limits.requests),
            Passing::Data(bytes) => pay(&mut self.bytes_until, now, bytes, self.limits.bytes),
        }
    }
}

fn pay(until: &mut Nanos, now: Nanos, amount: u64, rate: u64) {
    if rate != 0 {
        let cost = u128::from(amount) * 1_000_000_000 / u128::from(rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        *until = Nanos(until.0.max(now.0).saturating_add(cost));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the example of the essay hold?
    #[test]
    fn a_request_is_paid_for_before_the_next() {
        let mut cap = Cap::new(config::Caps { bytes: 1_000_000, requests: 0 });
        cap.charge(Nanos::ZERO, Passing::Data(200_000));
        assert_eq!(cap.open_at(Passing::Data(1)), Nanos::from_millis(100));
        // A request that moves no data does not wait for data.
        assert_eq!(cap.open_at(Passing::Request), Nanos::ZERO);
    }

    /// Do 1000 requests at 100 a second, each as early as allowed, take (1000 - 10 - 1) / 100 s?
    /// The burst is worth ten; the first does not wait.
    #[test]
    fn requests_a_second() {
        let mut cap = Cap::new(config::Caps { bytes: 0, requests: 100 });
        let mut now = Nanos::ZERO;
        for _ in 0..1000 {
            now = now.max(cap.open_at(Passing::Request));
            cap.charge(now, Passing::Request);
        }
        assert_eq!(now, Nanos::from_millis((1000 - 10 - 1) * 10));
    }

    /// Is what was not used while idle lost?
    #[test]
    fn nothing_is_saved_up() {
        let mut cap = Cap::new(config::Caps { bytes: 1_000_000, requests: 0 });
        let now = Nanos::from_secs(100);
        cap.charge(now, Passing::Data(1_000_000));
        assert_eq!(cap.open_at(Passing::Data(1)), now + Nanos::from_millis(900));
    }
}

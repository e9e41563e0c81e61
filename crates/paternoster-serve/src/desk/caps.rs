// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caps: the most that somebody gets, whoever else wants the device.
//!
//! A cap stands before the queue: what is above it stays in the client's socket and costs nobody
//! a place. Two clocks say until when the past is paid for, one in bytes, one in requests:
//!
//! ```text
//! cap 1 MB/s, burst 100 ms; a request of 200 kB at 0 ms
//! paid until   0 + 200 = 200 ms       the next may come when now + 100 >= 200: at 100 ms
//! ```
//!
//! Invariants: I1 over any time t no more than `rate * (t + BURST)` and one request goes by; I2
//! nothing is saved up while idle, but for the burst.

use paternoster::Nanos;

use crate::config;

/// How far ahead of its rate somebody may be.
const BURST: Nanos = Nanos::from_millis(100);

/// How far the past is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cap {
    limits: config::Caps,
    bytes_until: Nanos,
    requests_until: Nanos,
}

impl Cap {
    /// Nothing used so far.
    pub(super) const fn new(limits: config::Caps) -> Cap {
        Cap { limits, bytes_until: Nanos::ZERO, requests_until: Nanos::ZERO }
    }

    /// Whether there is any limit.
    pub(super) const fn limits(&self) -> bool {
        self.limits.bytes != 0 || self.limits.requests != 0
    }

    /// When the next request may come.
    pub(super) fn open_at(&self) -> Nanos {
        let until = self.bytes_until.max(self.requests_until);
        Nanos(until.0.saturating_sub(BURST.0))
    }

    /// A request of `bytes` goes by at `now`.
    pub(super) fn charge(&mut self, now: Nanos, bytes: u64) {
        pay(&mut self.bytes_until, now, bytes, self.limits.bytes);
        pay(&mut self.requests_until, now, 1, self.limits.requests);
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
        cap.charge(Nanos::ZERO, 200_000);
        assert_eq!(cap.open_at(), Nanos::from_millis(100));
    }

    /// Do 1000 requests at 100 a second, each as soon as it may, take (1000 - 10 - 1) / 100 s? The
    /// burst is worth ten; the first does not wait.
    #[test]
    fn requests_a_second() {
        let mut cap = Cap::new(config::Caps { bytes: 0, requests: 100 });
        let mut now = Nanos::ZERO;
        for _ in 0..1000 {
            now = now.max(cap.open_at());
            cap.charge(now, 4096);
        }
        assert_eq!(now, Nanos::from_millis((1000 - 10 - 1) * 10));
    }

    /// Is what was not used while idle lost?
    #[test]
    fn nothing_is_saved_up() {
        let mut cap = Cap::new(config::Caps { bytes: 1_000_000, requests: 0 });
        let now = Nanos::from_secs(100);
        cap.charge(now, 1_000_000);
        assert_eq!(cap.open_at(), now + Nanos::from_millis(900));
    }
}

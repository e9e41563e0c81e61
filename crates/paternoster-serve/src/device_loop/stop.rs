// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stop: a loop takes no more requests, lets its clients finish, and ends.
//!
//! ```text
//! stop ──drain-timeout──▶ clients are gone ──device-timeout──▶ stuck: logged, left behind
//! ```
//!
//! A kernel or a thread may still write to the memory of a command that has not ended. So nothing
//! of a stuck loop is freed: its memory, files and threads stay until the process ends.
//!
//! Invariant: it is decided once, and the orders for it are answered when the loop ends.

use paternoster_core::Nanos;

use crate::control::order::{Answer, Asked};

/// See above.
#[derive(Debug, Default)]
pub(super) struct Stop {
    /// When clients must be gone.
    by: Option<Nanos>,
    asked: Vec<Asked>,
}

impl Stop {
    /// Whether the loop stops.
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        self.by.is_some()
    }

    /// The loop stops; clients must be gone by then. Returns whether it was not stopping yet.
    pub(super) const fn begin(&mut self, by: Nanos) -> bool {
        let is_first = self.by.is_none();
        if is_first {
            self.by = Some(by);
        }
        is_first
    }

    /// An order waits for the end.
    pub(super) fn asks(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    /// Whether clients must be gone.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        self.by.is_some_and(|by| by <= now)
    }

    /// Whether the device, which has `patience` after that, should have ended its commands.
    pub(super) fn is_late(&self, now: Nanos, patience: Nanos) -> bool {
        self.by.is_some_and(|by| by.0.saturating_add(patience.0) <= now.0)
    }

    /// Answers the orders.
    pub(super) fn answer(&mut self, answer: impl Fn() -> Answer) {
        for asked in std::mem::take(&mut self.asked) {
            let _gone = asked.answer.send(answer());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::control::order::Order;

    /// Does the first order set the time, and is each answered once?
    #[test]
    fn it_is_decided_once() {
        let mut stop = Stop::default();
        let (answer, answers) = channel();
        (0..2).for_each(|_| stop.asks(Asked { order: Order::Stop, answer: answer.clone() }));
        let second = Nanos::from_secs(1);
        assert!(!stop.is_on() && !stop.is_over(second) && !stop.is_late(second, Nanos::ZERO));
        assert_eq!([1, 9].map(|by| stop.begin(Nanos::from_secs(by))), [true, false]);
        assert!(stop.is_on() && stop.is_over(second) && !stop.is_over(Nanos(second.0 - 1)));
        assert!(stop.is_late(second + second, second) && !stop.is_late(second, second));
        (0..2).for_each(|_| stop.answer(|| Ok(serde_json::json!(1))));
        assert_eq!(answers.try_iter().count(), 2);
    }
}

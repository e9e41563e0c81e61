// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue depth: whether the device queues commands, found out from outside.
//!
//! Idling for a process is cheap on a disk that takes one command at a time, and a waste on one
//! that orders thirty-two by itself. The originals did not trust what a driver said; they watched
//! how many requests were under way when there was enough to do:
//!
//! ```text
//! under load, most requests in the driver    1 1 2 2 3 … 51 completions …   fewer than 5: no
//!                                            4 9 31 …                      5 or more:    yes
//! ```
//!
//! "Enough to do" is more than five waiting or more than five under way, and not a moment in which
//! the scheduler itself keeps the device empty. Two readers of depth 1 never make it look.
//!
//! # Invariants
//! I1  The depth that was seen never falls; a *yes* is final, a *no* is not.
//!
//! Source: spec `cfq-flush-block.md` 6.1 (CFQ-35, 16.5).

/// Requests under way from which on a device is taken to queue, and load is taken to be one.
const QUEUEING: u32 = 5;
/// Completions under load before a decision.
const SAMPLES: u32 = 50;

/// What has been seen of a device's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    queues: Option<bool>,
    most: u32,
    samples: u32,
}

impl QueueDepth {
    /// A request has ended. `in_driver` counts it still; `starved` says that the scheduler itself
    /// keeps the device from being busy.
    pub fn sample(&mut self, in_driver: u32, waiting: u32, starved: bool) {
        self.most = self.most.max(in_driver);
        let idle = waiting <= QUEUEING && in_driver <= QUEUEING;
        if self.queues == Some(true) || idle || (starved && in_driver < QUEUEING) {
            return;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            return;
        }
        self.queues = Some(self.most >= QUEUEING);
    }

    /// Whether the device queues; `None` while that is not known.
    #[must_use]
    pub const fn queues(&self) -> Option<bool> {
        self.queues
    }

    /// The most requests that were under way at a time.
    #[must_use]
    pub const fn most(&self) -> u32 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the 51st completion under load decide? A device that takes one at a time does not
    /// queue; one that has had 32 does.
    #[test]
    fn cfq_35_the_51st_completion_decides() {
        let mut depth = QueueDepth::default();
        for _ in 0..50 {
            depth.sample(1, 9, false);
        }
        assert_eq!(depth.queues(), None);
        depth.sample(1, 9, false);
        assert_eq!((depth.queues(), depth.most()), (Some(false), 1));
        // A no can become a yes, a yes stays.
        depth.sample(32, 9, false);
        depth.sample(1, 9, false);
        assert_eq!((depth.queues(), depth.most()), (Some(true), 32));
    }

    /// Do two readers of depth 1, or a scheduler that idles, decide nothing?
    #[test]
    fn little_load_decides_nothing() {
        let mut depth = QueueDepth::default();
        for _ in 0..1000 {
            depth.sample(1, 1, false);
            depth.sample(1, 9, true);
        }
        assert_eq!(depth.queues(), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue depth: whether the device queues commands, found by observation.
//!
//! Idling for a process is cheap on a disk that takes one command at a time, and a waste on one
//! that orders thirty-two by itself. The original schedulers did not trust the driver's word; they
//! observed how many requests were outstanding when there was enough to do:
//!
//! ```text
//! under load, most requests in the driver    1 1 2 2 3 … 51 completions …   fewer than 5: no
//!                                            4 9 31 …                      5 or more:    yes
//! ```
//!
//! Each scheduler defines "enough to do" (CFQ: more than five waiting or outstanding); a moment in
//! which it keeps the device empty itself does not count. BFQ decides at the 33rd completion. Two
//! readers of depth 1 never count as enough.
//!
//! # Invariants
//! I1  A *yes* is final, a *no* is not.
//!
//! Source: CFQ-35; BFQ-82, BFQ-83.

/// The number of outstanding requests needed for a decision, and when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// This many outstanding mean that the device queues.
    pub queueing: u32,
    /// Completions under load before a decision; the next one decides.
    pub samples: u32,
    /// Each decision uses only its own completions.
    pub restarts: bool,
}

impl Probing {
    /// Five in the last 50 completions and all before.
    pub const CFQ: Probing = Probing { queueing: 5, samples: 50, restarts: false };
    /// Five in 32.
    pub const BFQ_4_19: Probing = Probing { queueing: 5, samples: 32, restarts: true };
    /// Four in 32.
    pub const BFQ: Probing = Probing { queueing: 4, samples: 32, restarts: true };
}

/// Observations of a device's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    queues: Option<bool>,
    most: u32,
    samples: u32,
}

impl QueueDepth {
    /// A request has ended. `in_driver` still includes it; `counts` says that there was enough to
    /// do. Whether this decided.
    #[inline]
    pub fn sample(&mut self, probing: &Probing, in_driver: u32, counts: bool) -> bool {
        self.most = self.most.max(in_driver);
        if self.queues == Some(true) || !counts {
            return false;
        }
        if self.samples < probing.samples {
            self.samples += 1;
            return false;
        }
        self.queues = Some(self.most >= probing.queueing);
        if probing.restarts {
            (self.most, self.samples) = (0, 0);
        }
        true
    }

    /// Whether the device queues; `None` while that is not known.
    #[inline]
    #[must_use]
    pub const fn queues(&self) -> Option<bool> {
        self.queues
    }

    /// The most requests that were outstanding at a time.
    #[inline]
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
            depth.sample(&Probing::CFQ, 1, true);
        }
        assert_eq!(depth.queues(), None);
        depth.sample(&Probing::CFQ, 1, true);
        assert_eq!((depth.queues(), depth.most()), (Some(false), 1));
        // A no can become a yes, a yes stays.
        depth.sample(&Probing::CFQ, 32, true);
        depth.sample(&Probing::CFQ, 1, true);
        assert_eq!((depth.queues(), depth.most()), (Some(true), 32));
    }

    /// Does BFQ decide at the 33rd, with more than 4 (4.19) or 3 outstanding, and start afresh each
    /// time?
    #[test]
    fn bfq_82_the_33rd_completion_decides() {
        for (probing, queues) in [(Probing::BFQ_4_19, false), (Probing::BFQ, true)] {
            let mut depth = QueueDepth::default();
            depth.sample(&probing, 4, true);
            let decided = (1..=32).map(|_| depth.sample(&probing, 1, true)).last();
            assert_eq!((decided, depth.queues()), (Some(true), Some(queues)), "{probing:?}");
            assert_eq!(depth.most(), 0);
        }
    }

    /// Do completions without load decide nothing?
    #[test]
    fn little_load_decides_nothing() {
        let mut depth = QueueDepth::default();
        for _ in 0..1000 {
            depth.sample(&Probing::CFQ, 1, false);
        }
        assert_eq!((depth.queues(), depth.most()), (None, 1));
    }
}

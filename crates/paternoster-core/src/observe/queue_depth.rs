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
//! "Enough to do" is what a scheduler takes for it (CFQ: more than five waiting or under way), and
//! not a moment in which it keeps the device empty itself. BFQ decides with the 33rd completion.
//! Two readers of depth 1 never make it look.
//!
//! # Invariants
//! I1  A *yes* is final, a *no* is not.
//!
//! Source: CFQ-35; BFQ-82, BFQ-83.

/// By how many requests under way one decides, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// So many under way mean that the device queues.
    pub queueing: u32,
    /// Completions under load before a decision; the next one decides.
    pub samples: u32,
    /// Each decision looks at its own completions only.
    pub restarts: bool,
}

impl Probing {
    /// Five of the last 50 and all before.
    pub const CFQ: Probing = Probing { queueing: 5, samples: 50, restarts: false };
    /// Five of 32.
    pub const BFQ_4_19: Probing = Probing { queueing: 5, samples: 32, restarts: true };
    /// Four of 32.
    pub const BFQ: Probing = Probing { queueing: 4, samples: 32, restarts: true };
}

/// What has been seen of a device's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    queues: Option<bool>,
    most: u32,
    samples: u32,
}

impl QueueDepth {
    /// A request has ended. `in_driver` counts it still; `counts` says that there was enough to
    /// do. Whether this decided.
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

    /// Does BFQ decide with the 33rd, more than 4 (4.19) or 3 under way, and look afresh each time?
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

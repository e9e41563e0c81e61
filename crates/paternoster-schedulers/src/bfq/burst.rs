// SPDX-License-Identifier: MIT OR Apache-2.0
//! Burst: many queues that are created shortly after one another.
//!
//! A service that starts, or a parallel build, creates a crowd of short-lived processes. None of
//! them is the user's application: what counts is that all of them finish soon, and raising each
//! would only get in the way. So eight queues of one group, each created at most 180 ms after the
//! one before, are a *large burst*, and none of them is raised:
//!
//! ```text
//! q1 -40 ms- q2 -5 ms- q3 … q7 -100 ms- q8      eight: all are marked, and all that follow
//!                                   -200 ms- q9  too late: a new series begins with q9
//! ```
//!
//! # Invariants
//! I1  Until a burst is large its list holds its queues; while it is, the list is empty.
//!
//! Source: BFQ-110 to BFQ-115.

use crate::bfq::Bfq;
use paternoster_core::QueueView;
use paternoster_core::list::List;
use paternoster_core::time::Nanos;

/// This many queues make a burst large.
const LARGE: u32 = 8;
/// Longest time between two queues of a burst.
const INTERVAL: Nanos = Nanos::from_millis(180);
/// A queue that was split this recently is not new.
const SPLIT_GRACE: Nanos = Nanos::from_millis(10);
/// After this much rest a queue no longer belongs to a burst.
const MEMORY: Nanos = Nanos::from_secs(10);

/// The burst that may be in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Burst {
    pub(super) list: List,
    pub(super) size: u32,
    pub(super) is_large: bool,
    last: Nanos,
    group: u32,
}

impl Bfq {
    /// The first request of a new queue comes (BFQ-110).
    pub(super) fn judge_burst(&mut self, view: &QueueView, queue: u32) {
        let idle = self.busy() == 0;
        if self.version.bursts_begin_at_rest && self.burst.size == 0 && !idle {
            return;
        }
        let (now, hz) = (view.now(), view.hz());
        let home = self.queues.at(queue);
        let split = home.split_at.is_some_and(|at| now <= at + hz.ceil(SPLIT_GRACE));
        if self.burst_links.contains(queue) || home.in_large_burst || split {
            return;
        }
        let group = self.schedule.entities[queue as usize].group;
        let late = now > self.burst.last + hz.ceil(INTERVAL);
        if self.burst.size == 0 || late || group != self.burst.group {
            self.begin_burst(queue, group, idle);
        } else {
            self.add_to_burst(queue);
        }
        self.burst.last = now;
    }

    /// A new series begins: with `queue`, or empty if the device has work (BFQ-111).
    fn begin_burst(&mut self, queue: u32, group: u32, idle: bool) {
        while self.burst.list.pop_front(&mut self.burst_links).is_some() {}
        (self.burst.is_large, self.burst.size, self.burst.group) = (false, 0, group);
        if idle || !self.version.bursts_begin_at_rest {
            self.burst.list.push_back(&mut self.burst_links, queue);
            self.burst.size = 1;
        }
    }

    /// BFQ-112.
    fn add_to_burst(&mut self, queue: u32) {
        if self.burst.is_large {
            self.queues.at_mut(queue).in_large_burst = true;
            return;
        }
        self.burst.size += 1;
        if self.burst.size < LARGE {
            self.burst.list.push_back(&mut self.burst_links, queue);
            return;
        }
        self.burst.is_large = true;
        self.queues.at_mut(queue).in_large_burst = true;
        while let Some(member) = self.burst.list.pop_front(&mut self.burst_links) {
            self.queues.at_mut(member).in_large_burst = true;
        }
    }

    /// A queue that rested for long no longer belongs to a burst (BFQ-114).
    pub(super) fn outlive_burst(&mut self, view: &QueueView, queue: u32) {
        let home = self.queues.at(queue);
        let long = home.stamp.is_none_or(|at| view.now() > at + MEMORY);
        if !home.is_new && long && self.is_idle_for_long(view, queue) {
            self.leave_burst(queue, false);
            self.queues.at_mut(queue).in_large_burst = false;
        }
    }

    /// A queue leaves the list; if it was given up, the burst shrinks by one.
    pub(super) fn leave_burst(&mut self, queue: u32, is_given_up: bool) {
        if self.burst_links.contains(queue) {
            self.burst.list.remove(&mut self.burst_links, queue);
            if is_given_up {
                self.burst.size = self.burst.size.saturating_sub(1);
            }
        }
    }
}

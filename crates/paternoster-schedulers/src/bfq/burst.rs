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

use alloc::format;

use crate::bfq::queue::Queue;
use crate::bfq::queues::Queues;
use paternoster_core::QueueView;
use paternoster_core::elevator::Fault;
use paternoster_core::list::{Links, List};
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
#[derive(Debug)]
pub(super) struct Bursts {
    /// One begins only on a device without work (BFQ-110, BFQ-111).
    begins_at_rest: bool,
    list: List,
    links: Links,
    size: u32,
    is_large: bool,
    last: Nanos,
    group: u32,
}

impl Bursts {
    pub(super) fn with_capacity(queues: u32, begins_at_rest: bool) -> Bursts {
        Bursts {
            begins_at_rest,
            list: List::new(),
            links: Links::with_capacity(queues),
            size: 0,
            is_large: false,
            last: Nanos::ZERO,
            group: 0,
        }
    }

    /// How many queues belong to the burst, as far as it is counted: until it is large.
    #[cfg(test)]
    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    #[cfg(test)]
    pub(super) const fn set_size(&mut self, size: u32) {
        self.size = size;
    }

    #[cfg(test)]
    pub(super) const fn is_large(&self) -> bool {
        self.is_large
    }

    /// As if it had become large.
    #[cfg(test)]
    pub(super) fn set_large(&mut self) {
        while self.list.pop_front(&mut self.links).is_some() {}
        self.is_large = true;
    }

    /// How many queues are listed.
    #[cfg(test)]
    pub(super) const fn listed(&self) -> u32 {
        self.list.len()
    }

    /// Forgets the burst.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        while self.list.pop_front(&mut self.links).is_some() {}
        (self.size, self.is_large, self.last) = (0, false, Nanos::ZERO);
    }

    /// Whether a queue is listed, in case the burst becomes large.
    pub(super) fn lists(&self, queue: u32) -> bool {
        self.links.contains(queue)
    }

    /// The first request of a new queue of `group` comes; `idle` says that no queue is busy
    /// (BFQ-110).
    pub(super) fn judge(
        &mut self,
        view: &QueueView,
        queues: &mut Queues,
        queue: u32,
        group: u32,
        idle: bool,
    ) {
        if self.begins_at_rest && self.size == 0 && !idle {
            return;
        }
        let (now, hz) = (view.now(), view.hz());
        let home = queues.at(queue);
        let split = home.split_at.is_some_and(|at| now <= at + hz.ceil(SPLIT_GRACE));
        if self.links.contains(queue) || home.in_large_burst || split {
            return;
        }
        let late = now > self.last + hz.ceil(INTERVAL);
        if self.size == 0 || late || group != self.group {
            self.begin(queue, group, idle);
        } else {
            self.add(queues, queue);
        }
        self.last = now;
    }

    /// A new series begins: with `queue`, or empty if the device has work (BFQ-111).
    fn begin(&mut self, queue: u32, group: u32, idle: bool) {
        while self.list.pop_front(&mut self.links).is_some() {}
        (self.is_large, self.size, self.group) = (false, 0, group);
        if idle || !self.begins_at_rest {
            self.list.push_back(&mut self.links, queue);
            self.size = 1;
        }
    }

    /// BFQ-112.
    fn add(&mut self, queues: &mut Queues, queue: u32) {
        if self.is_large {
            queues.at_mut(queue).in_large_burst = true;
            return;
        }
        self.size += 1;
        self.list.push_back(&mut self.links, queue);
        if self.size < LARGE {
            return;
        }
        self.is_large = true;
        while let Some(member) = self.list.pop_front(&mut self.links) {
            queues.at_mut(member).in_large_burst = true;
        }
    }

    /// A queue gets work. One that rested for long no longer belongs to a burst (BFQ-114).
    #[inline]
    pub(super) fn outlive(&mut self, now: Nanos, queue: u32, home: &mut Queue) {
        let long = home.stamp.is_none_or(|at| now > at + MEMORY);
        if !home.is_new && long && home.is_idle_for_long(now) {
            home.in_large_burst = false;
            self.leave(queue, false);
        }
    }

    /// A queue leaves the list; if it was given up, the burst shrinks by one.
    pub(super) fn leave(&mut self, queue: u32, is_given_up: bool) {
        if self.links.contains(queue) {
            self.list.remove(&mut self.links, queue);
            if is_given_up {
                self.size = self.size.saturating_sub(1);
            }
        }
    }

    /// A queue made for a process that left a shared one belongs to the burst that the process's
    /// first was listed in, or marked by (BFQ-143). Returns whether it is marked.
    pub(super) fn resume(&mut self, queue: u32, was_listed: bool, was_marked: bool) -> bool {
        let marked = was_marked || (was_listed && self.is_large);
        if was_listed && !marked {
            self.list.push_front(&mut self.links, queue);
        }
        marked
    }

    /// Verifies that a burst lists live queues, and none once it is large (BFQ-112).
    pub(super) fn audit(&self, queues: &Queues) -> Result<(), Fault> {
        let gone = self.list.iter(&self.links).find(|&queue| !queues.is_live(queue));
        if (self.is_large && !self.list.is_empty()) || gone.is_some() {
            return Err(format!("burst I1: {self:?} lists {gone:?}, which is gone"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::schedule::Schedule;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    /// So many queues of group 0, created this many milliseconds apart.
    fn series(count: u32, apart: u64) -> (Bursts, Queues) {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let mut schedule = Schedule::new(count, 1, &LINUX_6_18);
        let mut queues = Queues::with_capacity(count, 0);
        let mut bursts = Bursts::with_capacity(count, true);
        for place in 0..count {
            view.turn_clock(Nanos::from_millis(1000 + u64::from(place) * apart));
            let queue = queues.add(&mut schedule, Queue::default()).expect("room for it");
            bursts.judge(&view, &mut queues, queue, 0, place == 0);
            bursts.audit(&queues).unwrap();
        }
        (bursts, queues)
    }

    /// Does the eighth queue mark all if it comes 180 ms after the seventh, and do 181 ms end the
    /// series?
    #[test]
    fn eight_are_a_large_burst() {
        for (count, apart, large) in
            [(7, 180, false), (8, 180, true), (9, 5, true), (8, 181, false)]
        {
            let (bursts, queues) = series(count, apart);
            let marked = queues.iter().filter(|(_, queue)| queue.in_large_burst).count();
            assert_eq!(bursts.is_large(), large, "{count} {apart}");
            assert_eq!(marked, if large { count as usize } else { 0 }, "{count} {apart}");
        }
    }

    /// Does a queue given up count no more, and one that rested for long still count, though it is
    /// listed no more?
    #[test]
    fn who_leaves() {
        let (mut bursts, queues) = series(3, 10);
        bursts.leave(0, true);
        assert_eq!((bursts.size(), bursts.listed()), (2, 2));
        let late = Nanos::from_secs(20);
        bursts.outlive(late, 1, &mut queues.at(1).clone());
        assert_eq!((bursts.size(), bursts.listed(), bursts.lists(1)), (2, 1, false));
        assert!(!bursts.resume(1, true, false) && bursts.lists(1));
        assert!(bursts.resume(0, false, true) && !bursts.lists(0));
    }
}

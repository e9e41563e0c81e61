// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waker: which queue another queue waits for.
//!
//! A process that writes and then waits for a journal thread has nothing to do until the thread's
//! requests are done. Keeping the device for the process meanwhile is the worst choice. So BFQ
//! finds out whose request completes just before a queue wakes up, three times in a row:
//!
//! ```text
//! journal's request ends ── 1 ms ── P, which thinks long, asks again      1st, 2nd, 3rd: a waker
//! ```
//!
//! From then on, while the device is kept for P, the waker's requests are served first, and after
//! them those of the queues that P wakes.
//!
//! # Invariants
//! I1  A queue is on the woken list of its waker, and on no other.
//!
//! Source: BFQ-160, BFQ-167, BFQ-168.

use alloc::format;
use alloc::vec::Vec;

use crate::bfq::probe_points::{ProbePoint, probe};
use paternoster_core::elevator::Fault;
use paternoster_core::list::{Links, List};
use paternoster_core::time::Nanos;

/// This many times in a row.
const DETECTIONS: u32 = 3;
/// Longest time from the completion to the arrival.
const DELAY: Nanos = Nanos::from_millis(4);
/// All wake-ups come within this many idle slices.
const WINDOW: u64 = 128;

/// What is known of one queue.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The queue that it waits for.
    waker: Option<u32>,
    /// With its tenancy: it may be gone, and another queue may have its slot.
    candidate: Option<(u32, u32)>,
    detections: u32,
    since: Nanos,
    /// How many queues had this slot before.
    tenancy: u32,
    /// The queues that wait for this one.
    woken: List,
}

/// Which queue waits for which.
#[derive(Debug)]
pub(super) struct Wakers {
    of: Vec<Known>,
    links: Links,
    /// The queue whose request ended last; none if several processes share it.
    last_completed: Option<u32>,
}

impl Wakers {
    pub(super) fn with_capacity(queues: u32) -> Wakers {
        let of = (0..queues).map(|_| Known::default()).collect();
        Wakers { of, links: Links::with_capacity(queues), last_completed: None }
    }

    /// A word of its cache line (`prefetch`).
    #[inline]
    pub(super) fn touch(&self, queue: u32) -> u64 {
        u64::from(self.of[queue as usize].tenancy)
    }

    /// The queue that `queue` waits for.
    pub(super) fn waker_of(&self, queue: u32) -> Option<u32> {
        self.of[queue as usize].waker
    }

    /// Of the queues that wait for `queue`, the one that became busy last.
    pub(super) fn woken_by(&self, queue: u32) -> Option<u32> {
        self.of[queue as usize].woken.first()
    }

    /// A request of this queue has ended; `None` if several processes share it.
    #[inline]
    pub(super) const fn completed(&mut self, queue: Option<u32>) {
        self.last_completed = queue;
    }

    /// A request comes to a queue that thinks long, and whose process has no other, this long after
    /// the last one ended: did another queue wake it (BFQ-167)?
    pub(super) fn detect(&mut self, queue: u32, now: Nanos, since_end: Nanos, slice_idle: Nanos) {
        let Some(candidate) = self.last_completed.filter(|&other| other != queue) else { return };
        let key = (candidate, self.of[candidate as usize].tenancy);
        let known = &mut self.of[queue as usize];
        if since_end >= DELAY || known.waker == Some(candidate) {
            return;
        }
        let window = Nanos(slice_idle.0.saturating_mul(WINDOW));
        if known.candidate != Some(key) || now > known.since + window {
            probe(Some(queue), ProbePoint::Woken { by: candidate });
            known.candidate = Some(key);
            known.detections = 1;
            known.since = now;
        } else {
            known.detections += 1;
        }
        if known.detections == DETECTIONS {
            self.set(queue, Some(candidate));
        }
    }

    /// `queue` waits for `waker` from now on.
    pub(super) fn set(&mut self, queue: u32, waker: Option<u32>) {
        let known = &mut self.of[queue as usize];
        let before = core::mem::replace(&mut known.waker, waker);
        known.candidate = None;
        if let Some(before) = before {
            self.of[before as usize].woken.remove(&mut self.links, queue);
        }
        if let Some(waker) = waker {
            self.of[waker as usize].woken.push_front(&mut self.links, queue);
        }
    }

    /// A woken queue that has become busy moves to the front of its waker's list.
    #[inline]
    pub(super) fn come_first(&mut self, queue: u32) {
        if let Some(waker) = self.of[queue as usize].waker {
            let woken = &mut self.of[waker as usize].woken;
            woken.remove(&mut self.links, queue);
            woken.push_front(&mut self.links, queue);
        }
    }

    /// A shared queue without a waker takes over its new member's.
    pub(super) fn inherit(&mut self, queue: u32, target: u32) {
        let waker = self.waker_of(queue).filter(|&waker| waker != target);
        if self.waker_of(target).is_none() && waker.is_some() {
            self.set(target, waker);
        }
    }

    /// A queue is given up: no queue waits for it, and it waits for none.
    pub(super) fn leave(&mut self, queue: u32) {
        self.set(queue, None);
        let known = &mut self.of[queue as usize];
        known.tenancy = known.tenancy.wrapping_add(1);
        let mut woken = core::mem::take(&mut known.woken);
        while let Some(other) = woken.pop_front(&mut self.links) {
            self.of[other as usize].waker = None;
        }
        if self.last_completed == Some(queue) {
            self.last_completed = None;
        }
    }

    /// Verifies that a queue is on the list of its waker, and on no other; `is_live` says which
    /// there are (BFQ-167).
    pub(super) fn audit(&self, is_live: impl Fn(u32) -> bool) -> Result<(), Fault> {
        let mut listed = 0;
        for (number, known) in (0..).zip(&self.of) {
            for woken in known.woken.iter(&self.links) {
                listed += 1;
                if !is_live(number) || !is_live(woken) || self.waker_of(woken) != Some(number) {
                    return Err(format!("bfq waker I1: {number} lists {woken}, which waits not"));
                }
            }
        }
        let waiting = self.of.iter().filter(|known| known.waker.is_some());
        if waiting.count() != listed {
            return Err(format!("waker I1: {listed} are listed, others wait"));
        }
        Ok(())
    }

    /// How many queues wait for `queue`.
    #[cfg(test)]
    pub(super) fn count_woken(&self, queue: u32) -> u32 {
        self.of[queue as usize].woken.len()
    }

    /// The queue whose request ended last.
    #[cfg(test)]
    pub(super) const fn last_completed(&self) -> Option<u32> {
        self.last_completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Nanos = Nanos::from_millis(8);

    /// Queue 0 asks again 1 ms after a request of `by` has ended, at `ms`.
    fn woken(wakers: &mut Wakers, by: u32, ms: u64) {
        wakers.completed(Some(by));
        wakers.detect(0, Nanos::from_millis(ms), Nanos::from_millis(1), SLICE);
    }

    /// Is it the third time in a row, all within 128 idle slices (1024 ms), that makes a waker?
    #[test]
    fn three_times_in_a_row() {
        for (by, at, found) in [
            ([1, 1, 1], [10, 20, 1034], Some(1)),
            ([1, 1, 1], [10, 20, 1035], None),
            ([1, 2, 1], [10, 20, 30], None),
            ([0, 0, 0], [10, 20, 30], None),
        ] {
            let mut wakers = Wakers::with_capacity(3);
            for (by, at) in by.into_iter().zip(at) {
                woken(&mut wakers, by, at);
            }
            assert_eq!(wakers.waker_of(0), found, "{by:?} {at:?}");
            wakers.audit(|_| true).unwrap();
        }
    }

    /// Does a slot's next tenant start from nothing: two detections of the one before do not count?
    #[test]
    fn a_candidate_that_is_gone_does_not_count() {
        let mut wakers = Wakers::with_capacity(2);
        woken(&mut wakers, 1, 10);
        woken(&mut wakers, 1, 20);
        wakers.leave(1);
        woken(&mut wakers, 1, 30);
        woken(&mut wakers, 1, 40);
        assert_eq!(wakers.waker_of(0), None);
        woken(&mut wakers, 1, 50);
        assert_eq!((wakers.waker_of(0), wakers.woken_by(1)), (Some(1), Some(0)));
    }

    /// Is a queue given up on no list, and no queue's waker, and does a woken queue that becomes
    /// busy come first?
    #[test]
    fn none_is_left_behind() {
        let mut wakers = Wakers::with_capacity(4);
        for queue in 1..4 {
            wakers.set(queue, Some(0));
        }
        assert_eq!(wakers.woken_by(0), Some(3));
        wakers.come_first(1);
        assert_eq!(wakers.woken_by(0), Some(1));
        wakers.leave(1);
        assert_eq!((wakers.woken_by(0), wakers.count_woken(0)), (Some(3), 2));
        wakers.leave(0);
        assert_eq!([1, 2, 3].map(|queue| wakers.waker_of(queue)), [None; 3]);
        wakers.audit(|_| true).unwrap();
    }
}

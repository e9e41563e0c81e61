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

use crate::bfq::Bfq;
use crate::bfq::probe_points::{ProbePoint, probe};
use paternoster_core::QueueView;
use paternoster_core::slab::Key;
use paternoster_core::time::Nanos;

/// This many times in a row.
const DETECTIONS: u32 = 3;
/// Longest time from the completion to the arrival.
const DELAY: Nanos = Nanos::from_millis(4);
/// All of them within this many idle slices.
const WINDOW: u64 = 128;

/// The queue that a queue waits for, as far as known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waiting {
    pub(super) waker: Option<u32>,
    /// With its generation: it may be gone, and another queue may have its slot.
    candidate: Option<Key>,
    detections: u32,
    since: Nanos,
}

impl Bfq {
    /// A request comes to a queue whose process has no other: did another queue wake it (BFQ-167)?
    pub(super) fn detect_waker(&mut self, view: &QueueView, queue: u32) {
        if !self.tunables.wakers {
            return;
        }
        let now = view.exact_now();
        let home = self.queues.at(queue);
        let Some(candidate) = self.last_completed.filter(|&other| other != queue) else { return };
        let soon = now - self.rate.last_completion() < DELAY;
        if home.thinks_short || !soon || home.waiting.waker == Some(candidate) {
            return;
        }
        let window = Nanos(self.tunables.slice_idle.0.saturating_mul(WINDOW));
        let mut waiting = home.waiting;
        let key = self.queues.key_at(candidate);
        if waiting.candidate != Some(key) || now > waiting.since + window {
            probe(Some(queue), ProbePoint::Woken { by: candidate });
            waiting.candidate = Some(key);
            waiting.detections = 1;
            waiting.since = now;
        } else {
            waiting.detections += 1;
        }
        self.queues.at_mut(queue).waiting = waiting;
        if waiting.detections == DETECTIONS {
            self.set_waker(queue, Some(candidate));
        }
    }

    fn set_waker(&mut self, queue: u32, waker: Option<u32>) {
        let waiting = &mut self.queues.at_mut(queue).waiting;
        let before = core::mem::replace(&mut waiting.waker, waker);
        waiting.candidate = None;
        if let Some(before) = before {
            self.queues.at_mut(before).woken.remove(&mut self.woken_links, queue);
        }
        if let Some(waker) = waker {
            self.queues.at_mut(waker).woken.push_front(&mut self.woken_links, queue);
        }
    }

    /// A woken queue that has become busy moves to the front of its waker's list.
    pub(super) fn come_first_to_waker(&mut self, queue: u32) {
        if let Some(waker) = self.queues.at(queue).waiting.waker {
            let woken = &mut self.queues.at_mut(waker).woken;
            woken.remove(&mut self.woken_links, queue);
            woken.push_front(&mut self.woken_links, queue);
        }
    }

    /// A shared queue without a waker takes over its new member's.
    pub(super) fn inherit_waker(&mut self, queue: u32, target: u32) {
        let waker = self.queues.at(queue).waiting.waker.filter(|&waker| waker != target);
        if self.queues.at(target).waiting.waker.is_none() && waker.is_some() {
            self.set_waker(target, waker);
        }
    }

    /// A queue is given up: no queue waits for it, and it waits for none.
    pub(super) fn leave_wakers(&mut self, queue: u32) {
        self.set_waker(queue, None);
        let mut woken = self.queues.at(queue).woken;
        while let Some(other) = woken.pop_front(&mut self.woken_links) {
            self.queues.at_mut(other).waiting.waker = None;
        }
        self.queues.at_mut(queue).woken = woken;
        if self.last_completed == Some(queue) {
            self.last_completed = None;
        }
    }
}

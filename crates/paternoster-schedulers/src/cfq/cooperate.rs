// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cooperation: processes that read one stream together share a queue.
//!
//! `dump` with two readers, a file server's threads, a parallel `cp`: each alone seeks, together
//! they read sequentially. When the active queue is empty and another one's next request lies close
//! to the head, the device goes on there, and the two queues become one with the next request of
//! each:
//!
//! ```text
//! A  0 ─ 64 ─ ─ ─ ─ 128 ─ 192 ─ ─ ─ ─ 256          A's queue ──merge_into──▶ B's queue
//! B  ─ ─ ─ 64 ─ 128 ─ ─ ─ ─ 192 ─ 256               its processes follow one by one
//! ```
//!
//! A shared queue that turns out to be seeky is split again in the same way: each process but the
//! last gets a queue of its own.
//!
//! # Invariants
//! I1  `merge_into` leads to an end: merges never form a cycle (CFQ-42).
//! I2  A queue that is to be merged into another holds references by every process on its way
//!     there.
//!
//! Differs: 2.6.34 did not check whether the other queue still had processes, and could follow it
//! to one that had been freed. Here no version does.
//!
//! Source: CFQ-41 to CFQ-44.

use crate::cfq::Cfq;
use crate::cfq::preempt::CLOSE_SECTORS;
use crate::cfq::tunables::OptimisticMerge;
use paternoster_core::QueueView;
use paternoster_core::event::Note;

impl Cfq {
    /// A queue whose next request is close to where the active one has just been.
    pub(super) fn close_cooperator(&mut self, view: &QueueView, active: u32) -> Option<u32> {
        let home = self.queues.at(active);
        let detection = self.tunables.seek_detection;
        let alone = self.groups[home.group].queues == 1;
        if !home.is_sync || home.seek.is_seeky(detection) || alone {
            return None;
        }
        let level = u32::from(home.priority.level);
        let window = home.seek.closeness(detection, CLOSE_SECTORS);
        let close = self.positions.close_to(level, self.last_position, window);
        let found = close.or_else(|| self.optimistic_cooperator(view, active))?;
        let (home, other) = (self.queues.at(active), self.queues.at(found));
        let fits = found != active
            && other.group == home.group
            && other.is_sync
            && !other.seek.is_seeky(detection)
            && other.is_realtime() == home.is_realtime();
        fits.then_some(found)
    }

    /// The queue with fewer references will move to the other. Not if all processes have left one
    /// of them: none would move, and the queue that it was to be merged into may be gone.
    pub(super) fn schedule_merge(&mut self, view: &mut QueueView, queue: u32, other: u32) {
        let processes = |queue| self.queues.at(queue).processes();
        if processes(queue) == 0 || processes(other) == 0 {
            return;
        }
        let Some(target) = self.end_of_chain(queue, other) else { return };
        let (own, theirs) = (processes(queue), processes(target));
        let (from, into) = if theirs >= own { (queue, target) } else { (target, queue) };
        let moving = self.queues.at(from).processes();
        self.queues.at_mut(from).merge_into = Some(into);
        self.queues.at_mut(into).refs += moving;
        if let (Some(client), Some(into)) =
            (self.queues.at(from).client, self.queues.at(into).client)
        {
            view.note(Note::QueuesMerged { client, into });
        }
    }

    /// Where merges already lead from `other`, unless that is `queue` itself.
    fn end_of_chain(&self, queue: u32, other: u32) -> Option<u32> {
        let mut end = other;
        while let Some(next) = self.queues.at(end).merge_into {
            if next == queue {
                return None;
            }
            end = next;
        }
        (end != queue).then_some(end)
    }

    /// At the end of a slice: whether the processes that share the queue should part.
    pub(super) fn judge_sharing(&mut self, view: &QueueView, queue: u32) {
        let measured = self.measure_bandwidth(view, queue);
        let home = self.queues.at(queue);
        if !home.is_shared {
            return;
        }
        if self.tunables.optimistic_merge <= OptimisticMerge::Measure {
            if home.seek.is_seeky(self.tunables.seek_detection) {
                self.queues.at_mut(queue).is_to_split = true;
            }
        } else if measured {
            self.split_by_bandwidth(queue);
        }
        self.forget_shares(queue);
    }
}

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
//! last gets a queue of its own. Seed 001 also merges queues that are far apart (`bandwidth.rs`).
//!
//! # Invariants
//! I1  `merge_into` leads to an end: merges never form a cycle (CFQ-42).
//! I2  A queue that is to be merged into another holds references by every process on its way
//!     there.
//! I3  A queue that is not active stands where its next request is, if it stands among positions.
//!
//! Differs: 2.6.34 did not check whether the other queue still had processes, and could follow it
//! to one that had been freed. Here no version does.
//!
//! Source: CFQ-41 to CFQ-44.

use crate::cfq::bandwidth::{Bandwidth, Parting};
use crate::cfq::context::Contexts;
use crate::cfq::device::Device;
use crate::cfq::preempt::CLOSE_SECTORS;
use crate::cfq::queue::Queue;
use crate::cfq::queues::Queues;
use crate::cfq::tunables::{OptimisticMerge, Tunables};
use paternoster_core::QueueView;
use paternoster_core::pick::positions::Positions;

/// One tree of positions per level.
const LEVELS: u32 = 8;

/// Where queues may be found, and what their sharing the device has shown.
#[derive(Debug)]
pub(super) struct Cooperation {
    pub(super) positions: Positions,
    pub(super) bandwidth: Bandwidth,
}

impl Cooperation {
    pub(super) fn with_capacity(queues: u32) -> Cooperation {
        let positions = Positions::new(queues, if queues == 0 { 0 } else { LEVELS });
        Cooperation { positions, bandwidth: Bandwidth::default() }
    }

    /// Puts the queue among those that may be merged, by the sector of its next request.
    #[inline]
    pub(super) fn update(&mut self, view: &QueueView, queue: u32, home: &Queue) {
        match home.next {
            Some(next) if !home.is_idle_class() => {
                let sector = view.request(next).sector();
                self.positions.place(queue, home.priority.level.min(7).into(), sector);
            }
            _ => self.positions.remove(queue),
        }
    }

    /// The queue has no requests any more, or is gone.
    #[inline]
    pub(super) fn remove(&mut self, queue: u32) {
        self.positions.remove(queue);
    }

    /// A queue whose next request is close to where the active one has just been, or that would
    /// share the device well with it; not if the active one is alone in its group.
    pub(super) fn partner(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        device: &Device,
        queues: &Queues,
        active: u32,
        is_alone: bool,
    ) -> Option<u32> {
        let home = queues.at(active);
        let detection = tunables.seek_detection;
        if !home.is_sync || home.seek.is_seeky(detection) || is_alone {
            return None;
        }
        let (level, position) = (u32::from(home.priority.level), device.last_position());
        let window = home.seek.closeness(detection, CLOSE_SECTORS);
        let close = self.positions.close_to(level, position, window);
        let found = close.or_else(|| self.distant_partner(view, tunables, device, queues, home))?;
        let other = queues.at(found);
        let fits = found != active
            && other.group == home.group
            && other.is_sync
            && !other.seek.is_seeky(detection)
            && other.is_realtime() == home.is_realtime();
        fits.then_some(found)
    }

    /// A distant queue that would share the device well with the active one.
    pub(super) fn distant_partner(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        device: &Device,
        queues: &Queues,
        home: &Queue,
    ) -> Option<u32> {
        let mode = tunables.optimistic_merge;
        // This runs at each completion: costs nothing while the experiment is off.
        if mode <= OptimisticMerge::Measure || !self.bandwidth.allows(view, mode) {
            return None;
        }
        if !device.may_queue_commands(view) {
            return None;
        }
        let half = device.estimated_depth(view) / 2;
        let level = u32::from(home.priority.level);
        let near = self.positions.neighbours(level, device.last_position());
        self.bandwidth.partner(queues, home, near, half)
    }

    /// At the end of a slice: whether the processes that share the queue should part.
    pub(super) fn judge_sharing(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        contexts: &mut Contexts,
        queue: u32,
        home: &mut Queue,
    ) {
        let measured = self.bandwidth.measure(view, tunables, home);
        if !home.is_shared {
            return;
        }
        let mode = tunables.optimistic_merge;
        if mode <= OptimisticMerge::Measure {
            home.is_to_split |= home.seek.is_seeky(tunables.seek_detection);
        } else if measured {
            match self.bandwidth.parting(mode, home) {
                Parting::No => {}
                Parting::All => home.is_to_split = true,
                // If there are none, the merge itself does not pay, and all part.
                Parting::Slow => home.is_to_split = !contexts.part_with_the_slow(queue),
            }
        }
        if mode == OptimisticMerge::Corrected {
            contexts.forget_shares(queue);
        }
    }
}

/// The queue with fewer references will move to the other. Not if all processes have left one of
/// them: none would move, and the queue that it was to be merged into may be gone. Returns which
/// moves to which.
pub(super) fn schedule_merge(queues: &mut Queues, queue: u32, other: u32) -> Option<(u32, u32)> {
    let processes = |queue| queues.at(queue).processes();
    if processes(queue) == 0 || processes(other) == 0 {
        return None;
    }
    let target = end_of_chain(queues, queue, other)?;
    let (own, theirs) = (processes(queue), processes(target));
    let (from, into) = if theirs >= own { (queue, target) } else { (target, queue) };
    let moving = processes(from);
    queues.at_mut(from).merge_into = Some(into);
    queues.at_mut(into).refs += moving;
    Some((from, into))
}

/// Where merges already lead from `other`, unless that is `queue` itself.
fn end_of_chain(queues: &Queues, queue: u32, other: u32) -> Option<u32> {
    let mut end = other;
    while let Some(next) = queues.at(end).merge_into {
        if next == queue {
            return None;
        }
        end = next;
    }
    (end != queue).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::time::Nanos;
    use paternoster_core::{Bio, Class, ClientSpec, Flags, Limits, Op, Priority};

    /// Makes this many queues of one process each.
    fn of_one_process(count: u32) -> Queues {
        let mut queues = Queues::new(count, 0, Flags::META);
        for _ in 0..count {
            let queue = Queue { refs: 1, is_sync: true, ..Queue::default() };
            queues.put(queue).expect("room for it");
        }
        queues
    }

    /// If A is to be merged into B, is a merge of B into A refused, and does C move when B and C
    /// are to be one, as it has fewer processes; and is a queue that all have left no partner?
    #[test]
    fn cfq_42_merges_do_not_run_in_a_circle() {
        let mut queues = of_one_process(4);
        assert_eq!(schedule_merge(&mut queues, 0, 1), Some((0, 1)));
        assert_eq!(schedule_merge(&mut queues, 1, 0), None);
        assert_eq!(schedule_merge(&mut queues, 1, 2), Some((2, 1)));
        assert_eq!((queues.at(1).processes(), queues.at(1).merge_into), (3, None));
        assert_eq!(schedule_merge(&mut queues, 1, 2), None);
        queues.at_mut(3).refs = 0;
        assert_eq!(schedule_merge(&mut queues, 1, 3), None);
    }

    /// Is a queue whose next request is at most 8192 sectors from the head a partner, unless it is
    /// of another group, async, or the active queue has its group for itself?
    #[test]
    fn cfq_41_who_is_close_is_a_partner() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let client = view.add_client(ClientSpec::new());
        let (device, tunables) = (Device::new(Nanos::ZERO), Tunables::default());
        for (sector, group, is_sync, is_alone, found) in [
            (8192, 0, true, false, Some(1)),
            (8193, 0, true, false, None),
            (0, 1, true, false, None),
            (0, 0, false, false, None),
            (0, 0, true, true, None),
        ] {
            let mut queues = of_one_process(2);
            let next = view.add_request(&Bio::new(client, Op::Read, sector, 8), Nanos::ZERO);
            let priority = Priority { class: Class::BestEffort, level: 4 };
            for queue in 0..2 {
                queues.at_mut(queue).priority = priority;
            }
            let other = queues.at_mut(1);
            (other.group, other.is_sync, other.next) = (group, is_sync, Some(next));
            let mut cooperation = Cooperation::with_capacity(2);
            cooperation.update(&view, 1, queues.at(1));
            let partner = cooperation.partner(&view, &tunables, &device, &queues, 0, is_alone);
            assert_eq!(partner, found, "{sector} {group} {is_sync} {is_alone}");
        }
    }

    /// Are the processes of a seeky shared queue to part, and those of a sequential one not?
    #[test]
    fn cfq_43_a_seeky_shared_queue_is_to_be_split() {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        for (is_shared, seeks) in [(true, true), (true, false), (false, true)] {
            let mut home = Queue { is_sync: true, is_shared, ..Queue::default() };
            let tunables = Tunables::default();
            for place in 0..6u64 {
                let sector = if seeks { place << 20 } else { place * 8 };
                home.seek.sample(tunables.seek_detection, true, sector, 8);
            }
            let mut contexts = Contexts::with_capacity(0);
            let mut cooperation = Cooperation::with_capacity(1);
            cooperation.judge_sharing(&view, &tunables, &mut contexts, 0, &mut home);
            assert_eq!(home.is_to_split, is_shared && seeks);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cooperate: queues whose processes read one stream between them become one queue.
//!
//! Two threads that read alternate blocks each seek; together they read sequentially. If one's next
//! request lies close to where the other is, their queues are merged, until the shared queue turns
//! out to be seeky itself:
//!
//! ```text
//! P   0   2   4   6 …          shared    0 1 2 3 4 5 6 7 …
//! Q     1   3   5   7 …
//! ```
//!
//! Two unrelated processes may come close to each other once in a while, too. But cooperating ones
//! start together. So a queue may be merged only within 100 ms after the first service of its
//! present backlog (seed 004, `merge_window`). Later no queue looks for it any more, and its
//! position is not kept, which saves time:
//!
//! ```text
//! becomes busy ── waits ── first service ──── 100 ms ────┤ too late, until it has been empty
//! ```
//!
//! # Invariants
//! I1  Merges lead from queue to queue without a cycle, within one group.
//! I2  Only queues that are not too late are in the position tree; one that becomes too late leaves
//!     it at its next update.
//!
//! Source: BFQ-116 to BFQ-131, BFQ-141, BFQ-142; seed 004.

use crate::bfq::device::Device;
use crate::bfq::probe_points::{ProbePoint, probe, probe_of};
use crate::bfq::queue::Queue;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use crate::bfq::service::Service;
use crate::bfq::tunables::Tunables;
use paternoster_core::QueueView;
use paternoster_core::event::Note;
use paternoster_core::pick::positions::Positions;
use paternoster_core::time::Nanos;

/// How far apart two queues may be.
const CLOSE: u64 = 8 * 1024;
/// A queue raised for longer than this was not merged before there was a window.
const LATE: Nanos = Nanos::from_millis(100);

/// Whether a queue has been served for so long that it is no longer merged (BFQ-118).
#[inline]
pub(super) fn is_too_late(view: &QueueView, home: &Queue, window: Nanos) -> bool {
    window > Nanos::ZERO
        && home.backlog_service > 0
        && view.now() > home.first_service + view.hz().ceil(window)
}

/// Whether a queue has been raised for so long that it is no longer merged: the older test, which
/// excludes only raised queues (BFQ-127).
fn is_raised_for_long(view: &QueueView, home: &Queue, tunables: &Tunables) -> bool {
    tunables.late_raise_check
        && home.raising.is_raised()
        && view.now() > home.raising.since + view.hz().ceil(LATE)
}

/// Queues by the position of their next request.
#[derive(Debug)]
pub(super) struct Cooperation {
    pub(super) positions: Positions,
    /// Queues are not merged on flash that queues commands (BFQ-123).
    not_on_queueing_flash: bool,
}

impl Cooperation {
    pub(super) fn new(queues: u32, groups: u32, not_on_queueing_flash: bool) -> Cooperation {
        Cooperation { positions: Positions::new(queues, groups), not_on_queueing_flash }
    }

    /// Whether queues are merged by position on this device at all.
    #[inline]
    pub(super) fn is_looked_for(&self, view: &QueueView, on: bool, device: &Device) -> bool {
        on && !(self.not_on_queueing_flash && device.is_queueing_flash(view))
    }

    /// Puts a queue at the position of its next request, if others may find it (BFQ-116).
    pub(super) fn update(
        &mut self,
        view: &QueueView,
        queue: u32,
        home: &Queue,
        schedule: &Schedule,
        window: Nanos,
    ) {
        match home.next {
            Some(next) if !schedule.is_idle_class(queue) && !is_too_late(view, home, window) => {
                let group = schedule.entities[queue as usize].group;
                let sector = view.request(next).sector();
                self.probe_sought(group, sector, Some(queue));
                self.positions.place(queue, group, sector);
            }
            _ => self.positions.remove(queue),
        }
    }

    /// No queue finds it any more.
    #[inline]
    pub(super) fn remove(&mut self, queue: u32) {
        self.positions.remove(queue);
    }

    /// Reports which queue stands at a sector, except one that is about to take a new place.
    fn probe_sought(&self, group: u32, sector: u64, but: Option<u32>) {
        probe_of(|| {
            let found = self.positions.close_to(group, sector, 0).filter(|&it| Some(it) != but);
            (None, ProbePoint::Sought { sector, found })
        });
    }

    /// Another queue close to `sector`, at which `queue` is about to get a request (BFQ-124,
    /// BFQ-125).
    pub(super) fn close_to(&self, group: u32, sector: u64) -> Option<u32> {
        if self.positions.is_empty(group) {
            return None;
        }
        self.probe_sought(group, sector, None);
        self.positions.close_to(group, sector, CLOSE)
    }
}

/// Whether `queue`, about to get a request, looks for another to be merged with (BFQ-122).
pub(super) fn looks(
    view: &QueueView,
    home: &Queue,
    schedule: &Schedule,
    tunables: &Tunables,
) -> bool {
    home.is_sync
        && !is_too_late(view, home, tunables.merge_window)
        && schedule.symmetry.busy() != 1
        && !is_raised_for_long(view, home, tunables)
}

/// The queue in service, if it is another one of the same group, and close to `sector` (BFQ-124).
pub(super) fn served_close_to(
    schedule: &Schedule,
    service: &Service,
    queue: u32,
    sector: u64,
) -> Option<u32> {
    let served = service.other_than(queue)?;
    let group = |queue: u32| schedule.entities[queue as usize].group;
    (service.distance(sector) <= CLOSE && group(served) == group(queue)).then_some(served)
}

/// Whether `queue` and `other` may be merged (BFQ-126).
pub(super) fn may_cooperate(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    tunables: &Tunables,
    queue: u32,
    other: u32,
) -> bool {
    let (own, its) = (queues.at(queue), queues.at(other));
    let class = |queue: u32| schedule.entities[queue as usize].class;
    !is_too_late(view, its, tunables.merge_window)
        && !is_raised_for_long(view, its, tunables)
        && !schedule.is_idle_class(queue)
        && class(queue) == class(other)
        && !own.pattern.is_seeky()
        && !its.pattern.is_seeky()
        && own.is_sync
        && its.is_sync
}

/// All processes of `queue` will move to `other`, or to where its merges lead, with their next
/// requests. Returns where, if they may (BFQ-128).
pub(super) fn schedule_merge(
    view: &mut QueueView,
    queues: &mut Queues,
    schedule: &Schedule,
    queue: u32,
    other: u32,
) -> Option<u32> {
    if queues.at(other).processes() == 0 {
        return None;
    }
    let mut target = other;
    while let Some(next) = queues.at(target).merge_into {
        if next == queue {
            return None;
        }
        target = next;
    }
    let group = |queue: u32| schedule.entities[queue as usize].group;
    let moving = queues.at(queue).processes();
    let none = moving == 0 || queues.at(target).processes() == 0;
    if none || target == queue || group(queue) != group(target) {
        return None;
    }
    probe(Some(queue), ProbePoint::ToMerge { with: target });
    queues.at_mut(queue).merge_into = Some(target);
    queues.at_mut(target).refs += moving;
    let names = (queues.at(queue).made_for, queues.at(target).made_for);
    if let (Some(client), Some(into)) = names {
        view.note(Note::QueuesMerged { client, into });
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    /// Three queues of one group with a process each.
    fn three() -> (QueueView, Queues, Schedule) {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let mut queues = Queues::with_capacity(3, 0);
        let mut schedule = Schedule::new(3, 1, &LINUX_6_18);
        for _ in 0..3 {
            queues.add(&mut schedule, Queue { refs: 1, ..Queue::default() }).expect("room");
        }
        (view, queues, schedule)
    }

    /// Does a merge lead to where the other's merges lead, and never back?
    #[test]
    fn merges_lead_on_and_never_back() {
        let (mut view, mut queues, schedule) = three();
        let mut merge = |from, to| schedule_merge(&mut view, &mut queues, &schedule, from, to);
        assert_eq!(merge(0, 0), None);
        assert_eq!(merge(1, 2), Some(2));
        assert_eq!(merge(0, 1), Some(2), "where 1 goes");
        assert_eq!((merge(2, 0), merge(2, 1)), (None, None));
        assert_eq!(queues.at(2).processes(), 3, "its own and the two to come");
    }

    /// Are a queue without processes and one of another group left alone?
    #[test]
    fn no_merge_without_processes_or_across_groups() {
        let (mut view, mut queues, mut schedule) = three();
        queues.at_mut(0).refs = 0;
        schedule.entities[1].group = 1;
        let mut merge = |from, to| schedule_merge(&mut view, &mut queues, &schedule, from, to);
        assert_eq!((merge(2, 0), merge(0, 2), merge(1, 2), merge(2, 1)), (None, None, None, None));
    }

    /// Is a queue too late once its backlog has been served for longer than the window, and never
    /// without one?
    #[test]
    fn the_window_begins_with_the_first_service() {
        let (mut view, ..) = three();
        view.turn_clock(Nanos::from_millis(1101));
        let home = Queue {
            first_service: Nanos::from_millis(1000),
            backlog_service: 8,
            ..Queue::default()
        };
        let late = |home: &Queue, ms| is_too_late(&view, home, Nanos::from_millis(ms));
        assert_eq!([0, 100, 101].map(|ms| late(&home, ms)), [false, true, false]);
        assert!(!late(&Queue { backlog_service: 0, ..home }, 100));
    }
}

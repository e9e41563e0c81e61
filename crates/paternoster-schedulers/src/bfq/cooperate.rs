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

use crate::bfq::Bfq;
use crate::bfq::probe_points::{ProbePoint, probe, probe_of};
use crate::bfq::weight_raising::Kind;
use paternoster_core::event::Note;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView};

/// How far apart two queues may be.
const CLOSE: u64 = 8 * 1024;
/// A queue raised for longer than this was not merged before there was a window.
const LATE: Nanos = Nanos::from_millis(100);

impl Bfq {
    /// Whether `queue` has been served for so long that it is no longer merged (BFQ-118).
    pub(super) fn is_too_late(&self, view: &QueueView, queue: u32) -> bool {
        let window = self.tunables.merge_window;
        let home = self.queues.at(queue);
        window > Nanos::ZERO
            && home.backlog_service > 0
            && view.now() > home.first_service + view.hz().ceil(window)
    }

    /// Whether `queue` has been raised for so long that it is no longer merged: the older test,
    /// which excludes only raised queues (BFQ-127).
    fn is_raised_for_long(&self, view: &QueueView, queue: u32) -> bool {
        let raising = self.queues.at(queue).raising;
        self.tunables.late_raise_check
            && raising.is_raised()
            && view.now() > raising.since + view.hz().ceil(LATE)
    }

    /// Whether queues are merged by position on this device at all.
    fn looks_for_cooperators(&self, view: &QueueView) -> bool {
        self.tunables.queue_merging
            && !(self.version.merges_not_on_queueing_flash && self.is_queueing_flash(view))
    }

    /// Puts a queue at the position of its next request, if others may find it (BFQ-116).
    pub(super) fn update_position(&mut self, view: &QueueView, queue: u32) {
        if !self.looks_for_cooperators(view) {
            return self.positions.remove(queue);
        }
        let home = self.queues.at(queue);
        match home.next {
            Some(next) if !self.is_idle_class(queue) && !self.is_too_late(view, queue) => {
                let group = self.schedule.entities[queue as usize].group;
                let sector = view.request(next).sector();
                self.probe_sought(group, sector, Some(queue));
                self.positions.place(queue, group, sector);
            }
            _ => self.positions.remove(queue),
        }
    }

    /// Reports which queue stands at a sector, except one that is about to take a new place.
    fn probe_sought(&self, group: u32, sector: u64, but: Option<u32>) {
        probe_of(|| {
            let found = self.positions.close_to(group, sector, 0).filter(|&it| Some(it) != but);
            (None, ProbePoint::Sought { sector, found })
        });
    }

    /// Updates all positions after a change of rules.
    pub(super) fn update_positions(&mut self, view: &QueueView) {
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) {
                self.update_position(view, queue);
            }
        }
    }

    /// The queue that `queue`, about to get a request at `sector`, is to be merged into
    /// (BFQ-122 to BFQ-125).
    pub(super) fn cooperator(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
        sector: u64,
    ) -> Option<u32> {
        if let Some(target) = self.queues.at(queue).merge_into {
            return Some(target);
        }
        if let Some(decided) = self.decide_stable_merge(view, client, queue) {
            return decided;
        }
        let home = self.queues.at(queue);
        if !home.is_sync || !self.looks_for_cooperators(view) || self.is_too_late(view, queue) {
            return None;
        }
        if self.busy() == 1 || self.is_raised_for_long(view, queue) {
            return None;
        }
        if let Some(served) = self.in_service.filter(|&served| served != queue) {
            let same = self.schedule.entities[served as usize].group
                == self.schedule.entities[queue as usize].group;
            let close = sector.abs_diff(self.in_service_position) <= CLOSE;
            if close && same && self.may_cooperate(view, queue, served) {
                let target = self.schedule_merge(view, queue, served);
                if target.is_some() {
                    return target;
                }
            }
        }
        let group = self.schedule.entities[queue as usize].group;
        if self.positions.is_empty(group) {
            return None;
        }
        self.probe_sought(group, sector, None);
        let found = self.positions.close_to(group, sector, CLOSE)?;
        if found == queue || !self.may_cooperate(view, queue, found) {
            return None;
        }
        self.schedule_merge(view, queue, found)
    }

    /// BFQ-126.
    fn may_cooperate(&self, view: &QueueView, queue: u32, other: u32) -> bool {
        let class = |queue: u32| self.schedule.entities[queue as usize].class;
        !self.is_too_late(view, other)
            && !self.is_raised_for_long(view, other)
            && !self.is_idle_class(queue)
            && class(queue) == class(other)
            && !self.is_seeky(queue)
            && !self.is_seeky(other)
            && self.queues.at(queue).is_sync
            && self.queues.at(other).is_sync
    }

    /// All processes of `queue` will move to `other`, or to where its merges lead, with their next
    /// requests (BFQ-128).
    pub(super) fn schedule_merge(
        &mut self,
        view: &mut QueueView,
        queue: u32,
        other: u32,
    ) -> Option<u32> {
        if self.queues.at(other).processes() == 0 {
            return None;
        }
        let mut target = other;
        while let Some(next) = self.queues.at(target).merge_into {
            if next == queue {
                return None;
            }
            target = next;
        }
        let group = |queue: u32| self.schedule.entities[queue as usize].group;
        let moving = self.queues.at(queue).processes();
        let nobody = moving == 0 || self.queues.at(target).processes() == 0;
        if nobody || target == queue || group(queue) != group(target) {
            return None;
        }
        probe(Some(queue), ProbePoint::ToMerge { with: target });
        self.queues.at_mut(queue).merge_into = Some(target);
        self.queues.at_mut(target).refs += moving;
        let names = (self.queues.at(queue).made_for, self.queues.at(target).made_for);
        if let (Some(client), Some(into)) = names {
            view.note(Note::QueuesMerged { client, into });
        }
        Some(target)
    }

    /// A process moves from its queue to `target` (BFQ-130).
    pub(super) fn merge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
        target: u32,
    ) {
        probe(Some(queue), ProbePoint::Merges { with: target });
        self.save_state(view, queue);
        self.save_state(view, target);
        let bound = core::mem::replace(&mut self.queues.at_mut(queue).is_io_bound, false);
        self.queues.at_mut(target).is_io_bound |= bound;
        self.hand_raising_over(view, queue, target);
        self.inherit_waker(queue, target);
        probe(Some(target), ProbePoint::Merged { raised: self.raised });
        self.contexts[client.index() as usize].slots[1] = Some(target);
        self.queues.at_mut(queue).owner = None;
        let shared = self.queues.at_mut(target);
        (shared.is_shared, shared.owner) = (true, None);
        self.replace_last_created(queue, Some(target));
        self.release_process(view, queue);
    }

    fn hand_raising_over(&mut self, view: &mut QueueView, queue: u32, target: u32) {
        let raising = self.queues.at(queue).raising;
        if !raising.is_raised() {
            return;
        }
        if !self.queues.at(target).raising.is_raised() {
            let heir = &mut self.queues.at_mut(target).raising;
            (heir.lasts, heir.since) = (raising.lasts, raising.since);
            heir.interactive_since = raising.interactive_since;
            self.set_raised(view, target, raising.kind);
        }
        self.set_raised(view, queue, Kind::No);
    }

    /// A process shares a queue that is to be split: it keeps the queue if it is the last process,
    /// and gets one of its own otherwise (BFQ-142).
    pub(super) fn split(&mut self, view: &mut QueueView, client: ClientId, queue: u32) -> u32 {
        let burst = self.queues.at(queue).in_large_burst;
        if let (true, Some(saved)) = (burst, &mut self.contexts[client.index() as usize].saved) {
            saved.in_large_burst = true;
        }
        let home = self.queues.at_mut(queue);
        if home.processes() == 1 {
            (home.is_shared, home.is_to_split) = (false, false);
            home.owner = Some(client);
            self.resume_state(view, client, queue);
            self.adopt_priority(view, client, queue);
            return queue;
        }
        let Some(own) = self.new_sync_queue(view, client) else { return queue };
        if let Some(from) = self.queues.at(queue).made_for {
            view.note(Note::QueuesParted { client, from });
        }
        self.leave_queue(view, client, queue);
        self.queues.at_mut(own).refs += 1;
        self.contexts[client.index() as usize].slots[1] = Some(own);
        self.resume_burst(view, client, own);
        self.resume_state(view, client, own);
        own
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service: the order in which queues have their turn.
//!
//! Each group has seven service trees (`kind.rs`). A tree is served from its lowest key up:
//!
//! ```text
//! key = now + (busy queues - 1) * (longest slice - own slice) - residual
//!
//! three busy, level 4    now + 2 * (180 - 100) = now + 160 ms
//! level 0                now + 2 * (180 - 180) = now
//! ```
//!
//! It is a time in name only: a queue with a shorter slice is further back, and the more so the
//! more queues there are, so that in the long run levels differ in how often they are served as
//! well as in how long.
//!
//! # Invariants
//! I1  A busy queue is in one tree, under its key, in its group; no other queue is.
//! I2  Its tree is chosen when it is put in, not when its kind changes (CFQ-5).
//!
//! Source: CFQ-5, CFQ-7, CFQ-63.

use crate::cfq::Cfq;
use crate::cfq::kind::{IDLE_TREE, Stand};
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::queue::Queue;
use crate::cfq::slice::signed;
use paternoster_core::QueueView;
use paternoster_core::time::Nanos;

/// A queue that is put in front comes this far before the first.
const FRONT: Nanos = Nanos::from_millis(1000);
/// Queues of the idle class come this far after each other.
const IDLE_DELAY: Nanos = Nanos::from_millis(200);

impl Cfq {
    /// A queue joins the queues to be served.
    pub(super) fn make_busy(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.is_busy = true;
        let sync = home.is_sync;
        self.busy += 1;
        self.busy_sync += u32::from(sync);
        self.stand(view, queue, false);
    }

    /// A queue leaves the queues to be served.
    pub(super) fn make_idle(&mut self, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.is_busy = false;
        let (sync, group) = (home.is_sync, home.group);
        self.leave_tree(queue);
        self.positions.remove(queue);
        self.groups.leave(group);
        self.busy -= 1;
        self.busy_sync -= u32::from(sync);
    }

    /// A busy queue is put in a new place after its turn.
    pub(super) fn resort(&mut self, view: &mut QueueView, queue: u32) {
        self.stand(view, queue, false);
        self.update_position(view, queue);
    }

    /// Puts a busy queue into its tree; `front` before all others.
    pub(super) fn stand(&mut self, view: &mut QueueView, queue: u32, front: bool) {
        let old = self.queues.at(queue).stand.filter(|_| self.service.contains(queue));
        let moved = self.choose_group(view, queue, old);
        let home = self.queues.at(queue);
        let place = home.place();
        let key = self.key(view, queue, place, front);
        let key = replace(Decision::Key { queue, now: view.now(), tree: place.tree }, key);
        if old != Some(place) || self.service.key(queue) != Some(key) {
            self.leave_tree(queue);
            let root = &mut self.groups[place.group].trees[place.tree];
            root.insert(&mut self.service, queue, key);
            self.queues.at_mut(queue).stand = Some(place);
        }
        // Only now: a new queue is not counted in its own key (CFQ-7).
        if (old.is_none() && !front) || moved {
            self.join_group(view, place.group);
        }
    }

    fn key(&mut self, view: &QueueView, queue: u32, place: Stand, front: bool) -> i64 {
        let root = self.groups[place.group].trees[place.tree];
        let key_of = |queue: Option<u32>| queue.and_then(|queue| self.service.key(queue));
        let now = signed(view.now());
        if place.tree == IDLE_TREE {
            let last = root.last().filter(|&last| last != queue);
            return key_of(last).unwrap_or(now).saturating_add(signed(IDLE_DELAY));
        }
        if front {
            // Its own key counts too, if it is the lowest (CFQ-63).
            return key_of(root.first()).unwrap_or(now).saturating_sub(signed(FRONT));
        }
        let residual = core::mem::take(&mut self.queues.at_mut(queue).slice.residual);
        now.saturating_add(self.offset(view, self.queues.at(queue))).saturating_sub(residual)
    }

    /// How much further back a queue is placed than one with the longest slice.
    fn offset(&self, view: &QueueView, queue: &Queue) -> i64 {
        let longest = self.tunables.level_slice(view, true, 0);
        let own = self.tunables.level_slice(view, queue.is_sync, queue.priority.level);
        let others = i64::from(self.groups[queue.group].queues) - 1;
        others.saturating_mul(signed(longest) - signed(own))
    }

    pub(super) fn leave_tree(&mut self, queue: u32) {
        if let (Some(stand), true) = (self.queues.at(queue).stand, self.service.contains(queue)) {
            self.groups[stand.group].trees[stand.tree].remove(&mut self.service, queue);
        }
    }

    /// The number of queues in a queue's tree, itself included.
    pub(super) fn beside(&self, queue: u32) -> u32 {
        let stand = self.queues.at(queue).stand;
        stand.map_or(0, |stand| self.groups[stand.group].trees[stand.tree].len())
    }

    /// Puts the queue among those that may be merged, by the sector of its next request.
    pub(super) fn update_position(&mut self, view: &QueueView, queue: u32) {
        let home = self.queues.at(queue);
        match home.next {
            Some(next) if !home.is_idle_class() => {
                let sector = view.request(next).sector();
                self.positions.place(queue, home.priority.level.min(7).into(), sector);
            }
            _ => self.positions.remove(queue),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedule: the order in which queues have their turn, and what a turn costs their groups.
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
//! ```text
//! turn ends ─▶ used, slice or requests ─▶ the group is charged (`groups.rs`)
//! group goes ─▶ its queues move to the root, with what they have in flight
//! ```
//!
//! # Invariants
//! I1  A busy queue is in one tree, under its key, in its group; no other queue is.
//! I2  Its tree is chosen when it is put in, not when its kind changes (CFQ-5).
//! I3  A group's `dispatched` is the sum of its queues'.
//! I4  `busy` counts the queues in trees, `busy_sync` the sync ones among them.
//!
//! Source: CFQ-5, CFQ-7, CFQ-45 to CFQ-47, CFQ-63.

use crate::cfq::groups::Groups;
use crate::cfq::kind::{IDLE_TREE, Kind, tree_of};
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::queue::Queue;
use crate::cfq::slice::{jiffy, signed};
use crate::cfq::tunables::Tunables;
use crate::cfq::version::Version;
use paternoster_core::time::Nanos;
use paternoster_core::tree::Nodes;
use paternoster_core::{Class, QueueView};

/// A queue that is put in front comes this far before the first.
const FRONT: Nanos = Nanos::from_millis(1000);
/// Queues of the idle class come this far after each other.
const IDLE_DELAY: Nanos = Nanos::from_millis(200);

/// What a group is charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charging {
    Time,
    /// Where requests of several queues are in the device at a time (CFQ-46).
    Requests,
}

/// Queues with work, in their trees.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) groups: Groups,
    nodes: Nodes<i64>,
    busy: u32,
    busy_sync: u32,
    /// Groups may be set not to isolate: queues that are not idled for move to the root.
    may_not_isolate: bool,
}

impl Schedule {
    pub(super) fn new(queues: u32, groups: u32, version: &Version) -> Schedule {
        Schedule {
            groups: Groups::with_capacity(groups, version.nests_groups),
            nodes: Nodes::with_capacity(queues),
            busy: 0,
            busy_sync: 0,
            may_not_isolate: version.isolates_groups,
        }
    }

    /// Busy queues.
    #[inline]
    pub(super) const fn busy(&self) -> u32 {
        self.busy
    }

    /// Busy sync queues.
    #[inline]
    pub(super) const fn busy_sync(&self) -> u32 {
        self.busy_sync
    }

    /// Whether a queue is in a tree.
    #[inline]
    pub(super) fn contains(&self, queue: u32) -> bool {
        self.nodes.contains(queue)
    }

    /// The key of a queue in a tree.
    pub(super) fn key_of(&self, queue: u32) -> Option<i64> {
        self.nodes.key(queue)
    }

    /// Where the orders of trees are.
    pub(super) const fn nodes(&self) -> &Nodes<i64> {
        &self.nodes
    }

    /// Whether the queue's group has no other with work.
    #[inline]
    pub(super) fn is_alone(&self, home: &Queue) -> bool {
        self.groups[home.group].queues == 1
    }

    /// The number of queues in a queue's tree, itself included.
    pub(super) fn beside(&self, home: &Queue) -> u32 {
        home.stand.map_or(0, |stand| self.groups[stand.group].trees[stand.tree].len())
    }

    /// A queue joins the queues to be served.
    pub(super) fn join_busy(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        charging: Charging,
        queue: u32,
        home: &mut Queue,
    ) {
        home.is_busy = true;
        self.busy += 1;
        self.busy_sync += u32::from(home.is_sync);
        self.stand(view, tunables, charging, queue, home, false);
    }

    /// A queue leaves the queues to be served.
    pub(super) fn leave_busy(&mut self, queue: u32, home: &mut Queue) {
        home.is_busy = false;
        self.leave_tree(queue, home);
        self.groups.leave(home.group);
        self.busy -= 1;
        self.busy_sync -= u32::from(home.is_sync);
    }

    /// Puts a busy queue into its tree; `front` before all others.
    pub(super) fn stand(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        charging: Charging,
        queue: u32,
        home: &mut Queue,
        front: bool,
    ) {
        let old = home.stand.filter(|_| self.nodes.contains(queue));
        let moved = self.choose_group(view, tunables, queue, home, old.is_some());
        let place = home.place();
        let key = self.key(view, tunables, queue, home, front);
        let key = replace(Decision::Key { queue, now: view.now(), tree: place.tree }, key);
        if old != Some(place) || self.nodes.key(queue) != Some(key) {
            self.leave_tree(queue, home);
            let root = &mut self.groups[place.group].trees[place.tree];
            root.insert(&mut self.nodes, queue, key);
            home.stand = Some(place);
        }
        // Only now: a new queue is not counted in its own key (CFQ-7).
        if (old.is_none() && !front) || moved {
            let unit = match charging {
                Charging::Time => view.hz().tick(),
                Charging::Requests => jiffy(view),
            };
            self.groups.join(place.group, unit);
        }
    }

    fn key(
        &self,
        view: &QueueView,
        tunables: &Tunables,
        queue: u32,
        home: &mut Queue,
        front: bool,
    ) -> i64 {
        let place = home.place();
        let root = self.groups[place.group].trees[place.tree];
        let key_of = |queue: Option<u32>| queue.and_then(|queue| self.nodes.key(queue));
        let now = signed(view.now());
        if place.tree == IDLE_TREE {
            let last = root.last().filter(|&last| last != queue);
            return key_of(last).unwrap_or(now).saturating_add(signed(IDLE_DELAY));
        }
        if front {
            // Its own key counts too, if it is the lowest (CFQ-63).
            return key_of(root.first()).unwrap_or(now).saturating_sub(signed(FRONT));
        }
        let residual = core::mem::take(&mut home.slice.residual);
        let others = i64::from(self.groups[home.group].queues) - 1;
        now.saturating_add(offset(view, tunables, home, others)).saturating_sub(residual)
    }

    fn leave_tree(&mut self, queue: u32, home: &Queue) {
        if let (Some(stand), true) = (home.stand, self.nodes.contains(queue)) {
            self.groups[stand.group].trees[stand.tree].remove(&mut self.nodes, queue);
        }
    }

    /// Without isolation a queue that is not idled for moves to the root group, and back once it is
    /// idled for again (CFQ-47). Returns whether it moved.
    fn choose_group(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        queue: u32,
        home: &mut Queue,
        stands: bool,
    ) -> bool {
        if !self.may_not_isolate || tunables.group_isolation {
            return false;
        }
        let root = view.root().index();
        let from = home.group;
        match (home.kind(), home.own_group) {
            (Kind::NoIdle, _) if from != root => {
                home.own_group = Some(from);
                home.group = root;
            }
            (Kind::Sync, Some(own)) => {
                home.own_group = None;
                home.group = own;
            }
            _ => return false,
        }
        if stands {
            self.leave_tree(queue, home);
            self.groups.leave(from);
        }
        self.move_in_flight(home, from);
        true
    }

    /// The queue's requests in flight now count for its new group, no longer for the group `from`.
    fn move_in_flight(&mut self, home: &Queue, from: u32) {
        self.groups[from].dispatched -= home.dispatched;
        self.groups[home.group].dispatched += home.dispatched;
    }

    /// A queue that belongs to `group`, or would return to it, loses it: it goes to the root.
    pub(super) fn leave_group(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        charging: Charging,
        group: u32,
        (queue, home): (u32, &mut Queue),
    ) {
        if home.own_group == Some(group) {
            home.own_group = None;
        }
        if home.group != group {
            return;
        }
        home.group = view.root().index();
        if home.is_busy {
            self.leave_tree(queue, home);
            self.groups.leave(group);
            self.stand(view, tunables, charging, queue, home, false);
        }
        self.move_in_flight(home, group);
    }

    /// The turn of a queue ends after `used`: its group is charged.
    pub(super) fn charge(
        &mut self,
        view: &QueueView,
        charging: Charging,
        home: &Queue,
        used: Nanos,
    ) {
        let known = &self.groups[home.group];
        let idle_class = known.trees[tree_of(Class::Idle, Kind::Sync)].len();
        let no_sync = known.queues == known.busy_async() + idle_class;
        let tick = view.hz().tick().0;
        let charge = match charging {
            Charging::Requests => u64::from(home.slice.dispatched),
            Charging::Time if !home.is_sync && no_sync => home.slice.allocated.0 / tick,
            Charging::Time => used.0 / tick,
        };
        self.groups.charge(home.group, charge);
    }
}

/// How much further back a queue is placed than one with the longest slice, when this many others
/// are busy.
fn offset(view: &QueueView, tunables: &Tunables, home: &Queue, others: i64) -> i64 {
    let longest = tunables.level_slice(view, true, 0);
    let own = tunables.level_slice(view, home.is_sync, home.priority.level);
    others.saturating_mul(signed(longest) - signed(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::version::{LINUX_2_6_34, LINUX_3_6};
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Limits, Priority};

    const MS: i64 = 1_000_000;

    fn at(ms: u64) -> QueueView {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        view.turn_clock(Nanos::from_millis(ms));
        view
    }

    /// A sync queue of best effort, in group 1.
    fn reader(level: u8) -> Queue {
        let priority = Priority { class: Class::BestEffort, level };
        Queue { is_sync: true, idle_window: true, priority, group: 1, ..Queue::default() }
    }

    fn joined(schedule: &mut Schedule, view: &QueueView, queues: &mut [Queue]) {
        for (queue, home) in (0..).zip(queues) {
            schedule.join_busy(view, &Tunables::default(), Charging::Time, queue, home);
        }
    }

    /// Is a queue placed behind those with longer slices by the difference in slice length, once
    /// for each other busy queue, and is a new queue not counted? Level 4 (100 ms) alone (0 - 1) *
    /// 80, then level 0 at once, then level 7 (40 ms) beside one: (2 - 1) * 140.
    #[test]
    fn cfq_7_keys_grow_with_the_queues() {
        let mut schedule = Schedule::new(3, 2, &LINUX_3_6);
        let mut queues = [4, 0, 7].map(reader);
        joined(&mut schedule, &at(1000), &mut queues);
        let keys = [0, 1, 2].map(|queue| schedule.key_of(queue));
        assert_eq!(keys, [920, 1000, 1140].map(|ms| Some(ms * MS)));
        assert_eq!((schedule.busy(), schedule.busy_sync(), schedule.beside(&queues[0])), (3, 3, 3));
        schedule.leave_busy(1, &mut queues[1]);
        assert_eq!((schedule.busy(), schedule.contains(1)), (2, false));
        assert!(!schedule.is_alone(&queues[0]));
    }

    /// Does a queue that is put in front come a second before the first, and does it keep what was
    /// left of its slice for its next place?
    #[test]
    fn cfq_63_in_front_is_a_second_before_the_first() {
        let (mut schedule, view) = (Schedule::new(2, 2, &LINUX_3_6), at(200));
        let mut queues = [4, 4].map(reader);
        joined(&mut schedule, &view, &mut queues);
        queues[1].slice.residual = 30 * MS;
        for (front, key) in [(true, 120 - 1000), (false, 280 - 30), (false, 280)] {
            let tunables = Tunables::default();
            schedule.stand(&view, &tunables, Charging::Time, 1, &mut queues[1], front);
            assert_eq!(schedule.key_of(1), Some(key * MS), "{front}");
        }
    }

    /// Without isolation, does a queue that loses its window move to the root with what it has in
    /// flight, and back with a window?
    #[test]
    fn cfq_47_a_queue_takes_its_requests_along() {
        let (mut schedule, view) = (Schedule::new(1, 2, &LINUX_2_6_34), at(0));
        let root = view.root().index();
        let mut home = Queue { dispatched: 3, group: 1 - root, ..reader(4) };
        schedule.groups[1 - root].dispatched = 3;
        for (window, group) in [(true, 1 - root), (false, root), (true, 1 - root)] {
            home.idle_window = window;
            let tunables = Tunables::default();
            if home.is_busy {
                schedule.stand(&view, &tunables, Charging::Time, 0, &mut home, false);
            } else {
                schedule.join_busy(&view, &tunables, Charging::Time, 0, &mut home);
            }
            assert_eq!(home.group, group);
            let of = |group| (schedule.groups[group].queues, schedule.groups[group].dispatched);
            assert_eq!((of(group), of(1 - group)), ((1, 3), (0, 0)));
        }
    }

    /// Does a turn cost its time, or its requests, and an async one among async ones its whole
    /// slice? Weight 500 is charged as it is, in 4096ths.
    #[test]
    fn cfq_46_what_a_turn_costs() {
        for (charging, is_sync, cost) in [
            (Charging::Time, true, 10_000_000),
            (Charging::Requests, true, 7),
            (Charging::Time, false, 40_000_000),
        ] {
            let (mut schedule, view) = (Schedule::new(1, 2, &LINUX_3_6), at(0));
            schedule.groups[1].new_weight = 500;
            let mut home = Queue { is_sync, ..reader(4) };
            joined(&mut schedule, &view, core::slice::from_mut(&mut home));
            (home.slice.dispatched, home.slice.allocated) = (7, Nanos::from_millis(40));
            schedule.charge(&view, charging, &home, Nanos::from_millis(10));
            assert_eq!(schedule.groups[1].virtual_time, cost << 12, "{charging:?} {is_sync}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group: shares of the device between cgroups, by weight.
//!
//! A group with busy queues is in one tree, ordered by *virtual disk time*: the time it has had the
//! device, divided by its weight. The group that has had least is served next.
//!
//! ```text
//! weights 1000 and 500          A has 100 ms: virtual +  50       B has 100 ms: virtual + 100
//! served in the long run        A A B A A B …   = 2:1
//! ```
//!
//! In 4.19 groups nest: each charge is divided by the group's fraction of the whole, the product of
//! its shares among the active members of each level on the way down. A group's own processes
//! compete with its child groups with a weight of their own.
//!
//! # Invariants
//! I1  A group is in the tree exactly while one of its queues is busy (`queues` of them).
//! I2  Its virtual disk time never falls, nor does the least of all.
//!
//! Source: CFQ-45 to CFQ-47, CFQ-15 and CFQ-64 (averages), CFQ-70.

use crate::client::Class;
use crate::elevators::cfq::Cfq;
use crate::elevators::cfq::probe_points::{Decision, replace};
use crate::elevators::cfq::queue::Queue;
use crate::elevators::cfq::service::{KINDS, Kind, Stand, TREES, tree_of};
use crate::elevators::cfq::workload::Saved;
use crate::observe::think_time::ThinkTime;
use crate::queue_view::QueueView;
use crate::ratio::Ratio;
use crate::time::{Nanos, scale};
use crate::tree::Root;

/// Fraction bits of virtual disk time, and of a group's fraction of the whole.
const SERVICE_SHIFT: u32 = 12;
/// The weight at which virtual time runs as fast as real time.
const DEFAULT_WEIGHT: u64 = 500;
/// The most a group can weigh; the root's weight.
const MOST_WEIGHT: u32 = 1000;
/// A group that becomes active starts this far behind the last one, counted in ticks of unscaled
/// virtual time: in effect right behind it.
const BEHIND_LAST: Nanos = Nanos::from_millis(200);
/// A new average is three parts the greater value, one part the lesser: it rises fast, falls
/// slowly.
const AVERAGE_PARTS: u32 = 4;
/// From here virtual times are reduced again: far from the end of 64 bits.
const VIRTUAL_LIMIT: u64 = 1 << 60;
/// The most that one turn costs.
const MOST_CHARGED: u64 = 1 << 58;

/// What CFQ knows of a group.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) parent: Option<u32>,
    /// In force while the group is in the tree.
    pub(super) weight: u32,
    /// Takes effect when the group is put into the tree.
    pub(super) new_weight: u32,
    /// Busy queues.
    pub(super) queues: u32,
    /// Busy queues on average: best effort, real time.
    pub(super) averages: [u32; 2],
    pub(super) trees: [Root; TREES],
    pub(super) virtual_time: u64,
    /// Its share of the whole, in units of 1/4096, where groups nest; as of when it entered the
    /// tree.
    share: u64,
    pub(super) saved: Option<Saved>,
    /// Requests in flight.
    pub(super) dispatched: u32,
    pub(super) think_time: ThinkTime,
    pub(super) tree_think_times: [ThinkTime; TREES],
    /// Active groups directly below it, and their weights.
    active_children: u32,
    children_weight: u64,
}

impl Group {
    /// Busy queues of a class.
    pub(super) fn busy_of(&self, class: Class) -> u32 {
        match class {
            Class::Idle => self.trees[tree_of(class, Kind::Sync)].len(),
            _ => KINDS.iter().map(|&kind| self.trees[tree_of(class, kind)].len()).sum(),
        }
    }

    /// Busy async queues of both classes.
    pub(super) fn busy_async(&self) -> u32 {
        let of = |class| self.trees[tree_of(class, Kind::Async)].len();
        of(Class::Realtime) + of(Class::BestEffort)
    }

    const fn is_active(&self) -> bool {
        self.queues > 0 || self.active_children > 0
    }
}

impl Cfq {
    /// A group came, or its weight changed: it applies when the group next enters the tree.
    pub(super) fn weigh(&mut self, view: &QueueView, group: u32) {
        let spec = view.groups.at(group);
        let least = self.version.least_weight;
        let known = &mut self.groups[group as usize];
        known.parent = spec.parent().map(crate::client::GroupId::index);
        known.new_weight = spec.weight().clamp(least, MOST_WEIGHT);
        if !known.is_active() {
            known.weight = known.new_weight;
        }
    }

    /// One more queue of the group is busy.
    pub(super) fn join_group(&mut self, view: &QueueView, group: u32) {
        if !self.group_nodes.contains(group) {
            self.take_new_weight(group);
        }
        self.groups[group as usize].queues += 1;
        if self.group_nodes.contains(group) {
            return;
        }
        let unit = if self.counts_requests(view) { Cfq::jiffy(view) } else { view.hz().tick() };
        let behind = BEHIND_LAST.0 / unit.0;
        let last = self.group_tree.last().and_then(|last| self.group_nodes.key(last));
        let known = &mut self.groups[group as usize];
        known.virtual_time = last.map_or(self.least_virtual_time, |last| last + behind);
        let (key, weight, children) = (known.virtual_time, known.weight, known.active_children);
        self.total_weight += u64::from(weight);
        self.group_tree.insert(&mut self.group_nodes, group, key);
        if children == 0 {
            self.count_active(group, weight, true);
        }
        self.groups[group as usize].share = self.fraction(group);
    }

    /// The weight set last takes effect.
    fn take_new_weight(&mut self, group: u32) {
        let known = &mut self.groups[group as usize];
        let (old, new) = (u64::from(known.weight), u64::from(known.new_weight));
        known.weight = known.new_weight;
        let (active, parent) = (known.is_active(), known.parent);
        if self.group_nodes.contains(group) {
            self.total_weight = self.total_weight - old + new;
        }
        if let (true, Some(parent)) = (active, parent) {
            let above = &mut self.groups[parent as usize];
            above.children_weight = above.children_weight - old + new;
        }
    }

    /// One queue of the group fewer is busy.
    pub(super) fn leave_group(&mut self, group: u32) {
        let known = &mut self.groups[group as usize];
        known.queues -= 1;
        if known.queues > 0 {
            return;
        }
        known.saved = None;
        self.total_weight -= u64::from(known.weight);
        self.group_tree.remove(&mut self.group_nodes, group);
        let known = &self.groups[group as usize];
        if !known.is_active() {
            self.count_active(group, known.weight, false);
        }
    }

    /// A group became active, or stopped being active: so may those above it.
    fn count_active(&mut self, group: u32, weight: u32, active: bool) {
        let (mut child, mut weight) = (group, weight);
        while let Some(parent) = self.groups[child as usize].parent {
            let above = &mut self.groups[parent as usize];
            let was_active = above.is_active();
            if active {
                above.active_children += 1;
                above.children_weight += u64::from(weight);
            } else {
                above.active_children -= 1;
                above.children_weight -= u64::from(weight);
            }
            if was_active == above.is_active() {
                return;
            }
            if active {
                above.weight = above.new_weight;
            }
            (child, weight) = (parent, above.weight);
        }
    }

    /// The weight of a group's own processes compared with its child groups.
    fn leaf_weight(&self, group: u32) -> u64 {
        if self.groups[group as usize].parent.is_none() {
            MOST_WEIGHT.into()
        } else {
            DEFAULT_WEIGHT
        }
    }

    /// The group's fraction of the whole, in units of 1/4096, at least one.
    fn fraction(&self, group: u32) -> u64 {
        if !self.version.nests_groups {
            let weight = u64::from(self.groups[group as usize].weight);
            return ((weight << SERVICE_SHIFT) / self.total_weight.max(1)).max(1);
        }
        let leaf = self.leaf_weight(group);
        let own = &self.groups[group as usize];
        let mut fraction = (leaf << SERVICE_SHIFT) / (leaf + own.children_weight);
        let mut child = own;
        while let Some(parent) = child.parent {
            let above = &self.groups[parent as usize];
            let leaf = if above.queues > 0 { self.leaf_weight(parent) } else { 0 };
            let level = (above.children_weight + leaf).max(1);
            fraction = fraction * u64::from(child.weight) / level;
            child = above;
        }
        fraction.max(1)
    }

    /// `whole` divided by the group's share among the active groups, as if it were active itself.
    pub(super) fn one_over_share(&self, group: u32, whole: Ratio) -> Ratio {
        let own = &self.groups[group as usize];
        let (mut active, weight) = (own.is_active(), u64::from(own.new_weight));
        if !self.version.nests_groups {
            let all = self.total_weight + if active { 0 } else { weight };
            return whole.times(all, weight);
        }
        let leaf = self.leaf_weight(group);
        let mut whole = whole.times(leaf + own.children_weight, leaf);
        let mut child = own;
        while let Some(parent) = child.parent {
            let above = &self.groups[parent as usize];
            let weight = u64::from(if active { child.weight } else { child.new_weight });
            let leaf = if above.queues > 0 { self.leaf_weight(parent) } else { 0 };
            let all = above.children_weight + leaf + if active { 0 } else { weight };
            whole = whole.times(all, weight);
            active = above.is_active();
            child = above;
        }
        whole
    }

    /// The group's part of `target_latency`.
    pub(super) fn group_slice(&self, view: &QueueView, group: u32) -> Nanos {
        let tick = view.hz().tick().0;
        let target = self.tunables.target_latency.0 / tick;
        let share = if self.version.nests_groups {
            scale(target, self.groups[group as usize].share, 1 << SERVICE_SHIFT)
        } else {
            let weight = u64::from(self.groups[group as usize].weight);
            scale(target, weight, self.total_weight)
        };
        Nanos(share * tick)
    }

    /// The average of busy queues of a class; reading it updates it (CFQ-15).
    pub(super) fn average_busy(&mut self, group: u32, is_realtime: bool) -> u32 {
        let class = if is_realtime { Class::Realtime } else { Class::BestEffort };
        let known = &mut self.groups[group as usize];
        let busy = known.busy_of(class);
        let average = &mut known.averages[usize::from(is_realtime)];
        let (more, less) = (busy.max(*average), busy.min(*average));
        let renewed = ((AVERAGE_PARTS - 1) * more + less + AVERAGE_PARTS / 2) / AVERAGE_PARTS;
        *average = replace(Decision::Average, renewed);
        *average
    }

    /// The turn of a queue ends after `used`: its group is charged, and the rest of the group's
    /// workload is kept for its next turn.
    pub(super) fn charge_group_of(&mut self, view: &QueueView, queue: u32, used: Nanos) {
        let Queue { group, is_sync, slice, .. } = *self.queues.at(queue);
        let known = &self.groups[group as usize];
        let idle_class = known.trees[tree_of(Class::Idle, Kind::Sync)].len();
        let no_sync = known.queues == known.busy_async() + idle_class;
        let charge = if self.counts_requests(view) {
            u64::from(slice.dispatched)
        } else if !is_sync && no_sync {
            slice.allocated.0 / view.hz().tick().0
        } else {
            used.0 / view.hz().tick().0
        };
        let charge = u128::from(charge);
        let virtual_charge = if self.version.nests_groups {
            (charge << (2 * SERVICE_SHIFT)) / u128::from(known.share.max(1))
        } else {
            (charge << SERVICE_SHIFT) * u128::from(DEFAULT_WEIGHT) / u128::from(known.weight.max(1))
        };
        // A device that hung for days costs no more than the order of virtual times can hold.
        let virtual_charge = u64::try_from(virtual_charge).unwrap_or(u64::MAX).min(MOST_CHARGED);
        let known = &mut self.groups[group as usize];
        let virtual_time = known.virtual_time.saturating_add(virtual_charge);
        known.virtual_time = replace(Decision::VirtualTime, virtual_time);
        self.reinsert_group(group);
        self.save_workload(view, group);
    }

    /// Without `slice_idle` a device that queues commands is shared by requests, not by time
    /// (CFQ-46).
    fn counts_requests(&self, view: &QueueView) -> bool {
        self.version.idles_for_groups
            && self.slice_idle(view) == Nanos::ZERO
            && self.may_queue_commands(view)
    }

    fn reinsert_group(&mut self, group: u32) {
        if self.group_nodes.contains(group) {
            self.take_new_weight(group);
            let key = self.groups[group as usize].virtual_time;
            self.group_tree.rekey(&mut self.group_nodes, group, key);
            self.groups[group as usize].share = self.fraction(group);
        }
    }

    /// The group to be served next, if any has work.
    pub(super) fn next_group(&mut self) -> Option<u32> {
        let first = self.group_tree.first()?;
        let least = self.groups[first as usize].virtual_time;
        self.least_virtual_time = self.least_virtual_time.max(least);
        if least > VIRTUAL_LIMIT {
            self.bring_virtual_times_down(least);
        }
        Some(first)
    }

    /// Virtual times are only compared with each other: the least may become 0.
    fn bring_virtual_times_down(&mut self, least: u64) {
        self.least_virtual_time = 0;
        for group in 0..self.groups.len() {
            let known = &mut self.groups[group];
            known.virtual_time = known.virtual_time.saturating_sub(least);
            let index = u32::try_from(group).unwrap_or(u32::MAX);
            if self.group_nodes.contains(index) {
                let key = self.groups[group].virtual_time;
                self.group_tree.rekey(&mut self.group_nodes, index, key);
            }
        }
    }

    /// Without isolation a queue that is not idled for moves to the root group, and back once it is
    /// idled for again (CFQ-47). `old` is its present place. Returns whether it moved.
    pub(super) fn choose_group(
        &mut self,
        view: &QueueView,
        queue: u32,
        old: Option<Stand>,
    ) -> bool {
        if !self.version.isolates_groups || self.tunables.group_isolation {
            return false;
        }
        let root = view.root().index();
        let home = self.queues.at_mut(queue);
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
        if old.is_some() {
            self.leave_tree(queue);
            self.leave_group(from);
        }
        self.move_in_flight(queue, from);
        true
    }

    /// The queue's requests in flight now count for its new group, no longer for the group `from`.
    fn move_in_flight(&mut self, queue: u32, from: u32) {
        let Queue { group, dispatched, .. } = *self.queues.at(queue);
        self.groups[from as usize].dispatched -= dispatched;
        self.groups[group as usize].dispatched += dispatched;
    }

    /// A group is removed: what is left in it, requests of clients that moved, goes to the root.
    pub(super) fn dissolve_group(&mut self, view: &mut QueueView, group: u32) {
        let root = view.root().index();
        if self.active.is_some_and(|active| self.queues.at(active).group == group) {
            self.expire(view, false);
        }
        for queue in 0..self.queues.capacity() {
            if !self.queues.is_live(queue) {
                continue;
            }
            let home = self.queues.at_mut(queue);
            if home.own_group == Some(group) {
                home.own_group = None;
            }
            if home.group != group {
                continue;
            }
            let busy = home.is_busy;
            home.group = root;
            if busy {
                self.leave_tree(queue);
                self.leave_group(group);
                self.stand(view, queue, false);
            }
            self.move_in_flight(queue, group);
        }
        if self.serving.group == Some(group) {
            self.serving.group = None;
        }
        self.groups[group as usize] = Group::default();
    }
}

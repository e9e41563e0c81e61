// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: what belongs to a group besides its members' order.
//!
//! Async requests wait in queues of their group, so that its writes are charged to the group. Its
//! requests are counted, in it and in all groups above it, so that it has no more than its share of
//! them:
//!
//! ```text
//! root 5 ─┬─ A 3 ─── A1 2      a request of A1 counts in A1, in A and in the root
//!         └─ B 2
//! ```
//!
//! # Invariants
//! I1  `allocated` of a group counts the live requests of the queues in it and below.
//!
//! Source: BFQ-36, BFQ-145, BFQ-180 to BFQ-184.

use alloc::vec::Vec;

use crate::bfq::schedule::Schedule;
use paternoster_core::pick::shared::SHARED;

/// What belongs to a group besides its trees.
#[derive(Debug, Clone, Default)]
struct Group {
    /// Async queues by class and level.
    shared: [Option<u32>; SHARED],
    /// The last queue that was created in it.
    last_created: Option<u32>,
    /// Requests of all queues in it and below.
    allocated: u32,
    is_known: bool,
}

/// Groups by number.
#[derive(Debug)]
pub(super) struct Groups {
    of: Vec<Group>,
}

impl Groups {
    pub(super) fn with_capacity(groups: u32) -> Groups {
        Groups { of: (0..groups).map(|_| Group::default()).collect() }
    }

    /// A group came, or changed. Returns whether it is new.
    pub(super) fn comes(&mut self, group: u32) -> bool {
        let own = &mut self.of[group as usize];
        let is_new = !own.is_known;
        if is_new {
            *own = Group { is_known: true, ..Group::default() };
        }
        is_new
    }

    /// A group goes, with nothing left in it.
    pub(super) fn goes(&mut self, group: u32) {
        self.of[group as usize] = Group::default();
    }

    /// Its async queue of a class and level.
    pub(super) fn shared(&self, group: u32, place: usize) -> Option<u32> {
        self.of[group as usize].shared[place]
    }

    /// The same, to be filled or given up.
    pub(super) fn shared_mut(&mut self, group: u32, place: usize) -> &mut Option<u32> {
        &mut self.of[group as usize].shared[place]
    }

    /// The async queues of all groups.
    pub(super) fn all_shared(&self) -> impl Iterator<Item = u32> {
        self.of.iter().flat_map(|group| group.shared).flatten()
    }

    /// The last queue that was created in it.
    pub(super) fn last_created(&self, group: u32) -> Option<u32> {
        self.of[group as usize].last_created
    }

    pub(super) fn set_last_created(&mut self, group: u32, queue: Option<u32>) {
        self.of[group as usize].last_created = queue;
    }

    /// If `queue` was the one created last in its group, another one takes that role.
    pub(super) fn replace_last_created(&mut self, group: u32, queue: u32, by: Option<u32>) {
        let last = &mut self.of[group as usize].last_created;
        if *last == Some(queue) {
            *last = by;
        }
    }

    /// Requests of all queues in a group and below.
    pub(super) fn allocated(&self, group: u32) -> u32 {
        self.of[group as usize].allocated
    }

    /// Requests of `queue` begin or end their lives: its groups count them.
    #[inline]
    pub(super) fn count_allocated(&mut self, schedule: &Schedule, queue: u32, by: i32) {
        let mut group = schedule.entities[queue as usize].group;
        loop {
            let count = &mut self.of[group as usize].allocated;
            *count = count.wrapping_add_signed(by);
            let Some(entity) = schedule.groups[group as usize].entity else { break };
            group = schedule.entities[entity as usize].group;
        }
    }

    /// As if a group had so many requests more.
    #[cfg(test)]
    pub(super) fn allocate(&mut self, group: u32, by: i32) {
        let count = &mut self.of[group as usize].allocated;
        *count = count.wrapping_add_signed(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::entity::Entity;
    use crate::bfq::version::LINUX_6_18;
    use paternoster_core::Class;

    /// Does a request count in its group and in all above, and in no other?
    #[test]
    fn groups_above_count_it() {
        let mut schedule = Schedule::new(1, 4, &LINUX_6_18);
        schedule.add_group(0, None, 100);
        for (group, parent) in [(1, 0), (2, 1), (3, 0)] {
            schedule.add_group(group, Some(parent), 100);
        }
        schedule.entities[0] = Entity::new(2, 40, Class::BestEffort, true);
        let mut groups = Groups::with_capacity(4);
        groups.count_allocated(&schedule, 0, 3);
        groups.count_allocated(&schedule, 0, -1);
        assert_eq!([0, 1, 2, 3].map(|group| groups.allocated(group)), [2, 2, 2, 0]);
    }

    /// Is the last created queue replaced only by what takes its place?
    #[test]
    fn the_last_created_is_replaced_by_its_heir() {
        let mut groups = Groups::with_capacity(1);
        assert!(groups.comes(0) && !groups.comes(0));
        groups.set_last_created(0, Some(5));
        groups.replace_last_created(0, 4, None);
        assert_eq!(groups.last_created(0), Some(5));
        groups.replace_last_created(0, 5, Some(6));
        assert_eq!(groups.last_created(0), Some(6));
        groups.goes(0);
        assert!(groups.comes(0) && groups.last_created(0).is_none());
    }
}

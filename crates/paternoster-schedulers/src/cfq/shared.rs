// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared queues: where async requests wait, one queue for each class and level.
//!
//! ```text
//! up to 3.6   one table                   a writer's requests belong to the root group
//! 4.19        one table for each group    they belong to the writer's
//! ```
//!
//! A shared queue is made on first use, and the table's own reference keeps it.
//!
//! # Invariants
//! I1  A queue is in one place of one table.
//!
//! Source: CFQ-3.

use alloc::vec::Vec;

use paternoster_core::pick::shared::{SHARED, place_of};
use paternoster_core::{ClientId, GroupId, Priority, QueueView};

/// Shared queues by group, class and level.
#[derive(Debug)]
pub(super) struct SharedQueues {
    of: Vec<[Option<u32>; SHARED]>,
    by_group: bool,
}

impl SharedQueues {
    /// Makes the shared queues of this many groups; one table serves all unless `by_group`.
    pub(super) fn new(groups: u32, by_group: bool) -> SharedQueues {
        SharedQueues { of: (0..groups).map(|_| [None; SHARED]).collect(), by_group }
    }

    /// The group that a client's async requests belong to.
    pub(super) fn group_of(&self, view: &QueueView, client: ClientId) -> GroupId {
        if self.by_group { view.group_of(client) } else { view.root() }
    }

    /// The queue of a group's requests of this class and level; or where it will be.
    pub(super) fn slot(&mut self, group: GroupId, priority: Priority) -> &mut Option<u32> {
        let table = if self.by_group { group.index() as usize } else { 0 };
        &mut self.of[table][place_of(priority)]
    }

    /// A group is removed: gives up its queue at `place`, if it has one of its own.
    pub(super) fn give_up(&mut self, group: u32, place: usize) -> Option<u32> {
        if self.by_group { self.of[group as usize][place].take() } else { None }
    }

    /// All shared queues that were made.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.of.iter().flatten().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{ClientSpec, GroupSpec, Limits};

    /// Does a writer of a group use the queue of its own group, or the root's where there is one
    /// table; and is only the former given up with the group?
    #[test]
    fn a_group_has_queues_of_its_own_or_none() {
        for by_group in [false, true] {
            let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
            let root = view.root();
            let own = view.add_group(GroupSpec::new().parent(root));
            let [client, other] =
                [own, root].map(|group| view.add_client(ClientSpec::new().group(group)));
            let groups = if by_group { view.limits().groups } else { 1 };
            let mut shared = SharedQueues::new(groups, by_group);
            let priority = Priority::default();
            for (queue, client) in [(7, client), (8, other)] {
                let group = shared.group_of(&view, client);
                shared.slot(group, priority).get_or_insert(queue);
            }
            let expected: &[u32] = if by_group { &[7, 8] } else { &[7] };
            let mut all: Vec<u32> = shared.iter().collect();
            all.sort_unstable();
            assert_eq!(all, expected);
            let gone = shared.give_up(own.index(), place_of(priority));
            assert_eq!(gone, by_group.then_some(7));
            assert_eq!(shared.iter().count(), 1);
        }
    }
}

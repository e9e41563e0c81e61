// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queue has the next turn, seen from outside; and how to give it to another.
//!
//! A recorded choice may be any queue that was eligible: it has work, as do its groups, and its
//! start has come on each level. Which of them has the least finish is left to the comparison, and
//! not checked here.
//!
//! Source: ours; BFQ-10.

use crate::bfq::entity::{Entity, Standing, is_after};
use crate::bfq::schedule::Schedule;

/// The schedule, between two turns.
#[derive(Debug)]
pub struct Turns<'a> {
    schedule: &'a mut Schedule,
    root: u32,
}

impl<'a> Turns<'a> {
    pub(super) const fn new(schedule: &'a mut Schedule, root: u32) -> Turns<'a> {
        Turns { schedule, root }
    }

    /// The number of the queue that would have the next turn.
    #[must_use]
    pub fn next_queue(&self) -> Option<u32> {
        let mut entity = self.schedule.groups[self.root as usize].next?;
        while let Some(group) = self.schedule.group_of_entity(entity) {
            entity = self.schedule.groups[group as usize].next?;
        }
        Some(entity)
    }

    /// Makes the next turn that of `queue`. Returns whether that was possible: it and its groups
    /// have work, and their starts have come unless they are alone.
    pub fn give_to(&mut self, queue: u32) -> bool {
        let schedule = &mut *self.schedule;
        let mut at = Some(queue);
        while let Some(entity) = at {
            let Entity { standing, start, group, .. } = schedule.entities[entity as usize];
            let alone = schedule.groups[group as usize].active == 1;
            let too_early = !alone && is_after(start, schedule.vtime_of(entity));
            if standing != Standing::Active || too_early {
                return false;
            }
            at = schedule.parent_of(entity);
        }
        at = Some(queue);
        while let Some(entity) = at {
            let group = schedule.entities[entity as usize].group;
            schedule.groups[group as usize].next = Some(entity);
            at = schedule.groups[group as usize].entity;
        }
        true
    }
}

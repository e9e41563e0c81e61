// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drain: what the mechanism writes from the write cache when that is full or the drive is idle,
//! and which command is charged.
//!
//! The nearest of the oldest dirty extents goes. In the background that is charged to no command;
//! while writes wait for room, the first of them is in service as long as the mechanism drains:
//!
//! ```text
//! full cache    drain a   read      drain b   drain c
//! write 1       =======             |= ended                  charged: a, and the controller
//! write 2                            =======  |= ended        charged: b, and the controller
//! ```
//!
//! # Invariants
//! I1  At most one write that waits for room is in service, and only while the mechanism drains.

use paternoster_core::Nanos;

use super::{Choice, Drive, Slot, Stalled};
use crate::hdd::schedule::overdue;
use crate::hdd::write_cache::Dirty;

impl<T: Copy> Drive<T> {
    /// The nearest of the oldest dirty extents, or of those for which a flush waits, and its
    /// positioning time.
    pub(super) fn nearest_dirty(&self, now: u64, owed: bool) -> Option<(Dirty, u64)> {
        let mechanism = &self.parameters.mechanism;
        let away = |dirty: &Dirty| mechanism.positioning(self.arm, now, &dirty.place, true);
        let window = self.writes.window(&mechanism.geometry, self.parameters.drain_window, owed);
        window.map(|dirty| (dirty, away(&dirty))).min_by_key(|&(_, away)| away)
    }

    /// Whether the oldest write that waits for room has waited longer than a command may, and
    /// longer than all that wait for the mechanism: a drain goes first, however near those are.
    pub(super) fn is_stall_overdue(&self, now: u64) -> bool {
        let Some(&Stalled { since, .. }) = self.stalled.front() else { return false };
        let is_oldest = self.pending.first().is_none_or(|oldest| since < oldest.arrived);
        is_oldest && now - since > self.parameters.order.age_limit
    }

    /// The oldest pending command, if it has waited longer than a command may and a flush has had
    /// its turn: they go by turns, so that neither waits for ever for the other.
    pub(super) fn overdue_beside_flush(&self, now: u64) -> Option<Choice> {
        overdue(self.parameters.order, now, &self.pending).filter(|_| self.drained)
    }

    /// Writes a dirty extent, or a chunk of it, and admits the writes that waited for the room.
    pub(super) fn drain(&mut self, now: u64, dirty: Dirty) {
        let mechanism = &self.parameters.mechanism;
        let extent = self.writes.take(&mechanism.geometry, dirty);
        let access = mechanism.access(&mut self.arm, now, extent, true, 0);
        self.free_at = access.end;
        self.drains_until = access.end;
        self.drained = true;
        self.admit_stalled(now);
        self.make_room(now);
    }

    /// While writes wait for room, draining is charged to the first of them.
    pub(super) fn make_room(&mut self, now: u64) {
        if let (Some(&Stalled { slot, .. }), None) = (self.stalled.front(), self.makes_room_for)
            && now < self.drains_until
        {
            self.enter(now, slot);
            self.makes_room_for = Some(slot);
        }
    }

    /// The mechanism has finished its drain: until the next one, no write that waits for room is in
    /// service.
    pub(super) fn room_was_made(&mut self, now: u64) {
        let Some(slot) = self.makes_room_for.take() else { return };
        if let Some(entry) = &mut self.slots[slot as usize] {
            entry.had += self.clock.leave(Nanos(now), entry.entered);
        }
    }

    /// Admits writes that wait for room, as far as it goes.
    pub(super) fn admit_stalled(&mut self, now: u64) {
        while let Some(&Stalled { slot, .. }) = self.stalled.front() {
            let Some(Slot { task, .. }) = self.slots[slot as usize] else { break };
            if !self.writes.has_room(u64::from(task.sectors)) {
                break;
            }
            self.stalled.pop_front();
            let overhead = self.parameters.overheads.write_hit[1];
            self.acknowledge(now, slot, overhead);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durability: which flushes are done when a unit has been programmed.
//!
//! A flush (or a write with forced unit access, on a drive without power-loss protection) waits
//! for every unit that was closed before it, and for none that comes later. Units end in any
//! order, so they are counted by *epoch*: each waiting command ends one.
//!
//! ```text
//! units      u u u   F   u u   G   u          outstanding  [3] [2] [1]
//! epoch      0 0 0   |   1 1   |   2          F waits for epoch 0, G for epochs 0 and 1
//! ```
//!
//! # Invariants
//! I1  Every epoch but the last was ended by a command that still waits, so there is at most one
//!     epoch more than commands in the device.
//! I2  A command that waited is released exactly once, after all units of its epoch and those
//!     before.

use std::collections::VecDeque;

/// Counts the commands that have waited for durability.
pub(super) type Epoch = u64;

#[derive(Debug)]
pub(super) struct Durability {
    /// Units closed and not programmed, by epoch, the oldest first.
    outstanding: VecDeque<u32>,
    oldest: Epoch,
    /// Commands that wait, in the order of the epochs that they ended.
    waiting: VecDeque<u32>,
}

impl Durability {
    pub(super) fn new(depth: u32) -> Durability {
        let mut outstanding = VecDeque::with_capacity(depth as usize + 2);
        outstanding.push_back(0);
        Durability { outstanding, oldest: 0, waiting: VecDeque::with_capacity(depth as usize + 1) }
    }

    /// A unit is on its way.
    pub(super) fn unit_closed(&mut self) -> Epoch {
        let last = self.outstanding.len() - 1;
        self.outstanding[last] += 1;
        self.oldest + last as u64
    }

    /// A unit of this epoch has been programmed.
    pub(super) fn unit_programmed(&mut self, epoch: Epoch) {
        let place = usize::try_from(epoch - self.oldest).unwrap_or(usize::MAX);
        self.outstanding[place] -= 1;
    }

    /// Command `slot` waits for the units on their way; false if there are none.
    pub(super) fn wait(&mut self, slot: u32) -> bool {
        if self.outstanding.iter().all(|units| *units == 0) {
            return false;
        }
        self.waiting.push_back(slot);
        self.outstanding.push_back(0);
        true
    }

    /// The next command whose units are all programmed.
    pub(super) fn next_done(&mut self) -> Option<u32> {
        if self.outstanding.front() != Some(&0) || self.waiting.is_empty() {
            return None;
        }
        self.outstanding.pop_front();
        self.oldest += 1;
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is it as in the drawing? F waits for three units, and G for these and two more, in whatever
    /// order they end; the unit after G delays neither.
    #[test]
    fn flushes_wait_for_what_was_before_them() {
        let mut durable = Durability::new(4);
        assert!(!durable.wait(9), "nothing is on its way");
        let first: Vec<_> = (0..3).map(|_| durable.unit_closed()).collect();
        assert!(durable.wait(1));
        let second: Vec<_> = (0..2).map(|_| durable.unit_closed()).collect();
        assert!(durable.wait(2));
        let third = durable.unit_closed();
        assert_eq!((first[0], second[0], third), (0, 1, 2));
        for epoch in [third, second[0], second[1], first[0], first[1]] {
            durable.unit_programmed(epoch);
            assert_eq!(durable.next_done(), None);
        }
        durable.unit_programmed(first[2]);
        assert_eq!((durable.next_done(), durable.next_done()), (Some(1), Some(2)));
        assert_eq!(durable.next_done(), None);
        assert!(!durable.wait(3));
    }
}

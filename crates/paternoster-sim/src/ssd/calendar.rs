// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calendar: what will happen inside the device, in order of time.
//!
//! Every stage of a command that takes time is one entry. A shared resource (a die, a channel, the
//! link) is granted when an entry comes up and never in advance, so that no command waits for one
//! that has not arrived yet:
//!
//! ```text
//! read A, die busy until 700 us    |---- waits ----|=tR=|>channel
//! read B, die idle                 |=tR=|>channel                    A reserves nothing ahead of B
//! ```
//!
//! # Invariants
//! I1  Entries come out in order of time; those of one instant in the order in which they were
//!     made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paternoster_core::Nanos;

use super::ahead::StreamId;

/// An event inside the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// The controller has decoded the command, and has the data of a write.
    Understood {
        /// The command's slot.
        slot: u32,
    },
    /// A die has these sectors of a unit in its register.
    Sensed {
        /// The command's slot.
        slot: u32,
        /// Which die, and with it the channel.
        die: u32,
        /// How many of the unit's sectors are wanted.
        sectors: u32,
    },
    /// Sectors of a unit are in the controller.
    Collected {
        /// The command's slot.
        slot: u32,
        /// Number of sectors.
        sectors: u32,
    },
    /// A die has sectors of a unit in its register that no command asked for yet.
    Fetched {
        /// The stream, if it still exists.
        stream: StreamId,
        /// Which die, and with it the channel.
        die: u32,
        /// Number of sectors.
        sectors: u32,
    },
    /// Such sectors are in the controller.
    Buffered {
        /// The stream.
        stream: StreamId,
        /// Number of sectors.
        sectors: u32,
    },
    /// A part of a command has ended; the command ends with its last part.
    Ended {
        /// The command's slot.
        slot: u32,
    },
    /// A die may have finished its program (it has not if reads delayed it).
    Programmed {
        /// The die.
        die: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Nanos,
    order: u64,
    what: Happening,
}

/// The entries to come.
#[derive(Debug)]
pub(super) struct Calendar {
    entries: BinaryHeap<Reverse<Entry>>,
    made: u64,
}

impl Calendar {
    /// An empty calendar with room for `entries`; it grows to the most ever needed.
    pub(super) fn with_capacity(entries: usize) -> Calendar {
        Calendar { entries: BinaryHeap::with_capacity(entries), made: 0 }
    }

    #[inline]
    pub(super) fn enter(&mut self, at: Nanos, what: Happening) {
        self.entries.push(Reverse(Entry { at, order: self.made, what }));
        self.made += 1;
    }

    /// When the next one is.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next one, if its time has come by `now`.
    #[inline]
    pub(super) fn due(&mut self, now: Nanos) -> Option<(Nanos, Happening)> {
        self.next().filter(|&at| at <= now)?;
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do entries come by time, and at one instant in the order in which they were made (I1)?
    #[test]
    fn entries_come_in_order() {
        let mut calendar = Calendar::with_capacity(4);
        for (at, slot) in [(20, 0), (10, 1), (20, 2), (10, 3)] {
            calendar.enter(Nanos(at), Happening::Ended { slot });
        }
        assert_eq!(calendar.due(Nanos(9)), None);
        let order: Vec<_> = std::iter::from_fn(|| calendar.due(Nanos(20))).collect();
        let slots = order.iter().map(|&(at, what)| match what {
            Happening::Ended { slot } => (at.0, slot),
            other => panic!("{other:?}"),
        });
        assert_eq!(slots.collect::<Vec<_>>(), [(10, 1), (10, 3), (20, 0), (20, 2)]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations: what an I/O does with its sectors, and its further properties.
//!
//! An *op* is one of four; *flags* are a set. Both go from a bio to its request and on to the
//! device; elevators read from them whether a process waits ([`is_sync`]).
//!
//! ```text
//! read                         sync
//! write                        async     written back later, no process waits
//! write + SYNC, FUA, PREFLUSH  sync      O_SYNC, fsync
//! ```
//!
//! Source: BLK-18 (sync), BLK-1.

use core::ops::{BitOr, BitOrAssign};

/// The operation on the sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Op {
    /// Data come from the device.
    #[default]
    Read,
    /// Data go to the device.
    Write,
    /// The device may discard the sectors.
    Discard,
    /// Everything that was completed before becomes durable. Has no sectors.
    Flush,
}

/// Properties of a bio or request, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// None of them.
    pub const NONE: Flags = Flags(0);
    /// A process waits for this write. (Reads are always sync.)
    pub const SYNC: Flags = Flags(1);
    /// Metadata of a file system.
    pub const META: Flags = Flags(2);
    /// More urgent than its client's other I/O.
    pub const PRIO: Flags = Flags(4);
    /// Durable when it ends.
    pub const FUA: Flags = Flags(8);
    /// What was completed before becomes durable first.
    pub const PREFLUSH: Flags = Flags(16);
    /// Read-ahead: may fail without harm.
    pub const AHEAD: Flags = Flags(32);
    /// No further I/O follows at once: do not idle for it.
    pub const NOIDLE: Flags = Flags(64);
    /// Must not be merged.
    pub const NOMERGE: Flags = Flags(128);
    /// Done in the background.
    pub const BACKGROUND: Flags = Flags(256);

    /// Whether all of `other` are in this set.
    #[must_use]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this set.
    #[must_use]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The set without `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The set as bits, for records and hashes.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// Reads, and writes that a process waits for (also through FUA and PREFLUSH), are sync.
#[must_use]
pub const fn is_sync(op: Op, flags: Flags) -> bool {
    matches!(op, Op::Read | Op::Flush)
        || flags.intersects(Flags(Flags::SYNC.0 | Flags::FUA.0 | Flags::PREFLUSH.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which I/O is sync (BLK-18)? Reads, and writes with SYNC; FUA and PREFLUSH imply it.
    #[test]
    fn sync_is_what_somebody_waits_for() {
        assert!(is_sync(Op::Read, Flags::NONE));
        assert!(!is_sync(Op::Write, Flags::NONE));
        assert!(is_sync(Op::Write, Flags::SYNC) && is_sync(Op::Write, Flags::FUA));
    }
}

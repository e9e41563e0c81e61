// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flaws: ways in which a disk breaks its word about what is durable.
//!
//! A crash test is worth what it finds. Each flaw is what a wrong flush sequencer would look like
//! from the medium, or what real disks have been caught doing; the crash test has to find every
//! one. A flawed disk is wrong whenever it can be, not just once.

/// How a disk breaks its promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A write with forced unit access stays in the cache like any other.
    ForgetsFua,
    /// A flush leaves out one write.
    FlushMissesOne,
    /// A flush completes without draining anything.
    FlushDoesNothing,
    /// A flush covers the writes that had ended when the last write before it *came*, not when the
    /// flush came: the effect of a POSTFLUSH issued before its data.
    FlushTooEarly,
    /// A flush covers the writes that had ended when the previous flush came: the effect of sharing
    /// a flush too late.
    FlushShared,
    /// The cache is drained in any order, even over newer data that overtook it.
    DrainsStale,
}

impl Flaw {
    /// All flaws.
    pub const ALL: &[Flaw] = &[
        Flaw::ForgetsFua,
        Flaw::FlushMissesOne,
        Flaw::FlushDoesNothing,
        Flaw::FlushTooEarly,
        Flaw::FlushShared,
        Flaw::DrainsStale,
    ];
}

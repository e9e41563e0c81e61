// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flaws: ways in which a disk breaks its word about what is durable.
//!
//! A crash test is worth what it finds. Each flaw is what a wrong flush sequencer would look like
//! from the medium, or what real disks have been caught at; the crash test has to find every one.
//! A flawed disk is wrong whenever it can be, not once.

/// How a disk breaks its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A write with forced unit access stays in the cache as any other.
    ForgetsFua,
    /// A flush leaves one write behind.
    FlushMissesOne,
    /// A flush is answered, and nothing has been drained.
    FlushDoesNothing,
    /// A flush covers what had ended when the last write before it *came*, not when the flush
    /// came: what a POSTFLUSH issued before its data would do.
    FlushTooEarly,
    /// A flush covers what had ended when the flush before it came: what a flush that was shared
    /// too late would do.
    FlushShared,
    /// What lies in the cache is drained in any order, also over newer data that went past it.
    DrainsStale,
}

impl Flaw {
    /// All of them.
    pub const ALL: &[Flaw] = &[
        Flaw::ForgetsFua,
        Flaw::FlushMissesOne,
        Flaw::FlushDoesNothing,
        Flaw::FlushTooEarly,
        Flaw::FlushShared,
        Flaw::DrainsStale,
    ];
}

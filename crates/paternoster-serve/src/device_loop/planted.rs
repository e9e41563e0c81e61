// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planted: bugs that the server had, or might have, put back by tests that have to find them.
//!
//! Each bug is a line at its place, which asks whether this thread has chosen it; the built program
//! has none of them.

use std::cell::Cell;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Other replies do not wait for an open read (finding 1).
    Interleaves,
    /// A failed durable write is forgotten (finding 2).
    ForgetsDoubt,
    /// An image has as many owners as want it (finding 3).
    LocksNothing,
    /// All memory is lent to those that ask first (finding 4).
    LendsAll,
    /// The end of a change looks at all waiting changes (finding 5).
    LooksAtAll,
    /// A question for holes is answered whole (finding 6).
    TellsAllRuns,
    /// A cap is charged for data of a refused request (finding 7).
    ChargesRefused,
    /// A new server owes no flush for what the one before has left.
    OwesNothing,
    /// A stop closes connections at once, whatever was accepted.
    ClosesAtOnce,
    /// A durable write is told as done while another may be told of its loss.
    AsksNoWitness,
    /// The same of durable zeroes, where data bypass the page cache.
    TrustsZeroes,
    /// The next flush repeats a failed sync, and believes its result.
    ForgetsLoss,
    /// A file's loss is noted for one volume that has it open, and not for the others.
    LosesAlone,
    /// The rest of a short read or write is not moved.
    BelievesShort,
    /// A call that was interrupted is an error.
    TellsInterrupted,
    /// The part of a write's fragment that has come is not handed over.
    ForgetsFilled,
    /// Connections are handed over while requests of theirs are under way.
    LeavesAtOnce,
    /// A process that has handed over flushes at its end.
    WorksOn,
    /// Bytes read after a connection's last request stay counted.
    ForgetsRests,
    /// Heads of replies stay counted as unsent.
    KeepsHeads,
    /// Caps set by a reload do not apply.
    OverlooksCaps,
    /// A refused reload leaves its rules in force.
    KeepsRules,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// From now on this thread's servers have this bug, or none.
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this thread has chosen the bug.
pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

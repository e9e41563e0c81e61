// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work: one source of I/Os for all clones of a job, instead of a pattern for each.
//!
//! ```text
//! job ──begin──▶ NextIo ◀─ next? ── clone 2    gets the next request, whatever clones 0 and 1 got
//! ```
//!
//! No option of fio's says it: other workloads give their rules to a job (sysbench does), and the
//! language knows only that there is something to ask. Directions and places are not those of `rw`
//! then.
//!
//! Invariant: what comes next depends on the rules, the seed, and the order in which clones ask.

use std::fmt::Debug;

use paternoster_core::Nanos;

use super::offsets::Piece;
use super::syncs::SyncKind;

/// The rules of a job's common work.
pub trait Work: Debug + Send + Sync {
    /// The beginning of the work, for this many clones.
    fn begin(&self, clones: u32, seed: u64) -> Box<dyn NextIo>;
}

/// The work, as far as it has come.
pub trait NextIo: Debug {
    /// What clone number `clone`, from 0, does next, and when it may begin, counted from the start;
    /// `None` at the end.
    fn next(&mut self, clone: u32) -> Option<(Task, Nanos)>;
}

/// A clone's next task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A read, a write or a trim.
    Io(Piece),
    /// A sync of one of its files.
    Sync(SyncKind, usize),
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ledger: the stream of events, checked and counted (W8), and the counts of a whole run.
//!
//! The ledger is the queue's observer, and gets each event and note as it happens. It cannot fail
//! in the middle of a call, so it keeps a breach, which the driver checks for after each step. The
//! census shows afterwards that a run went everywhere: a driver under which nothing is merged,
//! refused or woken proves nothing.
//!
//! # Invariants
//! I1  Events and notes have one sequence of numbers, without gaps, at times that do not go back.
//! I2  `digest` depends on each event, on when each note came, and on nothing else: two runs of the
//!     same calls have the same one.

use paternoster_core::{Action, Event, Nanos, Note, Observer};

/// What happened in a run, to see that the driver goes everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) submitted: u64,
    pub(crate) commands: u64,
    pub(crate) merged: u64,
    pub(crate) busies: u64,
    pub(crate) wakes: u64,
    pub(crate) flushes: u64,
    pub(crate) refusals: u64,
    pub(crate) cancels: u64,
    pub(crate) merged_cancels: u64,
    pub(crate) changes: u64,
    pub(crate) idle_waits: u64,
    pub(crate) joined: u64,
    /// A hash of all events and notes: the same calls, the same answers.
    pub(crate) digest: u64,
}

/// Checks the stream (W8) and counts it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sequence: u64,
    at: Nanos,
    pub(super) issued: u64,
    pub(super) completed: u64,
    pub(super) refused: u64,
    pub(super) joined: u64,
    pub(super) digest: u64,
    pub(super) breach: Option<String>,
}

impl Ledger {
    fn follow(&mut self, at: Nanos, sequence: u64, words: [u64; 3]) {
        if sequence != self.sequence || at < self.at {
            let expected = self.sequence;
            self.breach = Some(format!("W8: event {sequence} at {at}, expected {expected}"));
        }
        self.sequence = sequence + 1;
        self.at = at;
        for word in [at.0, words[0], words[1], words[2]] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Observer for Ledger {
    fn event(&mut self, event: &Event) {
        match event.action {
            Action::Issue => self.issued += 1,
            Action::Complete => self.completed += 1,
            Action::Requeue => self.refused += 1,
            _ => {}
        }
        let letter = u64::from(u32::from(event.action.letter()));
        let words = [letter, event.sector, u64::from(event.sectors)];
        self.follow(event.at, event.sequence, words);
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        self.joined += u64::from(matches!(note, Note::QueuesMerged { .. }));
        self.follow(at, sequence, [0; 3]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planted bugs: the test of the tests.
//!
//! Compiled only with the feature `planted-bugs`, which this crate's own tests enable. A queue with
//! one of these bugs does the wrong thing once, at its n-th opportunity; the property test has to
//! notice.

/// The kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A sleeping client is taken off the list without a wake.
    LostWake,
    /// A bio is handed back twice.
    DoubleCompletion,
    /// Only the first bio of a merged request ends.
    ForgottenBio,
    /// A completion of the old elevator's request is reported to the new one.
    OldEpoch,
    /// A flush of a cache that is not clean issues no command. (Needs `flush_elide`.)
    ElidedFlush,
    /// A write whose data must be flushed after it is flushed before it instead.
    EarlyPostflush,
    /// A flush requested while one is in the device counts as done by that one.
    SharedTooLate,
    /// A queue that was held for a flush stays held.
    LostRestart,
}

/// A queue's planted bug, if it has one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planted {
    bug: Option<Bug>,
    /// A bug has been planted: the automatic audit stays off, the test calls it itself.
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    sick: bool,
    /// Opportunities to let pass first.
    after: u32,
    /// Whether a hold is never lifted.
    stuck: bool,
}

impl Planted {
    /// A bug that strikes once, after `after` opportunities.
    pub(crate) const fn new(bug: Bug, after: u32) -> Planted {
        Planted { bug: Some(bug), sick: true, after, stuck: false }
    }

    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    pub(crate) const fn is_sick(&self) -> bool {
        self.sick
    }

    fn strikes(&mut self, bug: Bug) -> bool {
        if self.bug != Some(bug) {
            return false;
        }
        if self.after == 0 {
            self.bug = None;
            return true;
        }
        self.after -= 1;
        false
    }

    pub(crate) fn loses_wake(&mut self) -> bool {
        self.strikes(Bug::LostWake)
    }

    pub(crate) fn completes_twice(&mut self) -> bool {
        self.strikes(Bug::DoubleCompletion)
    }

    pub(crate) fn forgets_merged_bio(&mut self, merged: bool) -> bool {
        merged && self.strikes(Bug::ForgottenBio)
    }

    pub(crate) fn elides_too_many(&mut self, dirty: bool) -> bool {
        dirty && self.strikes(Bug::ElidedFlush)
    }

    pub(crate) fn postflushes_early(&mut self, has_data_first: bool) -> bool {
        has_data_first && self.strikes(Bug::EarlyPostflush)
    }

    pub(crate) fn shares_late(&mut self, somebody_waits: bool) -> bool {
        somebody_waits && self.strikes(Bug::SharedTooLate)
    }

    pub(crate) fn forgets_restart(&mut self, held: bool) {
        self.stuck |= held && self.strikes(Bug::LostRestart);
    }

    pub(crate) const fn holds_for_ever(&self) -> bool {
        self.stuck
    }

    pub(crate) fn completes_old_epoch(&mut self) -> bool {
        self.strikes(Bug::OldEpoch)
    }
}

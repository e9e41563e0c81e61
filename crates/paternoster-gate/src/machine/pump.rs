// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pump: the queue is asked what goes, behind each call that may have changed that.
//!
//! It is asked until it has nothing more, as its contract has it, but for one answer that is known
//! beforehand: where nothing waits in it, and it has told of all that ended, it says so.
//!
//! ```text
//! ask        submit ─▶ next: Issue                (it has no more: not asked)
//! give back  complete ─▶ next: Done               (it had nothing before: not asked)
//! ```
//!
//! For a permit that waits for nothing these are two questions of four.
//!
//! # Invariant (see `check`)
//! I1  Between two calls `untold` is 0, and `is_empty` says whether anything waits in the queue.

use paternoster_core::{Output, Tag};

use super::Core;
use super::entry::Stage;

impl Core {
    /// Lets in what may be, and lets the queue do what it wants done.
    pub(super) fn pump(&mut self) {
        loop {
            self.admit();
            // What is granted is paid for, and a floor behind which it was may have more to move.
            if !self.issue() || self.rated.is_empty() {
                break;
            }
        }
        self.classes.let_groups_go(&mut self.queue, self.now);
    }

    /// Whether anything was granted.
    fn issue(&mut self) -> bool {
        let mut granted = false;
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => {
                    self.grant(command.tag);
                    granted = true;
                    // Behind a choice no timer is set: was that the last that waited?
                    self.is_empty = self.waiting == self.kept;
                }
                Output::Done(..) => self.untold -= 1,
                Output::Wake(_) => {}
                Output::Wait { until, .. } => {
                    self.is_empty = self.waiting == self.kept;
                    self.queue_wakes = until;
                    return granted;
                }
            }
            if self.is_empty && self.untold == 0 {
                // The queue would say that it has nothing, as it did.
                self.queue_wakes = None;
                return granted;
            }
        }
    }

    fn grant(&mut self, tag: Tag) {
        let cookie = self.queue.cookies(tag).next();
        let Some(index) = cookie.and_then(|cookie| u32::try_from(cookie).ok()) else { return };
        self.stops_waiting(index, true);
        let entry = self.entries.at_mut(index);
        entry.stage = Stage::Granted;
        entry.granted = self.now;
        entry.tag = Some(tag);
        entry.clock = self.clock.enter(self.now);
        self.out.enter(index, entry.holder);
        if let Some(class) = entry.class.and_then(|class| self.classes.get_mut(class)) {
            class.inside += 1;
            class.counts.granted += 1;
            class.counts.waited += self.now - entry.asked;
            class.pace.granted(self.now, entry.asked, entry.was_first);
        }
        self.fresh.push_back(&mut self.fresh_links, index);
    }
}

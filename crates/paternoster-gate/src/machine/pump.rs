// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pump: asks the queue what to do, after each call that may have changed that.
//!
//! The contract is to ask it until it has nothing more, but that last answer is skipped where it is
//! known beforehand: when nothing waits in the queue, and it has reported all ends.
//!
//! ```text
//! ask        submit ─▶ next: Issue                (it has no more: not asked)
//! give back  complete ─▶ next: Done               (it had nothing before: not asked)
//! ```
//!
//! For a permit that need not wait this saves two calls of four.
//!
//! # Invariant (see `check`)
//! I1  Between two calls `untold` is 0, and `is_empty` says whether anything waits in the queue.

use paternoster_core::{Output, Tag};

use super::Core;
use super::entry::Stage;

impl Core {
    /// Admits what may go in, and lets the queue do its work.
    pub(super) fn pump(&mut self) {
        loop {
            self.admit();
            // Granted permits are paid for, and a floor may have more to move.
            if !self.issue() || self.rated.is_empty() {
                break;
            }
        }
        self.classes.let_groups_go(&mut self.queue, self.now);
    }

    /// Issues permits; returns whether anything was granted.
    fn issue(&mut self) -> bool {
        let mut granted = false;
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => {
                    self.grant(command.tag);
                    granted = true;
                    // After a choice no timer is set: was that the last one waiting?
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
                // The queue would say again that it has nothing.
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

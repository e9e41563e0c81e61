// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending: what a loop does about a device that hangs while the server stops.
//!
//! ```text
//! stop ──drain-timeout──▶ clients are gone ──device-timeout──▶ stuck: logged, left behind
//! ```
//!
//! A kernel or a thread may still write to the memory of a command that has not ended. So nothing
//! of a stuck loop is freed: its memory, files and threads stay until the process ends.

use super::DeviceLoop;
#[cfg(test)]
use super::planted::{self, Bug};
use crate::config::{Level, quantity};
use crate::log::Entry;

impl DeviceLoop {
    /// Whether the server stops, and the device has not ended its commands in time.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_waited_for() && self.stop.is_late(self.time.now, self.settings.device_timeout)
    }

    /// Whether the device, or the thread that asks for holes, has unfinished work.
    pub(super) const fn is_waited_for(&self) -> bool {
        !self.commands.is_empty() || self.surveys.is_asking()
    }

    /// What the device has not ended, in words.
    pub(super) fn under_way(&self) -> String {
        let mut words = self.commands.under_way(|tag| match self.fragment_of(tag) {
            None => "a flush".to_owned(),
            Some(fragment) => self.requests.in_words(fragment),
        });
        if self.surveys.is_asking() {
            words.push_str(", a question for holes");
        }
        words
    }

    /// Says that the device hangs, and leaves everything as it is.
    pub(super) fn leave_behind(mut self, under_way: &str) {
        let why = format!(
            "it hangs: {under_way} did not end within {}; what was acknowledged and not flushed \
             may be lost",
            quantity::show_time(self.settings.device_timeout)
        );
        Entry::new(Level::Error, "stuck")
            .with("device", &*self.name)
            .tell(format_args!("device {}: {why}", self.name));
        self.stop.answer(|| Err(why.clone()));
        std::mem::forget(self);
    }

    /// Makes everything that was accepted durable; returns whether the device has answered.
    pub(super) fn flush_at_the_end(&mut self) -> bool {
        #[cfg(test)]
        let has_left = self.handover.is_done() && !planted::has(Bug::WorksOn);
        #[cfg(not(test))]
        let has_left = self.handover.is_done();
        if has_left {
            // The open file description now belongs to the other process, and so do its flush
            // errors.
            return true;
        }
        let by = self.time.clock.now() + self.settings.device_timeout;
        let Some(errno) = self.commands.flush_and_wait(self.time.now, &self.time.clock, by) else {
            return false;
        };
        if errno != 0 {
            let error = std::io::Error::from_raw_os_error(errno);
            crate::log::tell(format_args!(
                "paternoster: device {}: the last flush failed: {error}",
                self.name
            ));
        }
        true
    }
}

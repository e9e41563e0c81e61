// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending: what a loop does about a device that hangs while the server stops.
//!
//! ```text
//! stop ──drain-timeout──▶ clients are gone ──device-timeout──▶ stuck: logged, left behind
//! ```
//!
//! A kernel or a thread may still write to the memory of a command that has not ended. So nothing
//! of a stuck loop is freed: its memory, files and threads stay until the process ends.

use paternoster_core::Nanos;

use super::DeviceLoop;
use super::io_fragment::Io;
#[cfg(test)]
use super::planted::{self, Bug};
use crate::config::{Level, quantity};
use crate::log::Entry;

/// How many commands are listed one by one.
const TOLD: usize = 4;

impl DeviceLoop {
    /// Whether the server stops, and the device has not ended its commands in time.
    pub(super) fn is_stuck(&self) -> bool {
        let by = self.stop_by.map(|by| by.0.saturating_add(self.device_timeout.0));
        self.is_waited_for() && by.is_some_and(|by| by <= self.now.0)
    }

    /// Whether the device, or the thread that asks for holes, has unfinished work.
    pub(super) const fn is_waited_for(&self) -> bool {
        self.in_device != 0 || self.surveys.is_asking()
    }

    /// What the device has not ended, in words: at most [`TOLD`] one by one.
    pub(super) fn under_way(&self) -> String {
        let mut words = format!("{} commands", self.in_device);
        for (number, tag) in self.tags.iter().flatten().take(TOLD).enumerate() {
            words.push_str(if number == 0 { ": " } else { ", " });
            match self.fragment_of(*tag) {
                None => words.push_str("a flush"),
                Some(fragment) => {
                    let Io { request, .. } = self.ios.at(self.fragments.at(fragment).io);
                    let (kind, length, at) = (request.kind, request.length, request.offset);
                    words.push_str(&format!("{kind:?} of {length} bytes at {at}"));
                }
            }
        }
        if self.in_device as usize > TOLD {
            words.push_str(", …");
        }
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
            quantity::show_time(self.device_timeout)
        );
        Entry::new(Level::Error, "stuck")
            .with("device", &*self.name)
            .tell(format_args!("device {}: {why}", self.name));
        for asked in std::mem::take(&mut self.stop_asked) {
            let _gone = asked.answer.send(Err(why.clone()));
        }
        std::mem::forget(self);
    }

    /// The deadline of the last flush.
    pub(super) fn last_flush_by(&self) -> Nanos {
        self.clock.now() + self.device_timeout
    }

    /// Makes everything that was accepted durable; returns whether the device has answered.
    pub(super) fn flush_at_the_end(&mut self) -> bool {
        #[cfg(test)]
        let has_left = self.has_left && !planted::has(Bug::WorksOn);
        #[cfg(not(test))]
        let has_left = self.has_left;
        if has_left {
            // The open file description now belongs to the other process, and so do its flush
            // errors.
            return true;
        }
        let job = crate::device::Job {
            slot: 0,
            work: crate::device::Work::Flush,
            file: 0,
            offset: 0,
            length: 0,
            pieces: &[],
            sector: 0,
        };
        if self.lender.submit(self.now, job, &mut Vec::new()).is_err() {
            return true;
        }
        self.lender.kick();
        let limit = self.last_flush_by();
        while !self.lender.reap(self.clock.now()) && self.clock.now() < limit {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let Some(finished) = self.lender.ended(&mut Vec::new()) else { return false };
        if finished.error != 0 {
            let error = std::io::Error::from_raw_os_error(finished.error);
            crate::log::tell(format_args!(
                "paternoster: device {}: the last flush failed: {error}",
                self.name
            ));
        }
        true
    }
}

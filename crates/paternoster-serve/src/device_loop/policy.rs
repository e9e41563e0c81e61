// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policy: a scheduler that broke a law is replaced, and this is reported.
//!
//! ```text
//! loop ─▶ queue ─▶ watched scheduler: a law is broken      (see `watchdog`)
//!      ─▶ bfq takes what waits ─▶ log, status, metrics ─▶ loop again
//! ```
//!
//! The loop asks the queue at least every 250 ms, so that a scheduler that keeps the device idle is
//! detected, and replaced, in less than a second.
//!
//! Invariants: I1 the new scheduler has all waiting requests; I2 `ctl save` writes nothing that was
//! not ordered.

use super::DeviceLoop;
use crate::config::DEFAULT_SCHEDULER;

/// Schedulers that have failed.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// The last one and why, as long as its replacement is in use.
    last: Option<(String, String)>,
    failures: u64,
}

impl Policy {
    /// An order or the file has chosen another one.
    pub(super) fn forgive(&mut self) {
        self.last = None;
    }

    /// The chosen scheduler: not its replacement.
    pub(super) fn ordered<'a>(&'a self, present: &'a str) -> &'a str {
        self.last.as_ref().map_or(present, |(name, _)| name)
    }

    pub(super) fn words(&self) -> String {
        self.last.as_ref().map(|(name, why)| format!("{name} {why}")).unwrap_or_default()
    }

    pub(super) const fn failures(&self) -> u64 {
        self.failures
    }
}

impl DeviceLoop {
    /// Changes the scheduler, with the same defaults as at the start (see `open.rs`).
    pub(super) fn change_scheduler(&mut self, name: &str) -> Result<(), String> {
        self.recorded_queue.change_elevator(self.now, name)?;
        let requests = self.recorded_queue.limits().requests.to_string();
        for (name, value) in [("nr_requests", &*requests), ("low_latency", "0")] {
            // A scheduler without this attribute needs no such default.
            let _unknown = self.recorded_queue.set_attribute(self.now, name, value);
        }
        Ok(())
    }

    /// Whether the scheduler had to be replaced.
    pub(super) fn replace_what_failed(&mut self) -> bool {
        let Some(why) = self.recorded_queue.broken_law().map(str::to_owned) else { return false };
        let failed = self.recorded_queue.queue().elevator_name().to_owned();
        // It is one of ours.
        let _known = self.change_scheduler(DEFAULT_SCHEDULER);
        crate::log::tell(format_args!(
            "paternoster: device {}: the scheduler {failed} {why}: {DEFAULT_SCHEDULER} has taken \
             over, with all requests; `ctl scheduler {failed}` tries it again",
            self.name
        ));
        self.policy.failures += 1;
        self.policy.last = Some((failed, why));
        true
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Think: the pauses of a process, by `thinktime` and its kin.
//!
//! ```text
//! thinktime_blocks=2, completed     i i ── i i ── i i            counted at each end
//! thinktime_blocks_type=issue       the same, counted at each issue
//! thinktime_iotime=1s               I/O for a second, then a pause
//! ```
//!
//! What is under way is waited for before a pause begins.
//!
//! Source: spec `fio.md` 3.5.

use paternoster::Nanos;

use crate::fio::job::Job;

/// When a process thinks, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Think {
    pause: Nanos,
    pub(super) spin: Nanos,
    every: u64,
    at_issue: bool,
    io_time: Nanos,
    /// Since when there has been no pause.
    since: Nanos,
    counted: u64,
    due: bool,
    pub(super) until: Nanos,
}

impl Think {
    pub(super) fn new(job: &Job) -> Think {
        Think {
            pause: job.thinktime,
            spin: job.thinktime_spin.min(job.thinktime),
            every: u64::from(job.thinktime_blocks.max(1)),
            at_issue: job.think_at_issue,
            io_time: job.think_io_time,
            since: Nanos::ZERO,
            counted: 0,
            due: false,
            until: Nanos::ZERO,
        }
    }

    pub(super) fn start(&mut self, now: Nanos) {
        self.since = now;
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    pub(super) fn issued(&mut self, now: Nanos) {
        if self.at_issue {
            self.count(now);
        }
    }

    /// Those that end while what is under way drains count on.
    pub(super) fn completed(&mut self, now: Nanos) {
        if !self.at_issue {
            self.count(now);
        }
    }

    fn count(&mut self, now: Nanos) {
        self.counted += 1;
        let reached = if self.io_time > Nanos::ZERO {
            now - self.since >= self.io_time
        } else {
            self.counted.is_multiple_of(self.every)
        };
        self.due |= self.pause > Nanos::ZERO && reached;
    }

    /// Nothing is under way any more: begins the pause that is due. Returns its length.
    pub(super) fn begin(&mut self, now: Nanos) -> Nanos {
        if !std::mem::take(&mut self.due) {
            return Nanos::ZERO;
        }
        self.until = now + self.pause;
        self.since = self.until;
        self.pause
    }
}

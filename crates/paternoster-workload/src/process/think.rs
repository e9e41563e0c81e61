// SPDX-License-Identifier: MIT OR Apache-2.0
//! Think: the pauses of a process, by `thinktime` and its kin.
//!
//! ```text
//! depth 4, thinktime_blocks=1    iiii ──── i ──── i ──── i       of the whole job, not of a slot
//! thinktime_blocks=3             iiiiii ── i ── iiiii ── i       counted as fio takes them back
//! thinktime_blocks_type=issue    i ──── i ──── i ──── i          counted as they are issued
//! thinktime_iotime=1s            I/O for a second, then a pause
//! ```
//!
//! After each I/O that it has issued fio checks whether enough were counted since its last pause;
//! if so it waits for what is in flight, and pauses. It reaps I/Os only when its depth is full, as
//! many as `iodepth_batch_complete_min` and `_max` say until `iodepth_low` is reached, or when it
//! has to wait for its rate. What it reaps while it waits before a pause counts for the next one.
//! So at a depth of 4 every pause but the first comes after one I/O: the one that follows it finds
//! the awaited ones counted.
//!
//! A pause by time comes when `thinktime_iotime` has passed since the end of the last, the first
//! one a `thinktime` later than that; also by number only if `thinktime_blocks` is given.
//!
//! # Invariants
//! I1  `taken` <= `ended` <= `issued`, and they are equal when a pause begins.
//! I2  While a pause is due nothing is issued.
//!
//! Source: fio 3.33, measured; the program's `tests/all/thinks.rs` does it again.

use paternoster_core::Nanos;

use super::reaping::Rounds;
use crate::fio::job::Job;

/// When a process thinks, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Think {
    pause: Nanos,
    pub(super) spin: Nanos,
    /// I/Os between two pauses, if they are counted.
    blocks: Option<u64>,
    at_issue: bool,
    io_time: Nanos,
    rounds: Rounds,
    issued: u64,
    ended: u64,
    /// How many of the ended I/Os fio would have reaped.
    taken: u64,
    /// The count when the last pause became due.
    counted: u64,
    /// When the last pause began.
    since: Nanos,
    /// Whether the depth is full and the process waits for an I/O to reap.
    full: bool,
    due: bool,
    pub(super) until: Nanos,
}

impl Think {
    pub(super) fn new(job: &Job) -> Think {
        let blocks =
            job.think.thinktime_blocks.or((job.think.think_io_time == Nanos::ZERO).then_some(1));
        Think {
            pause: job.think.thinktime,
            spin: job.think.thinktime_spin.min(job.think.thinktime),
            blocks: blocks.map(u64::from),
            at_issue: job.think.think_at_issue,
            io_time: job.think.think_io_time,
            rounds: Rounds::new(job),
            issued: 0,
            ended: 0,
            taken: 0,
            counted: 0,
            since: Nanos::ZERO,
            full: false,
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
        self.issued += 1;
        if self.rounds.polls {
            self.taken = self.ended;
        }
        self.full = self.issued - self.taken >= self.rounds.depth;
        self.go_on(now);
    }

    pub(super) fn completed(&mut self, now: Nanos) {
        self.ended += 1;
        if self.full {
            self.go_on(now);
        }
    }

    /// The process waits for its rate, and takes back what has ended.
    pub(super) fn waits(&mut self) {
        self.taken = self.ended;
    }

    /// Reaps, if it is full, and checks whether a pause is due.
    fn go_on(&mut self, now: Nanos) {
        while self.full {
            let takes = self.rounds.takes(self.ended - self.taken, self.issued - self.taken);
            if takes == 0 {
                return;
            }
            self.taken += takes;
            self.full = self.issued - self.taken > self.rounds.low;
        }
        let count = if self.at_issue { self.issued } else { self.taken };
        let enough = self.blocks.is_some_and(|blocks| count - self.counted >= blocks);
        let over = self.io_time > Nanos::ZERO && now - self.since >= self.io_time + self.pause;
        if self.pause > Nanos::ZERO && (enough || over) {
            self.due = true;
            self.counted = count;
        }
    }

    /// Nothing is in flight any more: begins the due pause. Returns its length.
    pub(super) fn begin(&mut self, now: Nanos) -> Nanos {
        if !std::mem::take(&mut self.due) {
            return Nanos::ZERO;
        }
        self.taken = self.ended;
        self.since = now;
        self.until = now + self.pause;
        self.pause
    }
}

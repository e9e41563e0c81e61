// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reaping: when fio takes back I/Os that have ended, which is when their latencies end.
//!
//! A fio process submits, reaps and submits again; what ends while it is in a submission waits:
//!
//! ```text
//! depth 4, 2 requests       #1 begins, #2, #3 sleeps for a request
//!   #1 ends                 held: the process sleeps, and #3 goes on
//!   #4 sleeps, #2 ends      held: #1 #2
//!   #4 goes on              4 that fio knows of: full, so it reaps one, #1, and submits #5
//! ```
//!
//! So `iodepth` I/Os are in flight by its latencies, however few requests the queue has, and a
//! latency is `iodepth` divided by the rate (Little's law). The device has done the I/O by then,
//! and its request is free: when an I/O is *counted* is its end, here as without this.
//!
//! A round of reaping takes at least `iodepth_batch_complete_min` and at most
//! `iodepth_batch_complete_max`, the oldest first; rounds follow until at most `iodepth_low` are in
//! flight. A process that waits for anything but its submission has reaped all that has ended.
//!
//! # Invariants
//! I1  Held I/Os and those in flight are at most `iodepth` together.
//! I2  Nothing is held while the process waits for a completion.
//!
//! Source: FIO-53, FIO-59.

use std::collections::VecDeque;

use paternoster_core::Nanos;

use super::Process;
use super::end::Ended;
use crate::fio::job::{Engine, Job, SubmitMode};

/// How completed I/Os are reaped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    pub(super) depth: u64,
    pub(super) low: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    /// After each issue, without waiting.
    pub(super) polls: bool,
}

impl Rounds {
    pub(super) fn new(job: &Job) -> Rounds {
        let polls = job.queue.iodepth_batch_complete_min == 0;
        // A buffered I/O has ended when its submission has: to poll then finds it at once.
        let at_once = polls && job.cache.direct != Some(true);
        let depth = if job.queue.engine == Engine::Async && !at_once {
            job.queue.iodepth.max(1)
        } else {
            1
        };
        let least = job.queue.iodepth_batch_complete_min.clamp(1, depth);
        Rounds {
            depth: u64::from(depth),
            low: u64::from(job.queue.iodepth_low.clamp(1, depth)),
            least: u64::from(least),
            most: u64::from(job.queue.iodepth_batch_complete_max.max(least)),
            polls,
        }
    }

    /// How many I/Os a round takes: `ended` of the `known` ones have ended; 0 while it waits for
    /// more of them.
    pub(super) fn takes(&self, ended: u64, known: u64) -> u64 {
        if ended < self.least.min(known) { 0 } else { ended.min(self.most) }
    }
}

/// I/Os that have ended and that fio would not have reaped yet.
#[derive(Debug)]
pub(super) struct Reaping {
    rounds: Rounds,
    held: VecDeque<Ended>,
}

impl Reaping {
    /// None for a process that submits and reaps by itself: one of a blocking engine, of buffered
    /// I/O, and one that others submit for.
    pub(super) fn new(job: &Job) -> Option<Reaping> {
        let submits = job.queue.engine == Engine::Async
            && job.cache.direct == Some(true)
            && job.queue.submit_mode == SubmitMode::Inline;
        let rounds = Rounds::new(job);
        let depth = usize::try_from(rounds.depth).unwrap_or(usize::MAX);
        submits.then(|| Reaping { rounds, held: VecDeque::with_capacity(depth) })
    }

    /// How many are held.
    pub(super) fn held(&self) -> u32 {
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }

    /// How many the next round takes, if `depth` may be in flight and `in_flight` are, without
    /// those that are held.
    fn round(&self, depth: u64, in_flight: u64, more: bool) -> u64 {
        let held = self.held.len() as u64;
        let known = in_flight + held;
        if self.rounds.polls {
            return held;
        }
        let wanted = if more { known > self.rounds.low.min(depth) } else { known >= depth };
        if wanted { self.rounds.takes(held, known) } else { 0 }
    }
}

impl Process {
    /// Whether it could reap nothing that ends now: it is in a submission, or in a sync.
    pub(super) fn is_amid_submission(&self, now: Nanos) -> bool {
        let thinks = now < self.think.until;
        let full = self.known_to_fio() >= self.depth_now();
        self.slots.is_blocked() || self.sync.is_some() || now < self.ready_at && !thinks && !full
    }

    /// I/Os in flight as fio knows them.
    pub(super) fn known_to_fio(&self) -> u32 {
        self.in_flight() + self.reaping.as_ref().map_or(0, Reaping::held)
    }

    /// Holds an I/O that has ended, until it is reaped.
    pub(super) fn hold(&mut self, now: Nanos, io: Ended) {
        match &mut self.reaping {
            Some(reaping) => reaping.held.push_back(io),
            None => self.tell(now, &io),
        }
    }

    /// A submission has returned: reaps if the depth is full.
    pub(super) fn reap_rounds(&mut self, now: Nanos) {
        if self.slots.is_blocked() || self.reaping.as_ref().is_none_or(|it| it.held() == 0) {
            return;
        }
        let (depth, in_flight) = (u64::from(self.depth_now()), u64::from(self.in_flight()));
        let mut more = false;
        loop {
            let round = self.reaping.as_ref().map_or(0, |it| it.round(depth, in_flight, more));
            if round == 0 {
                return;
            }
            self.tell_oldest(now, round);
            more = true;
        }
    }

    /// The process waits for something else than a submission, and has reaped everything.
    pub(super) fn reap_held(&mut self, now: Nanos) {
        if !self.slots.is_blocked() {
            self.tell_oldest(now, u64::MAX);
        }
    }

    fn tell_oldest(&mut self, now: Nanos, most: u64) {
        let mut told = 0;
        while u64::from(told) < most
            && let Some(io) = self.reaping.as_mut().and_then(|it| it.held.pop_front())
        {
            self.tell(now, &io);
            told += 1;
        }
        if told > 0 {
            self.statistics.reaped(told);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Act: what a process does whenever it is called, as far as it can.
//!
//! ```text
//! completions ─▶ the current call or sync ─▶ next step ─▶ begun, and on
//!                                                └ nothing, or not yet: until when
//! Running ──data, deadline, error──▶ Draining ──all ended, last syncs──▶ Ended
//! ```
//!
//! Invariants: I1 it returns only when nothing more can be done at this instant; I2 a process that
//! has ended has nothing in flight.
//!
//! Source: FIO-46, FIO-61, FIO-62.

use paternoster_core::{Nanos, Observer, RequestQueue};

use super::next::Step;
use super::{EIO, Phase, Process, Progress, Shared};
use crate::fio::pace::MinimumRate;

impl Process {
    /// Does what can be done at `now`. Returns when to call again, if time alone brings something
    /// new.
    pub fn act<O: Observer>(
        &mut self,
        now: Nanos,
        shared: &mut Shared,
        queue: &mut RequestQueue<O>,
    ) -> Option<Nanos> {
        loop {
            if matches!(self.phase, Phase::Running | Phase::Draining) {
                self.begin_measuring(now);
            }
            self.check_rates(now);
            let (identity, cache) = (self.identity, &mut shared.cache);
            while let Some(io) = self.slots.settle(now, identity, cache, queue) {
                self.end_io(now, io);
            }
            if let Some(runner) = self.runner {
                shared.relays.completed(runner, std::mem::take(&mut self.untold), now);
            }
            match self.go_on(now, shared, queue) {
                Progress::Ended => {}
                Progress::Waiting => return None,
                Progress::Until(at) => return Some(at),
            }
            if self.phase != Phase::Running {
                return self.drain(now, shared, queue);
            }
            if now >= self.deadline {
                self.phase = Phase::Draining;
                continue;
            }
            let wish = match self.next_step(now, shared) {
                Step::Begin(planned) => {
                    self.begin(now, planned, shared, queue);
                    continue;
                }
                Step::Sync(kind, place) => {
                    self.begin_sync(now, kind, place, &shared.cache);
                    continue;
                }
                Step::EndLoop => {
                    self.end_batch(now, queue);
                    self.reap(now);
                    self.reap_held(now);
                    self.end_loop(now, shared);
                    continue;
                }
                Step::Stop => {
                    self.end_of_data();
                    self.phase = Phase::Draining;
                    continue;
                }
                Step::Busy(at) => at,
                // A batch is gathered while its process computes, not while it waits.
                Step::Until(at) => {
                    self.end_batch(now, queue);
                    self.reap(now);
                    self.reap_held(now);
                    self.think.waits();
                    at
                }
                Step::Nothing => {
                    self.end_batch(now, queue);
                    if self.reap_if_due(now) {
                        continue;
                    }
                    self.reap_held(now);
                    // A completion or a wake will call.
                    Nanos::MAX
                }
            };
            let ramp_ends = if self.measuring { Nanos::MAX } else { self.measure_from };
            let check = self.minimum.as_ref().map_or(Nanos::MAX, MinimumRate::next_check);
            let at = wish.min(self.deadline).min(ramp_ends).min(check);
            return (at != Nanos::MAX).then_some(at);
        }
    }

    /// Everything was issued: waits for what is in flight, thinks the last thought, syncs.
    fn drain<O: Observer>(
        &mut self,
        now: Nanos,
        shared: &mut Shared,
        queue: &mut RequestQueue<O>,
    ) -> Option<Nanos> {
        self.end_batch(now, queue);
        if self.slots.in_flight() == 0 {
            // The remaining I/Os are reaped together.
            self.reap(now);
        }
        self.reap_held(now);
        // A thought that the last I/O brought is thought to its end.
        let until = self.think.until.min(self.deadline);
        if self.phase == Phase::Draining && self.in_flight() == 0 && now < until {
            return Some(until);
        }
        if self.phase == Phase::Draining && self.in_flight() == 0 {
            if !self.ends_last {
                self.ends_last = true;
                self.plan_last_syncs(true);
            }
            if self.begin_last_sync(now, &shared.cache) {
                return self.act(now, shared, queue);
            }
        }
        self.end_if_drained(now, shared);
        None
    }

    /// Between two loops: the syncs that end one, in turn.
    fn end_loop(&mut self, now: Nanos, shared: &Shared) {
        if self.last_syncs.is_empty() {
            self.plan_last_syncs(false);
        }
        let _begun = self.begin_last_sync(now, &shared.cache);
        self.ends_loop = !self.last_syncs.is_empty();
    }

    /// Goes on with the current call or sync; `Ended` if there is none any more.
    fn go_on<O: Observer>(
        &mut self,
        now: Nanos,
        shared: &mut Shared,
        queue: &mut RequestQueue<O>,
    ) -> Progress {
        let (identity, cache) = (self.identity, &mut shared.cache);
        if let Some(call) = &mut self.call {
            let progress = call.go_on(now, identity, &mut self.ahead[self.file], cache, queue);
            if progress != Progress::Ended {
                return progress;
            }
            self.end_call(now, cache);
        }
        if let Some(sync) = &mut self.sync {
            let progress = sync.go_on(now, identity, cache, queue);
            if progress != Progress::Ended {
                return progress;
            }
            self.end_sync(now);
        }
        Progress::Ended
    }

    /// At the end of a cycle: was the least rate kept?
    fn check_rates(&mut self, now: Nanos) {
        if self.phase == Phase::Running
            && let Some(minimum) = &mut self.minimum
            && minimum.check(now).is_err()
        {
            self.fail(EIO);
        }
    }

    /// The process has failed: it issues nothing more.
    pub(super) fn fail(&mut self, errno: i32) {
        self.error = errno;
        self.phase = Phase::Draining;
        self.pending = None;
        self.last_syncs.clear();
    }

    /// I/Os in flight: submitted and not yet reaped.
    pub(super) fn in_flight(&self) -> u32 {
        self.slots.in_flight() + u32::try_from(self.finished.len()).unwrap_or(u32::MAX)
    }

    fn end_if_drained(&mut self, now: Nanos, shared: &mut Shared) {
        if self.phase == Phase::Draining && self.in_flight() == 0 {
            self.phase = Phase::Ended;
            self.ended = self.ended.max(now.min(self.deadline));
            // What would have been due after the runtime was never owed.
            let cut = self.ended.min(self.deadline);
            if let Some(unread) = self.player.as_ref().and_then(|player| player.unread(cut)) {
                self.statistics.frames_mut().unread_at_end(unread);
            }
            self.statistics.end(self.ended);
            self.record.end(self.ended - self.began);
            if let Some(member) = self.flow {
                shared.flows.leave(member);
            }
            if let Some(runner) = self.runner {
                shared.relays.leave(runner, now);
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! End: what a process counts when an I/O, a call or a sync has ended.

use paternoster_core::Nanos;

use super::buffered::Call;
use super::direct::Io;
use super::sync::{Steps, SyncCall};
use super::{ETIMEDOUT, Phase, Process, join};
use crate::direction::Direction;
use crate::fio::cmdprio::IoPriority;
use crate::fio::frames::{FrameEnd, Player};
use crate::fio::job::Engine;
use crate::fio::job_logs::LoggedIo;
use crate::fio::latency_target::Verdict;
use crate::fio::syncs::{FileSync, SyncKind};
use crate::page_cache::PageCache;
use crate::page_cache::pages::Run;

/// One I/O that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    direction: Direction,
    offset: u64,
    bytes: u64,
    slat: Nanos,
    /// Its completion latency counts from then on.
    submitted: Nanos,
    error: i32,
    priority: Option<IoPriority>,
}

impl Process {
    /// The last bio of an I/O has ended: it is reaped, at once or together with others.
    pub(super) fn end_io(&mut self, now: Nanos, io: Io) {
        self.finished.push_back(io);
        if self.reap_least == 1 {
            self.reap(now);
        }
    }

    /// Takes back what has ended, if the process waits for no more of it. False if it does.
    pub(super) fn reap_if_due(&mut self, now: Nanos) -> bool {
        let ended = u32::try_from(self.finished.len()).unwrap_or(u32::MAX);
        let enough = ended >= self.reap_least || self.slots.in_flight() == 0;
        if ended == 0 || !enough && !self.think.is_due() {
            return false;
        }
        self.reap(now);
        true
    }

    /// Takes back what has ended.
    pub(super) fn reap(&mut self, now: Nanos) {
        let count = u32::try_from(self.finished.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return;
        }
        let held = self.reaping.is_some() && self.is_amid_submission(now);
        if self.reaping.is_none() {
            self.statistics.reaped(count);
        }
        self.statistics.waited();
        while let Some(io) = self.finished.pop_front() {
            self.take(now, &io);
        }
        if !held {
            self.reap_held(now);
        }
        self.filling |= self.in_flight() <= self.low;
    }

    fn take(&mut self, now: Nanos, io: &Io) {
        let accepted = io.accepted.max(io.began);
        // An open loop's I/O is late from when it should have come.
        let (slat, submitted) = if self.engine == Engine::Async && !self.offload {
            (accepted - io.began, accepted)
        } else {
            (Nanos::ZERO, io.began)
        };
        // A process that blocks computes again from here on; another may be amid a submission.
        if self.engine != Engine::Async || self.ready_at <= now {
            self.ready_at = now + self.submit_cost;
        }
        let (direction, offset, bytes) = (io.direction, io.offset, io.bytes);
        if let (Some(kind), Direction::Write, 0) = (self.syncs.each, direction, io.error) {
            // A direct file has no dirty pages: what remains is the flush.
            let nothing = Run { first: 0, pages: 0 };
            let steps = Steps::whole(kind == SyncKind::Fdatasync);
            self.sync = Some(SyncCall::new(io.began, steps, io.number, nothing));
            self.durable = Some(Call::new(io.began, direction, io.number, offset, bytes));
            return;
        }
        let (error, priority) = (io.error, io.drawn);
        let io = Ended { direction, offset, bytes, slat, submitted, error, priority };
        self.count(now, &io);
        self.hold(now, io);
        self.pause_if_due(now);
    }

    pub(super) fn end_call(&mut self, now: Nanos, cache: &PageCache) {
        let Some(call) = self.call.take() else { return };
        if call.direction == Direction::Write && call.error == 0 {
            let unsynced = &mut self.unsynced[self.file];
            *unsynced = Some(join(*unsynced, call.run()));
            if self.syncs.open != FileSync::None || self.syncs.each.is_some() {
                // The call goes on as a sync of what it wrote, or of the whole file.
                let whole = Run { first: 0, pages: cache.pages_of(call.file) };
                let run = if self.syncs.each.is_some() { whole } else { call.run() };
                let data_only = self.syncs.open == FileSync::Dsync
                    || self.syncs.each == Some(SyncKind::Fdatasync);
                let steps = Steps::whole(data_only);
                self.sync = Some(SyncCall::new(call.began, steps, call.file, run));
                self.durable = Some(call);
                return;
            }
        }
        self.count_call(now, &call, call.error);
    }

    fn count_call(&mut self, now: Nanos, call: &Call, error: i32) {
        let took = now - call.began;
        // An asynchronous engine does buffered I/O while it submits.
        let asynchronous = self.engine == Engine::Async;
        let (slat, submitted) = if asynchronous { (took, now) } else { (Nanos::ZERO, call.began) };
        (0..call.waits).for_each(|_| self.statistics.waited());
        self.statistics.cpu_in_kernel(call.copying);
        self.statistics.reaped(1);
        // Only a direct write that went on as an fsync has to compute before the next.
        self.ready_at = if self.buffered { now } else { now + self.submit_cost };
        let (direction, offset, bytes) = (call.direction, call.offset, call.bytes);
        let io = Ended { direction, offset, bytes, slat, submitted, error, priority: None };
        self.count(now, &io);
        self.tell(now, &io);
        self.pause_if_due(now);
    }

    /// Counts an I/O that has ended.
    fn count(&mut self, now: Nanos, io: &Ended) {
        self.begin_measuring(now);
        self.untold += 1;
        if io.error == 0 {
            self.statistics.ended(now, io.direction, io.bytes);
            if let Some(minimum) = &mut self.minimum {
                minimum.completed(now, io.direction, io.bytes);
            }
            self.play(|player| player.completed(now, io.bytes));
        } else {
            self.fail(io.error);
        }
        self.ended = now;
        self.think.completed(now);
    }

    /// Tells the latency of an I/O that has ended, and is reaped now.
    pub(super) fn tell(&mut self, now: Nanos, io: &Ended) {
        self.begin_measuring(now);
        let asynchronous = self.engine == Engine::Async;
        let Ended { direction, offset, bytes, slat, submitted, priority, .. } = *io;
        let clat = now - submitted;
        if io.error == 0 {
            self.statistics.latency(direction, slat, clat, asynchronous);
            self.watch(now, direction, slat + clat);
        }
        if !self.record.is_empty() {
            let (at, completion) = (now - self.began, clat);
            let submission = asynchronous.then_some(slat);
            self.record.completed(&LoggedIo {
                at,
                direction,
                bytes,
                offset,
                submission,
                completion,
                priority,
            });
        }
    }

    /// Thinks, if it has to and nothing is in flight any more.
    fn pause_if_due(&mut self, now: Nanos) {
        if self.think.is_due() && self.in_flight() == 0 {
            let rest = self.ready_at.max(now) - now;
            let pause = self.think.begin(now);
            self.pace.thought(pause);
            self.ready_at = self.think.until + rest;
            self.statistics.cpu(self.think.spin);
        }
    }

    /// A step of a player, which may have ended a frame.
    fn play(&mut self, step: impl FnOnce(&mut Player) -> Option<FrameEnd>) {
        if let Some(end) = self.player.as_mut().and_then(step) {
            self.statistics.frames_mut().ended(end);
        }
    }

    /// Everything there is was issued.
    pub(super) fn end_of_data(&mut self) {
        self.play(Player::source_ended);
    }

    /// Checks the latency of each I/O: is it too long, and what does the search say?
    fn watch(&mut self, now: Nanos, direction: Direction, latency: Nanos) {
        if self.max_latency[direction as usize].is_some_and(|most| latency > most) {
            self.fail(ETIMEDOUT);
        }
        match self.search.as_mut().map(|search| search.completed(now, latency)) {
            // The report is of the last window.
            Some(Verdict::Found(_)) if !self.goal.goes_on => self.statistics.start(now),
            Some(Verdict::TooLong) => self.fail(ETIMEDOUT),
            Some(Verdict::Done) if self.phase == Phase::Running => self.phase = Phase::Draining,
            _ => {}
        }
        // A depth that has grown is filled at once.
        self.filling |= self.search.is_some();
    }

    pub(super) fn end_sync(&mut self, now: Nanos) {
        let Some(sync) = self.sync.take() else { return };
        if let Some(call) = self.durable.take() {
            self.count_call(now, &call, sync.error);
            return;
        }
        self.begin_measuring(now);
        self.ended = now;
        if self.source.is_generated() {
            // Asking a generator costs CPU time, even for what costs the device nothing.
            self.ready_at = now + self.submit_cost;
        }
        if sync.error != 0 {
            self.fail(sync.error);
        } else if sync.counts {
            self.statistics.synced(now - sync.began);
        } else {
            self.statistics.closed();
        }
    }
}

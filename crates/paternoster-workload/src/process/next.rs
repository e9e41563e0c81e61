// SPDX-License-Identifier: MIT OR Apache-2.0
//! Next: what a running process does now, or until when it does nothing.
//!
//! ```text
//! room in its depth?  CPU free?  a sync in turn?   source ──▶ planned ──▶ may it begin?
//!        no: nothing     until        sync                         rate, time, flow, overlap
//! ```
//!
//! `source.rs` says what comes next (pattern, verification, log); its rate, its think time, its
//! frames, its chain, its share of a flow, its turn in a relay and the depth of a search say when
//! it may begin. What may not begin yet is kept and asked about again, so that nothing is drawn
//! twice.
//!
//! Source: FIO-53, FIO-62 to FIO-66.

use paternoster_core::Nanos;

use super::source::Planned;
use super::{Process, Shared};
use crate::fio::frames::{Player, Turn};
use crate::fio::job::Engine;
use crate::fio::recorded::Link;
use crate::fio::relay::Baton;
use crate::fio::syncs::SyncKind;
use crate::fio::work::Task;

/// What comes next for a running process.
pub(super) enum Step {
    Begin(Planned),
    /// A sync of the file at this place.
    Sync(SyncKind, usize),
    /// A loop ends with syncs, before the next one begins.
    EndLoop,
    /// The CPU is busy until then.
    Busy(Nanos),
    /// The process waits until then.
    Until(Nanos),
    Nothing,
    Stop,
}

impl Process {
    /// What to do now.
    pub(super) fn next_step(&mut self, now: Nanos, shared: &mut Shared) -> Step {
        if self.engine == Engine::Cpu {
            return self.burn(now);
        }
        let full = self.slots.is_full() || self.in_flight() >= self.depth_now();
        if self.slots.is_blocked() || full || !self.filling || self.think.is_due() {
            return Step::Nothing;
        }
        if now < self.ready_at {
            // After thinking it has nothing to gather any more.
            let thinks = now < self.think.until;
            return if thinks { Step::Until(self.ready_at) } else { Step::Busy(self.ready_at) };
        }
        if let Some(step) = self.sync_in_turn() {
            return step;
        }
        if self.ends_loop {
            return if self.in_flight() > 0 { Step::Nothing } else { Step::EndLoop };
        }
        if self.pending.is_none() {
            self.source.paced(self.pace.waits(now));
        }
        let planned = self.pending.take().or_else(|| self.source.next());
        let loop_ended = self.source.take_loop_end();
        self.ends_loop = loop_ended && self.syncs.ends_with_sync();
        let Some(planned) = planned else {
            let step = self.sync_in_vain();
            if !loop_ended {
                self.ends_last |= self.source.has_more() && (step.is_some() || self.last_was_sync);
                return step.unwrap_or(Step::Stop);
            }
            // If a sync follows its last I/O, a pass ends without further syncs.
            self.ends_loop &= step.is_none() && !self.last_was_sync;
            // A further pass knows nothing of syncs in the one before.
            self.forgets_sync = step.is_some();
            self.last_was_sync = false;
            return step.unwrap_or_else(|| self.next_step(now, shared));
        };
        if self.ends_loop {
            self.pending = Some(planned);
            return if self.in_flight() > 0 { Step::Nothing } else { Step::EndLoop };
        }
        let step = self.when(now, &planned, shared);
        if !matches!(step, Step::Begin(_)) {
            self.pending = Some(planned);
        }
        step
    }

    /// With several files a due sync takes one's turn, before the next I/O is drawn.
    fn sync_in_turn(&mut self) -> Option<Step> {
        if self.files.len() < 2 || self.pending.is_some() {
            return None;
        }
        let kind = self.syncs.due(self.writes, self.last_was_sync)?;
        let place = self.source.sync_file()?;
        Some(Step::Sync(kind, place))
    }

    /// A sync that is due where the job has bytes left and its region has not: fio notices only
    /// afterwards.
    fn sync_in_vain(&self) -> Option<Step> {
        if self.files.len() != 1 || !self.source.has_more() {
            return None;
        }
        Some(Step::Sync(self.syncs.due(self.writes, self.last_was_sync)?, 0))
    }

    /// Whether a task may begin, or when, or after what.
    fn when(&self, now: Nanos, planned: &Planned, shared: &mut Shared) -> Step {
        let mut at = self.began.0.saturating_add(planned.after.0);
        match self.player.as_ref().map(Player::turn) {
            Some(Turn::AfterFrame) => return Step::Nothing,
            Some(Turn::At(due)) => at = at.max(due.0),
            Some(Turn::Now) | None => {}
        }
        match planned.link {
            Link::After(_) if self.in_flight() > 0 => return Step::Nothing,
            Link::After(think) => at = at.max((self.ended + think).0),
            Link::Ahead | Link::Free => {}
        }
        match self.runner.map(|runner| shared.relays.baton(runner, now)) {
            Some(Baton::Away) => return self.wait_for_others(shared),
            Some(Baton::Coming(begins)) => at = at.max(begins.0),
            Some(Baton::Here) | None => {}
        }
        if let Task::Io(piece) = planned.task {
            at = at.max(self.pace.due(piece.direction).0);
            let extent = self.files[piece.file];
            if self.serialize_overlap && self.slots.overlaps(extent, piece.offset, piece.bytes) {
                return Step::Nothing;
            }
        }
        if now.0 < at {
            return Step::Until(Nanos(at));
        }
        match self.flow {
            Some(member) if !shared.flows.may_issue(member) => {
                if self.flow_sleep > Nanos::ZERO {
                    return Step::Until(now + self.flow_sleep);
                }
                self.wait_for_others(shared)
            }
            _ => Step::Begin(*planned),
        }
    }

    /// It asks again when others of its flow or relay have gone on.
    fn wait_for_others(&self, shared: &mut Shared) -> Step {
        if !shared.waiting.contains(&self.identity.number) {
            shared.waiting.push_back(self.identity.number);
        }
        Step::Nothing
    }

    /// One round of `cpuio`: burns, then sleeps.
    fn burn(&mut self, now: Nanos) -> Step {
        if now >= self.ready_at {
            let (busy, idle) = self.cycle;
            self.statistics.cpu(busy);
            self.ended = (now + busy).min(self.deadline);
            self.ready_at = now + busy + idle;
        }
        Step::Until(self.ready_at)
    }
}

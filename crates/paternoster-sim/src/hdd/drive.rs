// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drive: a disk from its connector to its platters, for commands with names of any kind.
//!
//! ```text
//! submit ──▶ in a segment, or dirty ──▶ controller and link ─────────────▶ ended
//!        ├─▶ write with room ─────────▶ controller and link ─────────────▶ ended … drains later
//!        ├─▶ write without room ──────▶ stalled until something drains ──▶ ended
//!        ├─▶ read, write to medium ───▶ pending ──chosen──▶ mechanism ───▶ ended
//!        └─▶ flush ───────────────────▶ drains all that is dirty now ────▶ ended
//! ```
//!
//! The mechanism does one thing at a time. Whenever it is free it *decides*: a flush's dirty extent
//! (by turns with overdue commands), an overdue command, the nearest pending one, a dirty extent if
//! the cache is half full or nothing came for a while. It finishes what it begins, and its end is
//! computed at the decision; between decisions the head reads ahead, which delays no command
//! (`segments.rs`).
//!
//! A flush that cannot be queued (`flush_queueable = false`, ATA's FLUSH CACHE) is refused while
//! anything else is inside, and until it has ended the drive refuses every command; on a completion
//! the driver tries again.
//!
//! # Device time
//! A command is in service from the decision to serve it to its end; one answered from the cache,
//! for as long as controller and link take; a flush from its beginning. Waiting inside the drive
//! and background draining are charged to no command. But while writes wait for room, draining is
//! not in the background: the first of them is in service as long as the mechanism drains (see
//! `drain.rs`).
//!
//! # Invariants
//! I1  Every command that was not refused ends once.
//! I2  Decisions and ends come in order of time.
//! I3  A flush ends after everything that was acknowledged before it is on the medium.
//! I4  The device times add up to the time that something was in service.
//!
//! Source: own; `docs/rules/devices.md`.

mod drain;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use paternoster_core::device::ServiceClock;
use paternoster_core::{Nanos, Op, Refused};

use super::bus::{Bus, FromMedium};
use super::mechanism::{Arm, Mechanism, Sweep};
use super::schedule::{Candidate, Choice, Order, choose};
use super::segments::{Found, SegmentSizes, Segments};
use super::write_cache::{WriteCache, WriteRoom};
use crate::transfer::Transfer;

/// Never.
const NEVER: u64 = u64::MAX;
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// What the controller costs for one kind of command: after a read, after a write.
pub type AfterReadWrite = [Nanos; 2];

/// What the controller costs before anything else happens. A disk that is less well known has the
/// same value everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overheads {
    /// A read that the cache answers.
    pub read_hit: AfterReadWrite,
    /// A read from the medium.
    pub read_miss: AfterReadWrite,
    /// A write that the cache takes.
    pub write_hit: AfterReadWrite,
    /// A write to the medium.
    pub write_miss: AfterReadWrite,
}

impl Overheads {
    /// One cost for hits, one for commands that need the mechanism.
    #[must_use]
    pub const fn even(hit: Nanos, miss: Nanos) -> Overheads {
        let (hit, miss) = ([hit, hit], [miss, miss]);
        Overheads { read_hit: hit, read_miss: miss, write_hit: hit, write_miss: miss }
    }
}

/// Everything that is known of a disk.
#[derive(Debug, Clone)]
pub struct DriveParameters {
    /// Arm and platters.
    pub mechanism: Mechanism,
    /// Commands it takes at a time, at least 1.
    pub depth: u32,
    /// How it orders them.
    pub order: Order,
    /// Its read cache.
    pub segments: SegmentSizes,
    /// Its write cache.
    pub room: WriteRoom,
    /// How long the drive must be idle before it drains without need.
    pub drain_delay: Nanos,
    /// How many of the oldest dirty extents compete.
    pub drain_window: u32,
    /// What a flush costs in addition to draining, if anything was written since the last.
    pub flush_base: Nanos,
    /// Whether other commands are taken while it flushes.
    pub flush_queueable: bool,
    /// What the controller costs.
    pub overheads: Overheads,
    /// The link to the host.
    pub link: Transfer,
    /// The same for what is written.
    pub write_link: Transfer,
    /// What a shared bus costs in addition.
    pub bus: Bus,
}

/// A task for a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The operation.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Whether a write must be on the medium when it ends.
    pub fua: bool,
}

/// A task that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended<T> {
    /// The name it was given.
    pub id: T,
    /// The time of the end.
    pub at: Nanos,
    /// The task's device time.
    pub served: Nanos,
}

/// A task inside the drive.
#[derive(Debug, Clone, Copy)]
struct Slot<T> {
    id: T,
    task: Task,
    /// When the controller has decoded it.
    ready: u64,
    /// The clock's reading when its service began.
    entered: Nanos,
    /// Device time it had before that: of the drains that made room for it.
    had: Nanos,
}

/// A write that waits for room in the cache.
#[derive(Debug, Clone, Copy)]
struct Stalled {
    slot: u32,
    since: u64,
}

/// A flush that waits or runs.
#[derive(Debug, Clone, Copy)]
struct Flush {
    slot: u32,
    stage: FlushStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlushStage {
    /// Other tasks are before it.
    Waiting,
    /// The mechanism works on it.
    Draining,
    /// Its end has been computed.
    Done,
}

/// A disk at work. `T` names its tasks.
#[derive(Debug)]
pub struct Drive<T> {
    parameters: Arc<DriveParameters>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<u32>,
    /// Wait for the mechanism, in the order of their arrival.
    pending: Vec<Candidate>,
    /// Writes that wait for room, in the order of their arrival.
    stalled: VecDeque<Stalled>,
    flushes: VecDeque<Flush>,
    /// Ends that are computed: when, in which order they were computed, of which task.
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
    order: u64,
    segments: Segments,
    writes: WriteCache,
    /// Whether anything was written since the last flush.
    unflushed: bool,
    arm: Arm,
    /// When the mechanism has done what was decided.
    free_at: u64,
    /// When controller and link have done what the caches answered.
    link_free: u64,
    /// When the last task came or was acknowledged.
    last_task: u64,
    /// Index into pairs of overheads: 1 if the last task was a write.
    after_write: usize,
    /// The sector after the last one read or written.
    behind: u64,
    /// Until then the mechanism drains.
    drains_until: u64,
    /// The last thing that the mechanism did was a drain.
    drained: bool,
    /// The waiting write that is in service because room is being made for it.
    makes_room_for: Option<u32>,
    /// When the mechanism decides next; kept up to date by `plan`.
    decision: u64,
    clock: ServiceClock,
}

impl<T: Copy> Drive<T> {
    /// A fresh drive; its arm is over the outermost track.
    #[must_use]
    pub fn new(parameters: Arc<DriveParameters>) -> Drive<T> {
        let depth = parameters.depth.max(1);
        Drive {
            slots: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
            pending: Vec::with_capacity(depth as usize),
            stalled: VecDeque::with_capacity(depth as usize),
            flushes: VecDeque::with_capacity(depth as usize),
            ends: BinaryHeap::with_capacity(depth as usize),
            order: 0,
            segments: Segments::new(parameters.segments),
            writes: WriteCache::new(parameters.room),
            unflushed: false,
            arm: Arm::default(),
            free_at: 0,
            link_free: 0,
            last_task: 0,
            after_write: 0,
            behind: 0,
            drains_until: 0,
            drained: false,
            makes_room_for: None,
            decision: NEVER,
            clock: ServiceClock::default(),
            parameters,
        }
    }

    /// Sectors of 512 bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.parameters.mechanism.geometry.capacity()
    }

    /// Takes a task at `now`, which is not before the time of any earlier call.
    ///
    /// # Errors
    /// [`Refused`] when it is full, or while a flush that cannot be queued runs; such a flush
    /// itself, while anything else is inside.
    pub fn submit(&mut self, now: Nanos, id: T, task: Task) -> Result<(), Refused> {
        let alone = task.op == Op::Flush && !self.is_empty();
        if !self.parameters.flush_queueable && (alone || !self.flushes.is_empty()) {
            return Err(Refused);
        }
        let slot = self.free.pop().ok_or(Refused)?;
        let now = now.0;
        let entry = Slot { id, task, ready: now, entered: Nanos::ZERO, had: Nanos::ZERO };
        self.slots[slot as usize] = Some(entry);
        let extent = (task.sector, task.sector + u64::from(task.sectors));
        match task.op {
            Op::Read => self.take_read(now, slot, extent),
            Op::Write => self.take_write(now, slot, extent, task.fua),
            Op::Flush => {
                self.flushes.push_back(Flush { slot, stage: FlushStage::Waiting });
                self.begin_flush(now);
            }
            _ => {
                // A discard at most changes a table of the controller.
                let overhead = self.parameters.overheads.write_hit[self.after_write];
                self.answer(now, slot, now, overhead, 0);
            }
        }
        if matches!(task.op, Op::Read | Op::Write) {
            self.behind = extent.1;
        }
        self.last_task = self.last_task.max(now);
        self.plan(now);
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// When something happens in it next, if anything is under way.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let end = self.ends.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        let event = end.min(self.decision);
        (event != NEVER).then_some(Nanos(event))
    }

    /// Does what is due at `now` and returns the first task that ended by it, if any. Called again
    /// until it returns `None`.
    pub fn advance(&mut self, now: Nanos) -> Option<Ended<T>> {
        loop {
            let end = self.ends.peek().map_or(NEVER, |Reverse((at, ..))| *at);
            if end.min(self.decision) > now.0 {
                return None;
            }
            if end <= self.decision {
                let Reverse((at, _, slot)) = self.ends.pop()?;
                if let Some(ended) = self.end(at, slot) {
                    return Some(ended);
                }
            } else {
                let now = self.decision;
                self.decide(now);
                self.plan(now);
            }
        }
    }

    /// Reads.
    fn take_read(&mut self, now: u64, slot: u32, extent: (u64, u64)) {
        let parameters = Arc::clone(&self.parameters);
        let overheads = &parameters.overheads;
        let after = std::mem::replace(&mut self.after_write, 0);
        let idle = self.pending.is_empty() && self.flushes.is_empty();
        let found = if self.writes.covers(extent.0, extent.1) {
            Found::All(now)
        } else {
            self.segments.find(&parameters.mechanism, now, extent, idle)
        };
        let from = match found {
            Found::All(ready) => {
                if ready > now {
                    // The head must get that far before it does anything else.
                    self.free_at = self.free_at.max(ready);
                }
                let sectors = extent.1 - extent.0;
                return self.answer(now, slot, ready, overheads.read_hit[after], sectors);
            }
            Found::Until(held) => held,
            Found::Nothing => extent.0,
        };
        let ready = now + overheads.read_miss[after].0;
        let left = parameters.bus.read_leaves(ready, after);
        self.await_mechanism(now, slot, (from, extent.1), false, ready, left);
    }

    /// Writes.
    fn take_write(&mut self, now: u64, slot: u32, extent: (u64, u64), fua: bool) {
        let parameters = Arc::clone(&self.parameters);
        let (mechanism, overheads) = (&parameters.mechanism, &parameters.overheads);
        let after = std::mem::replace(&mut self.after_write, 1);
        if let Some(sweep) = self.segments.forget(mechanism, now, extent) {
            self.arm = sweep.arm;
        }
        let dirty = |first, end| self.writes.touches(first, end);
        if let Some(sweep) = self.segments.wrote(mechanism, now, extent, dirty) {
            self.arm = sweep.arm;
        }
        let sectors = extent.1 - extent.0;
        if !fua && self.writes.can_hold(sectors) {
            if self.stalled.is_empty() && self.writes.has_room(sectors) {
                return self.acknowledge(now, slot, overheads.write_hit[after]);
            }
            self.stalled.push_back(Stalled { slot, since: now });
            return self.make_room(now);
        }
        let ready = now + overheads.write_miss[after].0;
        // The head must not overtake the data: where the link is slower, enough must have arrived
        // before it begins for the last sector to come in time.
        let place = mechanism.geometry.place(extent.0);
        let sector = mechanism.geometry.passing(&place, 1);
        let (first, all) = (self.write_time(sectors.min(1)), self.write_time(sectors));
        let gathered = first.max(all.saturating_sub(sector * sectors.saturating_sub(1)));
        let bus = &parameters.bus;
        let earliest = bus.write_begins(ready, gathered, extent.0 == self.behind);
        self.await_mechanism(now, slot, extent, true, bus.write_moves(ready), earliest);
    }

    /// Queues a command for the mechanism.
    fn await_mechanism(
        &mut self,
        now: u64,
        slot: u32,
        (sector, end): (u64, u64),
        write: bool,
        ready: u64,
        earliest: u64,
    ) {
        let place = self.parameters.mechanism.geometry.place(sector);
        let arrived = now;
        let candidate = Candidate { slot, sector, end, place, write, arrived, ready, earliest };
        self.pending.push(candidate);
        if let Some(entry) = &mut self.slots[slot as usize] {
            entry.ready = ready;
        }
    }

    /// Takes a write into the cache.
    fn acknowledge(&mut self, now: u64, slot: u32, overhead: Nanos) {
        let Some(Slot { task, .. }) = self.slots[slot as usize] else { return };
        let sectors = u64::from(task.sectors);
        let geometry = &self.parameters.mechanism.geometry;
        self.writes.insert(geometry, task.sector, task.sector + sectors);
        self.unflushed = true;
        self.answer(now, slot, now, overhead, sectors);
    }

    /// Controller and link answer a command whose data are ready at `ready`.
    fn answer(&mut self, now: u64, slot: u32, ready: u64, overhead: Nanos, sectors: u64) {
        let start = now.max(self.link_free) + overhead.0;
        let writes =
            self.slots[slot as usize].as_ref().is_some_and(|entry| entry.task.op == Op::Write);
        let [last, all] = [sectors.min(1), sectors]
            .map(|sectors| if writes { self.write_time(sectors) } else { self.link_time(sectors) });
        // Data that are still coming are passed on as they come: only the last sector is late.
        let end = (start + all).max(ready + last);
        self.link_free = start + all;
        self.last_task = self.last_task.max(end);
        self.enter(now, slot);
        self.end_at(end, slot);
    }

    fn link_time(&self, sectors: u64) -> u64 {
        self.parameters.link.time(sectors * SECTOR).0
    }

    /// The same for what is written.
    fn write_time(&self, sectors: u64) -> u64 {
        self.parameters.write_link.time(sectors * SECTOR).0
    }

    fn enter(&mut self, now: u64, slot: u32) {
        let entered = self.clock.enter(Nanos(now));
        if let Some(entry) = &mut self.slots[slot as usize] {
            entry.entered = entered;
        }
    }

    fn end_at(&mut self, at: u64, slot: u32) {
        self.ends.push(Reverse((at, self.order, slot)));
        self.order += 1;
    }

    fn end(&mut self, at: u64, slot: u32) -> Option<Ended<T>> {
        let entry = self.slots[slot as usize].take()?;
        self.free.push(slot);
        let served = entry.had + self.clock.leave(Nanos(at), entry.entered);
        if self.flushes.front().is_some_and(|flush| flush.slot == slot) {
            self.flushes.pop_front();
        }
        self.begin_flush(at);
        self.plan(at);
        Some(Ended { id: entry.id, at: Nanos(at), served })
    }

    /// Begins the first flush if it may: at once if it can be queued, else alone.
    fn begin_flush(&mut self, now: u64) {
        let alone = self.slots.len() - self.free.len() == 1;
        let may = alone || self.parameters.flush_queueable;
        let Some(flush) = self.flushes.front_mut() else { return };
        if flush.stage != FlushStage::Waiting || !may {
            return;
        }
        flush.stage = FlushStage::Draining;
        let slot = flush.slot;
        self.writes.begin_flush();
        self.enter(now, slot);
        if self.unflushed {
            self.free_at = self.free_at.max(now) + self.parameters.flush_base.0;
            self.unflushed = false;
        }
        let overhead = self.parameters.overheads.write_hit[self.after_write];
        if let Some(entry) = &mut self.slots[slot as usize] {
            entry.ready = now + overhead.0;
        }
    }

    /// Works out at `now` when the mechanism decides next.
    fn plan(&mut self, now: u64) {
        let mut at = NEVER;
        if let Some(first) = self.pending.iter().map(|candidate| candidate.ready).min() {
            at = first;
        }
        if let Some(flush) = self.draining() {
            let ready = self.slots[flush.slot as usize].as_ref().map_or(0, |entry| entry.ready);
            at = at.min(ready);
        } else if !self.stalled.is_empty() {
            at = now;
        }
        if !self.writes.is_clean() {
            let quiet = self.last_task + self.parameters.drain_delay.0;
            at = at.min(if self.writes.is_pressed() { now } else { quiet });
        }
        self.decision = if at == NEVER { NEVER } else { at.max(self.free_at).max(now) };
    }

    /// The flush that has the mechanism.
    fn draining(&self) -> Option<Flush> {
        self.flushes.front().copied().filter(|flush| flush.stage == FlushStage::Draining)
    }

    /// The mechanism is free at `now` and there is something to do.
    fn decide(&mut self, now: u64) {
        let parameters = Arc::clone(&self.parameters);
        self.room_was_made(now);
        if let Some(sweep) = self.segments.stop(&parameters.mechanism, now) {
            self.arm = sweep.arm;
        }
        if let Some(flush) = self.draining() {
            if let Some(overdue) = self.overdue_beside_flush(now) {
                return self.serve(now, overdue);
            }
            match self.nearest_dirty(now, true) {
                Some((dirty, _)) => self.drain(now, dirty),
                None => {
                    self.flushes[0].stage = FlushStage::Done;
                    self.end_at(now, flush.slot);
                }
            }
            return;
        }
        let mechanism = &parameters.mechanism;
        let chosen = choose(mechanism, parameters.order, self.arm, now, &self.pending);
        let pressed = self.writes.is_pressed() || !self.stalled.is_empty();
        match chosen {
            Some(chosen) if !pressed => self.serve(now, chosen),
            Some(chosen) => match self.nearest_dirty(now, false) {
                Some((dirty, away)) if away < chosen.positioning || self.is_stall_overdue(now) => {
                    self.drain(now, dirty);
                }
                _ => self.serve(now, chosen),
            },
            None => {
                if let Some((dirty, _)) = self.nearest_dirty(now, false) {
                    self.drain(now, dirty);
                }
            }
        }
    }

    /// Does a pending command.
    fn serve(&mut self, now: u64, chosen: Choice) {
        let parameters = Arc::clone(&self.parameters);
        let mechanism = &parameters.mechanism;
        let Candidate { slot, sector, end, write, ready, earliest, .. } =
            self.pending.remove(chosen.index);
        self.drained = false;
        self.enter(now, slot);
        let data = if write { earliest } else { 0 };
        let (link, mut passed_on) = (parameters.link, 0);
        // The link has nothing to transfer until a sector has passed.
        let from = |passed: u64, left: u64| {
            passed_on = passed_on.max(passed + link.time(left * SECTOR).0);
        };
        let arm = &mut self.arm;
        let access = mechanism.access_by_stretch(arm, now, (sector, end), write, data, from);
        self.free_at = access.end;
        let Some(Slot { task, .. }) = self.slots[slot as usize] else { return };
        let sectors = u64::from(task.sectors);
        if write {
            // Sectors now on the medium need not be drained; that makes room.
            self.writes.forget(&mechanism.geometry, sector, end);
            self.admit_stalled(now);
            let end = parameters.bus.write_ends(ready, access.end, self.write_time(sectors));
            return self.end_at(end, slot);
        }
        // Data are passed on as they come; the slower of medium and link counts in full.
        let read = access.end.saturating_sub(access.begin);
        // What the cache held of its beginning has been passed on meanwhile.
        let from_medium = end - sector;
        let gathered = access.begin.max(ready) + parameters.bus.gathers(read, from_medium);
        let last = self.link_time(sectors.min(1));
        let read = FromMedium { left: earliest, gathered, end: passed_on.max(access.end + last) };
        let [held, rest] = [sectors.saturating_sub(from_medium), from_medium]
            .map(|sectors| self.link_time(sectors));
        self.end_at(parameters.bus.read_ends(read, held, rest), slot);
        let place = mechanism.geometry.place(sector);
        let mut before = 0;
        if parameters.segments.keep_before {
            let on_track = sector - mechanism.geometry.track(sector).0;
            let passed = mechanism.geometry.passed(&place, access.waited);
            before = u64::from(passed).min(on_track);
        }
        let sweep = Sweep { next: end, at: access.end, arm: self.arm };
        self.segments.filled(mechanism, sector, before, sweep);
    }
}

#[cfg(test)]
mod tests;

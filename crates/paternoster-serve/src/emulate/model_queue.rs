// SPDX-License-Identifier: MIT OR Apache-2.0
//! Line: requests wait in line for a model, which takes a limited number at a time.
//!
//! ```text
//! ask ──▶ waiting (in order) ──piece──▶ model (at most `depth`) ──all pieces──▶ ended
//!             ▲                                                  │
//!             └── its flush, where a write was to last ◀─────────┘
//! ```
//!
//! An I/O is cut into pieces of what the model takes in one command; it has ended when its last
//! piece has. 1 MiB for a device of 1280 sectors:
//!
//! ```text
//! sectors 0 … 2047  ─▶  0 … 1279, 1280 … 2047
//! ```
//!
//! A ragged request takes whole sectors, also at its ends. A model that refuses a command (it is
//! full, or a flush wants to be alone) is asked again after its next event; later requests wait.
//! There is no clock and no file here: the caller gives the time, so that this can be tested by
//! hand.
//!
//! # Invariants
//! I1  The model has at most its own depth of commands.
//! I2  A request ends exactly once, and not before its time in the model.
//! I3  Commands go to the model in the order of their requests, with times that never step
//!     back: a request from before the model's present time begins at that time.

use std::collections::VecDeque;

use paternoster_core::{ClientId, Command, Completion, DeviceFacts, Flags, Nanos, Op, Status, Tag};
use paternoster_sim::Model;

use crate::table::Table;

/// I/Os at a time: one for each thread that waits, and what the kernel has in the background.
pub(super) const IOS_MAX: u32 = 1 << 16;
/// Sectors of one discard, 2 GiB: it has no data, so that its limit is not the model's.
const DISCARD_SECTORS: u64 = 1 << 22;
const SECTOR: u64 = 512;

/// What kind of thing was asked; figures are kept for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// A write, or writing zeroes.
    Write,
    Discard,
    Flush,
}

/// A request for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Io {
    pub(super) kind: Kind,
    /// Offset in bytes; a flush has none.
    pub(super) offset: u64,
    /// At least 1, except of a flush.
    pub(super) length: u64,
    /// A write that is durable when it ends.
    pub(super) lasting: bool,
}

/// A request that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended<T> {
    /// The caller's.
    pub(super) token: T,
    pub(super) kind: Kind,
    /// From its being asked until the model was done.
    pub(super) set: Nanos,
    /// When the model was done.
    pub(super) at: Nanos,
    /// An errno, 0 for none.
    pub(super) error: i32,
}

/// An I/O on its way.
#[derive(Debug)]
struct Held<T> {
    token: T,
    kind: Kind,
    op: Op,
    flags: Flags,
    /// A flush follows, to make this durable.
    then_flush: bool,
    asked: Nanos,
    /// Sectors that the model was not given yet.
    next: u64,
    end: u64,
    in_model: u32,
    error: i32,
}

/// A model, and the requests that wait for it.
#[derive(Debug)]
pub(super) struct ModelQueue<T> {
    model: Box<dyn Model>,
    facts: DeviceFacts,
    /// The latest time given to the model.
    now: Nanos,
    ios: Table<Held<T>>,
    waiting: VecDeque<u32>,
    /// The request that has each slot of the model.
    slots: Vec<Option<u32>>,
    free: Vec<u32>,
}

impl<T> ModelQueue<T> {
    pub(super) fn new(model: Box<dyn Model>) -> ModelQueue<T> {
        let facts = model.facts();
        let depth = facts.depth.max(1);
        ModelQueue {
            model,
            facts,
            now: Nanos::ZERO,
            ios: Table::new(IOS_MAX),
            waiting: VecDeque::new(),
            slots: (0..depth).map(|_| None).collect(),
            // The first is taken first.
            free: (0..depth).rev().collect(),
        }
    }

    /// Whether nothing is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.ios.is_empty()
    }

    /// When something happens next.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.model.next_event()
    }

    /// Takes an I/O that was asked at `at`; what has ended by then goes to `ended`.
    ///
    /// # Errors
    /// Its token, when there are too many.
    pub(super) fn ask(
        &mut self,
        at: Nanos,
        io: Io,
        token: T,
        ended: &mut Vec<Ended<T>>,
    ) -> Result<(), T> {
        self.live(at, ended);
        self.now = self.now.max(at);
        let held = self.held(at, io, token);
        let index = self.ios.insert(held).map_err(|held| held.token)?;
        self.waiting.push_back(index);
        self.feed(ended);
        Ok(())
    }

    fn held(&self, asked: Nanos, io: Io, token: T) -> Held<T> {
        let Io { kind, offset, length, lasting } = io;
        let lasting = lasting && kind == Kind::Write && self.facts.write_cache;
        let op = match kind {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::Discard => Op::Discard,
            Kind::Flush => Op::Flush,
        };
        let (next, end) = match kind {
            // One command.
            Kind::Flush => (0, 1),
            _ => (offset / SECTOR, (offset + length).div_ceil(SECTOR)),
        };
        let flags = if lasting && self.facts.fua { Flags::FUA } else { Flags::NONE };
        let then_flush = lasting && !self.facts.fua;
        Held { token, kind, op, flags, then_flush, asked, next, end, in_model: 0, error: 0 }
    }

    /// The model lives through everything up to `now`.
    pub(super) fn live(&mut self, now: Nanos, ended: &mut Vec<Ended<T>>) {
        while let Some(at) = self.model.next_event().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            while let Some(completion) = self.model.advance(self.now) {
                self.completed(&completion, ended);
            }
            self.feed(ended);
        }
    }

    /// Submits to the model as many requests as it takes.
    fn feed(&mut self, ended: &mut Vec<Ended<T>>) {
        while let (Some(&index), Some(&slot)) = (self.waiting.front(), self.free.last()) {
            let command = command(self.ios.at(index), slot, self.facts.max_sectors);
            if self.model.submit(self.now, &command).is_err() {
                if self.model.next_event().is_some() {
                    return;
                }
                // An idle model that refuses will always refuse: no request waits for ever.
                self.waiting.pop_front();
                let held = self.ios.at_mut(index);
                (held.next, held.error, held.then_flush) = (held.end, libc::EIO, false);
                self.end_if_done(index, self.now, ended);
                continue;
            }
            self.free.pop();
            self.slots[slot as usize] = Some(index);
            let held = self.ios.at_mut(index);
            held.in_model += 1;
            // A flush has no sectors and is one command.
            held.next += u64::from(command.sectors).max(1);
            if held.next >= held.end {
                self.waiting.pop_front();
            }
        }
    }

    fn completed(&mut self, completion: &Completion, ended: &mut Vec<Ended<T>>) {
        let slot = completion.tag.index();
        let Some(index) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        let held = self.ios.at_mut(index);
        held.in_model -= 1;
        match completion.outcome.status {
            Status::Ok => {}
            Status::Failed(errno) => held.error = errno,
            Status::Cancelled => held.error = libc::EIO,
        }
        self.end_if_done(index, completion.at.min(self.now), ended);
    }

    fn end_if_done(&mut self, index: u32, at: Nanos, ended: &mut Vec<Ended<T>>) {
        let held = self.ios.at_mut(index);
        if held.next < held.end || held.in_model > 0 {
            return;
        }
        if held.then_flush && held.error == 0 {
            (held.op, held.next, held.end, held.then_flush) = (Op::Flush, 0, 1, false);
            // The request's turn has come.
            return self.waiting.push_front(index);
        }
        let Held { token, kind, asked, error, .. } = self.ios.release(index);
        ended.push(Ended { token, kind, set: at - asked.min(at), at, error });
    }
}

/// The next piece of an I/O.
fn command<T>(held: &Held<T>, slot: u32, max_sectors: u32) -> Command {
    let most = match held.op {
        Op::Discard => DISCARD_SECTORS,
        _ => u64::from(max_sectors.max(1)),
    };
    let sectors = u32::try_from((held.end - held.next).min(most)).unwrap_or(u32::MAX);
    let (sector, sectors) = if held.op == Op::Flush { (0, 0) } else { (held.next, sectors) };
    let (tag, client) = (Tag::of_slot(slot), ClientId::NOBODY);
    Command { tag, op: held.op, sector, sectors, flags: held.flags, client }
}

#[cfg(test)]
mod tests;

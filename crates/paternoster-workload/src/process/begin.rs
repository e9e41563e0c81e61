// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begin: how a process begins an I/O, a call or a sync.

use paternoster_core::{DeviceFacts, Flags, Nanos, Observer, Outcome, RequestQueue};

use super::buffered::Call;
use super::direct::Request;
use super::durable::Durable;
use super::source::Planned;
use super::sync::{Steps, SyncCall};
use super::{EINVAL, Process, SYNC_SLOT, Shared};
use crate::direction::Direction;
use crate::fio::cmdprio::{IoPriority, PriorityDraw};
use crate::fio::job::Engine;
use crate::fio::offsets::Piece;
use crate::fio::recorded::Link;
use crate::fio::syncs::{FileSync, SyncFileRange, SyncKind};
use crate::fio::work::Task;
use crate::page_cache::PageCache;
use crate::page_cache::extent::Extent;
use crate::page_cache::pages::{PAGE, Run};

impl Process {
    /// Begins what is planned; or the sync that is due before it, after which it is called again.
    pub(super) fn begin<O: Observer>(
        &mut self,
        now: Nanos,
        planned: Planned,
        shared: &mut Shared,
        queue: &mut RequestQueue<O>,
    ) {
        let piece = match planned.task {
            Task::Io(piece) => piece,
            Task::Sync(kind, file) => return self.begin_sync(now, kind, file, &shared.cache),
        };
        if let Some(kind) = self.syncs.due(self.writes, self.last_was_sync) {
            self.pending = Some(planned);
            return self.begin_sync(now, kind, piece.file, &shared.cache);
        }
        let due = self.pace.due(piece.direction);
        self.pace.issued(piece.direction, piece.bytes);
        if let Some(member) = self.flow {
            shared.flows.issued(member);
        }
        if let Some(player) = &mut self.player {
            player.issued(piece.bytes);
        }
        self.think.issued(now);
        self.last_was_sync = false;
        self.file = piece.file;
        self.record.issued(now - self.began, &piece);
        if piece.direction == Direction::Write {
            self.writes += 1;
            self.written[piece.file] = true;
        }
        // Trims have no pages.
        if self.buffered && piece.direction != Direction::Trim {
            self.statistics.issued(1);
            self.statistics.submitted(1);
            let Piece { direction, offset, bytes, file } = piece;
            if offset.saturating_add(bytes) > shared.cache.file(self.files[file]).bytes {
                // Only a log can ask for what lies beyond its device.
                return self.fail(EINVAL);
            }
            self.call = Some(Call::new(now, direction, self.files[file], offset, bytes));
        } else {
            // An open loop counts from when an I/O should have come.
            let from = if self.offload { due.max(self.began).min(now) } else { now };
            let ahead = planned.link == Link::Ahead;
            self.begin_io(now, from, piece, ahead, &mut shared.cache, queue);
        }
    }

    fn begin_io<O: Observer>(
        &mut self,
        now: Nanos,
        from: Nanos,
        piece: Piece,
        ahead: bool,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) {
        let Piece { direction, bytes, file, offset } = piece;
        let drawn =
            self.priorities.as_mut().and_then(|draw| PriorityDraw::next(draw, direction, bytes));
        let extent: Extent = *cache.file(self.files[file]);
        let (flags, durable) = self.ordering(now, &piece, cache, queue.facts());
        let request = Request {
            direction,
            number: self.files[file],
            file: extent,
            offset,
            bytes,
            submitted: if self.engine == Engine::Null { 0 } else { bytes },
            flags: flags | if ahead { Flags::AHEAD } else { Flags::NONE },
            durable,
            drawn,
            priority: drawn.map(IoPriority::in_queue),
        };
        let Some(slot) = self.slots.begin(from, request) else { return };
        self.filling = self.in_flight() < self.depth;
        self.statistics.issued(self.known_to_fio());
        self.ready_at = now + self.submit_cost;
        self.statistics.cpu(self.submit_cost);
        if self.batch > 1 && self.gathered == 0 {
            // The client is ours: it cannot be stale.
            let _plugged = queue.plug(now, self.identity.client);
        }
        self.gathered += 1;
        self.push(now, slot, queue);
        if self.gathered >= self.batch || self.slots.is_full() {
            self.end_batch(now, queue);
        }
        self.reap_rounds(now);
    }

    /// How an I/O orders the device's cache: its flags, and what follows its data.
    fn ordering(
        &self,
        now: Nanos,
        piece: &Piece,
        cache: &mut PageCache,
        facts: &DeviceFacts,
    ) -> (Flags, Option<Durable>) {
        if piece.direction != Direction::Write || self.engine == Engine::Null {
            return (Flags::NONE, None);
        }
        let barrier = self.syncs.is_barrier(self.writes);
        let flags = if barrier { Flags::PREFLUSH | Flags::FUA } else { Flags::NONE };
        let number = self.files[piece.file];
        let first = piece.offset / PAGE;
        let pages = (piece.offset + piece.bytes).div_ceil(PAGE) - first;
        let overwrites = cache.write_directly(now, number, Run { first, pages });
        let data_only = self.syncs.open == FileSync::Dsync;
        // Where metadata must follow, their commit does the flush.
        let alone = !cache.is_journalled(number) || data_only && overwrites;
        match self.syncs.open {
            FileSync::None => (flags, None),
            _ if alone && (facts.fua || !facts.write_cache) => (flags | Flags::FUA, None),
            _ => (flags, Some(Durable::new(number, data_only))),
        }
    }

    /// The gathered batch goes to the queue.
    pub(super) fn end_batch<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        if self.gathered == 0 {
            return;
        }
        self.statistics.submitted(self.gathered);
        self.gathered = 0;
        if self.batch > 1 {
            let _unplugged = queue.unplug(now, self.identity.client);
        }
    }

    fn push<O: Observer>(&mut self, now: Nanos, slot: u32, queue: &mut RequestQueue<O>) {
        if let Some(io) = self.slots.push(now, slot, self.identity, self.batch > 1, queue) {
            self.end_io(now, io);
        }
    }

    /// The queue has room again: goes on with the I/O that got Busy. The call that slept returns
    /// now, so that the next I/O takes its time from here on.
    pub fn woken<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        if let Some(slot) = self.slots.take_blocked() {
            self.ready_at = self.ready_at.max(now + self.submit_cost);
            self.push(now, slot, queue);
            self.reap_rounds(now);
        }
    }

    /// A bio of I/O `slot` has ended.
    pub fn bio_ended(&mut self, now: Nanos, slot: u32, outcome: Outcome) {
        if slot == SYNC_SLOT {
            if let Some(sync) = &mut self.sync {
                sync.flush_ended(outcome);
            }
        } else if let Some(io) = self.slots.bio_ended(slot, outcome) {
            self.end_io(now, io);
        }
    }

    pub(super) fn begin_sync(
        &mut self,
        now: Nanos,
        kind: SyncKind,
        place: usize,
        cache: &PageCache,
    ) {
        self.record.synced(now - self.began, kind, place);
        self.begin_untold_sync(now, kind, place, cache);
    }

    /// The same, left out of the log of I/O.
    fn begin_untold_sync(&mut self, now: Nanos, kind: SyncKind, place: usize, cache: &PageCache) {
        let file = self.files[place];
        let whole = Run { first: 0, pages: cache.pages_of(file) };
        let nothing = Run { first: 0, pages: 0 };
        let written = self.unsynced[place].take().unwrap_or(nothing);
        let (steps, run) = match (kind, self.syncs.range) {
            (SyncKind::Range, range) => {
                // From a log, which lacks the flags: what most callers use.
                let writes =
                    SyncFileRange { wait_before: false, write: true, wait_after: false, every: 1 };
                (Steps::range(range.unwrap_or(writes)), written)
            }
            _ => (Steps::whole(kind == SyncKind::Fdatasync), whole),
        };
        self.source.synced();
        self.last_was_sync = !core::mem::take(&mut self.forgets_sync);
        if steps.durable.is_some() {
            self.written[place] = false;
        }
        self.sync = Some(SyncCall::new(now, steps, file, run));
    }

    /// The syncs at the end of a loop, once all of it has ended: of every file of a job that may
    /// write, otherwise of each that was written; and with `fsync_on_close` again when it is
    /// closed, before the next loop opens it.
    pub(super) fn plan_last_syncs(&mut self, last_loop: bool) {
        if !self.syncs.ends_with_sync() || self.error != 0 {
            return;
        }
        let written = self.written.iter().enumerate();
        let every = self.syncs.every_file || self.may_write;
        let synced = written.filter(|(_, written)| **written || every);
        let places: Vec<usize> = synced.map(|(place, _)| place).collect();
        let closes = self.syncs.on_close && !last_loop;
        if closes {
            // Logs have no entry for a closed file.
            self.last_syncs.extend(places.iter().map(|place| (*place, false)));
        }
        self.last_syncs.extend(places.iter().map(|place| (*place, true)));
    }

    /// Begins the next of them. True if one has just begun. They are not among the syncs in the
    /// job's statistics.
    pub(super) fn begin_last_sync(&mut self, now: Nanos, cache: &PageCache) -> bool {
        let Some((place, told)) = self.last_syncs.pop_front() else { return false };
        if told {
            self.record.synced(now - self.began, SyncKind::Fsync, place);
        }
        self.begin_untold_sync(now, SyncKind::Fsync, place, cache);
        if let Some(sync) = &mut self.sync {
            sync.counts = false;
        }
        true
    }
}

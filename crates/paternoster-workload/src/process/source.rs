// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source: what a process does next: its pattern, its verification, or a log that it replays.
//!
//! ```text
//! pattern   piece piece piece … end of the pass ──▶ verify what was written ──▶ next pass or end
//! log       each entry at its time, syncs among them; or each after those before (a chain)
//! generator what comes next for all clones of the job, for the one that asks (see `fio/work.rs`)
//! ```
//!
//! A pass that ends is followed by another if the job is time_based or has more to do. Clones that
//! share one position (disktest) take the place of their pieces from it.
//!
//! Source: FIO-46, FIO-47, FIO-70, FIO-71; LOAD-4, LOAD-6.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use paternoster_core::Nanos;

use crate::direction::Direction;
use crate::fio::iolog::LogAction;
use crate::fio::job::Job;
use crate::fio::offsets::{Offsets, Piece};
use crate::fio::recorded::{Chain, Link, Recorded};
use crate::fio::syncs::SyncKind;
use crate::fio::verify_plan::VerifyPlan;
use crate::fio::work::{NextIo, Task};

/// One sequential position for several processes: the next to ask gets the next block.
#[derive(Debug, Clone)]
pub struct SharedPosition {
    /// Where the region begins in the file, and how long it is.
    pub region: (u64, u64),
    /// The next offset in the region.
    pub next: Rc<Cell<u64>>,
}

impl SharedPosition {
    /// Moves `piece` to the shared position; `None` at the end of the region.
    fn take(&self, piece: Piece, time_based: bool) -> Option<Piece> {
        let (start, bytes) = self.region;
        let mut at = self.next.get();
        if at + piece.bytes > bytes {
            if !time_based || piece.bytes > bytes {
                return None;
            }
            at = 0;
        }
        self.next.set(at + piece.bytes);
        Some(Piece { offset: start + at, ..piece })
    }
}

/// A clone's access to the generator that all clones of its job have.
#[derive(Debug, Clone)]
pub struct SharedGenerator {
    /// The generator.
    pub generator: Rc<RefCell<Box<dyn NextIo>>>,
    /// The clone, from 0.
    pub clone: u32,
}

impl SharedGenerator {
    fn next(&self) -> Option<Planned> {
        let (task, after) = self.generator.borrow_mut().next(self.clone)?;
        Some(Planned { task, after, link: Link::Free })
    }
}

/// What several clones of a job have together, if they do.
#[derive(Debug, Clone, Default)]
pub struct Together {
    /// The position that all clones share.
    pub position: Option<SharedPosition>,
    /// The shared source of their work.
    pub generator: Option<SharedGenerator>,
}

/// A task, and when it may begin, counted from the start of the job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) task: Task,
    pub(super) after: Nanos,
    pub(super) link: Link,
}

/// Where the tasks of one process come from.
#[derive(Debug)]
pub(super) struct Source {
    offsets: Offsets,
    /// How often the log is still to be replayed.
    replays_left: u64,
    time_based: bool,
    together: Together,
    verify: Option<VerifyPlan>,
    /// Whether blocks are read that a write job would write (verify_only).
    verify_only: bool,
    log: Option<(Arc<Recorded>, usize)>,
    /// One of its `loops` has ended, and the next one has begun.
    loop_ended: bool,
}

impl Source {
    pub(super) fn new(
        job: &Job,
        offsets: Offsets,
        time_based: bool,
        together: Together,
        log: Option<Arc<Recorded>>,
    ) -> Source {
        let never_ends = offsets.never_ends();
        Source {
            offsets,
            replays_left: job.region.loops.saturating_sub(1),
            time_based,
            together,
            verify: VerifyPlan::new(job)
                .filter(|_| !job.verify.only)
                // It would keep what was written for as long as the job runs, and never read it.
                .filter(|plan| !(time_based && never_ends && plan.waits_for_the_end())),
            verify_only: job.verify.only,
            log: log.map(|log| (log, 0)),
            loop_ended: false,
        }
    }

    /// The file of a due sync, of several: it takes the turn of an I/O. `None` if nothing follows,
    /// because a sync that would be the last is not made, or if what follows says it.
    pub(super) fn sync_file(&mut self) -> Option<usize> {
        if self.has_more() { self.offsets.sync_file() } else { None }
    }

    /// A sync was made.
    pub(super) fn synced(&mut self) {
        self.offsets.synced();
    }

    /// Whether the pattern has bytes and I/Os to make, be there room for them or not.
    pub(super) fn has_more(&self) -> bool {
        let of_pattern = self.log.is_none() && self.together.position.is_none();
        of_pattern && self.together.generator.is_none() && self.offsets.has_more()
    }

    /// How long the next read and the next write would have to wait for their rates.
    pub(super) fn paced(&mut self, waits: [Nanos; 2]) {
        self.offsets.paced(waits);
    }

    /// Whether another of its loops has begun; once. The pattern's next task is still to come then,
    /// a log's is the first of that loop.
    pub(super) fn take_loop_end(&mut self) -> bool {
        std::mem::take(&mut self.loop_ended)
    }

    /// Whether a generator gives the work.
    pub(super) const fn is_generated(&self) -> bool {
        self.together.generator.is_some()
    }

    /// The next task; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Planned> {
        if let Some(generator) = &self.together.generator {
            return generator.next();
        }
        if self.log.is_some() {
            return self.next_of_log();
        }
        let at_once =
            |piece| Planned { task: Task::Io(piece), after: Nanos::ZERO, link: Link::Free };
        if let Some(read) = self.verify.as_mut().and_then(VerifyPlan::due) {
            return Some(at_once(read));
        }
        let piece = self.next_placed()?;
        if let Some(verify) = &mut self.verify {
            verify.issued(piece);
        }
        Some(at_once(if self.verify_only && piece.direction == Direction::Write {
            Piece { direction: Direction::Read, ..piece }
        } else {
            piece
        }))
    }

    fn next_of_log(&mut self) -> Option<Planned> {
        let (log, next) = self.log.as_mut()?;
        // A log without an I/O ends with its first pass, whatever `loops` says: no other pass will
        // do better, and who asks goes on at once with the pass that follows.
        if *next > 0 && *next >= log.entries.len() && self.replays_left > 0 {
            self.replays_left -= 1;
            self.loop_ended = true;
            *next = 0;
        }
        let entry = *log.entries.get(*next)?;
        let link = log.chain.as_ref().map(|chain| Chain::link(chain, *next)).unwrap_or_default();
        *next += 1;
        let sync = |kind| Planned { task: Task::Sync(kind, entry.file), after: entry.at, link };
        let direction = match entry.action {
            LogAction::Read => Direction::Read,
            LogAction::Write => Direction::Write,
            LogAction::Trim => Direction::Trim,
            LogAction::Sync => return Some(sync(SyncKind::Fsync)),
            LogAction::Datasync => return Some(sync(SyncKind::Fdatasync)),
            LogAction::SyncFileRange => return Some(sync(SyncKind::Range)),
        };
        let (file, offset, bytes) = (entry.file, entry.offset, entry.bytes);
        let piece = Piece { file, direction, offset, bytes };
        Some(Planned { task: Task::Io(piece), after: entry.at, link })
    }

    /// The next piece, at the position that the job's clones share if they do.
    fn next_placed(&mut self) -> Option<Piece> {
        let piece = self.next_piece()?;
        match &self.together.position {
            None => Some(piece),
            Some(position) => position.take(piece, self.time_based),
        }
    }

    /// The next piece of the pattern, over the end of a pass if there is another one. Between them
    /// is what waits to be verified.
    fn next_piece(&mut self) -> Option<Piece> {
        if let Some(piece) = self.offsets.next() {
            return Some(piece);
        }
        if let Some(read) = self.verify.as_mut().and_then(VerifyPlan::rest) {
            return Some(read);
        }
        if self.time_based && !self.offsets.is_finished() {
            self.offsets.restart();
        } else {
            self.loop_ended = self.offsets.next_pass();
            return None;
        }
        self.offsets.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::jobfile::parse_command_line;
    use crate::fio::offsets::Extent;

    /// Does a time_based job with `verify` keep only what it will read, and read what fio does? Of
    /// 16 blocks, in one file or two, a hundred times over: fio 3.33 reads nothing in one file or
    /// at random, each pass in sequence over two, and with a backlog when that many wait.
    #[test]
    fn verification_keeps_what_it_will_read() {
        for (options, kept_most, reads) in [
            ("--rw=write", 0, 0),
            ("--rw=randwrite", 0, 0),
            ("--rw=randwrite --norandommap", 0, 0),
            ("--rw=randwrite --nrfiles=2", 0, 0),
            ("--rw=randwrite --nrfiles=2 --norandommap", 0, 0),
            ("--rw=write --nrfiles=2", 16, 1600),
            ("--rw=write --verify_backlog=4", 4, 1600),
        ] {
            let line = "--name=v --size=64k --bs=4k --verify=md5 --time_based --runtime=9";
            let words = line.split(' ').chain(options.split(' ')).map(str::to_owned);
            let words: Vec<String> = words.collect();
            let job = parse_command_line(&words, &|_| None).expect(options).jobs.remove(0);
            let names = job.file_names(0);
            let bytes = 65_536 / names.len() as u64;
            let extent = |file| Extent { file, start: 0, bytes, room: bytes, later: 0 };
            let extents: Vec<Extent<'_>> = names.iter().map(|name| extent(name)).collect();
            let offsets = Offsets::over(&job, 1, &extents, 65_536, 0);
            let mut source = Source::new(&job, offsets, true, Together::default(), None);
            let (mut kept, mut read) = (0, 0);
            for _ in 0..1600 + reads {
                let planned = source.next().expect(options);
                kept = kept.max(source.verify.as_ref().map_or(0, VerifyPlan::len));
                let Task::Io(piece) = planned.task else { panic!("{options}: no I/O") };
                read += u32::from(piece.direction == Direction::Read);
            }
            assert_eq!((kept, read), (kept_most, reads), "{options}");
        }
    }
}

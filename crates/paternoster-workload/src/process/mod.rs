// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process: one clone of a job, as a small state machine: think, submit, wait.
//!
//! ```text
//!              ┌── completion, submit cost, think time ──┐
//!  Waiting ─start─▶ Running ── piece ──▶ bios ──▶ queue ──┘     direct: up to `iodepth` at a time
//!                     │   │       └────▶ page cache             buffered: one call at a time
//!                     │   └─ every so many writes: a sync
//!                     └─ runtime over, or everything done ──▶ Draining ──▶ Ended
//! ```
//!
//! A process has one CPU: each direct I/O costs it `submit cost` of CPU time between a completion
//! (or the submission before) and its own submission, each buffered call the copying of its pages.
//! While a call or a sync is under way it submits nothing else.
//!
//! # Invariants
//! I1  At most `depth` direct I/Os are under way; at most one call and one sync.
//! I2  Statistics count what ends after the ramp.
//!
//! Source: spec `fio.md` 3.4, 3.5; plan of the house, section 7.

mod buffered;
mod direct;
mod sync;

use std::cell::Cell;
use std::rc::Rc;

use paternoster::{ClientId, Flags, Nanos, Observer, Outcome, RequestQueue};

use crate::direction::Direction;
use crate::fio::job::{Engine, Job};
use crate::fio::offsets::{Offsets, Piece};
use crate::fio::syncs::{FileSync, SyncKind, Syncs};
use crate::page_cache::PageCache;
use crate::page_cache::pages::Run;
use crate::page_cache::read_ahead::ReadAhead;
use crate::statistics::JobStatistics;

use buffered::Call;
use direct::{Io, Request, Slots};
use sync::{Steps, SyncCall};

/// Linux's EINVAL: what a process is told of an I/O that the block layer does not take.
const EINVAL: i32 = 22;
/// In a cookie: the bio is the flush of the process's sync.
const SYNC_SLOT: u32 = u32::MAX;

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    Waiting,
    /// Issues I/O.
    Running,
    /// Issues nothing more; something is under way.
    Draining,
    /// Everything has ended.
    Ended,
}

/// Who a process is, to the queue and to the page cache.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// Its client in the queue.
    pub client: ClientId,
    /// Its number among the processes of the run.
    pub number: u32,
}

impl Identity {
    /// The cookie of a bio of I/O `slot`.
    const fn cookie(self, slot: u32) -> u64 {
        (self.number as u64) << 32 | slot as u64
    }
}

/// What a process is made from, beside its job.
#[derive(Debug, Clone)]
pub struct ProcessSetup {
    /// Who it is.
    pub identity: Identity,
    /// Its file, by its number in the layout.
    pub file: u32,
    /// Where all clones of its job are, if they have one position.
    pub position: Option<SharedPosition>,
    /// CPU time for each I/O.
    pub submit_cost: Nanos,
    /// Ends it after this time, whatever the job says.
    pub runtime: Option<Nanos>,
}

/// One sequential position for several processes: who asks next gets the next block.
#[derive(Debug, Clone)]
pub struct SharedPosition {
    /// Where the region begins in the file, and how long it is.
    pub region: (u64, u64),
    /// The next offset in the region.
    pub next: Rc<Cell<u64>>,
}

impl SharedPosition {
    /// `piece` at the position instead of its own; `None` at the end of the region.
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

/// How far something under way has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Something else must happen first.
    Waiting,
    /// Time must pass.
    Until(Nanos),
    /// It has ended.
    Ended,
}

/// One clone of a job.
#[derive(Debug)]
pub struct Process {
    setup: ProcessSetup,
    engine: Engine,
    buffered: bool,
    depth: u32,
    low: u32,
    runtime: Option<Nanos>,
    ramp: Nanos,
    time_based: bool,
    passes_left: u64,
    think: Nanos,
    think_spin: Nanos,
    think_after: u32,
    rate: [Option<u64>; 3],
    rate_iops: [Option<u64>; 3],
    syncs: Syncs,
    invalidate: bool,
    offsets: Offsets,

    phase: Phase,
    began: Nanos,
    ended: Nanos,
    measure_from: Nanos,
    measuring: bool,
    deadline: Nanos,
    ready_at: Nanos,
    /// Whether it fills up to `depth`; off between full and `low`.
    filling: bool,
    /// I/Os that have ended, for the count of `thinktime_blocks`.
    completed: u64,
    /// It thinks as soon as nothing is under way.
    think_due: bool,
    think_until: Nanos,
    issued_bytes: [u64; 3],
    issued_ios: [u64; 3],
    pending: Option<Piece>,
    slots: Slots,
    call: Option<Call>,
    sync: Option<SyncCall>,
    last_was_sync: bool,
    /// The write that the sync under way makes durable before it ends (O_SYNC).
    durable: Option<Call>,
    ahead: ReadAhead,
    /// The pages written since the last sync of a range.
    unsynced: Option<Run>,
    error: i32,
    statistics: JobStatistics,
}

impl Process {
    /// A process that has not started.
    #[must_use]
    pub fn new(job: &Job, offsets: Offsets, setup: ProcessSetup) -> Process {
        // Buffered I/O of an asynchronous engine is done while it is submitted.
        let buffered = job.direct != Some(true) && job.engine != Engine::Null;
        let depth = match job.engine {
            Engine::Async if !buffered => job.iodepth.max(1),
            _ => 1,
        };
        Process {
            engine: job.engine,
            buffered,
            depth,
            low: job.iodepth_low.clamp(1, depth),
            runtime: setup.runtime.or(job.runtime),
            ramp: job.ramp_time,
            time_based: job.time_based && (job.runtime.is_some() || setup.runtime.is_some()),
            passes_left: job.loops.saturating_sub(1),
            think: job.thinktime,
            think_spin: job.thinktime_spin,
            think_after: job.thinktime_blocks.max(1),
            rate: job.rate,
            rate_iops: job.rate_iops,
            syncs: job.syncs,
            invalidate: job.invalidate,
            offsets,
            phase: Phase::Waiting,
            began: Nanos::ZERO,
            ended: Nanos::ZERO,
            measure_from: Nanos::ZERO,
            measuring: false,
            deadline: Nanos::MAX,
            ready_at: Nanos::ZERO,
            filling: true,
            completed: 0,
            think_due: false,
            think_until: Nanos::ZERO,
            issued_bytes: [0; 3],
            issued_ios: [0; 3],
            pending: None,
            slots: Slots::new(depth),
            call: None,
            sync: None,
            last_was_sync: false,
            durable: None,
            ahead: ReadAhead::default(),
            unsynced: None,
            error: 0,
            statistics: JobStatistics::new(job.bwavgtime),
            setup,
        }
    }

    /// Begins at `now`.
    pub fn start(&mut self, now: Nanos, cache: &mut PageCache) {
        self.phase = Phase::Running;
        self.began = now;
        self.measure_from = now + self.ramp;
        self.deadline = self.runtime.map_or(Nanos::MAX, |runtime| self.measure_from + runtime);
        self.ready_at = now;
        if self.invalidate {
            cache.pages_mut().drop_file(self.setup.file);
        }
        // A job that ends inside its ramp has figures too: those of all it did.
        self.statistics.start(now);
        if self.ramp == Nanos::ZERO {
            self.begin_measuring();
        }
    }

    fn begin_measuring(&mut self) {
        self.measuring = true;
        self.statistics.start(self.measure_from);
    }

    /// Does what can be done at `now`. Returns when to call again, if time alone brings something
    /// new.
    pub fn act<O: Observer>(
        &mut self,
        now: Nanos,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> Option<Nanos> {
        loop {
            if !self.measuring && self.phase != Phase::Waiting && now >= self.measure_from {
                self.begin_measuring();
            }
            match self.go_on(now, cache, queue) {
                Progress::Ended => {}
                Progress::Waiting => return None,
                Progress::Until(at) => return Some(at),
            }
            if self.phase != Phase::Running {
                // A thought that the last I/O brought is thought to its end.
                let until = self.think_until.min(self.deadline);
                if self.phase == Phase::Draining && self.slots.in_flight() == 0 && now < until {
                    return Some(until);
                }
                if self.begin_last_sync(now, cache) {
                    continue;
                }
                self.end_if_drained(now);
                return None;
            }
            if now >= self.deadline {
                self.phase = Phase::Draining;
                continue;
            }
            let wish = match self.next_step(now) {
                Step::Submit(piece) => {
                    if !self.begin_sync_before(now, piece, cache) {
                        self.begin(now, piece, cache, queue);
                    }
                    continue;
                }
                Step::Stop => {
                    self.phase = Phase::Draining;
                    continue;
                }
                Step::Until(at) => at,
                // A completion or a wake will call.
                Step::Nothing => Nanos::MAX,
            };
            let ramp_ends = if self.measuring { Nanos::MAX } else { self.measure_from };
            let at = wish.min(self.deadline).min(ramp_ends);
            return (at != Nanos::MAX).then_some(at);
        }
    }

    /// Goes on with the call or the sync that is under way; `Ended` if there is none any more.
    fn go_on<O: Observer>(
        &mut self,
        now: Nanos,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> Progress {
        let identity = self.setup.identity;
        if let Some(call) = &mut self.call {
            let progress = call.go_on(now, identity, &mut self.ahead, cache, queue);
            if progress != Progress::Ended {
                return progress;
            }
            self.end_call(now);
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

    fn next_step(&mut self, now: Nanos) -> Step {
        if self.slots.is_blocked() || self.slots.is_full() || !self.filling || self.think_due {
            return Step::Nothing;
        }
        if now < self.ready_at {
            return Step::Until(self.ready_at);
        }
        let Some(piece) = self.pending.take().or_else(|| self.next_placed_piece()) else {
            return Step::Stop;
        };
        let at = self.not_before(&piece);
        if now < at {
            self.pending = Some(piece);
            return Step::Until(at);
        }
        Step::Submit(piece)
    }

    /// The next piece, at the position that the job's clones share if they do.
    fn next_placed_piece(&mut self) -> Option<Piece> {
        let piece = self.next_piece()?;
        match &self.setup.position {
            None => Some(piece),
            Some(position) => position.take(piece, self.time_based),
        }
    }

    /// The next piece of the pattern, over the end of a pass if there is another one.
    fn next_piece(&mut self) -> Option<Piece> {
        if let Some(piece) = self.offsets.next() {
            return Some(piece);
        }
        if self.time_based && !self.offsets.is_finished() {
            self.offsets.restart();
        } else if self.passes_left > 0 {
            self.passes_left -= 1;
            self.offsets.replay();
        } else {
            return None;
        }
        self.offsets.next()
    }

    /// The earliest time that the job's rates allow for this piece.
    fn not_before(&self, piece: &Piece) -> Nanos {
        let way = piece.direction as usize;
        let after = |amount: u64, per_second: Option<u64>| match per_second {
            None | Some(0) => Nanos::ZERO,
            Some(rate) => {
                let nanos = u128::from(amount) * 1_000_000_000 / u128::from(rate);
                Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        let by_bytes = after(self.issued_bytes[way], self.rate[way]);
        let by_ios = after(self.issued_ios[way], self.rate_iops[way]);
        self.began + by_bytes.max(by_ios)
    }

    /// Begins an I/O.
    fn begin<O: Observer>(
        &mut self,
        now: Nanos,
        piece: Piece,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) {
        let way = piece.direction as usize;
        self.issued_bytes[way] += piece.bytes;
        self.issued_ios[way] += 1;
        self.last_was_sync = false;
        // Trims have no pages.
        if self.buffered && piece.direction != Direction::Trim {
            self.statistics.issued(1);
            self.statistics.submitted(1);
            let Piece { direction, offset, bytes, .. } = piece;
            self.call = Some(Call::new(now, direction, self.setup.file, offset, bytes));
        } else {
            self.begin_io(now, piece, cache, queue);
        }
    }

    fn begin_io<O: Observer>(
        &mut self,
        now: Nanos,
        piece: Piece,
        cache: &PageCache,
        queue: &mut RequestQueue<O>,
    ) {
        let writes = self.issued_ios[Direction::Write as usize];
        let write = piece.direction == Direction::Write;
        let mut flags = Flags::NONE;
        if write && self.syncs.open != FileSync::None {
            flags |= Flags::FUA;
        }
        if write && self.syncs.is_barrier(writes) {
            flags |= Flags::PREFLUSH | Flags::FUA;
        }
        let request = Request {
            direction: piece.direction,
            file: *cache.file(self.setup.file),
            offset: piece.offset,
            bytes: piece.bytes,
            submitted: if self.engine == Engine::Null { 0 } else { piece.bytes },
            flags,
        };
        let Some(slot) = self.slots.begin(now, request) else { return };
        let in_flight = self.slots.in_flight();
        self.filling = in_flight < self.depth;
        self.statistics.issued(in_flight);
        self.statistics.submitted(1);
        self.ready_at = now + self.setup.submit_cost;
        self.statistics.cpu(self.setup.submit_cost);
        self.push(now, slot, queue);
    }

    fn push<O: Observer>(&mut self, now: Nanos, slot: u32, queue: &mut RequestQueue<O>) {
        if let Some(io) = self.slots.push(now, slot, self.setup.identity, queue) {
            self.end_io(now, &io);
        }
    }

    /// A bio of I/O `slot` has ended.
    pub fn bio_ended(&mut self, now: Nanos, slot: u32, outcome: Outcome) {
        if slot == SYNC_SLOT {
            if let Some(sync) = &mut self.sync {
                sync.flush_ended(outcome);
            }
        } else if let Some(io) = self.slots.bio_ended(slot, outcome) {
            self.end_io(now, &io);
        }
    }

    fn end_io(&mut self, now: Nanos, io: &Io) {
        let asynchronous = self.engine == Engine::Async;
        let (slat, clat) = if asynchronous {
            (io.accepted - io.began, now - io.accepted)
        } else {
            (Nanos::ZERO, now - io.began)
        };
        self.ready_at = self.ready_at.max(now + self.setup.submit_cost);
        self.statistics.waited();
        self.count(now, io.direction, io.bytes, slat, clat, io.error);
        self.filling |= self.slots.in_flight() <= self.low;
    }

    fn end_call(&mut self, now: Nanos) {
        let Some(call) = self.call.take() else { return };
        if call.direction == Direction::Write && call.error == 0 {
            self.unsynced = Some(join(self.unsynced, call.run()));
            if self.syncs.open != FileSync::None {
                // The call goes on as a sync of what it wrote.
                self.sync = Some(SyncCall::new(call.began, Steps::WHOLE, call.file, call.run()));
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
        let (slat, clat) = if asynchronous { (took, Nanos::ZERO) } else { (Nanos::ZERO, took) };
        (0..call.waits).for_each(|_| self.statistics.waited());
        self.statistics.cpu_in_kernel(call.copying);
        self.ready_at = now;
        self.count(now, call.direction, call.bytes, slat, clat, error);
    }

    /// Counts an I/O that has ended.
    fn count(
        &mut self,
        now: Nanos,
        direction: Direction,
        bytes: u64,
        slat: Nanos,
        clat: Nanos,
        error: i32,
    ) {
        if !self.measuring && now >= self.measure_from {
            self.begin_measuring();
        }
        if error == 0 {
            let asynchronous = self.engine == Engine::Async;
            self.statistics.completed(now, direction, bytes, slat, clat, asynchronous);
        } else {
            self.error = error;
            self.phase = Phase::Draining;
        }
        self.statistics.reaped(1);
        self.ended = now;
        // At each multiple of so many completions, as fio counts; those that end while what is
        // under way drains count on.
        self.completed += 1;
        self.think_due |=
            self.think > Nanos::ZERO && self.completed.is_multiple_of(u64::from(self.think_after));
        if self.think_due && self.slots.in_flight() == 0 {
            self.think_due = false;
            self.think_until = now + self.think;
            self.ready_at = self.think_until + (self.ready_at.max(now) - now);
            self.statistics.cpu(self.think_spin.min(self.think));
        }
    }

    /// The sync that is due before the next I/O, which then waits. False if none is.
    fn begin_sync_before(&mut self, now: Nanos, piece: Piece, cache: &PageCache) -> bool {
        let writes = self.issued_ios[Direction::Write as usize];
        let Some(kind) = self.syncs.due(writes, self.last_was_sync) else { return false };
        self.pending = Some(piece);
        self.begin_sync(now, kind, cache);
        true
    }

    fn begin_sync(&mut self, now: Nanos, kind: SyncKind, cache: &PageCache) {
        let file = self.setup.file;
        let whole = Run { first: 0, pages: cache.pages_of(file) };
        let written = self.unsynced.take();
        let (steps, run) = match (kind, self.syncs.range) {
            (SyncKind::Range, Some(range)) => (Steps::range(range), written.unwrap_or(whole)),
            _ => (Steps::WHOLE, whole),
        };
        self.last_was_sync = true;
        self.sync = Some(SyncCall::new(now, steps, file, run));
    }

    /// The fsync at the end of the job. True if it has just begun.
    fn begin_last_sync(&mut self, now: Nanos, cache: &PageCache) -> bool {
        let drained = self.phase == Phase::Draining && self.slots.in_flight() == 0;
        let written = self.issued_ios[Direction::Write as usize] > 0;
        if !drained || !self.syncs.ends_with_sync() || self.error != 0 || !written {
            return false;
        }
        (self.syncs.at_end, self.syncs.on_close) = (false, false);
        self.begin_sync(now, SyncKind::Fsync, cache);
        true
    }

    fn end_sync(&mut self, now: Nanos) {
        let Some(sync) = self.sync.take() else { return };
        if let Some(call) = self.durable.take() {
            self.count_call(now, &call, sync.error);
            return;
        }
        if !self.measuring && now >= self.measure_from {
            self.begin_measuring();
        }
        self.ended = now;
        if sync.error == 0 {
            self.statistics.synced(now - sync.began);
        } else {
            self.error = sync.error;
            self.phase = Phase::Draining;
        }
    }

    /// The queue has room again: goes on with the I/O that got Busy.
    pub fn woken<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        if let Some(slot) = self.slots.take_blocked() {
            self.push(now, slot, queue);
        }
    }

    fn end_if_drained(&mut self, now: Nanos) {
        if self.phase == Phase::Draining && self.slots.in_flight() == 0 {
            self.phase = Phase::Ended;
            self.ended = self.ended.max(now.min(self.deadline));
            self.statistics.end(self.ended);
        }
    }

    /// Where it is in its life.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether its figures count: it has started and its ramp is over.
    #[must_use]
    pub const fn is_measuring(&self) -> bool {
        self.measuring
    }

    /// Its client in the queue.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.setup.identity.client
    }

    /// The errno that ended it, 0 if none did.
    #[must_use]
    pub const fn error(&self) -> i32 {
        self.error
    }

    /// What it has measured.
    #[must_use]
    pub const fn statistics(&self) -> &JobStatistics {
        &self.statistics
    }
}

/// What comes next for a running process.
enum Step {
    Submit(Piece),
    Until(Nanos),
    Nothing,
    Stop,
}

/// The pages from the first of both to the last of both.
fn join(one: Option<Run>, other: Run) -> Run {
    let Some(one) = one else { return other };
    let first = one.first.min(other.first);
    let end = (one.first + one.pages).max(other.first + other.pages);
    Run { first, pages: end - first }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process: one clone of a job, as a small state machine: think, submit, wait.
//!
//! ```text
//!              ┌── completion, submit cost, think time ──┐
//!  Waiting ─start─▶ Running ── piece ──▶ bios ──▶ queue ──┘
//!                     │   └─ Busy: sleeps until Wake
//!                     └─ runtime over, or everything done ──▶ Draining ──▶ Ended
//! ```
//!
//! A process has one CPU: each I/O costs it `submit cost` of CPU time between a completion (or
//! the submission before) and its own submission. An I/O larger than a request may be is several
//! bios under one plug.
//!
//! # Invariants
//! I1  At most `depth` I/Os are under way; a slot's I/O ends when its last bio has.
//! I2  Statistics count what ends after the ramp.
//!
//! Source: spec `fio.md` 3.4, 3.5; plan of the house, section 7.

use paternoster::{
    Bio, ClientId, Flags, Nanos, Observer, Op, Outcome, RequestQueue, Status, SubmitError,
};

use crate::direction::Direction;
use crate::fio::job::{Engine, Job};
use crate::fio::offsets::{Offsets, Piece};
use crate::statistics::JobStatistics;

/// Linux's EINVAL: what a process is told of an I/O that the block layer does not take.
const EINVAL: i32 = 22;

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

/// One I/O of a process.
#[derive(Debug, Clone, Copy)]
struct Io {
    direction: Direction,
    bytes: u64,
    began: Nanos,
    accepted: Nanos,
    /// What is still to be submitted.
    sector: u64,
    sectors_left: u64,
    /// Bios under way.
    under_way: u32,
    error: i32,
}

/// What a process is made from, beside its job.
#[derive(Debug, Clone, Copy)]
pub struct ProcessSetup {
    /// Its client in the queue.
    pub client: ClientId,
    /// Its number among the processes of the run, which its cookies carry.
    pub number: u32,
    /// Where its file begins on the device, in bytes.
    pub file_at: u64,
    /// CPU time for each I/O.
    pub submit_cost: Nanos,
    /// Ends it after this time, whatever the job says.
    pub runtime: Option<Nanos>,
}

/// One clone of a job.
#[derive(Debug)]
pub struct Process {
    setup: ProcessSetup,
    engine: Engine,
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
    ios: Vec<Io>,
    free: Vec<u32>,
    /// The I/O whose next bio got Busy.
    blocked: Option<u32>,
    error: i32,
    statistics: JobStatistics,
}

impl Process {
    /// A process that has not started.
    #[must_use]
    pub fn new(job: &Job, offsets: Offsets, setup: ProcessSetup) -> Process {
        let depth = match job.engine {
            Engine::Async => job.iodepth.max(1),
            Engine::Sync | Engine::Null | Engine::Cpu => 1,
        };
        let nothing = Io {
            direction: Direction::Read,
            bytes: 0,
            began: Nanos::ZERO,
            accepted: Nanos::ZERO,
            sector: 0,
            sectors_left: 0,
            under_way: 0,
            error: 0,
        };
        Process {
            engine: job.engine,
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
            ios: vec![nothing; depth as usize],
            free: (0..depth).rev().collect(),
            blocked: None,
            error: 0,
            statistics: JobStatistics::new(job.bwavgtime),
            setup,
        }
    }

    /// Begins at `now`.
    pub fn start(&mut self, now: Nanos) {
        self.phase = Phase::Running;
        self.began = now;
        self.measure_from = now + self.ramp;
        self.deadline = self.runtime.map_or(Nanos::MAX, |runtime| self.measure_from + runtime);
        self.ready_at = now;
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
    pub fn act<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) -> Option<Nanos> {
        loop {
            if !self.measuring && self.phase != Phase::Waiting && now >= self.measure_from {
                self.begin_measuring();
            }
            if self.phase != Phase::Running {
                // A thought that the last I/O brought is thought to its end.
                let until = self.think_until.min(self.deadline);
                if self.phase == Phase::Draining && self.in_flight() == 0 && now < until {
                    return Some(until);
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
                    self.begin_io(now, piece, queue);
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

    fn next_step(&mut self, now: Nanos) -> Step {
        if self.blocked.is_some() || self.free.is_empty() || !self.filling || self.think_due {
            return Step::Nothing;
        }
        if now < self.ready_at {
            return Step::Until(self.ready_at);
        }
        let Some(piece) = self.pending.take().or_else(|| self.next_piece()) else {
            return Step::Stop;
        };
        let at = self.not_before(&piece);
        if now < at {
            self.pending = Some(piece);
            return Step::Until(at);
        }
        Step::Submit(piece)
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

    fn begin_io<O: Observer>(&mut self, now: Nanos, piece: Piece, queue: &mut RequestQueue<O>) {
        let Some(slot) = self.free.pop() else { return };
        let way = piece.direction as usize;
        self.issued_bytes[way] += piece.bytes;
        self.issued_ios[way] += 1;
        let sectors = piece.bytes.div_ceil(512);
        self.ios[slot as usize] = Io {
            direction: piece.direction,
            bytes: piece.bytes,
            began: now,
            accepted: now,
            sector: (self.setup.file_at + piece.offset) / 512,
            sectors_left: if self.engine == Engine::Null { 0 } else { sectors },
            under_way: 0,
            error: 0,
        };
        let in_flight = self.in_flight();
        self.filling = in_flight < self.depth;
        self.statistics.issued(in_flight);
        self.statistics.submitted(1);
        self.ready_at = now + self.setup.submit_cost;
        self.statistics.cpu(self.setup.submit_cost);
        self.push_bios(now, slot, queue);
    }

    /// Submits what is left of an I/O, until Busy.
    fn push_bios<O: Observer>(&mut self, now: Nanos, slot: u32, queue: &mut RequestQueue<O>) {
        let most = u64::from(queue.max_sectors());
        let client = self.setup.client;
        let several = self.ios[slot as usize].sectors_left > most;
        if several {
            // The client is ours: it cannot be stale.
            let _plugged = queue.plug(now, client);
        }
        self.blocked = None;
        loop {
            let io = &mut self.ios[slot as usize];
            let sectors = u32::try_from(io.sectors_left.min(most)).unwrap_or(u32::MAX);
            if sectors == 0 {
                io.accepted = now;
                break;
            }
            let (op, flags) = operation(io.direction);
            let cookie = u64::from(self.setup.number) << 32 | u64::from(slot);
            let bio = Bio::new(client, op, io.sector, sectors).flags(flags).cookie(cookie);
            match queue.submit(now, bio) {
                Ok(_) => {
                    io.under_way += 1;
                    io.sector += u64::from(sectors);
                    io.sectors_left -= u64::from(sectors);
                }
                Err(SubmitError::Busy) => {
                    self.blocked = Some(slot);
                    break;
                }
                Err(_) => {
                    io.error = EINVAL;
                    io.sectors_left = 0;
                }
            }
        }
        if several {
            let _unplugged = queue.unplug(now, client);
        }
        self.end_io_if_done(now, slot);
    }

    /// A bio of I/O `slot` has ended.
    pub fn bio_ended(&mut self, now: Nanos, slot: u32, outcome: Outcome) {
        let io = &mut self.ios[slot as usize];
        io.under_way -= 1;
        io.error = match outcome.status {
            Status::Ok => io.error,
            Status::Failed(errno) => errno,
            Status::Cancelled => EINVAL,
        };
        self.end_io_if_done(now, slot);
    }

    fn end_io_if_done(&mut self, now: Nanos, slot: u32) {
        let io = self.ios[slot as usize];
        if io.under_way > 0 || io.sectors_left > 0 {
            return;
        }
        self.free.push(slot);
        if !self.measuring && now >= self.measure_from {
            self.begin_measuring();
        }
        let asynchronous = self.engine == Engine::Async;
        let (slat, clat) = if asynchronous {
            (io.accepted - io.began, now - io.accepted)
        } else {
            (Nanos::ZERO, now - io.began)
        };
        if io.error == 0 {
            self.statistics.completed(now, io.direction, io.bytes, slat, clat, asynchronous);
        } else {
            self.error = io.error;
            self.phase = Phase::Draining;
        }
        self.statistics.reaped(1);
        self.statistics.waited();
        self.ended = now;
        self.filling |= self.in_flight() <= self.low;
        // At each multiple of so many completions, as fio counts; those that end while what is
        // under way drains count on.
        self.completed += 1;
        self.think_due |=
            self.think > Nanos::ZERO && self.completed.is_multiple_of(u64::from(self.think_after));
        self.ready_at = self.ready_at.max(now + self.setup.submit_cost);
        if self.think_due && self.in_flight() == 0 {
            self.think_due = false;
            self.think_until = now + self.think;
            self.ready_at = now + self.think + self.setup.submit_cost;
            self.statistics.cpu(self.think_spin.min(self.think));
        }
    }

    /// The queue has room again: goes on with the I/O that got Busy.
    pub fn woken<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        if let Some(slot) = self.blocked {
            self.push_bios(now, slot, queue);
        }
    }

    fn end_if_drained(&mut self, now: Nanos) {
        if self.phase == Phase::Draining && self.in_flight() == 0 {
            self.phase = Phase::Ended;
            self.ended = self.ended.max(now.min(self.deadline));
            self.statistics.end(self.ended);
        }
    }

    /// I/Os under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.depth - u32::try_from(self.free.len()).unwrap_or(self.depth)
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
        self.setup.client
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

/// Direct writes are sync: their process waits for them.
const fn operation(direction: Direction) -> (Op, Flags) {
    match direction {
        Direction::Read => (Op::Read, Flags::NONE),
        Direction::Write => (Op::Write, Flags::SYNC),
        Direction::Trim => (Op::Discard, Flags::SYNC),
    }
}

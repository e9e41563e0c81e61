// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process: one clone of a job, as a small state machine: think, submit, wait.
//!
//! ```text
//!              ┌── completion, submit cost, think time ──┐
//!  Waiting ─start─▶ Running ── piece ──▶ bios ──▶ queue ──┘     direct: up to `iodepth` at a time
//!                     │   │       └────▶ page cache             buffered: one call at a time
//!                     │   └─ after every few writes: a sync
//!                     └─ runtime over, or everything done ──▶ Draining ──▶ Ended
//! ```
//!
//! What comes next, and when it may begin, is in `next.rs`.
//!
//! A process has one CPU: each direct I/O costs it `submit cost` of CPU time between a completion
//! (or the submission before) and its own submission, each buffered call the copying of its pages.
//! During a call or a sync it submits nothing else.
//!
//! # Invariants
//! I1  At most `depth` direct I/Os are in flight; at most one call and one sync.
//! I2  Statistics count what ends after the ramp; latencies end as `reaping.rs` says.
//!
//! Source: FIO-52 to FIO-54, FIO-57, FIO-61, FIO-62; the submit cost is ours.

mod act;
mod begin;
mod buffered;
mod direct;
mod durable;
mod end;
mod next;
mod reaping;
pub mod record;
mod source;
mod sync;
mod think;

use std::collections::VecDeque;
use std::sync::Arc;

use paternoster_core::{ClientId, Nanos};

use crate::Direction;
use crate::fio::cmdprio::PriorityDraw;
use crate::fio::flow::{FlowMember, Flows};
use crate::fio::frames::Player;
use crate::fio::job::{Engine, Job, Kind, SubmitMode};
use crate::fio::latency_target::{LatencyGoal, LatencySearch};
use crate::fio::offsets::Offsets;
use crate::fio::pace::{MinimumRate, Pace, RateRules};
use crate::fio::random::Seeds;
use crate::fio::recorded::Recorded;
use crate::fio::relay::{Relays, Runner};
use crate::fio::syncs::Syncs;
use crate::page_cache::PageCache;
use crate::page_cache::pages::Run;
use crate::page_cache::read_ahead::ReadAhead;
use crate::statistics::JobStatistics;

use buffered::Call;
use direct::{Io, Slots};
use reaping::Reaping;
use record::Record;
use source::{Planned, Source};
pub use source::{SharedGenerator, SharedPosition, Together};
use sync::SyncCall;
use think::Think;

/// Linux's EINVAL: the result of an I/O that the block layer does not take.
const EINVAL: i32 = 22;
/// Linux's EIO: a least rate was not kept.
const EIO: i32 = 5;
/// Linux's ETIMEDOUT: an I/O took longer than `max_latency`.
const ETIMEDOUT: i32 = 110;
/// In a cookie: the bio is the flush of the process's sync.
const SYNC_SLOT: u32 = u32::MAX;

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has not started.
    Waiting,
    /// Issues I/O.
    Running,
    /// Issues nothing more; something is in flight.
    Draining,
    /// Everything has ended.
    Ended,
}

/// A process's identity for the queue and the page cache.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// The process's client in the queue.
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

/// What the processes of a run share besides the queue.
#[derive(Debug)]
pub struct Shared {
    /// The memory in front of the device.
    pub cache: PageCache,
    /// Jobs that keep their counts in proportion.
    pub flows: Flows,
    /// Jobs whose clones hand over to each other.
    pub relays: Relays,
    /// Processes that wait for others of their flow or relay.
    pub waiting: VecDeque<u32>,
}

impl Shared {
    /// What processes share at the beginning.
    #[must_use]
    pub const fn new(cache: PageCache, flows: Flows, relays: Relays) -> Shared {
        Shared { cache, flows, relays, waiting: VecDeque::new() }
    }

    /// Counts what may let processes go on that wait for others.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.flows.changes() + self.relays.changes()
    }
}

/// What a process is made from, besides its job.
#[derive(Debug)]
pub struct ProcessSetup {
    /// Its job, clone and client.
    pub identity: Identity,
    /// Its files, by their numbers in the layout.
    pub files: Vec<u32>,
    /// The seeds of its random numbers.
    pub seeds: Seeds,
    /// What all clones of its job have together.
    pub together: Together,
    /// The log that it replays instead of its pattern.
    pub log: Option<Arc<Recorded>>,
    /// The logs that it writes.
    pub record: Record,
    /// Its place in a flow.
    pub flow: Option<FlowMember>,
    /// Its place in a relay.
    pub runner: Option<Runner>,
    /// CPU time for each I/O.
    pub submit_cost: Nanos,
    /// Ends it after this time, whatever the job says.
    pub runtime: Option<Nanos>,
    /// Whether its latencies end when fio would reap the I/O.
    pub reaps: bool,
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Something else must happen first.
    Waiting,
    /// Time must pass.
    Until(Nanos),
    /// The operation has ended.
    Ended,
}

/// One clone of a job.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a job's switches, and where the process stands")]
pub struct Process {
    identity: Identity,
    files: Vec<u32>,
    flow: Option<FlowMember>,
    flow_sleep: Nanos,
    runner: Option<Runner>,
    submit_cost: Nanos,
    engine: Engine,
    buffered: bool,
    offload: bool,
    serialize_overlap: bool,
    pre_read: bool,
    invalidate: bool,
    depth: u32,
    low: u32,
    /// I/Os submitted together, and completions taken together at least.
    batch: u32,
    reap_least: u32,
    runtime: Option<Nanos>,
    ramp: Nanos,
    pace: Pace,
    rates: RateRules,
    minimum: Option<MinimumRate>,
    goal: LatencyGoal,
    search: Option<LatencySearch>,
    max_latency: [Option<Nanos>; 3],
    priorities: Option<PriorityDraw>,
    think: Think,
    player: Option<Player>,
    /// Burning and sleeping of `cpuio`.
    cycle: (Nanos, Nanos),
    syncs: Syncs,
    source: Source,

    phase: Phase,
    began: Nanos,
    ended: Nanos,
    measure_from: Nanos,
    measuring: bool,
    deadline: Nanos,
    ready_at: Nanos,
    /// Whether it fills up to `depth`; off between full and `low`.
    filling: bool,
    /// I/Os of the batch being gathered.
    gathered: u32,
    /// I/Os that have ended and were not yet taken, for batches.
    finished: VecDeque<Io>,
    /// What has ended and fio would not have reaped; if latencies end by that.
    reaping: Option<Reaping>,
    /// Completed I/Os that its relay does not know about yet.
    untold: u64,
    writes: u64,
    /// Files that were written since their last fsync.
    written: Vec<bool>,
    /// Whether its pattern has writes.
    may_write: bool,
    pending: Option<Planned>,
    slots: Slots,
    call: Option<Call>,
    /// The place among its files of the call or I/O begun last.
    file: usize,
    sync: Option<SyncCall>,
    last_was_sync: bool,
    /// The sync that comes is the last of its pass.
    forgets_sync: bool,
    /// The files whose syncs end a loop, in turn, and whether they appear in the log of I/O;
    /// whether one is ending, and whether the last is.
    last_syncs: VecDeque<(usize, bool)>,
    ends_loop: bool,
    ends_last: bool,
    /// The write that the current sync makes durable before it ends (O_SYNC).
    durable: Option<Call>,
    /// Read-ahead of each file.
    ahead: Vec<ReadAhead>,
    /// For each file: the pages written since the last sync of a range.
    unsynced: Vec<Option<Run>>,
    error: i32,
    record: Record,
    statistics: JobStatistics,
}

impl Process {
    /// A process that has not started.
    #[must_use]
    pub fn new(job: &Job, offsets: Offsets, setup: ProcessSetup) -> Process {
        // Buffered I/O of an asynchronous engine is done while it is submitted.
        let buffered = job.cache.direct != Some(true) && job.queue.engine != Engine::Null;
        let depth = match job.queue.engine {
            Engine::Async if !buffered => job.queue.iodepth.max(1),
            _ => 1,
        };
        let runtime = setup.runtime.or(job.time.runtime);
        let time_based = job.time.time_based && runtime.is_some();
        let several = |count: u32| if depth > 1 { count.clamp(1, depth) } else { 1 };
        let files = setup.files.len();
        let of_pattern = setup.log.is_none() && setup.together.generator.is_none();
        let writes = job.order.rw.kind.uses()[Direction::Write as usize];
        let may_write = of_pattern && writes;
        Process {
            engine: job.queue.engine,
            buffered,
            offload: job.queue.submit_mode == SubmitMode::Offload,
            serialize_overlap: job.queue.serialize_overlap,
            pre_read: job.cache.pre_read,
            invalidate: job.cache.invalidate,
            depth,
            low: job.queue.iodepth_low.clamp(1, depth),
            batch: several(job.queue.iodepth_batch_submit),
            reap_least: several(job.queue.iodepth_batch_complete_min),
            runtime,
            ramp: job.time.ramp_time,
            pace: Pace::new(job, &setup.seeds),
            rates: job.pacing.rates.of_used(job.order.rw.kind),
            minimum: None,
            goal: job.pacing.latency_goal,
            search: None,
            max_latency: job.pacing.max_latency,
            priorities: job
                .priority
                .command_priority
                .is_used()
                .then(|| PriorityDraw::new(job, &setup.seeds)),
            think: Think::new(job),
            player: Player::new(&job.ours.frames),
            cycle: job.queue.cpu_load.cycle(),
            syncs: if job.order.rw.kind == Kind::TrimWrite {
                job.syncs.at_end_only()
            } else {
                job.syncs
            },
            source: Source::new(job, offsets, time_based, setup.together, setup.log),
            phase: Phase::Waiting,
            began: Nanos::ZERO,
            ended: Nanos::ZERO,
            measure_from: Nanos::ZERO,
            measuring: false,
            deadline: Nanos::MAX,
            ready_at: Nanos::ZERO,
            filling: true,
            gathered: 0,
            finished: VecDeque::with_capacity(depth as usize),
            reaping: if setup.reaps { Reaping::new(job) } else { None },
            untold: 0,
            writes: 0,
            written: vec![false; files],
            may_write,
            pending: None,
            slots: Slots::new(depth),
            call: None,
            file: 0,
            sync: None,
            last_was_sync: false,
            forgets_sync: false,
            last_syncs: VecDeque::new(),
            ends_loop: false,
            ends_last: false,
            durable: None,
            ahead: vec![ReadAhead::default(); files],
            unsynced: vec![None; files],
            error: 0,
            record: setup.record,
            statistics: JobStatistics::new(job.report.bwavgtime),
            identity: setup.identity,
            files: setup.files,
            flow: setup.flow,
            flow_sleep: job.pacing.flow.sleep,
            runner: setup.runner,
            submit_cost: setup.submit_cost,
        }
    }

    /// Its job has other rates from now on.
    pub(crate) fn change_rates(&mut self, now: Nanos, job: &Job) {
        self.pace.change(now, job);
    }

    /// The others of its flow count with it from now on.
    pub fn enter_flow(&self, shared: &mut Shared) {
        if let Some(member) = self.flow {
            shared.flows.enter(member);
        }
    }

    /// One that was stopped before it began is waited for no longer.
    pub fn leave_flow_if_ended(&self, shared: &mut Shared) {
        if let (Phase::Ended, Some(member)) = (self.phase, self.flow) {
            shared.flows.leave(member);
        }
    }

    /// Begins at `now`.
    pub fn start(&mut self, now: Nanos, shared: &mut Shared) {
        self.phase = Phase::Running;
        self.began = now;
        self.measure_from = now + self.ramp;
        self.deadline = self.runtime.map_or(Nanos::MAX, |runtime| self.measure_from + runtime);
        self.ready_at = now;
        self.enter_flow(shared);
        self.pace.start(now);
        self.think.start(now);
        if let Some(player) = &mut self.player {
            player.start(now);
            // A process that reads nothing has no late frame either, and says so.
            self.statistics.frames_mut();
        }
        self.minimum = MinimumRate::new(&self.rates, now);
        self.search = LatencySearch::new(&self.goal, self.depth, now);
        self.prepare_cache(&mut shared.cache);
        // A job that ends inside its ramp has figures too: those of all it did.
        self.statistics.start(now);
        self.begin_measuring(now);
    }

    /// What a job finds in memory. fio reads files before its clock starts, so here that takes no
    /// time.
    fn prepare_cache(&self, cache: &mut PageCache) {
        for &file in &self.files {
            if self.invalidate {
                cache.pages_mut().drop_file(file);
            }
            if self.pre_read {
                let run = Run { first: 0, pages: cache.pages_of(file) };
                cache.bring(file, run);
            }
        }
    }

    /// Measures from the end of its ramp on, once `now` has come to it.
    fn begin_measuring(&mut self, now: Nanos) {
        if !self.measuring && now >= self.measure_from {
            self.measuring = true;
            self.statistics.start(self.measure_from);
        }
    }

    /// Ends it before its time: it issues nothing more.
    pub fn stop(&mut self) {
        match self.phase {
            Phase::Waiting => self.phase = Phase::Ended,
            Phase::Running => self.phase = Phase::Draining,
            Phase::Draining | Phase::Ended => {}
        }
        self.pending = None;
    }

    /// Statistics as they are at `now`, for a report on the way.
    #[must_use]
    pub fn statistics_at(&self, now: Nanos) -> JobStatistics {
        let mut statistics = self.statistics.clone();
        if matches!(self.phase, Phase::Running | Phase::Draining) {
            statistics.end(now);
        }
        statistics
    }

    /// Its stage of life.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it only burns CPU.
    #[must_use]
    pub fn is_cpu_load(&self) -> bool {
        self.engine == Engine::Cpu
    }

    /// Whether its figures count: it has started and its ramp is over.
    #[must_use]
    pub const fn is_measuring(&self) -> bool {
        self.measuring
    }

    /// Its client in the queue.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.identity.client
    }

    /// The errno that ended it, 0 if none did.
    #[must_use]
    pub const fn error(&self) -> i32 {
        self.error
    }

    /// How many I/Os it may have in flight now.
    fn depth_now(&self) -> u32 {
        self.search.as_ref().map_or(self.depth, LatencySearch::depth)
    }

    /// The depth that its search has found, or is trying.
    #[must_use]
    pub fn searched_depth(&self) -> Option<u32> {
        self.search.as_ref().map(LatencySearch::depth)
    }

    /// The output that failed, once.
    pub fn take_output_error(&mut self) -> Option<(String, std::io::Error)> {
        self.record.take_error()
    }

    /// What it has measured.
    #[must_use]
    pub const fn statistics(&self) -> &JobStatistics {
        &self.statistics
    }
}

/// The pages from the first of both to the last of both.
fn join(one: Option<Run>, other: Run) -> Run {
    let Some(one) = one else { return other };
    let first = one.first.min(other.first);
    let end = (one.first + one.pages).max(other.first + other.pages);
    Run { first, pages: end - first }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! tiotest: four phases of several threads, each with its own file, with a barrier between.
//!
//! ```text
//! write │ random write │ read │ random read        thread i works on its own file in all of them
//! ```
//!
//! Sequential phases go once over the file, random ones make a number of calls at uniformly drawn
//! blocks, with repetitions. Calls are buffered by default; a phase that writes ends with fsync,
//! inside its time. The random phases of seed 001: `-t 8 -f 2000 -r 4000 -b 4096`.
//!
//! Percentages of slow calls come from the histogram, so a call within 1.6 % of 2 or 10 seconds may
//! be counted on the wrong side.
//!
//! Source: LOAD-1, LOAD-2.

use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::{job, mebibytes, millis, per_second, seconds, wall_time};
use crate::direction::Direction;
use crate::fio::job::Job;
use crate::fio::syncs::{FileSync, Syncs};
use crate::fio::value::Amount;
use crate::run::RunResult;
use crate::statistics::JobStatistics;

/// One of the four tests, in the order of their running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Sequential writes.
    Write,
    /// Random writes.
    RandomWrite,
    /// Sequential reads.
    Read,
    /// Random reads.
    RandomRead,
}

impl Phase {
    /// All four, in their order.
    pub const ALL: [Phase; 4] = [Phase::Write, Phase::RandomWrite, Phase::Read, Phase::RandomRead];

    const fn is_random(self) -> bool {
        matches!(self, Phase::RandomWrite | Phase::RandomRead)
    }

    const fn direction(self) -> Direction {
        match self {
            Phase::Write | Phase::RandomWrite => Direction::Write,
            Phase::Read | Phase::RandomRead => Direction::Read,
        }
    }

    /// The name, as in tiotest's tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Write => "Write",
            Phase::RandomWrite => "Random Write",
            Phase::Read => "Read",
            Phase::RandomRead => "Random Read",
        }
    }

    const fn short_name(self) -> &'static str {
        match self {
            Phase::Write => "write",
            Phase::RandomWrite => "rwrite",
            Phase::Read => "read",
            Phase::RandomRead => "rread",
        }
    }
}

/// tiotest's options.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "tiotest's own switches")]
pub struct Tiotest {
    /// `-t`: threads.
    pub threads: u32,
    /// `-f`: MB (2^20) of each thread's file.
    pub file_mb: u64,
    /// `-r`: random calls of each thread.
    pub random_calls: u64,
    /// `-b`: bytes of a call.
    pub block: u64,
    /// `-d`: folders; threads are spread over them.
    pub folders: Vec<String>,
    /// `-R`: all threads on this device, `-o` MB apart, the first at 0 or (`-O`) at one such
    /// offset.
    pub raw: Option<RawDevice>,
    /// `-k`: phases that are left out, by their number from 0.
    pub skipped: Vec<usize>,
    /// `-W`: the write phase one thread after the other.
    pub write_in_turns: bool,
    /// `-S`: open with `O_SYNC`.
    pub synchronous: bool,
    /// `-X`: bypass the page cache.
    pub direct: bool,
    /// `-F`: drop caches before each phase.
    pub drop_caches: bool,
}

/// Where threads work on a device without files.
#[derive(Debug, Clone)]
pub struct RawDevice {
    /// Path of the file.
    pub path: String,
    /// MB between threads.
    pub offset_mb: u64,
    /// The first thread is offset too.
    pub offset_first: bool,
}

impl Default for Tiotest {
    /// tiotest's own defaults.
    fn default() -> Tiotest {
        Tiotest {
            threads: 4,
            file_mb: 10,
            random_calls: 100_000,
            block: 4096,
            folders: Vec::new(),
            raw: None,
            skipped: Vec::new(),
            write_in_turns: false,
            synchronous: false,
            direct: false,
            drop_caches: false,
        }
    }
}

/// The measurements of a phase.
#[derive(Debug, Clone)]
pub struct PhaseResult {
    /// The phase.
    pub phase: Phase,
    /// Wall time of the phase.
    pub time: Nanos,
    /// Figures of all its threads together.
    pub statistics: JobStatistics,
}

impl PhaseResult {
    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.statistics.direction(self.phase.direction()).bytes()
    }

    /// MB (2^20) per second of wall time.
    #[must_use]
    pub fn rate(&self) -> f64 {
        per_second(mebibytes(self.bytes()), self.time)
    }

    /// CPU time of all threads in per cent of the wall time: the program's, the kernel's.
    #[must_use]
    pub fn cpu(&self) -> (f64, f64) {
        let threads = self.statistics.runtime();
        let scale =
            if self.time == Nanos::ZERO { 0.0 } else { seconds(threads) / seconds(self.time) };
        (self.statistics.user_per_cent() * scale, self.statistics.system_per_cent() * scale)
    }

    /// Calls; mean and longest call; per cent longer than 2 and 10 seconds.
    #[must_use]
    pub fn latency(&self) -> Latencies {
        let direction = self.statistics.direction(self.phase.direction());
        let slower = |limit: Nanos| {
            let bins = direction.total_histogram().bins();
            bins.filter(|&(value, _)| value > limit.0).map(|(_, count)| count).sum::<u64>()
        };
        Latencies {
            calls: direction.ios(),
            sum_ms: direction.total().mean() / 1e6 * count(direction.ios()),
            max_ms: millis(direction.total().max()),
            over_2s: slower(Nanos::from_secs(2)),
            over_10s: slower(Nanos::from_secs(10)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn count(number: u64) -> f64 {
    number as f64
}

/// How long calls took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latencies {
    /// Number of calls.
    pub calls: u64,
    /// Sum of the calls' times.
    pub sum_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// How many took more than 2 s.
    pub over_2s: u64,
    /// How many took more than 10 s.
    pub over_10s: u64,
}

impl Latencies {
    fn add(&mut self, other: Latencies) {
        self.calls += other.calls;
        self.sum_ms += other.sum_ms;
        self.max_ms = self.max_ms.max(other.max_ms);
        self.over_2s += other.over_2s;
        self.over_10s += other.over_10s;
    }

    /// Mean, longest, per cent above 2 s and above 10 s.
    #[must_use]
    pub fn figures(&self) -> [f64; 4] {
        let calls = count(self.calls.max(1));
        let per_cent = |part: u64| 100.0 * count(part) / calls;
        [self.sum_ms / calls, self.max_ms, per_cent(self.over_2s), per_cent(self.over_10s)]
    }
}

impl Tiotest {
    fn phases(&self) -> impl Iterator<Item = Phase> {
        let skipped = |place: &usize| !self.skipped.contains(place);
        (0..4).filter(skipped).map(|place| Phase::ALL[place])
    }

    /// The jobs of all phases, in their order.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for phase in self.phases() {
            if phase == Phase::Write && self.write_in_turns {
                jobs.extend((0..self.threads).map(|thread| self.job(phase, thread, 1)));
            } else if self.folders.len() > 1 {
                let first = jobs.len();
                jobs.extend((0..self.threads).map(|thread| self.job(phase, thread, 1)));
                jobs[first + 1..].iter_mut().for_each(|job| job.clones.stonewall = false);
            } else {
                jobs.push(self.job(phase, 0, self.threads));
            }
        }
        jobs
    }

    fn job(&self, phase: Phase, thread: u32, clones: u32) -> Job {
        let bytes = self.file_mb << 20;
        let mut job = job(phase.short_name(), phase.direction(), phase.is_random(), self.block);
        job.region.size = Some(Amount::Bytes(bytes));
        if phase.is_random() {
            job.region.number_ios = Some(self.random_calls.max(1));
            job.region.io_size = Some(Amount::Bytes(self.random_calls.max(1) * self.block));
        }
        (job.clones.numjobs, job.clones.stonewall) = (clones, true);
        job.cache.direct = Some(self.direct);
        job.cache.invalidate = self.drop_caches;
        job.syncs = Syncs {
            open: if self.synchronous { FileSync::Sync } else { FileSync::None },
            at_end: phase.direction() == Direction::Write,
            ..Syncs::default()
        };
        match &self.raw {
            Some(raw) => {
                let apart = raw.offset_mb << 20;
                job.files.filenames = vec![raw.path.clone()];
                job.region.offset_increment = Amount::Bytes(apart);
                let before = u64::from(thread) + u64::from(raw.offset_first);
                job.region.offset = Amount::Bytes(apart * before);
            }
            None if clones > 1 || self.threads == 1 => {
                job.files.directory = self.folders.first().cloned();
                job.files.filename_format = Some("_tiotest.thr$jobnum".to_owned());
            }
            None => {
                let count = self.folders.len().max(1);
                let place = usize::try_from(thread).unwrap_or(0) % count;
                job.files.directory = self.folders.get(place).cloned();
                job.files.filename_format = Some(format!("_tiotest.thr{thread}"));
            }
        }
        job
    }

    /// The measurements of each phase.
    #[must_use]
    pub fn phase_results(&self, result: &RunResult) -> Vec<PhaseResult> {
        let jobs = self.jobs();
        let of = |phase: Phase| {
            let own = (0..jobs.len()).filter(|&place| jobs[place].name == phase.short_name());
            let own: Vec<usize> = own.collect();
            let job = |&place: &usize| result.together(|job| job == place);
            let mut statistics = own.iter().filter_map(job);
            let mut all = statistics.next()?;
            statistics.for_each(|other| all.merge(&other));
            // Wall times of threads that take turns are added up; others run in one wall time.
            let walls = own.iter().filter(|&&place| jobs[place].clones.stonewall);
            let time = walls.map(|&place| wall_time(result, place)).fold(Nanos::ZERO, |a, b| a + b);
            Some(PhaseResult { phase, time, statistics: all })
        };
        self.phases().filter_map(of).collect()
    }

    /// tiotest's two tables; without latencies with `-L`.
    #[must_use]
    pub fn table(&self, result: &RunResult, with_latencies: bool) -> String {
        let phases = self.phase_results(result);
        let mut text = format!("Tiotest results for {} concurrent io threads:\n", self.threads);
        text.push_str(",----------------------------------------------------------------------.\n");
        text.push_str("| Item                  | Time     | Rate         | Usr CPU  | Sys CPU |\n");
        text.push_str("+-----------------------+----------+--------------+----------+---------+\n");
        for phase in &phases {
            let ((user, system), rate) = (phase.cpu(), phase.rate());
            // The amount ends where all names do.
            let width = 17 - phase.phase.name().len();
            let _infallible = writeln!(
                text,
                "| {}{:>width$.0} MBs | {:6.1} s | {rate:7.3} MB/s | {user:5.1} %  \
                 | {system:5.1} % |",
                phase.phase.name(),
                mebibytes(phase.bytes()),
                seconds(phase.time),
            );
        }
        text.push_str("`----------------------------------------------------------------------'\n");
        if with_latencies {
            text.push_str(&latency_table(&phases));
        }
        text.push('\n');
        text
    }

    /// The lines of `-T`, for scripts.
    #[must_use]
    pub fn terse(&self, result: &RunResult) -> String {
        let mut text = String::new();
        let mut total = Latencies::default();
        for phase in self.phase_results(result) {
            let latencies = phase.latency();
            total.add(latencies);
            let [mean, max, over_2s, over_10s] = latencies.figures();
            let (user, system) = phase.cpu();
            let threads = f64::from(self.threads.max(1));
            let cpu = |per_cent: f64| per_cent / 100.0 * seconds(phase.time) / threads;
            let _infallible = writeln!(
                text,
                "{}:{:.5},{:.5},{:.5},{:.5},{mean:.5},{max:.5},{over_2s:.5},{over_10s:.5}",
                phase.phase.short_name(),
                mebibytes(phase.bytes()),
                seconds(phase.time),
                cpu(user),
                cpu(system),
            );
        }
        let [mean, max, over_2s, over_10s] = total.figures();
        let _infallible = writeln!(text, "total:{mean:.5},{max:.5},{over_2s:.5},{over_10s:.5}");
        text
    }
}

fn latency_table(phases: &[PhaseResult]) -> String {
    let mut text = String::from("Tiotest latency results:\n");
    text.push_str(",-------------------------------------------------------------------------.\n");
    text.push_str("| Item         | Average latency | Maximum latency | % >2 sec | % >10 sec |\n");
    text.push_str("+--------------+-----------------+-----------------+----------+-----------+\n");
    let mut total = Latencies::default();
    let row = |name: &str, latencies: &Latencies| {
        let [mean, max, over_2s, over_10s] = latencies.figures();
        format!(
            "| {name:<12} | {mean:12.3} ms | {max:12.3} ms | {over_2s:8.5} | {over_10s:9.5} |\n"
        )
    };
    for phase in phases.iter().filter(|phase| phase.latency().calls > 0) {
        text.push_str(&row(phase.phase.name(), &phase.latency()));
        total.add(phase.latency());
    }
    text.push_str("|--------------+-----------------+-----------------+----------+-----------|\n");
    text.push_str(&row("Total", &total));
    text.push_str("`--------------+-----------------+-----------------+----------+-----------'\n");
    text
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job: everything that one section of a job file says, in numbers.
//!
//! A job represents `numjobs` clones. Options not given have fio's default; a field is an `Option`
//! only where "not given" differs from every value (`direct`: a simulation may choose).
//!
//! Reporting groups: jobs are numbered by group in the report. The number rises at a job with
//! `stonewall` or `new_group`, unless the group has no member yet:
//!
//! ```text
//! [grp] 0    [one] new_group 1    [two] 1    [three] stonewall 2
//! ```
//!
//! Source: FIO-19 for groups, FIO-40 for the names of files, FIO-45 for the random map.

use std::collections::BTreeMap;
use std::sync::Arc;

use paternoster_core::Nanos;

use super::changes::Changes;
use super::cmdprio::CommandPriority;
use super::cpu_load::CpuLoad;
use super::distribution::Distribution;
use super::ending::Ending;
use super::file_choice::FileService;
use super::flow::FlowShare;
use super::frames::FrameRules;
use super::job_logs::LogRules;
use super::latency_target::LatencyGoal;
use super::pace::RateRules;
use super::problem::Problem;
use super::recorded::Recorded;
use super::relay::Leg;
use super::replay::ReplayRules;
use super::strides::Strides;
use super::syncs::Syncs;
use super::value::Amount;
use super::verify_plan::VerifyRules;
use crate::builtin::sysbench::generator::Rules;

/// Which directions a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only reads.
    ReadOnly,
    /// Only writes.
    WriteOnly,
    /// Only trims.
    TrimOnly,
    /// Reads and writes, mixed by `rwmixread`.
    ReadWrite,
    /// Each block is trimmed, then written.
    TrimWrite,
}

/// The option `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Offsets are random.
    pub random: bool,
    /// Which directions.
    pub kind: Kind,
    /// The suffix `:N`. Random: a new offset every N I/Os, at least 1. Sequential: bytes added
    /// after each I/O, 0 by default, negative to go backwards.
    pub skip: i64,
}

/// How a job waits for its I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One I/O at a time.
    Sync,
    /// Up to `iodepth` in flight.
    Async,
    /// Every I/O completes at once and never reaches a device.
    Null,
    /// No I/O: the job burns CPU.
    Cpu,
}

/// The option `io_submit_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubmitMode {
    /// The process submits, and a full queue holds it up.
    #[default]
    Inline,
    /// Others submit for it: an open loop, where I/Os come only at the given rate.
    Offload,
}

/// The option `unified_rw_reporting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unified {
    /// Directions apart.
    #[default]
    None,
    /// All directions as one.
    Mixed,
    /// Apart, then as one.
    Both,
}

/// Where an option of a job was given.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    /// Source, or `command line`.
    pub file: String,
    /// Line in it; on the command line the number of the argument.
    pub line: u32,
    /// The line's text.
    pub text: String,
}

/// What `randread:N` does between two random offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequencer {
    /// Continue after the last I/O.
    Sequential,
    /// Repeat the last I/O.
    Identical,
}

/// The option `random_generator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generator {
    /// taus88, with a random map.
    Tausworthe,
    /// LFSR258, with a random map.
    Tausworthe64,
    /// A shift register that gives each block once, without a map.
    Lfsr,
}

/// One job: a section with what it inherited.
#[derive(Debug, Clone)]
pub struct Job {
    /// Name of the section, or what `name=` says.
    pub name: String,
    /// This section's options with a value, in order, variables replaced: the report's `job
    /// options`.
    pub given: Vec<(String, String)>,
    /// Source that holds the section.
    pub file: String,
    /// Line of its header.
    pub line: u32,
    /// Where each option was given last, by its own name; inherited ones too.
    pub origins: BTreeMap<&'static str, Arc<Origin>>,
    /// Free text.
    pub description: Option<String>,
    /// Directions and order.
    pub rw: Pattern,
    /// The pattern's name in reports, without suffix: `randread`, `rw`.
    pub rw_text: &'static str,
    /// Smallest and largest block in bytes: reads, writes, trims.
    pub block_size: [(u64, u64); 3],
    /// Whether `bsrange` or `bssplit` sets it: they win over `bs`, in any order.
    pub ranged: [bool; 3],
    /// Block sizes in bytes with their shares in percent, rising; empty without `bssplit`.
    pub bssplit: [Vec<(u64, u8)>; 3],
    /// `ba`: alignment of random offsets, by direction; turns the random map off.
    pub block_align: [Option<u64>; 3],
    /// `bs_unaligned`: sizes drawn from a range need not be multiples of its smallest size.
    pub bs_unaligned: bool,
    /// The block sizes of reads and writes are those of sequential and random I/O.
    pub bs_is_seq_rand: bool,
    /// Size of the region; `None` is all of the file or device.
    pub size: Option<Amount>,
    /// Amount of I/O; `None` is the size.
    pub io_size: Option<Amount>,
    /// Start of the region.
    pub offset: Amount,
    /// Added to the offset once for each clone before this one.
    pub offset_increment: Amount,
    /// What an offset in percent is rounded up to a multiple of; 0 is the least block.
    pub offset_align: u64,
    /// Zones with gaps between them.
    pub strides: Strides,
    /// Stop after this many I/Os.
    pub number_ios: Option<u64>,
    /// Repetitions of the job, at least 1.
    pub loops: u64,
    /// Files or devices; empty: one file named after the job, see [`Job::file_names`].
    pub filenames: Vec<String>,
    /// Where files are.
    pub directory: Option<String>,
    /// Form of the names of files.
    pub filename_format: Option<String>,
    /// Number of files; 1.
    pub nrfiles: u32,
    /// Size of a file; of a range the largest.
    pub filesize: Option<u64>,
    /// Least and greatest size of each file, if they differ.
    pub filesize_range: Option<(u64, u64)>,
    /// How many files are open at one time; by default all.
    pub open_files: Option<usize>,
    /// Which file is next.
    pub file_service: FileService,
    /// Bypass the page cache; `None`: not said, which means no, as in fio.
    pub direct: Option<bool>,
    /// Files are read into the cache before the job.
    pub pre_read: bool,
    /// Cached pages are dropped before the job.
    pub invalidate: bool,
    /// Files that are written have their data from the beginning.
    pub overwrite: bool,
    /// When data are made safe.
    pub syncs: Syncs,
    /// All clones take their offsets from one position. No option of fio's: disktest does it.
    pub shared_position: bool,
    /// The clones hand over to each other; empty if they do not. No option of fio's: startup does
    /// it.
    pub relay: Vec<Leg>,
    /// What the clones do comes from one generator with these rules; its directions and places
    /// are not those of `rw`. No option of fio's: sysbench does it.
    pub generated: Option<Rules>,
    /// The job ends with the last that is not background. Not an option of fio's: startup uses it.
    pub background: bool,
    /// How the job waits.
    pub engine: Engine,
    /// The engine's name as given.
    pub engine_name: String,
    /// I/Os in flight as given; a synchronous engine has one whatever this says.
    pub iodepth: u32,
    /// How far the depth falls before it is filled again: 1 to `iodepth`.
    pub iodepth_low: u32,
    /// I/Os submitted together: 1 to `iodepth`.
    pub iodepth_batch_submit: u32,
    /// Completions waited for: 0 (poll) to `iodepth`.
    pub iodepth_batch_complete_min: u32,
    /// Completions taken at most: 1 to `iodepth`, not below the least.
    pub iodepth_batch_complete_max: u32,
    /// Which thread submits.
    pub submit_mode: SubmitMode,
    /// No two I/Os in flight on the same bytes.
    pub serialize_overlap: bool,
    /// What `cpuio` burns.
    pub cpu_load: CpuLoad,
    /// A built-in workload to run instead.
    pub profile: Option<String>,
    /// What is read back of what was written.
    pub verify: VerifyRules,
    /// Replay and recording of logs of I/O.
    pub replay: ReplayRules,
    /// The logs that it replays, once they were read; clones take them by turns.
    pub recorded: Vec<Arc<Recorded>>,
    /// Clones, at least 1.
    pub numjobs: u32,
    /// Report clones as one.
    pub group_reporting: bool,
    /// Begin a new reporting group.
    pub new_group: bool,
    /// Start after all earlier jobs have ended.
    pub stonewall: bool,
    /// How its end ends others, and whose end it waits for.
    pub ending: Ending,
    /// Least and greatest delay of the start.
    pub start_delay: (Nanos, Nanos),
    /// Stop after this long, counted from the end of `ramp_time`.
    pub runtime: Option<Nanos>,
    /// Only `runtime` ends the job.
    pub time_based: bool,
    /// Time before anything is counted.
    pub ramp_time: Nanos,
    /// Pause after `thinktime_blocks` I/Os.
    pub thinktime: Nanos,
    /// Part of the pause that burns CPU.
    pub thinktime_spin: Nanos,
    /// I/Os between two pauses; if not given one, or as many as `think_io_time` lets pass.
    pub thinktime_blocks: Option<u32>,
    /// `thinktime_blocks` counts I/Os issued, not completed.
    pub think_at_issue: bool,
    /// Time of I/O between two pauses; zero is not given.
    pub think_io_time: Nanos,
    /// Bytes per second: reads, writes, trims.
    pub rate: [Option<u64>; 3],
    /// I/Os per second: reads, writes, trims.
    pub rate_iops: [Option<u64>; 3],
    /// Least rates, and how the rates are kept.
    pub rates: RateRules,
    /// The job's part in a shared flow.
    pub flow: FlowShare,
    /// The frames of a player. No option of fio's.
    pub frames: FrameRules,
    /// How it changes during the run. Not an option of fio's.
    pub changes: Changes,
    /// The latency for which a depth is searched.
    pub latency_goal: LatencyGoal,
    /// The job fails if an I/O takes longer: reads, writes, trims.
    pub max_latency: [Option<Nanos>; 3],
    /// I/O priority, 0 to 7.
    pub prio: Option<u8>,
    /// I/O class, 0 to 3.
    pub prioclass: Option<u8>,
    /// CPU priority, -20 to 19.
    pub nice: i8,
    /// Control group.
    pub cgroup: Option<String>,
    /// Its weight, 100 to 1000.
    pub cgroup_weight: Option<u32>,
    /// I/Os with another priority than the job's.
    pub command_priority: CommandPriority,
    /// Seed of the generators, if given.
    pub randseed: Option<u64>,
    /// Same offsets on every run.
    pub randrepeat: bool,
    /// Same everything on every run.
    pub allrandrepeat: bool,
    /// Random offsets may repeat.
    pub norandommap: bool,
    /// Which generator.
    pub random_generator: Generator,
    /// How random offsets are drawn.
    pub random_distribution: Distribution,
    /// What happens between two random offsets.
    pub rw_sequencer: Sequencer,
    /// Hundredths of a random job that are random: reads, writes, trims.
    pub percentage_random: [u8; 3],
    /// Hundredths of a mixed job that are reads.
    pub rwmixread: u8,
    /// Window of bandwidth samples.
    pub bwavgtime: Nanos,
    /// Percentiles of the report.
    pub percentile_list: Vec<f64>,
    /// How often a report is printed on the way.
    pub status_interval: Option<Nanos>,
    /// Logs of bandwidth, latency and I/Os.
    pub logs: LogRules,
    /// Whether the report separates directions.
    pub unified: Unified,
}

/// fio's block size when nothing is said.
const BLOCK_SIZE: u64 = 4096;

/// fio's percentiles when nothing is said.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

impl Default for Job {
    /// fio's defaults. The depths 0 mean "not said" until the job is complete.
    fn default() -> Job {
        Job {
            name: String::new(),
            given: Vec::new(),
            file: String::new(),
            line: 1,
            origins: BTreeMap::new(),
            description: None,
            rw: Pattern { random: false, kind: Kind::ReadOnly, skip: 0 },
            rw_text: "read",
            block_size: [(BLOCK_SIZE, BLOCK_SIZE); 3],
            ranged: [false; 3],
            bssplit: [const { Vec::new() }; 3],
            block_align: [None; 3],
            bs_unaligned: false,
            bs_is_seq_rand: false,
            size: None,
            io_size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            strides: Strides::default(),
            number_ios: None,
            loops: 1,
            filenames: Vec::new(),
            directory: None,
            filename_format: None,
            nrfiles: 1,
            filesize: None,
            filesize_range: None,
            open_files: None,
            file_service: FileService::RoundRobin(1),
            direct: None,
            pre_read: false,
            invalidate: true,
            overwrite: false,
            syncs: Syncs::default(),
            shared_position: false,
            relay: Vec::new(),
            generated: None,
            background: false,
            engine: Engine::Sync,
            engine_name: "psync".to_owned(),
            iodepth: 1,
            iodepth_low: 0,
            iodepth_batch_submit: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 0,
            submit_mode: SubmitMode::Inline,
            serialize_overlap: false,
            cpu_load: CpuLoad::default(),
            profile: None,
            verify: VerifyRules::default(),
            replay: ReplayRules::default(),
            recorded: Vec::new(),
            numjobs: 1,
            group_reporting: false,
            new_group: false,
            stonewall: false,
            ending: Ending::default(),
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            runtime: None,
            time_based: false,
            ramp_time: Nanos::ZERO,
            thinktime: Nanos::ZERO,
            thinktime_spin: Nanos::ZERO,
            thinktime_blocks: None,
            think_at_issue: false,
            think_io_time: Nanos::ZERO,
            rate: [None; 3],
            rate_iops: [None; 3],
            rates: RateRules::default(),
            flow: FlowShare::default(),
            frames: FrameRules::default(),
            changes: Changes::default(),
            latency_goal: LatencyGoal::default(),
            max_latency: [None; 3],
            prio: None,
            prioclass: None,
            nice: 0,
            cgroup: None,
            cgroup_weight: None,
            command_priority: CommandPriority::default(),
            randseed: None,
            randrepeat: true,
            allrandrepeat: false,
            norandommap: false,
            random_generator: Generator::Tausworthe,
            random_distribution: Distribution::Uniform,
            rw_sequencer: Sequencer::Sequential,
            percentage_random: [100; 3],
            rwmixread: 50,
            bwavgtime: Nanos::from_millis(500),
            percentile_list: PERCENTILES.to_vec(),
            status_interval: None,
            logs: LogRules::default(),
            unified: Unified::None,
        }
    }
}

impl Job {
    /// What is wrong with the job as a whole, at the line of its name.
    #[must_use]
    pub fn problem(&self, message: String) -> Problem {
        let text = format!("[{}]", self.name);
        Problem { file: self.file.clone(), line: self.line, text, message }
    }

    /// The files of clone number `clone`, from 0, with their directory.
    ///
    /// Named files are shared by all clones; otherwise each clone has its own, `job.clone.0` or as
    /// `filename_format` says.
    #[must_use]
    pub fn file_names(&self, clone: u32) -> Vec<String> {
        let own = |number: u32| match &self.filename_format {
            None => format!("{}.{clone}.{number}", self.name),
            Some(format) => format
                .replace("$jobname", &self.name)
                .replace("$jobnum", &clone.to_string())
                .replace("$filenum", &number.to_string())
                .replace("$clientuid", "localhost"),
        };
        let names = if self.filenames.is_empty() {
            (0..self.nrfiles).map(own).collect()
        } else {
            self.filenames.clone()
        };
        names.into_iter().map(|name| self.in_directory(name)).collect()
    }

    /// The number of a clone among fio's threads, the job's first one being number `first`. Seeds
    /// derived from it follow another order than one would think: of four clones they are 1, 4, 3
    /// and 2.
    #[must_use]
    pub fn thread_of(&self, first: u32, clone: u32) -> u32 {
        if clone == 0 { first } else { first + self.numjobs.saturating_sub(clone) }
    }

    fn in_directory(&self, name: String) -> String {
        match &self.directory {
            // A device's path is whole in itself.
            Some(directory) if !is_device(&name) => {
                format!("{}/{name}", directory.trim_end_matches('/'))
            }
            _ => name,
        }
    }

    /// Whether a map keeps random blocks from being used twice in a pass.
    #[must_use]
    pub fn has_random_map(&self) -> bool {
        // An alignment that is the block itself is none.
        let aligned = self.block_align.iter().zip(&self.block_size);
        let mut aligned =
            aligned.map(|(align, (least, _))| align.is_none_or(|align| align == *least));
        self.rw.random
            && !self.norandommap
            && aligned.all(|one| one)
            && self.random_generator != Generator::Lfsr
            && self.random_distribution.is_uniform()
    }

    /// Whether the job ends with the last that is not background: by itself, or as `cpuio` with
    /// `exit_on_io_done`.
    #[must_use]
    pub fn is_in_background(&self) -> bool {
        self.background || self.engine == Engine::Cpu && self.cpu_load.ends_with_io
    }

    /// Whether all the job's files are devices, which have a size of their own.
    #[must_use]
    pub fn on_devices(&self) -> bool {
        !self.filenames.is_empty() && self.filenames.iter().all(|name| is_device(name))
    }
}

/// Whether a file's name is that of a block device.
#[must_use]
pub fn is_device(name: &str) -> bool {
    name.starts_with("/dev/")
}

/// The reporting group of each job, from 0.
#[must_use]
pub fn reporting_groups(jobs: &[Job]) -> Vec<u32> {
    let mut group = 0;
    let mut groups = Vec::with_capacity(jobs.len());
    for job in jobs {
        // After the first job the current group always has a member.
        if (job.stonewall || job.new_group) && !groups.is_empty() {
            group += 1;
        }
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Job {
        Job { name: name.to_owned(), ..Job::default() }
    }

    /// Do groups rise only where the current one has members?
    #[test]
    fn groups_rise_at_walls() {
        let wall = || Job { stonewall: true, ..named("wall") };
        let new = Job { new_group: true, ..named("new") };
        let jobs = [wall(), named("a"), new, named("b"), wall(), wall()];
        assert_eq!(reporting_groups(&jobs), [0, 0, 1, 1, 2, 3]);
    }

    /// Are files named as fio names them?
    #[test]
    fn files_are_named_after_job_and_clone() {
        let mut job = named("rdwr");
        assert_eq!(job.file_names(0), ["rdwr.0.0"]);
        job.directory = Some("/tmp/".to_owned());
        assert_eq!(job.file_names(1), ["/tmp/rdwr.1.0"]);
        job.filename_format = Some("$jobname-$jobnum-$filenum".to_owned());
        assert_eq!(job.file_names(2), ["/tmp/rdwr-2-0"]);
        job.filenames = vec!["/dev/sda".to_owned(), "b".to_owned()];
        assert_eq!(job.file_names(2), ["/dev/sda", "/tmp/b"]);
        assert!(!job.on_devices());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built-in workloads: their originals' options, and what they print.
//!
//! Each runs on a fresh device under each selected scheduler. With several devices or schedulers
//! every table has a line above it that says which it is. With `--format` the figures are printed
//! like those of `run`, every run of the command side by side.

use clap::Args;
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use paternoster_core::{Nanos, NoObserver, Observer};
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::results::{Format, emit};
use paternoster_frame::setting::{Setting, SettingOptions, time};
use paternoster_frame::target::Target;
use paternoster_frame::{Failure, print};
use paternoster_workload::builtin::dd::Dd;
use paternoster_workload::builtin::disktest::{Disktest, Heartbeats};
use paternoster_workload::builtin::iostest::{Iostest, Row, Workload};
use paternoster_workload::builtin::tiobench::Tiobench;
use paternoster_workload::builtin::tiotest::{PhaseResult, RawDevice, Tiotest};
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::JobFile;
use paternoster_workload::fio::value::Reader;
use paternoster_workload::layout;
use paternoster_workload::meter::CommandHash;
use paternoster_workload::outcome::{Outcome, Subject};
use paternoster_workload::run::{RunResult, Settings};

use crate::compare::{self, Told};
use crate::evidence::{Evidence, Which};
use crate::plot::clients;

/// The largest block and the largest file: larger ones would overflow sums.
const BLOCK_MAX: u64 = 1 << 30;
pub(crate) const FILE_MAX: u64 = 1 << 50;

/// Threads, jobs, repetitions.
fn count() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}

/// Random calls.
fn calls() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=1 << 32)
}

/// Distances in MB (2^20), up to 1 TiB: times 4096 threads they must not overflow.
fn offset() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(0..=1 << 20)
}

/// Sizes in MB (2^20), up to 1 PiB.
fn megabytes() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=1 << 30)
}

/// How results are printed, if not as in the original.
#[derive(Debug, Args)]
struct ToldOptions {
    /// Tell the results as `run` does, instead of in the original's own words
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

/// Threads that write, write at random, read and read at random: tiotest
#[derive(Debug, Args)]
#[command(after_help = "Example (the run of the thread on arrays, 2010):
  paternoster tiotest -t 8 -f 2000 -r 4000 -b 4096 --device array-eva --scheduler noop

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
#[expect(clippy::struct_excessive_bools, reason = "tiotest's own switches")]
pub(crate) struct TiotestOptions {
    /// Threads
    #[arg(short = 't', value_name = "N", default_value_t = 4, value_parser = count())]
    threads: u32,
    /// MB (2^20 bytes) of each thread's file
    #[arg(short = 'f', value_name = "MB", default_value_t = 10, value_parser = megabytes())]
    file_mb: u64,
    /// Random calls of each thread
    #[arg(short = 'r', value_name = "N", default_value_t = 100_000, value_parser = calls())]
    random_calls: u64,
    /// Bytes of a call (4096, 64k)
    #[arg(short = 'b', value_name = "SIZE", default_value = "4096")]
    block: String,
    /// Folder of the files; several spread the threads over them
    #[arg(short = 'd', value_name = "DIR")]
    folders: Vec<String>,
    /// All threads on this device instead of files
    #[arg(short = 'R', value_name = "DEVICE")]
    raw: Option<String>,
    /// MB between threads on a device
    #[arg(short = 'o', value_name = "MB", default_value_t = 0, value_parser = offset())]
    offset_mb: u64,
    /// The first thread on a device is offset too
    #[arg(short = 'O')]
    offset_first: bool,
    /// Leave out a test: 0 write, 1 random write, 2 read, 3 random read
    #[arg(short = 'k', value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3))]
    skipped: Vec<u8>,
    /// No table of latencies
    #[arg(short = 'L')]
    no_latencies: bool,
    /// Lines for scripts instead of tables
    #[arg(short = 'T')]
    terse: bool,
    /// Write phase one thread after the other
    #[arg(short = 'W')]
    write_in_turns: bool,
    /// Open files with O_SYNC
    #[arg(short = 'S')]
    synchronous: bool,
    /// Bypass the page cache
    #[arg(short = 'X')]
    direct: bool,
    /// Drop caches before each test
    #[arg(short = 'F')]
    drop_caches: bool,
    #[command(flatten)]
    told: ToldOptions,
    #[command(flatten)]
    setting: SettingOptions,
}

pub(crate) fn tiotest(options: &TiotestOptions) -> Result<(), Failure> {
    let raw = options.raw.as_ref().map(|path| RawDevice {
        path: path.clone(),
        offset_mb: options.offset_mb,
        offset_first: options.offset_first,
    });
    let tiotest = Tiotest {
        threads: options.threads,
        file_mb: options.file_mb,
        random_calls: options.random_calls,
        block: size("-b", &options.block, BLOCK_MAX)?,
        folders: options.folders.clone(),
        raw,
        skipped: options.skipped.iter().map(|&place| usize::from(place)).collect(),
        write_in_turns: options.write_in_turns,
        synchronous: options.synchronous,
        direct: options.direct,
        drop_caches: options.drop_caches,
    };
    each(&options.setting, &options.told, "tiotest", |runner| {
        let (result, _) = runner.run(&tiotest.jobs(), "", NoObserver)?;
        Ok(if options.terse {
            tiotest.terse(&result)
        } else {
            tiotest.table(&result, !options.no_latencies)
        })
    })
}

/// tiotest with several numbers of threads, as four tables
#[derive(Debug, Args)]
#[command(after_help = "Example:
  paternoster tiobench --size 2048 --threads 1 --threads 8 --device hdd-7200 --scheduler noop

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
pub(crate) struct TiobenchOptions {
    /// Numbers of threads
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    #[arg(value_parser = count())]
    threads: Vec<u32>,
    /// MB (2^20 bytes) of all files together
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = megabytes())]
    size: u64,
    /// Random calls of all threads together
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = calls())]
    random: u64,
    /// Bytes of a call
    #[arg(long, value_name = "SIZE", default_value = "4096")]
    block: String,
    /// What the first column says; the scheduler unless given
    #[arg(long, value_name = "TEXT")]
    identifier: Option<String>,
    #[command(flatten)]
    told: ToldOptions,
    #[command(flatten)]
    setting: SettingOptions,
}

pub(crate) fn tiobench(options: &TiobenchOptions) -> Result<(), Failure> {
    let block = size("--block", &options.block, BLOCK_MAX)?;
    each(&options.setting, &options.told, "tiobench", |runner| {
        let scheduler = runner.scheduler;
        let identifier = options.identifier.as_ref().unwrap_or(&scheduler.text);
        let tiobench = Tiobench {
            threads: options.threads.clone(),
            size_mb: options.size,
            random_calls: options.random,
            block,
            identifier: identifier.clone(),
        };
        let mut runs: Vec<Vec<PhaseResult>> = Vec::new();
        for run in tiobench.runs() {
            let threads = match run.threads {
                1 => ", 1 thread".to_owned(),
                threads => format!(", {threads} threads"),
            };
            runs.push(run.phase_results(&runner.run(&run.jobs(), &threads, NoObserver)?.0));
        }
        Ok(tiobench.table(&runs))
    })
}

/// Many threads on one device, in the linear pattern on one stream: disktest
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Example (a run of the thread on arrays, 2010, shorter):
  paternoster disktest -B 4k -h 1 -I BD -K 32 -p l -P T -T 5 -r /dev/sdf --device array-eva

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
pub(crate) struct DisktestOptions {
    /// The device, or a file together with -s
    #[arg(value_name = "PATH")]
    path: String,
    /// Bytes of a call
    #[arg(short = 'B', value_name = "SIZE", default_value = "16k")]
    block: String,
    /// Seconds between two lines
    #[arg(short = 'h', value_name = "SECONDS", default_value = "10")]
    heartbeat: String,
    /// B block device, D direct, F file; BD is both
    #[arg(short = 'I', value_name = "TYPE", default_value = "BD")]
    kind: String,
    /// Threads
    #[arg(short = 'K', value_name = "N", default_value_t = 4, value_parser = count())]
    threads: u32,
    /// Pattern: l linear, one stream for all threads; r random
    #[arg(short = 'p', value_name = "PATTERN", default_value = "l", value_parser = ["l", "r"])]
    pattern: String,
    /// Report to print: T throughput
    #[arg(short = 'P', value_name = "WHAT", default_value = "T", value_parser = ["T"])]
    report: String,
    /// How long to run
    #[arg(short = 'T', value_name = "SECONDS", default_value = "10")]
    time: String,
    /// Size of a file, or the part of the device that is used
    #[arg(short = 's', value_name = "SIZE")]
    size: Option<String>,
    /// Read (the default)
    #[arg(short = 'r', conflicts_with = "write")]
    read: bool,
    /// Write
    #[arg(short = 'w')]
    write: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    told: ToldOptions,
    #[command(flatten)]
    setting: SettingOptions,
}

pub(crate) fn disktest(options: &DisktestOptions) -> Result<(), Failure> {
    if let Some(wrong) = options.kind.chars().find(|letter| !"BDF".contains(*letter)) {
        let message = format!("-I {}: `{wrong}` is none of B, D and F", options.kind);
        return Err(Failure::Request(message));
    }
    if !options.path.starts_with("/dev/") && options.size.is_none() {
        let message = format!("{}: a file needs its size, as -s 1g", options.path);
        return Err(Failure::Request(message));
    }
    let own_size = options.size.as_ref().map(|text| size("-s", text, FILE_MAX));
    let disktest = Disktest {
        block: size("-B", &options.block, BLOCK_MAX)?,
        heartbeat: some_time("-h", &options.heartbeat)?,
        direct: options.kind.contains('D'),
        threads: options.threads,
        random: options.pattern == "r",
        time: some_time("-T", &options.time)?,
        write: options.write,
        path: options.path.clone(),
        size: own_size.transpose()?,
    };
    each(&options.setting, &options.told, "disktest", |runner| {
        let beats = Heartbeats::new(disktest.heartbeat, disktest.time);
        let (_, beats) = runner.run(&disktest.jobs(), "", beats)?;
        Ok(disktest.lines(&beats))
    })
}

/// 1 to 16 readers or writers with a file each: Vivek Goyal's iostest
#[derive(Debug, Args)]
#[command(after_help = "Example (a table of the thread on arrays, 2010):
  paternoster iostest bsr --filesize 2g --bs 4k --device array-eva --scheduler noop

And a picture of it:
  paternoster iostest bsr --jobs 8 --device array-eva --scheduler noop --plot queue-depth=d.svg

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
pub(crate) struct IostestOptions {
    /// b or d (buffered, direct), s or r (sequential, random), r or w (reader, writer): bsr, drw, …
    #[arg(value_name = "WORKLOAD", default_value = "bsr")]
    workload: String,
    /// Numbers of jobs
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    #[arg(value_parser = count())]
    jobs: Vec<u32>,
    /// Repetitions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    sets: u32,
    /// Size of each file
    #[arg(long, value_name = "SIZE", default_value = "2g")]
    filesize: String,
    /// Bytes of a call
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    bs: String,
    /// The longest run
    #[arg(long, value_name = "TIME", default_value = "30")]
    time: String,
    #[command(flatten)]
    told: ToldOptions,
    #[command(flatten)]
    setting: SettingOptions,
}

pub(crate) fn iostest(options: &IostestOptions) -> Result<(), Failure> {
    let iostest = Iostest {
        workload: Workload::parse(&options.workload).map_err(Failure::Request)?,
        jobs: options.jobs.clone(),
        sets: options.sets,
        file_size: size("--filesize", &options.filesize, FILE_MAX)?,
        block: size("--bs", &options.bs, BLOCK_MAX)?,
        time: some_time("--time", &options.time)?,
    };
    each(&options.setting, &options.told, &format!("iostest {}", options.workload), |runner| {
        let mut rows: Vec<Row> = Vec::new();
        for set in 1..=iostest.sets {
            for &jobs in &iostest.jobs {
                let many = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
                let which = match iostest.sets {
                    1 => format!(", {many}"),
                    _ => format!(", {many}, set {set}"),
                };
                let (result, _) = runner.run(&iostest.job(jobs), &which, NoObserver)?;
                rows.push(iostest.row(set, jobs, &result));
            }
        }
        Ok(iostest.table(&runner.device.name, &runner.scheduler.text, &rows))
    })
}

/// Files read or written as a whole, after dropped caches: dd
#[derive(Debug, Args)]
#[command(after_help = "Example:
  paternoster dd --files 8 --size 1g --together --placement interleaved:1m --device array-eva

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
pub(crate) struct DdOptions {
    /// Files
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    files: u32,
    /// Size of each
    #[arg(long, value_name = "SIZE", default_value = "1g")]
    size: String,
    /// Bytes of a call
    #[arg(long, value_name = "SIZE", default_value = "1m")]
    bs: String,
    /// Write, with conv=fsync, instead of reading
    #[arg(long)]
    write: bool,
    /// Bypass the page cache
    #[arg(long)]
    direct: bool,
    /// All at the same time instead of one after the other
    #[arg(long)]
    together: bool,
    #[command(flatten)]
    told: ToldOptions,
    #[command(flatten)]
    setting: SettingOptions,
}

pub(crate) fn dd(options: &DdOptions) -> Result<(), Failure> {
    let dd = Dd {
        files: options.files,
        size: size("--size", &options.size, FILE_MAX)?,
        block: size("--bs", &options.bs, BLOCK_MAX)?,
        write: options.write,
        direct: options.direct,
        together: options.together,
    };
    each(&options.setting, &options.told, "dd", |runner| {
        Ok(dd.lines(&runner.run(&dd.jobs(), "", NoObserver)?.0))
    })
}

/// One device and one scheduler.
struct Runner<'a> {
    setting: &'a Setting,
    device: &'a Target,
    scheduler: &'a SchedulerChoice,
    evidence: &'a mut Evidence,
    /// Every run, if results are printed as those of `run`.
    told: Option<&'a mut Vec<Told>>,
}

impl Runner<'_> {
    /// One run; `which` distinguishes it from other runs on the same device under the same
    /// scheduler.
    fn run<O: Observer + 'static>(
        &mut self,
        jobs: &[Job],
        which: &str,
        observer: O,
    ) -> Result<(RunResult, O), Failure> {
        let Settings { placement, seed, .. } = self.setting.on(self.device);
        layout::plan(jobs, self.device.facts.capacity * 512, placement, seed)
            .map_err(|problem| Failure::Request(problem.message))?;
        let Runner { setting, device, scheduler, .. } = *self;
        let which = Which { setting, device, scheduler, more: which };
        let run_observer = self.evidence.run_observer(which, clients(jobs))?;
        let observer = (observer, (CommandHash::default(), run_observer));
        let (result, (observer, (commands, run_observer)), _) =
            self.setting.run(jobs, self.device, self.scheduler, observer, &mut |_| {})?;
        self.evidence.keep(which, run_observer)?;
        if let Some(told) = &mut self.told {
            let file = JobFile { global: Vec::new(), jobs: jobs.to_vec(), notes: Vec::new() };
            let label = scheduler.text.clone() + which.more;
            let (device, settings) = (&device.name, &setting.on(device));
            let subject = Subject { jobs: &file, device, scheduler: &label, settings };
            let outcome = Outcome::new(&subject, &result, None);
            told.push(Told { outcome, commands: commands.digest(), notes: Vec::new() });
        }
        match result.processes.iter().find(|process| process.error != 0) {
            None => Ok((result, observer)),
            Some(process) => {
                let name = &jobs[process.job].name;
                Err(Failure::Job(format!("{name} failed with errno {}", process.error)))
            }
        }
    }
}

/// Runs under every scheduler on every device, prints each text, or all results in the requested
/// form, and draws the requested pictures.
fn each(
    options: &SettingOptions,
    told: &ToldOptions,
    workload: &str,
    run: impl Fn(&mut Runner<'_>) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let setting = Setting::new(options, None)?;
    let mut evidence = Evidence::new(options)?;
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            setting.check(&[], device, scheduler)?;
        }
    }
    let several = setting.devices.len() * setting.schedulers.len() > 1;
    let mut text = String::new();
    let mut runs = told.format.map(|_| Vec::new());
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            if several {
                text.push_str(&format!("{} on {}\n", scheduler.text, device.name));
            }
            let (setting, evidence, told) = (&setting, &mut evidence, runs.as_mut());
            text.push_str(&run(&mut Runner { setting, device, scheduler, evidence, told })?);
            if several {
                text.push('\n');
            }
        }
    }
    let subject = setting.subject(workload);
    match told.format.zip(runs) {
        Some((format, runs)) => {
            let results = compare::results(&subject, &runs, &[]);
            emit(format, None, |format| results.told(format))?;
        }
        None => print(&text)?,
    }
    evidence.write(&subject)
}

/// A size in bytes, at least one sector.
pub(crate) fn size(option: &str, text: &str, most: u64) -> Result<u64, Failure> {
    let mut notes = Vec::new();
    let size = Reader::new(1024, &mut notes).integer(text, 512, most);
    size.map_err(|why| Failure::Request(format!("{option} {text}: {why}")))
}

/// A span of time that is not empty; seconds without a unit.
pub(crate) fn some_time(option: &str, text: &str) -> Result<Nanos, Failure> {
    match time(option, text, Nanos::from_secs(1))? {
        Nanos::ZERO => Err(Failure::Request(format!("{option} {text}: it takes some time"))),
        time => Ok(time),
    }
}

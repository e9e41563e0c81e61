// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: sysbench's own, with its names and defaults.
//!
//! Names of sysbench 0.4 are accepted for those of 1.0 (`--num-threads` is `--threads`), with the
//! defaults of 1.0. If an option is given twice the last one counts, as there.

use clap::builder::{PossibleValuesParser, RangedI64ValueParser, RangedU64ValueParser};
use clap::{Args, ValueEnum};
use paternoster_core::Nanos;
use paternoster_frame::Failure;
use paternoster_frame::format::Form;
use paternoster_frame::setting::{SettingOptions, time};
use paternoster_workload::builtin::sysbench::{IoMode, Mode, SyncCall, Sysbench};
use paternoster_workload::fio::syncs::FileSync;

use crate::builtin::{FILE_MAX, size};

/// The largest request.
const BLOCK_MAX: u64 = 1 << 30;
/// The longest test: a day.
const TIME_MAX: Nanos = Nanos::from_secs(86_400);
/// Lines of interim results.
pub(super) const LINES_MAX: u64 = 1 << 20;

/// Threads that read and write many files, with bursts of fsync: sysbench's fileio
#[derive(Debug, Args)]
#[command(args_override_self = true)]
#[command(mut_arg("device", |device| device.default_value("hdd-7200")))]
#[command(mut_arg("seed", |seed| seed.alias("rand-seed")))]
#[command(after_help = "Examples:
  paternoster sysbench fileio --file-test-mode=rndwr --threads=16 run
  paternoster sysbench fileio --file-test-mode=rndrw --file-extra-flags=direct run
  paternoster sysbench fileio --file-test-mode=seqrd --report-interval=1 --scheduler cfq run
  paternoster sysbench --test=fileio --num-threads=4 --file-test-mode=rndwr --max-time=30 run
  paternoster sysbench fileio --file-test-mode=rndwr --scheduler noop --scheduler cfq \
--format table run

Files are in place when a test begins: `prepare` and `cleanup` have nothing to do.

Exit status: 0 done, 1 a job failed, 2 the request was wrong.")]
pub(crate) struct SysbenchOptions {
    /// The test, fileio, and what to do: prepare, run (unless said) or cleanup
    #[arg(value_name = "WORD", num_args = 0..=2)]
    words: Vec<String>,
    /// The test, as sysbench 0.4 had it
    #[arg(long, value_name = "NAME", hide = true)]
    test: Option<String>,
    /// Threads
    #[arg(long, alias = "num-threads", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = threads())]
    threads: u32,
    /// How long (seconds without a unit); 0 is without limit
    #[arg(long, alias = "max-time", value_name = "TIME", default_value = "10")]
    time: String,
    /// At most this many events: reads, writes and fsyncs of bursts; 0 is without limit
    #[arg(long, alias = "max-requests", value_name = "N", default_value_t = 0)]
    events: u64,
    /// This many events a second on average, over all threads; 0 is as fast as they can
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = rate())]
    rate: u64,
    /// The percentile of latencies to print, 1 to 100; 0 is none
    #[arg(long, value_name = "N", default_value_t = 95, value_parser = percentile())]
    percentile: u32,
    /// Print a line every this often (seconds without a unit); 0 is never
    #[arg(long, value_name = "TIME", default_value = "0")]
    report_interval: String,
    /// sysbench 0.4 drew places by this; here --seed does
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, hide = true)]
    #[arg(default_missing_value = "on", value_parser = on_off())]
    init_rng: Option<String>,
    /// Files
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = files())]
    file_num: u32,
    /// Bytes of a request (16384, 16k)
    #[arg(long, value_name = "SIZE", default_value = "16384")]
    file_block_size: String,
    /// Size of all files together
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    file_total_size: String,
    /// What is done: seqwr (write new files), seqrewr, seqrd, rndrd, rndwr or rndrw
    #[arg(long, value_name = "MODE", value_parser = modes())]
    file_test_mode: Option<String>,
    /// sync (one call at a time) or async; mmap is not modelled
    #[arg(long, value_name = "MODE", default_value = "sync")]
    file_io_mode: String,
    /// Requests that each thread keeps in flight with async, if they are direct
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = backlog())]
    file_async_backlog: u32,
    /// How files are opened: sync, dsync, direct
    #[arg(long, value_name = "FLAGS", value_delimiter = ',')]
    file_extra_flags: Vec<String>,
    /// After this many requests an fsync of every file, shared out among the threads; 0 is never
    #[arg(long, value_name = "N", default_value_t = 100)]
    file_fsync_freq: u64,
    /// An fsync after each write, and none after --file-fsync-freq requests
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "off", default_missing_value = "on", value_parser = on_off())]
    file_fsync_all: String,
    /// At its end each thread does an fsync of every file
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "on", default_missing_value = "on", value_parser = on_off())]
    file_fsync_end: String,
    /// Which call makes data safe: fsync or fdatasync, the same here
    #[arg(long, value_name = "CALL", default_value = "fsync")]
    #[arg(value_parser = ["fsync", "fdatasync"])]
    file_fsync_mode: String,
    /// Blocks of a sequential request at most; 0 is one
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = merged())]
    file_merged_requests: u32,
    /// Reads per write of rndrw
    #[arg(long, value_name = "RATIO", default_value = "1.5", value_parser = ratio)]
    file_rw_ratio: f64,
    /// How to print the results
    #[arg(long = "format", alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "sysbench")]
    pub(super) output_format: Form<Told>,
    #[command(flatten)]
    pub(super) setting: SettingOptions,
}

/// Formats of sysbench itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Told {
    /// As sysbench 1.1 prints them; with several runs also a table
    Sysbench,
    /// As sysbench 1.0 prints them, with `File operations:`; with several runs also a table
    #[value(name = "sysbench-1.0")]
    SysbenchOlder,
}

fn threads() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}

fn files() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 16)
}

fn backlog() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}

fn merged() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=1 << 20)
}

fn percentile() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=100)
}

fn rate() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(0..=1_000_000_000)
}

fn modes() -> PossibleValuesParser {
    PossibleValuesParser::new(Mode::ALL.map(Mode::name))
}

fn on_off() -> PossibleValuesParser {
    PossibleValuesParser::new(["on", "off"])
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() && ratio >= 0.0 => Ok(ratio),
        _ => Err("it must be a number from 0, as 1.5: reads by writes".to_owned()),
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Prepare,
    Run,
    Cleanup,
}

/// The command among the words; the test must be fileio.
pub(super) fn command(options: &SysbenchOptions) -> Result<Command, Failure> {
    let mut words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    if let Some(test) = &options.test {
        words.insert(0, test);
    }
    let wrong = |why: String| Err(Failure::Request(format!("sysbench {}: {why}", words.join(" "))));
    let (&test, rest) = match words.split_first() {
        Some(split) => split,
        None => return wrong("name the test, as `sysbench fileio … run`".to_owned()),
    };
    if test != "fileio" {
        return wrong(format!("there is no test `{test}` here, only fileio"));
    }
    match rest {
        [] | ["run"] => Ok(Command::Run),
        ["prepare"] => Ok(Command::Prepare),
        ["cleanup"] => Ok(Command::Cleanup),
        [word, ..] => wrong(format!("`{word}` is none of prepare, run and cleanup")),
    }
}

/// The request, read.
pub(crate) fn asked(options: &SysbenchOptions) -> Result<Sysbench, Failure> {
    let modes = Mode::ALL.map(Mode::name).join(", ");
    let Some(mode) = &options.file_test_mode else {
        let message = format!("sysbench fileio: give --file-test-mode=MODE, one of {modes}");
        return Err(Failure::Request(message));
    };
    let Some(mode) = Mode::ALL.into_iter().find(|known| known.name() == mode) else {
        return Err(Failure::Request(format!("--file-test-mode={mode}: none of {modes}")));
    };
    let (open, direct) = flags(&options.file_extra_flags)?;
    let sysbench = Sysbench {
        threads: options.threads,
        time: span("--time", &options.time)?,
        events: Some(options.events).filter(|events| *events > 0),
        rate: Some(options.rate).filter(|rate| *rate > 0),
        percentile: options.percentile,
        report_interval: span("--report-interval", &options.report_interval)?,
        files: options.file_num,
        block: size("--file-block-size", &options.file_block_size, BLOCK_MAX)?,
        total: size("--file-total-size", &options.file_total_size, FILE_MAX)?,
        io_mode: io_mode(options)?,
        open,
        direct,
        sync_every: options.file_fsync_freq,
        sync_all: options.file_fsync_all == "on",
        sync_end: options.file_fsync_end == "on",
        sync_call: match &*options.file_fsync_mode {
            "fdatasync" => SyncCall::Fdatasync,
            _ => SyncCall::Fsync,
        },
        merged: options.file_merged_requests,
        ratio: options.file_rw_ratio,
        ..Sysbench::new(mode)
    };
    sysbench.check().map_err(Failure::Request)?;
    let lines = sysbench.time.zip(sysbench.report_interval).map(|(all, each)| all.0 / each.0);
    if lines.is_some_and(|lines| lines > LINES_MAX) {
        let message = format!("--report-interval={}: too many lines", options.report_interval);
        return Err(Failure::Request(message));
    }
    Ok(sysbench)
}

fn io_mode(options: &SysbenchOptions) -> Result<IoMode, Failure> {
    match &*options.file_io_mode {
        "sync" => Ok(IoMode::Sync),
        "async" => Ok(IoMode::Async(options.file_async_backlog)),
        "mmap" => Err(Failure::Request(
            "--file-io-mode=mmap: mapped files are not modelled; use sync, which has the same page \
             cache"
                .to_owned(),
        )),
        other => {
            Err(Failure::Request(format!("--file-io-mode={other}: it is none of sync and async")))
        }
    }
}

fn flags(flags: &[String]) -> Result<(FileSync, bool), Failure> {
    let (mut open, mut direct) = (FileSync::None, false);
    for flag in flags {
        match &**flag {
            "sync" => open = FileSync::Sync,
            "dsync" if open == FileSync::None => open = FileSync::Dsync,
            "direct" => direct = true,
            "dsync" | "" => {}
            _ => {
                let message = format!(
                    "--file-extra-flags={}: `{flag}` is none of sync, dsync and direct",
                    flags.join(",")
                );
                return Err(Failure::Request(message));
            }
        }
    }
    Ok((open, direct))
}

/// A span of time; 0 is none.
fn span(option: &str, text: &str) -> Result<Option<Nanos>, Failure> {
    let span = time(option, text, Nanos::from_secs(1))?;
    if span > TIME_MAX {
        return Err(Failure::Request(format!("{option} {text}: at most {TIME_MAX}")));
    }
    Ok(Some(span).filter(|span| *span > Nanos::ZERO))
}

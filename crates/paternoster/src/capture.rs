// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster record`: a real device's block trace, through the kernel's own tracer.
//!
//! ```text
//! tracefs: current_tracer = blk, options/bin ──trace_pipe──▶ Ordered ──▶ PREFIX.blktrace.0 …
//!          /sys/class/block/DEVICE/trace/enable
//! ```
//!
//! It needs root and a kernel with `CONFIG_BLK_DEV_IO_TRACE`, not the blktrace tool, and works
//! where that one is refused (kernel lockdown). The stream of all processors is sorted and written
//! as blktrace would, with the names of processes as the kernel remembers them. It ends with its
//! command, after `--seconds`, or with Ctrl-C; all settings are restored.
//!
//! Source: TRACE-3, TRACE-13, TRACE-14; measured on Linux 6.18.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use clap::Args;
use paternoster_frame::Failure;
use paternoster_frame::say;
use paternoster_frame::tracefs::stream::Stream;
use paternoster_frame::tracefs::{self, Form, Names, Tracing};
use paternoster_trace::blktrace::{Categories, Code, Ordered, PerCpu, Record};
use paternoster_trace::{Entry, Source};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::evidence::remove_further;

/// How often it checks whether the end has come.
const GLANCE: Duration = Duration::from_millis(20);

/// Record the block trace of a real device (Linux, as root)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster record /dev/sda --seconds 30
  paternoster record /dev/sda -o boot -- cp -r /usr /tmp/copy
  paternoster analyze sda
  paternoster replay sda --device hdd-7200 --scheduler bfq --scheduler mq-deadline

Exit status: 0 done, 1 the command or the writing failed, 2 the request was wrong.")]
pub(crate) struct RecordOptions {
    /// The device, or a partition of it
    #[arg(value_name = "DEVICE")]
    device: PathBuf,

    /// Prefix of the files: PREFIX.blktrace.0 and so on [default: the device's name]
    #[arg(long, short, value_name = "PREFIX")]
    output: Option<String>,

    /// How long to record [default: until Ctrl-C]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    seconds: Option<f64>,

    /// KiB of the kernel's buffer, for each processor
    #[arg(long, value_name = "KIB", default_value_t = 16_384)]
    #[arg(value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    buffer: u32,

    /// Runs this, and records as long as it runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn record(options: &RecordOptions) -> Result<(), Failure> {
    let seconds = match options.seconds {
        Some(seconds) if !(seconds > 0.0 && seconds <= 1e6) => {
            let message = format!("--seconds {seconds}: more than 0 and at most 1000000");
            return Err(Failure::Request(message));
        }
        seconds => seconds.map(Duration::from_secs_f64),
    };
    let name = tracefs::device_name(&options.device)?;
    let prefix = options.output.clone().unwrap_or_else(|| name.clone());
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let tracing = Tracing::start(&name, options.buffer, Form::Records)?;
    // An older recording of the same name stays until there is a new one.
    let mut child = spawn(&options.command)?;
    let files = create(&prefix).inspect_err(|_| end(&mut child))?;
    let over = Arc::new(AtomicBool::new(false));
    let stream = Stream::new(tracing.pipe()?, Arc::clone(&over));
    let writer = std::thread::spawn(move || write(stream, files));
    let status = watch(child, seconds, &|| stop.load(Ordering::Relaxed) || writer.is_finished());
    tracing.pause();
    over.store(true, Ordering::Relaxed);
    let written = writer.join().map_err(|_| Failure::Job("the writer has ended".to_owned()))?;
    let lost = tracing.lost();
    drop(tracing);
    let (events, missing) = written.map_err(|error| Failure::Job(format!("{prefix}: {error}")))?;
    say!("{events} events of {name} in {prefix}.blktrace.*");
    if lost > 0 || missing > 0 {
        say!(
            "note: the kernel dropped {lost} events, and at {missing} places something is missing: \
             a larger --buffer holds more"
        );
    }
    status
}

/// A file for each processor of this machine.
fn create(prefix: &str) -> Result<IntoIter<BufWriter<File>>, Failure> {
    let cpus = tracefs::processors();
    remove_further(prefix, cpus);
    let create = |cpu: u32| {
        let name = format!("{prefix}.blktrace.{cpu}");
        let file = File::create(&name).map(BufWriter::new);
        file.map_err(|error| Failure::Request(format!("{name}: {error}")))
    };
    let files: Result<Vec<_>, Failure> = (0..cpus).map(create).collect();
    Ok(files?.into_iter())
}

/// Starts the command, if there is one.
fn spawn(command: &[String]) -> Result<Option<Child>, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let child = Command::new(program).args(arguments).spawn();
    child.map(Some).map_err(|error| Failure::Request(format!("{program}: {error}")))
}

/// Ends the command, if there is one.
fn end(child: &mut Option<Child>) {
    if let Some(child) = child {
        let _gone_already = child.kill();
        let _gone_already = child.wait();
    }
}

/// Waits until the command has ended, the time is over or a stop is requested.
fn watch(
    mut child: Option<Child>,
    seconds: Option<Duration>,
    stops: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        if stops() || seconds.is_some_and(|most| begin.elapsed() >= most) {
            end(&mut child);
            return Ok(());
        }
        if let Some(ended) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            // Its last output is still on the way.
            std::thread::sleep(GLANCE);
            return if ended.success() {
                Ok(())
            } else {
                Err(Failure::Job(format!("the command ended with {ended}")))
            };
        }
        std::thread::sleep(GLANCE);
    }
}

/// Writes the stream until it ends; returns how many events there were, and how many problems.
fn write(stream: Stream, mut files: IntoIter<BufWriter<File>>) -> io::Result<(u64, u64)> {
    let mut source = Ordered::new("trace_pipe", stream);
    let next = move |_| files.next().ok_or_else(|| io::Error::other("a processor appeared"));
    let mut files = PerCpu::new(next);
    let (mut events, mut known, mut names) = (0, BTreeSet::new(), Names::default());
    while let Some(entry) = source.next() {
        let record = entry.record;
        if !record.is_note()
            && record.pid != 0
            && known.insert(record.pid)
            && let Some(name) = names.of(record.pid)
        {
            let record = named(&record);
            files.record(&Entry { record, payload: name.as_bytes() })?;
        }
        events += u64::from(!record.is_note());
        files.record(&entry)?;
    }
    files.finish()?;
    for problem in source.problems().shown() {
        say!("note: {problem}");
    }
    Ok((events, source.problems().count()))
}

/// The note that names the process of an event.
fn named(event: &Record) -> Record {
    let (code, categories) = (Code::NOTE_PROCESS, Categories::NOTIFY);
    Record { at: event.at, pid: event.pid, cpu: event.cpu, code, categories, ..Record::default() }
}

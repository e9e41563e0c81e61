// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster emulate`: a modelled device in real time, as a file.
//!
//! ```text
//! name or device file ─▶ Emulation (mounted) ─▶ DIR/NAME ◀── fio, losetup, mkfs, --run
//!    first signal, the command's end, or a umount ─▶ unmounted ─▶ how precise it was
//! ```

mod tell;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use paternoster_frame::say;
use paternoster_frame::{Failure, choice};
use paternoster_serve::emulate::{self, Emulated, Emulation};
use paternoster_serve::host::signals::{StopSignals, Supervised};

use crate::builtin;
use crate::serve::verdict;

/// The exit status after a second signal: as a shell reports SIGINT.
const AT_ONCE: i32 = 130;
/// How often it checks for a umount from outside.
const LOOK: Duration = Duration::from_millis(200);

/// Present a modelled device as a file, in real time, to try any program on
#[derive(Debug, Args)]
#[command(
    after_help = "The device is a name that `paternoster devices` lists, or a device file. Its \
file is DIR/NAME, over FUSE; what is read and written takes as long as the model says, with its \
depth, its write cache and its flushes. For the kernel's own schedulers put a loop device on it.

The first SIGTERM or SIGINT unmounts it, the second one ends it at once; it also ends when \
somebody unmounts it. Then it says how precise it was: how long commands were set to take by the \
model, how long they took, and how late that was. Below 500 us it is not precise; see
docs/emulate.md.

--run starts a command in a shell that has $file, $mount, $device and $size in its environment, \
and ends as it did.

Examples:
  paternoster emulate hdd-7200 --mount /mnt/disk --size 16g
  paternoster emulate ssd-870evo --mount /mnt/ssd --data ssd.img --allow-other
  paternoster emulate lab-disk --mount /mnt/lab --report-json precise.json --run \\
      'fio --name=a --filename=$file --size=$size --rw=randread --direct=1 --runtime=10'
  paternoster emulate my-disk.toml --mount /mnt/mine --run \\
      'losetup -f --show --direct-io=on $file && sh; losetup -d $(losetup -nO NAME -j $file)'

Exit status: 0 ended in good order, 1 it could not be mounted or was still in use, 2 the request \
was wrong; with --run the command's."
)]
pub(crate) struct EmulateOptions {
    /// A modelled device: its name, or a device file
    #[arg(value_name = "DEVICE")]
    device: String,

    /// The folder to mount it on; it must exist and be empty
    #[arg(long, value_name = "DIR")]
    mount: PathBuf,

    /// Keep the data in this file, made sparse if it does not exist [default: memory, gone at the
    /// end]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,

    /// The file's size [default: the device's]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,

    /// Users besides your own may open it
    #[arg(long)]
    allow_other: bool,

    /// Emulate as long as this command runs
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,

    /// Write how precise it was as JSON, too
    #[arg(long, value_name = "FILE")]
    report_json: Option<PathBuf>,
}

/// Emulates until a signal, or the end of a command.
pub(crate) fn emulate(options: &EmulateOptions) -> Result<(), Failure> {
    let device = choice::device(&options.device)?;
    let size = options.size.as_ref().map(|text| builtin::size("--size", text, u64::MAX >> 1));
    let emulated = Emulated {
        device,
        mount: options.mount.clone(),
        data: options.data.clone(),
        size: size.transpose()?,
        allow_other: options.allow_other,
    };
    // Before anything is mounted, so that no signal leaves a mount behind.
    let signals = StopSignals::hear()?;
    let emulation = Emulation::start(&emulated).map_err(Failure::Job)?;
    say!("{}", tell::started(&emulated, &emulation).trim_end());
    let done = match &options.run {
        Some(line) => run(line, &emulated, &emulation, signals),
        None => {
            wait(&emulation, &stop(signals, None, mount_of(&emulation)));
            Ok(())
        }
    };
    let so_far = emulation.precision();
    let ended = emulation.finish();
    let precision = ended.as_ref().unwrap_or(&so_far);
    paternoster_frame::print(&tell::table(precision))?;
    if let Some(file) = &options.report_json {
        let wrong = |error| Failure::Job(format!("{}: {error}", file.display()));
        std::fs::write(file, tell::json(&emulated, precision)).map_err(wrong)?;
    }
    done?;
    ended.map(drop).map_err(Failure::Job)
}

fn mount_of(emulation: &Emulation) -> PathBuf {
    emulation.file().parent().unwrap_or(Path::new("/")).to_owned()
}

/// Waits until an end is requested.
fn wait(emulation: &Emulation, stopped: &Receiver<()>) {
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && !emulation.is_over() {}
}

/// Runs the command; its status is ours.
fn run(
    line: &str,
    emulated: &Emulated,
    emulation: &Emulation,
    signals: StopSignals,
) -> Result<(), Failure> {
    let mut child = shell(line, emulated, emulation)?;
    let _stopped = stop(signals, Some(Supervised::of(&child)?), mount_of(emulation));
    verdict(child.wait()?)
}

fn shell(line: &str, emulated: &Emulated, emulation: &Emulation) -> Result<Child, Failure> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command.env("file", emulation.file()).env("mount", mount_of(emulation));
    command.env("device", &emulated.device.name).env("size", emulation.size().to_string());
    Ok(command.spawn()?)
}

/// The first signal asks the command to end, or else reports it here; the second ends everything at
/// once, but leaves no mount behind.
fn stop(mut signals: StopSignals, command: Option<Supervised>, mount: PathBuf) -> Receiver<()> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        signals.wait();
        match &command {
            Some(command) => command.ask_to_end(),
            // The waiting thread may have gone.
            None => tell.send(()).unwrap_or_default(),
        }
        signals.wait();
        emulate::abandon(&mount);
        std::process::exit(AT_ONCE);
    });
    told
}

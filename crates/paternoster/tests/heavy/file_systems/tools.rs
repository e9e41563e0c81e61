// SPDX-License-Identifier: MIT OR Apache-2.0
//! What these tests need of a machine, and how they run its programs: never for longer than a
//! limit, and with all of a program's output if it fails.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::skipped;

/// Seconds after which a program is ended. The slowest needs five; a busy machine may take many
/// times as long.
const LIMIT_S: u32 = 150;

/// `CAP_SYS_ADMIN` in the masks of `/proc/self/status`: with it a process may mount.
const MAY_MOUNT: u64 = 1 << 21;

/// Whether all of these programs are installed; the first missing one is reported, with Debian's
/// package.
pub(crate) fn installed(programs: &[(&str, &str)]) -> bool {
    let missing = programs.iter().find(|(program, _)| find(program).is_none());
    if let Some((program, package)) = missing {
        skipped(&format!("{program} is not installed (Debian package {package})"));
    }
    missing.is_none()
}

/// Where a program is. Folders for root are searched even if PATH leaves them out.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(more).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

/// Whether this process may mount and has loop devices and FUSE; what it lacks is reported.
pub(crate) fn may_mount() -> bool {
    let why = if !is_root() {
        "it takes root to mount"
    } else if !has_capability() {
        "root may not mount here (a container without CAP_SYS_ADMIN?)"
    } else if !opens("/dev/fuse") {
        "/dev/fuse is missing, or may not be opened"
    } else if !opens("/dev/loop-control") {
        "/dev/loop-control is missing, or may not be opened"
    } else {
        return true;
    };
    skipped(why);
    false
}

fn is_root() -> bool {
    let uid = |found: Metadata| found.uid();
    std::fs::metadata("/proc/self").map(uid).is_ok_and(|uid| uid == 0)
}

fn has_capability() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & MAY_MOUNT != 0)
}

fn opens(path: &str) -> bool {
    File::options().read(true).write(true).open(path).is_ok()
}

/// Whether the kernel has a file system, after asking for its module.
pub(crate) fn kernel_has(name: &str) -> bool {
    let has = || {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        known.lines().any(|line| line.trim() == name)
    };
    if !has() {
        let _no_modules_here = command("modprobe").args(["-q", name]).output();
    }
    if !has() {
        skipped(&format!("this kernel has no {name}"));
    }
    has()
}

/// A program with a limit on its time, nothing to read, and messages in English.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    command_within(LIMIT_S, program)
}

/// The same, with a limit in seconds.
pub(crate) fn command_within(seconds: u32, program: impl AsRef<Path>) -> Command {
    let program = program.as_ref();
    let place = program.to_str().and_then(find).unwrap_or_else(|| program.to_owned());
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds.to_string()]).arg(place);
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    command
}

/// Runs a program that must end well; returns its standard output, trimmed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{}", told(command, &output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs a program whose failure does not matter; returns whether it ended well.
pub(crate) fn tried(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn told(command: &Command, output: &Output) -> String {
    let [said, complained] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{command:?}: {}\n{said}\n{complained}", output.status)
}

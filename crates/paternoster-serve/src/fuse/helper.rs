// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helper: a process that mounts and unmounts the folder of `[server.fuse]` for a server that has
//! given up both.
//!
//! ```text
//! server ──fork──▶ helper              before Landlock, no_new_privs and the first thread
//!    │ mount ─────▶ mount(2), or fusermount3 ──▶ /dev/fuse, open: it goes to the server
//!    │ unmount ───▶ umount2(2), or fusermount3 -u
//!    ✗ killed ────▶ what it has left behind, dead, is taken away; the helper ends
//! ```
//!
//! Landlock lets no process mount or unmount, and with no_new_privs a helper program has no rights:
//! so this one is there before either, and keeps what rights the server was started with.
//!
//! Invariants: I1 it does these two things to this folder alone: nothing that it is told has a
//! path; I2 it holds no file of the server but their channel; I3 it ends with the server, by
//! whatever, and no signal to all processes of a terminal or a service ends it before.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

use super::mount;
use crate::config::Fuse;
use crate::handover::channel::{Channel, Frame};
use crate::host::sandbox::is_alone;

/// How long it may take for one thing: a helper program may be asked.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long its end is waited for.
const END: Duration = Duration::from_secs(1);

/// Kinds of records: what it is asked.
const MOUNT: u8 = 1;
const UNMOUNT: u8 = 2;
const DETACH: u8 = 3;
/// What it answers: that it is there, that it has done it, the errno, or why in words.
const READY: u8 = 4;
const DONE: u8 = 5;
const ERRNO: u8 = 6;
const WHY: u8 = 7;

/// A helper, as its server sees it.
#[derive(Debug)]
pub(crate) struct Helper {
    channel: Channel,
    process: Pid,
}

impl Helper {
    /// Starts it.
    ///
    /// # Errors
    /// In words, why there is none: this process has other threads already, say.
    pub(crate) fn start(settings: &Fuse) -> Result<Helper, String> {
        let told = |error: io::Error| format!("no helper that unmounts could be started: {error}");
        // Of a process with threads only the one that forks goes on, whatever the others were at.
        if !is_alone() {
            return Err("a process with threads cannot start a helper that unmounts".to_owned());
        }
        let (ours, its) = UnixStream::pair().map_err(told)?;
        // SAFETY: no other thread is there, so all of memory is as this one left it; the child
        // never returns from here.
        match unsafe { libc::fork() } {
            -1 => Err(told(io::Error::last_os_error())),
            0 => {
                drop(ours);
                let _panic = catch_unwind(AssertUnwindSafe(|| be(its, settings)));
                // SAFETY: a plain number; what the server wants done at its exit is not done.
                unsafe { libc::_exit(0) }
            }
            number => {
                let process = Pid::from_raw(number).ok_or("a child has a number")?;
                let channel = Channel::new(ours).map_err(told)?;
                let helper = Helper { channel, process };
                helper.answer().map_err(told)?;
                Ok(helper)
            }
        }
    }

    /// Mounts: the folder's full name, and where the kernel asks.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub(crate) fn mount(&self) -> Result<(PathBuf, OwnedFd), String> {
        let mut frame = self.ask(MOUNT).map_err(|error| error.to_string())?;
        let folder = std::ffi::OsString::from_vec(frame.payload);
        let device = frame.fds.pop().ok_or("the helper has sent no file")?;
        Ok((folder.into(), device))
    }

    /// Unmounts; `detached`: also when a process is in it.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn unmount(&self, detached: bool) -> io::Result<()> {
        self.ask(if detached { DETACH } else { UNMOUNT }).map(drop)
    }

    fn ask(&self, kind: u8) -> io::Result<Frame> {
        self.channel.send(kind, &[], &[], Instant::now() + PATIENCE)?;
        self.answer()
    }

    fn answer(&self) -> io::Result<Frame> {
        let frame = self.channel.receive(Some(Instant::now() + PATIENCE));
        let frame = frame.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::other("the helper has ended"),
            _ => error,
        })?;
        match frame.kind {
            READY | DONE => Ok(frame),
            ERRNO => {
                let errno = frame.payload.try_into().map_or(libc::EIO, i32::from_le_bytes);
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Err(io::Error::other(String::from_utf8_lossy(&frame.payload).into_owned())),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It ends when it hears no more.
        let _gone = self.channel.stream().shutdown(std::net::Shutdown::Both);
        let limit = Instant::now() + END;
        while matches!(waitpid(Some(self.process), WaitOptions::NOHANG), Ok(None))
            && Instant::now() < limit
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What the child process runs from now on.
fn be(its: UnixStream, settings: &Fuse) {
    let all = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1];
    for signal in all.into_iter().chain([libc::SIGUSR2]) {
        // SAFETY: no handler of ours is there any more, which is all that is asked.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: the text ends with a zero; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"paternoster-mnt".as_ptr()) };
    if close_all_but(&its).is_ok() {
        let _server_gone = Channel::new(its).and_then(|channel| serve(&channel, settings));
    }
}

/// Gives up what was inherited: sockets, locks, standard error, which its reader sees end.
fn close_all_but(its: &UnixStream) -> io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    drop(nowhere);
    let kept = its.as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept - 1), (kept + 1, u32::MAX)] {
        // SAFETY: plain numbers. Nothing in this process uses those files: what owned them belongs
        // to functions that never go on here.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn serve(channel: &Channel, settings: &Fuse) -> io::Result<()> {
    let soon = || Instant::now() + PATIENCE;
    let mut mounted: Option<PathBuf> = None;
    channel.send(READY, &[], &[], soon())?;
    while let Ok(asked) = channel.receive(None) {
        let refused = match (asked.kind, &mounted) {
            (MOUNT, None) => match mount_it(settings) {
                Ok((at, device)) => {
                    channel.send(DONE, at.as_os_str().as_bytes(), &[device.as_fd()], soon())?;
                    mounted = Some(at);
                    continue;
                }
                Err(why) => (WHY, why.into_bytes()),
            },
            (UNMOUNT | DETACH, Some(at)) => match mount::unmount(at, asked.kind == DETACH) {
                Ok(()) => {
                    mounted = None;
                    (DONE, Vec::new())
                }
                Err(error) => match error.raw_os_error() {
                    Some(errno) => (ERRNO, errno.to_le_bytes().to_vec()),
                    None => (WHY, error.to_string().into_bytes()),
                },
            },
            // It is so already.
            (UNMOUNT | DETACH, None) => (DONE, Vec::new()),
            _ => (WHY, b"it is mounted already".to_vec()),
        };
        channel.send(refused.0, &refused.1, &[], soon())?;
    }
    mounted.iter().for_each(|at| mount::take_away_if_dead(at));
    Ok(())
}

fn mount_it(settings: &Fuse) -> Result<(PathBuf, OwnedFd), String> {
    let (folder, others): (&Path, bool) = (&settings.mount, settings.allow_other);
    let at = mount::check(folder)?;
    let device = mount::mount(&at, others).map_err(|error| mount::explain(&at, &error, others))?;
    Ok((at, device))
}

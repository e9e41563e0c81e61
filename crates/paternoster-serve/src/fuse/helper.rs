// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helper: a process that mounts and unmounts the folder of `[server.fuse]` for a server that has
//! given up both.
//!
//! ```text
//! server ──fork──▶ helper              before Landlock, no_new_privs and the first thread
//!    │ mount ─────▶ mount(2), or fusermount3 ──▶ /dev/fuse, open: it goes to the server
//!    │ unmount ───▶ umount2(2), or fusermount3 -u
//!    ✗ killed ────▶ its dead mount is taken away; the helper ends
//! ```
//!
//! Landlock lets no process mount or unmount, and with no_new_privs a helper program has no rights:
//! so this one is there before either, and keeps what rights the server was started with.
//!
//! A record has a number, which its answer repeats: an answer that comes after its time is not
//! taken for that of the next record.
//!
//! Invariants: I1 it mounts once, on the folder that it opened before its first message, and
//! unmounts what it has mounted (`place.rs`, with its gaps); no message to it has a path; I2 it
//! holds no file of the server except the channel; I3 it ends when the server ends, for whatever
//! reason, and no signal to all processes of a terminal or a service ends it before.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

use super::place::{MountId, Place};
use crate::config::Fuse;
use crate::handover::channel::Channel;
use crate::host::sandbox::is_alone;

/// How long it may take for one thing: a helper program may be asked.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long its end is waited for.
const END: Duration = Duration::from_secs(1);

/// Kinds of records: what it is asked.
const MOUNT: u8 = 1;
const UNMOUNT: u8 = 2;
const DETACH: u8 = 3;
/// An answer of the helper: that it is ready, that the order was carried out, an errno, or the
/// reason in words.
const READY: u8 = 4;
const DONE: u8 = 5;
const ERRNO: u8 = 6;
const WHY: u8 = 7;

/// The number of the helper's first message, which answers no question.
const FIRST: u64 = 0;
/// Bytes of a number, with which each record begins.
const NUMBER: usize = 8;

/// A helper, as its server sees it.
#[derive(Debug)]
pub(crate) struct Helper {
    line: Line,
    process: Pid,
    folder: PathBuf,
}

/// The server's end of the channel.
#[derive(Debug)]
struct Line {
    channel: Channel,
    /// The number of the last record.
    asked: AtomicU64,
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
                let line = Line::new(ours).map_err(told)?;
                let helper = Helper { line, process, folder: settings.mount.clone() };
                helper.line.answer(FIRST, PATIENCE).map_err(told)?;
                Ok(helper)
            }
        }
    }

    /// Mounts: the folder's full name, and where the kernel asks.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub(crate) fn mount(&self) -> Result<(PathBuf, OwnedFd), String> {
        let answer = self.line.ask(MOUNT, PATIENCE).map_err(|error| error.to_string());
        let (folder, mut fds) = answer?;
        let device = fds.pop().ok_or("the helper has sent no file")?;
        Ok((std::ffi::OsString::from_vec(folder).into(), device))
    }

    /// Unmounts; `detached`: also when a process is in it.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn unmount(&self, detached: bool) -> io::Result<()> {
        let asked = self.line.ask(if detached { DETACH } else { UNMOUNT }, PATIENCE);
        asked.map(drop).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let shown = self.folder.display();
                io::Error::new(error.kind(), format!("{error}; `umount -l {shown}` helps"))
            }
            _ => error,
        })
    }
}

impl Line {
    fn new(stream: UnixStream) -> io::Result<Line> {
        Ok(Line { channel: Channel::new(stream)?, asked: AtomicU64::new(FIRST) })
    }

    /// Asks, and waits that long for the answer to this and to nothing before.
    fn ask(&self, kind: u8, patience: Duration) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let by = Instant::now() + patience;
        self.channel.send(kind, &number.to_le_bytes(), &[], by).map_err(has_ended)?;
        self.answer(number, patience)
    }

    fn answer(&self, number: u64, patience: Duration) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let by = Instant::now() + patience;
        loop {
            let frame = self.channel.receive(Some(by)).map_err(has_ended)?;
            let (of, payload) = numbered(frame.payload)?;
            if of < number {
                // It came too late. A file that came with it is closed.
                continue;
            }
            return match frame.kind {
                _ if of > number => Err(io::Error::other("the helper answers what was not asked")),
                READY | DONE => Ok((payload, frame.fds)),
                ERRNO => {
                    let errno = payload.try_into().map_or(libc::EIO, i32::from_le_bytes);
                    Err(io::Error::from_raw_os_error(errno))
                }
                _ => Err(io::Error::other(String::from_utf8_lossy(&payload).into_owned())),
            };
        }
    }
}

/// A record's number, and the rest.
fn numbered(mut payload: Vec<u8>) -> io::Result<(u64, Vec<u8>)> {
    let number = payload.first_chunk::<NUMBER>().map(|bytes| u64::from_le_bytes(*bytes));
    let number = number.ok_or_else(|| io::Error::from(ErrorKind::InvalidData))?;
    Ok((number, payload.split_off(NUMBER)))
}

/// The error of a server whose helper has closed its end.
fn has_ended(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            io::Error::new(ErrorKind::UnexpectedEof, "the helper has ended")
        }
        _ => error,
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The helper ends when its channel closes.
        let _gone = self.line.channel.stream().shutdown(Shutdown::Both);
        // An answer that came too late may have brought a file: open, it keeps a mount from dying.
        while self.line.channel.receive(Some(Instant::now())).is_ok() {}
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
        // SAFETY: a signal that is ignored runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: the text ends with a zero; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"paternoster-mnt".as_ptr()) };
    let Ok(channel) = Channel::new(its) else { return };
    match close_all_but(channel.stream()) {
        Ok(()) => {
            let mut hand = Hand::new(settings);
            if hand.tell(&channel, READY, FIRST, &[], &[]) {
                hand.answer(&channel);
            }
            hand.end();
        }
        Err(error) => {
            let why = format!("what it has inherited cannot be closed: {error} (Linux 5.9 can)");
            let payload = [&FIRST.to_le_bytes(), why.as_bytes()].concat();
            // The server waits for this as long as it waits for anything.
            let _server_gone = channel.send(WHY, &payload, &[], Instant::now() + PATIENCE);
        }
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
        // SAFETY: plain numbers. Nothing that this process runs from here on uses those files: it
        // has no other thread, and does not return to the functions that own them.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The mount that the helper has made.
struct Hand {
    /// The folder, or why there is none.
    place: Result<Place, String>,
    others: bool,
    once: bool,
    mounted: Option<MountId>,
}

impl Hand {
    fn new(settings: &Fuse) -> Hand {
        let place = Place::open(&settings.mount);
        Hand { place, others: settings.allow_other, once: false, mounted: None }
    }

    /// Says something; whether the server has not gone.
    fn tell(
        &self,
        channel: &Channel,
        kind: u8,
        number: u64,
        text: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> bool {
        let payload = [&number.to_le_bytes(), text].concat();
        channel.send(kind, &payload, fds, Instant::now() + PATIENCE).is_ok()
    }

    /// Does what it is asked until the server has gone.
    fn answer(&mut self, channel: &Channel) {
        while let Ok(asked) = channel.receive(None) {
            let Ok((number, _)) = numbered(asked.payload) else { return };
            let heard = match asked.kind {
                MOUNT => match self.mount() {
                    Ok((full, device)) => {
                        self.tell(channel, DONE, number, &full, &[device.as_fd()])
                    }
                    Err(why) => self.tell(channel, WHY, number, why.as_bytes(), &[]),
                },
                UNMOUNT | DETACH => match self.unmount(asked.kind == DETACH) {
                    Ok(()) => self.tell(channel, DONE, number, &[], &[]),
                    Err(error) => match error.raw_os_error() {
                        Some(errno) => self.tell(channel, ERRNO, number, &errno.to_le_bytes(), &[]),
                        None => self.tell(channel, WHY, number, error.to_string().as_bytes(), &[]),
                    },
                },
                _ => self.tell(channel, WHY, number, b"that is nothing a helper does", &[]),
            };
            if !heard {
                return;
            }
        }
    }

    /// Mounts: the folder's full name, and where the kernel asks. Only once: another mount has
    /// another server, with a helper of its own.
    fn mount(&mut self) -> Result<(Vec<u8>, OwnedFd), String> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        if self.once {
            return Err("it has mounted already".to_owned());
        }
        let (id, device) = place.mount(self.others)?;
        (self.once, self.mounted) = (true, Some(id));
        Ok((place.full().as_os_str().as_bytes().to_vec(), device))
    }

    fn unmount(&mut self, detached: bool) -> io::Result<()> {
        if let (Ok(place), Some(id)) = (&self.place, self.mounted) {
            place.unmount(id, detached)?;
        }
        self.mounted = None;
        Ok(())
    }

    /// The server has gone: what is mounted still is dead, or about to be.
    fn end(self) {
        if let (Ok(place), Some(id)) = (&self.place, self.mounted) {
            place.take_away_if_dead(id);
        }
    }
}

#[cfg(test)]
mod tests;

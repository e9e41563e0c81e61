// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster serve` with a disk that loses acknowledged data: what its clients, its log and its
//! exit status say, and what the next server knows.
//!
//! The kernel refuses `fdatasync` to the server, through a seccomp filter that is set between fork
//! and exec: neither a broken disk nor root is needed. Plain threads do the work, because
//! io_uring's calls pass no filter.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::skipped;
use crate::serve_arguments::{Scratch, serve};
use crate::upgrade::flagged;

const EIO: u32 = 5;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const FUA: u16 = 1;

/// The process to be started cannot sync any file: EIO.
fn cannot_sync(command: &mut Command) {
    let step =
        |code: u32, jf, k| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf, k };
    let number = u32::try_from(libc::SYS_fdatasync).unwrap();
    // Load the number of the call; if it is that one, fail; otherwise go on.
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | EIO),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let set = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        let (on, off) = (1 as libc::c_ulong, 0 as libc::c_ulong);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: two calls of the kernel; the program that the second reads lives until then.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, off, off, off) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, off, off) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: what runs between fork and exec takes no lock and no memory.
    unsafe { command.pre_exec(set) };
}

/// A server of one disk; `None` where no filter can be set.
fn start(scratch: &Scratch, disk: &str, syncs: bool) -> Option<(Child, UnixStream)> {
    let socket = scratch.text("s");
    let mut command = serve(&[disk, "--engine=threads", "--socket", &socket]);
    if !syncs {
        cannot_sync(&mut command);
    }
    let mut child = match command.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            skipped(&format!("no filter of system calls can be set here: {error}"));
            return None;
        }
    };
    let limit = Instant::now() + Duration::from_secs(60);
    let mut stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) => {
                assert!(Instant::now() < limit, "{error}");
                assert_eq!(child.try_wait().unwrap(), None, "it has ended");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    negotiate(&mut stream);
    Some((child, stream))
}

/// Fixed newstyle, no zeroes, the disk by its name.
pub(crate) fn negotiate(stream: &mut UnixStream) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    let name = b"disk.img";
    let length = u32::try_from(name.len()).unwrap().to_be_bytes();
    let flags_and_option: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x01";
    stream.write_all(&[flags_and_option, &length, name].concat()).unwrap();
    let mut size_and_flags = [0; 10];
    stream.read_exact(&mut size_and_flags).unwrap();
    assert_eq!(size_and_flags[..8], (1u64 << 20).to_be_bytes());
}

/// Sends one request; returns its errno.
fn ask(stream: &mut UnixStream, kind: u16, flags: u16, data: &[u8]) -> u32 {
    let (cookie, length) = (u64::from_be_bytes(*b"a cookie"), u32::try_from(data.len()).unwrap());
    stream.write_all(&flagged(flags, kind, cookie, 0, length, data)).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..4], &reply[8..]), (&b"\x67\x44\x66\x98"[..], &b"a cookie"[..]));
    u32::from_be_bytes(*reply[4..].first_chunk().unwrap())
}

/// Its exit status and its log, after a signal to end.
fn end(mut child: Child) -> (Option<i32>, String) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    (child.wait().unwrap().code(), log)
}

/// Is a failed flush reported to the client that asked and to those that ask later, in the log when
/// it happens, and by the exit status when the server ends; and does the next server, which cannot
/// know, serve again?
#[test]
fn a_loss_is_told_to_everybody() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    let Some((child, mut client)) = start(&scratch, &disk, false) else { return };
    assert_eq!(ask(&mut client, WRITE, 0, &[1; 4096]), 0, "it is in the cache, and that is all");
    assert_eq!(ask(&mut client, FLUSH, 0, &[]), EIO);
    // The kernel would find nothing more to write: the server must remember the loss.
    assert_eq!(ask(&mut client, FLUSH, 0, &[]), EIO);
    let (status, log) = end(child);
    assert_eq!(status, Some(1), "{log}");
    let when = "a flush failed: Input/output error (os error 5); data that were acknowledged may \
                be lost, and every flush is told so until the server is started anew";
    assert_eq!(log.matches(when).count(), 1, "once, when it happens: {log}");
    let last = log.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains("did not end as it should"), "{log}");
    assert!(last.contains("compare the volumes with what their clients know"), "{log}");

    let Some((child, mut client)) = start(&scratch, &disk, true) else { return };
    assert_eq!(ask(&mut client, WRITE, FUA, &[2; 4096]), 0);
    assert_eq!(ask(&mut client, FLUSH, 0, &[]), 0);
    let (status, log) = end(child);
    assert_eq!(status, Some(0), "{log}");
}

/// Does the exit status also report it when the last flush fails, which no client requested?
#[test]
fn a_last_flush_that_fails_is_told() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    let Some((child, mut client)) = start(&scratch, &disk, false) else { return };
    assert_eq!(ask(&mut client, WRITE, 0, &[1; 4096]), 0);
    let (status, log) = end(child);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("the last flush failed: Input/output error"), "{log}");
    assert!(log.contains("did not end as it should"), "{log}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overhead: what a request's way through the kernel and back takes, in addition to the model.
//!
//! ```text
//! process ──▶ kernel ──▶ we read it │ model │ answer written ──▶ kernel ──▶ process
//! |------------ a ----------------------|       |------------- b ---------------------|
//! ```
//!
//! A process waits for a + model + b. The file system cannot see a and b, so they are measured when
//! an emulation begins, by reading from it as a process would while it answers at once: a hundred
//! reads of 4 KiB, and some of 256 KiB for the extra cost of a larger one. The lower quartile
//! counts: the time without interference. Before each read all threads sleep for a moment, as they
//! do while a model works: otherwise they are still awake, and it takes 10 us instead of 30. The
//! measuring thread has the file system's priority; how late a busy machine wakes a process is not
//! counted.
//!
//! A request is assumed to have been issued this long before the file system read it. So a model of
//! 1 ms with an overhead of 25 us is asked as of 25 us ago and answers in 975: the process sees 1
//! ms. An answer is at most one overhead early by the file system's own clock, never early by the
//! model's, and a busy model does not become faster: a request that comes early waits in line.
//!
//! A process that uses a file of its own cannot be killed: its last thread waits for an answer from
//! a thread that is dead, but the kernel learns of that only when the descriptor of /dev/fuse is
//! closed, which the last thread shares. So the thread that measures shares no descriptors.
//!
//! Invariant: an overhead is at most [`MOST`] and 1 us per KiB, whatever a busy machine says.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paternoster_core::Nanos;

use super::model_queue::{Io, Kind};
use super::urgency;
use crate::device::memory::Memory;

/// More than this is not the way but the traffic.
const MOST: Nanos = Nanos::from_micros(100);
/// Long enough for a processor to fall asleep.
const PAUSE: Duration = Duration::from_micros(500);
const SMALL: usize = 4 << 10;
const LARGE: usize = 256 << 10;

/// What a request costs in addition to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overhead {
    /// Any request.
    pub(super) base: Nanos,
    /// Nanoseconds for each KiB of its data.
    per_kib: u64,
}

impl Overhead {
    /// From the times of a small and a large read.
    fn new(small: Nanos, large: Nanos) -> Overhead {
        let kib = |bytes: usize| bytes as u64 >> 10;
        let per_kib = (large - small.min(large)).0 / kib(LARGE - SMALL);
        let per_kib = per_kib.min(1_000);
        let base = small - Nanos(per_kib * kib(SMALL)).min(small);
        Overhead { base: base.min(MOST), per_kib }
    }

    /// The overhead of this request.
    pub(super) fn of(self, io: Io) -> Nanos {
        match io.kind {
            Kind::Read | Kind::Write => self.base + Nanos((io.length >> 10) * self.per_kib),
            Kind::Discard | Kind::Flush => self.base,
        }
    }

    /// Measures it with a file on a thread of its own, whose thread id it puts into `who`: this one
    /// is answered at once. Where the thread cannot have descriptors of its own (in a sandbox),
    /// nothing is taken off.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn measure(file: &Path, who: &AtomicU32) -> io::Result<Overhead> {
        let measured = thread::scope(|threads| {
            let measuring = threads.spawn(|| {
                urgency::hurry(1);
                if share_no_descriptors().is_err() {
                    return Ok(Overhead { base: Nanos::ZERO, per_kib: 0 });
                }
                // SAFETY: it tells the calling thread's number; no memory is concerned.
                who.store(unsafe { libc::gettid() }.cast_unsigned(), Ordering::Relaxed);
                Overhead::measure_here(file)
            });
            measuring.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        });
        who.store(0, Ordering::Relaxed);
        measured
    }

    fn measure_here(file: &Path) -> io::Result<Overhead> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file)?;
        let room = usize::try_from(opened.metadata()?.len()).unwrap_or(LARGE);
        let mut memory = Memory::new(LARGE)?;
        let mut quartile = |times: usize, bytes: usize| -> io::Result<Nanos> {
            let bytes = bytes.min(room);
            let mut all = Vec::with_capacity(times);
            for _ in 0..times {
                thread::sleep(PAUSE);
                let began = Instant::now();
                opened.read_exact_at(&mut memory.bytes_mut()[..bytes], 0)?;
                all.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            all.sort_unstable();
            Ok(Nanos(all[times / 4]))
        };
        Ok(Overhead::new(quartile(101, SMALL)?, quartile(31, LARGE)?))
    }
}

/// The calling thread has descriptors of its own from now on: none but the standard ones.
fn share_no_descriptors() -> io::Result<()> {
    // SAFETY: the thread gets a copy of the table of descriptors; no memory is concerned.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) =
        (3, libc::c_uint::MAX, 0);
    // SAFETY: what is closed are this thread's copies, of which nothing here knows the numbers;
    // the others keep theirs.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the thread nothing of ours any more, and have we everything still?
    #[test]
    fn descriptors_are_not_shared() {
        let ours = std::fs::File::open("/proc/self/stat").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&ours);
        // SAFETY: asking for the flags of a number that may be none.
        let there = move || unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
        let theirs =
            thread::spawn(move || share_no_descriptors().map(|()| there())).join().unwrap();
        match theirs {
            Ok(theirs) => assert!(!theirs),
            Err(error) => eprintln!(
                "skipped: descriptors_are_not_shared: no descriptors of one's own: {error}"
            ),
        }
        assert!(there());
    }

    /// 4 KiB in 30 us, 256 KiB in 156: 126 us for 252 KiB more are 500 ns a KiB, and 30 us less
    /// four of them the base. Is that what comes out, and is what a busy machine says bounded?
    #[test]
    fn two_points_make_a_line() {
        let [small, large] = [30, 156].map(Nanos::from_micros);
        let overhead = Overhead::new(small, large);
        assert_eq!(overhead, Overhead { base: Nanos::from_micros(28), per_kib: 500 });
        let io = |kind| Io { kind, offset: 0, length: 128 << 10, lasting: false };
        // 28 us and 128 times 0.5.
        assert_eq!(overhead.of(io(Kind::Write)), Nanos::from_micros(92));
        assert_eq!(overhead.of(io(Kind::Discard)), Nanos::from_micros(28));
        let busy = Overhead::new(Nanos::from_millis(3), Nanos::from_millis(900));
        assert_eq!(busy, Overhead { base: MOST, per_kib: 1_000 });
        let odd = Overhead::new(Nanos::from_micros(50), Nanos::from_micros(20));
        assert_eq!(odd, Overhead { base: Nanos::from_micros(50), per_kib: 0 });
    }
}

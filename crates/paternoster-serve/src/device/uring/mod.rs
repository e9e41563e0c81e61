// SPDX-License-Identifier: MIT OR Apache-2.0
//! io_uring: many jobs with few system calls.
//!
//! ```text
//! submit ─▶ slot ─▶ entry ─▶ ┌ submission queue ┐ ─kick─▶ kernel
//!            ▲                                              │
//!            └── another step, if it takes one ◀── reap ◀── ┌ completion queue ┐ ─▶ eventfd
//! ```
//!
//! A job is one step or several (`step.rs`): a read that came short is continued, a range that
//! cannot be punched is zeroed otherwise, a flush syncs file after file. Each slot has at most one
//! entry in the ring, so that neither queue can overflow: both have room for every slot.
//!
//! Files are registered, and the arena is where the limit on locked memory allows it; a job with
//! one piece then moves its data without the kernel looking the pages up.
//!
//! # Threads
//! Where the kernel can, the ring is for one thread, which does its deferred work when it reaps
//! (SINGLE_ISSUER, DEFER_TASKRUN, Linux 6.1). The ring is made disabled and enabled with the first
//! job, so that it may move to its thread between the two. After that it stays there.
//!
//! # Invariants
//! I1  A slot that is busy has exactly one entry under way, or is being stepped.
//! I2  The end of the backend waits for what the kernel still has: it writes to the pieces.
//!
//! Sources: io_uring_setup(2), io_uring_enter(2), io_uring_register(2).

pub(crate) mod ring;
mod step;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use paternoster_core::{DeviceFacts, Nanos};

use self::ring::{KernelRing, NoRoom, Ring};
use self::step::Slot;
use super::event::Event;
use super::files::{self, File};
use super::holes::Holes;
use super::open::facts;
use super::{Backend, FileFacts, Finished, Full, Job, NewFile, Piece, Shares, plain};

/// The largest buffer that the kernel registers.
const BUFFER_MAX: usize = 1 << 30;
/// Buffers that it registers at most.
const BUFFERS_MAX: usize = 1 << 14;
/// A kernel that takes no entries now is asked again after this time.
const RETRY: Nanos = Nanos::from_millis(1);

/// Does jobs by io_uring.
pub(crate) struct Uring<R: Ring = KernelRing> {
    /// Dropped, and so closed, before the memory that it points to.
    ring: R,
    files: Vec<File>,
    event: Event,
    slots: Vec<Slot>,
    /// Ended without the kernel.
    ended: Vec<Finished>,
    /// Entries in the kernel or on the way there.
    under_way: u32,
    /// Since when the kernel takes no entries.
    refused_at: Option<Nanos>,
    enabled: bool,
    /// Registered memory: where it is, and its length.
    arena: Option<(usize, usize)>,
    now: Nanos,
}

// SAFETY: the raw pointers are those of pieces, for which `submit` has a promise, and those of its
// own slots, which are on the heap and move with it.
unsafe impl<R: Ring> Send for Uring<R> {}

impl Uring {
    /// A ring for this many jobs at a time; gives the files back if there is none.
    pub(super) fn new(files: Vec<File>, depth: u32) -> Result<Uring, (Vec<File>, io::Error)> {
        let made =
            Event::new().and_then(|event| Ok((KernelRing::new(&files, depth, &event)?, event)));
        match made {
            Ok((ring, event)) => Ok(Uring::over(ring, event, files, depth)),
            Err(error) => Err((files, error)),
        }
    }
}

impl<R: Ring> Uring<R> {
    /// Over a ring that knows these files, and rings this event.
    pub(crate) fn over(ring: R, event: Event, files: Vec<File>, depth: u32) -> Uring<R> {
        Uring {
            ring,
            files,
            event,
            slots: (0..depth).map(|_| Slot::new()).collect(),
            ended: Vec::with_capacity(depth as usize),
            under_way: 0,
            refused_at: None,
            enabled: false,
            arena: None,
            now: Nanos::ZERO,
        }
    }

    /// The ring becomes this thread's.
    fn enable(&mut self) -> Result<(), i32> {
        if !self.enabled {
            let enabled = self.ring.enable();
            enabled.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Makes the slot's next entry, or ends its job.
    fn step(&mut self, number: u32) {
        let place = number as usize;
        let entry = match self.enable() {
            Ok(()) => self.slots[place].next_entry(&self.files, self.arena),
            Err(errno) => Err(errno),
        };
        let entry = match entry {
            Ok(Some(entry)) => entry,
            Ok(None) => return self.end(number, 0),
            Err(errno) => return self.end(number, errno),
        };
        // SAFETY: what the entry points to are the pieces, the slot's vectors and zeroes; all of
        // them stay until the slot has its completion.
        match unsafe { self.ring.push(number, entry) } {
            Ok(()) => self.under_way += 1,
            // The queue has room for all slots (I1); breaking that gives an error, not a hang.
            Err(NoRoom) => self.end(number, libc::EBUSY),
        }
    }

    fn end(&mut self, number: u32, error: i32) {
        let error = self.slots[number as usize].end(&self.files, error);
        self.ended.push(Finished { slot: number, error });
    }

    /// Gives the kernel what was pushed. Entries that the ring does not take now are offered again.
    fn hand_over(&mut self) {
        while self.ring.has_waiting() {
            match self.ring.submit(0) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    self.refused_at = Some(self.now);
                    return;
                }
            }
        }
        self.refused_at = None;
    }

    /// Takes what the kernel has ended, and lets each job go on or end.
    fn take_completions(&mut self) {
        loop {
            let Some((number, result)) = self.ring.next() else { return };
            self.under_way -= 1;
            let Ok(number) = u32::try_from(number) else { continue };
            let Some(slot) = self.slots.get_mut(number as usize) else { continue };
            match slot.completed(&self.files, result) {
                Ok(true) => self.end(number, 0),
                Ok(false) => self.step(number),
                Err(errno) => self.end(number, errno),
            }
        }
    }
}

// SAFETY: a job ends with the completion of its only entry in the ring (I1).
unsafe impl<R: Ring> Backend for Uring<R> {
    fn describe(&self) -> String {
        let buffers = if self.arena.is_some() { ", registered buffers" } else { "" };
        format!("io_uring, {}{buffers}", files::how(&self.files))
    }

    fn facts(&self) -> DeviceFacts {
        facts(&self.files, u32::try_from(self.slots.len()).unwrap_or(u32::MAX))
    }

    fn file(&self, file: u16) -> FileFacts {
        self.files[usize::from(file)].facts()
    }

    unsafe fn submit(&mut self, now: Nanos, job: Job<'_>) -> Result<(), Full> {
        self.now = now;
        match self.slots.get_mut(job.slot as usize) {
            Some(slot) if slot.is_free() => slot.begin(&job, &self.files),
            _ => return Err(Full),
        }
        let checked = match job.work {
            super::Work::Flush => Ok(()),
            _ => plain::check(&self.files, &job).map(drop),
        };
        match checked {
            Ok(()) => self.step(job.slot),
            Err(errno) => {
                self.slots[job.slot as usize].refuse();
                self.ended.push(Finished { slot: job.slot, error: errno });
            }
        }
        if !self.ended.is_empty() {
            self.event.set();
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.hand_over();
    }

    fn reap(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.now = now;
        // Always, and first: the kernel may signal a completion after it was taken, and a signal
        // that is never cleared lets no one sleep.
        self.event.clear();
        if self.enabled && self.ring.has_deferred() {
            // Deferred work is done on entering the kernel; what it completes is taken below.
            let _asked_again = self.ring.submit(0);
        }
        self.take_completions();
        self.hand_over();
        finished.append(&mut self.ended);
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.refused_at.map(|at| at + RETRY)
    }

    unsafe fn register(&mut self, arena: NonNull<[u8]>) {
        let (base, length) = (arena.cast::<u8>().as_ptr(), arena.len());
        if self.arena.is_some() || length.div_ceil(BUFFER_MAX) > BUFFERS_MAX {
            return;
        }
        let buffer = |start: usize| libc::iovec {
            iov_base: base.wrapping_add(start).cast(),
            iov_len: BUFFER_MAX.min(length - start),
        };
        let buffers: Vec<libc::iovec> = (0..length).step_by(BUFFER_MAX).map(buffer).collect();
        // SAFETY: the caller promises that the memory outlives the backend.
        if unsafe { self.ring.register(&buffers) }.is_ok() {
            self.arena = Some((base.addr(), length));
        }
    }

    fn can_add(&self, files: &[NewFile]) -> bool {
        self.ring.room() >= files.len()
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        // A flush that is under way counts files by number: it must not take a new one for an old.
        let (flushes, raw) = (self.slots.iter().any(Slot::flushes), file.0.calls.raw());
        let number = match flushes {
            false => files::add(&mut self.files, file)?,
            true => {
                let file = file.0.beside(&self.files);
                self.files.push(file);
                u16::try_from(self.files.len() - 1).ok()?
            }
        };
        self.enable().ok()?;
        if self.ring.set_file(number, raw).is_err() {
            self.files[usize::from(number)] = File::nothing();
            return None;
        }
        Some(number)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        let removed = files::remove(&mut self.files, file);
        // The kernel keeps what it still uses.
        let _gone = self.ring.set_file(file, [-1; 2]);
        removed
    }

    fn shares_errors(&self, file: u16) -> Shares {
        files::shares_errors(&self.files, file)
    }

    fn lost(&self) -> Option<i32> {
        files::lost(&self.files)
    }

    fn to_hand_over(&self) -> Vec<super::Giving> {
        files::to_hand_over(&self.files)
    }

    fn holes(&self, file: u16) -> Option<Holes> {
        Some(self.files[usize::from(file)].holes())
    }
}

/// The registered buffer that contains the whole piece.
fn buffer_of(arena: Option<(usize, usize)>, piece: Piece) -> Option<u16> {
    let (base, length) = arena?;
    let start = piece.at.as_ptr().addr().checked_sub(base)?;
    let last = start.checked_add(piece.length)?.checked_sub(1)?;
    let within = last < length && start / BUFFER_MAX == last / BUFFER_MAX;
    if within { u16::try_from(start / BUFFER_MAX).ok() } else { None }
}

impl<R: Ring> Drop for Uring<R> {
    /// I2: the kernel may still write to pieces.
    fn drop(&mut self) {
        self.hand_over();
        while self.under_way > 0 {
            match self.ring.submit(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            while let Some(_ended) = self.ring.next() {
                self.under_way -= 1;
            }
        }
        if self.under_way > 0 {
            // On another thread than its own it cannot wait. What entries point to must stay.
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a piece found in the registered buffer that contains it, and in none where it crosses
    /// two?
    #[test]
    fn pieces_lie_in_buffers() {
        let base = 1 << 40;
        let arena = Some((base, BUFFER_MAX + 8192));
        let piece = |start: usize, length| Piece {
            at: NonNull::new(std::ptr::without_provenance_mut(base + start)).unwrap(),
            length,
        };
        assert_eq!(buffer_of(arena, piece(0, 4096)), Some(0));
        assert_eq!(buffer_of(arena, piece(BUFFER_MAX - 4096, 4096)), Some(0));
        assert_eq!(buffer_of(arena, piece(BUFFER_MAX - 4096, 4097)), None);
        assert_eq!(buffer_of(arena, piece(BUFFER_MAX + 4096, 4096)), Some(1));
        assert_eq!(buffer_of(arena, piece(BUFFER_MAX + 4096, 4097)), None);
        assert_eq!(buffer_of(None, piece(0, 4096)), None);
    }
}

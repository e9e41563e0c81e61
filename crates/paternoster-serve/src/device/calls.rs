// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: the system calls on an open file, as one trait.
//!
//! ```text
//! File: durability, refusals, size ──▶ Calls ──▶ Descriptors: the kernel's calls
//! (plain, holes: production)            └──────▶ a disk in memory that may fail at each (judge)
//! ```
//!
//! A ring makes the same calls without waiting; its seam is `uring::ring`. The cost is one indirect
//! call for each system call: a few nanoseconds of a few hundred.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Advice, FallocateFlags, SeekFrom, fadvise, fallocate, fdatasync, seek};
use rustix::io::Errno;

use super::Piece;
use super::pieces::Vectors;

/// Which description of a file is meant: the kernel tells each of a failed write-back once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Description {
    /// The descriptor that reads and writes use.
    Data,
    /// The descriptor that flushes sync and nothing else uses; if there is none, the one of the
    /// data.
    Flushes,
}

/// The calls on one open file. Errors are errnos.
pub(crate) trait Calls: Debug + Send + Sync {
    /// Moves one piece; how much, less than 0 for an error.
    ///
    /// # Safety
    /// The memory of the piece is valid, and nothing else touches it meanwhile.
    unsafe fn move_one(&self, piece: Piece, offset: u64, to_file: bool) -> isize;

    /// Moves several; how much. `durable`: what is written is durable when it ends.
    ///
    /// # Safety
    /// As for [`Calls::move_one`], for every piece.
    unsafe fn move_all(
        &self,
        vectors: &Vectors,
        offset: u64,
        to_file: bool,
        durable: bool,
    ) -> Result<u64, i32>;

    /// Makes data durable.
    fn sync(&self, of: Description) -> Result<(), Errno>;

    /// `fallocate`.
    fn allocate(&self, flags: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno>;

    /// A range will be read soon; nothing is wrong if that is of no use.
    fn will_need(&self, offset: u64, length: NonZeroU64);

    /// `lseek`, for data and holes.
    fn seek(&self, to: SeekFrom) -> Result<u64, Errno>;

    /// Whether flushes have a description of their own.
    fn flushes_alone(&self) -> bool;

    /// The two, or one for both; none that could be given to another process.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// What a ring of the kernel knows the two descriptions by.
    fn raw(&self) -> [RawFd; 2];
}

/// A file of the system.
#[derive(Debug)]
pub(super) struct Descriptors {
    pub(super) data: OwnedFd,
    pub(super) for_flushes: Option<OwnedFd>,
}

impl Descriptors {
    fn of(&self, which: Description) -> BorrowedFd<'_> {
        match (which, &self.for_flushes) {
            (Description::Flushes, Some(own)) => own.as_fd(),
            _ => self.data.as_fd(),
        }
    }
}

impl Calls for Descriptors {
    unsafe fn move_one(&self, piece: Piece, offset: u64, to_file: bool) -> isize {
        let (fd, at, length) = (self.data.as_raw_fd(), piece.at.as_ptr().cast(), piece.length);
        let offset = offset.cast_signed();
        if to_file {
            // SAFETY: the caller's promise for the piece.
            unsafe { libc::pwrite64(fd, at, length, offset) }
        } else {
            // SAFETY: the caller's promise for the piece.
            unsafe { libc::pread64(fd, at, length, offset) }
        }
    }

    unsafe fn move_all(
        &self,
        vectors: &Vectors,
        offset: u64,
        to_file: bool,
        durable: bool,
    ) -> Result<u64, i32> {
        let (fd, at, count) = (self.data.as_raw_fd(), vectors.as_ptr(), vectors.count());
        let offset = offset.cast_signed();
        // SAFETY: the vectors are of pieces for which the caller has promised.
        let moved = unsafe {
            match (to_file, durable) {
                (false, _) => libc::preadv64(fd, at, count, offset),
                (true, false) => libc::pwritev64(fd, at, count, offset),
                (true, true) => libc::pwritev2(fd, at, count, offset, libc::RWF_DSYNC),
            }
        };
        u64::try_from(moved).map_err(|_| last_errno())
    }

    fn sync(&self, of: Description) -> Result<(), Errno> {
        fdatasync(self.of(of))
    }

    fn allocate(&self, flags: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        fallocate(&self.data, flags, offset, length)
    }

    fn will_need(&self, offset: u64, length: NonZeroU64) {
        let _hint = fadvise(&self.data, offset, Some(length), Advice::WillNeed);
    }

    fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        seek(&self.data, to)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        [self.data.as_fd()].into_iter().chain(self.for_flushes.as_ref().map(AsFd::as_fd)).collect()
    }

    fn flushes_alone(&self) -> bool {
        self.for_flushes.is_some()
    }

    fn raw(&self) -> [RawFd; 2] {
        [Description::Data, Description::Flushes].map(|which| self.of(which).as_raw_fd())
    }
}

/// No file: all that is tried with it fails with this errno, and nothing is to be synced.
#[derive(Debug)]
pub(super) struct Refusing(pub(super) Errno);

impl Calls for Refusing {
    unsafe fn move_one(&self, _: Piece, _: u64, _: bool) -> isize {
        -1
    }

    unsafe fn move_all(&self, _: &Vectors, _: u64, _: bool, _: bool) -> Result<u64, i32> {
        Err(self.0.raw_os_error())
    }

    fn sync(&self, _: Description) -> Result<(), Errno> {
        Ok(())
    }

    fn allocate(&self, _: FallocateFlags, _: u64, _: u64) -> Result<(), Errno> {
        Err(self.0)
    }

    fn will_need(&self, _: u64, _: NonZeroU64) {}

    fn seek(&self, _: SeekFrom) -> Result<u64, Errno> {
        Err(self.0)
    }

    fn flushes_alone(&self) -> bool {
        true
    }

    fn raw(&self) -> [RawFd; 2] {
        [-1; 2]
    }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backends: what does a loop's commands, in real time.
//!
//! ```text
//! loop ──Job (slot, work, file, offset, pieces)──▶ Backend ──Finished (slot, error)──▶ loop
//!                                                    │
//!                                                 wakeup(): readable when reap has something
//! ```
//!
//! A backend has *files*: the places that volumes are in. A job is of one file; its pieces are
//! where its data come from or go to, in the order of the file. A backend does what it is given,
//! at once and in any order: order is the queue's business.
//!
//! Invariants: I1 every job that was taken is reported once; I2 pieces are not touched after that.
//!
//! ```text
//! open ──▶ inline   files in memory, at once      files       opening, facts
//!     ├──▶ uring    io_uring                      plain       a job by plain system calls
//!     ├──▶ threads  plain threads                 clearing    how a range becomes zeroes
//!     └──▶ model    a model tells the time        durability  what is owed to a flush
//! system: names, opening and locks, a seam
//! calls: the calls on a file, one seam   uring::ring: those that do not wait, another
//! holes: where a file has data        surveyor: a thread that asks, and may wait
//! faulty: faults in front of any of them          real: a backend as the library's `Device`
//! witnesses: a durable write waits for other jobs that may get the error for its loss
//! claim: an image has one owner (identity: what a path is; lock: which process else has it)
//! content: what is plainly no raw disk
//! arena: memory for data under way, in blocks      lender: what of it a backend has
//! ```

pub mod arena;
pub(crate) mod calls;
pub mod claim;
mod clearing;
pub mod content;
pub(crate) mod durability;
pub(crate) mod event;
pub mod faulty;
pub(crate) mod files;
pub(crate) mod handed;
mod holes;
pub(crate) mod identity;
pub mod in_use;
pub(crate) mod inline;
pub mod lender;
mod lock;
pub mod memory;
#[cfg(feature = "instruments")]
pub(crate) mod model;
#[cfg(not(feature = "instruments"))]
#[path = "without_models.rs"]
pub(crate) mod model;
pub mod open;
pub(crate) mod pieces;
pub(crate) mod plain;
pub mod real;
mod surveyor;
pub mod system;
#[cfg(test)]
mod tests;
mod threads;
pub(crate) mod uring;
mod witnesses;

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

pub use handed::Giving;
pub(crate) use handed::KnownLosses;
pub use holes::Holes;
pub use identity::Thing;
use paternoster_core::{DeviceFacts, Nanos};

/// A piece of memory that a job moves data from or to.
///
/// Raw, because the kernel writes to it unseen: its maker keeps the memory until the job has been
/// reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte.
    pub at: NonNull<u8>,
    /// Length in bytes.
    pub length: usize,
}

// SAFETY: an address and a length. To read or write there is unsafe, and code that does it has the
// promise of `Backend::submit`, which is not one of threads.
unsafe impl Send for Piece {}

/// The operation of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Fill the pieces from the file.
    Read,
    /// Write the pieces to the file; `fua`: durable when it ends.
    Write {
        /// Durable when it ends.
        fua: bool,
    },
    /// The file may forget the range (a hole where it can have one).
    Discard,
    /// The range reads as zeroes afterwards.
    Zero {
        /// The backend may punch a hole.
        may_unmap: bool,
        /// Durable when it ends.
        fua: bool,
        /// It fails with EOPNOTSUPP where zeroes would have to be written.
        fast: bool,
    },
    /// The range will be read soon.
    Prefetch,
    /// Everything that was reported before becomes durable, of all files.
    Flush,
}

impl Work {
    /// Whether it has ended with this errno because it was to be fast and would have been slow.
    /// Then nothing was tried: it is no failure of the device, and no data of others can be lost.
    pub(crate) const fn is_too_slow(&self, errno: i32) -> bool {
        matches!(self, Work::Zero { fast: true, .. }) && errno == libc::EOPNOTSUPP
    }
}

/// A job: one operation on a file.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Names it; below the backend's depth, and free.
    pub slot: u32,
    /// The operation.
    pub work: Work,
    /// Number of the file within the backend.
    pub file: u16,
    /// First byte within the file.
    pub offset: u64,
    /// How many bytes; 0 for a flush.
    pub length: u64,
    /// Where the data are, for reads and writes; their lengths add up to `length`.
    pub pieces: &'a [Piece],
    /// First sector as the elevator sees it; a model of a device computes with this one.
    pub sector: u64,
}

impl Job<'_> {
    /// A flush of the first file.
    pub(crate) const fn flush() -> Job<'static> {
        Job { slot: 0, work: Work::Flush, file: 0, offset: 0, length: 0, pieces: &[], sector: 0 }
    }
}

/// A job that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Slot of the job that has ended.
    pub slot: u32,
    /// 0, or the errno.
    pub error: i32,
}

/// What a file can do and how it wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// Bytes.
    pub size: u64,
    /// Offsets and lengths must be multiples of this many bytes; a power of two, 512 or more.
    pub block: u32,
    /// The size that it likes best.
    pub preferred: u32,
    /// Writes are refused.
    pub readonly: bool,
    /// The file can discard ranges.
    pub discards: bool,
    /// It can zero a range faster than by writing zeroes.
    pub zeroes_fast: bool,
    /// The device is rotational.
    pub rotational: bool,
    /// What was opened, if that is known.
    pub thing: Option<Thing>,
}

#[cfg(test)]
impl FileFacts {
    /// A file that can do everything and does not spin.
    pub(crate) const fn of_a_test(size: u64, block: u32) -> FileFacts {
        FileFacts {
            size,
            block,
            preferred: 4096,
            readonly: false,
            discards: true,
            zeroes_fast: true,
            rotational: false,
            thing: None,
        }
    }
}

/// A file that was opened for a backend that runs.
#[derive(Debug, Clone)]
pub struct NewFile(pub(crate) files::File);

impl NewFile {
    /// What the file supports.
    #[must_use]
    pub fn facts(&self) -> FileFacts {
        self.0.facts()
    }

    /// Makes durable what was written; the errno.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync(&self) -> Result<(), i32> {
        plain::sync_what_is_owed(&self.0)
    }
}

/// A run of a file that is all hole or all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Nothing is allocated there; it reads as zeroes.
    pub hole: bool,
}

/// Which jobs of a file may get the error for others' lost data, and so keep it from those.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// Durable writes and zeroes may get the error.
    pub told: bool,
    /// What durable writes have written may be among these, not only what was zeroed.
    pub writes: bool,
    /// Flushes by the same description may get the error.
    pub flushes: bool,
}

/// The backend takes no job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Does jobs in real time.
///
/// # Safety
/// A caller gives it the memory of a job's pieces with the job, and takes that back when the job is
/// reported: [`Backend::reap`] reports a job only when nothing reads or writes its pieces any more.
pub unsafe trait Backend: Send {
    /// In words, for start and listings: `io_uring, O_DIRECT`.
    fn describe(&self) -> String;

    /// The device's facts for the queue: depth, caches, limits. The capacity is the loop's.
    fn facts(&self) -> DeviceFacts;

    /// What a file supports.
    fn file(&self, file: u16) -> FileFacts;

    /// Takes a job.
    ///
    /// # Safety
    /// The memory of its pieces stays valid and untouched by others until the job has been reported
    /// by [`Backend::reap`].
    ///
    /// # Errors
    /// [`Full`]; the job was not taken.
    unsafe fn submit(&mut self, now: Nanos, job: Job<'_>) -> Result<(), Full>;

    /// Hands over what was submitted, where jobs are handed over in bundles.
    fn kick(&mut self);

    /// Adds to `finished` what has ended by now.
    fn reap(&mut self, now: Nanos, finished: &mut Vec<Finished>);

    /// Readable when [`Backend::reap`] has something; the loop reads it empty by calling `reap`.
    fn wakeup(&self) -> Option<BorrowedFd<'_>>;

    /// Whether a job is done within [`Backend::submit`], which takes as long as the job then.
    fn does_at_once(&self) -> bool {
        false
    }

    /// When to call [`Backend::reap`] at the latest, for backends that go by the clock.
    fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// The errno of a flush that has failed for good: data that were acknowledged may be lost, and
    /// no flush ends well any more.
    fn lost(&self) -> Option<i32> {
        None
    }

    /// Which jobs of this file may get an error that belongs to others.
    fn shares_errors(&self, _file: u16) -> Shares {
        Shares::default()
    }

    /// Its open files, to be handed to another process; none if that cannot be.
    fn to_hand_over(&self) -> Vec<Giving> {
        Vec::new()
    }

    /// The memory from which all pieces come, to be registered once where that is of use.
    ///
    /// # Safety
    /// The memory outlives the backend.
    unsafe fn register(&mut self, _arena: NonNull<[u8]>) {}

    /// Tells runs of hole and data from `offset` on, until `each` says false or `length` is
    /// reached: by [`Backend::holes`], where there is one; else all is data. May wait for the
    /// system; never reads data.
    ///
    /// # Errors
    /// The system's error.
    fn extents(
        &mut self,
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        match self.holes(file) {
            Some(holes) => holes.tell(offset, length, each),
            None => {
                each(Extent { length, hole: false });
                Ok(())
            }
        }
    }

    /// Whether it can have these files, too, while it runs.
    fn can_add(&self, _files: &[NewFile]) -> bool {
        false
    }

    /// Has another file from now on; its number. The backend was asked before whether it can.
    fn add(&mut self, _file: NewFile) -> Option<u16> {
        None
    }

    /// Removes and returns a file; no job of it may be under way, except flushes of all files.
    fn remove(&mut self, _file: u16) -> Option<NewFile> {
        None
    }

    /// What tells the same on another thread; `None`: [`Backend::extents`] does not wait.
    fn holes(&self, _file: u16) -> Option<Holes> {
        None
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ring: entries in, completions out; the kernel's, or one that a test has.
//!
//! ```text
//! step ─▶ Entry ─▶ Ring ─▶ KernelRing: io_uring       (production)
//!                     └──▶ a disk in memory            (the judge of streams)
//! ```
//!
//! `Uring` is made for one kind of ring when it is compiled: nothing is looked up for a job.

use std::io;
use std::os::fd::RawFd;

use io_uring::register::Restriction;
use io_uring::{Builder, IoUring, Probe, opcode, squeue, types};
use libc::iovec;
use rustix::fs::FallocateFlags;

use crate::device::calls::Description;
use crate::device::event::Event;
use crate::device::files::File;

/// An operation on a file of the backend, for a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry {
    /// Moves a piece of registered memory.
    Fixed {
        file: u16,
        at: *mut u8,
        length: u32,
        buffer: u16,
        offset: u64,
        to_file: bool,
        durable: bool,
    },
    /// Moves what these vectors name.
    Move { file: u16, all: *const iovec, count: u32, offset: u64, to_file: bool, durable: bool },
    /// Makes data durable.
    Sync { file: u16, of: Description },
    /// `fallocate`.
    Allocate { file: u16, flags: FallocateFlags, offset: u64, length: u64 },
    /// A range will be read soon.
    WillNeed { file: u16, offset: u64, length: i64 },
}

#[cfg(test)]
impl Entry {
    /// Number of the file that it works on.
    pub(crate) const fn file(&self) -> u16 {
        let (Entry::Fixed { file, .. }
        | Entry::Move { file, .. }
        | Entry::Sync { file, .. }
        | Entry::Allocate { file, .. }
        | Entry::WillNeed { file, .. }) = self;
        *file
    }
}

/// There is no room for another entry.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// Does what it is asked without letting the asker wait.
pub(crate) trait Ring: Send {
    /// Enables the ring; from then on it belongs to this thread.
    fn enable(&mut self) -> io::Result<()>;

    /// How many more files it can have.
    fn room(&self) -> usize {
        0
    }

    /// This number means this file from now on, by the descriptors of data and flushes; -1: none.
    fn set_file(&mut self, _number: u16, _raw: [RawFd; 2]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes an entry, under a number that its completion has.
    ///
    /// # Safety
    /// The memory that the entry points to stays until its completion was taken.
    unsafe fn push(&mut self, number: u32, entry: Entry) -> Result<(), NoRoom>;

    /// Whether entries were pushed that are not handed over.
    fn has_waiting(&mut self) -> bool;

    /// Whether one that is handed over needs a call to end.
    fn has_deferred(&mut self) -> bool;

    /// Hands over what waits, and waits for this many completions; returns how many entries were
    /// taken.
    fn submit(&mut self, wait_for: usize) -> io::Result<usize>;

    /// The next completion: its number, and what the call said.
    fn next(&mut self) -> Option<(u64, i32)>;

    /// Makes memory known; pieces in it need not be looked up.
    ///
    /// # Safety
    /// It outlives the ring.
    unsafe fn register(&mut self, buffers: &[iovec]) -> io::Result<()>;
}

/// io_uring.
pub(crate) struct KernelRing {
    ring: IoUring,
    /// For each file: its place among the registered files, or its descriptor if they could not be;
    /// then the same of what flushes sync.
    targets: Vec<types::Fd>,
    files_registered: bool,
    /// Whether a number has no file.
    is_free: Vec<bool>,
}

/// How many more files can be open at a time than at the start: the kernel's table cannot grow.
const SPARE: usize = 64;

/// The kinds of ring there are, the best first.
const KINDS: [fn(&mut Builder); 3] = [
    |builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        builder.setup_r_disabled().setup_submit_all();
    },
    |builder| {
        builder.setup_coop_taskrun().setup_taskrun_flag().setup_r_disabled().setup_submit_all();
    },
    |builder| {
        builder.setup_r_disabled();
    },
];

/// A ring of the best kind that this kernel has.
fn best_ring(entries: u32) -> io::Result<IoUring> {
    let mut made = Err(io::ErrorKind::Unsupported.into());
    for kind in KINDS {
        let mut builder = IoUring::builder();
        kind(&mut builder);
        made = builder.build(entries);
        match &made {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => break,
        }
    }
    made
}

/// The kernel's operations that jobs consist of.
const OPERATIONS: [u8; 7] = [
    opcode::Readv::CODE,
    opcode::Writev::CODE,
    opcode::ReadFixed::CODE,
    opcode::WriteFixed::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
    opcode::Fadvise::CODE,
];

/// Whether the kernel has what jobs are made of.
fn has_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let all = OPERATIONS.into_iter().all(|code| probe.is_supported(code));
    if all { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Puts another file in a registered one's place (`IORING_REGISTER_FILES_UPDATE`).
const FILES_UPDATE: u8 = 6;

/// Once it is enabled the ring does nothing but these operations, on registered files alone if
/// there are such; what a reload opens takes a place among these, and nothing else is registered. A
/// filter of system calls does not see what a ring is asked.
fn restrict(ring: &IoUring, files_registered: bool) -> io::Result<()> {
    let mut all: Vec<Restriction> = OPERATIONS.into_iter().map(Restriction::sqe_op).collect();
    if files_registered {
        all.push(Restriction::sqe_flags_required(squeue::Flags::FIXED_FILE.bits()));
        all.push(Restriction::register_op(FILES_UPDATE));
    }
    ring.submitter().register_restrictions(&mut all)
}

impl KernelRing {
    /// A ring for these files and this many jobs at a time, which signals `event`.
    pub(super) fn new(files: &[File], depth: u32, event: &Event) -> io::Result<KernelRing> {
        let ring = best_ring(depth.next_power_of_two())?;
        has_operations(&ring)?;
        ring.submitter().register_eventfd(event.as_raw())?;
        let raw = |which: usize| files.iter().map(move |file| file.calls.raw()[which]);
        let spare = || std::iter::repeat_n(-1, SPARE);
        let raw: Vec<RawFd> = raw(0).chain(spare()).chain(raw(1)).chain(spare()).collect();
        let files_registered = ring.submitter().register_files(&raw).is_ok();
        if let Err(error) = restrict(&ring, files_registered) {
            crate::log::tell(format_args!(
                "paternoster: sandbox: io_uring is not restricted to reading and writing: {error}"
            ));
        }
        let places = (0..).take(raw.len());
        let targets = if files_registered { places.collect() } else { raw.clone() };
        let targets = targets.into_iter().map(types::Fd).collect();
        let is_free = raw[..raw.len() / 2].iter().map(|raw| *raw < 0).collect();
        Ok(KernelRing { ring, targets, files_registered, is_free })
    }

    /// The entry in the kernel's form.
    fn translated(&self, entry: Entry) -> squeue::Entry {
        let dsync = |durable| if durable { libc::RWF_DSYNC } else { 0 };
        let target = |file: u16| self.targets[usize::from(file)];
        match entry {
            Entry::Fixed { file, at, length, buffer, offset, to_file: true, durable } => {
                opcode::WriteFixed::new(target(file), at, length, buffer)
                    .offset(offset)
                    .rw_flags(dsync(durable))
                    .build()
            }
            Entry::Fixed { file, at, length, buffer, offset, .. } => {
                opcode::ReadFixed::new(target(file), at, length, buffer).offset(offset).build()
            }
            Entry::Move { file, all, count, offset, to_file: true, durable } => {
                opcode::Writev::new(target(file), all, count)
                    .offset(offset)
                    .rw_flags(dsync(durable))
                    .build()
            }
            Entry::Move { file, all, count, offset, .. } => {
                opcode::Readv::new(target(file), all, count).offset(offset).build()
            }
            Entry::Sync { file, of } => {
                // The slots after the files are for the descriptors that flushes sync.
                let behind = if of == Description::Flushes { self.targets.len() / 2 } else { 0 };
                let target = self.targets[usize::from(file) + behind];
                opcode::Fsync::new(target).flags(types::FsyncFlags::DATASYNC).build()
            }
            Entry::Allocate { file, flags, offset, length } => {
                opcode::Fallocate::new(target(file), length)
                    .offset(offset)
                    .mode(flags.bits().cast_signed())
                    .build()
            }
            Entry::WillNeed { file, offset, length } => {
                opcode::Fadvise::new(target(file), length, libc::POSIX_FADV_WILLNEED)
                    .offset(offset)
                    .build()
            }
        }
    }
}

impl Ring for KernelRing {
    fn enable(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    fn room(&self) -> usize {
        self.is_free.iter().filter(|is_free| **is_free).count()
    }

    fn set_file(&mut self, number: u16, raw: [RawFd; 2]) -> io::Result<()> {
        let place = usize::from(number);
        let is_free = self.is_free.get_mut(place).ok_or(io::ErrorKind::OutOfMemory)?;
        *is_free = raw[0] < 0;
        for (behind, raw) in [0, self.targets.len() / 2].into_iter().zip(raw) {
            if self.files_registered {
                let at = u32::try_from(place + behind).unwrap_or(u32::MAX);
                self.ring.submitter().register_files_update(at, &[raw])?;
            } else {
                self.targets[place + behind] = types::Fd(raw);
            }
        }
        Ok(())
    }

    unsafe fn push(&mut self, number: u32, entry: Entry) -> Result<(), NoRoom> {
        let entry = self.translated(entry).user_data(u64::from(number));
        let registered = squeue::Flags::FIXED_FILE;
        let entry = if self.files_registered { entry.flags(registered) } else { entry };
        // SAFETY: the caller's promise for what it points to.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| NoRoom)
    }

    fn has_waiting(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    fn has_deferred(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    fn submit(&mut self, wait_for: usize) -> io::Result<usize> {
        if wait_for == 0 { self.ring.submit() } else { self.ring.submit_and_wait(wait_for) }
    }

    fn next(&mut self) -> Option<(u64, i32)> {
        let completion = self.ring.completion().next()?;
        Some((completion.user_data(), completion.result()))
    }

    unsafe fn register(&mut self, buffers: &[iovec]) -> io::Result<()> {
        // SAFETY: the caller's promise for the memory.
        unsafe { self.ring.submitter().register_buffers(buffers) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// Does a ring accept the operations that jobs consist of, on its registered files, and refuse
    /// everything else: opening files, unregistered files, sockets, and registering anything but a
    /// file in the place of another?
    #[test]
    fn a_ring_does_nothing_else() {
        let Ok(mut ring) = best_ring(8) else {
            return eprintln!("skipped: a_ring_does_nothing_else: no io_uring here");
        };
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let other = std::fs::File::open("/proc/self/exe").unwrap();
        ring.submitter().register_files(&[file.as_raw_fd()]).unwrap();
        restrict(&ring, true).unwrap();
        ring.submitter().register_enable_rings().unwrap();
        let mut bytes = [0u8; 16];
        let all = [iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }];
        let path = c"/etc/passwd".as_ptr();
        let fixed = squeue::Flags::FIXED_FILE;
        let raw = other.as_raw_fd();
        let read = |fd| opcode::Readv::new(types::Fd(fd), all.as_ptr(), 1).build();
        for (entry, expected, what) in [
            (read(0).flags(fixed), 16, "a file that it knows"),
            (read(raw), -libc::EACCES, "another file"),
            (opcode::Nop::new().build().flags(fixed), -libc::EACCES, "another operation"),
            (
                opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path).build().flags(fixed),
                -libc::EACCES,
                "a file by its path",
            ),
            (
                opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build().flags(fixed),
                -libc::EACCES,
                "a socket",
            ),
            (read(0).flags(fixed | squeue::Flags::ASYNC), -libc::EACCES, "another flag"),
        ] {
            // SAFETY: what it points to lives longer than the loop, which waits for it.
            unsafe { ring.submission().push(&entry) }.unwrap();
            ring.submit_and_wait(1).unwrap();
            assert_eq!(ring.completion().next().unwrap().result(), expected, "{what}");
        }
        ring.submitter().register_files_update(0, &[raw]).expect("a reload does so");
        // SAFETY: the memory outlives the ring, which refuses it.
        let registered = unsafe { ring.submitter().register_buffers(&all) };
        assert_eq!(registered.unwrap_err().raw_os_error(), Some(libc::EACCES));
        drop(ring);
        assert_eq!(&bytes[..4], b"\x7fELF");
    }
}

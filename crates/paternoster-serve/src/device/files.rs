// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files: the opened regular files and block devices that hold volumes, and what they can do.
//!
//! ```text
//! stat ──▶ open ──▶ in memory? ──▶ O_DIRECT where it is to be ──▶ size, block, holes, spinning
//! ```
//!
//! * **Block**: offsets, lengths and memory must be multiples of it. With O_DIRECT it is what statx
//!   says (Linux 6.1), else what a read accepts; for a block device always its logical block;
//!   otherwise 512.
//! * **Size**: rounded down to a whole number of blocks. The bytes left out are reported at start.
//! * **Holes**: a regular file is asked to punch a hole far beyond its end, where there is nothing;
//!   a block device says in sysfs whether it can zero by itself.
//! * A file in memory is one on tmpfs or ramfs.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags, fallocate, fcntl_getfl,
    fcntl_setfl, fstatfs, ioctl_blksszget, open as open_path, seek, statx,
};
use rustix::io::Errno;

use super::calls::{Calls, Descriptors, Nothing};
use super::clearing::Refusals;
use super::durability::Durability;
use super::holes::Holes;
use super::memory::Memory;
use super::open::OpenError;
use super::{FileFacts, Giving, NewFile};
use crate::config::Direct;

/// The least block there is.
const BLOCK_MIN: u32 = 512;
/// A file that needs larger blocks is not opened with O_DIRECT.
const BLOCK_MAX: u32 = 64 << 10;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
/// Where a hole is tried: beyond the end, at a multiple of this.
const FAR: u64 = 1 << 20;

/// An open file or block device. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// The file, and a second open description that is synced only by flushes; see `durability`.
    pub(super) calls: Arc<dyn Calls>,
    facts: FileFacts,
    /// Bytes at the end that do not fill a block.
    pub(super) left_out: u64,
    pub(super) block_device: bool,
    pub(super) in_memory: bool,
    pub(super) direct: bool,
    pub(super) durability: Arc<Durability>,
    pub(super) refusals: Arc<Refusals>,
}

impl File {
    /// Opens a regular file or block device.
    pub(super) fn open(path: &Path, direct: Direct, readonly: bool) -> Result<File, OpenError> {
        let wrong = |doing: &'static str| {
            let path = path.to_owned();
            move |error: io::Error| OpenError::System { path, doing, error }
        };
        // Before it is opened: opening a pipe would wait for its other end.
        only_files(path, &fs::metadata(path).map_err(wrong("it is not there"))?)?;
        let access = if readonly { OFlags::RDONLY } else { OFlags::RDWR };
        let fd = open_path(path, access | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| opening(path, readonly, errno))?;
        let fd = fs::File::from(fd);
        let metadata = fd.metadata().map_err(wrong("looking at it"))?;
        only_files(path, &metadata)?;
        let fd = OwnedFd::from(fd);
        let block_device = metadata.file_type().is_block_device();
        let in_memory = !block_device && is_in_memory(fd.as_fd());
        let block = if block_device { ioctl_blksszget(&fd).ok() } else { None };
        let (direct, block) = match pass_cache(fd.as_fd(), direct, in_memory, block) {
            Ok(Some(block)) => (true, block),
            Ok(None) => (false, block.unwrap_or(BLOCK_MIN)),
            Err(error) => return Err(wrong("`direct = true` is refused")(error)),
        };
        let block = block.max(BLOCK_MIN).next_power_of_two();
        let bytes = if block_device {
            seek(&fd, SeekFrom::End(0)).map_err(|errno| wrong("asking its size")(errno.into()))?
        } else {
            metadata.len()
        };
        let left_out = bytes % u64::from(block);
        let size = bytes - left_out;
        if size == 0 {
            return Err(OpenError::Empty { path: path.to_owned(), bytes, block });
        }
        let number = if block_device { metadata.rdev() } else { metadata.dev() };
        let clears = !readonly
            && match block_device {
                true => queue_attribute(number, "write_zeroes_max_bytes") > 0,
                false => can_have_holes(fd.as_fd(), bytes),
            };
        let preferred = u32::try_from(metadata.blksize()).unwrap_or(0).clamp(4096, 1 << 20);
        let facts = FileFacts {
            size,
            block,
            preferred: preferred.next_power_of_two().max(block),
            readonly,
            discards: clears,
            zeroes_fast: clears,
            rotational: !in_memory && queue_attribute(number, "rotational") > 0,
        };
        let for_flushes = if readonly { None } else { open_again(fd.as_fd()) };
        let calls = Arc::new(Descriptors { data: fd, for_flushes });
        let file = File::over(calls, facts, direct);
        Ok(File { left_out, block_device, in_memory, ..file })
    }

    /// An opened regular file of which only the facts are known.
    pub(crate) fn over(calls: Arc<dyn Calls>, facts: FileFacts, direct: bool) -> File {
        File {
            calls,
            facts,
            left_out: 0,
            block_device: false,
            in_memory: false,
            direct,
            durability: Arc::default(),
            refusals: Arc::default(),
        }
    }

    /// The same file with what another process has handed over: its descriptors, and the errno of a
    /// flush that failed there.
    pub(crate) fn of_another(self, calls: Arc<dyn Calls>, lost: i32) -> File {
        if lost != 0 {
            self.durability.was_lost(lost);
        }
        File { calls, ..self }
    }

    /// Whether it is the placeholder of a removed file.
    pub(super) const fn is_nothing(&self) -> bool {
        self.facts.size == 0
    }

    /// The placeholder of a file that is no longer used: it owes nothing, and does nothing.
    pub(super) fn nothing() -> File {
        let facts = FileFacts {
            size: 0,
            block: BLOCK_MIN,
            preferred: 4096,
            readonly: true,
            discards: false,
            zeroes_fast: false,
            rotational: false,
        };
        let durability = Arc::new(Durability::of_nothing());
        File { durability, ..File::over(Arc::new(Nothing), facts, false) }
    }

    /// What it can do.
    pub(crate) const fn facts(&self) -> FileFacts {
        self.facts
    }

    /// A durable write to it has failed.
    pub(super) fn doubt(&self, errno: i32) {
        self.durability.doubt(errno, self.calls.flushes_alone());
    }

    /// Whether a range is within it.
    pub(super) fn holds(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.facts.size)
    }

    /// A handle to ask where it has holes, on any thread.
    pub(crate) fn holes(&self) -> Holes {
        Holes::new(Arc::clone(&self.calls), self.facts.size, !self.block_device)
    }
}

/// The errno of the failed sync of the first file that has lost data.
pub(crate) fn lost(files: &[File]) -> Option<i32> {
    files.iter().find_map(|file| file.durability.is_not_lost().err())
}

/// Files that can be handed to another process.
pub(crate) fn to_hand_over(files: &[File]) -> Vec<Giving> {
    let used = files.iter().filter(|file| !file.is_nothing());
    let giving = used.map(|file| Giving {
        calls: Arc::clone(&file.calls),
        lost: file.durability.is_not_lost().err().unwrap_or(0),
    });
    giving.collect()
}

/// Adds a file, in the place of one that is no longer used if there is one; returns its number.
pub(super) fn add(files: &mut Vec<File>, file: NewFile) -> Option<u16> {
    let free = files.iter().position(File::is_nothing);
    let number = u16::try_from(free.unwrap_or(files.len())).ok()?;
    match free {
        Some(free) => files[free] = file.0,
        None => files.push(file.0),
    }
    Some(number)
}

/// Removes a file and returns it.
pub(super) fn remove(files: &mut [File], file: u16) -> Option<NewFile> {
    let place = files.get_mut(usize::from(file))?;
    Some(NewFile(std::mem::replace(place, File::nothing())))
}

/// How the files of a backend are accessed, as text.
pub(super) fn how(files: &[File]) -> &'static str {
    let files = || files.iter().filter(|file| !file.is_nothing());
    match files().filter(|file| file.direct).count() {
        0 if files().all(|file| file.in_memory) => "files in memory",
        0 => "through the page cache",
        count if count == files().count() => "O_DIRECT",
        _ => "O_DIRECT where it can be",
    }
}

/// Opens the same file again; `None` where the system does not allow that by descriptor.
fn open_again(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    open_path(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn only_files(path: &Path, metadata: &fs::Metadata) -> Result<(), OpenError> {
    let kind = metadata.file_type();
    let found = match () {
        () if kind.is_file() || kind.is_block_device() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a character device",
    };
    Err(OpenError::Kind { path: path.to_owned(), found })
}

fn opening(path: &Path, readonly: bool, errno: Errno) -> OpenError {
    let denied = matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS);
    let doing = match (readonly, denied) {
        (true, _) => "opening it to read",
        (false, false) => "opening it to read and write",
        (false, true) => "opening it to write (`readonly = true` only reads)",
    };
    OpenError::System { path: PathBuf::from(path), doing, error: errno.into() }
}

fn is_in_memory(fd: BorrowedFd<'_>) -> bool {
    #[expect(clippy::cast_sign_loss, reason = "magic numbers of 32 bits")]
    let magic = fstatfs(fd).map_or(0, |system| system.f_type as u64 & 0xffff_ffff);
    magic == TMPFS || magic == RAMFS
}

/// Turns O_DIRECT on where it is wanted; returns the block size that it needs, `None` if the cache
/// is used.
fn pass_cache(
    fd: BorrowedFd<'_>,
    direct: Direct,
    in_memory: bool,
    device_block: Option<u32>,
) -> io::Result<Option<u32>> {
    if direct == Direct::No || (direct == Direct::Auto && in_memory) {
        return Ok(None);
    }
    let flags = fcntl_getfl(fd)?;
    let done = fcntl_setfl(fd, flags | OFlags::DIRECT).map_err(io::Error::from);
    let done = done.and_then(|()| match device_block {
        Some(block) => Ok(block),
        None => direct_block(fd),
    });
    match done {
        Ok(block) => Ok(Some(block)),
        Err(error) if direct == Direct::Yes => Err(error),
        Err(_) => {
            fcntl_setfl(fd, flags)?;
            Ok(None)
        }
    }
}

/// The block size that O_DIRECT needs for a regular file.
fn direct_block(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let told = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if let Ok(told) = told
        && StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::DIOALIGN)
    {
        // Memory is aligned to blocks too: one number serves for both.
        let block = told.stx_dio_offset_align.max(told.stx_dio_mem_align);
        return match told.stx_dio_offset_align {
            1.. if block <= BLOCK_MAX => Ok(block),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
    }
    let mut memory = Memory::new(4096)?;
    let tried = [512, 4096].into_iter().find(|&block| {
        let block = block as usize;
        is_taken(&rustix::io::pread(fd, &mut memory.bytes_mut()[..block], block as u64))
    });
    tried.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Whether a regular file can have holes, tried where there is no data.
fn can_have_holes(fd: BorrowedFd<'_>, bytes: u64) -> bool {
    let behind = bytes.next_multiple_of(FAR).saturating_add(FAR);
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    is_done_or_failed(&fallocate(fd, flags, behind, 4096))
}

/// Whether the kernel accepts a read of this block size, whatever its result: for a wrong size it
/// returns EINVAL before it asks the device. So a device that fails while a server starts, or takes
/// over, keeps its block size.
fn is_taken(read: &Result<usize, Errno>) -> bool {
    !matches!(read, Err(Errno::INVAL))
}

/// Likewise for holes: an operation that is not supported fails with another error than the
/// device's.
fn is_done_or_failed(punched: &Result<(), Errno>) -> bool {
    punched.err().is_none_or(is_of_device)
}

/// Whether this is an errno of a failing device: of its medium, its transport, its target, or a
/// timeout.
fn is_of_device(error: Errno) -> bool {
    matches!(
        error,
        Errno::IO
            | Errno::NODATA
            | Errno::REMOTEIO
            | Errno::TIMEDOUT
            | Errno::NOLINK
            | Errno::ILSEQ
            | Errno::NODEV
            | Errno::NXIO
            | Errno::NOSPC
    )
}

/// A number of a device's queue in sysfs, 0 if there is none. For a partition it is in the folder
/// above.
fn queue_attribute(number: u64, name: &str) -> u64 {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = format!("/sys/dev/block/{major}:{minor}");
    let read = |at: &str| fs::read_to_string(format!("{device}/{at}queue/{name}")).ok();
    let text = read("").or_else(|| read("../"));
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Is a device that fails while it is examined taken for what it is when it works?
#[test]
fn a_failing_device_is_what_it_is() {
    assert!(is_taken(&Ok(512)) && is_taken(&Err(Errno::IO)) && !is_taken(&Err(Errno::INVAL)));
    assert!(is_done_or_failed(&Ok(())));
    // A medium, a transport, a target that is late.
    for failed in [Errno::IO, Errno::NODATA, Errno::NOLINK, Errno::TIMEDOUT] {
        assert!(is_done_or_failed(&Err(failed)), "{failed:?}");
    }
    assert!(!is_done_or_failed(&Err(Errno::OPNOTSUPP)));
}

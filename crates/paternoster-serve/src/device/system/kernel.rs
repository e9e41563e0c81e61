// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel: names and files of the operating system.
//!
//! Each method is one call, or reads what the kernel reports in /proc or /sys. Locks of open files
//! have no process in /proc/locks, but each is listed with the descriptor that took it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags, fallocate,
    fcntl_getfl, fcntl_setfl, flock, fstatfs, ioctl_blksszget, open as open_path, seek, statx,
};
use rustix::io::Errno;

use super::{FileSystem, Handle, Kind, OpenFile, Stat};
use crate::device::calls::{Calls, Descriptors};
use crate::device::memory::Memory;

/// A file that needs larger blocks is not opened with O_DIRECT.
const BLOCK_MAX: u32 = 64 << 10;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// The operating system.
#[derive(Debug)]
pub(super) struct Kernel;

/// A descriptor.
#[derive(Debug)]
struct Descriptor(OwnedFd);

/// A descriptor that another process has handed over.
pub(crate) fn handle(fd: OwnedFd) -> Handle {
    Box::new(Descriptor(fd))
}

impl FileSystem for Kernel {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        Ok(told(&fs::metadata(path)?))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<Handle, Errno> {
        Ok(handle(open_path(path, flags, Mode::empty())?))
    }

    /// For a partition it is in the folder above.
    fn queue_attribute(&self, number: u64, name: &str) -> u64 {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = format!("/sys/dev/block/{major}:{minor}");
        let read = |at: &str| fs::read_to_string(format!("{device}/{at}queue/{name}")).ok();
        let text = read("").or_else(|| read("../"));
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}

impl Descriptor {
    fn metadata(&self) -> io::Result<fs::Metadata> {
        fs::File::from(self.0.try_clone()?).metadata()
    }
}

impl OpenFile for Descriptor {
    fn stat(&self) -> io::Result<Stat> {
        Ok(told(&self.metadata()?))
    }

    fn lock(&self, command: i32, kind: i32, start: i64, length: i64) -> Result<i32, Errno> {
        // SAFETY: a flock is plain numbers; all zeroes is one. (Its process must be 0 here.)
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
        lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
        (lock.l_start, lock.l_len) = (start, length);
        // SAFETY: the descriptor is open as long as it is borrowed, and the lock outlives the call.
        let done = unsafe { libc::fcntl(self.0.as_raw_fd(), command, &raw mut lock) };
        if done == 0 {
            return Ok(lock.l_type.into());
        }
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        Err(Errno::from_raw_os_error(errno))
    }

    fn lock_all(&self, how: FlockOperation) -> Result<(), Errno> {
        flock(&self.0, how)
    }

    fn holder(&self) -> Option<String> {
        let metadata = self.metadata().ok()?;
        let file = (metadata.dev(), metadata.ino());
        let end = format!(":{}", metadata.ino());
        let own = std::process::id().to_string();
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut processes = processes.filter_map(|entry| entry.file_name().into_string().ok());
        processes.find_map(|process| {
            let is_other = process.bytes().all(|byte| byte.is_ascii_digit()) && process != own;
            let infos =
                is_other.then(|| fs::read_dir(format!("/proc/{process}/fdinfo")).ok())??;
            let mut names =
                infos.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let has_it = names.any(|name| {
                let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{name}"));
                let locked = info.unwrap_or_default().lines().any(|line| {
                    line.starts_with("lock:")
                        && line.split_whitespace().any(|word| word.ends_with(&end))
                });
                let same = || fs::metadata(format!("/proc/{process}/fd/{name}")).ok();
                locked && same().is_some_and(|found| (found.dev(), found.ino()) == file)
            });
            let name = || fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            has_it.then(|| format!("{} (process {process})", harmless(name().trim())))
        })
    }

    fn share(&self) -> io::Result<Handle> {
        Ok(handle(self.0.try_clone()?))
    }

    fn again(&self) -> Option<Handle> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        open_path(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok().map(handle)
    }

    fn is_in_memory(&self) -> bool {
        #[expect(clippy::cast_sign_loss, reason = "magic numbers of 32 bits")]
        let magic = fstatfs(&self.0).map_or(0, |system| system.f_type as u64 & 0xffff_ffff);
        magic == TMPFS || magic == RAMFS
    }

    fn logical_block(&self) -> Option<u32> {
        ioctl_blksszget(&self.0).ok()
    }

    fn end(&self) -> io::Result<u64> {
        Ok(seek(&self.0, SeekFrom::End(0))?)
    }

    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        let mut flags = fcntl_getfl(&self.0)?;
        flags.set(OFlags::DIRECT, is_direct);
        Ok(fcntl_setfl(&self.0, flags)?)
    }

    fn direct_block(&self) -> io::Result<u32> {
        let told = statx(&self.0, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
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
            is_taken(&rustix::io::pread(&self.0, &mut memory.bytes_mut()[..block], block as u64))
        });
        tried.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.0, flags, offset, length)
    }

    fn descriptor(self: Box<Self>) -> Option<OwnedFd> {
        Some(self.0)
    }

    fn serve(self: Box<Self>, for_flushes: Option<Handle>) -> Arc<dyn Calls> {
        let for_flushes = for_flushes.and_then(OpenFile::descriptor);
        Arc::new(Descriptors { data: self.0, for_flushes })
    }
}

/// The stat of an open descriptor.
pub(in crate::device) fn stat_of(fd: std::os::fd::BorrowedFd<'_>) -> Option<Stat> {
    Descriptor(fd.as_fd().try_clone_to_owned().ok()?).stat().ok()
}

fn told(metadata: &fs::Metadata) -> Stat {
    let kind = metadata.file_type();
    let kind = match () {
        () if kind.is_file() => Kind::File,
        () if kind.is_block_device() => Kind::Block,
        () if kind.is_dir() => Kind::Folder,
        () if kind.is_fifo() => Kind::Pipe,
        () if kind.is_socket() => Kind::Socket,
        () => Kind::Character,
    };
    Stat {
        kind,
        device: metadata.dev(),
        inode: metadata.ino(),
        number: metadata.rdev(),
        bytes: metadata.len(),
        preferred: metadata.blksize(),
    }
}

/// Whether the kernel accepts a read of this block size, whatever its result: for a wrong size it
/// returns EINVAL before it asks the device. So a device that fails while a server starts, or takes
/// over, keeps its block size.
pub(in crate::device) fn is_taken(read: &Result<usize, Errno>) -> bool {
    !matches!(read, Err(Errno::INVAL))
}

/// A process gives itself its name.
fn harmless(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

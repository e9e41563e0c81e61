// SPDX-License-Identifier: MIT OR Apache-2.0
//! System: the system calls on paths, and on files before they are served, as one trait.
//!
//! ```text
//! identity ─stat─┐
//! claim, lock ───┼─▶ FileSystem, OpenFile ──▶ kernel: the system's calls
//! files ──open───┘                      └───▶ names and files in memory, with locks (judges)
//! ```
//!
//! Which calls are made, in which order, and what their results mean is decided by the same code on
//! both sides. Once a file is served, the calls on it are those of `calls`. No request comes
//! through here: an indirect call is paid only where a file is opened or locked.

pub(crate) mod kernel;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::calls::Calls;

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Block,
    Folder,
    Pipe,
    Socket,
    Character,
}

/// The result of stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kind: Kind,
    /// Device and inode number: together they identify a file.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// For a device file: the number of the device that it stands for.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// The preferred size of I/O (`st_blksize`).
    pub(crate) preferred: u64,
}

/// Paths, and what they lead to.
pub(crate) trait FileSystem: Debug + Send + Sync {
    /// Stats the file that a path leads to; links are followed.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Opens the file that a path leads to.
    fn open(&self, path: &Path, flags: OFlags) -> Result<Handle, Errno>;

    /// A number of a device's queue in sysfs, 0 if there is none.
    fn queue_attribute(&self, number: u64, name: &str) -> u64;
}

/// An open file that is not served yet, or only locked.
pub(crate) type Handle = Box<dyn OpenFile>;

/// An open file description. Its locks belong to the description.
pub(crate) trait OpenFile: Debug + Send + Sync {
    /// Stats the open file.
    fn stat(&self) -> io::Result<Stat>;

    /// Sets or looks for a lock of the open file description (`F_OFD_SETLK`, `F_OFD_GETLK`) on a
    /// range of bytes; length 0 means to the end. Returns the kind of lock that was set or found.
    fn lock(&self, command: i32, kind: i32, start: i64, length: i64) -> Result<i32, Errno>;

    /// `flock`.
    fn lock_all(&self, how: FlockOperation) -> Result<(), Errno>;

    /// The name and number of another process that has a lock on the file.
    fn holder(&self) -> Option<String>;

    /// A second handle of the same description.
    fn share(&self) -> io::Result<Handle>;

    /// Opens the same file again, to read and write; `None` where the system does not allow that.
    fn again(&self) -> Option<Handle>;

    /// Whether it is on a file system in memory.
    fn is_in_memory(&self) -> bool;

    /// The logical block size of a block device.
    fn logical_block(&self) -> Option<u32>;

    /// The size of a block device.
    fn end(&self) -> io::Result<u64>;

    /// Turns O_DIRECT on or off.
    fn set_direct(&self, is_direct: bool) -> io::Result<()>;

    /// The block size that O_DIRECT needs for a regular file.
    fn direct_block(&self) -> io::Result<u32>;

    /// Punches a hole; the size of the file stays.
    fn punch(&self, offset: u64, length: u64) -> Result<(), Errno>;

    /// Its descriptor; `None` for a file that is not of the operating system.
    fn descriptor(self: Box<Self>) -> Option<std::os::fd::OwnedFd>;

    /// Makes it a file to be served; flushes use the other description, if there is one.
    fn serve(self: Box<Self>, for_flushes: Option<Handle>) -> Arc<dyn Calls>;
}

/// The file system in use. By default it is the operating system's.
#[derive(Debug, Clone)]
pub struct System(Arc<dyn FileSystem>);

impl System {
    /// A file system other than the operating system's.
    #[cfg(test)]
    pub(crate) fn new(files: Arc<dyn FileSystem>) -> System {
        System(files)
    }

    /// Stats a path; see [`FileSystem::stat`].
    pub(super) fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.0.stat(path)
    }

    /// Opens a path; see [`FileSystem::open`].
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> Result<Handle, Errno> {
        self.0.open(path, flags)
    }

    /// Reads an attribute; see [`FileSystem::queue_attribute`].
    pub(super) fn queue_attribute(&self, number: u64, name: &str) -> u64 {
        self.0.queue_attribute(number, name)
    }
}

impl Default for System {
    fn default() -> System {
        System(Arc::new(kernel::Kernel))
    }
}

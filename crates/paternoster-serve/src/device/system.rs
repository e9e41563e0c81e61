// SPDX-License-Identifier: MIT OR Apache-2.0
//! System: what is asked of names, and of a file on its way to be served, behind one seam.
//!
//! ```text
//! identity ─stat─┐
//! claim, lock ───┼─▶ FileSystem, OpenFile ──▶ kernel: the system's calls
//! files ──open───┘                      └───▶ names and files in memory, with locks (judges)
//! ```
//!
//! Which calls are made, in which order, and what their answers mean is production's on either
//! side. Behind `open` the calls on a file are those of `calls`. Nothing here is on the way of a
//! request: an indirect call is paid where a file is opened or locked.

pub(crate) mod kernel;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::calls::Calls;

/// What a name, or something open, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Block,
    Folder,
    Pipe,
    Socket,
    Character,
}

/// What the system says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kind: Kind,
    /// What it lies on, and which one it is there.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Its own number, of a device.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// The size that it likes best.
    pub(crate) preferred: u64,
}

/// Names.
pub(crate) trait FileSystem: Debug + Send + Sync {
    /// What a name means, behind all links.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Opens what a name means.
    fn open(&self, path: &Path, flags: OFlags) -> Result<Handle, Errno>;

    /// A number of a device's queue, 0 where there is none.
    fn queue_attribute(&self, number: u64, name: &str) -> u64;
}

/// An open file that is not served yet, or only locked.
pub(crate) type Handle = Box<dyn OpenFile>;

/// One description of a file. Its locks are the description's.
pub(crate) trait OpenFile: Debug + Send + Sync {
    /// What it is.
    fn stat(&self) -> io::Result<Stat>;

    /// A lock of the open file (`F_OFD_SETLK`, `F_OFD_GETLK`) on bytes, 0 of them: to the end; the
    /// kind of lock that was found or set.
    fn lock(&self, command: i32, kind: i32, start: i64, length: i64) -> Result<i32, Errno>;

    /// `flock`.
    fn lock_all(&self, how: FlockOperation) -> Result<(), Errno>;

    /// Another process with a lock on the file, in words.
    fn holder(&self) -> Option<String>;

    /// The same description, once more.
    fn share(&self) -> io::Result<Handle>;

    /// Another description of the file, to read and write; `None` where that cannot be.
    fn again(&self) -> Option<Handle>;

    /// Whether it is on a file system in memory.
    fn is_in_memory(&self) -> bool;

    /// A block device's logical block.
    fn logical_block(&self) -> Option<u32>;

    /// Where it ends, of a block device.
    fn end(&self) -> io::Result<u64>;

    /// Turns O_DIRECT on or off.
    fn set_direct(&self, is_direct: bool) -> io::Result<()>;

    /// The block that O_DIRECT wants of a regular file.
    fn direct_block(&self) -> io::Result<u32>;

    /// Makes a hole where nothing is.
    fn punch(&self, offset: u64, length: u64) -> Result<(), Errno>;

    /// What it is to a kernel, if it is one's.
    fn descriptor(self: Box<Self>) -> Option<std::os::fd::OwnedFd>;

    /// To be served; flushes go through the other description, where there is one.
    fn serve(self: Box<Self>, for_flushes: Option<Handle>) -> Arc<dyn Calls>;
}

/// Where names and files are. By default the operating system has them.
#[derive(Debug, Clone)]
pub struct System(Arc<dyn FileSystem>);

impl System {
    /// Names and files that are not the operating system's.
    #[cfg(test)]
    pub(crate) fn new(files: Arc<dyn FileSystem>) -> System {
        System(files)
    }

    /// As [`FileSystem::stat`].
    pub(super) fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.0.stat(path)
    }

    /// As [`FileSystem::open`].
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> Result<Handle, Errno> {
        self.0.open(path, flags)
    }

    /// As [`FileSystem::queue_attribute`].
    pub(super) fn queue_attribute(&self, number: u64, name: &str) -> u64 {
        self.0.queue_attribute(number, name)
    }
}

impl Default for System {
    fn default() -> System {
        System(Arc::new(kernel::Kernel))
    }
}

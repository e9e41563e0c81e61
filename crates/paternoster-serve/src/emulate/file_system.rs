// SPDX-License-Identifier: MIT OR Apache-2.0
//! FileSystem: one file in one folder, as the kernel asks for it.
//!
//! ```text
//! DIR/            inode 1
//!   hdd-7200      inode 2: read, write, fsync, fallocate ──▶ model thread
//! ```
//!
//! The file behaves as a block device does: its size is what it is (to truncate it does nothing),
//! reads end at the end, writes beyond it find no space. Nothing of it is in the page cache, so
//! that every request of a process is a request to the model.
//!
//! | asked | is |
//! |---|---|
//! | read, write | Read, Write of the sectors that they touch |
//! | fsync, fdatasync | Flush, if the model has a write cache; else nothing |
//! | write with O_SYNC, O_DSYNC | with FUA, or a Flush after it, if there is a write cache |
//! | fallocate: punch a hole | Discard |
//! | fallocate: zero a range | Write of zeroes |
//! | other modes of fallocate | EOPNOTSUPP |
//!
//! A write's data are in place when the model is given the write, a read's are taken when it ends:
//! a process that reads what is just being written gets what a disk would give, old or new data.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use super::model_queue::{Io, Kind};
use super::model_thread;
use super::shared::{Answer, Shared};
use crate::fuse::kernel::{LONG, agree, attributes, list};

const FILE: INodeNo = INodeNo(2);
/// Largest request in bytes.
pub(super) const BYTES_MAX: u32 = 1 << 20;
/// Asynchronous requests (libaio, io_uring) at a time.
const BACKGROUND: u16 = 4096;
const BLOCK: u32 = 4096;

/// The file system.
#[derive(Debug)]
pub(super) struct FileSystem {
    pub(super) shared: Arc<Shared>,
    /// The file's name.
    pub(super) name: OsString,
    pub(super) size: u64,
    /// A model without one has nothing to flush.
    pub(super) write_cache: bool,
    /// Users besides our own.
    pub(super) others: bool,
    pub(super) began: SystemTime,
}

impl FileSystem {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (mine, all, size) = match inode {
            INodeNo::ROOT => (0o700, 0o755, None),
            FILE => (0o600, 0o666, Some(self.size)),
            _ => return None,
        };
        Some(attributes(inode, size, if self.others { all } else { mine }, self.began))
    }

    /// How much of a range is within the file.
    fn within(&self, offset: u64, length: u64) -> u64 {
        length.min(self.size.saturating_sub(offset))
    }

    /// Whether it comes from the thread that measures the way here.
    fn is_measuring(&self, request: &Request) -> bool {
        let measuring = self.shared.measuring.load(Ordering::Relaxed);
        measuring != 0 && request.pid() == measuring
    }

    /// A hole, or zeroes.
    fn clear(&self, kind: Kind, offset: u64, length: u64, reply: ReplyEmpty) {
        let read = self.shared.now();
        if length == 0 {
            return reply.ok();
        }
        let done = match kind {
            Kind::Discard => {
                self.shared.data.discard(offset, length);
                Ok(())
            }
            _ => self.shared.data.zero(offset, length),
        };
        match done {
            Ok(()) => {
                let io = Io { kind, offset, length, lasting: false };
                self.shared.ask(read, io, Answer::Done(reply));
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        // As any file system of ours, but for larger and more requests: cutting them is the
        // model's.
        agree(kernel, BACKGROUND, BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(file) if parent == INodeNo::ROOT && name == self.name => {
                reply.entry(&LONG, &file, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(found) => reply.attr(&LONG, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the trait's")]
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // As on a block device: truncating is allowed, and changes nothing.
        self.getattr(request, inode, handle, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != FILE {
            return reply.error(Errno::EISDIR);
        }
        // Closing means nothing to a device, so the kernel need not ask about it.
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.shared.now();
        let length = self.within(offset, u64::from(size));
        if length == 0 {
            return reply.data(&[]);
        }
        let bytes = usize::try_from(length).unwrap_or(0);
        if self.is_measuring(request) {
            return model_thread::read(reply, offset, bytes, &self.shared, &mut Vec::new());
        }
        let io = Io { kind: Kind::Read, offset, length, lasting: false };
        self.shared.ask(read, io, Answer::Read { reply, offset, length: bytes });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let read = self.shared.now();
        let length = self.within(offset, data.len() as u64);
        let data = &data[..usize::try_from(length).unwrap_or(0)];
        if data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = self.shared.data.write(data, offset) {
            return reply.error(Errno::from(error));
        }
        let lasting = flags.0 & libc::O_DSYNC != 0;
        let io = Io { kind: Kind::Write, offset, length, lasting };
        // It came in one request of the kernel: at most BYTES_MAX.
        let length = u32::try_from(length).unwrap_or(BYTES_MAX);
        self.shared.ask(read, io, Answer::Write { reply, length });
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        if !self.write_cache {
            return reply.ok();
        }
        let io = Io { kind: Kind::Flush, offset: 0, length: 0, lasting: false };
        self.shared.ask(self.shared.now(), io, Answer::Done(reply));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let length = self.within(offset, length);
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE => self.clear(Kind::Discard, offset, length, reply),
            libc::FALLOC_FL_ZERO_RANGE => self.clear(Kind::Write, offset, length, reply),
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        list(reply, offset, std::iter::once((FILE, self.name.as_os_str())));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // Full: there is no room for another file.
        reply.statfs(self.size / u64::from(BLOCK), 0, 0, 1, 0, BLOCK, 255, BLOCK);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing is nothing to a device; with this answer the kernel does not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        // The kernel then takes all of the file for data.
        reply.error(Errno::ENOSYS);
    }
}

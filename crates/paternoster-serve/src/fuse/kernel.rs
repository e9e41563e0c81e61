// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel: how it may send requests, and which attributes it gets; the same for all our file
//! systems.

use std::ffi::OsStr;
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo, InitFlags, KernelConfig, ReplyDirectory};

/// Names and attributes do not change while we are there.
pub const LONG: Duration = Duration::from_secs(3600);

/// Asks it for concurrent requests, this many asynchronous ones (libaio, io_uring), and of this
/// many bytes.
pub fn agree(config: &mut KernelConfig, background: u16, bytes: u32) {
    for wish in [
        InitFlags::FUSE_ASYNC_READ,
        InitFlags::FUSE_ASYNC_DIO,
        InitFlags::FUSE_BIG_WRITES,
        InitFlags::FUSE_MAX_PAGES,
        InitFlags::FUSE_PARALLEL_DIROPS,
    ] {
        // Each is a help and none a need; what a kernel does not know it does without.
        let _without = config.add_capabilities(wish);
    }
    let _nearest = config.set_max_write(bytes);
    if let Err(most) = config.set_max_readahead(bytes) {
        let _nearest = config.set_max_readahead(most);
    }
    let _nearest = config.set_max_background(background);
    let _nearest = config.set_congestion_threshold(background);
}

/// The attributes of a file of this many bytes, or of a folder (`None`): ours, with these rights.
pub fn attributes(inode: INodeNo, size: Option<u64>, rights: u16, since: SystemTime) -> FileAttr {
    let bytes = size.unwrap_or(0);
    FileAttr {
        ino: inode,
        size: bytes,
        blocks: bytes.div_ceil(512),
        atime: since,
        mtime: since,
        ctime: since,
        crtime: since,
        kind: if size.is_some() { FileType::RegularFile } else { FileType::Directory },
        perm: rights,
        nlink: if size.is_some() { 1 } else { 2 },
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Lists a folder that has these files, from an offset on. The offset of an entry is where the next
/// one begins.
pub fn list<'a>(
    mut reply: ReplyDirectory,
    offset: u64,
    files: impl Iterator<Item = (INodeNo, &'a OsStr)>,
) {
    let dots = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, OsStr::new(name)));
    let files = files.map(|(inode, name)| (inode, FileType::RegularFile, name));
    for (place, (inode, kind, name)) in (1..).zip(dots.into_iter().chain(files)) {
        if place > offset && reply.add(inode, place, kind, name) {
            break;
        }
    }
    reply.ok();
}

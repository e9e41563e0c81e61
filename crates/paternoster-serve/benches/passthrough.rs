// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passthrough: the plainest server of one file over FUSE, to compare ours with.
//!
//! ```text
//! kernel ──request──▶ the one thread: pread or pwrite ──reply──▶ kernel
//! ```
//!
//! No queue, no scheduler, no distinction of clients: what it costs just to answer the kernel. It
//! requests the same features from the kernel as our own front (`src/fuse/kernel.rs`: parallel
//! requests and their sizes; and direct I/O), and keeps one buffer for the data that it reads.
//!
//! `benches/fuse` runs it: `cargo bench --bench passthrough -- FILE FOLDER` shows FILE as
//! `FOLDER/disk` until it is unmounted.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use paternoster_serve::fuse::kernel::{LONG, agree, attributes};

/// Bytes of one request at most, as ours.
const LARGEST: u32 = 256 << 10;
/// Requests that the kernel has with us at a time, as ours.
const BACKGROUND: u16 = 256;
const NAME: &str = "disk";
const DISK: INodeNo = INodeNo(2);

thread_local! {
    /// Where data that are read lie until they are sent.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LARGEST as usize]);
}

/// The file.
struct Passthrough {
    file: File,
    size: u64,
}

impl Passthrough {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (size, rights) =
            if inode == INodeNo::ROOT { (None, 0o700) } else { (Some(self.size), 0o600) };
        attributes(inode, size, rights, SystemTime::UNIX_EPOCH)
    }
}

/// What the system refused, as an errno.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(5))
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        agree(config, BACKGROUND, LARGEST);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == NAME {
            return reply.entry(&LONG, &self.attributes(DISK), Generation(0));
        }
        reply.error(Errno::ENOENT);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attributes(inode));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&LONG, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), direct);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            let wanted = &mut buffer[..size.min(LARGEST) as usize];
            match self.file.read_at(wanted, offset) {
                Ok(bytes) => reply.data(&wanted[..bytes]),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file.write_all_at(data, offset) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(LARGEST)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.file.sync_data() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }
}

fn show(path: &Path, folder: &Path) -> std::io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let size = file.metadata()?.len();
    let mut config = Config::default();
    let name = MountOption::FSName("passthrough".to_owned());
    config.mount_options = vec![name, MountOption::NoAtime, MountOption::DefaultPermissions];
    fuser::mount(Passthrough { file, size }, folder, &config)
}

fn main() -> ExitCode {
    // Cargo adds words of its own, which begin with dashes.
    let words =
        std::env::args_os().skip(1).filter(|word| !word.as_encoded_bytes().starts_with(b"--"));
    let words: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let [file, folder] = words.as_slice() else {
        // `cargo bench` without arguments runs every bench; this one is a server.
        println!("passthrough: FILE FOLDER shows FILE as FOLDER/{NAME}; see benches/fuse");
        return ExitCode::SUCCESS;
    };
    match show(file, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("passthrough: {} at {}: {error}", file.display(), folder.display());
            ExitCode::FAILURE
        }
    }
}

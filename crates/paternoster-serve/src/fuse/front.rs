// SPDX-License-Identifier: MIT OR Apache-2.0
//! Front: a folder with a file for each volume, as the kernel's FUSE asks for it.
//!
//! ```text
//! open      has it the right? then who opens it    direct I/O: no page cache, so that every
//! read …    stands in the handle; who asks in the  request bears the thread that it is of
//!           request
//! close     what was written through it is made durable, if anything was
//! ```
//!
//! A file has the size of its volume, and a request to change it is refused. Opening with O_TRUNC,
//! as `cp` and `dd of=` do, changes nothing, as with a disk. The kernel reports it just as it
//! reports `truncate(path, 0)`, which therefore changes nothing either. Reads stop at the end;
//! writes beyond it find no room. Punched and zeroed ranges read as zeroes.
//!
//! Memory: the kernel has at most [`BACKGROUND`] asynchronous requests of [`LARGEST`] bytes here at
//! a time (64 MiB), and one more for each thread that waits.
//!
//! Invariant: every request is answered, by the loop or here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::call::{Answer, Call, Shares};
use super::callers::{Caller, Callers};
use super::kernel::{LONG, agree, attributes, list};
use crate::config::rights::Right;
use crate::config::{self, Identity, Rights, Who};
use crate::device_loop::Message;
use crate::device_loop::inbox::Slot;
use crate::host::peer::{self, PROC};
use crate::locked::locked;
use crate::nbd::transmission::Kind;

/// Bytes of one request at most.
const LARGEST: u32 = 256 << 10;
/// Asynchronous requests that the kernel has with us at a time.
const BACKGROUND: u16 = 256;
/// Zeroes of one call at most; longer ranges are several.
const ZEROES: u64 = 1 << 30;
/// A range of more pieces than that is too long.
const PIECES: u64 = 1 << 20;
/// The first inode that is a file.
const FIRST: u64 = 2;

/// A volume as a file.
#[derive(Debug)]
pub(crate) struct File {
    /// The file's name in the folder.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused.
    pub readonly: bool,
    /// The clients that may open it.
    pub rights: Rights,
    /// Its number among the volumes of its loop.
    pub place: u32,
    /// The inbox of its loop, for calls.
    pub slot: Slot<Message>,
}

impl File {
    /// What the process of a request may do with it. It waits for the answer, so that its number is
    /// still its own.
    fn right(&self, request: &Request) -> Option<Right> {
        let (pid, proc_root) = (request.pid(), Path::new(PROC));
        let asks = |what: fn(&Who) -> bool| self.rights.entries().any(what);
        let groups = || peer::groups_of(pid, proc_root);
        let cgroup = || peer::cgroup_of(pid, proc_root);
        let who = Identity {
            export: self.name.clone(),
            uid: Some(request.uid()),
            gid: Some(request.gid()),
            groups: asks(|who| who.gid.is_some()).then(groups).flatten(),
            cgroup: asks(|who| who.cgroup.is_some()).then(cgroup).flatten(),
            pid: Some(pid),
            ..Identity::default()
        };
        self.rights.of(&self.name, &who)
    }
}

/// An open file.
#[derive(Debug)]
struct Handle {
    caller: Option<Arc<Caller>>,
    /// Something was written through it and not made durable since.
    wrote: AtomicBool,
}

/// The folder.
#[derive(Debug)]
pub(crate) struct Front {
    files: Vec<File>,
    callers: Option<Mutex<Callers>>,
    handles: Mutex<BTreeMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
    shared: bool,
    since: SystemTime,
}

impl Front {
    pub(crate) fn new(files: Vec<File>, settings: &config::Fuse) -> Front {
        let told_apart = settings.processes != 0;
        let callers = || Mutex::new(Callers::new(settings.clone(), Path::new(PROC).to_owned()));
        Front {
            files,
            callers: told_apart.then(callers),
            handles: Mutex::new(BTreeMap::new()),
            next_handle: AtomicU64::new(1),
            shared: settings.allow_other,
            since: SystemTime::now(),
        }
    }

    fn file(&self, inode: INodeNo) -> Option<&File> {
        self.files.get(usize::try_from(inode.0.checked_sub(FIRST)?).ok()?)
    }

    fn handles(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Handle>>> {
        locked(&self.handles)
    }

    fn handle(&self, handle: FileHandle) -> Option<Arc<Handle>> {
        self.handles().get(&handle.0).map(Arc::clone)
    }

    /// The caller: by the thread of the request, or the process that opened the file if the thread
    /// is no longer known.
    fn caller(&self, request: &Request, handle: Option<&Handle>) -> Option<Arc<Caller>> {
        let callers = self.callers.as_ref()?;
        let mut callers = locked(callers);
        callers
            .of(request.pid(), request.uid(), Instant::now())
            .or_else(|| handle.and_then(|handle| handle.caller.clone()))
    }

    /// The caller as remembered; if it is not, the process that opened the file.
    fn known(&self, request: &Request, handle: Option<&Handle>) -> Option<Arc<Caller>> {
        let known = locked(self.callers.as_ref()?).known(request.pid(), request.uid());
        known.or_else(|| handle.and_then(|handle| handle.caller.clone()))
    }

    /// The caller of a change; closing the file will make it durable.
    fn writer(&self, request: &Request, handle: FileHandle) -> Option<Arc<Caller>> {
        let handle = self.handle(handle);
        if let Some(handle) = &handle {
            handle.wrote.store(true, Ordering::Relaxed);
        }
        self.caller(request, handle.as_deref())
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let is_root = inode == INodeNo::ROOT;
        let (size, readonly) = match self.file(inode) {
            Some(file) => (file.size, file.readonly),
            None if is_root => (0, true),
            None => return None,
        };
        let everybody = if self.shared { 0o777 } else { 0o700 };
        let rights = if is_root { 0o555 } else { 0o666 };
        let rights = if readonly { rights & 0o555 } else { rights };
        let size = (!is_root).then_some(size);
        Some(attributes(inode, size, rights & everybody, self.since))
    }

    /// Sends a call to its loop; if the loop has ended the process gets an error.
    fn send(file: &File, call: Call) {
        if let Err(Message::Call(call)) = file.slot.put(Message::Call(call)) {
            call.answer.bad(libc::ESHUTDOWN);
        }
    }

    /// Makes durable what was written, in the name of the caller.
    fn sync(
        &self,
        caller: Option<Arc<Caller>>,
        inode: INodeNo,
        handle: Option<&Handle>,
        reply: ReplyEmpty,
    ) {
        let Some(file) = self.file(inode) else { return reply.error(Errno::ENOENT) };
        if let Some(handle) = handle {
            handle.wrote.store(false, Ordering::Relaxed);
        }
        Front::send(file, call(file, caller, Kind::Flush, (0, 0), Answer::Done(reply)));
    }

    /// Makes a range of zeroes, in as many calls as it takes.
    fn zero(
        file: &File,
        caller: Option<&Arc<Caller>>,
        range: (u64, u64),
        no_hole: bool,
        reply: ReplyEmpty,
    ) {
        let (offset, length) = range;
        let calls = length.div_ceil(ZEROES);
        if calls == 0 || calls > PIECES {
            return reply.error(Errno::EINVAL);
        }
        let shares = Shares::new(u32::try_from(calls).unwrap_or(u32::MAX), reply);
        for piece in 0..calls {
            let from = piece * ZEROES;
            let answer = Answer::Share(Arc::clone(&shares));
            let range = (offset + from, (length - from).min(ZEROES));
            let call = call(file, caller.cloned(), Kind::WriteZeroes, range, answer);
            Front::send(file, Call { no_hole, ..call });
        }
    }
}

/// A call without payload.
fn call(
    file: &File,
    caller: Option<Arc<Caller>>,
    kind: Kind,
    (offset, length): (u64, u64),
    answer: Answer,
) -> Call {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let (fua, no_hole, payload) = (false, false, Vec::new());
    Call { place: file.place, caller, kind, fua, no_hole, offset, length, payload, answer }
}

impl Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        agree(config, BACKGROUND, LARGEST);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let named = |file: &File| name == file.name.as_str();
        let place = self.files.iter().position(named).filter(|_| parent == INodeNo::ROOT);
        let inode = place.map(|place| INodeNo(place as u64 + FIRST));
        match inode.and_then(|inode| self.attributes(inode)) {
            Some(attributes) => reply.entry(&LONG, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&LONG, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Opening with `O_TRUNC` sets the size to 0, through no handle: nothing changes, as with a
    /// disk. A program that sets another size would believe that it was done.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Some(attributes) = self.attributes(inode) else { return reply.error(Errno::ENOENT) };
        if mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        let opens = size == Some(0) && handle.is_none();
        match size {
            Some(size) if size > attributes.size => return reply.error(Errno::EFBIG),
            Some(size) if size < attributes.size && !opens => return reply.error(Errno::EPERM),
            _ => {}
        }
        reply.attr(&LONG, &attributes);
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some(file) = self.file(inode) else { return reply.error(Errno::EISDIR) };
        if file.readonly && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        match file.right(request) {
            Some(Right::Write) => {}
            Some(Right::Read) if flags.acc_mode() == OpenAccMode::O_RDONLY => {}
            _ => return reply.error(Errno::EACCES),
        }
        let caller = self.caller(request, None);
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(Handle { caller, wrote: AtomicBool::new(false) });
        self.handles().insert(number, handle);
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(number), direct);
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(file) = self.file(inode) else { return reply.error(Errno::EISDIR) };
        let length = u64::from(size).min(file.size.saturating_sub(offset));
        if length == 0 {
            return reply.data(&[]);
        }
        let caller = self.caller(request, self.handle(handle).as_deref());
        let range = (offset, length);
        Front::send(file, call(file, caller, Kind::Read, range, Answer::Data(reply)));
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(file) = self.file(inode) else { return reply.error(Errno::EISDIR) };
        let room = usize::try_from(file.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let data = &data[..data.len().min(room)];
        let Ok(length @ 1..) = u32::try_from(data.len()) else {
            return reply.error(Errno::ENOSPC);
        };
        let caller = self.writer(request, handle);
        let answer = Answer::Written(reply, length);
        let range = (offset, length.into());
        // O_SYNC is O_DSYNC and more.
        let fua = flags.0 & libc::O_DSYNC != 0;
        let call = call(file, caller, Kind::Write, range, answer);
        Front::send(file, Call { fua, payload: data.to_vec(), ..call });
    }

    fn flush(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        let handle = self.handle(handle);
        if handle.as_ref().is_some_and(|handle| handle.wrote.load(Ordering::Relaxed)) {
            // It is not looked at: a process that becomes another program closes files in the midst
            // of it, and what /proc tells of it waits for the end of that, which waits for us.
            let caller = self.known(request, handle.as_deref());
            return self.sync(caller, inode, handle.as_deref(), reply);
        }
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles().remove(&handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let handle = self.handle(handle);
        let caller = self.caller(request, handle.as_deref());
        self.sync(caller, inode, handle.as_deref(), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(file) = self.file(inode) else { return reply.error(Errno::EISDIR) };
        if file.readonly {
            return reply.error(Errno::EROFS);
        }
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let inside = length.min(file.size.saturating_sub(offset));
        let caller = self.writer(request, handle);
        match mode & !keep {
            0 if inside == length => reply.ok(),
            0 => reply.error(Errno::ENOSPC),
            _ if inside == 0 => reply.ok(),
            libc::FALLOC_FL_PUNCH_HOLE => {
                Front::zero(file, caller.as_ref(), (offset, inside), false, reply);
            }
            libc::FALLOC_FL_ZERO_RANGE => {
                Front::zero(file, caller.as_ref(), (offset, inside), true, reply);
            }
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
        let files = self.files.iter().zip(FIRST..);
        list(reply, offset, files.map(|(file, inode)| (INodeNo(inode), OsStr::new(&file.name))));
    }

    /// Volumes are made by the configuration.
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

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }
}

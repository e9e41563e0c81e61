// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: a name space of files in memory, with links, and the locks of those that opened them.
//!
//! ```text
//! /file0  ─┐                                  process 0: descriptions ─▶ locks, bytes 100 …
//! /hard0  ─┼─▶ inode 0 ─▶ bytes of the medium  process 1: descriptions ─▶ locks
//! /soft0 ──┘ (a link)
//! ```
//!
//! It implements the seam of `device::system`. Locks belong to a description: they end when they
//! are unlocked, when the last handle of the description is closed, or at once when their process
//! is killed. Each call on a path may fail with an errno.
//!
//! Law N3: as long as a living server has a file open to be written to, it has that file locked. It
//! is of each server, and asked when a lock goes: where one follows another, the judge opens the
//! files of the next before the last has closed its own, and what the last gives back then was
//! never the next one's.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::calls::Opened;
use super::medium::Medium;
use super::plan::Plan;
use crate::device::calls::Calls;
use crate::device::system::{FileSystem, Handle, Kind, OpenFile, Stat, System};
use crate::locked::locked;

/// The byte that a writer has locked; see `device::lock`.
const WRITES: i64 = 101;
/// The most links that are followed.
const LINKS: usize = 8;

/// What a path leads to.
#[derive(Debug, Clone)]
enum Name {
    File(usize),
    Link(PathBuf),
}

#[derive(Debug, Default)]
struct Space {
    names: BTreeMap<PathBuf, Name>,
    /// Locked bytes, by file and description.
    locks: BTreeMap<(usize, u64), BTreeSet<i64>>,
    /// The server that opened each description.
    makers: BTreeMap<u64, usize>,
    next: u64,
    /// Processes that were killed.
    dead: BTreeSet<usize>,
    /// Descriptions open for writing: the file and process of each.
    writers: BTreeMap<u64, (usize, usize)>,
    /// A call of names fails when this many others were made.
    fails: Option<(u64, Errno)>,
    /// N3 is broken.
    wrong: Option<String>,
}

impl Space {
    fn resolve(&self, path: &Path) -> Result<usize, Errno> {
        let mut at = path;
        for _ in 0..LINKS {
            match self.names.get(at).ok_or(Errno::NOENT)? {
                Name::File(inode) => return Ok(*inode),
                Name::Link(to) => at = to,
            }
        }
        Err(Errno::LOOP)
    }

    /// Gives back the locks of a description on these bytes, from `start` on.
    fn unlock(&mut self, inode: usize, description: u64, start: i64, length: i64) {
        let end = if length == 0 { i64::MAX } else { start + length };
        let Some(bytes) = self.locks.get_mut(&(inode, description)) else { return };
        let had = bytes.contains(&WRITES);
        bytes.retain(|byte| !(start..end).contains(byte));
        let process = self.makers[&description];
        let is_own = |of: usize, it: u64| of == inode && self.makers[&it] == process;
        let mut own = self.locks.iter().filter(|&(&(of, it), _)| is_own(of, it));
        let is_locked = own.any(|(_, bytes)| bytes.contains(&WRITES));
        let is_open = self.writers.values().any(|it| *it == (inode, process));
        let lives = !self.dead.contains(&process);
        if had && !is_locked && is_open && lives {
            self.wrong = Some(format!(
                "N3: server {process} has file {inode} open to write, and not locked"
            ));
        }
    }
}

/// The name space.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<Space>>);

/// Names that a file has; they mean the same.
pub(super) const NAMES: usize = 3;

impl Names {
    pub(super) fn new(plan: &Plan) -> Names {
        let names = Names::default();
        for file in 0..plan.files.len() {
            let mut space = names.space();
            let [own, hard, soft] = [0, 1, 2].map(|which| Names::path(file, which));
            space.names.insert(own.clone(), Name::File(file));
            space.names.insert(hard, Name::File(file));
            space.names.insert(soft, Name::Link(own));
        }
        names
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        locked(&self.0)
    }

    /// A path of a file, by number.
    pub(super) fn path(file: usize, which: usize) -> PathBuf {
        format!("/{}{file}", ["file", "hard", "soft"][which]).into()
    }

    /// What a server in this process sees. `in_memory`: its files are said to be in memory.
    pub(super) fn system(&self, medium: &Medium, process: usize, plan: &Plan) -> System {
        let in_memory = plan.engine == super::engine::Engine::Inline;
        let (names, medium, alone) = (self.clone(), medium.clone(), plan.alone);
        System::new(Arc::new(Process { names, medium, process, alone, in_memory }))
    }

    /// A process is killed: its locks go with it.
    pub(super) fn kill(&self, process: usize) {
        let mut space = self.space();
        space.dead.insert(process);
        let Space { locks, makers, .. } = &mut *space;
        locks.retain(|(_, description), _| makers[description] != process);
    }

    /// A process ends: what it has given back by then is free.
    pub(super) fn ends(&self, process: usize) {
        self.space().dead.insert(process);
    }

    /// Descriptions that a process has open belong to another one from now on.
    pub(super) fn hand_over(&self, from: usize, to: usize) {
        let Space { makers, writers, .. } = &mut *self.space();
        let owners = makers.values_mut().chain(writers.values_mut().map(|(_, process)| process));
        owners.filter(|it| **it == from).for_each(|it| *it = to);
    }

    /// The power is off: all locks are gone.
    pub(super) fn kill_all(&self) {
        let mut space = self.space();
        let all: Vec<usize> = space.makers.values().copied().collect();
        space.dead.extend(all);
        space.locks.clear();
    }

    /// The file of this name has another one now, to which the old one leads.
    pub(super) fn rename(&self, from: &Path, to: &Path) {
        let mut space = self.space();
        if let Some(name) = space.names.remove(from) {
            space.names.insert(to.to_owned(), name);
            space.names.insert(from.to_owned(), Name::Link(to.to_owned()));
        }
    }

    /// From now on this name means another file.
    pub(super) fn repoint(&self, name: &Path, file: usize) {
        self.space().names.insert(name.to_owned(), Name::File(file));
    }

    /// The present target of a name; the returned function restores it.
    pub(super) fn keep(&self, name: &Path) -> impl FnOnce() + use<> {
        let (names, path) = (self.clone(), name.to_owned());
        let was = self.space().names.get(name).cloned();
        move || {
            if let Some(was) = was {
                names.space().names.insert(path, was);
            }
        }
    }

    /// A call of a name fails, after this many.
    pub(super) fn fail(&self, after: u64, errno: Errno) {
        self.space().fails = Some((after, errno));
    }

    /// No call fails any more; whether one has.
    pub(super) fn forgive(&self) -> bool {
        self.space().fails.take().is_none()
    }

    /// N3.
    pub(super) fn is_sound(&self) -> Result<(), String> {
        self.space().wrong.take().map_or(Ok(()), Err)
    }
}

/// The names as a process has them.
#[derive(Debug, Clone)]
struct Process {
    names: Names,
    medium: Medium,
    process: usize,
    alone: bool,
    in_memory: bool,
}

impl Process {
    fn open(&self, inode: usize, writes: bool) -> Handle {
        let mut space = self.names.space();
        let number = space.next;
        space.next += 1;
        space.makers.insert(number, self.process);
        let description = Description { names: self.names.clone(), inode, number };
        let is_direct = Arc::new(AtomicBool::new(false));
        let description = Arc::new(description);
        Box::new(OpenName { process: self.clone(), inode, description, writes, is_direct })
    }

    fn stat_of(&self, inode: usize) -> Stat {
        let bytes = self.medium.state().range(inode).len() as u64;
        let (device, inode) = (1, inode as u64);
        Stat { kind: Kind::File, device, inode, number: 0, bytes, preferred: 4096 }
    }

    fn fails(&self) -> Result<(), Errno> {
        let fails = &mut self.names.space().fails;
        match fails {
            Some((0, errno)) => {
                let errno = *errno;
                *fails = None;
                Err(errno)
            }
            Some((after, _)) => {
                *after -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl FileSystem for Process {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.fails()?;
        let inode = self.names.space().resolve(path)?;
        Ok(self.stat_of(inode))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<Handle, Errno> {
        self.fails()?;
        let inode = self.names.space().resolve(path)?;
        Ok(Process::open(self, inode, flags.contains(OFlags::RDWR)))
    }

    fn queue_attribute(&self, _: u64, _: &str) -> u64 {
        0
    }
}

/// An open file description.
#[derive(Debug)]
struct Description {
    names: Names,
    inode: usize,
    number: u64,
}

impl Drop for Description {
    fn drop(&mut self) {
        let mut space = self.names.space();
        space.unlock(self.inode, self.number, 0, 0);
        space.locks.remove(&(self.inode, self.number));
    }
}

/// A descriptor.
#[derive(Debug, Clone)]
struct OpenName {
    process: Process,
    inode: usize,
    description: Arc<Description>,
    writes: bool,
    is_direct: Arc<AtomicBool>,
}

impl OpenFile for OpenName {
    fn stat(&self) -> io::Result<Stat> {
        Ok(self.process.stat_of(self.inode))
    }

    /// All locks here are shared, which exclude no other; a test asks for an exclusive one.
    fn lock(&self, command: i32, kind: i32, start: i64, length: i64) -> Result<i32, Errno> {
        let mut space = self.process.names.space();
        let own = (self.inode, self.description.number);
        match (command, kind) {
            (libc::F_OFD_GETLK, libc::F_WRLCK) => {
                let mut others = space.locks.iter().filter(|(of, _)| of.0 == own.0 && **of != own);
                let is_held = others.any(|(_, bytes)| bytes.contains(&start));
                Ok(if is_held { libc::F_RDLCK } else { libc::F_UNLCK })
            }
            (libc::F_OFD_SETLK, libc::F_RDLCK) => {
                assert_eq!(length, 1, "locks are of single bytes");
                space.locks.entry(own).or_default().insert(start);
                Ok(kind)
            }
            (libc::F_OFD_SETLK, libc::F_UNLCK) => {
                space.unlock(own.0, own.1, start, length);
                Ok(kind)
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn lock_all(&self, _: FlockOperation) -> Result<(), Errno> {
        Ok(())
    }

    fn holder(&self) -> Option<String> {
        let space = self.process.names.space();
        let held =
            space.locks.iter().filter(|((of, _), bytes)| *of == self.inode && !bytes.is_empty());
        let mut makers = held.map(|((_, description), _)| space.makers[description]);
        makers.find(|maker| *maker != self.process.process).map(|it| format!("server {it}"))
    }

    fn share(&self) -> io::Result<Handle> {
        Ok(Box::new(self.clone()))
    }

    fn again(&self) -> Option<Handle> {
        self.process.alone.then(|| self.process.open(self.inode, self.writes))
    }

    fn is_in_memory(&self) -> bool {
        self.process.in_memory
    }

    fn logical_block(&self) -> Option<u32> {
        None
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.stat()?.bytes)
    }

    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        if is_direct && !self.process.medium.state().direct {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.is_direct.store(is_direct, Ordering::SeqCst);
        Ok(())
    }

    fn direct_block(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.process.medium.state().block).unwrap())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn descriptor(self: Box<Self>) -> Option<OwnedFd> {
        None
    }

    fn serve(self: Box<Self>, for_flushes: Option<Handle>) -> Arc<dyn Calls> {
        let alone = for_flushes.is_some();
        let writer = self.writes.then(|| Writer::new(&self.process, self.inode));
        let opened = Opened::new(&self.process.medium, self.inode, alone, writer);
        self.process.medium.state().note_opened(&opened);
        opened
    }
}

/// A file that is open to be written to.
#[derive(Debug)]
pub(super) struct Writer {
    names: Names,
    number: u64,
}

impl Writer {
    fn new(process: &Process, inode: usize) -> Writer {
        let mut space = process.names.space();
        let number = space.next;
        space.next += 1;
        space.writers.insert(number, (inode, process.process));
        Writer { names: process.names.clone(), number }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.names.space().writers.remove(&self.number);
    }
}

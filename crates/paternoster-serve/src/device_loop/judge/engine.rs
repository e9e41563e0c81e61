// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engine: production's backends over the medium, in the judge's thread.
//!
//! ```text
//! loop ─▶ Watched (D3, E1) ─▶ Uring over DiskRing         as production, entries end in any order
//!                         ├─▶ Loose: plain::perform       as on threads, jobs end in any order
//!                         └─▶ Inline                      as production, at once
//! ```
//!
//! Of `Threads` its pool alone is replaced: when a job's turn comes, and not by which thread.
//!
//! Laws: D3 a job is within its volume's file, and of each of its blocks a client has asked for
//! that sort of work: nothing is read, written or forgotten on behalf of a neighbour unseen. E1 a
//! job is reported as failed with the errno of its failed call, or because others' durability is
//! lost; a job with a call that failed for good is never reported as done.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::slice::from_raw_parts;
use std::sync::Arc;

use libc::{EAGAIN, EBADF, EBUSY, ECANCELED, EIO, iovec};
use paternoster_core::{DeviceFacts, Nanos};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::calls::Opened;
use super::config;
use super::house::Own;
use super::medium::{Doing, EINTR, Forgotten, Gone, Medium};
use super::plan::Plan;
use crate::config::{Device, Volume};
use crate::device::calls::Calls;
use crate::device::event::Event;
use crate::device::files::File;
use crate::device::inline::Inline;
use crate::device::open::{OpenError, open_one};
use crate::device::system::System;
use crate::device::uring::Uring;
use crate::device::uring::ring::{Entry, NoRoom, Ring};
use crate::device::{
    Backend, Extent, FileFacts, Finished, Full, Giving, Job, NewFile, Piece, Work, plain,
};

/// Which backend it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Ring,
    Threads,
    Inline,
}

/// A file that another server has handed over, and the errno of a flush of it that had failed.
pub(super) type Given = (Arc<Opened>, i32);

/// Opens a plan's volumes for another server, with what one before it has handed over.
pub(super) fn open(plan: &Plan, medium: &Medium, own: &Own, handed: &[Given]) -> Watched {
    let (_, device) = config(plan);
    let mut handed = handed.to_vec();
    let mut file = |volume: &Volume| {
        let file = open_file(plan, &own.system, &device, volume).expect("it is there");
        let anew = medium.state().opened(file.raw()).expect("it was opened");
        let is_same = |(it, _): &Given| (it.inode, it.writes()) == (anew.inode, anew.writes());
        match handed.iter().position(is_same) {
            Some(place) => {
                let (calls, lost) = handed.swap_remove(place);
                file.of_another(calls, lost)
            }
            None => file,
        }
    };
    let files: Vec<File> = device.volumes.iter().map(&mut file).collect();
    let opened = |file: &File| medium.state().opened(file.raw());
    let opened: Vec<Option<Arc<Opened>>> = files.iter().map(opened).collect();
    let (server, depth) = (own.server, plan.depth);
    let medium = medium.clone();
    let inner: Box<dyn Backend> = match plan.engine {
        Engine::Inline => Box::new(Inline::new(files, depth)),
        Engine::Threads => Box::new(Loose {
            medium: medium.clone(),
            server,
            files,
            depth,
            held: Vec::new(),
            unseen: Vec::new(),
        }),
        Engine::Ring => {
            let ring = DiskRing {
                medium: medium.clone(),
                server,
                files: opened.clone(),
                depth: depth as usize,
                registers: plan.registers,
                is_enabled: false,
                waiting: VecDeque::new(),
                held: Vec::new(),
                done: VecDeque::new(),
                unseen: Vec::new(),
            };
            Box::new(Uring::over(ring, Event::new().expect("an event"), files, depth))
        }
    };
    Watched { medium, server, inner, files: opened }
}

/// Opens a volume's file as production does, where production can have such a file: of blocks of
/// 4 KiB through the page cache there are none, nor are there any in memory without it.
pub(super) fn open_file(
    plan: &Plan,
    system: &System,
    device: &Device,
    volume: &Volume,
) -> Result<File, OpenError> {
    let is_in_memory = plan.engine == Engine::Inline;
    if if plan.direct { !is_in_memory } else { plan.block == 512 } {
        return Ok(open_one(system, device, volume)?.0);
    }
    let access = if volume.readonly { OFlags::RDONLY } else { OFlags::RDWR };
    let wrong = |error: Errno| OpenError::System {
        path: volume.path.clone(),
        doing: "opening it",
        error: error.into(),
    };
    let file = system.open(&volume.path, access).map_err(wrong)?;
    let facts = FileFacts {
        size: file.stat().expect("it is open").bytes,
        block: u32::try_from(plan.block).unwrap(),
        preferred: 4096,
        readonly: volume.readonly,
        discards: !volume.readonly,
        zeroes_fast: !volume.readonly,
        rotational: false,
    };
    let for_flushes = if volume.readonly { None } else { file.again() };
    Ok(File::over(file.serve(for_flushes), facts, plan.direct))
}

/// A backend whose jobs are judged.
pub(super) struct Watched {
    medium: Medium,
    server: usize,
    inner: Box<dyn Backend>,
    /// Its files, by number.
    files: Vec<Option<Arc<Opened>>>,
}

// SAFETY: it hands everything on.
unsafe impl Backend for Watched {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn file(&self, file: u16) -> FileFacts {
        self.inner.file(file)
    }

    unsafe fn submit(&mut self, now: Nanos, job: Job<'_>) -> Result<(), Full> {
        let mut state = self.medium.state();
        let has_gone = state.servers[self.server] == Some(Gone::HandedOver);
        assert!(!has_gone, "N2: a server that has handed over works on: {job:?}");
        let file = self.files[usize::from(job.file)].as_ref();
        assert!(file.is_some() || job.work == Work::Flush, "D3: a file that has gone: {job:?}");
        let file = file.map_or(0..0, |file| file.bytes());
        let start = file.start + usize::try_from(job.offset).unwrap();
        let end = start + usize::try_from(job.length).unwrap();
        assert!(end <= file.end, "D3: beyond the file's end: {job:?}");
        assert!(state.was_asked_for(job.work, start, end), "D3: nobody asked for it: {job:?}");
        let in_blocks = [start, end].iter().all(|at| at.is_multiple_of(state.block));
        assert!(in_blocks, "within a block: {job:?}");
        if let Work::Zero { may_unmap, .. } = job.work {
            assert_eq!(may_unmap, state.holes, "zeroes and holes: {job:?}");
        }
        let forgotten = state.forgotten.len();
        if job.work == Work::Discard {
            let (beat, start, end) = (state.beat, start as u64, end as u64);
            state.forgotten.push(Forgotten { beat, start, end, is_durable: false });
        }
        let slot = (self.server, job.slot);
        let doing = Doing { work: job.work, range: start..end, failed: None, forgotten };
        let before = state.doing.insert(slot, doing);
        assert!(before.is_none(), "E1: a slot that is not free: {job:?}");
        state.at = Some(slot);
        drop(state);
        // SAFETY: the caller's promise.
        let taken = unsafe { self.inner.submit(now, job) };
        let mut state = self.medium.state();
        state.at = None;
        if taken.is_err() {
            state.doing.remove(&slot);
        }
        taken
    }

    fn kick(&mut self) {
        self.inner.kick();
    }

    fn reap(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        let before = finished.len();
        self.inner.reap(now, finished);
        let mut state = self.medium.state();
        for &Finished { slot, error } in &finished[before..] {
            let doing = state.doing.remove(&(self.server, slot));
            let doing = doing.unwrap_or_else(|| panic!("E1: job {slot} has ended twice"));
            state.ended += 1;
            // Losses of others are reported as EIO, or with the first report's errno.
            let is_told = |errno| error == EIO || error == errno;
            let is_right = match doing.failed {
                Some(errno) => error == errno,
                None if error == 0 => true,
                None => state.log.iter().any(|failure| failure.durable && is_told(failure.errno)),
            };
            assert!(is_right, "E1: {doing:?} has ended with {error}");
            if doing.work == Work::Flush && error == 0 {
                let ranges = state.forgotten.iter_mut().take(doing.forgotten);
                ranges.for_each(|range| range.is_durable = true);
            }
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Nanos> {
        self.inner.deadline()
    }

    unsafe fn register(&mut self, arena: NonNull<[u8]>) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.register(arena) };
    }

    fn shares_errors(&self, file: u16) -> [bool; 2] {
        self.inner.shares_errors(file)
    }

    fn lost(&self) -> Option<i32> {
        self.inner.lost()
    }

    fn can_add(&self, files: &[NewFile]) -> bool {
        self.inner.can_add(files)
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        let opened = self.medium.state().opened(file.0.raw());
        let number = self.inner.add(file)?;
        let place = usize::from(number);
        self.files.resize(self.files.len().max(place + 1), None);
        let before = std::mem::replace(&mut self.files[place], opened);
        assert!(before.is_none(), "E1: file {number} is there already");
        Some(number)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        self.files[usize::from(file)] = None;
        self.inner.remove(file)
    }

    fn to_hand_over(&self) -> Vec<Giving> {
        self.inner.to_hand_over()
    }

    fn extents(
        &mut self,
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        self.inner.extents(file, offset, length, each)
    }
}

impl Medium {
    /// Whether what is held finds no end now.
    fn is_lazy(&self) -> bool {
        let state = &mut *self.state();
        state.chance.once_in(state.lazy)
    }

    /// Which of what is held ends next: `hangs` says of each whether it may not.
    fn choose(&self, hangs: impl Iterator<Item = bool>) -> Option<usize> {
        let state = &mut *self.state();
        let may = hangs.enumerate().filter(|(_, hangs)| !hangs || state.lets_go);
        let may: Vec<usize> = may.map(|(which, _)| which).collect();
        let which = state.chance.below(may.len() as u64);
        may.get(usize::try_from(which).unwrap()).copied()
    }

    /// Whether a durable write does its work some time before its end.
    fn writes_early(&self) -> bool {
        let state = &mut *self.state();
        state.faults.write_backs != 0 && state.chance.once_in(2)
    }

    /// Whether what has ended is seen later than others' ends: only where that tells something.
    fn is_unseen(&self) -> bool {
        let state = &mut *self.state();
        state.faults.write_backs != 0 && state.chance.once_in(4)
    }

    /// Which of what has ended is seen next, if any: it is where they are `all` there is.
    fn choose_seen(&self, count: usize, all: bool) -> Option<usize> {
        if count == 0 {
            return None;
        }
        let state = &mut *self.state();
        let is_next = all || state.lets_go || state.chance.once_in(3);
        is_next.then(|| usize::try_from(state.chance.below(count as u64)).unwrap())
    }

    fn hangs(&self) -> bool {
        let state = &mut *self.state();
        state.chance.once_in(state.faults.hangs)
    }

    /// Whether something that was under way when its server went is done all the same.
    fn is_done_unheard(&self, server: usize) -> bool {
        let state = &mut *self.state();
        state.servers[server] != Some(Gone::PowerLost) && state.chance.once_in(2)
    }
}

/// A job that waits for a thread.
struct Held {
    slot: u32,
    work: Work,
    file: u16,
    offset: u64,
    length: u64,
    pieces: Vec<Piece>,
    hangs: bool,
}

/// As on threads: whole jobs, in any order.
struct Loose {
    medium: Medium,
    server: usize,
    files: Vec<File>,
    depth: u32,
    held: Vec<Held>,
    /// What has ended, and is not seen.
    unseen: Vec<Finished>,
}

impl Loose {
    fn perform(&self, held: &Held) -> i32 {
        let Held { slot, work, file, offset, length, ref pieces, .. } = *held;
        let job = Job { slot, work, file, offset, length, pieces, sector: 0 };
        self.medium.state().at = Some((self.server, slot));
        // SAFETY: the submitter's promise.
        let error = unsafe { plain::perform(&self.files, &job) };
        self.medium.state().at = None;
        error
    }
}

// SAFETY: a job is done as it is reported.
unsafe impl Backend for Loose {
    fn describe(&self) -> String {
        "as on threads, judged".to_owned()
    }

    fn facts(&self) -> DeviceFacts {
        crate::device::open::facts(&self.files, self.depth)
    }

    fn file(&self, file: u16) -> FileFacts {
        self.files[usize::from(file)].facts()
    }

    unsafe fn submit(&mut self, _: Nanos, job: Job<'_>) -> Result<(), Full> {
        if self.held.len() >= self.depth as usize {
            return Err(Full);
        }
        let Job { slot, work, file, offset, length, .. } = job;
        let (pieces, hangs) = (job.pieces.to_vec(), self.medium.hangs());
        self.held.push(Held { slot, work, file, offset, length, pieces, hangs });
        Ok(())
    }

    fn kick(&mut self) {}

    fn reap(&mut self, _: Nanos, finished: &mut Vec<Finished>) {
        while !(self.held.is_empty() && self.unseen.is_empty()) && !self.medium.is_lazy() {
            if let Some(seen) = self.medium.choose_seen(self.unseen.len(), self.held.is_empty()) {
                finished.push(self.unseen.swap_remove(seen));
                continue;
            }
            let hangs = self.held.iter().map(|held| held.hangs);
            let Some(which) = self.medium.choose(hangs) else {
                finished.append(&mut self.unseen);
                return;
            };
            let held = self.held.swap_remove(which);
            let ended = Finished { slot: held.slot, error: self.perform(&held) };
            let is_unseen = self.medium.is_unseen();
            if is_unseen { &mut self.unseen } else { &mut *finished }.push(ended);
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn shares_errors(&self, file: u16) -> [bool; 2] {
        crate::device::files::shares_errors(&self.files, file)
    }

    fn can_add(&self, _: &[NewFile]) -> bool {
        true
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        crate::device::files::add(&mut self.files, file)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        crate::device::files::remove(&mut self.files, file)
    }

    fn lost(&self) -> Option<i32> {
        crate::device::files::lost(&self.files)
    }

    fn to_hand_over(&self) -> Vec<Giving> {
        crate::device::files::to_hand_over(&self.files)
    }

    fn extents(
        &mut self,
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        self.files[usize::from(file)].holes().tell(offset, length, each)
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        for held in std::mem::take(&mut self.held) {
            if held.work != Work::Read && self.medium.is_done_unheard(self.server) {
                let _unheard = self.perform(&held);
            }
        }
    }
}

/// How far an entry is before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Not,
    /// A sync has written back what it found.
    Sync,
    /// A durable write has moved this much, and written it back.
    Moved(u64),
}

/// An entry that is handed over.
struct Under {
    number: u32,
    entry: Entry,
    /// Its file, which stays until it has ended.
    of: Option<Arc<Opened>>,
    hangs: bool,
    begun: Begun,
}

/// A ring whose entries are calls of the medium, in any order.
struct DiskRing {
    medium: Medium,
    server: usize,
    files: Vec<Option<Arc<Opened>>>,
    depth: usize,
    registers: bool,
    is_enabled: bool,
    waiting: VecDeque<(u32, Entry)>,
    held: Vec<Under>,
    done: VecDeque<(u64, i32)>,
    /// What has ended, and is not seen.
    unseen: Vec<(u64, i32)>,
}

// SAFETY: everything happens in one thread; what entries point to stays as `push` has it.
unsafe impl Send for DiskRing {}

impl DiskRing {
    /// Makes an entry's call, or what is left of it; its result, as a completion has it.
    fn perform(&self, under: &Under) -> i32 {
        let Under { number, entry, begun, .. } = *under;
        let Some(of) = &under.of else { return -EBADF };
        self.medium.state().at = Some((self.server, number));
        let told = |ended: Result<(), Errno>| match ended {
            Ok(()) => 0,
            Err(errno) => -errno.raw_os_error(),
        };
        let result = match entry {
            Entry::Fixed { offset, .. } | Entry::Move { offset, .. }
                if let Begun::Moved(some) = begun =>
            {
                moved(of.end(some, offset, true))
            }
            Entry::Fixed { at, length, offset, to_file, durable, .. } => {
                let vector = iovec { iov_base: at.cast(), iov_len: length as usize };
                // SAFETY: the promise of `push`.
                moved(unsafe { of.transfer(&[vector], offset, to_file, durable) })
            }
            Entry::Move { all, count, offset, to_file, durable, .. } => {
                // SAFETY: the promise of `push`.
                let vectors = unsafe { from_raw_parts(all, count as usize) };
                // SAFETY: the same.
                moved(unsafe { of.transfer(vectors, offset, to_file, durable) })
            }
            Entry::Sync { of: which, .. } => told(of.sync_as(which, begun == Begun::Sync)),
            Entry::Allocate { flags, offset, length, .. } => {
                told(of.allocate(flags, offset, length))
            }
            Entry::WillNeed { .. } => 0,
        };
        self.medium.state().at = None;
        result
    }

    /// A sync may write back what is dirty when it is given, and end later: what is written
    /// meanwhile is not covered by it. So may a durable write, which is told at its end what was
    /// not told to another.
    fn begin(&self, number: u32, entry: Entry, of: &Opened) -> Begun {
        match entry {
            Entry::Sync { .. } if self.medium.state().chance.once_in(2) => {
                of.begin_sync();
                Begun::Sync
            }
            Entry::Fixed { at, length, offset, durable: true, .. }
                if self.medium.writes_early() =>
            {
                let vector = iovec { iov_base: at.cast(), iov_len: length as usize };
                self.begin_write(number, of, &[vector], offset)
            }
            Entry::Move { all, count, offset, durable: true, .. } if self.medium.writes_early() => {
                // SAFETY: the promise of `push`.
                let vectors = unsafe { from_raw_parts(all, count as usize) };
                self.begin_write(number, of, vectors, offset)
            }
            _ => Begun::Not,
        }
    }

    /// One that fails at its beginning is made at its end.
    fn begin_write(&self, number: u32, of: &Opened, vectors: &[iovec], offset: u64) -> Begun {
        let before = self.medium.state().at.replace((self.server, number));
        // SAFETY: the promise of `push`.
        let begun = unsafe { of.begin(vectors, offset, true, true) };
        self.medium.state().at = before;
        begun.map_or(Begun::Not, Begun::Moved)
    }

    /// Its server has gone: everything ends, and something of it is done.
    fn end_all(&mut self) {
        for under in std::mem::take(&mut self.held) {
            let is_read = matches!(
                under.entry,
                Entry::Fixed { to_file: false, .. } | Entry::Move { to_file: false, .. }
            );
            let is_left = under.begun == Begun::Not && !is_read;
            if is_left && self.medium.is_done_unheard(self.server) {
                let _unheard = self.perform(&under);
            }
            self.done.push_back((u64::from(under.number), -ECANCELED));
        }
        self.done.extend(self.unseen.drain(..));
    }
}

fn moved(result: Result<u64, i32>) -> i32 {
    result.map_or_else(|errno| -errno, |moved| i32::try_from(moved).unwrap())
}

impl Ring for DiskRing {
    fn enable(&mut self) -> io::Result<()> {
        assert!(!self.is_enabled, "E1: a ring is enabled once");
        self.is_enabled = true;
        Ok(())
    }

    fn room(&self) -> usize {
        64
    }

    fn set_file(&mut self, number: u16, raw: [RawFd; 2]) -> io::Result<()> {
        let place = usize::from(number);
        self.files.resize(self.files.len().max(place + 1), None);
        self.files[place] = self.medium.state().opened(raw[0]);
        Ok(())
    }

    unsafe fn push(&mut self, number: u32, entry: Entry) -> Result<(), NoRoom> {
        assert!(self.is_enabled, "E1: a ring is enabled before it is used");
        if self.waiting.len() >= self.depth.next_power_of_two() {
            return Err(NoRoom);
        }
        self.waiting.push_back((number, entry));
        Ok(())
    }

    fn has_waiting(&mut self) -> bool {
        !self.waiting.is_empty()
    }

    fn has_deferred(&mut self) -> bool {
        false
    }

    fn submit(&mut self, wait_for: usize) -> io::Result<usize> {
        let mut count = self.waiting.len();
        if wait_for == 0 && self.medium.state().servers[self.server].is_none() {
            let state = &mut *self.medium.state();
            if let Some(errno) = state.draw(state.faults.refusals, &[EINTR, EAGAIN, EBUSY, 0]) {
                if errno != 0 {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                count = count.div_ceil(2);
            }
        }
        let given: Vec<_> = self.waiting.drain(..count).collect();
        for (number, entry) in given {
            let hangs = self.medium.hangs();
            let file = usize::from(entry.file());
            let of = self.files.get(file).and_then(Option::clone);
            let begun = of.as_ref().map_or(Begun::Not, |of| self.begin(number, entry, of));
            self.held.push(Under { number, entry, of, hangs, begun });
        }
        if wait_for > 0 {
            self.end_all();
        }
        Ok(count)
    }

    fn next(&mut self) -> Option<(u64, i32)> {
        if let Some(done) = self.done.pop_front() {
            return Some(done);
        }
        if (self.held.is_empty() && self.unseen.is_empty()) || self.medium.is_lazy() {
            return None;
        }
        loop {
            if let Some(seen) = self.medium.choose_seen(self.unseen.len(), self.held.is_empty()) {
                return Some(self.unseen.swap_remove(seen));
            }
            let hangs = self.held.iter().map(|under| under.hangs);
            let Some(which) = self.medium.choose(hangs) else {
                return self.unseen.pop();
            };
            let under = self.held.swap_remove(which);
            // A job may need many, and moves with each.
            self.medium.state().ended += 1;
            let ended = (u64::from(under.number), self.perform(&under));
            if !self.medium.is_unseen() {
                return Some(ended);
            }
            self.unseen.push(ended);
        }
    }

    unsafe fn register(&mut self, _: &[iovec]) -> io::Result<()> {
        if self.registers { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOMEM)) }
    }
}

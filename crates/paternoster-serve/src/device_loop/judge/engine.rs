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

mod disk_ring;

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use libc::EIO;
use paternoster_core::{DeviceFacts, Nanos};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::calls::Opened;
use super::config;
use super::house::Own;
use super::medium::{Closing, Doing, Forgotten, Gone, Medium};
use super::plan::Plan;
use crate::config::{Device, Volume};
use crate::device::event::Event;
use crate::device::files::{self, File};
use crate::device::identity::thing;
use crate::device::inline::Inline;
use crate::device::open::{OpenError, open_one};
use crate::device::system::System;
use crate::device::uring::Uring;
use crate::device::{
    Backend, Extent, FileFacts, Finished, Full, Giving, Job, NewFile, Piece, Shares, Work, plain,
};
use disk_ring::DiskRing;

/// The backend of a case.
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
    let files = files::all_beside(device.volumes.iter().map(&mut file).collect());
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
            let ring = DiskRing::new((&medium, server), opened.clone(), depth, plan.registers);
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
    let stat = file.stat().expect("it is open");
    let facts = FileFacts {
        size: stat.bytes,
        block: u32::try_from(plan.block).unwrap(),
        preferred: 4096,
        readonly: volume.readonly,
        discards: !volume.readonly,
        zeroes_fast: !volume.readonly,
        rotational: false,
        thing: thing(&stat),
    };
    let for_flushes = if volume.readonly { None } else { file.again() };
    Ok(File::over(file.serve(for_flushes), facts, plan.direct))
}

/// A backend whose jobs are judged.
pub(super) struct Watched {
    medium: Medium,
    server: usize,
    inner: Box<dyn Backend>,
    /// The files by number.
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
                None if doing.work.is_too_slow(error) => true,
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

    fn shares_errors(&self, file: u16) -> Shares {
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
        if let Some(file) = self.files[usize::from(file)].take() {
            let was_alone = self.files.iter().flatten().all(|other| other.inode != file.inode);
            let closing = Closing { was_alone, ..Closing::default() };
            self.medium.state().closing.insert(file.inode, closing);
        }
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

    /// Chooses which held job ends next; `hangs` says of each whether it must not end.
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
    /// Jobs that have ended and were not reported yet.
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
        while (!self.held.is_empty() || !self.unseen.is_empty()) && !self.medium.is_lazy() {
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

    fn shares_errors(&self, file: u16) -> Shares {
        files::shares_errors(&self.files, file)
    }

    fn can_add(&self, _: &[NewFile]) -> bool {
        true
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        files::add(&mut self.files, file)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        files::remove(&mut self.files, file)
    }

    fn lost(&self) -> Option<i32> {
        files::lost(&self.files)
    }

    fn to_hand_over(&self) -> Vec<Giving> {
        files::to_hand_over(&self.files)
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

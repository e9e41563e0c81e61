// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model: the file has the data, a model of a device says how long commands take.
//!
//! ```text
//! submit(now)  the model takes the command; a write's data go to the file
//! deadline()   when the model has its next event
//! reap(now)    the model lives through its events up to now; a read's data come from the file
//! ```
//!
//! For fairness tests on a device that is always the same, and for trying the server on a disk that
//! is not at hand. The model's clock follows the caller's. Its events keep their own times: when a
//! caller comes late, the model gets each event at the time when it was due.
//!
//! A file larger than the model's device wraps around. Zeroing that may unmap is a discard to the
//! model, other zeroing a write, prefetching a read. A model that refuses a command is full. Data
//! are moved by plain calls while the caller waits: a model of a fast device is meant for a file in
//! memory.

use std::os::fd::BorrowedFd;

use paternoster_core::{ClientId, Command, DeviceFacts, Flags, Nanos, Op, Status, Tag};
use paternoster_sim::{Description, Model as _, catalog};

use super::files::{self, File};
use super::holes::Holes;
use super::open::OpenError;
use super::{Backend, FileFacts, Finished, Full, Job, NewFile, Piece, Work, plain};

/// A job that the model has.
struct Slot {
    job: Option<Held>,
    pieces: Vec<Piece>,
}

/// The job without its pieces.
#[derive(Clone, Copy)]
struct Held {
    work: Work,
    file: u16,
    offset: u64,
    length: u64,
    /// The result of moving its data, once that is known.
    error: i32,
}

/// Does jobs in a model's time.
struct Modelled {
    name: String,
    files: Vec<File>,
    facts: DeviceFacts,
    model: Box<dyn paternoster_sim::Model>,
    slots: Vec<Slot>,
    /// Ended in the model, to be reported at the next reap.
    ended: Vec<Finished>,
    now: Nanos,
}

/// The model of this name, or of this device file.
pub(super) fn find(name: &str) -> Result<Description, OpenError> {
    let wrong = |why: String| OpenError::Model { name: name.to_owned(), why };
    if let Some(found) = catalog::by_name(name) {
        return found.map_err(|error| wrong(error.to_string()));
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        let names: Vec<&str> = catalog::FILES.iter().map(|(name, _)| *name).collect();
        let known = names.join(", ");
        return Err(wrong(format!("there is no such model; there are {known}, or a FILE.toml")));
    }
    let text = std::fs::read_to_string(name).map_err(|error| wrong(error.to_string()))?;
    Description::parse(name, &text).map_err(|error| wrong(error.to_string()))
}

/// Names of the models that come with the program.
pub(crate) fn known() -> Result<Vec<&'static str>, &'static str> {
    Ok(catalog::FILES.iter().map(|(name, _)| *name).collect())
}

/// Does commands as fast as the model; `depth` of them at a time, unless it takes fewer.
pub(super) fn backend(
    files: Vec<File>,
    model: &Description,
    depth: Option<u32>,
) -> Box<dyn Backend> {
    let most = model.facts.depth;
    Box::new(Modelled::new(files, model, depth.unwrap_or(most).min(most)))
}

impl Modelled {
    /// `depth` is at most the model's own.
    fn new(files: Vec<File>, description: &Description, depth: u32) -> Modelled {
        let facts = DeviceFacts { depth, ..description.facts };
        Modelled {
            name: description.name.clone(),
            files,
            facts,
            model: description.model(),
            slots: (0..depth).map(|_| Slot { job: None, pieces: Vec::new() }).collect(),
            ended: Vec::with_capacity(depth as usize),
            now: Nanos::ZERO,
        }
    }

    /// The job as the model sees it.
    fn command(&self, job: &Job<'_>) -> Command {
        let (op, fua) = match job.work {
            Work::Read | Work::Prefetch => (Op::Read, false),
            Work::Write { fua } | Work::Zero { may_unmap: false, fua, .. } => (Op::Write, fua),
            Work::Discard | Work::Zero { .. } => (Op::Discard, false),
            Work::Flush => (Op::Flush, false),
        };
        let capacity = self.facts.capacity.max(1);
        let sectors = job.length.div_ceil(512).clamp(1, capacity);
        let sectors = u32::try_from(sectors).unwrap_or(u32::MAX);
        // What would cross the end of the model ends there.
        let sector = (job.sector % capacity).min(capacity - u64::from(sectors));
        let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (sector, sectors) };
        let flags = if fua && self.facts.fua { Flags::FUA } else { Flags::NONE };
        let (tag, client) = (Tag::of_slot(job.slot), ClientId::NOBODY);
        Command { tag, op, sector, sectors, flags, client }
    }

    /// The model lives through everything up to `now`.
    fn live(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some(at) = self.model.next_event().filter(|at| *at <= self.now) {
            while let Some(completion) = self.model.advance(at) {
                let slot = completion.tag.index();
                let error = match completion.outcome.status {
                    Status::Ok => self.data_ended(slot),
                    Status::Failed(errno) => self.data_failed(slot, errno),
                    Status::Cancelled => self.data_failed(slot, libc::EIO),
                };
                self.ended.push(Finished { slot, error });
            }
        }
    }

    fn data_failed(&mut self, slot: u32, errno: i32) -> i32 {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.job = None;
        }
        errno
    }

    /// The model says that the job has ended: its data are moved now, unless that is done already.
    fn data_ended(&mut self, number: u32) -> i32 {
        let Some(slot) = self.slots.get_mut(number as usize) else { return libc::EIO };
        let Some(Held { work, file, offset, length, error }) = slot.job.take() else {
            return libc::EIO;
        };
        match work {
            Work::Read | Work::Flush => {
                let pieces = &slot.pieces;
                let job = Job { slot: number, work, file, offset, length, pieces, sector: 0 };
                // SAFETY: the submitter's promise; it was not reported yet.
                unsafe { plain::perform(&self.files, &job) }
            }
            Work::Write { .. } | Work::Discard | Work::Zero { .. } | Work::Prefetch => error,
        }
    }
}

// SAFETY: a job is done by plain calls that have ended when it is reported.
unsafe impl Backend for Modelled {
    fn describe(&self) -> String {
        format!("as fast as the model {}", self.name)
    }

    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn file(&self, file: u16) -> FileFacts {
        let facts = self.files[usize::from(file)].facts();
        FileFacts { rotational: self.facts.rotational, ..facts }
    }

    unsafe fn submit(&mut self, now: Nanos, job: Job<'_>) -> Result<(), Full> {
        self.live(now);
        let command = self.command(&job);
        let free = self.slots.get(job.slot as usize).is_some_and(|slot| slot.job.is_none());
        if !free || self.model.submit(self.now, &command).is_err() {
            return Err(Full);
        }
        let error = match job.work {
            Work::Read | Work::Flush => 0,
            Work::Write { .. } | Work::Discard | Work::Zero { .. } | Work::Prefetch => {
                // SAFETY: the caller's promise for the pieces.
                unsafe { plain::perform(&self.files, &job) }
            }
        };
        let Job { work, file, offset, length, .. } = job;
        let slot = &mut self.slots[job.slot as usize];
        slot.job = Some(Held { work, file, offset, length, error });
        slot.pieces.clear();
        slot.pieces.extend_from_slice(job.pieces);
        Ok(())
    }

    fn kick(&mut self) {}

    fn reap(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.live(now);
        finished.append(&mut self.ended);
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Nanos> {
        if self.ended.is_empty() { self.model.next_event() } else { Some(Nanos::ZERO) }
    }

    fn can_add(&self, _files: &[NewFile]) -> bool {
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

    fn to_hand_over(&self) -> Vec<super::Giving> {
        files::to_hand_over(&self.files)
    }

    fn holes(&self, file: u16) -> Option<Holes> {
        Some(self.files[usize::from(file)].holes())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real: one file or block device as the library's [`Device`], in real time.
//!
//! The loop that runs jobs on models runs them on this, as it is: only the clock is another one.
//! Its time begins with zero when it is opened. Each slot has memory of its own for what is read;
//! writes take their data from varying offsets of one pattern, random by a seed, so that a device
//! that compresses or recognises data gains nothing.
//!
//! A real device does not report an I/O's cost: the queue measures it.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Instant;

use paternoster_base::chance::Chance;
use paternoster_core::{
    Command, Completion, Device, DeviceFacts, Flags, Nanos, Op, Outcome, Refused, Tag,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::memory::Memory;
use super::open::{OpenError, open};
use super::{Backend, FileFacts, Finished, Job, Piece, Work};
use crate::config;

/// Bytes of pattern beyond the largest command.
const PATTERN: usize = 4 << 20;
/// Where in the pattern a write may begin: at multiples of this, as O_DIRECT wants it.
const STEP: usize = 4096;

/// A file or block device with a backend of its own.
pub struct RealDevice {
    /// First, so that it is gone before the memory.
    backend: Box<dyn Backend>,
    facts: DeviceFacts,
    began: Instant,
    /// A part for each slot.
    memory: Memory,
    pattern: Memory,
    chance: Chance,
    /// Tag of the command in each slot.
    tags: Vec<Option<Tag>>,
    under_way: u32,
    finished: Vec<Finished>,
    ended: VecDeque<Completion>,
}

impl std::fmt::Debug for RealDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealDevice").field("backend", &self.backend.describe()).finish()
    }
}

impl RealDevice {
    /// Opens a file or block device; returns notes on how it was opened. `seed` determines the
    /// pattern that is written.
    ///
    /// # Errors
    /// [`OpenError`]: what was done and what would be right.
    pub fn open(
        path: &Path,
        readonly: bool,
        seed: u64,
    ) -> Result<(RealDevice, Option<String>), OpenError> {
        let name = path.display().to_string();
        let volume = config::Volume { readonly, ..config::Volume::new(&name, path) };
        let device = config::Device {
            name,
            scheduler: String::new(),
            attributes: Vec::new(),
            depth: None,
            memory: 0,
            direct: config::Direct::Auto,
            engine: config::Engine::Auto,
            delay_bound: None,
            volumes: vec![volume],
        };
        let opened = open(&device)?;
        let wrong = |error| {
            let (path, doing) = (path.to_owned(), "memory for its data");
            OpenError::System { path, doing, error }
        };
        Ok((RealDevice::new(opened.backend, seed).map_err(wrong)?, opened.note))
    }

    /// The first file of a backend.
    ///
    /// # Errors
    /// The system's error for the memory request.
    pub fn new(mut backend: Box<dyn Backend>, seed: u64) -> io::Result<RealDevice> {
        let facts = backend.facts();
        let facts = DeviceFacts { capacity: backend.file(0).size / 512, ..facts };
        let largest = facts.max_sectors as usize * 512;
        let memory = Memory::new(facts.depth as usize * largest)?;
        let mut pattern = Memory::new(PATTERN + largest)?;
        let mut chance = Chance::new(seed, 0);
        for word in pattern.bytes_mut().chunks_exact_mut(8) {
            word.copy_from_slice(&chance.next().to_le_bytes());
        }
        // SAFETY: the backend is dropped before the memory.
        unsafe { backend.register(memory.raw()) };
        Ok(RealDevice {
            backend,
            facts,
            began: Instant::now(),
            memory,
            pattern,
            chance,
            tags: vec![None; facts.depth as usize],
            under_way: 0,
            finished: Vec::with_capacity(facts.depth as usize),
            ended: VecDeque::with_capacity(facts.depth as usize),
        })
    }

    /// What it runs on, in words: `io_uring, O_DIRECT, registered buffers`.
    #[must_use]
    pub fn describe(&self) -> String {
        self.backend.describe()
    }

    /// What the file supports.
    #[must_use]
    pub fn file(&self) -> FileFacts {
        self.backend.file(0)
    }

    /// What a command asks for, and where its data are.
    fn work(&mut self, command: &Command) -> Result<(Work, Option<Piece>), i32> {
        let largest = self.facts.max_sectors as usize * 512;
        let length = command.sectors as usize * 512;
        let piece = |memory: &Memory, start: usize| {
            let at = NonNull::new(memory.raw().cast::<u8>().as_ptr().wrapping_add(start));
            let at = at.filter(|_| length <= largest).ok_or(libc::EINVAL);
            at.map(|at| Some(Piece { at, length }))
        };
        Ok(match command.op {
            Op::Read => (Work::Read, piece(&self.memory, command.tag.index() as usize * largest)?),
            Op::Write => {
                let steps = u64::try_from(PATTERN / STEP).unwrap_or(1);
                let step = usize::try_from(self.chance.below(steps)).unwrap_or(0);
                let fua = command.flags.contains(Flags::FUA);
                (Work::Write { fua }, piece(&self.pattern, step * STEP)?)
            }
            Op::Discard => (Work::Discard, None),
            Op::Flush => (Work::Flush, None),
            _ => return Err(libc::EOPNOTSUPP),
        })
    }

    /// Takes what has ended by now.
    fn reap(&mut self) {
        let now = self.now();
        self.backend.reap(now, &mut self.finished);
        for Finished { slot, error } in self.finished.drain(..) {
            let tag = self.tags.get_mut(slot as usize).and_then(Option::take);
            let Some(tag) = tag else { continue };
            self.under_way -= 1;
            let outcome = if error == 0 { Outcome::OK } else { Outcome::failed(error) };
            self.ended.push_back(Completion { tag, at: now, outcome });
        }
    }

    /// Sleeps until the backend has something, at most until `until`.
    fn sleep(&self, now: Nanos, until: Option<Nanos>) {
        let until = match (until, self.backend.deadline()) {
            (Some(until), Some(deadline)) => Some(until.min(deadline)),
            (until, deadline) => until.or(deadline),
        };
        let timeout = until.map(|until| timespec(until - now));
        let wakeup = self.backend.wakeup();
        let mut events = wakeup.as_ref().map(|wakeup| PollFd::new(wakeup, PollFlags::IN));
        // An interrupted sleep is a short one; the caller looks at the clock anyway.
        let _ended = poll(events.as_mut_slice(), timeout.as_ref());
    }
}

fn timespec(span: Nanos) -> Timespec {
    let seconds = i64::try_from(span.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let rest = i64::try_from(span.0 % 1_000_000_000).unwrap_or(0);
    Timespec { tv_sec: seconds, tv_nsec: rest }
}

impl Device for RealDevice {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn submit(&mut self, command: Command) -> Result<(), Refused> {
        let slot = command.tag.index();
        let now = self.now();
        let (work, piece) = match self.work(&command) {
            Ok(found) => found,
            Err(errno) => {
                let (tag, outcome) = (command.tag, Outcome::failed(errno));
                self.ended.push_back(Completion { tag, at: now, outcome });
                return Ok(());
            }
        };
        let job = Job {
            slot,
            work,
            file: 0,
            offset: command.sector * 512,
            length: u64::from(command.sectors) * 512,
            pieces: piece.as_slice(),
            sector: command.sector,
        };
        // SAFETY: a slot's part of the memory is its command's until that has ended; the pattern is
        // never written to. Both outlive the backend.
        unsafe { self.backend.submit(now, job) }.map_err(|_| Refused)?;
        self.backend.kick();
        self.under_way += 1;
        self.tags[slot as usize] = Some(command.tag);
        Ok(())
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        loop {
            if self.ended.is_empty() {
                self.reap();
            }
            if let Some(completion) = self.ended.pop_front() {
                return Some(completion);
            }
            let now = self.now();
            let over = until.is_some_and(|until| until <= now);
            if over || (self.under_way == 0 && until.is_none()) {
                return None;
            }
            self.sleep(now, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::{Bio, ClientSpec, Output, RequestQueue};

    /// Do a queue's commands reach the file and complete, and does `wait` return in time when none
    /// is in the device?
    #[test]
    fn a_queue_drives_a_file() {
        let path = std::env::temp_dir().join(format!("paternoster-real-{}", std::process::id()));
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let (mut device, note) = RealDevice::open(&path, false, 1).unwrap();
        assert!(note.is_none_or(|note| note.contains("plain threads")));
        assert_eq!(device.facts().capacity, 2048);
        let elevator = paternoster_schedulers::by_name("noop").unwrap();
        let mut queue =
            RequestQueue::builder(device.facts(), elevator).build().expect("its limits work");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        let ios = [(Op::Write, 8), (Op::Write, 800), (Op::Read, 8), (Op::Flush, 0)];
        for (place, (op, sector)) in ios.into_iter().enumerate() {
            let sectors = if op == Op::Flush { 0 } else { 8 };
            let bio = Bio::new(client, op, sector, sectors).cookie(place as u64);
            queue.submit(device.now(), bio).unwrap();
        }
        let mut done = 0;
        while done < ios.len() {
            match queue.next(device.now()) {
                Output::Issue(command) => device.submit(command).unwrap(),
                Output::Done(_, outcome) => {
                    assert_eq!(outcome.status, paternoster_core::Status::Ok);
                    done += 1;
                }
                Output::Wait { until, .. } => {
                    if let Some(ended) = device.wait(until) {
                        queue.complete(ended.at, ended.tag, ended.outcome).unwrap();
                    }
                }
                _ => {}
            }
        }
        let until = device.now() + Nanos::from_micros(10);
        assert_eq!(device.wait(Some(until)), None);
        assert!(device.now() >= until);
        assert_eq!(device.wait(None), None, "nothing is under way");
        let content = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let written = content.iter().filter(|byte| **byte != 0).count();
        // Two pages at random have 8192 / 256 = 32 zeroes among them, give or take.
        assert!((8000..=8192).contains(&written), "{written}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A backend on files of its own, with memory for its jobs, and the ways there are to have one.

use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use paternoster_core::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::{Device, Direct, Engine, Volume};
use crate::device::memory::Memory;
use crate::device::open::open;
use crate::device::{Backend, Finished, Job, Piece, Work};

/// Size of the files in these tests.
pub(super) const SIZE: usize = 1 << 20;
pub(super) const PAGE: usize = 4096;

/// A file that goes with its test.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn new(folder: &Path, bytes: usize) -> Temporary {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (count, process) = (COUNT.fetch_add(1, Ordering::Relaxed), std::process::id());
        let path = folder.join(format!("paternoster-device-{process}-{count}"));
        let file = fs::File::create(&path).unwrap();
        file.set_len(bytes as u64).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.0);
    }
}

/// Where files are tried: on a disk and in memory, as far as this machine has both.
pub(super) fn folders() -> Vec<PathBuf> {
    let folders = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

pub(super) fn config(paths: &[&Path], engine: Engine, direct: Direct) -> Device {
    let volumes = paths.iter().map(|path| Volume::new("v", *path));
    Device {
        name: "d".to_owned(),
        scheduler: "noop".to_owned(),
        attributes: Vec::new(),
        depth: Some(8),
        memory: 1 << 20,
        direct,
        engine,
        delay_bound: None,
        volumes: volumes.collect(),
    }
}

/// A backend, and memory for its jobs: one part of 64 KiB for each slot.
pub(super) struct Rig {
    pub(super) backend: Box<dyn Backend>,
    pub(super) memory: Memory,
    pub(super) now: Nanos,
    pub(super) finished: Vec<Finished>,
}

pub(super) const PART: usize = 64 << 10;

impl Rig {
    pub(super) fn new(mut backend: Box<dyn Backend>) -> Rig {
        let memory = Memory::new(backend.facts().depth as usize * PART).unwrap();
        // SAFETY: fields are dropped in their order.
        unsafe { backend.register(memory.raw()) };
        Rig { backend, memory, now: Nanos::ZERO, finished: Vec::new() }
    }

    /// A rig with an engine on files; `None`, and a line, where the machine has it not.
    pub(super) fn open(paths: &[&Path], engine: Engine, direct: Direct) -> Option<Rig> {
        match open(&config(paths, engine.clone(), direct)) {
            Ok(opened) => Some(Rig::new(opened.backend)),
            Err(error) if engine == Engine::Uring => {
                let test = std::thread::current().name().unwrap_or("a test").to_owned();
                eprintln!("skipped: {test}: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn part(&mut self, slot: u32) -> &mut [u8] {
        let start = slot as usize * PART;
        &mut self.memory.bytes_mut()[start..start + PART]
    }

    /// Pieces of a slot's part, back to front, so that their order differs from memory's.
    pub(super) fn pieces(&self, slot: u32, lengths: &[usize]) -> Vec<Piece> {
        let start = self.memory.raw().cast::<u8>().as_ptr().wrapping_add(slot as usize * PART);
        let mut end = lengths.iter().sum::<usize>();
        let pieces = lengths.iter().map(|&length| {
            end -= length;
            Piece { at: NonNull::new(start.wrapping_add(end)).unwrap(), length }
        });
        pieces.collect()
    }

    pub(super) fn submit(
        &mut self,
        slot: u32,
        work: Work,
        at: usize,
        length: usize,
        pieces: &[Piece],
    ) {
        let (offset, length) = (at as u64, length as u64);
        let job = Job { slot, work, file: 0, offset, length, pieces, sector: offset / 512 };
        // SAFETY: the pieces are of the rig's memory, which outlives the backend.
        unsafe { self.backend.submit(self.now, job) }.expect("there is room");
        self.backend.kick();
    }

    /// Waits for the next that ends. Time goes as the backend wants it.
    pub(super) fn next(&mut self) -> Finished {
        loop {
            self.backend.reap(self.now, &mut self.finished);
            if !self.finished.is_empty() {
                return self.finished.remove(0);
            }
            match self.backend.deadline() {
                Some(at) => self.now = self.now.max(at),
                None => {
                    let wakeup = self.backend.wakeup().expect("something to wait for");
                    let mut events = [PollFd::new(&wakeup, PollFlags::IN)];
                    // Far longer than anything takes here: a wakeup that is lost shows.
                    let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
                    assert_eq!(poll(&mut events, Some(&timeout)).unwrap(), 1, "no wakeup");
                }
            }
        }
    }

    /// With nothing under way, a sleeper on the wakeup stays asleep; a last signal may come late.
    pub(super) fn assert_quiet(&mut self) {
        for _ in 0..1000 {
            self.backend.reap(self.now, &mut self.finished);
            let Some(wakeup) = self.backend.wakeup() else { return };
            let mut events = [PollFd::new(&wakeup, PollFlags::IN)];
            if poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 0 {
                return;
            }
        }
        panic!("{}: it wakes for nothing", self.backend.describe());
    }

    /// Runs one job from its beginning to its end.
    pub(super) fn run(&mut self, work: Work, at: usize, length: usize, pieces: &[Piece]) -> i32 {
        self.submit(3, work, at, length, pieces);
        let Finished { slot, error } = self.next();
        assert_eq!(slot, 3);
        error
    }

    pub(super) fn write(&mut self, at: usize, data: &[u8], cuts: &[usize], fua: bool) -> i32 {
        let pieces = self.pieces(3, cuts);
        let mut taken = 0;
        for piece in &pieces {
            let start = piece.at.as_ptr().addr() - self.memory.raw().cast::<u8>().as_ptr().addr();
            let (from, length) = (taken, piece.length);
            self.memory.bytes_mut()[start..start + length]
                .copy_from_slice(&data[from..from + length]);
            taken += length;
        }
        self.run(Work::Write { fua }, at, data.len(), &pieces)
    }

    pub(super) fn read(&mut self, at: usize, cuts: &[usize]) -> Result<Vec<u8>, i32> {
        let pieces = self.pieces(3, cuts);
        self.part(3).fill(0xee);
        match self.run(Work::Read, at, cuts.iter().sum(), &pieces) {
            0 => {
                let base = self.memory.raw().cast::<u8>().as_ptr().addr();
                let places: Vec<usize> =
                    pieces.iter().map(|piece| piece.at.as_ptr().addr() - base).collect();
                let bytes = self.memory.bytes_mut();
                let parts = places.iter().zip(cuts);
                Ok(parts.flat_map(|(&at, &cut)| bytes[at..at + cut].to_vec()).collect())
            }
            errno => Err(errno),
        }
    }
}

/// All the ways to do jobs, on every kind of file that there is here.
pub(super) fn engines() -> Vec<(PathBuf, Engine, Direct)> {
    let mut all = Vec::new();
    for folder in folders() {
        for engine in [Engine::Auto, Engine::Uring, Engine::Threads] {
            for direct in [Direct::Auto, Direct::No] {
                all.push((folder.clone(), engine.clone(), direct));
            }
        }
        all.push((folder, Engine::Model("null".to_owned()), Direct::Auto));
    }
    all
}

/// A number's last byte.
pub(super) fn byte(number: usize) -> u8 {
    number.to_le_bytes()[0]
}

/// Bytes none of which is zero, so that cleared ranges differ from them.
pub(super) fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(at * 31 + seed) | 1).collect()
}

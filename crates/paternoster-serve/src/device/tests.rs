// SPDX-License-Identifier: MIT OR Apache-2.0
//! One body of tests for all backends: what one of them does, each does.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use paternoster::Nanos;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::faulty::{Effect, Fault, Faulty, Often, Which};
use super::files::File;
use super::inline::Inline;
use super::memory::Memory;
use super::open::open;
use super::threads::Threads;
use super::uring::Uring;
use super::{Backend, Extent, Finished, Full, Job, Piece, Work};
use crate::config::{Device, Direct, Engine, Volume};

/// Of the files in these tests.
const SIZE: usize = 1 << 20;
const PAGE: usize = 4096;

/// A file that goes with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(folder: &Path, bytes: usize) -> Temporary {
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
fn folders() -> Vec<PathBuf> {
    let folders = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

fn config(paths: &[&Path], engine: Engine, direct: Direct) -> Device {
    let volumes = paths.iter().map(|path| Volume {
        name: "v".to_owned(),
        path: path.to_path_buf(),
        start: 0,
        length: None,
        readonly: false,
        description: String::new(),
    });
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
struct Rig {
    backend: Box<dyn Backend>,
    memory: Memory,
    now: Nanos,
    finished: Vec<Finished>,
}

const PART: usize = 64 << 10;

impl Rig {
    fn new(mut backend: Box<dyn Backend>) -> Rig {
        let memory = Memory::new(backend.facts().depth as usize * PART).unwrap();
        // SAFETY: fields are dropped in their order.
        unsafe { backend.register(memory.raw()) };
        Rig { backend, memory, now: Nanos::ZERO, finished: Vec::new() }
    }

    /// A rig with an engine on files; `None`, and a line, where the machine has it not.
    fn open(paths: &[&Path], engine: Engine, direct: Direct) -> Option<Rig> {
        match open(&config(paths, engine.clone(), direct)) {
            Ok(opened) => Some(Rig::new(opened.backend)),
            Err(error) if engine == Engine::Uring => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn part(&mut self, slot: u32) -> &mut [u8] {
        let start = slot as usize * PART;
        &mut self.memory.bytes_mut()[start..start + PART]
    }

    /// Pieces of a slot's part, back to front so that their order can be told from memory's.
    fn pieces(&self, slot: u32, lengths: &[usize]) -> Vec<Piece> {
        let start = self.memory.raw().cast::<u8>().as_ptr().wrapping_add(slot as usize * PART);
        let mut end = lengths.iter().sum::<usize>();
        let pieces = lengths.iter().map(|&length| {
            end -= length;
            Piece { at: NonNull::new(start.wrapping_add(end)).unwrap(), length }
        });
        pieces.collect()
    }

    fn submit(&mut self, slot: u32, work: Work, at: usize, length: usize, pieces: &[Piece]) {
        let (offset, length) = (at as u64, length as u64);
        let job = Job { slot, work, file: 0, offset, length, pieces, sector: offset / 512 };
        // SAFETY: the pieces are of the rig's memory, which outlives the backend.
        unsafe { self.backend.submit(self.now, job) }.expect("there is room");
        self.backend.kick();
    }

    /// Waits for the next that ends. Time goes as the backend wants it.
    fn next(&mut self) -> Finished {
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

    /// With nothing under way, who sleeps on the wakeup sleeps; a last signal may come late.
    fn assert_quiet(&mut self) {
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

    /// One job from its beginning to its end.
    fn run(&mut self, work: Work, at: usize, length: usize, pieces: &[Piece]) -> i32 {
        self.submit(3, work, at, length, pieces);
        let Finished { slot, error } = self.next();
        assert_eq!(slot, 3);
        error
    }

    fn write(&mut self, at: usize, data: &[u8], cuts: &[usize], fua: bool) -> i32 {
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

    fn read(&mut self, at: usize, cuts: &[usize]) -> Result<Vec<u8>, i32> {
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
fn engines() -> Vec<(PathBuf, Engine, Direct)> {
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
fn byte(number: usize) -> u8 {
    number.to_le_bytes()[0]
}

/// Bytes none of which is zero, so that what was cleared can be told from them.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(at * 31 + seed) | 1).collect()
}

/// Does every backend do every kind of work, with one piece and with several?
#[test]
fn every_backend_does_every_work() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        let Some(mut rig) = Rig::open(&[&file.0], engine, direct) else { continue };
        let how = format!("{} in {}", rig.backend.describe(), folder.display());
        let facts = rig.backend.file(0);
        assert_eq!(facts.size, SIZE as u64, "{how}");
        assert!(facts.block as usize <= PAGE && facts.preferred >= facts.block, "{how}");
        let (one, three) = (pattern(7, PAGE), pattern(9, 4 * PAGE));
        assert_eq!(rig.write(PAGE, &one, &[PAGE], false), 0, "{how}");
        assert_eq!(rig.write(8 * PAGE, &three, &[PAGE, 2 * PAGE, PAGE], true), 0, "{how}");
        assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}");
        assert_eq!(rig.read(PAGE, &[PAGE]).unwrap(), one, "{how}");
        assert_eq!(rig.read(8 * PAGE, &[2 * PAGE, PAGE, PAGE]).unwrap(), three, "{how}");
        assert_eq!(rig.run(Work::Prefetch, 0, SIZE, &[]), 0, "{how}");
        for (place, may_unmap) in [(8, true), (9, false)] {
            let work = Work::Zero { may_unmap, fua: true };
            assert_eq!(rig.run(work, place * PAGE, PAGE, &[]), 0, "{how}");
        }
        assert_eq!(rig.run(Work::Discard, 10 * PAGE, PAGE, &[]), 0, "{how}");
        let left = rig.read(8 * PAGE, &[4 * PAGE]).unwrap();
        assert_eq!(left[..2 * PAGE], vec![0; 2 * PAGE], "{how}");
        if facts.discards {
            assert_eq!(left[2 * PAGE..3 * PAGE], vec![0; PAGE], "{how}");
        }
        assert_eq!(left[3 * PAGE..], three[3 * PAGE..], "{how}");
        assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}");
        assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}: nothing is owed");
    }
}

/// Is what lies outside of a file refused, and a file that is not to be written kept?
#[test]
fn what_cannot_be_is_refused() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        let mut config = config(&[&file.0], engine, direct);
        config.volumes[0].readonly = true;
        let Ok(opened) = open(&config) else { continue };
        let mut rig = Rig::new(opened.backend);
        let how = rig.backend.describe();
        let facts = rig.backend.file(0);
        assert!(facts.readonly && !facts.discards && !facts.zeroes_fast, "{how}");
        assert_eq!(rig.read(SIZE, &[PAGE]), Err(libc::EINVAL), "{how}");
        assert_eq!(rig.read(SIZE - PAGE, &[2 * PAGE]), Err(libc::EINVAL), "{how}");
        assert_eq!(rig.write(0, &pattern(1, PAGE), &[PAGE], false), libc::EPERM, "{how}");
        assert_eq!(rig.run(Work::Discard, 0, PAGE, &[]), libc::EPERM, "{how}");
        assert_eq!(rig.read(0, &[PAGE]).unwrap(), vec![0; PAGE], "{how}");
    }
}

/// Is a file that has become shorter an error, and never half of the data?
#[test]
fn a_shorter_file_is_an_error() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        let Some(mut rig) = Rig::open(&[&file.0], engine, direct) else { continue };
        let how = format!("{} in {}", rig.backend.describe(), folder.display());
        let opened = fs::File::options().write(true).open(&file.0).unwrap();
        opened.set_len(PAGE as u64 + 1000).unwrap();
        assert_eq!(rig.read(0, &[PAGE]).unwrap().len(), PAGE, "{how}");
        assert_eq!(rig.read(0, &[2 * PAGE]), Err(libc::EIO), "{how}: ends in the midst");
        assert_eq!(rig.read(PAGE, &[512, PAGE - 512]), Err(libc::EIO), "{how}: two pieces");
        assert_eq!(rig.read(4 * PAGE, &[PAGE]), Err(libc::EIO), "{how}: behind the end");
    }
}

/// Do as many jobs as the depth says fit, each with its own data, and no more?
#[test]
fn a_backend_is_full_at_its_depth() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        let content: Vec<u8> = (0..SIZE).map(|at| byte(at / PAGE)).collect();
        fs::write(&file.0, &content).unwrap();
        let Some(mut rig) = Rig::open(&[&file.0], engine, direct) else { continue };
        let (how, depth) = (rig.backend.describe(), rig.backend.facts().depth);
        assert_eq!(depth, 8, "{how}");
        for slot in 0..depth {
            let pieces = rig.pieces(slot, &[PAGE]);
            rig.submit(slot, Work::Read, slot as usize * 3 * PAGE, PAGE, &pieces);
        }
        let pieces = rig.pieces(0, &[PAGE]);
        let job = Job {
            slot: 0,
            work: Work::Read,
            file: 0,
            offset: 0,
            length: PAGE as u64,
            pieces: &pieces,
            sector: 0,
        };
        // SAFETY: as in `submit`.
        assert_eq!(unsafe { rig.backend.submit(rig.now, job) }, Err(Full), "{how}");
        let mut ended: Vec<u32> = (0..depth).map(|_| rig.next()).map(|it| it.slot).collect();
        ended.sort_unstable();
        assert_eq!(ended, (0..depth).collect::<Vec<_>>(), "{how}: each once");
        rig.assert_quiet();
        for slot in 0..depth {
            assert_eq!(rig.part(slot)[..PAGE], vec![byte(slot as usize * 3); PAGE], "{how}");
        }
    }
}

/// Does each volume have its own file, and does a flush concern all of them?
#[test]
fn volumes_are_files_in_their_order() {
    for (folder, engine, direct) in engines() {
        let (a, b) = (Temporary::new(&folder, SIZE), Temporary::new(&folder, 2 * SIZE));
        let Some(mut rig) = Rig::open(&[&a.0, &b.0, &a.0], engine, direct) else { continue };
        let how = rig.backend.describe();
        assert_eq!(rig.backend.file(1).size, 2 * SIZE as u64, "{how}");
        rig.part(0)[..PAGE].fill(5);
        let pieces = rig.pieces(0, &[PAGE]);
        let work = Work::Write { fua: false };
        let offset = SIZE as u64;
        let length = PAGE as u64;
        let job = Job { slot: 0, work, file: 1, offset, length, pieces: &pieces, sector: 0 };
        // SAFETY: as in `submit`.
        unsafe { rig.backend.submit(rig.now, job) }.unwrap();
        rig.backend.kick();
        assert_eq!(rig.next().error, 0, "{how}");
        assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}");
        let mut found = [0; 2];
        fs::File::open(&b.0).unwrap().read_exact_at(&mut found, offset).unwrap();
        assert_eq!(found, [5, 5], "{how}");
    }
}

/// Are holes told where they are, and does who asks stop it?
#[test]
fn extents_tell_holes() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        let Some(mut rig) = Rig::open(&[&file.0], engine, direct) else { continue };
        let how = format!("{} in {}", rig.backend.describe(), folder.display());
        // The second quarter has data; whole quarters suit any file system's blocks.
        let (quarter, data) = (SIZE / 4, pattern(1, SIZE / 16));
        for part in 0..4 {
            let at = quarter + part * data.len();
            assert_eq!(rig.write(at, &data, &[data.len()], false), 0, "{how}");
        }
        let mut found = Vec::new();
        let tell = &mut |extent: Extent| {
            found.push((extent.length, extent.hole));
            true
        };
        rig.backend.extents(0, 0, SIZE as u64, tell).unwrap();
        let quarter = quarter as u64;
        if rig.backend.file(0).discards {
            let expected = [(quarter, true), (quarter, false), (2 * quarter, true)];
            assert_eq!(found, expected, "{how}");
        }
        assert_eq!(found.iter().map(|(length, _)| length).sum::<u64>(), SIZE as u64, "{how}");
        let mut count = 0;
        let one = &mut |_| {
            count += 1;
            false
        };
        rig.backend.extents(0, 0, SIZE as u64, one).unwrap();
        assert_eq!(count, 1, "{how}");
    }
}

/// Does a discard give the space back, and zeroing without unmapping keep it?
#[test]
fn holes_give_space_back() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        fs::write(&file.0, vec![1; SIZE]).unwrap();
        let Some(mut rig) = Rig::open(&[&file.0], engine, direct) else { continue };
        let how = format!("{} in {}", rig.backend.describe(), folder.display());
        if !rig.backend.file(0).discards {
            eprintln!("skipped: no holes in {}", folder.display());
            continue;
        }
        let keep = Work::Zero { may_unmap: false, fua: true };
        assert_eq!(rig.run(keep, 0, SIZE / 2, &[]), 0, "{how}");
        let sectors = || fs::metadata(&file.0).unwrap().blocks();
        assert!(sectors() >= SIZE as u64 / 512, "{how}: {} sectors", sectors());
        assert_eq!(rig.run(Work::Discard, SIZE / 2, SIZE / 2, &[]), 0, "{how}");
        assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}");
        assert!(sectors() < SIZE as u64 / 512, "{how}: {} sectors", sectors());
        assert_eq!(fs::metadata(&file.0).unwrap().len(), SIZE as u64, "{how}");
    }
}

/// Is a range that no call of the system clears written full of zeroes?
#[test]
fn what_cannot_be_cleared_is_written() {
    for folder in folders() {
        let file = Temporary::new(&folder, SIZE);
        let opened = || {
            let opened = File::open(&file.0, Direct::Auto, false).unwrap();
            opened.refusals.refuse_all();
            vec![opened]
        };
        let mut backends: Vec<Box<dyn Backend>> =
            vec![Box::new(Inline::new(opened(), 8)), Box::new(Threads::new(opened(), 8).unwrap())];
        match Uring::new(opened(), 8) {
            Ok(uring) => backends.push(Box::new(uring)),
            Err((_, error)) => eprintln!("skipped: io_uring: {error}"),
        }
        for backend in backends {
            let mut rig = Rig::new(backend);
            fs::write(&file.0, vec![1; SIZE]).unwrap();
            let how = rig.backend.describe();
            let zero = Work::Zero { may_unmap: true, fua: true };
            assert_eq!(rig.run(zero, PAGE, SIZE - 2 * PAGE, &[]), 0, "{how}");
            assert_eq!(rig.run(Work::Discard, 0, PAGE, &[]), 0, "{how}: it is a hint");
            let found = fs::read(&file.0).unwrap();
            assert_eq!(found[..PAGE], vec![1; PAGE], "{how}");
            assert_eq!(found[PAGE..SIZE - PAGE], vec![0; SIZE - 2 * PAGE], "{how}");
            assert_eq!(found[SIZE - PAGE..], vec![1; PAGE], "{how}");
        }
    }
}

/// May a backend move to its thread before it is used, and be ended with jobs under way?
#[test]
fn a_backend_moves_to_its_thread() {
    for (folder, engine, direct) in engines() {
        let file = Temporary::new(&folder, SIZE);
        let Some(mut rig) = Rig::open(&[&file.0], engine, direct) else { continue };
        let thread = std::thread::spawn(move || {
            assert_eq!(rig.read(0, &[PAGE]).unwrap(), vec![0; PAGE], "{}", rig.backend.describe());
            let pieces = rig.pieces(0, &[PAGE]);
            (0..8).for_each(|slot| rig.submit(slot, Work::Read, 0, PAGE, &pieces));
        });
        thread.join().unwrap();
    }
}

/// Is a file on tmpfs done at once, another one not, and one that must not be so told?
#[test]
fn auto_chooses_by_the_file() {
    for folder in folders() {
        let file = Temporary::new(&folder, SIZE + 100);
        let opened = open(&config(&[&file.0], Engine::Auto, Direct::Auto)).unwrap();
        let at_once = opened.backend.describe().starts_with("at once");
        if folder.starts_with("/dev/shm") {
            assert!(at_once, "{opened:?}");
        }
        assert_eq!(at_once, opened.backend.describe().ends_with("files in memory"));
        assert_eq!(opened.backend.file(0).size, SIZE as u64);
        let note = opened.note.unwrap();
        assert!(note.contains("the last 100 bytes are no block of"), "{note}");
    }
}

/// Do errors name what, and what would be right?
#[test]
fn errors_say_what_would_be_right() {
    let said = |path: &Path, engine, change: &dyn Fn(&mut Device)| {
        let mut config = config(&[path], engine, Direct::Auto);
        change(&mut config);
        open(&config).unwrap_err().to_string()
    };
    let keep = |_: &mut Device| {};
    let empty = Temporary::new(&std::env::temp_dir(), 100);
    let nowhere = Path::new("/nowhere/disk");
    let text = said(nowhere, Engine::Auto, &keep);
    assert!(text.starts_with("/nowhere/disk: it is not there: No such file"), "{text}");
    let text = said(Path::new("/dev"), Engine::Auto, &keep);
    assert_eq!(text, "/dev: it is a folder; a volume is a regular file or a block device");
    let text = said(Path::new("/dev/null"), Engine::Auto, &keep);
    assert!(text.contains("it is a character device"), "{text}");
    let text = said(&empty.0, Engine::Auto, &keep);
    assert!(text.contains("it has 100 bytes, and a volume has at least one block"), "{text}");
    let text = said(&empty.0, Engine::Model("hdd".to_owned()), &keep);
    assert!(text.starts_with("model hdd: there is no such model; there are array-eva"), "{text}");
    let text = said(&empty.0, Engine::Auto, &|config| config.depth = Some(0));
    assert_eq!(text, "device d: its depth is 0 where 1 to 10240 can be");
}

/// Does a model say when a job ends, and keeps it from being told before?
#[test]
fn a_model_tells_the_time() {
    // A request of 4 KiB takes the card 1.116 ms + 4 * 46.04 us = 1.30016 ms (its device file);
    // the first one may cost a little more, for it comes from elsewhere.
    let file = Temporary::new(&std::env::temp_dir(), SIZE);
    let card = Engine::Model("flash-card-2010".to_owned());
    let mut rig = Rig::open(&[&file.0], card, Direct::Auto).unwrap();
    assert_eq!(rig.backend.facts().depth, 1, "the card has no queue");
    let pieces = rig.pieces(0, &[PAGE]);
    rig.submit(0, Work::Read, 0, PAGE, &pieces);
    let due = rig.backend.deadline().expect("it ends some time");
    assert!((1_300_160..2_600_320).contains(&due.0), "{due:?}");
    let mut finished = Vec::new();
    rig.backend.reap(Nanos(due.0 - 1), &mut finished);
    assert_eq!(finished, []);
    rig.backend.reap(due, &mut finished);
    assert_eq!(finished, [Finished { slot: 0, error: 0 }]);
}

/// Does a plan of faults strike as it says: each third read fails, writes come late, and every
/// fourth job is refused?
#[test]
fn faults_strike_by_plan() {
    let file = Temporary::new(&std::env::temp_dir(), SIZE);
    let opened = open(&config(&[&file.0], Engine::Threads, Direct::No)).unwrap();
    let fault = |which, often, effect| Fault { which, often, effect };
    let faults = [
        fault(Which::Reads, Often::Every(3), Effect::Fails(libc::EIO)),
        fault(Which::Writes, Often::Every(1), Effect::Late(Nanos(1000))),
        fault(Which::Writes, Often::Every(2), Effect::FailsAfterwards(libc::ENOSPC)),
        fault(Which::Flushes, Often::Every(2), Effect::Refused),
    ];
    let mut rig = Rig::new(Box::new(Faulty::new(opened.backend, &faults, 1)));
    let reads: Vec<i32> = (0..6).map(|_| rig.read(0, &[PAGE]).err().unwrap_or(0)).collect();
    assert_eq!(reads, [0, 0, libc::EIO, 0, 0, libc::EIO]);
    assert_eq!(rig.now, Nanos::ZERO, "nothing was late so far");
    assert_eq!(rig.write(0, &pattern(1, PAGE), &[PAGE], false), 0);
    assert_eq!(rig.now, Nanos(1000));
    assert_eq!(rig.write(0, &pattern(2, PAGE), &[PAGE], false), libc::ENOSPC);
    assert_eq!(rig.read(0, &[PAGE]).unwrap(), pattern(2, PAGE), "it was done all the same");
    assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0);
    let (work, pieces) = (Work::Flush, &[][..]);
    let job = Job { slot: 0, work, file: 0, offset: 0, length: 0, pieces, sector: 0 };
    // SAFETY: there are no pieces.
    assert_eq!(unsafe { rig.backend.submit(rig.now, job) }, Err(Full));
}

/// A step of the property: at which block, how many, what.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<usize>, bool),
    Read(Vec<usize>),
    Zero(usize, bool),
    Discard(usize),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let cuts = || prop::collection::vec(1usize..4, 1..5);
    prop_oneof![
        (cuts(), any::<bool>()).prop_map(|(cuts, fua)| Step::Write(cuts, fua)),
        cuts().prop_map(Step::Read),
        (1usize..16, any::<bool>()).prop_map(|(blocks, unmap)| Step::Zero(blocks, unmap)),
        (1usize..16).prop_map(Step::Discard),
        Just(Step::Flush),
    ]
}

/// Blocks of the property's file.
const BLOCKS: usize = 32;

fn same_as_memory(rig: &mut Rig, steps: &[(usize, Step)]) -> Result<(), TestCaseError> {
    let (block, how) = (rig.backend.file(0).block as usize, rig.backend.describe());
    let mut model = vec![0u8; BLOCKS * block];
    for (turn, (place, step)) in steps.iter().enumerate() {
        let room = |blocks: usize| (place % (BLOCKS + 1 - blocks)) * block;
        let bytes = |cuts: &[usize]| cuts.iter().map(|cut| cut * block).collect::<Vec<_>>();
        match step {
            Step::Write(cuts, fua) => {
                let (at, cuts) = (room(cuts.iter().sum()), bytes(cuts));
                let data = pattern(turn, cuts.iter().sum());
                prop_assert_eq!(rig.write(at, &data, &cuts, *fua), 0, "{}", how);
                model[at..at + data.len()].copy_from_slice(&data);
            }
            Step::Read(cuts) => {
                let (at, cuts) = (room(cuts.iter().sum()), bytes(cuts));
                let data = rig.read(at, &cuts).unwrap();
                prop_assert!(data == model[at..at + data.len()], "{}: read at {}", how, at);
            }
            Step::Zero(blocks, may_unmap) => {
                let (at, length) = (room(*blocks), blocks * block);
                let work = Work::Zero { may_unmap: *may_unmap, fua: false };
                prop_assert_eq!(rig.run(work, at, length, &[]), 0, "{}", how);
                model[at..at + length].fill(0);
            }
            Step::Discard(blocks) => {
                let (at, length) = (room(*blocks), blocks * block);
                prop_assert_eq!(rig.run(Work::Discard, at, length, &[]), 0, "{}", how);
                if rig.backend.file(0).discards {
                    model[at..at + length].fill(0);
                }
            }
            Step::Flush => prop_assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{}", how),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Does a file behind any backend hold what memory would hold?
    #[test]
    fn a_file_is_as_memory(steps in prop::collection::vec((0usize..BLOCKS, step()), 1..24)) {
        for (folder, engine, direct) in engines() {
            let file = Temporary::new(&folder, BLOCKS * PAGE);
            if let Some(mut rig) = Rig::open(&[&file.0], engine, direct) {
                same_as_memory(&mut rig, &steps)?;
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One body of tests for all backends: they must all behave alike.
//!
//! * `rig`: a backend with what it needs; `property`: random work compared with memory;
//!   `particular`: what only some backends do.

mod particular;
mod property;
mod rig;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use self::rig::{PAGE, Rig, SIZE, Temporary, byte, config, engines, folders, pattern};
use super::files::File;
use super::inline::Inline;
use super::open::open;
use super::system::System;
use super::threads::Threads;
use super::uring::Uring;
use super::{Backend, Extent, Full, Job, Work};
use crate::config::Direct;

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
            let work = Work::Zero { may_unmap, fua: true, fast: false };
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

/// Is a range outside of a file refused, and a read-only file kept?
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

/// Do reads beyond the end of a file that was truncated fail, and never return half of the data?
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

/// Does a flush concern every file: does it fail whichever file has lost data?
#[test]
fn a_flush_concerns_every_file() {
    let (a, b) =
        (Temporary::new(&std::env::temp_dir(), SIZE), Temporary::new(&std::env::temp_dir(), SIZE));
    for lost in [0, 1] {
        let opened = || -> Vec<File> {
            let open = |path| File::open(&System::default(), path, Direct::Auto, false).unwrap();
            let files = vec![open(&a.0), open(&b.0)];
            files[lost].durability.failed(libc::ENOSPC);
            files
        };
        let mut backends: Vec<Box<dyn Backend>> =
            vec![Box::new(Inline::new(opened(), 8)), Box::new(Threads::new(opened(), 8).unwrap())];
        match Uring::new(opened(), 8) {
            Ok(uring) => backends.push(Box::new(uring)),
            Err((_, error)) => eprintln!("skipped: a_flush_concerns_every_file: io_uring: {error}"),
        }
        for backend in backends {
            let mut rig = Rig::new(backend);
            let how = rig.backend.describe();
            assert_eq!(rig.run(Work::Flush, 0, 0, &[]), libc::ENOSPC, "{how}: file {lost}");
        }
    }
}

/// Are holes reported where they are, and can the asker stop the survey?
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
            eprintln!("skipped: holes_give_space_back: no holes in {}", folder.display());
            continue;
        }
        let keep = Work::Zero { may_unmap: false, fua: true, fast: false };
        assert_eq!(rig.run(keep, 0, SIZE / 2, &[]), 0, "{how}");
        let sectors = || fs::metadata(&file.0).unwrap().blocks();
        assert!(sectors() >= SIZE as u64 / 512, "{how}: {} sectors", sectors());
        assert_eq!(rig.run(Work::Discard, SIZE / 2, SIZE / 2, &[]), 0, "{how}");
        assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}");
        assert!(sectors() < SIZE as u64 / 512, "{how}: {} sectors", sectors());
        assert_eq!(fs::metadata(&file.0).unwrap().len(), SIZE as u64, "{how}");
    }
}

/// Is a range that no call of the system clears written full of zeroes, and given up at once where
/// that is to be fast?
#[test]
fn what_cannot_be_cleared_is_written() {
    for folder in folders() {
        let file = Temporary::new(&folder, SIZE);
        let opened = || {
            let opened = File::open(&System::default(), &file.0, Direct::Auto, false).unwrap();
            opened.refusals.refuse_all();
            vec![opened]
        };
        let mut backends: Vec<Box<dyn Backend>> =
            vec![Box::new(Inline::new(opened(), 8)), Box::new(Threads::new(opened(), 8).unwrap())];
        match Uring::new(opened(), 8) {
            Ok(uring) => backends.push(Box::new(uring)),
            Err((_, error)) => {
                eprintln!("skipped: what_cannot_be_cleared_is_written: io_uring: {error}");
            }
        }
        for backend in backends {
            let mut rig = Rig::new(backend);
            fs::write(&file.0, vec![1; SIZE]).unwrap();
            let how = rig.backend.describe();
            let zero = |fast| Work::Zero { may_unmap: true, fua: true, fast };
            let fast = rig.run(zero(true), PAGE, SIZE - 2 * PAGE, &[]);
            assert_eq!(fast, libc::EOPNOTSUPP, "{how}");
            assert_eq!(fs::read(&file.0).unwrap(), vec![1; SIZE], "{how}");
            assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{how}: nothing is in doubt");
            assert_eq!(rig.run(zero(false), PAGE, SIZE - 2 * PAGE, &[]), 0, "{how}");
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

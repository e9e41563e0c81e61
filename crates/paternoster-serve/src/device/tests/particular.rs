// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only some backends do: being chosen automatically, refusing with a message, a model's time,
//! faults.

use std::path::Path;

use paternoster_core::Nanos;

use super::rig::{PAGE, Rig, SIZE, Temporary, config, folders, pattern};
use crate::config::{Device, Direct, Engine};
use crate::device::faulty::{Effect, Fault, Faulty, Often, Which};
use crate::device::open::open;
use crate::device::{Finished, Full, Job, Work};

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

/// Does a model say when a job ends, and is it not reported earlier?
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled device as a file: its data, its flushes, its end. Whether it takes the time that the
//! model says is in `tests/real_time/emulate.rs`.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::RwLockReadGuard;

use paternoster_serve::emulate::{Emulated, Emulation};

use super::with_files;
use crate::common::emulated::{self, MIB, Rig, emulated, two_at_a_time};
use crate::common::{Folder, uneven};

/// The turn of a test with files; `None`, and a line that says why, if this machine cannot.
fn can() -> Option<RwLockReadGuard<'static, ()>> {
    emulated::can().then(with_files)
}

/// Is it one file of its size, which does not change when opened or truncated?
#[test]
fn it_is_a_device() {
    let Some(_turn) = can() else { return };
    let rig = Rig::new(two_at_a_time(), |_| {});
    let mount = rig.folder.path("mount");
    let names: Vec<_> =
        std::fs::read_dir(&mount).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["two-at-a-time"]);
    let file = rig.open();
    file.set_len(5).unwrap();
    drop(File::create(rig.emulation.file()).unwrap());
    assert_eq!(file.metadata().unwrap().len(), 32 * MIB);
    let denied = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    assert!(File::create(mount.join("other")).is_err_and(denied));
    assert!(std::fs::remove_file(rig.emulation.file()).is_err_and(denied));
    // Reads end at the end, writes fill it and find no room beyond.
    assert_eq!(file.write_at(&[1; 100], 32 * MIB - 12).unwrap(), 12);
    assert_eq!(file.read_at(&mut [0; 100], 32 * MIB - 12).unwrap(), 12);
    assert_eq!(file.read_at(&mut [0; 100], 32 * MIB).unwrap(), 0);
    let full = file.write_at(&[1; 100], 32 * MIB).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    drop(file);
    let told = rig.emulation.finish().unwrap();
    assert_eq!(told.commands, 2);
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
}

/// Is what was written read again, cut and ragged as it may be, and everything else zeroes?
#[test]
fn data_come_back() {
    let Some(_turn) = can() else { return };
    let rig = Rig::new(two_at_a_time(), |_| {});
    let (file, data) = (rig.open(), uneven(300_001));
    file.write_all_at(&data, 777).unwrap();
    let mut back = vec![9; data.len() + 10];
    file.read_exact_at(&mut back, 772).unwrap();
    assert_eq!(back[..5], [0; 5]);
    assert!(back[5..5 + data.len()] == data);
    assert_eq!(back[5 + data.len()..], [0; 5]);
    // Without the page cache, too: it has no part in it anyway.
    assert!(rig.open_direct().read_at(&mut [0; 512], 0).is_ok());
}

/// Do data in a file outlive the emulation, and is the file sparse?
#[test]
fn data_survive_in_a_file() {
    let Some(_turn) = can() else { return };
    let place = Folder::in_memory("emulate-data");
    let data = place.path("data");
    for round in 0..2u8 {
        let rig = Rig::new(two_at_a_time(), |emulated| emulated.data = Some(data.clone()));
        let (file, mut found) = (rig.open(), [9]);
        file.read_exact_at(&mut found, 5 * MIB).unwrap();
        assert_eq!(found, [round]);
        file.write_all_at(&[round + 1], 5 * MIB).unwrap();
        drop(file);
        rig.emulation.finish().unwrap();
    }
    assert_eq!(std::fs::metadata(&data).unwrap().len(), 32 * MIB);
}

/// Does a punched or zeroed range read as zeroes, and is what no disk does refused?
#[test]
fn ranges_are_cleared() {
    let Some(_turn) = can() else { return };
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open();
    file.write_all_at(&[7; 4096], 0).unwrap();
    let allocate = |mode, offset, length| {
        // SAFETY: a descriptor that is open, and numbers.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error()) }
    };
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    allocate(libc::FALLOC_FL_PUNCH_HOLE | keep, 10, 10).unwrap();
    allocate(libc::FALLOC_FL_ZERO_RANGE, 100, 10).unwrap();
    assert_eq!(allocate(0, 0, 4096), Err(Some(libc::EOPNOTSUPP)));
    let mut back = [9; 4096];
    file.read_exact_at(&mut back, 0).unwrap();
    let zeroes = back.iter().filter(|&&byte| byte == 0).count();
    assert_eq!((zeroes, back[10], back[19], back[100], back[109]), (20, 0, 0, 0, 0));
    assert_eq!((rig.kind("discard").commands, rig.kind("write").commands), (1, 2));
}

/// Has a device without a write cache nothing to flush?
#[test]
fn without_a_cache_there_is_nothing_to_flush() {
    let Some(_turn) = can() else { return };
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open();
    file.write_all_at(&[1; 512], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(rig.emulation.finish().unwrap().commands, 1);
}

/// Does an emulation that is still used end, its mount go, and its user learn of it?
#[test]
fn who_still_uses_it_learns_of_the_end() {
    let Some(_turn) = can() else { return };
    let rig = Rig::new(two_at_a_time(), |_| {});
    let (file, mount) = (rig.open(), rig.folder.path("mount"));
    let why = rig.emulation.finish().unwrap_err();
    assert!(why.contains("two-at-a-time open"), "{why}");
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
    assert!(file.read_at(&mut [0; 512], 0).is_err());
}

/// Does a panic leave no mount behind?
#[test]
fn a_panic_unmounts() {
    let Some(_turn) = can() else { return };
    let folder = Folder::in_memory("emulate-panic");
    let mount = folder.path("mount");
    std::fs::create_dir(&mount).unwrap();
    let emulated = emulated(two_at_a_time(), mount.clone());
    let panicked = std::thread::spawn(move || {
        let emulation = Emulation::start(&emulated).unwrap();
        assert!(!emulation.file().exists(), "a panic that is meant");
    });
    assert!(panicked.join().is_err());
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
}

/// Is a folder that is not fit refused before anything is mounted, and one of a device that is
/// too small?
#[test]
fn what_cannot_be_is_said() {
    let folder = Folder::in_memory("emulate-unfit");
    let mount = folder.path("mount");
    let refusal = |emulated: &Emulated| Emulation::start(emulated).unwrap_err();
    let mut asked = emulated(two_at_a_time(), mount.clone());
    assert!(refusal(&asked).contains("mkdir"));
    std::fs::create_dir(&mount).unwrap();
    std::fs::write(mount.join("something"), "").unwrap();
    assert!(refusal(&asked).contains("not empty"));
    std::fs::remove_file(mount.join("something")).unwrap();
    asked.size = Some(65 * MIB);
    if can().is_some() {
        assert!(refusal(&asked).contains("more than two at a time has"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems and databases on disks that we serve.
//!
//! The server is the program as users start it; its disk becomes a file, by nbdfuse or by itself,
//! and the file a loop device (`disk`). On that real file systems are made (`kind`), filled
//! (`files`), used by programs that are particular about their data (`programs`, `postgres`),
//! checked by their own tools, and the server is killed in the middle of it (`killed`).
//!
//! It needs root, FUSE and loop devices, and the programs; a test that lacks something says so in
//! one line and passes.

mod disk;
mod files;
mod killed;
mod kind;
mod postgres;
mod process;
mod programs;
mod tools;

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use disk::{Disk, Place, Way};
use files::{Tree, check_full, fill_up};
use kind::Kind;
use process::until;

/// Files, as people leave them; and the same files after the disk has gone and come back.
fn keeps_files(mut disk: Disk, kind: Kind) {
    let mounted = kind.mount(&disk);
    let tree = Tree::grow(mounted.path(), 400);
    mounted.unmount();
    kind.check(&disk);
    disk.detach();
    disk.attach();
    let mounted = kind.mount(&disk);
    tree.check(mounted.path());
    mounted.unmount();
    kind.check(&disk);
    disk.detach();
}

/// A full disk, and the files on it.
fn is_filled(mut disk: Disk, kind: Kind) {
    let mounted = kind.mount(&disk);
    let tree = Tree::grow(mounted.path(), 100);
    let files = fill_up(mounted.path());
    assert!(files > 20, "{files} MiB found room");
    mounted.unmount();
    kind.check(&disk);
    let mounted = kind.mount(&disk);
    tree.check(mounted.path());
    check_full(mounted.path(), files);
    mounted.unmount();
    disk.detach();
}

/// A test that fails while a file of its disk is open, which makes unmounting hard.
fn leaves_nothing(disk: Disk, kind: Kind) {
    let folder = disk.aside("");
    let device = disk.device().file_name().expect("a device").to_owned();
    let mut open = None;
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let disk = disk;
        let mounted = kind.mount(&disk);
        open = Some(File::create(mounted.path().join("file")).expect("a file"));
        // Not a panic that would be printed.
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(failed.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(!folder.exists(), "{} is still there", folder.display());
    drop(open);
    let attached = Path::new("/sys/block").join(device).join("loop/backing_file");
    let ours = || fs::read_to_string(&attached).is_ok_and(|file| file.trim().ends_with("/disk"));
    assert!(until(Duration::from_secs(60), || !ours()), "the loop device is still there");
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!mounts.contains(folder.to_str().expect("UTF-8")), "{mounts}");
}

/// MiB for PostgreSQL: an empty database takes 40, the bank 20, its log up to 80 of 1024 or less.
const DATABASE: u64 = 320;

/// All tests, for each way in which a disk can be shown.
macro_rules! asked_of {
    ($module:ident, $way:expr) => {
        mod $module {
            use super::*;

            /// Does ext4 keep its files, and stay sound?
            #[test]
            fn ext4_keeps_files() {
                if let Some(disk) = Kind::Ext4.disk($way, Place::OnDisk) {
                    keeps_files(disk, Kind::Ext4);
                }
            }

            /// Does xfs keep its files, and stay sound?
            #[test]
            fn xfs_keeps_files() {
                if let Some(disk) = Kind::Xfs.disk($way, Place::OnDisk) {
                    keeps_files(disk, Kind::Xfs);
                }
            }

            /// Does a full disk cause "no space left", and nothing worse?
            #[test]
            fn ext4_is_filled() {
                if let Some(disk) = Kind::Ext4.disk($way, Place::InMemory) {
                    is_filled(disk, Kind::Ext4);
                }
            }

            /// After a failing test, does neither its mount nor its loop device remain?
            #[test]
            fn a_failure_leaves_nothing() {
                if let Some(disk) = Kind::Ext4.disk($way, Place::OnDisk) {
                    leaves_nothing(disk, Kind::Ext4);
                }
            }

            /// Does fsx read what it wrote, through ext4?
            #[test]
            fn fsx_on_ext4() {
                if let Some(disk) = Kind::Ext4.disk($way, Place::InMemory) {
                    programs::exercise(disk, Kind::Ext4);
                }
            }

            /// Does fsx read what it wrote, through xfs?
            #[test]
            fn fsx_on_xfs() {
                if let Some(disk) = Kind::Xfs.disk($way, Place::InMemory) {
                    programs::exercise(disk, Kind::Xfs);
                }
            }

            /// Does fsx read what it wrote, on the disk itself?
            #[test]
            fn fsx_on_the_file() {
                if let Some(disk) = Disk::new($way, Place::InMemory, 4) {
                    programs::exercise_device(disk, $way);
                }
            }

            /// Do SQLite's transactions survive, and are its files whole?
            #[test]
            fn sqlite() {
                if let Some(disk) = Kind::Ext4.disk($way, Place::InMemory) {
                    programs::sqlite(disk, Kind::Ext4);
                }
            }

            /// Is a clone of this repository whole?
            #[test]
            fn git() {
                if let Some(disk) = Kind::Xfs.disk($way, Place::InMemory) {
                    programs::git(disk, Kind::Xfs);
                }
            }

            /// Do the books of pgbench's bank balance?
            #[test]
            fn pgbench() {
                if let Some(disk) = Kind::Ext4.disk_of($way, Place::InMemory, DATABASE) {
                    postgres::pgbench(disk, Kind::Ext4);
                }
            }

            /// Is everything that ext4 had synced there after `kill -9` of the server?
            #[test]
            fn ext4_outlives_its_server() {
                if let Some(disk) = Kind::Ext4.disk($way, Place::OnDisk) {
                    killed::killed(disk, Kind::Ext4);
                }
            }

            /// Is everything that xfs had synced there after `kill -9` of the server?
            #[test]
            fn xfs_outlives_its_server() {
                if let Some(disk) = Kind::Xfs.disk($way, Place::OnDisk) {
                    killed::killed(disk, Kind::Xfs);
                }
            }
        }
    };
}

asked_of!(over_nbd, Way::Nbd);
asked_of!(over_fuse, Way::Fuse);
